// SPDX-License-Identifier: Apache-2.0
#include "plan/plan_check.h"

#include <set>
#include <vector>

#include "plan/step_runner.h"
#include "plan/step_slices.h"

namespace krafla::plan {
namespace {

bool Within(int64_t offset, int64_t size, int64_t limit) {
  return offset >= 0 && size >= 0 && size <= limit && offset <= limit - size;
}

class PlanChecker {
 public:
  explicit PlanChecker(const ProgramPlan& plan) : plan_(plan) {}

  Result<> Run() {
    for (std::size_t a = 0; a < plan_.allocations.size(); ++a) KRAFLA_TRY(Check(plan_.allocations[a], a));
    for (const KernelPlan& kernel : plan_.kernels)
      if (const auto* host = std::get_if<HostKernel>(&kernel.body)) KRAFLA_TRY(Check(kernel, *host->instruction));
    for (std::size_t c = 0; c < plan_.callees.size(); ++c) KRAFLA_TRY(Check(plan_.callees[c], static_cast<int64_t>(c)));
    KRAFLA_TRY(Check(plan_.steps, std::ssize(plan_.callees)));
    for (const StepList& callee : plan_.callees) KRAFLA_TRY(CheckExchanges(callee));
    return CheckExchanges(plan_.steps);
  }

 private:
  // The bytes of what an allocation stands for; -1 where its number names nothing.
  int64_t BytesBehind(const Allocation& a) const {
    const auto of = [&](const auto& list, auto bytes) -> int64_t {
      return a.number < 0 || a.number >= std::ssize(list) ? -1 : bytes(list[static_cast<std::size_t>(a.number)]);
    };
    const auto of_shape = [](const Shape& s) { return s.byte_size(); };
    switch (a.kind) {
      case Allocation::Kind::kArgument: return of(plan_.arguments, of_shape);
      case Allocation::Kind::kResult: return of(plan_.results, of_shape);
      case Allocation::Kind::kConstant:
        return of(plan_.constants, [](const Literal* c) { return std::ssize(c->bytes()); });
      case Allocation::Kind::kState: return of(plan_.states, [](const auto& s) { return std::ssize(s); });
      case Allocation::Kind::kArena: return plan_.arena_size;
      case Allocation::Kind::kBlock: return plan_.block_bytes;
      case Allocation::Kind::kDeviceId: return a.number == 0 || a.number == 1 ? int64_t{sizeof(uint32_t)} : -1;
    }
    KRAFLA_UNREACHABLE();
  }

  Result<> Check(const Allocation& a, std::size_t number) const {
    const bool is_part = a.kind == Allocation::Kind::kArena || a.kind == Allocation::Kind::kBlock;
    const int64_t offset = is_part ? a.offset : 0;
    if (Within(offset, a.size, BytesBehind(a))) return {};
    return Internal("Allocation {} of the plan has {} bytes from byte {} of {}.", number, a.size, offset,
                    BytesBehind(a));
  }

  Result<> Check(const Slice& s, std::string_view what) const {
    if (s.allocation < 0 || s.allocation >= std::ssize(plan_.allocations))
      return Internal("{} uses allocation {} of {}.", what, s.allocation, plan_.allocations.size());
    const int64_t size = plan_.allocations[static_cast<std::size_t>(s.allocation)].size;
    if (Within(s.offset, s.size, size)) return {};
    return Internal("{} uses {} bytes from byte {} of allocation {}, which has {}.", what, s.size, s.offset,
                    s.allocation, size);
  }

  Result<> CheckSize(const Slice& s, int64_t least, std::string_view what) const {
    KRAFLA_TRY(Check(s, what));
    if (s.size >= least) return {};
    return Internal("{} has {} bytes for {}.", what, s.size, least);
  }

  // Whether the bindings of a host kernel are the leaves of its operands and then those of its result.
  static Result<> Check(const KernelPlan& kernel, const Instruction& instruction) {
    std::size_t next = 0;
    const auto take = [&](const Shape& shape) -> Result<> {
      for (const Shape* leaf : TupleLeaves(shape)) {
        if (!leaf->IsArray()) continue;
        const int64_t bytes = next < kernel.bindings.size() ? kernel.bindings[next].byte_size() : -1;
        if (bytes != leaf->byte_size())
          return Internal("{}: Array {} of a host kernel is {}, but its binding has {} bytes.", Describe(instruction),
                          next, leaf->ToString(false), bytes);
        ++next;
      }
      return {};
    };
    for (const Instruction* operand : instruction.operands()) KRAFLA_TRY(take(operand->shape()));
    KRAFLA_TRY(take(instruction.shape()));
    if (next == kernel.bindings.size()) return {};
    return Internal("{}: A host kernel of {} arrays cannot have {} bindings.", Describe(instruction), next,
                    kernel.bindings.size());
  }

  Result<> Check(const LaunchStep& step) const {
    const std::string_view name = step.instruction != nullptr ? std::string_view(step.instruction->name()) : "a launch";
    if (step.kernel < 0 || step.kernel >= std::ssize(plan_.kernels)) return Internal("{} has no kernel.", name);
    const KernelPlan& kernel = plan_.kernels[static_cast<std::size_t>(step.kernel)];
    if (kernel.bindings.size() != step.bindings.size())
      return Internal("{} binds kernel '{}' to {} buffers; it has {}.", name, kernel.name, step.bindings.size(),
                      kernel.bindings.size());
    for (std::size_t b = 0; b < step.bindings.size(); ++b) {
      Result<> fits = CheckSize(step.bindings[b], kernel.bindings[b].byte_size(), name);
      if (!fits)
        return Failure(std::move(fits).error().WithContext(Format("in binding {} of kernel '{}'", b, kernel.name)));
    }
    return {};
  }

  // Every block's slices.
  Result<> Check(const RowGroupStep& group) const {
    if (group.grid.size() > RowGroupStep::kMostDims || group.launches.empty())
      return Internal("A row group has {} dimensions and {} launches.", group.grid.size(), group.launches.size());
    if (group.in_order < 0 || group.in_order > std::ssize(group.grid))
      return Internal("A row group has {} dimensions, of which {} are in order.", group.grid.size(), group.in_order);
    for (int64_t extent : group.grid)
      if (extent <= 0) return Internal("A row group has no blocks.");
    if (group.place.size > 0)
      KRAFLA_TRY(CheckSize(group.place, std::ssize(group.grid) * int64_t{sizeof(int32_t)}, "the place of a block"));
    for (const BlockLaunch& launch : group.launches) {
      KRAFLA_TRY(Check(static_cast<const LaunchStep&>(launch)));
      if (launch.strides.size() != launch.bindings.size())
        return Internal("A launch of a row group has {} bindings and strides of {}.", launch.bindings.size(),
                        launch.strides.size());
      for (std::size_t b = 0; b < launch.strides.size(); ++b) {
        if (launch.strides[b].size() != group.grid.size()) return Internal("A row group's strides are not its grid's.");
        Interval reach{0, 0};
        for (std::size_t g = 0; g < group.grid.size(); ++g)
          reach = reach + Union({0, 0}, Interval{launch.strides[b][g], launch.strides[b][g]} * (group.grid[g] - 1));
        for (int64_t moved : {reach.lo, reach.hi}) {
          Slice slice = launch.bindings[b];
          slice.offset = SaturatedAdd(slice.offset, moved);
          KRAFLA_TRY(Check(slice, "a block of a row group"));
        }
      }
    }
    return {};
  }

  // `callees`: a call may run one of the first so many callees of the program. A callee may call those before it only,
  // so that calls end.
  Result<> Check(const StepList& list, int64_t callees) const {
    return TryForEachStep(list, [&](const Step& step) -> Result<> {
      if (const auto* launch = std::get_if<LaunchStep>(&step)) {
        KRAFLA_TRY(Check(*launch));
      } else if (const auto* group = std::get_if<RowGroupStep>(&step)) {
        KRAFLA_TRY(Check(*group));
      } else if (const auto* copy = std::get_if<CopyStep>(&step)) {
        KRAFLA_TRY(Check(copy->to, "a copy"));
        KRAFLA_TRY(CheckSize(copy->from, copy->to.size, "a copy"));
      } else if (const auto* loop = std::get_if<WhileStep>(&step)) {
        KRAFLA_TRY(CheckSize(loop->predicate, 1, "the predicate of a loop"));
      } else if (const auto* branch = std::get_if<ConditionalStep>(&step)) {
        KRAFLA_TRY(CheckSize(branch->index, branch->index_is_pred ? 1 : 4, "the index of a conditional"));
        if (branch->branches.empty()) return Internal("A conditional has no branches.");
      } else if (const auto* call = std::get_if<CallStep>(&step)) {
        if (call->callee < 0 || call->callee >= callees)
          return Internal("A call runs computation {}, and there are {} before it.", call->callee, callees);
      }
      return {};
    });
  }

  // Whether each collective that goes on is awaited once, in its own list, and nothing between touches what it works
  // on. Their numbers are distinct in the whole program.
  Result<> CheckExchanges(const StepList& list) {
    OpenSlices open(plan_, OpenSlices::Arena::kIsPacked);
    for (const Step& step : list.steps) {
      if (const auto* await = std::get_if<AwaitStep>(&step)) {
        if (!open.Remove(await->exchange))
          return Internal("Exchange {} is awaited where it is not under way.", await->exchange);
        continue;
      }
      if (!open.IsEmpty())
        if (const std::vector<int> disturbed = open.DisturbedBy(SlicesOf(plan_, step)); !disturbed.empty())
          return Internal("A step touches what exchange {} works on, before it is awaited.", disturbed.front());
      const auto* launch = std::get_if<LaunchStep>(&step);
      if (launch != nullptr && launch->exchange >= 0) {
        if (launch->exchange >= plan_.exchanges || !started_.insert(launch->exchange).second)
          return Internal("Exchange {} of {} is started twice, or there is none.", launch->exchange, plan_.exchanges);
        open.Add(launch->exchange, SlicesOf(plan_, step));
      }
      KRAFLA_TRY(CheckExchangesInside(step));
    }
    if (open.IsEmpty()) return {};
    return Internal("Exchange {} is not awaited.", open.First());
  }

  Result<> CheckExchangesInside(const Step& step) {
    if (const auto* loop = std::get_if<WhileStep>(&step)) {
      KRAFLA_TRY(CheckExchanges(*loop->condition));
      KRAFLA_TRY(CheckExchanges(*loop->body));
    } else if (const auto* branch = std::get_if<ConditionalStep>(&step)) {
      for (const auto& b : branch->branches) KRAFLA_TRY(CheckExchanges(*b));
    }
    return {};
  }

  const ProgramPlan& plan_;
  std::set<int> started_;
};

}  // namespace

Result<> CheckPlan(const ProgramPlan& plan) { return PlanChecker(plan).Run(); }

}  // namespace krafla::plan
