// SPDX-License-Identifier: Apache-2.0
// An operand of a product that is computed where it is read: its element program, evaluated in blocks.
#pragma once

#include <map>

#include "spirv_codegen/kernels/matrix.h"

namespace krafla::spirv {

struct ProgramMatrix {
  const plan::ElementProgram* program = nullptr;  // none: there is no such operand
  ElementType type = ElementType::kF32;           // of its result, as HLO has it
  int row_dim = 0, column_dim = 1;                // of the program's space; those before both are batches

  int64_t rows() const { return program->space.dims()[static_cast<std::size_t>(row_dim)]; }
  int64_t columns() const { return program->space.dims()[static_cast<std::size_t>(column_dim)]; }
  ProgramMatrix Transposed() const { return {program, type, column_dim, row_dim}; }
};

// Whether neighbours along `dim`, rather than along `other`, lie side by side in what the program reads most of.
bool LiesAlong(const plan::ElementProgram& program, int dim, int other);

// The same program over [parts, dims...], where a part has `depth` elements of dimension `dim`, from `first` on.
plan::ElementProgram PartsOf(const plan::ElementProgram& program, int dim, int64_t parts, int64_t first, int64_t depth);

// Blocks are evaluated as vectors of four along the direction in which the largest buffer lies, and point by point in
// the other one, in groups of four that share what they have in common (point_group.h): an index, a word that holds
// several elements, the scale of a group. What does not change along the depth is computed before its loop.
class ProgramSource : public MatrixSource {
 public:
  // As those of StridedSource.
  ProgramSource(KernelWriter& w, const ProgramMatrix& m, Value batch, ReadAs as, bool rows_in_range,
                bool columns_in_range);
  void PrepareRows(Value row, int rows) override;
  void PrepareColumns(Value column, int columns) override;
  void Load(Value row, int rows, Value column, int columns, std::span<Value> out) const override;

 private:
  // How blocks are evaluated: vectors along the columns, along the rows, or one by one.
  enum class Way { kColumns, kRows, kScalars };
  struct Side {
    int dim = 0;
    int64_t extent = 1;
    bool in_range = false;
    PointGroup* group = nullptr;
  };
  // A coordinate of a side, and the number of its point in a group; -1: it is in none.
  struct Point {
    Value at;
    int in_group = -1;
  };
  // A side and a coordinate of it, and the dimension of the vectors (-1: none).
  using Key = std::tuple<int, Id, int>;

  Way WayOf(int rows, int columns) const;
  ProgramLowering Fresh(int vector_dim) const;
  // The coordinate first + offset, kept within the matrix; `span` neighbours follow it.
  Value Clamped(const Side& side, Value first, int offset, int64_t span) const;
  std::vector<Point> Points(const Side& side, Value first, int count) const;
  void Prepare(const Side& side, const Point& point, int vector_dim, const Side& other);
  void PrepareSide(const Side& side, Value first, int count, bool vectors, const Side& other, int other_vector_dim);
  void LoadLines(const Side& vectors, Value along, int width, const Side& side, std::span<const Point> points,
                 std::span<Value> out) const;
  Value StoredBits(Value v) const;

  KernelWriter& w_;
  Builder& b_;
  ProgramMatrix m_;
  ReadAs as_;
  Values batch_;  // its coordinates
  PointGroup row_group_, column_group_;
  Side row_, column_;
  bool along_rows_;
  std::map<Key, ProgramLowering> prepared_;  // what does not change along the other side
};

}  // namespace krafla::spirv
