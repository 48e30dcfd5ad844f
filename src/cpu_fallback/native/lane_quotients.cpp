// SPDX-License-Identifier: Apache-2.0
// Whole numbers divided by a constant, as the bytes of a picture are by 255: a product with the constant's reciprocal,
// mended. For z = 1 / b, rounded, q = a z is at most 1.5 units in the last place away from a / b, the remainder a - q b
// is exact, and q + (a - q b) z, rounded once, is a / b, rounded (Markstein, "Computation of elementary functions on
// the IBM RISC System/6000 processor", 1990). It is so for all pairs of significands of 24 bits: where it could fail, a
// / b is so close to the middle between two floats that there are a few such a for each b, and all of those have been
// tried (NativeQuotients.MendedProductsAreQuotients). Of other numbers sizes would have to be asked for, which costs
// more than the division.
#include <bit>

#include "cpu_fallback/native/lane_builder.h"
#include "cpu_fallback/native/native_code.h"

namespace krafla::cpu::native {

namespace {

// Between these sizes no product of a number up to 2^64 overflows or is subnormal, nor a remainder.
constexpr uint32_t kLeastDivisor = (127u - 30) << 23, kMostDivisor = (127u + 30) << 23;

}  // namespace

int LaneBuilder::FloatQuotient(ElementType type, int a, int b) {
  const LaneNode divisor = node(b);
  const auto bits = static_cast<uint32_t>(divisor.bits), size = bits & 0x7fffffffu;
  if (type != ElementType::kF32 || divisor.op != LaneOp::kConstant || size < kLeastDivisor || size > kMostDivisor)
    return Add(LaneOp::kDiv, type, a, b);
  const int reciprocal = Constant(type, std::bit_cast<uint32_t>(1.0f / std::bit_cast<float>(bits)));
  // By a power of two: exact, whatever is divided.
  if ((size & 0x7fffffu) == 0) return Add(LaneOp::kMul, type, a, reciprocal);
  if (node(a).op != LaneOp::kIntToFloat || lanes_ > 0 || !HasAvx512Code()) return Add(LaneOp::kDiv, type, a, b);
  return Add(LaneOp::kQuotient, type, a, b, reciprocal);
}

}  // namespace krafla::cpu::native
