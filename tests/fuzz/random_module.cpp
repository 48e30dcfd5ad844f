// SPDX-License-Identifier: Apache-2.0
// Random modules on every back end against the evaluator, bit for bit.
//
//   random_module [--seed N] [--count N] [--seconds S] [--budget-factor F] [-d DEVICE]... [--out FOLDER]
//   random_module --replay PATH... [-d DEVICE]...
//   random_module --write FOLDER [--seed N] [--count N]
//
// The first form makes modules from seeds and shrinks what fails into FOLDER/NAME.hlo (with NAME.npz, where only those
// arguments show it). A worker process runs them, so that a crash is a finding like any other. The second form runs
// such files again: an .npz beside one gives its arguments, else a few made ones do. The third writes modules as HLO
// text, proto and arguments, SEED.hlo, SEED.pb and SEED.npz, for other programs to run (stablehlo_forms.py).
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <utility>

#include "differential.h"
#include "hlo_io/hlo_proto/hlo_proto.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "ir/verifier.h"
#include "random_graph.h"
#include "recorded/npz.h"
#include "shrink.h"

namespace krafla::fuzz {
namespace {

namespace fs = std::filesystem;

struct Options {
  uint64_t seed = 1;
  int64_t count = 100;
  double seconds = 1e9, shrink_seconds = 60;
  std::vector<std::string> devices, replay;
  std::string out, write;
  bool worker = false;
  int64_t limit = 1 << 30;  // failures after which to stop
  double budget_factor = 1;
};

constexpr int kArgumentSets = 3;

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

Result<> Save(const std::string& stem, const Failing& failing, bool with_arguments, const std::string& note) {
  std::ofstream(stem + ".hlo") << "// " << note << "\n" << PrintModule(*failing.module);
  if (!with_arguments) return {};
  std::vector<NamedLiteral> named;
  for (std::size_t i = 0; i < failing.arguments.size(); ++i)
    named.push_back({Format("arg{:04}", i), failing.arguments[i]});
  return WriteNpz(stem + ".npz", named);
}

Result<std::unique_ptr<Module>> Load(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(in)), {});
  KRAFLA_ASSIGN(std::unique_ptr<Module> module, ParseHloText(text, path.filename().string()));
  KRAFLA_TRY(Verify(*module));
  return module;
}

Result<std::vector<std::vector<Literal>>> ArgumentSets(const Module& module, fs::path path) {
  std::vector<std::vector<Literal>> out;
  path.replace_extension(".npz");
  if (!fs::exists(path)) {
    for (int i = 0; i < kArgumentSets; ++i) out.push_back(MakeArguments(module, static_cast<uint64_t>(i)));
    return out;
  }
  KRAFLA_ASSIGN(std::vector<NamedLiteral> arrays, ReadNpz(path.string()));
  std::vector<const Shape*> shapes;
  for (const Instruction* p : module.entry()->parameters())
    for (const Shape* leaf : TupleLeaves(p->shape())) shapes.push_back(leaf);
  if (shapes.size() != arrays.size())
    return InvalidArgument("The .npz has {} arrays, the module takes {}.", arrays.size(), shapes.size());
  out.emplace_back();
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    KRAFLA_ASSIGN(Literal value, AdoptShape(std::move(arrays[i].literal), *shapes[i]));
    out[0].push_back(std::move(value));
  }
  return out;
}

int Replay(const Options& options) {
  Differential differential(options.devices, options.budget_factor);
  for (const std::string& line : differential.absent) std::printf("left out: %s\n", line.c_str());
  std::vector<fs::path> files;
  for (const std::string& path : options.replay) {
    if (!fs::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    for (const auto& entry : fs::recursive_directory_iterator(path))
      if (entry.path().extension() == ".hlo") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  int passed = 0, failed = 0, refused = 0;
  for (const fs::path& file : files) {
    auto module = Load(file);
    auto sets = module ? ArgumentSets(**module, file) : Failure(module.error());
    Outcome worst;
    if (!sets) worst = {Verdict::kError, "", sets.error().ToString()};
    else
      for (const auto& arguments : *sets) {
        Outcome outcome = differential.Check(**module, arguments);
        if (outcome.verdict > worst.verdict) worst = outcome;
      }
    bool bad = worst.verdict >= Verdict::kDisagree;
    (bad ? failed : worst.verdict == Verdict::kAgree ? passed : refused)++;
    if (worst.verdict != Verdict::kAgree)
      std::printf("%s %s: %s: %s\n", bad ? "FAILED" : "refused", file.filename().c_str(), worst.backend.c_str(),
                  worst.what.c_str());
  }
  std::printf("%d agree, %d failed, %d refused or denormal, on %zu back ends\n", passed, failed, refused,
              differential.backend_count());
  if (files.empty() || differential.backend_count() == 0) std::printf("nothing was run\n");
  return failed == 0 && !files.empty() && differential.backend_count() > 0 ? 0 : 1;
}

// Whether the made arguments show the failure too, so that none need be kept.
bool MadeArgumentsFail(const Failing& failing,
                       const std::function<bool(const Module&, const std::vector<Literal>&)>& fails) {
  for (int i = 0; i < kArgumentSets; ++i)
    if (fails(*failing.module, MakeArguments(*failing.module, static_cast<uint64_t>(i)))) return true;
  return false;
}

void Report(const Options& options, uint64_t seed, const std::string& kind, const Outcome& outcome, Failing failing,
            const std::function<bool(const Module&, const std::vector<Literal>&)>& fails) {
  std::printf("seed %llu: %s: %s: %s\n", static_cast<unsigned long long>(seed), kind.c_str(), outcome.backend.c_str(),
              outcome.what.c_str());
  std::fflush(stdout);
  if (options.out.empty()) return;
  std::size_t before = failing.module->entry()->instructions().size();
  failing = Shrink(std::move(failing), fails, options.shrink_seconds);
  std::string stem = options.out + "/" + kind + "_" + std::to_string(seed);
  auto saved = Save(stem, failing, !MadeArgumentsFail(failing, fails),
                    outcome.backend + ": " + outcome.what.substr(0, outcome.what.find('\n')));
  std::printf("  %zu instructions, shrunk to %zu: %s.hlo%s\n", before, failing.module->entry()->instructions().size(),
              stem.c_str(), saved ? "" : saved.error().message().c_str());
  std::fflush(stdout);
}

int Write(const Options& options) {
  fs::create_directories(options.write);
  for (int64_t i = 0; i < options.count; ++i) {
    const uint64_t seed = options.seed + static_cast<uint64_t>(i);
    auto module = MakeRandomModule(seed, {.devices = false});
    if (!Verify(*module) || !VerifyDevices(*module)) continue;
    const std::string stem = options.write + "/" + std::to_string(seed);
    auto proto = SerializeHloProto(*module, /*unique_names=*/true);
    if (!proto) continue;
    std::ofstream(stem + ".pb", std::ios::binary) << *proto;
    Failing all{std::move(module), {}};
    all.arguments = MakeArguments(*all.module, seed);
    if (auto saved = Save(stem, all, true, "seed " + std::to_string(seed)); !saved)
      return std::fprintf(stderr, "%s\n", saved.error().ToString().c_str()), 1;
  }
  return 0;
}

int Worker(const Options& options) {
  Differential differential(options.devices, options.budget_factor);
  for (const std::string& line : differential.absent) std::printf("left out: %s\n", line.c_str());
  if (differential.backend_count() == 0) return 1;
  int64_t tally[kVerdicts] = {};
  double end = Now() + options.seconds;
  int failures = 0;
  for (int64_t i = 0; i < options.count && Now() < end; ++i) {
    uint64_t seed = options.seed + static_cast<uint64_t>(i);
    if (!options.out.empty()) std::ofstream(options.out + "/.seed") << seed;
    auto module = MakeRandomModule(seed);
    Outcome outcome;
    if (auto verified = Verify(*module); !verified) {
      outcome = {Verdict::kError, "generator", verified.error().ToString()};
      ++tally[static_cast<int>(Verdict::kError)];
      std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), outcome.what.c_str());
      ++failures;
      continue;
    }
    auto arguments = MakeArguments(*module, seed);
    outcome = differential.Check(*module, arguments);
    ++tally[static_cast<int>(outcome.verdict)];
    if (outcome.verdict == Verdict::kRefused)
      std::printf("seed %llu: refused: %s: %s\n", static_cast<unsigned long long>(seed), outcome.backend.c_str(),
                  outcome.what.substr(0, 200).c_str());
    if (outcome.verdict < Verdict::kDisagree) continue;
    auto fails = [&](const Module& m, const std::vector<Literal>& a) {
      Outcome o = differential.Check(m, a);
      return o.verdict == outcome.verdict && o.backend == outcome.backend;
    };
    Report(options, seed,
           outcome.verdict == Verdict::kError    ? "error"
           : outcome.verdict == Verdict::kCostly ? "costly"
                                                 : "wrong",
           outcome, {std::move(module), arguments}, fails);
    if (++failures >= options.limit) break;
  }
  static constexpr const char* kNames[kVerdicts] = {"agree",    "refused", "differ after denormals",
                                                    "disagree", "costly",  "errors"};
  for (int v = 0; v < kVerdicts; ++v)
    std::printf("%s%lld %s", v == 0 ? "" : ", ", static_cast<long long>(tally[v]), kNames[v]);
  std::printf("\n");
  return failures == 0 ? 0 : 1;
}

// Runs this program with other arguments: its exit code, or minus the signal that ended it.
int RunSelf(const std::vector<std::string>& arguments, bool quiet) {
  std::fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    if (quiet && std::freopen("/dev/null", "w", stdout) == nullptr) _exit(99);
    if (quiet && std::freopen("/dev/null", "w", stderr) == nullptr) _exit(99);
    std::vector<char*> argv;
    std::string self = "/proc/self/exe";
    argv.push_back(self.data());
    std::vector<std::string> copy = arguments;
    for (std::string& a : copy) argv.push_back(a.data());
    argv.push_back(nullptr);
    execv("/proc/self/exe", argv.data());
    _exit(99);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) < 0) return 99;
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

int Supervise(Options options) {
  fs::create_directories(options.out);
  std::vector<std::string> devices;
  for (const std::string& d : options.devices) devices.insert(devices.end(), {"-d", d});
  devices.insert(devices.end(), {"--budget-factor", std::to_string(options.budget_factor)});
  double end = Now() + options.seconds;
  uint64_t first = options.seed, last = options.seed + static_cast<uint64_t>(options.count);
  int code = 0;
  while (first < last && Now() < end) {
    std::vector<std::string> arguments = {"--worker",
                                          "--seed",
                                          std::to_string(first),
                                          "--count",
                                          std::to_string(last - first),
                                          "--seconds",
                                          std::to_string(end - Now()),
                                          "--out",
                                          options.out};
    arguments.insert(arguments.end(), devices.begin(), devices.end());
    int result = RunSelf(arguments, false);
    if (result >= 0) return result == 0 ? code : 1;
    code = 1;
    uint64_t seed = first;
    std::ifstream(options.out + "/.seed") >> seed;
    first = seed + 1;
    auto module = MakeRandomModule(seed);
    if (!Verify(*module)) continue;
    std::string trial = options.out + "/.trial";
    auto crashes = [&](const Module& m, const std::vector<Literal>& a) {
      Failing candidate{m.Clone(), a};
      if (!Save(trial, candidate, true, "a trial")) return false;
      std::vector<std::string> replay = {"--replay", trial + ".hlo"};
      replay.insert(replay.end(), devices.begin(), devices.end());
      return RunSelf(replay, true) == result;
    };
    auto values = MakeArguments(*module, seed);
    Report(options, seed, "crash", {Verdict::kError, "signal " + std::to_string(-result), strsignal(-result)},
           {std::move(module), values}, crashes);
  }
  fs::remove(options.out + "/.seed");
  return code;
}

int Main(int argc, char** argv) {
  Options options;
  std::string* single = nullptr;
  for (int i = 1; i < argc; ++i) {
    std::string flag = argv[i];
    auto value = [&]() -> std::string { return i + 1 < argc ? argv[++i] : ""; };
    if (flag == "--seed") options.seed = std::strtoull(value().c_str(), nullptr, 10);
    else if (flag == "--count") options.count = std::strtoll(value().c_str(), nullptr, 10);
    else if (flag == "--seconds") options.seconds = std::strtod(value().c_str(), nullptr);
    else if (flag == "--shrink-seconds") options.shrink_seconds = std::strtod(value().c_str(), nullptr);
    else if (flag == "--limit") options.limit = std::strtoll(value().c_str(), nullptr, 10);
    else if (flag == "--budget-factor") options.budget_factor = std::strtod(value().c_str(), nullptr);
    else if (flag == "-d") options.devices.push_back(value());
    else if (flag == "--out") options.out = value();
    else if (flag == "--write") options.write = value();
    else if (flag == "--worker") options.worker = true;
    else if (flag == "--print") return std::printf("%s", PrintModule(*MakeRandomModule(options.seed)).c_str()), 0;
    else if (flag == "--replay") single = &options.replay.emplace_back(value());
    else if (single != nullptr && flag[0] != '-') options.replay.push_back(flag);
    else return std::fprintf(stderr, "random_module: unknown argument '%s'\n", flag.c_str()), 2;
  }
  if (options.devices.empty()) options.devices = {"cpu", "vulkan"};
  if (!options.write.empty()) return Write(options);
  if (!options.replay.empty()) return Replay(options);
  return options.worker || options.out.empty() ? Worker(options) : Supervise(options);
}

}  // namespace
}  // namespace krafla::fuzz

int main(int argc, char** argv) { return krafla::fuzz::Main(argc, argv); }
