// SPDX-License-Identifier: Apache-2.0
// Streams of several elements side by side, such as the parts of complex numbers or the channels of pixels: whole
// vectors are loaded and stored, and permuted in registers.
#ifdef KRAFLA_HAVE_JIT

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

// to's lanes of the mask `lanes`: from's at `places`.
void Avx512Emitter::MergePart(const x86::Vec& to, const x86::Vec& places, const x86::Vec& from, int width,
                              uint32_t lanes) {
  const x86::Gp bits = cc_.newUInt32();
  const x86::KReg k = cc_.newKq();
  cc_.mov(bits, lanes);
  cc_.kmovd(k, bits);
  EmitMasked(width == 8 ? Inst::kIdVpermq : Inst::kIdVpermd, k, false, to, places, from);
}

void Avx512Emitter::EmitPart(int id) {
  const LaneNode& n = At(id);
  const auto number = static_cast<std::size_t>(n.bits & 0xffffffffu);
  const int part = static_cast<int>(n.bits >> 32);
  const LaneStream& stream = graph_.streams[number];
  const int parts = stream.stride, width = stream.width;
  auto& vectors = part_vectors_[vector_][number];
  for (int v = 0; v < parts; ++v) {
    x86::Vec& vector = vectors[static_cast<std::size_t>(v)];
    if (vector.isValid()) continue;
    vector = NewVector(width);
    const x86::Mem from = PartAddress(number, v);
    if (is_tail_) {
      EmitMasked(MoveOf(width), PartTail(parts, Behind(stream), v), true, vector, from);
    } else if (v + 1 == parts && Behind(stream) > 0) {
      const x86::Gp bits = cc_.newUInt32();
      const x86::KReg k = cc_.newKq();
      cc_.mov(bits, (1u << (lanes_ - Behind(stream))) - 1);
      cc_.kmovd(k, bits);
      EmitMasked(MoveOf(width), k, true, vector, from);
    } else {
      Emit(Inst::kIdVmovdqu32, vector, from);
    }
  }
  // Lane l is element l * parts + part of all vectors one behind the other; the instructions take it modulo their
  // lanes.
  const x86::Vec places = Sequence(width, [&](int lane) { return lane * parts + part; });
  const x86::Vec out = NewVector(width);
  Emit(Inst::kIdVmovdqa32, out, vectors[0]);
  Emit(width == 8 ? Inst::kIdVpermt2q : Inst::kIdVpermt2d, out, places, vectors[1]);
  for (int v = 2; v < parts; ++v) {
    uint32_t lanes = 0;
    for (int lane = 0; lane < lanes_; ++lane)
      lanes |= static_cast<uint32_t>((lane * parts + part) / lanes_ == v) << lane;
    if (lanes != 0) MergePart(out, places, vectors[static_cast<std::size_t>(v)], width, lanes);
  }
  Set(id, out);
}

void Avx512Emitter::StoreParts(const LaneStore& s) {
  const auto number = static_cast<std::size_t>(s.stream);
  const LaneStream& stream = graph_.streams[number];
  const int parts = stream.stride, width = stream.width;
  std::array<x86::Vec, kMaxInterleaved> values;
  for (int p = 0; p < parts; ++p)
    values[static_cast<std::size_t>(p)] = Register(p == 0 ? s.node : s.parts[static_cast<std::size_t>(p - 1)]);
  for (int v = 0; v < parts; ++v) {
    // Element e of this vector is lane (v * lanes + e) / parts of part (v * lanes + e) % parts.
    const x86::Vec places = Sequence(width, [&](int e) {
      const int at = v * lanes_ + e;
      return at / parts + (at % parts == 1 ? lanes_ : 0);
    });
    const x86::Vec out = NewVector(width);
    Emit(Inst::kIdVmovdqa32, out, values[0]);
    Emit(width == 8 ? Inst::kIdVpermt2q : Inst::kIdVpermt2d, out, places, values[1]);
    for (int p = 2; p < parts; ++p) {
      uint32_t lanes = 0;
      for (int e = 0; e < lanes_; ++e) lanes |= static_cast<uint32_t>((v * lanes_ + e) % parts == p) << e;
      MergePart(out, places, values[static_cast<std::size_t>(p)], width, lanes);
    }
    const x86::Mem to = PartAddress(number, v);
    if (is_tail_) EmitMasked(MoveOf(width), PartTail(parts, 0, v), false, to, out);
    else Emit(Inst::kIdVmovdqu32, to, out);
  }
}

}  // namespace krafla::cpu::native

#endif
