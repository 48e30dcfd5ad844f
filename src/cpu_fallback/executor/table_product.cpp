// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/table_product.h"

#include <algorithm>
#include <cstring>

#include "base/checked_math.h"
#include "base/index.h"
#include "base/interruption.h"
#include "cpu_fallback/kernels/gemv.h"
#include "cpu_fallback/kernels/move.h"

namespace krafla::cpu {

namespace {

// Lines of a task: their sums stay in the L1 cache.
constexpr int64_t kMostTableLines = 4096, kLeastTableLines = 128;
// Places of the depth of a group: of fewer it takes as long to make a table as to make the weights one by one.
constexpr int64_t kLeastTableGroup = 32;
constexpr int64_t kLeastByteGroup = 16;  // of fewer, spreading the scales takes as long

std::optional<TableForm> FormOf(CodeForm::Kind kind) {
  if (kind == CodeForm::Kind::kColumnPairs) return TableForm::kColumnPairs;
  if (kind == CodeForm::Kind::kRowPairs) return TableForm::kRowPairs;
  if (kind == CodeForm::Kind::kWords) return TableForm::kWords;
  return std::nullopt;
}

}  // namespace

std::optional<TableProduct> TableProduct::Make(const plan::DotKernel& kernel, const GemmProblem& p, int threads) {
  if (kernel.computes_lhs() == kernel.computes_rhs() || p.accumulate_type != ElementType::kF32) return std::nullopt;
  TableProduct out;
  const bool is_rhs = out.is_rhs_ = kernel.computes_rhs();
  if ((is_rhs ? p.m : p.n) != 1 || (is_rhs ? p.lhs_type : p.rhs_type) != ElementType::kBF16) return std::nullopt;
  const std::optional<QuantisedWeights> weights =
      FindQuantisedWeights(is_rhs ? kernel.rhs_program : kernel.lhs_program, is_rhs);
  if (!weights) return std::nullopt;
  const std::optional<CodesInMemory> codes = FindCodesInMemory(*weights, is_rhs);
  if (!codes) return std::nullopt;
  out.lines_ = is_rhs ? p.n : p.m;
  out.problem_ = p, out.codes_ = *codes, out.group_ = weights->group;
  out.batches_ = BatchCount(p);
  out.depth_stride_ = is_rhs ? p.lhs_k_stride : p.rhs_k_stride;
  out.vector_batch_strides_ = is_rhs ? p.lhs_batch_strides : p.rhs_batch_strides;
  out.line_result_stride_ = is_rhs ? 1 : p.result_m_stride;
  const CodeForm::Kind kind = codes->form.kind;
  if (!(kind == CodeForm::Kind::kLineBytes   ? out.MakeLinesOfBytes(*weights)
        : kind == CodeForm::Kind::kLinePairs ? out.MakeLines(*weights)
        : kind == CodeForm::Kind::kBytes     ? out.MakeColumnsOfBytes(*weights)
                                             : out.MakeRows(*weights)))
    return std::nullopt;
  for (std::size_t c = 0; c < out.table_.size(); ++c)
    out.table_[c] = static_cast<int32_t>(c ^ codes->form.flip) - codes->form.zero;
  out.PlaceScratch(threads);
  return out;
}

bool TableProduct::MakeRows(const QuantisedWeights& weights) {
  const std::optional<TableForm> form = FormOf(codes_.form.kind);
  const bool is_known = weights.IsMade(QuantisedWeights::Made::kProducts, ElementType::kBF16) ||
                        weights.IsMade(QuantisedWeights::Made::kQuotients, ElementType::kBF16);
  if (!form || !is_known || group_ < kLeastTableGroup || group_ % (kTableRows * PlacesOfRow(*form)) != 0) return false;
  if (*form == TableForm::kColumnPairs && lines_ % 2 != 0) return false;
  form_ = *form;
  if (!PlaceFactors(weights)) return false;
  dot_ = FindTableDot(scales_->type(), kind_, form_);
  SetTurn(group_ / PlacesOfRow(form_), kTableTurn);
  return dot_ != nullptr;
}

// Turns begin with a group, of which they have some whole ones or a part of one.
void TableProduct::SetTurn(int64_t rows_of_group, int64_t most) {
  turn_ = rows_of_group < most ? most / rows_of_group * rows_of_group : most;
}

bool TableProduct::MakeLines(const QuantisedWeights& weights) {
  if (group_ % kTablePlaces != 0 || !weights.IsMade(QuantisedWeights::Made::kProducts, ElementType::kBF16) ||
      !weights.integer_zeros.results.empty())
    return false;
  line_scales_ = FindScalesInMemory(weights.scales, is_rhs_, true);
  if (line_scales_) lines_dot_ = FindTableLines(line_scales_->type);
  return lines_dot_ != nullptr;
}

// Without zero points.
bool TableProduct::AreSignedBytes(const QuantisedWeights& weights) const {
  return codes_.form.flip == 0x80 && codes_.form.zero == 0x80 && weights.zeros.results.empty() &&
         weights.integer_zeros.results.empty();
}

bool TableProduct::MakeLinesOfBytes(const QuantisedWeights& weights) {
  const bool has_scales = !weights.scales.results.empty();
  if (!AreSignedBytes(weights)) return false;
  if (has_scales) {
    if (!weights.IsMade(QuantisedWeights::Made::kProducts, ElementType::kBF16)) return false;
    if (group_ % kBytePlaces != 0 && group_ != problem_.k) return false;
    line_scales_ = FindScalesInMemory(weights.scales, is_rhs_, true);
    if (!line_scales_) return false;
  }
  bytes_dot_ = FindByteLines(has_scales ? line_scales_->type : ElementType::kF32);
  return bytes_dot_ != nullptr;
}

bool TableProduct::MakeColumnsOfBytes(const QuantisedWeights& weights) {
  if (!AreSignedBytes(weights) || !weights.IsMade(QuantisedWeights::Made::kProducts, ElementType::kBF16)) return false;
  if (group_ < kLeastByteGroup || group_ % kByteRows != 0 || !PlaceFactors(weights)) return false;
  columns_dot_ = FindByteColumns(scales_->type());
  SetTurn(group_, kByteTurn);
  return columns_dot_ != nullptr;
}

bool TableProduct::PlaceFactors(const QuantisedWeights& weights) {
  const bool divides = weights.made == QuantisedWeights::Made::kQuotients;
  const bool has_zeros = !weights.integer_zeros.results.empty();
  kind_ = divides ? TableKind::kQuotients : has_zeros ? TableKind::kDifferences : TableKind::kProducts;
  const GroupFactors::Extents extents{problem_.batch, lines_, problem_.k / group_};
  scales_ = GroupFactors::Make(divides ? weights.divisors : weights.scales, is_rhs_, extents, std::nullopt);
  if (has_zeros) zeros_ = GroupFactors::Make(weights.integer_zeros, is_rhs_, extents, ElementType::kS32);
  return scales_.has_value() && zeros_.has_value() == has_zeros;
}

void TableProduct::PlaceScratch(int threads) {
  most_lines_ =
      RoundUp(ColumnsOfPart(lines_ * batches_, 1, threads, kLeastTableLines, kMostTableLines), kLeastTableLines);
  const auto place = [](int64_t& size, int64_t bytes) {
    const int64_t at = size;
    size += RoundUp(bytes, 64);
    return at;
  };
  int64_t size = 0, frame = scales_ ? scales_->frame_bytes() : 0;
  place(size, problem_.k * 2);
  if (scales_) scales_offset_ = place(size, scales_->scratch_bytes());
  if (zeros_) {
    zeros_offset_ = place(size, zeros_->scratch_bytes());
    frame = std::max(frame, zeros_->frame_bytes());
  }
  workers_offset_ = size;
  place(worker_bytes_, most_lines_ * int64_t{sizeof(float)});
  frame_offset_ = place(worker_bytes_, frame);
  scratch_bytes_ = workers_offset_ + threads * worker_bytes_;
}

// As the kernel reads it.
void TableProduct::PlaceVector(const std::byte* vector, int64_t batch, std::byte* scratch) const {
  const GemmProblem& p = problem_;
  const std::byte* from = vector + BatchOffset(batch, p.batch, vector_batch_strides_) * 2;
  const int64_t places = bytes_dot_ != nullptr   ? 1
                         : lines_dot_ != nullptr ? kTablePlaces / kTableRows
                                                 : PlacesOfRow(form_);
  if (places == 1) return MoveTile(2, from, {0, depth_stride_}, scratch, {0, 1}, 1, p.k);
  for (int64_t k = 0; k < p.k; k += kTableRows * places)
    MoveTile(2, from + k * depth_stride_ * 2, {depth_stride_, places * depth_stride_}, scratch + k * 2, {kTableRows, 1},
             places, kTableRows);
}

const std::byte* TableProduct::CodesOf(const Task& task) const {
  return task.bindings[At(codes_.buffer)] + codes_.offset +
         BatchOffset(task.batch, problem_.batch, codes_.batch_strides);
}

void TableProduct::AddLines(const Task& task, float* sums) const {
  WeightLines lines{.weights = CodesOf(task) + task.begin * codes_.stride,
                    .stride = codes_.stride,
                    .lines = task.count,
                    .depth = problem_.k,
                    .group = group_,
                    .vector = reinterpret_cast<const uint16_t*>(task.scratch),
                    .sums = sums};
  if (line_scales_) {
    const ScalesInMemory& s = *line_scales_;
    const int64_t at = s.offset + BatchOffset(task.batch, problem_.batch, s.batch_strides) + task.begin * s.stride;
    lines.scales = task.bindings[At(s.buffer)] + at * StorageBytes(s.type), lines.scales_stride = s.stride;
  }
  if (bytes_dot_ != nullptr) bytes_dot_(lines);
  else lines_dot_(table_.data(), lines);
}

void TableProduct::AddRows(const Task& task, float* sums) const {
  const GemmProblem& p = problem_;
  const int64_t places = PlacesOfRow(form_);
  const std::byte* codes = CodesOf(task) + codes_.form.BytesOf(task.begin);
  WeightRows turn{.table = table_.data(),
                  .stride = codes_.stride,
                  .columns = task.count,
                  .group = group_,
                  .scales_stride = scales_->stride(),
                  .sums = sums};
  const int64_t rows = p.k / places, rows_of_group = group_ / places;
  for (int64_t row = 0, next = 0; row < rows; row = next) {
    // A turn is of whole groups, or of one.
    const int64_t end = rows_of_group < turn_ ? rows : (row / rows_of_group + 1) * rows_of_group;
    next = std::min(end, row + turn_);
    const int64_t group = row * places / group_;
    turn.rows = next - row;
    turn.codes = codes + row * codes_.stride;
    turn.next = codes + next * codes_.stride, turn.next_rows = std::min(turn.rows, rows - next);
    turn.vector = reinterpret_cast<const uint16_t*>(task.scratch) + row * places;
    turn.scales = scales_->Of(task.bindings, task.scratch + scales_offset_, task.batch, group, task.begin);
    if (zeros_) {
      turn.zeros = reinterpret_cast<const int32_t*>(
          zeros_->Of(task.bindings, task.scratch + zeros_offset_, task.batch, group, task.begin));
      turn.zeros_stride = zeros_->stride();
    }
    if (columns_dot_ != nullptr) columns_dot_(turn);
    else dot_(turn);
  }
}

void TableProduct::Run(std::span<std::byte* const> bindings, const std::byte* vector, std::byte* result,
                       ThreadPool& pool, std::byte* scratch) const {
  const GemmProblem& p = problem_;
  const auto worker_memory = [&](int worker) { return scratch + workers_offset_ + worker * worker_bytes_; };
  const auto frame_of = [&](int worker) { return worker_memory(worker) + frame_offset_; };
  if (scales_) scales_->Compute(bindings, pool, scratch + scales_offset_, frame_of);
  if (zeros_) zeros_->Compute(bindings, pool, scratch + zeros_offset_, frame_of);
  const int64_t parts = CeilDiv(lines_, most_lines_);
  constexpr double kNanosecondsOfElement = 0.06;
  const double time = static_cast<double>(lines_ * p.k) * kNanosecondsOfElement;
  for (int64_t b = 0; b < batches_; ++b) {
    PlaceVector(vector, b, scratch);
    std::byte* to = result + BatchOffset(b, p.batch, p.result_batch_strides) * int64_t{sizeof(float)};
    pool.ParallelParts(parts, time, [&](int64_t begin, int64_t end, int worker) {
      auto* own = reinterpret_cast<float*>(worker_memory(worker));
      for (int64_t t = begin; t < end && !IsInterrupted(); ++t) {
        const int64_t first = t * most_lines_, count = std::min(most_lines_, lines_ - first);
        std::memset(own, 0, static_cast<std::size_t>(count) * sizeof(float));
        if (codes_.form.is_along_depth()) AddLines({bindings, scratch, b, first, count}, own);
        else AddRows({bindings, scratch, b, first, count}, own);
        MoveTile(4, reinterpret_cast<const std::byte*>(own), {0, 1}, to + first * line_result_stride_ * 4,
                 {0, line_result_stride_}, 1, count);
      }
    });
  }
}

}  // namespace krafla::cpu
