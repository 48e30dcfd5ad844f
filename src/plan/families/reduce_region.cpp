// SPDX-License-Identifier: Apache-2.0
// Turns groups around reductions into ReduceKernels.
#include <algorithm>

#include "plan/collapse.h"
#include "plan/families/accepts.h"
#include "plan/families/reduce_split.h"
#include "plan/kernel_builder.h"

namespace krafla::plan {

// A group of reductions over the same rows, stage by stage.
class KernelBuilder::ReduceRegion {
 public:
  explicit ReduceRegion(KernelBuilder& kernel)
      : kernel_(kernel), group_(kernel.group_), split_(SplitOf(*kernel.group_.heroes[0])), all_(split_.row_dims) {
    all_.append(split_.element_dims.begin(), split_.element_dims.end());
  }
  Result<ReduceKernel> Build();

 private:
  // The parameter as which later stages see a value that an earlier stage reduced.
  struct Param {
    int number = 0;
    bool round = false;  // the parameter is of a wider type than the value
  };
  // The points of a stage's program: the index of its row, and the index into the operand of the first hero.
  struct Points {
    std::vector<IndexId> rows, operand;
  };

  // Gives each reduction its stage: the one after the last stage whose reductions it depends on.
  void FindLevels();
  int LevelOf(const Instruction& hero) const;
  Points PointsOf(ReduceStage::Scope scope, ProgramBuilder& builder) const;
  ProgramEmitter EmitterOf(ProgramBuilder& builder, const std::vector<IndexId>& rows);
  Result<std::optional<ScalarValue>> Outside(ProgramEmitter& emitter, const std::vector<IndexId>& rows,
                                             const ValueRef& v, std::span<const IndexId> index, NodeId mask);
  // The stage with the reductions of a level. Their results have parameters afterwards.
  Result<ReduceStage> Reductions(int level);
  Result<Reduction> EmitReduction(const Instruction& hero, ProgramEmitter& emitter, const Points& points);
  // The stage that stores the kernel's results: one stage stores values of rows, another one values of elements. Gives
  // whether there is anything to store.
  Result<bool> Results(ReduceStage::Scope scope, ReduceStage& out);

  KernelBuilder& kernel_;
  const FusionGroup& group_;
  const ReduceSplit split_;
  Dims all_;
  std::unordered_map<const Instruction*, int> level_;
  int levels_ = 0;
  std::unordered_map<ValueRef, Param, ValueRefHash> param_of_;
  int next_param_ = 0;
};

Result<BuiltKernel> KernelBuilder::BuildReduce() {
  KRAFLA_ASSIGN(ReduceKernel kernel, ReduceRegion(*this).Build());
  return FinishReduce(std::move(kernel));
}

Result<ReduceKernel> KernelBuilder::ReduceRegion::Build() {
  ReduceKernel kernel;
  kernel.row_dims = split_.row_dims;
  kernel.element_dims = split_.element_dims;
  FindLevels();
  for (int level = 0; level < levels_; ++level) {
    KRAFLA_ASSIGN(ReduceStage reducing, Reductions(level));
    kernel.stages.push_back(std::move(reducing));
  }
  for (ReduceStage::Scope scope : {ReduceStage::Scope::kRow, ReduceStage::Scope::kElement}) {
    ReduceStage storing;
    KRAFLA_ASSIGN(const bool any, Results(scope, storing));
    if (any) kernel.stages.push_back(std::move(storing));
  }
  return kernel;
}

void KernelBuilder::ReduceRegion::FindLevels() {
  for (const Instruction* hero : group_.heroes) {
    level_[hero] = LevelOf(*hero);
    levels_ = std::max(levels_, level_[hero] + 1);
  }
}

int KernelBuilder::ReduceRegion::LevelOf(const Instruction& hero) const {
  int out = 0;
  std::unordered_set<const Instruction*> seen;
  std::vector<const Instruction*> stack(hero.operands().begin(), hero.operands().end());
  while (!stack.empty()) {
    const Instruction* i = stack.back();
    stack.pop_back();
    if (!seen.insert(i).second) continue;
    if (auto it = level_.find(i); it != level_.end()) {
      out = std::max(out, it->second + 1);
      continue;
    }
    if (!kernel_.IsMember(i) && kernel_.plan_.HasBuffer({i, 0})) continue;
    stack.insert(stack.end(), i->operands().begin(), i->operands().end());
  }
  return out;
}

KernelBuilder::ReduceRegion::Points KernelBuilder::ReduceRegion::PointsOf(ReduceStage::Scope scope,
                                                                          ProgramBuilder& builder) const {
  Points out;
  out.operand.resize(split_.operand_dims.size(), 0);
  for (std::size_t d = 0; d < split_.row.size(); ++d) {
    out.rows.push_back(builder.space().Iter(static_cast<int>(d)));
    out.operand[static_cast<std::size_t>(split_.row[d])] = out.rows.back();
  }
  if (scope == ReduceStage::Scope::kElement)
    for (std::size_t d = 0; d < split_.element.size(); ++d)
      out.operand[static_cast<std::size_t>(split_.element[d])] =
          builder.space().Iter(static_cast<int>(split_.row.size() + d));
  return out;
}

ProgramEmitter KernelBuilder::ReduceRegion::EmitterOf(ProgramBuilder& builder, const std::vector<IndexId>& rows) {
  return ProgramEmitter(
      builder, [this, &rows](ProgramEmitter& emitter, const ValueRef& v, std::span<const IndexId> index, NodeId mask) {
        return Outside(emitter, rows, v, index, mask);
      });
}

Result<std::optional<ScalarValue>> KernelBuilder::ReduceRegion::Outside(ProgramEmitter& emitter,
                                                                        const std::vector<IndexId>& rows,
                                                                        const ValueRef& v,
                                                                        std::span<const IndexId> index, NodeId mask) {
  const auto it = param_of_.find(v);
  if (it == param_of_.end()) {
    if (level_.contains(v.instruction)) return Internal("{} is read before its stage.", Describe(*v.instruction));
    return kernel_.Outside(emitter, v, index, mask);
  }
  ProgramBuilder& builder = emitter.builder();
  std::vector<IndexId> expected = rows;
  if (LeafShape(v).dims() != split_.row_dims)
    expected = builder.space().Delinearize(builder.space().Linearize(rows, split_.row_dims), LeafShape(v).dims());
  if (!std::equal(index.begin(), index.end(), expected.begin(), expected.end()))
    return Unimplemented("{} is read across rows.", Describe(*v.instruction));
  const uint64_t row_mask = split_.row.empty() ? 0 : ~uint64_t{0} >> (64 - split_.row.size());
  const ElementType type = LeafShape(v).element_type();
  const ElementType compute = ComputeType(RealPart(type));
  const auto& [number, round] = it->second;
  ScalarValue param{builder.Param(compute, number, row_mask), kNoNode};
  if (IsComplex(type)) param.im = builder.Param(compute, number + 1, row_mask);
  if (round) param.re = builder.Convert(param.re, ElementType::kF32, type);
  return param;
}

Result<ReduceStage> KernelBuilder::ReduceRegion::Reductions(int level) {
  ReduceStage out;
  out.scope = ReduceStage::Scope::kElement;
  ProgramBuilder builder(all_);
  const Points points = PointsOf(out.scope, builder);
  ProgramEmitter emitter = EmitterOf(builder, points.rows);
  std::vector<std::pair<ValueRef, bool>> made;
  int results = 0;
  for (const Instruction* hero : group_.heroes) {
    if (level_[hero] != level) continue;
    KRAFLA_ASSIGN(Reduction reduction, EmitReduction(*hero, emitter, points));
    for (int& input : reduction.inputs) input = results++;
    for (std::size_t n = 0; n < ReduceInputCount(*hero); ++n)
      made.push_back({{hero, static_cast<int>(n)}, AccumulatesWide(reduction)});
    out.reductions.push_back(std::move(reduction));
  }
  // The results of a stage's reductions become known after its program has been emitted, which does not see them.
  for (const auto& [value, round] : made) {
    param_of_[value] = {next_param_, round};
    next_param_ += IsComplex(LeafShape(value).element_type()) ? 2 : 1;
  }
  out.program = std::move(builder).Finish();
  return out;
}

Result<Reduction> KernelBuilder::ReduceRegion::EmitReduction(const Instruction& hero, ProgramEmitter& emitter,
                                                             const Points& points) {
  IndexSpace& space = emitter.builder().space();
  const std::size_t inputs = ReduceInputCount(hero);
  std::vector<ValueRef> inits;
  for (std::size_t n = 0; n < inputs; ++n) inits.push_back({hero.operand(inputs + n), 0});
  KRAFLA_ASSIGN(Reduction out, kernel_.MakeReduction(*hero.called(0), inits, TupleLeaves(hero.shape())));
  if (MultipliesComplex(*hero.called(0))) out.kind = Reduction::Kind::kComplexProduct;
  for (std::size_t n = 0; n < inputs; ++n) {
    const Dims& dims = hero.operand(n)->shape().dims();
    std::vector<IndexId> at = points.operand;
    if (dims != split_.operand_dims) at = space.Delinearize(space.Linearize(points.operand, split_.operand_dims), dims);
    KRAFLA_ASSIGN(ScalarValue value, emitter.Emit({hero.operand(n), 0}, at));
    AddResults(emitter.builder(), value);
    out.inputs.resize(out.inputs.size() + (value.im != kNoNode ? 2 : 1));
  }
  return out;
}

Result<bool> KernelBuilder::ReduceRegion::Results(ReduceStage::Scope scope, ReduceStage& out) {
  out.scope = scope;
  const bool element = scope == ReduceStage::Scope::kElement;
  bool any = false;
  ProgramBuilder builder(element ? all_ : split_.row_dims);
  IndexSpace& space = builder.space();
  const Points points = PointsOf(scope, builder);
  ProgramEmitter emitter = EmitterOf(builder, points.rows);
  const auto store = [&](const ValueRef& v, std::span<const IndexId> at) -> Result<> {
    KRAFLA_ASSIGN(ScalarValue value, emitter.Emit(v, at));
    emitter.StoreElement(LeafShape(v), kernel_.Bind(v, false, true), at, value);
    any = true;
    return {};
  };
  // The index of an array of `dims` at a point of the stage.
  const auto index_of = [&](const Dims& dims) {
    const std::vector<IndexId>& at = element ? points.operand : points.rows;
    const Dims& have = element ? split_.operand_dims : split_.row_dims;
    return dims == have ? at : space.Delinearize(space.Linearize(at, have), dims);
  };
  if (!element)
    for (const Instruction* hero : group_.heroes) {
      if (group_.internal.contains(hero)) continue;
      int leaf = 0;
      for (const Shape* s : TupleLeaves(hero->shape())) KRAFLA_TRY(store({hero, leaf++}, index_of(s->dims())));
    }
  for (const Instruction* root : group_.roots) {
    const bool root_is_row = root->shape().element_count() == split_.rows;
    if (group_.internal.contains(root) || root_is_row == element) continue;
    KRAFLA_TRY(store({root, 0}, index_of(root->shape().dims())));
  }
  out.program = std::move(builder).Finish();
  return any;
}

Result<BuiltKernel> KernelBuilder::FinishReduce(ReduceKernel kernel) {
  std::vector<ElementProgram*> programs;
  for (ReduceStage& s : kernel.stages) programs.push_back(&s.program);
  int border = static_cast<int>(kernel.row_dims.size()) - 1;
  int keep[] = {border};
  std::vector<int> group_of = CollapseTogether(programs, keep);
  Dims rows, elements;
  auto row_rank = static_cast<std::size_t>(border + 1);
  for (std::size_t d = 0; d < group_of.size(); ++d) {
    bool is_row = d < row_rank;
    int64_t extent = is_row ? kernel.row_dims[d] : kernel.element_dims[d - row_rank];
    Dims& list = is_row ? rows : elements;
    bool starts = d == 0 || d == row_rank || group_of[d] != group_of[d - 1];
    if (starts) list.push_back(extent);
    else list.back() *= extent;
  }
  kernel.row_dims = rows;
  kernel.element_dims = elements;
  out_.kernel.body = std::move(kernel);
  ShareBindings();
  return std::move(out_);
}

}  // namespace krafla::plan
