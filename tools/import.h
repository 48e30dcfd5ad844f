// SPDX-License-Identifier: Apache-2.0
// krafla import: a module from a model of another framework.
#pragma once

#include <string>
#include <vector>

#include "command.h"

namespace krafla::cli {

struct ImportCommand {
  std::string model, output;
  std::vector<std::string> shapes;  // x=1,3,48,192
  std::vector<std::string> values;  // sr=16000
  bool json = false;

  void AddTo(CLI::App& app, int& code);

 private:
  int Run() const;
};

}  // namespace krafla::cli
