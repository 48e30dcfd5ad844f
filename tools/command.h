// SPDX-License-Identifier: Apache-2.0
// What the subcommands of krafla share. Results go to standard output, talk to standard error.
#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/client.h"
#include "api/group/device_group.h"
#include "api/group/processes.h"
#include "ir/module.h"
#include "krafla/status.h"

namespace CLI {
class App;
}

namespace krafla::cli {

enum ExitCode : int { kRight = 0, kCheckFailed = 1, kUsage = 2, kBadInput = 3, kDeviceFailed = 4, kNoMemory = 5 };
// What --help and the manual page say of them.
struct ExitCodeText {
  ExitCode code;
  const char* text;
};
inline constexpr ExitCodeText kExitCodes[] = {
    {kRight, "success"},
    {kCheckFailed, "a check failed"},
    {kUsage, "usage"},
    {kBadInput, "unsupported or invalid input, or a file that cannot be read or written"},
    {kDeviceFailed, "device or driver, or a time limit"},
    {kNoMemory, "out of memory"}};

inline constexpr const char* kModuleHelp =
    "HLO text, HloModuleProto, StableHLO text or bytecode, a compiled model; a model folder; - for standard input";

// What a subcommand takes of DeviceOptions besides the device and its features.
struct Takes {
  bool json = true;
  bool runs = true;     // it runs programs, which may be limited
  bool groups = false;  // and those of several devices, in several processes
};

// -d, --strict, --disable, --enable, --threads, --json, --time-limit, --submission-ms; --coordinator, --world-size,
// --rank, --transport.
struct DeviceOptions {
  std::string selector;
  bool strict = false;
  bool json = false;
  std::vector<std::string> disabled, enabled;
  std::optional<double> time_limit;  // seconds
  double submission_ms = krafla::CompileOptions().submission_ms;
  int threads = 0;  // of the CPU's kernels; 0: as many as there are processors
  ProcessOptions processes;

  void AddTo(CLI::App& app, Takes takes = {});
  Result<CompileOptions> ToCompileOptions() const;  // unknown feature names are errors that list the known ones
  GroupOptions ToGroupOptions() const;
  // Of a run that begins now.
  RunLimit ToRunLimit() const;
};

// Prints "krafla: ..." to standard error and returns the exit code for it.
int Fail(const Status& status);
// The same with the file in front, for errors that name an instruction only.
Status InFile(const std::string& path, const Status& status);
// A failure to find or open a device.
int FailDevice(const Status& status);

// "x=1,224,224,3"; the name may have '=' in it.
Result<std::pair<std::string, std::vector<int64_t>>> ParseShapeOption(const std::string& text);
// Reads a module in any form, told apart by content: of a file, of the module in a model folder, or of standard input
// ("-"). `shapes`: what --shape was given. Errors name the file.
Result<std::unique_ptr<Module>> LoadModule(const std::string& path, const std::vector<std::string>& shapes = {});
// Whether the folder holds a module and nothing that is recorded of it.
bool HoldsModuleAlone(const std::string& folder);
// --shape, which ParseShapeOption reads.
void AddShapeOption(CLI::App& app, std::vector<std::string>& shapes);

// --replicas and --partitions; 0: not given.
void AddDeviceCounts(CLI::App& app, int64_t& replicas, int64_t& partitions);

// The devices that the options name, of this process and where they say so of several.
Result<std::shared_ptr<DeviceGroup>> OpenGroup(const DeviceOptions& options);
// What rank 0 has for a number on which all have to agree, such as how often they run; `number` itself in one process.
Result<int64_t> AsRankZero(DeviceGroup& group, int64_t number);
// Whether this process speaks for all.
bool IsSpeaker(const DeviceGroup& group);

// The one device of a command about one: that of the selector, or the first of a group ("cpu*8").
Result<std::shared_ptr<Client>> OpenDevice(const std::string& selector);

// Talk on standard error, a line that begins with "krafla: ". Progress and remarks are left out under --quiet;
// warnings, which say that a result may not be what was asked for, are not.
void Remark(std::string_view text);
void Warn(std::string_view text);
// What --quiet sets.
bool& IsQuiet();

// DATA_LOSS where it cannot be written as a whole.
Result<> WriteFile(const std::string& path, std::string_view text);

bool StderrIsTerminal();
bool StdoutIsTerminal();

// Of the whole process, as the operating system counts it: the weights, results and staging copies included.
int64_t PeakBytes();

// Milliseconds for people: "0.12 ms", "1.5 s".
std::string FormatMs(double ms);

int Devices(const DeviceOptions& options);
// The paths between each two of them.
int Links(const DeviceOptions& options);
int Probe(bool json);

struct DoctorOptions {
  bool json = false;
  std::FILE* out = stdout;
};
// What a bug report needs to know of this machine; kCheckFailed where something is wrong with it.
int Examine(const DoctorOptions& options);

// The range of random floating-point arguments.
struct RandomRange {
  double low = kDefaultLow, high = kDefaultHigh;
  // Not negative, since programs take roots and logarithms of variances and probabilities.
  static constexpr double kDefaultLow = 0, kDefaultHigh = 1;
};

// What a program is run on: the options of `run`.
struct ArgumentOptions {
  std::string archive;              // --inputs
  std::vector<std::string> inputs;  // --input
  bool random = false;
  uint64_t seed = 0;
  std::vector<double> range;  // low and high, or empty

  bool IsEmpty() const { return archive.empty() && inputs.empty() && !random; }
  RandomRange Range() const { return range.size() == 2 ? RandomRange{range[0], range[1]} : RandomRange{}; }
};

struct RunOptions {
  DeviceOptions device;
  std::string module, save;
  std::vector<std::string> shapes;
  ArgumentOptions arguments;
  std::string tune;
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
  std::vector<std::string> paths, shapes;
  int iterations = 0;     // 0: until min_time
  double min_time = 1.0;  // seconds
  double every_ms = 0;    // between the starts of two runs, at least
  std::string tune;
  // --collectives, with nothing in `paths`.
  bool collectives = false;
  std::string sizes = "8:256M";
  std::vector<std::string> ops;  // empty: all
};
int Bench(const BenchOptions& options);
int BenchCollectives(const BenchOptions& options);

struct ProfileOptions {
  DeviceOptions device;
  std::string module, by = "kernel", trace, html;
  std::vector<std::string> shapes;
  int runs = 5, top = 25;  // lines; 0: all
  bool verbose = false, roof = true;
  std::vector<double> known_roof;  // operations and bytes in a second; empty: they are measured
};
int ProfileModule(const ProfileOptions& options);

struct TuneCommandOptions {
  DeviceOptions device;
  std::vector<std::string> paths, shapes;
  double budget = 60;  // seconds
  bool all = false, allow_other_sums = false, again = false, list = false, clear = false;
  std::string export_file, import_file;
};
int Tune(const TuneCommandOptions& options);
// INVALID_ARGUMENT where kernels are to be tuned on a device that has none to tune.
Result<> CheckTunable(const std::string& how, const std::string& selector);
// What --tune of other commands does before they compile the module; `how` is "" or "first-run".
Result<> TuneFirst(const std::string& how, const std::string& selector, const Module& module,
                   const CompileOptions& options);

struct OptOptions {
  std::string module, passes, stage = "optimized", output, selector, profile;
  std::string emit;  // empty: as the name of the output says
  bool list_passes = false;
  std::vector<std::string> disabled, enabled, shapes;
  int64_t replicas = 0, partitions = 0;  // 0: as the module says
};
int Opt(const OptOptions& options);

int Ops(const DeviceOptions& device, bool markdown);
int Demo(const DeviceOptions& options);

// Arrays made from a seed, one after the other: floats in the range, integers from 0 to 7, or 0 and 1 where they have a
// byte.
class RandomArrays {
 public:
  explicit RandomArrays(uint64_t seed, const RandomRange& range = {}) : random_(seed), range_(range) {}
  Result<Literal> Next(const Shape& shape);

 private:
  std::mt19937_64 random_;
  RandomRange range_;
};

// Arguments for a module.
Result<std::vector<Literal>> RandomArguments(const std::vector<Shape>& shapes, uint64_t seed,
                                             const RandomRange& range = {});

}  // namespace krafla::cli
