// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/stage_arrays.h"

#include <algorithm>
#include <optional>

#include "base/checked_math.h"
#include "base/index.h"
#include "ir/opcode.h"

namespace krafla::cpu {

using plan::ElementProgram;
using plan::IndexAtom;
using plan::IndexId;
using plan::IndexTerm;
using plan::kNoNode;
using plan::Node;
using plan::NodeId;
using plan::NodeOp;
using plan::ReduceKernel;
using plan::ReduceStage;

namespace {

// Of the kept values of a tile: they should stay in the L2 cache.
constexpr int64_t kMostKeptBytesOfTile = 128 * 1024;
// Programs beyond this are not compared.
constexpr std::size_t kMostNodePairs = 1 << 18;
// An operation counts one, a formula so many; what costs less than a formula is computed again.
constexpr int kFormulaCost = 10;

// Which node of another program has the same value.
class EqualNodes {
 public:
  EqualNodes(const ElementProgram& program, const ElementProgram& other)
      : a_(program), b_(other), equal_(program.nodes.size(), kNoNode) {
    if (a_.nodes.size() * b_.nodes.size() > kMostNodePairs) return;
    for (std::size_t i = 0; i < a_.nodes.size(); ++i)
      for (std::size_t j = 0; j < b_.nodes.size() && equal_[i] == kNoNode; ++j)
        if (IsSame(a_.nodes[i], b_.nodes[j])) equal_[i] = static_cast<NodeId>(j);
  }
  NodeId Of(NodeId id) const { return id == kNoNode ? kNoNode : equal_[At(id)]; }

 private:
  bool IsSameOperand(NodeId a, NodeId b) const { return a == kNoNode || b == kNoNode ? a == b : equal_[At(a)] == b; }
  bool IsSame(const Node& a, const Node& b) const {
    if (a.op != b.op || a.opcode != b.opcode || a.type != b.type || a.storage != b.storage ||
        a.direction != b.direction || a.total_order != b.total_order || a.buffer != b.buffer || a.bits != b.bits ||
        !IsSameOperand(a.mask, b.mask))
      return false;
    for (std::size_t o = 0; o < a.operands.size(); ++o)
      if (!IsSameOperand(a.operands[o], b.operands[o])) return false;
    return (a.op != NodeOp::kLoad && a.op != NodeOp::kIndex) || IsSameIndex(a.index, b.index);
  }
  bool IsSameIndex(IndexId a, IndexId b) const {
    const plan::IndexExpr &x = a_.space.expr(a), &y = b_.space.expr(b);
    if (x.constant != y.constant || x.terms.size() != y.terms.size()) return false;
    return std::ranges::all_of(x.terms, [&](const IndexTerm& t) {
      return std::ranges::any_of(y.terms, [&](const IndexTerm& u) {
        return t.coefficient == u.coefficient && IsSameAtom(a_.space.atom(t.atom), b_.space.atom(u.atom));
      });
    });
  }
  bool IsSameAtom(const IndexAtom& a, const IndexAtom& b) const {
    if (a.kind != b.kind) return false;
    switch (a.kind) {
      case IndexAtom::Kind::kIter: return a.iter == b.iter;
      case IndexAtom::Kind::kFloorDiv:
      case IndexAtom::Kind::kMod: return a.divisor == b.divisor && IsSameIndex(a.expr, b.expr);
      case IndexAtom::Kind::kValue: return a.lo == b.lo && a.hi == b.hi && IsSameOperand(a.node, b.node);
    }
    return false;
  }

  const ElementProgram &a_, &b_;
  std::vector<NodeId> equal_;
};

// What it costs to compute a node from the start, at most: shared operands count anew.
std::vector<int> Costs(const ElementProgram& program) {
  std::vector<int> out(program.nodes.size(), 0);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Node& n = program.nodes[i];
    if (n.op == NodeOp::kConstant || n.op == NodeOp::kParam || n.op == NodeOp::kLoad || n.op == NodeOp::kIndex)
      continue;
    int cost = n.op == NodeOp::kHlo && GetOpInfo(n.opcode).lowering == Lowering::kFormula ? kFormulaCost : 1;
    for (NodeId o : n.operands)
      if (o != kNoNode) cost += out[At(o)];
    out[i] = std::min(cost, 1000);
  }
  return out;
}

// Nodes that something reads which is not in `inside` itself.
std::vector<bool> ReadFromOutside(const ElementProgram& program, const std::vector<bool>& inside) {
  std::vector<bool> out(program.nodes.size(), false);
  const std::vector<bool> needed = plan::NeededNodes(program);
  const auto read = [&](NodeId id) {
    if (id != kNoNode) out[At(id)] = true;
  };
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!needed[i] || inside[i]) continue;
    for (NodeId o : program.nodes[i].operands) read(o);
    read(program.nodes[i].mask);
  }
  for (const plan::Store& s : program.stores) read(s.node), read(s.mask);
  for (NodeId r : program.results) read(r);
  return out;
}

IndexId Linear(plan::IndexSpace& space, std::span<const int64_t> strides) {
  IndexId out = space.Constant(0);
  for (std::size_t d = 0; d < strides.size(); ++d)
    if (strides[d] != 0) out = space.Add(out, space.Mul(space.Iter(static_cast<int>(d)), strides[d]));
  return out;
}

}  // namespace

StageArrays::StageArrays(const ReduceKernel& body) {
  for (const ReduceStage& stage : body.stages)
    first_buffer_ = std::max(first_buffer_, static_cast<int>(stage.program.buffers.size()));
}

std::byte* StageArrays::BaseOf(std::size_t i, std::byte* place, std::span<const int64_t> origin) const {
  const Array& array = arrays_[i];
  int64_t before = 0;
  for (std::size_t d = 0; d < array.strides.size(); ++d) before += array.strides[d] * origin[d];
  // A number: the address may be of no array.
  return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(place) -
                                      static_cast<std::uintptr_t>(before * array.width));
}

int StageArrays::Add(ReduceKernel& body, ElementType type, Array array) {
  arrays_.push_back(std::move(array));
  for (ReduceStage& stage : body.stages) {
    if (stage.scope != ReduceStage::Scope::kElement) continue;
    stage.program.buffers.resize(At(first_buffer_) + arrays_.size() - 1);
    stage.program.buffers.push_back({.storage = type, .element_count = int64_t{1} << 40, .written = true});
  }
  return first_buffer_ + static_cast<int>(arrays_.size()) - 1;
}

void StageArrays::KeepValues(ReduceKernel& body, const TileShape& tile) {
  const std::size_t row_rank = body.row_dims.size(), rank = row_rank + body.element_dims.size();
  // An array of the tile's rows and all elements, as tiles go along it.
  Dims strides(rank, 0);
  int64_t elements = 1;
  const auto take = [&](int d, int64_t extent) {
    strides[At(d)] = elements;
    elements = CheckedMul(elements, extent).value_or(INT64_MAX / 2);
  };
  const auto extent_of = [&](int d, int64_t in_tile) {
    return At(d) < row_rank ? in_tile : body.element_dims[At(d) - row_rank];
  };
  if (tile.column_dim >= 0) take(tile.column_dim, extent_of(tile.column_dim, tile.columns));
  if (tile.row_dim >= 0) take(tile.row_dim, extent_of(tile.row_dim, tile.rows));
  for (std::size_t d = rank; d-- > row_rank;)
    if (static_cast<int>(d) != tile.column_dim && static_cast<int>(d) != tile.row_dim)
      take(static_cast<int>(d), body.element_dims[d - row_rank]);
  int64_t left = kMostKeptBytesOfTile;

  const std::vector<ReduceStage> given = body.stages;
  for (std::size_t s = 1; s < given.size(); ++s) {
    if (given[s].scope != ReduceStage::Scope::kElement) continue;
    const ElementProgram& program = given[s].program;
    const std::vector<int> costs = Costs(program);
    std::vector<bool> is_done(program.nodes.size(), false);
    for (std::size_t from = 0; from < s; ++from) {
      if (given[from].scope != ReduceStage::Scope::kElement) continue;
      const EqualNodes equal(program, given[from].program);
      std::vector<bool> inside(program.nodes.size());
      for (std::size_t i = 0; i < inside.size(); ++i)
        inside[i] = is_done[i] || equal.Of(static_cast<NodeId>(i)) != kNoNode;
      const std::vector<bool> wanted = ReadFromOutside(program, inside);
      for (std::size_t i = 0; i < inside.size(); ++i) {
        const Node& n = program.nodes[i];
        const int64_t bytes = elements > kMostKeptBytesOfTile ? elements : elements * StorageBytes(n.type);
        if (!wanted[i] || is_done[i] || !inside[i] || costs[i] < kFormulaCost || n.depends >> row_rank == 0) continue;
        const NodeId source = equal.Of(static_cast<NodeId>(i));
        ElementProgram& first = body.stages[from].program;
        // That stage may no longer compute it.
        if (first.nodes[At(source)].op == NodeOp::kConstant) continue;
        // Kept already for another stage?
        const auto kept = std::ranges::find_if(first.stores, [&](const plan::Store& store) {
          return store.node == source && store.buffer >= first_buffer_;
        });
        int buffer = -1;
        if (kept != first.stores.end()) {
          buffer = kept->buffer;
        } else {
          if (bytes > left) continue;
          left -= bytes;
          buffer = Add(body, n.type,
                       {.width = StorageBytes(n.type),
                        .elements = elements,
                        .param = -1,
                        .strides = Dims(strides.begin(), strides.begin() + static_cast<std::ptrdiff_t>(row_rank))});
          first.stores.push_back({buffer, Linear(first.space, strides), source, n.type, kNoNode});
        }
        ElementProgram& second = body.stages[s].program;
        second.nodes[i] = {.op = NodeOp::kLoad,
                           .type = n.type,
                           .storage = n.type,
                           .buffer = buffer,
                           .index = Linear(second.space, strides),
                           .depends = n.depends};
        is_done[i] = true;
      }
    }
    plan::DropUnneededNodes(body.stages[s].program);
  }
}

void StageArrays::LoadParams(ReduceKernel& body, const TileShape& tile) {
  const std::size_t row_rank = body.row_dims.size();
  // A tile of rows and elements: the side along the rows.
  const int dim = tile.row_dim >= 0 && At(tile.row_dim) < row_rank ? tile.row_dim : tile.column_dim;
  Dims strides(row_rank, 0);
  strides[At(dim)] = 1;
  for (std::size_t s = 0; s < body.stages.size(); ++s) {
    if (body.stages[s].scope != ReduceStage::Scope::kElement) continue;
    for (std::size_t i = 0; i < body.stages[s].program.nodes.size(); ++i) {
      const Node n = body.stages[s].program.nodes[i];
      if (n.op != NodeOp::kParam) continue;
      const int param = static_cast<int>(n.bits);
      auto known = std::ranges::find(arrays_, param, &Array::param);
      const int buffer =
          known != arrays_.end()
              ? first_buffer_ + static_cast<int>(known - arrays_.begin())
              : Add(body, n.type, {.width = StorageBytes(n.type), .elements = 0, .param = param, .strides = strides});
      ElementProgram& program = body.stages[s].program;
      program.nodes[i] = {.op = NodeOp::kLoad,
                          .type = n.type,
                          .storage = n.type,
                          .buffer = buffer,
                          .index = program.space.Iter(dim),
                          .depends = uint64_t{1} << dim};
    }
  }
}

}  // namespace krafla::cpu
