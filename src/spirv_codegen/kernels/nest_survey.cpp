// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/kernels/nest_survey.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "plan/slice_extent.h"
#include "spirv_codegen/kernels/linalg.h"
#include "spirv_codegen/kernels/nest_scatter.h"
#include "spirv_codegen/kernels/nest_sums.h"
#include "spirv_codegen/kernels/while.h"

namespace krafla::spirv {

using plan::Slice;

int BytesOfCopied(int64_t size) {
  if (size == 1 || size == 2 || size == 8) return static_cast<int>(size);
  return size % 4 == 0 ? 4 : 1;
}
namespace {

ElementType CopiedType(int bytes) {
  switch (bytes) {
    case 8: return ElementType::kU64;
    case 4: return ElementType::kU32;
    case 2: return ElementType::kU16;
    default: return ElementType::kU8;
  }
}

// What one of several kernels that are a launch reads and writes of the bindings that all of them have.
plan::KernelPlan WithOwnBindings(plan::KernelPlan part) {
  for (plan::Binding& b : part.bindings) b.read = b.written = false;
  const auto at = [&](int buffer) -> plan::Binding& { return part.bindings[static_cast<std::size_t>(buffer)]; };
  plan::ForEachProgram(part.body, [&](const plan::ElementProgram& program) {
    for (const plan::Node& n : program.nodes)
      if (n.op == plan::NodeOp::kLoad) at(n.buffer).read = true;
    for (const plan::Store& s : program.stores) at(s.buffer).written = true;
  });
  if (const auto* dot = std::get_if<plan::DotKernel>(&part.body)) {
    if (!dot->computes_lhs()) at(dot->lhs_binding).read = true;
    if (!dot->computes_rhs()) at(dot->rhs_binding).read = true;
  }
  return part;
}

}  // namespace

Result<> ForEachPart(const plan::KernelPlan& kernel, const std::function<Result<>(const plan::KernelPlan&)>& visit) {
  const auto* horizontal = std::get_if<plan::HorizontalKernel>(&kernel.body);
  if (horizontal == nullptr) return visit(kernel);
  for (plan::KernelPlan& part : plan::PartsOfHorizontal(kernel, *horizontal))
    KRAFLA_TRY(visit(WithOwnBindings(std::move(part))));
  return {};
}

int NestSurvey::BufferOf(const Slice& slice) const {
  return static_cast<int>(std::ranges::find(slices_, slice) - slices_.begin());
}
void NestSurvey::Look(const Slice& slice, ElementType storage, int64_t count, bool written, bool by_all) {
  const auto at = static_cast<std::size_t>(BufferOf(slice));
  if (at == slices_.size()) {
    slices_.push_back(slice);
    merged_.bindings.push_back({storage, count, true, false});
    has_copies_.push_back(count == 1 && StorageBytes(storage) == slice.size);
  }
  plan::Binding& binding = merged_.bindings[at];
  binding.written = binding.written || written;
  if (count != 1 || StorageBytes(storage) != slice.size || (written && !by_all)) has_copies_[at] = false;
  // Elements of one size are read as any type. Where sizes differ, the buffer is one of bytes.
  if (StorageBytes(binding.storage) != StorageBytes(storage))
    binding = {ElementType::kU8, slice.size, true, binding.written};
}
void NestSurvey::ChooseCopies(bool resumes) {
  const auto share = [&](const Slice& a, const Slice& b) {
    return resumes ? ExtentOf(plan_, a).Overlaps(ExtentOf(plan_, b)) : plan::ShareBytes(plan_, a, b);
  };
  for (std::size_t i = 0; i < slices_.size(); ++i)
    for (std::size_t j = 0; j < slices_.size(); ++j)
      if (i != j && share(slices_[i], slices_[j])) has_copies_[i] = false;
}

bool NestSurvey::HasUncounted(const plan::WhileStep& loop) {
  return uncounted_.In(*loop.condition) || uncounted_.In(*loop.body);
}

Result<NestCost> NestSurvey::LookAtTurn(const plan::WhileStep& loop) {
  NestCost cost{20, 0};
  if (!loop.trip_count || HasUncounted(loop)) {
    Look(loop.predicate, ElementType::kPred, 1, false, true);
    KRAFLA_ASSIGN(const NestCost condition, LookAt(*loop.condition));
    cost += condition;
  }
  KRAFLA_ASSIGN(const NestCost body, LookAt(*loop.body));
  cost += body;
  return cost;
}

NestCost NestSurvey::CostOf(double points, double operations) {
  const double rounds = std::ceil(points / static_cast<double>(tuning_.points_at_once));
  const double ns = tuning_.step_ns + tuning_.point_ns * rounds + tuning_.operation_ns * rounds * operations;
  longest_step_ns_ = std::max(longest_step_ns_, ns);
  return {ns, tuning_.launch_ns};
}

Result<NestCost> NestSurvey::LookAt(const plan::StepList& list) {
  NestCost cost;
  for (const plan::Step& step : list.steps) {
    if (const auto* launch = std::get_if<plan::LaunchStep>(&step)) {
      KRAFLA_ASSIGN(const NestCost more, LookAtLaunch(*launch));
      cost += more;
    } else if (const auto* copy = std::get_if<plan::CopyStep>(&step)) {
      const int bytes = BytesOfCopied(copy->from.size);
      const ElementType type = CopiedType(bytes);
      const int64_t count = copy->from.size / bytes;
      Look(copy->from, type, count, false, true);
      Look(copy->to, type, count, true, count == 1);
      widest_ = std::max(widest_, count);
      code_nodes_ += 10;
      cost += CostOf(static_cast<double>(count), 16);
    } else if (const auto* loop = std::get_if<plan::WhileStep>(&step)) {
      KRAFLA_ASSIGN(const NestCost turn, LookAtTurn(*loop));
      if (uncounted_.In(step)) {
        cost += turn;
        continue;
      }
      const double turns = static_cast<double>(*loop->trip_count);
      // Where it takes less than its launches would, it is a kernel by itself.
      cost += {turn.ns * turns, std::min(turn.ns, turn.launched_ns) * turns};
      if (cost.ns > kLoopLaunchNs || *loop->trip_count > std::numeric_limits<int32_t>::max())
        return Unimplemented("A loop within the loop takes too long.");
    } else if (const auto* branch = std::get_if<plan::ConditionalStep>(&step)) {
      Look(branch->index, branch->index_is_pred ? ElementType::kPred : ElementType::kS32, 1, false, true);
      NestCost longest;
      for (const auto& b : branch->branches) {
        KRAFLA_ASSIGN(const NestCost of_branch, LookAt(*b));
        longest = {std::max(longest.ns, of_branch.ns), std::max(longest.launched_ns, of_branch.launched_ns)};
      }
      cost += longest;
    } else if (std::holds_alternative<plan::AwaitStep>(step)) {
      return Unimplemented("The loop has collectives.");
    } else if (std::holds_alternative<plan::RowGroupStep>(step)) {
      return Unimplemented("The loop has kernels that run block of rows by block of rows.");
    } else {
      KRAFLA_ASSIGN(const NestCost of_call,
                    LookAt(plan_.callees[static_cast<std::size_t>(std::get<plan::CallStep>(step).callee)]));
      cost += of_call;
    }
    // Steps count too, because what is called is written out, and looked at, wherever it is called.
    if (++code_nodes_ > tuning_.most_nodes) return Unimplemented("The loop has more operations than one kernel takes.");
  }
  return cost;
}

Result<NestCost> NestSurvey::LookAtLaunch(const plan::LaunchStep& launch) {
  const plan::KernelPlan& kernel = plan_.kernels[static_cast<std::size_t>(launch.kernel)];
  KRAFLA_TRY(CanEmit(kernel, profile_));
  NestCost cost;
  KRAFLA_TRY(ForEachPart(kernel, [&](const plan::KernelPlan& part) -> Result<> {
    KRAFLA_ASSIGN(const NestCost of_part, LookAtPart(part, launch));
    cost += of_part;
    return {};
  }));
  cost.launched_ns = tuning_.launch_ns;
  return cost;
}
Result<NestCost> NestSurvey::LookAtPart(const plan::KernelPlan& kernel, const plan::LaunchStep& launch) {
  bool by_all = false;     // stores one element, which every invocation may do for itself
  bool in_memory = false;  // touches no variables of invocations
  double points = 0, operations = 0;
  if (const auto* loop = std::get_if<plan::LoopKernel>(&kernel.body)) {
    const int64_t count = Product(loop->program.space.dims());
    by_all = count == 1;
    points = static_cast<double>(count), operations = OperationsOf(loop->program);
    widest_ = std::max(widest_, count);
    code_nodes_ += std::ssize(loop->program.nodes);
  } else if (const auto* reduce = std::get_if<plan::ReduceKernel>(&kernel.body)) {
    if (reduce->stages.empty()) return Unimplemented("The reduction has no stages.");
    const int64_t rows = Product(reduce->row_dims), elements = Product(reduce->element_dims);
    by_all = rows == 1;
    for (const plan::ReduceStage& s : reduce->stages) {
      by_all = by_all && (s.scope == plan::ReduceStage::Scope::kRow || s.program.stores.empty());
      operations += OperationsOf(s.program) + 8;
      code_nodes_ += std::ssize(s.program.nodes) + 20;
    }
    points = static_cast<double>(rows) * static_cast<double>(elements);
    // Where rows lie side by side each invocation takes one.
    const int64_t lanes = tuning_.most_lanes;
    if (rows * 4 > lanes) points = static_cast<double>(std::max(rows, lanes)) * static_cast<double>(elements);
    widest_ = std::max({widest_, rows, elements > 16 ? elements : 1});
  } else if (const auto* dot = std::get_if<plan::DotKernel>(&kernel.body);
             dot != nullptr && !dot->computes_lhs() && !dot->computes_rhs()) {
    for (ElementType type : {dot->lhs_type, dot->rhs_type, dot->result_type}) KRAFLA_TRY(CheckType(type, profile_));
    const int64_t sums = Product(dot->batch) * dot->m * dot->n;
    by_all = sums == 1;
    points = static_cast<double>(sums);
    operations = NestSumsOperations(*dot, NestSumsAtOnce(*dot, device_tuning_.loop, tuning_.least_lanes));
    widest_ = std::max(widest_, sums);
    code_nodes_ += std::ssize(dot->epilogue.nodes) + 50;
  } else if (const auto* scatter = std::get_if<plan::ScatterKernel>(&kernel.body)) {
    for (ElementType type : scatter->types) KRAFLA_TRY(CheckType(type, profile_));
    KRAFLA_TRY(CheckType(scatter->indices_type, profile_));
    const NestScatterCost cost = CostOfNestScatter(*scatter, profile_);
    points = static_cast<double>(cost.points), operations = cost.operations;
    widest_ = std::max(widest_, cost.points);
    code_nodes_ += std::ssize(scatter->combiner.combiner.nodes) + 50;
    in_memory = true;
  } else if (const auto* linalg = std::get_if<plan::LinalgKernel>(&kernel.body)) {
    const EmitOptions options;
    const Refusal refusal = RefusesInGroup({kernel, *linalg, {profile_, device_tuning_, options}});
    if (refusal) return Unimplemented("A step of the loop is linear algebra of {}.", *refusal);
    KRAFLA_TRY(CheckType(linalg->type, profile_));
    const InGroupCost cost = CostInGroup(*linalg);
    points = static_cast<double>(cost.items), operations = cost.operations;
    widest_ = std::max(widest_, cost.items);
    code_nodes_ += 200;
    in_memory = true;
  } else {
    return Unimplemented("A step of the loop is a kernel of the family '{}'.", plan::FamilyName(kernel));
  }
  for (std::size_t n = 0; n < launch.bindings.size(); ++n) {
    const plan::Binding& binding = kernel.bindings[n];
    if (!binding.read && !binding.written) continue;
    Look(launch.bindings[n], binding.storage, binding.element_count, binding.written, by_all);
    if (in_memory) has_copies_[static_cast<std::size_t>(BufferOf(launch.bindings[n]))] = false;
  }
  return CostOf(points, operations);
}

}  // namespace krafla::spirv
