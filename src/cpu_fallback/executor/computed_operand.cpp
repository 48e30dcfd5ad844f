// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/computed_operand.h"

#include <algorithm>

#include "base/checked_math.h"
#include "cpu_fallback/executor/pieces.h"
#include "cpu_fallback/kernels/move.h"

namespace krafla::cpu {

using plan::ElementProgram;
using plan::IndexId;
using plan::Node;
using plan::NodeOp;

namespace {

// Elements of a tile of a panel: its values should fit the L1 cache beside each other.
constexpr int64_t kOperandTile = 4096;
// Places along the depth whose products are added up in registers, each read as one of so many streams; more of short
// rows, so that a turn is worth its start.
constexpr int64_t kRowsInTurn = 8, kScaledRowsInTurn = 32, kMostRowsInTurn = 64, kElementsInTurn = 32768;
// A dimension that conditions depend on is cut into its indices up to here.
constexpr int64_t kShortOperandDim = 4;
// Values of a byte or of a word that are taken out of it at once.
constexpr int64_t kUnrolledDim = 8;

std::size_t At(int64_t i) { return static_cast<std::size_t>(i); }

// The program's only result, in the compute type of `type`, which it is no longer a result of.
plan::NodeId TakeResult(ElementProgram& program, ElementType type) {
  const plan::NodeId value = program.results[0];
  program.results.clear();
  const ElementType compute = plan::ComputeType(type);
  if (program.nodes[At(value)].type == compute) return value;
  program.nodes.push_back({.op = NodeOp::kConvert,
                           .type = compute,
                           .operands = {value, plan::kNoNode, plan::kNoNode},
                           .depends = program.nodes[At(value)].depends});
  return static_cast<plan::NodeId>(program.nodes.size()) - 1;
}

}  // namespace

Result<ComputedOperand> ComputedOperand::Make(const ElementProgram& as_planned, const Wish& wish) {
  ComputedOperand out;
  const Dims& planned = as_planned.space.dims();
  const std::size_t rank = planned.size();
  for (std::size_t d = 0; d < rank; ++d) {
    const Role role = d + 2 < rank ? Role::kBatch : (d + 1 == rank) == wish.is_rhs ? Role::kLines : Role::kDepth;
    out.dims_.push_back({role, static_cast<int>(d), planned[d]});
  }
  const int64_t lines = planned[rank - (wish.is_rhs ? 1 : 2)], depth = planned[rank - (wish.is_rhs ? 2 : 1)];
  ElementProgram program = out.Split(as_planned);
  const bool by_lines = out.LiesAlongLines(program);
  if (wish.vectors > 0 && !by_lines) return Unimplemented("Sums of lines that do not lie side by side.");
  out.ChooseParts(wish, by_lines, lines, depth);
  out.width_ = StorageBytes(wish.type);
  out.first_buffer_ = static_cast<int>(program.buffers.size());
  if (wish.vectors > 0) {
    out.ChooseOrderOfSums();
    out.AddProductStores(program, wish, depth);
  } else {
    for (Dim& d : out.dims_)
      if (d.role != Role::kBatch) d.stride = d.unit * (d.role == Role::kLines ? out.line_stride_ : out.depth_stride_);
    out.AddPanelStore(program, wish.type);
  }
  // What lies side by side in memory is read once.
  if (const int dim = out.FindShortDim(program, kUnrolledDim); dim >= 0 && out.HasWhole(dim))
    if (out.AddPiece(Unroll(program, dim), wish, dim, -1)) return out;
  const int cut = out.FindShortDim(program, kShortOperandDim);
  if (cut < 0) {
    KRAFLA_TRY(out.AddPiece(program, wish, -1, 0));
    return out;
  }
  for (int64_t i = 0; i < out.dims_[At(cut)].extent; ++i)
    KRAFLA_TRY(out.AddPiece(Restrict(program, cut, i, 1), wish, cut, i));
  return out;
}

// Splits dimensions until the program's indices are as affine as they get.
ElementProgram ComputedOperand::Split(const ElementProgram& as_planned) {
  ElementProgram program = as_planned;
  const auto next = [&] {
    // Parts of equal length between which a condition changes, as the halves of a concatenate. Quotients come after
    // them, which would hide them.
    const std::optional<Cut> cut = FindCut(program);
    if (!cut || dims_[At(cut->dim)].role == Role::kBatch) return FindSplit(program);
    const int64_t extent = dims_[At(cut->dim)].extent;
    const bool is_even =
        cut->at > 1 && cut->at < extent && extent % cut->at == 0 && extent / cut->at <= kShortOperandDim;
    return is_even ? DimSplit{cut->dim, cut->at} : FindSplit(program);
  };
  for (DimSplit split = next(); split.dim >= 0; split = next()) {
    program = SplitDim(program, split.dim, split.inner);
    Dim& outer = dims_[At(split.dim)];
    Dim inner = outer;
    outer.extent /= split.inner, inner.extent = split.inner;
    outer.unit *= split.inner;
    dims_.insert(dims_.begin() + split.dim + 1, inner);
  }
  return program;
}

// Whether elements that are neighbours in memory are those of neighbouring lines, or else follow each other along the
// depth.
bool ComputedOperand::LiesAlongLines(const ElementProgram& program) const {
  double along_lines = 1e300, along_depth = 1e300;
  for (int d = 0; d < static_cast<int>(dims_.size()); ++d) {
    const Dim& dim = dims_[At(d)];
    if (dim.role == Role::kBatch || dim.extent == 1) continue;
    double& cost = dim.role == Role::kLines ? along_lines : along_depth;
    cost = std::min(cost, CostAlong(program, d) + 20.0 / static_cast<double>(std::min<int64_t>(dim.extent, 512)));
  }
  return along_lines <= along_depth;
}

void ComputedOperand::ChooseParts(const Wish& wish, bool by_lines, int64_t lines, int64_t depth) {
  if (wish.vectors > 0) {
    depths_ = PartsOf(Role::kDepth, depth);
    lines_ = PartsOf(Role::kLines, std::min(wish.neighbours, wish.most_lines), true);
  } else if (wish.neighbours == 0) {
    depths_ = PartsOf(Role::kDepth, depth);
    lines_ = PartsOf(Role::kLines, std::max<int64_t>(wish.elements / std::max<int64_t>(depth, 1), 1));
  } else {
    const int64_t side = std::min(wish.neighbours, by_lines ? std::min(lines, wish.most_lines) : depth);
    const int64_t other = std::max<int64_t>(wish.elements / side, 1);
    lines_ = PartsOf(Role::kLines, by_lines ? side : std::min(other, wish.most_lines));
    depths_ = PartsOf(Role::kDepth, by_lines ? other : side);
  }
  for (const Part& p : lines_) most_lines_ = std::max(most_lines_, p.count);
  for (const Part& p : depths_) most_depth_ = std::max(most_depth_, p.count);
  line_stride_ = by_lines ? 1 : most_depth_;
  depth_stride_ = by_lines ? most_lines_ : 1;
}

// Parts of at most `most` places, or of as few as the splits of the program allow: a part is a box of its dimensions.
// Where they are summed up all but the last are whole vectors, so that what is summed in what order does not depend on
// how many parts there are.
std::vector<ComputedOperand::Part> ComputedOperand::PartsOf(Role role, int64_t most, bool is_sum) const {
  // From the innermost dimension outwards, all of which a part has whole but the last.
  int cut = -1;
  int64_t unit = 1;
  for (int d = static_cast<int>(dims_.size()); d-- > 0;) {
    const Dim& dim = dims_[At(d)];
    if (dim.role != role) continue;
    if (cut >= 0 && dim.unit > most) break;
    cut = d, unit = dim.unit;
    if (dim.unit * dim.extent > most) break;
  }
  if (cut < 0) return {{0, 1, Dims(dims_.size(), 0), Dims(dims_.size(), 1), 0}};
  const int64_t extent = dims_[At(cut)].extent;
  const int64_t pieces = CeilDiv(extent, std::clamp<int64_t>(most / unit, 1, extent));
  // Even ones, in whole vectors where that is possible.
  int64_t step = CeilDiv(extent, pieces);
  if (is_sum || (unit == 1 && step > 16)) step = std::min(RoundUp(step, 16), extent);
  Part part{0, 0, Dims(dims_.size(), 0), Dims(dims_.size(), 1), 0};
  int64_t outer = 1;
  for (int d = 0; d < static_cast<int>(dims_.size()); ++d) {
    const Dim& dim = dims_[At(d)];
    if (dim.role != role) continue;
    if (d < cut) outer *= dim.extent;
    if (d > cut) part.extents[At(d)] = dim.extent;
  }
  std::vector<Part> out;
  for (int64_t o = 0; o < outer; ++o) {
    int64_t rest = o, begin = 0;
    for (int d = cut; d-- > 0;) {
      const Dim& dim = dims_[At(d)];
      if (dim.role != role) continue;
      part.origin[At(d)] = rest % dim.extent;
      begin += part.origin[At(d)] * dim.unit;
      rest /= dim.extent;
    }
    for (int64_t at = 0; at < extent; at += step) {
      const int64_t count = std::min(step, extent - at);
      part.origin[At(cut)] = at, part.extents[At(cut)] = count;
      part.begin = begin + at * unit, part.count = count * unit;
      part.kind = count == step ? 0 : 1;
      out.push_back(part);
    }
  }
  return out;
}

// Of the dimensions of a role the one that a part has most of.
int ComputedOperand::LongestOf(Role role, int without) const {
  int out = -1;
  for (int d = 0; d < static_cast<int>(dims_.size()); ++d)
    if (d != without && dims_[At(d)].role == role && (out < 0 || ExtentOf(d) > ExtentOf(out))) out = d;
  return out;
}

int64_t ComputedOperand::neighbours_in_depth() const {
  for (int d = static_cast<int>(dims_.size()); d-- > 0;)
    if (dims_[At(d)].role == Role::kDepth && dims_[At(d)].extent > 1) return dims_[At(d)].extent;
  return 1;
}

// Those along the longest dimension lie side by side, whatever comes between them in the operand: two values of a byte
// are not neighbours here.
void ComputedOperand::ChooseOrderOfSums() {
  const int longest = LongestOf(Role::kLines);
  int64_t stride = ExtentOf(longest);
  dims_[At(longest)].stride = 1;
  for (int d = 0; d < static_cast<int>(dims_.size()); ++d) {
    if (dims_[At(d)].role != Role::kLines || d == longest) continue;
    dims_[At(d)].stride = stride;
    stride *= ExtentOf(d);
  }
}

IndexId ComputedOperand::PlaceOf(plan::IndexSpace& space, Role role) const {
  IndexId place = space.Constant(0);
  for (int d = 0; d < static_cast<int>(dims_.size()); ++d)
    if (dims_[At(d)].role == role) place = space.Add(place, space.Mul(space.Iter(d), dims_[At(d)].stride));
  return place;
}

// The program stores to the panel as if that were the whole operand: Compute moves its address.
void ComputedOperand::AddPanelStore(ElementProgram& program, ElementType type) const {
  const plan::NodeId value = TakeResult(program, type);
  plan::IndexSpace& space = program.space;
  const IndexId place = space.Add(PlaceOf(space, Role::kLines), PlaceOf(space, Role::kDepth));
  program.buffers.push_back({type, space.RangeOf(place).hi + 1, true});
  program.stores.push_back({first_buffer_, place, value, type, plan::kNoNode});
}

// The same with the vectors and the sums. What is stored is added up.
void ComputedOperand::AddProductStores(ElementProgram& program, const Wish& wish, int64_t depth) const {
  const ElementType type = wish.type;
  const plan::NodeId value = TakeResult(program, type);
  plan::IndexSpace& space = program.space;
  IndexId along = space.Constant(0);
  for (int d = 0; d < static_cast<int>(dims_.size()); ++d)
    if (dims_[At(d)].role == Role::kDepth) along = space.Add(along, space.Mul(space.Iter(d), dims_[At(d)].unit));
  const IndexId line = PlaceOf(space, Role::kLines);
  program.buffers.push_back({type, wish.vectors * depth, false});
  program.buffers.push_back({type, space.RangeOf(line).hi + 1 + (wish.vectors - 1) * most_lines_, true});
  const auto add = [&](Node node) {
    program.nodes.push_back(node);
    return static_cast<plan::NodeId>(program.nodes.size()) - 1;
  };
  for (int64_t v = 0; v < wish.vectors; ++v) {
    const IndexId at = space.AddConstant(along, v * depth);
    const uint64_t depends = space.Depends(at);
    const plan::NodeId x = add(
        {.op = NodeOp::kLoad, .type = type, .storage = type, .buffer = first_buffer_, .index = at, .depends = depends});
    const plan::NodeId product = add({.op = NodeOp::kHlo,
                                      .opcode = Opcode::kMultiply,
                                      .type = type,
                                      .storage = type,
                                      .operands = {value, x, plan::kNoNode},
                                      .depends = program.nodes[At(value)].depends | depends});
    const IndexId sum = space.AddConstant(line, v * most_lines_);
    program.stores.push_back({first_buffer_ + 1, sum, product, type, plan::kNoNode});
  }
}

// A short dimension that decides something: what is done at one of its indices is not done at another.
int ComputedOperand::FindShortDim(const ElementProgram& program, int64_t most) const {
  for (int d = 0; d < static_cast<int>(dims_.size()); ++d) {
    const Dim& dim = dims_[At(d)];
    if (dim.role == Role::kBatch || dim.extent == 1 || dim.extent > most) continue;
    for (const Node& n : program.nodes)
      if (n.op == NodeOp::kIndex && ((program.space.Depends(n.index) >> d) & 1) != 0) return d;
  }
  return -1;
}

// Whether every part has all of a dimension.
bool ComputedOperand::HasWhole(int dim) const {
  const auto has = [&](const Part& l, const Part& k) {
    return l.extents[At(dim)] * k.extents[At(dim)] == dims_[At(dim)].extent;
  };
  return std::ranges::all_of(lines_, [&](const Part& l) { return has(l, depths_[0]); }) &&
         std::ranges::all_of(depths_, [&](const Part& k) { return has(lines_[0], k); });
}

// One side along which memory is read, and the longest of the others.
TileShape ComputedOperand::PanelTile(const ElementProgram& program, int without) const {
  TileShape tile;
  double best = 1e300;
  for (int d = static_cast<int>(dims_.size()); d-- > 0;) {
    if (dims_[At(d)].role == Role::kBatch || d == without || (ExtentOf(d) == 1 && tile.column_dim >= 0)) continue;
    const double cost = CostAlong(program, d) + 20.0 / static_cast<double>(std::min<int64_t>(ExtentOf(d), 512));
    if (cost < best) best = cost, tile.column_dim = d;
  }
  if (tile.column_dim < 0) return tile;
  tile.columns = std::min(ExtentOf(tile.column_dim), kOperandTile);
  for (int d = 0; d < static_cast<int>(dims_.size()); ++d) {
    if (d == tile.column_dim || d == without || dims_[At(d)].role == Role::kBatch || ExtentOf(d) == 1) continue;
    if (tile.row_dim < 0 || ExtentOf(d) > ExtentOf(tile.row_dim)) tile.row_dim = d;
  }
  if (tile.row_dim >= 0)
    tile.rows = std::min(ExtentOf(tile.row_dim), std::max<int64_t>(kOperandTile / tile.columns, 1));
  return tile;
}

TileShape ComputedOperand::SumsTile(const ElementProgram& program, int without) const {
  // Rows that follow each other in memory, and have their scale in common: those of the innermost dimension, if it has
  // some.
  TileShape tile{.row_dim = LongestOf(Role::kDepth, without), .column_dim = LongestOf(Role::kLines, without)};
  if (tile.row_dim < 0 || tile.column_dim < 0) return {};
  for (int d = 0; d < static_cast<int>(dims_.size()); ++d)
    if (d != without && dims_[At(d)].role == Role::kDepth && ExtentOf(d) >= kRowsInTurn) tile.row_dim = d;
  tile.columns = ExtentOf(tile.column_dim);
  // Of all lines, not of a part's: the order of the sums does not depend on the number of threads.
  int64_t all = 1;
  for (const Dim& d : dims_)
    if (d.role == Role::kLines) all *= d.extent;
  // What rows have in common is made once for all of a turn.
  const bool has_scales = std::ranges::any_of(program.nodes, [&](const Node& n) {
    return n.op == NodeOp::kLoad && ((n.depends >> tile.column_dim) & 1) != 0 && ((n.depends >> tile.row_dim) & 1) == 0;
  });
  const int64_t least = has_scales ? kScaledRowsInTurn : kRowsInTurn;
  const int64_t rows = std::clamp<int64_t>(kElementsInTurn / all / kRowsInTurn * kRowsInTurn, least, kMostRowsInTurn);
  tile.rows = std::min(ExtentOf(tile.row_dim), rows);
  return tile;
}

Result<> ComputedOperand::AddPiece(const ElementProgram& program, const Wish& wish, int dim, int64_t index) {
  Piece piece;
  piece.dim = dim, piece.index = index, piece.frame = frame_bytes_;
  const bool is_sum = wish.vectors > 0;
  const auto is_even = [&](int d) { return d < 0 || ExtentOf(d) % 2 == 0; };
  const TileShape tile = is_sum ? SumsTile(program, dim) : PanelTile(program, dim);
  if (is_sum && tile.column_dim != LongestOf(Role::kLines))
    return Unimplemented("Sums over a dimension of a few places, which differ.");
  // What is the same for a whole launch is loaded when it begins; the vectors are there for each part of it.
  const auto is_lasting = [&](const Node& n) {
    return n.op == NodeOp::kLoad && n.buffer == first_buffer_ && n.depends == 0;
  };
  if (is_sum && std::ranges::any_of(program.nodes, is_lasting))
    return Unimplemented("Sums over a single place of the depth.");
  KRAFLA_ASSIGN(piece.program,
                BlockProgram::Compile(program, {.tile = tile,
                                                .memory_is_constant = !is_sum,
                                                .elements = Product(program.space.dims()),
                                                .adds_rows = is_sum,
                                                .adds_pairs = is_sum && wish.vectors_fit_bf16 && tile.rows % 2 == 0 &&
                                                              is_even(tile.row_dim)}));
  // Parts have one of two shapes: the usual one and that of the last one of their dimension.
  const auto of_kind = [](const std::vector<Part>& parts, int kind) -> const Part& {
    const auto found = std::ranges::find(parts, kind, &Part::kind);
    return found != parts.end() ? *found : parts[0];
  };
  for (const int line_kind : {0, 1}) {
    for (const int depth_kind : {0, 1}) {
      const Part &l = of_kind(lines_, line_kind), &k = of_kind(depths_, depth_kind);
      Dims extents(dims_.size(), 1);
      for (std::size_t d = 0; d < extents.size(); ++d)
        if (static_cast<int>(d) != dim) extents[d] = l.extents[d] * k.extents[d];
      piece.grids.emplace_back(extents, piece.program.tile());
    }
  }
  frame_bytes_ += RoundUp(piece.program.frame_bytes(), 64);
  pieces_.push_back(std::move(piece));
  return {};
}

void ComputedOperand::Start(std::byte* memory, std::span<std::byte* const> bindings) const {
  for (const Piece& piece : pieces_) piece.program.Start(memory + piece.frame, bindings);
}

int64_t ComputedOperand::TileCount(const Part& lines, const Part& depth) const {
  int64_t out = 0;
  for (const Piece& piece : pieces_) out += piece.GridOf(lines, depth).count();
  return out;
}

void ComputedOperand::Compute(std::byte* memory, std::span<const int64_t> batch, const Part& lines, const Part& depth,
                              std::byte* panel, int64_t first_tile, int64_t last_tile) const {
  std::byte* begin = panel - (lines.begin * line_stride_ + depth.begin * depth_stride_) * width_;
  for (const Piece& piece : pieces_) {
    const int64_t count = piece.GridOf(lines, depth).count();
    piece.program.SetBuffer(memory + piece.frame, first_buffer_, begin);
    RunTiles(piece, memory, batch, lines, depth, std::max<int64_t>(first_tile, 0), std::min(last_tile, count));
    first_tile -= count, last_tile -= count;
  }
}

void ComputedOperand::AddProducts(std::byte* memory, std::span<const int64_t> batch, const Part& lines,
                                  const std::byte* vectors, std::byte* sums) const {
  int64_t begin = 0;
  for (std::size_t d = 0; d < dims_.size(); ++d)
    if (dims_[d].role == Role::kLines) begin += lines.origin[d] * dims_[d].stride;
  const Part& depth = depths_[0];
  for (const Piece& piece : pieces_) {
    piece.program.SetBuffer(memory + piece.frame, first_buffer_, const_cast<std::byte*>(vectors));
    piece.program.SetBuffer(memory + piece.frame, first_buffer_ + 1, sums - begin * width_);
    RunTiles(piece, memory, batch, lines, depth, 0, piece.GridOf(lines, depth).count());
  }
}

void ComputedOperand::PlaceSums(const Part& lines, const std::byte* sums, std::byte* to, int64_t stride) const {
  const auto longest = At(LongestOf(Role::kLines));
  // All indices of the other dimensions.
  int64_t others = 1;
  for (std::size_t d = 0; d < dims_.size(); ++d)
    if (dims_[d].role == Role::kLines && d != longest) others *= lines.extents[d];
  for (int64_t o = 0; o < others; ++o) {
    int64_t rest = o, from = 0, line = 0;
    for (std::size_t d = 0; d < dims_.size(); ++d) {
      if (dims_[d].role != Role::kLines || d == longest) continue;
      const int64_t at = rest % lines.extents[d];
      from += at * dims_[d].stride, line += at * dims_[d].unit;
      rest /= lines.extents[d];
    }
    MoveTile(width_, sums + from * width_, {0, 1}, to + line * stride * width_, {0, dims_[longest].unit * stride}, 1,
             lines.extents[longest]);
  }
}

void ComputedOperand::RunTiles(const Piece& piece, std::byte* memory, std::span<const int64_t> batch, const Part& lines,
                               const Part& depth, int64_t first_tile, int64_t last_tile) const {
  if (first_tile >= last_tile) return;
  Dims base(dims_.size(), 0);
  for (std::size_t d = 0; d < base.size(); ++d) {
    const int64_t first = lines.origin[d] + depth.origin[d], count = lines.extents[d] * depth.extents[d];
    if (static_cast<int>(d) == piece.dim) {
      if (piece.index < 0) continue;
      if (piece.index < first || piece.index >= first + count) return;
    } else {
      base[d] = dims_[d].role == Role::kBatch ? batch[At(dims_[d].number)] / dims_[d].unit % dims_[d].extent : first;
    }
  }
  TileGrid::Tile tile;
  const TileGrid& grid = piece.GridOf(lines, depth);
  grid.Seek(first_tile, tile);
  Dims origin = base;
  for (int64_t i = first_tile; i < last_tile; ++i, grid.Next(tile)) {
    for (std::size_t d = 0; d < origin.size(); ++d) origin[d] = base[d] + tile.origin[d];
    piece.program.RunTile(memory + piece.frame, origin, tile.rows, tile.columns);
  }
}

}  // namespace krafla::cpu
