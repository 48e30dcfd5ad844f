// SPDX-License-Identifier: Apache-2.0
// Loops as native code: the bits of what interprets them, an end where the run is to end, and kernels that have no
// lanes.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <string>

#include "cpu_fallback/executor/kernel_families.h"
#include "cpu_fallback/executor/routine_block.h"
#include "program_fixture.h"

namespace krafla {
namespace {

using cpu::native::NativeUse;

// A loop of `turns` turns whose body has the state `s` of `type`, and index i, and ends in `next`.
std::string Counted(int turns, const std::string& type, const std::string& body, const std::string& more = "") {
  return "HloModule m\n" + more + R"(
body {
  p = (s32[], )" +
         type + R"() parameter(0)
  i = s32[] get-tuple-element(p), index=0
  s = )" +
         type + R"( get-tuple-element(p), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
)" + body +
         R"(
  ROOT r = (s32[], )" +
         type + R"() tuple(j, next)
}
test {
  p = (s32[], )" +
         type + R"() parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant()" +
         std::to_string(turns) + R"()
  ROOT c = pred[] compare(i, n), direction=LT
}
ENTRY e {
  x = )" +
         type + R"( parameter(0)
  zero = s32[] constant(0)
  t = (s32[], )" +
         type + R"() tuple(zero, x)
  w = (s32[], )" +
         type + R"() while(t), condition=test, body=body
  ROOT out = )" +
         type + R"( get-tuple-element(w), index=1
}
)";
}

TEST(Routine, LanesOfEveryLength) {
  for (int n : {1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 33, 64, 100, 257, 640, 1000, 1024, 1500, 2048, 2049}) {
    const std::string type = "f32[" + std::to_string(n) + "]";
    ExpectSameBits(Counted(9, type,
                           "  a = " + type + " sine(s)\n  k = f32[] constant(1.01)\n  b = " + type +
                               " broadcast(k), dimensions={}\n  next = " + type + " multiply(a, b)\n"));
  }
}

// A state of tens of vectors, whose rows are summed in each turn. Short rows of floats are summed in another order
// where there is no native code (UnrolledReduction), so these are integers.
TEST(Routine, StatesOfManyVectors) {
  for (const char* shape : {"[64,8]", "[100,10]", "[37,16]", "[8,128]", "[20,40]", "[40,50]"})
    for (const char* t : {"f32", "s32"}) {
      if (t[0] == 'f' && shape[1] != '8' && shape[1] != '2') continue;
      const std::string type = std::string(t) + shape, rows = type.substr(0, type.find(',')) + "]";
      const std::string add = std::string("add { a = ") + t + "[] parameter(0)\n  b = " + t +
                              "[] parameter(1)\n  ROOT c = " + t + "[] add(a, b) }\n";
      ExpectSameBits(Counted(7, type,
                             "  k = " + std::string(t) + "[] constant(" + (t[0] == 'f' ? "0.9" : "3") +
                                 ")\n  ks = " + type + " broadcast(k), dimensions={}\n  a = " + type +
                                 " multiply(s, ks)\n  z = " + t + "[] constant(1)\n  u = " + rows +
                                 " reduce(a, z), dimensions={1}, to_apply=add\n  us = " + type +
                                 " broadcast(u), dimensions={0}\n  next = " + type + " subtract(a, us)\n",
                             add));
    }
}

// Several turns of a short loop are one block: as many as are left over, values that go round, an element that is
// written and read again by its number before the vector that it is part of is stored anew.
TEST(Routine, TurnsOfEveryNumber) {
  for (int turns : {2, 3, 7, 8, 9, 16, 17, 23, 40, 121}) {
    ExpectSameBits(Counted(turns, "f32[]", R"(
  k = f32[] constant(0.75)
  a = f32[] multiply(s, k)
  x = f32[] convert(i)
  next = f32[] add(a, x)
)"));
    ExpectSameBits(Counted(turns, "s32[3]", R"(
  a = s32[1] slice(s), slice={[2:3]}
  b = s32[2] slice(s), slice={[0:2]}
  js = s32[1] broadcast(j), dimensions={}
  c = s32[1] add(a, js)
  next = s32[3] concatenate(c, b), dimensions={0}
)"));
    ExpectSameBits(Counted(turns, "f32[8]", R"(
  last = s32[] constant(7)
  at = s32[] and(i, last)
  a = f32[1] dynamic-slice(s, at), dynamic_slice_sizes={1}
  b = f32[1] add(a, a)
  u = f32[8] dynamic-update-slice(s, b, at)
  k = f32[] constant(0.5)
  ks = f32[8] broadcast(k), dimensions={}
  next = f32[8] multiply(u, ks)
)"));
  }
}

// A place's own number: also where what is left for the last vector is one element.
// Neighbours on a torus: edges are columns of the array, which are stored lane by lane, and corners.
TEST(Routine, NeighboursOnATorus) {
  for (const auto& [rows, columns] : {std::pair(3, 5), {8, 8}, {16, 16}, {7, 20}, {20, 3}, {40, 40}}) {
    const std::string r = std::to_string(rows), c = std::to_string(columns), r1 = std::to_string(rows - 1),
                      c1 = std::to_string(columns - 1);
    for (const std::string name : {"f32", "u8", "s32", "bf16", "f64"}) {
      const std::string type = name + "[" + r + "," + c + "]";
      ExpectSameBits(Counted(12, type,
                             "  up0 = " + name + "[1," + c + "] slice(s), slice={[0:1], [0:" + c + "]}\n" +  //
                                 "  up1 = " + name + "[" + r1 + "," + c + "] slice(s), slice={[1:" + r + "], [0:" + c +
                                 "]}\n  up = " + type + " concatenate(up1, up0), dimensions={0}\n" +             //
                                 "  le0 = " + name + "[" + r + ",1] slice(s), slice={[0:" + r + "], [0:1]}\n" +  //
                                 "  le1 = " + name + "[" + r + "," + c1 + "] slice(s), slice={[0:" + r + "], [1:" + c +
                                 "]}\n  le = " + type + " concatenate(le1, le0), dimensions={1}\n" +  //
                                 "  ri0 = " + name + "[" + r + ",1] slice(s), slice={[0:" + r + "], [" + c1 + ":" + c +
                                 "]}\n  ri1 = " + name + "[" + r + "," + c1 + "] slice(s), slice={[0:" + r +
                                 "], [0:" + c1 + "]}\n  ri = " + type + " concatenate(ri0, ri1), dimensions={1}\n" +  //
                                 "  a = " + type + " add(up, le)\n  b = " + type + " subtract(a, ri)\n" +
                                 "  next = " + type + " maximum(b, s)\n"));
    }
  }
}

TEST(Routine, NumbersOfPlaces) {
  for (int n : {1, 2, 15, 16, 17, 31, 33, 49}) {
    const std::string type = "f32[" + std::to_string(n) + "]";
    ExpectSameBits(Counted(9, type, "  a = " + type + " iota(), iota_dimension=0\n  next = " + type + " add(a, s)\n"));
    ExpectSameBits(Counted(9, "f32[3," + std::to_string(n) + "]",
                           "  a = f32[3," + std::to_string(n) + "] iota(), iota_dimension=0\n  b = f32[3," +
                               std::to_string(n) + "] iota(), iota_dimension=1\n  c = f32[3," + std::to_string(n) +
                               "] add(a, b)\n  next = f32[3," + std::to_string(n) + "] add(c, s)\n"));
  }
}

TEST(Routine, TypesOfEveryWidth) {
  for (const char* t : {"s8", "u16", "s32", "u64", "f64", "bf16"}) {
    const std::string type = std::string(t) + "[6]";
    ExpectSameBits(Counted(20, type,
                           "  a = " + type + " add(s, s)\n  b = " + type +
                               " multiply(a, s)\n  c = pred[6] compare(b, s), direction=GT\n"
                               "  d = " +
                               type + " subtract(b, s)\n  next = " + type + " select(c, d, a)\n"));
  }
}

// What one kernel stores by element another one loads as a vector, and the other way around.
TEST(Routine, PartsOfVectorsStayInRegisters) {
  ExpectSameBits(Counted(50, "f32[2]", R"(
  a = f32[1] slice(s), slice={[1:2]}
  b = f32[1] slice(s), slice={[0:1]}
  c = f32[1] sine(b)
  d = f32[1] negate(c)
  e = f32[2] concatenate(a, d), dimensions={0}
  h = f32[] constant(0.01)
  hs = f32[2] broadcast(h), dimensions={}
  f = f32[2] multiply(e, hs)
  next = f32[2] add(s, f)
)"));
  ExpectSameBits(Counted(7, "f64[4]", R"(
  a = f64[4] reverse(s), dimensions={0}
  b = f64[2,2] reshape(a)
  c = f64[2,2] transpose(b), dimensions={1,0}
  d = f64[4] reshape(c)
  k = f64[] constant(0.5)
  ks = f64[4] broadcast(k), dimensions={}
  f = f64[4] multiply(d, ks)
  next = f64[4] add(f, s)
)"));
}

// Differences of all pairs of points, over three dimensions: a tile for each of the first, lanes from two places of the
// state, whose numbers lie in one vector or in several, and sums whose lanes come from several.
std::string Pairs(const std::string& name, int points, int sides, bool is_turned) {
  const std::string n = std::to_string(points), d = std::to_string(sides), state = name + "[" + n + "," + d + "]",
                    turned = name + "[" + d + "," + n + "]", pairs = name + "[" + n + "," + n + "," + d + "]";
  const std::string source =
      is_turned ? "  t = " + turned + " reshape(s)\n  u = " + state + " transpose(t), dimensions={1,0}\n"
                : "  u = " + state + " copy(s)\n";
  return Counted(6, state,
                 source + "  a = " + pairs + " broadcast(u), dimensions={1,2}\n  b = " + pairs +
                     " broadcast(u), dimensions={0,2}\n  c = " + pairs + " subtract(a, b)\n  m = " + pairs +
                     " maximum(c, a)\n  z = " + name + "[] constant(1)\n  f = " + state +
                     " reduce(m, z), dimensions={1}, to_apply=sum\n  next = " + state + " add(f, u)\n",
                 "sum { x = " + name + "[] parameter(0)\n  y = " + name + "[] parameter(1)\n  ROOT c = " + name +
                     "[] add(x, y) }\n");
}
TEST(Routine, PairsOfPoints) {
  for (const std::string name : {"f32", "f64", "s32", "u8", "s16", "bf16"})
    for (const auto& [points, sides] : {std::pair(3, 3), {2, 2}, {4, 2}, {5, 3}, {6, 2}, {3, 5}, {8, 2}, {4, 4}})
      for (bool is_turned : {false, true}) {
        SCOPED_TRACE(Format("{} of {}, {}", points, name, sides));
        ExpectSameBits(Pairs(name, points, sides, is_turned));
      }
}
TEST(Routine, LoopsOfSeveralTilesHaveLanes) {
  if (!cpu::native::HasNativeCode()) GTEST_SKIP() << "no native code in this build or on this processor";
  auto executable = CompileFor(NativeUse::kAlways, R"(HloModule m
ENTRY e {
  x = f32[3,4] parameter(0)
  a = f32[3,3,4] broadcast(x), dimensions={1,2}
  b = f32[3,3,4] broadcast(x), dimensions={0,2}
  ROOT c = f32[3,3,4] subtract(a, b)
})");
  ASSERT_TRUE(executable) << executable.error().ToString();
  const plan::ProgramPlan& plan = (*executable)->plan();
  const auto* launch = std::get_if<plan::LaunchStep>(&plan.steps.steps.at(0));
  ASSERT_TRUE(launch != nullptr);
  const auto* loop = std::get_if<plan::LoopKernel>(&plan.kernels.at(static_cast<std::size_t>(launch->kernel)).body);
  ASSERT_TRUE(loop != nullptr);
  EXPECT_EQ(loop->program.space.dims().size(), 3u);
  auto runner = cpu::LoopRunner::Make(loop->program);
  ASSERT_TRUE(runner) << runner.error().ToString();
  cpu::RoutinePlaces places(plan);
  cpu::RoutineBlock block(places);
  const auto is_added = runner->AppendTo(block, launch->bindings);
  ASSERT_TRUE(is_added) << is_added.error().ToString();
  EXPECT_TRUE(*is_added);
}

// What a kernel leaves in registers is copied as it was stored: 15 numbers of 8 bytes are more than a vector.
TEST(Routine, CopiesOfEveryLength) {
  for (const char* element : {"f64", "f32", "u16", "s8"}) {
    for (int n : {1, 3, 8, 9, 15, 16, 17, 31, 64}) {
      const std::string type = std::string(element) + "[" + std::to_string(n) + "]",
                        state = "(s32[], " + type + ", " + type + ")";
      ExpectSameBits("HloModule m\nbody {\n  p = " + state + R"( parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  a = )" + type + R"( get-tuple-element(p), index=1
  b = )" + type + R"( get-tuple-element(p), index=2
  c = )" + type + R"( add(a, b)
  ROOT r = )" + state +
                     R"( tuple(j, c, c)
}
test {
  p = )" + state + R"( parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(6)
  ROOT c = pred[] compare(i, n), direction=LT
}
ENTRY e {
  x = )" + type + R"( parameter(0)
  y = )" + type + R"( parameter(1)
  zero = s32[] constant(0)
  t = )" + state + R"( tuple(zero, x, y)
  ROOT w = )" + state +
                     R"( while(t), condition=test, body=body
}
)");
    }
  }
}

TEST(Routine, PlacesThatAreComputed) {
  ExpectSameBits(Counted(40, "f32[40]", R"(
  before = s32[] subtract(i, one)
  a = f32[1] dynamic-slice(s, before), dynamic_slice_sizes={1}
  b = f32[1] dynamic-slice(s, i), dynamic_slice_sizes={1}
  c = f32[1] multiply(a, a)
  d = f32[1] add(c, b)
  three = s32[] constant(37)
  at = s32[] minimum(j, three)
  row = f32[3] dynamic-slice(s, at), dynamic_slice_sizes={3}
  t = f32[3] tanh(row)
  u = f32[40] dynamic-update-slice(s, d, i)
  next = f32[40] dynamic-update-slice(u, t, at)
)"));
}

// Loads from one computed place are one, until something may have been stored there.
TEST(Routine, PlacesThatAreComputedAgain) {
  ExpectSameBits(Counted(40, "f32[40]", R"(
  before = s32[] subtract(i, one)
  a = f32[1] dynamic-slice(s, before), dynamic_slice_sizes={1}
  b = f32[1] exponential(a)
  c = f32[1] negate(b)
  u = f32[40] dynamic-update-slice(s, c, i)
  d = f32[1] dynamic-slice(u, before), dynamic_slice_sizes={1}
  e = f32[1] dynamic-slice(u, i), dynamic_slice_sizes={1}
  f = f32[1] subtract(d, e)
  v = f32[40] dynamic-update-slice(u, f, before)
  g = f32[1] dynamic-slice(v, before), dynamic_slice_sizes={1}
  h = f32[1] add(g, b)
  next = f32[40] dynamic-update-slice(v, h, j)
)"));
  if (!cpu::native::HasNativeCode()) GTEST_SKIP() << "no native code in this build or on this processor";
  plan::ProgramPlan plan;
  plan.allocations = {{.kind = plan::Allocation::Kind::kArena, .size = 1024},
                      {.kind = plan::Allocation::Kind::kArena, .offset = 1024, .size = 256}};
  cpu::RoutinePlaces places(plan);
  cpu::RoutineBlock block(places);
  const plan::Slice array{0, 0, 1024}, other{1, 0, 256};
  const auto at = block.Load({.buffer = other}, ElementType::kS32);
  ASSERT_TRUE(at);
  const cpu::RoutineAccess computed{.buffer = array, .offset = 8, .terms = {{at->node, 4}}};
  const auto load = [&] { return block.Load(computed, ElementType::kF32)->node; };
  const int first = load();
  EXPECT_EQ(load(), first);
  block.Add({{.buffer = other, .offset = 64}, {first}});
  EXPECT_EQ(load(), first) << "what was stored lies elsewhere";
  block.Add({{.buffer = array, .offset = 64}, {first}});
  EXPECT_NE(load(), first);
}

TEST(Routine, LoopsInLoopsAndBranches) {
  const std::string more = R"(
inner_body {
  q = (s32[], f32[3]) parameter(0)
  k = s32[] get-tuple-element(q), index=0
  v = f32[3] get-tuple-element(q), index=1
  one = s32[] constant(1)
  l = s32[] add(k, one)
  f = f32[] constant(0.75)
  fs = f32[3] broadcast(f), dimensions={}
  g = f32[3] multiply(v, fs)
  ROOT r = (s32[], f32[3]) tuple(l, g)
}
inner_test {
  q = (s32[], f32[3]) parameter(0)
  k = s32[] get-tuple-element(q), index=0
  v = f32[3] get-tuple-element(q), index=1
  first = f32[1] slice(v), slice={[0:1]}
  x = f32[] reshape(first)
  limit = f32[] constant(0.05)
  is_large = pred[] compare(x, limit), direction=GT
  most = s32[] constant(5)
  is_early = pred[] compare(k, most), direction=LT
  ROOT c = pred[] and(is_large, is_early)
}
up {
  v = f32[3] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[3]) tuple(zero, v)
  w = (s32[], f32[3]) while(t), condition=inner_test, body=inner_body
  ROOT r = f32[3] get-tuple-element(w), index=1
}
over { v = f32[3] parameter(0)  ROOT r = f32[3] exponential(v) }
down { v = f32[3] parameter(0)  ROOT r = f32[3] negate(v) }
same { v = f32[3] parameter(0)  ROOT r = f32[3] sine(v) }
)";
  ExpectSameBits(Counted(12, "f32[3]", R"(
  zero = s32[] constant(0)
  t = (s32[], f32[3]) tuple(zero, s)
  w = (s32[], f32[3]) while(t), condition=inner_test, body=inner_body
  v = f32[3] get-tuple-element(w), index=1
  five = s32[] constant(5)
  which = s32[] remainder(i, five)
  a = f32[3] conditional(which, v, v, v), branch_computations={over, down, same}
  b = f32[3] conditional(which, a, a, a), branch_computations={down, same, up}
  three = s32[] constant(3)
  is_early = pred[] compare(which, three), direction=LT
  c = f32[3] conditional(is_early, b, b), true_computation=same, false_computation=over
  next = f32[3] conditional(is_early, c, c), true_computation=up, false_computation=same
)",
                         more));
}

// A sort has no lanes.
TEST(Routine, CallsWhatItDoesNotDo) {
  ExpectSameBits(Counted(
      6, "f32[20]", R"(
  a = f32[20] sine(s)
  b = f32[20] sort(a), dimensions={0}, to_apply=less
  k = f32[20] reverse(b), dimensions={0}
  next = f32[20] add(k, s)
)",
      "less { x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  ROOT c = pred[] compare(x, y), direction=LT }\n"));
}

// The product of two vectors is part of a turn: nothing is called. (Whole numbers and quarters, so that sums are the
// same in every order.)
TEST(Routine, ProductsOfVectors) {
  for (int n : {9, 16, 33, 40}) {
    const std::string type = "f32[" + std::to_string(n) + "]";
    const int64_t calls = cpu::native::CountsOfNativeCode().calls;
    ExpectSameBits(Counted(40, type,
                           "  d = f32[] dot(s, s), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
                           "  two = f32[] constant(2)\n  least = f32[] minimum(d, two)\n  all = " +
                               type + " broadcast(least), dimensions={}\n  next = " + type + " maximum(s, all)\n"));
    EXPECT_EQ(cpu::native::CountsOfNativeCode().calls, calls) << n;
  }
}

// What follows a product has lanes, over sums that the product leaves in memory of the tape: of one product and of two,
// of which each reads what is stored to.
TEST(Routine, LanesBehindProducts) {
  for (int n : {5, 16, 33, 64, 100}) {
    const std::string size = std::to_string(n), type = "f32[" + size + "]", square = "f32[" + size + "," + size + "]";
    const std::string matrix =
        "  i0 = f32[] convert(i)\n  is = " + square + " broadcast(i0), dimensions={}\n  at = " + square +
        " iota(), iota_dimension=0\n  to = " + square + " iota(), iota_dimension=1\n  far = " + square +
        " subtract(at, to)\n  w0 = " + square + " add(far, is)\n  w = " + square + " sine(w0)\n";
    const auto product = [&](const std::string& name, const std::string& operands, int lhs, int rhs) {
      return "  " + name + " = " + type + " dot(" + operands + "), lhs_contracting_dims={" + std::to_string(lhs) +
             "}, rhs_contracting_dims={" + std::to_string(rhs) + "}\n";
    };
    ExpectSameBits(
        Counted(5, type,
                matrix + product("a", "w, s", 1, 0) + "  b = " + type + " tanh(a)\n  next = " + type + " add(b, s)\n"));
    ExpectSameBits(Counted(5, type,
                           matrix + product("a", "s, w", 0, 0) + "  b = " + type + " sine(a)\n  c = " + type +
                               " multiply(b, s)\n" + product("d", "w, c", 1, 0) + "  next = " + type +
                               " subtract(b, d)\n"));
  }
}

// A routine that calls nothing for it.
void ExpectFolded(const std::string& text) {
  const int64_t calls = cpu::native::CountsOfNativeCode().calls;
  ExpectSameBits(text);
  EXPECT_EQ(cpu::native::CountsOfNativeCode().calls, calls);
}

// A loop whose turn reduces what it computes of the state, an array of `dims`, over dimensions `over`. That leaves
// `rows`, which are dimensions `kept`, and each element gets what its row came to.
std::string Reduced(const std::string& type, const std::string& op, const std::string& dims, const std::string& over,
                    const std::string& rows, const std::string& kept) {
  const std::string array = type + "[" + dims + "]", one = type + "[]";
  const bool is_float = type.contains('f');
  return Counted(3, array,
                 "  k = " + one + " constant(" + (is_float ? "0.7" : "3") + ")\n  ks = " + array +
                     " broadcast(k), dimensions={}\n" + "  t = " + array + (is_float ? " divide" : " multiply") +
                     "(s, ks)\n  start = " + one + " constant(1)\n" + "  sum = " + type + "[" + rows +
                     "] reduce(t, start), dimensions={" + over + "}, to_apply=f\n" + "  all = " + array +
                     " broadcast(sum), dimensions={" + kept + "}\n  next = " + array + " subtract(all, s)\n",
                 "f {\n  x = " + one + " parameter(0)\n  y = " + one + " parameter(1)\n  ROOT r = " + one + " " + op +
                     "(x, y)\n}\n");
}

// Rows of every length, and what kernels/reduce_ops.h does with them: vectors, the rest of one, four sums at once.
TEST(Routine, FoldsInTheOrderOfKernels) {
  for (int n : {17, 20, 31, 32, 33, 47, 48, 63, 64, 100, 127, 128, 200, 255, 256}) {
    SCOPED_TRACE(n);
    for (const char* type : {"f32", "f64"})
      for (const char* op : {"add", "multiply", "maximum"})
        ExpectFolded(Reduced(type, op, std::to_string(n), "0", "", ""));
  }
}

TEST(Routine, FoldsRowsAndColumns) {
  for (const char* type : {"f32", "f64", "bf16", "s32", "s8", "u64"}) {
    SCOPED_TRACE(type);
    for (const char* op : {"add", "minimum", "maximum"}) {
      ExpectFolded(Reduced(type, op, "5,40", "1", "5", "0"));
      ExpectFolded(Reduced(type, op, "40,5", "0", "5", "1"));
      ExpectFolded(Reduced(type, op, "20,12", "0", "12", "1"));
      ExpectFolded(Reduced(type, op, "8,3,10", "0,1", "10", "2"));
      ExpectFolded(Reduced(type, op, "6,3,7", "0,1", "7", "2"));
      ExpectSameBits(Reduced(type, op, "3,18,4", "1", "3,4", "0,2"));
    }
  }
}

TEST(Routine, FoldsPredicates) {
  for (const char* op : {"and", "or"}) {
    const std::string combiner =
        std::string("f {\n  x = pred[] parameter(0)\n  y = pred[] parameter(1)\n  ROOT r = pred[] ") + op +
        "(x, y)\n}\n";
    for (const auto& [over, rows, kept] :
         {std::array<std::string, 3>{"0,1", "", ""}, {"1", "10", "0"}, {"0", "20", "1"}}) {
      ExpectFolded(
          Counted(4, "s32[10,20]",
                  "  js = s32[10,20] broadcast(j), dimensions={}\n  forty = s32[] constant(40)\n"
                  "  forties = s32[10,20] broadcast(forty), dimensions={}\n  limit = s32[10,20] multiply(js, forties)\n"
                  "  t = pred[10,20] compare(s, limit), direction=GT\n  start = pred[] constant(" +
                      std::string(op[0] == 'a' ? "true" : "false") +
                      ")\n"
                      "  sum = pred[" +
                      rows + "] reduce(t, start), dimensions={" + over +
                      "}, to_apply=f\n  all = pred[10,20] broadcast(sum), dimensions={" + kept +
                      "}\n"
                      "  more = s32[10,20] add(s, js)\n  next = s32[10,20] select(all, more, s)\n",
                  combiner));
    }
  }
}

// A kernel that is too little work for native code of its own is not where a loop runs it many times.
TEST(Routine, TurnsMakeUpForCompilations) {
  if (!cpu::native::HasNativeCode()) GTEST_SKIP() << "no native code in this build or on this processor";
  const auto made = [](int turns) {
    const auto count = [] {
      return cpu::native::CountsOfNativeCode().compiled + cpu::native::CountsOfNativeCode().shared;
    };
    const int64_t before = count();
    auto executable =
        CompileFor(NativeUse::kWorthwhile,
                   Counted(turns, "f32[400]", "  a = f32[400] multiply(s, s)\n  next = f32[400] add(a, s)\n"));
    EXPECT_TRUE(executable);
    return count() - before;
  };
  EXPECT_EQ(made(2), 0);
  EXPECT_GE(made(1000), 1);
}

// An endless loop of a few nanoseconds a turn ends at the deadline.
TEST(Routine, EndsWhereTheRunIsToEnd) {
  using namespace std::chrono_literals;
  const std::string text = R"(HloModule m
body {
  s = f32[4] parameter(0)
  ROOT n = f32[4] negate(s)
}
test {
  s = f32[4] parameter(0)
  a = f32[1] slice(s), slice={[0:1]}
  x = f32[] reshape(a)
  ROOT c = pred[] compare(x, x), direction=EQ
}
ENTRY e {
  x = f32[4] parameter(0)
  ROOT w = f32[4] while(x), condition=test, body=body
}
)";
  auto executable = CompileFor(NativeUse::kAlways, text);
  ASSERT_TRUE(executable) << executable.error().ToString();
  Result<> status;
  Results(**executable, {.deadline = RunLimit::Clock::now() + 10ms}, status);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), StatusCode::kDeadlineExceeded);
  std::stop_source stop;
  stop.request_stop();
  Results(**executable, {.stop = stop.get_token()}, status);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), StatusCode::kCancelled);
}

}  // namespace
}  // namespace krafla
