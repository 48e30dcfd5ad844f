// SPDX-License-Identifier: Apache-2.0
// Scan along a dimension, and scatter in the order of the updates.
#include <algorithm>
#include <cstring>

#include "cpu_fallback/executor/kernel_families.h"
#include "cpu_fallback/executor/scalar_program.h"

namespace krafla::cpu {
namespace {

void LoadElement(const std::byte* from, int width, ConvertFn widen, uint64_t& to) {
  to = 0;
  if (widen != nullptr) widen(from, &to, 1);
  else std::memcpy(&to, from, static_cast<std::size_t>(width));
}

void StoreElement(const uint64_t& from, int width, ConvertFn narrow, std::byte* to) {
  if (narrow != nullptr) narrow(&from, to, 1);
  else std::memcpy(to, &from, static_cast<std::size_t>(width));
}

class ScanKernelRun final : public CpuKernel {
 public:
  ScanKernelRun(const plan::ScanKernel& body, ScalarProgram combine, ScalarProgram init)
      : body_(body), combine_(std::move(combine)), init_(std::move(init)) {}

  Result<> Run(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte*) const override {
    int64_t outer = 1, inner = 1, length = body_.dims[static_cast<std::size_t>(body_.dimension)];
    for (std::size_t d = 0; d < body_.dims.size(); ++d) {
      if (static_cast<int>(d) < body_.dimension) outer *= body_.dims[d];
      if (static_cast<int>(d) > body_.dimension) inner *= body_.dims[d];
    }
    const int width = StorageBytes(body_.type);
    ConvertFn widen = FindWiden(body_.type), narrow = FindNarrow(body_.type);
    pool.ParallelFor(outer * inner, std::max<int64_t>(1, 2000 / std::max<int64_t>(1, length)), [&](int64_t begin, int64_t end, int) {
      std::vector<ScalarProgram::Slot> slots(combine_.slot_count()), start(init_.slot_count());
      combine_.Start(slots, bindings);
      init_.Start(start, bindings);
      init_.Run(start);
      const int acc = combine_.ParamSlot(0), value = combine_.ParamSlot(1);
      const auto result = static_cast<std::size_t>(combine_.ResultSlot(0));
      for (int64_t line = begin; line < end; ++line) {
        uint64_t carry = start[static_cast<std::size_t>(init_.ResultSlot(0))];
        int64_t first = (line / inner) * length * inner + line % inner;
        for (int64_t e = 0; e < length; ++e) {
          int64_t at = (first + (body_.is_reverse ? length - 1 - e : e) * inner) * width;
          if (acc >= 0) slots[static_cast<std::size_t>(acc)] = carry;
          if (value >= 0) LoadElement(bindings[static_cast<std::size_t>(body_.input)] + at, width, widen, slots[static_cast<std::size_t>(value)]);
          combine_.Run(slots);
          carry = slots[result];
          StoreElement(carry, width, narrow, bindings[static_cast<std::size_t>(body_.output)] + at);
        }
      }
    });
    return {};
  }

 private:
  plan::ScanKernel body_;
  ScalarProgram combine_, init_;
};

class ScatterKernelRun final : public CpuKernel {
 public:
  ScatterKernelRun(const plan::ScatterKernel& body, ScalarProgram combine) : body_(body), combine_(std::move(combine)) {
    const ScatterAttributes& a = body_.attributes;
    auto contains = [](const Dims& dims, std::size_t d) {
      return std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) != dims.end();
    };
    for (std::size_t d = 0; d < body_.updates_dims.size(); ++d)
      (contains(a.update_window_dims, d) ? window_dims_ : batch_dims_).push_back(static_cast<int64_t>(d));
    std::size_t next = 0;
    for (std::size_t d = 0; d < body_.operand_dims.size(); ++d) {
      bool has_window = !contains(a.inserted_window_dims, d) && !contains(a.input_batching_dims, d);
      window_of_operand_.push_back(has_window ? window_dims_[next++] : -1);
    }
  }

  Result<> Run(std::span<std::byte* const> bindings, ThreadPool&, std::byte*) const override {
    const ScatterAttributes& a = body_.attributes;
    const std::size_t n = body_.updates.size();
    auto at = [](const Dims& d, int64_t i) { return d[static_cast<std::size_t>(i)]; };
    std::vector<ScalarProgram::Slot> slots(combine_.slot_count());
    combine_.Start(slots, bindings);
    std::vector<int> widths;
    std::vector<ConvertFn> widens, narrows;
    for (ElementType t : body_.types) {
      widths.push_back(StorageBytes(t));
      widens.push_back(FindWiden(t));
      narrows.push_back(FindNarrow(t));
    }
    const Dims operand_strides = RowMajorStrides(body_.operand_dims), update_strides = RowMajorStrides(body_.updates_dims),
               index_strides = RowMajorStrides(body_.indices_dims);
    Dims batch_extents, window_extents;
    for (int64_t d : batch_dims_) batch_extents.push_back(at(body_.updates_dims, d));
    for (int64_t d : window_dims_) window_extents.push_back(at(body_.updates_dims, d));
    for (int64_t d : body_.updates_dims)
      if (d == 0) return {};
    const bool vector = a.index_vector_dim < body_.indices_dims.ssize();
    const bool assign = n == 1 && combine_.ReturnsParam(1);
    ElementType index_type = body_.indices_type;
    ConvertFn widen_index = FindWiden(index_type);
    int index_width = StorageBytes(index_type);
    Dims batch(batch_dims_.size(), 0);
    do {
      int64_t index_at = 0, update_at = 0;
      for (std::size_t b = 0; b < batch.size(); ++b) {
        auto d = static_cast<int64_t>(b);
        if (vector && d >= a.index_vector_dim) ++d;
        index_at += batch[b] * at(index_strides, d);
        update_at += batch[b] * at(update_strides, batch_dims_[b]);
      }
      // The window's corner, and whether all of it lies inside the operand.
      int64_t corner = 0;
      bool inside = true;
      for (std::size_t k = 0; k < a.scatter_dims_to_operand_dims.size() && inside; ++k) {
        int64_t d = a.scatter_dims_to_operand_dims[k];
        int64_t place = index_at + (vector ? static_cast<int64_t>(k) * at(index_strides, a.index_vector_dim) : 0);
        uint64_t raw;
        LoadElement(bindings[static_cast<std::size_t>(body_.indices_binding)] + place * index_width, index_width, widen_index, raw);
        int64_t start = IsSigned(index_type) && StorageBytes(index_type) < 8 ? static_cast<int32_t>(raw) : static_cast<int64_t>(raw);
        int64_t w = window_of_operand_[static_cast<std::size_t>(d)];
        int64_t extent = w < 0 ? 1 : at(body_.updates_dims, w);
        inside = start >= 0 && start <= at(body_.operand_dims, d) - extent;
        corner += start * at(operand_strides, d);
      }
      for (std::size_t k = 0; k < a.input_batching_dims.size(); ++k) {
        int64_t dim = a.scatter_indices_batching_dims[k];
        auto place = static_cast<std::size_t>(vector && dim > a.index_vector_dim ? dim - 1 : dim);
        corner += batch[place] * at(operand_strides, a.input_batching_dims[k]);
      }
      if (!inside) continue;
      Dims window(window_dims_.size(), 0);
      do {
        int64_t to = corner, from = update_at;
        for (std::size_t d = 0; d < window_of_operand_.size(); ++d) {
          if (window_of_operand_[d] < 0) continue;
          auto w = static_cast<std::size_t>(std::find(window_dims_.begin(), window_dims_.end(), window_of_operand_[d]) - window_dims_.begin());
          to += window[w] * operand_strides[d];
          from += window[w] * at(update_strides, window_dims_[w]);
        }
        if (assign) {
          std::memcpy(bindings[static_cast<std::size_t>(body_.outputs[0])] + to * widths[0],
                      bindings[static_cast<std::size_t>(body_.updates[0])] + from * widths[0], static_cast<std::size_t>(widths[0]));
          continue;
        }
        for (std::size_t k = 0; k < n; ++k) {
          if (int s = combine_.ParamSlot(k); s >= 0)
            LoadElement(bindings[static_cast<std::size_t>(body_.outputs[k])] + to * widths[k], widths[k], widens[k], slots[static_cast<std::size_t>(s)]);
          if (int s = combine_.ParamSlot(n + k); s >= 0)
            LoadElement(bindings[static_cast<std::size_t>(body_.updates[k])] + from * widths[k], widths[k], widens[k], slots[static_cast<std::size_t>(s)]);
        }
        combine_.Run(slots);
        for (std::size_t k = 0; k < n; ++k)
          StoreElement(slots[static_cast<std::size_t>(combine_.ResultSlot(k))], widths[k], narrows[k],
                       bindings[static_cast<std::size_t>(body_.outputs[k])] + to * widths[k]);
      } while (NextIndex({window.data(), window.size()}, window_extents));
    } while (NextIndex({batch.data(), batch.size()}, batch_extents));
    return {};
  }

 private:
  plan::ScatterKernel body_;
  ScalarProgram combine_;
  Dims window_dims_, batch_dims_, window_of_operand_;
};

}  // namespace

KernelResult MakeScanKernel(const plan::KernelPlan&, const plan::ScanKernel& body, const CpuKernelOptions&) {
  KRAFLA_ASSIGN(ScalarProgram combine, ScalarProgram::Compile(body.reduction.combiner));
  KRAFLA_ASSIGN(ScalarProgram init, ScalarProgram::Compile(body.reduction.init));
  return std::make_unique<ScanKernelRun>(body, std::move(combine), std::move(init));
}

KernelResult MakeScatterKernel(const plan::KernelPlan&, const plan::ScatterKernel& body, const CpuKernelOptions&) {
  KRAFLA_ASSIGN(ScalarProgram combine, ScalarProgram::Compile(body.combiner.combiner));
  return std::make_unique<ScatterKernelRun>(body, std::move(combine));
}

}  // namespace krafla::cpu
