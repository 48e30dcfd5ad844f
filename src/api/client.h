// SPDX-License-Identifier: Apache-2.0
// Client, Compile, Executable: the only place that joins plan, code generation, runtime and the CPU back end.
//
// A Client is one device (or the CPU). An Executable is a module made ready for it. Threads: any may call Compile,
// ToDevice, Run, RunShared, RunInPlace and RunOnBuffers at any time (runs of one executable come one after the other,
// but for RunInPlace and RunOnBuffersWithin on the CPU, which run at once), and executables of one client may be used
// by different threads at once. The rest of an Executable is for one thread at a
// time: SetArguments, Execute and Results are three calls.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/device_buffer.h"
#include "api/host/host_transfers.h"
#include "api/run_profile.h"
#include "base/run_limit.h"
#include "base/thread_pool.h"
#include "device/device_profile.h"
#include "ir/module.h"
#include "krafla/export.h"
#include "krafla/literal.h"
#include "krafla/run_options.h"
#include "krafla/status.h"
#include "passes/entry_interface.h"

namespace krafla::plan {
struct KernelPlan;
}  // namespace krafla::plan

namespace krafla {

KRAFLA_EXPORT_BEGIN
class CustomCallRegistry;
KRAFLA_EXPORT_END

struct CompileOptions {
  // Features off by name: those of DeviceProfile (coopmat, fp16, bda, ...), "fusion", "loops" (small loops as one
  // kernel on Vulkan), "overlap" (collectives that go on while kernels run), "row-groups" (chains of kernels block by
  // block), "second-queue" (of a Vulkan device, for those collectives), "tuned" (what `krafla tune` found), and names
  // of passes and of paths between devices (api/group/device_links.h); and on: coopmat, coopmat2, fast-functions (on
  // Vulkan; the CPU's functions are exact), int-dot (on the CPU: products with quantised weights round what they
  // multiply), device-sums (collectives sum on devices whose shaders run on the host's processors too), overlap-all
  // (every collective goes on, however little there is to do meanwhile), dots-by-turns (products of which an operand
  // comes block by block while others are worked on). Others are INVALID_ARGUMENT (api/feature_names.h).
  std::set<std::string> disabled, enabled;
  // Any step that the device does not take is an error.
  bool strict = false;
  // Arguments and results are what lies in memory where the header promises layouts: the row-major arrays of the
  // dimensions from major to minor. Executable::interface() says what they are to the caller (passes/entry_layouts.h).
  bool lay_out_entry = false;
  // Constants of any size are folded: the time that it takes is spent once, for all who load the compiled model.
  bool ahead_of_time = false;
  // Arrays of elements of fewer than 8 bits are packed in the device's memory (ir/packed_elements.h). Members of groups
  // and an application's own Vulkan device, to whose memory others write, have a byte for each element.
  bool pack_elements = true;
  // The executable keeps what Executable::Another needs, and its module.
  bool for_group = false;
  // It runs on the second queue of a Vulkan device that has one, as collectives beside kernels do.
  bool beside = false;
  // The executable keeps what Executable::Profile needs: names, and on Vulkan the program.
  bool for_profile = false;
  // About how long one submission to a GPU may take: longer work is cut into several, since drivers reset a device that
  // does not answer, others wait meanwhile, and a run can be ended between submissions only.
  double submission_ms = 100;
  // Where custom calls are looked up; must outlive the executable. Null: CustomCallRegistry::Global().
  const CustomCallRegistry* custom_calls = nullptr;
  // What the kernels that are compiled for the CPU run on. Null: the threads that all executables of this process
  // share.
  std::shared_ptr<ThreadPool> threads = nullptr;
  // What infeed, outfeed and host channels are connected to. Null: the client's own.
  std::shared_ptr<HostTransfers> transfers = nullptr;
  // How many runs of the executable may be under way at once, each with an arena of its own, where the device can
  // (Executable::RunInPlace). 0: as many as the CPU's kernels have threads.
  int concurrent_runs = 1;
  // Told of kernels made ready, the `done`-th of `total`, by any thread, one call at a time. May be empty.
  std::function<void(int done, int total)> progress = {};
};

// Where a module runs and why, and what it took to get there.
struct CompileReport {
  struct Fallback {
    std::string instruction, opcode, reason;
    int64_t instructions = 0;
  };
  int64_t instructions = 0, device_instructions = 0;  // of the optimised module, those that compute something
  int kernels = 0;                                    // distinct ones
  int launches = 0;                                   // a run, loops counted once
  int cooperative_matrix_launches = 0;
  int loop_kernels = 0;         // loops that are one kernel of the device
  int loops_ahead = 0;          // loops whose turns are submitted before the host knows whether there is another
  bool fast_functions = false;  // exp, division and others are the hardware's own
  int rounding_kernels = 0;     // distinct ones that round what they multiply with quantised weights
  int tuned_kernels = 0;        // distinct ones with a setting that `krafla tune` found
  std::string tuning_ignored;   // why what it has stored is not used; empty: it is, or there is nothing
  int pipelines_compiled = 0, pipelines_cached = 0;
  int64_t arena_bytes = 0, peak_live_bytes = 0;
  int64_t kept_bytes = 0;  // what kernels keep of constants from run to run, once for all runs of the program
  double passes_ms = 0, plan_ms = 0, emit_ms = 0;  // krafla's own work
  double pipeline_ms = 0;                          // the driver's
  std::vector<Fallback> fallbacks;
  // Steps between devices. They are no fallbacks.
  int exchanges = 0;
  int64_t exchange_instructions = 0;
  std::string exchange_path = "through the host";  // for people: how they go, where they are no work of the device
  double compile_ms() const { return passes_ms + plan_ms + emit_ms; }
};

// What a device is given in a run; loops count once.
struct DeviceWork {
  int submissions = 0;
  // As the first runs were measured; programs that are short by far are not, and count nothing.
  double longest_ms = 0;   // of one submission
  double measured_ms = 0;  // of all
};

struct EvaluatorHost;
class DeviceExchange;

class Executable {
 public:
  virtual ~Executable() = default;

  const CompileReport& report() const { return report_; }
  const std::string& device_description() const { return device_description_; }
  // The arguments and results that the program declares, in the layouts that memory has.
  const EntryInterface& interface() const { return interface_; }
  // Leaves of the entry's parameters and result as runs take and give them, depth first; tokens included. A dynamic
  // dimension is an upper bound: arguments may be smaller there, and Results() has the size at run time. Layouts are
  // those that the module promises; literals are row-major all the same, SetArgumentBytes and CopyResultBytes keep to
  // them.
  virtual const std::vector<Shape>& arguments() const = 0;
  virtual const std::vector<Shape>& results() const = 0;
  // For each leaf of the result the argument whose place it takes where that is donated (input_output_alias), or -1.
  // Empty: not known, as where dimensions are dynamic.
  virtual std::span<const int> result_aliases() const { return {}; }

  // Places copies of the arguments (one a leaf) where the device reads them. They stay until set again.
  // INVALID_ARGUMENT for a wrong count or shape.
  virtual Result<> SetArguments(std::span<const Literal* const> arguments) = 0;
  // The same without a copy on the host, and so for large ones: shared with the executable, they must not change until
  // it lets go of them. The CPU, and devices that work in the host's memory, read them where they are; any other device
  // lets go of each as soon as it has it.
  virtual Result<> ShareArguments(std::vector<std::shared_ptr<const Literal>> arguments);
  // Runs once on the arguments set, to the end. Allocates nothing after the first time.
  virtual Result<> Execute() = 0;
  // Copies of the results of the last Execute, one a leaf.
  virtual Result<std::vector<Literal>> Results() = 0;
  // The results themselves where they lie in the host's memory. There are none then until the next Execute, which
  // allocates new ones.
  virtual Result<std::vector<Literal>> TakeResults() { return Results(); }

  // Runs once from and into the caller's memory: one span a leaf of arguments() and results(), row-major, of exactly
  // its bytes (tokens have none), at addresses that are multiples of the elements' sizes. The CPU reads and writes
  // there, any other device copies. UNIMPLEMENTED where dimensions are dynamic: the results' sizes are told with
  // buffers. On the CPU as many threads as CompileOptions::concurrent_runs says run at once, if the program has no step
  // on the host and no generator's state; nothing is allocated once there was a run for each of them.
  Result<> RunInPlace(std::span<const std::span<const std::byte>> arguments,
                      std::span<const std::span<std::byte>> results, const RunLimit& limit = kUnlimited);

  // SetArguments, Execute, Results.
  Result<std::vector<Literal>> Run(std::span<const Literal* const> arguments, const RunLimit& limit = kUnlimited);
  // ShareArguments, Execute, TakeResults: no copies.
  Result<std::vector<Literal>> RunShared(std::vector<std::shared_ptr<const Literal>> arguments,
                                         const RunLimit& limit = kUnlimited);
  // What ends the runs to come before they are done: looked at between steps, at each turn of a loop and in waits. A
  // run that was ended has no results; the next one begins anew. `limit` must outlive those runs; kUnlimited: nothing.
  virtual void SetLimit(const RunLimit* limit) { limit_ = limit; }
  // Whether its device was lost: it can run nothing any more, and the module has to be compiled again.
  virtual bool IsLost() const { return false; }
  virtual DeviceWork device_work() { return {}; }
  // Runs on the arguments set, `runs` times as ever and as often with each step measured, one after the other with
  // nothing overlapping. UNIMPLEMENTED where the device has no timestamps; FAILED_PRECONDITION without
  // CompileOptions::for_profile.
  virtual Result<RunProfile> Profile(int runs);

  // SetArguments and Profile.
  Result<RunProfile> ProfileOn(std::span<const Literal* const> arguments, int runs);

  // Runs once on buffers; the results are new ones, or hold what was donated. May return before the device is done: the
  // results are waited for when they are read, or by DeviceBuffer::Wait. A donated argument that a result takes the
  // place of (input_output_alias) is overwritten where it lies, unless somebody else holds its memory. Buffers of the
  // host and of other devices go through the host. Forgets what SetArguments was given.
  virtual Result<DeviceBuffers> RunOnBuffers(std::vector<DeviceArgument> arguments);
  // The same with a limit of its own.
  virtual Result<DeviceBuffers> RunOnBuffersWithin(std::vector<DeviceArgument> arguments, const RunLimit& limit);

  // RunOnBuffers, to the end, and `observer` is told of each step: `times` and `ms` of what it gets count nothing.
  // Steps come one after the other with nothing overlapping, so that the run takes longer.
  Result<DeviceBuffers> RunObserved(std::vector<DeviceArgument> arguments, const StepObserver& observer);
  // Whether RunObserved tells of steps: on Vulkan with CompileOptions::for_profile.
  virtual bool TellsSteps() const { return false; }

  // For groups of devices (api/group/device_group.h). `host` says which device this is and does what lies between
  // devices; it must outlive the executable. `devices`: how many share this machine's threads.
  virtual Result<> Join(const EvaluatorHost* host, int64_t devices) = 0;
  // Who does collectives where the device has their arrays, and how, for people; must outlive the executable. Devices
  // that work in the host's memory have no use for it.
  virtual void SetExchange(DeviceExchange*, std::string) {}
  // Another executable of the same compiled program, for another member of the group. FAILED_PRECONDITION where what it
  // needs was not kept (CompileOptions::for_group).
  virtual Result<std::unique_ptr<Executable>> Another(const EvaluatorHost* host, int64_t devices) const = 0;
  // The program after the passes. Null where it was not kept: without CompileOptions::for_group a device may let go of
  // it.
  virtual const Module* module() const = 0;

  // SetArguments from memory in the layouts of arguments(), one span a leaf. All of a dynamic dimension's bound counts.
  Result<> SetArgumentBytes(std::span<const std::span<const std::byte>> arguments);
  // Results() to memory in the layouts of results(), one span a leaf; tokens take none.
  Result<> CopyResultBytes(std::span<const std::span<std::byte>> results);

  // One line for people: "412/412 instructions on vulkan:0 (llvmpipe, Mesa 26.1.6); 61 kernels, ...".
  std::string PlacementLine() const;

 protected:
  Executable(EntryInterface interface, CompileReport report, std::string device_description)
      : report_(std::move(report)),
        interface_(std::move(interface)),
        device_description_(std::move(device_description)) {}

  // Of the runs to come; null: nobody.
  virtual void SetStepObserver(const StepObserver*) {}
  // Of RunInPlace, whose arguments are checked. By literals.
  virtual Result<> TryRunInPlace(std::span<const std::span<const std::byte>> arguments,
                                 std::span<const std::span<std::byte>> results, const RunLimit& limit);
  // The executable for one run. Others may have it for as long as they like: the limit counts from now.
  Result<std::unique_lock<std::recursive_timed_mutex>> TakeTurn(const RunLimit& limit);
  // Sets a limit for one run; with the turn.
  class Limited {
   public:
    Limited(Executable& executable, const RunLimit& limit) : executable_(executable) { executable_.SetLimit(&limit); }
    ~Limited() { executable_.SetLimit(&kUnlimited); }
    Limited(const Limited&) = delete;
    Limited& operator=(const Limited&) = delete;

   private:
    Executable& executable_;
  };

  CompileReport report_;
  const EntryInterface interface_;
  const std::string device_description_;
  const RunLimit* limit_ = &kUnlimited;
  std::recursive_timed_mutex running_;  // from the arguments to the results
};

// What the steps before code is made for a device need to know of it (api/front_end.h).
struct CompileTarget {
  // Of its back end, as compiled models name what they are for.
  std::string_view name;
  // Its kernels take convolutions with a dilated base as they are; else a pass expands them.
  bool takes_dilated_convolutions = false;
  // Columns of an array are reduced faster than short runs that lie apart, by more than another launch costs.
  bool reduces_columns_faster = false;
  // A step of a loop costs little more than what it does: loops that were written out stay so.
  bool runs_steps_at_once = false;
  // A custom call may be a kernel in SPIR-V.
  bool runs_spirv = false;
  // Its dots compute operands where they read them (plan::DotKernel).
  bool computes_operands = false;
  // It copies rows of memory from computed places (plan::FusionOptions::stores_gathered_pads).
  bool copies_rows = false;
  // It folds windows of memory (plan::FusionOptions::stores_window_values).
  bool folds_windows = false;
  // How many arrays one kernel puts side by side, element by element (plan::FusionOptions::side_by_side).
  std::size_t side_by_side = 4;
  // It runs row groups (plan::RowGroupStep).
  bool runs_row_groups = false;
  // Its executables take packed elements as callers know them (api/packed_executable.h).
  bool packs_elements = false;
  // Whether a device, of no profile where it is the CPU, runs an AttentionKernel as one; null: none does.
  bool (*takes_attention)(const plan::KernelPlan& kernel, const DeviceProfile* profile) = nullptr;
  // The same of a HorizontalKernel.
  bool (*takes_horizontal)(const plan::KernelPlan& kernel, const DeviceProfile* profile) = nullptr;
};

// A device, and what those need to know of it who work with any.
struct DeviceDescription {
  std::string selector;     // "cpu", "vulkan:0"
  std::string description;  // "vulkan:0 (llvmpipe (LLVM 19.1.7, 256 bits), Mesa 26.1.6)"
  std::string name;         // "cpu", "llvmpipe (LLVM 19.1.7, 256 bits)"
  // Its arrays lie in the host's memory, at the addresses that the process knows them by.
  bool shares_host_memory = false;
  // Its kernels run on the host's threads (CompileOptions::threads).
  bool runs_on_host_threads = false;
  // Virtual devices of a group that are this one device take turns.
  bool runs_one_at_a_time = false;
  int64_t memory_bytes = 0;  // of its own; 0: it has none, or that is not known
  CompileTarget target = {};
  std::optional<DeviceProfile> profile = {};  // of Vulkan devices
};
// The devices of every back end in the order of api/back_ends.h: every Vulkan device, best first, and the CPU. `why`:
// why there is no Vulkan device, when there is none. INVALID_ARGUMENT for environment variables that mean nothing.
Result<std::vector<DeviceDescription>> ListDevices(std::string* why = nullptr);

class Client {
 public:
  virtual ~Client() = default;
  // "cpu", "vulkan", "vulkan:1", ... ; "" is the best device of the first back end that has one: Vulkan, or the CPU
  // where there is no loader, driver or device at all: its description says so, and what is compiled with `strict` is
  // refused.
  // INVALID_ARGUMENT for a bad selector, NOT_FOUND where there is no such device, and what went wrong where Vulkan is
  // there and fails.
  static Result<std::shared_ptr<Client>> Create(std::string_view selector, const ClientOptions& options = {});

  const DeviceDescription& device() const { return device_; }
  // The module need not be verified.
  virtual Result<std::unique_ptr<Executable>> Compile(std::unique_ptr<Module> module,
                                                      const CompileOptions& options) = 0;
  // An array of the caller's, which `view` keeps and nobody changes meanwhile; row-major. Where the device works in the
  // host's memory it is read there, without a copy.
  Result<std::shared_ptr<DeviceBuffer>> ViewOnDevice(const Shape& shape, HostView view);
  // A copy of an array of the caller's.
  Result<std::shared_ptr<DeviceBuffer>> CopyToDevice(const Shape& shape, std::span<const std::byte> bytes);
  // The array on the device. Where the device works in the host's memory it is the literal itself, without a copy.
  // Executables compiled with other features (CompileOptions) may be on another device, which gets it through the host.
  Result<std::shared_ptr<DeviceBuffer>> ToDevice(std::shared_ptr<const Literal> literal);
  // What the validation layers had to say since the last call (KRAFLA_VALIDATE).
  virtual std::vector<std::string> TakeValidationMessages() { return {}; }
  // Infeed, outfeed and host channels of the executables that were not given others.
  HostTransfers& transfers() { return *transfers_; }

 protected:
  // The three above, of arrays as the device keeps them.
  virtual Result<std::shared_ptr<DeviceBuffer>> PlaceView(const Shape& shape, HostView view);
  virtual Result<std::shared_ptr<DeviceBuffer>> PlaceCopy(const Shape& shape, std::span<const std::byte> bytes);
  virtual Result<std::shared_ptr<DeviceBuffer>> Place(std::shared_ptr<const Literal> literal);
  // Whether programs find elements of fewer than 8 bits packed (CompileOptions::pack_elements).
  virtual bool PacksElements() const { return device_.target.packs_elements; }

  DeviceDescription device_;
  std::shared_ptr<HostTransfers> transfers_ = std::make_shared<HostTransfers>();
};

// Literals to share with an executable.
std::vector<std::shared_ptr<const Literal>> ToShared(std::vector<Literal> literals);

}  // namespace krafla
