// SPDX-License-Identifier: Apache-2.0
// Accesses: the address of a tile, and the offsets of its elements where these are not a stride.
#include <algorithm>

#include "cpu_fallback/executor/block_compiler.h"

namespace krafla::cpu {

int BlockCompiler::UniformAddress(const IndexExpr& e) {
  BlockProgram::Address address{.constant = e.constant, .terms = {}};
  for (const IndexTerm& t : e.terms) {
    const IndexAtom& a = space_.atom(t.atom);
    if (a.kind == IndexAtom::Kind::kIter) {
      // Tiles that are as long as a dimension begin at 0.
      if (((whole_dims_ >> a.iter) & 1) != 0) continue;
      address.terms.push_back({BlockProgram::Term::Kind::kIter, a.iter, t.coefficient});
    } else if (!Varies(AtomDepends(a))) {
      if (a.kind == IndexAtom::Kind::kValue) {
        address.terms.push_back({BlockProgram::Term::Kind::kValue, Item(slot_of_, a.node), t.coefficient});
      } else {
        address.terms.push_back({BlockProgram::Term::Kind::kDivision, UniformDivision(t.atom), t.coefficient});
      }
    }
  }
  out_.addresses_.push_back(std::move(address));
  return static_cast<int>(out_.addresses_.size()) - 1;
}

int BlockCompiler::UniformDivision(AtomId id) {
  if (auto it = division_slots_.find(id); it != division_slots_.end()) return it->second;
  const IndexAtom& a = space_.atom(id);
  const uint64_t depends = AtomDepends(a);
  int dividend = UniformAddress(space_.expr(a.expr));
  int out = NewSlot(8, true);
  MarkFixed(out, depends);
  StepsFor(depends).push_back(
      {.kind = a.kind == IndexAtom::Kind::kMod ? Step::Kind::kUniformModulus : Step::Kind::kUniformDivide,
       .is_uniform = true,
       .out = out,
       .bits = static_cast<uint64_t>(a.divisor),
       .address = dividend});
  division_slots_.emplace(id, out);
  return out;
}

BlockCompiler::Split BlockCompiler::SplitExpr(const IndexExpr& e) const {
  Split split;
  for (const IndexTerm& t : e.terms) {
    const IndexAtom& a = space_.atom(t.atom);
    if (a.kind == IndexAtom::Kind::kIter) {
      if (a.iter == options_.tile.row_dim) split.row_stride += t.coefficient;
      if (a.iter == options_.tile.column_dim) split.column_stride += t.coefficient;
    } else if (Varies(AtomDepends(a))) {
      split.varying.push_back(t);
    }
  }
  return split;
}

Result<int> BlockCompiler::OffsetsSlot(const IndexExpr& e, bool whole) {
  const Split split = SplitExpr(e);
  int sum = -1;
  const uint64_t depends = tile_mask_ | kTileBit;  // made anew in every tile
  if (whole) {
    sum = NewSlot(4, false);
    Step ramp{.kind = Step::Kind::kRamp,
              .out = sum,
              .address = UniformAddress(e),
              .row_stride = split.row_stride,
              .column_stride = split.column_stride};
    StepsFor(depends).push_back(ramp);
  } else if (split.row_stride != 0 || split.column_stride != 0) {
    sum = NewSlot(4, false);
    out_.addresses_.push_back({});
    Step ramp{.kind = Step::Kind::kRamp,
              .out = sum,
              .address = static_cast<int>(out_.addresses_.size()) - 1,
              .row_stride = split.row_stride,
              .column_stride = split.column_stride};
    StepsFor(depends).push_back(ramp);
  }
  for (const IndexTerm& t : split.varying) {
    KRAFLA_ASSIGN(int value, AtomSlot(t.atom));
    if (t.coefficient == 1 && sum < 0) {
      sum = value;
      continue;
    }
    int next = NewSlot(4, false);
    Step step{
        .kind = Step::Kind::kMulAdd, .out = next, .in = {value, sum, -1}, .bits = static_cast<uint64_t>(t.coefficient)};
    StepsFor(depends).push_back(step);
    sum = next;
  }
  return sum;
}

Result<int> BlockCompiler::AtomSlot(AtomId id) {
  const IndexAtom& a = space_.atom(id);
  if (a.kind == IndexAtom::Kind::kValue) return Item(slot_of_, a.node);
  if (auto it = atom_slots_.find(id); it != atom_slots_.end()) return it->second;
  const auto range = space_.RangeOf(a.expr);
  if (range.hi > INT32_MAX || a.divisor > INT32_MAX)
    return Unimplemented("An index of up to {} does not fit the 32 bits that computed indices have.", range.hi);
  KRAFLA_ASSIGN(int dividend, OffsetsSlot(space_.expr(a.expr), /*whole=*/true));
  int out = NewSlot(4, false);
  Step step{.kind = a.kind == IndexAtom::Kind::kMod ? Step::Kind::kModulus : Step::Kind::kDivide,
            .out = out,
            .in = {dividend, -1, -1},
            .bits = static_cast<uint64_t>(a.divisor)};
  out_.tile_steps_.push_back(step);
  atom_slots_.emplace(id, out);
  return out;
}

Result<BlockProgram::Access> BlockCompiler::LowerAccess(int buffer, ElementType storage, IndexId index, NodeId mask) {
  const IndexExpr& e = space_.expr(index);
  BlockProgram::Access access{.buffer = buffer, .width = StorageBytes(storage), .storage = storage};
  access.address = UniformAddress(e);
  const Split split = SplitExpr(e);
  access.row_stride = split.row_stride;
  access.column_stride = split.column_stride;
  if (!split.varying.empty()) {
    const auto range = space_.RangeOf(index);
    if (range.hi - range.lo > INT32_MAX)
      return Unimplemented("An access over {} elements does not fit the 32 bits that computed indices have.",
                           range.hi - range.lo);
    KRAFLA_ASSIGN(access.offsets, OffsetsSlot(e, /*whole=*/false));
  }
  if (mask != kNoNode) {
    access.mask = Item(slot_of_, mask);
    access.mask_is_uniform = !Varies(Item(depends_, mask));
  }
  access.converted_width = ComputeWidth(plan::ComputeType(storage));
  return access;
}

}  // namespace krafla::cpu
