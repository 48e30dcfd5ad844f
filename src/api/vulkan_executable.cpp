// SPDX-License-Identifier: Apache-2.0
#include "api/vulkan_executable.h"

#include <algorithm>

#include "api/front_end.h"
#include "base/checked_math.h"
#include "cpu_fallback/executor/host_threads.h"

namespace krafla {
namespace {

constexpr std::size_t kArena = 0, kConstants = 1, kScratch = 2, kFirstArgument = 3;
constexpr uint64_t kAlignment = 256;  // the largest minStorageBufferOffsetAlignment that the specification allows

// For cutting submissions, so that no watchdog fires: rather too much than too little.
double EstimatedMs(const plan::KernelPlan& kernel, bool is_cpu) {
  double flops_per_ms = is_cpu ? 5e6 : 2e8, bytes_per_ms = is_cpu ? 1e6 : 2e7;
  return std::max(kernel.flops / flops_per_ms, kernel.bytes / bytes_per_ms);
}

}  // namespace

Result<std::unique_ptr<Executable>> VulkanExecutable::Create(std::shared_ptr<vk::Device> device,
                                                             const DeviceProfile& profile, plan::ProgramPlan plan,
                                                             const CompileOptions& options, CompileReport report,
                                                             const std::string& description) {
  auto out = std::unique_ptr<VulkanExecutable>(new VulkanExecutable());
  out->device_ = std::move(device);
  out->plan_ = std::move(plan);
  out->report_ = std::move(report);
  out->device_description_ = description;
  Stopwatch emit;
  KRAFLA_TRY(out->EmitKernels(profile, options));
  out->report_.emit_ms = emit.Milliseconds();
  Stopwatch pipelines;
  KRAFLA_TRY(out->AllocateBuffers());
  KRAFLA_TRY(out->CreatePipelines());
  KRAFLA_TRY(out->BuildNodes(out->plan_.steps, out->nodes_));
  out->report_.pipeline_ms = pipelines.Milliseconds();
  return out;
}

Result<> VulkanExecutable::EmitKernels(const DeviceProfile& profile, const CompileOptions& options) {
  spirv::EmitOptions emit_options;
  emit_options.enable_cooperative_matrix = options.enabled.contains("coopmat");
  emit_options.allow_cooperative_matrix = !options.disabled.contains("coopmat");
  emitted_.resize(plan_.kernels.size());
  host_kernels_.resize(plan_.kernels.size());
  std::vector<std::string> refusals(plan_.kernels.size());
  int64_t host_scratch = 0;
  for (std::size_t k = 0; k < plan_.kernels.size(); ++k) {
    auto emitted = spirv::Emit(plan_.kernels[k], profile, emit_options);
    if (emitted) {
      uint64_t scratch = 0;
      for (int64_t bytes : emitted->scratch_bytes) scratch += RoundUp(bytes, kAlignment);
      scratch_bytes_ = std::max(scratch_bytes_, scratch);
      emitted_[k] = std::move(*emitted);
      continue;
    }
    if (emitted.error().code() != StatusCode::kUnimplemented) return Failure(std::move(emitted).error());
    refusals[k] = emitted.error().message();
    CpuKernelOptions cpu;
    cpu.threads = SharedThreadPool().threads();
    KRAFLA_ASSIGN(host_kernels_[k], CompileKernel(plan_.kernels[k], cpu));
    host_scratch = std::max(host_scratch, host_kernels_[k]->scratch_bytes());
  }
  host_scratch_.resize(static_cast<std::size_t>(host_scratch) + AlignedBytes::kAlignment);

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
  auto allocate = [&](uint64_t bytes, std::string_view what) -> Result<> {
    KRAFLA_ASSIGN(std::shared_ptr<vk::Buffer> made,
                  device_->Allocate(std::max<uint64_t>(bytes, 16), vk::MemoryKind::kDevice, what));
    buffers_.push_back(std::move(made));
    return {};
  };
  KRAFLA_TRY(allocate(static_cast<uint64_t>(plan_.arena_size), "the arena"));
  KRAFLA_TRY(allocate(constant_bytes, "the constants"));
  KRAFLA_TRY(allocate(scratch_bytes_, "scratch"));
  for (std::size_t c = 0; c < plan_.constants.size(); ++c)
    KRAFLA_TRY(device_->Upload(*buffers_[kConstants], constant_offsets_[c], plan_.constants[c]->bytes()));
  for (std::size_t a = 0; a < plan_.arguments.size(); ++a)
    KRAFLA_TRY(allocate(static_cast<uint64_t>(plan_.arguments[a].byte_size()), std::format("argument {}", a)));
  for (std::size_t r = 0; r < plan_.results.size(); ++r)
    KRAFLA_TRY(allocate(static_cast<uint64_t>(plan_.results[r].byte_size()), std::format("result {}", r)));
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
      c.name = std::format("{} {}", plan_.kernels[k].name, kernel.variant);
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
    case plan::Allocation::Kind::kArgument: return {static_cast<uint32_t>(kFirstArgument + number), offset, size};
    case plan::Allocation::Kind::kResult:
      return {static_cast<uint32_t>(kFirstArgument + plan_.arguments.size() + number), offset, size};
  }
  KRAFLA_UNREACHABLE();
}

std::pair<vk::Buffer*, uint64_t> VulkanExecutable::Place(const plan::Slice& slice) const {
  vk::BufferSlice s = SliceOf(slice);
  return {buffers_[s.buffer].get(), s.offset};
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
  for (const auto& b : buffers_) buffers.push_back(vk::ProgramBuffer::Fixed(b));
  KRAFLA_ASSIGN(std::unique_ptr<vk::Program> program,
                vk::Program::Create(device_, std::move(buffers), pipelines_, std::move(pending)));
  pending.clear();
  nodes.nodes.push_back(DeviceNode{std::move(program)});
  return {};
}

Result<> VulkanExecutable::BuildNodes(const plan::StepList& steps, NodeList& nodes) {
  std::vector<vk::Step> pending;
  for (const plan::Step& step : steps.steps) {
    if (const auto* launch = std::get_if<plan::LaunchStep>(&step)) {
      if (emitted_[static_cast<std::size_t>(launch->kernel)]) {
        AddLaunch(*launch, pending);
      } else {
        KRAFLA_TRY(Flush(pending, nodes));
        nodes.nodes.push_back(HostNode{launch->kernel, launch->bindings});
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

Result<> VulkanExecutable::SetArguments(std::span<const Literal* const> arguments) {
  KRAFLA_TRY(CheckArguments(arguments, plan_.arguments));
  donated_.assign(plan_.results.size(), {});
  for (std::size_t a = 0; a < arguments.size(); ++a)
    if (!arguments[a]->bytes().empty()) KRAFLA_TRY(device_->Upload(*buffers_[kFirstArgument + a], 0, arguments[a]->bytes()));
  for (std::size_t r = 0; r < plan_.result_aliases.size(); ++r)
    if (plan_.result_aliases[r] >= 0) donated_[r] = *arguments[static_cast<std::size_t>(plan_.result_aliases[r])];
  has_arguments_ = true;
  return {};
}

Result<> VulkanExecutable::Execute() {
  if (!has_arguments_ && !plan_.arguments.empty()) return FailedPrecondition("no arguments have been set");
  // A result that takes over an argument's buffer starts from the argument.
  for (std::size_t r = 0; r < donated_.size(); ++r)
    if (plan_.result_aliases[r] >= 0)
      KRAFLA_TRY(device_->Upload(*buffers_[kFirstArgument + plan_.arguments.size() + r], 0, donated_[r].bytes()));
  KRAFLA_TRY(RunNodes(nodes_));
  return device_->Wait(device_->LastSubmitted());
}

Result<std::vector<Literal>> VulkanExecutable::Results() {
  std::vector<Literal> out;
  for (std::size_t r = 0; r < plan_.results.size(); ++r) {
    KRAFLA_ASSIGN(Literal made, Literal::Create(plan_.results[r]));
    if (!made.bytes().empty())
      KRAFLA_TRY(device_->Download(*buffers_[kFirstArgument + plan_.arguments.size() + r], 0, made.bytes()));
    out.push_back(std::move(made));
  }
  return out;
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
      KRAFLA_TRY(device->program->Submit({}));
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
  const plan::KernelPlan& kernel = plan_.kernels[static_cast<std::size_t>(node.kernel)];
  std::vector<std::byte*> pointers;
  std::vector<AlignedBytes> copies(node.bindings.size());
  for (std::size_t b = 0; b < node.bindings.size(); ++b) {
    auto [buffer, offset] = Place(node.bindings[b]);
    if (buffer->host() != nullptr && buffer->host_cached()) {
      pointers.push_back(buffer->host() + offset);
      continue;
    }
    copies[b] = AlignedBytes(static_cast<std::size_t>(node.bindings[b].size) + AlignedBytes::kAlignment);
    auto bytes = copies[b].span().first(static_cast<std::size_t>(node.bindings[b].size));
    KRAFLA_TRY(device_->Download(*buffer, offset, bytes));
    pointers.push_back(bytes.data());
  }
  auto scratch = reinterpret_cast<uintptr_t>(host_scratch_.data());
  scratch = (scratch + AlignedBytes::kAlignment - 1) / AlignedBytes::kAlignment * AlignedBytes::kAlignment;
  KRAFLA_TRY(host_kernels_[static_cast<std::size_t>(node.kernel)]->Run(pointers, SharedThreadPool(),
                                                                       reinterpret_cast<std::byte*>(scratch)));
  for (std::size_t b = 0; b < node.bindings.size(); ++b) {
    if (copies[b].size() == 0 || !kernel.bindings[b].written) continue;
    auto [buffer, offset] = Place(node.bindings[b]);
    KRAFLA_TRY(device_->Upload(*buffer, offset, copies[b].span().first(static_cast<std::size_t>(node.bindings[b].size))));
  }
  return {};
}

}  // namespace krafla
