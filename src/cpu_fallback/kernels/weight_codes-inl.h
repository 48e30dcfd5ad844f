// SPDX-License-Identifier: Apache-2.0
// Weights made in registers of their codes, for vectors of AVX2 and wider ones.
//
// Rounding to bf16 costs one operation here. The product v = n s of an integer and a number of bf16, of 8 bits each, is
// exact in f32, and so are s (2^16 + 1) and s 2^16. In c = n s (2^16 + 1), rounded to the 24 bits of an f32, the last
// place is that of v as a bf16: c is 2^16 v, an even multiple of it, and v rounded to nearest, ties to even. c - n s
// 2^16 is then the rounded v, exactly (Dekker's splitting of a number, "A floating-point technique for extending the
// available precision", 1971).
//
// A quotient n / s, of 8 bits each, is no nearer than 2^-17 of itself to the middle between two numbers of bf16, so
// that n times the rounded reciprocal, which is two parts in 2^24 away at the most, is rounded to the same one.
#if defined(KRAFLA_CPU_WEIGHT_CODES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef KRAFLA_CPU_WEIGHT_CODES_INL
#undef KRAFLA_CPU_WEIGHT_CODES_INL
#else
#define KRAFLA_CPU_WEIGHT_CODES_INL
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "cpu_fallback/kernels/half_floats-inl.h"
#include "cpu_fallback/kernels/narrow_loads-inl.h"
#include "cpu_fallback/kernels/unroll.h"
#include "cpu_fallback/kernels/weight_dot.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if !HWY_ARCH_X86 || HWY_TARGET <= HWY_AVX2

using Kind = CodeForm::Kind;
using Floats = hn::CappedTag<float, 16>;
using Words = hn::RebindToSigned<Floats>;
using UnsignedWords = hn::RebindToUnsigned<Floats>;
using Bytes = hn::Rebind<uint8_t, Floats>;
using F = hn::Vec<Floats>;

constexpr int64_t kLanes = hn::MaxLanes(Floats());
// Of AVX-512 alone: a permutation, which looks at four bits of a lane, makes numbers of codes of four bits.
constexpr bool kHasTables = HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3;
constexpr int kVectors = 4;  // of columns, side by side

// A row of memory: the part of a byte that is read of kHalves is another template argument.
template <Kind kKind>
constexpr int PlacesOfRow() {
  return kKind == Kind::kRowPairs ? 2 : kKind == Kind::kWords ? 8 : 1;
}
template <Kind kKind>
constexpr int64_t ByteOf(int64_t column) {
  return kKind == Kind::kColumnPairs ? column / 2 : kKind == Kind::kWords ? column * 4 : column;
}

// The bytes of `count` codes of four bits, each lane with all of them, or every second with the first eight and the
// others with those behind them.
HWY_INLINE hn::Vec<Words> LoadPairs(const std::byte* from, int64_t count) {
  using All = std::conditional_t<kLanes == 16, uint64_t, uint32_t>;
  All all = 0;
  if (count == kLanes) std::memcpy(&all, from, sizeof all);
  else std::memcpy(&all, from, static_cast<std::size_t>(std::min(count + 1, kLanes) / 2));
  return hn::BitCast(Words(), hn::Set(hn::Repartition<All, Words>(), all));
}

// The codes of as many columns as a vector has lanes, each in the bits of a word that CodeOf takes it from. Nothing
// behind the last of `count` columns is read.
template <Kind kKind>
HWY_INLINE hn::Vec<Words> LoadCodes(const std::byte* from, int64_t count) {
  const Words d;
  if constexpr (kKind == Kind::kColumnPairs) {
    return LoadPairs(from, count);
  } else if constexpr (kKind == Kind::kWords) {
    const auto* words = reinterpret_cast<const int32_t*>(from);
    return count == kLanes ? hn::LoadU(d, words) : hn::LoadN(d, words, static_cast<std::size_t>(count));
  } else {
    const Bytes d8;
    const auto* bytes = reinterpret_cast<const uint8_t*>(from);
    const auto loaded = count == kLanes ? hn::LoadU(d8, bytes) : hn::LoadN(d8, bytes, static_cast<std::size_t>(count));
    if constexpr (kKind == Kind::kBytes) return hn::PromoteTo(d, hn::BitCast(hn::RebindToSigned<Bytes>(), loaded));
    else return hn::PromoteTo(d, loaded);
  }
}

// Columns and lanes: of column pairs in words of eight, the first lane of two has its column of the first word.
template <Kind kKind>
constexpr bool kMovesColumns = kKind == Kind::kColumnPairs && kLanes == 16;
template <Kind kKind>
HWY_INLINE F ColumnsToLanes(F v) {
  if constexpr (!kMovesColumns<kKind>) return v;
  else return hn::InterleaveWholeLower(Floats(), v, hn::ConcatUpperUpper(Floats(), v, v));
}
template <Kind kKind>
HWY_INLINE F LanesToColumns(F v) {
  if constexpr (!kMovesColumns<kKind>) return v;
  else return hn::ConcatLowerLower(Floats(), hn::ConcatOdd(Floats(), v, v), hn::ConcatEven(Floats(), v, v));
}

// What a turn's codes have in common: what makes them signed, and what is then to be taken from them; or the numbers
// of codes of four bits, from which nothing is taken.
struct CodeShift {
  int32_t flip = 0;
  float zero = 0;
  alignas(64) float numbers[16] = {};
};
template <Kind kKind>
constexpr bool kIsInTable = kHasTables && kKind != Kind::kBytes;

template <Kind kKind>
HWY_INLINE CodeShift ShiftOf(const CodeForm& form) {
  constexpr int kHalf = kKind == Kind::kBytes ? 128 : 8;
  CodeShift out;
  if constexpr (kIsInTable<kKind>) {
    for (int c = 0; c < 16; ++c) out.numbers[c] = static_cast<float>((c ^ form.flip) - form.zero);
    return out;
  }
  // Bytes are signed already when it is applied.
  const uint32_t every = kKind == Kind::kBytes ? 0xffffff80u : 0x88888888u;
  out.flip = form.flip == kHalf ? 0 : static_cast<int32_t>(every), out.zero = static_cast<float>(form.zero - kHalf);
  return out;
}

// Place `kPlace` of a row as a number, without its zero point.
template <Kind kKind, int kPlace>
HWY_INLINE F NumberOf(hn::Vec<Words> loaded, [[maybe_unused]] F numbers) {
  const Floats d;
  if constexpr (kKind == Kind::kBytes) {
    return hn::ConvertTo(d, loaded);
  } else if constexpr (!kIsInTable<kKind>) {
    if constexpr (kKind == Kind::kColumnPairs) {
      const auto up = hn::Sub(hn::Set(Words(), 28), hn::ShiftLeft<2>(hn::Iota(Words(), 0)));
      return hn::ConvertTo(d, hn::ShiftRight<28>(hn::Shl(loaded, up)));
    } else {
      return hn::ConvertTo(d, hn::ShiftRight<28>(hn::ShiftLeft<28 - 4 * kPlace>(loaded)));
    }
  } else {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
    // A permutation looks at four bits of a lane alone.
    const UnsignedWords du;
    auto bits = hn::BitCast(du, loaded);
    if constexpr (kKind == Kind::kColumnPairs)
      bits = hn::Shr(bits, hn::ShiftLeft<2>(hn::ShiftRight<1>(hn::Iota(du, 0))));
    else bits = hn::ShiftRight<4 * kPlace>(bits);
    return F{_mm512_permutexvar_ps(bits.raw, numbers.raw)};
#endif
  }
}

HWY_INLINE F RoundedToBf16(F v) {
  const Floats d;
  const UnsignedWords du;
  const auto bits = hn::BitCast(du, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const auto up = hn::Add(hn::Add(bits, hn::Set(du, 0x7fff)), odd);
  // A NaN's bits may be carried away.
  return hn::IfThenElse(hn::IsNaN(v), v, hn::BitCast(d, hn::And(up, hn::Set(du, 0xffff0000u))));
}

// What weights of a column are made with. kPlain: by the rounding of any number, for scales that are not ordinary.
template <WeightKind kHow, bool kPlain>
struct ColumnFactors {
  F scale, upper;
  HWY_INLINE ColumnFactors() {}  // with the target's instructions: clang gives an implicit one none of them
  HWY_INLINE static bool IsOrdinary(F scale) {
    const Floats d;
    const auto size = hn::Abs(scale);
    if constexpr (kHow == WeightKind::kBf16Products) return hn::AllTrue(d, hn::Lt(size, hn::Set(d, 0x1p100f)));
    if constexpr (kHow == WeightKind::kBf16Quotients)
      return hn::AllTrue(d, hn::And(hn::Lt(size, hn::Set(d, 0x1p60f)), hn::Gt(size, hn::Set(d, 0x1p-60f))));
    return true;
  }
  HWY_INLINE void Set(F s) {
    const Floats d;
    scale = s, upper = s;
    if constexpr (kPlain) return;
    if constexpr (kHow == WeightKind::kBf16Products) {
      scale = hn::Mul(s, hn::Set(d, 65537.0f)), upper = hn::Mul(s, hn::Set(d, 65536.0f));
    } else if constexpr (kHow == WeightKind::kBf16Quotients) {
      scale = hn::Div(hn::Set(d, 1.0f), s);
    }
  }
  HWY_INLINE F Weight(F n) const {
    const Floats d;
    if constexpr (kHow == WeightKind::kCodes) return n;
    if constexpr (kHow == WeightKind::kProducts) return hn::Mul(n, scale);
    if constexpr (kHow == WeightKind::kF16Products) {
      const hn::Rebind<hwy::float16_t, Floats> d16;
      return WidenFloats(d, hn::DemoteTo(d16, hn::Mul(n, scale)));
    }
    if constexpr (kPlain) {
      return RoundedToBf16(kHow == WeightKind::kBf16Products ? hn::Mul(n, scale) : hn::Div(n, scale));
    } else if constexpr (kHow == WeightKind::kBf16Products) {
      return hn::NegMulAdd(n, upper, hn::Mul(n, scale));
    } else {
      const auto v = hn::Mul(n, scale), c = hn::Mul(v, hn::Set(d, 65537.0f));
      return hn::Sub(c, hn::Sub(c, v));
    }
  }
};

// The scales of some vectors of columns, ones where there are none; whether all are ordinary.
template <WeightKind kHow, class S, int kCount>
HWY_INLINE bool LoadScalesOf(const std::byte* scales, int64_t column, int64_t count, F (&to)[kCount]) {
  const Floats d;
  bool is_ordinary = true;
  KRAFLA_UNROLL(4)
  for (int v = 0; v < kCount; ++v) {
    to[v] = hn::Set(d, 1.0f);
    if constexpr (kHow != WeightKind::kCodes) {
      const S* from = reinterpret_cast<const S*>(scales) + column + v * kLanes;
      to[v] = LoadAs(d, from, static_cast<std::size_t>(count));
      // Of lanes without a column anything will do.
      is_ordinary = is_ordinary && ColumnFactors<kHow, false>::IsOrdinary(to[v]);
    }
  }
  return is_ordinary;
}

// The factors and zero points of some vectors of columns, in the order of their lanes. `more`: of each column, what is
// taken besides; may be null.
template <Kind kKind, bool kShifts, int kCount, class Factors>
HWY_INLINE void PrepareColumns(const CodeShift& shift, const float* more, const F (&scales)[kCount], int64_t column,
                               int64_t count, Factors (&factors)[kCount], F (&zeros)[kCount]) {
  const Floats d;
  KRAFLA_UNROLL(4)
  for (int v = 0; v < kCount; ++v) {
    zeros[v] = hn::Set(d, shift.zero);
    factors[v].Set(ColumnsToLanes<kKind>(scales[v]));
    if (kShifts && more != nullptr) {
      const F own = LoadAs(d, more + column + v * kLanes, static_cast<std::size_t>(count));
      zeros[v] = hn::Add(zeros[v], ColumnsToLanes<kKind>(own));
    }
  }
}

// The codes of some vectors of columns of a row, signed where they have to be.
template <Kind kKind, bool kShifts, int kCount>
HWY_INLINE void LoadRow(const CodeShift& shift, const std::byte* row, int64_t count, hn::Vec<Words> (&to)[kCount]) {
  KRAFLA_UNROLL(4)
  for (int v = 0; v < kCount; ++v) {
    to[v] = LoadCodes<kKind>(row + ByteOf<kKind>(v * kLanes), count);
    if constexpr (kShifts && !kIsInTable<kKind>) to[v] = hn::Xor(to[v], hn::Set(Words(), shift.flip));
  }
}

#endif

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
