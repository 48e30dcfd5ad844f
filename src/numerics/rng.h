// SPDX-License-Identifier: Apache-2.0
// Random bits as XLA's rng-bit-generator gives them (XLA: hlo/builder/lib/prng.cc,
// service/rng_bit_generator_expander.cc). Both generators are counter based (Salmon et al., SC 2011): every element is
// a pure function of the state and its index, so any lane can compute any element.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "krafla/status.h"
#include "numerics/ops_concept.h"

namespace krafla {

enum class RngMethod : uint8_t { kThreeFry, kPhilox };
// What algorithm=rng_default means on XLA's CPU back end.
inline constexpr RngMethod kDefaultRngMethod = RngMethod::kPhilox;

// ---- blocks, for the CPU and the GPU -------------------------------------------------------------------------------

// Threefry-2x32, 20 rounds.
template <class Ops>
std::array<typename Ops::I, 2> ThreeFry2x32(const Ops& o, const std::array<typename Ops::I, 2>& counter,
                                            const std::array<typename Ops::I, 2>& key) {
  constexpr uint32_t kRotations[8] = {13, 15, 26, 6, 17, 29, 16, 24};
  const std::array<typename Ops::I, 3> ks = {key[0], key[1], o.Xor(o.Xor(key[0], key[1]), o.ConstI(0x1bd11bdau))};
  auto x0 = o.IAdd(counter[0], ks[0]);
  auto x1 = o.IAdd(counter[1], ks[1]);
  for (uint32_t group = 0; group < 5; ++group) {
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t by = kRotations[(group % 2) * 4 + i];
      x0 = o.IAdd(x0, x1);
      x1 = o.Xor(o.Or(o.Shl(x1, o.ConstI(by)), o.Shr(x1, o.ConstI(32 - by))), x0);
    }
    x0 = o.IAdd(x0, ks[(group + 1) % 3]);
    x1 = o.IAdd(x1, o.IAdd(ks[(group + 2) % 3], o.ConstI(group + 1)));
  }
  return {x0, x1};
}

// Philox-4x32, 10 rounds.
template <class Ops>
std::array<typename Ops::I, 4> Philox4x32(const Ops& o, std::array<typename Ops::I, 4> x,
                                          std::array<typename Ops::I, 2> key) {
  const auto m0 = o.ConstI(0xd2511f53u);
  const auto m1 = o.ConstI(0xcd9e8d57u);
  for (int round = 0; round < 10; ++round) {
    const auto hi0 = o.UMulHi(x[0], m0), lo0 = o.IMul(x[0], m0);
    const auto hi1 = o.UMulHi(x[2], m1), lo1 = o.IMul(x[2], m1);
    x = {o.Xor(o.Xor(hi1, x[1]), key[0]), lo1, o.Xor(o.Xor(hi0, x[3]), key[1]), lo0};
    key = {o.IAdd(key[0], o.ConstI(0x9e3779b9u)), o.IAdd(key[1], o.ConstI(0xbb67ae85u))};
  }
  return x;
}

// ---- an rng-bit-generator instruction ------------------------------------------------------------------------------

// A plan says where each element comes from. Elements of fewer than 32 bits are the low bits of 32.
//
// ThreeFry: a block has two words. 64-bit element i is the block of counter + i. For 32 bits XLA halves one dimension,
// that of `size` with `inner` elements below it: with i = (outer * size + c) * inner + j, the element is word c % 2 of
// the block of counter + (outer * half + c / 2) * inner + j.
// Philox: a block has four words; 32-bit element i is word i % 4 of the block of counter + i / 4, a 64-bit element is
// two successive words, the low one first.
struct RngPlan {
  RngMethod algorithm = RngMethod::kPhilox;
  int state_words = 2;
  int bits = 32;
  uint64_t inner = 1, size = 1, half = 1;
  uint64_t blocks = 0;  // how far the counter moves
};

// The state as the generator reads it: a key and a 128-bit counter.
struct RngStart {
  uint64_t key = 0, counter_low = 0, counter_high = 0;
};

// `bits`: the width of the element type, 8 to 64. An error for a state that is not 2 words (Philox: or 3).
Result<RngPlan> PlanRng(RngMethod algorithm, int64_t state_words, std::span<const int64_t> dimensions, int bits);

RngStart StartOf(const RngPlan& plan, std::span<const uint64_t> state);
// Element `index` in row-major order.
uint64_t RngElement(const RngPlan& plan, const RngStart& start, uint64_t index);
// The state that the instruction returns: plan.state_words words.
std::array<uint64_t, 3> NextState(const RngPlan& plan, std::span<const uint64_t> state);

// The same for a lane of a shader: words {low, high} of element `index` (below 2^32); only the low one counts unless
// plan.bits is above 32, and of that only the low plan.bits bits. `key` and `counter` are those of StartOf, the least
// significant word first.
template <class Ops>
std::array<typename Ops::I, 2> RngWords(const Ops& o, const RngPlan& plan, const std::array<typename Ops::I, 2>& key,
                                        const std::array<typename Ops::I, 4>& counter, typename Ops::I index) {
  using I = typename Ops::I;
  const auto k = [&](uint64_t value) { return o.ConstI(static_cast<uint32_t>(value)); };
  const bool wide = plan.bits > 32;
  if (plan.algorithm == RngMethod::kPhilox) {
    const I block = o.Shr(index, k(wide ? 1 : 2));
    // 128-bit sum as XLA has it: the carry into the upper half is added to its low word and rippled on.
    std::array<I, 4> c = counter;
    c[0] = o.IAdd(c[0], block);
    I carry = o.SelectI(o.ULt(c[0], block), k(1), k(0));
    for (std::size_t i = 1; i < 4; ++i) {
      c[i] = o.IAdd(c[i], carry);
      carry = o.SelectI(o.ULt(c[i], carry), k(1), k(0));
    }
    const auto x = Philox4x32(o, c, key);
    const auto odd = o.INe(o.And(index, k(1)), k(0));
    if (wide) return {o.SelectI(odd, x[2], x[0]), o.SelectI(odd, x[3], x[1])};
    const I low = o.SelectI(odd, x[1], x[0]);
    const I high = o.SelectI(odd, x[3], x[2]);
    return {o.SelectI(o.INe(o.And(index, k(2)), k(0)), high, low), k(0)};
  }
  I block = index;
  I word = k(0);
  if (!wide) {
    const uint64_t inner = plan.inner > 0 ? plan.inner : 1, size = plan.size > 0 ? plan.size : 1;
    const I row = inner == 1 ? index : o.UDiv(index, k(inner));
    const I j = inner == 1 ? k(0) : o.ISub(index, o.IMul(row, k(inner)));
    const I outer = o.UDiv(row, k(size));
    const I c = o.ISub(row, o.IMul(outer, k(size)));
    word = o.And(c, k(1));
    block = o.IAdd(o.IMul(o.IAdd(o.IMul(outer, k(plan.half)), o.Shr(c, k(1))), k(inner)), j);
  }
  const I low = o.IAdd(counter[0], block);
  const I high = o.IAdd(counter[1], o.SelectI(o.ULt(low, block), k(1), k(0)));
  const auto x = ThreeFry2x32(o, {low, high}, key);
  if (wide) return x;
  return {o.SelectI(o.INe(word, k(0)), x[1], x[0]), k(0)};
}

// ---- the rng instruction -------------------------------------------------------------------------------------------

// XLA's rng-get-and-update-state starts a program from this 128-bit number (low word first) and adds delta each time.
inline constexpr uint64_t kInitialRngState = 0x7012395u;

// From random bits to a distribution, as XLA's rng_expander.cc does it. `bits` are uniform.
float UniformFloat(uint32_t bits, float low, float high);
double UniformDouble(uint64_t bits, double low, double high);
// [low, high) by remainder; low where the range is empty.
uint32_t UniformInt32(uint32_t bits, uint32_t low, uint32_t high);
uint64_t UniformInt64(uint64_t bits, uint64_t low, uint64_t high);
// Two standard normal numbers from two uniform ones in [0, 1) (Box and Muller).
std::array<float, 2> NormalPair(float u0, float u1);
std::array<double, 2> NormalPair(double u0, double u1);

}  // namespace krafla
