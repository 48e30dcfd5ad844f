// SPDX-License-Identifier: Apache-2.0
// Fourier transforms dimension by dimension, lines to the threads: the last dimension line by line, others in blocks of
// columns that lie beside each other. Real lines of even length are transformed as half as many complex points.
#include <algorithm>
#include <complex>
#include <cstring>

#include "base/checked_math.h"
#include "cpu_fallback/executor/kernel_families.h"
#include "cpu_fallback/kernels/fft.h"
#include "numerics/roots_of_unity.h"

namespace krafla::cpu {

namespace {

constexpr int64_t kColumns = 16;  // of a block
constexpr int64_t kGrainPoints = 4096;

template <class T>
class FftRun final : public CpuKernel {
 public:
  FftRun(const plan::FftKernel& body, int threads)
      : type_(body.type), batch_(body.batch), dims_(body.lengths), n_(body.lengths.back()), half_(n_ / 2 + 1) {
    const bool real = type_ == FftType::kRfft || type_ == FftType::kIrfft;
    const int sign = type_ == FftType::kFft || type_ == FftType::kRfft ? -1 : 1;
    packed_ = real && n_ % 2 == 0;
    if (real) dims_.back() = half_;
    for (std::size_t d = 0; d + 1 < dims_.size(); ++d) axes_.push_back(std::make_unique<LineFft<T>>(dims_[d], sign));
    axes_.push_back(std::make_unique<LineFft<T>>(packed_ ? n_ / 2 : n_, sign));
    if (packed_)
      for (int part = 0; part < 2; ++part)
        for (int64_t k = 0; 2 * k <= n_ / 2; ++k) {
          const std::complex<double> w = RootOfUnity(k, n_, 1);
          roots_.push_back(static_cast<T>(part == 0 ? w.real() : w.imag()));
        }
    if (sign > 0)
      for (int64_t n : body.lengths) scale_ /= static_cast<T>(n);
    int64_t numbers = 0;
    for (std::size_t d = 0; d < axes_.size(); ++d) {
      const int64_t columns = d + 1 < axes_.size() ? kColumns : 1;
      numbers = std::max(numbers, 4 * axes_[d]->points() * columns + axes_[d]->scratch_numbers(columns));
    }
    worker_bytes_ = RoundUp(numbers * static_cast<int64_t>(sizeof(T)), 64);
    // IRFFT over several dimensions needs its operand's spectrum in between.
    spectrum_ = batch_ * 2;
    for (int64_t d : dims_) spectrum_ *= d;
    const bool between = type_ == FftType::kIrfft && axes_.size() > 1;
    if (!between) spectrum_ = 0;
    scratch_bytes_ = worker_bytes_ * threads + spectrum_ * static_cast<int64_t>(sizeof(T));
    between_offset_ = worker_bytes_ * threads;
  }

  Result<> Run(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch) const override {
    const T* in = reinterpret_cast<const T*>(bindings[0]);
    T* out = reinterpret_cast<T*>(bindings[1]);
    const std::size_t last = axes_.size() - 1;
    if (type_ == FftType::kIrfft) {
      if (last > 0) {
        T* between = reinterpret_cast<T*>(scratch + between_offset_);
        for (std::size_t d = 0; d < last; ++d) Columns(d, d == 0 ? in : between, between, T(1), pool, scratch);
        in = between;
      }
      Lines(in, out, scale_, pool, scratch);
      return {};
    }
    Lines(in, out, last == 0 ? scale_ : T(1), pool, scratch);
    for (std::size_t d = 0; d < last; ++d) Columns(d, out, out, d + 1 == last ? scale_ : T(1), pool, scratch);
    return {};
  }

 private:
  struct Work {
    SplitLine<T> x, spare;
    T* scratch;
  };
  Work WorkOf(std::byte* scratch, int worker, int64_t count) const {
    T* at = reinterpret_cast<T*>(scratch + worker * worker_bytes_);
    return {{at, at + count}, {at + 2 * count, at + 3 * count}, at + 4 * count};
  }

  // The last dimension.
  void Lines(const T* in, T* out, T scale, ThreadPool& pool, std::byte* scratch) const {
    int64_t lines = batch_;
    for (std::size_t d = 0; d + 1 < dims_.size(); ++d) lines *= dims_[d];
    const LineFft<T>& fft = *axes_.back();
    const int64_t points = fft.points();
    pool.ParallelFor(lines, std::max<int64_t>(1, kGrainPoints / std::max<int64_t>(points, 1)),
                     [&](int64_t begin, int64_t end, int worker) {
      const Work w = WorkOf(scratch, worker, points);
      for (int64_t l = begin; l < end; ++l) {
        switch (type_) {
          case FftType::kFft:
          case FftType::kIfft:
            SplitPairs(in + l * 2 * n_, n_, w.x);
            JoinPairs(fft.Run(w.x, w.spare, 1, w.scratch), n_, scale, out + l * 2 * n_);
            break;
          case FftType::kRfft: ForwardReal(fft, in + l * n_, out + l * 2 * half_, w); break;
          case FftType::kIrfft: BackwardReal(fft, in + l * 2 * half_, out + l * n_, scale, w); break;
        }
      }
    });
  }

  void ForwardReal(const LineFft<T>& fft, const T* in, T* out, const Work& w) const {
    if (packed_) {
      SplitPairs(in, n_ / 2, w.x);
      HalfSpectrum(fft.Run(w.x, w.spare, 1, w.scratch), n_ / 2, roots_.data(), out);
      return;
    }
    std::copy(in, in + n_, w.x.re);
    std::fill(w.x.im, w.x.im + n_, T(0));
    JoinPairs(fft.Run(w.x, w.spare, 1, w.scratch), half_, T(1), out);
  }

  void BackwardReal(const LineFft<T>& fft, const T* in, T* out, T scale, const Work& w) const {
    if (packed_) {
      FromHalfSpectrum(in, n_ / 2, roots_.data(), w.x);
      JoinPairs(fft.Run(w.x, w.spare, 1, w.scratch), n_ / 2, scale, out);
      return;
    }
    for (int64_t k = 0; k < n_; ++k) {
      const bool mirrored = k >= half_;
      const T* from = in + 2 * (mirrored ? n_ - k : k);
      w.x.re[k] = from[0];
      w.x.im[k] = k == 0 ? T(0) : mirrored ? -from[1] : from[1];
    }
    const SplitLine<T> done = fft.Run(w.x, w.spare, 1, w.scratch);
    for (int64_t k = 0; k < n_; ++k) out[k] = done.re[k] * scale;
  }

  // Dimension `d`, not the last, of arrays of dims_.
  void Columns(std::size_t d, const T* in, T* out, T scale, ThreadPool& pool, std::byte* scratch) const {
    const LineFft<T>& fft = *axes_[d];
    const int64_t points = fft.points();
    int64_t outer = batch_, inner = 1;
    for (std::size_t k = 0; k < d; ++k) outer *= dims_[k];
    for (std::size_t k = d + 1; k < dims_.size(); ++k) inner *= dims_[k];
    const int64_t blocks = CeilDiv(inner, kColumns);
    pool.ParallelFor(outer * blocks, std::max<int64_t>(1, kGrainPoints / (points * kColumns)),
                     [&](int64_t begin, int64_t end, int worker) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t first = t % blocks * kColumns, columns = std::min(kColumns, inner - first);
        const Work w = WorkOf(scratch, worker, points * columns);
        const int64_t base = t / blocks * points * inner + first;
        for (int64_t p = 0; p < points; ++p)
          SplitPairs(in + 2 * (base + p * inner), columns, {w.x.re + p * columns, w.x.im + p * columns});
        const SplitLine<T> done = fft.Run(w.x, w.spare, columns, w.scratch);
        for (int64_t p = 0; p < points; ++p)
          JoinPairs({done.re + p * columns, done.im + p * columns}, columns, scale, out + 2 * (base + p * inner));
      }
    });
  }

  FftType type_;
  int64_t batch_;
  Dims dims_;       // as they lie between the axes: the last one halved for real transforms
  int64_t n_, half_;
  bool packed_ = false;
  T scale_ = 1;
  std::vector<std::unique_ptr<LineFft<T>>> axes_;
  std::vector<T> roots_;
  int64_t worker_bytes_ = 0, spectrum_ = 0, between_offset_ = 0;
};

}  // namespace

KernelResult MakeFftKernel(const plan::KernelPlan&, const plan::FftKernel& body, const CpuKernelOptions& options) {
  for (int64_t n : body.lengths)
    if (n > (int64_t{1} << 28)) return Unimplemented("A transform of {} points has more than {}.", n, int64_t{1} << 28);
  if (body.real == ElementType::kF64) return std::make_unique<FftRun<double>>(body, options.threads);
  return std::make_unique<FftRun<float>>(body, options.threads);
}

}  // namespace krafla::cpu
