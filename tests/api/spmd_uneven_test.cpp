// SPDX-License-Identifier: Apache-2.0
// Dimensions that the number of blocks does not divide: what lies behind their ends, in the last blocks, reaches no
// result, and nothing is put together for them.
#include <algorithm>

#include "passes/pipeline.h"
#include "passes/spmd/spmd_partitioner.h"
#include "spmd_fixture.h"

namespace krafla {
namespace {

// Of what is needed for the result.
struct Moved {
  int64_t gathered = 0, all = 0;  // bytes that all-gathers give, and all collectives
};
Moved MovedBy(const std::string& text) {
  Moved out;
  auto module = ParseHloText(text, "test");
  EXPECT_TRUE(module) << module.error().message();
  if (!module) return out;
  auto shardings = PartitionModule(**module);
  EXPECT_TRUE(shardings && *shardings) << (shardings ? "" : shardings.error().message());
  const std::string dead[] = {"dce"};
  EXPECT_TRUE(RunPasses(**module, dead));
  for (const auto& i : (*module)->entry()->instructions()) {
    if (!i->shape().IsArray()) continue;
    if (i->opcode() == Opcode::kAllGather) out.gathered += i->shape().byte_size();
    if (HasTrait(i->opcode(), op_trait::kCollective)) out.all += i->shape().byte_size();
  }
  return out;
}

constexpr std::string_view kRows = "{devices=[4,1]<=[4]}", kColumns = "{devices=[1,4]<=[4]}",
                           kHalfRows = "{devices=[2,1,2]<=[4] last_tile_dim_replicate}",
                           kHalfColumns = "{devices=[1,2,2]<=[4] last_tile_dim_replicate}";

struct UnevenProgram {
  const char* name;
  int64_t most;  // bytes that collectives give
  std::string_view body;
};
// @R, @C: rows or columns over four devices; @r, @c: over two pairs.
const UnevenProgram kUnevenPrograms[] = {
    {"multilayer perceptron of ten units", 6 * 5 * 4, R"(
  x = f32[6,8] parameter(0), sharding={replicated}
  w = f32[8,10] parameter(1), sharding=@C
  v = f32[10,5] parameter(2), sharding=@R
  zero = f32[] constant(0)
  zeros = f32[6,10] broadcast(zero), dimensions={}
  h = f32[6,10] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  a = f32[6,10] maximum(h, zeros)
  ROOT r = f32[6,5] dot(a, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={replicated})"},
    {"words of a vocabulary", 3 * (4 * 6 + 2 * 6) * 4, R"(
  table = f32[57,6] parameter(0), sharding=@r
  head = f32[6,57] parameter(1), sharding=@c
  words = s32[6] constant({0, 28, 29, 56, -3, 80})
  x = f32[6,6] gather(table, words), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,6}
  logits = f32[6,57] dot(x, head), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  low = f32[] constant(-inf)
  most = f32[6] reduce(logits, low), dimensions={1}, to_apply=larger
  mosts = f32[6,57] broadcast(most), dimensions={0}
  less_most = f32[6,57] subtract(logits, mosts)
  zero = f32[] constant(0)
  total = f32[6] reduce(less_most, zero), dimensions={1}, to_apply=sum
  at = s32[6,2] constant({{0,0}, {1,28}, {2,29}, {3,56}, {4,9}, {5,30}})
  label = f32[6] gather(logits, at), offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1}
  ROOT r = (f32[6], f32[6], f32[6]) tuple(most, total, label), sharding={{replicated}, {replicated}, {replicated}})"},
    {"batch of three", 3 * 4, R"(
  x = f32[3,8] parameter(0), sharding=@r
  low = f32[] constant(-inf)
  most = f32[3] reduce(x, low), dimensions={1}, to_apply=larger
  mosts = f32[3,8] broadcast(most), dimensions={0}
  y = f32[3,8] subtract(x, mosts)
  zero = f32[] constant(0)
  one = f32[] constant(1)
  total = f32[] reduce(y, zero), dimensions={0,1}, to_apply=sum
  all = f32[] reduce(x, one), dimensions={0,1}, to_apply=product
  first = f32[] reduce(x, low), dimensions={0,1}, to_apply=larger
  ROOT r = (f32[], f32[], f32[], f32[3,8]) tuple(total, all, first, y), sharding={{replicated}, {replicated}, {replicated}, @r})"},
    {"convolution and pool of seven rows", (2 * 6 * 2 + 6 * 3) * 4, R"(
  x = f32[1,7,6,2] parameter(0), sharding={devices=[1,2,1,1,2]<=[4] last_tile_dim_replicate}
  k = f32[3,3,2,3] parameter(1), sharding={replicated}
  c = f32[1,7,6,3] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  z = f32[] constant(-1)
  ROOT p = f32[1,4,3,3] reduce-window(c, z), window={size=1x3x2x1 stride=1x2x2x1 pad=0_0x1_1x0_0x0_0}, to_apply=larger, sharding={devices=[1,2,1,1,2]<=[4] last_tile_dim_replicate})"},
    {"windows that stay within the array", (2 * 6 * 2 + 1 * 4 * 3) * 4, R"(
  x = f32[1,8,6,2] parameter(0), sharding={devices=[1,2,1,1,2]<=[4] last_tile_dim_replicate}
  k = f32[3,3,2,3] parameter(1), sharding={replicated}
  ROOT c = f32[1,6,4,3] convolution(x, k), window={size=3x3}, dim_labels=b01f_01io->b01f, sharding={devices=[1,2,1,1,2]<=[4] last_tile_dim_replicate})"},
    {"reshape of a batch of three", 2 * 8 * 4, R"(
  x = f32[3,4,8] parameter(0), sharding={devices=[2,1,1,2]<=[4] last_tile_dim_replicate}
  y = f32[12,8] reshape(x)
  ROOT r = f32[12,8] negate(y), sharding=@r)"},
    {"a reversed array", 2 * 5 * 4, R"(
  x = f32[14,5] parameter(0), sharding=@R
  y = f32[14,5] reverse(x), dimensions={0}
  ROOT r = f32[14,5] negate(y), sharding={devices=[4,1]3,2,1,0})"},
    {"every second row, laid apart again", 0, R"(
  x = f32[31,5] parameter(0), sharding=@R
  y = f32[15,5] slice(x), slice={[1:31:2], [0:5]}
  zero = f32[] constant(0)
  ROOT r = f32[31,5] pad(y, zero), padding=1_1_1x0_0, sharding=@R)"},
    {"inner part of an array, written back", (6 * 10 + 6 * 12) * 4, R"(
  x = f32[18,12] parameter(0), sharding=@R
  a = f32[16,10] slice(x), slice={[1:17], [1:11]}
  b = f32[16,10] slice(x), slice={[2:18], [1:11]}
  c = f32[16,10] add(a, b)
  one = s32[] constant(1)
  ones = s32[1] broadcast(one), dimensions={}
  at = s32[2] concatenate(ones, ones), dimensions={0}
  y = f32[18,12] scatter(x, at, c), update_window_dims={0,1}, inserted_window_dims={}, scatter_dims_to_operand_dims={0,1}, index_vector_dim=0, to_apply=sum
  z = f32[16,10] slice(y), slice={[1:17], [1:11]}
  two = f32[] constant(2)
  ROOT p = f32[18,12] pad(z, two), padding=1_1x1_1, sharding=@R)"},
    {"every second row from the third on", 2 * 5 * 4, R"(
  x = f32[32,5] parameter(0), sharding=@R
  ROOT y = f32[15,5] slice(x), slice={[2:32:2], [0:5]}, sharding=@R)"},
    {"nothing of an array", 128, R"(
  x = f32[16,5] parameter(0), sharding=@R
  none = f32[0,5] slice(x), slice={[3:3], [0:5]}
  half = f32[16,0] slice(x), slice={[0:16], [2:2]}
  ROOT r = (f32[0,5], f32[16,0]) tuple(none, half), sharding={{replicated}, @R})"},
    {"features of a convolution", 5 * 3 * 4 * 2, R"(
  x = f32[1,5,3] parameter(0), sharding={devices=[1,1,2,2]<=[4] last_tile_dim_replicate}
  k = f32[1,3,2] parameter(1), sharding={devices=[1,2,1,2]<=[4] last_tile_dim_replicate}
  ROOT c = f32[1,5,2] convolution(x, k), window={size=1}, dim_labels=b0f_0io->b0f, sharding={replicated})"},
    {"sort of columns", 0, R"(
  x = f32[8,7] parameter(0), sharding=@C
  ROOT r = f32[8,7] sort(x), dimensions={0}, to_apply=less, sharding=@C)"},
    {"sort along what is cut", 2 * 4 * 4 * 4 * 2, R"(
  x = f32[8,7] parameter(0), sharding=@r
  y = f32[8,7] sort(x), dimensions={0}, to_apply=less
  ROOT r = f32[8,7] negate(y), sharding=@r)"},
    {"difference of neighbours", 2 * 5 * 4, R"(
  x = f32[16,5] parameter(0), sharding=@R
  a = f32[15,5] slice(x), slice={[1:16], [0:5]}
  b = f32[15,5] slice(x), slice={[0:15], [0:5]}
  ROOT r = f32[15,5] subtract(a, b), sharding=@R)"},
    {"sum of blocks of which each device keeps one", 2 * 7 * 4, R"(
  x = f32[6,10] parameter(0), sharding=@C
  w = f32[10,7] parameter(1), sharding=@R
  ROOT r = f32[6,7] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding=@R)"},
    {"rows added by a part of the numbers each", 4 * 3 * 4, R"(
  x = f32[4,3] parameter(0), sharding={replicated}
  up = f32[10,3] parameter(1), sharding=@R
  n = s32[10] constant({0, 3, 1, 2, 0, 0, 3, 1, 2, 3})
  ROOT r = f32[4,3] scatter(x, n, up), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum, sharding={replicated})"},
    {"numbers of an unsigned type", 4 * 3 * 4, R"(
  x = f32[4,3] parameter(0), sharding={replicated}
  up = f32[10,3] parameter(1), sharding=@R
  n = u8[10] constant({0, 3, 1, 2, 0, 0, 3, 1, 200, 3})
  ROOT r = f32[4,3] scatter(x, n, up), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum, sharding={replicated})"},
};

std::string WithShardings(std::string_view body) {
  std::string out(body);
  for (const auto& [from, to] : {std::pair{"@R", kRows}, {"@C", kColumns}, {"@r", kHalfRows}, {"@c", kHalfColumns}})
    out = Replaced(std::move(out), from, std::string(to));
  return Format("HloModule m, num_partitions=4{}ENTRY main {{{}\n}}\n", kScalarComputations, out);
}

TEST_F(Spmd, UnevenDimensionsAreNotPutTogether) {
  for (const UnevenProgram& p : kUnevenPrograms) {
    SCOPED_TRACE(p.name);
    const Moved moved = MovedBy(WithShardings(p.body));
    EXPECT_EQ(moved.gathered, 0);
    EXPECT_LE(moved.all, p.most);
  }
}

// A weight that is cut where it is used has zeros behind its end, and is not copied to get them.
TEST_F(Spmd, WhatIsCutHereHasZerosBehindItsEnd) {
  auto module = ParseHloText(R"(HloModule m, num_partitions=4
ENTRY main {
  x = f32[6,10] parameter(0), sharding={devices=[1,4]<=[4]}
  w = f32[10,5] parameter(1), sharding={replicated}
  ROOT r = f32[6,5] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={replicated}
})",
                             "test");
  ASSERT_TRUE(module) << module.error().message();
  auto shardings = PartitionModule(**module);
  ASSERT_TRUE(shardings && *shardings);
  int64_t dots = 0;
  for (const auto& i : (*module)->entry()->instructions()) {
    if (i->opcode() != Opcode::kDot) continue;
    ++dots;
    EXPECT_EQ(i->operand(0)->opcode(), Opcode::kSelect);
    EXPECT_EQ(i->operand(1)->opcode(), Opcode::kDynamicSlice);
  }
  EXPECT_EQ(dots, 1);
}

class SpmdUneven : public Spmd {
 protected:
  // Runs it partitioned, and as it is on one device.
  void Compare(const UnevenProgram& p) {
    const std::string text = WithShardings(p.body);
    auto module = ParseHloText(text, "test");
    ASSERT_TRUE(module) << module.error().message();
    std::vector<Literal> arguments;
    for (const Instruction* i : (*module)->entry()->parameters())
      arguments.push_back(SmallNumbers(i->shape(), 5 + static_cast<uint32_t>(arguments.size())));
    std::vector<std::string> none, shardings;
    const auto want = Run(Replaced(text, "num_partitions=4", "num_partitions=1"), arguments, &none);
    ASSERT_TRUE(want) << want.error().message();
    const auto got = Run(text, arguments, &shardings);
    ASSERT_TRUE(got) << got.error().message();
    for (std::size_t d = 0; d < 4; ++d)
      for (std::size_t r = 0; r < (*got)[d].size(); ++r)
        EXPECT_EQ((*got)[d][r], *BlockOf((*want)[0][r], *ParseSharding(shardings[r], 4), static_cast<int64_t>(d)))
            << "result " << r << " of device " << d;
  }
};

TEST_F(SpmdUneven, WhatLiesBehindTheEndReachesNoResult) {
  for (const char* devices : {"cpu*4", "vulkan:0*4"}) {
    auto group = DeviceGroup::Create(devices);
    if (!group && std::string_view(devices) != "cpu*4") continue;  // no Vulkan here
    ASSERT_TRUE(group) << group.error().message();
    group_ = *group;
    for (const UnevenProgram& p : kUnevenPrograms) {
      SCOPED_TRACE(Format("{} on {}", p.name, devices));
      Compare(p);
    }
  }
}

}  // namespace
}  // namespace krafla
