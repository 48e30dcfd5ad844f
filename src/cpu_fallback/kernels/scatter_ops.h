// SPDX-License-Identifier: Apache-2.0
// The loops of a scatter: where windows begin, and single elements combined there one after the other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ir/opcode.h"
#include "krafla/element_type.h"

namespace krafla::cpu {

// One component of `n` index vectors, `stride` elements apart: where 0 <= index <= last, starts[i] = index * factor
// plus base + i * step, or where it `adds`, plus what starts[i] is; else starts[i] = kOutside, from which no later
// component brings it back.
inline constexpr int64_t kOutside = INT64_MIN;
struct IndexComponent {
  const std::byte* indices = nullptr;
  int64_t stride = 0, last = 0, factor = 0;
  bool adds = false;
  int64_t base = 0, step = 0;
};
using FindStartsFn = void (*)(const IndexComponent& component, int64_t n, int64_t* starts);
FindStartsFn FindStartsOf(ElementType index);

struct ScatterWindows {
  int64_t count = 0;   // how many there are
  int64_t stride = 0;  // elements from one's updates to the next one's
  int64_t run = 1;     // elements of one
  bool prefetches = false;
};
// out[starts[i] + k] = out[starts[i] + k] op updates[i * stride + k] for k < run, in order, for starts that are not
// kOutside. Elements are of the storage type; results are rounded or wrapped as their HLO type has it. Updates are
// apart from the output.
using ScatterElementsFn = void (*)(std::byte* out, const int64_t* starts, const std::byte* updates,
                                   const ScatterWindows& windows);
// The same of single elements whose places are the indices themselves, of s32: what is below zero or above `last` is
// outside.
struct ScatterIndices {
  const std::byte* indices = nullptr;
  int64_t stride = 1;  // elements
  int64_t last = 0;
};
using ScatterIndexedFn = void (*)(std::byte* out, const ScatterIndices& at, const std::byte* updates,
                                  const ScatterWindows& windows);
struct ScatterLoops {
  ScatterElementsFn starts = nullptr;
  ScatterIndexedFn indices = nullptr;
};
// Null where there is none. `op`: add, multiply, maximum, minimum, and, or, xor.
ScatterLoops FindScatterElements(Opcode op, ElementType storage);
ScatterLoops FindScatterReplace(ElementType storage);
// Products of complex numbers, whose parts, of `storage`, lie side by side: runs are of 2, 4, 6 .. elements.
ScatterElementsFn FindScatterComplexProducts(ElementType storage);

// Single elements of `width` bytes, from and to places inside.
void TakeElements(int width, const std::byte* from, const int64_t* places, int64_t n, std::byte* to);
void PutElements(int width, const std::byte* from, const int64_t* places, int64_t n, std::byte* to);

}  // namespace krafla::cpu
