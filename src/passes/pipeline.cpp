// SPDX-License-Identifier: Apache-2.0
#include "passes/pipeline.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "passes/passes.h"

namespace krafla {

namespace {

constexpr std::array kPasses = {
    PassInfo{"algebraic_simplifier", "applies identities of elementwise operations that keep every bit",
             AlgebraicSimplifier},
    PassInfo{"call_inliner", "puts called computations in the place of their calls", CallInliner},
    PassInfo{"constant_folding", "computes what depends on constants only", ConstantFolding},
    PassInfo{"cse", "merges computations and instructions that are the same", Cse},
    PassInfo{"dce", "removes instructions and computations that nothing needs", Dce},
    PassInfo{"movement_simplifier", "collapses reshapes, broadcasts, transposes, slices, pads and concatenations",
             MovementSimplifier},
    PassInfo{"structural_simplifier", "removes copies, annotations, and the split of collectives into start and done",
             StructuralSimplifier},
    PassInfo{"tuple_simplifier", "removes tuples that are taken apart again", TupleSimplifier},
};
static_assert(std::ranges::is_sorted(kPasses, {}, &PassInfo::name));

// Once, in this order.
constexpr std::array<std::string_view, 3> kFirst = {
    // Before anything that looks at one computation at a time.
    "call_inliner",
    // Copies and annotations hide what they copy from every pattern below.
    "structural_simplifier",
    "dce",
};
// Until nothing changes, but no more than kRounds times: each makes work for the others.
constexpr std::array<std::string_view, 6> kRepeated = {
    "tuple_simplifier",
    // First, so that the simplifiers see scalars behind broadcasts instead of arrays of equal elements.
    "constant_folding",
    "movement_simplifier",
    "algebraic_simplifier",
    "cse",
    "dce",
};
constexpr int kRounds = 4;

Result<bool> RunOne(const PassInfo& pass, Module& module, const PassOptions& options, const PassObserver& observer) {
  auto start = std::chrono::steady_clock::now();
  auto changed = pass.run(module, options);
  if (!changed) return Failure(std::move(changed).error().WithContext(std::format("in pass {}", pass.name)));
  if (observer) {
    std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    KRAFLA_TRY(observer(pass, module, *changed, took.count()));
  }
  return *changed;
}

Result<bool> RunList(std::span<const std::string_view> names, Module& module, const PassOptions& options,
                     const PassObserver& observer) {
  bool changed = false;
  for (std::string_view name : names) {
    if (options.disabled.contains(std::string(name))) continue;
    KRAFLA_ASSIGN(const PassInfo* pass, FindPass(name));
    KRAFLA_ASSIGN(bool c, RunOne(*pass, module, options, observer));
    changed |= c;
  }
  return changed;
}

Result<> Finish(Module& module) {
  for (const auto& c : module.computations()) KRAFLA_TRY(c->SortTopologically());
  return {};
}

}  // namespace

std::span<const PassInfo> AllPasses() { return kPasses; }

Result<const PassInfo*> FindPass(std::string_view name) {
  for (const PassInfo& pass : kPasses)
    if (pass.name == name) return &pass;
  std::string known;
  for (const PassInfo& pass : kPasses) known += std::format("{}{}", known.empty() ? "" : ", ", pass.name);
  return NotFound("there is no pass '{}'; the passes are {}", name, known);
}

Result<> RunPipeline(Module& module, const PassOptions& options, const PassObserver& observer) {
  KRAFLA_TRY(RunList(kFirst, module, options, observer));
  for (int round = 0; round < kRounds; ++round) {
    KRAFLA_ASSIGN(bool changed, RunList(kRepeated, module, options, observer));
    if (!changed) break;
  }
  return Finish(module);
}

Result<> RunPasses(Module& module, std::span<const std::string> names, const PassOptions& options,
                   const PassObserver& observer) {
  for (const std::string& name : names) {
    KRAFLA_ASSIGN(const PassInfo* pass, FindPass(name));
    KRAFLA_TRY(RunOne(*pass, module, options, observer));
  }
  return Finish(module);
}

}  // namespace krafla
