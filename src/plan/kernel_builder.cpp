// SPDX-License-Identifier: Apache-2.0
#include "plan/kernel_builder.h"

#include <algorithm>

#include "plan/collapse.h"
#include "plan/element_cost.h"
#include "plan/families/accepts.h"
#include "plan/touched.h"

namespace krafla::plan {

bool KernelBuilder::IsMember(const Instruction* i) const {
  return std::find(group_.heroes.begin(), group_.heroes.end(), i) != group_.heroes.end() ||
         std::find(group_.roots.begin(), group_.roots.end(), i) != group_.roots.end();
}

int KernelBuilder::Bind(const ValueRef& v, bool read, bool write) {
  auto [it, added] = binding_of_.emplace(v, static_cast<int>(out_.values.size()));
  if (added) {
    const Shape& shape = LeafShape(v);
    int64_t count = shape.element_count() * (IsComplex(shape.element_type()) ? 2 : 1);
    out_.kernel.bindings.push_back({RealPart(shape.element_type()), count, false, false});
    out_.values.push_back(v);
  }
  Binding& b = out_.kernel.bindings[static_cast<std::size_t>(it->second)];
  b.read = b.read || read;
  b.written = b.written || write;
  return it->second;
}

Result<std::optional<ScalarValue>> KernelBuilder::Outside(ProgramEmitter& emitter, const ValueRef& v,
                                                          std::span<const IndexId> index, NodeId mask) {
  if (IsMember(v.instruction)) return std::nullopt;
  ValueRef base = ResolveValue(v, true);
  if (IsMember(base.instruction) || !plan_.HasBuffer(base)) return std::nullopt;
  return emitter.LoadElement(LeafShape(v), Bind(base, true, false), index, mask);
}

ProgramEmitter KernelBuilder::EmitterOf(ProgramBuilder& builder) {
  return ProgramEmitter(builder, [this](ProgramEmitter& emitter, const ValueRef& v, std::span<const IndexId> index,
                                        NodeId mask) { return Outside(emitter, v, index, mask); });
}

void KernelBuilder::ShareBindings() {
  std::vector<ProgramBuffer> buffers;
  for (const Binding& b : out_.kernel.bindings) buffers.push_back({b.storage, b.element_count, b.written});
  ForEachProgram(out_.kernel.body, [&](ElementProgram& p) { p.buffers = buffers; });
}

namespace {

std::vector<IndexId> IterIndex(ProgramBuilder& b, std::span<const int64_t> dims) {
  std::vector<IndexId> out;
  for (std::size_t d = 0; d < dims.size(); ++d) out.push_back(b.space().Iter(static_cast<int>(d)));
  return out;
}

// The index into dimensions `to` with the same row-major position as `index` has in dimensions `from`.
std::vector<IndexId> SamePosition(IndexSpace& space, std::span<const IndexId> index, std::span<const int64_t> from,
                                  std::span<const int64_t> to) {
  if (std::equal(from.begin(), from.end(), to.begin(), to.end())) return {index.begin(), index.end()};
  return space.Delinearize(space.Linearize(index, from), to);
}

double Points(const Dims& dims) {
  double points = 1;
  for (int64_t d : dims) points *= static_cast<double>(d);
  return points;
}

// An estimate of a kernel's operations, for families that give none of their own.
double OperationsOf(const KernelBody& body) {
  if (const auto* loop = std::get_if<LoopKernel>(&body))
    return Points(loop->program.space.dims()) * ProgramCost(loop->program);
  if (const auto* reduce = std::get_if<ReduceKernel>(&body)) {
    double operations = 0;
    for (const ReduceStage& stage : reduce->stages) {
      double each = ProgramCost(stage.program);
      for (const Reduction& r : stage.reductions) each += ProgramCost(r.combiner);
      operations += each * Points(reduce->row_dims) *
                    (stage.scope == ReduceStage::Scope::kElement ? Points(reduce->element_dims) : 1);
    }
    return operations;
  }
  if (const auto* scan = std::get_if<ScanKernel>(&body))
    return Points(scan->dims) * (2 + ProgramCost(scan->reduction.combiner));
  if (const auto* scatter = std::get_if<ScatterKernel>(&body)) {
    return Points(scatter->updates_dims) * (8 + ProgramCost(scatter->combiner.combiner));
  }
  return 0;
}

}  // namespace

Result<BuiltKernel> KernelBuilder::Build() {
  const Instruction* first = !group_.roots.empty() ? group_.roots.back() : group_.heroes.back();
  Result<BuiltKernel> out = Internal("There is no kernel for {}.", Describe(*first));
  switch (group_.kind) {
    case FusionGroup::Kind::kLoop: out = BuildLoop(); break;
    case FusionGroup::Kind::kReduce:
      out = group_.heroes[0]->opcode() == Opcode::kReduceWindow ? BuildReduceWindow() : BuildReduce();
      break;
    case FusionGroup::Kind::kDot: out = BuildDot(); break;
    case FusionGroup::Kind::kConvolution: out = BuildConvolution(); break;
    case FusionGroup::Kind::kDynamicUpdate: out = BuildDynamicUpdate(); break;
    case FusionGroup::Kind::kSort: out = BuildSort(); break;
    case FusionGroup::Kind::kScan: out = BuildScan(); break;
    case FusionGroup::Kind::kScatter: out = BuildScatter(); break;
    case FusionGroup::Kind::kFft: out = BuildFft(); break;
    case FusionGroup::Kind::kLinalg: out = BuildLinalg(); break;
    case FusionGroup::Kind::kHost: out = BuildHost(); break;
    case FusionGroup::Kind::kConcatenate:
    case FusionGroup::Kind::kRng:
    case FusionGroup::Kind::kWhile:
    case FusionGroup::Kind::kConditional:
    case FusionGroup::Kind::kCall: break;
  }
  if (!out) return out;
  BuiltKernel& built = *out;
  built.kernel.name = first->name();
  if (built.kernel.flops == 0) built.kernel.flops = OperationsOf(built.kernel.body);
  built.kernel.bytes = BytesMoved(built.kernel);
  return out;
}

Result<BuiltKernel> KernelBuilder::BuildLoop() {
  const Dims& dims = group_.roots[0]->shape().dims();
  ProgramBuilder builder(dims);
  ProgramEmitter emitter = EmitterOf(builder);
  std::vector<IndexId> index = IterIndex(builder, dims);
  for (const Instruction* root : group_.roots) {
    if (root->shape().dims() != dims) return Unimplemented("Outputs of one loop differ in dimensions.");
    KRAFLA_ASSIGN(ScalarValue value, emitter.Emit({root, 0}, index));
    if (group_.internal.contains(root)) continue;
    emitter.StoreElement(root->shape(), Bind({root, 0}, false, true), index, value);
  }
  return FinishLoop(std::move(builder));
}

BuiltKernel KernelBuilder::FinishLoop(ProgramBuilder&& builder) {
  LoopKernel loop{std::move(builder).Finish()};
  ElementProgram* programs[] = {&loop.program};
  CollapseTogether(programs);
  out_.kernel.body = std::move(loop);
  ShareBindings();
  return std::move(out_);
}

Result<BuiltKernel> KernelBuilder::BuildDynamicUpdate() {
  const Instruction& i = *group_.heroes[0];
  const Dims& dims = i.operand(1)->shape().dims();
  ProgramBuilder builder(dims);
  ProgramEmitter emitter = EmitterOf(builder);
  std::vector<IndexId> index = IterIndex(builder, dims);
  KRAFLA_ASSIGN(ScalarValue value, emitter.Emit({i.operand(1), 0}, index));
  KRAFLA_ASSIGN(std::vector<IndexId> at, EmitStarts(emitter, i, 2, i.shape().dims(), dims, kNoNode));
  for (std::size_t d = 0; d < at.size(); ++d) at[d] = builder.space().Add(at[d], index[d]);
  emitter.StoreElement(i.shape(), Bind({&i, 0}, false, true), at, value);
  return FinishLoop(std::move(builder));
}

Result<> KernelBuilder::BindOperandsAndResults() {
  const Instruction& i = *group_.heroes[0];
  for (const Instruction* o : i.operands()) {
    int leaf = 0;
    for (const Shape* s : TupleLeaves(o->shape())) {
      if (s->IsArray()) {
        ValueRef base = ResolveValue({o, leaf}, true);
        if (!plan_.HasBuffer(base) && base.instruction->opcode() != Opcode::kConstant)
          return Internal("{}: Operand '{}' has no buffer.", Describe(i), o->name());
        int64_t count = s->element_count() * (IsComplex(s->element_type()) ? 2 : 1);
        out_.kernel.bindings.push_back({RealPart(s->element_type()), count, true, false});
        out_.values.push_back(base);
      }
      ++leaf;
    }
  }
  int leaf = 0;
  for (const Shape* s : TupleLeaves(i.shape())) {
    if (s->IsArray()) {
      int64_t count = s->element_count() * (IsComplex(s->element_type()) ? 2 : 1);
      out_.kernel.bindings.push_back({RealPart(s->element_type()), count, false, true});
      out_.values.push_back({&i, leaf});
    }
    ++leaf;
  }
  return {};
}

Result<BuiltKernel> KernelBuilder::BuildHost() {
  KRAFLA_TRY(BindOperandsAndResults());
  out_.kernel.body = HostKernel{group_.heroes[0]};
  return std::move(out_);
}

Result<ElementProgram> KernelBuilder::EmitEpilogue(const Instruction& hero, ElementType accumulate,
                                                   std::span<const int64_t> dims, std::span<const int> order) {
  ProgramBuilder builder(dims);
  IndexSpace& space = builder.space();
  std::vector<IndexId> iter;
  Dims ordered;
  for (int d : order) {
    iter.push_back(space.Iter(d));
    ordered.push_back(dims[static_cast<std::size_t>(d)]);
  }
  std::vector<IndexId> hero_index = SamePosition(space, iter, ordered, hero.shape().dims());
  ElementType result = hero.shape().element_type();
  uint64_t all = dims.empty() ? 0 : (~uint64_t{0} >> (64 - dims.size()));
  NodeId sum = builder.Convert(builder.Param(ComputeType(accumulate), 0, all), accumulate, result);
  ProgramEmitter emitter(builder,
                         [&](ProgramEmitter& self, const ValueRef& v, std::span<const IndexId> index,
                             NodeId mask) -> Result<std::optional<ScalarValue>> {
                           if (v.instruction == &hero) {
                             if (!std::equal(index.begin(), index.end(), hero_index.begin(), hero_index.end()))
                               return Unimplemented("{} is read at another index than its own.", Describe(hero));
                             return ScalarValue{sum, kNoNode};
                           }
                           return Outside(self, v, index, mask);
                         });
  if (!group_.internal.contains(&hero))
    emitter.StoreElement(hero.shape(), Bind({&hero, 0}, false, true), hero_index, {sum, kNoNode});
  for (const Instruction* root : group_.roots) {
    // Of an update what it puts into its array follows the hero.
    const bool is_update = root->opcode() == Opcode::kDynamicUpdateSlice;
    const Instruction* last = is_update ? root->operand(1) : root;
    KRAFLA_ASSIGN(std::vector<IndexId> at, IndexBehind(hero, *last, space, hero_index));
    KRAFLA_ASSIGN(ScalarValue value, emitter.Emit({last, 0}, at));
    if (group_.internal.contains(root)) continue;
    if (is_update) {
      const Dims& sizes = last->shape().dims();
      KRAFLA_ASSIGN(std::vector<IndexId> starts, EmitStarts(emitter, *root, 2, root->shape().dims(), sizes, kNoNode));
      for (std::size_t d = 0; d < at.size(); ++d) at[d] = space.Add(at[d], starts[d]);
    }
    emitter.StoreElement(root->shape(), Bind({root, 0}, false, true), at, value);
  }
  return std::move(builder).Finish();
}

// Follows a path of users from the hero, to the index of `last` at which it reads the hero at `index`.
Result<std::vector<IndexId>> KernelBuilder::IndexBehind(const Instruction& hero, const Instruction& last,
                                                        IndexSpace& space, std::span<const IndexId> index) const {
  std::vector<IndexId> at(index.begin(), index.end());
  const Instruction* i = &hero;
  std::unordered_set<const Instruction*> inside = ReachingRoot(&last);
  while (i != &last) {
    const Instruction* next = nullptr;
    for (const Instruction* user : i->users())
      if (inside.contains(user)) next = user;
    if (next == nullptr) return Unimplemented("{} does not lead to {}.", Describe(hero), Describe(last));
    if (next->opcode() == Opcode::kTranspose) {
      const Dims& permutation = next->attr<DimensionsAttributes>().dimensions;
      std::vector<IndexId> moved(at.size());
      for (std::size_t d = 0; d < at.size(); ++d) moved[d] = at[static_cast<std::size_t>(permutation[d])];
      at = moved;
    } else if (next->opcode() == Opcode::kReshape) {
      at = SamePosition(space, at, i->shape().dims(), next->shape().dims());
    } else if (!IsElementwise(next->opcode()) && next->opcode() != Opcode::kCopy) {
      return Unimplemented("{} cannot follow {} in one kernel.", Describe(*next), Describe(hero));
    }
    if (next->shape().dims().size() != at.size())
      return Unimplemented("{} cannot broadcast within a kernel's epilogue.", Describe(*next));
    i = next;
  }
  return at;
}

std::unordered_set<const Instruction*> KernelBuilder::ReachingRoot(const Instruction* root) const {
  std::unordered_set<const Instruction*> out = {root};
  std::vector<const Instruction*> stack = {root};
  while (!stack.empty()) {
    const Instruction* i = stack.back();
    stack.pop_back();
    for (const Instruction* o : i->operands())
      if (!plan_.HasBuffer({o, 0}) && out.insert(o).second) stack.push_back(o);
  }
  return out;
}

ElementType KernelBuilder::AccumulateType(ElementType t) {
  if (t == ElementType::kF64 || t == ElementType::kS64 || t == ElementType::kU64) return t;
  return IsFloat(t) ? ElementType::kF32 : ComputeType(t);
}

Result<Reduction> KernelBuilder::MakeReduction(const Computation& computation, std::span<const ValueRef> inits,
                                               std::span<const Shape* const> shapes) {
  Reduction out;
  out.hlo_type = RealPart(shapes[0]->element_type());
  const Instruction* root = computation.root();
  if (shapes.size() == 1 && !IsComplex(shapes[0]->element_type())) out.kind = KindOf(*root, out.hlo_type);
  const bool wide = AccumulatesWide(out);
  {
    ProgramBuilder builder({});
    ProgramEmitter emitter(builder);
    // A complex value has two params.
    std::vector<ScalarValue> parameters;
    int next = 0;
    for (std::size_t p = 0; p < 2 * shapes.size(); ++p) {
      const ElementType type = shapes[p % shapes.size()]->element_type();
      const ElementType compute = ComputeType(RealPart(type));
      ScalarValue value{builder.Param(compute, next++, 0), kNoNode};
      if (IsComplex(type)) value.im = builder.Param(compute, next++, 0);
      parameters.push_back(value);
    }
    if (wide) {
      builder.AddResult(builder.Hlo(root->opcode(), ElementType::kF32, {parameters[0].re, parameters[1].re}));
    } else {
      KRAFLA_ASSIGN(std::vector<ScalarValue> values, emitter.EmitComputation(computation, parameters));
      for (const ScalarValue& v : values) AddResults(builder, v);
    }
    out.combiner = std::move(builder).Finish();
  }
  {
    ProgramBuilder builder({});
    ProgramEmitter emitter = EmitterOf(builder);
    for (const ValueRef& v : inits) {
      KRAFLA_ASSIGN(ScalarValue value, emitter.Emit(v, {}));
      AddResults(builder, value);
    }
    out.init = std::move(builder).Finish();
  }
  return out;
}

Reduction::Kind KernelBuilder::KindOf(const Instruction& step, ElementType type) {
  if (!IsOfTwoParameters(step)) return Reduction::Kind::kOther;
  const bool pred = type == ElementType::kPred;
  const std::pair<Opcode, Reduction::Kind> kinds[] = {
      {Opcode::kAdd, pred ? Reduction::Kind::kOr : Reduction::Kind::kSum},
      {Opcode::kMultiply, pred ? Reduction::Kind::kAnd : Reduction::Kind::kProduct},
      {Opcode::kMaximum, Reduction::Kind::kMax},
      {Opcode::kMinimum, Reduction::Kind::kMin},
      {Opcode::kAnd, Reduction::Kind::kAnd},
      {Opcode::kOr, Reduction::Kind::kOr},
      {Opcode::kXor, Reduction::Kind::kXor}};
  for (const auto& [of, kind] : kinds)
    if (step.opcode() == of) return kind;
  return Reduction::Kind::kOther;
}

}  // namespace krafla::plan
