// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/row_copies.h"

#include <algorithm>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/row_copies.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu_fallback/kernels/half_floats-inl.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void CopyAnyShortRows(int width, std::size_t bytes, int64_t n, const std::byte* from, RowPlaces from_places,
                      std::byte* to, RowPlaces to_places) {
  constexpr int64_t kAhead = 4;
  const hn::CappedTag<uint8_t, kLeastCopiedRow> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto* source = reinterpret_cast<const uint8_t*>(from);
  auto* target = reinterpret_cast<uint8_t*>(to);
  for (int64_t i = 0; i < n; ++i) {
    // Rows from anywhere are not foreseen by the processor.
    if (i + kAhead < n) {
      const uint8_t* next = source + int64_t{from_places.places[(i + kAhead) * from_places.step]} * width;
      for (std::size_t line = 0; line < bytes; line += 64) __builtin_prefetch(next + line);
    }
    const uint8_t* row = source + int64_t{from_places.places[i * from_places.step]} * width;
    uint8_t* out = target + int64_t{to_places.places[i * to_places.step]} * width;
    // The last vector ends where the row does.
    const auto last = hn::LoadU(d, row + bytes - lanes);
    for (std::size_t at = 0; at + lanes < bytes; at += lanes) hn::StoreU(hn::LoadU(d, row + at), d, out + at);
    hn::StoreU(last, d, out + bytes - lanes);
  }
}

template <class From, class D>
HWY_INLINE hn::Vec<D> LoadSummand(D d, const From* from, std::size_t count) {
  const hn::Rebind<From, D> narrow;
  const auto x = count == hn::Lanes(d) ? hn::LoadU(narrow, from) : hn::LoadN(narrow, from, count);
  if constexpr (std::is_same_v<From, hn::TFromD<D>>) return x;
  else return WidenFloats(d, x);
}

// Vectors of at most kLanes elements.
template <class T, class From, std::size_t kLanes>
void AddRowsBy(const RowSum& s) {
  const hn::CappedTag<T, kLanes> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  T* to = reinterpret_cast<T*>(s.to);
  for (int64_t row = 0; row < s.rows; ++row, to += s.columns) {
    for (int64_t c = 0; c < s.columns; c += lanes) {
      const auto count = static_cast<std::size_t>(std::min(lanes, s.columns - c));
      const auto load = [&](const RowTerm& term) HWY_ATTR {
        const int64_t place = term.places.places[row * term.places.step];
        return LoadSummand(d, reinterpret_cast<const From*>(term.from) + place + c, count);
      };
      std::size_t term = 0;
      auto sum = s.start != nullptr ? hn::Set(d, *static_cast<const T*>(s.start)) : load(s.terms[term++]);
      for (; term < s.terms.size(); ++term) sum = hn::Add(sum, load(s.terms[term]));
      if (count == hn::Lanes(d)) hn::StoreU(sum, d, to + c);
      else hn::StoreN(sum, d, to + c, count);
    }
  }
}
template <class T, class From>
void AddRowsFrom(const RowSum& s) {
  if (s.columns <= 4) AddRowsBy<T, From, 4>(s);
  else if (s.columns <= 8) AddRowsBy<T, From, 8>(s);
  else if (sizeof(T) > 2 || s.columns <= 16) AddRowsBy<T, From, 16>(s);
  else AddRowsBy<T, From, 64 / sizeof(T)>(s);
}

RowSumFn FindAddRows(ElementType storage) {
  using enum ElementType;
  if (storage == kF32) return &AddRowsFrom<float, float>;
  if (storage == kF64) return &AddRowsFrom<double, double>;
  if (storage == kF16) return &AddRowsFrom<float, hwy::float16_t>;
  if (storage == kBF16) return &AddRowsFrom<float, hwy::bfloat16_t>;
  if (storage == kS32 || storage == kU32) return &AddRowsFrom<int32_t, int32_t>;
  if (storage == kS64 || storage == kU64) return &AddRowsFrom<int64_t, int64_t>;
  // The low bits of a sum are those of the sum of low bits.
  if (storage == kS8 || storage == kU8) return &AddRowsFrom<uint8_t, uint8_t>;
  if (storage == kS16 || storage == kU16) return &AddRowsFrom<uint16_t, uint16_t>;
  return nullptr;
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(CopyAnyShortRows);
HWY_EXPORT(FindAddRows);
void CopyShortRows(int width, std::size_t bytes, int64_t n, const std::byte* from, RowPlaces from_places, std::byte* to,
                   RowPlaces to_places) {
  HWY_DYNAMIC_DISPATCH(CopyAnyShortRows)(width, bytes, n, from, from_places, to, to_places);
}
RowSumFn FindRowSum(ElementType storage) { return HWY_DYNAMIC_DISPATCH(FindAddRows)(storage); }
}  // namespace krafla::cpu
#endif
