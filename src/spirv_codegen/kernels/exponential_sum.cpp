// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/kernels/exponential_sum.h"

#include <limits>

#include "spirv_codegen/scalar_ops.h"

namespace krafla::spirv {
namespace {

// NaN counts as no number: it is in the sum anyway.
Value LargerNumber(Builder& b, Value x, Value y) { return b.Select(b.FCompare(FCmp::kGt, x, y), x, y); }

}  // namespace

Value Exponential(Builder& b, Value x) {
  return LowerHlo(b, Opcode::kExp, ElementType::kF32, ElementType::kF32, std::span(&x, 1));
}

Value LeastFinite(Builder& b) { return b.F32(-std::numeric_limits<float>::max()); }

Values AddExponentials(Builder& b, std::span<const Value> chain, std::span<const Value> x) {
  Value most = chain[0], largest = x[0];
  for (std::size_t i = 1; i < x.size(); ++i) largest = LargerNumber(b, x[i], largest);
  for (int i = 0; i < largest.width; ++i) most = LargerNumber(b, b.Extract(largest, i), most);
  const Value finite = b.F32(std::numeric_limits<float>::max());
  most = b.Select(b.FCompare(FCmp::kLt, most, finite), most, finite);
  Value sum = b.FMul(chain[1], b.Splat(Exponential(b, b.FSub(chain[0], most)), chain[1].width));
  for (Value v : x) sum = b.FAdd(sum, Exponential(b, b.FSub(v, b.Splat(most, v.width))));
  return {most, sum};
}

Values AbsorbExponentials(Builder& b, std::span<const Value> all, std::span<const Value> chain) {
  const Value most = LargerNumber(b, chain[0], all[0]);
  const Value before = b.Splat(Exponential(b, b.FSub(all[0], most)), all[1].width);
  const Value more = b.FMul(chain[1], b.Splat(Exponential(b, b.FSub(chain[0], most)), chain[1].width));
  const WideSum sum = AddWide(b, {b.FMul(all[1], before), b.FMul(all[2], before)}, more);
  return {most, sum.high, sum.low};
}

Values MeetExponentials(Builder& b, std::span<const Value> all, std::span<const Value> other) {
  const Value most = LargerNumber(b, all[0], other[0]);
  const auto at_most = [&](std::span<const Value> s) {
    const Value change = Exponential(b, b.FSub(s[0], most));
    return WideSum{b.FMul(s[1], change), b.FMul(s[2], change)};
  };
  const WideSum sum = MergeWide(b, at_most(all), at_most(other));
  return {most, sum.high, sum.low};
}

Value FinishExponentials(Builder& b, std::span<const Value> all, Value h) {
  return b.FMul(RoundWide(b, {all[1], all[2]}), Exponential(b, b.FSub(all[0], h)));
}

}  // namespace krafla::spirv
