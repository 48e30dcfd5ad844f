// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/scan_lines.h"

#include <algorithm>
#include <cstring>

#include "base/checked_math.h"
#include "cpu_fallback/executor/combination.h"
#include "cpu_fallback/kernels/running_lines.h"

namespace krafla::cpu {

namespace {

// So many lines beside each other are no work for vectors yet.
constexpr int64_t kMostBeside = 8;
// Of so many short lines one after the other, blocks of their steps are turned into lanes (scan_kernel.cpp).
constexpr int64_t kManyLines = 16, kShortLine = 32;
// Steps of a line that are widened, combined and rounded at a time.
constexpr int64_t kWideSteps = 256;

class LineScan final : public CpuKernel {
 public:
  static Result<std::unique_ptr<CpuKernel>> Make(const plan::ScanKernel& body, int threads) {
    auto out = std::make_unique<LineScan>();
    std::unique_ptr<CpuKernel> none;
    out->body_ = body;
    const auto dimension = static_cast<std::size_t>(body.dimension);
    out->length_ = body.dims[dimension];
    for (std::size_t d = 0; d < dimension; ++d) out->outer_ *= body.dims[d];
    for (std::size_t d = dimension + 1; d < body.dims.size(); ++d) out->inner_ *= body.dims[d];
    const std::optional<SimpleCombiner> simple = FindSimpleCombiner(body.reduction.combiner);
    if (!simple || simple->kind != SimpleCombiner::Kind::kOp || out->inner_ > kMostBeside) return none;
    if (out->length_ < kShortLine && out->outer_ * out->inner_ >= kManyLines) return none;
    const ElementType compute = plan::ComputeType(body.type);
    const bool is_wide = IsFloat(body.type) && body.type != compute;
    // What rounds in each step is no plain op of the wide type.
    if (is_wide && simple->round != nullptr && simple->opcode != Opcode::kMaximum && simple->opcode != Opcode::kMinimum)
      return none;
    // Sums of floats are computed in blocks.
    if (IsFloat(compute) && body.reduction.kind == plan::Reduction::Kind::kSum) return none;
    out->type_ = is_wide ? compute : body.type;
    out->run_ = FindRunningLines(simple->opcode, out->type_);
    if (out->run_ == nullptr) return none;
    if (is_wide) {
      // Steps of a line that is widened lie side by side.
      if (out->inner_ != 1) return none;
      out->widen_ = FindWiden(body.type);
      out->narrow_ = plan::AccumulatesWide(body.reduction) ? FindRoundNarrow(body.type) : FindNarrow(body.type);
      if (out->widen_ == nullptr || out->narrow_ == nullptr) return none;
    } else {
      out->narrow_init_ = FindNarrow(body.type);
      if (compute != body.type && out->narrow_init_ == nullptr) return none;
    }
    KRAFLA_ASSIGN(out->init_, BlockProgram::Compile(body.reduction.init, {}));
    out->wide_ = RoundUp(out->init_.frame_bytes(), 64);
    out->worker_bytes_ = out->wide_;
    if (is_wide) out->worker_bytes_ += kLinesAtOnce * kWideSteps * StorageBytes(compute);
    out->scratch_bytes_ = out->worker_bytes_ * threads;
    return std::unique_ptr<CpuKernel>(std::move(out));
  }

  Result<> Run(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch) const override {
    if (length_ == 0) return {};
    const int64_t lines = outer_ * inner_;
    const double nanoseconds = 1.2 * static_cast<double>(std::min(lines, kLinesAtOnce) * length_);
    pool.ParallelItems(CeilDiv(lines, kLinesAtOnce), nanoseconds, [&](int64_t begin, int64_t end, int worker) {
      std::byte* frame = scratch + worker * worker_bytes_;
      init_.Start(frame, bindings);
      init_.RunTile(frame, {}, 1, 1);
      for (int64_t t = begin; t < end; ++t)
        RunGroup(bindings, t * kLinesAtOnce, std::min(kLinesAtOnce, lines - t * kLinesAtOnce), frame);
    });
    return {};
  }

 private:
  // Lines [first, first + count).
  void RunGroup(std::span<std::byte* const> bindings, int64_t first, int64_t count, std::byte* frame) const {
    const std::byte* input = bindings[static_cast<std::size_t>(body_.input)];
    std::byte* output = bindings[static_cast<std::size_t>(body_.output)];
    alignas(8) std::byte sums[kLinesAtOnce * 8];
    const int width = StorageBytes(body_.type), kept = StorageBytes(type_);
    if (body_.start >= 0) {
      const std::byte* from = bindings[static_cast<std::size_t>(body_.start)] + first * width;
      if (widen_ != nullptr) widen_(from, sums, count);
      else std::memcpy(sums, from, static_cast<std::size_t>(count * width));
    } else {
      const std::byte* value = init_.ResultValue(frame, 0).data;
      for (int64_t k = 0; k < count; ++k) {
        if (widen_ == nullptr && narrow_init_ != nullptr) narrow_init_(value, sums + k * kept, 1);
        else std::memcpy(sums + k * kept, value, static_cast<std::size_t>(kept));
      }
    }
    RunningLines lines{.lines = count, .steps = length_, .step = body_.is_reverse ? -inner_ : inner_};
    for (int64_t k = 0; k < count; ++k)
      lines.offsets[k] = (first + k) / inner_ * length_ * inner_ + (first + k) % inner_ +
                         (body_.is_reverse ? (length_ - 1) * inner_ : 0);
    if (widen_ == nullptr) run_(lines, input, output, sums);
    else RunWide(lines, input, output, sums, frame + wide_);
    if (body_.last < 0) return;
    std::byte* to = bindings[static_cast<std::size_t>(body_.last)] + first * width;
    if (narrow_ != nullptr) narrow_(sums, to, count);
    else std::memcpy(to, sums, static_cast<std::size_t>(count * width));
  }

  // Some steps of each line are widened to `block`, combined there, and rounded.
  void RunWide(const RunningLines& lines, const std::byte* input, std::byte* output, std::byte* sums,
               std::byte* block) const {
    const int width = StorageBytes(body_.type), kept = StorageBytes(type_);
    for (int64_t step = 0; step < length_; step += kWideSteps) {
      RunningLines part{.lines = lines.lines, .steps = std::min(kWideSteps, length_ - step), .step = lines.step};
      const auto place = [&](int64_t k) {
        return (lines.offsets[k] + (body_.is_reverse ? 1 - step - part.steps : step)) * width;
      };
      for (int64_t k = 0; k < lines.lines; ++k) {
        widen_(input + place(k), block + k * kWideSteps * kept, part.steps);
        part.offsets[k] = k * kWideSteps + (body_.is_reverse ? part.steps - 1 : 0);
      }
      run_(part, block, block, sums);
      for (int64_t k = 0; k < lines.lines; ++k) narrow_(block + k * kWideSteps * kept, output + place(k), part.steps);
    }
  }

  plan::ScanKernel body_;
  int64_t length_ = 0, outer_ = 1, inner_ = 1;
  ElementType type_ = ElementType::kF32;  // in which lines are combined
  RunningLinesFn run_ = nullptr;
  ConvertFn widen_ = nullptr, narrow_ = nullptr;  // of floats that are combined in a wider type
  ConvertFn narrow_init_ = nullptr;
  BlockProgram init_;
  int64_t wide_ = 0, worker_bytes_ = 0;
};

}  // namespace

Result<std::unique_ptr<CpuKernel>> MakeScanOfLines(const plan::ScanKernel& body, int threads) {
  return LineScan::Make(body, threads);
}

}  // namespace krafla::cpu
