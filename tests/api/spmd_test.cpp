// SPDX-License-Identifier: Apache-2.0
// Programs over several devices that are not partitioned yet: what they give, put together, is what
// the program gives on one device.
#include <algorithm>
#include <random>

#include "hlo_io/hlo_text/hlo_text.h"
#include "hlo_io/read_module.h"
#include "ir/sharding.h"
#include "passes/spmd/spmd_partitioner.h"
#include "spmd_fixture.h"

namespace krafla {
namespace {

constexpr std::string_view kHelpers = R"(
pairs { a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=LT }
turn { p = (s32[], f32[4,8], f32[4,8]) parameter(0)
  n = s32[] get-tuple-element(p), index=0
  x = f32[4,8] get-tuple-element(p), index=1
  y = f32[4,8] get-tuple-element(p), index=2
  one = s32[] constant(1)
  m = s32[] add(n, one)
  z = f32[4,8] add(x, y)
  ROOT r = (s32[], f32[4,8], f32[4,8]) tuple(m, z, x) }
goes_on { p = (s32[], f32[4,8], f32[4,8]) parameter(0)
  n = s32[] get-tuple-element(p), index=0
  three = s32[] constant(3)
  ROOT r = pred[] compare(n, three), direction=LT }
twice { x = f32[4,8] parameter(0)
  ROOT r = f32[4,8] add(x, x) }
square { x = f32[4,8] parameter(0)
  ROOT r = f32[4,8] multiply(x, x) }
)";

struct Program {
  const char* name;
  const char* body;  // of parameters a: f32[4,8], b: f32[8,4], c: f32[4,8,4], d: f32[4,4,4,8]; with
                     // a line for ROOT
};

const Program kPrograms[] = {
    {"elementwise", "x = f32[4,8] add(a, a)\n ROOT r = f32[4,8] multiply(x, a)"},
    {"two_shardings", "t = f32[4,8] transpose(b), dimensions={1,0}\n ROOT r = f32[4,8] subtract(a, t)"},
    {"select",
     "p = pred[4,8] compare(a, a), direction=GT\n n = f32[4,8] negate(a)\n ROOT r = f32[4,8] "
     "select(p, a, n)"},
    {"clamp", "lo = f32[] constant(-1)\n hi = f32[] constant(2)\n ROOT r = f32[4,8] clamp(lo, a, hi)"},
    {"dot", "ROOT r = f32[4,4] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
    {"dot_itself", "ROOT r = f32[8,8] dot(a, a), lhs_contracting_dims={0}, rhs_contracting_dims={0}"},
    {"dot_batch",
     "ROOT r = f32[4,8,4,8] dot(c, d), lhs_batch_dims={0}, rhs_batch_dims={0}, "
     "lhs_contracting_dims={2}, rhs_contracting_dims={1}"},
    {"mlp",
     "h = f32[4,4] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n z = f32[] "
     "constant(0)\n"
     "zs = f32[4,4] broadcast(z), dimensions={}\n g = f32[4,4] maximum(h, zs)\n"
     "ROOT r = f32[4,8] dot(g, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
    {"reduce_rows", "z = f32[] constant(0)\n ROOT r = f32[8] reduce(a, z), dimensions={0}, to_apply=sum"},
    {"reduce_all", "z = f32[] constant(0)\n ROOT r = f32[] reduce(c, z), dimensions={0,1,2}, to_apply=sum"},
    {"reduce_from_three", "z = f32[] constant(3)\n ROOT r = f32[4] reduce(a, z), dimensions={1}, to_apply=sum"},
    {"reduce_max", "z = f32[] constant(1)\n ROOT r = f32[4,4] reduce(c, z), dimensions={1}, to_apply=larger"},
    {"softmax_like",
     "z = f32[] constant(-inf)\n m = f32[4] reduce(a, z), dimensions={1}, to_apply=larger\n"
     "bm = f32[4,8] broadcast(m), dimensions={0}\n ROOT r = f32[4,8] subtract(a, bm)"},
    {"broadcast", "ROOT r = f32[3,4,8] broadcast(a), dimensions={1,2}"},
    {"transpose", "ROOT r = f32[4,4,8] transpose(c), dimensions={2,0,1}"},
    {"reshape_part", "ROOT r = f32[2,2,8] reshape(a)"},
    {"reshape_melt", "ROOT r = f32[32,4] reshape(c)"},
    {"reshape_ones", "ROOT r = f32[1,4,1,8] reshape(a)"},
    {"reshape_odd", "ROOT r = f32[16,2] reshape(a)"},
    {"concatenate", "ROOT r = f32[4,16] concatenate(a, a), dimensions={1}"},
    {"slice", "ROOT r = f32[4,3] slice(a), slice={[0:4], [2:5]}"},
    {"pad", "z = f32[] constant(7)\n ROOT r = f32[4,11] pad(a, z), padding=0_0x1_2"},
    {"reverse", "ROOT r = f32[4,8] reverse(a), dimensions={1}"},
    {"reverse_both", "x = f32[4,8] reverse(a), dimensions={1,0}\n ROOT r = f32[4,8] add(x, a)"},
    {"positions",
     "i = u32[4,8] iota(), iota_dimension=1\n j = u32[4,8] iota(), iota_dimension=0\n k = u32[4,8] xor(i, j)\n"
     "s = u32[] constant(3)\n t = u32[4,8] broadcast(s), dimensions={}\n m = u32[4,8] multiply(k, t)\n"
     "f = f32[4,8] convert(m)\n x = f32[4,8] custom-call(f), custom_call_target=\"Sharding\", sharding=@S\n"
     "ROOT r = f32[4,8] add(x, a)"},
    {"positions_reshaped",
     "i = f32[32] iota(), iota_dimension=0\n j = f32[32] multiply(i, i)\n k = f32[8,1,4] reshape(j)\n"
     "t = f32[4,8,1] transpose(k), dimensions={2,0,1}\n u = f32[4,8] reshape(t)\n ROOT r = f32[4,8] add(u, a)"},
    {"positions_broadcast",
     "i = f32[8] iota(), iota_dimension=0\n j = f32[8] add(i, i)\n k = f32[4,8,4] broadcast(j), dimensions={1}\n"
     "ROOT r = f32[4,8,4] multiply(k, c)"},
    {"alike",
     "i = f32[4,8] iota(), iota_dimension=1\n"
     "g = () custom-call(i), custom_call_target=\"xla.sdy.ShardingGroup\", custom_call_has_side_effect=true, "
     "frontend_attributes={xla.sdy.sharding_group_id=\"0 : i64\"}\n"
     "h = () custom-call(a), custom_call_target=\"xla.sdy.ShardingGroup\", custom_call_has_side_effect=true, "
     "frontend_attributes={xla.sdy.sharding_group_id=\"0 : i64\"}\n"
     "x = f32[4,8] add(i, i)\n ROOT r = (f32[4,8], f32[4,8], f32[4,8]) tuple(i, a, x)"},
    {"dynamic_slice", "i = s32[] constant(2)\n ROOT r = f32[4,3] dynamic-slice(a, i, i), dynamic_slice_sizes={4,3}"},
    {"dynamic_update",
     "i = s32[] constant(3)\n s = f32[4,2] slice(a), slice={[0:4], [0:2]}\n"
     "ROOT r = f32[4,8] dynamic-update-slice(a, s, i, i)"},
    {"sort", "ROOT r = f32[4,8] sort(a), dimensions={1}, to_apply=less"},
    {"sort_pairs",
     "i = s32[4,8] iota(), iota_dimension=0\n"
     "ROOT r = (f32[4,8], s32[4,8]) sort(a, i), dimensions={0}, is_stable=true, to_apply=pairs"},
    {"iota", "i = f32[4,8] iota(), iota_dimension=1\n ROOT r = f32[4,8] add(i, a)"},
    {"window",
     "z = f32[] constant(0)\n ROOT r = f32[4,7] reduce-window(a, z), window={size=1x2}, "
     "to_apply=sum"},
    {"convolution",
     "k = f32[3,3,8,2] slice(e), slice={[0:3], [0:3], [0:8], [0:2]}\n"
     "ROOT r = f32[4,4,4,2] convolution(d, k), window={size=3x3 pad=1_1x1_1}, "
     "dim_labels=b01f_01io->b01f"},
    {"convolution_strided",
     "k = f32[2,4,8,2] slice(e), slice={[0:2], [0:4], [0:8], [0:2]}\n"
     "ROOT r = f32[4,2,2,2] convolution(d, k), window={size=2x4 stride=2x2 pad=0_0x1_1}, "
     "dim_labels=b01f_01io->b01f"},
    {"window_same",
     "z = f32[] constant(-5)\n ROOT r = f32[4,8] reduce-window(a, z), window={size=1x4 pad=0_0x2_1}, to_apply=larger"},
    {"window_strided",
     "z = f32[] constant(2)\n ROOT r = f32[2,4] reduce-window(a, z), window={size=2x3 stride=2x2 pad=0_0x1_0}, "
     "to_apply=larger"},
    {"convolution_kernel",
     "ROOT r = f32[8,3,3,8] convolution(d, d), window={size=4x4 pad=1_1x1_1}, "
     "dim_labels=f01b_i01o->b01f"},
    {"gather_rows",
     "i = s32[4] constant({3, 0, 1, 1})\n"
     "ROOT r = f32[4,8] gather(a, i), offset_dims={1}, collapsed_slice_dims={0}, "
     "start_index_map={0}, index_vector_dim=1, slice_sizes={1,8}"},
    {"gather_batch",
     "x = s32[4,8] convert(a)\n m = s32[4,1] slice(x), slice={[0:4], [0:1]}\n"
     "ROOT r = f32[4,1] gather(a, m), offset_dims={1}, collapsed_slice_dims={}, "
     "operand_batching_dims={0}, "
     "start_indices_batching_dims={0}, start_index_map={1}, index_vector_dim=1, slice_sizes={1,1}"},
    {"scatter_add",
     "i = s32[4] constant({3, 0, 1, 1})\n z = f32[] constant(0)\n t = f32[5,8] broadcast(z), "
     "dimensions={}\n"
     "ROOT r = f32[5,8] scatter(t, i, a), update_window_dims={1}, inserted_window_dims={0}, "
     "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum"},
    {"scatter_max",
     "i = s32[4] constant({2, 0, 1, 1})\n"
     "ROOT r = f32[4,8] scatter(a, i, a), update_window_dims={1}, inserted_window_dims={0}, "
     "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=larger"},
    {"scatter_batch",
     "x = s32[4,8] convert(a)\n m = s32[4,1] slice(x), slice={[0:4], [0:1]}\n v = f32[4,1] "
     "convert(m)\n"
     "ROOT r = f32[4,8] scatter(a, m, v), update_window_dims={1}, inserted_window_dims={}, "
     "input_batching_dims={0}, scatter_indices_batching_dims={0}, "
     "scatter_dims_to_operand_dims={1}, "
     "index_vector_dim=1, to_apply=sum"},
    {"while",
     "n = s32[] constant(0)\n z = f32[] constant(1)\n ones = f32[4,8] broadcast(z), dimensions={}\n"
     "s = (s32[], f32[4,8], f32[4,8]) tuple(n, a, ones)\n w = (s32[], f32[4,8], f32[4,8]) "
     "while(s), condition=goes_on, body=turn\n"
     "ROOT r = f32[4,8] get-tuple-element(w), index=1"},
    {"call", "ROOT r = f32[4,8] call(a), to_apply=twice"},
    {"conditional",
     "z = f32[] constant(0)\n s = f32[] reduce(a, z), dimensions={0,1}, to_apply=sum\n p = pred[] "
     "compare(s, z), direction=GT\n"
     "ROOT r = f32[4,8] conditional(p, a, a), true_computation=twice, false_computation=square"},
    {"constraint",
     "x = f32[4,8] custom-call(a), custom_call_target=\"Sharding\", sharding=@S\n ROOT r = "
     "f32[4,8] add(x, a)"},
    // Of upper triangles, which are exact.
    {"decompositions",
     "rows = s32[4,8,4] iota(), iota_dimension=1\n columns = s32[4,8,4] iota(), iota_dimension=2\n"
     "above = pred[4,8,4] compare(rows, columns), direction=LE\n on = pred[4,8,4] compare(rows, columns), direction=EQ\n"
     "z = f32[] constant(0)\n zs = f32[4,8,4] broadcast(z), dimensions={}\n t = f32[] constant(10)\n"
     "ts = f32[4,8,4] broadcast(t), dimensions={}\n x = f32[4,8,4] select(above, c, zs)\n y = f32[4,8,4] select(on, ts, zs)\n"
     "m = f32[4,8,4] add(x, y)\n"
     "l = (f32[4,8,4], s32[4,4], s32[4,8]) custom-call(m), custom_call_target=\"LuDecomposition\"\n"
     "u = f32[4,8,4] get-tuple-element(l), index=0\n p = s32[4,8] get-tuple-element(l), index=2\n"
     "ROOT r = (f32[4,8,4], s32[4,8]) tuple(u, p)"},
    {"top_k", "ROOT r = (f32[4,3], s32[4,3]) custom-call(a), custom_call_target=\"TopK\""},
    {"two_results", "x = f32[4,8] add(a, a)\n y = f32[8,4] negate(b)\n ROOT r = (f32[4,8], f32[8,4]) tuple(x, y)"},
};

// Over four devices, at random: which dimension, in how many blocks, in which order of devices.
std::string RandomSharding(std::mt19937& random, std::size_t rank) {
  if (random() % 5 == 0) return "{replicated}";
  std::string tile;
  int64_t left = 4;
  const std::size_t first = random() % rank;
  std::vector<int64_t> counts(rank, 1);
  counts[first] = random() % 2 == 0 ? 2 : 4;
  left /= counts[first];
  if (left > 1 && rank > 1 && random() % 2 == 0) {
    counts[(first + 1) % rank] = 2;
    left = 1;
  }
  for (int64_t c : counts) tile += (tile.empty() ? "" : ",") + std::to_string(c);
  if (left > 1) tile += ",2";
  constexpr const char* kOrders[] = {"<=[4]", "<=[2,2]T(1,0)", "3,1,0,2"};
  return "{devices=[" + tile + "]" + kOrders[random() % 3] + (left > 1 ? " last_tile_dim_replicate}" : "}");
}

TEST_F(Spmd, GivesWhatOneDeviceGives) {
  const std::vector<Literal> arguments = Arguments();
  std::mt19937 random(20);
  int64_t cut_results = 0;
  for (const Program& program : kPrograms) {
    std::vector<Literal> expected;
    for (int round = 0; round < 8; ++round) {
      std::string parameters;
      for (std::size_t p = 0; p < std::size(kSpmdParameters); ++p) {
        const SpmdParameter& q = kSpmdParameters[p];
        std::string dims;
        for (int64_t d : q.dims) dims += (dims.empty() ? "" : ",") + std::to_string(d);
        parameters += std::string(q.name) + " = f32[" + dims + "] parameter(" + std::to_string(p) + ")";
        if (round > 0) parameters += ", sharding=" + RandomSharding(random, q.dims.size());
        parameters += "\n";
      }
      const std::string body = Replaced(program.body, "@S", RandomSharding(random, 2));
      const std::string text = "HloModule m, num_partitions=" + std::string(round == 0 ? "1" : "4") +
                               std::string(kScalarComputations) + std::string(kHelpers) + "ENTRY main {\n" +
                               parameters + body + "\n}\n";
      SCOPED_TRACE(std::string(program.name) + ":\n" + parameters + body);
      auto module = ParseHloText(text, "test");
      ASSERT_TRUE(module) << module.error().message();
      auto executable = group_->Compile(std::move(*module), {});
      ASSERT_TRUE(executable) << executable.error().message();
      const auto& in = (*executable)->parameter_shardings();
      const auto& out = (*executable)->result_shardings();
      ASSERT_EQ(in.size(), round > 0 ? arguments.size() : 0);
      const int64_t devices = round == 0 ? 1 : 4;
      for (int64_t d = 0; d < devices; ++d) {
        std::vector<Literal> blocks;
        for (std::size_t p = 0; p < arguments.size(); ++p)
          blocks.push_back(*BlockOf(arguments[p], round == 0 ? Sharding() : *ParseSharding(in[p], 4), d));
        std::vector<const Literal*> pointers;
        for (const Literal& b : blocks) pointers.push_back(&b);
        auto set = (*executable)->SetArguments(d, pointers);
        ASSERT_TRUE(set) << set.error().message();
      }
      auto ran = (*executable)->Execute();
      ASSERT_TRUE(ran) << ran.error().message();
      for (int64_t d = 0; d < devices; ++d) {
        auto results = (*executable)->Results(d);
        ASSERT_TRUE(results) << results.error().message();
        if (round == 0) {
          expected = std::move(*results);
          continue;
        }
        ASSERT_EQ(results->size(), expected.size());
        for (std::size_t r = 0; r < results->size(); ++r) {
          const Sharding sharding = *ParseSharding(out[r], 4);
          cut_results += !sharding.IsReplicated();
          EXPECT_EQ((*results)[r], *BlockOf(expected[r], sharding, d))
              << "result " << r << " of device " << d << " " << out[r];
        }
      }
    }
  }
  EXPECT_GT(cut_results, 300);  // shardings do reach the results
}

// Results in shardings that are asked for, also such as do not divide a dimension; parameters
// likewise.
TEST_F(Spmd, UnevenBlocks) {
  auto module = ParseHloText(R"(
HloModule m, num_partitions=4
ENTRY main {
  a = f32[6,3] parameter(0), sharding={devices=[4,1]<=[4]}
  x = f32[6,3] add(a, a)
  t = f32[3,6] transpose(x), dimensions={1,0}
  ROOT r = (f32[6,3], f32[3,6]) tuple(x, t), sharding={{devices=[2,2]<=[4]}, {devices=[4,1]3,2,1,0}}
}
)",
                             "test");
  ASSERT_TRUE(module) << module.error().message();
  auto executable = group_->Compile(std::move(*module), {});
  ASSERT_TRUE(executable) << executable.error().message();
  EXPECT_EQ((*executable)->arguments()[0].dims(), (Dims{2, 3}));
  EXPECT_EQ((*executable)->results()[0].dims(), (Dims{3, 2}));
  EXPECT_EQ((*executable)->results()[1].dims(), (Dims{1, 6}));
  std::vector<float> values(18), sums(18), turned(18);
  for (std::size_t i = 0; i < 18; ++i) {
    values[i] = static_cast<float>(i + 1);
    sums[i] = 2 * values[i];
    turned[i % 3 * 6 + i / 3] = sums[i];
  }
  auto literal = [](Dims dims, const std::vector<float>& v) {
    return *Literal::FromBytes(*Shape::MakeArray(ElementType::kF32, dims), std::as_bytes(std::span(v)));
  };
  for (int64_t d = 0; d < 4; ++d) {
    Literal block = *BlockOf(literal({6, 3}, values), *ParseSharding((*executable)->parameter_shardings()[0], 4), d);
    const Literal* pointer = &block;
    ASSERT_TRUE((*executable)->SetArguments(d, {&pointer, 1}));
  }
  ASSERT_TRUE((*executable)->Execute());
  for (int64_t d = 0; d < 4; ++d) {
    auto results = *(*executable)->Results(d);
    EXPECT_EQ(results[0], *BlockOf(literal({6, 3}, sums), *ParseSharding("{devices=[2,2]<=[4]}", 4), d));
    EXPECT_EQ(results[1], *BlockOf(literal({3, 6}, turned), *ParseSharding("{devices=[4,1]3,2,1,0}", 4), d));
  }
}

Result<> CompileOnly(DeviceGroup& group, std::string_view text) {
  KRAFLA_ASSIGN(auto module, ParseHloText(text, "test"));
  KRAFLA_TRY(group.Compile(std::move(module), {}));
  return {};
}

TEST_F(Spmd, WhatIsWrong) {
  auto message = [&](std::string_view sharding, std::string_view rest) {
    auto compiled = CompileOnly(
        *group_, Format("HloModule m, num_partitions=4\nENTRY main {{\n a = f32[4,8] parameter(0){}\n {}\n}}\n",
                        sharding, rest));
    return compiled ? std::string("compiled") : compiled.error().message();
  };
  EXPECT_NE(message(", sharding={devices=[2,1]<=[2]}", "ROOT r = f32[4,8] add(a, a)").find("names 2 devices"),
            std::string::npos);
  EXPECT_NE(message(", sharding={devices=[2,1,2]<=[4]}", "ROOT r = f32[4,8] add(a, a)").find("has 3 dimensions"),
            std::string::npos);
  EXPECT_NE(message("",
                    "ROOT r = f32[2,8] custom-call(a), custom_call_target=\"Sharding\", "
                    "sharding={replicated}")
                .find("cannot turn"),
            std::string::npos);
  EXPECT_NE(message("", "ROOT r = f32[1,8] custom-call(a), custom_call_target=\"xla.sdy.GlobalToLocalShape\"")
                .find("sharding"),
            std::string::npos);
  EXPECT_NE(message("",
                    "x = f32[4,8] custom-call(a), custom_call_target=\"Sharding\", "
                    "sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}\n"
                    "y = f32[3,8] custom-call(x), custom_call_target=\"SPMDFullToShardShape\", "
                    "sharding={manual}\n"
                    "ROOT r = f32[3,8] add(y, y)")
                .find("manual computation"),
            std::string::npos);
}

// GSPMD's way to say what Shardy calls a manual computation.
TEST_F(Spmd, ManualRegionOfGspmd) {
  auto module = ParseHloText(R"(
HloModule m, num_partitions=4
ENTRY main {
  a = f32[4,2] parameter(0)
  s = f32[4,2] custom-call(a), custom_call_target="Sharding", sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
  l = f32[2,2] custom-call(s), custom_call_target="SPMDFullToShardShape", sharding={manual}
  id = u32[] partition-id()
  f = f32[] convert(id)
  b = f32[2,2] broadcast(f), dimensions={}
  x = f32[2,2] add(l, b)
  m = f32[2,2] custom-call(x), custom_call_target="Sharding", sharding={manual}
  ROOT g = f32[4,4] custom-call(m), custom_call_target="SPMDShardToFullShape", sharding={devices=[2,2]<=[4]}
}
)",
                             "test");
  ASSERT_TRUE(module) << module.error().message();
  auto executable = group_->Compile(std::move(*module), {});
  ASSERT_TRUE(executable) << executable.error().message();
  EXPECT_EQ((*executable)->parameter_shardings()[0], "{devices=[2,1,2]<=[4] last_tile_dim_replicate}");
  EXPECT_EQ((*executable)->result_shardings()[0], "{devices=[2,2]<=[4]}");
  const std::vector<float> zeros(4, 10.0f);
  const Literal block =
      *Literal::FromBytes(*Shape::MakeArray(ElementType::kF32, Dims{2, 2}), std::as_bytes(std::span(zeros)));
  const Literal* pointer = &block;
  for (int64_t d = 0; d < 4; ++d) ASSERT_TRUE((*executable)->SetArguments(d, {&pointer, 1}));
  ASSERT_TRUE((*executable)->Execute());
  for (int64_t d = 0; d < 4; ++d) {
    const std::vector<float> want(4, 10.0f + static_cast<float>(d));
    EXPECT_EQ((*(*executable)->Results(d))[0], *Literal::FromBytes(block.shape(), std::as_bytes(std::span(want))));
  }
}

// Annotations of layouts and memories say nothing of shardings.
TEST_F(Spmd, LayoutsAndMemoriesKeepShardings) {
  for (const char* target : {"LayoutConstraint", "MoveToHost", "MoveToDevice", "annotate_device_placement"}) {
    auto module = ParseHloText(Format(R"(HloModule m, num_partitions=4
ENTRY main {{
  a = f32[4,8] parameter(0), sharding={{devices=[2,2]<=[4]}}
  ROOT r = f32[4,8] custom-call(a), custom_call_target="{}"
}})",
                                      target),
                               "test");
    ASSERT_TRUE(module) << module.error().message();
    auto executable = group_->Compile(std::move(*module), {});
    ASSERT_TRUE(executable) << executable.error().message();
    EXPECT_EQ((*executable)->result_shardings()[0], "{devices=[2,2]<=[4]}") << target;
  }
}

// A region that is manual along "j" only. Dimensions that its shardings leave open stay cut along "i", within and
// behind.
TEST_F(Spmd, FreeAxesOfAManualRegion) {
  for (const bool open : {true, false}) {
    const std::string free = open ? "{?}" : "{}", manual = open ? R"({"j", ?})" : R"({"j"})";
    auto module = ReadModule(Format(R"mlir(module @m attributes {{mhlo.num_partitions = 4 : i32}} {{
  sdy.mesh @mesh = <["i"=2, "j"=2]>
  func.func public @main(%x: tensor<4x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"i"}}, {{}}]>}}) -> (tensor<4x8xf32>, tensor<8xf32>) {{
    %0:2 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{0}, {1}]>] out_shardings=[<@mesh, [{0}, {1}]>, <@mesh, [{1}]>] manual_axes={{"j"}} (%a: tensor<4x4xf32>) {{
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %s = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0] : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>
      %y = stablehlo.multiply %a, %a : tensor<4x4xf32>
      sdy.return %y, %s : tensor<4x4xf32>, tensor<4xf32>
    }} : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>)
    return %0#0, %0#1 : tensor<4x8xf32>, tensor<8xf32>
  }}
}})mlir",
                                    free, manual),
                             "test");
    ASSERT_TRUE(module) << module.error().message();
    auto executable = group_->Compile(std::move(*module), {});
    ASSERT_TRUE(executable) << executable.error().message();
    const std::vector<std::string>& out = (*executable)->result_shardings();
    const Sharding first = *ParseSharding(out[0], 4), second = *ParseSharding(out[1], 4);
    EXPECT_EQ(first.dim(0).count, open ? 2 : 1) << out[0];
    EXPECT_EQ(first.dim(1).count, 2) << out[0];
    EXPECT_EQ(second.dim(0).count, 2) << out[1];
    int gathers = 0;
    for (const auto& c : (*executable)->module().computations())
      for (const auto& i : c->instructions()) gathers += i->opcode() == Opcode::kAllGather;
    EXPECT_EQ(gathers, open ? 0 : 1);

    std::vector<float> x(32), squares(32), sums(8);
    for (std::size_t n = 0; n < 32; ++n) {
      x[n] = static_cast<float>(n);
      squares[n] = x[n] * x[n];
      sums[n % 8] += x[n];
    }
    auto literal = [](Dims dims, const std::vector<float>& v) {
      return *Literal::FromBytes(*Shape::MakeArray(ElementType::kF32, dims), std::as_bytes(std::span(v)));
    };
    for (int64_t d = 0; d < 4; ++d) {
      const Literal block = *BlockOf(literal({4, 8}, x), *ParseSharding((*executable)->parameter_shardings()[0], 4), d);
      const Literal* pointer = &block;
      ASSERT_TRUE((*executable)->SetArguments(d, {&pointer, 1}));
    }
    ASSERT_TRUE((*executable)->Execute());
    for (int64_t d = 0; d < 4; ++d) {
      const auto results = *(*executable)->Results(d);
      EXPECT_EQ(results[0], *BlockOf(literal({4, 8}, squares), first, d));
      EXPECT_EQ(results[1], *BlockOf(literal({8}, sums), second, d));
    }
  }
}

TEST_F(Spmd, GroupsAreCutAlike) {
  // What is made before anybody of the group is cut follows: a parameter that says nothing, and what is made of it.
  const std::string text = R"(HloModule m, num_partitions=4
ENTRY main {
  w = f32[8,4] parameter(0)
  a = f32[8,4] parameter(1), sharding={devices=[2,2]<=[4]}
  i = f32[8,4] iota(), iota_dimension=0
  c = f32[8,4] add(w, i)
  b = f32[8,4] add(a, a)
  g0 = () custom-call(w), custom_call_target="xla.sdy.ShardingGroup", frontend_attributes={xla.sdy.sharding_group_id="7 : i64"}
  g1 = () custom-call(b), custom_call_target="xla.sdy.ShardingGroup", frontend_attributes={xla.sdy.sharding_group_id="7 : i64"}
  g2 = () custom-call(c), custom_call_target="xla.sdy.ShardingGroup", frontend_attributes={xla.sdy.sharding_group_id="7 : i64"}
  ROOT r = (f32[8,4], f32[8,4], f32[8,4]) tuple(w, b, c)
})";
  auto module = ParseHloText(text, "test");
  ASSERT_TRUE(module) << module.error().message();
  auto shardings = PartitionModule(**module);
  ASSERT_TRUE(shardings) << shardings.error().message();
  ASSERT_TRUE(*shardings);
  EXPECT_EQ((**shardings).results, (std::vector<std::string>(3, "{devices=[2,2]<=[4]}")));
  auto wrong = CompileOnly(
      *group_, Replaced(text, "g2 = () custom-call(c)", "d = f32[4,8] reshape(c)\n g2 = () custom-call(d)"));
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message().find("f32[8,4] and f32[4,8] are to be sharded alike"), std::string::npos)
      << wrong.error().message();
}

// The custom call by which JAX asks how an array lies: once each, also within a loop, whose body is walked several
// times.
TEST_F(Spmd, TellsWhoAsksHowAnArrayIsCut) {
  auto module = ParseHloText(R"(HloModule m, num_partitions=4
turn { p = (s32[], f32[8,4]) parameter(0)
  n = s32[] get-tuple-element(p), index=0
  x = f32[8,4] get-tuple-element(p), index=1
  one = s32[] constant(1)
  m = s32[] add(n, one)
  y = f32[8,4] cosine(x)
  i = f32[8,4] custom-call(y), custom_call_target="InspectSharding", custom_call_has_side_effect=true, backend_config="b"
  ROOT r = (s32[], f32[8,4]) tuple(m, y) }
goes_on { p = (s32[], f32[8,4]) parameter(0)
  n = s32[] get-tuple-element(p), index=0
  three = s32[] constant(3)
  ROOT r = pred[] compare(n, three), direction=LT }
ENTRY e { a = f32[8,4] parameter(0), sharding={devices=[4,1]<=[4]}
  b = f32[8,4] sine(a)
  i = f32[8,4] custom-call(b), custom_call_target="InspectSharding", custom_call_has_side_effect=true, backend_config="a"
  zero = s32[] constant(0)
  s = (s32[], f32[8,4]) tuple(zero, b)
  w = (s32[], f32[8,4]) while(s), condition=goes_on, body=turn
  ROOT r = f32[8,4] get-tuple-element(w), index=1 })",
                             "test");
  ASSERT_TRUE(module) << module.error().message();
  std::vector<std::string> told;
  PassOptions options;
  options.inspect_sharding = [&](std::string_view config, std::string_view sharding) -> Result<> {
    told.push_back(Format("{}: {}", config, sharding));
    return {};
  };
  auto shardings = PartitionModule(**module, options);
  ASSERT_TRUE(shardings) << shardings.error().message();
  EXPECT_EQ(told, (std::vector<std::string>{"\"a\": {devices=[4,1]<=[4]}", "\"b\": {devices=[4,1]<=[4]}"}));
}

// Two operands that are cut along one axis in dimensions that come out: the larger as a whole keeps its own.
TEST_F(Spmd, OneOperandOfADotGivesWay) {
  auto shardings = [&](std::string_view dims) {
    auto module = ParseHloText(Format(R"(HloModule m, num_partitions=4
ENTRY main {{
  a = f32[{0},4] parameter(0), sharding={{devices=[2,2]<=[4]}}
  b = f32[4,{1}] parameter(1), sharding={{devices=[1,2,2]<=[4] last_tile_dim_replicate}}
  ROOT r = f32[{0},{1}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}})",
                                      dims.substr(0, 1), dims.substr(1)),
                               "test");
    EXPECT_TRUE(module) << module.error().message();
    auto executable = group_->Compile(std::move(*module), {});
    EXPECT_TRUE(executable) << executable.error().message();
    return (*executable)->result_shardings()[0];
  };
  EXPECT_EQ(shardings("84"), "{devices=[2,1,2]<=[4] last_tile_dim_replicate}");
  EXPECT_EQ(shardings("88"), "{devices=[2,1,2]<=[4] last_tile_dim_replicate}");
  EXPECT_EQ(shardings("48"), "{devices=[1,2,2]<=[4] last_tile_dim_replicate}");
}

// Of choices that cost the same the rows of the left operand stay cut; a constraint takes dimensions that it leaves
// open as they come.
TEST_F(Spmd, EqualCutsOfADot) {
  auto sharding = [&](std::string_view constraint) {
    auto module = ParseHloText(Format(R"(HloModule m, num_partitions=4
ENTRY main {{
  a = f32[8,2] parameter(0), sharding={{devices=[2,2]<=[4]}}
  b = f32[2,8] transpose(a), dimensions={{1,0}}
  d = f32[8,8] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT r = f32[8,8] {}
}})",
                                      constraint),
                               "test");
    EXPECT_TRUE(module) << module.error().message();
    auto executable = group_->Compile(std::move(*module), {});
    EXPECT_TRUE(executable) << executable.error().message();
    return (*executable)->result_shardings()[0];
  };
  EXPECT_EQ(sharding("negate(d)"), "{devices=[2,1,2]<=[4] last_tile_dim_replicate}");
  EXPECT_EQ(sharding(R"(custom-call(d), custom_call_target="Sharding", backend_config="unspecified_dims=[0]",
    sharding={devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate})"),
            "{devices=[2,2]<=[4]}");
}

// A state that is whole at the start and cut after a turn is cut all the time, in a loop within a loop too.
TEST_F(Spmd, StateOfALoopIsCutAsATurnLeavesIt) {
  const std::string text = R"(HloModule m, num_partitions=4
goes_on { s = (s32[], f32[8,4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT go = pred[] compare(i, n), direction=LT }
inner_turn { s = (s32[], f32[8,4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8,4] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  y = f32[8,4] add(x, x)
  cut = f32[8,4] custom-call(y), custom_call_target="Sharding", sharding={devices=[4,1]<=[4]}
  ROOT r = (s32[], f32[8,4]) tuple(next, cut) }
turn { s = (s32[], f32[8,4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8,4] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  zero = s32[] constant(0)
  start = (s32[], f32[8,4]) tuple(zero, x)
  w = (s32[], f32[8,4]) while(start), condition=goes_on, body=inner_turn
  y = f32[8,4] get-tuple-element(w), index=1
  ROOT r = (s32[], f32[8,4]) tuple(next, y) }
ENTRY main { x = f32[8,4] parameter(0), sharding={replicated}
  zero = s32[] constant(0)
  s = (s32[], f32[8,4]) tuple(zero, x)
  w = (s32[], f32[8,4]) while(s), condition=goes_on, body=turn
  ROOT r = f32[8,4] get-tuple-element(w), index=1 })";
  auto module = ParseHloText(text, "test");
  ASSERT_TRUE(module) << module.error().message();
  auto executable = group_->Compile(std::move(*module), {});
  ASSERT_TRUE(executable) << executable.error().message();
  EXPECT_EQ((*executable)->result_shardings()[0], "{devices=[4,1]<=[4]}");
}

}  // namespace
}  // namespace krafla
