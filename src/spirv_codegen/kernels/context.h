// SPDX-License-Identifier: Apache-2.0
// What every kernel family starts from: a module with its builder and its buffers, and functions that lay work over the
// grid.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "spirv_codegen/emit.h"
#include "spirv_codegen/program_lowering.h"

namespace krafla::spirv {

class JointKernels;
struct InGroup;  // linalg.h

// The device that code is generated for: its capabilities and limits are in the profile, what is faster on it is in the
// tuning.
struct Target {
  const DeviceProfile& profile;
  const Tuning& tuning;
  const EmitOptions& options;
  JointKernels* joint = nullptr;      // into which the kernels go, in their order; null: each is a module of its own
  const InGroup* in_group = nullptr;  // of which dense linear algebra becomes a part; null: it is launched
};

// What a kernel is written to: a module with its builder and the buffers.
struct KernelModule {
  KernelModule(const DeviceProfile& profile, std::vector<BufferDesc> descs, const Tuning& tuning, int push_words)
      : m(profile, tuning.conversion), b(m), buffers(b, std::move(descs), tuning.memory, push_words) {}
  Module m;
  Builder b;
  Buffers buffers;
};

// The modules of kernels that are launched as one (kernels/horizontal.cpp). The writers of a part's kernels write to
// one after the other.
class JointKernels {
 public:
  std::vector<std::unique_ptr<KernelModule>> modules;
  void StartPart() { next_ = 0; }
  KernelModule* Next() { return next_ < modules.size() ? modules[next_++].get() : nullptr; }

 private:
  std::size_t next_ = 0;
};

// One kernel under construction.
class KernelWriter {
  const bool is_joint_;
  std::unique_ptr<KernelModule> own_;
  KernelModule& to_;

 public:
  // `scratch` describes the buffers that come after the plan's bindings.
  KernelWriter(const plan::KernelPlan& kernel_plan, const DeviceProfile& device, const Tuning& tuning,
               std::vector<BufferDesc> scratch = {}, int push_words = 0, KernelModule* joint = nullptr);
  KernelWriter(const plan::KernelPlan& kernel_plan, const Target& target, std::vector<BufferDesc> scratch = {},
               int push_words = 0)
      : KernelWriter(kernel_plan, target.profile, target.tuning, std::move(scratch), push_words,
                     target.joint != nullptr ? target.joint->Next() : nullptr) {}

  Module& m;
  Builder& b;
  Buffers& buffers;
  const plan::KernelPlan& plan;
  const DeviceProfile& profile;
  const Tuning& tuning;

  // Ends the module and returns it as a kernel; what is written to a joint module has no words yet.
  EmittedKernel Finish(std::array<uint32_t, 3> local_size, std::string variant, std::string reason = "");

 private:
  int push_words_;
};

// `groups` workgroups over x and, past the device's limit, y. Groups of the last row may lie past the end.
struct Grid {
  std::array<uint32_t, 3> size = {1, 1, 1};
  bool exact = true;
};
Result<Grid> FoldGrid(int64_t groups, const DeviceProfile& profile);
// The number of this workgroup in a grid made by FoldGrid.
Value GroupNumber(Builder& b, const Grid& grid);
// body(), where `number` is one of `items`; `exact`: no other number comes here.
void ForItem(Builder& b, bool exact, Value number, int64_t items, const std::function<void()>& body);

// The subgroup size that a kernel may count on: one that the pipeline requires, where the device can do that (`wanted`,
// if the device has that size, else its default), else the only size that the device has; 0 where there is neither.
uint32_t FixedSubgroupSize(const DeviceProfile& profile, uint32_t wanted = 0);
// Makes the kernel require that size.
void RequireSubgroups(EmittedKernel& kernel, const DeviceProfile& profile, uint32_t size);

// Ends the kernel in workgroups of `local` and adds it to the program with its dispatch, whose kernel it becomes.
// `subgroup`: the size of subgroup that it counts on, 0 for none.
void AddKernel(EmittedProgram& out, KernelWriter& w, EmittedDispatch dispatch, uint32_t local, uint32_t subgroup,
               std::string variant, std::string reason = "");

// Gives this reason to every kernel of the program that has none.
Result<EmittedProgram> WithReason(Result<EmittedProgram> program, const std::string& reason);

// Refuses what 32-bit index arithmetic cannot reach.
Result<> CheckSizes(const plan::KernelPlan& plan, const DeviceProfile& profile);

uint32_t WorkgroupSize(const DeviceProfile& profile, uint32_t wanted);

// How many neighbours along `dim` (none: -1) an invocation computes of the program's points: 4 or 1.
int PointsAtOnce(const plan::ElementProgram& program, int dim, const LoopTuning& tuning);
// Turns whose points are taken in one turn of a loop, 1, 2 or 4, as that costs more than they do.
uint32_t TurnsTogether(const plan::ElementProgram& program, const LoopTuning& tuning);

Result<EmittedProgram> EmitLoop(const plan::KernelPlan& plan, const plan::LoopKernel& loop, const Target& target);
Result<EmittedProgram> EmitReduce(const plan::KernelPlan& plan, const plan::ReduceKernel& reduce, const Target& target);
Result<EmittedProgram> EmitDot(const plan::KernelPlan& plan, const plan::DotKernel& dot, const Target& target);
Result<EmittedProgram> EmitConv(const plan::KernelPlan& plan, const plan::ConvKernel& conv, const Target& target);
Result<EmittedProgram> EmitSort(const plan::KernelPlan& plan, const plan::SortKernel& sort, const Target& target);
Result<EmittedProgram> EmitScan(const plan::KernelPlan& plan, const plan::ScanKernel& scan, const Target& target);
Result<EmittedProgram> EmitFft(const plan::KernelPlan& plan, const plan::FftKernel& fft, const Target& target);
Result<EmittedProgram> EmitLinalg(const plan::KernelPlan& plan, const plan::LinalgKernel& linalg, const Target& target);
Result<> CanEmitAttention(const plan::KernelPlan& plan, const plan::AttentionKernel& attention, const Target& target);
Result<EmittedProgram> EmitAttention(const plan::KernelPlan& plan, const plan::AttentionKernel& attention,
                                     const Target& target);
// UNIMPLEMENTED with the reason where the parts cannot share dispatches.
Result<EmittedProgram> EmitJointly(const plan::KernelPlan& plan, const plan::HorizontalKernel& horizontal,
                                   const Target& target);
Result<EmittedProgram> EmitHorizontal(const plan::KernelPlan& plan, const plan::HorizontalKernel& horizontal,
                                      const Target& target);
// Of any family.
Result<EmittedProgram> EmitFamily(const plan::KernelPlan& kernel, const Target& target);
Result<EmittedProgram> EmitScatter(const plan::KernelPlan& plan, const plan::ScatterKernel& scatter,
                                   const Target& target);

}  // namespace krafla::spirv
