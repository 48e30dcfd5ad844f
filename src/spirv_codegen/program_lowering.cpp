// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/program_lowering.h"

#include <algorithm>
#include <bit>

#include "spirv_codegen/float_ops.h"

namespace krafla::spirv {

using plan::AtomId;
using plan::IndexAtom;
using plan::IndexExpr;
using plan::IndexId;
using plan::IndexTerm;
using plan::NodeId;
using plan::NodeOp;

LanePattern LanePatterns::OfAtom(AtomId id) {
  const IndexAtom& atom = space_->atom(id);
  const int dim = dim_, width = width_;
  const bool varies = ((atom.depends >> dim) & 1) != 0;
  switch (atom.kind) {
    case IndexAtom::Kind::kIter: return atom.iter == dim ? LanePattern{true, 1, true} : LanePattern{true, 0, false};
    case IndexAtom::Kind::kValue: return LanePattern{!varies, 0, false};
    case IndexAtom::Kind::kFloorDiv:
    case IndexAtom::Kind::kMod: break;
  }
  const LanePattern inner = Of(atom.expr);
  if (!inner.affine) return inner;
  const bool is_mod = atom.kind == IndexAtom::Kind::kMod;
  const int64_t d = atom.divisor;
  // A group that starts at a multiple of `width` and runs over `width` consecutive values stays inside one block of
  // `d` when `width` divides `d`.
  const bool whole = inner.stride == 0 || (inner.stride == 1 && inner.aligned && d % width == 0);
  if (whole)
    return is_mod ? LanePattern{true, inner.stride, inner.aligned && d % width == 0} : LanePattern{true, 0, false};
  if (inner.stride % d == 0) return is_mod ? LanePattern{true, 0, false} : LanePattern{true, inner.stride / d, false};
  return LanePattern{false, 0, false};
}

LanePattern LanePatterns::Of(IndexId id) {
  std::optional<LanePattern>& known = known_[static_cast<std::size_t>(id)];
  if (known) return *known;
  const IndexExpr& e = space_->expr(id);
  LanePattern out{true, 0, e.constant % width_ == 0};
  for (const IndexTerm& t : e.terms) {
    const LanePattern p = OfAtom(t.atom);
    if (!p.affine) {
      out = LanePattern{false, 0, false};
      break;
    }
    out.stride += t.coefficient * p.stride;
    out.aligned = out.aligned && (t.coefficient % width_ == 0 || p.aligned);
  }
  known = out;
  return out;
}

bool PrefersVectors(const plan::ElementProgram& program, int dim, int width) {
  if (dim < 0 || program.space.dims()[static_cast<std::size_t>(dim)] % width != 0) return false;
  LanePatterns patterns(program.space, dim, width);
  auto is_vector = [&](IndexId index) {
    const LanePattern p = patterns.Of(index);
    return p.affine && p.stride == 1 && p.aligned;
  };
  bool any = false;
  for (const plan::Store& s : program.stores) {
    if (!is_vector(s.index)) return false;
    if (s.mask != plan::kNoNode && ((program.nodes[static_cast<std::size_t>(s.mask)].depends >> dim) & 1)) return false;
    any = true;
  }
  for (const plan::Node& n : program.nodes) {
    if (n.op == NodeOp::kLoad && is_vector(n.index)) any = true;
    // Formulas of f64 are emitted lane by lane: vectors would be four times the code and gain nothing.
    if (n.op == NodeOp::kHlo && n.type == ElementType::kF64 && GetOpInfo(n.opcode).lowering == Lowering::kFormula)
      return false;
  }
  return any;
}

ProgramLowering::ProgramLowering(Builder& builder, Buffers& buffers, const plan::ElementProgram& program, int dim,
                                 int width)
    : b_(&builder),
      buffers_(&buffers),
      program_(&program),
      dim_(dim),
      width_(width),
      patterns_(program.space, dim, width) {
  iters_.resize(program.space.dims().size());
  nodes_.resize(program.nodes.size());
  seen_.resize(program.nodes.size());
  FindSeen();
  for (auto& a : atoms_) a.resize(program.space.atom_count());
  for (auto& e : exprs_) e.resize(program.space.expr_count());
}

void ProgramLowering::FindSeen() {
  const auto see = [&](NodeId id) { seen_[static_cast<std::size_t>(id)] = true; };
  for (const plan::Store& s : program_->stores) see(s.node);
  for (std::size_t i = program_->nodes.size(); i-- > 0;) {
    const plan::Node& n = program_->nodes[i];
    const bool moves = n.op == NodeOp::kRound || n.op == NodeOp::kConvert || n.op == NodeOp::kReducePrecision ||
                       (n.op == NodeOp::kHlo &&
                        (n.opcode == Opcode::kAbs || n.opcode == Opcode::kNegate || n.opcode == Opcode::kSelect));
    const bool looks =
        n.op == NodeOp::kBitcast || n.op == NodeOp::kEncode || (n.op == NodeOp::kCompare && n.total_order);
    if (!looks && !(moves && seen_[i])) continue;
    for (NodeId o : n.operands)
      if (o != plan::kNoNode) see(o);
  }
}
void ProgramLowering::SeeResults() {
  for (NodeId id : program_->results) seen_[static_cast<std::size_t>(id)] = true;
  FindSeen();
}

Value ProgramLowering::Settle(const plan::Node& node, Value out) {
  const auto operand = [&](std::size_t i) { return Node(node.operands[i]); };
  switch (node.op) {
    case NodeOp::kHlo:
      if (node.opcode == Opcode::kAbs || node.opcode == Opcode::kNegate || node.opcode == Opcode::kSelect) return out;
      return SettledNan(*b_, out);
    case NodeOp::kLoad: return node.storage == ElementType::kF16 ? SettledConversion(*b_, out, out) : out;
    case NodeOp::kConvert:
      if (!IsFloat(node.type) || !IsFloat(program_->nodes[static_cast<std::size_t>(node.operands[0])].type)) return out;
      return SettledConversion(*b_, out, operand(0));
    case NodeOp::kRound: return SettledRound(*b_, node.storage, out, operand(0));
    case NodeOp::kDecode: return node.storage == ElementType::kF16 ? SettledConversion(*b_, out, out) : out;
    case NodeOp::kConstant:
    case NodeOp::kIndex:
    case NodeOp::kParam:
    case NodeOp::kCompare:
    case NodeOp::kBitcast:
    case NodeOp::kWrap:
    case NodeOp::kEncode:
    case NodeOp::kReducePrecision: return out;
  }
  return out;
}

bool ProgramLowering::IsWhole(NodeId id, int deep) const {
  const plan::Node& n = program_->nodes[static_cast<std::size_t>(id)];
  const auto whole = [&](std::size_t i) { return IsWhole(n.operands[i], deep - 1); };
  if (!IsFloat(n.type)) return true;
  if (deep == 0) return false;
  if (n.op == NodeOp::kConvert) return !IsFloat(program_->nodes[static_cast<std::size_t>(n.operands[0])].type);
  if (n.op == NodeOp::kRound) return n.storage == ElementType::kBF16 && whole(0);
  if (n.op != NodeOp::kHlo) return false;
  if (n.opcode == Opcode::kAbs || n.opcode == Opcode::kNegate) return whole(0);
  if (n.opcode == Opcode::kSelect) return whole(1) && whole(2);
  return (n.opcode == Opcode::kAdd || n.opcode == Opcode::kSubtract) && whole(0) && whole(1);
}

// A product or a quotient of two bf16 numbers just below the smallest normal number rounds up to it, also on devices
// that take the number before rounding, which is a subnormal f32, for a zero.
Value ProgramLowering::RoundProduct(const plan::Node& round, Value out) {
  const plan::Node& n = program_->nodes[static_cast<std::size_t>(round.operands[0])];
  if (n.op != NodeOp::kHlo || n.type != ElementType::kF32 ||
      (n.opcode != Opcode::kMultiply && n.opcode != Opcode::kDivide))
    return out;
  // A whole number times a normal number is 0 or no smaller than that.
  if (n.opcode == Opcode::kMultiply && (IsWhole(n.operands[0]) || IsWhole(n.operands[1]))) return out;
  Builder& b = *b_;
  const Value scaled = b.FMul(Node(n.operands[0]), b.F32(0x1p64f)), y = Node(n.operands[1]);
  const Value bits = b.Bitcast(n.opcode == Opcode::kMultiply ? b.FMul(scaled, y) : b.FDiv(scaled, y), Kind::kU32);
  const Value magnitude = b.And(bits, b.U32(0x7fffffffu));
  const uint32_t half_below = std::bit_cast<uint32_t>((0x1p-126f - 0x1p-134f) * 0x1p64f),
                 normal = std::bit_cast<uint32_t>(0x1p-62f);
  const Value up = b.Compare(Cmp::kULt, b.Sub(magnitude, b.U32(half_below)), b.U32(normal - half_below));
  const Value smallest = b.Bitcast(b.Or(b.And(bits, b.U32(0x80000000u)), b.U32(0x00800000u)), Kind::kF32);
  return b.Select(up, smallest, out);
}

void ProgramLowering::SetIter(int d, Value coordinate) { iters_[static_cast<std::size_t>(d)] = coordinate; }
void ProgramLowering::SetParam(int number, Value value) {
  if (params_.size() <= static_cast<std::size_t>(number)) params_.resize(static_cast<std::size_t>(number) + 1);
  params_[static_cast<std::size_t>(number)] = value;
}

void ProgramLowering::SetLinear(Value linear, int first, int last) {
  const Dims& dims = program_->space.dims();
  Value rest = linear;
  for (int d = last - 1; d >= first; --d) {
    const int64_t extent = dims[static_cast<std::size_t>(d)];
    const Value size = b_->U32(static_cast<uint32_t>(extent));
    if (d == first) {
      SetIter(d, rest);
    } else {
      const Value quotient = b_->UDiv(rest, size);
      SetIter(d, b_->Sub(rest, b_->Mul(quotient, size)));
      rest = quotient;
    }
  }
}

Value ProgramLowering::AtomValue(AtomId id, bool vector) {
  Value& memo = atoms_[vector ? 1 : 0][static_cast<std::size_t>(id)];
  if (memo) return memo;
  const IndexAtom& atom = program_->space.atom(id);
  Value out;
  switch (atom.kind) {
    case IndexAtom::Kind::kIter: {
      out = iters_[static_cast<std::size_t>(atom.iter)];
      KRAFLA_CHECK(out);
      if (vector && atom.iter == dim_) out = b_->Add(out, b_->Iota(width_));
      break;
    }
    case IndexAtom::Kind::kValue:
      out = Node(atom.node);
      if (!vector && out.width > 1) out = b_->Extract(out, 0);
      break;
    case IndexAtom::Kind::kFloorDiv:
      out = b_->UDiv(IndexValue(atom.expr, vector), b_->U32(static_cast<uint32_t>(atom.divisor)));
      break;
    case IndexAtom::Kind::kMod:
      out = b_->UMod(IndexValue(atom.expr, vector), b_->U32(static_cast<uint32_t>(atom.divisor)));
      break;
  }
  return atoms_[vector ? 1 : 0][static_cast<std::size_t>(id)] = out;
}

Value ProgramLowering::IndexValue(IndexId id, bool vector) {
  vector = vector && Varies(program_->space.Depends(id));
  Value& memo = exprs_[vector ? 1 : 0][static_cast<std::size_t>(id)];
  if (memo) return memo;
  if (group_ != nullptr) {
    if (const std::optional<PointGroup::Offsets> offsets = group_->Of(id)) {
      const int64_t here = offsets->at[static_cast<std::size_t>(point_)];
      if (offsets->is_constant()) return memo = b_->U32(static_cast<uint32_t>(here));
      if (first_ != nullptr)
        return memo = b_->Add(first_->IndexValue(id, vector), b_->U32(static_cast<uint32_t>(here - offsets->at[0])));
    }
  }
  const IndexExpr& e = program_->space.expr(id);
  // First the terms that the loop does not change, because they have been emitted.
  Value out = Terms(e, vector, varying_, false);
  const Value constant = b_->U32(static_cast<uint32_t>(e.constant));
  out = out ? b_->Add(out, constant) : constant;
  const Value inside = Terms(e, vector, varying_, true);
  if (inside) out = b_->Add(out, inside);
  return exprs_[vector ? 1 : 0][static_cast<std::size_t>(id)] = out;
}

Value ProgramLowering::Terms(const IndexExpr& e, bool vector, uint64_t varying, bool inside) {
  Value out;
  for (const IndexTerm& t : e.terms) {
    const uint64_t depends = program_->space.atom(t.atom).depends;
    if (((depends & varying) != 0) != inside) continue;
    Value atom = AtomValue(t.atom, vector && Varies(depends));
    // Products with negative factors wrap around, but the sum is in range.
    if (t.coefficient == -1) {
      out = out ? b_->Sub(out, atom) : b_->Neg(atom);
      continue;
    }
    atom = b_->Mul(atom, b_->U32(static_cast<uint32_t>(t.coefficient)));
    out = out ? b_->Add(out, atom) : atom;
  }
  return out;
}

Value ProgramLowering::Index(IndexId id) { return IndexValue(id, false); }

Value ProgramLowering::EmitLoad(NodeId id) {
  Builder& b = *b_;
  const plan::Node& node = program_->nodes[static_cast<std::size_t>(id)];
  const Kind kind = ComputeKind(node.type);
  const bool varies = Varies(node.depends);
  const int width = varies ? width_ : 1;
  if (buffers_->element_count(node.buffer) == 0)
    return b.Zero(kind, width);  // the mask is false wherever this load is reached
  const Value mask = node.mask != plan::kNoNode ? Node(node.mask) : Value{};
  uint64_t known;
  if (mask && b.m.IsConstant(mask, &known) && known == 0) return b.Zero(kind, width);

  auto safe = [&](Value index, Value condition) { return condition ? b.Select(condition, index, b.U32(0)) : index; };
  auto masked = [&](Value value) { return mask ? b.Select(mask, value, b.Const(kind, 0)) : value; };
  if (const auto known_bits = bits_.find(id); known_bits != bits_.end())
    return masked(FromStorage(b, node.storage, known_bits->second));
  const bool index_varies = Varies(program_->space.Depends(node.index));
  if (!index_varies) {
    // One element serves all lanes. Where the mask varies it is loaded if any lane needs it.
    const Value condition = mask && mask.width > 1 ? b.Any(mask) : mask;
    return masked(FromStorage(b, node.storage, LoadBits(node, safe(Index(node.index), condition), 1)));
  }
  const LanePattern pattern = patterns_.Of(node.index);
  const bool mask_uniform = !mask || mask.width == 1;
  if (pattern.affine && pattern.stride == 1 && pattern.aligned && mask_uniform)
    return masked(FromStorage(b, node.storage, LoadBits(node, safe(Index(node.index), mask), width_)));
  return masked(FromStorage(b, node.storage, LoadLanes(node, mask)));
}

Value ProgramLowering::LoadBits(const plan::Node& node, Value index, int width) {
  const int bytes = StorageBytes(node.storage);
  const Kind kind64 = node.storage == ElementType::kF64 ? Kind::kF64 : Kind::kU64;
  const auto load = [&] {
    return constants_ ? buffers_->LoadConstant(node.buffer, bytes, index, width, kind64)
                      : buffers_->Load(node.buffer, bytes, index, width, kind64);
  };
  if (group_ == nullptr || !constants_) return load();
  Value& known = (first_ != nullptr ? first_ : this)->loads_[{node.buffer, bytes, index.id, width}];
  if (!known) known = load();
  return known;
}

// Each lane's element on its own, those of equal indices once.
Value ProgramLowering::LoadLanes(const plan::Node& node, Value mask) {
  Builder& b = *b_;
  if (!lanes_) lanes_.emplace(*program_, dim_);
  const std::optional<PointGroup::Offsets> offsets =
      width_ == PointGroup::kPoints ? lanes_->Of(node.index) : std::nullopt;
  if (offsets && !mask) {
    if (const Value shared = LoadSharedWords(node, *offsets)) return shared;
  }
  const LanePattern pattern = patterns_.Of(node.index);
  if (pattern.affine && pattern.stride == 1 && (!mask || mask.width == 1) && StorageBytes(node.storage) < 4 &&
      width_ == 4 && buffers_->reads_words_around()) {
    const Value first = Index(node.index);
    return buffers_->LoadFromAny(node.buffer, StorageBytes(node.storage),
                                 mask ? b.Select(mask, first, b.U32(0)) : first);
  }
  const Value index = offsets ? Index(node.index) : b.Splat(IndexValue(node.index, true), width_);
  Values lanes;
  for (int i = 0; i < width_; ++i) {
    const auto at = static_cast<std::size_t>(i);
    Value of_lane;
    if (offsets) {
      for (std::size_t j = 0; j < at && !mask; ++j)
        if (offsets->at[j] == offsets->at[at]) of_lane = lanes[j];
      if (of_lane) {
        lanes.push_back(of_lane);
        continue;
      }
      of_lane = b.Add(index, b.U32(static_cast<uint32_t>(offsets->at[at] - offsets->at[0])));
    } else {
      of_lane = b.Extract(index, i);
    }
    if (mask) of_lane = b.Select(mask.width > 1 ? b.Extract(mask, i) : mask, of_lane, b.U32(0));
    lanes.push_back(LoadBits(node, of_lane, 1));
  }
  return b.Composite(lanes);
}

Value ProgramLowering::LoadSharedWords(const plan::Node& node, const PointGroup::Offsets& offsets) {
  const int64_t bytes = StorageBytes(node.storage);
  if (bytes >= 4) return {};
  Builder& b = *b_;
  const auto floor_mod = [](int64_t x, int64_t y) { return (x % y + y) % y; };
  // Words are read by fours or twos where all of those begin at a multiple of that, and lie within the buffer.
  for (const int width : {4, 2, 1}) {
    const int64_t elements = 4 / bytes * width;  // of one read
    if (offsets.multiple % elements != 0 || buffers_->element_count(node.buffer) % elements != 0) continue;
    // From where the read begins that has the first lane's element.
    const int64_t begin = offsets.at[0] - floor_mod(offsets.at[0], elements);
    std::map<int64_t, Value> reads;
    for (const int64_t at : offsets.at) reads[at - begin - floor_mod(at - begin, elements)] = {};
    if (reads.size() * 2 > PointGroup::kPoints) continue;
    const Value first = b.Sub(Index(node.index), b.U32(static_cast<uint32_t>(offsets.at[0] - begin)));
    for (auto& [at, words] : reads) {
      const Value place =
          b.UDiv(b.Add(first, b.U32(static_cast<uint32_t>(at))), b.U32(static_cast<uint32_t>(elements)));
      Value& known = words_[{node.buffer, place.id, width}];
      if (!known) known = buffers_->LoadWords(node.buffer, place, width);
      words = known;
    }
    Values lanes;
    for (const int64_t at : offsets.at) {
      const int64_t within = floor_mod(at - begin, elements);
      const Value words = reads[at - begin - within];
      const Value word = width == 1 ? words : b.Extract(words, static_cast<int>(within * bytes / 4));
      const Value moved = b.Shr(word, b.U32(static_cast<uint32_t>(within * bytes % 4 * 8)));
      lanes.push_back(b.And(moved, b.U32(bytes == 1 ? 0xff : 0xffff)));
    }
    return b.Composite(lanes);
  }
  return {};
}

Value ProgramLowering::Node(NodeId id) {
  Value& memo = nodes_[static_cast<std::size_t>(id)];
  if (memo) return memo;
  if (first_ != nullptr && group_->IsSame(id)) return memo = first_->Node(id);
  const plan::Node& node = program_->nodes[static_cast<std::size_t>(id)];
  Value out;
  uint64_t chosen;
  if (node.op == NodeOp::kParam) {
    KRAFLA_CHECK(node.bits < params_.size() && params_[node.bits]);
    out = params_[node.bits];
  } else if (node.op == NodeOp::kIndex) {
    out = IndexValue(node.index, true);
  } else if (node.op == NodeOp::kLoad) {
    out = EmitLoad(id);
  } else if (node.op == NodeOp::kHlo && node.opcode == Opcode::kSelect &&
             b_->m.IsConstant(Node(node.operands[0]), &chosen)) {
    out = Node(node.operands[chosen != 0 ? 1 : 2]);
  } else {
    Value operands[3];
    std::size_t count = 0;
    for (NodeId o : node.operands) {
      if (o != plan::kNoNode) operands[count++] = Node(o);
    }
    out = LowerNode(*b_, *program_, node, std::span<const Value>(operands, count));
    if (node.op == NodeOp::kRound && node.storage == ElementType::kBF16) out = RoundProduct(node, out);
  }
  if (seen_[static_cast<std::size_t>(id)] && IsFloat(node.type)) out = Settle(node, out);
  return nodes_[static_cast<std::size_t>(id)] = out;
}

void ProgramLowering::EmitInvariants(uint64_t varying) {
  varying_ = varying;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const plan::Node& node = program_->nodes[i];
    if ((node.depends & varying) != 0 || node.op == NodeOp::kConstant) continue;
    // A parameter without a value yet, and all that depends on it, is emitted later.
    bool ready = node.op != NodeOp::kParam || (node.bits < params_.size() && params_[node.bits]);
    for (NodeId o : node.operands) {
      if (o == plan::kNoNode) continue;
      const plan::Node& operand = program_->nodes[static_cast<std::size_t>(o)];
      ready = ready && (operand.op == NodeOp::kConstant || nodes_[static_cast<std::size_t>(o)]);
    }
    if (ready) Node(static_cast<NodeId>(i));
  }
  // Values of the program may still be missing. Of expressions without such values the parts that do not change are
  // emitted here, and are found again later.
  auto plain = [&](IndexId id) {
    for (const IndexTerm& t : program_->space.expr(id).terms) {
      const IndexAtom& atom = program_->space.atom(t.atom);
      if ((atom.depends & varying) == 0 && atom.kind != IndexAtom::Kind::kIter) return false;
    }
    return true;
  };
  auto prepare = [&](IndexId id) {
    const IndexExpr& e = program_->space.expr(id);
    if ((program_->space.Depends(id) & varying) == 0 || !plain(id)) return;
    for (bool vector : {false, true}) {
      const Value part = Terms(e, vector, varying, false);
      if (part) b_->Add(part, b_->U32(static_cast<uint32_t>(e.constant)));
      if (!Varies(program_->space.Depends(id))) break;
    }
  };
  for (const plan::Node& n : program_->nodes) {
    if (n.op == NodeOp::kLoad || n.op == NodeOp::kIndex) prepare(n.index);
  }
  for (const plan::Store& s : program_->stores) prepare(s.index);
}

void ProgramLowering::EmitStore(const plan::Store& store, Value limit) {
  Builder& b = *b_;
  Value bits = ToStorage(b, store.storage, Node(store.node));
  const int bytes = StorageBytes(store.storage);
  Value condition = store.mask != plan::kNoNode ? Node(store.mask) : b.m.Bool(true);
  if (limit) condition = b.LAnd(condition, limit);
  if (width_ == 1) {
    const Value index = Index(store.index);
    b.If(condition, [&] { buffers_->Store(store.buffer, bytes, index, bits); });
    return;
  }
  const LanePattern pattern = patterns_.Of(store.index);
  bits = b.Splat(bits, width_);
  if (pattern.affine && pattern.stride == 1 && pattern.aligned && condition.width == 1) {
    const Value index = Index(store.index);
    b.If(condition, [&] { buffers_->Store(store.buffer, bytes, index, bits); });
    return;
  }
  const Value index = b.Splat(IndexValue(store.index, true), width_);
  for (int i = 0; i < width_; ++i) {
    b.If(b.Extract(condition, i),
         [&] { buffers_->Store(store.buffer, bytes, b.Extract(index, i), b.Extract(bits, i)); });
  }
}

void ProgramLowering::EmitStores(Value limit) {
  // All values come before all stores, because an output may share the elements of its buffer with an input.
  for (const plan::Store& s : program_->stores) {
    Node(s.node);
    if (s.mask != plan::kNoNode) Node(s.mask);
    if (width_ == 1) Index(s.index);
  }
  for (const plan::Store& s : program_->stores) EmitStore(s, limit);
}

}  // namespace krafla::spirv
