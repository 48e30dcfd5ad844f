// SPDX-License-Identifier: Apache-2.0
// Runs a recorded case and compares what it gives with what is recorded.
#include "api/front_end.h"
#include "api/group/device_group.h"
#include "api/host/host_transfers.h"
#include "base/index.h"
#include "check_outcome.h"
#include "command.h"
#include "ir/sharding.h"
#include "recorded/corpus.h"

namespace krafla::cli {
namespace {

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

// Sets the arguments of one device of a group's program.
Result<> SetArguments(GroupExecutable& executable, int64_t device, std::span<const Literal> arguments) {
  std::vector<const Literal*> pointers;
  for (const Literal& a : arguments) pointers.push_back(&a);
  return executable.SetArguments(device, pointers);
}

// Runs a program and notes the time; `limit` holds for what is asked of it afterwards too.
template <typename Program>
Result<> TimedRun(Program& executable, const RunLimit& limit, Outcome& out) {
  executable.SetLimit(&limit);
  Stopwatch run;
  KRAFLA_TRY(executable.Execute());
  out.run_ms = run.Milliseconds();
  return {};
}

// Runs a group's program: set(d) gives device d its arguments, compare(d, results) judges what it gives.
template <typename Set, typename Compare>
Result<> RunOnDevices(GroupExecutable& executable, const DeviceOptions& device, Set set, Compare compare,
                      Outcome& out) {
  for (const int64_t d : executable.local_devices()) KRAFLA_TRY(set(d));
  const RunLimit limit = device.ToRunLimit();
  KRAFLA_TRY(TimedRun(executable, limit, out));
  out.kind = Outcome::Kind::kPassed;
  for (const int64_t d : executable.local_devices()) {
    KRAFLA_ASSIGN(const std::vector<Literal> results, executable.Results(d));
    KRAFLA_TRY(compare(d, results));
  }
  return {};
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
  const auto set = [&](int64_t d) -> Result<> {
    std::vector<Literal> own;
    KRAFLA_TRY(blocks(arrays->inputs[0], (*executable)->parameter_shardings(), d, own));
    return SetArguments(**executable, d, own);
  };
  const auto compare = [&](int64_t d, const std::vector<Literal>& results) -> Result<> {
    RecordedArrays own;
    own.tolerances = arrays->tolerances;
    own.outputs.emplace_back();
    KRAFLA_TRY(blocks(arrays->outputs[0], (*executable)->result_shardings(), d, own.outputs[0]));
    CompareResults(results, own, 0, Format(" of device {}", d), out);
    return {};
  };
  auto ran = RunOnDevices(**executable, device, set, compare, out);
  if (!ran) return Error(ran.error());
  return out;
}

// A case for several devices: those of the group, or as many virtual ones of its only device as are needed.
Outcome CheckGroupCase(const RecordedCase& c, DeviceGroup& group, const CompileOptions& options,
                       const DeviceOptions& device) {
  Outcome out;
  const int64_t devices = c.replicas * c.partitions;
  if (!group.CanHave(devices)) {
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
  const auto set = [&](int64_t d) { return SetArguments(**executable, d, arrays->inputs[At(d)]); };
  const auto compare = [&](int64_t d, const std::vector<Literal>& results) -> Result<> {
    CompareResults(results, *arrays, At(d), Format(" of device {}", d), out);
    return {};
  };
  auto ran = RunOnDevices(**executable, device, set, compare, out);
  if (!ran) return Error(ran.error());
  return out;
}

// May throw what the standard library throws.
Outcome CheckThrowing(const RecordedCase& c, DeviceGroup& group, const CompileOptions& options,
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
  if (auto done = TimedRun(**executable, limit, out); !done) return Error(done.error());
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

}  // namespace

Outcome CheckCase(const RecordedCase& c, DeviceGroup& group, const CompileOptions& options,
                  const DeviceOptions& device) {
  Result<Outcome> out =
      WithoutExceptions([&]() -> Result<Outcome> { return CheckThrowing(c, group, options, device); });
  return out ? std::move(*out) : Error(out.error());
}

}  // namespace krafla::cli
