// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/kernels/matrix.h"

#include <algorithm>

#include "base/checked_math.h"
#include "spirv_codegen/kernels/wide_sum.h"

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
  if (compute == result) return v;
  return IsFloat(result) ? LowerRound(b, result, v) : LowerWrap(b, result, v);
}

Value StridedSource::Element(Value index, int width) const {
  return LoadOperand(b_, w_.buffers, m_.binding, m_.type, as_, index, width);
}

StridedSource::Way StridedSource::WayOf(int rows, int columns) const {
  const bool fours = m_.offset_granule % 4 == 0;
  if (columns == 4 && m_.column_stride == 1 && fours && m_.columns % 4 == 0 &&
      (m_.row_stride % 4 == 0 || m_.rows == 1)) {
    return Way::kColumns;
  }
  if (rows % 4 == 0 && m_.row_stride == 1 && fours && m_.rows % 4 == 0 &&
      (m_.column_stride % 4 == 0 || m_.columns == 1)) {
    return Way::kRows;
  }
  return Way::kScalars;
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
  const int step = WayOf(rows, 4) == Way::kRows ? 4 : 1;
  for (int i = 0; i < rows; i += step) RowPart(b_.Add(row, b_.U32(static_cast<uint32_t>(i))), step);
}
void StridedSource::PrepareColumns(Value column, int columns) {
  const int step = WayOf(4, columns) == Way::kColumns ? 4 : 1;
  for (int j = 0; j < columns; j += step) ColumnPart(b_.Add(column, b_.U32(static_cast<uint32_t>(j))), step);
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
  switch (WayOf(rows, columns)) {
    case Way::kColumns: {
      const Value c = ColumnPart(column, 4);
      for (int i = 0; i < rows; ++i) out[static_cast<std::size_t>(i)] = Element(b_.Add(RowPart(at(row, i), 1), c), 4);
      return;
    }
    case Way::kRows:
      for (int block = 0; block < rows; block += 4) {
        const Value r = RowPart(at(row, block), 4);
        Value lines[4];
        for (int j = 0; j < columns; ++j) lines[j] = Element(b_.Add(r, ColumnPart(at(column, j), 1)), 4);
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
  if (WayOf(rows, 4) != Way::kColumns) return MatrixSource::LoadWords(b, bytes, row, rows, column, out);
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
  if (acc.width == 1 || extent % 4 == 0) {
    emit(acc.width, first, acc, both(b.Compare(Cmp::kULt, first, limit)));
    return;
  }
  for (int i = 0; i < 4; ++i) {
    const Value at = b.Add(first, b.U32(static_cast<uint32_t>(i)));
    emit(1, at, b.Extract(acc, i), both(b.Compare(Cmp::kULt, at, limit)));
  }
}

namespace {

// Gives the sums of `rows` rows to finish: one after the other, or in a loop through which the rows travel, so that a
// big epilogue is there once.
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

Value Sum(Builder& b, Value x, Value y) { return IsFloatKind(x.kind) ? b.FAdd(x, y) : b.Add(x, y); }

// The lanes of `x` by the four values of `y`.
Value FourProducts(Builder& b, Value x, std::span<const Value> y) {
  auto product = [&](int i) {
    const Value at = b.Extract(x, i), other = y[static_cast<std::size_t>(i)];
    return IsFloatKind(other.kind) ? b.FMul(b.Splat(at, other.width), other) : b.Mul(b.Splat(at, other.width), other);
  };
  const Value first = MultiplyAdd(b, product(0), b.Extract(x, 1), y[1]);
  const Value second = MultiplyAdd(b, product(2), b.Extract(x, 3), y[3]);
  return Sum(b, first, second);
}

}  // namespace

int64_t PackedWords(const TileProblem& p, uint32_t lanes) {
  const int64_t panel = int64_t{lanes} * 4;
  return p.batch * CeilDiv(p.columns, panel) * p.segments * RoundUp(p.depth, 4) * panel;
}

Result<EmittedDispatch> EmitPack(KernelWriter& w, const TileProblem& p, const TileOperands& operands, uint32_t lanes,
                                 int packed_binding, uint32_t local) {
  Builder& b = w.b;
  auto u = [&](int64_t v) { return b.U32(static_cast<uint32_t>(v)); };
  const int64_t panel = int64_t{lanes} * 4;
  const int64_t panels = CeilDiv(p.columns, panel), quads = CeilDiv(p.depth, 4);
  const int64_t items = p.batch * panels * p.segments * quads * lanes;  // a block of 4 x 4 each
  KRAFLA_ASSIGN(Grid grid, FoldGrid(CeilDiv(items, local), w.profile));
  const Value item = b.Add(b.Mul(GroupNumber(b, grid), b.U32(local)), b.LocalIndex());
  auto body = [&] {
    const Value lane = b.UMod(item, b.U32(lanes));
    const Value line = b.UDiv(item, b.U32(lanes));  // (batch, panel, segment, quad)
    const Value quad = b.UMod(line, u(quads));
    Value rest = b.UDiv(line, u(quads));
    const Value segment = b.UMod(rest, u(p.segments));
    rest = b.UDiv(rest, u(p.segments));
    const Value column = b.Add(b.Mul(b.UMod(rest, u(panels)), u(panel)), b.Mul(lane, b.U32(4)));
    const auto source = operands.make_b(b.UDiv(rest, u(panels)));
    source->PrepareColumns(column, 4);
    source->Enter(segment);
    Value rows[4];
    source->Load(b.Mul(quad, b.U32(4)), 4, column, 4, rows);
    for (int i = 0; i < 4; ++i) {
      const Value at = b.Add(b.Mul(b.Add(b.Mul(line, b.U32(4)), u(i)), b.U32(lanes)), lane);
      w.buffers.StoreWords(packed_binding, at, b.Bitcast(rows[i], Kind::kU32));
    }
  };
  if (items % local == 0 && grid.exact) {
    body();
  } else {
    b.If(b.Compare(Cmp::kULt, item, u(items)), body);
  }
  return EmittedDispatch{0, grid.size, {}};
}

Result<EmittedDispatch> EmitPanels(KernelWriter& w, const TileProblem& p, const TileOperands& operands,
                                   const PanelOptions& options) {
  Builder& b = w.b;
  auto u = [&](int64_t v) { return b.U32(static_cast<uint32_t>(v)); };
  const auto tile = static_cast<std::size_t>(options.tile_rows);
  const auto blocks = static_cast<std::size_t>(options.column_blocks);
  const int width = options.column_vectors ? 4 : 1;
  const int64_t panel = int64_t{options.lanes} * width * options.column_blocks;
  const int64_t panels = CeilDiv(p.columns, panel), row_blocks = CeilDiv(p.rows, options.tile_rows);
  // Row blocks go fastest: they share a panel, which stays in the cache.
  KRAFLA_ASSIGN(Grid grid, FoldGrid(p.batch * panels * row_blocks, w.profile));
  const Value group = GroupNumber(b, grid);
  const Kind kind = ComputeKind(p.accumulate);
  auto body = [&] {
    const Value row = b.Mul(b.UMod(group, u(row_blocks)), u(options.tile_rows));
    const Value panel_number = b.UDiv(group, u(row_blocks));  // over batches too
    const Value batch = b.UDiv(panel_number, u(panels));
    const Value lane = b.LocalIndex();
    Values column;
    for (std::size_t c = 0; c < blocks; ++c) {
      const Value first =
          b.Add(b.Mul(b.UMod(panel_number, u(panels)), u(panel)), u(static_cast<int64_t>(c) * options.lanes * width));
      column.push_back(b.Add(first, b.Mul(lane, u(width))));
    }
    const auto a = operands.make_a(batch);
    const auto direct = options.packed_binding < 0 ? operands.make_b(batch) : nullptr;
    a->PrepareRows(row, options.tile_rows);
    if (direct) {
      for (Value c : column) direct->PrepareColumns(c, width);
    }
    const int64_t padded = RoundUp(p.depth, 4);
    const Value panel_base = b.Add(b.Mul(panel_number, u(p.segments * padded * options.lanes)), lane);
    Value packed_base;
    auto step = [&](Value k, int count, const Values& acc) {
      Values av(tile), bv(static_cast<std::size_t>(count) * blocks);
      for (std::size_t c = 0; c < blocks; ++c) {
        const auto at = std::span(bv).subspan(c * static_cast<std::size_t>(count), static_cast<std::size_t>(count));
        if (direct) {
          direct->Load(k, count, column[c], width, at);
          continue;
        }
        const Value line = b.Add(packed_base, b.Mul(k, b.U32(options.lanes)));
        for (int i = 0; i < count; ++i) {
          const Value words =
              w.buffers.LoadWords(options.packed_binding, b.Add(line, u(int64_t{i} * options.lanes)), 4);
          at[static_cast<std::size_t>(i)] = b.Bitcast(words, kind);
        }
      }
      a->Load(row, options.tile_rows, k, count, av);
      Values out = acc;  // [block][row]
      if (count == 4 && options.chained) {
        // Four products are added up before the sum takes them: it loses half as much.
        for (std::size_t c = 0; c < blocks; ++c) {
          const auto line = std::span<const Value>(bv).subspan(c * 4, 4);
          for (std::size_t i = 0; i < tile; ++i)
            out[c * tile + i] = Sum(b, out[c * tile + i], FourProducts(b, av[i], line));
        }
        return out;
      }
      for (int kk = 0; kk < count; ++kk) {
        for (std::size_t c = 0; c < blocks; ++c) {
          const Value bk = bv[c * static_cast<std::size_t>(count) + static_cast<std::size_t>(kk)];
          for (std::size_t i = 0; i < tile; ++i) {
            out[c * tile + i] = MultiplyAdd(b, out[c * tile + i], b.Extract(av[i], kk), bk);
          }
        }
      }
      return out;
    };
    const ChainedSums sums(b, kind, width, tile * blocks, p.segments * p.depth, options.chained);
    const int64_t whole = p.depth / 4 * 4;
    auto enter = [&](Value segment) {
      a->Enter(segment);
      if (direct) direct->Enter(segment);
      packed_base = b.Add(panel_base, b.Mul(segment, u(padded * options.lanes)));
    };
    auto tail = [&](Values acc) {
      for (int64_t k = whole; k < p.depth; ++k) acc = step(u(k), 1, acc);
      return acc;
    };
    // llvmpipe begins one turn more than there are, with no lane left, and reads an address that all lanes share even
    // so: rows of b may lie far apart, and one that is not there far outside.
    const Value last_four = u(std::max<int64_t>(whole, 4) - 4);
    auto four = [&](Value k, const Values& acc) { return step(b.Min(k, last_four), 4, acc); };
    const Value segments = operands.segment_count ? operands.segment_count(batch) : u(p.segments);
    Values state = sums.Start();
    if (p.segments > 1 && p.depth <= ChainedSums::kChain) {
      // A chain is several segments.
      const auto together = static_cast<uint32_t>(ChainedSums::kChain / p.depth);
      state = sums.Add(u(0), segments, 1, together, state, [&](Value segment, const Values& before) {
        enter(segment);
        return tail(b.For(u(0), u(whole), u(4), before, four));
      });
    } else {
      state = b.For(u(0), segments, u(1), state, [&](Value segment, const Values& before) {
        enter(segment);
        const Values most = sums.Add(u(0), u(whole), 4, ChainedSums::kChain / 4, before, four);
        return whole < p.depth ? sums.Absorb(most, tail) : most;
      });
    }
    const Values acc = sums.Finish(state);
    for (std::size_t c = 0; c < blocks; ++c) {
      const auto part = std::span(acc).subspan(c * tile, tile);
      FinishRows(b, p, operands, batch, row, column[c], Values(part.begin(), part.end()), options.tile_rows);
    }
  };
  if (grid.exact) {
    body();
  } else {
    b.If(b.Compare(Cmp::kULt, group, u(p.batch * panels * row_blocks)), body);
  }
  return EmittedDispatch{0, grid.size, {}};
}

bool SharedTileFits(const SharedTile& o, ElementType accumulate, const DeviceProfile& profile) {
  const int64_t bytes = int64_t{o.rows + o.columns} * o.depth * (BitWidth(accumulate) / 8);
  return bytes <= profile.limits.max_shared_memory_bytes && SharedTileLocal(o) <= WorkgroupSize(profile, 1024);
}

uint32_t SharedTileLocal(const SharedTile& o) {
  return static_cast<uint32_t>(o.rows / o.thread_rows * (o.columns / 4));
}

Result<EmittedDispatch> EmitSharedTile(KernelWriter& w, const TileProblem& p, const TileOperands& operands,
                                       const SharedTile& o) {
  Builder& b = w.b;
  const Kind kind = ComputeKind(p.accumulate);
  const uint32_t local = SharedTileLocal(o);
  auto u = [&](int64_t v) { return b.U32(static_cast<uint32_t>(v)); };
  const int64_t row_blocks = CeilDiv(p.rows, o.rows), column_blocks = CeilDiv(p.columns, o.columns);
  // Bands of 8 row blocks share their columns of b in the cache.
  KRAFLA_ASSIGN(Grid grid, FoldGrid(p.batch * row_blocks * column_blocks, w.profile));
  const Value group = GroupNumber(b, grid);
  // Both blocks by depth, so that a thread reads its 4 rows and 4 columns as vectors.
  const Id a_tile = b.SharedArray(kind, 4, static_cast<uint32_t>(o.depth * o.rows / 4));
  const Id b_tile = b.SharedArray(kind, 4, static_cast<uint32_t>(o.depth * o.columns / 4));
  const Value id = b.LocalIndex();
  auto body = [&] {
    const Value column_block = b.UMod(b.UDiv(group, u(row_blocks)), u(column_blocks));
    const Value batch = b.UDiv(group, u(row_blocks * column_blocks));
    const Value row0 = b.Mul(b.UMod(group, u(row_blocks)), u(o.rows));
    const Value column0 = b.Mul(column_block, u(o.columns));
    const auto a = operands.make_a(batch);
    const auto bm = operands.make_b(batch);
    const int64_t row_quads = o.rows / 4, column_quads = o.columns / 4, depth_quads = o.depth / 4;
    const Value tx = b.UMod(id, u(column_quads));
    const Value ty = b.UDiv(id, u(column_quads));  // of block_rows / thread_rows
    const int quads = o.thread_rows / 4;

    // 4 x 4 blocks of a tile, `count` of them, spread over the invocations.
    auto each_block = [&](int64_t count, const std::function<void(Value)>& fill) {
      for (int64_t first = 0; first < count; first += local) {
        const Value n = b.Add(id, u(first));
        if (first + local <= count) {
          fill(n);
        } else {
          b.If(b.Compare(Cmp::kULt, n, u(count)), [&] { fill(n); });
        }
      }
    };
    auto fill_a = [&](Value k0) {
      each_block(row_quads * depth_quads, [&](Value n) {
        const Value kq = b.UMod(n, u(depth_quads)), rq = b.UDiv(n, u(depth_quads));
        const Value k = b.Add(k0, b.Mul(kq, u(4)));
        Value rows[4];  // vectors along the depth
        a->Load(b.Add(row0, b.Mul(rq, u(4))), 4, k, 4, rows);
        for (int kk = 0; kk < 4; ++kk) {
          Value lane[4];
          for (int i = 0; i < 4; ++i) lane[i] = b.Extract(rows[i], kk);
          const Value past = b.Compare(Cmp::kUGe, b.Add(k, u(kk)), u(p.depth));
          Value v = b.Composite(lane);
          if (p.depth % o.depth != 0) v = b.Select(past, b.Zero(kind, 4), v);
          b.StoreShared(a_tile, b.Add(b.Mul(b.Add(b.Mul(kq, u(4)), u(kk)), u(row_quads)), rq), v);
        }
      });
    };
    auto fill_b = [&](Value k0) {
      each_block(column_quads * depth_quads, [&](Value n) {
        const Value cq = b.UMod(n, u(column_quads)), kq = b.UDiv(n, u(column_quads));
        const Value k = b.Add(k0, b.Mul(kq, u(4)));
        Value rows[4];  // vectors along the columns
        bm->Load(k, 4, b.Add(column0, b.Mul(cq, u(4))), 4, rows);
        for (int kk = 0; kk < 4; ++kk) {
          Value v = rows[kk];
          if (p.depth % o.depth != 0) {
            v = b.Select(b.Compare(Cmp::kUGe, b.Add(k, u(kk)), u(p.depth)), b.Zero(kind, 4), v);
          }
          b.StoreShared(b_tile, b.Add(b.Mul(b.Add(b.Mul(kq, u(4)), u(kk)), u(column_quads)), cq), v);
        }
      });
    };
    Values acc(static_cast<std::size_t>(o.thread_rows), b.Zero(kind, 4));
    auto block_sum = [&](Value k0, const Values& before) {
      fill_a(k0);
      fill_b(k0);
      b.WorkgroupBarrier();
      // Written out four deep only: some drivers keep every value of a body in memory.
      const Values sums = b.For(u(0), u(o.depth), u(4), before, [&](Value k4, const Values& entry) {
        Values next = entry;
        for (int kk = 0; kk < 4; ++kk) {
          const Value k = b.Add(k4, u(kk));
          const Value bv = b.LoadShared(b_tile, kind, 4, b.Add(tx, b.Mul(k, u(column_quads))));
          for (int q = 0; q < quads; ++q) {
            const Value at = b.Add(b.Add(b.Mul(ty, u(quads)), u(q)), b.Mul(k, u(row_quads)));
            const Value av = b.LoadShared(a_tile, kind, 4, at);
            for (int i = 0; i < 4; ++i) {
              Value& s = next[static_cast<std::size_t>(q * 4 + i)];
              s = MultiplyAdd(b, s, b.Extract(av, i), bv);
            }
          }
        }
        return next;
      });
      b.WorkgroupBarrier();
      return sums;
    };
    const Value segments = operands.segment_count ? operands.segment_count(batch) : u(p.segments);
    acc = b.For(u(0), segments, u(1), acc, [&](Value segment, const Values& before) {
      a->Enter(segment);
      bm->Enter(segment);
      return b.For(u(0), u(RoundUp(p.depth, o.depth)), u(o.depth), before, block_sum);
    });
    FinishRows(b, p, operands, batch, b.Add(row0, b.Mul(ty, u(o.thread_rows))), b.Add(column0, b.Mul(tx, u(4))), acc,
               o.rows);
  };
  if (grid.exact) {
    body();
  } else {
    b.If(b.Compare(Cmp::kULt, group, u(p.batch * row_blocks * column_blocks)), body);
  }
  return EmittedDispatch{0, grid.size, {}};
}

}  // namespace krafla::spirv
