// SPDX-License-Identifier: Apache-2.0
// Streams of several elements side by side, such as the parts of complex numbers or the channels of pixels: whole
// vectors are loaded and stored, and permuted in registers.
#ifdef KRAFLA_HAVE_JIT

#include "cpu_fallback/native/x86_avx512_permutes.h"

namespace krafla::cpu::native {

// to's lanes of the mask `lanes`: from's at `places`.
void Avx512Emitter::MergePart(const x86::Vec& to, const x86::Vec& places, const x86::Vec& from, int width,
                              uint32_t lanes) {
  const x86::Gp bits = cc_.newUInt32();
  const x86::KReg k = cc_.newKq();
  cc_.mov(bits, lanes);
  cc_.kmovd(k, bits);
  EmitMasked(width == 8 ? Inst::kIdVpermq : Inst::kIdVpermd, k, false, to, places, from);
}

// The vectors of an interleaved stream, as they lie in memory.
void Avx512Emitter::LoadParts(std::size_t number) {
  std::vector<x86::Vec>& vectors = part_vectors_[vector_][number][{0, 0}];
  if (!vectors.empty()) return;
  const LaneStream& stream = graph_.streams[number];
  const int parts = stream.stride, width = stream.width;
  for (int v = 0; v < parts; ++v) {
    const x86::Vec vector = NewVector(width);
    const x86::Mem from = PartAddress(number, v);
    if (is_tail_) {
      EmitMasked(MoveOf(width), PartTail(parts, Behind(stream), v), true, vector, from);
    } else if (v + 1 == parts && Behind(stream) > 0) {
      const x86::Gp bits = cc_.newUInt64();
      const x86::KReg k = cc_.newKq();
      cc_.mov(bits, (uint64_t{1} << (lanes_ - Behind(stream))) - 1);
      cc_.kmovq(k, bits);
      EmitMasked(MoveOf(width), k, true, vector, from);
    } else {
      Emit(Inst::kIdVmovdqu32, vector, from);
    }
    vectors.push_back(vector);
  }
}

// Of 2^levels parts: the vectors that hold those elements alone whose number is `part` modulo 2^level. Each level takes
// every other one of the level before it.
const std::vector<x86::Vec>& Avx512Emitter::EveryOther(std::size_t number, int level, int part) {
  auto& known = part_vectors_[vector_][number];
  if (const auto it = known.find({level, part}); it != known.end()) return it->second;
  const int half = 1 << (level - 1), width = graph_.streams[number].width;
  const std::vector<x86::Vec> from = EveryOther(number, level - 1, part % half);
  const int odd = part >= half ? 1 : 0;
  std::vector<x86::Vec> out;
  for (std::size_t v = 0; v + 1 < from.size(); v += 2)
    out.push_back(PermuteTwo(width, from[v], from[v + 1], [&](int lane) { return 2 * lane + odd; }));
  return known[{level, part}] = std::move(out);
}

void Avx512Emitter::EmitPart(int id) {
  const LaneNode& n = At(id);
  const auto number = static_cast<std::size_t>(n.bits & 0xffffffffu);
  const int part = static_cast<int>(n.bits >> 32);
  const int parts = graph_.streams[number].stride, width = graph_.streams[number].width;
  LoadParts(number);
  if (const auto count = static_cast<unsigned>(parts); std::has_single_bit(count))
    return Set(id, EveryOther(number, std::countr_zero(count), part)[0]);
  // Lane l is element l * parts + part of all vectors one behind the other; the instructions take it modulo their
  // lanes.
  const std::vector<x86::Vec>& vectors = part_vectors_[vector_][number][{0, 0}];
  const auto place = [&](int lane) { return lane * parts + part; };
  const x86::Vec out = PermuteTwo(width, vectors[0], vectors[1], place), places = Sequence(width, place);
  for (int v = 2; v < parts; ++v) {
    uint32_t lanes = 0;
    for (int lane = 0; lane < lanes_; ++lane) lanes |= static_cast<uint32_t>(place(lane) / lanes_ == v) << lane;
    if (lanes != 0) MergePart(out, places, vectors[static_cast<std::size_t>(v)], width, lanes);
  }
  Set(id, out);
}

void Avx512Emitter::StoreParts(const LaneStore& s) {
  const auto number = static_cast<std::size_t>(s.stream);
  const LaneStream& stream = graph_.streams[number];
  const int parts = stream.stride, width = stream.width;
  std::vector<std::vector<x86::Vec>> lists;  // of vectors: at first one for each part
  for (int p = 0; p < parts; ++p)
    lists.push_back({Register(p == 0 ? s.node : s.parts[static_cast<std::size_t>(p - 1)])});
  const bool is_power = std::has_single_bit(static_cast<unsigned>(parts));
  // Two lists that lie half of them apart become one.
  for (std::size_t count = lists.size(); is_power && count > 1; count /= 2) {
    for (std::size_t l = 0; l < count / 2; ++l) {
      std::vector<x86::Vec> out;
      for (std::size_t v = 0; v < lists[l].size(); ++v)
        for (int first : {0, lanes_ / 2})
          out.push_back(PermuteTwo(width, lists[l][v], lists[l + count / 2][v],
                                   [&](int e) { return first + e / 2 + (e % 2 == 1 ? lanes_ : 0); }));
      lists[l] = std::move(out);
    }
  }
  for (int v = 0; v < parts; ++v) {
    x86::Vec out;
    if (is_power) {
      out = lists[0][static_cast<std::size_t>(v)];
    } else {
      // Element e of this vector is lane (v * lanes + e) / parts of part (v * lanes + e) % parts.
      const auto place = [&](int e) {
        const int at = v * lanes_ + e;
        return at / parts + (at % parts == 1 ? lanes_ : 0);
      };
      out = PermuteTwo(width, lists[0][0], lists[1][0], place);
      const x86::Vec places = Sequence(width, place);
      for (int p = 2; p < parts; ++p) {
        uint32_t lanes = 0;
        for (int e = 0; e < lanes_; ++e) lanes |= static_cast<uint32_t>((v * lanes_ + e) % parts == p) << e;
        MergePart(out, places, lists[static_cast<std::size_t>(p)][0], width, lanes);
      }
    }
    const x86::Mem to = PartAddress(number, v);
    if (is_tail_) EmitMasked(MoveOf(width), PartTail(parts, 0, v), false, to, out);
    else Emit(Inst::kIdVmovdqu32, to, out);
  }
}

}  // namespace krafla::cpu::native

#endif
