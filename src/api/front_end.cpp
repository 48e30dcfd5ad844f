// SPDX-License-Identifier: Apache-2.0
#include "api/front_end.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "api/feature_names.h"
#include "api/host/host_services.h"
#include "base/guards.h"
#include "collectives/participants.h"
#include "device/tuning.h"
#include "evaluator/evaluator.h"
#include "ir/packed_elements.h"
#include "passes/entry_layouts.h"
#include "passes/entry_packing.h"
#include "plan/step_runner.h"

namespace krafla {
namespace {

int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// A program for several devices is for groups (api/group/device_group.h), whose members are compiled one by one.
Result<> CheckDevices(const Module& module, bool for_group) {
  if (!for_group && (module.replica_count != 1 || module.num_partitions != 1))
    return InvalidArgument(
        "The program is for {} replicas and {} partitions, and this is one device: compile it for a "
        "group of devices (LocalDeviceGroup).",
        module.replica_count, module.num_partitions);
  return VerifyDevices(module);
}

// Without the passes that the device does not need.
PassOptions PassOptionsFor(const CompileOptions& options, const CompileTarget& target) {
  PassOptions out;
  out.disabled = options.disabled;
  if (options.ahead_of_time) {
    // The weights of a large model, transposed; some ten seconds at most.
    out.fold_work_limit = int64_t{1} << 30;
    out.fold_module_work_limit = int64_t{1} << 32;
  }
  if (target.takes_dilated_convolutions) out.disabled.insert("dilated_convolution_expander");
  out.folds_windows = target.folds_windows;
  if (target.runs_steps_at_once) out.disabled.insert("call_roller");
  if (!target.reduces_columns_faster) out.disabled.insert("interleaved_reduction_expander");
  // Without row groups the scores of the backward pass would be stored as those of the forward pass are.
  if (!target.runs_row_groups || options.disabled.contains("row-groups"))
    out.disabled.insert({"product_recomputer", "residual_recomputer"});
  return out;
}

// Whether `leaves` are what passes make of those that callers see: bounds in the place of dynamic dimensions, and their
// sizes behind all others (passes/entry_interface.h).
bool AreLeavesOf(const std::vector<const Shape*>& leaves, const std::vector<Shape>& seen) {
  std::vector<Shape> expected;
  for (const Shape& s : seen) expected.push_back(s.IsArray() ? s.WithStaticDims() : s);
  for (const Shape& s : seen)
    for (int64_t d = 0; d < s.rank(); ++d)
      if (s.IsDynamicDim(d)) expected.push_back(Shape::MakeScalar(ElementType::kS32));
  // With packed elements, but for models that were compiled before there were any.
  return std::ranges::equal(leaves, expected, [](const Shape* a, const Shape& b) {
    return Shape::Compatible(*a, b) || (IsPackable(b) && Shape::Compatible(*a, PackedShape(b)));
  });
}

// What no kernel takes is for the evaluator, which not every build has.
Result<> CheckEvaluated(const plan::ProgramPlan& plan) {
  if (EvaluatesInstructions()) return {};
  for (const plan::KernelPlan& kernel : plan.kernels)
    if (const auto* host = std::get_if<plan::HostKernel>(&kernel.body))
      if (host->instruction->opcode() != Opcode::kCustomCall)
        return Unimplemented("{} has no kernel, and this build of krafla (KRAFLA_RUNTIME_ONLY) has no evaluator.",
                             Describe(*host->instruction));
  return {};
}

// Arguments and results are checked by the one and run by the other.
Result<> CheckInterface(const Module& optimised, const EntryInterface& interface) {
  std::vector<const Shape*> arguments;
  for (const Instruction* p : optimised.entry()->parameters())
    for (const Shape* leaf : TupleLeaves(p->shape())) arguments.push_back(leaf);
  if (AreLeavesOf(arguments, interface.arguments) &&
      AreLeavesOf(TupleLeaves(optimised.entry()->root()->shape()), interface.results))
    return {};
  return InvalidArgument("The compiled model '{}' is damaged: its program has other arguments or results than it says.",
                         optimised.name());
}

// The edges get the layouts that arrays have. Packed arrays are dense, whatever the header promises of what is in them.
void ApplyPackedEdges(const EntryInterface& interface, plan::ProgramPlan& plan, PackedEdges& edges) {
  if (edges.IsEmpty()) return;
  interface.ApplyLayouts(edges.arguments, edges.results);
  bool any = false;
  const auto apply = [&](std::vector<Shape>& seen, std::vector<Shape>& kept) {
    for (std::size_t n = 0; n < std::min(seen.size(), kept.size()); ++n) {
      if (seen[n].element_type() == kept[n].element_type()) continue;
      kept[n].ClearLayout();
      any = true;
    }
  };
  apply(edges.arguments, plan.arguments);
  apply(edges.results, plan.results);
  if (!any) edges = {};
}

}  // namespace

Stopwatch::Stopwatch() : start_(Now()) {}
double Stopwatch::Milliseconds() const { return static_cast<double>(Now() - start_) * 1e-6; }

FrontEnd::FrontEnd(std::unique_ptr<Module> module, const CompileOptions& options, CompileReport& report,
                   const CompileTarget& target)
    : module_(std::move(module)), options_(options), report_(report), target_(target) {}

Result<> FrontEnd::Check() {
  KRAFLA_TRY(CheckFeatureNames(options_));
  KRAFLA_TRY(Verify(*module_));
  if (!module_->optimised.empty()) return TakeOptimised();
  KRAFLA_TRY(CheckDevices(*module_, options_.for_group));
  KRAFLA_TRY(CheckBuiltInCalls(*module_, CustomCallsOf(options_)));
  if (options_.lay_out_entry) {
    KRAFLA_ASSIGN(interface_, LayOutEntry(*module_));
  } else {
    interface_ = EntryInterface::Of(*module_);
  }
  const bool is_alone = module_->replica_count == 1 && module_->num_partitions == 1;
  return target_.packs_elements && options_.pack_elements && is_alone ? PackElements() : Result<>();
}

Result<> FrontEnd::PackElements() {
  PackedEdges edges = PackedEdges::Of(*module_);
  KRAFLA_TRY(PackEntry(*module_));
  packed_edges_ = std::move(edges);
  return {};
}

Result<> FrontEnd::TakeOptimised() {
  if (options_.lay_out_entry) return Unimplemented("The compiled model '{}' takes row-major arrays.", module_->name());
  for (const std::string& name : options_.disabled)
    if (FindPass(name))
      return FailedPrecondition("The pass '{}' cannot be switched off: the compiled model '{}' has been through it.",
                                name, module_->name());
  interface_ = EntryInterface::Of(*module_);
  PackedEdges edges = PackedEdges::Of(*module_);
  std::string targets;
  for (const OptimisedModule& o : module_->optimised) {
    for (const std::string& target : o.targets) targets += Format("{}{}", targets.empty() ? "" : ", ", target);
    if (std::ranges::find(o.targets, target_.name) == o.targets.end()) continue;
    module_ = o.module->Clone();
    KRAFLA_TRY(Verify(*module_));
    KRAFLA_TRY(CheckDevices(*module_, false));
    KRAFLA_TRY(CheckBuiltInCalls(*module_, CustomCallsOf(options_)));
    KRAFLA_TRY(CheckInterface(*module_, interface_));
    packed_edges_ = std::move(edges);
    return {};
  }
  return NotFound("The compiled model '{}' has no program for {}, only for {}: compile it with --for {}.",
                  module_->name(), target_.name, targets, target_.name);
}

Result<> FrontEnd::Optimize(std::span<const std::string> passes, const PassObserver& observer) {
  Stopwatch time;
  const bool is_compiled = !module_->optimised.empty();
  if (is_compiled && !passes.empty())
    return FailedPrecondition("The compiled model '{}' has been through the passes.", module_->name());
  KRAFLA_TRY(Check());
  if (is_compiled) {
    report_.passes_ms += time.Milliseconds();
    return {};
  }
  const PassOptions pass_options = PassOptionsFor(options_, target_);
  KRAFLA_TRY(passes.empty() ? RunPipeline(*module_, pass_options, observer)
                            : RunPasses(*module_, passes, pass_options, observer));
  report_.passes_ms += time.Milliseconds();
  return {};
}

// The blocks of row groups on a Vulkan device, which are launches one after the other, and its rows before products.
static Result<> SetRows(const DeviceProfile& profile, plan::PlanOptions& options) {
  KRAFLA_ASSIGN(const Tuning tuning, TuningAskedFor(profile));
  options.rows_in_products = tuning.dot.row_share > 0;
  options.joins_in_loops = true;
  plan::RowGroupOptions& out = options.row_groups;
  out.block_bytes = tuning.rows.block_bytes;
  out.most_blocks = tuning.rows.most_blocks;
  // A branch that the host chooses makes it wait for the device, which is little where the device is the host itself.
  if (!profile.is_cpu) out.bounded_parts = 0;
  // Products of 512 terms and reductions of more than 64 elements a lane are sums of chains
  // (spirv_codegen/kernels/wide_sum.h).
  out.sums_in_runs = false;
  out.short_sum = std::max<int64_t>(512, int64_t{64} * profile.limits.subgroup_size);
  // Of the buffers of a kernel (spirv_codegen/emit.h), and of descriptors.
  out.alignment = 16;
  if (!profile.features.buffer_device_address)
    out.alignment = std::max<int64_t>(16, static_cast<int64_t>(profile.limits.min_storage_buffer_offset_alignment));
  return {};
}

bool TakesAttentionOnCpu(const plan::KernelPlan& kernel, const DeviceProfile*) {
  constexpr int64_t kLeastScores = 4096;
  const auto& attention = std::get<plan::AttentionKernel>(kernel.body);
  const int64_t scores = Product(attention.scores->batch) * attention.scores->m * attention.scores->n;
  int64_t bytes = 0;
  const std::vector<plan::KernelPlan> parts = plan::PartsOfAttention(kernel, attention);
  for (std::size_t b = kernel.bindings.size(); b < parts.back().bindings.size(); ++b)
    bytes += parts.back().bindings[b].byte_size();
  return scores >= kLeastScores && bytes < plan::RowGroupOptions().least_saved;
}

// How collectives go on while kernels run: rough figures of a device of either kind, which only decide how kernels are
// ordered and which collectives are handed to another thread.
static plan::OverlapOptions OverlapFor(const CompileOptions& options, const DeviceProfile* profile) {
  plan::OverlapOptions out;
  out.enabled = options.for_group && !options.disabled.contains("overlap");
  if (options.enabled.contains(std::string(kOverlapAll))) out.least_hidden_ns = 0;
  if (profile == nullptr || profile->is_cpu) return out;
  out.exchange_ns_per_byte = 0.1;  // a bus of 10 GB/s
  out.ns_per_flop = 2e-4, out.ns_per_byte = 4e-3;
  return out;
}

Result<plan::ProgramPlan> FrontEnd::Plan(const DeviceProfile* profile, plan::PlanLog* log) {
  Stopwatch checks;
  KRAFLA_TRY(CheckCustomCalls(*module_, CustomCallsOf(options_), target_.runs_spirv));
  KRAFLA_ASSIGN(VerifiedModule verified, VerifiedModule::Make(std::move(module_)));
  report_.passes_ms += checks.Milliseconds();

  Stopwatch planning;
  plan::PlanOptions plan_options;
  plan_options.guards = GuardsInUse();
  plan_options.fusion.log = log;
  plan_options.fusion.fuse = !options_.disabled.contains("fusion");
  plan_options.fusion.computed_operands = target_.computes_operands;
  plan_options.fusion.stores_gathered_pads = target_.copies_rows;
  plan_options.fusion.stores_window_values = target_.folds_windows;
  plan_options.fusion.side_by_side = target_.side_by_side;
  plan_options.fusion.overlap = OverlapFor(options_, profile);
  plan_options.row_groups.enabled = target_.runs_row_groups && !options_.disabled.contains("row-groups");
  plan_options.row_groups.limits_added_masks = profile == nullptr;
  if (profile != nullptr) KRAFLA_TRY(SetRows(*profile, plan_options));
  if (target_.takes_attention != nullptr && plan_options.row_groups.enabled)
    plan_options.row_groups.takes_attention = [&](const plan::KernelPlan& kernel) {
      return target_.takes_attention(kernel, profile);
    };
  if (target_.takes_horizontal != nullptr && plan_options.fusion.fuse)
    plan_options.takes_horizontal = [&](const plan::KernelPlan& kernel) {
      return target_.takes_horizontal(kernel, profile);
    };
  // Descriptors are counted, addresses are not.
  if (profile != nullptr && !profile->features.buffer_device_address)
    plan_options.fusion.buffer_limit = static_cast<int>(
        std::min<uint32_t>(profile->limits.max_per_stage_storage_buffers, std::numeric_limits<int>::max()));
  KRAFLA_ASSIGN(plan::ProgramPlan plan, plan::PlanProgram(std::move(verified), plan_options));
  KRAFLA_TRY(CheckEvaluated(plan));
  interface_.ApplyLayouts(plan.arguments, plan.results);
  ApplyPackedEdges(interface_, plan, packed_edges_);
  report_.plan_ms += planning.Milliseconds();
  report_.instructions = plan.instruction_count;
  report_.kernels = static_cast<int>(plan.kernels.size());
  report_.arena_bytes = plan.arena_size;
  report_.peak_live_bytes = plan.peak_live_bytes;
  plan::ForEachLaunch(plan, [&](const plan::LaunchStep& launch) {
    ++report_.launches;
    const plan::KernelPlan& kernel = plan.kernels[static_cast<std::size_t>(launch.kernel)];
    if (!std::holds_alternative<plan::HostKernel>(kernel.body) || !IsBetweenDevices(launch.instruction->opcode()))
      return;
    ++report_.exchanges;
    report_.exchange_instructions += launch.instruction_count;
  });
  return plan;
}

Result<plan::ProgramPlan> OptimizeAndPlan(std::unique_ptr<Module> module, const CompileOptions& options,
                                          CompileReport& report) {
  CompileOptions unpacked = options;
  unpacked.pack_elements = false;
  FrontEnd front_end(std::move(module), unpacked, report, kCpuTarget);
  KRAFLA_TRY(front_end.Optimize());
  return front_end.Plan(nullptr);
}

Result<Literal> CopyOf(const Literal& literal) {
  if (literal.shape().IsArray()) return Literal::FromBytes(literal.shape(), literal.bytes());
  KRAFLA_ASSIGN(Literal out, Literal::CreateUninitialized(literal.shape()));
  for (std::size_t e = 0; e < literal.elements().size(); ++e) {
    KRAFLA_ASSIGN(out.elements()[e], CopyOf(literal.elements()[e]));
  }
  return out;
}

static Result<> CheckCount(std::size_t given, const std::vector<Shape>& shapes) {
  if (given == shapes.size()) return {};
  return InvalidArgument("The module takes {} arguments, {} were given.", shapes.size(), given);
}

static Result<> CheckShape(std::size_t number, const Shape& got, const Shape& wanted) {
  if (got.element_type() == wanted.element_type() && got.dims() == wanted.dims()) return {};
  return InvalidArgument("Argument {} is {}, the module takes {}.", number, got.ToString(false),
                         wanted.ToString(false));
}

Result<> CheckArguments(std::span<const Literal* const> arguments, const std::vector<Shape>& shapes) {
  KRAFLA_TRY(CheckCount(arguments.size(), shapes));
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    if (arguments[i] == nullptr) return InvalidArgument("Argument {} is missing.", i);
    KRAFLA_TRY(CheckShape(i, arguments[i]->shape(), shapes[i]));
  }
  return {};
}

Result<> CheckBuffers(std::span<const DeviceArgument> arguments, const std::vector<Shape>& shapes) {
  KRAFLA_TRY(CheckCount(arguments.size(), shapes));
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    if (arguments[i].buffer == nullptr) return InvalidArgument("Argument {} is missing.", i);
    KRAFLA_TRY(CheckShape(i, arguments[i].buffer->shape(), shapes[i]));
  }
  return {};
}

}  // namespace krafla
