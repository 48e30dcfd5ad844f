// SPDX-License-Identifier: Apache-2.0
#include "cases.h"

namespace krafla::testing {
namespace {

XlaComputation Second() {
  XlaBuilder b("second");
  Parameter(&b, 0, ShapeUtil::MakeShape(F32, {}), "x");
  XlaOp y = Parameter(&b, 1, ShapeUtil::MakeShape(F32, {}), "y");
  return b.Build(y).value();
}

// 0 1 2 / 3 4 5
XlaOp Matrix(Program& p) { return p.F({0, 1, 2, 3, 4, 5}, {2, 3}); }

}  // namespace

std::vector<OpCase> MovementCases() {
  return {
      {"ConstantR0", [](Program& p) { ConstantR0<float>(&p, 2.5F); }, {2.5}},
      {"ConstantR1", [](Program& p) { ConstantR1<int32_t>(&p, {1, 2}); }, {1, 2}},
      {"ConstantR1 filled", [](Program& p) { ConstantR1<float>(&p, 3, 7); }, {7, 7, 7}},
      {"ConstantR2", [](Program& p) { ConstantR2<float>(&p, {{1, 2}, {3, 4}}); }, {1, 2, 3, 4}},
      {"ConstantR2 of bool", [](Program& p) { ConstantR2<bool>(&p, {{true, false}}); }, {1, 0}},
      {"ConstantFromArray", [](Program& p) { ConstantFromArray<double>(&p, {1, 2, 3, 4}, {1, 2, 2}); }, {1, 2, 3, 4}},
      {"ConstantLiteral of complex numbers",
       [](Program& p) { ConstantR1<std::complex<float>>(&p, {{1, 2}, {3, 4}}); },
       {1, 2, 3, 4}},
      {"ConstantR0WithType", [](Program& p) { ConstantR0WithType(&p, BF16, 1.5); }, {1.5}},
      {"ScalarLike", [](Program& p) { ScalarLike(p.In<int8_t>({1}), 1000); }, {127}},
      {"Parameter", [](Program& p) { p.F({1, 2}); }, {1, 2}},
      {"Iota", [](Program& p) { Iota(&p, ShapeUtil::MakeShape(S32, {2, 3}), 1); }, {0, 1, 2, 0, 1, 2}},
      {"Iota of one dimension", [](Program& p) { Iota(&p, F32, 3); }, {0, 1, 2}},
      {"Broadcast", [](Program& p) { Broadcast(p.F({1, 2}), {2, 1}); }, {1, 2, 1, 2}},
      {"BroadcastInDim", [](Program& p) { BroadcastInDim(p.F({1, 2}), {2, 2}, {0}); }, {1, 1, 2, 2}},
      {"BroadcastInDim of size 1",
       [](Program& p) { BroadcastInDim(p.F({1, 2}, {2, 1}), {2, 3}, {0, 1}); },
       {1, 1, 1, 2, 2, 2}},
      {"BroadcastInDim of a scalar", [](Program& p) { BroadcastInDim(p.Scalar<float>(3), {2}, {}); }, {3, 3}},
      {"Copy", [](Program& p) { Copy(p.F({1, 2})); }, {1, 2}},
      {"Pad",
       [](Program& p) {
         PaddingConfig config;
         config.dimensions = {{1, 0, 0}, {-1, 1, 1}};
         Pad(Matrix(p), p.Scalar<float>(9), config);
       },
       {9, 9, 9, 9, 9, 9, 1, 9, 2, 9, 9, 4, 9, 5, 9}},
      {"PadInDim", [](Program& p) { PadInDim(p.F({1, 2}), p.Scalar<float>(0), 0, 1, 2); }, {0, 1, 2, 0, 0}},
      {"Reshape", [](Program& p) { Reshape(Matrix(p), {3, 2}); }, {0, 1, 2, 3, 4, 5}},
      {"Reshape to a shape",
       [](Program& p) { Reshape(ShapeUtil::MakeShape(F32, {6}), Matrix(p)); },
       {0, 1, 2, 3, 4, 5}},
      {"DynamicReshape",
       [](Program& p) {
         DynamicReshape(p.F({1, 2, 3, 4}), {p.Scalar<int32_t>(2), p.Scalar<int32_t>(2)}, {2, 2}, {false, false});
       },
       {1, 2, 3, 4},
       0,
       OpCase::kBuildOnly},
      {"Collapse", [](Program& p) { Collapse(p.F({1, 2, 3, 4}, {1, 2, 2}), {1, 2}); }, {1, 2, 3, 4}},
      {"Collapse of one", [](Program& p) { Collapse(p.F({1, 2}), {0}); }, {1, 2}},
      {"Slice", [](Program& p) { Slice(Matrix(p), {0, 0}, {2, 3}, {1, 2}); }, {0, 2, 3, 5}},
      {"SliceInDim", [](Program& p) { SliceInDim(Matrix(p), 1, 3, 1, 1); }, {1, 2, 4, 5}},
      {"DynamicSlice",
       [](Program& p) { DynamicSlice(Matrix(p), {p.Scalar<int32_t>(1), p.Scalar<int32_t>(5)}, {1, 2}); },
       {4, 5}},
      {"DynamicUpdateSlice",
       [](Program& p) {
         DynamicUpdateSlice(Matrix(p), p.F({9}, {1, 1}), {p.Scalar<int32_t>(1), p.Scalar<int32_t>(0)});
       },
       {0, 1, 2, 9, 4, 5}},
      {"ConcatInDim", [](Program& p) { ConcatInDim(&p, {p.F({1, 2}), p.F({3})}, 0); }, {1, 2, 3}},
      {"Transpose", [](Program& p) { Transpose(Matrix(p), {1, 0}); }, {0, 3, 1, 4, 2, 5}},
      {"Rev", [](Program& p) { Rev(Matrix(p), {0, 1}); }, {5, 4, 3, 2, 1, 0}},
      {"Bitcast", [](Program& p) { Bitcast(Matrix(p), ShapeUtil::MakeShape(F32, {6})); }, {0, 1, 2, 3, 4, 5}},
      {"Gather of rows",
       [](Program& p) {
         GatherDimensionNumbers n;
         n.offset_dims = {1};
         n.collapsed_slice_dims = {0};
         n.start_index_map = {0};
         n.index_vector_dim = 1;
         Gather(Matrix(p), p.I({1, 0, 7}), n, {1, 3});
       },
       {3, 4, 5, 0, 1, 2, 3, 4, 5}},
      {"Gather with batching dimensions",
       [](Program& p) {
         GatherDimensionNumbers n;
         n.collapsed_slice_dims = {1};
         n.start_index_map = {1};
         n.index_vector_dim = 1;
         n.operand_batching_dims = {0};
         n.start_indices_batching_dims = {0};
         Gather(Matrix(p), p.I({2, 0}), n, {1, 1});
       },
       {2, 3}},
      {"Scatter",
       [](Program& p) {
         ScatterDimensionNumbers n;
         n.inserted_window_dims = {0};
         n.scatter_dims_to_operand_dims = {0};
         n.index_vector_dim = 1;
         Scatter(p.F({1, 2, 3}), p.I({0, 2, 0}), p.F({10, 20, 30}), AddF(), n);
       },
       {41, 2, 23}},
      {"Scatter with batching dimensions",
       [](Program& p) {
         ScatterDimensionNumbers n;
         n.inserted_window_dims = {1};
         n.scatter_dims_to_operand_dims = {1};
         n.index_vector_dim = 1;
         n.input_batching_dims = {0};
         n.scatter_indices_batching_dims = {0};
         Scatter(Matrix(p), p.I({2, 0}), p.F({10, 20}), Second(), n, false, true);
       },
       {0, 1, 10, 20, 4, 5}},
      {"Scatter of two",
       [](Program& p) {
         XlaBuilder b("both");
         Shape scalar = Shape::MakeScalar(F32);
         XlaOp x0 = Parameter(&b, 0, scalar, "x0"), x1 = Parameter(&b, 1, scalar, "x1");
         XlaOp y0 = Parameter(&b, 2, scalar, "y0"), y1 = Parameter(&b, 3, scalar, "y1");
         Tuple(&b, {Add(x0, y0), Mul(x1, y1)});
         ScatterDimensionNumbers n;
         n.inserted_window_dims = {0};
         n.scatter_dims_to_operand_dims = {0};
         n.index_vector_dim = 1;
         Scatter({p.F({1, 2}), p.F({3, 4})}, p.I({1}), {p.F({5}), p.F({6})}, b.Build(), n);
       },
       {1, 7, 3, 24}},
      {"GetDimensionSize", [](Program& p) { GetDimensionSize(Matrix(p), 1); }, {3}},
      {"SetDimensionSize",
       [](Program& p) { SetDimensionSize(p.F({1, 2, 3}), p.Scalar<int32_t>(2), 0); },
       {1, 2},
       0,
       OpCase::kBuildOnly},
      {"RemoveDynamicDimension",
       [](Program& p) { RemoveDynamicDimension(SetDimensionSize(p.F({1, 2, 3}), p.Scalar<int32_t>(3), 0), 0); },
       {1, 2, 3},
       0,
       OpCase::kBuildOnly},
      {"Tuple", [](Program& p) { Tuple(&p, {p.F({1}), p.I({2, 3})}); }, {1, 2, 3}},
      {"GetTupleElement", [](Program& p) { GetTupleElement(Tuple(&p, {p.F({1}), p.I({2, 3})}), 1); }, {2, 3}},
  };
}

}  // namespace krafla::testing
