// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/cpu_kernel.h"

#include "cpu_fallback/executor/kernel_families.h"
#include "cpu_fallback/executor/wide_moves.h"

namespace krafla {

namespace {

struct Maker {
  const plan::KernelPlan& plan;
  const CpuKernelOptions& options;

  cpu::KernelResult operator()(const plan::LoopKernel& body) const {
    return cpu::MakeLoopKernel(plan, {cpu::InPiecesOfMemory(body.program)}, options);
  }
  cpu::KernelResult operator()(const plan::ReduceKernel& body) const {
    return cpu::MakeReduceKernel(plan, body, options);
  }
  cpu::KernelResult operator()(const plan::DotKernel& body) const { return cpu::MakeDotKernel(plan, body, options); }
  cpu::KernelResult operator()(const plan::ConvKernel& body) const { return cpu::MakeConvKernel(plan, body, options); }
  cpu::KernelResult operator()(const plan::SortKernel& body) const { return cpu::MakeSortKernel(plan, body, options); }
  cpu::KernelResult operator()(const plan::ScanKernel& body) const { return cpu::MakeScanKernel(plan, body, options); }
  cpu::KernelResult operator()(const plan::ScatterKernel& body) const {
    return cpu::MakeScatterKernel(plan, body, options);
  }
  cpu::KernelResult operator()(const plan::FftKernel& body) const { return cpu::MakeFftKernel(plan, body, options); }
  cpu::KernelResult operator()(const plan::LinalgKernel& body) const {
    return cpu::MakeLinalgKernel(plan, body, options);
  }
  cpu::KernelResult operator()(const plan::AttentionKernel& body) const {
    return cpu::MakeAttentionKernel(plan, body, options);
  }
  cpu::KernelResult operator()(const plan::HorizontalKernel& body) const {
    return cpu::MakeHorizontalKernel(plan, body, options);
  }
  cpu::KernelResult operator()(const plan::HostKernel& body) const { return cpu::MakeHostKernel(plan, body, options); }
};

}  // namespace

Result<std::unique_ptr<CpuKernel>> CompileKernel(const plan::KernelPlan& plan, const CpuKernelOptions& options) {
  auto made = std::visit(Maker{plan, options}, plan.body);
  if (!made) return Failure(std::move(made).error().WithContext(Format("while compiling kernel '{}'", plan.name)));
  return made;
}

}  // namespace krafla
