// SPDX-License-Identifier: Apache-2.0
// What floats of a byte with a sign are made of, in registers.
#pragma once
#ifdef KRAFLA_HAVE_JIT

#include <asmjit/x86.h>

#include <array>

namespace krafla::cpu::native {

struct ByteTable {
  asmjit::x86::Vec spread;  // where the bytes of lanes of 32 bits come from: each four times
  // The third and the fourth byte of what the seven bits below the sign stand for, in two vectors each.
  std::array<asmjit::x86::Vec, 2> low, high;
  // Masks of the fourth byte, of the upper half without the sign, and of the sign.
  asmjit::x86::Vec highest, magnitude, sign;
};

}  // namespace krafla::cpu::native

#endif
