// SPDX-License-Identifier: Apache-2.0
// Makes a loop of the plan, with everything inside it, a routine (native/routine.h). Kernels that have lanes of a few
// elements are blocks of it; what else there is the routine calls, as instructions of the tape that it belongs to.
#pragma once

#include <memory>
#include <span>

#include "cpu_fallback/executor/routine_block.h"
#include "cpu_fallback/native/routine.h"
#include "krafla/status.h"
#include "plan/program_plan.h"

namespace krafla {
class CpuKernel;
}

namespace krafla::cpu {

class TapeBuilder;

class RoutineBuilder {
 public:
  RoutineBuilder(const plan::ProgramPlan& plan, std::span<const std::shared_ptr<const CpuKernel>> kernels,
                 TapeBuilder& tape)
      : kernels_(kernels), tape_(tape), places_(plan) {}

  // Null: there is no such code, or it is not worth its compilation.
  Result<std::shared_ptr<const native::RoutineCode>> Make(const plan::WhileStep& loop);
  // What the routine's table of addresses has.
  std::span<const plan::Slice> bases() const { return places_.bases(); }

 private:
  Result<> AddSteps(const plan::StepList& list, double turns);
  // The same, and the block may go on.
  Result<> AppendSteps(const plan::StepList& list, double turns);
  Result<> AddCountedLoop(int64_t number, int64_t count, const plan::StepList& body, double turns);
  Result<> AddLoop(const plan::WhileStep& loop, double turns);
  Result<> AddChoice(const plan::ConditionalStep& choice, double turns);
  RoutineBlock& Block();
  void EndBlock(double turns);
  void AddCall(const plan::Step& step, double turns);
  // A call of what makes a kernel's values, and the loop over them in lanes; false: it is not such a kernel.
  Result<bool> AddCallAndLoop(const CpuKernel& kernel, const plan::LaunchStep& launch, double turns);
  void AddItem(native::RoutineItem::Kind kind, int64_t number, int64_t count = 0) {
    routine_.items.push_back({kind, number, count});
  }
  void AddItem(native::RoutineItem::Kind kind, int64_t number, int64_t count, const plan::Slice& at);

  std::span<const std::shared_ptr<const CpuKernel>> kernels_;
  TapeBuilder& tape_;
  RoutinePlaces places_;
  native::Routine routine_;
  std::unique_ptr<RoutineBlock> block_;
  int64_t part_count_ = 0;
  std::size_t node_count_ = 0;
  double work_ = 0;  // nodes times turns
  bool is_near_ = true;
};

}  // namespace krafla::cpu
