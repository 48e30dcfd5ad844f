// SPDX-License-Identifier: Apache-2.0
// The vector loops of the block interpreter: one function for each op, compute type and pattern of operands that are a
// single value. Arrays are of compute types (pred one byte of 0 or 1), and of s8, u8, s16, u16 where the plain integer
// ops, compares, selects and conversions are concerned. Same bits as the scalar formulas of numerics.
#pragma once

#include <array>
#include <cstdint>

#include "ir/attributes.h"
#include "ir/opcode.h"
#include "krafla/element_type.h"
#include "plan/element_program.h"

namespace krafla::cpu {

struct BlockArgs {
  void* out;
  const void* in[3];
  int64_t n;
  uint64_t bits;  // Node::bits
};
using BlockFn = void (*)(const BlockArgs&);

struct BlockKey {
  plan::NodeOp op = plan::NodeOp::kHlo;  // kHlo kCompare kConvert kRound kWrap kEncode kDecode kReducePrecision
  Opcode opcode = Opcode::kAdd;
  ElementType type = ElementType::kF32;     // of the result
  ElementType operand = ElementType::kF32;  // compute type of operand 0 (kHlo select: of operand 1)
  ElementType storage = ElementType::kInvalid;
  ComparisonDirection direction = ComparisonDirection::kEq;
  bool total_order = false;
  unsigned uniform = 0;  // bit i: operand i is one value for the whole block
};

// Null: there is none for this pattern of uniform operands, or, with uniform == 0, none at all. An operand may be the
// same array as the result.
BlockFn FindBlockFn(const BlockKey& key);

// Between storage and compute type, n elements; null where they are the same bytes. Narrow expects values that the
// storage type can hold.
using ConvertFn = void (*)(const void* in, void* out, int64_t n);
ConvertFn FindWiden(ElementType storage);
ConvertFn FindNarrow(ElementType storage);
// From any f32, rounded; null where there is none.
ConvertFn FindRoundNarrow(ElementType storage);

// Floats that arithmetic gave: a NaN becomes the NaN (docs/decisions/0003-same-bits.md). Of other types: nothing.
void SettleNans(ElementType type, void* values, int64_t n);

// Index arithmetic on s32 arrays.
// out[r * columns + c] = base + r * row_step + c * column_step.
void BlockRamp(int32_t* out, int64_t rows, int64_t columns, int64_t base, int64_t row_step, int64_t column_step);
// out = a * factor + b (b may be null).
void BlockMulAdd(int32_t* out, const int32_t* a, int32_t factor, const int32_t* b, int64_t n);
// For 0 <= a and divisor > 0.
void BlockDivide(int32_t* out, const int32_t* a, int32_t divisor, int64_t n);
void BlockModulus(int32_t* out, const int32_t* a, int32_t divisor, int64_t n);

}  // namespace krafla::cpu
