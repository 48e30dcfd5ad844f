// SPDX-License-Identifier: Apache-2.0
#include "plan/rows/group_columns.h"

#include <algorithm>
#include <limits>

#include "plan/reindex.h"
#include "plan/rows/column_values.h"
#include "plan/rows/free_programs.h"

namespace krafla::plan {
namespace {

using RoleKind = ColumnRole::Kind;

std::size_t ColumnAt(int64_t i) { return static_cast<std::size_t>(i); }

bool IsCheckable(ElementType type) {
  return type == ElementType::kF32 || type == ElementType::kBF16 || type == ElementType::kF16;
}

class ColumnsFinder {
 public:
  ColumnsFinder(std::span<const RowChain::Member> members, const std::map<int, RowChain::Value>& values,
                const std::set<int>& shrunk)
      : members_(members), values_(values), shrunk_(shrunk) {}

  // With the scores that member `at` makes.
  std::optional<GroupColumns> From(std::size_t at) {
    const std::optional<ScoreMask> mask = MaskOfScores(members_[at].kernel);
    if (!mask || members_[at].is_sum) return std::nullopt;
    out_ = {*mask, at, members_.size(), {}, {}, {}};
    const int scores = AllocationOf(at, std::get<DotKernel>(members_[at].kernel.body).epilogue.stores[0].buffer);
    if (!shrunk_.contains(scores) || values_.at(scores).width != mask->columns) return std::nullopt;
    out_.arrays = {scores};
    FindArrays();
    for (std::size_t m = 0; m < members_.size(); ++m) {
      const std::optional<ColumnRole> role = RoleOf(m);
      if (!role) return std::nullopt;
      out_.roles.push_back(*role);
    }
    for (std::size_t m = 0; m < members_.size(); ++m)
      if (!Evaluate(m)) return std::nullopt;
    if (out_.largest == members_.size()) return std::nullopt;
    return std::move(out_);
  }

 private:
  int AllocationOf(std::size_t m, int binding) const {
    return members_[m].launch.bindings[ColumnAt(binding)].allocation;
  }
  bool IsArray(std::size_t m, int binding) const { return out_.arrays.contains(AllocationOf(m, binding)); }

  // All arrays of elements that loops and reductions make of those of others.
  void FindArrays() {
    for (bool found = true; found;) {
      found = false;
      for (const RowChain::Member& m : members_) {
        const auto is_array = [&](const Slice& s) { return out_.arrays.contains(s.allocation); };
        if (std::holds_alternative<DotKernel>(m.kernel.body) || std::ranges::none_of(m.launch.bindings, is_array))
          continue;
        for (const Slice& s : m.launch.bindings)
          if (shrunk_.contains(s.allocation) && values_.at(s.allocation).width == out_.mask.columns)
            found = out_.arrays.insert(s.allocation).second || found;
      }
    }
  }

  // Whether the program touches elements of the arrays in its own column alone; `is_all`: and stores nothing else.
  bool OwnColumns(std::size_t m, const ElementProgram& p, int dim, bool is_all) const {
    const auto is_own = [&](int buffer, IndexId index) {
      return !IsArray(m, buffer) || (dim >= 0 && IsOwnColumn(p, index, dim));
    };
    return std::ranges::all_of(p.nodes,
                               [&](const Node& n) { return n.op != NodeOp::kLoad || is_own(n.buffer, n.index); }) &&
           std::ranges::all_of(p.stores, [&](const Store& s) {
             return is_own(s.buffer, s.index) && (!is_all || (IsArray(m, s.buffer) && s.mask == kNoNode));
           });
  }

  // Nothing: the member needs columns in a way of its own.
  std::optional<ColumnRole> RoleOf(std::size_t m) const {
    int touched = 0;
    for (std::size_t b = 0; b < members_[m].launch.bindings.size(); ++b) touched += IsArray(m, static_cast<int>(b));
    if (touched == 0) return ColumnRole{};
    const KernelBody& body = members_[m].kernel.body;
    if (const auto* dot = std::get_if<DotKernel>(&body)) return RoleOfDot(m, *dot, touched);
    if (const auto* reduce = std::get_if<ReduceKernel>(&body)) return RoleOfReduce(m, *reduce);
    if (const auto* loop = std::get_if<LoopKernel>(&body)) {
      const ElementProgram& p = loop->program;
      for (std::size_t d = p.space.dims().size(); d-- > 0;)
        if (p.space.dims()[d] == out_.mask.columns && members_[m].units[d] == 0 &&
            OwnColumns(m, p, static_cast<int>(d), true))
          return ColumnRole{RoleKind::kElements, static_cast<int>(d)};
    }
    return std::nullopt;
  }
  std::optional<ColumnRole> RoleOfDot(std::size_t m, const DotKernel& dot, int touched) const {
    // What it computes where it reads it is not made of the arrays.
    if (dot.computes_lhs() && !OwnColumns(m, dot.lhs_program, -1, false)) return std::nullopt;
    if (dot.computes_rhs() && !OwnColumns(m, dot.rhs_program, -1, false)) return std::nullopt;
    const int64_t columns = out_.mask.columns;
    if (!dot.computes_lhs() && IsArray(m, dot.lhs_binding)) {
      const bool is_own =
          members_[m].is_sum ? dot.m == columns && dot.lhs_m_stride == 1 : dot.k == columns && dot.lhs_k_stride == 1;
      if (!is_own || touched > 1 || !IsFloat(dot.rhs_type)) return std::nullopt;
      return ColumnRole{members_[m].is_sum ? RoleKind::kSums : RoleKind::kContracts};
    }
    const int dim = static_cast<int>(dot.epilogue.space.dims().size()) - 1;
    if (members_[m].is_sum || dot.n != columns || (!dot.computes_rhs() && IsArray(m, dot.rhs_binding)) ||
        !OwnColumns(m, dot.epilogue, dim, true))
      return std::nullopt;
    return ColumnRole{RoleKind::kMakes};
  }
  std::optional<ColumnRole> RoleOfReduce(std::size_t m, const ReduceKernel& reduce) const {
    if (reduce.element_dims != Dims({out_.mask.columns})) return std::nullopt;
    for (const ReduceStage& stage : reduce.stages) {
      const bool is_row = stage.scope == ReduceStage::Scope::kRow;
      if (!OwnColumns(m, stage.program, is_row ? -1 : static_cast<int>(reduce.row_dims.size()), !is_row))
        return std::nullopt;
      for (const Reduction& r : stage.reductions)
        if (!OwnColumns(m, r.init, -1, false)) return std::nullopt;
    }
    return ColumnRole{RoleKind::kReduces};
  }

  // What an element of a member's binding is.
  ColumnValue ValueOf(std::size_t m, int binding, bool in_column) const {
    const int allocation = AllocationOf(m, binding);
    if (const auto found = elements_.find(allocation); found != elements_.end())
      return in_column ? found->second : ColumnValue{};
    if (const auto found = rows_.find(allocation); found != rows_.end())
      return in_column ? ColumnValue{} : found->second;
    if (values_.contains(allocation) || !IsCheckable(members_[m].kernel.bindings[ColumnAt(binding)].storage)) return {};
    return ColumnValue::Same(ValueRange::Between(-kMostElement, kMostElement));
  }

  // An array that the group does not write: its elements have to be no larger than that.
  bool Check(std::size_t m, int binding, double most) {
    const Binding& read = members_[m].kernel.bindings[ColumnAt(binding)];
    return Check(m, {binding}, ElementsOf(read), read.storage, most);
  }
  // What a program makes of such arrays; `bindings`: the member's that its buffers are.
  bool Check(std::size_t m, const std::vector<int>& bindings, ElementProgram values, ElementType type, double most) {
    CheckedValues checked{{}, {}, std::move(values), type, most};
    if (!IsFloat(type)) return false;
    for (int b : bindings) {
      if (values_.contains(AllocationOf(m, b))) return false;
      checked.slices.push_back(members_[m].launch.bindings[ColumnAt(b)]);
      checked.bindings.push_back(members_[m].kernel.bindings[ColumnAt(b)]);
      checked.bindings.back().read = true, checked.bindings.back().written = false;
    }
    for (CheckedValues& c : out_.checked)
      if (c.slices == checked.slices && c.bindings == checked.bindings && c.values == checked.values) {
        c.most = std::min(c.most, most);
        return true;
      }
    out_.checked.push_back(std::move(checked));
    return true;
  }
  bool CheckLhs(std::size_t m, double most) {
    const auto& dot = std::get<DotKernel>(members_[m].kernel.body);
    if (!dot.computes_lhs()) return Check(m, dot.lhs_binding, most);
    return CheckComputed(m, dot.lhs_program, dot.lhs_type, dot.lhs_m_stride < dot.lhs_k_stride, most);
  }
  bool CheckRhs(std::size_t m, double most) {
    const auto& dot = std::get<DotKernel>(members_[m].kernel.body);
    if (!dot.computes_rhs()) return Check(m, dot.rhs_binding, most);
    return CheckComputed(m, dot.rhs_program, dot.rhs_type, dot.rhs_k_stride < dot.rhs_n_stride, most);
  }
  // Each value of a computed operand once. `turned`: neighbours are those along the last dimension but one.
  bool CheckComputed(std::size_t m, const ElementProgram& operand, ElementType type, bool turned, double most) {
    const Dims& all = operand.space.dims();
    const uint64_t depends = operand.nodes[ColumnAt(operand.results[0])].depends;
    Dims dims;
    std::vector<DimImage> images(all.size());
    const auto add = [&](std::size_t d) {
      if ((depends >> d & 1) == 0) return;
      images[d] = DimImage::Of(static_cast<int>(dims.size()));
      dims.push_back(all[d]);
    };
    for (std::size_t d = 0; d + 2 < all.size(); ++d) add(d);
    add(all.size() - (turned ? 1 : 2));
    add(all.size() - (turned ? 2 : 1));
    if (dims.empty()) dims.push_back(1);
    ElementProgram values = Reindex(operand, dims, images);
    DropUnneededNodes(values);
    std::vector<int> bindings;
    std::vector<ProgramBuffer> buffers;
    RenumberBuffers(values, [&](int buffer) {
      const auto found = std::ranges::find(bindings, buffer);
      if (found != bindings.end()) return static_cast<int>(found - bindings.begin());
      buffers.push_back(values.buffers[ColumnAt(buffer)]);
      bindings.push_back(buffer);
      return static_cast<int>(std::ssize(bindings)) - 1;
    });
    values.buffers = std::move(buffers);
    return Check(m, bindings, std::move(values), type, most);
  }
  // What the program reads besides the group's arrays was taken to be of such a size.
  void CheckLoads(std::size_t m, const ElementProgram& p) {
    const std::vector<bool> needed = NeededNodes(p);
    for (std::size_t n = 0; n < p.nodes.size(); ++n)
      if (p.nodes[n].op == NodeOp::kLoad && needed[n] && p.nodes[n].type == ElementType::kF32)
        Check(m, p.nodes[n].buffer, kMostElement);
  }

  // Finds what the member stores; false: it needs hidden columns.
  bool Evaluate(std::size_t m) {
    const auto value = [&](int buffer, bool in_column) { return ValueOf(m, buffer, in_column); };
    const RowChain::Member& member = members_[m];
    const ColumnRole& role = out_.roles[m];
    if (role.kind == RoleKind::kElements) {
      const ElementProgram& p = std::get<LoopKernel>(member.kernel.body).program;
      Keep(m, p, ValuesOfNodes(p, role.dim, {}, value));
    } else if (role.kind == RoleKind::kMakes && m == out_.scores) {
      const auto& dot = std::get<DotKernel>(member.kernel.body);
      elements_[AllocationOf(m, dot.epilogue.stores[0].buffer)] = ColumnValue::Score(out_.mask.low);
    } else if (role.kind == RoleKind::kMakes) {
      return EvaluateProduct(m);
    } else if (role.kind == RoleKind::kReduces) {
      const auto& reduce = std::get<ReduceKernel>(member.kernel.body);
      const ReducedColumns found = ReduceColumns(reduce, value);
      if (!found.fits) return false;
      for (const auto& [binding, stored] : found.stores) elements_[AllocationOf(m, binding)] = stored;
      for (const auto& [binding, stored] : found.row_stores) rows_[AllocationOf(m, binding)] = stored;
      for (const ReduceStage& stage : reduce.stages) CheckLoads(m, stage.program);
      const ReduceStage& first = reduce.stages[0];
      if (out_.largest == members_.size() && first.reductions.size() == 1 && first.program.stores.empty() &&
          found.params[0].any.kind == ValueRange::Kind::kLargest)
        out_.largest = m;
    } else if (role.kind != RoleKind::kNone) {
      const auto& dot = std::get<DotKernel>(member.kernel.body);
      const auto left = elements_.find(AllocationOf(m, dot.lhs_binding));
      return left != elements_.end() && left->second.hidden.IsZero() &&
             CheckRhs(m, std::numeric_limits<double>::infinity());
    }
    return true;
  }
  bool EvaluateProduct(std::size_t m) {
    constexpr int64_t kMostTerms = int64_t{1} << 20;
    const auto& dot = std::get<DotKernel>(members_[m].kernel.body);
    std::vector<ColumnValue> params(1);
    if (dot.accumulate_type == ElementType::kF32 && IsCheckable(dot.lhs_type) && IsCheckable(dot.rhs_type) &&
        dot.k <= kMostTerms && CheckLhs(m, kMostElement) && CheckRhs(m, kMostElement)) {
      const double most = 2 * kMostElement * kMostElement * static_cast<double>(dot.k);
      params[0] = ColumnValue::Same(ValueRange::Between(-most, most));
    }
    const int dim = static_cast<int>(dot.epilogue.space.dims().size()) - 1;
    Keep(m, dot.epilogue,
         ValuesOfNodes(dot.epilogue, dim, params, [&](int b, bool in_column) { return ValueOf(m, b, in_column); }));
    return true;
  }
  void Keep(std::size_t m, const ElementProgram& p, const std::vector<ColumnValue>& values) {
    for (const Store& s : p.stores) elements_[AllocationOf(m, s.buffer)] = values[ColumnAt(s.node)];
    CheckLoads(m, p);
  }

  std::span<const RowChain::Member> members_;
  const std::map<int, RowChain::Value>& values_;
  const std::set<int>& shrunk_;
  GroupColumns out_;
  std::map<int, ColumnValue> elements_, rows_;  // by allocation: of each row and column, and of each row
};

// The same program over fewer columns, dimension `dim`.
ElementProgram Narrowed(const ElementProgram& p, std::size_t dim, const ColumnRange& columns) {
  Dims dims = p.space.dims();
  std::vector<DimImage> images;
  for (std::size_t d = 0; d < dims.size(); ++d) images.push_back(DimImage::Of(static_cast<int>(d)));
  images[dim].constant = columns.first;
  dims[dim] = columns.count;
  return Reindex(p, dims, images);
}

// Rows of the arrays come closer: an index of theirs goes on by as many elements from row to row as there are columns,
// instead of by `whole`, and begins with the first of them.
void MoveRows(RowChain::Member& m, const std::vector<bool>& is_moved, int64_t whole, const ColumnRange& columns) {
  for (std::size_t b = 0; b < is_moved.size(); ++b)
    if (is_moved[b]) m.kernel.bindings[b].element_count = m.kernel.bindings[b].element_count / whole * columns.count;
  ForEachFreeProgram(m.kernel.body, [&](ElementProgram& p, std::span<const int> free_of) {
    for (std::size_t b = 0; b < p.buffers.size() && b < is_moved.size(); ++b)
      if (is_moved[b]) p.buffers[b].element_count = m.kernel.bindings[b].element_count;
    const auto move = [&](int buffer, IndexId index) {
      if (!is_moved[ColumnAt(buffer)]) return index;
      for (std::size_t d = 0; d < free_of.size(); ++d)
        if (free_of[d] >= 0)
          index = p.space.Add(index, p.space.Mul(p.space.Iter(static_cast<int>(d)),
                                                 m.units[ColumnAt(free_of[d])] * (columns.count - whole)));
      return p.space.AddConstant(index, -columns.first);
    };
    for (Node& n : p.nodes)
      if (n.op == NodeOp::kLoad) n.index = move(n.buffer, n.index);
    for (Store& s : p.stores) s.index = move(s.buffer, s.index);
  });
  auto* dot = std::get_if<DotKernel>(&m.kernel.body);
  if (dot == nullptr || dot->computes_lhs() || !is_moved[ColumnAt(dot->lhs_binding)]) return;
  for (std::size_t d = 0; d < dot->batch.size(); ++d) dot->lhs_batch_strides[d] += m.units[d] * (columns.count - whole);
  dot->lhs_m_stride += m.units.back() * (columns.count - whole);
  dot->lhs_offset -= columns.first;
}

// These columns of what the member computes.
void TakeColumns(KernelPlan& kernel, const ColumnRole& role, const ColumnRange& columns) {
  auto* dot = std::get_if<DotKernel>(&kernel.body);
  switch (role.kind) {
    case RoleKind::kNone: break;
    case RoleKind::kMakes:
      dot->epilogue = Narrowed(dot->epilogue, dot->epilogue.space.dims().size() - 1, columns);
      if (dot->computes_rhs()) dot->rhs_program = Narrowed(dot->rhs_program, dot->batch.size() + 1, columns);
      else dot->rhs_offset += columns.first * dot->rhs_n_stride;
      dot->n = columns.count;
      break;
    case RoleKind::kReduces: {
      auto& reduce = std::get<ReduceKernel>(kernel.body);
      for (ReduceStage& stage : reduce.stages)
        if (stage.scope == ReduceStage::Scope::kElement)
          stage.program = Narrowed(stage.program, reduce.row_dims.size(), columns);
      reduce.element_dims = Dims({columns.count});
      break;
    }
    case RoleKind::kElements: kernel = NarrowFree(kernel, role.dim, columns.first, columns.count); break;
    case RoleKind::kContracts:
      dot->lhs_offset += columns.first;
      if (dot->computes_rhs()) dot->rhs_program = Narrowed(dot->rhs_program, dot->batch.size(), columns);
      else dot->rhs_offset += columns.first * dot->rhs_k_stride;
      dot->k = columns.count;
      break;
    case RoleKind::kSums:
      kernel = NarrowFree(kernel, static_cast<int>(dot->batch.size()), columns.first, columns.count);
      break;
  }
}

}  // namespace

std::optional<GroupColumns> FindGroupColumns(std::span<const RowChain::Member> members,
                                             const std::map<int, RowChain::Value>& values,
                                             const std::set<int>& shrunk) {
  for (std::size_t m = 0; m < members.size(); ++m)
    if (std::optional<GroupColumns> found = ColumnsFinder(members, values, shrunk).From(m)) return found;
  return std::nullopt;
}

std::vector<RowChain::Member> WithColumns(std::span<const RowChain::Member> members, const GroupColumns& group,
                                          const ColumnRange& columns) {
  std::vector<RowChain::Member> out(members.begin(), members.end());
  const int64_t all = group.mask.columns;
  if (columns.count == all) return out;
  for (std::size_t m = 0; m < out.size(); ++m) {
    if (group.roles[m].kind == RoleKind::kNone) continue;
    std::vector<bool> is_moved;
    for (const Slice& s : out[m].launch.bindings) is_moved.push_back(group.arrays.contains(s.allocation));
    out[m].kernel.flops *= static_cast<double>(columns.count) / static_cast<double>(all);
    // First the columns: what is moved then begins with the first of them.
    TakeColumns(out[m].kernel, group.roles[m], columns);
    MoveRows(out[m], is_moved, all, columns);
  }
  return out;
}

}  // namespace krafla::plan
