// SPDX-License-Identifier: Apache-2.0
// Dense linear algebra: one instruction per kernel.
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

bool SameArray(const Shape& a, const Shape& b) {
  return a.IsArray() && b.IsArray() && a.element_type() == b.element_type() && a.dims() == b.dims();
}

// Of vectors that belong to the matrices of `a`.
bool AreVectors(const Shape& taus, const Shape& a, ElementType type) {
  if (!taus.IsArray() || taus.element_type() != type || taus.rank() != a.rank() - 1) return false;
  for (int64_t d = 0; d + 2 < a.rank(); ++d)
    if (taus.dim(d) != a.dim(d)) return false;
  return true;
}
// Of matrices of the batch of `a`.
bool AreMatrices(const Shape& m, const Shape& a, int64_t rows, int64_t columns) {
  if (!m.IsArray() || m.element_type() != a.element_type() || m.rank() != a.rank()) return false;
  for (int64_t d = 0; d + 2 < a.rank(); ++d)
    if (m.dim(d) != a.dim(d)) return false;
  return m.dim(m.rank() - 2) == rows && m.dim(m.rank() - 1) == columns;
}
bool IsTaus(const Shape& taus, const Shape& a) { return AreVectors(taus, a, a.element_type()); }

std::optional<LinalgKernel::Op> OpOf(const Instruction& i) {
  if (i.opcode() == Opcode::kCholesky) return LinalgKernel::Op::kCholesky;
  if (i.opcode() == Opcode::kTriangularSolve) return LinalgKernel::Op::kTriangularSolve;
  if (i.opcode() != Opcode::kCustomCall || i.operand_count() == 0 || !i.operand(0)->shape().IsArray())
    return std::nullopt;
  const std::string& target = i.attr<CustomCallAttributes>().target;
  const Shape& a = i.operand(0)->shape();
  if (a.rank() < 2) return std::nullopt;
  const int64_t least = std::min(a.dim(a.rank() - 1), a.dim(a.rank() - 2));
  if (target == "Qr" && i.operand_count() == 1 && i.shape().IsTuple()) {
    const auto& leaves = i.shape().tuple_elements();
    if (leaves.size() == 2 && SameArray(leaves[0], a) && IsTaus(leaves[1], a) && leaves[1].dims().back() == least)
      return LinalgKernel::Op::kQr;
  }
  if (target == "LuDecomposition" && i.operand_count() == 1 && i.shape().IsTuple()) {
    const auto& leaves = i.shape().tuple_elements();
    if (leaves.size() == 3 && SameArray(leaves[0], a) && AreVectors(leaves[1], a, ElementType::kS32) &&
        leaves[1].dims().back() == least && AreVectors(leaves[2], a, ElementType::kS32) &&
        leaves[2].dims().back() == a.dim(a.rank() - 2))
      return LinalgKernel::Op::kLu;
  }
  const int64_t rows = a.dim(a.rank() - 2), columns = a.dim(a.rank() - 1);
  if (target == "Eigh" && i.operand_count() == 1 && i.shape().IsTuple()) {
    const auto& leaves = i.shape().tuple_elements();
    if (rows == columns && leaves.size() == 2 && SameArray(leaves[0], a) &&
        AreVectors(leaves[1], a, RealPart(a.element_type())) && leaves[1].dims().back() == columns)
      return LinalgKernel::Op::kEigh;
  }
  if (target == "krafla_svd" && i.operand_count() == 1) {
    const auto& leaves = i.shape().tuple_elements();
    const Shape& values = i.shape().IsTuple() && leaves.size() == 3 ? leaves[0] : i.shape();
    if (AreVectors(values, a, RealPart(a.element_type())) && values.dims().back() == least &&
        (!i.shape().IsTuple() ||
         (AreMatrices(leaves[1], a, rows, least) && AreMatrices(leaves[2], a, least, columns)) ||
         (AreMatrices(leaves[1], a, rows, rows) && AreMatrices(leaves[2], a, columns, columns))))
      return LinalgKernel::Op::kSvd;
  }
  if (target == "ProductOfElementaryHouseholderReflectors" && i.operand_count() == 2 && SameArray(i.shape(), a) &&
      IsTaus(i.operand(1)->shape(), a) && i.operand(1)->shape().dims().back() <= least)
    return LinalgKernel::Op::kHouseholderProduct;
  return std::nullopt;
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
