// SPDX-License-Identifier: Apache-2.0
// What the partitioner does not do: compute, move or put together more than the blocks that are kept.
#include <algorithm>

#include "hlo_io/hlo_text/hlo_text.h"
#include "ir/sharding.h"
#include "passes/pipeline.h"
#include "passes/rewrite.h"
#include "passes/spmd/spmd_partitioner.h"
#include "spmd_fixture.h"

namespace krafla {
namespace {

// A chain of operations on positions, scalars and constants of which each device keeps a block is made for that block.
TEST_F(Spmd, NobodyMakesAnArrayToKeepAPartOfIt) {
  auto module = ParseHloText(R"(HloModule m, num_partitions=4
ENTRY main {
  key = u32[2] parameter(0), sharding={replicated}
  x = f32[64,3] parameter(1), sharding={devices=[4,1]<=[4]}
  first = u32[1] slice(key), slice={[0:1]}
  k = u32[] reshape(first)
  ks = u32[192] broadcast(k), dimensions={}
  i = u32[192] iota(), iota_dimension=0
  j = u32[192] xor(i, ks)
  t = u32[192] multiply(j, j)
  bits = u32[64,3] reshape(t)
  f = f32[64,3] convert(bits)
  ROOT r = f32[64,3] add(f, x)
})",
                             "test");
  ASSERT_TRUE(module) << module.error().message();
  auto shardings = PartitionModule(**module);
  ASSERT_TRUE(shardings) << shardings.error().message();
  ASSERT_TRUE(*shardings);
  const Instruction* root = (*module)->entry()->root();
  EXPECT_EQ(root->shape().dims(), (Dims{16, 3}));
  std::vector<const Instruction*> needed{root};
  for (std::size_t n = 0; n < needed.size(); ++n) {
    EXPECT_LE(needed[n]->shape().element_count(), 48) << needed[n]->name();
    for (const Instruction* o : needed[n]->operands())
      if (std::ranges::find(needed, o) == needed.end()) needed.push_back(o);
  }
  EXPECT_GT(needed.size(), 8u);
}

// Nor are many matrices put together to decompose some of them: where the call is one of ours, and where JAX says it.
TEST_F(Spmd, DecompositionsStayWhereTheirMatricesAre) {
  for (const char* call : {R"(custom_call_target="LuDecomposition")",
                           R"(custom_call_target="mine", frontend_attributes={num_batch_dims="2"})"}) {
    auto module = ParseHloText(Replaced(R"(HloModule m, num_partitions=4
ENTRY main {
  x = f32[4,8,5,3] parameter(0), sharding={devices=[2,2,1,1]<=[4]}
  r = (f32[4,8,5,3], s32[4,8,3], s32[4,8,5]) custom-call(x), CALL
  a = f32[4,8,5,3] get-tuple-element(r), index=0
  b = s32[4,8,5] get-tuple-element(r), index=2
  ROOT t = (f32[4,8,5,3], s32[4,8,5]) tuple(a, b)
})",
                                        "CALL", call),
                               "test");
    ASSERT_TRUE(module) << module.error().message();
    auto shardings = PartitionModule(**module);
    ASSERT_TRUE(shardings && *shardings);
    EXPECT_EQ((**shardings).results, (std::vector<std::string>{"{devices=[2,2,1,1]<=[4]}", "{devices=[2,2,1]<=[4]}"}))
        << call;
    for (const auto& i : (*module)->entry()->instructions())
      EXPECT_FALSE(HasTrait(i->opcode(), op_trait::kCollective)) << call;
  }
  // What is said and does not fit is as if nobody had said it.
  for (const char* said : {"5", "-1", "two", "1x", "9223372036854775808", ""}) {
    auto module = ParseHloText(Replaced(R"(HloModule m, num_partitions=4
ENTRY main {
  x = f32[4,8] parameter(0), sharding={devices=[4,1]<=[4]}
  ROOT r = f32[4] custom-call(x), custom_call_target="mine", frontend_attributes={num_batch_dims="SAID"}
})",
                                        "SAID", said),
                               "test");
    ASSERT_TRUE(module) << module.error().message();
    auto shardings = PartitionModule(**module);
    ASSERT_TRUE(shardings && *shardings) << said;
    EXPECT_EQ((*module)->entry()->root()->operand(0)->shape().dims(), (Dims{4, 8})) << said;
  }
}

// The largest array that what is needed for the result is made of, but for parameters, the bytes that all-gathers give,
// and those that all collectives give.
struct Largest {
  int64_t elements = 0, gathered = 0, moved = 0;
};
Largest LargestOf(const std::string& text) {
  Largest out;
  auto module = ParseHloText(text, "test");
  EXPECT_TRUE(module) << module.error().message();
  if (!module) return out;
  auto shardings = PartitionModule(**module);
  EXPECT_TRUE(shardings && *shardings);
  const std::string dead[] = {"dce"};
  EXPECT_TRUE(RunPasses(**module, dead));
  for (const auto& i : (*module)->entry()->instructions()) {
    if (!i->shape().IsArray() || i->opcode() == Opcode::kParameter) continue;
    out.elements = std::max(out.elements, i->shape().element_count());
    if (i->opcode() == Opcode::kAllGather) out.gathered += i->shape().byte_size();
    if (HasTrait(i->opcode(), op_trait::kCollective)) out.moved += i->shape().byte_size();
  }
  return out;
}

// Of whole operands each device computes the block of the result that it keeps.
TEST_F(Spmd, AResultThatIsCutIsComputedInBlocks) {
  const Largest of = LargestOf(R"(HloModule m, num_partitions=4
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
ENTRY main {
  x = f32[64,32] parameter(0), sharding={replicated}
  w = f32[32,64] parameter(1), sharding={replicated}
  d = f32[64,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[64,64] tanh(d)
  u = f32[64,64] transpose(t), dimensions={1,0}
  v = f32[8,8,64] reshape(u)
  ROOT r = f32[8,8,64] custom-call(v), custom_call_target="Sharding", sharding={devices=[4,1,1]<=[4]}
})");
  EXPECT_EQ(of.elements, 64 * 64 / 4);
  EXPECT_EQ(of.gathered, 0);
}

// But where somebody needs it whole, it is computed whole, and not put together.
TEST_F(Spmd, AResultThatIsNeededWholeIsComputedWhole) {
  const Largest of = LargestOf(R"(HloModule m, num_partitions=4
ENTRY main {
  x = f32[64,32] parameter(0), sharding={replicated}
  t = f32[64,32] tanh(x)
  c = f32[64,32] custom-call(t), custom_call_target="Sharding", sharding={devices=[4,1]<=[4]}
  n = f32[64,32] negate(t)
  ROOT r = (f32[64,32], f32[64,32]) tuple(c, n), sharding={{devices=[4,1]<=[4]}, {replicated}}
})");
  EXPECT_EQ(of.gathered, 0);
}

// The table of a language model's words, of which each device has some.
TEST_F(Spmd, ATableThatIsCutIsNotPutTogether) {
  const Largest of = LargestOf(R"(HloModule m, num_partitions=4
ENTRY main {
  table = f32[1024,16] parameter(0), sharding={devices=[4,1]<=[4]}
  words = s32[2,8] parameter(1), sharding={replicated}
  ROOT r = f32[2,8,16] gather(table, words), offset_dims={2}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=2, slice_sizes={1,16}
})");
  EXPECT_EQ(of.gathered, 0);
  EXPECT_EQ(of.elements, 2 * 8 * 16);
}

// A convolution and a pool over a dimension that is cut ask their neighbours for rows, and for nothing else.
TEST_F(Spmd, WindowsAskTheirNeighbours) {
  const Largest of = LargestOf(R"(HloModule m, num_partitions=4
larger { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] maximum(a, b) }
ENTRY main {
  x = f32[1,64,16,4] parameter(0), sharding={devices=[1,4,1,1]<=[4]}
  k = f32[3,3,4,4] parameter(1), sharding={replicated}
  c = f32[1,64,16,4] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  s = f32[1,32,8,4] convolution(c, k), window={size=3x3 stride=2x2 pad=0_1x0_1}, dim_labels=b01f_01io->b01f
  z = f32[] constant(-1)
  ROOT p = f32[1,16,4,4] reduce-window(s, z), window={size=1x2x2x1 stride=1x2x2x1}, to_apply=larger
})");
  EXPECT_EQ(of.gathered, 0);
  EXPECT_LE(of.elements, (64 / 4 + 2) * 16 * 4);
}

// A cut that moves to another dimension, from a mesh to one dimension, and to other devices: each device gets a block.
TEST_F(Spmd, CutsMoveWithoutPuttingArraysTogether) {
  const struct {
    const char *from, *to;
    int64_t moved;  // blocks of a quarter
  } cases[] = {
      {"{devices=[4,1]<=[4]}", "{devices=[1,4]<=[4]}", 1},
      {"{devices=[2,2]<=[4]}", "{devices=[4,1]<=[4]}", 1},
      {"{devices=[4,1]<=[4]}", "{devices=[2,2]<=[4]}", 1},
      {"{devices=[4,1]<=[4]}", "{devices=[4,1]3,2,1,0}", 1},
      {"{devices=[2,1,2]<=[4] last_tile_dim_replicate}", "{devices=[4,1]<=[4]}", 0},
      {"{devices=[4,1]<=[4]}", "{devices=[2,1,2]<=[4] last_tile_dim_replicate}", 2},
      {"{devices=[2,1,2]<=[4] last_tile_dim_replicate}", "{devices=[1,2,2]<=[4] last_tile_dim_replicate}", 2},
  };
  for (const auto& c : cases) {
    const Largest of = LargestOf(Replaced(Replaced(R"(HloModule m, num_partitions=4
ENTRY main {
  x = f32[64,32] parameter(0), sharding=FROM
  t = f32[64,32] tanh(x)
  ROOT r = f32[64,32] negate(t), sharding=TO
})",
                                                   "FROM", c.from),
                                          "TO", c.to));
    EXPECT_EQ(of.moved, c.moved * 64 * 32 * 4 / 4) << c.from << " " << c.to;
  }
}

// A sum over devices of which each keeps a block is no sum of everything.
TEST_F(Spmd, SumsOfBlocksAreScattered) {
  const Largest of = LargestOf(R"(HloModule m, num_partitions=4
ENTRY main {
  x = f32[64,32] parameter(0), sharding={devices=[1,4]<=[4]}
  w = f32[32,16] parameter(1), sharding={devices=[4,1]<=[4]}
  ROOT r = f32[64,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={devices=[4,1]<=[4]}
})");
  EXPECT_EQ(of.moved, 16 * 16 * 4);
}

// Of a product over a mesh the operands are put together along one axis each, not one of them whole.
TEST_F(Spmd, ADotTakesTheCutsThatMoveLeast) {
  const Largest of = LargestOf(R"(HloModule m, num_partitions=4
ENTRY main {
  a = f32[64,64] parameter(0), sharding={devices=[2,2]<=[4]}
  b = f32[64,64] parameter(1), sharding={devices=[2,2]<=[4]}
  ROOT r = f32[64,64] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={devices=[2,2]<=[4]}
})");
  EXPECT_EQ(of.gathered, 2 * 32 * 64 * 4);
  EXPECT_EQ(of.moved, of.gathered);
}

// The place of a maximum along a dimension that is cut: the devices tell each other their candidates.
TEST_F(Spmd, PlacesOfMaximaAreFoundInBlocks) {
  const Largest of = LargestOf(R"(HloModule m, num_partitions=4
larger { a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  c = pred[] compare(a, b), direction=GT
  n = pred[] compare(a, a), direction=NE
  first = pred[] or(c, n)
  e = pred[] compare(a, b), direction=EQ
  l = pred[] compare(i, j), direction=LT
  tie = pred[] and(e, l)
  keep = pred[] or(first, tie)
  x = f32[] select(first, a, b)
  y = s32[] select(keep, i, j)
  ROOT r = (f32[], s32[]) tuple(x, y) }
ENTRY main {
  x = f32[8,4096] parameter(0), sharding={devices=[1,4]<=[4]}
  at = s32[8,4096] iota(), iota_dimension=1
  low = f32[] constant(-inf)
  zero = s32[] constant(0)
  m = (f32[8], s32[8]) reduce(x, at, low, zero), dimensions={1}, to_apply=larger
  ROOT r = s32[8] get-tuple-element(m), index=1
})");
  EXPECT_EQ(of.moved, 2 * 8 * 4 * 4);
}

// Constants and positions, which cost nothing, do not pull what they are added to into another sharding.
TEST_F(Spmd, ConstantsFollowTheOthers) {
  const Largest of = LargestOf(R"(HloModule m, num_partitions=4
ENTRY main {
  x = f32[64,32] parameter(0), sharding={devices=[1,4]<=[4]}
  one = f32[] constant(1)
  ones = f32[64,32] broadcast(one), dimensions={}
  i = f32[64,32] iota(), iota_dimension=0
  a = f32[64,32] add(x, ones)
  b = f32[64,32] multiply(a, i)
  ROOT r = f32[64,32] tanh(b), sharding={devices=[4,1]<=[4]}
})");
  EXPECT_EQ(of.gathered, 0);
  EXPECT_EQ(of.moved, 64 * 32 * 4 / 4);
}

// A cache whose positions are spread over devices: a token is written where it belongs and read by who has it.
TEST_F(Spmd, RowsOfACutArrayAreWrittenAndReadWhereTheyLie) {
  const Largest of = LargestOf(R"(HloModule m, num_partitions=4
ENTRY main {
  cache = f32[2,1024,16] parameter(0), sharding={devices=[1,4,1]<=[4]}
  row = f32[2,1,16] parameter(1), sharding={replicated}
  at = s32[] parameter(2), sharding={replicated}
  zero = s32[] constant(0)
  written = f32[2,1024,16] dynamic-update-slice(cache, row, zero, at, zero)
  read = f32[2,1,16] dynamic-slice(cache, zero, at, zero), dynamic_slice_sizes={2,1,16}
  ROOT r = (f32[2,1024,16], f32[2,1,16]) tuple(written, read), sharding={{devices=[1,4,1]<=[4]}, {replicated}}
})");
  EXPECT_EQ(of.elements, 2 * 256 * 16);
  EXPECT_EQ(of.moved, 2 * 16 * 4);
}

// What each turn of a loop reads rows of is cut along another dimension before it starts.
TEST_F(Spmd, RowsOfALoopAreAtHand) {
  auto module = ParseHloText(R"(HloModule m, num_partitions=4
row { x = f32[64,32] parameter(0)
  i = s32[] parameter(1)
  zero = s32[] constant(0)
  r = f32[1,32] dynamic-slice(x, i, zero), dynamic_slice_sizes={1,32}
  ROOT v = f32[32] reshape(r) }
turn { s = (s32[], f32[32], f32[64,32]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  sum = f32[32] get-tuple-element(s), index=1
  x = f32[64,32] get-tuple-element(s), index=2
  v = f32[32] call(x, i), to_apply=row
  more = f32[32] add(sum, v)
  one = s32[] constant(1)
  next = s32[] add(i, one)
  ROOT r = (s32[], f32[32], f32[64,32]) tuple(next, more, x) }
goes_on { s = (s32[], f32[32], f32[64,32]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(64)
  ROOT go = pred[] compare(i, n), direction=LT }
ENTRY main {
  x = f32[64,32] parameter(0), sharding={devices=[4,1]<=[4]}
  zero = s32[] constant(0)
  nothing = f32[] constant(0)
  none = f32[32] broadcast(nothing), dimensions={}
  start = (s32[], f32[32], f32[64,32]) tuple(zero, none, x)
  loop = (s32[], f32[32], f32[64,32]) while(start), condition=goes_on, body=turn
  ROOT r = f32[32] get-tuple-element(loop), index=1
})",
                             "test");
  ASSERT_TRUE(module) << module.error().message();
  ASSERT_TRUE(PartitionModule(**module));
  for (const Computation* c : ReachableComputations(**module))
    for (const auto& i : c->instructions())
      if (HasTrait(i->opcode(), op_trait::kCollective)) { EXPECT_EQ(c, (*module)->entry()) << i->name(); }
}

// The gradients of a convolution and of a pool over a dimension that is cut.
TEST_F(Spmd, GradientsOfWindowsStayInBlocks) {
  const Largest of = LargestOf(R"(HloModule m, num_partitions=4
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
ge { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=GE }
ENTRY main {
  x = f32[2,64,16,4] parameter(0), sharding={devices=[1,4,1,1]<=[4]}
  dy = f32[2,64,16,8] parameter(1), sharding={devices=[1,4,1,1]<=[4]}
  k = f32[3,3,8,4] parameter(2), sharding={replicated}
  one = f32[] constant(1)
  k4 = f32[2,2,4,4] broadcast(one), dimensions={}
  dz = f32[2,32,8,4] parameter(3), sharding={devices=[1,4,1,1]<=[4]}
  zero = f32[] constant(0)
  dk = f32[4,3,3,8] convolution(x, dy), window={size=64x16 pad=1_1x1_1}, dim_labels=f01b_i01o->b01f
  dx = f32[2,64,16,4] convolution(dy, k), window={size=3x3 pad=1_1x1_1 rhs_reversal=1x1}, dim_labels=b01f_01io->b01f
  up = f32[2,64,16,4] convolution(dz, k4), window={size=2x2 pad=1_1x1_1 lhs_dilate=2x2}, dim_labels=b01f_01io->b01f
  ds = f32[2,64,16,4] select-and-scatter(x, dz, zero), window={size=1x2x2x1 stride=1x2x2x1}, select=ge, scatter=sum
  all = f32[2,64,16,4] add(dx, up)
  every = f32[2,64,16,4] add(all, ds)
  ROOT r = (f32[4,3,3,8], f32[2,64,16,4]) tuple(dk, every), sharding={{replicated}, {devices=[1,4,1,1]<=[4]}}
})");
  EXPECT_EQ(of.gathered, 0);
  EXPECT_LE(of.elements, 2 * (64 / 4 + 2) * 16 * 8);
}

// Rotations and borders bring a device the rows that it has not, over a mesh too; every second row brings none.
TEST_F(Spmd, RowsThatMoveALittleAreSent) {
  const Largest of = LargestOf(R"(HloModule m, num_partitions=4
ENTRY main {
  x = f32[64,32] parameter(0), sharding={devices=[2,2]<=[4]}
  zero = f32[] constant(0)
  last = f32[1,32] slice(x), slice={[63:64], [0:32]}
  rest = f32[63,32] slice(x), slice={[0:63], [0:32]}
  rolled = f32[64,32] concatenate(last, rest), dimensions={0}
  padded = f32[64,36] pad(rolled, zero), padding=0_0x2_2
  second = f32[32,36] slice(padded), slice={[1:64:2], [0:36]}
  ROOT r = f32[32,36] negate(second), sharding={devices=[2,2]<=[4]}
})");
  EXPECT_EQ(of.gathered, 0);
  EXPECT_EQ(of.moved, 16 * 4);
}

// A pad in a function of its own, as JAX writes it, and a slice of it.
TEST_F(Spmd, RowsAreSentThroughCalls) {
  const Largest of = LargestOf(R"(HloModule m, num_partitions=4
pad { x = f32[64,8] parameter(0)
  i = s32[] parameter(1)
  v = f32[] convert(i)
  ROOT r = f32[67,8] pad(x, v), padding=3_0x0_0 }
ENTRY main {
  x = f32[64,8] parameter(0), sharding={devices=[4,1]<=[4]}
  one = s32[] constant(1)
  p = f32[67,8] call(x, one), to_apply=pad
  s = f32[64,8] slice(p), slice={[0:64], [0:8]}
  ROOT r = f32[64,8] add(s, x), sharding={devices=[4,1]<=[4]}
})");
  EXPECT_EQ(of.moved, 3 * 8 * 4);
}

// Sums of parts that are added are one sum; of a table's gradient each device adds up its own rows.
TEST_F(Spmd, SumsAreTakenOnce) {
  const Largest of = LargestOf(R"(HloModule m, num_partitions=4
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
ENTRY main {
  x = f32[8,64] parameter(0), sharding={devices=[1,4]<=[4]}
  y = f32[8,64] parameter(1), sharding={devices=[1,4]<=[4]}
  z = f32[8,64] parameter(2), sharding={devices=[1,4]<=[4]}
  w = f32[64,16] parameter(3), sharding={devices=[4,1]<=[4]}
  a = f32[8,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[8,16] dot(y, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[8,16] dot(z, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ab = f32[8,16] add(a, b)
  ROOT r = f32[8,16] add(ab, c), sharding={replicated}
})");
  EXPECT_EQ(of.moved, 8 * 16 * 4);
  const Largest scattered = LargestOf(R"(HloModule m, num_partitions=4
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
ENTRY main {
  words = s32[16,1] parameter(0), sharding={devices=[4,1]<=[4]}
  g = f32[16,8] parameter(1), sharding={devices=[4,1]<=[4]}
  zero = f32[] constant(0)
  zeros = f32[4096,8] broadcast(zero), dimensions={}
  ROOT r = f32[4096,8] scatter(zeros, words, g), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add, sharding={devices=[4,1]<=[4]}
})");
  EXPECT_EQ(scattered.moved, 16 * 8 * 4 + 16 * 4);
}

// What the branches of a conditional give stays cut.
TEST_F(Spmd, BranchesKeepTheirCuts) {
  const Largest of = LargestOf(R"(HloModule m, num_partitions=4
sine { x = f32[64,8] parameter(0)
  ROOT r = f32[64,8] sine(x) }
ones { x = f32[64,8] parameter(0)
  one = f32[] constant(1)
  ROOT r = f32[64,8] broadcast(one), dimensions={} }
ENTRY main {
  x = f32[64,8] parameter(0), sharding={devices=[4,1]<=[4]}
  p = pred[] parameter(1), sharding={replicated}
  c = f32[64,8] conditional(p, x, x), true_computation=sine, false_computation=ones
  ROOT r = f32[64,8] negate(c), sharding={devices=[4,1]<=[4]}
})");
  EXPECT_EQ(of.moved, 0);
  EXPECT_EQ(of.elements, 16 * 8);
}

}  // namespace
}  // namespace krafla
