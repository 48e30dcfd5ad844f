// SPDX-License-Identifier: Apache-2.0
// Conversions. Float to integer: NaN gives 0, values outside the range its nearest end (XLA: elemental_ir_emitter.cc
// EmitFloatUnaryOp, kConvert). Integers wrap. To pred: x != 0.
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "cpu_fallback/kernels/block_families.h"
#include "numerics/formats.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/block_convert.cpp"
#include <hwy/foreach_target.h>

#include "cpu_fallback/kernels/block_loops-inl.h"
#include "cpu_fallback/kernels/half_floats-inl.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {

// bool stands for pred here; its arrays are bytes.
template <class T>
using Stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;

template <class From, class To>
struct ConvertOp {
  static HWY_INLINE Stored<To> Do(Stored<From> x) {
    if constexpr (std::is_same_v<To, bool> && std::is_floating_point_v<From>) {
      // By the bits but the sign: to a comparison, subnormal numbers may be zeros.
      using Bits = std::conditional_t<sizeof(From) == 8, uint64_t, uint32_t>;
      return static_cast<Bits>(std::bit_cast<Bits>(x) << 1) != 0 ? 1 : 0;
    } else if constexpr (std::is_same_v<To, bool>) {
      return x != From{0} ? 1 : 0;
    } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To> && sizeof(To) < 4) {
      // The limits are floats, and what lies between them converts by way of an s32.
      constexpr From kLow{std::numeric_limits<To>::min()}, kHigh{std::numeric_limits<To>::max()};
      const From number = x == x ? x : From{0};
      const From low = number < kLow ? kLow : number;
      return static_cast<To>(static_cast<int32_t>(low > kHigh ? kHigh : low));
    } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
      // 2^digits is exact in either float type; everything below it converts.
      constexpr From kEnd = static_cast<From>(uint64_t{1} << (std::numeric_limits<To>::digits - 1)) * From{2};
      constexpr From kStart = std::is_signed_v<To> ? -kEnd : From{0};
      const bool low = !(x > kStart), high = x >= kEnd;
      const To inside = static_cast<To>(low || high ? From{0} : x);
      const To end = high ? std::numeric_limits<To>::max() : x == x ? std::numeric_limits<To>::min() : To{0};
      return low || high ? end : inside;
    } else if constexpr (std::is_floating_point_v<From> && std::is_floating_point_v<To> && !std::is_same_v<From, To>) {
      return SettledConversion(static_cast<To>(x), x);
    } else {
      return static_cast<To>(x);
    }
  }
};

// f32 to s32 where it matters most.
void ConvertF32S32(const BlockArgs& args) {
  const hn::ScalableTag<float> d;
  const hn::ScalableTag<int32_t> di;
  const std::size_t lanes = hn::Lanes(d), n = static_cast<std::size_t>(args.n);
  const float* a = static_cast<const float*>(args.in[0]);
  int32_t* out = static_cast<int32_t*>(args.out);
  const auto end = hn::Set(d, 2147483648.0f);
  const auto start = hn::Set(d, -2147483648.0f);
  for (std::size_t i = 0; i < n; i += lanes) {
    const std::size_t count = n - i < lanes ? n - i : lanes;
    const auto x = hn::LoadN(d, a + i, count);
    const auto high = hn::Ge(x, end);
    const auto safe = hn::IfThenZeroElse(hn::Or(high, hn::IsNaN(x)), x);
    auto value = hn::ConvertTo(di, hn::Max(safe, start));
    value = hn::IfThenElse(hn::RebindMask(di, high), hn::Set(di, 2147483647), value);
    hn::StoreN(value, di, out + i, count);
  }
}

template <class From, class To>
BlockFn Convert() {
  return &ScalarUnaryLoop<Stored<From>, Stored<To>, ConvertOp<From, To>>;
}
// Integers wrap: the sign of what they become does not matter, and their own does where there are more bits to fill.
template <class From, class To>
BlockFn ConvertInteger() {
  if constexpr (std::is_same_v<From, bool> || sizeof(To) > sizeof(From)) return Convert<From, To>();
  else return Convert<std::make_unsigned_t<From>, To>();
}
template <class From>
BlockFn FindConvertToInteger(int width) {
  if (width == 1) return ConvertInteger<From, uint8_t>();
  if (width == 2) return ConvertInteger<From, uint16_t>();
  if (width == 4) return ConvertInteger<From, uint32_t>();
  return ConvertInteger<From, uint64_t>();
}
// What is outside of an integer's range becomes its nearest end.
template <class From>
BlockFn FindConvertToRange(ElementType to) {
  if (to == ElementType::kS32) return Convert<From, int32_t>();
  if (to == ElementType::kU32) return Convert<From, uint32_t>();
  if (to == ElementType::kS8) return Convert<From, int8_t>();
  if (to == ElementType::kU8) return Convert<From, uint8_t>();
  if (to == ElementType::kS16) return Convert<From, int16_t>();
  if (to == ElementType::kU16) return Convert<From, uint16_t>();
  if (to == ElementType::kS64) return Convert<From, int64_t>();
  if (to == ElementType::kU64) return Convert<From, uint64_t>();
  return nullptr;
}
template <class From>
BlockFn FindConvertFrom(ElementType to) {
  if (to == ElementType::kPred) {
    if constexpr (std::is_integral_v<From> && !std::is_same_v<From, bool>)
      return Convert<std::make_unsigned_t<From>, bool>();
    else return Convert<From, bool>();
  }
  if (to == ElementType::kF32) return Convert<From, float>();
  if (to == ElementType::kF64) return Convert<From, double>();
  if constexpr (std::is_integral_v<From>) {
    if (!IsIntegral(to) || BitWidth(to) != 8 * StorageBytes(to)) return nullptr;
    return FindConvertToInteger<From>(StorageBytes(to));
  } else {
    return FindConvertToRange<From>(to);
  }
}

// NaN of either half format becomes the quiet NaN of its sign, as in numerics/formats.h.
template <class D>
HWY_INLINE hn::Vec<D> QuietNan(D d, hn::Vec<D> x, hn::Vec<D> nan_of) {
  const hn::RebindToUnsigned<D> du;
  const auto quiet = hn::Or(hn::And(nan_of, hn::SignBit(d)), hn::BitCast(d, hn::Set(du, 0x7fc00000u)));
  return hn::IfThenElse(hn::IsNaN(nan_of), quiet, x);
}
struct RoundF16 {
  template <class D>
  static HWY_INLINE hn::Vec<D> Do(D d, hn::Vec<D> x) {
    const hn::Rebind<hwy::float16_t, D> dh;
    return QuietNan(d, WidenFloats(d, hn::DemoteTo(dh, x)), x);
  }
};
struct RoundBF16 {
  template <class D>
  static HWY_INLINE hn::Vec<D> Do(D d, hn::Vec<D> x) {
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::BitCast(du, x);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
    const auto up = hn::Add(hn::Add(bits, hn::Set(du, 0x7fff)), odd);
    return QuietNan(d, hn::BitCast(d, hn::And(up, hn::Set(du, 0xffff0000u))), x);
  }
};

// f64 to f32 rounded to odd: what is then rounded to a mantissa of at most 22 bits is rounded once (Boldo and
// Melquiond, "Emulation of a FMA and correctly rounded sums", 2008).
void RoundToOdd(const BlockArgs& args) {
  const double* a = static_cast<const double*>(args.in[0]);
  float* out = static_cast<float*>(args.out);
  const int64_t n = args.n;
  KRAFLA_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) {
    const float nearest = static_cast<float>(a[i]);
    const double back = nearest;
    const uint32_t bits = std::bit_cast<uint32_t>(nearest);
    const uint32_t toward_zero = std::fabs(back) > std::fabs(a[i]) ? bits - 1 : bits;
    const bool exact = back == a[i] || a[i] != a[i];
    out[i] = std::bit_cast<float>(exact ? bits : toward_zero | 1u);
  }
}
template <class Round>
void RoundF64(const BlockArgs& args) {
  RoundToOdd(args);
  UnaryLoop<float, Round>({args.out, {args.out, nullptr, nullptr}, args.n, 0});
}

template <class T>
void WrapLoop(const BlockArgs& args, int bits, bool is_signed) {
  const T* a = static_cast<const T*>(args.in[0]);
  T* out = static_cast<T*>(args.out);
  const int64_t n = args.n;
  const int shift = 32 - bits;
  if (is_signed) {
    KRAFLA_VECTOR_LOOP
    for (int64_t i = 0; i < n; ++i)
      out[i] = static_cast<T>(static_cast<int32_t>(static_cast<uint32_t>(a[i]) << shift) >> shift);
  } else {
    const uint32_t mask = 0xffffffffu >> shift;
    KRAFLA_VECTOR_LOOP
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(static_cast<uint32_t>(a[i]) & mask);
  }
}
template <int kBits, bool kSigned>
void WrapTo(const BlockArgs& args) {
  WrapLoop<uint32_t>(args, kBits, kSigned);
}
BlockFn FindWrap(ElementType storage) {
  if (storage == ElementType::kS1) return &WrapTo<1, true>;
  if (storage == ElementType::kS2) return &WrapTo<2, true>;
  if (storage == ElementType::kS4) return &WrapTo<4, true>;
  if (storage == ElementType::kS8) return &WrapTo<8, true>;
  if (storage == ElementType::kS16) return &WrapTo<16, true>;
  if (storage == ElementType::kU1) return &WrapTo<1, false>;
  if (storage == ElementType::kU2) return &WrapTo<2, false>;
  if (storage == ElementType::kU4) return &WrapTo<4, false>;
  if (storage == ElementType::kU8) return &WrapTo<8, false>;
  if (storage == ElementType::kU16) return &WrapTo<16, false>;
  return nullptr;
}

template <class T>
void ReducePrecisionLoop(const BlockArgs& args) {
  const T* a = static_cast<const T*>(args.in[0]);
  T* out = static_cast<T*>(args.out);
  const int64_t n = args.n;
  const int exponent_bits = static_cast<int>(args.bits >> 32);
  const int mantissa_bits = static_cast<int>(args.bits & 0xffffffffu);
  KRAFLA_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) out[i] = krafla::ReducePrecision(a[i], exponent_bits, mantissa_bits);
}

BlockFn FindConvertOp(const BlockKey& key) {
  using plan::NodeOp;
  if (key.uniform != 0) return nullptr;
  if (key.op == NodeOp::kConvert) {
    if (key.operand == ElementType::kF32 && key.type == ElementType::kS32) return &ConvertF32S32;
    if (key.operand == ElementType::kPred) return FindConvertFrom<bool>(key.type);
    if (key.operand == ElementType::kS8) return FindConvertFrom<int8_t>(key.type);
    if (key.operand == ElementType::kU8) return FindConvertFrom<uint8_t>(key.type);
    if (key.operand == ElementType::kS16) return FindConvertFrom<int16_t>(key.type);
    if (key.operand == ElementType::kU16) return FindConvertFrom<uint16_t>(key.type);
    if (key.operand == ElementType::kS32) return FindConvertFrom<int32_t>(key.type);
    if (key.operand == ElementType::kU32) return FindConvertFrom<uint32_t>(key.type);
    if (key.operand == ElementType::kS64) return FindConvertFrom<int64_t>(key.type);
    if (key.operand == ElementType::kU64) return FindConvertFrom<uint64_t>(key.type);
    if (key.operand == ElementType::kF32) return FindConvertFrom<float>(key.type);
    if (key.operand == ElementType::kF64) return FindConvertFrom<double>(key.type);
    return nullptr;
  }
  if (key.op == NodeOp::kWrap) return FindWrap(key.storage);
  if (key.op == NodeOp::kReducePrecision)
    return key.type == ElementType::kF64 ? &ReducePrecisionLoop<double> : &ReducePrecisionLoop<float>;
  if (key.op == NodeOp::kRound && key.operand == ElementType::kF32) {
    if (key.storage == ElementType::kF16) return &UnaryLoop<float, RoundF16>;
    if (key.storage == ElementType::kBF16) return &UnaryLoop<float, RoundBF16>;
  }
  if (key.op == NodeOp::kRound && key.operand == ElementType::kF64) {
    if (key.storage == ElementType::kF16) return &RoundF64<RoundF16>;
    if (key.storage == ElementType::kBF16) return &RoundF64<RoundBF16>;
  }
  return FindFormatBlock(key);
}

// Storage to compute type.
template <class From, class To>
void PlainConvert(const void* in, void* out, int64_t n) {
  const From* a = static_cast<const From*>(in);
  To* to = static_cast<To*>(out);
  KRAFLA_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<To>(a[i]);
}
void WidenF16(const void* in, void* out, int64_t count) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> dh;
  const std::size_t lanes = hn::Lanes(d), n = static_cast<std::size_t>(count);
  const hwy::float16_t* a = static_cast<const hwy::float16_t*>(in);
  float* to = static_cast<float*>(out);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto x = WidenFloats(d, hn::LoadU(dh, a + i));
    hn::StoreU(QuietNan(d, x, x), d, to + i);
  }
  if (i < n) {
    const auto x = WidenFloats(d, hn::LoadN(dh, a + i, n - i));
    hn::StoreN(QuietNan(d, x, x), d, to + i, n - i);
  }
}
void NarrowF16(const void* in, void* out, int64_t count) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> dh;
  const std::size_t lanes = hn::Lanes(d), n = static_cast<std::size_t>(count);
  const float* a = static_cast<const float*>(in);
  hwy::float16_t* to = static_cast<hwy::float16_t*>(out);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(NarrowToF16(dh, hn::LoadU(d, a + i)), dh, to + i);
  if (i < n) hn::StoreN(NarrowToF16(dh, hn::LoadN(d, a + i, n - i)), dh, to + i, n - i);
}
void WidenBF16(const void* in, void* out, int64_t n) {
  const uint16_t* a = static_cast<const uint16_t*>(in);
  uint32_t* to = static_cast<uint32_t*>(out);
  KRAFLA_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<uint32_t>(a[i]) << 16;
}
void NarrowBF16(const void* in, void* out, int64_t n) {
  const uint32_t* a = static_cast<const uint32_t*>(in);
  uint16_t* to = static_cast<uint16_t*>(out);
  KRAFLA_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<uint16_t>(a[i] >> 16);
}

// Rounded as well: what kRound and a narrow store do one after the other.
void RoundNarrowF16(const void* in, void* out, int64_t count) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> dh;
  const std::size_t lanes = hn::Lanes(d), n = static_cast<std::size_t>(count);
  const float* a = static_cast<const float*>(in);
  hwy::float16_t* to = static_cast<hwy::float16_t*>(out);
  const auto narrow = [&](auto x) HWY_ATTR { return NarrowToF16(dh, QuietNan(d, x, x)); };
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(narrow(hn::LoadU(d, a + i)), dh, to + i);
  if (i < n) hn::StoreN(narrow(hn::LoadN(d, a + i, n - i)), dh, to + i, n - i);
}
void RoundNarrowBF16(const void* in, void* out, int64_t count) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<uint16_t, decltype(d)> dh;
  const hn::RebindToUnsigned<decltype(d)> du;
  const std::size_t lanes = hn::Lanes(d), n = static_cast<std::size_t>(count);
  const float* a = static_cast<const float*>(in);
  uint16_t* to = static_cast<uint16_t*>(out);
  const auto narrow = [&](auto x) HWY_ATTR {
    return hn::TruncateTo(dh, hn::ShiftRight<16>(hn::BitCast(du, RoundBF16::Do(d, x))));
  };
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(narrow(hn::LoadU(d, a + i)), dh, to + i);
  if (i < n) hn::StoreN(narrow(hn::LoadN(d, a + i, n - i)), dh, to + i, n - i);
}
ConvertFn FindRoundNarrowOf(ElementType storage) {
  if (storage == ElementType::kF16) return &RoundNarrowF16;
  if (storage == ElementType::kBF16) return &RoundNarrowBF16;
  return FindFormatNarrow(storage);  // it rounds
}

ConvertFn FindWidenOf(ElementType storage) {
  if (storage == ElementType::kF16) return &WidenF16;
  if (storage == ElementType::kBF16) return &WidenBF16;
  if (storage == ElementType::kS16) return &PlainConvert<int16_t, int32_t>;
  if (storage == ElementType::kU16) return &PlainConvert<uint16_t, uint32_t>;
  if (IsSigned(storage) && StorageBytes(storage) == 1) return &PlainConvert<int8_t, int32_t>;
  if (IsUnsigned(storage) && StorageBytes(storage) == 1) return &PlainConvert<uint8_t, uint32_t>;
  return FindFormatWiden(storage);
}
ConvertFn FindNarrowOf(ElementType storage) {
  if (storage == ElementType::kF16) return &NarrowF16;
  if (storage == ElementType::kBF16) return &NarrowBF16;
  if (storage == ElementType::kS16 || storage == ElementType::kU16) return &PlainConvert<uint32_t, uint16_t>;
  if (IsIntegral(storage) && StorageBytes(storage) == 1) return &PlainConvert<uint32_t, uint8_t>;
  return FindFormatNarrow(storage);
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(FindConvertOp);
HWY_EXPORT(FindWidenOf);
HWY_EXPORT(FindNarrowOf);
HWY_EXPORT(FindRoundNarrowOf);
BlockFn FindConvertBlock(const BlockKey& key) { return HWY_DYNAMIC_DISPATCH(FindConvertOp)(key); }
ConvertFn FindWiden(ElementType storage) { return HWY_DYNAMIC_DISPATCH(FindWidenOf)(storage); }
ConvertFn FindNarrow(ElementType storage) { return HWY_DYNAMIC_DISPATCH(FindNarrowOf)(storage); }
ConvertFn FindRoundNarrow(ElementType storage) { return HWY_DYNAMIC_DISPATCH(FindRoundNarrowOf)(storage); }
}  // namespace krafla::cpu
#endif
