// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "test_kernels.h"

namespace krafla::spirv::testing {
namespace {

using plan::ConvKernel;
using plan::NodeId;
using plan::ProgramBuilder;

struct ConvShape {
  int64_t batch = 1, inputs = 1, outputs = 1;  // features, of all groups
  std::vector<int64_t> spatial;
  Window window;
  int64_t groups = 1, batch_groups = 1;
  std::string name;
};

// Array layouts: batch/feature/spatial of the activations, and where the kernel's features lie.
// kFeaturesFirst: as the gradients of networks with channels first have them, input features and kernels' inputs
// outermost.
enum class ConvLayout { kChannelsLast, kChannelsFirst, kFeaturesFirst };

plan::KernelPlan Conv(const ConvShape& s, ConvLayout layout, ElementType type = ElementType::kF32,
                      ElementType accumulate = ElementType::kF32, ElementType result = ElementType::kF32) {
  ConvKernel k;
  ConvolutionAttributes& a = k.attributes;
  const auto rank = static_cast<int64_t>(s.spatial.size()) + 2;
  a.window = s.window;
  a.feature_group_count = s.groups;
  a.batch_group_count = s.batch_groups;
  const bool last = layout == ConvLayout::kChannelsLast;
  a.input_batch = a.output_batch = 0;
  a.input_feature = a.output_feature = last ? rank - 1 : 1;
  a.kernel_input_feature = last ? rank - 2 : 1;
  a.kernel_output_feature = last ? rank - 1 : 0;
  if (layout == ConvLayout::kFeaturesFirst) {
    a.input_batch = 1, a.input_feature = 0;
    a.kernel_input_feature = 0, a.kernel_output_feature = 1;
  }
  k.input_dims.resize(static_cast<std::size_t>(rank));
  k.kernel_dims.resize(static_cast<std::size_t>(rank));
  k.output_dims.resize(static_cast<std::size_t>(rank));
  auto set = [](Dims& dims, int64_t d, int64_t v) { dims[static_cast<std::size_t>(d)] = v; };
  set(k.input_dims, a.input_batch, s.batch);
  set(k.input_dims, a.input_feature, s.inputs);
  set(k.output_dims, a.output_batch, s.batch / s.batch_groups);
  set(k.output_dims, a.output_feature, s.outputs);
  set(k.kernel_dims, a.kernel_input_feature, s.inputs / s.groups);
  set(k.kernel_dims, a.kernel_output_feature, s.outputs);
  for (std::size_t d = 0; d < s.spatial.size(); ++d) {
    const auto n = static_cast<int64_t>(d);
    a.input_spatial.push_back(last ? n + 1 : n + 2);
    a.output_spatial.push_back(last ? n + 1 : n + 2);
    a.kernel_spatial.push_back(last ? n : n + 2);
    const WindowDim& w = s.window[d];
    const int64_t dilated = (s.spatial[d] - 1) * w.base_dilation + 1;
    const int64_t reach = (w.size - 1) * w.window_dilation + 1;
    set(k.input_dims, a.input_spatial[d], s.spatial[d]);
    set(k.kernel_dims, a.kernel_spatial[d], w.size);
    set(k.output_dims, a.output_spatial[d], (dilated + w.padding_low + w.padding_high - reach) / w.stride + 1);
  }
  k.input_type = k.kernel_type = type;
  k.accumulate_type = accumulate;
  k.result_type = result;
  auto count = [](const Dims& dims) {
    int64_t n = 1;
    for (int64_t d : dims) n *= d;
    return n;
  };
  ProgramBuilder b(k.output_dims);
  b.AddBuffer(type, count(k.input_dims), false);
  b.AddBuffer(type, count(k.kernel_dims), false);
  const int bias = b.AddBuffer(result, s.outputs, false);
  const int out = b.AddBuffer(result, count(k.output_dims), true);
  std::vector<plan::IndexId> index;
  for (std::size_t d = 0; d < k.output_dims.size(); ++d) index.push_back(b.space().Iter(static_cast<int>(d)));
  const NodeId sum = b.Hlo(Opcode::kAdd, result,
                           {b.Param(plan::ComputeType(result), 0, (uint64_t{1} << rank) - 1),
                            b.Load(bias, result, index[static_cast<std::size_t>(a.output_feature)])});
  b.AddStore({out, b.space().Linearize(index, k.output_dims), sum, result});
  k.epilogue = std::move(b).Finish();
  plan::KernelPlan plan;
  plan.bindings = {{type, count(k.input_dims), true, false},
                   {type, count(k.kernel_dims), true, false},
                   {result, s.outputs, true, false},
                   {result, count(k.output_dims), false, true}};
  plan.name = "conv." + s.name + (last ? ".nhwc." : ".nchw.") + std::string(ElementTypeName(type));
  plan.body = std::move(k);
  return plan;
}

WindowDim W(int64_t size, int64_t stride = 1, int64_t pad = 0) {
  WindowDim w;
  w.size = size;
  w.stride = stride;
  w.padding_low = w.padding_high = pad;
  return w;
}
WindowDim Odd(int64_t size, int64_t stride, int64_t low, int64_t high, int64_t dilation, int64_t base, bool reversal) {
  WindowDim w = W(size, stride);
  w.padding_low = low;
  w.padding_high = high;
  w.window_dilation = dilation;
  w.base_dilation = base;
  w.reversal = reversal;
  return w;
}

const std::vector<ConvShape>& Shapes() {
  static const std::vector<ConvShape> shapes = {
      {1, 3, 16, {20, 24}, {W(3, 1, 1), W(3, 1, 1)}, 1, 1, "3x3"},
      {2, 16, 32, {14, 14}, {W(3, 2, 1), W(3, 2, 1)}, 1, 1, "3x3s2"},
      {1, 32, 64, {12, 12}, {W(1), W(1)}, 1, 1, "1x1"},
      {1, 32, 32, {17, 9}, {W(3, 1, 1), W(3, 1, 1)}, 32, 1, "depthwise"},
      {1, 8, 24, {10, 12}, {W(3, 1, 1), W(3, 1, 1)}, 4, 1, "grouped"},
      {1, 3, 8, {32, 32}, {W(7, 2, 3), W(7, 2, 3)}, 1, 1, "stem"},
      {4, 6, 12, {9, 8}, {W(2), W(2)}, 1, 2, "batch_groups"},
      {1, 5, 7, {11, 6}, {Odd(3, 2, 1, 2, 2, 1, false), Odd(2, 1, 0, 1, 1, 3, true)}, 1, 1, "dilated"},
      {1, 4, 4, {8, 8}, {Odd(4, 1, 2, 2, 1, 2, true), Odd(4, 1, 2, 2, 1, 2, true)}, 1, 1, "transposed"},
      {2, 4, 8, {40}, {W(5, 1, 2)}, 1, 1, "1d"},
      {1, 2, 4, {6, 5, 7}, {W(3, 1, 1), W(2), W(3, 2, 0)}, 1, 1, "3d"},
      {1, 16, 10, {5, 5}, {Odd(3, 1, -1, -1, 1, 1, false), W(3)}, 1, 1, "cropped"},
      {3, 20, 1, {6, 4}, {W(6), W(4)}, 1, 1, "whole"},
      {2, 64, 48, {9, 10}, {W(3, 1, 1), W(3, 1, 1)}, 1, 1, "wide"},
  };
  return shapes;
}

TEST(ConvTest, ShapesAndLayouts) {
  for (const ConvShape& s : Shapes()) {
    for (ConvLayout layout : {ConvLayout::kChannelsLast, ConvLayout::kChannelsFirst}) CheckOnIntegers(Conv(s, layout));
  }
}

// Weight gradients have windows as large as an image: more positions than one workgroup takes. As products of matrices,
// and directly.
TEST(ConvTest, WindowsInParts) {
  // Rearranged, where each kernel has scratch of its own.
  CheckOnIntegers(
      Conv({2, 4, 8, {257, 258}, {W(257, 1, 1), W(257, 1)}, 1, 1, "rearranged_parts"}, ConvLayout::kFeaturesFirst));

  const int64_t size = 257;
  for (const ConvShape& s : {ConvShape{1, 4, 8, {size, size + 1}, {W(size, 1, 1), W(size, 1)}, 1, 1, "parts"},
                             ConvShape{1, 4, 3, {size + 1, size}, {W(size), W(size)}, 1, 1, "few_features"}}) {
    for (ConvLayout layout : {ConvLayout::kChannelsLast, ConvLayout::kChannelsFirst}) {
      CheckOnIntegers(Conv(s, layout));
    }
  }
}

// Those of small images have few sums for a GPU: the window is cut where one workgroup could take it too.
TEST(ConvTest, WindowsThatFillGpus) {
  for (const ConvShape& s : {ConvShape{1, 8, 16, {40, 41}, {W(40, 1, 1), W(40, 1)}, 1, 1, "image"},
                             ConvShape{1, 4, 3, {41, 40}, {W(40), W(40)}, 1, 1, "few_features"},
                             ConvShape{2, 8, 8, {30, 31}, {W(29, 1, 1), W(30, 1)}, 8, 1, "depthwise"}}) {
    for (ConvLayout layout : {ConvLayout::kChannelsLast, ConvLayout::kChannelsFirst}) {
      const plan::KernelPlan plan = Conv(s, layout);
      CheckAsGpu(plan, 3);
      CheckAsGpu(Conv(s, layout, ElementType::kBF16, ElementType::kF32, ElementType::kF32), 3);
      for (const DeviceProfile& profile : Profiles()) {
        if (profile.is_cpu) continue;
        const auto program = Emit(plan, profile);
        ASSERT_TRUE(program) << program.error().ToString();
        EXPECT_EQ(program->kernels.back().variant, "join") << plan.name << " for " << profile.name;
      }
    }
  }
}

// Small windows written out, and in turns over their outer dimensions.
TEST(ConvTest, SmallWindowsInTurns) {
  for (const int64_t elements : {1, 2, 3, 9}) {
    Tuning tuning;
    tuning.conv.direct_written_out = elements;
    for (const ConvShape& s : {ConvShape{1, 8, 8, {9, 10}, {W(3, 1, 1), W(3, 2, 1)}, 8, 1, "depthwise"},
                               ConvShape{2, 4, 8, {11}, {W(5, 1, 2)}, 4, 1, "depthwise_1d"},
                               ConvShape{1, 3, 2, {6, 7}, {W(1), W(2)}, 1, 1, "few_features"}})
      for (ConvLayout layout : {ConvLayout::kChannelsLast, ConvLayout::kChannelsFirst})
        CheckAsGpu(Conv(s, layout), 3, &tuning);
  }
}

TEST(ConvTest, FeaturesFirst) {
  const ConvShape many{2, 8, 16, {9, 10}, {W(3, 1, 1), W(3, 1, 1)}, 1, 1, "3x3"},
      groups{4, 16, 32, {8, 9}, {W(3, 1, 1), W(2)}, 2, 1, "two_groups"};
  for (const ConvShape& s : {many, groups}) {
    CheckOnIntegers(Conv(s, ConvLayout::kFeaturesFirst));
    CheckOnIntegers(Conv(s, ConvLayout::kFeaturesFirst, ElementType::kBF16, ElementType::kF32, ElementType::kBF16));
    CheckOnIntegers(Conv(s, ConvLayout::kFeaturesFirst, ElementType::kS8, ElementType::kS32, ElementType::kS32));
  }
}

TEST(ConvTest, Types) {
  const ConvShape& s = Shapes()[1];
  for (ConvLayout layout : {ConvLayout::kChannelsLast, ConvLayout::kChannelsFirst}) {
    CheckOnIntegers(Conv(s, layout, ElementType::kBF16, ElementType::kF32, ElementType::kBF16));
    CheckOnIntegers(Conv(s, layout, ElementType::kF16, ElementType::kF32, ElementType::kF16));
    CheckOnIntegers(Conv(s, layout, ElementType::kS8, ElementType::kS32, ElementType::kS32));
    CheckOnIntegers(Conv(s, layout, ElementType::kF64, ElementType::kF64, ElementType::kF64));
  }
}

// Cooperative matrices, forced, wherever the convolution is a product of matrices.
// On the host's processors what is read many times is made wide before, with its padding.
TEST(ConvTest, NarrowElementsAreMadeWide) {
  using enum ElementType;
  const ConvShape shapes[] = {
      {1, 32, 32, {17, 9}, {W(3, 1, 1), W(3, 1, 1)}, 32, 1, "depthwise"},
      {2, 6, 6, {13, 20}, {W(7, 1, 3), W(7, 2, 3)}, 6, 1, "depthwise7"},
      {1, 8, 8, {11, 9}, {Odd(3, 1, 2, -1, 2, 1, true), Odd(3, 1, 1, 2, 1, 2, false)}, 8, 1, "odd"},
      {3, 4, 8, {50}, {W(9, 1, 4)}, 4, 1, "1d"},
  };
  for (const ConvShape& shape : shapes) {
    for (const ConvLayout layout : {ConvLayout::kChannelsLast, ConvLayout::kChannelsFirst}) {
      for (const ElementType type : {kBF16, kF16, kS8, kU8}) {
        const bool whole = type == kS8 || type == kU8;
        const plan::KernelPlan plan = Conv(shape, layout, type, whole ? kS32 : kF32, whole ? kS32 : type);
        CheckOnIntegers(plan);
        for (const auto& device : Devices()) {
          if (!device->profile().is_cpu || !CanEmit(plan, device->profile())) continue;
          const auto program = Emit(plan, device->profile());
          ASSERT_TRUE(program.has_value()) << program.error().ToString();
          // Channels that are last, each with a kernel of its own, are read by words as they are.
          EXPECT_EQ(program->kernels.at(0).variant == "conv.widen", layout == ConvLayout::kChannelsFirst) << plan.name;
        }
      }
    }
  }
}

TEST(ConvTest, CooperativeMatrices) {
  std::vector<ConvShape> shapes = Shapes();
  shapes.push_back({2, 16, 32, {6, 7}, {W(3, 1, 1), W(3, 1, 1)}, 2, 1, "two_groups"});
  // More positions than a number has bits; windows that the kernel is turned around in.
  shapes.push_back({1, 16, 24, {9, 10}, {W(6), Odd(6, 1, 0, 0, 1, 1, true)}, 1, 1, "36_positions"});
  shapes.push_back({1, 16, 16, {9, 7}, {W(6, 1, 2), W(6, 1, 2)}, 1, 1, "36_positions_padded"});
  shapes.push_back({1, 40, 20, {7, 6}, {Odd(3, 1, 1, 1, 1, 1, true), Odd(2, 1, 1, 0, 2, 1, false)}, 1, 1, "reversed"});
  const std::set<std::string> taken{"3x3",
                                    "3x3s2",
                                    "1x1",
                                    "stem",
                                    "1d",
                                    "cropped",
                                    "wide",
                                    "two_groups",
                                    "36_positions",
                                    "reversed",
                                    "36_positions_padded"};
  int number = 0;
  for (const ConvShape& s : shapes) {
    if (!taken.contains(s.name)) continue;
    for (ConvLayout layout : {ConvLayout::kChannelsLast, ConvLayout::kChannelsFirst}) {
      ++number;
      const bool bytes = (number / 2 + number) % 2 == 0;
      const plan::KernelPlan plan = bytes ? Conv(s, layout, ElementType::kS8, ElementType::kS32, ElementType::kS32)
                                          : Conv(s, layout, ElementType::kF16, ElementType::kF32, ElementType::kF16);
      const EmitOptions forced{.enable_cooperative_matrix = true};
      ValidateEverywhere(plan, forced);
      std::vector<Bytes> memory;
      for (const plan::Binding& b : plan.bindings)
        memory.push_back(SmallIntegers(b.storage, b.element_count, 9, -2, 2));
      std::vector<Bytes> want = memory;
      RunKernel(plan, want);
      for (const auto& device : Devices()) {
        if (!device->profile().features.cooperative_matrix || !device->profile().features.buffer_device_address)
          continue;
        auto program = Emit(plan, device->profile(), forced);
        ASSERT_TRUE(program.has_value());
        // Windows of one element are products (conv_pointwise.cpp).
        EXPECT_EQ(program->kernels.back().variant, s.name == "1x1" ? "dot.coop" : "conv.coop") << plan.name;
        std::vector<Bytes> got = memory;
        auto run = device->Run(plan, got, forced);
        ASSERT_TRUE(run.has_value()) << plan.name << ": " << run.error().ToString();
        ExpectSame(plan, got, want, device->name());
      }
    }
  }
}

}  // namespace
}  // namespace krafla::spirv::testing
