// SPDX-License-Identifier: Apache-2.0
#include "plan/element_program.h"

#include <algorithm>
#include <bit>
#include <map>

#include "base/work.h"
#include "ir/element_type_cases.h"
#include "krafla/status.h"
#include "numerics/formats.h"

namespace krafla::plan {

ElementType ComputeType(ElementType t) {
  switch (t) {
    case ElementType::kPred: return ElementType::kPred;
    case ElementType::kS1:
    case ElementType::kS2:
    case ElementType::kS4:
    case ElementType::kS8:
    case ElementType::kS16:
    case ElementType::kS32: return ElementType::kS32;
    case ElementType::kU1:
    case ElementType::kU2:
    case ElementType::kU4:
    case ElementType::kU8:
    case ElementType::kU16:
    case ElementType::kU32: return ElementType::kU32;
    case ElementType::kS64: return ElementType::kS64;
    case ElementType::kU64: return ElementType::kU64;
    case ElementType::kF64: return ElementType::kF64;
    case ElementType::kF16:
    case ElementType::kBF16:
    case ElementType::kF32:
    case KRAFLA_MINI_FLOATS: return ElementType::kF32;
    case KRAFLA_NO_ARRAY_TYPES:
    case KRAFLA_COMPLEX_TYPES: break;
  }
  KRAFLA_UNREACHABLE();
}

namespace {

std::size_t HashNode(const Node& n) {
  uint64_t h = 0x9E3779B97F4A7C15ull;
  auto mix = [&](uint64_t v) { h = (h ^ v) * 0xff51afd7ed558ccdull, h ^= h >> 32; };
  mix(static_cast<uint64_t>(n.op) | static_cast<uint64_t>(n.opcode) << 8 | static_cast<uint64_t>(n.type) << 16 |
      static_cast<uint64_t>(n.storage) << 24 | static_cast<uint64_t>(n.direction) << 32);
  for (NodeId o : n.operands) mix(static_cast<uint64_t>(o) + 7);
  mix(static_cast<uint64_t>(n.mask));
  mix(static_cast<uint64_t>(n.buffer) << 32 ^ static_cast<uint64_t>(n.index));
  mix(n.bits);
  return static_cast<std::size_t>(h);
}

}  // namespace

int ProgramBuilder::AddBuffer(ElementType storage, int64_t element_count, bool written) {
  program_.buffers.push_back({storage, element_count, written});
  return static_cast<int>(program_.buffers.size()) - 1;
}

NodeId ProgramBuilder::Intern(Node n) {
  if (const std::optional<NodeId> known = Known(n)) return *known;
  for (NodeId o : n.operands)
    if (o != kNoNode) n.depends |= node(o).depends;
  if (n.mask != kNoNode) n.depends |= node(n.mask).depends;
  CountWork(1);
  if (table_.size() < 2 * program_.nodes.size() + 32) {
    table_.assign(8 * program_.nodes.size() + 128, kNoNode);
    for (std::size_t i = 0; i < program_.nodes.size(); ++i) {
      std::size_t at = HashNode(program_.nodes[i]) % table_.size();
      while (table_[at] != kNoNode) at = (at + 1) % table_.size();
      table_[at] = static_cast<NodeId>(i);
    }
  }
  std::size_t at = HashNode(n) % table_.size();
  for (; table_[at] != kNoNode; at = (at + 1) % table_.size())
    if (node(table_[at]) == n) return table_[at];
  ranges_.push_back(MakeRange(n));
  program_.nodes.push_back(n);
  return table_[at] = static_cast<NodeId>(program_.nodes.size()) - 1;
}

NodeId ProgramBuilder::Constant(ElementType type, uint64_t bits) {
  return Intern({.op = NodeOp::kConstant, .type = type, .bits = bits});
}

NodeId ProgramBuilder::ConstantFloat(ElementType type, double value) {
  if (type == ElementType::kF64) return Constant(type, std::bit_cast<uint64_t>(value));
  return Constant(type, std::bit_cast<uint32_t>(static_cast<float>(value)));
}

NodeId ProgramBuilder::ConstantInt(ElementType type, int64_t value) {
  auto bits = static_cast<uint64_t>(value);
  if (type == ElementType::kS32 || type == ElementType::kU32) bits &= 0xffffffffu;
  return Constant(type, bits);
}

NodeId ProgramBuilder::DecodeConstant(ElementType narrow_float, uint32_t bits) {
  return Intern({.op = NodeOp::kDecode,
                 .type = ElementType::kF32,
                 .storage = narrow_float,
                 .operands = {Constant(ElementType::kU32, bits), kNoNode, kNoNode}});
}

NodeId ProgramBuilder::Index(IndexId index) {
  if (space().IsConstant(index)) return ConstantInt(ElementType::kS32, space().expr(index).constant);
  return Intern({.op = NodeOp::kIndex, .type = ElementType::kS32, .index = index, .depends = space().Depends(index)});
}

NodeId ProgramBuilder::Param(ElementType type, int number, uint64_t depends) {
  return Intern({.op = NodeOp::kParam, .type = type, .bits = static_cast<uint64_t>(number), .depends = depends});
}

NodeId ProgramBuilder::Load(int buffer, ElementType storage, IndexId index, NodeId mask) {
  if (mask != kNoNode && IsTrue(mask)) mask = kNoNode;
  return Intern({.op = NodeOp::kLoad,
                 .type = ComputeType(storage),
                 .storage = storage,
                 .mask = mask,
                 .buffer = buffer,
                 .index = index,
                 .depends = space().Depends(index)});
}

NodeId ProgramBuilder::Again(Node n) {
  n.depends = n.op == NodeOp::kParam ? n.depends : 0;
  if (n.op == NodeOp::kIndex) return Index(n.index);
  if (n.op != NodeOp::kLoad) return Intern(n);
  if (n.mask != kNoNode && node(n.mask).op == NodeOp::kConstant && !IsTrue(n.mask)) return Constant(n.type, 0);
  return Load(n.buffer, n.storage, n.index, n.mask);
}

NodeId ProgramBuilder::Wrap(NodeId a, ElementType narrow) {
  return Intern(
      {.op = NodeOp::kWrap, .type = ComputeType(narrow), .storage = narrow, .operands = {a, kNoNode, kNoNode}});
}

NodeId ProgramBuilder::Round(NodeId a, ElementType narrow) {
  // f16 and bf16 hold every integer of as many bits as their significands have. Narrow floats are computed as f32, also
  // where the integer was made an f64 before.
  if (narrow == ElementType::kF16 || narrow == ElementType::kBF16) {
    const Node& n = node(a);
    const int64_t most = int64_t{1} << (narrow == ElementType::kF16 ? 11 : 8);
    if (n.op == NodeOp::kConvert && !IsFloat(node(n.operands[0]).type) &&
        RangeOf(n.operands[0]).Within(Interval{-most, most}))
      return Convert(n.operands[0], node(n.operands[0]).type, ElementType::kF32);
  }
  return Intern(
      {.op = NodeOp::kRound, .type = ElementType::kF32, .storage = narrow, .operands = {a, kNoNode, kNoNode}});
}

NodeId ProgramBuilder::Hlo(Opcode opcode, ElementType hlo_type, std::span<const NodeId> operands) {
  Node n{.op = NodeOp::kHlo, .opcode = opcode, .type = ComputeType(hlo_type), .storage = hlo_type};
  KRAFLA_CHECK(operands.size() <= n.operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) n.operands[i] = operands[i];
  if (opcode == Opcode::kIsFinite) {
    n.type = ElementType::kPred;
    return Intern(n);
  }
  // f64 has no formula of its own: the root and the division are each rounded correctly.
  if (opcode == Opcode::kRsqrt && hlo_type == ElementType::kF64)
    return Hlo(Opcode::kDivide, hlo_type, {ConstantFloat(hlo_type, 1), Hlo(Opcode::kSqrt, hlo_type, operands)});
  if (!IsNarrow(hlo_type)) return Intern(n);
  if (IsIntegral(hlo_type)) {
    if (auto done = NarrowInteger(opcode, hlo_type, operands)) return *done;
  }
  NodeId id = Intern(n);
  // These give a value that the narrow type already holds.
  if (IsOneOf(opcode, {Opcode::kSelect, Opcode::kMaximum, Opcode::kMinimum, Opcode::kClamp, Opcode::kAnd, Opcode::kOr,
                       Opcode::kXor, Opcode::kSign}))
    return id;
  if (IsIntegral(hlo_type)) return Wrap(id, hlo_type);
  // So do these on f16 and bf16, which hold every integer of their mantissa's width.
  if ((hlo_type == ElementType::kF16 || hlo_type == ElementType::kBF16) &&
      IsOneOf(opcode, {Opcode::kAbs, Opcode::kNegate, Opcode::kFloor, Opcode::kCeil, Opcode::kRoundNearestAfz,
                       Opcode::kRoundNearestEven}))
    return id;
  return Round(id, hlo_type);
}

// Operations on narrow integers whose 32-bit form, on the extended value, would give something else.
std::optional<NodeId> ProgramBuilder::NarrowInteger(Opcode opcode, ElementType t, std::span<const NodeId> operands) {
  const ElementType c = ComputeType(t);
  const int bits = BitWidth(t);
  auto masked = [&](NodeId a, int width) {
    return Hlo(Opcode::kAnd, c, {a, ConstantInt(c, (int64_t{1} << width) - 1)});
  };
  auto pattern = [&](NodeId a) { return IsUnsigned(t) ? a : masked(a, bits); };
  if (opcode == Opcode::kClz)
    return Wrap(Hlo(Opcode::kSubtract, c, {Hlo(Opcode::kClz, c, {pattern(operands[0])}), ConstantInt(c, 32 - bits)}),
                t);
  if (opcode == Opcode::kPopulationCount) return Wrap(Hlo(opcode, c, {pattern(operands[0])}), t);
  // XLA reads base and exponent as signed, also of unsigned types, in the width in which they are kept.
  if (opcode == Opcode::kPower && IsUnsigned(t)) {
    auto extended = [&](NodeId a) {
      NodeId up = Hlo(Opcode::kShiftLeft, c, {a, ConstantInt(c, 32 - std::max(bits, 8))});
      return Hlo(Opcode::kShiftRightArithmetic, c, {up, ConstantInt(c, 32 - std::max(bits, 8))});
    };
    return Wrap(Hlo(opcode, c, {extended(operands[0]), extended(operands[1])}), t);
  }
  if (opcode == Opcode::kShiftRightLogical && IsSigned(t))
    return Wrap(Hlo(opcode, c, {pattern(operands[0]), operands[1]}), t);
  if (opcode == Opcode::kShiftRightArithmetic && IsUnsigned(t)) {
    NodeId up = Hlo(Opcode::kShiftLeft, c, {operands[0], ConstantInt(c, 32 - bits)});
    NodeId extended = Hlo(opcode, c, {up, ConstantInt(c, 32 - bits)});
    return Wrap(Hlo(opcode, c, {extended, operands[1]}), t);
  }
  // The product of two 16-bit values fits 32 bits.
  if (opcode == Opcode::kMulhi) {
    NodeId product = Hlo(Opcode::kMultiply, c, operands);
    Opcode shift = IsSigned(t) ? Opcode::kShiftRightArithmetic : Opcode::kShiftRightLogical;
    return Wrap(Hlo(shift, c, {product, ConstantInt(c, bits)}), t);
  }
  return std::nullopt;
}

NodeId ProgramBuilder::Compare(ComparisonDirection direction, NodeId a, NodeId b, bool total_order) {
  return Intern({.op = NodeOp::kCompare,
                 .type = ElementType::kPred,
                 .direction = direction,
                 .total_order = total_order,
                 .operands = {a, b, kNoNode}});
}

NodeId ProgramBuilder::Convert(NodeId a, ElementType from, ElementType to) {
  if (from == to) return a;
  ElementType cfrom = ComputeType(from), cto = ComputeType(to);
  if (to == ElementType::kPred)
    return Intern(
        {.op = NodeOp::kConvert, .type = ElementType::kPred, .storage = from, .operands = {a, kNoNode, kNoNode}});
  NodeId out = a;
  if (IsFloat(to) && IsNarrow(to)) {
    // Values of f32 and f64 are rounded once; integers are converted to f32 first, as XLA does it.
    if (!IsFloat(from)) out = Convert(a, from, ElementType::kF32);
    return Round(out, to);
  }
  if (IsFloat(from) && IsIntegral(to) && IsNarrow(to)) {
    // Saturates at the narrow type's own limits, NaN gives 0: clamp in f32/f64 where those limits are exact.
    int bits = BitWidth(to);
    double lo = IsSigned(to) ? -static_cast<double>(int64_t{1} << (bits - 1)) : 0.0;
    double hi = IsSigned(to) ? static_cast<double>((int64_t{1} << (bits - 1)) - 1)
                             : static_cast<double>((int64_t{1} << bits) - 1);
    NodeId is_nan = Compare(ComparisonDirection::kNe, a, a);
    NodeId zero = ConstantFloat(cfrom, 0);
    NodeId safe = Hlo(Opcode::kSelect, cfrom, {is_nan, zero, a});
    out = Hlo(Opcode::kClamp, cfrom, {ConstantFloat(cfrom, lo), safe, ConstantFloat(cfrom, hi)});
    return Intern({.op = NodeOp::kConvert, .type = cto, .storage = cfrom, .operands = {out, kNoNode, kNoNode}});
  }
  if (cfrom != cto)
    out = Intern({.op = NodeOp::kConvert, .type = cto, .storage = cfrom, .operands = {a, kNoNode, kNoNode}});
  if (IsIntegral(to) && IsNarrow(to) && from != ElementType::kPred) out = Wrap(out, to);
  return out;
}

NodeId ProgramBuilder::BitcastConvert(NodeId a, ElementType from, ElementType to) {
  if (from == to) return a;
  KRAFLA_CHECK(BitWidth(from) == BitWidth(to));
  ElementType cfrom = ComputeType(from), cto = ComputeType(to);
  // To the unsigned pattern of this width, then to the target.
  NodeId pattern = a;
  if (BitWidth(from) >= 32) {
    if (cfrom == cto) return a;
    return Intern({.op = NodeOp::kBitcast, .type = cto, .storage = cfrom, .operands = {a, kNoNode, kNoNode}});
  }
  auto unsigned_type = [](int bits) {
    return bits == 16  ? ElementType::kU16
           : bits == 8 ? ElementType::kU8
           : bits == 4 ? ElementType::kU4
           : bits == 2 ? ElementType::kU2
                       : ElementType::kU1;
  };
  ElementType u = unsigned_type(BitWidth(from));
  // A value that was only loaded is loaded again as the other type, so that a NaN keeps its bits.
  const Node source = node(a);
  if (IsFloat(from) && source.op == NodeOp::kLoad && source.storage == from)
    pattern = Load(source.buffer, u, source.index, source.mask);
  else if (IsFloat(from) && source.op == NodeOp::kDecode && source.storage == from) pattern = source.operands[0];
  else if (IsFloat(from))
    pattern =
        Intern({.op = NodeOp::kEncode, .type = ElementType::kU32, .storage = from, .operands = {a, kNoNode, kNoNode}});
  else if (from == ElementType::kPred) pattern = Convert(a, from, ElementType::kU32);
  else if (IsSigned(from))
    pattern = Convert(Intern({.op = NodeOp::kBitcast,
                              .type = ElementType::kU32,
                              .storage = ElementType::kS32,
                              .operands = {a, kNoNode, kNoNode}}),
                      ElementType::kU32, u);
  if (IsFloat(to))
    return Intern(
        {.op = NodeOp::kDecode, .type = ElementType::kF32, .storage = to, .operands = {pattern, kNoNode, kNoNode}});
  if (to == ElementType::kPred) return Convert(pattern, ElementType::kU32, ElementType::kPred);
  if (IsSigned(to)) {
    NodeId s = Intern({.op = NodeOp::kBitcast,
                       .type = ElementType::kS32,
                       .storage = ElementType::kU32,
                       .operands = {pattern, kNoNode, kNoNode}});
    return Wrap(s, to);
  }
  return pattern;
}

// As ReducePrecisionBits (numerics/formats.h), of halves.
NodeId ProgramBuilder::ReduceHalfPrecision(NodeId a, int64_t exponent_bits, int64_t mantissa_bits) {
  constexpr ElementType kCode = ElementType::kU32;
  constexpr int64_t kExponentBits = 5, kMantissaBits = 10, kInf = 0x7c00, kBias = 15;
  if (exponent_bits >= kExponentBits && mantissa_bits >= kMantissaBits) return a;
  const auto number = [&](int64_t value) { return ConstantInt(kCode, value); };
  const NodeId code = BitcastConvert(a, ElementType::kF16, ElementType::kU16);
  const NodeId before = Hlo(Opcode::kAnd, kCode, {code, number(0x7fff)});
  NodeId magnitude = before;
  if (mantissa_bits < kMantissaBits) {
    const int64_t drop = kMantissaBits - mantissa_bits;
    const NodeId shift = number(drop);
    const NodeId last =
        Hlo(Opcode::kAnd, kCode, {Hlo(Opcode::kShiftRightLogical, kCode, {magnitude, shift}), number(1)});
    const NodeId half = number((int64_t{1} << (drop - 1)) - 1);
    const NodeId sum = Hlo(Opcode::kAdd, kCode, {Hlo(Opcode::kAdd, kCode, {magnitude, half}), last});
    magnitude = Hlo(Opcode::kAnd, kCode, {sum, number(0xffff & ~((int64_t{1} << drop) - 1))});
  }
  if (exponent_bits < kExponentBits) {
    const int64_t bias = (int64_t{1} << (exponent_bits - 1)) - 1;
    const NodeId exponent = Hlo(Opcode::kAnd, kCode, {magnitude, number(kInf)});
    const auto bound = [&](int64_t e) { return number(e << kMantissaBits); };
    const NodeId above = Compare(ComparisonDirection::kGt, exponent, bound(kBias + bias));
    const NodeId below = Compare(ComparisonDirection::kLe, exponent, bound(kBias - bias));
    magnitude = Select(above, number(kInf), Select(below, number(0), magnitude));
  }
  const NodeId is_nan = Compare(ComparisonDirection::kGt, before, number(kInf));
  const NodeId sign = Hlo(Opcode::kAnd, kCode, {code, number(0x8000)});
  const NodeId out = Select(is_nan, code, Hlo(Opcode::kOr, kCode, {sign, magnitude}));
  return BitcastConvert(out, ElementType::kU16, ElementType::kF16);
}

NodeId ProgramBuilder::ReducePrecision(NodeId a, ElementType hlo_type, int64_t exponent_bits, int64_t mantissa_bits) {
  // XLA has neither the range of f32 nor its subnormals there: what is narrower than halves is made halves first.
  if (hlo_type == ElementType::kF16) return ReduceHalfPrecision(a, exponent_bits, mantissa_bits);
  if (BitWidth(hlo_type) <= 8 && hlo_type != ElementType::kF8E8M0FNU)
    return Round(ReduceHalfPrecision(a, exponent_bits, mantissa_bits), hlo_type);
  NodeId out = Intern({.op = NodeOp::kReducePrecision,
                       .type = ComputeType(hlo_type),
                       .storage = hlo_type,
                       .operands = {a, kNoNode, kNoNode},
                       .bits = static_cast<uint64_t>(exponent_bits) << 32 | static_cast<uint64_t>(mantissa_bits)});
  if (IsNarrow(hlo_type)) out = Round(out, hlo_type);
  return out;
}

NodeId ProgramBuilder::Select(NodeId pred, NodeId on_true, NodeId on_false) {
  return Hlo(Opcode::kSelect, node(on_true).type, {pred, on_true, on_false});
}

NodeId ProgramBuilder::And(NodeId a, NodeId b) {
  if (a == kNoNode || a == b) return b;
  if (b == kNoNode) return a;
  return Hlo(Opcode::kAnd, ElementType::kPred, {a, b});
}

NodeId ProgramBuilder::InRange(IndexId index, int64_t lo, int64_t hi) {
  IndexSpace::Range range = space().RangeOf(index);
  NodeId out = kNoNode;
  NodeId value = kNoNode;
  if (range.lo < lo) {
    value = Index(index);
    out = Compare(ComparisonDirection::kGe, value, ConstantInt(ElementType::kS32, lo));
  }
  if (range.hi >= hi) {
    value = Index(index);
    out = And(out, Compare(ComparisonDirection::kLt, value, ConstantInt(ElementType::kS32, hi)));
  }
  return out;
}

IndexId ProgramBuilder::ClampedIndex(NodeId value, int64_t lo, int64_t hi) {
  if (lo == hi) return space().Constant(lo);
  const Node& n = node(value);
  if (n.op == NodeOp::kConstant) {
    int64_t v = n.type == ElementType::kS32 ? static_cast<int32_t>(n.bits) : static_cast<int64_t>(n.bits);
    if (n.type == ElementType::kU64 && v < 0) v = hi;
    return space().Constant(std::clamp(v, lo, hi));
  }
  if (n.op == NodeOp::kIndex) {
    IndexSpace::Range r = space().RangeOf(n.index);
    if (r.lo >= lo && r.hi <= hi) return n.index;
  }
  ElementType type = n.type;
  uint64_t depends = n.depends;
  NodeId clamped;
  if (type == ElementType::kU32 || type == ElementType::kU64) {
    clamped = Hlo(Opcode::kMinimum, type, {value, ConstantInt(type, hi)});
    if (lo > 0) clamped = Hlo(Opcode::kMaximum, type, {clamped, ConstantInt(type, lo)});
  } else {
    clamped = Hlo(Opcode::kClamp, type, {ConstantInt(type, lo), value, ConstantInt(type, hi)});
  }
  if (type != ElementType::kS32) clamped = Convert(clamped, type, ElementType::kS32);
  const Interval range = RangeOf(clamped);
  return space().Value(clamped, std::max(lo, range.lo), std::min(hi, range.hi), depends);
}

std::optional<NodeId> ProgramBuilder::CodeOf(NodeId id, ElementType narrow) {
  // The selects below `id` and what they choose from, each once however many selects want it, operands first.
  std::map<NodeId, NodeId> codes;
  std::vector<NodeId> stack = {id};
  while (!stack.empty()) {
    const NodeId at = stack.back();
    stack.pop_back();
    if (!codes.emplace(at, kNoNode).second) continue;
    const Node& n = node(at);
    if ((n.op == NodeOp::kDecode || n.op == NodeOp::kLoad) && n.storage == narrow) continue;
    // +0, with which arrays are padded.
    if (n.op == NodeOp::kConstant && n.bits == 0) continue;
    if (n.op != NodeOp::kHlo || n.opcode != Opcode::kSelect) return std::nullopt;
    stack.push_back(n.operands[1]), stack.push_back(n.operands[2]);
  }
  for (auto& [at, code] : codes) {
    const Node n = node(at);
    if (n.op == NodeOp::kDecode) {
      code = n.operands[0];
    } else if (n.op == NodeOp::kLoad) {
      code = Load(n.buffer, StorageBytes(narrow) == 2 ? ElementType::kU16 : ElementType::kU8, n.index, n.mask);
    } else if (n.op == NodeOp::kConstant) {
      code = Constant(ElementType::kU32, 0);
    } else {
      code = Hlo(Opcode::kSelect, ElementType::kU32, {n.operands[0], codes.at(n.operands[1]), codes.at(n.operands[2])});
    }
  }
  return codes.at(id);
}

void ProgramBuilder::AddStore(Store store) {
  const Node n = node(store.node);
  // A double that is only moved is loaded and stored as 64 bits, which devices without doubles can do too.
  if (store.storage == ElementType::kF64 && n.op == NodeOp::kLoad && n.storage == ElementType::kF64) {
    store.node = Load(n.buffer, ElementType::kU64, n.index, n.mask);
    store.storage = ElementType::kU64;
  }
  if (IsFloat(store.storage) && IsNarrow(store.storage)) {
    if (std::optional<NodeId> code = CodeOf(store.node, store.storage))
      store.node = *code, store.storage = StorageBytes(store.storage) == 2 ? ElementType::kU16 : ElementType::kU8;
  }
  program_.stores.push_back(store);
}

ElementProgram ProgramBuilder::Finish() && {
  const std::vector<bool> live = NeededNodes(program_);
  bool all = true;
  for (bool l : live) all = all && l;
  if (all) return std::move(program_);
  std::vector<NodeId> renumber(program_.nodes.size(), kNoNode);
  std::vector<Node> kept;
  for (std::size_t i = 0; i < program_.nodes.size(); ++i) {
    if (!live[i]) continue;
    Node n = program_.nodes[i];
    for (NodeId& o : n.operands)
      if (o != kNoNode) o = renumber[static_cast<std::size_t>(o)];
    if (n.mask != kNoNode) n.mask = renumber[static_cast<std::size_t>(n.mask)];
    renumber[i] = static_cast<NodeId>(kept.size());
    kept.push_back(n);
  }
  program_.nodes = std::move(kept);
  for (Store& s : program_.stores) {
    s.node = renumber[static_cast<std::size_t>(s.node)];
    if (s.mask != kNoNode) s.mask = renumber[static_cast<std::size_t>(s.mask)];
  }
  for (NodeId& r : program_.results) r = renumber[static_cast<std::size_t>(r)];
  program_.space.RenumberNodes(renumber);
  return std::move(program_);
}

std::vector<bool> NeededNodes(const ElementProgram& p) {
  std::vector<bool> live(p.nodes.size(), false);
  std::vector<bool> index_seen(p.space.expr_count(), false);
  std::vector<NodeId> stack;
  std::vector<IndexId> index_stack;
  auto need = [&](NodeId n) {
    if (n != kNoNode && !live[static_cast<std::size_t>(n)]) {
      live[static_cast<std::size_t>(n)] = true;
      stack.push_back(n);
    }
  };
  auto need_index = [&](IndexId i) {
    if (!index_seen[static_cast<std::size_t>(i)]) {
      index_seen[static_cast<std::size_t>(i)] = true;
      index_stack.push_back(i);
    }
  };
  for (const Store& s : p.stores) need(s.node), need(s.mask), need_index(s.index);
  for (NodeId r : p.results) need(r);
  while (!stack.empty() || !index_stack.empty()) {
    if (!index_stack.empty()) {
      IndexId i = index_stack.back();
      index_stack.pop_back();
      for (const IndexTerm& t : p.space.expr(i).terms) {
        const IndexAtom& a = p.space.atom(t.atom);
        if (a.kind == IndexAtom::Kind::kValue) need(a.node);
        if (a.kind == IndexAtom::Kind::kFloorDiv || a.kind == IndexAtom::Kind::kMod) need_index(a.expr);
      }
      continue;
    }
    const Node& n = p.nodes[static_cast<std::size_t>(stack.back())];
    stack.pop_back();
    for (NodeId o : n.operands) need(o);
    need(n.mask);
    if (n.op == NodeOp::kLoad || n.op == NodeOp::kIndex) need_index(n.index);
  }
  return live;
}

NodeId AppendS32(ElementProgram& program, int64_t value) {
  program.nodes.push_back({.op = NodeOp::kConstant, .type = ElementType::kS32, .bits = static_cast<uint32_t>(value)});
  return static_cast<NodeId>(program.nodes.size()) - 1;
}
NodeId AppendS32(ElementProgram& program, Opcode opcode, NodeId a, NodeId b) {
  Node n{.op = NodeOp::kHlo, .opcode = opcode, .type = ElementType::kS32, .storage = ElementType::kS32};
  n.operands = {a, b, kNoNode};
  n.depends = program.nodes[static_cast<std::size_t>(a)].depends | program.nodes[static_cast<std::size_t>(b)].depends;
  program.nodes.push_back(n);
  return static_cast<NodeId>(program.nodes.size()) - 1;
}

void SetDepends(ElementProgram& program) {
  for (Node& n : program.nodes) {
    if (n.op == NodeOp::kParam) continue;
    n.depends = n.op == NodeOp::kLoad || n.op == NodeOp::kIndex ? program.space.Depends(n.index) : 0;
    for (NodeId o : n.operands)
      if (o != kNoNode) n.depends |= program.nodes[static_cast<std::size_t>(o)].depends;
    if (n.mask != kNoNode) n.depends |= program.nodes[static_cast<std::size_t>(n.mask)].depends;
  }
}

void DropUnneededNodes(ElementProgram& program) {
  const std::vector<bool> needed = NeededNodes(program);
  for (std::size_t i = 0; i < needed.size(); ++i)
    if (!needed[i]) program.nodes[i] = {.op = NodeOp::kConstant, .type = program.nodes[i].type};
}

std::optional<uint64_t> ConstantBits(const ElementProgram& program, NodeId id) {
  const Node& n = program.nodes[static_cast<std::size_t>(id)];
  if (n.op == NodeOp::kConstant) return n.bits;
  if (n.op != NodeOp::kDecode) return std::nullopt;
  const Node& code = program.nodes[static_cast<std::size_t>(n.operands[0])];
  if (code.op != NodeOp::kConstant) return std::nullopt;
  const auto bits = static_cast<uint16_t>(code.bits);
  if (n.storage == ElementType::kBF16) return std::bit_cast<uint32_t>(BF16ToFloat(bits));
  if (n.storage == ElementType::kF16) return std::bit_cast<uint32_t>(F16ToFloat(bits));
  return std::nullopt;
}

std::optional<float> FloatConstant(const ElementProgram& program, NodeId id) {
  const std::optional<uint64_t> bits = ConstantBits(program, id);
  if (!bits || program.nodes[static_cast<std::size_t>(id)].type != ElementType::kF32) return std::nullopt;
  return std::bit_cast<float>(static_cast<uint32_t>(*bits));
}

std::vector<IndexId> UsedExprs(const ElementProgram& p) {
  std::vector<bool> seen(p.space.expr_count(), false);
  std::vector<IndexId> out;
  auto use = [&](IndexId id) {
    if (!seen[static_cast<std::size_t>(id)]) {
      seen[static_cast<std::size_t>(id)] = true;
      out.push_back(id);
    }
  };
  for (const Node& n : p.nodes)
    if (n.op == NodeOp::kLoad || n.op == NodeOp::kIndex) use(n.index);
  for (const Store& s : p.stores) use(s.index);
  for (std::size_t i = 0; i < out.size(); ++i)
    for (const IndexTerm& t : p.space.expr(out[i]).terms) {
      const IndexAtom& a = p.space.atom(t.atom);
      if (a.kind == IndexAtom::Kind::kFloorDiv || a.kind == IndexAtom::Kind::kMod) use(a.expr);
    }
  return out;
}

}  // namespace krafla::plan
