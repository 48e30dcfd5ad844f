// SPDX-License-Identifier: Apache-2.0
// What a node comes down to before it is added: constants, its own operand, one operation in the place of two.
#include <algorithm>
#include <bit>

#include "cpu_fallback/native/lane_builder.h"

namespace krafla::cpu::native {

namespace {

constexpr int kLookedThrough = 6;  // operations

}  // namespace

bool LaneBuilder::IsTrue(LaneOp op, ElementType type, uint64_t a, uint64_t b) {
  const int unused = 64 - BitWidth(type);
  // Shifted to the top, numbers of any width compare as the widest do.
  const uint64_t x = a << unused, y = b << unused;
  const bool is_less = IsSigned(type) ? static_cast<int64_t>(x) < static_cast<int64_t>(y) : x < y;
  if (op == LaneOp::kEq) return x == y;
  if (op == LaneOp::kNe) return x != y;
  return is_less || (op == LaneOp::kLe && x == y);
}

// The largest number that the bits of an integer can be.
uint64_t LaneBuilder::Largest(int id, int depth) const {
  const LaneNode& n = node(id);
  const uint64_t all = ~uint64_t{0} >> (64 - BitWidth(n.type));
  if (n.op == LaneOp::kConstant) return n.bits & all;
  if (depth == 0 || !IsIntegral(n.type) || n.a < 0) return all;
  const auto is = [&](auto... ops) { return ((n.op == ops) || ...); };
  if (is(LaneOp::kExtend, LaneOp::kBitcast)) {
    const ElementType from = TypeOf(n.a);
    const bool keeps = IsIntegral(from) && (n.op == LaneOp::kBitcast || !IsSigned(from));
    return keeps ? Largest(n.a, depth - 1) : all;
  }
  if (is(LaneOp::kSelect)) return std::max(Largest(n.b, depth - 1), Largest(n.c, depth - 1));
  if (!is(LaneOp::kAnd, LaneOp::kOr, LaneOp::kXor, LaneOp::kShr, LaneOp::kAdd, LaneOp::kMul)) return all;
  const uint64_t a = Largest(n.a, depth - 1), b = Largest(n.b, depth - 1);
  if (is(LaneOp::kAnd)) return std::min(a, b);
  if (is(LaneOp::kOr, LaneOp::kXor)) return std::bit_ceil((a | b) / 2 + 1) * 2 - 1;
  if (is(LaneOp::kShr)) return node(n.b).op == LaneOp::kConstant && b < 64 ? a >> b : a;
  if (is(LaneOp::kAdd)) return a <= all - b ? a + b : all;
  return a == 0 || b <= all / a ? a * b : all;
}

// What the formulas' words leave to be dropped: masks before shifts that lose those bits, zeros that are added.
std::optional<int> LaneBuilder::Simplified(const LaneNode& n) const {
  const auto is_pred = [&](int id, uint64_t bits) {
    return id >= 0 && node(id).op == LaneOp::kConstant && node(id).type == ElementType::kPred && node(id).bits == bits;
  };
  if (n.op == LaneOp::kSelect && (is_pred(n.a, 1) || n.b == n.c)) return n.b;
  if (n.op == LaneOp::kSelect && is_pred(n.a, 0)) return n.c;
  if (n.type == ElementType::kPred && (n.op == LaneOp::kAnd || n.op == LaneOp::kOr)) {
    const uint64_t neutral = n.op == LaneOp::kAnd ? 1 : 0;
    if (is_pred(n.a, neutral) || is_pred(n.b, 1 - neutral) || n.a == n.b) return n.b;
    if (is_pred(n.b, neutral) || is_pred(n.a, 1 - neutral)) return n.a;
  }
  if (n.op == LaneOp::kNot && node(n.a).op == LaneOp::kNot) return node(n.a).a;
  if (n.b < 0 || node(n.b).op != LaneOp::kConstant) return std::nullopt;
  const uint64_t constant = node(n.b).bits;
  const bool is_float = IsFloat(n.type);
  // A mask of bits that a number has no others of, as of a sum of bytes that is kept to 16 bits.
  if (n.op == LaneOp::kAnd && IsIntegral(n.type) && std::has_single_bit(constant + 1) &&
      Largest(n.a, kLookedThrough) <= constant)
    return n.a;
  // x - (+0) is x for every number.
  if (constant == 0 && n.op == LaneOp::kSub) return n.a;
  if (constant == 0 && !is_float &&
      (n.op == LaneOp::kOr || n.op == LaneOp::kXor || n.op == LaneOp::kAdd || n.op == LaneOp::kShl ||
       n.op == LaneOp::kShr))
    return n.a;
  return std::nullopt;
}

// Integers of constants.
std::optional<uint64_t> LaneBuilder::Folded(const LaneNode& n) const {
  const auto constant = [&](int id) { return id >= 0 && node(id).op == LaneOp::kConstant; };
  if (!IsIntegral(n.type) || !constant(n.a) || !IsIntegral(TypeOf(n.a))) return std::nullopt;
  const uint64_t a = node(n.a).bits;
  if (n.op == LaneOp::kTruncate) return a;
  if (n.op == LaneOp::kExtend)
    return IsSigned(TypeOf(n.a)) ? static_cast<uint64_t>(SignExtended(a, StorageBytes(TypeOf(n.a)))) : a;
  if (n.op == LaneOp::kNot) return ~a;
  if (!constant(n.b)) return std::nullopt;
  const uint64_t b = node(n.b).bits;
  const auto width = static_cast<uint64_t>(BitWidth(n.type));
  if (n.op == LaneOp::kAdd) return a + b;
  if (n.op == LaneOp::kSub) return a - b;
  if (n.op == LaneOp::kMul) return a * b;
  if (n.op == LaneOp::kAnd) return a & b;
  if (n.op == LaneOp::kOr) return a | b;
  if (n.op == LaneOp::kXor) return a ^ b;
  if (n.op == LaneOp::kShl) return b < width ? a << b : 0;
  if (n.op == LaneOp::kShr) return b < width ? a >> b : 0;
  return std::nullopt;
}

// The lesser or the greater of two, written as a selection by their order.
std::optional<LaneNode> LaneBuilder::OrderedSelection(const LaneNode& n) const {
  if (n.op != LaneOp::kSelect || node(n.a).op != LaneOp::kLt) return std::nullopt;
  const int x = node(n.a).a, y = node(n.a).b;
  const bool is_float = IsFloat(n.type);
  if (n.b == x && n.c == y) return LaneNode{is_float ? LaneOp::kLesser : LaneOp::kMin, n.type, x, y};
  if (n.b == y && n.c == x) return LaneNode{is_float ? LaneOp::kGreater : LaneOp::kMax, n.type, y, x};
  return std::nullopt;
}

// A comparison of a number that is selected among constants with another one: what was selected by tells it.
std::optional<int> LaneBuilder::DecidedBySelection(const LaneNode& n) {
  if (n.op < LaneOp::kEq || n.op > LaneOp::kLe) return std::nullopt;
  const ElementType type = TypeOf(n.a);
  if (!IsIntegral(type)) return std::nullopt;
  const bool is_left = node(n.b).op == LaneOp::kConstant;
  int selection = is_left ? n.a : n.b;
  const int other = is_left ? n.b : n.a;
  if (node(other).op != LaneOp::kConstant) return std::nullopt;
  if (node(selection).op == LaneOp::kConstant)
    return Constant(ElementType::kPred, IsTrue(n.op, type, node(n.a).bits, node(n.b).bits) ? 1 : 0);
  while (node(selection).op == LaneOp::kBitcast && IsIntegral(TypeOf(node(selection).a))) selection = node(selection).a;
  const LaneNode s = node(selection);
  const auto is_constant = [&](int id) { return node(id).op == LaneOp::kConstant; };
  if (s.op != LaneOp::kSelect || (!is_constant(s.b) && !is_constant(s.c))) return std::nullopt;
  // The other choice is a number of any kind, or again one of these.
  const auto compared = [&](int choice) {
    const int x = Bitcast(choice, type);
    return is_left ? Compare(n.op, x, other) : Compare(n.op, other, x);
  };
  const int yes = compared(s.b), no = compared(s.c), p = s.a;
  const auto truth = [&](int id) { return is_constant(id) ? static_cast<int>(node(id).bits) : -1; };
  if (truth(yes) == truth(no) && truth(yes) >= 0) return yes;
  if (truth(yes) == 1) return truth(no) == 0 ? p : Add(LaneOp::kOr, ElementType::kPred, p, no);
  if (truth(no) == 0) return Add(LaneOp::kAnd, ElementType::kPred, p, yes);
  const int not_p = Add(LaneOp::kNot, ElementType::kPred, p);
  if (truth(yes) == 0) return truth(no) == 1 ? not_p : Add(LaneOp::kAnd, ElementType::kPred, not_p, no);
  if (truth(no) == 1) return Add(LaneOp::kOr, ElementType::kPred, not_p, yes);
  return Select(p, yes, no);
}

int LaneBuilder::Add(LaneNode node) {
  if (node.op != LaneOp::kConstant) node.lanes = static_cast<uint8_t>(lanes_);
  if (const std::optional<uint64_t> bits = Folded(node)) return Constant(node.type, *bits);
  if (const std::optional<LaneNode> ordered = OrderedSelection(node)) return Add(*ordered);
  if (const std::optional<int> known = Simplified(node)) return *known;
  if (const std::optional<int> known = DecidedBySelection(node)) return *known;
  if (node.op == LaneOp::kShl && this->node(node.b).op == LaneOp::kConstant) {
    const auto width = static_cast<uint64_t>(BitWidth(node.type));
    const LaneNode from = this->node(node.a);
    const uint64_t by = this->node(node.b).bits;
    const bool has_constant = from.b >= 0 && this->node(from.b).op == LaneOp::kConstant;
    if (has_constant && by < width) {
      const uint64_t constant = this->node(from.b).bits, kept = (~uint64_t{0} >> (64 - width)) >> by;
      if (from.op == LaneOp::kAnd && (constant & kept) == kept) return Add(LaneOp::kShl, node.type, from.a, node.b);
      if (from.op == LaneOp::kShl && constant + by < width)
        return Add(LaneOp::kShl, node.type, from.a, Constant(node.type, constant + by));
    }
  }
  const auto [it, is_new] = known_.try_emplace(node, static_cast<int>(graph_.nodes.size()));
  if (!is_new) return it->second;
  graph_.nodes.push_back(node);
  // A constant is made before the loop, wherever it stands.
  if (is_region_open_) in_region_.push_back(node);
  return it->second;
}

}  // namespace krafla::cpu::native
