// SPDX-License-Identifier: Apache-2.0
#include "pass_harness.h"

namespace krafla {
namespace {

std::string Moved(std::string_view body) { return After({"movement_simplifier"}, body); }

TEST(MovementSimplifier, ReshapesCollapse) {
  EXPECT_EQ(Moved("x = f32[4,6] parameter(0)\n a = f32[24] reshape(x)\n b = f32[2,12] reshape(a)\n"
                  "ROOT r = f32[3,8] reshape(b)"),
            "reshape f32[3,8](p0)");
  EXPECT_EQ(Moved("x = f32[4,6] parameter(0)\n a = f32[24] reshape(x)\n ROOT r = f32[4,6] reshape(a)"), "p0");
  EXPECT_EQ(Moved("x = f32[4,6] parameter(0)\n ROOT r = f32[4,6] reshape(x)"), "p0");
}

TEST(MovementSimplifier, JaxBroadcastChainIsOneBroadcast) {
  // What jnp broadcasting of [n] against [m, n] lowers to.
  EXPECT_EQ(Moved("x = f32[7] parameter(0)\n a = f32[1,7] reshape(x)\n b = f32[1,7] broadcast(a), dimensions={0,1}\n"
                  "c = f32[7] reshape(b)\n ROOT d = f32[5,7] broadcast(c), dimensions={1}"),
            "broadcast{1} f32[5,7](p0)");
  EXPECT_EQ(Moved("x = f32[5,1] parameter(0)\n b = f32[5,1] broadcast(x), dimensions={0,1}\n"
                  "c = f32[5] reshape(b)\n ROOT d = f32[5,7] broadcast(c), dimensions={0}"),
            "broadcast{0} f32[5,7](reshape f32[5](p0))");
}

TEST(MovementSimplifier, BroadcastsCompose) {
  EXPECT_EQ(Moved("x = f32[3] parameter(0)\n a = f32[2,3] broadcast(x), dimensions={1}\n"
                  "ROOT b = f32[4,2,5,3] broadcast(a), dimensions={1,3}"),
            "broadcast{3} f32[4,2,5,3](p0)");
  EXPECT_EQ(Moved("x = f32[2,3] parameter(0)\n ROOT b = f32[3,4,2] broadcast(x), dimensions={2,0}"),
            "broadcast{0,2} f32[3,4,2](transpose{1,0} f32[3,2](p0))");
  EXPECT_EQ(Moved("x = f32[2,3] parameter(0)\n ROOT b = f32[2,1,3] broadcast(x), dimensions={0,2}"),
            "reshape f32[2,1,3](p0)");
  EXPECT_EQ(Moved("x = f32[2,3] parameter(0)\n ROOT b = f32[2,3] broadcast(x), dimensions={0,1}"), "p0");
}

TEST(MovementSimplifier, ReshapeOfBroadcast) {
  EXPECT_EQ(Moved("x = f32[6] parameter(0)\n a = f32[4,6] broadcast(x), dimensions={1}\n"
                  "ROOT b = f32[2,2,3,2] reshape(a)"),
            "broadcast{2,3} f32[2,2,3,2](reshape f32[3,2](p0))");
  EXPECT_EQ(Moved("x = f32[] parameter(0)\n a = f32[4,6] broadcast(x), dimensions={}\n ROOT b = f32[24] reshape(a)"),
            "broadcast{} f32[24](p0)");
  // The repeated and the moved dimension become one: nothing to be done.
  EXPECT_EQ(Moved("x = f32[6] parameter(0)\n a = f32[4,6] broadcast(x), dimensions={1}\n ROOT b = f32[24] reshape(a)"),
            "reshape f32[24](broadcast{1} f32[4,6](p0))");
}

TEST(MovementSimplifier, Transposes) {
  EXPECT_EQ(Moved("x = f32[2,3,4] parameter(0)\n a = f32[4,2,3] transpose(x), dimensions={2,0,1}\n"
                  "ROOT b = f32[2,3,4] transpose(a), dimensions={1,2,0}"),
            "p0");
  EXPECT_EQ(Moved("x = f32[2,3,4] parameter(0)\n a = f32[4,2,3] transpose(x), dimensions={2,0,1}\n"
                  "ROOT b = f32[3,4,2] transpose(a), dimensions={2,0,1}"),
            "transpose{1,2,0} f32[3,4,2](p0)");
  EXPECT_EQ(Moved("x = f32[2,1,4] parameter(0)\n ROOT a = f32[1,2,4] transpose(x), dimensions={1,0,2}"),
            "reshape f32[1,2,4](p0)");
  EXPECT_EQ(Moved("x = f32[3] parameter(0)\n a = f32[2,3] broadcast(x), dimensions={1}\n"
                  "ROOT b = f32[3,2] transpose(a), dimensions={1,0}"),
            "broadcast{0} f32[3,2](p0)");
  EXPECT_EQ(Moved("x = f32[2,3] parameter(0)\n ROOT a = f32[3,2] transpose(x), dimensions={1,0}"),
            "transpose{1,0} f32[3,2](p0)");
}

// A stack of rows that becomes columns is a stack of columns; one that others read, or whose pieces would have to be
// transposed themselves, stays.
TEST(MovementSimplifier, TransposeOfStack) {
  const std::string rows =
      "x = f32[1,5] parameter(0)\n y = f32[1,5] parameter(1)\n c = f32[2,5] concatenate(x, y), dimensions={0}\n";
  EXPECT_EQ(Moved(rows + "ROOT t = f32[5,2] transpose(c), dimensions={1,0}"),
            "concatenate{1} f32[5,2](reshape f32[5,1](p0), reshape f32[5,1](p1))");
  EXPECT_EQ(Moved("x = f32[3,1,5] parameter(0)\n c = f32[3,2,5] concatenate(x, x), dimensions={1}\n"
                  "ROOT t = f32[2,3,5] transpose(c), dimensions={1,0,2}"),
            "concatenate{0} f32[2,3,5](reshape f32[1,3,5](p0), reshape f32[1,3,5](p0))");
  EXPECT_TRUE(Moved("x = f32[3,1,5] parameter(0)\n c = f32[3,2,5] concatenate(x, x), dimensions={1}\n"
                    "ROOT t = f32[2,5,3] transpose(c), dimensions={1,2,0}")
                  .starts_with("transpose{1,2,0}"));
  EXPECT_TRUE(Moved("x = f32[2,5] parameter(0)\n y = f32[1,5] parameter(1)\n"
                    "c = f32[3,5] concatenate(x, y), dimensions={0}\n ROOT t = f32[5,3] transpose(c), dimensions={1,0}")
                  .starts_with("transpose{1,0}"));
  EXPECT_TRUE(Moved(rows + "t = f32[5,2] transpose(c), dimensions={1,0}\n ROOT r = (f32[5,2], f32[2,5]) tuple(t, c)")
                  .contains("transpose{1,0}"));
}

// Grouped heads as jax.nn.dot_product_attention writes them: the maximum is taken before the scores are transposed.
TEST(MovementSimplifier, TransposeOfReduction) {
  constexpr std::string_view kText = R"(HloModule m
max {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }}
ENTRY main {{
  x = f32[2,3,5] parameter(0)
  low = f32[] constant(-inf)
  m = f32[2,3] reduce(x, low), dimensions={{2}}, to_apply=max
  t = f32[3,2] transpose(m), dimensions={{1,0}}
  b = f32[3,2,5] broadcast(t), dimensions={{0,1}}
  y = f32[{0}] transpose(x), dimensions={{{1}}}
  z = f32[3,2,5] {2}(y)
  ROOT d = f32[3,2,5] subtract(z, b)
}})";
  auto module = RunOn(Format(kText, "3,2,5", "1,0,2", "negate"), {"movement_simplifier", "cse"});
  ASSERT_NE(module, nullptr);
  ASSERT_EQ(Find(*module, Opcode::kTranspose).size(), 1u) << Expression(*module->entry()->root());
  const Instruction* reduce = Find(*module, Opcode::kReduce).front();
  EXPECT_EQ(reduce->operand(0), Find(*module, Opcode::kTranspose).front());
  // Another order of the rows is of no use.
  module = RunOn(Format(kText, "2,5,3", "0,2,1", "reshape"), {"movement_simplifier", "cse"});
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(Find(*module, Opcode::kReduce).front()->operand(0)->opcode(), Opcode::kParameter);
}

TEST(MovementSimplifier, Reverse) {
  EXPECT_EQ(Moved("x = f32[2,1] parameter(0)\n ROOT a = f32[2,1] reverse(x), dimensions={1}"), "p0");
  EXPECT_EQ(Moved("x = f32[2,3] parameter(0)\n a = f32[2,3] reverse(x), dimensions={0,1}\n"
                  "ROOT b = f32[2,3] reverse(a), dimensions={1}"),
            "reverse{0} f32[2,3](p0)");
  EXPECT_EQ(Moved("x = f32[3] parameter(0)\n a = f32[2,3] broadcast(x), dimensions={1}\n"
                  "ROOT b = f32[2,3] reverse(a), dimensions={0}"),
            "broadcast{1} f32[2,3](p0)");
}

TEST(MovementSimplifier, Slices) {
  EXPECT_EQ(Moved("x = f32[20] parameter(0)\n a = f32[6] slice(x), slice={[2:20:3]}\n"
                  "ROOT b = f32[2] slice(a), slice={[1:5:2]}"),
            "slice{5:12:6} f32[2](p0)");
  EXPECT_EQ(Moved("x = f32[20] parameter(0)\n ROOT a = f32[20] slice(x), slice={[0:20]}"), "p0");
  EXPECT_EQ(Moved("x = f32[3] parameter(0)\n y = f32[4] parameter(1)\n c = f32[7] concatenate(x, y), dimensions={0}\n"
                  "ROOT a = f32[2] slice(c), slice={[4:6]}"),
            "slice{1:3:1} f32[2](p1)");
  EXPECT_EQ(Moved("x = f32[3] parameter(0)\n y = f32[4] parameter(1)\n c = f32[7] concatenate(x, y), dimensions={0}\n"
                  "ROOT a = f32[3] slice(c), slice={[2:5]}"),
            "slice{2:5:1} f32[3](concatenate{0} f32[7](p0, p1))");
  EXPECT_EQ(Moved("x = f32[3] parameter(0)\n z = f32[] parameter(1)\n p = f32[9] pad(x, z), padding=2_4\n"
                  "ROOT a = f32[2] slice(p), slice={[3:5]}"),
            "slice{1:3:1} f32[2](p0)");
  EXPECT_EQ(Moved("x = f32[3] parameter(0)\n z = f32[] parameter(1)\n p = f32[9] pad(x, z), padding=2_4\n"
                  "ROOT a = f32[3] slice(p), slice={[6:9]}"),
            "broadcast{} f32[3](p1)");
}

TEST(MovementSimplifier, PadAndConcatenate) {
  EXPECT_EQ(Moved("x = f32[5] parameter(0)\n z = f32[] parameter(1)\n ROOT p = f32[5] pad(x, z), padding=0_0"), "p0");
  EXPECT_EQ(Moved("x = f32[5] parameter(0)\n z = f32[] parameter(1)\n ROOT p = f32[2] pad(x, z), padding=-1_-2"),
            "slice{1:3:1} f32[2](p0)");
  EXPECT_EQ(Moved("x = f32[5] parameter(0)\n ROOT c = f32[5] concatenate(x), dimensions={0}"), "p0");
  EXPECT_EQ(Moved("x = f32[8] parameter(0)\n a = f32[3] slice(x), slice={[0:3]}\n b = f32[5] slice(x), slice={[3:8]}\n"
                  "ROOT c = f32[8] concatenate(a, b), dimensions={0}"),
            "p0");
  EXPECT_EQ(
      Moved("x = f32[2] parameter(0)\n y = f32[3] parameter(1)\n z = f32[0] parameter(2)\n"
            "a = f32[5] concatenate(x, y), dimensions={0}\n ROOT b = f32[7] concatenate(a, z, x), dimensions={0}"),
      "concatenate{0} f32[7](p0, p1, p0)");
  // One that takes another twice would have its pieces twice, and the next one four times.
  EXPECT_EQ(Moved("x = f32[2] parameter(0)\n y = f32[3] parameter(1)\n a = f32[5] concatenate(x, y), dimensions={0}\n"
                  "ROOT b = f32[12] concatenate(a, x, a), dimensions={0}"),
            "concatenate{0} f32[12](concatenate{0} f32[5](p0, p1), p0, concatenate{0} f32[5](p0, p1))");
}

TEST(MovementSimplifier, DynamicSlices) {
  EXPECT_EQ(Moved("x = f32[8,4] parameter(0)\n i = s32[] constant(7)\n j = s32[] parameter(1)\n"
                  "ROOT s = f32[3,4] dynamic-slice(x, i, j), dynamic_slice_sizes={3,4}"),
            "slice{5:8:1,0:4:1} f32[3,4](p0)");
  EXPECT_EQ(Moved("x = f32[8,4] parameter(0)\n i = s32[] constant(-7)\n"
                  "ROOT s = f32[3,1] dynamic-slice(x, i, i), dynamic_slice_sizes={3,1}"),
            "slice{0:3:1,0:1:1} f32[3,1](p0)");
  EXPECT_EQ(Moved("x = f32[8,4] parameter(0)\n i = s32[] parameter(1)\n j = s32[] parameter(2)\n"
                  "ROOT s = f32[3,4] dynamic-slice(x, i, j), dynamic_slice_sizes={3,4}"),
            "dynamic-slice f32[3,4](p0, p1, s32[](0))");
  EXPECT_EQ(Moved("x = f32[8] parameter(0)\n u = f32[8] parameter(1)\n i = s32[] parameter(2)\n"
                  "ROOT s = f32[8] dynamic-update-slice(x, u, i)"),
            "p1");
}

TEST(MovementSimplifier, ReductionsOfNothing) {
  constexpr std::string_view kAdd =
      "HloModule m\n add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] add(a, b) }\n";
  auto reduce = [&](std::string_view body) {
    auto module = RunOn(std::string(kAdd) + "ENTRY main {\n" + std::string(body) + "\n}", {"movement_simplifier"});
    return module ? Expression(*module->entry()->root()) : "";
  };
  EXPECT_EQ(reduce("x = f32[3,1,4] parameter(0)\n z = f32[] constant(0)\n"
                   "ROOT r = f32[3,4] reduce(x, z), dimensions={1}, to_apply=add"),
            "reshape f32[3,4](p0)");
  EXPECT_EQ(reduce("x = f32[3,0] parameter(0)\n z = f32[] parameter(1)\n"
                   "ROOT r = f32[3] reduce(x, z), dimensions={1}, to_apply=add"),
            "broadcast{} f32[3](p1)");
  EXPECT_EQ(reduce("x = f32[3,2] parameter(0)\n z = f32[] constant(0)\n"
                   "ROOT r = f32[3] reduce(x, z), dimensions={1}, to_apply=add"),
            "reduce{1} f32[3](p0, f32[](0))");
}

TEST(MovementSimplifier, IotaAndEmpty) {
  EXPECT_EQ(Moved("ROOT x = s32[1,4] iota(), iota_dimension=0"), "broadcast{} s32[1,4](s32[](0))");
  EXPECT_EQ(Moved("x = s32[4] iota(), iota_dimension=0\n ROOT y = s32[1,4,1] reshape(x)"), "iota{1} s32[1,4,1]()");
  EXPECT_EQ(Moved("x = s32[4,2] iota(), iota_dimension=1\n ROOT y = s32[2,4] transpose(x), dimensions={1,0}"),
            "iota{0} s32[2,4]()");
  EXPECT_EQ(Moved("x = f32[0,3] parameter(0)\n ROOT y = f32[0,3] negate(x)"), "broadcast{} f32[0,3](f32[](0))");
}

}  // namespace
}  // namespace krafla
