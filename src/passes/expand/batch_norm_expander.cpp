// SPDX-License-Identifier: Apache-2.0
// batch-norm-inference, -training and -grad as arithmetic and reductions (XLA: batchnorm_expander.cc). Unlike there,
// the variance is the mean of (x - mean)^2, not E[x^2] - mean^2, which loses all digits of a small variance and may
// come out negative; and types narrower than f32 are computed in f32 and rounded once.
#include "ir/builder.h"
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/simplify/scalar_facts.h"

namespace krafla {

namespace {

class BatchNorm {
 public:
  explicit BatchNorm(Instruction* i)
      : i_(i),
        rewrite_(*i),
        attributes_(i->attr<BatchNormAttributes>()),
        type_(i->operand(0)->shape().element_type()),
        wide_(type_ == ElementType::kF64 ? ElementType::kF64 : ElementType::kF32) {
    const Shape& shape = i->operand(0)->shape();
    shape_ = shape.WithElementType(wide_);
    shape_.ClearLayout();
    for (int64_t d = 0; d < shape.rank(); ++d)
      if (d != attributes_.feature_index) others_.push_back(d);
    int64_t features = shape.dim(attributes_.feature_index);
    count_ = features == 0 ? 0 : shape.element_count() / features;
  }

  Result<Instruction*> Inference() {
    Instruction* scale = Multiply(Wide(1), InverseDeviation(Wide(4)));
    Instruction* centered = Subtract(Wide(0), Spread(Wide(3)));
    return Narrow(Add(Multiply(centered, Spread(scale)), Spread(Wide(2))));
  }

  Result<Instruction*> Training() {
    Instruction* x = Wide(0);
    KRAFLA_ASSIGN(Instruction * sum, Sum(x));
    Instruction* mean = DivideByCount(sum);
    Instruction* centered = Subtract(x, Spread(mean));
    KRAFLA_ASSIGN(Instruction * squares, Sum(Multiply(centered, centered)));
    Instruction* variance = DivideByCount(squares);
    Instruction* scale = Multiply(Wide(1), InverseDeviation(variance));
    Instruction* out = Add(Multiply(centered, Spread(scale)), Spread(Wide(2)));
    return rewrite_.Tuple({Narrow(out), Narrow(mean), Narrow(variance)});
  }

  // With y = scale * (x - mean) / sqrt(variance + epsilon) + offset, mean and variance being functions of x.
  Result<Instruction*> Grad() {
    Instruction *x = Wide(0), *gradient = Wide(4);
    Instruction* inverse = InverseDeviation(Wide(3));
    Instruction* normal = Multiply(Subtract(x, Spread(Wide(2))), Spread(inverse));
    KRAFLA_ASSIGN(Instruction * grad_offset, Sum(gradient));
    KRAFLA_ASSIGN(Instruction * grad_scale, Sum(Multiply(gradient, normal)));
    Instruction* mean_gradient = DivideByCount(grad_offset);
    Instruction* mean_product = DivideByCount(grad_scale);
    Instruction* inner = Subtract(Subtract(gradient, Spread(mean_gradient)), Multiply(normal, Spread(mean_product)));
    Instruction* grad_x = Multiply(Spread(Multiply(Wide(1), inverse)), inner);
    return rewrite_.Tuple({Narrow(grad_x), Narrow(grad_scale), Narrow(grad_offset)});
  }

 private:
  Instruction* Wide(std::size_t operand) { return rewrite_.Convert(i_->operand(operand), wide_); }
  Instruction* Narrow(Instruction* x) { return rewrite_.Convert(x, type_); }
  Instruction* Add(Instruction* a, Instruction* b) { return rewrite_.Binary(Opcode::kAdd, a, b); }
  Instruction* Subtract(Instruction* a, Instruction* b) { return rewrite_.Binary(Opcode::kSubtract, a, b); }
  Instruction* Multiply(Instruction* a, Instruction* b) { return rewrite_.Binary(Opcode::kMultiply, a, b); }
  // One value a feature, for every element.
  Instruction* Spread(Instruction* x) {
    return rewrite_.Add(Opcode::kBroadcast, shape_, {x}, DimensionsAttributes{Dims{attributes_.feature_index}});
  }
  Instruction* Like(Instruction* x, double value) {
    return rewrite_.Splat(ScalarLiteral(wide_, value), x->shape().dims());
  }
  Result<Instruction*> Sum(Instruction* x) { return rewrite_.Reduce(Opcode::kAdd, x, ScalarZero(wide_), others_); }
  Instruction* DivideByCount(Instruction* x) {
    if (!i_->operand(0)->shape().IsDynamic())
      return rewrite_.Binary(Opcode::kDivide, x, Like(x, static_cast<double>(count_)));
    // How many there are is known at run time only.
    Instruction* count = rewrite_.Splat(ScalarOne(wide_), {});
    for (int64_t d : others_) {
      Instruction* size = rewrite_.Add(Opcode::kGetDimensionSize, Shape::MakeScalar(ElementType::kS32),
                                       {i_->operand(0)}, DimensionsAttributes{Dims{d}});
      count = Multiply(count, rewrite_.Convert(size, wide_));
    }
    return rewrite_.Binary(Opcode::kDivide, x, rewrite_.Broadcast(count, x->shape().dims(), {}));
  }
  Instruction* InverseDeviation(Instruction* variance) {
    Instruction* safe = Add(variance, Like(variance, static_cast<double>(attributes_.epsilon)));
    return rewrite_.Unary(Opcode::kRsqrt, safe);
  }

  Instruction* i_;
  Rewriter rewrite_;
  BatchNormAttributes attributes_;
  ElementType type_, wide_;
  Shape shape_;
  Dims others_;
  int64_t count_ = 0;
};

// Sizes known at run time only are taken where every feature has as many elements.
bool Takes(const Instruction& i) {
  const Shape& x = i.operand(0)->shape();
  const int64_t feature = i.attr<BatchNormAttributes>().feature_index;
  for (int64_t d = 0; d < x.rank(); ++d)
    if (x.IsDynamicDim(d) && (d == feature || x.dim(d) > INT32_MAX)) return false;
  const bool grad = i.opcode() == Opcode::kBatchNormGrad;
  for (std::size_t n = 1; n < i.operand_count(); ++n) {
    const Shape& other = i.operand(n)->shape();
    if (grad && n == 4 ? !Shape::Compatible(other, x) : other.IsDynamic()) return false;
  }
  return true;
}

}  // namespace

Result<bool> BatchNormExpander(Module& module, const PassOptions&) {
  auto when_possible = [](Result<Instruction*> (BatchNorm::*expand)()) {
    return [expand](Instruction* i) -> Result<Instruction*> {
      if (!Takes(*i)) return nullptr;
      return (BatchNorm(i).*expand)();
    };
  };
  KRAFLA_ASSIGN(bool inference, RewriteAll(module, Opcode::kBatchNormInference, when_possible(&BatchNorm::Inference)));
  KRAFLA_ASSIGN(bool training, RewriteAll(module, Opcode::kBatchNormTraining, when_possible(&BatchNorm::Training)));
  KRAFLA_ASSIGN(bool grad, RewriteAll(module, Opcode::kBatchNormGrad, when_possible(&BatchNorm::Grad)));
  return inference || training || grad;
}

}  // namespace krafla
