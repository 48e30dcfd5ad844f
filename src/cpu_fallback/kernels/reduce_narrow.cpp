// SPDX-License-Identifier: Apache-2.0
// Reductions of predicates and of 8 and 16 bits in lanes of that width.
#include "cpu_fallback/kernels/reduce_ops.h"

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

// Predicates are 0 and 1: or is the sum and the maximum, and the product and the minimum.
ReduceOps FindOfPred(plan::Reduction::Kind kind) {
  switch (kind) {
    case plan::Reduction::Kind::kSum:
    case plan::Reduction::Kind::kMax:
    case plan::Reduction::Kind::kOr: return PickNarrowBits<uint8_t, OrOp>();
    case plan::Reduction::Kind::kProduct:
    case plan::Reduction::Kind::kMin:
    case plan::Reduction::Kind::kAnd: return PickNarrowBits<uint8_t, AndOp>();
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
