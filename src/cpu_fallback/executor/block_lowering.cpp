// SPDX-License-Identifier: Apache-2.0
// Nodes and stores as steps on registers.
#include <algorithm>

#include "cpu_fallback/executor/block_compiler.h"

namespace krafla::cpu {

int BlockCompiler::SpreadSlot(NodeId node, int from) {
  if (auto it = spread_.find(from); it != spread_.end()) return it->second;
  const int width = Item(out_.slots_, from).width;
  int out = NewSlot(width, false);
  uint64_t depends = Item(depends_, node);
  const bool launch = IsOfLaunch(depends);
  Step step{.kind = Step::Kind::kSpread, .out = out, .in = {from, -1, -1}, .width = width};
  (launch ? out_.launch_steps_ : out_.tile_steps_).push_back(step);
  if (launch) fixed_[static_cast<std::size_t>(out)] = true;
  spread_.emplace(from, out);
  return out;
}

Result<> BlockCompiler::LowerForms(NodeId id) {
  if (lanes_.NeedsWide(id)) KRAFLA_TRY(LowerNode(id));
  for (int width : {1, 2})
    if (lanes_.NeedsNarrow(id, width)) KRAFLA_TRY(LowerNarrow(id, width));
  return {};
}

Result<> BlockCompiler::LowerNarrow(NodeId id, int width) {
  const Node& n = Item(program_.nodes, id);
  const bool varies = Varies(Item(depends_, id));
  Lanes::Form form = lanes_.FormOf(id, width);
  if (lanes_.NeedsWide(id) && form.kind != Lanes::Form::Kind::kLoad && form.kind != Lanes::Form::Kind::kConstant)
    form = {};
  int& slot = NarrowSlot(id, width);
  switch (form.kind) {
    case Lanes::Form::Kind::kConstant: slot = ConstantSlot(n.bits, width); return {};
    case Lanes::Form::Kind::kLoad: return LowerLoad(id, width, nullptr, slot);
    case Lanes::Form::Kind::kSame:
      slot = Item(program_.nodes, form.from).type == ElementType::kPred ? Item(slot_of_, form.from)
                                                                        : NarrowSlot(form.from, width);
      return {};
    case Lanes::Form::Kind::kTruncate:
    case Lanes::Form::Kind::kConvert: {
      const NodeId from = form.kind == Lanes::Form::Kind::kConvert ? form.from : id;
      const ElementType type = form.kind == Lanes::Form::Kind::kConvert ? form.type
                               : width == 1                             ? ElementType::kU8
                                                                        : ElementType::kU16;
      const ElementType operand = Item(program_.nodes, from).type;
      Step step{.kind = Step::Kind::kOp, .is_uniform = !varies, .in = {Item(slot_of_, from), -1, -1}};
      const BlockKey key{.op = NodeOp::kConvert, .type = type, .operand = operand};
      step.fn = FindBlockFn(key);
      step.key = AddKey(key);
      if (step.fn == nullptr)
        return Unimplemented("The CPU's block interpreter has no loop from {} to {}.", ElementTypeName(operand),
                             ElementTypeName(type));
      PushOp(step, id, width, slot);
      return {};
    }
    case Lanes::Form::Kind::kOp: break;
  }
  std::array<int, 3> in = {-1, -1, -1};
  const bool is_select = n.opcode == Opcode::kSelect;
  for (std::size_t i = 0; i < 3; ++i) {
    if (n.operands[i] == kNoNode) continue;
    in[i] = is_select && i == 0 ? Item(slot_of_, n.operands[i]) : NarrowSlot(n.operands[i], width);
  }
  return LowerOp(id, {.op = n.op, .opcode = n.opcode, .type = form.type, .operand = form.type}, in, width, slot);
}

int BlockCompiler::ConstantSlot(uint64_t bits, int width) {
  const int slot = NewSlot(width, true);
  fixed_.back() = true;
  out_.launch_steps_.push_back(
      {.kind = Step::Kind::kConstant, .is_uniform = true, .out = slot, .bits = bits, .width = width});
  return slot;
}

Result<> BlockCompiler::LowerLoad(NodeId id, int width, ConvertFn convert, int& slot) {
  const Node& n = Item(program_.nodes, id);
  const uint64_t depends = Item(depends_, id);
  const bool varies = Varies(depends);
  KRAFLA_ASSIGN(BlockProgram::Access access, LowerAccess(n.buffer, n.storage, n.index, n.mask));
  access.convert = convert;
  access.converted_width = width;
  slot = NewSlot(width, !varies);
  MarkFixed(slot, depends);
  out_.accesses_.push_back(access);
  Step step{.kind = Step::Kind::kLoad,
            .is_uniform = !varies,
            .out = slot,
            .access = static_cast<int>(out_.accesses_.size()) - 1};
  StepsFor(depends).push_back(step);
  return {};
}

Result<> BlockCompiler::LowerNode(NodeId id) {
  const Node& n = Item(program_.nodes, id);
  const uint64_t depends = Item(depends_, id);
  const bool varies = Varies(depends);
  int& slot = Item(slot_of_, id);
  switch (n.op) {
    case NodeOp::kConstant: slot = ConstantSlot(n.bits, ComputeWidth(n.type)); return {};
    case NodeOp::kParam: {
      slot = NewSlot(ComputeWidth(n.type), !varies);
      param_slot_.push_back(slot);
      out_.tile_steps_.push_back({.kind = Step::Kind::kParam, .is_uniform = !varies, .out = slot, .bits = n.bits});
      return {};
    }
    case NodeOp::kIndex: {
      const IndexExpr& e = space_.expr(n.index);
      const Split split = SplitExpr(e);
      if (!split.varying.empty()) {
        KRAFLA_ASSIGN(slot, OffsetsSlot(e, /*whole=*/true));
        return {};
      }
      slot = NewSlot(4, !varies);
      MarkFixed(slot, depends);
      StepsFor(depends).push_back({.kind = Step::Kind::kRamp,
                                   .is_uniform = !varies,
                                   .out = slot,
                                   .address = UniformAddress(e),
                                   .row_stride = split.row_stride,
                                   .column_stride = split.column_stride});
      return {};
    }
    case NodeOp::kLoad: return LowerLoad(id, ComputeWidth(n.type), FindWiden(n.storage), slot);
    case NodeOp::kBitcast: slot = Item(slot_of_, n.operands[0]); return {};
    case NodeOp::kConvert:
      // Between s32 and u32 the bits stay.
      if (IsIntegral(n.type) && IsIntegral(Item(program_.nodes, n.operands[0]).type) &&
          BitWidth(n.type) == BitWidth(Item(program_.nodes, n.operands[0]).type)) {
        slot = Item(slot_of_, n.operands[0]);
        return {};
      }
      break;
    case NodeOp::kHlo:
    case NodeOp::kCompare:
    case NodeOp::kRound:
    case NodeOp::kWrap:
    case NodeOp::kEncode:
    case NodeOp::kDecode:
    case NodeOp::kReducePrecision: break;
  }
  const bool is_select = n.op == NodeOp::kHlo && n.opcode == Opcode::kSelect;
  const ElementType read = lanes_.ReadType(id);
  BlockKey key{.op = n.op,
               .opcode = n.opcode,
               .type = n.type,
               .operand = Item(program_.nodes, n.operands[is_select ? 1 : 0]).type,
               .storage = n.storage,
               .direction = n.direction,
               .total_order = n.total_order};
  if (read != ElementType::kInvalid) key.operand = read;
  std::array<int, 3> in = {-1, -1, -1};
  for (std::size_t i = 0; i < 3; ++i) {
    const NodeId o = n.operands[i];
    if (o != kNoNode) in[i] = read == ElementType::kInvalid ? Item(slot_of_, o) : NarrowSlot(o, StorageBytes(read));
  }
  return LowerOp(id, key, in, ComputeWidth(n.type), slot);
}

Result<> BlockCompiler::LowerOp(NodeId id, BlockKey key, std::array<int, 3> in, int width, int& slot) {
  const Node& n = Item(program_.nodes, id);
  const bool varies = Varies(Item(depends_, id));
  Step step{.kind = Step::Kind::kOp, .is_uniform = !varies, .in = in, .bits = n.bits};
  for (unsigned i = 0; i < 3; ++i) {
    NodeId o = n.operands[i];
    if (o != kNoNode && varies && !Varies(Item(depends_, o))) key.uniform |= 1u << i;
  }
  step.key = AddKey(key);
  step.fn = FindBlockFn(key);
  if (step.fn == nullptr && key.uniform != 0) {
    // Second best: fewer uniform operands.
    for (unsigned i = 0; i < 3; ++i)
      if ((key.uniform >> i) & 1) step.in[i] = SpreadSlot(n.operands[i], in[i]);
    key.uniform = 0;
    step.fn = FindBlockFn(key);
  }
  if (!varies || out_.tile_.rows * out_.tile_.columns == 1) {
    BlockKey single = key;
    single.uniform = 0;
    step.scalar = FindScalarOp(single);
  } else if (out_.tile_.rows * out_.tile_.columns * width <= kSmallBytes) {
    step.small = FindSmallOp(key);
  }
  if (step.fn == nullptr) {
    return Unimplemented("The CPU's block interpreter has no loop for {} of {}.",
                         n.op == NodeOp::kHlo ? OpcodeName(n.opcode) : std::string_view("a conversion or comparison"),
                         ElementTypeName(key.operand));
  }
  PushOp(step, id, width, slot);
  return {};
}

void BlockCompiler::PushOp(Step& step, NodeId id, int width, int& slot) {
  const uint64_t depends = Item(depends_, id);
  slot = step.out = NewSlot(width, !Varies(depends));
  MarkFixed(slot, depends);
  StepsFor(depends).push_back(step);
}

Result<> BlockCompiler::LowerStore(const plan::Store& store) {
  KRAFLA_ASSIGN(BlockProgram::Access access, LowerAccess(store.buffer, store.storage, store.index, store.mask));
  const NodeId source = lanes_.SourceOf(store);
  int value = Item(slot_of_, source);
  access.convert = source == store.node ? FindNarrow(store.storage) : FindRoundNarrow(store.storage);
  access.rounds = source != store.node;
  if (const int width = StorageBytes(store.storage);
      width < 4 && lanes_.NeedsNarrow(store.node, width) && IsIntegral(store.storage)) {
    value = NarrowSlot(store.node, width);
    access.convert = nullptr;
  }
  const bool value_varies = Varies(Item(depends_, store.node));
  const bool store_varies = value_varies || access.row_stride != 0 || access.column_stride != 0 ||
                            access.offsets >= 0 || (access.mask >= 0 && !access.mask_is_uniform);
  Step step{.kind = Step::Kind::kStore, .is_uniform = !store_varies};
  // A value of one tile, as of a part of a row that is all the same, is loaded with the tile.
  const bool fills = options_.fills && program_.stores.size() == 1 && access.mask < 0 && access.offsets < 0 &&
                     access.column_stride == 1 && IsOfLaunch(Item(depends_, store.node));
  step.in[0] = store_varies && !value_varies && !fills ? SpreadSlot(store.node, value) : value;
  out_.accesses_.push_back(access);
  step.access = static_cast<int>(out_.accesses_.size()) - 1;
  out_.tile_steps_.push_back(step);
  return {};
}

}  // namespace krafla::cpu
