// SPDX-License-Identifier: Apache-2.0
// Bounded dynamic shapes. A value always has its run-time dimensions; what the module declares is a bound. The shape
// of a result then follows from the operands' run-time shapes by the ordinary shape rules.
#include <algorithm>

#include "base/index.h"
#include "evaluator/context.h"
#include "evaluator/strided.h"
#include "ir/shape_rules.h"

namespace krafla::evaluator {

namespace {

// The run-time dimensions of a reshape: both sides fall into groups of equal declared products; within a group the
// dimension that may vary takes up what the operand has.
Result<Shape> ReshapeDims(const Shape& from, const Shape& run_time, const Shape& to) {
  Dims out = to.dims();
  int64_t f = 0, t = 0;
  while (f < from.rank() || t < to.rank()) {
    int64_t from_product = 1, to_product = 1, live = 1;
    const int64_t first = t;
    do {
      if ((from_product <= to_product && f < from.rank()) || t >= to.rank()) {
        from_product *= from.dim(f);
        live *= run_time.dim(f++);
      } else {
        to_product *= to.dim(t++);
      }
    } while (from_product != to_product && (f < from.rank() || t < to.rank()));
    if (live == from_product) continue;
    int64_t varies = -1, rest = 1;
    for (int64_t d = first; d < t; ++d) {
      if (varies < 0 && to.IsDynamicDim(d)) varies = d;
      else rest *= to.dim(d);
    }
    if (varies < 0 || rest == 0 || live % rest != 0)
      return InvalidArgument("{} holds {} elements of {} at run time, which cannot be reshaped to {}.",
                             from.ToString(false), run_time.element_count(), from.element_count(), to.ToString(false));
    out[At(varies)] = live / rest;
  }
  return Shape::MakeArray(to.element_type(), out);
}

Result<Shape> RunTimeShape(const Instruction& i, Operands operands) {
  const Shape& declared = i.shape();
  if (i.opcode() == Opcode::kReshape) return ReshapeDims(i.operand(0)->shape(), operands[0].shape(), declared);
  if (i.opcode() == Opcode::kBroadcast) {
    Dims dims = declared.dims();
    const Dims& to = i.attr<DimensionsAttributes>().dimensions;
    for (std::size_t d = 0; d < to.size(); ++d) dims[At(to[d])] = operands[0].shape().dim(static_cast<int64_t>(d));
    return Shape::MakeArray(declared.element_type(), dims);
  }
  if (i.opcode() == Opcode::kSlice) {
    const auto& a = i.attr<SliceAttributes>();
    Dims dims;
    for (int64_t d = 0; d < declared.rank(); ++d) {
      const int64_t stride = a.strides.empty() ? 1 : a.strides[At(d)];
      const int64_t limit = std::min(a.limits[At(d)], operands[0].shape().dim(d));
      dims.push_back(limit <= a.starts[At(d)] ? 0 : (limit - a.starts[At(d)] + stride - 1) / stride);
    }
    return Shape::MakeArray(declared.element_type(), dims);
  }
  if (i.opcode() == Opcode::kDynamicSlice) {
    Dims dims = declared.dims();
    for (int64_t d = 0; d < declared.rank(); ++d) dims[At(d)] = std::min(dims[At(d)], operands[0].shape().dim(d));
    return Shape::MakeArray(declared.element_type(), dims);
  }
  std::vector<const Shape*> shapes;
  for (const Value& v : operands) {
    if (!v.is_array()) return declared.WithStaticDims();
    shapes.push_back(&v.shape());
  }
  std::vector<ComputationSignature> called;
  for (const Computation* c : i.called()) {
    ComputationSignature signature;
    for (const Instruction* p : c->parameters()) signature.parameters.push_back(p->shape());
    signature.result = c->root()->shape();
    called.push_back(std::move(signature));
  }
  Shape want = declared;
  if ((IsElementwise(i.opcode()) || i.opcode() == Opcode::kMap) && i.opcode() != Opcode::kBitcastConvert) {
    // An operand that is not dynamic (a broadcast constant, say) is cut to the others' size.
    Dims dims = declared.dims();
    for (const Shape* s : shapes)
      if (s->rank() == declared.rank())
        for (int64_t d = 0; d < declared.rank(); ++d) dims[At(d)] = std::min(dims[At(d)], s->dim(d));
    return Shape::MakeArray(declared.element_type(), dims);
  }
  KRAFLA_ASSIGN(Shape out, InferShape({.opcode = i.opcode(),
                                       .operands = shapes,
                                       .attributes = i.attributes(),
                                       .called = called,
                                       .declared = &want}));
  return out.WithStaticDims();
}

}  // namespace

Result<Shape> ResultShape(const Instruction& i, Operands operands) {
  bool as_declared = true;
  for (std::size_t o = 0; o < operands.size() && as_declared; ++o)
    as_declared = !operands[o].is_array() || Shape::SameDims(operands[o].shape(), i.operand(o)->shape());
  if (!as_declared) return RunTimeShape(i, operands);
  Shape out = i.shape().WithStaticDims();
  out.ClearLayout();
  return out;
}

Result<Value> LeadingPart(Context& context, const Literal& whole, const Shape& shape) {
  KRAFLA_ASSIGN(Literal out, NewLiteral(context, shape));
  // Where the whole is smaller than what is asked for, the rest is zeros.
  Dims common;
  bool fits = true;
  for (int64_t d = 0; d < shape.rank(); ++d) {
    common.push_back(std::min(shape.dim(d), whole.shape().dim(d)));
    fits = fits && common.back() == shape.dim(d);
  }
  if (!fits) FillZeros(out.bytes());
  CopyView(common, StorageBytes(shape.element_type()), whole.bytes().data(), DenseView(whole.shape()),
           out.bytes().data(), DenseView(shape));
  return Value::Own(std::move(out));
}

Result<> CutToShape(Context& context, Operands operands, const Shape& shape) {
  for (Value& v : operands) {
    if (!v.is_array() || v.shape().rank() != shape.rank() || Shape::SameDims(v.shape(), shape)) continue;
    KRAFLA_ASSIGN(Shape part, Shape::MakeArray(v.shape().element_type(), shape.dims()));
    KRAFLA_ASSIGN(v, LeadingPart(context, v.array(), part));
  }
  return {};
}

Result<Value> EvalGetDimensionSize(Context&, const Instruction& i, Operands operands) {
  const int64_t size = operands[0].shape().dim(i.attr<DimensionsAttributes>().dimensions[0]);
  KRAFLA_ASSIGN(Literal out, Literal::Create(i.shape()));
  out.data<int32_t>()[0] = static_cast<int32_t>(size);
  return Value::Own(std::move(out));
}

Result<Value> EvalSetDimensionSize(Context& context, const Instruction& i, Operands operands) {
  const int64_t d = i.attr<DimensionsAttributes>().dimensions[0];
  const int64_t bound = i.operand(0)->shape().dim(d);
  Dims dims = operands[0].shape().dims();
  dims[At(d)] = std::clamp<int64_t>(IntegerAt(operands[1].array(), 0), 0, bound);
  KRAFLA_ASSIGN(Shape shape, Shape::MakeArray(i.shape().element_type(), dims));
  // A size set before does not destroy what lies behind it.
  std::shared_ptr<const Literal> whole = operands[0].backing();
  if (whole == nullptr) whole = operands[0].shared_array();
  KRAFLA_ASSIGN(Value out, LeadingPart(context, *whole, shape));
  out.set_backing(std::move(whole));
  return out;
}

Result<Value> EvalDynamicReshape(Context& context, const Instruction& i, Operands operands) {
  Dims dims;
  for (int64_t d = 0; d < i.shape().rank(); ++d) {
    const Literal& size = operands[At(d) + 1].array();
    dims.push_back(std::clamp<int64_t>(IntegerAt(size, 0), 0, i.shape().dim(d)));
  }
  KRAFLA_ASSIGN(Shape shape, Shape::MakeArray(i.shape().element_type(), dims));
  if (shape.byte_size() != operands[0].shape().byte_size())
    return InvalidArgument("{} cannot be reshaped to {} at run time.", operands[0].shape().ToString(false),
                           shape.ToString(false));
  KRAFLA_TRY(context.Spend(1));
  KRAFLA_ASSIGN(Literal out, std::move(operands[0]).TakeMutable());
  KRAFLA_ASSIGN(Literal shaped, std::move(out).Reshaped(shape));
  return Value::Own(std::move(shaped));
}

}  // namespace krafla::evaluator
