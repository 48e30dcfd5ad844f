// SPDX-License-Identifier: Apache-2.0
#include "evaluator/fold.h"

#include "numerics/scalar_math.h"

namespace krafla::evaluator {

namespace {

template <class T, class Op>
void Each(void* acc, const void* x, int64_t n) {
  T* a = static_cast<T*>(acc);
  const T* b = static_cast<const T*>(x);
  for (int64_t k = 0; k < n; ++k) a[k] = Op()(a[k], b[k]);
}

template <class T, class Op>
void Row(void* acc, const void* x, int64_t n) {
  const T* b = static_cast<const T*>(x);
  T a = *static_cast<T*>(acc);
  // Four chains, joined at the end: these operators are associative, sums up to a rounding in the wide type.
  int64_t k = 0;
  if (n >= 8) {
    T l0 = b[0], l1 = b[1], l2 = b[2], l3 = b[3];
    for (k = 4; k + 4 <= n; k += 4) {
      l0 = Op()(l0, b[k]);
      l1 = Op()(l1, b[k + 1]);
      l2 = Op()(l2, b[k + 2]);
      l3 = Op()(l3, b[k + 3]);
    }
    a = Op()(a, Op()(Op()(l0, l1), Op()(l2, l3)));
  }
  for (; k < n; ++k) a = Op()(a, b[k]);
  *static_cast<T*>(acc) = a;
}

template <class T, class Op>
Folder Make(ElementType wide) {
  return {wide, static_cast<int>(sizeof(T)), &Each<T, Op>, &Row<T, Op>};
}

// Sums and products wrap, which signed arithmetic may not.
template <class T>
T WrapAdd(T a, T b) {
  return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
template <class T>
T WrapMultiply(T a, T b) {
  return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

#define KRAFLA_FOLD(op, T, wide, expr) \
  if (opcode == Opcode::op) return Make<T, decltype([](T a, T b) -> T { return expr; })>(wide)

template <class T>
std::optional<Folder> Integers(Opcode opcode, ElementType wide) {
  KRAFLA_FOLD(kAdd, T, wide, WrapAdd(a, b));
  KRAFLA_FOLD(kMultiply, T, wide, WrapMultiply(a, b));
  KRAFLA_FOLD(kMaximum, T, wide, a > b ? a : b);
  KRAFLA_FOLD(kMinimum, T, wide, a < b ? a : b);
  KRAFLA_FOLD(kAnd, T, wide, a & b);
  KRAFLA_FOLD(kOr, T, wide, a | b);
  KRAFLA_FOLD(kXor, T, wide, a ^ b);
  return std::nullopt;
}

}  // namespace

std::optional<Folder> FindFolder(Opcode opcode, ElementType type) {
  if (type == ElementType::kPred) {
    if (opcode == Opcode::kAdd || opcode == Opcode::kMaximum) opcode = Opcode::kOr;
    if (opcode == Opcode::kMultiply || opcode == Opcode::kMinimum) opcode = Opcode::kAnd;
    return Integers<uint64_t>(opcode, ElementType::kU64);
  }
  // Sums of sums that wrap at a narrow width wrap the same at the end; a maximum of wrapped values does not mix with
  // sums, as there is one operator only.
  if (IsSigned(type)) return Integers<int64_t>(opcode, ElementType::kS64);
  if (IsUnsigned(type)) return Integers<uint64_t>(opcode, ElementType::kU64);
  if (IsFloat(type)) {
    KRAFLA_FOLD(kAdd, double, ElementType::kF64, a + b);
    KRAFLA_FOLD(kMaximum, double, ElementType::kF64, scalar::Max(a, b));
    KRAFLA_FOLD(kMinimum, double, ElementType::kF64, scalar::Min(a, b));
  }
  if (IsComplex(type)) { KRAFLA_FOLD(kAdd, std::complex<double>, ElementType::kC128, a + b); }
  return std::nullopt;
}

#undef KRAFLA_FOLD

}  // namespace krafla::evaluator
