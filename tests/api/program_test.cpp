// SPDX-License-Identifier: Apache-2.0
// Whole programs through the API: loops, branches, donated arguments, tuples, empty arrays, scalars, and the same bits
// however a module is cut into kernels.
#include <cmath>

#include "api_fixture.h"

namespace krafla::testing {
namespace {

class ProgramTest : public DeviceTest {};

TEST_P(ProgramTest, DonatedArgumentIsNotChanged) {
  auto executable = Compile(R"(HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }
ENTRY main {
  cache = f32[8] parameter(0)
  new = f32[2] parameter(1)
  at = s32[] parameter(2)
  updated = f32[8] dynamic-update-slice(cache, new, at)
  one = f32[] constant(1)
  ones = f32[8] broadcast(one), dimensions={}
  old = f32[8] add(cache, ones)
  ROOT r = (f32[8], f32[8]) tuple(updated, old)
})");
  ASSERT_NE(executable, nullptr);
  const std::vector<float> before = {0, 1, 2, 3, 4, 5, 6, 7};
  std::vector<Literal> arguments;
  arguments.push_back(MakeLiteral("f32[8]", before));
  arguments.push_back(MakeLiteral<float>("f32[2]", {50, 60}));
  arguments.push_back(MakeLiteral<int32_t>("s32[]", {5}));
  ASSERT_TRUE(executable->SetArguments(Pointers(arguments)).has_value());
  for (int run = 0; run < 3; ++run) {
    SCOPED_TRACE(run);
    ASSERT_TRUE(executable->Execute().has_value());
    auto got = executable->Results();
    ASSERT_TRUE(got.has_value()) << got.error().ToString();
    EXPECT_EQ(Values<float>((*got)[0]), (std::vector<float>{0, 1, 2, 3, 4, 50, 60, 7}));
    EXPECT_EQ(Values<float>((*got)[1]), (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}));
    EXPECT_EQ(Values<float>(arguments[0]), before);
  }
  // A start past the end is clamped.
  arguments[2] = MakeLiteral<int32_t>("s32[]", {99});
  auto got = Run(*executable, arguments);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(Values<float>(got[0]), (std::vector<float>{0, 1, 2, 3, 4, 5, 50, 60}));
}

// Results that trade places: neither may be written before the other has been read.
TEST_P(ProgramTest, DonatedArgumentsMaySwap) {
  auto executable = Compile(R"(HloModule m, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }
ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  ROOT r = (f32[4], f32[4]) tuple(y, x)
})");
  ASSERT_NE(executable, nullptr);
  std::vector<Literal> arguments;
  arguments.push_back(MakeLiteral<float>("f32[4]", {1, 2, 3, 4}));
  arguments.push_back(MakeLiteral<float>("f32[4]", {5, 6, 7, 8}));
  for (int run = 0; run < 2; ++run) {
    auto got = Run(*executable, arguments);
    ASSERT_EQ(got.size(), 2u);
    EXPECT_EQ(Values<float>(got[0]), (std::vector<float>{5, 6, 7, 8}));
    EXPECT_EQ(Values<float>(got[1]), (std::vector<float>{1, 2, 3, 4}));
  }
}

TEST_P(ProgramTest, WhileLoopsTurnAsOftenAsTheDataSays) {
  // Collatz: steps until 1.
  auto executable = Compile(R"(HloModule m
condition {
  s = (s32[], s32[]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  ROOT go = pred[] compare(n, one), direction=NE
}
body {
  s = (s32[], s32[]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  steps = s32[] get-tuple-element(s), index=1
  one = s32[] constant(1)
  two = s32[] constant(2)
  three = s32[] constant(3)
  zero = s32[] constant(0)
  bit = s32[] and(n, one)
  even = pred[] compare(bit, zero), direction=EQ
  half = s32[] divide(n, two)
  tripled = s32[] multiply(n, three)
  up = s32[] add(tripled, one)
  next = s32[] select(even, half, up)
  count = s32[] add(steps, one)
  ROOT r = (s32[], s32[]) tuple(next, count)
}
ENTRY main {
  n = s32[] parameter(0)
  zero = s32[] constant(0)
  init = (s32[], s32[]) tuple(n, zero)
  loop = (s32[], s32[]) while(init), condition=condition, body=body
  ROOT steps = s32[] get-tuple-element(loop), index=1
})");
  ASSERT_NE(executable, nullptr);
  for (auto [n, steps] : {std::pair(27, 111), std::pair(1, 0), std::pair(6, 8)}) {
    std::vector<Literal> arguments;
    arguments.push_back(MakeLiteral<int32_t>("s32[]", {n}));
    auto got = Run(*executable, arguments);
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(Values<int32_t>(got[0]), std::vector<int32_t>{steps}) << n;
  }
}

// A loop inside a loop, with an array carried by both and swapped with its neighbour each turn.
TEST_P(ProgramTest, NestedLoopsWithSwappedState) {
  auto executable = Compile(R"(HloModule m
inner_condition {
  s = (s32[], f32[3], f32[3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT go = pred[] compare(i, n), direction=LT
}
inner_body {
  s = (s32[], f32[3], f32[3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  a = f32[3] get-tuple-element(s), index=1
  b = f32[3] get-tuple-element(s), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  sum = f32[3] add(a, b)
  ROOT r = (s32[], f32[3], f32[3]) tuple(j, b, sum)
}
outer_condition {
  s = (s32[], s32[], f32[3], f32[3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  ROOT go = pred[] compare(i, n), direction=LT
}
outer_body {
  s = (s32[], s32[], f32[3], f32[3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  a = f32[3] get-tuple-element(s), index=2
  b = f32[3] get-tuple-element(s), index=3
  zero = s32[] constant(0)
  init = (s32[], f32[3], f32[3]) tuple(zero, b, a)
  loop = (s32[], f32[3], f32[3]) while(init), condition=inner_condition, body=inner_body
  c = f32[3] get-tuple-element(loop), index=1
  d = f32[3] get-tuple-element(loop), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (s32[], s32[], f32[3], f32[3]) tuple(j, n, c, d)
}
ENTRY main {
  n = s32[] parameter(0)
  a = f32[3] parameter(1)
  b = f32[3] parameter(2)
  zero = s32[] constant(0)
  init = (s32[], s32[], f32[3], f32[3]) tuple(zero, n, a, b)
  loop = (s32[], s32[], f32[3], f32[3]) while(init), condition=outer_condition, body=outer_body
  c = f32[3] get-tuple-element(loop), index=2
  d = f32[3] get-tuple-element(loop), index=3
  ROOT r = (f32[3], f32[3]) tuple(c, d)
})");
  ASSERT_NE(executable, nullptr);
  for (int turns : {0, 1, 2, 5}) {
    SCOPED_TRACE(turns);
    std::vector<float> a = {1, 0, 2}, b = {1, 3, -1};
    std::vector<Literal> arguments;
    arguments.push_back(MakeLiteral<int32_t>("s32[]", {turns}));
    arguments.push_back(MakeLiteral("f32[3]", a));
    arguments.push_back(MakeLiteral("f32[3]", b));
    for (int t = 0; t < turns; ++t) {
      std::swap(a, b);
      for (int i = 0; i < 3; ++i) {
        std::vector<float> sum(3);
        for (std::size_t k = 0; k < 3; ++k) sum[k] = a[k] + b[k];
        a = b;
        b = sum;
      }
    }
    auto got = Run(*executable, arguments);
    ASSERT_EQ(got.size(), 2u);
    EXPECT_EQ(Values<float>(got[0]), a);
    EXPECT_EQ(Values<float>(got[1]), b);
  }
}

TEST_P(ProgramTest, ConditionalOutOfRangeTakesTheLastBranch) {
  auto executable = Compile(R"(HloModule m
first { x = f32[3] parameter(0) ROOT r = f32[3] negate(x) }
second { x = f32[3] parameter(0) ROOT r = f32[3] add(x, x) }
third { x = f32[3] parameter(0) ROOT r = f32[3] multiply(x, x) }
ENTRY main {
  which = s32[] parameter(0)
  x = f32[3] parameter(1)
  ROOT r = f32[3] conditional(which, x, x, x), branch_computations={first, second, third}
})");
  ASSERT_NE(executable, nullptr);
  const std::vector<float> negated = {-1, -2, -3}, doubled = {2, 4, 6}, squared = {1, 4, 9};
  for (const auto& [which, expected] : {std::pair(0, negated), std::pair(1, doubled), std::pair(2, squared),
                                        std::pair(3, squared), std::pair(-1, squared), std::pair(INT32_MIN, squared)}) {
    std::vector<Literal> arguments;
    arguments.push_back(MakeLiteral<int32_t>("s32[]", {which}));
    arguments.push_back(MakeLiteral<float>("f32[3]", {1, 2, 3}));
    auto got = Run(*executable, arguments);
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(Values<float>(got[0]), expected) << which;
  }
}

TEST_P(ProgramTest, ConditionalOnAPredicate) {
  auto executable = Compile(R"(HloModule m
yes { x = f32[2] parameter(0) ROOT r = f32[2] negate(x) }
no { x = f32[2] parameter(0) ROOT r = f32[2] add(x, x) }
ENTRY main {
  p = pred[] parameter(0)
  x = f32[2] parameter(1)
  y = f32[2] parameter(2)
  ROOT r = f32[2] conditional(p, x, y), true_computation=yes, false_computation=no
})");
  ASSERT_NE(executable, nullptr);
  for (uint8_t p : {1, 0}) {
    std::vector<Literal> arguments;
    arguments.push_back(MakeLiteral<uint8_t>("pred[]", {p}));
    arguments.push_back(MakeLiteral<float>("f32[2]", {1, 2}));
    arguments.push_back(MakeLiteral<float>("f32[2]", {3, 4}));
    auto got = Run(*executable, arguments);
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(Values<float>(got[0]), p ? (std::vector<float>{-1, -2}) : (std::vector<float>{6, 8}));
  }
}

TEST_P(ProgramTest, EmptyArrays) {
  auto executable = Compile(R"(HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY main {
  x = f32[0,3] parameter(0)
  y = f32[2,3] parameter(1)
  seven = f32[] constant(7)
  sum = f32[0,3] add(x, x)
  joined = f32[2,3] concatenate(sum, y), dimensions={0}
  total = f32[3] reduce(x, seven), dimensions={0}, to_apply=add
  none = f32[0] reduce(x, seven), dimensions={1}, to_apply=add
  padded = f32[2,3] pad(x, seven), padding=1_1x0_0
  lhs = f32[3,0] transpose(x), dimensions={1,0}
  product = f32[3,3] dot(lhs, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = (f32[0,3], f32[2,3], f32[3], f32[0], f32[2,3], f32[3,3]) tuple(sum, joined, total, none, padded, product)
})");
  ASSERT_NE(executable, nullptr);
  std::vector<Literal> arguments;
  arguments.push_back(MakeLiteral<float>("f32[0,3]", {}));
  arguments.push_back(MakeLiteral<float>("f32[2,3]", {1, 2, 3, 4, 5, 6}));
  for (int run = 0; run < 2; ++run) {
    auto got = Run(*executable, arguments);
    ASSERT_EQ(got.size(), 6u);
    EXPECT_TRUE(Values<float>(got[0]).empty());
    EXPECT_EQ(Values<float>(got[1]), (std::vector<float>{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(Values<float>(got[2]), (std::vector<float>(3, 7)));
    EXPECT_TRUE(Values<float>(got[3]).empty());
    EXPECT_EQ(Values<float>(got[4]), (std::vector<float>(6, 7)));
    EXPECT_EQ(Values<float>(got[5]), (std::vector<float>(9, 0)));
  }
}

TEST_P(ProgramTest, OnlyEmptyArrays) {
  auto got = Run("HloModule m\nENTRY main {\n  x = f32[0] parameter(0)\n  ROOT r = f32[0] exponential(x)\n}\n",
                 {MakeLiteral<float>("f32[0]", {})});
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].shape().byte_size(), 0);
}

TEST_P(ProgramTest, ScalarsOfManyTypes) {
  auto executable = Compile(R"(HloModule m
ENTRY main {
  a = f32[] parameter(0)
  b = s64[] parameter(1)
  c = u8[] parameter(2)
  d = pred[] parameter(3)
  e = f64[] parameter(4)
  f = s16[] parameter(5)
  ra = f32[] add(a, a)
  rb = s64[] multiply(b, b)
  rc = u8[] add(c, c)
  rd = pred[] not(d)
  re = f64[] divide(e, e)
  rf = s16[] negate(f)
  ROOT r = (f32[], s64[], u8[], pred[], f64[], s16[]) tuple(ra, rb, rc, rd, re, rf)
})");
  ASSERT_NE(executable, nullptr);
  std::vector<Literal> arguments;
  arguments.push_back(MakeLiteral<float>("f32[]", {1.5f}));
  arguments.push_back(MakeLiteral<int64_t>("s64[]", {int64_t{1} << 31}));
  arguments.push_back(MakeLiteral<uint8_t>("u8[]", {200}));
  arguments.push_back(MakeLiteral<uint8_t>("pred[]", {1}));
  arguments.push_back(MakeLiteral<double>("f64[]", {0.0}));
  arguments.push_back(MakeLiteral<int16_t>("s16[]", {INT16_MIN}));
  auto got = Run(*executable, arguments);
  ASSERT_EQ(got.size(), 6u);
  EXPECT_EQ(Values<float>(got[0])[0], 3.0f);
  EXPECT_EQ(Values<int64_t>(got[1])[0], int64_t{1} << 62);
  EXPECT_EQ(Values<uint8_t>(got[2])[0], 144);
  EXPECT_EQ(Values<uint8_t>(got[3])[0], 0);
  EXPECT_TRUE(std::isnan(Values<double>(got[4])[0]));
  EXPECT_EQ(Values<int16_t>(got[5])[0], INT16_MIN);
}

TEST_P(ProgramTest, TuplesAreFlattenedDepthFirst) {
  auto executable = Compile(R"(HloModule m
ENTRY main {
  p = (f32[2], (s32[], f32[1])) parameter(0)
  q = f32[2] parameter(1)
  a = f32[2] get-tuple-element(p), index=0
  inner = (s32[], f32[1]) get-tuple-element(p), index=1
  i = s32[] get-tuple-element(inner), index=0
  sum = f32[2] add(a, q)
  deep = (f32[2], s32[]) tuple(sum, i)
  ROOT r = ((s32[], f32[1]), f32[2], (f32[2], s32[]), f32[2]) tuple(inner, a, deep, a)
})");
  ASSERT_NE(executable, nullptr);
  ASSERT_EQ(executable->arguments().size(), 4u);
  ASSERT_EQ(executable->results().size(), 6u);
  std::vector<Literal> arguments;
  arguments.push_back(MakeLiteral<float>("f32[2]", {1, 2}));
  arguments.push_back(MakeLiteral<int32_t>("s32[]", {42}));
  arguments.push_back(MakeLiteral<float>("f32[1]", {9}));
  arguments.push_back(MakeLiteral<float>("f32[2]", {10, 20}));
  auto got = Run(*executable, arguments);
  ASSERT_EQ(got.size(), 6u);
  EXPECT_EQ(Values<int32_t>(got[0]), std::vector<int32_t>{42});
  EXPECT_EQ(Values<float>(got[1]), std::vector<float>{9});
  EXPECT_EQ(Values<float>(got[2]), (std::vector<float>{1, 2}));
  EXPECT_EQ(Values<float>(got[3]), (std::vector<float>{11, 22}));
  EXPECT_EQ(Values<int32_t>(got[4]), std::vector<int32_t>{42});
  EXPECT_EQ(Values<float>(got[5]), (std::vector<float>{1, 2}));
}

TEST_P(ProgramTest, NothingToCompute) {
  auto same = Run("HloModule m\nENTRY main {\n  ROOT x = s32[3] parameter(0)\n}\n",
                  {MakeLiteral<int32_t>("s32[3]", {1, 2, 3})});
  ASSERT_EQ(same.size(), 1u);
  EXPECT_EQ(Values<int32_t>(same[0]), (std::vector<int32_t>{1, 2, 3}));
  auto constant = Run("HloModule m\nENTRY main {\n  ROOT c = s32[3] constant({4, 5, 6})\n}\n", {});
  ASSERT_EQ(constant.size(), 1u);
  EXPECT_EQ(Values<int32_t>(constant[0]), (std::vector<int32_t>{4, 5, 6}));
  auto executable = Compile("HloModule m\nENTRY main {\n  x = s32[3] parameter(0)\n  ROOT r = () tuple()\n}\n");
  ASSERT_NE(executable, nullptr);
  auto none = executable->Run(std::vector<const Literal*>{&same[0]});
  ASSERT_TRUE(none.has_value()) << none.error().ToString();
  EXPECT_TRUE(none->empty());
}

// Formulas have the same bits on every device and however they are cut into kernels.
TEST_P(ProgramTest, ElementwiseBitsDoNotDependOnKernels) {
  const std::string_view text = R"(HloModule m
ENTRY main {
  x = f32[1031] parameter(0)
  y = f32[1031] parameter(1)
  a = f32[1031] tanh(x)
  b = f32[1031] exponential(a)
  c = f32[1031] multiply(b, y)
  d = f32[1031] add(c, x)
  e = f32[1031] logistic(d)
  f = f32[1031] sine(e)
  g = f32[1031] divide(f, y)
  h = f32[1031] abs(g)
  i = f32[1031] log-plus-one(h)
  j = f32[1031] rsqrt(h)
  k = f32[1031] power(h, y)
  ROOT r = (f32[1031], f32[1031], f32[1031]) tuple(i, j, k)
})";
  std::vector<float> x(1031), y(1031);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = (static_cast<float>((i * 7919) % 2063) - 1031) * 0.01f;
    y[i] = (static_cast<float>((i * 104729) % 1999) - 999) * 0.003f + 0.001f;
  }
  x[3] = 0.0f;
  x[4] = -0.0f;
  x[5] = std::nanf("");
  x[6] = INFINITY;
  x[7] = -INFINITY;
  y[8] = 0.0f;
  std::vector<Literal> arguments;
  arguments.push_back(MakeLiteral("f32[1031]", x));
  arguments.push_back(MakeLiteral("f32[1031]", y));
  auto reference_client = SharedClient("cpu");
  ASSERT_TRUE(reference_client.has_value());
  auto reference = CompileText(**reference_client, text, CompileOptions{.disabled = {"fusion"}, .enabled = {}});
  ASSERT_TRUE(reference.has_value()) << reference.error().ToString();
  auto expected = (*reference)->Run(Pointers(arguments));
  ASSERT_TRUE(expected.has_value());
  auto got = Run(text, arguments);
  ASSERT_EQ(got.size(), 3u);
  for (std::size_t r = 0; r < 3; ++r)
    for (std::size_t i = 0; i < 1031; ++i) {
      const float want = (*expected)[r].data<float>()[i], have = got[r].data<float>()[i];
      if (std::isnan(want) && std::isnan(have)) continue;
      EXPECT_EQ(std::bit_cast<uint32_t>(have), std::bit_cast<uint32_t>(want))
          << "result " << r << ", element " << i << ": " << have << ", not " << want;
    }
}

// 2^52 bytes and more: past every address space, so nothing here is ever allocated.
TEST_P(ProgramTest, HugeModulesAreRefused) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers end the process when an allocation is too large";
#endif
  // Results, temporaries, host kernels' scratch, arguments.
  const std::string_view texts[] = {
      R"(HloModule result
ENTRY main {
  ROOT r = s32[1125899906842624] iota(), iota_dimension=0
})",
      R"(HloModule temporary
lt { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = pred[] compare(a, b), direction=LT }
ENTRY main {
  x = s32[1125899906842624] iota(), iota_dimension=0
  y = s32[1125899906842624] sort(x), dimensions={0}, to_apply=lt
  ROOT r = s32[1] slice(y), slice={[5:6]}
})",
      R"(HloModule outer_product
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY main {
  c = f32[] constant(1)
  x = f32[67108864] iota(), iota_dimension=0
  d = f32[67108864,67108864] dot(x, x), lhs_contracting_dims={}, rhs_contracting_dims={}
  e = f32[67108864,67108864] dot(d, d), lhs_contracting_dims={0}, rhs_contracting_dims={1}
  ROOT r = f32[] reduce(e, c), dimensions={0,1}, to_apply=add
})",
      R"(HloModule transform
ENTRY main {
  c = c64[] constant((1, 0))
  b = c64[1125899906842624] broadcast(c), dimensions={}
  f = c64[1125899906842624] fft(b), fft_type=FFT, fft_length={1125899906842624}
  ROOT r = c64[1] slice(f), slice={[5:6]}
})",
  };
  for (std::string_view text : texts) {
    SCOPED_TRACE(text);
    auto executable = CompileText(*client_, text, options_);
    if (!executable) {
      EXPECT_EQ(executable.error().code(), StatusCode::kResourceExhausted) << executable.error().ToString();
      continue;
    }
    auto got = (*executable)->Run({});
    ASSERT_FALSE(got.has_value());
    EXPECT_EQ(got.error().code(), StatusCode::kResourceExhausted) << got.error().ToString();
  }

  auto argument = CompileText(*client_, R"(HloModule m
ENTRY main {
  x = f32[1125899906842624] parameter(0)
  ROOT r = f32[1125899906842624] add(x, x)
})",
                              options_);
  if (!argument) {
    EXPECT_EQ(argument.error().code(), StatusCode::kResourceExhausted) << argument.error().ToString();
    return;
  }
  const Literal small = MakeLiteral<float>("f32[1]", {1});
  auto got = (*argument)->Run(std::vector<const Literal*>{&small});
  ASSERT_FALSE(got.has_value());
  EXPECT_EQ(got.error().code(), StatusCode::kInvalidArgument) << got.error().ToString();
}

// XLA passes over padding: an initial value that is no identity takes part once, however much padding a window has.
TEST_P(ProgramTest, InitialValueOfAWindowTakesPartOnce) {
  auto executable = Compile(R"(HloModule m
add { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] add(a, b) }
multiply { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] multiply(a, b) }
ENTRY main {
  x = s32[1,4] parameter(0)
  n = s32[] parameter(1)
  ten = s32[] constant(10)
  few = s32[1,4] reduce-window(x, ten), window={size=1x3 pad=0_0x1_1}, to_apply=add
  holes = s32[1,7] reduce-window(x, n), window={size=1x1 lhs_dilate=1x2}, to_apply=add
  many = s32[1,4] reduce-window(x, n), window={size=1x200 pad=0_0x199_0}, to_apply=add
  product = s32[1,4] reduce-window(x, n), window={size=1x100 pad=0_0x99_0}, to_apply=multiply
  ROOT r = (s32[1,4], s32[1,7], s32[1,4], s32[1,4]) tuple(few, holes, many, product)
})");
  ASSERT_NE(executable, nullptr);
  std::vector<Literal> arguments;
  arguments.push_back(MakeLiteral<int32_t>("s32[1,4]", {1, 2, 3, 4}));
  arguments.push_back(MakeLiteral<int32_t>("s32[]", {5}));
  auto got = Run(*executable, arguments);
  ASSERT_EQ(got.size(), 4u);
  EXPECT_EQ(Values<int32_t>(got[0]), (std::vector<int32_t>{13, 16, 19, 17}));
  EXPECT_EQ(Values<int32_t>(got[1]), (std::vector<int32_t>{6, 5, 7, 5, 8, 5, 9}));
  EXPECT_EQ(Values<int32_t>(got[2]), (std::vector<int32_t>{6, 8, 11, 15}));
  EXPECT_EQ(Values<int32_t>(got[3]), (std::vector<int32_t>{5, 10, 30, 120}));
}

INSTANTIATE_TEST_SUITE_P(Devices, ProgramTest, ::testing::ValuesIn(DeviceCases()), CaseName);

}  // namespace
}  // namespace krafla::testing
