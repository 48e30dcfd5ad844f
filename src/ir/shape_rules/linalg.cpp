// SPDX-License-Identifier: Apache-2.0
// Cholesky, triangular solve, Fourier transforms, batch norm, random numbers.
#include "ir/shape_rules/checks.h"

namespace krafla::shape_rules {

Result<Shape> Cholesky(const ShapeRuleInput& in) {
  KRAFLA_ASSIGN(const Shape* a, ArrayOperand(in, 0));
  if (a->rank() < 2 || a->dim(a->rank() - 1) != a->dim(a->rank() - 2))
    return InvalidArgument("Cholesky takes square matrices, the operand is {}.", Brief(*a));
  return SameAsOperand(in);
}

// XLA: shape_inference.cc InferTriangularSolveShape.
Result<Shape> TriangularSolve(const ShapeRuleInput& in) {
  KRAFLA_ASSIGN(const Shape* a, ArrayOperand(in, 0));
  KRAFLA_ASSIGN(const Shape* b, ArrayOperand(in, 1));
  bool left = Attr<TriangularSolveAttributes>(in).left_side;
  if (a->element_type() != b->element_type())
    return InvalidArgument("The operands must have one element type; they are {} and {}.", Brief(*a), Brief(*b));
  if (a->rank() < 2 || a->rank() != b->rank())
    return InvalidArgument("The operands must have equal ranks of at least 2; they are {} and {}.", Brief(*a),
                           Brief(*b));
  int64_t rank = a->rank();
  if (a->dim(rank - 1) != a->dim(rank - 2))
    return InvalidArgument("The first operand must be square matrices, it is {}.", Brief(*a));
  if (a->dim(rank - 1) != b->dim(left ? rank - 2 : rank - 1))
    return InvalidArgument("The matrices {} have {} rows; the right-hand sides {} do not (left_side={}).", Brief(*a),
                           a->dim(rank - 1), Brief(*b), left);
  for (int64_t i = 0; i + 2 < rank; ++i)
    if (a->dim(i) != b->dim(i))
      return InvalidArgument("The operands must have equal batch dimensions; they are {} and {}.", Brief(*a),
                             Brief(*b));
  Shape out = *b;
  out.ClearLayout();
  return out;
}

// XLA: shape_inference.cc InferFftShape. XLA does not compare fft_length of FFT and IFFT with the operand; here another
// length is refused, as there is no transform of it.
Result<Shape> Fft(const ShapeRuleInput& in) {
  KRAFLA_ASSIGN(const Shape* x, ArrayOperand(in, 0));
  const auto& a = Attr<FftAttributes>(in);
  int64_t transformed = a.length.ssize();
  if (transformed < 1 || transformed > 3 || transformed > x->rank())
    return InvalidArgument("fft_length={} must name one to three of the last dimensions of {}.", Brief(a.length),
                           Brief(*x));
  for (int64_t n : a.length)
    if (n < 0) return InvalidArgument("fft_length={} must not be negative.", Brief(a.length));
  bool real_in = a.type == FftType::kRfft;
  bool fits = real_in ? (x->element_type() == ElementType::kF32 || x->element_type() == ElementType::kF64)
                      : IsComplex(x->element_type());
  if (!fits)
    return InvalidArgument("This transform takes {}, the operand is {}.", real_in ? "f32 or f64" : "complex numbers",
                           Brief(*x));
  int64_t last = a.length.back();
  // The length of the half that stands for the whole of a real transform; of nothing it is nothing.
  int64_t half = last == 0 ? 0 : last / 2 + 1;
  int64_t first = x->rank() - transformed;
  DimList dims;
  for (int64_t i = 0; i < x->rank(); ++i) {
    if (i < first) {
      dims.AddFrom(*x, i);
      continue;
    }
    int64_t length = a.length[static_cast<std::size_t>(i - first)];
    bool is_last = i + 1 == x->rank();
    int64_t want = is_last && a.type == FftType::kIrfft ? half : length;
    // XLA also takes the one element that 0 / 2 + 1 counts, which jnp.fft.irfft gives for a line of one.
    const bool one_for_nothing = is_last && a.type == FftType::kIrfft && last == 0 && x->dim(i) == 1;
    if (x->dim(i) != want && !one_for_nothing)
      return InvalidArgument("fft_length={} wants {} elements in dimension {} of {}.", Brief(a.length), want, i,
                             Brief(*x));
    dims.Add(is_last && a.type == FftType::kRfft ? half : length, x->IsDynamicDim(i));
  }
  ElementType type = x->element_type();
  if (a.type == FftType::kRfft) type = type == ElementType::kF32 ? ElementType::kC64 : ElementType::kC128;
  if (a.type == FftType::kIrfft) type = RealPart(type);
  return dims.Make(type);
}

namespace {

// The size and flag of the feature dimension, which operands `first`.. (but those in `full`) must have.
Result<Shape> FeatureShape(const ShapeRuleInput& in) {
  KRAFLA_TRY(ExpectAllArrays(in));
  const Shape& x = *in.operands[0];
  int64_t feature = Attr<BatchNormAttributes>(in).feature_index;
  KRAFLA_TRY(CheckDimensionNumber("feature_index", feature, x.rank()));
  DimList dims;
  dims.AddFrom(x, feature);
  return dims.Make(x.element_type());
}

Result<> CheckPerFeature(const ShapeRuleInput& in, const Shape& feature, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i)
    if (!SameTypeAndDims(*in.operands[i], feature))
      return InvalidArgument("Operand {} must be {}, one value a feature; it is {}.", i, Brief(feature),
                             Brief(*in.operands[i]));
  return {};
}

Result<Shape> WithFeatures(const Shape& x, const Shape& feature) {
  std::vector<Shape> results = {x, feature, feature};
  results[0].ClearLayout();
  return Shape::MakeTuple(std::move(results));
}

}  // namespace

// Operand, scale, offset.
Result<Shape> BatchNormTraining(const ShapeRuleInput& in) {
  KRAFLA_TRY(ExpectOperands(in, 3));
  KRAFLA_ASSIGN(Shape feature, FeatureShape(in));
  KRAFLA_TRY(CheckPerFeature(in, feature, 1, 3));
  return WithFeatures(*in.operands[0], feature);
}

// Operand, scale, offset, mean, variance.
Result<Shape> BatchNormInference(const ShapeRuleInput& in) {
  KRAFLA_TRY(ExpectOperands(in, 5));
  KRAFLA_ASSIGN(Shape feature, FeatureShape(in));
  KRAFLA_TRY(CheckPerFeature(in, feature, 1, 5));
  Shape out = *in.operands[0];
  out.ClearLayout();
  return out;
}

// Operand, scale, mean, variance, gradient of the output.
Result<Shape> BatchNormGrad(const ShapeRuleInput& in) {
  KRAFLA_TRY(ExpectOperands(in, 5));
  KRAFLA_ASSIGN(Shape feature, FeatureShape(in));
  KRAFLA_TRY(CheckPerFeature(in, feature, 1, 4));
  if (!SameTypeAndDims(*in.operands[4], *in.operands[0]))
    return InvalidArgument("The gradient must be like the operand {}, it is {}.", Brief(*in.operands[0]),
                           Brief(*in.operands[4]));
  return WithFeatures(*in.operands[0], feature);
}

Result<Shape> Rng(const ShapeRuleInput& in) {
  KRAFLA_ASSIGN(const Shape* a, ArrayOperand(in, 0));
  KRAFLA_ASSIGN(const Shape* b, ArrayOperand(in, 1));
  KRAFLA_ASSIGN(const Shape* declared, DeclaredArray(in));
  ElementType type = declared->element_type();
  if (!IsScalarOf(*a, type) || !IsScalarOf(*b, type))
    return InvalidArgument("The parameters of the distribution must be {}[]; they are {} and {}.",
                           ElementTypeName(type), Brief(*a), Brief(*b));
  bool uniform = Attr<RngAttributes>(in).distribution == RngDistribution::kUniform;
  if (IsComplex(type) || (!uniform && !IsFloat(type)))
    return InvalidArgument("{} numbers of type {} are not defined.", uniform ? "Uniform" : "Normal",
                           ElementTypeName(type));
  return *declared;
}

// Operand: the state. Result: the next state and the bits.
Result<Shape> RngBitGenerator(const ShapeRuleInput& in) {
  KRAFLA_ASSIGN(const Shape* state, ArrayOperand(in, 0));
  KRAFLA_ASSIGN(const Shape* declared, Declared(in));
  bool three_fry = Attr<RngBitGeneratorAttributes>(in).algorithm == RngAlgorithm::kThreeFry;
  if (state->element_type() != ElementType::kU64 || state->rank() != 1 || state->dim(0) < 2 ||
      state->dim(0) > (three_fry ? 2 : 3))
    return InvalidArgument("The state of this generator is {}, {} was given.",
                           three_fry ? "u64[2]" : "u64[2] or u64[3]", Brief(*state));
  if (!declared->IsTuple() || declared->tuple_elements().size() != 2 ||
      !SameTypeAndDims(declared->tuple_elements()[0], *state) ||
      !IsIntegral(declared->tuple_elements()[1].element_type()) ||
      BitWidth(declared->tuple_elements()[1].element_type()) < 8)
    return InvalidArgument(
        "rng-bit-generator gives a tuple of the state {} and integers of 8 to 64 bits, {} was "
        "declared.",
        Brief(*state), Brief(*declared));
  return *declared;
}

Result<Shape> RngGetAndUpdateState(const ShapeRuleInput& in) {
  static constexpr int64_t kWords[] = {2};
  if (in.declared != nullptr &&
      (in.declared->element_type() != ElementType::kU64 || in.declared->rank() != 1 || in.declared->dim(0) != 2))
    return InvalidArgument("rng-get-and-update-state gives u64[2], {} was declared.", Brief(*in.declared));
  return Shape::MakeArray(ElementType::kU64, kWords);
}

}  // namespace krafla::shape_rules
