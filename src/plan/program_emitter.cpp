// SPDX-License-Identifier: Apache-2.0
#include "plan/program_emitter.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <ranges>
#include <unordered_set>

#include "ir/mini_float.h"
#include "plan/program_emitter_complex.h"

namespace krafla::plan {

namespace {

bool RealElementwise(const Instruction& i) {
  Opcode op = i.opcode();
  for (const Instruction* o : i.operands())
    if (IsComplex(o->shape().element_type())) return false;
  if (IsComplex(i.shape().element_type())) return false;
  return op != Opcode::kStochasticConvert ||
         (IsSigned(i.shape().element_type()) && IsFloat(i.operand(0)->shape().element_type()));
}

bool ComplexElementwise(Opcode op) {
  return HasComplexFormula(op) ||
         IsOneOf(op, {Opcode::kAdd, Opcode::kSubtract, Opcode::kNegate, Opcode::kReal, Opcode::kImag, Opcode::kComplex,
                      Opcode::kSelect, Opcode::kConvert, Opcode::kCompare});
}

}  // namespace

bool IsEmittable(const Instruction& i) {
  if (!i.shape().IsArray() || i.shape().IsDynamic()) return false;
  for (const Instruction* o : i.operands())
    if (!o->shape().IsArray() || o->shape().IsDynamic()) return false;
  Opcode op = i.opcode();
  if (op == Opcode::kBitcastConvert) return RealElementwise(i);
  if (IsElementwise(op)) return RealElementwise(i) || ComplexElementwise(op);
  return IsOneOf(op, {Opcode::kBroadcast, Opcode::kTranspose, Opcode::kReshape, Opcode::kSlice, Opcode::kReverse,
                      Opcode::kPad, Opcode::kConcatenate, Opcode::kIota, Opcode::kDynamicSlice, Opcode::kGather,
                      Opcode::kDynamicUpdateSlice, Opcode::kCopy, Opcode::kConstant});
}

Result<ScalarValue> ProgramEmitter::Emit(const ValueRef& given, std::span<const IndexId> index, NodeId mask) {
  ValueRef v = ResolveValue(given, false);
  // A scalar is computed from elements at indices that no iteration changes and that are in range. It needs no mask,
  // and without one it is one value for all readers.
  if (index.empty()) mask = kNoNode;
  Key key{v, {index.begin(), index.end()}, mask};
  if (auto it = memo_.find(key); it != memo_.end()) return it->second;
  std::optional<ScalarValue> outside;
  if (boundary_) { KRAFLA_ASSIGN(outside, boundary_(*this, v, index, mask)); }
  ScalarValue out;
  if (outside) {
    out = *outside;
  } else {
    KRAFLA_ASSIGN(out, EmitInstruction(*v.instruction, index, mask));
  }
  memo_.emplace(std::move(key), out);
  return out;
}

Result<ScalarValue> ProgramEmitter::Operand(const Instruction& i, std::size_t n, std::span<const IndexId> index,
                                            NodeId mask) {
  return Emit({i.operand(n), 0}, index, mask);
}

// The index clamped into the shape: the index arithmetic of views needs it in range even where the mask is false.
std::vector<IndexId> ProgramEmitter::InRange(std::span<const IndexId> index, const Shape& shape) {
  std::vector<IndexId> out(index.begin(), index.end());
  for (std::size_t d = 0; d < out.size(); ++d) {
    int64_t extent = shape.dims()[d];
    IndexSpace::Range r = b_.space().RangeOf(out[d]);
    if (r.lo < 0 || r.hi >= extent) out[d] = b_.ClampedIndex(b_.Index(out[d]), 0, std::max<int64_t>(extent - 1, 0));
  }
  return out;
}

ScalarValue ProgramEmitter::LoadElement(const Shape& shape, int buffer, std::span<const IndexId> index, NodeId mask) {
  IndexSpace& space = b_.space();
  IndexId offset = space.Linearize(index, shape.dims());
  ElementType type = shape.element_type();
  if (!IsComplex(type)) return {b_.Load(buffer, type, offset, mask), kNoNode};
  IndexId re = space.Mul(offset, 2);
  return {b_.Load(buffer, RealPart(type), re, mask), b_.Load(buffer, RealPart(type), space.AddConstant(re, 1), mask)};
}

void ProgramEmitter::StoreElement(const Shape& shape, int buffer, std::span<const IndexId> index,
                                  const ScalarValue& value, NodeId mask) {
  IndexSpace& space = b_.space();
  IndexId offset = space.Linearize(index, shape.dims());
  ElementType type = shape.element_type();
  if (!IsComplex(type)) {
    b_.AddStore({buffer, offset, value.re, type, mask});
    return;
  }
  IndexId re = space.Mul(offset, 2);
  b_.AddStore({buffer, re, value.re, RealPart(type), mask});
  b_.AddStore({buffer, space.AddConstant(re, 1), value.im, RealPart(type), mask});
}

namespace {

// The stored bytes of one real element as an integer. Literals need no numerics here, because a node decodes narrow
// floats.
uint64_t ReadBytes(const std::byte* p, int size) {
  uint64_t out = 0;
  std::memcpy(&out, p, static_cast<std::size_t>(size));
  return out;
}

}  // namespace

ScalarValue ProgramEmitter::LiteralElement(const Literal& literal, int64_t position) {
  ElementType type = literal.shape().element_type();
  ElementType real = RealPart(type);
  int size = StorageBytes(real);
  auto one = [&](int64_t n) -> NodeId {
    uint64_t bits = ReadBytes(literal.bytes().data() + n * size, size);
    if (real == ElementType::kPred) return b_.Constant(ElementType::kPred, bits != 0);
    if (IsSigned(real)) {
      int shift = 64 - 8 * size;
      return b_.ConstantInt(ComputeType(real), static_cast<int64_t>(bits << shift) >> shift);
    }
    if (IsUnsigned(real) || real == ElementType::kF32 || real == ElementType::kF64)
      return b_.Constant(ComputeType(real), bits);
    return b_.DecodeConstant(real, static_cast<uint32_t>(bits));
  };
  if (IsComplex(type)) return {one(2 * position), one(2 * position + 1)};
  return {one(position), kNoNode};
}

Result<ScalarValue> ProgramEmitter::EmitInstruction(const Instruction& i, std::span<const IndexId> index, NodeId mask) {
  IndexSpace& space = b_.space();
  const Shape& shape = i.shape();
  Opcode op = i.opcode();
  if (!IsEmittable(i)) return Unimplemented("{} has no element program.", Describe(i));
  if (op == Opcode::kBitcastConvert && BitWidth(shape.element_type()) != BitWidth(i.operand(0)->shape().element_type()))
    return EmitWidthChange(i, index, mask);
  if (op == Opcode::kBitcastConvert || IsElementwise(op)) return EmitElementwise(i, index, mask);
  if (op == Opcode::kConstant) {
    if (shape.element_count() == 1) return LiteralElement(i.literal(), 0);
    return Internal("{}: A constant array must be a buffer of its kernel.", Describe(i));
  }
  if (op == Opcode::kIota) {
    std::vector<IndexId> at = InRange(index, shape);
    NodeId n = b_.Index(at[static_cast<std::size_t>(i.attr<IotaAttributes>().dimension)]);
    ElementType real = RealPart(shape.element_type());
    ScalarValue out{b_.Convert(n, ElementType::kS32, real), kNoNode};
    if (IsComplex(shape.element_type())) out.im = b_.ConstantFloat(real, 0);
    return out;
  }
  if (op == Opcode::kBroadcast) {
    std::vector<IndexId> at;
    for (int64_t d : i.attr<DimensionsAttributes>().dimensions) at.push_back(index[static_cast<std::size_t>(d)]);
    return Operand(i, 0, at, mask);
  }
  if (op == Opcode::kTranspose) {
    const Dims& permutation = i.attr<DimensionsAttributes>().dimensions;
    std::vector<IndexId> at(index.size());
    for (std::size_t d = 0; d < index.size(); ++d) at[static_cast<std::size_t>(permutation[d])] = index[d];
    return Operand(i, 0, at, mask);
  }
  if (op == Opcode::kReshape) {
    IndexId linear = space.Linearize(InRange(index, shape), shape.dims());
    return Operand(i, 0, space.Delinearize(linear, i.operand(0)->shape().dims()), mask);
  }
  if (op == Opcode::kSlice) {
    const auto& a = i.attr<SliceAttributes>();
    std::vector<IndexId> at;
    for (std::size_t d = 0; d < index.size(); ++d)
      at.push_back(space.AddConstant(space.Mul(index[d], a.strides[d]), a.starts[d]));
    return Operand(i, 0, at, mask);
  }
  if (op == Opcode::kReverse) {
    std::vector<IndexId> at(index.begin(), index.end());
    for (int64_t d : i.attr<DimensionsAttributes>().dimensions) {
      auto n = static_cast<std::size_t>(d);
      at[n] = space.Sub(space.Constant(shape.dims()[n] - 1), at[n]);
    }
    return Operand(i, 0, at, mask);
  }
  if (op == Opcode::kCopy) return Operand(i, 0, index, mask);
  if (op == Opcode::kPad) return EmitPad(i, index, mask);
  if (op == Opcode::kConcatenate) return EmitConcatenate(i, index, mask);
  if (op == Opcode::kGather) return EmitGather(i, index, mask);
  if (op == Opcode::kDynamicUpdateSlice) return EmitDynamicUpdateSlice(i, index, mask);
  if (op == Opcode::kDynamicSlice) {
    const Shape& from = i.operand(0)->shape();
    KRAFLA_ASSIGN(std::vector<IndexId> at, EmitStarts(*this, i, 1, from.dims(), shape.dims(), mask));
    for (std::size_t d = 0; d < index.size(); ++d) at[d] = space.Add(at[d], index[d]);
    return Operand(i, 0, at, mask);
  }
  return Internal("{} is missing from the emitter.", Describe(i));
}

Result<std::vector<IndexId>> EmitStarts(ProgramEmitter& emitter, const Instruction& i, std::size_t first_operand,
                                        std::span<const int64_t> operand_dims, std::span<const int64_t> sizes,
                                        NodeId mask) {
  std::vector<IndexId> out;
  for (std::size_t d = 0; d < operand_dims.size(); ++d) {
    int64_t room = operand_dims[d] - sizes[d];
    if (room <= 0) {
      out.push_back(0);
      continue;
    }
    ScalarValue start;
    if (i.operand(first_operand)->shape().rank() == 1) {
      // HLO's older form has one vector of starts.
      std::vector<IndexId> at = {emitter.builder().space().Constant(static_cast<int64_t>(d))};
      KRAFLA_ASSIGN(start, emitter.Emit({i.operand(first_operand), 0}, at, mask));
    } else {
      KRAFLA_ASSIGN(start, emitter.Emit({i.operand(first_operand + d), 0}, {}, mask));
    }
    out.push_back(emitter.builder().ClampedIndex(start.re, 0, room));
  }
  return out;
}

ScalarValue ProgramEmitter::SelectValue(NodeId pred, const ScalarValue& a, const ScalarValue& b, ElementType type) {
  if (pred == kNoNode) return a;
  ScalarValue out{b_.Select(pred, a.re, b.re), kNoNode};
  if (IsComplex(type)) out.im = b_.Select(pred, a.im, b.im);
  return out;
}

Result<ScalarValue> ProgramEmitter::EmitPad(const Instruction& i, std::span<const IndexId> index, NodeId mask) {
  IndexSpace& space = b_.space();
  const auto& a = i.attr<PadAttributes>();
  const Shape& from = i.operand(0)->shape();
  std::vector<IndexId> at;
  NodeId inside = kNoNode;
  for (std::size_t d = 0; d < index.size(); ++d) {
    IndexId t = space.AddConstant(index[d], -a.low[d]);
    int64_t step = a.interior[d] + 1;
    int64_t extent = from.dims()[d];
    if (extent == 0) return Operand(i, 1, {}, mask);
    int64_t span = (extent - 1) * step + 1;
    inside = b_.And(inside, b_.InRange(t, 0, span));
    if (step > 1) {
      t = b_.ClampedIndex(b_.Index(t), 0, span - 1);
      IndexId rest = space.Mod(t, step);
      inside = b_.And(inside, b_.InRange(rest, 0, 1));
      t = space.FloorDiv(t, step);
    }
    at.push_back(t);
  }
  KRAFLA_ASSIGN(ScalarValue value, Operand(i, 0, at, b_.And(mask, inside)));
  if (inside == kNoNode) return value;
  KRAFLA_ASSIGN(ScalarValue padding, Operand(i, 1, {}, mask));
  return SelectValue(inside, value, padding, i.shape().element_type());
}

Result<ScalarValue> ProgramEmitter::EmitConcatenate(const Instruction& i, std::span<const IndexId> index, NodeId mask) {
  IndexSpace& space = b_.space();
  auto d = static_cast<std::size_t>(i.attr<DimensionsAttributes>().dimensions[0]);
  // Begins with the last piece, so that each select only has to ask whether the index is before the end of its piece.
  int64_t end = i.shape().dims()[d];
  std::optional<ScalarValue> out;
  for (std::size_t n = i.operand_count(); n-- > 0;) {
    int64_t extent = i.operand(n)->shape().dims()[d];
    int64_t begin = end - extent;
    if (extent > 0) {
      std::vector<IndexId> at(index.begin(), index.end());
      at[d] = space.AddConstant(index[d], -begin);
      end = begin;
      // A piece that holds none of the indices.
      if (const IndexSpace::Range r = space.RangeOf(at[d]); r.hi < 0 || r.lo >= extent) continue;
      NodeId inside = b_.InRange(at[d], 0, extent);
      KRAFLA_ASSIGN(ScalarValue piece, Operand(i, n, at, b_.And(mask, inside)));
      NodeId before_end = b_.InRange(at[d], INT64_MIN / 4, extent);
      out = out ? SelectValue(before_end, piece, *out, i.shape().element_type()) : piece;
    }
  }
  if (out) return *out;
  // No index is in range, so that the mask is false wherever this value is asked for.
  const ElementType real = RealPart(i.shape().element_type());
  const NodeId any = b_.Constant(ComputeType(real), 0);
  return ScalarValue{any, IsComplex(i.shape().element_type()) ? any : kNoNode};
}

Result<ScalarValue> ProgramEmitter::EmitGather(const Instruction& i, std::span<const IndexId> index, NodeId mask) {
  IndexSpace& space = b_.space();
  const auto& a = i.attr<GatherAttributes>();
  const Shape& operand = i.operand(0)->shape();
  const Shape& starts = i.operand(1)->shape();
  auto contains = [](const Dims& dims, std::size_t d) {
    return std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) != dims.end();
  };
  std::vector<IndexId> safe = InRange(index, i.shape());
  std::vector<IndexId> batch, offsets;
  for (std::size_t d = 0; d < safe.size(); ++d) (contains(a.offset_dims, d) ? offsets : batch).push_back(safe[d]);
  // The index into the start indices, with a place for the dimension of the index vector.
  std::vector<IndexId> at_start = batch;
  bool has_vector_dim = a.index_vector_dim < starts.rank();
  if (has_vector_dim) at_start.insert(at_start.begin() + a.index_vector_dim, 0);
  std::vector<IndexId> at(static_cast<std::size_t>(operand.rank()), 0);
  std::size_t next_offset = 0;
  for (std::size_t d = 0; d < at.size(); ++d)
    if (!contains(a.collapsed_slice_dims, d) && !contains(a.operand_batching_dims, d)) at[d] = offsets[next_offset++];
  for (std::size_t k = 0; k < a.operand_batching_dims.size(); ++k) {
    // Position of the batching dimension of the start indices among the batch dimensions.
    int64_t dim = a.start_indices_batching_dims[k];
    auto place = static_cast<std::size_t>(has_vector_dim && dim > a.index_vector_dim ? dim - 1 : dim);
    at[static_cast<std::size_t>(a.operand_batching_dims[k])] = batch[place];
  }
  for (std::size_t k = 0; k < a.start_index_map.size(); ++k) {
    auto d = static_cast<std::size_t>(a.start_index_map[k]);
    int64_t room = operand.dims()[d] - a.slice_sizes[d];
    if (room <= 0) continue;
    if (has_vector_dim)
      at_start[static_cast<std::size_t>(a.index_vector_dim)] = space.Constant(static_cast<int64_t>(k));
    KRAFLA_ASSIGN(ScalarValue start, Operand(i, 1, at_start, mask));
    at[d] = space.Add(at[d], b_.ClampedIndex(start.re, 0, room));
  }
  return Operand(i, 0, at, mask);
}

Result<ScalarValue> ProgramEmitter::EmitDynamicUpdateSlice(const Instruction& i, std::span<const IndexId> index,
                                                           NodeId mask) {
  IndexSpace& space = b_.space();
  const Shape& update = i.operand(1)->shape();
  KRAFLA_ASSIGN(std::vector<IndexId> starts, EmitStarts(*this, i, 2, i.shape().dims(), update.dims(), mask));
  NodeId inside = kNoNode;
  std::vector<IndexId> at;
  for (std::size_t d = 0; d < index.size(); ++d) {
    at.push_back(space.Sub(index[d], starts[d]));
    inside = b_.And(inside, b_.InRange(at[d], 0, update.dims()[d]));
  }
  KRAFLA_ASSIGN(ScalarValue updated, Operand(i, 1, at, b_.And(mask, inside)));
  if (inside == kNoNode) return updated;
  KRAFLA_ASSIGN(ScalarValue old, Operand(i, 0, index, mask));
  return SelectValue(inside, updated, old, i.shape().element_type());
}

namespace {

ElementType PatternType(int bits) {
  switch (bits) {
    case 1: return ElementType::kU1;
    case 2: return ElementType::kU2;
    case 4: return ElementType::kU4;
    case 8: return ElementType::kU8;
    case 16: return ElementType::kU16;
    case 32: return ElementType::kU32;
    default: return ElementType::kU64;
  }
}

}  // namespace

// bitcast-convert between widths: the narrower type has one more dimension, whose elements are the parts of a wide
// element, the low bits first.
Result<ScalarValue> ProgramEmitter::EmitWidthChange(const Instruction& i, std::span<const IndexId> index, NodeId mask) {
  ElementType from = i.operand(0)->shape().element_type(), to = i.shape().element_type();
  int from_bits = BitWidth(from), to_bits = BitWidth(to);
  ElementType from_pattern = PatternType(from_bits), to_pattern = PatternType(to_bits);
  if (from_bits > to_bits) {
    ElementType wide = from_bits > 32 ? ElementType::kU64 : ElementType::kU32;
    KRAFLA_ASSIGN(ScalarValue value, Operand(i, 0, index.first(index.size() - 1), mask));
    NodeId pattern = b_.BitcastConvert(value.re, from, from_pattern);
    NodeId part = b_.Index(b_.space().Mul(InRange(index, i.shape()).back(), to_bits));
    NodeId shifted = b_.Hlo(Opcode::kShiftRightLogical, wide, {pattern, b_.Convert(part, ElementType::kS32, wide)});
    NodeId low = b_.Convert(shifted, wide, to_pattern);
    return ScalarValue{b_.BitcastConvert(low, to_pattern, to)};
  }
  ElementType wide = to_bits > 32 ? ElementType::kU64 : ElementType::kU32;
  std::vector<IndexId> at(index.begin(), index.end());
  at.push_back(0);
  NodeId pattern = kNoNode;
  for (int part = 0; part < to_bits / from_bits; ++part) {
    at.back() = b_.space().Constant(part);
    KRAFLA_ASSIGN(ScalarValue value, Operand(i, 0, at, mask));
    NodeId bits = b_.Convert(b_.BitcastConvert(value.re, from, from_pattern), from_pattern, wide);
    if (part > 0) bits = b_.Hlo(Opcode::kShiftLeft, wide, {bits, b_.ConstantInt(wide, part * from_bits)});
    pattern = pattern == kNoNode ? bits : b_.Hlo(Opcode::kOr, wide, {pattern, bits});
  }
  return ScalarValue{b_.BitcastConvert(b_.Convert(pattern, wide, to_pattern), to_pattern, to)};
}

Result<ScalarValue> ProgramEmitter::EmitElementwise(const Instruction& i, std::span<const IndexId> index, NodeId mask) {
  std::vector<ScalarValue> operands;
  for (std::size_t n = 0; n < i.operand_count(); ++n) {
    // clamp and select take scalars beside arrays.
    bool scalar = i.operand(n)->shape().rank() == 0;
    KRAFLA_ASSIGN(ScalarValue value, Operand(i, n, scalar ? std::span<const IndexId>() : index, mask));
    operands.push_back(value);
  }
  Opcode op = i.opcode();
  ElementType type = i.shape().element_type();
  if (!RealElementwise(i)) return EmitComplex(i, operands);
  ElementType from = i.operand(0)->shape().element_type();
  if (op == Opcode::kConvert) return ScalarValue{b_.Convert(operands[0].re, from, type)};
  if (op == Opcode::kBitcastConvert) return ScalarValue{b_.BitcastConvert(operands[0].re, from, type)};
  if (op == Opcode::kStochasticConvert)
    return ScalarValue{EmitStochasticConvert(operands[0].re, from, operands[1].re, type)};
  if (op == Opcode::kReal) return ScalarValue{operands[0].re};
  if (op == Opcode::kImag) return ScalarValue{b_.ConstantFloat(ComputeType(type), 0)};
  if (op == Opcode::kReducePrecision) {
    const auto& a = i.attr<ReducePrecisionAttributes>();
    return ScalarValue{b_.ReducePrecision(operands[0].re, type, a.exponent_bits, a.mantissa_bits)};
  }
  if (op == Opcode::kCompare) {
    const auto& a = i.attr<CompareAttributes>();
    const bool total_order = a.type == ComparisonType::kTotalOrder;
    // Where the sign alone is NaN, XLA:CPU puts it before all numbers: as an infinity, which those types do not have.
    const MiniFloat* format = FindMiniFloat(from);
    const bool nan_first = total_order && format != nullptr && format->specials == FloatSpecials::kNegZeroNan;
    const auto ordered = [&](NodeId x) {
      if (!nan_first) return x;
      const NodeId first = b_.ConstantFloat(ElementType::kF32, -std::numeric_limits<double>::infinity());
      return b_.Select(b_.Compare(ComparisonDirection::kNe, x, x), first, x);
    };
    return ScalarValue{b_.Compare(a.direction, ordered(operands[0].re), ordered(operands[1].re), total_order)};
  }
  if (op == Opcode::kSelect) return ScalarValue{b_.Select(operands[0].re, operands[1].re, operands[2].re)};
  if (op == Opcode::kIsFinite) return ScalarValue{b_.Hlo(op, from, {operands[0].re})};
  std::vector<NodeId> nodes;
  for (const ScalarValue& v : operands) nodes.push_back(v.re);
  return ScalarValue{b_.Hlo(op, type, nodes)};
}

Result<std::vector<ScalarValue>> ProgramEmitter::EmitComputation(const Computation& computation,
                                                                 std::span<const ScalarValue> parameters) {
  ProgramEmitter inner(
      b_,
      [&](ProgramEmitter&, const ValueRef& v, std::span<const IndexId>, NodeId) -> Result<std::optional<ScalarValue>> {
        if (v.instruction->opcode() != Opcode::kParameter) return std::nullopt;
        return parameters[static_cast<std::size_t>(v.instruction->attr<ParameterAttributes>().number)];
      });
  // Where the computation is on arrays, as on the slices of a scan, it is the same at every element: any index will do.
  const auto anywhere = [&](const ValueRef& v) {
    const std::vector<IndexId> index(static_cast<std::size_t>(LeafShape(v).rank()), 0);
    return inner.Emit(v, index);
  };
  // In the computation's order, so that no depth of it is a depth of calls here.
  std::unordered_set<const Instruction*> needed = {computation.root()};
  for (const auto& i : computation.instructions() | std::views::reverse)
    if (needed.contains(i.get())) needed.insert(i->operands().begin(), i->operands().end());
  for (const auto& i : computation.instructions())
    if (needed.contains(i.get()) && i->shape().IsArray()) KRAFLA_TRY(anywhere({i.get(), 0}));
  std::vector<ScalarValue> out;
  const int leaves = static_cast<int>(LeafCount(computation.root()->shape()));
  for (int leaf = 0; leaf < leaves; ++leaf) {
    KRAFLA_ASSIGN(const ScalarValue value, anywhere({computation.root(), leaf}));
    out.push_back(value);
  }
  return out;
}

}  // namespace krafla::plan
