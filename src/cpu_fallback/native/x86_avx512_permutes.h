// SPDX-License-Identifier: Apache-2.0
// Permutations by places that a function gives.
#pragma once

#include "cpu_fallback/native/x86_avx512.h"

namespace krafla::cpu::native {

// A vector of function(0), function(1) ..
template <class Function>
x86::Vec Avx512Emitter::Sequence(int width, Function function) {
  std::array<std::byte, 64> bytes{};
  for (int lane = 0; lane < lanes_; ++lane) {
    const uint64_t value = static_cast<uint64_t>(function(lane));
    std::memcpy(bytes.data() + lane * width, &value, static_cast<std::size_t>(width));
  }
  const x86::Vec v = NewVector(width);
  Emit(Inst::kIdVmovdqu32, v,
       cc_.newConst(asmjit::ConstPoolScope::kLocal, bytes.data(), static_cast<std::size_t>(width * lanes_)));
  return v;
}
// Lane l is that of number place(l) of a's and, behind them, b's.
template <class Function>
x86::Vec Avx512Emitter::PermuteTwo(int width, const x86::Vec& a, const x86::Vec& b, Function place) {
  const x86::Vec out = Sequence(width, place);
  const InstId op = OfWidth(width, Inst::kIdVpermi2b, Inst::kIdVpermi2w, Inst::kIdVpermi2d, Inst::kIdVpermi2q);
  if (width > 1) {
    Emit(op, out, a, b);
  } else {
    // AsmJit 1.11 takes it that the instruction for bytes only writes `out`, but with a mask that it reads it too.
    EmitMasked(op, all_lanes_, false, out, a, b);
  }
  return out;
}

}  // namespace krafla::cpu::native
