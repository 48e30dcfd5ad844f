// SPDX-License-Identifier: Apache-2.0
// An operand of a product that is computed where it is read (plan::DotKernel), a part of its lines (rows of a left
// operand, columns of a right one) and of its depth at a time: as a panel, which stays in a cache, or in registers,
// where it is multiplied at once. The whole operand is never stored.
#pragma once

#include <span>
#include <vector>

#include "cpu_fallback/executor/block_program.h"
#include "cpu_fallback/executor/iteration.h"

namespace krafla::cpu {

class ComputedOperand {
 public:
  struct Wish {
    bool is_rhs = true;  // the last two dimensions are the depth and the lines, else the lines and the depth
    ElementType type = ElementType::kF32;  // of a panel's elements, or of the sums
    // How many of the elements that lie side by side in memory a part has, and how many elements in all, at the most.
    // 0: all places of the depth, and as many lines as that leaves.
    int64_t neighbours = 0, elements = 0;
    int64_t most_lines = 0;
    // If not 0, there are no panels: AddProducts multiplies with so many vectors in registers, over all of the depth.
    int64_t vectors = 0;
    bool vectors_fit_bf16 = false;
  };
  // UNIMPLEMENTED names what has no loop.
  static Result<ComputedOperand> Make(const plan::ElementProgram& program, const Wish& wish);

  // A part of the lines or of the depth, and which elements of each dimension of the program make it up.
  struct Part {
    int64_t begin = 0, count = 0;
    Dims origin, extents;
    int kind = 0;  // parts of equal extents have the same
  };
  const std::vector<Part>& lines() const { return lines_; }
  const std::vector<Part>& depths() const { return depths_; }
  // Lines of a part, at the most.
  int64_t most_lines() const { return most_lines_; }
  // Of a panel's elements: from line to line, and along the depth. One of them is 1.
  int64_t line_stride() const { return line_stride_; }
  int64_t depth_stride() const { return depth_stride_; }
  // Places of the depth that follow each other without a change of what they have in common, as a scale, or of how they
  // are read.
  int64_t neighbours_in_depth() const;
  int64_t panel_bytes() const { return most_lines_ * most_depth_ * width_; }
  int64_t frame_bytes() const { return frame_bytes_; }

  // Sets `memory`, of frame_bytes, up for any number of parts.
  void Start(std::byte* memory, std::span<std::byte* const> bindings) const;
  // A panel has tiles, which threads may share, each with a memory of its own.
  int64_t TileCount(const Part& lines, const Part& depth) const;
  void Compute(std::byte* memory, std::span<const int64_t> batch, const Part& lines, const Part& depth,
               std::byte* panel, int64_t first_tile, int64_t last_tile) const;

  // Adds the products with vector v, whose place k is vectors[v * depth + k], to the sums from sums[v * most_lines()]
  // on. They lie in an order of their own: PlaceSums has to[l * stride] be that of the part's line l.
  void AddProducts(std::byte* memory, std::span<const int64_t> batch, const Part& lines, const std::byte* vectors,
                   std::byte* sums) const;
  void PlaceSums(const Part& lines, const std::byte* sums, std::byte* to, int64_t stride) const;

 private:
  enum class Role : uint8_t { kBatch, kLines, kDepth };
  // A dimension of the program once it has been split: a step along it is `unit` places of its role, and `stride`
  // elements of a panel or of the sums.
  struct Dim {
    Role role = Role::kBatch;
    int number = 0;  // of kBatch: which of them
    int64_t extent = 1, unit = 1, stride = 0;
  };
  // The program, or what it is where a short dimension, which conditions and shifts depend on, has one index, or at all
  // of these one after the other: they are constants then.
  struct Piece {
    BlockProgram program;
    int dim = -1;
    int64_t index = 0;            // of `dim`; -1: all
    std::vector<TileGrid> grids;  // by the kinds of lines and depth
    int64_t frame = 0;            // where its frame begins
    const TileGrid& GridOf(const Part& lines, const Part& depth) const {
      return grids[static_cast<std::size_t>(lines.kind * 2 + depth.kind)];
    }
  };

  plan::ElementProgram Split(const plan::ElementProgram& program);
  bool LiesAlongLines(const plan::ElementProgram& program) const;
  void ChooseParts(const Wish& wish, bool by_lines, int64_t lines, int64_t depth);
  std::vector<Part> PartsOf(Role role, int64_t most, bool is_sum = false) const;
  void ChooseOrderOfSums();
  int LongestOf(Role role, int without = -1) const;
  void AddPanelStore(plan::ElementProgram& program, ElementType type) const;
  void AddProductStores(plan::ElementProgram& program, const Wish& wish, int64_t depth) const;
  plan::IndexId PlaceOf(plan::IndexSpace& space, Role role) const;
  int FindShortDim(const plan::ElementProgram& program, int64_t most) const;
  bool HasWhole(int dim) const;
  Result<> AddPiece(const plan::ElementProgram& program, const Wish& wish, int dim, int64_t index);
  TileShape PanelTile(const plan::ElementProgram& program, int without) const;
  TileShape SumsTile(const plan::ElementProgram& program, int without) const;
  // Of the first parts, which are the largest.
  int64_t ExtentOf(int dim) const {
    const auto d = static_cast<std::size_t>(dim);
    return lines_[0].extents[d] * depths_[0].extents[d];
  }
  void RunTiles(const Piece& piece, std::byte* memory, std::span<const int64_t> batch, const Part& lines,
                const Part& depth, int64_t first_tile, int64_t last_tile) const;

  std::vector<Dim> dims_;
  std::vector<Piece> pieces_;
  std::vector<Part> lines_, depths_;
  int64_t line_stride_ = 1, depth_stride_ = 1, most_lines_ = 0, most_depth_ = 0, frame_bytes_ = 0;
  // The panel, or the vectors, behind which come the sums.
  int width_ = 4, first_buffer_ = 0;
};

}  // namespace krafla::cpu
