// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/reduce_ops.h"

#include <algorithm>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/reduce_ops.cpp"
#include <hwy/foreach_target.h>

#include "cpu_fallback/kernels/reduce_rows-inl.h"
#include "cpu_fallback/kernels/window_tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {

template <class T, class F>
ReduceOps Pick() {
  return {&ReduceRows<T, F>, &ReduceColumns<T, F>, &ReduceTiles<T, F>,
          static_cast<int>(hn::Lanes(hn::ScalableTag<T>()))};
}
template <class T, template <class> class F>
ReduceOps PickBits() {
  return {&ReduceRows<T, F<T>>, &ReduceColumnsOfBits<F<uint8_t>, sizeof(T)>, &ReduceTiles<T, F<T>>,
          static_cast<int>(hn::Lanes(hn::ScalableTag<T>()))};
}
template <class T>
ReduceOps FindExtremum(plan::Reduction::Kind kind) {
  if constexpr (std::is_floating_point_v<T>) {
    using Bits = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
    constexpr Bits kInfinity = sizeof(T) == 4 ? Bits{0x7f800000} : static_cast<Bits>(int64_t{0x7ff} << 52);
    if (kind == plan::Reduction::Kind::kMax) {
      using F = ExtremumOfBits<Bits, kInfinity, true>;
      return {&ReduceRows<Bits, F>, &ReduceColumns<Bits, F>, &ReduceTiles<T, MaxOp<T>>, 0};
    }
    using F = ExtremumOfBits<Bits, kInfinity, false>;
    return {&ReduceRows<Bits, F>, &ReduceColumns<Bits, F>, &ReduceTiles<T, MinOp<T>>, 0};
  } else {
    return kind == plan::Reduction::Kind::kMax ? Pick<T, MaxOp<T>>() : Pick<T, MinOp<T>>();
  }
}
template <class T>
ReduceOps FindFloat(plan::Reduction::Kind kind) {
  switch (kind) {
    case plan::Reduction::Kind::kSum: return Pick<T, SumOp<T>>();
    case plan::Reduction::Kind::kProduct: return Pick<T, ProductOp<T>>();
    case plan::Reduction::Kind::kMax:
    case plan::Reduction::Kind::kMin: return FindExtremum<T>(kind);
    case plan::Reduction::Kind::kAnd:
    case plan::Reduction::Kind::kOr:
    case plan::Reduction::Kind::kXor:
    case plan::Reduction::Kind::kComplexProduct:
    case plan::Reduction::Kind::kOther: return {};
  }
  return {};
}
// Signed numbers are the same bits but where they are compared.
template <class Unsigned>
ReduceOps FindInteger(plan::Reduction::Kind kind, bool is_signed) {
  switch (kind) {
    case plan::Reduction::Kind::kSum: return Pick<Unsigned, SumOp<Unsigned>>();
    case plan::Reduction::Kind::kProduct: return Pick<Unsigned, ProductOp<Unsigned>>();
    case plan::Reduction::Kind::kMax:
    case plan::Reduction::Kind::kMin:
      return is_signed ? FindExtremum<std::make_signed_t<Unsigned>>(kind) : FindExtremum<Unsigned>(kind);
    case plan::Reduction::Kind::kAnd: return PickBits<Unsigned, AndOp>();
    case plan::Reduction::Kind::kOr: return PickBits<Unsigned, OrOp>();
    case plan::Reduction::Kind::kXor: return PickBits<Unsigned, XorOp>();
    case plan::Reduction::Kind::kComplexProduct:
    case plan::Reduction::Kind::kOther: return {};
  }
  return {};
}
ReduceOps FindReduce(plan::Reduction::Kind kind, ElementType type) {
  if (type == ElementType::kS32 || type == ElementType::kU32)
    return FindInteger<uint32_t>(kind, type == ElementType::kS32);
  if (type == ElementType::kS64 || type == ElementType::kU64)
    return FindInteger<uint64_t>(kind, type == ElementType::kS64);
  if (type == ElementType::kF32) return FindFloat<float>(kind);
  if (type == ElementType::kF64) return FindFloat<double>(kind);
  return {};
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(FindReduce);
ReduceOps FindReduceOps(plan::Reduction::Kind kind, ElementType type) {
  if (StorageBytes(type) < 4) return FindNarrowReduceOps(kind, type);
  return HWY_DYNAMIC_DISPATCH(FindReduce)(kind, type);
}
}  // namespace krafla::cpu
#endif
