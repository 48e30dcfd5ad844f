// SPDX-License-Identifier: Apache-2.0
// What `krafla tune` found on a device, kernel by kernel, and the settings that it tries.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "device/device_profile.h"
#include "krafla/status.h"

namespace krafla {

// A setting of Tuning's fields to try for the kernels of a family, as OverrideTuning reads it.
struct TuningCandidate {
  std::string_view family;  // plan::FamilyName
  std::string_view json;
  bool other_sums = false;  // sums are cut into other parts: the last bits of a result may differ
};
std::span<const TuningCandidate> TuningCandidates();

// The fastest setting of one kernel.
struct TunedKernel {
  std::string name, family;              // for people; `name` as the first module that had the kernel calls it
  std::string tuning;                    // for OverrideTuning; empty: nothing was faster than the device's own tuning
  std::string default_variant, variant;  // without and with it
  double default_ms = 0, ms = 0;
  bool other_sums = false;  // it adds in another order than the default
  bool operator==(const TunedKernel&) const = default;
};

struct TunedKernels {
  std::map<std::string, TunedKernel> kernels;  // by problem
  bool operator==(const TunedKernels&) const = default;
};

// As JSON that names the device, its driver and the version of krafla, which ParseTuned holds against `profile` and
// its own: FAILED_PRECONDITION where it is of others. Settings that OverrideTuning refuses are INVALID_ARGUMENT.
std::string TunedToJson(const TunedKernels& tuned, const DeviceProfile& profile);
Result<TunedKernels> ParseTuned(std::string_view json, const DeviceProfile& profile);

}  // namespace krafla
