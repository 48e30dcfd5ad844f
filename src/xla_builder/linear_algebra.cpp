// SPDX-License-Identifier: Apache-2.0
// Linear algebra, transforms and normalisation.
#include "xla_builder/impl.h"

namespace krafla {

using namespace xla_builder;  // NOLINT: the calls are made of its parts

XlaOp Cholesky(XlaOp a, bool lower) {
  return RunOp("Cholesky", nullptr, {a}, Opcode::kCholesky, CholeskyAttributes{lower});
}
XlaOp TriangularSolve(XlaOp a, XlaOp b, bool left_side, bool lower, bool unit_diagonal,
                      TriangularSolveOptions::Transpose transpose_a) {
  return RunOp("TriangularSolve", nullptr, {a, b}, Opcode::kTriangularSolve,
               TriangularSolveAttributes{left_side, lower, unit_diagonal, transpose_a});
}
XlaOp Fft(XlaOp operand, FftType fft_type, Span<int64_t> fft_length) {
  return RunOp("Fft", nullptr, {operand}, Opcode::kFft, FftAttributes{fft_type, ToDims(fft_length)});
}
XlaOp BatchNormTraining(XlaOp operand, XlaOp scale, XlaOp offset, float epsilon, int64_t feature_index) {
  return RunOp("BatchNormTraining", nullptr, {operand, scale, offset}, Opcode::kBatchNormTraining,
               BatchNormAttributes{epsilon, feature_index});
}
XlaOp BatchNormInference(XlaOp operand, XlaOp scale, XlaOp offset, XlaOp mean, XlaOp variance, float epsilon,
                         int64_t feature_index) {
  return RunOp("BatchNormInference", nullptr, {operand, scale, offset, mean, variance}, Opcode::kBatchNormInference,
               BatchNormAttributes{epsilon, feature_index});
}
XlaOp BatchNormGrad(XlaOp operand, XlaOp scale, XlaOp batch_mean, XlaOp batch_var, XlaOp grad_output, float epsilon,
                    int64_t feature_index) {
  return RunOp("BatchNormGrad", nullptr, {operand, scale, batch_mean, batch_var, grad_output}, Opcode::kBatchNormGrad,
               BatchNormAttributes{epsilon, feature_index});
}

}  // namespace krafla
