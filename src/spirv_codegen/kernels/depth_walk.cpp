// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/kernels/depth_walk.h"

#include "base/checked_math.h"

namespace krafla::spirv {

DepthWalk::DepthWalk(Builder& b, const TileProblem& problem, int64_t step, std::array<Strides, 2> operands)
    : b_(b), p_(problem), step_(step), steps_(CeilDiv(problem.depth, step)), operands_(std::move(operands)) {
  if (p_.segments == 1) return;
  for (std::size_t d = p_.segment_dims.size(); d-- > 0;)
    if (p_.segment_dims[d] > 1) dims_.push_back(d);
}

Values DepthWalk::Start() const { return Values(p_.segments > kBits ? 4 + dims_.size() : 4, U(0)); }

Values DepthWalk::Step(int64_t step) const {
  return {U(0), U(step * step_), U(step * operands_[0].step), U(step * operands_[1].step)};
}

// Whether coordinate `dim`, an index into dims_, can go on by one.
Value DepthWalk::GoesOn(const Values& state, std::size_t dim) const {
  const int64_t size = p_.segment_dims[dims_[dim]];
  if (p_.segments > kBits) return b_.Compare(Cmp::kULt, state[4 + dim], U(size - 1));
  int64_t inner = 1, bits = 0;
  for (std::size_t i = 0; i < dim; ++i) inner *= p_.segment_dims[dims_[i]];
  for (int64_t s = 0; s < p_.segments; ++s)
    if (s / inner % size != size - 1) bits |= int64_t{1} << s;
  return b_.Compare(Cmp::kNe, b_.And(b_.Shr(U(bits), state[0]), U(1)), U(0));
}

Values DepthWalk::Next(const Values& state) const {
  Values out = state;
  Value same_segment;  // none: never
  if (p_.segments == 1) {
    out[1] = b_.Add(state[1], U(step_));
  } else {
    if (steps_ > 1) same_segment = b_.Compare(Cmp::kULt, state[1], U((steps_ - 1) * step_));
    auto either = [&](Value same, Value next) { return same_segment ? b_.Select(same_segment, same, next) : next; };
    out[0] = either(state[0], b_.Add(state[0], U(1)));
    out[1] = either(b_.Add(state[1], U(step_)), U(0));
  }
  Values goes_on;
  Value stays = same_segment;  // what is further out
  for (std::size_t i = 0; i < dims_.size(); ++i) {
    goes_on.push_back(GoesOn(state, i));
    if (p_.segments <= kBits) continue;
    const Value next = b_.Select(goes_on[i], b_.Add(state[4 + i], U(1)), U(0));
    out[4 + i] = stays ? b_.Select(stays, state[4 + i], next) : next;
    stays = stays ? b_.LOr(stays, goes_on[i]) : goes_on[i];
  }
  for (std::size_t x = 0; x < 2; ++x) out[2 + x] = b_.Add(state[2 + x], Distance(operands_[x], same_segment, goes_on));
  return out;
}

void DepthWalk::Turns(const Values& state, int64_t first, int64_t end,
                      const std::function<Values(const Values&)>& turn) const {
  if (first >= end) return;
  if (first + 1 == end) {
    turn(state);
    return;
  }
  // What is carried counts the steps already.
  auto more = [&](const Values& at) {
    if (p_.segments == 1) {
      for (std::size_t x = 0; x < 2; ++x)
        if (operands_[x].step != 0) return b_.Compare(Cmp::kNe, at[2 + x], U(end * operands_[x].step));
      return b_.Compare(Cmp::kNe, at[1], U(end * step_));
    }
    const Value segment = b_.Compare(Cmp::kNe, at[0], U(end / steps_));
    return steps_ == 1 ? segment : b_.LOr(segment, b_.Compare(Cmp::kNe, at[1], U(end % steps_ * step_)));
  };
  b_.While(state, more, turn);
}

Value DepthWalk::Distance(const Strides& operand, Value same_segment, const Values& goes_on) const {
  const auto step = static_cast<int64_t>(operand.step);
  if (p_.segments == 1 || step == 0) return U(step);
  const auto stride = [&](std::size_t d) { return operand.segments.empty() ? 0 : operand.segments[d]; };
  int64_t back = (steps_ - 1) * step;  // to where all that is further in began
  std::vector<Value> distances;
  for (std::size_t d : dims_) {
    distances.push_back(U(stride(d) - back));
    back += (p_.segment_dims[d] - 1) * stride(d);
  }
  Value out = distances.back();
  for (std::size_t i = distances.size() - 1; i-- > 0;) out = b_.Select(goes_on[i], distances[i], out);
  return same_segment ? b_.Select(same_segment, U(step), out) : out;
}

}  // namespace krafla::spirv
