// SPDX-License-Identifier: Apache-2.0
// A ProgramPlan on a Vulkan device: kernels emitted and made pipelines, runs of device steps recorded as programs,
// loops and branches driven by the host, and what the device does not take run by the CPU's kernels in between.
#pragma once

#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <unordered_set>
#include <variant>
#include <vector>

#include "api/client.h"
#include "api/group/device_links.h"
#include "api/host/host_services.h"
#include "api/vulkan/emitted_kernels.h"
#include "api/vulkan/vulkan_buffer.h"
#include "base/thread_pool.h"
#include "cpu_fallback/executor/cpu_kernel.h"
#include "krafla/aligned_bytes.h"
#include "plan/program_plan.h"
#include "spirv_codegen/emit.h"
#include "vk_runtime/device.h"
#include "vk_runtime/program.h"

namespace krafla {

class VulkanExecutable : public Executable {
 public:
  static Result<std::unique_ptr<Executable>> Create(std::shared_ptr<vk::Device> device, const DeviceProfile& profile,
                                                    plan::ProgramPlan plan, EntryInterface interface,
                                                    const CompileOptions& options, CompileReport report,
                                                    const std::string& description,
                                                    std::unique_ptr<HostServices> services);

  const std::vector<Shape>& arguments() const override { return plan_.arguments; }
  const std::vector<Shape>& results() const override { return plan_.results; }
  std::span<const int> result_aliases() const override { return plan_.result_aliases; }
  Result<> Join(const EvaluatorHost* host, int64_t devices) override;
  void SetExchange(DeviceExchange* exchange, std::string path) override {
    exchange_ = exchange;
    report_.exchange_path = std::move(path);
  }
  const std::shared_ptr<vk::Device>& device() const { return device_; }
  // Runs on what the slots hold, the arguments and then the results, one a leaf; not to the end. Beside: after `after`.
  Result<vk::Event> RunAt(std::span<const vk::BufferBinding> slots, vk::Event after);
  // The instructions between devices while which it goes on with kernels.
  std::unordered_set<const Instruction*> ExchangesBeside() const;
  Result<std::unique_ptr<Executable>> Another(const EvaluatorHost* host, int64_t devices) const override;
  const Module* module() const override { return shared_->whole ? plan_.module.get() : nullptr; }
  Result<> SetArguments(std::span<const Literal* const> arguments) override;
  Result<> ShareArguments(std::vector<std::shared_ptr<const Literal>> arguments) override;
  Result<> Execute() override;
  bool IsLost() const override { return !device_->Alive().has_value(); }
  DeviceWork device_work() override;
  Result<RunProfile> Profile(int runs) override;
  bool TellsSteps() const override { return keeps_profile_; }
  Result<std::vector<Literal>> Results() override;
  Result<DeviceBuffers> RunOnBuffers(std::vector<DeviceArgument> arguments) override;

  // For krafla/vulkan.h (vulkan_recording.cpp): runs between arrays that are there, one a leaf.
  struct Arrays {
    std::vector<std::shared_ptr<VulkanBuffer>> arguments, results;
  };
  // May return before the device is done. `signals` are given to it where the run fails, too.
  Result<> RunBetween(const Arrays& arrays, std::span<const vk::SemaphoreValue> waits,
                      std::span<const vk::SemaphoreValue> signals, const RunLimit& limit);
  // What command buffers of others need that do such a run; the executable outlives it. UNIMPLEMENTED for programs of
  // which the host runs or decides a part.
  class Recording;
  Result<std::unique_ptr<Recording>> Bind(Arrays arrays);
  Result<> RecordInto(const Recording& recording, VkCommandBuffer commands);

 private:
  // Buffers of every program: the executable's own, then the slots: the arguments, then the results. Weights are
  // constants of a file that is mapped, where the device works in its pages.
  static constexpr std::size_t kArena = 0, kConstants = 1, kScratch = 2, kDeviceIds = 3, kWeights = 4, kBlocks = 5,
                               kFirstSlot = 6;
  // Runs given to the device and not waited for; fewer of those whose results are large, as each holds its own.
  static constexpr std::size_t kMostInFlight = 32, kMostLargeInFlight = 8;
  // Turns of a counted loop that are given to the device before it is waited for those given before them: it may be
  // twice as many turns behind.
  static constexpr int64_t kTurnsAtOnce = 64;
  static constexpr int64_t kLargeResults = int64_t{1} << 20;  // bytes

  struct NodeList;
  // Of an executable that is made to be profiled, steps and nodes have a row of profiled_.
  static constexpr int kNoRow = -1;
  struct DeviceNode {
    std::unique_ptr<vk::Program> program;
    std::vector<int> rows = {};  // of its steps
  };
  struct HostNode {
    int kernel = 0;
    std::vector<plan::Slice> bindings;
    std::vector<bool> written;  // of the bindings
    int row = kNoRow;
    int exchange = -1;  // as plan::LaunchStep's
  };
  struct AwaitNode {
    int exchange = 0;
  };
  // Steps of a program to be.
  struct Pending {
    std::vector<vk::Step> steps;
    std::vector<int> rows;
    void Add(vk::Step step, int row) {
      steps.push_back(std::move(step));
      rows.push_back(row);
    }
  };
  // Turns of a loop, submitted ahead.
  struct Turns {
    std::unique_ptr<vk::Program> program;
    int64_t count = 0;  // in it
  };
  struct WhileNode : plan::While<NodeList> {
    std::optional<Turns> turns;  // none: the host asks after each whether there is another
  };
  using ConditionalNode = plan::Conditional<NodeList>;
  using Node = std::variant<DeviceNode, HostNode, AwaitNode, WhileNode, ConditionalNode, plan::Call>;
  struct NodeList {
    std::vector<Node> steps;
  };

  // What the executables of one program share: nothing here changes once they run.
  struct Shared {
    plan::ProgramPlan plan;
    bool whole = true;  // false: what only a compilation needs was dropped, and no other executable is made of it
    EmittedKernels kernels;
    std::map<const plan::WhileStep*, int> loop_pipelines;  // of kernels.loops
    int gate_pipeline = 0;                                 // of kernels.turns, where that has loops
    std::map<int64_t, int> copy_pipelines;
    std::vector<int> first_pipeline;  // of each kernel
    std::vector<std::shared_ptr<vk::Pipeline>> pipelines;
  };

  VulkanExecutable(std::shared_ptr<Shared> shared, EntryInterface interface, CompileReport report,
                   const std::string& description)
      : Executable(std::move(interface), std::move(report), description),
        shared_(std::move(shared)),
        plan_(shared_->plan),
        emitted_(shared_->kernels.programs),
        first_pipeline_(shared_->first_pipeline),
        pipelines_(shared_->pipelines) {}
  Result<> CompileHostKernels();
  Result<> AllocateBuffers();
  // Places constants where their file is mapped, and gives that memory; null where the device cannot work there.
  std::shared_ptr<vk::Buffer> PlaceWeights();
  Result<> CreatePipelines(const CompileOptions& options);
  Result<> BuildProgram();
  Result<> BuildNodes(const plan::StepList& steps, NodeList& nodes);
  std::vector<vk::ProgramBuffer> ProgramBuffers() const;
  void DropWhatIsCompiled();
  static Result<AlignedBytes> HostBytes(uint64_t size);
  Result<> Flush(Pending& pending, NodeList& nodes);
  // `rows`: those of its dispatches, where it was launched before; else they are made, and put there.
  void AddLaunch(const plan::LaunchStep& step, Pending& pending, std::vector<int>* rows = nullptr);
  HostNode HostNodeOf(const plan::LaunchStep& step, int row) const;
  // vulkan_rows.cpp: row groups as launches, block after block.
  static plan::LaunchStep LaunchOfBlock(const plan::RowGroupStep& group, const plan::BlockLaunch& launch, int64_t block,
                                        uint64_t places);
  uint64_t CountPlaces();  // gives their bytes, and says where those of each group begin
  Result<> UploadPlaces();
  // visit(launch, rows): each launch of each block, with the rows of the profile that its kernel has, filled by the
  // first.
  template <typename Visit>
  Result<> ForEachBlockLaunch(const plan::RowGroupStep& group, Visit visit);
  // Of a group whose kernels the device takes, all of them.
  void AddBlocks(const plan::RowGroupStep& group, Pending& pending);
  Result<> AddRowGroup(const plan::RowGroupStep& group, Pending& pending, NodeList& nodes);
  // `is_first`: no launch of this run of the loop came before.
  void AddTurns(const plan::WhileStep& loop, int64_t turns, bool is_first, Pending& pending, int row) const;
  Result<> AddLoop(const plan::WhileStep& loop, Pending& pending, NodeList& nodes);
  vk::BufferSlice SliceOf(const plan::Slice& slice) const;
  // The buffer that holds an allocation, and where in it.
  std::pair<vk::Buffer*, uint64_t> Place(const plan::Slice& slice) const;

  // vulkan_profile.cpp: the row of a new step; kNoRow where none are kept.
  int AddRow(const plan::LaunchStep& launch, const spirv::EmittedDispatch* dispatch);
  int AddRow(const plan::CopyStep& copy);
  int AddRow(const plan::WhileStep& loop);
  int AddRow(ProfiledStep row);
  std::string PlaceName() const;  // "vulkan:0"
  void SetStepObserver(const StepObserver* observer) override;
  // Counts a step in measured_, and tells the observer.
  void Measured(int row, std::chrono::steady_clock::time_point begin, double ms);
  // Runs, waits and measures.
  Result<> RunMeasured(const DeviceNode& node);
  Result<> RunMeasured(const HostNode& node);

  // vulkan_turns.cpp
  Result<> PrepareTurns();
  static vk::Launch TurnLaunch(const spirv::EmittedProgram& program, int pipeline,
                               std::span<const vk::BufferSlice> slices);
  Result<> AddTurns(const plan::WhileStep& loop, WhileNode& node);
  Result<> RunTurns(const Turns& turns);

  // vulkan_recording.cpp
  Result<> PlaceBetween(const Arrays& arrays);
  class Recorder;

  // vulkan_run.cpp
  // Arguments and results of Execute in slots_.
  Result<> PlaceOwn();
  Result<> PlaceArguments(std::span<const Literal* const> literals,
                          std::span<const std::shared_ptr<const Literal>> shared);
  // What makes results with a bit in `copied` begin as the arguments that they take the place of.
  Result<vk::Program*> CopiesOfAliased(const std::vector<bool>& copied);
  Result<std::vector<std::shared_ptr<VulkanBuffer>>> OnDevice(std::span<const DeviceArgument> arguments);
  // Results in slots_, those of donated arguments where they are; marks the others that begin as an argument in
  // copied_.
  Result<std::vector<std::shared_ptr<vk::Buffer>>> PlaceResults(std::span<const DeviceArgument> arguments,
                                                                std::span<const std::shared_ptr<VulkanBuffer>> placed);
  // From slots_ to slots_; not to the end.
  Result<> RunProgram();
  Result<> Submit(vk::Program& program);
  Result<> TryRunInPlace(std::span<const std::span<const std::byte>> arguments,
                         std::span<const std::span<std::byte>> results, const RunLimit& limit) override;
  class StepDevice;
  Result<> RunHost(const HostNode& node);
  Result<> RunHostAfter(const HostNode& node, std::optional<vk::Event> after);
  // The instruction between devices that the devices themselves take; null for any other step.
  const Instruction* ExchangeOf(const HostNode& node) const;
  Result<> RunExchange(const HostNode& node, const Instruction& instruction);
  // Where the arrays of an instruction between devices lie in this run: operands, then results.
  struct ExchangePlaces {
    std::vector<DevicePlace> all;
    std::size_t operands = 0;
    uint64_t beside = 0;  // as DevicePlaces::beside
    DevicePlaces At(vk::Event after) {
      const std::span<const DevicePlace> whole = all;
      return {whole.first(operands), whole.subspan(operands), after.number, &beside};
    }
  };
  Result<ExchangePlaces> PlacesOf(const HostNode& node, const Instruction& instruction) const;
  // Begins a collective that goes on while the host gives other work to the device; true where it was.
  Result<bool> StartExchange(const HostNode& node);
  Result<> AwaitExchange(const AwaitNode& node);
  // What is submitted from here on comes after the collective, wherever the device does it.
  Result<> FollowExchange(const ExchangePlaces& places);
  ExchangeLane* lane() const;
  Result<uint32_t> ReadWord(const plan::Slice& slice, int bytes);

  std::shared_ptr<vk::Device> device_;
  std::shared_ptr<Shared> shared_;
  plan::ProgramPlan& plan_;
  std::vector<std::optional<spirv::EmittedProgram>>& emitted_;
  std::vector<int>& first_pipeline_;
  std::vector<std::shared_ptr<vk::Pipeline>>& pipelines_;
  std::vector<std::unique_ptr<CpuKernel>> host_kernels_;
  std::vector<std::shared_ptr<vk::Buffer>> buffers_;  // before kFirstSlot
  std::vector<vk::BufferBinding> slots_;              // of this run
  std::map<std::vector<bool>, std::unique_ptr<vk::Program>> copies_;
  std::vector<bool> copied_;  // of this run: results that begin as an argument
  struct PlacedConstant {
    uint32_t buffer = kConstants;  // or kWeights
    uint64_t offset = 0;
  };
  std::vector<PlacedConstant> constants_;
  std::vector<uint64_t> table_offsets_;  // of each kernel's table among the constants
  std::vector<uint64_t> state_offsets_;  // in the same buffer
  // There, too: the places of blocks in their grids, an s32 a dimension, those of a block kSliceAlignment behind those
  // of the block before; and behind `places_offset_` those of each group.
  uint64_t places_offset_ = 0;
  std::map<const plan::RowGroupStep*, uint64_t> places_;
  // Of loops with turns: what switches their launches, and how many turns there were.
  std::shared_ptr<vk::Buffer> predicate_, turn_count_;
  std::unique_ptr<vk::Program> begin_turns_;
  NodeList nodes_;
  std::vector<NodeList> callees_;
  AlignedBytes host_scratch_;
  std::shared_ptr<ThreadPool> threads_;  // of the host's kernels; null: the shared ones
  ThreadPool& HostThreads() const { return threads_ != nullptr ? *threads_ : SharedThreadPool(); }
  std::unique_ptr<HostServices> services_;
  // Of SetArguments and Execute.
  std::vector<std::shared_ptr<VulkanBuffer>> arguments_;
  std::vector<std::shared_ptr<vk::Buffer>> results_;
  bool has_results_ = false;
  bool keeps_profile_ = false;
  std::vector<ProfiledStep> profiled_;  // by row, of the program
  std::span<ProfiledStep> measured_;    // during a measured run, by row; else empty
  const StepObserver* observer_ = nullptr;
  DeviceExchange* exchange_ = nullptr;
  // By exchange of the plan, in this run: its number on the lane (0: it ran in its place), and its arrays.
  std::vector<uint64_t> started_;
  std::vector<ExchangePlaces> placed_;
  vk::ProgramOptions program_options_;
  std::optional<vk::Pacer> pacer_;                  // of this run
  vk::Event last_;                                  // submitted
  vk::Event after_;                                 // what this run comes after, where it goes beside it
  std::array<vk::Event, kMostInFlight> in_flight_;  // the last ones of as many runs
  std::size_t most_in_flight_ = kMostInFlight;
  std::size_t run_ = 0;
};

}  // namespace krafla
