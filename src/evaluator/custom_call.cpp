// SPDX-License-Identifier: Apache-2.0
#include "evaluator/custom_call.h"

#include <algorithm>
#include <string_view>

#include "evaluator/context.h"
#include "ir/shape_rules.h"

namespace krafla::evaluator {

namespace {

constexpr std::string_view kBuiltIn[] = {
    // Marks for the partitioner: on one device the operand itself.
    "Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "LayoutConstraint", "annotate_device_placement",
    "MoveToHost", "MoveToDevice", "xla.sdy.*",
    // Computations.
    "TopK", "LuDecomposition", "Eigh", "krafla_svd", "Qr", "ProductOfElementaryHouseholderReflectors",
    "lapack_strsm_ffi", "lapack_dtrsm_ffi", "lapack_ctrsm_ffi", "lapack_ztrsm_ffi", "PadToStatic", "SliceToDynamic",
    // These give nothing: JAX's lax.dce_sink, which keeps what it is given from being removed; what is sharded alike;
    // in
    // what order operations run best.
    "dce_sink", "xla.sdy.ShardingGroup", "control_dep"};
constexpr std::size_t kMarks = 8, kEmpty = 3;

bool IsAmong(std::string_view target, std::span<const std::string_view> names) {
  for (std::string_view name : names)
    if (name.ends_with('*') ? target.starts_with(name.substr(0, name.size() - 1)) : target == name) return true;
  return false;
}

bool GivesNothing(std::string_view target) { return IsAmong(target, std::span(kBuiltIn).last(kEmpty)); }

bool IsIdentity(std::string_view target) {
  return IsAmong(target, std::span(kBuiltIn).first(kMarks)) && !GivesNothing(target);
}

bool IsLapackSolve(std::string_view target) {
  return target == "lapack_strsm_ffi" || target == "lapack_dtrsm_ffi" || target == "lapack_ctrsm_ffi" ||
         target == "lapack_ztrsm_ffi";
}

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

// What CheckBuiltInCustomCall asks.
bool ShapesFit(const Instruction& call) {
  const std::string& target = call.attr<CustomCallAttributes>().target;
  const Shape& result = call.shape();
  const std::vector<Shape>& results = result.tuple_elements();
  const auto operands = call.operands();
  if (IsIdentity(target)) {
    // Several operands and a tuple of as many results: element by element.
    if (operands.size() == 1 && SameArrays(operands[0]->shape(), result)) return true;
    return result.IsTuple() && !operands.empty() &&
           std::ranges::equal(operands, results,
                              [](const Instruction* o, const Shape& r) { return SameArrays(o->shape(), r); });
  }
  if (GivesNothing(target)) return result.IsTuple() && results.empty();
  if (target == "TopK") {
    if (operands.size() != 1 || results.empty() || !results[0].IsArray() || results[0].rank() == 0) return false;
    return Gives(call, Opcode::kTopK, TopKAttributes{.k = results[0].dims().back()});
  }
  // Sides and transposes, which the configuration says, matter to the shapes of the operands only.
  if (IsLapackSolve(target)) {
    auto solves = [&](bool left) {
      return Gives(call, Opcode::kTriangularSolve, TriangularSolveAttributes{.left_side = left});
    };
    return operands.size() == 2 && (solves(true) || solves(false));
  }
  if (target == "LuDecomposition") {
    if (operands.size() != 1 || !IsMatrixOf(operands[0]->shape()) || results.size() != 3) return false;
    const Shape& a = operands[0]->shape();
    const int64_t rows = a.dim(a.rank() - 2), columns = a.dim(a.rank() - 1);
    return SameArrays(results[0], a) && AreVectorsOf(results[1], ElementType::kS32, a, std::min(rows, columns)) &&
           AreVectorsOf(results[2], ElementType::kS32, a, rows);
  }
  if (target == "Eigh") {
    if (operands.size() != 1 || !IsMatrixOf(operands[0]->shape()) || results.size() != 2) return false;
    const Shape& a = operands[0]->shape();
    const int64_t n = a.dim(a.rank() - 1);
    return a.dim(a.rank() - 2) == n && SameArrays(results[0], a) &&
           AreVectorsOf(results[1], RealPart(a.element_type()), a, n);
  }
  if (target == "krafla_svd") {
    if (operands.size() != 1 || !IsMatrixOf(operands[0]->shape()) || (result.IsTuple() && results.size() != 3))
      return false;
    const Shape& a = operands[0]->shape();
    const int64_t rows = a.dim(a.rank() - 2), columns = a.dim(a.rank() - 1), least = std::min(rows, columns);
    if (!AreVectorsOf(result.IsTuple() ? results[0] : result, RealPart(a.element_type()), a, least)) return false;
    return !result.IsTuple() ||
           (AreMatricesOf(results[1], a, rows, least) && AreMatricesOf(results[2], a, least, columns)) ||
           (AreMatricesOf(results[1], a, rows, rows) && AreMatricesOf(results[2], a, columns, columns));
  }
  if (target == "Qr")
    return operands.size() == 1 && IsMatrixOf(operands[0]->shape()) && results.size() == 2 &&
           SameArrays(results[0], operands[0]->shape()) && AreTausOf(results[1], operands[0]->shape(), true);
  if (target == "ProductOfElementaryHouseholderReflectors")
    return operands.size() == 2 && IsMatrixOf(operands[0]->shape()) && SameArrays(result, operands[0]->shape()) &&
           AreTausOf(operands[1]->shape(), operands[0]->shape(), false);
  if (target == "PadToStatic")
    return operands.size() == 1 && operands[0]->shape().IsArray() &&
           std::ssize(results) == operands[0]->shape().rank() + 1 && SameArrays(results[0], operands[0]->shape()) &&
           std::ranges::all_of(results.begin() + 1, results.end(), IsSize);
  if (target == "SliceToDynamic")
    return result.IsArray() && std::ssize(operands) == result.rank() + 1 && SameArrays(operands[0]->shape(), result) &&
           std::all_of(operands.begin() + 1, operands.end(), [](const Instruction* o) { return IsSize(o->shape()); });
  return true;
}

// An array that is all of its bound, and its sizes.
Result<Value> PadToStatic(Context& context, const Instruction& i, const Value& x) {
  const auto& results = i.shape().tuple_elements();
  if (!x.is_array() || static_cast<int64_t>(results.size()) != x.shape().rank() + 1 ||
      !Accepts(i.operand(0)->shape(), x.shape()) || results[0].rank() != x.shape().rank() ||
      results[0].element_type() != x.shape().element_type())
    return InvalidArgument("PadToStatic takes one array and returns it with a size for each dimension, not {}.",
                           i.shape().ToString(false));
  std::vector<Value> out;
  Shape bounds = results[0].WithStaticDims();
  bounds.ClearLayout();
  KRAFLA_ASSIGN(Value whole, LeadingPart(context, x.array(), bounds));
  out.push_back(std::move(whole));
  for (int64_t d = 0; d < x.shape().rank(); ++d) {
    KRAFLA_ASSIGN(Literal size, Literal::Create(Shape::MakeScalar(ElementType::kS32)));
    size.data<int32_t>()[0] = static_cast<int32_t>(x.shape().dim(d));
    out.push_back(Value::Own(std::move(size)));
  }
  return Value::Tuple(std::move(out));
}

Result<Value> SliceToDynamic(Context& context, const Instruction& i, Operands operands) {
  bool fits = !operands.empty() && operands[0].is_array() && i.shape().IsArray() &&
              i.shape().element_type() == operands[0].shape().element_type() &&
              i.shape().rank() == operands[0].shape().rank() &&
              static_cast<int64_t>(operands.size()) == i.shape().rank() + 1;
  for (std::size_t n = 1; fits && n < operands.size(); ++n)
    fits = operands[n].is_array() && operands[n].shape().IsScalar() &&
           operands[n].shape().element_type() == ElementType::kS32;
  if (!fits)
    return InvalidArgument("SliceToDynamic takes an array and an s32[] size for each dimension; it cannot return {}.",
                           i.shape().ToString(false));
  Dims dims;
  for (int64_t d = 0; d < i.shape().rank(); ++d) {
    const int64_t size = operands[static_cast<std::size_t>(d) + 1].array().data<int32_t>()[0];
    dims.push_back(i.shape().IsDynamicDim(d) ? std::clamp<int64_t>(size, 0, i.shape().dim(d)) : i.shape().dim(d));
  }
  KRAFLA_ASSIGN(Shape shape, Shape::MakeArray(i.shape().element_type(), dims));
  return LeadingPart(context, operands[0].array(), shape);
}

}  // namespace

namespace {

// Of a call whose shapes have been checked.
Result<Value> Compute(Context& context, const Instruction& i, Operands operands) {
  const std::string& target = i.attr<CustomCallAttributes>().target;
  if (IsIdentity(target)) {
    if (operands.size() == 1 && !i.shape().IsTuple()) return std::move(operands[0]);
    if (operands.size() == 1 && operands[0].is_tuple()) return std::move(operands[0]);
    return Value::Tuple(std::vector<Value>(operands.begin(), operands.end()));
  }
  if (target == "TopK") return TopK(context, operands[0].array(), i.shape().tuple_elements()[0].dims().back(), true);
  if (IsLapackSolve(target)) return LapackTriangularSolve(context, i, operands);
  if (target == "PadToStatic") return PadToStatic(context, i, operands[0]);
  if (target == "SliceToDynamic") return SliceToDynamic(context, i, operands);
  if (target == "LuDecomposition") return LuDecomposition(context, i, operands);
  if (target == "Eigh") return HermitianEigen(context, i, operands);
  if (target == "krafla_svd") return SingularValues(context, i, operands);
  if (target == "Qr") return HouseholderQr(context, i, operands);
  if (target == "ProductOfElementaryHouseholderReflectors") return HouseholderProduct(context, i, operands);
  if (GivesNothing(target)) return Value::Tuple({});
  return NotFound("{}: There is no custom call '{}'.", Describe(i), target);
}

}  // namespace

Result<Value> EvalCustomCall(Context& context, const Instruction& i, Operands operands) {
  if (context.host->custom_call) {
    std::vector<Literal> storage;
    KRAFLA_ASSIGN(std::vector<const Literal*> pointers, LiteralPointers(operands, storage));
    Result<Literal> out = context.host->custom_call(i, pointers);
    if (out) return Checked(i, i.shape(), Value::Own(std::move(*out)));
    if (out.error().code() != StatusCode::kNotFound) return Failure(std::move(out).error());
  }
  KRAFLA_TRY(CheckBuiltInCustomCall(i));
  KRAFLA_ASSIGN(Value out, Compute(context, i, operands));
  return Checked(i, i.shape(), std::move(out));
}

}  // namespace krafla::evaluator

namespace krafla {

std::span<const std::string_view> BuiltInCustomCalls() { return evaluator::kBuiltIn; }
int64_t BatchRankOfCustomCall(const Instruction& call) {
  using namespace evaluator;
  const std::string& target = call.attr<CustomCallAttributes>().target;
  constexpr std::string_view kOfMatrices[] = {"LuDecomposition", "Eigh", "krafla_svd", "Qr",
                                              "ProductOfElementaryHouseholderReflectors"};
  const bool of_matrices = IsAmong(target, kOfMatrices) || IsLapackSolve(target);
  if ((!of_matrices && target != "TopK") || !ShapesFit(call)) return 0;
  return call.operand(0)->shape().rank() - (of_matrices ? 2 : 1);
}

bool IsBuiltInCustomCall(std::string_view target) { return evaluator::IsAmong(target, evaluator::kBuiltIn); }
Result<> CheckBuiltInCustomCall(const Instruction& call) {
  if (evaluator::ShapesFit(call)) return {};
  std::string operands;
  for (const Instruction* o : call.operands())
    operands += Format("{}{}", operands.empty() ? "" : ", ", o->shape().ToString(false));
  return InvalidArgument("{0}: The custom call '{1}' on one device does not turn ({3}) into {2}.", Describe(call),
                         call.attr<CustomCallAttributes>().target, call.shape().ToString(false), operands);
}

}  // namespace krafla
