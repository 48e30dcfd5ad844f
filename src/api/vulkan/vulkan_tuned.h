// SPDX-License-Identifier: Apache-2.0
// Settings of kernels that were timed on the device, kept in the cache folder for every later compilation.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "api/client.h"
#include "device/tuned_kernels.h"

namespace krafla {

struct StoredTuned {
  TunedKernels tuned;
  std::string ignored;  // why a file that is there is not used, as a sentence
};
StoredTuned ReadTuned(const DeviceProfile& profile);
// DATA_LOSS where it cannot be written, FAILED_PRECONDITION where there is no cache folder.
Result<> WriteTuned(const TunedKernels& tuned, const DeviceProfile& profile);
// Where; empty: nowhere.
std::string TunedPath(const DeviceProfile& profile);

struct TuneOptions {
  double budget_ms = 60e3;  // nothing new is begun after that
  int most_candidates = 0;  // timed in all; 0: as many as there are. In place of the clock, for equal work in each run
  bool allow_other_sums = false;
  bool again = false;  // also kernels that were tuned before
  std::function<void(int kernel, int of, const std::string& name)> progress = nullptr;
};

struct TuneReport {
  int kernels = 0;     // of the module that the device runs
  int known = 0;       // of those that were tuned before
  int done = 0;        // of the others, those that were timed
  int faster = 0;      // of those that have another setting now
  int candidates = 0;  // timed
  int other_sums = 0;  // faster by that time, but not taken as they add in another order
  int wrong = 0;       // refused, as results differed where no order of sums explains it
  std::vector<std::string> notes;
  bool out_of_budget = false;
};

// Times the settings of TuningCandidates() for each kernel of the module, on arguments made from a fixed seed, and adds
// the fastest to `tuned`. A setting is taken where every bit of the results is that of the device's own tuning; where
// sums are cut or ordered differently, with `allow_other_sums` only, and then if results agree as sums do.
Result<TuneReport> TuneModule(std::string_view selector, std::unique_ptr<Module> module, const CompileOptions& options,
                              const TuneOptions& tune, TunedKernels& tuned);

// The profile that a selector's programs are compiled for, after the self-test.
Result<DeviceProfile> TestedProfile(std::string_view selector);

}  // namespace krafla
