// SPDX-License-Identifier: Apache-2.0
// Whether a result is right. The rules are those of the recorded data: `mismatch` in its generator is the reference,
// element by element, so nothing here may be more generous.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "hlo_io/element_codec.h"
#include "recorded/corpus.h"

namespace krafla {
namespace {

// Floats numbered in order, -0 and +0 alike, so that neighbours differ by 1.
int64_t Ordered(ElementType type, uint64_t bits) {
  if (type == ElementType::kF8E8M0FNU) return static_cast<int64_t>(bits);  // has no sign
  const uint64_t half = uint64_t{1} << (BitWidth(type) - 1);
  return bits >= half ? -static_cast<int64_t>(bits - half) : static_cast<int64_t>(bits);
}

double UlpDistance(ElementType type, uint64_t a, uint64_t b) {
  int64_t x = Ordered(type, a), y = Ordered(type, b);
  // The difference of two f64 numbers may not fit 63 bits.
  return std::abs(static_cast<double>(x) - static_cast<double>(y));
}
bool WithinUlp(ElementType type, uint64_t a, uint64_t b, int64_t limit) {
  int64_t x = Ordered(type, a), y = Ordered(type, b);
  int64_t low = std::min(x, y), high = std::max(x, y);
  return static_cast<uint64_t>(high) - static_cast<uint64_t>(low) <= static_cast<uint64_t>(std::max<int64_t>(limit, 0));
}

struct Real {
  double value = 0;
  uint64_t bits = 0;
};

struct Comparer {
  ElementType got_type, expected_type;  // real parts
  int got_size, expected_size;
  bool complex;
  Tolerance tol;

  static Real Load(ElementType type, const std::byte* from, int size) {
    uint64_t bits = LoadBits(from, size);
    return {DecodeReal(type, bits), bits};
  }

  bool RealMatches(const Real& a, const Real& e) const {
    if (std::isnan(a.value) || std::isnan(e.value)) return std::isnan(a.value) && std::isnan(e.value);
    const bool same = a.value == e.value;
    const bool finite = std::isfinite(a.value) && std::isfinite(e.value);
    switch (tol.kind) {
      case Tolerance::Kind::kBits: return a.bits == e.bits;
      case Tolerance::Kind::kExact: return same && std::signbit(a.value) == std::signbit(e.value);
      case Tolerance::Kind::kUlp: {
        if (same) return true;
        const bool near = WithinUlp(got_type, a.bits, e.bits, tol.ulp);
        // Rounding may reach infinity from the largest number and back.
        if (!finite) return tol.ulp > 0 && near && std::isinf(a.value) != std::isinf(e.value);
        return near || std::abs(a.value - e.value) <= tol.atol;
      }
      case Tolerance::Kind::kClose:
        return same || (finite && std::abs(a.value - e.value) <= tol.atol + tol.rtol * std::abs(e.value));
    }
    return false;
  }

  bool Matches(const std::byte* got, const std::byte* expected) const {
    if (tol.kind == Tolerance::Kind::kBits)
      return std::memcmp(got, expected, static_cast<std::size_t>(got_size * (complex ? 2 : 1))) == 0;
    Real a = Load(got_type, got, got_size), e = Load(expected_type, expected, expected_size);
    if (!complex) return RealMatches(a, e);
    Real ai = Load(got_type, got + got_size, got_size),
         ei = Load(expected_type, expected + expected_size, expected_size);
    if (tol.kind != Tolerance::Kind::kClose) return RealMatches(a, e) && RealMatches(ai, ei);
    auto nan = [](const Real& x, const Real& y) { return std::isnan(x.value) || std::isnan(y.value); };
    auto inf = [](const Real& x, const Real& y) { return std::isinf(x.value) || std::isinf(y.value); };
    if (nan(a, ai) && nan(e, ei)) return true;
    if (inf(a, ai) && inf(e, ei)) return true;
    if (a.value == e.value && ai.value == ei.value) return true;
    if (nan(a, ai) || nan(e, ei) || inf(a, ai) || inf(e, ei)) return false;
    return std::hypot(a.value - e.value, ai.value - ei.value) <= tol.atol + tol.rtol * std::hypot(e.value, ei.value);
  }

  // How far apart, for the record: only what is finite counts.
  void Measure(const std::byte* got, const std::byte* expected, Comparison& out) const {
    for (int part = 0; part < (complex ? 2 : 1); ++part) {
      Real a = Load(got_type, got + part * got_size, got_size);
      Real e = Load(expected_type, expected + part * expected_size, expected_size);
      if (!std::isfinite(a.value) || !std::isfinite(e.value)) continue;
      const double error = std::abs(a.value - e.value);
      out.max_abs = std::max(out.max_abs, error);
      if (e.value != 0) out.max_rel = std::max(out.max_rel, error / std::abs(e.value));
      uint64_t e_bits = got_type == expected_type ? e.bits : EncodeReal(got_type, e.value);
      out.max_ulp = std::max(out.max_ulp, UlpDistance(got_type, a.bits, e_bits));
    }
  }
};

std::string Shown(const Literal& literal, int64_t i) {
  const ElementType type = literal.shape().element_type();
  const int size = StorageBytes(RealPart(type));
  const std::byte* p = literal.bytes().data() + i * StorageBytes(type);
  if (IsSigned(type)) {
    const int shift = 64 - 8 * size;
    return std::to_string(static_cast<int64_t>(LoadBits(p, size) << shift) >> shift);
  }
  if (!IsFloat(RealPart(type))) return std::to_string(LoadBits(p, size));
  auto one = [&](const std::byte* from) {
    uint64_t bits = LoadBits(from, size);
    return Format("{} (0x{:0{}x})", DecodeReal(RealPart(type), bits), bits, 2 * size);
  };
  if (!IsComplex(type)) return one(p);
  return Format("({}, {})", one(p), one(p + size));
}

std::string IndexText(const Shape& shape, int64_t linear) {
  Dims index(static_cast<std::size_t>(shape.rank()), 0);
  DelinearizeIndex(linear, shape.dims(), {index.data(), index.size()});
  std::string out = "[";
  for (std::size_t i = 0; i < index.size(); ++i) out += Format("{}{}", i > 0 ? "," : "", index[i]);
  return out + "]";
}

// The reference may be wider than the result: f64 for f32, c128 for c64.
bool Comparable(ElementType got, ElementType expected, Tolerance::Kind kind) {
  if (got == expected) return true;
  if (kind != Tolerance::Kind::kClose || IsComplex(got) != IsComplex(expected)) return false;
  return IsFloat(RealPart(got)) && IsFloat(RealPart(expected));
}

}  // namespace

Comparison Compare(const Literal& got, const Literal& expected, const Literal* alt, const Tolerance& tolerance) {
  Comparison out;
  const Shape& shape = got.shape();
  const ElementType type = shape.element_type();
  auto fits = [&](const Literal& l) {
    return l.shape().IsArray() && Shape::SameDims(l.shape(), shape) &&
           Comparable(type, l.shape().element_type(), tolerance.kind);
  };
  if (!shape.IsArray() || !fits(expected) || (alt != nullptr && !fits(*alt))) {
    out.reason = Format("the result is {}, expected {}", shape.ToString(false), expected.shape().ToString(false));
    return out;
  }
  out.passed = true;
  // Equal bits pass under every rule.
  if (type == expected.shape().element_type() &&
      (got.bytes().empty() || std::memcmp(got.bytes().data(), expected.bytes().data(), got.bytes().size()) == 0))
    return out;

  auto comparer = [&](const Literal& e) {
    return Comparer{RealPart(type),
                    RealPart(e.shape().element_type()),
                    StorageBytes(RealPart(type)),
                    StorageBytes(RealPart(e.shape().element_type())),
                    IsComplex(type),
                    tolerance};
  };
  const bool is_float = IsFloat(RealPart(type));
  Comparer first = comparer(expected), second = comparer(alt != nullptr ? *alt : expected);
  if (!is_float) first.tol.kind = second.tol.kind = Tolerance::Kind::kBits;
  const int size = StorageBytes(type), e_size = StorageBytes(expected.shape().element_type());
  const int alt_size = alt != nullptr ? StorageBytes(alt->shape().element_type()) : 0;
  const int64_t count = shape.element_count();
  int64_t wrong = 0, first_wrong = -1;
  for (int64_t i = 0; i < count; ++i) {
    const std::byte* g = got.bytes().data() + i * size;
    const std::byte* e = expected.bytes().data() + i * e_size;
    const bool main = first.Matches(g, e);
    const std::byte* other = alt != nullptr ? alt->bytes().data() + i * alt_size : nullptr;
    const bool right = main || (other != nullptr && second.Matches(g, other));
    if (!right && wrong++ == 0) first_wrong = i;
    if (!is_float) continue;
    if (right && !main) second.Measure(g, other, out);
    else first.Measure(g, e, out);
  }
  if (wrong == 0) return out;
  out.passed = static_cast<double>(wrong) <= tolerance.share * static_cast<double>(count);
  out.reason =
      Format("{} of {} elements of {} differ, first at {}: got {}, expected {}", wrong, count, shape.ToString(false),
             IndexText(shape, first_wrong), Shown(got, first_wrong), Shown(expected, first_wrong));
  if (alt != nullptr) out.reason += Format(" or {}", Shown(*alt, first_wrong));
  return out;
}

}  // namespace krafla
