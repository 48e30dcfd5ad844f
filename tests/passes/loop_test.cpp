// SPDX-License-Identifier: Apache-2.0
// Counting, slimming and moving code out of loops; known and small conditionals.
#include "krafla/literal_util.h"
#include "pass_harness.h"
#include "same_results.h"

namespace krafla {
namespace {

// A loop over (counter, x) that doubles x each turn.
std::string Counted(std::string_view type, std::string_view start, std::string_view step_op, std::string_view step,
                    std::string_view direction, std::string_view bound) {
  return Format(R"(HloModule m
c {{ s = ({0}[], f32[4]) parameter(0)
 i = {0}[] get-tuple-element(s), index=0
 n = {0}[] constant({5})
 ROOT r = pred[] compare(i, n), direction={4} }}
b {{ s = ({0}[], f32[4]) parameter(0)
 i = {0}[] get-tuple-element(s), index=0
 o = {0}[] constant({3})
 j = {0}[] {2}(i, o)
 x = f32[4] get-tuple-element(s), index=1
 y = f32[4] add(x, x)
 ROOT r = ({0}[], f32[4]) tuple(j, y) }}
ENTRY main {{ x = f32[4] parameter(0)
 i = {0}[] constant({1})
 t = ({0}[], f32[4]) tuple(i, x)
 w = ({0}[], f32[4]) while(t), condition=c, body=b
 ROOT r = f32[4] get-tuple-element(w), index=1 }})",
                type, start, step_op, step, direction, bound);
}

std::string TurnsOf(const std::string& text) {
  auto module = RunOn(text, {"while_trip_count"});
  if (!module) return "";
  auto loops = Find(*module, Opcode::kWhile);
  return loops.size() == 1 ? AttributeText(*loops[0]) : Format("{} loops", loops.size());
}

TEST(WhileTripCount, Counts) {
  EXPECT_EQ(TurnsOf(Counted("s32", "0", "add", "1", "LT", "10")), "{10}");
  EXPECT_EQ(TurnsOf(Counted("s32", "0", "add", "3", "LT", "10")), "{4}");
  EXPECT_EQ(TurnsOf(Counted("s32", "0", "add", "3", "LE", "9")), "{4}");
  EXPECT_EQ(TurnsOf(Counted("s32", "10", "subtract", "2", "GT", "0")), "{5}");
  EXPECT_EQ(TurnsOf(Counted("s32", "10", "add", "-2", "GE", "0")), "{6}");
  EXPECT_EQ(TurnsOf(Counted("u32", "10", "add", "4294967295", "GT", "3")), "{7}");
  EXPECT_EQ(TurnsOf(Counted("s64", "0", "add", "2", "NE", "20")), "{10}");
  EXPECT_EQ(TurnsOf(Counted("s32", "5", "add", "1", "LT", "5")), "0 loops");
  EXPECT_EQ(TurnsOf(Counted("s32", "4", "add", "1", "LT", "5")), "0 loops");
}

TEST(WhileTripCount, KnowsWhatItDoesNotKnow) {
  EXPECT_EQ(TurnsOf(Counted("s32", "0", "add", "2", "NE", "21")), "{}");      // steps over it
  EXPECT_EQ(TurnsOf(Counted("s32", "0", "add", "-1", "LT", "10")), "{}");     // wraps around
  EXPECT_EQ(TurnsOf(Counted("s8", "100", "add", "100", "LT", "120")), "{}");  // 200 is -56
  EXPECT_EQ(TurnsOf(Counted("s32", "0", "multiply", "2", "LT", "10")), "{}");
  EXPECT_EQ(TurnsOf(Counted("s32", "2147483640", "add", "1", "LE", "2147483647")), "{}");  // never greater
}

TEST(WhileTripCount, OneTurnIsTheBody) {
  auto module = RunOn(Counted("s32", "4", "add", "1", "LT", "5"));
  ASSERT_TRUE(module);
  EXPECT_EQ(Expression(*module->entry()->root()), "add f32[4](p0, p0)");
}

TEST(WhileTripCount, BoundInTheState) {
  auto module = RunOn(R"(HloModule m
c { s = (s32[], s32[]) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 n = s32[] get-tuple-element(s), index=1
 ROOT r = pred[] compare(n, i), direction=GT }
b { s = (s32[], s32[]) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 n = s32[] get-tuple-element(s), index=1
 o = s32[] constant(1)
 j = s32[] add(o, i)
 ROOT r = (s32[], s32[]) tuple(j, n) }
ENTRY main { i = s32[] constant(0)
 n = s32[] constant(12)
 t = (s32[], s32[]) tuple(i, n)
 ROOT w = (s32[], s32[]) while(t), condition=c, body=b })",
                      {"while_trip_count"});
  ASSERT_TRUE(module);
  ASSERT_EQ(Find(*module, Opcode::kWhile).size(), 1u);
  EXPECT_EQ(AttributeText(*Find(*module, Opcode::kWhile)[0]), "{12}");
}

// State: counter, accumulator, an invariant array, a constant, something nobody needs.
constexpr std::string_view kFatLoop = R"(HloModule m
c { s = (s32[], f32[4], f32[4], f32[], f32[4]) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 n = s32[] constant(7)
 ROOT r = pred[] compare(i, n), direction=LT }
b { s = (s32[], f32[4], f32[4], f32[], f32[4]) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 o = s32[] constant(1)
 j = s32[] add(i, o)
 x = f32[4] get-tuple-element(s), index=1
 w = f32[4] get-tuple-element(s), index=2
 k = f32[] get-tuple-element(s), index=3
 kb = f32[4] broadcast(k), dimensions={}
 e = f32[4] exponential(w)
 f = f32[4] multiply(e, kb)
 y = f32[4] add(x, f)
 d = f32[4] get-tuple-element(s), index=4
 d2 = f32[4] add(d, x)
 ROOT r = (s32[], f32[4], f32[4], f32[], f32[4]) tuple(j, y, w, k, d2) }
ENTRY main { x = f32[4] parameter(0)
 w = f32[4] parameter(1)
 i = s32[] constant(0)
 k = f32[] constant(3)
 t = (s32[], f32[4], f32[4], f32[], f32[4]) tuple(i, x, w, k, x)
 l = (s32[], f32[4], f32[4], f32[], f32[4]) while(t), condition=c, body=b
 y = f32[4] get-tuple-element(l), index=1
 v = f32[4] get-tuple-element(l), index=2
 ROOT r = (f32[4], f32[4]) tuple(y, v) })";

TEST(WhileSimplifier, SlimsTheState) {
  auto module = RunOn(kFatLoop, {"while_simplifier", "while_simplifier"});
  ASSERT_TRUE(module);
  auto loops = Find(*module, Opcode::kWhile);
  ASSERT_EQ(loops.size(), 1u);
  EXPECT_EQ(loops[0]->shape().ToString(false), "(s32[], f32[4], f32[4])");
  EXPECT_EQ(Expression(*module->entry()->root()->operand(1)), "p1");
}

TEST(WhileSimplifier, LeavesNoSecondLoopWhereTheBodyHasAnEffect) {
  std::string text(kFatLoop);
  const std::string add = " y = f32[4] add(x, f)\n";
  text.replace(text.find(add), add.size(),
               add + " n = () custom-call(y), custom_call_target=\"note\", custom_call_has_side_effect=true\n");
  auto module = RunOn(text, {"while_simplifier", "while_invariant_motion", "while_simplifier"});
  ASSERT_TRUE(module);
  EXPECT_EQ(Find(*module, Opcode::kWhile).size(), 1u);
  EXPECT_EQ(Find(*module, Opcode::kCustomCall).size(), 1u);
}

TEST(WhileInvariantMotion, MovesWhatCosts) {
  auto module = RunOn(kFatLoop, {"while_simplifier", "while_invariant_motion", "while_simplifier"});
  ASSERT_TRUE(module);
  auto loops = Find(*module, Opcode::kWhile);
  ASSERT_EQ(loops.size(), 1u);
  auto exponentials = Find(*module, Opcode::kExp);
  ASSERT_EQ(exponentials.size(), 1u);
  EXPECT_EQ(exponentials[0]->parent(), module->entry());
  for (const Instruction* i : Find(*module, Opcode::kMultiply)) EXPECT_EQ(i->parent(), module->entry());
}

TEST(Loops, WholePipeline) {
  auto module = RunOn(kFatLoop);
  ASSERT_TRUE(module);
  auto loops = Find(*module, Opcode::kWhile);
  ASSERT_EQ(loops.size(), 1u);
  EXPECT_EQ(AttributeText(*loops[0]), "{7}");
}

TEST(Loops, RootLoopKeepsItsResult) {
  auto module = RunOn(R"(HloModule m
c { s = (s32[], f32[2]) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 n = s32[] constant(7)
 ROOT r = pred[] compare(i, n), direction=LT }
b { s = (s32[], f32[2]) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 j = s32[] add(i, i)
 x = f32[2] get-tuple-element(s), index=1
 ROOT r = (s32[], f32[2]) tuple(j, x) }
ENTRY main { x = f32[2] parameter(0)
 i = s32[] constant(1)
 t = (s32[], f32[2]) tuple(i, x)
 ROOT l = (s32[], f32[2]) while(t), condition=c, body=b })");
  ASSERT_TRUE(module);
  const Instruction* root = module->entry()->root();
  ASSERT_EQ(root->opcode(), Opcode::kTuple);
  EXPECT_EQ(Expression(*root->operand(1)), "p0");
}

std::string Branches(std::string_view index, std::string_view body_op) {
  return Format(R"(HloModule m
f {{ x = f32[4] parameter(0)
 ROOT r = f32[4] {1}(x) }}
g {{ x = f32[4] parameter(0)
 ROOT r = f32[4] negate(x) }}
ENTRY main {{ x = f32[4] parameter(0)
 p = {0}
 ROOT r = f32[4] conditional(p, x, x), branch_computations={{f, g}} }})",
                index, body_op);
}

TEST(ConditionalSimplifier, KnownBranches) {
  auto root = [](std::string_view index) {
    auto module = RunOn(Branches(index, "sqrt"), {"conditional_simplifier"});
    return module ? Expression(*module->entry()->root()) : "";
  };
  EXPECT_EQ(root("pred[] constant(true)"), "sqrt f32[4](p0)");
  EXPECT_EQ(root("pred[] constant(false)"), "negate f32[4](p0)");
  EXPECT_EQ(root("s32[] constant(0)"), "sqrt f32[4](p0)");
  EXPECT_EQ(root("s32[] constant(1)"), "negate f32[4](p0)");
  // Out of range is the last.
  EXPECT_EQ(root("s32[] constant(-1)"), "negate f32[4](p0)");
  EXPECT_EQ(root("s32[] constant(9)"), "negate f32[4](p0)");
}

TEST(ConditionalSimplifier, SmallBranchesBecomeSelects) {
  auto root = [](std::string_view index) {
    auto module = RunOn(Branches(index, "sqrt"), {"conditional_simplifier"});
    return module ? Expression(*module->entry()->root()) : "";
  };
  EXPECT_EQ(root("pred[] parameter(1)"), "select f32[4](broadcast{} pred[4](p1), sqrt f32[4](p0), negate f32[4](p0))");
  EXPECT_EQ(root("s32[] parameter(1)"),
            "select f32[4](broadcast{} pred[4](compare{EQ} pred[](p1, s32[](0))), sqrt f32[4](p0), negate f32[4](p0))");
}

TEST(ConditionalSimplifier, LargeOnesStay) {
  auto module = RunOn(R"(HloModule m
f { x = f32[1000,1000] parameter(0)
 ROOT r = f32[1000,1000] exponential(x) }
g { ROOT x = f32[1000,1000] parameter(0) }
ENTRY main { x = f32[1000,1000] parameter(0)
 p = pred[] parameter(1)
 ROOT r = f32[1000,1000] conditional(p, x, x), branch_computations={f, g} })");
  ASSERT_TRUE(module);
  EXPECT_EQ(Find(*module, Opcode::kConditional).size(), 1u);
}

// A scan over `turns` rows of xs[4,8,2], of which each turn writes row `pos` into its own and puts it into ys. `made`
// makes y, what the turn computes of its row u, f32[8,2], and of xs and ys.
std::string Scanned(std::string_view turns, std::string_view made) {
  return Format(R"(HloModule m
c {{ s = (s32[], f32[4,8,2], f32[4,8,2], f32[2], s32[]) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 n = s32[] constant({0})
 ROOT r = pred[] compare(i, n), direction=LT }}
b {{ s = (s32[], f32[4,8,2], f32[4,8,2], f32[2], s32[]) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 one = s32[] constant(1)
 j = s32[] add(i, one)
 ys = f32[4,8,2] get-tuple-element(s), index=1
 xs = f32[4,8,2] get-tuple-element(s), index=2
 a = f32[2] get-tuple-element(s), index=3
 pos = s32[] get-tuple-element(s), index=4
 zero = s32[] constant(0)
 row = f32[1,8,2] dynamic-slice(xs, i, zero, zero), dynamic_slice_sizes={{1,8,2}}
 x = f32[8,2] reshape(row)
 part = f32[1,2] reshape(a)
 u = f32[8,2] dynamic-update-slice(x, part, pos, zero)
 {1}
 back = f32[1,8,2] reshape(u)
 z = f32[4,8,2] dynamic-update-slice(ys, back, i, zero, zero)
 ROOT r = (s32[], f32[4,8,2], f32[4,8,2], f32[2], s32[]) tuple(j, z, xs, y, pos) }}
add {{ p = f32[] parameter(0)
 q = f32[] parameter(1)
 ROOT r = f32[] add(p, q) }}
ENTRY main {{ xs = f32[4,8,2] parameter(0)
 a = f32[2] parameter(1)
 pos = s32[] parameter(2)
 i = s32[] constant(0)
 f = f32[] constant(0)
 ys = f32[4,8,2] broadcast(f), dimensions={{}}
 t = (s32[], f32[4,8,2], f32[4,8,2], f32[2], s32[]) tuple(i, ys, xs, a, pos)
 w = (s32[], f32[4,8,2], f32[4,8,2], f32[2], s32[]) while(t), condition=c, body=b
 y = f32[4,8,2] get-tuple-element(w), index=1
 e = f32[2] get-tuple-element(w), index=3
 ROOT r = (f32[4,8,2], f32[2]) tuple(y, e) }})",
                turns, made);
}

constexpr std::string_view kSumOfRow = "g = f32[] constant(0)\n y = f32[2] reduce(u, g), dimensions={0}, to_apply=add";

TEST(ScannedState, UpdatesRowsWhereTheyLie) {
  const std::string text = Scanned("4", kSumOfRow);
  auto module = RunOn(text, {"scanned_state", "while_simplifier", "dce"});
  ASSERT_TRUE(module);
  const auto updates = Find(*module, Opcode::kDynamicUpdateSlice);
  ASSERT_EQ(updates.size(), 1u);
  EXPECT_EQ(updates[0]->shape().ToString(false), "f32[4,8,2]");
  EXPECT_EQ(updates[0]->operand(1)->shape().ToString(false), "f32[1,1,2]");
  EXPECT_EQ(Find(*module, Opcode::kWhile)[0]->shape().ToString(false), "(s32[], f32[4,8,2], f32[2], s32[])");
  for (const int32_t at : {0, 3, 7, 9, -2}) {  // the last two are moved into the array
    const Result<Literal> pos = LiteralUtil::CreateR0<int32_t>(at);
    ASSERT_TRUE(pos);
    ExpectSame(text, {"scanned_state", "while_simplifier"}, 0, &*pos);
  }
}

TEST(ScannedState, LeavesWhatOthersSee) {
  const auto updates = [](std::string_view turns, std::string_view made) {
    auto module = RunOn(Scanned(turns, made), {"scanned_state", "while_simplifier", "dce"});
    return module == nullptr ? 0 : Find(*module, Opcode::kDynamicUpdateSlice).size();
  };
  EXPECT_EQ(updates("3", kSumOfRow), 2u);  // the last row would stay one of xs
  // The row as it was before, and the rows that are there already.
  EXPECT_EQ(updates("4", "g = f32[] constant(0)\n y = f32[2] reduce(x, g), dimensions={0}, to_apply=add"), 2u);
  EXPECT_EQ(updates("4", "g = f32[] constant(0)\n y = f32[2] reduce(ys, g), dimensions={0,1}, to_apply=add"), 2u);
}

}  // namespace
}  // namespace krafla
