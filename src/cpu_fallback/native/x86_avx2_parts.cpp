// SPDX-License-Identifier: Apache-2.0
// Streams of several elements side by side, such as the parts of complex numbers or the channels of pixels: whole
// vectors are loaded and stored, and permuted in registers.
#ifdef KRAFLA_HAVE_JIT

#include "cpu_fallback/native/x86_avx2.h"

namespace krafla::cpu::native {

namespace x86 = asmjit::x86;
namespace Inst = x86::Inst;
using asmjit::Imm;
using asmjit::InstId;

x86::Mem Avx2Emitter::PartAddress(std::size_t stream, int element) const {
  const LaneStream& s = graph_.streams[stream];
  return x86::ptr(running_[stream], (Ahead() * s.stride + element) * s.width);
}

// The vectors as they lie in memory. Elements of the last lane's that may not be touched are left out.
const std::vector<x86::Vec>& Avx2Emitter::LoadParts(std::size_t number) {
  std::vector<Vec>& vectors = part_vectors_[vector_][number][{0, 0}];
  if (!vectors.empty()) return vectors;
  const LaneStream& stream = graph_.streams[number];
  const int parts = stream.stride, width = stream.width, behind = stream.reach == 0 ? 0 : parts - stream.reach;
  for (int v = 0; v < parts; ++v) {
    const Mem from = PartAddress(number, v * lanes_);
    const int count = std::clamp(parts * lanes_ - behind - v * lanes_, 0, lanes_);
    const Vec loaded = LoadBytes(from, count * width);
    if (count * width > 16 || lanes_ * width <= 16) {
      vectors.push_back(loaded);
    } else {  // half a vector
      const Vec whole = cc_.newYmm();
      Emit(Inst::kIdVmovdqa, whole.xmm(), loaded);
      vectors.push_back(whole);
    }
  }
  return vectors;
}

// Every other lane of both, a's first.
x86::Vec Avx2Emitter::EveryOtherOf(int width, const Vec& a, const Vec& b, bool is_odd) {
  Vec v;
  if (width * lanes_ == 8) {  // two words
    v = Make(4, Inst::kIdVpunpckldq, a, b);
    return is_odd ? Make(4, Inst::kIdVpsrldq, v, Imm(8)) : v;
  }
  if (width == 8) v = Make(8, is_odd ? Inst::kIdVpunpckhqdq : Inst::kIdVpunpcklqdq, a, b);
  else v = Make(4, Inst::kIdVshufps, a, b, Imm(is_odd ? 0xdd : 0x88));
  if (width * lanes_ <= 16) return v;
  return Make(width, Inst::kIdVpermq, v, Imm(0xd8));
}
// The lanes of a and b in turns: the first half of them, and the second.
std::pair<x86::Vec, x86::Vec> Avx2Emitter::Alternating(int width, const Vec& a, const Vec& b) {
  const Vec low = Make(width, width == 8 ? Inst::kIdVpunpcklqdq : Inst::kIdVpunpckldq, a, b);
  if (width * lanes_ == 8) return {low, Make(4, Inst::kIdVpsrldq, low, Imm(8))};
  const Vec high = Make(width, width == 8 ? Inst::kIdVpunpckhqdq : Inst::kIdVpunpckhdq, a, b);
  if (width * lanes_ <= 16) return {low, high};
  return {Make(width, Inst::kIdVperm2i128, low, high, Imm(0x20)),
          Make(width, Inst::kIdVperm2i128, low, high, Imm(0x31))};
}
x86::Vec Avx2Emitter::Permuted(int width, const Vec& v, const std::array<int, 8>& places) {
  const auto place = [&](int lane) { return places[static_cast<std::size_t>(lane)]; };
  if (width == 4 && lanes_ == 8) {
    const Vec at = cc_.newYmm(), out = cc_.newYmm();
    Emit(Inst::kIdVmovdqu, at, cc_.newConst(asmjit::ConstPoolScope::kLocal, places.data(), 32));
    Emit(Inst::kIdVpermd, out, at, v);
    return out;
  }
  int how = 0;
  if (width == 8 && lanes_ == 2) {  // as pairs of words
    for (int lane = 0; lane < 2; ++lane) how |= (place(lane) * 2 | (place(lane) * 2 + 1) << 2) << (4 * lane);
    return Make(width, Inst::kIdVpshufd, v, Imm(how));
  }
  for (int lane = 0; lane < 4; ++lane) how |= place(lane) << (2 * lane);
  return Make(width, width == 8 ? Inst::kIdVpermq : Inst::kIdVpshufd, v, Imm(how));
}
// Of each place the lane of vector number(place).
template <class Function>
x86::Vec Avx2Emitter::Merged(int width, const std::vector<Vec>& vectors, Function number) {
  Vec v = vectors[0];
  for (std::size_t i = 1; i < vectors.size(); ++i) {
    int words = 0;
    for (int lane = 0; lane < lanes_; ++lane)
      if (number(lane) == static_cast<int>(i)) words |= width == 8 ? 3 << (2 * lane) : 1 << lane;
    if (words != 0) v = Make(width, Inst::kIdVpblendd, v, vectors[i], Imm(words));
  }
  return v;
}

// Of 2^levels parts: the vectors that hold those elements alone whose number is `part` modulo 2^level. Each level takes
// every other one of the level before it.
const std::vector<x86::Vec>& Avx2Emitter::EveryOther(std::size_t number, int level, int part) {
  auto& known = part_vectors_[vector_][number];
  if (level == 0) return LoadParts(number);
  if (const auto it = known.find({level, part}); it != known.end()) return it->second;
  const int half = 1 << (level - 1), width = graph_.streams[number].width;
  const std::vector<Vec> from = EveryOther(number, level - 1, part % half);
  std::vector<Vec> out;
  for (std::size_t v = 0; v + 1 < from.size(); v += 2)
    out.push_back(EveryOtherOf(width, from[v], from[v + 1], part >= half));
  return known[{level, part}] = std::move(out);
}

void Avx2Emitter::EmitPart(int id) {
  const LaneNode& n = At(id);
  const auto number = static_cast<std::size_t>(n.bits & 0xffffffffu);
  const int part = static_cast<int>(n.bits >> 32);
  const int parts = graph_.streams[number].stride, width = graph_.streams[number].width;
  if (lanes_ == 1) return Set(id, LoadBytes(PartAddress(number, part), width));
  if (const auto count = static_cast<unsigned>(parts); std::has_single_bit(count))
    return Set(id, EveryOther(number, std::countr_zero(count), part)[0]);
  // Lane l is element l * parts + part of all vectors one behind the other. No two lanes have the same place in their
  // vectors, so these are merged first.
  const auto element = [&](int lane) { return lane * parts + part; };
  std::array<int, 8> places{}, numbers{};
  for (int lane = 0; lane < lanes_; ++lane) {
    places[static_cast<std::size_t>(lane)] = element(lane) % lanes_;
    numbers[static_cast<std::size_t>(element(lane) % lanes_)] = element(lane) / lanes_;
  }
  const Vec merged =
      Merged(width, LoadParts(number), [&](int place) { return numbers[static_cast<std::size_t>(place)]; });
  Set(id, Permuted(width, merged, places));
}

void Avx2Emitter::StoreParts(const LaneStore& s) {
  const auto number = static_cast<std::size_t>(s.stream);
  const LaneStream& stream = graph_.streams[number];
  const int parts = stream.stride, width = stream.width;
  std::vector<std::vector<Vec>> lists;  // of vectors: at first one for each part
  for (int p = 0; p < parts; ++p)
    lists.push_back({Register(p == 0 ? s.node : s.parts[static_cast<std::size_t>(p - 1)])});
  if (lanes_ == 1) {
    for (int p = 0; p < parts; ++p) StoreBytes(PartAddress(number, p), lists[static_cast<std::size_t>(p)][0], width);
    return;
  }
  std::vector<Vec> out;
  if (std::has_single_bit(static_cast<unsigned>(parts))) {
    // Two lists that lie half of them apart become one.
    for (std::size_t count = lists.size(); count > 1; count /= 2) {
      for (std::size_t l = 0; l < count / 2; ++l) {
        std::vector<Vec> both;
        for (std::size_t v = 0; v < lists[l].size(); ++v) {
          const auto [low, high] = Alternating(width, lists[l][v], lists[l + count / 2][v]);
          both.push_back(low), both.push_back(high);
        }
        lists[l] = std::move(both);
      }
    }
    out = lists[0];
  } else {
    // Lane l of part p comes to place l * parts + p, modulo the lanes; then each vector takes what is its own.
    std::vector<Vec> turned;
    for (int p = 0; p < parts; ++p) {
      std::array<int, 8> places{};
      for (int lane = 0; lane < lanes_; ++lane) places[static_cast<std::size_t>((lane * parts + p) % lanes_)] = lane;
      turned.push_back(Permuted(width, lists[static_cast<std::size_t>(p)][0], places));
    }
    for (int v = 0; v < parts; ++v)
      out.push_back(Merged(width, turned, [&](int place) { return (v * lanes_ + place) % parts; }));
  }
  for (int v = 0; v < parts; ++v)
    StoreBytes(PartAddress(number, v * lanes_), out[static_cast<std::size_t>(v)], width * lanes_);
}

}  // namespace krafla::cpu::native

#endif
