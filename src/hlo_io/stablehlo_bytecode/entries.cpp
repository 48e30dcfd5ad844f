// SPDX-License-Identifier: Apache-2.0
// Attributes of the dialects vhlo and builtin; those of sdy: sdy_attributes.cpp.
#include "hlo_io/stablehlo_bytecode/entries.h"

#include "base/checked_math.h"
#include "hlo_io/element_codec.h"
#include "hlo_io/stablehlo/words.h"

namespace krafla::stablehlo {
namespace {

using Kind = Attribute::Kind;

Result<Attribute> Word(ByteStream& s, std::span<const std::string_view> words) {
  const uint64_t value = s.Varint();
  if (value >= words.size() || words[value].empty())
    return InvalidArgument("An enum has the number {}; this version knows {}.", value, words.size());
  return Attribute::Word(words[value]);
}

// An integer of `width` bits: a byte up to 8, a signed varint of the zero-extended value up to 64.
uint64_t ReadApInt(ByteStream& s, int width) {
  if (width <= 8) return s.Byte();
  const auto value = static_cast<uint64_t>(s.SignedVarint());
  return width >= 64 ? value : value & ((uint64_t{1} << width) - 1);
}

int64_t SignExtended(uint64_t value, int width) {
  if (width >= 64) return static_cast<int64_t>(value);
  const uint64_t sign = uint64_t{1} << (width - 1);
  value &= (sign << 1) - 1;
  return static_cast<int64_t>((value ^ sign) - sign);
}

// A number of a type that nothing here computes with, which ends no reading: its bytes are passed over.
Attribute PassedOver(ByteStream& s, const Type& type) {
  while (!s.AtEnd() && !s.failed()) s.Byte();
  Attribute out;
  out.kind = Kind::kOther;
  out.text = "a value of type " + type.text;
  return out;
}

int WidthOf(const Type& type) {
  if (type.element == ElementType::kPred) return 1;
  return type.element == ElementType::kInvalid ? 64 : BitWidth(type.element);
}

}  // namespace

Result<std::string> Entries::StringAt(uint64_t index) const {
  if (index >= container_.strings.size())
    return InvalidArgument("String {} is asked for; the bytecode has {}.", index, container_.strings.size());
  return std::string(container_.strings[index]);
}

Result<std::vector<AttributeRef>> Entries::AttributeList(ByteStream& s) {
  std::vector<AttributeRef> out;
  const std::size_t count = s.Count();
  for (std::size_t i = 0; i < count; ++i) {
    KRAFLA_ASSIGN(AttributeRef one, NextAttribute(s));
    out.push_back(one);
  }
  return out;
}

AttributeRef Entries::Number(int64_t value) {
  Attribute& out = tree_.attributes.emplace_back();
  out.kind = Kind::kInteger;
  out.integer = value;
  return &out;
}

AttributeRef Entries::Real(uint64_t bits) {
  Attribute& out = tree_.attributes.emplace_back();
  out.kind = Kind::kFloat;
  out.number = std::bit_cast<double>(bits);
  return &out;
}

Result<AttributeRef> Entries::AttributeAt(uint64_t index) {
  if (index >= attributes_.size())
    return InvalidArgument("Attribute {} is asked for; the bytecode has {}.", index, attributes_.size());
  Slot<Attribute>& slot = attributes_[index];
  if (slot.value != nullptr) return slot.value;
  if (slot.open || depth_ >= kMaxTypeDepth)
    return InvalidArgument("Attribute {} of the bytecode contains itself, or others too deep.", index);
  const Container::Entry& entry = container_.attributes[index];
  Attribute other;
  other.kind = Kind::kOther;
  other.text = entry.custom ? "an attribute of another dialect" : std::string(entry.bytes.substr(0, 80));
  Result<Attribute> made = std::move(other);
  const bool known = entry.custom && entry.dialect != Dialect::kStablehlo && entry.dialect != Dialect::kOther;
  if (known) {
    slot.open = true;
    ++depth_;
    ByteStream s(entry.bytes);
    made = entry.dialect == Dialect::kVhlo  ? DecodeVhlo(s)
           : entry.dialect == Dialect::kSdy ? DecodeSdy(s)
                                            : DecodeBuiltin(s);
    --depth_;
    slot.open = false;
    if (made && (s.failed() || !s.AtEnd()))
      return InvalidArgument("Attribute {} of the bytecode has bytes missing or left over.", index);
  }
  if (!made) return Failure(std::move(made).error());
  tree_.attributes.push_back(std::move(*made));
  attributes_[index].value = &tree_.attributes.back();
  return attributes_[index].value;
}

// Pairs of a key, which is a string, and a value: the same in both dialects.
Result<Attribute> Entries::DecodeDictionary(ByteStream& s) {
  Attribute out;
  out.kind = Kind::kDictionary;
  const std::size_t count = s.Count();
  for (std::size_t i = 0; i < count; ++i) {
    KRAFLA_ASSIGN(AttributeRef key, NextAttribute(s));
    KRAFLA_ASSIGN(AttributeRef value, NextAttribute(s));
    if (key->kind != Kind::kString) return InvalidArgument("A dictionary has a key that is no string.");
    out.entries.emplace_back(key->text, value);
  }
  return out;
}

Result<Attribute> Entries::DecodeFloat(ByteStream& s) {
  Attribute out;
  out.kind = Kind::kFloat;
  KRAFLA_ASSIGN(out.type, NextType(s));
  if (out.type->kind == Type::Kind::kOther) return PassedOver(s, *out.type);
  const ElementType type = out.type->element;
  if (!IsFloat(type)) return InvalidArgument("A floating-point attribute has another type.");
  out.number = DecodeReal(type, ReadApInt(s, BitWidth(type)));
  return out;
}

Result<Attribute> Entries::DecodeInteger(ByteStream& s) {
  Attribute out;
  out.kind = Kind::kInteger;
  KRAFLA_ASSIGN(out.type, NextType(s));
  const ElementType type = out.type->element;
  if (out.type->kind != Type::Kind::kElement ||
      (!IsIntegral(type) && type != ElementType::kPred && type != ElementType::kInvalid))
    return InvalidArgument("An integer attribute has a type that is no integer.");
  const int width = WidthOf(*out.type);
  const uint64_t bits = ReadApInt(s, width);
  out.integer = IsUnsigned(type) || type == ElementType::kPred ? static_cast<int64_t>(bits) : SignExtended(bits, width);
  return out;
}

// An alias of a custom call: output tuple indices, operand, operand tuple indices.
Attribute Entries::DecodeAlias(ByteStream& s) {
  Attribute out;
  out.kind = Kind::kDictionary;
  auto list = [&]() -> AttributeRef {
    Attribute array;
    array.kind = Kind::kArray;
    const std::size_t count = s.Count();
    for (std::size_t i = 0; i < count; ++i) array.elements.push_back(Number(s.SignedVarint()));
    tree_.attributes.push_back(std::move(array));
    return &tree_.attributes.back();
  };
  out.entries.emplace_back("output_tuple_indices", list());
  out.entries.emplace_back("operand_index", Number(s.SignedVarint()));
  out.entries.emplace_back("operand_tuple_indices", list());
  return out;
}

// result_accuracy, and Shardy's attributes: dictionaries whose fields have no names in the bytes.
Result<Attribute> Entries::DecodeFields(ByteStream& s, uint64_t code) {
  Attribute out;
  out.kind = Kind::kDictionary;
  if (code == 20) {
    out.entries.emplace_back("atol", Real(ReadApInt(s, 64)));
    out.entries.emplace_back("rtol", Real(ReadApInt(s, 64)));
    out.entries.emplace_back("ulps", Number(s.SignedVarint()));
    KRAFLA_ASSIGN(AttributeRef mode, NextAttribute(s));
    out.entries.emplace_back("mode", mode);
  } else if (code == 21) {
    out.entries.emplace_back("pre_size", Number(s.SignedVarint()));
    out.entries.emplace_back("size", Number(s.SignedVarint()));
  } else if (code == 22) {
    KRAFLA_ASSIGN(AttributeRef name, NextAttribute(s));
    out.entries.emplace_back("name", name);
    if (s.Varint() != 0) {
      KRAFLA_ASSIGN(AttributeRef sub, NextAttribute(s));
      out.entries.emplace_back("sub_axis_info", sub);
    }
  } else if (code == 23) {
    KRAFLA_ASSIGN(AttributeRef mesh, NextAttribute(s));
    KRAFLA_ASSIGN(AttributeRef axes, NextAttribute(s));
    out.entries.emplace_back("mesh", mesh);
    out.entries.emplace_back("axes", axes);
  } else if (code == 24) {
    KRAFLA_ASSIGN(AttributeRef name, NextAttribute(s));
    out.entries.emplace_back("name", name);
    out.entries.emplace_back("size", Number(s.SignedVarint()));
  } else {
    KRAFLA_ASSIGN(AttributeRef axes, NextAttribute(s));
    out.entries.emplace_back("axes", axes);
    const uint64_t ids = s.Varint();
    if ((ids & 1) != 0) {
      KRAFLA_ASSIGN(AttributeRef list, AttributeAt(ids >> 1));
      out.entries.emplace_back("device_ids", list);
    }
  }
  return out;
}

Result<Attribute> Entries::DecodeVhlo(ByteStream& s) {
  const uint64_t code = s.Varint();
  Attribute out;
  switch (code) {
    case 1: {
      out.kind = Kind::kArray;
      KRAFLA_ASSIGN(out.elements, AttributeList(s));
      return out;
    }
    case 2:
      out.kind = Kind::kBool;
      out.integer = static_cast<int64_t>(s.Varint());
      if (out.integer > 1) return InvalidArgument("A boolean attribute has the value {}.", out.integer);
      return out;
    case 3: return Word(s, kDirectionWords);
    case 4: return Word(s, kComparisonTypeWords);
    case 5: return Word(s, kApiVersionWords);
    case 6: return DecodeDictionary(s);
    case 7: return Word(s, kFftWords);
    case 8: return DecodeFloat(s);
    case 9: return DecodeInteger(s);
    case 10: return DecodeAlias(s);
    case 11: return Word(s, kPrecisionWords);
    case 12: return Word(s, kRngAlgorithmWords);
    case 13: return Word(s, kRngDistributionWords);
    case 14: {
      out.kind = Kind::kString;
      KRAFLA_ASSIGN(out.text, StringAt(s.Varint()));
      return out;
    }
    case 15: KRAFLA_TRY(DecodeTensor(s, out)); return out;
    case 16: return Word(s, kTransposeWords);
    case 17: {
      out.kind = Kind::kType;
      KRAFLA_ASSIGN(out.type, NextType(s));
      return out;
    }
    case 18: {
      out.kind = Kind::kArray;
      const std::size_t count = s.Count();
      for (std::size_t i = 0; i < count; ++i) out.elements.push_back(Number(s.SignedVarint()));
      return out;
    }
    case 19: return Word(s, kAccuracyModeWords);
    case 20:
    case 21:
    case 22:
    case 23:
    case 24:
    case 25: return DecodeFields(s, code);
    default: return Unimplemented("VHLO has an attribute of the number {}, which this version does not know.", code);
  }
}

// The elements as a Literal holds them, one where all are the same.
Result<> Entries::DecodeTensor(ByteStream& s, Attribute& out) {
  out.kind = Kind::kDense;
  KRAFLA_ASSIGN(out.type, NextType(s));
  std::string_view blob = s.Bytes(s.Varint());
  const Type& type = *out.type;
  if (type.kind != Type::Kind::kTensor) return InvalidArgument("A dense attribute has a type that is no tensor.");
  int64_t count = 1;
  for (int64_t d : type.dims) {
    auto product = d < 0 ? std::nullopt : CheckedMul(count, d);
    if (!product)
      return InvalidArgument("A dense attribute has dimensions that are not known or multiply past 63 bits.");
    count = *product;
  }
  const int64_t size = static_cast<int64_t>(blob.size());
  if (type.element == ElementType::kPred) {
    const int64_t packed = count / 8 + (count % 8 != 0 ? 1 : 0);
    if (size == 1 && (count > 8 || blob[0] == static_cast<char>(0xff)) && count > 0) {
      out.splat = true;
      out.bytes = std::string(1, blob[0] != 0 ? '\1' : '\0');
    } else if (size == packed) {
      out.bytes.resize(static_cast<std::size_t>(count));
      for (int64_t i = 0; i < count; ++i)
        out.bytes[static_cast<std::size_t>(i)] =
            static_cast<char>((static_cast<unsigned char>(blob[static_cast<std::size_t>(i / 8)]) >> (i % 8)) & 1);
    } else if (size == count) {  // as older writers had it
      out.bytes = blob;
      for (char& b : out.bytes) b = b != 0 ? 1 : 0;
    } else {
      return InvalidArgument("A dense attribute of {} booleans has {} bytes.", count, size);
    }
    return {};
  }
  const int width = type.element == ElementType::kInvalid ? 8 : StorageBytes(type.element);
  auto all = CheckedMul(count, int64_t{width});
  if (size == width && count != 1) out.splat = true;
  else if (!all || size != *all)
    return InvalidArgument("A dense attribute of {} elements of {} bytes has {} bytes.", count, width, size);
  out.bytes = blob;
  const int bits = type.element == ElementType::kInvalid ? 64 : BitWidth(type.element);
  if (bits < 8)
    for (char& b : out.bytes) {
      const auto low = static_cast<uint8_t>(static_cast<unsigned char>(b) & ((1u << bits) - 1));
      b = static_cast<char>(IsSigned(type.element) ? SignExtended(low, bits) : low);
    }
  return {};
}

Result<Attribute> Entries::DecodeBuiltin(ByteStream& s) {
  const uint64_t code = s.Varint();
  Attribute out;
  switch (code) {
    case 0: {
      out.kind = Kind::kArray;
      KRAFLA_ASSIGN(out.elements, AttributeList(s));
      return out;
    }
    case 1: return DecodeDictionary(s);
    case 2:
    case 3: {
      out.kind = Kind::kString;
      KRAFLA_ASSIGN(out.text, StringAt(s.Varint()));
      if (code == 3) KRAFLA_TRY(NextType(s));
      return out;
    }
    case 4: {
      KRAFLA_ASSIGN(AttributeRef name, NextAttribute(s));
      return *name;
    }
    case 5: {
      KRAFLA_ASSIGN(AttributeRef name, NextAttribute(s));
      KRAFLA_TRY(AttributeList(s));
      return *name;
    }
    case 6: {
      out.kind = Kind::kType;
      KRAFLA_ASSIGN(out.type, NextType(s));
      return out;
    }
    case 7: return out;
    case 8: {
      out.kind = Kind::kInteger;
      KRAFLA_ASSIGN(out.type, NextType(s));
      if (out.type->kind == Type::Kind::kOther) return PassedOver(s, *out.type);
      if (out.type->kind != Type::Kind::kElement || IsFloat(out.type->element) || IsComplex(out.type->element))
        return InvalidArgument("An integer attribute has a type that is no integer.");
      const int width = WidthOf(*out.type);
      const uint64_t bits = ReadApInt(s, width);
      out.integer =
          IsUnsigned(out.type->element) || width == 1 ? static_cast<int64_t>(bits) : SignExtended(bits, width);
      return out;
    }
    default:
      // Locations, and what no operation here takes: passed over.
      while (!s.AtEnd() && !s.failed()) s.Byte();
      out.kind = Kind::kOther;
      out.text = Format("builtin attribute {}", code);
      return out;
  }
}

void Entries::Location(uint64_t index, std::string* place, std::string* name, int depth) const {
  if (index >= container_.attributes.size() || depth > 16) return;
  const Container::Entry& entry = container_.attributes[index];
  if (!entry.custom || entry.dialect != Dialect::kBuiltin) return;
  ByteStream s(entry.bytes);
  auto text = [&](uint64_t at) -> std::string {
    if (at >= container_.attributes.size()) return {};
    ByteStream string(container_.attributes[at].bytes);
    if (string.Varint() != 2) return {};
    const uint64_t number = string.Varint();
    return number < container_.strings.size() ? std::string(container_.strings[number]) : std::string();
  };
  switch (s.Varint()) {
    case 10: return Location(s.Varint(), place, name, depth + 1);
    case 11: {
      std::string file = text(s.Varint());
      const uint64_t line = s.Varint(), column = s.Varint();
      if (place->empty() && !file.empty()) *place = Format("{}:{}:{}", file, line, column);
      return;
    }
    case 12: {
      if (s.Count() > 0) Location(s.Varint(), place, name, depth + 1);
      return;
    }
    case 14: {
      std::string own = text(s.Varint());
      if (name->empty()) *name = std::move(own);
      return Location(s.Varint(), place, name, depth + 1);
    }
    case 22: {
      std::string file = text(s.Varint());
      const std::size_t count = s.Count();
      const uint64_t line = count > 0 ? s.Varint() : 0, column = count > 1 ? s.Varint() : 0;
      if (place->empty() && !file.empty()) *place = Format("{}:{}:{}", file, line, column);
      return;
    }
    default: return;
  }
}

}  // namespace krafla::stablehlo
