// SPDX-License-Identifier: Apache-2.0
// Reductions of predicates and of 8 and 16 bits in lanes of that width.
#include "cpu_fallback/kernels/reduce_ops.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/reduce_narrow.cpp"
#include <hwy/foreach_target.h>

#include "cpu_fallback/kernels/reduce_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {

template <class T, class F>
ReduceOps PickNarrow() {
  return {&ReduceRows<T, F>, &ReduceColumns<T, F>, nullptr, 0};
}
template <class T, template <class> class F>
ReduceOps PickNarrowBits() {
  return {&ReduceRows<T, F<T>>, &ReduceColumnsOfBits<F<uint8_t>, sizeof(T)>, nullptr, 0};
}
// Sums keep the low bits that they would have in any wider type.
template <class Unsigned>
ReduceOps FindOfNarrowIntegers(plan::Reduction::Kind kind, bool is_signed) {
  using Signed = std::make_signed_t<Unsigned>;
  switch (kind) {
    case plan::Reduction::Kind::kSum: return PickNarrow<Unsigned, SumOp<Unsigned>>();
    case plan::Reduction::Kind::kMax:
      return is_signed ? PickNarrow<Signed, MaxOp<Signed>>() : PickNarrow<Unsigned, MaxOp<Unsigned>>();
    case plan::Reduction::Kind::kMin:
      return is_signed ? PickNarrow<Signed, MinOp<Signed>>() : PickNarrow<Unsigned, MinOp<Unsigned>>();
    case plan::Reduction::Kind::kAnd: return PickNarrowBits<Unsigned, AndOp>();
    case plan::Reduction::Kind::kOr: return PickNarrowBits<Unsigned, OrOp>();
    case plan::Reduction::Kind::kXor: return PickNarrowBits<Unsigned, XorOp>();
    case plan::Reduction::Kind::kProduct:
    case plan::Reduction::Kind::kComplexProduct:
    case plan::Reduction::Kind::kOther: return {};
  }
  return {};
}
template <int16_t kInfinity>
ReduceOps FindOfNarrowFloats(plan::Reduction::Kind kind) {
  if (kind == plan::Reduction::Kind::kMax) return PickNarrow<int16_t, ExtremumOfBits<int16_t, kInfinity, true>>();
  if (kind == plan::Reduction::Kind::kMin) return PickNarrow<int16_t, ExtremumOfBits<int16_t, kInfinity, false>>();
  return {};
}

// Rows of at most eight predicates are a word each: whether one of them is true, or all of them.
template <bool kAll>
void ReducePredRows(const void* in, int64_t rows, int64_t count, void* accumulator) {
  using F = std::conditional_t<kAll, AndOp<uint8_t>, OrOp<uint8_t>>;
  const auto* a = static_cast<const uint8_t*>(in);
  auto* to = static_cast<uint8_t*>(accumulator);
  int64_t row = 0;
  if (count >= 2 && count <= 8) {
    // A word that begins with one of the last rows may end behind them.
    const int64_t whole = rows - (8 - 1) / count;
    const uint64_t ones = 0x0101010101010101u, own = count == 8 ? ones : ones & ((uint64_t{1} << (8 * count)) - 1);
    for (; row < whole; ++row) {
      uint64_t word;
      std::memcpy(&word, a + row * count, sizeof(word));
      if constexpr (kAll) to[row] = static_cast<uint8_t>(to[row] & static_cast<uint8_t>((word & own) == own));
      else to[row] = static_cast<uint8_t>(to[row] | static_cast<uint8_t>((word & own) != 0));
    }
  }
  ReduceRows<uint8_t, F>(a + row * count, rows - row, count, to + row);
}

// Predicates are 0 and 1: or is the sum and the maximum, and the product and the minimum.
template <bool kAll>
ReduceOps PickPred() {
  ReduceOps ops = kAll ? PickNarrowBits<uint8_t, AndOp>() : PickNarrowBits<uint8_t, OrOp>();
  ops.rows = &ReducePredRows<kAll>;
  return ops;
}
ReduceOps FindOfPred(plan::Reduction::Kind kind) {
  switch (kind) {
    case plan::Reduction::Kind::kSum:
    case plan::Reduction::Kind::kMax:
    case plan::Reduction::Kind::kOr: return PickPred<false>();
    case plan::Reduction::Kind::kProduct:
    case plan::Reduction::Kind::kMin:
    case plan::Reduction::Kind::kAnd: return PickPred<true>();
    case plan::Reduction::Kind::kXor: return PickNarrowBits<uint8_t, XorOp>();
    case plan::Reduction::Kind::kComplexProduct:
    case plan::Reduction::Kind::kOther: return {};
  }
  return {};
}

ReduceOps FindNarrowReduce(plan::Reduction::Kind kind, ElementType type) {
  if (type == ElementType::kPred) return FindOfPred(kind);
  const bool is_signed = IsSigned(type);
  if (type == ElementType::kU8 || type == ElementType::kS8) return FindOfNarrowIntegers<uint8_t>(kind, is_signed);
  if (type == ElementType::kU16 || type == ElementType::kS16) return FindOfNarrowIntegers<uint16_t>(kind, is_signed);
  if (type == ElementType::kBF16) return FindOfNarrowFloats<0x7f80>(kind);
  if (type == ElementType::kF16) return FindOfNarrowFloats<0x7c00>(kind);
  return {};
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(FindNarrowReduce);
ReduceOps FindNarrowReduceOps(plan::Reduction::Kind kind, ElementType type) {
  return HWY_DYNAMIC_DISPATCH(FindNarrowReduce)(kind, type);
}
}  // namespace krafla::cpu
#endif
