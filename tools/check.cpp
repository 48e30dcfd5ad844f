// SPDX-License-Identifier: Apache-2.0
#include <fnmatch.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdio>
#include <mutex>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>

#include "api/front_end.h"
#include "api/group/device_group.h"
#include "api/host/host_transfers.h"
#include "check_outcome.h"
#include "command.h"
#include "ir/sharding.h"
#include "recorded/corpus.h"
#include "test_calls.h"

namespace krafla::cli {
namespace {

constexpr const char* kNames[] = {"passed", "failed", "skipped", "error"};

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
  auto compare = [&](const Result<HostTransfers::Item>& got, std::span<const Literal> expected,
                     const std::string& what) {
    if (!got) return fail(Format("{}: {}", what, got.error().message()));
    if (got->size() != expected.size())
      return fail(Format("{}: {} arrays, {} are recorded", what, got->size(), expected.size()));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      Comparison comparison = Compare((*got)[i], expected[i], nullptr, tolerance);
      if (!comparison.passed) return fail(Format("{}, array {}: {}", what, i, comparison.reason));
    }
  };
  const HostTransfers::Limit now{0};
  for (std::size_t n = 0; n < arrays.outfeed.size(); ++n)
    compare(transfers.PopOutfeed(now), arrays.outfeed[n], Format("outfeed item {}", n));
  for (const auto& [channel, literal] : arrays.send_to_host)
    compare(transfers.PopFromDevice(channel, now), {&literal, 1}, Format("channel {} to the host", channel));
  if (out.kind == Outcome::Kind::kPassed && transfers.waiting() > 0)
    fail(Format("{} transfers too many or not taken", transfers.waiting()));
}

// Compares what one device gave. `who`: " of device 3", or nothing.
void CompareResults(const std::vector<Literal>& results, const RecordedArrays& arrays, std::size_t device,
                    const std::string& who, Outcome& out) {
  std::vector<const Literal*> got;
  for (const Literal& r : results)
    if (r.shape().IsArray()) got.push_back(&r);
  const std::vector<Literal>& expected = arrays.outputs[device];
  auto fail = [&](std::string reason) {
    if (out.kind != Outcome::Kind::kPassed) return;
    out.kind = Outcome::Kind::kFailed;
    out.reason = std::move(reason);
  };
  if (got.size() != expected.size())
    return fail(Format("{} results{}, {} are recorded", got.size(), who, expected.size()));
  for (std::size_t i = 0; i < got.size(); ++i) {
    const Literal* alt = nullptr;
    if (arrays.alt_outputs.size() > device && i < arrays.alt_outputs[device].size() && arrays.alt_outputs[device][i])
      alt = &*arrays.alt_outputs[device][i];
    Comparison comparison = Compare(*got[i], expected[i], alt, arrays.tolerances[i]);
    out.worst.max_abs = std::max(out.worst.max_abs, comparison.max_abs);
    out.worst.max_rel = std::max(out.worst.max_rel, comparison.max_rel);
    out.worst.max_ulp = std::max(out.worst.max_ulp, comparison.max_ulp);
    if (!comparison.passed) fail(Format("result {}{}: {}", i, who, comparison.reason));
  }
}

// A model as it is before partitioning: each device gets its block of the arguments and has to give that of the
// results.
Outcome CheckUnpartitioned(const RecordedCase& c, DeviceGroup& group, const CompileOptions& options,
                           const DeviceOptions& device) {
  Outcome out;
  auto module = LoadModule(c.module_path);
  if (!module) return Error(module.error());
  (*module)->replica_count = c.replicas;
  (*module)->num_partitions = c.partitions;
  std::vector<Shape> parameters, result_shapes;
  for (const Instruction* p : (*module)->entry()->parameters())
    for (const Shape* leaf : TupleLeaves(p->shape())) parameters.push_back(*leaf);
  for (const Shape* leaf : TupleLeaves((*module)->entry()->root()->shape())) result_shapes.push_back(*leaf);
  auto executable = group.Compile(std::move(*module), options, device.ToGroupOptions());
  if (!executable) return Error(executable.error());
  out.report = (*executable)->report();
  RecordedCase whole = c;  // the arrays of one device are the whole ones
  whole.replicas = whole.partitions = 1;
  auto arrays = ReadArrays(whole, parameters, result_shapes);
  if (!arrays) return Error(arrays.error());
  auto blocks = [&](const std::vector<Literal>& from, const std::vector<std::string>& shardings, int64_t number,
                    std::vector<Literal>& to) -> Result<> {
    if (shardings.size() != from.size())
      return InvalidArgument("The case records {} arrays; the program has shardings of {}.", from.size(),
                             shardings.size());
    for (std::size_t i = 0; i < from.size(); ++i) {
      KRAFLA_ASSIGN(Sharding sharding, ParseSharding(shardings[i], c.partitions));
      KRAFLA_ASSIGN(Literal block, BlockOf(from[i], sharding, number % c.partitions));
      to.push_back(std::move(block));
    }
    return {};
  };
  const int64_t devices = c.replicas * c.partitions;
  for (int64_t d = 0; d < devices; ++d) {
    std::vector<Literal> own;
    if (auto cut = blocks(arrays->inputs[0], (*executable)->parameter_shardings(), d, own); !cut)
      return Error(cut.error());
    std::vector<const Literal*> pointers;
    for (const Literal& a : own) pointers.push_back(&a);
    if (auto set = (*executable)->SetArguments(d, pointers); !set) return Error(set.error());
  }
  const RunLimit limit = device.ToRunLimit();
  (*executable)->SetLimit(&limit);
  Stopwatch run;
  if (auto done = (*executable)->Execute(); !done) return Error(done.error());
  out.run_ms = run.Milliseconds();
  out.kind = Outcome::Kind::kPassed;
  for (int64_t d = 0; d < devices; ++d) {
    auto results = (*executable)->Results(d);
    if (!results) return Error(results.error());
    RecordedArrays own;
    own.tolerances = arrays->tolerances;
    own.outputs.emplace_back();
    if (auto cut = blocks(arrays->outputs[0], (*executable)->result_shardings(), d, own.outputs[0]); !cut)
      return Error(cut.error());
    CompareResults(*results, own, 0, Format(" of device {}", d), out);
  }
  return out;
}

// A case for several devices: those of the group, or as many virtual ones of its only device as are needed.
Outcome CheckGroupCase(const RecordedCase& c, DeviceGroup& group, const CompileOptions& options,
                       const DeviceOptions& device) {
  Outcome out;
  const int64_t devices = c.replicas * c.partitions;
  if (group.size() > 1 && group.size() < devices) {
    out.kind = Outcome::Kind::kSkipped;
    out.reason = Format("needs {} devices, {} names {}", devices, group.selector(), group.size());
    return out;
  }
  // A model is recorded before partitioning too, and has to give the same from there.
  if (c.is_model) {
    out = CheckUnpartitioned(c, group, options, device);
    if (out.kind != Outcome::Kind::kPassed) out.reason = "unpartitioned: " + out.reason;
    if (out.kind != Outcome::Kind::kPassed || c.module_path_spmd.empty()) return out;
    out = Outcome();
  }
  // The program of one device, where the recorded one is not that already.
  auto module = LoadModule(c.module_path_spmd.empty() ? c.module_path : c.module_path_spmd);
  if (!module) return Error(module.error());
  (*module)->replica_count = c.replicas;
  (*module)->num_partitions = c.partitions;
  auto executable = group.Compile(std::move(*module), options, device.ToGroupOptions());
  if (!executable) return Error(executable.error());
  out.report = (*executable)->report();
  auto arrays = ReadArrays(c, (*executable)->arguments(), (*executable)->results(), RecordedPart::kAll);
  if (!arrays) return Error(arrays.error());
  if (static_cast<int64_t>(arrays->inputs.size()) != devices)
    return Error(Status(StatusCode::kInvalidArgument,
                        Format("The case records arrays of {} devices, not of {}.", arrays->inputs.size(), devices)));
  for (int64_t d = 0; d < devices; ++d) {
    std::vector<const Literal*> pointers;
    for (const Literal& a : arrays->inputs[static_cast<std::size_t>(d)]) pointers.push_back(&a);
    if (auto set = (*executable)->SetArguments(d, pointers); !set) return Error(set.error());
  }
  const RunLimit limit = device.ToRunLimit();
  (*executable)->SetLimit(&limit);
  Stopwatch run;
  if (auto done = (*executable)->Execute(); !done) return Error(done.error());
  out.run_ms = run.Milliseconds();
  out.kind = Outcome::Kind::kPassed;
  for (int64_t d = 0; d < devices; ++d) {
    auto results = (*executable)->Results(d);
    if (!results) return Error(results.error());
    CompareResults(*results, *arrays, static_cast<std::size_t>(d), Format(" of device {}", d), out);
  }
  return out;
}

Outcome CheckCase(const RecordedCase& c, DeviceGroup& group, const CompileOptions& options,
                  const DeviceOptions& device) {
  if (c.replicas * c.partitions > 1) return CheckGroupCase(c, group, options, device);
  Outcome out;
  auto module = LoadModule(c.module_path);
  if (!module) return Error(module.error());
  auto executable = group.client(0).Compile(std::move(*module), options);
  if (!executable) return Error(executable.error());
  out.report = (*executable)->report();
  const std::vector<Shape> parameters = (*executable)->arguments(), result_shapes = (*executable)->results();
  auto arrays = ReadArrays(c, parameters, result_shapes, c.is_model ? RecordedPart::kInputs : RecordedPart::kAll);
  if (!arrays) return Error(arrays.error());
  if (auto set = (*executable)->ShareArguments(ToShared(std::move(arrays->inputs[0]))); !set) return Error(set.error());
  QueueForDevice(*arrays, *options.transfers);
  const RunLimit limit = device.ToRunLimit();
  (*executable)->SetLimit(&limit);
  Stopwatch run;
  if (auto done = (*executable)->Execute(); !done) return Error(done.error());
  out.run_ms = run.Milliseconds();
  auto results = (*executable)->TakeResults();
  if (!results) return Error(results.error());
  // The arguments have had their use: only then what to compare with.
  executable->reset();
  if (c.is_model) arrays = ReadArrays(c, parameters, result_shapes, RecordedPart::kExpected);
  if (!arrays) return Error(arrays.error());
  out.kind = Outcome::Kind::kPassed;
  CompareResults(*results, *arrays, 0, "", out);
  if (out.kind == Outcome::Kind::kPassed) CheckTransfers(*arrays, *options.transfers, out);
  return out;
}

// One case that ends in an exception is an error of its own.
Outcome CheckCaseSafely(const RecordedCase& c, DeviceGroup& group, const CompileOptions& options,
                        const DeviceOptions& device) {
  Result<Outcome> out = WithoutExceptions([&]() -> Result<Outcome> { return CheckCase(c, group, options, device); });
  return out ? std::move(*out) : Error(out.error());
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
    line["devices"] = c.replicas * c.partitions;
    line["exchanges"] = o.report.exchanges;
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
  std::vector<std::string> self_checks;
  for (const std::string& path : options.paths) {
    std::vector<std::string> files = FindSelfChecks(path);
    const bool is_file = files.size() == 1 && files[0] == path;
    for (std::string& file : files)
      if (options.filter.empty() || fnmatch(options.filter.c_str(), file.substr(file.rfind('/') + 1).c_str(), 0) == 0)
        self_checks.push_back(std::move(file));
    if (is_file) continue;
    auto found = FindCases(path, options.form);
    if (!found) return Fail(found.error());
    without_form += found->without_form;
    for (RecordedCase& c : found->cases)
      if (options.filter.empty() || fnmatch(options.filter.c_str(), c.name.c_str(), 0) == 0)
        cases.push_back(std::move(c));
  }
  if (cases.empty() && self_checks.empty()) {
    std::fprintf(stderr, "krafla: There is no recorded case under %s.\n", options.paths[0].c_str());
    return kUsage;
  }
  if (auto registered = RegisterTestCalls(); !registered) return Fail(registered.error());
  std::mutex mutex;
  std::atomic<std::size_t> next = 0;
  int64_t passed = 0, failed = 0, skipped = static_cast<int64_t>(0), placed = 0, exchanged = 0, instructions = 0,
          wholly = 0;
  std::optional<Status> device_error;
  std::string description;
  auto work = [&] {
    // A case that is not fed is an error soon, not after a minute.
    CompileOptions own_options = *compile_options;
    own_options.transfers = std::make_shared<HostTransfers>(std::chrono::seconds(5));
    auto group = DeviceGroup::Create(options.device.selector);
    if (!group) {
      std::lock_guard lock(mutex);
      device_error = group.error();
      return;
    }
    {
      std::lock_guard lock(mutex);
      description = (*group)->client(0).device().description;
    }
    while (true) {
      std::size_t n = next++;
      if (n >= cases.size() + self_checks.size()) return;
      std::vector<std::pair<RecordedCase, Outcome>> outcomes;
      if (n < cases.size()) {
        outcomes.emplace_back(cases[n], CheckCaseSafely(cases[n], **group, own_options, options.device));
      } else {
        const std::string& file = self_checks[n - cases.size()];
        using Named = std::vector<std::pair<std::string, Outcome>>;
        Result<Named> checked = WithoutExceptions([&]() -> Result<Named> {
          return RunSelfChecks(file, **group, own_options, options.device.ToGroupOptions());
        });
        if (!checked) checked = Named{{file, Error(checked.error())}};
        for (auto& [name, outcome] : *checked) {
          RecordedCase c;
          c.name = std::move(name);
          outcomes.emplace_back(std::move(c), std::move(outcome));
        }
      }
      // Under KRAFLA_VALIDATE a right answer got in a wrong way is a failure too.
      for (const std::string& message : (*group)->TakeValidationMessages()) {
        if (outcomes.empty()) break;
        Outcome& o = outcomes.back().second;
        o.kind = Outcome::Kind::kFailed;
        o.reason += Format("{}validation: {}", o.reason.empty() ? "" : "; ", message.substr(0, 400));
      }
      std::lock_guard lock(mutex);
      for (const auto& [c, o] : outcomes) {
        if (StderrIsTerminal())
          std::fprintf(stderr, "\r\x1b[K%zu/%zu %s", n + 1, cases.size() + self_checks.size(), c.name.c_str());
        if (StderrIsTerminal() && o.kind != Outcome::Kind::kPassed) std::fprintf(stderr, "\r\x1b[K");
        Print(c, o, (*group)->selector(), options.device.json);
        passed += o.kind == Outcome::Kind::kPassed;
        failed += o.kind == Outcome::Kind::kFailed || o.kind == Outcome::Kind::kError;
        skipped += o.kind == Outcome::Kind::kSkipped;
        placed += o.report.device_instructions;
        exchanged += o.report.exchange_instructions;
        instructions += o.report.instructions;
        wholly += o.kind == Outcome::Kind::kPassed && o.report.fallbacks.empty();
      }
    }
  };
  std::vector<std::thread> threads;
  for (int j = 1; j < options.jobs; ++j) {
    try {
      threads.emplace_back(work);
    } catch (const std::system_error&) {
      break;  // no more threads to be had: these do the rest
    }
  }
  work();
  for (std::thread& t : threads) t.join();
  if (StderrIsTerminal()) std::fprintf(stderr, "\r\x1b[K");
  if (device_error) return FailDevice(*device_error);
  if (exchanged > 0)
    std::fprintf(stderr, "krafla: %lld of the instructions are collectives and other exchanges between devices\n",
                 static_cast<long long>(exchanged));
  std::fprintf(stderr, "krafla: %lld/%lld instructions on %s; %lld of %lld passing cases ran fully on it\n",
               static_cast<long long>(placed), static_cast<long long>(instructions), description.c_str(),
               static_cast<long long>(wholly), static_cast<long long>(passed));
  if (without_form > 0)
    std::fprintf(stderr, "krafla: %lld cases have no form '%s'\n", static_cast<long long>(without_form),
                 options.form.c_str());
  std::fprintf(stderr, "krafla: peak %.0f MB\n", static_cast<double>(PeakBytes()) / 1e6);
  if (options.device.json)
    std::printf("{\"passed\":%lld,\"failed\":%lld,\"skipped\":%lld}\n", static_cast<long long>(passed),
                static_cast<long long>(failed), static_cast<long long>(skipped));
  else
    std::printf("%lld passed, %lld failed, %lld skipped\n", static_cast<long long>(passed),
                static_cast<long long>(failed), static_cast<long long>(skipped));
  return failed == 0 ? kRight : kCheckFailed;
}

}  // namespace krafla::cli
