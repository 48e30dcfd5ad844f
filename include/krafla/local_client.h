// SPDX-License-Identifier: Apache-2.0
// Devices, compiling and running, for programs that embed krafla.
//
//   Result<LocalClient> client = LocalClient::Create();            // the best device here
//   Result<XlaComputation> program = LoadHloFile("model.hlo");
//   Result<LocalExecutable> executable = client->Compile(*program);
//   Result<Literal> result = executable->Run({x, y});
//
// krafla/session.h has what applications need beyond that: names, buffers on the device, runs in the caller's memory,
// runs in the background.
//
// Nothing here throws or aborts on bad input; every error is a Status. Any thread may use a client or an executable at
// any time: runs of one executable come one after the other, those of different executables do not wait for each other.
// A LocalDeviceGroup is for one thread at a time.
//
// A device that is lost (a driver's reset, a cable) fails everything that was compiled for it with ABORTED. The client
// stays: what it compiles next runs on the device made anew.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "krafla/export.h"
#include "krafla/literal.h"
#include "krafla/run_options.h"
#include "krafla/span.h"
#include "krafla/xla_computation.h"

KRAFLA_EXPORT_BEGIN
namespace krafla {

struct DeviceInfo {
  std::string selector;     // what Create takes: "cpu", "vulkan:0"
  std::string description;  // for people: the adapter's and the driver's names
  bool is_cpu = false;
};

struct BuildOptions {
  // Features and passes by name: "fusion", "coopmat", "bda", ... Compile refuses unknown ones with INVALID_ARGUMENT,
  // and lists those that there are. Of `enabled` there are three: "coopmat", wherever a shape fits, also where it may
  // be slower; "fast-functions", on Vulkan: division, exp, log, sqrt, rsqrt, tanh and logistic of f32 and narrower
  // floats as the hardware has them, some units in the last place from XLA's; and "int-dot", on the CPU: a few rows
  // times weights of 4 or 8 bits are rounded to 8 bits in blocks of 32 and multiplied as integers.
  std::set<std::string> disabled, enabled;
  // Any step that the device does not take is an error.
  bool strict = false;
};

// Where a program runs and why, and what it took to get there.
struct BuildReport {
  struct Fallback {
    std::string instruction, opcode, reason;
  };
  int64_t instructions = 0, device_instructions = 0;
  int kernels = 0, launches = 0;
  int64_t arena_bytes = 0;
  double compile_ms = 0;   // krafla's own work
  double pipeline_ms = 0;  // the driver's
  std::vector<Fallback> fallbacks;
  std::string placement;  // one line for people
};

class LocalExecutable {
 public:
  LocalExecutable(LocalExecutable&&) noexcept;
  LocalExecutable& operator=(LocalExecutable&&) noexcept;
  ~LocalExecutable();

  const ProgramShape& program_shape() const;
  const BuildReport& report() const;

  // Runs once, to the end. An argument a parameter; the result is one literal, a tuple where the program gives one.
  Result<Literal> Run(std::span<const Literal* const> arguments, const RunOptions& options = {});
  Result<Literal> Run(Span<Literal> arguments = {}, const RunOptions& options = {});

 private:
  friend class LocalClient;
  struct Impl;
  explicit LocalExecutable(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

class LocalClient {
 public:
  // Every Vulkan device, best first, and the CPU. Empty where they cannot be listed, for an environment variable that
  // means nothing: Create says which.
  static std::vector<DeviceInfo> Devices();
  // "cpu", "vulkan", "vulkan:1", "vulkan:\"radeon\"", ...; "": the best Vulkan device, or the CPU where there is no
  // Vulkan loader, driver or device at all (device().description says which is missing). A driver that is there and
  // fails is an error.
  static Result<LocalClient> Create(std::string_view selector = "", const ClientOptions& options = {});

  LocalClient(LocalClient&&) noexcept;
  LocalClient& operator=(LocalClient&&) noexcept;
  ~LocalClient();

  const DeviceInfo& device() const;
  Result<LocalExecutable> Compile(const XlaComputation& computation, const BuildOptions& options = {});
  // Compiles and runs once. `run` is of the run alone.
  Result<Literal> Execute(const XlaComputation& computation, Span<Literal> arguments = {}, const RunOptions& run = {});

  struct Impl;  // for code inside the library

 private:
  friend class Buffer;
  friend class Session;
  friend class VulkanInterop;
  explicit LocalClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Devices that run one program together, each as one replica and partition of it: "cpu*4" and "vulkan:0*2" are virtual
// ones, "vulkan:0,vulkan:1" devices of their own. Programs say for how many they are by XlaBuilder::SetDeviceCounts or
// in their header.
class LocalDeviceGroup {
 public:
  static Result<LocalDeviceGroup> Create(std::string_view selector, const ClientOptions& options = {});
  LocalDeviceGroup(LocalDeviceGroup&&) noexcept;
  LocalDeviceGroup& operator=(LocalDeviceGroup&&) noexcept;
  ~LocalDeviceGroup();

  int64_t size() const;
  // Compiles and runs once on every device. Arguments and results are lists by device. `run` is of the run alone.
  Result<std::vector<Literal>> Execute(const XlaComputation& computation, Span<std::vector<Literal>> arguments,
                                       const BuildOptions& options = {}, const RunOptions& run = {});

 private:
  struct Impl;
  explicit LocalDeviceGroup(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// A program in any form that krafla reads, told apart by its bytes: HLO text, HloModuleProto, StableHLO, ONNX, or a
// compiled model (docs/ahead-of-time.md). Where it leaves sizes open, ImportOnnx (krafla/onnx.h) and
// SessionOptions::input_sizes (krafla/session.h) take them.
Result<XlaComputation> LoadHlo(std::string_view bytes, std::string_view name_for_messages = "<text>");
Result<XlaComputation> LoadHloFile(const std::string& path);
// "" for a null computation, and where there is no memory for the text.
std::string ToHloText(const XlaComputation& computation);
// "{ {1, 2}, {3, 4} }"
std::string ToString(const Literal& literal);

}  // namespace krafla
KRAFLA_EXPORT_END
