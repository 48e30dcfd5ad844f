// SPDX-License-Identifier: Apache-2.0
// What the operators of quantised models share: scales and zero points under the shapes of what they belong to, and
// products of integers of 8 bits.
#pragma once

#include "onnx/call.h"

namespace krafla::onnx {

// A scale or zero point for the elements of `dims`: one for all, one along the axis, one a block of the axis, or of a
// shape that spreads to `dims` by itself.
XlaOp Spread(XlaOp scale, const Ints& dims, int64_t axis, int64_t block);
// The values `y`, in units of the result's scale, rounded to even, moved by the zero point, within the type's range.
XlaOp RoundedTo(ElementType to, XlaOp y, XlaOp zero, bool saturates = true);
// `y` in the result's steps. Input `zero` of the node has the type, u8 without one.
XlaOp RoundedBy(Call& c, XlaOp y, std::size_t zero);
// f32 in the result's units and type. Input `first` of the node: the scale; the one behind it: the zero point, which
// has the type; u8 without one.
XlaOp RequantizedBy(Call& c, XlaOp y, std::size_t first);
// Input `first` of the node, its scale and its zero point, in f32.
XlaOp Dequantized(Call& c, std::size_t first, int64_t axis = 1);

// f32 as u8 by the range of all of x, which is widened to hold zero; one scale and zero point.
struct Dynamically {
  XlaOp q, scale, zero;
};
Dynamically QuantizedDynamically(XlaOp x);

// Integers of 8 bits: the number of each is `values - zero`.
struct Bytes {
  XlaOp values;                          // s8
  XlaOp zero;                            // s32, a scalar or more (Spread); uninitialized: 0
  std::shared_ptr<const Literal> known;  // the values, where they are known
};
inline bool IsByte(ElementType type) { return type == S8 || type == U8; }
Bytes BytesOf(Call& c, const Value& value, const Value* zero);
// The numbers. `axis`: that which zero points may lie along.
XlaOp Centred(const Bytes& x, ElementType type, int64_t axis);
Bytes BytesOf(Call& c, std::size_t value, std::size_t zero);  // inputs of the node
Bytes BytesOf(XlaOp x, XlaOp zero);                           // u8 and a zero point
// With the last two dimensions exchanged.
XlaOp TransposedIf(XlaOp x, bool transposes);
Bytes TransposedIf(const Bytes& x, bool transposes);
// NumPy's matmul and the convolution that the node's attributes describe, in s32. Zero points: of a one or one a row,
// of b and w one or one a column, or output channel; of x one.
XlaOp IntegerMatMul(Bytes a, Bytes b);
XlaOp IntegerConvolution(Call& c, const Bytes& x, const Bytes& w);

// The product or convolution of operands 0 and 1 where both are made of integers of 8 bits by DequantizeLinear, with
// one scale, or one a column or output channel: of the integers, times both scales. Exact but for one rounding, and
// faster than of floats. `column`: the axis of operand 1 that its scales may lie along, `result_column` the same of the
// result. Nothing for other operands.
std::optional<XlaOp> ProductOfQuantised(Call& c, int64_t column, int64_t result_column,
                                        XlaOp (*product)(Call&, const Bytes&, const Bytes&));

}  // namespace krafla::onnx
