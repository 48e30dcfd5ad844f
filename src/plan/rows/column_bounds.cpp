// SPDX-License-Identifier: Apache-2.0
#include "plan/rows/column_bounds.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "plan/rows/column_limits.h"
#include "plan/rows/free_programs.h"
#include "plan/rows/mask_ranges.h"

namespace krafla::plan {
std::vector<int> ArraysBetween(std::span<const RowChain::Member> members, const std::set<int>& shrunk, std::size_t from,
                               std::size_t to) {
  std::vector<int> out;
  for (int allocation : shrunk) {
    bool is_between = true;
    for (std::size_t m = 0; m < members.size(); ++m) {
      const bool touches =
          std::ranges::any_of(members[m].launch.bindings, [&](const Slice& s) { return s.allocation == allocation; });
      is_between = is_between && touches == (m == from || m == to);
    }
    if (is_between) out.push_back(allocation);
  }
  return out;
}

std::optional<int> OnlyBetween(std::span<const RowChain::Member> members, const std::set<int>& shrunk, std::size_t from,
                               std::size_t to) {
  const std::vector<int> found = ArraysBetween(members, shrunk, from, to);
  return found.size() == 1 ? std::optional(found[0]) : std::nullopt;
}

namespace {

std::size_t BoundAt(int64_t i) { return static_cast<std::size_t>(i); }

const Node& NodeAt(const ElementProgram& p, NodeId id) { return p.nodes[BoundAt(id)]; }

// ---- Scores

// The constant that a choice takes wherever it is decided.
std::optional<double> Chosen(const ElementProgram& p, MaskRanges& ranges, NodeId id) {
  const Node& n = NodeAt(p, id);
  if (const auto value = FloatConstant(p, id)) return value;
  if (n.op != NodeOp::kHlo || n.opcode != Opcode::kSelect) return std::nullopt;
  const std::optional<Interval> pred = ranges.Of(n.operands[0]);
  if (!pred || pred->lo != pred->hi) return std::nullopt;
  return Chosen(p, ranges, pred->lo != 0 ? n.operands[1] : n.operands[2]);
}

// The constants that choices of a stored value may take: the last one is what a mask stands for.
std::optional<double> MaskConstant(const ElementProgram& p, NodeId id) {
  const Node& n = NodeAt(p, id);
  if (n.op != NodeOp::kHlo || n.opcode != Opcode::kSelect) return std::nullopt;
  for (NodeId side : {n.operands[1], n.operands[2]})
    if (const auto value = FloatConstant(p, side)) return value;
  return std::nullopt;
}

// ---- The softmax

// What a value is where the score is masked, as long as the row's largest score is above ColumnBounds::least.
enum class Masked : uint8_t {
  kUnknown,
  kLow,       // the mask's constant
  kMaximum,   // of the row
  kFar,       // less than what an exponential makes anything but zero of
  kZero,      // +0
  kPositive,  // a finite number above zero, or NaN in a row that is NaN
};

class MaskedValues {
 public:
  // scores: the binding; maximum: the param, or -1 as long as there is none; sums: those that are sums.
  MaskedValues(const ElementProgram& p, std::size_t column_dim, int scores, int maximum, const std::vector<bool>& sums)
      : p_(p), column_dim_(column_dim), scores_(scores), maximum_(maximum), sums_(sums) {
    for (const Node& n : p.nodes) values_.push_back(Make(n));
  }
  Masked Of(NodeId id) const { return id == kNoNode ? Masked::kUnknown : values_[BoundAt(id)]; }

 private:
  // A score of another column may be anything.
  Masked Load(const Node& n) const {
    if (n.buffer != scores_ || n.mask != kNoNode || n.type != ElementType::kF32) return Masked::kUnknown;
    const IndexSpace::Affine column = p_.space.StrideAlong(n.index, static_cast<int>(column_dim_));
    return column.affine && column.stride == 1 && p_.space.expr(n.index).constant == 0 ? Masked::kLow
                                                                                       : Masked::kUnknown;
  }
  Masked Make(const Node& n) const {
    const Masked a = Of(n.operands[0]), b = Of(n.operands[1]);
    switch (n.op) {
      case NodeOp::kLoad: return Load(n);
      case NodeOp::kParam:
        if (static_cast<int>(n.bits) == maximum_) return Masked::kMaximum;
        return n.bits < sums_.size() && sums_[BoundAt(static_cast<int64_t>(n.bits))] ? Masked::kPositive
                                                                                     : Masked::kUnknown;
      case NodeOp::kConstant: {
        if (n.type != ElementType::kF32) return Masked::kUnknown;
        const auto value = std::bit_cast<float>(static_cast<uint32_t>(n.bits));
        if (std::isfinite(value) && value > 0) return Masked::kPositive;
        return n.bits == 0 ? Masked::kZero : Masked::kUnknown;
      }
      case NodeOp::kRound: return Round(n, a);
      case NodeOp::kHlo: return n.type == ElementType::kF32 ? Hlo(n, a, b) : Masked::kUnknown;
      case NodeOp::kIndex:
      case NodeOp::kCompare:
      case NodeOp::kConvert:
      case NodeOp::kBitcast:
      case NodeOp::kWrap:
      case NodeOp::kEncode:
      case NodeOp::kDecode:
      case NodeOp::kReducePrecision: return Masked::kUnknown;
    }
    return Masked::kUnknown;
  }
  // To f16 or bf16. A sum is 1 at the least, and a difference stays far below what the exponential of is not zero.
  Masked Round(const Node& n, Masked a) const {
    if (a == Masked::kZero) return a;
    if (n.storage != ElementType::kBF16 && n.storage != ElementType::kF16) return Masked::kUnknown;
    if (a == Masked::kFar) return a;
    return a == Masked::kPositive && NodeAt(p_, n.operands[0]).op == NodeOp::kParam ? a : Masked::kUnknown;
  }
  Masked Hlo(const Node& n, Masked a, Masked b) const {
    if (n.opcode == Opcode::kSubtract && a == Masked::kLow && b == Masked::kMaximum) return Masked::kFar;
    if (n.opcode == Opcode::kExp && a == Masked::kFar) return Masked::kZero;
    if (n.opcode == Opcode::kDivide && a == Masked::kZero && b == Masked::kPositive) return Masked::kZero;
    if (n.opcode == Opcode::kMultiply && a == Masked::kZero && b == Masked::kPositive) return Masked::kZero;
    if (n.opcode == Opcode::kMultiply && a == Masked::kPositive && b == Masked::kZero) return Masked::kZero;
    if (n.opcode == Opcode::kSelect && b == Masked::kZero && Of(n.operands[2]) == Masked::kZero) return Masked::kZero;
    return Masked::kUnknown;
  }

  const ElementProgram& p_;
  std::size_t column_dim_;
  int scores_, maximum_;
  const std::vector<bool>& sums_;
  std::vector<Masked> values_;
};

// Whether masked scores change nothing in the reductions, of which the first is the maximum, and all that is stored of
// them is zeros.
bool MakesZeros(const ReduceKernel& reduce, int scores) {
  int maximum = -1, params = 0;
  std::vector<bool> sums;
  for (const ReduceStage& stage : reduce.stages) {
    if (stage.scope == ReduceStage::Scope::kRow) continue;
    const MaskedValues values(stage.program, reduce.row_dims.size(), scores, maximum, sums);
    for (const Store& s : stage.program.stores)
      if (values.Of(s.node) != Masked::kZero) return false;
    const int before = params;
    for (const Reduction& r : stage.reductions) {
      if (r.inputs.size() != 1) return false;
      const Masked in = values.Of(stage.program.results[BoundAt(r.inputs[0])]);
      const bool is_maximum = r.kind == Reduction::Kind::kMax && in == Masked::kLow && maximum < 0;
      const bool is_sum = r.kind == Reduction::Kind::kSum && in == Masked::kZero;
      if (!is_maximum && !is_sum) return false;
      sums.push_back(is_sum);
      ++params;
      if (is_maximum) maximum = params - 1;
    }
    if (maximum != 0 || (before == 0 && params > 1)) return false;
  }
  return maximum == 0;
}

// The binding by which a member reads or writes the allocation, if that is its only one.
std::optional<int> OnlyBinding(const RowChain::Member& m, int allocation) {
  std::optional<int> out;
  for (std::size_t b = 0; b < m.launch.bindings.size(); ++b) {
    if (m.launch.bindings[b].allocation != allocation) continue;
    if (out) return std::nullopt;
    out = static_cast<int>(b);
  }
  return out;
}

// Of the softmax: all that it stores of its elements is the one array. What it stores once a row is what the reductions
// are, to which columns that are left out add nothing.
bool StoresOnly(const ReduceKernel& reduce, int binding) {
  return std::ranges::all_of(reduce.stages, [&](const ReduceStage& stage) {
    return stage.scope == ReduceStage::Scope::kRow ||
           std::ranges::all_of(stage.program.stores, [&](const Store& s) { return s.buffer == binding; });
  });
}

}  // namespace

std::optional<ColumnBounds> ColumnBoundsAt(std::span<const RowChain::Member> members, const std::set<int>& shrunk,
                                           std::size_t at, bool added) {
  const auto* first = std::get_if<DotKernel>(&members[at].kernel.body);
  const auto* reduce = std::get_if<ReduceKernel>(&members[at + 1].kernel.body);
  const auto* second = std::get_if<DotKernel>(&members[at + 2].kernel.body);
  if (first == nullptr || reduce == nullptr || second == nullptr) return std::nullopt;
  const std::optional<int> scores = OnlyBetween(members, shrunk, at, at + 1);
  // Besides what is multiplied there may be arrays that have an element a row.
  const std::vector<int> behind = ArraysBetween(members, shrunk, at + 1, at + 2);
  const int multiplied =
      second->computes_lhs() ? -1 : members[at + 2].launch.bindings[BoundAt(second->lhs_binding)].allocation;
  const auto parts = std::ranges::find(behind, multiplied);
  if (!scores || parts == behind.end()) return std::nullopt;
  ColumnBounds out{at, at + 1, at + 2, *scores, *parts, first->n, 0, 0};
  // Columns side by side, all of them in every one of the three.
  if (reduce->element_dims != Dims({out.columns}) || second->k != out.columns || second->lhs_k_stride != 1 ||
      second->computes_lhs() || second->computes_rhs() || first->computes_rhs() || first->computes_lhs() ||
      !IsFloat(second->rhs_type))
    return std::nullopt;
  const std::optional<int> written = OnlyBinding(members[at], *scores), read = OnlyBinding(members[at + 1], *scores),
                           stored = OnlyBinding(members[at + 1], *parts);
  if (!written || !read || !stored || !StoresOnly(*reduce, *stored)) return std::nullopt;
  const ElementProgram& epilogue = first->epilogue;
  if (epilogue.stores.size() != 1 || epilogue.stores[0].mask != kNoNode) return std::nullopt;
  const ElementType kept = epilogue.stores[0].storage;
  if (kept != ElementType::kF32 && kept != ElementType::kBF16 && kept != ElementType::kF16) return std::nullopt;
  const int column_dim = static_cast<int>(epilogue.space.dims().size()) - 1;
  const IndexSpace::Affine column = epilogue.space.StrideAlong(epilogue.stores[0].index, column_dim);
  if (!column.affine || column.stride != 1) return std::nullopt;
  std::optional<double> low = MaskConstant(epilogue, epilogue.stores[0].node);
  const std::optional<AddedMask> mask = added ? FindAddedMask(epilogue) : std::nullopt;
  if (mask) low = mask->low;
  constexpr double kLowEnough = -1000;
  if (!low || !(*low <= kLowEnough)) return std::nullopt;
  if (!MakesZeros(*reduce, *read)) return std::nullopt;
  out.low = *low;
  // exp(x) is zero for x < -104. The difference of two numbers of such a size is a multiple of their spacing.
  // So is a sum that was rounded to bf16.
  const double spacing = mask ? 0x1p-7 : 0x1p-20;
  out.least = std::isinf(*low) ? *low : *low + std::max(200.0, std::abs(*low) * spacing);
  return out;
}

std::optional<ColumnBounds> FindColumnBounds(std::span<const RowChain::Member> members, const std::set<int>& shrunk) {
  for (std::size_t m = 0; m + 2 < members.size(); ++m)
    if (std::optional<ColumnBounds> found = ColumnBoundsAt(members, shrunk, m)) return found;
  return std::nullopt;
}

bool IsMaskedFrom(const KernelPlan& scores, const ColumnBounds& bounds, int dim, int64_t begin, int64_t extent,
                  int64_t first) {
  if (first >= bounds.columns) return true;
  const KernelPlan narrow = NarrowFree(scores, dim, begin, extent);
  const ElementProgram& p = std::get<DotKernel>(narrow.body).epilogue;
  Dims dims = p.space.dims();
  std::vector<DimImage> images;
  for (std::size_t d = 0; d < dims.size(); ++d) images.push_back(DimImage::Of(static_cast<int>(d)));
  images.back().constant = first;
  dims.back() = bounds.columns - first;
  const ElementProgram behind = Reindex(p, dims, images);
  MaskRanges ranges(behind);
  const std::optional<double> value = Chosen(behind, ranges, behind.stores[0].node);
  return value && *value == bounds.low;
}

namespace {

// The same program over fewer columns, dimension `dim`.
ElementProgram Narrowed(const ElementProgram& p, std::size_t dim, int64_t columns) {
  Dims dims = p.space.dims();
  std::vector<DimImage> images;
  for (std::size_t d = 0; d < dims.size(); ++d) images.push_back(DimImage::Of(static_cast<int>(d)));
  dims[dim] = columns;
  return Reindex(p, dims, images);
}

// Rows of the arrays come closer: an index of theirs goes on by `columns` from row to row instead of by `whole`.
void MoveRows(RowChain::Member& m, const std::vector<bool>& is_moved, int64_t whole, int64_t columns) {
  for (std::size_t b = 0; b < is_moved.size(); ++b)
    if (is_moved[b]) m.kernel.bindings[b].element_count = m.kernel.bindings[b].element_count / whole * columns;
  ForEachFreeProgram(m.kernel.body, [&](ElementProgram& p, std::span<const int> free_of) {
    for (std::size_t b = 0; b < p.buffers.size() && b < is_moved.size(); ++b)
      if (is_moved[b]) p.buffers[b].element_count = m.kernel.bindings[b].element_count;
    const auto move = [&](int buffer, IndexId index) {
      if (!is_moved[BoundAt(buffer)]) return index;
      for (std::size_t d = 0; d < free_of.size(); ++d)
        if (free_of[d] >= 0)
          index = p.space.Add(
              index, p.space.Mul(p.space.Iter(static_cast<int>(d)), m.units[BoundAt(free_of[d])] * (columns - whole)));
      return index;
    };
    for (Node& n : p.nodes)
      if (n.op == NodeOp::kLoad) n.index = move(n.buffer, n.index);
    for (Store& s : p.stores) s.index = move(s.buffer, s.index);
  });
  auto* dot = std::get_if<DotKernel>(&m.kernel.body);
  if (dot == nullptr || !is_moved[BoundAt(dot->lhs_binding)]) return;
  for (std::size_t d = 0; d < dot->batch.size(); ++d) dot->lhs_batch_strides[d] += m.units[d] * (columns - whole);
  dot->lhs_m_stride += m.units.back() * (columns - whole);
}

}  // namespace

std::vector<RowChain::Member> WithColumns(std::span<const RowChain::Member> members, const ColumnBounds& bounds,
                                          int64_t columns) {
  std::vector<RowChain::Member> out(members.begin(), members.end());
  if (columns == bounds.columns) return out;
  const double share = static_cast<double>(columns) / static_cast<double>(bounds.columns);
  for (RowChain::Member& m : out) {
    std::vector<bool> is_moved;
    for (const Slice& s : m.launch.bindings)
      is_moved.push_back(s.allocation == bounds.scores_array || s.allocation == bounds.parts_array);
    if (std::ranges::find(is_moved, true) == is_moved.end()) continue;
    m.kernel.flops *= share;
    MoveRows(m, is_moved, bounds.columns, columns);
    auto* reduce = std::get_if<ReduceKernel>(&m.kernel.body);
    if (reduce == nullptr) continue;
    for (ReduceStage& stage : reduce->stages)
      if (stage.scope == ReduceStage::Scope::kElement)
        stage.program = Narrowed(stage.program, reduce->row_dims.size(), columns);
    reduce->element_dims = Dims({columns});
  }
  auto& first = std::get<DotKernel>(out[bounds.scores].kernel.body);
  first.epilogue = Narrowed(first.epilogue, first.epilogue.space.dims().size() - 1, columns);
  first.n = columns;
  std::get<DotKernel>(out[bounds.product].kernel.body).k = columns;
  return out;
}

namespace {

// A reduction of preds by and.
Reduction Conjunction(const std::vector<ProgramBuffer>& buffers) {
  Reduction out;
  out.kind = Reduction::Kind::kAnd;
  out.hlo_type = ElementType::kPred;
  out.inputs = {0};
  ProgramBuilder combiner(Dims{}), init(Dims{});
  const auto a = combiner.Param(ElementType::kPred, 0, 0), b = combiner.Param(ElementType::kPred, 1, 0);
  combiner.AddResult(combiner.Hlo(Opcode::kAnd, ElementType::kPred, {a, b}));
  init.AddResult(init.Constant(ElementType::kPred, 1));
  out.combiner = std::move(combiner).Finish();
  out.init = std::move(init).Finish();
  out.combiner.buffers = out.init.buffers = buffers;
  return out;
}

// One row of elements of binding 0, each a pred that `made` makes, and whether all are true to element `at` of
// binding 1.
template <typename Make>
KernelPlan AllOf(std::string name, const Binding& in, int64_t at, int64_t count, Make&& make) {
  KernelPlan out;
  out.name = std::move(name);
  out.bindings = {{in.storage, in.element_count, true, false}, {ElementType::kPred, count, false, true}};
  const Dims space{1, in.element_count}, row{1};
  ProgramBuilder each(space), last(row);
  for (ProgramBuilder* b : {&each, &last})
    for (const Binding& binding : out.bindings) b->AddBuffer(binding.storage, binding.element_count, binding.written);
  each.AddResult(make(each, each.Load(0, in.storage, each.space().Iter(1))));
  last.AddStore({1, last.space().Constant(at), last.Param(ElementType::kPred, 0, 1), ElementType::kPred, kNoNode});
  ReduceStage elements, rows;
  elements.program = std::move(each).Finish();
  elements.reductions.push_back(Conjunction(elements.program.buffers));
  rows.scope = ReduceStage::Scope::kRow;
  rows.program = std::move(last).Finish();
  ReduceKernel body{row, Dims{in.element_count}, {}};
  body.stages.push_back(std::move(elements));
  body.stages.push_back(std::move(rows));
  out.body = std::move(body);
  out.bytes = static_cast<double>(in.byte_size());
  return out;
}

}  // namespace

KernelPlan FiniteCheck(const Binding& values, int64_t at, int64_t count) {
  return AllOf("all_finite", values, at, count,
               [&](ProgramBuilder& b, NodeId value) { return b.Hlo(Opcode::kIsFinite, values.storage, {value}); });
}

KernelPlan AllTrue(int64_t count) {
  return AllOf("all_true", {ElementType::kPred, count, true, false}, 0, 1,
               [](ProgramBuilder&, NodeId value) { return value; });
}

std::vector<RowChain::Member> WithChecks(std::span<const RowChain::Member> members, ColumnBounds& bounds, int64_t rows,
                                         const Slice& checks) {
  std::vector<RowChain::Member> out(members.begin(), members.end());
  RowChain::Member m = out[bounds.softmax];
  auto& reduce = std::get<ReduceKernel>(m.kernel.body);
  reduce.stages.resize(1);
  const int binding = static_cast<int>(m.kernel.bindings.size());
  m.kernel.name = "row_checks";
  m.kernel.flops /= 4;
  for (Binding& b : m.kernel.bindings) b.written = false;
  m.kernel.bindings.push_back({ElementType::kPred, rows + 1, false, true});
  m.launch.bindings.push_back(checks);
  m.launch.instruction_count = 0;
  ProgramBuilder builder(reduce.row_dims);
  for (const Binding& b : m.kernel.bindings) builder.AddBuffer(b.storage, b.element_count, b.written);
  IndexId row = 0;
  uint64_t depends = 0;
  for (std::size_t d = 0; d < m.units.size(); ++d) {
    row = builder.space().Add(row, builder.space().Mul(builder.space().Iter(static_cast<int>(d)), m.units[d]));
    depends |= uint64_t{1} << d;
  }
  const NodeId largest = builder.Param(ElementType::kF32, 0, depends);
  const NodeId least = builder.ConstantFloat(ElementType::kF32, bounds.least);
  const NodeId small = builder.Compare(ComparisonDirection::kLe, largest, least);
  builder.AddStore({binding, row, builder.Hlo(Opcode::kNot, ElementType::kPred, {small}), ElementType::kPred, kNoNode});
  ReduceStage stage;
  stage.scope = ReduceStage::Scope::kRow;
  stage.program = std::move(builder).Finish();
  reduce.stages.push_back(std::move(stage));
  ForEachProgram(m.kernel.body, [&](ElementProgram& p) { p.buffers = reduce.stages.back().program.buffers; });
  out.insert(out.begin() + static_cast<std::ptrdiff_t>(bounds.softmax) + 1, std::move(m));
  ++bounds.product;
  return out;
}

}  // namespace krafla::plan
