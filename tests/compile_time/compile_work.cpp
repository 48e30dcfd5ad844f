// SPDX-License-Identifier: Apache-2.0
// compile_work MODULE...: compiles each module as far as kernels for the CPU and shaders for a device go, and prints a
// line for each with what that took: allocations, bytes allocated, and steps of the compiler's loops (base/work.h).
// Counts, not times: the same in every run.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <new>
#include <string>

#include "base/work.h"
#include "cpu_fallback/executor/cpu_plan.h"
#include "device/device_profile.h"
#include "device/tuning.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "passes/pipeline.h"
#include "plan/planner.h"
#include "plan/step_runner.h"
#include "spirv_codegen/emit.h"
#include "spirv_codegen/kernels/while.h"

namespace {
std::atomic<int64_t> allocations{0}, allocated_bytes{0};
}  // namespace

// What std::stable_sort asks for its room, too: a sanitizer's own would not be for std::free.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  allocated_bytes.fetch_add(static_cast<int64_t>(size), std::memory_order_relaxed);
  return std::malloc(size == 0 ? 1 : size);
}
void* operator new(std::size_t size) {
  if (void* p = ::operator new(size, std::nothrow)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace krafla {
namespace {

std::string Slurp(const char* path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

Result<> Compile(const std::string& text) {
  KRAFLA_ASSIGN(std::unique_ptr<Module> module, ParseHloText(text));
  KRAFLA_TRY(Verify(*module));
  KRAFLA_TRY(RunPipeline(*module));
  const std::string printed = PrintModule(*module);
  KRAFLA_ASSIGN(VerifiedModule verified, VerifiedModule::Make(std::move(module)));
  KRAFLA_ASSIGN(plan::ProgramPlan plan, plan::PlanProgram(std::move(verified), {}));
  const std::string planned = plan::ToString(plan);
  KRAFLA_ASSIGN(DeviceProfile profile, ParseDeviceProfile(Slurp(KRAFLA_PROFILE)));
  for (const plan::KernelPlan& kernel : plan.kernels) {
    auto emitted = spirv::Emit(kernel, profile);
    if (!emitted && emitted.error().code() != StatusCode::kUnimplemented) return Failure(std::move(emitted).error());
  }
  KRAFLA_TRY(plan::TryForEachStep(plan, [&](const plan::Step& step) -> Result<bool> {
    const auto* loop = std::get_if<plan::WhileStep>(&step);
    if (loop == nullptr) return true;
    auto emitted = spirv::EmitWhile(plan, *loop, profile, TuningFor(profile));
    if (!emitted && emitted.error().code() != StatusCode::kUnimplemented) return Failure(std::move(emitted).error());
    return !emitted.has_value();
  }));
  KRAFLA_ASSIGN(std::unique_ptr<CpuPlan> executable, CpuPlan::Create(std::move(plan), {.threads = 1}));
  return {};
}

}  // namespace
}  // namespace krafla

int main(int argc, char** argv) {
  for (int n = 1; n < argc; ++n) {
    const std::string text = krafla::Slurp(argv[n]);
    const int64_t made = allocations, bytes = allocated_bytes, work = krafla::CountedWork();
    const auto done = krafla::Compile(text);
    if (!done) {
      std::fprintf(stderr, "%s: %s\n", argv[n], done.error().ToString().c_str());
      return 1;
    }
    std::printf("%s %lld %lld %lld\n", argv[n], static_cast<long long>(allocations - made),
                static_cast<long long>(allocated_bytes - bytes), static_cast<long long>(krafla::CountedWork() - work));
  }
  return 0;
}
