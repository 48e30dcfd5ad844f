// SPDX-License-Identifier: Apache-2.0
// Moving elements between strided places: every width, sides on both sides of what blocks and vectors hold.
#include "cpu_fallback/kernels/move.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace krafla {
namespace {

TEST(Move, TilesOfEveryStride) {
  constexpr int64_t kSides[] = {1, 2, 3, 4, 7, 8, 9, 16, 17, 33, 70};
  for (int width : {1, 2, 4, 8}) {
    for (int64_t rows : kSides) {
      for (int64_t columns : kSides) {
        // Where an element of row r and column c lies: dense, transposed, spread out, every second, third or fourth
        // one.
        const cpu::TileStrides kStrides[] = {{columns, 1},     {1, rows},     {columns + 3, 1}, {1, rows + 5},
                                             {2 * columns, 2}, {2, 2 * rows}, {3 * columns, 3}, {4 * columns, 4}};
        for (const cpu::TileStrides& from : kStrides) {
          for (const cpu::TileStrides& to : kStrides) {
            const auto size = static_cast<std::size_t>((4 * rows * columns + 5 * (rows + columns)) * width);
            std::vector<std::byte> in(size), out(size, std::byte{0x5a}), expected(size, std::byte{0x5a});
            for (std::size_t i = 0; i < size; ++i) in[i] = static_cast<std::byte>(i * 37 + i / 251);
            for (int64_t r = 0; r < rows; ++r)
              for (int64_t c = 0; c < columns; ++c)
                std::memcpy(expected.data() + (r * to.row + c * to.column) * width,
                            in.data() + (r * from.row + c * from.column) * width, static_cast<std::size_t>(width));
            cpu::MoveTile(width, in.data(), from, out.data(), to, rows, columns);
            ASSERT_EQ(out, expected) << rows << " x " << columns << " of " << width << " bytes, from " << from.row
                                     << ", " << from.column << " to " << to.row << ", " << to.column;
          }
        }
      }
    }
  }
}

// Places side by side, alone, and runs that end where they must not.
TEST(Move, GathersOfRunsAndElements) {
  for (int width : {1, 2, 4, 8}) {
    std::vector<int32_t> index;
    for (int32_t i = 0; i < 40; ++i) index.push_back(i + 7);
    for (int32_t i = 0; i < 33; ++i) index.push_back(i * 29 % 90);
    for (int32_t i = 0; i < 16; ++i) index.push_back(i == 5 ? 0 : i + 70);
    for (int32_t i = 0; i < 21; ++i) index.push_back(79 + i);
    std::vector<std::byte> in(static_cast<std::size_t>(100 * width)), expected,
        out(index.size() * static_cast<std::size_t>(width));
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::byte>(i * 37 + i / 251);
    for (int32_t i : index) expected.insert(expected.end(), in.begin() + i * width, in.begin() + (i + 1) * width);
    cpu::GatherElements(width, in.data(), index.data(), nullptr, out.data(), static_cast<int64_t>(index.size()));
    EXPECT_EQ(out, expected) << width;
  }
}

}  // namespace
}  // namespace krafla
