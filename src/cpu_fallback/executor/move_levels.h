// SPDX-License-Identifier: Apache-2.0
// A program that only moves the elements of one array into another, as steps of even length in both.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "plan/element_program.h"

namespace krafla::cpu {

// So many steps, each so many bytes further.
struct MoveLevel {
  int64_t extent = 1, from = 0, to = 0;
};

struct MoveLevels {
  int from_buffer = 0, to_buffer = 0;
  int64_t from_offset = 0, to_offset = 0;  // bytes
  int64_t width = 1;                       // of an element
  std::vector<MoveLevel> levels;           // none of one step

  int64_t bytes() const;  // of what is written
  // The elements of a level that lie side by side in one of the arrays; stride: which.
  int64_t SideOf(int64_t MoveLevel::* stride) const;
  // Nanoseconds a byte, roughly, where tiles do it.
  double TimeOfTiles() const;
  // Nothing where the program does something else.
  static std::optional<MoveLevels> Of(const plan::ElementProgram& program);
};

// Bytes from the first element of all.
struct MovePlace {
  int64_t from = 0, to = 0;
};
// Where the levels are in turn `number` of all their turns, of which the last level's go fastest.
inline MovePlace PlaceOf(std::span<const MoveLevel> levels, int64_t number) {
  MovePlace out;
  for (std::size_t l = levels.size(); l-- > 0; number /= levels[l].extent) {
    const int64_t i = number % levels[l].extent;
    out.from += i * levels[l].from, out.to += i * levels[l].to;
  }
  return out;
}

// Takes the levels out along which elements lie side by side in both arrays; the bytes of such a row.
int64_t TakeRow(std::vector<MoveLevel>& levels, int64_t width);

}  // namespace krafla::cpu
