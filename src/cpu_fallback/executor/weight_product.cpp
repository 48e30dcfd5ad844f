// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/weight_product.h"

#include <algorithm>
#include <cstring>

#include "base/checked_math.h"
#include "base/index.h"
#include "base/interruption.h"
#include "cpu_fallback/kernels/move.h"

namespace krafla::cpu {

namespace {

// With more vectors than these, products of matrices are faster.
constexpr int64_t kMostVectors = 4;
// Lines of a task: their sums stay in the L1 cache; what of a turn several vectors read stays there too.
constexpr int64_t kMostLines = 4096, kLeastLines = 128, kLinesOfVectors = 512;
// Codes of a panel, where they are computed, and how many of them lie side by side.
constexpr int64_t kCodesOfPanel = 64 * 1024, kNeighbouringCodes = 1024;
constexpr int64_t kF32Bytes = 4;

}  // namespace

// What a thread works on.
struct WeightProduct::Worker {
  std::span<std::byte* const> bindings;
  std::byte* scratch = nullptr;
  std::byte* memory = nullptr;  // its own
  Task task;
  Dims batch;
  float* sums() const { return reinterpret_cast<float*>(memory); }
};

std::optional<WeightProduct> WeightProduct::Make(const plan::DotKernel& kernel, const GemmProblem& p, int threads,
                                                 bool rounds_vectors) {
  if (kernel.computes_lhs() == kernel.computes_rhs() || p.accumulate_type != ElementType::kF32 || p.k == 0)
    return std::nullopt;
  WeightProduct out;
  out.problem_ = p;
  out.is_rhs_ = kernel.computes_rhs();
  out.rounds_vectors_ = rounds_vectors;
  out.threads_ = threads;
  out.batches_ = BatchCount(p);
  out.lines_ = out.is_rhs_ ? p.n : p.m, out.depth_ = p.k;
  out.vectors_ =
      out.is_rhs_ ? Vectors{p.m, p.lhs_m_stride, p.lhs_k_stride, p.lhs_type, p.lhs_batch_strides, 1, p.result_m_stride}
                  : Vectors{p.n, p.rhs_n_stride, p.rhs_k_stride, p.rhs_type, p.rhs_batch_strides, p.result_m_stride, 1};
  if (out.vectors_.count > kMostVectors || !CanWiden(out.vectors_.type, ElementType::kF32)) return std::nullopt;
  const std::optional<QuantisedWeights> weights =
      FindQuantisedWeights(out.is_rhs_ ? kernel.rhs_program : kernel.lhs_program, out.is_rhs_);
  if (!weights) return std::nullopt;
  out.group_ = weights->group;
  if (!rounds_vectors && out.MakeLines(*weights)) {
    out.PlaceScratch();
    return out;
  }
  const bool divides = !rounds_vectors && weights->made == QuantisedWeights::Made::kQuotients;
  if (!out.PlaceFactors(divides ? weights->divisors : weights->scales, std::nullopt, out.scales_) ||
      !out.PlaceFactors(weights->zeros, ElementType::kF32, out.zeros_) || !out.PlaceCodes(*weights))
    return std::nullopt;
  if (out.scales_.of_groups) out.scale_type_ = out.scales_.of_groups->type();
  if (!out.FindKernels(*weights)) return std::nullopt;
  out.PlaceScratch();
  return out;
}

bool WeightProduct::FindKernels(const QuantisedWeights& weights) {
  const std::optional<WeightKind> how = WeightKindOf(weights);
  for (const bool is_upper : {false, true}) {
    if (rounds_vectors_) int_dots_[At(is_upper)] = FindIntDot(form_.kind, scale_type_, is_upper);
    else if (how) weight_dots_[At(is_upper)] = FindWeightDot(form_.kind, *how, scale_type_, is_upper);
  }
  return int_dots_[0] != nullptr || weight_dots_[0] != nullptr;
}

bool WeightProduct::MakeLines(const QuantisedWeights& weights) {
  const std::optional<WeightKind> how = WeightKindOf(weights);
  std::optional<CodesInMemory> codes = FindCodesInMemory(weights, is_rhs_);
  if (!codes || !codes->form.is_along_depth() || !how || !weights.zeros.results.empty()) return false;
  if (*how != WeightKind::kCodes) {
    line_scales_ = FindScalesInMemory(weights.scales, is_rhs_, true);
    if (!line_scales_) return false;
  }
  lines_dot_ = FindWeightLines(codes->form.kind, *how, line_scales_ ? line_scales_->type : ElementType::kF32);
  if (lines_dot_ == nullptr) return false;
  in_memory_ = std::move(codes);
  form_ = in_memory_->form;
  most_lines_ = std::min(LinesOfTask(), lines_);
  return true;
}

bool WeightProduct::PlaceFactors(const plan::ElementProgram& program, std::optional<ElementType> type,
                                 Factors& factors) const {
  if (program.results.empty()) return true;
  factors.of_groups = GroupFactors::Make(program, is_rhs_, {problem_.batch, lines_, depth_ / group_}, type);
  return factors.of_groups.has_value();
}

// Each thread should have some tasks, of about as many lines; one alone goes along whole rows.
int64_t WeightProduct::LinesOfTask() const {
  const int64_t shares = threads_ == 1 ? 1 : 2 * int64_t{threads_};
  const int64_t most = std::clamp(CeilDiv(lines_ * batches_, shares), kLeastLines, kMostLines);
  return RoundUp(CeilDiv(lines_, CeilDiv(lines_, most)), 64);
}

bool WeightProduct::PlaceCodes(const QuantisedWeights& weights) {
  most_lines_ = LinesOfTask();
  in_memory_ = FindCodesInMemory(weights, is_rhs_);
  if (in_memory_ && in_memory_->form.is_along_depth()) in_memory_.reset();
  if (in_memory_) {
    form_ = in_memory_->form;
    most_lines_ = std::min(most_lines_, lines_);
    return true;
  }
  auto made = ComputedOperand::Make(weights.codes, {.is_rhs = is_rhs_,
                                                    .type = weights.code_type,
                                                    .neighbours = kNeighbouringCodes,
                                                    .elements = kCodesOfPanel,
                                                    .most_lines = most_lines_});
  if (!made) return false;
  computed_ = std::move(*made);
  most_lines_ = computed_->most_lines();
  const bool is_signed = weights.code_type == ElementType::kS8;
  form_ = {CodeForm::Kind::kBytes, static_cast<uint8_t>(is_signed ? 0x80 : 0), is_signed ? 128 : 0};
  return true;
}

void WeightProduct::PlaceScratch() {
  const int64_t vectors = batches_ * vectors_.count, groups = depth_ / group_;
  int64_t size = 0;
  const auto place = [&](int64_t bytes) {
    const int64_t at = size;
    size += RoundUp(bytes, 64);
    return at;
  };
  place(vectors * depth_ * VectorBytes());
  steps_offset_ = place(rounds_vectors_ ? vectors * groups * BlocksOfGroup() * kF32Bytes : 0);
  wide_offset_ = place(RoundUp(depth_ * kF32Bytes, 64) + depth_ * StorageBytes(vectors_.type));
  int64_t frame = computed_ ? computed_->frame_bytes() : 0;
  for (Factors* factors : {&scales_, &zeros_}) {
    if (!factors->of_groups) continue;
    factors->offset = place(factors->of_groups->scratch_bytes());
    frame = std::max(frame, factors->of_groups->frame_bytes());
  }
  workers_offset_ = size;
  size = 0;
  place(vectors_.count * most_lines_ * kF32Bytes);
  scales_offset_ = place(most_lines_ * kF32Bytes);
  frame_offset_ = place(frame);
  panel_offset_ = place(computed_ ? computed_->panel_bytes() : 0);
  rows_offset_ = place(computed_ ? computed_->panel_bytes() : 0);
  worker_bytes_ = size;
  scratch_bytes_ = workers_offset_ + threads_ * worker_bytes_;
}

void WeightProduct::PlaceVectors(const std::byte* vectors, std::byte* scratch) const {
  const int width = StorageBytes(vectors_.type);
  const int64_t groups = depth_ / group_;
  std::byte* raw = scratch + wide_offset_ + RoundUp(depth_ * kF32Bytes, 64);
  std::byte* to = scratch;
  auto* steps = reinterpret_cast<float*>(scratch + steps_offset_);
  for (int64_t b = 0; b < batches_; ++b) {
    for (int64_t v = 0; v < vectors_.count; ++v, to += depth_ * VectorBytes(), steps += groups * BlocksOfGroup()) {
      const std::byte* from =
          vectors + (BatchOffset(b, problem_.batch, vectors_.batch_strides) + v * vectors_.stride) * width;
      if (vectors_.depth_stride != 1) {
        MoveTile(width, from, {0, vectors_.depth_stride}, raw, {0, 1}, 1, depth_);
        from = raw;
      }
      std::byte* wide = rounds_vectors_ ? scratch + wide_offset_ : to;
      WidenElements(vectors_.type, ElementType::kF32, from, wide, depth_);
      if (rounds_vectors_)
        RoundToBytes(reinterpret_cast<const float*>(wide), groups, group_, reinterpret_cast<int8_t*>(to), steps);
    }
  }
}

void WeightProduct::ComputeFactors(const Factors& factors, std::span<std::byte* const> bindings, ThreadPool& pool,
                                   std::byte* scratch) const {
  if (!factors.of_groups) return;
  factors.of_groups->Compute(bindings, pool, scratch + factors.offset, [&](int worker) {
    return scratch + workers_offset_ + worker * worker_bytes_ + frame_offset_;
  });
}

// Of the task's first line; null: there are none.
const std::byte* WeightProduct::FactorsOf(const Factors& factors, const Worker& worker, int64_t group) const {
  if (!factors.of_groups) return nullptr;
  return factors.of_groups->Of(worker.bindings, worker.scratch + factors.offset, worker.task.batch, group,
                               worker.task.begin);
}

// Each vector with some columns of the task at a time: add(turn, v) of all that a turn says of the columns.
template <class Turn, class Add>
void WeightProduct::ForColumns(const Worker& worker, const Rows& rows, const std::byte* scales, const float* zeros,
                               Turn turn, Add add) const {
  const int64_t count = worker.task.count, columns = vectors_.count == 1 ? count : kLinesOfVectors;
  for (int64_t c = 0; c < count; c += columns)
    for (int64_t v = 0; v < vectors_.count; ++v) {
      turn.weights = rows.first + form_.BytesOf(c), turn.columns = std::min(columns, count - c);
      if (scales != nullptr) turn.scales = scales + c * StorageBytes(scale_type_);
      if (zeros != nullptr) turn.zeros = zeros + c;
      turn.sums = worker.sums() + v * most_lines_ + c;
      add(turn, v);
    }
}

void WeightProduct::AddRoundedTurn(const Worker& worker, const Rows& rows) const {
  const Task& task = worker.task;
  const auto* codes = reinterpret_cast<const int8_t*>(worker.scratch) + task.batch * vectors_.count * depth_;
  const int64_t steps_of_vector = depth_ / group_ * BlocksOfGroup();
  const auto* steps =
      reinterpret_cast<const float*>(worker.scratch + steps_offset_) + task.batch * vectors_.count * steps_of_vector;
  const int64_t group = rows.begin / group_, block = rows.begin % group_ / kRoundedBlock;
  // One scale for all of the depth is multiplied with the sums.
  const std::byte* scales = group_ == depth_ ? nullptr : FactorsOf(scales_, worker, group);
  const auto* zeros = reinterpret_cast<const float*>(FactorsOf(zeros_, worker, group));
  const IntDotTurn all{.stride = rows.stride, .ahead = rows.ahead, .rows = rows.end - rows.begin};
  ForColumns(worker, rows, scales, zeros, all, [&](IntDotTurn& turn, int64_t v) {
    turn.codes = codes + v * depth_ + rows.begin;
    turn.step = steps[v * steps_of_vector + group * BlocksOfGroup() + block];
    int_dots_[At(rows.is_upper)](form_, turn);
  });
}

void WeightProduct::AddExactTurn(const Worker& worker, const Rows& rows) const {
  const Task& task = worker.task;
  const auto* vectors = reinterpret_cast<const float*>(worker.scratch) + task.batch * vectors_.count * depth_;
  const int64_t group = rows.begin / group_;
  const std::byte* scales = FactorsOf(scales_, worker, group);
  const auto* zeros = reinterpret_cast<const float*>(FactorsOf(zeros_, worker, group));
  const WeightDotTurn all{.stride = rows.stride, .ahead = rows.ahead, .places = rows.end - rows.begin};
  ForColumns(worker, rows, scales, zeros, all, [&](WeightDotTurn& turn, int64_t v) {
    turn.vector = vectors + v * depth_ + rows.begin;
    weight_dots_[At(rows.is_upper)](form_, turn);
  });
}

// Rows [begin, end) of the depth, of which the first lies at `rows`.
void WeightProduct::AddRows(const Worker& worker, const std::byte* rows, int64_t stride, int64_t begin,
                            int64_t end) const {
  const bool is_halves = form_.kind == CodeForm::Kind::kHalves;
  if (is_halves) end = depth_ / 2;
  const auto add = [&](const Rows& turn) {
    if (rounds_vectors_) AddRoundedTurn(worker, turn);
    else AddExactTurn(worker, turn);
  };
  const int64_t most = PlacesOfTurn();
  for (int64_t row = begin, next = 0; row < end; row = next) {
    const int64_t group = row / group_, block = row % group_ / most;
    next = std::min(end, group * group_ + std::min(group_, (block + 1) * most));
    Rows turn{.first = rows + (row - begin) / form_.places() * stride, .stride = stride, .begin = row, .end = next};
    if (in_memory_ && 2 * next - row <= end) turn.ahead = (next - row) / form_.places() * stride;
    add(turn);
    if (is_halves) add({turn.first, stride, 0, row + end, next + end, true});
  }
}

void WeightProduct::AddLines(const Worker& worker) const {
  const Task& task = worker.task;
  const int64_t batch = BatchOffset(task.batch, problem_.batch, in_memory_->batch_strides);
  WeightLinesTurn turn{
      .weights = worker.bindings[At(in_memory_->buffer)] + in_memory_->offset + batch + task.begin * in_memory_->stride,
      .stride = in_memory_->stride,
      .lines = task.count,
      .depth = depth_,
      .group = group_};
  if (line_scales_) {
    const ScalesInMemory& s = *line_scales_;
    const int64_t at = s.offset + BatchOffset(task.batch, problem_.batch, s.batch_strides) + task.begin * s.stride;
    turn.scales = worker.bindings[At(s.buffer)] + at * StorageBytes(s.type), turn.scales_stride = s.stride;
  }
  for (int64_t v = 0; v < vectors_.count; ++v) {
    turn.vector = reinterpret_cast<const float*>(worker.scratch) + (task.batch * vectors_.count + v) * depth_;
    turn.sums = worker.sums() + v * most_lines_;
    lines_dot_(form_, turn);
  }
}

void WeightProduct::AddCodes(const Worker& worker) const {
  if (lines_dot_ != nullptr) return AddLines(worker);
  const Task& task = worker.task;
  if (in_memory_) {
    const int64_t batch = BatchOffset(task.batch, problem_.batch, in_memory_->batch_strides);
    const std::byte* rows = worker.bindings[At(in_memory_->buffer)] + in_memory_->offset + batch;
    return AddRows(worker, rows + form_.BytesOf(task.begin), in_memory_->stride, 0, depth_);
  }
  std::byte* panel = worker.memory + panel_offset_;
  std::byte* by_rows = worker.memory + rows_offset_;
  const ComputedOperand::Part& lines = computed_->lines()[At(task.panel)];
  std::byte* frame = worker.memory + frame_offset_;
  for (const ComputedOperand::Part& depth : computed_->depths()) {
    computed_->Compute(frame, worker.batch, lines, depth, panel, 0, computed_->TileCount(lines, depth));
    const std::byte* rows = panel;
    int64_t stride = computed_->depth_stride();
    if (computed_->line_stride() != 1) {
      stride = most_lines_;
      MoveTile(1, panel, {1, computed_->line_stride()}, by_rows, {stride, 1}, depth.count, lines.count);
      rows = by_rows;
    }
    AddRows(worker, rows, stride, depth.begin, depth.begin + depth.count);
  }
}

void WeightProduct::PlaceSums(const Worker& worker, std::byte* result) const {
  const Task& task = worker.task;
  const GemmProblem& p = problem_;
  const std::byte* scales = rounds_vectors_ && group_ == depth_ ? FactorsOf(scales_, worker, 0) : nullptr;
  std::byte* wide = worker.memory + scales_offset_;
  if (scales != nullptr) WidenElements(scale_type_, ElementType::kF32, scales, wide, task.count);
  std::byte* to =
      result +
      (BatchOffset(task.batch, p.batch, p.result_batch_strides) + task.begin * vectors_.line_result_stride) * kF32Bytes;
  for (int64_t v = 0; v < vectors_.count; ++v) {
    float* sums = worker.sums() + v * most_lines_;
    for (int64_t i = 0; scales != nullptr && i < task.count; ++i) sums[i] *= reinterpret_cast<const float*>(wide)[i];
    MoveTile(kF32Bytes, reinterpret_cast<const std::byte*>(sums), {0, 1},
             to + v * vectors_.vector_result_stride * kF32Bytes, {0, vectors_.line_result_stride}, 1, task.count);
  }
}

void WeightProduct::Run(std::span<std::byte* const> bindings, const std::byte* vectors, std::byte* result,
                        ThreadPool& pool, std::byte* scratch) const {
  PlaceVectors(vectors, scratch);
  ComputeFactors(scales_, bindings, pool, scratch);
  ComputeFactors(zeros_, bindings, pool, scratch);
  const int64_t parts = computed_ ? std::ssize(computed_->lines()) : CeilDiv(lines_, most_lines_);
  constexpr double kNanosecondsOfElement = 0.05;
  const double time = static_cast<double>(batches_ * lines_ * depth_) * kNanosecondsOfElement;
  pool.ParallelParts(batches_ * parts, time, [&](int64_t begin, int64_t end, int number) {
    Worker worker{.bindings = bindings,
                  .scratch = scratch,
                  .memory = scratch + workers_offset_ + number * worker_bytes_,
                  .task = {},
                  .batch = {}};
    if (computed_) computed_->Start(worker.memory + frame_offset_, bindings);
    for (int64_t t = begin; t < end && !IsInterrupted(); ++t) {
      const int64_t part = t % parts;
      worker.task = {t / parts, part * most_lines_, std::min(most_lines_, lines_ - part * most_lines_), -1};
      if (computed_) {
        const ComputedOperand::Part& lines = computed_->lines()[At(part)];
        worker.task = {t / parts, lines.begin, lines.count, static_cast<int>(part)};
      }
      worker.batch = BatchIndex(worker.task.batch, problem_.batch);
      std::memset(worker.memory, 0, static_cast<std::size_t>(vectors_.count * most_lines_ * kF32Bytes));
      AddCodes(worker);
      PlaceSums(worker, result);
    }
  });
}

}  // namespace krafla::cpu
