// SPDX-License-Identifier: Apache-2.0
// Fourier transforms dimension by dimension, lines to the threads: the last dimension line by line, or short lines
// turned into columns, others in blocks of columns that lie beside each other. Real lines of even length are
// transformed as half as many complex points.
#include <algorithm>
#include <bit>
#include <complex>
#include <cstring>
#include <utility>

#include "base/checked_math.h"
#include "base/interruption.h"
#include "cpu_fallback/executor/kernel_families.h"
#include "cpu_fallback/kernels/fft.h"
#include "cpu_fallback/kernels/move.h"
#include "numerics/roots_of_unity.h"

namespace krafla::cpu {

namespace {

constexpr int64_t kColumns = 16;  // of a block
constexpr int64_t kGrainPoints = 4096;
// Lines are turned into columns, whose passes are whole vectors, while a block of them stays in the L2 cache. Long
// lines of a power of two have whole vectors themselves but for a pass or two.
constexpr int64_t kBlockBytes = 640 << 10;
constexpr int64_t kShortLine = 256;
// Of lines of a few points more at a time: what a block costs by itself is more than its points.
constexpr int64_t kManyColumns = 64, kPointsOfBlock = 1024;

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
    int64_t lines = batch_;
    for (std::size_t d = 0; d + 1 < dims_.size(); ++d) lines *= dims_[d];
    const int64_t block = (4 * axes_.back()->points() * kColumns + axes_.back()->scratch_numbers(kColumns)) *
                          static_cast<int64_t>(sizeof(T));
    const bool is_regular =
        std::has_single_bit(static_cast<uint64_t>(axes_.back()->points())) && axes_.back()->points() > kShortLine;
    const int64_t columns = std::clamp(
        kPointsOfBlock / std::max<int64_t>(axes_.back()->points(), 1) / kColumns * kColumns, kColumns, kManyColumns);
    if (lines >= kColumns / 2 && block <= kBlockBytes && !is_regular) together_ = std::min(lines, columns);
    int64_t numbers = 0;
    for (std::size_t d = 0; d < axes_.size(); ++d) {
      const int64_t at_once = d + 1 < axes_.size() ? kColumns : together_;
      numbers = std::max(numbers, 4 * axes_[d]->points() * at_once + axes_[d]->scratch_numbers(at_once));
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
    pool.ParallelFor(CeilDiv(lines, together_),
                     std::max<int64_t>(1, kGrainPoints / std::max<int64_t>(points * together_, 1)),
                     [&](int64_t begin, int64_t end, int worker) {
                       const Work w = WorkOf(scratch, worker, points * together_);
                       for (int64_t t = begin; t < end && !IsInterrupted(); ++t) {
                         const int64_t first = t * together_, count = std::min(together_, lines - first);
                         if (count == 1) {
                           LoadLine(in, first, w.x);
                           StoreLine(fft.Run(w.x, w.spare, 1, w.scratch), first, scale, out);
                           continue;
                         }
                         LoadLines(in, first, count, w.spare);
                         Turn(w.spare, {points, 1}, w.x, {1, count}, count, points);
                         const SplitLine<T> done = fft.Run(w.x, w.spare, count, w.scratch),
                                            other = done.re == w.x.re ? w.spare : w.x;
                         Turn(done, {1, count}, other, {points, 1}, count, points);
                         StoreLines(other, first, count, scale, out);
                       }
                     });
  }

  void Turn(SplitLine<T> from, TileStrides from_strides, SplitLine<T> to, TileStrides to_strides, int64_t lines,
            int64_t points) const {
    for (const auto& [a, b] : {std::pair{from.re, to.re}, std::pair{from.im, to.im}})
      MoveTile(sizeof(T), reinterpret_cast<const std::byte*>(a), from_strides, reinterpret_cast<std::byte*>(b),
               to_strides, lines, points);
  }

  // Several lines, one behind the other: where they are pairs as they lie, all at once.
  void LoadLines(const T* in, int64_t first, int64_t count, SplitLine<T> to) const {
    const int64_t points = axes_.back()->points();
    const bool is_complex = type_ == FftType::kFft || type_ == FftType::kIfft;
    if (is_complex || (type_ == FftType::kRfft && packed_))
      return SplitPairs(in + first * 2 * points, count * points, to);
    for (int64_t l = 0; l < count; ++l) LoadLine(in, first + l, {to.re + l * points, to.im + l * points});
  }
  void StoreLines(SplitLine<T> from, int64_t first, int64_t count, T scale, T* out) const {
    const int64_t points = axes_.back()->points();
    const bool is_complex = type_ == FftType::kFft || type_ == FftType::kIfft;
    if (is_complex || (type_ == FftType::kIrfft && packed_))
      return JoinPairs(from, count * points, scale, out + first * 2 * points);
    for (int64_t l = 0; l < count; ++l) StoreLine({from.re + l * points, from.im + l * points}, first + l, scale, out);
  }
  // Line `l` as the points that are transformed.
  void LoadLine(const T* arrays, int64_t l, SplitLine<T> to) const {
    switch (type_) {
      case FftType::kFft:
      case FftType::kIfft: SplitPairs(arrays + l * 2 * n_, n_, to); break;
      case FftType::kRfft: {
        const T* in = arrays + l * n_;
        if (packed_) {
          SplitPairs(in, n_ / 2, to);
        } else {
          std::copy(in, in + n_, to.re);
          std::fill(to.im, to.im + n_, T(0));
        }
        break;
      }
      case FftType::kIrfft: {
        const T* in = arrays + l * 2 * half_;
        if (packed_) {
          FromHalfSpectrum(in, n_ / 2, roots_.data(), to);
          break;
        }
        for (int64_t k = 0; k < n_; ++k) {
          const bool mirrored = k >= half_;
          const T* from = in + 2 * (mirrored ? n_ - k : k);
          to.re[k] = from[0];
          to.im[k] = k == 0 ? T(0) : mirrored ? -from[1] : from[1];
        }
        break;
      }
    }
  }
  void StoreLine(SplitLine<T> from, int64_t l, T scale, T* arrays) const {
    switch (type_) {
      case FftType::kFft:
      case FftType::kIfft: JoinPairs(from, n_, scale, arrays + l * 2 * n_); break;
      case FftType::kRfft:
        if (packed_) HalfSpectrum(from, n_ / 2, roots_.data(), arrays + l * 2 * half_);
        else JoinPairs(from, half_, T(1), arrays + l * 2 * half_);
        break;
      case FftType::kIrfft:
        if (packed_) {
          JoinPairs(from, n_ / 2, scale, arrays + l * n_);
        } else {
          for (int64_t k = 0; k < n_; ++k) arrays[l * n_ + k] = from.re[k] * scale;
        }
        break;
    }
  }

  // Dimension `d`, not the last, of arrays of dims_.
  void Columns(std::size_t d, const T* in, T* out, T scale, ThreadPool& pool, std::byte* scratch) const {
    const LineFft<T>& fft = *axes_[d];
    const int64_t points = fft.points();
    int64_t outer = batch_, inner = 1;
    for (std::size_t k = 0; k < d; ++k) outer *= dims_[k];
    for (std::size_t k = d + 1; k < dims_.size(); ++k) inner *= dims_[k];
    const int64_t blocks = CeilDiv(inner, kColumns);
    pool.ParallelFor(
        outer * blocks, std::max<int64_t>(1, kGrainPoints / (points * kColumns)),
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
  Dims dims_;  // as they lie between the axes: the last one halved for real transforms
  int64_t n_, half_;
  bool packed_ = false;
  T scale_ = 1;
  int64_t together_ = 1;  // lines of the last dimension that are transformed as columns
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
