// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "cases.h"

namespace krafla::testing {
namespace {

constexpr double kClose = 2e-6;

XlaOp Ramp(Program& p, int64_t count, Span<int64_t> dims) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(i));
  return p.F(values, dims);
}

DotDimensionNumbers Rows() {
  DotDimensionNumbers n;
  n.lhs_contracting_dimensions = {1};
  n.rhs_contracting_dimensions = {0};
  return n;
}

// The larger value and its index, the first of equal ones.
XlaComputation ArgMax() {
  XlaBuilder b("argmax");
  Shape f = Shape::MakeScalar(F32), i = Shape::MakeScalar(S32);
  XlaOp x = Parameter(&b, 0, f, "x"), xi = Parameter(&b, 1, i, "xi");
  XlaOp y = Parameter(&b, 2, f, "y"), yi = Parameter(&b, 3, i, "yi");
  XlaOp first = Ge(x, y);
  Tuple(&b, {Select(first, x, y), Select(first, xi, yi)});
  return b.Build().value();
}

XlaComputation KeysLess() {
  XlaBuilder b("less");
  XlaOp x = Parameter(&b, 0, Shape::MakeScalar(F32), "x"), y = Parameter(&b, 1, Shape::MakeScalar(F32), "y");
  Parameter(&b, 2, Shape::MakeScalar(S32), "xi");
  Parameter(&b, 3, Shape::MakeScalar(S32), "yi");
  return b.Build(Lt(x, y)).value();
}

}  // namespace

std::vector<OpCase> ComputeCases() {
  return {
      {"Dot", [](Program& p) { Dot(p.F({1, 2, 3, 4}, {2, 2}), p.F({5, 6, 7, 8}, {2, 2})); }, {19, 22, 43, 50}},
      {"Dot of vectors", [](Program& p) { Dot(p.F({1, 2}), p.F({3, 4})); }, {11}},
      {"Dot of a matrix and a vector", [](Program& p) { Dot(p.F({1, 2, 3, 4}, {2, 2}), p.F({1, 1})); }, {3, 7}},
      {"Dot with a precision and a type",
       [](Program& p) {
         PrecisionConfig config{{Precision::kHighest, Precision::kHighest}, {}};
         Dot(p.In<int8_t>({100, 100}), p.In<int8_t>({100, 100}), &config, S32);
       },
       {20000}},
      {"DotGeneral with a batch",
       [](Program& p) {
         DotDimensionNumbers n;
         n.lhs_contracting_dimensions = {2};
         n.rhs_contracting_dimensions = {1};
         n.lhs_batch_dimensions = {0};
         n.rhs_batch_dimensions = {0};
         DotGeneral(Ramp(p, 4, {2, 1, 2}), Ramp(p, 4, {2, 2, 1}), n);
       },
       {1, 13}},
      {"ScaledDot",
       [](Program& p) {
         auto operand = [&](Span<float> values, Span<int64_t> dims) {
           return ConvertElementType(p.F(values, dims), F8E4M3FN);
         };
         auto scale = [&](Span<float> values, Span<int64_t> dims) {
           return ConvertElementType(p.F(values, dims), F8E8M0FNU);
         };
         ScaledDot(operand({1, 2}, {1, 2}), operand({3, 4}, {2, 1}), scale({2}, {1, 1}), scale({4}, {1, 1}), Rows(),
                   nullptr, F32);
       },
       {88}},
      {"RaggedDot",
       [](Program& p) {
         RaggedDotDimensionNumbers n;
         n.dot_dimension_numbers.lhs_contracting_dimensions = {1};
         n.dot_dimension_numbers.rhs_contracting_dimensions = {1};
         n.lhs_ragged_dimensions = {0};
         n.rhs_group_dimensions = {0};
         RaggedDot(p.F({1, 2, 3}, {3, 1}), p.F({10, 100}, {2, 1, 1}), p.I({2, 1}), n);
       },
       {10, 20, 300}},
      {"Conv valid",
       [](Program& p) { Conv(Ramp(p, 4, {1, 1, 4}), p.F({1, 10}, {1, 1, 2}), {1}, Padding::kValid); },
       {10, 21, 32}},
      {"Conv same",
       [](Program& p) { Conv(Ramp(p, 4, {1, 1, 4}), p.F({1, 10}, {1, 1, 2}), {1}, Padding::kSame); },
       {10, 21, 32, 3}},
      {"Conv same by stride 2",
       [](Program& p) { Conv(Ramp(p, 5, {1, 1, 5}), p.F({1, 1, 1}, {1, 1, 3}), {2}, Padding::kSame); },
       {1, 6, 7}},
      {"ConvWithGeneralPadding",
       [](Program& p) {
         ConvWithGeneralPadding(Ramp(p, 9, {1, 1, 3, 3}), p.F({1, 1, 1, 1}, {1, 1, 2, 2}), {2, 2}, {{0, 1}, {1, 0}});
       },
       {3, 12, 6, 15}},
      {"ConvWithGeneralDimensions",
       [](Program& p) {
         ConvolutionDimensionNumbers n;
         n.input_spatial_dimensions = {1};
         n.input_feature_dimension = 2;
         n.kernel_spatial_dimensions = {0};
         n.kernel_input_feature_dimension = 1;
         n.kernel_output_feature_dimension = 2;
         n.output_spatial_dimensions = {1};
         n.output_feature_dimension = 2;
         ConvWithGeneralDimensions(Ramp(p, 6, {1, 3, 2}), p.F({1, 2, 3, 4}, {1, 2, 2}), {1}, Padding::kValid, n);
       },
       {3, 4, 11, 16, 19, 28}},
      {"ConvGeneral by feature groups",
       [](Program& p) {
         ConvGeneral(Ramp(p, 4, {1, 2, 2}), p.F({10, 100}, {2, 1, 1}), {1}, {{0, 0}}, DefaultConvDimensionNumbers(1),
                     2);
       },
       {0, 10, 200, 300}},
      {"ConvGeneral by batch groups",
       [](Program& p) {
         ConvGeneral(Ramp(p, 4, {2, 1, 2}), p.F({10, 100}, {2, 1, 1}), {1}, {{0, 0}}, DefaultConvDimensionNumbers(1), 1,
                     2);
       },
       {0, 10, 200, 300}},
      {"ConvGeneralDilated",
       [](Program& p) {
         PrecisionConfig config{{Precision::kHigh, Precision::kHigh}, {}};
         ConvGeneralDilated(p.F({1, 2}, {1, 1, 2}), p.F({1, 10}, {1, 1, 2}), {1}, {{1, 1}}, {2}, {2},
                            DefaultConvDimensionNumbers(1), 1, 1, &config, F32, std::vector<bool>{true});
       },
       // Dilated input 1 0 2, padded 0 1 0 2 0; taps 10 and 1, two apart.
       {0, 12, 0}},
      {"Reduce", [](Program& p) { Reduce(Ramp(p, 6, {2, 3}), p.Scalar<float>(0), AddF(), {1}); }, {3, 12}},
      {"Reduce of two",
       [](Program& p) {
         XlaOp x = p.F({1, 5, 3, 5});
         Reduce(&p, {x, Iota(&p, S32, 4)}, {p.Scalar<float>(-INFINITY), p.Scalar<int32_t>(0)}, ArgMax(), {0});
       },
       {5, 1}},
      {"ReduceAll", [](Program& p) { ReduceAll(Ramp(p, 6, {2, 3}), p.Scalar<float>(0), AddF()); }, {15}},
      {"ReduceWindow",
       [](Program& p) { ReduceWindow(p.F({1, 3, 2, 5}), p.Scalar<float>(0), AddF(), {2}, {2}, Padding::kValid); },
       {4, 7}},
      {"ReduceWindow same",
       [](Program& p) { ReduceWindow(p.F({1, 3, 2, 5}), p.Scalar<float>(0), AddF(), {3}, {1}, Padding::kSame); },
       {4, 6, 10, 7}},
      {"ReduceWindow of two",
       [](Program& p) {
         ReduceWindow({p.F({1, 5, 3, 5}), Iota(&p, S32, 4)}, {p.Scalar<float>(-INFINITY), p.Scalar<int32_t>(0)},
                      ArgMax(), {2}, {2}, Padding::kValid);
       },
       {5, 5, 1, 3}},
      {"ReduceWindowWithGeneralPadding",
       [](Program& p) {
         ReduceWindowWithGeneralPadding(p.F({1, 2, 3}), p.Scalar<float>(0), AddF(), {2}, {1}, {2}, {2}, {{1, 0}});
       },
       // Dilated 1 0 2 0 3, padded 0 1 0 2 0 3; windows of two, two apart.
       {0, 3, 0, 5}},
      {"ReduceWindowWithGeneralPadding of several",
       [](Program& p) {
         ReduceWindowWithGeneralPadding({p.F({1, 2, 3})}, {p.Scalar<float>(0)}, AddF(), {3}, {1}, {}, {}, {{1, 1}});
       },
       {3, 6, 5}},
      {"SelectAndScatter",
       [](Program& p) {
         SelectAndScatter(p.F({1, 3, 2, 5}), GeF(), {2}, {2}, Padding::kValid, p.F({10, 20}), p.Scalar<float>(0),
                          AddF());
       },
       {0, 10, 0, 20}},
      {"SelectAndScatterWithGeneralPadding",
       [](Program& p) {
         SelectAndScatterWithGeneralPadding(p.F({1, 3, 2, 5}), GeF(), {2}, {1}, {{0, 0}}, p.F({1, 1, 1}),
                                            p.Scalar<float>(0), AddF());
       },
       {0, 2, 0, 1}},
      {"Scan",
       [](Program& p) {
         XlaBuilder b("sum");
         XlaOp x = Parameter(&b, 0, Shape::MakeScalar(F32), "x"), carry = Parameter(&b, 1, Shape::MakeScalar(F32), "c");
         XlaOp sum = Add(x, carry);
         Tuple(&b, {sum, sum});
         Scan({p.F({1, 2, 3})}, {p.Scalar<float>(10)}, b.Build(), 0, 3);
       },
       {11, 13, 16, 16}},
      {"Sort", [](Program& p) { Sort({p.F({3, 1, 2})}, LtF()); }, {1, 2, 3}},
      {"Sort of columns", [](Program& p) { Sort({p.F({3, 1, 2, 5}, {2, 2})}, LtF(), 0, true); }, {2, 1, 3, 5}},
      {"Sort of two",
       [](Program& p) { Sort({p.F({3, 1, 2}), p.I({0, 1, 2})}, KeysLess(), 0, true); },
       {1, 2, 3, 1, 2, 0}},
      {"TopK", [](Program& p) { TopK(p.F({1, 7, 3, 9}), 2, true); }, {9, 7, 3, 1}},
      {"TopK smallest", [](Program& p) { TopK(p.F({1, 7, 3, 9}), 1, false); }, {1, 0}},
      {"Cholesky",
       [](Program& p) {
         XlaOp l = Cholesky(p.F({4, 2, 2, 5}, {2, 2}), true);
         Select(p.In<bool>({true, false, true, true}, {2, 2}), l, p.Scalar<float>(0));
       },
       {2, 0, 1, 2},
       kClose},
      {"TriangularSolve",
       [](Program& p) {
         TriangularSolve(p.F({2, 0, 1, 4}, {2, 2}), p.F({2, 9}, {2, 1}), true, true, false,
                         TriangularSolveOptions::NO_TRANSPOSE);
       },
       {1, 2},
       kClose},
      {"TriangularSolve transposed",
       [](Program& p) {
         TriangularSolve(p.F({2, 0, 1, 4}, {2, 2}), p.F({5, 8}, {2, 1}), true, true, false,
                         TriangularSolveOptions::TRANSPOSE);
       },
       {1.5, 2},
       kClose},
      {"Fft",
       [](Program& p) { Fft(p.C({{1, 0}, {2, 0}, {3, 0}, {4, 0}}), FftType::kFft, {4}); },
       {10, 0, -2, 2, -2, 0, -2, -2},
       kClose},
      {"Fft inverse",
       [](Program& p) { Fft(p.C({{10, 0}, {-2, 2}, {-2, 0}, {-2, -2}}), FftType::kIfft, {4}); },
       {1, 0, 2, 0, 3, 0, 4, 0},
       kClose},
      {"Fft of real numbers",
       [](Program& p) { Fft(p.F({1, 2, 3, 4}), FftType::kRfft, {4}); },
       {10, 0, -2, 2, -2, 0},
       kClose},
      {"Fft to real numbers",
       [](Program& p) { Fft(p.C({{10, 0}, {-2, 2}, {-2, 0}}), FftType::kIrfft, {4}); },
       {1, 2, 3, 4},
       kClose},
      {"BatchNormTraining",
       [](Program& p) { BatchNormTraining(p.F({1, 3}, {2, 1}), p.F({2}), p.F({10}), 0, 1); },
       {8, 12, 2, 1},
       kClose},
      {"BatchNormInference",
       [](Program& p) { BatchNormInference(p.F({1, 3}, {2, 1}), p.F({2}), p.F({10}), p.F({2}), p.F({4}), 0, 1); },
       {9, 11},
       kClose},
      {"BatchNormGrad",
       [](Program& p) { BatchNormGrad(p.F({1, 3}, {2, 1}), p.F({2}), p.F({2}), p.F({1}), p.F({1, 3}, {2, 1}), 0, 1); },
       {0, 0, 2, 4},
       kClose},
      {"RngUniform",
       [](Program& p) { RngUniform(p.Scalar<float>(0), p.Scalar<float>(1), ShapeUtil::MakeShape(F32, {5})); },
       {},
       0,
       OpCase::kSize},
      {"RngNormal",
       [](Program& p) { RngNormal(p.Scalar<float>(0), p.Scalar<float>(1), ShapeUtil::MakeShape(F32, {5})); },
       {},
       0,
       OpCase::kSize},
      // The Philox and ThreeFry answers are the conformance corpus's business; here the call is.
      {"RngBitGenerator",
       [](Program& p) {
         RngBitGenerator(RandomAlgorithm::kThreeFry, p.In<uint64_t>({1, 2}), ShapeUtil::MakeShape(U32, {3}));
       },
       {},
       0,
       OpCase::kSize},
      {"RngGetAndUpdateState", [](Program& p) { RngGetAndUpdateState(&p, 1); }, {}, 0, OpCase::kSize},
  };
}

}  // namespace krafla::testing
