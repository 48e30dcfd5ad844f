// SPDX-License-Identifier: Apache-2.0
// What an application does with krafla in weeks, a round of everything at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/client.h"
#include "api/group/device_group.h"
#include "recorded/corpus.h"

namespace krafla {

// A recorded network and what it is compiled from.
struct SoakedNetwork {
  RecordedCase recorded;
  std::string bytes;
};

class Workload {
 public:
  // So many rounds differ from each other; then they begin anew.
  static constexpr int64_t kCycle = 6;

  // `models`: the folder tests/models. `cache`: KRAFLA_CACHE_DIR of this process, which rounds empty now and then. What
  // is made here stays for all rounds, as an application's own client and network do.
  static Result<std::unique_ptr<Workload>> Create(const std::string& models, std::string device, std::string cache);

  // Runs of what is there; programs and devices made, used and let go of; a group of virtual devices; several threads;
  // and calls that have to fail, each followed by a run that has to be right. DATA_LOSS for a wrong result, INTERNAL
  // for a call that should have failed or failed otherwise.
  Result<> Round(int64_t round);

  const std::string& device_description() const { return client_->device().description; }

 private:
  Result<> LastingRuns();
  Result<> NewPrograms(int64_t round);
  Result<> NewDevice(int64_t round);
  Result<> VirtualDevices();
  Result<> Threads(int64_t round);
  Result<> FailedCalls();

  std::string device_, cache_;
  std::vector<SoakedNetwork> networks_;
  SoakedNetwork together_;
  std::shared_ptr<Client> client_;
  std::unique_ptr<Executable> lasting_, endless_;
};

}  // namespace krafla
