// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/arg_extremum_rows.h"

#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/arg_extremum_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Stored: as values lie in memory; T: as they are compared, of the index' width.
template <class Stored, class T, class Index, bool kIsLargest>
struct ArgExtremumLoop {
  using DI = hn::ScalableTag<Index>;
  using D = hn::Rebind<T, DI>;
  using V = hn::Vec<D>;
  using VI = hn::Vec<DI>;

  static HWY_INLINE V Load(D d, const Stored* at) {
    if constexpr (std::is_same_v<Stored, T>) return hn::LoadU(d, at);
    else return hn::PromoteTo(d, hn::LoadU(hn::Rebind<Stored, D>(), at));
  }
  static bool IsNan(T x) {
    if constexpr (std::is_floating_point_v<T>) return x != x;
    else return false;
  }
  static bool IsTaken(T value, T over, Index index, Index over_index) {
    const bool is_beyond = kIsLargest ? value > over : value < over;
    return is_beyond || (value == over && index < over_index);
  }
  static HWY_INLINE void Combine(V value, VI index, V& best, VI& best_index) {
    const DI di;
    const auto is_beyond = kIsLargest ? hn::Gt(value, best) : hn::Lt(value, best);
    const auto is_tie = hn::And(hn::RebindMask(di, hn::Eq(value, best)), hn::Lt(index, best_index));
    best_index = hn::IfThenElse(hn::Or(hn::RebindMask(di, is_beyond), is_tie), index, best_index);
    best = hn::IfThenElse(is_beyond, value, best);
  }

  static bool Run(const void* values, const void* indices, int64_t n, void* value, void* index) {
    const D d;
    const DI di;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    const Stored* v = static_cast<const Stored*>(values);
    const Index* at = static_cast<const Index*>(indices);
    T most = static_cast<T>(*static_cast<const Stored*>(value));
    Index where = *static_cast<const Index*>(index);
    bool has_nan = IsNan(most);
    int64_t i = 0;
    if (n >= lanes) {
      // Two at a time: the next comparison need not wait for the last one.
      V best[2] = {hn::Set(d, most), hn::Set(d, most)};
      VI best_index[2] = {hn::Set(di, where), hn::Set(di, where)};
      V sum = hn::Zero(d);  // of floats: a NaN where there was one
      const auto take = [&](int64_t from, int which) HWY_ATTR {
        const V x = Load(d, v + from);
        if constexpr (std::is_floating_point_v<T>) sum = hn::IfThenElse(hn::IsNaN(x), x, sum);
        Combine(x, hn::LoadU(di, at + from), best[which], best_index[which]);
      };
      for (; i + 2 * lanes <= n; i += 2 * lanes) take(i, 0), take(i + lanes, 1);
      for (; i + lanes <= n; i += lanes) take(i, 0);
      // The last ones together with some that were taken already.
      if (i < n) take(n - lanes, 1);
      i = n;
      if constexpr (std::is_floating_point_v<T>) has_nan = has_nan || !hn::AllFalse(d, hn::IsNaN(sum));
      Combine(best[1], best_index[1], best[0], best_index[0]);
      HWY_ALIGN T bests[HWY_MAX_LANES_D(D)];
      HWY_ALIGN Index places[HWY_MAX_LANES_D(DI)];
      hn::Store(best[0], d, bests), hn::Store(best_index[0], di, places);
      for (int64_t lane = 0; lane < lanes; ++lane)
        if (IsTaken(bests[lane], most, places[lane], where)) most = bests[lane], where = places[lane];
    }
    for (; i < n; ++i) {
      const T x = static_cast<T>(v[i]);
      has_nan = has_nan || IsNan(x);
      if (IsTaken(x, most, at[i], where)) most = x, where = at[i];
    }
    if (has_nan) return false;
    *static_cast<Stored*>(value) = static_cast<Stored>(most);
    *static_cast<Index*>(index) = where;
    return true;
  }
};

template <class Stored, class T, class Index>
ArgExtremumRows PickArgExtremum(bool is_largest) {
  return is_largest ? &ArgExtremumLoop<Stored, T, Index, true>::Run : &ArgExtremumLoop<Stored, T, Index, false>::Run;
}

ArgExtremumRows FindArgExtremumOf(bool is_largest, ElementType value, ElementType index) {
  if (index == ElementType::kS32) {
    if (value == ElementType::kPred) return PickArgExtremum<uint8_t, int32_t, int32_t>(is_largest);
    if (value == ElementType::kF32) return PickArgExtremum<float, float, int32_t>(is_largest);
    if (value == ElementType::kS32) return PickArgExtremum<int32_t, int32_t, int32_t>(is_largest);
    if (value == ElementType::kU32) return PickArgExtremum<uint32_t, uint32_t, int32_t>(is_largest);
  }
  if (index == ElementType::kS64) {
    if (value == ElementType::kF64) return PickArgExtremum<double, double, int64_t>(is_largest);
    if (value == ElementType::kS64) return PickArgExtremum<int64_t, int64_t, int64_t>(is_largest);
    if (value == ElementType::kU64) return PickArgExtremum<uint64_t, uint64_t, int64_t>(is_largest);
  }
  return nullptr;
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(FindArgExtremumOf);
ArgExtremumRows FindArgExtremumRows(bool is_largest, ElementType value, ElementType index) {
  return HWY_DYNAMIC_DISPATCH(FindArgExtremumOf)(is_largest, value, index);
}
}  // namespace krafla::cpu
#endif
