// SPDX-License-Identifier: Apache-2.0
// Folding by one of the usual operators in a wide type: f64 for every real float, s64 and u64 for integers and pred,
// c128 for complex numbers. The result is rounded or wrapped once at the end.
#pragma once

#include <complex>
#include <cstdint>
#include <optional>

#include "ir/opcode.h"
#include "krafla/element_type.h"

namespace krafla::evaluator {

struct Folder {
  ElementType wide = ElementType::kF64;  // kF64, kS64, kU64 or kC128
  int wide_bytes = 8;
  // acc[k] = op(acc[k], x[k])
  void (*each)(void* acc, const void* x, int64_t n) = nullptr;
  // *acc = op(*acc, x[0..n))
  void (*row)(void* acc, const void* x, int64_t n) = nullptr;
};

// None where the operator or the type has no such fold. Products of floats have none: in a wider type they would not
// overflow where XLA's do.
std::optional<Folder> FindFolder(Opcode opcode, ElementType type);

}  // namespace krafla::evaluator
