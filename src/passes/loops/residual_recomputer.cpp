// SPDX-License-Identifier: Apache-2.0
// A loop over layers stores for its gradient, a row of an array each turn, what the loop of the backward pass reads
// again: of attention the softmax, n x n elements a head and layer. As product_recomputer does within one computation,
// the backward loop computes it again from what is stored of queries and keys.
//
// Row r of every array that a loop of n turns puts a row in each turn, n rows in all, is of turn r. So a value of turn
// r is made anew of the rows r of what it was made of, wherever a loop that comes after reads row r, be it in whatever
// order. A start index out of range means the same row of all these arrays.
//
// All that is read of the products' values is made again or nothing: what is reduced of them, the largest score and the
// sum of a row, must fit them. The bits are those that were stored.
//
// So are large arrays whose elements are made of elements of other stored arrays in a few steps, as what a gelu stores
// beside its operand: each by itself. The loop that reads them reads less memory for it.
#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "passes/loops/loop.h"
#include "passes/passes.h"
#include "passes/simplify/large_product.h"
#include "passes/simplify/scalar_facts.h"

namespace krafla {
namespace {

// Of smaller rows the memory is little, and a turn is bound by its launches.
constexpr int64_t kLeastElementsMadeAgain = int64_t{1} << 20;

// A loop's body, of which some values are put into rows.
class Producer {
 public:
  Producer(const Loop& loop, int64_t turns, std::size_t turn) : loop_(loop) {
    for (std::size_t n = 0; n < loop.size(); ++n)
      if (Instruction* row = RowOf(n, turns, turn)) rows_[n] = row, saved_[row] = n;
  }

  bool IsSaved(std::size_t n) const { return rows_.contains(n); }
  Instruction* Row(std::size_t n) const { return rows_.at(n); }
  int64_t RowBytes(std::size_t n) const { return rows_.at(n)->shape().byte_size(); }
  const Loop& loop() const { return loop_; }

  // Finds what is made of large products; false: of none, or nothing is reduced.
  Result<bool> FindValues() {
    if (rows_.empty()) return false;
    KRAFLA_ASSIGN(const LargeProducts products, FindLargeProducts(loop_.body(), kLeastRecomputed));
    const std::unordered_set<const Instruction*> dots(products.dots.begin(), products.dots.end());
    bool is_reduced = false;
    for (const Instruction* i : products.order) {
      const auto is_value = [&](const Instruction* o) { return values_.contains(o); };
      const bool depends = std::ranges::any_of(i->operands(), is_value);
      const bool is_own = dots.contains(i) && !depends;
      if (is_own || (StaysAmongValues(*i) && depends)) values_.insert(i);
      is_reduced = is_reduced || (i->opcode() == Opcode::kReduce && depends);
      const auto is_there = [&](const Instruction* o) { return IsLeaf(*o) || available_.contains(o); };
      const bool may_be_made =
          is_own || StaysAmongValues(*i) || i->opcode() == Opcode::kConstant || i->opcode() == Opcode::kIota;
      if (may_be_made && std::ranges::all_of(i->operands(), is_there)) available_.insert(i);
    }
    return is_reduced;
  }
  // Finds rows that are made of others element by element; false: there are none.
  Result<bool> FindElements() {
    if (std::ranges::none_of(rows_, [](const auto& row) { return IsLargeRow(*row.second); })) return false;
    KRAFLA_TRY(loop_.body().SortTopologically());
    // What is made of other rows comes after them, so that these stay.
    for (const auto& i : loop_.body().instructions())
      if (saved_.contains(i.get()) && IsLargeRow(*i) && IsMadeOfRows(*i)) {
        values_.insert(i.get());
        available_.insert(i.get());
      }
    return !values_.empty();
  }
  bool IsValue(const Instruction& i) const { return values_.contains(&i); }
  bool IsAvailable(const Instruction& i) const { return available_.contains(&i); }

  // What nothing is made of anew: rows of other arrays, and what every turn is given.
  bool IsLeaf(const Instruction& i) const { return GivenAt(i).has_value() || SavedAt(i).has_value(); }
  // The state element that every turn is given as it was before the loop.
  std::optional<std::size_t> GivenAt(const Instruction& i) const {
    const std::optional<std::size_t> n = Loop::ElementOf(i);
    return n && loop_.IsInvariant(*n) && loop_.Initial(*n) != nullptr ? n : std::nullopt;
  }
  // The array that the value is put into, unless it is made of a large product.
  std::optional<std::size_t> SavedAt(const Instruction& i) const {
    const auto found = saved_.find(&i);
    return found != saved_.end() && !IsValue(i) ? std::optional(found->second) : std::nullopt;
  }

 private:
  static bool IsLargeRow(const Instruction& row) { return row.shape().byte_size() >= kLeastElementsMadeAgain; }
  // Whether few elementwise instructions make the value of rows that stay, two of its size at the most.
  bool IsMadeOfRows(const Instruction& value) const {
    constexpr std::size_t kMostInstructions = 32;
    constexpr int kMostCostly = 2;
    std::unordered_set<const Instruction*> seen{&value};
    std::vector<const Instruction*> open{&value};
    int costly = 0;
    int64_t bytes = 0;
    while (!open.empty()) {
      const Instruction& i = *open.back();
      open.pop_back();
      if (&i != &value && IsLeaf(i)) {
        bytes += i.shape().byte_size();
        continue;
      }
      const bool is_moved = IsOneOf(i.opcode(), {Opcode::kBroadcast, Opcode::kReshape});
      const bool is_number = i.opcode() == Opcode::kConstant && i.shape().element_count() == 1;
      if (!is_number && (!IsStatic(i) || !i.shape().IsArray() || !i.control_predecessors().empty())) return false;
      if (!is_number && !is_moved && !IsElementwise(i.opcode())) return false;
      const bool is_large = 4 * i.shape().element_count() > value.shape().element_count();
      if (is_large && IsCostly(i.opcode()) && ++costly > kMostCostly) return false;
      for (const Instruction* o : i.operands())
        if (seen.insert(o).second) open.push_back(o);
      if (seen.size() > kMostInstructions) return false;
    }
    return 2 * bytes <= 5 * value.shape().byte_size();
  }
  // What takes as long as reading an element or two.
  static bool IsCostly(Opcode opcode) {
    return IsElementwise(opcode) &&
           !IsOneOf(opcode, {Opcode::kAdd, Opcode::kSubtract, Opcode::kMultiply, Opcode::kNegate, Opcode::kAbs,
                             Opcode::kMaximum, Opcode::kMinimum, Opcode::kCompare, Opcode::kSelect, Opcode::kAnd,
                             Opcode::kOr, Opcode::kNot, Opcode::kConvert, Opcode::kClamp});
  }

  // What becomes row `turn` of element `n`, without the dimension of the rows; null where it is no such array.
  Instruction* RowOf(std::size_t n, int64_t turns, std::size_t turn) const {
    const Shape& shape = loop_.instruction()->shape().tuple_elements()[n];
    if (!shape.IsArray() || shape.IsDynamic() || shape.rank() < 1 || shape.dim(0) != turns) return nullptr;
    const Instruction* put = loop_.Next(n);
    if (put->opcode() != Opcode::kDynamicUpdateSlice || Loop::ElementOf(*put->operand(0)) != n) return nullptr;
    if (!IsRowAt(*put, 2, put->operand(1)->shape().dims()) || Loop::ElementOf(*put->operand(2)) != turn) return nullptr;
    Instruction* row = put->operand(1);
    return row->opcode() == Opcode::kReshape ? row->operand(0) : row;
  }

  Loop loop_;
  std::map<std::size_t, Instruction*> rows_;
  std::unordered_map<const Instruction*, std::size_t> saved_;
  std::unordered_set<const Instruction*> values_, available_;
};

// A row that the body of a later loop reads of what the producer has stored.
struct RowRead {
  Instruction* slice = nullptr;
  std::size_t saved = 0;  // the producer's element
};

class Consumer {
 public:
  Consumer(const Producer& producer, Loop loop) : producer_(producer), loop_(std::move(loop)) {}

  // The reads of values of products; none where one of them cannot be made again, or all of them are small. With
  // `each`: those of the arrays of which all reads can be; none where these are small.
  std::vector<RowRead> Reads(bool each) const {
    std::vector<RowRead> out;
    bool is_large = false;
    int64_t bytes = 0;
    for (std::size_t m = 0; m < loop_.size(); ++m) {
      const std::optional<std::size_t> n = SavedIn(m);
      if (!n || !producer_.IsValue(*producer_.Row(*n))) continue;
      if (!producer_.IsAvailable(*producer_.Row(*n))) return {};
      const std::optional<std::vector<RowRead>> reads = ReadsOf(m, *n);
      if (!reads && !each) return {};
      if (!reads || (each && !IsOnlyReader(*n))) continue;
      is_large = is_large || producer_.RowBytes(*n) >= kLeastRecomputed;
      bytes += loop_.Initial(m)->shape().byte_size();
      out.insert(out.end(), reads->begin(), reads->end());
    }
    return is_large || (each && bytes >= kLeastRecomputed) ? out : std::vector<RowRead>();
  }

  void MakeAgain(std::span<const RowRead> reads, std::vector<Instruction*>& gone) {
    const std::vector<Instruction*> leaves = Leaves(reads);
    std::vector<std::size_t> all;
    for (std::size_t m = 0; m < loop_.size(); ++m) all.push_back(m);
    std::vector<Instruction*> given;
    for (const Instruction* leaf : leaves) given.push_back(GivenFor(*leaf));
    const Loop::Rebuilt rebuilt = loop_.Rebuild(all, given);
    for (std::size_t l = 0; l < leaves.size(); ++l) arrays_[leaves[l]] = rebuilt.added[l];
    gone.insert(gone.end(), rebuilt.gone.begin(), rebuilt.gone.end());
    for (const RowRead& read : reads) {
      Instruction* row = Again(producer_.Row(read.saved), *read.slice);
      Replace(read.slice, Rewriter(*read.slice).Reshape(row, read.slice->shape().dims().span()));
    }
  }

 private:
  // The reads of element `m`, row by row; nothing where it is read in another way.
  std::optional<std::vector<RowRead>> ReadsOf(std::size_t m, std::size_t saved) const {
    std::vector<RowRead> out;
    for (Instruction* element : loop_.body().parameters()[0]->users()) {
      if (Loop::ElementOf(*element) != m) continue;
      for (Instruction* slice : element->users()) {
        if (slice == loop_.body().root()) continue;
        if (slice->opcode() != Opcode::kDynamicSlice ||
            !IsRowAt(*slice, 1, slice->attr<DynamicSliceAttributes>().slice_sizes))
          return std::nullopt;
        out.push_back({slice, saved});
      }
    }
    return out;
  }
  // Whether nothing but this loop is given what the producer's element has become.
  bool IsOnlyReader(std::size_t n) const {
    return std::ranges::all_of(producer_.loop().instruction()->users(), [&](const Instruction* element) {
      return element->attr<TupleIndexAttributes>().index != static_cast<int64_t>(n) ||
             std::ranges::all_of(element->users(),
                                 [&](const Instruction* user) { return user == loop_.instruction()->operand(0); });
    });
  }
  // The producer's element that element `m` is, which the body passes on.
  std::optional<std::size_t> SavedIn(std::size_t m) const {
    const Instruction* initial = loop_.Initial(m);
    if (initial == nullptr || initial->opcode() != Opcode::kGetTupleElement || !loop_.IsInvariant(m) ||
        initial->operand(0) != producer_.loop().instruction())
      return std::nullopt;
    const auto n = static_cast<std::size_t>(initial->attr<TupleIndexAttributes>().index);
    return producer_.IsSaved(n) ? std::optional(n) : std::nullopt;
  }

  // What the values are made of, in the producer's body.
  std::vector<Instruction*> Leaves(std::span<const RowRead> reads) const {
    std::vector<Instruction*> out, open;
    std::unordered_set<const Instruction*> seen;
    for (const RowRead& read : reads) open.push_back(producer_.Row(read.saved));
    while (!open.empty()) {
      Instruction* i = open.back();
      open.pop_back();
      if (!seen.insert(i).second) continue;
      if (producer_.IsLeaf(*i)) out.push_back(i);
      else open.insert(open.end(), i->operands().begin(), i->operands().end());
    }
    return out;
  }
  // What lies before the loops of a leaf: all rows, or the value that every turn is given.
  Instruction* GivenFor(const Instruction& leaf) const {
    if (const std::optional<std::size_t> n = producer_.GivenAt(leaf)) return producer_.loop().Initial(*n);
    Instruction* producer = producer_.loop().instruction();
    return Rewriter(*producer).Element(producer, static_cast<int64_t>(*producer_.SavedAt(leaf)));
  }
  Instruction* LeafAt(const Instruction& leaf, const Instruction& slice) {
    Instruction* array = arrays_.at(&leaf);
    if (producer_.GivenAt(leaf)) return array;
    Rewriter rewrite(slice);
    Dims sizes = array->shape().dims();
    sizes[0] = 1;
    std::vector<Instruction*> operands{array, slice.operand(1)};
    Instruction* zero = rewrite.Constant(ScalarZero(slice.operand(1)->shape().element_type()));
    operands.resize(1 + sizes.size(), zero);
    Instruction* row = rewrite.Add(Opcode::kDynamicSlice, ArrayShape(array->shape().element_type(), sizes),
                                   std::move(operands), DynamicSliceAttributes{sizes});
    return rewrite.Reshape(row, leaf.shape().dims().span());
  }

  // The value of the turn whose row the slice reads.
  Instruction* Again(Instruction* value, const Instruction& slice) {
    auto& copies = copies_[slice.operand(1)];
    std::vector<Instruction*> open{value};
    while (!open.empty()) {
      Instruction* i = open.back();
      if (copies.contains(i)) {
        open.pop_back();
        continue;
      }
      if (producer_.IsLeaf(*i)) {
        copies[i] = LeafAt(*i, slice);
        continue;
      }
      std::vector<Instruction*> operands;
      for (Instruction* o : i->operands())
        if (const auto copy = copies.find(o); copy != copies.end()) operands.push_back(copy->second);
        else open.push_back(o);
      if (operands.size() == i->operand_count()) copies[i] = loop_.body().AddClone(*i, std::move(operands));
    }
    return copies.at(value);
  }

  const Producer& producer_;
  Loop loop_;
  std::unordered_map<const Instruction*, Instruction*> arrays_;  // the body's, by leaf
  // By the number of the row that is read.
  std::unordered_map<const Instruction*, std::unordered_map<const Instruction*, Instruction*>> copies_;
};

// `each`: of the arrays that are made of others element by element, and not of products' values.
Result<bool> RecomputeResiduals(Module& module, bool each) {
  SideEffects effects;
  return RewriteLoops(module, effects, [&](Instruction* i, std::vector<Instruction*>& gone) -> Result<bool> {
    const std::optional<Loop> first = std::ranges::contains(gone, i) ? std::nullopt : Loop::Of(i);
    const std::optional<int64_t> turns = first && first->ResultTakenApart() ? TripCount(*i) : std::nullopt;
    const std::optional<std::size_t> turn = turns ? TurnNumber(*i) : std::nullopt;
    if (!turn) return false;
    Producer producer(*first, *turns, *turn);
    KRAFLA_ASSIGN(const bool has_values, each ? producer.FindElements() : producer.FindValues());
    if (!has_values) return false;
    bool changed = false;
    for (Instruction* next : LoopsOf(*i->parent())) {
      if (next == i || std::ranges::contains(gone, next)) continue;
      const std::optional<Loop> loop = Loop::Of(next);
      if (!loop || !loop->ResultTakenApart() || loop->Initial(0) == nullptr) continue;
      RemoveDead(loop->body(), effects);
      Consumer consumer(producer, *loop);
      const std::vector<RowRead> reads = consumer.Reads(each);
      if (reads.empty()) continue;
      consumer.MakeAgain(reads, gone);
      RemoveDead(loop->body(), effects);
      KRAFLA_TRY(loop->body().SortTopologically());
      changed = true;
    }
    return changed;
  });
}

}  // namespace

Result<bool> ResidualRecomputer(Module& module, const PassOptions&) {
  if (module.CountOf(Opcode::kDynamicUpdateSlice) == 0) return false;
  KRAFLA_ASSIGN(const bool products, RecomputeResiduals(module, false));
  KRAFLA_ASSIGN(const bool elements, RecomputeResiduals(module, true));
  return products || elements;
}

}  // namespace krafla
