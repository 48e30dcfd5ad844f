// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "dot_kernels.h"

namespace krafla::spirv::testing {
namespace {

TEST(DotTest, ShapesAndLayouts) {
  const Shape shapes[] = {{{}, 1, 1, 1},      {{}, 5, 7, 3},     {{}, 64, 64, 64},   {{2}, 40, 36, 20},
                          {{}, 1, 128, 64},   {{}, 128, 1, 64},  {{}, 3, 200, 128},  {{}, 130, 70, 33},
                          {{2, 3}, 17, 4, 8}, {{}, 4, 512, 100}, {{}, 100, 96, 256}, {{}, 16, 1000, 48},
                          {{}, 9, 9, 0}};
  for (const Shape& s : shapes) {
    for (Order lhs : {Order::kNormal, Order::kTransposed}) {
      for (Order rhs : {Order::kNormal, Order::kTransposed}) {
        CheckOnIntegers(Dot(s, {.lhs = lhs, .rhs = rhs, .bias = s.m % 2 == 1}));
      }
    }
  }
}

TEST(DotTest, Types) {
  const ElementType f32 = ElementType::kF32, s32 = ElementType::kS32;
  const DotOptions cases[] = {
      {.type = ElementType::kF16, .accumulate = f32, .result = ElementType::kF16, .bias = true},
      {.type = ElementType::kBF16, .accumulate = f32, .result = f32},
      {.type = ElementType::kBF16, .accumulate = f32, .result = ElementType::kBF16, .bias = true},
      {.type = ElementType::kS8, .accumulate = s32, .result = s32},
      {.type = ElementType::kU8, .accumulate = ElementType::kU32, .result = ElementType::kU32},
      {.type = ElementType::kS32, .accumulate = s32, .result = s32, .bias = true},
      {.type = ElementType::kF64, .accumulate = ElementType::kF64, .result = ElementType::kF64},
      {.type = ElementType::kS64, .accumulate = ElementType::kS64, .result = ElementType::kS64},
      {.type = ElementType::kF8E4M3FN, .accumulate = f32, .result = f32},
  };
  for (DotOptions o : cases) {
    for (Order rhs : {Order::kNormal, Order::kTransposed}) {
      o.rhs = rhs;
      for (const Shape& s : {Shape{{}, 33, 40, 64}, Shape{{2}, 1, 64, 128}, Shape{{}, 64, 32, 32}}) {
        CheckOnIntegers(Dot(s, o));
      }
    }
  }
}

int CountLoads(const std::vector<uint32_t>& words) {
  constexpr std::size_t kHeader = 5;
  constexpr uint32_t kOpLoad = 61;
  int out = 0;
  for (std::size_t i = kHeader; i < words.size(); i += words[i] >> 16) out += (words[i] & 0xffff) == kOpLoad ? 1 : 0;
  return out;
}

// Narrow operands whose rows and columns begin anywhere in words.
TEST(DotTest, WordsAround) {
  Tuning tuning;
  tuning.memory.words_around = true;
  tuning.dot.shared_tiles = {};
  tuning.dot.column_slices = 1;
  tuning.coop.used = false;
  for (const ElementType type : {ElementType::kS8, ElementType::kU8, ElementType::kBF16, ElementType::kF16}) {
    const ElementType sums = IsFloat(type) ? ElementType::kF32 : plan::ComputeType(type);
    for (const Order lhs : {Order::kNormal, Order::kTransposed})
      for (const Order rhs : {Order::kNormal, Order::kTransposed})
        for (const Shape& s : {Shape{{}, 9, 37, 19}, Shape{{3}, 1, 35, 21}, Shape{{}, 33, 6, 7}}) {
          const plan::KernelPlan plan = Dot(s, {.lhs = lhs,
                                                .rhs = rhs,
                                                .type = type,
                                                .accumulate = sums,
                                                .result = sums,
                                                .lhs_offset = 3,
                                                .rhs_offset = 1});
          CheckAsGpu(plan, 5, &tuning);
          Tuning one_by_one = tuning;
          one_by_one.memory.words_around = false;
          for (const DeviceProfile& profile : Profiles()) {
            if (!CanEmit(plan, profile)) continue;
            const auto loads = [&](const Tuning& t) {
              const auto emitted = Emit(plan, profile, {.treat_as_gpu = true, .tuning = &t});
              EXPECT_TRUE(emitted.has_value());
              return emitted ? CountLoads(emitted->kernels[0].words) : 0;
            };
            EXPECT_LT(loads(tuning), loads(one_by_one)) << plan.name << " for " << profile.name;
          }
        }
  }
}

TEST(DotTest, EveryVariantIsTaken) {
  std::set<std::string> seen;
  for (DeviceProfile profile : Profiles()) {
    for (const auto& [m, n] : {std::pair<int64_t, int64_t>{64, 64}, {1, 256}, {256, 1}, {512, 512}}) {
      for (Order rhs : {Order::kNormal, Order::kTransposed}) {
        auto program = Emit(Dot({{}, m, n, 256}, {.rhs = rhs}), profile);
        ASSERT_TRUE(program.has_value());
        for (const EmittedKernel& k : program->kernels) seen.insert(k.variant);
      }
    }
  }
  const std::set<std::string> all{"dot.columns", "dot.pack", "dot.packed_panel", "dot.panel", "dot.rows", "dot.tile"};
  EXPECT_EQ(seen, all);
}

// The GPU's tile kernel, on the devices that are here.
TEST(DotTest, SharedTilesOnCpuDevices) {
  for (const Shape& s :
       {Shape{{}, 64, 64, 64}, Shape{{2}, 70, 100, 40}, Shape{{}, 200, 130, 33}, Shape{{}, 256, 512, 64}}) {
    for (Order lhs : {Order::kNormal, Order::kTransposed}) { CheckAsGpu(Dot(s, {.lhs = lhs, .bias = true}), 5); }
  }
}

// Few rows with columns side by side, on the devices that are here: whole and broken blocks of columns, depths with and
// without a rest, batches, and sums that are split over workgroups too.
TEST(DotTest, ColumnSlicesOnCpuDevices) {
  for (const Shape& s : {Shape{{}, 1, 64, 256}, Shape{{3}, 2, 37, 131}, Shape{{}, 8, 33, 258}, Shape{{}, 5, 96, 2053}})
    CheckAsGpu(Dot(s, {.bias = true}), 5);
}

// Few rows along the depth: sums in four parts to one, four columns to one, in chains and without.
TEST(DotTest, RowsInFewValues) {
  for (const int64_t values : {1, 30, 48, 64, 1024}) {
    Tuning tuning;
    tuning.dot.rows_values = values;
    for (const Shape& s : {Shape{{}, 1, 37, 256}, Shape{{2}, 2, 40, 4224}, Shape{{}, 3, 9, 4096}, Shape{{}, 4, 22, 512},
                           Shape{{}, 30, 4, 128}})
      for (const ElementType type : {ElementType::kF32, ElementType::kBF16})
        CheckAsGpu(Dot(s, {.rhs = Order::kTransposed, .type = type, .bias = true}), 3, &tuning);
  }
}

// A sum, or few of them, of which each is a subgroup's on the host's cores; of more a lane has one.
TEST(DotTest, SingleSums) {
  for (const Shape& s : {Shape{{}, 1, 1, 256}, Shape{{}, 1, 1, 4224}, Shape{{}, 1, 1, 40000}, Shape{{3}, 1, 1, 260},
                         Shape{{9}, 1, 1, 64}})
    for (const ElementType type : {ElementType::kF32, ElementType::kBF16})
      for (const bool bias : {false, true}) CheckOnIntegers(Dot(s, {.type = type, .bias = bias}), 5);
}

// Depths that one workgroup does not take: two parts and a rest, the epilogue after all of them.
TEST(DotTest, DepthsInParts) {
  const int64_t k = (1 << 18) + 3;
  for (const plan::KernelPlan& plan :
       {Dot({{}, 3, 5, k}, {.bias = true}), Dot({{2}, 9, 8, k}, {.lhs = Order::kTransposed}),
        Dot({{}, 2, 8, k + 1}, {.rhs = Order::kTransposed}),
        Dot({{}, 4, 4, k}, {.type = ElementType::kS8, .accumulate = ElementType::kS32, .result = ElementType::kS32}),
        Dot({{}, 1, 1, k}, {.type = ElementType::kBF16, .result = ElementType::kBF16})}) {
    CheckOnIntegers(plan);
  }
  // As GPUs get them: tiles in shared memory.
  CheckAsGpu(Dot({{}, 16, 16, k}, {}), 3);
}

// Sums that are too few to fill a GPU, over depths that one workgroup could take.
TEST(DotTest, DepthsThatFillGpus) {
  for (const plan::KernelPlan& plan :
       {Dot({{}, 16, 16, 3001}, {.bias = true}), Dot({{2}, 20, 24, 1000}, {.lhs = Order::kTransposed}),
        Dot({{}, 1, 1, 5000}, {.type = ElementType::kBF16, .result = ElementType::kBF16}),
        Dot({{}, 33, 17, 700},
            {.type = ElementType::kS8, .accumulate = ElementType::kS32, .result = ElementType::kS32})})
    CheckAsGpu(plan, 3);
}

// Not a check: prints GFLOP/s where KRAFLA_BENCH is set.
TEST(DotTest, Speed) {
  if (getenv("KRAFLA_BENCH") == nullptr) GTEST_SKIP() << "KRAFLA_BENCH is not set";
  for (const Shape& s : {Shape{{}, 256, 256, 256}, Shape{{}, 512, 512, 512}, Shape{{}, 1024, 1024, 1024},
                         Shape{{}, 1, 4096, 4096}, Shape{{}, 4, 1024, 1024}}) {
    for (Order rhs : {Order::kNormal, Order::kTransposed}) {
      for (const auto& device : Devices()) {
        const plan::KernelPlan plan = Dot(s, {.rhs = rhs});
        std::vector<Bytes> memory;
        for (const plan::Binding& b : plan.bindings) memory.push_back(SmallIntegers(b.storage, b.element_count, 5));
        double seconds = 0;
        auto run = device->Run(plan, memory, {}, &seconds);
        ASSERT_TRUE(run.has_value()) << run.error().ToString();
        printf("%-28s %-30s %8.3f ms %7.2f GFLOP/s %7.2f GB/s\n", device->name().c_str(), plan.name.c_str(),
               seconds * 1e3, 2e-9 * static_cast<double>(s.m * s.n * s.k) / seconds,
               4e-9 * static_cast<double>(s.m * s.k + s.n * s.k + s.m * s.n) / seconds);
      }
    }
  }
}

}  // namespace
}  // namespace krafla::spirv::testing
