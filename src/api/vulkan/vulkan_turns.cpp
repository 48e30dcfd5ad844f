// SPDX-License-Identifier: Apache-2.0
// Loops whose turns a VulkanExecutable submits ahead (turn_kernels.h).
#include <algorithm>
#include <array>
#include <cstring>

#include "api/vulkan/vulkan_executable.h"
#include "spirv_codegen/emit.h"

namespace krafla {
namespace {

constexpr int64_t kWord = sizeof(uint32_t);

}  // namespace

Result<> VulkanExecutable::PrepareTurns() {
  if (predicate_ != nullptr) return {};
  KRAFLA_ASSIGN(turn_count_, device_->Allocate(kWord, vk::MemoryKind::kReadback, "the count of a loop's turns"));
  KRAFLA_ASSIGN(predicate_, device_->Allocate(kWord, vk::MemoryKind::kPredicate, "the predicate of a loop's turns"));
  std::vector<vk::ProgramBuffer> buffers;
  for (const auto& buffer : {predicate_, turn_count_}) buffers.push_back(vk::ProgramBuffer::Fixed(buffer));
  std::vector<vk::Step> steps = {vk::Fill{{0, 0, kWord}, 1}, vk::Fill{{1, 0, kWord}, 0}};
  KRAFLA_ASSIGN(begin_turns_, vk::Program::Create(device_, std::move(buffers), {}, std::move(steps), program_options_));
  return {};
}

vk::Launch VulkanExecutable::TurnLaunch(const spirv::EmittedProgram& program, int pipeline,
                                        std::span<const vk::BufferSlice> slices) {
  const spirv::EmittedKernel& kernel = program.kernels[0];
  vk::Launch launch;
  launch.pipeline = static_cast<uint32_t>(pipeline);
  std::ranges::copy(program.dispatches[0].grid, launch.grid);
  for (const spirv::EmittedKernel::BufferUse& use : kernel.buffers) {
    launch.bindings.push_back(slices[static_cast<std::size_t>(use.buffer)]);
    launch.access.push_back(use.written ? vk::Access::kWrite : vk::Access::kRead);
  }
  launch.push = program.dispatches[0].push;
  return launch;
}

Result<> VulkanExecutable::AddTurns(const plan::WhileStep& loop, WhileNode& node) {
  // Launches that a submission should have, so that looking at the loop costs little beside them; and turns, which are
  // for nothing where the loop ends before.
  constexpr int64_t kLaunches = 64, kMostTurns = 16;
  KRAFLA_TRY(PrepareTurns());
  std::vector<vk::ProgramBuffer> buffers = ProgramBuffers();
  const vk::BufferSlice predicate{static_cast<uint32_t>(buffers.size()), 0, kWord};
  const vk::BufferSlice count{static_cast<uint32_t>(buffers.size()) + 1, 0, kWord};
  for (const auto& buffer : {predicate_, turn_count_}) buffers.push_back(vk::ProgramBuffer::Fixed(buffer));

  const TurnKernels& kernels = shared_->kernels.turns;
  Pending turn;
  const auto add = [&](const plan::StepList& list) {
    const std::size_t first = turn.steps.size();
    for (const plan::Step& step : list.steps) {
      if (const auto* launch = std::get_if<plan::LaunchStep>(&step)) AddLaunch(*launch, turn);
      if (const auto* group = std::get_if<plan::RowGroupStep>(&step)) AddBlocks(*group, turn);
      const auto* copy = std::get_if<plan::CopyStep>(&step);
      if (copy == nullptr || copy->from.size == 0) continue;
      const vk::BufferSlice slices[] = {SliceOf(copy->from), SliceOf(copy->to)};
      turn.steps.emplace_back(
          TurnLaunch(kernels.copies.at(copy->from.size), shared_->copy_pipelines.at(copy->from.size), slices));
    }
    for (std::size_t s = first; s < turn.steps.size(); ++s) std::get<vk::Launch>(turn.steps[s]).predicate = predicate;
  };
  add(*loop.condition);
  const vk::BufferSlice gate[] = {SliceOf(loop.predicate), count, predicate, count};
  turn.steps.emplace_back(TurnLaunch(kernels.gate, shared_->gate_pipeline, gate));
  add(*loop.body);

  Turns turns;
  turns.count = std::clamp<int64_t>(kLaunches / std::ssize(turn.steps), 1, kMostTurns);
  std::vector<vk::Step> steps;
  for (int64_t t = 0; t < turns.count; ++t) steps.insert(steps.end(), turn.steps.begin(), turn.steps.end());
  KRAFLA_ASSIGN(turns.program,
                vk::Program::Create(device_, std::move(buffers), pipelines_, std::move(steps), program_options_));
  node.turns = std::move(turns);
  return {};
}

Result<> VulkanExecutable::RunTurns(const Turns& turns) {
  // As many submissions are under way, so that the device has work while the host looks at the one before.
  constexpr uint32_t kAhead = 2;
  KRAFLA_ASSIGN(last_, begin_turns_->Submit({}, &*pacer_));
  std::array<vk::Event, kAhead> sent;
  for (uint32_t n = 0;; ++n) {
    KRAFLA_TRY(limit_->Check());
    if (n >= kAhead) {
      KRAFLA_TRY(device_->Wait(sent[n % kAhead], *limit_));
      KRAFLA_TRY(device_->PrepareHostRead(*turn_count_));
      uint32_t done = 0;  // later submissions may be counting already
      std::memcpy(&done, turn_count_->host(), sizeof(done));
      const uint32_t wanted = (n - kAhead + 1) * static_cast<uint32_t>(turns.count);
      if (static_cast<int32_t>(done - wanted) < 0) return {};
    }
    KRAFLA_TRY(Submit(*turns.program));
    sent[n % kAhead] = last_;
  }
}

}  // namespace krafla
