// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/byte_shuffles.h"

#include "cpu_fallback/kernels/unroll.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/byte_shuffles.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <int64_t kWindows>
void ShuffleBlock(const ByteShuffles& table, const std::byte* from_bytes, std::byte* to_bytes) {
  const hn::FixedTag<uint8_t, kShuffledBytes> d;
  const auto* from = reinterpret_cast<const uint8_t*>(from_bytes);
  auto* to = reinterpret_cast<uint8_t*>(to_bytes);
  const int64_t windows = kWindows > 0 ? kWindows : table.windows;
  const int32_t* at = table.from.data();
  const uint8_t* shuffle = table.shuffle.data();
  for (const int32_t place : table.to) {
    const auto window = [&](int64_t w) HWY_ATTR {
      return hn::TableLookupBytesOr0(hn::LoadU(d, from + at[w]), hn::LoadU(d, shuffle + w * kShuffledBytes));
    };
    auto sum = window(0);
    if constexpr (kWindows > 0) {
      KRAFLA_UNROLL(4)
      for (int64_t w = 1; w < kWindows; ++w) sum = hn::Or(sum, window(w));
    } else {
      for (int64_t w = 1; w < windows; ++w) sum = hn::Or(sum, window(w));
    }
    hn::StoreU(sum, d, to + place);
    at += windows;
    shuffle += windows * kShuffledBytes;
  }
}
template <int64_t kWindows>
void ShuffleWords(const ByteShuffles& table, const std::byte* from, std::byte* to) {
  const hn::CappedTag<uint32_t, 16> d;
  const hn::RebindToSigned<decltype(d)> s;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t windows = kWindows > 0 ? kWindows : table.windows;
  const int32_t* at = table.from.data();
  const uint32_t* words = table.words.data();
  const auto none = hn::Set(d, kNoWord);
  for (const int32_t place : table.to) {
    const auto window = [&](int64_t w) HWY_ATTR {
      const auto numbers = hn::LoadU(d, words + w * lanes);
      const auto near = hn::LoadU(d, reinterpret_cast<const uint32_t*>(from + at[w]));
      const auto found = hn::TableLookupLanes(near, hn::IndicesFromVec(d, hn::AndNot(none, numbers)));
      if constexpr (kWindows == 1) return found;
      else return hn::BitCast(d, hn::IfNegativeThenElse(hn::BitCast(s, numbers), hn::Zero(s), hn::BitCast(s, found)));
    };
    auto sum = window(0);
    for (int64_t w = 1; w < windows; ++w) sum = hn::Or(sum, window(w));
    hn::StoreU(sum, d, reinterpret_cast<uint32_t*>(to + place));
    at += windows;
    words += windows * lanes;
  }
}
int64_t CountShuffledWords() {
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::CappedTag<uint32_t, 16>()));
  return lanes >= 8 ? lanes : 0;
}
void ShuffleAnyBlock(const ByteShuffles& table, const std::byte* from, std::byte* to) {
  if (!table.words.empty()) {
    switch (table.windows) {
      case 1: return ShuffleWords<1>(table, from, to);
      case 2: return ShuffleWords<2>(table, from, to);
      case 3: return ShuffleWords<3>(table, from, to);
      default: return ShuffleWords<0>(table, from, to);
    }
  }
  switch (table.windows) {
    case 1: return ShuffleBlock<1>(table, from, to);
    case 2: return ShuffleBlock<2>(table, from, to);
    case 3: return ShuffleBlock<3>(table, from, to);
    case 4: return ShuffleBlock<4>(table, from, to);
    default: return ShuffleBlock<0>(table, from, to);
  }
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(ShuffleAnyBlock);
HWY_EXPORT(CountShuffledWords);

int64_t ShuffledWords() { return HWY_DYNAMIC_DISPATCH(CountShuffledWords)(); }

void RunByteShuffles(const ByteShuffles& table, const std::byte* from, std::byte* to) {
  HWY_DYNAMIC_DISPATCH(ShuffleAnyBlock)(table, from, to);
}

}  // namespace krafla::cpu
#endif
