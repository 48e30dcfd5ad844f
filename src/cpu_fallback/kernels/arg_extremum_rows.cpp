// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/arg_extremum_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/arg_extremum_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// `count` elements, and zeros behind them.
template <class DT, class From>
HWY_INLINE hn::Vec<DT> LoadWide(DT d, const From* at, std::size_t count) {
  const hn::Rebind<From, DT> narrow;
  const auto x = count == hn::Lanes(d) ? hn::LoadU(narrow, at) : hn::LoadN(narrow, at, count);
  if constexpr (std::is_same_v<From, hn::TFromD<DT>>) return x;
  else return hn::PromoteTo(d, x);
}
template <class DT, class To>
HWY_INLINE void StoreNarrow(hn::Vec<DT> x, DT d, To* at, std::size_t count) {
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

// Folds rows of columns that lie side by side into a pair for each: `step` puts the next pair to the one that is there.
// D and DI have as many lanes.
template <class D, class DI, class Stored, class StoredIndex, class Step>
HWY_INLINE void FoldColumns(const Stored* values, const StoredIndex* indices, int64_t rows, int64_t columns,
                            Stored* value, StoredIndex* index, Step step) {
  const D d;
  const DI di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t c = 0; c < columns; c += lanes) {
    const auto count = static_cast<std::size_t>(std::min(lanes, columns - c));
    const Stored* v = values + c;
    const StoredIndex* at = indices + c;
    auto best = LoadWide(d, value + c, count);
    auto best_index = LoadWide(di, index + c, count);
    for (int64_t r = 0; r < rows; ++r, v += columns, at += columns)
      step(best, best_index, LoadWide(d, v, count), LoadWide(di, at, count));
    StoreNarrow(best, d, value + c, count);
    StoreNarrow(best_index, di, index + c, count);
  }
}

// Stored and StoredIndex: as values and indices lie in memory; T and Index: as they are compared, of one width.
template <class Stored, class StoredIndex, class T, class Index, bool kIsLargest>
struct ArgExtremumLoop {
  static constexpr int64_t kLeastVectors = 8;  // that are gone through twice
  using DI = hn::ScalableTag<Index>;
  using D = hn::Rebind<T, DI>;
  using V = hn::Vec<D>;
  using VI = hn::Vec<DI>;

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

  // The extremum of n elements, at least four vectors, and *most. False: there is a NaN.
  static bool FindExtremum(const Stored* v, int64_t n, Stored* most) {
    const hn::ScalableTag<Stored> d;
    using VS = hn::Vec<decltype(d)>;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    const auto beyond = [&](VS x, VS y) HWY_ATTR { return kIsLargest ? hn::Max(x, y) : hn::Min(x, y); };
    VS best[4] = {hn::Set(d, *most), hn::Set(d, *most), hn::Set(d, *most), hn::Set(d, *most)};
    auto is_nan = hn::Ne(best[0], best[0]);
    const auto take = [&](int64_t from, std::size_t which) HWY_ATTR {
      const VS x = hn::LoadU(d, v + from), y = hn::LoadU(d, v + from + lanes);
      if constexpr (std::is_floating_point_v<Stored>) is_nan = hn::Or(is_nan, hn::IsEitherNaN(x, y));
      best[which] = beyond(best[which], x), best[which + 1] = beyond(best[which + 1], y);
    };
    int64_t i = 0;
    for (; i + 4 * lanes <= n; i += 4 * lanes) take(i, 0), take(i + 2 * lanes, 2);
    // The last ones together with some that were taken already.
    if (i < n) take(n - 4 * lanes, 0), take(n - 2 * lanes, 2);
    if (!hn::AllFalse(d, is_nan)) return false;
    HWY_ALIGN Stored bests[HWY_MAX_LANES_D(hn::ScalableTag<Stored>)];
    hn::Store(beyond(beyond(best[0], best[1]), beyond(best[2], best[3])), d, bests);
    *most = kIsLargest ? *std::max_element(bests, bests + lanes) : *std::min_element(bests, bests + lanes);
    return true;
  }
  // The least index of the elements that equal `most`, and of `where`.
  static Index FindIndex(const Stored* v, const StoredIndex* at, int64_t n, Stored most, Index where) {
    const hn::ScalableTag<Stored> ds;
    const D d;
    const DI di;
    const auto stored_lanes = static_cast<int64_t>(hn::Lanes(ds)), lanes = static_cast<int64_t>(hn::Lanes(d));
    const auto wanted = hn::Set(ds, most);
    VI least = hn::Set(di, where);
    const auto look = [&](int64_t from) HWY_ATTR {
      const auto equals = [&](int64_t k)
                              HWY_ATTR { return hn::Eq(hn::LoadU(ds, v + from + k * stored_lanes), wanted); };
      if (hn::AllFalse(ds, hn::Or(hn::Or(equals(0), equals(1)), hn::Or(equals(2), equals(3))))) return;
      for (int64_t k = from; k < from + 4 * stored_lanes; k += lanes) {
        const auto is_wanted = hn::Eq(Load(d, v + k), hn::Set(d, static_cast<T>(most)));
        const VI places = LoadWide(di, at + k, hn::Lanes(di));
        least = hn::IfThenElse(hn::RebindMask(di, is_wanted), hn::Min(places, least), least);
      }
    };
    int64_t i = 0;
    for (; i + 4 * stored_lanes <= n; i += 4 * stored_lanes) look(i);
    if (i < n) look(n - 4 * stored_lanes);
    HWY_ALIGN Index places[HWY_MAX_LANES_D(DI)];
    hn::Store(least, di, places);
    return *std::min_element(places, places + lanes);
  }

  // Makes an extremum that is zero the zero that is there, before or among n elements. False: there are both.
  static bool FindZero(const Stored* v, int64_t n, Stored before, Stored* zero) {
    if constexpr (std::is_floating_point_v<Stored>) {
      if (*zero != 0) return true;
      bool has_negative = before == 0 && std::signbit(before), has_positive = before == 0 && !std::signbit(before);
      for (int64_t i = 0; i < n; ++i) {
        const bool is_zero = v[i] == 0, is_negative = std::signbit(v[i]);
        has_negative |= is_zero & is_negative, has_positive |= is_zero & !is_negative;
      }
      *zero = has_negative ? -Stored{0} : Stored{0};
      return has_negative != has_positive;
    }
    return true;
  }

  static bool Run(const void* values, const void* indices, int64_t n, void* value, void* index) {
    const D d;
    const DI di;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    const Stored* v = static_cast<const Stored*>(values);
    const StoredIndex* at = static_cast<const StoredIndex*>(indices);
    // Where there are many elements few vectors of them have the extremum: indices are read of those alone.
    if (n >= kLeastVectors * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<Stored>()))) {
      const Stored before = *static_cast<const Stored*>(value);
      Stored extremum = before;
      if (!FindExtremum(v, n, &extremum) || !FindZero(v, n, before, &extremum)) return false;
      const Index least =
          extremum == before ? Index{*static_cast<const StoredIndex*>(index)} : std::numeric_limits<StoredIndex>::max();
      *static_cast<Stored*>(value) = extremum;
      *static_cast<StoredIndex*>(index) = static_cast<StoredIndex>(FindIndex(v, at, n, extremum, least));
      return true;
    }
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
      // What was there before is in all lanes' comparisons. (With a NaN nothing of this counts.)
      most = kIsLargest ? hn::ReduceMax(d, best[0]) : hn::ReduceMin(d, best[0]);
      const auto is_most = hn::RebindMask(di, hn::Eq(best[0], hn::Set(d, most)));
      where = hn::ReduceMin(di, hn::IfThenElse(is_most, best_index[0], hn::Set(di, std::numeric_limits<Index>::max())));
    }
    for (; i < n; ++i) {
      const T x = static_cast<T>(v[i]);
      has_nan = has_nan || IsNan(x);
      if (IsTaken(x, most, at[i], where)) most = x, where = at[i];
    }
    Stored extremum = static_cast<Stored>(most);
    if (has_nan || !FindZero(v, n, *static_cast<const Stored*>(value), &extremum)) return false;
    *static_cast<Stored*>(value) = extremum;
    *static_cast<StoredIndex*>(index) = static_cast<StoredIndex>(where);
    return true;
  }

  static HWY_INLINE void Step(V& best, VI& best_index, V x, VI place) {
    const DI di;
    auto stays = kIsLargest ? hn::Gt(best, x) : hn::Lt(best, x);
    if constexpr (std::is_floating_point_v<T>) stays = hn::Or(stays, hn::IsNaN(best));
    const auto is_tie = hn::And(hn::RebindMask(di, hn::Eq(best, x)), hn::Lt(best_index, place));
    best_index = hn::IfThenElse(hn::Or(hn::RebindMask(di, stays), is_tie), best_index, place);
    best = hn::IfThenElse(stays, best, x);
  }

  static void RunColumns(const void* values, const void* indices, int64_t rows, int64_t columns, void* value,
                         void* index) {
    FoldColumns<D, DI>(static_cast<const Stored*>(values), static_cast<const StoredIndex*>(indices), rows, columns,
                       static_cast<Stored*>(value), static_cast<StoredIndex*>(index),
                       [](V& best, VI& best_index, V x, VI place) { Step(best, best_index, x, place); });
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

// Pairs of which the one of the smaller index stays where that index is not negative and its value compares so with the
// other one's.
template <class T, class Index, ComparisonDirection kDirection>
struct SelectedPairsLoop {
  using DI = hn::ScalableTag<Index>;
  using D = hn::Rebind<T, DI>;
  using V = hn::Vec<D>;
  using VI = hn::Vec<DI>;

  static HWY_INLINE auto Compare(V a, V b) {
    if constexpr (kDirection == ComparisonDirection::kGe) return hn::Ge(a, b);
    else if constexpr (kDirection == ComparisonDirection::kGt) return hn::Gt(a, b);
    else if constexpr (kDirection == ComparisonDirection::kLe) return hn::Le(a, b);
    else return hn::Lt(a, b);
  }

  static HWY_INLINE void Step(V& best, VI& best_index, V next, VI place) {
    const D d;
    const DI di;
    const auto in_order = hn::Le(best_index, place);
    const auto is_first = hn::RebindMask(d, in_order);
    const auto compares = Compare(hn::IfThenElse(is_first, best, next), hn::IfThenElse(is_first, next, best));
    const auto exists = hn::Ge(hn::Min(best_index, place), hn::Zero(di));
    // What was there stays where it is the first of the two and that stays, or where neither is so.
    const auto stays = hn::Not(hn::Xor(hn::And(hn::RebindMask(di, compares), exists), in_order));
    best_index = hn::IfThenElse(stays, best_index, place);
    best = hn::IfThenElse(hn::RebindMask(d, stays), best, next);
  }

  static void RunColumns(const void* values, const void* indices, int64_t rows, int64_t columns, void* value,
                         void* index) {
    FoldColumns<D, DI>(static_cast<const T*>(values), static_cast<const int32_t*>(indices), rows, columns,
                       static_cast<T*>(value), static_cast<int32_t*>(index),
                       [](V& best, VI& best_index, V next, VI place) { Step(best, best_index, next, place); });
  }
};

template <class T, class Index>
ArgExtremumColumns SelectedPairsOf(ComparisonDirection direction) {
  using enum ComparisonDirection;
  switch (direction) {
    case kGe: return &SelectedPairsLoop<T, Index, kGe>::RunColumns;
    case kGt: return &SelectedPairsLoop<T, Index, kGt>::RunColumns;
    case kLe: return &SelectedPairsLoop<T, Index, kLe>::RunColumns;
    case kLt: return &SelectedPairsLoop<T, Index, kLt>::RunColumns;
    case kEq:
    case kNe: break;
  }
  return nullptr;
}

ArgExtremumColumns FindLoopOfSelectedPairs(ComparisonDirection direction, ElementType value) {
  using enum ElementType;
  if (value == kF32) return SelectedPairsOf<float, int32_t>(direction);
  if (value == kS32) return SelectedPairsOf<int32_t, int32_t>(direction);
  if (value == kU32) return SelectedPairsOf<uint32_t, int32_t>(direction);
  if (value == kF64) return SelectedPairsOf<double, int64_t>(direction);
  if (value == kS64) return SelectedPairsOf<int64_t, int64_t>(direction);
  if (value == kU64) return SelectedPairsOf<uint64_t, int64_t>(direction);
  return nullptr;
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(FindLoopsOfPairs);
HWY_EXPORT(FindLoopOfSelectedPairs);
ArgExtremumRows FindArgExtremumRows(bool is_largest, ElementType value, ElementType index) {
  return HWY_DYNAMIC_DISPATCH(FindLoopsOfPairs)(value, index).rows[is_largest];
}
ArgExtremumColumns FindArgExtremumColumns(bool is_largest, ElementType value, ElementType index) {
  return HWY_DYNAMIC_DISPATCH(FindLoopsOfPairs)(value, index).columns[is_largest];
}
ArgExtremumColumns FindSelectedPairs(ComparisonDirection direction, ElementType value, ElementType index) {
  return index == ElementType::kS32 ? HWY_DYNAMIC_DISPATCH(FindLoopOfSelectedPairs)(direction, value) : nullptr;
}
}  // namespace krafla::cpu
#endif
