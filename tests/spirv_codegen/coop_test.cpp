// SPDX-License-Identifier: Apache-2.0
// Contractions by cooperative matrices: through spirv-val for every profile, and run where a device has them.
#include <set>

#include "dot_kernels.h"

namespace krafla::spirv::testing {
namespace {

constexpr EmitOptions kForced{.enable_cooperative_matrix = true};

bool UsesMatrices(const plan::KernelPlan& plan, const DeviceProfile& profile, const EmitOptions& options) {
  auto program = Emit(plan, profile, options);
  EXPECT_TRUE(program.has_value()) << plan.name;
  if (!program) return false;
  for (const EmittedKernel& k : program->kernels) {
    if (k.uses_cooperative_matrix) return true;
  }
  return false;
}

// Runs with matrices forced; small whole numbers make every order of summation exact. One device after the other takes
// its turn: their drivers compile a shader for each shape, which is what takes time here.
void Check(const plan::KernelPlan& plan, bool as_gpu = false, const Tuning* tuning = nullptr) {
  static std::size_t turn = 0;
  ++turn;
  std::size_t number = 0;
  std::vector<Bytes> memory;
  for (const plan::Binding& b : plan.bindings) memory.push_back(SmallIntegers(b.storage, b.element_count, 7));
  std::vector<Bytes> want = memory;
  RunKernel(plan, want);
  for (const auto& device : Devices()) {
    if (!device->profile().features.cooperative_matrix || number++ % 2 != turn % 2) continue;
    EmitOptions options = kForced;
    options.treat_as_gpu = as_gpu;
    options.tuning = tuning;
    EXPECT_TRUE(UsesMatrices(plan, device->profile(), options)) << plan.name;
    std::vector<Bytes> got = memory;
    auto run = device->Run(plan, got, options);
    ASSERT_TRUE(run.has_value()) << device->name() << ": " << run.error().ToString();
    ExpectSame(plan, got, want, device->name() + (as_gpu ? ", as a GPU" : ""));
  }
}

const DotOptions kF16{.type = ElementType::kF16, .accumulate = ElementType::kF32, .result = ElementType::kF16};
const DotOptions kF16Wide{.type = ElementType::kF16, .accumulate = ElementType::kF32, .result = ElementType::kF32};
const DotOptions kBF16{.type = ElementType::kBF16, .accumulate = ElementType::kF32, .result = ElementType::kBF16};
const DotOptions kS8{.type = ElementType::kS8, .accumulate = ElementType::kS32, .result = ElementType::kS32};
const DotOptions kU8{.type = ElementType::kU8, .accumulate = ElementType::kU32, .result = ElementType::kU32};
// The bits of a signed and an unsigned 32-bit sum are the same.
const DotOptions kS8Unsigned{.type = ElementType::kS8, .accumulate = ElementType::kU32, .result = ElementType::kU32};

TEST(CoopTest, EveryAlignment) {
  const int64_t sizes[] = {1, 3, 8, 17, 32, 67}, depths[] = {1, 2, 5, 8, 16, 20, 31, 67};
  // Every pair of sizes of m and n, with a depth, a type and a layout that change at different paces.
  int number = 0;
  for (int64_t m : sizes) {
    for (int64_t n : sizes) {
      const DotOptions types[] = {kF16, kS8, kF16Wide, kU8, kS8Unsigned};
      DotOptions o = types[number % 5];
      o.lhs = number % 2 == 0 ? Order::kNormal : Order::kTransposed;
      o.rhs = number / 3 % 2 == 0 ? Order::kNormal : Order::kTransposed;
      o.bias = number % 3 == 0;
      Check(Dot({{}, m, n, depths[(number / 8 + number) % 8]}, o));
      ++number;
    }
  }
}

TEST(CoopTest, LayoutsOffsetsAndBatches) {
  int number = 0;
  for (Order lhs : {Order::kNormal, Order::kTransposed}) {
    for (Order rhs : {Order::kNormal, Order::kTransposed}) {
      auto type = [&] {
        DotOptions o = ++number % 2 == 0 ? kF16 : kS8;
        o.lhs = lhs;
        o.rhs = rhs;
        return o;
      };
      Check(Dot({{2, 3}, 17, 12, 24}, type()));
      DotOptions o = type();
      o.repeat_rhs = true;
      Check(Dot({{3}, 16, 20, 12}, o));
      o = type();
      o.repeat_lhs = true;
      o.bias = true;
      o.lhs_offset = 5;
      o.rhs_offset = 3;
      Check(Dot({{2}, 20, 16, 36}, o));
    }
  }
}

// The tiles and the prefetch of GPUs, on the devices that are here.
TEST(CoopTest, AsOnGpus) {
  for (const DotOptions& type : {kF16, kS8}) {
    for (Order order : {Order::kNormal, Order::kTransposed}) {
      DotOptions o = type;
      o.lhs = o.rhs = order;
      o.bias = true;
      Check(Dot({{2}, 70, 90, 40}, o), true);
      if (order == Order::kNormal) Check(Dot({{}, 512, 256, 24}, o), true);
    }
  }
}

// What the tunings of vendors differ in, but for the size of tiles, which drivers take long to compile here: loops with
// their first step apart, constants in addresses and none. Depths of several steps, with a last one that is whole,
// partial, or made of rows that are no whole words.
TEST(CoopTest, LoopsAndAddressesOfTunings) {
  std::vector<Tuning> tunings(3);
  tunings[0].coop.most_constant_offset = 0;
  tunings[0].coop.first_step_apart = true;
  tunings[1].coop.first_step_apart = true;
  tunings[2].coop.most_constant_offset = 300;
  for (Tuning& t : tunings) t.coop.tiles = {{32, 32, 2, 2, 0}};
  tunings[1].coop.tiles = {{32, 16, 1, 2, 0}};
  const Shape shapes[] = {{{}, 64, 64, 128}, {{2}, 33, 37, 99}, {{}, 32, 48, 104}, {{}, 40, 36, 70}, {{}, 29, 32, 131}};
  std::size_t number = 0;
  for (const Shape& shape : shapes) {
    for (const DotOptions& type : {kF16, kS8}) {
      DotOptions o = type;
      o.lhs = number % 3 == 0 ? Order::kTransposed : Order::kNormal;
      o.rhs = number % 4 < 2 ? Order::kNormal : Order::kTransposed;
      Check(Dot(shape, o), true, &tunings[number++ % tunings.size()]);
    }
  }
}

// `memory` on every device with cooperative matrices, against the interpreter.
void CheckForced(const plan::KernelPlan& plan, const std::vector<Bytes>& memory) {
  std::vector<Bytes> want = memory;
  RunKernel(plan, want);
  for (const auto& device : Devices()) {
    if (!device->profile().features.cooperative_matrix) continue;
    std::vector<Bytes> got = memory;
    auto run = device->Run(plan, got, kForced);
    ASSERT_TRUE(run.has_value()) << run.error().ToString();
    ExpectSame(plan, got, want, device->name());
  }
}

TEST(CoopTest, LargestTileOfGpus) {
  const plan::KernelPlan plan = Dot({{64}, 65, 66, 9}, kF16Wide);
  for (const auto& device : Devices()) {
    if (!device->profile().features.cooperative_matrix) continue;
    auto program = Emit(plan, device->profile(), {.enable_cooperative_matrix = true, .treat_as_gpu = true});
    ASSERT_TRUE(program.has_value());
    EXPECT_NE(program->kernels[0].reason.find("128 x 128 blocks"), std::string::npos) << program->kernels[0].reason;
  }
  Check(plan, true);
}

// Nothing of a row or a depth past the end may reach a sum: zeros times infinity would be NaN.
TEST(CoopTest, NothingFromPastTheEnd) {
  DotOptions o = kF16;
  o.lhs_offset = 3;
  const plan::KernelPlan plan = Dot({{}, 9, 9, 5}, o);
  std::vector<Bytes> memory;
  for (const plan::Binding& b : plan.bindings) memory.push_back(SmallIntegers(b.storage, b.element_count, 3, 1, 3));
  // Before the operand, and beside the first row's five elements, which end where the second row begins.
  for (int64_t i : {0, 1, 2}) WriteElement(memory[0], ElementType::kF16, i, std::bit_cast<uint32_t>(INFINITY));
  CheckForced(plan, memory);
  // An infinity in one row stays there.
  WriteElement(memory[0], ElementType::kF16, 3, std::bit_cast<uint32_t>(INFINITY));
  CheckForced(plan, memory);
}

// Sums run in f32: in f16 these would be infinite, or stop at 2048.
TEST(CoopTest, SumsAreWide) {
  const plan::KernelPlan plan = Dot({{}, 8, 8, 4096}, kF16Wide);
  std::vector<Bytes> memory;
  for (const plan::Binding& b : plan.bindings) memory.push_back(SmallIntegers(b.storage, b.element_count, 3, 17, 19));
  CheckForced(plan, memory);
}

TEST(CoopTest, ValidForEveryProfile) {
  std::set<std::string> seen;
  for (const DotOptions& type : {kF16, kF16Wide, kBF16, kS8, kU8}) {
    for (const Shape& s :
         {Shape{{}, 512, 512, 512}, Shape{{}, 2048, 2048, 256}, Shape{{2}, 33, 65, 17}, Shape{{}, 64, 48, 100}}) {
      DotOptions o = type;
      o.bias = true;
      const plan::KernelPlan plan = Dot(s, o);
      ValidateEverywhere(plan);
      ValidateEverywhere(plan, kForced);
      for (const DeviceProfile& profile : Profiles()) {
        if (UsesMatrices(plan, profile, {})) seen.insert(std::string(ElementTypeName(o.type)) + " " + profile.name);
      }
    }
  }
  // Without being asked: on GPUs that report shapes, and on nothing else.
  for (const DeviceProfile& profile : Profiles()) {
    const bool gpu = !profile.is_cpu && !profile.cooperative_matrices.empty();
    EXPECT_EQ(seen.contains("f16 " + profile.name), gpu) << profile.name;
    const bool bf16 = gpu && profile.features.bfloat16_cooperative_matrix;
    EXPECT_EQ(seen.contains("bf16 " + profile.name), bf16) << profile.name;
  }
}

TEST(CoopTest, SwitchedOff) {
  const plan::KernelPlan plan = Dot({{}, 512, 512, 512}, kF16);
  for (const DeviceProfile& profile : Profiles()) {
    EXPECT_FALSE(UsesMatrices(plan, profile, {.allow_cooperative_matrix = false})) << profile.name;
    auto without = profile.WithDisabled(std::vector<std::string>{"coopmat"});
    ASSERT_TRUE(without.has_value());
    EXPECT_FALSE(UsesMatrices(plan, *without, kForced)) << profile.name;
  }
}

}  // namespace
}  // namespace krafla::spirv::testing
