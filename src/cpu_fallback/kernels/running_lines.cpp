// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/running_lines.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <type_traits>

#include "base/unaligned.h"
#include "numerics/nan.h"

namespace krafla::cpu {

namespace {

// What is kept from step to step for values of type T, and how it is combined: Enter and Leave are off the way from
// one step to the next.
template <class T>
struct SameValue {
  using Value = T;
  using Kept = T;
  static Kept Enter(T x) { return x; }
  static T Leave(Kept x) { return x; }
};
// Products of narrow integers are products of ints, and may not overflow there either.
template <class T>
using Wrapping = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
template <class T>
struct LineSum : SameValue<T> {
  static T Combine(T x, T y) { return static_cast<T>(static_cast<Wrapping<T>>(x) + static_cast<Wrapping<T>>(y)); }
};
template <class T>
struct LineProduct : SameValue<T> {
  static T Combine(T x, T y) {
    if constexpr (std::is_floating_point_v<T>) return x * y;
    else return static_cast<T>(static_cast<Wrapping<T>>(x) * static_cast<Wrapping<T>>(y));
  }
  // A product with any NaN is a NaN, so which one it is may be settled at the end.
  static T Leave(T x) {
    if constexpr (std::is_floating_point_v<T>) return Settled(x);
    else return x;
  }
};
template <class T>
struct LineAnd : SameValue<T> {
  static T Combine(T x, T y) { return x & y; }
};
template <class T>
struct LineOr : SameValue<T> {
  static T Combine(T x, T y) { return x | y; }
};
template <class T>
struct LineXor : SameValue<T> {
  static T Combine(T x, T y) { return x ^ y; }
};
// Floats are compared as whole numbers in the same order, in which -0 is less than +0. A NaN lies beyond infinity, on
// the side that wins.
template <class T, bool kMax>
struct LineExtremum : SameValue<T> {
  using Key = std::conditional_t<!std::is_floating_point_v<T>, T, std::conditional_t<sizeof(T) == 4, int32_t, int64_t>>;
  using Kept = Key;
  static constexpr Key kNan = [] {
    if constexpr (!std::is_floating_point_v<T>) return Key{0};
    else return kMax ? std::bit_cast<Key>(NanOf<T>()) : std::numeric_limits<Key>::min();
  }();
  static Key Mirrored(Key x) { return x ^ ((x >> (8 * sizeof(Key) - 1)) & std::numeric_limits<Key>::max()); }
  static Key Enter(T x) {
    if constexpr (!std::is_floating_point_v<T>) return x;
    else return x != x ? kNan : Mirrored(std::bit_cast<Key>(x));
  }
  static T Leave(Key x) {
    if constexpr (!std::is_floating_point_v<T>) return x;
    else return x == kNan ? NanOf<T>() : std::bit_cast<T>(Mirrored(x));
  }
  static Key Combine(Key x, Key y) { return kMax ? std::max(x, y) : std::min(x, y); }
};
template <class T>
struct LineMaximum : LineExtremum<T, true> {};
template <class T>
struct LineMinimum : LineExtremum<T, false> {};

template <class Op, int kLines>
void RunTogether(const RunningLines& lines, const std::byte* from, std::byte* to, std::byte* sums) {
  using T = typename Op::Value;
  constexpr auto kWidth = static_cast<int64_t>(sizeof(T));
  typename Op::Kept kept[kLines];
  const std::byte* in[kLines];
  std::byte* out[kLines];
  for (int64_t k = 0; k < kLines; ++k) {
    kept[k] = Op::Enter(LoadAs<T>(sums + k * kWidth));
    in[k] = from + lines.offsets[k] * kWidth;
    out[k] = to + lines.offsets[k] * kWidth;
  }
  const int64_t step = lines.step * kWidth;
  for (int64_t s = 0, at = 0; s < lines.steps; ++s, at += step) {
    for (int k = 0; k < kLines; ++k) {
      kept[k] = Op::Combine(kept[k], Op::Enter(LoadAs<T>(in[k] + at)));
      StoreAs<T>(out[k] + at, Op::Leave(kept[k]));
    }
  }
  for (int64_t k = 0; k < kLines; ++k) StoreAs<T>(sums + k * kWidth, Op::Leave(kept[k]));
}
template <class Op>
void RunLinesOf(const RunningLines& lines, const std::byte* from, std::byte* to, std::byte* sums) {
  switch (lines.lines) {
    case 1: return RunTogether<Op, 1>(lines, from, to, sums);
    case 2: return RunTogether<Op, 2>(lines, from, to, sums);
    case 3: return RunTogether<Op, 3>(lines, from, to, sums);
    default: return RunTogether<Op, 4>(lines, from, to, sums);
  }
}

template <class T>
RunningLinesFn FindOf(Opcode opcode) {
  if (opcode == Opcode::kMultiply) return &RunLinesOf<LineProduct<T>>;
  if (opcode == Opcode::kMaximum) return &RunLinesOf<LineMaximum<T>>;
  if (opcode == Opcode::kMinimum) return &RunLinesOf<LineMinimum<T>>;
  if constexpr (!std::is_floating_point_v<T>) {
    if (opcode == Opcode::kAdd) return &RunLinesOf<LineSum<T>>;
    if (opcode == Opcode::kAnd) return &RunLinesOf<LineAnd<T>>;
    if (opcode == Opcode::kOr) return &RunLinesOf<LineOr<T>>;
    if (opcode == Opcode::kXor) return &RunLinesOf<LineXor<T>>;
  }
  return nullptr;
}

}  // namespace

RunningLinesFn FindRunningLines(Opcode opcode, ElementType type) {
  using enum ElementType;
  if (type == kPred) return opcode == Opcode::kAdd || opcode == Opcode::kMultiply ? nullptr : FindOf<uint8_t>(opcode);
  if (type == kS8) return FindOf<int8_t>(opcode);
  if (type == kU8) return FindOf<uint8_t>(opcode);
  if (type == kS16) return FindOf<int16_t>(opcode);
  if (type == kU16) return FindOf<uint16_t>(opcode);
  if (type == kS32) return FindOf<int32_t>(opcode);
  if (type == kU32) return FindOf<uint32_t>(opcode);
  if (type == kS64) return FindOf<int64_t>(opcode);
  if (type == kU64) return FindOf<uint64_t>(opcode);
  if (type == kF32) return FindOf<float>(opcode);
  if (type == kF64) return FindOf<double>(opcode);
  return nullptr;
}

}  // namespace krafla::cpu
