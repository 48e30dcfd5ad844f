// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/kernels/fft_passes.h"

#include <bit>
#include <map>
#include <utility>

#include "numerics/roots_of_unity.h"

namespace krafla::spirv {
namespace {

using Form = FftPass::Form;

class FftPlanner {
 public:
  explicit FftPlanner(int most_radix) : most_radix_(most_radix) {}

  // Adds the passes of one dimension. `whole` describes it as one pass, with what is read first and written last.
  void Axis(const FftPass& whole) {
    const int64_t n = whole.points;
    if (LargestPrimeFactor(n) <= kMostDirect) {
      Stockham(whole);
      return;
    }
    const auto padded = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(2 * n - 1)));
    const std::vector<std::complex<double>> chirp = Chirp(n, whole.sign);
    const int64_t chirp_at = Append(chirp), filter_at = Append(ChirpFilter(chirp, padded));
    FftPass forward = whole;
    forward.points = padded;
    forward.sign = -1;
    forward.points_in = n;
    forward.multiply_in = chirp_at;
    forward.multiply_out = filter_at;
    forward.write = Form::kComplex;
    forward.stored_out = padded;
    forward.scale = 1;
    Stockham(forward);
    FftPass backward = whole;
    backward.points = padded;
    backward.sign = 1;
    backward.read = Form::kComplex;
    backward.stored_in = backward.points_in = padded;
    backward.multiply_out = chirp_at;
    Stockham(backward);
  }

  FftPasses out;

 private:
  void Stockham(const FftPass& whole) {
    std::vector<int> radices = Radices(whole.points, most_radix_);
    if (radices.empty()) radices.push_back(1);
    int64_t done = 1;
    for (std::size_t r = 0; r < radices.size(); ++r) {
      FftPass pass = whole;
      pass.radix = radices[r];
      pass.done = done;
      done *= pass.radix;
      pass.twiddles = Twiddles(pass.points, pass.sign);
      if (r > 0) {
        pass.read = Form::kComplex;
        pass.stored_in = pass.points_in = pass.points;
        pass.multiply_in = -1;
      }
      if (r + 1 < radices.size()) {
        pass.write = Form::kComplex;
        pass.stored_out = pass.points;
        pass.multiply_out = -1;
        pass.scale = 1;
      }
      out.passes.push_back(pass);
    }
  }

  int64_t Append(const std::vector<std::complex<double>>& values) {
    const auto at = static_cast<int64_t>(out.table.size() / 2);
    for (const std::complex<double>& v : values) {
      out.table.push_back(v.real());
      out.table.push_back(v.imag());
    }
    return at;
  }
  int64_t Twiddles(int64_t n, int sign) {
    auto [it, added] = twiddles_.try_emplace({n, sign}, 0);
    if (added) {
      std::vector<std::complex<double>> values;
      for (int64_t k = 0; k < n; ++k) values.push_back(RootOfUnity(k, n, sign));
      it->second = Append(values);
    }
    return it->second;
  }

  int most_radix_;
  std::map<std::pair<int64_t, int>, int64_t> twiddles_;
};

}  // namespace

FftPasses PlanFft(const plan::FftKernel& fft, int most_radix) {
  FftPlanner planner(most_radix);
  const bool real_in = fft.type == FftType::kRfft, real_out = fft.type == FftType::kIrfft;
  const std::size_t rank = fft.lengths.size();
  Dims dims = fft.lengths;  // of the array as it lies in memory between two axes
  const int64_t n_last = dims.back(), half = n_last / 2 + 1;
  auto axis = [&](std::size_t d) {
    FftPass whole;
    whole.points = fft.lengths[d];
    whole.sign = fft.type == FftType::kFft || real_in ? -1 : 1;
    whole.scale = whole.sign > 0 ? 1 / static_cast<double>(whole.points) : 1;
    whole.outer = fft.batch;
    for (std::size_t k = 0; k < d; ++k) whole.outer *= dims[k];
    for (std::size_t k = d + 1; k < rank; ++k) whole.inner *= dims[k];
    whole.stored_in = whole.stored_out = whole.points_in = whole.points;
    if (d + 1 == rank && real_in) {
      whole.read = Form::kReal;
      whole.stored_out = half;
    }
    if (d + 1 == rank && real_out) {
      whole.read = Form::kHalf;
      whole.stored_in = half;
      whole.write = Form::kReal;
    }
    planner.Axis(whole);
  };
  // Real transforms work on half of the data in all other dimensions.
  if (real_in) axis(rank - 1);
  if (real_in || real_out) dims.back() = half;
  for (std::size_t d = 0; d < rank; ++d)
    if (!real_in && !real_out) axis(d);
    else if (d + 1 < rank) axis(d);
  if (real_out) axis(rank - 1);
  return std::move(planner.out);
}

}  // namespace krafla::spirv
