// SPDX-License-Identifier: Apache-2.0
// Small graphs with answers worked out by hand.
#include "evaluator/evaluator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <limits>

namespace krafla {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Shape ArrayOf(ElementType type, Dims dims) { return *Shape::MakeArray(type, dims); }

template <class T>
Literal Make(ElementType type, Dims dims, std::vector<T> values) {
  Literal out = *Literal::Create(ArrayOf(type, dims));
  EXPECT_EQ(out.data<T>().size(), values.size());
  std::copy(values.begin(), values.end(), out.data<T>().begin());
  return out;
}
Literal F32(Dims dims, std::vector<float> values) { return Make(ElementType::kF32, dims, values); }
Literal S32(Dims dims, std::vector<int32_t> values) { return Make(ElementType::kS32, dims, values); }
Literal S8(Dims dims, std::vector<int8_t> values) { return Make(ElementType::kS8, dims, values); }

template <class T>
std::vector<T> Values(const Literal& literal) {
  auto data = literal.data<T>();
  return {data.begin(), data.end()};
}

// A module with one computation per test.
class EvaluatorTest : public ::testing::Test {
 protected:
  Instruction* Parameter(Computation* c, Shape shape) {
    ParameterAttributes a;
    a.number = static_cast<int64_t>(c->parameters().size());
    return c->Add(Opcode::kParameter, std::move(shape), {}, a);
  }
  Instruction* Constant(Computation* c, Literal literal) {
    ConstantAttributes a;
    Shape shape = literal.shape();
    a.literal = std::make_shared<const Literal>(std::move(literal));
    return c->Add(Opcode::kConstant, std::move(shape), {}, a);
  }
  // A computation of two scalars of `type`.
  Computation* Binary(Opcode opcode, ElementType type) {
    Computation* c = module_.AddComputation("binary");
    Instruction* a = Parameter(c, Shape::MakeScalar(type));
    Instruction* b = Parameter(c, Shape::MakeScalar(type));
    c->set_root(c->Add(opcode, Shape::MakeScalar(type), {a, b}));
    return c;
  }
  // op applied to `arguments` as parameters.
  Result<Literal> Apply(Opcode opcode, Shape result, std::vector<Literal> arguments, Attributes attributes = {},
                        std::vector<Computation*> called = {}, EvaluatorOptions options = {}) {
    Computation* c = module_.AddComputation("main");
    std::vector<Instruction*> operands;
    std::vector<const Literal*> pointers;
    for (const Literal& l : arguments) {
      operands.push_back(Parameter(c, l.shape()));
      pointers.push_back(&l);
    }
    c->set_root(c->Add(opcode, std::move(result), operands, std::move(attributes), std::move(called)));
    return Evaluate(*c, pointers, options);
  }
  template <class T>
  std::vector<T> Run(Opcode opcode, Shape result, std::vector<Literal> arguments, Attributes attributes = {},
                     std::vector<Computation*> called = {}) {
    auto out = Apply(opcode, std::move(result), std::move(arguments), std::move(attributes), std::move(called));
    EXPECT_TRUE(out) << (out ? "" : out.error().ToString());
    return out ? Values<T>(*out) : std::vector<T>();
  }

  Module module_{"test"};
};

TEST_F(EvaluatorTest, IntegerDivisionCorners) {
  const int32_t min = std::numeric_limits<int32_t>::min();
  const Shape s = ArrayOf(ElementType::kS32, {4});
  EXPECT_EQ(Run<int32_t>(Opcode::kDivide, s, {S32({4}, {7, 7, min, -7}), S32({4}, {0, 2, -1, 2})}),
            (std::vector<int32_t>{-1, 3, min, -3}));
  EXPECT_EQ(Run<int32_t>(Opcode::kRemainder, s, {S32({4}, {7, 7, min, -7}), S32({4}, {0, 2, -1, 2})}),
            (std::vector<int32_t>{7, 1, 0, -1}));
}

TEST_F(EvaluatorTest, ShiftsPastTheWidth) {
  const Shape s = ArrayOf(ElementType::kS8, {4});
  EXPECT_EQ(Run<int8_t>(Opcode::kShiftLeft, s, {S8({4}, {1, 1, -1, 3}), S8({4}, {7, 8, -1, 6})}),
            (std::vector<int8_t>{-128, 0, 0, -64}));
  EXPECT_EQ(Run<int8_t>(Opcode::kShiftRightArithmetic, s, {S8({4}, {-4, -4, 4, -1}), S8({4}, {1, 9, 9, -1})}),
            (std::vector<int8_t>{-2, -1, 0, -1}));
  EXPECT_EQ(Run<int8_t>(Opcode::kShiftRightLogical, s, {S8({4}, {-1, -1, 4, 4}), S8({4}, {4, 8, 1, -2})}),
            (std::vector<int8_t>{15, 0, 2, 0}));
}

TEST_F(EvaluatorTest, FourBitsWrap) {
  const Shape s = ArrayOf(ElementType::kS4, {3});
  auto s4 = [](std::vector<int8_t> v) { return Make<int8_t>(ElementType::kS4, {static_cast<int64_t>(v.size())}, v); };
  EXPECT_EQ(Run<int8_t>(Opcode::kAdd, s, {s4({7, -8, 3}), s4({1, -1, 2})}), (std::vector<int8_t>{-8, 7, 5}));
  EXPECT_EQ(Run<int8_t>(Opcode::kMultiply, s, {s4({5, -8, -3}), s4({5, -1, 3})}), (std::vector<int8_t>{-7, -8, 7}));
  EXPECT_EQ(Run<int8_t>(Opcode::kDivide, s, {s4({-8, 7, 1}), s4({-1, 2, 0})}), (std::vector<int8_t>{-8, 3, -1}));
  EXPECT_EQ(Run<int8_t>(Opcode::kClz, s, {s4({1, -1, 0})}), (std::vector<int8_t>{3, 0, 4}));
}

TEST_F(EvaluatorTest, MaximumOfNanAndZeros) {
  auto out = Run<float>(Opcode::kMaximum, ArrayOf(ElementType::kF32, {4}),
                        {F32({4}, {kNan, 1, -0.0f, 2}), F32({4}, {1, kNan, 0.0f, 3})});
  EXPECT_TRUE(std::isnan(out[0]) && std::isnan(out[1]));
  EXPECT_FALSE(std::signbit(out[2]));
  EXPECT_EQ(out[3], 3);
}

TEST_F(EvaluatorTest, FloatToIntegerSaturates) {
  EXPECT_EQ(Run<int8_t>(Opcode::kConvert, ArrayOf(ElementType::kS8, {6}),
                        {F32({6}, {kNan, kInf, -kInf, 127.9f, -128.9f, -1.9f})}),
            (std::vector<int8_t>{0, 127, -128, 127, -128, -1}));
  EXPECT_EQ(Run<uint8_t>(Opcode::kConvert, ArrayOf(ElementType::kU8, {3}), {F32({3}, {-3, 300, 2.5f})}),
            (std::vector<uint8_t>{0, 255, 2}));
}

TEST_F(EvaluatorTest, Bf16RoundsOnce) {
  // 1 + 2**-8 is a tie in bf16 and goes to even, 1.
  auto one = Make<uint16_t>(ElementType::kBF16, {1}, {0x3f80});
  auto tiny = Make<uint16_t>(ElementType::kBF16, {1}, {0x3b80});
  EXPECT_EQ(Run<uint16_t>(Opcode::kAdd, ArrayOf(ElementType::kBF16, {1}), {std::move(one), std::move(tiny)}),
            (std::vector<uint16_t>{0x3f80}));
}

TEST_F(EvaluatorTest, TransposeOfLargeMatrix) {
  const int64_t rows = 70, columns = 45;
  std::vector<int32_t> values;
  for (int32_t k = 0; k < rows * columns; ++k) values.push_back(k);
  auto out = Run<int32_t>(Opcode::kTranspose, ArrayOf(ElementType::kS32, {columns, rows}),
                          {S32({rows, columns}, values)}, DimensionsAttributes{{1, 0}});
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      ASSERT_EQ(out[static_cast<std::size_t>(c * rows + r)], static_cast<int32_t>(r * columns + c));
}

TEST_F(EvaluatorTest, PadWithNegativeAndInterior) {
  PadAttributes a{{1}, {-1}, {1}};
  EXPECT_EQ(Run<int32_t>(Opcode::kPad, ArrayOf(ElementType::kS32, {5}), {S32({3}, {1, 2, 3}), S32({}, {9})}, a),
            (std::vector<int32_t>{9, 1, 9, 2, 9}));
  PadAttributes cut{{-1}, {0}, {2}};
  EXPECT_EQ(Run<int32_t>(Opcode::kPad, ArrayOf(ElementType::kS32, {6}), {S32({3}, {1, 2, 3}), S32({}, {9})}, cut),
            (std::vector<int32_t>{9, 9, 2, 9, 9, 3}));
}

TEST_F(EvaluatorTest, DynamicSliceClamps) {
  const Shape s = ArrayOf(ElementType::kS32, {2});
  for (auto [start, first] : {std::pair{-5, 0}, {1, 1}, {99, 3}})
    EXPECT_EQ(Run<int32_t>(Opcode::kDynamicSlice, s, {S32({5}, {0, 1, 2, 3, 4}), S32({}, {start})},
                           DynamicSliceAttributes{{2}}),
              (std::vector<int32_t>{first, first + 1}));
}

TEST_F(EvaluatorTest, ReduceRowsAndColumns) {
  Computation* add = Binary(Opcode::kAdd, ElementType::kS32);
  const Literal x = S32({2, 3}, {1, 2, 3, 4, 5, 6});
  auto copy = [&] { return *Literal::FromBytes(x.shape(), x.bytes()); };
  EXPECT_EQ(Run<int32_t>(Opcode::kReduce, ArrayOf(ElementType::kS32, {2}), {copy(), S32({}, {10})},
                         DimensionsAttributes{{1}}, {add}),
            (std::vector<int32_t>{16, 25}));
  EXPECT_EQ(Run<int32_t>(Opcode::kReduce, ArrayOf(ElementType::kS32, {3}), {copy(), S32({}, {0})},
                         DimensionsAttributes{{0}}, {add}),
            (std::vector<int32_t>{5, 7, 9}));
  Computation* subtract = Binary(Opcode::kSubtract, ElementType::kS32);
  EXPECT_EQ(Run<int32_t>(Opcode::kReduce, ArrayOf(ElementType::kS32, {2}), {copy(), S32({}, {0})},
                         DimensionsAttributes{{1}}, {subtract}),
            (std::vector<int32_t>{-6, -15}));
}

TEST_F(EvaluatorTest, EmptyReduceGivesInit) {
  Computation* add = Binary(Opcode::kAdd, ElementType::kF32);
  EXPECT_EQ(Run<float>(Opcode::kReduce, ArrayOf(ElementType::kF32, {2}), {F32({2, 0}, {}), F32({}, {5})},
                       DimensionsAttributes{{1}}, {add}),
            (std::vector<float>{5, 5}));
}

TEST_F(EvaluatorTest, DotWithTransposedOperand) {
  DotAttributes a;
  a.lhs_contracting = {0};
  a.rhs_contracting = {0};
  // [[1, 2], [3, 4]]^T [[1, 0], [1, 1]]
  EXPECT_EQ(Run<float>(Opcode::kDot, ArrayOf(ElementType::kF32, {2, 2}),
                       {F32({2, 2}, {1, 2, 3, 4}), F32({2, 2}, {1, 0, 1, 1})}, a),
            (std::vector<float>{4, 3, 6, 4}));
}

TEST_F(EvaluatorTest, DotContractsSeveralDimensionsInAnyOrder) {
  DotAttributes a;
  a.lhs_contracting = {2, 1};
  a.rhs_contracting = {0, 1};
  // sum over j, k of x[i, j, k] y[k, j]
  EXPECT_EQ(Run<int32_t>(Opcode::kDot, ArrayOf(ElementType::kS32, {1}),
                         {S32({1, 2, 3}, {1, 2, 3, 4, 5, 6}), S32({3, 2}, {1, 10, 100, 1000, 10000, 100000})}, a),
            (std::vector<int32_t>{1 + 200 + 30000 + 40 + 5000 + 600000}));
}

TEST_F(EvaluatorTest, ConvolutionWithPaddingAndStride) {
  ConvolutionAttributes a;
  a.window = {WindowDim{.size = 3, .stride = 2, .padding_low = 1, .padding_high = 1}};
  a.input_batch = 0, a.input_feature = 1, a.input_spatial = {2};
  a.kernel_output_feature = 0, a.kernel_input_feature = 1, a.kernel_spatial = {2};
  a.output_batch = 0, a.output_feature = 1, a.output_spatial = {2};
  EXPECT_EQ(Run<int32_t>(Opcode::kConvolution, ArrayOf(ElementType::kS32, {1, 1, 3}),
                         {S32({1, 1, 5}, {1, 2, 3, 4, 5}), S32({1, 1, 3}, {1, 10, 100})}, a),
            (std::vector<int32_t>{210, 432, 54}));
}

TEST_F(EvaluatorTest, ScatterSkipsWhatIsOutside) {
  ScatterAttributes a;
  a.inserted_window_dims = {0};
  a.scatter_dims_to_operand_dims = {0};
  a.index_vector_dim = 1;
  EXPECT_EQ(Run<int32_t>(Opcode::kScatter, ArrayOf(ElementType::kS32, {3}),
                         {S32({3}, {0, 0, 0}), S32({5, 1}, {1, 1, -1, 3, 2}), S32({5}, {1, 10, 100, 1000, 7})}, a,
                         {Binary(Opcode::kAdd, ElementType::kS32)}),
            (std::vector<int32_t>{0, 11, 7}));
}

TEST_F(EvaluatorTest, GatherClamps) {
  GatherAttributes a;
  a.collapsed_slice_dims = {0};
  a.start_index_map = {0};
  a.index_vector_dim = 1;
  a.slice_sizes = {1};
  EXPECT_EQ(Run<int32_t>(Opcode::kGather, ArrayOf(ElementType::kS32, {3}),
                         {S32({4}, {5, 6, 7, 8}), S32({3, 1}, {-1, 2, 100})}, a),
            (std::vector<int32_t>{5, 7, 8}));
}

// A collapsed dimension may have the slice size 0: still one element, and never one past the end.
TEST_F(EvaluatorTest, GatherOfEmptySlicesStaysInside) {
  GatherAttributes a;
  a.collapsed_slice_dims = {0};
  a.start_index_map = {0};
  a.index_vector_dim = 1;
  a.slice_sizes = {0};
  EXPECT_EQ(Run<int32_t>(Opcode::kGather, ArrayOf(ElementType::kS32, {2}), {S32({2}, {5, 6}), S32({2, 1}, {0, 9})}, a),
            (std::vector<int32_t>{5, 6}));
  EXPECT_EQ(Run<int32_t>(Opcode::kGather, ArrayOf(ElementType::kS32, {1}), {S32({0}, {}), S32({1, 1}, {3})}, a),
            (std::vector<int32_t>{0}));
}

// No elements, but dimensions that no memory could hold.
TEST_F(EvaluatorTest, EmptyArraysOfHugeExtent) {
  const int64_t huge = int64_t{1} << 40;
  Computation* less = module_.AddComputation("less");
  Instruction* x = Parameter(less, Shape::MakeScalar(ElementType::kS32));
  Instruction* y = Parameter(less, Shape::MakeScalar(ElementType::kS32));
  less->set_root(less->Add(Opcode::kCompare, Shape::MakeScalar(ElementType::kPred), {x, y},
                           CompareAttributes{ComparisonDirection::kLt}));
  EXPECT_TRUE(Run<int32_t>(Opcode::kSort, ArrayOf(ElementType::kS32, {0, huge}), {S32({0, huge}, {})},
                           SortAttributes{1}, {less})
                  .empty());
  DotAttributes a;
  a.lhs_contracting = {1};
  a.rhs_contracting = {0};
  EXPECT_TRUE(
      Run<int32_t>(Opcode::kDot, ArrayOf(ElementType::kS32, {huge, 0}), {S32({huge, 0}, {}), S32({0, 0}, {})}, a)
          .empty());
}

// Sorts pairs by key only, so that equal keys show whether the sort is stable.
TEST_F(EvaluatorTest, StableSortOfPairs) {
  Computation* less = module_.AddComputation("less");
  Instruction* a = Parameter(less, Shape::MakeScalar(ElementType::kS32));
  Instruction* b = Parameter(less, Shape::MakeScalar(ElementType::kS32));
  Parameter(less, Shape::MakeScalar(ElementType::kS32));
  Parameter(less, Shape::MakeScalar(ElementType::kS32));
  less->set_root(less->Add(Opcode::kCompare, Shape::MakeScalar(ElementType::kPred), {a, b},
                           CompareAttributes{ComparisonDirection::kLt}));
  const Shape s = ArrayOf(ElementType::kS32, {20});
  std::vector<int32_t> keys, places;
  for (int32_t k = 0; k < 20; ++k) {
    keys.push_back(k * 7 % 3);
    places.push_back(k);
  }
  auto out = Apply(Opcode::kSort, *Shape::MakeTuple({s, s}), {S32({20}, keys), S32({20}, places)},
                   SortAttributes{0, true}, {less});
  ASSERT_TRUE(out) << out.error().ToString();
  auto sorted = Values<int32_t>(out->elements()[0]), order = Values<int32_t>(out->elements()[1]);
  for (std::size_t k = 1; k < 20; ++k) {
    EXPECT_LE(sorted[k - 1], sorted[k]);
    if (sorted[k - 1] == sorted[k]) { EXPECT_LT(order[k - 1], order[k]); }
    EXPECT_EQ(sorted[k], keys[static_cast<std::size_t>(order[k])]);
  }
}

// A comparator that is no order must not do harm.
TEST_F(EvaluatorTest, SortWithNonsense) {
  Computation* yes = module_.AddComputation("yes");
  Parameter(yes, Shape::MakeScalar(ElementType::kS32));
  Parameter(yes, Shape::MakeScalar(ElementType::kS32));
  yes->set_root(Constant(yes, Make<uint8_t>(ElementType::kPred, {}, {1})));
  std::vector<int32_t> keys(1000);
  for (int32_t k = 0; k < 1000; ++k) keys[static_cast<std::size_t>(k)] = k;
  auto out =
      Run<int32_t>(Opcode::kSort, ArrayOf(ElementType::kS32, {1000}), {S32({1000}, keys)}, SortAttributes{0}, {yes});
  std::sort(out.begin(), out.end());
  EXPECT_EQ(out, keys);
}

class LoopTest : public EvaluatorTest {
 protected:
  // (i, x) with i < limit: x[i] = 2 i
  Computation* CountingLoop(int32_t limit, int64_t size) {
    const Shape i_shape = Shape::MakeScalar(ElementType::kS32), x_shape = ArrayOf(ElementType::kS32, {size});
    const Shape state = *Shape::MakeTuple({i_shape, x_shape});
    Computation* condition = module_.AddComputation("condition");
    Instruction* p = Parameter(condition, state);
    Instruction* i = condition->Add(Opcode::kGetTupleElement, i_shape, {p}, TupleIndexAttributes{0});
    condition->set_root(condition->Add(Opcode::kCompare, Shape::MakeScalar(ElementType::kPred),
                                       {i, Constant(condition, S32({}, {limit}))},
                                       CompareAttributes{ComparisonDirection::kLt}));
    Computation* body = module_.AddComputation("body");
    p = Parameter(body, state);
    i = body->Add(Opcode::kGetTupleElement, i_shape, {p}, TupleIndexAttributes{0});
    Instruction* next = body->Add(Opcode::kAdd, i_shape, {i, Constant(body, S32({}, {1}))});
    Instruction* twice = body->Add(Opcode::kAdd, i_shape, {i, i});
    Instruction* row = body->Add(Opcode::kReshape, ArrayOf(ElementType::kS32, {1}), {twice});
    // Only here is the array taken out of the tuple: it must still be written in place.
    Instruction* x = body->Add(Opcode::kGetTupleElement, x_shape, {p}, TupleIndexAttributes{1});
    Instruction* updated = body->Add(Opcode::kDynamicUpdateSlice, x_shape, {x, row, i});
    body->set_root(body->Add(Opcode::kTuple, state, {next, updated}));
    Computation* main = module_.AddComputation("main");
    Instruction* start = Parameter(main, state);
    main->set_root(main->Add(Opcode::kWhile, state, {start}, WhileAttributes{}, {condition, body}));
    return main;
  }
};

TEST_F(LoopTest, CarriesATuple) {
  Computation* main = CountingLoop(5, 6);
  std::vector<Literal> parts;
  parts.push_back(S32({}, {0}));
  parts.push_back(S32({6}, {-1, -1, -1, -1, -1, -1}));
  const Literal start = *Literal::MakeTuple(std::move(parts));
  const Literal* arguments[] = {&start};
  auto out = Evaluate(*main, arguments);
  ASSERT_TRUE(out) << out.error().ToString();
  EXPECT_EQ(Values<int32_t>(out->elements()[1]), (std::vector<int32_t>{0, 2, 4, 6, 8, -1}));
  EXPECT_EQ(Values<int32_t>(start.elements()[1])[0], -1) << "an argument was written to";
}

// 2000 turns over 16 MiB: with a copy a turn this would move 32 GiB.
TEST_F(LoopTest, UpdatesInPlace) {
  const int64_t size = 4 << 20;
  Computation* main = CountingLoop(2000, size);
  std::vector<Literal> parts;
  parts.push_back(S32({}, {0}));
  parts.push_back(*Literal::Create(ArrayOf(ElementType::kS32, {size})));
  const Literal start = *Literal::MakeTuple(std::move(parts));
  const Literal* arguments[] = {&start};
  auto out = Evaluate(*main, arguments);
  ASSERT_TRUE(out) << out.error().ToString();
  EXPECT_EQ(out->elements()[1].data<int32_t>()[1999], 3998);
}

TEST_F(LoopTest, WorkLimitEndsALoop) {
  Computation* main = CountingLoop(std::numeric_limits<int32_t>::max(), 4);
  std::vector<Literal> parts;
  parts.push_back(S32({}, {0}));
  parts.push_back(S32({4}, {0, 0, 0, 0}));
  const Literal start = *Literal::MakeTuple(std::move(parts));
  const Literal* arguments[] = {&start};
  EvaluatorOptions options;
  options.work_limit = 100'000;
  auto out = Evaluate(*main, arguments, options);
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().code(), StatusCode::kDeadlineExceeded);
}

TEST_F(EvaluatorTest, ArgumentsAreChecked) {
  Computation* c = module_.AddComputation("main");
  c->set_root(Parameter(c, ArrayOf(ElementType::kF32, {2})));
  const Literal wrong = F32({3}, {1, 2, 3});
  const Literal* arguments[] = {&wrong};
  EXPECT_FALSE(Evaluate(*c, arguments));
  EXPECT_FALSE(Evaluate(*c, {}));
}

TEST_F(EvaluatorTest, CustomCallIsNamed) {
  CustomCallAttributes a;
  a.target = "nobody.knows";
  auto out = Apply(Opcode::kCustomCall, ArrayOf(ElementType::kF32, {1}), {F32({1}, {1})}, a);
  ASSERT_FALSE(out);
  EXPECT_NE(out.error().ToString().find("nobody.knows"), std::string::npos);
}

TEST_F(EvaluatorTest, CollectiveThroughTheHook) {
  EvaluatorHost host;
  host.replica_count = 2;
  host.replica = 1;
  host.collective = [](const Instruction& i, std::span<const Literal* const> operands) -> Result<Literal> {
    EXPECT_EQ(i.opcode(), Opcode::kAllReduce);
    Literal out = *Literal::FromBytes(operands[0]->shape(), operands[0]->bytes());
    for (float& v : out.data<float>()) v *= 2;
    return out;
  };
  EvaluatorOptions options;
  options.host = &host;
  const Shape s = ArrayOf(ElementType::kF32, {2});
  Computation* add = Binary(Opcode::kAdd, ElementType::kF32);
  auto out = Apply(Opcode::kAllReduce, s, {F32({2}, {1, 2})}, CollectiveAttributes{}, {add}, options);
  ASSERT_TRUE(out);
  EXPECT_EQ(Values<float>(*out), (std::vector<float>{2, 4}));
  // One device: the operand; two without a hook: an error.
  out = Apply(Opcode::kAllReduce, s, {F32({2}, {1, 2})}, CollectiveAttributes{}, {add});
  ASSERT_TRUE(out);
  EXPECT_EQ(Values<float>(*out), (std::vector<float>{1, 2}));
  host.collective = nullptr;
  out = Apply(Opcode::kAllReduce, s, {F32({2}, {1, 2})}, CollectiveAttributes{}, {add}, options);
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().code(), StatusCode::kUnimplemented);
}

TEST_F(EvaluatorTest, SetDimensionSizeThenReduce) {
  const bool dynamic[] = {true};
  const Shape bounded = *Shape::MakeArray(ElementType::kS32, Dims{5}, dynamic);
  Computation* c = module_.AddComputation("main");
  Instruction* x = Parameter(c, ArrayOf(ElementType::kS32, {5}));
  Instruction* n = Parameter(c, Shape::MakeScalar(ElementType::kS32));
  Instruction* cut = c->Add(Opcode::kSetDimensionSize, bounded, {x, n}, DimensionsAttributes{{0}});
  Instruction* twice = c->Add(Opcode::kAdd, bounded, {cut, cut});
  Instruction* zero = Constant(c, S32({}, {0}));
  Instruction* sum = c->Add(Opcode::kReduce, Shape::MakeScalar(ElementType::kS32), {twice, zero},
                            DimensionsAttributes{{0}}, {Binary(Opcode::kAdd, ElementType::kS32)});
  c->set_root(c->Add(Opcode::kTuple, *Shape::MakeTuple({bounded, sum->shape()}), {twice, sum}));
  const Literal values = S32({5}, {1, 10, 100, 1000, 10000}), three = S32({}, {3});
  const Literal* arguments[] = {&values, &three};
  auto out = Evaluate(*c, arguments);
  ASSERT_TRUE(out) << out.error().ToString();
  EXPECT_EQ(Values<int32_t>(out->elements()[0]), (std::vector<int32_t>{2, 20, 200}));
  EXPECT_EQ(Values<int32_t>(out->elements()[1]), (std::vector<int32_t>{222}));
}

// The values are those of jaxlib 0.10.2's XLA:CPU: the real parts alone decide.
TEST_F(EvaluatorTest, ClampsComplexNumbersByTheirRealParts) {
  using C = std::complex<float>;
  auto complex = [](Dims dims, std::vector<C> values) { return Make(ElementType::kC64, dims, values); };
  const std::vector<C> x = {{1, 2}, {kNan, 0}, {1, kNan}, {0, kNan}, {2, kNan}, {kNan, kNan}, {3, 0}, {-3, 0}};
  auto clamp = [&](C low, C high) {
    return Values<C>(*Apply(Opcode::kClamp, ArrayOf(ElementType::kC64, {8}),
                            {complex({}, {low}), complex({8}, x), complex({}, {high})}));
  };
  auto same = [](const std::vector<C>& got, const std::vector<C>& want) {
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(got[i].real() == want[i].real() || (std::isnan(got[i].real()) && std::isnan(want[i].real()))) << i;
      EXPECT_TRUE(got[i].imag() == want[i].imag() || (std::isnan(got[i].imag()) && std::isnan(want[i].imag()))) << i;
    }
  };
  same(clamp({0, 1}, {2, 3}), {{1, 2}, {2, 3}, {1, kNan}, {0, 1}, {2, kNan}, {2, 3}, {2, 3}, {0, 1}});
  same(clamp({kNan, 1}, {2, 3}), {{1, 2}, {2, 3}, {1, kNan}, {0, kNan}, {2, kNan}, {2, 3}, {2, 3}, {-3, 0}});
  same(clamp({0, 1}, {2, kNan}), {{1, 2}, {2, kNan}, {1, kNan}, {0, 1}, {2, kNan}, {2, kNan}, {2, kNan}, {0, 1}});
  same(clamp({4, 1}, {2, 3}), std::vector<C>(8, C{2, 3}));
}

}  // namespace
}  // namespace krafla
