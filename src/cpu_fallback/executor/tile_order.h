// SPDX-License-Identifier: Apache-2.0
// The order in which the tiles of a loop's pieces (pieces.h) run. Pieces that an inner dimension is cut into, as the
// edges of a pad's rows and what lies between them, store parts of the same lines of memory: run one after the other
// they bring all lines into the cache several times, and an edge of one element waits for a line each. Their tiles run
// by turns instead, over a band of the result that stays in the cache.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "cpu_fallback/executor/iteration.h"
#include "plan/element_program.h"

namespace krafla::cpu {

// The bytes of a band; nothing: the pieces do not share lines, or they are as near as that anyway.
std::optional<int64_t> BandOf(std::span<const plan::ElementProgram> pieces);
// A tile that stores no further apart than a band is long.
TileShape WithinBand(const plan::ElementProgram& program, TileShape tile, int64_t band);

struct TileRun {
  std::size_t piece = 0;
  int64_t begin = 0;  // of the piece's tiles
  int64_t count = 0;
  int64_t first = 0;  // how many tiles come before it
};
// All tiles, by the bands that they begin to store in.
class TileOrder {
 public:
  // False, and nothing done: a store of the piece has no such places.
  bool Add(std::size_t piece, const plan::ElementProgram& program, const TileGrid& grid, int64_t band);
  std::vector<TileRun> Take() &&;

 private:
  struct Part {
    int64_t band = 0;
    TileRun run;
  };
  std::vector<Part> parts_;
};

}  // namespace krafla::cpu
