// SPDX-License-Identifier: Apache-2.0
#include "evaluator/block_op.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/interruption.h"
#include "evaluator/strided.h"
#include "ir/mini_float.h"
#include "numerics/formats.h"
#include "numerics/nan.h"

namespace krafla::evaluator {

namespace {

constexpr int64_t kChunk = 512;

template <class T>
void SelectBlock(const void* const* in, void* out, int64_t n, const BlockParams&) {
  const uint8_t* p = static_cast<const uint8_t*>(in[0]);
  const T* a = static_cast<const T*>(in[1]);
  const T* b = static_cast<const T*>(in[2]);
  T* y = static_cast<T*>(out);
  for (int64_t i = 0; i < n; ++i) y[i] = p[i] != 0 ? a[i] : b[i];
}
BlockFn FindSelect(int bytes) {
  switch (bytes) {
    case 1: return &SelectBlock<uint8_t>;
    case 2: return &SelectBlock<uint16_t>;
    case 4: return &SelectBlock<uint32_t>;
    case 8: return &SelectBlock<uint64_t>;
    default: return &SelectBlock<Bits128>;
  }
}

template <class U, class Key>
void BlockByKeys(const void* const* in, void* out, int64_t n, const BlockParams& params, Key&& key) {
  using S = decltype(key(U{}));
  const U* a = static_cast<const U*>(in[0]);
  const U* b = static_cast<const U*>(in[1]);
  uint8_t* y = static_cast<uint8_t*>(out);
  for (int64_t at = 0; at < n; at += kChunk) {
    const int64_t count = std::min(kChunk, n - at);
    S ka[kChunk], kb[kChunk];
    for (int64_t i = 0; i < count; ++i) {
      ka[i] = key(a[at + i]);
      kb[i] = key(b[at + i]);
    }
    const void* keys[] = {ka, kb};
    CompareBlock<S>(keys, y + at, count, params);
  }
}

// -NaN < -inf < ... < -0 < +0 < ... < +inf < +NaN: sign-magnitude patterns as integers.
template <class U>
void TotalOrderBlock(const void* const* in, void* out, int64_t n, const BlockParams& params) {
  using S = std::make_signed_t<U>;
  BlockByKeys<U>(in, out, n, params, [](U bits) -> S {
    constexpr int kTop = static_cast<int>(sizeof(U)) * 8 - 1;
    S s = static_cast<S>(bits);
    return static_cast<S>(s ^ static_cast<S>(static_cast<U>(s >> kTop) >> 1));
  });
}

// Of floats of a byte and less, some of which have no sign. Where the sign alone is NaN, it comes before all numbers,
// as XLA:CPU has it.
void NarrowTotalOrderBlock(const void* const* in, void* out, int64_t n, const BlockParams& params) {
  const MiniFloat& format = *FindMiniFloat(params.from);
  BlockByKeys<uint8_t>(in, out, n, params, [&](uint8_t bits) -> int16_t {
    const auto magnitude = static_cast<int>(bits & format.magnitude_mask());
    if ((bits & format.sign_mask()) == 0) return static_cast<int16_t>(magnitude);
    if (magnitude == 0 && format.specials == FloatSpecials::kNegZeroNan) return std::numeric_limits<int16_t>::min();
    return static_cast<int16_t>(-1 - magnitude);
  });
}

template <class T>
void ReducePrecisionBlock(const void* const* in, void* out, int64_t n, const BlockParams& params) {
  const T* x = static_cast<const T*>(in[0]);
  T* y = static_cast<T*>(out);
  for (int64_t i = 0; i < n; ++i) y[i] = ReducePrecision(x[i], params.exponent_bits, params.mantissa_bits);
}
template <int kExponent, int kMantissa>
void ReducePrecision16(const void* const* in, void* out, int64_t n, const BlockParams& params) {
  const uint16_t* x = static_cast<const uint16_t*>(in[0]);
  uint16_t* y = static_cast<uint16_t*>(out);
  for (int64_t i = 0; i < n; ++i)
    y[i] = ReducePrecisionBits<uint16_t>(x[i], kExponent, kMantissa, params.exponent_bits, params.mantissa_bits);
}
// Of what is narrower than halves, which XLA makes halves first.
void ReducePrecisionAsHalf(const void* const* in, void* out, int64_t n, const BlockParams& params) {
  const float* x = static_cast<const float*>(in[0]);
  float* y = static_cast<float*>(out);
  for (int64_t i = 0; i < n; ++i)
    y[i] =
        F16ToFloat(ReducePrecisionBits<uint16_t>(FloatToF16(x[i]), 5, 10, params.exponent_bits, params.mantissa_bits));
}

}  // namespace

// Operations that touch the sign of what they move at most: on bit patterns, where NaNs keep their bits.
BlockFn FindMove(Opcode opcode, ElementType type) {
  using B8 = uint8_t;
  using B16 = uint16_t;
  if (opcode == Opcode::kReal && StorageBytes(type) == 1)
    return &UnaryBlock<decltype([](B8 a) -> B8 { return a; }), B8, B8>;
  if (opcode == Opcode::kReal && StorageBytes(type) == 2)
    return &UnaryBlock<decltype([](B16 a) -> B16 { return a; }), B16, B16>;
  if (type != ElementType::kBF16) return nullptr;
  if (opcode == Opcode::kAbs) return &UnaryBlock<decltype([](B16 a) -> B16 { return a & 0x7fff; }), B16, B16>;
  if (opcode == Opcode::kNegate) return &UnaryBlock<decltype([](B16 a) -> B16 { return a ^ 0x8000; }), B16, B16>;
  return nullptr;
}

BlockFn FindTotalOrderKernel(ElementType type) {
  switch (StorageBytes(type)) {
    case 1: return &NarrowTotalOrderBlock;
    case 2: return &TotalOrderBlock<uint16_t>;
    case 4: return &TotalOrderBlock<uint32_t>;
    case 8: return &TotalOrderBlock<uint64_t>;
    default: return nullptr;
  }
}

void SettleNans(ElementType type, void* values, int64_t n) {
  const auto settle = [&](auto* x, int64_t count) {
    for (int64_t i = 0; i < count; ++i) x[i] = Settled(x[i]);
  };
  if (type == ElementType::kF32) settle(static_cast<float*>(values), n);
  if (type == ElementType::kF64) settle(static_cast<double*>(values), n);
  if (type == ElementType::kC64) settle(static_cast<float*>(values), 2 * n);
  if (type == ElementType::kC128) settle(static_cast<double*>(values), 2 * n);
}

void BlockOp::Run(const void* const* in, void* out, int64_t n) const {
  bool direct = narrow == nullptr;
  for (int o = 0; o < arity; ++o) direct = direct && widen[o] == nullptr;
  InterruptionPoll poll;
  if (direct) {
    const void* piece[kMaxArity] = {};
    for (int64_t at = 0; at < n; at += InterruptionPoll::kPiece) {
      const int64_t count = std::min(InterruptionPoll::kPiece, n - at);
      if (poll.Ends(count)) return;
      for (int o = 0; o < arity; ++o) piece[o] = static_cast<const std::byte*>(in[o]) + at * in_bytes[o];
      run(piece, static_cast<std::byte*>(out) + at * out_bytes, count, params);
    }
    return;
  }
  float scratch[kMaxArity][kChunk], result[kChunk];
  for (int64_t at = 0; at < n; at += kChunk) {
    const int64_t count = std::min(kChunk, n - at);
    if (poll.Ends(count)) return;
    const void* chunk[kMaxArity];
    for (int o = 0; o < arity; ++o) {
      const std::byte* from = static_cast<const std::byte*>(in[o]) + at * in_bytes[o];
      chunk[o] = from;
      if (widen[o] == nullptr) continue;
      widen[o](from, scratch[o], count);
      chunk[o] = scratch[o];
    }
    std::byte* to = static_cast<std::byte*>(out) + at * out_bytes;
    if (narrow == nullptr) {
      run(chunk, to, count, params);
    } else {
      run(chunk, result, count, params);
      narrow(result, to, count);
    }
  }
}

Result<BlockOp> MakeBlockOp(Opcode opcode, ElementType type, ElementType result) {
  BlockOp out;
  int arity = GetOpInfo(opcode).arity;
  out.arity = arity;
  for (int o = 0; o < std::min(arity, BlockOp::kMaxArity); ++o) out.in_bytes[o] = StorageBytes(type);
  out.out_bytes = StorageBytes(result);
  if (IsNarrowFloat(type)) out.run = FindMove(opcode, type);
  if (out.run != nullptr) return out;
  if (IsNarrowFloat(type)) {
    out.run = FindFloatKernel(opcode);
    for (int o = 0; o < arity && o < BlockOp::kMaxArity; ++o) out.widen[o] = FindWiden(type);
    out.narrow = FindNarrow(result);
  } else if (type == ElementType::kF32) {
    out.run = FindFloatKernel(opcode);
  } else if (type == ElementType::kF64) {
    out.run = FindDoubleKernel(opcode);
  } else if (IsComplex(type)) {
    out.run = FindComplexKernel(opcode, type);
  } else if (type == ElementType::kPred) {
    out.run = FindPredKernel(opcode);
  } else {
    out.run = FindIntKernel(opcode, type);
  }
  if (out.run == nullptr || arity < 1 || arity > BlockOp::kMaxArity)
    return Unimplemented("{} does not take {}.", OpcodeName(opcode), ElementTypeName(type));
  return out;
}

Result<BlockOp> MakeBlockOp(const Instruction& i) {
  const Opcode opcode = i.opcode();
  const ElementType type = i.operand(0)->shape().element_type();
  const ElementType result = i.shape().element_type();
  if (opcode == Opcode::kConvert) return MakeConvert(type, result);
  if (opcode == Opcode::kSelect) {
    BlockOp out;
    out.run = FindSelect(StorageBytes(result));
    out.arity = 3;
    out.in_bytes[0] = 1;
    out.in_bytes[1] = out.in_bytes[2] = out.out_bytes = StorageBytes(result);
    return out;
  }
  if (opcode == Opcode::kStochasticConvert) {
    if (!IsFloat(type) || !IsSigned(result))
      return Unimplemented("stochastic-convert converts a float to a signed integer, not {} to {}.",
                           ElementTypeName(type), ElementTypeName(result));
    BlockOp out;
    out.run = FindStochasticConvert();
    out.arity = 2;
    out.in_bytes[0] = out.in_bytes[1] = StorageBytes(type);
    out.out_bytes = StorageBytes(result);
    out.params.from = type;
    out.params.to = result;
    return out;
  }
  if (opcode == Opcode::kReducePrecision) {
    const auto& a = i.attr<ReducePrecisionAttributes>();
    BlockOp out;
    out.arity = 1;
    out.in_bytes[0] = out.out_bytes = StorageBytes(type);
    out.params.exponent_bits = static_cast<int>(a.exponent_bits);
    out.params.mantissa_bits = static_cast<int>(a.mantissa_bits);
    if (type == ElementType::kF64) {
      out.run = &ReducePrecisionBlock<double>;
    } else if (type == ElementType::kF16) {
      out.run = &ReducePrecision16<5, 10>;
    } else if (type == ElementType::kBF16) {
      out.run = &ReducePrecision16<8, 7>;
    } else if (IsFloat(type)) {
      out.run = type == ElementType::kF32 || type == ElementType::kF8E8M0FNU ? &ReducePrecisionBlock<float>
                                                                             : &ReducePrecisionAsHalf;
      out.widen[0] = FindWiden(type);
      out.narrow = FindNarrow(type);
    } else {
      return Unimplemented("reduce-precision does not take {}.", ElementTypeName(type));
    }
    return out;
  }
  if (opcode == Opcode::kCompare) {
    const auto& a = i.attr<CompareAttributes>();
    if (a.type == ComparisonType::kTotalOrder && IsFloat(type)) {
      BlockOp out;
      out.run = FindTotalOrderKernel(type);
      out.arity = 2;
      out.in_bytes[0] = out.in_bytes[1] = StorageBytes(type);
      out.out_bytes = 1;
      out.params.direction = a.direction;
      out.params.from = type;
      return out;
    }
    KRAFLA_ASSIGN(BlockOp out, MakeBlockOp(opcode, type, result));
    out.params.direction = a.direction;
    return out;
  }
  return MakeBlockOp(opcode, type, result);
}

}  // namespace krafla::evaluator
