// SPDX-License-Identifier: Apache-2.0
// A kernel over one block: the dimensions of the grid are gone from its programs. What an index goes on by from block
// to block is in where the bindings lie; what else depends on the block is computed from its place in the grid.
#include <algorithm>

#include "plan/rows/free_programs.h"
#include "plan/rows/row_kernel.h"
#include "plan/touched.h"

namespace krafla::plan {
namespace {

std::size_t BlockAt(int64_t i) { return static_cast<std::size_t>(i); }

// The bindings of the block's kernel.
class BlockBindings {
 public:
  BlockBindings(const KernelPlan& whole, std::size_t grid_rank) : whole_(whole), grid_rank_(grid_rank) {}

  // The number of the binding that lies so; `touched`: by a block, from where the binding would begin.
  int Use(int binding, const Dims& strides, const Interval& touched, bool is_store) {
    std::size_t n = 0;
    while (n < entries_.size() && !(entries_[n].binding == binding && entries_[n].strides == strides)) ++n;
    if (n == entries_.size()) entries_.push_back({binding, strides, touched, false, false});
    Entry& e = entries_[n];
    e.touched = Union(e.touched, touched);
    (is_store ? e.is_written : e.is_read) = true;
    return static_cast<int>(n);
  }
  int UsePlace() { return Use(-1, Dims(grid_rank_, 0), {0, static_cast<int64_t>(grid_rank_) - 1}, false); }

  int64_t first(int number) const { return entries_[BlockAt(number)].touched.lo; }
  std::size_t size() const { return entries_.size(); }
  Binding BindingOf(std::size_t n) const {
    const Entry& e = entries_[n];
    const ElementType storage = e.binding < 0 ? ElementType::kS32 : whole_.bindings[BlockAt(e.binding)].storage;
    return {storage, e.touched.hi - e.touched.lo + 1, e.is_read, e.is_written};
  }
  BlockKernel::From FromOf(std::size_t n) const {
    return {entries_[n].binding, entries_[n].touched.lo, entries_[n].strides};
  }
  // Whether two of them are one binding of the whole that is written: what a block writes it might read elsewhere.
  bool IsWrittenTwice() const {
    for (const Entry& a : entries_)
      for (const Entry& b : entries_)
        if (&a != &b && a.binding == b.binding && a.is_written) return true;
    return false;
  }

 private:
  struct Entry {
    int binding;
    Dims strides;
    Interval touched;
    bool is_read, is_written;
  };
  const KernelPlan& whole_;
  std::size_t grid_rank_;
  std::vector<Entry> entries_;
};

class BlockProgramMaker {
 public:
  // grid_of: by dimension of the program.
  BlockProgramMaker(const ElementProgram& program, std::vector<int> grid_of, const Dims& grid, BlockBindings& bindings)
      : from_(program), grid_of_(std::move(grid_of)), grid_(grid), bindings_(bindings), place_(grid.size(), kNoNode) {
    Dims dims;
    for (std::size_t d = 0; d < grid_of_.size(); ++d)
      if (grid_of_[d] < 0) dims.push_back(from_.space.dims()[d]);
    out_.space = IndexSpace(dims);
  }

  ElementProgram Run() && {
    AddPlaces();
    IndexRewriter::Rules rules;
    int next = 0;
    for (std::size_t d = 0; d < grid_of_.size(); ++d) {
      if (const int g = grid_of_[d]; g >= 0) {
        const NodeId node = place_[BlockAt(g)];
        rules.iters.push_back(node == kNoNode ? 0 : out_.space.Value(node, 0, grid_[BlockAt(g)] - 1, 0));
        rules.depends.push_back(0);
      } else {
        rules.iters.push_back(out_.space.Iter(next));
        rules.depends.push_back(uint64_t{1} << next++);
      }
    }
    rules.nodes.assign(from_.nodes.size(), kNoNode);
    IndexRewriter rewriter(from_.space, out_.space, std::move(rules));
    for (std::size_t i = 0; i < from_.nodes.size(); ++i) rewriter.rules().nodes[i] = Rewrite(from_.nodes[i], rewriter);
    const auto now = [&](NodeId id) { return id == kNoNode ? kNoNode : rewriter.rules().nodes[BlockAt(id)]; };
    for (Store s : from_.stores) {
      Reach(s.buffer, s.index, true, rewriter);
      s.node = now(s.node);
      s.mask = now(s.mask);
      out_.stores.push_back(s);
    }
    for (NodeId r : from_.results) out_.results.push_back(now(r));
    return std::move(out_);
  }

 private:
  // How far an index goes on from block to block; nothing where that differs.
  std::optional<Dims> StridesOf(IndexId index) const {
    Dims out(grid_.size(), 0);
    for (std::size_t d = 0; d < grid_of_.size(); ++d) {
      if (grid_of_[d] < 0) continue;
      const IndexSpace::Affine a = from_.space.StrideAlong(index, static_cast<int>(d));
      if (!a.affine) return std::nullopt;
      out[BlockAt(grid_of_[d])] = a.stride;
    }
    return out;
  }
  // The same of a binding's index: what a mask keeps from being touched may lie outside, and an address must not.
  std::optional<Dims> StridesOfBinding(int buffer, IndexId index) const {
    const Interval range = from_.space.RangeOf(index);
    if (range.lo < 0 || range.hi >= from_.buffers[BlockAt(buffer)].element_count) return std::nullopt;
    return StridesOf(index);
  }
  IndexId WithoutGrid(IndexId index, const Dims& strides) {
    for (std::size_t d = 0; d < grid_of_.size(); ++d)
      if (grid_of_[d] >= 0)
        index = from_.space.Sub(index,
                                from_.space.Mul(from_.space.Iter(static_cast<int>(d)), strides[BlockAt(grid_of_[d])]));
    return index;
  }

  // Loads of the place, as far as something needs it.
  void AddPlaces() {
    uint64_t needed = 0;
    for (const Node& n : from_.nodes) {
      if (n.op == NodeOp::kIndex) needed |= from_.space.Depends(n.index);
      if (n.op == NodeOp::kLoad && !StridesOfBinding(n.buffer, n.index)) needed |= from_.space.Depends(n.index);
    }
    for (const Store& s : from_.stores)
      if (!StridesOfBinding(s.buffer, s.index)) needed |= from_.space.Depends(s.index);
    for (std::size_t d = 0; d < grid_of_.size(); ++d) {
      if (grid_of_[d] < 0 || ((needed >> d) & 1) == 0) continue;
      Node load{.op = NodeOp::kLoad, .type = ElementType::kS32, .storage = ElementType::kS32};
      load.buffer = bindings_.UsePlace();
      load.index = out_.space.Constant(grid_of_[d]);
      place_[BlockAt(grid_of_[d])] = Add(load);
    }
  }

  NodeId Add(const Node& node) {
    out_.nodes.push_back(node);
    return static_cast<NodeId>(out_.nodes.size()) - 1;
  }

  void Reach(int& buffer, IndexId& index, bool is_store, IndexRewriter& rewriter) {
    if (const std::optional<Dims> strides = StridesOfBinding(buffer, index)) {
      index = rewriter.Expr(WithoutGrid(index, *strides));
      buffer = bindings_.Use(buffer, *strides, out_.space.RangeOf(index), is_store);
      return;
    }
    const Interval whole{0, from_.buffers[BlockAt(buffer)].element_count - 1};
    index = rewriter.Expr(index);
    buffer = bindings_.Use(buffer, Dims(grid_.size(), 0), whole, is_store);
  }

  NodeId Rewrite(Node n, IndexRewriter& rewriter) {
    const auto now = [&](NodeId id) { return id == kNoNode ? kNoNode : rewriter.rules().nodes[BlockAt(id)]; };
    for (NodeId& o : n.operands) o = now(o);
    n.mask = now(n.mask);
    n.depends = rewriter.Depends(n.depends);
    if (n.op == NodeOp::kLoad) Reach(n.buffer, n.index, false, rewriter);
    if (n.op != NodeOp::kIndex) return Add(n);
    const std::optional<Dims> strides = StridesOf(n.index);
    if (!strides) {
      n.index = rewriter.Expr(n.index);
      return Add(n);
    }
    n.index = rewriter.Expr(WithoutGrid(n.index, *strides));
    NodeId sum = out_.space.IsConstant(n.index) ? AppendS32(out_, out_.space.expr(n.index).constant) : Add(n);
    for (std::size_t g = 0; g < grid_.size(); ++g)
      if ((*strides)[g] != 0)
        sum = AppendS32(out_, Opcode::kAdd, sum,
                        AppendS32(out_, Opcode::kMultiply, place_[g], AppendS32(out_, (*strides)[g])));
    return sum;
  }

  ElementProgram from_;
  const std::vector<int> grid_of_;
  const Dims& grid_;
  BlockBindings& bindings_;
  std::vector<NodeId> place_;  // by dimension of the grid
  ElementProgram out_;
};

// The free dimensions that stay.
Dims Staying(const Dims& of, std::span<const int> grid_of) {
  Dims out;
  for (std::size_t d = 0; d < of.size(); ++d)
    if (grid_of[d] < 0) out.push_back(of[d]);
  return out;
}

class BlockDot {
 public:
  BlockDot(DotKernel& dot, std::span<const int> grid_of, const Dims& grid, BlockBindings& bindings)
      : dot_(dot), grid_of_(grid_of), grid_(grid), bindings_(bindings) {}

  void Run() {
    Dims lhs = dot_.lhs_batch_strides, rhs = dot_.rhs_batch_strides;
    lhs.push_back(dot_.lhs_m_stride), rhs.push_back(0);
    Dims free = dot_.batch;
    free.push_back(dot_.m);
    if (!dot_.computes_lhs()) Operand(dot_.lhs_binding, dot_.lhs_offset, free, lhs, {{dot_.k, dot_.lhs_k_stride}});
    if (!dot_.computes_rhs())
      Operand(dot_.rhs_binding, dot_.rhs_offset, free, rhs, {{dot_.k, dot_.rhs_k_stride}, {dot_.n, dot_.rhs_n_stride}});
    const std::span<const int> batch = grid_of_.first(grid_of_.size() - 1);
    dot_.batch = Staying(dot_.batch, batch);
    dot_.lhs_batch_strides = Staying(dot_.lhs_batch_strides, batch);
    dot_.rhs_batch_strides = Staying(dot_.rhs_batch_strides, batch);
  }

 private:
  struct Walk {
    int64_t extent, stride;
  };
  void Operand(int& binding, int64_t offset, const Dims& free, const Dims& strides, std::vector<Walk> walks) {
    Dims of_grid(grid_.size(), 0);
    for (std::size_t d = 0; d < free.size(); ++d) {
      if (grid_of_[d] >= 0) of_grid[BlockAt(grid_of_[d])] = strides[d];
      else walks.push_back({free[d], strides[d]});
    }
    Interval range{offset, offset};
    for (const Walk& w : walks) range = range + Union({0, 0}, Interval{w.stride, w.stride} * (w.extent - 1));
    binding = bindings_.Use(binding, of_grid, range, false);
  }

  DotKernel& dot_;
  std::span<const int> grid_of_;
  const Dims& grid_;
  BlockBindings& bindings_;
};

// A dot of single rows that share their right operand is one product of all these rows.
KernelPlan WithRowsTogether(KernelPlan kernel) {
  const auto* dot = std::get_if<DotKernel>(&kernel.body);
  if (dot == nullptr || dot->m != 1 || dot->computes_lhs() || dot->computes_rhs()) return kernel;
  std::optional<std::size_t> rows;
  for (std::size_t d = 0; d < dot->batch.size(); ++d)
    if (dot->rhs_batch_strides[d] == 0 && dot->batch[d] > 1 && (!rows || dot->batch[d] > dot->batch[*rows])) rows = d;
  if (!rows) return kernel;
  Dims free;
  std::vector<DimImage> images(dot->batch.size() + 1);
  for (std::size_t d = 0; d < dot->batch.size(); ++d) {
    if (d == *rows) continue;
    images[d] = DimImage::Of(static_cast<int>(free.size()));
    free.push_back(dot->batch[d]);
  }
  images[*rows] = DimImage::Of(static_cast<int>(free.size()));
  free.push_back(dot->batch[*rows]);
  return ReindexFree(kernel, free, images);
}

}  // namespace

std::optional<BlockKernel> TakeBlock(const KernelPlan& whole, std::span<const int> grid_of, const Dims& grid) {
  // A dot keeps its dimension m.
  if (std::holds_alternative<DotKernel>(whole.body) && grid_of.back() >= 0) {
    const std::size_t rank = grid_of.size();
    KernelPlan split = SplitFree(whole, static_cast<int>(rank) - 1, 1);
    std::vector<int> with_m(grid_of.begin(), grid_of.end());
    with_m.push_back(-1);
    return TakeBlock(split, with_m, grid);
  }
  BlockKernel out;
  out.kernel = whole;
  BlockBindings bindings(whole, grid.size());
  ForEachFreeProgram(out.kernel.body, [&](ElementProgram& p, std::span<const int> free_of) {
    std::vector<int> of_program;
    for (int f : free_of) of_program.push_back(f < 0 ? -1 : grid_of[BlockAt(f)]);
    p = BlockProgramMaker(p, std::move(of_program), grid, bindings).Run();
  });
  if (auto* reduce = std::get_if<ReduceKernel>(&out.kernel.body)) reduce->row_dims = Staying(reduce->row_dims, grid_of);
  if (auto* dot = std::get_if<DotKernel>(&out.kernel.body)) {
    BlockDot(*dot, grid_of, grid, bindings).Run();
    if (!dot->computes_lhs()) dot->lhs_offset -= bindings.first(dot->lhs_binding);
    if (!dot->computes_rhs()) dot->rhs_offset -= bindings.first(dot->rhs_binding);
  }
  if (bindings.IsWrittenTwice()) return std::nullopt;
  out.kernel.bindings.clear();
  std::vector<ProgramBuffer> buffers;
  for (std::size_t n = 0; n < bindings.size(); ++n) {
    const Binding b = bindings.BindingOf(n);
    out.kernel.bindings.push_back(b);
    buffers.push_back({b.storage, b.element_count, b.written});
    out.bindings.push_back(bindings.FromOf(n));
  }
  ForEachProgram(out.kernel.body, [&](ElementProgram& p) {
    p.buffers = buffers;
    for (Node& n : p.nodes)
      if (n.op == NodeOp::kLoad) n.index = p.space.AddConstant(n.index, -bindings.first(n.buffer));
    for (Store& s : p.stores) s.index = p.space.AddConstant(s.index, -bindings.first(s.buffer));
  });
  out.kernel = WithRowsTogether(std::move(out.kernel));
  double blocks = 1;
  for (int64_t g : grid) blocks *= static_cast<double>(g);
  out.kernel.flops /= blocks;
  out.kernel.bytes = BytesMoved(out.kernel);
  return out;
}

}  // namespace krafla::plan
