// SPDX-License-Identifier: Apache-2.0
// Floats of a byte with a sign. What the seven bits below it stand for needs no more than the upper half of an f32,
// which two permutations of bytes find: one has its upper byte, one its lower byte.
#ifdef KRAFLA_HAVE_JIT

#include <bit>

#include "cpu_fallback/native/x86_avx512.h"
#include "ir/mini_float.h"

namespace krafla::cpu::native {

namespace {
constexpr std::size_t kVectorBytes = 64, kMagnitudes = 128;
}  // namespace

ByteTable Avx512Emitter::LoadByteTable(uint64_t type) {
  const MiniFloat& format = *FindMiniFloat(static_cast<ElementType>(type));
  std::array<uint8_t, kMagnitudes> low{}, high{};
  for (uint32_t m = 0; m < kMagnitudes; ++m) {
    const auto bits = std::bit_cast<uint32_t>(DecodeMiniFloat(m, format));
    low[m] = static_cast<uint8_t>(bits >> 16), high[m] = static_cast<uint8_t>(bits >> 24);
  }
  const auto load = [&](const void* bytes) {
    const x86::Vec v = cc_.newZmm();
    Emit(Inst::kIdVmovdqu32, v, cc_.newConst(asmjit::ConstPoolScope::kLocal, bytes, kVectorBytes));
    return v;
  };
  std::array<uint8_t, kVectorBytes> spread{};
  for (std::size_t i = 0; i < kVectorBytes; ++i) spread[i] = static_cast<uint8_t>(i / 4);
  // In all lanes of a whole vector, however many the graph has.
  const auto words = [&](uint32_t word) {
    std::array<uint32_t, kVectorBytes / 4> all{};
    all.fill(word);
    return load(all.data());
  };
  const auto both = [&](const std::array<uint8_t, kMagnitudes>& of) {
    return std::array{load(of.data()), load(of.data() + kVectorBytes)};
  };
  return {load(spread.data()), both(low), both(high), words(0xff000000u), words(0x7fff0000u), words(0x80000000u)};
}

void Avx512Emitter::EmitByteToFloat(int id) {
  const LaneNode& n = At(id);
  const ByteTable& table = byte_tables_.at(n.bits);
  const x86::Vec codes = cc_.newZmm(), low = cc_.newZmm(), high = cc_.newZmm();
  // Four times in the bytes of a lane.
  Emit(Inst::kIdVpermb, codes, table.spread, Register(n.a).zmm());
  for (const auto& [found, half] : {std::pair(low, table.low), std::pair(high, table.high)}) {
    Emit(Inst::kIdVmovdqa32, found, codes);
    // As PermuteTwo: AsmJit has to be told that the places are read.
    EmitMasked(Inst::kIdVpermi2b, all_lanes_, false, found, half[0], half[1]);
  }
  Emit(Inst::kIdVpternlogd, low, high, table.highest, Imm(0xd8));  // the mask ? high : low
  Emit(Inst::kIdVpandd, low, low, table.magnitude);
  Emit(Inst::kIdVpternlogd, low, codes, table.sign, Imm(0xf8));  // low | codes & the sign
  const x86::Vec v = NewOf(n.type);
  Emit(Inst::kIdVmovdqa32, v.zmm(), low);
  Set(id, v);
}

}  // namespace krafla::cpu::native

#endif
