// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/row_copies.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/row_copies.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

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

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(CopyAnyShortRows);
void CopyShortRows(int width, std::size_t bytes, int64_t n, const std::byte* from, RowPlaces from_places, std::byte* to,
                   RowPlaces to_places) {
  HWY_DYNAMIC_DISPATCH(CopyAnyShortRows)(width, bytes, n, from, from_places, to, to_places);
}
}  // namespace krafla::cpu
#endif
