// SPDX-License-Identifier: Apache-2.0
// Elements that are given as bytes: those of dense arrays, and those that stand behind a module under names
// (mlir/lib/AsmParser: dense_resource, file metadata).
#include <algorithm>

#include "base/checked_math.h"
#include "hlo_io/stablehlo_text/parser.h"

namespace krafla::stablehlo {
namespace {

using Kind = Attribute::Kind;

// A resource begins with the alignment that its bytes want, which are copied here.
constexpr std::size_t kAlignmentBytes = 4;
// Bytes of resources that arrays take, over the text's own: a resource may be the elements of arrays of many types.
constexpr std::size_t kMostUsesOfText = 16;

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char low = static_cast<char>(c | 32);
  return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

std::string UnpackedBits(std::string_view bytes, int64_t count) {
  std::string out(static_cast<std::size_t>(count), '\0');
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<char>((static_cast<unsigned char>(bytes[i / 8]) >> (i % 8)) & 1);
  return out;
}

// A byte as an element of fewer bits has it.
char NarrowElement(char byte, ElementType type) {
  if (type == ElementType::kPred) return byte != 0 ? '\1' : '\0';
  const int bits = BitWidth(type);
  const unsigned low = static_cast<unsigned char>(byte) & ((1u << bits) - 1);
  const bool negative = IsSigned(type) && (low >> (bits - 1)) != 0;
  return static_cast<char>(negative ? low | (~0u << bits) : low);
}

}  // namespace

Result<int64_t> TextParser::CountOf(const Type& type, std::size_t begin) const {
  int64_t count = 1;
  for (int64_t d : type.dims) {
    auto product = d < 0 ? std::nullopt : CheckedMul(count, d);
    if (!product)
      return lex_.ErrorAt(begin, "The dimensions of a dense value must be known, and their product must fit 63 bits.");
    count = *product;
  }
  return count;
}

Result<std::string> TextParser::HexBytes(std::string_view text, std::size_t begin) const {
  const auto bad = [&] {
    return lex_.ErrorAt(begin, "A string of elements must be hexadecimal digits after 0x, two a byte.");
  };
  if (!text.starts_with("0x") || text.size() % 2 != 0) return bad();
  std::string out;
  out.reserve(text.size() / 2);
  for (std::size_t i = 2; i < text.size(); i += 2) {
    const int high = HexDigit(text[i]), low = HexDigit(text[i + 1]);
    if (high < 0 || low < 0) return bad();
    out += static_cast<char>(high * 16 + low);
  }
  return out;
}

// The bytes of so many elements, as they are kept. Booleans come a byte each, by older MLIR a bit each, but never those
// that one byte holds: MLIR writes few elements as words, and reads one byte as all of them.
Result<> TextParser::CheckBytes(Attribute& dense, int64_t count, bool may_be_one, std::size_t begin) const {
  const ElementType type = dense.type->element;
  const int width = type == ElementType::kInvalid ? 8 : StorageBytes(type);
  const auto size = std::ssize(dense.bytes);
  const auto all = CheckedMul(count, int64_t{width});
  const bool is_one = may_be_one && size == width && count != 1;
  if (type == ElementType::kPred && !is_one && size == count / 8 + (count % 8 != 0 ? 1 : 0) && size != count) {
    dense.bytes = UnpackedBits(dense.bytes, count);
    return {};
  }
  if (is_one) dense.splat = true;
  else if (!all || size != *all)
    return lex_.ErrorAt(begin, Format("{} elements of {} bytes are given as {} bytes.", count, width, size));
  if (type == ElementType::kPred || (type != ElementType::kInvalid && BitWidth(type) < 8))
    for (char& byte : dense.bytes) byte = NarrowElement(byte, type);
  return {};
}

// "dense_resource<key> : tensor<4xf32>": an array without elements until those are read. Of a key and a type there is
// one array.
Result<AttributeRef> TextParser::ParseDenseResource() {
  const std::size_t begin = lex_.Next().begin;
  KRAFLA_TRY(lex_.Expect('<'));
  if (lex_.token().kind != MlirTok::kWord && lex_.token().kind != MlirTok::kString)
    return lex_.Unexpected("the name of a resource");
  std::string key = UnescapeMlir(lex_.Next().text);
  KRAFLA_TRY(lex_.Expect('>'));
  KRAFLA_TRY(lex_.Expect(':'));
  const std::size_t type_begin = lex_.token().begin;
  KRAFLA_ASSIGN(const TypeRef type, ParseType());
  if (type->kind == Type::Kind::kOther) return Keep(Uncomputable(*type));
  if (type->kind != Type::Kind::kTensor)
    return lex_.ErrorAt(begin, "A resource has a type that is not a tensor of numbers.");
  const std::string_view spelled = lex_.text().substr(type_begin, lex_.token().begin - type_begin);
  const std::string use = Format("{}:{}:{}", key.size(), key, spelled.substr(0, spelled.find_last_of('>') + 1));
  if (auto known = resources_by_use_.find(use); known != resources_by_use_.end()) return known->second;
  KRAFLA_ASSIGN(const int64_t count, CountOf(*type, begin));
  Attribute out;
  out.kind = Kind::kOther;
  out.type = type;
  out.text = Format("dense_resource<{}>, whose bytes the text does not have", key.substr(0, 60));
  Attribute& kept = tree_.attributes.emplace_back(std::move(out));
  resources_.push_back({&kept, count, std::move(key), begin});
  resources_by_use_.emplace(use, &kept);
  return &kept;
}

// "{-# dialect_resources: {builtin: {key: "0x0400..", ..}}, external_resources: {..} #-}". Those of other dialects, and
// what tools write for themselves, are passed over.
Result<> TextParser::ParseTrailingResources() {
  const auto name = [&](std::string_view what) -> Result<std::string> {
    if (lex_.token().kind != MlirTok::kWord && lex_.token().kind != MlirTok::kString) return lex_.Unexpected(what);
    std::string out = UnescapeMlir(lex_.Next().text);
    KRAFLA_TRY(lex_.Expect(':'));
    return out;
  };
  const auto more = [&]() -> Result<> {
    return lex_.Accept(',') || lex_.Is('}') ? Result<>() : lex_.Unexpected("',' or '}'");
  };
  lex_.Next();
  while (lex_.token().kind != MlirTok::kTrailerEnd) {
    KRAFLA_ASSIGN(const std::string section, name("a kind of resources"));
    KRAFLA_TRY(lex_.Expect('{'));
    while (!lex_.Accept('}')) {
      KRAFLA_ASSIGN(const std::string owner, name("the owner of resources"));
      KRAFLA_TRY(lex_.Expect('{'));
      while (!lex_.Accept('}')) {
        KRAFLA_ASSIGN(std::string key, name("the name of a resource"));
        const MlirLexer::Token value = lex_.token();
        if (value.kind != MlirTok::kString && value.kind != MlirTok::kWord && value.kind != MlirTok::kNumber)
          return lex_.Unexpected("the value of a resource");
        lex_.Next();
        if (section == "dialect_resources" && owner == "builtin" && value.kind == MlirTok::kString)
          resource_digits_.insert_or_assign(std::move(key), value);
        KRAFLA_TRY(more());
      }
      KRAFLA_TRY(more());
    }
    lex_.Accept(',');
  }
  lex_.Next();
  return {};
}

Result<> TextParser::FillResources() {
  std::size_t taken = 0;
  for (Resource& resource : resources_) {
    const auto found = resource_digits_.find(resource.key);
    if (found == resource_digits_.end()) continue;  // said where one computes with it
    const MlirLexer::Token& digits = found->second;
    taken += digits.text.size() / 2;
    if (taken / kMostUsesOfText > lex_.text().size())
      return lex_.ErrorAt(
          resource.begin,
          Format("The arrays of resources have more than {} times the bytes of the text.", kMostUsesOfText));
    KRAFLA_ASSIGN(std::string bytes, HexBytes(digits.text, digits.begin));
    if (bytes.size() < kAlignmentBytes)
      return lex_.ErrorAt(digits.begin, "A resource begins with four bytes, its alignment; this one is shorter.");
    Attribute& array = *resource.array;
    array.bytes = bytes.substr(kAlignmentBytes);
    KRAFLA_TRY(CheckBytes(array, resource.count, /*may_be_one=*/false, resource.begin));
    array.kind = Kind::kDense;
  }
  return {};
}

}  // namespace krafla::stablehlo
