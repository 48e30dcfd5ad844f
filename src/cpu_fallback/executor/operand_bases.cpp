// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/operand_bases.h"

#include <algorithm>
#include <utility>

#include "base/index.h"
#include "plan/reindex.h"

namespace krafla::cpu {

using plan::IndexAtom;
using plan::IndexExpr;
using plan::IndexId;
using plan::Node;
using plan::NodeOp;

namespace {

// The part of an index that differs along the dimensions `shared` at the most, but for its constant.
IndexId SharedPart(plan::IndexSpace& space, IndexId index, uint64_t shared) {
  const IndexExpr expr = space.expr(index);
  IndexId out = space.Constant(0);
  for (const plan::IndexTerm& t : expr.terms) {
    if ((space.atom(t.atom).depends & ~shared) == 0)
      out = space.Add(out, space.Mul(space.OfAtom(t.atom), t.coefficient));
  }
  return out;
}

// Whether a load's place depends on a number that is read for each point of the dimensions `shared`.
bool ReadsPlaces(const plan::ElementProgram& program, uint64_t shared) {
  return std::ranges::any_of(program.nodes, [&](const Node& n) {
    return n.op == NodeOp::kLoad &&
           std::ranges::any_of(program.space.expr(n.index).terms, [&](const plan::IndexTerm& t) {
             const IndexAtom& atom = program.space.atom(t.atom);
             return atom.kind == IndexAtom::Kind::kValue && atom.depends != 0 && (atom.depends & ~shared) == 0;
           });
  });
}

}  // namespace

std::optional<OperandBases> OperandBases::TakeOutOf(plan::ElementProgram& program) { return TakeOut(program, 0); }

std::optional<OperandBases> OperandBases::TakeBatchesOutOf(plan::ElementProgram& program, int batch_rank) {
  const uint64_t batches = (uint64_t{1} << batch_rank) - 1;
  if (batch_rank == 0 || !ReadsPlaces(program, batches)) return std::nullopt;
  plan::ElementProgram made = program;
  std::optional<OperandBases> out = TakeOut(made, batches);
  // Places have been dropped, or else something reads them still.
  if (!out || std::ranges::any_of(made.nodes, [&](const Node& n) { return (n.depends & batches) != 0; }))
    return std::nullopt;
  const Dims all = made.space.dims();
  std::vector<plan::DimImage> images(At(batch_rank));
  for (int d = batch_rank; d < static_cast<int>(all.size()); ++d) images.push_back(plan::DimImage::Of(d - batch_rank));
  program = plan::Reindex(made, all.span().subspan(At(batch_rank)), images);
  return out;
}

std::optional<OperandBases> OperandBases::TakeOut(plan::ElementProgram& program, uint64_t shared) {
  if (program.results.size() != 1 || program.space.dims().size() < 2) return std::nullopt;
  plan::ElementProgram made = program;
  OperandBases out;
  for (Node& n : made.nodes) {
    // What a place is read from is read where the places are found.
    if (n.op != NodeOp::kLoad || (n.depends & ~shared) == 0) continue;
    const IndexId base = SharedPart(made.space, n.index, shared);
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
  }
  plan::SetDepends(made);
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

OperandBases::Bindings OperandBases::Find(std::span<std::byte* const> bindings, std::byte* memory,
                                          std::span<const int64_t> batch) const {
  Bindings out(bindings.begin(), bindings.end());
  Dims point = origin_;
  std::ranges::copy(batch, point.begin());
  for (const Base& base : bases_) {
    base.place.Start(memory, bindings);
    out.push_back(bindings[At(base.buffer)] + base.place.At(memory, point) * base.width);
  }
  return out;
}

}  // namespace krafla::cpu
