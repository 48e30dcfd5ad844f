// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/scatter_ops.h"

#include <bit>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/scatter_ops.cpp"
#include <hwy/foreach_target.h>

#include "cpu_fallback/kernels/float_extrema-inl.h"

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
    // Nearly always one is larger; then there are no NaNs and no zeros of two signs to look for.
    if constexpr (kOp == Opcode::kMaximum || kOp == Opcode::kMinimum) {
      if (x < y || y < x) [[likely]]
        return (x < y) == (kOp == Opcode::kMaximum) ? y : x;
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
  }
}

template <Opcode kOp, class S>
void ScatterLoop(std::byte* out_bytes, const int64_t* starts, const std::byte* updates, int64_t stride, int64_t n,
                 int64_t run) {
  using Stored = typename S::Stored;
  Stored* out = reinterpret_cast<Stored*>(out_bytes);
  const Stored* from = reinterpret_cast<const Stored*>(updates);
  const auto combine = [](Stored& to, Stored value) HWY_ATTR {
    to = S::Narrow(CombineTwo<kOp, typename S::Computed>(S::Widen(to), S::Widen(value)));
  };
  if (run == 1) {
    for (int64_t i = 0; i < n; ++i)
      if (starts[i] != kOutside) combine(out[starts[i]], from[i * stride]);
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    if (starts[i] == kOutside) continue;
    for (int64_t k = 0; k < run; ++k) combine(out[starts[i] + k], from[i * stride + k]);
  }
}
template <class T>
void ReplaceLoop(std::byte* out_bytes, const int64_t* starts, const std::byte* updates, int64_t stride, int64_t n,
                 int64_t run) {
  T* out = reinterpret_cast<T*>(out_bytes);
  const T* from = reinterpret_cast<const T*>(updates);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < run && starts[i] != kOutside; ++k) out[starts[i] + k] = from[i * stride + k];
}

template <class S>
ScatterElementsFn FindOfStorage(Opcode op) {
  if (op == Opcode::kAdd) return &ScatterLoop<Opcode::kAdd, S>;
  if (op == Opcode::kMultiply) return &ScatterLoop<Opcode::kMultiply, S>;
  if (op == Opcode::kMaximum) return &ScatterLoop<Opcode::kMaximum, S>;
  if (op == Opcode::kMinimum) return &ScatterLoop<Opcode::kMinimum, S>;
  if constexpr (std::is_integral_v<typename S::Computed>) {
    if (op == Opcode::kAnd) return &ScatterLoop<Opcode::kAnd, S>;
    if (op == Opcode::kOr) return &ScatterLoop<Opcode::kOr, S>;
  }
  return nullptr;
}
ScatterElementsFn FindElements(Opcode op, ElementType storage) {
  if (storage == ElementType::kPred) {
    // 0 and 1: the sum is the maximum, the product the minimum.
    if (op == Opcode::kAdd) op = Opcode::kMaximum;
    if (op == Opcode::kMultiply) op = Opcode::kMinimum;
    return FindOfStorage<Plain<uint8_t>>(op);
  }
  if (storage == ElementType::kS8) return FindOfStorage<Plain<int8_t>>(op);
  if (storage == ElementType::kU8) return FindOfStorage<Plain<uint8_t>>(op);
  if (storage == ElementType::kS16) return FindOfStorage<Plain<int16_t>>(op);
  if (storage == ElementType::kU16) return FindOfStorage<Plain<uint16_t>>(op);
  if (storage == ElementType::kS32) return FindOfStorage<Plain<int32_t>>(op);
  if (storage == ElementType::kU32) return FindOfStorage<Plain<uint32_t>>(op);
  if (storage == ElementType::kS64) return FindOfStorage<Plain<int64_t>>(op);
  if (storage == ElementType::kU64) return FindOfStorage<Plain<uint64_t>>(op);
  if (storage == ElementType::kBF16) return FindOfStorage<Bfloat>(op);
  if (storage == ElementType::kF32) return FindOfStorage<Plain<float>>(op);
#if HWY_HAVE_FLOAT64
  if (storage == ElementType::kF64) return FindOfStorage<Plain<double>>(op);
#endif
  return nullptr;
}
ScatterElementsFn FindReplace(ElementType storage) {
  switch (StorageBytes(storage)) {
    case 1: return &ReplaceLoop<uint8_t>;
    case 2: return &ReplaceLoop<uint16_t>;
    case 4: return &ReplaceLoop<uint32_t>;
    case 8: return &ReplaceLoop<uint64_t>;
    default: return nullptr;
  }
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(FindStarts);
HWY_EXPORT(FindElements);
HWY_EXPORT(FindReplace);
FindStartsFn FindStartsOf(ElementType index) { return HWY_DYNAMIC_DISPATCH(FindStarts)(index); }
ScatterElementsFn FindScatterElements(Opcode op, ElementType storage) {
  return HWY_DYNAMIC_DISPATCH(FindElements)(op, storage);
}
ScatterElementsFn FindScatterReplace(ElementType storage) { return HWY_DYNAMIC_DISPATCH(FindReplace)(storage); }
}  // namespace krafla::cpu
#endif
