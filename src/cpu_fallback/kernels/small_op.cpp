// SPDX-License-Identifier: Apache-2.0
// Plain ops on a few elements, for tapes, in vectors of 16 bytes and single elements: what the next instruction loads
// was stored in the same pieces, which masked stores of wide vectors would make it wait for.
#include <cstring>
#include <type_traits>

#include "cpu_fallback/kernels/tape_op.h"
#include "numerics/nan.h"

namespace krafla::cpu {

namespace {

template <class T>
using ShortVector [[gnu::vector_size(16)]] = T;

template <class T, bool kA, bool kB, auto kFunction>
const TapeOp* SmallBinary(const TapeOp* op, TapeRun& run) {
  using V = ShortVector<T>;
  constexpr int64_t kLanes = 16 / sizeof(T);
  const std::byte *a = op->in[0], *b = op->in[1];
  T a0{}, b0{};
  V as{}, bs{};
  if constexpr (kA) std::memcpy(&a0, a, sizeof(T));
  if constexpr (kB) std::memcpy(&b0, b, sizeof(T));
  for (int64_t k = 0; k < kLanes; ++k) {
    if constexpr (kA) as[k] = a0;
    if constexpr (kB) bs[k] = b0;
  }
  int64_t i = 0;
  for (; i + kLanes <= op->n; i += kLanes) {
    if constexpr (!kA) std::memcpy(&as, a + i * static_cast<int64_t>(sizeof(T)), 16);
    if constexpr (!kB) std::memcpy(&bs, b + i * static_cast<int64_t>(sizeof(T)), 16);
    const V out = kFunction(as, bs);
    std::memcpy(op->out + i * static_cast<int64_t>(sizeof(T)), &out, 16);
  }
  for (; i < op->n; ++i) {
    if constexpr (!kA) std::memcpy(&a0, a + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
    if constexpr (!kB) std::memcpy(&b0, b + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
    const T out = kFunction(a0, b0);
    std::memcpy(op->out + i * static_cast<int64_t>(sizeof(T)), &out, sizeof(T));
  }
  return GoTo(op + 1, run);
}

template <class T, auto kFunction>
TapeOp::Fn PickSmall(unsigned uniform) {
  switch (uniform & 3u) {
    case 0: return &SmallBinary<T, false, false, kFunction>;
    case 1: return &SmallBinary<T, true, false, kFunction>;
    case 2: return &SmallBinary<T, false, true, kFunction>;
    default: return nullptr;
  }
}

// A result of arithmetic on elements of T, alone or in a vector: a NaN is the NaN.
template <class T, class V>
V SettledSmall(V x) {
  if constexpr (!std::is_floating_point_v<T>) return x;
  else if constexpr (std::is_same_v<T, V>) return Settled(x);
  else return x == x ? x : V{} + NanOf<T>();
}

template <class T>
TapeOp::Fn SmallOfType(const BlockKey& key) {
  if (key.opcode == Opcode::kAdd)
    return PickSmall<T, [](auto x, auto y) { return SettledSmall<T>(x + y); }>(key.uniform);
  if (key.opcode == Opcode::kSubtract)
    return PickSmall<T, [](auto x, auto y) { return SettledSmall<T>(x - y); }>(key.uniform);
  if (key.opcode == Opcode::kMultiply)
    return PickSmall<T, [](auto x, auto y) { return SettledSmall<T>(x * y); }>(key.uniform);
  if constexpr (std::is_floating_point_v<T>) {
    if (key.opcode == Opcode::kDivide)
      return PickSmall<T, [](auto x, auto y) { return SettledSmall<T>(x / y); }>(key.uniform);
  } else {
    if (key.opcode == Opcode::kAnd) return PickSmall<T, [](auto x, auto y) { return x & y; }>(key.uniform);
    if (key.opcode == Opcode::kOr) return PickSmall<T, [](auto x, auto y) { return x | y; }>(key.uniform);
    if (key.opcode == Opcode::kXor) return PickSmall<T, [](auto x, auto y) { return x ^ y; }>(key.uniform);
  }
  return nullptr;
}

}  // namespace

TapeOp::Fn FindSmallOp(const BlockKey& key) {
  if (key.op != plan::NodeOp::kHlo) return nullptr;
  if (key.type == ElementType::kS32 || key.type == ElementType::kU32) return SmallOfType<uint32_t>(key);
  if (key.type == ElementType::kS64 || key.type == ElementType::kU64) return SmallOfType<uint64_t>(key);
  if (key.type == ElementType::kF32) return SmallOfType<float>(key);
  if (key.type == ElementType::kF64) return SmallOfType<double>(key);
  return nullptr;
}

}  // namespace krafla::cpu
