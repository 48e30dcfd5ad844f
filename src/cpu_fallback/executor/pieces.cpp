// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/pieces.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <utility>

#include "base/checked_math.h"
#include "base/index.h"
#include "base/work.h"
#include "cpu_fallback/executor/iteration.h"
#include "plan/collapse.h"

namespace krafla::cpu {

using plan::ElementProgram;
using plan::IndexAtom;
using plan::IndexExpr;
using plan::IndexId;
using plan::IndexSpace;
using plan::IndexTerm;
using plan::kNoNode;
using plan::Node;
using plan::NodeId;
using plan::NodeOp;
using plan::Store;

namespace {

// More pieces than these cost more to start than they save: of small spaces, which the edges of a torus cut into nine,
// of others.
constexpr std::size_t kFewPieces = 9, kMostPieces = 24;
constexpr int64_t kSmallSpace = 2048;
// What all pieces together may have.
constexpr std::size_t kMostNodes = 20000;
// Of dimensions as short as this, every index may be a piece.
constexpr int64_t kShortDim = 4;
// Fewer rows of neighbours are no vector.
constexpr int64_t kFewNeighbours = 8;

bool FitsS32(const IndexSpace::Range& r) {
  return r.lo >= std::numeric_limits<int32_t>::min() && r.hi <= std::numeric_limits<int32_t>::max();
}

// An s32 node as an index expression, where it is one.
std::optional<IndexId> IndexFormOf(const ElementProgram& program, IndexSpace& space, NodeId id) {
  if (id == kNoNode) return std::nullopt;
  const Node& n = program.nodes[At(id)];
  if (n.type != ElementType::kS32) return std::nullopt;
  if (n.op == NodeOp::kIndex) return n.index;
  if (n.op == NodeOp::kConstant) return space.Constant(static_cast<int32_t>(n.bits));
  return std::nullopt;
}

// Whether a compare of values whose difference lies in `r` is decided.
std::optional<bool> Decided(ComparisonDirection direction, const IndexSpace::Range& r) {
  switch (direction) {
    case ComparisonDirection::kLt:
      return r.hi < 0 ? std::optional(true) : r.lo >= 0 ? std::optional(false) : std::nullopt;
    case ComparisonDirection::kLe:
      return r.hi <= 0 ? std::optional(true) : r.lo > 0 ? std::optional(false) : std::nullopt;
    case ComparisonDirection::kGt:
      return r.lo > 0 ? std::optional(true) : r.hi <= 0 ? std::optional(false) : std::nullopt;
    case ComparisonDirection::kGe:
      return r.lo >= 0 ? std::optional(true) : r.hi < 0 ? std::optional(false) : std::nullopt;
    case ComparisonDirection::kEq:
      if (r.lo == 0 && r.hi == 0) return true;
      return r.lo > 0 || r.hi < 0 ? std::optional(false) : std::nullopt;
    case ComparisonDirection::kNe:
      if (r.lo == 0 && r.hi == 0) return false;
      return r.lo > 0 || r.hi < 0 ? std::optional(true) : std::nullopt;
  }
  return std::nullopt;
}

// Writes a program anew over a part of its space.
class Restriction {
 public:
  Restriction(const ElementProgram& from, int dim, int64_t begin, const Dims& dims)
      : from_(from),
        dim_(dim),
        begin_(begin),
        exprs_(from.space.expr_count(), -1),
        node_of_(from.nodes.size(), kNoNode) {
    out_.space = IndexSpace(dims);
    out_.buffers = from.buffers;
  }

  ElementProgram Run() && {
    AddAll();
    DropUnused();
    return std::move(out_);
  }
  // At every index of the dimension.
  ElementProgram RunAtEach(int64_t extent) && {
    merges_ = true;
    for (begin_ = 0; begin_ < extent; ++begin_) {
      std::ranges::fill(exprs_, -1);
      AddAll();
    }
    DropUnused();
    return std::move(out_);
  }

 private:
  void AddAll() {
    for (std::size_t i = 0; i < from_.nodes.size(); ++i) node_of_[i] = Rewrite(from_.nodes[i]);
    for (Store s : from_.stores) {
      s.node = NodeOf(s.node);
      s.index = Expr(s.index);
      s.mask = NodeOf(s.mask);
      if (const auto known = PredOf(s.mask)) {
        if (!*known) continue;
        s.mask = kNoNode;
      }
      out_.stores.push_back(s);
    }
    for (NodeId r : from_.results) out_.results.push_back(NodeOf(r));
  }

  IndexSpace& space() { return out_.space; }
  NodeId NodeOf(NodeId id) const { return id == kNoNode ? kNoNode : node_of_[At(id)]; }
  std::optional<IndexId> FormOf(NodeId id) { return IndexFormOf(out_, out_.space, id); }
  std::optional<bool> PredOf(NodeId id) const {
    if (id == kNoNode || out_.nodes[At(id)].op != NodeOp::kConstant || out_.nodes[At(id)].type != ElementType::kPred)
      return std::nullopt;
    return out_.nodes[At(id)].bits != 0;
  }

  IndexId Expr(IndexId id) {
    if (exprs_[At(id)] >= 0) return exprs_[At(id)];
    CountWork(1);
    IndexId out = space().Constant(from_.space.expr(id).constant);
    for (const IndexTerm& t : from_.space.expr(id).terms)
      out = space().Add(out, space().Mul(Atom(from_.space.atom(t.atom)), t.coefficient));
    return exprs_[At(id)] = out;
  }
  IndexId Atom(const IndexAtom& a) {
    switch (a.kind) {
      case IndexAtom::Kind::kIter: {
        const IndexId iter = space().Iter(a.iter);
        return a.iter == dim_ ? space().AddConstant(iter, begin_) : iter;
      }
      case IndexAtom::Kind::kFloorDiv: return space().FloorDiv(Expr(a.expr), a.divisor);
      case IndexAtom::Kind::kMod: return space().Mod(Expr(a.expr), a.divisor);
      case IndexAtom::Kind::kValue: {
        const NodeId node = NodeOf(a.node);
        if (const auto form = FormOf(node)) {
          const auto range = space().RangeOf(*form);
          if (range.lo >= a.lo && range.hi <= a.hi) return *form;
        }
        return space().Value(node, a.lo, a.hi, out_.nodes[At(node)].depends);
      }
    }
    return 0;
  }

  NodeId Add(Node n) {
    n.depends = n.op == NodeOp::kParam ? n.depends : 0;
    for (NodeId o : n.operands)
      if (o != kNoNode) n.depends |= out_.nodes[At(o)].depends;
    if (n.mask != kNoNode) n.depends |= out_.nodes[At(n.mask)].depends;
    if (n.op == NodeOp::kLoad || n.op == NodeOp::kIndex) n.depends |= space().Depends(n.index);
    if (merges_)
      if (const auto same = std::ranges::find(out_.nodes, n); same != out_.nodes.end())
        return static_cast<NodeId>(same - out_.nodes.begin());
    out_.nodes.push_back(n);
    return static_cast<NodeId>(out_.nodes.size()) - 1;
  }
  NodeId Constant(ElementType type, uint64_t bits) {
    return Add({.op = NodeOp::kConstant, .type = type, .bits = bits});
  }
  NodeId Index(IndexId index) {
    if (space().IsConstant(index))
      return Constant(ElementType::kS32, static_cast<uint32_t>(static_cast<int32_t>(space().expr(index).constant)));
    return Add({.op = NodeOp::kIndex, .type = ElementType::kS32, .index = index});
  }

  NodeId Rewrite(Node n) {
    CountWork(1);
    for (NodeId& o : n.operands) o = NodeOf(o);
    n.mask = NodeOf(n.mask);
    if (n.op == NodeOp::kIndex) return Index(Expr(n.index));
    if (n.op == NodeOp::kLoad) {
      n.index = Expr(n.index);
      if (const auto known = PredOf(n.mask)) {
        if (!*known) return Constant(n.type, 0);
        n.mask = kNoNode;
      }
    } else if (n.op == NodeOp::kCompare) {
      const auto a = FormOf(n.operands[0]), b = FormOf(n.operands[1]);
      if (a && b)
        if (const auto known = Decided(n.direction, space().RangeOf(space().Sub(*a, *b))))
          return Constant(ElementType::kPred, *known ? 1 : 0);
    } else if (n.op == NodeOp::kHlo) {
      if (const auto same = Simpler(n)) return *same;
    }
    return Add(n);
  }

  // What an op comes down to where its operands are known well enough.
  std::optional<NodeId> Simpler(const Node& n) {
    const NodeId a = n.operands[0], b = n.operands[1], c = n.operands[2];
    if (n.opcode == Opcode::kSelect) {
      if (const auto known = PredOf(a)) return *known ? b : c;
      return std::nullopt;
    }
    if (n.type == ElementType::kPred && (n.opcode == Opcode::kAnd || n.opcode == Opcode::kOr)) {
      const bool is_and = n.opcode == Opcode::kAnd;
      for (const auto& [x, y] : {std::pair{a, b}, std::pair{b, a}})
        if (const auto known = PredOf(x)) return *known == is_and ? y : x;
      return std::nullopt;
    }
    if (n.type == ElementType::kPred && n.opcode == Opcode::kNot) {
      if (const auto known = PredOf(a)) return Constant(ElementType::kPred, *known ? 0 : 1);
      return std::nullopt;
    }
    if (n.type != ElementType::kS32) return std::nullopt;
    const auto x = FormOf(a), y = FormOf(b);
    if (!x || !y) return std::nullopt;
    const auto at_most = [&](IndexId p, IndexId q) { return space().RangeOf(space().Sub(p, q)).hi <= 0; };
    if (n.opcode == Opcode::kMaximum || n.opcode == Opcode::kMinimum) {
      const bool is_max = n.opcode == Opcode::kMaximum;
      if (at_most(*x, *y)) return is_max ? b : a;
      if (at_most(*y, *x)) return is_max ? a : b;
      return std::nullopt;
    }
    if (n.opcode == Opcode::kClamp) {
      const auto z = FormOf(c);
      if (!z || !at_most(*x, *z)) return std::nullopt;
      if (at_most(*y, *x)) return a;
      if (at_most(*z, *y)) return c;
      if (at_most(*x, *y) && at_most(*y, *z)) return b;
      return std::nullopt;
    }
    std::optional<IndexId> made;
    if (n.opcode == Opcode::kAdd) made = space().Add(*x, *y);
    if (n.opcode == Opcode::kSubtract) made = space().Sub(*x, *y);
    if (n.opcode == Opcode::kMultiply && space().IsConstant(*x)) made = space().Mul(*y, space().expr(*x).constant);
    if (n.opcode == Opcode::kMultiply && space().IsConstant(*y)) made = space().Mul(*x, space().expr(*y).constant);
    if (!made || !FitsS32(space().RangeOf(*made))) return std::nullopt;
    return Index(*made);
  }

  // Nodes that no store and no result needs.
  void DropUnused() {
    std::vector<bool> used(out_.nodes.size(), false);
    std::vector<bool> seen(space().expr_count(), false);
    auto use_index = [&](auto& self, IndexId id) -> void {
      if (seen[At(id)]) return;
      seen[At(id)] = true;
      for (const IndexTerm& t : space().expr(id).terms) {
        const IndexAtom& atom = space().atom(t.atom);
        if (atom.kind == IndexAtom::Kind::kValue) used[At(atom.node)] = true;
        if (atom.kind == IndexAtom::Kind::kFloorDiv || atom.kind == IndexAtom::Kind::kMod) self(self, atom.expr);
      }
    };
    for (const Store& s : out_.stores) {
      used[At(s.node)] = true;
      if (s.mask != kNoNode) used[At(s.mask)] = true;
      use_index(use_index, s.index);
    }
    for (NodeId r : out_.results) used[At(r)] = true;
    for (std::size_t i = out_.nodes.size(); i-- > 0;) {
      if (!used[i]) continue;
      const Node& n = out_.nodes[i];
      for (NodeId o : n.operands)
        if (o != kNoNode) used[At(o)] = true;
      if (n.mask != kNoNode) used[At(n.mask)] = true;
      if (n.op == NodeOp::kLoad || n.op == NodeOp::kIndex) use_index(use_index, n.index);
    }
    std::vector<int> to(out_.nodes.size(), kNoNode);
    std::vector<Node> kept;
    for (std::size_t i = 0; i < out_.nodes.size(); ++i) {
      if (!used[i]) continue;
      to[i] = static_cast<int>(kept.size());
      Node n = out_.nodes[i];
      for (NodeId& o : n.operands)
        if (o != kNoNode) o = to[At(o)];
      if (n.mask != kNoNode) n.mask = to[At(n.mask)];
      kept.push_back(n);
    }
    out_.nodes = std::move(kept);
    for (Store& s : out_.stores) {
      s.node = to[At(s.node)];
      if (s.mask != kNoNode) s.mask = to[At(s.mask)];
    }
    for (NodeId& r : out_.results) r = to[At(r)];
    space().RenumberNodes(to);
  }

  const ElementProgram& from_;
  int dim_;
  int64_t begin_;
  bool merges_ = false;  // equal nodes are one
  ElementProgram out_;
  std::vector<IndexId> exprs_;
  std::vector<NodeId> node_of_;
};

// The one dimension that an expression varies with, if it is one and nothing else.
std::optional<int> OnlyDim(const IndexSpace& space, IndexId id) {
  const uint64_t depends = space.Depends(id);
  if (depends == 0 || (depends & (depends - 1)) != 0 || space.HasValue(id)) return std::nullopt;
  return std::countr_zero(depends);
}

// The value of an expression of one dimension at index i of that.
int64_t ValueAt(const IndexSpace& space, IndexId id, int64_t i) {
  int64_t out = space.expr(id).constant;
  for (const IndexTerm& t : space.expr(id).terms) {
    const IndexAtom& a = space.atom(t.atom);
    int64_t value = i;
    if (a.kind == IndexAtom::Kind::kFloorDiv) value = ValueAt(space, a.expr, i) / a.divisor;
    if (a.kind == IndexAtom::Kind::kMod) value = ValueAt(space, a.expr, i) % a.divisor;
    out += t.coefficient * value;
  }
  return out;
}

// Expressions of iterators and quotients of one dimension rise or fall all along it.
bool IsMonotonic(const IndexSpace& space, IndexId id) {
  bool rises = true, falls = true;
  for (const IndexTerm& t : space.expr(id).terms) {
    const IndexAtom& a = space.atom(t.atom);
    if (a.kind == IndexAtom::Kind::kMod) return false;
    if (a.kind == IndexAtom::Kind::kFloorDiv) {
      for (const IndexTerm& inner : space.expr(a.expr).terms)
        if (space.atom(inner.atom).kind != IndexAtom::Kind::kIter || inner.coefficient < 0) return false;
    }
    (t.coefficient > 0 ? falls : rises) = false;
  }
  return rises || falls;
}

// Where a condition on `difference` (of one dimension) is decided otherwise for the first time.
std::optional<Cut> CutOf(const IndexSpace& space, ComparisonDirection direction, IndexId difference) {
  const std::optional<int> dim = OnlyDim(space, difference);
  if (!dim) return std::nullopt;
  const int64_t extent = space.dims()[At(*dim)];
  const auto holds = [&](int64_t i) {
    const int64_t v = ValueAt(space, difference, i);
    return Decided(direction, {v, v}).value();
  };
  const bool first = holds(0);
  if (extent <= kShortDim) {
    for (int64_t i = 1; i < extent; ++i)
      if (holds(i) != first) return Cut{*dim, i};
    return std::nullopt;
  }
  if (!IsMonotonic(space, difference)) return std::nullopt;
  const bool is_equality = direction == ComparisonDirection::kEq || direction == ComparisonDirection::kNe;
  // By halves; an equality is where the order of the two changes.
  const auto differs = [&](int64_t i) {
    if (!is_equality) return holds(i) != first;
    const int64_t v0 = ValueAt(space, difference, 0), v = ValueAt(space, difference, i);
    return v0 == 0 ? v != 0 : v == 0 || (v < 0) != (v0 < 0);
  };
  if (!differs(extent - 1)) return std::nullopt;
  int64_t low = 0, high = extent - 1;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (differs(middle) ? high : low) = middle;
  }
  return Cut{*dim, high};
}

}  // namespace

std::optional<Cut> FindCut(ElementProgram& program) {
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    const Node n = program.nodes[i];
    const auto form = [&](int k) { return IndexFormOf(program, program.space, n.operands[At(k)]); };
    if (n.op == NodeOp::kCompare) {
      const auto a = form(0), b = form(1);
      if (!a || !b) continue;
      if (const auto cut = CutOf(program.space, n.direction, program.space.Sub(*a, *b))) return cut;
    } else if (n.op == NodeOp::kHlo && n.opcode == Opcode::kClamp) {
      const auto lo = form(0), x = form(1), hi = form(2);
      if (!lo || !x || !hi) continue;
      if (const auto cut = CutOf(program.space, ComparisonDirection::kLt, program.space.Sub(*x, *lo))) return cut;
      if (const auto cut = CutOf(program.space, ComparisonDirection::kGt, program.space.Sub(*x, *hi))) return cut;
    }
  }
  return std::nullopt;
}

namespace {

bool IsQuotient(const IndexAtom& a) { return a.kind == IndexAtom::Kind::kFloorDiv || a.kind == IndexAtom::Kind::kMod; }

// The quotients and remainders that vary with anything but short dimensions.
int CountLongQuotients(const ElementProgram& program) {
  const IndexSpace& space = program.space;
  uint64_t short_dims = 0;
  for (std::size_t d = 0; d < space.dims().size() && d < 64; ++d)
    if (space.dims()[d] <= kShortDim) short_dims |= uint64_t{1} << d;
  std::vector<bool> seen(space.atom_count(), false);
  int count = 0;
  for (IndexId id : plan::UsedExprs(program)) {
    for (const IndexTerm& t : space.expr(id).terms) {
      const IndexAtom& a = space.atom(t.atom);
      if (!IsQuotient(a) || seen[At(t.atom)]) continue;
      seen[At(t.atom)] = true;
      if ((a.depends & ~short_dims) != 0) ++count;
    }
  }
  return count;
}

// A split into rows of `inner` of a part of a dimension, after which fewer long quotients are left. The part is as much
// as `inner` divides.
struct PartSplit {
  int dim = -1;
  int64_t inner = 1, part = 0;
};
PartSplit FindPartSplit(const ElementProgram& program) {
  const IndexSpace& space = program.space;
  const int before = CountLongQuotients(program);
  if (before == 0 || space.dims().size() >= 60) return {};
  std::vector<std::pair<int, int64_t>> tried;
  for (IndexId id : plan::UsedExprs(program)) {
    for (const IndexTerm& t : space.expr(id).terms) {
      const IndexAtom& a = space.atom(t.atom);
      if (!IsQuotient(a)) continue;
      for (const IndexTerm& u : space.expr(a.expr).terms) {
        const IndexAtom& b = space.atom(u.atom);
        if (b.kind != IndexAtom::Kind::kIter || u.coefficient <= 0 || a.divisor % u.coefficient != 0) continue;
        const int64_t inner = a.divisor / u.coefficient, extent = space.dims()[At(b.iter)];
        if (inner <= 1 || inner >= extent || std::ranges::find(tried, std::pair{b.iter, inner}) != tried.end())
          continue;
        tried.emplace_back(b.iter, inner);
        const int64_t part = extent - extent % inner;
        const ElementProgram whole = part == extent ? program : Restrict(program, b.iter, 0, part);
        if (part == inner || CountLongQuotients(SplitDim(whole, b.iter, inner)) < before) return {b.iter, inner, part};
      }
    }
  }
  return {};
}

// A short dimension with a quotient of its own: it is cut down to single indices.
std::optional<Cut> FindShortQuotient(const ElementProgram& program) {
  for (IndexId id : plan::UsedExprs(program)) {
    for (const IndexTerm& t : program.space.expr(id).terms) {
      const IndexAtom& a = program.space.atom(t.atom);
      if (!IsQuotient(a)) continue;
      const std::optional<int> dim = OnlyDim(program.space, a.expr);
      if (dim && program.space.dims()[At(*dim)] <= kShortDim) return Cut{*dim, 1};
    }
  }
  return std::nullopt;
}

// Whether the elements of a short dimension lie side by side in what is written, and are nothing that vectors store
// there one by one: a piece of a single index would store every second, third or fourth element.
bool AreNeighbours(const ElementProgram& program, int dim) {
  const int64_t extent = program.space.dims()[At(dim)];
  if (extent < 2 || extent > kShortDim || !program.results.empty() || program.stores.size() != 1) return false;
  const Store& s = program.stores[0];
  const IndexSpace::Affine along = program.space.StrideAlong(s.index, dim);
  if (!along.affine || along.stride != 1 || StorageBytes(s.storage) < 4) return false;
  // Rows of them, of which each goes on where the one before ends.
  for (int d = 0; d < static_cast<int>(program.space.dims().size()); ++d) {
    const IndexSpace::Affine across = program.space.StrideAlong(s.index, d);
    if (d != dim && across.affine && across.stride == extent && program.space.dims()[At(d)] >= kFewNeighbours)
      return true;
  }
  return false;
}

}  // namespace

ElementProgram Restrict(const ElementProgram& program, int dim, int64_t begin, int64_t extent) {
  Dims dims = program.space.dims();
  if (dim >= 0) dims[At(dim)] = extent;
  return Restriction(program, dim, begin, dims).Run();
}

ElementProgram Unroll(const ElementProgram& program, int dim) {
  Dims dims = program.space.dims();
  const int64_t extent = std::exchange(dims[At(dim)], 1);
  return Restriction(program, dim, 0, dims).RunAtEach(extent);
}

std::vector<ElementProgram> CutIntoPieces(const ElementProgram& program) {
  int64_t points = 1;
  for (int64_t d : program.space.dims()) points *= d;
  const std::size_t most = points < kSmallSpace ? kFewPieces : kMostPieces;
  std::vector<ElementProgram> todo, done;
  std::size_t nodes = program.nodes.size();
  todo.push_back(Restrict(program, -1, 0, 0));
  while (!todo.empty()) {
    ElementProgram piece = std::move(todo.back());
    todo.pop_back();
    const bool may_cut = todo.size() + done.size() + 2 <= most && nodes + piece.nodes.size() <= kMostNodes;
    std::optional<Cut> cut;
    if (may_cut) cut = FindCut(piece);
    if (cut && AreNeighbours(piece, cut->dim)) {
      todo.push_back(Unroll(piece, cut->dim));
      nodes += todo.back().nodes.size();
      continue;
    }
    if (!cut) {
      const PartSplit split = FindPartSplit(piece);
      if (split.dim >= 0 && split.part == piece.space.dims()[At(split.dim)]) {
        todo.push_back(Restrict(SplitDim(piece, split.dim, split.inner), -1, 0, 0));
        continue;
      }
      if (may_cut && split.dim >= 0) cut = Cut{split.dim, split.part};
      if (may_cut && !cut) cut = FindShortQuotient(piece);
    }
    if (cut) {
      nodes += piece.nodes.size();
      const int64_t extent = piece.space.dims()[At(cut->dim)];
      todo.push_back(Restrict(piece, cut->dim, cut->at, extent - cut->at));
      todo.push_back(Restrict(piece, cut->dim, 0, cut->at));
      continue;
    }
    ElementProgram* programs[] = {&piece};
    plan::CollapseTogether(programs, {});
    if (!piece.stores.empty() || !piece.results.empty()) done.push_back(std::move(piece));
  }
  return done;
}

}  // namespace krafla::cpu
