// SPDX-License-Identifier: Apache-2.0
#include "plan/horizontal.h"

#include <algorithm>
#include <iterator>

#include "base/checked_math.h"
#include "plan/rebind.h"
#include "plan/touched.h"

namespace krafla::plan {
namespace {

// A product of more operations takes so long that its launch is nothing beside it.
constexpr double kMostProductFlops = 256e6;

const KernelPlan& KernelOf(const ProgramPlan& plan, const LaunchStep& launch) {
  return plan.kernels[static_cast<std::size_t>(launch.kernel)];
}

// Of kernels of other families none.
std::vector<HorizontalKernel::Part> PartsOf(KernelBody body) {
  if (auto* loop = std::get_if<LoopKernel>(&body)) return {std::move(*loop)};
  if (auto* reduce = std::get_if<ReduceKernel>(&body)) return {std::move(*reduce)};
  if (auto* dot = std::get_if<DotKernel>(&body)) return {std::move(*dot)};
  if (auto* horizontal = std::get_if<HorizontalKernel>(&body)) return std::move(horizontal->parts);
  return {};
}

// Whether a dot reads the array of `slice` as an operand where it lies.
bool ReadsAsOperand(const LaunchStep& launch, const DotKernel& dot, const Slice& slice) {
  const auto is = [&](int binding) { return launch.bindings[static_cast<std::size_t>(binding)] == slice; };
  return (!dot.computes_lhs() && is(dot.lhs_binding)) || (!dot.computes_rhs() && is(dot.rhs_binding));
}

bool ShareOperand(const LaunchStep& a, const DotKernel& dot_a, const LaunchStep& b, const DotKernel& dot_b) {
  const auto shares = [&](bool computed, int binding) {
    return !computed && ReadsAsOperand(b, dot_b, a.bindings[static_cast<std::size_t>(binding)]);
  };
  return shares(dot_a.computes_lhs(), dot_a.lhs_binding) || shares(dot_a.computes_rhs(), dot_a.rhs_binding);
}

// Whether an index is that of the iteration's own element of a dense array.
bool IsOwnElement(const ElementProgram& p, IndexId index) {
  IndexSpace space = p.space;
  const Dims strides = RowMajorStrides(space.dims());
  IndexId rest = index;
  for (std::size_t d = 0; d < strides.size(); ++d)
    if (space.dims()[d] > 1) rest = space.Sub(rest, space.Mul(space.Iter(static_cast<int>(d)), strides[d]));
  return space.RangeOf(rest) == Interval{0, 0};
}

// Whether `second` can follow `first`, which stores one array, its own element of it everywhere.
bool AreAlike(const DotKernel& first, const DotKernel& second) {
  DotKernel a = first, b = second;
  for (DotKernel* dot : {&a, &b}) {
    dot->lhs_binding = dot->rhs_binding = 0;
    dot->lhs_program = dot->rhs_program = dot->epilogue = ElementProgram();
  }
  const std::vector<Store>& stores = first.epilogue.stores;
  return a == b && first.computes_lhs() == second.computes_lhs() && first.computes_rhs() == second.computes_rhs() &&
         first.epilogue.space.dims() == second.epilogue.space.dims() && stores.size() == 1 &&
         stores[0].mask == kNoNode && IsOwnElement(first.epilogue, stores[0].index);
}

// Whether all that a dot reads of a buffer is its own element, by its epilogue.
bool ReadsOwnElements(const DotKernel& dot, int buffer) {
  const auto reads = [&](const ElementProgram& p) {
    return std::ranges::any_of(p.nodes, [&](const Node& n) { return n.op == NodeOp::kLoad && n.buffer == buffer; });
  };
  if (!dot.computes_lhs() ? dot.lhs_binding == buffer : reads(dot.lhs_program)) return false;
  if (!dot.computes_rhs() ? dot.rhs_binding == buffer : reads(dot.rhs_program)) return false;
  return std::ranges::all_of(dot.epilogue.nodes, [&](const Node& n) {
    return n.op != NodeOp::kLoad || n.buffer != buffer || (n.mask == kNoNode && IsOwnElement(dot.epilogue, n.index));
  });
}

bool Writes(const DotKernel& dot, int buffer) {
  return std::ranges::any_of(dot.epilogue.stores, [&](const Store& s) { return s.buffer == buffer; });
}

// Points of a loop, or elements of a reduction's rows.
int64_t WorkOf(const KernelBody& body) {
  int64_t out = 1;
  const auto along = [&](const Dims& dims) {
    for (int64_t d : dims) out = SaturatedMultiply(out, d);
  };
  if (const auto* loop = std::get_if<LoopKernel>(&body)) along(loop->program.space.dims());
  if (const auto* reduce = std::get_if<ReduceKernel>(&body)) along(reduce->row_dims), along(reduce->element_dims);
  return out;
}

}  // namespace

std::size_t NodesOf(const ProgramPlan& plan, const LaunchStep& launch) {
  const KernelBody& body = KernelOf(plan, launch).body;
  if (const auto* loop = std::get_if<LoopKernel>(&body)) return loop->program.nodes.size();
  std::size_t out = 0;
  if (const auto* reduce = std::get_if<ReduceKernel>(&body))
    for (const ReduceStage& stage : reduce->stages) out += stage.program.nodes.size();
  return out;
}

bool AreWorthOne(const ProgramPlan& plan, const LaunchStep& a, const LaunchStep& b, int64_t most_elements) {
  const KernelPlan &of_a = KernelOf(plan, a), &of_b = KernelOf(plan, b);
  if (of_a.body.index() != of_b.body.index() || a.exchange >= 0 || b.exchange >= 0) return false;
  if (const auto* dot = std::get_if<DotKernel>(&of_a.body))
    return of_a.flops <= kMostProductFlops && of_b.flops <= kMostProductFlops &&
           ShareOperand(a, *dot, b, std::get<DotKernel>(of_b.body));
  if (!std::holds_alternative<LoopKernel>(of_a.body) && !std::holds_alternative<ReduceKernel>(of_a.body)) return false;
  return WorkOf(of_a.body) <= most_elements && WorkOf(of_b.body) <= most_elements;
}

bool Follows(const ProgramPlan& plan, const LaunchStep& b, const LaunchStep& a) {
  const auto* first = std::get_if<DotKernel>(&KernelOf(plan, a).body);
  const auto* second = std::get_if<DotKernel>(&KernelOf(plan, b).body);
  if (first == nullptr || second == nullptr || !AreAlike(*first, *second)) return false;
  const auto stored = static_cast<std::size_t>(first->epilogue.stores[0].buffer);
  const std::vector<Binding>& bindings = KernelOf(plan, b).bindings;
  for (std::size_t n = 0; n < bindings.size(); ++n) {
    // That memory may be an argument too, which the first one reads.
    const Allocation& to = plan.allocations[static_cast<std::size_t>(b.bindings[n].allocation)];
    if (bindings[n].written && to.kind == Allocation::Kind::kResult &&
        plan.result_aliases[static_cast<std::size_t>(to.number)] >= 0)
      return false;
    // Nothing of what the first one touches is written, and what it writes is read as it was written.
    const Slice& slice = b.bindings[n];
    for (std::size_t other = 0; other < a.bindings.size(); ++other) {
      if (a.bindings[other].allocation != slice.allocation) continue;
      if (bindings[n].written) return false;
      if (other != stored) continue;
      const Binding& made = KernelOf(plan, a).bindings[stored];
      if (a.bindings[other] != slice || made.storage != bindings[n].storage ||
          made.element_count != bindings[n].element_count || !ReadsOwnElements(*second, static_cast<int>(n)))
        return false;
    }
  }
  return true;
}

std::vector<int> FollowedParts(const HorizontalKernel& horizontal) {
  std::vector<int> out;
  for (std::size_t p = 0; p < horizontal.parts.size(); ++p) {
    out.push_back(-1);
    const auto* second = std::get_if<DotKernel>(&horizontal.parts[p]);
    for (std::size_t q = 0; q < p && second != nullptr; ++q)
      if (const auto* first = std::get_if<DotKernel>(&horizontal.parts[q]))
        for (const Node& n : second->epilogue.nodes)
          if (n.op == NodeOp::kLoad && Writes(*first, n.buffer)) out.back() = static_cast<int>(q);
  }
  return out;
}

std::optional<FusedLaunches> FuseLaunches(const ProgramPlan& plan, std::span<const LaunchStep* const> launches,
                                          int most_bindings) {
  FusedLaunches out;
  std::vector<std::vector<int>> places;
  for (const LaunchStep* launch : launches) {
    const KernelPlan& kernel = KernelOf(plan, *launch);
    std::vector<int>& place = places.emplace_back();
    for (std::size_t b = 0; b < launch->bindings.size(); ++b) {
      const Binding& binding = kernel.bindings[b];
      std::size_t n = 0;
      while (n < out.bindings.size() &&
             !(out.bindings[n] == launch->bindings[b] && out.kernel.bindings[n].storage == binding.storage &&
               out.kernel.bindings[n].element_count == binding.element_count))
        ++n;
      if (n == out.bindings.size()) {
        out.bindings.push_back(launch->bindings[b]);
        out.kernel.bindings.push_back(binding);
      }
      Binding& known = out.kernel.bindings[n];
      known.read = known.read || binding.read;
      known.written = known.written || binding.written;
      place.push_back(static_cast<int>(n));
    }
  }
  if (std::ssize(out.bindings) > most_bindings) return std::nullopt;
  std::vector<ProgramBuffer> buffers;
  for (const Binding& b : out.kernel.bindings) buffers.push_back({b.storage, b.element_count, b.written});
  HorizontalKernel body;
  for (std::size_t l = 0; l < launches.size(); ++l) {
    const KernelPlan& kernel = KernelOf(plan, *launches[l]);
    KernelBody moved = kernel.body;
    Rebind(moved, places[l], buffers);
    std::vector<HorizontalKernel::Part> parts = PartsOf(std::move(moved));
    if (parts.empty()) return std::nullopt;
    std::ranges::move(parts, std::back_inserter(body.parts));
    out.kernel.name += Format("{}{}", l == 0 ? "" : "+", kernel.name);
    out.kernel.flops += kernel.flops;
    out.kernel.bytes += kernel.bytes;
  }
  out.kernel.body = std::move(body);
  return out;
}

std::vector<KernelPlan> PartsOfHorizontal(const KernelPlan& plan, const HorizontalKernel& horizontal) {
  std::vector<KernelPlan> out;
  for (const HorizontalKernel::Part& part : horizontal.parts) {
    KernelPlan& kernel = out.emplace_back();
    kernel.name = plan.name;
    kernel.bindings = plan.bindings;
    std::visit([&](const auto& body) { kernel.body = body; }, part);
    if (const auto* dot = std::get_if<DotKernel>(&part)) kernel.flops = FlopsOf(*dot);
    kernel.bytes = BytesMoved(kernel);
  }
  return out;
}

}  // namespace krafla::plan
