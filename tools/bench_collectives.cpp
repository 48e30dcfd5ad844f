// SPDX-License-Identifier: Apache-2.0
// `krafla bench --collectives`, in the manner of nccl-tests: sizes and bandwidths mean what they mean there
// (github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md), and every answer is checked.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <span>

#include "api/front_end.h"
#include "command.h"
#include "hlo_io/read_module.h"
#include "prepare.h"
#include "results.h"

namespace krafla::cli {
namespace {

// n devices, and floats in `large`, the larger one of a device's two arrays. A row a collective.
struct CollectiveKind {
  std::string_view name;
  // The arrays hold large or large / n floats.
  bool small_operand, small_result;
  std::string_view text;  // {n}, {in}, {out} are put in
  // Bytes on the wire by the bytes that the time is for, of n devices.
  double (*bus)(double n);
  // What device d has at place i, of values Value(device, place).
  float (*want)(int64_t n, int64_t per, int64_t d, int64_t i);
};

// Small whole numbers, so that sums are exact in any order.
float Value(int64_t device, int64_t place) { return static_cast<float>((device * 7 + place % 8191 * 3) % 17); }

double OneBus(double) { return 1; }
double ShareBus(double n) { return (n - 1) / n; }
double ReduceBus(double n) { return 2 * (n - 1) / n; }
float SumAt(int64_t n, int64_t place) {
  float sum = 0;
  for (int64_t d = 0; d < n; ++d) sum += Value(d, place);
  return sum;
}

constexpr std::string_view kCopy = "copy";
constexpr CollectiveKind kKinds[] = {
    {kCopy, false, false, "copy(x)", OneBus, [](int64_t, int64_t, int64_t d, int64_t i) { return Value(d, i); }},
    {"all-reduce", false, false, "all-reduce(x), replica_groups={}, to_apply=sum", ReduceBus,
     [](int64_t n, int64_t, int64_t, int64_t i) { return SumAt(n, i); }},
    {"all-gather", true, false, "all-gather(x), replica_groups={}, dimensions={0}", ShareBus,
     [](int64_t, int64_t per, int64_t, int64_t i) { return Value(i / per, i % per); }},
    {"reduce-scatter", false, true, "reduce-scatter(x), replica_groups={}, dimensions={0}, to_apply=sum", ShareBus,
     [](int64_t n, int64_t per, int64_t d, int64_t i) { return SumAt(n, d * per + i); }},
    {"all-to-all", false, false, "all-to-all(x), replica_groups={}, dimensions={0}", ShareBus,
     [](int64_t, int64_t per, int64_t d, int64_t i) { return Value(i / per, d * per + i % per); }},
    {"collective-permute", false, false, "collective-permute(x), source_target_pairs={ring}", OneBus,
     [](int64_t n, int64_t, int64_t d, int64_t i) { return Value((d + n - 1) % n, i); }},
    {"collective-broadcast", false, false, "collective-broadcast(x), replica_groups={all}", OneBus,
     [](int64_t, int64_t, int64_t, int64_t i) { return Value(0, i); }},
};

std::string Replace(std::string text, std::string_view what, std::string_view with) {
  if (const std::size_t at = text.find(what); at != text.npos) text.replace(at, what.size(), with);
  return text;
}

std::string TextOf(const CollectiveKind& kind, int64_t n, int64_t per) {
  std::string ring = "{", all = "{{";
  for (int64_t d = 0; d < n; ++d) {
    ring += Format("{}{{{},{}}}", d == 0 ? "" : ",", d, (d + 1) % n);
    all += Format("{}{}", d == 0 ? "" : ",", d);
  }
  std::string op = Replace(std::string(kind.text), "{ring}", ring + "}");
  op = Replace(std::move(op), "{all}", all + "}}");
  return Format(
      "HloModule collective, replica_count={}\n"
      "sum {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }}\n"
      "ENTRY e {{ x = f32[{}] parameter(0) ROOT r = f32[{}] {} }}\n",
      n, kind.small_operand ? per : per * n, kind.small_result ? per : per * n, op);
}

// "8", "16K", "256M".
std::optional<int64_t> ParseBytes(std::string_view text) {
  int64_t factor = 1;
  if (text.ends_with('K')) factor = 1 << 10;
  if (text.ends_with('M')) factor = 1 << 20;
  if (text.ends_with('G')) factor = 1 << 30;
  if (factor > 1) text.remove_suffix(1);
  int64_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size() || out < 1 || out > (int64_t{1} << 34) / factor)
    return std::nullopt;
  return out * factor;
}

// "8:256M": each the fourfold of the one before, and the last; or one size.
Result<std::vector<int64_t>> ParseSizes(std::string_view text) {
  const std::size_t colon = text.find(':');
  const auto first = ParseBytes(text.substr(0, colon));
  const auto last = colon == text.npos ? first : ParseBytes(text.substr(colon + 1));
  if (!first || !last || *first > *last)
    return InvalidArgument("The option --sizes takes a size or a range of sizes, such as 64M or 8:256M, not '{}'.",
                           text);
  std::vector<int64_t> out;
  for (int64_t s = *first; s < *last; s *= 4) out.push_back(s);
  out.push_back(*last);
  return out;
}

struct CollectiveTiming {
  int64_t bytes = 0, wrong = 0;
  int64_t host_bytes = 0;  // a run
  double median_ms = 0, min_ms = 0;
  std::string path;
};

Result<CollectiveTiming> TimeCollective(const CollectiveKind& kind, int64_t bytes, DeviceGroup& group,
                                        const CompileOptions& compile_options, const BenchOptions& options) {
  const int64_t n = group.size();
  const int64_t per = std::max<int64_t>(1, bytes / 4 / n);
  CollectiveTiming out;
  out.bytes = per * n * 4;
  KRAFLA_ASSIGN(auto module, ReadModule(TextOf(kind, n, per), std::string(kind.name)));
  KRAFLA_ASSIGN(auto executable, group.Compile(std::move(module), compile_options, options.device.ToGroupOptions()));
  for (const int64_t d : executable->local_devices()) {
    KRAFLA_ASSIGN(Literal argument, Literal::CreateUninitialized(executable->arguments()[0]));
    const std::span<float> values = argument.data<float>();
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = Value(d, static_cast<int64_t>(i));
    const Literal* arguments[] = {&argument};
    KRAFLA_TRY(executable->SetArguments(d, arguments));
  }
  const auto run = [&]() -> Result<> {
    const RunLimit limit = options.device.ToRunLimit();
    executable->SetLimit(&limit);
    Result<> done = executable->Execute();
    executable->SetLimit(&kUnlimited);
    return done;
  };
  const int64_t before = executable->exchange_host_bytes();
  KRAFLA_TRY(run());
  out.host_bytes = executable->exchange_host_bytes() - before;
  out.path = executable->path();
  // Processes run equally often.
  Stopwatch second;
  KRAFLA_TRY(run());
  const double fit = options.min_time * 1000 / std::max(1e-3, second.Milliseconds());
  KRAFLA_ASSIGN(const int64_t iterations,
                AsRankZero(group, options.iterations > 0 ? options.iterations
                                                         : std::clamp<int64_t>(static_cast<int64_t>(fit), 3, 100000)));
  std::vector<double> times;
  Stopwatch total;
  const bool is_alone = group.world() == nullptr && options.iterations <= 0;
  while (is_alone ? times.size() < 3 || (total.Milliseconds() < options.min_time * 1000 && times.size() < 100000)
                  : std::ssize(times) < iterations) {
    Stopwatch one;
    KRAFLA_TRY(run());
    times.push_back(one.Milliseconds());
  }
  std::sort(times.begin(), times.end());
  out.min_ms = times.front();
  out.median_ms = times[times.size() / 2];
  for (const int64_t d : executable->local_devices()) {
    KRAFLA_ASSIGN(std::vector<Literal> results, executable->Results(d));
    const std::span<const float> values = std::as_const(results[0]).data<float>();
    for (std::size_t i = 0; i < values.size(); ++i)
      out.wrong += values[i] == kind.want(n, per, d, static_cast<int64_t>(i)) ? 0 : 1;
  }
  return out;
}

Result<std::vector<const CollectiveKind*>> ParseOps(const std::vector<std::string>& names) {
  std::vector<const CollectiveKind*> out;
  for (const CollectiveKind& kind : kKinds)
    if (kind.name == kCopy || names.empty() || std::ranges::contains(names, kind.name)) out.push_back(&kind);
  for (const std::string& name : names) {
    if (std::ranges::contains(kKinds, name, &CollectiveKind::name)) continue;
    std::string known;
    for (const CollectiveKind& kind : kKinds) known += Format("{}{}", known.empty() ? "" : ", ", kind.name);
    return InvalidArgument("The option --ops '{}' is none of {}.", name, known);
  }
  return out;
}

}  // namespace

int BenchCollectives(const BenchOptions& options) {
  auto compile_options = options.device.ToCompileOptions();
  if (!compile_options) return Fail(compile_options.error()), kUsage;
  const auto sizes = ParseSizes(options.sizes);
  if (!sizes) return Fail(sizes.error()), kUsage;
  const auto kinds = ParseOps(options.ops);
  if (!kinds) return Fail(kinds.error()), kUsage;
  auto group = OpenGroup(options.device);
  if (!group) return FailDevice(group.error());
  const int64_t n = (*group)->size();
  if (n < 2) {
    std::fprintf(stderr, "krafla: Collectives need several devices, such as -d 'cpu*4' or -d 'vulkan:0*4'.\n");
    return kUsage;
  }
  const bool speaks = IsSpeaker(**group);
  if (!options.device.json && speaks)
    std::printf("%-20s %12s %11s %11s %10s %10s %7s %6s  %s\n", "collective", "bytes", "median us", "min us",
                "alg GB/s", "bus GB/s", "of copy", "wrong", "path");
  int code = kRight;
  for (const int64_t size : *sizes) {
    double copy_ms = 0;  // of the same bytes on each device, in this run
    for (const CollectiveKind* kind : *kinds) {
      const auto timing = TimeCollective(*kind, size, **group, *compile_options, options);
      if (!timing) {
        code = Fail(timing.error());
        continue;
      }
      if (timing->wrong > 0) code = kCheckFailed;
      if (kind->name == kCopy) copy_ms = timing->median_ms;
      const double rate = static_cast<double>(timing->bytes) / (timing->median_ms * 1e6);  // GB/s
      const double bus = rate * kind->bus(static_cast<double>(n));
      const double of_copy = copy_ms / timing->median_ms;
      if (!speaks) continue;
      if (options.device.json) {
        PrintJsonLine({{"collective", kind->name},
                       {"device", (*group)->selector()},
                       {"devices", n},
                       {"bytes", timing->bytes},
                       {"median_us", timing->median_ms * 1000},
                       {"min_us", timing->min_ms * 1000},
                       {"algorithm_gb_s", rate},
                       {"bus_gb_s", bus},
                       {"of_copy", of_copy},
                       {"wrong", timing->wrong},
                       {"path", timing->path},
                       {"host_bytes", timing->host_bytes}});
      } else {
        std::printf("%-20s %12lld %11.1f %11.1f %10.3f %10.3f %6.0f%% %6lld  %s\n", std::string(kind->name).c_str(),
                    static_cast<long long>(timing->bytes), timing->median_ms * 1000, timing->min_ms * 1000, rate, bus,
                    100 * of_copy, static_cast<long long>(timing->wrong), timing->path.c_str());
      }
      std::fflush(stdout);
    }
  }
  return code;
}

}  // namespace krafla::cli
