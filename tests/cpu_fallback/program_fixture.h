// SPDX-License-Identifier: Apache-2.0
// Runs whole programs on the CPU, with native code and without, and compares the bits.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "cpu_fallback/executor/cpu_plan.h"
#include "cpu_fallback/native/native_code.h"
#include "cpu_fallback/native/routine.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "passes/pipeline.h"
#include "plan/planner.h"

namespace krafla {

using cpu::native::NativeUse;

inline Result<std::unique_ptr<CpuPlan>> CompileFor(NativeUse use, const std::string& text) {
  const NativeUse before = cpu::native::UseOfNativeCode();
  cpu::native::UseNativeCode(use);
  auto out = [&]() -> Result<std::unique_ptr<CpuPlan>> {
    KRAFLA_ASSIGN(std::unique_ptr<Module> module, ParseHloText(text));
    KRAFLA_TRY(Verify(*module));
    KRAFLA_TRY(RunPipeline(*module));
    KRAFLA_ASSIGN(VerifiedModule verified, VerifiedModule::Make(std::move(module)));
    KRAFLA_ASSIGN(plan::ProgramPlan plan, plan::PlanProgram(std::move(verified), {}));
    return CpuPlan::Create(std::move(plan), {.threads = 1});
  }();
  cpu::native::UseNativeCode(before);
  return out;
}

// Numbers that suit every type: small, and no two alike.
inline std::vector<std::vector<std::byte>> ArgumentsOf(const plan::ProgramPlan& plan) {
  std::vector<std::vector<std::byte>> out;
  for (std::size_t i = 0; i < plan.arguments.size(); ++i) {
    const Shape& shape = plan.arguments[i];
    const int width = StorageBytes(shape.element_type());
    std::vector<std::byte> bytes(static_cast<std::size_t>(shape.byte_size()));
    for (std::size_t e = 0; e * static_cast<std::size_t>(width) < bytes.size(); ++e) {
      const double number = 0.25 + 0.375 * static_cast<double>(e) - 0.5 * static_cast<double>(i);
      uint64_t bits = e + 1 + i;
      if (shape.element_type() == ElementType::kF32) bits = std::bit_cast<uint32_t>(static_cast<float>(number));
      if (shape.element_type() == ElementType::kF64) bits = std::bit_cast<uint64_t>(number);
      if (shape.element_type() == ElementType::kBF16) bits = std::bit_cast<uint32_t>(static_cast<float>(number)) >> 16;
      std::memcpy(bytes.data() + e * static_cast<std::size_t>(width), &bits, static_cast<std::size_t>(width));
    }
    out.push_back(std::move(bytes));
  }
  return out;
}

inline std::vector<std::vector<std::byte>> Results(CpuPlan& executable, const RunLimit& limit, Result<>& status) {
  const auto arguments = ArgumentsOf(executable.plan());
  std::vector<const std::byte*> given;
  for (const auto& a : arguments) given.push_back(a.data());
  std::vector<std::vector<std::byte>> out;
  std::vector<std::byte*> to;
  for (const Shape& r : executable.plan().results) out.emplace_back(static_cast<std::size_t>(r.byte_size()));
  for (auto& r : out) to.push_back(r.data());
  status = executable.Run(given, to, limit);
  return out;
}

// Runs the program with native code, of which there must be some, and without.
inline void ExpectSameBits(const std::string& text) {
  if (!cpu::native::HasNativeCode()) GTEST_SKIP() << "no native loops in this build or on this processor";
  auto plain = CompileFor(NativeUse::kNever, text);
  ASSERT_TRUE(plain) << plain.error().ToString();
  const auto counts = [] { return cpu::native::CountsOfNativeCode(); };
  const auto before = counts();
  auto native = CompileFor(NativeUse::kAlways, text);
  ASSERT_TRUE(native) << native.error().ToString();
  EXPECT_GT(counts().compiled + counts().shared, before.compiled + before.shared);
  EXPECT_EQ(counts().refused, before.refused);
  Result<> status;
  const auto expected = Results(**plain, kUnlimited, status);
  ASSERT_TRUE(status) << status.error().ToString();
  for (int run = 0; run < 2; ++run) {
    const auto got = Results(**native, kUnlimited, status);
    ASSERT_TRUE(status) << status.error().ToString();
    EXPECT_EQ(got, expected);
  }
}

}  // namespace krafla
