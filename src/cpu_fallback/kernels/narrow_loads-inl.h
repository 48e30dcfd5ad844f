// SPDX-License-Identifier: Apache-2.0
// Loads of numbers as they are stored, widened to the type of sums, and sums of lanes.
#if defined(KRAFLA_CPU_NARROW_LOADS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef KRAFLA_CPU_NARROW_LOADS_INL
#undef KRAFLA_CPU_NARROW_LOADS_INL
#else
#define KRAFLA_CPU_NARROW_LOADS_INL
#endif

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cpu_fallback/kernels/half_floats-inl.h"
#include "cpu_fallback/kernels/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// bf16 as it is stored.
struct Bf16 {
  uint16_t bits;
};

// `count` elements of a storage type as those of the sums; zeros after them.
template <class D, class S>
HWY_INLINE hn::Vec<D> LoadAs(D d, const S* p, std::size_t count) {
  if constexpr (std::is_same_v<S, hn::TFromD<D>>) {
    return count == hn::Lanes(d) ? hn::LoadU(d, p) : hn::LoadN(d, p, count);
  } else if constexpr (std::is_same_v<S, Bf16>) {
    const hn::RebindToUnsigned<D> du;
    const hn::Rebind<uint16_t, D> narrow;
    const auto* from = reinterpret_cast<const uint16_t*>(p);
    const auto bits = count == hn::Lanes(d) ? hn::LoadU(narrow, from) : hn::LoadN(narrow, from, count);
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, bits)));
  } else {
    const hn::Rebind<S, D> narrow;
    return WidenFloats(d, count == hn::Lanes(d) ? hn::LoadU(narrow, p) : hn::LoadN(narrow, p, count));
  }
}

// The sums of four vectors' lanes, of which the first `count` are stored.
template <class D, class V, class T = hn::TFromD<D>>
HWY_INLINE void StoreFourSums(D d, const V* p, std::size_t count, T* to) {
  if constexpr (hn::MaxLanes(D()) > 16 / sizeof(T)) {
    const hn::Half<D> half;
    hn::Vec<hn::Half<D>> folded[4];
    KRAFLA_UNROLL(4)
    for (int i = 0; i < 4; ++i) folded[i] = hn::Add(hn::LowerHalf(half, p[i]), hn::UpperHalf(half, p[i]));
    StoreFourSums(half, folded, count, to);
  } else {
    const V ab = hn::Add(hn::InterleaveLower(d, p[0], p[1]), hn::InterleaveUpper(d, p[0], p[1]));
    const V ce = hn::Add(hn::InterleaveLower(d, p[2], p[3]), hn::InterleaveUpper(d, p[2], p[3]));
    if constexpr (sizeof(T) == 4) {
      const hn::Repartition<double, D> pairs;
      const auto x = hn::BitCast(pairs, ab), y = hn::BitCast(pairs, ce);
      const V sums =
          hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, x, y)), hn::BitCast(d, hn::InterleaveUpper(pairs, x, y)));
      hn::StoreN(sums, d, to, count);
    } else {
      hn::StoreN(ab, d, to, count);
      if (count > 2) hn::StoreN(ce, d, to + 2, count - 2);
    }
  }
}

// to[r] = the sum of the lanes of sums[r].
template <class D, int kRows>
HWY_INLINE void StoreSums(D d, const hn::Vec<D> (&sums)[kRows], hn::TFromD<D>* to) {
  using T = hn::TFromD<D>;
  if constexpr (kRows == 4 && sizeof(T) == 4 && hn::MaxLanes(D()) >= 4) {
    // Within blocks of four lanes first, all rows at a time.
    const hn::Repartition<uint64_t, D> pairs;
    const auto two = [&](auto a, auto b)
                         HWY_ATTR { return hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b)); };
    const auto low = hn::BitCast(pairs, two(sums[0], sums[1])), high = hn::BitCast(pairs, two(sums[2], sums[3]));
    auto four = hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, low, high)),
                        hn::BitCast(d, hn::InterleaveUpper(pairs, low, high)));
    if constexpr (hn::MaxLanes(D()) >= 16) four = hn::Add(four, hn::ConcatLowerUpper(d, four, four));
    if constexpr (hn::MaxLanes(D()) >= 8) four = hn::Add(four, hn::SwapAdjacentBlocks(four));
    const hn::CappedTag<T, 4> block;
    hn::StoreU(hn::ResizeBitCast(block, four), block, to);
  } else if constexpr (kRows == 4 && sizeof(T) == 8 && hn::MaxLanes(D()) >= 2) {
    StoreFourSums(d, sums, 4, to);
  } else {
    KRAFLA_UNROLL(4)
    for (int r = 0; r < kRows; ++r) to[r] = hn::ReduceSum(d, sums[r]);
  }
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
