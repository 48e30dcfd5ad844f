// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/scatter_ops.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <type_traits>

#include "cpu_fallback/kernels/unroll.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/scatter_ops.cpp"
#include <hwy/foreach_target.h>

#include "cpu_fallback/kernels/block_loops-inl.h"
#include "cpu_fallback/kernels/float_extrema-inl.h"
#include "cpu_fallback/kernels/half_floats-inl.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {

template <class I, bool kAdds, bool kDense>
void StartsLoop(const IndexComponent& c, int64_t n, int64_t* HWY_RESTRICT starts) {
  const I* HWY_RESTRICT at = reinterpret_cast<const I*>(c.indices);
  const int64_t base = c.base, step = c.step, factor = c.factor, stride = kDense ? 1 : c.stride;
  const auto last = static_cast<uint64_t>(c.last);
  for (int64_t i = 0; i < n; ++i) {
    // Below zero, and of an unsigned type beyond every array, is above `last` here.
    const auto index = static_cast<int64_t>(at[i * stride]);
    const int64_t before = kAdds ? starts[i] : base + i * step;
    const bool inside = static_cast<uint64_t>(index) <= last && (!kAdds || before != kOutside);
    starts[i] = inside ? before + index * factor : kOutside;
  }
}
template <class I>
void StartsOf(const IndexComponent& c, int64_t n, int64_t* starts) {
  if (c.last < 0) {
    for (int64_t i = 0; i < n; ++i) starts[i] = kOutside;
    return;
  }
  if (c.stride == 1) c.adds ? StartsLoop<I, true, true>(c, n, starts) : StartsLoop<I, false, true>(c, n, starts);
  else c.adds ? StartsLoop<I, true, false>(c, n, starts) : StartsLoop<I, false, false>(c, n, starts);
}
FindStartsFn FindStarts(ElementType index) {
  const int width = StorageBytes(index);
  const bool is_signed = IsSigned(index);
  if (width == 1) return is_signed ? &StartsOf<int8_t> : &StartsOf<uint8_t>;
  if (width == 2) return is_signed ? &StartsOf<int16_t> : &StartsOf<uint16_t>;
  if (width == 4) return is_signed ? &StartsOf<int32_t> : &StartsOf<uint32_t>;
  return is_signed ? &StartsOf<int64_t> : &StartsOf<uint64_t>;
}

// Storage types: what they are computed in, and there and back.
template <class T>
struct Plain {
  using Stored = T;
  using Computed = T;
  static HWY_INLINE T Widen(T x) { return x; }
  static HWY_INLINE T Narrow(T x) { return x; }
};
struct Bfloat {
  using Stored = uint16_t;
  using Computed = float;
  static HWY_INLINE float Widen(uint16_t x) { return std::bit_cast<float>(static_cast<uint32_t>(x) << 16); }
  static HWY_INLINE uint16_t Narrow(float x) {
    const uint32_t bits = std::bit_cast<uint32_t>(x);
    if (x != x) return static_cast<uint16_t>(0x7fc0u | (bits >> 16 & 0x8000u));
    return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
};

template <Opcode kOp, class T>
HWY_INLINE T CombineTwo(T x, T y) {
  if constexpr (std::is_floating_point_v<T>) {
    const hn::CappedTag<T, 1> d;
    // Nearly always one is larger; then there are no NaNs and no zeros of two signs to look for. Which one it is no
    // processor foresees: that is a selection.
    if constexpr (kOp == Opcode::kMaximum || kOp == Opcode::kMinimum) {
      const T one = kOp == Opcode::kMaximum ? (y > x ? y : x) : (y < x ? y : x);
      if (__builtin_islessgreater(x, y)) [[likely]]
        return one;
    }
    if constexpr (kOp == Opcode::kAdd) return x + y;
    if constexpr (kOp == Opcode::kMultiply) return x * y;
    if constexpr (kOp == Opcode::kMaximum) return hn::GetLane(FloatMaximum::Do(d, hn::Set(d, x), hn::Set(d, y)));
    if constexpr (kOp == Opcode::kMinimum) return hn::GetLane(FloatMinimum::Do(d, hn::Set(d, x), hn::Set(d, y)));
  } else {
    // Unsigned, in at least 32 bits: everything wraps.
    using Word = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
    if constexpr (kOp == Opcode::kAdd) return static_cast<T>(static_cast<Word>(x) + static_cast<Word>(y));
    if constexpr (kOp == Opcode::kMultiply) return static_cast<T>(static_cast<Word>(x) * static_cast<Word>(y));
    if constexpr (kOp == Opcode::kMaximum) return x > y ? x : y;
    if constexpr (kOp == Opcode::kMinimum) return x < y ? x : y;
    if constexpr (kOp == Opcode::kAnd) return static_cast<T>(x & y);
    if constexpr (kOp == Opcode::kOr) return static_cast<T>(x | y);
    if constexpr (kOp == Opcode::kXor) return static_cast<T>(x ^ y);
  }
}

// Places of the output that no processor foresees, some windows before their turn.
template <class T>
HWY_INLINE void Prefetch(const T* out, const int64_t* starts, int64_t i, int64_t n, int64_t run) {
  constexpr int64_t kAhead = 4, kMostBytes = 1024;
  if (i + kAhead >= n || starts[i + kAhead] == kOutside) return;
  const char* next = reinterpret_cast<const char*>(out + starts[i + kAhead]);
  const int64_t bytes = HWY_MIN(run * static_cast<int64_t>(sizeof(T)), kMostBytes);
  for (int64_t line = 0; line < bytes; line += 64) __builtin_prefetch(next + line, 1);
}

template <Opcode kOp, class D, class V = hn::Vec<D>>
HWY_INLINE V CombineVectors(D d, V x, V y) {
  if constexpr (std::is_floating_point_v<hn::TFromD<D>>) {
    if constexpr (kOp == Opcode::kAdd) return SettledNan(d, hn::Add(x, y));
    if constexpr (kOp == Opcode::kMultiply) return SettledNan(d, hn::Mul(x, y));
    if constexpr (kOp == Opcode::kMaximum) return FloatMaximum::Do(d, x, y);
    if constexpr (kOp == Opcode::kMinimum) return FloatMinimum::Do(d, x, y);
  } else {
    if constexpr (kOp == Opcode::kAdd) return hn::Add(x, y);
    if constexpr (kOp == Opcode::kMultiply) return hn::Mul(x, y);
    if constexpr (kOp == Opcode::kMaximum) return hn::Max(x, y);
    if constexpr (kOp == Opcode::kMinimum) return hn::Min(x, y);
    if constexpr (kOp == Opcode::kAnd) return hn::And(x, y);
    if constexpr (kOp == Opcode::kOr) return hn::Or(x, y);
    if constexpr (kOp == Opcode::kXor) return hn::Xor(x, y);
  }
}
template <Opcode kOp>
struct CombineRows {
  template <class D>
  static HWY_INLINE void Do(D d, hn::TFromD<D>* to, const hn::TFromD<D>* from) {
    hn::StoreU(CombineVectors<kOp>(d, hn::LoadU(d, to), hn::LoadU(d, from)), d, to);
  }
};
struct ReplaceRows {
  template <class D>
  static HWY_INLINE void Do(D d, hn::TFromD<D>* to, const hn::TFromD<D>* from) {
    hn::StoreU(hn::LoadU(d, from), d, to);
  }
};
// A row by whole vectors, then by ever smaller ones, never by a mask: a window at the same place loads what was stored
// in the same pieces, and need not wait for it.
template <class F, std::size_t kLanes, class T>
HWY_INLINE void DoEnd(T* to, const T* from, int64_t left) {
  const hn::CappedTag<T, kLanes> d;
  if (left >= static_cast<int64_t>(kLanes)) F::Do(d, to, from), to += kLanes, from += kLanes, left -= kLanes;
  if constexpr (kLanes > 1) DoEnd<F, kLanes / 2>(to, from, left);
}
template <class F, class T>
HWY_INLINE void DoRow(T* to, const T* from, int64_t run) {
  const hn::ScalableTag<T> d;
  constexpr std::size_t kLanes = HWY_MAX_LANES_D(hn::ScalableTag<T>);
  int64_t k = 0;
  for (; k + static_cast<int64_t>(kLanes) <= run; k += kLanes) F::Do(d, to + k, from + k);
  if constexpr (kLanes > 1) DoEnd<F, kLanes / 2>(to + k, from + k, run - k);
}
// kRun: how long rows are, 0: any length.
template <class F, int64_t kRun, class T>
void RowsLoop(T* out, const int64_t* starts, const T* from, const ScatterWindows& w) {
  const int64_t run = kRun > 0 ? kRun : w.run;
  for (int64_t i = 0; i < w.count; ++i) {
    if (w.prefetches) Prefetch(out, starts, i, w.count, run);
    if (starts[i] != kOutside) DoRow<F>(out + starts[i], from + i * w.stride, run);
  }
}
template <class F, class T>
void RowsOfAnyLength(T* out, const int64_t* starts, const T* from, const ScatterWindows& w) {
  switch (w.run) {
    case 2: return RowsLoop<F, 2>(out, starts, from, w);
    case 3: return RowsLoop<F, 3>(out, starts, from, w);
    case 4: return RowsLoop<F, 4>(out, starts, from, w);
    case 8: return RowsLoop<F, 8>(out, starts, from, w);
    case 16: return RowsLoop<F, 16>(out, starts, from, w);
    default: return RowsLoop<F, 0>(out, starts, from, w);
  }
}

// use(place of the output, number of the update) for each index that is inside.
template <class Use>
HWY_INLINE void ForEachInside(const ScatterIndices& at, int64_t count, Use use) {
  if (at.last < 0) return;
  const auto* indices = reinterpret_cast<const int32_t*>(at.indices);
  const auto last = static_cast<uint32_t>(std::min<int64_t>(at.last, std::numeric_limits<int32_t>::max()));
  const int64_t stride = at.stride;
  KRAFLA_UNROLL(4)
  for (int64_t i = 0; i < count; ++i)
    if (const auto place = static_cast<uint32_t>(indices[i * stride]); place <= last) use(place, i);
}

template <Opcode kOp, class S>
void IndexedLoop(std::byte* out_bytes, const ScatterIndices& at, const std::byte* updates, const ScatterWindows& w) {
  using Stored = typename S::Stored;
  Stored* out = reinterpret_cast<Stored*>(out_bytes);
  const Stored* from = reinterpret_cast<const Stored*>(updates);
  ForEachInside(at, w.count, [&, stride = w.stride](std::size_t place, int64_t i) HWY_ATTR {
    out[place] = S::Narrow(CombineTwo<kOp, typename S::Computed>(S::Widen(out[place]), S::Widen(from[i * stride])));
  });
}
template <class T>
void IndexedReplaceLoop(std::byte* out_bytes, const ScatterIndices& at, const std::byte* updates,
                        const ScatterWindows& w) {
  T* out = reinterpret_cast<T*>(out_bytes);
  const T* from = reinterpret_cast<const T*>(updates);
  ForEachInside(at, w.count,
                [&, stride = w.stride](std::size_t place, int64_t i) HWY_ATTR { out[place] = from[i * stride]; });
}

// A row of narrow floats, which are computed in f32, by ever smaller vectors as DoEnd has them.
template <Opcode kOp, std::size_t kLanes, class N>
HWY_INLINE void CombineHalves(N* to, const N* from, int64_t left) {
  const hn::CappedTag<float, kLanes> d;
  const hn::Rebind<N, decltype(d)> dn;
  for (; left >= static_cast<int64_t>(kLanes); to += kLanes, from += kLanes, left -= kLanes) {
    const auto x = WidenFloats(d, hn::LoadU(dn, to)), y = WidenFloats(d, hn::LoadU(dn, from));
    hn::StoreU(NarrowFloats(dn, CombineVectors<kOp>(d, x, y)), dn, to);
  }
  if constexpr (kLanes > 1) CombineHalves<kOp, kLanes / 2>(to, from, left);
}
template <Opcode kOp, class N>
void HalvesLoop(std::byte* out_bytes, const int64_t* starts, const std::byte* updates, const ScatterWindows& w) {
  auto* out = reinterpret_cast<N*>(out_bytes);
  const auto* from = reinterpret_cast<const N*>(updates);
  for (int64_t i = 0; i < w.count; ++i) {
    if (w.prefetches) Prefetch(out, starts, i, w.count, w.run);
    if (starts[i] == kOutside) continue;
    if (w.run == 1) CombineHalves<kOp, 1>(out + starts[i], from + i * w.stride, 1);
    else CombineHalves<kOp, HWY_MAX_LANES_D(hn::ScalableTag<float>)>(out + starts[i], from + i * w.stride, w.run);
  }
}
template <class N>
ScatterElementsFn FindHalves(Opcode op) {
  if (op == Opcode::kAdd) return &HalvesLoop<Opcode::kAdd, N>;
  if (op == Opcode::kMultiply) return &HalvesLoop<Opcode::kMultiply, N>;
  if (op == Opcode::kMaximum) return &HalvesLoop<Opcode::kMaximum, N>;
  if (op == Opcode::kMinimum) return &HalvesLoop<Opcode::kMinimum, N>;
  return nullptr;
}
template <Opcode kOp, class S>
void ScatterLoop(std::byte* out_bytes, const int64_t* starts, const std::byte* updates, const ScatterWindows& w) {
  using Stored = typename S::Stored;
  Stored* out = reinterpret_cast<Stored*>(out_bytes);
  const Stored* from = reinterpret_cast<const Stored*>(updates);
  const auto combine = [](Stored& to, Stored value) HWY_ATTR {
    to = S::Narrow(CombineTwo<kOp, typename S::Computed>(S::Widen(to), S::Widen(value)));
  };
  if (w.run == 1) {
    // A byte that is stored might be one of these, as far as the compiler knows.
    const int64_t count = w.count, stride = w.stride;
    for (int64_t i = 0; i < count; ++i)
      if (const int64_t start = starts[i]; start != kOutside) combine(out[start], from[i * stride]);
    return;
  }
  if constexpr (std::is_same_v<Stored, typename S::Computed>) {
    RowsOfAnyLength<CombineRows<kOp>>(out, starts, from, w);
  } else {
    HalvesLoop<kOp, hwy::bfloat16_t>(out_bytes, starts, updates, w);
  }
}
template <class T>
void ReplaceLoop(std::byte* out_bytes, const int64_t* starts, const std::byte* updates, const ScatterWindows& w) {
  T* out = reinterpret_cast<T*>(out_bytes);
  const T* from = reinterpret_cast<const T*>(updates);
  if (w.run > 1) return RowsOfAnyLength<ReplaceRows>(out, starts, from, w);
  const int64_t count = w.count, stride = w.stride;
  for (int64_t i = 0; i < count; ++i)
    if (const int64_t start = starts[i]; start != kOutside) out[start] = from[i * stride];
}

// complex_formulas::Multiply, of as many numbers as half the lanes.
struct MultiplyComplexRows {
  template <class D>
  static HWY_INLINE void Do(D d, hn::TFromD<D>* to, const hn::TFromD<D>* from) {
    const auto x = hn::LoadU(d, to), y = hn::LoadU(d, from);
    // Of each pair: x.re * y.re, x.re * y.im, and x.im * y.im, x.im * y.re.
    const auto by_real = hn::Mul(hn::DupEven(x), y), by_imaginary = hn::Mul(hn::DupOdd(x), hn::Reverse2(d, y));
    const auto product = hn::OddEven(hn::Add(by_real, by_imaginary), hn::Sub(by_real, by_imaginary));
    hn::StoreU(SettledNan(d, product), d, to);
  }
};
template <std::size_t kLanes, class T>
HWY_INLINE void MultiplyComplexEnd(T* to, const T* from, int64_t left) {
  const hn::CappedTag<T, kLanes> d;
  for (; left >= static_cast<int64_t>(kLanes); to += kLanes, from += kLanes, left -= kLanes)
    MultiplyComplexRows::Do(d, to, from);
  if constexpr (kLanes > 2) MultiplyComplexEnd<kLanes / 2>(to, from, left);
}
template <class T>
void ComplexProductLoop(std::byte* out_bytes, const int64_t* starts, const std::byte* updates,
                        const ScatterWindows& w) {
  T* out = reinterpret_cast<T*>(out_bytes);
  const T* from = reinterpret_cast<const T*>(updates);
  for (int64_t i = 0; i < w.count; ++i) {
    if (w.prefetches) Prefetch(out, starts, i, w.count, w.run);
    if (starts[i] != kOutside)
      MultiplyComplexEnd<HWY_MAX_LANES_D(hn::ScalableTag<T>)>(out + starts[i], from + i * w.stride, w.run);
  }
}
ScatterElementsFn FindComplexProductLoop(ElementType storage) {
  if (storage == ElementType::kF32) return &ComplexProductLoop<float>;
#if HWY_HAVE_FLOAT64
  if (storage == ElementType::kF64) return &ComplexProductLoop<double>;
#endif
  return nullptr;
}

template <Opcode kOp, class S>
ScatterLoops ScatterLoopsOf() {
  return {&ScatterLoop<kOp, S>, &IndexedLoop<kOp, S>};
}
template <class S>
ScatterLoops FindOfFloat(Opcode op) {
  if (op == Opcode::kAdd) return ScatterLoopsOf<Opcode::kAdd, S>();
  if (op == Opcode::kMultiply) return ScatterLoopsOf<Opcode::kMultiply, S>();
  if (op == Opcode::kMaximum) return ScatterLoopsOf<Opcode::kMaximum, S>();
  if (op == Opcode::kMinimum) return ScatterLoopsOf<Opcode::kMinimum, S>();
  return {};
}
template <class T>
ScatterLoops FindExtremum(Opcode op) {
  return op == Opcode::kMaximum ? ScatterLoopsOf<Opcode::kMaximum, Plain<T>>()
                                : ScatterLoopsOf<Opcode::kMinimum, Plain<T>>();
}
// Signed numbers are the same bits but where they are compared.
template <class Unsigned>
ScatterLoops FindOfInteger(Opcode op, bool is_signed) {
  using S = Plain<Unsigned>;
  if (op == Opcode::kAdd) return ScatterLoopsOf<Opcode::kAdd, S>();
  if (op == Opcode::kMultiply) return ScatterLoopsOf<Opcode::kMultiply, S>();
  if (op == Opcode::kAnd) return ScatterLoopsOf<Opcode::kAnd, S>();
  if (op == Opcode::kOr) return ScatterLoopsOf<Opcode::kOr, S>();
  if (op == Opcode::kXor) return ScatterLoopsOf<Opcode::kXor, S>();
  if (op != Opcode::kMaximum && op != Opcode::kMinimum) return {};
  return is_signed ? FindExtremum<std::make_signed_t<Unsigned>>(op) : FindExtremum<Unsigned>(op);
}
ScatterLoops FindElements(Opcode op, ElementType storage) {
  if (storage == ElementType::kPred) {
    // 0 and 1: the sum is the maximum, the product the minimum.
    if (op == Opcode::kAdd) op = Opcode::kMaximum;
    if (op == Opcode::kMultiply) op = Opcode::kMinimum;
    return FindOfInteger<uint8_t>(op, false);
  }
  const bool is_signed = IsSigned(storage);
  if (storage == ElementType::kS8 || storage == ElementType::kU8) return FindOfInteger<uint8_t>(op, is_signed);
  if (storage == ElementType::kS16 || storage == ElementType::kU16) return FindOfInteger<uint16_t>(op, is_signed);
  if (storage == ElementType::kS32 || storage == ElementType::kU32) return FindOfInteger<uint32_t>(op, is_signed);
  if (storage == ElementType::kS64 || storage == ElementType::kU64) return FindOfInteger<uint64_t>(op, is_signed);
  if (storage == ElementType::kBF16) return FindOfFloat<Bfloat>(op);
  if (storage == ElementType::kF16) return {FindHalves<hwy::float16_t>(op), nullptr};
  if (storage == ElementType::kF32) return FindOfFloat<Plain<float>>(op);
#if HWY_HAVE_FLOAT64
  if (storage == ElementType::kF64) return FindOfFloat<Plain<double>>(op);
#endif
  return {};
}
ScatterLoops FindReplace(ElementType storage) {
  switch (StorageBytes(storage)) {
    case 1: return {&ReplaceLoop<uint8_t>, &IndexedReplaceLoop<uint8_t>};
    case 2: return {&ReplaceLoop<uint16_t>, &IndexedReplaceLoop<uint16_t>};
    case 4: return {&ReplaceLoop<uint32_t>, &IndexedReplaceLoop<uint32_t>};
    case 8: return {&ReplaceLoop<uint64_t>, &IndexedReplaceLoop<uint64_t>};
    default: return {};
  }
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
namespace {

template <class T>
void TakeAs(const std::byte* from, const int64_t* places, int64_t n, std::byte* to) {
  const T* in = reinterpret_cast<const T*>(from);
  T* out = reinterpret_cast<T*>(to);
  for (int64_t i = 0; i < n; ++i) out[i] = in[places[i]];
}
template <class T>
void PutAs(const std::byte* from, const int64_t* places, int64_t n, std::byte* to) {
  const T* in = reinterpret_cast<const T*>(from);
  T* out = reinterpret_cast<T*>(to);
  for (int64_t i = 0; i < n; ++i) out[places[i]] = in[i];
}

}  // namespace

void TakeElements(int width, const std::byte* from, const int64_t* places, int64_t n, std::byte* to) {
  switch (width) {
    case 1: return TakeAs<uint8_t>(from, places, n, to);
    case 2: return TakeAs<uint16_t>(from, places, n, to);
    case 4: return TakeAs<uint32_t>(from, places, n, to);
    default: return TakeAs<uint64_t>(from, places, n, to);
  }
}
void PutElements(int width, const std::byte* from, const int64_t* places, int64_t n, std::byte* to) {
  switch (width) {
    case 1: return PutAs<uint8_t>(from, places, n, to);
    case 2: return PutAs<uint16_t>(from, places, n, to);
    case 4: return PutAs<uint32_t>(from, places, n, to);
    default: return PutAs<uint64_t>(from, places, n, to);
  }
}

HWY_EXPORT(FindStarts);
HWY_EXPORT(FindElements);
HWY_EXPORT(FindReplace);
HWY_EXPORT(FindComplexProductLoop);
FindStartsFn FindStartsOf(ElementType index) { return HWY_DYNAMIC_DISPATCH(FindStarts)(index); }
ScatterLoops FindScatterElements(Opcode op, ElementType storage) {
  return HWY_DYNAMIC_DISPATCH(FindElements)(op, storage);
}
ScatterLoops FindScatterReplace(ElementType storage) { return HWY_DYNAMIC_DISPATCH(FindReplace)(storage); }
ScatterElementsFn FindScatterComplexProducts(ElementType storage) {
  return HWY_DYNAMIC_DISPATCH(FindComplexProductLoop)(storage);
}
}  // namespace krafla::cpu
#endif
