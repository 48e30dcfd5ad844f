// SPDX-License-Identifier: Apache-2.0
// Kernels of few parts that take long: they are worth waking a thread that sleeps, and the bits do not change.
#include <chrono>
#include <span>
#include <thread>

#include "cpu_fallback/kernels/shared_product.h"
#include "krafla/aligned_bytes.h"
#include "program_fixture.h"

namespace krafla {
namespace {

void LetWorkersSleep(const ThreadPool& pool) {
  while (pool.counts().asleep < pool.threads() - 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

struct Outcome {
  int64_t calls = 0;  // of threads that slept
  std::vector<AlignedBytes> buffers;
};

// The only kernel of a program of f32 and s32.
Result<Outcome> RunKernelOf(const std::string& text, int threads) {
  KRAFLA_ASSIGN(std::unique_ptr<Module> module, ParseHloText(text));
  KRAFLA_TRY(Verify(*module));
  KRAFLA_TRY(RunPipeline(*module));
  KRAFLA_ASSIGN(VerifiedModule verified, VerifiedModule::Make(std::move(module)));
  KRAFLA_ASSIGN(plan::ProgramPlan program, plan::PlanProgram(std::move(verified), {}));
  EXPECT_EQ(program.kernels.size(), 1u);
  const plan::KernelPlan& kernel = program.kernels[0];
  KRAFLA_ASSIGN(std::shared_ptr<const CpuKernel> compiled,
                CompileKernel(kernel, {.threads = threads, .evaluator = {}}));
  Outcome out;
  std::vector<std::byte*> bindings;
  for (const plan::Binding& b : kernel.bindings) {
    AlignedBytes& bytes = out.buffers.emplace_back(static_cast<std::size_t>(b.byte_size()));
    for (std::size_t i = 0; i * 4 < bytes.size(); ++i) {
      const float value = static_cast<float>(i % 7) - 2.5F;
      std::memcpy(bytes.data() + i * 4, &value, 4);
    }
    bindings.push_back(bytes.data());
  }
  AlignedBytes scratch(static_cast<std::size_t>(compiled->scratch_bytes()));
  ThreadPool pool(threads);
  LetWorkersSleep(pool);
  KRAFLA_TRY(compiled->Run(bindings, pool, scratch.data()));
  out.calls = pool.counts().calls;
  return out;
}

void ExpectShared(const std::string& text) {
  auto two = RunKernelOf(text, 2), one = RunKernelOf(text, 1);
  ASSERT_TRUE(two) << two.error().ToString();
  ASSERT_TRUE(one) << one.error().ToString();
  EXPECT_GE(two->calls, 1);
  for (std::size_t b = 0; b < one->buffers.size(); ++b)
    EXPECT_EQ(std::memcmp(one->buffers[b].data(), two->buffers[b].data(), one->buffers[b].size()), 0);
}

// One matrix by four narrow ones.
TEST(LongParts, OfProductsWithASharedMatrix) {
  cpu::GemmProblem problem;
  problem.batch = {4}, problem.m = 64, problem.n = 16, problem.k = 1024;
  problem.lhs_batch_strides = {0}, problem.rhs_batch_strides = {problem.k * problem.n};
  problem.result_batch_strides = {problem.m * problem.n};
  problem.lhs_m_stride = problem.k, problem.lhs_k_stride = problem.rhs_n_stride = 1;
  problem.rhs_k_stride = problem.result_m_stride = problem.n;
  ASSERT_TRUE(cpu::SharedProduct::Takes(problem));
  const auto numbers = [](int64_t count) {
    std::vector<float> out;
    for (int64_t i = 0; i < count; ++i) out.push_back(static_cast<float>(i % 7) - 2.5F);
    return out;
  };
  const std::vector<float> lhs = numbers(problem.m * problem.k), rhs = numbers(4 * problem.k * problem.n);
  std::vector<float> results[2];
  for (const int threads : {1, 2}) {
    const cpu::SharedProduct product(problem, threads);
    AlignedBytes scratch(static_cast<std::size_t>(product.scratch_bytes()));
    std::vector<float>& result = results[threads - 1];
    result.resize(static_cast<std::size_t>(4 * problem.m * problem.n));
    ThreadPool pool(threads);
    LetWorkersSleep(pool);
    product.Run(std::as_bytes(std::span(lhs)).data(), std::as_bytes(std::span(rhs)).data(),
                std::as_writable_bytes(std::span(result)).data(), pool, scratch.data());
    EXPECT_EQ(pool.counts().calls, threads - 1);
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST(LongParts, OfOuterProducts) {
  ExpectShared(R"(HloModule m
ENTRY main {
  a = f32[4,1] parameter(0)
  b = f32[1,100000] parameter(1)
  ROOT p = f32[4,100000] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})");
}

// Two groups of 512 lines.
TEST(LongParts, OfRunningSums) {
  ExpectShared(R"(HloModule m
add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT s = f32[] add(x, y) }
ENTRY main {
  a = f32[2,1000,512] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[2,1000,512] reduce-window(a, zero), window={size=1x1000x1 pad=0_0x999_0x0_0}, to_apply=add
})");
}

// Six chunks of one long row.
TEST(LongParts, OfOneLongSum) {
  ExpectShared(R"(HloModule m
add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT s = f32[] add(x, y) }
ENTRY main {
  a = f32[220000] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[] reduce(a, zero), dimensions={0}, to_apply=add
})");
}

// Long rows from anywhere.
TEST(LongParts, OfRowsThatAreGathered) {
  ExpectShared(R"(HloModule m
ENTRY main {
  a = f32[50,1024] parameter(0)
  i = s32[1024,1] parameter(1)
  ROOT r = f32[1024,1024] gather(a, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,1024}
})");
}

}  // namespace
}  // namespace krafla
