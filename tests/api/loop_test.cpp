// SPDX-License-Identifier: Apache-2.0
// Loops with little to do, which are one kernel on Vulkan, against plain loops of integers.
#include "api_fixture.h"

namespace krafla::testing {
namespace {

std::vector<DeviceCase> LoopCases() {
  std::vector<DeviceCase> out = DeviceCases();
  out.push_back({"vulkan_launched", "vulkan", {"loops"}});
  out.push_back({"vulkan_as_gpu", "vulkan", {"host_cores"}});
  return out;
}

class LoopTest : public DeviceTest {
 protected:
  bool IsLaunched() const { return options_.disabled.contains("loops"); }
  // A loop that is done in one kernel, or in launches of it, where it can be.
  void ExpectKernels(const Executable& executable, int count) const {
    if (GetParam().selector != "vulkan") return;
    EXPECT_EQ(executable.report().loop_kernels, IsLaunched() ? 0 : count);
  }
};

// Longer than a launch may take, so that several do it.
TEST_P(LoopTest, CountedLoopsAreCutInLaunches) {
  const int32_t turns = IsLaunched() ? 1000 : 3000000;
  auto executable = Compile(Format(R"(HloModule m
condition {{
  s = (s32[], u32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({})
  ROOT go = pred[] compare(i, n), direction=LT
}}
body {{
  s = (s32[], u32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = u32[] get-tuple-element(s), index=1
  a = u32[] constant(1664525)
  c = u32[] constant(1013904223)
  ax = u32[] multiply(a, x)
  next = u32[] add(ax, c)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (s32[], u32[]) tuple(j, next)
}}
ENTRY main {{
  x = u32[] parameter(0)
  zero = s32[] constant(0)
  init = (s32[], u32[]) tuple(zero, x)
  loop = (s32[], u32[]) while(init), condition=condition, body=body
  ROOT out = u32[] get-tuple-element(loop), index=1
}})",
                                   turns));
  ASSERT_NE(executable, nullptr);
  ExpectKernels(*executable, 1);
  std::vector<Literal> arguments;
  arguments.push_back(MakeLiteral<uint32_t>("u32[]", {7}));
  uint32_t x = 7;
  for (int32_t i = 0; i < turns; ++i) x = 1664525u * x + 1013904223u;
  auto got = Run(*executable, arguments);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(Values<uint32_t>(got[0]), std::vector<uint32_t>{x});
}

TEST_P(LoopTest, LoopsByConditionAreCutInLaunches) {
  auto executable = Compile(R"(HloModule m
condition {
  s = (s32[], s32[], s8[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  ROOT go = pred[] compare(i, n), direction=NE
}
body {
  s = (s32[], s32[], s8[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  x = s8[] get-tuple-element(s), index=2
  three = s8[] constant(3)
  five = s8[] constant(5)
  times = s8[] multiply(x, three)
  next = s8[] add(times, five)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (s32[], s32[], s8[]) tuple(j, n, next)
}
ENTRY main {
  n = s32[] parameter(0)
  x = s8[] parameter(1)
  zero = s32[] constant(0)
  init = (s32[], s32[], s8[]) tuple(zero, n, x)
  loop = (s32[], s32[], s8[]) while(init), condition=condition, body=body
  i = s32[] get-tuple-element(loop), index=0
  out = s8[] get-tuple-element(loop), index=2
  ROOT r = (s32[], s8[]) tuple(i, out)
})");
  ASSERT_NE(executable, nullptr);
  ExpectKernels(*executable, 1);
  for (int32_t turns : {0, 1, 7, IsLaunched() ? 100 : 700001}) {
    std::vector<Literal> arguments;
    arguments.push_back(MakeLiteral<int32_t>("s32[]", {turns}));
    arguments.push_back(MakeLiteral<int8_t>("s8[]", {-9}));
    int8_t x = -9;
    for (int32_t i = 0; i < turns; ++i) x = static_cast<int8_t>(static_cast<uint8_t>(x) * 3 + 5);
    auto got = Run(*executable, arguments);
    ASSERT_EQ(got.size(), 2u);
    EXPECT_EQ(Values<int32_t>(got[0]), std::vector<int32_t>{turns});
    EXPECT_EQ(Values<int8_t>(got[1]), std::vector<int8_t>{x}) << turns;
  }
}

// Each element reads what another invocation stored in the turn before, and in the same turn.
TEST_P(LoopTest, ElementsReadTheirNeighbours) {
  auto executable = Compile(R"(HloModule m
add { a = s32[] parameter(0) b = s32[] parameter(1) ROOT c = s32[] add(a, b) }
condition {
  s = (s32[], s32[300], s32[20,300]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(20)
  ROOT go = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], s32[300], s32[20,300]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = s32[300] get-tuple-element(s), index=1
  rows = s32[20,300] get-tuple-element(s), index=2
  head = s32[7] slice(x), slice={[0:7]}
  tail = s32[293] slice(x), slice={[7:300]}
  rolled = s32[300] concatenate(tail, head), dimensions={0}
  three = s32[] constant(3)
  threes = s32[300] broadcast(three), dimensions={}
  tripled = s32[300] multiply(rolled, threes)
  sum = s32[300] add(tripled, x)
  zero = s32[] constant(0)
  total = s32[] reduce(sum, zero), dimensions={0}, to_apply=add
  totals = s32[300] broadcast(total), dimensions={}
  next = s32[300] xor(sum, totals)
  row = s32[1,300] reshape(next)
  more = s32[20,300] dynamic-update-slice(rows, row, i, zero)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (s32[], s32[300], s32[20,300]) tuple(j, next, more)
}
ENTRY main {
  x = s32[300] parameter(0)
  zero = s32[] constant(0)
  rows = s32[20,300] broadcast(zero), dimensions={}
  init = (s32[], s32[300], s32[20,300]) tuple(zero, x, rows)
  loop = (s32[], s32[300], s32[20,300]) while(init), condition=condition, body=body
  ROOT out = s32[20,300] get-tuple-element(loop), index=2
})");
  ASSERT_NE(executable, nullptr);
  ExpectKernels(*executable, 1);
  std::vector<uint32_t> x(300);
  for (std::size_t i = 0; i < 300; ++i) x[i] = static_cast<uint32_t>(i * i + 3 * i);
  std::vector<Literal> arguments;
  arguments.push_back(MakeLiteral("s32[300]", std::vector<int32_t>(x.begin(), x.end())));
  std::vector<int32_t> want;
  for (int turn = 0; turn < 20; ++turn) {
    std::vector<uint32_t> sum(300);
    uint32_t total = 0;
    for (std::size_t i = 0; i < 300; ++i) total += sum[i] = 3 * x[(i + 7) % 300] + x[i];
    for (std::size_t i = 0; i < 300; ++i) x[i] = sum[i] ^ total;
    want.insert(want.end(), x.begin(), x.end());
  }
  auto got = Run(*executable, arguments);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(Values<int32_t>(got[0]), want);
}

// Branches by a value of the turn, a loop in one of them, a product, and complex numbers that are only carried.
TEST_P(LoopTest, BranchesLoopsAndProductsInside) {
  auto executable = Compile(R"(HloModule m
inner_condition {
  s = (s32[], s32[12,12], s32[12,12]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT go = pred[] compare(i, n), direction=LT
}
inner_body {
  s = (s32[], s32[12,12], s32[12,12]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = s32[12,12] get-tuple-element(s), index=1
  w = s32[12,12] get-tuple-element(s), index=2
  p = s32[12,12] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (s32[], s32[12,12], s32[12,12]) tuple(j, p, w)
}
products {
  a = (s32[12,12], s32[12,12]) parameter(0)
  x = s32[12,12] get-tuple-element(a), index=0
  w = s32[12,12] get-tuple-element(a), index=1
  zero = s32[] constant(0)
  init = (s32[], s32[12,12], s32[12,12]) tuple(zero, x, w)
  loop = (s32[], s32[12,12], s32[12,12]) while(init), condition=inner_condition, body=inner_body
  ROOT out = s32[12,12] get-tuple-element(loop), index=1
}
turned {
  a = (s32[12,12], s32[12,12]) parameter(0)
  x = s32[12,12] get-tuple-element(a), index=0
  ROOT t = s32[12,12] transpose(x), dimensions={1,0}
}
counted {
  a = (s32[12,12], s32[12,12]) parameter(0)
  x = s32[12,12] get-tuple-element(a), index=0
  w = s32[12,12] get-tuple-element(a), index=1
  ROOT s = s32[12,12] subtract(w, x)
}
condition {
  s = (s32[], s32[12,12], s32[12,12], c64[], c64[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(30)
  ROOT go = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], s32[12,12], s32[12,12], c64[], c64[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = s32[12,12] get-tuple-element(s), index=1
  w = s32[12,12] get-tuple-element(s), index=2
  c = c64[] get-tuple-element(s), index=3
  d = c64[] get-tuple-element(s), index=4
  four = s32[] constant(4)
  which = s32[] remainder(i, four)
  args = (s32[12,12], s32[12,12]) tuple(x, w)
  next = s32[12,12] conditional(which, args, args, args), branch_computations={products, turned, counted}
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (s32[], s32[12,12], s32[12,12], c64[], c64[]) tuple(j, next, w, d, c)
}
ENTRY main {
  x = s32[12,12] parameter(0)
  w = s32[12,12] parameter(1)
  c = c64[] constant((1, 2))
  d = c64[] constant((3, 4))
  zero = s32[] constant(0)
  init = (s32[], s32[12,12], s32[12,12], c64[], c64[]) tuple(zero, x, w, c, d)
  loop = (s32[], s32[12,12], s32[12,12], c64[], c64[]) while(init), condition=condition, body=body
  out = s32[12,12] get-tuple-element(loop), index=1
  e = c64[] get-tuple-element(loop), index=3
  re = f32[] real(e)
  ROOT r = (s32[12,12], f32[]) tuple(out, re)
})");
  ASSERT_NE(executable, nullptr);
  ExpectKernels(*executable, 1);
  constexpr std::size_t kSide = 12;
  std::vector<uint32_t> x(kSide * kSide), w(kSide * kSide);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<uint32_t>(i * 7 + 1), w[i] = static_cast<uint32_t>(i * i % 5);
  std::vector<Literal> arguments;
  arguments.push_back(MakeLiteral("s32[12,12]", std::vector<int32_t>(x.begin(), x.end())));
  arguments.push_back(MakeLiteral("s32[12,12]", std::vector<int32_t>(w.begin(), w.end())));
  for (int turn = 0; turn < 30; ++turn) {
    std::vector<uint32_t> next(x.size());
    const int which = std::min(turn % 4, 2);
    for (int product = 0; which == 0 && product < 3; ++product) {
      for (std::size_t i = 0; i < kSide; ++i)
        for (std::size_t j = 0; j < kSide; ++j) {
          next[i * kSide + j] = 0;
          for (std::size_t k = 0; k < kSide; ++k) next[i * kSide + j] += x[i * kSide + k] * w[k * kSide + j];
        }
      x = next;
    }
    for (std::size_t i = 0; i < kSide; ++i)
      for (std::size_t j = 0; j < kSide; ++j) {
        if (which == 1) next[i * kSide + j] = x[j * kSide + i];
        if (which == 2) next[i * kSide + j] = w[i * kSide + j] - x[i * kSide + j];
      }
    x = next;
  }
  auto got = Run(*executable, arguments);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(Values<int32_t>(got[0]), std::vector<int32_t>(x.begin(), x.end()));
  EXPECT_EQ(Values<float>(got[1]), std::vector<float>{1});
}

// The steps of 3 n + 1 from each number down to 1: how many there are nobody knows before. They are more than a launch
// takes, so that launches stop within the inner loops, of which one lies in a branch.
TEST_P(LoopTest, LoopsByConditionInsideGoOnWhereTheyStopped) {
  const int32_t turns = IsLaunched() ? 10 : 600;  // some 35,000 turns of the inner loops
  auto executable = Compile(Format(R"(HloModule m
inner_condition {{
  s = (s32[], s32[12]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  ROOT go = pred[] compare(n, one), direction=NE
}}
inner_body {{
  s = (s32[], s32[12]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  v = s32[12] get-tuple-element(s), index=1
  one = s32[] constant(1)
  two = s32[] constant(2)
  three = s32[] constant(3)
  zero = s32[] constant(0)
  half = s32[] divide(n, two)
  triple = s32[] multiply(n, three)
  up = s32[] add(triple, one)
  rest = s32[] remainder(n, two)
  even = pred[] compare(rest, zero), direction=EQ
  next = s32[] select(even, half, up)
  r = s32[12] reverse(v), dimensions={{0}}
  b = s32[12] broadcast(n), dimensions={{}}
  vr = s32[12] add(v, r)
  w = s32[12] subtract(b, vr)
  ROOT out = (s32[], s32[12]) tuple(next, w)
}}
walk {{
  a = (s32[], s32[12]) parameter(0)
  loop = (s32[], s32[12]) while(a), condition=inner_condition, body=inner_body
  ROOT v = s32[12] get-tuple-element(loop), index=1
}}
stay {{
  a = (s32[], s32[12]) parameter(0)
  ROOT v = s32[12] get-tuple-element(a), index=1
}}
condition {{
  s = (s32[], s32[12]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({})
  ROOT go = pred[] compare(i, n), direction=LT
}}
body {{
  s = (s32[], s32[12]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  v = s32[12] get-tuple-element(s), index=1
  one = s32[] constant(1)
  three = s32[] constant(3)
  j = s32[] add(i, one)
  first = (s32[], s32[12]) tuple(j, v)
  loop = (s32[], s32[12]) while(first), condition=inner_condition, body=inner_body
  x = s32[12] get-tuple-element(loop), index=1
  which = s32[] remainder(i, three)
  args = (s32[], s32[12]) tuple(j, x)
  y = s32[12] conditional(which, args, args), branch_computations={{walk, stay}}
  iota = s32[12] iota(), iota_dimension=0
  z = s32[12] add(y, iota)
  ROOT r = (s32[], s32[12]) tuple(j, z)
}}
ENTRY main {{
  v = s32[12] parameter(0)
  zero = s32[] constant(0)
  init = (s32[], s32[12]) tuple(zero, v)
  loop = (s32[], s32[12]) while(init), condition=condition, body=body
  ROOT out = s32[12] get-tuple-element(loop), index=1
}})",
                                   turns));
  ASSERT_NE(executable, nullptr);
  ExpectKernels(*executable, 1);
  std::vector<uint32_t> v(12);
  for (uint32_t i = 0; i < 12; ++i) v[i] = i * i;
  std::vector<Literal> arguments;
  arguments.push_back(MakeLiteral("s32[12]", std::vector<int32_t>(v.begin(), v.end())));
  const auto walk = [&](uint32_t n) {
    for (; n != 1; n = n % 2 == 0 ? n / 2 : 3 * n + 1) {
      const std::vector<uint32_t> before = v;
      for (std::size_t k = 0; k < 12; ++k) v[k] = n - before[k] - before[11 - k];
    }
  };
  for (uint32_t i = 0; i < static_cast<uint32_t>(turns); ++i) {
    walk(i + 1);
    if (i % 3 == 0) walk(i + 1);
    for (uint32_t k = 0; k < 12; ++k) v[k] += k;
  }
  // Each run begins anew, wherever the last one ended.
  for (int run = 0; run < 2; ++run) {
    auto got = Run(*executable, arguments);
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(Values<int32_t>(got[0]), std::vector<int32_t>(v.begin(), v.end()));
  }
}

// Updates that meet keep their order, which a product and a difference show.
TEST_P(LoopTest, ScattersInside) {
  auto executable = Compile(R"(HloModule m
combine {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  three = s32[] constant(3)
  t = s32[] multiply(a, three)
  ROOT r = s32[] subtract(t, b)
}
larger {
  a = s8[] parameter(0)
  b = s8[] parameter(1)
  ROOT r = s8[] maximum(a, b)
}
condition {
  s = (s32[], s32[6,20], s8[7]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(9)
  ROOT go = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], s32[6,20], s8[7]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  v = s32[6,20] get-tuple-element(s), index=1
  w = s8[7] get-tuple-element(s), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  k = s32[4] constant({0, 3, 0, 5})
  at = s32[4] broadcast(i), dimensions={}
  sum = s32[4] add(k, at)
  six = s32[] constant(6)
  sixes = s32[4] broadcast(six), dimensions={}
  rows = s32[4] remainder(sum, sixes)
  updates = s32[4,20] slice(v), slice={[1:5], [0:20]}
  x = s32[6,20] scatter(v, rows, updates), update_window_dims={1}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=combine
  few = s32[3] slice(rows), slice={[0:3]}
  i8 = s8[] convert(i)
  u = s8[3] broadcast(i8), dimensions={}
  y = s8[7] scatter(w, few, u), update_window_dims={}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=larger
  ROOT r = (s32[], s32[6,20], s8[7]) tuple(j, x, y)
}
ENTRY main {
  v = s32[6,20] parameter(0)
  w = s8[7] parameter(1)
  zero = s32[] constant(0)
  init = (s32[], s32[6,20], s8[7]) tuple(zero, v, w)
  loop = (s32[], s32[6,20], s8[7]) while(init), condition=condition, body=body
  x = s32[6,20] get-tuple-element(loop), index=1
  y = s8[7] get-tuple-element(loop), index=2
  ROOT r = (s32[6,20], s8[7]) tuple(x, y)
})");
  ASSERT_NE(executable, nullptr);
  ExpectKernels(*executable, 1);
  std::vector<uint32_t> v(6 * 20);
  std::vector<int8_t> w = {3, -1, 4, -1, 5, -9, 2};
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<uint32_t>(i * i % 11);
  std::vector<Literal> arguments;
  arguments.push_back(MakeLiteral("s32[6,20]", std::vector<int32_t>(v.begin(), v.end())));
  arguments.push_back(MakeLiteral("s8[7]", w));
  for (std::size_t turn = 0; turn < 9; ++turn) {
    const std::vector<uint32_t> before = v;
    const std::array<std::size_t, 4> rows = {turn % 6, (turn + 3) % 6, turn % 6, (turn + 5) % 6};
    for (std::size_t n = 0; n < 4; ++n)
      for (std::size_t c = 0; c < 20; ++c) v[rows[n] * 20 + c] = v[rows[n] * 20 + c] * 3 - before[(n + 1) * 20 + c];
    for (std::size_t n = 0; n < 3; ++n) w[rows[n]] = std::max(w[rows[n]], static_cast<int8_t>(turn));
  }
  auto got = Run(*executable, arguments);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(Values<int32_t>(got[0]), std::vector<int32_t>(v.begin(), v.end()));
  EXPECT_EQ(Values<int8_t>(got[1]), w);
}

// Small systems: b becomes x of A x = b by Cholesky factors, then of P M x = b by L U with the rows exchanged, so that
// both products give b back.
TEST_P(LoopTest, LinearAlgebraInside) {
  auto executable = Compile(R"(HloModule m
condition {
  s = (s32[], f32[5,3,2]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(4)
  ROOT go = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[5,3,2]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  b = f32[5,3,2] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  turn = f32[] convert(j)
  scale = f32[5,3,3] broadcast(turn), dimensions={}
  given = f32[5,3,3] constant({{{1,2,0},{4,1,3},{2,0,5}}, {{0,3,1},{2,2,2},{1,0,1}}, {{5,1,1},{1,7,2},{3,1,1}},
    {{1,1,0},{0,1,1},{8,0,1}}, {{2,0,9},{1,5,1},{0,6,1}}})
  m = f32[5,3,3] multiply(given, scale)
  mt = f32[5,3,3] transpose(m), dimensions={0,2,1}
  a = f32[5,3,3] dot(m, mt), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}
  l = f32[5,3,3] cholesky(a), lower=true
  y = f32[5,3,2] triangular-solve(l, b), left_side=true, lower=true, unit_diagonal=false, transpose_a=NO_TRANSPOSE
  x = f32[5,3,2] triangular-solve(l, y), left_side=true, lower=true, unit_diagonal=false, transpose_a=TRANSPOSE
  back = f32[5,3,2] dot(a, x), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}
  f = (f32[5,3,3], s32[5,3], s32[5,3]) custom-call(m), custom_call_target="LuDecomposition"
  lu = f32[5,3,3] get-tuple-element(f), index=0
  order = s32[5,3] get-tuple-element(f), index=2
  wanted = s32[5,3,3] broadcast(order), dimensions={0,1}
  column = s32[5,3,3] iota(), iota_dimension=2
  chosen = pred[5,3,3] compare(wanted, column), direction=EQ
  p = f32[5,3,3] convert(chosen)
  pb = f32[5,3,2] dot(p, back), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}
  u = f32[5,3,2] triangular-solve(lu, pb), left_side=true, lower=true, unit_diagonal=true, transpose_a=NO_TRANSPOSE
  z = f32[5,3,2] triangular-solve(lu, u), left_side=true, lower=false, unit_diagonal=false, transpose_a=NO_TRANSPOSE
  again = f32[5,3,2] dot(m, z), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}
  ROOT r = (s32[], f32[5,3,2]) tuple(j, again)
}
ENTRY main {
  b = f32[5,3,2] parameter(0)
  zero = s32[] constant(0)
  init = (s32[], f32[5,3,2]) tuple(zero, b)
  loop = (s32[], f32[5,3,2]) while(init), condition=condition, body=body
  ROOT x = f32[5,3,2] get-tuple-element(loop), index=1
})");
  ASSERT_NE(executable, nullptr);
  if (GetParam().name == "vulkan") ExpectKernels(*executable, 1);
  std::vector<float> b(30);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 7) - 2.5f;
  std::vector<Literal> arguments;
  arguments.push_back(MakeLiteral("f32[5,3,2]", b));
  auto got = Run(*executable, arguments);
  ASSERT_EQ(got.size(), 1u);
  const std::vector<float> values = Values<float>(got[0]);
  for (std::size_t i = 0; i < b.size(); ++i) EXPECT_NEAR(values[i], b[i], 2e-3) << i;
}

// A stop is seen between launches.
TEST_P(LoopTest, EndlessLoopsEndAtTheDeadline) {
  auto executable = Compile(R"(HloModule m
condition {
  s = (s32[], s32[]) parameter(0)
  n = s32[] get-tuple-element(s), index=1
  zero = s32[] constant(0)
  ROOT go = pred[] compare(n, zero), direction=NE
}
body {
  s = (s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  j = s32[] add(i, n)
  ROOT r = (s32[], s32[]) tuple(j, n)
}
ENTRY main {
  n = s32[] parameter(0)
  zero = s32[] constant(0)
  init = (s32[], s32[]) tuple(zero, n)
  loop = (s32[], s32[]) while(init), condition=condition, body=body
  ROOT out = s32[] get-tuple-element(loop), index=0
})");
  ASSERT_NE(executable, nullptr);
  std::vector<Literal> arguments;
  arguments.push_back(MakeLiteral<int32_t>("s32[]", {1}));
  RunLimit limit;
  limit.deadline = RunLimit::Clock::now() + std::chrono::milliseconds(100);
  auto out = executable->Run(Pointers(arguments), limit);
  ASSERT_FALSE(out.has_value());
  EXPECT_EQ(out.error().code(), StatusCode::kDeadlineExceeded) << out.error().ToString();
  // And the device goes on.
  arguments[0] = MakeLiteral<int32_t>("s32[]", {0});
  auto got = Run(*executable, arguments);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(Values<int32_t>(got[0]), std::vector<int32_t>{0});
}

INSTANTIATE_TEST_SUITE_P(Devices, LoopTest, ::testing::ValuesIn(LoopCases()), CaseName);

}  // namespace
}  // namespace krafla::testing
