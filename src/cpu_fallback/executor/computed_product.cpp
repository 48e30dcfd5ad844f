// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/computed_product.h"

#include <algorithm>
#include <cstring>

#include "base/checked_math.h"
#include "base/index.h"
#include "base/interruption.h"
#include "cpu_fallback/executor/group_factors.h"
#include "cpu_fallback/executor/reduced_product.h"
#include "cpu_fallback/kernels/move.h"
#include "cpu_fallback/native/native_code.h"
#include "krafla/status.h"

namespace krafla::cpu {

namespace {

// Vectors that small panels are multiplied with one by one: with more of them, products of matrices are faster.
constexpr int64_t kFewVectors = 4;
// Sums that stay in the L2 cache beside what is read; with fewer of them pieces of rows are short.
constexpr int64_t kSumsInTurn = 8192;
constexpr int64_t kLeastSumLines = 64;  // of a part
// Elements that follow each other in memory, as many as a prefetcher needs to see them coming, and bytes of a panel,
// which stays in the L2 cache with what is read for it.
constexpr int64_t kNeighbours = 1024, kSmallPanel = 64 * 1024;
// Places along the depth whose products are added up in registers: of fewer the sums of lanes take too long.
constexpr int64_t kLeastReduced = 128;
// Bytes of a panel of the whole depth.
constexpr int64_t kLargePanel = 2 * 1024 * 1024;
// Rows of batches that are multiplied with a panel at once: more of them gain nothing.
constexpr int64_t kMostJoinedRows = 1024;

template <class T>
void AddTo(std::byte* sums, const std::byte* more, int64_t n) {
  auto* to = reinterpret_cast<T*>(sums);
  const auto* from = reinterpret_cast<const T*>(more);
  for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}
void AddSums(ElementType type, std::byte* sums, const std::byte* more, int64_t n) {
  if (type == ElementType::kF32) AddTo<float>(sums, more, n);
  else if (type == ElementType::kF64) AddTo<double>(sums, more, n);
  else AddTo<uint32_t>(sums, more, n);
}

}  // namespace

Result<ComputedProduct> ComputedProduct::Make(const plan::DotKernel& kernel, const GemmProblem& problem, int threads,
                                              std::optional<ElementType> result) {
  ComputedProduct out;
  out.problem_ = problem;
  out.result_type_ = result.value_or(problem.accumulate_type);
  out.is_rhs_ = kernel.computes_rhs();
  out.program_ = out.is_rhs_ ? kernel.rhs_program : kernel.lhs_program;
  out.threads_ = threads;
  out.batches_ = BatchCount(problem);
  if (kernel.computes_lhs() && kernel.computes_rhs())
    return Unimplemented("A product of which both operands are computed.");
  const GemmProblem& p = out.problem_;
  out.vectors_ = out.is_rhs_ ? Vectors{p.m, p.lhs_m_stride, p.lhs_k_stride, p.lhs_type, 1, p.result_m_stride}
                             : Vectors{p.n, p.rhs_n_stride, p.rhs_k_stride, p.rhs_type, p.result_m_stride, 1};
  const bool are_few = out.vectors_.count <= kFewVectors;
  if (result && are_few) return Unimplemented("Few rows whose sums are rounded.");
  if (are_few) { KRAFLA_TRY(out.MakeFew()); }
  if (out.way_ == Way::kLargePanels) KRAFLA_TRY(out.MakeMany());
  for (const std::vector<PanelProduct>& products : out.products_)
    for (const PanelProduct& product : products)
      if (result && product.matmul == nullptr) return Unimplemented("A product without oneDNN whose sums are rounded.");
  return out;
}

Result<> ComputedProduct::MakeFew() {
  const GemmProblem& p = problem_;
  const ElementType sum = p.accumulate_type;
  const GemvLoops loops = FindGemvLoops(sum, sum);
  if (loops.by_rows == nullptr || !CanWiden(vectors_.type, sum)) return {};
  const int64_t lines = is_rhs_ ? p.n : p.m;
  const int width = StorageBytes(sum);
  const int64_t shared = ColumnsOfPart(lines * batches_, 1, threads_, kLeastSumLines, lines * batches_);
  ComputedOperand::Wish wish{.is_rhs = is_rhs_,
                             .type = sum,
                             .neighbours = kSumsInTurn,
                             .elements = kSmallPanel / width,
                             .most_lines = shared,
                             .vectors = vectors_.count,
                             .vectors_fit_bf16 = vectors_.type == ElementType::kBF16};
  auto sums = ComputedOperand::Make(program_, wish);
  if (sums) {
    operand_ = std::move(*sums);
    way_ = Way::kSums;
  } else if (MakeInMemory()) {
    return {};
  } else {
    wish.vectors = 0, wish.neighbours = kNeighbours;
    KRAFLA_ASSIGN(operand_, ComputedOperand::Make(program_, wish));
    if (operand_.line_stride() != 1 && MakeReductions()) return {};
    way_ = Way::kSmallPanels;
    loop_ = operand_.line_stride() == 1 ? loops.by_rows : loops.by_columns;
  }
  const int64_t most_lines = operand_.most_lines();
  // The vectors, widened; for each thread a frame, a panel, sums of all of its depth so far and of one panel.
  const int64_t count = vectors_.count * width;
  vector_bytes_ = RoundUp(batches_ * count * p.k, 64) + RoundUp(p.k * StorageBytes(vectors_.type), 64);
  panel_bytes_ = way_ == Way::kSums ? 0 : RoundUp(operand_.panel_bytes(), 64);
  worker_bytes_ = RoundUp(operand_.frame_bytes(), 64) + panel_bytes_ + RoundUp(most_lines * count, 64) +
                  RoundUp(most_lines * width, 64);
  scratch_bytes_ = vector_bytes_ + threads_ * worker_bytes_;
  return {};
}

// Of lines that lie along the depth.
bool ComputedProduct::MakeReductions() {
  const GemmProblem& p = problem_;
  const plan::Node& value = program_.nodes[At(program_.results[0])];
  if (!native::HasAvx512Code() || p.accumulate_type != ElementType::kF32 || value.type != ElementType::kF32 ||
      operand_.neighbours_in_depth() < kLeastReduced)
    return false;
  const ReducedVectors vectors{vectors_.count, vectors_.line_result_stride, vectors_.vector_result_stride};
  auto made = MakeReducedProduct(program_, is_rhs_, p, vectors, program_.buffers, threads_);
  if (!made) return false;
  reductions_ = std::move(*made);
  way_ = Way::kReductions;
  const int width = StorageBytes(ElementType::kF32);
  vector_bytes_ = RoundUp(batches_ * vectors_.count * p.k * width, 64) + RoundUp(p.k * StorageBytes(vectors_.type), 64);
  scratch_bytes_ = vector_bytes_ + reductions_->scratch_bytes();
  return true;
}

Result<> ComputedProduct::MakeMany() {
  if (MakeInMemory()) return {};
  const GemmProblem& p = problem_;
  const ElementType type = is_rhs_ ? p.rhs_type : p.lhs_type;
  KRAFLA_ASSIGN(
      operand_,
      ComputedOperand::Make(program_, {.is_rhs = is_rhs_, .type = type, .elements = kLargePanel / StorageBytes(type)}));
  if (MostJoined() > 1) repeated_ = RepeatedBatches::Make(program_);
  for (const ComputedOperand::Part& part : operand_.lines()) AddProducts(products_[At(part.kind)], part.count);
  product_bytes_ = RoundUp(product_bytes_, 64);
  panel_bytes_ = RoundUp(operand_.panel_bytes(), 64);
  MakeWeights(type);
  many_frame_bytes_ = RoundUp(weights_ ? weights_->frame_bytes() : operand_.frame_bytes(), 64);
  scratch_bytes_ = panel_bytes_ + product_bytes_ + threads_ * many_frame_bytes_;
  if (weights_) scratch_bytes_ += weights_->scratch_bytes();
  return {};
}

// Two columns may be a byte, so that parts begin with the first of two.
void ComputedProduct::MakeWeights(ElementType type) {
  const GemmProblem& p = problem_;
  const bool is_even = std::ranges::all_of(operand_.lines(), [](const auto& part) { return part.begin % 2 == 0; });
  if (operand_.line_stride() != 1 || !is_even) return;
  weights_ = WeightPanels::Make(program_, is_rhs_, {p.batch, is_rhs_ ? p.n : p.m, p.k}, type);
}

// Nothing is computed: a matrix is multiplied where it lies, not copied to a panel first.
bool ComputedProduct::MakeInMemory() {
  const GemmProblem& p = problem_;
  in_memory_ = MatrixInMemory::Make(program_, is_rhs_, is_rhs_ ? p.rhs_type : p.lhs_type);
  if (!in_memory_) return false;
  if (MostJoined() > 1) repeated_ = RepeatedBatches::Make(program_);
  AddProducts(products_[0], is_rhs_ ? p.n : p.m);
  way_ = Way::kInMemory;
  product_bytes_ = RoundUp(product_bytes_, 64);
  scratch_bytes_ = product_bytes_ + RoundUp(in_memory_->frame_bytes(), 64);
  return true;
}

void ComputedProduct::AddProducts(std::vector<PanelProduct>& to, int64_t lines) {
  if (!to.empty()) return;
  const int64_t most = repeated_ ? MostJoined() : 1;
  for (int64_t batches = 1; batches <= most; batches *= 2) {
    const PanelProduct& product = to.emplace_back(ProductWith(lines, batches));
    product_bytes_ = std::max(product_bytes_, product.scratch_bytes());
  }
}

// How many batches may be one product: those whose rows, and results, follow each other.
int64_t ComputedProduct::MostJoined() const {
  const GemmProblem& p = problem_;
  const bool is_joined = is_rhs_ && p.batch.size() == 1 && p.lhs_batch_strides[0] == p.m * p.lhs_m_stride &&
                         p.result_batch_strides[0] == p.m * p.result_m_stride;
  return is_joined ? std::min(batches_, kMostJoinedRows / p.m) : 1;
}

ComputedProduct::PanelProduct ComputedProduct::ProductWith(int64_t lines, int64_t batches) const {
  GemmProblem part = problem_;
  if (batches > 1) part.m *= batches;
  part.batch = {}, part.lhs_batch_strides = {}, part.rhs_batch_strides = {}, part.result_batch_strides = {};
  const int64_t line_stride = in_memory_ ? in_memory_->line_stride() : operand_.line_stride();
  const int64_t depth_stride = in_memory_ ? in_memory_->depth_stride() : operand_.depth_stride();
  if (is_rhs_) part.n = lines, part.rhs_n_stride = line_stride, part.rhs_k_stride = depth_stride;
  else part.m = lines, part.lhs_m_stride = line_stride, part.lhs_k_stride = depth_stride;
  PanelProduct out;
  const Dims strides = {part.result_m_stride, 1};
  if (Gemv::Takes(part)) {
    out.gemv.emplace(part);
    return out;
  }
  out.matmul = MakeOneDnnMatmul(part, strides, result_type_, threads_);
  if (out.matmul == nullptr) out.gemm.emplace(part, threads_);
  return out;
}

int64_t ComputedProduct::PanelProduct::scratch_bytes() const {
  return gemv ? gemv->scratch_bytes() : gemm ? gemm->scratch_bytes() : matmul->scratch_bytes();
}

Result<> ComputedProduct::PanelProduct::Run(const std::byte* lhs, const std::byte* rhs, std::byte* result,
                                            ThreadPool& pool, std::byte* scratch) const {
  if (gemv) gemv->Run(lhs, rhs, result, pool, scratch);
  else if (gemm) gemm->Run(lhs, rhs, result, pool, scratch);
  else if (!matmul->Run(lhs, rhs, result, pool, scratch))
    return Internal("A matrix product that oneDNN had accepted could not be run.");
  return {};
}

Result<> ComputedProduct::Run(std::span<std::byte* const> bindings, const std::byte* other, std::byte* result,
                              ThreadPool& pool, std::byte* scratch) const {
  if (way_ == Way::kLargePanels) return RunMany(bindings, other, result, pool, scratch);
  if (way_ == Way::kInMemory) return RunInMemory(bindings, other, result, pool, scratch);
  if (way_ == Way::kReductions) return RunReductions(bindings, other, result, pool, scratch);
  RunFew(bindings, other, result, pool, scratch);
  return {};
}

void ComputedProduct::WidenVectors(const std::byte* other, std::byte* scratch) const {
  const GemmProblem& p = problem_;
  const ElementType sum = p.accumulate_type;
  const int width = StorageBytes(sum), vector_width = StorageBytes(vectors_.type);
  const Dims& batch_strides = is_rhs_ ? p.lhs_batch_strides : p.rhs_batch_strides;
  std::byte* raw = scratch + RoundUp(batches_ * vectors_.count * p.k * width, 64);
  for (int64_t b = 0; b < batches_; ++b) {
    for (int64_t v = 0; v < vectors_.count; ++v) {
      const std::byte* from = other + (BatchOffset(b, p.batch, batch_strides) + v * vectors_.stride) * vector_width;
      MoveTile(vector_width, from, {0, vectors_.depth_stride}, raw, {0, 1}, 1, p.k);
      WidenElements(vectors_.type, sum, raw, scratch + (b * vectors_.count + v) * p.k * width, p.k);
    }
  }
}

Result<> ComputedProduct::RunReductions(std::span<std::byte* const> bindings, const std::byte* other, std::byte* result,
                                        ThreadPool& pool, std::byte* scratch) const {
  WidenVectors(other, scratch);
  std::vector<std::byte*> all(bindings.begin(), bindings.end());
  all.push_back(scratch);
  all.push_back(result);
  return reductions_->Run(all, pool, scratch + vector_bytes_);
}

void ComputedProduct::RunFew(std::span<std::byte* const> bindings, const std::byte* other, std::byte* result,
                             ThreadPool& pool, std::byte* scratch) const {
  const GemmProblem& p = problem_;
  const int width = StorageBytes(p.accumulate_type);
  WidenVectors(other, scratch);
  const int64_t parts = std::ssize(operand_.lines()), room = operand_.most_lines();
  constexpr double kNanosecondsOfElement = 0.1;
  const double time = static_cast<double>(batches_ * (is_rhs_ ? p.n : p.m) * p.k) * kNanosecondsOfElement;
  pool.ParallelParts(batches_ * parts, time, [&](int64_t begin, int64_t end, int worker) {
    std::byte* frame = scratch + vector_bytes_ + worker * worker_bytes_;
    std::byte* sums = frame + RoundUp(operand_.frame_bytes(), 64) + panel_bytes_;
    operand_.Start(frame, bindings);
    for (int64_t t = begin; t < end && !IsInterrupted(); ++t) {
      const int64_t b = t / parts;
      const ComputedOperand::Part& lines = operand_.lines()[static_cast<std::size_t>(t % parts)];
      const Dims batch = BatchIndex(b, p.batch);
      const std::byte* vectors = scratch + b * vectors_.count * p.k * width;
      std::memset(sums, 0, static_cast<std::size_t>(room * vectors_.count * width));
      if (way_ == Way::kSums) {
        operand_.AddProducts(frame, batch, lines, vectors, sums);
      } else {
        AddPanels(frame, batch, lines, vectors, sums);
      }
      std::byte* to =
          result +
          (BatchOffset(b, p.batch, p.result_batch_strides) + lines.begin * vectors_.line_result_stride) * width;
      for (int64_t v = 0; v < vectors_.count; ++v) {
        const std::byte* from = sums + v * room * width;
        std::byte* place = to + v * vectors_.vector_result_stride * width;
        if (way_ == Way::kSums) operand_.PlaceSums(lines, from, place, vectors_.line_result_stride);
        else MoveTile(width, from, {0, 1}, place, {0, vectors_.line_result_stride}, 1, lines.count);
      }
    }
  });
}

// Panel by panel of the lines. Behind the frame lie the panel, the sums, and those of one panel.
void ComputedProduct::AddPanels(std::byte* frame, std::span<const int64_t> batch, const ComputedOperand::Part& lines,
                                const std::byte* vectors, std::byte* sums) const {
  const GemmProblem& p = problem_;
  const int64_t width = StorageBytes(p.accumulate_type), room = operand_.most_lines();
  std::byte* panel = sums - panel_bytes_;
  std::byte* more = sums + RoundUp(room * vectors_.count * width, 64);
  const int64_t stride = operand_.line_stride() == 1 ? operand_.depth_stride() : operand_.line_stride();
  for (const ComputedOperand::Part& depth : operand_.depths()) {
    operand_.Compute(frame, batch, lines, depth, panel, 0, operand_.TileCount(lines, depth));
    for (int64_t v = 0; v < vectors_.count; ++v) {
      loop_(vectors + (v * p.k + depth.begin) * width, panel, depth.count, stride, lines.count, more);
      AddSums(p.accumulate_type, sums + v * room * width, more, lines.count);
    }
  }
}

void ComputedProduct::MakePanel(std::span<std::byte* const> bindings, int64_t batch, const ComputedOperand::Part& lines,
                                std::byte* panel, ThreadPool& pool, std::byte* frames) const {
  if (weights_) {
    const int64_t step = WeightPanels::kPlacesOfPart, stride = operand_.depth_stride();
    pool.ParallelFor(CeilDiv(problem_.k, step), 1, [&](int64_t begin, int64_t end, int) {
      const int64_t first = begin * step;
      weights_->Make(bindings, frames + threads_ * many_frame_bytes_, {batch, lines.begin, lines.count}, first,
                     std::min(problem_.k, end * step), reinterpret_cast<uint16_t*>(panel) + first * stride, stride);
    });
    return;
  }
  const ComputedOperand::Part& depth = operand_.depths()[0];
  const Dims at = BatchIndex(batch, problem_.batch);
  pool.ParallelFor(operand_.TileCount(lines, depth), 4, [&](int64_t begin, int64_t end, int worker) {
    std::byte* frame = frames + worker * many_frame_bytes_;
    operand_.Start(frame, bindings);
    operand_.Compute(frame, at, lines, depth, panel, begin, end);
  });
}

Result<> ComputedProduct::RunMany(std::span<std::byte* const> bindings, const std::byte* other, std::byte* result,
                                  ThreadPool& pool, std::byte* scratch) const {
  const GemmProblem& p = problem_;
  const int width = StorageBytes(result_type_), vector_width = StorageBytes(vectors_.type);
  const Dims& batch_strides = is_rhs_ ? p.lhs_batch_strides : p.rhs_batch_strides;
  std::byte* panel = scratch;
  std::byte* product_scratch = panel + panel_bytes_;
  std::byte* frames = product_scratch + product_bytes_;
  if (weights_)
    weights_->Start(bindings, pool, frames + threads_ * many_frame_bytes_,
                    [&](int worker) { return frames + worker * many_frame_bytes_; });
  for (int64_t b = 0, joined = 1; b < batches_; b += joined) {
    joined = repeated_ ? repeated_->CountFrom(b, batches_, bindings) : 1;
    const std::byte* vectors = other + BatchOffset(b, p.batch, batch_strides) * vector_width;
    for (const ComputedOperand::Part& lines : operand_.lines()) {
      if (IsInterrupted()) return {};
      MakePanel(bindings, b, lines, panel, pool, frames);
      std::byte* to =
          result +
          (BatchOffset(b, p.batch, p.result_batch_strides) + lines.begin * vectors_.line_result_stride) * width;
      KRAFLA_TRY(Multiply(products_[At(lines.kind)], panel, vectors, joined, to, pool, product_scratch));
    }
  }
  return {};
}

Result<> ComputedProduct::RunInMemory(std::span<std::byte* const> bindings, const std::byte* other, std::byte* result,
                                      ThreadPool& pool, std::byte* scratch) const {
  const GemmProblem& p = problem_;
  const int width = StorageBytes(result_type_), vector_width = StorageBytes(vectors_.type);
  const Dims& batch_strides = is_rhs_ ? p.lhs_batch_strides : p.rhs_batch_strides;
  std::byte* frame = scratch + product_bytes_;
  in_memory_->Start(frame, bindings);
  for (int64_t b = 0, joined = 1; b < batches_; b += joined) {
    if (IsInterrupted()) return {};
    joined = repeated_ ? repeated_->CountFrom(b, batches_, bindings) : 1;
    const std::byte* matrix = in_memory_->Find(frame, BatchIndex(b, p.batch), bindings);
    const std::byte* vectors = other + BatchOffset(b, p.batch, batch_strides) * vector_width;
    std::byte* to = result + BatchOffset(b, p.batch, p.result_batch_strides) * width;
    KRAFLA_TRY(Multiply(products_[0], matrix, vectors, joined, to, pool, scratch));
  }
  return {};
}

// With so many batches, as large a part of them at a time as there is a product for.
Result<> ComputedProduct::Multiply(const std::vector<PanelProduct>& products, const std::byte* panel,
                                   const std::byte* other, int64_t batches, std::byte* result, ThreadPool& pool,
                                   std::byte* scratch) const {
  const GemmProblem& p = problem_;
  for (std::size_t n = products.size(); batches > 0;) {
    const int64_t taken = int64_t{1} << (n - 1);
    if (taken > batches) {
      --n;
      continue;
    }
    const PanelProduct& product = products[n - 1];
    const std::byte* lhs = is_rhs_ ? other : panel;
    const std::byte* rhs = is_rhs_ ? panel : other;
    KRAFLA_TRY(product.Run(lhs, rhs, result, pool, scratch));
    other += taken * p.m * p.lhs_m_stride * StorageBytes(vectors_.type);
    result += taken * p.m * p.result_m_stride * StorageBytes(result_type_);
    batches -= taken;
  }
  return {};
}

}  // namespace krafla::cpu
