// SPDX-License-Identifier: Apache-2.0
// What dot and convolution kernels are made of: operands as matrices read in small blocks, and what happens to a
// finished sum.
#pragma once

#include <optional>
#include <span>

#include "spirv_codegen/kernels/context.h"

namespace krafla::spirv {

// What elements are read as: values that `accumulate` computes with, or their bits as u32.
struct ReadAs {
  ElementType accumulate = ElementType::kF32;
  bool raw = false;
  Kind kind() const { return raw ? Kind::kU32 : ComputeKind(accumulate); }
};

// The lines of a matrix, rows or columns, where it says at which place of a buffer their elements lie: element `k` of
// a line's depth is at offset(line) + the segment's offset + k * depth_stride.
struct MatrixLines {
  int binding = 0;
  int element_bytes = 4;
  int64_t count = 1, depth = 1;
  int64_t line_stride = 0;  // of neighbours; 0: they lie unevenly
  int64_t depth_stride = 1;
  int64_t granule = 0;                      // all other offsets are multiples of this; 0: there is none
  std::function<Value(Value line)> offset;  // in elements; modulo 2^32, if a segment's offset makes it good
  Dims segment_strides;  // a segment's offset is their product with its coordinates (TileProblem::segment_dims)
  bool wraps = false;    // parts of an offset may be negative
  // One bit a segment: the line has elements there, else zeros. Empty: it has some in all of them.
  std::function<Value(Value line)> segments;
};

// A matrix of values of one kind, read in blocks. Its depth (the columns of a, the rows of b) may come in segments: a
// convolution's window positions.
class MatrixSource {
 public:
  virtual ~MatrixSource() = default;
  // Announces blocks of these rows (columns), so that what they share is computed before a loop.
  virtual void PrepareRows(Value /*row*/, int /*rows*/) {}
  virtual void PrepareColumns(Value /*column*/, int /*columns*/) {}
  // Reads from here on are of this segment. Called where it dominates them.
  virtual void Enter(Value /*segment*/) {}
  // Rows row..row+rows-1 by `columns` (1 or 4) columns from `column` on, a multiple of `columns`; element i of `out` is
  // the vector of row i. Rows and columns past the end give other elements of the matrix, never an access outside.
  virtual void Load(Value row, int rows, Value column, int columns, std::span<Value> out) const = 0;
  // Of a source that reads bits: 4 columns as the `bytes` (1 or 2) words that hold them.
  virtual void LoadWords(Builder& b, int bytes, Value row, int rows, Value column, std::span<Value> out) const;
  // Its rows, else its columns, where these lie side by side or their elements do.
  virtual std::optional<MatrixLines> Lines(bool /*rows*/) const { return std::nullopt; }
};

// Where the segments of a depth begin: at `start` and the product of a segment's coordinates with the strides.
struct SegmentPlaces {
  Dims dims, strides;
  int64_t start = 0;
  Value Offset(Builder& b, Value segment) const;
};

struct StridedMatrix {
  int binding = 0;
  ElementType type = ElementType::kF32;
  int64_t rows = 1, columns = 1;
  int64_t row_stride = 0, column_stride = 0;
  int64_t offset_granule = 0;  // every other offset is a multiple of this; 0: there is none
  SegmentPlaces segments = {};
};

class StridedSource : public MatrixSource {
 public:
  // `offset`: of this batch, in elements. `rows_in_range`: callers never pass the last row.
  StridedSource(KernelWriter& w, const StridedMatrix& m, Value offset, ReadAs as, bool rows_in_range,
                bool columns_in_range)
      : w_(w),
        b_(w.b),
        m_(m),
        offset_(offset),
        batch_offset_(offset),
        as_(as),
        rows_in_range_(rows_in_range),
        columns_in_range_(columns_in_range) {}
  void PrepareRows(Value row, int rows) override;
  void PrepareColumns(Value column, int columns) override;
  void Enter(Value segment) override;
  void Load(Value row, int rows, Value column, int columns, std::span<Value> out) const override;
  void LoadWords(Builder& b, int bytes, Value row, int rows, Value column, std::span<Value> out) const override;
  std::optional<MatrixLines> Lines(bool rows) const override;

 private:
  // How blocks are read: vectors along the columns, along the rows, or one by one; `aligned`: vectors begin at
  // multiples of four elements.
  struct Way {
    enum { kColumns, kRows, kScalars } along = kScalars;
    bool aligned = true;
    int64_t span() const { return aligned ? 4 : 1; }  // elements of a vector that lie in the matrix
  };
  Way WayOf(int rows, int columns) const;
  Value Element(Value index, int width) const;
  Value Four(Value index, Way way) const;
  // The part of the index that a row (column) contributes, kept within the matrix; `span` neighbours follow it.
  Value RowPart(Value row, int64_t span) const;
  Value ColumnPart(Value column, int64_t span) const;

  KernelWriter& w_;
  Builder& b_;
  StridedMatrix m_;
  Value offset_, batch_offset_;
  ReadAs as_;
  bool rows_in_range_, columns_in_range_;
};

// Of an operand of a product, which nothing writes while the kernel runs.
Value LoadOperand(Builder& b, Buffers& buffers, int binding, ElementType type, ReadAs as, Value index, int width);
// Whether four of them are read from any place by words, and that.
bool ReadsFromAny(const KernelWriter& w, ElementType type, ReadAs as);
Value LoadOperandFromAny(KernelWriter& w, int binding, ElementType type, ReadAs as, Value index);
Value LoadAs(Builder& b, Buffers& buffers, int binding, ElementType type, ReadAs as, Value index, int width);

// acc + x * y, free to be fused.
Value MultiplyAdd(Builder& b, Value acc, Value x, Value y);

// A finished sum as the epilogue's param 0: rounded to `result`, back in the compute type of `accumulate`.
Value AsResult(Builder& b, ElementType accumulate, ElementType result, Value acc);

// Sums of a tile given to an epilogue program: `vector_dim` is the dimension that vectors lie along.
class Epilogue {
 public:
  Epilogue(KernelWriter& w, const plan::ElementProgram& program, ElementType accumulate, ElementType result)
      : w_(w), program_(program), accumulate_(accumulate), result_(result) {}
  // One sum, or 2 or 4 along `vector_dim` starting at a multiple of their number. `coordinates`: of all dimensions, the
  // first sum's. Sums past the end of `vector_dim` are left out; `condition`: on everything else, may be empty.
  void Emit(std::span<const Value> coordinates, int vector_dim, Value acc, Value condition) const;
  bool is_big() const { return program_.nodes.size() > 12; }
  // Further params of the program, from number 1 on, the same for all sums that are emitted from now on.
  void SetParams(Values params) { params_ = std::move(params); }

 private:
  KernelWriter& w_;
  const plan::ElementProgram& program_;
  ElementType accumulate_, result_;
  Values params_;
};

// out[row, column] = sum over segments and depth of a[row, k] * b[k, column], for each batch.
struct TileProblem {
  int64_t batch = 1, rows = 1, columns = 1, depth = 1, segments = 1;
  Dims segment_dims = {};  // the segments' coordinates, whose number this makes; none: there is one segment
  ElementType accumulate = ElementType::kF32;
};
// `make_a` and `make_b` give the operands of a batch; `finish` takes sums of a row: 1 or 4 from a column on.
struct TileOperands {
  std::function<std::unique_ptr<MatrixSource>(Value batch)> make_a, make_b;
  std::function<void(Value batch, Value row, Value column, Value acc, Value condition)> finish;
  // How many of TileProblem::segments a batch has; none: all.
  std::function<Value(Value batch)> segment_count;
  bool big_finish = false;
};

// Gives the sums of `acc.size()` rows to finish: one after the other, or in a loop through which the rows travel, so
// that a big epilogue is there once.
void FinishRows(Builder& b, const TileProblem& p, const TileOperands& operands, Value batch, Value row, Value column,
                const Values& acc, int64_t block_rows);

// An invocation holds `tile_rows` x `column_blocks` x 4 sums (x 1 where `column_vectors` is off); its workgroup's lanes
// lie along the columns. No shared memory. `packed_binding` >= 0: b comes from that buffer, in panels (EmitPack).
struct PanelOptions {
  int tile_rows = 8;
  int column_blocks = 1;  // 1 with a packed b
  uint32_t lanes = 8;
  bool column_vectors = true;
  // The lanes lie over blocks of rows, of columns and batches instead, each with a block of its own. Not with a packed
  // b.
  bool lanes_over_blocks = false;
  int packed_binding = -1;
  bool chained = false;  // sums in chains (wide_sum.h), which need three times the registers between them
  // Of an invocation in a turn of the loop along the depth, which is 4, 8, 12 or 16 deep.
  int64_t turn_products = 0;
};
Result<EmittedDispatch> EmitPanels(KernelWriter& w, const TileProblem& problem, const TileOperands& operands,
                                   const PanelOptions& options);
// b as [batch][columns / panel][segments][depth rounded up to 4][panel] 32-bit words, panel = 4 * lanes.
int64_t PackedWords(const TileProblem& problem, uint32_t lanes);
Result<EmittedDispatch> EmitPack(KernelWriter& w, const TileProblem& problem, const TileOperands& operands,
                                 uint32_t lanes, int packed_binding, uint32_t local);

// A workgroup's tile goes through shared memory.
bool SharedTileFits(const SharedTile& tile, ElementType accumulate, const DeviceProfile& profile);
uint32_t SharedTileLocal(const SharedTile& tile);  // invocations of the workgroup
Result<EmittedDispatch> EmitSharedTile(KernelWriter& w, const TileProblem& problem, const TileOperands& operands,
                                       const SharedTile& tile);

}  // namespace krafla::spirv
