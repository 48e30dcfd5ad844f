// SPDX-License-Identifier: Apache-2.0
// Dots and convolutions of small whole numbers, exact in every order, against plain loops.
#include "kernel_fixture.h"

#include "krafla/shape.h"

namespace krafla {
namespace {

using plan::ElementProgram;
using plan::IndexId;
using plan::NodeId;
using plan::ProgramBuilder;

double ReadNumber(ElementType storage, const std::byte* data, int64_t i) {
  const uint64_t v = reference::ReadElement(storage, data, i);
  if (IsSigned(storage))
    return StorageBytes(storage) == 8 ? static_cast<double>(static_cast<int64_t>(v)) : static_cast<int32_t>(v);
  if (IsUnsigned(storage)) return static_cast<double>(v);
  return storage == ElementType::kF64 ? reference::As<double>(v) : reference::As<float>(v);
}
void WriteNumber(ElementType storage, std::byte* data, int64_t i, double value) {
  uint64_t bits = IsIntegral(storage)            ? static_cast<uint64_t>(static_cast<int64_t>(value))
                  : storage == ElementType::kF64 ? reference::Bits(value)
                                                 : reference::Bits(static_cast<float>(value));
  reference::WriteElement(storage, data, i, bits);
}
AlignedBytes WholeNumbers(ElementType storage, int64_t count, std::mt19937& random) {
  AlignedBytes out(static_cast<std::size_t>(count * StorageBytes(storage)));
  for (int64_t i = 0; i < count; ++i) {
    const int value = static_cast<int>(random() % 7) - (IsUnsigned(storage) ? 0 : 3);
    WriteNumber(storage, out.data(), i, value);
  }
  return out;
}

enum class After { kStore, kBiasRelu, kTransposedStore };

// param 0 over `dims`, rounded to `result`; with a bias along the last dimension and a relu, or stored with the last
// two dimensions exchanged.
ElementProgram MakeEpilogue(const Dims& dims, ElementType sum, ElementType result, After after,
                            std::span<const plan::ProgramBuffer> buffers) {
  ProgramBuilder b(dims);
  for (const plan::ProgramBuffer& p : buffers) b.AddBuffer(p.storage, p.element_count, p.written);
  std::vector<IndexId> iters;
  for (int d = 0; d < static_cast<int>(dims.size()); ++d) iters.push_back(b.space().Iter(d));
  Dims stored = dims;
  if (after == After::kTransposedStore) {
    std::swap(iters[iters.size() - 1], iters[iters.size() - 2]);
    std::swap(stored[dims.size() - 1], stored[dims.size() - 2]);
  }
  NodeId v = b.Convert(b.Param(sum, 0, ~uint64_t{0} >> 1), sum, result);
  if (after == After::kBiasRelu) {
    NodeId bias = b.Load(3, result, iters.back());
    v = b.Hlo(Opcode::kAdd, result, {v, bias});
    v = b.Hlo(Opcode::kMaximum, result, {v, b.Convert(b.ConstantInt(ElementType::kS32, 0), ElementType::kS32, result)});
  }
  b.AddStore({.buffer = 2, .index = b.space().Linearize(iters, stored), .node = v, .storage = result});
  return std::move(b).Finish();
}

struct DotCase {
  Dims batch;
  int64_t m, n, k;
  ElementType lhs, rhs, sum, result;
  bool lhs_transposed = false, rhs_transposed = false, share_rhs = false;
  After after = After::kStore;
};

void CheckDot(const DotCase& c) {
  std::mt19937 random(3);
  const int64_t batches = Product(c.batch), m = c.m, n = c.n, k = c.k;
  plan::DotKernel dot;
  dot.batch = c.batch;
  dot.m = m, dot.n = n, dot.k = k;
  dot.lhs_m_stride = c.lhs_transposed ? 1 : k, dot.lhs_k_stride = c.lhs_transposed ? m : 1;
  dot.rhs_k_stride = c.rhs_transposed ? 1 : n, dot.rhs_n_stride = c.rhs_transposed ? k : 1;
  dot.lhs_offset = 5, dot.rhs_offset = 3;
  for (std::size_t d = 0; d < c.batch.size(); ++d) {
    const int64_t inner = Product(std::span<const int64_t>(c.batch).subspan(d + 1));
    dot.lhs_batch_strides.push_back(inner * m * k);
    dot.rhs_batch_strides.push_back(c.share_rhs ? 0 : inner * k * n);
  }
  dot.lhs_type = c.lhs, dot.rhs_type = c.rhs, dot.accumulate_type = c.sum, dot.result_type = c.result;
  const int64_t lhs_count = batches * m * k + 5, rhs_count = (c.share_rhs ? 1 : batches) * k * n + 3;
  const plan::ProgramBuffer buffers[] = {
      {c.lhs, lhs_count, false}, {c.rhs, rhs_count, false}, {c.result, batches * m * n, true}, {c.result, n, false}};
  Dims dims = c.batch;
  dims.push_back(m), dims.push_back(n);
  dot.epilogue = MakeEpilogue(dims, c.sum, c.result, c.after, buffers);
  plan::KernelPlan plan;
  plan.name = "dot";
  for (const plan::ProgramBuffer& b : buffers)
    plan.bindings.push_back({b.storage, b.element_count, !b.written, b.written});
  AlignedBytes lhs = WholeNumbers(c.lhs, lhs_count, random), rhs = WholeNumbers(c.rhs, rhs_count, random);
  AlignedBytes bias = WholeNumbers(c.result, n, random), got = WholeNumbers(c.result, batches * m * n, random),
               want = got;
  for (int64_t b = 0; b < batches; ++b)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t p = 0; p < k; ++p)
          sum += ReadNumber(c.lhs, lhs.data(), 5 + b * m * k + i * dot.lhs_m_stride + p * dot.lhs_k_stride) *
                 ReadNumber(c.rhs, rhs.data(),
                            3 + (c.share_rhs ? 0 : b * k * n) + p * dot.rhs_k_stride + j * dot.rhs_n_stride);
        if (c.after == After::kBiasRelu) sum = std::max(0.0, sum + ReadNumber(c.result, bias.data(), j));
        const int64_t at = c.after == After::kTransposedStore ? b * m * n + j * m + i : (b * m + i) * n + j;
        WriteNumber(c.result, want.data(), at, sum);
      }
  plan.body = std::move(dot);
  std::byte* pointers[] = {lhs.data(), rhs.data(), got.data(), bias.data()};
  RunKernel(plan, pointers);
  ExpectSame(c.result, got, want,
             Format("dot {}x{}x{} batch {} {} {} -> {}{}{}{} after {}", m, n, k, batches, ElementTypeName(c.lhs),
                    ElementTypeName(c.rhs), ElementTypeName(c.result), c.lhs_transposed ? " lhs^T" : "",
                    c.rhs_transposed ? " rhs^T" : "", c.share_rhs ? " shared" : "", static_cast<int>(c.after)));
}

TEST(DotKernelTest, ShapesStridesAndEpilogues) {
  using enum ElementType;
  struct Size {
    int64_t m, n, k;
  };
  for (const Size& s : {Size{1, 1, 1},
                        {1, 37, 53},
                        {41, 1, 29},
                        {5, 7, 3},
                        {64, 64, 64},
                        {33, 100, 300},
                        {130, 90, 70},
                        {1, 3000, 65},
                        {1, 5, 5000},
                        {8, 48, 0}})
    for (bool lt : {false, true})
      for (bool rt : {false, true})
        for (After after : {After::kStore, After::kBiasRelu, After::kTransposedStore})
          CheckDot({{}, s.m, s.n, s.k, kF32, kF32, kF32, kF32, lt, rt, false, after});
}

TEST(DotKernelTest, Batches) {
  using enum ElementType;
  for (bool share : {false, true})
    for (const Dims& batch : {Dims{3}, Dims{2, 5}, Dims{1}})
      for (int64_t m : {1, 20, 65})
        for (After after : {After::kStore, After::kBiasRelu, After::kTransposedStore})
          CheckDot({batch, m, 70, 50, kF32, kF32, kF32, kF32, false, share, share, after});
}

TEST(DotKernelTest, BatchesOfTinyMatrices) {
  using enum ElementType;
  struct Size {
    int64_t m, n, k;
  };
  for (const Size& s :
       {Size{2, 2, 2}, {3, 3, 3}, {4, 4, 4}, {1, 3, 2}, {3, 1, 5}, {2, 2, 8}, {2, 3, 9}, {1, 1, 1}, {5, 2, 3}})
    for (const Dims& batch : {Dims{37}, Dims{3, 21}, Dims{7}})
      for (bool lt : {false, true})
        for (bool rt : {false, true})
          for (ElementType t : {kF32, kF64}) {
            CheckDot({batch, s.m, s.n, s.k, t, t, t, t, lt, rt});
            CheckDot({batch, s.m, s.n, s.k, t, t, t, t, lt, rt, true, After::kTransposedStore});
          }
}

TEST(DotKernelTest, ProductsOfDepthOne) {
  using enum ElementType;
  for (const Dims& batch : {Dims{}, Dims{5}, Dims{2, 3}})
    for (const auto& [m, n] : {std::pair<int64_t, int64_t>{37, 50}, {3, 1000}, {300, 20}})
      for (ElementType t : {kF32, kF64})
        for (After after : {After::kStore, After::kBiasRelu, After::kTransposedStore})
          for (bool transposed : {false, true})
            CheckDot({batch, m, n, 1, t, t, t, t, transposed, transposed, transposed, after});
}

TEST(DotKernelTest, VectorsOfEveryType) {
  using enum ElementType;
  struct Types {
    ElementType lhs, rhs, sum, result;
  };
  for (const Types& t : {Types{kF64, kF64, kF64, kF64},
                         {kS32, kS32, kS32, kS32},
                         {kS8, kS8, kS32, kS8},
                         {kU8, kS8, kS32, kS32},
                         {kS8, kU8, kS32, kS32},
                         {kU8, kU8, kU32, kU8},
                         {kBF16, kF32, kF32, kF32},
                         {kF32, kF16, kF32, kF32}})
    for (bool transposed : {false, true})
      for (int64_t k : {3, 53, 3000}) {
        CheckDot({{}, 1, 37, k, t.lhs, t.rhs, t.sum, t.result, transposed, transposed});
        CheckDot({{3}, 41, 1, k, t.lhs, t.rhs, t.sum, t.result, transposed, transposed});
      }
}

TEST(DotKernelTest, Types) {
  using enum ElementType;
  struct Types {
    ElementType lhs, rhs, sum, result;
  };
  for (const Types& t : {Types{kBF16, kBF16, kF32, kBF16},
                         {kBF16, kBF16, kF32, kF32},
                         {kF16, kF16, kF32, kF16},
                         {kF16, kF16, kF32, kF32},
                         {kF32, kBF16, kF32, kF32},
                         {kF64, kF64, kF64, kF64},
                         {kF32, kF32, kF64, kF64},
                         {kS8, kS8, kS32, kS32},
                         {kU8, kS8, kS32, kS32},
                         {kU8, kU8, kU32, kU32},
                         {kS8, kS8, kS32, kS8},
                         {kS32, kS32, kS32, kS32},
                         {kS64, kS64, kS64, kS64},
                         {kU64, kU64, kU64, kU64},
                         {kS4, kS4, kS32, kS32},
                         {kF8E4M3FN, kF8E5M2, kF32, kF32}})
    for (int64_t m : {1, 3, 70})
      for (bool rt : {false, true}) {
        CheckDot({{}, m, 130, 90, t.lhs, t.rhs, t.sum, t.result, false, rt, false, After::kStore});
        if (t.result != kS8)
          CheckDot({{}, m, 130, 90, t.lhs, t.rhs, t.sum, t.result, rt, false, false, After::kBiasRelu});
      }
}

// Products that oneDNN gets in parts: over the batch, the rows or the columns.
TEST(DotKernelTest, Parts) {
  using enum ElementType;
  for (ElementType type : {kF32, kBF16})
    for (After after : {After::kStore, After::kTransposedStore}) {
      CheckDot({{}, 37, 500, 150, type, type, kF32, kF32, false, false, false, after});
      CheckDot({{}, 37, 500, 150, type, type, kF32, kF32, true, true, false, after});
      CheckDot({{}, 700, 50, 70, type, type, kF32, kF32, false, true, false, after});
      CheckDot({{9}, 60, 70, 70, type, type, kF32, kF32, false, false, false, after});
      CheckDot({{2, 9}, 40, 70, 70, type, type, kF32, kF32, false, false, true, after});
    }
}

struct ConvCase {
  int64_t batch, in, out;
  Dims input, window, strides, low, high, window_dilation, base_dilation;
  struct Extra {
    int64_t groups = 1, batch_groups = 1;
    bool reversal = false, channels_last = false;
    ElementType input_type = ElementType::kF32, sum = ElementType::kF32, result = ElementType::kF32;
    After after = After::kStore;
  } x = {};
};

void CheckConv(const ConvCase& c) {
  std::mt19937 random(5);
  plan::ConvKernel conv;
  ConvolutionAttributes& a = conv.attributes;
  const std::size_t rank = c.input.size();
  a.feature_group_count = c.x.groups, a.batch_group_count = c.x.batch_groups;
  const int64_t r = static_cast<int64_t>(rank);
  a.input_batch = 0, a.input_feature = c.x.channels_last ? r + 1 : 1;
  a.output_batch = 0, a.output_feature = c.x.channels_last ? r + 1 : 1;
  a.kernel_output_feature = c.x.channels_last ? r + 1 : 0, a.kernel_input_feature = c.x.channels_last ? r : 1;
  conv.input_dims = conv.kernel_dims = conv.output_dims = Dims(rank + 2, 1);
  auto set = [](Dims& dims, int64_t d, int64_t v) { dims[static_cast<std::size_t>(d)] = v; };
  set(conv.input_dims, a.input_batch, c.batch), set(conv.input_dims, a.input_feature, c.in);
  set(conv.kernel_dims, a.kernel_output_feature, c.out),
      set(conv.kernel_dims, a.kernel_input_feature, c.in / c.x.groups);
  set(conv.output_dims, a.output_batch, c.batch / c.x.batch_groups), set(conv.output_dims, a.output_feature, c.out);
  Dims out_spatial;
  for (std::size_t d = 0; d < rank; ++d) {
    const int64_t first = c.x.channels_last ? 1 : 2;
    a.input_spatial.push_back(first + static_cast<int64_t>(d));
    a.output_spatial.push_back(first + static_cast<int64_t>(d));
    a.kernel_spatial.push_back((c.x.channels_last ? 0 : 2) + static_cast<int64_t>(d));
    WindowDim w{c.window[d], c.strides[d], c.low[d], c.high[d], c.window_dilation[d], c.base_dilation[d], c.x.reversal};
    a.window.push_back(w);
    set(conv.input_dims, a.input_spatial[d], c.input[d]);
    set(conv.kernel_dims, a.kernel_spatial[d], c.window[d]);
    const int64_t spread = (c.input[d] - 1) * w.base_dilation + 1 + w.padding_low + w.padding_high;
    const int64_t reach = (w.size - 1) * w.window_dilation + 1;
    out_spatial.push_back((spread - reach) / w.stride + 1);
    set(conv.output_dims, a.output_spatial[d], out_spatial[d]);
  }
  conv.input_type = conv.kernel_type = c.x.input_type;
  conv.accumulate_type = c.x.sum, conv.result_type = c.x.result;
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
TEST(DotKernelTest, LongSums) {
  using enum ElementType;
  for (bool transposed : {false, true})
    for (After after : {After::kStore, After::kBiasRelu, After::kTransposedStore}) {
      CheckDot({{}, 20, 33, 2500, kF32, kF32, kF32, kF32, transposed, transposed, false, after});
      CheckDot({{3}, 20, 33, 1100, kBF16, kBF16, kF32, kF32, false, transposed, false, after});
      CheckDot({{}, 20, 33, 5000, kF16, kF16, kF32, kF16, false, transposed, false, after});
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
