// SPDX-License-Identifier: Apache-2.0
// krafla compile: a program made ready ahead of time, in a file that loads without passes.
#pragma once

#include <string>
#include <vector>

#include "command.h"

namespace krafla::cli {

struct CompileCommand {
  std::string model, output, weights, weights_out;
  std::vector<std::string> targets, shapes, disabled;
  bool json = false;

  void AddTo(CLI::App& app, int& code);

 private:
  int Run() const;
};

}  // namespace krafla::cli
