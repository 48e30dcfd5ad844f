// SPDX-License-Identifier: Apache-2.0
// Tokens, transfers with the host and other programs, and calls in two halves.
#include <format>

#include "ir/shape_rules/checks.h"
#include "xla_builder/impl.h"

namespace krafla {

using namespace xla_builder;  // NOLINT: the calls are made of its parts
using shape_rules::Brief;

namespace {

constexpr ElementType kContext = ElementType::kU32;

Result<Instruction*> AddToken(Impl& b) { return b.Add(Opcode::kAfterAll, {}); }

ChannelAttributes Channel(const ChannelHandle& handle, bool host) { return {handle.handle, host}; }

Result<> CheckHandle(const ChannelHandle& handle, bool host, ChannelHandle::ChannelType wanted) {
  if (handle.handle < 0) return InvalidArgument("The channel must not be negative, it is {}.", handle.handle);
  if (handle.type != wanted && handle.type != ChannelHandle::CHANNEL_TYPE_INVALID)
    return InvalidArgument("The channel is of a type for other transfers than {}.",
                           host ? "with the host" : "between devices");
  return {};
}

Result<Instruction*> AddInfeed(Impl& b, Instruction* token, const ShapeOrError& shape, std::string_view config) {
  if (!shape) return Failure(shape.error());
  KRAFLA_ASSIGN(Shape both, Shape::MakeTuple({*shape, Shape::MakeToken()}));
  InfeedAttributes attributes;
  attributes.config = config;
  return b.Add(Opcode::kInfeed, {token}, std::move(attributes), {}, &both);
}

Result<Instruction*> AddOutfeed(Impl& b, Instruction* operand, Instruction* token, const ShapeOrError& shape,
                                std::string_view config) {
  if (!shape) return Failure(shape.error());
  InfeedAttributes attributes;
  attributes.config = config;
  attributes.outfeed_shape = *shape;
  return b.Add(Opcode::kOutfeed, {operand, token}, std::move(attributes));
}

Result<Instruction*> AddSend(Impl& b, Instruction* operand, Instruction* token, const ChannelHandle& handle,
                             bool host) {
  KRAFLA_TRY(CheckHandle(handle, host, host ? ChannelHandle::DEVICE_TO_HOST : ChannelHandle::DEVICE_TO_DEVICE));
  KRAFLA_ASSIGN(Instruction * send, b.Add(Opcode::kSend, {operand, token}, Channel(handle, host)));
  return b.Add(Opcode::kSendDone, {send}, Channel(handle, host));
}

Result<Instruction*> AddRecv(Impl& b, Instruction* token, const ShapeOrError& shape, const ChannelHandle& handle,
                             bool host) {
  if (!shape) return Failure(shape.error());
  KRAFLA_TRY(CheckHandle(handle, host, host ? ChannelHandle::HOST_TO_DEVICE : ChannelHandle::DEVICE_TO_DEVICE));
  KRAFLA_ASSIGN(Shape all, Shape::MakeTuple({*shape, Shape::MakeScalar(kContext), Shape::MakeToken()}));
  KRAFLA_ASSIGN(Instruction * recv, b.Add(Opcode::kRecv, {token}, Channel(handle, host), {}, &all));
  return b.Add(Opcode::kRecvDone, {recv}, Channel(handle, host));
}

}  // namespace

XlaOp CreateToken(XlaBuilder* builder) { return RunOp("CreateToken", builder, {}, Opcode::kAfterAll); }

XlaOp AfterAll(XlaBuilder* builder, Span<XlaOp> tokens) {
  return Run("AfterAll", builder, tokens, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    if (ops.empty()) return InvalidArgument("AfterAll takes at least one token; CreateToken takes none.");
    return b.Add(Opcode::kAfterAll, ToVector(ops));
  });
}

XlaOp AddDependency(XlaOp operand, XlaOp token) {
  return RunOp("AddDependency", nullptr, {operand, token}, Opcode::kAddDependency);
}

XlaOp Infeed(XlaBuilder* builder, const ShapeOrError& shape, std::string_view config) {
  return Run("Infeed", builder, {}, [&](Impl& b, Instructions) -> Result<Instruction*> {
    KRAFLA_ASSIGN(Instruction * token, AddToken(b));
    KRAFLA_ASSIGN(Instruction * item, AddInfeed(b, token, shape, config));
    return b.Add(Opcode::kGetTupleElement, {item}, TupleIndexAttributes{0});
  });
}
XlaOp InfeedWithToken(XlaOp token, const ShapeOrError& shape, std::string_view config) {
  return Run("InfeedWithToken", nullptr, {token},
             [&](Impl& b, Instructions ops) { return AddInfeed(b, ops[0], shape, config); });
}

void Outfeed(XlaOp operand, const ShapeOrError& shape_with_layout, std::string_view outfeed_config) {
  Run("Outfeed", nullptr, {operand}, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    KRAFLA_ASSIGN(Instruction * token, AddToken(b));
    KRAFLA_TRY(AddOutfeed(b, ops[0], token, shape_with_layout, outfeed_config));
    return b.Add(Opcode::kTuple, {});  // as XLA's builder: what is added by default has no token
  });
}
XlaOp OutfeedWithToken(XlaOp operand, XlaOp token, const ShapeOrError& shape_with_layout,
                       std::string_view outfeed_config) {
  return Run("OutfeedWithToken", nullptr, {operand, token}, [&](Impl& b, Instructions ops) {
    return AddOutfeed(b, ops[0], ops[1], shape_with_layout, outfeed_config);
  });
}

void Send(XlaOp operand, const ChannelHandle& handle) {
  Run("Send", nullptr, {operand}, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    KRAFLA_ASSIGN(Instruction * token, AddToken(b));
    return AddSend(b, ops[0], token, handle, false);
  });
}
XlaOp SendWithToken(XlaOp operand, XlaOp token, const ChannelHandle& handle) {
  return Run("SendWithToken", nullptr, {operand, token},
             [&](Impl& b, Instructions ops) { return AddSend(b, ops[0], ops[1], handle, false); });
}
XlaOp Recv(XlaBuilder* builder, const ShapeOrError& shape, const ChannelHandle& handle) {
  return Run("Recv", builder, {}, [&](Impl& b, Instructions) -> Result<Instruction*> {
    KRAFLA_ASSIGN(Instruction * token, AddToken(b));
    KRAFLA_ASSIGN(Instruction * done, AddRecv(b, token, shape, handle, false));
    return b.Add(Opcode::kGetTupleElement, {done}, TupleIndexAttributes{0});
  });
}
XlaOp RecvWithToken(XlaOp token, const ShapeOrError& shape, const ChannelHandle& handle) {
  return Run("RecvWithToken", nullptr, {token},
             [&](Impl& b, Instructions ops) { return AddRecv(b, ops[0], shape, handle, false); });
}
XlaOp SendToHost(XlaOp operand, XlaOp token, const ShapeOrError& shape_with_layout, const ChannelHandle& handle) {
  return Run("SendToHost", nullptr, {operand, token}, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    if (!shape_with_layout) return Failure(shape_with_layout.error());
    if (!Shape::Compatible(*shape_with_layout, ops[0]->shape()))
      return InvalidArgument("shape_with_layout is {}, the operand is {}.", Brief(*shape_with_layout),
                             Brief(ops[0]->shape()));
    KRAFLA_TRY(ArrayShape(*ops[0], "The operand"));
    return AddSend(b, ops[0], ops[1], handle, true);
  });
}
XlaOp RecvFromHost(XlaOp token, const ShapeOrError& shape, const ChannelHandle& handle) {
  return Run("RecvFromHost", nullptr, {token}, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    if (shape && !shape->IsArray())
      return InvalidArgument("An array is received from the host, not {}.", Brief(*shape));
    return AddRecv(b, ops[0], shape, handle, true);
  });
}

XlaOp CopyStart(XlaOp operand) { return RunOp("CopyStart", nullptr, {operand}, Opcode::kCopyStart); }
XlaOp CopyDone(XlaOp start) { return RunOp("CopyDone", nullptr, {start}, Opcode::kCopyDone); }

XlaOp AsyncStart(XlaBuilder* builder, Span<XlaOp> operands, std::string_view execution_thread,
                 const ComputationOrError& computation) {
  return Run("AsyncStart", builder, operands, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    KRAFLA_ASSIGN(Computation * f, b.Import(computation));
    f->set_execution_thread(std::string(execution_thread));
    return b.Add(Opcode::kAsyncStart, ToVector(ops), AsyncAttributes{std::string(execution_thread)}, {f});
  });
}

namespace {

// The update or the end of what `ops[0]` began, on its thread. The computation is named at the start only.
Result<Instruction*> AddAsyncStep(Impl& b, Opcode opcode, Instructions ops) {
  const auto* attributes = std::get_if<AsyncAttributes>(&ops[0]->attributes());
  if (attributes == nullptr)
    return InvalidArgument("The operand must be what AsyncStart or AsyncUpdate gives, it is {}.", Describe(*ops[0]));
  AsyncAttributes same = *attributes;
  return b.Add(opcode, ToVector(ops), std::move(same));
}

}  // namespace

XlaOp AsyncUpdate(XlaOp start) {
  return Run("AsyncUpdate", nullptr, {start},
             [&](Impl& b, Instructions ops) { return AddAsyncStep(b, Opcode::kAsyncUpdate, ops); });
}
XlaOp AsyncDone(XlaOp start) {
  return Run("AsyncDone", nullptr, {start},
             [&](Impl& b, Instructions ops) { return AddAsyncStep(b, Opcode::kAsyncDone, ops); });
}

}  // namespace krafla
