// SPDX-License-Identifier: Apache-2.0
// HorizontalKernel: kernels that fill the pool's threads one after the other, and those that are too little work for
// that side by side. Where a part follows another one, or all of them rows, all run in their order.
#include <algorithm>

#include "base/checked_math.h"
#include "cpu_fallback/executor/kernel_families.h"
#include "plan/horizontal.h"

namespace krafla::cpu {
namespace {

// Below this a loop runs on the calling thread alone (ThreadPool's grains).
constexpr double kSharedNanoseconds = 14e3;
constexpr double kNanosecondsPerByte = 0.05, kNanosecondsPerFlop = 0.02;

class HorizontalRun final : public CpuKernel {
 public:
  static KernelResult Make(const plan::KernelPlan& plan, const plan::HorizontalKernel& body,
                           const CpuKernelOptions& options) {
    auto out = std::make_unique<HorizontalRun>();
    const bool in_order = body.begins_with_rows ||
                          std::ranges::any_of(plan::FollowedParts(body), [](int followed) { return followed >= 0; });
    CpuKernelOptions of_part = options;
    of_part.constants.clear();  // which count the bindings of the whole
    for (const plan::KernelPlan& part : plan::PartsOfHorizontal(plan, body)) {
      KRAFLA_ASSIGN(std::unique_ptr<CpuKernel> kernel, CompileKernel(part, of_part));
      const double ns = std::max(part.bytes * kNanosecondsPerByte, part.flops * kNanosecondsPerFlop);
      const bool is_small = ns < kSharedNanoseconds && !in_order;
      if (is_small) out->small_ns_ += ns;
      (is_small ? out->small_ : out->large_).push_back({kernel.get(), out->scratch_bytes_});
      out->scratch_bytes_ += RoundUp(kernel->scratch_bytes(), 64);
      out->rounds_vectors_ = out->rounds_vectors_ || kernel->rounds_vectors();
      out->parts_.push_back(std::move(kernel));
    }
    return out;
  }

  Result<> Run(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch) const override {
    const auto run = [&](const Placed& part) { return part.kernel->Run(bindings, pool, scratch + part.scratch); };
    for (const Placed& part : large_) KRAFLA_TRY(run(part));
    if (small_.size() < 2 || small_ns_ < kSharedNanoseconds) {
      for (const Placed& part : small_) KRAFLA_TRY(run(part));
      return {};
    }
    std::vector<Result<>> results(small_.size());
    pool.ParallelParts(std::ssize(small_), small_ns_, [&](int64_t begin, int64_t end, int) {
      for (int64_t p = begin; p < end; ++p)
        results[static_cast<std::size_t>(p)] = run(small_[static_cast<std::size_t>(p)]);
    });
    for (Result<>& result : results) KRAFLA_TRY(std::move(result));
    return {};
  }

 private:
  struct Placed {
    const CpuKernel* kernel = nullptr;
    int64_t scratch = 0;  // where its own begins
  };
  std::vector<std::unique_ptr<CpuKernel>> parts_;
  std::vector<Placed> large_, small_;
  double small_ns_ = 0;
};

}  // namespace

KernelResult MakeHorizontalKernel(const plan::KernelPlan& plan, const plan::HorizontalKernel& body,
                                  const CpuKernelOptions& options) {
  return HorizontalRun::Make(plan, body, options);
}

}  // namespace krafla::cpu
