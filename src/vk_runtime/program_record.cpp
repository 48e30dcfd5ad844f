// SPDX-License-Identifier: Apache-2.0
// The commands of a Program, and its profile.
#include <algorithm>
#include <cstring>

#include "vk_runtime/program.h"

namespace krafla::vk {
namespace {

constexpr VkPipelineStageFlags kWork = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;

// Results in mapped memory are read by the host once the submission is complete.
void HostBarrier(const VolkDeviceTable& vk, VkCommandBuffer commands) {
  auto barrier = Struct<VkMemoryBarrier>(VK_STRUCTURE_TYPE_MEMORY_BARRIER);
  barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
  vk.vkCmdPipelineBarrier(commands, kWork, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, nullptr, 0, nullptr);
}

}  // namespace

void Program::WorkBarrier(VkCommandBuffer commands) const {
  auto barrier = Struct<VkMemoryBarrier>(VK_STRUCTURE_TYPE_MEMORY_BARRIER);
  barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_READ_BIT |
                          VK_ACCESS_TRANSFER_WRITE_BIT;
  VkPipelineStageFlags after = kWork;
  if (has_predicates_) {
    barrier.dstAccessMask |= VK_ACCESS_CONDITIONAL_RENDERING_READ_BIT_EXT;
    after |= VK_PIPELINE_STAGE_CONDITIONAL_RENDERING_BIT_EXT;
  }
  device_->vk().vkCmdPipelineBarrier(commands, kWork, after, 0, 1, &barrier, 0, nullptr, 0, nullptr);
}

// Keeps the launches of a command buffer under their predicates. A section is open as long as neighbours have the same
// one: whoever writes it has none, and so begins the next section.
class Program::Switched {
 public:
  Switched(const Program& program, VkCommandBuffer commands) : program_(program), commands_(commands) {}

  void Enter(const Piece& piece) {
    const auto* launch = std::get_if<Launch>(&program_.steps_[piece.step]);
    const std::optional<BufferSlice> wanted = launch != nullptr ? launch->predicate : std::nullopt;
    if (wanted == open_) return;
    Leave();
    if (!wanted) return;
    auto info = Struct<VkConditionalRenderingBeginInfoEXT>(VK_STRUCTURE_TYPE_CONDITIONAL_RENDERING_BEGIN_INFO_EXT);
    info.buffer = program_.BufferOf(wanted->buffer, {}).handle();
    info.offset = wanted->offset;
    program_.device_->vk().vkCmdBeginConditionalRenderingEXT(commands_, &info);
    open_ = wanted;
  }
  void Leave() {
    if (open_) program_.device_->vk().vkCmdEndConditionalRenderingEXT(commands_);
    open_.reset();
  }

 private:
  const Program& program_;
  const VkCommandBuffer commands_;
  std::optional<BufferSlice> open_;
};

// All of it or nothing: what exists is taken for whole.
Result<> Program::CreateRecording(Recording& recording) {
  Result<> made = AllocateRecording(recording);
  if (made) {
    recording.exists = true;
  } else {
    Destroy(recording);
  }
  return made;
}

Result<> Program::AllocateTables(Recording& recording) {
  const VolkDeviceTable& vk = device_->vk();
  if (device_->uses_addresses()) {
    if (rows_ > 0) {
      KRAFLA_ASSIGN(recording.table,
                    device_->Allocate(uint64_t{rows_} * 8, MemoryKind::kUpload, "a table of addresses"));
    }
  } else if (set_count_ > 0) {
    VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, descriptor_count_};
    auto info = Struct<VkDescriptorPoolCreateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO);
    info.maxSets = set_count_;
    info.poolSizeCount = 1;
    info.pPoolSizes = &size;
    VkResult r = vk.vkCreateDescriptorPool(device_->handle(), &info, nullptr, &recording.pool);
    if (r != VK_SUCCESS) {
      recording.pool = VK_NULL_HANDLE;
      return device_->Fail(r, "create a descriptor pool");
    }
    std::vector<VkDescriptorSetLayout> layouts;
    for (const Step& step : steps_) {
      const auto* launch = std::get_if<Launch>(&step);
      if (launch != nullptr && !launch->bindings.empty()) {
        layouts.push_back(pipelines_[launch->pipeline]->set_layout());
      }
    }
    auto allocate = Struct<VkDescriptorSetAllocateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO);
    allocate.descriptorPool = recording.pool;
    allocate.descriptorSetCount = set_count_;
    allocate.pSetLayouts = layouts.data();
    recording.sets.resize(set_count_);
    r = vk.vkAllocateDescriptorSets(device_->handle(), &allocate, recording.sets.data());
    if (r != VK_SUCCESS) return device_->Fail(r, "allocate descriptor sets");
  }
  return {};
}

Result<> Program::AllocateRecording(Recording& recording) {
  const VolkDeviceTable& vk = device_->vk();
  KRAFLA_TRY(AllocateTables(recording));
  if (!submissions_.empty()) {
    recording.commands.resize(submissions_.size());
    auto info = Struct<VkCommandBufferAllocateInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);
    info.commandPool = pool_;
    info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    info.commandBufferCount = static_cast<uint32_t>(submissions_.size());
    VkResult r = vk.vkAllocateCommandBuffers(device_->handle(), &info, recording.commands.data());
    if (r != VK_SUCCESS) {
      recording.commands.clear();
      return device_->Fail(r, "allocate command buffers");
    }
  }
  return {};
}

// Its work must be complete.
void Program::Destroy(Recording& recording) {
  const VolkDeviceTable& vk = device_->vk();
  if (!recording.commands.empty()) {
    vk.vkFreeCommandBuffers(device_->handle(), pool_, static_cast<uint32_t>(recording.commands.size()),
                            recording.commands.data());
  }
  if (recording.pool != VK_NULL_HANDLE) vk.vkDestroyDescriptorPool(device_->handle(), recording.pool, nullptr);
  recording = {};
}

void Program::WriteTable(Recording& recording, std::span<const BufferBinding> slots, bool everything) {
  if (recording.table == nullptr) return;
  std::byte* table = recording.table->host();
  auto write = [&](const TableEntry& e) {
    uint64_t address = BufferOf(e.buffer, slots).address() + OffsetOf(e.buffer, slots) + e.offset;
    std::memcpy(table + uint64_t{e.row} * 8, &address, sizeof(address));
  };
  if (everything) std::ranges::for_each(fixed_entries_, write);
  std::ranges::for_each(slot_entries_, write);
}

void Program::WriteDescriptors(Recording& recording, std::span<const BufferBinding> slots) {
  std::vector<VkDescriptorBufferInfo> infos;
  std::vector<VkWriteDescriptorSet> writes;
  infos.reserve(descriptor_count_);
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const auto* launch = std::get_if<Launch>(&steps_[i]);
    if (launch == nullptr || launch->bindings.empty()) continue;
    auto write = Struct<VkWriteDescriptorSet>(VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET);
    write.dstSet = recording.sets[set_of_[i]];
    write.descriptorCount = static_cast<uint32_t>(launch->bindings.size());
    write.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    write.pBufferInfo = infos.data() + infos.size();
    for (const BufferSlice& slice : launch->bindings) {
      const Buffer& buffer = BufferOf(slice.buffer, slots);
      uint64_t offset = OffsetOf(slice.buffer, slots) + slice.offset;
      // Whole words, and at least one: an array of no elements is bound too. Capacities are multiples of 16.
      uint64_t range = std::max<uint64_t>(4, (slice.size + 3) / 4 * 4);
      infos.push_back({buffer.handle(), offset, std::min(range, buffer.capacity() - offset)});
    }
    writes.push_back(write);
  }
  device_->vk().vkUpdateDescriptorSets(device_->handle(), static_cast<uint32_t>(writes.size()), writes.data(), 0,
                                       nullptr);
}

void Program::RecordPiece(VkCommandBuffer commands, const Piece& piece, const Recording& recording,
                          std::span<const BufferBinding> slots, VkPipeline& current) const {
  const VolkDeviceTable& vk = device_->vk();
  const Step& step = steps_[piece.step];
  if (const auto* copy = std::get_if<Copy>(&step)) {
    VkBufferCopy region = {OffsetOf(copy->from.buffer, slots) + copy->from.offset,
                           OffsetOf(copy->to.buffer, slots) + copy->to.offset, copy->from.size};
    vk.vkCmdCopyBuffer(commands, BufferOf(copy->from.buffer, slots).handle(), BufferOf(copy->to.buffer, slots).handle(),
                       1, &region);
    return;
  }
  if (const auto* fill = std::get_if<Fill>(&step)) {
    vk.vkCmdFillBuffer(commands, BufferOf(fill->to.buffer, slots).handle(),
                       OffsetOf(fill->to.buffer, slots) + fill->to.offset, fill->to.size, fill->word);
    return;
  }
  const auto& launch = std::get<Launch>(step);
  const Pipeline& pipeline = *pipelines_[launch.pipeline];
  if (current != pipeline.handle()) {
    current = pipeline.handle();
    vk.vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, current);
  }
  uint32_t push[kPushConstantBytes / 4] = {};
  uint32_t push_begin = kPushWordsOffset;
  uint32_t push_end = kPushWordsOffset + static_cast<uint32_t>(launch.push.size()) * 4;
  std::ranges::copy(launch.push, push + kPushWordsOffset / 4);
  if (recording.table != nullptr && !launch.bindings.empty()) {
    uint64_t row = recording.table->address() + uint64_t{first_row_[piece.step]} * 8;
    std::memcpy(push, &row, sizeof(row));
    push_begin = 0;
  } else if (!launch.bindings.empty()) {
    vk.vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline.layout(), 0, 1,
                               &recording.sets[set_of_[piece.step]], 0, nullptr);
  }
  if (push_begin < push_end) {
    vk.vkCmdPushConstants(commands, pipeline.layout(), VK_SHADER_STAGE_COMPUTE_BIT, push_begin, push_end - push_begin,
                          push + push_begin / 4);
  }
  if (piece.axis < 0) {
    vk.vkCmdDispatch(commands, launch.grid[0], launch.grid[1], launch.grid[2]);
    return;
  }
  uint32_t base[3] = {0, 0, 0}, count[3] = {launch.grid[0], launch.grid[1], launch.grid[2]};
  base[piece.axis] = piece.begin;
  count[piece.axis] = piece.count;
  vk.vkCmdDispatchBase(commands, base[0], base[1], base[2], count[0], count[1], count[2]);
}

Result<std::unique_ptr<Program::Binding>> Program::Bind(std::span<const BufferBinding> slots) {
  KRAFLA_TRY(device_->Alive());
  if (slots.size() != slot_count_)
    return InvalidArgument("A program with {} slots was given {} buffers.", slot_count_, slots.size());
  KRAFLA_TRY(CheckSlots(slots));
  auto out = std::make_unique<Binding>(*this);
  out->slots_.assign(slots.begin(), slots.end());
  KRAFLA_TRY(AllocateTables(out->recording_));
  if (device_->uses_addresses()) {
    WriteTable(out->recording_, slots, true);
  } else if (set_count_ > 0) {
    WriteDescriptors(out->recording_, slots);
  }
  return out;
}

void Program::RecordInto(VkCommandBuffer commands, const Binding& binding) const {
  VkPipeline current = VK_NULL_HANDLE;
  Switched switched(*this, commands);
  for (const Submission& submission : submissions_)
    for (const auto& group : submission.groups) {
      WorkBarrier(commands);
      for (const Piece& piece : group) {
        switched.Enter(piece);
        RecordPiece(commands, piece, binding.recording_, binding.slots_, current);
      }
    }
  switched.Leave();
}

void RecordOutcomeBarrier(const Device& device, VkCommandBuffer commands) {
  auto barrier = Struct<VkMemoryBarrier>(VK_STRUCTURE_TYPE_MEMORY_BARRIER);
  barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_READ_BIT |
                          VK_ACCESS_TRANSFER_WRITE_BIT | VK_ACCESS_HOST_READ_BIT;
  device.vk().vkCmdPipelineBarrier(commands, kWork, kWork | VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, nullptr, 0,
                                   nullptr);
}

Result<> Program::Record(Recording& recording, std::span<const BufferBinding> slots) {
  const VolkDeviceTable& vk = device_->vk();
  recording.recorded = false;
  ++statistics_.recordings;
  const bool is_measured = &recording == measured_ && queries_ != VK_NULL_HANDLE;
  for (std::size_t i = 0; i < submissions_.size(); ++i) {
    VkCommandBuffer commands = recording.commands[i];
    auto begin = Struct<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
    // A loop submits its body again before the last turn is over.
    begin.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT;
    VkResult r = vk.vkBeginCommandBuffer(commands, &begin);
    if (r != VK_SUCCESS) return device_->Fail(r, "begin a command buffer");
    VkPipeline current = VK_NULL_HANDLE;
    if (is_measured) {
      vk.vkCmdResetQueryPool(commands, queries_, static_cast<uint32_t>(2 * i), 2);
      WorkBarrier(commands);
      RecordTimestamp(commands, 2 * i);
    }
    Switched switched(*this, commands);
    for (const auto& group : submissions_[i].groups) {
      // The first one is between this and what was submitted before.
      WorkBarrier(commands);
      for (const Piece& piece : group) {
        switched.Enter(piece);
        RecordPiece(commands, piece, recording, slots, current);
      }
    }
    switched.Leave();
    if (is_measured) {
      WorkBarrier(commands);
      RecordTimestamp(commands, 2 * i + 1);
    }
    if (i + 1 == submissions_.size()) HostBarrier(vk, commands);
    r = vk.vkEndCommandBuffer(commands);
    if (r != VK_SUCCESS) return device_->Fail(r, "record a command buffer");
  }
  recording.recorded = true;
  return {};
}

namespace {

// A command buffer and timestamps to measure with. Freed on every way out; nothing of it is in use then, unless a wait
// fails, and then it is left alone.
class ProfileCommands {
 public:
  explicit ProfileCommands(Device& device) : device_(device) {}
  ~ProfileCommands() {
    if (!device_.Settle(last)) return;
    if (queries_ != VK_NULL_HANDLE) device_.vk().vkDestroyQueryPool(device_.handle(), queries_, nullptr);
    if (pool_ != VK_NULL_HANDLE) device_.vk().vkDestroyCommandPool(device_.handle(), pool_, nullptr);
  }
  ProfileCommands(const ProfileCommands&) = delete;
  ProfileCommands& operator=(const ProfileCommands&) = delete;

  Result<> Create(uint32_t timestamps) {
    timestamps_ = timestamps;
    auto pool_info = Struct<VkCommandPoolCreateInfo>(VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
    pool_info.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT | VK_COMMAND_POOL_CREATE_TRANSIENT_BIT;
    pool_info.queueFamilyIndex = device_.queue_family();
    VkResult r = device_.vk().vkCreateCommandPool(device_.handle(), &pool_info, nullptr, &pool_);
    if (r != VK_SUCCESS) {
      pool_ = VK_NULL_HANDLE;
      return device_.Fail(r, "create a command pool");
    }
    auto query_info = Struct<VkQueryPoolCreateInfo>(VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO);
    query_info.queryType = VK_QUERY_TYPE_TIMESTAMP;
    query_info.queryCount = timestamps;
    r = device_.vk().vkCreateQueryPool(device_.handle(), &query_info, nullptr, &queries_);
    if (r != VK_SUCCESS) {
      queries_ = VK_NULL_HANDLE;
      return device_.Fail(r, "create a query pool");
    }
    auto allocate = Struct<VkCommandBufferAllocateInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);
    allocate.commandPool = pool_;
    allocate.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    allocate.commandBufferCount = 1;
    r = device_.vk().vkAllocateCommandBuffers(device_.handle(), &allocate, &commands_);
    if (r != VK_SUCCESS) return device_.Fail(r, "allocate a command buffer");
    return {};
  }

  Result<> Begin() {
    auto begin = Struct<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
    begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
    VkResult r = device_.vk().vkBeginCommandBuffer(commands_, &begin);
    if (r != VK_SUCCESS) return device_.Fail(r, "begin a command buffer");
    device_.vk().vkCmdResetQueryPool(commands_, queries_, 0, timestamps_);
    written_ = 0;
    return {};
  }
  void Timestamp() {
    device_.vk().vkCmdWriteTimestamp(commands_, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, queries_, written_++);
  }
  Result<> End() {
    VkResult r = device_.vk().vkEndCommandBuffer(commands_);
    if (r != VK_SUCCESS) return device_.Fail(r, "record a command buffer");
    return {};
  }
  Result<std::vector<uint64_t>> Ticks() const {
    std::vector<uint64_t> out(written_);
    VkResult r = device_.vk().vkGetQueryPoolResults(device_.handle(), queries_, 0, written_,
                                                    out.size() * sizeof(uint64_t), out.data(), sizeof(uint64_t),
                                                    VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT);
    if (r != VK_SUCCESS) return device_.Fail(r, "read timestamps");
    return out;
  }
  VkCommandBuffer commands() const { return commands_; }

  Event last;  // the submission that used this last

 private:
  Device& device_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkQueryPool queries_ = VK_NULL_HANDLE;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
  uint32_t timestamps_ = 0, written_ = 0;
};

}  // namespace

Result<std::vector<double>> Program::Profile(std::span<const BufferBinding> slots) {
  KRAFLA_TRY(device_->Alive());
  const VolkDeviceTable& vk = device_->vk();
  const DeviceLimits& limits = device_->profile().limits;
  if (limits.timestamp_valid_bits == 0) {
    return Unimplemented("{} has no timestamps on its compute queue.", device_->profile().name);
  }
  KRAFLA_ASSIGN(Recording * recording, Prepare(slots, /*is_measured=*/false));
  std::vector<double> out(steps_.size());
  std::size_t most = 0;
  for (const Submission& submission : submissions_) {
    std::size_t pieces = 0;
    for (const auto& group : submission.groups) pieces += group.size();
    most = std::max(most, pieces);
  }
  if (most == 0) return out;

  ProfileCommands profile(*device_);
  KRAFLA_TRY(profile.Create(static_cast<uint32_t>(most + 1)));
  VkCommandBuffer commands = profile.commands();
  uint64_t mask = limits.timestamp_valid_bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << limits.timestamp_valid_bits) - 1;
  for (const Submission& submission : submissions_) {
    KRAFLA_TRY(profile.Begin());
    WorkBarrier(commands);
    VkPipeline current = VK_NULL_HANDLE;
    std::vector<uint32_t> steps;
    profile.Timestamp();
    Switched switched(*this, commands);
    for (const auto& group : submission.groups) {
      for (const Piece& piece : group) {
        switched.Enter(piece);
        RecordPiece(commands, piece, *recording, slots, current);
        WorkBarrier(commands);
        profile.Timestamp();
        steps.push_back(piece.step);
      }
    }
    switched.Leave();
    HostBarrier(vk, commands);
    KRAFLA_TRY(profile.End());
    KRAFLA_ASSIGN(profile.last, device_->Submit(commands, submission.names));
    recording->last = profile.last;
    for (const ProgramBuffer& b : buffers_) {
      if (b.fixed != nullptr) b.fixed->Use(profile.last.number);
    }
    for (const BufferBinding& s : slots) s.buffer->Use(profile.last.number);
    KRAFLA_TRY(device_->Wait(profile.last));
    KRAFLA_ASSIGN(const std::vector<uint64_t> ticks, profile.Ticks());
    for (std::size_t i = 0; i < steps.size(); ++i) {
      uint64_t elapsed = (ticks[i + 1] - ticks[i]) & mask;
      out[steps[i]] += static_cast<double>(elapsed) * limits.timestamp_period_ns * 1e-6;
    }
  }
  return out;
}

}  // namespace krafla::vk
