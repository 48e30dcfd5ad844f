// SPDX-License-Identifier: Apache-2.0
// A group of devices that run one program together, each as one replica and partition of it: N devices of their own,
// or N virtual ones that share a device, in this process or in several. What lies between them (all-reduce, send, ...)
// goes as docs/collectives.md says.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/client.h"
#include "passes/pipeline.h"
#include "transport/world.h"

namespace krafla {

// A device of a program over several processes: the process, and its number among that one's devices.
struct GlobalPlace {
  int rank = 0, slot = 0;
};
struct Seat;
class CustomCuts;

struct GroupOptions {
  // How long a device waits for the others in one collective before the run is broken off with DEADLINE_EXCEEDED.
  std::chrono::milliseconds time_limit = std::chrono::seconds(60);
  // Where the program's devices are. Empty: the first ones of the group.
  std::vector<GlobalPlace> places = {};
  // Told how the arrays lie that the program asks after, on the thread that compiles.
  ShardingObserver inspect_sharding = {};
  // Who cuts custom calls of others, on that thread too; null: nobody.
  const CustomCuts* custom_cuts = nullptr;
};

// What the collectives of all runs so far took, in milliseconds of one device, on average.
struct ExchangeTimes {
  double waited_ms = 0;   // in which the device's own thread did, or waited for, what is between devices
  double on_lane_ms = 0;  // of collectives that went on beside it, with their own waits
};

// A program on all devices of a group. Not thread-safe; device d runs replica d / partitions, partition d % partitions.
class GroupExecutable {
 public:
  virtual ~GroupExecutable() = default;

  virtual int64_t device_count() const = 0;
  // Those of this process, in order; of them the calls below take and give arrays. All of them in one process.
  virtual std::span<const int64_t> local_devices() const = 0;
  // Of one device: all run the same program.
  virtual const CompileReport& report() const = 0;
  virtual const EntryInterface& interface() const = 0;
  virtual const std::vector<Shape>& arguments() const = 0;
  virtual const std::vector<Shape>& results() const = 0;
  // How the leaves of the program's parameters and of its result lie over the partitions, as HLO text
  // ("{devices=[2,1]<=[2]}", "{replicated}"): arguments() and results() are the blocks of one device. Empty for a
  // program that was partitioned before it came here.
  virtual const std::vector<std::string>& parameter_shardings() const = 0;
  virtual const std::vector<std::string>& result_shardings() const = 0;

  // As Executable's, of one device.
  virtual Result<> SetArguments(int64_t device, std::span<const Literal* const> arguments) = 0;
  virtual Result<std::vector<Literal>> Results(int64_t device) = 0;
  // Runs all devices once, each on a thread, to the end. When one fails, the others are broken off, and its error is
  // returned. Over several processes each of them calls it, and a failure is final: their group runs nothing any more.
  virtual Result<> Execute() = 0;
  // As Executable's, of all devices.
  virtual void SetLimit(const RunLimit* limit) = 0;

  // As Executable::RunOnBuffers, arguments and results of each of local_devices().
  virtual Result<std::vector<DeviceBuffers>> RunOnBuffers(std::vector<std::vector<DeviceArgument>> arguments) = 0;

  virtual std::string PlacementLine() const = 0;
  // How collectives go from device to device: "one-device", "host_import", "host", or several, with the number that
  // goes by each (api/group/device_links.h). Empty: there are none.
  virtual std::string path() const = 0;
  // Bytes of exchanges that instructions of the CPU have read or written, in all runs.
  virtual int64_t exchange_host_bytes() const = 0;
  virtual ExchangeTimes exchange_times() const = 0;
  // Of one device, after the passes.
  virtual const Module& module() const = 0;
};

class DeviceGroup {
 public:
  // One device ("cpu", "vulkan:1"), N virtual devices on one ("cpu*8", "vulkan:0*4"), or a list
  // ("vulkan:0,vulkan:1*2"). INVALID_ARGUMENT for a bad selector; otherwise as Client::Create.
  static Result<std::shared_ptr<DeviceGroup>> Create(std::string_view selector, const ClientOptions& options = {});
  // One device.
  explicit DeviceGroup(std::shared_ptr<Client> client) { members_.push_back(std::move(client)); }
  // These, in this order; a client that comes several times is as many virtual devices.
  explicit DeviceGroup(std::vector<std::shared_ptr<Client>> members) : members_(std::move(members)) {}

  // Makes the group one of several processes: its devices are those of all of them, in the order of ranks. `world` was
  // told of as many devices as this group has.
  Result<> Join(std::shared_ptr<transport::World> world);
  const std::shared_ptr<transport::World>& world() const { return world_; }

  int64_t size() const;
  // Whether it has, or can make, as many devices as a program needs.
  bool CanHave(int64_t devices) const;
  // Of this process; client and member count these.
  int64_t local_size() const { return static_cast<int64_t>(members_.size()); }
  Client& client(int64_t device) const { return *members_[static_cast<std::size_t>(device)]; }
  const std::shared_ptr<Client>& member(int64_t device) const { return members_[static_cast<std::size_t>(device)]; }
  // "vulkan:0*4"
  std::string selector() const;

  // For module->replica_count times module->num_partitions devices: the first ones of the group. A group of one device
  // makes as many virtual ones of it as are needed. INVALID_ARGUMENT where the group is too small.
  Result<std::unique_ptr<GroupExecutable>> Compile(std::unique_ptr<Module> module, const CompileOptions& options,
                                                   const GroupOptions& group_options = {});
  // What the validation layers had to say, of every device.
  std::vector<std::string> TakeValidationMessages();

 private:
  DeviceGroup() = default;
  std::vector<GlobalPlace> PlacesOf(int64_t count) const;
  Result<std::vector<Seat>> SeatsOf(const std::vector<GlobalPlace>& places, int64_t count) const;

  std::shared_ptr<transport::World> world_;       // null: one process
  std::vector<std::shared_ptr<Client>> members_;  // one a device; virtual devices of one share it
};

}  // namespace krafla
