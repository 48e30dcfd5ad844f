// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/kernels/matrix.h"

#include <algorithm>

namespace krafla::spirv {

namespace {

Value ReadBits(Builder& b, ElementType type, ReadAs as, Value bits) {
  return as.raw ? bits : LowerConvert(b, plan::ComputeType(type), as.accumulate, FromStorage(b, type, bits));
}
Kind KindOf64(ElementType type) { return type == ElementType::kF64 ? Kind::kF64 : Kind::kU64; }

}  // namespace

Value LoadAs(Builder& b, Buffers& buffers, int binding, ElementType type, ReadAs as, Value index, int width) {
  return ReadBits(b, type, as, buffers.Load(binding, StorageBytes(type), index, width, KindOf64(type)));
}
Value LoadOperand(Builder& b, Buffers& buffers, int binding, ElementType type, ReadAs as, Value index, int width) {
  return ReadBits(b, type, as, buffers.LoadConstant(binding, StorageBytes(type), index, width, KindOf64(type)));
}

bool ReadsFromAny(const KernelWriter& w, ElementType type, ReadAs as) {
  return w.tuning.memory.words_around && StorageBytes(type) < 4 && !as.raw;
}
Value LoadOperandFromAny(KernelWriter& w, int binding, ElementType type, ReadAs as, Value index) {
  return ReadBits(w.b, type, as, w.buffers.LoadFromAny(binding, StorageBytes(type), index));
}

void MatrixSource::LoadWords(Builder& b, int bytes, Value row, int rows, Value column, std::span<Value> out) const {
  Load(row, rows, column, 4, out);
  for (Value& v : out.first(static_cast<std::size_t>(rows))) {
    auto join = [&](int first, int count, int bits) {
      Value word = b.Extract(v, first);
      for (int i = 1; i < count; ++i) {
        word = b.Or(word, b.Shl(b.Extract(v, first + i), b.U32(static_cast<uint32_t>(i * bits))));
      }
      return word;
    };
    if (bytes == 1) {
      v = join(0, 4, 8);
    } else {
      const Value words[] = {join(0, 2, 16), join(2, 2, 16)};
      v = b.Composite(words);
    }
  }
}

Value MultiplyAdd(Builder& b, Value acc, Value x, Value y) {
  if (acc.kind == Kind::kBool) return b.LOr(acc, b.LAnd(x, y));
  if (!IsFloatKind(acc.kind)) return b.Add(acc, b.Mul(x, y));
  const bool strict = std::exchange(b.strict, false);
  const Value sum = b.FAdd(acc, b.FMul(x, y));
  b.strict = strict;
  return sum;
}

Value AsResult(Builder& b, ElementType accumulate, ElementType result, Value acc) {
  const ElementType compute = plan::ComputeType(result);
  const Value v = SettledNan(b, LowerConvert(b, accumulate, compute, acc));
  const Value rounded = compute == result ? v : IsFloat(result) ? LowerRound(b, result, v) : LowerWrap(b, result, v);
  return LowerConvert(b, compute, plan::ComputeType(accumulate), rounded);
}

Value StridedSource::Element(Value index, int width) const {
  return LoadOperand(b_, w_.buffers, m_.binding, m_.type, as_, index, width);
}

StridedSource::Way StridedSource::WayOf(int rows, int columns) const {
  const bool fours = m_.offset_granule % 4 == 0;
  const bool by_columns = columns == 4 && m_.column_stride == 1, by_rows = rows % 4 == 0 && m_.row_stride == 1;
  if (by_columns && fours && m_.columns % 4 == 0 && (m_.row_stride % 4 == 0 || m_.rows == 1)) return {Way::kColumns};
  if (by_rows && fours && m_.rows % 4 == 0 && (m_.column_stride % 4 == 0 || m_.columns == 1)) return {Way::kRows};
  if (ReadsFromAny(w_, m_.type, as_)) {
    if (by_columns && m_.columns >= 4) return {Way::kColumns, false};
    if (by_rows && m_.rows >= 4) return {Way::kRows, false};
  }
  return {};
}

Value StridedSource::Four(Value index, Way way) const {
  return way.aligned ? Element(index, 4) : LoadOperandFromAny(w_, m_.binding, m_.type, as_, index);
}

Value StridedSource::RowPart(Value row, int64_t span) const {
  if (!rows_in_range_) row = b_.Min(row, b_.U32(static_cast<uint32_t>(m_.rows - span)));
  return b_.Add(b_.Mul(row, b_.U32(static_cast<uint32_t>(m_.row_stride))), offset_);
}
Value StridedSource::ColumnPart(Value column, int64_t span) const {
  if (!columns_in_range_) column = b_.Min(column, b_.U32(static_cast<uint32_t>(m_.columns - span)));
  return b_.Mul(column, b_.U32(static_cast<uint32_t>(m_.column_stride)));
}

// What these make is found again by Load: equal instructions of an enclosing scope are shared.
void StridedSource::PrepareRows(Value row, int rows) {
  const Way way = WayOf(rows, 4);
  const bool fours = way.along == Way::kRows;
  for (int i = 0; i < rows; i += fours ? 4 : 1)
    RowPart(b_.Add(row, b_.U32(static_cast<uint32_t>(i))), fours ? way.span() : 1);
}
void StridedSource::PrepareColumns(Value column, int columns) {
  const Way way = WayOf(4, columns);
  const bool fours = way.along == Way::kColumns;
  for (int j = 0; j < columns; j += fours ? 4 : 1)
    ColumnPart(b_.Add(column, b_.U32(static_cast<uint32_t>(j))), fours ? way.span() : 1);
}
void StridedSource::Enter(Value segment) {
  if (!m_.segments.dims.empty()) offset_ = b_.Add(batch_offset_, m_.segments.Offset(b_, segment));
}

Value SegmentPlaces::Offset(Builder& b, Value segment) const {
  Value out = b.U32(static_cast<uint32_t>(start));
  for (std::size_t d = dims.size(); d-- > 0;) {
    const Value extent = b.U32(static_cast<uint32_t>(dims[d]));
    const Value at = d == 0 ? segment : b.UMod(segment, extent);
    if (d != 0) segment = b.UDiv(segment, extent);
    out = b.Add(out, b.Mul(at, b.U32(static_cast<uint32_t>(strides[d]))));
  }
  return out;
}

std::optional<MatrixLines> StridedSource::Lines(bool rows) const {
  MatrixLines out;
  out.binding = m_.binding;
  out.element_bytes = StorageBytes(m_.type);
  out.count = rows ? m_.rows : m_.columns;
  out.depth = rows ? m_.columns : m_.rows;
  out.line_stride = rows ? m_.row_stride : m_.column_stride;
  out.depth_stride = rows ? m_.column_stride : m_.row_stride;
  if (out.line_stride < 0 || out.depth_stride < 0 || (out.line_stride != 1 && out.depth_stride != 1))
    return std::nullopt;
  out.granule = m_.offset_granule;
  const Value first = b_.Add(batch_offset_, b_.U32(static_cast<uint32_t>(m_.segments.start)));
  out.offset = [&b = b_, first, stride = out.line_stride](Value line) {
    return b.Add(b.Mul(line, b.U32(static_cast<uint32_t>(stride))), first);
  };
  out.segment_strides = m_.segments.strides;
  for (int64_t stride : out.segment_strides) out.wraps = out.wraps || stride < 0;
  return out;
}

void StridedSource::Load(Value row, int rows, Value column, int columns, std::span<Value> out) const {
  auto at = [&](Value v, int i) { return b_.Add(v, b_.U32(static_cast<uint32_t>(i))); };
  const auto count = static_cast<std::size_t>(columns);
  const Way way = WayOf(rows, columns);
  switch (way.along) {
    case Way::kColumns: {
      const Value c = ColumnPart(column, way.span());
      for (int i = 0; i < rows; ++i) out[static_cast<std::size_t>(i)] = Four(b_.Add(RowPart(at(row, i), 1), c), way);
      return;
    }
    case Way::kRows:
      for (int block = 0; block < rows; block += 4) {
        const Value r = RowPart(at(row, block), way.span());
        Value lines[4];
        for (int j = 0; j < columns; ++j) lines[j] = Four(b_.Add(r, ColumnPart(at(column, j), 1)), way);
        for (int i = 0; i < 4; ++i) {
          Value lane[4];
          for (int j = 0; j < columns; ++j) lane[j] = b_.Extract(lines[j], i);
          out[static_cast<std::size_t>(block + i)] = b_.Composite(std::span<const Value>(lane, count));
        }
      }
      return;
    case Way::kScalars: break;
  }
  Value column_part[4];
  for (int j = 0; j < columns; ++j) column_part[j] = ColumnPart(at(column, j), 1);
  for (int i = 0; i < rows; ++i) {
    const Value r = RowPart(at(row, i), 1);
    Value lane[4];
    for (int j = 0; j < columns; ++j) lane[j] = Element(b_.Add(r, column_part[j]), 1);
    out[static_cast<std::size_t>(i)] = b_.Composite(std::span<const Value>(lane, count));
  }
}

void StridedSource::LoadWords(Builder& b, int bytes, Value row, int rows, Value column, std::span<Value> out) const {
  if (const Way way = WayOf(rows, 4); way.along != Way::kColumns || !way.aligned)
    return MatrixSource::LoadWords(b, bytes, row, rows, column, out);
  const Value c = ColumnPart(column, 4);
  for (int i = 0; i < rows; ++i) {
    const Value at = b_.Add(RowPart(b_.Add(row, b_.U32(static_cast<uint32_t>(i))), 1), c);
    out[static_cast<std::size_t>(i)] = w_.buffers.LoadWords(m_.binding, b_.Shr(at, b_.U32(2)), bytes);
  }
}

void Epilogue::Emit(std::span<const Value> coordinates, int vector_dim, Value acc, Value condition) const {
  Builder& b = w_.b;
  const int64_t extent = program_.space.dims()[static_cast<std::size_t>(vector_dim)];
  auto emit = [&](int width, Value first, Value sum, Value when) {
    auto body = [&] {
      ProgramLowering lowering(b, w_.buffers, program_, vector_dim, width);
      for (std::size_t d = 0; d < coordinates.size(); ++d) lowering.SetIter(static_cast<int>(d), coordinates[d]);
      lowering.SetIter(vector_dim, first);
      lowering.SetParam(0, AsResult(b, accumulate_, result_, sum));
      for (std::size_t i = 0; i < params_.size(); ++i) lowering.SetParam(static_cast<int>(i) + 1, params_[i]);
      lowering.EmitStores();
    };
    if (when) {
      b.If(when, body);
    } else {
      body();
    }
  };
  const Value first = coordinates[static_cast<std::size_t>(vector_dim)];
  const Value limit = b.U32(static_cast<uint32_t>(extent));
  auto both = [&](Value x) { return condition ? b.LAnd(condition, x) : x; };
  if (acc.width == 1 || (acc.width == 4 && extent % 4 == 0)) {
    emit(acc.width, first, acc, both(b.Compare(Cmp::kULt, first, limit)));
    return;
  }
  for (int i = 0; i < acc.width; ++i) {
    const Value at = b.Add(first, b.U32(static_cast<uint32_t>(i)));
    emit(1, at, b.Extract(acc, i), both(b.Compare(Cmp::kULt, at, limit)));
  }
}

void FinishRows(Builder& b, const TileProblem& p, const TileOperands& operands, Value batch, Value row, Value column,
                const Values& acc, int64_t block_rows) {
  const bool exact = p.rows % block_rows == 0;
  auto one = [&](Value r, Value sum) {
    const Value in = exact ? Value{} : b.Compare(Cmp::kULt, r, b.U32(static_cast<uint32_t>(p.rows)));
    operands.finish(batch, r, column, sum, in);
  };
  if (!operands.big_finish || acc.size() == 1) {
    for (std::size_t i = 0; i < acc.size(); ++i) one(b.Add(row, b.U32(static_cast<uint32_t>(i))), acc[i]);
    return;
  }
  b.For(b.U32(0), b.U32(static_cast<uint32_t>(acc.size())), b.U32(1), acc, [&](Value i, const Values& rows) {
    one(b.Add(row, i), rows[0]);
    Values rotated(rows.begin() + 1, rows.end());
    rotated.push_back(rows[0]);
    return rotated;
  });
}

}  // namespace krafla::spirv
