// SPDX-License-Identifier: Apache-2.0
// LoopKernel: the table kLoopVariants. Where reads and stores lie alike, each invocation takes one point, or four
// neighbours along the innermost dimension, and a workgroup takes a contiguous run of points. On devices where a
// workgroup costs far more than a turn of a loop (LoopTuning::workgroup_points) it takes several such runs.
#include <algorithm>
#include <optional>

#include "base/checked_math.h"
#include "plan/reindex.h"
#include "spirv_codegen/kernels/loop_tile.h"

namespace krafla::spirv {

LoopProblem::LoopProblem(const plan::KernelPlan& of, const plan::LoopKernel& loop, const Target& device)
    : plan(of), program(loop.program), target(device) {
  const Dims& dims = program.space.dims();
  for (int64_t d : dims) points *= d;
  inner = static_cast<int>(dims.size()) - 1;
  while (inner > 0 && dims[static_cast<std::size_t>(inner)] == 1) --inner;
  move = FindMoveBlock(*this);
  if (!move) tile = FindLoopTile(*this);
  if (!move && tile.staged.empty()) move = FindComputedBlock(*this);
}

namespace {

// Where no whole number of fours lies along the innermost dimension (the three channels of a pixel), neighbours may be
// those of all dimensions as one: the program over that one, where it pays.
std::optional<plan::ElementProgram> FlatProgram(const LoopProblem& p, const LoopTuning& tuning) {
  if (p.inner <= 0 || p.points % 4 != 0 || PointsAtOnce(p.program, p.inner, tuning) > 1) return std::nullopt;
  plan::ElementProgram flat = plan::Flattened(p.program);
  if (PointsAtOnce(flat, 0, tuning) == 1) return std::nullopt;
  return flat;
}

Result<EmittedProgram> EmitRuns(const LoopProblem& p) {
  const DeviceProfile& profile = p.target.profile;
  const LoopTuning& tuning = p.target.tuning.loop;
  const std::optional<plan::ElementProgram> flat = FlatProgram(p, tuning);
  const plan::ElementProgram& program = flat ? *flat : p.program;
  const int inner = flat ? 0 : p.inner;
  const int rank = static_cast<int>(program.space.dims().size());
  const int width = PointsAtOnce(program, inner, tuning);

  const uint32_t local = WorkgroupSize(profile, std::max(tuning.local, profile.limits.subgroup_size));
  const int64_t items = p.points / width;  // width divides the innermost extent
  int64_t turns = 1;
  if (tuning.workgroup_points > 0) {
    const int64_t most = std::max<int64_t>(tuning.workgroup_points / width, 1);
    const int64_t per_group = std::clamp<int64_t>(CeilDiv(items, tuning.least_workgroups), 1, most);
    turns = std::max<int64_t>(1, per_group / local);
  }
  const uint32_t together = TurnsTogether(program, tuning);
  if (turns > together) turns = turns / together * together;
  const int64_t chunk = turns * local;
  KRAFLA_ASSIGN(Grid grid, FoldGrid(CeilDiv(items, chunk), profile));

  KernelWriter w(p.plan, p.target);
  Builder& b = w.b;
  const bool exact = items % chunk == 0 && grid.exact;
  const Value first = b.Add(b.Mul(GroupNumber(b, grid), b.U32(static_cast<uint32_t>(chunk))), b.LocalIndex());
  auto item = [&](Value number) {
    ProgramLowering lowering(b, w.buffers, program, inner, width);
    for (int d = inner + 1; d < rank; ++d) lowering.SetIter(d, b.U32(0));
    lowering.SetLinear(b.Mul(number, b.U32(static_cast<uint32_t>(width))), 0, inner + 1);
    lowering.EmitStores();
  };
  auto guarded = [&](Value number) { ForItem(b, exact, number, items, [&] { item(number); }); };
  if (turns < together || turns == 1) {
    for (int64_t i = 0; i < turns; ++i) guarded(b.Add(first, b.U32(static_cast<uint32_t>(i * local))));
  } else {
    b.For(b.U32(0), b.U32(static_cast<uint32_t>(chunk)), b.U32(local * together), [&](Value offset) {
      for (uint32_t i = 0; i < together; ++i) guarded(b.Add(first, b.Add(offset, b.U32(i * local))));
    });
  }
  EmittedProgram out;
  out.kernels.push_back(w.Finish({local, 1, 1}, width == 4 ? "loop.vec4" : "loop.scalar"));
  out.dispatches.push_back({0, grid.size, {}});
  return out;
}

// In order of preference.
constexpr Variant<LoopProblem, Result<EmittedProgram>> kLoopVariants[] = {
    {"move", RefusesLoopMove, [](const LoopProblem& p, std::string) { return EmitLoopMove(p); }},
    {"tile", RefusesLoopTile, [](const LoopProblem& p, std::string) { return EmitLoopTile(p); }},
    {"runs", nullptr, [](const LoopProblem& p, std::string refused) { return WithReason(EmitRuns(p), refused); }},
};
static_assert(TakesEverything(kLoopVariants));

}  // namespace

Result<EmittedProgram> EmitLoop(const plan::KernelPlan& plan, const plan::LoopKernel& loop, const Target& target) {
  KRAFLA_TRY(CheckProgram(loop.program, target.profile));
  const LoopProblem problem(plan, loop, target);
  if (problem.points == 0) return EmittedProgram{};
  if (problem.points > (int64_t{1} << 32) - (1 << 20)) {
    return Unimplemented("The kernel has {} points, more than 32-bit arithmetic numbers.", problem.points);
  }
  return MakeFirst(kLoopVariants, problem);
}

}  // namespace krafla::spirv
