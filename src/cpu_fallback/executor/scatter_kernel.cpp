// SPDX-License-Identifier: Apache-2.0
// Scatter: windows of updates combined into the output one after the other, in the order of the updates. A window that
// is not wholly inside the operand is skipped (XLA: hlo_evaluator.cc HandleScatter).
#include <algorithm>
#include <array>
#include <cstring>

#include "base/checked_math.h"
#include "base/index.h"
#include "cpu_fallback/executor/combination.h"
#include "cpu_fallback/executor/kernel_families.h"
#include "cpu_fallback/kernels/move.h"
#include "cpu_fallback/kernels/scatter_ops.h"
#include "ir/dims.h"

namespace krafla::cpu {

namespace {

constexpr int64_t kMostElements = 1024;
constexpr std::size_t kMaxScattered = 512;
constexpr int64_t kCachedBytes = 1 << 19;  // outputs of up to so many bytes stay in the L2 cache
constexpr int64_t kStarts = 256;           // windows whose places are found together
constexpr int64_t kShortBatch = 16;

class ScatterRun final : public CpuKernel {
 public:
  static KernelResult Make(const plan::ScatterKernel& body);
  Result<> Run(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch) const override;

 private:
  void FindBatch(const plan::ScatterKernel& body, const Dims& update_strides);
  Dims FindWindow(const plan::ScatterKernel& body, const Dims& operand_strides, const Dims& update_strides);
  void OrderBatch();
  void JoinBatch();
  void TakeRow();
  void ChooseRows(const plan::ScatterKernel& body);
  void CombineRun(std::span<std::byte* const> bindings, std::byte* scratch, int64_t to, int64_t from) const;
  void CombineElements(std::span<std::byte* const> bindings, std::byte* scratch, const int64_t* starts, int64_t from,
                       int64_t n) const;
  void StoredResult(std::byte* scratch, std::size_t operand, int64_t n, std::byte* narrow,
                    const std::byte*& result) const;
  void CombineWindow(std::span<std::byte* const> bindings, std::byte* scratch, int64_t to, int64_t from,
                     Dims& window) const;
  void CombineRowsOfWindow(std::span<std::byte* const> bindings, int64_t to, int64_t from, Dims& window) const;

  plan::ScatterKernel body_;
  // The positions of index vectors, and of their windows in the updates.
  Dims batch_, batch_index_strides_, batch_update_strides_;
  // The innermost of them, which batch_ no longer has.
  int64_t row_ = 1, row_index_stride_ = 0, row_update_stride_ = 0, row_operand_stride_ = 0;
  int64_t component_stride_ = 0;
  struct Component {
    int64_t stride = 0, last = 0;  // of the operand; the largest start inside
  };
  std::vector<Component> components_;
  std::vector<std::pair<std::size_t, int64_t>> batching_;  // batch position, operand stride
  // The window: outer dimensions, and a run along the innermost one.
  Dims window_, window_operand_strides_, window_update_strides_;
  int64_t run_ = 1, run_operand_stride_ = 1, run_update_stride_ = 1;
  FindStartsFn find_starts_ = nullptr;
  ScatterElementsFn rows_ = nullptr;  // of windows whose runs are dense, combined by one plain op
  ScatterElementsFn columns_ =
      nullptr;  // of runs that no index moves along, so that windows meet in the same element only
  ScatterIndexedFn places_ = nullptr;  // of single elements whose index is their place
  bool keeps_ = false;                 // the combiner gives what is there
  bool prefetches_ = false;
  BlockProgram combiner_;
  std::vector<ConvertFn> widen_, narrow_;
};

// The positions of index vectors, and where they lie in the indices and in the updates.
void ScatterRun::FindBatch(const plan::ScatterKernel& body, const Dims& update_strides) {
  const ScatterAttributes& a = body.attributes;
  const Dims index_strides = RowMajorStrides(body.indices_dims);
  for (std::size_t d = 0; d < body.indices_dims.size(); ++d) {
    if (static_cast<int64_t>(d) == a.index_vector_dim) {
      component_stride_ = index_strides[d];
      continue;
    }
    batch_.push_back(body.indices_dims[d]);
    batch_index_strides_.push_back(index_strides[d]);
  }
  for (std::size_t d = 0; d < body.updates_dims.size(); ++d)
    if (!Contains(a.update_window_dims, static_cast<int64_t>(d))) batch_update_strides_.push_back(update_strides[d]);
}

// The window's outer dimensions and its innermost run. Returns the window's size in each dimension of the operand.
Dims ScatterRun::FindWindow(const plan::ScatterKernel& body, const Dims& operand_strides, const Dims& update_strides) {
  const ScatterAttributes& a = body.attributes;
  // Operand dimensions that the window has, in order, are the update window dimensions.
  Dims window_sizes(body.operand_dims.size(), 1);
  std::size_t next = 0;
  for (std::size_t d = 0; d < body.operand_dims.size(); ++d) {
    if (Contains(a.inserted_window_dims, static_cast<int64_t>(d)) ||
        Contains(a.input_batching_dims, static_cast<int64_t>(d)))
      continue;
    const auto u = At(a.update_window_dims[next++]);
    window_sizes[d] = body.updates_dims[u];
    if (body.updates_dims[u] == 1) continue;
    // Joined with the one before where both arrays are dense across them.
    if (!window_.empty() && window_operand_strides_.back() == operand_strides[d] * body.updates_dims[u] &&
        window_update_strides_.back() == update_strides[u] * body.updates_dims[u]) {
      window_.back() *= body.updates_dims[u];
      window_operand_strides_.back() = operand_strides[d];
      window_update_strides_.back() = update_strides[u];
    } else {
      window_.push_back(body.updates_dims[u]);
      window_operand_strides_.push_back(operand_strides[d]);
      window_update_strides_.push_back(update_strides[u]);
    }
  }
  if (!window_.empty()) {
    run_ = window_.back();
    run_operand_stride_ = window_operand_strides_.back();
    run_update_stride_ = window_update_strides_.back();
    window_.pop_back();
    window_operand_strides_.pop_back();
    window_update_strides_.pop_back();
  }
  return window_sizes;
}

// Dimensions of one element are none, and of windows that lie in parts of the operand of their own, which never meet, a
// long dimension comes last, so that the places of many are found together: those in one part keep their order.
void ScatterRun::OrderBatch() {
  const auto place = [](std::size_t d) { return static_cast<std::ptrdiff_t>(d); };
  for (std::size_t d = batch_.size(); d-- > 0;) {
    if (batch_[d] != 1) continue;
    for (Dims* dims : {&batch_, &batch_index_strides_, &batch_update_strides_}) dims->erase(dims->begin() + place(d));
    std::erase_if(batching_, [&](const auto& b) { return b.first == d; });
    for (auto& b : batching_) b.first -= b.first > d ? 1 : 0;
  }
  if (batching_.empty() || batch_.back() >= kShortBatch) return;
  const std::size_t longest =
      std::ranges::max_element(batching_, {}, [&](const auto& b) { return batch_[b.first]; })->first;
  if (batch_[longest] <= batch_.back()) return;
  for (Dims* dims : {&batch_, &batch_index_strides_, &batch_update_strides_})
    std::rotate(dims->begin() + place(longest), dims->begin() + place(longest) + 1, dims->end());
  for (auto& b : batching_) b.first = b.first == longest ? batch_.size() - 1 : b.first - (b.first > longest ? 1 : 0);
}

// Dimensions that lie one behind the other, in the indices and in the updates, are one: windows' places are found by
// rows.
void ScatterRun::JoinBatch() {
  if (!batching_.empty()) return;
  for (std::size_t d = batch_.size(); d-- > 1;) {
    if (batch_index_strides_[d - 1] != batch_index_strides_[d] * batch_[d] ||
        batch_update_strides_[d - 1] != batch_update_strides_[d] * batch_[d])
      continue;
    batch_[d - 1] *= batch_[d];
    batch_index_strides_[d - 1] = batch_index_strides_[d];
    batch_update_strides_[d - 1] = batch_update_strides_[d];
    const auto at = static_cast<std::ptrdiff_t>(d);
    batch_.erase(batch_.begin() + at);
    batch_index_strides_.erase(batch_index_strides_.begin() + at);
    batch_update_strides_.erase(batch_update_strides_.begin() + at);
  }
}

// Takes the innermost dimension out of the batch: its windows' places are found at once.
void ScatterRun::TakeRow() {
  if (batch_.empty()) return;
  const std::size_t inner = batch_.size() - 1;
  row_ = batch_.back();
  row_index_stride_ = batch_index_strides_.back();
  row_update_stride_ = batch_update_strides_.back();
  std::erase_if(batching_, [&](const auto& b) {
    if (b.first == inner) row_operand_stride_ += b.second;
    return b.first == inner;
  });
  batch_.pop_back();
  batch_index_strides_.pop_back();
  batch_update_strides_.pop_back();
}

void ScatterRun::ChooseRows(const plan::ScatterKernel& body) {
  if (body.multiplies_complex) {
    rows_ = FindScatterComplexProducts(body.types[0]);
    return;
  }
  const std::optional<SimpleCombiner> simple = FindSimpleCombiner(body.combiner.combiner);
  const bool is_dense = run_ == 1 || (run_operand_stride_ == 1 && run_update_stride_ == 1);
  if (!simple || body.types.size() != 1) return;
  const bool is_fixed = std::ranges::none_of(components_, [&](const Component& c) {
    return c.stride >= run_operand_stride_ && c.stride < run_operand_stride_ * run_;
  });
  if (!is_dense && (!window_.empty() || !is_fixed)) return;
  ScatterLoops loops;
  switch (simple->kind) {
    case SimpleCombiner::Kind::kReplace: loops = FindScatterReplace(body.types[0]); break;
    case SimpleCombiner::Kind::kOp: loops = FindScatterElements(simple->opcode, body.types[0]); break;
    case SimpleCombiner::Kind::kKeep: keeps_ = true; break;
  }
  (is_dense ? rows_ : columns_) = loops.starts;
  // Where an element lies is its index.
  if (is_dense && run_ == 1 && window_.empty() && components_.size() == 1 && components_[0].stride == 1 &&
      row_operand_stride_ == 0 && body.indices_type == ElementType::kS32)
    places_ = loops.indices;
}

KernelResult ScatterRun::Make(const plan::ScatterKernel& body) {
  auto out = std::make_unique<ScatterRun>();
  const ScatterAttributes& a = body.attributes;
  if (body.updates.size() > kMaxScattered)
    return Unimplemented("A scatter of {} arrays at once; the CPU's kernel takes {}.", body.updates.size(),
                         kMaxScattered);
  out->body_ = body;
  const Dims operand_strides = RowMajorStrides(body.operand_dims), update_strides = RowMajorStrides(body.updates_dims);
  out->FindBatch(body, update_strides);
  const Dims window_sizes = out->FindWindow(body, operand_strides, update_strides);
  for (int64_t d : a.scatter_dims_to_operand_dims)
    out->components_.push_back({operand_strides[At(d)], body.operand_dims[At(d)] - window_sizes[At(d)]});
  for (std::size_t k = 0; k < a.input_batching_dims.size(); ++k) {
    const int64_t d = a.scatter_indices_batching_dims[k];
    out->batching_.emplace_back(At(d - (d > a.index_vector_dim ? 1 : 0)),
                                operand_strides[At(a.input_batching_dims[k])]);
  }
  out->OrderBatch();
  out->JoinBatch();
  out->TakeRow();
  out->ChooseRows(body);
  out->find_starts_ = FindStartsOf(body.indices_type);
  out->prefetches_ = Product(body.operand_dims) * StorageBytes(body.types[0]) > kCachedBytes;
  for (ElementType t : body.types) {
    out->widen_.push_back(FindWiden(t));
    out->narrow_.push_back(FindNarrow(t));
  }
  if (body.multiplies_complex && out->rows_ == nullptr)
    return Unimplemented("A scatter that multiplies complex numbers with parts of {}.", ElementTypeName(body.types[0]));
  // Single elements are combined as many at once as there are places.
  const int64_t most = out->run_ == 1 ? kStarts : std::min(out->run_, kMostElements);
  KRAFLA_ASSIGN(out->combiner_, BlockProgram::Compile(body.combiner.combiner, {.tile = {.rows = 1, .columns = most},
                                                                               .params_are_arrays = true}));
  out->scratch_bytes_ = RoundUp(out->combiner_.frame_bytes(), 64) +
                        4 * static_cast<int64_t>(body.types.size()) * RoundUp(kMostElements * 8, 64);
  return out;
}

// Combines one run of updates at element `from` into the outputs at element `to`.
void ScatterRun::CombineRun(std::span<std::byte* const> bindings, std::byte* scratch, int64_t to, int64_t from) const {
  const std::size_t count = body_.types.size();
  const int64_t step = RoundUp(kMostElements * 8, 64);
  std::byte* arrays = scratch + RoundUp(combiner_.frame_bytes(), 64);
  const void* params[2 * kMaxScattered];
  for (int64_t begin = 0; begin < run_; begin += kMostElements) {
    const int64_t n = std::min(kMostElements, run_ - begin);
    for (std::size_t k = 0; k < 2 * count; ++k) {
      const std::size_t operand = k % count;
      const bool is_update = k >= count;
      const int width = StorageBytes(body_.types[operand]);
      const int64_t stride = is_update ? run_update_stride_ : run_operand_stride_;
      const std::byte* source = bindings[At(is_update ? body_.updates[operand] : body_.outputs[operand])] +
                                ((is_update ? from : to) + begin * stride) * width;
      std::byte* raw = arrays + static_cast<int64_t>(2 * k) * step;
      MoveTile(width, source, {0, stride}, raw, {0, 1}, 1, n);
      params[k] = raw;
      if (widen_[operand] != nullptr) {
        widen_[operand](raw, raw + step, n);
        params[k] = raw + step;
      }
    }
    combiner_.RunTile(scratch, {}, 1, n, params);
    for (std::size_t k = 0; k < count; ++k) {
      std::byte narrow[kMostElements * 2];
      const std::byte* result = nullptr;
      StoredResult(scratch, k, n, narrow, result);
      const int width = StorageBytes(body_.types[k]);
      std::byte* output = bindings[At(body_.outputs[k])] + (to + begin * run_operand_stride_) * width;
      MoveTile(width, result, {0, 1}, output, {0, run_operand_stride_}, 1, n);
    }
  }
}

// The combiner's values of an operand as they are stored.
void ScatterRun::StoredResult(std::byte* scratch, std::size_t operand, int64_t n, std::byte* narrow,
                              const std::byte*& result) const {
  const BlockProgram::Value value = combiner_.ResultValue(scratch, operand);
  const int wide = StorageBytes(plan::ComputeType(body_.types[operand]));
  result = value.data;
  if (value.is_uniform && n > 1) {
    std::byte* spread = scratch + RoundUp(combiner_.frame_bytes(), 64) +
                        static_cast<int64_t>(2 * operand) * RoundUp(kMostElements * 8, 64);
    Fill(wide, value.data, spread, n);
    result = spread;
  }
  if (narrow_[operand] != nullptr) {
    narrow_[operand](result, narrow, n);
    result = narrow;
  }
}

// Single elements by a combiner of any kind, as many at once as are of different places. `starts` are inside.
void ScatterRun::CombineElements(std::span<std::byte* const> bindings, std::byte* scratch, const int64_t* starts,
                                 int64_t from, int64_t n) const {
  static_assert(kStarts <= kMostElements);
  const std::size_t count = body_.types.size();
  const int64_t step = RoundUp(kMostElements * 8, 64);
  std::byte* arrays = scratch + RoundUp(combiner_.frame_bytes(), 64);
  const void* params[2 * kMaxScattered];
  for (int64_t begin = 0; begin < n;) {
    // The places of this turn, in a table that is open at four times their number.
    constexpr std::size_t kSlots = 4 * kStarts;
    std::array<int64_t, kSlots> taken;
    taken.fill(kOutside);
    int64_t end = begin;
    for (bool is_new = true; is_new && end < n; end += is_new ? 1 : 0) {
      std::size_t slot =
          static_cast<std::size_t>(static_cast<uint64_t>(starts[end]) * 0x9e3779b97f4a7c15u >> 32) % kSlots;
      while (taken[slot] != kOutside && taken[slot] != starts[end]) slot = (slot + 1) % kSlots;
      is_new = taken[slot] == kOutside;
      taken[slot] = starts[end];
    }
    const int64_t now = end - begin;
    for (std::size_t k = 0; k < 2 * count; ++k) {
      const std::size_t operand = k % count;
      const int width = StorageBytes(body_.types[operand]);
      std::byte* raw = arrays + static_cast<int64_t>(2 * k) * step;
      const std::byte* memory = bindings[At(k >= count ? body_.updates[operand] : body_.outputs[operand])];
      if (k >= count) {
        MoveTile(width, memory + (from + begin * row_update_stride_) * width, {0, row_update_stride_}, raw, {0, 1}, 1,
                 now);
      } else {
        TakeElements(width, memory, starts + begin, now, raw);
      }
      params[k] = raw;
      if (widen_[operand] != nullptr) {
        widen_[operand](raw, raw + step, now);
        params[k] = raw + step;
      }
    }
    combiner_.RunTile(scratch, {}, 1, now, params);
    for (std::size_t k = 0; k < count; ++k) {
      std::byte narrow[kMostElements * 2];
      const std::byte* result = nullptr;
      StoredResult(scratch, k, now, narrow, result);
      const int width = StorageBytes(body_.types[k]);
      std::byte* output = bindings[At(body_.outputs[k])];
      PutElements(width, result, starts + begin, now, output);
    }
    begin = end;
  }
}

void ScatterRun::CombineWindow(std::span<std::byte* const> bindings, std::byte* scratch, int64_t to, int64_t from,
                               Dims& window) const {
  if (window.empty()) return CombineRun(bindings, scratch, to, from);
  std::fill(window.begin(), window.end(), 0);
  if (rows_ != nullptr) return CombineRowsOfWindow(bindings, to, from, window);
  do {
    int64_t to_run = to, from_run = from;
    for (std::size_t d = 0; d < window.size(); ++d) {
      to_run += window[d] * window_operand_strides_[d];
      from_run += window[d] * window_update_strides_[d];
    }
    CombineRun(bindings, scratch, to_run, from_run);
  } while (NextIndex({window.data(), window.size()}, window_));
}

// The innermost dimension of a window but its run at once.
void ScatterRun::CombineRowsOfWindow(std::span<std::byte* const> bindings, int64_t to, int64_t from,
                                     Dims& window) const {
  const int width = StorageBytes(body_.types[0]);
  const int64_t rows = window_.back(), step = window_operand_strides_.back();
  int64_t starts[kStarts];
  do {
    int64_t to_row = to, from_row = from;
    for (std::size_t d = 0; d < window.size(); ++d) {
      to_row += window[d] * window_operand_strides_[d];
      from_row += window[d] * window_update_strides_[d];
    }
    const int64_t count = std::min(kStarts, rows - window.back());
    for (int64_t i = 0; i < count; ++i) starts[i] = to_row + i * step;
    rows_(bindings[At(body_.outputs[0])], starts, bindings[At(body_.updates[0])] + from_row * width,
          {.count = count, .stride = window_update_strides_.back(), .run = run_});
    window.back() += count - 1;
  } while (NextIndex({window.data(), window.size()}, window_));
}

Result<> ScatterRun::Run(std::span<std::byte* const> bindings, ThreadPool&, std::byte* scratch) const {
  for (int64_t d : body_.updates_dims)
    if (d == 0) return {};
  if (keeps_) return {};
  combiner_.Start(scratch, bindings);
  const std::byte* indices = bindings[At(body_.indices_binding)];
  const int index_width = StorageBytes(body_.indices_type);
  Dims batch(batch_.size(), 0), window(window_.size(), 0);
  int64_t starts[kStarts];
  do {
    int64_t index_at = 0, update = 0, to = 0;
    for (std::size_t d = 0; d < batch.size(); ++d) {
      index_at += batch[d] * batch_index_strides_[d];
      update += batch[d] * batch_update_strides_[d];
    }
    for (const auto& [position, stride] : batching_) to += batch[position] * stride;
    if (places_ != nullptr) {
      const int width = StorageBytes(body_.types[0]);
      places_(bindings[At(body_.outputs[0])] + to * width,
              {indices + index_at * index_width, row_index_stride_, components_[0].last},
              bindings[At(body_.updates[0])] + update * width, {.count = row_, .stride = row_update_stride_});
      continue;
    }
    for (int64_t begin = 0; begin < row_; begin += kStarts) {
      const int64_t n = std::min(kStarts, row_ - begin);
      const int64_t base = to + begin * row_operand_stride_;
      for (std::size_t c = 0; c < components_.size(); ++c) {
        const int64_t at = index_at + begin * row_index_stride_ + static_cast<int64_t>(c) * component_stride_;
        find_starts_({.indices = indices + at * index_width,
                      .stride = row_index_stride_,
                      .last = components_[c].last,
                      .factor = components_[c].stride,
                      .adds = c > 0,
                      .base = base,
                      .step = row_operand_stride_},
                     n, starts);
      }
      for (int64_t i = 0; components_.empty() && i < n; ++i) starts[i] = base + i * row_operand_stride_;
      const int64_t from = update + begin * row_update_stride_;
      if (rows_ != nullptr && window_.empty()) {
        rows_(bindings[At(body_.outputs[0])], starts,
              bindings[At(body_.updates[0])] + from * StorageBytes(body_.types[0]),
              {.count = n, .stride = row_update_stride_, .run = run_, .prefetches = prefetches_});
        continue;
      }
      if (columns_ != nullptr) {
        const int width = StorageBytes(body_.types[0]);
        for (int64_t r = 0; r < run_; ++r)
          columns_(bindings[At(body_.outputs[0])] + r * run_operand_stride_ * width, starts,
                   bindings[At(body_.updates[0])] + (from + r * run_update_stride_) * width,
                   {.count = n, .stride = row_update_stride_, .run = 1});
        continue;
      }
      if (run_ == 1 && window_.empty()) {
        for (int64_t i = 0; i < n;) {
          int64_t end = i;
          while (end < n && starts[end] != kOutside) ++end;
          CombineElements(bindings, scratch, starts + i, from + i * row_update_stride_, end - i);
          i = end + 1;
        }
        continue;
      }
      for (int64_t i = 0; i < n; ++i)
        if (starts[i] != kOutside) CombineWindow(bindings, scratch, starts[i], from + i * row_update_stride_, window);
    }
  } while (NextIndex({batch.data(), batch.size()}, batch_));
  return {};
}

}  // namespace

KernelResult MakeScatterKernel(const plan::KernelPlan&, const plan::ScatterKernel& body, const CpuKernelOptions&) {
  return ScatterRun::Make(body);
}

}  // namespace krafla::cpu
