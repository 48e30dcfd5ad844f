// SPDX-License-Identifier: Apache-2.0
// Running combinations along a dimension: all rows beside each other, one element after the other, as HLO orders them;
// running sums of floats in blocks; few lines of others one by one (scan_lines.h).
#include <algorithm>
#include <cstring>

#include "base/checked_math.h"
#include "cpu_fallback/executor/combination.h"
#include "cpu_fallback/executor/kernel_families.h"
#include "cpu_fallback/executor/scan_lines.h"
#include "cpu_fallback/kernels/move.h"
#include "cpu_fallback/kernels/running_sum.h"

namespace krafla::cpu {

namespace {

constexpr int64_t kMostLanes = 512;
// Groups of few lines that lie one after the other are lanes too: so many lines, of short lines more, and so many of
// their elements at a time.
constexpr int64_t kLinesTogether = 64, kLineSteps = 64;
constexpr int64_t kFewLines = 8;

class ScanRun final : public CpuKernel {
 public:
  static KernelResult Make(const plan::ScanKernel& body, int threads) {
    auto out = std::make_unique<ScanRun>();
    out->body_ = body;
    const auto dimension = static_cast<std::size_t>(body.dimension);
    out->length_ = body.dims[dimension];
    for (std::size_t d = 0; d < dimension; ++d) out->outer_ *= body.dims[d];
    for (std::size_t d = dimension + 1; d < body.dims.size(); ++d) out->inner_ *= body.dims[d];
    const ElementType compute = plan::ComputeType(body.type);
    out->in_blocks_ = body.reduction.kind == plan::Reduction::Kind::kSum && IsFloat(compute);
    // Running sums of long lines are better off in vectors along them.
    const bool is_short = out->in_blocks_ ? out->length_ <= RunningSum<double>::kBlockSteps : out->inner_ == 1;
    out->turns_ = out->inner_ <= kFewLines && out->inner_ > 0 && out->outer_ > 1 && is_short;
    out->turn_steps_ = std::clamp<int64_t>(out->length_, 1, kLineSteps);
    const int64_t together = kLinesTogether * kLineSteps / out->turn_steps_;
    out->lanes_ =
        out->turns_ ? std::min(out->outer_, together / out->inner_) * out->inner_ : std::min(out->inner_, kMostLanes);
    KRAFLA_ASSIGN(out->init_, BlockProgram::Compile(body.reduction.init, {}));
    out->simple_ = FindSimpleCombiner(body.reduction.combiner);
    KRAFLA_ASSIGN(out->combiner_,
                  BlockProgram::Compile(body.reduction.combiner,
                                        {.tile = {.rows = 1, .columns = out->lanes_}, .params_are_arrays = true}));
    out->widen_ = FindWiden(body.type);
    out->narrow_ = plan::AccumulatesWide(body.reduction) ? FindRoundNarrow(body.type) : FindNarrow(body.type);
    out->worker_bytes_ = RoundUp(out->combiner_.frame_bytes(), 64) + RoundUp(out->init_.frame_bytes(), 64) +
                         2 * RoundUp(out->lanes_ * 8, 64);
    if (out->in_blocks_ && !out->turns_) {
      out->block_ = out->worker_bytes_;
      out->worker_bytes_ += RoundUp(out->lanes_ * RunningSum<double>::kBlockSteps * StorageBytes(compute), 64) +
                            RoundUp(RunningSum<double>::MemoryElements(out->lanes_) * StorageBytes(compute), 64);
    }
    if (out->turns_) {
      out->block_ = out->worker_bytes_;
      out->worker_bytes_ += 2 * RoundUp(out->lanes_ * out->turn_steps_ * 8, 64);
      out->sums_ = out->worker_bytes_;
      if (out->in_blocks_) out->worker_bytes_ += RoundUp(RunningSum<double>::MemoryElements(out->lanes_) * 8, 64);
    }
    out->scratch_bytes_ = out->worker_bytes_ * threads;
    return out;
  }

  Result<> Run(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch) const override {
    if (length_ == 0) return {};
    const int width = StorageBytes(body_.type), wide = StorageBytes(plan::ComputeType(body_.type));
    const std::byte* input = bindings[static_cast<std::size_t>(body_.input)];
    std::byte* output = bindings[static_cast<std::size_t>(body_.output)];
    // Of lines beside each other, or of lines one after the other.
    const int64_t lines = turns_ ? outer_ * inner_ : inner_, parts = CeilDiv(lines, lanes_);
    // A step reads and writes a value for each lane, and combines it.
    constexpr double kNanosecondsOfStep = 10, kNanosecondsOfLane = 0.7;
    const double part_time =
        static_cast<double>(length_) * (kNanosecondsOfStep + kNanosecondsOfLane * static_cast<double>(lanes_));
    pool.ParallelItems(turns_ ? parts : outer_ * parts, part_time, [&](int64_t begin, int64_t end, int worker) {
      std::byte* frame = scratch + worker * worker_bytes_;
      std::byte* init_frame = frame + RoundUp(combiner_.frame_bytes(), 64);
      std::byte* sum = init_frame + RoundUp(init_.frame_bytes(), 64);
      std::byte* value = sum + RoundUp(lanes_ * 8, 64);
      combiner_.Start(frame, bindings);
      init_.Start(init_frame, bindings);
      init_.RunTile(init_frame, {}, 1, 1);
      for (int64_t t = begin; t < end; ++t) {
        const int64_t o = turns_ ? 0 : t / parts, first = t % parts * lanes_;
        const int64_t n = std::min(lanes_, lines - first);
        if (body_.start >= 0) {
          const std::byte* from = bindings[static_cast<std::size_t>(body_.start)] + (o * inner_ + first) * width;
          if (widen_ != nullptr) widen_(from, sum, n);
          else std::memcpy(sum, from, static_cast<std::size_t>(n * width));
        } else {
          Fill(wide, init_.ResultValue(init_frame, 0).data, sum, n);
        }
        const int64_t first_element = o * length_ * inner_ + first;
        if (turns_) RunLines(frame, sum, input, output, first, n);
        else if (!in_blocks_) RunSteps(frame, sum, value, input, output, first_element, n);
        else if (wide == 8) RunBlocks<double>(frame + block_, sum, input, output, first_element, n);
        else RunBlocks<float>(frame + block_, sum, input, output, first_element, n);
        if (body_.last >= 0) {
          std::byte* to = bindings[static_cast<std::size_t>(body_.last)] + (o * inner_ + first) * width;
          Put(sum, to, n);
        }
      }
    });
    return {};
  }

 private:
  // n lines from element `first` on, step by step; `sum` holds what they begin with and end with.
  void RunSteps(std::byte* frame, std::byte* sum, std::byte* value, const std::byte* input, std::byte* output,
                int64_t first, int64_t n) const {
    const int width = StorageBytes(body_.type), wide = StorageBytes(plan::ComputeType(body_.type));
    for (int64_t step = 0; step < length_; ++step) {
      const int64_t i = body_.is_reverse ? length_ - 1 - step : step;
      const int64_t at = (first + i * inner_) * width;
      const std::byte* next = input + at;
      if (widen_ != nullptr) {
        widen_(next, value, n);
        next = value;
      }
      Combine(frame, sum, next, n, wide);
      Put(sum, output + at, n);
    }
  }
  // The n lines from line `first` on, whole groups of inner_: a block of their steps is turned, combined, and turned
  // back.
  void RunLines(std::byte* frame, std::byte* sum, const std::byte* input, std::byte* output, int64_t first,
                int64_t n) const {
    const int width = StorageBytes(body_.type), wide = StorageBytes(plan::ComputeType(body_.type));
    std::byte* stored = frame + block_;
    std::byte* values = widen_ == nullptr ? stored : stored + RoundUp(lanes_ * turn_steps_ * 8, 64);
    const int64_t groups = n / inner_;
    for (int64_t step = 0; step < length_; step += turn_steps_) {
      const int64_t steps = std::min(turn_steps_, length_ - step);
      const int64_t at = (first * length_ + (body_.is_reverse ? length_ - step - steps : step) * inner_) * width;
      for (int64_t i = 0; i < inner_; ++i)
        MoveTile(width, input + at + i * width, {length_ * inner_, inner_}, stored + i * width, {inner_, n}, groups,
                 steps);
      if (widen_ != nullptr) widen_(stored, values, steps * n);
      if (in_blocks_ && wide == 8) AddLines<double>(frame, sum, values, steps, n);
      else if (in_blocks_) AddLines<float>(frame, sum, values, steps, n);
      for (int64_t s = 0; s < steps && !in_blocks_; ++s) {
        std::byte* now = values + (body_.is_reverse ? steps - 1 - s : s) * n * wide;
        Combine(frame, sum, now, n, wide);
        std::memcpy(now, sum, static_cast<std::size_t>(n * wide));
      }
      if (values != stored || narrow_ != nullptr) Put(values, stored, steps * n);
      for (int64_t i = 0; i < inner_; ++i)
        MoveTile(width, stored + i * width, {inner_, n}, output + at + i * width, {length_ * inner_, inner_}, groups,
                 steps);
    }
  }
  // All steps of n lines of floats, which are one block.
  template <class T>
  void AddLines(std::byte* frame, std::byte* sum, std::byte* values, int64_t steps, int64_t n) const {
    T* block = reinterpret_cast<T*>(values);
    RunningSum<T> sums(reinterpret_cast<T*>(frame + sums_), reinterpret_cast<T*>(sum), n);
    sums.AddBlock(body_.is_reverse ? block + (steps - 1) * n : block, steps, body_.is_reverse ? -n : n);
    SettleNans(plan::ComputeType(body_.type), values, steps * n);
    std::copy_n(body_.is_reverse ? block : block + (steps - 1) * n, n, reinterpret_cast<T*>(sum));
  }
  void Put(const std::byte* values, std::byte* to, int64_t n) const {
    if (narrow_ != nullptr) narrow_(values, to, n);
    else std::memcpy(to, values, static_cast<std::size_t>(n * StorageBytes(body_.type)));
  }

  // As RunSteps, a block of steps at a time.
  template <class T>
  void RunBlocks(std::byte* memory, std::byte* sum_bytes, const std::byte* input, std::byte* output, int64_t first,
                 int64_t n) const {
    using Sums = RunningSum<T>;
    const int width = StorageBytes(body_.type);
    T* sum = reinterpret_cast<T*>(sum_bytes);
    T* block = reinterpret_cast<T*>(memory);
    Sums sums(block + RoundUp(lanes_ * Sums::kBlockSteps, 64 / static_cast<int64_t>(sizeof(T))), sum, n);
    T* last = sum;
    for (int64_t step = 0; step < length_; step += Sums::kBlockSteps) {
      const int64_t steps = std::min(Sums::kBlockSteps, length_ - step);
      // As the block lies in memory.
      const int64_t low = first + (body_.is_reverse ? length_ - step - steps : step) * inner_;
      const bool together = n == inner_;
      const int64_t rows = together ? 1 : steps, count = together ? steps * n : n;
      for (int64_t r = 0; r < rows; ++r) {
        const std::byte* from = input + (low + r * inner_) * width;
        if (widen_ != nullptr) widen_(from, block + r * n, count);
        else std::memcpy(block + r * n, from, static_cast<std::size_t>(count * width));
      }
      T* begin = body_.is_reverse ? block + (steps - 1) * n : block;
      sums.AddBlock(begin, steps, body_.is_reverse ? -n : n);
      SettleNans(plan::ComputeType(body_.type), block, steps * n);
      for (int64_t r = 0; r < rows; ++r)
        Put(reinterpret_cast<const std::byte*>(block + r * n), output + (low + r * inner_) * width, count);
      last = body_.is_reverse ? block : block + (steps - 1) * n;
    }
    std::copy_n(last, n, sum);
  }

  void Combine(std::byte* frame, std::byte* sum, const std::byte* next, int64_t n, int wide) const {
    if (simple_ && simple_->kind == SimpleCombiner::Kind::kOp) {
      simple_->op({sum, {sum, next, nullptr}, n, 0});
      if (simple_->round != nullptr) simple_->round({sum, {sum, nullptr, nullptr}, n, 0});
      return;
    }
    const void* params[] = {sum, next};
    combiner_.RunTile(frame, {}, 1, n, params);
    const BlockProgram::Value result = combiner_.ResultValue(frame, 0);
    if (result.is_uniform) Fill(wide, result.data, sum, n);
    else if (result.data != sum) std::memcpy(sum, result.data, static_cast<std::size_t>(n * wide));
  }

  plan::ScanKernel body_;
  int64_t length_ = 0, outer_ = 1, inner_ = 1, lanes_ = 1, turn_steps_ = 1;
  BlockProgram init_, combiner_;
  std::optional<SimpleCombiner> simple_;
  ConvertFn widen_ = nullptr, narrow_ = nullptr;
  bool in_blocks_ = false, turns_ = false;
  int64_t block_ = 0, sums_ = 0, worker_bytes_ = 0;
};

}  // namespace

KernelResult MakeScanKernel(const plan::KernelPlan&, const plan::ScanKernel& body, const CpuKernelOptions& options) {
  KRAFLA_ASSIGN(std::unique_ptr<CpuKernel> lines, MakeScanOfLines(body, options.threads));
  if (lines != nullptr) return lines;
  return ScanRun::Make(body, options.threads);
}

}  // namespace krafla::cpu
