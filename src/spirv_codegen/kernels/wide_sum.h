// SPDX-License-Identifier: Apache-2.0
// Long sums in f32: terms are added up in short chains, and the chains' results in a sum that keeps its rounding errors
// beside it (Knuth's TwoSum), so that the error is that of one chain, whatever the length.
#pragma once

#include <functional>
#include <span>

#include "spirv_codegen/builder.h"

namespace krafla::spirv {

// Steps of a chain. The six operations of a TwoSum are a few per cent of so many steps, each of which also reads.
// A loop over chains keeps its index within bounds: llvmpipe begins one turn more than there are, with no lane left,
// and reads an address that all lanes share even so, which would lie a whole chain outside.
inline constexpr uint32_t kSumChain = 32;

// high + low, where low is what the additions to high have lost.
struct WideSum {
  Value high, low;
};

// Whether sums of this kind are kept wide; integers are exact, and f64 has digits to spare.
inline bool IsWideKind(Kind kind) { return kind == Kind::kF32; }

WideSum AddWide(Builder& b, const WideSum& sum, Value more);
WideSum MergeWide(Builder& b, const WideSum& x, const WideSum& y);
// As one value. Where the sum is not finite the errors are NaN, and where they are zero its sign is kept.
Value RoundWide(Builder& b, const WideSum& sum);

// Sums of products, `count` of them side by side, over a depth that is known: in chains that a wide sum takes up.
// Integers, and depths of less than four chains, are accumulated as they come.
class ChainedSums {
 public:
  static constexpr int64_t kChain = 128;  // products

  // `depth`: products of each sum. `chained`: whether chains are wanted.
  ChainedSums(Builder& b, Kind kind, int width, std::size_t count, int64_t depth, bool chained = true);

  Values Start() const;
  // Adds the turns of [begin, end) in steps of `step` to `state`; `turns` of them are a chain. body(i, sums) adds one.
  Values Add(Value begin, Value end, uint32_t step, uint32_t turns, const Values& state,
             const std::function<Values(Value, const Values&)>& body) const;
  // A chain by itself, which begins from zeros.
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
