// SPDX-License-Identifier: Apache-2.0
// Wrong calls: none aborts, each is an error that names the call and says what is wrong.
#include <limits>

#include "program.h"

namespace krafla::testing {
namespace {

struct WrongCall {
  void (*build)(Program& p);
  const char* call;  // what the message begins with
  const char* says;  // and what it holds
};

Shape Scalar(ElementType type) { return Shape::MakeScalar(type); }

XlaComputation Identity(const Shape& shape) {
  XlaBuilder b("identity");
  Parameter(&b, 0, shape, "x");
  return b.Build().value();
}

GatherDimensionNumbers RowGather() {
  GatherDimensionNumbers n;
  n.offset_dims = {1};
  n.collapsed_slice_dims = {0};
  n.start_index_map = {0};
  n.index_vector_dim = 1;
  return n;
}
ScatterDimensionNumbers RowScatter() {
  ScatterDimensionNumbers n;
  n.inserted_window_dims = {0};
  n.scatter_dims_to_operand_dims = {0};
  n.index_vector_dim = 1;
  return n;
}
constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

const WrongCall kWrong[] = {
    // values
    {[](Program& p) { Parameter(&p, -1, Scalar(F32), "x"); }, "Parameter", "-1"},
    {[](Program& p) { Parameter(&p, kHuge, Scalar(F32), "x"); }, "Parameter", "must lie in"},
    {[](Program& p) {
       p.F({1});
       Parameter(&p, 0, Scalar(F32), "x");
     },
     "Parameter", "already"},
    {[](Program& p) { Parameter(&p, 0, ShapeUtil::MakeShape(F32, {-2}), "x"); }, "Parameter", "negative"},
    {[](Program& p) { Parameter(&p, 0, ShapeUtil::MakeShape(F32, {kHuge, 2}), "x"); }, "Parameter", "63 bits"},
    {[](Program& p) { Parameter(&p, 0, Scalar(F32), "x", {true, false}); }, "Parameter", "replicated"},
    {[](Program& p) { ConstantR2<float>(&p, {{1, 2}, {3}}); }, "ConstantLiteral", "rows"},
    {[](Program& p) { ConstantFromArray<float>(&p, {1, 2, 3}, {2, 2}); }, "ConstantLiteral", "bytes"},
    {[](Program& p) { ConstantR0WithType(&p, ElementType::kToken, 1); }, "ConstantR0WithType", "token"},
    {[](Program& p) { Iota(&p, ShapeUtil::MakeShape(F32, {2}), 1); }, "Iota", "outside"},
    {[](Program& p) { Iota(&p, PRED, 2); }, "Iota", "pred"},
    {[](Program& p) { Iota(&p, F32, -1); }, "Iota", "negative"},
    // elementwise
    {[](Program& p) { Add(p.F({1, 2}), p.F({1, 2, 3})); }, "Add", "2 and 3"},
    {[](Program& p) { Add(p.F({1}), p.I({1})); }, "Add", "element type"},
    {[](Program& p) { Add(p.F({1, 2}), p.F({1, 2}, {1, 2})); }, "Add", "broadcast_dimensions must say"},
    {[](Program& p) { Add(p.F({1, 2}), p.F({1, 2}, {1, 2}), {2}); }, "Add", "outside [0, 2)"},
    {[](Program& p) { Add(p.F({1, 2}), p.F({1, 2}, {1, 2}), {-1}); }, "Add", "outside [0, 2)"},
    {[](Program& p) { Add(p.F({1, 2}), p.F({1, 2}, {1, 2}), {0, 1}); }, "Add", "one entry"},
    {[](Program& p) { Add(p.F({1, 2, 3}), p.F({1, 2}, {1, 2}), {1}); }, "Add", "3 and 2"},
    {[](Program& p) { Add(p.F({1}, {1, 1}), p.F({1}, {1, 1, 1}), {1, 0}); }, "Add", "ascend"},
    {[](Program& p) { Add(p.F({1, 2}), p.F({1, 2}), {1}); }, "Add", "one rank"},
    {[](Program& p) { Add(Tuple(&p, {}), p.F({1})); }, "Add", "arrays"},
    {[](Program& p) { Sub(p.F({1}), CreateToken(&p)); }, "Sub", "arrays"},
    {[](Program& p) { And(p.F({1}), p.F({1})); }, "And", "works on"},
    {[](Program& p) { ShiftLeft(p.F({1}), p.F({1})); }, "ShiftLeft", "works on"},
    {[](Program& p) { Abs(p.In<bool>({true})); }, "Abs", "works on"},
    {[](Program& p) { Exp(p.I({1})); }, "Exp", "works on"},
    {[](Program& p) { Not(p.F({1})); }, "Not", "works on"},
    {[](Program& p) { Cbrt(p.C({{1, 2}})); }, "Cbrt", "works on"},
    {[](Program& p) { IsFinite(p.I({1})); }, "IsFinite", "works on"},
    {[](Program& p) { Neg(CreateToken(&p)); }, "Neg", "works on"},
    {[](Program& p) { Exp(p.F({1}), ResultAccuracy{ResultAccuracy::DEFAULT, ResultAccuracy::Tolerance{-1, 0, 0}}); },
     "Exp", "tolerance"},
    {[](Program& p) { Exp(p.F({1}), ResultAccuracy{ResultAccuracy::HIGHEST, ResultAccuracy::Tolerance{1, 0, 0}}); },
     "Exp", "not both"},
    {[](Program& p) { Tan(p.F({1}), ResultAccuracy{ResultAccuracy::DEFAULT, ResultAccuracy::Tolerance{0, NAN, 0}}); },
     "Tan", "tolerance"},
    {[](Program& p) { Complex(p.F({1}), p.In<double>({1})); }, "Complex", "element type"},
    {[](Program& p) { Complex(p.I({1}), p.I({1})); }, "Complex", "works on"},
    {[](Program& p) { Compare(p.F({1}), p.F({1}), {}, ComparisonDirection::kEq, ComparisonType::kSigned); }, "Compare",
     "comparison type"},
    {[](Program& p) { Eq(p.F({1}), p.I({1})); }, "Eq", "element type"},
    {[](Program& p) { LtTotalOrder(p.F({1, 2}), p.F({1, 2, 3})); }, "LtTotalOrder", "2 and 3"},
    {[](Program& p) { Select(p.F({1}), p.F({1}), p.F({1})); }, "Select", "pred"},
    {[](Program& p) { Select(p.In<bool>({true}), p.F({1}), p.I({1})); }, "Select", "element type"},
    {[](Program& p) { Select(p.In<bool>({true, true}), p.F({1, 2, 3}), p.F({1, 2, 3})); }, "Select", "dimensions"},
    {[](Program& p) { Clamp(p.F({1, 2}), p.F({1, 2, 3}), p.F({1, 2, 3})); }, "Clamp", "bounds"},
    {[](Program& p) { Clamp(p.I({1}), p.F({1}), p.F({1})); }, "Clamp", "element type"},
    {[](Program& p) { ConvertElementType(p.F({1}), ElementType::kTuple); }, "ConvertElementType", "tuple"},
    {[](Program& p) { ConvertElementType(CreateToken(&p), F32); }, "ConvertElementType", "array"},
    {[](Program& p) { BitcastConvertType(p.In<uint8_t>({1, 2, 3}), U32); }, "BitcastConvertType", "last dimension"},
    {[](Program& p) { BitcastConvertType(p.F({1}), C64); }, "BitcastConvertType", "complex"},
    {[](Program& p) { StochasticConvertType(p.F({1}), p.In<uint16_t>({1}), BF16); }, "StochasticConvertType", "width"},
    {[](Program& p) { StochasticConvertType(p.F({1}), p.In<uint32_t>({1}), PRED); }, "StochasticConvertType",
     "floats or integers"},
    {[](Program& p) { ReducePrecision(p.F({1}), 0, 5); }, "ReducePrecision", "exponent_bits"},
    {[](Program& p) { ReducePrecision(p.F({1}), 5, -1); }, "ReducePrecision", "mantissa_bits"},
    {[](Program& p) { Map(&p, {p.F({1})}, AddF(), {0}); }, "Map", "2 parameters"},
    {[](Program& p) { Map(&p, {p.F({1}), p.F({1})}, AddF(), {}); }, "Map", "all dimensions"},
    {[](Program& p) { Map(&p, {p.F({1}), p.F({1})}, AddF(), {0}, {p.F({1})}); }, "Map", "static_operands"},
    {[](Program& p) { Map(&p, {p.F({1})}, XlaComputation(), {0}); }, "Map", "null"},
    // movement
    {[](Program& p) { Broadcast(p.F({1}), {-1}); }, "Broadcast", "negative"},
    {[](Program& p) { Broadcast(p.F({1}), {kHuge, 4}); }, "Broadcast", "63 bits"},
    {[](Program& p) { BroadcastInDim(p.F({1, 2}), {3, 3}, {0}); }, "BroadcastInDim", "must be 3 or 1"},
    {[](Program& p) { BroadcastInDim(p.F({1, 2}), {2}, {}); }, "BroadcastInDim", "one entry"},
    {[](Program& p) { BroadcastInDim(p.F({1, 2}), {2}, {1}); }, "BroadcastInDim", "outside"},
    {[](Program& p) { BroadcastInDim(p.F({1}, {1, 1}), {2, 2}, {1, 0}); }, "BroadcastInDim", "ascend"},
    {[](Program& p) { Pad(p.F({1}), p.F({1}), MakeNoPaddingConfig(1)); }, "Pad", "padding value"},
    {[](Program& p) { Pad(p.F({1}), p.Scalar<float>(0), MakeNoPaddingConfig(2)); }, "Pad", "one entry"},
    {[](Program& p) { Pad(p.F({1}), p.Scalar<float>(0), MakeEdgePaddingConfig({{-2, 0}})); }, "Pad", "more"},
    {[](Program& p) {
       PaddingConfig c;
       c.dimensions = {{0, 0, -1}};
       Pad(p.F({1, 2}), p.Scalar<float>(0), c);
     },
     "Pad", "Interior"},
    {[](Program& p) { PadInDim(p.F({1}), p.Scalar<float>(0), 1, 0, 0); }, "PadInDim", "outside"},
    {[](Program& p) { PadInDim(p.F({1}), p.Scalar<float>(0), 0, kHuge, kHuge); }, "PadInDim", "63 bits"},
    {[](Program& p) { Reshape(p.F({1, 2, 3}), {2, 2}); }, "Reshape", "number of elements"},
    {[](Program& p) { Reshape(CreateToken(&p), {1}); }, "Reshape", "array"},
    {[](Program& p) { Reshape(ShapeUtil::MakeShape(S32, {1}), p.F({1})); }, "Reshape", "element type"},
    {[](Program& p) { DynamicReshape(p.F({1}), {p.Scalar<int32_t>(1)}, {1}, {}); }, "DynamicReshape", "equally long"},
    {[](Program& p) { DynamicReshape(p.F({1}), {p.F({1})}, {1}, {true}); }, "DynamicReshape", "s32[]"},
    {[](Program& p) { Collapse(p.F({1}, {1, 1, 1}), {0, 2}); }, "Collapse", "follow"},
    {[](Program& p) { Collapse(p.F({1}), {1}); }, "Collapse", "outside"},
    {[](Program& p) { Slice(p.F({1, 2}), {0}, {3}, {1}); }, "Slice", "[0:3]"},
    {[](Program& p) { Slice(p.F({1, 2}), {0, 0}, {1, 1}, {1, 1}); }, "Slice", "one range"},
    {[](Program& p) { Slice(p.F({1, 2}), {0}, {2}, {0}); }, "Slice", "stride"},
    {[](Program& p) { Slice(p.F({1, 2}), {-1}, {2}, {1}); }, "Slice", "[-1:2]"},
    {[](Program& p) { SliceInDim(p.F({1, 2}), 0, 1, 1, -1); }, "SliceInDim", "outside"},
    {[](Program& p) { DynamicSlice(p.F({1, 2}), {}, {1}); }, "DynamicSlice", "start index"},
    {[](Program& p) { DynamicSlice(p.F({1, 2}), {p.Scalar<int32_t>(0)}, {3}); }, "DynamicSlice", "[0, 2]"},
    {[](Program& p) { DynamicSlice(p.F({1, 2}), {p.Scalar<float>(0)}, {1}); }, "DynamicSlice", "integer"},
    {[](Program& p) { DynamicUpdateSlice(p.F({1}), p.F({1, 2}), {p.Scalar<int32_t>(0)}); }, "DynamicUpdateSlice",
     "does not fit"},
    {[](Program& p) { ConcatInDim(&p, {}, 0); }, "ConcatInDim", "at least 1"},
    {[](Program& p) { ConcatInDim(&p, {p.F({1}), p.I({1})}, 0); }, "ConcatInDim", "agree"},
    {[](Program& p) { ConcatInDim(&p, {p.F({1})}, 1); }, "ConcatInDim", "outside"},
    {[](Program& p) { Transpose(p.F({1}), {0, 1}); }, "Transpose", "permutation"},
    {[](Program& p) { Transpose(p.F({1}, {1, 1}), {0, 0}); }, "Transpose", "twice"},
    {[](Program& p) { Rev(p.F({1}), {1}); }, "Rev", "outside"},
    {[](Program& p) { Bitcast(p.F({1}), ShapeUtil::MakeShape(F32, {2})); }, "Bitcast", "bytes"},
    {[](Program& p) { Gather(p.F({1, 2}, {1, 2}), p.F({0}), RowGather(), {1, 2}); }, "Gather", "integers"},
    {[](Program& p) { Gather(p.F({1, 2}, {1, 2}), p.I({0}), RowGather(), {1, 3}); }, "Gather", "slice_sizes"},
    {[](Program& p) { Gather(p.F({1, 2}, {1, 2}), p.I({0}), RowGather(), {1}); }, "Gather", "one entry"},
    {[](Program& p) {
       auto n = RowGather();
       n.index_vector_dim = 3;
       Gather(p.F({1}, {1, 1}), p.I({0}), n, {1, 1});
     },
     "Gather", "index_vector_dim"},
    {[](Program& p) { Scatter(p.F({1}), p.I({0}), p.I({1}), AddF(), RowScatter()); }, "Scatter", "element types"},
    {[](Program& p) { Scatter(p.F({1}), p.I({0}), p.F({1}), AddI(), RowScatter()); }, "Scatter", "Parameter 0"},
    {[](Program& p) { Scatter({p.F({1}), p.F({1})}, p.I({0}), {p.F({1})}, AddF(), RowScatter()); }, "Scatter",
     "as many updates"},
    {[](Program& p) { Scatter(p.F({1}), p.I({0, 0}), p.F({1}), AddF(), RowScatter()); }, "Scatter", "must be 2"},
    {[](Program& p) { GetDimensionSize(p.F({1}), 1); }, "GetDimensionSize", "outside"},
    {[](Program& p) { SetDimensionSize(p.F({1}), p.Scalar<float>(1), 0); }, "SetDimensionSize", "s32[]"},
    {[](Program& p) { RemoveDynamicDimension(p.F({1}), 1); }, "RemoveDynamicDimension", "outside"},
    // products
    {[](Program& p) { Dot(p.F({1, 2}), p.F({1, 2, 3})); }, "Dot", ""},
    {[](Program& p) { Dot(p.Scalar<float>(1), p.F({1})); }, "Dot", "DotGeneral"},
    {[](Program& p) { Dot(p.F({1}, {1, 1, 1}), p.F({1})); }, "Dot", "DotGeneral"},
    {[](Program& p) { Dot(p.F({1}), p.C({{1, 0}})); }, "Dot", "complex"},
    {[](Program& p) { Dot(p.F({1}), p.F({1}), nullptr, C64); }, "Dot", "declared"},
    {[](Program& p) {
       PrecisionConfig c{{Precision::kHigh}, {}};
       Dot(p.F({1}), p.F({1}), &c);
     },
     "Dot", "operand_precision"},
    {[](Program& p) {
       DotDimensionNumbers n;
       n.lhs_contracting_dimensions = {5};
       n.rhs_contracting_dimensions = {0};
       DotGeneral(p.F({1}), p.F({1}), n);
     },
     "DotGeneral", "outside"},
    {[](Program& p) {
       DotDimensionNumbers n;
       n.lhs_contracting_dimensions = {0};
       DotGeneral(p.F({1}), p.F({1}), n);
     },
     "DotGeneral", ""},
    {[](Program& p) {
       DotDimensionNumbers n;
       n.lhs_contracting_dimensions = {5};
       n.rhs_contracting_dimensions = {0};
       ScaledDot(p.F({1}), p.F({1}), p.F({1}), p.F({1}), n);
     },
     "ScaledDot", ""},
    {[](Program& p) { RaggedDot(p.F({1}), p.F({1}), p.F({1}), {}); }, "RaggedDot", ""},
    {[](Program& p) { Conv(p.F({1}, {1, 1, 1}), p.F({1}, {1, 1, 1}), {0}, Padding::kSame); }, "Conv", "at least 1"},
    {[](Program& p) { Conv(p.F({1}, {1, 1, 1}), p.F({1}, {1, 1, 1}), {1, 1}, Padding::kSame); }, "Conv", "outside"},
    {[](Program& p) { Conv(p.F({1, 2}, {1, 2, 1}), p.F({1}, {1, 1, 1}), {1}, Padding::kSame); }, "Conv", ""},
    {[](Program& p) { Conv(p.F({1}, {1, 1, 1}), p.F({1}, {1, 1, 1}), {1}, Padding::kSame, 0); }, "Conv",
     "feature_group_count"},
    {[](Program& p) { ConvWithGeneralPadding(p.F({1}, {1, 1, 1}), p.F({1}, {1, 1, 1}), {1}, {{0, 0}, {0, 0}}); },
     "ConvWithGeneralPadding", "padding"},
    {[](Program& p) {
       ConvGeneralDilated(p.F({1}, {1, 1, 1}), p.F({1}, {1, 1, 1}), {1}, {{0, 0}}, {0}, {1},
                          DefaultConvDimensionNumbers(1));
     },
     "ConvGeneralDilated", "dilation"},
    {[](Program& p) {
       ConvGeneralDilated(p.F({1}, {1, 1, 1}), p.F({1}, {1, 1, 1}), {1}, {{0, 0}}, {1}, {1},
                          DefaultConvDimensionNumbers(1), 1, 1, nullptr, {}, std::vector<bool>{});
     },
     "ConvGeneralDilated", "window_reversal"},
    // folding and ordering
    {[](Program& p) { Reduce(p.F({1}), p.Scalar<float>(0), AddF(), {1}); }, "Reduce", "outside"},
    {[](Program& p) { Reduce(p.F({1}), p.Scalar<int32_t>(0), AddF(), {0}); }, "Reduce", "initial value"},
    {[](Program& p) { Reduce(p.F({1}), p.Scalar<float>(0), AddI(), {0}); }, "Reduce", "Parameter 0"},
    {[](Program& p) { Reduce(p.F({1}), p.Scalar<float>(0), LtF(), {0}); }, "Reduce", "must give"},
    {[](Program& p) { Reduce(p.F({1}), p.Scalar<float>(0), Identity(Scalar(F32)), {0}); }, "Reduce", "2 parameters"},
    {[](Program& p) { Reduce(&p, {p.F({1}), p.F({1})}, {p.Scalar<float>(0)}, AddF(), {0}); }, "Reduce",
     "initial value"},
    {[](Program& p) { Reduce(&p, {}, {}, AddF(), {0}); }, "Reduce", "at least one"},
    {[](Program& p) {
       XlaBuilder b("bad");
       Add(Parameter(&b, 0, Scalar(F32), "x"), Parameter(&b, 1, Scalar(S32), "y"));
       Reduce(p.F({1}), p.Scalar<float>(0), b.Build(), {0});
     },
     "Reduce", "Add: "},
    {[](Program& p) { ReduceAll(CreateToken(&p), p.Scalar<float>(0), AddF()); }, "ReduceAll", "array"},
    {[](Program& p) { ReduceWindow(p.F({1}), p.Scalar<float>(0), AddF(), {1, 1}, {1}, Padding::kValid); },
     "ReduceWindow", "for each of the 1"},
    {[](Program& p) { ReduceWindow(p.F({1}), p.Scalar<float>(0), AddF(), {0}, {1}, Padding::kValid); }, "ReduceWindow",
     "size"},
    {[](Program& p) { ReduceWindowWithGeneralPadding(p.F({1}), p.Scalar<float>(0), AddF(), {1}, {1, 1}, {}, {}, {}); },
     "ReduceWindowWithGeneralPadding", "window_strides"},
    {[](Program& p) {
       SelectAndScatter(p.F({1}), AddF(), {1}, {1}, Padding::kValid, p.F({1}), p.Scalar<float>(0), AddF());
     },
     "SelectAndScatter", "select computation"},
    {[](Program& p) {
       SelectAndScatter(p.F({1}), GeF(), {1}, {1}, Padding::kValid, p.F({1, 2}), p.Scalar<float>(0), AddF());
     },
     "SelectAndScatter", "source"},
    {[](Program& p) { Scan({p.F({1})}, {p.Scalar<float>(0)}, AddF(), 1); }, "Scan", "outside"},
    {[](Program& p) { Scan({p.F({1})}, {p.Scalar<float>(0)}, AddF(), 0, 7); }, "Scan", "scan_dimension_size"},
    {[](Program& p) { Scan({}, {p.Scalar<float>(0)}, AddF(), 0); }, "Scan", "without arrays"},
    {[](Program& p) { Sort({p.F({1})}, AddF()); }, "Sort", "pred[]"},
    {[](Program& p) { Sort({p.F({1})}, LtF(), 1); }, "Sort", "outside"},
    {[](Program& p) { Sort({p.F({1})}, LtF(), -2); }, "Sort", "-2"},
    {[](Program& p) { Sort({p.Scalar<float>(1)}, LtF()); }, "Sort", "outside"},
    {[](Program& p) { Sort({p.F({1}), p.F({1, 2})}, LtF()); }, "Sort", "4 parameters"},
    {[](Program& p) { TopK(p.F({1, 2}), 3, true); }, "TopK", "[0, 2]"},
    {[](Program& p) { TopK(p.Scalar<float>(1), 0, true); }, "TopK", "dimension"},
    // linear algebra, random numbers
    {[](Program& p) { Cholesky(p.F({1, 2}, {1, 2}), true); }, "Cholesky", "square"},
    {[](Program& p) { TriangularSolve(p.F({1}, {1, 1}), p.F({1}), true, true, false, {}); }, "TriangularSolve",
     "ranks"},
    {[](Program& p) { Fft(p.F({1}), FftType::kFft, {1}); }, "Fft", "complex"},
    {[](Program& p) { Fft(p.F({1}), FftType::kRfft, {2}); }, "Fft", "fft_length"},
    {[](Program& p) { BatchNormTraining(p.F({1}, {1, 1}), p.F({1}), p.F({1}), 0, 2); }, "BatchNormTraining",
     "feature_index"},
    {[](Program& p) { BatchNormInference(p.F({1}), p.F({1, 2}), p.F({1}), p.F({1}), p.F({1}), 0, 0); },
     "BatchNormInference", "Operand 1"},
    {[](Program& p) { BatchNormGrad(p.F({1}), p.F({1}), p.F({1}), p.F({1}), p.F({1, 2}), 0, 0); }, "BatchNormGrad",
     "gradient"},
    {[](Program& p) { RngUniform(p.Scalar<float>(0), p.Scalar<int32_t>(1), Scalar(F32)); }, "RngUniform", "f32[]"},
    {[](Program& p) { RngNormal(p.Scalar<int32_t>(0), p.Scalar<int32_t>(1), Scalar(S32)); }, "RngNormal",
     "not defined"},
    {[](Program& p) { RngBitGenerator(RandomAlgorithm::kThreeFry, p.In<uint64_t>({1, 2, 3}), Scalar(U32)); },
     "RngBitGenerator", "state"},
    {[](Program& p) { RngBitGenerator(RandomAlgorithm::kPhilox, p.In<uint64_t>({1, 2}), Scalar(PRED)); },
     "RngBitGenerator", "numbers"},
    // control
    {[](Program& p) { GetTupleElement(p.F({1}), 0); }, "GetTupleElement", "works on"},
    {[](Program& p) { GetTupleElement(Tuple(&p, {}), 0); }, "GetTupleElement", "outside"},
    {[](Program& p) { Call(&p, AddF(), {}); }, "Call", "2 parameters"},
    {[](Program& p) { Call(&p, Identity(Scalar(F32)), {p.I({1})}); }, "Call", "Parameter 0"},
    {[](Program& p) { Call(&p, XlaComputation(), {}); }, "Call", "null"},
    {[](Program& p) { CompositeCall(&p, Identity(Scalar(F32)), {p.Scalar<float>(1)}, ""); }, "CompositeCall", "name"},
    {[](Program& p) { Fusion(&p, {}, FusionKind::kLoop, AddF()); }, "Fusion", "2 parameters"},
    {[](Program& p) { While(Identity(Scalar(F32)), Identity(Scalar(F32)), p.Scalar<float>(1)); }, "While", "pred[]"},
    {[](Program& p) { While(Identity(Scalar(PRED)), Identity(Scalar(F32)), p.Scalar<bool>(true)); }, "While", "body"},
    {[](Program& p) {
       Conditional(p.Scalar<int32_t>(1), p.F({1}), Identity(Scalar(F32)), p.F({1}), Identity(Scalar(F32)));
     },
     "Conditional", "pred[]"},
    {[](Program& p) { Conditional(p.Scalar<int32_t>(1), Span<const XlaComputation*>(), {}); }, "Conditional",
     "at least one"},
    {[](Program& p) {
       const XlaComputation* none[] = {nullptr};
       Conditional(p.Scalar<int32_t>(1), none, {p.F({1})});
     },
     "Conditional", "null"},
    {[](Program& p) { Domain(p.F({1}), "replicated", "{replicated}"); }, "Domain", "braces"},
    {[](Program& p) { CustomCall(&p, "", {}, Scalar(F32)); }, "CustomCall", "empty"},
    {[](Program& p) { CustomCall(&p, "$mine", {}, Scalar(F32)); }, "CustomCall", "$"},
    {[](Program& p) { CustomCallWithLayout(&p, "t", {p.F({1})}, Scalar(F32), {}); }, "CustomCallWithLayout",
     "one entry"},
    // devices and the host
    {[](Program& p) { p.builder().SetDeviceCounts(0, 1); }, "SetDeviceCounts", "at least 1"},
    {[](Program& p) { AllReduce(p.F({1}), AddI()); }, "AllReduce", "Parameter 0"},
    {[](Program& p) { AllReduce(Tuple(&p, {}), AddF()); }, "AllReduce", "no arrays"},
    {[](Program& p) { AllReduce(p.F({1}), AddF(), {ReplicaGroup{{0, 0}}}); }, "AllReduce", "twice"},
    {[](Program& p) { AllGather(p.F({1}), 1, 1); }, "AllGather", "outside"},
    {[](Program& p) { AllGather(p.F({1}), 0, 0); }, "AllGather", "shard_count"},
    {[](Program& p) { AllGather(p.F({1}), 0, 3, {ReplicaGroup{{0, 1}}}); }, "AllGather", "shard_count"},
    {[](Program& p) { ReduceScatter(p.F({1, 2, 3}), AddF(), 0, 2); }, "ReduceScatter", "equal blocks"},
    {[](Program& p) { AllToAll(p.F({1, 2, 3}), 0, 0, 2); }, "AllToAll", "equal blocks"},
    {[](Program& p) { AllToAll(p.F({1}), 0, 1, 1); }, "AllToAll", "concat_dimension"},
    {[](Program& p) { AllToAllTuple({p.F({1}), p.I({1})}); }, "AllToAllTuple", "one shape"},
    {[](Program& p) { CollectivePermute(p.F({1}), {{0, 1}, {0, 2}}); }, "CollectivePermute", "twice"},
    {[](Program& p) { CollectivePermute(p.F({1}), {{-1, 0}}); }, "CollectivePermute", "-1"},
    {[](Program& p) { CollectiveBroadcast(CreateToken(&p), {}); }, "CollectiveBroadcast", "array"},
    {[](Program& p) { RaggedAllToAll(p.F({1}), p.F({0}), p.I({1}), p.F({1}), p.I({1}), p.I({1})); }, "RaggedAllToAll",
     "integers"},
    {[](Program& p) { AllGatherDone(p.F({1})); }, "AllGatherDone", "works on"},
    {[](Program& p) { AsyncDone(Tuple(&p, {p.F({1}), p.F({1})})); }, "AsyncDone", "AsyncStart"},
    {[](Program& p) { AfterAll(&p, {}); }, "AfterAll", "at least one"},
    {[](Program& p) { AfterAll(&p, {p.F({1})}); }, "AfterAll", ""},
    {[](Program& p) { AddDependency(p.F({1}), p.F({1})); }, "AddDependency", "token"},
    {[](Program& p) { InfeedWithToken(p.F({1}), Scalar(F32)); }, "InfeedWithToken", ""},
    {[](Program& p) { OutfeedWithToken(p.F({1}), CreateToken(&p), Scalar(F32), ""); }, "OutfeedWithToken",
     "outfeed_shape"},
    {[](Program& p) { SendWithToken(p.F({1}), p.F({1}), ChannelHandle{1}); }, "SendWithToken", "token"},
    {[](Program& p) { Send(p.F({1}), ChannelHandle{-1}); }, "Send", "negative"},
    {[](Program& p) { SendToHost(p.F({1}), CreateToken(&p), Scalar(F32), ChannelHandle{1}); }, "SendToHost",
     "shape_with_layout"},
    {[](Program& p) { RecvFromHost(CreateToken(&p), ShapeUtil::MakeTupleShape({}), ChannelHandle{1}); }, "RecvFromHost",
     "array"},
    {[](Program& p) { RecvWithToken(CreateToken(&p), Scalar(F32), {1, ChannelHandle::HOST_TO_DEVICE}); },
     "RecvWithToken", "type"},
    // operands
    {[](Program& p) { Add(p.F({1}), XlaOp()); }, "Add", "no call made"},
    {[](Program& p) {
       static XlaBuilder other("other");
       Add(p.F({1}), ConstantR0<float>(&other, 1));
     },
     "Add", "another builder"},
};

TEST(BuilderErrors, EachWrongCallIsNamed) {
  int number = 0;
  for (const WrongCall& c : kWrong) {
    SCOPED_TRACE(std::to_string(number++) + ": " + c.call);
    Program p;
    c.build(p);
    auto built = p.builder().Build();
    EXPECT_FALSE(built.has_value());
    if (built) continue;
    const std::string& message = built.error().message();
    EXPECT_TRUE(message.starts_with(std::string(c.call) + ": ")) << message;
    EXPECT_NE(message.find(c.says), std::string::npos) << message;
    EXPECT_FALSE(message.ends_with(": "));
  }
  EXPECT_GE(number, 100);
}

TEST(BuilderErrors, TheFirstErrorIsReportedAndWhatFollowsIsNot) {
  XlaBuilder b("net");
  XlaOp x = Parameter(&b, 0, ShapeUtil::MakeShape(F32, {2}), "x");
  XlaOp bad = Add(x, ConstantR1<float>(&b, {1, 2, 3}));
  EXPECT_FALSE(bad.valid());
  XlaOp follows = Exp(Mul(bad, bad));
  EXPECT_FALSE(follows.valid());
  EXPECT_EQ(b.errors().size(), 1U);
  EXPECT_FALSE(Neg(CreateToken(&b)).valid());
  EXPECT_EQ(b.errors().size(), 2U);
  EXPECT_FALSE(b.GetShape(follows).has_value());
  auto built = b.Build(follows);
  ASSERT_FALSE(built.has_value());
  std::string text = built.error().ToString();
  EXPECT_TRUE(text.find("Add: ") != std::string::npos) << text;
  EXPECT_TRUE(text.find("in Add(x: f32[2], ") != std::string::npos) << text;
  EXPECT_TRUE(text.find("while building 'net'") != std::string::npos) << text;
  EXPECT_TRUE(text.find("1 more") != std::string::npos) << text;
}

TEST(BuilderErrors, OpsWithoutABuilderDoNothing) {
  EXPECT_FALSE(Add(XlaOp(), XlaOp()).valid());
  EXPECT_FALSE(Sort({}, LtF()).valid());
  EXPECT_FALSE(Call(nullptr, AddF(), {}).valid());
  EXPECT_TRUE(Neg(XlaOp()).IsUninitialized());
}

TEST(BuilderErrors, Build) {
  XlaBuilder b("b");
  EXPECT_FALSE(b.Build().has_value());  // nothing in it
  XlaOp x = Parameter(&b, 1, Shape::MakeScalar(F32), "x");
  auto gap = b.Build(x);
  ASSERT_FALSE(gap.has_value());
  EXPECT_NE(gap.error().message().find("no parameter 0"), std::string::npos);
  // Both failures emptied the builder; an old op is known for one.
  XlaOp y = Parameter(&b, 0, Shape::MakeScalar(F32), "y");
  EXPECT_FALSE(Add(x, y).valid());
  EXPECT_NE(b.first_error()->message().find("before the builder"), std::string::npos);
  EXPECT_FALSE(b.Build().has_value());
  Parameter(&b, 0, Shape::MakeScalar(F32), "z");
  EXPECT_TRUE(b.Build().has_value());
  EXPECT_FALSE(b.Build(XlaOp()).has_value());
  b.SetUpAlias({}, 5, {});
  Parameter(&b, 0, Shape::MakeScalar(F32), "z");
  EXPECT_FALSE(b.Build().has_value());  // no parameter 5 to share with
}

}  // namespace
}  // namespace krafla::testing
