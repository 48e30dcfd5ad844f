// SPDX-License-Identifier: Apache-2.0
// The operations of plain reductions, and the loops over columns; those over rows are in reduce_rows-inl.h.
#if defined(KRAFLA_CPU_REDUCE_LOOPS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef KRAFLA_CPU_REDUCE_LOOPS_INL
#undef KRAFLA_CPU_REDUCE_LOOPS_INL
#else
#define KRAFLA_CPU_REDUCE_LOOPS_INL
#endif

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "cpu_fallback/kernels/float_extrema-inl.h"
#include "cpu_fallback/kernels/reduce_ops.h"
#include "cpu_fallback/kernels/tails-inl.h"
#include "cpu_fallback/kernels/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {

// Values that are combined as they are. kIsQuick: one operation waits a cycle or two for the last one, and bits do not
// depend on the order.
template <bool kQuick = true>
struct AsTheyAre {
  static constexpr bool kHasBounds = false, kIsQuick = kQuick;
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Enter(D, V v) {
    return v;
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Leave(D, V v) {
    return v;
  }
};

template <class T>
struct SumOp : AsTheyAre<std::is_integral_v<T>> {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Do(D, V x, V y) {
    return hn::Add(x, y);
  }
};
template <class T>
struct ProductOp : AsTheyAre<false> {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Do(D, V x, V y) {
    return hn::Mul(x, y);
  }
};
template <class T>
struct MaxOp : AsTheyAre<> {
  static constexpr bool kTakesLarger = true;
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Do(D d, V x, V y) {
    if constexpr (std::is_floating_point_v<T>) {
      return FloatMaximum::Do(d, x, y);
    } else {
      return hn::Max(x, y);
    }
  }
};
template <class T>
struct MinOp : AsTheyAre<> {
  static constexpr bool kTakesLarger = false;
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Do(D d, V x, V y) {
    if constexpr (std::is_floating_point_v<T>) {
      return FloatMinimum::Do(d, x, y);
    } else {
      return hn::Min(x, y);
    }
  }
};
template <class T>
struct AndOp : AsTheyAre<> {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Do(D, V x, V y) {
    return hn::And(x, y);
  }
};
template <class T>
struct OrOp : AsTheyAre<> {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Do(D, V x, V y) {
    return hn::Or(x, y);
  }
};

template <class T>
struct XorOp : AsTheyAre<> {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Do(D, V x, V y) {
    return hn::Xor(x, y);
  }
};

// Whether there is an instruction for the larger of two integers of 64 bits.
inline constexpr bool kHasLongExtrema = HWY_MAX_BYTES == 64 || HWY_HAVE_SCALABLE;

// Extrema of floats by their bits, in integers of the same width whose order is theirs: +0 is larger than -0, and a NaN
// is beyond all others. T: the integers; kInfinity: the bits of infinity.
template <class T, T kInfinity, bool kIsMax>
struct ExtremumOfBits {
  static constexpr T kMagnitude = std::numeric_limits<T>::max();
  static constexpr bool kIsMaximum = kIsMax;
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Flip(D d, V v) {
    return hn::Xor(v, hn::And(hn::BroadcastSignBit(v), hn::Set(d, kMagnitude)));
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Enter(D d, V bits) {
    const auto is_nan = hn::Gt(hn::And(bits, hn::Set(d, kMagnitude)), hn::Set(d, kInfinity));
    return hn::IfThenElse(is_nan, hn::Set(d, kIsMax ? kMagnitude : std::numeric_limits<T>::min()), Flip(d, bits));
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Leave(D d, V key) {
    return Flip(d, key);
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Do(D, V x, V y) {
    if constexpr (kIsMax) return hn::Max(x, y);
    else return hn::Min(x, y);
  }

  // The largest of the bits as signed integers, and as unsigned ones, take no keys and mostly tell the extremum: of
  // numbers of which one is not negative the largest is the largest signed integer, and of numbers of which one is
  // negative the least is the largest unsigned integer. A NaN is beyond infinity in one of the two. Where integers of
  // 64 bits would take several operations each, the processor's extremum of the numbers tells it but for NaNs, which
  // are looked for beside it, and zeros.
  static constexpr bool kHasBounds = !kIsPlain, kIsQuick = true;
  static constexpr bool kHasFloatBounds = sizeof(T) == 8 && !kHasLongExtrema;
  using Unsigned = std::make_unsigned_t<T>;
  static constexpr Unsigned kMinusInfinity =
      static_cast<Unsigned>(static_cast<Unsigned>(kInfinity) | (Unsigned{1} << (8 * sizeof(T) - 1)));
  struct NumbersOp {
    template <class D, class V = hn::Vec<D>>
    static HWY_INLINE V Do(D, V x, V y) {
      if constexpr (kIsMax) return hn::Max(x, y);
      else return hn::Min(x, y);
    }
  };
  template <class D>
  struct FloatBounds {
    using DF = hn::RebindToFloat<D>;
    hn::Vec<DF> extremum;
    hn::Mask<DF> is_nan;
    HWY_INLINE FloatBounds() {}
    HWY_INLINE explicit FloatBounds(hn::Vec<D> bits)
        : extremum(hn::BitCast(DF(), bits)), is_nan(hn::IsNaN(hn::BitCast(DF(), bits))) {}
    HWY_INLINE void Add(D, hn::Vec<D> bits) { Add(hn::BitCast(DF(), bits)); }
    HWY_INLINE void Add(D, const FloatBounds& other) {
      extremum = NumbersOp::Do(DF(), extremum, other.extremum);
      is_nan = hn::Or(is_nan, other.is_nan);
    }
    HWY_INLINE bool HaveNoNan(D) const { return hn::AllFalse(DF(), is_nan); }
    HWY_INLINE hn::Vec<D> Extrema(D d) const { return hn::BitCast(d, extremum); }

   private:
    HWY_INLINE void Add(hn::Vec<DF> x) {
      is_nan = hn::Or(is_nan, hn::IsNaN(x));
      extremum = NumbersOp::Do(DF(), extremum, x);
    }
  };
  template <class D>
  struct WordBounds {
    hn::Vec<D> largest;
    hn::Vec<hn::RebindToUnsigned<D>> largest_unsigned;
    // A constructor that nobody writes is not compiled for the instruction set, which GCC refuses for Arm.
    HWY_INLINE WordBounds() {}
    HWY_INLINE explicit WordBounds(hn::Vec<D> bits)
        : largest(bits), largest_unsigned(hn::BitCast(hn::RebindToUnsigned<D>(), bits)) {}
    HWY_INLINE void Add(D d, hn::Vec<D> bits) {
      largest = hn::Max(largest, bits);
      largest_unsigned = hn::Max(largest_unsigned, hn::BitCast(hn::RebindToUnsigned<D>(), bits));
      (void)d;
    }
    HWY_INLINE void Add(D d, const WordBounds& other) {
      largest = hn::Max(largest, other.largest);
      largest_unsigned = hn::Max(largest_unsigned, other.largest_unsigned);
      (void)d;
    }
    HWY_INLINE bool HaveNoNan(D d) const {
      const hn::RebindToUnsigned<D> du;
      return hn::AllTrue(d, hn::Le(largest, hn::Set(d, kInfinity))) &&
             hn::AllTrue(du, hn::Le(largest_unsigned, hn::Set(du, kMinusInfinity)));
    }
    // The extrema of the lanes, where all are told.
    HWY_INLINE hn::Vec<D> Extrema(D d) const {
      if constexpr (kIsMax) return largest;
      else return hn::BitCast(d, largest_unsigned);
    }
  };
  template <class D>
  using Bounds = std::conditional_t<kHasFloatBounds, FloatBounds<D>, WordBounds<D>>;
  template <class D>
  static HWY_INLINE Bounds<D> BoundsOf(D, hn::Vec<D> bits) {
    return Bounds<D>(bits);
  }
  static HWY_INLINE bool HasNoNan(T largest, Unsigned largest_unsigned) {
    return largest <= kInfinity && largest_unsigned <= kMinusInfinity;
  }
  static HWY_INLINE bool IsTold(T extremum) {
    if constexpr (kHasFloatBounds) return (extremum & kMagnitude) != 0;
    else return (extremum >= 0) == kIsMax;
  }
  template <class D>
  static HWY_INLINE bool AreTold(D d, hn::Vec<D> extrema) {
    if constexpr (kHasFloatBounds) return hn::AllTrue(d, hn::Ne(hn::And(extrema, hn::Set(d, kMagnitude)), hn::Zero(d)));
    else if constexpr (kIsMax) return hn::AllTrue(d, hn::Ge(extrema, hn::Zero(d)));
    else return hn::AllTrue(d, hn::Lt(extrema, hn::Zero(d)));
  }
};

// One value of each operation on plain numbers, by a vector of one.
template <class T, class F>
HWY_INLINE T Combine(T x, T y) {
  // Nearly always one is larger; then there are no NaNs and no zeros of two signs to look for.
  if constexpr (std::is_floating_point_v<T> && requires { F::kTakesLarger; }) {
    if (x < y || y < x) [[likely]]
      return (x < y) == F::kTakesLarger ? y : x;
  }
  const hn::CappedTag<T, 1> d;
  return hn::GetLane(F::Do(d, hn::Set(d, x), hn::Set(d, y)));
}

// Halves onto halves, down to one.
template <class F, class D>
HWY_INLINE hn::TFromD<D> FoldLanes(D, hn::Vec<D> v) {
  if constexpr (HWY_MAX_LANES_D(D) == 1) {
    return hn::GetLane(v);
  } else {
    const hn::Half<D> dh;
    return FoldLanes<F>(dh, F::Do(dh, hn::LowerHalf(dh, v), hn::UpperHalf(dh, v)));
  }
}

// Values as F combines them.
template <class F, class D>
HWY_INLINE hn::Vec<D> EnterAt(D d, const hn::TFromD<D>* at) {
  return F::Enter(d, hn::LoadU(d, at));
}
// kVectors of the columns that follow each other every n elements, by their bounds; false where those do not tell.
// Unrolled, or a compiler may leave the values of several vectors in memory.
template <class F, std::size_t kVectors, class D>
HWY_INLINE bool FoldByBounds(D d, const hn::TFromD<D>* at, RowPlanes planes, std::size_t rows, std::size_t n,
                             hn::TFromD<D>* HWY_RESTRICT to) {
  const std::size_t lanes = hn::Lanes(d);
  typename F::template Bounds<D> bounds[kVectors];
  KRAFLA_UNROLL(4)
  for (std::size_t k = 0; k < kVectors; ++k) bounds[k] = F::BoundsOf(d, hn::LoadU(d, to + k * lanes));
  for (int64_t p = 0; p < planes.count; ++p, at += planes.stride)
    for (std::size_t r = 0; r < rows; ++r) {
      KRAFLA_UNROLL(4)
      for (std::size_t k = 0; k < kVectors; ++k) bounds[k].Add(d, hn::LoadU(d, at + r * n + k * lanes));
    }
  bool are_told = true;
  KRAFLA_UNROLL(4)
  for (std::size_t k = 0; k < kVectors; ++k)
    are_told = are_told && bounds[k].HaveNoNan(d) && F::AreTold(d, bounds[k].Extrema(d));
  if (!are_told) return false;
  KRAFLA_UNROLL(4)
  for (std::size_t k = 0; k < kVectors; ++k) hn::StoreU(bounds[k].Extrema(d), d, to + k * lanes);
  return true;
}

// kVectors of the columns, one row after the other.
template <class F, std::size_t kVectors, class D>
HWY_NOINLINE void FoldInTurn(D d, const hn::TFromD<D>* at, RowPlanes planes, std::size_t rows, std::size_t n,
                             hn::TFromD<D>* HWY_RESTRICT to) {
  const std::size_t lanes = hn::Lanes(d);
  if constexpr (F::kHasBounds) {
    // Of few rows they often do not.
    if (rows > kRowsInTurn && FoldByBounds<F, kVectors>(d, at, planes, rows, n, to)) return;
  }
  hn::Vec<D> sum[kVectors];
  KRAFLA_UNROLL(4)
  for (std::size_t k = 0; k < kVectors; ++k) sum[k] = EnterAt<F>(d, to + k * lanes);
  for (int64_t p = 0; p < planes.count; ++p, at += planes.stride)
    for (std::size_t r = 0; r < rows; ++r) {
      KRAFLA_UNROLL(4)
      for (std::size_t k = 0; k < kVectors; ++k) sum[k] = F::Do(d, sum[k], EnterAt<F>(d, at + r * n + k * lanes));
    }
  KRAFLA_UNROLL(4)
  for (std::size_t k = 0; k < kVectors; ++k) hn::StoreU(F::Leave(d, sum[k]), d, to + k * lanes);
}

// The same, even rows and odd ones: the next addition need not wait for the last one. At least two rows, of each plane.
template <class F, std::size_t kVectors, class D>
HWY_NOINLINE void FoldByTwos(D d, const hn::TFromD<D>* at, RowPlanes planes, std::size_t rows, std::size_t n,
                             hn::TFromD<D>* HWY_RESTRICT to) {
  using V = hn::Vec<D>;
  const std::size_t lanes = hn::Lanes(d);
  V even[kVectors], odd[kVectors];
  KRAFLA_UNROLL(4)
  for (std::size_t k = 0; k < kVectors; ++k)
    even[k] = EnterAt<F>(d, at + k * lanes), odd[k] = EnterAt<F>(d, at + n + k * lanes);
  for (int64_t p = 0; p < planes.count; ++p) {
    const auto* plane = at + p * planes.stride;
    std::size_t r = p == 0 ? 2 : 0;
    for (; r + 2 <= rows; r += 2) {
      const auto* row = plane + r * n;
      KRAFLA_UNROLL(4)
      for (std::size_t k = 0; k < kVectors; ++k) {
        even[k] = F::Do(d, even[k], EnterAt<F>(d, row + k * lanes));
        odd[k] = F::Do(d, odd[k], EnterAt<F>(d, row + n + k * lanes));
      }
    }
    if (r == rows) continue;
    KRAFLA_UNROLL(4)
    for (std::size_t k = 0; k < kVectors; ++k) even[k] = F::Do(d, even[k], EnterAt<F>(d, plane + r * n + k * lanes));
  }
  KRAFLA_UNROLL(4)
  for (std::size_t k = 0; k < kVectors; ++k) {
    const V sum = F::Do(d, EnterAt<F>(d, to + k * lanes), F::Do(d, even[k], odd[k]));
    hn::StoreU(F::Leave(d, sum), d, to + k * lanes);
  }
}

// Less than a vector of the columns, by twos or in turn.
template <class F, class D>
HWY_NOINLINE void FoldSome(D d, const hn::TFromD<D>* at, RowPlanes planes, std::size_t rows, std::size_t n,
                           std::size_t left, bool by_twos, hn::TFromD<D>* HWY_RESTRICT to) {
  const Tail tail(d, left);
  const auto enter = [&](const hn::TFromD<D>* from) HWY_ATTR { return F::Enter(d, tail.Load(d, from)); };
  const auto own = enter(to);
  auto even = own, odd = own;
  std::size_t begin = 0;
  if (by_twos) even = enter(at), odd = enter(at + n), begin = 2;
  for (int64_t p = 0; p < planes.count; ++p, at += planes.stride, begin = 0) {
    std::size_t r = begin;
    for (; by_twos && r + 2 <= rows; r += 2) {
      even = F::Do(d, even, enter(at + r * n));
      odd = F::Do(d, odd, enter(at + (r + 1) * n));
    }
    for (; r < rows; ++r) even = F::Do(d, even, enter(at + r * n));
  }
  if (by_twos) even = F::Do(d, own, F::Do(d, even, odd));
  tail.Store(F::Leave(d, even), d, to);
}

// Halves onto halves down to a vector of n lanes, with what is left of the rows.
template <class F, class D>
HWY_INLINE void FoldToColumns(D d, hn::Vec<D> v, const hn::TFromD<D>* rest, std::size_t left, std::size_t n,
                              hn::TFromD<D>* HWY_RESTRICT to) {
  const std::size_t lanes = hn::Lanes(d);
  if (left >= lanes) v = F::Do(d, v, EnterAt<F>(d, rest)), rest += lanes, left -= lanes;
  if (lanes == n) {
    hn::StoreU(F::Leave(d, F::Do(d, EnterAt<F>(d, to), v)), d, to);
    return;
  }
  if constexpr (HWY_MAX_LANES_D(D) > 2) {
    const hn::Half<D> dh;
    FoldToColumns<F>(dh, F::Do(dh, hn::LowerHalf(dh, v), hn::UpperHalf(dh, v)), rest, left, n, to);
  }
}
// Columns of which a vector holds several rows, all of them of operations whose order is of no matter: lanes that lie
// n apart are of one column. At least two vectors.
template <class F, class D>
HWY_NOINLINE void FoldFewColumns(D d, const hn::TFromD<D>* at, RowPlanes planes, std::size_t count, std::size_t n,
                                 hn::TFromD<D>* HWY_RESTRICT to) {
  const std::size_t lanes = hn::Lanes(d);
  auto even = EnterAt<F>(d, at), odd = EnterAt<F>(d, at + lanes);
  std::size_t i = 2 * lanes;
  for (int64_t p = 0; p < planes.count; ++p, i = 0) {
    const auto* plane = at + p * planes.stride;
    for (; i + 2 * lanes <= count; i += 2 * lanes) {
      even = F::Do(d, even, EnterAt<F>(d, plane + i));
      odd = F::Do(d, odd, EnterAt<F>(d, plane + i + lanes));
    }
    if (i + lanes <= count) even = F::Do(d, even, EnterAt<F>(d, plane + i));
  }
  const std::size_t whole = count / lanes * lanes;
  FoldToColumns<F>(d, F::Do(d, even, odd), at + whole, count - whole, n, to);
}

// accumulator[c] = accumulator[c] (op) in[0, c] (op) ... in[rows - 1, c], of one plane after the other.
template <class T, class F>
void ReduceColumns(const void* in, RowPlanes planes, int64_t row_count, int64_t count, void* accumulator) {
  const hn::ScalableTag<T> d;
  const std::size_t lanes = hn::Lanes(d), n = static_cast<std::size_t>(count),
                    rows = static_cast<std::size_t>(row_count);
  const T* a = static_cast<const T*>(in);
  T* to = static_cast<T*>(accumulator);
  if (rows == 0) return;
  if constexpr (F::kIsQuick) {
    const bool is_whole = planes.count == 1 || rows * n % lanes == 0;
    if (n >= 2 && 2 * n <= lanes && lanes % n == 0 && rows * n >= 4 * lanes && is_whole)
      return FoldFewColumns<F>(d, a, planes, rows * n, n, to);
  }
  // A few rows, as windows have them, are taken in turn, as XLA does: in sums of few elements the order counts.
  const bool by_twos = row_count > kRowsInTurn;
  std::size_t c = 0;
  // Several vectors side by side: memory is read in longer pieces, and operations of one need not wait for each other.
  const auto fold = [&]<std::size_t kVectors>() {
    if constexpr (F::kIsQuick) {
      FoldInTurn<F, kVectors>(d, a + c, planes, rows, n, to + c);
    } else {
      if (by_twos) FoldByTwos<F, kVectors>(d, a + c, planes, rows, n, to + c);
      else FoldInTurn<F, kVectors>(d, a + c, planes, rows, n, to + c);
    }
    c += kVectors * lanes;
  };
  while (c + 4 * lanes <= n) fold.template operator()<4>();
  if (c + 2 * lanes <= n) fold.template operator()<2>();
  if (c + lanes <= n) fold.template operator()<1>();
  if (c < n) FoldSome<F>(d, a + c, planes, rows, n, n - c, by_twos, to + c);
}

// The same of operations that know no numbers, of values of so many bytes.
template <class F, int kBytes>
void ReduceColumnsOfBits(const void* in, RowPlanes planes, int64_t rows, int64_t columns, void* accumulator) {
  ReduceColumns<uint8_t, F>(in, {planes.count, planes.stride * kBytes}, rows, columns * kBytes, accumulator);
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
