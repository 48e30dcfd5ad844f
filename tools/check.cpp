// SPDX-License-Identifier: Apache-2.0
#include <fnmatch.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdio>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "api/front_end.h"
#include "api/host_transfers.h"
#include "command.h"
#include "hlo_io/data/corpus.h"
#include "test_calls.h"

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

// What the host has to say while the case runs.
void QueueForDevice(RecordedArrays& arrays, HostTransfers& transfers) {
  transfers.Reset();
  for (std::vector<Literal>& item : arrays.infeed) transfers.PushInfeed(std::move(item));
  for (auto& [channel, literal] : arrays.recv_from_host) {
    HostTransfers::Item item;
    item.push_back(std::move(literal));
    transfers.PushToDevice(channel, std::move(item));
  }
}

// What the host must have heard, in order, and nothing else.
void CheckTransfers(const RecordedArrays& arrays, HostTransfers& transfers, Outcome& out) {
  const Tolerance tolerance = arrays.tolerances.empty() ? Tolerance{} : arrays.tolerances[0];
  auto fail = [&](std::string reason) {
    out.kind = Outcome::Kind::kFailed;
    out.reason = std::move(reason);
  };
  auto compare = [&](const Result<HostTransfers::Item>& got, std::span<const Literal> expected, const std::string& what) {
    if (!got) return fail(std::format("{}: {}", what, got.error().message()));
    if (got->size() != expected.size())
      return fail(std::format("{}: {} arrays, {} are recorded", what, got->size(), expected.size()));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      Comparison comparison = Compare((*got)[i], expected[i], nullptr, tolerance);
      if (!comparison.passed) return fail(std::format("{}, array {}: {}", what, i, comparison.reason));
    }
  };
  const HostTransfers::Limit now{0};
  for (std::size_t n = 0; n < arrays.outfeed.size(); ++n)
    compare(transfers.PopOutfeed(now), arrays.outfeed[n], std::format("outfeed item {}", n));
  for (const auto& [channel, literal] : arrays.send_to_host)
    compare(transfers.PopFromDevice(channel, now), {&literal, 1}, std::format("channel {} to the host", channel));
  if (out.kind == Outcome::Kind::kPassed && transfers.waiting() > 0)
    fail(std::format("{} transfers too many or not taken", transfers.waiting()));
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
  const std::vector<Shape> parameters = (*executable)->arguments(), result_shapes = (*executable)->results();
  auto arrays = ReadArrays(c, parameters, result_shapes, c.is_model ? RecordedPart::kInputs : RecordedPart::kAll);
  if (!arrays) return Error(arrays.error());
  if (auto set = (*executable)->ShareArguments(ToShared(std::move(arrays->inputs[0]))); !set) return Error(set.error());
  QueueForDevice(*arrays, *options.transfers);
  Stopwatch run;
  if (auto done = (*executable)->Execute(); !done) return Error(done.error());
  out.run_ms = run.Milliseconds();
  auto results = (*executable)->TakeResults();
  if (!results) return Error(results.error());
  // The arguments have had their use: only then what to compare with.
  executable->reset();
  if (c.is_model) arrays = ReadArrays(c, parameters, result_shapes, RecordedPart::kExpected);
  if (!arrays) return Error(arrays.error());
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
  if (out.kind == Outcome::Kind::kPassed) CheckTransfers(*arrays, *options.transfers, out);
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
    line["peak_bytes"] = PeakBytes();
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
  if (auto registered = RegisterTestCalls(); !registered) return Fail(registered.error());
  std::mutex mutex;
  std::atomic<std::size_t> next = 0;
  int64_t passed = 0, failed = 0, skipped = static_cast<int64_t>(0), placed = 0, instructions = 0, wholly = 0;
  std::optional<Status> device_error;
  std::string description;
  auto work = [&] {
    // A case that is not fed is an error soon, not after a minute.
    CompileOptions own_options = *compile_options;
    own_options.transfers = std::make_shared<HostTransfers>(std::chrono::seconds(5));
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
      Outcome o = CheckCase(cases[n], **client, own_options);
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
  std::fprintf(stderr, "krafla: peak %.0f MB\n", static_cast<double>(PeakBytes()) / 1e6);
  std::printf("%lld passed, %lld failed, %lld skipped\n", static_cast<long long>(passed), static_cast<long long>(failed),
              static_cast<long long>(skipped));
  return failed == 0 ? kRight : kCheckFailed;
}

}  // namespace krafla::cli
