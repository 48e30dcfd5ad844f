// SPDX-License-Identifier: Apache-2.0
#include "api/explain.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "api/front_end.h"
#include "api/run_profile.h"
#include "api/vulkan/emitted_kernels.h"
#include "base/checked_math.h"
#include "base/near_words.h"
#include "plan/arena.h"
#include "plan/plan_log.h"

namespace krafla {
namespace {

const Instruction* FindInstruction(const Module& module, std::string_view name) {
  for (const auto& c : module.computations())
    for (const auto& i : c->instructions())
      if (i->name() == name) return i.get();
  return nullptr;
}

// Follows one instruction by its name through the passes.
class Storyteller {
 public:
  Storyteller(const Module& module, std::string name) : name_(std::move(name)) {
    for (const auto& c : module.computations())
      for (const auto& i : c->instructions()) names_.push_back(i->name());
    if (const Instruction* i = FindInstruction(module, name_)) {
      state_ = StateOf(*i);
      origin_ = i->metadata().metadata;
      story_.history.push_back(Format("in the module: {}", state_));
    }
    story_.name = name_;
  }

  void See(std::string_view pass, const Module& module) {
    const Instruction* i = FindInstruction(module, name_);
    const std::string state = i == nullptr ? "" : StateOf(*i);
    if (state == state_) return;
    story_.history.push_back(state.empty()    ? Format("{}: gone", pass)
                             : state_.empty() ? Format("{}: made, {}", pass, state)
                                              : Format("{}: now {}", pass, state));
    state_ = state;
    if (i != nullptr && origin_.empty()) origin_ = i->metadata().metadata;
  }

  Result<Explanation::Story> Finish(const Module& module) && {
    for (const auto& c : module.computations())
      for (const auto& i : c->instructions()) {
        names_.push_back(i->name());
        const bool same_origin = state_.empty() && !origin_.empty() && i->metadata().metadata == origin_;
        if (i->name() == name_ || same_origin) story_.became.push_back(i->name());
      }
    if (!story_.history.empty()) return std::move(story_);
    std::ranges::sort(names_);
    names_.erase(std::ranges::unique(names_).begin(), names_.end());
    std::string near;
    for (const std::string& word : NearWords(name_, names_, 5))
      near += Format("{}'{}'", near.empty() ? "" : ", ", word);
    return NotFound("There is no instruction '{}' in the module, before or after the passes{}.", name_,
                    near.empty() ? "" : "; near ones are " + near);
  }

 private:
  static std::string StateOf(const Instruction& i) {
    std::string out = Format("{} {}(", i.shape().ToString(false), OpcodeName(i.opcode()));
    for (std::size_t o = 0; o < i.operand_count(); ++o) out += Format("{}{}", o > 0 ? ", " : "", i.operand(o)->name());
    return out + ")";
  }

  const std::string name_;
  std::vector<std::string> names_;
  std::string state_, origin_;
  Explanation::Story story_;
};

std::string NameOf(const plan::ValueRef& v) {
  return v.instruction->shape().IsTuple() ? Format("{}.{}", v.instruction->name(), v.leaf) : v.instruction->name();
}

class Explainer {
 public:
  Explainer(const plan::ProgramPlan& plan, const plan::PlanLog& log, const EmittedKernels* emitted, Explanation& out)
      : plan_(plan), log_(log), emitted_(emitted), out_(out) {
    for (const plan::LoggedGroup& group : log.groups) {
      group_of_launch_.emplace(group.instruction, &group);
      for (const Instruction* i : group.made) maker_.emplace(i, &group);
    }
    for (const plan::LoggedRowGroup& group : log.row_groups) {
      std::string& said = rows_[group.kernels.front()];
      said += (said.empty() ? "" : " ") + plan::Says(group);
    }
  }

  void Run() {
    Visit(plan_.steps, false);
    for (const plan::StepList& callee : plan_.callees) Visit(callee, false);
    Values();
    Arena();
  }

 private:
  void Visit(const plan::StepList& list, bool in_loop_kernel) {
    for (const plan::Step& step : list.steps) {
      if (const auto* launch = std::get_if<plan::LaunchStep>(&step)) Launch(*launch, in_loop_kernel);
      if (const auto* group = std::get_if<plan::RowGroupStep>(&step)) Group(*group, in_loop_kernel);
      if (std::holds_alternative<plan::CopyStep>(step) && !in_loop_kernel) ++out_.copies;
      if (const auto* loop = std::get_if<plan::WhileStep>(&step)) Loop(*loop, in_loop_kernel);
      if (const auto* conditional = std::get_if<plan::ConditionalStep>(&step)) {
        Explanation::Kernel& made = Control(*conditional->instruction, in_loop_kernel);
        if (emitted_ != nullptr && !in_loop_kernel) {
          ++out_.waits;
          made.reason = "The host reads which branch is taken.";
        }
        for (const auto& branch : conditional->branches) Visit(*branch, in_loop_kernel);
      }
      if (const auto* call = std::get_if<plan::CallStep>(&step)) Control(*call->instruction, in_loop_kernel);
    }
  }

  // The rows of a group may fall into several steps: its kernels are told of once.
  void Group(const plan::RowGroupStep& group, bool in_loop_kernel) {
    if (grouped_.insert(group.launches.front().instruction).second)
      for (const plan::BlockLaunch& launch : group.launches) Launch(launch, in_loop_kernel);
    last_ = nullptr;
  }

  void Loop(const plan::WhileStep& loop, bool in_loop_kernel) {
    Explanation::Kernel& made = Control(*loop.instruction, in_loop_kernel);
    if (emitted_ != nullptr && !in_loop_kernel) {
      if (const auto found = emitted_->loops.find(&loop); found != emitted_->loops.end()) {
        const std::vector<spirv::EmittedLoop::Launch>& launches = found->second.launches;
        made.variant = launches.front().kernel.variant;
        made.variant_reason = launches.front().kernel.reason;
        made.launches = static_cast<int>(launches.size());
        out_.launches += made.launches;
        in_loop_kernel = true;
      } else {
        if (const auto why = emitted_->loop_refusals.find(&loop); why != emitted_->loop_refusals.end())
          made.reason = Format("No kernel does all turns. {}", why->second);
        if (!loop.trip_count) {
          ++out_.uncounted_loops;
          made.reason += made.reason.empty() ? "" : " ";
          made.reason +=
              "The number of turns is not known before the run, so that the host reads the condition of each.";
        }
      }
    }
    Visit(*loop.condition, in_loop_kernel);
    Visit(*loop.body, in_loop_kernel);
  }

  Explanation::Kernel& Control(const Instruction& i, bool in_loop_kernel) {
    Explanation::Kernel& made = Add(i, in_loop_kernel);
    made.family = OpcodeName(i.opcode());
    return made;
  }

  // The kernel of the group that ends in `i`, with all that does not depend on the launch.
  Explanation::Kernel& Add(const Instruction& i, bool in_loop_kernel) {
    Explanation::Kernel& out = out_.kernels.emplace_back();
    out.name = i.name();
    out.computation = i.parent()->name();
    out.place = emitted_ == nullptr ? "cpu" : "device";
    if (in_loop_kernel) out.reason = "It is part of a loop that is one kernel.";
    if (const auto rows = rows_.find(&i); rows != rows_.end()) out.rows = rows->second;
    std::vector<const plan::LoggedGroup*> groups;
    const auto one = log_.horizontal.find(&i);
    for (const Instruction* part : one != log_.horizontal.end() ? one->second : std::vector{&i})
      if (const auto found = group_of_launch_.find(part);
          found != group_of_launch_.end() && !std::ranges::contains(groups, found->second))
        groups.push_back(found->second);
    for (const plan::LoggedGroup* group : groups) AddGroup(*group, groups, out);
    return out;
  }
  // `together`: the groups of the same launch.
  void AddGroup(const plan::LoggedGroup& group, const std::vector<const plan::LoggedGroup*>& together,
                Explanation::Kernel& out) const {
    for (const Instruction* member : group.members) out.instructions.push_back(member->name());
    for (const Instruction* made : group.made) out.makes.push_back(made->name());
    for (const Instruction* read : group.reads) {
      out.reads.push_back(read->name());
      if (const auto maker = maker_.find(read);
          maker != maker_.end() && !std::ranges::contains(together, maker->second))
        out.apart.push_back(
            {read->name(), maker->second->instruction->name(), plan::WhyApart(log_, *maker->second, group, *read)});
    }
  }

  void Launch(const plan::LaunchStep& launch, bool in_loop_kernel) {
    const auto k = static_cast<std::size_t>(launch.kernel);
    if (!in_loop_kernel) ++out_.launches;
    // A concatenate has a launch for each operand, one after the other.
    const bool is_next = !out_.kernels.empty() && last_ == launch.instruction;
    Explanation::Kernel& out = is_next ? out_.kernels.back() : Add(*launch.instruction, in_loop_kernel);
    last_ = launch.instruction;
    if (!in_loop_kernel) ++out.launches;
    const ProfiledStep step = DescribeStep(plan_, launch);
    out.family = step.family;
    out.op_name = step.op_name;
    out.source = step.source;
    out.flops += step.flops;
    out.bytes += step.bytes;
    const auto* host = std::get_if<plan::HostKernel>(&plan_.kernels[k].body);
    if (emitted_ != nullptr && !in_loop_kernel) {
      if (const auto& program = emitted_->programs[k]) {
        out.variant = program->kernels.front().variant;
        out.variant_reason = program->kernels.front().reason;
        return;
      }
      out.place = "cpu";
      out.reason = emitted_->refusals[k];
      ++out_.waits;
    }
    if (host == nullptr) return;
    out.place = "host";
    const auto why = log_.host.find(host->instruction);
    if (why == log_.host.end()) return;
    out.reason = Format("{}{}{}", out.reason, out.reason.empty() ? "" : " ", plan::Says(why->second));
  }

  void Values() {
    std::unordered_map<plan::ValueRef, plan::Slice, plan::ValueRefHash> place;
    std::vector<plan::ValueRef> order;
    for (const plan::PlanLog::Place& p : log_.places)
      if (auto [it, fresh] = place.insert_or_assign(p.value, p.slice); fresh) order.push_back(p.value);
    std::unordered_map<int, plan::PlanLog::Life> life;
    for (const plan::PlanLog::Life& l : log_.lives) life.emplace(l.allocation, l);
    std::map<std::pair<int, int64_t>, std::vector<std::string>> sharing;
    for (const plan::ValueRef& v : order) sharing[{place[v].allocation, place[v].offset}].push_back(NameOf(v));
    for (const plan::ValueRef& v : order) {
      const plan::Slice& slice = place[v];
      const plan::Allocation& a = plan_.allocations[static_cast<std::size_t>(slice.allocation)];
      Explanation::Value& out = out_.values.emplace_back();
      out.name = NameOf(v);
      out.shape = plan::LeafShape(v).ToString(false);
      out.bytes = slice.size;
      out.place = PlaceName(a);
      if (a.kind == plan::Allocation::Kind::kArena) out.offset = a.offset + slice.offset;
      if (const auto found = life.find(slice.allocation); found != life.end()) {
        out.first = found->second.first;
        out.last = found->second.last;
      }
      for (const std::string& name : sharing[{slice.allocation, slice.offset}])
        if (name != out.name) out.shares.push_back(name);
    }
  }

  static std::string PlaceName(const plan::Allocation& a) {
    using Kind = plan::Allocation::Kind;
    switch (a.kind) {
      case Kind::kArgument: return Format("argument {}", a.number);
      case Kind::kResult: return Format("result {}", a.number);
      case Kind::kConstant: return Format("constant {}", a.number);
      case Kind::kState: return Format("state {}", a.number);
      case Kind::kArena: return "arena";
      case Kind::kDeviceId: return "device id";
      case Kind::kBlock: return "block";
    }
    return "";
  }

  void Arena() {
    std::map<int, int64_t> change;
    int last = 0;
    for (const plan::PlanLog::Life& l : log_.lives) {
      const int64_t bytes =
          RoundUp(plan_.allocations[static_cast<std::size_t>(l.allocation)].size, plan::kArenaAlignment);
      change[l.first] += bytes;
      change[l.last + 1] -= bytes;
      last = std::max(last, l.last);
    }
    std::map<int, std::string> kernel;
    for (const plan::PlanLog::NumberedStep& s : log_.launches) {
      kernel[s.number] = s.instruction->name();
      last = std::max(last, s.number);
    }
    int64_t live = 0, most = -1;
    for (int n = 1; n <= last; ++n) {
      if (const auto found = change.find(n); found != change.end()) live += found->second;
      const auto name = kernel.find(n);
      out_.steps.push_back({n, name == kernel.end() ? "" : name->second, live});
      if (live > most) most = live, out_.peak_step = n;
    }
  }

  const plan::ProgramPlan& plan_;
  const plan::PlanLog& log_;
  const EmittedKernels* emitted_;
  Explanation& out_;
  const Instruction* last_ = nullptr;
  std::unordered_map<const Instruction*, const plan::LoggedGroup*> group_of_launch_, maker_;
  std::unordered_map<const Instruction*, std::string> rows_;
  std::unordered_set<const Instruction*> grouped_;
};

}  // namespace

Result<Explanation> Explain(std::unique_ptr<Module> module, const DeviceDescription& device,
                            const ExplainOptions& options) {
  Explanation out;
  out.module = module->name();
  out.device = device.description;
  CompileReport report;
  Storyteller story(*module, options.instruction);
  FrontEnd front_end(std::move(module), options.compile, report, device.target);
  KRAFLA_TRY(front_end.Optimize({}, [&](const PassInfo& pass, Module& now, bool changed, double) -> Result<> {
    if (changed && !options.instruction.empty()) story.See(pass.name, now);
    return {};
  }));
  if (!options.instruction.empty()) { KRAFLA_ASSIGN(out.story, std::move(story).Finish(front_end.module())); }
  std::optional<DeviceProfile> profile;
  if (device.profile) {
    KRAFLA_ASSIGN(profile, device.profile->WithDisabled(FeaturesOff(front_end.module(), options.compile)));
  }
  plan::PlanLog log;
  KRAFLA_ASSIGN(const plan::ProgramPlan plan, front_end.Plan(profile ? &*profile : nullptr, &log));
  std::optional<EmittedKernels> emitted;
  if (profile) {
    KRAFLA_ASSIGN(emitted, EmitKernels(plan, *profile, options.compile));
    ReportPlacement(plan, *emitted, report);
  } else {
    report.device_instructions = report.instructions;
  }
  out.instructions = report.instructions;
  out.device_instructions = report.device_instructions;
  out.arena_bytes = plan.arena_size;
  out.peak_live_bytes = plan.peak_live_bytes;
  Explainer(plan, log, emitted ? &*emitted : nullptr, out).Run();
  return out;
}

}  // namespace krafla
