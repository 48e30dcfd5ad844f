// SPDX-License-Identifier: Apache-2.0
// Convolutions of small whole numbers, exact in every order, against plain loops.
#include "contraction_cases.h"
#include "cpu_fallback/kernels/long_window_conv.h"

namespace krafla {
namespace {

struct ConvCase {
  int64_t batch, in, out;
  Dims input, window, strides, low, high, window_dilation, base_dilation;
  struct Extra {
    int64_t groups = 1, batch_groups = 1;
    bool reversal = false, channels_last = false;
    bool is_gradient = false;  // images and output channels are the last dimensions: of a kernel's gradient
    ElementType input_type = ElementType::kF32, sum = ElementType::kF32, result = ElementType::kF32;
    After after = After::kStore;
  } x = {};
};

// The convolution of a case, but for its epilogue.
plan::ConvKernel ConvOf(const ConvCase& c) {
  plan::ConvKernel conv;
  ConvolutionAttributes& a = conv.attributes;
  const std::size_t rank = c.input.size();
  a.feature_group_count = c.x.groups, a.batch_group_count = c.x.batch_groups;
  const int64_t r = static_cast<int64_t>(rank);
  a.input_batch = 0, a.input_feature = c.x.channels_last ? r + 1 : 1;
  a.output_batch = 0, a.output_feature = c.x.channels_last ? r + 1 : 1;
  a.kernel_output_feature = c.x.channels_last ? r + 1 : 0, a.kernel_input_feature = c.x.channels_last ? r : 1;
  if (c.x.is_gradient) {
    a.input_batch = r + 1, a.input_feature = 0;
    a.kernel_output_feature = r + 1, a.kernel_input_feature = 0;
    a.output_batch = r, a.output_feature = r + 1;
  }
  conv.input_dims = conv.kernel_dims = conv.output_dims = Dims(rank + 2, 1);
  auto set = [](Dims& dims, int64_t d, int64_t v) { dims[static_cast<std::size_t>(d)] = v; };
  set(conv.input_dims, a.input_batch, c.batch), set(conv.input_dims, a.input_feature, c.in);
  set(conv.kernel_dims, a.kernel_output_feature, c.out),
      set(conv.kernel_dims, a.kernel_input_feature, c.in / c.x.groups);
  set(conv.output_dims, a.output_batch, c.batch / c.x.batch_groups), set(conv.output_dims, a.output_feature, c.out);
  for (std::size_t d = 0; d < rank; ++d) {
    const int64_t first = c.x.channels_last || c.x.is_gradient ? 1 : 2;
    a.input_spatial.push_back(first + static_cast<int64_t>(d));
    a.output_spatial.push_back((c.x.is_gradient ? 0 : first) + static_cast<int64_t>(d));
    a.kernel_spatial.push_back((c.x.is_gradient ? 1 : c.x.channels_last ? 0 : 2) + static_cast<int64_t>(d));
    WindowDim w{c.window[d], c.strides[d], c.low[d], c.high[d], c.window_dilation[d], c.base_dilation[d], c.x.reversal};
    a.window.push_back(w);
    set(conv.input_dims, a.input_spatial[d], c.input[d]);
    set(conv.kernel_dims, a.kernel_spatial[d], c.window[d]);
    const int64_t spread = (c.input[d] - 1) * w.base_dilation + 1 + w.padding_low + w.padding_high;
    const int64_t reach = (w.size - 1) * w.window_dilation + 1;
    set(conv.output_dims, a.output_spatial[d], (spread - reach) / w.stride + 1);
  }
  conv.input_type = conv.kernel_type = c.x.input_type;
  conv.accumulate_type = c.x.sum, conv.result_type = c.x.result;
  return conv;
}

void CheckConv(const ConvCase& c) {
  std::mt19937 random(5);
  plan::ConvKernel conv = ConvOf(c);
  const ConvolutionAttributes& a = conv.attributes;
  const std::size_t rank = c.input.size();
  Dims out_spatial;
  for (int64_t d : a.output_spatial) out_spatial.push_back(conv.output_dims[static_cast<std::size_t>(d)]);
  const int64_t in_count = Product(conv.input_dims), kernel_count = Product(conv.kernel_dims),
                out_count = Product(conv.output_dims);
  const int64_t last = conv.output_dims.back();
  const plan::ProgramBuffer buffers[] = {{c.x.input_type, in_count, false},
                                         {c.x.input_type, kernel_count, false},
                                         {c.x.result, out_count, true},
                                         {c.x.result, last, false}};
  conv.epilogue = MakeEpilogue(conv.output_dims, c.x.sum, c.x.result, c.x.after, buffers);
  AlignedBytes input = WholeNumbers(c.x.input_type, in_count, random),
               kernel = WholeNumbers(c.x.input_type, kernel_count, random);
  AlignedBytes bias = WholeNumbers(c.x.result, last, random),
               got(static_cast<std::size_t>(out_count * StorageBytes(c.x.result))), want = got;
  Dims in_strides = RowMajorStrides(conv.input_dims), kernel_strides = RowMajorStrides(conv.kernel_dims),
       out_strides = RowMajorStrides(conv.output_dims);
  auto at = [](const Dims& d, int64_t i) { return d[static_cast<std::size_t>(i)]; };
  Dims o(rank, 0), w(rank, 0);
  const int64_t group_in = c.in / c.x.groups;
  for (int64_t n = 0; n < c.batch / c.x.batch_groups; ++n)
    for (int64_t f = 0; f < c.out; ++f) {
      std::fill(o.begin(), o.end(), 0);
      do {
        double sum = 0;
        std::fill(w.begin(), w.end(), 0);
        do {
          bool inside = true;
          int64_t in_at = 0, kernel_at = f * at(kernel_strides, a.kernel_output_feature);
          for (std::size_t d = 0; d < rank; ++d) {
            const int64_t k = c.x.reversal ? c.window[d] - 1 - w[d] : w[d];
            int64_t t = o[d] * c.strides[d] + w[d] * c.window_dilation[d] - c.low[d];
            if (t < 0 || t % c.base_dilation[d] != 0 || t / c.base_dilation[d] >= c.input[d]) inside = false;
            in_at += t / c.base_dilation[d] * at(in_strides, a.input_spatial[d]);
            kernel_at += k * at(kernel_strides, a.kernel_spatial[d]);
          }
          if (!inside) continue;
          const int64_t group = f / (c.out / (c.x.groups * c.x.batch_groups));
          const int64_t batch = n + (c.x.batch_groups > 1 ? group * (c.batch / c.x.batch_groups) : 0);
          for (int64_t i = 0; i < group_in; ++i) {
            const int64_t feature = c.x.groups > 1 ? group * group_in + i : i;
            sum +=
                ReadNumber(c.x.input_type, input.data(),
                           in_at + batch * at(in_strides, a.input_batch) + feature * at(in_strides, a.input_feature)) *
                ReadNumber(c.x.input_type, kernel.data(), kernel_at + i * at(kernel_strides, a.kernel_input_feature));
          }
        } while (NextIndex({w.data(), w.size()}, c.window));
        int64_t out_at = n * at(out_strides, a.output_batch) + f * at(out_strides, a.output_feature);
        for (std::size_t d = 0; d < rank; ++d) out_at += o[d] * at(out_strides, a.output_spatial[d]);
        if (c.x.after == After::kBiasRelu)
          sum = std::max(0.0, sum + ReadNumber(c.x.result, bias.data(), out_at % last));
        WriteNumber(c.x.result, want.data(), out_at, sum);
      } while (NextIndex({o.data(), o.size()}, out_spatial));
    }
  plan::KernelPlan plan;
  plan.name = "conv";
  for (const plan::ProgramBuffer& b : buffers)
    plan.bindings.push_back({b.storage, b.element_count, !b.written, b.written});
  plan.body = std::move(conv);
  std::byte* pointers[] = {input.data(), kernel.data(), got.data(), bias.data()};
  RunKernel(plan, pointers);
  ExpectSame(c.x.result, got, want,
             Format("conv {} in {} out {} groups {} rank {} last {} reversal {} {}", c.batch, c.in, c.out, c.x.groups,
                    rank, c.x.channels_last, c.x.reversal, ElementTypeName(c.x.input_type)));
}

TEST(ConvKernelTest, PlainAndPaddedAndStrided) {
  for (bool last : {false, true})
    for (After after : {After::kStore, After::kBiasRelu}) {
      CheckConv(
          {2, 3, 8, {14, 15}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {.channels_last = last, .after = after}});
      CheckConv(
          {1, 16, 20, {9, 9}, {3, 2}, {2, 2}, {0, 1}, {1, 0}, {1, 1}, {1, 1}, {.channels_last = last, .after = after}});
      CheckConv(
          {1, 32, 16, {7, 7}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, {1, 1}, {.channels_last = last, .after = after}});
      CheckConv(
          {1, 4, 4, {12, 12}, {3, 3}, {1, 1}, {2, 2}, {2, 2}, {2, 2}, {1, 1}, {.channels_last = last, .after = after}});
      CheckConv({2, 5, 6, {30}, {5}, {2}, {2}, {2}, {1}, {1}, {.channels_last = last, .after = after}});
      CheckConv({1,
                 3,
                 4,
                 {5, 6, 7},
                 {2, 3, 2},
                 {1, 2, 1},
                 {0, 1, 1},
                 {1, 1, 0},
                 {1, 1, 1},
                 {1, 1, 1},
                 {.channels_last = last, .after = after}});
    }
}

// Results of a few positions along the innermost dimension, and many along another one.
TEST(ConvKernelTest, NarrowAndLong) {
  for (bool last : {false, true})
    for (int64_t columns : {1, 2, 4, 5}) {
      CheckConv({2, 16, 24, {40, columns}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {.channels_last = last}});
      CheckConv({2, 6, 8, {70, columns}, {4, 2}, {2, 1}, {2, 0}, {1, 1}, {1, 1}, {1, 1}, {.channels_last = last}});
      CheckConv({1,
                 8,
                 6,
                 {3, 50, columns},
                 {2, 5, 2},
                 {1, 1, 1},
                 {1, 4, 1},
                 {0, 2, 1},
                 {1, 2, 1},
                 {1, 1, 1},
                 {.channels_last = last}});
      CheckConv({2,
                 8,
                 12,
                 {40, columns},
                 {3, 2},
                 {1, 1},
                 {1, 1},
                 {1, 1},
                 {1, 1},
                 {1, 1},
                 {.groups = 2, .channels_last = last}});
    }
}

TEST(ConvKernelTest, GroupsDilationsReversalNegativePadding) {
  for (bool last : {false, true}) {
    CheckConv(
        {1, 8, 8, {10, 10}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {.groups = 8, .channels_last = last}});
    CheckConv(
        {2, 8, 16, {10, 10}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {.groups = 4, .channels_last = last}});
    CheckConv({1, 8, 16, {6, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {.groups = 8, .channels_last = last}});
    CheckConv(
        {6, 4, 6, {6, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {.batch_groups = 3, .channels_last = last}});
    CheckConv({1, 4, 6, {6, 6}, {4, 4}, {1, 1}, {2, 2}, {2, 2}, {1, 1}, {2, 2}, {.channels_last = last}});
    CheckConv(
        {1, 4, 6, {6, 6}, {2, 3}, {1, 1}, {1, 1}, {1, 1}, {2, 1}, {3, 2}, {.reversal = true, .channels_last = last}});
    CheckConv({1, 4, 6, {9, 9}, {3, 3}, {1, 1}, {-1, 2}, {1, -2}, {1, 1}, {1, 1}, {.channels_last = last}});
  }
}

// Convolutions that oneDNN gets in parts: over the images, the rows or the output channels.
TEST(ConvKernelTest, Parts) {
  for (bool last : {false, true})
    for (After after : {After::kStore, After::kBiasRelu}) {
      CheckConv({7,
                 8,
                 40,
                 {14, 15},
                 {3, 3},
                 {1, 1},
                 {1, 1},
                 {1, 1},
                 {1, 1},
                 {1, 1},
                 {.channels_last = last, .after = after}});
      CheckConv({3,
                 8,
                 40,
                 {24, 21},
                 {3, 3},
                 {2, 1},
                 {0, 1},
                 {2, 1},
                 {1, 1},
                 {1, 1},
                 {.channels_last = last, .after = after}});
      CheckConv({1,
                 16,
                 20,
                 {41, 30},
                 {5, 3},
                 {2, 1},
                 {3, 1},
                 {4, 2},
                 {2, 1},
                 {1, 1},
                 {.channels_last = last, .after = after}});
      CheckConv({1,
                 33,
                 200,
                 {5, 7},
                 {3, 3},
                 {1, 1},
                 {1, 1},
                 {1, 1},
                 {1, 1},
                 {1, 1},
                 {.channels_last = last, .after = after}});
      CheckConv({1,
                 64,
                 144,
                 {4, 4},
                 {1, 1},
                 {1, 1},
                 {0, 0},
                 {0, 0},
                 {1, 1},
                 {1, 1},
                 {.channels_last = last, .after = after}});
      CheckConv({1,
                 64,
                 64,
                 {40, 40},
                 {3, 3},
                 {1, 1},
                 {1, 1},
                 {1, 1},
                 {1, 1},
                 {1, 1},
                 {.groups = 64, .channels_last = last, .after = after}});
      CheckConv({1,
                 32,
                 32,
                 {33, 31},
                 {3, 3},
                 {1, 1},
                 {1, 1},
                 {1, 1},
                 {1, 1},
                 {1, 1},
                 {.groups = 4, .channels_last = last, .after = after}});
      CheckConv({1, 16, 32, {2000}, {5}, {1}, {2}, {2}, {1}, {1}, {.channels_last = last, .after = after}});
      CheckConv({1,
                 8,
                 16,
                 {12, 13, 14},
                 {3, 3, 3},
                 {1, 1, 1},
                 {1, 1, 1},
                 {1, 1, 1},
                 {1, 1, 1},
                 {1, 1, 1},
                 {.channels_last = last, .after = after}});
    }
}

// Sums that oneDNN makes in parts: along the window's rows, channels and other dimensions, also such that see nothing
// but padding; and long products.
TEST(ConvKernelTest, LongSums) {
  for (bool last : {false, true}) {
    const After after = last ? After::kStore : After::kBiasRelu;
    CheckConv(
        {3, 64, 32, {5, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {.channels_last = last, .after = after}});
    CheckConv(
        {1, 300, 128, {5, 4}, {3, 3}, {2, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {.channels_last = last, .after = after}});
    CheckConv({2,
               64,
               32,
               {16, 15},
               {16, 14},
               {1, 1},
               {1, 1},
               {1, 2},
               {1, 1},
               {1, 1},
               {.channels_last = last, .after = after}});
    CheckConv({1,
               24,
               16,
               {12, 17},
               {7, 40},
               {2, 2},
               {9, 20},
               {9, 21},
               {2, 1},
               {1, 1},
               {.channels_last = last, .after = after}});
    CheckConv(
        {2, 16, 16, {4, 4}, {9, 9}, {1, 1}, {8, 8}, {8, 8}, {1, 1}, {1, 1}, {.channels_last = last, .after = after}});
    CheckConv({1, 32, 64, {90}, {50}, {1}, {30}, {31}, {1}, {1}, {.channels_last = last, .after = after}});
    CheckConv({1,
               16,
               16,
               {20, 20},
               {17, 17},
               {1, 1},
               {7, 7},
               {7, 7},
               {1, 1},
               {1, 1},
               {.groups = 8, .channels_last = last, .after = after}});
  }
}

// What is computed as several ordinary convolutions.
TEST(ConvKernelTest, Pieces) {
  using enum ElementType;
  for (bool last : {false, true})
    for (ElementType type : {kF32, kF64, kF16, kBF16, kS32}) {
      const ElementType sum = type == kF64 ? kF64 : type == kS32 ? kS32 : kF32;
      const auto with = [&](ConvCase::Extra x) {
        x.channels_last = last, x.input_type = type, x.sum = sum, x.result = sum;
        return x;
      };
      // Gradients of strided convolutions: phases of odd and even extents, also such that see nothing.
      CheckConv({2, 8, 16, {9, 8}, {3, 3}, {1, 1}, {1, 2}, {2, 1}, {1, 1}, {2, 2}, with({.reversal = true})});
      CheckConv({2, 8, 16, {7, 5}, {4, 5}, {1, 1}, {3, 2}, {3, 5}, {1, 1}, {3, 2}, with({.reversal = true})});
      CheckConv({2, 8, 16, {9, 9}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, {1, 1}, {2, 2}, with({})});
      CheckConv({1, 8, 16, {9, 9}, {3, 4}, {2, 3}, {2, 2}, {2, 2}, {2, 1}, {3, 2}, with({})});
      CheckConv({1, 8, 16, {20}, {5}, {1}, {4}, {3}, {1}, {4}, with({.reversal = true})});
      CheckConv({1, 8, 8, {5, 4, 3}, {2, 3, 2}, {1, 1, 1}, {1, 2, 1}, {1, 1, 1}, {1, 1, 1}, {2, 2, 2}, with({})});
      CheckConv(
          {2, 16, 16, {9, 9}, {3, 3}, {1, 1}, {1, 2}, {2, 1}, {1, 1}, {2, 2}, with({.groups = 4, .reversal = true})});
      // Nothing but padding on one side; more of the input than is read.
      CheckConv({1, 8, 16, {9, 9}, {3, 3}, {1, 1}, {5, -3}, {-4, 6}, {1, 1}, {1, 1}, with({})});
      CheckConv({1, 8, 16, {10, 11}, {1, 1}, {2, 3}, {0, 0}, {0, 0}, {1, 1}, {1, 1}, with({})});
      CheckConv({6, 9, 6, {12, 11}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, with({.batch_groups = 3})});
      // More than three spatial dimensions.
      CheckConv({1,
                 4,
                 8,
                 {4, 3, 4, 3},
                 {2, 2, 2, 2},
                 {1, 1, 1, 1},
                 {1, 0, 1, 0},
                 {0, 1, 0, 1},
                 {1, 1, 1, 1},
                 {1, 1, 1, 1},
                 with({})});
    }
  for (bool last : {false, true}) {
    CheckConv({1,
               8,
               16,
               {8, 8},
               {3, 3},
               {1, 1},
               {1, 1},
               {1, 1},
               {1, 1},
               {1, 1},
               {.reversal = true, .channels_last = last, .input_type = kS8, .sum = kS32, .result = kS32}});
    CheckConv({1,
               8,
               16,
               {8, 8},
               {3, 3},
               {1, 1},
               {1, 1},
               {1, 2},
               {1, 1},
               {2, 2},
               {.channels_last = last, .input_type = kS8, .sum = kS32, .result = kS32}});
  }
}

// Groups of the batch are lanes of vectors from 16 groups on: whole vectors and rests of them, several images and
// output channels of a group, arrays in which the groups lie side by side and others, windows that reach over the edge.
TEST(ConvKernelTest, ManyBatchGroups) {
  for (const bool last : {false, true})
    for (const int64_t groups : {16, 37, 64}) {
      const ConvCase::Extra x{.batch_groups = groups, .channels_last = last};
      ConvCase::Extra reversed = x, rounded = x, wide = x;
      reversed.reversal = true;
      rounded.input_type = ElementType::kBF16;
      wide.input_type = wide.sum = wide.result = ElementType::kF64;
      CheckConv({groups, 3, groups, {9, 8}, {7, 6}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, x});
      CheckConv({groups, 2, 2 * groups, {9, 8}, {4, 3}, {1, 1}, {1, 0}, {0, 2}, {2, 2}, {1, 1}, x});
      CheckConv({2 * groups, 2, groups, {9, 8}, {4, 3}, {1, 2}, {-1, 4}, {0, 5}, {2, 3}, {1, 1}, x});
      CheckConv({groups, 2, groups, {9, 8}, {4, 3}, {2, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, reversed});
      CheckConv({groups, 2, groups, {9, 8}, {4, 3}, {2, 1}, {1, 1}, {1, 1}, {1, 1}, {2, 1}, x});
      CheckConv({groups, 3, groups, {300}, {300}, {1}, {2}, {1}, {1}, {1}, x});
      CheckConv({groups, 2, groups, {3, 4, 5}, {2, 3, 4}, {1, 1, 1}, {1, 0, 1}, {0, 1, 1}, {1, 1, 1}, {1, 1, 1}, x});
      CheckConv({groups, 3, groups, {9, 8}, {7, 6}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, wide});
      CheckConv({groups, 3, groups, {9, 8}, {7, 6}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, rounded});
    }
}

// Few output channels a group over long rows, whose positions are the lanes: rows that are no whole vectors, the
// longest dimension in any place, windows that reach over the edge by more than a row, sums of more products than are
// added up in turn.
TEST(ConvKernelTest, FewFeaturesOverLongRows) {
  using enum ElementType;
  struct Types {
    ElementType input, sum;
  };
  for (bool last : {false, true})
    for (const Types& t :
         {Types{kF64, kF64}, {kS32, kS32}, {kU32, kU32}, {kS64, kS64}, {kS8, kS32}, {kU8, kU32}, {kS16, kS32}}) {
      const auto with = [&](ConvCase::Extra x) {
        x.channels_last = last, x.input_type = t.input, x.sum = t.sum, x.result = t.sum;
        return x;
      };
      const auto after = last ? After::kBiasRelu : After::kStore;
      CheckConv({1, 1, 1, {9, 43}, {5, 3}, {1, 1}, {2, 1}, {2, 1}, {1, 1}, {1, 1}, with({})});
      CheckConv({2, 3, 2, {43, 9}, {3, 4}, {1, 1}, {1, 2}, {2, 1}, {1, 1}, {1, 1}, with({.after = after})});
      CheckConv({2, 6, 3, {5, 80}, {3, 7}, {2, 3}, {1, 9}, {2, 11}, {2, 1}, {1, 1}, with({.groups = 3})});
      CheckConv({1, 4, 4, {50}, {5}, {2}, {4}, {3}, {3}, {1}, with({.groups = 2, .reversal = true})});
      CheckConv({1, 2, 3, {5, 40}, {3, 4}, {1, 1}, {2, 1}, {3, 2}, {1, 1}, {2, 3}, with({.reversal = true})});
      CheckConv({1, 3, 4, {3, 70, 4}, {2, 3, 2}, {1, 2, 1}, {1, 0, 1}, {1, 2, 0}, {1, 2, 1}, {1, 1, 1}, with({})});
      CheckConv({1, 3, 1, {400}, {300}, {1}, {20}, {30}, {1}, {1}, with({})});
      CheckConv({2, 2, 24, {3, 90}, {2, 5}, {1, 2}, {1, 2}, {0, 2}, {1, 1}, {1, 1}, with({.after = after})});
      // Several rows at once, which see the edges in turn, or nothing at all.
      CheckConv({2, 1, 1, {70, 33}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, with({.after = after})});
      CheckConv({2, 2, 3, {50, 17}, {4, 3}, {1, 1}, {9, -1}, {11, 2}, {3, 2}, {1, 1}, with({})});
      CheckConv({1, 1, 2, {5, 40, 20}, {2, 3, 3}, {1, 1, 1}, {1, 2, 1}, {1, 3, 1}, {1, 1, 1}, {1, 1, 1}, with({})});
      CheckConv({4, 2, 4, {6, 50}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, with({.batch_groups = 4})});
    }
}

// Depthwise ones with the positions as lanes: padding on one side, dilations, steps, a window longer than the signal, a
// kernel that is read where it lies or is packed, pictures whose rows are many vectors, and copies that a task makes
// for itself or shares.
TEST(ConvKernelTest, DepthwiseOverRows) {
  for (bool last : {false, true})
    for (ElementType type : {ElementType::kF32, ElementType::kF64, ElementType::kF16}) {
      const bool is_half = type == ElementType::kF16;
      const ConvCase::Extra x{.groups = 48,
                              .channels_last = last,
                              .input_type = type,
                              .sum = is_half ? ElementType::kF32 : type,
                              .result = type,
                              .after = last ? After::kStore : After::kBiasRelu};
      CheckConv({1, 48, 48, {501}, {31}, {1}, {15}, {15}, {1}, {1}, x});
      CheckConv({3, 48, 48, {130}, {4}, {1}, {3}, {0}, {1}, {1}, x});
      CheckConv({2, 48, 48, {200}, {15}, {1}, {28}, {28}, {4}, {1}, x});
      CheckConv({2, 48, 48, {200}, {5}, {3}, {2}, {2}, {2}, {1}, x});
      CheckConv({1, 48, 48, {20}, {31}, {1}, {15}, {15}, {1}, {1}, x});
      CheckConv({1, 48, 48, {3, 90}, {3, 5}, {1, 1}, {1, 2}, {1, 2}, {1, 1}, {1, 1}, x});
      CheckConv({1, 48, 48, {41, 37}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, x});
      ConvCase::Extra reversed = x;
      reversed.reversal = true;
      CheckConv({1, 48, 48, {100}, {7}, {1}, {3}, {3}, {1}, {1}, reversed});
    }
  CheckConv({1, 2, 2, {70000}, {3}, {1}, {1}, {1}, {1}, {1}, {.groups = 2}});
}

// Windows as long as a picture, with every number of rows in registers; what lies in memory otherwise is copied, and so
// are columns that are no whole vectors.
TEST(ConvKernelTest, LongWindows) {
  using enum ElementType;
  for (ElementType type : {kF32, kF64, kF16})
    for (int layout : {0, 1, 2}) {
      const auto with = [&](ConvCase::Extra x) {
        x.channels_last = layout == 1, x.is_gradient = layout == 2, x.input_type = type;
        x.sum = x.result = type == kF64 ? kF64 : kF32;
        return x;
      };
      for (int64_t images : {3, 8, 9, 10, 12, 15, 23})
        CheckConv({images, 3, 32, {9, 8}, {9, 8}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, with({})});
      CheckConv(
          {17, 2, 40, {15, 13}, {7, 6}, {1, 1}, {1, 2}, {1, 1}, {2, 2}, {1, 1}, with({.after = After::kBiasRelu})});
      CheckConv({16, 4, 17, {11, 12}, {10, 11}, {2, 1}, {2, 0}, {1, 0}, {1, 1}, {1, 1}, with({})});
      CheckConv({9, 5, 48, {40}, {33}, {3}, {6}, {5}, {1}, {1}, with({.reversal = true})});
      CheckConv({8, 2, 20, {6, 7, 5}, {6, 6, 4}, {1, 1, 1}, {1, 0, 1}, {0, 1, 1}, {1, 1, 1}, {1, 1, 1}, with({})});
      // Of few images and channels: along the depth, and of few sums.
      for (int64_t channels : {1, 2, 3, 7})
        CheckConv({2, 3, channels, {3, 900}, {3, 873}, {1, 2}, {1, 5}, {1, 3}, {1, 1}, {1, 1}, with({})});
      CheckConv({2, 3, 16, {40, 41}, {39, 40}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, {1, 1}, with({})});
      // Along copies, of which another dimension is the last.
      for (int64_t channels : {1, 3, 6})
        CheckConv({3, 3, channels, {900, 4}, {873, 3}, {2, 1}, {5, 1}, {3, 1}, {1, 2}, {1, 1}, with({})});
      CheckConv({2,
                 2,
                 2,
                 {3, 700, 5},
                 {2, 650, 4},
                 {1, 1, 2},
                 {1, 0, 1},
                 {0, 2, 1},
                 {2, 1, 2},
                 {1, 1, 1},
                 with({.reversal = true})});
    }
  // More than the L2 cache has.
  CheckConv({24, 9, 64, {60, 60}, {60, 60}, {1, 1}, {1, 0}, {0, 1}, {1, 1}, {1, 1}, {.is_gradient = true}});
}

TEST(ConvKernelTest, LongWindowsAreOfGradients) {
  // input, kernel and result of so many images, features, output channels and taps of a square window.
  const auto is_taken = [](int64_t images, int64_t features, int64_t channels, int64_t side, int64_t taps) {
    const auto view = [](Dims dims) { return cpu::TensorView{dims, RowMajorStrides(dims)}; };
    const int64_t outputs = side - taps + 1;
    const cpu::ConvolutionProblem p{view({images, features, side, side}),
                                    view({channels, features, taps, taps}),
                                    view({images, channels, outputs, outputs}),
                                    {{1, 1}, {1, 1}, {0, 0}, {0, 0}}};
    return cpu::LongWindowConv::Takes({&p, 1}, ElementType::kF32);
  };
  EXPECT_TRUE(is_taken(32, 2, 32, 30, 28));
  EXPECT_TRUE(is_taken(8, 8, 64, 230, 224));
  EXPECT_TRUE(is_taken(2, 6, 8, 30, 28));      // of few sums
  EXPECT_TRUE(is_taken(2, 1, 3, 100, 98));     // along the depth
  EXPECT_FALSE(is_taken(3, 8, 64, 230, 224));  // of three pictures
  EXPECT_FALSE(is_taken(2, 32, 32, 30, 3));    // an ordinary one
  EXPECT_FALSE(is_taken(1, 8, 64, 30, 28));    // of one picture
  EXPECT_FALSE(is_taken(32, 8, 1, 30, 28));    // of one channel
}

TEST(ConvKernelTest, Types) {
  using enum ElementType;
  struct Types {
    ElementType input, sum, result;
  };
  for (const Types& t : {Types{kBF16, kF32, kBF16},
                         {kF16, kF32, kF16},
                         {kF64, kF64, kF64},
                         {kS8, kS32, kS32},
                         {kU8, kU32, kU32},
                         {kS32, kS32, kS32}}) {
    CheckConv({1,
               16,
               64,
               {30, 30},
               {3, 3},
               {1, 1},
               {1, 1},
               {1, 1},
               {1, 1},
               {1, 1},
               {.input_type = t.input, .sum = t.sum, .result = t.result}});
    CheckConv({1,
               8,
               16,
               {8, 8},
               {3, 3},
               {1, 1},
               {1, 1},
               {1, 1},
               {1, 1},
               {1, 1},
               {.input_type = t.input, .sum = t.sum, .result = t.result}});
  }
}

}  // namespace
}  // namespace krafla
