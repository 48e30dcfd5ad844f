// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "program.h"

namespace krafla::testing {

struct OpCase {
  enum How { kValues, kSize, kBuildOnly };  // kSize: random values; kBuildOnly: needs a host or other devices
  const char* name;
  void (*build)(Program& p);     // the last op is the result
  std::vector<double> expected;  // of all arrays of the result
  double tolerance = 0;          // relative, and absolute below 1
  How check = kValues;
};

std::vector<OpCase> ElementwiseCases();
std::vector<OpCase> FormulaCases();
std::vector<OpCase> MovementCases();
std::vector<OpCase> ComputeCases();
std::vector<OpCase> ControlCases();

}  // namespace krafla::testing
