// SPDX-License-Identifier: Apache-2.0
// The values of a computation, and which instructions are only names of another's value.
#pragma once

#include <functional>

#include "ir/module.h"

namespace krafla::plan {

// A leaf of an instruction's result: leaf 0 of an array, leaf k (depth first) of a tuple.
struct ValueRef {
  const Instruction* instruction = nullptr;
  int leaf = 0;
  friend bool operator==(const ValueRef&, const ValueRef&) = default;
};
struct ValueRefHash {
  std::size_t operator()(const ValueRef& v) const {
    return std::hash<const void*>()(v.instruction) * 31 + static_cast<std::size_t>(v.leaf);
  }
};
const Shape& LeafShape(const ValueRef& v);

// The value that `v` is a name for: through get-tuple-element, tuple, copy, opt-barrier, domain, add-dependency and
// (where `through_reshape`) reshape, which never computes anything. Ends at a parameter, a constant or an instruction
// that makes its value.
ValueRef ResolveValue(ValueRef v, bool through_reshape);

}  // namespace krafla::plan
