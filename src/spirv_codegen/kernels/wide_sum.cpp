// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/kernels/wide_sum.h"

#include <utility>

namespace krafla::spirv {
namespace {

// x + y, and exactly what that addition loses.
WideSum TwoSum(Builder& b, Value x, Value y) {
  const Value sum = b.FAdd(x, y);
  const Value from_y = b.FSub(sum, x), from_x = b.FSub(sum, from_y);
  return {sum, b.FAdd(b.FSub(x, from_x), b.FSub(y, from_y))};
}

// Makes float arithmetic NoContraction for as long as it lives.
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

ChainedSums::ChainedSums(Builder& b, Kind kind, int width, std::size_t count, int64_t depth, bool chained)
    : b_(b), kind_(kind), width_(width), count_(count), chained_(chained && Chained(kind, depth)) {}

Values ChainedSums::Start() const {
  Values out = Zeros();
  if (chained_) out.resize(2 * count_, b_.Zero(kind_, width_));
  return out;
}

Values ChainedSums::Absorb(const Values& state, const std::function<Values(const Values&)>& chain) const {
  if (!chained_) return chain(state);
  const Values more = chain(Zeros());
  Values out = state;
  for (std::size_t i = 0; i < count_; ++i) {
    const WideSum sum = AddWide(b_, {state[i], state[count_ + i]}, more[i]);
    out[i] = sum.high;
    out[count_ + i] = sum.low;
  }
  return out;
}

Values ChainedSums::Add(Value begin, Value end, uint32_t step, uint32_t turns, const Values& state,
                        const std::function<Values(Value, const Values&)>& body, Unroll unroll) const {
  if (!chained_) return b_.For(begin, end, b_.U32(step), state, body, unroll);
  const Value length = b_.U32(step * turns);
  return b_.For(begin, end, length, state, [&](Value at, const Values& sums) {
    const Value stop = b_.Min(b_.Add(at, length), end);
    return Absorb(sums, [&](const Values& zeros) { return b_.For(at, stop, b_.U32(step), zeros, body); });
  });
}

Values ChainedSums::Finish(const Values& state) const {
  if (!chained_) return state;
  Values out;
  for (std::size_t i = 0; i < count_; ++i) out.push_back(RoundWide(b_, {state[i], state[count_ + i]}));
  return out;
}

}  // namespace krafla::spirv
