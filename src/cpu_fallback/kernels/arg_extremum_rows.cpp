// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/arg_extremum_rows.h"

#include <algorithm>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/arg_extremum_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Stored and StoredIndex: as values and indices lie in memory; T and Index: as they are compared, of one width.
template <class Stored, class StoredIndex, class T, class Index, bool kIsLargest>
struct ArgExtremumLoop {
  using DI = hn::ScalableTag<Index>;
  using D = hn::Rebind<T, DI>;
  using V = hn::Vec<D>;
  using VI = hn::Vec<DI>;

  // `count` elements, and zeros behind them.
  template <class DT, class From>
  static HWY_INLINE hn::Vec<DT> LoadWide(DT d, const From* at, std::size_t count) {
    const hn::Rebind<From, DT> narrow;
    const auto x = count == hn::Lanes(d) ? hn::LoadU(narrow, at) : hn::LoadN(narrow, at, count);
    if constexpr (std::is_same_v<From, hn::TFromD<DT>>) return x;
    else return hn::PromoteTo(d, x);
  }
  template <class DT, class To>
  static HWY_INLINE void StoreNarrow(hn::Vec<DT> x, DT d, To* at, std::size_t count) {
    const hn::Rebind<To, DT> narrow;
    if constexpr (std::is_same_v<To, hn::TFromD<DT>>) {
      hn::StoreN(x, d, at, count);
    } else if constexpr (std::is_floating_point_v<To>) {
      hn::StoreN(hn::DemoteTo(narrow, x), narrow, at, count);
    } else {
      const hn::RebindToUnsigned<DT> wide;
      const hn::Rebind<std::make_unsigned_t<To>, DT> bits;
      hn::StoreN(hn::BitCast(narrow, hn::TruncateTo(bits, hn::BitCast(wide, x))), narrow, at, count);
    }
  }
  static HWY_INLINE V Load(D d, const Stored* at) { return LoadWide(d, at, hn::Lanes(d)); }
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
    const StoredIndex* at = static_cast<const StoredIndex*>(indices);
    T most = static_cast<T>(*static_cast<const Stored*>(value));
    Index where = *static_cast<const StoredIndex*>(index);
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
        Combine(x, LoadWide(di, at + from, hn::Lanes(di)), best[which], best_index[which]);
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
    *static_cast<StoredIndex*>(index) = static_cast<StoredIndex>(where);
    return true;
  }

  static void RunColumns(const void* values, const void* indices, int64_t rows, int64_t columns, void* value,
                         void* index) {
    const D d;
    const DI di;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    for (int64_t c = 0; c < columns; c += lanes) {
      const auto count = static_cast<std::size_t>(std::min(lanes, columns - c));
      const Stored* v = static_cast<const Stored*>(values) + c;
      const StoredIndex* at = static_cast<const StoredIndex*>(indices) + c;
      V best = LoadWide(d, static_cast<const Stored*>(value) + c, count);
      VI best_index = LoadWide(di, static_cast<const StoredIndex*>(index) + c, count);
      for (int64_t r = 0; r < rows; ++r, v += columns, at += columns) {
        const V x = LoadWide(d, v, count);
        const VI place = LoadWide(di, at, count);
        auto stays = kIsLargest ? hn::Gt(best, x) : hn::Lt(best, x);
        if constexpr (std::is_floating_point_v<T>) stays = hn::Or(stays, hn::IsNaN(best));
        const auto is_tie = hn::And(hn::RebindMask(di, hn::Eq(best, x)), hn::Lt(best_index, place));
        best_index = hn::IfThenElse(hn::Or(hn::RebindMask(di, stays), is_tie), best_index, place);
        best = hn::IfThenElse(stays, best, x);
      }
      StoreNarrow(best, d, static_cast<Stored*>(value) + c, count);
      StoreNarrow(best_index, di, static_cast<StoredIndex*>(index) + c, count);
    }
  }
};

template <class Stored, class StoredIndex, class T, class Index>
ArgExtremumLoops LoopsOfPairs() {
  using Smallest = ArgExtremumLoop<Stored, StoredIndex, T, Index, false>;
  using Largest = ArgExtremumLoop<Stored, StoredIndex, T, Index, true>;
  return {{&Smallest::Run, &Largest::Run}, {&Smallest::RunColumns, &Largest::RunColumns}};
}

ArgExtremumLoops FindLoopsOfPairs(ElementType value, ElementType index) {
  using enum ElementType;
  if (index == kS32) {
    if (value == kPred) return LoopsOfPairs<uint8_t, int32_t, int32_t, int32_t>();
    if (value == kF32) return LoopsOfPairs<float, int32_t, float, int32_t>();
    if (value == kS32) return LoopsOfPairs<int32_t, int32_t, int32_t, int32_t>();
    if (value == kU32) return LoopsOfPairs<uint32_t, int32_t, uint32_t, int32_t>();
    if (value == kF64) return LoopsOfPairs<double, int32_t, double, int64_t>();
    if (value == kS64) return LoopsOfPairs<int64_t, int32_t, int64_t, int64_t>();
    if (value == kU64) return LoopsOfPairs<uint64_t, int32_t, uint64_t, int64_t>();
  }
  if (index == kS64) {
    if (value == kF32) return LoopsOfPairs<float, int64_t, double, int64_t>();
    if (value == kS32) return LoopsOfPairs<int32_t, int64_t, int64_t, int64_t>();
    if (value == kU32) return LoopsOfPairs<uint32_t, int64_t, uint64_t, int64_t>();
    if (value == kF64) return LoopsOfPairs<double, int64_t, double, int64_t>();
    if (value == kS64) return LoopsOfPairs<int64_t, int64_t, int64_t, int64_t>();
    if (value == kU64) return LoopsOfPairs<uint64_t, int64_t, uint64_t, int64_t>();
  }
  return {};
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(FindLoopsOfPairs);
ArgExtremumRows FindArgExtremumRows(bool is_largest, ElementType value, ElementType index) {
  return HWY_DYNAMIC_DISPATCH(FindLoopsOfPairs)(value, index).rows[is_largest];
}
ArgExtremumColumns FindArgExtremumColumns(bool is_largest, ElementType value, ElementType index) {
  return HWY_DYNAMIC_DISPATCH(FindLoopsOfPairs)(value, index).columns[is_largest];
}
}  // namespace krafla::cpu
#endif
