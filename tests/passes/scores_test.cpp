// SPDX-License-Identifier: Apache-2.0
// Scores of attention where there is a gradient: in which order of dimensions they are, and that they are computed
// again.
#include "pass_harness.h"

namespace krafla {
namespace {

constexpr std::string_view kSums = R"(HloModule m
add { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = f32[] add(a, b) }
)";

// What a product of the exponentials of scores makes, over the sum of a row, and `gradient`, which is made of it.
std::string Scores(int64_t n, std::string_view gradient) {
  return Format(R"({0}ENTRY main {{
 q = f32[{1},8] parameter(0)
 k = f32[{1},8] parameter(1)
 s = f32[{1},{1}] dot(q, k), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
 e = f32[{1},{1}] exponential(s)
 z = f32[] constant(0)
 total = f32[{1}] reduce(e, z), dimensions={{1}}, to_apply=add
 totals = f32[{1},{1}] broadcast(total), dimensions={{0}}
 p = f32[{1},{1}] divide(e, totals)
 o = f32[{1},8] dot(p, k), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
 {2}
}})",
                kSums, n, gradient);
}

TEST(ProductRecomputer, GradientsComputeScoresAgain) {
  const std::string text =
      Scores(4096, "ROOT g = f32[4096,8] dot(e, o), lhs_contracting_dims={0}, rhs_contracting_dims={0}");
  auto module = RunOn(text, {"product_recomputer"});
  ASSERT_NE(module, nullptr);
  const Instruction *gradient = module->entry()->root(), *again = gradient->operand(0)->operand(0);
  const Instruction* forward = gradient->operand(1);
  ASSERT_EQ(again->opcode(), Opcode::kDot);
  const Instruction* scores = forward->operand(0)->operand(0)->operand(0);
  ASSERT_EQ(scores->opcode(), Opcode::kDot);
  EXPECT_NE(again, scores);
  EXPECT_EQ(again->operand(0), scores->operand(0));
  // Fusion would make one kernel of both otherwise.
  ASSERT_EQ(again->control_predecessors().size(), 1u);
  EXPECT_EQ(again->control_predecessors()[0], forward);
  // Once more changes nothing: each copy is read where it is made.
  EXPECT_EQ(Find(*module, Opcode::kDot).size(), 4u);
  auto twice = RunOn(text, {"product_recomputer", "product_recomputer"});
  ASSERT_NE(twice, nullptr);
  EXPECT_EQ(Find(*twice, Opcode::kDot).size(), 4u);
}

TEST(ProductRecomputer, OthersAreKept) {
  const auto dots = [](std::string_view text) {
    auto module = RunOn(text, {"product_recomputer"});
    return module ? Find(*module, Opcode::kDot).size() : 0;
  };
  // Of a hidden layer nothing is reduced.
  EXPECT_EQ(dots(R"(HloModule m
ENTRY main {
 q = f32[4096,8] parameter(0)
 k = f32[4096,8] parameter(1)
 s = f32[4096,4096] dot(q, k), lhs_contracting_dims={1}, rhs_contracting_dims={1}
 e = f32[4096,4096] tanh(s)
 o = f32[4096,8] dot(e, k), lhs_contracting_dims={1}, rhs_contracting_dims={0}
 ROOT g = f32[4096,8] dot(e, o), lhs_contracting_dims={0}, rhs_contracting_dims={0}
})"),
            3u);
  // Small ones.
  EXPECT_EQ(dots(Scores(512, "ROOT g = f32[512,8] dot(e, o), lhs_contracting_dims={0}, rhs_contracting_dims={0}")), 3u);
  // What no other product comes before.
  EXPECT_EQ(dots(Scores(4096, "ROOT g = f32[4096,8] dot(e, q), lhs_contracting_dims={0}, rhs_contracting_dims={0}")),
            3u);
  // What lies in memory as a result.
  EXPECT_EQ(dots(Scores(4096,
                        "g = f32[4096,8] dot(e, o), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
                        "ROOT t = (f32[4096,4096], f32[4096,8]) tuple(e, g)")),
            3u);
  // What is reduced of them is computed again as well.
  EXPECT_EQ(dots(Scores(4096,
                        "l = f32[4096] reduce(e, z), dimensions={1}, to_apply=add\n"
                        "lb = f32[4096,8] broadcast(l), dimensions={0}\n ROOT g = f32[4096,8] add(lb, o)")),
            3u);
}

// Three heads of queries in front of two heads of keys, whose gradient sums over the rows of all three.
std::string Grouped(std::string_view gradient) {
  return Format(R"({}ENTRY main {{
 q = f32[2,1024,3,8] parameter(0)
 k = f32[2,1024,8] parameter(1)
 s = f32[2,1024,3,1024] dot(q, k), lhs_batch_dims={{0}}, lhs_contracting_dims={{3}}, rhs_batch_dims={{0}}, rhs_contracting_dims={{2}}
 t = f32[3,2,1024,1024] transpose(s), dimensions={{2,0,1,3}}
 z = f32[] constant(0)
 l = f32[3,2,1024] reduce(t, z), dimensions={{3}}, to_apply=add
 lb = f32[3,2,1024,1024] broadcast(l), dimensions={{0,1,2}}
 p = f32[3,2,1024,1024] divide(t, lb)
 {}
}})",
                kSums, gradient);
}

TEST(ScoreOrder, BatchThenRowsThenColumns) {
  auto module = RunOn(
      Grouped("ROOT g = f32[2,1024,8] dot(p, q), lhs_batch_dims={1}, lhs_contracting_dims={0,2}, rhs_batch_dims={0}, "
              "rhs_contracting_dims={2,1}"),
      {"score_order", "movement_simplifier", "dce"});
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(Expression(*module->entry()->root()).find("f32[3,2,1024"), std::string::npos)
      << Expression(*module->entry()->root());
  const Instruction* p = module->entry()->root()->operand(0);
  EXPECT_EQ(p->opcode(), Opcode::kDivide);
  EXPECT_EQ(p->shape().dims(), Dims({2, 3, 1024, 1024}));
  EXPECT_EQ(Find(*module, Opcode::kTranspose).size(), 1u) << "of the scores, where they are made";
  const auto& a = module->entry()->root()->attr<DotAttributes>();
  EXPECT_EQ(a.lhs_contracting, Dims({1, 2}));
  EXPECT_EQ(a.lhs_batch, Dims({0}));
}

// The rows that a product keeps are in another order, and its result is transposed.
TEST(ScoreOrder, RowsOfProducts) {
  auto module =
      RunOn(Grouped("g = f32[2,1024,8] dot(p, q), lhs_batch_dims={1}, lhs_contracting_dims={0,2}, rhs_batch_dims={0}, "
                    "rhs_contracting_dims={2,1}\n u = f32[2,1024,3,1024] transpose(p), dimensions={1,2,0,3}\n"
                    "o = f32[2,1024,3,8] dot(u, k), lhs_batch_dims={0}, lhs_contracting_dims={3}, rhs_batch_dims={0}, "
                    "rhs_contracting_dims={1}\n ROOT r = (f32[2,1024,8], f32[2,1024,3,8]) tuple(g, o)"),
            {"score_order", "movement_simplifier", "dce"});
  ASSERT_NE(module, nullptr);
  const Instruction* o = module->entry()->root()->operand(1);
  ASSERT_EQ(o->opcode(), Opcode::kTranspose);
  EXPECT_EQ(o->operand(0)->shape().dims(), Dims({2, 3, 1024, 8}));
  EXPECT_EQ(o->operand(0)->operand(0), module->entry()->root()->operand(0)->operand(0));
}

// Without a sum over rows there is nothing to be gained.
TEST(ScoreOrder, OthersKeepTheirOrder) {
  auto module = RunOn(Grouped("ROOT o = f32[2,3,1024,8] dot(p, k), lhs_batch_dims={1}, lhs_contracting_dims={3}, "
                              "rhs_batch_dims={0}, rhs_contracting_dims={1}"),
                      {"score_order"});
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(module->entry()->root()->operand(0)->shape().dims(), Dims({3, 2, 1024, 1024}));
}

}  // namespace
}  // namespace krafla
