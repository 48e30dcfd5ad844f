// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/kernels/context.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/checked_math.h"
#include "plan/element_cost.h"

namespace krafla::spirv {
namespace {

std::vector<BufferDesc> Describe(const plan::KernelPlan& plan, std::vector<BufferDesc> scratch) {
  std::vector<BufferDesc> out;
  for (const plan::Binding& binding : plan.bindings) {
    out.push_back({binding.element_count, StorageBytes(binding.storage), binding.written});
  }
  out.insert(out.end(), scratch.begin(), scratch.end());
  return out;
}

}  // namespace

KernelWriter::KernelWriter(const plan::KernelPlan& kernel_plan, const DeviceProfile& device,
                           const Tuning& device_tuning, std::vector<BufferDesc> scratch, int push_words,
                           KernelModule* joint)
    : is_joint_(joint != nullptr),
      own_(is_joint_ ? nullptr
                     : std::make_unique<KernelModule>(device, Describe(kernel_plan, std::move(scratch)), device_tuning,
                                                      push_words)),
      to_(is_joint_ ? *joint : *own_),
      m(to_.m),
      b(to_.b),
      buffers(to_.buffers),
      plan(kernel_plan),
      profile(device),
      tuning(device_tuning),
      push_words_(push_words) {}

EmittedKernel KernelWriter::Finish(std::array<uint32_t, 3> local_size, std::string variant, std::string reason) {
  EmittedKernel out;
  out.local_size = local_size;
  out.variant = std::move(variant);
  out.reason = std::move(reason);
  if (is_joint_) return out;
  out.uses_buffer_device_address = buffers.uses_addresses();
  for (const Buffers::Use& use : buffers.Finish()) out.buffers.push_back({use.buffer, use.read, use.written});
  out.push_words = push_words_;
  out.words = m.Finish(local_size);
  return out;
}

Result<Grid> FoldGrid(int64_t groups, const DeviceProfile& profile) {
  Grid grid;
  const int64_t max_x = profile.limits.max_workgroup_count[0], max_y = profile.limits.max_workgroup_count[1];
  if (groups <= max_x) {
    grid.size[0] = static_cast<uint32_t>(std::max<int64_t>(groups, 1));
    return grid;
  }
  const int64_t y = CeilDiv(groups, max_x);
  if (y > max_y) {
    return Unimplemented("The kernel needs {} workgroups, more than the {} x {} of {}.", groups, max_x, max_y,
                         profile.name);
  }
  const int64_t x = CeilDiv(groups, y);
  grid.size = {static_cast<uint32_t>(x), static_cast<uint32_t>(y), 1};
  grid.exact = x * y == groups;
  return grid;
}

Value GroupNumber(Builder& b, const Grid& grid) {
  if (grid.size[1] == 1) return b.WorkgroupId(0);
  return b.Add(b.Mul(b.WorkgroupId(1), b.U32(grid.size[0])), b.WorkgroupId(0));
}

void ForItem(Builder& b, bool exact, Value number, int64_t items, const std::function<void()>& body) {
  if (exact) body();
  else b.If(b.Compare(Cmp::kULt, number, b.U32(static_cast<uint32_t>(items))), body);
}

uint32_t FixedSubgroupSize(const DeviceProfile& profile, uint32_t wanted) {
  const DeviceLimits& limits = profile.limits;
  if (!profile.subgroup.basic || !profile.subgroup.shuffle || limits.subgroup_size < 2) return 0;
  if (limits.min_subgroup_size == limits.max_subgroup_size) return limits.subgroup_size;
  if (!profile.features.subgroup_size_control) return 0;
  const bool can_want = wanted >= limits.min_subgroup_size && wanted <= limits.max_subgroup_size;
  return can_want ? wanted : limits.subgroup_size;
}

void RequireSubgroups(EmittedKernel& kernel, const DeviceProfile& profile, uint32_t size) {
  if (profile.features.subgroup_size_control) kernel.subgroup_size = size;
  kernel.full_subgroups = profile.features.compute_full_subgroups;
}

void AddKernel(EmittedProgram& out, KernelWriter& w, EmittedDispatch dispatch, uint32_t local, uint32_t subgroup,
               std::string variant, std::string reason) {
  EmittedKernel kernel = w.Finish({local, 1, 1}, std::move(variant), std::move(reason));
  if (subgroup != 0) RequireSubgroups(kernel, w.profile, subgroup);
  dispatch.kernel = static_cast<int>(out.kernels.size());
  out.kernels.push_back(std::move(kernel));
  out.dispatches.push_back(std::move(dispatch));
}

Result<EmittedProgram> WithReason(Result<EmittedProgram> program, const std::string& reason) {
  if (!program) return program;
  for (EmittedKernel& kernel : program->kernels)
    if (kernel.reason.empty()) kernel.reason = reason;
  return program;
}

Result<> CheckSizes(const plan::KernelPlan& plan, const DeviceProfile& profile) {
  for (std::size_t i = 0; i < plan.bindings.size(); ++i) {
    const plan::Binding& binding = plan.bindings[i];
    // Indices into arrays are signed 32-bit numbers, from which the driver computes byte offsets of 32 or 64 bits.
    const int64_t bytes = binding.element_count * StorageBytes(binding.storage);
    if (binding.element_count > std::numeric_limits<int32_t>::max() || bytes > (int64_t{1} << 32) - 16) {
      return Unimplemented("Binding {} has {} elements ({} bytes), more than 32-bit indexing reaches.", i,
                           binding.element_count, bytes);
    }
    if (!profile.features.buffer_device_address &&
        static_cast<uint64_t>(bytes) > profile.limits.max_storage_buffer_range) {
      return Unimplemented("Binding {} has {} bytes, more than the {} that a descriptor of {} covers.", i, bytes,
                           profile.limits.max_storage_buffer_range, profile.name);
    }
  }
  return {};
}

uint32_t TurnsTogether(const plan::ElementProgram& program, const LoopTuning& tuning) {
  constexpr double kMost = 4;
  const double turns = tuning.turn_cost / std::max(plan::ProgramCost(program), 1.0);
  return std::bit_floor(static_cast<uint32_t>(std::clamp(turns, 1.0, kMost)));
}

int PointsAtOnce(const plan::ElementProgram& program, int dim, const LoopTuning& tuning) {
  const bool is_cheap = plan::ProgramCost(program) <= static_cast<double>(tuning.most_vector_cost);
  return is_cheap && PrefersVectors(program, dim, 4) ? 4 : 1;
}

uint32_t WorkgroupSize(const DeviceProfile& profile, uint32_t wanted) {
  return std::min({wanted, profile.limits.max_workgroup_invocations, profile.limits.max_workgroup_size[0]});
}

}  // namespace krafla::spirv
