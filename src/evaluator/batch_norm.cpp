// SPDX-License-Identifier: Apache-2.0
// XLA: batchnorm_expander.cc. Everything is computed in f64; epsilon is a float32 whatever the type.
#include <cmath>
#include <vector>

#include "base/host_memory.h"
#include "base/index.h"
#include "base/interruption.h"
#include "evaluator/context.h"
#include "evaluator/gemm.h"

namespace krafla::evaluator {

namespace {

HostVector<double> Load(const Literal& in) {
  HostVector<double> out(At(in.shape().element_count()));
  ToAccumulator(in.bytes().data(), in.shape().element_type(), reinterpret_cast<std::byte*>(out.data()),
                ElementType::kF64, in.shape().element_count());
  return out;
}

Result<Value> Store(Context& context, const HostVector<double>& in, const Shape& shape) {
  KRAFLA_ASSIGN(Literal out, NewLiteral(context, shape));
  if (static_cast<int64_t>(in.size()) != shape.element_count())
    return InvalidArgument("{} does not have {} elements.", shape.ToString(false), in.size());
  FromAccumulator(reinterpret_cast<const std::byte*>(in.data()), ElementType::kF64, out.bytes().data(),
                  shape.element_type(), shape.element_count());
  return Value::Own(std::move(out));
}

}  // namespace

Result<Value> EvalBatchNorm(Context& context, const Instruction& i, Operands operands) {
  const auto& a = i.attr<BatchNormAttributes>();
  const Shape& shape = operands[0].shape();
  const double epsilon = static_cast<double>(a.epsilon);
  const int64_t features = shape.dim(a.feature_index);
  int64_t inner = 1;  // elements between two features
  for (int64_t d = a.feature_index + 1; d < shape.rank(); ++d) inner *= shape.dim(d);
  const int64_t n = shape.element_count();
  KRAFLA_TRY(context.SpendProduct(n, 8));
  const HostVector<double> x = Load(operands[0].array());
  std::vector<HostVector<double>> rest;
  for (std::size_t o = 1; o < operands.size(); ++o) rest.push_back(Load(operands[o].array()));
  auto feature = [&](int64_t k) { return At(k / inner % features); };
  const double count = features == 0 ? 0 : static_cast<double>(n) / static_cast<double>(features);
  for (std::size_t o = 0; o < rest.size(); ++o) {
    const bool whole = i.opcode() == Opcode::kBatchNormGrad && o == 3;
    if (static_cast<int64_t>(rest[o].size()) != (whole ? n : features))
      return InvalidArgument("Operand {} of {} does not fit {}.", o + 1, OpcodeName(i.opcode()), shape.ToString(false));
  }
  HostVector<double> y(x.size());
  InterruptionPoll poll;
  if (i.opcode() == Opcode::kBatchNormInference) {
    const auto &scale = rest[0], &offset = rest[1], &mean = rest[2], &variance = rest[3];
    for (int64_t k = 0; k < n && !poll.Ends(); ++k) {
      const std::size_t f = feature(k);
      y[At(k)] = (x[At(k)] - mean[f]) * scale[f] / std::sqrt(variance[f] + epsilon) + offset[f];
    }
    return Store(context, y, shape);
  }
  const std::vector<Shape>& shapes = i.shape().tuple_elements();
  if (shapes.size() != 3) return InvalidArgument("{} has three arrays as its result.", OpcodeName(i.opcode()));
  std::vector<Value> elements;
  if (i.opcode() == Opcode::kBatchNormTraining) {
    const auto &scale = rest[0], &offset = rest[1];
    HostVector<double> mean(At(features)), variance(At(features));
    for (int64_t k = 0; k < n && !poll.Ends(); ++k) mean[feature(k)] += x[At(k)];
    for (double& m : mean) m /= count;
    for (int64_t k = 0; k < n && !poll.Ends(); ++k) {
      const double d = x[At(k)] - mean[feature(k)];
      variance[feature(k)] += d * d;
    }
    for (double& v : variance) v /= count;
    for (int64_t k = 0; k < n && !poll.Ends(); ++k) {
      const std::size_t f = feature(k);
      y[At(k)] = (x[At(k)] - mean[f]) * scale[f] / std::sqrt(variance[f] + epsilon) + offset[f];
    }
    const HostVector<double>* results[] = {&y, &mean, &variance};
    for (std::size_t r = 0; r < 3; ++r) {
      KRAFLA_ASSIGN(Value v, Store(context, *results[r], operands[r == 0 ? 0 : 1].shape()));
      elements.push_back(std::move(v));
    }
    return Value::Tuple(std::move(elements));
  }
  const auto &scale = rest[0], &mean = rest[1], &variance = rest[2], &dy = rest[3];
  HostVector<double> d_scale(At(features)), d_offset(At(features)), centred(At(features));
  for (int64_t k = 0; k < n && !poll.Ends(); ++k) {
    const std::size_t f = feature(k);
    d_offset[f] += dy[At(k)];
    centred[f] += dy[At(k)] * (x[At(k)] - mean[f]);
  }
  for (std::size_t f = 0; f < d_scale.size(); ++f) d_scale[f] = centred[f] / std::sqrt(variance[f] + epsilon);
  for (int64_t k = 0; k < n && !poll.Ends(); ++k) {
    const std::size_t f = feature(k);
    const double square = variance[f] + epsilon;
    y[At(k)] = scale[f] / std::sqrt(square) *
               (dy[At(k)] - d_offset[f] / count - (x[At(k)] - mean[f]) * centred[f] / count / square);
  }
  const HostVector<double>* results[] = {&y, &d_scale, &d_offset};
  for (std::size_t r = 0; r < 3; ++r) {
    KRAFLA_ASSIGN(Value v, Store(context, *results[r], operands[r == 0 ? 0 : 1].shape()));
    elements.push_back(std::move(v));
  }
  return Value::Tuple(std::move(elements));
}

}  // namespace krafla::evaluator
