// SPDX-License-Identifier: Apache-2.0
// AttentionKernel: its three parts one after the other, with the arrays between them in scratch. What has little to do
// runs by blocks, one for each index of its batch, all three parts of a block on one thread: the threads meet once, and
// not behind each part. Attention of much work has row groups in plans for the CPU.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <mutex>

#include "base/checked_math.h"
#include "cpu_fallback/executor/attention_columns.h"
#include "cpu_fallback/executor/kernel_families.h"
#include "cpu_fallback/kernels/gemm.h"
#include "plan/rows/column_window.h"
#include "plan/rows/row_kernel.h"

namespace krafla::cpu {
namespace {

constexpr int64_t kAttentionAlignment = 64;
constexpr std::size_t kMostBindings = 256;  // of a block's kernel
// Up to here blocks are worth it even where they leave threads without work, or read pieces of lines: what three loops
// take to start.
constexpr double kShortNanoseconds = 200e3;
// Of less a block's three calls are what takes time: parts go over all blocks at once.
constexpr double kLeastOfBlock = 4000;
// Of less it does not matter which columns are read.
constexpr double kLeastWithin = 10e3;
constexpr double kNanosecondsOfByte = 0.1, kNanosecondsOfFlop = 0.02;

// Where the arrays between the parts lie in scratch, behind each other.
std::vector<std::byte*> WithBetween(std::span<std::byte* const> bindings, std::span<const int64_t> between,
                                    std::byte*& scratch) {
  std::vector<std::byte*> out(bindings.begin(), bindings.end());
  for (const int64_t bytes : between) {
    out.push_back(scratch);
    scratch += RoundUp(bytes, kAttentionAlignment);
  }
  return out;
}

// The bytes of the arrays that parts have behind the bindings of the whole.
std::vector<int64_t> BytesBetween(const plan::KernelPlan& whole, const plan::KernelPlan& part) {
  std::vector<int64_t> out;
  for (std::size_t b = whole.bindings.size(); b < part.bindings.size(); ++b)
    out.push_back(part.bindings[b].byte_size());
  return out;
}

// Whether rows of different blocks lie between each other: then all blocks at once read the memory as it lies, and one
// block after the other reads pieces of a line or two.
bool LieBetween(const plan::DotKernel& scores) {
  return RowsLieBetween(scores.batch, scores.rhs_batch_strides, std::max(scores.rhs_n_stride, scores.rhs_k_stride));
}

// On one thread.
double NanosecondsOf(std::span<const plan::KernelPlan> parts) {
  double out = 0;
  for (const plan::KernelPlan& part : parts)
    out += std::max(part.flops * kNanosecondsOfFlop, part.bytes * kNanosecondsOfByte);
  return out;
}

class AttentionRun final : public CpuKernel {
 public:
  AttentionRun(std::vector<std::unique_ptr<CpuKernel>> parts, std::vector<int64_t> between)
      : parts_(std::move(parts)), between_(std::move(between)) {
    for (const auto& part : parts_) scratch_bytes_ = std::max(scratch_bytes_, part->scratch_bytes());
    for (const int64_t bytes : between_) scratch_bytes_ += RoundUp(bytes, kAttentionAlignment);
  }

  Result<> Run(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch) const override {
    const std::vector<std::byte*> all = WithBetween(bindings, between_, scratch);
    for (const auto& part : parts_) KRAFLA_TRY(part->Run(all, pool, scratch));
    return {};
  }

 private:
  std::vector<std::unique_ptr<CpuKernel>> parts_;
  std::vector<int64_t> between_;
};

// The parts of one block after the other, or of blocks side by side.
class AttentionBlocks final : public CpuKernel {
 public:
  using Made = Result<std::unique_ptr<AttentionBlocks>>;
  // `grid`: the first free dimensions of the parts, of which the first one is the window if there are windows. Null:
  // the parts have no blocks.
  static Made Make(std::span<const plan::KernelPlan> parts, const Dims& grid, bool has_windows,
                   std::vector<int64_t> between, const CpuKernelOptions& options) {
    auto out = std::make_unique<AttentionBlocks>();
    out->grid_ = grid;
    out->has_windows_ = has_windows;
    out->blocks_ = Product(grid) / (has_windows ? grid[0] : 1);
    out->nanoseconds_ = NanosecondsOf(parts);
    out->between_ = std::move(between);
    CpuKernelOptions of_block = options;
    const int workers = out->blocks_ > 1 ? options.threads : 1;
    if (out->blocks_ > 1) of_block.threads = 1;
    of_block.parts = options.parts * out->blocks_;
    int64_t most = 0;
    for (const plan::KernelPlan& part : parts) {
      const std::optional<Dims> free = plan::FreeDims(part);
      if (!free || free->size() <= grid.size()) return nullptr;
      std::vector<int> grid_of;
      for (std::size_t d = 0; d < free->size(); ++d) grid_of.push_back(d < grid.size() ? static_cast<int>(d) : -1);
      std::optional<plan::BlockKernel> block = plan::TakeBlock(part, grid_of, grid);
      if (!block || block->bindings.size() > kMostBindings) return nullptr;
      BlockPart made;
      for (std::size_t b = 0; b < block->bindings.size(); ++b) {
        const plan::BlockKernel::From& from = block->bindings[b];
        const int64_t width = StorageBytes(block->kernel.bindings[b].storage);
        Place place{from.binding, from.first * width, from.strides};
        for (int64_t& stride : place.strides) stride *= width;
        made.places.push_back(std::move(place));
      }
      KRAFLA_ASSIGN(made.kernel, CompileKernel(block->kernel, of_block));
      most = std::max(most, made.kernel->scratch_bytes());
      out->parts_.push_back(std::move(made));
    }
    out->place_bytes_ = RoundUp(std::ssize(grid) * int64_t{sizeof(int32_t)}, kAttentionAlignment);
    out->worker_bytes_ = out->place_bytes_ + RoundUp(most, kAttentionAlignment);
    out->scratch_bytes_ = workers * out->worker_bytes_;
    for (const int64_t bytes : out->between_) out->scratch_bytes_ += RoundUp(bytes, kAttentionAlignment);
    return out;
  }

  Result<> Run(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch) const override {
    return RunWindow(0, bindings, pool, scratch);
  }
  Result<> RunWindow(int64_t window, std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch) const {
    const std::vector<std::byte*> all = WithBetween(bindings, between_, scratch);
    if (blocks_ == 1) return RunBlock(all, window, 0, pool, scratch);
    std::mutex failing;
    Result<> outcome;
    pool.ParallelParts(blocks_, nanoseconds_, [&](int64_t begin, int64_t end, int worker) {
      for (int64_t b = begin; b < end; ++b) {
        Result<> done = RunBlock(all, window, b, one_thread_, scratch + worker * worker_bytes_);
        if (done) continue;
        std::lock_guard<std::mutex> lock(failing);
        if (outcome) outcome = std::move(done);
        return;
      }
    });
    return outcome;
  }

 private:
  // Where a binding of a block's kernel lies: in a binding of the whole, or -1: the block's place in the grid.
  struct Place {
    int binding = -1;
    int64_t offset = 0;  // bytes
    Dims strides;
  };
  struct BlockPart {
    std::unique_ptr<CpuKernel> kernel;
    std::vector<Place> places;
  };

  Result<> RunBlock(std::span<std::byte* const> all, int64_t window, int64_t number, ThreadPool& pool,
                    std::byte* memory) const {
    auto* at = reinterpret_cast<int32_t*>(memory);
    const std::size_t first = has_windows_ ? 1 : 0;
    for (std::size_t g = grid_.size(); g-- > first; number /= grid_[g]) at[g] = static_cast<int32_t>(number % grid_[g]);
    if (has_windows_) at[0] = static_cast<int32_t>(window);
    std::array<std::byte*, kMostBindings> bindings;
    for (const BlockPart& part : parts_) {
      std::size_t count = 0;
      for (const Place& place : part.places) {
        std::byte* address = (place.binding < 0 ? memory : all[static_cast<std::size_t>(place.binding)]) + place.offset;
        for (std::size_t g = 0; g < grid_.size(); ++g) address += at[g] * place.strides[g];
        bindings[count++] = address;
      }
      KRAFLA_TRY(part.kernel->Run(std::span(bindings).first(count), pool, memory + place_bytes_));
    }
    return {};
  }

  Dims grid_;
  bool has_windows_ = false;
  int64_t blocks_ = 1;
  std::vector<BlockPart> parts_;
  std::vector<int64_t> between_;
  double nanoseconds_ = 0;
  int64_t place_bytes_ = 0, worker_bytes_ = 0;
  mutable ThreadPool one_thread_{1};
};

// The columns that a mask leaves, and all of them where what it hides may count.
class AttentionWithin final : public CpuKernel {
 public:
  // Null: that there are limits saves nothing.
  static KernelResult Make(const plan::AttentionKernel& body, std::span<const plan::KernelPlan> parts,
                           std::size_t bindings, bool by_blocks, std::vector<int64_t> between,
                           std::unique_ptr<CpuKernel>& whole, const CpuKernelOptions& options) {
    const int64_t columns = body.scores->n;
    const std::vector<int64_t> widths = WindowWidths(columns);
    auto out = std::make_unique<AttentionWithin>();
    out->values_ = Magnitudes::OfValues(*body.product);
    if (widths.empty() || !out->values_) return nullptr;
    if (body.limits->added) {
      out->keys_ = Magnitudes::OfKeys(*body.scores);
      out->queries_ = Magnitudes::OfQueries(*body.scores);
      if (!out->keys_ || !out->queries_) return nullptr;
      out->of_product_ = *body.limits->added * static_cast<double>(body.scores->k) * kRoundedUp;
    }
    KRAFLA_ASSIGN(out->finder_, ColumnRangeFinder::Make(*body.limits, static_cast<int>(bindings)));
    out->least_ = body.limits->least;
    out->columns_ = columns;
    out->rows_ = Product(body.scores->batch) * body.scores->m;
    out->storage_ = parts[0].bindings[bindings].storage;
    out->scratch_bytes_ = std::max(whole->scratch_bytes(), out->finder_->scratch_bytes(options.threads));
    for (const int64_t width : widths) {
      const std::vector<plan::KernelPlan> within = plan::WithColumnWindows(parts, width, kWindowStep);
      Window window{width, plan::ColumnWindows(columns, width, kWindowStep), nullptr};
      Dims grid = {window.count};
      for (std::size_t d = 0; d < body.scores->batch.size() && by_blocks; ++d) grid.push_back(body.scores->batch[d]);
      KRAFLA_ASSIGN(window.kernel, AttentionBlocks::Make(within, grid, /*has_windows=*/true, between, options));
      if (window.kernel == nullptr) return nullptr;
      out->scratch_bytes_ = std::max(out->scratch_bytes_, window.kernel->scratch_bytes());
      out->windows_.push_back(std::move(window));
    }
    out->whole_ = std::move(whole);
    return out;
  }

  Result<> Run(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch) const override {
    const ColumnRange left = finder_->Find(bindings, pool, scratch);
    for (const Window& window : windows_) {
      const int64_t number = std::clamp<int64_t>(left.begin / kWindowStep, 0, window.count - 1);
      const ColumnRange range{number * kWindowStep, number * kWindowStep + window.width};
      if (left.begin < range.begin || left.end > range.end) continue;
      if (!std::isfinite(values_->Outside(range, bindings, pool))) break;
      const double least = least_ + MostAdded(range, bindings, pool);
      if (!(least < std::numeric_limits<float>::max())) break;
      KRAFLA_TRY(window.kernel->RunWindow(number, bindings, pool, scratch));
      if (HaveScoresAbove(least, range, scratch, storage_, rows_, columns_)) return {};
      break;
    }
    return whole_->Run(bindings, pool, scratch);
  }

 private:
  struct Window {
    int64_t width = 0, count = 0;
    std::unique_ptr<AttentionBlocks> kernel;
  };
  static constexpr double kRoundedUp = 1.01;  // of what sums and their roundings come to
  // Products sum up runs of 512 columns (few_rows.h), and so they do where these are all of a window's.
  static constexpr int64_t kWindowStep = 512, kLeastWidth = 128, kNarrowStep = 64, kStepsOfOctave = 4;

  // Rising: few that are wide for each that is narrow, as each is compiled.
  static std::vector<int64_t> WindowWidths(int64_t columns) {
    std::vector<int64_t> out;
    for (int64_t width = kLeastWidth; width < columns;) {
      out.push_back(width);
      const int64_t step = width < kWindowStep ? kNarrowStep : kWindowStep;
      const auto octave = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(width)));
      width += std::max(step, octave / kStepsOfOctave / step * step);
    }
    return out;
  }

  // How much more than the mask's constant a hidden score may be: more than any number where that is not known.
  double MostAdded(const ColumnRange& range, std::span<std::byte* const> bindings, ThreadPool& pool) const {
    if (!keys_) return 0;
    const double query = queries_->Outside({}, bindings, pool), key = keys_->Outside(range, bindings, pool);
    const double product = query * key * of_product_;
    // Sums in f32 beyond this might be infinite.
    return product < 1e37 ? product : std::numeric_limits<double>::infinity();
  }

  std::unique_ptr<CpuKernel> whole_;
  std::vector<Window> windows_;
  std::optional<ColumnRangeFinder> finder_;
  std::optional<Magnitudes> values_;
  std::optional<Magnitudes> keys_, queries_;  // where the mask is added
  double of_product_ = 0;                     // a score's size, by that of a query's and a key's elements
  double least_ = 0;
  int64_t columns_ = 0, rows_ = 0;
  ElementType storage_ = ElementType::kF32;
};

}  // namespace

KernelResult MakeAttentionKernel(const plan::KernelPlan& plan, const plan::AttentionKernel& body,
                                 const CpuKernelOptions& options) {
  CpuKernelOptions of_part = options;
  of_part.constants.clear();  // which count the bindings of the whole
  const std::vector<plan::KernelPlan> parts = plan::PartsOfAttention(plan, body);
  const double nanoseconds = NanosecondsOf(parts);
  const std::vector<int64_t> between = BytesBetween(plan, parts.back());
  const Dims& grid = body.scores->batch;
  const int64_t blocks = Product(grid);
  const bool fills_blocks = nanoseconds >= kLeastOfBlock * static_cast<double>(blocks);
  const bool fills_threads = blocks >= options.threads && !LieBetween(*body.scores);
  std::unique_ptr<CpuKernel> whole;
  const bool wants_blocks = blocks > 1 && fills_blocks && (fills_threads || nanoseconds < kShortNanoseconds);
  if (wants_blocks) {
    KRAFLA_ASSIGN(whole, AttentionBlocks::Make(parts, grid, /*has_windows=*/false, between, of_part));
  }
  const bool by_blocks = whole != nullptr;
  if (!by_blocks) {
    std::vector<std::unique_ptr<CpuKernel>> made;
    for (const plan::KernelPlan& part : parts) {
      KRAFLA_ASSIGN(std::unique_ptr<CpuKernel> kernel, CompileKernel(part, of_part));
      made.push_back(std::move(kernel));
    }
    whole = std::make_unique<AttentionRun>(std::move(made), between);
  }
  if (body.limits && nanoseconds >= kLeastWithin) {
    KRAFLA_ASSIGN(std::unique_ptr<CpuKernel> within,
                  AttentionWithin::Make(body, parts, plan.bindings.size(), by_blocks, between, whole, of_part));
    if (within != nullptr) return within;
  }
  return whole;
}

}  // namespace krafla::cpu
