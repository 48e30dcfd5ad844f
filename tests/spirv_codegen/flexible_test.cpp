// SPDX-License-Identifier: Apache-2.0
// Products by matrices of any size (VK_NV_cooperative_matrix2): through spirv-val for every profile, and run where a
// device has them, which lavapipe does for subgroups. tensor_test.cpp runs what no device here does.
#include <cmath>

#include "dot_kernels.h"

namespace krafla::spirv::testing::flexible {
namespace {

constexpr EmitOptions kForced{.enable_flexible_matrix = true};

bool IsFlexible(const plan::KernelPlan& plan, const DeviceProfile& profile, const EmitOptions& options) {
  auto program = Emit(plan, profile, options);
  EXPECT_TRUE(program.has_value()) << plan.name;
  if (!program) return false;
  return std::ranges::any_of(program->kernels, [](const EmittedKernel& k) { return k.variant == "dot.coop2"; });
}

// `memory` on every device with such matrices, against the interpreter.
void CheckForced(const plan::KernelPlan& plan, const std::vector<Bytes>& memory, const Tuning* tuning = nullptr) {
  std::vector<Bytes> want = memory;
  RunKernel(plan, want);
  for (const auto& device : Devices()) {
    if (!device->profile().features.matrix_flexible_dimensions) continue;
    EmitOptions options = kForced;
    options.tuning = tuning;
    EXPECT_TRUE(IsFlexible(plan, device->profile(), options)) << plan.name;
    std::vector<Bytes> got = memory;
    auto run = device->Run(plan, got, options);
    ASSERT_TRUE(run.has_value()) << device->name() << ": " << run.error().ToString();
    ExpectSame(plan, got, want, device->name());
  }
}

// Small whole numbers make every order of summation exact.
void Check(const plan::KernelPlan& plan, const Tuning* tuning = nullptr) {
  std::vector<Bytes> memory;
  for (const plan::Binding& b : plan.bindings) memory.push_back(SmallIntegers(b.storage, b.element_count, 7));
  CheckForced(plan, memory, tuning);
}

const DotOptions kF16{.type = ElementType::kF16, .accumulate = ElementType::kF32, .result = ElementType::kF16};
const DotOptions kF16Wide{.type = ElementType::kF16, .accumulate = ElementType::kF32, .result = ElementType::kF32};
const DotOptions kBF16{.type = ElementType::kBF16, .accumulate = ElementType::kF32, .result = ElementType::kBF16};
const DotOptions kS8{.type = ElementType::kS8, .accumulate = ElementType::kS32, .result = ElementType::kS32};
const DotOptions kU8{.type = ElementType::kU8, .accumulate = ElementType::kU32, .result = ElementType::kU32};

// lavapipe compiles such a kernel in some seconds: a few shapes, in which sizes, types and layouts change together.
TEST(FlexibleTest, EdgesLayoutsAndTypes) {
  const Shape shapes[] = {{{}, 1, 40, 67}, {{}, 17, 8, 16}, {{}, 40, 17, 31}, {{}, 8, 1, 5}};
  const DotOptions types[] = {kF16, kS8, kF16Wide, kU8};
  for (int i = 0; i < 4; ++i) {
    DotOptions o = types[i];
    o.lhs = i % 2 == 0 ? Order::kNormal : Order::kTransposed;
    o.rhs = i / 2 == 0 ? Order::kNormal : Order::kTransposed;
    o.bias = i % 3 == 0;
    Check(Dot(shapes[i], o));
  }
}

TEST(FlexibleTest, BatchesAndOffsets) {
  Check(Dot({{2, 3}, 17, 12, 24}, kF16));
  DotOptions o = kS8;
  o.repeat_rhs = true;
  o.rhs = Order::kTransposed;
  Check(Dot({{3}, 16, 20, 12}, o));
  o = kF16;
  o.repeat_lhs = true;
  o.bias = true;
  o.lhs_offset = 5;
  o.rhs_offset = 3;
  Check(Dot({{2}, 20, 16, 36}, o));
}

// Tiles of other sizes, and steps of the depth.
TEST(FlexibleTest, Tiles) {
  Tuning tuning;
  tuning.coop.flexible_tiles = {{32, 8, 8, 0, 16}};
  DotOptions o = kF16;
  o.bias = true;
  Check(Dot({{}, 45, 20, 21}, o), &tuning);
}

// Nothing of a row or a depth past the end may reach a sum: zeros times infinity would be NaN.
TEST(FlexibleTest, NothingFromPastTheEnd) {
  const plan::KernelPlan plan = Dot({{}, 9, 9, 5}, kF16);
  std::vector<Bytes> memory;
  for (const plan::Binding& b : plan.bindings) memory.push_back(SmallIntegers(b.storage, b.element_count, 3, 1, 3));
  WriteElement(memory[0], ElementType::kF16, 5, std::bit_cast<uint32_t>(INFINITY));
  CheckForced(plan, memory);
}

TEST(FlexibleTest, ValidForEveryProfile) {
  for (const DotOptions& type : {kF16, kBF16, kS8, kU8}) {
    for (const Shape& s : {Shape{{}, 512, 512, 512}, Shape{{}, 2048, 2048, 256}, Shape{{2}, 130, 72, 24}}) {
      for (Order order : {Order::kNormal, Order::kTransposed}) {
        DotOptions o = type;
        o.bias = true;
        o.lhs = o.rhs = order;
        const plan::KernelPlan plan = Dot(s, o);
        ValidateEverywhere(plan);
        ValidateEverywhere(plan, kForced);
      }
    }
  }
}

TEST(FlexibleTest, TakenByTuningAndByRequest) {
  const plan::KernelPlan plan = Dot({{}, 512, 512, 512}, kF16), small = Dot({{}, 32, 512, 512}, kF16);
  for (const DeviceProfile& profile : Profiles()) {
    EXPECT_FALSE(IsFlexible(plan, profile, {})) << profile.name;
    Tuning tuning = TuningFor(profile);
    tuning.coop.flexible = true;
    EXPECT_EQ(IsFlexible(plan, profile, {.tuning = &tuning}),
              tuning.coop.used && profile.features.matrix_flexible_dimensions)
        << profile.name;
    EXPECT_EQ(IsFlexible(plan, profile, kForced), profile.features.matrix_flexible_dimensions) << profile.name;
    // As many rows as the tile is high, or half of them, are for matrices of subgroups.
    EXPECT_FALSE(IsFlexible(small, profile, {.tuning = &tuning})) << profile.name;
    EXPECT_EQ(IsFlexible(small, profile, kForced), profile.features.matrix_flexible_dimensions) << profile.name;
    EXPECT_FALSE(IsFlexible(plan, profile, {.enable_flexible_matrix = true, .allow_cooperative_matrix = false}));
    auto without = profile.WithDisabled(std::vector<std::string>{"coopmat2"});
    ASSERT_TRUE(without.has_value());
    EXPECT_FALSE(IsFlexible(plan, *without, kForced)) << profile.name;
  }
}

// NVIDIA's own driver, asked by tuning, gets the largest tile of which there are enough, and none that is mostly edge.
TEST(FlexibleTest, TilesBySize) {
  const auto chosen = [](const Shape& s, const DotOptions& o) {
    for (const DeviceProfile& profile : Profiles()) {
      if (!profile.features.matrix_workgroup_scope) continue;
      Tuning tuning = TuningFor(profile);
      tuning.coop.flexible = true;
      auto program = Emit(Dot(s, o), profile, {.tuning = &tuning});
      if (program) return program->kernels[0].variant + " " + program->kernels[0].reason.substr(0, 9);
    }
    return std::string();
  };
  DotOptions turned = kF16;
  turned.rhs = Order::kTransposed;
  EXPECT_EQ(chosen({{}, 2048, 4096, 1024}, kBF16), "dot.coop2 128 x 256");
  EXPECT_EQ(chosen({{}, 1000, 1000, 100}, turned), "dot.coop2 128 x 128");
  EXPECT_EQ(chosen({{}, 300, 500, 100}, kS8), "dot.coop2 64 x 64 b");
  EXPECT_EQ(chosen({{}, 32, 1000, 100}, kF16), "dot.coop 32 x 32 b");
}

// Tensors begin at 16 bytes: other operands are for matrices of subgroups, which are staged.
TEST(FlexibleTest, TensorsAreAligned) {
  for (const DeviceProfile& profile : Profiles()) {
    if (!profile.features.matrix_tensor_addressing) continue;
    DotOptions o = kF16;
    o.lhs_offset = 8;
    EXPECT_TRUE(IsFlexible(Dot({{}, 512, 512, 512}, o), profile, kForced));
    EXPECT_TRUE(IsFlexible(Dot({{3}, 512, 512, 511}, kF16), profile, kForced));
    o.lhs_offset = 4;
    EXPECT_FALSE(IsFlexible(Dot({{}, 512, 512, 512}, o), profile, kForced));
    EXPECT_FALSE(IsFlexible(Dot({{3}, 65, 129, 127}, kF16), profile, kForced));
    EXPECT_TRUE(IsFlexible(Dot({{}, 65, 129, 127}, kF16), profile, kForced));
  }
}

}  // namespace
}  // namespace krafla::spirv::testing::flexible
