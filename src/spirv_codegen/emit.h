// SPDX-License-Identifier: Apache-2.0
// Turns a KernelPlan into SPIR-V words, dispatches and scratch buffers for the device of a DeviceProfile. Holds no
// Vulkan handle, and depends on its arguments only.
//
// Buffers of a program are numbered: the plan's bindings first, then the scratch buffers, then the table if there is
// one. Every buffer starts at a multiple of 16 bytes, and a kernel may read and write (within one 16-byte block,
// leaving other bytes alone) up to the next multiple of 16 after its end. A kernel finds EmittedKernel::buffers[i] as
// entry i of its row of addresses, or as descriptor i; its push words lie from byte 8 of the push constants on.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "device/device_profile.h"
#include "device/tuning.h"
#include "krafla/status.h"
#include "plan/kernel_plan.h"

namespace krafla::spirv {

struct EmitOptions {
  bool enable_cooperative_matrix = false;  // use them wherever a shape fits, also where they are not known to be faster
  bool enable_flexible_matrix = false;     // those of any size likewise, before those of fixed sizes
  bool allow_cooperative_matrix = true;
  bool treat_as_gpu = false;       // as for the profile without "host_cores"
  const Tuning* tuning = nullptr;  // by which variants, tiles and sizes are chosen; null: TuningFor(profile)
};

struct EmittedKernel {
  std::vector<uint32_t> words;
  std::array<uint32_t, 3> local_size = {1, 1, 1};
  uint32_t subgroup_size = 0;   // the size that the pipeline must require; 0: any
  bool full_subgroups = false;  // the pipeline must require them
  bool uses_buffer_device_address = false;
  bool uses_cooperative_matrix = false;
  struct BufferUse {
    int buffer = 0;
    bool read = false, written = false;
  };
  std::vector<BufferUse> buffers;  // the buffers that it touches, in rising order
  int push_words = 0;
  std::string variant;  // "loop.vec4", "reduce.subgroup_row"
  std::string reason;   // why this variant and not an earlier one
};

struct EmittedDispatch {
  int kernel = 0;  // of EmittedProgram::kernels
  std::array<uint32_t, 3> grid = {1, 1, 1};
  std::vector<uint32_t> push;  // EmittedKernel::push_words of them
  double share = 1;            // of the program's work, as weighed against the other dispatches
};

// Dispatches run in order, with a memory barrier between neighbours. No generated kernel reads NumWorkgroups, so a
// dispatch may be given to the device in parts of its grid (vkCmdDispatchBase).
struct EmittedProgram {
  std::vector<EmittedKernel> kernels;
  std::vector<EmittedDispatch> dispatches;
  std::vector<int64_t> scratch_bytes;
  std::vector<uint32_t> table;  // constants of its own that kernels read; empty: it has none
};

// UNIMPLEMENTED with the reason where the device cannot run the kernel; the CPU can.
Result<EmittedProgram> Emit(const plan::KernelPlan& kernel, const DeviceProfile& profile,
                            const EmitOptions& options = {});

// Emit's refusals of types and sizes, without emitting anything. Emit may still refuse what this accepts.
Result<> CanEmit(const plan::KernelPlan& kernel, const DeviceProfile& profile);

// Whether the device gets one kernel for an AttentionKernel, which is faster there than the three that it stands for;
// UNIMPLEMENTED with the reason where it does not. For planners: without it, they leave the three as they are.
Result<> TakesAttention(const plan::KernelPlan& kernel, const DeviceProfile& profile, const Tuning& tuning);

// Whether the device runs the parts of a HorizontalKernel as one; UNIMPLEMENTED with the reason where it does not.
Result<> TakesHorizontal(const plan::KernelPlan& kernel, const DeviceProfile& profile, const Tuning& tuning);

// UNIMPLEMENTED for a kernel with more buffers than the device has descriptors for in one stage; addresses are not
// counted.
Result<> CheckBufferCount(const EmittedKernel& kernel, const DeviceProfile& profile);

}  // namespace krafla::spirv
