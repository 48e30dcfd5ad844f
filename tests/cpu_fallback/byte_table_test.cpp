// SPDX-License-Identifier: Apache-2.0
// Elements of tables that bytes name.
#include "cpu_fallback/executor/byte_table.h"

#include "kernel_fixture.h"

namespace krafla {
namespace {

using plan::IndexId;
using plan::NodeId;
using plan::ProgramBuilder;

constexpr int64_t kPixels = 5000, kChannels = 3, kEntries = 256;

// The curve of one channel, or of each, for pixels of several channels.
plan::ElementProgram Curves(ElementType type, ElementType of_index, bool of_each) {
  const int64_t dims[] = {kPixels, of_each ? kChannels : 1};
  ProgramBuilder b(dims);
  auto& s = b.space();
  const int pixels = b.AddBuffer(of_index, kPixels * kChannels, false);
  const int tables = b.AddBuffer(type, kChannels * kEntries, false);
  const int out = b.AddBuffer(type, kPixels * kChannels, true);
  const IndexId at = s.Add(s.Mul(s.Iter(0), kChannels), of_each ? s.Iter(1) : s.Constant(1));
  const NodeId value = b.Convert(b.Load(pixels, of_index, at), of_index, ElementType::kS32);
  const IndexId entry =
      s.Add(b.ClampedIndex(value, 0, kEntries - 1), of_each ? s.Mul(s.Iter(1), kEntries) : s.Constant(0));
  b.AddStore({.buffer = out, .index = at, .node = b.Load(tables, type, entry), .storage = type});
  return std::move(b).Finish();
}

TEST(ByteTable, CurvesOfPixels) {
  using enum ElementType;
  for (ElementType type : {kU8, kS8, kBF16, kU16})
    for (bool of_each : {false, true}) {
      const plan::ElementProgram program = Curves(type, kU8, of_each);
      EXPECT_TRUE(cpu::ByteTable::Make(program, 512)) << ElementTypeName(type);
      CheckLoop(program, Format("curves of {}", ElementTypeName(type)));
    }
  // Wider elements vectors gather, other numbers may have no entry, and little may be a loop's instruction.
  EXPECT_FALSE(cpu::ByteTable::Make(Curves(kF32, kU8, false), 512));
  EXPECT_FALSE(cpu::ByteTable::Make(Curves(kU8, kS32, false), 512));
  EXPECT_FALSE(cpu::ByteTable::Make(Curves(kU8, kU8, false), 8192));
}

}  // namespace
}  // namespace krafla
