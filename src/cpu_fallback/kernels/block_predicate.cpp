// SPDX-License-Identifier: Apache-2.0
// Ops that make, combine or use predicates: arrays of bytes that are 0 or 1.
#include <type_traits>

#include "cpu_fallback/kernels/block_families.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/block_predicate.cpp"
#include <hwy/foreach_target.h>

#include "cpu_fallback/kernels/block_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {

// What total order compares: the bit pattern as a signed integer, negative numbers reversed.
template <class D>
HWY_INLINE auto TotalOrderKey(D d, hn::Vec<D> x) {
  if constexpr (std::is_floating_point_v<hn::TFromD<D>>) {
    const hn::RebindToSigned<D> di;
    const auto bits = hn::BitCast(di, x);
    const auto flip =
        hn::BitCast(di, hn::ShiftRight<1>(hn::BitCast(hn::RebindToUnsigned<D>(), hn::BroadcastSignBit(bits))));
    (void)d;
    return hn::Xor(bits, flip);
  } else {
    (void)d;
    return x;
  }
}

template <ComparisonDirection kDirection, class V>
HWY_INLINE auto CompareVectors(V x, V y) {
  if constexpr (kDirection == ComparisonDirection::kEq) return hn::Eq(x, y);
  // hn::Ne of floats is ordered on some targets: false for NaN.
  if constexpr (kDirection == ComparisonDirection::kNe) return hn::Not(hn::Eq(x, y));
  if constexpr (kDirection == ComparisonDirection::kLe) return hn::Le(x, y);
  if constexpr (kDirection == ComparisonDirection::kLt) return hn::Lt(x, y);
}

template <class T, bool kTotal, ComparisonDirection kDirection>
struct CompareOp {
  template <class D>
  static HWY_INLINE hn::Vec<ByteTag<D>> Do(D d, hn::Vec<D> x, hn::Vec<D> y) {
    if constexpr (kTotal && std::is_floating_point_v<T>) {
      const hn::RebindToSigned<D> di;
      return BytesFromMask(di, CompareVectors<kDirection>(TotalOrderKey(d, x), TotalOrderKey(d, y)));
    } else {
      return BytesFromMask(d, CompareVectors<kDirection>(x, y));
    }
  }
};

template <class T, bool kA, bool kB, class F>
void CompareLoop(const BlockArgs& args) {
  const hn::ScalableTag<T> d;
  const ByteTag<decltype(d)> d8;
  const std::size_t lanes = hn::Lanes(d), n = static_cast<std::size_t>(args.n);
  const T* a = static_cast<const T*>(args.in[0]);
  const T* b = static_cast<const T*>(args.in[1]);
  uint8_t* out = static_cast<uint8_t*>(args.out);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(F::Do(d, Next<kA>(d, a, i), Next<kB>(d, b, i)), d8, out + i);
  if (i < n) StoreSome(F::Do(d, NextN<kA>(d, a, i, n - i), NextN<kB>(d, b, i, n - i)), d8, out + i, n - i);
}

template <class T, class F, bool kCommutes = false>
BlockFn PickCompare(unsigned uniform) {
  switch (uniform & 3u) {
    case 0: return &CompareLoop<T, false, false, F>;
    case 1:
      if constexpr (kCommutes) return &ExchangedLoop<&CompareLoop<T, false, true, F>>;
      else return &CompareLoop<T, true, false, F>;
    case 2: return &CompareLoop<T, false, true, F>;
    case 3: break;
  }
  return nullptr;
}
template <class T, class F>
BlockFn PickExchanged(unsigned uniform) {
  switch (uniform & 3u) {
    case 0: return &ExchangedLoop<&CompareLoop<T, false, false, F>>;
    case 1: return &ExchangedLoop<&CompareLoop<T, false, true, F>>;
    case 2: return &ExchangedLoop<&CompareLoop<T, true, false, F>>;
    case 3: break;
  }
  return nullptr;
}
template <class T, bool kTotal>
BlockFn FindCompareOfType(const BlockKey& key) {
  // Whether numbers are equal does not depend on their sign.
  using U = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;
  const unsigned u = key.uniform;
  switch (key.direction) {
    case ComparisonDirection::kEq: return PickCompare<U, CompareOp<U, kTotal, ComparisonDirection::kEq>, true>(u);
    case ComparisonDirection::kNe: return PickCompare<U, CompareOp<U, kTotal, ComparisonDirection::kNe>, true>(u);
    case ComparisonDirection::kGe: return PickExchanged<T, CompareOp<T, kTotal, ComparisonDirection::kLe>>(u);
    case ComparisonDirection::kGt: return PickExchanged<T, CompareOp<T, kTotal, ComparisonDirection::kLt>>(u);
    case ComparisonDirection::kLe: return PickCompare<T, CompareOp<T, kTotal, ComparisonDirection::kLe>>(u);
    case ComparisonDirection::kLt: return PickCompare<T, CompareOp<T, kTotal, ComparisonDirection::kLt>>(u);
  }
  return nullptr;
}

template <class T, bool kTrue, bool kFalse>
void SelectLoop(const BlockArgs& args) {
  const hn::ScalableTag<T> d;
  const ByteTag<decltype(d)> d8;
  const std::size_t lanes = hn::Lanes(d), n = static_cast<std::size_t>(args.n);
  const uint8_t* p = static_cast<const uint8_t*>(args.in[0]);
  const T* t = static_cast<const T*>(args.in[1]);
  const T* f = static_cast<const T*>(args.in[2]);
  T* out = static_cast<T*>(args.out);
  const auto t0 = hn::Set(d, t[0]);
  const auto f0 = hn::Set(d, f[0]);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto mask = MaskFromBytes(d, hn::LoadU(d8, p + i));
    hn::StoreU(hn::IfThenElse(mask, kTrue ? t0 : hn::LoadU(d, t + i), kFalse ? f0 : hn::LoadU(d, f + i)), d, out + i);
  }
  if (i < n) {
    const std::size_t rest = n - i;
    const auto mask = MaskFromBytes(d, LoadSome(d8, p + i, rest));
    StoreSome(hn::IfThenElse(mask, kTrue ? t0 : LoadSome(d, t + i, rest), kFalse ? f0 : LoadSome(d, f + i, rest)), d,
              out + i, rest);
  }
}
// One predicate for the whole block: a copy of either side.
template <class T>
void SelectWholeLoop(const BlockArgs& args) {
  const bool p = *static_cast<const uint8_t*>(args.in[0]) != 0;
  const T* from = static_cast<const T*>(args.in[p ? 1 : 2]);
  T* out = static_cast<T*>(args.out);
  const int64_t n = args.n;
  KRAFLA_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) out[i] = from[i];
}
template <class T>
BlockFn PickSelect(unsigned uniform) {
  switch (uniform) {
    case 0: return &SelectLoop<T, false, false>;
    case 1: return &SelectWholeLoop<T>;
    case 2: return &SelectLoop<T, true, false>;
    case 4: return &SelectLoop<T, false, true>;
    case 6: return &SelectLoop<T, true, true>;
    default: return nullptr;
  }
}

struct PredAnd {
  template <class D>
  static HWY_INLINE hn::Vec<D> Do(D, hn::Vec<D> x, hn::Vec<D> y) {
    return hn::And(x, y);
  }
};
struct PredOr {
  template <class D>
  static HWY_INLINE hn::Vec<D> Do(D, hn::Vec<D> x, hn::Vec<D> y) {
    return hn::Or(x, y);
  }
};
struct PredXor {
  template <class D>
  static HWY_INLINE hn::Vec<D> Do(D, hn::Vec<D> x, hn::Vec<D> y) {
    return hn::Xor(x, y);
  }
};
struct PredNot {
  template <class D>
  static HWY_INLINE hn::Vec<D> Do(D d, hn::Vec<D> x) {
    return hn::Xor(x, hn::Set(d, 1));
  }
};
void PredClampLoop(const BlockArgs& args) {
  const uint8_t* lo = static_cast<const uint8_t*>(args.in[0]);
  const uint8_t* x = static_cast<const uint8_t*>(args.in[1]);
  const uint8_t* hi = static_cast<const uint8_t*>(args.in[2]);
  uint8_t* out = static_cast<uint8_t*>(args.out);
  const int64_t n = args.n;
  KRAFLA_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<uint8_t>((lo[i] | x[i]) & hi[i]);
}

template <class T>
void IsFiniteLoop(const BlockArgs& args) {
  const hn::ScalableTag<T> d;
  const ByteTag<decltype(d)> d8;
  const std::size_t lanes = hn::Lanes(d), n = static_cast<std::size_t>(args.n);
  const T* a = static_cast<const T*>(args.in[0]);
  uint8_t* out = static_cast<uint8_t*>(args.out);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(BytesFromMask(d, hn::IsFinite(hn::LoadU(d, a + i))), d8, out + i);
  if (i < n) StoreSome(BytesFromMask(d, hn::IsFinite(LoadSome(d, a + i, n - i))), d8, out + i, n - i);
}

BlockFn FindPredicate(const BlockKey& key) {
  if (key.op == plan::NodeOp::kCompare) {
    if (key.operand == ElementType::kPred || key.operand == ElementType::kU8)
      return FindCompareOfType<uint8_t, false>(key);
    if (key.operand == ElementType::kS8) return FindCompareOfType<int8_t, false>(key);
    if (key.operand == ElementType::kU16) return FindCompareOfType<uint16_t, false>(key);
    if (key.operand == ElementType::kS16) return FindCompareOfType<int16_t, false>(key);
    if (key.operand == ElementType::kS32) return FindCompareOfType<int32_t, false>(key);
    if (key.operand == ElementType::kU32) return FindCompareOfType<uint32_t, false>(key);
    if (key.operand == ElementType::kS64) return FindCompareOfType<int64_t, false>(key);
    if (key.operand == ElementType::kU64) return FindCompareOfType<uint64_t, false>(key);
    if (key.operand == ElementType::kF32)
      return key.total_order ? FindCompareOfType<float, true>(key) : FindCompareOfType<float, false>(key);
    if (key.operand == ElementType::kF64)
      return key.total_order ? FindCompareOfType<double, true>(key) : FindCompareOfType<double, false>(key);
    return nullptr;
  }
  if (key.opcode == Opcode::kSelect) {
    if (StorageBytes(key.type) == 1) return PickSelect<uint8_t>(key.uniform);
    if (key.type == ElementType::kS16 || key.type == ElementType::kU16) return PickSelect<uint16_t>(key.uniform);
    if (StorageBytes(key.type) == 4) return PickSelect<uint32_t>(key.uniform);
    if (StorageBytes(key.type) == 8) return PickSelect<uint64_t>(key.uniform);
    return nullptr;
  }
  if (key.opcode == Opcode::kIsFinite && key.uniform == 0) {
    if (key.operand == ElementType::kF32) return &IsFiniteLoop<float>;
    if (key.operand == ElementType::kF64) return &IsFiniteLoop<double>;
    return nullptr;
  }
  if (key.type != ElementType::kPred) return nullptr;
  if (key.opcode == Opcode::kAnd || key.opcode == Opcode::kMultiply || key.opcode == Opcode::kMinimum)
    return PickBinary<uint8_t, PredAnd, true>(key.uniform);
  if (key.opcode == Opcode::kOr || key.opcode == Opcode::kAdd || key.opcode == Opcode::kMaximum)
    return PickBinary<uint8_t, PredOr, true>(key.uniform);
  if (key.opcode == Opcode::kXor) return PickBinary<uint8_t, PredXor, true>(key.uniform);
  if (key.opcode == Opcode::kNot) return PickUnary<uint8_t, PredNot>(key.uniform);
  if (key.opcode == Opcode::kClamp && key.uniform == 0) return &PredClampLoop;
  return nullptr;
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(FindPredicate);
BlockFn FindPredicateBlock(const BlockKey& key) { return HWY_DYNAMIC_DISPATCH(FindPredicate)(key); }
}  // namespace krafla::cpu
#endif
