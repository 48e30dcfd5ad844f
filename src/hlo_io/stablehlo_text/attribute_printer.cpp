// SPDX-License-Identifier: Apache-2.0
// Types and attributes as MLIR prints them.
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>

#include "hlo_io/element_codec.h"
#include "hlo_io/stablehlo/words.h"
#include "hlo_io/stablehlo_text/element_words.h"
#include "hlo_io/stablehlo_text/printer.h"

namespace krafla::stablehlo {
namespace {

using Kind = Attribute::Kind;

// Elements that are written one by one; more are a string of bytes.
constexpr int64_t kMostListedElements = 64;

std::string ElementWord(ElementType type) {
  if (IsComplex(type)) return "complex<" + ElementWord(RealPart(type)) + ">";
  for (const auto& [word, element] : kElementWords)
    if (element == type) return std::string(word);
  return std::string(ElementTypeName(type));
}

bool IsBareWord(std::string_view text) {
  if (text.empty() || (text[0] >= '0' && text[0] <= '9')) return false;
  for (char c : text)
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
          c == '$'))
      return false;
  return text[0] != '.' && text[0] != '$';
}

// The shortest digits that are this number again, with the point that MLIR wants; its bits where there are none.
std::string RealDigits(double value, ElementType type, uint64_t bits) {
  std::array<char, 64> buffer;
  const auto end = type == ElementType::kF64
                       ? std::to_chars(buffer.data(), buffer.data() + buffer.size(), value)
                       : std::to_chars(buffer.data(), buffer.data() + buffer.size(), static_cast<float>(value));
  std::string digits(buffer.data(), end.ptr);
  // MLIR reads the digits as a double and rounds that.
  double again = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), again);
  if (!std::isfinite(value) || EncodeReal(type, again) != bits)
    return Format("0x{:0{}X}", bits, 2 * StorageBytes(type));
  if (const std::size_t mark = digits.find('e'); digits.find('.') == std::string::npos)
    digits.insert(std::min(mark, digits.size()), ".0");
  return digits;
}

std::string ElementText(ElementType type, const std::byte* at) {
  if (type == ElementType::kPred) return *at != std::byte{0} ? "true" : "false";
  if (IsComplex(type)) {
    const ElementType part = RealPart(type);
    return "(" + ElementText(part, at) + ", " + ElementText(part, at + StorageBytes(part)) + ")";
  }
  const int width = type == ElementType::kInvalid ? 8 : StorageBytes(type);
  uint64_t bits = LoadBits(at, width);
  if (IsFloat(type)) return RealDigits(DecodeReal(type, bits), type, bits);
  if (IsUnsigned(type)) return std::to_string(bits);
  if (width < 8 && (bits >> (width * 8 - 1)) != 0) bits |= ~uint64_t{0} << (width * 8);
  return std::to_string(static_cast<int64_t>(bits));
}

// [[1, 2], [3, 4]]
void ListElements(const Attribute& a, std::size_t width, std::size_t d, std::size_t& at, std::string& out) {
  const Type& type = *a.type;
  if (d == type.dims.size()) {
    out += ElementText(type.element, reinterpret_cast<const std::byte*>(a.bytes.data()) + at * width);
    ++at;
    return;
  }
  out += '[';
  for (int64_t n = 0; n < type.dims[d]; ++n) {
    if (n > 0) out += ", ";
    ListElements(a, width, d + 1, at, out);
  }
  out += ']';
}

void AppendHex(const std::string& bytes, std::string& out) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  out.reserve(out.size() + 2 * bytes.size() + 8);
  out += "\"0x";
  for (char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  out += '"';
}

std::string DenseText(const Attribute& a) {
  const Type& type = *a.type;
  int64_t count = 1;
  for (int64_t d : type.dims) count *= d;
  const auto width = static_cast<std::size_t>(type.element == ElementType::kInvalid ? 8 : StorageBytes(type.element));
  std::string out = "dense<";
  // Bytes are plain where an element is made of whole ones.
  const bool whole_bytes =
      type.element != ElementType::kPred && type.element != ElementType::kInvalid && BitWidth(type.element) >= 8;
  if (a.splat) {
    out += ElementText(type.element, reinterpret_cast<const std::byte*>(a.bytes.data()));
  } else if (count > kMostListedElements && whole_bytes) {
    AppendHex(a.bytes, out);
  } else if (count > 0) {
    std::size_t at = 0;
    ListElements(a, width, 0, at, out);
  }
  return out + "> : " + PrintType(type);
}

// array<i64: 1, 2>
std::string ArrayText(const Attribute& a) {
  std::string out = "array<" + ElementWord(a.type->element);
  const auto width = static_cast<std::size_t>(StorageBytes(a.type->element));
  for (std::size_t at = 0; at < a.bytes.size(); at += width)
    out +=
        (at == 0 ? ": " : ", ") + ElementText(a.type->element, reinterpret_cast<const std::byte*>(a.bytes.data()) + at);
  return out + ">";
}

std::string NumberText(const Attribute& a) {
  const ElementType type = a.type != nullptr ? a.type->element : ElementType::kInvalid;
  if (a.kind == Kind::kFloat) {
    const ElementType real = IsFloat(type) ? type : ElementType::kF64;
    return RealDigits(a.number, real, EncodeReal(real, a.number)) + " : " + ElementWord(real);
  }
  const std::string digits =
      IsUnsigned(type) ? std::to_string(static_cast<uint64_t>(a.integer)) : std::to_string(a.integer);
  return digits + " : " + (a.type != nullptr ? ElementWord(type) : "i64");
}

}  // namespace

std::string PrintType(const Type& type) {
  switch (type.kind) {
    case Type::Kind::kNone: return "none";
    case Type::Kind::kElement: return ElementWord(type.element);
    case Type::Kind::kToken: return "!stablehlo.token";
    case Type::Kind::kOther: return type.text;
    case Type::Kind::kTuple:
    case Type::Kind::kFunction: {
      const bool function = type.kind == Type::Kind::kFunction;
      const auto list = [](const std::vector<TypeRef>& types) {
        std::string out;
        for (TypeRef one : types) out += (out.empty() ? "" : ", ") + PrintType(*one);
        return out;
      };
      if (!function) return "tuple<" + list(type.elements) + ">";
      return "(" + list(type.elements) + ") -> (" + list(type.results) + ")";
    }
    case Type::Kind::kTensor: break;
  }
  const auto size = [](int64_t d) { return d == kDynamicDim ? std::string("?") : std::to_string(d); };
  std::string out = "tensor<";
  for (int64_t d : type.dims) out += size(d) + "x";
  out += ElementWord(type.element);
  for (std::size_t d = 0; d < type.bounds.size(); ++d)
    out += (d == 0 ? ", #stablehlo.bounds<" : ", ") + size(type.bounds[d]);
  return out + (type.bounds.empty() ? ">" : ">>");
}

std::string QuoteMlir(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') out += Format("\\{}", c);
    else if (byte < 0x20 || byte >= 0x7f) out += Format("\\{:02X}", byte);
    else out += c;
  }
  return out + "\"";
}

std::string PrintSymbol(std::string_view name) {
  return "@" + (IsBareWord(name) ? std::string(name) : QuoteMlir(name));
}

std::string PrintDictionaryEntries(const std::vector<std::pair<std::string, AttributeRef>>& entries) {
  std::string out;
  for (const auto& [key, value] : entries) {
    out += out.empty() ? "" : ", ";
    out += IsBareWord(key) ? key : QuoteMlir(key);
    if (value->kind != Kind::kUnit) out += " = " + PrintMlirAttribute(*value, key, /*inherent=*/false);
  }
  return out;
}

std::string PrintMlirAttribute(const Attribute& a, std::string_view key, bool inherent) {
  switch (a.kind) {
    case Kind::kUnit: return "unit";
    case Kind::kBool: return a.integer != 0 ? "true" : "false";
    case Kind::kInteger:
    case Kind::kFloat: return NumberText(a);
    case Kind::kString: return QuoteMlir(a.text);
    case Kind::kWord: {
      const EnumWords* of = EnumOf(key);
      return of == nullptr ? a.text : Format("#stablehlo<{} {}>", of->kind, a.text);
    }
    case Kind::kType: return PrintType(*a.type);
    case Kind::kOther: return a.text;
    case Kind::kArray: {
      std::string out = "[";
      for (AttributeRef one : a.elements) out += (out.size() > 1 ? ", " : "") + PrintMlirAttribute(*one, key, false);
      return out + "]";
    }
    case Kind::kDictionary: return "{" + PrintDictionaryEntries(a.entries) + "}";
    case Kind::kDense: {
      const bool numbers = a.type->element != ElementType::kInvalid && !IsFloat(a.type->element);
      return inherent && numbers && a.type->dims.size() == 1 && key != "value" ? ArrayText(a) : DenseText(a);
    }
  }
  return "";
}

}  // namespace krafla::stablehlo
