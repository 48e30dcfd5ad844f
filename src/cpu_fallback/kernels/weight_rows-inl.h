// SPDX-License-Identifier: Apache-2.0
// What kernels for weights with scales share, a line of memory at a time, with AVX-512.
#if defined(KRAFLA_CPU_WEIGHT_ROWS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef KRAFLA_CPU_WEIGHT_ROWS_INL
#undef KRAFLA_CPU_WEIGHT_ROWS_INL
#else
#define KRAFLA_CPU_WEIGHT_ROWS_INL
#endif

#include <hwy/highway.h>

#include "cpu_fallback/kernels/weight_rows.h"
#include "krafla/element_type.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3_ZEN4

inline constexpr int64_t kLineBytes = 64;

// Sixteen scales.
template <ElementType kType>
HWY_INLINE __m512 LoadScales(const std::byte* from) {
  if constexpr (kType == ElementType::kF32) return _mm512_loadu_ps(from);
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  if constexpr (kType == ElementType::kF16) return _mm512_cvtph_ps(bits);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

// The first `count` bytes, at most those of a line, and zeros behind them.
HWY_INLINE __m512i LoadLine(const std::byte* from, int64_t count) {
  const __mmask64 mask = count >= kLineBytes ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
  return _mm512_maskz_loadu_epi8(mask, from);
}

// What `of` has for scales of a type: f32, f16 or bf16; null for others.
template <class Of>
auto ForScales(ElementType scales, Of of) -> decltype(of.template operator()<ElementType::kF32>()) {
  if (scales == ElementType::kF32) return of.template operator()<ElementType::kF32>();
  if (scales == ElementType::kF16) return of.template operator()<ElementType::kF16>();
  if (scales == ElementType::kBF16) return of.template operator()<ElementType::kBF16>();
  return nullptr;
}

#endif

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
