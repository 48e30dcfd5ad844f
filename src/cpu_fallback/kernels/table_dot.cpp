// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/table_dot.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/checked_math.h"
#include "base/index.h"
#include "cpu_fallback/kernels/unroll.h"

// AVX-512-BF16 is in the set that the other files leave out. Highway has it for processors of AMD's alone, and another
// set for those of Intel's that have half precision too; what is used here both have, so that the processor is asked
// here.
#ifdef HWY_DISABLED_TARGETS
#undef HWY_DISABLED_TARGETS
#endif
#define HWY_DISABLED_TARGETS (KRAFLA_UNUSED_SETS | HWY_AVX2 | HWY_AVX3 | HWY_AVX3_DL | HWY_NEON_BF16)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/table_dot.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu_fallback/kernels/weight_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3_ZEN4

constexpr int64_t kParts = 8, kBlocks = 4;
constexpr int64_t kTableBytes = kTablePlaces / 2;  // of a line along the depth
constexpr int64_t ColumnsOfLine(TableForm form) {
  return form == TableForm::kColumnPairs ? 2 * kLineBytes : form == TableForm::kWords ? kLineBytes / 4 : kLineBytes;
}
// Columns of 16 bits of memory, of which each has a table; of words there is one of half of a column.
constexpr int64_t TablesOfPart(TableForm form) {
  return form == TableForm::kColumnPairs ? 4 : form == TableForm::kRowPairs ? 2 : 1;
}
constexpr int64_t kMostScales = kTableTurn / kTableRows * ColumnsOfLine(TableForm::kColumnPairs);

// What is made of a line of memory of each row of a turn.
struct alignas(64) TableScratch {
  // Of each kTableRows rows kParts vectors: block b of vector i has those rows' 16 bits number kParts * b + i.
  __m512i rows[kTableTurn];
  float scales[kMostScales];
  union {
    float zeros[kMostScales];
    int32_t integers[kMostScales];  // zeros whose differences from codes bf16 may not have
  };
  float sums[ColumnsOfLine(TableForm::kColumnPairs)];
};

// Eight rows of a line.
HWY_INLINE void Transpose(const __m512i (&rows)[kTableRows], __m512i* to) {
  __m512i pairs[8], quads[8];
  KRAFLA_UNROLL(4)
  for (int i = 0; i < 4; ++i) {
    pairs[i] = _mm512_unpacklo_epi16(rows[2 * i], rows[2 * i + 1]);
    pairs[4 + i] = _mm512_unpackhi_epi16(rows[2 * i], rows[2 * i + 1]);
  }
  KRAFLA_UNROLL(2)
  for (int half = 0; half < 2; ++half) {
    KRAFLA_UNROLL(2)
    for (int i = 0; i < 2; ++i) {
      quads[4 * half + i] = _mm512_unpacklo_epi32(pairs[4 * half + 2 * i], pairs[4 * half + 2 * i + 1]);
      quads[4 * half + 2 + i] = _mm512_unpackhi_epi32(pairs[4 * half + 2 * i], pairs[4 * half + 2 * i + 1]);
    }
  }
  KRAFLA_UNROLL(4)
  for (int i = 0; i < 4; ++i) {
    _mm512_store_si512(to + 2 * i, _mm512_unpacklo_epi64(quads[2 * i], quads[2 * i + 1]));
    _mm512_store_si512(to + 2 * i + 1, _mm512_unpackhi_epi64(quads[2 * i], quads[2 * i + 1]));
  }
}

// How a weight is made of a code. Zero points are small where each difference from a code is a number of bf16.
struct WeightForm {
  enum class Zeros : uint8_t { kNone, kSmall, kAny };
  bool divides;
  Zeros zeros;
};

// A column's weights for each code, before they are rounded; `at`: which scale.
template <WeightForm kWeights>
HWY_INLINE __m512 NumbersOf(__m512i table, const TableScratch& s, int64_t at) {
  __m512 numbers = _mm512_cvtepi32_ps(table);
  if constexpr (kWeights.zeros == WeightForm::Zeros::kSmall) {
    numbers = _mm512_sub_ps(numbers, _mm512_set1_ps(s.zeros[at]));
  } else if constexpr (kWeights.zeros == WeightForm::Zeros::kAny) {
    const __m512 difference = _mm512_cvtepi32_ps(_mm512_sub_epi32(table, _mm512_set1_epi32(s.integers[at])));
    const __m512i bits = _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(difference)));
    numbers = _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
  }
  const __m512 scale = _mm512_set1_ps(s.scales[at]);
  if constexpr (kWeights.divides) return _mm512_div_ps(numbers, scale);
  return _mm512_mul_ps(numbers, scale);
}

// Of the columns that are the blocks' in a vector of codes, whose scales lie kStep apart: those of two blocks each.
struct FourTables {
  __m512i low, high;
};
template <WeightForm kWeights, int64_t kStep>
HWY_INLINE FourTables TablesFor(__m512i table, const TableScratch& s, int64_t first) {
  const auto two = [&](int64_t at) HWY_ATTR {
    return reinterpret_cast<__m512i>(
        _mm512_cvtne2ps_pbh(NumbersOf<kWeights>(table, s, at + kStep), NumbersOf<kWeights>(table, s, at)));
  };
  return {two(first), two(first + 2 * kStep)};
}

// The places in the tables that 16 bits have number i of their four codes at: a code, and its block's number above it.
HWY_INLINE __m512i BlockNumbers() {
  constexpr int64_t kOnes = 0x0001000100010001;
  return _mm512_set_epi64(48 * kOnes, 48 * kOnes, 32 * kOnes, 32 * kOnes, 16 * kOnes, 16 * kOnes, 0, 0);
}
HWY_INLINE __m512i CodesOf(__m512i all, int i, __m512i code, __m512i block) {
  const __m512i shifted = i == 0 ? all : _mm512_srli_epi16(all, static_cast<unsigned>(4 * i));
  return _mm512_ternarylogic_epi64(shifted, code, block, 0xea);  // shifted & code | block
}
HWY_INLINE __m512 AddWeights(__m512 sum, __m512i places, const FourTables& tables, const uint16_t* vector) {
  const __m512i x = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(vector)));
  const __m512i weights = _mm512_permutex2var_epi16(tables.low, places, tables.high);
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(weights), reinterpret_cast<__m512bh>(x));
}

// The sums of the lanes of four vectors, in each block side by side.
HWY_INLINE __m512 SumLanes(const __m512 (&v)[4]) {
  const auto halves = [](__m512 a, __m512 b)
                          HWY_ATTR { return _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b)); };
  return halves(halves(v[0], v[2]), halves(v[1], v[3]));
}

// Of vector `part` of all rows, for the four codes in 16 bits, block by block.
template <WeightForm kWeights, TableForm kForm>
HWY_INLINE __m512 SumsOfPart(const WeightRows& t, const TableScratch& s, int64_t part) {
  constexpr int64_t kColumns = ColumnsOfLine(kForm), kTables = TablesOfPart(kForm), kPlaces = PlacesOfRow(kForm);
  const __m512i table = _mm512_loadu_si512(t.table);
  const __m512i code = _mm512_set1_epi16(15), block = BlockNumbers();
  const int64_t first = part * kColumns / (kParts * kBlocks), rows_of_group = t.group / kPlaces;
  __m512 sums[4];
  KRAFLA_UNROLL(4)
  for (int i = 0; i < 4; ++i) sums[i] = _mm512_setzero_ps();
  for (int64_t begin = 0, at = first; begin < t.rows; begin += rows_of_group, at += kColumns) {
    FourTables tables[kTables];
    KRAFLA_UNROLL(4)
    for (int64_t c = 0; c < kTables; ++c) tables[c] = TablesFor<kWeights, kColumns / kBlocks>(table, s, at + c);
    const int64_t end = std::min(t.rows, begin + rows_of_group);
    for (int64_t row = begin; row < end; row += kTableRows) {
      const __m512i all = _mm512_load_si512(s.rows + row + part);
      const uint16_t* vector = t.vector + row * kPlaces;
      KRAFLA_UNROLL(4)
      for (int i = 0; i < 4; ++i) {
        const int64_t place = kForm == TableForm::kColumnPairs ? 0
                              : kForm == TableForm::kRowPairs  ? i % 2
                                                               : 4 * (part % 2) + i;
        const __m512i places = CodesOf(all, i, code, block);
        sums[i] = AddWeights(sums[i], places, tables[i * kTables / 4], vector + place * kTableRows);
      }
    }
  }
  return SumLanes(sums);
}

// Adds a part's sums to those of its columns.
template <TableForm kForm>
HWY_INLINE void AddToColumns(__m512 part_sums, int64_t part, float* sums) {
  constexpr int64_t kStep = ColumnsOfLine(kForm) / kBlocks;
  alignas(64) float all[16];
  _mm512_store_ps(all, part_sums);
  float* to = sums + part * kStep / kParts;
  for (int64_t b = 0; b < kBlocks; ++b, to += kStep) {
    const float* from = all + 4 * b;
    if constexpr (kForm == TableForm::kColumnPairs) _mm_storeu_ps(to, _mm_load_ps(from) + _mm_loadu_ps(to));
    else if constexpr (kForm == TableForm::kRowPairs) to[0] += from[0] + from[1], to[1] += from[2] + from[3];
    else to[0] += from[0] + from[1] + (from[2] + from[3]);
  }
}

template <ElementType kType>
HWY_INLINE void WidenScales(const std::byte* from, int64_t count, float* to) {
  constexpr int64_t kWidth = kType == ElementType::kF32 ? 4 : 2, kLanes = 16;
  alignas(64) std::byte whole[kLineBytes];
  for (int64_t i = 0; i < count; i += kLanes) {
    const std::byte* at = from + i * kWidth;
    if (i + kLanes > count) {
      _mm512_store_si512(whole, LoadLine(at, (count - i) * kWidth));
      at = whole;
    }
    _mm512_store_ps(to + i, LoadScales<kType>(at));
  }
}

// What is read later is fetched beside the sums of a line, an eighth at a time: so many rows, of which each ends soon,
// are more than the processor foresees, and all of them at once more than it can wait for. Memory gives several lines
// that lie side by side sooner than as many that do not.
class TableFetch {
 public:
  static constexpr int64_t kLines = 8;
  HWY_INLINE TableFetch(const WeightRows& t, int64_t line, int64_t lines) {
    const int64_t begin = line / kLines * kLines, end = std::min(begin + kLines, lines);
    const bool is_last = end == lines;
    from_ = is_last ? t.next : t.codes + end * kLineBytes, stride_ = t.stride;
    lines_ = std::min(kLines, is_last ? lines : lines - end);
    const int64_t rows = is_last ? t.next_rows : t.rows;
    row_ = rows * (line - begin) / (end - begin), end_ = rows * (line - begin + 1) / (end - begin);
    step_ = CeilDiv(end_ - row_, kParts);
  }
  HWY_INLINE void Some() {
    for (const int64_t end = std::min(row_ + step_, end_); row_ < end; ++row_)
      for (int64_t l = 1; l <= lines_; ++l) __builtin_prefetch(from_ + row_ * stride_ + l * kLineBytes - 1, 0, 2);
  }

 private:
  const std::byte* from_;
  int64_t stride_, lines_, row_, end_, step_;
};

// The zero points of a line's columns; whether all differences from them are numbers of bf16, and they are floats.
HWY_INLINE bool LoadZeros(const WeightRows& t, int64_t groups, int64_t column, int64_t columns, int64_t line_columns,
                          TableScratch& s) {
  constexpr int64_t kMostInBf16 = 256;
  int64_t most_code = 0, most_zero = 0;
  for (int i = 0; i < 16; ++i) most_code = std::max(most_code, std::abs(int64_t{t.table[i]}));
  for (int64_t g = 0; g < groups; ++g) {
    const int32_t* from = t.zeros + g * t.zeros_stride + column;
    std::copy_n(from, columns, s.integers + g * line_columns);
    std::fill_n(s.integers + g * line_columns + columns, line_columns - columns, 0);
    for (int64_t i = 0; i < columns; ++i) most_zero = std::max(most_zero, std::abs(int64_t{from[i]}));
  }
  if (most_code + most_zero > kMostInBf16) return false;
  for (int64_t i = 0; i < groups * line_columns; i += 16)
    _mm512_store_ps(s.zeros + i, _mm512_cvtepi32_ps(_mm512_load_si512(s.integers + i)));
  return true;
}

template <WeightForm kWeights, TableForm kForm>
void AddParts(const WeightRows& t, TableScratch& scratch, TableFetch& fetch) {
  std::fill_n(scratch.sums, ColumnsOfLine(kForm), 0.0f);
  for (int64_t part = 0; part < kParts; ++part) {
    fetch.Some();
    AddToColumns<kForm>(SumsOfPart<kWeights, kForm>(t, scratch, part), part, scratch.sums);
  }
}

template <ElementType kType, bool kDivides, TableForm kForm>
void DotByTables(const WeightRows& t) {
  constexpr int64_t kWidth = kType == ElementType::kF32 ? 4 : 2, kColumns = ColumnsOfLine(kForm);
  using Zeros = WeightForm::Zeros;
  const int64_t groups = CeilDiv(t.rows * PlacesOfRow(kForm), t.group), lines = CeilDiv(t.columns, kColumns);
  TableScratch scratch;
  for (int64_t line = 0; line < lines; ++line) {
    const int64_t column = line * kColumns, columns = std::min(kColumns, t.columns - column);
    const std::byte* codes = t.codes + line * kLineBytes;
    for (int64_t row = 0; row < t.rows; row += kTableRows) {
      __m512i rows[kTableRows];
      KRAFLA_UNROLL(8)
      for (int64_t i = 0; i < kTableRows; ++i)
        rows[i] = LoadLine(codes + (row + i) * t.stride, columns * kLineBytes / kColumns);
      Transpose(rows, scratch.rows + row);
    }
    for (int64_t g = 0; g < groups; ++g) {
      const std::byte* from = t.scales + (g * t.scales_stride + column) * kWidth;
      WidenScales<kType>(from, columns, scratch.scales + g * kColumns);
      for (int64_t next = kColumns * kWidth; next < 2 * kColumns * kWidth; next += kLineBytes)
        __builtin_prefetch(from + next + kLineBytes - 1, 0, 2);
    }
    TableFetch fetch(t, line, lines);
    if (t.zeros == nullptr) AddParts<WeightForm{kDivides, Zeros::kNone}, kForm>(t, scratch, fetch);
    else if (LoadZeros(t, groups, column, columns, kColumns, scratch))
      AddParts<WeightForm{kDivides, Zeros::kSmall}, kForm>(t, scratch, fetch);
    else AddParts<WeightForm{kDivides, Zeros::kAny}, kForm>(t, scratch, fetch);
    for (int64_t i = 0; i < columns; ++i) t.sums[column + i] += scratch.sums[i];
  }
}

// The blocks of four vectors, those of each place behind each other: to[i] has block i of each.
HWY_INLINE void TransposeBlocks(const __m512i (&v)[kBlocks], __m512i (&to)[kBlocks]) {
  const __m512i low01 = _mm512_shuffle_i32x4(v[0], v[1], 0x44), low23 = _mm512_shuffle_i32x4(v[2], v[3], 0x44);
  const __m512i high01 = _mm512_shuffle_i32x4(v[0], v[1], 0xee), high23 = _mm512_shuffle_i32x4(v[2], v[3], 0xee);
  to[0] = _mm512_shuffle_i32x4(low01, low23, 0x88), to[1] = _mm512_shuffle_i32x4(low01, low23, 0xdd);
  to[2] = _mm512_shuffle_i32x4(high01, high23, 0x88), to[3] = _mm512_shuffle_i32x4(high01, high23, 0xdd);
}

// Four lines along the depth, a block of a vector each.
template <ElementType kType>
HWY_INLINE void DotOfFourLines(const int32_t* numbers, const WeightLines& t, int64_t line, TableScratch& s) {
  constexpr int64_t kWidth = kType == ElementType::kF32 ? 4 : 2, kGroups = kMostScales / kBlocks;
  // Lines behind the last one are that one.
  std::array<int64_t, kBlocks> lines{};
  for (int64_t b = 0; b < kBlocks; ++b) lines[At(b)] = std::min(line + b, t.lines - 1);
  const int64_t bytes = t.depth / 2;
  const __m512i table = _mm512_loadu_si512(numbers), code = _mm512_set1_epi16(15), block = BlockNumbers();
  __m512 sums[4];
  KRAFLA_UNROLL(4)
  for (int i = 0; i < 4; ++i) sums[i] = _mm512_setzero_ps();
  FourTables tables{};
  int64_t group = 0, left = 0;  // the next one, and the places of this one that follow
  for (int64_t begin = 0; begin < bytes; begin += kLineBytes) {
    constexpr int64_t kAhead = 8 * kLineBytes;
    // Behind these lines come the next four.
    const int64_t ahead = begin + kAhead < bytes ? begin + kAhead : kBlocks * t.stride + begin + kAhead - bytes;
    __m512i loaded[kBlocks], all[kBlocks];
    KRAFLA_UNROLL(4)
    for (int64_t b = 0; b < kBlocks; ++b) {
      const std::byte* from = t.weights + lines[At(b)] * t.stride;
      __builtin_prefetch(from + ahead, 0, 2);
      loaded[b] = LoadLine(from + begin, bytes - begin);
    }
    TransposeBlocks(loaded, all);
    const int64_t count = std::min(kBlocks, (bytes - begin) / kTableBytes);
    KRAFLA_UNROLL(4)
    for (int64_t v = 0; v < kBlocks; ++v) {
      if (v >= count) break;
      if (left == 0) {
        if (group % kGroups == 0)
          for (int64_t b = 0; b < kBlocks; ++b)
            WidenScales<kType>(t.scales + (lines[At(b)] * t.scales_stride + group) * kWidth,
                               std::min(kGroups, t.depth / t.group - group), s.scales + b * kGroups);
        tables = TablesFor<WeightForm{false, WeightForm::Zeros::kNone}, kGroups>(table, s, group % kGroups);
        ++group, left = t.group;
      }
      left -= kTablePlaces;
      const uint16_t* vector = t.vector + (begin + v * kTableBytes) * 2;
      KRAFLA_UNROLL(4)
      for (int i = 0; i < 4; ++i)
        sums[i] = AddWeights(sums[i], CodesOf(all[v], i, code, block), tables, vector + i * kTableRows);
    }
  }
  alignas(64) float all[16];
  _mm512_store_ps(all, (sums[0] + sums[1]) + (sums[2] + sums[3]));
  for (int64_t b = 0; b < std::min(kBlocks, t.lines - line); ++b) {
    const float* from = all + 4 * b;
    t.sums[line + b] = (from[0] + from[1]) + (from[2] + from[3]);
  }
}

template <ElementType kType>
void DotOfLines(const int32_t* table, const WeightLines& t) {
  TableScratch scratch;
  for (int64_t line = 0; line < t.lines; line += kBlocks) DotOfFourLines<kType>(table, t, line, scratch);
}
TableLinesFn FindLines(ElementType scales) {
  return ForScales(scales, []<ElementType kType>() -> TableLinesFn { return &DotOfLines<kType>; });
}

template <ElementType kType, bool kDivides>
TableDotFn TablesOf(TableForm form) {
  if (form == TableForm::kColumnPairs) return &DotByTables<kType, kDivides, TableForm::kColumnPairs>;
  if (form == TableForm::kRowPairs) return &DotByTables<kType, kDivides, TableForm::kRowPairs>;
  return &DotByTables<kType, kDivides, TableForm::kWords>;
}
template <ElementType kType>
TableDotFn TablesOf(TableKind kind, TableForm form) {
  return kind == TableKind::kQuotients ? TablesOf<kType, true>(form) : TablesOf<kType, false>(form);
}
TableDotFn FindTables(ElementType scales, TableKind kind, TableForm form) {
  return ForScales(scales, [=]<ElementType kType>() { return TablesOf<kType>(kind, form); });
}

#endif

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {

TableDotFn FindTableDot([[maybe_unused]] ElementType scales, [[maybe_unused]] TableKind kind,
                        [[maybe_unused]] TableForm form) {
#if HWY_TARGETS & HWY_AVX3_ZEN4
  if (HasBf16Products()) return N_AVX3_ZEN4::FindTables(scales, kind, form);
#endif
  return nullptr;
}
TableLinesFn FindTableLines([[maybe_unused]] ElementType scales) {
#if HWY_TARGETS & HWY_AVX3_ZEN4
  if (HasBf16Products()) return N_AVX3_ZEN4::FindLines(scales);
#endif
  return nullptr;
}

}  // namespace krafla::cpu
#endif
