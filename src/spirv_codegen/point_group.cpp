// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/point_group.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace krafla::spirv {

using plan::IndexAtom;
using plan::IndexTerm;
using plan::NodeOp;

namespace {

int64_t FloorDivide(int64_t a, int64_t d) { return a / d - (a % d < 0 ? 1 : 0); }

}  // namespace

bool PointGroup::Offsets::same() const {
  return std::ranges::all_of(at, [&](int64_t other) { return other == at[0]; });
}

PointGroup::PointGroup(const plan::ElementProgram& program, int dim)
    : PointGroup(program, {{dim, {kPoints, {0, 1, 2, 3}}}}) {}

PointGroup::PointGroup(const plan::ElementProgram& program, std::vector<Along> points)
    : space_(&program.space),
      points_(std::move(points)),
      count_(points_[0].offsets.at.size()),
      known_(program.space.expr_count()),
      same_(program.nodes.size()) {
  for (const Along& p : points_) dims_ |= uint64_t{1} << p.dim;
  for (std::size_t i = 0; i < same_.size(); ++i) {
    const plan::Node& n = program.nodes[i];
    bool same = true;
    if (Varies(n.depends)) {
      if (n.op == NodeOp::kLoad || n.op == NodeOp::kIndex) {
        const std::optional<Offsets> offsets = Of(n.index);
        same = offsets && offsets->same();
      }
      same = same && n.op != NodeOp::kParam && (n.mask == plan::kNoNode || IsSame(n.mask));
      for (plan::NodeId o : n.operands) same = same && (o == plan::kNoNode || IsSame(o));
    }
    same_[i] = same;
  }
}

PointGroup::Offsets PointGroup::Same(int64_t multiple, int64_t at) const {
  return {multiple, InlineVector<int64_t, kPoints>(count_, at)};
}

std::optional<PointGroup::Offsets> PointGroup::OfAtom(plan::AtomId id) {
  const IndexAtom& atom = space_->atom(id);
  if (!Varies(atom.depends)) return Same(1, 0);
  if (atom.kind == IndexAtom::Kind::kIter)
    return std::ranges::find_if(points_, [&](const Along& p) { return p.dim == atom.iter; })->offsets;
  // The nodes of its operands come before any node whose index this is.
  if (atom.kind == IndexAtom::Kind::kValue) return IsSame(atom.node) ? std::optional(Same(1, 0)) : std::nullopt;
  std::optional<Offsets> out = Of(atom.expr);
  if (!out) return std::nullopt;
  const int64_t d = atom.divisor;
  const bool is_mod = atom.kind == IndexAtom::Kind::kMod;
  if (out->multiple % d == 0) {
    for (int64_t& at : out->at) at = is_mod ? at - FloorDivide(at, d) * d : FloorDivide(at, d);
    out->multiple = is_mod ? 0 : out->multiple / d;
    return out;
  }
  // All points lie in one block of `multiple` numbers, which lies in one of `d`.
  if (d % out->multiple == 0) {
    const int64_t block = FloorDivide(out->at[0], out->multiple);
    const bool together =
        std::ranges::all_of(out->at, [&](int64_t at) { return FloorDivide(at, out->multiple) == block; });
    if (together && !is_mod) return Same(1, 0);
    if (together) {
      for (int64_t& at : out->at) at -= block * out->multiple;
      return out;
    }
  }
  if (out->same()) return Same(1, 0);
  return std::nullopt;
}

std::optional<PointGroup::Offsets> PointGroup::OfSum(const plan::IndexExpr& e) {
  Offsets out = Same(0, e.constant);
  for (const IndexTerm& t : e.terms) {
    const std::optional<Offsets> atom = OfAtom(t.atom);
    if (!atom) return std::nullopt;
    out.multiple = std::gcd(out.multiple, t.coefficient * atom->multiple);
    for (std::size_t i = 0; i < out.at.size(); ++i) out.at[i] += t.coefficient * atom->at[i];
  }
  return out;
}

std::optional<PointGroup::Offsets> PointGroup::Of(plan::IndexId id) {
  const auto i = static_cast<std::size_t>(id);
  if (!known_[i].done) {
    std::optional<Offsets> offsets = OfSum(space_->expr(id));
    known_[i] = {true, offsets};
  }
  return known_[i].offsets;
}

double MeanStride(const plan::IndexSpace& space, plan::IndexId id, int dim) {
  double out = 0;
  for (const IndexTerm& t : space.expr(id).terms) {
    const IndexAtom& atom = space.atom(t.atom);
    if (((atom.depends >> dim) & 1) == 0) continue;
    double stride = 0;
    switch (atom.kind) {
      case IndexAtom::Kind::kIter: stride = 1; break;
      case IndexAtom::Kind::kValue: stride = 1e9; break;  // anywhere
      case IndexAtom::Kind::kFloorDiv:
        stride = MeanStride(space, atom.expr, dim) / static_cast<double>(atom.divisor);
        break;
      case IndexAtom::Kind::kMod: stride = MeanStride(space, atom.expr, dim); break;
    }
    out += static_cast<double>(t.coefficient) * stride;
  }
  return std::abs(out);
}

}  // namespace krafla::spirv
