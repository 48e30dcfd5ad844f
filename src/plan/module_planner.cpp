// SPDX-License-Identifier: Apache-2.0
// Plans a module computation by computation, and a computation piece by piece.
#include "plan/module_planner.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "plan/share_kernels.h"

namespace krafla::plan {

namespace {

bool HasLargeArrays(const Module& module, int64_t elements) {
  for (const auto& computation : module.computations())
    for (const auto& i : computation->instructions())
      if (i->shape().IsArray() && i->shape().element_count() > elements) return true;
  return false;
}

// Whether one of these steps is more than little work, so that no loop of them becomes one kernel.
bool HasLargeLaunch(const ProgramPlan& plan, std::size_t begin, const StepList& steps) {
  return std::any_of(
      steps.steps.begin() + static_cast<std::ptrdiff_t>(begin), steps.steps.end(), [&](const Step& step) {
        const auto* launch = std::get_if<LaunchStep>(&step);
        return launch != nullptr && plan.kernels[static_cast<std::size_t>(launch->kernel)].bytes >= kSmallKernelBytes;
      });
}

// Whether every kernel indexes at most so many elements.
bool IndexAtMost(const ProgramPlan& plan, int64_t elements) {
  for (const KernelPlan& kernel : plan.kernels) {
    bool fits = std::ranges::all_of(kernel.bindings, [&](const Binding& b) { return b.element_count <= elements; });
    // An attention goes by rows and columns, and has no index of all its scores.
    if (std::holds_alternative<AttentionKernel>(kernel.body) && fits) continue;
    ForEachProgram(kernel.body, [&](const ElementProgram& p) {
      int64_t points = 1;
      for (int64_t d : p.space.dims()) points = SaturatedMultiply(points, d);
      fits = fits && points <= elements;
    });
    if (!fits) return false;
  }
  return true;
}

// A plan with arrays of more elements than a kernel indexes, where row groups leave none that reaches so many: of
// attention over a long sequence. Nothing where they do.
std::optional<ProgramPlan> PlanInRows(const Module& module, const PlanOptions& options) {
  PlanOptions larger = options;
  larger.fusion.limits.elements = options.row_groups.elements;
  PlanLog log;
  if (options.fusion.log != nullptr) larger.fusion.log = &log;
  Result<ProgramPlan> plan = ModulePlanner(module.Clone(), larger).Run();
  if (!plan || !IndexAtMost(*plan, options.fusion.limits.elements)) return std::nullopt;
  if (options.fusion.log != nullptr) *options.fusion.log = std::move(log);
  return std::move(*plan);
}

}  // namespace

Result<ProgramPlan> PlanProgram(VerifiedModule module, const PlanOptions& options) {
  if (options.row_groups.enabled && HasLargeArrays(module.module(), options.fusion.limits.elements))
    if (std::optional<ProgramPlan> plan = PlanInRows(module.module(), options)) return std::move(*plan);
  return ModulePlanner(std::move(module).Release(), options).Run();
}

std::vector<ValueRef> ArrayLeaves(const Instruction* i) {
  std::vector<ValueRef> out;
  int leaf = 0;
  for (const Shape* s : TupleLeaves(i->shape())) {
    if (s->IsArray()) out.push_back({i, leaf});
    ++leaf;
  }
  return out;
}

Result<ProgramPlan> ModulePlanner::Run() {
  const Computation& entry = *plan_.module->entry();
  std::vector<Slice> arguments, results;
  int number = 0;
  for (const Instruction* p : entry.parameters())
    for (const Shape* s : TupleLeaves(p->shape())) {
      plan_.arguments.push_back(*s);
      if (s->IsArray()) arguments.push_back(NewAllocation(Allocation::Kind::kArgument, number, s->byte_size()));
      ++number;
    }
  number = 0;
  for (const Shape* s : TupleLeaves(entry.root()->shape())) {
    plan_.results.push_back(*s);
    if (s->IsArray()) results.push_back(NewAllocation(Allocation::Kind::kResult, number, s->byte_size()));
    ++number;
  }
  plan_.result_aliases.assign(plan_.results.size(), -1);
  KRAFLA_TRY(PlanComputation(entry, arguments, results, plan_.steps, /*is_entry=*/true));
  KRAFLA_TRY(PackTemporaries());
  DropUnusedKernels();
  ShareKernels(plan_);
  return std::move(plan_);
}

Result<> ModulePlanner::PlanComputation(const Computation& c, std::span<const Slice> arguments,
                                        std::span<const Slice> results, StepList& steps, bool is_entry) {
  Scope scope;
  scope.computation = &c;
  scope.log = options_.fusion.log;
  KRAFLA_ASSIGN(scope.fusion, PlanFusion(c, options_.fusion, &effects_));
  KRAFLA_TRY(BuildPieces(scope));

  std::size_t n = 0;
  std::vector<ValueRef> parameters;
  for (const Instruction* p : c.parameters())
    for (const ValueRef& v : ArrayLeaves(p)) {
      parameters.push_back(v);
      scope.Place(v, arguments[n++]);
    }
  std::vector<ValueRef> roots;
  for (const ValueRef& v : ArrayLeaves(c.root())) {
    roots.push_back(ResolveValue(v, true));
    ++scope.results[roots.back()];
  }

  if (is_entry && options_.alias_donated) AliasDonated(scope, parameters, roots, results);
  std::unordered_map<Slice, std::vector<ValueRef>, SliceHash> held;
  for (const ValueRef& p : parameters) held[scope.slices.at(p)].push_back(p);
  for (std::size_t r = 0; r < roots.size(); ++r) Preassign(scope, held, roots[r], results[r]);

  const std::size_t begin = steps.steps.size();
  std::vector<int> ends;
  for (std::size_t p = 0; p < scope.pieces.size(); ++p) {
    KRAFLA_TRY(PlanPiece(scope, static_cast<int>(p), steps));
    ends.resize(steps.steps.size() - begin, now_);
  }

  CopyRoots(scope, roots, results, steps);
  ends.resize(steps.steps.size() - begin, now_);
  if (options_.fusion.overlap.enabled) OverlapExchanges(scope, begin, std::move(ends), steps);
  const auto times =
      options_.takes_horizontal ? LaunchTimes(scope, begin, steps) : std::unordered_map<const Instruction*, int>();
  GroupRows(scope, arguments, results, begin, steps);
  // Loops of little work may become one kernel, or a tape, of the launches that they are.
  const bool is_launched = is_entry || (options_.joins_in_loops && HasLargeLaunch(plan_, begin, steps));
  if (options_.takes_horizontal) FuseHorizontally(times, is_launched ? 0 : kSmallKernelBytes, begin, steps);
  if (options_.takes_horizontal && options_.rows_in_products) PutRowsIntoProducts(times, begin, steps);
  return {};
}

Result<> ModulePlanner::PlanPiece(Scope& scope, int number, StepList& steps) {
  Piece& piece = scope.pieces[static_cast<std::size_t>(number)];
  if (piece.group->kind == FusionGroup::Kind::kWhile) return PlanWhile(scope, number, steps);
  if (piece.group->kind == FusionGroup::Kind::kConditional) return PlanConditional(scope, number, steps);
  if (piece.group->kind == FusionGroup::Kind::kCall) return PlanCall(scope, number, steps);
  if (const Instruction* update = UpdatedOperand(piece)) PlaceUpdated(scope, number, *update, steps);
  for (BuiltKernel& built : piece.kernels) {
    bool empty = !std::holds_alternative<HostKernel>(built.kernel.body);
    for (const Binding& b : built.kernel.bindings)
      if (b.written && b.element_count > 0) empty = false;
    if (empty || EmptyIteration(built.kernel)) continue;
    LaunchStep launch;
    ++now_;
    for (const ValueRef& v : built.values) {
      launch.bindings.push_back(SliceOf(scope, v));
      Touch(launch.bindings.back());
    }
    launch.instruction = !piece.group->roots.empty() ? piece.group->roots.back() : piece.group->heroes.back();
    launch.instruction_count = piece.instructions;
    piece.instructions = 0;
    if (scope.log != nullptr) scope.log->launches.push_back({now_, launch.instruction});
    launch.kernel = KernelNumber(std::move(built.kernel));
    scope.launched[steps.steps.size()] = now_;
    steps.steps.push_back(std::move(launch));
  }
  return {};
}

bool ModulePlanner::EmptyIteration(const KernelPlan& kernel) {
  const auto* loop = std::get_if<LoopKernel>(&kernel.body);
  if (loop == nullptr) return false;
  for (int64_t d : loop->program.space.dims())
    if (d == 0) return true;
  return false;
}

int ModulePlanner::KernelNumber(KernelPlan kernel) {
  uint64_t hash = HashProblem(kernel);
  auto [first, last] = kernels_by_hash_.equal_range(hash);
  for (auto it = first; it != last; ++it)
    if (KernelPlan::SameProblem(plan_.kernels[static_cast<std::size_t>(it->second)], kernel)) return it->second;
  plan_.kernels.push_back(std::move(kernel));
  int number = static_cast<int>(plan_.kernels.size()) - 1;
  kernels_by_hash_.emplace(hash, number);
  return number;
}

}  // namespace krafla::plan
