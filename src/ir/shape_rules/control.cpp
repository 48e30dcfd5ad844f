// SPDX-License-Identifier: Apache-2.0
// Tuples, tokens, calls, branches, loops, host transfers and asynchronous pairs.
#include "ir/shape_rules/checks.h"

namespace krafla::shape_rules {
namespace {

Result<> ExpectToken(const ShapeRuleInput& in, std::size_t i) {
  if (i >= in.operands.size() || !in.operands[i]->IsToken())
    return InvalidArgument("Operand {} of {} must be a token, it is {}.", i, OpcodeName(in.opcode),
                           i < in.operands.size() ? Brief(*in.operands[i]) : "missing");
  return {};
}

// Operand 0: a tuple of at least `count` elements.
Result<const std::vector<Shape>*> TupleOperand(const ShapeRuleInput& in, std::size_t count) {
  KRAFLA_TRY(ExpectOperands(in, 1));
  if (!in.operands[0]->IsTuple() || in.operands[0]->tuple_elements().size() < count)
    return InvalidArgument("The operand of {} must be a tuple of at least {} element{}, it is {}.",
                           OpcodeName(in.opcode), count, count == 1 ? "" : "s", Brief(*in.operands[0]));
  return &in.operands[0]->tuple_elements();
}

Shape RowMajor(Shape shape) {
  shape.ClearLayout();
  return shape;
}

Result<Shape> TupleOf(std::initializer_list<Shape> shapes) {
  std::vector<Shape> elements(shapes);
  for (Shape& s : elements) s.ClearLayout();
  return Shape::MakeTuple(std::move(elements));
}

}  // namespace

Result<Shape> Tuple(const ShapeRuleInput& in) {
  // Compared before it is built: a text may name one large tuple many times over.
  if (in.declared != nullptr) {
    bool fits = in.declared->IsTuple() && in.declared->tuple_elements().size() == in.operands.size();
    for (std::size_t i = 0; fits && i < in.operands.size(); ++i) {
      if (Shape::Compatible(in.declared->tuple_elements()[i], *in.operands[i])) continue;
      return InvalidArgument("Element {} of the tuple is declared as {}, operand {} is {}.", i,
                             Brief(in.declared->tuple_elements()[i]), i, Brief(*in.operands[i]));
    }
    if (!fits)
      return InvalidArgument("The tuple of {} operands is declared as {}.", in.operands.size(), Brief(*in.declared));
    return RowMajor(*in.declared);
  }
  std::vector<Shape> elements;
  elements.reserve(in.operands.size());
  for (const Shape* operand : in.operands) elements.push_back(RowMajor(*operand));
  return Shape::MakeTuple(std::move(elements));
}

Result<Shape> GetTupleElement(const ShapeRuleInput& in) {
  KRAFLA_ASSIGN(const std::vector<Shape>* elements, TupleOperand(in, 0));
  int64_t index = Attr<TupleIndexAttributes>(in).index;
  if (index < 0 || index >= static_cast<int64_t>(elements->size()))
    return InvalidArgument("index={} is outside the operand, a tuple of {} element{}.", index, elements->size(),
                           elements->size() == 1 ? "" : "s");
  return RowMajor((*elements)[static_cast<std::size_t>(index)]);
}

Result<Shape> OptimizationBarrier(const ShapeRuleInput& in) {
  KRAFLA_TRY(ExpectOperands(in, 1));
  return RowMajor(*in.operands[0]);
}

Result<Shape> AddDependency(const ShapeRuleInput& in) {
  KRAFLA_TRY(ExpectOperands(in, 2));
  KRAFLA_TRY(ExpectToken(in, 1));
  return RowMajor(*in.operands[0]);
}

Result<Shape> AfterAll(const ShapeRuleInput& in) {
  for (std::size_t i = 0; i < in.operands.size(); ++i) KRAFLA_TRY(ExpectToken(in, i));
  return Shape::MakeToken();
}

// call and fusion.
Result<Shape> Call(const ShapeRuleInput& in) {
  KRAFLA_TRY(ExpectCalled(in, 1));
  const ComputationSignature& f = in.called[0];
  if (f.parameters.size() != in.operands.size())
    return InvalidArgument("The computation takes {} parameters, {} has {} operands.", f.parameters.size(),
                           OpcodeName(in.opcode), in.operands.size());
  for (std::size_t i = 0; i < in.operands.size(); ++i)
    if (!Shape::Compatible(f.parameters[i], *in.operands[i]))
      return InvalidArgument("Parameter {} of the computation is {}, operand {} is {}.", i, Brief(f.parameters[i]), i,
                             Brief(*in.operands[i]));
  return RowMajor(f.result);
}

// Called: condition, body.
Result<Shape> While(const ShapeRuleInput& in) {
  KRAFLA_TRY(ExpectOperands(in, 1));
  KRAFLA_TRY(ExpectCalled(in, 2));
  const Shape& state = *in.operands[0];
  const ComputationSignature& condition = in.called[0];
  const ComputationSignature& body = in.called[1];
  if (condition.parameters.size() != 1 || !Shape::Compatible(condition.parameters[0], state))
    return InvalidArgument("The loop's condition must take its state {}; it takes {}.", Brief(state),
                           condition.parameters.size() == 1 ? Brief(condition.parameters[0])
                                                            : Format("{} parameters", condition.parameters.size()));
  if (!IsScalarOf(condition.result, ElementType::kPred))
    return InvalidArgument("The loop's condition must give pred[], it gives {}.", Brief(condition.result));
  if (body.parameters.size() != 1 || !Shape::Compatible(body.parameters[0], state))
    return InvalidArgument(
        "The loop's body must take its state {}; it takes {}.", Brief(state),
        body.parameters.size() == 1 ? Brief(body.parameters[0]) : Format("{} parameters", body.parameters.size()));
  if (!Shape::Compatible(body.result, state))
    return InvalidArgument("The loop's body must give its state {}, it gives {}.", Brief(state), Brief(body.result));
  if (Attr<WhileAttributes>(in).known_trip_count.value_or(0) < 0)
    return InvalidArgument("known_trip_count must not be negative, it is {}.",
                           *Attr<WhileAttributes>(in).known_trip_count);
  return RowMajor(state);
}

// Operand 0 chooses: pred[] between two branches, s32[] among any number. Then an argument a branch.
Result<Shape> Conditional(const ShapeRuleInput& in) {
  KRAFLA_TRY(ExpectAtLeast(in, 2));
  const Shape& index = *in.operands[0];
  bool is_pred = IsScalarOf(index, ElementType::kPred);
  if (!is_pred && !IsScalarOf(index, ElementType::kS32))
    return InvalidArgument("What chooses the branch must be pred[] or s32[], it is {}.", Brief(index));
  std::size_t branches = in.operands.size() - 1;
  KRAFLA_TRY(ExpectCalled(in, branches));
  if (is_pred && branches != 2) return InvalidArgument("A pred chooses between 2 branches, {} were given.", branches);
  for (std::size_t i = 0; i < branches; ++i) {
    const ComputationSignature& branch = in.called[i];
    const Shape& argument = *in.operands[i + 1];
    if (branch.parameters.size() != 1)
      return InvalidArgument("Branch {} must take 1 parameter, it takes {}.", i, branch.parameters.size());
    if (!Shape::Compatible(branch.parameters[0], argument))
      return InvalidArgument("Branch {} takes {}, its argument is {}.", i, Brief(branch.parameters[0]),
                             Brief(argument));
    if (!Shape::Compatible(branch.result, in.called[0].result))
      return InvalidArgument("All branches must give the same; branch 0 gives {}, branch {} gives {}.",
                             Brief(in.called[0].result), i, Brief(branch.result));
  }
  return RowMajor(in.called[0].result);
}

Result<Shape> CustomCall(const ShapeRuleInput& in) {
  KRAFLA_ASSIGN(const Shape* declared, Declared(in));
  const auto& a = Attr<CustomCallAttributes>(in);
  if (a.operand_layouts) {
    if (a.operand_layouts->size() != in.operands.size())
      return InvalidArgument("operand_layout_constraints has {} shapes for {} operands.", a.operand_layouts->size(),
                             in.operands.size());
    for (std::size_t i = 0; i < in.operands.size(); ++i)
      if (!Shape::Compatible((*a.operand_layouts)[i], *in.operands[i]))
        return InvalidArgument("operand_layout_constraints has {} for operand {}, which is {}.",
                               Brief((*a.operand_layouts)[i]), i, Brief(*in.operands[i]));
  }
  auto at = [](const Shape& shape, const Dims& path) -> const Shape* {
    const Shape* s = &shape;
    for (int64_t i : path) {
      if (!s->IsTuple() || i < 0 || i >= static_cast<int64_t>(s->tuple_elements().size())) return nullptr;
      s = &s->tuple_elements()[static_cast<std::size_t>(i)];
    }
    return s;
  };
  for (const CustomCallAttributes::Alias& alias : a.output_to_operand_aliasing) {
    const Shape* output = at(*declared, alias.output_index);
    const Shape* operand = alias.operand < 0 || alias.operand >= static_cast<int64_t>(in.operands.size())
                               ? nullptr
                               : at(*in.operands[static_cast<std::size_t>(alias.operand)], alias.operand_index);
    if (output == nullptr || operand == nullptr || !Shape::Compatible(*output, *operand))
      return InvalidArgument(
          "output_to_operand_aliasing joins output {} and {} of operand {}, which do not both exist "
          "with one shape.",
          Brief(alias.output_index), Brief(alias.operand_index), alias.operand);
  }
  return *declared;
}

// --- host and peers --------------------------------------------------------------------------------------------------

Result<Shape> Infeed(const ShapeRuleInput& in) {
  KRAFLA_TRY(ExpectOperands(in, 1));
  KRAFLA_TRY(ExpectToken(in, 0));
  KRAFLA_ASSIGN(const Shape* declared, Declared(in));
  if (!declared->IsTuple() || declared->tuple_elements().size() != 2 || !declared->tuple_elements()[1].IsToken())
    return InvalidArgument("Infeed gives a tuple of the data and a token, {} was declared.", Brief(*declared));
  return *declared;
}

Result<Shape> Outfeed(const ShapeRuleInput& in) {
  KRAFLA_TRY(ExpectOperands(in, 2));
  KRAFLA_TRY(ExpectToken(in, 1));
  const auto& shape = Attr<InfeedAttributes>(in).outfeed_shape;
  if (shape && !Shape::Compatible(*shape, *in.operands[0]))
    return InvalidArgument("outfeed_shape is {}, the operand is {}.", Brief(*shape), Brief(*in.operands[0]));
  return Shape::MakeToken();
}

Result<Shape> Send(const ShapeRuleInput& in) {
  KRAFLA_TRY(ExpectOperands(in, 2));
  KRAFLA_TRY(ExpectToken(in, 1));
  return TupleOf({*in.operands[0], Shape::MakeScalar(ElementType::kU32), Shape::MakeToken()});
}

Result<Shape> Recv(const ShapeRuleInput& in) {
  KRAFLA_TRY(ExpectOperands(in, 1));
  KRAFLA_TRY(ExpectToken(in, 0));
  KRAFLA_ASSIGN(const Shape* declared, Declared(in));
  if (!declared->IsTuple() || declared->tuple_elements().size() != 3 ||
      !IsScalarOf(declared->tuple_elements()[1], ElementType::kU32) || !declared->tuple_elements()[2].IsToken())
    return InvalidArgument("Recv gives a tuple of the data, u32[] and a token, {} was declared.", Brief(*declared));
  return *declared;
}

Result<Shape> SendDone(const ShapeRuleInput& in) {
  KRAFLA_ASSIGN(const std::vector<Shape>* elements, TupleOperand(in, 3));
  if (!(*elements)[2].IsToken())
    return InvalidArgument("The operand of send-done must be what send gives, it is {}.", Brief(*in.operands[0]));
  return Shape::MakeToken();
}

Result<Shape> RecvDone(const ShapeRuleInput& in) {
  KRAFLA_ASSIGN(const std::vector<Shape>* elements, TupleOperand(in, 3));
  if (!(*elements)[2].IsToken())
    return InvalidArgument("The operand of recv-done must be what recv gives, it is {}.", Brief(*in.operands[0]));
  return TupleOf({(*elements)[0], Shape::MakeToken()});
}

// --- asynchronous pairs ----------------------------------------------------------------------------------------------

// Destination, source, context: XLA, hlo_verifier.cc HandleCopyStart.
Result<Shape> CopyStart(const ShapeRuleInput& in) {
  KRAFLA_TRY(ExpectOperands(in, 1));
  return TupleOf({*in.operands[0], *in.operands[0], Shape::MakeScalar(ElementType::kU32)});
}

Result<Shape> CopyDone(const ShapeRuleInput& in) {
  KRAFLA_ASSIGN(const std::vector<Shape>* elements, TupleOperand(in, 3));
  return RowMajor((*elements)[0]);
}

// The operands as a tuple, the result, then any context.
Result<Shape> AsyncStart(const ShapeRuleInput& in) {
  KRAFLA_TRY(ExpectCalled(in, 1));
  const ComputationSignature& f = in.called[0];
  KRAFLA_TRY(Call(in));
  if (in.declared == nullptr) {
    std::vector<Shape> operands;
    for (const Shape* operand : in.operands) operands.push_back(RowMajor(*operand));
    KRAFLA_ASSIGN(Shape arguments, Shape::MakeTuple(std::move(operands)));
    return TupleOf({arguments, f.result, Shape::MakeScalar(ElementType::kU32)});
  }
  const Shape& declared = *in.declared;
  bool fits = declared.IsTuple() && declared.tuple_elements().size() >= 2 && declared.tuple_elements()[0].IsTuple() &&
              declared.tuple_elements()[0].tuple_elements().size() == in.operands.size() &&
              Shape::Compatible(declared.tuple_elements()[1], f.result);
  for (std::size_t i = 0; fits && i < in.operands.size(); ++i)
    fits = Shape::Compatible(declared.tuple_elements()[0].tuple_elements()[i], *in.operands[i]);
  if (!fits)
    return InvalidArgument(
        "async-start gives a tuple of its operands (a tuple), the computation's result {} and any "
        "context, {} was declared.",
        Brief(f.result), Brief(declared));
  return declared;
}

Result<Shape> AsyncUpdate(const ShapeRuleInput& in) {
  KRAFLA_TRY(TupleOperand(in, 2));
  return RowMajor(*in.operands[0]);
}

Result<Shape> AsyncDone(const ShapeRuleInput& in) {
  KRAFLA_ASSIGN(const std::vector<Shape>* elements, TupleOperand(in, 2));
  return RowMajor((*elements)[1]);
}

}  // namespace krafla::shape_rules
