// SPDX-License-Identifier: Apache-2.0
// Custom calls that a partitioner of their own cuts.
#include "api/group/custom_cuts.h"
#include "api/op_sharding.h"
#include "spmd_fixture.h"

namespace krafla {
namespace {

// Products of matrices of 4 x 8 and 8 x 4, "product": rows of the result stay as they are cut, and what is cut along
// the depth is added up. The second result is twice the first.
class Products final : public CustomCuts {
 public:
  bool Takes(std::string_view target) const override { return target == "product"; }
  Result<std::optional<std::string>> ResultSharding(std::string_view, const Call& call) const override {
    KRAFLA_ASSIGN(const std::string rows, ParseOpSharding(call.operand_shardings[0]));
    KRAFLA_ASSIGN(std::string both, SerializeOpSharding(Format("{{{0}, {0}}}", rows)));
    return both;
  }
  Result<Cut> Partition(std::string_view, const Call& call) const override {
    KRAFLA_ASSIGN(const std::string a, ParseOpSharding(call.operand_shardings[0]));
    KRAFLA_ASSIGN(const std::string b, ParseOpSharding(call.operand_shardings[1]));
    KRAFLA_ASSIGN(const std::string wish, ParseOpSharding(call.wish));
    asked += Format("{};{};{}", a, b, wish);
    if (fails) return Internal("No way.");
    KRAFLA_ASSIGN(const std::vector<Sharding> results, ParseShardings(wish, 4));
    KRAFLA_ASSIGN(const Sharding right, ParseSharding(b, 4));
    const Split depth = right.dim(0), rows = results[0].dim(0);
    Sharding left;
    left.dims = {rows, depth};
    Cut out;
    for (const std::string& one : {ShardingToText(left, 2, 4), b}) {
      KRAFLA_ASSIGN(out.operand_shardings.emplace_back(), SerializeOpSharding(one));
    }
    out.result_sharding = call.wish;
    if (forgets) out.operand_shardings.pop_back();
    out.program = Format(R"(HloModule product, num_partitions=4
sum {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }}
ENTRY e {{ a = f32[{0},{1}] parameter(0)
  b = f32[{1},{2}] parameter(1)
  d = f32[{0},{2}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  s = f32[{0},{2}] all-reduce(d), channel_id=1, replica_groups={3}, use_global_device_ids=true, to_apply=sum
  t = f32[{0},{2}] add(s, s)
  ROOT r = (f32[{0},{2}], f32[{0},{2}]) tuple(s, t) }})",
                         4 / rows.count, 8 / depth.count, wrong_block ? 5 : 4,
                         depth.count == 2 ? "{{0,2},{1,3}}" : "{{0},{1},{2},{3}}");
    return out;
  }

  mutable std::string asked;
  bool fails = false, forgets = false, wrong_block = false;
};

std::string ProductBy(std::string_view rule) {
  return Replaced(R"(HloModule m, num_partitions=4
ENTRY e { a = f32[4,8] parameter(0), sharding={devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}
  b = f32[8,4] parameter(1), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
  c = (f32[4,4], f32[4,4]) custom-call(a, b), custom_call_target="product"RULE
  x = f32[4,4] get-tuple-element(c), index=0
  y = f32[4,4] get-tuple-element(c), index=1
  z = f32[4,4] subtract(y, x)
  ROOT r = (f32[4,4], f32[4,4]) tuple(x, z) })",
                  "RULE", std::string(rule));
}

class SpmdCustom : public Spmd {
 protected:
  // The first result of each device, put together; nothing where the program is refused.
  Result<std::vector<float>> Product(std::string_view rule, std::string* sharding) {
    KRAFLA_ASSIGN(auto module, ParseHloText(ProductBy(rule), "test"));
    GroupOptions options;
    options.custom_cuts = &products_;
    KRAFLA_ASSIGN(auto executable, group_->Compile(std::move(module), {}, options));
    *sharding = executable->result_shardings()[0];
    const std::vector<Literal> all = Arguments();
    for (int64_t d = 0; d < 4; ++d) {
      std::vector<Literal> blocks;
      for (std::size_t p = 0; p < 2; ++p)
        blocks.push_back(*BlockOf(all[p], *ParseSharding(executable->parameter_shardings()[p], 4), d));
      const Literal* pointers[] = {&blocks[0], &blocks[1]};
      KRAFLA_TRY(executable->SetArguments(d, pointers));
    }
    KRAFLA_TRY(executable->Execute());
    std::vector<float> out;
    for (const int64_t d : {0, 1}) {  // these have the two halves of the rows
      KRAFLA_ASSIGN(const std::vector<Literal> results, executable->Results(d));
      EXPECT_TRUE(std::ranges::equal(results[0].data<float>(), results[1].data<float>()));
      out.insert(out.end(), results[0].data<float>().begin(), results[0].data<float>().end());
    }
    return out;
  }
  static std::vector<float> Expected() {
    const std::vector<Literal> all = Arguments();
    std::vector<float> out(16);
    for (std::size_t i = 0; i < 4; ++i)
      for (std::size_t j = 0; j < 4; ++j)
        for (std::size_t k = 0; k < 8; ++k)
          out[i * 4 + j] += all[0].data<float>()[i * 8 + k] * all[1].data<float>()[k * 4 + j];
    return out;
  }

  Products products_;
};

constexpr std::string_view kCutByRows = "{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}";
constexpr std::string_view kCutByDepth = "{devices=[2,1,2]<=[4] last_tile_dim_replicate}";

TEST_F(SpmdCustom, AskedForItsResults) {
  std::string sharding;
  const auto product = Product("", &sharding);
  ASSERT_TRUE(product) << product.error().message();
  EXPECT_EQ(*product, Expected());
  EXPECT_EQ(sharding, kCutByRows);
  EXPECT_EQ(products_.asked, Format("{0};{1};{{{0}, {0}}}", kCutByRows, kCutByDepth));
}

TEST_F(SpmdCustom, ByARule) {
  std::string sharding;
  const auto product = Product(
      R"(, frontend_attributes={xla.sdy.sharding_rule="#sdy.op_sharding_rule<([i, k], [k, j])->([i, j], [i, j]) {i=4, j=4, k=8} reduction={k}, custom>"})",
      &sharding);
  ASSERT_TRUE(product) << product.error().message();
  EXPECT_EQ(*product, Expected());
  EXPECT_EQ(sharding, kCutByRows);
  products_.asked.clear();
  // Rows that must not be cut.
  const auto whole = Product(
      R"(, frontend_attributes={xla.sdy.sharding_rule="#sdy.op_sharding_rule<([i, k], [k, j])->([i, j], [i, j]) {i=4, j=4, k=8} need_replication={i}, custom>"})",
      &sharding);
  ASSERT_TRUE(whole) << whole.error().message();
  EXPECT_EQ(sharding, "{replicated}");
  EXPECT_EQ(products_.asked, Format("{0};{1};{{{{replicated}}, {{replicated}}}}", kCutByRows, kCutByDepth));
}

TEST_F(SpmdCustom, WhatIsWrongIsRefused) {
  std::string sharding;
  products_.fails = true;
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "No way.", Product("", &sharding).error().message());
  products_.fails = false;
  products_.forgets = true;
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "gives 1 and 2 shardings for 2 operands and 2 results",
                      Product("", &sharding).error().message());
  products_.forgets = false;
  products_.wrong_block = true;
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "does not take the operands' blocks",
                      Product("", &sharding).error().message());
  products_.wrong_block = false;
  EXPECT_PRED_FORMAT2(
      ::testing::IsSubstring, "rule is of 1 operands and 2 results",
      Product(
          R"(, frontend_attributes={xla.sdy.sharding_rule="#sdy.op_sharding_rule<([i, k])->([i, j], [i, j]) {i=4, j=4, k=8}>"})",
          &sharding)
          .error()
          .message());
}

}  // namespace
}  // namespace krafla
