// SPDX-License-Identifier: Apache-2.0
// The parts of which the kernels of dense linear algebra are made. A blocked algorithm is a sequence of dispatches over
// buffers; within one dispatch every invocation works on elements of its own.
#pragma once

#include <algorithm>
#include <bit>
#include <functional>
#include <span>

#include "base/checked_math.h"
#include "spirv_codegen/kernels/numbers.h"
#include "spirv_codegen/kernels/variant.h"

namespace krafla::spirv {

// What a row of a table of variants decides on.
struct LinalgCase {
  const plan::KernelPlan& plan;
  const plan::LinalgKernel& k;
  const Target& target;
};
using LinalgVariant = Variant<LinalgCase, Result<EmittedProgram>>;
// The refusal of variants in which one invocation works on a whole matrix.
Refusal RefusesInvocationEach(const LinalgCase& c);
// The bytes of shared memory that a variant may use.
int64_t SharedRoom(const Target& target);

// A kernel of one workgroup of which dense linear algebra is a part: each dispatch is a loop over its items, which the
// workgroup's invocations share, with a barrier behind it.
struct InGroup {
  KernelWriter& w;
  std::span<const int> names;  // the kernel's buffer for each binding
  uint32_t local = 1;
  const std::function<void()>& barrier;
};
// Why it cannot be part of a kernel; none: it can.
Refusal RefusesInGroup(const LinalgCase& c);
// The items of its widest dispatch, and the operations of each, roughly.
struct InGroupCost {
  int64_t items = 0;
  double operations = 0;
};
InGroupCost CostInGroup(const plan::LinalgKernel& k);

// One kernel under construction.
struct LinalgKernelWriter {
  Builder& b;
  Buffers& buffers;
  Numbers& numbers;
  std::span<const int> names;  // of buffers, as InGroup's; may be empty
  Value matrix;                // its number in the batch
  Value item;                  // of the matrix: the number of this invocation, or of this workgroup
  Value at;                    // what the dispatch passes, the row and column where a block begins
  Value U32(int64_t v) { return b.U32(static_cast<uint32_t>(v)); }
  int Named(int binding) const { return names.empty() ? binding : names[static_cast<std::size_t>(binding)]; }
};
using LinalgBody = std::function<void(LinalgKernelWriter&)>;

// Collects the kernels and dispatches of one program.
class LinalgProgram {
 public:
  // Scratch buffers hold `scratch[i]` wide numbers each.
  LinalgProgram(const plan::KernelPlan& plan, const plan::LinalgKernel& kernel, const Target& target,
                const std::vector<int64_t>& scratch);

  // Adds a kernel that has one invocation for each item. These functions return the kernel's number.
  int Add(std::string variant, const LinalgBody& body);
  // The same for items of a few instructions each: an invocation takes several of them where workgroups cost more.
  int AddElements(std::string variant, const LinalgBody& body);
  // Adds a kernel that has a workgroup of `local` invocations for each item.
  int AddGroups(std::string variant, uint32_t local, const LinalgBody& body);
  // Adds a dispatch of the kernel with so many items for each matrix.
  Result<> Run(int kernel, int64_t items, int64_t at = 0);
  // Rounds `count` wide numbers of each matrix from the scratch buffer `work` to the type of the binding `result`.
  Result<> RunRound(std::string variant, int work, int result, int64_t count);

  int scratch(int n) const { return static_cast<int>(plan_.bindings.size()) + n; }
  EmittedProgram Take() { return std::move(out_); }

 private:
  // Whose workgroup has `items` items, of invocations or of its own.
  int AddKernel(std::string variant, uint32_t local, uint32_t items, const LinalgBody& body);
  void RunInGroup(const LinalgBody& body, int64_t items, int64_t at);

  const plan::KernelPlan& plan_;
  const plan::LinalgKernel& kernel_;
  const Target& target_;
  std::vector<BufferDesc> descs_;
  std::vector<uint32_t> items_;     // of a workgroup of each kernel
  std::vector<LinalgBody> bodies_;  // of each kernel, where they are parts of another
  EmittedProgram out_;
};

// A matrix in the workgroup's memory.
class SharedMatrix {
 public:
  SharedMatrix(LinalgKernelWriter& w, int64_t rows, int64_t columns);
  Number Load(Value row, Value column) { return LoadAt(Place(row, column)); }
  void Store(Value row, Value column, Number v) { StoreAt(Place(row, column), v); }
  // The same by the element's number in row-major order.
  Number LoadAt(Value number);
  void StoreAt(Value number, Number v);

 private:
  Value Place(Value row, Value column) { return w_.b.Add(w_.b.Mul(row, w_.U32(columns_)), column); }
  LinalgKernelWriter& w_;
  int64_t columns_;
  int width_;
  Id array_;
};

// Reads and writes an element by its row and column.
using ElementLoad = std::function<Number(Value row, Value column)>;
using ElementStore = std::function<void(Value row, Value column, Number value)>;

// Solves m y = y in place for the rows [begin, end) of one column y and a triangular matrix m, forward from `begin` or
// backward from `end`. `unit`: the diagonal of m counts as ones.
struct SubstitutionBlock {
  Value begin, end;
  bool forward = true, unit = false;
  ElementLoad m;
  std::function<Number(Value row)> load;
  std::function<void(Value row, Number value)> store;
};
void EmitSubstitution(LinalgKernelWriter& w, const SubstitutionBlock& s);

// target[r, c] -= sum over k in [begin, end) of left[r, k] * right[k, c], for the tile of rows x columns elements at
// (row, column), as far as it lies within the bounds.
struct UpdateTile {
  int rows = 4, columns = 4;
  Value row, column, row_bound, column_bound;  // elements at or past the bounds are not stored
  Value begin, end;
  ElementLoad left, right, load;
  ElementStore store;
  // Four real numbers that lie side by side, as a vector, where a matrix has them so: along k, whose range has a
  // multiple of four then, or across columns, of which there are four in a tile and a multiple of four within the
  // bound. May be empty.
  std::function<Value(Value row, Value k)> left_along_k;
  std::function<Value(Value k, Value column)> right_along_k, right_across;
  std::function<Value(Value row, Value column)> load_across;
  std::function<void(Value row, Value column, Value four)> store_across;
};
void EmitUpdateTile(LinalgKernelWriter& w, const UpdateTile& t);

// How the invocations of a workgroup lie over tiles: eight side by side, which read the same rows on the left, or as
// many as there are side by side, and the others below them.
class TileGroups {
 public:
  TileGroups(uint32_t local, int64_t tiles_across)
      : across_(static_cast<uint32_t>(
            std::min<uint64_t>(std::min(local, 8u), std::bit_ceil(static_cast<uint64_t>(tiles_across))))),
        down_(local / across_) {}
  int64_t Count(int64_t tiles_down, int64_t tiles_across) const {
    return CeilDiv(tiles_down, int64_t{down_}) * CeilDiv(tiles_across, int64_t{across_});
  }
  // The tile of this invocation of workgroup `w.item`, of a matrix with so many tiles side by side. It may lie past the
  // last one.
  struct Tile {
    Value down, across;
  };
  Tile Own(LinalgKernelWriter& w, Value tiles_across) const;

 private:
  uint32_t across_, down_;
};

Result<EmittedProgram> EmitCholesky(const plan::KernelPlan& plan, const plan::LinalgKernel& kernel,
                                    const Target& target);
Result<EmittedProgram> EmitTriangularSolve(const plan::KernelPlan& plan, const plan::LinalgKernel& kernel,
                                           const Target& target);
Result<EmittedProgram> EmitLu(const plan::KernelPlan& plan, const plan::LinalgKernel& kernel, const Target& target);
Result<EmittedProgram> EmitQr(const plan::KernelPlan& plan, const plan::LinalgKernel& kernel, const Target& target);
Result<EmittedProgram> EmitHouseholderProduct(const plan::KernelPlan& plan, const plan::LinalgKernel& kernel,
                                              const Target& target);

}  // namespace krafla::spirv
