// SPDX-License-Identifier: Apache-2.0
// Steps, recorded once and run many times.
//
// The buffers of a program are fixed (arena, constants) or slots that each run fills (arguments, results). In the
// address model a run with other buffers rewrites a small table; in the descriptor model it writes descriptors and
// records again. A run with the same buffers is one vkQueueSubmit. Several programs may be submitted one after the
// other without waiting: each starts after what was submitted before, and sees its writes.
//
// A Program is used by one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "krafla/status.h"
#include "vk_runtime/calibration.h"
#include "vk_runtime/device.h"
#include "vk_runtime/pacer.h"
#include "vk_runtime/pipeline.h"
#include "vk_runtime/step.h"
#include "vk_runtime/submission.h"

namespace krafla::vk {

struct ProgramBuffer {
  static ProgramBuffer Fixed(std::shared_ptr<Buffer> buffer) { return {std::move(buffer), -1, 0, -1}; }
  // Slot `number` of the `slots` of a run, which will hold at least `size` bytes.
  static ProgramBuffer Slot(int number, uint64_t size) { return {nullptr, number, size, -1}; }

  std::shared_ptr<Buffer> fixed;
  int slot = -1;
  uint64_t size = 0;     // of a slot
  int same_memory = -1;  // a lower-numbered buffer of the program whose bytes these are (a donated argument)
};

// What a run puts in a slot. The buffer may be dropped once the run is submitted.
struct BufferBinding {
  Buffer* buffer = nullptr;
  uint64_t offset = 0;
};

struct ProgramStatistics {
  int launches = 0, copies = 0, fills = 0;
  int barriers = 0;     // between steps
  int submissions = 0;  // a run
  int recordings = 0;   // so far
  // Of a run, as its submissions were measured in the first ones; 0: they were not, being short.
  double longest_ms = 0, total_ms = 0;
};

class Program {
 public:
  static Result<std::unique_ptr<Program>> Create(std::shared_ptr<Device> device, std::vector<ProgramBuffer> buffers,
                                                 std::vector<std::shared_ptr<Pipeline>> pipelines,
                                                 std::vector<Step> steps, ProgramOptions options = {});
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Submits and returns. Slot k gets slots[k]. With a `pacer` it waits as that asks, and may be ended in between. On
  // the second queue it begins after `after`, an event of the first; who calls sees to it that buffers last.
  Result<Event> Submit(std::span<const BufferBinding> slots, Pacer* pacer = nullptr, Event after = {});
  // Submits and waits.
  Result<> Run(std::span<const BufferBinding> slots);
  // Runs the steps one after the other with nothing overlapping; milliseconds of each step, 0 for one that does
  // nothing. UNIMPLEMENTED on a device without timestamps.
  Result<std::vector<double>> Profile(std::span<const BufferBinding> slots);

  // For command buffers of others. What the steps read that depends on the buffers in the slots, which have to outlive
  // it, as the program has to.
  class Binding;
  Result<std::unique_ptr<Binding>> Bind(std::span<const BufferBinding> slots);
  // All steps, the first of them behind a barrier for what came before on the queue; nothing is allocated.
  void RecordInto(VkCommandBuffer commands, const Binding& binding) const;

  const ProgramStatistics& statistics() const { return statistics_; }
  // Reads the times of a measured run, where it is complete.
  Result<> TakeMeasures();
  Device& device() const { return *device_; }

 private:
  struct Bound {
    uint64_t id = 0, offset = 0;  // of the buffer in a slot
    bool operator==(const Bound&) const = default;
  };
  // A recording and what it is bound to. There are several, made as they are wanted, so that runs with new buffers need
  // not wait for those before: to wait for one costs more than a short program takes.
  struct Recording {
    std::vector<VkCommandBuffer> commands;   // one a submission
    std::shared_ptr<Buffer> table;           // address model
    VkDescriptorPool pool = VK_NULL_HANDLE;  // descriptor model
    std::vector<VkDescriptorSet> sets;       // one a launch
    std::vector<Bound> bound;
    Event last;
    bool exists = false, recorded = false;
  };
  struct TableEntry {
    uint32_t row, buffer;  // row: in addresses
    uint64_t offset;
  };
  Program() = default;
  Result<> Check() const;
  Result<> CheckLaunch(const Launch& launch, std::size_t step) const;
  Result<> CheckSlice(const BufferSlice& slice, std::size_t step, std::string_view what) const;
  Result<> CheckSlots(std::span<const BufferBinding> slots) const;
  uint64_t SizeOf(uint32_t buffer) const;
  const Buffer& BufferOf(uint32_t buffer, std::span<const BufferBinding> slots) const;
  uint64_t OffsetOf(uint32_t buffer, std::span<const BufferBinding> slots) const;
  void Plan();
  void Cut();

  Result<Recording*> Prepare(std::span<const BufferBinding> slots, bool is_measured);
  Result<Recording*> FreeRecording(bool is_measured);
  Result<> CreateRecording(Recording& recording);
  Result<> AllocateTables(Recording& recording);
  Result<> AllocateRecording(Recording& recording);
  void WriteTable(Recording& recording, std::span<const BufferBinding> slots, bool everything);
  void WriteDescriptors(Recording& recording, std::span<const BufferBinding> slots);
  Result<> Record(Recording& recording, std::span<const BufferBinding> slots);
  class Switched;
  void WorkBarrier(VkCommandBuffer commands) const;
  void RecordPiece(VkCommandBuffer commands, const Piece& piece, const Recording& recording,
                   std::span<const BufferBinding> slots, VkPipeline& current) const;
  void Destroy(Recording& recording);
  // Measured runs (program_measure.cpp): two timestamps a submission, or the host's clock where there are none.
  Result<> BeginMeasuring();
  void EndMeasuring();
  bool HasTimestamps() const { return !timestamps_missing_ && device_->profile().limits.timestamp_valid_bits != 0; }
  void RecordTimestamp(VkCommandBuffer commands, std::size_t number) const;
  // False where the driver does not tell them.
  Result<bool> ReadTimestamps(std::span<double> ms) const;

  std::shared_ptr<Device> device_;
  std::vector<ProgramBuffer> buffers_;
  std::vector<std::shared_ptr<Pipeline>> pipelines_;
  std::vector<Step> steps_;
  ProgramOptions options_;
  ProgramStatistics statistics_;
  std::size_t slot_count_ = 0;
  std::vector<uint32_t> memory_of_;
  std::vector<bool> written_;  // slots that some step writes
  std::vector<std::vector<uint32_t>> levels_;
  std::vector<Submission> submissions_;
  Calibration calibration_;
  std::vector<uint32_t> first_row_;  // of each step, in the table
  std::vector<TableEntry> fixed_entries_, slot_entries_;
  uint32_t rows_ = 0;
  std::vector<uint32_t> set_of_;  // of each step: its descriptor set
  uint32_t set_count_ = 0, descriptor_count_ = 0;
  bool has_predicates_ = false;
  bool copies_slots_ = false;  // copies and fills name a slot's VkBuffer: other buffers, other commands
  std::vector<Bound> wanted_;  // of the run being prepared: kept to save an allocation
  VkCommandPool pool_ = VK_NULL_HANDLE;
  static constexpr std::size_t kMostRecordings = 32;
  static constexpr uint32_t kShort = 64;  // launches; of a longer program there are two
  std::array<Recording, kMostRecordings> recordings_;
  Recording* measured_ = nullptr;  // the one of the measured runs
  VkQueryPool queries_ = VK_NULL_HANDLE;
  std::vector<double> taken_ms_;     // by the host's clock
  bool is_measure_pending_ = false;  // a measured run was submitted
  bool timestamps_missing_ = false;  // the driver has them by its properties, and did not tell them
};

class Program::Binding {
 public:
  explicit Binding(Program& program) : program_(program) {}
  ~Binding() { program_.Destroy(recording_); }
  Binding(const Binding&) = delete;
  Binding& operator=(const Binding&) = delete;

 private:
  friend class Program;
  Program& program_;
  Recording recording_;
  std::vector<BufferBinding> slots_;
};

// Behind programs in command buffers of others: what they wrote can be read by compute shaders, transfers and the host.
void RecordOutcomeBarrier(const Device& device, VkCommandBuffer commands);

}  // namespace krafla::vk
