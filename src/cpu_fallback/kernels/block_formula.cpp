// SPDX-License-Identifier: Apache-2.0
// Elementary functions: the formulas of numerics, in f32 on vectors, in f64 number by number.
#include <cmath>

#include "cpu_fallback/kernels/block_families.h"
#include "numerics/scalar_f64.h"

namespace krafla::cpu {

BlockFn FindExpFormula(Opcode opcode);
BlockFn FindLogFormula(Opcode opcode);
BlockFn FindTrigFormula(Opcode opcode);
BlockFn FindRootFormula(Opcode opcode);

namespace {

template <double (*kFunction)(double)>
void DoubleLoop(const BlockArgs& args) {
  const double* a = static_cast<const double*>(args.in[0]);
  double* out = static_cast<double*>(args.out);
  for (int64_t i = 0; i < args.n; ++i) out[i] = kFunction(a[i]);
}
template <class T, T (*kFunction)(T, T)>
void BinaryFunctionLoop(const BlockArgs& args) {
  const T* a = static_cast<const T*>(args.in[0]);
  const T* b = static_cast<const T*>(args.in[1]);
  T* out = static_cast<T*>(args.out);
  for (int64_t i = 0; i < args.n; ++i) out[i] = kFunction(a[i], b[i]);
}

float RemainderF32(float x, float y) { return std::fmod(x, y); }

BlockFn FindDouble(Opcode opcode) {
  if (opcode == Opcode::kAcos) return &DoubleLoop<scalar::Acos>;
  if (opcode == Opcode::kAcosh) return &DoubleLoop<scalar::Acosh>;
  if (opcode == Opcode::kAsin) return &DoubleLoop<scalar::Asin>;
  if (opcode == Opcode::kAsinh) return &DoubleLoop<scalar::Asinh>;
  if (opcode == Opcode::kAtanh) return &DoubleLoop<scalar::Atanh>;
  if (opcode == Opcode::kCbrt) return &DoubleLoop<scalar::Cbrt>;
  if (opcode == Opcode::kCos) return &DoubleLoop<scalar::Cos>;
  if (opcode == Opcode::kCosh) return &DoubleLoop<scalar::Cosh>;
  if (opcode == Opcode::kErf) return &DoubleLoop<scalar::Erf>;
  if (opcode == Opcode::kExp) return &DoubleLoop<scalar::Exp>;
  if (opcode == Opcode::kExpm1) return &DoubleLoop<scalar::Expm1>;
  if (opcode == Opcode::kLog) return &DoubleLoop<scalar::Log>;
  if (opcode == Opcode::kLog1p) return &DoubleLoop<scalar::Log1p>;
  if (opcode == Opcode::kLogistic) return &DoubleLoop<scalar::Logistic>;
  if (opcode == Opcode::kRsqrt) return &DoubleLoop<scalar::Rsqrt>;
  if (opcode == Opcode::kSin) return &DoubleLoop<scalar::Sin>;
  if (opcode == Opcode::kSinh) return &DoubleLoop<scalar::Sinh>;
  if (opcode == Opcode::kSqrt) return &DoubleLoop<scalar::Sqrt>;
  if (opcode == Opcode::kTan) return &DoubleLoop<scalar::Tan>;
  if (opcode == Opcode::kTanh) return &DoubleLoop<scalar::Tanh>;
  if (opcode == Opcode::kAtan2) return &BinaryFunctionLoop<double, scalar::Atan2>;
  if (opcode == Opcode::kPower) return &BinaryFunctionLoop<double, scalar::Pow>;
  if (opcode == Opcode::kRemainder) return &BinaryFunctionLoop<double, scalar::Remainder>;
  return nullptr;
}

}  // namespace

BlockFn FindFormulaBlock(const BlockKey& key) {
  if (key.uniform != 0) return nullptr;
  if (key.type == ElementType::kF64) return FindDouble(key.opcode);
  if (key.type != ElementType::kF32) return nullptr;
  if (key.opcode == Opcode::kRemainder) return &BinaryFunctionLoop<float, RemainderF32>;
  for (BlockFn (*find)(Opcode) : {FindExpFormula, FindLogFormula, FindTrigFormula, FindRootFormula})
    if (BlockFn fn = find(key.opcode)) return fn;
  return nullptr;
}

}  // namespace krafla::cpu
