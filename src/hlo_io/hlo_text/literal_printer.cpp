// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <cmath>

#include "hlo_io/element_codec.h"
#include "hlo_io/hlo_text/printer.h"

namespace krafla {
namespace hlo_text {
namespace {

template <typename T>
void AppendNumber(std::string& out, T value) {
  char buffer[40];
  auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), value);
  // An integer token "-0" would be read as the integer 0.
  std::string_view text(buffer, static_cast<std::size_t>(end - buffer));
  out += text;
  if constexpr (std::is_floating_point_v<T>)
    if (text == "-0") out += ".0";
}

// NaN as "nan", "-nan" or "nan(0x7)"; false when `bits` is not a NaN.
bool AppendNan(std::string& out, ElementType type, uint64_t bits) {
  if (!std::isnan(DecodeReal(type, bits))) return false;
  uint64_t sign = 0, mantissa = 0, quiet = 0;
  if (const MiniFloat* f = FindMiniFloat(type)) {
    if (f->specials == FloatSpecials::kInfAndNan) {
      mantissa = (1u << f->mantissa_bits) - 1u;
      quiet = 1u << (f->mantissa_bits - 1);
    }
    // Where NaN is the pattern of -0 its sign bit is part of it.
    if (f->specials != FloatSpecials::kNegZeroNan) sign = f->sign_mask();
  } else {
    const int bits_of = type == ElementType::kF64 ? 52 : 23;
    mantissa = (uint64_t{1} << bits_of) - 1;
    quiet = uint64_t{1} << (bits_of - 1);
    sign = type == ElementType::kF64 ? uint64_t{1} << 63 : uint64_t{1} << 31;
  }
  if (bits & sign) out += '-';
  out += "nan";
  if ((bits & mantissa) != quiet) out += Format("(0x{:x})", bits & mantissa);
  return true;
}

void AppendScalar(std::string& out, ElementType type, const std::byte* from) {
  const int size = StorageBytes(type);
  if (type == ElementType::kPred) {
    out += LoadAs<uint8_t>(from) != 0 ? "true" : "false";
  } else if (IsComplex(type)) {
    const ElementType part = RealPart(type);
    out += '(';
    AppendReal(out, part, LoadBits(from, size / 2));
    out += ", ";
    AppendReal(out, part, LoadBits(from + size / 2, size / 2));
    out += ')';
  } else if (IsFloat(type)) {
    AppendReal(out, type, LoadBits(from, size));
  } else if (IsSigned(type)) {
    const int shift = 64 - 8 * size;
    AppendNumber(out, static_cast<int64_t>(LoadBits(from, size) << shift) >> shift);
  } else {
    AppendNumber(out, LoadBits(from, size));
  }
}

void AppendArray(std::string& out, const Literal& literal, int64_t elide_over) {
  const Shape& shape = literal.shape();
  const ElementType type = shape.element_type();
  const auto rank = static_cast<std::size_t>(shape.rank());
  const std::byte* from = literal.bytes().data();
  if (rank == 0) {
    AppendScalar(out, type, from);
    return;
  }
  if (elide_over >= 0 && shape.element_count() > elide_over) {
    out += "{...}";
    return;
  }
  if (shape.element_count() == 0) {
    out += "{}";
    return;
  }
  const int size = StorageBytes(type);
  out.reserve(out.size() + static_cast<std::size_t>(shape.element_count()) * 4);
  Dims index(rank, 0);
  for (std::size_t i = 0; i < rank; ++i) out += '{';
  for (int64_t n = 0; n < shape.element_count(); ++n, from += size) {
    AppendScalar(out, type, from);
    // Rows that end here close, and open again before the next element.
    std::size_t closed = 0;
    for (std::size_t d = rank; d-- > 0;) {
      if (++index[d] < shape.dims()[d]) break;
      index[d] = 0;
      ++closed;
    }
    out.append(closed, '}');
    if (n + 1 == shape.element_count()) break;
    out += closed > 0 ? ", " : ",";
    out.append(closed, '{');
  }
}

}  // namespace

void AppendDouble(std::string& out, double value) {
  AppendReal(out, ElementType::kF64, std::bit_cast<uint64_t>(value));
}

void AppendReal(std::string& out, ElementType type, uint64_t bits) {
  if (AppendNan(out, type, bits)) return;
  double value = DecodeReal(type, bits);
  if (std::isinf(value)) {
    out += value < 0 ? "-inf" : "inf";
  } else if (type == ElementType::kF64) {
    AppendNumber(out, value);
  } else {
    AppendNumber(out, static_cast<float>(value));
  }
}

void AppendLiteral(std::string& out, const Literal& literal, int64_t elide_over) {
  if (literal.shape().IsArray()) {
    AppendArray(out, literal, elide_over);
    return;
  }
  out += '(';
  for (std::size_t i = 0; i < literal.elements().size(); ++i) {
    if (i > 0) out += ", ";
    AppendLiteral(out, literal.elements()[i], elide_over);
  }
  out += ')';
}

}  // namespace hlo_text

std::string PrintLiteral(const Literal& literal) {
  std::string out;
  hlo_text::AppendLiteral(out, literal, -1);
  return out;
}

}  // namespace krafla
