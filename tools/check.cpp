// SPDX-License-Identifier: Apache-2.0
#include <fnmatch.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdio>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "api/front_end.h"
#include "command.h"
#include "hlo_io/data/corpus.h"

namespace krafla::cli {
namespace {

struct Outcome {
  enum class Kind { kPassed, kFailed, kSkipped, kError } kind = Kind::kError;
  std::string reason;
  Comparison worst;
  CompileReport report;
  double run_ms = 0;
};

constexpr const char* kNames[] = {"passed", "failed", "skipped", "error"};

Outcome Error(const Status& status) {
  Outcome out;
  out.reason = status.message();
  return out;
}

Outcome CheckCase(const RecordedCase& c, Client& client, const CompileOptions& options) {
  Outcome out;
  if (c.replicas * c.partitions > 1) {
    out.kind = Outcome::Kind::kSkipped;
    out.reason = std::format("needs {} devices", c.replicas * c.partitions);
    return out;
  }
  auto module = LoadModule(c.module_path);
  if (!module) return Error(module.error());
  auto executable = client.Compile(std::move(*module), options);
  if (!executable) return Error(executable.error());
  out.report = (*executable)->report();
  auto arrays = ReadArrays(c, (*executable)->arguments(), (*executable)->results());
  if (!arrays) return Error(arrays.error());
  std::vector<const Literal*> pointers;
  for (const Literal& a : arrays->inputs[0]) pointers.push_back(&a);
  if (auto set = (*executable)->SetArguments(pointers); !set) return Error(set.error());
  Stopwatch run;
  if (auto done = (*executable)->Execute(); !done) return Error(done.error());
  out.run_ms = run.Milliseconds();
  auto results = (*executable)->Results();
  if (!results) return Error(results.error());
  std::vector<const Literal*> got;
  for (const Literal& r : *results)
    if (r.shape().IsArray()) got.push_back(&r);
  const std::vector<Literal>& expected = arrays->outputs[0];
  out.kind = Outcome::Kind::kPassed;
  if (got.size() != expected.size()) {
    out.kind = Outcome::Kind::kFailed;
    out.reason = std::format("{} results, {} are recorded", got.size(), expected.size());
    return out;
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    const Literal* alt = nullptr;
    if (!arrays->alt_outputs.empty() && i < arrays->alt_outputs[0].size() && arrays->alt_outputs[0][i])
      alt = &*arrays->alt_outputs[0][i];
    Comparison comparison = Compare(*got[i], expected[i], alt, arrays->tolerances[i]);
    out.worst.max_abs = std::max(out.worst.max_abs, comparison.max_abs);
    out.worst.max_rel = std::max(out.worst.max_rel, comparison.max_rel);
    out.worst.max_ulp = std::max(out.worst.max_ulp, comparison.max_ulp);
    if (!comparison.passed && out.kind == Outcome::Kind::kPassed) {
      out.kind = Outcome::Kind::kFailed;
      out.reason = std::format("result {}: {}", i, comparison.reason);
    }
  }
  return out;
}

void Print(const RecordedCase& c, const Outcome& o, const std::string& device, bool json) {
  if (json) {
    nlohmann::ordered_json line;
    line["case"] = c.name;
    line["device"] = device;
    line["status"] = kNames[static_cast<int>(o.kind)];
    line["reason"] = o.reason;
    line["max_abs"] = o.worst.max_abs;
    line["max_rel"] = o.worst.max_rel;
    line["max_ulp"] = o.worst.max_ulp;
    line["placed_on_device"] = o.report.device_instructions;
    line["instructions"] = o.report.instructions;
    line["cooperative_matrix_launches"] = o.report.cooperative_matrix_launches;
    line["compile_ms"] = o.report.compile_ms();
    line["run_ms"] = o.run_ms;
    nlohmann::ordered_json fallbacks = nlohmann::ordered_json::array();
    for (const auto& f : o.report.fallbacks)
      fallbacks.push_back({{"instruction", f.instruction}, {"opcode", f.opcode}, {"reason", f.reason}});
    line["fallbacks"] = fallbacks;
    std::printf("%s\n", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  } else if (o.kind != Outcome::Kind::kPassed) {
    std::printf("%s %s: %s\n", kNames[static_cast<int>(o.kind)], c.name.c_str(), o.reason.c_str());
  }
  std::fflush(stdout);
}

}  // namespace

int Check(const CheckOptions& options) {
  auto compile_options = options.device.ToCompileOptions();
  if (!compile_options) return Fail(compile_options.error()), kUsage;
  std::vector<RecordedCase> cases;
  int64_t without_form = 0;
  for (const std::string& path : options.paths) {
    auto found = FindCases(path, options.form);
    if (!found) return Fail(found.error());
    without_form += found->without_form;
    for (RecordedCase& c : found->cases)
      if (options.filter.empty() || fnmatch(options.filter.c_str(), c.name.c_str(), 0) == 0) cases.push_back(std::move(c));
  }
  if (cases.empty()) {
    std::fprintf(stderr, "krafla: no recorded case under %s\n", options.paths[0].c_str());
    return kUsage;
  }
  std::mutex mutex;
  std::atomic<std::size_t> next = 0;
  int64_t passed = 0, failed = 0, skipped = static_cast<int64_t>(0), placed = 0, instructions = 0, wholly = 0;
  std::optional<Status> device_error;
  std::string description;
  auto work = [&] {
    auto client = Client::Create(options.device.selector);
    if (!client) {
      std::lock_guard lock(mutex);
      device_error = client.error();
      return;
    }
    {
      std::lock_guard lock(mutex);
      description = (*client)->device().description;
    }
    while (true) {
      std::size_t n = next++;
      if (n >= cases.size()) return;
      Outcome o = CheckCase(cases[n], **client, *compile_options);
      // Under KRAFLA_VALIDATE=1 a right answer got in a wrong way is a failure too.
      for (const std::string& message : (*client)->TakeValidationMessages()) {
        o.kind = Outcome::Kind::kFailed;
        o.reason += std::format("{}validation: {}", o.reason.empty() ? "" : "; ", message.substr(0, 400));
      }
      std::lock_guard lock(mutex);
      if (StderrIsTerminal()) std::fprintf(stderr, "\r\x1b[K%zu/%zu %s", n + 1, cases.size(), cases[n].name.c_str());
      if (StderrIsTerminal() && o.kind != Outcome::Kind::kPassed) std::fprintf(stderr, "\r\x1b[K");
      Print(cases[n], o, (*client)->device().selector, options.device.json);
      passed += o.kind == Outcome::Kind::kPassed;
      failed += o.kind == Outcome::Kind::kFailed || o.kind == Outcome::Kind::kError;
      skipped += o.kind == Outcome::Kind::kSkipped;
      placed += o.report.device_instructions;
      instructions += o.report.instructions;
      wholly += o.kind == Outcome::Kind::kPassed && o.report.fallbacks.empty();
    }
  };
  std::vector<std::thread> threads;
  for (int j = 1; j < options.jobs; ++j) threads.emplace_back(work);
  work();
  for (std::thread& t : threads) t.join();
  if (StderrIsTerminal()) std::fprintf(stderr, "\r\x1b[K");
  if (device_error) return FailDevice(*device_error);
  std::fprintf(stderr, "krafla: %lld/%lld instructions on %s; %lld of %lld passing cases wholly there\n",
               static_cast<long long>(placed), static_cast<long long>(instructions), description.c_str(),
               static_cast<long long>(wholly), static_cast<long long>(passed));
  if (without_form > 0)
    std::fprintf(stderr, "krafla: %lld cases have no form '%s'\n", static_cast<long long>(without_form), options.form.c_str());
  std::printf("%lld passed, %lld failed, %lld skipped\n", static_cast<long long>(passed), static_cast<long long>(failed),
              static_cast<long long>(skipped));
  return failed == 0 ? kRight : kCheckFailed;
}

}  // namespace krafla::cli
