// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/int_dot.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/checked_math.h"
#include "cpu_fallback/kernels/unroll.h"

// VNNI is in the set that the other files leave out.
#ifdef HWY_DISABLED_TARGETS
#undef HWY_DISABLED_TARGETS
#endif
#define HWY_DISABLED_TARGETS (KRAFLA_UNUSED_SETS | HWY_AVX3_ZEN4)
#define HWY_WANT_AVX3_DL
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/int_dot.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu_fallback/kernels/narrow_loads-inl.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Bytes = hn::ScalableTag<uint8_t>;
using SignedBytes = hn::RebindToSigned<Bytes>;
using Words = hn::Repartition<int32_t, Bytes>;
using Floats = hn::Rebind<float, Words>;
using Pairs = hn::Repartition<uint16_t, Bytes>;

// vpdpbusd multiplies unsigned bytes with signed ones; the other instructions are for signed ones, or saturate.
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3_DL
constexpr bool kTakesUnsigned = true;
#else
constexpr bool kTakesUnsigned = false;
#endif

// Adds to each word the four products of its bytes. `a`: where kTakesUnsigned, or where they are below 128, unsigned.
HWY_INLINE hn::Vec<Words> AddQuads(hn::Vec<Bytes> a, hn::Vec<SignedBytes> x, hn::Vec<Words> sum) {
  const Words dw;
  const SignedBytes db;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3_DL
  (void)db;
  return hn::SumOfMulQuadAccumulate(dw, a, x, sum);
#elif HWY_ARCH_X86 && HWY_TARGET <= HWY_SSSE3
  // Magnitudes of at most 128 times at most 127: a pair of products fits 16 bits.
  const hn::Repartition<int16_t, Words> half;
  const auto w = hn::BitCast(db, a);
  const auto pairs =
      hn::SatWidenMulPairwiseAdd(half, hn::BitCast(Bytes(), hn::Abs(w)), hn::IfNegativeThenNegOrUndefIfZero(w, x));
  return hn::Add(sum, hn::WidenMulPairwiseAdd(dw, pairs, hn::Set(half, 1)));
#else
  return hn::SumOfMulQuadAccumulate(dw, hn::BitCast(db, a), x, sum);
#endif
}

// The sums of a block's quads. Codes below 16 times a vector's codes: sixteen products, of a pair of each of eight
// quads, fit 16 bits, so that pairs become words once a block.
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_SSSE3 && HWY_TARGET > HWY_AVX3_DL
constexpr bool kHasPairSums = true;
#else
constexpr bool kHasPairSums = false;
#endif
template <bool kIsSmall>
struct QuadSums {
  static constexpr bool kOfPairs = kIsSmall && kHasPairSums;
  using Halves = hn::Repartition<int16_t, Words>;
  hn::Vec<std::conditional_t<kOfPairs, Halves, Words>> sums;
  HWY_INLINE QuadSums() {
    if constexpr (kOfPairs) sums = hn::Zero(Halves());
    else sums = hn::Zero(Words());
  }
  HWY_INLINE void Add(hn::Vec<Bytes> a, hn::Vec<SignedBytes> x) {
    if constexpr (kOfPairs) sums = hn::Add(sums, hn::SatWidenMulPairwiseAdd(Halves(), a, x));
    else sums = AddQuads(a, x, sums);
  }
  HWY_INLINE hn::Vec<Words> Words32(hn::Vec<Words> first) const {
    if constexpr (kOfPairs) return hn::Add(first, hn::WidenMulPairwiseAdd(Words(), sums, hn::Set(Halves(), 1)));
    else return hn::Add(first, sums);
  }
};

// The first `count` lanes, of at most as many as there are; a negative count is none.
template <class D>
HWY_INLINE std::size_t LanesIn(D d, int64_t count) {
  return static_cast<std::size_t>(std::clamp<int64_t>(count, 0, static_cast<int64_t>(hn::Lanes(d))));
}

// What a turn's columns have in common.
struct TurnValues {
  hn::Vec<Words> first;  // what the sums begin with: what offsets of the codes make of the vector
  hn::Vec<Floats> step, sum_of_codes;
};
HWY_INLINE TurnValues ValuesOf(const CodeForm& form, const IntDotTurn& t) {
  int32_t sum = 0;
  for (int64_t r = 0; r < t.rows; ++r) sum += t.codes[r];
  // Bytes are taken as signed ones, 128 less, where the instructions want that.
  const int32_t zero = form.zero - (form.kind == CodeForm::Kind::kBytes && !kTakesUnsigned ? 128 : 0);
  return {hn::Set(Words(), -zero * sum), hn::Set(Floats(), t.step), hn::Set(Floats(), static_cast<float>(sum))};
}

// Of the columns that a vector of sums has.
template <class S>
HWY_INLINE void AddToSums(const IntDotTurn& t, const TurnValues& values, hn::Vec<Words> sums, int64_t column,
                          std::size_t count) {
  const Floats d;
  auto made = hn::ConvertTo(d, sums);
  if (t.zeros != nullptr) made = hn::NegMulAdd(hn::LoadN(d, t.zeros + column, count), values.sum_of_codes, made);
  if (t.scales != nullptr) made = hn::Mul(made, LoadAs(d, reinterpret_cast<const S*>(t.scales) + column, count));
  float* to = t.sums + column;
  if (count == hn::Lanes(d)) hn::StoreU(hn::MulAdd(made, values.step, hn::LoadU(d, to)), d, to);
  else hn::StoreN(hn::MulAdd(made, values.step, hn::LoadN(d, to, count)), d, to, count);
}

// A vector of bytes of each of four rows of memory, each quad of which becomes a word: out[i] has the words of a
// quarter of them. Rows behind the last one repeat the first.
HWY_INLINE void LoadQuads(const IntDotTurn& t, int64_t rows, int64_t row, int64_t at, std::size_t count,
                          hn::Vec<Bytes> flip, hn::Vec<Bytes> (&out)[4]) {
  const Bytes d;
  const Pairs d16;
  hn::Vec<Bytes> loaded[4];
  KRAFLA_UNROLL(4)
  for (int64_t i = 0; i < 4; ++i) {
    const std::byte* from = t.weights + (row + i < rows ? row + i : row) * t.stride + at;
    const auto* bytes = reinterpret_cast<const uint8_t*>(from);
    if (t.ahead != 0) __builtin_prefetch(bytes + t.ahead, 0, 2);
    loaded[i] = hn::Xor(count == hn::Lanes(d) ? hn::LoadU(d, bytes) : hn::LoadN(d, bytes, count), flip);
  }
  const auto low01 = hn::BitCast(d16, hn::InterleaveLower(d, loaded[0], loaded[1]));
  const auto low23 = hn::BitCast(d16, hn::InterleaveLower(d, loaded[2], loaded[3]));
  const auto high01 = hn::BitCast(d16, hn::InterleaveUpper(d, loaded[0], loaded[1]));
  const auto high23 = hn::BitCast(d16, hn::InterleaveUpper(d, loaded[2], loaded[3]));
  out[0] = hn::BitCast(d, hn::InterleaveLower(d16, low01, low23));
  out[1] = hn::BitCast(d, hn::InterleaveUpper(d16, low01, low23));
  out[2] = hn::BitCast(d, hn::InterleaveLower(d16, high01, high23));
  out[3] = hn::BitCast(d, hn::InterleaveUpper(d16, high01, high23));
}

// Blocks of four words, block L of v[i] being the one of place 4L + i, in the order of their places. Permutations
// across blocks cost several times as much as those within them, and this is once a turn.
HWY_INLINE void OrderBlocks(hn::Vec<Words> (&v)[4]) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  const __m512i low01 = _mm512_shuffle_i32x4(v[0].raw, v[1].raw, 0x44),
                low23 = _mm512_shuffle_i32x4(v[2].raw, v[3].raw, 0x44);
  const __m512i high01 = _mm512_shuffle_i32x4(v[0].raw, v[1].raw, 0xee),
                high23 = _mm512_shuffle_i32x4(v[2].raw, v[3].raw, 0xee);
  v[0].raw = _mm512_shuffle_i32x4(low01, low23, 0x88), v[1].raw = _mm512_shuffle_i32x4(low01, low23, 0xdd);
  v[2].raw = _mm512_shuffle_i32x4(high01, high23, 0x88), v[3].raw = _mm512_shuffle_i32x4(high01, high23, 0xdd);
#elif HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  const Words d;
  const auto low01 = hn::ConcatLowerLower(d, v[1], v[0]), low23 = hn::ConcatLowerLower(d, v[3], v[2]);
  const auto high01 = hn::ConcatUpperUpper(d, v[1], v[0]), high23 = hn::ConcatUpperUpper(d, v[3], v[2]);
  v[0] = low01, v[1] = low23, v[2] = high01, v[3] = high23;
#else
  static_assert(HWY_MAX_BYTES == 16);  // one block
  (void)v;
#endif
}

// The vector's codes in the order of a form's quads, zeros behind the last one.
struct QuadCodes {
  int8_t codes[2][kRoundedBlock + 4] = {};  // all; or those of the lower halves of bytes, and those of the upper ones
  HWY_INLINE QuadCodes(const IntDotTurn& t, bool halves) {
    if (halves) {
      for (int64_t r = 0; r < t.rows; ++r) codes[r % 2][r / 2] = t.codes[r];
    } else {
      std::memcpy(codes[0], t.codes, static_cast<std::size_t>(t.rows));
    }
  }
  // Four of them in every word.
  HWY_INLINE hn::Vec<SignedBytes> At(int half, int64_t row) const {
    int32_t quad = 0;
    std::memcpy(&quad, codes[half] + row, sizeof(quad));
    return hn::BitCast(SignedBytes(), hn::Set(Words(), quad));
  }
};

HWY_INLINE hn::Vec<Bytes> LowerHalves(hn::Vec<Bytes> v) { return hn::And(v, hn::Set(Bytes(), 15)); }
HWY_INLINE hn::Vec<Bytes> UpperHalves(hn::Vec<Bytes> v) {
  return LowerHalves(hn::BitCast(Bytes(), hn::ShiftRight<4>(hn::BitCast(Pairs(), v))));
}

enum class PartOfByte : uint8_t { kAll, kLower, kUpper };

template <class S, PartOfByte kPart>
void DotOfBytes(const CodeForm& form, const IntDotTurn& t) {
  const Bytes d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d)), words = lanes / 4;
  const TurnValues values = ValuesOf(form, t);
  const auto flip = hn::Set(d, static_cast<uint8_t>(kPart != PartOfByte::kAll ? form.flip * 17
                                                    : kTakesUnsigned          ? form.flip
                                                                              : form.flip ^ 0x80));
  const QuadCodes codes(t, false);
  const auto piece = [&](int64_t column, std::size_t count) HWY_ATTR {
    QuadSums<kPart != PartOfByte::kAll> of_quads[4];
    for (int64_t row = 0; row < t.rows; row += 4) {
      hn::Vec<Bytes> quads[4];
      LoadQuads(t, t.rows, row, column, count, flip, quads);
      const auto x = codes.At(0, row);
      KRAFLA_UNROLL(4)
      for (int i = 0; i < 4; ++i) {
        if constexpr (kPart == PartOfByte::kLower) quads[i] = LowerHalves(quads[i]);
        if constexpr (kPart == PartOfByte::kUpper) quads[i] = UpperHalves(quads[i]);
        of_quads[i].Add(quads[i], x);
      }
    }
    hn::Vec<Words> sums[4];
    KRAFLA_UNROLL(4)
    for (int i = 0; i < 4; ++i) sums[i] = of_quads[i].Words32(values.first);
    OrderBlocks(sums);
    KRAFLA_UNROLL(4)
    for (int64_t i = 0; i < 4; ++i)
      if (const std::size_t n = LanesIn(Words(), t.columns - column - i * words); n > 0)
        AddToSums<S>(t, values, sums[i], column + i * words, n);
  };
  int64_t column = 0;
  for (; column + lanes <= t.columns; column += lanes) piece(column, hn::Lanes(d));
  if (column < t.columns) piece(column, static_cast<std::size_t>(t.columns - column));
}

template <class S>
void DotOfColumnPairs(const CodeForm& form, const IntDotTurn& t) {
  const Bytes d;
  const Words d32;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d)), words = lanes / 4;
  const TurnValues values = ValuesOf(form, t);
  const auto flip = hn::Set(d, static_cast<uint8_t>(form.flip * 17));
  const QuadCodes codes(t, false);
  const auto piece = [&](int64_t at, std::size_t count) HWY_ATTR {
    QuadSums<true> even[4], odd[4];
    for (int64_t row = 0; row < t.rows; row += 4) {
      hn::Vec<Bytes> quads[4];
      LoadQuads(t, t.rows, row, at, count, flip, quads);
      const auto x = codes.At(0, row);
      KRAFLA_UNROLL(4)
      for (int i = 0; i < 4; ++i) {
        even[i].Add(LowerHalves(quads[i]), x);
        odd[i].Add(UpperHalves(quads[i]), x);
      }
    }
    // In turn four columns of the blocks' first halves, and of their second ones.
    hn::Vec<Words> halves[2][4];
    KRAFLA_UNROLL(4)
    for (int i = 0; i < 4; ++i) {
      const auto a = even[i].Words32(values.first), b = odd[i].Words32(values.first);
      halves[i / 2][i % 2 * 2] = hn::InterleaveLower(d32, a, b);
      halves[i / 2][i % 2 * 2 + 1] = hn::InterleaveUpper(d32, a, b);
    }
    KRAFLA_UNROLL(2)
    for (int64_t half = 0; half < 2; ++half) {
      OrderBlocks(halves[half]);
      KRAFLA_UNROLL(4)
      for (int64_t i = 0; i < 4; ++i) {
        // Sixteen columns of a block of thirty-two are as many vectors as they fill.
        const int64_t vectors = 16 / words;
        const int64_t column = 2 * at + i / vectors * 32 + half * 16 + i % vectors * words;
        if (const std::size_t n = LanesIn(d32, t.columns - column); n > 0)
          AddToSums<S>(t, values, halves[half][i], column, n);
      }
    }
  };
  const int64_t bytes = CeilDiv(t.columns, 2);
  int64_t at = 0;
  for (; at + lanes <= bytes; at += lanes) piece(at, hn::Lanes(d));
  if (at < bytes) piece(at, static_cast<std::size_t>(bytes - at));
}

// Places of the depth in the two halves of bytes: of four rows of memory, or of a row of words.
template <class S, bool kOfWords>
void DotOfRows(const CodeForm& form, const IntDotTurn& t) {
  const Bytes d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d)), words = lanes / 4;
  const TurnValues values = ValuesOf(form, t);
  const auto flip = hn::Set(d, static_cast<uint8_t>(form.flip * 17));
  const QuadCodes codes(t, true);
  const int64_t rows = t.rows / form.places(), step = kOfWords ? 1 : 4;
  const auto piece = [&](int64_t column, int64_t count) HWY_ATTR {
    QuadSums<true> of_quads[4];
    for (int64_t row = 0; row < rows; row += step) {
      hn::Vec<Bytes> quads[4];
      if constexpr (kOfWords) {
        const auto* from = reinterpret_cast<const uint8_t*>(t.weights + row * t.stride + 4 * column);
        KRAFLA_UNROLL(4)
        for (int64_t i = 0; i < 4; ++i) {
          if (t.ahead != 0) __builtin_prefetch(from + i * lanes + t.ahead, 0, 2);
          quads[i] = hn::Xor(hn::LoadN(d, from + i * lanes, LanesIn(d, 4 * count - i * lanes)), flip);
        }
      } else {
        LoadQuads(t, rows, row, column, static_cast<std::size_t>(count), flip, quads);
      }
      const auto lower = codes.At(0, kOfWords ? 4 * row : row), upper = codes.At(1, kOfWords ? 4 * row : row);
      KRAFLA_UNROLL(4)
      for (int i = 0; i < 4; ++i) {
        of_quads[i].Add(LowerHalves(quads[i]), lower);
        of_quads[i].Add(UpperHalves(quads[i]), upper);
      }
    }
    hn::Vec<Words> sums[4];
    KRAFLA_UNROLL(4)
    for (int i = 0; i < 4; ++i) sums[i] = of_quads[i].Words32(values.first);
    if constexpr (!kOfWords) OrderBlocks(sums);
    KRAFLA_UNROLL(4)
    for (int64_t i = 0; i < 4; ++i)
      if (const std::size_t n = LanesIn(Words(), t.columns - column - i * words); n > 0)
        AddToSums<S>(t, values, sums[i], column + i * words, n);
  };
  for (int64_t column = 0; column < t.columns; column += lanes) piece(column, std::min(lanes, t.columns - column));
}

template <class S>
IntDotFn DotOf(CodeForm::Kind kind, bool is_upper) {
  switch (kind) {
    case CodeForm::Kind::kLinePairs:
    case CodeForm::Kind::kLineBytes: break;
    case CodeForm::Kind::kBytes: return &DotOfBytes<S, PartOfByte::kAll>;
    case CodeForm::Kind::kColumnPairs: return &DotOfColumnPairs<S>;
    case CodeForm::Kind::kRowPairs: return &DotOfRows<S, false>;
    case CodeForm::Kind::kWords: return &DotOfRows<S, true>;
    case CodeForm::Kind::kHalves:
      return is_upper ? &DotOfBytes<S, PartOfByte::kUpper> : &DotOfBytes<S, PartOfByte::kLower>;
  }
  return nullptr;
}
IntDotFn FindDot(CodeForm::Kind kind, ElementType scales, bool is_upper) {
  if (scales == ElementType::kF32) return DotOf<float>(kind, is_upper);
  if (scales == ElementType::kF16) return DotOf<hwy::float16_t>(kind, is_upper);
  if (scales == ElementType::kBF16) return DotOf<Bf16>(kind, is_upper);
  return nullptr;
}

// One block; gives its step.
float RoundBlock(const float* from, int64_t count, int8_t* codes) {
  constexpr float kLeast = 0x1p-100f;
  const Floats d;
  const hn::Rebind<int8_t, Floats> narrow;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto most = hn::Zero(d), check = hn::Zero(d);
  for (int64_t i = 0; i < count; i += lanes) {
    const auto v = hn::LoadN(d, from + i, LanesIn(d, count - i));
    most = hn::Max(most, hn::Abs(v));
    check = hn::MulAdd(v, hn::Zero(d), check);  // a NaN where one is not finite
  }
  const float largest = hn::ReduceMax(d, most);
  const bool is_finite = hn::ReduceSum(d, check) == 0;
  const bool is_zero = !is_finite || largest < kLeast;
  const auto factor = hn::Set(d, is_zero ? 0 : 127 / largest);
  for (int64_t i = 0; i < count; i += lanes) {
    const std::size_t n = LanesIn(d, count - i);
    const auto code = hn::NearestInt(hn::Mul(hn::LoadN(d, from + i, n), factor));
    hn::StoreN(hn::DemoteTo(narrow, code), narrow, codes + i, n);
  }
  if (!is_finite) return std::numeric_limits<float>::quiet_NaN();
  return is_zero ? 0 : largest / 127;
}

void RoundBlocks(const float* from, int64_t groups, int64_t group, int8_t* codes, float* steps) {
  for (int64_t g = 0; g < groups; ++g, from += group, codes += group)
    for (int64_t begin = 0; begin < group; begin += kRoundedBlock)
      *steps++ = RoundBlock(from + begin, std::min(kRoundedBlock, group - begin), codes + begin);
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(FindDot);
HWY_EXPORT(RoundBlocks);

IntDotFn FindIntDot(CodeForm::Kind kind, ElementType scales, bool is_upper) {
  return HWY_DYNAMIC_DISPATCH(FindDot)(kind, scales, is_upper);
}

void RoundToBytes(const float* from, int64_t groups, int64_t group, int8_t* codes, float* steps) {
  HWY_DYNAMIC_DISPATCH(RoundBlocks)(from, groups, group, codes, steps);
}

}  // namespace krafla::cpu
#endif
