// SPDX-License-Identifier: Apache-2.0
#include "passes/spmd/spmd_positions.h"

#include "ir/builder.h"

namespace krafla::spmd {
namespace {

Result<Instruction*> Like(Emitter& emitter, Instruction* like, int64_t value) {
  Instruction* one = AddScalarConstant(emitter.out(), like->shape().element_type(), static_cast<double>(value));
  if (like->shape().rank() == 0) return one;
  return AddBroadcastScalar(emitter.out(), one, like->shape().dims());
}

Result<Instruction*> AsType(Emitter& emitter, Instruction* value, ElementType type) {
  if (value->shape().element_type() == type) return value;
  KRAFLA_ASSIGN(Shape shape, Shape::MakeArray(type, value->shape().dims()));
  return emitter.out().Add(Opcode::kBitcastConvert, std::move(shape), {value});
}

}  // namespace

std::optional<ElementType> BitsOf(ElementType type) {
  if (type == ElementType::kPred) return type;
  if (IsComplex(type)) return std::nullopt;
  switch (BitWidth(type)) {
    case 8: return ElementType::kU8;
    case 16: return ElementType::kU16;
    case 32: return ElementType::kU32;
    case 64: return ElementType::kU64;
    default: return std::nullopt;
  }
}

Result<Instruction*> Clamped(Emitter& emitter, Instruction* value, int64_t low, int64_t high) {
  KRAFLA_ASSIGN(Instruction * from, Like(emitter, value, low));
  KRAFLA_ASSIGN(Instruction * to, Like(emitter, value, high));
  return emitter.Infer(Opcode::kClamp, {from, value, to});
}

Result<Instruction*> ClampedPositions(Emitter& emitter, Instruction* positions, int64_t most) {
  const ElementType type = positions->shape().element_type();
  // What does not fit a signed type is past the end.
  if (!IsSigned(type) && BitWidth(type) >= 32) {
    KRAFLA_ASSIGN(Instruction * high, Like(emitter, positions, most));
    KRAFLA_ASSIGN(positions, emitter.Infer(Opcode::kMinimum, {positions, high}));
  }
  const bool is_wide = BitWidth(type) == 64;
  KRAFLA_ASSIGN(positions, AddConvert(emitter.out(), positions, is_wide ? ElementType::kS64 : ElementType::kS32));
  return Clamped(emitter, positions, 0, most);
}

Result<Instruction*> IsWithin(Emitter& emitter, Instruction* value, int64_t end) {
  KRAFLA_ASSIGN(Instruction * nearest, Clamped(emitter, value, 0, end - 1));
  return emitter.Infer(Opcode::kCompare, {value, nearest}, CompareAttributes{});
}

Result<Instruction*> MergedBits(Emitter& emitter, Instruction* elements, Instruction* found, const Split& along,
                                std::span<const Split> dims, const Region* region) {
  const ElementType type = elements->shape().element_type(), bits = *BitsOf(type);
  KRAFLA_ASSIGN(elements, AsType(emitter, elements, bits));
  KRAFLA_ASSIGN(Instruction * nothing, Like(emitter, elements, 0));
  KRAFLA_ASSIGN(elements, emitter.Infer(Opcode::kSelect, {found, elements, nothing}));
  Computation* either = AddBinaryComputation(*emitter.out().parent(), Opcode::kOr, Shape::MakeScalar(bits));
  KRAFLA_ASSIGN(elements, emitter.Sum(elements, along, dims, region, either));
  return AsType(emitter, elements, type);
}

}  // namespace krafla::spmd
