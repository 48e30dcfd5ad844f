// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/unrolled_program.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/checked_math.h"
#include "base/index.h"
#include "cpu_fallback/executor/arg_extremum.h"
#include "cpu_fallback/executor/block_program.h"
#include "cpu_fallback/executor/iteration.h"
#include "cpu_fallback/executor/lanes.h"
#include "cpu_fallback/kernels/tiny_products.h"
#include "cpu_fallback/native/lane_graph.h"
#include "cpu_fallback/native/native_code.h"

namespace krafla::cpu {

using plan::ElementProgram;
using plan::IndexAtom;
using plan::IndexId;
using plan::IndexTerm;
using plan::kNoNode;
using plan::Node;
using plan::NodeId;
using plan::NodeOp;
using plan::ReduceStage;
using plan::Reduction;
using plan::Store;

namespace {

constexpr int64_t kMostUnrolled = 16;
// Of reductions that read a row again, as norms do, of many rows: each other stage is a pass less.
constexpr int64_t kMostUnrolledTwice = 24;
// Of extrema that a program's loop finds in each of many turns.
constexpr int64_t kMostUnrolledOfTurn = 32, kManyTurns = 32, kMostOfTurn = 4096;
constexpr std::size_t kMostUnrolledNodes = 600;
// Fewer rows, in a program that runs once, are done before native code would be made.
constexpr int64_t kFewRows = 256;
constexpr int64_t kFewProducts = 4096;
// Products that a loop has inside of it, and how often it turns then.
constexpr int64_t kProductsOfLoop = 128, kRunsOfLoop = 32;
// Native code takes narrow elements of a row out of one word, where they lie along one dimension.
bool FitsWord(std::span<const int64_t> element_dims, int width) {
  const int64_t elements = SaturatingProduct(element_dims);
  return elements <= 4 || (elements * width == 8 && std::ranges::count(element_dims, elements) > 0);
}

// A program in the making, over the outer ones of other programs' dimensions.
class Unroller {
 public:
  Unroller(std::span<const int64_t> dims, const std::vector<plan::ProgramBuffer>& buffers) : rank_(dims.size()) {
    out_.space = plan::IndexSpace(dims);
    out_.buffers = buffers;
  }

  // Nodes of `program`, which number they have here, with these indices in the place of the dimensions behind the outer
  // ones and nodes in the place of params. `is_shared`: nodes that do not vary with those dimensions are made once.
  std::vector<NodeId> Add(const ElementProgram& program, std::span<const int64_t> inner, std::span<const NodeId> params,
                          bool is_shared) {
    std::vector<NodeId> at(program.nodes.size(), kNoNode);
    for (std::size_t i = 0; i < program.nodes.size(); ++i) {
      const Node& from = program.nodes[i];
      if (from.op == NodeOp::kParam) {
        at[i] = params[from.bits];
        continue;
      }
      const bool is_same = is_shared && (from.depends >> rank_) == 0;
      const auto key = std::pair{&program, i};
      if (const auto known = shared_.find(key); is_same && known != shared_.end()) {
        at[i] = known->second;
        continue;
      }
      Node n = from;
      const auto renumber = [&](NodeId& id) {
        if (id != kNoNode) id = at[At(id)], n.depends |= out_.nodes[At(id)].depends;
      };
      n.depends = 0;
      for (NodeId& o : n.operands) renumber(o);
      renumber(n.mask);
      if (n.op == NodeOp::kLoad || n.op == NodeOp::kIndex) {
        n.index = Expr(program.space, n.index, inner, at);
        n.depends |= out_.space.Depends(n.index);
      }
      if (n.op == NodeOp::kIndex && out_.space.expr(n.index).terms.empty())
        n = {.op = NodeOp::kConstant, .type = n.type, .bits = static_cast<uint32_t>(out_.space.expr(n.index).constant)};
      at[i] = Decided(n);
      if (is_same) shared_.emplace(key, at[i]);
    }
    for (Store s : program.stores) {
      s.index = Expr(program.space, s.index, inner, at);
      s.node = at[At(s.node)];
      if (s.mask != kNoNode) s.mask = at[At(s.mask)];
      out_.stores.push_back(s);
    }
    return at;
  }
  // A node of operands that are here already.
  NodeId Add(Node node) {
    if (node.op == NodeOp::kLoad) node.depends = out_.space.Depends(node.index);
    for (NodeId o : node.operands)
      if (o != kNoNode) node.depends |= out_.nodes[At(o)].depends;
    return Push(node);
  }
  plan::IndexSpace& space() { return out_.space; }
  ElementProgram Finish() && { return std::move(out_); }

 private:
  // A stage computes again what the one before it has computed: all of them are one program here.
  struct Hash {
    std::size_t operator()(const Node& n) const {
      uint64_t h = n.bits;
      for (const uint64_t part :
           {static_cast<uint64_t>(n.op), static_cast<uint64_t>(n.opcode), static_cast<uint64_t>(n.operands[0]),
            static_cast<uint64_t>(n.operands[1]), static_cast<uint64_t>(n.operands[2]), static_cast<uint64_t>(n.index)})
        h = (h ^ part) * 0x9e3779b97f4a7c15u;
      return h ^ (h >> 32);
    }
  };
  // The node, or what it is where numbers of elements decide it: which of several arrays has an element, and whether.
  NodeId Decided(Node node) {
    const auto is_constant = [&](NodeId id) { return id != kNoNode && out_.nodes[At(id)].op == NodeOp::kConstant; };
    const auto bits = [&](NodeId id) { return out_.nodes[At(id)].bits; };
    const auto [a, b, c] = node.operands;
    const auto pred = [&](bool is_true) {
      return Push({.op = NodeOp::kConstant, .type = ElementType::kPred, .bits = is_true ? 1u : 0u});
    };
    if (node.op == NodeOp::kCompare && is_constant(a) && is_constant(b) &&
        out_.nodes[At(a)].type == ElementType::kS32) {
      const auto x = static_cast<int32_t>(bits(a)), y = static_cast<int32_t>(bits(b));
      switch (node.direction) {
        case ComparisonDirection::kEq: return pred(x == y);
        case ComparisonDirection::kNe: return pred(x != y);
        case ComparisonDirection::kLt: return pred(x < y);
        case ComparisonDirection::kLe: return pred(x <= y);
        case ComparisonDirection::kGt: return pred(x > y);
        case ComparisonDirection::kGe: return pred(x >= y);
      }
    }
    if (node.op == NodeOp::kHlo && node.type == ElementType::kPred && is_constant(a) && is_constant(b)) {
      if (node.opcode == Opcode::kAnd) return pred((bits(a) & bits(b)) != 0);
      if (node.opcode == Opcode::kOr) return pred((bits(a) | bits(b)) != 0);
    }
    if (node.op == NodeOp::kHlo && node.opcode == Opcode::kClamp && node.type == ElementType::kS32 && is_constant(a) &&
        is_constant(b) && is_constant(c)) {
      const auto number = [&](NodeId id) { return static_cast<int32_t>(bits(id)); };
      const int32_t clamped = std::min(std::max(number(b), number(a)), number(c));
      return Push({.op = NodeOp::kConstant, .type = node.type, .bits = static_cast<uint32_t>(clamped)});
    }
    if (node.op == NodeOp::kHlo && node.opcode == Opcode::kSelect && is_constant(a)) return bits(a) != 0 ? b : c;
    if (node.op == NodeOp::kLoad && is_constant(node.mask)) {
      if (bits(node.mask) == 0) return Push({.op = NodeOp::kConstant, .type = node.type});
      node.mask = kNoNode;
      node.depends = out_.space.Depends(node.index);
    }
    return Push(node);
  }
  NodeId Push(const Node& node) {
    const auto [it, is_new] = known_.try_emplace(node, static_cast<NodeId>(out_.nodes.size()));
    if (is_new) out_.nodes.push_back(node);
    return it->second;
  }

  IndexId Expr(const plan::IndexSpace& from, IndexId id, std::span<const int64_t> inner,
               const std::vector<NodeId>& nodes) {
    plan::IndexSpace& to = out_.space;
    IndexId sum = to.Constant(from.expr(id).constant);
    for (const IndexTerm& t : from.expr(id).terms) {
      const IndexAtom& a = from.atom(t.atom);
      IndexId part = 0;
      switch (a.kind) {
        case IndexAtom::Kind::kIter:
          part = At(a.iter) < rank_ ? to.Iter(a.iter) : to.Constant(inner[At(a.iter) - rank_]);
          break;
        case IndexAtom::Kind::kFloorDiv: part = to.FloorDiv(Expr(from, a.expr, inner, nodes), a.divisor); break;
        case IndexAtom::Kind::kMod: part = to.Mod(Expr(from, a.expr, inner, nodes), a.divisor); break;
        case IndexAtom::Kind::kValue: {
          const Node& value = out_.nodes[At(nodes[At(a.node)])];
          const bool is_number = value.op == NodeOp::kConstant && value.type == ElementType::kS32;
          part = is_number ? to.Constant(static_cast<int32_t>(value.bits))
                           : to.Value(nodes[At(a.node)], a.lo, a.hi, value.depends);
          break;
        }
      }
      sum = to.Add(sum, to.Mul(part, t.coefficient));
    }
    return sum;
  }

  std::size_t rank_;
  ElementProgram out_;
  std::map<std::pair<const ElementProgram*, std::size_t>, NodeId> shared_;
  std::unordered_map<Node, NodeId, Hash> known_;
};

// Masks and conditions on indices are for pieces, and for windows; but not those that each element decides, whose
// dimensions are behind the first `rank`.
bool HasMasks(const ElementProgram& program, std::size_t rank) {
  const uint64_t rows = (uint64_t{1} << rank) - 1;
  return std::ranges::any_of(program.nodes,
                             [&](const Node& n) {
                               return n.mask != kNoNode && ((program.nodes[At(n.mask)].depends & rows) != 0 ||
                                                            (program.nodes[At(n.mask)].depends >> rank) == 0);
                             }) ||
         std::ranges::any_of(program.stores, [](const Store& s) { return s.mask != kNoNode; });
}
// Whether all that is computed fits bytes, or pairs of them, of which a vector has as many lanes.
bool IsNarrow(const ElementProgram& program, int64_t columns) {
  const auto fits = [&](ElementType storage) {
    return StorageBytes(storage) <= 2 && (columns == 2 || columns == 4 || columns == 8) &&
           columns * StorageBytes(storage) <= 8;
  };
  const Lanes lanes(program);
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    const Node& n = program.nodes[i];
    if (n.op == NodeOp::kIndex || IsFloat(n.type) || StorageBytes(n.type) > 4) return false;
    if (n.op == NodeOp::kLoad && !fits(n.storage)) return false;
    if (n.type != ElementType::kPred && n.op != NodeOp::kConstant && lanes.NeedsWide(static_cast<NodeId>(i)))
      return false;
  }
  return std::ranges::all_of(program.stores, [&](const Store& s) { return fits(s.storage); });
}
int NarrowestAccess(const ElementProgram& program) {
  int least = 8;
  for (const Node& n : program.nodes)
    if (n.op == NodeOp::kLoad) least = std::min(least, StorageBytes(n.storage));
  for (const Store& s : program.stores) least = std::min(least, StorageBytes(s.storage));
  return least;
}

// Whether what is loaded of fewer than 4 bytes lies side by side along the innermost dimension of the rows, so that
// vectors of rows take it as it lies.
bool AreRowsSideBySide(const ElementProgram& program, std::size_t row_rank) {
  if (row_rank == 0) return false;
  return std::ranges::all_of(program.nodes, [&](const Node& n) {
    if (n.op != NodeOp::kLoad || StorageBytes(n.storage) >= 4) return true;
    const auto along = program.space.StrideAlong(n.index, static_cast<int>(row_rank) - 1);
    return along.affine && along.stride == 1;
  });
}

// The stages as one program over the rows, with nodes of its own for each element.
std::optional<ElementProgram> UnrolledStages(const plan::ReduceKernel& body) {
  Unroller out(body.row_dims, body.stages[0].program.buffers);
  std::vector<NodeId> params;
  for (const ReduceStage& stage : body.stages) {
    if (stage.scope == ReduceStage::Scope::kRow) {
      out.Add(stage.program, {}, params, false);
      continue;
    }
    std::vector<std::vector<NodeId>> totals;  // a reduction each
    for (const Reduction& r : stage.reductions) {
      const std::vector<NodeId> at = out.Add(r.init, {}, {}, false);
      std::vector<NodeId>& values = totals.emplace_back();
      for (NodeId id : r.init.results) values.push_back(at[At(id)]);
    }
    Dims element(body.element_dims.size(), 0);
    do {
      const std::vector<NodeId> at = out.Add(stage.program, element, params, true);
      for (std::size_t k = 0; k < stage.reductions.size(); ++k) {
        const Reduction& r = stage.reductions[k];
        std::vector<NodeId> arguments = totals[k];
        for (int input : r.inputs) arguments.push_back(at[At(stage.program.results[At(input)])]);
        if (r.combiner.results.empty()) {
          const ElementType type = plan::ComputeType(r.hlo_type);
          totals[k][0] = out.Add({.op = NodeOp::kHlo,
                                  .opcode = Opcode::kAdd,
                                  .type = type,
                                  .storage = type,
                                  .operands = {arguments[0], arguments[1], kNoNode}});
          continue;
        }
        const std::vector<NodeId> combined = out.Add(r.combiner, {}, arguments, false);
        for (std::size_t v = 0; v < totals[k].size(); ++v) totals[k][v] = combined[At(r.combiner.results[v])];
      }
    } while (NextIndex({element.data(), element.size()}, body.element_dims));
    for (const std::vector<NodeId>& values : totals) params.insert(params.end(), values.begin(), values.end());
  }
  ElementProgram unrolled = std::move(out).Finish();
  // What is loaded says where something else is.
  if (HasMasks(unrolled, unrolled.space.dims().size())) return std::nullopt;
  return unrolled;
}

}  // namespace

std::optional<ElementProgram> UnrolledReduction(const plan::ReduceKernel& body, int64_t runs) {
  if (!native::HasNativeCode()) return std::nullopt;
  const int64_t elements = SaturatingProduct(body.element_dims), rows = SaturatingProduct(body.row_dims);
  const bool reads_again =
      rows >= kFewRows && std::ranges::count(body.stages, ReduceStage::Scope::kElement, &ReduceStage::scope) > 1;
  const auto is_extremum = [](const Reduction& r) {
    return r.kind == Reduction::Kind::kMax || r.kind == Reduction::Kind::kMin || FindArgExtremum(r) != nullptr;
  };
  const bool is_of_turn =
      runs >= kManyTurns && rows <= kMostOfTurn && std::ranges::all_of(body.stages, [&](const ReduceStage& stage) {
        return std::ranges::all_of(stage.reductions, is_extremum);
      });
  const int64_t most = reads_again ? kMostUnrolledTwice : is_of_turn ? kMostUnrolledOfTurn : kMostUnrolled;
  if (elements < 1 || elements > most || (is_of_turn && rows * elements > kMostOfTurn) || rows == 0 ||
      rows == INT64_MAX || (rows < kFewRows && runs <= 1))
    return std::nullopt;
  std::size_t nodes = 0;
  for (const ReduceStage& stage : body.stages) {
    const bool is_element = stage.scope == ReduceStage::Scope::kElement;
    if (HasMasks(stage.program, body.row_dims.size())) return std::nullopt;
    // Narrow numbers alone are reduced in lanes of their own width, but not with numbers of elements beside them.
    const bool is_place =
        std::ranges::all_of(stage.reductions, [](const Reduction& r) { return FindArgExtremum(r) != nullptr; });
    if (const int width = NarrowestAccess(stage.program);
        is_element && width < 4 && !FitsWord(body.element_dims, width) &&
        !(is_place && AreRowsSideBySide(stage.program, body.row_dims.size())))
      return std::nullopt;
    std::size_t each = stage.program.nodes.size();
    for (const Reduction& r : stage.reductions) {
      // The sums of a convolution are told by their kind alone: those of one element have no order.
      if (r.combiner.results.size() != r.inputs.size() && !(r.kind == Reduction::Kind::kSum && elements == 1))
        return std::nullopt;
      each += r.combiner.nodes.size();
    }
    nodes += each * static_cast<std::size_t>(is_element ? elements : 1);
  }
  if (nodes > kMostUnrolledNodes) return std::nullopt;
  return UnrolledStages(body);
}

std::optional<ElementProgram> UnrolledSum(const plan::ReduceKernel& body, int64_t most) {
  const int64_t elements = SaturatingProduct(body.element_dims);
  if (body.stages.size() != 2 || elements < 1 || elements > most || SaturatingProduct(body.row_dims) == 0)
    return std::nullopt;
  const ReduceStage &sum = body.stages[0], &rest = body.stages[1];
  if (sum.scope != ReduceStage::Scope::kElement || rest.scope != ReduceStage::Scope::kRow ||
      sum.reductions.size() != 1 || sum.reductions[0].kind != Reduction::Kind::kSum ||
      sum.reductions[0].combiner.results.size() != 1 || sum.reductions[0].inputs.size() != 1)
    return std::nullopt;
  const std::size_t nodes = sum.program.nodes.size() * At(elements);
  const Node& value = sum.program.nodes[At(sum.program.results[At(sum.reductions[0].inputs[0])])];
  if (nodes > kMostUnrolledNodes || value.op != NodeOp::kLoad || HasMasks(sum.program, body.row_dims.size()))
    return std::nullopt;
  if (!sum.program.space.HasValue(value.index)) return std::nullopt;
  return UnrolledStages(body);
}

std::optional<ElementProgram> UnrolledProduct(const plan::DotKernel& dot, int64_t runs) {
  const bool is_of_vectors = dot.m == 1 || dot.n == 1;
  const ElementType type = dot.accumulate_type;
  // Of computed vectors a number each: sums of several are fused operations where they are computed.
  const bool is_computed = dot.computes_lhs() || dot.computes_rhs();
  const bool is_over_result = (!dot.computes_rhs() || dot.m == 1) && (!dot.computes_lhs() || dot.n == 1);
  if (is_computed && (dot.k != 1 || !is_over_result)) return std::nullopt;
  // Integers are loaded as what they are added up in, or not at all.
  const bool is_integer = IsIntegral(type) && plan::ComputeType(dot.lhs_type) == type &&
                          plan::ComputeType(dot.rhs_type) == type && !is_computed;
  const bool is_float = IsFloat(type) && dot.lhs_type == type && dot.rhs_type == type;
  if (!native::HasNativeCode() || dot.k < 1 || !(is_float || is_integer)) return std::nullopt;
  Dims dims = dot.batch;
  dims.push_back(dot.m);
  dims.push_back(dot.n);
  const int64_t points = SaturatingProduct(dims);
  // A number each has no rows or columns to go along but those of the batches, where vectors do not lie side by side.
  const bool is_side_by_side = dot.lhs_k_stride == 1 && dot.rhs_k_stride == 1;
  const bool is_of_numbers =
      dot.m == 1 && dot.n == 1 && dot.k <= kMostUnrolled && points >= kFewRows && !is_side_by_side;
  // Products of a column by a row of few elements are rows of few elements.
  const bool is_narrow_outer = is_float && dot.k == 1 && dot.n <= native::kMaxInterleaved && points >= kFewProducts;
  const bool is_many = ((is_of_vectors || is_integer) && dot.k <= native::kMaxInterleaved && points >= kFewProducts) ||
                       is_of_numbers || is_narrow_outer;
  const bool is_of_loop =
      runs >= kRunsOfLoop && dot.k <= kTinyDepth && points >= 1 && points <= kProductsOfLoop / dot.k && !is_computed;
  if ((!is_many && !is_of_loop) || points == INT64_MAX || dot.epilogue.space.dims() != dims) return std::nullopt;
  for (const ElementProgram* operand : {&dot.lhs_program, &dot.rhs_program})
    if (!operand->results.empty() && operand->space.dims() != dims) return std::nullopt;
  Unroller out(dims, dot.epilogue.buffers);
  plan::IndexSpace& space = out.space();
  const int rank = static_cast<int>(dims.size());
  const auto load = [&](int binding, ElementType storage, const Dims& batch_strides, int64_t offset, int side,
                        int64_t side_stride) {
    IndexId at = space.AddConstant(space.Mul(space.Iter(side), side_stride), offset);
    for (int b = 0; b < rank - 2; ++b) at = space.Add(at, space.Mul(space.Iter(b), batch_strides[At(b)]));
    return out.Add({.op = NodeOp::kLoad, .type = type, .storage = storage, .buffer = binding, .index = at});
  };
  const auto combine = [&](Opcode op, NodeId a, NodeId b) {
    return out.Add({.op = NodeOp::kHlo, .opcode = op, .type = type, .storage = type, .operands = {a, b, kNoNode}});
  };
  // Its dimensions are those of the result, as the depth is one step.
  const auto compute = [&](const ElementProgram& program) {
    return out.Add(program, {}, {}, false)[At(program.results[0])];
  };
  // The sums of the other ways begin with zero: a product of -0 is +0.
  const bool begins_with_zero = is_computed || is_of_numbers || (is_narrow_outer && !is_of_vectors);
  NodeId sum = begins_with_zero ? out.Add({.op = NodeOp::kConstant, .type = type}) : kNoNode;
  for (int64_t k = 0; k < dot.k; ++k) {
    const NodeId x = dot.computes_lhs() ? compute(dot.lhs_program)
                                        : load(dot.lhs_binding, dot.lhs_type, dot.lhs_batch_strides,
                                               dot.lhs_offset + k * dot.lhs_k_stride, rank - 2, dot.lhs_m_stride);
    const NodeId y = dot.computes_rhs() ? compute(dot.rhs_program)
                                        : load(dot.rhs_binding, dot.rhs_type, dot.rhs_batch_strides,
                                               dot.rhs_offset + k * dot.rhs_k_stride, rank - 1, dot.rhs_n_stride);
    const NodeId product = combine(Opcode::kMultiply, x, y);
    sum = sum == kNoNode ? product : combine(Opcode::kAdd, sum, product);
  }
  out.Add(dot.epilogue, {}, std::span<const NodeId>(&sum, 1), false);
  return std::move(out).Finish();
}

std::optional<ElementProgram> UnrolledRows(const ElementProgram& program) {
  const Dims& dims = program.space.dims();
  if (!native::HasNativeCode() || dims.size() < 2 || !program.results.empty() || program.stores.empty() ||
      HasMasks(program, program.space.dims().size()))
    return std::nullopt;
  // Several dimensions of which a row has few elements in all are one row.
  std::size_t first = dims.size() - 1;
  int64_t columns = dims.back();
  for (; first > 1 && columns * dims[first - 1] <= native::kMaxInterleaved; --first) columns *= dims[first - 1];
  const bool is_of_one = first + 1 == dims.size();
  const Dims inner(dims.begin() + static_cast<std::ptrdiff_t>(first), dims.end());
  const int row = static_cast<int>(first) - 1;
  const int64_t rows = dims[At(row)];
  const bool is_narrow =
      native::HasByteShuffles() && columns <= native::kMaxInterleavedBytes && is_of_one && IsNarrow(program, columns);
  const bool is_wide = columns <= native::kMaxInterleaved && NarrowestAccess(program) >= 4;
  if (columns < 2 || rows < kFewRows || (!is_narrow && !is_wide)) return std::nullopt;
  if (program.nodes.size() * static_cast<std::size_t>(columns) > kMostUnrolledNodes) return std::nullopt;
  // Along the elements of a row and from one row to the next, where these are two strides.
  struct Strides {
    int64_t along = 0, across = 0;
  };
  const auto strides_of = [&](plan::IndexId index) -> std::optional<Strides> {
    const auto along = program.space.StrideAlong(index, static_cast<int>(dims.size()) - 1);
    const auto across = program.space.StrideAlong(index, row);
    if (!along.affine || !across.affine) return std::nullopt;
    int64_t stride = along.stride;
    for (std::size_t d = dims.size(); --d > first;) {
      stride *= dims[d];
      const auto next = program.space.StrideAlong(index, static_cast<int>(d) - 1);
      if (!next.affine || next.stride != stride) return std::nullopt;
    }
    return Strides{along.stride, across.stride};
  };
  for (const Store& s : program.stores) {
    const std::optional<Strides> strides = strides_of(s.index);
    if (!strides || strides->along != 1 || strides->across != columns) return std::nullopt;
  }
  const auto is_far = [&](const Node& n) {
    if (n.op != NodeOp::kLoad) return false;
    const std::optional<Strides> strides = strides_of(n.index);
    if (!strides) return true;
    if (strides->along == 1 && strides->across == columns) return false;
    if (is_narrow) return true;
    return !AreShortRowsClose(StorageBytes(n.storage), columns, strides->across, strides->along);
  };
  const bool computes = std::ranges::any_of(program.nodes, [](const Node& n) { return n.op == NodeOp::kHlo; });
  if (!computes || std::ranges::none_of(program.nodes, is_far)) return std::nullopt;
  Unroller out(std::span<const int64_t>(dims.data(), first), program.buffers);
  Dims element(inner.size(), 0);
  do { out.Add(program, element, {}, true); } while (NextIndex({element.data(), element.size()}, inner));
  return std::move(out).Finish();
}

}  // namespace krafla::cpu
