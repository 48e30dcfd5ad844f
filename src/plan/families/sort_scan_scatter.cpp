// SPDX-License-Identifier: Apache-2.0
// Sort, scan and scatter: one instruction a kernel.
#include <algorithm>

#include "plan/kernel_builder.h"

namespace krafla::plan {
namespace {

bool RealStaticArrays(const Instruction& i) {
  for (const Instruction* o : i.operands())
    if (!o->shape().IsArray() || IsComplex(o->shape().element_type()) || o->shape().IsDynamic() ||
        o->shape().element_count() >= (int64_t{1} << 30))
      return false;
  return true;
}

// Complex numbers may be made and taken apart on the way.
bool EmittableOnScalars(const Computation& c) {
  for (const auto& i : c.instructions()) {
    if (IsOneOf(i->opcode(), {Opcode::kParameter, Opcode::kTuple})) continue;
    if (!IsEmittable(*i) || i->shape().rank() != 0) return false;
  }
  for (const Instruction* p : c.parameters())
    if (IsComplex(p->shape().element_type())) return false;
  const int leaves = static_cast<int>(LeafCount(c.root()->shape()));
  for (int leaf = 0; leaf < leaves; ++leaf)
    if (IsComplex(LeafShape({c.root(), leaf}).element_type())) return false;
  return true;
}

// On scalars, or doing the same to every element of equal arrays.
bool SameAtEveryElement(const Computation& c) {
  const Dims* dims = nullptr;
  for (const auto& i : c.instructions()) {
    if (i->opcode() == Opcode::kTuple) continue;
    bool scalar_splat = i->opcode() == Opcode::kConstant && i->shape().element_count() == 1;
    bool splat = i->opcode() == Opcode::kBroadcast && i->operand(0)->shape().rank() == 0;
    if (!scalar_splat && !splat && i->opcode() != Opcode::kParameter &&
        !(IsElementwise(i->opcode()) && IsEmittable(*i)))
      return false;
    if (!i->shape().IsArray() || IsComplex(i->shape().element_type())) return false;
    if (scalar_splat) continue;
    if (dims == nullptr) dims = &i->shape().dims();
    if (i->shape().dims() != *dims) return false;
  }
  return true;
}

// The leaf that each operand's result is.
ValueRef ResultLeaf(const Instruction& i, std::size_t n) { return {&i, i.shape().IsTuple() ? static_cast<int>(n) : 0}; }

}  // namespace

bool KernelBuilder::TakesSort(const Instruction& i) { return RealStaticArrays(i) && EmittableOnScalars(*i.called(0)); }

namespace {

// How many of a sort's first results along its dimension are read; -1: all.
int64_t ReadOfSorted(const Instruction& sort) {
  const auto dimension = static_cast<std::size_t>(sort.attr<SortAttributes>().dimension);
  int64_t keep = 0;
  std::vector<const Instruction*> results = {&sort};
  for (std::size_t n = 0; n < results.size(); ++n) {
    if (results[n]->IsRoot()) return -1;
    for (const Instruction* user : results[n]->users()) {
      if (user->opcode() == Opcode::kGetTupleElement) {
        results.push_back(user);
      } else if (user->opcode() == Opcode::kSlice) {
        keep = std::max(keep, user->attr<SliceAttributes>().limits[dimension]);
      } else {
        return -1;
      }
    }
  }
  return keep < sort.operand(0)->shape().dims()[dimension] ? keep : -1;
}

}  // namespace

bool KernelBuilder::IsCarriedPosition(const Instruction& sort, std::size_t n) {
  const Instruction* x = sort.operand(n);
  if (x->opcode() != Opcode::kIota || x->attr<IotaAttributes>().dimension != sort.attr<SortAttributes>().dimension)
    return false;
  if (x->shape().element_type() != ElementType::kS32 && x->shape().element_type() != ElementType::kU32) return false;
  if (sort.operand_count() == 1) return false;
  for (std::size_t side : {0u, 1u})
    if (const Instruction* p = sort.called(0)->parameters()[2 * n + side]; p->IsRoot() || !p->users().empty())
      return false;
  return true;
}

Result<BuiltKernel> KernelBuilder::BuildSort() {
  const Instruction& hero = *group_.heroes[0];
  SortKernel kernel;
  kernel.dims = hero.operand(0)->shape().dims();
  kernel.dimension = static_cast<int>(hero.attr<SortAttributes>().dimension);
  kernel.is_stable = hero.attr<SortAttributes>().is_stable;
  kernel.keep = ReadOfSorted(hero);
  for (std::size_t n = 0; n < hero.operand_count(); ++n) {
    kernel.inputs.push_back(IsCarriedPosition(hero, n) ? -1
                                                       : Bind(ResolveValue({hero.operand(n), 0}, true), true, false));
    kernel.types.push_back(hero.operand(n)->shape().element_type());
  }
  for (std::size_t n = 0; n < hero.operand_count(); ++n)
    kernel.outputs.push_back(Bind(ResultLeaf(hero, n), false, true));
  ProgramBuilder builder({});
  ProgramEmitter emitter(builder,
                         [](const ValueRef&, std::span<const IndexId>, NodeId) -> Result<std::optional<ScalarValue>> {
                           return std::nullopt;
                         });
  std::vector<ScalarValue> parameters;
  for (std::size_t p = 0; p < 2 * hero.operand_count(); ++p)
    parameters.push_back({builder.Param(ComputeType(kernel.types[p / 2]), static_cast<int>(p), 0), kNoNode});
  KRAFLA_ASSIGN(std::vector<ScalarValue> less, emitter.EmitComputation(*hero.called(0), parameters));
  builder.AddResult(less[0].re);
  kernel.comparator = std::move(builder).Finish();
  out_.kernel.flops = 20.0 * static_cast<double>(hero.operand(0)->shape().element_count());
  out_.kernel.body = std::move(kernel);
  ShareBindings();
  return std::move(out_);
}

namespace {

// The scalar that the carry begins with in every line; null where lines differ.
const Instruction* CommonStart(const Instruction& scan) {
  const Instruction* start = scan.operand(1);
  if (start->shape().element_count() == 1) return start;
  if (start->opcode() == Opcode::kBroadcast && start->operand(0)->shape().element_count() == 1)
    return start->operand(0);
  return nullptr;
}

// Whether something reads leaf `leaf` of a tuple.
bool IsRead(const Instruction& i, int64_t leaf) {
  if (i.IsRoot()) return true;
  for (const Instruction* user : i.users())
    if (user->opcode() != Opcode::kGetTupleElement || user->attr<TupleIndexAttributes>().index == leaf) return true;
  return false;
}

}  // namespace

const Instruction* KernelBuilder::ScanStart(const Instruction& scan) {
  const Instruction* common = CommonStart(scan);
  return common != nullptr ? common : scan.operand(1);
}

// Taken: one array, one carry, both results the same combination of the two.
bool KernelBuilder::TakesScan(const Instruction& i) {
  if (!RealStaticArrays(i) || i.operand_count() != 2 || !SameAtEveryElement(*i.called(0))) return false;
  const Instruction* root = i.called(0)->root();
  if (root->opcode() != Opcode::kTuple || root->operand_count() != 2 || root->operand(0) != root->operand(1))
    return false;
  return i.operand(0)->shape().element_type() == i.operand(1)->shape().element_type() &&
         i.operand(0)->shape().element_count() > 0;
}

Result<BuiltKernel> KernelBuilder::BuildScan() {
  const Instruction& hero = *group_.heroes[0];
  const auto& a = hero.attr<ScanAttributes>();
  ScanKernel kernel;
  kernel.dims = hero.operand(0)->shape().dims();
  kernel.dimension = static_cast<int>(a.dimension);
  kernel.is_reverse = a.is_reverse;
  kernel.type = hero.operand(0)->shape().element_type();
  kernel.input = Bind(ResolveValue({hero.operand(0), 0}, true), true, false);
  kernel.output = Bind({&hero, 0}, false, true);
  // scan's computation takes (element, carry); a Reduction's combiner (accumulator, element).
  ProgramBuilder builder({});
  ProgramEmitter emitter(builder,
                         [](const ValueRef&, std::span<const IndexId>, NodeId) -> Result<std::optional<ScalarValue>> {
                           return std::nullopt;
                         });
  ScalarValue parameters[] = {{builder.Param(ComputeType(kernel.type), 1, 0), kNoNode},
                              {builder.Param(ComputeType(kernel.type), 0, 0), kNoNode}};
  kernel.reduction.hlo_type = kernel.type;
  const Instruction& step = *hero.called(0)->root()->operand(1);
  const auto is_parameter = [](const Instruction* i) { return i->opcode() == Opcode::kParameter; };
  if (a.is_associative && step.operand_count() == 2 && step.operand(0) != step.operand(1) &&
      is_parameter(step.operand(0)) && is_parameter(step.operand(1)))
    kernel.reduction.kind = KindOf(step.opcode(), kernel.type);
  if (AccumulatesWide(kernel.reduction)) {
    builder.AddResult(builder.Hlo(step.opcode(), ElementType::kF32, {parameters[1].re, parameters[0].re}));
  } else {
    KRAFLA_ASSIGN(std::vector<ScalarValue> next, emitter.EmitComputation(*hero.called(0), parameters));
    builder.AddResult(next[1].re);
  }
  kernel.reduction.combiner = std::move(builder).Finish();
  ProgramBuilder init({});
  ProgramEmitter* self = nullptr;
  ProgramEmitter init_emitter(init, [&](const ValueRef& v, std::span<const IndexId> index, NodeId mask) {
    return Outside(*self, v, index, mask);
  });
  self = &init_emitter;
  if (const Instruction* carry = CommonStart(hero)) {
    std::vector<IndexId> first(static_cast<std::size_t>(carry->shape().rank()), 0);
    KRAFLA_ASSIGN(ScalarValue start, init_emitter.Emit({carry, 0}, first));
    init.AddResult(start.re);
  } else {
    init.AddResult(init.Constant(ComputeType(kernel.type), 0));
    kernel.start = Bind(ResolveValue({hero.operand(1), 0}, true), true, false);
  }
  if (IsRead(hero, 1)) kernel.last = Bind({&hero, 1}, false, true);
  kernel.reduction.init = std::move(init).Finish();
  out_.kernel.body = std::move(kernel);
  ShareBindings();
  return std::move(out_);
}

bool KernelBuilder::TakesScatter(const Instruction& i) {
  return RealStaticArrays(i) && EmittableOnScalars(*i.called(0));
}

Result<BuiltKernel> KernelBuilder::BuildScatter() {
  const Instruction& hero = *group_.heroes[0];
  std::size_t n = (hero.operand_count() - 1) / 2;
  ScatterKernel kernel;
  kernel.attributes = hero.attr<ScatterAttributes>();
  kernel.operand_dims = hero.operand(0)->shape().dims();
  kernel.indices_dims = hero.operand(n)->shape().dims();
  kernel.updates_dims = hero.operand(n + 1)->shape().dims();
  kernel.indices_binding = Bind(ResolveValue({hero.operand(n), 0}, true), true, false);
  kernel.indices_type = hero.operand(n)->shape().element_type();
  for (std::size_t k = 0; k < n; ++k) {
    kernel.updates.push_back(Bind(ResolveValue({hero.operand(n + 1 + k), 0}, true), true, false));
    kernel.types.push_back(hero.operand(k)->shape().element_type());
  }
  for (std::size_t k = 0; k < n; ++k) kernel.outputs.push_back(Bind(ResultLeaf(hero, k), true, true));
  ProgramBuilder builder({});
  ProgramEmitter emitter(builder,
                         [](const ValueRef&, std::span<const IndexId>, NodeId) -> Result<std::optional<ScalarValue>> {
                           return std::nullopt;
                         });
  std::vector<ScalarValue> parameters;
  for (std::size_t p = 0; p < 2 * n; ++p)
    parameters.push_back({builder.Param(ComputeType(kernel.types[p % n]), static_cast<int>(p), 0), kNoNode});
  KRAFLA_ASSIGN(std::vector<ScalarValue> values, emitter.EmitComputation(*hero.called(0), parameters));
  for (const ScalarValue& v : values) builder.AddResult(v.re);
  kernel.combiner.hlo_type = kernel.types[0];
  kernel.combiner.combiner = std::move(builder).Finish();
  out_.kernel.body = std::move(kernel);
  ShareBindings();
  return std::move(out_);
}

}  // namespace krafla::plan
