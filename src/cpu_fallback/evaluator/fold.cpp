// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/evaluator/fold.h"

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

template <class T>
std::optional<Folder> Integers(Opcode opcode, ElementType wide) {
  if (opcode == Opcode::kAdd)
    return Make<T, decltype([](T a, T b) { return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b)); })>(wide);
  if (opcode == Opcode::kMultiply)
    return Make<T, decltype([](T a, T b) { return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b)); })>(wide);
  if (opcode == Opcode::kMaximum) return Make<T, decltype([](T a, T b) { return a > b ? a : b; })>(wide);
  if (opcode == Opcode::kMinimum) return Make<T, decltype([](T a, T b) { return a < b ? a : b; })>(wide);
  if (opcode == Opcode::kAnd) return Make<T, decltype([](T a, T b) { return a & b; })>(wide);
  if (opcode == Opcode::kOr) return Make<T, decltype([](T a, T b) { return a | b; })>(wide);
  if (opcode == Opcode::kXor) return Make<T, decltype([](T a, T b) { return a ^ b; })>(wide);
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
    if (opcode == Opcode::kAdd) return Make<double, decltype([](double a, double b) { return a + b; })>(ElementType::kF64);
    if (opcode == Opcode::kMaximum)
      return Make<double, decltype([](double a, double b) { return scalar::Max(a, b); })>(ElementType::kF64);
    if (opcode == Opcode::kMinimum)
      return Make<double, decltype([](double a, double b) { return scalar::Min(a, b); })>(ElementType::kF64);
    return std::nullopt;
  }
  if (IsComplex(type)) {
    using C = std::complex<double>;
    if (opcode == Opcode::kAdd) return Make<C, decltype([](C a, C b) { return a + b; })>(ElementType::kC128);
  }
  return std::nullopt;
}

}  // namespace krafla::evaluator
