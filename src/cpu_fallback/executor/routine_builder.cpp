// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/routine_builder.h"

#include <algorithm>

#include "cpu_fallback/executor/cpu_kernel.h"
#include "cpu_fallback/executor/tape.h"
#include "cpu_fallback/native/native_code.h"

namespace krafla::cpu {

using native::RoutineItem;

namespace {

// Nodes times turns from which on a compilation is worth it, where the loop runs some hundred times.
constexpr double kWorthwhileTurns = 1024;
constexpr double kTurnsIfUnknown = 100;
// What a loop that is called takes beside its operations, 100 ns, is as much as so many nodes.
constexpr double kNodesOfLoop = 20;
// Of a routine; code for more is not made in one piece.
constexpr std::size_t kMaxRoutineNodes = 6000;
// Of the turns of a counted loop that are one block, and of the nodes of that block.
constexpr int64_t kMaxTurnsInBlock = 8;
constexpr std::size_t kMaxNodesOfTurns = 192;

// How many turns of so many nodes each are one block: a divisor of all turns where there is one.
int64_t TurnsInBlock(int64_t turns, std::size_t nodes) {
  const auto most =
      std::min({static_cast<int64_t>(kMaxNodesOfTurns / std::max<std::size_t>(nodes, 1)), kMaxTurnsInBlock, turns});
  for (int64_t count = most; count > most / 2; --count)
    if (turns % count == 0) return count;
  return std::max<int64_t>(most, 1);
}

}  // namespace

Result<std::shared_ptr<const native::RoutineCode>> RoutineBuilder::Make(const plan::WhileStep& loop) {
  if (!native::HasNativeCode()) return nullptr;
  KRAFLA_TRY(AddLoop(loop, 1));
  if (node_count_ == 0 || node_count_ > kMaxRoutineNodes || !is_near_) return nullptr;
  if (native::UseOfNativeCode() != native::NativeUse::kAlways && work_ < kWorthwhileTurns) return nullptr;
  routine_.base_count = static_cast<int>(places_.bases().size());
  return native::Compile(routine_);
}

RoutineBlock& RoutineBuilder::Block() {
  if (block_ == nullptr) block_ = std::make_unique<RoutineBlock>(places_);
  return *block_;
}
void RoutineBuilder::EndBlock(double turns) {
  if (block_ == nullptr) return;
  if (!block_->is_empty()) {
    node_count_ += block_->node_count();
    work_ += turns * static_cast<double>(block_->node_count());
    AddItem(RoutineItem::Kind::kBlock, static_cast<int64_t>(routine_.blocks.size()));
    routine_.blocks.push_back(std::move(*block_).Take());
  }
  block_ = nullptr;
}

void RoutineBuilder::AddItem(RoutineItem::Kind kind, int64_t number, int64_t count, const plan::Slice& at) {
  const RoutinePlaces::Place place = places_.Of(at.allocation, at.offset);
  is_near_ &= place.offset <= INT32_MAX;
  routine_.items.push_back({kind, number, count, place.base, place.offset});
}

void RoutineBuilder::AddCall(const plan::Step& step, double turns) {
  EndBlock(turns);
  AddItem(RoutineItem::Kind::kCall, tape_.AddCall(step));
}

Result<bool> RoutineBuilder::AddCallAndLoop(const CpuKernel& kernel, const plan::LaunchStep& launch, double turns) {
  const CpuKernel::Values values = kernel.MadeFrom();
  if (values.kernel == nullptr) return false;
  // The call is in front of what the loop has to load: it begins a block.
  EndBlock(turns);
  std::vector<plan::Slice> bindings(launch.bindings.begin(), launch.bindings.end());
  bindings.push_back({TapePlace::kFrame, tape_.Reserve(values.bytes), values.bytes});
  KRAFLA_ASSIGN(const bool is_added, kernel.AppendLoopTo(Block(), bindings));
  if (!is_added) return false;
  AddItem(RoutineItem::Kind::kCall, tape_.AddCall(*values.kernel, bindings));
  work_ += turns * kNodesOfLoop;
  return true;
}

Result<> RoutineBuilder::AddSteps(const plan::StepList& list, double turns) {
  KRAFLA_TRY(AppendSteps(list, turns));
  EndBlock(turns);
  return {};
}
Result<> RoutineBuilder::AppendSteps(const plan::StepList& list, double turns) {
  for (const plan::Step& step : list.steps) {
    // What comes after that is not made.
    if (node_count_ > kMaxRoutineNodes) return {};
    if (const auto* launch = std::get_if<plan::LaunchStep>(&step)) {
      const CpuKernel& kernel = *kernels_[static_cast<std::size_t>(launch->kernel)];
      KRAFLA_ASSIGN(const bool is_added, kernel.AppendTo(Block(), launch->bindings));
      if (is_added) continue;
      KRAFLA_ASSIGN(const bool has_lanes, AddCallAndLoop(kernel, *launch, turns));
      if (!has_lanes) AddCall(step, turns);
    } else if (const auto* copy = std::get_if<plan::CopyStep>(&step)) {
      if (copy->to.size > 0 && !Block().Copy(copy->from, copy->to)) AddCall(step, turns);
    } else if (const auto* loop = std::get_if<plan::WhileStep>(&step)) {
      EndBlock(turns);
      KRAFLA_TRY(AddLoop(*loop, turns));
    } else if (const auto* choice = std::get_if<plan::ConditionalStep>(&step)) {
      EndBlock(turns);
      KRAFLA_TRY(AddChoice(*choice, turns));
    } else if (std::holds_alternative<plan::CallStep>(step) || std::holds_alternative<plan::RowGroupStep>(step) ||
               std::holds_alternative<plan::AwaitStep>(step)) {
      AddCall(step, turns);
    }
  }
  return {};
}

// Where a turn is a block, several of them are one: what a turn carries to the next one stays in registers, and is
// stored by the last.
Result<> RoutineBuilder::AddCountedLoop(int64_t number, int64_t count, const plan::StepList& body, double turns) {
  AddItem(RoutineItem::Kind::kCount, number, count);
  const std::size_t begin = routine_.items.size();
  const double all = turns * static_cast<double>(count);
  KRAFLA_TRY(AppendSteps(body, all));
  int64_t copies = 1;
  if (block_ != nullptr && routine_.items.size() == begin) {
    copies = TurnsInBlock(count, block_->node_count());
    for (int64_t i = 1; i < copies; ++i) KRAFLA_TRY(AppendSteps(body, all));
  }
  routine_.items[begin - 1].count = count / copies;
  EndBlock(turns * static_cast<double>(count / copies));
  AddItem(RoutineItem::Kind::kEndCount, number);
  for (int64_t i = 0; i < count % copies; ++i) KRAFLA_TRY(AppendSteps(body, turns));
  EndBlock(turns);
  return {};
}

Result<> RoutineBuilder::AddLoop(const plan::WhileStep& loop, double turns) {
  const int64_t number = part_count_++;
  if (loop.trip_count) {
    if (*loop.trip_count <= 0) return {};
    return AddCountedLoop(number, *loop.trip_count, *loop.body, turns);
  }
  AddItem(RoutineItem::Kind::kWhile, number);
  KRAFLA_TRY(AddSteps(*loop.condition, turns * kTurnsIfUnknown));
  AddItem(RoutineItem::Kind::kLeave, number, 0, loop.predicate);
  KRAFLA_TRY(AddSteps(*loop.body, turns * kTurnsIfUnknown));
  AddItem(RoutineItem::Kind::kEndWhile, number);
  return {};
}

Result<> RoutineBuilder::AddChoice(const plan::ConditionalStep& choice, double turns) {
  const int64_t number = part_count_++;
  AddItem(choice.index_is_pred ? RoutineItem::Kind::kChooseByPred : RoutineItem::Kind::kChoose, number,
          static_cast<int64_t>(choice.branches.size()), choice.index);
  for (std::size_t b = 0; b < choice.branches.size(); ++b) {
    AddItem(RoutineItem::Kind::kBranch, number, static_cast<int64_t>(b));
    KRAFLA_TRY(AddSteps(*choice.branches[b], turns));
  }
  AddItem(RoutineItem::Kind::kEndChoose, number);
  return {};
}

}  // namespace krafla::cpu
