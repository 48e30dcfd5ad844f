// SPDX-License-Identifier: Apache-2.0
// Merges computations that are the same (JAX writes an "add" region for every reduce), then instructions that are the
// same on the same operands.
#include <string>
#include <string_view>
#include <unordered_map>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace krafla {

namespace {

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
  return hash * 0xff51afd7ed558ccdu;
}

uint64_t HashShape(uint64_t hash, const Shape& shape) {
  hash = Mix(hash, static_cast<uint64_t>(shape.element_type()));
  for (int64_t d : shape.dims()) hash = Mix(hash, static_cast<uint64_t>(d));
  for (const Shape& e : shape.tuple_elements()) hash = HashShape(hash, e);
  return hash;
}

// A few bytes tell most constants apart; equality then looks at all of them.
uint64_t HashLiteral(uint64_t hash, const Literal& literal) {
  auto bytes = literal.bytes();
  std::size_t step = bytes.size() <= 64 ? 1 : bytes.size() / 61;
  for (std::size_t n = 0; n < bytes.size(); n += step) hash = Mix(hash, static_cast<uint64_t>(bytes[n]));
  return hash;
}

uint64_t HashAttributes(uint64_t hash, const Attributes& attributes) {
  hash = Mix(hash, attributes.index());
  if (const auto* c = std::get_if<ConstantAttributes>(&attributes)) return HashLiteral(hash, *c->literal);
  if (const auto* d = std::get_if<DimensionsAttributes>(&attributes))
    for (int64_t x : d->dimensions) hash = Mix(hash, static_cast<uint64_t>(x));
  if (const auto* t = std::get_if<TupleIndexAttributes>(&attributes)) hash = Mix(hash, static_cast<uint64_t>(t->index));
  if (const auto* i = std::get_if<IotaAttributes>(&attributes)) hash = Mix(hash, static_cast<uint64_t>(i->dimension));
  if (const auto* s = std::get_if<SliceAttributes>(&attributes))
    for (int64_t x : s->starts) hash = Mix(hash, static_cast<uint64_t>(x));
  if (const auto* p = std::get_if<ParameterAttributes>(&attributes)) hash = Mix(hash, static_cast<uint64_t>(p->number));
  return hash;
}

// a op b is b op a to the bit. Of a sum of two NaNs the payload may differ, so floats keep their order.
bool Commutes(const Instruction& i) {
  return HasTrait(i.opcode(), op_trait::kCommutative) && i.operand_count() == 2 && !IsFloat(i.shape().element_type()) &&
         !IsComplex(i.shape().element_type());
}

// Computations of while and conditional belong to their caller alone (call_inliner): never one for two, but often
// alike.
bool OwnsCalled(const Instruction& i) { return i.opcode() == Opcode::kWhile || i.opcode() == Opcode::kConditional; }

uint64_t HashInstruction(const Instruction& i) {
  uint64_t hash = Mix(static_cast<uint64_t>(i.opcode()), i.operand_count());
  hash = HashShape(hash, i.shape());
  hash = HashAttributes(hash, i.attributes());
  uint64_t sum = 0;
  for (const Instruction* operand : i.operands()) {
    if (Commutes(i)) sum += Mix(7, static_cast<uint64_t>(operand->id()));
    else hash = Mix(hash, static_cast<uint64_t>(operand->id()));
  }
  hash = Mix(hash, sum);
  for (const Computation* c : i.called())
    hash = Mix(hash, OwnsCalled(i) ? c->instructions().size() : reinterpret_cast<uintptr_t>(c));
  return hash;
}

bool SameComputation(const Computation& a, const Computation& b);

bool SameButForOperands(const Instruction& a, const Instruction& b) {
  if (a.opcode() != b.opcode() || a.operand_count() != b.operand_count() || !Shape::Compatible(a.shape(), b.shape()) ||
      a.attributes() != b.attributes())
    return false;
  const auto same = [&](const Computation* x, const Computation* y) {
    return x == y || (OwnsCalled(a) && SameComputation(*x, *y));
  };
  return std::ranges::equal(a.called(), b.called(), same);
}

bool SameInstruction(const Instruction& a, const Instruction& b) {
  if (!SameButForOperands(a, b)) return false;
  if (std::ranges::equal(a.operands(), b.operands())) return true;
  return Commutes(a) && a.operand(0) == b.operand(1) && a.operand(1) == b.operand(0);
}

bool MayMerge(const Instruction& i, SideEffects& effects) {
  Opcode op = i.opcode();
  if (op == Opcode::kParameter || op == Opcode::kCustomCall || op == Opcode::kOptimizationBarrier) return false;
  if (HasTrait(op, op_trait::kCollective | op_trait::kAsyncStart | op_trait::kAsyncDone)) return false;
  if (op == Opcode::kAsyncUpdate || op == Opcode::kAfterAll) return false;
  return i.control_predecessors().empty() && !effects.Has(i);
}

bool MergeIn(Computation& c, SideEffects& effects) {
  struct Hash {
    std::size_t operator()(const Instruction* i) const { return HashInstruction(*i); }
  };
  struct Same {
    bool operator()(const Instruction* a, const Instruction* b) const { return SameInstruction(*a, *b); }
  };
  std::unordered_set<Instruction*, Hash, Same> seen;
  seen.reserve(c.instructions().size());
  std::vector<Instruction*> merged;
  for (const auto& i : c.instructions()) {
    if (!MayMerge(*i, effects)) continue;
    auto [it, fresh] = seen.insert(i.get());
    if (fresh) continue;
    i->ReplaceAllUsesWith(*it);
    merged.push_back(i.get());
  }
  if (!merged.empty()) c.RemoveAll(merged);
  return !merged.empty();
}

// Equal for equal computations: every instruction by the position of its operands.
bool SameComputation(const Computation& a, const Computation& b) {
  if (a.instructions().size() != b.instructions().size() || a.execution_thread() != b.execution_thread()) return false;
  std::unordered_map<const Instruction*, const Instruction*> twin;
  for (std::size_t n = 0; n < a.instructions().size(); ++n) {
    const Instruction& x = *a.instructions()[n];
    const Instruction& y = *b.instructions()[n];
    if (!SameButForOperands(x, y) || !x.control_predecessors().empty() || !y.control_predecessors().empty())
      return false;
    for (std::size_t k = 0; k < x.operand_count(); ++k)
      if (twin[x.operand(k)] != y.operand(k)) return false;
    twin[&x] = &y;
  }
  return twin[a.root()] == b.root();
}

uint64_t HashComputation(const Computation& c) {
  uint64_t hash = c.instructions().size();
  for (const auto& i : c.instructions()) {
    hash = HashShape(Mix(hash, static_cast<uint64_t>(i->opcode())), i->shape());
    hash = HashAttributes(hash, i->attributes());
  }
  return hash;
}

// Those that belong to one caller do not merge. What is merged away has no caller left and goes with dce.
bool MergeComputations(Module& module, const std::vector<Computation*>& order, SideEffects& effects) {
  std::unordered_set<const Computation*> owned = {module.entry()};
  for (const Computation* c : order)
    for (const auto& i : c->instructions())
      if (OwnsCalled(*i)) owned.insert(i->called().begin(), i->called().end());
  std::unordered_map<uint64_t, std::vector<Computation*>> seen;
  std::unordered_map<const Computation*, Computation*> merged;
  for (Computation* c : order) {
    for (const auto& i : c->instructions()) {
      if (i->called().empty()) continue;
      std::vector<Computation*> called(i->called().begin(), i->called().end());
      bool changed = false;
      for (Computation*& callee : called) {
        auto it = merged.find(callee);
        if (it == merged.end()) continue;
        callee = it->second;
        changed = true;
      }
      if (changed) i->set_called(std::move(called));
    }
    if (owned.contains(c) || effects.Has(*c)) continue;
    std::vector<Computation*>& bucket = seen[HashComputation(*c)];
    Computation* same = nullptr;
    for (Computation* other : bucket)
      if (SameComputation(*c, *other)) same = other;
    if (same != nullptr) merged[c] = same;
    else bucket.push_back(c);
  }
  return !merged.empty();
}

}  // namespace

Result<bool> Cse(Module& module, const PassOptions&) {
  SideEffects effects;
  std::vector<Computation*> order = ReachableComputations(module);
  for (Computation* c : order) KRAFLA_TRY(c->SortTopologically());
  bool changed = MergeComputations(module, order, effects);
  SideEffects fresh;
  for (Computation* c : ReachableComputations(module)) changed |= MergeIn(*c, fresh);
  return changed;
}

}  // namespace krafla
