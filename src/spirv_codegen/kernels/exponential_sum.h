// SPDX-License-Identifier: Apache-2.0
// A sum of exp(x - h) over x that come one after the other, where h is known behind all of them alone: the largest x in
// a softmax. What is summed is exp(x - c), where c is the largest x so far, and the sum is corrected whenever c grows;
// at the end it is by exp(c - h). c stays finite, and so is the difference to it of what is: sums over x of which all
// are -inf, or one is +inf or NaN, are what they would have been.
#pragma once

#include <span>

#include "spirv_codegen/kernels/wide_sum.h"

namespace krafla::spirv {

Value Exponential(Builder& b, Value x);
// c of no x.
Value LeastFinite(Builder& b);
// A chain with more x: c, which is a scalar, and the sum, which has the width of the x.
Values AddExponentials(Builder& b, std::span<const Value> chain, std::span<const Value> x);
// All so far (c, and a sum with what it has lost, wide_sum.h), and a chain behind it.
Values AbsorbExponentials(Builder& b, std::span<const Value> all, std::span<const Value> chain);
// Of two lanes all so far, as both of them have it.
Values MeetExponentials(Builder& b, std::span<const Value> all, std::span<const Value> other);
// The sum of exp(x - h).
Value FinishExponentials(Builder& b, std::span<const Value> all, Value h);

}  // namespace krafla::spirv
