// SPDX-License-Identifier: Apache-2.0
// Conversions between all element types, in two steps through one of s64, u64, f32, f64: integers wrap, floats
// saturate (NaN gives 0), complex numbers give their real part, and every rounding happens once.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/interruption.h"
#include "evaluator/block_op.h"
#include "numerics/formats.h"
#include "numerics/nan.h"

namespace krafla::evaluator {

namespace {

template <auto kDecode, class Code>
void Widen16(const void* in, float* out, int64_t n) {
  const Code* x = static_cast<const Code*>(in);
  for (int64_t i = 0; i < n; ++i) out[i] = kDecode(x[i]);
}
template <auto kDecode>
void Widen8(const void* in, float* out, int64_t n) {
  static constexpr auto kTable = [] {
    std::array<float, 256> t{};
    for (unsigned c = 0; c < 256; ++c) t[c] = kDecode(static_cast<uint8_t>(c));
    return t;
  }();
  const uint8_t* x = static_cast<const uint8_t*>(in);
  for (int64_t i = 0; i < n; ++i) out[i] = kTable[x[i]];
}
template <auto kEncode, class Code>
void Narrow(const float* in, void* out, int64_t n) {
  Code* y = static_cast<Code*>(out);
  for (int64_t i = 0; i < n; ++i) y[i] = kEncode(in[i]);
}
template <auto kEncode, class Code>
void NarrowDouble(const double* in, void* out, int64_t n) {
  Code* y = static_cast<Code*>(out);
  for (int64_t i = 0; i < n; ++i) y[i] = kEncode(in[i]);
}
using NarrowDoubleFn = void (*)(const double* in, void* out, int64_t n);

struct NarrowFormat {
  ElementType type;
  WidenFn widen;
  NarrowFn narrow;
  NarrowDoubleFn narrow_double;
};
#define KRAFLA_F8(Enum, Name) \
  {ElementType::Enum, &Widen8<Name##ToFloat>, &Narrow<FloatTo##Name, uint8_t>, &NarrowDouble<DoubleTo##Name, uint8_t>}
constexpr NarrowFormat kNarrow[] = {
    {ElementType::kF16, &Widen16<F16ToFloat, uint16_t>, &Narrow<FloatToF16, uint16_t>,
     &NarrowDouble<DoubleToF16, uint16_t>},
    {ElementType::kBF16, &Widen16<BF16ToFloat, uint16_t>, &Narrow<FloatToBF16, uint16_t>,
     &NarrowDouble<DoubleToBF16, uint16_t>},
    KRAFLA_F8(kF8E5M2, F8E5M2),
    KRAFLA_F8(kF8E4M3FN, F8E4M3FN),
    KRAFLA_F8(kF8E4M3, F8E4M3),
    KRAFLA_F8(kF8E3M4, F8E3M4),
    KRAFLA_F8(kF8E4M3B11FNUZ, F8E4M3B11FNUZ),
    KRAFLA_F8(kF8E5M2FNUZ, F8E5M2FNUZ),
    KRAFLA_F8(kF8E4M3FNUZ, F8E4M3FNUZ),
    KRAFLA_F8(kF4E2M1FN, F4E2M1FN),
    KRAFLA_F8(kF8E8M0FNU, F8E8M0FNU),
};
#undef KRAFLA_F8

const NarrowFormat* FindNarrowFormat(ElementType type) {
  for (const NarrowFormat& f : kNarrow)
    if (f.type == type) return &f;
  return nullptr;
}

template <class In, class Out>
void Cast(const void* in, void* out, int64_t n) {
  const In* x = static_cast<const In*>(in);
  Out* y = static_cast<Out*>(out);
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<Out>(x[i]);
}

// Truncates towards zero into [-2**(bits-1), 2**(bits-1)) or [0, 2**bits).
template <class F>
int64_t SaturateSigned(F x, int bits) {
  if (x != x) return 0;
  const F limit = std::ldexp(F(1), bits - 1);
  if (x >= limit) return static_cast<int64_t>((uint64_t{1} << (bits - 1)) - 1);
  if (x < -limit) return -static_cast<int64_t>((uint64_t{1} << (bits - 1)) - 1) - 1;
  return static_cast<int64_t>(x);
}
template <class F>
uint64_t SaturateUnsigned(F x, int bits) {
  if (!(x > 0)) return 0;
  if (x >= std::ldexp(F(1), bits)) return bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  return static_cast<uint64_t>(x);
}

// Stores the low bits of 64-bit integers as `type`.
void StoreInts(const uint64_t* in, void* out, ElementType type, int64_t n) {
  const int bits = BitWidth(type);
  switch (StorageBytes(type)) {
    case 1: {
      uint8_t* y = static_cast<uint8_t*>(out);
      if (IsSigned(type)) {
        const int up = 8 - bits;
        for (int64_t i = 0; i < n; ++i)
          y[i] = static_cast<uint8_t>(static_cast<int8_t>(static_cast<uint8_t>(in[i] << up)) >> up);
      } else {
        const uint64_t mask = (uint64_t{1} << bits) - 1;
        for (int64_t i = 0; i < n; ++i) y[i] = static_cast<uint8_t>(in[i] & mask);
      }
      return;
    }
    case 2: return Cast<uint64_t, uint16_t>(in, out, n);
    case 4: return Cast<uint64_t, uint32_t>(in, out, n);
    default: return Cast<uint64_t, uint64_t>(in, out, n);
  }
}

constexpr int64_t kConverted = 256;

// The value of a chunk in the type that holds all of the source type.
enum class Via { kSigned, kUnsigned, kFloat, kDouble };
struct Wide {
  Via via;
  union {
    int64_t s[kConverted];
    uint64_t u[kConverted];
    float f[kConverted];
    double d[kConverted];
  };
};

void LoadWide(const void* in, ElementType from, int64_t n, Wide& w) {
  if (const NarrowFormat* f = FindNarrowFormat(from)) {
    w.via = Via::kFloat;
    return f->widen(in, w.f, n);
  }
  if (from == ElementType::kF32) {
    w.via = Via::kFloat;
    std::memcpy(w.f, in, static_cast<std::size_t>(n) * sizeof(float));
  } else if (from == ElementType::kF64) {
    w.via = Via::kDouble;
    std::memcpy(w.d, in, static_cast<std::size_t>(n) * sizeof(double));
  } else if (from == ElementType::kC64) {
    w.via = Via::kFloat;
    for (int64_t i = 0; i < n; ++i) w.f[i] = static_cast<const float*>(in)[2 * i];
  } else if (from == ElementType::kC128) {
    w.via = Via::kDouble;
    for (int64_t i = 0; i < n; ++i) w.d[i] = static_cast<const double*>(in)[2 * i];
  } else if (IsSigned(from)) {
    w.via = Via::kSigned;
    switch (StorageBytes(from)) {
      case 1: return Cast<int8_t, int64_t>(in, w.s, n);
      case 2: return Cast<int16_t, int64_t>(in, w.s, n);
      case 4: return Cast<int32_t, int64_t>(in, w.s, n);
      default: return Cast<int64_t, int64_t>(in, w.s, n);
    }
  } else {
    w.via = Via::kUnsigned;
    switch (StorageBytes(from)) {
      case 1: return Cast<uint8_t, uint64_t>(in, w.u, n);
      case 2: return Cast<uint16_t, uint64_t>(in, w.u, n);
      case 4: return Cast<uint32_t, uint64_t>(in, w.u, n);
      default: return Cast<uint64_t, uint64_t>(in, w.u, n);
    }
  }
}

// Calls f with the array that is in use.
template <class F>
void Visit(const Wide& w, F f) {
  switch (w.via) {
    case Via::kSigned: return f(w.s);
    case Via::kUnsigned: return f(w.u);
    case Via::kFloat: return f(w.f);
    case Via::kDouble: return f(w.d);
  }
}

template <class T, class To>
void StoreFloats(const Wide& w, void* out, int64_t n) {
  To* y = static_cast<To*>(out);
  Visit(w, [&](const auto* x) {
    using From = std::remove_cvref_t<decltype(*x)>;
    for (int64_t i = 0; i < n; ++i) {
      if constexpr (std::is_floating_point_v<From> && !std::is_same_v<From, T>)
        y[i] = SettledConversion(static_cast<T>(x[i]), x[i]);
      else y[i] = static_cast<T>(x[i]);
    }
  });
}

void StoreWide(const Wide& w, void* out, ElementType to, int64_t n) {
  if (to == ElementType::kPred) {
    uint8_t* y = static_cast<uint8_t*>(out);
    Visit(w, [&](const auto* x) {
      for (int64_t i = 0; i < n; ++i) y[i] = x[i] != 0;  // NaN is true
    });
  } else if (IsIntegral(to)) {
    uint64_t bits[kConverted];
    const int width = BitWidth(to);
    Visit(w, [&](const auto* x) {
      using T = std::remove_cvref_t<decltype(*x)>;
      if constexpr (std::is_integral_v<T>) {
        for (int64_t i = 0; i < n; ++i) bits[i] = static_cast<uint64_t>(x[i]);
      } else if (IsSigned(to)) {
        for (int64_t i = 0; i < n; ++i) bits[i] = static_cast<uint64_t>(SaturateSigned(x[i], width));
      } else {
        for (int64_t i = 0; i < n; ++i) bits[i] = SaturateUnsigned(x[i], width);
      }
    });
    StoreInts(bits, out, to, n);
  } else if (const NarrowFormat* f = FindNarrowFormat(to)) {
    if (w.via == Via::kFloat) return f->narrow(w.f, out, n);
    if (w.via == Via::kDouble) return f->narrow_double(w.d, out, n);
    // Integers go through f32, as XLA's do, and may be rounded twice.
    float single[kConverted];
    Visit(w, [&](const auto* x) {
      for (int64_t i = 0; i < n; ++i) single[i] = static_cast<float>(x[i]);
    });
    f->narrow(single, out, n);
  } else if (to == ElementType::kF32) {
    StoreFloats<float, float>(w, out, n);
  } else if (to == ElementType::kF64) {
    StoreFloats<double, double>(w, out, n);
  } else if (to == ElementType::kC64) {
    StoreFloats<float, std::complex<float>>(w, out, n);
  } else if (to == ElementType::kC128) {
    StoreFloats<double, std::complex<double>>(w, out, n);
  }
}

}  // namespace

WidenFn FindWiden(ElementType type) {
  const NarrowFormat* f = FindNarrowFormat(type);
  return f != nullptr ? f->widen : nullptr;
}
NarrowFn FindNarrow(ElementType type) {
  const NarrowFormat* f = FindNarrowFormat(type);
  return f != nullptr ? f->narrow : nullptr;
}

void ConvertBlock(const void* const* in, void* out, int64_t n, const BlockParams& params) {
  const std::byte* x = static_cast<const std::byte*>(in[0]);
  std::byte* y = static_cast<std::byte*>(out);
  if (IsComplex(params.from) && IsComplex(params.to)) {
    if (params.from == params.to) {
      if (n > 0) std::memcpy(y, x, static_cast<std::size_t>(n * StorageBytes(params.from)));
    } else if (params.to == ElementType::kC128) {
      Cast<float, double>(x, y, 2 * n);
    } else {
      Cast<double, float>(x, y, 2 * n);
    }
    return;
  }
  if (params.from == params.to) {
    if (n > 0) std::memcpy(y, x, static_cast<std::size_t>(n * StorageBytes(params.from)));
    return;
  }
  const int64_t in_bytes = StorageBytes(params.from), out_bytes = StorageBytes(params.to);
  InterruptionPoll poll;
  Wide wide;
  for (int64_t at = 0; at < n; at += kConverted) {
    const int64_t count = std::min(kConverted, n - at);
    if (poll.Ends(count)) return;
    LoadWide(x + at * in_bytes, params.from, count, wide);
    StoreWide(wide, y + at * out_bytes, params.to, count);
  }
}

BlockOp MakeConvert(ElementType from, ElementType to) {
  BlockOp out;
  out.run = &ConvertBlock;
  out.arity = 1;
  out.in_bytes[0] = StorageBytes(from);
  out.out_bytes = StorageBytes(to);
  out.params.from = from;
  out.params.to = to;
  return out;
}

namespace {

// n = trunc(|x|), one more where the random integer is below the fraction scaled to its width; then the sign, then
// saturation. XLA: hlo_evaluator_typed_visitor.h HandleStochasticConvert.
void StochasticConvertBlock(const void* const* in, void* out, int64_t n, const BlockParams& params) {
  const std::byte* x = static_cast<const std::byte*>(in[0]);
  const std::byte* q = static_cast<const std::byte*>(in[1]);
  std::byte* y = static_cast<std::byte*>(out);
  const int random_bits = 8 * StorageBytes(params.from);
  const ElementType random_type = random_bits == 8    ? ElementType::kU8
                                  : random_bits == 16 ? ElementType::kU16
                                  : random_bits == 32 ? ElementType::kU32
                                                      : ElementType::kU64;
  const int width = BitWidth(params.to);
  const uint64_t top = (uint64_t{1} << (width - 1)) - 1;
  const double scale = std::ldexp(1.0, random_bits);
  for (int64_t at = 0; at < n; at += kConverted) {
    const int64_t count = std::min(kConverted, n - at);
    Wide value, random;
    LoadWide(x + at * StorageBytes(params.from), params.from, count, value);
    LoadWide(q + at * StorageBytes(params.from), random_type, count, random);
    uint64_t bits[kConverted];
    for (int64_t i = 0; i < count; ++i) {
      double v = value.via == Via::kFloat ? static_cast<double>(value.f[i]) : value.d[i];
      double magnitude = std::abs(v);
      if (v != v) {
        bits[i] = 0;
      } else if (magnitude >= 9223372036854775808.0) {
        bits[i] = v > 0 ? top : ~top;
      } else {
        uint64_t whole = static_cast<uint64_t>(magnitude);
        double fraction = (magnitude - static_cast<double>(whole)) * scale;
        if (random.u[i] < static_cast<uint64_t>(fraction)) ++whole;
        bits[i] = v > 0 ? std::min(whole, top) : ~std::min(whole, top + 1) + 1;
      }
    }
    StoreInts(bits, y + at * StorageBytes(params.to), params.to, count);
  }
}

}  // namespace

BlockFn FindStochasticConvert() { return &StochasticConvertBlock; }

}  // namespace krafla::evaluator
