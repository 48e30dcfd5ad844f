// SPDX-License-Identifier: Apache-2.0
#include "plan/collapse.h"

#include <algorithm>

#include "krafla/status.h"

namespace krafla::plan {
namespace {

// Rebuilds the index expressions of a program over other iteration dimensions.
class Rewriter {
 public:
  Rewriter(const IndexSpace& from, IndexSpace& to, std::span<const int> group_of, std::span<const int64_t> inner)
      : from_(from), to_(to), group_of_(group_of), inner_(inner), done_(from.expr_count(), -1) {}

  IndexId Expr(IndexId id) {
    IndexId& cached = done_[static_cast<std::size_t>(id)];
    if (cached >= 0) return cached;
    IndexId out = to_.Constant(from_.expr(id).constant);
    for (const IndexTerm& t : from_.expr(id).terms) {
      const IndexAtom& a = from_.atom(t.atom);
      switch (a.kind) {
        case IndexAtom::Kind::kIter: {
          auto d = static_cast<std::size_t>(a.iter);
          // The coefficient of a group's innermost dimension implies those of its outer ones.
          if (inner_[d] != 1) break;
          out = to_.Add(out, to_.Mul(to_.Iter(group_of_[d]), t.coefficient));
          break;
        }
        case IndexAtom::Kind::kFloorDiv:
          out = to_.Add(out, to_.Mul(to_.FloorDiv(Expr(a.expr), a.divisor), t.coefficient));
          break;
        case IndexAtom::Kind::kMod: out = to_.Add(out, to_.Mul(to_.Mod(Expr(a.expr), a.divisor), t.coefficient)); break;
        case IndexAtom::Kind::kValue: {
          uint64_t depends = 0;
          for (std::size_t d = 0; d < group_of_.size(); ++d)
            if ((a.depends >> d) & 1) depends |= uint64_t{1} << group_of_[d];
          out = to_.Add(out, to_.Mul(to_.Value(a.node, a.lo, a.hi, depends), t.coefficient));
          break;
        }
      }
    }
    return done_[static_cast<std::size_t>(id)] = out;
  }

 private:
  const IndexSpace& from_;
  IndexSpace& to_;
  std::span<const int> group_of_;
  std::span<const int64_t> inner_;
  std::vector<IndexId> done_;
};

}  // namespace

std::vector<bool> CollapsibleBoundaries(const ElementProgram& p) {
  const Dims& dims = p.space.dims();
  std::vector<bool> out(dims.empty() ? 0 : dims.size() - 1, true);
  for (IndexId id : UsedExprs(p)) {
    std::vector<int64_t> coefficient(dims.size(), 0);
    for (const IndexTerm& t : p.space.expr(id).terms) {
      const IndexAtom& a = p.space.atom(t.atom);
      if (a.kind == IndexAtom::Kind::kIter) coefficient[static_cast<std::size_t>(a.iter)] = t.coefficient;
    }
    for (std::size_t b = 0; b < out.size(); ++b) {
      // A dimension of one element joins the dimension on its left, or the one on its right if all on the left are one.
      std::size_t left = b, right = b + 1;
      if (dims[right] == 1) continue;
      while (left > 0 && dims[left] == 1) --left;
      if (dims[left] == 1) continue;
      if (coefficient[left] != coefficient[right] * dims[right]) out[b] = false;
    }
  }
  return out;
}

ElementProgram JoinDims(const ElementProgram& p, std::span<const int> group_of) {
  const Dims& dims = p.space.dims();
  Dims joined;
  std::vector<int64_t> inner(dims.size(), 1);
  for (std::size_t d = dims.size(); d-- > 0;) {
    bool same_as_next = d + 1 < dims.size() && group_of[d] == group_of[d + 1];
    inner[d] = same_as_next ? inner[d + 1] * dims[d + 1] : 1;
  }
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (static_cast<std::size_t>(group_of[d]) == joined.size()) joined.push_back(dims[d]);
    else joined.back() *= dims[d];
  }
  ElementProgram out;
  out.space = IndexSpace(joined);
  out.buffers = p.buffers;
  out.results = p.results;
  Rewriter rewriter(p.space, out.space, group_of, inner);
  auto depends = [&](uint64_t mask) {
    uint64_t m = 0;
    for (std::size_t d = 0; d < group_of.size(); ++d)
      if ((mask >> d) & 1) m |= uint64_t{1} << group_of[d];
    return m;
  };
  for (Node n : p.nodes) {
    if (n.op == NodeOp::kLoad || n.op == NodeOp::kIndex) n.index = rewriter.Expr(n.index);
    n.depends = depends(n.depends);
    out.nodes.push_back(n);
  }
  for (Store s : p.stores) {
    s.index = rewriter.Expr(s.index);
    out.stores.push_back(s);
  }
  return out;
}

std::vector<int> CollapseTogether(std::span<ElementProgram* const> programs, std::span<const int> keep) {
  std::size_t rank = 0;
  for (const ElementProgram* p : programs) rank = std::max(rank, p->space.dims().size());
  std::vector<bool> join(rank == 0 ? 0 : rank - 1, true);
  for (int b : keep)
    if (b >= 0 && static_cast<std::size_t>(b) < join.size()) join[static_cast<std::size_t>(b)] = false;
  for (const ElementProgram* p : programs) {
    std::vector<bool> can = CollapsibleBoundaries(*p);
    for (std::size_t b = 0; b < can.size(); ++b) join[b] = join[b] && can[b];
  }
  std::vector<int> group_of(rank, 0);
  for (std::size_t d = 1; d < rank; ++d) group_of[d] = group_of[d - 1] + (join[d - 1] ? 0 : 1);
  for (ElementProgram* p : programs) {
    std::size_t n = p->space.dims().size();
    if (n > 0) *p = JoinDims(*p, std::span(group_of).first(n));
  }
  return group_of;
}

}  // namespace krafla::plan
