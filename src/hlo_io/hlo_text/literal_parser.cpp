// SPDX-License-Identifier: Apache-2.0
// Literals: "{ {1, 2}, {3, 4} }", "(1, -0.5)", "{...}". Read from the raw text, as constants may be most of a file.
#include <charconv>
#include <limits>

#include "base/parse_float.h"
#include "hlo_io/element_codec.h"
#include "hlo_io/hlo_text/parser.h"
#include "ir/element_type_cases.h"

namespace krafla::hlo_text {
namespace {

// Reads elements of one type. Position and errors belong to Cursor; nothing here allocates.
struct Cursor {
  const Lexer& lexer;
  std::string_view text;
  std::size_t at = 0;

  bool Blank() {  // false at an open comment
    if (at < text.size()) {
      char c = text[at];
      if (c != ' ' && c != '\n' && c != '\t' && c != '\r' && c != '/') return true;
    }
    bool bad = false;
    at = lexer.SkipBlank(at, &bad);
    return !bad;
  }
  char peek() const { return at < text.size() ? text[at] : '\0'; }
  // What stands here up to the next blank or separator; "nan(0x7)" is one.
  std::string_view Scalar() const {
    std::size_t end = at;
    while (end < text.size()) {
      char c = text[end];
      if (c == ',' || c == '}' || c == ')' || c == '{' || c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '/')
        break;
      ++end;
      if (c == '(') {
        while (end < text.size() && text[end] != ')' && text[end] != '\n' && end - at < 40) ++end;
        if (end < text.size() && text[end] == ')') ++end;
        break;
      }
    }
    return text.substr(at, end - at);
  }
};

enum class Bad : uint8_t { kNone, kNotANumber, kNotAnInteger, kRange, kNotPred, kNotComplex, kPayload };

std::string Explain(Bad bad, std::string_view shown, ElementType type) {
  std::string text(shown.substr(0, 40));
  std::string_view name = ElementTypeName(type);
  switch (bad) {
    case Bad::kNotAnInteger: return Format("'{}' is not an integer, which an element of {} must be.", text, name);
    case Bad::kRange: return Format("'{}' is out of the range of {}.", text, name);
    case Bad::kNotPred: return Format("'{}' is not true, false, 1 or 0, which an element of pred must be.", text);
    case Bad::kNotComplex: return Format("An element of {} must be written (real, imaginary), found '{}'.", name, text);
    case Bad::kPayload: return Format("'{}' is not a NaN that {} has.", text, name);
    case Bad::kNone:
    case Bad::kNotANumber: break;
  }
  return Format("'{}' is not a number, which an element of {} must be.", text, name);
}

template <typename T>
Bad ReadInteger(std::string_view text, int bits, std::byte* to) {
  T value = 0;
  // "-0" is an integer too, also where there are no negative ones.
  std::string_view digits = text;
  if (std::is_unsigned_v<T> && digits.starts_with('-')) digits.remove_prefix(1);
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (end != digits.data() + digits.size() || digits.empty())
    return !text.empty() && (IsDigit(text[0]) || text[0] == '-') ? Bad::kNotAnInteger : Bad::kNotANumber;
  if (error != std::errc()) return Bad::kRange;
  if (std::is_unsigned_v<T> && digits.size() != text.size() && value != 0) return Bad::kRange;
  if (bits < static_cast<int>(sizeof(T)) * 8) {
    int64_t wide = static_cast<int64_t>(value);
    int64_t low = std::is_signed_v<T> ? -(int64_t{1} << (bits - 1)) : 0;
    int64_t high = std::is_signed_v<T> ? (int64_t{1} << (bits - 1)) - 1 : (int64_t{1} << bits) - 1;
    if (wide < low || wide > high) return Bad::kRange;
  }
  StoreAs(to, value);
  return Bad::kNone;
}

struct FloatBits {
  uint64_t sign, exponent, mantissa, quiet_nan;
  bool has_inf, has_nan;
};
FloatBits BitsOf(ElementType type) {
  if (const MiniFloat* f = FindMiniFloat(type)) {
    bool payload = f->specials == FloatSpecials::kInfAndNan;
    return {f->sign_mask(),
            payload ? f->exponent_mask() : 0u,
            payload ? (1u << f->mantissa_bits) - 1u : 0u,
            f->nan(),
            f->has_inf(),
            f->has_nan()};
  }
  if (type == ElementType::kF64)
    return {uint64_t{1} << 63, uint64_t{0x7ff} << 52, (uint64_t{1} << 52) - 1, uint64_t{0x7ff8} << 48, true, true};
  return {uint64_t{1} << 31, 0x7f800000u, 0x7fffffu, 0x7fc00000u, true, true};
}

// inf, nan, nan(0x7) after an optional '-'.
Bad ReadSpecial(ElementType type, std::string_view text, bool negative, std::byte* to) {
  FloatBits f = BitsOf(type);
  uint64_t bits = 0;
  if (text == "inf") {
    if (!f.has_inf) return Bad::kRange;
    bits = f.exponent;
  } else if (text == "nan") {
    if (!f.has_nan) return Bad::kPayload;
    bits = f.quiet_nan;
  } else if (text.starts_with("nan(0x") && text.ends_with(')')) {
    std::string_view hex = text.substr(6, text.size() - 7);
    uint64_t payload = 0;
    auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), payload, 16);
    if (end != hex.data() + hex.size() || error != std::errc() || payload == 0 || payload > f.mantissa)
      return Bad::kPayload;
    bits = f.exponent | payload;
  } else {
    return Bad::kNotANumber;
  }
  if (negative) bits |= f.sign;
  StoreBits(to, bits, StorageBytes(type));
  return Bad::kNone;
}

Bad ReadFloat(ElementType type, std::string_view text, std::byte* to) {
  std::string_view digits = text;
  bool negative = digits.starts_with('-');
  if (negative) digits.remove_prefix(1);
  if (digits.empty()) return Bad::kNotANumber;
  if (digits[0] == 'i' || digits[0] == 'n') return ReadSpecial(type, digits, negative, to);
  if (type == ElementType::kF32 && (IsDigit(digits[0]) || digits[0] == '.')) {
    float value = 0;
    auto [end, error] = ParseFloat(digits.data(), digits.data() + digits.size(), value);
    if (end == digits.data() + digits.size() && error == std::errc() && value != 0) {
      StoreAs(to, negative ? -value : value);
      return Bad::kNone;
    }
  }
  double value = 0;
  if (!ParseReal(text, &value)) {
    double ignored;
    auto [end, error] = ParseFloat(digits.data(), digits.data() + digits.size(), ignored);
    bool number = (IsDigit(digits[0]) || digits[0] == '.') && end == digits.data() + digits.size();
    return number ? Bad::kRange : Bad::kNotANumber;
  }
  uint64_t bits = EncodeReal(type, value);
  // A number that rounds to an infinity or a NaN, or is cut to the largest, is out of range.
  double back = DecodeReal(type, bits);
  if (!(back - back == 0)) return Bad::kRange;
  if (type == ElementType::kF4E2M1FN && (value > 7 || value < -7)) return Bad::kRange;
  StoreBits(to, bits, StorageBytes(type));
  return Bad::kNone;
}

Bad ReadScalar(ElementType type, std::string_view text, std::byte* to) {
  switch (type) {
    case ElementType::kPred: {
      bool yes = text == "true" || text == "1", no = text == "false" || text == "0";
      if (!yes && !no) return Bad::kNotPred;
      StoreAs<uint8_t>(to, yes ? 1 : 0);
      return Bad::kNone;
    }
    case ElementType::kS1:
    case ElementType::kS2:
    case ElementType::kS4:
    case ElementType::kS8: return ReadInteger<int8_t>(text, BitWidth(type), to);
    case ElementType::kS16: return ReadInteger<int16_t>(text, 16, to);
    case ElementType::kS32: return ReadInteger<int32_t>(text, 32, to);
    case ElementType::kS64: return ReadInteger<int64_t>(text, 64, to);
    case ElementType::kU1:
    case ElementType::kU2:
    case ElementType::kU4:
    case ElementType::kU8: return ReadInteger<uint8_t>(text, BitWidth(type), to);
    case ElementType::kU16: return ReadInteger<uint16_t>(text, 16, to);
    case ElementType::kU32: return ReadInteger<uint32_t>(text, 32, to);
    case ElementType::kU64: return ReadInteger<uint64_t>(text, 64, to);
    case ElementType::kF16:
    case ElementType::kF32:
    case ElementType::kF64:
    case ElementType::kBF16:
    case KRAFLA_MINI_FLOATS: return ReadFloat(type, text, to);
    case ElementType::kC64:
    case ElementType::kC128: return Bad::kNotComplex;
    case KRAFLA_NO_ARRAY_TYPES: break;
  }
  return Bad::kNotANumber;
}

Result<> ReadElement(Cursor& cursor, ElementType type, std::byte* to) {
  std::size_t begin = cursor.at;
  if (IsComplex(type)) {
    auto fail = [&](Bad bad, std::string_view shown) {
      return cursor.lexer.Error(cursor.at, Explain(bad, shown, bad == Bad::kNotComplex ? type : RealPart(type)));
    };
    if (cursor.peek() != '(') return fail(Bad::kNotComplex, cursor.Scalar());
    for (int part = 0; part < 2; ++part) {
      ++cursor.at;
      if (!cursor.Blank()) return cursor.lexer.Error(cursor.at, "This comment is never closed.");
      std::string_view text = cursor.Scalar();
      ElementType real = RealPart(type);
      Bad bad = ReadScalar(real, text, to + part * StorageBytes(real));
      if (bad != Bad::kNone) return fail(bad, text);
      cursor.at += text.size();
      if (!cursor.Blank()) return cursor.lexer.Error(cursor.at, "This comment is never closed.");
      if (cursor.peek() != (part == 0 ? ',' : ')')) return fail(Bad::kNotComplex, cursor.text.substr(begin, 40));
    }
    ++cursor.at;
    return {};
  }
  std::string_view text = cursor.Scalar();
  Bad bad = ReadScalar(type, text, to);
  if (bad != Bad::kNone) return cursor.lexer.Error(begin, Explain(bad, text, type));
  cursor.at += text.size();
  return {};
}

// "{...}" stands for values that were not printed: small numbers, the same at every reading.
void FillPattern(Literal& literal) {
  ElementType type = literal.shape().element_type();
  ElementType part = RealPart(type);
  int size = StorageBytes(part);
  std::byte* p = literal.bytes().data();
  std::size_t count = literal.bytes().size() / static_cast<std::size_t>(size);
  for (std::size_t i = 0; i < count; ++i, p += size) {
    uint64_t n = i % 5;
    if (part == ElementType::kPred || BitWidth(part) < 4) n &= 1;
    if (IsSigned(part) && BitWidth(part) == 1) n = 0 - n;
    if (IsFloat(part)) n = EncodeReal(part, 0.25 * static_cast<double>(n + 1));
    StoreBits(p, n, size);
  }
}

// "{ {1, 2}, {3, 4} }" from the opening brace. The text is row-major, so elements are stored one after the other.
Result<> ReadNested(Cursor& cursor, const Shape& shape, Literal& out) {
  const int64_t rank = shape.rank();
  const bool no_elements = shape.element_count() == 0;
  const auto element_size = static_cast<std::size_t>(StorageBytes(shape.element_type()));
  std::byte* to = out.bytes().data();
  int64_t counts[Shape::kMaxRank] = {};
  int64_t depth = 0;
  bool want_value = true;  // else ',' or '}'
  auto error = [&](std::string_view message) { return cursor.lexer.Error(cursor.at, message); };
  while (true) {
    if (!cursor.Blank()) return error("This comment is never closed.");
    if (cursor.at >= cursor.text.size()) return error("The text ends within a literal.");
    char c = cursor.peek();
    if (c == '}') {
      int64_t have = counts[depth - 1], want = shape.dim(depth - 1);
      if (want_value && have > 0) return error("A value is missing after ','.");
      if (have != want && !(no_elements && have == 0))
        return error(
            Format("Dimension {} of {} has {} entries, not {}.", depth - 1, shape.ToString(false), want, have));
      ++cursor.at;
      if (--depth == 0) return {};
      want_value = false;
      continue;
    }
    if (c == ',') {
      if (want_value) return error("A value is missing before ','.");
      ++cursor.at;
      want_value = true;
      continue;
    }
    if (!want_value) return error("Expected ',' or '}' in a literal.");
    if (depth > 0) {
      if (counts[depth - 1] >= shape.dim(depth - 1))
        return error(Format("Dimension {} of {} has only {} entries, more were given.", depth - 1,
                            shape.ToString(false), shape.dim(depth - 1)));
      ++counts[depth - 1];
    }
    if (c == '{') {
      if (depth == rank)
        return error(Format("Braces are nested deeper than the {} dimensions of {}.", rank, shape.ToString(false)));
      counts[depth++] = 0;
      ++cursor.at;
      continue;
    }
    if (depth != rank)
      return error(
          Format("{} has {} dimensions, but this value is within {} braces.", shape.ToString(false), rank, depth));
    KRAFLA_TRY(ReadElement(cursor, shape.element_type(), to));
    to += element_size;
    want_value = false;
  }
}

}  // namespace

Result<Literal> Parser::ParseLiteral(const Shape& shape) { return ParseLiteralAt(shape, 0); }

Result<Literal> Parser::ParseLiteralAt(const Shape& shape, int depth) {
  if (depth > limits_.max_depth)
    return lex_.Error(Format("Literals are nested deeper than the limit of {}.", limits_.max_depth));
  if (shape.IsArray()) return ParseArray(shape);
  if (!shape.IsTuple()) return lex_.Error(Format("{} has no literal.", shape.ToString(false)));
  KRAFLA_TRY(lex_.Expect('(', "to open the literal of a tuple"));
  std::vector<Literal> elements;
  for (const Shape& element : shape.tuple_elements()) {
    if (!elements.empty()) KRAFLA_TRY(lex_.Expect(',', "between the elements of a tuple"));
    KRAFLA_ASSIGN(Literal value, ParseLiteralAt(element, depth + 1));
    elements.push_back(std::move(value));
  }
  KRAFLA_TRY(lex_.Expect(')', "to close the literal of a tuple"));
  return Literal::MakeTuple(std::move(elements));
}

Result<Literal> Parser::ParseArray(const Shape& shape) {
  Cursor cursor{lex_, lex_.text(), lex_.token().begin};
  const std::size_t begin = cursor.at;
  bool braces = cursor.peek() == '{';
  std::size_t dots = std::string_view::npos;  // the offset behind "{...}"
  if (braces) {
    bool bad = false;
    std::size_t p = lex_.SkipBlank(begin + 1, &bad);
    if (lex_.text().substr(p, 3) == "...") {
      p = lex_.SkipBlank(p + 3, &bad);
      if (p < lex_.text().size() && lex_.text()[p] == '}') dots = p + 1;
    }
  }
  const bool elided = dots != std::string_view::npos;
  if (shape.byte_size() > limits_.max_constant_bytes - constant_bytes_)
    return lex_.Error(begin,
                      Format("The constants of this module take more than the limit of {} bytes with this one of {}.",
                             limits_.max_constant_bytes, shape.byte_size()),
                      StatusCode::kResourceExhausted);
  // Every element takes a character and most a comma; a text too short is refused before memory is asked for.
  if (braces && !elided && shape.element_count() > 1 &&
      shape.element_count() / 2 > static_cast<int64_t>(lex_.bytes_left()))
    return lex_.Error(begin, Format("{} has {} elements, more than the rest of the text can hold.",
                                    shape.ToString(false), shape.element_count()));
  constant_bytes_ += shape.byte_size();
  auto made = braces && !elided ? Literal::CreateUninitialized(shape) : Literal::Create(shape);
  if (!made) return lex_.Error(begin, made.error().message(), made.error().code());
  Literal out = std::move(*made);
  if (elided) {
    FillPattern(out);
    ++elided_constants_;
    cursor.at = dots;
  } else if (braces && shape.rank() > 0) {
    KRAFLA_TRY(ReadNested(cursor, shape, out));
  } else {
    // A value without braces is the first element, the others are 0, as in XLA.
    if (shape.element_count() == 0)
      return lex_.Error(begin, Format("{} has no elements, but a value is given.", shape.ToString(false)));
    KRAFLA_TRY(ReadElement(cursor, shape.element_type(), out.bytes().data()));
  }
  lex_.Seek(cursor.at);
  return out;
}

}  // namespace krafla::hlo_text
