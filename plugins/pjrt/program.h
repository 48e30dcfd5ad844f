// SPDX-License-Identifier: Apache-2.0
// A compiled program: what executables and loaded executables, which callers hold, share.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/client.h"
#include "api/group/device_group.h"
#include "plugins/pjrt/client.h"
#include "plugins/pjrt/compile_options.h"
#include "plugins/pjrt/layouts.h"
#include "plugins/pjrt/trace.h"

namespace krafla::pjrt {

// What the caller asked for, kept to compile it again: elsewhere, or from a file.
struct ProgramSource {
  std::string code;     // as it came
  std::string format;   // "mlir", "hlo", "hlo_with_config"
  std::string options;  // CompileOptionsProto
};

// Serialized OpShardings, as the interface hands them out.
struct ShardingList {
  std::vector<std::string> bytes;
  std::vector<const char*> pointers;
  std::vector<std::size_t> sizes;
};

class Program {
 public:
  // `from_file`: the functions of the process that made the program, which it names by their addresses, are not called.
  static Result<std::shared_ptr<Program>> Compile(PJRT_Client& client, ProgramSource source, bool from_file = false);
  ~Program();

  const ProgramSource& source() const { return source_; }
  const std::string& name() const { return name_; }
  const std::string& fingerprint() const { return fingerprint_; }
  const ProgramOptions& options() const { return options_; }
  PJRT_Client& client() const { return client_; }
  // Those of this process, in the order of the assignment, and the places of all in it.
  const std::vector<PJRT_Device*>& devices() const { return devices_; }
  const std::vector<int64_t>& logical_ids() const { return logical_ids_; }
  // The devices' lanes, each once.
  const std::vector<Lane*>& lanes() const { return lanes_; }
  bool is_group() const { return group_ != nullptr; }
  // Whether it calls functions that the caller wrote: their errors are raised by the call that runs them, and what they
  // print comes before it returns, as with XLA's CPU client.
  bool calls_user_function() const { return calls_user_function_; }
  // Of a program for several partitions; empty for others.
  const ShardingList& parameter_shardings() const { return parameter_shardings_; }
  const ShardingList& result_shardings() const { return result_shardings_; }

  // Of one device, in the layouts of the buffers.
  const std::vector<Shape>& parameters() const { return interface_.arguments; }
  const std::vector<Shape>& results() const { return interface_.results; }
  const LayoutList& parameter_layouts() const { return parameter_layouts_; }
  const LayoutList& result_layouts() const { return result_layouts_; }
  const CompileReport& report() const { return report_; }
  // Whether the program may overwrite the parameter.
  bool donates(std::size_t parameter) const { return donates_[parameter]; }
  bool donates_any() const { return donates_any_; }

  // Lists as the interface hands them out.
  const std::vector<PJRT_Buffer_Type>& result_types() const { return result_types_; }
  const std::vector<int64_t>& result_dims() const { return result_dims_; }
  const std::vector<std::size_t>& result_ranks() const { return result_ranks_; }
  // Of the results: kDeviceMemoryId or kHostMemoryId.
  const std::vector<int32_t>& result_memories() const { return result_memories_; }
  const std::vector<const char*>& memory_kinds() const { return memory_kinds_; }
  const std::vector<std::size_t>& memory_kind_sizes() const { return memory_kind_sizes_; }
  const NamedValues& cost() const { return cost_; }
  // The program in a form for people: that of one device where it has been partitioned, else as it came.
  struct Text {
    std::string_view code, format;
  };
  Text OptimizedText();

  // For who has the turn of the lane, of all lanes.
  Result<DeviceBuffers> Run(Lane& lane, std::vector<DeviceArgument> arguments);
  Result<std::vector<DeviceBuffers>> RunGroup(std::vector<std::vector<DeviceArgument>> arguments);

  // How long the last run of one device took: short ones are not worth another thread.
  int64_t last_run_ns() const { return last_run_ns_.load(std::memory_order_relaxed); }
  void set_last_run_ns(int64_t ns) { last_run_ns_.store(ns, std::memory_order_relaxed); }

 private:
  Program(PJRT_Client& client, ProgramSource source) : client_(client), source_(std::move(source)) {}
  Result<std::unique_ptr<Module>> Read() const;
  Result<> Assign();
  Result<> CompileGroup(std::unique_ptr<Module> module, bool from_file);
  static Result<ShardingList> Serialize(const std::vector<std::string>& shardings, std::size_t count);
  void Describe(const Module& module);
  Result<Executable*> ExecutableOn(Lane& lane);
  Result<DeviceBuffers> RunTraced(Lane& lane, std::vector<DeviceArgument> arguments, Trace& trace);

  PJRT_Client& client_;
  const ProgramSource source_;
  ProgramOptions options_;
  std::string name_, fingerprint_;
  std::vector<PJRT_Device*> devices_;
  std::vector<int64_t> logical_ids_;  // of devices_
  std::vector<GlobalPlace> places_;   // of all, also those of other processes
  std::vector<Lane*> lanes_;
  CompileOptions compile_;
  EntryInterface interface_;
  LayoutList parameter_layouts_, result_layouts_;
  CompileReport report_;
  ShardingList parameter_shardings_, result_shardings_;
  std::vector<bool> donates_;
  bool donates_any_ = false, calls_user_function_ = false;
  std::vector<PJRT_Buffer_Type> result_types_;
  std::vector<int64_t> result_dims_;
  std::vector<std::size_t> result_ranks_;
  std::vector<int32_t> result_memories_;
  std::vector<const char*> memory_kinds_;
  std::vector<std::size_t> memory_kind_sizes_;
  NamedValues cost_;
  std::mutex mutex_;  // of singles_, traced_ and partitioned_
  std::map<Lane*, std::unique_ptr<Executable>> singles_;
  // Those that tell of their steps, of devices where singles_ do not: since the first run that was traced.
  std::map<Lane*, std::unique_ptr<Executable>> traced_;
  std::optional<std::string> partitioned_;  // HloModuleProtoWithConfig; empty where it cannot be written
  std::unique_ptr<GroupExecutable> group_;
  std::atomic<int64_t> last_run_ns_ = INT64_MAX;
};

}  // namespace krafla::pjrt

struct PJRT_Executable {
  std::shared_ptr<krafla::pjrt::Program> program;
};

struct PJRT_LoadedExecutable {
  std::shared_ptr<krafla::pjrt::Program> program;
  std::vector<PJRT_LogicalDeviceIds> logical_ids;
  std::atomic<bool> deleted = false;
};

namespace krafla::pjrt {

PJRT_LoadedExecutable* NewLoadedExecutable(std::shared_ptr<Program> program);

}  // namespace krafla::pjrt
