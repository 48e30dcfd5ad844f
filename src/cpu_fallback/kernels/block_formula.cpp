// SPDX-License-Identifier: Apache-2.0
// Elementary functions: in f32 the formulas of numerics on vectors, in f64 the C library's.
#include <cmath>

#include "cpu_fallback/kernels/block_families.h"

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

double Logistic(double x) {
  const double e = std::exp(-std::abs(x));
  return x >= 0 ? 1 / (1 + e) : e / (1 + e);
}
double Rsqrt(double x) { return 1 / std::sqrt(x); }
float RemainderF32(float x, float y) { return std::fmod(x, y); }
double RemainderF64(double x, double y) { return std::fmod(x, y); }

BlockFn FindDouble(Opcode opcode) {
  if (opcode == Opcode::kAcos) return &DoubleLoop<std::acos>;
  if (opcode == Opcode::kAcosh) return &DoubleLoop<std::acosh>;
  if (opcode == Opcode::kAsin) return &DoubleLoop<std::asin>;
  if (opcode == Opcode::kAsinh) return &DoubleLoop<std::asinh>;
  if (opcode == Opcode::kAtanh) return &DoubleLoop<std::atanh>;
  if (opcode == Opcode::kCbrt) return &DoubleLoop<std::cbrt>;
  if (opcode == Opcode::kCos) return &DoubleLoop<std::cos>;
  if (opcode == Opcode::kCosh) return &DoubleLoop<std::cosh>;
  if (opcode == Opcode::kErf) return &DoubleLoop<std::erf>;
  if (opcode == Opcode::kExp) return &DoubleLoop<std::exp>;
  if (opcode == Opcode::kExpm1) return &DoubleLoop<std::expm1>;
  if (opcode == Opcode::kLog) return &DoubleLoop<std::log>;
  if (opcode == Opcode::kLog1p) return &DoubleLoop<std::log1p>;
  if (opcode == Opcode::kLogistic) return &DoubleLoop<Logistic>;
  if (opcode == Opcode::kRsqrt) return &DoubleLoop<Rsqrt>;
  if (opcode == Opcode::kSin) return &DoubleLoop<std::sin>;
  if (opcode == Opcode::kSinh) return &DoubleLoop<std::sinh>;
  if (opcode == Opcode::kSqrt) return &DoubleLoop<std::sqrt>;
  if (opcode == Opcode::kTan) return &DoubleLoop<std::tan>;
  if (opcode == Opcode::kTanh) return &DoubleLoop<std::tanh>;
  if (opcode == Opcode::kAtan2) return &BinaryFunctionLoop<double, std::atan2>;
  if (opcode == Opcode::kPower) return &BinaryFunctionLoop<double, std::pow>;
  if (opcode == Opcode::kRemainder) return &BinaryFunctionLoop<double, RemainderF64>;
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
