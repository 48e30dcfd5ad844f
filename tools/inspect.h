// SPDX-License-Identifier: Apache-2.0
// krafla inspect: what a module takes, gives and holds, and where it would run.
#pragma once

#include <string>
#include <vector>

#include "command.h"

namespace krafla::cli {

struct InspectCommand {
  DeviceOptions device;
  std::string module;
  std::vector<std::string> shapes;
  int64_t replicas = 0, partitions = 0;  // 0: as the module, or the recorded case, says

  void AddTo(CLI::App& app, int& code);

 private:
  int Run() const;
};

}  // namespace krafla::cli
