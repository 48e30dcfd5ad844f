// SPDX-License-Identifier: Apache-2.0
// One test a rule: what it infers, and that each thing it must refuse is refused with a message that says why.
// Expected shapes follow from XLA's documentation of each operation ("Operation Semantics").
#include "shape_rule_case.h"

namespace krafla {
namespace {

TEST(ShapeRules, EveryRowHasARule) {
  // No operands, no attributes: every row answers with a shape or an error, never with a crash.
  int answered = 0;
  for (const OpInfo& info : AllOps()) {
    Attributes none = NoAttributes{};
    auto got = InferShape({.opcode = info.opcode, .operands = {}, .attributes = none});
    if (!got) { EXPECT_FALSE(got.error().message().empty()); }
    ++answered;
  }
  EXPECT_EQ(answered, static_cast<int>(AllOps().size()));
}

TEST(ShapeRules, Elementwise) {
  Gives({Opcode::kNegate, {"f32[2,<=3]"}}, "f32[2,<=3]");
  Gives({Opcode::kAbs, {"c64[4]"}}, "f32[4]");
  Gives({Opcode::kImag, {"c128[]"}}, "f64[]");
  Gives({Opcode::kIsFinite, {"bf16[3]"}}, "pred[3]");
  Gives({Opcode::kAdd, {"s32[4]", "s32[4]"}}, "s32[4]");
  Gives({Opcode::kAdd, {"f32[<=8]", "f32[8]"}}, "f32[<=8]");
  Refuses({Opcode::kAdd, {"f32[4]", "f32[5]"}}, "equal dimensions");
  Refuses({Opcode::kAdd, {"f32[2,3]", "f32[3]"}}, "equal dimensions");
  Refuses({Opcode::kAdd, {"f32[4]", "s32[4]"}}, "one element type");
  Refuses({Opcode::kAdd, {"f32[4]", "bf16[4]"}}, "one element type");
  Refuses({Opcode::kAdd, {"f32[4]"}}, "takes 2 operands");
  Refuses({Opcode::kAdd, {"(f32[4])", "(f32[4])"}}, "add works on");
  Refuses({Opcode::kExp, {"s32[4]"}}, "exponential works on");
  Refuses({Opcode::kNot, {"f32[4]"}}, "not works on");
  Refuses({Opcode::kSign, {"u32[4]"}}, "sign works on");
  Refuses({Opcode::kShiftLeft, {"c64[4]", "c64[4]"}}, "works on");
  Refuses({Opcode::kRemainder, {"c64[4]", "c64[4]"}}, "works on");
  Refuses({Opcode::kNegate, {"f32[]"}, IotaAttributes{}}, "carries NoAttributes");
}

TEST(ShapeRules, ClampSelectCompare) {
  Gives({Opcode::kClamp, {"f32[]", "f32[4]", "f32[4]"}}, "f32[4]");
  Refuses({Opcode::kClamp, {"f32[5]", "f32[4]", "f32[5]"}}, "scalars or have the operand's dimensions");
  Refuses({Opcode::kClamp, {"s32[]", "f32[4]", "s32[]"}}, "one element type");
  Gives({Opcode::kSelect, {"pred[]", "f32[4]", "f32[4]"}}, "f32[4]");
  Gives({Opcode::kSelect, {"pred[4]", "s8[4]", "s8[4]"}}, "s8[4]");
  Refuses({Opcode::kSelect, {"f32[4]", "f32[4]", "f32[4]"}}, "must be pred");
  Refuses({Opcode::kSelect, {"pred[4]", "f32[4]", "f32[5]"}}, "equal dimensions");
  Refuses({Opcode::kSelect, {"pred[2]", "f32[4]", "f32[4]"}}, "scalar or have the dimensions");
  CompareAttributes lt{ComparisonDirection::kLt, ComparisonType::kDefault};
  Gives({Opcode::kCompare, {"f32[4]", "f32[4]"}, lt}, "pred[4]");
  lt.type = ComparisonType::kUnsigned;
  Refuses({Opcode::kCompare, {"f32[4]", "f32[4]"}, lt}, "comparison type");
  lt.type = ComparisonType::kTotalOrder;
  Refuses({Opcode::kCompare, {"s32[4]", "s32[4]"}, lt}, "comparison type");
  Gives({Opcode::kComplex, {"f64[2]", "f64[2]"}}, "c128[2]");
  Refuses({Opcode::kComplex, {"f16[2]", "f16[2]"}}, "f32 or f64");
}

TEST(ShapeRules, Conversions) {
  Gives({Opcode::kConvert, {"f32[4]"}, {}, "s8[4]"}, "s8[4]");
  Refuses({Opcode::kConvert, {"f32[4]"}, {}, "s8[5]"}, "keeps the dimensions");
  Refuses({Opcode::kConvert, {"f32[4]"}}, "give its shape");
  Gives({Opcode::kBitcastConvert, {"f32[4]"}, {}, "f16[4,2]"}, "f16[4,2]");
  Gives({Opcode::kBitcastConvert, {"f32[4,2]"}, {}, "f64[4]"}, "f64[4]");
  Gives({Opcode::kBitcastConvert, {"s8[3]"}, {}, "u4[3,2]"}, "u4[3,2]");
  Refuses({Opcode::kBitcastConvert, {"f32[4]"}, {}, "f64[4]"}, "the ratio");
  Gives({Opcode::kStochasticConvert, {"f32[4]", "u32[4]"}, {}, "s8[4]"}, "s8[4]");
  Refuses({Opcode::kStochasticConvert, {"f32[4]", "u16[4]"}, {}, "bf16[4]"}, "same width");
  Gives({Opcode::kReducePrecision, {"f32[2]"}, ReducePrecisionAttributes{5, 0}}, "f32[2]");
  Refuses({Opcode::kReducePrecision, {"f32[2]"}, ReducePrecisionAttributes{0, 3}}, "exponent_bits");
  Refuses({Opcode::kReducePrecision, {"f32[2]"}, ReducePrecisionAttributes{5, -1}}, "mantissa_bits");
}

TEST(ShapeRules, Rearranging) {
  Gives({Opcode::kBroadcast, {"f32[2,1]"}, D({0, 2}), "f32[2,3,1]"}, "f32[2,3,1]");
  Gives({Opcode::kBroadcast, {"f32[]"}, D({}), "f32[7]"}, "f32[7]");
  Refuses({Opcode::kBroadcast, {"f32[2,1]"}, D({0}), "f32[2,3]"}, "one entry for each");
  Refuses({Opcode::kBroadcast, {"f32[2]"}, D({2}), "f32[2,3]"}, "outside [0, 2)");
  Refuses({Opcode::kBroadcast, {"f32[4]"}, D({0}), "f32[5]"}, "sizes must be equal");
  Refuses({Opcode::kBroadcast, {"f32[1]"}, D({0}), "f32[5]"}, "sizes must be equal");
  Refuses({Opcode::kBroadcast, {"f32[2,2]"}, D({0, 0}), "f32[2,2]"}, "twice");
  Gives({Opcode::kTranspose, {"f32[2,3,<=4]"}, D({2, 0, 1})}, "f32[<=4,2,3]");
  Refuses({Opcode::kTranspose, {"f32[2,3]"}, D({0, 0})}, "twice");
  Refuses({Opcode::kTranspose, {"f32[2,3]"}, D({0})}, "not a permutation");
  Refuses({Opcode::kTranspose, {"f32[2,3]"}, D({0, INT64_MIN})}, "outside");
  Gives({Opcode::kReverse, {"f32[2,3]"}, D({1})}, "f32[2,3]");
  Refuses({Opcode::kReverse, {"f32[2,3]"}, D({2})}, "outside");
  Refuses({Opcode::kReverse, {"f32[2,3]"}, D({1, 1})}, "twice");
  Gives({Opcode::kReshape, {"f32[2,3]"}, {}, "f32[6]"}, "f32[6]");
  Refuses({Opcode::kReshape, {"f32[2,3]"}, {}, "f32[8]"}, "number of elements");
  Refuses({Opcode::kReshape, {"f32[2,3]"}, {}, "s32[6]"}, "element type");
  Gives({Opcode::kConcatenate, {"f32[2,3]", "f32[2,4]", "f32[2,0]"}, D({1})}, "f32[2,7]");
  Gives({Opcode::kConcatenate, {"s32[<=5]", "s32[4]"}, D({0})}, "s32[<=9]");
  Refuses({Opcode::kConcatenate, {"f32[2,3]", "f32[3,3]"}, D({1})}, "agree in all but");
  Refuses({Opcode::kConcatenate, {"f32[2]", "s32[2]"}, D({0})}, "agree in all but");
  Refuses({Opcode::kConcatenate, {"f32[]", "f32[]"}, D({0})}, "outside");
  Refuses({Opcode::kConcatenate, {}, D({0})}, "at least 1");
  Refuses({Opcode::kConcatenate, {"s8[6000000000000000000]", "s8[6000000000000000000]"}, D({0})}, "63 bits");
  Gives({Opcode::kBitcast, {"f32[4,6]"}, {}, "s32[24]"}, "s32[24]");
  Refuses({Opcode::kBitcast, {"f32[4]"}, {}, "f32[5]"}, "keeps the bytes");
  Refuses({Opcode::kBitcast, {"s8[4]"}, {}, "s4[4]"}, "keeps the bytes");
}

TEST(ShapeRules, PadAndIota) {
  Gives({Opcode::kPad, {"f32[3,2]", "f32[]"}, PadAttributes{{1, -1}, {2, 0}, {1, 0}}}, "f32[8,1]");
  Gives({Opcode::kPad, {"f32[0]", "f32[]"}, PadAttributes{{1}, {1}, {5}}}, "f32[2]");
  Refuses({Opcode::kPad, {"f32[3]", "f32[]"}, PadAttributes{{0, 0}, {0, 0}, {0, 0}}}, "one entry for each");
  Refuses({Opcode::kPad, {"f32[3]", "f32[1]"}, PadAttributes{{0}, {0}, {0}}}, "padding value");
  Refuses({Opcode::kPad, {"f32[3]", "s32[]"}, PadAttributes{{0}, {0}, {0}}}, "padding value");
  Refuses({Opcode::kPad, {"f32[3]", "f32[]"}, PadAttributes{{0}, {0}, {-1}}}, "must not be negative");
  Refuses({Opcode::kPad, {"f32[3]", "f32[]"}, PadAttributes{{-2}, {-2}, {0}}}, "more from dimension");
  Refuses({Opcode::kPad, {"f32[3]", "f32[]"}, PadAttributes{{0}, {0}, {INT64_MAX}}}, "63 bits");
  Refuses({Opcode::kPad, {"f32[3]", "f32[]"}, PadAttributes{{INT64_MIN}, {0}, {0}}}, "63 bits");
  Gives({Opcode::kIota, {}, IotaAttributes{1}, "s32[2,3]"}, "s32[2,3]");
  Refuses({Opcode::kIota, {}, IotaAttributes{1}, "s32[2]"}, "outside");
  Refuses({Opcode::kIota, {}, IotaAttributes{0}, "s32[]"}, "outside");
  Refuses({Opcode::kIota, {}, IotaAttributes{0}, "pred[2]"}, "not pred");
}

TEST(ShapeRules, Slices) {
  Gives({Opcode::kSlice, {"f32[10,4]"}, SliceAttributes{{1, 0}, {8, 4}, {3, 1}}}, "f32[3,4]");
  Gives({Opcode::kSlice, {"f32[10]"}, SliceAttributes{{4}, {4}, {1}}}, "f32[0]");
  Refuses({Opcode::kSlice, {"f32[10]"}, SliceAttributes{{0}, {11}, {1}}}, "not within");
  Refuses({Opcode::kSlice, {"f32[10]"}, SliceAttributes{{5}, {4}, {1}}}, "not within");
  Refuses({Opcode::kSlice, {"f32[10]"}, SliceAttributes{{-1}, {4}, {1}}}, "not within");
  Refuses({Opcode::kSlice, {"f32[10]"}, SliceAttributes{{0}, {4}, {0}}}, "stride");
  Refuses({Opcode::kSlice, {"f32[10]"}, SliceAttributes{{0, 0}, {4, 4}, {1, 1}}}, "one range for each");
  Gives({Opcode::kDynamicSlice, {"f32[4,5]", "s32[]", "s32[]"}, DynamicSliceAttributes{{2, 5}}}, "f32[2,5]");
  Refuses({Opcode::kDynamicSlice, {"f32[4]", "s32[]"}, DynamicSliceAttributes{{5}}}, "must lie in [0, 4]");
  Refuses({Opcode::kDynamicSlice, {"f32[4,5]", "s32[]"}, DynamicSliceAttributes{{2, 5}}}, "start index for each");
  Refuses({Opcode::kDynamicSlice, {"f32[4]", "f32[]"}, DynamicSliceAttributes{{2}}}, "integer scalars");
  Refuses({Opcode::kDynamicSlice, {"f32[4,5]", "s32[]", "s64[]"}, DynamicSliceAttributes{{2, 5}}}, "one element type");
  Gives({Opcode::kDynamicSlice, {"f32[4,5]", "s32[2]"}, DynamicSliceAttributes{{2, 5}}}, "f32[2,5]");
  Refuses({Opcode::kDynamicSlice, {"f32[4,5]", "s32[3]"}, DynamicSliceAttributes{{2, 5}}}, "start index for each");
  Gives({Opcode::kDynamicUpdateSlice, {"f32[4]", "f32[2]", "u8[]"}}, "f32[4]");
  Refuses({Opcode::kDynamicUpdateSlice, {"f32[4]", "f32[5]", "s32[]"}}, "does not fit");
  Refuses({Opcode::kDynamicUpdateSlice, {"f32[4]", "s32[2]", "s32[]"}}, "element type and rank");
}

TEST(ShapeRules, DynamicSizes) {
  Gives({Opcode::kSetDimensionSize, {"f32[4,6]", "s32[]"}, D({1})}, "f32[4,<=6]");
  Gives({Opcode::kSetDimensionSize, {"f32[4,<=6]", "s32[]"}, D({1}), "f32[4,6]"}, "f32[4,6]");
  Refuses({Opcode::kSetDimensionSize, {"f32[4]", "f32[]"}, D({0})}, "s32[]");
  Refuses({Opcode::kSetDimensionSize, {"f32[4]", "s32[2]"}, D({0})}, "s32[]");
  Gives({Opcode::kGetDimensionSize, {"f32[4,6]"}, D({1})}, "s32[]");
  Refuses({Opcode::kGetDimensionSize, {"f32[4]"}, D({1})}, "outside");
  Gives({Opcode::kDynamicReshape, {"f32[<=12]", "s32[]", "s32[]"}, {}, "f32[<=2,<=6]"}, "f32[<=2,<=6]");
  Refuses({Opcode::kDynamicReshape, {"f32[<=12]", "s32[]", "s32[]"}, {}, "f32[<=4,<=6]"}, "number of elements");
  Refuses({Opcode::kDynamicReshape, {"f32[<=12]", "s32[]"}, {}, "f32[<=2,<=6]"}, "a size for each");
}

GatherAttributes SimpleGather() {
  GatherAttributes a;  // rows of a [8,5] array
  a.offset_dims = {1};
  a.collapsed_slice_dims = {0};
  a.start_index_map = {0};
  a.index_vector_dim = 1;
  a.slice_sizes = {1, 5};
  return a;
}

TEST(ShapeRules, Gather) {
  std::vector<std::string> operands = {"f32[8,5]", "s32[7]"};
  Gives({Opcode::kGather, operands, SimpleGather()}, "f32[7,5]");
  auto a = SimpleGather();
  a.slice_sizes = {2, 5};
  Refuses({Opcode::kGather, operands, a}, "at most 1");
  a = SimpleGather();
  a.slice_sizes = {1, 6};
  Refuses({Opcode::kGather, operands, a}, "must lie in");
  a = SimpleGather();
  a.start_index_map = {0, 1};
  Refuses({Opcode::kGather, operands, a}, "as many entries");
  a = SimpleGather();
  a.start_index_map = {5};
  Refuses({Opcode::kGather, operands, a}, "outside");
  a = SimpleGather();
  a.offset_dims = {4};
  Refuses({Opcode::kGather, operands, a}, "outside");
  a = SimpleGather();
  a.index_vector_dim = 3;
  Refuses({Opcode::kGather, operands, a}, "index_vector_dim");
  Refuses({Opcode::kGather, {"f32[8,5]", "f32[7]"}, SimpleGather()}, "must be integers");
  // From the document: batching dimensions.
  GatherAttributes b;
  b.offset_dims = {2};
  b.operand_batching_dims = {0};
  b.start_indices_batching_dims = {0};
  b.collapsed_slice_dims = {1};
  b.start_index_map = {1};
  b.index_vector_dim = 2;
  b.slice_sizes = {1, 1, 4};
  Gives({Opcode::kGather, {"f32[3,8,4]", "s32[3,2]"}, b}, "f32[3,2,4]");
  Refuses({Opcode::kGather, {"f32[3,8,4]", "s32[2,2]"}, b}, "must be equal");
}

ScatterAttributes SimpleScatter() {
  ScatterAttributes a;
  a.update_window_dims = {1};
  a.inserted_window_dims = {0};
  a.scatter_dims_to_operand_dims = {0};
  a.index_vector_dim = 1;
  return a;
}

TEST(ShapeRules, Scatter) {
  std::vector<std::string> operands = {"f32[8,5]", "s32[7]", "f32[7,5]"};
  Gives({Opcode::kScatter, operands, SimpleScatter(), "", {kAddF32}}, "f32[8,5]");
  Gives({Opcode::kScatter,
         {"f32[8,5]", "f32[8,5]", "s32[7]", "f32[7,5]", "f32[7,5]"},
         SimpleScatter(),
         "",
         {{{"f32[]", "f32[]", "f32[]", "f32[]"}, "(f32[], f32[])"}}},
        "(f32[8,5], f32[8,5])");
  Refuses({Opcode::kScatter, operands, SimpleScatter(), "", {kAddS32}}, "must be f32[]");
  Refuses({Opcode::kScatter, {"f32[8,5]", "s32[7]", "f32[7,6]"}, SimpleScatter(), "", {kAddF32}}, "larger than");
  Refuses({Opcode::kScatter, {"f32[8,5]", "s32[7]", "f32[6,5]"}, SimpleScatter(), "", {kAddF32}}, "as in the indices");
  Refuses({Opcode::kScatter, {"f32[8,5]", "s32[7]"}, SimpleScatter(), "", {kAddF32}}, "at least 3");
  auto a = SimpleScatter();
  a.inserted_window_dims = {};
  Refuses({Opcode::kScatter, operands, a, "", {kAddF32}}, "add up");
  a = SimpleScatter();
  a.scatter_dims_to_operand_dims = {0, 0};
  Refuses({Opcode::kScatter, {"f32[8,5]", "s32[7,2]", "f32[7,5]"}, a, "", {kAddF32}}, "twice");
}

TEST(ShapeRules, Dot) {
  DotAttributes a;
  a.lhs_batch = {0};
  a.rhs_batch = {0};
  a.lhs_contracting = {2};
  a.rhs_contracting = {1};
  Gives({Opcode::kDot, {"f32[2,3,4]", "f32[2,4,5]"}, a}, "f32[2,3,5]");
  Gives({Opcode::kDot, {"s8[2,3,4]", "s8[2,4,5]"}, a, "s32[2,3,5]"}, "s32[2,3,5]");
  Gives({Opcode::kDot, {"bf16[2,3,4]", "f32[2,4,5]"}, a}, "f32[2,3,5]");
  Gives({Opcode::kDot, {"f32[2,3,4]", "f32[2,4,5]"}, a, "bf16[2,3,5]"}, "bf16[2,3,5]");
  Refuses({Opcode::kDot, {"s32[2,3,4]", "s32[2,4,5]"}, a, "s8[2,3,5]"}, "cannot hold");
  Refuses({Opcode::kDot, {"c64[2,3,4]", "f32[2,4,5]"}, a}, "complex");
  Refuses({Opcode::kDot, {"f32[2,3,4]", "f32[2,5,5]"}, a}, "Contracting dimensions");
  Refuses({Opcode::kDot, {"f32[2,3,4]", "f32[3,4,5]"}, a}, "Batch dimensions");
  a.lhs_contracting = {3};
  Refuses({Opcode::kDot, {"f32[2,3,4]", "f32[2,4,5]"}, a}, "outside");
  a.lhs_contracting = {0};
  Refuses({Opcode::kDot, {"f32[2,3,4]", "f32[2,4,5]"}, a}, "twice");
  a.lhs_contracting = {};
  Refuses({Opcode::kDot, {"f32[2,3,4]", "f32[2,4,5]"}, a}, "as many contracting");
}

TEST(ShapeRules, RaggedAndScaledDot) {
  RaggedDotAttributes rows;
  rows.dot.lhs_contracting = {1};
  rows.dot.rhs_contracting = {1};
  rows.lhs_ragged_dims = {0};
  rows.rhs_group_dims = {0};
  Gives({Opcode::kRaggedDot, {"f32[11,7]", "f32[4,7,5]", "s64[4]"}, rows}, "f32[11,5]");
  Refuses({Opcode::kRaggedDot, {"f32[11,7]", "f32[4,7,5]", "s64[3]"}, rows}, "group sizes");
  RaggedDotAttributes inner;
  inner.dot.lhs_contracting = {1};
  inner.dot.rhs_contracting = {0};
  inner.lhs_ragged_dims = {1};
  Gives({Opcode::kRaggedDot, {"f32[4,6]", "f32[6,3]", "s32[2]"}, inner}, "f32[2,4,3]");
  inner.rhs_group_dims = {1};
  Refuses({Opcode::kRaggedDot, {"f32[4,6]", "f32[6,3]", "s32[2]"}, inner}, "group dimension");
  DotAttributes dot;
  dot.lhs_contracting = {1};
  dot.rhs_contracting = {0};
  Gives({Opcode::kScaledDot, {"f8e4m3fn[4,32]", "f8e4m3fn[32,5]", "f8e8m0fnu[4,1]", "f8e8m0fnu[1,5]"}, dot, "f32[4,5]"},
        "f32[4,5]");
  Refuses(
      {Opcode::kScaledDot, {"f8e4m3fn[4,32]", "f8e4m3fn[32,5]", "f8e8m0fnu[4,3]", "f8e8m0fnu[1,5]"}, dot, "f32[4,5]"},
      "must divide");
}

// b01f_01io->b01f
ConvolutionAttributes Conv2d(int64_t size) {
  ConvolutionAttributes a;
  a.window.resize(2);
  for (WindowDim& w : a.window) w.size = size;
  a.input_batch = 0, a.input_spatial = {1, 2}, a.input_feature = 3;
  a.kernel_spatial = {0, 1}, a.kernel_input_feature = 2, a.kernel_output_feature = 3;
  a.output_batch = 0, a.output_spatial = {1, 2}, a.output_feature = 3;
  return a;
}

TEST(ShapeRules, Convolution) {
  Gives({Opcode::kConvolution, {"f32[1,5,6,4]", "f32[3,3,4,6]"}, Conv2d(3)}, "f32[1,3,4,6]");
  auto a = Conv2d(3);
  a.window[0].padding_low = a.window[0].padding_high = 1;
  a.window[1].stride = 2;
  a.window[1].base_dilation = 2;
  Gives({Opcode::kConvolution, {"f32[1,5,6,4]", "f32[3,3,4,6]"}, a}, "f32[1,5,5,6]");
  a = Conv2d(3);
  a.feature_group_count = 2;
  Gives({Opcode::kConvolution, {"f32[1,5,5,4]", "f32[3,3,2,6]"}, a}, "f32[1,3,3,6]");
  Refuses({Opcode::kConvolution, {"f32[1,5,5,4]", "f32[3,3,2,5]"}, a}, "divisible");
  a.batch_group_count = 2;
  Refuses({Opcode::kConvolution, {"f32[2,5,5,4]", "f32[3,3,2,6]"}, a}, "cannot both");
  a = Conv2d(3);
  a.batch_group_count = 2;
  Gives({Opcode::kConvolution, {"f32[4,5,5,4]", "f32[3,3,4,6]"}, a}, "f32[2,3,3,6]");
  Refuses({Opcode::kConvolution, {"f32[3,5,5,4]", "f32[3,3,4,6]"}, a}, "batch of 3");
  Refuses({Opcode::kConvolution, {"f32[1,5,5,4]", "f32[3,3,3,6]"}, Conv2d(3)}, "features");
  Refuses({Opcode::kConvolution, {"f32[1,5,5,4]", "f32[3,3,4,6]"}, Conv2d(2)}, "window's size");
  a = Conv2d(3);
  a.input_feature = 0;
  Refuses({Opcode::kConvolution, {"f32[1,5,5,4]", "f32[3,3,4,6]"}, a}, "twice");
  a = Conv2d(3);
  a.output_feature = 9;
  Refuses({Opcode::kConvolution, {"f32[1,5,5,4]", "f32[3,3,4,6]"}, a}, "outside");
  a = Conv2d(3);
  a.window[0].stride = 0;
  Refuses({Opcode::kConvolution, {"f32[1,5,5,4]", "f32[3,3,4,6]"}, a}, "stride");
  a = Conv2d(3);
  a.window[0].base_dilation = INT64_MAX;
  Refuses({Opcode::kConvolution, {"f32[1,5,5,4]", "f32[3,3,4,6]"}, a}, "63 bits");
}

TEST(ShapeRules, Reduce) {
  Gives({Opcode::kReduce, {"f32[2,3,<=4]", "f32[]"}, D({1}), "", {kAddF32}}, "f32[2,<=4]");
  Gives({Opcode::kReduce,
         {"f32[2,3]", "s32[2,3]", "f32[]", "s32[]"},
         D({0}),
         "",
         {{{"f32[]", "s32[]", "f32[]", "s32[]"}, "(f32[], s32[])"}}},
        "(f32[3], s32[3])");
  Refuses({Opcode::kReduce, {"f32[2,3]", "f32[]"}, D({2}), "", {kAddF32}}, "outside");
  Refuses({Opcode::kReduce, {"f32[2,3]", "f32[]"}, D({0, 0}), "", {kAddF32}}, "twice");
  Refuses({Opcode::kReduce, {"f32[2,3]", "f32[1]"}, D({0}), "", {kAddF32}}, "initial value");
  Refuses({Opcode::kReduce, {"f32[2,3]", "s32[]"}, D({0}), "", {kAddF32}}, "initial value");
  Refuses({Opcode::kReduce, {"f32[2]", "f32[]", "f32[]"}, D({0}), "", {kAddF32}}, "as many initial values");
  Refuses({Opcode::kReduce, {"f32[2]", "f32[]"}, D({0}), "", {{{"f32[]"}, "f32[]"}}}, "must take 2 parameters");
  Refuses({Opcode::kReduce, {"f32[2]", "f32[]"}, D({0}), "", {{{"f32[]", "f32[]"}, "pred[]"}}}, "must give f32[]");
  Refuses({Opcode::kReduce, {"f32[2]", "f32[]"}, D({0})}, "calls 1 computation");
}

TEST(ShapeRules, Windows) {
  WindowAttributes w;
  w.window.resize(1);
  w.window[0] = {.size = 3, .stride = 2, .padding_low = 1, .padding_high = 1};
  Gives({Opcode::kReduceWindow, {"f32[7]", "f32[]"}, w, "", {kAddF32}}, "f32[4]");
  w.window[0] = {.size = 3, .window_dilation = 3};
  Gives({Opcode::kReduceWindow, {"f32[7]", "f32[]"}, w, "", {kAddF32}}, "f32[1]");
  Gives({Opcode::kReduceWindow, {"f32[6]", "f32[]"}, w, "", {kAddF32}}, "f32[0]");
  Refuses({Opcode::kReduceWindow, {"f32[6,2]", "f32[]"}, w, "", {kAddF32}}, "window has 1 dimensions");
  w.window[0] = {.size = 0};
  Refuses({Opcode::kReduceWindow, {"f32[7]", "f32[]"}, w, "", {kAddF32}}, "size");
  w.window[0] = {.size = 1, .stride = 0};
  Refuses({Opcode::kReduceWindow, {"f32[7]", "f32[]"}, w, "", {kAddF32}}, "stride");
  w.window[0] = {.size = 2, .stride = 2};
  const SignatureText ge = {{"f32[]", "f32[]"}, "pred[]"};
  Gives({Opcode::kSelectAndScatter, {"f32[6]", "f32[3]", "f32[]"}, w, "", {ge, kAddF32}}, "f32[6]");
  Refuses({Opcode::kSelectAndScatter, {"f32[6]", "f32[2]", "f32[]"}, w, "", {ge, kAddF32}}, "source");
  Refuses({Opcode::kSelectAndScatter, {"f32[6]", "f32[3]", "f32[]"}, w, "", {kAddF32, kAddF32}}, "select computation");
}

TEST(ShapeRules, ScanMapSortTopK) {
  ScanAttributes scan;
  scan.dimension = 1;
  scan.num_carries = 1;
  Gives({Opcode::kScan, {"f32[3,5]", "f32[3]"}, scan, "", {{{"f32[3]", "f32[3]"}, "(s32[3], f32[3])"}}},
        "(s32[3,5], f32[3])");
  scan.dimension = 2;
  Refuses({Opcode::kScan, {"f32[3,5]", "f32[3]"}, scan, "", {{{"f32[3]", "f32[3]"}, "(s32[3], f32[3])"}}}, "outside");
  scan.dimension = 0;
  Refuses({Opcode::kScan, {"f32[3,5]", "f32[3]"}, scan, "", {{{"f32[3]", "f32[3]"}, "(s32[3], f32[3])"}}},
          "must be f32[5]");
  scan.num_carries = 3;
  Refuses({Opcode::kScan, {"f32[5]"}, scan}, "num_carries");

  Gives({Opcode::kMap, {"f32[2,3]", "s32[2,3]"}, D({0, 1}), "", {{{"f32[]", "s32[]"}, "s8[]"}}}, "s8[2,3]");
  Refuses({Opcode::kMap, {"f32[4]"}, D({0}), "", {kAddF32}}, "takes 2 parameters");
  Refuses({Opcode::kMap, {"f32[4]"}, D({0}), "", {{{"f32[4]"}, "f32[4]"}}}, "must be f32[]");
  Refuses({Opcode::kMap, {"f32[2,3]", "f32[2,3]"}, D({0}), "", {kAddF32}}, "all dimensions");

  SortAttributes sort;
  const SignatureText less = {{"f32[]", "f32[]", "s32[]", "s32[]"}, "pred[]"};
  Gives({Opcode::kSort, {"f32[4]", "s32[4]"}, sort, "", {less}}, "(f32[4], s32[4])");
  Gives({Opcode::kSort, {"f32[<=4]"}, sort, "", {{{"f32[]", "f32[]"}, "pred[]"}}}, "f32[<=4]");
  Refuses({Opcode::kSort, {"f32[4]"}, sort, "", {less}}, "must take 2 parameters");
  Refuses({Opcode::kSort, {"f32[4]"}, sort, "", {kAddF32}}, "must give pred[]");
  Refuses({Opcode::kSort, {"f32[4]", "s32[5]"}, sort, "", {less}}, "equal dimensions");
  sort.dimension = 1;
  Refuses({Opcode::kSort, {"f32[4]"}, sort, "", {{{"f32[]", "f32[]"}, "pred[]"}}}, "outside");

  Gives({Opcode::kTopK, {"f32[2,7]"}, TopKAttributes{3, true}}, "(f32[2,3], s32[2,3])");
  Refuses({Opcode::kTopK, {"f32[4]"}, TopKAttributes{5, true}}, "must lie in [0, 4]");
  Refuses({Opcode::kTopK, {"f32[4]"}, TopKAttributes{-1, true}}, "must lie in [0, 4]");
  Refuses({Opcode::kTopK, {"f32[]"}, TopKAttributes{0, true}}, "needs a dimension");
}

}  // namespace
}  // namespace krafla
