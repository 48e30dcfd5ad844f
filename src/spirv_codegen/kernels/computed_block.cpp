// SPDX-License-Identifier: Apache-2.0
// Blocks of loops that compute: what their reads and stores cost by words, and what they cost by vectors of four.
#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include "plan/element_cost.h"
#include "plan/reindex.h"
#include "spirv_codegen/block_lowering.h"
#include "spirv_codegen/kernels/loop_tile.h"

namespace krafla::spirv {
namespace {

using plan::Node;
using plan::NodeOp;

constexpr double kAccess = 10;         // a gather or a scatter, in additions
constexpr double kDivision = 3;        // by a constant, of an index
constexpr double kBlock = 16;          // of a block, besides its reads and stores: indices and the loop
constexpr double kGain = 0.75;         // of what vectors cost: blocks of about the same cost are longer code
constexpr double kMostCost = 48;       // of a point: of more, reads and stores are little of it
constexpr double kMostBlockCost = 96;  // of all points of a block, whose code is written out
constexpr int64_t kLeastPoints = 64;   // of a loop that is worth the longer code
constexpr int64_t kStretch = 4096;     // bytes that the loads of a block may be apart

// Divisions and moduli of an index, each once.
double DivisionsOf(const plan::IndexSpace& space, plan::IndexId index) {
  std::set<plan::AtomId> found;
  std::vector<plan::IndexId> open = {index};
  while (!open.empty()) {
    const plan::IndexId at = open.back();
    open.pop_back();
    for (const plan::IndexTerm& t : space.expr(at).terms) {
      const plan::IndexAtom& atom = space.atom(t.atom);
      const bool divides = atom.kind == plan::IndexAtom::Kind::kFloorDiv || atom.kind == plan::IndexAtom::Kind::kMod;
      if (divides && found.insert(t.atom).second) open.push_back(atom.expr);
    }
  }
  return static_cast<double>(found.size());
}

// What reads and stores of an invocation that takes four neighbours, or one, cost for a point.
double CostOfAccesses(const plan::ElementProgram& program, int dim, int width, int word_bytes) {
  LanePatterns patterns(program.space, dim, 4);
  PointGroup group(program, dim);
  const auto of = [&](plan::IndexId index, ElementType storage) {
    const double divisions = kDivision * DivisionsOf(program.space, index);
    if (width == 1) return kAccess + divisions;
    if (((program.space.Depends(index) >> dim) & 1) == 0) return (kAccess + divisions) / 4;
    const LanePattern p = patterns.Of(index);
    const double whole = std::max(StorageBytes(storage) * 4.0 / word_bytes, 1.0);
    if (p.affine && p.stride == 1 && p.aligned) return (kAccess * whole + divisions) / 4;
    return kAccess + (group.Of(index) ? divisions / 4 : divisions);
  };
  double out = 0;
  for (const plan::Store& s : program.stores) out += of(s.index, s.storage);
  for (const Node& n : program.nodes) {
    if (n.op == NodeOp::kLoad) out += of(n.index, n.storage);
    if (n.op == NodeOp::kIndex)
      out += kDivision * DivisionsOf(program.space, n.index) / (group.Of(n.index) ? width : 1);
  }
  return out;
}

// What a point costs by vectors of four, or one by one, besides its arithmetic.
double CostOfRuns(const LoopProblem& p, const plan::ElementProgram& flat, int word_bytes) {
  const LoopTuning& tuning = p.target.tuning.loop;
  if (const int width = PointsAtOnce(p.program, p.inner, tuning); width > 1)
    return CostOfAccesses(p.program, p.inner, width, word_bytes);
  const int width = p.points % 4 == 0 ? PointsAtOnce(flat, 0, tuning) : 1;
  return CostOfAccesses(flat, 0, width, word_bytes);
}

// Where runs are read that may begin anywhere, words gain something for elements that are smaller than a word, and for
// arrays that no cache holds for bytes alone: those of larger elements are faster in the order of the result.
bool GainsByWords(const plan::ElementProgram& program, MoveIndices& indices) {
  if (indices.starts().length == 0) return true;
  const auto is_large = [&](int buffer) {
    const plan::ProgramBuffer& b = program.buffers[static_cast<std::size_t>(buffer)];
    return b.element_count * StorageBytes(b.storage) > kLargeBytes;
  };
  bool out = false, bytes = false;
  bool large = std::ranges::any_of(program.stores, [&](const plan::Store& s) { return is_large(s.buffer); });
  for (const plan::NodeId id : indices.loads()) {
    const Node& n = program.nodes[static_cast<std::size_t>(id)];
    large = large || is_large(n.buffer);
    const bool in_runs = indices.Of(n.index)->in_runs;
    out = out || !in_runs || StorageBytes(n.storage) < 4;
    bytes = bytes || !in_runs || StorageBytes(n.storage) == 1;
  }
  return large ? bytes : out;
}

std::optional<double> CostByWords(const MoveBlock& block, MoveIndices& indices) {
  const plan::ElementProgram& program = *block.program;
  if (!GainsByWords(program, indices)) return std::nullopt;
  double reads = 0, stores = 0;
  for (const plan::NodeId id : indices.loads()) {
    const Node& n = program.nodes[static_cast<std::size_t>(id)];
    const MoveIndices::Step step = *indices.Of(n.index);
    const auto& at = step.offsets.at;
    std::vector<int64_t> offsets;
    for (const int64_t o : at) offsets.push_back(o - at[0]);
    const auto [low, high] = std::ranges::minmax(offsets);
    if ((high - low) * StorageBytes(n.storage) > kStretch || LieApart(offsets, StorageBytes(n.storage)))
      return std::nullopt;
    const WordLayout layout = LayoutOfLoad(program, indices, id, block.word_bytes);
    reads += static_cast<double>(ElementWords::ReadsOf(step.in_runs ? 1 : step.offsets.multiple, at[0], offsets,
                                                       layout.word_bytes / layout.element_bytes));
  }
  for (const plan::Store& s : program.stores)
    stores += static_cast<double>(block.points * StorageBytes(s.storage)) /
              LayoutOfStore(s, block.points, block.word_bytes).word_bytes;
  double cost = kAccess * (reads + stores) + kBlock;
  if (const int64_t length = indices.starts().length; length > 0) {
    // Lanes that lie side by side: where one of them has the end of a run, all of them do what both runs need.
    constexpr double kLanes = 8;
    cost += std::min(kLanes * static_cast<double>(block.points) / static_cast<double>(length), 1.0) *
            (2 * kAccess * reads + kBlock);
  }
  // As of blocks that are moved: the stores of all lanes together should go to few lines of memory.
  const bool is_large = std::ranges::any_of(program.stores, [&](const plan::Store& s) {
    const int64_t bytes = StorageBytes(s.storage);
    return block.points * bytes > 16 && Extent(program, 0) * bytes > kLargeBytes;
  });
  if (is_large) cost *= 2;
  return cost / static_cast<double>(block.points);
}

}  // namespace

std::optional<MoveBlock> FindComputedBlock(const LoopProblem& p) {
  const LoopTuning& tuning = p.target.tuning.loop;
  const double point_cost = plan::ProgramCost(p.program);
  if (tuning.move_bytes == 0 || p.program.stores.empty() || p.inner < 0 || p.points < kLeastPoints ||
      p.points > std::numeric_limits<int32_t>::max() || point_cost > kMostCost)
    return std::nullopt;
  for (const plan::Store& s : p.program.stores)
    if (StorageBytes(s.storage) > 4) return std::nullopt;
  MoveBlock block = BlockOf(plan::Flattened(p.program));
  block.computes = true;
  block.element_bytes = 1, block.word_bytes = WordBytes(p.target, 1);
  double least = kGain * CostOfRuns(p, *block.program, block.word_bytes);
  std::optional<MoveBlock> best;
  for (const int64_t points : {16, 8, 4}) {
    block.points = points;
    if (points > p.points || (points > 4 && static_cast<double>(points) * point_cost > kMostBlockCost)) continue;
    MoveIndices indices = IndicesOf(block);
    if (!StoresWords(block, indices) || !indices.CanCompute()) continue;
    const std::optional<double> cost = CostByWords(block, indices);
    if (!cost || *cost >= least) continue;
    block.starts = indices.starts(), block.cost = least = *cost;
    best = block;
  }
  return best;
}

}  // namespace krafla::spirv
