// SPDX-License-Identifier: Apache-2.0
// Products of which an operand comes block by block while others are worked on.
#include <map>

#include "passes/pipeline.h"
#include "passes/spmd/spmd_partitioner.h"
#include "spmd_fixture.h"

namespace krafla {
namespace {

// Rows of x and columns of w over four devices; the rows of the result are needed whole, its columns are not.
std::string Product(int64_t rows) {
  return Format(R"(HloModule m, num_partitions=4
ENTRY main {{
  x = f32[{0},1024] parameter(0), sharding={{devices=[4,1]<=[4]}}
  w = f32[1024,1200] parameter(1), sharding={{devices=[1,4]<=[4]}}
  ROOT r = f32[{0},1200] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, sharding={{devices=[1,4]<=[4]}}
}})",
                rows);
}

std::map<Opcode, int> OpcodesOf(const std::string& text, const PassOptions& options) {
  std::map<Opcode, int> out;
  auto module = ParseHloText(text, "test");
  EXPECT_TRUE(module) << module.error().message();
  if (!module) return out;
  auto shardings = PartitionModule(**module, options);
  EXPECT_TRUE(shardings && *shardings);
  for (const auto& i : (*module)->entry()->instructions()) ++out[i->opcode()];
  return out;
}

TEST_F(Spmd, AnOperandComesWhileOthersAreWorkedOn) {
  PassOptions options;
  options.least_bytes_by_turns = 1 << 20;
  for (const int64_t rows : {1024, 1030}) {
    auto by_turns = OpcodesOf(Product(rows), options);
    EXPECT_EQ(by_turns[Opcode::kAllGather], 0);
    EXPECT_EQ(by_turns[Opcode::kCollectivePermute], 3);
    EXPECT_EQ(by_turns[Opcode::kDot], 4);
  }
  // Of less it takes longer than it saves.
  EXPECT_EQ(OpcodesOf(Product(1020), options)[Opcode::kAllGather], 1);
  EXPECT_EQ(OpcodesOf(Product(1024), {})[Opcode::kAllGather], 1);
  // What another needs too is put together once.
  const std::string two = Replaced(
      Replaced(Product(1024), "ROOT r =", "r ="), "\n}",
      "\n  t = f32[1024,1200] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={devices=[1,4]<=[4]}\n  ROOT s = f32[1024,1200] add(r, t)\n}");
  EXPECT_EQ(OpcodesOf(two, options)[Opcode::kAllGather], 1);
}

TEST_F(Spmd, ByTurnsTheBitsAreTheSame) {
  for (const int64_t rows : {1024, 1030}) {
    std::vector<Literal> arguments;
    for (const Dims& dims : {Dims{rows, 1024}, Dims{1024, 1200}}) {
      std::mt19937 random(static_cast<uint32_t>(arguments.size()) + 1);
      const Shape shape = *Shape::MakeArray(ElementType::kF32, dims);
      std::vector<float> values(static_cast<std::size_t>(shape.element_count()));
      for (float& v : values) v = static_cast<float>(random()) / 4e9f - 0.5f;
      arguments.push_back(*Literal::FromBytes(shape, std::as_bytes(std::span(values))));
    }
    std::vector<std::string> shardings;
    CompileOptions options;
    options.enabled.insert("dots-by-turns");
    const auto want = Run(Product(rows), arguments, &shardings),
               got = Run(Product(rows), arguments, &shardings, options);
    ASSERT_TRUE(want) << want.error().message();
    ASSERT_TRUE(got) << got.error().message();
    for (std::size_t d = 0; d < 4; ++d) EXPECT_EQ((*got)[d][0], (*want)[d][0]) << rows << " rows, device " << d;
  }
}

}  // namespace
}  // namespace krafla
