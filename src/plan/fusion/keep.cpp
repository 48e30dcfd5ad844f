// SPDX-License-Identifier: Apache-2.0
// Decides which values get a buffer and which are inlined into the kernels that read them.
#include <algorithm>
#include <utility>

#include "base/work.h"
#include "plan/element_cost.h"
#include "plan/families/accepts.h"
#include "plan/families/dot_operands.h"
#include "plan/fusion/fusion_planner.h"

namespace krafla::plan {

void FusionPlanner::AddContext(Uses& uses, const Context& c) {
  if (!uses.many)
    for (Context& have : uses.contexts)
      if (have.kernel == c.kernel && have.map == c.map) {
        have.evals = std::max(have.evals, c.evals);
        have.copies = std::max(have.copies, c.copies);
        have.dilations = std::max(have.dilations, c.dilations);
        return;
      }
  if (uses.contexts.size() == limits_.places) uses.many = true;
  uses.contexts.push_back(c);
}

void FusionPlanner::DecideKept() {
  std::vector<Uses> uses(class_.size());
  FindFirstOverwriting();
  FindFormulas();
  const auto& all = computation_.instructions();
  Keep(uses, computation_.root(), nullptr);
  for (auto it = all.rbegin(); it != all.rend(); ++it) {
    const Instruction& i = **it;
    Uses& mine = uses[Index(&i)];
    // Nothing reads it: it is dead, or the root.
    if (!mine.keep && !mine.many && mine.contexts.empty() && !effects_.HasEffect(i)) continue;
    switch (class_[Index(&i)]) {
      case Class::kStructural:
        // A name of another value passes on what is asked of it.
        for (const Instruction* o : i.operands()) {
          bool one_value = IsOneOf(i.opcode(), {Opcode::kCopy, Opcode::kReshape, Opcode::kOptimizationBarrier,
                                                Opcode::kAddDependency, Opcode::kDomain});
          if (!one_value || mine.keep) {
            Keep(uses, o, &i);
          } else {
            for (const Context& c : mine.contexts) AddContext(uses[Index(o)], c);
          }
        }
        break;
      case Class::kHero:
        if (hero_kind_[Index(&i)] == Kind::kConcatenate && IsPartOfOperand(i, mine) &&
            Inline(i, mine).why == KeptWhy::kInlined) {
          LogKept(i, {KeptWhy::kInlined});
          class_[Index(&i)] = Class::kFusible;
          FusibleUses(i, mine, uses);
          break;
        }
        plan_.kept.insert(&i);
        LogKept(i, {KeptWhy::kHero});
        StartGroup(i);
        HeroUses(i, uses);
        break;
      case Class::kFusible: {
        const KeptValue kept = mine.keep        ? KeptValue{KeptWhy::kWanted}
                               : !options_.fuse ? KeptValue{KeptWhy::kNoFusion}
                                                : Inline(i, mine);
        LogKept(i, kept);
        if (kept.why != KeptWhy::kInlined) {
          plan_.kept.insert(&i);
          if (i.opcode() == Opcode::kConcatenate && IsManyPieces(i)) {
            class_[Index(&i)] = Class::kHero;
            hero_kind_[Index(&i)] = Kind::kConcatenate;
            HeroUses(i, uses);
            break;
          }
          if (kept.why == KeptWhy::kFullKernel) JoinCut(i, mine);
          StartGroup(i);
          asked_[Index(&i)] = std::move(mine);
          mine = {};
          mine.contexts = {{KernelOf(i), MapId::Own(), static_cast<double>(i.shape().element_count())}};
        }
        FusibleUses(i, mine, uses);
        break;
      }
    }
  }
}

void FusionPlanner::StartGroup(const Instruction& i) {
  if (!HasBufferLimit()) return;
  KernelSize& size = size_of_[KernelOf(i)];
  AddReads(i, size.reads);
  const int64_t results = std::max<int64_t>(i.shape().leaf_count(), 1);
  size.results = joint_.contains(i.id()) ? size.results + results : results;
}

void FusionPlanner::AddReads(const Instruction& i, std::unordered_set<ValueRef, ValueRefHash>& reads) const {
  for (const Instruction* o : i.operands()) {
    const ValueRef v = ResolveValue({o, 0}, true);
    const Instruction& read = *v.instruction;
    const auto is_constant = [](const Instruction* p) { return p->opcode() == Opcode::kConstant; };
    if (is_constant(&read) && read.shape().element_count() == 1) continue;
    if (class_[Index(&read)] == Class::kFusible && std::ranges::all_of(read.operands(), is_constant))
      AddReads(read, reads);
    else reads.insert(v);
  }
}

bool FusionPlanner::FitsBuffers(const Instruction& i, const KernelSize& group) const {
  std::unordered_set<ValueRef, ValueRefHash> reads = group.reads;
  reads.erase({&i, 0});
  AddReads(i, reads);
  return static_cast<int64_t>(reads.size()) + group.results <= options_.buffer_limit;
}

// A reshape that adds or drops dimensions of one element alone, and costs nothing where it is computed.
static bool OnlyMovesUnits(const Instruction& x) {
  if (x.opcode() != Opcode::kReshape || !x.shape().IsArray() || !x.operand(0)->shape().IsArray()) return false;
  const auto others = [](const Instruction& of) {
    Dims out;
    for (const int64_t extent : of.shape().dims())
      if (extent != 1) out.push_back(extent);
    return out;
  };
  return others(x) == others(*x.operand(0));
}

// Whether it reads single numbers at the most, and costs little more than an index: numbers that are repeated, what a
// step of arithmetic makes of an iota, and masks that compare one with a position, or with two, as windows do. Kernels
// that compute such a mask see which elements it hides; one that is stored would say nothing to them
// (plan/rows/column_limits.h).
bool FusionPlanner::IsMadeOfIndices(const Instruction& i) const {
  constexpr double kMostCost = 6;
  constexpr std::size_t kMostInstructions = 16;
  std::vector<const Instruction*> stack = {&i};
  double cost = 0;
  for (std::size_t seen = 0; !stack.empty(); ++seen) {
    const Instruction& x = *stack.back();
    stack.pop_back();
    if (x.opcode() == Opcode::kConstant && x.shape().element_count() == 1) continue;
    // A device that counts buffers would have to count this one in every kernel.
    if (&x != &i && x.shape().IsArray() && x.shape().element_count() == 1 && !HasBufferLimit()) continue;
    if (&x != &i && OnlyMovesUnits(x)) {
      stack.push_back(x.operand(0));
      continue;
    }
    if (seen == kMostInstructions || class_[Index(&x)] != Class::kFusible || IsDilation(x) ||
        x.opcode() == Opcode::kConcatenate || (x.operand_count() == 0 && x.opcode() != Opcode::kIota))
      return false;
    if (x.shape().element_count() > 1) cost += ElementCost(x.opcode(), x.shape().element_type());
    if (cost > kMostCost) return false;
    stack.insert(stack.end(), x.operands().begin(), x.operands().end());
  }
  return true;
}

// Whether it is what a dot or its epilogue gives, with its rows in another order: written in that order it costs
// nothing, and kernels of the rows, as a softmax and the product behind it, read and write them in one order.
bool FusionPlanner::OrdersRowsOfDot(const Instruction& i) const {
  if (i.opcode() != Opcode::kTranspose || !options_.dot_epilogues) return false;
  const Dims& permutation = i.attr<DimensionsAttributes>().dimensions;
  // Columns stay side by side.
  if (permutation.empty() || permutation.back() != permutation.ssize() - 1) return false;
  constexpr int kMostInstructions = 16;
  std::vector<const Instruction*> stack = {i.operand(0)};
  for (int seen = 0; !stack.empty() && seen < kMostInstructions; ++seen) {
    const Instruction& x = *stack.back();
    stack.pop_back();
    if (x.users().size() != 1 || x.shape().element_count() != i.shape().element_count()) continue;
    if (x.opcode() == Opcode::kDot && hero_kind_[Index(&x)] == Kind::kDot) return true;
    if (class_[Index(&x)] == Class::kFusible && IsElementwise(x.opcode()))
      stack.insert(stack.end(), x.operands().begin(), x.operands().end());
  }
  return false;
}

KeptValue FusionPlanner::Inline(const Instruction& i, const Uses& mine) {
  double elements = static_cast<double>(std::max<int64_t>(i.shape().element_count(), 1));
  KeptValue out;
  out.cost = ElementCost(i.opcode(), i.shape().element_type());
  const auto kept = [&](KeptWhy why) { return out.why = why, out; };
  // Iota, broadcasts of single constants: they take no buffer and next to no time in any kernel.
  const bool is_nothing = out.cost == 0 && std::ranges::all_of(i.operands(), [](const Instruction* o) {
                            return o->opcode() == Opcode::kConstant && o->shape().element_count() == 1;
                          });
  const bool is_of_indices = IsMadeOfIndices(i);
  if (is_nothing) return kept(KeptWhy::kInlined);
  if (mine.many) return kept(is_of_indices ? KeptWhy::kInlined : KeptWhy::kManyPlaces);
  // To decide at every index whether it holds an element costs more than to store an array with the zeros between.
  if (IsDilation(i))
    for (const Context& c : mine.contexts)
      if (c.dilations > 0) return kept(KeptWhy::kTwoPads);
  if (options_.stores_gathered_pads && IsGatheredPad(i)) return kept(KeptWhy::kGatheredPad);
  double evals = 0;
  std::vector<std::pair<KernelId, int64_t>> kernels;  // and how many copies each contains
  for (const Context& c : mine.contexts) {
    evals += c.evals;
    auto at = std::ranges::find(kernels, c.kernel, &std::pair<KernelId, int64_t>::first);
    if (at == kernels.end()) kernels.push_back({c.kernel, c.copies});
    else at->second += c.copies;
  }
  const double cost = out.cost, factor = out.factor = evals / elements;
  out.kernels = static_cast<int>(kernels.size());
  int operands = 0;
  for (const Instruction* o : i.operands())
    if (o->opcode() != Opcode::kConstant) ++operands;
  // A number that takes long to compute is made once for kernels that each compute no more than a number.
  const bool is_dear_number = elements == 1 && cost > limits_.repeated_cost && kernels.size() > 1 &&
                              std::ranges::all_of(kernels, [&](const auto& k) { return IsOfOneElement(k.first); });
  // What has no operands costs nothing: iota, broadcasts of constants.
  if (is_of_indices && !is_dear_number) operands = 0;
  if (kernels.size() > 1 && OrdersRowsOfDot(i)) return kept(KeptWhy::kShared);
  if (operands > 0 && cost == 0) {
    // Views are free, but for concatenates, which cost a select for each operand.
    if (i.opcode() == Opcode::kConcatenate && (factor > 2 || i.operand_count() > limits_.select_pieces) &&
        !HoldsIndexVectors(i))
      return kept(KeptWhy::kConcatenate);
  } else if (operands > 0 && kernels.size() == 1) {
    if (options_.stores_window_values && factor > limits_.windows_of_value && IsOfWindows(kernels[0].first))
      return kept(KeptWhy::kRepeated);
    if (!(factor <= 1.01 || (cost <= 2 && factor <= 64) || (cost <= 4 && factor <= 2))) return kept(KeptWhy::kRepeated);
  } else if (operands > 0) {
    if (!(cost <= 1 && operands == 1 && factor <= 2.01)) return kept(KeptWhy::kShared);
  }
  return kept(TakeRoom(i, cost, kernels));
}

bool FusionPlanner::IsOfWindows(const KernelId& kernel) const {
  return made_[static_cast<std::size_t>(kernel.instruction)]->opcode() == Opcode::kReduceWindow;
}

bool FusionPlanner::IsOfOneElement(const KernelId& kernel) const {
  const Instruction* i = made_[static_cast<std::size_t>(kernel.instruction)];
  // An update computes no more than the elements that it puts in.
  if (i->opcode() == Opcode::kDynamicUpdateSlice) i = i->operand(1);
  return i->shape().IsArray() && i->shape().element_count() == 1;
}

KeptWhy FusionPlanner::TakeRoom(const Instruction& i, double cost,
                                const std::vector<std::pair<KernelId, int64_t>>& kernels) {
  const double formula = cost >= kLeastFormulaCost ? cost : 0;
  // What a kernel reaches in several ways it evaluates several times. A chain that doubles at each step is cut.
  for (const auto& [kernel, copies] : kernels) {
    KernelSize& have = size_of_[kernel];
    if (have.nodes >= limits_.inlined) {
      have.is_closed = true;
      return KeptWhy::kFullKernel;
    }
    if (have.is_closed && cost > 0 && holds_formula_[Index(&i)]) return KeptWhy::kFullKernel;
    if (formula > 0 && have.formulas > 0 && have.formulas + formula * static_cast<double>(copies) > limits_.formulas) {
      have.is_closed = true;
      return KeptWhy::kFullKernel;
    }
    if (have.evaluations + copies > std::max<int64_t>(limits_.evaluations, limits_.evaluations_each * (have.nodes + 1)))
      return KeptWhy::kEvaluations;
    if (HasBufferLimit() && !FitsBuffers(i, have)) return KeptWhy::kBuffers;
  }
  for (const auto& [kernel, copies] : kernels) {
    KernelSize& size = size_of_[kernel];
    ++size.nodes;
    size.evaluations += copies;
    size.formulas += formula * static_cast<double>(copies);
    if (!HasBufferLimit()) continue;
    size.reads.erase({&i, 0});
    AddReads(i, size.reads);
  }
  return KeptWhy::kInlined;
}

bool FusionPlanner::IsDilation(const Instruction& i) {
  return i.opcode() == Opcode::kPad &&
         std::ranges::any_of(i.attr<PadAttributes>().interior, [](int64_t n) { return n > 0; });
}

// Whether its only reader takes about as many elements of it, at places that are computed.
bool FusionPlanner::IsGatheredPad(const Instruction& i) {
  constexpr int64_t kMostOfReader = 4;
  if (i.opcode() != Opcode::kPad || i.users().size() != 1) return false;
  const Instruction& reader = *i.users()[0];
  const bool is_at_computed_places = reader.opcode() == Opcode::kGather || reader.opcode() == Opcode::kDynamicSlice;
  return is_at_computed_places && reader.operand(0) == &i &&
         i.shape().element_count() / kMostOfReader <= reader.shape().element_count();
}

void FusionPlanner::FusibleUses(const Instruction& i, const Uses& mine, std::vector<Uses>& uses) {
  bool same_map = IsElementwise(i.opcode()) ||
                  (i.opcode() == Opcode::kBitcastConvert && i.shape().rank() == i.operand(0)->shape().rank());
  for (std::size_t n = 0; n < i.operand_count(); ++n) {
    const Instruction* o = i.operand(n);
    double ratio_cap = static_cast<double>(std::max<int64_t>(o->shape().element_count(), 1));
    bool scalar = o->shape().element_count() == 1;
    std::vector<Context> asked;  // by group and map
    for (Context c : mine.contexts) {
      if (scalar) c.evals = 1, c.map = MapId::Own();  // hoisted out of every loop
      if (o->shape().rank() == 0) c.copies = 1;
      if (!same_map && !scalar) c.map = {i.id(), static_cast<int>(n)};
      if (i.opcode() == Opcode::kConcatenate) c.evals = std::min(c.evals, ratio_cap);
      if (n == 0 && IsDilation(i)) ++c.dilations;
      auto same = [&](const Context& have) { return have.kernel == c.kernel && have.map == c.map; };
      auto at = std::ranges::find_if(asked, same);
      if (at == asked.end()) {
        asked.push_back(c);
      } else {
        at->evals = std::max(at->evals, c.evals);
        at->dilations = std::max(at->dilations, c.dilations);
        if (o->shape().rank() > 0) at->copies = std::min(at->copies + c.copies, limits_.copies);
      }
    }
    for (const Context& c : asked) AddContext(uses[Index(o)], c);
  }
}

std::array<ValueRef, 2> FusionPlanner::DotBases(const Instruction& dot) {
  std::optional<DotOperands> o = ChooseDotOperands(dot);
  KRAFLA_CHECK(o.has_value());
  return {o->lhs.base, o->rhs.base};
}

bool FusionPlanner::IsPartOfOperand(const Instruction& i, const Uses& mine) const {
  return options_.fuse && !mine.keep && !mine.many && i.operand_count() <= limits_.select_pieces &&
         std::ranges::all_of(mine.contexts, [&](const Context& c) {
           return c.kernel.operand < 0 && hero_kind_[static_cast<std::size_t>(c.kernel.instruction)] == Kind::kDot;
         });
}

namespace {

// Whether each index of a gather names at least so many elements, as of an expert's weights.
bool GathersWholeMatrices(const Instruction& i, int64_t least_elements) {
  if (i.opcode() != Opcode::kGather) return false;
  int64_t elements = 1;
  for (int64_t size : i.attr<GatherAttributes>().slice_sizes) elements *= size;
  return elements >= least_elements;
}

// How many matrices an operand of a dot holds that are begun one by one; products without sums are not.
int64_t Matrices(const Instruction& dot) {
  const DotAttributes& of = dot.attr<DotAttributes>();
  const auto count = [&](const Dims& dims) {
    int64_t out = 1;
    for (const int64_t d : dims) out *= dot.operand(0)->shape().dim(d);
    return std::max<int64_t>(out, 1);
  };
  return count(of.lhs_contracting) == 1 ? 1 : count(of.lhs_batch);
}

}  // namespace

bool FusionPlanner::ComputedByDot(const Instruction& operand, const Instruction& dot) const {
  const int64_t elements = operand.shape().element_count();
  if (!options_.fuse || !options_.computed_operands || class_[Index(&operand)] != Class::kFusible ||
      elements < limits_.operand_elements || elements / Matrices(dot) < limits_.operand_matrix)
    return false;
  // What is read, each array once, and what an element costs at the most.
  double bytes = 0, cost = 0;
  bool moves_only = true;
  std::unordered_set<ValueRef, ValueRefHash> seen;
  struct Read {
    const Instruction* array;
    double share;  // of its elements
  };
  std::vector<Read> stack = {{&operand, 1}};
  while (!stack.empty()) {
    // Perhaps a leaf of what a loop carries.
    const ValueRef value = ResolveValue({stack.back().array, 0}, true);
    const double share = stack.back().share;
    const Instruction* i = value.instruction;
    const Shape& shape = LeafShape(value);
    stack.pop_back();
    if (!seen.insert(value).second) continue;
    CountWork(1);
    if (seen.size() > limits_.operand_search || !shape.IsArray()) return false;
    const auto size = static_cast<double>(shape.element_count());
    // Values that lie two to a byte are put side by side by a concatenate.
    const bool is_joined = class_[Index(i)] == Class::kHero && hero_kind_[Index(i)] == Kind::kConcatenate &&
                           i->users().size() == 1 && i->operand_count() <= limits_.select_pieces;
    if (class_[Index(i)] != Class::kFusible && !is_joined) {
      bytes += std::min(size * share, static_cast<double>(elements)) * StorageBytes(shape.element_type());
      continue;
    }
    if (size > 1) cost += ElementCost(i->opcode(), shape.element_type());
    const bool is_slice = i->opcode() == Opcode::kDynamicSlice || GathersWholeMatrices(*i, limits_.operand_elements);
    moves_only = moves_only && is_slice;
    if (is_slice) {
      // Its starts are single numbers.
      const auto whole = static_cast<double>(i->operand(0)->shape().element_count());
      stack.push_back({i->operand(0), share * std::min(size / std::max(whole, 1.0), 1.0)});
      continue;
    }
    for (const Instruction* o : i->operands()) stack.push_back({o, share});
  }
  const double stored = static_cast<double>(elements) * StorageBytes(operand.shape().element_type());
  // A slice at an index that is known when it runs is the array itself. All else has to be read from much less.
  return moves_only ? bytes <= stored : cost <= limits_.operand_cost && bytes <= 0.75 * stored;
}

void FusionPlanner::HeroUses(const Instruction& i, std::vector<Uses>& uses) {
  Kind kind = hero_kind_[Index(&i)];
  auto context = [&](const Instruction* o, MapId map, double evals) {
    AddContext(uses[Index(o)], {KernelOf(i), map, o->shape().element_count() == 1 ? 1 : evals});
  };
  if (kind == Kind::kReduce) {
    std::size_t inputs = i.operand_count() / 2;
    double evals = static_cast<double>(i.operand(0)->shape().element_count());
    if (i.opcode() == Opcode::kReduceWindow) {
      evals = static_cast<double>(i.shape().leaf(0).element_count());
      for (const WindowDim& w : i.attr<WindowAttributes>().window) evals *= static_cast<double>(w.size);
    }
    for (std::size_t n = 0; n < i.operand_count(); ++n)
      AddContext(uses[Index(i.operand(n))], {KernelOf(i), n < inputs ? MapId::Input() : MapId::Own(),
                                             i.operand(n)->shape().element_count() == 1 ? 1 : evals, 1,
                                             i.opcode() == Opcode::kReduceWindow && n < inputs ? 1 : 0});
    return;
  }
  if (kind == Kind::kDot) {
    const std::array<ValueRef, 2> bases = DotBases(i);
    const auto elements = [](const ValueRef& v) { return v.instruction->shape().element_count(); };
    // One of the two at the most: the larger one, which are the weights where it matters.
    const std::size_t larger = elements(bases[0]) > elements(bases[1]) ? 0 : 1;
    for (std::size_t side : {larger, 1 - larger}) {
      const Instruction* o = bases[side].instruction;
      dots_of_[o].push_back(&i);
      const bool computed = (side == larger || uses[Index(bases[larger].instruction)].keep) && ComputedByDot(*o, i);
      if (computed)
        AddContext(uses[Index(o)], {KernelOf(i), MapId::Input(), static_cast<double>(elements(bases[side]))});
      else Keep(uses, o, &i);
    }
    return;
  }
  if (kind == Kind::kDynamicUpdate) {
    Keep(uses, i.operand(0), &i);
    if (ComputesWhatItPutsIn(i))
      context(i.operand(1), MapId::Input(), static_cast<double>(i.operand(1)->shape().element_count()));
    else Keep(uses, i.operand(1), &i);
    for (std::size_t n = 2; n < i.operand_count(); ++n) context(i.operand(n), MapId::Own(), 1);
    return;
  }
  if (kind == Kind::kConcatenate) {
    // Each operand is written by a kernel of its own, so each gets a context of its own.
    for (std::size_t n = 0; n < i.operand_count(); ++n)
      AddContext(
          uses[Index(i.operand(n))],
          {{i.id(), static_cast<int>(n)}, MapId::Own(), static_cast<double>(i.operand(n)->shape().element_count())});
    return;
  }
  if (kind == Kind::kSort) {
    for (std::size_t n = 0; n < i.operand_count(); ++n)
      if (!IsCarriedPosition(i, n)) Keep(uses, i.operand(n), &i);
    return;
  }
  if (kind == Kind::kScan) {
    Keep(uses, i.operand(0), &i);
    Keep(uses, ScanStart(i), &i);
    return;
  }
  for (const Instruction* o : i.operands()) Keep(uses, o, &i);
}

}  // namespace krafla::plan
