// SPDX-License-Identifier: Apache-2.0
// Fourier transforms and dense linear algebra: one instruction a kernel.
#include <cmath>

#include "plan/kernel_builder.h"

namespace krafla::plan {
namespace {

// Offsets in kernels are 32-bit, also in pairs of numbers and in buffers padded to a power of two.
constexpr int64_t kMostElements = int64_t{1} << 28;

bool StaticArray(const Shape& shape) {
  return shape.IsArray() && !shape.IsDynamic() && shape.element_count() < kMostElements;
}

// Arrays with elements, unless nothing is computed.
bool StaticOperands(const Instruction& i) {
  int64_t computed = 0;
  for (const Shape* s : TupleLeaves(i.shape())) {
    if (!StaticArray(*s)) return false;
    computed += s->element_count();
  }
  for (const Instruction* o : i.operands())
    if (!StaticArray(o->shape()) || (computed > 0 && o->shape().element_count() == 0)) return false;
  return true;
}

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
bool IsTaus(const Shape& taus, const Shape& a) { return AreVectors(taus, a, a.element_type()); }

std::optional<LinalgKernel::Op> OpOf(const Instruction& i) {
  if (i.opcode() == Opcode::kCholesky) return LinalgKernel::Op::kCholesky;
  if (i.opcode() == Opcode::kTriangularSolve) return LinalgKernel::Op::kTriangularSolve;
  if (i.opcode() != Opcode::kCustomCall || i.operand_count() == 0 || !i.operand(0)->shape().IsArray()) return std::nullopt;
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
  if (target == "ProductOfElementaryHouseholderReflectors" && i.operand_count() == 2 && SameArray(i.shape(), a) &&
      IsTaus(i.operand(1)->shape(), a) && i.operand(1)->shape().dims().back() <= least)
    return LinalgKernel::Op::kHouseholderProduct;
  return std::nullopt;
}

}  // namespace

bool KernelBuilder::TakesFft(const Instruction& i) { return StaticOperands(i); }

Result<BuiltKernel> KernelBuilder::BuildFft() {
  const Instruction& hero = *group_.heroes[0];
  const auto& attributes = hero.attr<FftAttributes>();
  KRAFLA_TRY(BindOperandsAndResults());
  FftKernel kernel;
  kernel.type = attributes.type;
  kernel.real = RealPart(hero.shape().element_type());
  kernel.lengths = attributes.length;
  for (int64_t d = 0; d + attributes.length.ssize() < hero.shape().rank(); ++d) kernel.batch *= hero.shape().dim(d);
  const auto points = static_cast<double>(hero.shape().element_count());
  out_.kernel.flops = 5 * points * std::log2(points + 1);
  out_.kernel.body = std::move(kernel);
  return std::move(out_);
}

bool KernelBuilder::TakesLinalg(const Instruction& i) {
  return OpOf(i).has_value() && StaticOperands(i) && IsMatrixType(i.operand(0)->shape().element_type());
}

Result<BuiltKernel> KernelBuilder::BuildLinalg() {
  const Instruction& hero = *group_.heroes[0];
  KRAFLA_TRY(BindOperandsAndResults());
  LinalgKernel kernel;
  kernel.op = *OpOf(hero);
  const Shape& shape = hero.shape().IsTuple() ? hero.shape().tuple_elements()[0] : hero.shape();
  kernel.type = shape.element_type();
  kernel.rows = shape.dim(shape.rank() - 2);
  kernel.columns = shape.dim(shape.rank() - 1);
  for (int64_t d = 0; d + 2 < shape.rank(); ++d) kernel.batch *= shape.dim(d);
  auto inner = static_cast<double>(std::min(kernel.rows, kernel.columns));
  if (kernel.op == LinalgKernel::Op::kCholesky) {
    kernel.lower = hero.attr<CholeskyAttributes>().lower;
    inner /= 3;
  } else if (kernel.op == LinalgKernel::Op::kTriangularSolve) {
    const auto& a = hero.attr<TriangularSolveAttributes>();
    kernel.lower = a.lower;
    kernel.left_side = a.left_side;
    kernel.unit_diagonal = a.unit_diagonal;
    kernel.transpose = a.transpose_a;
    inner = static_cast<double>(a.left_side ? kernel.rows : kernel.columns);
  } else if (kernel.op != LinalgKernel::Op::kLu) {
    const Shape& taus =
        kernel.op == LinalgKernel::Op::kQr ? hero.shape().tuple_elements()[1] : hero.operand(1)->shape();
    kernel.reflectors = taus.dims().back();
    inner *= 2;
  }
  out_.kernel.flops = static_cast<double>(shape.element_count()) * inner * (IsComplex(kernel.type) ? 4 : 1);
  out_.kernel.body = kernel;
  return std::move(out_);
}

}  // namespace krafla::plan
