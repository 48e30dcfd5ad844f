// SPDX-License-Identifier: Apache-2.0
#include "compare_search.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/verifier.h"
#include "passes/pipeline.h"

namespace krafla::cli {
namespace {

// Instructions that only name values, or make none.
bool IsName(const Instruction& i) {
  if (IsOneOf(i.opcode(), {Opcode::kParameter, Opcode::kConstant, Opcode::kTuple, Opcode::kGetTupleElement,
                           Opcode::kOptimizationBarrier, Opcode::kAddDependency, Opcode::kAfterAll, Opcode::kDomain}))
    return true;
  for (const Shape* leaf : TupleLeaves(i.shape()))
    if (!leaf->IsArray() || leaf->IsDynamic()) return true;
  return false;
}

// The module with further values as results, behind its own.
Result<std::unique_ptr<Module>> WithResults(const Module& module, const std::vector<const Instruction*>& values) {
  std::unique_ptr<Module> out = module.Clone();
  Computation& entry = *out->entry();
  std::unordered_map<int, Instruction*> by_id;
  for (const auto& i : entry.instructions()) by_id.emplace(i->id(), i.get());
  std::vector<Instruction*> operands = {entry.root()};
  for (const Instruction* value : values) operands.push_back(by_id.at(value->id()));
  std::vector<Shape> shapes;
  for (const Instruction* o : operands) shapes.push_back(o->shape());
  KRAFLA_ASSIGN(Shape shape, Shape::MakeTuple(std::move(shapes)));
  entry.set_root(entry.Add(Opcode::kTuple, std::move(shape), operands));
  out->entry_layout_result.reset();
  for (InputOutputAlias& alias : out->input_output_aliases) {
    Dims index = {0};
    for (int64_t n : alias.output_index) index.push_back(n);
    alias.output_index = std::move(index);
  }
  return out;
}

// The values among `candidates` that `i` reads, through names.
void AddSources(const Instruction& i, const std::unordered_map<const Instruction*, std::size_t>& candidates,
                std::unordered_set<const Instruction*>& out) {
  std::vector<const Instruction*> stack(i.operands().begin(), i.operands().end());
  std::unordered_set<const Instruction*> seen;
  while (!stack.empty()) {
    const Instruction* o = stack.back();
    stack.pop_back();
    if (!seen.insert(o).second) continue;
    if (candidates.contains(o)) {
      out.insert(o);
      continue;
    }
    stack.insert(stack.end(), o->operands().begin(), o->operands().end());
  }
}

class FirstFinder {
 public:
  FirstFinder(const Question& question, const Side& a, const Side& b) : question_(question), a_(a), b_(b) {}

  Result<FirstDifference> Find() {
    Start();
    while (end_ - begin_ > 1) {
      KRAFLA_ASSIGN(const bool goes_on, Halve());
      if (!goes_on) return Vanished();
    }
    if (values_.empty()) return Vanished();
    return Finish();
  }

 private:
  void Start() {
    const Computation& entry = *question_.module.entry();
    Restrict(entry.root(), false);
    begin_ = 0;
    end_ = values_.size();
  }

  // values_: what `last` is computed from, and itself, in the order of the program.
  void Restrict(const Instruction* last, bool keep_known) {
    std::unordered_set<const Instruction*> known;
    if (keep_known) known.insert(values_.begin(), values_.begin() + static_cast<std::ptrdiff_t>(begin_));
    std::unordered_set<const Instruction*> wanted;
    std::vector<const Instruction*> stack = {last};
    while (!stack.empty()) {
      const Instruction* i = stack.back();
      stack.pop_back();
      if (!wanted.insert(i).second) continue;
      stack.insert(stack.end(), i->operands().begin(), i->operands().end());
    }
    values_.clear();
    place_.clear();
    begin_ = 0;
    for (const auto& i : question_.module.entry()->instructions()) {
      if (!wanted.contains(i.get()) || IsName(*i)) continue;
      if (known.contains(i.get())) begin_ = values_.size() + 1;
      place_.emplace(i.get(), values_.size());
      values_.push_back(i.get());
    }
  }

  // Whether each of `values` differs, and whether the module's own results do.
  struct Seen {
    std::vector<Comparison> values;
    bool results_differ = false;
  };
  Result<Seen> Look(const std::vector<const Instruction*>& values) {
    KRAFLA_ASSIGN(const std::unique_ptr<Module> module, WithResults(question_.module, values));
    ++out_.runs;
    out_.exposed = std::max(out_.exposed, values.size());
    KRAFLA_ASSIGN(const std::vector<Literal> got_a, a_.Run(*module, question_.arguments));
    KRAFLA_ASSIGN(const std::vector<Literal> got_b, b_.Run(*module, question_.arguments));
    KRAFLA_ASSIGN(const std::vector<Comparison> all, CompareAll(got_a, got_b, question_.rule));
    Seen out;
    std::size_t next = TupleLeaves(question_.module.entry()->root()->shape()).size();
    for (std::size_t r = 0; r < next; ++r) out.results_differ |= !all[r].passed;
    for (const Instruction* value : values) {
      Comparison worst;
      worst.passed = true;
      for (std::size_t leaf = TupleLeaves(value->shape()).size(); leaf > 0; --leaf, ++next)
        if (worst.passed) worst = all[next];
      out.values.push_back(std::move(worst));
    }
    return out;
  }

  // False: with values of the cut as results nothing differs any more.
  Result<bool> Halve() {
    const std::size_t middle = begin_ + (end_ - begin_) / 2;
    std::unordered_set<const Instruction*> read;
    for (std::size_t n = middle; n < end_; ++n) AddSources(*values_[n], place_, read);
    if (bad_ == nullptr) AddSources(*question_.module.entry()->root(), place_, read);
    std::vector<const Instruction*> cut;
    for (std::size_t n = begin_; n < middle; ++n)
      if (read.contains(values_[n])) cut.push_back(values_[n]);
    const std::size_t count = cut.size();
    if (bad_ != nullptr) cut.push_back(bad_);
    KRAFLA_ASSIGN(Seen seen, Look(cut));
    for (std::size_t n = 0; n < count; ++n) {
      if (seen.values[n].passed) continue;
      bad_ = cut[n];
      out_.comparison = std::move(seen.values[n]);
      Restrict(bad_, true);
      end_ = place_.at(bad_) + 1;
      return true;
    }
    if (bad_ != nullptr ? seen.values[count].passed : !seen.results_differ) return false;
    begin_ = middle;
    return true;
  }

  FirstDifference Vanished() {
    for (std::size_t n = begin_; n < end_; ++n) out_.between.push_back(values_[n]->name());
    return std::move(out_);
  }

  Result<FirstDifference> Finish() {
    const Instruction* found = values_[begin_];
    // Its operands are known to be equal, though perhaps in a run in which it was part of another kernel.
    std::unordered_set<const Instruction*> sources;
    std::unordered_map<const Instruction*, std::size_t> all;
    for (const auto& i : question_.module.entry()->instructions())
      if (!IsName(*i)) all.emplace(i.get(), 0);
    AddSources(*found, all, sources);
    std::vector<const Instruction*> values = {found};
    for (const auto& i : question_.module.entry()->instructions())
      if (sources.contains(i.get())) values.push_back(i.get());
    KRAFLA_ASSIGN(Seen seen, Look(values));
    for (std::size_t n = 1; n < values.size(); ++n)
      if (!seen.values[n].passed) {
        end_ = begin_ + 1;
        return Vanished();
      }
    if (seen.values[0].passed) return Vanished();
    out_.instruction = found->name();
    out_.opcode = OpcodeName(found->opcode());
    out_.comparison = std::move(seen.values[0]);
    KRAFLA_TRY(TryAlone(*found));
    return std::move(out_);
  }

  // Runs the instruction by itself on what side a computes for its operands.
  Result<> TryAlone(const Instruction& found) {
    if (found.operand_count() == 0) return {};
    for (const Instruction* o : found.operands())
      if (!o->shape().IsArray() || o->shape().IsDynamic()) return {};
    const std::vector<const Instruction*> operands(found.operands().begin(), found.operands().end());
    KRAFLA_ASSIGN(const std::unique_ptr<Module> whole, WithResults(question_.module, operands));
    KRAFLA_ASSIGN(std::vector<Literal> results, a_.Run(*whole, question_.arguments));
    results.erase(results.begin(), results.end() - static_cast<std::ptrdiff_t>(operands.size()));
    std::unique_ptr<Module> module = question_.module.Clone();
    Computation& alone = *module->AddComputation("alone");
    std::vector<Instruction*> parameters;
    for (std::size_t n = 0; n < operands.size(); ++n)
      parameters.push_back(alone.Add(Opcode::kParameter, operands[n]->shape(), {},
                                     ParameterAttributes{static_cast<int64_t>(n), {}}, {}, Format("operand_{}", n)));
    std::vector<Computation*> called;
    for (const Computation* c : found.called())
      for (const auto& copy : module->computations())
        if (copy->name() == c->name()) called.push_back(copy.get());
    alone.set_root(alone.Add(found.opcode(), found.shape(), parameters, found.attributes(), called, "alone"));
    module->set_entry(&alone);
    module->entry_layout_result.reset();
    module->entry_layout_parameters.clear();
    module->input_output_aliases.clear();
    module->buffer_donors.clear();
    if (!Verify(*module)) return {};
    const auto got_a = a_.Run(*module, results), got_b = b_.Run(*module, results);
    if (!got_a || !got_b) return {};
    KRAFLA_ASSIGN(const std::vector<Comparison> compared, CompareAll(*got_a, *got_b, question_.rule));
    out_.tried = true;
    out_.alone = !AllPassed(compared);
    return {};
  }

  const Question& question_;
  const Side &a_, &b_;
  std::vector<const Instruction*> values_;
  std::unordered_map<const Instruction*, std::size_t> place_;
  // What is before `begin_` and read behind it is equal; something before `end_` differs, and it is `bad_`'s if that is
  // set, else a result's.
  std::size_t begin_ = 0, end_ = 0;
  const Instruction* bad_ = nullptr;
  FirstDifference out_;
};

// What can be switched off and may matter.
Result<std::vector<std::string>> SuspectsOf(const Question& question, const Side& b) {
  std::vector<std::string> out;
  for (const char* name : {"fusion", "loops", "row-groups"})
    if (!b.options().disabled.contains(name)) out.emplace_back(name);
  if (const DeviceDescription* device = b.device(); device != nullptr && device->profile) {
    for (const FeatureName& feature : FeatureNames()) {
      const std::string name(feature.name);
      auto without = device->profile->WithDisabled(std::span(&name, 1));
      if (without) without->disabled = device->profile->disabled;
      if (without && *without != *device->profile && !b.options().disabled.contains(name)) out.push_back(name);
    }
  }
  std::set<std::string> passes;
  PassOptions options;
  options.disabled = b.options().disabled;
  const std::unique_ptr<Module> copy = question.module.Clone();
  KRAFLA_TRY(Verify(*copy));
  KRAFLA_TRY(RunPipeline(*copy, options, [&](const PassInfo& pass, Module&, bool changed, double) -> Result<> {
    if (changed) passes.emplace(pass.name);
    return {};
  }));
  out.insert(out.end(), passes.begin(), passes.end());
  return out;
}

}  // namespace

Result<std::vector<Comparison>> CompareAll(const std::vector<Literal>& a, const std::vector<Literal>& b,
                                           const Tolerance& rule) {
  if (a.size() != b.size()) return Internal("One side has {} results, the other {}.", a.size(), b.size());
  std::vector<Comparison> out;
  for (std::size_t r = 0; r < a.size(); ++r) {
    if (!a[r].shape().IsArray()) {
      out.emplace_back().passed = true;
      continue;
    }
    out.push_back(Compare(b[r], a[r], nullptr, rule));
  }
  return out;
}

bool AllPassed(const std::vector<Comparison>& comparisons) {
  return std::ranges::all_of(comparisons, &Comparison::passed);
}

Result<FirstDifference> FindFirstDifference(const Question& question, const Side& a, const Side& b) {
  return FirstFinder(question, a, b).Find();
}

Result<Bisection> Bisect(const Question& question, const Side& a, const Side& b,
                         const std::function<void(const std::string&)>& progress) {
  using Verdict = Suspect::Verdict;
  KRAFLA_ASSIGN(const std::vector<Literal> expected, a.Run(question.module, question.arguments));
  const auto without = [&](const std::set<std::string>& names) -> Result<Verdict> {
    const auto got = b.Run(question.module, question.arguments, names);
    if (!got) {
      if (got.error().code() == StatusCode::kResourceExhausted) return Failure(got.error());
      return Verdict::kRefused;
    }
    KRAFLA_ASSIGN(const std::vector<Comparison> compared, CompareAll(expected, *got, question.rule));
    return AllPassed(compared) ? Verdict::kGoesAway : Verdict::kStays;
  };
  Bisection out;
  KRAFLA_ASSIGN(const std::vector<std::string> names, SuspectsOf(question, b));
  std::vector<std::string> left;
  for (const std::string& name : names) {
    progress(name);
    KRAFLA_ASSIGN(const Verdict verdict, without({name}));
    out.suspects.push_back({name, verdict});
    if (verdict == Verdict::kGoesAway && out.needed.empty()) out.needed = {name};
    if (verdict == Verdict::kStays) left.push_back(name);
  }
  if (!out.needed.empty()) return out;
  // Several together: halves are dropped while the difference stays away without them.
  progress("all");
  KRAFLA_ASSIGN(Verdict verdict, without({left.begin(), left.end()}));
  if (verdict != Verdict::kGoesAway) return out;
  for (std::size_t part = std::max<std::size_t>(left.size() / 2, 1); !left.empty();) {
    bool dropped = false;
    for (std::size_t at = 0; at < left.size() && left.size() > 1;) {
      std::vector<std::string> fewer = left;
      const auto first = fewer.begin() + static_cast<std::ptrdiff_t>(at);
      fewer.erase(first, first + static_cast<std::ptrdiff_t>(std::min(part, fewer.size() - at)));
      progress(Format("{} together", fewer.size()));
      if (!fewer.empty()) { KRAFLA_ASSIGN(verdict, without({fewer.begin(), fewer.end()})); }
      if (!fewer.empty() && verdict == Verdict::kGoesAway) left = std::move(fewer), dropped = true;
      else at += part;
    }
    if (part == 1 && !dropped) break;
    part = std::max<std::size_t>(part / 2, 1);
  }
  out.needed = std::move(left);
  return out;
}

}  // namespace krafla::cli
