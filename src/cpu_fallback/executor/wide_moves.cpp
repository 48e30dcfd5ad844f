// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/wide_moves.h"

#include <optional>

namespace krafla::cpu {

using plan::ElementProgram;
using plan::IndexExpr;
using plan::IndexId;
using plan::IndexTerm;
using plan::kNoNode;
using plan::Node;
using plan::NodeId;
using plan::NodeOp;
using plan::ProgramBuffer;
using plan::Store;

namespace {

const Node& NodeOf(const ElementProgram& p, NodeId id) { return p.nodes[static_cast<std::size_t>(id)]; }

bool IsEven(const IndexExpr& e) {
  if (e.constant % 2 != 0) return false;
  for (const IndexTerm& t : e.terms)
    if (t.coefficient % 2 != 0) return false;
  return true;
}

// Whether `second` follows `first`, which begins a pair.
bool IsPair(ElementProgram& p, IndexId first, IndexId second) {
  return IsEven(p.space.expr(first)) && p.space.RangeOf(first).lo >= 0 && p.space.AddConstant(first, 1) == second;
}

// Every two stores are of the parts of one number, which was loaded from two neighbours, or is a constant.
std::optional<ElementProgram> InPairs(const ElementProgram& program) {
  if (program.stores.empty() || program.stores.size() % 2 != 0 || !program.results.empty()) return std::nullopt;
  ElementProgram p = program;
  p.stores.clear();
  std::vector<bool> is_paired(p.nodes.size(), false), is_moved(p.buffers.size(), false);
  for (std::size_t s = 0; s < program.stores.size(); s += 2) {
    const Store &re = program.stores[s], &im = program.stores[s + 1];
    if (re.buffer != im.buffer || re.storage != ElementType::kF32 || im.storage != ElementType::kF32 ||
        re.mask != kNoNode || im.mask != kNoNode || !IsPair(p, re.index, im.index))
      return std::nullopt;
    const Node a = NodeOf(p, re.node), b = NodeOf(p, im.node);
    if (a.op == NodeOp::kConstant && b.op == NodeOp::kConstant && program.stores.size() == 2) {
      const uint64_t low = a.bits & UINT32_MAX, high = b.bits & UINT32_MAX;
      p.nodes[static_cast<std::size_t>(re.node)] = {
          .op = NodeOp::kConstant, .type = ElementType::kU64, .bits = low | high << 32};
      is_moved[static_cast<std::size_t>(re.buffer)] = true;
      p.stores.push_back({re.buffer, p.space.FloorDiv(re.index, 2), re.node, ElementType::kU64, kNoNode});
      continue;
    }
    if (a.op != NodeOp::kLoad || b.op != NodeOp::kLoad || a.buffer != b.buffer || a.storage != ElementType::kF32 ||
        b.storage != ElementType::kF32 || a.mask != kNoNode || b.mask != kNoNode || !IsPair(p, a.index, b.index))
      return std::nullopt;
    Node& load = p.nodes[static_cast<std::size_t>(re.node)];
    load.type = load.storage = ElementType::kU64;
    load.index = p.space.FloorDiv(a.index, 2);
    is_paired[static_cast<std::size_t>(re.node)] = is_paired[static_cast<std::size_t>(im.node)] = true;
    is_moved[static_cast<std::size_t>(re.buffer)] = is_moved[static_cast<std::size_t>(a.buffer)] = true;
    p.stores.push_back({re.buffer, p.space.FloorDiv(re.index, 2), re.node, ElementType::kU64, kNoNode});
  }
  // What computes places reads other arrays.
  for (std::size_t n = 0; n < p.nodes.size(); ++n)
    if (program.nodes[n].op == NodeOp::kLoad && !is_paired[n] &&
        is_moved[static_cast<std::size_t>(program.nodes[n].buffer)])
      return std::nullopt;
  for (std::size_t b = 0; b < p.buffers.size(); ++b) {
    ProgramBuffer& buffer = p.buffers[b];
    if (!is_moved[b]) continue;
    if (buffer.storage != ElementType::kF32 || buffer.element_count % 2 != 0) return std::nullopt;
    buffer.storage = ElementType::kU64;
    buffer.element_count /= 2;
  }
  return p;
}

// The one store's value is part `part` of a loaded number, which is shifted down to the lowest bits.
std::optional<ElementProgram> InParts(const ElementProgram& program) {
  if (program.stores.size() != 1 || !program.results.empty()) return std::nullopt;
  const Store& store = program.stores[0];
  const Node& wrap = NodeOf(program, store.node);
  if (wrap.op != NodeOp::kWrap || wrap.storage != store.storage || !IsUnsigned(store.storage)) return std::nullopt;
  if (BitWidth(store.storage) < 8) return std::nullopt;
  const Node& shift = NodeOf(program, wrap.operands[0]);
  if (shift.op != NodeOp::kHlo || shift.opcode != Opcode::kShiftRightLogical || shift.type != ElementType::kU32)
    return std::nullopt;
  const Node* from = &NodeOf(program, shift.operands[0]);
  if (from->op == NodeOp::kBitcast) from = &NodeOf(program, from->operands[0]);
  const Node* count = &NodeOf(program, shift.operands[1]);
  if (count->op == NodeOp::kConvert) count = &NodeOf(program, count->operands[0]);
  if (from->op != NodeOp::kLoad || from->mask != kNoNode || StorageBytes(from->storage) != 4 ||
      from->storage != from->type || from->buffer == store.buffer || count->op != NodeOp::kIndex)
    return std::nullopt;
  const int64_t bits = BitWidth(store.storage), parts = 32 / bits;
  ElementProgram p = program;
  const plan::IndexSpace::Range range = p.space.RangeOf(count->index);
  if (range.lo < 0 || range.hi != 32 - bits) return std::nullopt;
  for (const IndexTerm& t : p.space.expr(count->index).terms)
    if (t.coefficient % bits != 0) return std::nullopt;
  if (p.space.expr(count->index).constant % bits != 0) return std::nullopt;
  Node load = *from;
  load.index = p.space.Add(p.space.Mul(from->index, parts), p.space.FloorDiv(count->index, bits));
  load.storage = store.storage;
  load.type = plan::ComputeType(store.storage);
  load.depends = p.space.Depends(load.index);
  // Nothing else reads that array.
  for (const Node& n : program.nodes)
    if (n.op == NodeOp::kLoad && n.buffer == from->buffer && &n != from) return std::nullopt;
  ProgramBuffer& buffer = p.buffers[static_cast<std::size_t>(load.buffer)];
  buffer.element_count = buffer.element_count * StorageBytes(buffer.storage) / StorageBytes(store.storage);
  buffer.storage = store.storage;
  // In the place of the wrap, which comes after what the place depends on.
  p.nodes[static_cast<std::size_t>(store.node)] = load;
  // The load that was is read by nothing now, and would be of another type than its array.
  p.nodes[static_cast<std::size_t>(from - program.nodes.data())] = {.op = NodeOp::kConstant, .type = from->type};
  return p;
}

}  // namespace

ElementProgram InPiecesOfMemory(const ElementProgram& program) {
  if (auto pairs = InPairs(program)) return std::move(*pairs);
  if (auto parts = InParts(program)) return std::move(*parts);
  return program;
}

}  // namespace krafla::cpu
