// SPDX-License-Identifier: Apache-2.0
#include "passes/simplify/scalar_facts.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "ir/builder.h"
#include "passes/lift.h"

namespace krafla {

namespace {

// IEEE-like: an all-ones exponent means infinity or NaN.
struct IeeeFormat {
  int exponent_bits, mantissa_bits;
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  uint64_t exponent_mask() const { return ((uint64_t{1} << exponent_bits) - 1) << mantissa_bits; }
  uint64_t sign_mask() const { return uint64_t{1} << (exponent_bits + mantissa_bits); }
  uint64_t one() const { return static_cast<uint64_t>(bias()) << mantissa_bits; }
};

std::optional<IeeeFormat> FormatOf(ElementType type) {
  if (type == ElementType::kF16) return IeeeFormat{5, 10};
  if (type == ElementType::kBF16) return IeeeFormat{8, 7};
  if (type == ElementType::kF32) return IeeeFormat{8, 23};
  if (type == ElementType::kF64) return IeeeFormat{11, 52};
  if (type == ElementType::kF8E5M2) return IeeeFormat{5, 2};
  if (type == ElementType::kF8E4M3) return IeeeFormat{4, 3};
  if (type == ElementType::kF8E3M4) return IeeeFormat{3, 4};
  return std::nullopt;
}

// The bits that an integer (or pred) has, as its type is wide.
uint64_t WidthMask(ElementType type) {
  int bits = type == ElementType::kPred ? 1 : BitWidth(type);
  return bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
}

}  // namespace

uint64_t ScalarBits(const Literal& scalar) {
  uint64_t bits = 0;
  auto bytes = scalar.bytes();
  KRAFLA_CHECK(bytes.size() <= 8);
  std::memcpy(&bits, bytes.data(), bytes.size());
  return bits;
}

Literal ScalarFromBits(ElementType type, uint64_t bits) {
  auto out = Literal::Create(Shape::MakeScalar(type));
  KRAFLA_CHECK(out.has_value());
  std::memcpy(out->bytes().data(), &bits, std::min<std::size_t>(out->bytes().size(), 8));
  return std::move(*out);
}

int64_t ScalarInt(const Literal& scalar) {
  ElementType type = scalar.shape().element_type();
  uint64_t bits = ScalarBits(scalar);
  if (IsSigned(type)) {
    int shift = 64 - 8 * StorageBytes(type);
    return static_cast<int64_t>(bits << shift) >> shift;
  }
  return bits > static_cast<uint64_t>(INT64_MAX) ? INT64_MAX : static_cast<int64_t>(bits);
}

bool IsPositiveZero(const Literal& scalar) {
  for (std::byte b : scalar.bytes())
    if (b != std::byte{0}) return false;
  return scalar.shape().element_type() != ElementType::kF8E8M0FNU;
}

bool IsNegativeZero(const Literal& scalar) {
  auto format = FormatOf(scalar.shape().element_type());
  return format && ScalarBits(scalar) == format->sign_mask();
}

bool IsOne(const Literal& scalar) {
  ElementType type = scalar.shape().element_type();
  if (auto format = FormatOf(type)) return ScalarBits(scalar) == format->one();
  return (IsIntegral(type) || type == ElementType::kPred) && ScalarInt(scalar) == 1;
}

bool IsMinusOne(const Literal& scalar) {
  ElementType type = scalar.shape().element_type();
  if (auto format = FormatOf(type)) return ScalarBits(scalar) == (format->one() | format->sign_mask());
  return IsSigned(type) && ScalarInt(scalar) == -1;
}

bool IsAllOnes(const Literal& scalar) {
  ElementType type = scalar.shape().element_type();
  if (!IsIntegral(type) && type != ElementType::kPred) return false;
  uint64_t mask = WidthMask(type);
  return (ScalarBits(scalar) & mask) == mask;
}

bool IsLowest(const Literal& scalar) {
  ElementType type = scalar.shape().element_type();
  if (auto format = FormatOf(type)) return ScalarBits(scalar) == (format->exponent_mask() | format->sign_mask());
  if (IsSigned(type)) return (ScalarBits(scalar) & WidthMask(type)) == uint64_t{1} << (BitWidth(type) - 1);
  return (IsUnsigned(type) || type == ElementType::kPred) && ScalarBits(scalar) == 0;
}

bool IsHighest(const Literal& scalar) {
  ElementType type = scalar.shape().element_type();
  if (auto format = FormatOf(type)) return ScalarBits(scalar) == format->exponent_mask();
  if (IsSigned(type)) return (ScalarBits(scalar) & WidthMask(type)) == (WidthMask(type) >> 1);
  return (IsUnsigned(type) || type == ElementType::kPred) && IsAllOnes(scalar);
}

std::optional<Literal> ExactReciprocal(const Literal& scalar) {
  auto format = FormatOf(scalar.shape().element_type());
  if (!format) return std::nullopt;
  uint64_t bits = ScalarBits(scalar);
  uint64_t mantissa = bits & ((uint64_t{1} << format->mantissa_bits) - 1);
  auto exponent = static_cast<int>((bits & format->exponent_mask()) >> format->mantissa_bits);
  int reciprocal = 2 * format->bias() - exponent;
  int top = (1 << format->exponent_bits) - 1;
  if (mantissa != 0 || exponent < 1 || exponent >= top || reciprocal < 1 || reciprocal >= top) return std::nullopt;
  return ScalarFromBits(scalar.shape().element_type(), (bits & format->sign_mask()) | static_cast<uint64_t>(reciprocal)
                                                                                          << format->mantissa_bits);
}

std::optional<int> Log2OfPowerOfTwo(const Literal& scalar) {
  ElementType type = scalar.shape().element_type();
  if (!IsIntegral(type)) return std::nullopt;
  uint64_t bits = ScalarBits(scalar);
  if (IsSigned(type) && ScalarInt(scalar) <= 0) return std::nullopt;
  if (!std::has_single_bit(bits)) return std::nullopt;
  return std::countr_zero(bits);
}

Literal ScalarZero(ElementType type) {
  // What has powers of two alone has no zero: a conversion of one gives NaN.
  return ScalarFromBits(type, type == ElementType::kF8E8M0FNU ? 0xff : 0);
}

Literal ScalarOne(ElementType type) {
  if (auto format = FormatOf(type)) return ScalarFromBits(type, format->one());
  if (IsComplex(type)) {
    Literal out = ScalarZero(type);
    uint64_t one = FormatOf(RealPart(type))->one();
    std::memcpy(out.bytes().data(), &one, out.bytes().size() / 2);
    return out;
  }
  return ScalarLiteral(type, 1);
}

Literal ScalarOfInt(ElementType type, int64_t value) {
  KRAFLA_CHECK(IsIntegral(type) || type == ElementType::kPred);
  auto bits = static_cast<uint64_t>(value);
  if (!IsSigned(type)) bits &= WidthMask(type);
  return ScalarFromBits(type, bits);
}

bool ConvertIsLossless(ElementType from, ElementType to) {
  if (from == to) return true;
  auto wide = FormatOf(to);
  bool to_wide_float = wide && wide->mantissa_bits >= 7;
  if (from == ElementType::kPred) return IsIntegral(to) ? BitWidth(to) > 1 : to_wide_float;
  if (IsIntegral(from)) {
    int magnitude = BitWidth(from) - (IsSigned(from) ? 1 : 0);
    if (IsSigned(to)) return BitWidth(to) - 1 >= magnitude;
    if (IsUnsigned(to)) return IsUnsigned(from) && BitWidth(to) >= magnitude;
    // All powers of two up to 2^63 lie within the range of every wide float but f16, whose largest is 65504.
    if (!to_wide_float || wide->mantissa_bits + 1 < magnitude) return false;
    return to != ElementType::kF16 || magnitude <= 11;
  }
  if (IsComplex(from)) return to == ElementType::kC128;
  if (!IsFloat(from)) return false;
  if (IsComplex(to)) return ConvertIsLossless(from, RealPart(to));
  if (to == ElementType::kF64) return true;
  if (from == ElementType::kF64 || from == ElementType::kF8E8M0FNU) return false;
  if (to == ElementType::kF32) return true;
  if (from == ElementType::kF32 || from == ElementType::kF16 || from == ElementType::kBF16) return false;
  // The 8-bit and 4-bit formats.
  return to == ElementType::kF16 || to == ElementType::kBF16;
}

namespace {

bool IsPlainFloat(ElementType t) {
  return t == ElementType::kF16 || t == ElementType::kBF16 || t == ElementType::kF32 || t == ElementType::kF64;
}

}  // namespace

std::optional<Literal> IdentityOf(const Computation& combiner, ElementType type) {
  std::optional<Opcode> opcode = BinaryOpcode(combiner);
  const bool is_float = IsPlainFloat(type), is_integer = IsIntegral(type) || type == ElementType::kPred;
  if (!opcode || (!is_float && !is_integer)) return std::nullopt;
  const double infinity = std::numeric_limits<double>::infinity();
  const int width = BitWidth(type);
  if (*opcode == Opcode::kAdd) return is_float ? ScalarLiteral(type, -0.0) : ScalarZero(type);
  if (*opcode == Opcode::kMultiply) return ScalarOne(type);
  if (*opcode == Opcode::kMaximum) {
    if (is_float) return ScalarLiteral(type, -infinity);
    return IsSigned(type) ? ScalarOfInt(type, -(int64_t{1} << (width - 2)) * 2) : ScalarZero(type);
  }
  if (*opcode == Opcode::kMinimum) {
    if (is_float) return ScalarLiteral(type, infinity);
    if (IsSigned(type)) return ScalarOfInt(type, ((int64_t{1} << (width - 2)) - 1) * 2 + 1);
    return ScalarOfInt(type, type == ElementType::kPred ? 1 : -1);
  }
  if (!is_integer) return std::nullopt;
  if (*opcode == Opcode::kAnd) return ScalarOfInt(type, type == ElementType::kPred ? 1 : -1);
  if (*opcode == Opcode::kOr || *opcode == Opcode::kXor) return ScalarZero(type);
  return std::nullopt;
}

}  // namespace krafla
