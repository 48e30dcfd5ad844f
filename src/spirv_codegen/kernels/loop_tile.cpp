// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/kernels/loop_tile.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <iterator>

#include "base/checked_math.h"

namespace krafla::spirv {
namespace {

using plan::NodeId;
using plan::NodeOp;

constexpr int64_t kLeastExtent = 8;     // points along each of the two dimensions: fewer share a cache line as it is
constexpr int64_t kLeastDistance = 32;  // bytes between neighbouring points' elements, from which on reads are apart
constexpr int64_t kMostNearStride = 2;  // elements between neighbours: those of complex numbers are pairs
constexpr int64_t kShortRow = 64;       // points of a row, up to which a run of points is a tile of few rows
constexpr int64_t kMostSharedBytes = 16384;  // of a workgroup's memory, so that several workgroups fit a processor
constexpr std::size_t kMostWrittenOut = 64;  // nodes of all points of an invocation, which are written out up to here

// For each node, whether memory decides its value.
std::vector<bool> NodesOfMemory(const plan::ElementProgram& program) {
  std::vector<bool> out(program.nodes.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const plan::Node& n = program.nodes[i];
    out[i] = n.op == NodeOp::kLoad || n.op == NodeOp::kParam;
    for (NodeId o : n.operands)
      if (o != plan::kNoNode && out[static_cast<std::size_t>(o)]) out[i] = true;
  }
  return out;
}

// The loads that might go through shared memory, or be taken tile by tile: their places are known without memory, and
// far from each other along `inner`.
std::vector<NodeId> LoadsApart(const LoopProblem& p) {
  const plan::ElementProgram& program = p.program;
  const std::vector<bool> of_memory = NodesOfMemory(program);
  std::vector<NodeId> out;
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    const plan::Node& n = program.nodes[i];
    if (n.op != NodeOp::kLoad || n.type == ElementType::kPred) continue;
    if (KindBits(ComputeKind(n.type)) == 64 && !p.target.profile.features.int64) continue;
    if (program.space.HasValue(n.index)) continue;
    if (n.mask != plan::kNoNode && of_memory[static_cast<std::size_t>(n.mask)]) continue;
    const auto along = program.space.StrideAlong(n.index, p.inner);
    if (along.affine && std::abs(along.stride) * StorageBytes(n.storage) >= kLeastDistance)
      out.push_back(static_cast<NodeId>(i));
  }
  return out;
}

// Whether neighbours along `dim` are neighbours in memory.
bool AreNear(const plan::ElementProgram& program, plan::IndexId index, int dim) {
  const auto stride = program.space.StrideAlong(index, dim);
  return stride.affine && stride.stride != 0 && std::abs(stride.stride) <= kMostNearStride;
}

// Whether only dimensions of one point lie between the two.
bool IsNext(const Dims& dims, int outer, int inner) {
  for (int d = outer + 1; d < inner; ++d)
    if (dims[static_cast<std::size_t>(d)] != 1) return false;
  return outer < inner;
}

int64_t TileBytes(const plan::Node& load, const LoopTile& tile) {
  return tile.columns * (tile.rows + 1) * (KindBits(ComputeKind(load.type)) / 8);
}

}  // namespace

LoopTile FindLoopTile(const LoopProblem& p) {
  LoopTile out;
  const Dims& dims = p.program.space.dims();
  const auto stored_near = [&](const plan::Store& s) { return AreNear(p.program, s.index, p.inner); };
  if (p.inner < 0 || dims[static_cast<std::size_t>(p.inner)] < kLeastExtent ||
      !std::ranges::all_of(p.program.stores, stored_near))
    return out;
  const std::vector<NodeId> apart = LoadsApart(p);
  for (int d = 0; d < static_cast<int>(dims.size()); ++d) {
    if (d == p.inner || dims[static_cast<std::size_t>(d)] < kLeastExtent) continue;
    std::vector<NodeId> loads;
    std::ranges::copy_if(apart, std::back_inserter(loads), [&](NodeId id) {
      return AreNear(p.program, p.program.nodes[static_cast<std::size_t>(id)].index, d);
    });
    if (loads.size() > out.staged.size()) out.across = d, out.staged = std::move(loads);
  }
  if (out.staged.empty()) return out;
  const auto side = [&](int d, int64_t most) {
    return std::min(most,
                    static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(dims[static_cast<std::size_t>(d)]))));
  };
  const LoopTuning& tuning = p.target.tuning.loop;
  if (!tuning.tile_in_shared_memory && dims[static_cast<std::size_t>(p.inner)] <= kShortRow &&
      IsNext(dims, out.across, p.inner))
    return {};
  out.columns = side(p.inner, tuning.tile_columns);
  out.rows = side(out.across, tuning.tile_rows);
  if (!tuning.tile_in_shared_memory) return out;
  // What does not fit is read as it lies.
  const int64_t most = std::min<int64_t>(kMostSharedBytes, p.target.profile.limits.max_shared_memory_bytes);
  int64_t bytes = 0;
  std::erase_if(out.staged, [&](NodeId id) {
    const int64_t more = TileBytes(p.program.nodes[static_cast<std::size_t>(id)], out);
    if (bytes + more > most) return true;
    bytes += more;
    return false;
  });
  return out;
}

namespace {

class LoopTileKernel {
 public:
  explicit LoopTileKernel(const LoopProblem& p)
      : p_(p), tile_(p.tile), is_shared_(p.target.tuning.loop.tile_in_shared_memory) {
    const DeviceProfile& profile = p.target.profile;
    const uint32_t wanted = std::max(p.target.tuning.loop.local, profile.limits.subgroup_size);
    local_ = static_cast<uint32_t>(
        std::min<int64_t>(std::bit_floor(WorkgroupSize(profile, wanted)), tile_.columns * tile_.rows));
  }

  Result<EmittedProgram> Emit() {
    const DeviceProfile& profile = p_.target.profile;
    int64_t groups = Tiles(p_.inner, tile_.columns) * Tiles(tile_.across, tile_.rows);
    for (int d = 0; d < Rank(); ++d)
      if (IsOutside(d)) groups *= Extent(d);
    KRAFLA_ASSIGN(Grid grid, FoldGrid(groups, profile));
    KernelWriter w(p_.plan, p_.target);
    w_ = &w;
    b_ = &w.b;
    if (is_shared_)
      for (NodeId id : tile_.staged) {
        const Kind kind = ComputeKind(p_.program.nodes[static_cast<std::size_t>(id)].type);
        arrays_.push_back(b_->SharedArray(kind, 1, static_cast<uint32_t>(tile_.columns * (tile_.rows + 1))));
      }
    const Value group = GroupNumber(*b_, grid);
    ForItem(*b_, grid.exact, group, groups, [&] { EmitTile(group); });
    EmittedProgram out;
    out.kernels.push_back(w.Finish({local_, 1, 1}, "loop.tile", Format("{} x {} blocks", tile_.rows, tile_.columns)));
    out.dispatches.push_back({0, grid.size, {}});
    return out;
  }

 private:
  int Rank() const { return static_cast<int>(p_.program.space.dims().size()); }
  int64_t Extent(int d) const { return p_.program.space.dims()[static_cast<std::size_t>(d)]; }
  int64_t Tiles(int d, int64_t side) const { return CeilDiv(Extent(d), side); }
  bool IsOutside(int d) const { return d != p_.inner && d != tile_.across; }
  Value U(int64_t v) { return b_->U32(static_cast<uint32_t>(v)); }

  void EmitTile(Value group) {
    const int64_t across_tiles = Tiles(p_.inner, tile_.columns), down_tiles = Tiles(tile_.across, tile_.rows);
    column0_ = b_->Mul(b_->UMod(group, U(across_tiles)), U(tile_.columns));
    Value rest = b_->UDiv(group, U(across_tiles));
    row0_ = b_->Mul(b_->UMod(rest, U(down_tiles)), U(tile_.rows));
    rest = b_->UDiv(rest, U(down_tiles));
    outside_.assign(static_cast<std::size_t>(Rank()), U(0));
    for (int d = Rank() - 1; d >= 0; --d) {
      if (!IsOutside(d)) continue;
      outside_[static_cast<std::size_t>(d)] = b_->UMod(rest, U(Extent(d)));
      rest = b_->UDiv(rest, U(Extent(d)));
    }
    if (is_shared_) {
      // Neighbouring invocations lie along the rows, as the elements do in memory.
      EachPoint([&](Value n) { Stage(b_->UMod(n, U(tile_.rows)), b_->UDiv(n, U(tile_.rows))); });
      b_->WorkgroupBarrier();
    }
    EachPoint([&](Value n) { Compute(b_->UDiv(n, U(tile_.columns)), b_->UMod(n, U(tile_.columns))); });
  }

  // Calls body for those of the tile's points that this invocation has. Few are written out, so that the reads of all
  // are under way together.
  void EachPoint(const std::function<void(Value)>& body) {
    const int64_t points = tile_.columns * tile_.rows, turns = points / local_;
    if (static_cast<std::size_t>(turns) * p_.program.nodes.size() > kMostWrittenOut) {
      b_->For(b_->LocalIndex(), U(points), U(local_), body);
      return;
    }
    for (int64_t turn = 0; turn < turns; ++turn) body(b_->Add(b_->LocalIndex(), U(turn * local_)));
  }

  // The program at a point of the tile. Points past the end of a dimension are taken for its last one.
  ProgramLowering At(Value row, Value column) {
    ProgramLowering lowering(*b_, w_->buffers, p_.program);
    for (int d = 0; d < Rank(); ++d)
      if (IsOutside(d)) lowering.SetIter(d, outside_[static_cast<std::size_t>(d)]);
    lowering.SetIter(p_.inner, Within(p_.inner, tile_.columns, b_->Add(column0_, column)));
    lowering.SetIter(tile_.across, Within(tile_.across, tile_.rows, b_->Add(row0_, row)));
    return lowering;
  }
  Value Within(int d, int64_t side, Value at) { return Extent(d) % side == 0 ? at : b_->Min(at, U(Extent(d) - 1)); }
  // Whether the point is one; no value where all are.
  Value IsPoint(Value row, Value column) {
    Value out;
    if (Extent(p_.inner) % tile_.columns != 0)
      out = b_->Compare(Cmp::kULt, b_->Add(column0_, column), U(Extent(p_.inner)));
    if (Extent(tile_.across) % tile_.rows != 0) {
      const Value below = b_->Compare(Cmp::kULt, b_->Add(row0_, row), U(Extent(tile_.across)));
      out = out ? b_->LAnd(out, below) : below;
    }
    return out;
  }

  // A line of the tile in shared memory is a column, and is one element longer than that, so that neither neighbours
  // along it nor neighbours across it share a bank.
  Value PlaceOf(Value row, Value column) { return b_->Add(b_->Mul(column, U(tile_.rows + 1)), row); }

  void Stage(Value row, Value column) {
    ProgramLowering lowering = At(row, column);
    const Value place = PlaceOf(row, column);
    for (std::size_t i = 0; i < arrays_.size(); ++i) b_->StoreShared(arrays_[i], place, lowering.Node(tile_.staged[i]));
  }
  void Compute(Value row, Value column) {
    ProgramLowering lowering = At(row, column);
    const Value place = PlaceOf(row, column);
    for (std::size_t i = 0; i < arrays_.size(); ++i) {
      const Kind kind = ComputeKind(p_.program.nodes[static_cast<std::size_t>(tile_.staged[i])].type);
      lowering.SetNode(tile_.staged[i], b_->LoadShared(arrays_[i], kind, 1, place));
    }
    lowering.EmitStores(IsPoint(row, column));
  }

  const LoopProblem& p_;
  const LoopTile& tile_;
  const bool is_shared_;
  uint32_t local_ = 1;
  KernelWriter* w_ = nullptr;
  Builder* b_ = nullptr;
  std::vector<Id> arrays_;  // of the staged loads
  Value column0_, row0_;    // the tile's first point
  Values outside_;          // its coordinates along the other dimensions
};

}  // namespace

Refusal RefusesLoopTile(const LoopProblem& p) {
  const LoopTuning& tuning = p.target.tuning.loop;
  if (tuning.tile_rows == 1) return "slow on this device";
  if (p.tile.staged.empty()) return "reads and stores lie alike";
  if (p.points < tuning.least_tiles * p.tile.rows * p.tile.columns) return "few points";
  return std::nullopt;
}

Result<EmittedProgram> EmitLoopTile(const LoopProblem& p) { return LoopTileKernel(p).Emit(); }

}  // namespace krafla::spirv
