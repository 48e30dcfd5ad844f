// SPDX-License-Identifier: Apache-2.0
#include "plugins/pjrt/program.h"

#include <algorithm>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include "api/op_sharding.h"
#include "api/program_cost.h"
#include "api/read_program.h"
#include "plugins/pjrt/custom_partitioner.h"
#include "plugins/pjrt/element_types.h"
#include "plugins/pjrt/fingerprint.h"
#include "plugins/pjrt/inspect_sharding.h"
#include "plugins/pjrt/python_callback_calls.h"

namespace krafla::pjrt {
namespace {

// HloModuleProtoWithConfig (xla/service/hlo.proto): the module is field 1.
Result<std::string_view> ModuleWithin(std::string_view bytes) {
  try {
    protozero::pbf_reader reader(bytes.data(), bytes.size());
    while (reader.next()) {
      if (reader.tag() == 1) {
        const protozero::data_view view = reader.get_view();
        return std::string_view(view.data(), view.size());
      }
      reader.skip();
    }
  } catch (const protozero::exception& e) {
    return InvalidArgument("The program is no HloModuleProtoWithConfig: {}.", e.what());
  }
  return InvalidArgument("The HloModuleProtoWithConfig holds no module.");
}

// HloModuleProtoWithConfig: readers want the entry's layout in HloModuleConfigProto too, where HloModuleProto has it as
// host_program_shape.
Result<std::string> WithConfig(const Module& module) {
  KRAFLA_ASSIGN(const std::string proto, SerializeProgram(module));
  std::string out;
  try {
    protozero::pbf_writer both(out);
    both.add_message(1, proto);
    protozero::pbf_writer config(both, 2);
    protozero::pbf_reader reader(proto);
    while (reader.next()) {
      if (reader.tag() == 4) {
        config.add_message(1, reader.get_view());
      } else {
        reader.skip();
      }
    }
    config.add_int64(4, module.replica_count);
    config.add_int64(5, module.num_partitions);
  } catch (const protozero::exception& e) { return Internal("The module's own proto is damaged: {}.", e.what()); }
  return out;
}

// Memory space 5 of XLA's layouts.
std::vector<bool> ResultsOnHost(const Module& module) {
  std::vector<bool> out;
  if (module.entry_layout_result)
    for (const Shape* leaf : TupleLeaves(*module.entry_layout_result))
      out.push_back(leaf->layout().tail.find("S(5)") != std::string::npos);
  return out;
}

}  // namespace

Result<std::unique_ptr<Module>> Program::Read() const {
  std::string_view code = source_.code;
  if (source_.format == "hlo_with_config") {
    KRAFLA_ASSIGN(code, ModuleWithin(code));
  } else if (source_.format != "mlir" && source_.format != "hlo") {
    return InvalidArgument("There is no form of programs '{}'; 'mlir', 'hlo' and 'hlo_with_config' are known.",
                           source_.format);
  }
  KRAFLA_ASSIGN(std::unique_ptr<Module> module, ReadProgram(code, source_.format));
  // The options have the last word on how many devices there are.
  module->replica_count = options_.assignment.replicas;
  module->num_partitions = options_.assignment.partitions;
  return module;
}

// Devices for every replica and partition: those that the options name, else the first ones.
Result<> Program::Assign() {
  DeviceAssignment& a = options_.assignment;
  const int64_t count = a.replicas * a.partitions;
  if (a.ids.empty()) {
    const int64_t first = count == 1 && options_.device_ordinal > 0 ? options_.device_ordinal : 0;
    for (int64_t i = 0; i < count; ++i) a.ids.push_back(first + i);
  }
  for (int64_t id : a.ids) {
    PJRT_Device* device = client_.FindDevice(id);
    if (device == nullptr)
      return InvalidArgument("The program is for device {}, but there are {} devices.", id, client_.devices.size());
    if (std::ranges::count(a.ids, id) > 1) return InvalidArgument("The device assignment names device {} twice.", id);
    places_.push_back({device->description.process, device->slot});
    if (device->lane == nullptr) continue;
    logical_ids_.push_back(std::ssize(places_) - 1);
    devices_.push_back(device);
    if (!std::ranges::contains(lanes_, device->lane)) lanes_.push_back(device->lane);
  }
  return {};
}

// For several devices, of which some may be of other processes, and all: then this process knows what the program takes
// and gives, and runs nothing.
Result<> Program::CompileGroup(std::unique_ptr<Module> module, bool from_file) {
  GroupOptions options;
  // What is called back is of the process that has written the program.
  if (!from_file) {
    options.inspect_sharding = TellSharding;
    options.custom_cuts = &RegisteredPartitioners();
  }
  std::vector<std::shared_ptr<Client>> members;
  const bool spans = devices_.size() < places_.size();
  if (spans) {
    members = client_.members;
    options.places = places_;
    options.time_limit = client_.world->time_limit();
  } else {
    for (PJRT_Device* device : devices_) members.push_back(device->lane->shared_client());
  }
  DeviceGroup group(std::move(members));
  if (spans) KRAFLA_TRY(group.Join(client_.world));
  KRAFLA_ASSIGN(group_, group.Compile(std::move(module), compile_, options));
  interface_ = group_->interface();
  report_ = group_->report();
  KRAFLA_ASSIGN(parameter_shardings_, Serialize(group_->parameter_shardings(), parameters().size()));
  KRAFLA_ASSIGN(result_shardings_, Serialize(group_->result_shardings(), results().size()));
  return {};
}

void Program::Describe(const Module& module) {
  calls_user_function_ = CallsUserFunction(module);
  name_ = module.name();
  fingerprint_ = Fingerprint({source_.code, source_.format, source_.options, client_.platform_version});
  const ProgramCost cost = CostOf(module);
  cost_.Add("flops", static_cast<float>(cost.flops));
  cost_.Add("transcendentals", static_cast<float>(cost.transcendentals));
  cost_.Add("bytes accessed", static_cast<float>(cost.bytes_accessed));
  // Parameters are arrays here, one an argument.
  donates_.resize(module.entry()->parameters().size());
  for (const InputOutputAlias& alias : module.input_output_aliases)
    if (alias.parameter >= 0 && alias.parameter < std::ssize(donates_))
      donates_[static_cast<std::size_t>(alias.parameter)] = donates_any_ = true;
  for (const BufferDonor& donor : module.buffer_donors)
    if (donor.parameter >= 0 && donor.parameter < std::ssize(donates_))
      donates_[static_cast<std::size_t>(donor.parameter)] = donates_any_ = true;
}

// A program that says nothing of its arrays has all of each everywhere.
Result<ShardingList> Program::Serialize(const std::vector<std::string>& shardings, std::size_t count) {
  ShardingList out;
  out.bytes.resize(count);
  for (std::size_t i = 0; i < count && i < shardings.size(); ++i) {
    KRAFLA_ASSIGN(out.bytes[i], SerializeOpSharding(shardings[i]));
  }
  for (const std::string& one : out.bytes) {
    out.pointers.push_back(one.data());
    out.sizes.push_back(one.size());
  }
  return out;
}

Result<std::shared_ptr<Program>> Program::Compile(PJRT_Client& client, ProgramSource source, bool from_file) {
  std::shared_ptr<Program> out(new Program(client, std::move(source)));
  KRAFLA_ASSIGN(out->options_, ParseProgramOptions(out->source_.options));
  KRAFLA_TRY(out->Assign());
  KRAFLA_ASSIGN(std::unique_ptr<Module> module, out->Read());
  if (module->entry() == nullptr) return InvalidArgument("The program has no entry computation.");
  const std::vector<bool> on_host = ResultsOnHost(*module);
  out->compile_.lay_out_entry = true;
  out->compile_.enabled = out->options_.enabled;
  out->compile_.disabled = out->options_.disabled;
  out->Describe(*module);
  if (out->places_.size() == 1 && out->devices_.size() == 1) {
    Lane& lane = *out->lanes_[0];
    KRAFLA_ASSIGN(std::unique_ptr<Executable> executable, lane.client().Compile(std::move(module), out->compile_));
    out->interface_ = executable->interface();
    out->report_ = executable->report();
    out->singles_[&lane] = std::move(executable);
  } else {
    KRAFLA_TRY(out->CompileGroup(std::move(module), from_file));
  }
  out->donates_.resize(out->parameters().size());
  for (const Shape& shape : out->parameters()) out->parameter_layouts_.Add(shape);
  for (const Shape& shape : out->results()) out->result_layouts_.Add(shape);
  for (const Shape& shape : out->results()) {
    out->result_types_.push_back(ToPjrtType(shape.element_type()));
    out->result_ranks_.push_back(static_cast<std::size_t>(shape.rank()));
    out->result_dims_.insert(out->result_dims_.end(), shape.dims().begin(), shape.dims().end());
  }
  for (std::size_t i = 0; i < out->results().size(); ++i) {
    out->result_memories_.push_back(i < on_host.size() && on_host[i] ? kHostMemoryId : kDeviceMemoryId);
    const std::string_view kind = out->result_memories_.back() == kHostMemoryId ? kHostMemory : kDeviceMemory;
    out->memory_kinds_.push_back(kind.data());
    out->memory_kind_sizes_.push_back(kind.size());
  }
  return out;
}

// An executable that goes may have to wait for its device. This thread does not: it may hold what a run needs (Python's
// lock, when the run calls back).
Program::~Program() {
  for (auto* executables : {&singles_, &traced_}) {
    for (auto& [lane, executable] : *executables) {
      if (executable != nullptr)
        lane->Post({[gone = std::move(executable)]() mutable { gone.reset(); }, nullptr}, Lane::WhenFull::kPostAnyway);
    }
  }
  if (group_ != nullptr && !lanes_.empty())
    Lane::PostToAll(lanes_, {[gone = std::move(group_)]() mutable { gone.reset(); }, nullptr},
                    Lane::WhenFull::kPostAnyway);
}

// A portable program is compiled for each client that it is run on; any program again after its device was lost.
Result<Executable*> Program::ExecutableOn(Lane& lane) {
  std::lock_guard lock(mutex_);
  std::unique_ptr<Executable>& executable = singles_[&lane];
  if (executable == nullptr || executable->IsLost()) {
    KRAFLA_ASSIGN(std::unique_ptr<Module> module, Read());
    KRAFLA_ASSIGN(executable, lane.client().Compile(std::move(module), compile_));
  }
  return executable.get();
}

Result<DeviceBuffers> Program::Run(Lane& lane, std::vector<DeviceArgument> arguments) {
  if (const std::shared_ptr<Trace> trace = Trace::Recording()) return RunTraced(lane, std::move(arguments), *trace);
  KRAFLA_ASSIGN(Executable* const executable, ExecutableOn(lane));
  return executable->RunOnBuffers(std::move(arguments));
}

// What cannot tell of its steps is run as ever, and the trace says why.
Result<DeviceBuffers> Program::RunTraced(Lane& lane, std::vector<DeviceArgument> arguments, Trace& trace) {
  KRAFLA_ASSIGN(Executable * executable, ExecutableOn(lane));
  std::string note;
  if (!executable->TellsSteps()) {
    std::lock_guard lock(mutex_);
    std::unique_ptr<Executable>& traced = traced_[&lane];
    if (traced == nullptr || traced->IsLost()) {
      CompileOptions options = compile_;
      options.for_profile = true;
      KRAFLA_ASSIGN(std::unique_ptr<Module> module, Read());
      auto compiled = lane.client().Compile(std::move(module), options);
      if (compiled) traced = std::move(*compiled);
      else note = "no steps: " + compiled.error().ToString();
    }
    if (traced != nullptr) executable = traced.get();
  }
  const auto begin = Trace::Clock::now();
  auto out = executable->RunObserved(std::move(arguments),
                                     [&](const ProfiledStep& step, Trace::Clock::time_point step_begin, double ms) {
                                       trace.AddStep(lane.device(), name_, step, step_begin, ms);
                                     });
  trace.AddRun(lane.device(), name_, begin, Trace::Clock::now(), note);
  return out;
}

Result<std::vector<DeviceBuffers>> Program::RunGroup(std::vector<std::vector<DeviceArgument>> arguments) {
  const std::shared_ptr<Trace> trace = Trace::Recording();
  const auto begin = Trace::Clock::now();
  auto out = group_->RunOnBuffers(std::move(arguments));
  if (trace != nullptr)
    for (const Lane* lane : lanes_)
      trace->AddRun(lane->device(), name_, begin, Trace::Clock::now(),
                    "no steps: the program is one of several devices");
  return out;
}

Program::Text Program::OptimizedText() {
  std::lock_guard lock(mutex_);
  if (group_ != nullptr && options_.assignment.partitions > 1) {
    if (!partitioned_) partitioned_ = WithConfig(group_->module()).value_or("");
    if (!partitioned_->empty()) return {*partitioned_, "hlo_with_config"};
  } else if (source_.format == "mlir" && source_.code.find("sdy") != std::string::npos) {
    // JAX's programs for one device may hold shardings of Shardy too, which callers cannot convert.
    if (!partitioned_) {
      partitioned_ = "";
      if (Result<std::unique_ptr<Module>> module = Read()) partitioned_ = WithConfig(**module).value_or("");
    }
    if (!partitioned_->empty()) return {*partitioned_, "hlo_with_config"};
  }
  return {source_.code, source_.format};
}

PJRT_LoadedExecutable* NewLoadedExecutable(std::shared_ptr<Program> program) {
  auto* out = new PJRT_LoadedExecutable{std::move(program), {}, false};
  const int64_t partitions = out->program->options().assignment.partitions;
  for (const int64_t i : out->program->logical_ids())
    out->logical_ids.push_back({static_cast<int32_t>(i / partitions), static_cast<int32_t>(i % partitions)});
  return out;
}

}  // namespace krafla::pjrt
