// SPDX-License-Identifier: Apache-2.0
// Moving elements between strided places: every width, sides on both sides of what blocks and vectors hold.
#include "cpu_fallback/kernels/move.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace krafla {
namespace {

TEST(Move, TilesOfEveryStride) {
  constexpr int64_t kSides[] = {1, 2, 3, 7, 8, 9, 16, 17, 33, 70};
  for (int width : {1, 2, 4, 8}) {
    for (int64_t rows : kSides) {
      for (int64_t columns : kSides) {
        // Where an element of row r and column c lies: dense, transposed, spread out, every second one.
        const cpu::TileStrides kStrides[] = {{columns, 1}, {1, rows}, {columns + 3, 1}, {1, rows + 5}, {2 * columns, 2}, {2, 2 * rows}};
        for (const cpu::TileStrides& from : kStrides) {
          for (const cpu::TileStrides& to : kStrides) {
            const auto size = static_cast<std::size_t>((2 * rows * columns + 5 * (rows + columns)) * width);
            std::vector<std::byte> in(size), out(size, std::byte{0x5a}), expected(size, std::byte{0x5a});
            for (std::size_t i = 0; i < size; ++i) in[i] = static_cast<std::byte>(i * 37 + i / 251);
            for (int64_t r = 0; r < rows; ++r)
              for (int64_t c = 0; c < columns; ++c)
                std::memcpy(expected.data() + (r * to.row + c * to.column) * width,
                            in.data() + (r * from.row + c * from.column) * width, static_cast<std::size_t>(width));
            cpu::MoveTile(width, in.data(), from, out.data(), to, rows, columns);
            ASSERT_EQ(out, expected) << rows << " x " << columns << " of " << width << " bytes, from " << from.row << ", "
                                     << from.column << " to " << to.row << ", " << to.column;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace krafla
