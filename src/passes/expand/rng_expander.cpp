// SPDX-License-Identifier: Apache-2.0
// rng as rng-get-and-update-state, rng-bit-generator and arithmetic (XLA: rng_expander.cc). Each instruction has a key
// of its own, so that two of them are independent although their counters begin alike.
#include <cmath>
#include <numbers>

#include "ir/builder.h"
#include "numerics/rng.h"
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/simplify/scalar_facts.h"

namespace krafla {

namespace {

class RandomNumbers {
 public:
  RandomNumbers(Instruction* i, uint64_t key) : i_(i), rewrite_(*i), key_(key) {}

  Result<Instruction*> Run() {
    const Shape& shape = i_->shape();
    const ElementType type = shape.element_type();
    if (!shape.IsArray() || !IsStatic(*i_) || i_->operand_count() != 2) return nullptr;
    if (i_->attr<RngAttributes>().distribution == RngDistribution::kNormal) {
      return IsFloat(type) ? Normal() : Result<Instruction*>(nullptr);
    }
    if (IsFloat(type)) return Uniform();
    return IsIntegral(type) ? UniformInteger() : Result<Instruction*>(nullptr);
  }

 private:
  // Random unsigned integers of `type` (u32 or u64).
  Result<Instruction*> Bits(ElementType type, const Dims& dims) {
    // With a state of three words the first is the key, the others are the counter.
    KRAFLA_ASSIGN(RngPlan plan, PlanRng(RngMethod::kPhilox, 3, dims, BitWidth(type)));
    RngStateAttributes delta;
    delta.delta = static_cast<int64_t>(plan.blocks);
    const Dims two{2}, three{3};
    Instruction* counter = rewrite_.Add(Opcode::kRngGetAndUpdateState, ArrayShape(ElementType::kU64, two), {}, delta);
    Instruction* key = rewrite_.Reshape(rewrite_.Constant(ScalarFromBits(ElementType::kU64, key_)), {1});
    Instruction* state = rewrite_.Add(Opcode::kConcatenate, ArrayShape(ElementType::kU64, three), {key, counter},
                                      DimensionsAttributes{{0}});
    KRAFLA_ASSIGN(Shape bits, Shape::MakeArray(type, dims));
    KRAFLA_ASSIGN(Shape pair, Shape::MakeTuple({state->shape(), bits}));
    RngBitGeneratorAttributes philox;
    philox.algorithm = RngAlgorithm::kPhilox;
    return rewrite_.Element(rewrite_.Add(Opcode::kRngBitGenerator, pair, {state}, philox), 1);
  }

  // From [0, 1): the upper `kept` bits as a fraction. Floats of `wide`.
  Instruction* Fraction(Instruction* bits, ElementType wide, int kept) {
    const ElementType type = bits->shape().element_type();
    const Dims dims = bits->shape().dims();
    Instruction* shift = rewrite_.Splat(ScalarOfInt(type, BitWidth(type) - kept), dims);
    Instruction* high = rewrite_.Convert(rewrite_.Binary(Opcode::kShiftRightLogical, bits, shift), wide);
    return rewrite_.Binary(Opcode::kMultiply, high, Number(wide, std::ldexp(1.0, -kept), dims));
  }
  Instruction* Number(ElementType type, double value, const Dims& dims) {
    return rewrite_.Splat(ScalarLiteral(type, value), dims);
  }
  Instruction* Parameter(std::size_t n, ElementType type) {
    return rewrite_.Broadcast(rewrite_.Convert(i_->operand(n), type), i_->shape().dims(), {});
  }

  // low + u (high - low); where rounding reaches the open end, low. A fraction has the bits of the type's significand.
  Result<Instruction*> Uniform() {
    const ElementType type = i_->shape().element_type();
    const Dims dims = i_->shape().dims();
    const bool f64 = type == ElementType::kF64;
    const ElementType wide = f64 ? type : ElementType::kF32;
    const int kept = f64 ? 53 : type == ElementType::kF32 ? 24 : type == ElementType::kF16 ? 11 : 8;
    KRAFLA_ASSIGN(Instruction * bits, Bits(f64 ? ElementType::kU64 : ElementType::kU32, dims));
    Instruction *low = Parameter(0, wide), *high = Parameter(1, wide);
    Instruction* width = rewrite_.Binary(Opcode::kSubtract, high, low);
    Instruction* scaled = rewrite_.Binary(Opcode::kMultiply, Fraction(bits, wide, kept), width);
    Instruction* value = rewrite_.Convert(rewrite_.Binary(Opcode::kAdd, scaled, low), type);
    Instruction *first = Parameter(0, type), *end = Parameter(1, type);
    return rewrite_.Select(rewrite_.Compare(ComparisonDirection::kGe, value, end), first, value);
  }

  // low + bits mod (high - low), in unsigned arithmetic; low where the range is empty.
  Result<Instruction*> UniformInteger() {
    const ElementType type = i_->shape().element_type();
    const Dims dims = i_->shape().dims();
    const ElementType wide = BitWidth(type) > 32 ? ElementType::kU64 : ElementType::kU32;
    const ElementType extended = BitWidth(type) > 32 ? type : IsSigned(type) ? ElementType::kS32 : ElementType::kU32;
    KRAFLA_ASSIGN(Instruction * bits, Bits(wide, dims));
    auto parameter = [&](std::size_t n) {
      Instruction* x = rewrite_.Convert(rewrite_.Convert(i_->operand(n), extended), wide);
      return rewrite_.Broadcast(x, dims, {});
    };
    Instruction *low = parameter(0), *width = rewrite_.Binary(Opcode::kSubtract, parameter(1), low);
    Instruction* zero = rewrite_.Splat(ScalarZero(wide), dims);
    Instruction* value = rewrite_.Binary(Opcode::kAdd, low, rewrite_.Binary(Opcode::kRemainder, bits, width));
    value = rewrite_.Select(rewrite_.Compare(ComparisonDirection::kEq, width, zero), low, value);
    return rewrite_.Convert(value, type);
  }

  // Box and Muller: mean + deviation sqrt(-2 log(1 - u)) cos(2 pi v).
  Result<Instruction*> Normal() {
    const ElementType type = i_->shape().element_type();
    const Dims dims = i_->shape().dims();
    const bool f64 = type == ElementType::kF64;
    const ElementType wide = f64 ? type : ElementType::kF32;
    Dims pairs = dims;
    pairs.insert(pairs.begin(), 2);
    KRAFLA_ASSIGN(Instruction * bits, Bits(f64 ? ElementType::kU64 : ElementType::kU32, pairs));
    auto fraction = [&](int64_t n) {
      SliceAttributes slice;
      for (int64_t d : pairs) {
        slice.starts.push_back(0);
        slice.limits.push_back(d);
        slice.strides.push_back(1);
      }
      slice.starts[0] = n;
      slice.limits[0] = n + 1;
      return Fraction(rewrite_.Reshape(rewrite_.Slice(bits, slice), dims), wide, f64 ? 53 : 24);
    };
    Instruction* u = rewrite_.Binary(Opcode::kSubtract, Number(wide, 1, dims), fraction(0));
    Instruction* square = rewrite_.Binary(Opcode::kMultiply, Number(wide, -2, dims), rewrite_.Unary(Opcode::kLog, u));
    Instruction* angle = rewrite_.Binary(Opcode::kMultiply, Number(wide, 2 * std::numbers::pi, dims), fraction(1));
    Instruction* standard =
        rewrite_.Binary(Opcode::kMultiply, rewrite_.Unary(Opcode::kSqrt, square), rewrite_.Unary(Opcode::kCos, angle));
    Instruction* scaled = rewrite_.Binary(Opcode::kMultiply, standard, Parameter(1, wide));
    return rewrite_.Convert(rewrite_.Binary(Opcode::kAdd, scaled, Parameter(0, wide)), type);
  }

  Instruction* i_;
  Rewriter rewrite_;
  uint64_t key_;
};

}  // namespace

Result<bool> RngExpander(Module& module, const PassOptions&) {
  uint64_t number = 0;
  return RewriteAll(module, Opcode::kRng,
                    [&](Instruction* i) { return RandomNumbers(i, ++number * 0x9e3779b97f4a7c15u).Run(); });
}

}  // namespace krafla
