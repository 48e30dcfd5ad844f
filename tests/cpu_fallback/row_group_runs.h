// SPDX-License-Identifier: Apache-2.0
// What tests of row groups share: parts of modules, and runs of plans with blocks of any size.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <functional>
#include <random>

#include "cpu_fallback/executor/cpu_plan.h"
#include "cpu_fallback/native/native_code.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "numerics/formats.h"
#include "passes/pipeline.h"
#include "plan/plan_log.h"
#include "plan/planner.h"

namespace krafla {

inline constexpr std::string_view kRegions = R"(
max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
)";

// The softmax of the rows of `in`, an f32 array of dimensions `dims` with rows of the last one, as `out`.
inline std::string Softmax(std::string_view in, std::string_view out, const std::vector<int64_t>& dims) {
  std::string all, rows, kept;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    all += Format("{}{}", d > 0 ? "," : "", dims[d]);
    if (d + 1 == dims.size()) break;
    rows += Format("{}{}", d > 0 ? "," : "", dims[d]);
    kept += Format("{}{}", d > 0 ? "," : "", d);
  }
  return Format(R"(
  {0}_low = f32[] constant(-inf)
  {0}_zero = f32[] constant(0)
  {0}_m = f32[{3}] reduce({1}, {0}_low), dimensions={{{5}}}, to_apply=max
  {0}_mb = f32[{2}] broadcast({0}_m), dimensions={{{4}}}
  {0}_d = f32[{2}] subtract({1}, {0}_mb)
  {0}_e = f32[{2}] exponential({0}_d)
  {0}_s = f32[{3}] reduce({0}_e, {0}_zero), dimensions={{{5}}}, to_apply=add
  {0}_sb = f32[{2}] broadcast({0}_s), dimensions={{{4}}}
  {0} = f32[{2}] divide({0}_e, {0}_sb)
)",
                out, in, all, rows, kept, dims.size() - 1);
}

// A scale and a mask that compares the row with the column.
inline std::string Masked(int64_t t, int64_t s, int64_t kv, int64_t group, std::string_view direction,
                          std::string_view low) {
  return Format(R"(
  scale = f32[] constant(0.25)
  scales = f32[{2},{3},{0},{1}] broadcast(scale), dimensions={{}}
  scaled = f32[{2},{3},{0},{1}] multiply(w, scales)
  row = s32[{0},{1}] iota(), iota_dimension=0
  column = s32[{0},{1}] iota(), iota_dimension=1
  keep = pred[{0},{1}] compare(row, column), direction={4}
  keeps = pred[{2},{3},{0},{1}] broadcast(keep), dimensions={{2,3}}
  low = f32[] constant({5})
  lows = f32[{2},{3},{0},{1}] broadcast(low), dimensions={{}}
  x = f32[{2},{3},{0},{1}] select(keeps, scaled, lows)
)",
                t, s, kv, group, direction, low);
}

// The same, of the last `width` columns up to that of the row.
inline std::string Windowed(int64_t t, int64_t s, int64_t kv, int64_t group, int64_t width) {
  std::string out = Masked(t, s, kv, group, "GE", "-2.3819763e+38");
  const std::string keep = Format("keep = pred[{0},{1}] compare(row, column), direction=GE", t, s);
  out.replace(out.find(keep), keep.size(),
              Format(R"(past = pred[{0},{1}] compare(row, column), direction=GE
  width = s32[] constant({2})
  widths = s32[{0},{1}] broadcast(width), dimensions={{}}
  least = s32[{0},{1}] subtract(row, widths)
  near = pred[{0},{1}] compare(column, least), direction=GT
  keep = pred[{0},{1}] and(past, near))",
                     t, s, width));
  return out;
}

inline plan::RowGroupOptions SmallBlocks(int64_t block_bytes) {
  return {
      .enabled = true, .least_saved = 1, .block_bytes = block_bytes, .few_rows = 8, .many_rows = 8, .bounded_parts = 0};
}

inline Result<std::unique_ptr<CpuPlan>> CompileRows(std::string_view text, const plan::RowGroupOptions& options,
                                                    int threads, plan::PlanLog* log = nullptr) {
  KRAFLA_ASSIGN(std::unique_ptr<Module> module, ParseHloText(text));
  KRAFLA_TRY(Verify(*module));
  KRAFLA_TRY(RunPipeline(*module));
  KRAFLA_ASSIGN(VerifiedModule verified, VerifiedModule::Make(std::move(module)));
  plan::PlanOptions plan_options;
  plan_options.row_groups = options;
  plan_options.fusion.log = log;
  plan_options.fusion.computed_operands = true;
  KRAFLA_ASSIGN(plan::ProgramPlan plan, plan::PlanProgram(std::move(verified), plan_options));
  // Without AVX-512 oneDNN sums in an order that depends on how many rows go together.
  const bool own_products = !cpu::native::HasAvx512Code();
  return CpuPlan::Create(std::move(plan), {.threads = threads, .own_products = own_products});
}

// Numbers from -2 to 2, of every type.
inline std::vector<std::vector<std::byte>> NumbersFor(const plan::ProgramPlan& plan) {
  std::mt19937 random(7);
  std::vector<std::vector<std::byte>> out;
  for (const Shape& shape : plan.arguments) {
    const auto width = static_cast<std::size_t>(StorageBytes(shape.element_type()));
    std::vector<std::byte> bytes(static_cast<std::size_t>(shape.byte_size()));
    for (std::size_t at = 0; at < bytes.size(); at += width) {
      const float number = static_cast<float>(random() % 4096) / 1024 - 2;
      uint32_t bits = shape.element_type() == ElementType::kPred ? random() % 2 : random() % 5;
      if (shape.element_type() == ElementType::kF32) bits = std::bit_cast<uint32_t>(number);
      if (shape.element_type() == ElementType::kF16) bits = FloatToF16(number);
      if (shape.element_type() == ElementType::kBF16) bits = std::bit_cast<uint32_t>(number) >> 16;
      std::memcpy(bytes.data() + at, &bits, width);
    }
    out.push_back(std::move(bytes));
  }
  return out;
}

inline std::vector<std::vector<std::byte>> RunRows(
    CpuPlan& executable, const std::function<void(std::vector<std::vector<std::byte>>&)>& change = {}) {
  auto arguments = NumbersFor(executable.plan());
  if (change) change(arguments);
  std::vector<const std::byte*> given;
  for (const auto& a : arguments) given.push_back(a.data());
  std::vector<std::vector<std::byte>> out;
  for (const Shape& r : executable.plan().results) out.emplace_back(static_cast<std::size_t>(r.byte_size()));
  std::vector<std::byte*> to;
  for (auto& r : out) to.push_back(r.data());
  const Result<> status = executable.Run(given, to);
  EXPECT_TRUE(status) << status.error().ToString();
  return out;
}

inline int GroupsOf(const plan::StepList& list) {
  int groups = 0;
  for (const plan::Step& step : list.steps) {
    groups += std::holds_alternative<plan::RowGroupStep>(step);
    if (const auto* loop = std::get_if<plan::WhileStep>(&step)) groups += GroupsOf(*loop->body);
  }
  return groups;
}

inline plan::RowGroupOptions Bounded(int64_t block_bytes) {
  plan::RowGroupOptions out = SmallBlocks(block_bytes);
  out.bounded_parts = 8;
  out.least_bound_flops = 1;
  return out;
}

inline bool IsBounded(const plan::ProgramPlan& plan) {
  return std::ranges::any_of(
      plan.steps.steps, [](const plan::Step& step) { return std::holds_alternative<plan::ConditionalStep>(step); });
}

}  // namespace krafla
