// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/kernels/program_source.h"

#include <algorithm>

namespace krafla::spirv {

using plan::IndexAtom;
using plan::IndexId;
using plan::IndexSpace;
using plan::IndexTerm;
using plan::NodeOp;

bool LiesAlong(const plan::ElementProgram& program, int dim, int other) {
  double most = 0, here = 0, there = 0;
  for (const plan::Node& n : program.nodes) {
    if (n.op != NodeOp::kLoad) continue;
    const double bytes = static_cast<double>(program.buffers[static_cast<std::size_t>(n.buffer)].element_count) *
                         StorageBytes(n.storage);
    const double along = MeanStride(program.space, n.index, dim), across = MeanStride(program.space, n.index, other);
    if (along == 0 && across == 0) continue;
    if (bytes <= most) continue;
    most = bytes, here = along, there = across;
  }
  return here != 0 && (there == 0 || here < there);
}

namespace {

// Rebuilds index expressions over [parts, dims...], where dimension `dim` is first + depth * part + its own iterator.
class PartIndices {
 public:
  PartIndices(const IndexSpace& from, IndexSpace& to, int dim, int64_t first, int64_t depth)
      : from_(from), to_(to), dim_(dim), first_(first), depth_(depth), done_(from.expr_count(), -1) {}

  uint64_t Depends(uint64_t before) const { return before << 1 | (before >> dim_ & 1); }

  IndexId Of(IndexId id) {
    if (const IndexId known = done_[static_cast<std::size_t>(id)]; known >= 0) return known;
    IndexId out = to_.Constant(from_.expr(id).constant);
    for (const IndexTerm& t : from_.expr(id).terms)
      out = to_.Add(out, to_.Mul(OfAtom(from_.atom(t.atom)), t.coefficient));
    return done_[static_cast<std::size_t>(id)] = out;
  }

 private:
  IndexId OfAtom(const IndexAtom& atom) {
    switch (atom.kind) {
      case IndexAtom::Kind::kIter: {
        const IndexId own = to_.Iter(atom.iter + 1);
        if (atom.iter != dim_) return own;
        return to_.AddConstant(to_.Add(to_.Mul(to_.Iter(0), depth_), own), first_);
      }
      case IndexAtom::Kind::kFloorDiv: return to_.FloorDiv(Of(atom.expr), atom.divisor);
      case IndexAtom::Kind::kMod: return to_.Mod(Of(atom.expr), atom.divisor);
      case IndexAtom::Kind::kValue: return to_.Value(atom.node, atom.lo, atom.hi, Depends(atom.depends));
    }
    KRAFLA_UNREACHABLE();
  }

  const IndexSpace& from_;
  IndexSpace& to_;
  int dim_;
  int64_t first_, depth_;
  std::vector<IndexId> done_;
};

}  // namespace

plan::ElementProgram PartsOf(const plan::ElementProgram& program, int dim, int64_t parts, int64_t first,
                             int64_t depth) {
  Dims dims = program.space.dims();
  dims[static_cast<std::size_t>(dim)] = depth;
  dims.insert(dims.begin(), parts);
  plan::ElementProgram out;
  out.space = IndexSpace(dims);
  out.buffers = program.buffers;
  out.results = program.results;
  PartIndices indices(program.space, out.space, dim, first, depth);
  for (plan::Node n : program.nodes) {
    if (n.op == NodeOp::kLoad || n.op == NodeOp::kIndex) n.index = indices.Of(n.index);
    n.depends = indices.Depends(n.depends);
    out.nodes.push_back(n);
  }
  return out;
}

ProgramSource::ProgramSource(KernelWriter& w, const ProgramMatrix& m, Value batch, ReadAs as, bool rows_in_range,
                             bool columns_in_range)
    : w_(w),
      b_(w.b),
      m_(m),
      as_(as),
      row_group_(*m.program, m.row_dim),
      column_group_(*m.program, m.column_dim),
      row_{m.row_dim, m.rows(), rows_in_range, &row_group_},
      column_{m.column_dim, m.columns(), columns_in_range, &column_group_},
      along_rows_(LiesAlong(*m.program, m.row_dim, m.column_dim)) {
  const Dims& dims = m.program->space.dims();
  batch_.resize(dims.size() - 2);
  for (std::size_t d = batch_.size(); d-- > 0;) {
    const Value extent = b_.U32(static_cast<uint32_t>(dims[d]));
    batch_[d] = d == 0 ? batch : b_.UMod(batch, extent);
    if (d != 0) batch = b_.UDiv(batch, extent);
  }
}

ProgramLowering ProgramSource::Fresh(int vector_dim) const {
  ProgramLowering out(b_, w_.buffers, *m_.program, vector_dim, vector_dim < 0 ? 1 : 4);
  out.LoadConstants();
  for (std::size_t d = 0; d < batch_.size(); ++d) out.SetIter(static_cast<int>(d), batch_[d]);
  return out;
}

ProgramSource::Way ProgramSource::WayOf(int rows, int columns) const {
  const bool by_rows = rows % 4 == 0 && row_.extent % 4 == 0;
  const bool by_columns = columns == 4 && column_.extent % 4 == 0;
  if (by_rows && (along_rows_ || !by_columns)) return Way::kRows;
  return by_columns ? Way::kColumns : Way::kScalars;
}

Value ProgramSource::Clamped(const Side& side, Value first, int offset, int64_t span) const {
  const Value at = b_.Add(first, b_.U32(static_cast<uint32_t>(offset)));
  return side.in_range ? at : b_.Min(at, b_.U32(static_cast<uint32_t>(side.extent - span)));
}

std::vector<ProgramSource::Point> ProgramSource::Points(const Side& side, Value first, int count) const {
  const bool grouped = count % 4 == 0 && (side.in_range || side.extent % 4 == 0);
  std::vector<Point> out;
  for (int i = 0; i < count; ++i) {
    if (!grouped) {
      out.push_back({Clamped(side, first, i, 1), -1});
    } else {
      const int in_group = i % PointGroup::kPoints;
      const Value start = Clamped(side, first, i - in_group, PointGroup::kPoints);
      out.push_back({b_.Add(start, b_.U32(static_cast<uint32_t>(in_group))), in_group});
    }
  }
  return out;
}

void ProgramSource::Prepare(const Side& side, const Point& point, int vector_dim, const Side& other) {
  const Key key{side.dim, point.at.id, vector_dim};
  if (prepared_.contains(key)) return;
  ProgramLowering made = Fresh(vector_dim);
  made.SetIter(side.dim, point.at);
  if (point.in_group >= 0) made.SetPoint(*side.group, nullptr, point.in_group);
  made.EmitInvariants(uint64_t{1} << other.dim);
  prepared_.emplace(key, std::move(made));
}

void ProgramSource::PrepareSide(const Side& side, Value first, int count, bool vectors, const Side& other,
                                int other_vector_dim) {
  if (vectors) {
    for (int i = 0; i < count; i += 4) Prepare(side, {Clamped(side, first, i, 4), -1}, side.dim, other);
  } else {
    for (const Point& p : Points(side, first, count)) Prepare(side, p, other_vector_dim, other);
  }
}
void ProgramSource::PrepareRows(Value row, int rows) {
  const Way way = WayOf(rows, 4);
  PrepareSide(row_, row, rows, way == Way::kRows, column_, way == Way::kColumns ? column_.dim : -1);
}
void ProgramSource::PrepareColumns(Value column, int columns) {
  const Way way = WayOf(4, columns);
  PrepareSide(column_, column, columns, way == Way::kColumns, row_, way == Way::kRows ? row_.dim : -1);
}

// The values of `points` along one side, each a vector of four along `vectors` from `along` on or, where `width` is 1,
// one value.
void ProgramSource::LoadLines(const Side& vectors, Value along, int width, const Side& side,
                              std::span<const Point> points, std::span<Value> out) const {
  const int vector_dim = width == 4 ? vectors.dim : -1;
  std::optional<ProgramLowering> first;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto of_vector = prepared_.find(Key{vectors.dim, along.id, vector_dim});
    const auto of_point = prepared_.find(Key{side.dim, points[i].at.id, vector_dim});
    ProgramLowering here = of_vector != prepared_.end()  ? of_vector->second
                           : of_point != prepared_.end() ? of_point->second
                                                         : Fresh(vector_dim);
    here.SetIter(vectors.dim, along);
    here.SetIter(side.dim, points[i].at);
    const bool starts = points[i].in_group <= 0;
    if (starts) first.emplace(std::move(here));
    ProgramLowering& lowering = starts ? *first : here;
    if (points[i].in_group >= 0) lowering.SetPoint(*side.group, starts ? nullptr : &*first, points[i].in_group);
    const Value v = b_.Splat(lowering.Node(m_.program->results[0]), width);
    out[i] = as_.raw ? StoredBits(v) : LowerConvert(b_, plan::ComputeType(m_.type), as_.accumulate, v);
  }
}

// As they are read from buffers: zero-extended.
Value ProgramSource::StoredBits(Value v) const {
  const Value bits = ToStorage(b_, m_.type, v);
  const int bytes = StorageBytes(m_.type);
  return bytes < 4 ? b_.And(bits, b_.U32(bytes == 1 ? 0xffu : 0xffffu)) : bits;
}

void ProgramSource::Load(Value row, int rows, Value column, int columns, std::span<Value> out) const {
  const auto width = static_cast<std::size_t>(columns);
  switch (WayOf(rows, columns)) {
    case Way::kColumns:
      LoadLines(column_, Clamped(column_, column, 0, 4), 4, row_, Points(row_, row, rows), out);
      return;
    case Way::kRows:
      for (int block = 0; block < rows; block += 4) {
        Value lines[4];
        LoadLines(row_, Clamped(row_, row, block, 4), 4, column_, Points(column_, column, columns),
                  std::span(lines).first(width));
        for (int i = 0; i < 4; ++i) {
          Value lane[4];
          for (std::size_t j = 0; j < width; ++j) lane[j] = b_.Extract(lines[j], i);
          out[static_cast<std::size_t>(block + i)] = b_.Composite(std::span<const Value>(lane, width));
        }
      }
      return;
    case Way::kScalars: break;
  }
  const std::vector<Point> of_columns = Points(column_, column, columns);
  const std::vector<Point> of_rows = Points(row_, row, rows);
  for (std::size_t i = 0; i < of_rows.size(); ++i) {
    Value lane[4];
    LoadLines(row_, of_rows[i].at, 1, column_, of_columns, std::span(lane).first(width));
    out[i] = b_.Composite(std::span<const Value>(lane, width));
  }
}

}  // namespace krafla::spirv
