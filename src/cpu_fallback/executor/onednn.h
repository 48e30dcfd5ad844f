// SPDX-License-Identifier: Apache-2.0
// oneDNN's matrix product and convolution, behind an interface that builds without it: then nothing is ever made.
// oneDNN works with one thread a call; problems are cut into parts here, and the parts are the pool's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/thread_pool.h"
#include "cpu_fallback/kernels/convolution_problem.h"
#include "cpu_fallback/kernels/gemm.h"

namespace krafla::cpu {

class OneDnnProblem {
 public:
  virtual ~OneDnnProblem() = default;
  // Scratch at a 64-byte boundary.
  virtual int64_t scratch_bytes() const = 0;
  // What is kept of a b that never changes, at a 64-byte boundary, and the making of it. The same scratch.
  virtual int64_t kept_bytes() const = 0;
  virtual bool reads_b() const = 0;  // in a run, besides
  virtual bool Keep(const void* b, ThreadPool& pool, std::byte* scratch, std::byte* kept) const = 0;
  // Any number of runs at a time, each with scratch of its own. False where oneDNN reports an error. `kept`: as Keep
  // has made it; of no matter without kept_bytes().
  virtual bool Run(const void* a, const void* b, void* result, ThreadPool& pool, std::byte* scratch,
                   const std::byte* kept = nullptr) const = 0;
};

// result[..., m, n] = a[..., m, k] * b[..., k, n]; batch dimensions of 1 are repeated. `threads` is the most that will
// run it. Null where oneDNN has no fast implementation.
std::unique_ptr<OneDnnProblem> MakeOneDnnMatmul(const TensorView& a, const TensorView& b, const TensorView& result,
                                                int threads);

// A product whose result has these strides along [batch..., m, n]. Null also where a stride is none that oneDNN knows.
std::unique_ptr<OneDnnProblem> MakeOneDnnMatmul(const GemmProblem& problem, const Dims& result_strides,
                                                ElementType result_type, int threads);

// All of them, over parts of the same arrays; null where oneDNN is not fast at one of them. `keeps_kernel`: b, the
// kernel, never changes: what oneDNN wants in another order is kept so.
std::unique_ptr<OneDnnProblem> MakeOneDnnConvolutions(std::span<const ConvolutionProblem> problems, int threads,
                                                      bool keeps_kernel = false);

// Whether it multiplies halves by the processor's tiles: as fast as nothing else does.
bool HasOneDnnTiles();

}  // namespace krafla::cpu
