// SPDX-License-Identifier: Apache-2.0
// Dense linear algebra on the CPU. Matrices of a batch go to the threads, small ones a vector of them at a time; a
// single large one shares its rows among them.
#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <type_traits>

#include "base/checked_math.h"
#include "cpu_fallback/executor/kernel_families.h"
#include "cpu_fallback/executor/linalg_algorithms.h"
#include "cpu_fallback/executor/linalg_numbers.h"
#include "cpu_fallback/kernels/block_ops.h"
#include "cpu_fallback/kernels/small_matrices.h"
#include "ir/mini_float.h"

namespace krafla::cpu {

namespace {

using plan::LinalgKernel;
using Op = LinalgKernel::Op;

// Calls f(number of that type).
template <class F>
auto WithNumber(ElementType type, F&& f) {
  if (type == ElementType::kC128) return f(std::complex<double>());
  if (type == ElementType::kC64) return f(std::complex<float>());
  if (type == ElementType::kF64) return f(double());
  return f(float());
}

class LinalgRun final : public CpuKernel {
 public:
  LinalgRun(const plan::KernelPlan& plan, const LinalgKernel& body, int threads)
      : body_(body), inputs_(plan::InputCount(body.op)) {
    for (const plan::Binding& b : plan.bindings) counts_.push_back(b.element_count / std::max<int64_t>(body.batch, 1));
    widen_ = FindWiden(body.type);
    if (widen_ != nullptr) format_ = FindMiniFloat(body.type);
    WithNumber(body.type, [&]<class T>(T) {
      work_bytes_ = RoundUp(WorkBytes<T>(), 64);
      worker_bytes_ = work_bytes_ + RoundUp(PackedNumbers<T>() * static_cast<int64_t>(sizeof(T)), 64);
    });
    element_bytes_ = StorageBytes(IsComplex(body.type) ? RealPart(body.type) : body.type);
    small_ = TakesSmall();
    wide_at_ = worker_bytes_;
    // Wide copies of a matrix of each binding.
    if (widen_ != nullptr)
      for (int64_t c : counts_) worker_bytes_ += RoundUp(c * 4, 64);
    scratch_bytes_ = worker_bytes_ * threads;
  }

  Result<> Run(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch) const override {
    WithNumber(body_.type, [&]<class T>(T) {
      if (small_) RunSmall<typename linalg::RealOf<T>::Type>(bindings, pool);
      else RunEach<T>(bindings, pool, scratch);
    });
    return {};
  }

 private:
  template <class T>
  int64_t WorkBytes() const {
    constexpr auto kNumber = static_cast<int64_t>(sizeof(T));
    switch (body_.op) {
      case Op::kCholesky: return body_.rows * body_.columns * kNumber;
      case Op::kTriangularSolve: return body_.left_side ? 0 : body_.rows * body_.columns * kNumber;
      case Op::kLu: return 0;
      case Op::kQr:
      case Op::kHouseholderProduct: return linalg::QrNumbers<T>(body_) * kNumber;
      case Op::kEigh: return linalg::EighBytes<T>(body_);
      case Op::kSvd: return linalg::SvdBytes<T>(body_);
    }
    KRAFLA_UNREACHABLE();
  }
  template <class T>
  int64_t PackedNumbers() const {
    switch (body_.op) {
      case Op::kCholesky:
      case Op::kLu:
      case Op::kQr:
      case Op::kHouseholderProduct: return linalg::PackedNumbers<T>(body_.columns);
      case Op::kTriangularSolve: return linalg::PackedNumbers<T>(std::max(body_.rows, body_.columns));
      case Op::kEigh:
      case Op::kSvd: return 0;
    }
    KRAFLA_UNREACHABLE();
  }

  // Several matrices of few numbers.
  bool TakesSmall() const {
    if (widen_ != nullptr || body_.batch < 2) return false;
    if (body_.op != Op::kCholesky && body_.op != Op::kTriangularSolve && body_.op != Op::kLu) return false;
    // A vector costs the same whether its lanes are used or not.
    const int64_t most = body_.batch < kMostLanes / 2 ? kMostSmallNumbers / 4 : kMostSmallNumbers;
    return std::ranges::all_of(counts_, [&](int64_t c) { return c <= most; });
  }

  // T: of the parts of numbers.
  template <class T>
  void RunSmall(std::span<std::byte* const> bindings, ThreadPool& pool) const {
    constexpr int64_t kTogether = 64;  // several vectors of matrices
    const bool complex = IsComplex(body_.type);
    const double work =
        20 + static_cast<double>(body_.rows * body_.columns) * static_cast<double>(std::max(body_.rows, body_.columns));
    const int64_t grain = std::max<int64_t>(1, static_cast<int64_t>(50000 / (work * kTogether)));
    pool.ParallelFor(CeilDiv(body_.batch, kTogether), grain, [&](int64_t begin, int64_t end, int) {
      const int64_t first = begin * kTogether, count = std::min(end * kTogether, body_.batch) - first;
      const auto at = [&]<class N>(std::size_t binding, N) {
        return reinterpret_cast<N*>(bindings[binding]) + first * counts_[binding];
      };
      if (body_.op == Op::kCholesky) {
        CholeskyOfSmall<T>(complex, at(0, T()), at(1, T()), body_.rows, body_.lower, count);
      } else if (body_.op == Op::kLu) {
        LuOfSmall<T>(complex, at(0, T()), at(1, T()), at(2, int32_t()), at(3, int32_t()), body_.rows, body_.columns,
                     count);
      } else {
        SmallSystem s;
        s.n = body_.left_side ? body_.rows : body_.columns;
        s.sides = body_.left_side ? body_.columns : body_.rows;
        s.turned = body_.left_side != (body_.transpose == TriangularTranspose::kNoTranspose);
        s.conjugate = body_.transpose == TriangularTranspose::kAdjoint;
        s.forward = body_.lower != s.turned;
        s.unit = body_.unit_diagonal;
        s.by_rows = body_.left_side;
        SolveSmall<T>(complex, s, at(0, T()), at(1, T()), at(2, T()), count);
      }
    });
  }

  template <class T>
  void RunEach(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch) const {
    const auto size =
        static_cast<double>(body_.rows * body_.columns) * static_cast<double>(std::min(body_.rows, body_.columns));
    const int64_t grain = std::max<int64_t>(1, static_cast<int64_t>(50000 / std::max(size, 1.0)));
    pool.ParallelFor(body_.batch, grain, [&](int64_t begin, int64_t end, int worker) {
      std::byte* own = scratch + worker * worker_bytes_;
      for (int64_t b = begin; b < end; ++b) RunMatrix<T>(bindings, b, own, pool);
    });
  }

  template <class T>
  void RunMatrix(std::span<std::byte* const> bindings, int64_t matrix, std::byte* own, ThreadPool& pool) const {
    using R = typename linalg::RealOf<T>::Type;
    std::byte* next = own + wide_at_;
    T* at[4] = {};
    for (std::size_t i = 0; i < numbers(); ++i) {
      std::byte* here = bindings[i] + matrix * counts_[i] * element_bytes_;
      if (widen_ != nullptr) {
        if (i < inputs_) widen_(here, next, counts_[i]);
        at[i] = reinterpret_cast<T*>(next);
        next += RoundUp(counts_[i] * 4, 64);
      } else {
        at[i] = reinterpret_cast<T*>(here);
      }
    }
    const auto integers = [&](std::size_t i) { return reinterpret_cast<int32_t*>(bindings[i]) + matrix * counts_[i]; };
    T* work = reinterpret_cast<T*>(own);
    T* packed = reinterpret_cast<T*>(own + work_bytes_);
    switch (body_.op) {
      case Op::kCholesky: linalg::Cholesky(body_, at[0], at[1], work, packed, pool); break;
      case Op::kTriangularSolve: linalg::TriangularSolve(body_, at[0], at[1], at[2], work, packed, pool); break;
      case Op::kLu: linalg::Lu(body_, at[0], at[1], integers(2), integers(3), packed, pool); break;
      case Op::kQr: linalg::Qr(body_, at[0], at[1], at[2], work, packed, pool); break;
      case Op::kHouseholderProduct: linalg::HouseholderProduct(body_, at[0], at[1], at[2], work, packed, pool); break;
      case Op::kEigh: linalg::Eigh(body_, at[0], at[1], reinterpret_cast<R*>(at[2]), own); break;
      case Op::kSvd: linalg::Svd(body_, at[0], reinterpret_cast<R*>(at[1]), at[2], at[3], own); break;
    }
    if constexpr (std::is_same_v<T, float>) {
      if (format_ == nullptr) return;
      for (std::size_t i = inputs_; i < numbers(); ++i) {
        auto* to = reinterpret_cast<uint16_t*>(bindings[i]) + matrix * counts_[i];
        for (int64_t e = 0; e < counts_[i]; ++e) to[e] = static_cast<uint16_t>(EncodeMiniFloat(at[i][e], *format_));
      }
    }
  }

  // Bindings that hold numbers of the matrices' type; LU's others hold rows.
  std::size_t numbers() const { return body_.op == Op::kLu ? 2 : counts_.size(); }

  LinalgKernel body_;
  std::size_t inputs_;
  std::vector<int64_t> counts_;  // elements of each binding that belong to one matrix; complex numbers are two
  ConvertFn widen_ = nullptr;    // of f16 and bf16
  const MiniFloat* format_ = nullptr;
  bool small_ = false;
  int64_t work_bytes_ = 0, wide_at_ = 0, worker_bytes_ = 0, element_bytes_ = 4;
};

}  // namespace

KernelResult MakeLinalgKernel(const plan::KernelPlan& plan, const LinalgKernel& body, const CpuKernelOptions& options) {
  return std::make_unique<LinalgRun>(plan, body, options.threads);
}

}  // namespace krafla::cpu
