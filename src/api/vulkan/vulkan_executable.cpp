// SPDX-License-Identifier: Apache-2.0
#include "api/vulkan/vulkan_executable.h"

#include <algorithm>

#include "api/front_end.h"
#include "api/vulkan/emitted_kernels.h"
#include "api/vulkan/vulkan_tuned.h"
#include "base/checked_math.h"
#include "base/guards.h"
#include "base/processors.h"
#include "base/thread_pool.h"
#include "plan/plan_check.h"

namespace krafla {

Result<AlignedBytes> VulkanExecutable::HostBytes(uint64_t size) {
  try {
    return AlignedBytes(static_cast<std::size_t>(size), false);
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("The host has no memory for {} bytes of the device's.", size);
  }
}

namespace {

// For cutting submissions before any has been measured: rather too much than too little.
double EstimatedMs(const plan::KernelPlan& kernel, const RateTuning& rate) {
  static const double processors = UsableProcessors();
  const double times = rate.per_processor ? processors : 1;
  return std::max(kernel.flops / (rate.flops_per_ms * times), kernel.bytes / (rate.bytes_per_ms * times));
}

}  // namespace

Result<std::unique_ptr<Executable>> VulkanExecutable::Create(std::shared_ptr<vk::Device> device,
                                                             const DeviceProfile& profile, plan::ProgramPlan plan,
                                                             EntryInterface interface, const CompileOptions& options,
                                                             CompileReport report, const std::string& description,
                                                             std::unique_ptr<HostServices> services) {
  KRAFLA_TRY(plan::CheckPlan(plan));
  auto shared = std::make_shared<Shared>();
  shared->plan = std::move(plan);
  auto out = std::unique_ptr<VulkanExecutable>(
      new VulkanExecutable(std::move(shared), std::move(interface), std::move(report), description));
  out->device_ = std::move(device);
  out->services_ = std::move(services);
  out->threads_ = options.threads;
  out->keeps_profile_ = options.for_profile;
  out->program_options_ = {.submit_ms = options.submission_ms,
                           .launch_ms = 1.5 * options.submission_ms,
                           .beside = options.beside && out->device_->has_side_queue()};
  Stopwatch emit;
  const StoredTuned stored = UsesTuned(options) ? ReadTuned(profile) : StoredTuned();
  KRAFLA_ASSIGN(out->shared_->kernels, EmitKernels(out->plan_, profile, options, &stored.tuned));
  out->report_.tuning_ignored = stored.ignored;
  KRAFLA_TRY(out->CompileHostKernels());
  ReportPlacement(out->plan_, out->shared_->kernels, out->report_);
  if (options.strict && !out->report_.fallbacks.empty()) {
    const CompileReport::Fallback& f = out->report_.fallbacks[0];
    return Unimplemented("'{}' ({}) does not run on {}: {} ({} steps in all; drop --strict to run them on the CPU).",
                         f.instruction, f.opcode, description, f.reason, out->report_.fallbacks.size());
  }
  out->report_.emit_ms = emit.Milliseconds();
  Stopwatch pipelines;
  KRAFLA_TRY(out->AllocateBuffers());
  KRAFLA_TRY(out->CreatePipelines(options));
  KRAFLA_TRY(out->BuildProgram());
  // The other members of a group are made from it, and profiles name it.
  if (!options.for_group && !options.for_profile) out->DropWhatIsCompiled();
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
    KRAFLA_TRY(device_->Upload(*buffers_[kDeviceIds], static_cast<uint64_t>(a.number) * kSliceAlignment,
                               std::as_bytes(std::span(&id, 1))));
  }
  return {};
}

Result<std::unique_ptr<Executable>> VulkanExecutable::Another(const EvaluatorHost* host, int64_t devices) const {
  if (!shared_->whole)
    return FailedPrecondition(
        "The program was compiled for one device (CompileOptions::for_group): no other can share it.");
  auto out = std::unique_ptr<VulkanExecutable>(new VulkanExecutable(shared_, interface_, report_, device_description_));
  out->device_ = device_;
  out->services_ = services_->For(*host);
  out->threads_ = threads_;
  out->program_options_ = program_options_;
  KRAFLA_TRY(out->AllocateBuffers());
  KRAFLA_TRY(out->Join(host, devices));
  KRAFLA_TRY(out->BuildProgram());
  return out;
}

// The kernels that no device code was emitted for.
Result<> VulkanExecutable::CompileHostKernels() {
  int64_t host_scratch = 0;
  host_kernels_.resize(plan_.kernels.size());
  for (std::size_t k = 0; k < plan_.kernels.size(); ++k) {
    if (emitted_[k] || !shared_->kernels.launched[k]) continue;
    CpuKernelOptions cpu;
    cpu.threads = HostThreads().threads();
    cpu.evaluator = services_->evaluator_options();
    auto made = CompileKernel(plan_.kernels[k], cpu);
    if (!made) {
      const std::string& refusal = shared_->kernels.refusals[k];
      return Failure(std::move(made).error().WithContext(
          Format("while compiling kernel '{}', which the device does not take: {}", plan_.kernels[k].name, refusal)));
    }
    host_kernels_[k] = std::move(*made);
    host_scratch = std::max(host_scratch, host_kernels_[k]->scratch_bytes());
  }
  KRAFLA_ASSIGN(host_scratch_, HostBytes(static_cast<uint64_t>(host_scratch)));
  return {};
}

std::shared_ptr<vk::Buffer> VulkanExecutable::PlaceWeights() {
  constants_.resize(plan_.constants.size());
  // All of one file, as there is one.
  std::shared_ptr<const void> owner;
  const std::byte *begin = nullptr, *end = nullptr;
  for (const Literal* c : plan_.constants) {
    if (c->owner() == nullptr || (owner != nullptr && c->owner() != owner)) continue;
    const std::span<const std::byte> bytes = c->bytes();
    begin = owner == nullptr ? bytes.data() : std::min(begin, bytes.data());
    end = owner == nullptr ? bytes.data() + bytes.size() : std::max(end, bytes.data() + bytes.size());
    owner = c->owner();
  }
  if (owner == nullptr ||
      AlignedBytes::kAlignment % std::max<uint64_t>(1, device_->profile().limits.min_storage_buffer_offset_alignment) !=
          0)
    return nullptr;
  std::optional<HostPages> pages = ImportPages(*device_, {{begin, end}, owner});
  if (!pages) return nullptr;
  for (std::size_t c = 0; c < plan_.constants.size(); ++c)
    if (plan_.constants[c]->owner() == owner)
      constants_[c] = {kWeights, pages->offset + static_cast<uint64_t>(plan_.constants[c]->bytes().data() - begin)};
  return std::move(pages->memory);
}

Result<> VulkanExecutable::AllocateBuffers() {
  uint64_t constant_bytes = 0;
  std::vector<GuardedRange> guarded;
  const auto place = [&](int64_t size) -> uint64_t {
    if (!device_->guards_buffers())
      return std::exchange(constant_bytes, constant_bytes + static_cast<uint64_t>(RoundUp(size, kSliceAlignment)));
    const int64_t offset =
        static_cast<int64_t>(constant_bytes) + PlaceBetweenGuards(size, AlignedBytes::kAlignment, GuardsInUse());
    guarded.push_back({offset, size});
    constant_bytes += static_cast<uint64_t>(BytesBetweenGuards(size));
    return static_cast<uint64_t>(offset);
  };
  const std::shared_ptr<vk::Buffer> weights = PlaceWeights();
  for (std::size_t c = 0; c < plan_.constants.size(); ++c)
    if (constants_[c].buffer != kWeights) constants_[c].offset = place(plan_.constants[c]->shape().byte_size());
  for (const std::vector<std::byte>& s : plan_.states) state_offsets_.push_back(place(static_cast<int64_t>(s.size())));
  auto allocate = [&](uint64_t bytes, std::string_view what) -> Result<> {
    KRAFLA_ASSIGN(std::shared_ptr<vk::Buffer> made,
                  device_->Allocate(std::max<uint64_t>(bytes, 16), vk::MemoryKind::kDevice, what));
    buffers_.push_back(std::move(made));
    return {};
  };
  for (const auto& program : emitted_)
    table_offsets_.push_back(program ? place(static_cast<int64_t>(program->table.size()) * 4) : 0);
  places_offset_ = place(static_cast<int64_t>(CountPlaces()));
  KRAFLA_TRY(allocate(static_cast<uint64_t>(plan_.arena_size), "the arena"));
  KRAFLA_TRY(allocate(constant_bytes, "the constants"));
  if (device_->guards_buffers()) {
    if (!plan_.guarded.empty()) GuardBetween(buffers_[kArena]->host(), plan_.arena_size, plan_.guarded);
    GuardBetween(buffers_[kConstants]->host(), static_cast<int64_t>(constant_bytes), guarded);
  }
  KRAFLA_TRY(allocate(shared_->kernels.scratch_bytes, "scratch"));
  KRAFLA_TRY(allocate(2 * kSliceAlignment, "the ids of the device"));
  buffers_.push_back(weights != nullptr ? weights : buffers_[kDeviceIds]);  // nothing is looked for in the latter
  KRAFLA_TRY(allocate(static_cast<uint64_t>(plan_.block_bytes), "the rows of a block"));
  KRAFLA_TRY(UploadPlaces());
  // Zeros until somebody says which member of a group this is.
  const std::vector<std::byte> first(2 * kSliceAlignment);
  KRAFLA_TRY(device_->Upload(*buffers_[kDeviceIds], 0, first));
  for (std::size_t c = 0; c < plan_.constants.size(); ++c)
    if (constants_[c].buffer == kConstants)
      KRAFLA_TRY(device_->Upload(*buffers_[kConstants], constants_[c].offset, plan_.constants[c]->bytes()));
  for (std::size_t k = 0; k < emitted_.size(); ++k) {
    if (!emitted_[k] || emitted_[k]->table.empty()) continue;
    KRAFLA_TRY(device_->Upload(*buffers_[kConstants], table_offsets_[k], std::as_bytes(std::span(emitted_[k]->table))));
  }
  for (std::size_t s = 0; s < plan_.states.size(); ++s)
    KRAFLA_TRY(device_->Upload(*buffers_[kConstants], state_offsets_[s], plan_.states[s]));
  slots_.resize(plan_.arguments.size() + plan_.results.size());
  int64_t result_bytes = 0;
  for (const Shape& r : plan_.results) result_bytes = std::max(result_bytes, r.byte_size());
  if (result_bytes > kLargeResults) most_in_flight_ = kMostLargeInFlight;
  return {};
}

Result<> VulkanExecutable::CreatePipelines(const CompileOptions& options) {
  std::vector<vk::KernelCode> code;
  const std::vector<std::string>& entry_points = shared_->kernels.entry_points;
  const auto add = [&](spirv::EmittedKernel& kernel, const std::string& name) -> vk::KernelCode& {
    vk::KernelCode& c = code.emplace_back();
    c.spirv = std::move(kernel.words);
    c.name = Format("{} {}", name, kernel.variant);
    c.binding_count = static_cast<uint32_t>(kernel.buffers.size());
    c.subgroup_size = kernel.subgroup_size;
    c.full_subgroups = kernel.full_subgroups;
    c.splittable = true;
    return c;
  };
  for (std::size_t k = 0; k < emitted_.size(); ++k) {
    first_pipeline_.push_back(static_cast<int>(code.size()));
    if (!emitted_[k]) continue;
    for (spirv::EmittedKernel& kernel : emitted_[k]->kernels) {
      vk::KernelCode& c = add(kernel, plan_.kernels[k].name);
      if (entry_points[k].empty()) continue;
      c.entry_point = entry_points[k];
      c.splittable = false;  // it is not ours, and may read NumWorkgroups
    }
  }
  for (auto& [step, loop] : shared_->kernels.loops) {
    shared_->loop_pipelines.emplace(step, static_cast<int>(code.size()));
    for (spirv::EmittedLoop::Launch& launch : loop.launches) add(launch.kernel, step->instruction->name());
  }
  if (TurnKernels& turns = shared_->kernels.turns; !turns.loops.empty()) {
    shared_->gate_pipeline = static_cast<int>(code.size());
    add(turns.gate.kernels[0], "gate of a turn");
    for (auto& [bytes, copy] : turns.copies) {
      shared_->copy_pipelines.emplace(bytes, static_cast<int>(code.size()));
      add(copy.kernels[0], "copy");
    }
  }
  vk::PipelineCounts counts;
  KRAFLA_ASSIGN(pipelines_, device_->pipelines().Create(code, &counts, threads_.get(), options.progress));
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
    case plan::Allocation::Kind::kConstant:
      return {constants_[number].buffer, constants_[number].offset + offset, size};
    case plan::Allocation::Kind::kDeviceId:
      return {kDeviceIds, static_cast<uint64_t>(a.number) * kSliceAlignment + offset, size};
    case plan::Allocation::Kind::kBlock:
      // The place of a block is where no array begins (plan::ModulePlanner::PlaceBlocks).
      if (a.offset == 0) return {kConstants, places_offset_ + offset, size};
      return {kBlocks, static_cast<uint64_t>(a.offset) + offset, size};
    case plan::Allocation::Kind::kState: return {kConstants, state_offsets_[number] + offset, size};
    case plan::Allocation::Kind::kArgument: return {static_cast<uint32_t>(kFirstSlot + number), offset, size};
    case plan::Allocation::Kind::kResult:
      return {static_cast<uint32_t>(kFirstSlot + plan_.arguments.size() + number), offset, size};
  }
  KRAFLA_UNREACHABLE();
}

std::pair<vk::Buffer*, uint64_t> VulkanExecutable::Place(const plan::Slice& slice) const {
  vk::BufferSlice s = SliceOf(slice);
  if (s.buffer < kFirstSlot) return {buffers_[s.buffer].get(), s.offset};
  const vk::BufferBinding& slot = slots_[s.buffer - kFirstSlot];
  return {slot.buffer, slot.offset + s.offset};
}

void VulkanExecutable::AddLaunch(const plan::LaunchStep& step, Pending& pending, std::vector<int>* rows) {
  auto k = static_cast<std::size_t>(step.kernel);
  const plan::KernelPlan& kernel = plan_.kernels[k];
  const spirv::EmittedProgram& program = *emitted_[k];
  std::vector<uint64_t> scratch_offsets;
  uint64_t scratch = 0;
  for (int64_t bytes : program.scratch_bytes) {
    scratch_offsets.push_back(scratch);
    scratch += static_cast<uint64_t>(RoundUp(bytes, kSliceAlignment));
  }
  double shares = 0;
  for (const spirv::EmittedDispatch& dispatch : program.dispatches) shares += dispatch.share;
  const double ms = EstimatedMs(kernel, shared_->kernels.rate);
  std::vector<int> own_rows;
  if (rows == nullptr) rows = &own_rows;
  if (rows->empty())
    for (const spirv::EmittedDispatch& dispatch : program.dispatches) rows->push_back(AddRow(step, &dispatch));
  std::size_t number = 0;
  for (const spirv::EmittedDispatch& dispatch : program.dispatches) {
    const spirv::EmittedKernel& emitted = program.kernels[static_cast<std::size_t>(dispatch.kernel)];
    vk::Launch launch;
    launch.pipeline = static_cast<uint32_t>(first_pipeline_[k] + dispatch.kernel);
    std::copy(dispatch.grid.begin(), dispatch.grid.end(), launch.grid);
    for (const spirv::EmittedKernel::BufferUse& use : emitted.buffers) {
      auto b = static_cast<std::size_t>(use.buffer);
      if (b < step.bindings.size()) launch.bindings.push_back(SliceOf(step.bindings[b]));
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
    launch.estimated_ms = ms * dispatch.share / shares;
    launch.name = step.instruction->name();
    pending.Add(std::move(launch), (*rows)[number++]);
  }
}

void VulkanExecutable::AddTurns(const plan::WhileStep& loop, int64_t turns, bool is_first, Pending& pending,
                                int row) const {
  const spirv::EmittedLoop& emitted = shared_->kernels.loops.at(&loop);
  auto pipeline = static_cast<uint32_t>(shared_->loop_pipelines.at(&loop));
  for (const spirv::EmittedLoop::Launch& of : emitted.launches) {
    vk::Launch launch;
    launch.pipeline = pipeline++;
    std::ranges::copy(of.grid, launch.grid);
    for (const spirv::EmittedKernel::BufferUse& use : of.kernel.buffers) {
      const auto buffer = static_cast<std::size_t>(use.buffer);
      launch.bindings.push_back(buffer < emitted.slices.size() ? SliceOf(emitted.slices[buffer])
                                                               : vk::BufferSlice{kScratch, 0, spirv::kLoopStateBytes});
      launch.access.push_back(use.read && use.written ? vk::Access::kReadWrite
                              : use.written           ? vk::Access::kWrite
                                                      : vk::Access::kRead);
    }
    launch.push = {static_cast<uint32_t>(turns)};
    if (emitted.resumes) launch.push.push_back(is_first ? 1 : 0);
    launch.estimated_ms = of.turn_ms * static_cast<double>(turns);
    launch.name = loop.instruction->name();
    pending.Add(std::move(launch), row);
  }
}

// A counted loop of few launches is steps among others. Of more the host gives a launch after the other to the device;
// and it asks after each whether a loop is over that is not counted, or has such loops inside.
Result<> VulkanExecutable::AddLoop(const plan::WhileStep& loop, Pending& pending, NodeList& nodes) {
  constexpr int64_t kFewLaunches = 8;
  const spirv::EmittedLoop& emitted = shared_->kernels.loops.at(&loop);
  const int64_t most = emitted.most_turns;
  const int row = AddRow(loop);
  if (!loop.trip_count || emitted.resumes) {
    AddTurns(loop, most, true, pending, row);
    KRAFLA_TRY(Flush(pending, nodes));
    WhileNode node;
    node.condition = std::make_unique<NodeList>();
    node.body = std::make_unique<NodeList>();
    node.predicate = loop.predicate;
    Pending launch;
    AddTurns(loop, most, false, launch, row);
    KRAFLA_TRY(Flush(launch, *node.body));
    nodes.steps.push_back(std::move(node));
    return {};
  }
  const int64_t launches = *loop.trip_count / most, rest = *loop.trip_count % most;
  if (launches <= kFewLaunches) {
    for (int64_t n = 0; n < launches; ++n) AddTurns(loop, most, false, pending, row);
  } else {
    KRAFLA_TRY(Flush(pending, nodes));
    WhileNode node;
    node.condition = std::make_unique<NodeList>();
    node.body = std::make_unique<NodeList>();
    node.trip_count = launches;
    Pending launch;
    AddTurns(loop, most, false, launch, row);
    KRAFLA_TRY(Flush(launch, *node.body));
    nodes.steps.push_back(std::move(node));
  }
  if (rest > 0) AddTurns(loop, rest, false, pending, row);
  return {};
}

// Those of every program: what is the executable's own, then a slot for each argument and each result.
std::vector<vk::ProgramBuffer> VulkanExecutable::ProgramBuffers() const {
  std::vector<vk::ProgramBuffer> out;
  for (const auto& b : buffers_) out.push_back(vk::ProgramBuffer::Fixed(b));
  int slot = 0;
  for (const Shape& s : plan_.arguments) out.push_back(vk::ProgramBuffer::Slot(slot++, VulkanBuffer::BytesOf(s)));
  for (std::size_t r = 0; r < plan_.results.size(); ++r) {
    out.push_back(vk::ProgramBuffer::Slot(slot++, VulkanBuffer::BytesOf(plan_.results[r])));
    const int argument = plan_.result_aliases[r];
    if (argument >= 0) out.back().same_memory = static_cast<int>(kFirstSlot) + argument;
  }
  return out;
}

Result<> VulkanExecutable::Flush(Pending& pending, NodeList& nodes) {
  if (pending.steps.empty()) return {};
  KRAFLA_ASSIGN(std::unique_ptr<vk::Program> program,
                vk::Program::Create(device_, ProgramBuffers(), pipelines_, std::move(pending.steps), program_options_));
  nodes.steps.push_back(DeviceNode{std::move(program), std::exchange(pending.rows, {})});
  pending.steps.clear();
  return {};
}

// The device has the constants and the pipelines now; the module stays only where the host runs some of it.
void VulkanExecutable::DropWhatIsCompiled() {
  shared_->whole = false;
  shared_->kernels = {};
  shared_->loop_pipelines.clear();
  plan_.steps = {};
  plan_.callees.clear();
  plan_.constants.clear();
  for (const auto& kernel : host_kernels_)
    if (kernel != nullptr) return;
  plan_.kernels.clear();
  plan_.module.reset();
}

Result<> VulkanExecutable::BuildProgram() {
  callees_.resize(plan_.callees.size());
  for (std::size_t c = 0; c < callees_.size(); ++c) KRAFLA_TRY(BuildNodes(plan_.callees[c], callees_[c]));
  return BuildNodes(plan_.steps, nodes_);
}

VulkanExecutable::HostNode VulkanExecutable::HostNodeOf(const plan::LaunchStep& step, int row) const {
  HostNode out{step.kernel, step.bindings, {}, row, step.exchange};
  for (const plan::Binding& b : plan_.kernels[static_cast<std::size_t>(step.kernel)].bindings)
    out.written.push_back(b.written);
  return out;
}

Result<> VulkanExecutable::BuildNodes(const plan::StepList& steps, NodeList& nodes) {
  Pending pending;
  for (const plan::Step& step : steps.steps) {
    if (const auto* launch = std::get_if<plan::LaunchStep>(&step)) {
      if (emitted_[static_cast<std::size_t>(launch->kernel)]) {
        AddLaunch(*launch, pending);
      } else {
        KRAFLA_TRY(Flush(pending, nodes));
        nodes.steps.push_back(HostNodeOf(*launch, AddRow(*launch, nullptr)));
      }
    } else if (const auto* await = std::get_if<plan::AwaitStep>(&step)) {
      KRAFLA_TRY(Flush(pending, nodes));
      nodes.steps.push_back(AwaitNode{await->exchange});
    } else if (const auto* group = std::get_if<plan::RowGroupStep>(&step)) {
      KRAFLA_TRY(AddRowGroup(*group, pending, nodes));
    } else if (const auto* copy = std::get_if<plan::CopyStep>(&step)) {
      pending.Add(vk::Copy{SliceOf(copy->from), SliceOf(copy->to)}, AddRow(*copy));
    } else if (const auto* loop = std::get_if<plan::WhileStep>(&step)) {
      if (shared_->kernels.loops.contains(loop)) {
        KRAFLA_TRY(AddLoop(*loop, pending, nodes));
        continue;
      }
      KRAFLA_TRY(Flush(pending, nodes));
      WhileNode node;
      node.condition = std::make_unique<NodeList>();
      node.body = std::make_unique<NodeList>();
      KRAFLA_TRY(BuildNodes(*loop->condition, *node.condition));
      KRAFLA_TRY(BuildNodes(*loop->body, *node.body));
      node.predicate = loop->predicate;
      node.trip_count = loop->trip_count;
      if (shared_->kernels.turns.loops.contains(loop)) KRAFLA_TRY(AddTurns(*loop, node));
      nodes.steps.push_back(std::move(node));
    } else if (const auto* branch = std::get_if<plan::ConditionalStep>(&step)) {
      KRAFLA_TRY(Flush(pending, nodes));
      ConditionalNode node;
      node.index = branch->index;
      node.index_is_pred = branch->index_is_pred;
      for (const auto& b : branch->branches) {
        node.branches.push_back(std::make_unique<NodeList>());
        KRAFLA_TRY(BuildNodes(*b, *node.branches.back()));
      }
      nodes.steps.push_back(std::move(node));
    } else if (const auto* call = std::get_if<plan::CallStep>(&step)) {
      KRAFLA_TRY(Flush(pending, nodes));
      nodes.steps.push_back(plan::Call{call->callee});
    }
  }
  return Flush(pending, nodes);
}

}  // namespace krafla
