// SPDX-License-Identifier: Apache-2.0
// What the subcommands of krafla share. Results go to standard output, talk to standard error.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "api/client.h"
#include "api/device_group.h"
#include "base/status.h"
#include "ir/module.h"

namespace CLI {
class App;
}

namespace krafla::cli {

enum ExitCode : int { kRight = 0, kCheckFailed = 1, kUsage = 2, kBadInput = 3, kDeviceFailed = 4, kNoMemory = 5 };

// -d, --strict, --disable, --enable, --json.
struct DeviceOptions {
  std::string selector;
  bool strict = false;
  bool json = false;
  std::vector<std::string> disabled, enabled;
  double time_limit = 60;  // seconds

  void AddTo(CLI::App& app, bool with_json = true);
  Result<CompileOptions> ToCompileOptions() const;  // unknown feature names are errors that list the known ones
  GroupOptions ToGroupOptions() const;
};

// Prints "krafla: ..." to standard error and returns the exit code for it.
int Fail(const Status& status);
// The same with the file in front, for errors that name an instruction only.
Status InFile(const std::string& path, const Status& status);
// A failure to find or open a device.
int FailDevice(const Status& status);

// Reads a module: HLO text now; told apart by content. Errors name the file.
Result<std::unique_ptr<Module>> LoadModule(const std::string& path);

bool StderrIsTerminal();
bool StdoutIsTerminal();

// Of the whole process, as the operating system counts it: the weights, results and staging copies included.
int64_t PeakBytes();

// Milliseconds for people: "0.12 ms", "1.5 s".
std::string FormatMs(double ms);

int Devices(const DeviceOptions& options);

struct RunOptions {
  DeviceOptions device;
  std::string module, inputs, save;
  std::vector<std::string> literals;
  bool random = false;
  uint64_t seed = 0;
  int64_t replicas = 0, partitions = 0;  // 0: as the module says
};
int Run(const RunOptions& options);

struct CheckOptions {
  DeviceOptions device;
  std::vector<std::string> paths;
  std::string filter, form = "hlo";
  int jobs = 1;
};
int Check(const CheckOptions& options);

struct BenchOptions {
  DeviceOptions device;
  std::vector<std::string> paths;
  int iterations = 0;      // 0: until min_time
  double min_time = 1.0;   // seconds
};
int Bench(const BenchOptions& options);

struct OptOptions {
  std::string module, passes, stage = "optimized", output, emit = "hlo", selector;
  bool list_passes = false;
  std::vector<std::string> disabled;
};
int Opt(const OptOptions& options);

int Ops(const DeviceOptions& device, bool markdown);
int Demo(const DeviceOptions& options);

// Arguments for a module: made from a seed, floats in [-1, 1), integers small.
Result<std::vector<Literal>> RandomArguments(const std::vector<Shape>& shapes, uint64_t seed);

}  // namespace krafla::cli
