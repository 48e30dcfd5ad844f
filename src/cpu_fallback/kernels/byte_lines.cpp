// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/byte_lines.h"

#include <algorithm>

#include "cpu_fallback/kernels/unroll.h"

// As table_dot.cpp, which says why.
#ifdef HWY_DISABLED_TARGETS
#undef HWY_DISABLED_TARGETS
#endif
#define HWY_DISABLED_TARGETS (KRAFLA_UNUSED_SETS | HWY_AVX2 | HWY_AVX3 | HWY_AVX3_DL | HWY_NEON_BF16)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/byte_lines.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu_fallback/kernels/weight_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3_ZEN4

constexpr int64_t kLinesAtOnce = 4;

template <ElementType kType>
HWY_INLINE __m512 ScaleAt(const std::byte* scales, int64_t i) {
  if constexpr (kType == ElementType::kF32) return _mm512_set1_ps(reinterpret_cast<const float*>(scales)[i]);
  const uint16_t bits = reinterpret_cast<const uint16_t*>(scales)[i];
  if constexpr (kType == ElementType::kF16) return _mm512_cvtph_ps(_mm256_set1_epi16(static_cast<int16_t>(bits)));
  return _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int32_t>(uint32_t{bits} << 16)));
}

// The sums of a line: of the first and the second half of each kBytePlaces.
struct SumsOfLine {
  __m512 low, high;
};

// The numbers of sixteen bytes.
template <bool kHasScale>
HWY_INLINE __m512 NumbersOf(__m128i bytes, __m512 scale) {
  const __m512 numbers = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
  if constexpr (kHasScale) return _mm512_mul_ps(numbers, scale);
  return numbers;
}
template <bool kHasScale>
HWY_INLINE __m512i WeightsOf(__m256i bytes, __m512 scale) {
  const __m512 low = NumbersOf<kHasScale>(_mm256_castsi256_si128(bytes), scale);
  const __m512 high = NumbersOf<kHasScale>(_mm256_extracti128_si256(bytes, 1), scale);
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}
HWY_INLINE __m512 AddProducts(__m512 sum, __m512i weights, __m512i vector) {
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(weights), reinterpret_cast<__m512bh>(vector));
}

template <ElementType kType, bool kHasScale>
HWY_INLINE void DotOfFourLines(const WeightLines& t, int64_t line) {
  const std::byte* lines[kLinesAtOnce];
  int64_t scales[kLinesAtOnce];
  SumsOfLine sums[kLinesAtOnce];
  __m512 scale[kLinesAtOnce];
  KRAFLA_UNROLL(4)
  for (int64_t i = 0; i < kLinesAtOnce; ++i) {
    // Lines behind the last one are that one.
    const int64_t at = std::min(line + i, t.lines - 1);
    lines[i] = t.weights + at * t.stride, scales[i] = at * t.scales_stride;
    sums[i] = {_mm512_setzero_ps(), _mm512_setzero_ps()}, scale[i] = _mm512_setzero_ps();
  }
  const auto next_group = [&] HWY_ATTR {
    if constexpr (kHasScale) {
      KRAFLA_UNROLL(4)
      for (int64_t i = 0; i < kLinesAtOnce; ++i) scale[i] = ScaleAt<kType>(t.scales, scales[i]++);
    }
  };
  int64_t left = 0;  // places of this group that follow
  const int64_t whole = t.depth / kBytePlaces * kBytePlaces;
  for (int64_t begin = 0; begin < whole; begin += kBytePlaces) {
    if (left == 0) next_group(), left = t.group;
    left -= kBytePlaces;
    constexpr int64_t kAhead = 16 * kBytePlaces;
    // Behind these lines come the next ones.
    const int64_t ahead = begin + kAhead < whole ? begin + kAhead : kLinesAtOnce * t.stride + begin + kAhead - whole;
    const __m512i low = _mm512_loadu_si512(t.vector + begin), high = _mm512_loadu_si512(t.vector + begin + 32);
    KRAFLA_UNROLL(4)
    for (int64_t i = 0; i < kLinesAtOnce; ++i) {
      __builtin_prefetch(lines[i] + ahead, 0, 2);
      const auto* from = reinterpret_cast<const __m256i*>(lines[i] + begin);
      sums[i].low = AddProducts(sums[i].low, WeightsOf<kHasScale>(_mm256_loadu_si256(from), scale[i]), low);
      sums[i].high = AddProducts(sums[i].high, WeightsOf<kHasScale>(_mm256_loadu_si256(from + 1), scale[i]), high);
    }
  }
  if (whole < t.depth && left == 0) next_group();
  for (int64_t begin = whole; begin < t.depth; begin += 32) {
    const __mmask32 mask = t.depth - begin >= 32 ? ~uint32_t{0} : (uint32_t{1} << (t.depth - begin)) - 1;
    const __m512i vector = _mm512_maskz_loadu_epi16(mask, t.vector + begin);
    KRAFLA_UNROLL(4)
    for (int64_t i = 0; i < kLinesAtOnce; ++i) {
      const __m256i bytes = _mm256_maskz_loadu_epi8(mask, lines[i] + begin);
      const __m512i weights = _mm512_maskz_mov_epi16(mask, WeightsOf<kHasScale>(bytes, scale[i]));
      sums[i].low = AddProducts(sums[i].low, weights, vector);
    }
  }
  for (int64_t i = 0; i < std::min(kLinesAtOnce, t.lines - line); ++i)
    t.sums[line + i] = _mm512_reduce_add_ps(_mm512_add_ps(sums[i].low, sums[i].high));
}

template <ElementType kType>
void DotOfByteLines(const WeightLines& t) {
  for (int64_t line = 0; line < t.lines; line += kLinesAtOnce) {
    if (t.scales == nullptr) DotOfFourLines<kType, false>(t, line);
    else DotOfFourLines<kType, true>(t, line);
  }
}
ByteLinesFn FindLinesOfBytes(ElementType scales) {
  return ForScales(scales, []<ElementType kType>() -> ByteLinesFn { return &DotOfByteLines<kType>; });
}

#endif

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {

ByteLinesFn FindByteLines([[maybe_unused]] ElementType scales) {
#if HWY_TARGETS & HWY_AVX3_ZEN4
  if (HasBf16Products()) return N_AVX3_ZEN4::FindLinesOfBytes(scales);
#endif
  return nullptr;
}

}  // namespace krafla::cpu
#endif
