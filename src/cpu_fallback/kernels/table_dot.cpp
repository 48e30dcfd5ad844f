// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/table_dot.h"

#include <algorithm>

#include "base/checked_math.h"
#include "cpu_fallback/kernels/unroll.h"

// AVX-512-BF16 is in the set that the other files leave out. Highway has it for processors of AMD's alone, and another
// set for those of Intel's that have half precision too; what is used here both have, so that the processor is asked
// here.
#ifdef HWY_DISABLED_TARGETS
#undef HWY_DISABLED_TARGETS
#endif
#define HWY_DISABLED_TARGETS                                                                                    \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX2 | HWY_AVX3 | HWY_AVX3_DL | HWY_AVX3_SPR | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | \
   HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/table_dot.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3_ZEN4

// Sixteen bytes of rows r, r + 8, r + 16 and r + 24, a block each.
HWY_INLINE __m512i LoadBlocks(const std::byte* from, int64_t stride) {
  const auto block = [&](int64_t i)
                         HWY_ATTR { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 8 * i * stride)); };
  __m512i out = _mm512_castsi128_si512(block(0));
  out = _mm512_inserti32x4(out, block(1), 1);
  out = _mm512_inserti32x4(out, block(2), 2);
  return _mm512_inserti32x4(out, block(3), 3);
}

// The bytes of each column of 32 rows: to[v] has those of columns 2v and 2v + 1, eight rows of each in turn a block.
HWY_INLINE void TransposeBytes(const std::byte* from, int64_t stride, __m512i* to) {
  __m512i rows[8], pairs[8], quads[8];
  KRAFLA_UNROLL(8)
  for (int i = 0; i < 8; ++i) rows[i] = LoadBlocks(from + i * stride, stride);
  KRAFLA_UNROLL(4)
  for (int i = 0; i < 4; ++i) {
    pairs[i] = _mm512_unpacklo_epi8(rows[2 * i], rows[2 * i + 1]);
    pairs[4 + i] = _mm512_unpackhi_epi8(rows[2 * i], rows[2 * i + 1]);
  }
  KRAFLA_UNROLL(2)
  for (int half = 0; half < 2; ++half) {
    KRAFLA_UNROLL(2)
    for (int i = 0; i < 2; ++i) {
      quads[4 * half + i] = _mm512_unpacklo_epi16(pairs[4 * half + 2 * i], pairs[4 * half + 2 * i + 1]);
      quads[4 * half + 2 + i] = _mm512_unpackhi_epi16(pairs[4 * half + 2 * i], pairs[4 * half + 2 * i + 1]);
    }
  }
  KRAFLA_UNROLL(4)
  for (int i = 0; i < 4; ++i) {
    _mm512_store_si512(to + 2 * i, _mm512_unpacklo_epi32(quads[2 * i], quads[2 * i + 1]));
    _mm512_store_si512(to + 2 * i + 1, _mm512_unpackhi_epi32(quads[2 * i], quads[2 * i + 1]));
  }
}

// The same of words: of sixteen columns of eight rows.
HWY_INLINE void TransposeWords(const std::byte* from, int64_t stride, __m512i* to) {
  __m512i blocks[2][4];
  KRAFLA_UNROLL(4)
  for (int i = 0; i < 4; ++i) {
    const __m512i even = _mm512_loadu_si512(from + 2 * i * stride),
                  odd = _mm512_loadu_si512(from + (2 * i + 1) * stride);
    blocks[0][i] = _mm512_unpacklo_epi32(even, odd), blocks[1][i] = _mm512_unpackhi_epi32(even, odd);
  }
  KRAFLA_UNROLL(2)
  for (int half = 0; half < 2; ++half) {
    const __m512i(&b)[4] = blocks[half];
    const __m512i first = _mm512_shuffle_i32x4(b[0], b[1], 0x44), second = _mm512_shuffle_i32x4(b[2], b[3], 0x44);
    const __m512i third = _mm512_shuffle_i32x4(b[0], b[1], 0xee), fourth = _mm512_shuffle_i32x4(b[2], b[3], 0xee);
    _mm512_store_si512(to + half, _mm512_shuffle_i32x4(first, second, 0x88));
    _mm512_store_si512(to + 2 + half, _mm512_shuffle_i32x4(first, second, 0xdd));
    _mm512_store_si512(to + 4 + half, _mm512_shuffle_i32x4(third, fourth, 0x88));
    _mm512_store_si512(to + 6 + half, _mm512_shuffle_i32x4(third, fourth, 0xdd));
  }
}

// A column's weights for each code.
template <TableKind kKind>
HWY_INLINE __m512 NumbersOf(__m512i table, float scale, int32_t zero) {
  if constexpr (kKind == TableKind::kProducts) return _mm512_mul_ps(_mm512_cvtepi32_ps(table), _mm512_set1_ps(scale));
  const __m512 difference = _mm512_cvtepi32_ps(_mm512_sub_epi32(table, _mm512_set1_epi32(zero)));
  const __m512i bits = _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(difference)));
  const __m512 rounded = _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
  if constexpr (kKind == TableKind::kQuotients) return _mm512_div_ps(rounded, _mm512_set1_ps(scale));
  return _mm512_mul_ps(rounded, _mm512_set1_ps(scale));
}
// Twice: of a place in the vector the lower five bits count, of which the uppermost is another code's.
HWY_INLINE __m512i Rounded(__m512 numbers) { return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(numbers, numbers)); }
HWY_INLINE __m512 AddWeights(__m512 sum, __m512i weights, __m512i codes, __m512i vector) {
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(_mm512_permutexvar_epi16(codes, weights)),
                          reinterpret_cast<__m512bh>(vector));
}

// The sums of the lanes of four vectors.
HWY_INLINE __m128 SumLanes(const __m512 (&v)[4]) {
  const auto halves = [](__m512 a, __m512 b)
                          HWY_ATTR { return _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b)); };
  const __m512 low = halves(v[0], v[2]), high = halves(v[1], v[3]);
  const __m512 four = halves(low, high);
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(four), _mm512_extractf32x8_ps(four, 1));
  return _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
}

constexpr int64_t kLineBytes = 64;
constexpr int64_t ColumnsOfLine(TableForm form) {
  return form == TableForm::kColumnPairs ? 2 * kLineBytes : form == TableForm::kWords ? kLineBytes / 4 : kLineBytes;
}
// Scales of a line's columns, at the most: in groups of a vector's places.
constexpr int64_t kMostScales = kTableTurn / kTableBytes * ColumnsOfLine(TableForm::kColumnPairs);

// What is made of a line of memory of each row of a turn.
struct alignas(64) TableScratch {
  // The lines, one after the other: where they lie they may all want the same places of the cache.
  std::byte lines[kTableTurn * kLineBytes];
  // Eight vectors of each 32 rows of bytes, or eight of words.
  __m512i bytes[kTableTurn / RowsOfVector(TableForm::kWords) * 8];
  float scales[kMostScales];
  int32_t zeros[kMostScales];
  float sums[ColumnsOfLine(TableForm::kColumnPairs)];
};

// Four columns, which are the bytes of vector `v` of each of the transposed blocks; `first`: the first of them.
template <TableKind kKind>
HWY_INLINE __m128 SumsOfColumns(const TableDotTurn& t, const TableScratch& s, int v, int64_t first) {
  constexpr int64_t kColumns = ColumnsOfLine(TableForm::kColumnPairs);
  const __m512i table = _mm512_loadu_si512(t.table);
  const float* scales = s.scales + first;
  const int32_t* zeros = s.zeros + first;
  __m512 sums[4];
  KRAFLA_UNROLL(4)
  for (int c = 0; c < 4; ++c) sums[c] = _mm512_setzero_ps();
  for (int64_t begin = 0; begin < t.rows; begin += t.group, scales += kColumns, zeros += kColumns) {
    __m512i weights[4];
    KRAFLA_UNROLL(4)
    for (int c = 0; c < 4; ++c) weights[c] = Rounded(NumbersOf<kKind>(table, scales[c], zeros[c]));
    const int64_t end = std::min(t.rows, begin + t.group);
    for (int64_t row = begin; row < end; row += kTableBytes) {
      const __m512i both = _mm512_load_si512(s.bytes + row / kTableBytes * 8 + v);
      const __m512i vector = _mm512_loadu_si512(t.vector + row);
      const __m512i low = _mm512_unpacklo_epi8(both, _mm512_setzero_si512());
      const __m512i high = _mm512_unpackhi_epi8(both, _mm512_setzero_si512());
      sums[0] = AddWeights(sums[0], weights[0], low, vector);
      sums[1] = AddWeights(sums[1], weights[1], _mm512_srli_epi16(low, 4), vector);
      sums[2] = AddWeights(sums[2], weights[2], high, vector);
      sums[3] = AddWeights(sums[3], weights[3], _mm512_srli_epi16(high, 4), vector);
    }
  }
  return SumLanes(sums);
}

// Two columns of bytes with two places of the depth.
template <TableKind kKind, TableForm kForm>
HWY_INLINE __m128 SumsOfPlaces(const TableDotTurn& t, const TableScratch& s, int v, int64_t first) {
  constexpr int64_t kColumns = ColumnsOfLine(kForm), kPlaces = PlacesOfVector(kForm);
  const __m512i table = _mm512_loadu_si512(t.table);
  __m512 sums[4];
  KRAFLA_UNROLL(4)
  for (int c = 0; c < 4; ++c) sums[c] = _mm512_setzero_ps();
  const int64_t places = t.rows / RowsOfVector(kForm) * kPlaces;
  for (int64_t begin = 0, at = first; begin < places; begin += t.group, at += kColumns) {
    __m512i weights[2];
    KRAFLA_UNROLL(2)
    for (int c = 0; c < 2; ++c) weights[c] = Rounded(NumbersOf<kKind>(table, s.scales[at + c], s.zeros[at + c]));
    const int64_t end = std::min(places, begin + t.group);
    for (int64_t place = begin; place < end; place += kPlaces) {
      const __m512i both = _mm512_load_si512(s.bytes + place / kPlaces * 8 + v);
      const __m512i even = _mm512_loadu_si512(t.vector + place);
      const __m512i odd = _mm512_loadu_si512(t.vector + place + kPlaces / 2);
      const __m512i low = _mm512_unpacklo_epi8(both, _mm512_setzero_si512());
      const __m512i high = _mm512_unpackhi_epi8(both, _mm512_setzero_si512());
      sums[0] = AddWeights(sums[0], weights[0], low, even);
      sums[1] = AddWeights(sums[1], weights[0], _mm512_srli_epi16(low, 4), odd);
      sums[2] = AddWeights(sums[2], weights[1], high, even);
      sums[3] = AddWeights(sums[3], weights[1], _mm512_srli_epi16(high, 4), odd);
    }
  }
  return SumLanes(sums);
}

// Sixteen scales.
template <ElementType kType>
HWY_INLINE __m512 LoadScales(const std::byte* from) {
  if constexpr (kType == ElementType::kF32) return _mm512_loadu_ps(from);
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  if constexpr (kType == ElementType::kF16) return _mm512_cvtph_ps(bits);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

// Copies the first `count` elements, at most those of a line, and zeros behind them.
HWY_INLINE void CopyLine(const std::byte* from, int64_t count, std::byte* to) {
  const __mmask64 mask = count >= kLineBytes ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
  _mm512_store_si512(to, _mm512_maskz_loadu_epi8(mask, from));
}
template <ElementType kType>
HWY_INLINE void WidenScales(const std::byte* from, int64_t count, float* to) {
  constexpr int64_t kWidth = kType == ElementType::kF32 ? 4 : 2, kLanes = 16;
  alignas(64) std::byte whole[kLineBytes];
  for (int64_t i = 0; i < count; i += kLanes) {
    const std::byte* at = from + i * kWidth;
    if (i + kLanes > count) {
      CopyLine(at, (count - i) * kWidth, whole);
      at = whole;
    }
    _mm512_store_ps(to + i, LoadScales<kType>(at));
  }
}

// The sums of a line's columns, in parts of the 16 bytes, or words, that are transposed together.
template <TableKind kKind, TableForm kForm>
HWY_INLINE void AddLine(const TableDotTurn& t, TableScratch& scratch, int64_t column, int64_t columns,
                        const std::byte* codes) {
  constexpr bool kIsPairs = kForm == TableForm::kColumnPairs;
  constexpr int64_t kRows = RowsOfVector(kForm), kParts = 16, kColumnsOfPart = kIsPairs ? 2 : 1;
  // What comes next of each row is fetched, to its last byte, as so many rows are more than the processor foresees: a
  // few rows at a time beside the sums. All of them at once would be more than the processor can wait for.
  const int64_t rows_of_step = CeilDiv(t.rows, CeilDiv(columns, kParts * kColumnsOfPart) * 8);
  int64_t fetched = 0;
  const auto fetch = [&] {
    for (const int64_t end = std::min(t.rows, fetched + rows_of_step); fetched < end; ++fetched)
      __builtin_prefetch(codes + fetched * t.stride + 2 * kLineBytes - 1, 0, 2);
  };
  for (int64_t part = 0; part * kColumnsOfPart < columns; part += kParts) {
    for (int64_t row = 0; row < t.rows; row += kRows) {
      const std::byte* from = scratch.lines + row * kLineBytes + part;
      __m512i* to = scratch.bytes + row / kRows * 8;
      if constexpr (kForm == TableForm::kWords) TransposeWords(from, kLineBytes, to);
      else TransposeBytes(from, kLineBytes, to);
    }
    for (int v = 0; v < 8; ++v) {
      fetch();
      const int64_t first = (part + 2 * v) * kColumnsOfPart;
      if constexpr (kIsPairs) {
        _mm_storeu_ps(scratch.sums + first, SumsOfColumns<kKind>(t, scratch, v, first));
      } else {
        alignas(16) float halves[4];
        _mm_store_ps(halves, SumsOfPlaces<kKind, kForm>(t, scratch, v, first));
        scratch.sums[first] = halves[0] + halves[1], scratch.sums[first + 1] = halves[2] + halves[3];
      }
    }
  }
  for (int64_t i = 0; i < columns; ++i) t.sums[column + i] += scratch.sums[i];
}

template <ElementType kType, TableKind kKind, TableForm kForm>
void DotByTables(const TableDotTurn& t) {
  constexpr int64_t kWidth = kType == ElementType::kF32 ? 4 : 2, kColumns = ColumnsOfLine(kForm);
  const int64_t places = t.rows / RowsOfVector(kForm) * PlacesOfVector(kForm);
  TableScratch scratch;
  for (int64_t column = 0; column < t.columns; column += kColumns) {
    const int64_t columns = std::min(kColumns, t.columns - column);
    const std::byte* codes = t.codes + column * kLineBytes / kColumns;
    for (int64_t row = 0; row < t.rows; ++row)
      CopyLine(codes + row * t.stride, columns * kLineBytes / kColumns, scratch.lines + row * kLineBytes);
    for (int64_t g = 0; g * t.group < places; ++g) {
      WidenScales<kType>(t.scales + (g * t.scales_stride + column) * kWidth, columns, scratch.scales + g * kColumns);
      if constexpr (kKind != TableKind::kProducts) {
        int32_t* zeros = scratch.zeros + g * kColumns;
        if (t.zeros == nullptr) std::fill_n(zeros, columns, 0);
        else std::copy_n(t.zeros + g * t.zeros_stride + column, columns, zeros);
      }
    }
    AddLine<kKind, kForm>(t, scratch, column, columns, codes);
  }
}

template <ElementType kType, TableKind kKind>
TableDotFn TablesOf(TableForm form) {
  if (form == TableForm::kColumnPairs) return &DotByTables<kType, kKind, TableForm::kColumnPairs>;
  if (form == TableForm::kRowPairs) return &DotByTables<kType, kKind, TableForm::kRowPairs>;
  return &DotByTables<kType, kKind, TableForm::kWords>;
}
template <ElementType kType>
TableDotFn TablesOf(TableKind kind, TableForm form) {
  if (kind == TableKind::kProducts) return TablesOf<kType, TableKind::kProducts>(form);
  if (kind == TableKind::kDifferences) return TablesOf<kType, TableKind::kDifferences>(form);
  return TablesOf<kType, TableKind::kQuotients>(form);
}
TableDotFn FindTables(ElementType scales, TableKind kind, TableForm form) {
  if (scales == ElementType::kF32) return TablesOf<ElementType::kF32>(kind, form);
  if (scales == ElementType::kF16) return TablesOf<ElementType::kF16>(kind, form);
  if (scales == ElementType::kBF16) return TablesOf<ElementType::kBF16>(kind, form);
  return nullptr;
}

#endif

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {

TableDotFn FindTableDot([[maybe_unused]] ElementType scales, [[maybe_unused]] TableKind kind,
                        [[maybe_unused]] TableForm form) {
#if HWY_TARGETS & HWY_AVX3_ZEN4
  static const bool has_tables = (hwy::SupportedTargets() & HWY_AVX3) != 0 && __builtin_cpu_supports("avx512bf16") &&
                                 __builtin_cpu_supports("avx512vbmi2");
  if (has_tables) return N_AVX3_ZEN4::FindTables(scales, kind, form);
#endif
  return nullptr;
}

}  // namespace krafla::cpu
#endif
