// SPDX-License-Identifier: Apache-2.0
// Sizes that a program computes from other sizes: known here, where they follow from constants and static shapes.
#include <algorithm>
#include <cstring>
#include <limits>

#include "base/checked_math.h"
#include "hlo_io/stablehlo/converter.h"

namespace krafla::stablehlo {
namespace {

constexpr std::size_t kMostElements = 256;

// Numbers, and what is asked of them.
bool IsOfSizes(ElementType type) { return IsIntegral(type) || type == ElementType::kPred; }

std::optional<Dims> Elements(const Literal& literal) {
  const ElementType type = literal.shape().element_type();
  if (!IsOfSizes(type)) return std::nullopt;
  const auto width = static_cast<std::size_t>(StorageBytes(type));
  if (literal.bytes().size() / width > kMostElements) return std::nullopt;
  Dims out;
  for (std::size_t at = 0; at < literal.bytes().size(); at += width) {
    uint64_t value = 0;
    std::memcpy(&value, literal.bytes().data() + at, width);
    if (IsSigned(type) && width < 8 && (value >> (width * 8 - 1)) != 0) value |= ~uint64_t{0} << (width * 8);
    if (!IsSigned(type) && (value >> 63) != 0) return std::nullopt;
    out.push_back(static_cast<int64_t>(value));
  }
  return out;
}

std::optional<int64_t> Combined(Opcode opcode, int64_t a, int64_t b) {
  if (opcode == Opcode::kAdd) return CheckedAdd(a, b);
  if (opcode == Opcode::kMultiply) return CheckedMul(a, b);
  if (opcode == Opcode::kSubtract) {
    int64_t out = 0;
    if (__builtin_sub_overflow(a, b, &out)) return std::nullopt;
    return out;
  }
  if (opcode == Opcode::kMaximum) return std::max(a, b);
  if (opcode == Opcode::kMinimum) return std::min(a, b);
  if (opcode == Opcode::kDivide && b > 0) return a / b;
  if (opcode == Opcode::kRemainder && b > 0) return a % b;
  if (opcode == Opcode::kAnd) return a & b;
  if (opcode == Opcode::kOr) return a | b;
  if (opcode == Opcode::kXor) return a ^ b;
  return std::nullopt;
}

bool Holds(ComparisonDirection direction, int64_t a, int64_t b) {
  switch (direction) {
    case ComparisonDirection::kEq: return a == b;
    case ComparisonDirection::kNe: return a != b;
    case ComparisonDirection::kGe: return a >= b;
    case ComparisonDirection::kGt: return a > b;
    case ComparisonDirection::kLe: return a <= b;
    case ComparisonDirection::kLt: return a < b;
  }
  return false;
}

// `count` of the numbers. The place behind the last one may be none of 64 bits.
std::optional<Dims> Sliced(const Dims& whole, const SliceAttributes& a, int64_t count) {
  Dims out;
  for (int64_t n = 0; n < count; ++n) {
    const int64_t at = a.starts[0] + n * a.strides[0];
    if (at >= whole.ssize()) return std::nullopt;
    out.push_back(whole[static_cast<std::size_t>(at)]);
  }
  return out;
}

// Integers in row-major order. `left`: how many more instructions may be looked at.
std::optional<Dims> Fold(const Instruction& i, int& left) {
  if (--left < 0 || !i.shape().IsArray()) return std::nullopt;
  auto operand = [&](std::size_t n) { return Fold(*i.operand(n), left); };
  const Opcode opcode = i.opcode();
  if (opcode == Opcode::kConstant) return Elements(i.literal());
  if (!IsOfSizes(i.shape().element_type()) || i.shape().element_count() > static_cast<int64_t>(kMostElements))
    return std::nullopt;
  if (opcode == Opcode::kReshape) return operand(0);
  if (opcode == Opcode::kConvert) {
    if (!IsOfSizes(i.operand(0)->shape().element_type())) return std::nullopt;
    auto out = operand(0);
    if (out && i.shape().element_type() == ElementType::kPred)
      for (int64_t& value : *out) value = value != 0 ? 1 : 0;
    // A size that does not fit is nothing that a program means.
    const ElementType type = i.shape().element_type();
    const int bits = std::min(BitWidth(type) - (IsSigned(type) ? 1 : 0), 62);
    const int64_t end = int64_t{1} << bits, least = IsSigned(type) ? -end : 0;
    if (out && std::ranges::any_of(*out, [&](int64_t value) { return value < least || value >= end; }))
      return std::nullopt;
    return out;
  }
  if (opcode == Opcode::kGetDimensionSize) {
    const Shape& shape = i.operand(0)->shape();
    const int64_t d = i.attr<DimensionsAttributes>().dimensions[0];
    return shape.IsDynamic() ? std::nullopt : std::optional(Dims{shape.dim(d)});
  }
  if (opcode == Opcode::kBroadcast) {
    auto value = operand(0);
    if (!value || value->size() != 1) return std::nullopt;
    return Dims(static_cast<std::size_t>(i.shape().element_count()), (*value)[0]);
  }
  if (opcode == Opcode::kConcatenate && i.attr<DimensionsAttributes>().dimensions[0] == 0) {
    Dims out;
    for (std::size_t n = 0; n < i.operand_count(); ++n) {
      auto part = operand(n);
      if (!part || out.size() + part->size() > kMostElements) return std::nullopt;
      for (int64_t value : *part) out.push_back(value);
    }
    return out;
  }
  if (opcode == Opcode::kSlice && i.shape().rank() == 1) {
    const auto whole = operand(0);
    return whole ? Sliced(*whole, i.attr<SliceAttributes>(), i.shape().dim(0)) : std::nullopt;
  }
  if (opcode == Opcode::kSign || opcode == Opcode::kNegate) {
    auto value = operand(0);
    if (!value) return std::nullopt;
    for (int64_t& v : *value) {
      if (v == std::numeric_limits<int64_t>::min()) return std::nullopt;
      v = opcode == Opcode::kNegate ? -v : (v > 0) - (v < 0);
    }
    return value;
  }
  if (opcode == Opcode::kSelect) {
    auto choice = operand(0);
    auto yes = choice ? operand(1) : std::nullopt;
    auto no = yes ? operand(2) : std::nullopt;
    if (!no || yes->size() != no->size() || (choice->size() != 1 && choice->size() != yes->size())) return std::nullopt;
    for (std::size_t n = 0; n < yes->size(); ++n)
      if ((*choice)[choice->size() == 1 ? 0 : n] == 0) (*yes)[n] = (*no)[n];
    return yes;
  }
  if (i.operand_count() != 2) return std::nullopt;
  auto a = operand(0);
  auto b = a ? operand(1) : std::nullopt;
  if (!b || a->size() != b->size()) return std::nullopt;
  for (std::size_t n = 0; n < a->size(); ++n) {
    std::optional<int64_t> value;
    if (opcode == Opcode::kCompare) value = Holds(i.attr<CompareAttributes>().direction, (*a)[n], (*b)[n]);
    else value = Combined(opcode, (*a)[n], (*b)[n]);
    if (!value) return std::nullopt;
    (*a)[n] = *value;
  }
  return a;
}

}  // namespace

std::optional<Dims> Converter::ConstantDims(const Instruction* instruction) const {
  int left = 1000;
  return Fold(*instruction, left);
}

Result<Dims> Converter::SizesOperand(const Op& op, const Body& body, std::size_t i) const {
  KRAFLA_ASSIGN(Instruction * operand, Operand(op, body, i));
  auto out = ConstantDims(operand);
  if (!out)
    return Unimplemented("'{}' with a shape that is not known before the program runs cannot be computed.", op.name);
  return *out;
}

}  // namespace krafla::stablehlo
