// SPDX-License-Identifier: Apache-2.0
// Makes every bounded dynamic dimension static: an array has its bound as dimension, and its size at run time is an
// s32[] in the graph (XLA: dynamic_padder.h, dynamic_dimension_inference.h). The module's interface changes with it:
//   - each dynamic dimension of a parameter of the entry becomes one more parameter, s32[], after all others, in order
//     of the leaves and of their dimensions;
//   - likewise of the result, whose sizes follow its elements in one tuple;
//   - the state of loops and what branches take and give has its sizes at the end of its tuple in the same way.
// An operation that no rule covers is put, with its sizes set as they were, into a computation of its own that a call
// runs: there is no kernel for a call, so that the evaluator takes it and the report names it.
#include <algorithm>
#include <unordered_set>

#include "base/index.h"
#include "ir/custom_call.h"
#include "passes/dynamic/dynamic_values.h"
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/simplify/scalar_facts.h"

namespace krafla {

namespace {

// What takes the place of a shape: its elements (itself, if no tuple) and the sizes in one tuple.
Result<Shape> Packed(const Shape& shape) {
  const int64_t sizes = DynamicDimensions(shape);
  if (sizes == 0) return shape;
  std::vector<Shape> elements;
  if (shape.IsTuple()) elements = shape.WithStaticDims().tuple_elements();
  else elements = {shape.WithStaticDims()};
  for (int64_t n = 0; n < sizes; ++n) elements.push_back(SizeShape());
  return Shape::MakeTuple(std::move(elements));
}

bool IsDynamicCall(const Instruction& i) {
  const CustomCallTarget target = CustomCallTargetOf(i);
  return target == CustomCallTarget::kPadToStatic || target == CustomCallTarget::kSliceToDynamic;
}

bool IsDynamicOpcode(const Instruction& i) {
  return i.opcode() == Opcode::kSetDimensionSize || i.opcode() == Opcode::kDynamicReshape || IsDynamicCall(i);
}

bool IsHostTransfer(const Instruction& i) {
  const auto* a = std::get_if<ChannelAttributes>(&i.attributes());
  return a != nullptr && a->is_host_transfer;
}

// The send or recv that `i` is, or ends.
const Instruction* TransferOf(const Instruction& i) {
  return HasTrait(i.opcode(), op_trait::kAsyncDone) ? i.operand(0) : &i;
}

// One computation's instructions, operands first.
class ComputationPadder {
 public:
  ComputationPadder(Computation& c, SideEffects& effects) : c_(c), effects_(effects) {}

  // `result`: the shape that callers see, with its dynamic dimensions.
  Result<> Run(const Shape& result, bool is_entry);

 private:
  Result<> TakeParameters();
  Result<> TakeEntryParameters();
  Result<> Visit(Instruction* i);
  Result<BoundedValue> Lower(Instruction* i, const std::vector<const BoundedValue*>& operands);
  Lowered ApplyRule(DynamicOp& op);
  Result<BoundedValue> LowerControl(Instruction* i, const std::vector<const BoundedValue*>& operands);
  Result<BoundedValue> CallOut(DynamicOp& op, const Instruction* done = nullptr);
  Result<> VisitHostTransfer(Instruction* done);
  void Follow(Instruction* effect);

  BoundedValue Untouched(Instruction* i) const;
  // The shape before the pass.
  const Shape& Declared(const Instruction* i) const;
  Instruction* Pack(Rewriter& rewrite, const BoundedValue& x, const Shape& declared);
  Result<BoundedValue> Unpack(Rewriter& rewrite, Instruction* packed, const Shape& declared);

  Computation& c_;
  SideEffects& effects_;
  SizeScalars sizes_;
  std::unordered_map<const Instruction*, BoundedValue> known_;
  std::unordered_map<const Instruction*, Shape> parameters_;  // those that change shape: the old one
  std::vector<Instruction*> replaced_;
  Instruction* last_effect_ = nullptr;
  bool moved_effects_ = false;
};

BoundedValue ComputationPadder::Untouched(Instruction* i) const {
  return {i, std::vector<DimensionSizes>(TupleLeaves(i->shape()).size())};
}

const Shape& ComputationPadder::Declared(const Instruction* i) const {
  auto it = parameters_.find(i);
  return it != parameters_.end() ? it->second : i->shape();
}

Instruction* ComputationPadder::Pack(Rewriter& rewrite, const BoundedValue& x, const Shape& declared) {
  if (!declared.IsDynamic()) return x.value;
  std::vector<Instruction*> elements;
  if (declared.IsTuple())
    for (std::size_t e = 0; e < declared.tuple_elements().size(); ++e)
      elements.push_back(rewrite.Element(x.value, static_cast<int64_t>(e)));
  else elements.push_back(x.value);
  std::vector<const Shape*> leaves = TupleLeaves(declared);
  for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf)
    for (int64_t d = 0; d < leaves[leaf]->rank(); ++d) {
      if (!leaves[leaf]->IsDynamicDim(d)) continue;
      const DimensionSizes& sizes = x.leaves[leaf];
      Instruction* size = At(d) < sizes.size() ? sizes[At(d)] : nullptr;
      if (size == nullptr) size = rewrite.Constant(ScalarOfInt(ElementType::kS32, leaves[leaf]->dim(d)));
      elements.push_back(size);
    }
  return rewrite.Tuple(std::move(elements));
}

Result<BoundedValue> ComputationPadder::Unpack(Rewriter& rewrite, Instruction* packed, const Shape& declared) {
  if (!declared.IsDynamic()) return Untouched(packed);
  BoundedValue out;
  auto count = static_cast<int64_t>(declared.IsTuple() ? declared.tuple_elements().size() : 1);
  std::vector<Instruction*> elements;
  for (int64_t e = 0; e < count; ++e) elements.push_back(rewrite.Element(packed, e));
  out.value = declared.IsTuple() ? rewrite.Tuple(std::move(elements)) : elements[0];
  int64_t next = count;
  for (const Shape* leaf : TupleLeaves(declared)) {
    DimensionSizes sizes(At(leaf->rank()), nullptr);
    for (int64_t d = 0; d < leaf->rank(); ++d)
      if (leaf->IsDynamicDim(d)) sizes[At(d)] = rewrite.Element(packed, next++);
    out.leaves.push_back(std::move(sizes));
  }
  return out;
}

Result<> ComputationPadder::TakeParameters() {
  for (Instruction* p : c_.parameters()) {
    const Shape declared = p->shape();
    if (!declared.IsDynamic()) continue;
    parameters_[p] = declared;
    KRAFLA_ASSIGN(Shape packed, Packed(declared));
    p->set_shape(std::move(packed));
    Rewriter rewrite(*p);
    KRAFLA_ASSIGN(known_[p], Unpack(rewrite, p, declared));
  }
  return {};
}

Result<> ComputationPadder::TakeEntryParameters() {
  const std::vector<Instruction*> parameters(c_.parameters().begin(), c_.parameters().end());
  auto number = static_cast<int64_t>(parameters.size());
  for (Instruction* p : parameters) {
    const Shape declared = p->shape();
    if (!declared.IsDynamic()) continue;
    parameters_[p] = declared;
    p->set_shape(declared.WithStaticDims());
    Rewriter rewrite(*p);
    BoundedValue& known = known_[p];
    known.value = p;
    for (const Shape* leaf : TupleLeaves(declared)) {
      DimensionSizes sizes(At(leaf->rank()), nullptr);
      for (int64_t d = 0; d < leaf->rank(); ++d) {
        if (!leaf->IsDynamicDim(d)) continue;
        Instruction* size = c_.Add(Opcode::kParameter, SizeShape(), {}, ParameterAttributes{number++, {}}, {},
                                   Format("{}.size", p->name()));
        sizes[At(d)] = sizes_.Clamped(rewrite, size, leaf->dim(d));
      }
      known.leaves.push_back(std::move(sizes));
    }
  }
  return {};
}

Result<> ComputationPadder::Run(const Shape& result, bool is_entry) {
  KRAFLA_TRY(c_.SortTopologically());
  std::vector<Instruction*> order;
  for (const auto& i : c_.instructions()) order.push_back(i.get());
  KRAFLA_TRY(is_entry ? TakeEntryParameters() : TakeParameters());
  for (Instruction* i : order) {
    if (i->opcode() == Opcode::kParameter) continue;
    KRAFLA_TRY(
        Visit(i).transform_error([&](Status e) { return std::move(e).WithContext(Format("at {}", Describe(*i))); }));
  }
  Instruction* root = c_.root();
  auto it = known_.find(root);
  BoundedValue value = it != known_.end() ? it->second : Untouched(root);
  Rewriter rewrite(*root);
  c_.set_root(Pack(rewrite, value, result));
  c_.RemoveAll(replaced_);
  RemoveDead(c_, effects_);
  return c_.SortTopologically();
}

// `effect`, or what is below the tuples around it, stays behind the one before.
void ComputationPadder::Follow(Instruction* effect) {
  while (!effects_.Has(*effect) && effect->operand_count() > 0) effect = effect->operand(0);
  if (last_effect_ != nullptr && moved_effects_) effect->AddControlPredecessor(last_effect_);
  last_effect_ = effect;
}

// A send or recv stays with what ends it: they are called out together.
Result<> ComputationPadder::VisitHostTransfer(Instruction* done) {
  const Instruction& start = *TransferOf(*done);
  std::vector<BoundedValue> values;
  for (Instruction* operand : start.operands()) {
    auto it = known_.find(operand);
    values.push_back(it != known_.end() ? it->second : Untouched(operand));
  }
  std::vector<const BoundedValue*> operands;
  for (const BoundedValue& v : values) operands.push_back(&v);
  DynamicOp op(start, operands, sizes_);
  KRAFLA_ASSIGN(BoundedValue made, CallOut(op, done));
  moved_effects_ = true;
  Follow(made.value);
  known_[done] = std::move(made);
  return {};
}

Result<> ComputationPadder::Visit(Instruction* i) {
  if (IsHostTransfer(*i) && TransferOf(*i)->shape().IsDynamic()) {
    replaced_.push_back(i);
    return i == TransferOf(*i) ? Result<>() : VisitHostTransfer(i);
  }
  const bool effect = effects_.Has(*i);
  bool sized = i->shape().IsDynamic() || IsDynamicOpcode(*i), replaced = false;
  std::vector<BoundedValue> values;
  for (Instruction* operand : i->operands()) {
    auto it = known_.find(operand);
    values.push_back(it != known_.end() ? it->second : Untouched(operand));
    sized |= values.back().IsSized();
    replaced |= values.back().value != operand;
  }
  if (!sized) {
    if (i->opcode() == Opcode::kGetTupleElement && values[0].value->opcode() == Opcode::kTuple) {
      known_[i] = Untouched(values[0].value->operand(At(i->attr<TupleIndexAttributes>().index)));
      replaced_.push_back(i);
      return {};
    }
    if (replaced)
      for (std::size_t n = 0; n < values.size(); ++n) i->ReplaceOperand(n, values[n].value);
    if (effect) Follow(i);
    return {};
  }
  std::vector<const BoundedValue*> operands;
  for (const BoundedValue& v : values) operands.push_back(&v);
  KRAFLA_ASSIGN(BoundedValue made, Lower(i, operands));
  if (effect) {
    moved_effects_ = true;
    Follow(made.value);
  }
  known_[i] = std::move(made);
  replaced_.push_back(i);
  return {};
}

// Ops that pass their operand's leaves on.
std::optional<BoundedValue> PassOn(DynamicOp& op) {
  const Instruction& i = op.instruction();
  const Opcode opcode = i.opcode();
  if (opcode == Opcode::kTuple) {
    BoundedValue out{op.rewrite().Tuple(op.Values()), {}};
    for (std::size_t n = 0; n < op.operand_count(); ++n)
      out.leaves.insert(out.leaves.end(), op.operand(n).leaves.begin(), op.operand(n).leaves.end());
    return out;
  }
  if (opcode == Opcode::kGetTupleElement) {
    const int64_t index = op.attr<TupleIndexAttributes>().index;
    std::size_t first = 0;
    const Shape& tuple = op.value(0)->shape();
    for (int64_t e = 0; e < index; ++e) first += LeafCount(tuple.tuple_elements()[At(e)]);
    BoundedValue out{op.rewrite().Element(op.value(0), index), {}};
    for (std::size_t n = 0; n < LeafCount(out.value->shape()); ++n)
      out.leaves.push_back(op.operand(0).leaves[first + n]);
    return out;
  }
  if (opcode == Opcode::kCopy || opcode == Opcode::kAddDependency || opcode == Opcode::kDomain ||
      (opcode == Opcode::kOptimizationBarrier && op.operand_count() == 1)) {
    BoundedValue out = op.Same({});
    out.leaves = op.operand(0).leaves;
    return out;
  }
  return std::nullopt;
}

Lowered SetDimensionSize(DynamicOp& op) {
  const int64_t d = op.attr<DimensionsAttributes>().dimensions[0];
  const BoundedValue& x = op.operand(0);
  DimensionSizes sizes = op.SizesIn(x, {});
  for (int64_t e = 0; e < op.shape().rank(); ++e) sizes[At(e)] = x.size(e);
  sizes[At(d)] = op.Clamped(op.value(1), x.value->shape().dim(d));
  return op.Array(x.value, std::move(sizes));
}

// XLA: "PadToStatic" gives an array and its size in every dimension, "SliceToDynamic" takes these.
Lowered DynamicCall(DynamicOp& op) {
  const bool pads = CustomCallTargetOf(op.instruction()) == CustomCallTarget::kPadToStatic;
  const BoundedValue& x = op.operand(0);
  const int64_t rank = x.value->shape().IsArray() ? x.value->shape().rank() : -1;
  if (pads) {
    if (op.operand_count() != 1 || static_cast<int64_t>(op.shape().tuple_elements().size()) != rank + 1)
      return InvalidArgument("PadToStatic takes one array and returns it with a size for each dimension, not {}.",
                             op.shape().ToString(false));
    std::vector<Instruction*> elements = {x.value};
    for (int64_t d = 0; d < rank; ++d) elements.push_back(op.SizeOr(x, d));
    for (std::size_t e = 0; e < elements.size(); ++e)
      if (!Shape::Compatible(op.shape().tuple_elements()[e].WithStaticDims(), elements[e]->shape()))
        return InvalidArgument("PadToStatic returns {} as element {}, not {}.", elements[e]->shape().ToString(false), e,
                               op.shape().tuple_elements()[e].ToString(false));
    return BoundedValue{op.rewrite().Tuple(std::move(elements)), std::vector<DimensionSizes>(At(rank) + 1)};
  }
  bool fits = static_cast<int64_t>(op.operand_count()) == rank + 1 &&
              Shape::Compatible(op.shape().WithStaticDims(), x.value->shape());
  for (std::size_t n = 1; fits && n < op.operand_count(); ++n)
    fits = Shape::Compatible(op.value(n)->shape(), SizeShape());
  if (!fits)
    return InvalidArgument("SliceToDynamic takes an array and an s32[] size for each dimension; it cannot return {}.",
                           op.shape().ToString(false));
  DimensionSizes sizes;
  for (int64_t d = 0; d < rank; ++d)
    sizes.push_back(op.shape().IsDynamicDim(d) ? op.Clamped(op.value(At(d) + 1), op.shape().dim(d)) : nullptr);
  return op.Array(x.value, std::move(sizes));
}

Lowered ComputationPadder::ApplyRule(DynamicOp& op) {
  const Instruction& i = op.instruction();
  const Opcode opcode = i.opcode();
  if (auto passed = PassOn(op)) return passed;
  if (opcode == Opcode::kSetDimensionSize) return SetDimensionSize(op);
  if (opcode == Opcode::kGetDimensionSize)
    return op.Array(op.SizeOr(op.operand(0), i.attr<DimensionsAttributes>().dimensions[0]), {});
  if (IsDynamicCall(i)) return DynamicCall(op);
  if (IsElementwise(opcode) || opcode == Opcode::kMap || opcode == Opcode::kBitcastConvert)
    return LowerDynamicElementwise(op);
  if (HasTrait(opcode, op_trait::kCollective)) {
    KRAFLA_ASSIGN(std::optional<BoundedValue> made, LowerDynamicCollective(op));
    if (made) return made;
    return Unimplemented("{} of {} is not supported.", OpcodeName(opcode), i.shape().ToString(false));
  }
  for (auto rule : {LowerDynamicMovement, LowerDynamicIndexing, LowerDynamicCombination, LowerDynamicScan,
                    LowerDynamicProduct, LowerDynamicChannel}) {
    KRAFLA_ASSIGN(std::optional<BoundedValue> made, rule(op));
    if (made) return made;
  }
  // Made from nothing: all of the bound counts.
  bool sized = false;
  for (std::size_t n = 0; n < op.operand_count(); ++n) sized |= op.operand(n).IsSized();
  if (!sized && opcode != Opcode::kInfeed && opcode != Opcode::kCustomCall && opcode != Opcode::kRecv &&
      opcode != Opcode::kRecvDone)
    return op.Same({});
  return std::nullopt;
}

Result<BoundedValue> ComputationPadder::Lower(Instruction* i, const std::vector<const BoundedValue*>& operands) {
  for (const Shape* leaf : TupleLeaves(i->shape()))
    for (int64_t d = 0; d < leaf->rank(); ++d)
      if (leaf->IsDynamicDim(d) && leaf->dim(d) > INT32_MAX)
        return Unimplemented("The bound of dynamic dimension {} of {} does not fit 31 bits.", d, leaf->ToString(false));
  if (i->opcode() == Opcode::kWhile || i->opcode() == Opcode::kConditional || i->opcode() == Opcode::kCall)
    return LowerControl(i, operands);
  DynamicOp op(*i, operands, sizes_);
  KRAFLA_ASSIGN(std::optional<BoundedValue> made, ApplyRule(op));
  if (made) return std::move(*made);
  return CallOut(op);
}

// The computations called have been rewritten before.
Result<BoundedValue> ComputationPadder::LowerControl(Instruction* i, const std::vector<const BoundedValue*>& operands) {
  Rewriter rewrite(*i);
  std::vector<Instruction*> packed;
  for (std::size_t n = 0; n < operands.size(); ++n)
    packed.push_back(Pack(rewrite, *operands[n], Declared(i->operand(n))));
  Instruction* made = c_.AddClone(*i, std::move(packed));
  KRAFLA_ASSIGN(Shape shape, Packed(i->shape()));
  made->set_shape(std::move(shape));
  return Unpack(rewrite, made, i->shape());
}

// `x` with the sizes that `leaf` onwards of `value` has, which come in `sizes` one after the other.
Result<Instruction*> WithSizes(Computation& c, Instruction* x, const BoundedValue& value, std::size_t& leaf,
                               std::span<Instruction* const>& sizes) {
  Rewriter rewrite(*x);
  if (x->shape().IsTuple()) {
    std::vector<Instruction*> elements;
    for (std::size_t e = 0; e < x->shape().tuple_elements().size(); ++e) {
      KRAFLA_ASSIGN(Instruction * element,
                    WithSizes(c, rewrite.Element(x, static_cast<int64_t>(e)), value, leaf, sizes));
      elements.push_back(element);
    }
    return rewrite.Tuple(std::move(elements));
  }
  const DimensionSizes& own = value.leaves[leaf++];
  for (std::size_t d = 0; d < own.size(); ++d) {
    if (own[d] == nullptr) continue;
    KRAFLA_ASSIGN(x, rewrite.Infer(Opcode::kSetDimensionSize, {x, sizes.front()},
                                   DimensionsAttributes{Dims{static_cast<int64_t>(d)}}));
    sizes = sizes.subspan(1);
  }
  return x;
}

void TakeApart(Rewriter& rewrite, Instruction* x, std::vector<Instruction*>& leaves) {
  if (!x->shape().IsTuple()) {
    leaves.push_back(x);
    return;
  }
  for (std::size_t e = 0; e < x->shape().tuple_elements().size(); ++e)
    TakeApart(rewrite, rewrite.Element(x, static_cast<int64_t>(e)), leaves);
}

Instruction* PutTogether(Rewriter& rewrite, const Shape& shape, Instruction* tuple, int64_t& next) {
  if (!shape.IsTuple()) return rewrite.Element(tuple, next++);
  std::vector<Instruction*> elements;
  for (const Shape& e : shape.tuple_elements()) elements.push_back(PutTogether(rewrite, e, tuple, next));
  return rewrite.Tuple(std::move(elements));
}

// `done`: what ends the instruction, and gives its result.
Result<BoundedValue> ComputationPadder::CallOut(DynamicOp& op, const Instruction* done) {
  const Instruction& i = op.instruction();
  Computation* callee = c_.parent()->AddComputation(Format("dynamic_{}", OpcodeName(i.opcode())));
  // Outside: the operands, then their sizes. Inside: parameters for these.
  std::vector<Instruction*> arguments = op.Values(), parameters, size_parameters;
  for (std::size_t n = 0; n < op.operand_count(); ++n)
    for (const DimensionSizes& leaf : op.operand(n).leaves)
      for (Instruction* s : leaf)
        if (s != nullptr) arguments.push_back(s);
  for (std::size_t n = 0; n < arguments.size(); ++n) {
    Instruction* p =
        callee->Add(Opcode::kParameter, arguments[n]->shape(), {}, ParameterAttributes{static_cast<int64_t>(n), {}});
    (n < op.operand_count() ? parameters : size_parameters).push_back(p);
  }
  std::span<Instruction* const> sizes = size_parameters;
  std::vector<Instruction*> operands;
  for (std::size_t n = 0; n < op.operand_count(); ++n) {
    std::size_t leaf = 0;
    KRAFLA_ASSIGN(Instruction * operand, WithSizes(*callee, parameters[n], op.operand(n), leaf, sizes));
    operands.push_back(operand);
  }
  Instruction* result = callee->AddClone(i, std::move(operands));
  if (done != nullptr) result = callee->AddClone(*done, {result});
  Rewriter inside(*result);
  std::vector<Instruction*> leaves, results, result_sizes;
  TakeApart(inside, result, leaves);
  for (Instruction* leaf : leaves) {
    Instruction* full = leaf;
    for (int64_t d = 0; d < leaf->shape().rank(); ++d) {
      if (!leaf->shape().IsDynamicDim(d)) continue;
      const DimensionsAttributes along{Dims{d}};
      result_sizes.push_back(inside.Add(Opcode::kGetDimensionSize, SizeShape(), {leaf}, along));
      Instruction* bound = inside.Constant(ScalarOfInt(ElementType::kS32, leaf->shape().dim(d)));
      full = inside.Add(Opcode::kSetDimensionSize, full->shape().WithDynamicDim(d, false), {full, bound}, along);
    }
    results.push_back(full);
  }
  results.insert(results.end(), result_sizes.begin(), result_sizes.end());
  callee->set_root(inside.Tuple(std::move(results)));

  Rewriter& outside = op.rewrite();
  Instruction* call =
      outside.Add(Opcode::kCall, callee->root()->shape(), std::move(arguments), CallAttributes{}, {callee});
  BoundedValue out;
  int64_t next = 0;
  out.value = PutTogether(outside, result->shape(), call, next);
  for (const Instruction* leaf : leaves) {
    DimensionSizes own(At(leaf->shape().rank()), nullptr);
    for (int64_t d = 0; d < leaf->shape().rank(); ++d)
      if (leaf->shape().IsDynamicDim(d)) own[At(d)] = outside.Element(call, next++);
    out.leaves.push_back(std::move(own));
  }
  return out;
}

// An output index of the entry's result, once the result is a tuple.
void PackInterface(Module& module, const Shape& result) {
  const Computation& entry = *module.entry();
  if (result.IsDynamic() && !result.IsTuple())
    for (InputOutputAlias& alias : module.input_output_aliases) alias.output_index = Dims{0};
  if (!module.entry_layout_result) return;
  Shape& layout = *module.entry_layout_result;
  if (result.IsDynamic()) {
    std::vector<Shape> elements;
    if (layout.IsTuple()) elements = layout.WithStaticDims().tuple_elements();
    else elements = {layout.WithStaticDims()};
    while (elements.size() < entry.root()->shape().tuple_elements().size()) elements.push_back(SizeShape());
    auto packed = Shape::MakeTuple(std::move(elements));
    KRAFLA_CHECK(packed.has_value());
    layout = std::move(*packed);
  }
  for (Shape& p : module.entry_layout_parameters) p = p.WithStaticDims();
  while (module.entry_layout_parameters.size() < entry.parameters().size())
    module.entry_layout_parameters.push_back(SizeShape());
}

bool HasDynamic(const Computation& c) {
  for (const auto& i : c.instructions())
    if (i->shape().IsDynamic() || IsDynamicOpcode(*i)) return true;
  return false;
}

}  // namespace

Result<bool> DynamicPadder(Module& module, const PassOptions&) {
  // The shapes that callers see, before anything changes. Only control flow calls a computation with arrays whose
  // values have sizes; what is called for each element has scalars.
  std::vector<Computation*> order = ReachableComputations(module);
  std::unordered_map<const Computation*, Shape> results;
  std::unordered_set<const Computation*> scan_bodies;
  for (const Computation* c : order)
    for (const auto& i : c->instructions()) {
      if (i->opcode() == Opcode::kWhile) results[i->called(1)] = i->shape();
      if (i->opcode() == Opcode::kScan) scan_bodies.insert(i->called(0));
      if (i->opcode() == Opcode::kConditional || i->opcode() == Opcode::kCall)
        for (const Computation* callee : i->called()) results[callee] = i->shape();
    }
  const Shape result = module.entry()->root()->shape();
  results[module.entry()] = result;
  KRAFLA_TRY(CheckDynamicChannels(module));
  bool changed = false;
  SideEffects effects;
  for (Computation* c : order) {
    if (!HasDynamic(*c)) continue;
    auto it = results.find(c);
    if (scan_bodies.contains(c)) {
      if (it != results.end())
        return Unimplemented("The computation {} is called by a scan and by other instructions.", c->name());
      KRAFLA_TRY(TakeSizesOutOfScanBody(*c));
      changed = true;
      continue;
    }
    const Shape declared = it != results.end() ? it->second : c->root()->shape();
    KRAFLA_TRY(ComputationPadder(*c, effects).Run(declared, c == module.entry()));
    changed = true;
  }
  if (changed) PackInterface(module, result);
  return changed;
}

}  // namespace krafla
