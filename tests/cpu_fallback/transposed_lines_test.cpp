// SPDX-License-Identifier: Apache-2.0
// Transposes between several dimensions.
#include "cpu_fallback/executor/transposed_lines.h"

#include <algorithm>
#include <numeric>

#include "moved_program.h"

namespace krafla {
namespace {

// Runs it over the buffers that CheckLoop would have, without asking whether anything else were faster.
void CheckLines(const plan::ElementProgram& program, ElementType type, const std::string& what) {
  const auto moves = cpu::MoveLevels::Of(program);
  ASSERT_TRUE(moves) << what;
  const auto lines = cpu::TransposedLines::Make(*moves, 1);
  ASSERT_TRUE(lines) << what;
  std::mt19937 random(7);
  AlignedBytes in = RandomBuffer(type, program.buffers[0].element_count, random);
  AlignedBytes got = RandomBuffer(type, program.buffers[1].element_count, random), want = got;
  std::byte* const from_and_got[] = {in.data(), got.data()};
  ThreadPool pool(2);
  lines->Run(from_and_got, pool);
  reference::Interpreter(program, {in.data(), want.data()}).RunAll();
  ExpectSame(type, got, want, what);
}

TEST(TransposedLines, EveryOrderOfDimensions) {
  using enum ElementType;
  for (ElementType type : {kU8, kBF16, kF32, kF64})
    for (const Dims& dims : {Dims{7, 5, 9}, Dims{19, 17, 33}, Dims{5, 3, 11, 6}, Dims{2, 9, 5, 17, 3}}) {
      std::vector<int> order(dims.size());
      std::iota(order.begin(), order.end(), 0);
      while (std::ranges::next_permutation(order).found) {
        // Rows that stay together are copied.
        if (order.back() == static_cast<int>(dims.size()) - 1) continue;
        std::string what = std::string(ElementTypeName(type));
        for (int d : order) what += Format(" {} of {}", d, dims[static_cast<std::size_t>(d)]);
        CheckLines(Moved(type, dims, order, 0), type, what);
      }
    }
}

// Sides that are longer than what one call takes, and whose last part is shorter.
TEST(TransposedLines, LongSidesInParts) {
  using enum ElementType;
  for (ElementType type : {kU8, kU16, kF32, kF64}) {
    CheckLines(Moved(type, {1031, 7}, {1, 0}, 0), type, "long rows");
    CheckLines(Moved(type, {7, 1031}, {1, 0}, 0), type, "long columns");
    for (int64_t few : {2, 3, 4, 5, 6, 8, 9})
      for (int64_t rows : {64, 79, 85, 1031})
        CheckLines(Moved(type, {rows, few}, {1, 0}, 0), type, Format("{} rows of {}", rows, few));
    CheckLines(Moved(type, {300, 3, 700}, {2, 1, 0}, 0), type, "both");
    CheckLines(Moved(type, {40, 30, 20}, {2, 0, 1}, 1), type, "backwards in one of them");
  }
}

// Neighbours that stay together are elements of twice the size.
TEST(TransposedLines, PairsAreElements) {
  for (ElementType type : {ElementType::kU8, ElementType::kU16, ElementType::kF32})
    CheckLines(Moved(type, {30, 20, 2}, {1, 0, 2}, 0), type, "pairs");
}

TEST(TransposedLines, LoopsOfManyShortDimensionsTakeThem) {
  using enum ElementType;
  for (ElementType type : {kPred, kU16, kF32, kF64})
    for (const auto& [dims, order] :
         {std::pair{Dims{23, 28, 18, 4, 3}, std::vector{3, 4, 2, 0, 1}},
          std::pair{Dims{2, 35, 392, 8}, std::vector{1, 3, 2, 0}}, std::pair{Dims{63, 44, 31}, std::vector{2, 1, 0}},
          std::pair{Dims{9, 17, 11, 5, 2}, std::vector{4, 2, 1, 0, 3}}}) {
      const plan::ElementProgram program = Moved(type, dims, order, 0);
      CheckLoop(program, Format("{} dimensions of {}", dims.size(), ElementTypeName(type)));
    }
}

}  // namespace
}  // namespace krafla
