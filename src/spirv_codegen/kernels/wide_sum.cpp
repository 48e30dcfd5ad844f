// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/kernels/wide_sum.h"

#include <utility>

namespace krafla::spirv {
namespace {

// x + y and what that addition loses, exactly.
WideSum TwoSum(Builder& b, Value x, Value y) {
  const Value sum = b.FAdd(x, y);
  const Value from_y = b.FSub(sum, x), from_x = b.FSub(sum, from_y);
  return {sum, b.FAdd(b.FSub(x, from_x), b.FSub(y, from_y))};
}

// Nothing may be contracted in what follows.
class Strictly {
 public:
  explicit Strictly(Builder& b) : b_(b), before_(std::exchange(b.strict, true)) {}
  ~Strictly() { b_.strict = before_; }
  Strictly(const Strictly&) = delete;
  Strictly& operator=(const Strictly&) = delete;

 private:
  Builder& b_;
  bool before_;
};

}  // namespace

WideSum AddWide(Builder& b, const WideSum& sum, Value more) {
  const Strictly strictly(b);
  const WideSum next = TwoSum(b, sum.high, more);
  return {next.high, b.FAdd(sum.low, next.low)};
}

WideSum MergeWide(Builder& b, const WideSum& x, const WideSum& y) {
  const Strictly strictly(b);
  const WideSum next = TwoSum(b, x.high, y.high);
  return {next.high, b.FAdd(b.FAdd(x.low, y.low), next.low)};
}

Value RoundWide(Builder& b, const WideSum& sum) {
  const Strictly strictly(b);
  const Value zero = b.Zero(sum.low.kind, sum.low.width);
  const Value is_lost = b.LOr(b.FCompare(FCmp::kLt, sum.low, zero), b.FCompare(FCmp::kGt, sum.low, zero));
  return b.Select(is_lost, b.FAdd(sum.high, sum.low), sum.high);
}

}  // namespace krafla::spirv
