// SPDX-License-Identifier: Apache-2.0
// Checking, planning and running; program_record.cpp has the commands.
#include "vk_runtime/program.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "vk_runtime/schedule.h"

namespace krafla::vk {
namespace {

constexpr uint64_t kSlotAlignment = 16;

bool Fits(uint64_t offset, uint64_t size, uint64_t limit) { return size <= limit && offset <= limit - size; }

}  // namespace

Result<std::unique_ptr<Program>> Program::Create(std::shared_ptr<Device> device, std::vector<ProgramBuffer> buffers,
                                                 std::vector<std::shared_ptr<Pipeline>> pipelines,
                                                 std::vector<Step> steps, ProgramOptions options) {
  KRAFLA_TRY(device->Alive());
  std::unique_ptr<Program> program(new Program());
  Program& p = *program;
  p.device_ = std::move(device);
  p.buffers_ = std::move(buffers);
  p.pipelines_ = std::move(pipelines);
  p.steps_ = std::move(steps);
  p.options_ = options;
  KRAFLA_TRY(p.Check());
  if (options.beside && !p.device_->has_side_queue())
    return InvalidArgument("A program was to run on a second queue, which {} does not have.",
                           p.device_->profile().name);
  p.Plan();
  auto info = Struct<VkCommandPoolCreateInfo>(VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
  info.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
  info.queueFamilyIndex = options.beside ? p.device_->side_family() : p.device_->queue_family();
  VkResult r = p.device_->vk().vkCreateCommandPool(p.device_->handle(), &info, nullptr, &p.pool_);
  if (r != VK_SUCCESS) {
    p.pool_ = VK_NULL_HANDLE;
    return p.device_->Fail(r, "create a command pool");
  }
  return program;
}

Program::~Program() {
  for (Recording& r : recordings_) {
    // What may still run keeps its objects: a leak, where freeing would be a use after free.
    if (!device_->Settle(r.last)) {
      for (auto& other : recordings_) Abandon(std::move(other.table));
      for (auto& b : buffers_) Abandon(std::move(b.fixed));
      for (auto& pipeline : pipelines_) Abandon(std::move(pipeline));
      return;
    }
  }
  EndMeasuring();
  for (Recording& r : recordings_) Destroy(r);
  if (pool_ != VK_NULL_HANDLE) device_->vk().vkDestroyCommandPool(device_->handle(), pool_, nullptr);
}

uint64_t Program::SizeOf(uint32_t buffer) const {
  const ProgramBuffer& b = buffers_[buffer];
  return b.fixed != nullptr ? b.fixed->size() : b.size;
}

const Buffer& Program::BufferOf(uint32_t buffer, std::span<const BufferBinding> slots) const {
  const ProgramBuffer& b = buffers_[buffer];
  return b.fixed != nullptr ? *b.fixed : *slots[static_cast<std::size_t>(b.slot)].buffer;
}

uint64_t Program::OffsetOf(uint32_t buffer, std::span<const BufferBinding> slots) const {
  const ProgramBuffer& b = buffers_[buffer];
  return b.fixed != nullptr ? 0 : slots[static_cast<std::size_t>(b.slot)].offset;
}

Result<> Program::CheckSlice(const BufferSlice& slice, std::size_t step, std::string_view what) const {
  if (slice.buffer >= buffers_.size()) {
    return InvalidArgument("Step {} {} buffer {}; the program has {}.", step, what, slice.buffer, buffers_.size());
  }
  if (!Fits(slice.offset, slice.size, SizeOf(slice.buffer))) {
    return InvalidArgument("Step {} {} bytes {} to {} of buffer {}, which has {}.", step, what, slice.offset,
                           slice.offset + slice.size, slice.buffer, SizeOf(slice.buffer));
  }
  return {};
}

Result<> Program::CheckLaunch(const Launch& launch, std::size_t step) const {
  const DeviceLimits& limits = device_->profile().limits;
  if (launch.pipeline >= pipelines_.size() || pipelines_[launch.pipeline] == nullptr) {
    return InvalidArgument("Step {} launches pipeline {}; the program has {}.", step, launch.pipeline,
                           pipelines_.size());
  }
  const Pipeline& pipeline = *pipelines_[launch.pipeline];
  if (launch.bindings.size() != pipeline.binding_count()) {
    return InvalidArgument("Step {} gives kernel '{}' {} buffers; it has {}.", step, pipeline.name(),
                           launch.bindings.size(), pipeline.binding_count());
  }
  if (!launch.access.empty() && launch.access.size() != launch.bindings.size()) {
    return InvalidArgument("Step {} says how it uses {} buffers and gives {}.", step, launch.access.size(),
                           launch.bindings.size());
  }
  if (launch.push.size() > kMaxPushWords) {
    return InvalidArgument("Step {} pushes {} words; the limit is {}.", step, launch.push.size(), kMaxPushWords);
  }
  for (int axis = 0; axis < 3; ++axis) {
    if (launch.grid[axis] > limits.max_workgroup_count[axis]) {
      return InvalidArgument("Step {} launches {} workgroups along axis {} of kernel '{}'; {} allows {}.", step,
                             launch.grid[axis], axis, pipeline.name(), device_->profile().name,
                             limits.max_workgroup_count[axis]);
    }
  }
  if (launch.predicate) {
    KRAFLA_TRY(CheckSlice(*launch.predicate, step, "is switched by"));
    const ProgramBuffer& buffer = buffers_[launch.predicate->buffer];
    if (launch.predicate->size != 4 || launch.predicate->offset % 4 != 0 || buffer.fixed == nullptr ||
        !device_->profile().features.conditional_rendering) {
      return InvalidArgument("Step {} is switched by what is no word of a fixed buffer, or on a device that cannot.",
                             step);
    }
  }
  for (const BufferSlice& slice : launch.bindings) {
    KRAFLA_TRY(CheckSlice(slice, step, "binds"));
    if (device_->uses_addresses()) continue;
    if (slice.offset % limits.min_storage_buffer_offset_alignment != 0) {
      return InvalidArgument("Step {} binds buffer {} at {}, which is not a multiple of the {} bytes that {} asks for.",
                             step, slice.buffer, slice.offset, limits.min_storage_buffer_offset_alignment,
                             device_->profile().name);
    }
    if (slice.size > limits.max_storage_buffer_range) {
      return Unimplemented("Step {} binds {} bytes to kernel '{}'; {} allows {} and has no buffer device addresses.",
                           step, slice.size, pipeline.name(), device_->profile().name, limits.max_storage_buffer_range);
    }
  }
  return {};
}

Result<> Program::Check() const {
  std::vector<bool> slots;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const ProgramBuffer& b = buffers_[i];
    if ((b.fixed == nullptr) == (b.slot < 0)) {
      return InvalidArgument("Buffer {} of a program must be either fixed or a slot.", i);
    }
    if (b.fixed != nullptr && &b.fixed->device() != device_.get()) {
      return InvalidArgument("Buffer {} of a program belongs to another device.", i);
    }
    if (b.same_memory >= static_cast<int>(i)) {
      return InvalidArgument("Buffer {} shares the memory of buffer {}, which does not come before it.", i,
                             b.same_memory);
    }
    if (b.slot < 0) continue;
    slots.resize(std::max(slots.size(), static_cast<std::size_t>(b.slot) + 1));
    if (slots[static_cast<std::size_t>(b.slot)]) {
      return InvalidArgument("Two buffers of a program are slot {}.", b.slot);
    }
    slots[static_cast<std::size_t>(b.slot)] = true;
  }
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (const auto* launch = std::get_if<Launch>(&steps_[i])) {
      KRAFLA_TRY(CheckLaunch(*launch, i));
    } else if (const auto* copy = std::get_if<Copy>(&steps_[i])) {
      KRAFLA_TRY(CheckSlice(copy->from, i, "copies from"));
      KRAFLA_TRY(CheckSlice(copy->to, i, "copies to"));
      if (copy->from.size != copy->to.size) {
        return InvalidArgument("Step {} copies {} bytes to {}.", i, copy->from.size, copy->to.size);
      }
      if (copy->from.buffer == copy->to.buffer && copy->from.offset < copy->to.offset + copy->to.size &&
          copy->to.offset < copy->from.offset + copy->from.size) {
        return InvalidArgument("Step {} copies bytes {} to {} of buffer {} onto themselves.", i, copy->from.offset,
                               copy->from.offset + copy->from.size, copy->from.buffer);
      }
    } else {
      const auto& fill = std::get<Fill>(steps_[i]);
      KRAFLA_TRY(CheckSlice(fill.to, i, "fills"));
      if (fill.to.offset % 4 != 0 || fill.to.size % 4 != 0) {
        return InvalidArgument("Step {} fills bytes {} to {}, which are not whole words.", i, fill.to.offset,
                               fill.to.offset + fill.to.size);
      }
    }
  }
  return {};
}

// Fills in everything that is known before the first run.
void Program::Plan() {
  for (uint32_t i = 0; i < buffers_.size(); ++i) {
    slot_count_ = std::max(slot_count_, static_cast<std::size_t>(buffers_[i].slot + 1));
    uint32_t memory = i;
    if (buffers_[i].same_memory >= 0) memory = memory_of_[static_cast<std::size_t>(buffers_[i].same_memory)];
    // One buffer given twice is one memory without being told.
    for (uint32_t j = 0; j < i && buffers_[i].fixed != nullptr && memory == i; ++j) {
      if (buffers_[j].fixed == buffers_[i].fixed) memory = memory_of_[j];
    }
    memory_of_.push_back(memory);
  }
  written_.resize(slot_count_);
  auto note_write = [&](const BufferSlice& slice) {
    if (int slot = buffers_[slice.buffer].slot; slot >= 0) written_[static_cast<std::size_t>(slot)] = true;
  };
  auto is_slot = [&](const BufferSlice& slice) { return buffers_[slice.buffer].slot >= 0; };

  first_row_.resize(steps_.size());
  set_of_.resize(steps_.size());
  for (uint32_t i = 0; i < steps_.size(); ++i) {
    if (const auto* launch = std::get_if<Launch>(&steps_[i])) {
      ++statistics_.launches;
      first_row_[i] = rows_;
      set_of_[i] = set_count_;
      for (std::size_t b = 0; b < launch->bindings.size(); ++b) {
        const BufferSlice& slice = launch->bindings[b];
        (is_slot(slice) ? slot_entries_ : fixed_entries_)
            .push_back({rows_ + static_cast<uint32_t>(b), slice.buffer, slice.offset});
        if (launch->access.empty() || launch->access[b] != Access::kRead) note_write(slice);
      }
      rows_ += static_cast<uint32_t>((launch->bindings.size() + 1) / 2 * 2);  // rows start at 16 bytes
      descriptor_count_ += static_cast<uint32_t>(launch->bindings.size());
      if (!launch->bindings.empty()) ++set_count_;
      has_predicates_ = has_predicates_ || launch->predicate.has_value();
    } else if (const auto* copy = std::get_if<Copy>(&steps_[i])) {
      ++statistics_.copies;
      note_write(copy->to);
      copies_slots_ = copies_slots_ || is_slot(copy->from) || is_slot(copy->to);
    } else {
      const auto& fill = std::get<Fill>(steps_[i]);
      ++statistics_.fills;
      note_write(fill.to);
      copies_slots_ = copies_slots_ || is_slot(fill.to);
    }
  }

  std::vector<double> ms;
  for (const Step& step : steps_) {
    double estimate = 0;
    if (const auto* launch = std::get_if<Launch>(&step)) estimate = launch->estimated_ms;
    if (const auto* copy = std::get_if<Copy>(&step)) estimate = copy->estimated_ms;
    ms.push_back(std::isfinite(estimate) && estimate > 0 ? estimate : 0);
  }
  calibration_ = Calibration(std::move(ms), options_.submit_ms);
  levels_ = ScheduleSteps(steps_, memory_of_, options_.reorder);
  statistics_.barriers = levels_.empty() ? 0 : static_cast<int>(levels_.size()) - 1;
  Cut();
}

void Program::Cut() {
  StepFacts facts;
  facts.ms = calibration_.ms();
  for (const Step& step : steps_) {
    const auto* launch = std::get_if<Launch>(&step);
    facts.is_splittable.push_back(launch != nullptr && pipelines_[launch->pipeline]->splittable());
    if (launch != nullptr) {
      facts.names.push_back(launch->name.empty() ? pipelines_[launch->pipeline]->name() : launch->name);
    } else {
      facts.names.push_back(std::holds_alternative<Copy>(step) ? "copy" : "fill");
    }
  }
  submissions_ = CutIntoSubmissions(steps_, levels_, facts, options_);
  statistics_.submissions = static_cast<int>(submissions_.size());
}

Result<> Program::CheckSlots(std::span<const BufferBinding> slots) const {
  uint64_t alignment = kSlotAlignment;
  if (!device_->uses_addresses()) {
    alignment = std::max<uint64_t>(alignment, device_->profile().limits.min_storage_buffer_offset_alignment);
  }
  struct Range {
    uint64_t id, begin, end;
    uint32_t buffer;
    bool written;
  };
  std::vector<Range> ranges;
  for (uint32_t i = 0; i < buffers_.size(); ++i) {
    const ProgramBuffer& b = buffers_[i];
    if (b.fixed != nullptr) {
      ranges.push_back({b.fixed->id(), 0, b.fixed->size(), i, true});
      continue;
    }
    const BufferBinding& s = slots[static_cast<std::size_t>(b.slot)];
    if (s.buffer == nullptr) return InvalidArgument("Slot {} of a program has no buffer.", b.slot);
    if (&s.buffer->device() != device_.get()) {
      return InvalidArgument("The buffer in slot {} of a program belongs to another device.", b.slot);
    }
    if (s.offset % alignment != 0) {
      return InvalidArgument("Slot {} of a program starts at byte {} of a buffer, which is not a multiple of {}.",
                             b.slot, s.offset, alignment);
    }
    if (!Fits(s.offset, b.size, s.buffer->size())) {
      return InvalidArgument("Slot {} of a program needs {} bytes from byte {} of a buffer of {} bytes.", b.slot,
                             b.size, s.offset, s.buffer->size());
    }
    ranges.push_back(
        {s.buffer->id(), s.offset, s.offset + b.size, i, bool(written_[static_cast<std::size_t>(b.slot)])});
  }
  std::ranges::sort(ranges,
                    [](const Range& a, const Range& b) { return std::tie(a.id, a.begin) < std::tie(b.id, b.begin); });
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const Range& a = ranges[i];
    for (std::size_t j = i + 1; j < ranges.size() && ranges[j].id == a.id && ranges[j].begin < a.end; ++j) {
      const Range& b = ranges[j];
      if ((a.written || b.written) && memory_of_[a.buffer] != memory_of_[b.buffer]) {
        return InvalidArgument(
            "Buffers {} and {} of a program were given the same bytes, one of them is written, and "
            "the program was not built for that (a donated argument must be declared).",
            std::min(a.buffer, b.buffer), std::max(a.buffer, b.buffer));
      }
    }
  }
  return {};
}

// One that is not in use, else a new one, else the one that is done first. The one that was measured serves measured
// runs alone.
Result<Program::Recording*> Program::FreeRecording(bool is_measured) {
  if (is_measured && measured_ != nullptr) {
    KRAFLA_TRY(device_->Wait(measured_->last));
    return measured_;
  }
  const std::span<Recording> all = std::span(recordings_).first(steps_.size() <= kShort ? kMostRecordings : 2);
  for (Recording& r : all) {
    if (!r.exists || &r == measured_) continue;
    KRAFLA_ASSIGN(bool free, device_->IsComplete(r.last));
    if (free) return &r;
  }
  Recording* chosen = nullptr;
  for (Recording& r : all) {
    if (&r == measured_) continue;
    if (!r.exists) return &r;
    if (chosen == nullptr || r.last.number < chosen->last.number) chosen = &r;
  }
  KRAFLA_TRY(device_->Wait(chosen->last));
  return chosen;
}

Result<Program::Recording*> Program::Prepare(std::span<const BufferBinding> slots, bool is_measured) {
  if (slots.size() != slot_count_) {
    return InvalidArgument("A program with {} slots was run with {} buffers.", slot_count_, slots.size());
  }
  wanted_.clear();
  for (const BufferBinding& s : slots) wanted_.push_back({s.buffer != nullptr ? s.buffer->id() : 0, s.offset});
  for (Recording& r : recordings_) {
    if (r.recorded && r.bound == wanted_ && (&r == measured_) == is_measured) return &r;
  }
  KRAFLA_TRY(CheckSlots(slots));
  KRAFLA_ASSIGN(Recording * chosen, FreeRecording(is_measured));
  bool fresh = !chosen->exists;
  if (fresh) KRAFLA_TRY(CreateRecording(*chosen));
  if (is_measured && measured_ == nullptr) {
    KRAFLA_TRY(BeginMeasuring());
    measured_ = chosen;
    chosen->recorded = false;
  }
  chosen->bound.clear();  // nothing, until all is done
  if (device_->uses_addresses()) {
    WriteTable(*chosen, slots, fresh);
  } else {
    WriteDescriptors(*chosen, slots);
  }
  if (!chosen->recorded || copies_slots_ || !device_->uses_addresses()) {
    Result<> recorded = Record(*chosen, slots);
    // Commands that could not be ended cannot be begun again.
    if (!recorded) {
      if (chosen == measured_) EndMeasuring();
      Destroy(*chosen);
    }
    KRAFLA_TRY(std::move(recorded));
  }
  chosen->bound = wanted_;
  return chosen;
}

Result<Event> Program::Submit(std::span<const BufferBinding> slots, Pacer* pacer, Event after) {
  KRAFLA_TRY(device_->Alive());
  KRAFLA_TRY(TakeMeasures());
  const bool is_measured = !options_.beside && calibration_.IsWanted() && !is_measure_pending_;
  const bool by_clock = is_measured && !HasTimestamps();
  const RunLimit& limit = pacer != nullptr ? pacer->limit() : kUnlimited;
  KRAFLA_ASSIGN(Recording * recording, Prepare(slots, is_measured));
  if (by_clock) {
    taken_ms_.assign(submissions_.size(), 0);
    KRAFLA_TRY(device_->Wait(device_->LastSubmitted(), limit));
  }
  for (std::size_t i = 0; i < submissions_.size(); ++i) {
    if (pacer != nullptr) KRAFLA_TRY(pacer->Admit(submissions_[i].ms));
    const Clock::time_point begin = Clock::now();
    if (options_.beside) {
      KRAFLA_ASSIGN(recording->last, device_->SubmitBeside(recording->commands[i], after));
    } else {
      KRAFLA_ASSIGN(recording->last, device_->Submit(recording->commands[i], submissions_[i].names));
      for (const ProgramBuffer& b : buffers_) {
        if (b.fixed != nullptr) b.fixed->Use(recording->last.number);
      }
      for (const BufferBinding& s : slots) s.buffer->Use(recording->last.number);
    }
    if (pacer != nullptr) pacer->Note(recording->last, submissions_[i].ms);
    if (by_clock) {
      KRAFLA_TRY(device_->Wait(recording->last, limit));
      taken_ms_[i] = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
    }
  }
  is_measure_pending_ = is_measured;
  return recording->last;
}

Result<> Program::Run(std::span<const BufferBinding> slots) {
  KRAFLA_ASSIGN(Event event, Submit(slots));
  return device_->Wait(event);
}

}  // namespace krafla::vk
