// SPDX-License-Identifier: Apache-2.0
// The error of long sums against sums in double. Its unit is the f32's, 2^-24, of the result's size (the root mean
// square of all results): what rounding the exact result once costs is about half of one.
#include <cmath>

#include "kernel_fixture.h"
#include "krafla/shape.h"

namespace krafla {
namespace {

using plan::ElementProgram;
using plan::IndexId;
using plan::ProgramBuilder;
using plan::Reduction;

enum class Numbers { kPositive, kSigned };

std::vector<float> RandomFloats(int64_t n, Numbers numbers, std::mt19937& random) {
  std::vector<float> out(static_cast<std::size_t>(n));
  for (float& v : out) {
    v = std::ldexp(static_cast<float>(random() >> 8) + 1, -24);
    if (numbers == Numbers::kSigned && random() % 2 != 0) v = -v;
  }
  return out;
}
std::byte* Bytes(std::vector<float>& v) { return reinterpret_cast<std::byte*>(v.data()); }

double ErrorInUnits(std::span<const float> got, std::span<const double> truth) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const double d = static_cast<double>(got[i]) - truth[i];
    error += d * d;
    size += truth[i] * truth[i];
  }
  return std::sqrt(error / size) * 0x1p24;
}

ElementProgram Sum() {
  ProgramBuilder b({});
  b.AddResult(
      b.Hlo(Opcode::kAdd, ElementType::kF32, {b.Param(ElementType::kF32, 0, 0), b.Param(ElementType::kF32, 1, 0)}));
  return std::move(b).Finish();
}
ElementProgram Zero() {
  ProgramBuilder b({});
  b.AddResult(b.ConstantFloat(ElementType::kF32, 0));
  return std::move(b).Finish();
}

// in[before, elements, after] summed over the elements.
double ReduceError(int64_t before, int64_t elements, int64_t after, bool pads) {
  const auto type = ElementType::kF32;
  plan::ReduceKernel k;
  k.row_dims = {before, after};
  k.element_dims = {elements};
  const Dims all = {before, after, elements};
  const plan::ProgramBuffer buffers[] = {{type, before * elements * after, false}, {type, before * after, true}};
  ProgramBuilder b(all);
  for (const plan::ProgramBuffer& p : buffers) b.AddBuffer(p.storage, p.element_count, p.written);
  auto& s = b.space();
  // Under a bound, as the elements of a window.
  const plan::NodeId mask = pads ? b.InRange(s.Sub(s.Iter(2), s.Constant(1)), 0, elements - 1) : plan::kNoNode;
  const IndexId at[] = {s.Iter(0), s.Iter(2), s.Iter(1)};
  const int64_t dims[] = {before, elements, after};
  b.AddResult(b.Load(0, type, s.Linearize(at, dims), mask));
  plan::ReduceStage sum;
  sum.program = std::move(b).Finish();
  Reduction r;
  r.kind = Reduction::Kind::kSum;
  r.inputs = {0};
  r.combiner = Sum(), r.init = Zero();
  sum.reductions.push_back(std::move(r));
  k.stages.push_back(std::move(sum));
  plan::ReduceStage store;
  store.scope = plan::ReduceStage::Scope::kRow;
  ProgramBuilder o(k.row_dims);
  for (const plan::ProgramBuffer& p : buffers) o.AddBuffer(p.storage, p.element_count, p.written);
  const IndexId row[] = {o.space().Iter(0), o.space().Iter(1)};
  o.AddStore(
      {.buffer = 1, .index = o.space().Linearize(row, k.row_dims), .node = o.Param(type, 0, 3), .storage = type});
  store.program = std::move(o).Finish();
  k.stages.push_back(std::move(store));

  std::mt19937 random(1);
  std::vector<float> in = RandomFloats(before * elements * after, Numbers::kPositive, random);
  std::vector<float> out(static_cast<std::size_t>(before * after));
  std::vector<double> truth(out.size());
  for (int64_t i = 0; i < before; ++i)
    for (int64_t e = pads ? 1 : 0; e < elements; ++e)
      for (int64_t j = 0; j < after; ++j)
        truth[static_cast<std::size_t>(i * after + j)] +=
            static_cast<double>(in[static_cast<std::size_t>((i * elements + e) * after + j)]);
  plan::KernelPlan plan;
  for (const plan::ProgramBuffer& p : buffers)
    plan.bindings.push_back({p.storage, p.element_count, !p.written, p.written});
  plan.body = std::move(k);
  std::byte* pointers[] = {Bytes(in), Bytes(out)};
  RunKernel(plan, pointers);
  return ErrorInUnits(out, truth);
}

TEST(LongSumsTest, Reductions) {
  struct Case {
    int64_t before, elements, after;
    bool pads = false;
  };
  for (const Case& c : {Case{1, 1000000, 1},
                        {9, 100000, 1},
                        {1, 100000, 64},
                        {1, 1000, 1000},
                        {16, 4096, 33},
                        {3, 700, 2000},
                        {1, 20000, 2000},
                        {2, 1000, 500, true}}) {
    const double error = ReduceError(c.before, c.elements, c.after, c.pads);
    EXPECT_LE(error, 0.75) << c.before << " x " << c.elements << " x " << c.after << (c.pads ? " padded" : "");
  }
}

double ScanError(int64_t outer, int64_t length, int64_t inner, bool reverse, ElementType type) {
  const int64_t count = outer * length * inner;
  std::mt19937 random(1);
  std::vector<float> in = RandomFloats(count, Numbers::kPositive, random), out(in.size());
  std::vector<double> truth(in.size());
  AlignedBytes narrow_in(static_cast<std::size_t>(count * StorageBytes(type))), narrow_out = narrow_in;
  for (int64_t i = 0; i < count; ++i) {
    reference::WriteElement(type, narrow_in.data(), i, reference::Bits(in[static_cast<std::size_t>(i)]));
    in[static_cast<std::size_t>(i)] = reference::As<float>(reference::ReadElement(type, narrow_in.data(), i));
  }
  for (int64_t line = 0; line < outer * inner; ++line) {
    double sum = 0;
    for (int64_t step = 0; step < length; ++step) {
      const auto at = static_cast<std::size_t>((line / inner * length + (reverse ? length - 1 - step : step)) * inner +
                                               line % inner);
      truth[at] = sum += static_cast<double>(in[at]);
    }
  }
  plan::ScanKernel scan;
  scan.dims = {outer, length, inner};
  scan.dimension = 1, scan.is_reverse = reverse, scan.type = type;
  scan.reduction.kind = Reduction::Kind::kSum;
  scan.reduction.hlo_type = type;
  scan.reduction.combiner = Sum(), scan.reduction.init = Zero();
  plan::KernelPlan plan;
  plan.bindings = {{type, count, true, false}, {type, count, false, true}};
  plan.body = std::move(scan);
  std::byte* pointers[] = {narrow_in.data(), narrow_out.data()};
  RunKernel(plan, pointers);
  for (int64_t i = 0; i < count; ++i)
    out[static_cast<std::size_t>(i)] = reference::As<float>(reference::ReadElement(type, narrow_out.data(), i));
  return ErrorInUnits(out, truth);
}

TEST(LongSumsTest, RunningSums) {
  using enum ElementType;
  for (bool reverse : {false, true}) {
    EXPECT_LE(ScanError(1, 100000, 1, reverse, kF32), 2);
    EXPECT_LE(ScanError(3, 4099, 700, reverse, kF32), 2);
    // Short lines side by side.
    EXPECT_LE(ScanError(200, 32, 1, reverse, kF32), 2);
    EXPECT_LE(ScanError(70, 5, 3, reverse, kF32), 2);
    // Rounded once: half a unit of 8 bits and of 11.
    EXPECT_LE(ScanError(70, 5, 3, reverse, kBF16), 0x1p16 / 2);
    EXPECT_LE(ScanError(2, 5000, 3, reverse, kBF16), 0x1p16 / 2);
    EXPECT_LE(ScanError(2, 500, 3, reverse, kF16), 0x1p13 / 2);
  }
}

// Of signed numbers the error grows with the root of what is summed in one go: some 0.3 units a root.
double DotError(int64_t m, int64_t n, int64_t k, bool rhs_transposed) {
  const auto type = ElementType::kF32;
  plan::DotKernel dot;
  dot.m = m, dot.n = n, dot.k = k;
  dot.lhs_m_stride = k, dot.lhs_k_stride = 1;
  dot.rhs_k_stride = rhs_transposed ? 1 : n, dot.rhs_n_stride = rhs_transposed ? k : 1;
  const plan::ProgramBuffer buffers[] = {{type, m * k, false}, {type, k * n, false}, {type, m * n, true}};
  const Dims dims = {m, n};
  ProgramBuilder e(dims);
  for (const plan::ProgramBuffer& p : buffers) e.AddBuffer(p.storage, p.element_count, p.written);
  const IndexId at[] = {e.space().Iter(0), e.space().Iter(1)};
  e.AddStore({.buffer = 2, .index = e.space().Linearize(at, dims), .node = e.Param(type, 0, 3), .storage = type});
  dot.epilogue = std::move(e).Finish();
  std::mt19937 random(1);
  std::vector<float> a = RandomFloats(m * k, Numbers::kSigned, random),
                     b = RandomFloats(k * n, Numbers::kSigned, random);
  std::vector<float> out(static_cast<std::size_t>(m * n));
  std::vector<double> truth(out.size());
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t p = 0; p < k; ++p)
        truth[static_cast<std::size_t>(i * n + j)] +=
            static_cast<double>(a[static_cast<std::size_t>(i * k + p)]) *
            static_cast<double>(b[static_cast<std::size_t>(p * dot.rhs_k_stride + j * dot.rhs_n_stride)]);
  plan::KernelPlan plan;
  for (const plan::ProgramBuffer& p : buffers)
    plan.bindings.push_back({p.storage, p.element_count, !p.written, p.written});
  plan.body = std::move(dot);
  std::byte* pointers[] = {Bytes(a), Bytes(b), Bytes(out)};
  RunKernel(plan, pointers);
  return ErrorInUnits(out, truth);
}

TEST(LongSumsTest, Dots) {
  for (bool transposed : {false, true}) {
    EXPECT_LE(DotError(64, 64, 4096, transposed), 8);
    EXPECT_LE(DotError(12, 40, 50000, transposed), 9);
  }
  EXPECT_LE(DotError(40, 1, 100000, true), 6);
}

// The gradient of a kernel: a few positions, over all images and a large window; and an ordinary convolution.
double ConvError(int64_t images, int64_t channels, int64_t size, int64_t outputs, int64_t window, int64_t padding) {
  const auto type = ElementType::kF32;
  plan::ConvKernel conv;
  ConvolutionAttributes& a = conv.attributes;
  a.input_batch = 0, a.input_feature = 3, a.input_spatial = {1, 2};
  a.kernel_input_feature = 2, a.kernel_output_feature = 3, a.kernel_spatial = {0, 1};
  a.output_batch = 0, a.output_feature = 3, a.output_spatial = {1, 2};
  const WindowDim w{window, 1, padding, padding, 1, 1, false};
  a.window = {w, w};
  const int64_t positions = size + 2 * padding - window + 1;
  conv.input_dims = {images, size, size, channels};
  conv.kernel_dims = {window, window, channels, outputs};
  conv.output_dims = {images, positions, positions, outputs};
  const plan::ProgramBuffer buffers[] = {{type, Product(conv.input_dims), false},
                                         {type, Product(conv.kernel_dims), false},
                                         {type, Product(conv.output_dims), true}};
  ProgramBuilder e(conv.output_dims);
  for (const plan::ProgramBuffer& p : buffers) e.AddBuffer(p.storage, p.element_count, p.written);
  const IndexId at[] = {e.space().Iter(0), e.space().Iter(1), e.space().Iter(2), e.space().Iter(3)};
  e.AddStore(
      {.buffer = 2, .index = e.space().Linearize(at, conv.output_dims), .node = e.Param(type, 0, 15), .storage = type});
  conv.epilogue = std::move(e).Finish();
  std::mt19937 random(1);
  std::vector<float> x = RandomFloats(Product(conv.input_dims), Numbers::kSigned, random);
  std::vector<float> k = RandomFloats(Product(conv.kernel_dims), Numbers::kSigned, random);
  std::vector<float> out(static_cast<std::size_t>(Product(conv.output_dims)));
  std::vector<double> truth(out.size());
  for (int64_t i = 0; i < images; ++i)
    for (int64_t y = 0; y < positions; ++y)
      for (int64_t z = 0; z < positions; ++z)
        for (int64_t u = 0; u < window; ++u)
          for (int64_t v = 0; v < window; ++v) {
            const int64_t row = y + u - padding, column = z + v - padding;
            if (row < 0 || row >= size || column < 0 || column >= size) continue;
            for (int64_t c = 0; c < channels; ++c)
              for (int64_t o = 0; o < outputs; ++o)
                truth[static_cast<std::size_t>(((i * positions + y) * positions + z) * outputs + o)] +=
                    static_cast<double>(
                        x[static_cast<std::size_t>(((i * size + row) * size + column) * channels + c)]) *
                    static_cast<double>(k[static_cast<std::size_t>(((u * window + v) * channels + c) * outputs + o)]);
          }
  plan::KernelPlan plan;
  for (const plan::ProgramBuffer& p : buffers)
    plan.bindings.push_back({p.storage, p.element_count, !p.written, p.written});
  plan.body = std::move(conv);
  std::byte* pointers[] = {Bytes(x), Bytes(k), Bytes(out)};
  RunKernel(plan, pointers);
  return ErrorInUnits(out, truth);
}

TEST(LongSumsTest, Convolutions) {
  EXPECT_LE(ConvError(8, 64, 16, 32, 16, 1), 8);
  EXPECT_LE(ConvError(1, 512, 7, 128, 3, 1), 8);
  EXPECT_LE(ConvError(4, 32, 16, 32, 3, 1), 4.5);
}

}  // namespace
}  // namespace krafla
