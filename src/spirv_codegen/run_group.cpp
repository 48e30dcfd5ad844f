// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/run_group.h"

#include <utility>

namespace krafla::spirv {

using plan::IndexAtom;
using plan::NodeOp;

RunGroup::RunGroup(const plan::ElementProgram& program)
    : space_(&program.space), done_(program.space.expr_count()), known_(program.space.expr_count()) {
  for (const plan::Node& n : program.nodes) nodes_.push_back(FindNode(n));
}

std::optional<RunStarts> RunGroup::Both(const std::optional<RunStarts>& a, const std::optional<RunStarts>& b) {
  if (!a || !b) return std::nullopt;
  if (a->length == 0) return b;
  if (b->length == 0) return a;
  const RunStarts& fine = a->length <= b->length ? *a : *b;
  const RunStarts& coarse = a->length <= b->length ? *b : *a;
  const bool meet = coarse.length % fine.length == 0 && (coarse.phase - fine.phase) % fine.length == 0;
  return meet ? std::optional(fine) : std::nullopt;
}

std::optional<RunStarts> RunGroup::FindNode(const plan::Node& n) {
  if (n.depends == 0) return RunStarts{};
  if (n.op == NodeOp::kParam) return std::nullopt;
  std::optional<RunStarts> out = RunStarts{};
  if (n.op == NodeOp::kLoad || n.op == NodeOp::kIndex) {
    const std::optional<Run> run = Of(n.index);
    if (!run || run->stride != 0) return std::nullopt;
    out = run->starts;
  }
  if (n.mask != plan::kNoNode) out = Both(out, OfNode(n.mask));
  for (plan::NodeId o : n.operands)
    if (o != plan::kNoNode) out = Both(out, OfNode(o));
  return out;
}

std::optional<RunGroup::Run> RunGroup::OfAtom(plan::AtomId id) {
  const IndexAtom& atom = space_->atom(id);
  if (atom.depends == 0) return Run{};
  if (atom.kind == IndexAtom::Kind::kIter) return Run{1, {}};
  if (atom.kind == IndexAtom::Kind::kValue) {
    const std::optional<RunStarts>& starts = OfNode(atom.node);
    return starts ? std::optional(Run{0, *starts}) : std::nullopt;
  }
  const std::optional<Run> inner = Of(atom.expr);
  if (!inner || inner->stride == 0) return inner;
  // Of p + c, where p is the point, the dividend says where the blocks of the divisor begin.
  const plan::IndexExpr& e = space_->expr(atom.expr);
  const bool is_point = e.terms.size() == 1 && e.terms[0].coefficient == 1 &&
                        space_->atom(e.terms[0].atom).kind == IndexAtom::Kind::kIter;
  if (!is_point) return std::nullopt;
  return Run{atom.kind == IndexAtom::Kind::kMod ? 1 : 0, {atom.divisor, e.constant % atom.divisor}};
}

std::optional<RunGroup::Run> RunGroup::Of(plan::IndexId id) {
  const auto i = static_cast<std::size_t>(id);
  if (done_[i]) return known_[i];
  done_[i] = true;
  Run out;
  for (const plan::IndexTerm& t : space_->expr(id).terms) {
    const std::optional<Run> atom = OfAtom(t.atom);
    const std::optional<RunStarts> starts = atom ? Both(out.starts, atom->starts) : std::nullopt;
    if (!starts) return std::nullopt;
    out = {out.stride + t.coefficient * atom->stride, *starts};
  }
  return known_[i] = out;
}

}  // namespace krafla::spirv
