// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "base/checked_math.h"
#include "plan/point_loop.h"
#include "spirv_codegen/kernels/context.h"
#include "spirv_codegen/kernels/while.h"

namespace krafla::spirv {
namespace {

using plan::PointLoop;
using plan::PointSteps;

// What invocations do for what all points compute alike. Of several workgroups some may end before others begin: none
// of them may write then what another one has yet to read, and a second kernel of one invocation does so.
enum class Scalars : uint8_t {
  kWritten,   // the first point's invocation writes them
  kComputed,  // they are computed, and forgotten
  kAlone      // nothing else is computed
};

class PointLoopWriter {
 public:
  PointLoopWriter(const plan::PointProgram& program, const plan::WhileStep& step, const DeviceProfile& profile,
                  const Tuning& tuning)
      : loop_(program.loop), program_(program), step_(step), profile_(profile), tuning_(tuning) {
    for (const PointLoop::Memory& m : loop_.memory)
      merged_.bindings.push_back({m.storage, m.element_count, true, m.written_in_place || IsWritten(m)});
    for (const PointLoop::Cell& c : loop_.cells) writes_scalars_ = writes_scalars_ || (c.written && c.stride == 0);
  }

  Result<EmittedLoop> Emit() {
    KRAFLA_TRY(CheckSizes(merged_, profile_));
    KRAFLA_TRY(Look(program_.condition.get(), 1));
    KRAFLA_TRY(Look(program_.body.get(), 1));
    const uint32_t wanted = std::max(tuning_.loop.local, profile_.limits.subgroup_size);
    const auto local = static_cast<uint32_t>(std::min<int64_t>(WorkgroupSize(profile_, wanted), loop_.points));
    together_ = std::min(MostTogether(), CeilDiv(loop_.points, int64_t{local}));
    const int64_t per_group = local * together_;
    KRAFLA_ASSIGN(const Grid grid, FoldGrid(CeilDiv(loop_.points, per_group), profile_));
    const bool is_one_group = loop_.points <= per_group;
    for (int64_t p = 0; p < together_; ++p)
      for (const PointLoop::Cell& c : loop_.cells)
        merged_.bindings.push_back({MemoryOf(c).storage, 1, true, c.written});
    // A processor's subgroup takes its points at once.
    const int64_t at_once = std::max<int64_t>(tuning_.loop_nest.points_at_once, profile_.limits.subgroup_size);
    const auto turn_ns = [&](int64_t points) {
      const auto rounds = static_cast<double>(CeilDiv(points, at_once));
      return 20 + tuning_.loop_nest.point_ns + rounds * tuning_.loop_nest.operation_ns * operations_;
    };
    if (turn_ns(loop_.points) > kLoopLaunchNs) return Unimplemented("A turn of the loop takes too long.");
    EmittedLoop out;
    for (const PointLoop::Memory& m : loop_.memory) out.slices.push_back(m.slice);
    const auto add = [&](Scalars scalars, uint32_t size, const Grid& groups, int64_t points) -> Result<> {
      EmittedKernel kernel = Kernel(scalars, size, groups);
      KRAFLA_TRY(CheckBufferCount(kernel, profile_));
      out.launches.push_back({std::move(kernel), groups.size, turn_ns(points) * 1e-6});
      return {};
    };
    KRAFLA_TRY(add(is_one_group ? Scalars::kWritten : Scalars::kComputed, local, grid, loop_.points));
    if (!is_one_group && writes_scalars_) KRAFLA_TRY(add(Scalars::kAlone, 1, Grid{}, 1));
    out.most_turns =
        std::clamp<int64_t>(static_cast<int64_t>(kLoopLaunchNs / turn_ns(loop_.points)), 1, int64_t{1} << 30);
    return out;
  }

 private:
  const PointLoop::Memory& MemoryOf(const PointLoop::Cell& c) const {
    return loop_.memory[static_cast<std::size_t>(c.memory)];
  }
  bool IsWritten(const PointLoop::Memory& m) const {
    return std::ranges::any_of(loop_.cells, [&](const PointLoop::Cell& c) { return c.written && &MemoryOf(c) == &m; });
  }
  bool IsInPlace(int buffer) const { return buffer < std::ssize(loop_.memory); }

  // ---- Looking

  // Looks at the steps of a list that is run `turns` times in a turn.
  Result<> Look(const PointSteps* list, double turns) {
    if (list == nullptr) return {};
    for (const auto& step : list->steps) {
      if (const auto* compute = std::get_if<PointLoop::Compute>(&step)) {
        KRAFLA_TRY(CheckProgram(compute->program, profile_));
        nodes_ += std::ssize(compute->program.nodes);
        operations_ += turns * OperationsOf(compute->program);
        for (const plan::Store& s : compute->program.stores)
          writes_scalars_ = writes_scalars_ || (compute->is_scalar && IsInPlace(s.buffer));
      } else if (const auto* inner = std::get_if<plan::PointWhile>(&step)) {
        KRAFLA_TRY(Look(inner->body.get(), turns * static_cast<double>(*inner->trip_count)));
      } else {
        for (const auto& b : std::get<plan::PointConditional>(step).branches) KRAFLA_TRY(Look(b.get(), turns));
      }
    }
    return {};
  }
  // As many points as the registers have room for.
  int64_t MostTogether() const {
    constexpr int64_t kMostCells = 32, kMostNodes = 1000;
    const int64_t cells = std::max<int64_t>(std::ssize(loop_.cells), 1), nodes = std::max<int64_t>(nodes_, 1);
    return std::clamp<int64_t>(std::min(kMostCells / cells, kMostNodes / nodes), 1, tuning_.loop_nest.points_together);
  }

  // ---- Code

  // A point of the invocation. Those past the end are the last point once more, whose results are not stored.
  struct Point {
    Value number;
    Value is_there;  // empty: it always is
    int first_cell = 0;
  };

  EmittedKernel Kernel(Scalars scalars, uint32_t local, const Grid& grid) {
    scalars_ = scalars;
    KernelWriter w(merged_, profile_, tuning_, {}, 1);
    w_ = &w;
    Builder& b = w.b;
    points_.clear();
    const int64_t count = scalars == Scalars::kAlone ? 1 : together_, per_group = count * int64_t{local};
    const bool is_exact = scalars == Scalars::kAlone || (grid.exact && loop_.points % per_group == 0);
    const Value first =
        scalars == Scalars::kAlone ? b.U32(0) : b.Add(b.Mul(GroupNumber(b, grid), U(per_group)), b.LocalIndex());
    for (int64_t p = 0; p < count; ++p) {
      Point& point = points_.emplace_back();
      point.number = b.Add(first, U(p * local));
      point.first_cell = static_cast<int>(std::ssize(loop_.memory) + p * std::ssize(loop_.cells));
      if (is_exact) continue;
      point.is_there = b.Compare(Cmp::kULt, point.number, U(loop_.points));
      point.number = b.Min(point.number, U(loop_.points - 1));
    }
    const Value most = w.buffers.PushWord(0);
    for (const Point& point : points_)
      for (int c = 0; c < std::ssize(loop_.cells); ++c)
        if (IsKept(CellAt(c), point)) w.buffers.KeepValue(point.first_cell + c, Load(CellAt(c), point));
    if (scalars == Scalars::kWritten && local > 1 && writes_scalars_) b.WorkgroupBarrier();
    EmitTurns(most);
    for (const Point& point : points_) StoreCells(point);
    return w.Finish({local, 1, 1}, scalars == Scalars::kAlone ? "while.scalars" : "while.points");
  }
  Value U(int64_t v) { return w_->b.U32(static_cast<uint32_t>(v)); }
  const PointLoop::Cell& CellAt(int c) const { return loop_.cells[static_cast<std::size_t>(c)]; }
  // Of scalars the first point's cells serve for all.
  bool IsKept(const PointLoop::Cell& c, const Point& point) const {
    return c.stride == 0 ? &point == points_.data() : scalars_ != Scalars::kAlone;
  }
  int BytesOf(const PointLoop::Cell& c) const { return StorageBytes(MemoryOf(c).storage); }
  Value PlaceOf(const PointLoop::Cell& c, const Point& point) {
    return w_->b.Add(w_->b.Mul(point.number, U(c.stride)), U(c.offset));
  }
  Value Load(const PointLoop::Cell& c, const Point& point) {
    return w_->buffers.Load(c.memory, BytesOf(c), PlaceOf(c, point), 1);
  }

  void EmitTurns(Value most) {
    Builder& b = w_->b;
    if (step_.trip_count) {
      b.For(b.U32(0), most, b.U32(1), [&](Value) { EmitSteps(*program_.body); });
      return;
    }
    b.While(
        {b.U32(0), b.U32(1)},
        [&](const Values& s) { return b.LAnd(b.Compare(Cmp::kULt, s[0], most), b.Compare(Cmp::kNe, s[1], b.U32(0))); },
        [&](const Values& s) {
          EmitSteps(*program_.condition);
          const Value go = w_->buffers.Load(loop_.CellOf(step_.predicate), 1, b.U32(0), 1);
          b.If(b.Compare(Cmp::kNe, go, b.U32(0)), [&] { EmitSteps(*program_.body); });
          return Values{b.Add(s[0], b.U32(1)), go};
        });
  }
  void EmitSteps(const PointSteps& list) {
    Builder& b = w_->b;
    for (const auto& step : list.steps) {
      if (const auto* compute = std::get_if<PointLoop::Compute>(&step)) {
        EmitCompute(*compute);
      } else if (const auto* inner = std::get_if<plan::PointWhile>(&step)) {
        b.For(b.U32(0), b.U32(static_cast<uint32_t>(*inner->trip_count)), b.U32(1),
              [&](Value) { EmitSteps(*inner->body); });
      } else {
        const auto& branch = std::get<plan::PointConditional>(step);
        const Value index = w_->buffers.Load(loop_.CellOf(branch.index), branch.index_is_pred ? 1 : 4, b.U32(0), 1);
        EmitBranches(b, index, branch.index_is_pred, branch.branches.size(),
                     [&](std::size_t n) { EmitSteps(*branch.branches[n]); });
      }
    }
  }
  void EmitCompute(const PointLoop::Compute& compute) {
    if (!compute.is_scalar) {
      if (scalars_ == Scalars::kAlone) return;
      for (const Point& point : points_) EmitCompute(compute.program, point);
      return;
    }
    plan::ElementProgram program = compute.program;
    if (scalars_ == Scalars::kComputed)
      std::erase_if(program.stores, [&](const plan::Store& s) { return IsInPlace(s.buffer); });
    ProgramLowering lowering(w_->b, w_->buffers, program);
    StoreWhere(scalars_ == Scalars::kWritten ? IsFirst() : Value{}, [&] { lowering.EmitStores(); });
  }
  void EmitCompute(plan::ElementProgram program, const Point& point) {
    plan::RenumberBuffers(program, [&](int buffer) {
      const auto cell = buffer - static_cast<int>(std::ssize(loop_.memory));
      return cell >= 0 && CellAt(cell).stride != 0 ? point.first_cell + cell : buffer;
    });
    ProgramLowering lowering(w_->b, w_->buffers, program);
    lowering.SetLinear(point.number, 0, static_cast<int>(program.space.dims().size()));
    StoreWhere(point.is_there, [&] { lowering.EmitStores(); });
  }
  // What lies in memory is stored to where the condition holds, if there is one.
  void StoreWhere(Value condition, const std::function<void()>& body) {
    if (condition) w_->buffers.StoreWhere(condition, body);
    else body();
  }
  void StoreCells(const Point& point) {
    Builder& b = w_->b;
    for (int c = 0; c < std::ssize(loop_.cells); ++c) {
      const PointLoop::Cell& cell = CellAt(c);
      if (!cell.written || !IsKept(cell, point) || (cell.stride == 0 && scalars_ == Scalars::kComputed)) continue;
      const Value bits = w_->buffers.Load(point.first_cell + c, BytesOf(cell), b.U32(0), 1);
      StoreWhere(cell.stride != 0                ? point.is_there
                 : scalars_ == Scalars::kWritten ? IsFirst()
                                                 : Value{},
                 [&] { w_->buffers.Store(cell.memory, BytesOf(cell), PlaceOf(cell, point), bits); });
    }
  }
  // Whether this is the first point's invocation; no value where there is no other.
  Value IsFirst() {
    if (loop_.points == 1) return {};
    return w_->b.Compare(Cmp::kEq, points_.front().number, U(0));
  }

  const PointLoop& loop_;
  const plan::PointProgram& program_;
  const plan::WhileStep& step_;
  const DeviceProfile& profile_;
  const Tuning& tuning_;
  plan::KernelPlan merged_;  // its bindings are the memory and the cells
  KernelWriter* w_ = nullptr;
  int64_t nodes_ = 0;  // of the steps of a turn
  double operations_ = 0;
  bool writes_scalars_ = false;
  int64_t together_ = 1;  // points of an invocation
  Scalars scalars_ = Scalars::kWritten;
  std::vector<Point> points_;
};

}  // namespace

Result<EmittedLoop> EmitPointLoop(const plan::ProgramPlan& plan, const plan::WhileStep& loop,
                                  const DeviceProfile& profile, const Tuning& tuning) {
  KRAFLA_ASSIGN(const plan::PointProgram found, plan::FindPointLoop(plan, loop, tuning.loop_nest.most_nodes));
  return PointLoopWriter(found, loop, profile, tuning).Emit();
}

}  // namespace krafla::spirv
