// SPDX-License-Identifier: Apache-2.0
// Inlining, dead code, common subexpressions, tuples, collectives among one device, bitcasts.
#include "pass_harness.h"

namespace krafla {
namespace {

std::string RootAfter(const std::vector<std::string>& passes, std::string_view text) {
  auto module = RunOn(text, passes);
  return module ? Expression(*module->entry()->root()) : "";
}

TEST(CallInliner, NestedCalls) {
  EXPECT_EQ(RootAfter({"call_inliner"}, R"(HloModule m
h { x = f32[] parameter(0)
 ROOT r = f32[] multiply(x, x) }
g { x = f32[] parameter(0)
 y = f32[] call(x), to_apply=h
 ROOT r = f32[] add(y, x) }
ENTRY main { x = f32[] parameter(0)
 ROOT r = f32[] call(x), to_apply=g })"),
            "add f32[](multiply f32[](p0, p0), p0)");
}

TEST(CallInliner, FusionAndPassedOnParameter) {
  EXPECT_EQ(RootAfter({"call_inliner"}, R"(HloModule m
f { a = f32[2] parameter(0)
 ROOT b = f32[2] parameter(1) }
ENTRY main { x = f32[2] parameter(0)
 y = f32[2] parameter(1)
 ROOT r = f32[2] fusion(x, y), kind=kLoop, calls=f })"),
            "p1");
}

TEST(CallInliner, AsynchronousOps) {
  EXPECT_EQ(RootAfter({"call_inliner"}, R"(HloModule m
ENTRY main { x = f32[6] parameter(0)
 y = f32[6] parameter(1)
 st = ((f32[6], f32[6]), f32[6], s32[]) add-start(x, y)
 up = ((f32[6], f32[6]), f32[6], s32[]) add-update(st)
 ROOT r = f32[6] add-done(up) })"),
            "add f32[6](p0, p1)");
}

TEST(CallInliner, RefusesToExplode) {
  std::string text = "HloModule m\nfn0 { x = f32[] parameter(0)\n ROOT r = f32[] add(x, x) }\n";
  for (int n = 1; n <= 40; ++n)
    text += Format(
        "fn{0} {{ x = f32[] parameter(0)\n a = f32[] call(x), to_apply=fn{1}\n"
        " ROOT r = f32[] call(a), to_apply=fn{1} }}\n",
        n, n - 1);
  text += "ENTRY main { x = f32[] parameter(0)\n ROOT r = f32[] call(x), to_apply=fn40 }";
  auto module = ParseHloText(text);
  ASSERT_TRUE(module.has_value());
  ASSERT_TRUE(Verify(**module).has_value());
  PassOptions options;
  options.max_instructions = 10000;
  auto ran = RunPipeline(**module, options);
  ASSERT_FALSE(ran.has_value());
  EXPECT_EQ(ran.error().code(), StatusCode::kResourceExhausted);
}

TEST(CallInliner, GivesEachLoopItsOwnBody) {
  auto module = RunOn(R"(HloModule m
c { x = s32[] parameter(0)
 n = s32[] constant(5)
 ROOT r = pred[] compare(x, n), direction=LT }
b { x = s32[] parameter(0)
 o = s32[] constant(1)
 ROOT r = s32[] add(x, o) }
ENTRY main { x = s32[] parameter(0)
 w = s32[] while(x), condition=c, body=b
 ROOT v = s32[] while(w), condition=c, body=b })",
                      {"call_inliner"});
  ASSERT_TRUE(module);
  auto loops = Find(*module, Opcode::kWhile);
  ASSERT_EQ(loops.size(), 2u);
  EXPECT_NE(loops[0]->called(1), loops[1]->called(1));
}

TEST(CallInliner, KeepsTheOrderOfSideEffects) {
  auto module = RunOn(R"(HloModule m
f { t = token[] parameter(0)
 ROOT i = (f32[], token[]) infeed(t) }
ENTRY main { t = token[] after-all()
 a = (f32[], token[]) call(t), to_apply=f
 x = f32[] get-tuple-element(a), index=0
 b = (f32[], token[]) infeed(t)
 y = f32[] get-tuple-element(b), index=0
 c = (f32[], token[]) call(t), to_apply=f
 z = f32[] get-tuple-element(c), index=0
 ROOT r = (f32[], f32[], f32[]) tuple(z, y, x) })");
  ASSERT_TRUE(module);
  std::vector<std::string> order;
  for (const Instruction* i : Find(*module, Opcode::kInfeed))
    for (std::size_t n = 0; n < 3; ++n)
      if (module->entry()->root()->operand(n)->operand(0) == i) order.push_back(std::string(1, "zyx"[n]));
  EXPECT_EQ(order, (std::vector<std::string>{"x", "y", "z"}));
}

TEST(StructuralSimplifier, CopiesAndAnnotations) {
  EXPECT_EQ(After({"structural_simplifier"}, R"(x = f32[3] parameter(0)
 a = f32[3] copy(x)
 b = f32[3] custom-call(a), custom_call_target="Sharding", sharding={replicated}
 c = f32[3] custom-call(b), custom_call_target="xla.sdy.FuncResultSharding", custom_call_has_side_effect=true
 s = (f32[3], f32[3], u32[]) copy-start(c)
 ROOT d = f32[3] copy-done(s))"),
            "p0");
  // A piece of an array is not the array.
  EXPECT_EQ(After({"structural_simplifier"}, R"(x = f32[4] parameter(0)
 ROOT b = f32[2] custom-call(x), custom_call_target="xla.sdy.GlobalToLocalShape", custom_call_has_side_effect=true)"),
            "custom-call f32[2](p0)");
}

TEST(StructuralSimplifier, SplitCollectivesOfOneDevice) {
  constexpr std::string_view kText = R"(HloModule m
add { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = f32[] add(a, b) }
ENTRY main { x = f32[3] parameter(0)
 s = f32[3] all-reduce-start(x), replica_groups={}, to_apply=add
 ROOT d = f32[3] all-reduce-done(s) })";
  EXPECT_EQ(RootAfter({"structural_simplifier"}, kText), "all-reduce f32[3](p0)");
  EXPECT_EQ(RootAfter({"structural_simplifier", "collective_simplifier"}, kText), "p0");
}

TEST(CollectiveSimplifier, OneDevice) {
  EXPECT_EQ(After({"collective_simplifier"}, "ROOT r = u32[] replica-id()"), "u32[](0)");
  EXPECT_EQ(After({"collective_simplifier"},
                  "x = f32[3] parameter(0)\n ROOT r = f32[3] collective-permute(x), source_target_pairs={{0,0}}"),
            "p0");
  EXPECT_EQ(After({"collective_simplifier"},
                  "x = f32[3] parameter(0)\n ROOT r = f32[3] collective-permute(x), source_target_pairs={}"),
            "broadcast{} f32[3](f32[](0))");
  EXPECT_EQ(RootAfter({"collective_simplifier"},
                      "HloModule m, replica_count=2\nENTRY main {\n x = f32[3] parameter(0)\n"
                      "ROOT r = f32[6] all-gather(x), dimensions={0}\n}"),
            "all-gather f32[6](p0)");
}

TEST(Cse, MergesInstructionsAndComputations) {
  auto module = RunOn(R"(HloModule m
f { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = f32[] add(a, b) }
g { c = f32[] parameter(0)
 d = f32[] parameter(1)
 ROOT s = f32[] add(c, d) }
ENTRY main { x = f32[4] parameter(0)
 z = f32[] constant(0)
 y = f32[] constant(0)
 p = f32[] reduce(x, z), dimensions={0}, to_apply=f
 q = f32[] reduce(x, y), dimensions={0}, to_apply=g
 ROOT r = f32[] subtract(p, q) })",
                      {"cse", "dce"});
  ASSERT_TRUE(module);
  EXPECT_EQ(Find(*module, Opcode::kReduce).size(), 1u);
  EXPECT_EQ(module->computations().size(), 2u);
}

// Each loop keeps a body of its own; one of two that are the same goes with its body.
TEST(Cse, MergesLoops) {
  auto loops = [](std::string_view one, std::string_view other) {
    auto module = RunOn(Format(R"(HloModule m
c1 {{ s = (s32[], f32[]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(5)
  ROOT go = pred[] compare(i, n), direction=LT }}
b1 {{ s = (s32[], f32[]) parameter(0) i = s32[] get-tuple-element(s), index=0 v = f32[] get-tuple-element(s), index=1
  k = s32[] constant(1) j = s32[] add(i, k) w = f32[] {} ROOT r = (s32[], f32[]) tuple(j, w) }}
c2 {{ t = (s32[], f32[]) parameter(0) i = s32[] get-tuple-element(t), index=0 n = s32[] constant(5)
  ROOT go = pred[] compare(i, n), direction=LT }}
b2 {{ t = (s32[], f32[]) parameter(0) i = s32[] get-tuple-element(t), index=0 v = f32[] get-tuple-element(t), index=1
  k = s32[] constant(1) j = s32[] add(i, k) w = f32[] {} ROOT r = (s32[], f32[]) tuple(j, w) }}
ENTRY main {{ x = f32[] parameter(0)
 z = s32[] constant(0)
 init = (s32[], f32[]) tuple(z, x)
 p = (s32[], f32[]) while(init), condition=c1, body=b1
 q = (s32[], f32[]) while(init), condition=c2, body=b2
 a = f32[] get-tuple-element(p), index=1
 b = f32[] get-tuple-element(q), index=1
 ROOT r = (f32[], f32[]) tuple(a, b) }})",
                               one, other),
                        {"cse", "dce"});
    return module ? std::pair(Find(*module, Opcode::kWhile).size(), module->computations().size())
                  : std::pair(0ul, 0ul);
  };
  EXPECT_EQ(loops("add(v, v)", "add(v, v)"), std::pair(1ul, 3ul));
  EXPECT_EQ(loops("add(v, v)", "multiply(v, v)"), std::pair(2ul, 5ul));
  const std::string_view random = "rng(v, v), distribution=rng_uniform";
  EXPECT_EQ(loops(random, random), std::pair(2ul, 5ul));
}

TEST(Cse, OrderOfOperands) {
  auto count = [](std::string_view type) {
    auto module = RunOn(Entry(Format("x = {0}[4] parameter(0)\n y = {0}[4] parameter(1)\n a = {0}[4] add(x, y)\n"
                                     "b = {0}[4] add(y, x)\n ROOT r = ({0}[4], {0}[4]) tuple(a, b)",
                                     type)),
                        {"cse"});
    return module ? Find(*module, Opcode::kAdd).size() : 0;
  };
  EXPECT_EQ(count("s32"), 1u);
  EXPECT_EQ(count("f32"), 2u);
}

TEST(Cse, LeavesSideEffectsAndBarriers) {
  auto module = RunOn(Entry("a = f32[] constant(0)\n b = f32[] constant(1)\n"
                            "x = f32[4] rng(a, b), distribution=rng_uniform\n"
                            "y = f32[4] rng(a, b), distribution=rng_uniform\n"
                            "p = f32[4] opt-barrier(x)\n q = f32[4] opt-barrier(x)\n"
                            "s = f32[4] add(p, q)\n ROOT r = (f32[4], f32[4], f32[4]) tuple(x, y, s)"),
                      {"cse"});
  ASSERT_TRUE(module);
  EXPECT_EQ(Find(*module, Opcode::kRng).size(), 2u);
  EXPECT_EQ(Find(*module, Opcode::kOptimizationBarrier).size(), 2u);
}

TEST(Dce, KeepsWhatActs) {
  auto module = RunOn(R"(HloModule m
dead { ROOT x = f32[] parameter(0) }
ENTRY main { x = f32[] parameter(0)
 n = f32[] negate(x)
 t = token[] after-all()
 o = token[] outfeed(x, t)
 ROOT r = f32[] add(x, x) })",
                      {"dce"});
  ASSERT_TRUE(module);
  EXPECT_EQ(module->computations().size(), 1u);
  EXPECT_EQ(Find(*module, Opcode::kNegate).size(), 0u);
  EXPECT_EQ(Find(*module, Opcode::kOutfeed).size(), 1u);
}

TEST(Dce, ControlEdgesGoThroughWhatIsRemoved) {
  auto module = RunOn(Entry("x = f32[] parameter(0)\n a = f32[] constant(0)\n b = f32[] constant(1)\n"
                            "p = f32[4] rng(a, b), distribution=rng_uniform\n"
                            "n = f32[4] negate(p)\n"
                            "q = f32[4] rng(a, b), distribution=rng_uniform, control-predecessors={n}\n"
                            "ROOT r = (f32[4], f32[4]) tuple(p, q)"),
                      {"dce"});
  ASSERT_TRUE(module);
  auto rngs = Find(*module, Opcode::kRng);
  ASSERT_EQ(rngs.size(), 2u);
  const Instruction* q = rngs[0]->control_predecessors().empty() ? rngs[1] : rngs[0];
  ASSERT_EQ(q->control_predecessors().size(), 1u);
  EXPECT_EQ(q->control_predecessors()[0], q == rngs[0] ? rngs[1] : rngs[0]);
}

TEST(TupleSimplifier, TakesTuplesApart) {
  EXPECT_EQ(After({"tuple_simplifier"},
                  "x = f32[2] parameter(0)\n y = s32[] parameter(1)\n t = (f32[2], s32[]) tuple(x, y)\n"
                  "u = ((f32[2], s32[])) tuple(t)\n v = (f32[2], s32[]) get-tuple-element(u), index=0\n"
                  "ROOT r = s32[] get-tuple-element(v), index=1"),
            "p1");
  EXPECT_EQ(After({"tuple_simplifier"},
                  "x = (f32[2], s32[]) parameter(0)\n a = f32[2] get-tuple-element(x), index=0\n"
                  "b = s32[] get-tuple-element(x), index=1\n t = (f32[2], s32[]) tuple(a, b)\n"
                  "ROOT r = (f32[2], s32[]) opt-barrier(t)"),
            "opt-barrier (f32[2], s32[])(p0)");
}

TEST(BitcastExpander, FollowsLayouts) {
  EXPECT_EQ(After({"bitcast_expander"}, "x = f32[4,6]{1,0} parameter(0)\n ROOT r = f32[24]{0} bitcast(x)"),
            "reshape f32[24](p0)");
  EXPECT_EQ(After({"bitcast_expander"}, "x = f32[4,6]{1,0} parameter(0)\n ROOT r = f32[6,4]{0,1} bitcast(x)"),
            "transpose{1,0} f32[6,4](p0)");
  EXPECT_EQ(After({"bitcast_expander"}, "x = f32[4,6]{0,1} parameter(0)\n ROOT r = f32[24]{0} bitcast(x)"),
            "reshape f32[24](transpose{1,0} f32[6,4](p0))");
  EXPECT_EQ(After({"bitcast_expander"}, "x = f32[4]{0} parameter(0)\n ROOT r = u32[2,2]{1,0} bitcast(x)"),
            "reshape u32[2,2](bitcast-convert u32[4](p0))");
  EXPECT_EQ(After({"bitcast_expander"}, "x = f32[4]{0} parameter(0)\n ROOT r = u8[16]{0} bitcast(x)"),
            "reshape u8[16](bitcast-convert u8[4,4](p0))");
  EXPECT_EQ(After({"bitcast_expander"}, "x = u8[16]{0} parameter(0)\n ROOT r = f32[4]{0} bitcast(x)"),
            "bitcast-convert f32[4](reshape u8[4,4](p0))");
}

TEST(BitcastExpander, ChainsKeepTheLayoutInBetween) {
  // The first bitcast gives back x's elements in the other layout, so the second reads them column by column.
  EXPECT_EQ(After({"bitcast_expander"},
                  "y = f32[2,3]{1,0} parameter(0)\n x = f32[3,2]{1,0} transpose(y), dimensions={1,0}\n"
                  "i = f32[2,3]{0,1} bitcast(x)\n ROOT r = f32[6]{0} bitcast(i)"),
            "reshape f32[6](transpose{1,0} f32[3,2](p0))");
}

TEST(DotCanonicalizer, AbsorbsTransposes) {
  EXPECT_EQ(After({"dot_canonicalizer"},
                  "x = f32[3,4] parameter(0)\n y = f32[5,3] parameter(1)\n"
                  "t = f32[4,3] transpose(x), dimensions={1,0}\n u = f32[3,5] transpose(y), dimensions={1,0}\n"
                  "ROOT d = f32[4,5] dot(t, u), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
            "dot{}{0}{}{1} f32[4,5](p0, p1)");
  EXPECT_EQ(After({"dot_canonicalizer"},
                  "x = f32[4,3] parameter(0)\n y = f32[3,5] parameter(1)\n"
                  "d = f32[4,5] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                  "ROOT t = f32[5,4] transpose(d), dimensions={1,0}"),
            "dot{}{0}{}{1} f32[5,4](p1, p0)");
  // Attention as JAX's einsum writes it: values first, then a transpose.
  EXPECT_EQ(After({"dot_canonicalizer"},
                  "v = f32[2,16,4,12] parameter(0)\n p = f32[2,4,8,16] parameter(1)\n"
                  "d = f32[2,4,12,8] dot(v, p), lhs_batch_dims={0,2}, lhs_contracting_dims={1}, rhs_batch_dims={0,1}, "
                  "rhs_contracting_dims={3}\n ROOT t = f32[2,8,4,12] transpose(d), dimensions={0,3,1,2}"),
            "transpose{0,2,1,3} f32[2,8,4,12](dot{0,1}{3}{0,2}{1} f32[2,4,8,12](p1, p0))");
  // The order of the free dimensions shows in the result.
  EXPECT_EQ(After({"dot_canonicalizer"},
                  "x = f32[4,6,3] parameter(0)\n y = f32[3,5] parameter(1)\n"
                  "t = f32[6,4,3] transpose(x), dimensions={1,0,2}\n"
                  "ROOT d = f32[6,4,5] dot(t, y), lhs_contracting_dims={2}, rhs_contracting_dims={0}"),
            "dot{}{2}{}{0} f32[6,4,5](transpose{1,0,2} f32[6,4,3](p0), p1)");
}

// The values of one query's attention, as JAX's einsum writes it: nothing is left to transpose.
TEST(DotCanonicalizer, VectorsOfABatchStandOnTheLeft) {
  EXPECT_EQ(After({"dot_canonicalizer"},
                  "v = f32[2,16,4,12] parameter(0)\n p = f32[2,4,1,16] parameter(1)\n"
                  "ROOT d = f32[2,4,12,1] dot(v, p), lhs_batch_dims={0,2}, lhs_contracting_dims={1}, "
                  "rhs_batch_dims={0,1}, rhs_contracting_dims={3}"),
            "reshape f32[2,4,12,1](dot{0,1}{3}{0,2}{1} f32[2,4,1,12](p1, p0))");
  // Of no batch it is a product of a matrix and a vector, and of one element on both sides either is the left one.
  EXPECT_EQ(After({"dot_canonicalizer"},
                  "x = f32[4,3] parameter(0)\n v = f32[3] parameter(1)\n"
                  "ROOT d = f32[4] dot(x, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
            "dot{}{1}{}{0} f32[4](p0, p1)");
  EXPECT_EQ(After({"dot_canonicalizer"},
                  "x = f32[4,3] parameter(0)\n v = f32[4,3] parameter(1)\n"
                  "ROOT d = f32[4] dot(x, v), lhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_batch_dims={0}, "
                  "rhs_contracting_dims={1}"),
            "dot{0}{1}{0}{1} f32[4](p0, p1)");
}

TEST(Pipeline, NamesAreKnown) {
  EXPECT_GT(AllPasses().size(), 20u);
  for (const PassInfo& pass : AllPasses()) {
    EXPECT_TRUE(FindPass(pass.name).has_value());
    EXPECT_FALSE(pass.doc.empty());
  }
  auto unknown = FindPass("no_such_pass");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().code(), StatusCode::kNotFound);
}

TEST(Pipeline, DisabledPassesDoNotRun) {
  auto module = ParseHloText(Entry("x = f32[4] parameter(0)\n n = f32[4] negate(x)\n ROOT r = f32[4] negate(n)"));
  ASSERT_TRUE(module.has_value());
  PassOptions options;
  options.disabled = {"algebraic_simplifier"};
  ASSERT_TRUE(RunPipeline(**module, options).has_value());
  EXPECT_EQ(Expression(*(*module)->entry()->root()), "negate f32[4](negate f32[4](p0))");
  ASSERT_TRUE(RunPipeline(**module).has_value());
  EXPECT_EQ(Expression(*(*module)->entry()->root()), "p0");
}

}  // namespace
}  // namespace krafla
