// SPDX-License-Identifier: Apache-2.0
// Plans of dots.
#pragma once

#include "test_kernels.h"

namespace krafla::spirv::testing {

struct Shape {
  std::vector<int64_t> batch;
  int64_t m, n, k;
};

// Layout of an operand with (rows, columns): row-major or transposed.
enum class Order { kNormal, kTransposed };

struct DotOptions {
  Order lhs = Order::kNormal, rhs = Order::kNormal;
  ElementType type = ElementType::kF32, accumulate = ElementType::kF32, result = ElementType::kF32;
  bool bias = false;
  int64_t lhs_offset = 0, rhs_offset = 0;       // elements before the operand in its buffer
  bool repeat_lhs = false, repeat_rhs = false;  // one operand for all batches
};

inline plan::KernelPlan Dot(const Shape& s, const DotOptions& o) {
  plan::DotKernel k;
  int64_t batch = 1;
  for (int64_t d : s.batch) batch *= d;
  k.batch = Dims(s.batch);
  k.m = s.m;
  k.n = s.n;
  k.k = s.k;
  int64_t lhs_stride = s.m * s.k, rhs_stride = s.k * s.n;
  for (std::size_t i = s.batch.size(); i-- > 0;) {
    k.lhs_batch_strides.insert(k.lhs_batch_strides.begin(), lhs_stride);
    k.rhs_batch_strides.insert(k.rhs_batch_strides.begin(), rhs_stride);
    lhs_stride *= s.batch[i];
    rhs_stride *= s.batch[i];
  }
  if (o.repeat_lhs) k.lhs_batch_strides = Dims(s.batch.size(), 0);
  if (o.repeat_rhs) k.rhs_batch_strides = Dims(s.batch.size(), 0);
  k.lhs_offset = o.lhs_offset;
  k.rhs_offset = o.rhs_offset;
  k.lhs_m_stride = o.lhs == Order::kNormal ? s.k : 1;
  k.lhs_k_stride = o.lhs == Order::kNormal ? 1 : s.m;
  k.rhs_k_stride = o.rhs == Order::kNormal ? s.n : 1;
  k.rhs_n_stride = o.rhs == Order::kNormal ? 1 : s.k;
  k.lhs_type = k.rhs_type = o.type;
  k.accumulate_type = o.accumulate;
  k.result_type = o.result;
  std::vector<int64_t> dims = s.batch;
  dims.push_back(s.m);
  dims.push_back(s.n);
  const int64_t count = batch * s.m * s.n;
  const int64_t lhs_count = batch * s.m * s.k + o.lhs_offset, rhs_count = batch * s.k * s.n + o.rhs_offset;
  plan::ProgramBuilder b(dims);
  b.AddBuffer(o.type, lhs_count, false);
  b.AddBuffer(o.type, rhs_count, false);
  std::vector<plan::IndexId> index;
  for (std::size_t d = 0; d < dims.size(); ++d) index.push_back(b.space().Iter(static_cast<int>(d)));
  plan::NodeId value = b.Param(plan::ComputeType(o.result), 0, ~uint64_t{0} >> (64 - dims.size()));
  plan::KernelPlan plan;
  plan.bindings = {{o.type, lhs_count, true, false}, {o.type, rhs_count, true, false}};
  if (o.bias) {
    const plan::NodeId bias = b.Load(b.AddBuffer(o.result, s.n, false), o.result, index.back());
    value = b.Hlo(Opcode::kMaximum, o.result,
                  {b.Hlo(Opcode::kAdd, o.result, {value, bias}),
                   b.Convert(b.ConstantInt(ElementType::kS32, 0), ElementType::kS32, o.result)});
    plan.bindings.push_back({o.result, s.n, true, false});
  }
  const int out = b.AddBuffer(o.result, count, true);
  b.AddStore({out, b.space().Linearize(index, dims), value, o.result});
  plan.bindings.push_back({o.result, count, false, true});
  k.epilogue = std::move(b).Finish();
  plan.body = std::move(k);
  plan.name = Format("dot.{}.{}x{}x{}x{}.{}{}", ElementTypeName(o.type), batch, s.m, s.n, s.k,
                     o.lhs == Order::kNormal ? "n" : "t", o.rhs == Order::kNormal ? "n" : "t");
  return plan;
}

}  // namespace krafla::spirv::testing
