// SPDX-License-Identifier: Apache-2.0
// The scores of attention are far more than the queries and keys that they are made of, and so is what the softmax
// makes of them. Where a gradient reads them again, behind a product that has already summed them up, they would be
// kept from there to here, n x n elements a head. They are computed again instead, from the operands of their product:
// forward and backward pass are then chains of launches of their own, which run block of rows by block of rows
// (docs/decisions/0017-row-groups.md).
//
// Only of products whose values are reduced, as a softmax does: hidden layers are kept, since to compute those again
// costs a product in six (1.1 of the time of 16384 x 128 by 128 x 512) where nothing as large as n x n is saved.
//
// A product's values are what is made of it without another product. What depends on a product of them comes after. The
// bits are those that are there, as the same instructions compute them from the same operands. What is reduced of them,
// an element a row, could be kept; but where another kernel sums up the same scores in another order, exp(score -
// largest) would not fit the sum of the exponentials. A control edge keeps the copy of a product behind what its first
// reader needs besides: otherwise fusion would have the forward pass compute both.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/simplify/large_product.h"

namespace krafla {
namespace {

constexpr std::size_t kDotsTogether = 64;  // bits of a set

// Up to 64 products of a computation whose instructions are in topological order, a bit each.
class Recomputed {
 public:
  Recomputed(Computation& computation, std::span<Instruction* const> order, std::span<Instruction* const> dots)
      : computation_(computation), order_(order) {
    for (std::size_t d = 0; d < dots.size(); ++d) facts_[dots[d]].values = uint64_t{1} << d;
  }

  bool Run() {
    uint64_t needed = 0, kept = 0, reduced = 0;
    std::vector<std::pair<Instruction*, uint64_t>> readers;
    for (std::size_t place = 0; place < order_.size(); ++place) {
      Instruction* i = order_[place];
      Facts all;
      for (const Instruction* o : i->operands()) {
        const Facts of = FactsOf(o);
        all.values |= of.values, all.after |= of.after | of.summed;
      }
      const uint64_t read = all.values & all.after, own = facts_.contains(i) ? facts_.at(i).values : 0;
      Facts mine{own, all.after, 0, place};
      if (StaysAmongValues(*i)) mine.values |= all.values & ~all.after;
      else mine.summed = all.values & ~all.after;
      if (read != 0) readers.emplace_back(i, read);
      if (i->opcode() == Opcode::kReduce) reduced |= all.values & ~all.after;
      needed |= read;
      // What is a result lies in memory anyway.
      for (const Instruction* o : i->operands())
        if (i->opcode() == Opcode::kTuple && o->shape().IsArray() && o->shape().byte_size() >= kLeastRecomputed)
          kept |= FactsOf(o).values;
      if (i->IsRoot()) kept |= mine.values;
      if (mine.values != 0 || mine.after != 0 || mine.summed != 0) facts_[i] = mine;
    }
    needed &= reduced & ~kept;
    if (needed == 0) return false;
    for (const auto& [reader, values] : readers) {
      if ((values & needed) == 0) continue;
      for (std::size_t o = 0; o < reader->operand_count(); ++o)
        if ((FactsOf(reader->operand(o)).values & values & needed) != 0)
          reader->ReplaceOperand(o, Again(reader->operand(o), needed, *reader));
    }
    return true;
  }

 private:
  struct Facts {
    uint64_t values = 0;  // it is one of these products' values
    uint64_t after = 0;   // it depends on what sums them up
    uint64_t summed = 0;  // it sums them up
    std::size_t place = 0;
  };
  Facts FactsOf(const Instruction* i) const {
    const auto found = facts_.find(i);
    return found == facts_.end() ? Facts{} : found->second;
  }

  // Of what `reader` depends on and comes after the products, the last one that no reader computes for itself.
  Instruction* LastBefore(const Instruction& reader, uint64_t of) const {
    Instruction* out = nullptr;
    std::unordered_set<const Instruction*> seen;
    std::vector<Instruction*> open(reader.operands().begin(), reader.operands().end());
    while (!open.empty()) {
      Instruction* i = open.back();
      open.pop_back();
      const Facts facts = FactsOf(i);
      if (((facts.after | facts.summed) & of) == 0 || !seen.insert(i).second) continue;
      if (StaysAmongValues(*i)) {
        open.insert(open.end(), i->operands().begin(), i->operands().end());
      } else if (out == nullptr || facts.place > FactsOf(out).place) {
        out = i;
      }
    }
    return out;
  }

  // The copy of a value, and of what it is made of as far as that is one of the products' values too.
  Instruction* Again(Instruction* value, uint64_t of, const Instruction& reader) {
    std::vector<Instruction*> open = {value};
    while (!open.empty()) {
      Instruction* i = open.back();
      std::vector<Instruction*> operands;
      bool is_ready = true;
      for (Instruction* o : i->operands()) {
        const bool is_value = (FactsOf(o).values & of) != 0;
        if (is_value && !copies_.contains(o)) open.push_back(o), is_ready = false;
        else operands.push_back(is_value ? copies_.at(o) : o);
      }
      if (!is_ready) continue;
      open.pop_back();
      if (copies_.contains(i)) continue;
      copies_[i] = computation_.AddClone(*i, std::move(operands));
      if (i->opcode() != Opcode::kDot) continue;
      if (Instruction* before = LastBefore(reader, of)) copies_[i]->AddControlPredecessor(before);
    }
    return copies_.at(value);
  }

  Computation& computation_;
  std::span<Instruction* const> order_;
  std::unordered_map<const Instruction*, Facts> facts_;
  std::unordered_map<const Instruction*, Instruction*> copies_;
};

}  // namespace

Result<bool> ProductRecomputer(Module& module, const PassOptions&) {
  bool changed = false;
  for (Computation* computation : ReachableComputations(module)) {
    KRAFLA_ASSIGN(LargeProducts products, FindLargeProducts(*computation, kLeastRecomputed));
    auto& [order, dots] = products;
    for (std::size_t d = 0; d < dots.size(); d += kDotsTogether)
      changed |=
          Recomputed(*computation, order, std::span(dots).subspan(d, std::min(kDotsTogether, dots.size() - d))).Run();
  }
  return changed;
}

}  // namespace krafla
