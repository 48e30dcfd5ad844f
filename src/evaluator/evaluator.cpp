// SPDX-License-Identifier: Apache-2.0
#include "evaluator/evaluator.h"

#include <algorithm>
#include <new>
#include <string_view>

#include "base/checked_math.h"
#include "base/host_memory.h"
#include "base/interruption.h"
#include "evaluator/context.h"
#include "evaluator/scalar_program.h"

namespace krafla {

namespace evaluator {

namespace {

constexpr int kMaxDepth = 400;  // of calls; the verifier has ruled out recursion

Result<std::unique_ptr<Plan>> MakePlan(const Computation& computation) {
  auto plan = std::make_unique<Plan>();
  std::unordered_map<const Instruction*, int> slots;
  std::vector<const Instruction*> order;
  std::vector<const Instruction*> stack;
  for (const auto& owned : computation.instructions()) {
    if (slots.contains(owned.get())) continue;
    stack.push_back(owned.get());
    while (!stack.empty()) {
      const Instruction* i = stack.back();
      stack.pop_back();
      if (!slots.emplace(i, plan->slot_count).second) continue;
      ++plan->slot_count;
      order.push_back(i);
      for (Instruction* user : i->users())
        if (user->opcode() == Opcode::kGetTupleElement) stack.push_back(user);
    }
  }
  plan->parameter_slots.assign(computation.parameters().size(), -1);
  std::unordered_map<const Instruction*, std::size_t> last;  // operand -> step
  for (const Instruction* i : order) {
    if (i->opcode() == Opcode::kParameter) {
      plan->parameter_slots[static_cast<std::size_t>(i->attr<ParameterAttributes>().number)] = slots[i];
    }
    Plan::Step step;
    step.instruction = i;
    for (Instruction* operand : i->operands()) {
      auto at = slots.find(operand);
      if (at == slots.end() || at->second >= slots[i])
        return FailedPrecondition("{} comes before its operand '{}'; the module was not verified.", Describe(*i),
                                  operand->name());
      step.operands.push_back(at->second);
      last[operand] = plan->steps.size();
    }
    step.last_use.assign(step.operands.size(), false);
    plan->steps.push_back(std::move(step));
  }
  const Instruction* root = computation.root();
  if (root == nullptr) return FailedPrecondition("Computation '{}' has no root.", computation.name());
  plan->root_slot = slots[root];
  for (std::size_t s = 0; s < plan->steps.size(); ++s) {
    Plan::Step& step = plan->steps[s];
    for (std::size_t o = 0; o < step.operands.size(); ++o) {
      const Instruction* operand = step.instruction->operand(o);
      // An operand that occurs twice is moved at its last occurrence only.
      bool again = std::find(step.operands.begin() + static_cast<std::ptrdiff_t>(o) + 1, step.operands.end(),
                             step.operands[o]) != step.operands.end();
      step.last_use[o] = operand != root && last[operand] == s && !again;
    }
  }
  return plan;
}

}  // namespace

Context::Context(const EvaluatorOptions& options)
    : host(options.host != nullptr ? options.host : &no_host), work_limit(options.work_limit) {}
Context::~Context() = default;

Result<> Context::Spend(int64_t scalar_operations) {
  if (work_limit <= 0) return {};
  auto sum = CheckedAdd(work, scalar_operations);
  if (!sum || *sum > work_limit)
    return DeadlineExceeded("The evaluation needs more than the limit of {} scalar operations.", work_limit);
  work = *sum;
  return {};
}

Result<> Context::SpendProduct(int64_t a, int64_t b) {
  if (work_limit <= 0) return {};
  auto product = CheckedMul(a, b);
  return Spend(product ? *product : std::numeric_limits<int64_t>::max());
}

Result<Literal> NewLiteral(Context& context, const Shape& shape) {
  int64_t elements = shape.element_count();
  for (const Shape& e : shape.tuple_elements()) elements += e.element_count();
  KRAFLA_TRY(context.Spend(elements + 1));
  return Literal::CreateUninitialized(shape);
}

Result<Literal> NewResult(Context& context, const Instruction& instruction, Operands operands) {
  KRAFLA_ASSIGN(Shape shape, ResultShape(instruction, operands));
  return NewLiteral(context, shape);
}

Result<Value> RunComputation(Context& context, const Computation& computation, std::vector<Value> arguments) {
  if (context.depth >= kMaxDepth)
    return ResourceExhausted("Calls of computations are nested more than {} deep at '{}'.", kMaxDepth,
                             computation.name());
  KRAFLA_TRY(CheckInterrupted());
  std::unique_ptr<Plan>& cached = context.plans[&computation];
  if (cached == nullptr) { KRAFLA_ASSIGN(cached, MakePlan(computation)); }
  const Plan& plan = *cached;
  if (arguments.size() != plan.parameter_slots.size())
    return InvalidArgument("Computation '{}' takes {} arguments, {} were given.", computation.name(),
                           plan.parameter_slots.size(), arguments.size());
  ++context.depth;
  std::vector<Value> slots(static_cast<std::size_t>(plan.slot_count));
  for (std::size_t p = 0; p < arguments.size(); ++p)
    if (plan.parameter_slots[p] >= 0)
      slots[static_cast<std::size_t>(plan.parameter_slots[p])] = std::move(arguments[p]);
  arguments.clear();
  std::vector<Value> operands;
  auto out = [&]() -> Result<Value> {
    std::size_t slot = 0;
    for (const Plan::Step& step : plan.steps) {
      std::size_t at = slot++;
      const Instruction& i = *step.instruction;
      if (i.opcode() == Opcode::kParameter) continue;
      KRAFLA_TRY(context.Spend(1));
      operands.clear();
      for (std::size_t o = 0; o < step.operands.size(); ++o) {
        Value& source = slots[static_cast<std::size_t>(step.operands[o])];
        if (step.last_use[o]) operands.push_back(std::move(source));
        else operands.push_back(source);
      }
      Result<Value> value = RunInstruction(context, i, operands);
      if (!value) return Failure(std::move(value).error().WithContext(Format("at {}", Describe(i))));
      // Where loops were left before their end, what they gave is not looked at.
      KRAFLA_TRY(CheckInterrupted());
      // Results that nobody reads are dropped at once.
      if (!i.users().empty() || static_cast<int>(at) == plan.root_slot) slots[at] = std::move(*value);
    }
    return std::move(slots[static_cast<std::size_t>(plan.root_slot)]);
  }();
  --context.depth;
  return out;
}

Result<Value> RunInstruction(Context& context, const Instruction& i, Operands operands) {
  switch (i.opcode()) {
#define KRAFLA_ELEMENTWISE(Enum, ...) case Opcode::Enum:
#include "ir/ops.def"
    return EvalElementwise(context, i, operands);
    case Opcode::kMap: return EvalMap(context, i, operands);

    case Opcode::kBitcast: return EvalBitcast(context, i, operands);
    case Opcode::kBroadcast: return EvalBroadcast(context, i, operands);
    case Opcode::kConcatenate: return EvalConcatenate(context, i, operands);
    case Opcode::kCopy: return EvalCopy(context, i, operands);
    case Opcode::kDynamicSlice: return EvalDynamicSlice(context, i, operands);
    case Opcode::kDynamicUpdateSlice: return EvalDynamicUpdateSlice(context, i, operands);
    case Opcode::kIota: return EvalIota(context, i, operands);
    case Opcode::kPad: return EvalPad(context, i, operands);
    case Opcode::kReshape: return EvalReshape(context, i, operands);
    case Opcode::kReverse: return EvalReverse(context, i, operands);
    case Opcode::kSlice: return EvalSlice(context, i, operands);
    case Opcode::kTranspose: return EvalTranspose(context, i, operands);

    case Opcode::kDot: return EvalDot(context, i, operands);
    case Opcode::kRaggedDot: return EvalRaggedDot(context, i, operands);
    case Opcode::kScaledDot: return EvalScaledDot(context, i, operands);
    case Opcode::kConvolution: return EvalConvolution(context, i, operands);
    case Opcode::kReduce: return EvalReduce(context, i, operands);
    case Opcode::kScan: return EvalScan(context, i, operands);
    case Opcode::kReduceWindow: return EvalReduceWindow(context, i, operands);
    case Opcode::kSelectAndScatter: return EvalSelectAndScatter(context, i, operands);
    case Opcode::kGather: return EvalGather(context, i, operands);
    case Opcode::kScatter: return EvalScatter(context, i, operands);
    case Opcode::kSort: return EvalSort(context, i, operands);
    case Opcode::kTopK: return EvalTopK(context, i, operands);
    case Opcode::kFft: return EvalFft(context, i, operands);
    case Opcode::kCholesky: return EvalCholesky(context, i, operands);
    case Opcode::kTriangularSolve: return EvalTriangularSolve(context, i, operands);
    case Opcode::kBatchNormGrad:
    case Opcode::kBatchNormInference:
    case Opcode::kBatchNormTraining: return EvalBatchNorm(context, i, operands);
    case Opcode::kRng: return EvalRng(context, i, operands);
    case Opcode::kRngBitGenerator: return EvalRngBitGenerator(context, i, operands);
    case Opcode::kRngGetAndUpdateState: return EvalRngGetAndUpdateState(context, i, operands);
    case Opcode::kDynamicReshape: return EvalDynamicReshape(context, i, operands);
    case Opcode::kGetDimensionSize: return EvalGetDimensionSize(context, i, operands);
    case Opcode::kSetDimensionSize: return EvalSetDimensionSize(context, i, operands);

    case Opcode::kParameter: return InvalidArgument("A parameter has no value of its own.");
    case Opcode::kConstant: return Value::Share(i.attr<ConstantAttributes>().literal);
    case Opcode::kTuple:
      return Value::Tuple(
          std::vector<Value>(std::make_move_iterator(operands.begin()), std::make_move_iterator(operands.end())));
    case Opcode::kGetTupleElement: {
      auto index = static_cast<std::size_t>(i.attr<TupleIndexAttributes>().index);
      if (!operands[0].is_tuple() || index >= operands[0].elements().size())
        return InvalidArgument("Element {} does not exist in the tuple of {} elements.", index,
                               operands[0].elements().size());
      return operands[0].elements()[index];
    }
    case Opcode::kAddDependency:
    case Opcode::kDomain: return std::move(operands[0]);
    case Opcode::kOptimizationBarrier:
      if (operands.size() == 1) return std::move(operands[0]);
      return Value::Tuple(std::vector<Value>(operands.begin(), operands.end()));
    case Opcode::kAfterAll: return Value::Token();
    case Opcode::kCall:
    case Opcode::kFusion:
      return RunComputation(
          context, *i.called(0),
          std::vector<Value>(std::make_move_iterator(operands.begin()), std::make_move_iterator(operands.end())));
    case Opcode::kConditional: return EvalConditional(context, i, operands);
    case Opcode::kWhile: return EvalWhile(context, i, operands);
    case Opcode::kAsyncDone:
    case Opcode::kAsyncStart:
    case Opcode::kAsyncUpdate:
    case Opcode::kCopyDone:
    case Opcode::kCopyStart: return EvalAsync(context, i, operands);
    case Opcode::kInfeed: return EvalInfeed(context, i, operands);
    case Opcode::kOutfeed: return EvalOutfeed(context, i, operands);
    case Opcode::kCustomCall: return EvalCustomCall(context, i, operands);

    case Opcode::kAllGather:
    case Opcode::kAllGatherStart:
    case Opcode::kAllReduce:
    case Opcode::kAllReduceStart:
    case Opcode::kAllToAll:
    case Opcode::kCollectiveBroadcast:
    case Opcode::kCollectivePermute:
    case Opcode::kCollectivePermuteStart:
    case Opcode::kRaggedAllToAll:
    case Opcode::kReduceScatter: return EvalCollective(context, i, operands);
    case Opcode::kAllGatherDone:
    case Opcode::kAllReduceDone:
    case Opcode::kCollectivePermuteDone: return EvalCollectiveDone(context, i, operands);
    case Opcode::kRecv:
    case Opcode::kRecvDone:
    case Opcode::kSend:
    case Opcode::kSendDone: return EvalChannel(context, i, operands);
    case Opcode::kPartitionId:
    case Opcode::kReplicaId: return EvalDeviceId(context, i, operands);
  }
  KRAFLA_UNREACHABLE();
}

bool Accepts(const Shape& want, const Shape& got) {
  if (want.element_type() != got.element_type()) return false;
  if (want.IsTuple()) {
    if (want.tuple_elements().size() != got.tuple_elements().size()) return false;
    for (std::size_t e = 0; e < want.tuple_elements().size(); ++e)
      if (!Accepts(want.tuple_elements()[e], got.tuple_elements()[e])) return false;
    return true;
  }
  if (want.rank() != got.rank()) return false;
  for (int64_t d = 0; d < want.rank(); ++d) {
    if (want.IsDynamicDim(d) ? got.dim(d) > want.dim(d) : got.dim(d) != want.dim(d)) return false;
  }
  return true;
}

static bool Fits(const Shape& want, const Value& got) {
  if (!want.IsTuple()) return got.is_array() && Accepts(want, got.shape());
  if (!got.is_tuple() || got.elements().size() != want.tuple_elements().size()) return false;
  for (std::size_t e = 0; e < got.elements().size(); ++e)
    if (!Fits(want.tuple_elements()[e], got.elements()[e])) return false;
  return true;
}

Result<Value> Checked(const Instruction& instruction, const Shape& want, Value value) {
  if (Fits(want, value)) return value;
  std::string got = value.is_array() ? value.shape().ToString(false) : "a tuple of other shapes";
  return Internal("{} returned {}, not {}.", Describe(instruction), got, want.ToString(false));
}

// f(), whose arrays besides operands and results the host may have no room for.
template <class F>
static Result<Literal> WithMemory(std::string_view name, F&& f) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return ResourceExhausted(
        "The host has no memory for what '{}' takes besides its operands and its result (this process "
        "may have {} bytes in all).",
        name, HostMemoryLimit());
  }
}

}  // namespace evaluator

bool EvaluatesInstructions() { return true; }

Result<Literal> Evaluate(const Computation& computation, std::span<const Literal* const> arguments,
                         const EvaluatorOptions& options) {
  auto parameters = computation.parameters();
  if (arguments.size() != parameters.size())
    return InvalidArgument("Computation '{}' takes {} arguments, {} were given.", computation.name(), parameters.size(),
                           arguments.size());
  std::vector<evaluator::Value> values;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    if (parameters[p] == nullptr)
      return InvalidArgument("Parameter {} of computation '{}' is missing.", p, computation.name());
    if (!evaluator::Accepts(parameters[p]->shape(), arguments[p]->shape()))
      return InvalidArgument("Argument {} is {}, but the parameter is {}.", p, arguments[p]->shape().ToString(false),
                             parameters[p]->shape().ToString(false));
    values.push_back(evaluator::Value::Borrow(*arguments[p]));
  }
  return evaluator::WithMemory(computation.name(), [&]() -> Result<Literal> {
    evaluator::Context context(options);
    KRAFLA_ASSIGN(evaluator::Value out, evaluator::RunComputation(context, computation, std::move(values)));
    return std::move(out).ToLiteral();
  });
}

Result<Literal> EvaluateInstruction(const Instruction& instruction, std::span<const Literal* const> operands,
                                    const EvaluatorOptions& options) {
  if (operands.size() != instruction.operand_count())
    return InvalidArgument("{} takes {} operands, {} were given.", Describe(instruction), instruction.operand_count(),
                           operands.size());
  std::vector<evaluator::Value> values;
  for (const Literal* operand : operands) values.push_back(evaluator::Value::Borrow(*operand));
  return evaluator::WithMemory(instruction.name(), [&]() -> Result<Literal> {
    evaluator::Context context(options);
    KRAFLA_ASSIGN(evaluator::Value out, evaluator::RunInstruction(context, instruction, values));
    KRAFLA_TRY(CheckInterrupted());
    KRAFLA_ASSIGN(out, evaluator::Checked(instruction, instruction.shape(), std::move(out)));
    return std::move(out).ToLiteral();
  });
}

}  // namespace krafla
