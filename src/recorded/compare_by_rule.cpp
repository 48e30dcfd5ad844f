// SPDX-License-Identifier: Apache-2.0
// The comparisons of StableHLO's tests, element by element (stablehlo/tests/CheckOps.cpp, reference/Element.cpp).
#include <algorithm>
#include <cmath>

#include "hlo_io/element_codec.h"
#include "recorded/self_check.h"

namespace krafla {
namespace {

// How many steps lie between two numbers; zeros of both signs are one.
uint64_t Steps(ElementType type, uint64_t a, uint64_t b) {
  const double x = DecodeReal(type, a), y = DecodeReal(type, b);
  if (a == b || (std::isnan(x) && std::isnan(y))) return 0;
  if (!std::isfinite(x) || !std::isfinite(y)) return ~uint64_t{0};
  const uint64_t half = uint64_t{1} << (BitWidth(type) - 1), p = a & (half - 1), q = b & (half - 1);
  if ((a >= half) != (b >= half)) return p + q;
  return p > q ? p - q : q - p;
}

bool PartMatches(ElementType type, uint64_t a, uint64_t e, const CheckRule& rule) {
  if (!IsFloat(type)) return a == e;
  const double x = DecodeReal(type, a), y = DecodeReal(type, e);
  switch (rule.kind) {
    case CheckRule::Kind::kEqual: return x == y;
    case CheckRule::Kind::kAlmost:
      if (x == y) return true;
      if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
      return std::isfinite(x) && std::isfinite(y) && std::fabs(x - y) <= rule.tolerance;
    case CheckRule::Kind::kClose: {
      const uint64_t steps = Steps(type, a, e);
      return steps >= rule.min_ulp && steps <= rule.max_ulp;
    }
  }
  return false;
}

}  // namespace

Comparison CompareByRule(const Literal& actual, const Literal& expected, const CheckRule& rule) {
  Comparison out;
  const Shape& shape = actual.shape();
  if (!shape.IsArray() || !Shape::Compatible(shape, expected.shape())) {
    out.reason = Format("the result is {}, expected {}", shape.ToString(false), expected.shape().ToString(false));
    return out;
  }
  const ElementType part = RealPart(shape.element_type());
  const int size = StorageBytes(part), parts = IsComplex(shape.element_type()) ? 2 : 1;
  int64_t wrong = 0, first = -1;
  for (int64_t i = 0; i < shape.element_count(); ++i) {
    bool right = true;
    for (int p = 0; p < parts; ++p) {
      const int64_t at = (i * parts + p) * size;
      const uint64_t a = LoadBits(actual.bytes().data() + at, size), e = LoadBits(expected.bytes().data() + at, size);
      right &= PartMatches(part, a, e, rule);
      if (!IsFloat(part)) continue;
      const double x = DecodeReal(part, a), y = DecodeReal(part, e);
      if (!std::isfinite(x) || !std::isfinite(y)) continue;
      out.max_abs = std::max(out.max_abs, std::fabs(x - y));
      if (y != 0) out.max_rel = std::max(out.max_rel, std::fabs(x - y) / std::fabs(y));
      out.max_ulp = std::max(out.max_ulp, static_cast<double>(Steps(part, a, e)));
    }
    if (!right && wrong++ == 0) first = i;
  }
  out.passed = wrong == 0;
  if (out.passed) return out;
  auto shown = [&](const Literal& literal) {
    std::string text;
    for (int p = 0; p < parts; ++p) {
      const uint64_t bits = LoadBits(literal.bytes().data() + (first * parts + p) * size, size);
      const int shift = 64 - 8 * size;
      if (p > 0) text += ", ";
      if (IsFloat(part)) text += Format("{}", DecodeReal(part, bits));
      else if (IsSigned(part)) text += Format("{}", static_cast<int64_t>(bits << shift) >> shift);
      else text += Format("{}", bits);
    }
    return text;
  };
  out.reason = Format("{}: {} of {} elements of {} differ, first at {}: got {}, expected {}", rule.place, wrong,
                      shape.element_count(), shape.ToString(false), first, shown(actual), shown(expected));
  return out;
}

}  // namespace krafla
