// SPDX-License-Identifier: Apache-2.0
#include "plan/rows/attention.h"

#include <algorithm>

#include "plan/rebind.h"
#include "plan/rows/column_bounds.h"
#include "plan/rows/column_limits.h"
#include "plan/rows/free_programs.h"
#include "plan/touched.h"

namespace krafla::plan {
namespace {

std::size_t AttentionAt(int64_t i) { return static_cast<std::size_t>(i); }

// Whether the right operand of a dot is the same in all of free dimension `f`, so that it can be the rows of a product.
bool SharesRight(const DotKernel& dot, int f) {
  if (f < 0 || AttentionAt(f) >= dot.batch.size()) return true;
  return !dot.computes_rhs() && dot.rhs_batch_strides[AttentionAt(f)] == 0;
}

class AttentionMaker {
 public:
  AttentionMaker(const RowChain& chain, const std::set<int>& shrunk, std::size_t first, bool added_masks)
      : chain_(chain), shrunk_(shrunk), first_(first), added_masks_(added_masks), digits_(chain.Digits()) {}

  std::expected<FusedAttention, NotOneKernel> Run() {
    using enum NotOneKernel;
    const auto members = std::span(chain_.members());
    const std::optional<int> scores = OnlyBetween(members, shrunk_, first_, first_ + 1);
    if (!scores || !FindBehindRows()) return std::unexpected(kBetween);
    if (!IntoRows()) return std::unexpected(kRows);
    scores_ = *scores;
    if (!Bind()) return std::unexpected(kOthers);
    AttentionKernel body;
    for (std::size_t m = 0; m < 3; ++m) Rebind(parts_[m].body, bindings_of_[m], buffers_);
    body.scores = std::get<DotKernel>(parts_[0].body);
    body.rows = std::get<ReduceKernel>(parts_[1].body);
    body.product = std::get<DotKernel>(parts_[2].body);
    if (!IsWritten(body.scores)) return std::unexpected(kScores);
    if (!AreReduced(body)) return std::unexpected(kReductions);
    if (!IsSummed(body.product)) return std::unexpected(kProduct);
    if (const auto mask = AttentionMask(members, shrunk_, first_, added_masks_))
      body.limits = FindColumnLimits(body.scores, mask->low, mask->least);
    out_.kernel.name = parts_[2].name;
    for (const KernelPlan& part : parts_) out_.kernel.flops += part.flops;
    out_.kernel.body = std::move(body);
    out_.kernel.bytes = BytesMoved(out_.kernel);
    out_.arrays = {scores_, weights_};
    out_.arrays.insert(of_rows_.begin(), of_rows_.end());
    return std::move(out_);
  }

 private:
  // The arrays between the reductions and the second product: what that multiplies, and what its epilogue may read.
  bool FindBehindRows() {
    const RowChain::Member& last = chain_.members()[first_ + 2];
    const auto* product = std::get_if<DotKernel>(&last.kernel.body);
    if (product == nullptr || product->computes_lhs()) return false;
    weights_ = last.launch.bindings[AttentionAt(product->lhs_binding)].allocation;
    of_rows_ = ArraysBetween(chain_.members(), shrunk_, first_ + 1, first_ + 2);
    return std::erase(of_rows_, weights_) == 1;
  }
  // The members over the same free dimensions: the digits of the rows, of which the last one shares the right operands
  // of both products.
  bool IntoRows() {
    std::vector<DigitMember> in_digits;
    for (std::size_t m = 0; m < 3; ++m) {
      in_digits.push_back(IntoDigits(chain_.members()[first_ + m], digits_));
      const Dims free = *FreeDims(in_digits[m].kernel);
      for (std::size_t f = 0; f < free.size(); ++f)
        if (in_digits[m].digits[f] < 0 && free[f] != 1) return false;
    }
    const auto* scores = std::get_if<DotKernel>(&in_digits[0].kernel.body);
    const auto* product = std::get_if<DotKernel>(&in_digits[2].kernel.body);
    if (scores == nullptr || product == nullptr || !std::holds_alternative<ReduceKernel>(in_digits[1].kernel.body))
      return false;
    const auto dim_of = [](const DigitMember& m, std::size_t digit) {
      const auto found = std::ranges::find(m.digits, static_cast<int>(digit));
      return found == m.digits.end() ? -1 : static_cast<int>(found - m.digits.begin());
    };
    std::size_t rows = digits_.size();  // none
    for (std::size_t d = 0; d < digits_.size(); ++d)
      if (SharesRight(*scores, dim_of(in_digits[0], d)) && SharesRight(*product, dim_of(in_digits[2], d)) &&
          (rows == digits_.size() || digits_[d] > digits_[rows]))
        rows = d;
    std::vector<int> place(digits_.size(), 0);
    for (std::size_t d = 0; d < digits_.size(); ++d) {
      if (d == rows) continue;
      place[d] = static_cast<int>(free_.size());
      free_.push_back(digits_[d]);
      units_.push_back(UnitOf(d));
    }
    if (rows < digits_.size()) place[rows] = static_cast<int>(free_.size());
    free_.push_back(rows < digits_.size() ? digits_[rows] : 1);
    units_.push_back(rows < digits_.size() ? UnitOf(rows) : 0);
    for (const DigitMember& m : in_digits) {
      std::vector<DimImage> images;
      for (int d : m.digits) images.push_back(d < 0 ? DimImage{} : DimImage::Of(place[AttentionAt(d)]));
      parts_.push_back(ReindexFree(m.kernel, free_, images));
    }
    return true;
  }
  // Rows that a step of a digit goes on by.
  int64_t UnitOf(std::size_t digit) const {
    int64_t unit = 1;
    for (std::size_t d = digit + 1; d < digits_.size(); ++d) unit *= digits_[d];
    return unit;
  }

  // One binding for each slice that the kernel touches; the arrays between the members come last.
  bool Bind() {
    std::vector<std::vector<int>> of(3);
    std::vector<int> between = {scores_, weights_};
    between.insert(between.end(), of_rows_.begin(), of_rows_.end());
    std::vector<Binding> inner(between.size());
    for (std::size_t m = 0; m < 3; ++m) {
      const LaunchStep& launch = chain_.members()[first_ + m].launch;
      for (std::size_t b = 0; b < launch.bindings.size(); ++b) {
        const Slice& slice = launch.bindings[b];
        const Binding& binding = parts_[m].bindings[b];
        if (const auto found = std::ranges::find(between, slice.allocation); found != between.end()) {
          const auto number = static_cast<int>(found - between.begin());
          inner[AttentionAt(number)] = {binding.storage, binding.element_count, true, true};
          of[m].push_back(-1 - number);
          continue;
        }
        std::size_t n = 0;
        while (n < out_.bindings.size() &&
               !(out_.bindings[n] == slice && out_.kernel.bindings[n].storage == binding.storage &&
                 out_.kernel.bindings[n].element_count == binding.element_count))
          ++n;
        if (n == out_.bindings.size()) {
          out_.bindings.push_back(slice);
          out_.kernel.bindings.push_back({binding.storage, binding.element_count, false, false});
        }
        Binding& known = out_.kernel.bindings[n];
        known.read = known.read || binding.read;
        known.written = known.written || binding.written;
        // What one member writes no other one reads: rows of it might be another workgroup's.
        if (known.read && known.written) return false;
        of[m].push_back(static_cast<int>(n));
      }
    }
    const int outer = static_cast<int>(out_.bindings.size());
    for (auto& bindings : of)
      for (int& b : bindings) b = b < 0 ? outer - 1 - b : b;
    bindings_of_ = std::move(of);
    for (const Binding& b : out_.kernel.bindings) buffers_.push_back({b.storage, b.element_count, b.written});
    for (const Binding& b : inner) buffers_.push_back({b.storage, b.element_count, true});
    scores_buffer_ = outer, weights_buffer_ = outer + 1;
    return true;
  }
  // Whether an index is that of the program's own row and column in an array of rows of `columns` elements; `in_row`:
  // how far columns go on, 0 where an array has one element a row.
  bool IsOwn(const ElementProgram& p, IndexId index, int64_t columns, int64_t in_row = 1) const {
    IndexSpace space = p.space;
    if (space.dims().size() < free_.size() || space.dims().size() > free_.size() + 1) return false;
    IndexId rest = index;
    for (std::size_t d = 0; d < space.dims().size(); ++d) {
      if (space.dims()[d] == 1) continue;
      const int64_t stride = d < free_.size() ? units_[d] * columns : in_row;
      rest = space.Sub(rest, space.Mul(space.Iter(static_cast<int>(d)), stride));
    }
    return space.RangeOf(rest) == Interval{0, 0};
  }
  bool Touches(const ElementProgram& p, int buffer) const {
    return std::ranges::any_of(p.nodes, [&](const Node& n) { return n.op == NodeOp::kLoad && n.buffer == buffer; }) ||
           std::ranges::any_of(p.stores, [&](const Store& s) { return s.buffer == buffer; });
  }
  // One float for each row and column, as its own element of the array.
  bool StoresOwn(const ElementProgram& p, int buffer, int64_t columns) const {
    if (p.stores.size() != 1) return false;
    const Store& s = p.stores[0];
    return s.buffer == buffer && s.mask == kNoNode && IsFloat(s.storage) &&
           s.storage == buffers_[AttentionAt(buffer)].storage &&
           p.nodes[AttentionAt(s.node)].type == ElementType::kF32 && IsOwn(p, s.index, columns);
  }

  bool IsWritten(const DotKernel& dot) const {
    return dot.accumulate_type == ElementType::kF32 && dot.lhs_binding != weights_buffer_ &&
           StoresOwn(dot.epilogue, scores_buffer_, dot.n);
  }
  bool AreReduced(const AttentionKernel& body) const {
    const ReduceKernel& rows = body.rows;
    if (rows.element_dims != Dims({body.scores->n}) || rows.stages.empty() || body.product->k != body.scores->n)
      return false;
    for (std::size_t s = 0; s < rows.stages.size(); ++s) {
      const ReduceStage& stage = rows.stages[s];
      const ElementProgram& p = stage.program;
      const bool is_element = stage.scope == ReduceStage::Scope::kElement, is_last = s + 1 == rows.stages.size();
      for (const Node& n : p.nodes) {
        if (n.op != NodeOp::kLoad || n.buffer < scores_buffer_) continue;
        if (!is_element || n.buffer != scores_buffer_ || n.mask != kNoNode || n.type != ElementType::kF32 ||
            !IsOwn(p, n.index, body.scores->n))
          return false;
      }
      if (is_last != (is_element && stage.reductions.empty())) return false;
      if (is_last && !StoresOwn(p, weights_buffer_, body.scores->n)) return false;
      if (is_last) continue;
      if ((is_element && !p.stores.empty()) || Touches(p, weights_buffer_)) return false;
      for (const Store& store : p.stores)
        if (store.buffer >= scores_buffer_ && !(IsOfRows(store.buffer) && StoresOwnOfRow(p, store))) return false;
    }
    return true;
  }
  bool IsOfRows(int buffer) const { return buffer > weights_buffer_; }
  bool StoresOwnOfRow(const ElementProgram& p, const Store& s) const {
    return s.mask == kNoNode && s.storage == buffers_[AttentionAt(s.buffer)].storage && IsOwn(p, s.index, 1, 0);
  }
  // Of the arrays that have an element a row, the epilogue of the second product reads its own row's.
  bool ReadsOwnOfRows(const ElementProgram& p) const {
    return std::ranges::all_of(p.nodes, [&](const Node& n) {
      return n.op != NodeOp::kLoad || !IsOfRows(n.buffer) || (n.mask == kNoNode && IsOwn(p, n.index, 1, 0));
    });
  }
  bool IsSummed(const DotKernel& dot) const {
    if (!ReadsOwnOfRows(dot.epilogue)) return false;
    if (dot.accumulate_type != ElementType::kF32 || dot.computes_lhs() || dot.lhs_binding != weights_buffer_ ||
        dot.lhs_offset != 0 || dot.lhs_k_stride != 1 || Touches(dot.epilogue, weights_buffer_) ||
        dot.lhs_type != buffers_[AttentionAt(weights_buffer_)].storage)
      return false;
    for (std::size_t d = 0; d < free_.size(); ++d) {
      const int64_t stride = d < dot.batch.size() ? dot.lhs_batch_strides[d] : dot.lhs_m_stride;
      if (free_[d] > 1 && stride != units_[d] * dot.k) return false;
    }
    return true;
  }

  const RowChain& chain_;
  const std::set<int>& shrunk_;
  std::size_t first_;
  bool added_masks_;
  Dims digits_;
  Dims free_, units_;  // of the parts: their extents, and the rows that they go on by
  std::vector<KernelPlan> parts_;
  std::vector<std::vector<int>> bindings_of_;
  std::vector<ProgramBuffer> buffers_;
  std::vector<int> of_rows_;  // arrays between the second and the third member that have an element a row
  int scores_ = 0, weights_ = 0, scores_buffer_ = 0, weights_buffer_ = 0;
  FusedAttention out_;
};

}  // namespace

std::expected<FusedAttention, NotOneKernel> FuseAttention(const RowChain& chain, const std::set<int>& shrunk,
                                                          std::size_t first, bool added_masks) {
  return AttentionMaker(chain, shrunk, first, added_masks).Run();
}

std::vector<KernelPlan> PartsOfAttention(const KernelPlan& plan, const AttentionKernel& attention) {
  std::vector<KernelPlan> out;
  const auto add = [&](KernelBody body) {
    KernelPlan part;
    part.name = plan.name;
    part.bindings = plan.bindings;
    part.body = std::move(body);
    ForEachProgram(part.body, [&](const ElementProgram& p) {
      for (std::size_t b = part.bindings.size(); b < p.buffers.size(); ++b)
        part.bindings.push_back({p.buffers[b].storage, p.buffers[b].element_count, true, true});
    });
    if (const auto* dot = std::get_if<DotKernel>(&part.body)) part.flops = FlopsOf(*dot);
    part.bytes = BytesMoved(part);
    out.push_back(std::move(part));
  };
  add(*attention.scores);
  add(attention.rows);
  add(*attention.product);
  return out;
}

}  // namespace krafla::plan
