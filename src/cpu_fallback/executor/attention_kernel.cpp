// SPDX-License-Identifier: Apache-2.0
// AttentionKernel, where a device has it and then does not take it: its three launches one after the other. Plans for
// the CPU have row groups instead.
#include "base/checked_math.h"
#include "cpu_fallback/executor/kernel_families.h"

namespace krafla::cpu {
namespace {

constexpr int64_t kAttentionAlignment = 64;

class AttentionRun final : public CpuKernel {
 public:
  // `between`: the bytes of each of the buffers between the parts.
  AttentionRun(std::vector<std::unique_ptr<CpuKernel>> parts, std::vector<int64_t> between)
      : parts_(std::move(parts)), between_(std::move(between)) {
    int64_t most = 0;
    for (const auto& part : parts_) most = std::max(most, part->scratch_bytes());
    scratch_bytes_ = most;
    for (int64_t bytes : between_) scratch_bytes_ += RoundUp(bytes, kAttentionAlignment);
  }

  Result<> Run(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch) const override {
    std::vector<std::byte*> all(bindings.begin(), bindings.end());
    for (int64_t bytes : between_) {
      all.push_back(scratch);
      scratch += RoundUp(bytes, kAttentionAlignment);
    }
    for (const auto& part : parts_) KRAFLA_TRY(part->Run(all, pool, scratch));
    return {};
  }

 private:
  std::vector<std::unique_ptr<CpuKernel>> parts_;
  std::vector<int64_t> between_;
};

}  // namespace

KernelResult MakeAttentionKernel(const plan::KernelPlan& plan, const plan::AttentionKernel& body,
                                 const CpuKernelOptions& options) {
  std::vector<std::unique_ptr<CpuKernel>> made;
  std::vector<int64_t> between;
  CpuKernelOptions of_part = options;
  of_part.constants.clear();  // which count the bindings of the whole
  for (const plan::KernelPlan& part : plan::PartsOfAttention(plan, body)) {
    between.clear();
    for (std::size_t b = plan.bindings.size(); b < part.bindings.size(); ++b)
      between.push_back(part.bindings[b].byte_size());
    KRAFLA_ASSIGN(std::unique_ptr<CpuKernel> kernel, CompileKernel(part, of_part));
    made.push_back(std::move(kernel));
  }
  return std::make_unique<AttentionRun>(std::move(made), std::move(between));
}

}  // namespace krafla::cpu
