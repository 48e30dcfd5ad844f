// SPDX-License-Identifier: Apache-2.0
#include "plan/share_kernels.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>

#include "plan/collapse.h"
#include "plan/step_runner.h"
#include "plan/touched.h"

namespace krafla::plan {
namespace {

constexpr int64_t kSliceStep = 256;  // bytes

// A part of each binding, of which a kernel touches nothing else.
struct Parts {
  std::vector<int64_t> first, count;  // elements, by binding
  bool begins_later = false;          // some part does not begin with its binding
};

std::optional<Parts> PartsOf(const KernelPlan& kernel) {
  const std::optional<std::vector<TouchedElements>> touched = TouchedBy(kernel);
  if (!touched) return std::nullopt;
  Parts out;
  for (std::size_t b = 0; b < kernel.bindings.size(); ++b) {
    const Binding& binding = kernel.bindings[b];
    const Interval& elements = (*touched)[b].range;
    int64_t first = 0, end = binding.element_count;
    // What a mask keeps from being touched may lie outside.
    if (elements.lo >= 0 && elements.lo <= elements.hi) {
      const int64_t step = kSliceStep / StorageBytes(binding.storage);
      first = std::min(elements.lo, end) / step * step;
      if (elements.hi < end) end = std::min(end, (elements.hi / step + 1) * step);
    }
    out.first.push_back(first);
    out.count.push_back(end - first);
    out.begins_later = out.begins_later || first > 0;
  }
  return out;
}

// The same kernel over those parts.
KernelPlan Over(const Parts& parts, KernelPlan kernel) {
  for (std::size_t b = 0; b < kernel.bindings.size(); ++b) kernel.bindings[b].element_count = parts.count[b];
  const auto first = [&](int binding) { return parts.first[static_cast<std::size_t>(binding)]; };
  ForEachProgram(kernel.body, [&](ElementProgram& p) {
    for (std::size_t b = 0; b < p.buffers.size(); ++b) p.buffers[b].element_count = parts.count[b];
    for (Node& n : p.nodes)
      if (n.op == NodeOp::kLoad) n.index = p.space.AddConstant(n.index, -first(n.buffer));
    for (Store& s : p.stores) s.index = p.space.AddConstant(s.index, -first(s.buffer));
    // Made anew, without the expressions that nothing uses any more: those of equal kernels are then equal.
    std::vector<int> same(p.space.dims().size());
    std::iota(same.begin(), same.end(), 0);
    p = JoinDims(p, same);
  });
  const auto move_operands = [&](DotKernel* dot) {
    if (dot == nullptr) return;
    if (!dot->computes_lhs()) dot->lhs_offset -= first(dot->lhs_binding);
    if (!dot->computes_rhs()) dot->rhs_offset -= first(dot->rhs_binding);
  };
  move_operands(std::get_if<DotKernel>(&kernel.body));
  if (auto* horizontal = std::get_if<HorizontalKernel>(&kernel.body))
    for (HorizontalKernel::Part& part : horizontal->parts) move_operands(std::get_if<DotKernel>(&part));
  return kernel;
}

// Equal for kernels that may be equal over parts of their bindings; far cheaper than to make those.
std::vector<int64_t> StructureOf(const KernelPlan& kernel) {
  std::vector<int64_t> out = {static_cast<int64_t>(kernel.body.index())};
  for (const Binding& b : kernel.bindings) out.insert(out.end(), {static_cast<int64_t>(b.storage), b.written});
  ForEachProgram(kernel.body, [&](const ElementProgram& p) {
    out.insert(out.end(), p.space.dims().begin(), p.space.dims().end());
    out.push_back(std::ssize(p.nodes));
  });
  return out;
}

// Kernels of little work that loops launch. Such a loop may become one kernel of the device (spirv_codegen/kernels/
// loop_nest.h), where each slice of an array is an address to hold, and nothing is compiled for its launches.
std::vector<bool> SmallKernelsOfLoops(const ProgramPlan& plan) {
  std::vector<bool> out(plan.kernels.size());
  const auto mark = [&](const Step& step) {
    ForEachLaunchOf(step, [&](const LaunchStep& launch) {
      const auto k = static_cast<std::size_t>(launch.kernel);
      out[k] = plan.kernels[k].bytes < kSmallKernelBytes;
    });
  };
  ForEachStep(plan, [&](const Step& step) {
    const auto* loop = std::get_if<WhileStep>(&step);
    if (loop == nullptr) return true;
    ForEachStep(*loop->condition, mark);
    ForEachStep(*loop->body, mark);
    return false;
  });
  // What is called may be called by loops.
  for (const StepList& callee : plan.callees) ForEachStep(callee, mark);
  return out;
}

}  // namespace

void ShareKernels(ProgramPlan& plan) {
  const std::vector<bool> stays = SmallKernelsOfLoops(plan);
  std::map<std::vector<int64_t>, std::vector<int>> of_structure;
  for (std::size_t k = 0; k < plan.kernels.size(); ++k)
    if (!stays[k]) of_structure[StructureOf(plan.kernels[k])].push_back(static_cast<int>(k));
  std::vector<std::optional<Parts>> parts(plan.kernels.size());
  std::map<std::vector<int64_t>, std::vector<int>> alike;  // by structure and the elements of their parts; rising
  for (const auto& [structure, group] : of_structure) {
    if (group.size() < 2) continue;
    for (int k : group) {
      std::optional<Parts>& own = parts[static_cast<std::size_t>(k)] =
          PartsOf(plan.kernels[static_cast<std::size_t>(k)]);
      if (!own) continue;
      std::vector<int64_t> key = structure;
      key.insert(key.end(), own->count.begin(), own->count.end());
      alike[std::move(key)].push_back(k);
    }
  }
  bool is_any_shared = false;
  std::vector<int> becomes(plan.kernels.size());
  std::iota(becomes.begin(), becomes.end(), 0);
  std::vector<bool> is_moved(plan.kernels.size());
  for (const auto& [key, group] : alike) {
    const auto of = [&](int k) -> const Parts& { return *parts[static_cast<std::size_t>(k)]; };
    if (group.size() < 2 || std::ranges::none_of(group, [&](int k) { return of(k).begins_later; })) continue;
    std::unordered_multimap<uint64_t, std::pair<int, KernelPlan>> made;
    for (int k : group) {
      KernelPlan moved = Over(of(k), plan.kernels[static_cast<std::size_t>(k)]);
      const uint64_t hash = HashProblem(moved);
      auto [at, end] = made.equal_range(hash);
      while (at != end && !KernelPlan::SameProblem(at->second.second, moved)) ++at;
      if (at == end) {
        made.emplace(hash, std::pair(k, std::move(moved)));
        continue;
      }
      const auto first = static_cast<std::size_t>(at->second.first);
      becomes[static_cast<std::size_t>(k)] = at->second.first;
      if (!is_moved[first]) plan.kernels[first] = at->second.second;
      is_moved[first] = is_moved[static_cast<std::size_t>(k)] = is_any_shared = true;
    }
  }
  if (!is_any_shared) return;

  std::vector<int> number(plan.kernels.size(), -1);
  std::vector<KernelPlan> kept;
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    if (becomes[k] != static_cast<int>(k)) continue;
    number[k] = static_cast<int>(kept.size());
    kept.push_back(std::move(plan.kernels[k]));
  }
  plan.kernels = std::move(kept);
  ForEachLaunch(plan, [&](LaunchStep& launch) {
    const auto before = static_cast<std::size_t>(launch.kernel);
    launch.kernel = number[static_cast<std::size_t>(becomes[before])];
    if (!is_moved[before]) return;
    const std::vector<Binding>& bindings = plan.kernels[static_cast<std::size_t>(launch.kernel)].bindings;
    for (std::size_t b = 0; b < bindings.size(); ++b) {
      launch.bindings[b].offset += parts[before]->first[b] * StorageBytes(bindings[b].storage);
      launch.bindings[b].size = bindings[b].byte_size();
    }
  });
}

}  // namespace krafla::plan
