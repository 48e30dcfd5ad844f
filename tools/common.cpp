// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>

#include "api/feature_names.h"
#include "base/file.h"
#include "command.h"
#include "hlo_io/read_module.h"

namespace krafla::cli {

void DeviceOptions::AddTo(CLI::App& app, Takes takes) {
  app.add_option(
         "-d,--device", selector,
         "cpu, vulkan, vulkan:1, vulkan:uuid=.., vulkan:pci=.., vulkan:\"name part\", vulkan:type=cpu "
         "(default: the best Vulkan device, or cpu where there is none); for programs of several devices also N "
         "virtual devices on one, cpu*8 or vulkan:0*4, or a list, vulkan:0,vulkan:1")
      ->envname("KRAFLA_DEVICE");
  app.add_flag("--strict", strict, "a step that the device cannot run is an error, instead of running on the CPU");
  app.add_option("--disable", disabled,
                 "features or passes to switch off, by name: fusion, bda, coopmat, .. (an unknown name lists them all)")
      ->delimiter(',');
  app.add_option(
         "--enable", enabled,
         "coopmat: cooperative matrices wherever a shape fits; fast-functions: exp, division and others as the hardware has "
         "them, some units in the last place from XLA's (Vulkan)")
      ->delimiter(',');
  if (takes.runs)
    app.add_option(
           "--time-limit", time_limit,
           "seconds after which a run is stopped (default: none); also how long a device waits for the others in "
           "a collective (default: 60)")
        ->check(CLI::Range(0.001, 1e6));
  if (takes.runs)
    app.add_option("--submission-ms", submission_ms,
                   "about how long one submission to a GPU may take; longer work is split (default: 100)")
        ->check(CLI::Range(0.001, 1e6));
  app.add_option("--threads", threads,
                 "the number of threads for the CPU's kernels (default: KRAFLA_THREADS, else the number of processors "
                 "that this process may use)")
      ->check(CLI::Range(1, ThreadPool::kMaxThreads));
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

Result<std::unique_ptr<Module>> LoadModule(const std::string& path) {
  if (path == "-") {
    KRAFLA_ASSIGN(const std::string bytes, ReadStandardInput());
    return ReadModule(bytes, "standard input");
  }
  std::string file = path;
  std::error_code error;
  if (std::filesystem::is_directory(path, error))
    for (const char* form : {"hlo", "pb", "mlir", "mlirbc"})
      if (std::string inside = Format("{}/module.{}", path, form); std::filesystem::exists(inside, error)) {
        file = std::move(inside);
        break;
      }
  KRAFLA_ASSIGN(const std::string bytes, ReadFile(file));
  return ReadModule(bytes, file);
}

std::string ListOfParameters(const Module& module) {
  constexpr std::size_t kShown = 12;
  std::string out;
  const auto parameters = module.entry()->parameters();
  for (std::size_t i = 0; i < parameters.size() && i < kShown; ++i)
    out += Format("{}{} {}", i == 0 ? "" : ", ", parameters[i]->name(), parameters[i]->shape().ToString(false));
  if (parameters.size() > kShown) out += Format(" and {} more", parameters.size() - kShown);
  return out;
}

Result<> WriteFile(const std::string& path, std::string_view text) {
  std::ofstream out(path, std::ios::binary);
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  out.close();
  if (!out) return DataLoss("'{}' cannot be written.", path);
  return {};
}

bool StderrIsTerminal() { return isatty(STDERR_FILENO) != 0; }
bool StdoutIsTerminal() { return isatty(STDOUT_FILENO) != 0; }

std::string FormatMs(double ms) {
  if (ms >= 10000) return Format("{:.1f} s", ms / 1000);
  if (ms >= 100) return Format("{:.0f} ms", ms);
  if (ms >= 1) return Format("{:.1f} ms", ms);
  return Format("{:.3f} ms", ms);
}

int64_t PeakBytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;
}

Result<std::vector<Literal>> RandomArguments(const std::vector<Shape>& shapes, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Literal> out;
  for (const Shape& shape : shapes) {
    KRAFLA_ASSIGN(Literal made, Literal::Create(shape));
    ElementType type = RealPart(shape.element_type());
    auto bytes = made.bytes();
    if (type == ElementType::kF32) {
      for (std::size_t i = 0; i + 4 <= bytes.size(); i += 4) {
        float v = static_cast<float>(random() >> 40) / 8388608.0f - 1.0f;
        std::memcpy(bytes.data() + i, &v, 4);
      }
    } else if (type == ElementType::kF64) {
      for (std::size_t i = 0; i + 8 <= bytes.size(); i += 8) {
        double v = static_cast<double>(random() >> 11) / 4503599627370496.0 - 1.0;
        std::memcpy(bytes.data() + i, &v, 8);
      }
    } else if (IsFloat(type)) {
      // Below one in every format: the top bit pattern of small exponents.
      int size = StorageBytes(type);
      for (std::size_t i = 0; i < bytes.size(); i += static_cast<std::size_t>(size)) {
        uint64_t r = random();
        if (size == 2) {
          uint16_t v = type == ElementType::kBF16 ? static_cast<uint16_t>(0x3c00 + (r & 0x37f))
                                                  : static_cast<uint16_t>(0x2000 + (r & 0x1bff));
          v = static_cast<uint16_t>(v | ((r >> 32 & 1) << 15));
          std::memcpy(bytes.data() + i, &v, 2);
        } else {
          bytes[i] = static_cast<std::byte>(type == ElementType::kF4E2M1FN ? r & 7 : r & 0x37);
        }
      }
    } else if (type == ElementType::kPred || StorageBytes(type) == 1) {
      for (std::byte& b : bytes) b = static_cast<std::byte>(random() & 1);
    } else if (shape.IsArray()) {
      auto size = static_cast<std::size_t>(StorageBytes(type));
      for (std::size_t i = 0; i < bytes.size(); i += size) bytes[i] = static_cast<std::byte>(random() & 7);
    }
    out.push_back(std::move(made));
  }
  return out;
}

}  // namespace krafla::cli
