// SPDX-License-Identifier: Apache-2.0
#include "api/host/host_services.h"

#include <format>

#include "ir/custom_call.h"

namespace krafla {

HostServices::HostServices(const CustomCallRegistry& custom_calls, std::shared_ptr<HostTransfers> transfers)
    : custom_calls_(custom_calls), transfers_(std::move(transfers)) {
  host_.custom_call = [this](const Instruction& i, std::span<const Literal* const> o) { return Call(i, o); };
  host_.infeed = [this](const Shape& shape) { return transfers_->TakeInfeed(shape, *limit_); };
  host_.outfeed = [this](const Literal& value) { return transfers_->GiveOutfeed(value, *limit_); };
  host_.collective = [this](const Instruction& i, std::span<const Literal* const> o) { return Transfer(i, o); };
}

std::unique_ptr<HostServices> HostServices::For(const EvaluatorHost& member) const {
  auto out = std::make_unique<HostServices>(custom_calls_, transfers_);
  out->host_.replica = member.replica;
  out->host_.partition = member.partition;
  out->host_.replica_count = member.replica_count;
  out->host_.num_partitions = member.num_partitions;
  out->host_.exchange = member.exchange;
  out->host_.lane = member.lane;
  out->host_.collective = nullptr;
  return out;
}

Result<Literal> HostServices::Call(const Instruction& call, std::span<const Literal* const> operands) const {
  const std::string& target = call.attr<CustomCallAttributes>().target;
  const CustomCallFunction* function = custom_calls_.FindFunction(target);
  if (function == nullptr) return NotFound("There is no custom call '{}'.", target);
  KRAFLA_ASSIGN(Literal out, Literal::Create(call.shape()));
  auto done = (*function)({target, call.metadata().backend_config, operands, &out});
  if (!done)
    return Failure(std::move(done).error().WithContext(Format("in custom call '{}' ({})", target, call.name())));
  return out;
}

Result<Literal> HostServices::Transfer(const Instruction& transfer, std::span<const Literal* const> operands) const {
  const auto* channel = std::get_if<ChannelAttributes>(&transfer.attributes());
  if (channel == nullptr) {
    // A collective on one device, which needs nobody. What a -start form gives lies behind its operands.
    KRAFLA_ASSIGN(Literal out, EvaluateInstruction(transfer, operands));
    const Opcode op = transfer.opcode();
    if (op != Opcode::kAllGatherStart && op != Opcode::kCollectivePermuteStart) return out;
    return std::move(out.elements()[1]);
  }
  if (!channel->is_host_transfer)
    return Unimplemented("{}: A channel between devices needs a device group, and this program runs on one device.",
                         transfer.name());
  const int64_t number = channel->channel_id.value_or(0);
  if (transfer.opcode() == Opcode::kRecvDone)
    return transfers_->TakeFromHost(number, transfer.shape().tuple_elements()[0], *limit_);
  KRAFLA_TRY(transfers_->GiveToHost(number, *operands[0], *limit_));
  return Literal();
}

const CustomCallRegistry& CustomCallsOf(const CompileOptions& options) {
  return options.custom_calls != nullptr ? *options.custom_calls : CustomCallRegistry::Global();
}

Result<> CheckBuiltInCalls(const Module& module, const CustomCallRegistry& custom_calls) {
  for (const auto& computation : module.computations())
    for (const auto& i : computation->instructions()) {
      if (i->opcode() != Opcode::kCustomCall) continue;
      const std::string& target = i->attr<CustomCallAttributes>().target;
      if (custom_calls.FindFunction(target) == nullptr && custom_calls.FindKernel(target) == nullptr)
        KRAFLA_TRY(CheckBuiltInCustomCall(*i));
    }
  return {};
}

Result<> CheckCustomCalls(const Module& module, const CustomCallRegistry& custom_calls, bool runs_spirv) {
  for (const auto& computation : module.computations())
    for (const auto& i : computation->instructions()) {
      if (i->opcode() != Opcode::kCustomCall) continue;
      const std::string& target = i->attr<CustomCallAttributes>().target;
      const CustomCallKernel* kernel = custom_calls.FindKernel(target);
      if (custom_calls.FindFunction(target) != nullptr || IsBuiltInCustomCall(CustomCallTargetOf(target)) ||
          (runs_spirv && kernel != nullptr))
        continue;
      if (kernel != nullptr)
        return NotFound("{}: The custom call '{}' has a kernel for Vulkan devices, but no function for the CPU.",
                        i->name(), target);
      std::string known;
      for (std::string_view name : BuiltInCustomCalls()) known += Format("{}{}", known.empty() ? "" : ", ", name);
      for (const std::string& name : custom_calls.Targets()) known += Format(", {}", name);
      return NotFound("{}: There is no custom call '{}'. Registered are: {}.", i->name(), target, known);
    }
  return {};
}

}  // namespace krafla
