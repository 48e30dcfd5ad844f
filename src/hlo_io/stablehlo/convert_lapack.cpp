// SPDX-License-Identifier: Apache-2.0
// Factorisations as JAX writes them for the CPU platform: calls of LAPACK (jaxlib/cpu/lapack_kernels.h), which
// overwrite their operand and give a number that says whether all went well. Here they are the operations and calls
// that krafla has for every device.
#include <algorithm>
#include <limits>

#include "hlo_io/stablehlo/converter.h"
#include "ir/chlo/expression.h"

namespace krafla::stablehlo {
namespace {

// The matrices, the last two dimensions of an operand.
struct Matrices {
  Instruction* operand = nullptr;
  Dims batch;
  int64_t rows = 0, columns = 0, least = 0;
  ElementType type = ElementType::kF32;

  Result<Shape> Array(ElementType element, std::initializer_list<int64_t> last) const {
    Dims dims = batch;
    for (const int64_t d : last) dims.push_back(d);
    return Shape::MakeArray(element, std::move(dims));
  }
  Result<Shape> Matrix(int64_t m, int64_t n) const { return Array(type, {m, n}); }
};

Result<Matrices> MatricesOf(const Converter& c, const Op& op, const Body& body) {
  Matrices out;
  KRAFLA_ASSIGN(out.operand, c.Operand(op, body, 0));
  const Shape& shape = out.operand->shape();
  if (!shape.IsArray() || shape.IsDynamic() || shape.rank() < 2 ||
      (!IsFloat(shape.element_type()) && !IsComplex(shape.element_type())))
    return InvalidArgument("'{}' factors matrices; it is given {}.", op.name, shape.ToString(false));
  out.batch.assign(shape.dims().begin(), shape.dims().end() - 2);
  out.rows = shape.dim(shape.rank() - 2), out.columns = shape.dim(shape.rank() - 1);
  out.least = std::min(out.rows, out.columns);
  out.type = shape.element_type();
  return out;
}

// A parameter of the call: a number, often a letter's.
int64_t Parameter(const Op& op, std::string_view key, int64_t otherwise) {
  AttributeRef given = op.FindDiscardable("mhlo.backend_config");
  if (given == nullptr) given = op.Find("backend_config");
  if (given == nullptr) return otherwise;
  for (const auto& [name, value] : given->entries)
    if (name == key) return value->integer;
  return otherwise;
}

Result<Instruction*> Call(Body& body, std::string target, std::vector<Instruction*> operands, const Shape& result,
                          std::string config = "") {
  CustomCallAttributes a;
  a.target = std::move(target);
  KRAFLA_ASSIGN(Instruction * call,
                AddInferred(*body.computation, Opcode::kCustomCall, std::move(operands), std::move(a), {}, &result));
  InstructionMetadata metadata = call->metadata();
  metadata.backend_config = std::move(config);
  call->set_metadata(std::move(metadata));
  return call;
}

Result<Instruction*> Element(Body& body, Instruction* tuple, int64_t index) {
  return AddGetTupleElement(*body.computation, tuple, index);
}

// A number for each matrix, or as many as `shape` has.
Result<Instruction*> Everywhere(Body& body, const Shape& shape, double value) {
  return AddBroadcastScalar(*body.computation, AddScalarConstant(*body.computation, shape.element_type(), value),
                            shape.dims());
}
Result<Instruction*> AllWell(Body& body, const Matrices& a) {
  KRAFLA_ASSIGN(const Shape shape, Shape::MakeArray(ElementType::kS32, a.batch));
  return Everywhere(body, shape, 0);
}

// 1 for each matrix that has a NaN: what HLO's operation gives where LAPACK's stops.
Result<Instruction*> HasNan(Converter& c, Body& body, const Matrices& a, Instruction* factor) {
  Computation& computation = *body.computation;
  chlo::Formula formula(computation);
  chlo::Expr x = formula.Of(factor);
  if (IsComplex(a.type)) x = RealOf(x);
  KRAFLA_ASSIGN(Instruction * is_nan, formula.Take(formula.Compared(ComparisonDirection::kNe, x, x)));
  KRAFLA_ASSIGN(Instruction * ones, AddConvert(computation, is_nan, ElementType::kS32));
  Computation* most = AddBinaryComputation(c.module(), Opcode::kMaximum, Shape::MakeScalar(ElementType::kS32));
  const auto rank = a.operand->shape().rank();
  Instruction* zero = AddScalarConstant(computation, ElementType::kS32, 0);
  return AddInferred(computation, Opcode::kReduce, {ones, zero}, DimensionsAttributes{Dims{rank - 2, rank - 1}},
                     {most});
}

using Values = std::vector<Instruction*>;

Result<Values> Cholesky(Converter& c, const Op& op, Body& body, const Matrices& a) {
  KRAFLA_ASSIGN(Instruction * factor, AddInferred(*body.computation, Opcode::kCholesky, {a.operand},
                                                  CholeskyAttributes{Parameter(op, "uplo", 'L') == 'L'}));
  KRAFLA_ASSIGN(Instruction * failed, HasNan(c, body, a, factor));
  return Values{factor, failed};
}

// LAPACK counts rows from one.
Result<Values> Lu(Converter&, const Op&, Body& body, const Matrices& a) {
  KRAFLA_ASSIGN(Shape pivots, a.Array(ElementType::kS32, {a.least}));
  KRAFLA_ASSIGN(Shape order, a.Array(ElementType::kS32, {a.rows}));
  KRAFLA_ASSIGN(const Shape all, Shape::MakeTuple({a.operand->shape(), pivots, std::move(order)}));
  KRAFLA_ASSIGN(Instruction * call, Call(body, "LuDecomposition", {a.operand}, all));
  KRAFLA_ASSIGN(Instruction * factors, Element(body, call, 0));
  KRAFLA_ASSIGN(Instruction * rows, Element(body, call, 1));
  KRAFLA_ASSIGN(Instruction * one, Everywhere(body, pivots, 1));
  KRAFLA_ASSIGN(Instruction * counted, AddInferred(*body.computation, Opcode::kAdd, {rows, one}));
  KRAFLA_ASSIGN(Instruction * well, AllWell(body, a));
  return Values{factors, counted, well};
}

Result<Values> Qr(Converter&, const Op&, Body& body, const Matrices& a) {
  KRAFLA_ASSIGN(Shape taus, a.Array(a.type, {a.least}));
  KRAFLA_ASSIGN(const Shape all, Shape::MakeTuple({a.operand->shape(), std::move(taus)}));
  KRAFLA_ASSIGN(Instruction * call, Call(body, "Qr", {a.operand}, all));
  KRAFLA_ASSIGN(Instruction * reflectors, Element(body, call, 0));
  KRAFLA_ASSIGN(Instruction * scales, Element(body, call, 1));
  return Values{reflectors, scales};
}

Result<Values> HouseholderProduct(Converter& c, const Op& op, Body& body, const Matrices& a) {
  KRAFLA_ASSIGN(Instruction * taus, c.Operand(op, body, 1));
  KRAFLA_ASSIGN(Instruction * product,
                Call(body, "ProductOfElementaryHouseholderReflectors", {a.operand, taus}, a.operand->shape()));
  return Values{product};
}

Result<Values> Eigh(Converter&, const Op& op, Body& body, const Matrices& a) {
  KRAFLA_ASSIGN(Shape values, a.Array(RealPart(a.type), {a.columns}));
  KRAFLA_ASSIGN(const Shape all, Shape::MakeTuple({a.operand->shape(), std::move(values)}));
  // Lower, sorted; the others are of XLA's algorithm.
  const char* config = Parameter(op, "uplo", 'L') == 'L' ? "\"1,1,100,0\"" : "\"0,1,100,0\"";
  KRAFLA_ASSIGN(Instruction * call, Call(body, "Eigh", {a.operand}, all, config));
  KRAFLA_ASSIGN(Instruction * vectors, Element(body, call, 0));
  KRAFLA_ASSIGN(Instruction * numbers, Element(body, call, 1));
  KRAFLA_ASSIGN(Instruction * well, AllWell(body, a));
  return Values{vectors, numbers, well};
}

// Modes: A, all vectors; S, as many as values; N, none, and matrices that nobody reads.
Result<Values> Svd(Converter& c, const Op& op, Body& body, const Matrices& a) {
  const int64_t mode = Parameter(op, "mode", 'S');
  KRAFLA_ASSIGN(Shape values, a.Array(RealPart(a.type), {a.least}));
  KRAFLA_ASSIGN(Instruction * well, AllWell(body, a));
  if (mode == 'N') {
    KRAFLA_ASSIGN(Instruction * numbers, Call(body, "krafla_svd", {a.operand}, values));
    Values out{a.operand, numbers};
    for (const std::size_t r : {2u, 3u}) {
      const int64_t n = r == 2 ? a.rows : a.columns;
      const TypeRef type = c.TypeOfValue(op.results[r]);
      KRAFLA_ASSIGN(const Shape shape, Converter::IsOpen(type) ? a.Matrix(n, n) : c.ShapeOf(type));
      KRAFLA_ASSIGN(Instruction * unread, Everywhere(body, shape, 0));
      out.push_back(unread);
    }
    out.push_back(well);
    return out;
  }
  const bool all_vectors = mode == 'A';
  KRAFLA_ASSIGN(Shape left, a.Matrix(a.rows, all_vectors ? a.rows : a.least));
  KRAFLA_ASSIGN(Shape right, a.Matrix(all_vectors ? a.columns : a.least, a.columns));
  KRAFLA_ASSIGN(const Shape all, Shape::MakeTuple({std::move(values), std::move(left), std::move(right)}));
  KRAFLA_ASSIGN(Instruction * call, Call(body, "krafla_svd", {a.operand}, all));
  Values out{a.operand};
  for (const int64_t r : {0, 1, 2}) {
    KRAFLA_ASSIGN(Instruction * one, Element(body, call, r));
    out.push_back(one);
  }
  out.push_back(well);
  return out;
}

struct Routine {
  std::string_view name;
  std::size_t operands, results;
  Result<Values> (*convert)(Converter&, const Op&, Body&, const Matrices&);
};
constexpr Routine kRoutines[] = {{"potrf", 1, 2, Cholesky},
                                 {"getrf", 1, 3, Lu},
                                 {"geqrf", 1, 2, Qr},
                                 {"orgqr", 2, 1, HouseholderProduct},
                                 {"ungqr", 2, 1, HouseholderProduct},
                                 {"syevd", 1, 3, Eigh},
                                 {"heevd", 1, 3, Eigh},
                                 {"gesdd", 1, 5, Svd}};

}  // namespace

Result<> ConvertLapack(Converter& c, const Op& op, Body& body, std::string_view target) {
  // "lapack_spotrf_ffi"
  constexpr std::size_t kBefore = sizeof("lapack_s") - 1, kLength = 5;
  const auto routine = std::ranges::find(kRoutines, target.substr(kBefore, kLength), &Routine::name);
  if (routine == std::end(kRoutines))
    return Internal("{} is not one of the routines of LAPACK that krafla has.", target);
  // Behind its own operands there may be the shapes of the results.
  if (op.operands.size() < routine->operands || op.results.size() != routine->results)
    return InvalidArgument("{} has {} operands and {} results.", target, op.operands.size(), op.results.size());
  KRAFLA_ASSIGN(const Matrices a, MatricesOf(c, op, body));
  KRAFLA_ASSIGN(const Values values, routine->convert(c, op, body, a));
  for (std::size_t r = 0; r < values.size(); ++r) {
    KRAFLA_TRY(c.CheckFits(target, c.TypeOfValue(op.results[r]), values[r]->shape()));
    body.values[op.results[r]] = values[r];
  }
  return {};
}

}  // namespace krafla::stablehlo
