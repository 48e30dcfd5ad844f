// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/operand_bases.h"

#include <algorithm>
#include <utility>

#include "base/index.h"

namespace krafla::cpu {

using plan::IndexAtom;
using plan::IndexExpr;
using plan::IndexId;
using plan::Node;
using plan::NodeOp;

namespace {

// The part of an index that is the same for all elements, but for its constant.
IndexId SharedPart(plan::IndexSpace& space, IndexId index) {
  const IndexExpr expr = space.expr(index);
  IndexId out = space.Constant(0);
  for (const plan::IndexTerm& t : expr.terms) {
    const IndexAtom atom = space.atom(t.atom);
    if (atom.kind != IndexAtom::Kind::kValue || atom.depends != 0) continue;
    out = space.Add(out, space.Mul(space.Value(atom.node, atom.lo, atom.hi, atom.depends), t.coefficient));
  }
  return out;
}

}  // namespace

std::optional<OperandBases> OperandBases::TakeOutOf(plan::ElementProgram& program) {
  if (program.results.size() != 1 || program.space.dims().size() < 2) return std::nullopt;
  plan::ElementProgram made = program;
  OperandBases out;
  for (Node& n : made.nodes) {
    if (n.op != NodeOp::kLoad || n.depends == 0) continue;
    const IndexId base = SharedPart(made.space, n.index);
    if (made.space.IsConstant(base)) continue;
    const IndexId rest = made.space.Sub(n.index, base);
    // A place is a number of 32 bits.
    const plan::Interval place = made.space.RangeOf(base), left = made.space.RangeOf(rest);
    const plan::ProgramBuffer buffer = made.buffers[At(n.buffer)];
    if (place.lo < 0 || place.hi > INT32_MAX || left.lo < 0 || left.hi >= buffer.element_count ||
        place.hi + left.hi >= buffer.element_count)
      return std::nullopt;
    const auto known =
        std::ranges::find_if(out.bases_, [&](const Base& b) { return b.buffer == n.buffer && b.index == base; });
    const auto number = static_cast<std::size_t>(known - out.bases_.begin());
    const std::size_t first = program.buffers.size();
    if (known == out.bases_.end()) {
      out.bases_.push_back({n.buffer, StorageBytes(buffer.storage), base, {}});
      made.buffers.push_back({buffer.storage, 0, false});
    }
    int64_t& count = made.buffers[first + number].element_count;
    count = std::max(count, left.hi + 1);
    n.buffer = static_cast<int>(first + number);
    n.index = rest;
    n.depends = made.space.Depends(rest);
  }
  if (out.bases_.empty()) return std::nullopt;
  for (Base& base : out.bases_) {
    plan::ElementProgram place = made;
    place.buffers = program.buffers;
    place.nodes = program.nodes;
    auto compiled = ElementPlace::Make(std::move(place), base.index);
    if (!compiled) return std::nullopt;
    base.place = std::move(*compiled);
    out.frame_bytes_ = std::max(out.frame_bytes_, base.place.frame_bytes());
  }
  out.origin_ = Dims(made.space.dims().size(), 0);
  plan::DropUnneededNodes(made);
  program = std::move(made);
  return out;
}

OperandBases::Bindings OperandBases::Find(std::span<std::byte* const> bindings, std::byte* memory) const {
  Bindings out(bindings.begin(), bindings.end());
  for (const Base& base : bases_) {
    base.place.Start(memory, bindings);
    out.push_back(bindings[At(base.buffer)] + base.place.At(memory, origin_) * base.width);
  }
  return out;
}

}  // namespace krafla::cpu
