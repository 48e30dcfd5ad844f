// SPDX-License-Identifier: Apache-2.0
// Fourier transforms in f64: radix 2 for powers of two, the definition for short lengths, Bluestein's chirp for the
// rest.
#include <algorithm>
#include <bit>
#include <complex>
#include <cstring>

#include "base/host_memory.h"
#include "base/index.h"
#include "base/interruption.h"
#include "evaluator/context.h"
#include "evaluator/gemm.h"
#include "evaluator/odometer.h"
#include "evaluator/strided.h"
#include "numerics/roots_of_unity.h"

namespace krafla::evaluator {

namespace {

using C = std::complex<double>;

// Without the checks for infinities of std::complex's operator.
C Mul(C a, C b) { return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()}; }

class Transform {
 public:
  // sign -1: forward; +1: backward, not scaled.
  Transform(int64_t n, int sign) : n_(n) {
    if (n <= 1) return;
    if (std::has_single_bit(static_cast<uint64_t>(n))) {
      MakeRadix2(n, sign, roots_);
      return;
    }
    roots_.resize(At(n));
    if (n <= 48) {
      for (int64_t k = 0; k < n; ++k) roots_[At(k)] = RootOfUnity(k, n, sign);
      return;
    }
    // x[j] w[j], convolved with conj(w), times w, where w[j] = exp(sign pi i j**2 / n).
    padded_ = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(2 * n - 1)));
    InterruptionPoll poll;
    for (int64_t k = 0; k < n && !poll.Ends(8); ++k) roots_[At(k)] = ChirpAt(k, n, sign);
    MakeRadix2(padded_, -1, forward_);
    MakeRadix2(padded_, +1, backward_);
    chirp_.assign(At(padded_), C(0));
    for (int64_t k = 0; k < n; ++k) {
      chirp_[At(k)] = std::conj(roots_[At(k)]);
      if (k > 0) chirp_[At(padded_ - k)] = std::conj(roots_[At(k)]);
    }
    Radix2(chirp_.data(), padded_, forward_);
  }

  void Run(C* x) {
    if (n_ <= 1) return;
    if (std::has_single_bit(static_cast<uint64_t>(n_))) return Radix2(x, n_, roots_);
    if (padded_ == 0) {
      work_.assign(x, x + n_);
      for (int64_t k = 0; k < n_; ++k) {
        C sum = 0;
        int64_t angle = 0;
        for (int64_t j = 0; j < n_; ++j) {
          sum += Mul(work_[At(j)], roots_[At(angle)]);
          angle += k;
          if (angle >= n_) angle -= n_;
        }
        x[k] = sum;
      }
      return;
    }
    work_.assign(At(padded_), C(0));
    for (int64_t k = 0; k < n_; ++k) work_[At(k)] = Mul(x[k], roots_[At(k)]);
    Radix2(work_.data(), padded_, forward_);
    for (int64_t k = 0; k < padded_; ++k) work_[At(k)] = Mul(work_[At(k)], chirp_[At(k)]);
    Radix2(work_.data(), padded_, backward_);
    const double scale = 1 / static_cast<double>(padded_);
    for (int64_t k = 0; k < n_; ++k) x[k] = Mul(work_[At(k)], roots_[At(k)]) * scale;
  }

 private:
  static void MakeRadix2(int64_t n, int sign, HostVector<C>& roots) {
    roots.resize(At(std::max<int64_t>(1, n / 2)));
    InterruptionPoll poll;
    for (int64_t k = 0; k < n / 2 && !poll.Ends(8); ++k) roots[At(k)] = RootOfUnity(k, n, sign);
  }
  static void Radix2(C* x, int64_t n, const HostVector<C>& roots) {
    InterruptionPoll poll;
    for (int64_t i = 1, j = 0; i < n && !poll.Ends(); ++i) {
      int64_t bit = n >> 1;
      for (; j & bit; bit >>= 1) j ^= bit;
      j ^= bit;
      if (i < j) std::swap(x[i], x[j]);
    }
    for (int64_t half = 1; half < n; half *= 2) {
      const int64_t step = n / (2 * half);
      for (int64_t base = 0; base < n; base += 2 * half) {
        for (int64_t k = 0; k < half; ++k) {
          if (poll.Ends()) return;
          const C odd = Mul(x[base + k + half], roots[At(k * step)]);
          const C even = x[base + k];
          x[base + k] = even + odd;
          x[base + k + half] = even - odd;
        }
      }
    }
  }

  int64_t n_, padded_ = 0;
  HostVector<C> roots_, forward_, backward_, chirp_, work_;
};

// Transforms one dimension of a dense array of `dims`.
void Along(HostVector<C>& x, std::span<const int64_t> dims, std::size_t axis, int sign) {
  const int64_t n = dims[axis];
  Transform transform(n, sign);
  Dims outer(dims), strides = RowMajorStrides(dims);
  const int64_t stride = strides[axis];
  outer.erase(outer.begin() + axis);
  strides.erase(strides.begin() + axis);
  HostVector<C> line(At(n));
  Odometer<> lines(outer, {strides});
  InterruptionPoll poll;
  for (int64_t l = 0; l < lines.count() && !poll.Ends(n); ++l, lines.Next()) {
    C* at = x.data() + lines.offset();
    for (int64_t k = 0; k < n; ++k) line[At(k)] = at[k * stride];
    transform.Run(line.data());
    for (int64_t k = 0; k < n; ++k) at[k * stride] = line[At(k)];
  }
}

}  // namespace

Result<Value> EvalFft(Context& context, const Instruction& i, Operands operands) {
  const auto& a = i.attr<FftAttributes>();
  const Literal& in = operands[0].array();
  KRAFLA_ASSIGN(Literal out, NewResult(context, i, operands));
  const Shape& shape = in.shape();
  const std::size_t rank = At(shape.rank()), axes = a.length.size();
  if (axes > rank)
    return InvalidArgument("An fft over {} dimensions of {} is not defined.", axes, shape.ToString(false));
  const int64_t n_in = shape.element_count(), n_out = out.shape().element_count();
  if (n_in == 0 || n_out == 0) {
    FillZeros(out.bytes());
    return Value::Own(std::move(out));
  }
  KRAFLA_TRY(context.SpendProduct(std::max(n_in, n_out), 64));
  // The whole index space of the transform, with the full last dimension.
  const bool real_in = a.type == FftType::kRfft, real_out = a.type == FftType::kIrfft;
  const int sign = a.type == FftType::kFft || real_in ? -1 : 1;
  Dims dims = real_in ? shape.dims() : out.shape().dims();
  HostVector<C> x(At(real_in ? n_in : n_out));
  const ElementType type = shape.element_type();
  InterruptionPoll poll;
  if (!real_out) {
    ToAccumulator(in.bytes().data(), type, reinterpret_cast<std::byte*>(x.data()), ElementType::kC128,
                  std::min(n_in, static_cast<int64_t>(x.size())));
    for (std::size_t d = rank - axes; d < rank; ++d) Along(x, dims, d, sign);
  } else {
    // Outer dimensions first, on the half spectrum; then each last line is completed by its mirror image.
    HostVector<C> half(At(n_in));
    ToAccumulator(in.bytes().data(), type, reinterpret_cast<std::byte*>(half.data()), ElementType::kC128, n_in);
    for (std::size_t d = rank - axes; d + 1 < rank; ++d) Along(half, shape.dims(), d, sign);
    const int64_t n = dims.back(), have = shape.dims().back();
    const int64_t lines = n == 0 ? 0 : n_out / n;
    for (int64_t l = 0; l < lines; ++l) {
      for (int64_t k = 0; k < n && !poll.Ends(); ++k) {
        const int64_t mirror = n - k;
        C v = 0;
        if (k <= n / 2 && k < have) v = half[At(l * have + k)];
        else if (mirror < have) v = std::conj(half[At(l * have + mirror)]);
        if (k == 0 || 2 * k == n) v = v.real();
        x[At(l * n + k)] = v;
      }
    }
    Along(x, dims, rank - 1, sign);
  }
  if (sign > 0) {
    double count = 1;
    for (std::size_t d = rank - axes; d < rank; ++d) count *= static_cast<double>(dims[d]);
    for (C& v : x) {
      if (poll.Ends()) break;
      v /= count;
    }
  }
  if (real_in) {
    const int64_t n = dims.back(), keep = out.shape().dims().back();
    for (int64_t l = 0; l * n < n_in; ++l)
      for (int64_t k = 0; k < keep && !poll.Ends(); ++k) x[At(l * keep + k)] = x[At(l * n + k)];
  }
  FromAccumulator(reinterpret_cast<const std::byte*>(x.data()), ElementType::kC128, out.bytes().data(),
                  out.shape().element_type(), n_out);
  return Value::Own(std::move(out));
}

}  // namespace krafla::evaluator
