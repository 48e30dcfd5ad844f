// SPDX-License-Identifier: Apache-2.0
// Scores of attention, and their gradients, in one order of dimensions: those of the batch, then the rows of a head of
// keys, head by head of queries, then the columns. Heads that share keys come from jax.nn.dot_product_attention in
// front of all others, and in another order where the gradient is multiplied, so that two arrays of n x n elements
// would be transposed; and a product that sums over the rows of all those heads finds them in one piece in no such
// array.
//
// What elementwise instructions and transposes connect is written anew in that order. Transposes are left at the ends:
// at products, at the results of reductions, and in the dimension numbers of products that read them.
#include <algorithm>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "ir/dims.h"
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/simplify/large_product.h"

namespace krafla {
namespace {

// Smaller ones stay in the processor's caches, as with row groups (plan::RowGroupOptions::least_saved).
constexpr int64_t kLeastOrdered = int64_t{4} << 20;
constexpr int64_t kMostVisits = 8;  // of an instruction, on average

class ScoreRegion {
 public:
  explicit ScoreRegion(Instruction& scores) : scores_(scores) {}

  // Whether the order is another one, and products sum over rows. `rewritten`: what nobody needs any more. `budget`:
  // instructions that may be looked at, less those that were.
  bool Find(const std::unordered_set<const Instruction*>& rewritten, int64_t& budget) {
    Dims own(static_cast<std::size_t>(scores_.shape().rank()), 0);
    std::iota(own.begin(), own.end(), 0);
    if (!Connect(own, budget)) return false;
    for (const auto& [i, order] : orders_)
      if (rewritten.contains(i)) return false;
    std::optional<int64_t> columns;
    for (const auto& [i, order] : orders_) {
      if (i->opcode() != Opcode::kReduce) continue;
      const Dims& all = orders_.at(i->operand(0));
      const int64_t reduced = all[At(i->attr<DimensionsAttributes>().dimensions[0])];
      if (columns.value_or(reduced) != reduced) return false;
      columns = reduced;
    }
    const int64_t batches = scores_.attr<DotAttributes>().lhs_batch.ssize();
    if (!columns || *columns < batches) return false;
    Dims rows;
    for (int64_t d = 0; d < scores_.shape().rank(); ++d)
      if (d >= batches && d != *columns) rows.push_back(d);
    std::ranges::stable_sort(rows, {}, [&](int64_t d) { return scores_.shape().dim(d); });
    for (int64_t d = 0; d < batches; ++d) wanted_.push_back(d);
    for (int64_t d : rows) wanted_.push_back(d);
    wanted_.push_back(*columns);
    return SumsOver(rows) && std::ranges::any_of(orders_, [&](const auto& entry) {
             return IsWhole(entry.second) && entry.first->opcode() != Opcode::kTranspose && entry.second != wanted_;
           });
  }

  // `order`: of the computation's instructions, operands first.
  Result<> Rewrite(std::span<Instruction* const> order, std::unordered_set<const Instruction*>& rewritten) {
    std::vector<Instruction*> members;
    for (Instruction* i : order)
      if (orders_.contains(i)) members.push_back(i);
    for (Instruction* i : members) {
      KRAFLA_ASSIGN(made_[i], Ordered(*i));
      rewritten.insert(i);
    }
    for (Instruction* i : members) {
      const std::vector<Instruction*> users(i->users().begin(), i->users().end());
      for (Instruction* user : users)
        if (!orders_.contains(user)) KRAFLA_TRY(Give(*i, *user));
      if (i->IsRoot()) i->parent()->set_root(InOldOrder(*i));
    }
    return {};
  }

 private:
  static std::size_t At(int64_t d) { return static_cast<std::size_t>(d); }
  static int64_t PlaceIn(const Dims& order, int64_t d) { return std::ranges::find(order, d) - order.begin(); }
  static bool IsOwnReduce(const Instruction& reduce) {
    return reduce.operand_count() == 2 && reduce.shape().IsArray() && IsStatic(reduce) &&
           reduce.attr<DimensionsAttributes>().dimensions.size() == 1;
  }
  // A value of all dimensions, not one of the rows alone.
  bool IsWhole(const Dims& order) const { return order.ssize() == scores_.shape().rank(); }

  // Gives an instruction its order: by place, the dimension of the scores. False: it has another one.
  bool Take(Instruction* i, const Dims& order, std::vector<Instruction*>& open) {
    const auto [at, is_new] = orders_.try_emplace(i, order);
    if (is_new) open.push_back(i);
    return at->second == order;
  }
  bool TakeUser(const Instruction& i, Instruction* user, const Dims& order, std::vector<Instruction*>& open) {
    if (user->opcode() == Opcode::kReduce && IsWhole(order)) {
      if (!IsOwnReduce(*user) || user->operand(0) != &i) return false;
      Dims rows = order;
      rows.erase(rows.begin() + user->attr<DimensionsAttributes>().dimensions[0]);
      return Take(user, rows, open);
    }
    if (user->opcode() == Opcode::kReshape && !IsWhole(order)) {
      const std::optional<Dims> left = WithoutUnits(i, *user, order);
      return !left || Take(user, *left, open);
    }
    if (!KeepsElements(*user) || user->shape().rank() != order.ssize()) return true;
    if (user->opcode() != Opcode::kTranspose) return Take(user, order, open);
    return Take(user, Permuted(order, user->attr<DimensionsAttributes>().dimensions), open);
  }
  // The order of a reshape that leaves dimensions of one element out; nothing where it does more.
  static std::optional<Dims> WithoutUnits(const Instruction& i, const Instruction& reshape, const Dims& order) {
    if (!IsStatic(reshape)) return std::nullopt;
    Dims out;
    int64_t at = 0;
    for (int64_t d = 0; d < i.shape().rank(); ++d) {
      if (at < reshape.shape().rank() && i.shape().dim(d) == reshape.shape().dim(at)) {
        out.push_back(order[At(d)]);
        ++at;
      } else if (i.shape().dim(d) != 1) {
        return std::nullopt;
      }
    }
    return at == reshape.shape().rank() ? std::optional(out) : std::nullopt;
  }
  // What elementwise instructions and transposes connect with the scores, and with what is reduced of them.
  bool Connect(const Dims& own, int64_t& budget) {
    std::vector<Instruction*> open;
    for (Instruction* user : scores_.users())
      if (user->opcode() != Opcode::kReduce && !TakeUser(scores_, user, own, open)) return false;
    while (!open.empty()) {
      Instruction* i = open.back();
      open.pop_back();
      if (--budget < 0) return false;
      const Dims order = orders_.at(i);
      for (Instruction* user : i->users())
        if (!TakeUser(*i, user, order, open)) return false;
      if (!KeepsElements(*i)) continue;
      for (Instruction* o : i->operands()) {
        if (!KeepsElements(*o) || o->shape().rank() != order.ssize()) continue;
        const bool turns = i->opcode() == Opcode::kTranspose;
        if (!Take(o, turns ? Permuted(order, Inverse(i->attr<DimensionsAttributes>().dimensions)) : order, open))
          return false;
      }
    }
    return true;
  }

  // Whether a product that reads one of the values contracts some of the rows.
  bool SumsOver(const Dims& rows) const {
    for (const auto& [i, order] : orders_) {
      for (const Instruction* user : i->users()) {
        if (user->opcode() != Opcode::kDot || !IsWhole(order)) continue;
        const auto& a = user->attr<DotAttributes>();
        for (int64_t d : user->operand(0) == i ? a.lhs_contracting : a.rhs_contracting)
          if (Contains(rows, order[At(d)])) return true;
      }
    }
    return false;
  }

  // From an order to the wanted one, as a transpose has it, and back.
  Dims FromOrder(const Dims& order) const {
    Dims out;
    for (int64_t d : wanted_)
      if (Contains(order, d)) out.push_back(PlaceIn(order, d));
    return out;
  }
  Instruction* InOldOrder(const Instruction& i) {
    return Rewriter(i).Transpose(made_.at(&i), Inverse(FromOrder(orders_.at(&i))));
  }

  Result<Instruction*> Ordered(Instruction& i) {
    Rewriter rewrite(i);
    if (i.opcode() == Opcode::kReduce) {
      DimensionsAttributes last;
      last.dimensions = {scores_.shape().rank() - 1};
      return rewrite.Infer(Opcode::kReduce, {made_.at(i.operand(0)), i.operand(1)}, last, {i.called(0)});
    }
    if (i.opcode() == Opcode::kReshape)
      return rewrite.Reshape(made_.at(i.operand(0)), Permuted(i.shape().dims(), FromOrder(orders_.at(&i))));
    const Dims& order = orders_.at(&i);
    const auto operand = [&](Instruction* o) {
      const auto found = made_.find(o);
      if (found != made_.end()) return found->second;
      const bool turns = i.opcode() == Opcode::kTranspose;
      if (o->shape().rank() == 0) return o;
      return rewrite.Transpose(
          o, FromOrder(turns ? Permuted(order, Inverse(i.attr<DimensionsAttributes>().dimensions)) : order));
    };
    if (i.opcode() == Opcode::kTranspose) return operand(i.operand(0));
    std::vector<Instruction*> operands;
    for (Instruction* o : i.operands()) operands.push_back(operand(o));
    return rewrite.Add(i.opcode(), ArrayShape(i.shape().element_type(), Permuted(i.shape().dims(), FromOrder(order))),
                       std::move(operands), i.attributes());
  }

  // A user outside reads the value in the new order.
  Result<> Give(Instruction& i, Instruction& user) {
    const bool is_one = user.PlacesOf(&i).size() == 1;
    if (user.opcode() == Opcode::kDot && is_one && IsWhole(orders_.at(&i))) return GiveDot(i, user);
    Instruction* old = InOldOrder(i);
    for (std::size_t place : user.PlacesOf(&i)) user.ReplaceOperand(place, old);
    return {};
  }
  Result<> GiveDot(Instruction& i, Instruction& dot) {
    Rewriter rewrite(dot);
    DotAttributes a = dot.attr<DotAttributes>();
    const bool is_left = dot.operand(0) == &i;
    Dims& contracting = is_left ? a.lhs_contracting : a.rhs_contracting;
    Dims& batch = is_left ? a.lhs_batch : a.rhs_batch;
    const Dims& order = orders_.at(&i);
    Dims free_before;
    for (int64_t d : FreeDims(i.shape().rank(), contracting, batch)) free_before.push_back(order[At(d)]);
    for (Dims* dims : {&contracting, &batch})
      for (int64_t& d : *dims) d = PlaceIn(wanted_, order[At(d)]);
    Dims free_now;
    for (int64_t d : FreeDims(i.shape().rank(), contracting, batch)) free_now.push_back(wanted_[At(d)]);
    // The free dimensions of this side come behind those of the batch, and behind those of the left side.
    const int64_t rank = dot.shape().rank();
    const int64_t first = is_left ? a.lhs_batch.ssize() : rank - free_now.ssize();
    Dims dims, back(At(rank), 0);
    std::iota(back.begin(), back.end(), 0);
    for (int64_t f = 0; f < free_now.ssize(); ++f) back[At(first + f)] = first + PlaceIn(free_now, free_before[At(f)]);
    const Dims forward = Inverse(back);
    std::vector<Instruction*> operands(dot.operands().begin(), dot.operands().end());
    operands[is_left ? 0 : 1] = made_.at(&i);
    Instruction* made =
        rewrite.Add(Opcode::kDot, ArrayShape(dot.shape().element_type(), Permuted(dot.shape().dims(), forward)),
                    std::move(operands), a);
    Replace(&dot, rewrite.Transpose(made, back));
    return {};
  }

  Instruction& scores_;
  std::unordered_map<const Instruction*, Dims> orders_;
  Dims wanted_;
  std::unordered_map<const Instruction*, Instruction*> made_;
};

}  // namespace

Result<bool> ScoreOrder(Module& module, const PassOptions&) {
  bool changed = false;
  for (Computation* computation : ReachableComputations(module)) {
    KRAFLA_ASSIGN(const LargeProducts products, FindLargeProducts(*computation, kLeastOrdered));
    std::unordered_set<const Instruction*> rewritten;
    // Attention has one or two products in each region. Where many meet in one, each would look at all of it.
    int64_t budget = kMostVisits * std::ssize(products.order);
    for (Instruction* dot : products.dots) {
      ScoreRegion region(*dot);
      if (!region.Find(rewritten, budget)) continue;
      KRAFLA_TRY(region.Rewrite(products.order, rewritten));
      changed = true;
    }
  }
  return changed;
}

}  // namespace krafla
