// SPDX-License-Identifier: Apache-2.0
// Elementary functions: the formulas of numerics on vectors.
#include <cmath>

#include "cpu_fallback/kernels/block_families.h"
#include "numerics/nan.h"
#include "numerics/scalar_f64.h"

namespace krafla::cpu {

BlockFn FindF32Formula(Opcode opcode);
BlockFn FindF64Formula(Opcode opcode);

namespace {

template <class T, T (*kFunction)(T, T)>
void BinaryFunctionLoop(const BlockArgs& args) {
  const T* a = static_cast<const T*>(args.in[0]);
  const T* b = static_cast<const T*>(args.in[1]);
  T* out = static_cast<T*>(args.out);
  for (int64_t i = 0; i < args.n; ++i) out[i] = Settled(kFunction(a[i], b[i]));
}

float RemainderF32(float x, float y) { return std::fmod(x, y); }

}  // namespace

BlockFn FindFormulaBlock(const BlockKey& key) {
  if (key.uniform != 0) return nullptr;
  if (key.type == ElementType::kF64) {
    if (key.opcode == Opcode::kRemainder) return &BinaryFunctionLoop<double, scalar::Remainder>;
    return FindF64Formula(key.opcode);
  }
  if (key.type != ElementType::kF32) return nullptr;
  if (key.opcode == Opcode::kRemainder) return &BinaryFunctionLoop<float, RemainderF32>;
  return FindF32Formula(key.opcode);
}

}  // namespace krafla::cpu
