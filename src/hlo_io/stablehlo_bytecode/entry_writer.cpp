// SPDX-License-Identifier: Apache-2.0
// The inverse of entries.cpp and types.cpp.
#include "hlo_io/stablehlo_bytecode/entry_writer.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "hlo_io/element_codec.h"
#include "hlo_io/stablehlo/words.h"

namespace krafla::stablehlo {
namespace {

using Kind = Attribute::Kind;

// The types of elements with their numbers in VHLO and the minor version that brought them.
struct ElementCode {
  ElementType type;
  uint8_t code;
  int minor = 0;
};
constexpr ElementCode kElementCodes[] = {
    {ElementType::kPred, 0},        {ElementType::kBF16, 2},         {ElementType::kF16, 3},
    {ElementType::kF32, 4},         {ElementType::kF64, 5},          {ElementType::kF8E4M3FN, 6},
    {ElementType::kF8E5M2, 7},      {ElementType::kInvalid, 9},      {ElementType::kS4, 10},
    {ElementType::kS8, 11},         {ElementType::kS16, 12},         {ElementType::kS32, 13},
    {ElementType::kS64, 14},        {ElementType::kU4, 15},          {ElementType::kU8, 16},
    {ElementType::kU16, 17},        {ElementType::kU32, 18},         {ElementType::kU64, 19},
    {ElementType::kF8E4M3FNUZ, 27}, {ElementType::kF8E5M2FNUZ, 28},  {ElementType::kF8E4M3B11FNUZ, 29},
    {ElementType::kS2, 31, 2},      {ElementType::kU2, 32, 2},       {ElementType::kF8E4M3, 35, 7},
    {ElementType::kF8E3M4, 36, 7},  {ElementType::kF4E2M1FN, 37, 8}, {ElementType::kF8E8M0FNU, 40, 8}};
constexpr uint8_t kComplexCode = 1, kFunctionCode = 8, kTensorCode = 20, kBoundedTensorCode = 21, kTokenCode = 22,
                  kTupleCode = 23, kNoneCode = 33, kTf32Code = 34;
// Attributes of VHLO.
constexpr uint8_t kArrayCode = 1, kBoolCode = 2, kDictionaryCode = 6, kFloatCode = 8, kIntegerCode = 9, kAliasCode = 10,
                  kStringCode = 14, kDenseCode = 15, kTypeCode = 17, kBoundsCode = 18, kAccuracyCode = 20;
// Attributes and types of builtin (mlir/IR/BuiltinDialectBytecode.td).
constexpr uint8_t kBuiltinDictionary = 1, kBuiltinString = 2, kBuiltinInteger = 8, kNameLocation = 14,
                  kUnknownLocation = 15, kBuiltinIntegerType = 0;

// Entries that are looked for among those that are there; larger ones are weights.
constexpr std::size_t kLargestShared = 4096;

int BitsOf(ElementType type) {
  if (type == ElementType::kPred) return 1;
  return type == ElementType::kInvalid ? 64 : BitWidth(type);
}

// An integer of `width` bits: a byte up to 8, a signed varint of the zero-extended value up to 64.
void PutApInt(ByteSink& sink, uint64_t value, int width) {
  if (width < 64) value &= (uint64_t{1} << width) - 1;
  if (width <= 8) sink.Byte(static_cast<uint8_t>(value));
  else sink.SignedVarint(static_cast<int64_t>(value));
}

// Eight to a byte; one value for all is a byte of it.
std::string PackedBooleans(const Attribute& a) {
  if (a.splat || a.bytes.size() == 1) return {a.bytes[0] != 0 ? '\xff' : '\0'};
  std::string out((a.bytes.size() + 7) / 8, '\0');
  for (std::size_t n = 0; n < a.bytes.size(); ++n)
    if (a.bytes[n] != 0) out[n / 8] = static_cast<char>(static_cast<unsigned char>(out[n / 8]) | (1u << (n % 8)));
  return out;
}

}  // namespace

uint64_t EntryWriter::Intern(Table& table, WrittenDialect dialect, std::string bytes) {
  if (bytes.size() > kLargestShared) {
    table.entries.emplace_back(dialect, std::move(bytes));
    return table.entries.size() - 1;
  }
  std::string key = static_cast<char>(dialect) + bytes;
  const auto [at, is_new] = table.numbers.emplace(std::move(key), table.entries.size());
  if (is_new) table.entries.emplace_back(dialect, std::move(bytes));
  return at->second;
}

uint64_t EntryWriter::String(std::string_view text) {
  const auto [at, is_new] = string_numbers_.emplace(std::string(text), strings_.size());
  if (is_new) strings_.emplace_back(text);
  return at->second;
}

Result<uint64_t> EntryWriter::ElementNumber(ElementType type) {
  ByteSink sink;
  if (IsComplex(type)) {
    KRAFLA_ASSIGN(const uint64_t part, ElementNumber(RealPart(type)));
    sink.Varint(kComplexCode);
    sink.Varint(part);
    return Intern(types_, WrittenDialect::kVhlo, sink.Take());
  }
  for (const ElementCode& known : kElementCodes) {
    if (known.type != type) continue;
    Need(known.minor);
    sink.Varint(known.code);
    return Intern(types_, WrittenDialect::kVhlo, sink.Take());
  }
  return Unimplemented("VHLO has no elements of type {}.", ElementTypeName(type));
}

Result<> EntryWriter::PutTypes(ByteSink& sink, std::span<const TypeRef> types) {
  sink.Varint(types.size());
  for (TypeRef type : types) {
    KRAFLA_ASSIGN(const uint64_t number, Type(*type));
    sink.Varint(number);
  }
  return {};
}

Result<> EntryWriter::PutArrayType(ByteSink& sink, const stablehlo::Type& type) {
  KRAFLA_ASSIGN(const uint64_t element, ElementNumber(type.element));
  if (type.bounds.empty()) {
    sink.Varint(kTensorCode);
  } else {
    ByteSink bounds;
    bounds.Varint(kBoundsCode);
    bounds.Varint(type.bounds.size());
    for (int64_t bound : type.bounds) bounds.SignedVarint(bound);
    sink.Varint(kBoundedTensorCode);
    sink.Varint(Intern(attributes_, WrittenDialect::kVhlo, bounds.Take()));
  }
  sink.Varint(type.dims.size());
  for (int64_t d : type.dims) sink.SignedVarint(d);
  sink.Varint(element);
  return {};
}

Result<uint64_t> EntryWriter::Type(const stablehlo::Type& type) {
  if (auto known = type_numbers_.find(&type); known != type_numbers_.end()) return known->second;
  using TypeKind = stablehlo::Type::Kind;
  ByteSink sink;
  switch (type.kind) {
    case TypeKind::kElement: return ElementNumber(type.element);
    case TypeKind::kNone: sink.Varint(kNoneCode); break;
    case TypeKind::kToken: sink.Varint(kTokenCode); break;
    case TypeKind::kTuple:
      sink.Varint(kTupleCode);
      KRAFLA_TRY(PutTypes(sink, type.elements));
      break;
    case TypeKind::kFunction:
      sink.Varint(kFunctionCode);
      KRAFLA_TRY(PutTypes(sink, type.elements));
      KRAFLA_TRY(PutTypes(sink, type.results));
      break;
    case TypeKind::kTensor: KRAFLA_TRY(PutArrayType(sink, type)); break;
    case TypeKind::kOther:
      if (type.text != "tf32") return Unimplemented("VHLO has no type {}.", type.text.substr(0, 60));
      Need(6);
      sink.Varint(kTf32Code);
      break;
  }
  return type_numbers_[&type] = Intern(types_, WrittenDialect::kVhlo, sink.Take());
}

Result<> EntryWriter::PutAttributes(ByteSink& sink, std::span<const AttributeRef> list, std::string_view key) {
  sink.Varint(list.size());
  for (AttributeRef one : list) {
    KRAFLA_ASSIGN(const uint64_t number, Attribute(*one, key));
    sink.Varint(number);
  }
  return {};
}

Result<> EntryWriter::PutNumber(ByteSink& sink, const stablehlo::Attribute& a) {
  const bool real = a.kind == Kind::kFloat;
  const ElementType type = a.type != nullptr ? a.type->element : real ? ElementType::kF64 : ElementType::kS64;
  KRAFLA_ASSIGN(const uint64_t number, ElementNumber(type));
  const uint64_t bits = real ? EncodeReal(type, a.number) : static_cast<uint64_t>(a.integer);
  sink.Varint(real ? kFloatCode : kIntegerCode);
  sink.Varint(number);
  PutApInt(sink, bits, BitsOf(type));
  return {};
}

Result<> EntryWriter::PutTensor(ByteSink& sink, const stablehlo::Attribute& a) {
  KRAFLA_ASSIGN(const uint64_t type, Type(*a.type));
  sink.Varint(kDenseCode);
  sink.Varint(type);
  const ElementType element = a.type->element;
  const int bits = BitsOf(element);
  if (element == ElementType::kPred && !a.bytes.empty()) {
    const std::string packed = PackedBooleans(a);
    sink.Varint(packed.size());
    sink.Bytes(packed);
  } else if (bits < 8) {
    std::string low = a.bytes;
    for (char& c : low) c = static_cast<char>(static_cast<unsigned char>(c) & ((1u << bits) - 1));
    sink.Varint(low.size());
    sink.Bytes(low);
  } else {
    sink.Varint(a.bytes.size());
    sink.Bytes(a.bytes);
  }
  return {};
}

// Dictionaries with fields that have no names in the bytes, and others.
Result<> EntryWriter::PutDictionary(ByteSink& sink, const std::vector<std::pair<std::string, AttributeRef>>& entries,
                                    std::string_view key) {
  const auto numbers = [&](const stablehlo::Attribute& list) {
    sink.Varint(list.elements.size());
    for (AttributeRef one : list.elements) sink.SignedVarint(one->integer);
  };
  if (key == "result_accuracy") {
    sink.Varint(kAccuracyCode);
    for (std::size_t n = 0; n < 2; ++n) PutApInt(sink, std::bit_cast<uint64_t>(entries[n].second->number), 64);
    sink.SignedVarint(entries[2].second->integer);
    KRAFLA_ASSIGN(const uint64_t mode, Attribute(*entries[3].second, "mode"));
    sink.Varint(mode);
    return {};
  }
  if (key == "output_operand_aliases") {
    sink.Varint(kAliasCode);
    numbers(*entries[0].second);
    sink.SignedVarint(entries[1].second->integer);
    numbers(*entries[2].second);
    return {};
  }
  sink.Varint(kDictionaryCode);
  auto sorted = entries;
  std::ranges::sort(sorted, {}, [](const auto& entry) { return entry.first; });
  sink.Varint(sorted.size());
  for (const auto& [name, value] : sorted) {
    ByteSink text;
    text.Varint(kStringCode);
    text.Varint(String(name));
    sink.Varint(Intern(attributes_, WrittenDialect::kVhlo, text.Take()));
    KRAFLA_ASSIGN(const uint64_t number, Attribute(*value, name));
    sink.Varint(number);
  }
  return {};
}

Result<uint64_t> EntryWriter::Attribute(const stablehlo::Attribute& a, std::string_view key) {
  ByteSink sink;
  switch (a.kind) {
    case Kind::kBool:
      sink.Varint(kBoolCode);
      sink.Varint(a.integer != 0 ? 1 : 0);
      break;
    case Kind::kInteger:
    case Kind::kFloat: KRAFLA_TRY(PutNumber(sink, a)); break;
    case Kind::kString:
      sink.Varint(kStringCode);
      sink.Varint(String(a.text));
      break;
    case Kind::kWord: {
      const EnumWords* of = EnumOf(key);
      const int number = EnumNumber(key, a.text);
      if (number < 0) return Unimplemented("VHLO has no word '{}' for '{}'.", a.text.substr(0, 60), key);
      sink.Varint(of->code);
      sink.Varint(static_cast<uint64_t>(number));
      break;
    }
    case Kind::kType: {
      KRAFLA_ASSIGN(const uint64_t type, Type(*a.type));
      sink.Varint(kTypeCode);
      sink.Varint(type);
      break;
    }
    case Kind::kArray:
      sink.Varint(kArrayCode);
      KRAFLA_TRY(PutAttributes(sink, a.elements, key));
      break;
    case Kind::kDictionary: KRAFLA_TRY(PutDictionary(sink, a.entries, key)); break;
    case Kind::kDense: KRAFLA_TRY(PutTensor(sink, a)); break;
    case Kind::kUnit:
    case Kind::kOther: return Unimplemented("VHLO has no attribute '{}'.", a.text.substr(0, 60));
  }
  return Intern(attributes_, WrittenDialect::kVhlo, sink.Take());
}

uint64_t EntryWriter::BuiltinString(std::string_view text) {
  ByteSink sink;
  sink.Varint(kBuiltinString);
  sink.Varint(String(text));
  return Intern(attributes_, WrittenDialect::kBuiltin, sink.Take());
}

Result<uint64_t> EntryWriter::BuiltinAttribute(const stablehlo::Attribute& a) {
  if (a.kind == Kind::kString) return BuiltinString(a.text);
  if (a.kind == Kind::kDictionary) return Dictionary(a.entries, WrittenDialect::kBuiltin);
  if (a.kind != Kind::kInteger) return Unimplemented("An attribute of the module has a form that is not written.");
  const int bits = BitsOf(a.type->element);
  ByteSink type, sink;
  type.Varint(kBuiltinIntegerType);
  type.Varint(static_cast<uint64_t>(bits) << 2);  // without a sign of its own
  sink.Varint(kBuiltinInteger);
  sink.Varint(Intern(types_, WrittenDialect::kBuiltin, type.Take()));
  PutApInt(sink, static_cast<uint64_t>(a.integer), bits);
  return Intern(attributes_, WrittenDialect::kBuiltin, sink.Take());
}

Result<uint64_t> EntryWriter::Dictionary(const std::vector<std::pair<std::string, AttributeRef>>& entries,
                                         WrittenDialect values) {
  auto sorted = entries;
  std::ranges::sort(sorted, {}, [](const auto& entry) { return entry.first; });
  ByteSink sink;
  sink.Varint(kBuiltinDictionary);
  sink.Varint(sorted.size());
  for (const auto& [name, value] : sorted) {
    sink.Varint(BuiltinString(name));
    KRAFLA_ASSIGN(const uint64_t number,
                  values == WrittenDialect::kVhlo ? Attribute(*value, name) : BuiltinAttribute(*value));
    sink.Varint(number);
  }
  return Intern(attributes_, WrittenDialect::kBuiltin, sink.Take());
}

uint64_t EntryWriter::Location(std::string_view name) {
  ByteSink unknown;
  unknown.Varint(kUnknownLocation);
  const uint64_t nowhere = Intern(attributes_, WrittenDialect::kBuiltin, unknown.Take());
  if (name.empty()) return nowhere;
  ByteSink sink;
  sink.Varint(kNameLocation);
  sink.Varint(BuiltinString(name));
  sink.Varint(nowhere);
  return Intern(attributes_, WrittenDialect::kBuiltin, sink.Take());
}

// Sizes, the last one first, and then the strings, each with a zero.
std::string EntryWriter::Strings() const {
  ByteSink sink;
  sink.Varint(strings_.size());
  for (std::size_t n = strings_.size(); n-- > 0;) sink.Varint(strings_[n].size() + 1);
  for (const std::string& text : strings_) {
    sink.Bytes(text);
    sink.Byte(0);
  }
  return sink.Take();
}

std::string EntryWriter::Entries() const {
  std::string out;
  for (const Table* table : {&attributes_, &types_})
    for (const auto& [dialect, bytes] : table->entries) out += bytes;
  return out;
}

// The sizes of the entries, in runs of one dialect.
std::string EntryWriter::Offsets() const {
  ByteSink sink;
  sink.Varint(attributes_.entries.size());
  sink.Varint(types_.entries.size());
  for (const Table* table : {&attributes_, &types_}) {
    const auto& entries = table->entries;
    for (std::size_t begin = 0; begin < entries.size();) {
      std::size_t end = begin;
      while (end < entries.size() && entries[end].first == entries[begin].first) ++end;
      sink.Varint(static_cast<uint64_t>(entries[begin].first));
      sink.Varint(end - begin);
      for (; begin < end; ++begin) sink.Varint((entries[begin].second.size() << 1) | 1);  // in its dialect's encoding
    }
  }
  return sink.Take();
}

}  // namespace krafla::stablehlo
