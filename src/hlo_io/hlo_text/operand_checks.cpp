// SPDX-License-Identifier: Apache-2.0
// How many operands an instruction has, and what a reader must know of them before anything can be built; the shape
// rules check the rest.
#include "hlo_io/hlo_text/parser.h"

namespace krafla::hlo_text {

Result<> Parser::CheckOperands(Opcode opcode, const Shape& shape, std::span<const Operand> operands,
                               const AttributeSet& set, std::size_t offset) const {
  const OpInfo& info = GetOpInfo(opcode);
  const auto count = static_cast<int64_t>(operands.size());
  auto error = [&](std::string_view message) { return lex_.Error(offset, message); };
  auto operand_shape = [&](std::size_t i) -> const Shape& { return operands[i].instruction->shape(); };
  if (info.arity >= 0 && count != info.arity)
    return error(
        Format("{} takes {} operand{}, {} were given.", info.name, info.arity, info.arity == 1 ? "" : "s", count));
  if (opcode == Opcode::kTuple) {
    bool same = shape.IsTuple() && shape.tuple_elements().size() == operands.size();
    for (std::size_t i = 0; same && i < operands.size(); ++i)
      same = Shape::Compatible(shape.tuple_elements()[i], operand_shape(i));
    if (!same) return error(Format("The operands do not make up the tuple {}.", Shown(shape)));
    return {};
  }
  if (opcode == Opcode::kReduce || opcode == Opcode::kReduceWindow) {
    if (count == 0 || count % 2 != 0)
      return error(Format("{} takes as many initial values as arrays; {} operands were given.", info.name, count));
    return {};
  }
  if (opcode == Opcode::kScatter) {
    if (count < 3 || count % 2 != 1)
      return error(Format("Scatter takes n arrays, the indices and n updates; {} operands were given.", count));
    return {};
  }
  if (opcode == Opcode::kDynamicSlice || opcode == Opcode::kDynamicUpdateSlice)
    return CheckSliceStarts(opcode, operands, offset);
  if (opcode == Opcode::kConditional) return CheckConditional(operands, set, offset);
  if (opcode == Opcode::kAsyncStart) {
    // ((operands), result, context...)
    const auto& elements = shape.tuple_elements();
    bool good = elements.size() >= 2 && elements[0].IsTuple() && elements[0].tuple_elements().size() == operands.size();
    for (std::size_t i = 0; good && i < operands.size(); ++i)
      good = Shape::Compatible(elements[0].tuple_elements()[i], operand_shape(i));
    if (!good)
      return error(Format("The shape of {} must be a tuple of the operands' tuple, the result and more, not {}.",
                          info.name, Shown(shape)));
    return {};
  }
  if (opcode == Opcode::kAsyncUpdate || opcode == Opcode::kAsyncDone) {
    Opcode before = operands[0].instruction->opcode();
    if (before != Opcode::kAsyncStart && before != Opcode::kAsyncUpdate)
      return error(
          Format("The operand of {} must be an async-start or async-update, not {}.", info.name, OpcodeName(before)));
    return {};
  }
  if (opcode == Opcode::kSendDone || opcode == Opcode::kRecvDone) {
    const Instruction* start = operands[0].instruction;
    const auto* channel = std::get_if<ChannelAttributes>(&start->attributes());
    if (set.Has(Key::kChannelId) && channel && channel->channel_id && *channel->channel_id != set.Int(Key::kChannelId))
      return lex_.Error(set.Offset(Key::kChannelId), Format("{} is on channel {}, its operand on channel {}.",
                                                            info.name, set.Int(Key::kChannelId), *channel->channel_id));
    return {};
  }
  if (opcode == Opcode::kAllReduce || opcode == Opcode::kAllReduceStart || opcode == Opcode::kAllGather ||
      opcode == Opcode::kAllGatherStart || opcode == Opcode::kReduceScatter) {
    if (set.Bool(Key::kUseGlobalDeviceIds) && !set.Has(Key::kChannelId))
      return lex_.Error(set.Offset(Key::kUseGlobalDeviceIds), "use_global_device_ids=true needs a channel_id.");
    return {};
  }
  return {};
}

Result<> Parser::CheckSliceStarts(Opcode opcode, std::span<const Operand> operands, std::size_t offset) const {
  const std::size_t first = opcode == Opcode::kDynamicSlice ? 1 : 2;
  if (operands.size() < first)
    return lex_.Error(
        offset, Format("{} takes at least {} operands, {} were given.", OpcodeName(opcode), first, operands.size()));
  const Shape& sliced = operands[0].instruction->shape();
  const std::size_t indices = operands.size() - first;
  // An older form has all starts in one vector.
  const bool vector = indices == 1 && operands[first].instruction->shape().rank() == 1;
  if (!vector && static_cast<int64_t>(indices) != sliced.rank())
    return lex_.Error(offset, Format("{} of {} takes one start index per dimension, {} were given.", OpcodeName(opcode),
                                     Shown(sliced), indices));
  return {};
}

Result<> Parser::CheckConditional(std::span<const Operand> operands, const AttributeSet& set,
                                  std::size_t offset) const {
  auto error = [&](std::string_view message) { return lex_.Error(offset, message); };
  const bool two = set.Has(Key::kTrueComputation) || set.Has(Key::kFalseComputation);
  if (two == set.Has(Key::kBranchComputations))
    return error("Conditional needs branch_computations, or true_computation and false_computation.");
  if (two && !(set.Has(Key::kTrueComputation) && set.Has(Key::kFalseComputation)))
    return error("Conditional needs both true_computation and false_computation.");
  if (set.called.empty()) return error("Conditional needs at least one branch.");
  if (operands.size() != set.called.size() + 1)
    return error(
        Format("Conditional takes an index and one operand per branch; {} branches and {} operands were given.",
               set.called.size(), operands.size()));
  const Shape& index = operands[0].instruction->shape();
  if (!index.IsScalar() || (index.element_type() != ElementType::kPred && index.element_type() != ElementType::kS32))
    return error(Format("The first operand of conditional must be pred[] or s32[], not {}.", Shown(index)));
  return {};
}

}  // namespace krafla::hlo_text
