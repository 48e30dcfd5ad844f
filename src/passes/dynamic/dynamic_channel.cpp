// SPDX-License-Identifier: Apache-2.0
// send and recv of bounded dynamic shape between devices. What is sent has the bounds, and the sizes are one more
// element of the same message, s32[n] in the order of leaves and of their dimensions: (data, sizes). What nobody sends
// to receives zeros, and so sizes of zero.
#include "base/index.h"
#include "passes/dynamic/dynamic_values.h"
#include "passes/simplify/scalar_facts.h"

namespace krafla {

namespace {

// What travels in the place of `data`.
Result<Shape> MessageShape(const Shape& data) {
  std::vector<Shape> elements = {data.WithStaticDims()};
  elements[0].ClearLayout();
  KRAFLA_ASSIGN(Shape sizes, Shape::MakeArray(ElementType::kS32, Dims{DynamicDimensions(data)}));
  elements.push_back(std::move(sizes));
  return Shape::MakeTuple(std::move(elements));
}

// `shape` with another element 0.
Result<Shape> WithData(const Shape& shape, Shape data) {
  std::vector<Shape> elements = shape.tuple_elements();
  elements[0] = std::move(data);
  return Shape::MakeTuple(std::move(elements));
}

BoundedValue Unsized(Instruction* value) {
  return {value, std::vector<DimensionSizes>(TupleLeaves(value->shape()).size())};
}

Lowered Send(DynamicOp& op) {
  Rewriter& rewrite = op.rewrite();
  std::vector<Instruction*> sizes;
  const std::vector<const Shape*> leaves = TupleLeaves(op.shape().tuple_elements()[0]);
  for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf)
    for (int64_t d = 0; d < leaves[leaf]->rank(); ++d) {
      if (!leaves[leaf]->IsDynamicDim(d)) continue;
      const DimensionSizes& own = op.operand(0).leaves[leaf];
      Instruction* size = At(d) < own.size() ? own[At(d)] : nullptr;
      if (size == nullptr) size = op.Number(leaves[leaf]->dim(d));
      sizes.push_back(rewrite.Reshape(size, {1}));
    }
  Instruction* all = sizes[0];
  if (sizes.size() > 1) {
    KRAFLA_ASSIGN(all, rewrite.Infer(Opcode::kConcatenate, std::move(sizes), DimensionsAttributes{Dims{0}}));
  }
  Instruction* message = rewrite.Tuple({op.value(0), all});
  Instruction* made = op.instruction().parent()->AddClone(op.instruction(), {message, op.value(1)});
  KRAFLA_ASSIGN(Shape shape, WithData(op.shape(), message->shape()));
  made->set_shape(std::move(shape));
  return Unsized(made);
}

Lowered Recv(DynamicOp& op) {
  Instruction* made = op.instruction().parent()->AddClone(op.instruction(), {op.value(0)});
  KRAFLA_ASSIGN(Shape message, MessageShape(op.shape().tuple_elements()[0]));
  KRAFLA_ASSIGN(Shape shape, WithData(op.shape(), std::move(message)));
  made->set_shape(std::move(shape));
  return Unsized(made);
}

Lowered RecvDone(DynamicOp& op) {
  Rewriter& rewrite = op.rewrite();
  Instruction* made = op.instruction().parent()->AddClone(op.instruction(), {op.value(0)});
  KRAFLA_ASSIGN(Shape shape, WithData(op.shape(), op.value(0)->shape().tuple_elements()[0]));
  made->set_shape(std::move(shape));
  Instruction* message = rewrite.Element(made, 0);
  Instruction* sizes = rewrite.Element(message, 1);
  BoundedValue out{rewrite.Tuple({rewrite.Element(message, 0), rewrite.Element(made, 1)}), {}};
  int64_t next = 0;
  for (const Shape* leaf : TupleLeaves(op.shape())) {
    DimensionSizes own(leaf->IsArray() ? At(leaf->rank()) : 0, nullptr);
    for (std::size_t d = 0; d < own.size(); ++d) {
      if (!leaf->IsDynamicDim(static_cast<int64_t>(d))) continue;
      SliceAttributes one;
      one.starts = {next};
      one.limits = {++next};
      one.strides = {1};
      own[d] = op.Clamped(rewrite.Reshape(rewrite.Slice(sizes, one), Dims{}), leaf->dim(static_cast<int64_t>(d)));
    }
    out.leaves.push_back(std::move(own));
  }
  return out;
}

bool HasData(const Shape& shape, std::size_t elements) {
  return shape.IsTuple() && shape.tuple_elements().size() == elements;
}

}  // namespace

Result<> CheckDynamicChannels(const Module& module) {
  struct Ends {
    std::vector<const Instruction*> sends, recvs;
  };
  std::map<int64_t, Ends> channels;
  for (const auto& c : module.computations())
    for (const auto& i : c->instructions()) {
      if (i->opcode() != Opcode::kSend && i->opcode() != Opcode::kRecv) continue;
      const auto& a = i->attr<ChannelAttributes>();
      if (a.is_host_transfer || !HasData(i->shape(), 3)) continue;
      Ends& ends = channels[a.channel_id.value_or(0)];
      (i->opcode() == Opcode::kSend ? ends.sends : ends.recvs).push_back(i.get());
    }
  for (const auto& [number, ends] : channels) {
    // With several of a kind it shows only at run time which takes what which sends.
    if (ends.sends.size() != 1 || ends.recvs.size() != 1) continue;
    const Instruction &send = *ends.sends[0], &recv = *ends.recvs[0];
    const Shape &sent = send.shape().tuple_elements()[0], &taken = recv.shape().tuple_elements()[0];
    if ((sent.IsDynamic() || taken.IsDynamic()) && !Shape::Compatible(sent, taken))
      return InvalidArgument(
          "{} and {} share channel {} and must agree on what has a size of run time; they are {} "
          "and {}.",
          Describe(send), Describe(recv), number, sent.ToString(false), taken.ToString(false));
  }
  return {};
}

Lowered LowerDynamicChannel(DynamicOp& op) {
  const Opcode opcode = op.instruction().opcode();
  const auto* a = std::get_if<ChannelAttributes>(&op.instruction().attributes());
  if (a == nullptr || a->is_host_transfer) return std::nullopt;
  if (opcode == Opcode::kSend && HasData(op.shape(), 3) && op.shape().IsDynamic()) return Send(op);
  if (opcode == Opcode::kRecv && HasData(op.shape(), 3) && op.shape().IsDynamic()) return Recv(op);
  if (opcode == Opcode::kRecvDone && HasData(op.shape(), 2) && op.shape().IsDynamic()) return RecvDone(op);
  return std::nullopt;
}

}  // namespace krafla
