// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

#include "base/checked_math.h"
#include "base/interruption.h"
#include "cpu_fallback/executor/kernel_families.h"
#include "cpu_fallback/executor/pieces.h"
#include "cpu_fallback/executor/routine_block.h"
#include "cpu_fallback/executor/row_sums.h"
#include "cpu_fallback/executor/tile_order.h"
#include "cpu_fallback/executor/unrolled_program.h"
#include "cpu_fallback/executor/wide_moves.h"
#include "cpu_fallback/native/native_code.h"
#include "plan/reindex.h"

namespace krafla::cpu {

namespace {

// Tiles, of some microseconds, after which a loop asks whether it may go on.
constexpr int64_t kTilesBetweenLooks = 16;

using plan::ElementProgram;
using plan::Node;
using plan::NodeOp;

// About 24 KiB of registers: they share the L1 cache with what loads bring in.
int64_t TileElements(const ElementProgram& program) {
  // Integers of a byte or two are mostly computed in lanes of that width.
  const auto bytes_of = [](const Node& n) {
    const bool is_narrow = IsIntegral(n.storage) && plan::IsNarrow(n.storage);
    return static_cast<int64_t>(StorageBytes(is_narrow ? n.storage : n.type));
  };
  int64_t bytes = 0, widest = 1;
  for (const Node& n : program.nodes) {
    if (n.op != NodeOp::kHlo && n.op != NodeOp::kLoad) continue;
    bytes += bytes_of(n);
    widest = std::max(widest, bytes_of(n));
  }
  for (const plan::Store& s : program.stores) widest = std::max<int64_t>(widest, StorageBytes(s.storage));
  // Registers are reused; long programs rarely keep more than a dozen alive.
  bytes = std::min(bytes + 2 * widest, 12 * widest);
  return std::clamp<int64_t>(24 * 1024 / bytes / 64 * 64, 512, 8192);
}

// Native code has few arrays or none: then what a tile costs by itself is spread over more elements.
constexpr int64_t kNativeTile = 32768;
// Of so few elements a tile is what a call costs, several times at the most: no thread is woken for less.
constexpr int64_t kLeastNativeTile = 2048;
constexpr int64_t kNativeRegisters = 24 * 1024;

// A program that moves elements along memory needs no arrays: they go from one buffer to the other.
constexpr int64_t kMovedBytes = 64 * 1024;

// Moves of fewer tiles, or of fewer tiles' elements, stay as they are: those of one tile can be a loop's instruction.
constexpr int64_t kFewTiles = 4;

// What is moved in another order, or by rows, at least: of a loop's turn, of which less may be an instruction, and
// elsewhere.
constexpr int64_t kLeastOfTurn = 8192, kLeastOnce = 512;
constexpr int64_t kLeastPad = 4096;  // bytes

// Whether the program stores one value everywhere.
bool Fills(const ElementProgram& program) {
  return program.stores.size() == 1 && program.nodes[static_cast<std::size_t>(program.stores[0].node)].depends == 0;
}

bool MovesAlong(const ElementProgram& program, int column_dim) {
  if (column_dim < 0 || program.stores.empty()) return false;
  const auto goes_along = [&](const auto& access) {
    const plan::IndexSpace::Affine along = program.space.StrideAlong(access.index, column_dim);
    return access.mask == plan::kNoNode && access.storage == program.stores[0].storage && along.affine &&
           (along.stride == 0 || along.stride == 1);
  };
  if (Fills(program)) return goes_along(program.stores[0]);
  // One value everywhere beside others would be an array as long as a tile.
  const auto is_move = [&](const Node& n) { return n.op == NodeOp::kLoad && n.depends != 0 && goes_along(n); };
  return std::ranges::all_of(program.nodes, is_move) && std::ranges::all_of(program.stores, goes_along);
}

// band: how far apart a tile may store (tile_order.h).
Result<BlockProgram> CompileTiled(const ElementProgram& program, int64_t runs, std::optional<int64_t> band,
                                  TileShape& tile) {
  const auto choose = [&](const TileWish& wish) {
    const TileShape chosen = ChooseTile(program, wish);
    return band ? WithinBand(program, chosen, *band) : chosen;
  };
  const auto add_planes = [&](int64_t most) {
    if (!band) AddPlanes(program, most, tile);
  };
  const int64_t elements = SaturatingProduct(program.space.dims());
  const int64_t usual = TileElements(program);
  // Tiles for several threads should be left.
  const int64_t shared = std::min(elements / 16 / 64 * 64, kNativeTile);
  const int64_t large = std::max(shared, std::min(RoundUp(elements, 64), kLeastNativeTile));
  if (native::HasNativeCode() && large > usual) {
    // Arrays that native code has of a tile, such as what short rows repeat, stay in the cache of smaller ones.
    for (int64_t most = large; most > usual;) {
      tile = choose({.max_elements = most, .few_columns = most / 2});
      KRAFLA_ASSIGN(BlockProgram native,
                    BlockProgram::Compile(
                        program, {.tile = tile, .memory_is_constant = true, .elements = elements, .runs = runs}));
      if (native.native_count() == 0) break;
      if (native.frame_bytes() <= kNativeRegisters) {
        // A kernel of one tile, which a loop may have as an instruction, has no planes.
        if (native.TakesPlanes() && TileGrid(program.space.dims(), tile).count() > 1) add_planes(most);
        return native;
      }
      if (most < large) break;
      most = most * kNativeRegisters / native.frame_bytes() / 64 * 64;
    }
  }
  int64_t widest = 1;
  for (const plan::Store& s : program.stores) widest = std::max<int64_t>(widest, StorageBytes(s.storage));
  const int64_t moved = std::min(elements / 16 / 64 * 64, kMovedBytes / widest);
  if (moved > usual) {
    tile = choose({.max_elements = moved, .few_columns = moved / 2});
    if (MovesAlong(program, tile.column_dim)) {
      KRAFLA_ASSIGN(
          BlockProgram move,
          BlockProgram::Compile(
              program, {.tile = tile, .memory_is_constant = true, .elements = elements, .runs = runs, .fills = true}));
      if (move.TakesPlanes()) add_planes(moved);
      return move;
    }
  }
  tile = choose({.max_elements = usual});
  KRAFLA_ASSIGN(
      BlockProgram block,
      BlockProgram::Compile(program, {.tile = tile, .memory_is_constant = true, .elements = elements, .runs = runs}));
  const bool has_tiles = elements >= kFewTiles * usual || TileGrid(program.space.dims(), tile).count() > kFewTiles;
  if (block.TakesPlanes() && has_tiles) add_planes(usual);
  return block;
}

// Tiles of fewer elements are what several short dimensions leave: most of their time are their steps' own.
constexpr int64_t kFewOfTile = 128;

bool IsAffine(const ElementProgram& program, plan::IndexId index) {
  for (int d = 0; d < static_cast<int>(program.space.dims().size()); ++d)
    if (!program.space.StrideAlong(index, d).affine) return false;
  return true;
}

// Nanoseconds for a tile, roughly.
double TileTime(const ElementProgram& program, double elements) {
  double time = 0;
  for (const Node& n : program.nodes) {
    switch (n.op) {
      case NodeOp::kConstant:
      case NodeOp::kParam:
      case NodeOp::kBitcast: break;
      case NodeOp::kLoad: time += 5 + (IsAffine(program, n.index) ? 0.1 : 1) * elements; break;
      case NodeOp::kHlo:
        time += 5 + (GetOpInfo(n.opcode).lowering == Lowering::kFormula ? 0.6 : 0.05) * elements;
        break;
      case NodeOp::kIndex:
      case NodeOp::kCompare:
      case NodeOp::kConvert:
      case NodeOp::kRound:
      case NodeOp::kWrap:
      case NodeOp::kEncode:
      case NodeOp::kDecode:
      case NodeOp::kReducePrecision: time += 5 + 0.08 * elements; break;
    }
  }
  return time + static_cast<double>(program.stores.size()) * (5 + 0.1 * elements);
}

// How a program runs tile by tile.
struct Tiled {
  BlockProgram program;
  TileShape shape;
  double time = 0;
};
Result<Tiled> MakeTiled(const ElementProgram& program, int64_t runs, std::optional<int64_t> band) {
  Tiled out;
  KRAFLA_ASSIGN(out.program, CompileTiled(program, runs, band, out.shape));
  const double speed = out.program.native_count() > 0 ? 0.3 : 1;
  out.time = speed * TileTime(program, static_cast<double>(out.shape.planes * out.shape.rows * out.shape.columns)) *
             static_cast<double>(TileGrid(program.space.dims(), out.shape).count());
  return out;
}

// A program over several short dimensions, of which two have few elements, as one over all its points: native code
// finds their places by vectors of numbers, once for all loads that go alike. Nothing: as it is it takes less time.
Result<std::optional<Tiled>> MakeFlat(ElementProgram& program, int64_t runs, const Tiled& as_it_is) {
  const bool has_few = as_it_is.shape.planes * as_it_is.shape.rows * as_it_is.shape.columns < kFewOfTile;
  const int64_t elements = SaturatingProduct(program.space.dims());
  // A few elements of a loop's turn are lanes of its routine.
  const bool is_for_routine = runs > 1 && elements <= MostRoutineElements();
  if (!native::HasNativeCode() || !has_few || is_for_routine || program.space.dims().size() < 3 ||
      elements < kFewOfTile)
    return std::optional<Tiled>();
  ElementProgram flat = plan::Flattened(program);
  const auto goes_along = [&](const plan::Store& s) {
    const plan::IndexSpace::Affine along = flat.space.StrideAlong(s.index, 0);
    // Parts of complex numbers lie two apart.
    return along.affine && along.stride >= 1 && along.stride <= 2 && s.mask == plan::kNoNode;
  };
  if (!std::ranges::all_of(flat.stores, goes_along)) return std::optional<Tiled>();
  KRAFLA_ASSIGN(Tiled tiled, MakeTiled(flat, runs, std::nullopt));
  if (tiled.program.native_count() == 0 || tiled.time > as_it_is.time) return std::optional<Tiled>();
  program = std::move(flat);
  return std::optional<Tiled>(std::move(tiled));
}

class LoopKernelRun final : public CpuKernel {
 public:
  LoopKernelRun(LoopRunner runner, int threads) : runner_(std::move(runner)) {
    scratch_bytes_ = runner_.scratch_bytes(threads);
  }
  Result<> Run(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch) const override {
    runner_.Run(bindings, pool, scratch);
    return {};
  }
  bool AppendTo(TapeBuilder& tape, std::span<const plan::Slice> bindings) const override {
    return runner_.AppendTo(tape, bindings);
  }
  Result<bool> AppendTo(RoutineBlock& block, std::span<const plan::Slice> bindings) const override {
    return runner_.AppendTo(block, bindings);
  }

 private:
  LoopRunner runner_;
};

}  // namespace

Result<LoopRunner> LoopRunner::Make(ElementProgram program, int64_t runs, int choices) {
  LoopRunner out;
  for (int64_t d : program.space.dims())
    if (d == 0) return out;  // no tiles
  KRAFLA_ASSIGN(out.choice_, LoopChoice::Make(program, runs, choices));
  if (out.choice_ != nullptr) return out;
  out.pad_ = ZeroPad::Make(program, runs == 1 ? kLeastPad : kLeastOfTurn);
  if (out.pad_) return out;
  double time = 0;
  std::vector<ElementProgram> parts = CutIntoPieces(program);
  // What all of it is not, a piece may be: a move of whole complex numbers.
  if (parts.size() > 1)
    for (ElementProgram& part : parts) part = InPiecesOfMemory(part);
  const std::optional<int64_t> band = BandOf(parts);
  TileOrder order;
  bool is_in_order = band.has_value();
  for (ElementProgram& part : parts) {
    // A few elements of a loop's turn are lanes of its routine.
    std::optional<RowGather> rows;
    if (runs == 1 || SaturatingProduct(part.space.dims()) > MostRoutineElements()) {
      KRAFLA_ASSIGN(rows, RowGather::Make(part));
    }
    if (rows) {
      out.frame_bytes_ = std::max(out.frame_bytes_, rows->scratch_bytes(1));
      out.rows_.push_back(std::move(*rows));
      continue;
    }
    const int64_t least = runs == 1 || choices > 0 ? kLeastOnce : kLeastOfTurn;
    if (std::optional<ByteTable> table = ByteTable::Make(part, least)) {
      out.tables_.push_back(std::move(*table));
      continue;
    }
    if (std::optional<InterleavedArrays> arrays = InterleavedArrays::Make(part, least)) {
      out.arrays_.push_back(std::move(*arrays));
      continue;
    }
    if (const std::optional<MoveLevels> moves = MoveLevels::Of(part)) {
      std::vector<ShuffledBlocks> shuffles = ShuffledBlocks::Make(*moves, least);
      const double time_of_others = shuffles.empty() ? moves->TimeOfTiles() : shuffles.front().time();
      if (std::optional<TransposedLines> lines = TransposedLines::Make(*moves, least);
          lines && lines->time() < time_of_others) {
        out.lines_.push_back(std::move(*lines));
        continue;
      }
      if (!shuffles.empty()) {
        std::ranges::move(shuffles, std::back_inserter(out.shuffles_));
        continue;
      }
      if (std::optional<StridedCopy> copy = StridedCopy::Make(*moves, least)) {
        out.copies_.push_back(std::move(*copy));
        continue;
      }
    }
    std::optional<ElementProgram> over_rows = UnrolledRows(part);
    KRAFLA_ASSIGN(Tiled tiled, MakeTiled(over_rows ? *over_rows : part, runs, band));
    if (!band) {
      KRAFLA_ASSIGN(std::optional<Tiled> flat, MakeFlat(part, runs, tiled));
      if (flat) tiled = std::move(*flat), over_rows.reset();
    }
    if (over_rows) part = std::move(*over_rows);
    const TileShape& tile = tiled.shape;
    Piece piece;
    piece.program = std::move(tiled.program);
    piece.grid = TileGrid(part.space.dims(), tile);
    piece.plane_dim = tile.plane_dim;
    if (piece.IsOneTile()) piece.grid.Seek(0, piece.only);
    is_in_order = is_in_order && order.Add(out.pieces_.size(), part, piece.grid, *band);
    time += tiled.time;
    out.tiles_ += piece.grid.count();
    out.frame_bytes_ = std::max(out.frame_bytes_, piece.program.frame_bytes());
    if (piece.grid.count() * tile.planes * tile.rows * tile.columns <= MostRoutineElements() && native::HasNativeCode())
      piece.source = std::make_shared<const ElementProgram>(std::move(part));
    out.pieces_.push_back(std::move(piece));
  }
  if (is_in_order) out.order_ = std::move(order).Take();
  // A thread should have work for about 10 us before another one is woken.
  out.grain_ =
      std::max<int64_t>(1, static_cast<int64_t>(10000 * static_cast<double>(out.tiles_) / std::max(time, 1.0)));
  return out;
}

void LoopRunner::RunTiles(const Piece& piece, int64_t begin, int64_t end, std::span<std::byte* const> buffers,
                          std::byte* memory) {
  piece.program.Start(memory, buffers);
  if (piece.IsOneTile()) return piece.program.RunTile(memory, piece.only.origin, piece.only.rows, piece.only.columns);
  TileGrid::Tile tile;
  piece.grid.Seek(begin, tile);
  for (int64_t i = begin; i < end; ++i, piece.grid.Next(tile)) {
    if ((i - begin) % kTilesBetweenLooks == kTilesBetweenLooks - 1 && IsInterrupted()) return;
    if (piece.plane_dim < 0) piece.program.RunTile(memory, tile.origin, tile.rows, tile.columns);
    else piece.program.RunPlanes(memory, tile.origin, tile.rows, tile.columns, piece.plane_dim, tile.planes);
  }
}

void LoopRunner::Run(std::span<std::byte* const> buffers, ThreadPool& pool, std::byte* scratch) const {
  if (choice_ != nullptr) return choice_->Run(buffers, pool, scratch);
  if (pad_) return pad_->Run(buffers, pool);
  pool.ParallelFor(tiles_, grain_, [&](int64_t begin, int64_t end, int worker) {
    std::byte* memory = scratch + worker * frame_bytes_;
    auto run = std::ranges::upper_bound(order_, begin, {}, &TileRun::first);
    if (run != order_.begin()) --run;
    for (; run != order_.end() && run->first < end; ++run) {
      const int64_t skipped = std::max<int64_t>(begin - run->first, 0), most = std::min(end - run->first, run->count);
      RunTiles(pieces_[run->piece], run->begin + skipped, run->begin + most, buffers, memory);
    }
    if (!order_.empty()) return;
    for (const Piece& piece : pieces_) {
      const int64_t count = piece.grid.count();
      if (begin < count && end > 0) RunTiles(piece, std::max<int64_t>(begin, 0), std::min(end, count), buffers, memory);
      begin -= count, end -= count;
    }
  });
  for (const RowGather& rows : rows_) rows.Run(buffers, pool, scratch);
  for (const ByteTable& table : tables_) table.Run(buffers, pool);
  for (const TransposedLines& lines : lines_) lines.Run(buffers, pool);
  for (const StridedCopy& copy : copies_) copy.Run(buffers, pool);
  for (const ShuffledBlocks& shuffle : shuffles_) shuffle.Run(buffers, pool);
  for (const InterleavedArrays& arrays : arrays_) arrays.Run(buffers, pool);
}

bool LoopRunner::AppendTo(TapeBuilder& tape, std::span<const plan::Slice> buffers) const {
  if (!IsPieces()) return false;
  for (const Piece& piece : pieces_)
    if (!piece.IsOneTile() || piece.program.has_params()) return false;
  for (const Piece& piece : pieces_) piece.program.AppendTo(tape, buffers, piece.only.rows, piece.only.columns);
  return true;
}

Result<bool> LoopRunner::AppendTo(RoutineBlock& block, std::span<const plan::Slice> buffers) const {
  if (!IsPieces() || !std::ranges::all_of(pieces_, [](const Piece& p) { return p.source != nullptr; })) return false;
  // All that pieces load is loaded before any of them stores, as if they ran at once.
  std::vector<RoutineStore> stores;
  for (const Piece& piece : pieces_) {
    const BlockProgram::Options options{.tile = piece.program.tile(), .is_for_routine = true};
    KRAFLA_ASSIGN(const BlockProgram lanes, BlockProgram::Compile(*piece.source, options));
    const TileGrid grid(piece.source->space.dims(), lanes.tile());
    TileGrid::Tile tile;
    grid.Seek(0, tile);
    const bool is_line = tile.columns == 1 || tile.rows == 1;
    // What vectors do not do, as with preds that are a column of an array, single lanes may.
    int64_t most_lanes = INT64_MAX;
    for (int64_t t = 0; t < grid.count(); ++t, grid.Next(tile)) {
      const auto add_parts = [&] {
        std::vector<RoutinePart> parts = lanes.RoutineParts(tile.rows, tile.columns, false, most_lanes);
        for (RoutinePart& part : parts) part.origin = tile.origin;
        const std::size_t before = stores.size();
        const bool is_added =
            grid.count() * static_cast<int64_t>(parts.size()) * lanes.slot_count() <= kRoutineSlots &&
            std::ranges::all_of(parts, [&](RoutinePart& part) { return lanes.AddTo(block, buffers, part, stores); });
        if (!is_added) stores.resize(before);
        return is_added;
      };
      if (add_parts()) continue;
      if (!is_line || most_lanes == 1) return false;
      most_lanes = 1;
      if (!add_parts()) return false;
    }
  }
  if (!block.CanHave(stores)) return false;
  for (const RoutineStore& s : stores) block.Add(s);
  return true;
}

KernelResult MakeLoopKernel(const plan::KernelPlan&, const plan::LoopKernel& body, const CpuKernelOptions& options) {
  KRAFLA_ASSIGN(std::unique_ptr<CpuKernel> sums, RowSums::Make(body.program, options.threads, options.runs));
  if (sums != nullptr) return sums;
  KRAFLA_ASSIGN(LoopRunner runner, LoopRunner::Make(body.program, options.runs));
  return std::make_unique<LoopKernelRun>(std::move(runner), options.threads);
}

}  // namespace krafla::cpu
