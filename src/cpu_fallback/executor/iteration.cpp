// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/iteration.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "base/checked_math.h"
#include "cpu_fallback/native/lane_graph.h"
#include "cpu_fallback/native/native_code.h"

namespace krafla::cpu {

using plan::ElementProgram;
using plan::IndexAtom;
using plan::IndexId;
using plan::IndexSpace;
using plan::IndexTerm;
using plan::Node;
using plan::NodeOp;
using plan::Store;

bool AreShortRowsClose(int width, int64_t columns, int64_t row_stride, int64_t column_stride) {
  if (!native::HasAvx512Code()) return false;
  const int lanes = native::LanesOfShortRows(width);
  const int64_t most = width == 1 ? lanes : 2 * lanes;
  if (std::max(std::abs(row_stride), std::abs(column_stride)) > most) return false;
  return native::WindowOfShortRows(lanes, columns, row_stride, column_stride) <= most;
}

namespace {

int CountDivisions(const ElementProgram& p) {
  std::vector<bool> seen(p.space.atom_count(), false);
  int count = 0;
  for (IndexId id : UsedExprs(p)) {
    for (const IndexTerm& t : p.space.expr(id).terms) {
      const IndexAtom& a = p.space.atom(t.atom);
      if (a.kind != IndexAtom::Kind::kFloorDiv && a.kind != IndexAtom::Kind::kMod) continue;
      if (!seen[static_cast<std::size_t>(t.atom)]) ++count;
      seen[static_cast<std::size_t>(t.atom)] = true;
    }
  }
  return count;
}

class Splitter {
 public:
  Splitter(const IndexSpace& from, IndexSpace& to, int dim, int64_t inner)
      : from_(from), to_(to), dim_(dim), inner_(inner), done_(from.expr_count(), -1) {}

  IndexId Expr(IndexId id) {
    if (done_[static_cast<std::size_t>(id)] >= 0) return done_[static_cast<std::size_t>(id)];
    IndexId out = to_.Constant(from_.expr(id).constant);
    for (const IndexTerm& t : from_.expr(id).terms) {
      const IndexAtom& a = from_.atom(t.atom);
      IndexId part = 0;
      switch (a.kind) {
        case IndexAtom::Kind::kIter:
          part = to_.Iter(a.iter > dim_ ? a.iter + 1 : a.iter);
          if (a.iter == dim_) part = to_.Add(to_.Mul(part, inner_), to_.Iter(dim_ + 1));
          break;
        case IndexAtom::Kind::kFloorDiv: part = to_.FloorDiv(Expr(a.expr), a.divisor); break;
        case IndexAtom::Kind::kMod: part = to_.Mod(Expr(a.expr), a.divisor); break;
        case IndexAtom::Kind::kValue: part = to_.Value(a.node, a.lo, a.hi, Depends(a.depends)); break;
      }
      out = to_.Add(out, to_.Mul(part, t.coefficient));
    }
    return done_[static_cast<std::size_t>(id)] = out;
  }
  uint64_t Depends(uint64_t depends) const {
    const uint64_t low = depends & ((uint64_t{2} << dim_) - 1);
    const uint64_t self = (depends >> dim_) & 1;
    return low | self << (dim_ + 1) | (depends & ~((uint64_t{2} << dim_) - 1)) << 1;
  }

 private:
  const IndexSpace& from_;
  IndexSpace& to_;
  int dim_;
  int64_t inner_;
  std::vector<IndexId> done_;
};

}  // namespace

ElementProgram SplitDim(const ElementProgram& program, int dim, int64_t inner) {
  const Dims& dims = program.space.dims();
  Dims split;
  for (int d = 0; d < static_cast<int>(dims.size()); ++d) {
    const int64_t extent = dims[static_cast<std::size_t>(d)];
    if (d == dim) {
      split.push_back(extent / inner);
      split.push_back(inner);
    } else {
      split.push_back(extent);
    }
  }
  ElementProgram out;
  out.space = IndexSpace(split);
  out.buffers = program.buffers;
  out.results = program.results;
  Splitter splitter(program.space, out.space, dim, inner);
  for (Node n : program.nodes) {
    if (n.op == NodeOp::kLoad || n.op == NodeOp::kIndex) n.index = splitter.Expr(n.index);
    n.depends = splitter.Depends(n.depends);
    out.nodes.push_back(n);
  }
  for (Store s : program.stores) {
    s.index = splitter.Expr(s.index);
    out.stores.push_back(s);
  }
  return out;
}

DimSplit FindSplit(const ElementProgram& program) {
  const Dims& dims = program.space.dims();
  if (dims.size() >= 60) return {-1, 1};
  const int before = CountDivisions(program);
  if (before == 0) return {-1, 1};
  std::vector<std::pair<int, int64_t>> tried;
  for (IndexId id : UsedExprs(program)) {
    for (const IndexTerm& t : program.space.expr(id).terms) {
      const IndexAtom& a = program.space.atom(t.atom);
      if (a.kind != IndexAtom::Kind::kFloorDiv && a.kind != IndexAtom::Kind::kMod) continue;
      for (const IndexTerm& u : program.space.expr(a.expr).terms) {
        const IndexAtom& b = program.space.atom(u.atom);
        if (b.kind != IndexAtom::Kind::kIter || u.coefficient <= 0 || a.divisor % u.coefficient != 0) continue;
        const int64_t inner = a.divisor / u.coefficient;
        const int64_t extent = dims[static_cast<std::size_t>(b.iter)];
        if (inner <= 1 || inner >= extent || extent % inner != 0) continue;
        if (std::find(tried.begin(), tried.end(), std::pair{b.iter, inner}) != tried.end()) continue;
        tried.emplace_back(b.iter, inner);
        if (CountDivisions(SplitDim(program, b.iter, inner)) < before) return {b.iter, inner};
      }
    }
  }
  return {-1, 1};
}

namespace {

struct AccessShape {
  IndexId index;
  int bytes;
  bool is_store;
  uint64_t depends;
};

std::vector<AccessShape> AccessesOf(const ElementProgram& program) {
  std::vector<AccessShape> out;
  for (const Node& n : program.nodes)
    if (n.op == NodeOp::kLoad) out.push_back({n.index, StorageBytes(n.storage), false, n.depends});
  for (const Store& s : program.stores) {
    const uint64_t depends = program.space.Depends(s.index) | program.nodes[static_cast<std::size_t>(s.node)].depends;
    out.push_back({s.index, StorageBytes(s.storage), true, depends});
  }
  return out;
}

}  // namespace

// Values that a dimension does not change cost nothing more along it.
std::optional<Dims> AffineCoefficients(const plan::IndexSpace& space, plan::IndexId index) {
  Dims out(space.dims().size(), 0);
  for (const plan::IndexTerm& t : space.expr(index).terms) {
    const plan::IndexAtom& a = space.atom(t.atom);
    if (a.kind != plan::IndexAtom::Kind::kIter) return std::nullopt;
    out[static_cast<std::size_t>(a.iter)] = t.coefficient;
  }
  return out;
}

constexpr int64_t kMostStride = 4;

double CostAlong(const ElementProgram& program, int dim) {
  double cost = 0;
  for (const AccessShape& a : AccessesOf(program)) {
    if (!((a.depends >> dim) & 1) && !a.is_store) continue;
    const IndexSpace::Affine affine = program.space.StrideAlong(a.index, dim);
    // As far as a line of memory each, and the index besides.
    if (!affine.affine) cost += 1.2;
    else if (affine.stride == 1 || affine.stride == 0) cost += 0.1;
    // Parts side by side, as of complex numbers and pixels, come by whole vectors.
    else if (affine.stride > 0 && affine.stride <= kMostStride) cost += 0.3;
    else cost += std::abs(affine.stride) * a.bytes >= 64 ? 1.0 : 0.5;
  }
  for (const Node& n : program.nodes)
    if ((n.depends >> dim) & 1) cost += n.op == NodeOp::kHlo ? 0.05 : 0.02;
  return cost;
}

namespace {

bool IsPlane(const ElementProgram& program, const TileShape& tile, int d) {
  return d != tile.row_dim && d != tile.column_dim && program.space.dims()[static_cast<std::size_t>(d)] > 1;
}

// How many elements follow each other along the short dimension `d` and one that is left for a tile's rows: accesses go
// on in the next row, repeat in one of the two, or are loads that native code has from short rows.
int64_t ElementsInTurn(const ElementProgram& program, std::span<const AccessShape> accesses, int d,
                       const TileWish& wish) {
  const Dims& dims = program.space.dims();
  const int64_t columns = dims[static_cast<std::size_t>(d)];
  if (columns >= BlockProgram::kShortRow) return columns;
  for (int r = 0; r < static_cast<int>(dims.size()); ++r) {
    if (r == d || !((wish.row_dims >> r) & 1)) continue;
    const bool is_flat = std::ranges::all_of(accesses, [&](const AccessShape& a) {
      const IndexSpace::Affine along = program.space.StrideAlong(a.index, d),
                               across = program.space.StrideAlong(a.index, r);
      if (!along.affine || !across.affine) return false;
      if (along.stride == 1 && across.stride == columns) return true;
      return !a.is_store && (along.stride == 0 || across.stride == 0 ||
                             AreShortRowsClose(a.bytes, columns, across.stride, along.stride));
    });
    if (is_flat) return columns * dims[static_cast<std::size_t>(r)];
  }
  return columns;
}

}  // namespace

// Elements of a tile whose rows are the same line of memory: of fewer, what a tile costs is more than what it saves.
constexpr int64_t kLeastRepeated = 1024;

TileShape ChooseTile(const ElementProgram& program, const TileWish& wish) {
  const IndexSpace& space = program.space;
  const Dims& dims = space.dims();
  const int rank = static_cast<int>(dims.size());
  const std::vector<AccessShape> accesses = AccessesOf(program);
  int64_t work = 0;
  for (const Node& n : program.nodes)
    if (n.op != NodeOp::kConstant && n.op != NodeOp::kParam) ++work;
  TileShape tile;
  double best = 1e300;
  for (int d = rank - 1; d >= 0; --d) {
    const int64_t extent = dims[static_cast<std::size_t>(d)];
    if (!((wish.column_dims >> d) & 1) || (extent == 1 && tile.column_dim >= 0)) continue;
    // Rows of the tile help short columns, so the overhead of a step counts for less.
    const double elements = static_cast<double>(std::min<int64_t>(ElementsInTurn(program, accesses, d, wish), 512));
    const double cost = CostAlong(program, d) + 5.0 * static_cast<double>(work + 2) / (elements * 4);
    if (cost < best - 1e-9) best = cost, tile.column_dim = d;
  }
  if (tile.column_dim < 0) return tile;
  const int64_t columns = dims[static_cast<std::size_t>(tile.column_dim)];
  // The second side: one along which an access is dense that is not dense along the columns (then the tile is a
  // transposition in the cache); else whatever comes next in memory, when the columns alone are few.
  int transposed = -1;
  for (int d = rank - 1; d >= 0 && transposed < 0; --d) {
    if (d == tile.column_dim || !((wish.row_dims >> d) & 1) || dims[static_cast<std::size_t>(d)] < 4) continue;
    for (const AccessShape& a : accesses) {
      const IndexSpace::Affine along = space.StrideAlong(a.index, tile.column_dim);
      const IndexSpace::Affine across = space.StrideAlong(a.index, d);
      if (along.affine && across.affine && std::abs(along.stride) > 1 && across.stride == 1) transposed = d;
    }
  }
  int second = transposed;
  if (second < 0 && columns < wish.few_columns) {
    double best_second = 1e300;
    for (int d = rank - 1; d >= 0; --d) {
      if (d == tile.column_dim || !((wish.row_dims >> d) & 1) || dims[static_cast<std::size_t>(d)] == 1) continue;
      double cost = 0;
      for (const AccessShape& a : accesses) {
        const IndexSpace::Affine along = space.StrideAlong(a.index, tile.column_dim);
        const IndexSpace::Affine across = space.StrideAlong(a.index, d);
        if (!across.affine) cost += 2;
        else if (along.affine && across.stride == columns && along.stride == 1) cost += 0;
        else if (across.stride == 0 && !a.is_store && dims[static_cast<std::size_t>(d)] * columns >= kLeastRepeated)
          cost += 5.0 / static_cast<double>(columns);  // from the L1 cache
        // Lines that are written in parts are read first.
        else cost += (a.is_store ? 25.0 : 20.0) / static_cast<double>(columns);
      }
      cost += 20.0 / static_cast<double>(dims[static_cast<std::size_t>(d)] * columns);
      if (cost < best_second - 1e-9) best_second = cost, second = d;
    }
  }
  if (transposed >= 0) {
    const int64_t side = wish.max_elements >= 2048 ? 32 : 16;
    tile.row_dim = second;
    tile.rows = std::min<int64_t>(side, dims[static_cast<std::size_t>(second)]);
    tile.columns = std::min(columns, std::max<int64_t>(wish.max_elements / tile.rows, 1));
    return tile;
  }
  tile.columns = std::min(columns, wish.max_elements);
  // Even parts, in whole cache lines.
  if (columns > tile.columns) {
    const int64_t parts = CeilDiv(columns, tile.columns);
    tile.columns = std::min(RoundUp(CeilDiv(columns, parts), 16), wish.max_elements);
  }
  if (second >= 0 && tile.columns == columns && wish.max_elements / columns > 1) {
    tile.row_dim = second;
    tile.rows = std::min(dims[static_cast<std::size_t>(second)], wish.max_elements / columns);
  }
  return tile;
}

void AddPlanes(const ElementProgram& program, int64_t max_elements, TileShape& tile) {
  const Dims& dims = program.space.dims();
  int plane = static_cast<int>(dims.size()) - 1;
  while (plane >= 0 && !IsPlane(program, tile, plane)) --plane;
  const int64_t most = max_elements / (tile.rows * tile.columns);
  if (plane < 0 || most < 2) return;
  tile.plane_dim = plane;
  tile.planes = std::min(most, dims[static_cast<std::size_t>(plane)]);
}

TileGrid::TileGrid(std::span<const int64_t> dims, const TileShape& tile) : shape_(tile), dims_(dims) {
  count_ = 1;
  auto add = [&](int d, int64_t step) {
    order_.push_back(d);
    steps_.push_back(step);
    parts_.push_back(CeilDiv(dims_[static_cast<std::size_t>(d)], step));
    count_ *= parts_.back();
  };
  for (int d = 0; d < static_cast<int>(dims.size()); ++d)
    if (d != tile.row_dim && d != tile.column_dim && d != tile.plane_dim) add(d, 1);
  if (tile.plane_dim >= 0) add(tile.plane_dim, tile.planes);
  if (tile.row_dim >= 0) add(tile.row_dim, tile.rows);
  if (tile.column_dim >= 0) add(tile.column_dim, tile.columns);
}

void TileGrid::Measure(Tile& tile) const {
  if (shape_.row_dim >= 0) {
    const auto d = static_cast<std::size_t>(shape_.row_dim);
    tile.rows = std::min(shape_.rows, dims_[d] - tile.origin[d]);
  }
  if (shape_.column_dim >= 0) {
    const auto d = static_cast<std::size_t>(shape_.column_dim);
    tile.columns = std::min(shape_.columns, dims_[d] - tile.origin[d]);
  }
  if (shape_.plane_dim >= 0) {
    const auto d = static_cast<std::size_t>(shape_.plane_dim);
    tile.planes = std::min(shape_.planes, dims_[d] - tile.origin[d]);
  }
}

void TileGrid::Seek(int64_t index, Tile& tile) const {
  tile.origin.resize(dims_.size());
  tile.rows = tile.columns = tile.planes = 1;
  for (std::size_t i = order_.size(); i-- > 0;) {
    const auto d = static_cast<std::size_t>(order_[i]);
    // Most grids of few tiles have one in most dimensions.
    const int64_t rest = index == 0 || parts_[i] == 1 ? 0 : index % parts_[i];
    tile.origin[d] = rest * steps_[i];
    if (index != 0 && parts_[i] != 1) index /= parts_[i];
  }
  Measure(tile);
}

void TileGrid::Next(Tile& tile) const {
  for (std::size_t i = order_.size(); i-- > 0;) {
    const auto d = static_cast<std::size_t>(order_[i]);
    tile.origin[d] += steps_[i];
    if (tile.origin[d] < dims_[d]) break;
    tile.origin[d] = 0;
  }
  Measure(tile);
}

}  // namespace krafla::cpu
