// SPDX-License-Identifier: Apache-2.0
// What the steps of a loop touch and cost that is to be one kernel of one workgroup (loop_nest.cpp), or why they are
// not fit for that.
#pragma once

#include <functional>
#include <vector>

#include "plan/loop_blocks.h"
#include "spirv_codegen/kernels/context.h"

namespace krafla::spirv {

// Estimated nanoseconds: in one workgroup, and of the launches that would be made instead, without what they do.
struct NestCost {
  double ns = 0, launched_ns = 0;
  NestCost& operator+=(const NestCost& c) {
    ns += c.ns, launched_ns += c.launched_ns;
    return *this;
  }
};

class NestSurvey {
 public:
  NestSurvey(const plan::ProgramPlan& plan, const DeviceProfile& profile, const Tuning& tuning)
      : plan_(plan), profile_(profile), device_tuning_(tuning), tuning_(tuning.loop_nest), uncounted_(plan) {}

  // Looks at the steps of one turn, in which loops of unknown counts turn once. UNIMPLEMENTED with the reason where one
  // of them is not fit.
  Result<NestCost> LookAtTurn(const plan::WhileStep& loop);
  // Whether loops of unknown counts lie inside.
  bool HasUncounted(const plan::WhileStep& loop);
  plan::UncountedLoops& uncounted() { return uncounted_; }
  // Which slices lie in variables of each invocation, after all that is looked at. `resumes`: a launch may end within a
  // turn, and what has ended its life must not be put back over what lives.
  void ChooseCopies(bool resumes);

  // What the steps touch; a slice's number is that of the kernel's buffer.
  const std::vector<plan::Slice>& slices() const { return slices_; }
  int BufferOf(const plan::Slice& slice) const;
  bool HasCopies(int buffer) const { return has_copies_[static_cast<std::size_t>(buffer)]; }
  const plan::KernelPlan& merged() const { return merged_; }  // whose bindings are the slices
  int64_t widest() const { return widest_; }                  // the most points of a step
  double longest_step_ns() const { return longest_step_ns_; }

 private:
  // `by_all`: where it is stored to, it has one element and every invocation may compute and store that for itself.
  void Look(const plan::Slice& slice, ElementType storage, int64_t count, bool written, bool by_all);
  Result<NestCost> LookAt(const plan::StepList& list);
  Result<NestCost> LookAtLaunch(const plan::LaunchStep& launch);
  Result<NestCost> LookAtPart(const plan::KernelPlan& kernel, const plan::LaunchStep& launch);
  // Of `points` points of so many operations each, which one workgroup shares.
  NestCost CostOf(double points, double operations);

  const plan::ProgramPlan& plan_;
  const DeviceProfile& profile_;
  const Tuning& device_tuning_;
  const LoopNestTuning& tuning_;
  plan::UncountedLoops uncounted_;
  std::vector<plan::Slice> slices_;
  std::vector<bool> has_copies_;  // for each slice, whether each invocation has a copy of it
  plan::KernelPlan merged_;
  int64_t widest_ = 1;
  int64_t code_nodes_ = 0;
  double longest_step_ns_ = 0;
};

// The bytes of the elements that a copy moves: all of it as one element where that is possible.
int BytesOfCopied(int64_t size);

// Calls visit(kernel) for each of the kernels that a launch is, one after the other.
Result<> ForEachPart(const plan::KernelPlan& kernel, const std::function<Result<>(const plan::KernelPlan&)>& visit);

}  // namespace krafla::spirv
