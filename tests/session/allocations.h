// SPDX-License-Identifier: Apache-2.0
// How often the process allocates, whoever does it: malloc and operator new of the test program take the place of the
// C and C++ libraries'.
#pragma once

#include <cstdint>

namespace krafla::testing {

struct Allocations {
  bool are_counted = false;  // a sanitizer may have malloc
  int64_t all = 0;           // but for those of oneDNN
  int64_t onednn = 0;        // by its library: dnnl_primitive_execute makes objects of its own each time
};
// Since the last call, by all threads.
Allocations TakeAllocations();

}  // namespace krafla::testing
