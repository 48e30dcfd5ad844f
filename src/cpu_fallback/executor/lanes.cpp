// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/lanes.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "cpu_fallback/kernels/block_ops.h"
#include "ir/opcode.h"

namespace krafla::cpu {

using plan::kNoNode;
using plan::Node;
using plan::NodeId;
using plan::NodeOp;

namespace {

bool IsWordType(ElementType type) { return type == ElementType::kS32 || type == ElementType::kU32; }

ElementType LaneOf(bool is_signed, int width) {
  if (width == 1) return is_signed ? ElementType::kS8 : ElementType::kU8;
  return is_signed ? ElementType::kS16 : ElementType::kU16;
}

std::pair<int64_t, int64_t> LimitsOf(ElementType type) {
  const int bits = BitWidth(type);
  if (IsSigned(type)) return {-(int64_t{1} << (bits - 1)), (int64_t{1} << (bits - 1)) - 1};
  return {0, (int64_t{1} << bits) - 1};
}

// The low bits of the result are made of the low bits of the operands.
bool KeepsLowBits(Opcode op) {
  return IsOneOf(op, {Opcode::kAdd, Opcode::kSubtract, Opcode::kMultiply, Opcode::kAnd, Opcode::kOr, Opcode::kXor,
                      Opcode::kNot, Opcode::kNegate});
}
// On operands that the lanes can hold it is the same op there. Shifts by as many bits as the lanes have, or more, leave
// nothing, or the sign, of a number that fits them.
bool IsSameInLanes(Opcode op) {
  return IsOneOf(op, {Opcode::kMaximum, Opcode::kMinimum, Opcode::kAbs, Opcode::kSign, Opcode::kClamp, Opcode::kDivide,
                      Opcode::kRemainder, Opcode::kShiftRightLogical, Opcode::kShiftRightArithmetic});
}

double FloatConstant(const Node& n) {
  return n.type == ElementType::kF64 ? std::bit_cast<double>(n.bits)
                                     : static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(n.bits)));
}

}  // namespace

Lanes::Lanes(const plan::ElementProgram& program, std::span<const ElementType> results)
    : program_(program), results_(results) {
  only_wide_.assign(program.nodes.size(), false);
  FindRanges();
  FindNeeds();
  // Once more, now that it is known what is computed wide in any case.
  bool again = false;
  for (std::size_t i = 0; i < needs_.size(); ++i) {
    const Node& n = program.nodes[i];
    if (!needs_[i].wide || (!needs_[i].narrow[0] && !needs_[i].narrow[1])) continue;
    if (n.op == NodeOp::kLoad || n.op == NodeOp::kConstant) continue;
    only_wide_[i] = again = true;
  }
  if (again) FindNeeds();
}

void Lanes::FindRanges() {
  ranges_.resize(program_.nodes.size());
  for (std::size_t i = 0; i < program_.nodes.size(); ++i) {
    const Node& n = program_.nodes[i];
    if (!IsWordType(n.type)) continue;
    Range& range = ranges_[i];
    const auto [lo, hi] = LimitsOf(n.type);
    range = {lo, hi};
    auto of = [&](int k) { return ranges_[static_cast<std::size_t>(n.operands[static_cast<std::size_t>(k)])]; };
    if (n.op == NodeOp::kConstant) {
      const int64_t v = n.type == ElementType::kS32 ? static_cast<int64_t>(static_cast<int32_t>(n.bits))
                                                    : static_cast<int64_t>(static_cast<uint32_t>(n.bits));
      range = {v, v};
    } else if ((n.op == NodeOp::kLoad || n.op == NodeOp::kWrap) && IsIntegral(n.storage)) {
      const auto limits = LimitsOf(n.storage);
      if (limits.first >= lo && limits.second <= hi) range = {limits.first, limits.second};
    } else if (n.op == NodeOp::kConvert && node(n.operands[0]).type == ElementType::kPred) {
      range = {0, 1};
    } else if (n.op == NodeOp::kHlo && n.opcode == Opcode::kSelect) {
      range = {std::min(of(1).lo, of(2).lo), std::max(of(1).hi, of(2).hi)};
    } else if (n.op == NodeOp::kHlo && (n.opcode == Opcode::kMaximum || n.opcode == Opcode::kMinimum)) {
      range = {std::min(of(0).lo, of(1).lo), std::max(of(0).hi, of(1).hi)};
    } else if (n.op == NodeOp::kHlo && n.opcode == Opcode::kClamp) {
      range = {std::min({of(0).lo, of(1).lo, of(2).lo}), std::max({of(0).hi, of(1).hi, of(2).hi})};
    } else if (n.op == NodeOp::kHlo && n.opcode == Opcode::kAnd && of(0).lo >= 0 && of(1).lo >= 0) {
      range = {0, std::min(of(0).hi, of(1).hi)};
    } else if (n.op == NodeOp::kHlo && IsOneOf(n.opcode, {Opcode::kOr, Opcode::kXor, Opcode::kAnd})) {
      // Sign-extended or zero-extended values of one width stay such values.
      for (int bits : {8, 16}) {
        const ElementType lane = LaneOf(n.type == ElementType::kS32, bits / 8);
        if (!Fits(n.operands[0], lane) || !Fits(n.operands[1], lane)) continue;
        const auto limits = LimitsOf(lane);
        range = {limits.first, limits.second};
        break;
      }
    }
  }
}

bool Lanes::Fits(NodeId id, ElementType lane) const {
  const Range r = ranges_[static_cast<std::size_t>(id)];
  const auto [lo, hi] = LimitsOf(lane);
  return IsWordType(node(id).type) && r.lo >= lo && r.hi <= hi;
}

// A float that `convert` saturates at the limits of `lane`, NaN as 0: what the clamp and the select are there for.
NodeId Lanes::Saturated(const Node& convert, ElementType lane) const {
  const Node& clamp = node(convert.operands[0]);
  if (clamp.op != NodeOp::kHlo || clamp.opcode != Opcode::kClamp || !IsFloat(clamp.type)) return kNoNode;
  const Node &lo = node(clamp.operands[0]), &select = node(clamp.operands[1]), &hi = node(clamp.operands[2]);
  const auto limits = LimitsOf(lane);
  if (lo.op != NodeOp::kConstant || hi.op != NodeOp::kConstant) return kNoNode;
  if (FloatConstant(lo) != static_cast<double>(limits.first) || FloatConstant(hi) != static_cast<double>(limits.second))
    return kNoNode;
  if (select.op != NodeOp::kHlo || select.opcode != Opcode::kSelect) return kNoNode;
  const Node &is_nan = node(select.operands[0]), &zero = node(select.operands[1]);
  const NodeId value = select.operands[2];
  const bool matches = is_nan.op == NodeOp::kCompare && is_nan.direction == ComparisonDirection::kNe &&
                       !is_nan.total_order && is_nan.operands[0] == value && is_nan.operands[1] == value &&
                       zero.op == NodeOp::kConstant && zero.bits == 0;
  return matches ? value : kNoNode;
}

Lanes::Form Lanes::FormOf(NodeId id, int width) const {
  const Node& n = node(id);
  if (n.op == NodeOp::kLoad && IsFloat(n.storage) && StorageBytes(n.storage) == width)
    return {Form::Kind::kLoad, n.storage, kNoNode};
  if (!IsWordType(n.type)) return {};
  const ElementType lane = LaneOf(n.type == ElementType::kS32, width);
  const NodeId a = n.operands[0];
  switch (n.op) {
    case NodeOp::kConstant: return {Form::Kind::kConstant, lane, kNoNode};
    case NodeOp::kLoad:
      if (IsIntegral(n.storage) && StorageBytes(n.storage) == width) return {Form::Kind::kLoad, lane, kNoNode};
      return {};
    case NodeOp::kWrap:
      if (BitWidth(n.storage) >= 8 * width) return {Form::Kind::kSame, lane, a};
      return {};
    case NodeOp::kBitcast:
      if (IsWordType(node(a).type)) return {Form::Kind::kSame, lane, a};
      return {};
    case NodeOp::kConvert: {
      const ElementType from = node(a).type;
      if (IsWordType(from)) return {Form::Kind::kSame, lane, a};
      if (from == ElementType::kPred && width == 1) return {Form::Kind::kSame, lane, a};
      if (!IsFloat(from)) return {Form::Kind::kConvert, lane, a};
      if (const NodeId value = Saturated(n, lane); value != kNoNode) return {Form::Kind::kConvert, lane, value};
      return {};
    }
    case NodeOp::kHlo: {
      if (KeepsLowBits(n.opcode) || n.opcode == Opcode::kSelect) return {Form::Kind::kOp, lane, kNoNode};
      // The low bits are of the low bits, moved by a number that fits.
      if (n.opcode == Opcode::kShiftLeft)
        return Fits(n.operands[1], lane) ? Form{Form::Kind::kOp, lane, kNoNode} : Form{};
      // Shifted as an unsigned number it must be none below zero.
      if (n.opcode == Opcode::kShiftRightLogical && ranges_[static_cast<std::size_t>(a)].lo < 0) return {};
      // An unsigned number has no sign, whatever its upper bit in the lanes is.
      if (n.opcode == Opcode::kShiftRightArithmetic && n.type != ElementType::kS32) return {};
      if (!IsSameInLanes(n.opcode)) return {};
      for (NodeId o : n.operands)
        if (o != kNoNode && !Fits(o, lane)) return {};
      return {Form::Kind::kOp, lane, kNoNode};
    }
    case NodeOp::kIndex:
    case NodeOp::kParam:
    case NodeOp::kCompare:
    case NodeOp::kRound:
    case NodeOp::kEncode:
    case NodeOp::kDecode:
    case NodeOp::kReducePrecision: return {};
  }
  return {};
}

// The narrowest lanes that hold what a compare or a convert reads, if its operands are there anyway.
ElementType Lanes::WantedRead(const Node& n) const {
  if (n.op != NodeOp::kCompare && n.op != NodeOp::kConvert) return ElementType::kInvalid;
  if (!IsWordType(node(n.operands[0]).type) || IsWordType(n.type)) return ElementType::kInvalid;
  for (int width : {1, 2}) {
    const ElementType lane = LaneOf(node(n.operands[0]).type == ElementType::kS32, width);
    bool good = true, constant = true;
    for (NodeId o : n.operands) {
      if (o == kNoNode) continue;
      good = good && Fits(o, lane) && !only_wide_[static_cast<std::size_t>(o)] &&
             FormOf(o, width).kind != Form::Kind::kTruncate;
      constant = constant && node(o).op == NodeOp::kConstant;
    }
    if (good && !constant) return lane;
  }
  return ElementType::kInvalid;
}

NodeId Lanes::SourceOf(const plan::Store& store) const {
  const Node& n = node(store.node);
  const bool rounds = n.op == NodeOp::kRound && n.storage == store.storage &&
                      FindRoundNarrow(store.storage) != nullptr && node(n.operands[0]).type == ElementType::kF32;
  return rounds ? n.operands[0] : store.node;
}

void Lanes::FindNeeds() {
  needs_.assign(program_.nodes.size(), {});
  const auto store_width = [&](const plan::Store& s) {
    return IsWordType(node(s.node).type) && IsIntegral(s.storage) && StorageBytes(s.storage) < 4
               ? StorageBytes(s.storage)
               : 0;
  };
  for (const plan::Store& s : program_.stores) {
    if (const int width = store_width(s); width > 0) needs(s.node).narrow[At(width)] = true;
    else needs(SourceOf(s)).wide = true;
    if (s.mask != kNoNode) needs(s.mask).wide = true;
  }
  for (std::size_t i = 0; i < program_.results.size(); ++i) {
    const ElementType lane = i < results_.size() ? results_[i] : ElementType::kInvalid;
    if (lane != ElementType::kInvalid) needs(program_.results[i]).narrow[At(StorageBytes(lane))] = true;
    else needs(program_.results[i]).wide = true;
  }
  // Indices are made of wide values. (Atoms that no expression uses may name nodes that are gone.)
  for (plan::IndexId id : plan::UsedExprs(program_)) {
    for (const plan::IndexTerm& t : program_.space.expr(id).terms)
      if (const plan::IndexAtom& atom = program_.space.atom(t.atom); atom.kind == plan::IndexAtom::Kind::kValue)
        needs(atom.node).wide = true;
  }
  for (std::size_t i = program_.nodes.size(); i-- > 0;) {
    const auto id = static_cast<NodeId>(i);
    const Node& n = program_.nodes[i];
    Needs& mine = needs_[i];
    if (n.mask != kNoNode) needs(n.mask).wide = true;
    bool reads_wide = mine.wide;
    for (int width : {1, 2}) {
      if (!mine.narrow[At(width)]) continue;
      const Form form = FormOf(id, width);
      // What is there as a whole is cut down, not computed again.
      const bool cut = mine.wide && form.kind != Form::Kind::kLoad && form.kind != Form::Kind::kConstant;
      switch (cut ? Form::Kind::kTruncate : form.kind) {
        case Form::Kind::kTruncate: mine.wide = reads_wide = true; break;
        case Form::Kind::kLoad:
        case Form::Kind::kConstant: break;
        case Form::Kind::kSame:
          if (node(form.from).type == ElementType::kPred) needs(form.from).wide = true;
          else needs(form.from).narrow[At(width)] = true;
          break;
        case Form::Kind::kOp:
          for (std::size_t k = 0; k < 3; ++k) {
            if (n.operands[k] == kNoNode) continue;
            if (n.opcode == Opcode::kSelect && k == 0) needs(n.operands[k]).wide = true;
            else needs(n.operands[k]).narrow[At(width)] = true;
          }
          break;
        case Form::Kind::kConvert: needs(form.from).wide = true; break;
      }
    }
    if (!reads_wide) continue;
    mine.read = WantedRead(n);
    for (NodeId o : n.operands) {
      if (o == kNoNode) continue;
      if (mine.read != ElementType::kInvalid) needs(o).narrow[At(StorageBytes(mine.read))] = true;
      else needs(o).wide = true;
    }
  }
}

}  // namespace krafla::cpu
