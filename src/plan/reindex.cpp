// SPDX-License-Identifier: Apache-2.0
#include "plan/reindex.h"

#include "base/checked_math.h"

namespace krafla::plan {

IndexId IndexRewriter::Expr(IndexId id) {
  if (static_cast<std::size_t>(id) >= done_.size()) done_.resize(from_.expr_count(), -1);
  if (const IndexId known = done_[static_cast<std::size_t>(id)]; known >= 0) return known;
  IndexId out = to_.Constant(from_.expr(id).constant);
  for (const IndexTerm& t : from_.expr(id).terms) out = to_.Add(out, to_.Mul(Atom(from_.atom(t.atom)), t.coefficient));
  done_[static_cast<std::size_t>(id)] = out;
  return out;
}

IndexId IndexRewriter::Atom(const IndexAtom& atom) {
  switch (atom.kind) {
    case IndexAtom::Kind::kIter: return rules_.iters[static_cast<std::size_t>(atom.iter)];
    case IndexAtom::Kind::kFloorDiv: return to_.FloorDiv(Expr(atom.expr), atom.divisor);
    case IndexAtom::Kind::kMod: return to_.Mod(Expr(atom.expr), atom.divisor);
    case IndexAtom::Kind::kValue: {
      const NodeId node = rules_.nodes.empty() ? atom.node : rules_.nodes[static_cast<std::size_t>(atom.node)];
      return to_.Value(node, atom.lo, atom.hi, Depends(atom.depends));
    }
  }
  KRAFLA_UNREACHABLE();
}

uint64_t IndexRewriter::Depends(uint64_t old) const {
  uint64_t out = 0;
  for (std::size_t d = 0; d < rules_.depends.size(); ++d)
    if (((old >> d) & 1) != 0) out |= rules_.depends[d];
  return out;
}

namespace {

IndexRewriter::Rules RulesOf(std::span<const DimImage> images, std::span<const int64_t> dims, IndexSpace& space) {
  IndexRewriter::Rules rules;
  for (const DimImage& image : images) {
    IndexId iter = space.Constant(image.constant);
    uint64_t depends = 0;
    for (const DimImage::Term& t : image.terms) {
      iter = space.Add(iter, space.Mul(space.Iter(t.dim), t.coefficient));
      if (dims[static_cast<std::size_t>(t.dim)] > 1) depends |= uint64_t{1} << t.dim;
    }
    rules.iters.push_back(iter);
    rules.depends.push_back(depends);
  }
  return rules;
}

ElementProgram Rewritten(const ElementProgram& program, IndexSpace space, IndexRewriter::Rules rules) {
  ElementProgram out;
  out.space = std::move(space);
  out.buffers = program.buffers;
  out.results = program.results;
  IndexRewriter rewriter(program.space, out.space, std::move(rules));
  for (Node n : program.nodes) {
    if (n.op == NodeOp::kLoad || n.op == NodeOp::kIndex) n.index = rewriter.Expr(n.index);
    n.depends = rewriter.Depends(n.depends);
    out.nodes.push_back(n);
  }
  for (Store s : program.stores) {
    s.index = rewriter.Expr(s.index);
    out.stores.push_back(s);
  }
  return out;
}

}  // namespace

ElementProgram Reindex(const ElementProgram& program, std::span<const int64_t> dims, std::span<const DimImage> images) {
  IndexSpace space(dims);
  IndexRewriter::Rules rules = RulesOf(images, dims, space);
  return Rewritten(program, std::move(space), std::move(rules));
}

ElementProgram Flattened(const ElementProgram& program) {
  const Dims& dims = program.space.dims();
  const int64_t points[] = {Product(dims)};
  IndexSpace space(points);
  IndexRewriter::Rules rules;
  rules.iters = space.Delinearize(space.Iter(0), dims);
  rules.depends.assign(dims.size(), points[0] > 1 ? 1 : 0);
  return Rewritten(program, std::move(space), std::move(rules));
}

namespace {

NodeId Moved(NodeId id, const std::vector<NodeId>& to) {
  return id == kNoNode ? kNoNode : to[static_cast<std::size_t>(id)];
}

// What nodes have become is among the rewriter's rules.
void CopyNodesBy(const ElementProgram& program, IndexRewriter& rewriter, ProgramBuilder& builder) {
  std::vector<NodeId>& to = rewriter.rules().nodes;
  to.assign(program.nodes.size(), kNoNode);
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    Node n = program.nodes[i];
    for (NodeId& o : n.operands) o = Moved(o, to);
    n.mask = Moved(n.mask, to);
    if (n.op == NodeOp::kLoad || n.op == NodeOp::kIndex) n.index = rewriter.Expr(n.index);
    if (n.op == NodeOp::kParam) n.depends = rewriter.Depends(n.depends);
    to[i] = builder.Again(n);
  }
}

}  // namespace

std::vector<NodeId> CopyNodes(const ElementProgram& program, std::span<const int64_t> dims,
                              std::span<const DimImage> images, ProgramBuilder& builder) {
  IndexRewriter rewriter(program.space, builder.space(), RulesOf(images, dims, builder.space()));
  CopyNodesBy(program, rewriter, builder);
  return rewriter.rules().nodes;
}

ElementProgram Specialize(const ElementProgram& program, std::span<const int64_t> dims,
                          std::span<const DimImage> images) {
  ProgramBuilder builder(dims);
  for (const ProgramBuffer& b : program.buffers) builder.AddBuffer(b.storage, b.element_count, b.written);
  IndexRewriter rewriter(program.space, builder.space(), RulesOf(images, dims, builder.space()));
  CopyNodesBy(program, rewriter, builder);
  const std::vector<NodeId>& to = rewriter.rules().nodes;
  for (Store s : program.stores) {
    s.node = Moved(s.node, to), s.mask = Moved(s.mask, to);
    s.index = rewriter.Expr(s.index);
    if (s.mask == kNoNode || builder.node(s.mask).op != NodeOp::kConstant) {
      builder.AddStore(s);
    } else if (builder.node(s.mask).bits != 0) {
      s.mask = kNoNode;
      builder.AddStore(s);
    }
  }
  for (NodeId r : program.results) builder.AddResult(to[static_cast<std::size_t>(r)]);
  return std::move(builder).Finish();
}

}  // namespace krafla::plan
