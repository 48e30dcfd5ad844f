// SPDX-License-Identifier: Apache-2.0
// krafla explain: why a program is as it is on a device.
#pragma once

#include <string>
#include <vector>

#include "command.h"

namespace krafla::cli {

struct ExplainCommand {
  DeviceOptions device;
  std::string module, instruction;
  std::vector<std::string> shapes;
  bool arena = false;
  int64_t replicas = 0, partitions = 0;  // 0: as the module, or the recorded case, says

  void AddTo(CLI::App& app, int& code);

 private:
  int Run() const;
};

}  // namespace krafla::cli
