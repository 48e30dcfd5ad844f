// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/narrow_windows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/narrow_windows.cpp"
#include <hwy/foreach_target.h>

#include "cpu_fallback/kernels/window_tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {

using Tiles = decltype(ReduceOps::tiles);

// An extremum of floats by their bits, which stay what they are from one fold to the next.
template <class Extremum>
struct ExtremumOfFloats : AsTheyAre {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Do(D d, V x, V y) {
    return Extremum::Leave(d, Extremum::Do(d, Extremum::Enter(d, x), Extremum::Enter(d, y)));
  }
};

template <class Unsigned>
Tiles OfIntegers(plan::Reduction::Kind kind, bool is_signed) {
  using Signed = std::make_signed_t<Unsigned>;
  switch (kind) {
    case plan::Reduction::Kind::kSum: return &ReduceTiles<Unsigned, SumOp<Unsigned>>;
    case plan::Reduction::Kind::kProduct: return &ReduceTiles<Unsigned, ProductOp<Unsigned>>;
    case plan::Reduction::Kind::kMax:
      return is_signed ? &ReduceTiles<Signed, MaxOp<Signed>> : &ReduceTiles<Unsigned, MaxOp<Unsigned>>;
    case plan::Reduction::Kind::kMin:
      return is_signed ? &ReduceTiles<Signed, MinOp<Signed>> : &ReduceTiles<Unsigned, MinOp<Unsigned>>;
    case plan::Reduction::Kind::kAnd: return &ReduceTiles<Unsigned, AndOp<Unsigned>>;
    case plan::Reduction::Kind::kOr: return &ReduceTiles<Unsigned, OrOp<Unsigned>>;
    case plan::Reduction::Kind::kOther: return nullptr;
  }
  return nullptr;
}
template <int16_t kInfinity>
Tiles OfFloats(plan::Reduction::Kind kind) {
  if (kind == plan::Reduction::Kind::kMax)
    return &ReduceTiles<int16_t, ExtremumOfFloats<ExtremumOfBits<int16_t, kInfinity, true>>>;
  if (kind == plan::Reduction::Kind::kMin)
    return &ReduceTiles<int16_t, ExtremumOfFloats<ExtremumOfBits<int16_t, kInfinity, false>>>;
  return nullptr;
}

Tiles FindNarrowTilesOf(plan::Reduction::Kind kind, ElementType type) {
  if (type == ElementType::kU8 || type == ElementType::kS8) return OfIntegers<uint8_t>(kind, IsSigned(type));
  if (type == ElementType::kU16 || type == ElementType::kS16) return OfIntegers<uint16_t>(kind, IsSigned(type));
  if (type == ElementType::kBF16) return OfFloats<0x7f80>(kind);
  if (type == ElementType::kF16) return OfFloats<0x7c00>(kind);
  return nullptr;
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(FindNarrowTilesOf);
decltype(ReduceOps::tiles) FindNarrowTiles(plan::Reduction::Kind kind, ElementType type) {
  return HWY_DYNAMIC_DISPATCH(FindNarrowTilesOf)(kind, type);
}
}  // namespace krafla::cpu
#endif
