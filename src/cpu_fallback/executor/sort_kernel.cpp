// SPDX-License-Identifier: Apache-2.0
// Sort: rows of any number of operands by any comparator, stable.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "cpu_fallback/executor/kernel_families.h"
#include "cpu_fallback/executor/scalar_program.h"

namespace krafla::cpu {
namespace {

class SortKernelRun final : public CpuKernel {
 public:
  SortKernelRun(const plan::SortKernel& body, ScalarProgram less) : body_(body), less_(std::move(less)) {
    for (std::size_t d = 0; d < body_.dims.size(); ++d) {
      if (static_cast<int>(d) < body_.dimension) outer_ *= body_.dims[d];
      if (static_cast<int>(d) > body_.dimension) inner_ *= body_.dims[d];
    }
    length_ = body_.dims[static_cast<std::size_t>(body_.dimension)];
  }

  Result<> Run(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte*) const override {
    int64_t rows = outer_ * inner_;
    pool.ParallelFor(rows, std::max<int64_t>(1, 500 / std::max<int64_t>(1, length_)), [&](int64_t begin, int64_t end, int) {
      Row row(*this, bindings);
      for (int64_t r = begin; r < end; ++r) row.Sort((r / inner_) * length_ * inner_ + r % inner_);
    });
    return {};
  }

 private:
  // One row at a time: its values widened, an order of them, then the operands' bytes in that order.
  class Row {
   public:
    Row(const SortKernelRun& kernel, std::span<std::byte* const> bindings)
        : k_(kernel), bindings_(bindings), slots_(kernel.less_.slot_count()), values_(kernel.body_.inputs.size()),
          order_(static_cast<std::size_t>(kernel.length_)), line_(static_cast<std::size_t>(kernel.length_) * 8) {
      k_.less_.Start(slots_, bindings);
      for (auto& v : values_) v.resize(static_cast<std::size_t>(k_.length_));
      for (std::size_t i = 0; i < k_.body_.inputs.size(); ++i) widen_.push_back(FindWiden(k_.body_.types[i]));
    }

    void Sort(int64_t first) {
      const plan::SortKernel& body = k_.body_;
      for (std::size_t i = 0; i < values_.size(); ++i) {
        if (k_.less_.ParamSlot(2 * i) < 0 && k_.less_.ParamSlot(2 * i + 1) < 0) continue;
        auto width = static_cast<std::size_t>(StorageBytes(body.types[i]));
        const std::byte* from = bindings_[static_cast<std::size_t>(body.inputs[i])] + static_cast<std::size_t>(first) * width;
        for (int64_t e = 0; e < k_.length_; ++e) {
          uint64_t& v = values_[i][static_cast<std::size_t>(e)];
          v = 0;
          const std::byte* p = from + static_cast<std::size_t>(e * k_.inner_) * width;
          if (widen_[i] != nullptr) widen_[i](p, &v, 1);
          else std::memcpy(&v, p, width);
        }
      }
      std::iota(order_.begin(), order_.end(), 0);
      std::stable_sort(order_.begin(), order_.end(), [&](int32_t a, int32_t b) { return Less(a, b); });
      for (std::size_t i = 0; i < values_.size(); ++i) {
        auto width = static_cast<std::size_t>(StorageBytes(body.types[i]));
        const std::byte* from = bindings_[static_cast<std::size_t>(body.inputs[i])] + static_cast<std::size_t>(first) * width;
        std::byte* to = bindings_[static_cast<std::size_t>(body.outputs[i])] + static_cast<std::size_t>(first) * width;
        auto stride = static_cast<std::size_t>(k_.inner_) * width;
        for (std::size_t e = 0; e < order_.size(); ++e)
          std::memcpy(line_.data() + e * width, from + static_cast<std::size_t>(order_[e]) * stride, width);
        for (std::size_t e = 0; e < order_.size(); ++e) std::memcpy(to + e * stride, line_.data() + e * width, width);
      }
    }

   private:
    bool Less(int32_t a, int32_t b) {
      for (std::size_t i = 0; i < values_.size(); ++i) {
        if (int s = k_.less_.ParamSlot(2 * i); s >= 0) slots_[static_cast<std::size_t>(s)] = values_[i][static_cast<std::size_t>(a)];
        if (int s = k_.less_.ParamSlot(2 * i + 1); s >= 0) slots_[static_cast<std::size_t>(s)] = values_[i][static_cast<std::size_t>(b)];
      }
      k_.less_.Run(slots_);
      return (slots_[static_cast<std::size_t>(k_.less_.ResultSlot(0))] & 0xff) != 0;
    }

    const SortKernelRun& k_;
    std::span<std::byte* const> bindings_;
    std::vector<ScalarProgram::Slot> slots_;
    std::vector<std::vector<uint64_t>> values_;
    std::vector<int32_t> order_;
    std::vector<std::byte> line_;
    std::vector<ConvertFn> widen_;
  };

  plan::SortKernel body_;
  ScalarProgram less_;
  int64_t outer_ = 1, inner_ = 1, length_ = 1;
};

}  // namespace

KernelResult MakeSortKernel(const plan::KernelPlan&, const plan::SortKernel& body, const CpuKernelOptions&) {
  KRAFLA_ASSIGN(ScalarProgram less, ScalarProgram::Compile(body.comparator));
  if (body.dims.empty()) return Unimplemented("A scalar has no dimension to sort.");
  return std::make_unique<SortKernelRun>(body, std::move(less));
}

}  // namespace krafla::cpu
