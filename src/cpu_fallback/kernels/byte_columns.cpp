// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/byte_columns.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/checked_math.h"
#include "base/index.h"
#include "cpu_fallback/kernels/unroll.h"
#include "cpu_fallback/kernels/weight_lines.h"

// As table_dot.cpp, which says why.
#ifdef HWY_DISABLED_TARGETS
#undef HWY_DISABLED_TARGETS
#endif
#define HWY_DISABLED_TARGETS (KRAFLA_UNUSED_SETS | HWY_AVX2 | HWY_AVX3 | HWY_AVX3_DL | HWY_NEON_BF16)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/byte_columns.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu_fallback/kernels/weight_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3_ZEN4

// A line of memory has 64 columns: vectors of sixteen sums, and twice as many of eight columns of two rows, side by
// side, as products by pairs take them.
constexpr int64_t kSums = 4, kPairs = 8;
// Bytes of a row from what is multiplied to what is fetched meanwhile: a line of each row for each line, as memory
// gives no more at once.
constexpr int64_t kAhead = 1024;
// A byte b is the float kBase + (b ^ 0x80) once it takes the place of the second byte of kBase's bits, so that a
// permutation converts sixteen; kZero is the float of byte 0.
constexpr float kBase = 32768, kZero = 32768 + 128;

struct ScalesOfLine {
  __m512 scales[kPairs];
  __m512 rests[kPairs];  // -kZero * scale
  // Whether float(b) * scale is (kBase + (b ^ 0x80)) * scale + rest in one rounding, as `rest` is exact.
  bool is_fused;
};

template <ElementType kType>
HWY_INLINE ScalesOfLine SpreadScales(const std::byte* from, int64_t columns) {
  constexpr int64_t kWidth = kType == ElementType::kF32 ? 4 : 2;
  alignas(64) std::byte whole[kPairs * 8 * kWidth];
  for (int64_t i = 0; i < columns * kWidth; i += kLineBytes)
    _mm512_store_si512(whole + i, LoadLine(from + i, columns * kWidth - i));
  const __m512i low = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0);
  const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
  ScalesOfLine out;
  __mmask16 others = 0;
  KRAFLA_UNROLL(8)
  for (int64_t v = 0; v < kPairs; ++v) {
    const bool is_there = v / 2 * 16 < columns;
    const __m512 sixteen = is_there ? LoadScales<kType>(whole + v / 2 * 16 * kWidth) : _mm512_setzero_ps();
    out.scales[v] = _mm512_permutexvar_ps(v % 2 == 0 ? low : high, sixteen);
    out.rests[v] = _mm512_mul_ps(out.scales[v], _mm512_set1_ps(-kZero));
    others |= _mm512_fpclass_ps_mask(out.rests[v], 0x99);  // no number, or infinite
  }
  // kZero has nine bits, and a scale of sixteen bits at most eleven.
  out.is_fused = kType != ElementType::kF32 && others == 0;
  return out;
}

// Where the bytes of two rows go, a vector of eight columns at a time: those of the first row are a register's lower
// half.
struct BytePlaces {
  __m512i places[kPairs / 2];
  HWY_INLINE BytePlaces() {
    alignas(64) std::array<uint8_t, 64> at{};
    for (int64_t v = 0; v < kPairs / 2; ++v) {
      for (int64_t lane = 0; lane < 16; ++lane)
        at[At(4 * lane + 1)] = static_cast<uint8_t>(8 * v + lane / 2 + lane % 2 * 32);
      places[v] = _mm512_load_si512(at.data());
    }
  }
};

template <bool kIsWhole>
HWY_INLINE __m512i LoadHalves(const std::byte* first, const std::byte* second, __mmask32 mask) {
  const auto load = [&](const std::byte* from) HWY_ATTR {
    if constexpr (kIsWhole) return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    else return _mm256_maskz_loadu_epi8(mask, from);
  };
  const __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(load(first)), load(second), 1);
  return _mm512_xor_si512(both, _mm512_set1_epi8(static_cast<char>(0x80)));
}

// Adds the products of two rows of a line.
template <bool kIsFused, bool kIsWhole>
HWY_INLINE void AddTwoRows(const std::byte* codes, int64_t stride, __mmask64 mask, __m512i vector,
                           const ScalesOfLine& s, const BytePlaces& p, __m512 (&sums)[kSums]) {
  const __m512i base = _mm512_castps_si512(_mm512_set1_ps(kBase));
  constexpr __mmask64 kSecondBytes = 0x2222222222222222;
  const auto weights = [&](__m512i bytes, int64_t v) HWY_ATTR {
    const __m512 number = _mm512_castsi512_ps(_mm512_mask_permutexvar_epi8(base, kSecondBytes, p.places[v % 4], bytes));
    if constexpr (kIsFused) return _mm512_fmadd_ps(number, s.scales[v], s.rests[v]);
    else return _mm512_mul_ps(_mm512_sub_ps(number, _mm512_set1_ps(kZero)), s.scales[v]);
  };
  KRAFLA_UNROLL(2)
  for (int64_t half = 0; half < 2; ++half) {
    const std::byte* from = codes + 32 * half;
    const __m512i bytes = LoadHalves<kIsWhole>(from, from + stride, static_cast<__mmask32>(mask >> (32 * half)));
    KRAFLA_UNROLL(2)
    for (int64_t i = 2 * half; i < 2 * half + 2; ++i) {
      const __m512bh pairs = _mm512_cvtne2ps_pbh(weights(bytes, 2 * i + 1), weights(bytes, 2 * i));
      sums[i] = _mm512_dpbf16_ps(sums[i], pairs, reinterpret_cast<__m512bh>(vector));
    }
  }
}

template <bool kIsFused, bool kIsWhole>
HWY_INLINE void AddRows(const WeightRows& t, const std::byte* codes, int64_t begin, int64_t end, __mmask64 mask,
                        const ScalesOfLine& s, const BytePlaces& p, const std::byte* ahead, __m512 (&sums)[kSums]) {
  for (int64_t row = begin; row < end; row += kByteRows) {
    __builtin_prefetch(ahead + row * t.stride, 0, 2);
    __builtin_prefetch(ahead + (row + 1) * t.stride, 0, 2);
    uint32_t pair;
    std::memcpy(&pair, t.vector + row, sizeof pair);
    AddTwoRows<kIsFused, kIsWhole>(codes + row * t.stride, t.stride, mask, _mm512_set1_epi32(static_cast<int>(pair)), s,
                                   p, sums);
  }
}

template <ElementType kType>
void DotOfByteColumns(const WeightRows& t) {
  constexpr int64_t kWidth = kType == ElementType::kF32 ? 4 : 2;
  const int64_t lines = CeilDiv(t.columns, kLineBytes);
  const BytePlaces places;
  for (int64_t line = 0; line < lines; ++line) {
    const int64_t column = line * kLineBytes, columns = std::min(kLineBytes, t.columns - column);
    const __mmask64 mask = columns == kLineBytes ? ~uint64_t{0} : (uint64_t{1} << columns) - 1;
    const std::byte* ahead =
        column + kAhead < t.columns ? t.codes + column + kAhead : t.next + (column + kAhead - t.columns);
    __m512 sums[kSums];
    KRAFLA_UNROLL(4)
    for (__m512& sum : sums) sum = _mm512_setzero_ps();
    for (int64_t begin = 0, end = 0, scale = column; begin < t.rows; begin = end, scale += t.scales_stride) {
      end = std::min(begin + t.group, t.rows);
      const ScalesOfLine s = SpreadScales<kType>(t.scales + scale * kWidth, columns);
      const std::byte* codes = t.codes + column;
      if (!s.is_fused) AddRows<false, false>(t, codes, begin, end, mask, s, places, ahead, sums);
      else if (columns < kLineBytes) AddRows<true, false>(t, codes, begin, end, mask, s, places, ahead, sums);
      else AddRows<true, true>(t, codes, begin, end, mask, s, places, ahead, sums);
    }
    KRAFLA_UNROLL(4)
    for (int64_t i = 0; i < kSums; ++i) {
      const auto lanes = static_cast<__mmask16>(mask >> (16 * i));
      float* to = t.sums + column + 16 * i;
      _mm512_mask_storeu_ps(to, lanes, _mm512_add_ps(sums[i], _mm512_maskz_loadu_ps(lanes, to)));
    }
  }
}
ByteColumnsFn FindColumnsOfBytes(ElementType scales) {
  return ForScales(scales, []<ElementType kType>() -> ByteColumnsFn { return &DotOfByteColumns<kType>; });
}

#endif

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {

ByteColumnsFn FindByteColumns([[maybe_unused]] ElementType scales) {
#if HWY_TARGETS & HWY_AVX3_ZEN4
  if (HasBf16Products()) return N_AVX3_ZEN4::FindColumnsOfBytes(scales);
#endif
  return nullptr;
}

}  // namespace krafla::cpu
#endif
