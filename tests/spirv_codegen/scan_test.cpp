// SPDX-License-Identifier: Apache-2.0
#include "test_kernels.h"

namespace krafla::spirv::testing {
namespace {

using plan::ProgramBuilder;

plan::KernelPlan Scan(Dims dims, int dimension, bool is_reverse, ElementType type, Opcode opcode, int64_t init) {
  plan::ScanKernel k;
  int64_t count = 1;
  for (int64_t d : dims) count *= d;
  k.dims = dims;
  k.dimension = dimension;
  k.is_reverse = is_reverse;
  k.type = type;
  k.reduction.hlo_type = type;
  k.reduction.kind = opcode == Opcode::kAdd        ? plan::Reduction::Kind::kSum
                     : opcode == Opcode::kMaximum  ? plan::Reduction::Kind::kMax
                     : opcode == Opcode::kMultiply ? plan::Reduction::Kind::kProduct
                                                   : plan::Reduction::Kind::kOther;
  const ElementType c = plan::ComputeType(type);
  ProgramBuilder combiner({});
  combiner.AddResult(combiner.Hlo(opcode, type, {combiner.Param(c, 0, 0), combiner.Param(c, 1, 0)}));
  k.reduction.combiner = std::move(combiner).Finish();
  ProgramBuilder start({});
  start.AddResult(IsFloat(c) ? start.ConstantFloat(c, static_cast<double>(init)) : start.ConstantInt(c, init));
  k.reduction.init = std::move(start).Finish();
  plan::KernelPlan plan;
  plan.bindings = {{type, count, true, false}, {type, count, false, true}};
  plan.name = Format("scan.{}.{}{}", ElementTypeName(type), count, is_reverse ? ".reverse" : "");
  plan.body = std::move(k);
  return plan;
}

TEST(ScanTest, LengthsDimensionsAndDirections) {
  for (bool reverse : {false, true}) {
    for (int64_t n : {1, 2, 9, 64, 1000}) CheckOnIntegers(Scan({n}, 0, reverse, ElementType::kS32, Opcode::kAdd, 5));
    CheckOnIntegers(Scan({7, 40}, 1, reverse, ElementType::kF32, Opcode::kAdd, 0));
    CheckOnIntegers(Scan({40, 7}, 0, reverse, ElementType::kF32, Opcode::kAdd, 1));
    CheckOnIntegers(Scan({3, 20, 33}, 1, reverse, ElementType::kF32, Opcode::kMaximum, -2));
  }
}

TEST(ScanTest, Types) {
  for (ElementType type : {ElementType::kS8, ElementType::kU8, ElementType::kS16, ElementType::kU32, ElementType::kS64,
                           ElementType::kU64, ElementType::kF16, ElementType::kBF16, ElementType::kF64}) {
    CheckOnIntegers(Scan({5, 30}, 1, false, type, Opcode::kAdd, 1));
  }
  const plan::KernelPlan corners = Scan({9, 30}, 0, true, ElementType::kF32, Opcode::kMaximum, 0);
  CheckKernel(corners, CornerMemory(corners));
}

// Few lines, in chunks.
TEST(ScanTest, LongLines) {
  for (bool reverse : {false, true}) {
    CheckOnIntegers(Scan({5003}, 0, reverse, ElementType::kF32, Opcode::kAdd, 7));
    CheckOnIntegers(Scan({3, 4500}, 1, reverse, ElementType::kS64, Opcode::kAdd, 7));
    CheckOnIntegers(Scan({4500, 3}, 0, reverse, ElementType::kS8, Opcode::kMaximum, -3));
    // Totals of totals.
    CheckOnIntegers(Scan({70'003}, 0, reverse, ElementType::kF32, Opcode::kAdd, 7));
    CheckOnIntegers(Scan({2, 40'000}, 1, reverse, ElementType::kS32, Opcode::kMaximum, 0));
  }
}

// Not associative: only the order from the start is right.
TEST(ScanTest, AnyComputationInOrder) {
  CheckOnIntegers(Scan({4, 50}, 1, false, ElementType::kS32, Opcode::kSubtract, 3));
  CheckOnIntegers(Scan({4, 50}, 1, true, ElementType::kS32, Opcode::kSubtract, 3));
  // In stretches, a dispatch each.
  CheckOnIntegers(Scan({2, 140'000}, 1, true, ElementType::kS32, Opcode::kSubtract, 3));
}

}  // namespace
}  // namespace krafla::spirv::testing
