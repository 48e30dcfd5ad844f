// SPDX-License-Identifier: Apache-2.0
// Where an access of a routine lies, for every vector length.
#pragma once

#include <asmjit/x86.h>
#include <bit>
#include <cstdint>

#include "cpu_fallback/native/lane_graph.h"

namespace krafla::cpu::native {

// number(node): its value in a register of 64 bits, which may be changed.
template <class Number>
asmjit::x86::Mem PlaceOfAccess(asmjit::x86::Compiler& cc, const asmjit::x86::Gp& base, const LaneAccess& access,
                               Number number) {
  const auto offset = static_cast<int32_t>(access.offset);
  if (access.terms.empty()) return asmjit::x86::ptr(base, offset);
  asmjit::x86::Gp sum;
  for (const LaneAccess::Term& t : access.terms) {
    const asmjit::x86::Gp at = number(t.node);
    const bool is_power = t.bytes > 0 && std::has_single_bit(static_cast<uint64_t>(t.bytes));
    const auto shift = static_cast<uint32_t>(std::countr_zero(static_cast<uint64_t>(t.bytes)));
    // The address multiplies by itself what would hold the load up for three cycles.
    if (is_power && shift <= 3 && access.terms.size() == 1) return asmjit::x86::ptr(base, at, shift, offset);
    if (!is_power) cc.imul(at, at, static_cast<int32_t>(t.bytes));
    else if (shift > 0) cc.shl(at, shift);
    if (sum.isValid()) cc.add(sum, at);
    else sum = at;
  }
  return asmjit::x86::ptr(base, sum, 0, offset);
}

}  // namespace krafla::cpu::native
