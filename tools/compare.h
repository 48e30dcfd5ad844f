// SPDX-License-Identifier: Apache-2.0
// krafla compare: two devices, sets of options or builds on one module: speed, results, and where they begin to differ.
#pragma once

#include <string>
#include <vector>

#include "command.h"

namespace krafla::cli {

struct CompareCommand {
  std::string module, a, b, binary, reference;
  std::vector<std::string> shapes;
  int pairs = 11;
  int64_t ulp = 0;
  double atol = 0;
  uint64_t seed = 0;
  bool bisect = false, json = false;

  void AddTo(CLI::App& app, int& code);

 private:
  int Run() const;
};

}  // namespace krafla::cli
