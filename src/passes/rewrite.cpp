// SPDX-License-Identifier: Apache-2.0
#include "passes/rewrite.h"

#include <algorithm>
#include <utility>

#include "base/work.h"
#include "ir/builder.h"

namespace krafla {

std::vector<Computation*> ReachableComputations(const Module& module) {
  std::vector<Computation*> order;
  std::unordered_set<const Computation*> seen;
  struct Frame {
    Computation* computation;
    std::vector<Computation*> callees;
    std::size_t next;
  };
  std::vector<Frame> stack;
  auto open = [&](Computation* c) {
    if (!seen.insert(c).second) return;
    std::vector<Computation*> callees;
    CountWork(static_cast<int64_t>(c->instructions().size()));
    for (const auto& i : c->instructions())
      for (Computation* callee : i->called())
        if (!seen.contains(callee)) callees.push_back(callee);
    stack.push_back({c, std::move(callees), 0});
  };
  if (module.entry() != nullptr) open(module.entry());
  while (!stack.empty()) {
    Frame& frame = stack.back();
    if (frame.next < frame.callees.size()) {
      open(frame.callees[frame.next++]);
      continue;
    }
    order.push_back(frame.computation);
    stack.pop_back();
  }
  return order;
}

bool SideEffects::Has(const Instruction& i) {
  if (HasTrait(i.opcode(), op_trait::kSideEffect)) return true;
  if (i.opcode() == Opcode::kCustomCall && i.attr<CustomCallAttributes>().has_side_effect) return true;
  for (const Computation* c : i.called())
    if (Has(*c)) return true;
  return false;
}

bool SideEffects::Has(const Computation& c) {
  auto it = known_.find(&c);
  if (it != known_.end()) return it->second;
  bool has = false;
  for (const auto& i : c.instructions()) {
    CountWork(1);
    if (!Has(*i)) continue;
    has = true;
    break;
  }
  known_[&c] = has;
  return has;
}

bool RemoveDead(Computation& c, SideEffects& effects) {
  int bound = 0;
  for (const auto& i : c.instructions()) bound = std::max(bound, i->id() + 1);
  std::vector<uint8_t> live(static_cast<std::size_t>(bound), 0);
  std::size_t count = 0;
  auto is_live = [&](const Instruction* i) { return live[static_cast<std::size_t>(i->id())] != 0; };
  std::vector<Instruction*> work;
  auto mark = [&](Instruction* i) {
    if (is_live(i)) return;
    live[static_cast<std::size_t>(i->id())] = 1;
    ++count;
    work.push_back(i);
  };
  mark(c.root());
  bool has_control = false;
  for (const auto& i : c.instructions()) {
    has_control |= !i->control_predecessors().empty();
    if (i->opcode() == Opcode::kParameter || effects.Has(*i)) mark(i.get());
  }
  while (!work.empty()) {
    Instruction* i = work.back();
    work.pop_back();
    for (Instruction* operand : i->operands()) mark(operand);
  }
  if (count == c.instructions().size()) return false;
  std::vector<Instruction*> dead;
  for (const auto& i : c.instructions())
    if (!is_live(i.get())) dead.push_back(i.get());
  if (has_control) {
    // What had to come before a dead predecessor still comes before its successor.
    for (const auto& owned : c.instructions()) {
      if (!is_live(owned.get())) continue;
      std::unordered_set<const Instruction*> seen;
      std::vector<Instruction*> through;
      auto look = [&](Instruction* before) {
        if (!seen.insert(before).second) return;
        if (is_live(before)) owned->AddControlPredecessor(before);
        else through.push_back(before);
      };
      for (Instruction* before : owned->control_predecessors())
        if (!is_live(before) && seen.insert(before).second) through.push_back(before);
      while (!through.empty()) {
        Instruction* gone = through.back();
        through.pop_back();
        for (Instruction* before : gone->operands()) look(before);
        for (Instruction* before : gone->control_predecessors()) look(before);
      }
    }
  }
  c.RemoveAll(dead);
  return true;
}

bool IsStatic(const Instruction& i) {
  if (i.shape().IsDynamic()) return false;
  for (const Instruction* operand : i.operands())
    if (operand->shape().IsDynamic()) return false;
  return true;
}

Shape ArrayShape(ElementType type, std::span<const int64_t> dims) {
  auto shape = Shape::MakeArray(type, dims);
  KRAFLA_CHECK(shape.has_value());
  return std::move(*shape);
}

Instruction* Rewriter::Add(Opcode opcode, Shape shape, std::vector<Instruction*> operands, Attributes attributes,
                           std::vector<Computation*> called) {
  Instruction* out =
      computation_.Add(opcode, std::move(shape), std::move(operands), std::move(attributes), std::move(called));
  out->set_location(origin_.location());
  // Of the metadata only where the instruction came from: shardings and configurations are about the old one.
  const std::string& metadata = origin_.metadata().metadata;
  if (!metadata.empty()) {
    InstructionMetadata kept;
    kept.metadata = metadata;
    out->set_metadata(std::move(kept));
  }
  return out;
}

Result<Instruction*> Rewriter::Infer(Opcode opcode, std::vector<Instruction*> operands, Attributes attributes,
                                     std::vector<Computation*> called, const Shape* declared) {
  KRAFLA_ASSIGN(Shape shape, InferShape(computation_, opcode, operands, attributes, called, declared));
  return Add(opcode, std::move(shape), std::move(operands), std::move(attributes), std::move(called));
}

Result<Instruction*> Rewriter::Reduce(Opcode opcode, Instruction* x, Literal init,
                                      std::span<const int64_t> dimensions) {
  Computation* f = AddBinaryComputation(*computation_.parent(), opcode, init.shape());
  return Infer(Opcode::kReduce, {x, Constant(std::move(init))}, DimensionsAttributes{Dims(dimensions)}, {f});
}

Instruction* Rewriter::Compare(ComparisonDirection direction, Instruction* a, Instruction* b) {
  CompareAttributes attributes;
  attributes.direction = direction;
  return Add(Opcode::kCompare, a->shape().WithElementType(ElementType::kPred), {a, b}, attributes);
}

Instruction* Rewriter::Convert(Instruction* x, ElementType type) {
  if (x->shape().element_type() == type) return x;
  return Add(Opcode::kConvert, x->shape().WithElementType(type), {x});
}

Instruction* Rewriter::Reshape(Instruction* x, std::span<const int64_t> dims) {
  while (x->opcode() == Opcode::kReshape && IsStatic(*x)) x = x->operand(0);
  if (std::ranges::equal(x->shape().dims(), dims)) return x;
  return Add(Opcode::kReshape, ArrayShape(x->shape().element_type(), dims), {x});
}

Instruction* Rewriter::Transpose(Instruction* x, std::span<const int64_t> permutation) {
  Dims dims, composed(permutation);
  for (int64_t d : permutation) dims.push_back(x->shape().dim(d));
  if (x->opcode() == Opcode::kTranspose && IsStatic(*x)) {
    const Dims& inner = x->attr<DimensionsAttributes>().dimensions;
    for (int64_t& d : composed) d = inner[static_cast<std::size_t>(d)];
    x = x->operand(0);
  }
  bool identity = true;
  for (std::size_t i = 0; i < composed.size(); ++i) identity &= composed[i] == static_cast<int64_t>(i);
  if (identity) return x;
  return Add(Opcode::kTranspose, ArrayShape(x->shape().element_type(), dims), {x}, DimensionsAttributes{composed});
}

Instruction* Rewriter::Broadcast(Instruction* x, std::span<const int64_t> dims, std::span<const int64_t> mapping) {
  bool identity = x->shape().rank() == static_cast<int64_t>(dims.size());
  for (std::size_t i = 0; identity && i < mapping.size(); ++i) identity = mapping[i] == static_cast<int64_t>(i);
  if (identity) return x;
  return Add(Opcode::kBroadcast, ArrayShape(x->shape().element_type(), dims), {x}, DimensionsAttributes{Dims(mapping)});
}

Instruction* Rewriter::Slice(Instruction* x, SliceAttributes attributes) {
  Dims dims;
  bool whole = true;
  for (std::size_t i = 0; i < attributes.starts.size(); ++i) {
    int64_t extent = attributes.limits[i] - attributes.starts[i];
    int64_t count = extent <= 0 ? 0 : (extent + attributes.strides[i] - 1) / attributes.strides[i];
    whole &= count == x->shape().dim(static_cast<int64_t>(i)) && attributes.starts[i] == 0;
    dims.push_back(count);
  }
  if (whole) return x;
  return Add(Opcode::kSlice, ArrayShape(x->shape().element_type(), dims), {x}, std::move(attributes));
}

Instruction* Rewriter::Constant(Literal literal) {
  auto owned = std::make_shared<const Literal>(std::move(literal));
  Shape shape = owned->shape();
  shape.ClearLayout();
  return Add(Opcode::kConstant, std::move(shape), {}, ConstantAttributes{std::move(owned)});
}

Instruction* Rewriter::Splat(Literal scalar, std::span<const int64_t> dims) {
  return Broadcast(Constant(std::move(scalar)), dims, {});
}

Instruction* Rewriter::Tuple(std::vector<Instruction*> elements) {
  std::vector<Shape> shapes;
  for (const Instruction* e : elements) shapes.push_back(e->shape());
  auto shape = Shape::MakeTuple(std::move(shapes));
  KRAFLA_CHECK(shape.has_value());
  return Add(Opcode::kTuple, std::move(*shape), std::move(elements));
}

Instruction* Rewriter::Element(Instruction* tuple, int64_t index) {
  if (tuple->opcode() == Opcode::kTuple) return tuple->operand(static_cast<std::size_t>(index));
  return Add(Opcode::kGetTupleElement, tuple->shape().tuple_elements()[static_cast<std::size_t>(index)], {tuple},
             TupleIndexAttributes{index});
}

void Replace(Instruction* old, Instruction* with) {
  KRAFLA_CHECK(Shape::Compatible(old->shape(), with->shape()));
  old->ReplaceAllUsesWith(with);
}

bool RemoveUncalled(Module& module) {
  std::unordered_set<const Computation*> reachable;
  for (const Computation* c : ReachableComputations(module)) reachable.insert(c);
  std::vector<Computation*> uncalled;
  for (const auto& c : module.computations())
    if (!reachable.contains(c.get())) uncalled.push_back(c.get());
  module.RemoveAll(uncalled);
  return !uncalled.empty();
}

Result<bool> RewriteAll(Module& module, Opcode opcode,
                        const std::function<Result<Instruction*>(Instruction*)>& rewrite) {
  if (module.CountOf(opcode) == 0) return false;
  return RewriteWhere(module, [opcode](const Instruction& i) { return i.opcode() == opcode; }, rewrite);
}

Result<bool> RewriteWhere(Module& module, const std::function<bool(const Instruction&)>& where,
                          const std::function<Result<Instruction*>(Instruction*)>& rewrite) {
  bool changed = false;
  for (Computation* c : ReachableComputations(module)) {
    std::vector<Instruction*> found, replaced;
    for (const auto& i : c->instructions())
      if (where(*i)) found.push_back(i.get());
    for (Instruction* i : found) {
      KRAFLA_ASSIGN(Instruction * with, rewrite(i));
      if (with == nullptr || with == i) continue;
      Replace(i, with);
      replaced.push_back(i);
    }
    if (replaced.empty()) continue;
    changed = true;
    c->RemoveAll(replaced);
    KRAFLA_TRY(c->SortTopologically());
  }
  return changed;
}

Result<bool> SweepModule(Module& module, Simplifier simplify) {
  constexpr int kSweeps = 8, kTries = 16;
  bool changed = false;
  SideEffects effects;
  for (Computation* c : ReachableComputations(module)) {
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      KRAFLA_TRY(c->SortTopologically());
      std::vector<Instruction*> order;
      order.reserve(c->instructions().size());
      for (const auto& i : c->instructions()) order.push_back(i.get());
      bool swept = false;
      CountWork(static_cast<int64_t>(order.size()));
      for (Instruction* i : order) {
        if (i->users().empty() && !i->IsRoot()) continue;
        for (int tries = 0; tries < kTries; ++tries) {
          if (!IsStatic(*i)) break;
          Instruction* with = simplify(i);
          if (with == nullptr || with == i) break;
          Replace(i, with);
          swept = true;
          i = with;
        }
      }
      if (!swept) break;
      changed = true;
      RemoveDead(*c, effects);
    }
  }
  return changed;
}

const Literal* SplatOf(const Instruction* x) {
  while (x->opcode() == Opcode::kBroadcast || x->opcode() == Opcode::kReshape) { x = x->operand(0); }
  if (!x->IsConstant() || !x->shape().IsScalar()) return nullptr;
  return &x->literal();
}

namespace {

// `from` must be in topological order.
std::unordered_map<const Instruction*, Instruction*> CopyInstructions(Computation& into, const Computation& from,
                                                                      std::span<Instruction* const> arguments,
                                                                      bool copy_parameters) {
  std::unordered_map<const Instruction*, Instruction*> copies;
  copies.reserve(from.instructions().size());
  if (!copy_parameters) {
    KRAFLA_CHECK(arguments.size() == from.parameters().size());
    for (std::size_t n = 0; n < arguments.size(); ++n) copies[from.parameters()[n]] = arguments[n];
  }
  for (const auto& i : from.instructions()) {
    if (i->opcode() == Opcode::kParameter && !copy_parameters) continue;
    std::vector<Instruction*> operands;
    operands.reserve(i->operand_count());
    for (const Instruction* operand : i->operands()) operands.push_back(copies.at(operand));
    Instruction* copy = into.AddClone(*i, std::move(operands));
    for (const Instruction* before : i->control_predecessors()) copy->AddControlPredecessor(copies.at(before));
    copies[i.get()] = copy;
  }
  return copies;
}

}  // namespace

Instruction* InlineInto(Computation& into, const Computation& from, std::span<Instruction* const> arguments) {
  return CopyInstructions(into, from, arguments, false).at(from.root());
}

Computation* CloneComputation(const Computation& computation) {
  Computation* out = computation.parent()->AddComputation(computation.name());
  out->set_execution_thread(computation.execution_thread());
  out->set_root(CopyInstructions(*out, computation, {}, true).at(computation.root()));
  return out;
}

}  // namespace krafla
