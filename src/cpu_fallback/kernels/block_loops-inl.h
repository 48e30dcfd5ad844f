// SPDX-License-Identifier: Apache-2.0
// Loops over blocks, for every vector target: no include guard in the usual sense. Functors are structs with static or
// const call operators, so that they take the target's attributes.
#if defined(KRAFLA_CPU_BLOCK_LOOPS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef KRAFLA_CPU_BLOCK_LOOPS_INL
#undef KRAFLA_CPU_BLOCK_LOOPS_INL
#else
#define KRAFLA_CPU_BLOCK_LOOPS_INL
#endif

#include <hwy/highway.h>

#include "cpu_fallback/kernels/block_ops.h"
#include "cpu_fallback/kernels/tails-inl.h"
#include "numerics/nan.h"

// Before a loop over arrays that are the same or apart: no iteration waits for another one.
#ifndef KRAFLA_VECTOR_LOOP
#if defined(__clang__)
#define KRAFLA_VECTOR_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define KRAFLA_VECTOR_LOOP _Pragma("GCC ivdep")
#endif
#endif

// An operation on vectors of any type, by an expression of x and y.
#ifndef KRAFLA_BINARY
#define KRAFLA_BINARY(Name, expression)      \
  struct Name {                              \
    template <class D, class V = hn::Vec<D>> \
    static HWY_INLINE V Do(D d, V x, V y) {  \
      (void)d;                               \
      return expression;                     \
    }                                        \
  };
#define KRAFLA_UNARY(Name, expression)       \
  struct Name {                              \
    template <class D, class V = hn::Vec<D>> \
    static HWY_INLINE V Do(D d, V x) {       \
      (void)d;                               \
      return expression;                     \
    }                                        \
  };
#endif

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
using ByteTag = hn::Rebind<uint8_t, D>;

// The next vector of an operand: one value throughout, or from memory.
template <bool kUniform, class D>
HWY_INLINE hn::Vec<D> Next(D d, const hn::TFromD<D>* p, std::size_t i) {
  if constexpr (kUniform) {
    return hn::Set(d, p[0]);
  } else {
    return hn::LoadU(d, p + i);
  }
}
template <bool kUniform, class D>
HWY_INLINE hn::Vec<D> NextN(D d, const hn::TFromD<D>* p, std::size_t i, std::size_t count) {
  if constexpr (kUniform) {
    return hn::Set(d, p[0]);
  } else {
    return LoadSome(d, p + i, count);
  }
}

// Masks from and to bytes of 0 and 1.
template <class D>
HWY_INLINE hn::Mask<D> MaskFromBytes(D d, hn::Vec<ByteTag<D>> bytes) {
  const hn::RebindToUnsigned<D> du;
  if constexpr (sizeof(hn::TFromD<D>) == 1) {
    return hn::RebindMask(d, hn::Ne(bytes, hn::Zero(ByteTag<D>())));
  } else {
    return hn::RebindMask(d, hn::Ne(hn::PromoteTo(du, bytes), hn::Zero(du)));
  }
}
template <class D>
HWY_INLINE hn::Vec<ByteTag<D>> BytesFromMask(D d, hn::Mask<D> mask) {
  const hn::RebindToUnsigned<D> du;
  const auto ones = hn::IfThenElseZero(hn::RebindMask(du, mask), hn::Set(du, 1));
  if constexpr (sizeof(hn::TFromD<D>) == 1) {
    (void)d;
    return ones;
  } else {
    return hn::TruncateTo(ByteTag<D>(), ones);
  }
}

// A result of arithmetic: a NaN is the NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V SettledNan(D d, V x) {
  return hn::IfThenElse(hn::IsNaN(x), hn::Set(d, NanOf<hn::TFromD<D>>()), x);
}
// An operation whose results are.
template <class F>
struct Arithmetic {
  template <class D, class... V>
  static HWY_INLINE hn::Vec<D> Do(D d, V... operands) {
    return SettledNan(d, F::Do(d, operands...));
  }
};

template <class T, class F>
void UnaryLoop(const BlockArgs& args) {
  const hn::ScalableTag<T> d;
  const std::size_t lanes = hn::Lanes(d), n = static_cast<std::size_t>(args.n);
  const T* HWY_RESTRICT a = static_cast<const T*>(args.in[0]);
  T* out = static_cast<T*>(args.out);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(F::Do(d, hn::LoadU(d, a + i)), d, out + i);
  if (i == n) return;
  const Tail tail(d, n - i);
  tail.Store(F::Do(d, tail.Load(d, a + i)), d, out + i);
}

template <class T, bool kA, bool kB, class F>
void BinaryLoop(const BlockArgs& args) {
  const hn::ScalableTag<T> d;
  const std::size_t lanes = hn::Lanes(d), n = static_cast<std::size_t>(args.n);
  const T* a = static_cast<const T*>(args.in[0]);
  const T* b = static_cast<const T*>(args.in[1]);
  T* out = static_cast<T*>(args.out);
  // A uniform operand is read once, before any store.
  const auto a0 = hn::Set(d, kA ? a[0] : T{});
  const auto b0 = hn::Set(d, kB ? b[0] : T{});
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto x = kA ? a0 : hn::LoadU(d, a + i);
    const auto y = kB ? b0 : hn::LoadU(d, b + i);
    hn::StoreU(F::Do(d, x, y), d, out + i);
  }
  if (i == n) return;
  const Tail tail(d, n - i);
  const auto x = kA ? a0 : tail.Load(d, a + i);
  const auto y = kB ? b0 : tail.Load(d, b + i);
  tail.Store(F::Do(d, x, y), d, out + i);
}

// clamp(lo, x, hi) = min(max(lo, x), hi). kBounds: of one lower and one upper bound.
template <class T, bool kBounds, class Larger, class Smaller>
void ClampLoop(const BlockArgs& args) {
  const hn::ScalableTag<T> d;
  const std::size_t lanes = hn::Lanes(d), n = static_cast<std::size_t>(args.n);
  const T* lo = static_cast<const T*>(args.in[0]);
  const T* x = static_cast<const T*>(args.in[1]);
  const T* hi = static_cast<const T*>(args.in[2]);
  T* out = static_cast<T*>(args.out);
  const auto lo0 = hn::Set(d, lo[0]);
  const auto hi0 = hn::Set(d, hi[0]);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto low = kBounds ? lo0 : hn::LoadU(d, lo + i);
    const auto high = kBounds ? hi0 : hn::LoadU(d, hi + i);
    hn::StoreU(Smaller::Do(d, Larger::Do(d, low, hn::LoadU(d, x + i)), high), d, out + i);
  }
  if (i == n) return;
  const Tail tail(d, n - i);
  const auto low = kBounds ? lo0 : tail.Load(d, lo + i);
  const auto high = kBounds ? hi0 : tail.Load(d, hi + i);
  tail.Store(Smaller::Do(d, Larger::Do(d, low, tail.Load(d, x + i)), high), d, out + i);
}

// A loop with its operands exchanged.
template <BlockFn kLoop>
void ExchangedLoop(const BlockArgs& args) {
  kLoop({args.out, {args.in[1], args.in[0], nullptr}, args.n, args.bits});
}

// Both operands arrays, or either one uniform. (Both uniform is a block of one.) kCommutes: to the bit.
template <class T, class F, bool kCommutes = false>
BlockFn PickBinary(unsigned uniform) {
  switch (uniform & 3u) {
    case 0: return &BinaryLoop<T, false, false, F>;
    case 1:
      if constexpr (kCommutes) return &ExchangedLoop<&BinaryLoop<T, false, true, F>>;
      else return &BinaryLoop<T, true, false, F>;
    case 2: return &BinaryLoop<T, false, true, F>;
    default: return nullptr;
  }
}
template <class T, class F>
BlockFn PickUnary(unsigned uniform) {
  return uniform == 0 ? &UnaryLoop<T, F> : nullptr;
}

// One element at a time: for ops that vectors do not have. F::Do on plain numbers.
template <class In, class Out, class F>
void ScalarUnaryLoop(const BlockArgs& args) {
  const In* a = static_cast<const In*>(args.in[0]);
  Out* out = static_cast<Out*>(args.out);
  const int64_t n = args.n;
  KRAFLA_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) out[i] = F::Do(a[i]);
}
template <class T, class F>
void ScalarBinaryLoop(const BlockArgs& args) {
  const T* a = static_cast<const T*>(args.in[0]);
  const T* b = static_cast<const T*>(args.in[1]);
  T* out = static_cast<T*>(args.out);
  const int64_t n = args.n;
  KRAFLA_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) out[i] = F::Do(a[i], b[i]);
}
template <class T, class F>
void ScalarBinaryUniformLoop(const BlockArgs& args) {
  const T* a = static_cast<const T*>(args.in[0]);
  const T b = *static_cast<const T*>(args.in[1]);
  T* out = static_cast<T*>(args.out);
  const int64_t n = args.n;
  KRAFLA_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) out[i] = F::Do(a[i], b);
}
template <class In, class Out, class F>
BlockFn PickScalarUnary(unsigned uniform) {
  return uniform == 0 ? &ScalarUnaryLoop<In, Out, F> : nullptr;
}
template <class T, class F>
BlockFn PickScalarBinary(unsigned uniform) {
  if (uniform == 0) return &ScalarBinaryLoop<T, F>;
  if (uniform == 2) return &ScalarBinaryUniformLoop<T, F>;
  return nullptr;
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
