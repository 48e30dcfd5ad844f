// SPDX-License-Identifier: Apache-2.0
// One elementwise instruction made ready for whole blocks of elements: a loop over contiguous arrays chosen once by
// opcode and type. Floats narrower than f32 are widened to f32 a block at a time, computed there and rounded once, as
// XLA:CPU does.
#pragma once

#include <complex>
#include <cstdint>
#include <optional>

#include "ir/attributes.h"
#include "ir/module.h"
#include "krafla/status.h"

namespace krafla::evaluator {

struct BlockParams {
  ComparisonDirection direction = ComparisonDirection::kEq;
  ElementType from = ElementType::kInvalid, to = ElementType::kInvalid;
  int exponent_bits = 0, mantissa_bits = 0;
  int64_t size = 0;  // bytes an element, for select
};

// in: one array an operand, out: the result, `n` elements each. `out` may be one of `in` where the widths agree.
using BlockFn = void (*)(const void* const* in, void* out, int64_t n, const BlockParams& params);
using WidenFn = void (*)(const void* in, float* out, int64_t n);
using NarrowFn = void (*)(const float* in, void* out, int64_t n);

struct BlockOp {
  static constexpr int kMaxArity = 3;
  BlockFn run = nullptr;
  int arity = 0;
  WidenFn widen[kMaxArity] = {};  // null: the operand is taken as it lies
  NarrowFn narrow = nullptr;
  int in_bytes[kMaxArity] = {};
  int out_bytes = 0;
  BlockParams params;

  // A run that is to end (base/interruption.h) leaves the rest as it is.
  void Run(const void* const* in, void* out, int64_t n) const;
};

// Errors: UNIMPLEMENTED for a type that the op does not take.
Result<BlockOp> MakeBlockOp(const Instruction& instruction);
// Not for ops with attributes.
Result<BlockOp> MakeBlockOp(Opcode opcode, ElementType operand, ElementType result);
BlockOp MakeConvert(ElementType from, ElementType to);

// f16, bf16 and narrower; null for other types.
WidenFn FindWiden(ElementType type);
NarrowFn FindNarrow(ElementType type);
inline bool IsNarrowFloat(ElementType type) { return FindWiden(type) != nullptr; }

// Kernels by compute type (int_ops.cpp, float_ops.cpp, complex_ops.cpp, convert.cpp); null where there is none.
BlockFn FindIntKernel(Opcode opcode, ElementType type);
BlockFn FindPredKernel(Opcode opcode);
BlockFn FindFloatKernel(Opcode opcode);   // f32
BlockFn FindDoubleKernel(Opcode opcode);  // f64
BlockFn FindComplexKernel(Opcode opcode, ElementType type);
BlockFn FindTotalOrderKernel(ElementType type);
BlockFn FindStochasticConvert();
void ConvertBlock(const void* const* in, void* out, int64_t n, const BlockParams& params);

// Floats (also the parts of complex numbers) that arithmetic gave: a NaN becomes the NaN.
void SettleNans(ElementType type, void* values, int64_t n);

template <class F, class In, class Out>
void UnaryBlock(const void* const* in, void* out, int64_t n, const BlockParams&) {
  const In* x = static_cast<const In*>(in[0]);
  Out* y = static_cast<Out*>(out);
  for (int64_t i = 0; i < n; ++i) y[i] = F()(x[i]);
}
template <class F, class In, class Out>
void BinaryBlock(const void* const* in, void* out, int64_t n, const BlockParams&) {
  const In* a = static_cast<const In*>(in[0]);
  const In* b = static_cast<const In*>(in[1]);
  Out* y = static_cast<Out*>(out);
  for (int64_t i = 0; i < n; ++i) y[i] = F()(a[i], b[i]);
}
template <class F, class T>
void TernaryBlock(const void* const* in, void* out, int64_t n, const BlockParams&) {
  const T* a = static_cast<const T*>(in[0]);
  const T* b = static_cast<const T*>(in[1]);
  const T* c = static_cast<const T*>(in[2]);
  T* y = static_cast<T*>(out);
  for (int64_t i = 0; i < n; ++i) y[i] = F()(a[i], b[i], c[i]);
}
// Of a function that ops.def says has one operand or two.
template <class T, int kOperands, class F>
constexpr BlockFn FormulaBlock() {
  static_assert(kOperands == 1 || kOperands == 2);
  if constexpr (kOperands == 1) return &UnaryBlock<F, T, T>;
  else return &BinaryBlock<F, T, T>;
}
// IEEE comparison; operator<=> is not used, as NaN compares unequal to everything.
template <class T>
void CompareBlock(const void* const* in, void* out, int64_t n, const BlockParams& params) {
  const T* a = static_cast<const T*>(in[0]);
  const T* b = static_cast<const T*>(in[1]);
  uint8_t* y = static_cast<uint8_t*>(out);
  switch (params.direction) {
    case ComparisonDirection::kEq:
      for (int64_t i = 0; i < n; ++i) y[i] = a[i] == b[i];
      return;
    case ComparisonDirection::kNe:
      for (int64_t i = 0; i < n; ++i) y[i] = a[i] != b[i];
      return;
    case ComparisonDirection::kGe:
      for (int64_t i = 0; i < n; ++i) y[i] = a[i] >= b[i];
      return;
    case ComparisonDirection::kGt:
      for (int64_t i = 0; i < n; ++i) y[i] = a[i] > b[i];
      return;
    case ComparisonDirection::kLe:
      for (int64_t i = 0; i < n; ++i) y[i] = a[i] <= b[i];
      return;
    case ComparisonDirection::kLt:
      for (int64_t i = 0; i < n; ++i) y[i] = a[i] < b[i];
      return;
  }
}

struct KernelEntry {
  Opcode opcode;
  BlockFn run;
};

}  // namespace krafla::evaluator
