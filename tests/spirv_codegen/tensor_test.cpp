// SPDX-License-Identifier: Apache-2.0
// What NVIDIA's own driver gets for products, on a machine that does as the extensions' words say (tensor_machine.h):
// no driver here has matrices of a workgroup or loads through tensor layouts.
#include "dot_kernels.h"
#include "spirv/unified1/spirv.hpp11"
#include "tensor_machine.h"

namespace krafla::spirv::testing::tensors {
namespace {

// Descriptors, which are all that the machine knows of buffers.
DeviceProfile TensorProfile() {
  for (const DeviceProfile& profile : Profiles()) {
    if (!profile.features.matrix_tensor_addressing) continue;
    auto without = profile.WithDisabled(std::vector<std::string>{"bda"});
    EXPECT_TRUE(without.has_value());
    if (without) return *without;
  }
  ADD_FAILURE() << "no profile has tensor addressing";
  return {};
}

void Check(const plan::KernelPlan& plan, const std::vector<FlexibleTile>& tiles = {}) {
  static const DeviceProfile profile = TensorProfile();
  Tuning tuning = TuningFor(profile);
  if (!tiles.empty()) tuning.coop.flexible_tiles = tiles;
  auto program = Emit(plan, profile, {.enable_flexible_matrix = true, .tuning = &tuning});
  ASSERT_TRUE(program.has_value()) << program.error().ToString();
  ASSERT_EQ(program->kernels.size(), 1u);
  const EmittedKernel& kernel = program->kernels[0];
  ASSERT_EQ(kernel.variant, "dot.coop2") << kernel.reason;
  ASSERT_NE(kernel.reason.find("from where they lie"), std::string::npos) << kernel.reason;
  EXPECT_EQ(Validate(kernel.words, profile), "");
  std::vector<Bytes> memory;
  for (const plan::Binding& b : plan.bindings) memory.push_back(SmallIntegers(b.storage, b.element_count, 7));
  std::vector<Bytes> want = memory, got = memory;
  RunKernel(plan, want);
  std::vector<Bytes*> bindings;
  for (const EmittedKernel::BufferUse& use : kernel.buffers)
    bindings.push_back(&got[static_cast<std::size_t>(use.buffer)]);
  ASSERT_EQ(RunModule(kernel.words, program->dispatches[0].grid, bindings), "") << plan.name << ": " << kernel.reason;
  for (std::size_t i = 0; i < got.size(); ++i) got[i].resize(want[i].size());
  ExpectSame(plan, got, want, plan.name);
}

const DotOptions kF16{.type = ElementType::kF16, .accumulate = ElementType::kF32, .result = ElementType::kF32};
const DotOptions kBF16{.type = ElementType::kBF16, .accumulate = ElementType::kF32, .result = ElementType::kF32};
const DotOptions kS8{.type = ElementType::kS8, .accumulate = ElementType::kS32, .result = ElementType::kS32};
const DotOptions kU8{.type = ElementType::kU8, .accumulate = ElementType::kU32, .result = ElementType::kU32};

TEST(TensorTest, EdgesAndLayouts) {
  int number = 0;
  for (Order lhs : {Order::kNormal, Order::kTransposed}) {
    for (Order rhs : {Order::kNormal, Order::kTransposed}) {
      // Inside the edges, at one edge and at both, below one tile; depths that end with a step and within one.
      for (const Shape& s : {Shape{{}, 64, 128, 64}, Shape{{}, 70, 130, 131}, Shape{{}, 128, 67, 192},
                             Shape{{}, 9, 5, 3}, Shape{{}, 65, 64, 1}, Shape{{}, 1, 100, 70}}) {
        const DotOptions types[] = {kF16, kS8, kBF16, kU8};
        DotOptions o = types[number++ % 4];
        o.lhs = lhs;
        o.rhs = rhs;
        Check(Dot(s, o), {{64, 64, 128, 0}});
      }
    }
  }
}

TEST(TensorTest, TilesAndSteps) {
  const std::vector<FlexibleTile> tiles[] = {{{128, 64, 256, 0, 32}}, {{32, 128, 256, 0, 64}}, {{32, 32, 128, 0, 32}}};
  for (const std::vector<FlexibleTile>& t : tiles) {
    DotOptions o = kF16;
    o.rhs = Order::kTransposed;
    Check(Dot({{}, 140, 150, 70}, o), t);
  }
}

TEST(TensorTest, BatchesAndOffsets) {
  Check(Dot({{2, 3}, 40, 24, 16}, kF16), {{32, 32, 128, 0}});
  DotOptions o = kS8;
  o.repeat_rhs = true;
  o.lhs = o.rhs = Order::kTransposed;
  o.lhs_offset = 16;
  o.rhs_offset = 32;
  Check(Dot({{3}, 40, 24, 48}, o), {{32, 32, 128, 0}});
}

// The machine says what is wrong: a clamp that is not there, and memory that was not written.
TEST(TensorTest, TheMachineSeesFaults) {
  const DeviceProfile profile = TensorProfile();
  const plan::KernelPlan plan = Dot({{}, 70, 130, 131}, kF16);
  auto program = Emit(plan, profile, {.enable_flexible_matrix = true});
  ASSERT_TRUE(program.has_value());
  std::vector<Bytes> memory;
  for (const plan::Binding& b : plan.bindings) memory.push_back(SmallIntegers(b.storage, b.element_count, 7));
  std::vector<Bytes*> bindings;
  for (const EmittedKernel::BufferUse& use : program->kernels[0].buffers)
    bindings.push_back(&memory[static_cast<std::size_t>(use.buffer)]);
  const std::vector<uint32_t>& words = program->kernels[0].words;
  EXPECT_EQ(RunModule(words, program->dispatches[0].grid, bindings), "");
  // Each instruction in its turn becomes nothing, where it stores or waits.
  int seen = 0;
  for (std::size_t at = 5; at < words.size(); at += words[at] >> 16) {
    const auto op = static_cast<spv::Op>(words[at] & 0xffff);
    if (op != spv::Op::OpStore && op != spv::Op::OpControlBarrier) continue;
    std::vector<uint32_t> without(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(at));
    without.insert(without.end(), words.begin() + static_cast<std::ptrdiff_t>(at + (words[at] >> 16)), words.end());
    if (RunModule(without, program->dispatches[0].grid, bindings) != "") ++seen;
  }
  EXPECT_GE(seen, 2);
}

}  // namespace
}  // namespace krafla::spirv::testing::tensors
