// SPDX-License-Identifier: Apache-2.0
// From an opcode to the attribute struct that ops.def names for it.
#pragma once

#include <type_traits>
#include <utility>

#include "ir/attributes.h"
#include "ir/opcode.h"
#include "krafla/status.h"

namespace krafla {

// Calls `f` with std::type_identity of the opcode's struct. A struct that `f` does not take does not compile.
template <typename F>
decltype(auto) WithAttributesOf(Opcode opcode, F&& f) {
  switch (opcode) {
#define KRAFLA_OP(Enum, hlo, stablehlo, arity, types, attrs, rule, traits, tier, budget, doc) \
  case Opcode::Enum: return std::forward<F>(f)(std::type_identity<attrs>());
#include "ir/ops.def"
  }
  KRAFLA_UNREACHABLE();
}

}  // namespace krafla
