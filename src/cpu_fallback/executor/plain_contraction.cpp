// SPDX-License-Identifier: Apache-2.0
// Dot and convolution in plain loops, for every type and stride: the variant that always accepts. Sums are written
// out, then the epilogue runs over them as a loop.
#include <algorithm>
#include <cstring>

#include "cpu_fallback/executor/kernel_families.h"
#include "plan/param_to_load.h"

namespace krafla::cpu {
namespace {

using plan::ConvKernel;
using plan::DotKernel;

// Element i of an array in storage, as T.
template <typename T>
std::vector<T> Widened(const std::byte* data, ElementType storage, int64_t count) {
  std::vector<T> out(static_cast<std::size_t>(count));
  ConvertFn widen = FindWiden(storage);
  ElementType compute = plan::ComputeType(storage);
  auto cast = [&](auto zero) {
    using From = decltype(zero);
    std::vector<From> wide;
    const From* from = reinterpret_cast<const From*>(data);
    if (widen != nullptr) {
      wide.resize(static_cast<std::size_t>(count));
      widen(data, wide.data(), count);
      from = wide.data();
    }
    for (int64_t i = 0; i < count; ++i) out[static_cast<std::size_t>(i)] = static_cast<T>(from[i]);
  };
  if (compute == ElementType::kF32) cast(float{});
  else if (compute == ElementType::kF64) cast(double{});
  else if (compute == ElementType::kS32) cast(int32_t{});
  else if (compute == ElementType::kU32) cast(uint32_t{});
  else if (compute == ElementType::kS64) cast(int64_t{});
  else if (compute == ElementType::kU64) cast(uint64_t{});
  else cast(uint8_t{});
  return out;
}

// Integer sums wrap, so they run on the unsigned type.
template <typename F>
void WithAccumulator(ElementType type, F&& f) {
  if (type == ElementType::kF32) f(float{});
  else if (type == ElementType::kF64) f(double{});
  else if (type == ElementType::kS64 || type == ElementType::kU64) f(uint64_t{});
  else f(uint32_t{});
}

template <typename T>
void Dot(const DotKernel& d, const T* lhs, const T* rhs, T* out, ThreadPool& pool) {
  int64_t batches = 1;
  for (int64_t b : d.batch) batches *= b;
  int64_t grain = std::max<int64_t>(1, 20000 / std::max<int64_t>(1, d.n * d.k));
  pool.ParallelFor(batches * d.m, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      int64_t batch = row / d.m, m = row % d.m;
      int64_t l = d.lhs_offset + m * d.lhs_m_stride, r = d.rhs_offset;
      for (std::size_t b = d.batch.size(); b-- > 0; batch /= d.batch[b]) {
        l += batch % d.batch[b] * d.lhs_batch_strides[b];
        r += batch % d.batch[b] * d.rhs_batch_strides[b];
      }
      T* to = out + row * d.n;
      std::fill(to, to + d.n, T{});
      if (d.rhs_n_stride == 1) {
        for (int64_t k = 0; k < d.k; ++k) {
          T a = lhs[l + k * d.lhs_k_stride];
          const T* from = rhs + r + k * d.rhs_k_stride;
          for (int64_t n = 0; n < d.n; ++n) to[n] += a * from[n];
        }
        continue;
      }
      for (int64_t n = 0; n < d.n; ++n) {
        T sum{};
        for (int64_t k = 0; k < d.k; ++k)
          sum += lhs[l + k * d.lhs_k_stride] * rhs[r + n * d.rhs_n_stride + k * d.rhs_k_stride];
        to[n] = sum;
      }
    }
  });
}

template <typename T>
void Convolve(const ConvKernel& c, const T* input, const T* kernel, T* out, ThreadPool& pool) {
  const ConvolutionAttributes& a = c.attributes;
  const std::size_t rank = a.window.size();
  const Dims in_strides = RowMajorStrides(c.input_dims), k_strides = RowMajorStrides(c.kernel_dims);
  auto at = [](const Dims& d, int64_t i) { return d[static_cast<std::size_t>(i)]; };
  const int64_t in_features = at(c.kernel_dims, a.kernel_input_feature);
  const int64_t out_features = at(c.output_dims, a.output_feature);
  const int64_t batch = at(c.output_dims, a.output_batch);
  int64_t outputs = 1, taps = 1;
  for (int64_t d : c.output_dims) outputs *= d;
  for (const WindowDim& w : a.window) taps *= w.size;
  const int64_t in_f_stride = at(in_strides, a.input_feature), k_f_stride = at(k_strides, a.kernel_input_feature);
  pool.ParallelFor(outputs, std::max<int64_t>(1, 20000 / std::max<int64_t>(1, taps * in_features)), [&](int64_t begin, int64_t end, int) {
    Dims index(c.output_dims.size(), 0), tap(rank, 0);
    DelinearizeIndex(begin, c.output_dims, {index.data(), index.size()});
    for (int64_t o = begin; o < end; ++o, NextIndex({index.data(), index.size()}, c.output_dims)) {
      int64_t feature = at(index, a.output_feature);
      int64_t group = feature / (out_features / a.feature_group_count);
      // A batch group takes its own part of the input's batch.
      int64_t batch_group = feature / (out_features / a.batch_group_count);
      int64_t in_base = (at(index, a.output_batch) + batch_group * batch) * at(in_strides, a.input_batch) +
                        group * in_features * in_f_stride;
      int64_t k_base = feature * at(k_strides, a.kernel_output_feature);
      T sum{};
      std::fill(tap.begin(), tap.end(), 0);
      for (int64_t t = 0; t < taps; ++t) {
        int64_t i = in_base, k = k_base;
        bool inside = true;
        for (std::size_t d = 0; d < rank && inside; ++d) {
          const WindowDim& w = a.window[d];
          int64_t p = at(index, a.output_spatial[d]) * w.stride + tap[d] * w.window_dilation - w.padding_low;
          int64_t q = p / w.base_dilation;
          inside = p >= 0 && p % w.base_dilation == 0 && q < at(c.input_dims, a.input_spatial[d]);
          i += q * at(in_strides, a.input_spatial[d]);
          k += (w.reversal ? w.size - 1 - tap[d] : tap[d]) * at(k_strides, a.kernel_spatial[d]);
        }
        if (inside)
          for (int64_t f = 0; f < in_features; ++f) sum += input[i + f * in_f_stride] * kernel[k + f * k_f_stride];
        for (std::size_t d = rank; d-- > 0;) {
          if (++tap[d] < a.window[d].size) break;
          tap[d] = 0;
        }
      }
      out[o] = sum;
    }
  });
}

template <typename Body>
class Contraction final : public CpuKernel {
 public:
  Contraction(const plan::KernelPlan& plan, const Body& body, LoopRunner epilogue, int64_t outputs, int threads)
      : body_(body), bindings_(plan.bindings), epilogue_(std::move(epilogue)), outputs_(outputs) {
    scratch_bytes_ = epilogue_.scratch_bytes(threads) + AlignedBytes::kAlignment;
  }

  Result<> Run(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch) const override {
    AlignedBytes sums(static_cast<std::size_t>(outputs_ * StorageBytes(body_.accumulate_type)), false);
    WithAccumulator(body_.accumulate_type, [&](auto zero) { Sum(zero, bindings, sums.data(), pool); });
    std::vector<std::byte*> all(bindings.begin(), bindings.end());
    all.push_back(sums.data());
    epilogue_.Run(all, pool, scratch);
    return {};
  }

 private:
  template <typename T>
  void Sum(T, std::span<std::byte* const> bindings, std::byte* out, ThreadPool& pool) const {
    auto load = [&](int b) {
      const plan::Binding& binding = bindings_[static_cast<std::size_t>(b)];
      return Widened<T>(bindings[static_cast<std::size_t>(b)], binding.storage, binding.element_count);
    };
    if constexpr (std::is_same_v<Body, DotKernel>)
      Dot(body_, load(body_.lhs_binding).data(), load(body_.rhs_binding).data(), reinterpret_cast<T*>(out), pool);
    else
      Convolve(body_, load(body_.input_binding).data(), load(body_.kernel_binding).data(), reinterpret_cast<T*>(out), pool);
  }

  Body body_;
  std::vector<plan::Binding> bindings_;
  LoopRunner epilogue_;
  int64_t outputs_;
};

template <typename Body>
KernelResult Make(const plan::KernelPlan& plan, const Body& body, const CpuKernelOptions& options) {
  KRAFLA_ASSIGN(LoopRunner epilogue, LoopRunner::Make(plan::ParamToLoad(body.epilogue, 0, body.accumulate_type)));
  int64_t outputs = 1;
  for (int64_t d : body.epilogue.space.dims()) outputs *= d;
  return std::make_unique<Contraction<Body>>(plan, body, std::move(epilogue), outputs, options.threads);
}

}  // namespace

KernelResult MakePlainDotKernel(const plan::KernelPlan& plan, const plan::DotKernel& body, const CpuKernelOptions& options) {
  return Make(plan, body, options);
}
KernelResult MakePlainConvKernel(const plan::KernelPlan& plan, const plan::ConvKernel& body, const CpuKernelOptions& options) {
  return Make(plan, body, options);
}

}  // namespace krafla::cpu
