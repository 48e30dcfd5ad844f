// SPDX-License-Identifier: Apache-2.0
// Runs a kernel plan on buffers of its own, and compares buffers.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

#include "base/checked_math.h"
#include "cpu_fallback/executor/cpu_kernel.h"
#include "cpu_fallback/executor/tape.h"
#include "cpu_fallback/native/native_code.h"
#include "krafla/aligned_bytes.h"
#include "reference.h"

namespace krafla {

// Interesting and random values of a storage type; NaNs included.
inline void FillRandom(ElementType storage, std::span<std::byte> bytes, std::mt19937& random) {
  const int width = StorageBytes(storage);
  const std::size_t count = bytes.size() / static_cast<std::size_t>(width);
  for (std::size_t i = 0; i < count; ++i) {
    uint64_t raw = static_cast<uint64_t>(random()) << 32 | random();
    if (storage == ElementType::kPred) raw &= 1;
    if (IsIntegral(storage) && BitWidth(storage) < 8) {
      const int bits = BitWidth(storage);
      raw &= (1u << bits) - 1;
      if (IsSigned(storage) && ((raw >> (bits - 1)) & 1)) raw |= ~uint64_t{0} << bits;
    }
    if (storage == ElementType::kF4E2M1FN) raw &= 15;
    if (IsIntegral(storage) && random() % 4 == 0) raw = static_cast<uint64_t>(static_cast<int64_t>(random() % 5) - 2);
    if (IsIntegral(storage) && BitWidth(storage) < 8 && raw > 1) raw &= 1;
    if (storage == ElementType::kF32) {
      const float kinds[] = {0.0f, -0.0f, 1.0f, -1.0f, 0.5f, 1e30f, -1e-30f, INFINITY, -INFINITY, NAN, 3.14159265f};
      const uint32_t kind = random() % 8;
      float v = static_cast<float>(static_cast<int32_t>(random()) % 10000) / 700.0f;
      if (kind == 0) v = kinds[random() % 11];
      if (kind == 1) v = std::bit_cast<float>(static_cast<uint32_t>(random()));
      raw = std::bit_cast<uint32_t>(v);
    }
    if (storage == ElementType::kF64) {
      const double kinds[] = {0.0, -0.0, 1.0, -1.5, 2.5, 1e300, INFINITY, -INFINITY, NAN};
      double v = static_cast<double>(static_cast<int32_t>(random())) / 1e6;
      if (random() % 8 == 0) v = kinds[random() % 9];
      raw = std::bit_cast<uint64_t>(v);
    }
    std::memcpy(bytes.data() + i * static_cast<std::size_t>(width), &raw, static_cast<std::size_t>(width));
  }
}

inline AlignedBytes RandomBuffer(ElementType storage, int64_t count, std::mt19937& random) {
  AlignedBytes out(static_cast<std::size_t>(count * StorageBytes(storage)));
  FillRandom(storage, out.span(), random);
  return out;
}

// Runs a kernel as a loop of one turn does.
inline void RunOnTape(const plan::KernelPlan& plan, std::shared_ptr<const CpuKernel> kernel,
                      std::span<std::byte* const> buffers, ThreadPool& pool, std::byte* scratch) {
  plan::ProgramPlan program;
  plan::LaunchStep launch;
  for (std::size_t b = 0; b < buffers.size(); ++b) {
    const int64_t size = plan.bindings[b].byte_size();
    program.allocations.push_back({.kind = plan::Allocation::Kind::kState, .size = size});
    const auto first = std::find(buffers.begin(), buffers.end(), buffers[b]);  // two bindings may share a buffer
    launch.bindings.push_back({static_cast<int>(first - buffers.begin()), 0, size});
  }
  plan::WhileStep loop;
  loop.trip_count = 1;
  loop.body = std::make_unique<plan::StepList>();
  loop.body->steps.push_back(std::move(launch));
  cpu::TapeBuilder builder(program);
  EXPECT_TRUE(builder.AddLoop(loop, {&kernel, 1}));
  cpu::Tape tape = std::move(builder).Finish();
  cpu::TapeRun run{.pool = pool, .scratch = scratch, .limit = kUnlimited};
  auto done = tape.Run(buffers, run);
  ASSERT_TRUE(done) << done.error().ToString();
}

// The same where native code does what it can of the loop.
inline void RunInRoutine(const plan::KernelPlan& plan, std::shared_ptr<const CpuKernel> kernel,
                         std::span<std::byte* const> buffers, ThreadPool& pool, std::byte* scratch) {
  const cpu::native::NativeUse use = cpu::native::UseOfNativeCode();
  cpu::native::UseNativeCode(cpu::native::NativeUse::kAlways);
  RunOnTape(plan, std::move(kernel), buffers, pool, scratch);
  cpu::native::UseNativeCode(use);
}

// Runs a kernel, and twice more as part of a loop, which must leave the same bytes.
inline void RunKernel(const plan::KernelPlan& plan, std::span<std::byte* const> buffers, int threads = 2) {
  auto compiled = CompileKernel(plan, {.threads = threads, .evaluator = {}});
  ASSERT_TRUE(compiled) << compiled.error().ToString();
  std::shared_ptr<const CpuKernel> kernel = std::move(*compiled);
  ThreadPool pool(threads);
  AlignedBytes scratch(static_cast<std::size_t>(kernel->scratch_bytes()), false);
  if (scratch.size() > 0) std::memset(scratch.data(), 0xcd, scratch.size());
  struct Copy {
    std::vector<AlignedBytes> bytes;
    std::vector<std::byte*> at;
  };
  std::array<Copy, 2> copies;  // for the tape's instructions, and for native code
  for (Copy& copy : copies) {
    for (std::size_t b = 0; b < buffers.size(); ++b) {
      copy.bytes.emplace_back(static_cast<std::size_t>(plan.bindings[b].byte_size()));
      if (copy.bytes.back().size() > 0) std::memcpy(copy.bytes.back().data(), buffers[b], copy.bytes.back().size());
      const auto first = std::find(buffers.begin(), buffers.begin() + static_cast<std::ptrdiff_t>(b), buffers[b]);
      copy.at.push_back(copy.bytes[static_cast<std::size_t>(first - buffers.begin())].data());
    }
  }
  auto run = kernel->Run(buffers, pool, scratch.data());
  ASSERT_TRUE(run) << run.error().ToString();
  RunOnTape(plan, kernel, copies[0].at, pool, scratch.data());
  RunInRoutine(plan, kernel, copies[1].at, pool, scratch.data());
  for (std::size_t c = 0; c < copies.size(); ++c) {
    for (std::size_t b = 0; b < buffers.size(); ++b) {
      const AlignedBytes& bytes = copies[c].bytes[b];
      if (bytes.size() == 0) continue;
      EXPECT_EQ(std::memcmp(copies[c].at[b], buffers[b], bytes.size()), 0)
          << "binding " << b << (c == 0 ? " by a tape" : " by a routine");
    }
  }
}

// Equal bits, but that any NaN is as good as any other where the type has them.
inline bool SameElement(ElementType storage, const std::byte* a, const std::byte* b, int64_t i) {
  const auto width = static_cast<std::size_t>(StorageBytes(storage));
  const auto at = static_cast<std::size_t>(i) * width;
  if (std::memcmp(a + at, b + at, width) == 0) return true;
  if (!IsFloat(storage)) return false;
  if (storage == ElementType::kF64) {
    double x, y;
    std::memcpy(&x, a + at, 8), std::memcpy(&y, b + at, 8);
    return x != x && y != y;
  }
  const float x = reference::As<float>(reference::ReadElement(storage, a, i));
  const float y = reference::As<float>(reference::ReadElement(storage, b, i));
  return x != x && y != y;
}
inline void ExpectSame(ElementType storage, const AlignedBytes& got, const AlignedBytes& want,
                       const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  const int64_t count = static_cast<int64_t>(got.size()) / StorageBytes(storage);
  int shown = 0;
  for (int64_t i = 0; i < count && shown < 5; ++i) {
    if (SameElement(storage, got.data(), want.data(), i)) continue;
    uint64_t a = 0, b = 0;
    const auto width = static_cast<std::size_t>(StorageBytes(storage));
    std::memcpy(&a, got.data() + static_cast<std::size_t>(i) * width, width);
    std::memcpy(&b, want.data() + static_cast<std::size_t>(i) * width, width);
    ADD_FAILURE() << what << ": element " << i << " is " << std::hex << a << ", not " << b;
    ++shown;
  }
}

// A loop kernel against the reference. Buffers that the program reads are random.
inline void CheckLoop(const plan::ElementProgram& program, const std::string& what, int threads = 2) {
  std::mt19937 random(7);
  std::vector<AlignedBytes> got, want;
  std::vector<std::byte*> got_pointers, want_pointers;
  plan::KernelPlan kernel;
  kernel.name = what;
  for (const plan::ProgramBuffer& b : program.buffers) {
    got.push_back(RandomBuffer(b.storage, b.element_count, random));
    want.push_back(got.back());
    kernel.bindings.push_back({b.storage, b.element_count, !b.written, b.written});
  }
  for (AlignedBytes& b : got) got_pointers.push_back(b.data());
  for (AlignedBytes& b : want) want_pointers.push_back(b.data());
  kernel.body = plan::LoopKernel{program};
  RunKernel(kernel, got_pointers, threads);
  reference::Interpreter(program, want_pointers).RunAll();
  for (std::size_t i = 0; i < got.size(); ++i) ExpectSame(program.buffers[i].storage, got[i], want[i], what);
}

// The index of the row-major element at the iterators.
inline plan::IndexId RowMajor(plan::ProgramBuilder& b) {
  std::vector<plan::IndexId> iters;
  for (int d = 0; d < static_cast<int>(b.space().dims().size()); ++d) iters.push_back(b.space().Iter(d));
  Dims dims = b.space().dims();
  return b.space().Linearize(iters, dims);
}

}  // namespace krafla
