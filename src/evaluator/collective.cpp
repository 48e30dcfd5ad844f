// SPDX-License-Identifier: Apache-2.0
// Collectives. On a single device they are computed here; otherwise, or where a hook is given, the hook does them: it
// gets the instruction and its operands' values and returns what the instruction gives (for a -start: what its -done
// gives). What it returns for send is ignored; for recv-done it returns the data.
#include <algorithm>
#include <cstring>

#include "base/index.h"
#include "evaluator/context.h"
#include "evaluator/strided.h"

namespace krafla::evaluator {

namespace {

bool SingleDevice(const Context& context) {
  return context.host->replica_count == 1 && context.host->num_partitions == 1;
}

// What the hooks return.
Result<Shape> HookShape(const Instruction& i) {
  std::size_t element = 0;
  if (i.opcode() == Opcode::kSend) return Shape::MakeToken();
  if (i.opcode() == Opcode::kAllGatherStart || i.opcode() == Opcode::kCollectivePermuteStart) element = 1;
  else if (i.opcode() != Opcode::kRecvDone) return i.shape();
  if (i.shape().tuple_elements().size() <= element)
    return InvalidArgument("The result of {} has no data.", Describe(i));
  return i.shape().tuple_elements()[element];
}

void Leaves(Literal& literal, std::vector<std::byte*>& out) {
  if (literal.shape().IsArray()) out.push_back(literal.bytes().data());
  for (Literal& e : literal.elements()) Leaves(e, out);
}

Result<Value> Exchange(Context& context, const Instruction& i, std::span<const Literal* const> operands) {
  KRAFLA_ASSIGN(Shape shape, HookShape(i));
  KRAFLA_ASSIGN(Literal out, Literal::Create(shape));
  std::vector<const std::byte*> from;
  for (const Literal* operand : operands)
    for (const Literal* leaf : operand->ArrayLeaves()) from.push_back(leaf->bytes().data());
  std::vector<std::byte*> to;
  Leaves(out, to);
  KRAFLA_TRY(context.host->exchange(i, from, to));
  return Value::Own(std::move(out));
}

Result<Value> CallHook(Context& context, const Instruction& i, Operands operands) {
  if (!context.host->collective && !context.host->exchange)
    return Unimplemented("{} over {} replicas and {} partitions needs a device group.", OpcodeName(i.opcode()),
                         context.host->replica_count, context.host->num_partitions);
  std::vector<Literal> storage;
  KRAFLA_ASSIGN(std::vector<const Literal*> pointers, LiteralPointers(operands, storage));
  if (!context.host->collective) return Exchange(context, i, pointers);
  KRAFLA_ASSIGN(Literal out, context.host->collective(i, pointers));
  return Value::Own(std::move(out));
}

Result<Value> Zeros(Context& context, const Shape& shape) {
  if (shape.IsTuple()) {
    std::vector<Value> elements;
    for (const Shape& e : shape.tuple_elements()) {
      KRAFLA_ASSIGN(Value v, Zeros(context, e));
      elements.push_back(std::move(v));
    }
    return Value::Tuple(std::move(elements));
  }
  KRAFLA_TRY(context.Spend(shape.element_count()));
  KRAFLA_ASSIGN(Literal out, Literal::Create(shape.WithStaticDims()));
  return Value::Own(std::move(out));
}

// What one operand becomes, or the tuple of all.
Value Join(Operands operands) {
  if (operands.size() == 1) return operands[0];
  return Value::Tuple(std::vector<Value>(operands.begin(), operands.end()));
}

// (input, output, input offsets, send sizes, output offsets, receive sizes): rows go from the input to the output.
Result<Value> RaggedRows(Context& context, Operands operands) {
  const Literal& in = operands[0].array();
  for (std::size_t o = 2; o < 5; ++o)
    if (operands[o].shape().element_count() < 1) return operands[1];
  KRAFLA_TRY(context.Spend(in.shape().element_count()));
  KRAFLA_ASSIGN(Literal out, std::move(operands[1]).TakeMutable());
  if (in.shape().rank() < 1 || out.shape().rank() != in.shape().rank() || out.shape().dim(0) == 0)
    return Value::Own(std::move(out));
  const int64_t row = out.shape().byte_size() / out.shape().dim(0);
  int64_t updates = operands[2].shape().element_count();
  for (std::size_t o = 3; o < 5; ++o) updates = std::min(updates, operands[o].shape().element_count());
  for (int64_t u = 0; u < updates; ++u) {
    const int64_t from = std::clamp<int64_t>(IntegerAt(operands[2].array(), u), 0, in.shape().dim(0));
    const int64_t to = std::clamp<int64_t>(IntegerAt(operands[4].array(), u), 0, out.shape().dim(0));
    const int64_t size = std::clamp<int64_t>(IntegerAt(operands[3].array(), u), 0,
                                             std::min(in.shape().dim(0) - from, out.shape().dim(0) - to));
    if (size > 0) std::memcpy(out.bytes().data() + to * row, in.bytes().data() + from * row, At(size * row));
  }
  return Value::Own(std::move(out));
}

Result<Value> OnOneDevice(Context& context, const Instruction& i, Operands operands) {
  const auto& a = i.attr<CollectiveAttributes>();
  if (i.opcode() == Opcode::kCollectivePermute || i.opcode() == Opcode::kCollectivePermuteStart) {
    for (const auto& [source, target] : a.source_target_pairs)
      if (source == 0 && target == 0) return Join(operands);
    std::vector<Value> zeros;
    for (Value& v : operands) {
      KRAFLA_ASSIGN(Value z, Zeros(context, v.shape()));
      zeros.push_back(std::move(z));
    }
    return Join(zeros);
  }
  if (i.opcode() == Opcode::kRaggedAllToAll) return RaggedRows(context, operands);
  if (i.opcode() == Opcode::kCollectiveBroadcast) {
    bool member = a.replica_groups.empty();
    for (const auto& group : a.replica_groups)
      member = member || std::find(group.begin(), group.end(), 0) != group.end();
    return member ? Join(operands) : Zeros(context, i.shape());
  }
  // A group of one: its sum, its concatenation and its exchange are the operand.
  if (i.opcode() == Opcode::kAllToAll && i.shape().IsTuple())
    return Value::Tuple(std::vector<Value>(operands.begin(), operands.end()));
  return Join(operands);
}

}  // namespace

Result<Value> EvalCollective(Context& context, const Instruction& i, Operands operands) {
  Value result;
  if (context.host->collective || context.host->exchange || !SingleDevice(context)) {
    KRAFLA_ASSIGN(result, CallHook(context, i, operands));
  } else {
    KRAFLA_ASSIGN(result, OnOneDevice(context, i, operands));
  }
  if (i.opcode() != Opcode::kAllGatherStart && i.opcode() != Opcode::kCollectivePermuteStart)
    return Checked(i, i.shape(), std::move(result));
  // (operands, results, contexts...)
  std::vector<Value> elements = {Join(operands), std::move(result)};
  const auto& shapes = i.shape().tuple_elements();
  for (std::size_t e = 2; e < shapes.size(); ++e) {
    KRAFLA_ASSIGN(Value v, Zeros(context, shapes[e]));
    elements.push_back(std::move(v));
  }
  return Checked(i, i.shape(), Value::Tuple(std::move(elements)));
}

Result<Value> EvalCollectiveDone(Context&, const Instruction& i, Operands operands) {
  if (i.opcode() == Opcode::kAllReduceDone) return std::move(operands[0]);
  if (!operands[0].is_tuple() || operands[0].elements().size() < 2)
    return InvalidArgument("The operand of {} is not an asynchronous start.", OpcodeName(i.opcode()));
  return std::move(operands[0].elements()[1]);
}

// send: (data, context, token), its done: a token; recv: (data, context, token), its done: (data, token).
Result<Value> EvalChannel(Context& context, const Instruction& i, Operands operands) {
  const Opcode opcode = i.opcode();
  if (opcode == Opcode::kSendDone) return Value::Token();
  if (opcode == Opcode::kRecvDone) {
    // Only here, and not at the recv, as a device may begin to receive before it sends.
    KRAFLA_ASSIGN(Value received, CallHook(context, i, {}));
    return Checked(i, i.shape(), Value::Tuple({std::move(received), Value::Token()}));
  }
  const auto& shapes = i.shape().tuple_elements();
  if (shapes.size() != 3)
    return InvalidArgument("The result of {} is a tuple (data, context, token).", OpcodeName(opcode));
  Value data;
  if (opcode == Opcode::kSend) {
    KRAFLA_TRY(CallHook(context, i, operands));
    data = operands[0];
  } else {
    KRAFLA_ASSIGN(data, Zeros(context, shapes[0]));
  }
  KRAFLA_ASSIGN(Value number, Zeros(context, shapes[1]));
  return Value::Tuple({std::move(data), std::move(number), Value::Token()});
}

Result<Value> EvalDeviceId(Context& context, const Instruction& i, Operands) {
  const int64_t id = i.opcode() == Opcode::kReplicaId ? context.host->replica : context.host->partition;
  KRAFLA_ASSIGN(Literal out, Literal::Create(i.shape()));
  out.data<uint32_t>()[0] = static_cast<uint32_t>(id);
  return Value::Own(std::move(out));
}

}  // namespace krafla::evaluator
