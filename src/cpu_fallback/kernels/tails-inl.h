// SPDX-License-Identifier: Apache-2.0
// The end of a row or a block: less than a vector of it, in memory.
#if defined(KRAFLA_CPU_TAILS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef KRAFLA_CPU_TAILS_INL
#undef KRAFLA_CPU_TAILS_INL
#else
#define KRAFLA_CPU_TAILS_INL
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Processors of before AVX2, which few run on: there short code is worth more than the last third of the speed.
inline constexpr bool kIsPlain = HWY_TARGET == HWY_SSE2;

// What is no instruction is many: there they are a function of a width, not repeated at each of the places that call
// it.
template <class T>
inline constexpr bool kHasMaskedLoads =
    HWY_HAVE_SCALABLE || HWY_MAX_BYTES == 64 || (HWY_TARGET == HWY_AVX2 && sizeof(T) >= 4);
template <class D>
HWY_NOINLINE hn::Vec<D> LoadTail(D d, const hn::TFromD<D>* at, std::size_t n) {
  return hn::LoadN(d, at, n);
}
template <class D>
HWY_NOINLINE void StoreTail(hn::Vec<D> v, D d, hn::TFromD<D>* at, std::size_t n) {
  hn::StoreN(v, d, at, n);
}

// `count` elements, fewer than lanes: loads have zeros behind them, stores leave what is behind them.
template <class D>
struct Tail {
  using Word = hn::RebindToUnsigned<D>;
  using T = hn::TFromD<D>;
  static constexpr bool kByMask = kHasMaskedLoads<T>;
  std::size_t count;
  hn::Mask<D> mask;
  HWY_INLINE Tail(D d, std::size_t n) : count(n), mask(hn::FirstN(d, n)) {}
  HWY_INLINE hn::Vec<D> Load(D d, const T* at) const {
    if constexpr (kByMask) return hn::MaskedLoad(mask, d, at);
    else return hn::BitCast(d, LoadTail(Word(), reinterpret_cast<const hn::TFromD<Word>*>(at), count));
  }
  HWY_INLINE void Store(hn::Vec<D> v, D d, T* at) const {
    if constexpr (kByMask) hn::BlendedStore(v, mask, d, at);
    else StoreTail(hn::BitCast(Word(), v), Word(), reinterpret_cast<hn::TFromD<Word>*>(at), count);
  }
};
template <class D>
HWY_INLINE hn::Vec<D> LoadSome(D d, const hn::TFromD<D>* at, std::size_t n) {
  return Tail<D>(d, n).Load(d, at);
}
template <class D>
HWY_INLINE void StoreSome(hn::Vec<D> v, D d, hn::TFromD<D>* at, std::size_t n) {
  Tail<D>(d, n).Store(v, d, at);
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
