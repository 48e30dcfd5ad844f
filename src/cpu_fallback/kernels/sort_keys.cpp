// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/sort_keys.h"

#include <algorithm>
#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/sort_keys.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void KeysOf(const uint32_t* bits, int64_t count, const KeyOrder& order, uint32_t* keys) {
  constexpr uint32_t kTop = 0x80000000u;
  const hn::ScalableTag<uint32_t> d;
  const hn::RebindToSigned<decltype(d)> di;
  const std::size_t lanes = hn::Lanes(d), n = static_cast<std::size_t>(count);
  // Of negative floats all bits are flipped, of other signed numbers the sign.
  const auto flips = hn::Set(d, order.is_float ? ~0u : 0u);
  const auto top = hn::Set(d, order.is_float || order.is_signed ? kTop : 0u);
  const auto last = hn::Set(d, order.descending ? ~0u : 0u);
  const auto zero = hn::Set(d, order.is_float && order.equal_zeros ? kTop : 0u);
  for (std::size_t i = 0; i < n; i += lanes) {
    const std::size_t left = std::min(lanes, n - i);
    auto v = hn::LoadN(d, bits + i, left);
    v = hn::IfThenElse(hn::Eq(v, zero), hn::Zero(d), v);
    const auto sign = hn::BitCast(d, hn::BroadcastSignBit(hn::BitCast(di, v)));
    hn::StoreN(hn::Xor(hn::Xor(v, hn::Or(hn::And(sign, flips), top)), last), d, keys + i, left);
  }
}

int64_t Below(const uint32_t* keys, int64_t count, uint32_t limit, int64_t first, uint64_t* to) {
  const hn::ScalableTag<uint32_t> d;
  const std::size_t lanes = hn::Lanes(d), n = static_cast<std::size_t>(count);
  const auto bound = hn::Set(d, limit);
  int64_t found = 0;
  const auto append = [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      to[found] = static_cast<uint64_t>(keys[i]) << 32 | static_cast<uint64_t>(first + static_cast<int64_t>(i));
      found += keys[i] < limit ? 1 : 0;
    }
  };
  std::size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto least = hn::Min(hn::LoadU(d, keys + i), hn::LoadU(d, keys + i + lanes));
    if (!hn::AllFalse(d, hn::Lt(least, bound))) append(i, i + 2 * lanes);
  }
  append(i, n);
  return found;
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(KeysOf);
HWY_EXPORT(Below);
void MakeKeys(const uint32_t* bits, int64_t n, const KeyOrder& order, uint32_t* keys) {
  HWY_DYNAMIC_DISPATCH(KeysOf)(bits, n, order, keys);
}
int64_t AppendBelow(const uint32_t* keys, int64_t n, uint32_t limit, int64_t first, uint64_t* to) {
  return HWY_DYNAMIC_DISPATCH(Below)(keys, n, limit, first, to);
}
}  // namespace krafla::cpu
#endif
