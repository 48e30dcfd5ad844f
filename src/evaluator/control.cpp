// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "evaluator/context.h"
#include "evaluator/strided.h"

namespace krafla::evaluator {

Result<Value> EvalConditional(Context& context, const Instruction& i, Operands operands) {
  const Literal& index = operands[0].array();
  const int64_t branches = static_cast<int64_t>(i.called().size());
  int64_t branch = IntegerAt(index, 0);
  if (index.shape().element_type() == ElementType::kPred) {
    branch = branch != 0 ? 0 : 1;
  } else if (branch < 0 || branch >= branches) {
    branch = branches - 1;  // the last is the default
  }
  if (branch >= branches || static_cast<std::size_t>(branch) + 1 >= operands.size())
    return InvalidArgument("A conditional of {} branches has no branch {}.", branches, branch);
  std::vector<Value> arguments;
  arguments.push_back(std::move(operands[static_cast<std::size_t>(branch) + 1]));
  return RunComputation(context, *i.called(static_cast<std::size_t>(branch)), std::move(arguments));
}

Result<Value> EvalWhile(Context& context, const Instruction& i, Operands operands) {
  const Computation& condition = *i.called(0);
  const Computation& body = *i.called(1);
  std::vector<Value> state(std::make_move_iterator(operands.begin()), std::make_move_iterator(operands.end()));
  while (true) {
    KRAFLA_TRY(context.Spend(8));
    KRAFLA_ASSIGN(Value go, RunComputation(context, condition, state));
    if (IntegerAt(go.array(), 0) == 0) break;
    std::vector<Value> arguments = std::move(state);
    state.clear();
    KRAFLA_ASSIGN(Value next, RunComputation(context, body, std::move(arguments)));
    state.push_back(std::move(next));
  }
  if (state.size() != 1) return InvalidArgument("A while loop carries {} values, not 1.", state.size());
  return std::move(state[0]);
}

// Begun and ended at once: a start runs the computation and keeps (operands, results, anything else the shape names).
Result<Value> EvalAsync(Context& context, const Instruction& i, Operands operands) {
  const Opcode opcode = i.opcode();
  if (opcode == Opcode::kAsyncUpdate) return std::move(operands[0]);
  if (opcode == Opcode::kAsyncDone || opcode == Opcode::kCopyDone) {
    // async-start: (operands, results, ...); copy-start: (destination, source, ...)
    const std::size_t at = opcode == Opcode::kAsyncDone ? 1 : 0;
    if (!operands[0].is_tuple() || operands[0].elements().size() <= at)
      return InvalidArgument("The operand of {} is not an asynchronous start.", OpcodeName(opcode));
    return std::move(operands[0].elements()[at]);
  }
  std::vector<Value> elements;
  std::vector<Value> arguments(operands.begin(), operands.end());
  if (opcode == Opcode::kCopyStart) {
    elements = {operands[0], operands[0]};
  } else {
    KRAFLA_ASSIGN(Value result, RunComputation(context, *i.called(0), arguments));
    elements.push_back(Value::Tuple(std::move(arguments)));
    elements.push_back(std::move(result));
  }
  const auto& shapes = i.shape().tuple_elements();
  for (std::size_t e = 2; e < shapes.size(); ++e) {
    KRAFLA_ASSIGN(Literal rest, Literal::Create(shapes[e]));
    elements.push_back(Value::Own(std::move(rest)));
  }
  return Value::Tuple(std::move(elements));
}

Result<Value> EvalInfeed(Context& context, const Instruction& i, Operands) {
  if (!context.host->infeed) return Unimplemented("There is no infeed queue.");
  if (i.shape().tuple_elements().empty()) return InvalidArgument("The result of an infeed is a tuple (data, token).");
  const Shape& want = i.shape().tuple_elements()[0];
  KRAFLA_ASSIGN(Literal item, context.host->infeed(want));
  if (!Accepts(want, item.shape()))
    return InvalidArgument("The infeed queue holds {}; {} was expected.", item.shape().ToString(false),
                           want.ToString(false));
  std::vector<Value> elements;
  elements.push_back(Value::Own(std::move(item)));
  elements.push_back(Value::Token());
  return Value::Tuple(std::move(elements));
}

Result<Value> EvalOutfeed(Context& context, const Instruction&, Operands operands) {
  if (!context.host->outfeed) return Unimplemented("There is no outfeed queue.");
  KRAFLA_ASSIGN(Literal item, Value(operands[0]).ToLiteral());
  KRAFLA_TRY(context.host->outfeed(item));
  return Value::Token();
}

}  // namespace krafla::evaluator
