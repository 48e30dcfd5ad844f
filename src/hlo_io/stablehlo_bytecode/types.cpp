// SPDX-License-Identifier: Apache-2.0
// Types of the dialects vhlo (stablehlo/dialect/VhloBytecode.cpp), stablehlo (StablehloBytecode.cpp beside it) and
// builtin (mlir/IR/BuiltinDialectBytecode.td).
#include "hlo_io/stablehlo/quantization.h"
#include "hlo_io/stablehlo_bytecode/entries.h"

namespace krafla::stablehlo {
namespace {

Type Element(ElementType type) {
  Type out;
  out.kind = Type::Kind::kElement;
  out.element = type;
  return out;
}
Type Other(std::string_view name) {
  Type out;
  out.kind = Type::Kind::kOther;
  out.text = name;
  return out;
}

ElementType UnsignedOf(ElementType type) {
  static constexpr std::pair<ElementType, ElementType> kPairs[] = {
      {ElementType::kS2, ElementType::kU2},   {ElementType::kS4, ElementType::kU4},
      {ElementType::kS8, ElementType::kU8},   {ElementType::kS16, ElementType::kU16},
      {ElementType::kS32, ElementType::kU32}, {ElementType::kS64, ElementType::kU64}};
  for (auto [is, of] : kPairs)
    if (is == type) return of;
  return type;
}

Dims SignedList(ByteStream& s) {
  Dims out;
  const std::size_t count = s.Count();
  for (std::size_t i = 0; i < count && !s.failed(); ++i) out.push_back(s.SignedVarint());
  return out;
}

Result<Type> Tensor(Dims dims, TypeRef element) {
  if (element->kind != Type::Kind::kElement) {
    // Of other elements the conversion says that it cannot take them, where they are used.
    return Other(Format("tensor of {}", element->text.empty() ? "another type" : element->text));
  }
  for (int64_t d : dims)
    if (d < 0 && d != kDynamicDim) return InvalidArgument("A tensor type has the negative dimension {}.", d);
  Type out;
  out.kind = Type::Kind::kTensor;
  out.element = element->element;
  out.quantization = element->quantization;
  out.dims = std::move(dims);
  KRAFLA_TRY(CheckQuantizedDims(out));
  return out;
}

}  // namespace

Result<std::vector<TypeRef>> Entries::TypeList(ByteStream& s) {
  std::vector<TypeRef> out;
  const std::size_t count = s.Count();
  for (std::size_t i = 0; i < count; ++i) {
    KRAFLA_ASSIGN(TypeRef type, NextType(s));
    out.push_back(type);
  }
  return out;
}

Result<Type> Entries::FunctionType(ByteStream& s) {
  Type out;
  out.kind = Type::Kind::kFunction;
  KRAFLA_ASSIGN(out.elements, TypeList(s));
  KRAFLA_ASSIGN(out.results, TypeList(s));
  return out;
}

Result<TypeRef> Entries::TypeAt(uint64_t index) {
  if (index >= types_.size())
    return InvalidArgument("Type {} is asked for; the bytecode has {}.", index, types_.size());
  Slot<Type>& slot = types_[index];
  if (slot.value != nullptr) return slot.value;
  if (slot.open || depth_ >= kMaxTypeDepth)
    return InvalidArgument("Type {} of the bytecode contains itself, or others too deep.", index);
  const Container::Entry& entry = container_.types[index];
  if (!entry.custom)
    return Unimplemented("A type written as text in bytecode cannot be read: '{}'.", entry.bytes.substr(0, 80));
  slot.open = true;
  ++depth_;
  ByteStream s(entry.bytes);
  Result<Type> type = Other("a type of another dialect");
  if (entry.dialect == Dialect::kVhlo) type = DecodeVhloType(s);
  else if (entry.dialect == Dialect::kBuiltin) type = DecodeBuiltinType(s);
  else if (entry.dialect == Dialect::kStablehlo) type = DecodeStablehloType(s);
  --depth_;
  slot.open = false;
  if (!type) return Failure(std::move(type).error());
  const bool known =
      entry.dialect == Dialect::kVhlo || entry.dialect == Dialect::kBuiltin || entry.dialect == Dialect::kStablehlo;
  if (known && (s.failed() || !s.AtEnd()))
    return InvalidArgument("Type {} of the bytecode has bytes missing or left over.", index);
  tree_.types.push_back(std::move(*type));
  types_[index].value = &tree_.types.back();
  return types_[index].value;
}

// UniformQuantizedV1Type and UniformQuantizedPerAxisV1Type (stablehlo/dialect/VhloBytecode.cpp).
Result<Type> Entries::QuantizedType(ByteStream& s, bool per_axis) {
  Quantization out;
  const bool has_signs = (s.Varint() & 1) != 0;  // their type has them always
  KRAFLA_ASSIGN(TypeRef storage, NextType(s));
  KRAFLA_ASSIGN(TypeRef expressed, NextType(s));
  out.expressed = expressed->element;
  const auto scale = [&] { return std::bit_cast<double>(s.SignedVarint()); };
  if (!per_axis) {
    out.scales = {scale()};
    out.zero_points = {s.SignedVarint()};
  } else {
    out.dimension = static_cast<int64_t>(std::min<uint64_t>(s.Varint(), Shape::kMaxRank));
  }
  out.min = s.SignedVarint();
  out.max = s.SignedVarint();
  if (per_axis) {
    const std::size_t scales = s.Count();
    for (std::size_t i = 0; i < scales && !s.failed(); ++i) out.scales.push_back(scale());
    const std::size_t zeros = s.Count();
    for (std::size_t i = 0; i < zeros && !s.failed(); ++i) out.zero_points.push_back(s.SignedVarint());
  }
  if (storage->kind != Type::Kind::kElement || expressed->kind != Type::Kind::kElement)
    return InvalidArgument("A quantized type is made of types that are no elements.");
  return QuantizedElement(has_signs ? storage->element : UnsignedOf(storage->element), std::move(out));
}

Result<Type> Entries::DecodeVhloType(ByteStream& s) {
  const uint64_t code = s.Varint();
  switch (code) {
    case 0: return Element(ElementType::kPred);
    case 1: {
      KRAFLA_ASSIGN(TypeRef part, NextType(s));
      if (part->element == ElementType::kF32) return Element(ElementType::kC64);
      if (part->element == ElementType::kF64) return Element(ElementType::kC128);
      return InvalidArgument("A complex type has parts that are neither f32 nor f64.");
    }
    case 2: return Element(ElementType::kBF16);
    case 3: return Element(ElementType::kF16);
    case 4: return Element(ElementType::kF32);
    case 5: return Element(ElementType::kF64);
    case 6: return Element(ElementType::kF8E4M3FN);
    case 7: return Element(ElementType::kF8E5M2);
    case 8: return FunctionType(s);
    case 9: return Element(ElementType::kInvalid);
    case 10: return Element(ElementType::kS4);
    case 11: return Element(ElementType::kS8);
    case 12: return Element(ElementType::kS16);
    case 13: return Element(ElementType::kS32);
    case 14: return Element(ElementType::kS64);
    case 15: return Element(ElementType::kU4);
    case 16: return Element(ElementType::kU8);
    case 17: return Element(ElementType::kU16);
    case 18: return Element(ElementType::kU32);
    case 19: return Element(ElementType::kU64);
    case 20: {
      Dims dims = SignedList(s);
      KRAFLA_ASSIGN(TypeRef element, NextType(s));
      return Tensor(std::move(dims), element);
    }
    case 21: {
      KRAFLA_ASSIGN(AttributeRef encoding, NextAttribute(s));
      Dims dims = SignedList(s);
      KRAFLA_ASSIGN(TypeRef element, NextType(s));
      KRAFLA_ASSIGN(Type out, Tensor(std::move(dims), element));
      // TypeExtensions: the bounds of dynamic dimensions.
      if (encoding->kind == Attribute::Kind::kArray) {
        for (AttributeRef bound : encoding->elements) out.bounds.push_back(bound->integer);
        if (out.bounds.size() != out.dims.size())
          return InvalidArgument("A tensor type has bounds for {} of {} dimensions.", out.bounds.size(),
                                 out.dims.size());
      }
      return out;
    }
    case 22: {
      Type out;
      out.kind = Type::Kind::kToken;
      return out;
    }
    case 23: {
      Type out;
      out.kind = Type::Kind::kTuple;
      KRAFLA_ASSIGN(out.elements, TypeList(s));
      return out;
    }
    case 24: return QuantizedType(s, /*per_axis=*/false);
    case 30: return QuantizedType(s, /*per_axis=*/true);
    case 25: {
      KRAFLA_ASSIGN(TypeRef element, NextType(s));
      KRAFLA_ASSIGN(Type out, Tensor({}, element));
      out.unranked = true;
      return out;
    }
    case 27: return Element(ElementType::kF8E4M3FNUZ);
    case 28: return Element(ElementType::kF8E5M2FNUZ);
    case 29: return Element(ElementType::kF8E4M3B11FNUZ);
    case 31: return Element(ElementType::kS2);
    case 32: return Element(ElementType::kU2);
    case 33: return Type();
    case 26: return Other("witness");
    case 34: return Other("tf32");
    case 35: return Element(ElementType::kF8E4M3);
    case 36: return Element(ElementType::kF8E3M4);
    case 37: return Element(ElementType::kF4E2M1FN);
    case 38: return Other("f6E2M3FN");
    case 39: return Other("f6E3M2FN");
    case 40: return Element(ElementType::kF8E8M0FNU);
    case 41: {
      SignedList(s);
      KRAFLA_TRY(NextType(s));
      return Other("a buffer");
    }
    case 42: {
      KRAFLA_TRY(TypeList(s));
      return Other("a future");
    }
    default: return Unimplemented("VHLO has a type of the number {}, which this version does not know.", code);
  }
}

// Values of Shardy's operations keep types of StableHLO where a program is written in VHLO; casts lie between. Tensors
// are the builtin dialect's there, the token is StableHLO's own.
Result<Type> Entries::DecodeStablehloType(ByteStream& s) {
  const uint64_t code = s.Varint();
  if (code == 0) {
    Type out;
    out.kind = Type::Kind::kToken;
    return out;
  }
  while (!s.AtEnd() && !s.failed()) s.Byte();
  return Other(Format("type {} of StableHLO", code));
}

Result<Type> Entries::DecodeBuiltinType(ByteStream& s) {
  const uint64_t code = s.Varint();
  switch (code) {
    case 0: {
      const uint64_t packed = s.Varint();
      const bool is_unsigned = (packed & 3) == 2;
      switch (packed >> 2) {
        case 1: return Element(ElementType::kPred);
        case 2: return Element(is_unsigned ? ElementType::kU2 : ElementType::kS2);
        case 4: return Element(is_unsigned ? ElementType::kU4 : ElementType::kS4);
        case 8: return Element(is_unsigned ? ElementType::kU8 : ElementType::kS8);
        case 16: return Element(is_unsigned ? ElementType::kU16 : ElementType::kS16);
        case 32: return Element(is_unsigned ? ElementType::kU32 : ElementType::kS32);
        case 64: return Element(is_unsigned ? ElementType::kU64 : ElementType::kS64);
        default: return Other(Format("an integer of {} bits", packed >> 2));
      }
    }
    case 1: return Element(ElementType::kInvalid);
    case 2: return FunctionType(s);
    case 3: return Element(ElementType::kBF16);
    case 4: return Element(ElementType::kF16);
    case 5: return Element(ElementType::kF32);
    case 6: return Element(ElementType::kF64);
    case 9: {
      KRAFLA_ASSIGN(TypeRef part, NextType(s));
      return Element(part->element == ElementType::kF64 ? ElementType::kC128 : ElementType::kC64);
    }
    case 12: return Type();
    case 13: {
      Dims dims = SignedList(s);
      KRAFLA_ASSIGN(TypeRef element, NextType(s));
      return Tensor(std::move(dims), element);
    }
    case 14: {
      KRAFLA_TRY(NextAttribute(s));
      Dims dims = SignedList(s);
      KRAFLA_ASSIGN(TypeRef element, NextType(s));
      return Tensor(std::move(dims), element);
    }
    case 22: return Element(ElementType::kF8E5M2);
    case 23: return Element(ElementType::kF8E4M3);
    case 24: return Element(ElementType::kF8E4M3FN);
    case 25: return Element(ElementType::kF8E5M2FNUZ);
    case 26: return Element(ElementType::kF8E4M3FNUZ);
    case 27: return Element(ElementType::kF8E4M3B11FNUZ);
    case 28: return Element(ElementType::kF8E3M4);
    case 29: return Element(ElementType::kF4E2M1FN);
    case 32: return Element(ElementType::kF8E8M0FNU);
    default: {
      // Types that no operation here takes: named when one does.
      while (!s.AtEnd() && !s.failed()) s.Byte();
      return Other(Format("builtin type {}", code));
    }
  }
}

}  // namespace krafla::stablehlo
