// SPDX-License-Identifier: Apache-2.0
#include "api/vulkan_executable.h"

#include <unistd.h>

#include <algorithm>
#include <limits>

#include "api/front_end.h"
#include "base/checked_math.h"
#include "base/host_memory.h"
#include "collectives/participants.h"
#include "cpu_fallback/executor/host_threads.h"

namespace krafla {
namespace {

constexpr std::size_t kArena = 0, kConstants = 1, kScratch = 2, kDeviceIds = 3, kFirstArgument = 4;
constexpr uint64_t kImportFrom = 1 << 20;   // bytes of an argument that is worth an import
constexpr uint64_t kAlignment = 256;  // the largest minStorageBufferOffsetAlignment that the specification allows

// std::bad_alloc is turned into an error further up.
Result<AlignedBytes> HostBytes(uint64_t size) {
  if (!HostHasRoom(size)) return ResourceExhausted("The host has no memory for {} bytes of the device's.", size);
  return AlignedBytes(static_cast<std::size_t>(size));
}

uint64_t BufferBytes(const Shape& shape) { return std::max<uint64_t>(static_cast<uint64_t>(shape.byte_size()), 16); }

// For cutting submissions, so that no watchdog fires: rather too much than too little.
double EstimatedMs(const plan::KernelPlan& kernel, bool is_cpu) {
  double flops_per_ms = is_cpu ? 5e6 : 2e8, bytes_per_ms = is_cpu ? 1e6 : 2e7;
  return std::max(kernel.flops / flops_per_ms, kernel.bytes / bytes_per_ms);
}

// The kernel of a custom call, or null.
const CustomCallKernel* CustomKernelOf(const plan::KernelPlan& kernel, const CustomCallRegistry& custom_calls) {
  const auto* host = std::get_if<plan::HostKernel>(&kernel.body);
  if (host == nullptr || host->instruction->opcode() != Opcode::kCustomCall) return nullptr;
  return custom_calls.FindKernel(host->instruction->attr<CustomCallAttributes>().target);
}

// A custom kernel as if it had been generated here.
Result<spirv::EmittedProgram> WrapCustomKernel(const plan::KernelPlan& plan, const CustomCallKernel& kernel) {
  const Instruction& call = *std::get<plan::HostKernel>(plan.body).instruction;
  const std::string& target = call.attr<CustomCallAttributes>().target;
  std::vector<Shape> arrays;
  auto add = [&](const Shape& shape) {
    for (const Shape* leaf : TupleLeaves(shape))
      if (leaf->IsArray()) arrays.push_back(*leaf);
  };
  for (const Instruction* o : call.operands()) add(o->shape());
  const std::size_t first_result = arrays.size();
  add(call.shape());
  spirv::EmittedProgram out;
  spirv::EmittedKernel& made = out.kernels.emplace_back();
  made.words = kernel.spirv;
  made.variant = "custom";
  const std::size_t count = kernel.bindings.empty() ? arrays.size() : kernel.bindings.size();
  for (std::size_t i = 0; i < count; ++i) {
    const int array = kernel.bindings.empty() ? static_cast<int>(i) : kernel.bindings[i];
    if (array < 0 || static_cast<std::size_t>(array) >= arrays.size() ||
        static_cast<std::size_t>(array) >= plan.bindings.size())
      return InvalidArgument("{}: the kernel of custom call '{}' binds array {} of {}.", call.name(), target, array,
                             arrays.size());
    made.buffers.push_back({array, true, plan.bindings[static_cast<std::size_t>(array)].written});
  }
  spirv::EmittedDispatch dispatch;
  if (kernel.grid) {
    dispatch.grid = kernel.grid(arrays);
  } else if (first_result < arrays.size()) {
    const int64_t groups = CeilDiv(arrays[first_result].element_count(), kernel.elements_per_workgroup);
    if (groups > std::numeric_limits<uint32_t>::max())
      return InvalidArgument("{}: the kernel of custom call '{}' would need {} workgroups.", call.name(), target, groups);
    dispatch.grid[0] = static_cast<uint32_t>(groups);
  }
  out.dispatches.push_back(std::move(dispatch));
  return out;
}

}  // namespace

bool VulkanExecutable::UsesCustomKernels(const plan::ProgramPlan& plan, const CustomCallRegistry& custom_calls) {
  for (const plan::KernelPlan& kernel : plan.kernels)
    if (CustomKernelOf(kernel, custom_calls) != nullptr) return true;
  return false;
}

VulkanExecutable::~VulkanExecutable() {
  for (std::size_t a = 0; a < imported_.size(); ++a) ReleaseArgument(a);
}

Result<std::unique_ptr<Executable>> VulkanExecutable::Create(std::shared_ptr<vk::Device> device,
                                                             const DeviceProfile& profile, plan::ProgramPlan plan,
                                                             const CompileOptions& options, CompileReport report,
                                                             const std::string& description,
                                                             std::unique_ptr<HostServices> services) {
  auto shared = std::make_shared<Shared>();
  shared->plan = std::move(plan);
  auto out = std::unique_ptr<VulkanExecutable>(new VulkanExecutable(std::move(shared)));
  out->device_ = std::move(device);
  out->report_ = std::move(report);
  out->device_description_ = description;
  out->services_ = std::move(services);
  Stopwatch emit;
  KRAFLA_TRY(out->EmitKernels(profile, options));
  out->report_.emit_ms = emit.Milliseconds();
  Stopwatch pipelines;
  KRAFLA_TRY(out->AllocateBuffers());
  KRAFLA_TRY(out->CreatePipelines());
  KRAFLA_TRY(out->BuildNodes(out->plan_.steps, out->nodes_, out->CopiesOfDonated()));
  // The other members of a group are made from it.
  if (!options.for_group) out->DropWhatIsCompiled();
  out->report_.pipeline_ms = pipelines.Milliseconds();
  return out;
}

Result<> VulkanExecutable::Join(const EvaluatorHost* host, int64_t) {
  std::unique_ptr<HostServices> services = services_->For(*host);
  services_.swap(services);
  KRAFLA_TRY(CompileHostKernels());
  for (const plan::Allocation& a : plan_.allocations) {
    if (a.kind != plan::Allocation::Kind::kDeviceId) continue;
    const auto id = static_cast<uint32_t>(a.number == 0 ? host->replica : host->partition);
    KRAFLA_TRY(device_->Upload(*buffers_[kDeviceIds], static_cast<uint64_t>(a.number) * kAlignment,
                               std::as_bytes(std::span(&id, 1))));
  }
  return {};
}

Result<std::unique_ptr<Executable>> VulkanExecutable::Another(const EvaluatorHost* host, int64_t devices) const {
  auto out = std::unique_ptr<VulkanExecutable>(new VulkanExecutable(shared_));
  out->device_ = device_;
  out->report_ = report_;
  out->device_description_ = device_description_;
  out->services_ = services_->For(*host);
  KRAFLA_TRY(out->AllocateBuffers());
  KRAFLA_TRY(out->Join(host, devices));
  KRAFLA_TRY(out->BuildNodes(plan_.steps, out->nodes_, out->CopiesOfDonated()));
  return out;
}

// The kernels that no device code was emitted for.
Result<> VulkanExecutable::CompileHostKernels() {
  int64_t host_scratch = 0;
  host_kernels_.resize(plan_.kernels.size());
  for (std::size_t k = 0; k < plan_.kernels.size(); ++k) {
    if (emitted_[k]) continue;
    CpuKernelOptions cpu;
    cpu.threads = SharedThreadPool().threads();
    cpu.evaluator = services_->evaluator_options();
    KRAFLA_ASSIGN(host_kernels_[k], CompileKernel(plan_.kernels[k], cpu));
    host_scratch = std::max(host_scratch, host_kernels_[k]->scratch_bytes());
  }
  KRAFLA_ASSIGN(host_scratch_, HostBytes(static_cast<uint64_t>(host_scratch)));
  return {};
}

Result<> VulkanExecutable::EmitKernels(const DeviceProfile& profile, const CompileOptions& options) {
  spirv::EmitOptions emit_options;
  emit_options.enable_cooperative_matrix = options.enabled.contains("coopmat");
  emit_options.allow_cooperative_matrix = !options.disabled.contains("coopmat");
  emitted_.resize(plan_.kernels.size());
  std::vector<std::string> refusals(plan_.kernels.size());
  entry_points_.resize(plan_.kernels.size());
  for (std::size_t k = 0; k < plan_.kernels.size(); ++k) {
    const CustomCallKernel* custom = CustomKernelOf(plan_.kernels[k], CustomCallsOf(options));
    if (custom != nullptr) entry_points_[k] = custom->entry_point;
    auto emitted = custom != nullptr ? WrapCustomKernel(plan_.kernels[k], *custom)
                                     : spirv::Emit(plan_.kernels[k], profile, emit_options);
    if (emitted) {
      uint64_t scratch = 0;
      for (int64_t bytes : emitted->scratch_bytes) scratch += RoundUp(bytes, kAlignment);
      scratch_bytes_ = std::max(scratch_bytes_, scratch);
      emitted_[k] = std::move(*emitted);
      continue;
    }
    if (emitted.error().code() != StatusCode::kUnimplemented) return Failure(std::move(emitted).error());
    refusals[k] = emitted.error().message();
  }
  KRAFLA_TRY(CompileHostKernels());

  report_.device_instructions = report_.instructions;
  auto visit = [&](auto&& self, const plan::StepList& list) -> void {
    for (const plan::Step& step : list.steps) {
      if (const auto* launch = std::get_if<plan::LaunchStep>(&step)) {
        auto k = static_cast<std::size_t>(launch->kernel);
        if (emitted_[k]) {
          for (const spirv::EmittedDispatch& d : emitted_[k]->dispatches)
            if (emitted_[k]->kernels[static_cast<std::size_t>(d.kernel)].uses_cooperative_matrix)
              ++report_.cooperative_matrix_launches;
          continue;
        }
        report_.device_instructions -= launch->instruction_count;
        if (IsBetweenDevices(launch->instruction->opcode())) continue;  // report_.exchanges
        report_.fallbacks.push_back({launch->instruction->name(), std::string(OpcodeName(launch->instruction->opcode())),
                                     refusals[k], launch->instruction_count});
      } else if (const auto* loop = std::get_if<plan::WhileStep>(&step)) {
        self(self, *loop->condition);
        self(self, *loop->body);
      } else if (const auto* branch = std::get_if<plan::ConditionalStep>(&step)) {
        for (const auto& b : branch->branches) self(self, *b);
      }
    }
  };
  visit(visit, plan_.steps);
  if (options.strict && !report_.fallbacks.empty()) {
    const CompileReport::Fallback& f = report_.fallbacks[0];
    return Unimplemented("'{}' ({}) does not run on {}: {} ({} steps in all; drop --strict to run them on the CPU)",
                         f.instruction, f.opcode, device_description_, f.reason, report_.fallbacks.size());
  }
  return {};
}

Result<> VulkanExecutable::AllocateBuffers() {
  uint64_t constant_bytes = 0;
  for (const Literal* c : plan_.constants) {
    constant_offsets_.push_back(constant_bytes);
    constant_bytes += static_cast<uint64_t>(RoundUp(c->shape().byte_size(), kAlignment));
  }
  for (const std::vector<std::byte>& s : plan_.states) {
    state_offsets_.push_back(constant_bytes);
    constant_bytes += static_cast<uint64_t>(RoundUp(static_cast<int64_t>(s.size()), kAlignment));
  }
  auto allocate = [&](uint64_t bytes, std::string_view what) -> Result<> {
    KRAFLA_ASSIGN(std::shared_ptr<vk::Buffer> made,
                  device_->Allocate(std::max<uint64_t>(bytes, 16), vk::MemoryKind::kDevice, what));
    buffers_.push_back(std::move(made));
    return {};
  };
  for (const auto& program : emitted_) {
    table_offsets_.push_back(constant_bytes);
    if (program) constant_bytes += static_cast<uint64_t>(RoundUp(static_cast<int64_t>(program->table.size()) * 4, kAlignment));
  }
  KRAFLA_TRY(allocate(static_cast<uint64_t>(plan_.arena_size), "the arena"));
  KRAFLA_TRY(allocate(constant_bytes, "the constants"));
  KRAFLA_TRY(allocate(scratch_bytes_, "scratch"));
  KRAFLA_TRY(allocate(2 * kAlignment, "the ids of the device"));
  for (std::size_t c = 0; c < plan_.constants.size(); ++c)
    KRAFLA_TRY(device_->Upload(*buffers_[kConstants], constant_offsets_[c], plan_.constants[c]->bytes()));
  for (std::size_t k = 0; k < emitted_.size(); ++k) {
    if (!emitted_[k] || emitted_[k]->table.empty()) continue;
    KRAFLA_TRY(device_->Upload(*buffers_[kConstants], table_offsets_[k], std::as_bytes(std::span(emitted_[k]->table))));
  }
  for (std::size_t s = 0; s < plan_.states.size(); ++s)
    KRAFLA_TRY(device_->Upload(*buffers_[kConstants], state_offsets_[s], plan_.states[s]));
  buffers_.resize(buffers_.size() + plan_.arguments.size());
  slots_.resize(plan_.arguments.size());
  imported_.resize(plan_.arguments.size());
  for (std::size_t r = 0; r < plan_.results.size(); ++r)
    KRAFLA_TRY(allocate(static_cast<uint64_t>(plan_.results[r].byte_size()), Format("result {}", r)));
  return {};
}

Result<> VulkanExecutable::CreatePipelines() {
  std::vector<vk::KernelCode> code;
  for (std::size_t k = 0; k < emitted_.size(); ++k) {
    first_pipeline_.push_back(static_cast<int>(code.size()));
    if (!emitted_[k]) continue;
    for (spirv::EmittedKernel& kernel : emitted_[k]->kernels) {
      vk::KernelCode c;
      c.spirv = std::move(kernel.words);
      c.name = Format("{} {}", plan_.kernels[k].name, kernel.variant);
      if (!entry_points_[k].empty()) c.entry_point = entry_points_[k];
      c.binding_count = static_cast<uint32_t>(kernel.buffers.size());
      c.subgroup_size = kernel.subgroup_size;
      c.full_subgroups = kernel.full_subgroups;
      code.push_back(std::move(c));
    }
  }
  vk::PipelineCounts counts;
  KRAFLA_ASSIGN(pipelines_, device_->pipelines().Create(code, &counts));
  report_.pipelines_compiled = counts.compiled;
  report_.pipelines_cached = counts.from_cache + counts.reused;
  return {};
}

vk::BufferSlice VulkanExecutable::SliceOf(const plan::Slice& slice) const {
  const plan::Allocation& a = plan_.allocations[static_cast<std::size_t>(slice.allocation)];
  auto offset = static_cast<uint64_t>(slice.offset), size = static_cast<uint64_t>(slice.size);
  auto number = static_cast<std::size_t>(a.number);
  switch (a.kind) {
    case plan::Allocation::Kind::kArena: return {kArena, static_cast<uint64_t>(a.offset) + offset, size};
    case plan::Allocation::Kind::kConstant: return {kConstants, constant_offsets_[number] + offset, size};
    case plan::Allocation::Kind::kDeviceId: return {kDeviceIds, static_cast<uint64_t>(a.number) * kAlignment + offset, size};
    case plan::Allocation::Kind::kState: return {kConstants, state_offsets_[number] + offset, size};
    case plan::Allocation::Kind::kArgument: return {static_cast<uint32_t>(kFirstArgument + number), offset, size};
    case plan::Allocation::Kind::kResult:
      return {static_cast<uint32_t>(kFirstArgument + plan_.arguments.size() + number), offset, size};
  }
  KRAFLA_UNREACHABLE();
}

std::pair<vk::Buffer*, uint64_t> VulkanExecutable::Place(const plan::Slice& slice) const {
  vk::BufferSlice s = SliceOf(slice);
  const std::size_t argument = s.buffer - kFirstArgument;
  const bool is_argument = s.buffer >= kFirstArgument && argument < slots_.size();
  return {buffers_[s.buffer].get(), s.offset + (is_argument ? slots_[argument].offset : 0)};
}

void VulkanExecutable::AddLaunch(const plan::LaunchStep& step, std::vector<vk::Step>& pending) {
  auto k = static_cast<std::size_t>(step.kernel);
  const plan::KernelPlan& kernel = plan_.kernels[k];
  const spirv::EmittedProgram& program = *emitted_[k];
  std::vector<uint64_t> scratch_offsets;
  uint64_t scratch = 0;
  for (int64_t bytes : program.scratch_bytes) {
    scratch_offsets.push_back(scratch);
    scratch += static_cast<uint64_t>(RoundUp(bytes, kAlignment));
  }
  for (const spirv::EmittedDispatch& dispatch : program.dispatches) {
    const spirv::EmittedKernel& emitted = program.kernels[static_cast<std::size_t>(dispatch.kernel)];
    vk::Launch launch;
    launch.pipeline = static_cast<uint32_t>(first_pipeline_[k] + dispatch.kernel);
    std::copy(dispatch.grid.begin(), dispatch.grid.end(), launch.grid);
    for (const spirv::EmittedKernel::BufferUse& use : emitted.buffers) {
      auto b = static_cast<std::size_t>(use.buffer);
      if (b < step.bindings.size())
        launch.bindings.push_back(SliceOf(step.bindings[b]));
      else if (b - step.bindings.size() == program.scratch_bytes.size())
        launch.bindings.push_back({kConstants, table_offsets_[k], static_cast<uint64_t>(program.table.size()) * 4});
      else
        launch.bindings.push_back({kScratch, scratch_offsets[b - step.bindings.size()],
                                   static_cast<uint64_t>(program.scratch_bytes[b - step.bindings.size()])});
      launch.access.push_back(use.read && use.written ? vk::Access::kReadWrite
                              : use.written           ? vk::Access::kWrite
                                                      : vk::Access::kRead);
    }
    launch.push = dispatch.push;
    launch.estimated_ms = EstimatedMs(kernel, device_->profile().is_cpu) / static_cast<double>(program.dispatches.size());
    launch.name = step.instruction->name();
    pending.push_back(std::move(launch));
  }
}

Result<> VulkanExecutable::Flush(std::vector<vk::Step>& pending, NodeList& nodes) {
  if (pending.empty()) return {};
  std::vector<vk::ProgramBuffer> buffers;
  for (std::size_t b = 0; b < buffers_.size(); ++b) {
    const std::size_t argument = b - kFirstArgument;
    if (b >= kFirstArgument && argument < plan_.arguments.size())
      buffers.push_back(vk::ProgramBuffer::Slot(static_cast<int>(argument), BufferBytes(plan_.arguments[argument])));
    else
      buffers.push_back(vk::ProgramBuffer::Fixed(buffers_[b]));
  }
  KRAFLA_ASSIGN(std::unique_ptr<vk::Program> program,
                vk::Program::Create(device_, std::move(buffers), pipelines_, std::move(pending)));
  pending.clear();
  nodes.nodes.push_back(DeviceNode{std::move(program)});
  return {};
}

// A result that takes over an argument's buffer starts from the argument, which stays as it is.
std::vector<vk::Step> VulkanExecutable::CopiesOfDonated() const {
  std::vector<vk::Step> out;
  for (std::size_t r = 0; r < plan_.result_aliases.size(); ++r) {
    const int argument = plan_.result_aliases[r];
    const auto size = static_cast<uint64_t>(plan_.results[r].byte_size());
    if (argument < 0 || size == 0) continue;
    out.push_back(vk::Copy{{static_cast<uint32_t>(kFirstArgument + static_cast<std::size_t>(argument)), 0, size},
                           {static_cast<uint32_t>(kFirstArgument + plan_.arguments.size() + r), 0, size}});
  }
  return out;
}

// The device has the constants and the pipelines now; the module stays only where the host runs some of it.
void VulkanExecutable::DropWhatIsCompiled() {
  emitted_.clear();
  plan_.steps = {};
  plan_.constants.clear();
  for (const auto& kernel : host_kernels_)
    if (kernel != nullptr) return;
  plan_.kernels.clear();
  plan_.module.reset();
}

Result<> VulkanExecutable::BuildNodes(const plan::StepList& steps, NodeList& nodes, std::vector<vk::Step> pending) {
  for (const plan::Step& step : steps.steps) {
    if (const auto* launch = std::get_if<plan::LaunchStep>(&step)) {
      if (emitted_[static_cast<std::size_t>(launch->kernel)]) {
        AddLaunch(*launch, pending);
      } else {
        KRAFLA_TRY(Flush(pending, nodes));
        HostNode node{launch->kernel, launch->bindings, {}};
        for (const plan::Binding& b : plan_.kernels[static_cast<std::size_t>(launch->kernel)].bindings)
          node.written.push_back(b.written);
        nodes.nodes.push_back(std::move(node));
      }
    } else if (const auto* copy = std::get_if<plan::CopyStep>(&step)) {
      pending.push_back(vk::Copy{SliceOf(copy->from), SliceOf(copy->to)});
    } else if (const auto* loop = std::get_if<plan::WhileStep>(&step)) {
      KRAFLA_TRY(Flush(pending, nodes));
      WhileNode node;
      node.condition = std::make_unique<NodeList>();
      node.body = std::make_unique<NodeList>();
      KRAFLA_TRY(BuildNodes(*loop->condition, *node.condition));
      KRAFLA_TRY(BuildNodes(*loop->body, *node.body));
      node.predicate = loop->predicate;
      node.trip_count = loop->trip_count;
      nodes.nodes.push_back(std::move(node));
    } else if (const auto* branch = std::get_if<plan::ConditionalStep>(&step)) {
      KRAFLA_TRY(Flush(pending, nodes));
      ConditionalNode node;
      node.index = branch->index;
      node.index_is_pred = branch->index_is_pred;
      for (const auto& b : branch->branches) {
        node.branches.push_back(std::make_unique<NodeList>());
        KRAFLA_TRY(BuildNodes(*b, *node.branches.back()));
      }
      nodes.nodes.push_back(std::move(node));
    }
  }
  return Flush(pending, nodes);
}

// Makes sure that nothing uses the argument's buffer any more. Memory of the host must outlive its import.
void VulkanExecutable::ReleaseArgument(std::size_t number) {
  std::shared_ptr<vk::Buffer>& buffer = buffers_[kFirstArgument + number];
  if (imported_[number] == nullptr) return;
  if (buffer != nullptr && !device_->Settle({buffer->last_use()})) {
    vk::Abandon(std::make_shared<std::shared_ptr<const Literal>>(imported_[number]));
    vk::Abandon(buffer);
  }
  buffer.reset();
  imported_[number].reset();
  slots_[number] = {};
}

Result<> VulkanExecutable::PlaceArgument(std::size_t number, const Literal& literal) {
  ReleaseArgument(number);
  std::shared_ptr<vk::Buffer>& buffer = buffers_[kFirstArgument + number];
  if (buffer == nullptr) {
    KRAFLA_ASSIGN(buffer, device_->Allocate(BufferBytes(plan_.arguments[number]), vk::MemoryKind::kDevice,
                                            Format("argument {}", number)));
    slots_[number] = {buffer.get(), 0};
  }
  if (literal.bytes().empty()) return {};
  return device_->Upload(*buffer, 0, literal.bytes());
}

bool VulkanExecutable::ImportArgument(std::size_t number, const std::shared_ptr<const Literal>& literal) {
  // Only where shaders run in the host's memory anyway: elsewhere each read would cross the bus.
  const DeviceProfile& profile = device_->profile();
  const std::span<const std::byte> bytes = literal->bytes();
  const uint64_t alignment = profile.limits.host_import_alignment;
  if (!profile.is_cpu || !profile.features.external_memory_host || alignment == 0 || bytes.size() < kImportFrom)
    return false;
  if (imported_[number] == literal) return true;
  // The pages that hold the bytes, with whatever else is in the first and the last one. Nothing writes to an argument's
  // buffer: a result that takes it over begins with a copy.
  const uint64_t begin = reinterpret_cast<uintptr_t>(bytes.data()), first = begin / alignment * alignment;
  const uint64_t last = (begin + bytes.size() + alignment - 1) / alignment * alignment;
  // A larger alignment than the system's pages could reach into some that are not there.
  if (alignment > static_cast<uint64_t>(sysconf(_SC_PAGESIZE))) return false;
  if ((begin - first) % std::max<uint64_t>(16, profile.limits.min_storage_buffer_offset_alignment) != 0) return false;
  auto made = device_->ImportHost(reinterpret_cast<void*>(first), last - first);
  if (!made) return false;
  ReleaseArgument(number);
  buffers_[kFirstArgument + number] = std::move(*made);
  slots_[number] = {buffers_[kFirstArgument + number].get(), begin - first};
  imported_[number] = literal;
  return true;
}

Result<> VulkanExecutable::SetArguments(std::span<const Literal* const> arguments) {
  return WithoutExceptions([&]() -> Result<> {
    KRAFLA_TRY(CheckArguments(arguments, plan_.arguments));
    has_arguments_ = false;
    for (std::size_t a = 0; a < arguments.size(); ++a) KRAFLA_TRY(PlaceArgument(a, *arguments[a]));
    has_arguments_ = true;
    return {};
  });
}

Result<> VulkanExecutable::ShareArguments(std::vector<std::shared_ptr<const Literal>> arguments) {
  return WithoutExceptions([&]() -> Result<> {
    std::vector<const Literal*> literals;
    for (const auto& a : arguments) literals.push_back(a.get());
    KRAFLA_TRY(CheckArguments(literals, plan_.arguments));
    has_arguments_ = false;
    for (std::size_t a = 0; a < arguments.size(); ++a) {
      if (!ImportArgument(a, arguments[a])) KRAFLA_TRY(PlaceArgument(a, *arguments[a]));
      arguments[a].reset();
    }
    has_arguments_ = true;
    return {};
  });
}

Result<> VulkanExecutable::Execute() {
  return WithoutExceptions([&]() -> Result<> {
    if (!has_arguments_ && !plan_.arguments.empty()) return FailedPrecondition("no arguments have been set");
    has_results_ = false;
    KRAFLA_TRY(RunNodes(nodes_));
    KRAFLA_TRY(device_->Wait(device_->LastSubmitted()));
    has_results_ = true;
    return {};
  });
}

Result<std::vector<Literal>> VulkanExecutable::Results() {
  return WithoutExceptions([&]() -> Result<std::vector<Literal>> {
    if (!has_results_) return FailedPrecondition("there are no results: nothing has run since");
    std::vector<Literal> out;
    for (std::size_t r = 0; r < plan_.results.size(); ++r) {
      KRAFLA_ASSIGN(Literal made, Literal::CreateUninitialized(plan_.results[r]));
      if (!made.bytes().empty())
        KRAFLA_TRY(device_->Download(*buffers_[kFirstArgument + plan_.arguments.size() + r], 0, made.bytes()));
      out.push_back(std::move(made));
    }
    return out;
  });
}

Result<uint32_t> VulkanExecutable::ReadWord(const plan::Slice& slice, int bytes) {
  auto [buffer, offset] = Place(slice);
  uint32_t word = 0;
  KRAFLA_TRY(device_->Download(*buffer, offset, std::span(reinterpret_cast<std::byte*>(&word), static_cast<std::size_t>(bytes))));
  return word;
}

Result<> VulkanExecutable::RunNodes(const NodeList& list) {
  for (const Node& node : list.nodes) {
    if (const auto* device = std::get_if<DeviceNode>(&node)) {
      KRAFLA_TRY(device->program->Submit(slots_));
    } else if (const auto* host = std::get_if<HostNode>(&node)) {
      KRAFLA_TRY(RunHost(*host));
    } else if (const auto* loop = std::get_if<WhileNode>(&node)) {
      if (loop->trip_count) {
        for (int64_t turn = 0; turn < *loop->trip_count; ++turn) KRAFLA_TRY(RunNodes(*loop->body));
        continue;
      }
      while (true) {
        KRAFLA_TRY(RunNodes(*loop->condition));
        KRAFLA_ASSIGN(uint32_t go, ReadWord(loop->predicate, 1));
        if (go == 0) break;
        KRAFLA_TRY(RunNodes(*loop->body));
      }
    } else if (const auto* branch = std::get_if<ConditionalNode>(&node)) {
      KRAFLA_ASSIGN(uint32_t word, ReadWord(branch->index, branch->index_is_pred ? 1 : 4));
      auto last = static_cast<int64_t>(branch->branches.size()) - 1;
      int64_t index = static_cast<int32_t>(word);
      // XLA: an index out of range takes the last branch; of a predicate's two, the first is for true.
      if (branch->index_is_pred) index = word != 0 ? 0 : 1;
      else if (index < 0 || index > last) index = last;
      KRAFLA_TRY(RunNodes(*branch->branches[static_cast<std::size_t>(index)]));
    }
  }
  return {};
}

Result<> VulkanExecutable::RunHost(const HostNode& node) {
  KRAFLA_TRY(device_->Wait(device_->LastSubmitted()));
  std::vector<std::byte*> pointers;
  std::vector<AlignedBytes> copies(node.bindings.size());
  for (std::size_t b = 0; b < node.bindings.size(); ++b) {
    auto [buffer, offset] = Place(node.bindings[b]);
    if (buffer->host() != nullptr && buffer->host_cached()) {
      pointers.push_back(buffer->host() + offset);
      continue;
    }
    KRAFLA_ASSIGN(copies[b], HostBytes(static_cast<uint64_t>(node.bindings[b].size) + AlignedBytes::kAlignment));
    auto bytes = copies[b].span().first(static_cast<std::size_t>(node.bindings[b].size));
    KRAFLA_TRY(device_->Download(*buffer, offset, bytes));
    pointers.push_back(bytes.data());
  }
  KRAFLA_TRY(host_kernels_[static_cast<std::size_t>(node.kernel)]->Run(pointers, SharedThreadPool(),
                                                                       host_scratch_.data()));
  for (std::size_t b = 0; b < node.bindings.size(); ++b) {
    if (copies[b].size() == 0 || !node.written[b]) continue;
    auto [buffer, offset] = Place(node.bindings[b]);
    KRAFLA_TRY(device_->Upload(*buffer, offset, copies[b].span().first(static_cast<std::size_t>(node.bindings[b].size))));
  }
  return {};
}

}  // namespace krafla
