// SPDX-License-Identifier: Apache-2.0
// Which shapes the custom calls of the table turn into which, with XLA's expanders as the source (qr_expander.cc,
// self_adjoint_eig.cc, and the files that the evaluator names).
#include <algorithm>

#include "ir/custom_call.h"
#include "ir/shape_rules.h"

namespace krafla {
namespace {

// Equal types and bounds; which of the dimensions are dynamic may differ.
bool SameArrays(const Shape& a, const Shape& b) {
  if (a.IsTuple() != b.IsTuple() || a.element_type() != b.element_type()) return false;
  if (!a.IsTuple()) return a.dims() == b.dims();
  return std::ranges::equal(a.tuple_elements(), b.tuple_elements(), SameArrays);
}

// Whether HLO's own operation on the operands of `call` gives what the call does.
bool Gives(const Instruction& call, Opcode opcode, const Attributes& attributes) {
  std::vector<const Shape*> operands;
  for (const Instruction* o : call.operands()) operands.push_back(&o->shape());
  auto inferred = InferShape({.opcode = opcode, .operands = operands, .attributes = attributes});
  return inferred && SameArrays(*inferred, call.shape());
}

bool IsMatrixOf(const Shape& shape) {
  return shape.IsArray() && shape.rank() >= 2 && (IsFloat(shape.element_type()) || IsComplex(shape.element_type()));
}

// `taus` has one number for each of at most min(m, n) columns of each of the matrices; exactly as many if `all`.
bool AreTausOf(const Shape& taus, const Shape& matrices, bool all) {
  if (!taus.IsArray() || taus.element_type() != matrices.element_type() || taus.rank() != matrices.rank() - 1)
    return false;
  for (int64_t d = 0; d + 1 < taus.rank(); ++d)
    if (taus.dim(d) != matrices.dim(d)) return false;
  const int64_t most = std::min(matrices.dim(matrices.rank() - 2), matrices.dim(matrices.rank() - 1));
  const int64_t count = taus.dim(taus.rank() - 1);
  return all ? count == most : count <= most;
}

// `vector` has `count` elements for each of the matrices.
bool AreVectorsOf(const Shape& vector, ElementType type, const Shape& matrices, int64_t count) {
  if (!vector.IsArray() || vector.element_type() != type || vector.rank() != matrices.rank() - 1) return false;
  for (int64_t d = 0; d + 1 < vector.rank(); ++d)
    if (vector.dim(d) != matrices.dim(d)) return false;
  return vector.dim(vector.rank() - 1) == count;
}

// `m` has a rows x columns matrix for each of the matrices.
bool AreMatricesOf(const Shape& m, const Shape& matrices, int64_t rows, int64_t columns) {
  if (!m.IsArray() || m.element_type() != matrices.element_type() || m.rank() != matrices.rank()) return false;
  for (int64_t d = 0; d + 2 < m.rank(); ++d)
    if (m.dim(d) != matrices.dim(d)) return false;
  return m.dim(m.rank() - 2) == rows && m.dim(m.rank() - 1) == columns;
}

bool IsSize(const Shape& shape) { return shape.IsScalar() && shape.element_type() == ElementType::kS32; }

// The operand itself; of several operands a tuple of as many results, element by element.
bool GivesOperands(const Instruction& call) {
  const Shape& result = call.shape();
  const auto operands = call.operands();
  if (operands.size() == 1 && SameArrays(operands[0]->shape(), result)) return true;
  return result.IsTuple() && !operands.empty() &&
         std::ranges::equal(operands, result.tuple_elements(),
                            [](const Instruction* o, const Shape& r) { return SameArrays(o->shape(), r); });
}

bool FitsTopK(const Instruction& call) {
  const std::vector<Shape>& results = call.shape().tuple_elements();
  if (call.operand_count() != 1 || results.empty() || !results[0].IsArray() || results[0].rank() == 0) return false;
  return Gives(call, Opcode::kTopK, TopKAttributes{.k = results[0].dims().back()});
}

// Sides and transposes, which the configuration says, matter to the shapes of the operands only.
bool FitsLapackSolve(const Instruction& call) {
  const auto solves = [&](bool left) {
    return Gives(call, Opcode::kTriangularSolve, TriangularSolveAttributes{.left_side = left});
  };
  return call.operand_count() == 2 && (solves(true) || solves(false));
}

// L and U in one matrix, the rows that each row was exchanged with, and where each row went.
bool FitsLu(const Shape& a, const std::vector<Shape>& results) {
  const int64_t rows = a.dim(a.rank() - 2), columns = a.dim(a.rank() - 1);
  return results.size() == 3 && SameArrays(results[0], a) &&
         AreVectorsOf(results[1], ElementType::kS32, a, std::min(rows, columns)) &&
         AreVectorsOf(results[2], ElementType::kS32, a, rows);
}

// Eigenvectors and eigenvalues of square matrices.
bool FitsEigh(const Shape& a, const std::vector<Shape>& results) {
  const int64_t n = a.dim(a.rank() - 1);
  return results.size() == 2 && a.dim(a.rank() - 2) == n && SameArrays(results[0], a) &&
         AreVectorsOf(results[1], RealPart(a.element_type()), a, n);
}

// Singular values, or a tuple of them, the left and the right singular vectors: as many as values, or all.
bool FitsSvd(const Shape& a, const Shape& result) {
  const std::vector<Shape>& results = result.tuple_elements();
  if (result.IsTuple() && results.size() != 3) return false;
  const int64_t rows = a.dim(a.rank() - 2), columns = a.dim(a.rank() - 1), least = std::min(rows, columns);
  if (!AreVectorsOf(result.IsTuple() ? results[0] : result, RealPart(a.element_type()), a, least)) return false;
  return !result.IsTuple() ||
         (AreMatricesOf(results[1], a, rows, least) && AreMatricesOf(results[2], a, least, columns)) ||
         (AreMatricesOf(results[1], a, rows, rows) && AreMatricesOf(results[2], a, columns, columns));
}

// An array, and its size in each dimension.
bool FitsPadToStatic(const Instruction& call) {
  const std::vector<Shape>& results = call.shape().tuple_elements();
  if (call.operand_count() != 1) return false;
  const Shape& array = call.operand(0)->shape();
  return array.IsArray() && std::ssize(results) == array.rank() + 1 && SameArrays(results[0], array) &&
         std::ranges::all_of(results.begin() + 1, results.end(), IsSize);
}

bool FitsSliceToDynamic(const Instruction& call) {
  const auto operands = call.operands();
  return call.shape().IsArray() && std::ssize(operands) == call.shape().rank() + 1 &&
         SameArrays(operands[0]->shape(), call.shape()) &&
         std::all_of(operands.begin() + 1, operands.end(), [](const Instruction* o) { return IsSize(o->shape()); });
}

bool TakesMatrices(const Instruction& call, std::size_t operands) {
  return call.operand_count() == operands && IsMatrixOf(call.operand(0)->shape());
}

}  // namespace

bool CustomCallShapesFit(const Instruction& call) {
  const Shape& result = call.shape();
  const std::vector<Shape>& results = result.tuple_elements();
  switch (CustomCallTargetOf(call)) {
#define KRAFLA_ANNOTATION(Enum, name) case CustomCallTarget::Enum:
#define KRAFLA_SDY_OTHER(Enum, name) case CustomCallTarget::Enum:
#include "ir/custom_call_targets.def"
    return GivesOperands(call);
#define KRAFLA_SINK(Enum, name) case CustomCallTarget::Enum:
#include "ir/custom_call_targets.def"
    return result.IsTuple() && results.empty();
#define KRAFLA_LAPACK_SOLVE(Enum, name) case CustomCallTarget::Enum:
#include "ir/custom_call_targets.def"
    return FitsLapackSolve(call);
    case CustomCallTarget::kTopK: return FitsTopK(call);
    case CustomCallTarget::kLuDecomposition: return TakesMatrices(call, 1) && FitsLu(call.operand(0)->shape(), results);
    case CustomCallTarget::kEigh: return TakesMatrices(call, 1) && FitsEigh(call.operand(0)->shape(), results);
    case CustomCallTarget::kSvd: return TakesMatrices(call, 1) && FitsSvd(call.operand(0)->shape(), result);
    case CustomCallTarget::kQr:
      return TakesMatrices(call, 1) && results.size() == 2 && SameArrays(results[0], call.operand(0)->shape()) &&
             AreTausOf(results[1], call.operand(0)->shape(), true);
    case CustomCallTarget::kHouseholderProduct:
      return TakesMatrices(call, 2) && SameArrays(result, call.operand(0)->shape()) &&
             AreTausOf(call.operand(1)->shape(), call.operand(0)->shape(), false);
    case CustomCallTarget::kPadToStatic: return FitsPadToStatic(call);
    case CustomCallTarget::kSliceToDynamic: return FitsSliceToDynamic(call);
#define KRAFLA_READER_CALL(Enum, name) case CustomCallTarget::Enum:
#include "ir/custom_call_targets.def"
    case CustomCallTarget::kUnknown: return true;
  }
  KRAFLA_UNREACHABLE();
}

Result<> CheckBuiltInCustomCall(const Instruction& call) {
  if (CustomCallShapesFit(call)) return {};
  std::string operands;
  for (const Instruction* o : call.operands())
    operands += Format("{}{}", operands.empty() ? "" : ", ", o->shape().ToString(false));
  return InvalidArgument("{0}: The custom call '{1}' on one device does not turn ({3}) into {2}.", Describe(call),
                         call.attr<CustomCallAttributes>().target, call.shape().ToString(false), operands);
}

int64_t BatchRankOfCustomCall(const Instruction& call) {
  const auto all_but = [&](int64_t last) {
    return CustomCallShapesFit(call) ? call.operand(0)->shape().rank() - last : 0;
  };
  switch (CustomCallTargetOf(call)) {
#define KRAFLA_DECOMPOSITION(Enum, name) case CustomCallTarget::Enum:
#define KRAFLA_LAPACK_SOLVE(Enum, name) case CustomCallTarget::Enum:
#include "ir/custom_call_targets.def"
    return all_but(2);
    case CustomCallTarget::kTopK: return all_but(1);
    case CustomCallTarget::kPadToStatic:
    case CustomCallTarget::kSliceToDynamic:
#define KRAFLA_CUSTOM_CALL(Enum, name) case CustomCallTarget::Enum:
#define KRAFLA_COMPUTATION(Enum, name)  // each of them has its line
#include "ir/custom_call_targets.def"
    case CustomCallTarget::kUnknown: return 0;
  }
  KRAFLA_UNREACHABLE();
}

}  // namespace krafla
