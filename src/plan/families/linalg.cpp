// SPDX-License-Identifier: Apache-2.0
// Dense linear algebra: one instruction per kernel.
#include "ir/custom_call.h"
#include "ir/eigh_config.h"
#include "plan/families/accepts.h"
#include "plan/families/static_operands.h"
#include "plan/kernel_builder.h"

namespace krafla::plan {
namespace {

bool IsMatrixType(ElementType t) {
  return t == ElementType::kF16 || t == ElementType::kBF16 || t == ElementType::kF32 || t == ElementType::kF64 ||
         IsComplex(t);
}

std::optional<LinalgKernel::Op> OpOfCustomCall(const Instruction& i) {
  switch (CustomCallTargetOf(i)) {
    case CustomCallTarget::kLuDecomposition: return LinalgKernel::Op::kLu;
    case CustomCallTarget::kEigh: return LinalgKernel::Op::kEigh;
    case CustomCallTarget::kSvd: return LinalgKernel::Op::kSvd;
    case CustomCallTarget::kQr: return LinalgKernel::Op::kQr;
    case CustomCallTarget::kHouseholderProduct: return LinalgKernel::Op::kHouseholderProduct;
    case CustomCallTarget::kTopK:
    case CustomCallTarget::kPadToStatic:
    case CustomCallTarget::kSliceToDynamic:
#define KRAFLA_CUSTOM_CALL(Enum, name) case CustomCallTarget::Enum:
#define KRAFLA_COMPUTATION(Enum, name)  // each of them has its line
#define KRAFLA_LAPACK_SOLVE(Enum, name) case CustomCallTarget::Enum:
#include "ir/custom_call_targets.def"
    case CustomCallTarget::kUnknown: return std::nullopt;
  }
  KRAFLA_UNREACHABLE();
}

std::optional<LinalgKernel::Op> OpOf(const Instruction& i) {
  if (i.opcode() == Opcode::kCholesky) return LinalgKernel::Op::kCholesky;
  if (i.opcode() == Opcode::kTriangularSolve) return LinalgKernel::Op::kTriangularSolve;
  return CustomCallShapesFit(i) ? OpOfCustomCall(i) : std::nullopt;
}

}  // namespace

bool TakesLinalg(const Instruction& i) {
  return OpOf(i).has_value() && HasStaticOperands(i) && IsMatrixType(i.operand(0)->shape().element_type());
}

Result<BuiltKernel> KernelBuilder::BuildLinalg() {
  const Instruction& hero = *group_.heroes[0];
  KRAFLA_TRY(BindOperandsAndResults());
  LinalgKernel kernel;
  kernel.op = *OpOf(hero);
  const Shape& shape = kernel.op == LinalgKernel::Op::kSvd ? hero.operand(0)->shape()
                       : hero.shape().IsTuple()            ? hero.shape().tuple_elements()[0]
                                                           : hero.shape();
  kernel.type = shape.element_type();
  kernel.rows = shape.dim(shape.rank() - 2);
  kernel.columns = shape.dim(shape.rank() - 1);
  for (int64_t d = 0; d + 2 < shape.rank(); ++d) kernel.batch *= shape.dim(d);
  auto inner = static_cast<double>(std::min(kernel.rows, kernel.columns));
  const auto reflectors = [&](const Shape& taus) {
    kernel.reflectors = taus.dims().back();
    inner *= 2;
  };
  switch (kernel.op) {
    case LinalgKernel::Op::kCholesky:
      kernel.lower = hero.attr<CholeskyAttributes>().lower;
      inner /= 3;
      break;
    case LinalgKernel::Op::kTriangularSolve: {
      const auto& a = hero.attr<TriangularSolveAttributes>();
      kernel.lower = a.lower;
      kernel.left_side = a.left_side;
      kernel.unit_diagonal = a.unit_diagonal;
      kernel.transpose = a.transpose_a;
      inner = static_cast<double>(a.left_side ? kernel.rows : kernel.columns);
      break;
    }
    case LinalgKernel::Op::kLu: break;
    case LinalgKernel::Op::kQr: reflectors(hero.shape().tuple_elements()[1]); break;
    case LinalgKernel::Op::kHouseholderProduct: reflectors(hero.operand(1)->shape()); break;
    case LinalgKernel::Op::kEigh:
      kernel.lower = EighReadsLower(hero.metadata().backend_config);
      inner *= 10;
      break;
    case LinalgKernel::Op::kSvd: {
      const auto& results = hero.shape().tuple_elements();
      kernel.vectors = hero.shape().IsTuple();
      kernel.full = kernel.vectors && results[1].dims().back() == kernel.rows &&
                    results[2].dim(results[2].rank() - 2) == kernel.columns;
      inner *= kernel.vectors ? 20 : 4;
      break;
    }
  }
  out_.kernel.flops = static_cast<double>(shape.element_count()) * inner * (IsComplex(kernel.type) ? 4 : 1);
  out_.kernel.body = kernel;
  return std::move(out_);
}

}  // namespace krafla::plan
