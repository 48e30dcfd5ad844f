// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>

#include "api/feature_names.h"
#include "base/system.h"
#include "command.h"
#include "number_between.h"

namespace krafla::cli {

namespace {

void AddProcesses(CLI::App& app, ProcessOptions& processes) {
  app.add_option("--coordinator", processes.coordinator,
                 "of a program over several processes: where rank 0 listens; each is started with it, --world-size and "
                 "--rank, or all of them by mpirun")
      ->envname("KRAFLA_COORDINATOR")
      ->type_name("HOST:PORT");
  app.add_option("--world-size", processes.world_size, "the number of processes")->envname("KRAFLA_WORLD_SIZE");
  app.add_option("--rank", processes.rank, "which of them this is, from 0")->envname("KRAFLA_RANK");
  app.add_option("--transport", processes.transport,
                 "how bytes go between processes: auto (memory that those of one machine share, mpi under mpirun, else "
                 "sockets), shared, sockets, gloo, mpi")
      ->envname("KRAFLA_TRANSPORT")
      ->check(CLI::IsMember({"auto", "shared", "sockets", "gloo", "mpi"}));
}

}  // namespace

void DeviceOptions::AddTo(CLI::App& app, Takes takes) {
  app.add_option(
         "-d,--device", selector,
         "cpu, vulkan, vulkan:1, vulkan:uuid=.., vulkan:pci=.., vulkan:\"name part\", vulkan:type=cpu "
         "(default: the best Vulkan device, or cpu where there is none); for programs of several devices also N "
         "virtual devices on one, cpu*8 or vulkan:0*4, or a list, vulkan:0,vulkan:1")
      ->envname("KRAFLA_DEVICE")
      ->type_name("SELECTOR");
  app.add_flag("--strict", strict, "a step that the device cannot run is an error, instead of running on the CPU");
  app.add_option("--disable", disabled,
                 "features or passes to switch off, by name: fusion, bda, coopmat, .. (an unknown name lists them all)")
      ->delimiter(',')
      ->type_name("NAMES")
      ->allow_extra_args(false);
  app.add_option(
         "--enable", enabled,
         "coopmat: cooperative matrices wherever a shape fits; fast-functions: exp, division and others as the "
         "hardware has them, some units in the last place from XLA's (Vulkan); int-dot: a few rows times weights "
         "of 4 or 8 bits are rounded to 8 bits and multiplied as integers (CPU); device-sums: collectives sum on "
         "devices whose shaders run on the host's processors too; overlap-all: every collective goes on while "
         "kernels run, however little there is to do meanwhile; dots-by-turns: products of which an operand comes block "
         "by block from other devices while others are worked on")
      ->delimiter(',')
      ->type_name("NAMES")
      ->allow_extra_args(false);
  if (takes.runs)
    app.add_option(
           "--time-limit", time_limit,
           "seconds after which a run is stopped (default: none); also how long a device waits for the others in "
           "a collective (default: 60)")
        ->check(NumberBetween(0.001, 1e6));
  if (takes.runs)
    app.add_option("--submission-ms", submission_ms,
                   "about how long one submission to a GPU may take; longer work is split (default: 100)")
        ->check(NumberBetween(0.001, 1e6));
  app.add_option("--threads", threads,
                 "the number of threads for the CPU's kernels (default: KRAFLA_THREADS, else the number of processors "
                 "that this process may use)")
      ->check(CLI::Range(1, ThreadPool::kMaxThreads));
  if (takes.groups) AddProcesses(app, processes);
  if (takes.json) app.add_flag("--json", json, "print one JSON object per line");
}

GroupOptions DeviceOptions::ToGroupOptions() const {
  GroupOptions out;
  if (time_limit) out.time_limit = std::chrono::milliseconds(static_cast<int64_t>(*time_limit * 1000));
  return out;
}

RunLimit DeviceOptions::ToRunLimit() const {
  RunLimit out;
  if (time_limit)
    out.deadline = RunLimit::Clock::now() + std::chrono::microseconds(static_cast<int64_t>(*time_limit * 1e6));
  return out;
}

Result<CompileOptions> DeviceOptions::ToCompileOptions() const {
  CompileOptions out;
  out.strict = strict;
  out.submission_ms = submission_ms;
  out.disabled = {disabled.begin(), disabled.end()};
  out.enabled = {enabled.begin(), enabled.end()};
  KRAFLA_TRY(CheckFeatureNames(out));
  for (const std::string& name : out.enabled)
    if (out.disabled.contains(name)) return InvalidArgument("'{}' is both enabled and disabled.", name);
  if (threads > 0) out.threads = std::make_shared<ThreadPool>(threads);
  return out;
}

namespace {

int CodeOf(StatusCode code) {
  switch (code) {
    case StatusCode::kResourceExhausted: return kNoMemory;
    case StatusCode::kUnavailable:
    case StatusCode::kAborted:
    case StatusCode::kDeadlineExceeded: return kDeviceFailed;
    case StatusCode::kCancelled:
    case StatusCode::kUnknown:
    case StatusCode::kInvalidArgument:
    case StatusCode::kNotFound:
    case StatusCode::kAlreadyExists:
    case StatusCode::kPermissionDenied:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kOutOfRange:
    case StatusCode::kUnimplemented:
    case StatusCode::kInternal:
    case StatusCode::kDataLoss:
    case StatusCode::kUnauthenticated: return kBadInput;
  }
  return kBadInput;
}

}  // namespace

int Fail(const Status& status) {
  std::fprintf(stderr, "krafla: %s\n", status.message().c_str());
  for (const std::string& line : status.context()) std::fprintf(stderr, "  %s\n", line.c_str());
  if (status.code() == StatusCode::kInternal)
    std::fprintf(stderr, "  This is a bug in krafla; please report it with the module.\n");
  if (status.code() == StatusCode::kAborted || status.code() == StatusCode::kUnavailable)
    std::fprintf(stderr, "  krafla doctor --bundle FILE.zip MODULE collects what a report of this needs.\n");
  return CodeOf(status.code());
}

Status InFile(const std::string& path, const Status& status) {
  Status out(status.code(), path + ": " + status.message());
  for (const std::string& line : status.context()) {
    Status longer = std::move(out).WithContext(line);
    out = std::move(longer);
  }
  return out;
}

int FailDevice(const Status& status) {
  Fail(status);
  if (status.code() == StatusCode::kResourceExhausted) return kNoMemory;
  return status.code() == StatusCode::kInvalidArgument ? kUsage : kDeviceFailed;
}

Result<std::shared_ptr<Client>> OpenDevice(const std::string& selector) {
  KRAFLA_ASSIGN(const std::shared_ptr<DeviceGroup> group, DeviceGroup::Create(selector));
  return group->member(0);
}

Result<> WriteFile(const std::string& path, std::string_view text) {
  std::ofstream out(path, std::ios::binary);
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  out.close();
  if (!out) return DataLoss("'{}' cannot be written.", path);
  return {};
}

bool& IsQuiet() {
  static bool quiet = false;
  return quiet;
}

void Warn(std::string_view text) { std::fprintf(stderr, "krafla: %.*s\n", static_cast<int>(text.size()), text.data()); }

void Remark(std::string_view text) {
  if (!IsQuiet()) Warn(text);
}

bool StderrIsTerminal() { return !IsQuiet() && os::IsTerminal(os::kStandardError); }
bool StdoutIsTerminal() { return os::IsTerminal(os::kStandardOutput); }

std::string FormatMs(double ms) {
  if (ms >= 10000) return Format("{:.1f} s", ms / 1000);
  if (ms >= 100) return Format("{:.0f} ms", ms);
  if (ms >= 1) return Format("{:.1f} ms", ms);
  return Format("{:.3f} ms", ms);
}

int64_t PeakBytes() { return static_cast<int64_t>(os::PeakResidentBytes()); }

}  // namespace krafla::cli
