// SPDX-License-Identifier: Apache-2.0
// Tiles of a product that is subtracted from a matrix.
#include "spirv_codegen/kernels/linalg.h"

namespace krafla::spirv {

TileGroups::Tile TileGroups::Own(LinalgKernelWriter& w, Value tiles_across) const {
  Builder& b = w.b;
  if (across_ == 1) return {b.Add(b.Mul(w.item, b.U32(down_)), b.LocalIndex()), b.U32(0)};
  const Value groups = b.UDiv(b.Add(tiles_across, b.U32(across_ - 1)), b.U32(across_));
  const Value down = b.UDiv(w.item, groups), across = b.Sub(w.item, b.Mul(down, groups));
  // All invocations of a workgroup with one row of tiles are seen to read the same on the left.
  Value row = b.Mul(down, b.U32(down_));
  if (down_ > 1) row = b.Add(row, b.UDiv(b.LocalIndex(), b.U32(across_)));
  const Value lane = down_ > 1 ? b.UMod(b.LocalIndex(), b.U32(across_)) : b.LocalIndex();
  return {row, b.Add(b.Mul(across, b.U32(across_)), lane)};
}

namespace {

class TileWriter {
 public:
  TileWriter(LinalgKernelWriter& w, const UpdateTile& t) : t_(t), b_(w.b), n_(w.numbers) {
    // Beyond the bounds the last row or column is read again, and not stored.
    const auto place = [&](Value first, int offset, Value bound) {
      return b_.Min(b_.Add(first, b_.U32(static_cast<uint32_t>(offset))), b_.Sub(bound, b_.U32(1)));
    };
    for (int i = 0; i < t.rows; ++i) rows_.push_back(place(t.row, i, t.row_bound));
    if (t.right_across) first_ = b_.Min(t.column, b_.Sub(t.column_bound, b_.U32(4)));
    for (int j = 0; j < t.columns; ++j) columns_.push_back(place(t.column, j, t.column_bound));
  }

  void Write() {
    const std::size_t count = rows_.size() * columns_.size();
    const uint32_t depth = t_.left_along_k || t_.right_along_k ? 4 : 1;
    const std::vector<Number> zeros(count, n_.Real(0));
    const Values sums = b_.For(t_.begin, t_.end, b_.U32(depth), n_.Pack(zeros), [&](Value k, const Values& carried) {
      std::vector<Number> next;
      for (std::size_t i = 0; i < count; ++i) next.push_back(n_.Unpack(carried, i));
      Read(k, depth);
      for (uint32_t d = 0; d < depth; ++d)
        for (std::size_t i = 0; i < rows_.size(); ++i)
          for (std::size_t j = 0; j < columns_.size(); ++j) {
            Number& sum = next[i * columns_.size() + j];
            sum = n_.Add(sum, n_.Mul(left_[d][i], right_[d][j]));
          }
      return n_.Pack(next);
    });
    for (std::size_t i = 0; i < rows_.size(); ++i) Subtract(i, sums);
  }

 private:
  // Reads what lies at k, k + 1, ... of both sides.
  void Read(Value k, uint32_t depth) {
    left_.assign(depth, {});
    right_.assign(depth, {});
    const auto all = [&](Value four, std::vector<std::vector<Number>>& to) {
      for (uint32_t d = 0; d < depth; ++d) to[d].push_back({b_.Extract(four, static_cast<int>(d)), {}});
    };
    for (const Value r : rows_) {
      if (t_.left_along_k) {
        all(t_.left_along_k(r, k), left_);
        continue;
      }
      for (uint32_t d = 0; d < depth; ++d) left_[d].push_back(t_.left(r, b_.Add(k, b_.U32(d))));
    }
    for (uint32_t d = 0; d < depth && t_.right_across; ++d) {
      const Value four = t_.right_across(b_.Add(k, b_.U32(d)), first_);
      for (int j = 0; j < 4; ++j) right_[d].push_back({b_.Extract(four, j), {}});
    }
    for (const Value c : columns_) {
      if (t_.right_across) break;
      if (t_.right_along_k) {
        all(t_.right_along_k(k, c), right_);
        continue;
      }
      for (uint32_t d = 0; d < depth; ++d) right_[d].push_back(t_.right(b_.Add(k, b_.U32(d)), c));
    }
  }

  void Subtract(std::size_t i, const Values& sums) {
    const std::size_t first = i * columns_.size();
    const Value r = b_.Add(t_.row, b_.U32(static_cast<uint32_t>(i)));
    const Value is_row = b_.Compare(Cmp::kULt, r, t_.row_bound);
    if (t_.store_across) {
      b_.If(b_.LAnd(is_row, b_.Compare(Cmp::kULt, t_.column, t_.column_bound)), [&] {
        const Value sum = b_.Composite(std::span(sums).subspan(first, 4));
        t_.store_across(r, t_.column, b_.FSub(t_.load_across(r, t_.column), sum));
      });
      return;
    }
    for (std::size_t j = 0; j < columns_.size(); ++j) {
      const Value c = b_.Add(t_.column, b_.U32(static_cast<uint32_t>(j)));
      b_.If(b_.LAnd(is_row, b_.Compare(Cmp::kULt, c, t_.column_bound)),
            [&] { t_.store(r, c, n_.Sub(t_.load(r, c), n_.Unpack(sums, first + j))); });
    }
  }

  const UpdateTile& t_;
  Builder& b_;
  Numbers& n_;
  std::vector<Value> rows_, columns_;
  Value first_;                                    // the first of four columns
  std::vector<std::vector<Number>> left_, right_;  // by k, then by row or column
};

}  // namespace

void EmitUpdateTile(LinalgKernelWriter& w, const UpdateTile& t) { TileWriter(w, t).Write(); }

}  // namespace krafla::spirv
