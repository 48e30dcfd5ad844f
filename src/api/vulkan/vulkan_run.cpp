// SPDX-License-Identifier: Apache-2.0
// Running a VulkanExecutable: arguments and results in their slots, and the nodes one after the other.
#include <algorithm>

#include "api/front_end.h"
#include "api/vulkan/vulkan_executable.h"
#include "base/interruption.h"
#include "plan/step_runner.h"

namespace krafla {

// One of the two: literals to copy, or to share.
Result<> VulkanExecutable::PlaceArguments(std::span<const Literal* const> literals,
                                          std::span<const std::shared_ptr<const Literal>> shared) {
  KRAFLA_TRY(CheckArguments(literals, plan_.arguments));
  std::vector<std::shared_ptr<VulkanBuffer>> before = std::move(arguments_);
  arguments_.clear();
  std::vector<std::shared_ptr<VulkanBuffer>> placed;
  for (std::size_t a = 0; a < literals.size(); ++a) {
    if (a < before.size()) before[a].reset();
    auto made = shared.empty() ? VulkanBuffer::CopyOf(*device_, plan_.arguments[a], literals[a]->bytes())
                               : VulkanBuffer::Of(*device_, shared[a]);
    if (!made) return Failure(std::move(made).error().WithContext(Format("in argument {}", a)));
    placed.push_back(std::move(*made));
  }
  arguments_ = std::move(placed);
  return {};
}

Result<> VulkanExecutable::SetArguments(std::span<const Literal* const> arguments) {
  return WithoutExceptions([&] { return PlaceArguments(arguments, {}); });
}

Result<> VulkanExecutable::ShareArguments(std::vector<std::shared_ptr<const Literal>> arguments) {
  return WithoutExceptions([&]() -> Result<> {
    std::vector<const Literal*> literals;
    for (const auto& a : arguments) literals.push_back(a.get());
    return PlaceArguments(literals, arguments);
  });
}

Result<> VulkanExecutable::PlaceOwn() {
  if (arguments_.size() != plan_.arguments.size()) return FailedPrecondition("No arguments have been set.");
  has_results_ = false;
  while (results_.size() < plan_.results.size()) {
    const std::size_t r = results_.size();
    KRAFLA_ASSIGN(std::shared_ptr<vk::Buffer> made,
                  device_->AllocateRecycled(VulkanBuffer::BytesOf(plan_.results[r]), false, "a result"));
    results_.push_back(std::move(made));
  }
  for (std::size_t a = 0; a < arguments_.size(); ++a)
    slots_[a] = {arguments_[a]->memory().get(), arguments_[a]->offset()};
  copied_.assign(plan_.results.size(), false);
  for (std::size_t r = 0; r < results_.size(); ++r) {
    slots_[arguments_.size() + r] = {results_[r].get(), 0};
    copied_[r] = plan_.result_aliases[r] >= 0;
  }
  return {};
}

Result<> VulkanExecutable::Execute() {
  return WithoutExceptions([&]() -> Result<> {
    std::lock_guard lock(running_);
    KRAFLA_TRY(PlaceOwn());
    KRAFLA_TRY(RunProgram());
    KRAFLA_TRY(device_->Wait(last_, *limit_));
    has_results_ = true;
    return {};
  });
}

Result<> VulkanExecutable::TryRunInPlace(std::span<const std::span<const std::byte>> arguments,
                                         std::span<const std::span<std::byte>> results, const RunLimit& limit) {
  KRAFLA_ASSIGN(const auto turn, TakeTurn(limit));
  const Limited limited(*this, limit);
  arguments_.clear();
  std::vector<std::shared_ptr<VulkanBuffer>> placed;
  for (std::size_t a = 0; a < arguments.size(); ++a) {
    auto made = VulkanBuffer::CopyOf(*device_, plan_.arguments[a], arguments[a]);
    if (!made) return Failure(std::move(made).error().WithContext(Format("in argument {}", a)));
    placed.push_back(std::move(*made));
  }
  arguments_ = std::move(placed);
  KRAFLA_TRY(Execute());
  for (std::size_t r = 0; r < results.size(); ++r)
    if (!results[r].empty()) KRAFLA_TRY(device_->Download(*results_[r], 0, results[r]));
  return {};
}

Result<std::vector<Literal>> VulkanExecutable::Results() {
  return WithoutExceptions([&]() -> Result<std::vector<Literal>> {
    if (!has_results_)
      return FailedPrecondition("There are no results: the program has not run since the arguments were set.");
    std::vector<Literal> out;
    for (std::size_t r = 0; r < plan_.results.size(); ++r) {
      KRAFLA_ASSIGN(Literal made, Literal::CreateUninitialized(plan_.results[r]));
      if (!made.bytes().empty()) KRAFLA_TRY(device_->Download(*results_[r], 0, made.bytes()));
      out.push_back(std::move(made));
    }
    return out;
  });
}

// What is not on this device comes through the host.
Result<std::vector<std::shared_ptr<VulkanBuffer>>> VulkanExecutable::OnDevice(
    std::span<const DeviceArgument> arguments) {
  KRAFLA_TRY(CheckBuffers(arguments, plan_.arguments));
  std::vector<std::shared_ptr<VulkanBuffer>> out;
  out.reserve(arguments.size());
  for (std::size_t a = 0; a < arguments.size(); ++a) {
    auto here = std::dynamic_pointer_cast<VulkanBuffer>(arguments[a].buffer);
    if (here == nullptr || here->memory() == nullptr || &here->memory()->device() != device_.get()) {
      auto literal = arguments[a].buffer->ToLiteral();
      if (!literal) return Failure(std::move(literal).error().WithContext(Format("in argument {}", a)));
      auto made = VulkanBuffer::Of(*device_, *literal);
      if (!made) return Failure(std::move(made).error().WithContext(Format("in argument {}", a)));
      here = std::move(*made);
    }
    slots_[a] = {here->memory().get(), here->offset()};
    out.push_back(std::move(here));
  }
  return out;
}

Result<std::vector<std::shared_ptr<vk::Buffer>>> VulkanExecutable::PlaceResults(
    std::span<const DeviceArgument> arguments, std::span<const std::shared_ptr<VulkanBuffer>> placed) {
  std::vector<std::shared_ptr<vk::Buffer>> out;
  out.reserve(plan_.results.size());
  copied_.assign(plan_.results.size(), false);
  for (std::size_t r = 0; r < plan_.results.size(); ++r) {
    const int alias = plan_.result_aliases[r];
    std::shared_ptr<vk::Buffer> memory;
    if (alias >= 0) {
      const auto a = static_cast<std::size_t>(alias);
      // One buffer may be several arguments.
      const auto is_it = [&](const std::shared_ptr<VulkanBuffer>& b) { return b->memory() == placed[a]->memory(); };
      const bool ours = arguments[a].donated || placed[a] != arguments[a].buffer;
      if (ours && placed[a]->IsOverwritable() && std::ranges::count_if(placed, is_it) == 1)
        memory = placed[a]->memory();
      else copied_[r] = plan_.results[r].byte_size() > 0;
    }
    if (memory == nullptr) {
      KRAFLA_ASSIGN(memory, device_->AllocateRecycled(VulkanBuffer::BytesOf(plan_.results[r]), false, "a result"));
    }
    slots_[placed.size() + r] = {memory.get(), 0};
    out.push_back(std::move(memory));
  }
  return out;
}

Result<DeviceBuffers> VulkanExecutable::RunOnBuffers(std::vector<DeviceArgument> arguments) {
  return WithoutExceptions([&]() -> Result<DeviceBuffers> {
    std::lock_guard lock(running_);
    arguments_.clear();
    results_.clear();
    has_results_ = false;
    KRAFLA_ASSIGN(auto placed, OnDevice(arguments));
    KRAFLA_ASSIGN(auto results, PlaceResults(arguments, placed));
    // So that the host cannot run ahead for ever.
    vk::Event& oldest = in_flight_[run_++ % most_in_flight_];
    KRAFLA_TRY(device_->Wait(oldest, *limit_));
    Result<> run = RunProgram();
    oldest = last_;
    for (DeviceArgument& a : arguments)
      if (a.donated) a.buffer->Release();
    KRAFLA_TRY(std::move(run));
    DeviceBuffers out;
    out.reserve(results.size());
    for (std::size_t r = 0; r < results.size(); ++r)
      out.push_back(std::make_shared<VulkanBuffer>(plan_.results[r], std::move(results[r])));
    return out;
  });
}

// A result that takes over an argument's buffer starts from the argument, which stays as it is.
Result<vk::Program*> VulkanExecutable::CopiesOfAliased(const std::vector<bool>& copied) {
  std::unique_ptr<vk::Program>& program = copies_[copied];
  if (program != nullptr) return program.get();
  std::vector<vk::Step> steps;
  std::vector<vk::ProgramBuffer> buffers = ProgramBuffers();
  for (std::size_t r = 0; r < copied.size(); ++r) {
    if (!copied[r]) continue;
    const auto size = static_cast<uint64_t>(plan_.results[r].byte_size());
    const std::size_t from = kFirstSlot + static_cast<std::size_t>(plan_.result_aliases[r]);
    const std::size_t to = kFirstSlot + plan_.arguments.size() + r;
    buffers[to].same_memory = -1;
    if (size > 0)
      steps.push_back(vk::Copy{{static_cast<uint32_t>(from), 0, size}, {static_cast<uint32_t>(to), 0, size}});
  }
  KRAFLA_ASSIGN(program, vk::Program::Create(device_, std::move(buffers), {}, std::move(steps), program_options_));
  return program.get();
}

Result<> VulkanExecutable::Submit(vk::Program& program) {
  KRAFLA_ASSIGN(last_, program.Submit(slots_, &*pacer_, after_));
  return {};
}

DeviceWork VulkanExecutable::device_work() {
  std::lock_guard lock(running_);
  DeviceWork out;
  const auto add = [&](const Node& node) {
    const auto* device = std::get_if<DeviceNode>(&node);
    if (device == nullptr) return;
    // What cannot be read of a lost device stays as it was.
    (void)device->program->TakeMeasures();
    const vk::ProgramStatistics& s = device->program->statistics();
    out.submissions += s.submissions;
    out.longest_ms = std::max(out.longest_ms, s.longest_ms);
    out.measured_ms += s.total_ms;
  };
  plan::ForEachStep(nodes_, add);
  for (const NodeList& callee : callees_) plan::ForEachStep(callee, add);
  return out;
}

// What nodes need of the device (plan/step_runner.h). It runs behind the host: what nodes read is waited for.
class VulkanExecutable::StepDevice {
 public:
  explicit StepDevice(VulkanExecutable& executable) : executable_(executable) {}

  Result<> Run(const DeviceNode& node) {
    return executable_.measured_.empty() ? executable_.Submit(*node.program) : executable_.RunMeasured(node);
  }
  Result<> Run(const HostNode& node) {
    if (node.exchange >= 0) {
      KRAFLA_ASSIGN(const bool goes_on, executable_.StartExchange(node));
      if (goes_on) return {};
    }
    return executable_.measured_.empty() ? executable_.RunHost(node) : executable_.RunMeasured(node);
  }
  Result<> Run(const AwaitNode& node) { return executable_.AwaitExchange(node); }
  Result<bool> TryLoop(const WhileNode& loop) {
    // What is measured is measured step by step.
    if (!loop.turns || !executable_.measured_.empty()) return false;
    KRAFLA_TRY(executable_.RunTurns(*loop.turns));
    return true;
  }
  Result<> Check() const { return executable_.limit_->Check(); }
  Result<bool> ReadPredicate(const plan::Slice& slice) {
    KRAFLA_ASSIGN(const uint32_t word, executable_.ReadWord(slice, 1));
    return word != 0;
  }
  Result<int32_t> ReadIndex(const plan::Slice& slice) {
    KRAFLA_ASSIGN(const uint32_t word, executable_.ReadWord(slice, 4));
    return static_cast<int32_t>(word);
  }
  const NodeList& Callee(int number) const { return executable_.callees_[static_cast<std::size_t>(number)]; }
  // So that the host cannot run ahead for ever.
  auto PaceTurns() {
    return [this, before = vk::Event()](int64_t turn) mutable -> Result<> {
      if (turn % kTurnsAtOnce != 0) return {};
      KRAFLA_TRY(executable_.device_->Wait(before, *executable_.limit_));
      before = executable_.last_;
      return {};
    };
  }

 private:
  VulkanExecutable& executable_;
};

Result<> VulkanExecutable::RunProgram() {
  services_->SetLimit(limit_);
  // Two submissions: the device has the next one when it is done with one.
  pacer_.emplace(*device_, *limit_, 2 * program_options_.submit_ms);
  if (std::ranges::find(copied_, true) != copied_.end()) {
    KRAFLA_ASSIGN(vk::Program * copies, CopiesOfAliased(copied_));
    KRAFLA_TRY(Submit(*copies));
  }
  started_.assign(static_cast<std::size_t>(plan_.exchanges), 0);
  placed_.assign(static_cast<std::size_t>(plan_.exchanges), {});
  StepDevice device(*this);
  Result<> ran = plan::RunSteps(nodes_, device);
  // What goes on works in memory that is the caller's.
  if (!ran && lane() != nullptr) {
    lane()->GiveUp(ran);
    device_->Settle(device_->LastBeside());
  }
  return ran;
}

Result<uint32_t> VulkanExecutable::ReadWord(const plan::Slice& slice, int bytes) {
  auto [buffer, offset] = Place(slice);
  uint32_t word = 0;
  KRAFLA_TRY(device_->WaitFor(*buffer, *limit_));
  KRAFLA_TRY(device_->Download(*buffer, offset,
                               std::span(reinterpret_cast<std::byte*>(&word), static_cast<std::size_t>(bytes))));
  return word;
}

Result<> VulkanExecutable::RunHost(const HostNode& node) {
  if (const Instruction* instruction = ExchangeOf(node)) return RunExchange(node, *instruction);
  return RunHostAfter(node, std::nullopt);
}

// Once the device has come to `after`; without one, to the last use of each array.
Result<> VulkanExecutable::RunHostAfter(const HostNode& node, std::optional<vk::Event> after) {
  std::vector<std::byte*> pointers;
  std::vector<AlignedBytes> copies(node.bindings.size());
  for (std::size_t b = 0; b < node.bindings.size(); ++b) {
    auto [buffer, offset] = Place(node.bindings[b]);
    const auto size = static_cast<uint64_t>(node.bindings[b].size);
    if (size > buffer->size() || offset > buffer->size() - size)
      return Internal("A host kernel has {} bytes from byte {} of a buffer of {}.", size, offset, buffer->size());
    // Whoever used it last, this program or another.
    KRAFLA_TRY(after ? device_->Wait(*after, *limit_) : device_->WaitFor(*buffer, *limit_));
    if (buffer->host() != nullptr && buffer->host_cached()) {
      pointers.push_back(buffer->host() + offset);
      continue;
    }
    KRAFLA_ASSIGN(copies[b], HostBytes(static_cast<uint64_t>(node.bindings[b].size) + AlignedBytes::kAlignment));
    auto bytes = copies[b].span().first(static_cast<std::size_t>(node.bindings[b].size));
    KRAFLA_TRY(device_->Download(*buffer, offset, bytes));
    pointers.push_back(bytes.data());
  }
  const LimitedWork work(*limit_);
  KRAFLA_TRY(host_kernels_[static_cast<std::size_t>(node.kernel)]->Run(pointers, HostThreads(), host_scratch_.data()));
  KRAFLA_TRY(work.Outcome());
  for (std::size_t b = 0; b < node.bindings.size(); ++b) {
    if (copies[b].size() == 0 || !node.written[b]) continue;
    auto [buffer, offset] = Place(node.bindings[b]);
    KRAFLA_TRY(
        device_->Upload(*buffer, offset, copies[b].span().first(static_cast<std::size_t>(node.bindings[b].size))));
  }
  return {};
}

}  // namespace krafla
