// SPDX-License-Identifier: Apache-2.0
// What a loop stores for the loop of its gradients, and what loops are given that is made of indices.
#include "pass_harness.h"

namespace krafla {
namespace {

// A loop over three layers that stores keys, exponentials of scores and their sums, and one that reads them from the
// last to the first. `forward` and `backward`: instructions of the bodies; the rows that are stored are `k`, `e` and
// `l`, those that are read `key`, `exponential` and `sum`, at `at`.
std::string Layers(int64_t n, std::string_view forward, std::string_view turns = "3") {
  return Format(R"(HloModule layers
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }}
forward {{
  s = (s32[], f32[{0},8], f32[3,{0},8], f32[3,{0},{0}], f32[3,{0}], pred[{0},{0}]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[{0},8] get-tuple-element(s), index=1
  ks = f32[3,{0},8] get-tuple-element(s), index=2
  es = f32[3,{0},{0}] get-tuple-element(s), index=3
  ls = f32[3,{0}] get-tuple-element(s), index=4
  mask = pred[{0},{0}] get-tuple-element(s), index=5
  zero = s32[] constant(0)
  one = s32[] constant(1)
  none = f32[] constant(0)
  nones = f32[{0},{0}] broadcast(none), dimensions={{}}
  next = s32[] add(i, one)
  {1}
  l = f32[{0}] reduce(e, none), dimensions={{1}}, to_apply=add
  y = f32[{0},8] dot(e, k), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  k1 = f32[1,{0},8] reshape(k)
  e1 = f32[1,{0},{0}] reshape(e)
  l1 = f32[1,{0}] reshape(l)
  ks1 = f32[3,{0},8] dynamic-update-slice(ks, k1, i, zero, zero)
  es1 = f32[3,{0},{0}] dynamic-update-slice(es, e1, i, zero, zero)
  ls1 = f32[3,{0}] dynamic-update-slice(ls, l1, i, zero)
  ROOT t = (s32[], f32[{0},8], f32[3,{0},8], f32[3,{0},{0}], f32[3,{0}], pred[{0},{0}]) tuple(next, y, ks1, es1, ls1, mask)
}}
goes_on {{
  s = (s32[], f32[{0},8], f32[3,{0},8], f32[3,{0},{0}], f32[3,{0}], pred[{0},{0}]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({2})
  ROOT c = pred[] compare(i, n), direction=LT
}}
backward {{
  s = (s32[], f32[{0},8], f32[3,{0},{0}], f32[3,{0}]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[{0},8] get-tuple-element(s), index=1
  es = f32[3,{0},{0}] get-tuple-element(s), index=2
  ls = f32[3,{0}] get-tuple-element(s), index=3
  zero = s32[] constant(0)
  one = s32[] constant(1)
  last = s32[] constant(2)
  at = s32[] subtract(last, i)
  next = s32[] add(i, one)
  e1 = f32[1,{0},{0}] dynamic-slice(es, at, zero, zero), dynamic_slice_sizes={{1,{0},{0}}}
  l1 = f32[1,{0}] dynamic-slice(ls, at, zero), dynamic_slice_sizes={{1,{0}}}
  e = f32[{0},{0}] reshape(e1)
  l = f32[{0}] reshape(l1)
  lb = f32[{0},{0}] broadcast(l), dimensions={{0}}
  p = f32[{0},{0}] divide(e, lb)
  y = f32[{0},8] dot(p, x), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  ROOT t = (s32[], f32[{0},8], f32[3,{0},{0}], f32[3,{0}]) tuple(next, y, es, ls)
}}
goes_back {{
  s = (s32[], f32[{0},8], f32[3,{0},{0}], f32[3,{0}]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}}
ENTRY main {{
  x = f32[{0},8] parameter(0)
  zero = s32[] constant(0)
  none = f32[] constant(0)
  ks = f32[3,{0},8] broadcast(none), dimensions={{}}
  es = f32[3,{0},{0}] broadcast(none), dimensions={{}}
  ls = f32[3,{0}] broadcast(none), dimensions={{}}
  row = s32[{0},{0}] iota(), iota_dimension=0
  column = s32[{0},{0}] iota(), iota_dimension=1
  mask = pred[{0},{0}] compare(row, column), direction=GE
  start = (s32[], f32[{0},8], f32[3,{0},8], f32[3,{0},{0}], f32[3,{0}], pred[{0},{0}]) tuple(zero, x, ks, es, ls, mask)
  there = (s32[], f32[{0},8], f32[3,{0},8], f32[3,{0},{0}], f32[3,{0}], pred[{0},{0}]) while(start), condition=goes_on, body=forward
  y = f32[{0},8] get-tuple-element(there), index=1
  es1 = f32[3,{0},{0}] get-tuple-element(there), index=3
  ls1 = f32[3,{0}] get-tuple-element(there), index=4
  again = (s32[], f32[{0},8], f32[3,{0},{0}], f32[3,{0}]) tuple(zero, y, es1, ls1)
  back = (s32[], f32[{0},8], f32[3,{0},{0}], f32[3,{0}]) while(again), condition=goes_back, body=backward
  ROOT r = f32[{0},8] get-tuple-element(back), index=1
}})",
                n, forward, turns);
}

// Keys that are made of the layer before, and scores of them, masked.
std::string Scores(int64_t n) {
  return Format(R"(two = f32[] constant(2)
  twos = f32[{0},8] broadcast(two), dimensions={{}}
  k = f32[{0},8] multiply(x, twos)
  w = f32[{0},{0}] dot(k, k), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  m = f32[{0},{0}] select(mask, w, nones)
  e = f32[{0},{0}] exponential(m))",
                n);
}

std::vector<const Instruction*> Loops(const Module& module) {
  std::vector<const Instruction*> out;
  for (const auto& i : module.entry()->instructions())
    if (i->opcode() == Opcode::kWhile && !i->users().empty()) out.push_back(i.get());
  return out;
}
int64_t StateBytes(const Instruction& loop) {
  int64_t out = 0;
  for (const Shape& element : loop.shape().tuple_elements()) out += element.byte_size();
  return out;
}
std::size_t DotsIn(const Computation& body) {
  std::size_t dots = 0;
  for (const auto& i : body.instructions()) dots += i->opcode() == Opcode::kDot;
  return dots;
}

TEST(ResidualRecomputer, GradientsOfLoopsComputeScoresAgain) {
  constexpr int64_t kRows = 4096;
  auto module = RunOn(Layers(kRows, Scores(kRows)),
                      {"residual_recomputer", "while_simplifier", "dce", "while_simplifier", "dce"});
  ASSERT_NE(module, nullptr);
  const auto loops = Loops(*module);
  ASSERT_EQ(loops.size(), 2u);
  // No scores of all layers are left: the loop of the gradients is given the keys instead, and the mask.
  for (const Instruction* loop : loops) EXPECT_LT(StateBytes(*loop), 2 * kRows * kRows);
  EXPECT_EQ(DotsIn(*loops[0]->called(1)), 2u);
  EXPECT_EQ(DotsIn(*loops[1]->called(1)), 2u);
  // Once more changes nothing.
  auto twice = RunOn(Layers(kRows, Scores(kRows)), {"residual_recomputer", "residual_recomputer"});
  ASSERT_NE(twice, nullptr);
  EXPECT_EQ(DotsIn(*Loops(*twice)[1]->called(1)), 2u);
}

TEST(ResidualRecomputer, OthersAreKept) {
  const auto dots = [](std::string_view text) {
    auto module = RunOn(text, {"residual_recomputer"});
    return module ? DotsIn(*Loops(*module).back()->called(1)) : 0;
  };
  // Small ones.
  EXPECT_EQ(dots(Layers(512, Scores(512))), 1u);
  // Rows that no turn writes.
  EXPECT_EQ(dots(Layers(4096, Scores(4096), "2")), 1u);
  // Queries of which nothing is stored.
  EXPECT_EQ(dots(Layers(4096, R"(one1 = f32[] constant(1)
  ones = f32[4096,8] broadcast(one1), dimensions={}
  k = f32[4096,8] add(ones, ones)
  w = f32[4096,4096] dot(x, k), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  e = f32[4096,4096] exponential(w))")),
            1u);
}

// Arrays whose elements are made of those of others: each layer's are made of the mask, which every turn is given.
TEST(ResidualRecomputer, ElementsOfOthersAreMadeAgain) {
  constexpr int64_t kRows = 2048;
  const auto bytes = [](std::string_view e, int64_t rows) {
    auto module = RunOn(Layers(rows, Format(R"(k = f32[{0},8] add(x, x)
  one1 = f32[] constant(1)
  ones = f32[{0},{0}] broadcast(one1), dimensions={{}}
  a = f32[{0},{0}] select(mask, ones, nones)
  b = f32[{0},{0}] exponential(a)
  c = f32[{0},{0}] multiply(b, a)
  {1})",
                                            rows, e)),
                        {"residual_recomputer", "while_simplifier", "dce", "while_simplifier", "dce"});
    return module ? StateBytes(*Loops(*module).back()) : 0;
  };
  constexpr int64_t kStored = 3 * 4 * kRows * kRows;
  EXPECT_LT(bytes("e = f32[2048,2048] tanh(c)", kRows), kStored / 2);
  // Too much arithmetic, sums, and what is made of a value that is not stored.
  EXPECT_GT(bytes(R"(d = f32[2048,2048] cosine(c)
  e = f32[2048,2048] tanh(d))",
                  kRows),
            kStored);
  EXPECT_GT(bytes(R"(d = f32[2048] reduce(c, none), dimensions={1}, to_apply=add
  e = f32[2048,2048] broadcast(d), dimensions={0})",
                  kRows),
            kStored);
  EXPECT_GT(bytes(R"(d = f32[2048] reduce(x, none), dimensions={1}, to_apply=add
  f = f32[2048,2048] broadcast(d), dimensions={0}
  e = f32[2048,2048] multiply(f, c))",
                  kRows),
            kStored);
  // Small arrays.
  EXPECT_GT(bytes("e = f32[256,256] tanh(c)", 256), 3 * 4 * 256 * 256);
}

TEST(IndexState, LoopsMakeMasksThemselves) {
  auto module = RunOn(Layers(4096, Scores(4096)), {"index_state", "while_simplifier", "while_invariant_motion", "dce"});
  ASSERT_NE(module, nullptr);
  const Instruction* loop = Loops(*module)[0];
  for (const Shape& element : loop->shape().tuple_elements()) EXPECT_NE(element.element_type(), ElementType::kPred);
  bool compares = false;
  for (const auto& i : loop->called(1)->instructions())
    compares = compares || (i->opcode() == Opcode::kCompare && i->shape().rank() == 2);
  EXPECT_TRUE(compares);
}

}  // namespace
}  // namespace krafla
