// SPDX-License-Identifier: Apache-2.0
// Long sums in f32: terms are added up in short chains, and the chains' results in a sum that keeps its rounding errors
// beside it (Knuth's TwoSum), so that the error is that of one chain, whatever the length.
#pragma once

#include "spirv_codegen/builder.h"

namespace krafla::spirv {

// Steps of a chain. Sixty-four additions lose some two units in the last place of the chain's sum at worst in practice,
// and the six operations of a TwoSum are a few per cent of them.
inline constexpr uint32_t kSumChain = 64;

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

}  // namespace krafla::spirv
