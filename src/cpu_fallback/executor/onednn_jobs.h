// SPDX-License-Identifier: Apache-2.0
// Primitives of oneDNN that solve a problem together, each on one thread: phases of jobs, the jobs of one phase in any
// order and at once.
#pragma once

#ifdef KRAFLA_HAVE_ONEDNN

#include <memory>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <vector>

#include "cpu_fallback/executor/onednn.h"

namespace krafla::cpu::onednn {

dnnl::engine& Engine();
std::optional<dnnl::memory::data_type> DataTypeOf(ElementType type);
// The dimension of a view that oneDNN cannot describe: elements along it run backwards, or reach over those of a
// dimension with larger strides, as every second one of an odd number does. -1: none.
int IrregularDim(const TensorView& view);
// The strides of a view, where a dimension of one element has that of an array without gaps: oneDNN takes some for the
// width of a matrix (3.7.2: a product whose one output channel had stride 0, as in a plan, was never written).
dnnl::memory::dims DenseStrides(const TensorView& view);
// Nothing for types that oneDNN lacks and for irregular views.
std::optional<dnnl::memory::desc> Describe(const TensorView& view);
// Whether products of s8 by s8 keep every bit here: without instructions that multiply and add four bytes at once
// oneDNN halves the kernels of convolutions, and lets sums of two products saturate at 16 bits.
bool MultipliesS8Exactly();
// Its own code, not the reference implementation.
bool IsFast(const dnnl::primitive_desc_base& primitive);
dnnl::primitive_attr UserScratchpad();
// Besides, the result is added to what is there.
dnnl::primitive_attr AddingToResult();
double ElementsOf(const TensorView& view);

// oneDNN asks OpenMP how many threads it may have when it makes a primitive and when it runs one: one, as long as one
// of these is alive on this thread. Then OpenMP starts no team. What the thread had set before comes back.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

// Where a memory lies: in one of the arrays of the problem, in its scratch, or in what is kept from run to run.
struct Place {
  enum class Array : uint8_t { kA, kB, kResult, kScratch, kKept } array = Array::kScratch;
  int64_t offset = 0;  // bytes
};

class Jobs final : public OneDnnProblem {
 public:
  // `keeps_b`: b never changes, and what is moved out of it is kept.
  explicit Jobs(bool keeps_b = false) : keeps_b_(keeps_b) {}

  // Room in the scratch.
  Place Take(int64_t bytes);
  // Room for what comes from `source`: where that is b, and is kept, in what is kept.
  Place TakeFor(const Place& source, int64_t bytes);
  // Moves are made before or after the computation, which is the phase between; those to what is kept, once.
  enum class Phase : uint8_t { kKeep, kBefore, kCompute, kAfter };
  // Throws dnnl::error, as do the next two.
  void AddMove(Phase phase, dnnl::memory::desc from, Place from_place, dnnl::memory::desc to, Place to_place);
  // The same in several jobs, cut along dimension `dim`, where there is much to move.
  void AddMoves(Phase phase, const dnnl::memory::desc& from, Place from_place, const dnnl::memory::desc& to,
                Place to_place, int dim, int threads);
  // src and weights give dst. `after_last`: runs where the job that was added last does, after it.
  template <class PrimitiveDescriptor>
  void AddProduct(const PrimitiveDescriptor& d, Place src, Place weights, Place dst, double flops,
                  bool after_last = false) {
    Step step;
    step.primitive = dnnl::primitive(d);
    step.scratchpad = d.scratchpad_desc();
    step.AddMemory(DNNL_ARG_SRC, d.src_desc(), src);
    step.AddMemory(DNNL_ARG_WEIGHTS, d.weights_desc(), weights);
    step.AddMemory(DNNL_ARG_DST, d.dst_desc(), dst);
    Add(Phase::kCompute, std::move(step), flops / kFlopsPerNanosecond,
        static_cast<int64_t>(d.scratchpad_desc().get_size()), after_last);
  }
  // What has been added is forgotten.
  void Clear();
  void Finish(int threads);

  int64_t scratch_bytes() const override { return scratch_bytes_; }
  int64_t kept_bytes() const override { return kept_; }
  bool reads_b() const override { return reads_b_; }
  bool Keep(const void* b, ThreadPool& pool, std::byte* scratch, std::byte* kept) const override;
  bool Run(const void* a, const void* b, void* result, ThreadPool& pool, std::byte* scratch,
           const std::byte* kept) const override;

 private:
  static constexpr double kFlopsPerNanosecond = 80;
  static constexpr double kBytesPerNanosecond = 8;
  static constexpr int kMostMemories = 3;

  struct Step {
    dnnl::primitive primitive;
    int count = 0;
    int arguments[kMostMemories];
    dnnl::memory::desc descs[kMostMemories], scratchpad;
    Place places[kMostMemories];
    std::size_t number = 0;  // among the steps of all phases

    void AddMemory(int argument, const dnnl::memory::desc& desc, Place place);
  };
  using Job = std::vector<Step>;  // one after the other
  struct PhaseJobs {
    std::vector<Job> jobs;
    double nanoseconds = 0;
  };

  void Add(Phase phase, Step step, double nanoseconds, int64_t scratchpad_bytes, bool after_last = false);
  // What carries the pointers of one run: of each step its memories, then its scratchpad. Runs at the same time have
  // one each; those that are over leave theirs to the next.
  using Memories = std::vector<dnnl::memory>;
  class Borrowed;

  std::unique_ptr<Memories> MakeMemories() const;
  bool RunStep(const Step& step, std::byte* const* arrays, std::byte* scratchpad, Memories& memories) const;
  bool RunPhase(const PhaseJobs& phase, std::byte* const* arrays, ThreadPool& pool, Memories& memories) const;

  bool keeps_b_, reads_b_ = false;
  PhaseJobs phases_[4];
  int64_t taken_ = 0, scratchpad_bytes_ = 0, scratch_bytes_ = 0, kept_ = 0;
  std::size_t step_count_ = 0;
  mutable std::mutex mutex_;  // of what follows
  mutable std::vector<std::unique_ptr<Memories>> spare_;
};

}  // namespace krafla::cpu::onednn

#endif
