// SPDX-License-Identifier: Apache-2.0
// XLA: hlo_verifier.cc VerifyAsynchronousInstructionPairs, VerifySingleUser, VerifySingleOperand.
#include "ir/verifier/checks.h"

namespace krafla::verifier {
namespace {

// The op that ends a start.
std::optional<Opcode> DoneOf(Opcode start) {
  if (start == Opcode::kAllGatherStart) return Opcode::kAllGatherDone;
  if (start == Opcode::kAllReduceStart) return Opcode::kAllReduceDone;
  if (start == Opcode::kCollectivePermuteStart) return Opcode::kCollectivePermuteDone;
  if (start == Opcode::kCopyStart) return Opcode::kCopyDone;
  if (start == Opcode::kSend) return Opcode::kSendDone;
  if (start == Opcode::kRecv) return Opcode::kRecvDone;
  if (start == Opcode::kAsyncStart || start == Opcode::kAsyncUpdate) return Opcode::kAsyncDone;
  return std::nullopt;
}

std::string_view ThreadName(const std::string& thread) { return thread.empty() ? std::string_view("main") : thread; }

Failure Bad(const Instruction& i, std::string message) {
  return At(i, Status(StatusCode::kInvalidArgument, std::move(message)));
}

// async-update and async-done may repeat what their start says; then they say the same.
Result<> CheckAsyncChain(const Instruction& i, const Instruction& before) {
  const auto* mine = std::get_if<AsyncAttributes>(&i.attributes());
  const auto* other = std::get_if<AsyncAttributes>(&before.attributes());
  if (mine == nullptr || other == nullptr) return {};
  if (!mine->execution_thread.empty() && ThreadName(mine->execution_thread) != ThreadName(other->execution_thread))
    return Bad(i, Format("It runs on thread '{}', {} on '{}'.", mine->execution_thread, Describe(before),
                         ThreadName(other->execution_thread)));
  if (!i.called().empty() && !before.called().empty() &&
      (i.called().size() != before.called().size() || i.called(0) != before.called(0)))
    return Bad(i, Format("It calls another computation than {}.", Describe(before)));
  return {};
}

Result<> CheckChannels(const Instruction& done, const Instruction& start) {
  const auto* a = std::get_if<ChannelAttributes>(&done.attributes());
  const auto* b = std::get_if<ChannelAttributes>(&start.attributes());
  if (a == nullptr || b == nullptr) return {};
  if (a->channel_id && a->channel_id != b->channel_id)
    return Bad(done, Format("channel_id={} is not that of {}.", *a->channel_id, Describe(start)));
  if (a->is_host_transfer != b->is_host_transfer)
    return Bad(done, Format("is_host_transfer is not that of {}.", Describe(start)));
  return {};
}

}  // namespace

Result<> CheckAsyncPair(const Instruction& i) {
  Opcode opcode = i.opcode();
  if (auto done = DoneOf(opcode)) {
    if (i.users().size() != 1)
      return Bad(i, Format("It must have one user, its {}; it has {}.", OpcodeName(*done), i.users().size()));
    const Instruction& user = *i.users()[0];
    bool goes_on =
        (opcode == Opcode::kAsyncStart || opcode == Opcode::kAsyncUpdate) && user.opcode() == Opcode::kAsyncUpdate;
    if (user.opcode() != *done && !goes_on)
      return Bad(i, Format("It must be used by its {} only; it is used by {}.", OpcodeName(*done), Describe(user)));
    if (i.IsRoot()) return Bad(i, "It is the root of its computation, so that what it began would leave unfinished.");
  }
  if (opcode == Opcode::kAsyncStart) {
    const auto* attributes = std::get_if<AsyncAttributes>(&i.attributes());
    if (attributes != nullptr && !i.called().empty() &&
        ThreadName(attributes->execution_thread) != ThreadName(i.called(0)->execution_thread()))
      return Bad(
          i, Format("It runs on thread '{}', the computation '{}' on '{}'.", ThreadName(attributes->execution_thread),
                    i.called(0)->name(), ThreadName(i.called(0)->execution_thread())));
  }
  if (HasTrait(opcode, op_trait::kAsyncDone) || opcode == Opcode::kAsyncUpdate) {
    if (i.operand_count() != 1) return Bad(i, "It takes one operand.");
    const Instruction& before = *i.operand(0);
    auto done = DoneOf(before.opcode());
    bool follows = opcode == Opcode::kAsyncUpdate ? done == Opcode::kAsyncDone : done == opcode;
    if (!follows) return Bad(i, Format("Its operand must be what it ends; it is {}.", Describe(before)));
    KRAFLA_TRY(CheckAsyncChain(i, before));
    KRAFLA_TRY(CheckChannels(i, before));
  }
  return {};
}

}  // namespace krafla::verifier
