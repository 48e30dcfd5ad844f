// SPDX-License-Identifier: Apache-2.0
// Long sums in f32: terms are added up in short chains, and the results of the chains in a sum that keeps its rounding
// errors beside it (Knuth's TwoSum). The error is that of one chain, however long the sum is.
#pragma once

#include <functional>
#include <span>

#include "spirv_codegen/builder.h"

namespace krafla::spirv {

// The steps of a chain. A TwoSum has six operations, a few per cent of so many steps, each of which also reads.
inline constexpr uint32_t kSumChain = 32;

// The sum high + low, where low is what the additions to high have lost.
struct WideSum {
  Value high, low;
};

// Whether sums of this kind are kept wide. Integers are exact, and f64 has digits to spare.
inline bool IsWideKind(Kind kind) { return kind == Kind::kF32; }

WideSum AddWide(Builder& b, const WideSum& sum, Value more);
WideSum MergeWide(Builder& b, const WideSum& x, const WideSum& y);
// The sum as one value. Where it is not finite the errors are NaN and do not count; where they are zero, the sign of a
// zero sum is kept.
Value RoundWide(Builder& b, const WideSum& sum);

// `count` sums of products side by side over a known depth, in chains that wide sums take up. Sums of integers, and
// sums over a depth of less than four chains, are accumulated directly.
class ChainedSums {
 public:
  static constexpr int64_t kChain = 128;  // products

  // `depth` is the number of products of each sum; `chained` says whether chains are wanted.
  ChainedSums(Builder& b, Kind kind, int width, std::size_t count, int64_t depth, bool chained = true);

  // Whether they are.
  static bool Chained(Kind kind, int64_t depth) { return IsWideKind(kind) && depth >= 4 * kChain; }

  Values Start() const;
  // Adds the turns of [begin, end) in steps of `step` to `state`. body(i, sums) does one turn; `turns` of them are a
  // chain.
  Values Add(Value begin, Value end, uint32_t step, uint32_t turns, const Values& state,
             const std::function<Values(Value, const Values&)>& body, Unroll unroll = Unroll::kIfItPays) const;
  // Adds one chain, which begins from zeros, to `state`.
  Values Absorb(const Values& state, const std::function<Values(const Values&)>& chain) const;
  Values Finish(const Values& state) const;

 private:
  Values Zeros() const { return Values(count_, b_.Zero(kind_, width_)); }

  Builder& b_;
  Kind kind_;
  int width_;
  std::size_t count_;
  bool chained_;
};

}  // namespace krafla::spirv
