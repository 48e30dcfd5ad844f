// SPDX-License-Identifier: Apache-2.0
// One test a rule: what it infers, and that each thing it must refuse is refused with a message that says why.
// Expected shapes follow from XLA's documentation of each operation ("Operation Semantics").
#include "ir/shape_rules.h"

#include <gtest/gtest.h>

#include <memory>

namespace krafla {
namespace {

using T = ElementType;

// "f32[2,<=3]", "pred[]", "token[]", "(f32[2], s32[])".
class ShapeReader {
 public:
  explicit ShapeReader(std::string_view text) : text_(text) {}
  Shape Read() {
    if (text_[at_] == '(') {
      ++at_;
      std::vector<Shape> elements;
      while (text_[at_] != ')') {
        elements.push_back(Read());
        while (text_[at_] == ',' || text_[at_] == ' ') ++at_;
      }
      ++at_;
      return Shape::MakeTuple(std::move(elements)).value();
    }
    std::size_t open = text_.find('[', at_);
    std::string_view name = text_.substr(at_, open - at_);
    at_ = open + 1;
    Dims dims;
    InlineVector<bool, 8> dynamic;
    while (text_[at_] != ']') {
      bool bounded = text_.substr(at_, 2) == "<=";
      if (bounded) at_ += 2;
      int64_t n = 0;
      while (text_[at_] >= '0' && text_[at_] <= '9') n = n * 10 + (text_[at_++] - '0');
      dims.push_back(n);
      dynamic.push_back(bounded);
      if (text_[at_] == ',') ++at_;
    }
    ++at_;
    if (name == "token") return Shape::MakeToken();
    return Shape::MakeArray(ElementTypeFromName(name).value(), dims, dynamic).value();
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};
Shape S(std::string_view text) { return ShapeReader(text).Read(); }

struct Signature {
  std::vector<std::string> parameters;
  std::string result;
};

struct Case {
  Opcode opcode;
  std::vector<std::string> operands;
  Attributes attributes = {};
  std::string declared = "";
  std::vector<Signature> called = {};
  int64_t replicas = 1, partitions = 1;
};

Result<Shape> Infer(const Case& c) {
  std::vector<Shape> shapes;
  for (const auto& o : c.operands) shapes.push_back(S(o));
  std::vector<const Shape*> operands;
  for (const Shape& s : shapes) operands.push_back(&s);
  std::vector<ComputationSignature> called;
  for (const Signature& s : c.called) {
    ComputationSignature signature;
    for (const auto& p : s.parameters) signature.parameters.push_back(S(p));
    signature.result = S(s.result);
    called.push_back(std::move(signature));
  }
  std::optional<Shape> declared;
  if (!c.declared.empty()) declared = S(c.declared);
  return InferShape({.opcode = c.opcode,
                     .operands = operands,
                     .attributes = c.attributes,
                     .called = called,
                     .declared = declared ? &*declared : nullptr,
                     .replica_count = c.replicas,
                     .num_partitions = c.partitions});
}

void Gives(const Case& c, std::string_view expected, int line = __builtin_LINE()) {
  auto got = Infer(c);
  ASSERT_TRUE(got.has_value()) << "line " << line << ": " << got.error().message();
  EXPECT_EQ(got->ToString(false), expected) << "line " << line;
  EXPECT_TRUE(!got->IsArray() || got->layout().IsRowMajor());
}
// Refused, and the message has `part` in it.
void Refuses(const Case& c, std::string_view part, int line = __builtin_LINE()) {
  auto got = Infer(c);
  ASSERT_FALSE(got.has_value()) << "line " << line << ": gave " << got->ToString(false);
  EXPECT_NE(got.error().message().find(part), std::string::npos) << "line " << line << ": " << got.error().message();
}

DimensionsAttributes D(Dims dims) { return {std::move(dims)}; }
const Signature kAddF32 = {{"f32[]", "f32[]"}, "f32[]"};
const Signature kAddS32 = {{"s32[]", "s32[]"}, "s32[]"};

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
  const Signature ge = {{"f32[]", "f32[]"}, "pred[]"};
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
  const Signature less = {{"f32[]", "f32[]", "s32[]", "s32[]"}, "pred[]"};
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

TEST(ShapeRules, TuplesAndTokens) {
  Gives({Opcode::kTuple, {"f32[2]", "token[]"}}, "(f32[2], token[])");
  Refuses({Opcode::kTuple, {"f32[2]"}, {}, "(f32[3])"}, "Element 0");
  Refuses({Opcode::kTuple, {"f32[2]"}, {}, "(f32[2], f32[2])"}, "1 operands");
  Gives({Opcode::kGetTupleElement, {"(f32[2], s32[])"}, TupleIndexAttributes{1}}, "s32[]");
  Refuses({Opcode::kGetTupleElement, {"(f32[2], s32[])"}, TupleIndexAttributes{2}}, "outside");
  Refuses({Opcode::kGetTupleElement, {"(f32[2])"}, TupleIndexAttributes{-1}}, "outside");
  Refuses({Opcode::kGetTupleElement, {"f32[2]"}, TupleIndexAttributes{0}}, "works on tuples");
  Gives({Opcode::kAfterAll, {}}, "token[]");
  Refuses({Opcode::kAfterAll, {"token[]", "f32[]"}}, "must be a token");
  Gives({Opcode::kAddDependency, {"f32[2]", "token[]"}}, "f32[2]");
  Refuses({Opcode::kAddDependency, {"f32[2]", "f32[2]"}}, "must be a token");
  Gives({Opcode::kInfeed, {"token[]"}, InfeedAttributes{}, "(f32[2], token[])"}, "(f32[2], token[])");
  Refuses({Opcode::kInfeed, {"token[]"}, InfeedAttributes{}, "f32[2]"}, "data and a token");
  InfeedAttributes out;
  out.outfeed_shape = S("f32[5]");
  Refuses({Opcode::kOutfeed, {"f32[4]", "token[]"}, out}, "outfeed_shape");
  Gives({Opcode::kSend, {"f32[4]", "token[]"}, ChannelAttributes{}}, "(f32[4], u32[], token[])");
  Gives({Opcode::kRecvDone, {"(f32[4], u32[], token[])"}, ChannelAttributes{}}, "(f32[4], token[])");
  Refuses({Opcode::kSendDone, {"(f32[4], f32[4])"}, ChannelAttributes{}}, "at least 3");
}

TEST(ShapeRules, Calls) {
  Gives({Opcode::kCall, {"f32[4]"}, CallAttributes{}, "", {{{"f32[4]"}, "s32[]"}}}, "s32[]");
  Refuses({Opcode::kCall, {"f32[4]", "f32[4]"}, CallAttributes{}, "", {{{"f32[4]"}, "s32[]"}}}, "takes 1 parameters");
  Refuses({Opcode::kCall, {"f32[5]"}, CallAttributes{}, "", {{{"f32[4]"}, "s32[]"}}}, "Parameter 0");
  const Signature condition = {{"s32[]"}, "pred[]"}, body = {{"s32[]"}, "s32[]"};
  Gives({Opcode::kWhile, {"s32[]"}, WhileAttributes{}, "", {condition, body}}, "s32[]");
  Refuses({Opcode::kWhile, {"s32[]"}, WhileAttributes{}, "", {body, body}}, "must give pred[]");
  Refuses({Opcode::kWhile, {"s32[]"}, WhileAttributes{}, "", {condition, condition}}, "must give its state");
  Refuses({Opcode::kWhile, {"f32[]"}, WhileAttributes{}, "", {condition, body}}, "must take its state");
  Refuses({Opcode::kWhile, {"s32[]"}, WhileAttributes{}, "", {condition}}, "calls 2");
  Gives({Opcode::kConditional, {"pred[]", "s32[]", "s32[]"}, {}, "", {body, body}}, "s32[]");
  Gives({Opcode::kConditional, {"s32[]", "s32[]"}, {}, "", {body}}, "s32[]");
  Refuses({Opcode::kConditional, {"pred[]", "s32[]"}, {}, "", {body}}, "between 2 branches");
  Refuses({Opcode::kConditional, {"f32[]", "s32[]"}, {}, "", {body}}, "pred[] or s32[]");
  Refuses({Opcode::kConditional, {"pred[]", "s32[]", "s32[]"}, {}, "", {body, condition}}, "must give the same");
  Refuses({Opcode::kConditional, {"pred[]", "s32[]", "f32[]"}, {}, "", {body, body}}, "its argument is");
  CustomCallAttributes call;
  call.output_to_operand_aliasing = {{{}, 1, {}}};
  Refuses({Opcode::kCustomCall, {"f32[2]"}, call, "f32[2]"}, "output_to_operand_aliasing");
  call.output_to_operand_aliasing = {{{}, 0, {}}};
  Gives({Opcode::kCustomCall, {"f32[2]"}, call, "f32[2]"}, "f32[2]");
}

TEST(ShapeRules, Async) {
  const Signature f = {{"f32[4]"}, "s32[2]"};
  Gives({Opcode::kAsyncStart, {"f32[4]"}, AsyncAttributes{}, "", {f}}, "((f32[4]), s32[2], u32[])");
  Gives({Opcode::kAsyncStart, {"f32[4]"}, AsyncAttributes{}, "((f32[4]), s32[2])", {f}}, "((f32[4]), s32[2])");
  Refuses({Opcode::kAsyncStart, {"f32[4]"}, AsyncAttributes{}, "(f32[4], s32[2])", {f}}, "async-start gives");
  Gives({Opcode::kAsyncDone, {"((f32[4]), s32[2], u32[])"}, AsyncAttributes{}}, "s32[2]");
  Gives({Opcode::kCopyStart, {"f32[4]"}}, "(f32[4], f32[4], u32[])");
  Gives({Opcode::kCopyDone, {"(f32[4], f32[4], u32[])"}}, "f32[4]");
  Refuses({Opcode::kCopyDone, {"f32[4]"}}, "works on tuples");
}

TEST(ShapeRules, CollectiveShapes) {
  CollectiveAttributes a;
  a.dimension = 0;
  Gives({Opcode::kAllGather, {"f32[4,2]"}, a, "", {}, 4}, "f32[16,2]");
  Gives({Opcode::kAllGatherStart, {"f32[4,2]", "s8[2]"}, a, "", {}, 2}, "((f32[4,2], s8[2]), (f32[8,2], s8[4]))");
  Gives({Opcode::kReduceScatter, {"f32[8]"}, a, "", {kAddF32}, 4}, "f32[2]");
  Refuses({Opcode::kReduceScatter, {"f32[5]"}, a, "", {kAddF32}, 4}, "does not split");
  Gives({Opcode::kAllToAll, {"f32[8]"}, a, "", {}, 4}, "f32[8]");
  Refuses({Opcode::kAllToAll, {"f32[5]"}, a, "", {}, 4}, "does not split");
  a.dimension = 1;
  Refuses({Opcode::kAllGather, {"f32[4]"}, a, "", {}, 4}, "outside");
  a.dimension.reset();
  Refuses({Opcode::kAllGather, {"f32[4]"}, a, "", {}, 4}, "must name one dimension");
  Gives({Opcode::kAllToAll, {"f32[2]", "f32[2]"}, a, "", {}, 2}, "(f32[2], f32[2])");
  Refuses({Opcode::kAllToAll, {"f32[2]", "f32[2]"}, a, "", {}, 4}, "for each of the 4 members");
  Gives({Opcode::kAllReduce, {"f32[2]", "f32[3]"}, a, "", {kAddF32}, 4}, "(f32[2], f32[3])");
  Refuses({Opcode::kAllReduce, {"f32[2]"}, a, "", {kAddS32}, 4}, "must be f32[]");
  Gives({Opcode::kReplicaId, {}}, "u32[]");
  // With a channel, a group of replicas spans the partitions.
  a.channel_id = 1;
  a.dimension = 0;
  Gives({Opcode::kAllGather, {"f32[4]"}, a, "", {}, 2, 3}, "f32[24]");
  a.use_global_device_ids = true;
  Refuses({Opcode::kAllGather, {"f32[4]"}, a, "", {}, 2, 3}, "must not be empty");
  a.replica_groups = {{0, 3}, {1, 4}, {2, 5}};
  Gives({Opcode::kAllGather, {"f32[4]"}, a, "", {}, 2, 3}, "f32[8]");
  a.channel_id.reset();
  Refuses({Opcode::kAllGather, {"f32[4]"}, a, "", {}, 2, 3}, "needs a channel_id");
}

TEST(ShapeRules, CollectiveGroups) {
  auto with = [](std::vector<std::vector<int64_t>> groups) {
    CollectiveAttributes a;
    a.replica_groups = std::move(groups);
    return a;
  };
  auto reduce = [&](CollectiveAttributes a) { return Case{Opcode::kAllReduce, {"f32[4]"}, a, "", {kAddF32}, 4}; };
  Gives(reduce(with({{0}, {1, 2, 3}})), "f32[4]");
  Refuses(reduce(with({{0, 0}, {1, 2}})), "twice");
  Refuses(reduce(with({{0, 9}, {1, 2}})), "names replica 9");
  Refuses(reduce(with({{-1, 0, 1, 2}})), "names replica -1");
  Refuses(reduce(with({{0, 1}})), "each of the 4");
  Refuses(reduce(with({{0, 1, 2, 3}, {}})), "empty");
  // A count of 1 means that the text left it out: ids 0 to n-1, then.
  Gives({Opcode::kAllReduce, {"f32[4]"}, with({{2, 0}, {1, 3}}), "", {kAddF32}}, "f32[4]");
  Refuses({Opcode::kAllReduce, {"f32[4]"}, with({{2, 0}, {1, 4}}), "", {kAddF32}}, "names replica 4");
  auto gather = with({{0}, {1, 2, 3}});
  gather.dimension = 0;
  Refuses({Opcode::kAllGather, {"f32[4]"}, gather, "", {}, 4}, "of one size");
  Gives({Opcode::kCollectiveBroadcast, {"f32[4]"}, with({{3, 0}}), "", {}, 4}, "f32[4]");
  CollectiveAttributes p;
  p.source_target_pairs = {{0, 1}, {1, 0}};
  Gives({Opcode::kCollectivePermute, {"f32[4]"}, p, "", {}, 4}, "f32[4]");
  Gives({Opcode::kCollectivePermuteStart, {"f32[4]"}, p, "(f32[4], f32[4], u32[], u32[])", {}, 4},
        "(f32[4], f32[4], u32[], u32[])");
  p.source_target_pairs = {{0, 1}, {2, 1}};
  Refuses({Opcode::kCollectivePermute, {"f32[4]"}, p, "", {}, 4}, "target, names replica 1 twice");
  p.source_target_pairs = {{0, 1}, {0, 2}};
  Refuses({Opcode::kCollectivePermute, {"f32[4]"}, p, "", {}, 4}, "source, names replica 0 twice");
  p.source_target_pairs = {{0, 7}};
  Refuses({Opcode::kCollectivePermute, {"f32[4]"}, p, "", {}, 4}, "replica 7");
}

TEST(ShapeRules, LinearAlgebra) {
  Gives({Opcode::kCholesky, {"f32[2,3,3]"}, CholeskyAttributes{true}}, "f32[2,3,3]");
  Refuses({Opcode::kCholesky, {"f32[2,3]"}, CholeskyAttributes{true}}, "square");
  Refuses({Opcode::kCholesky, {"f32[4]"}, CholeskyAttributes{true}}, "square");
  TriangularSolveAttributes solve;
  solve.left_side = true;
  Gives({Opcode::kTriangularSolve, {"f32[2,2]", "f32[2,5]"}, solve}, "f32[2,5]");
  Refuses({Opcode::kTriangularSolve, {"f32[2,2]", "f32[3,1]"}, solve}, "right-hand sides");
  Gives({Opcode::kFft, {"c64[3,8]"}, FftAttributes{FftType::kFft, {8}}}, "c64[3,8]");
  Gives({Opcode::kFft, {"f32[3,8]"}, FftAttributes{FftType::kRfft, {8}}}, "c64[3,5]");
  Gives({Opcode::kFft, {"c128[3,5]"}, FftAttributes{FftType::kIrfft, {8}}}, "f64[3,8]");
  Refuses({Opcode::kFft, {"f32[8]"}, FftAttributes{FftType::kFft, {8}}}, "complex numbers");
  Refuses({Opcode::kFft, {"c64[2,2,2,2]"}, FftAttributes{FftType::kFft, {2, 2, 2, 2}}}, "one to three");
  Refuses({Opcode::kFft, {"c64[8]"}, FftAttributes{FftType::kFft, {7}}}, "wants 7");
  BatchNormAttributes norm{0.1f, 1};
  Gives({Opcode::kBatchNormTraining, {"f32[2,3]", "f32[3]", "f32[3]"}, norm}, "(f32[2,3], f32[3], f32[3])");
  Refuses({Opcode::kBatchNormTraining, {"f32[2,3]", "f32[2]", "f32[3]"}, norm}, "one value a feature");
  norm.feature_index = 2;
  Refuses({Opcode::kBatchNormTraining, {"f32[2,3]", "f32[3]", "f32[3]"}, norm}, "outside");
  Gives({Opcode::kRngBitGenerator, {"u64[3]"}, RngBitGeneratorAttributes{RngAlgorithm::kPhilox}, "(u64[3], u8[5])"},
        "(u64[3], u8[5])");
  Refuses({Opcode::kRngBitGenerator, {"u64[5]"}, RngBitGeneratorAttributes{RngAlgorithm::kThreeFry}, "(u64[5], u8[5])"},
          "state");
  Refuses({Opcode::kRng, {"f32[4]", "f32[4]"}, RngAttributes{}, "f32[4]"}, "must be f32[]");
}

}  // namespace
}  // namespace krafla
