// SPDX-License-Identifier: Apache-2.0
// Moving elements between strided places: every width, sides on both sides of what blocks and vectors hold.
#include "cpu_fallback/kernels/move.h"
#include "cpu_fallback/kernels/row_copies.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace krafla {
namespace {

TEST(Move, TilesOfEveryStride) {
  constexpr int64_t kSides[] = {1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 33, 70, 101};
  for (int width : {1, 2, 4, 8}) {
    for (int64_t rows : kSides) {
      for (int64_t columns : kSides) {
        // Where an element of row r and column c lies: dense, transposed, spread out, every second, third or fourth
        // one.
        const cpu::TileStrides kStrides[] = {{columns, 1},     {1, rows},     {columns + 3, 1}, {1, rows + 5},
                                             {2 * columns, 2}, {2, 2 * rows}, {3 * columns, 3}, {4 * columns, 4}};
        for (const cpu::TileStrides& from : kStrides) {
          for (const cpu::TileStrides& to : kStrides) {
            // Nothing lies behind the last element.
            const auto size = [&](const cpu::TileStrides& s) {
              return static_cast<std::size_t>(((rows - 1) * s.row + (columns - 1) * s.column + 1) * width);
            };
            std::vector<std::byte> in(size(from)), out(size(to), std::byte{0x5a}), expected = out;
            for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::byte>(i * 37 + i / 251);
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

// Rows of every length, each from and to a place of its own, or all from one.
TEST(Move, ShortRows) {
  constexpr int64_t kRows = 9;
  for (std::size_t bytes = cpu::kLeastCopiedRow; bytes <= cpu::kMostCopiedRow; bytes += bytes < 200 ? 4 : 60)
    for (int64_t step : {1, 0}) {
      const std::size_t row = bytes / 4;
      std::vector<uint32_t> from(20 * row), to(kRows * row, 0), want = to;
      for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<uint32_t>(i * 2654435761u);
      std::vector<int32_t> source, target;
      for (int64_t i = 0; i < kRows; ++i) {
        source.push_back(static_cast<int32_t>(static_cast<std::size_t>(i * 7 % 20) * row));
        target.push_back(static_cast<int32_t>(static_cast<std::size_t>((i * 4 + 2) % kRows) * row));
        const int32_t at = source[static_cast<std::size_t>(i * step)];
        std::copy_n(from.begin() + at, row, want.begin() + target.back());
      }
      cpu::CopyShortRows(4, bytes, kRows, reinterpret_cast<const std::byte*>(from.data()), {source.data(), step},
                         reinterpret_cast<std::byte*>(to.data()), {target.data(), 1});
      EXPECT_EQ(to, want) << bytes << " bytes, step " << step;
    }
}

}  // namespace
}  // namespace krafla
