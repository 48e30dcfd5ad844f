// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>

#include "base/near_words.h"
#include "bundle.h"
#include "command.h"
#include "compare.h"
#include "explain.h"

using namespace krafla::cli;  // NOLINT

namespace {

bool IsCommand(const CLI::App& app, std::string_view word) {
  return std::ranges::any_of(app.get_subcommands({}),
                             [&](const CLI::App* command) { return command->get_name() == word; });
}

// A first word that is not a command.
int UnknownCommand(const CLI::App& app, std::string_view word) {
  std::string nearest;
  std::size_t best = 3;
  for (const CLI::App* command : app.get_subcommands({}))
    if (const std::size_t distance = krafla::WordDistance(word, command->get_name()); distance < best) {
      best = distance;
      nearest = command->get_name();
    }
  std::fprintf(stderr, "krafla: There is no command '%s'%s See krafla --help.\n", std::string(word).c_str(),
               nearest.empty() ? "." : krafla::Format("; did you mean {}?", nearest).c_str());
  return kUsage;
}

// Results that could not be written were not given.
int FlushResults(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  std::fprintf(stderr, "krafla: Standard output cannot be written: %s.\n", std::strerror(errno));
  return code == kRight ? kBadInput : code;
}

constexpr const char* kModule =
    "HLO text, HloModuleProto, StableHLO text or bytecode; a model folder; - for standard input";
constexpr const char* kReplicas = "the number of replicas, in place of the module's";
constexpr const char* kTune = "first-run: time settings of the module's kernels first, those that were not yet";
constexpr const char* kPartitions = "the number of partitions, in place of the module's";

// The commands with their options. What a command returned is `code`.
struct Commands {
  int code = kRight;
  DeviceOptions devices, ops, demo;
  RunOptions run;
  CheckOptions check;
  BenchOptions bench;
  ProfileOptions profile;
  OptOptions opt;
  TuneCommandOptions tune;
  DoctorOptions doctor;
  BundleOptions bundle;
  ExplainCommand explain;
  CompareCommand compare;
  bool markdown = false, probe = false;

  void AddTo(CLI::App& app) {
    CLI::App* cmd = app.add_subcommand("devices", "list the devices");
    cmd->add_flag("--json", devices.json, "print one JSON object per line");
    cmd->add_flag("--probe", probe, "run small shaders on each Vulkan device, and say what its driver makes of them");
    cmd->callback([this] { code = probe ? Probe(devices.json) : Devices(devices); });
    cmd = app.add_subcommand("doctor", "say all that a bug report needs of this machine, and try its devices");
    cmd->add_flag("--json", doctor.json, "print one JSON object per line");
    bundle.AddTo(*cmd);
    cmd->callback([this] {
      if (bundle.AreIdle()) throw CLI::ValidationError("krafla doctor looks at every device; options are for --bundle");
      code = bundle.file.empty() ? Examine(doctor) : WriteBundle(bundle);
    });
    AddRun(app);
    AddCheck(app);
    AddBench(app);
    AddProfile(app);
    explain.AddTo(app, code);
    compare.AddTo(app, code);
    AddTune(app);
    AddOpt(app);
    cmd = app.add_subcommand("ops", "list every operation, its types and where it runs on this device");
    cmd->add_flag("--md", markdown, "as Markdown (docs/ops.md)");
    ops.AddTo(*cmd, {.runs = false});
    cmd->callback([this] { code = Ops(ops, markdown); });
    cmd = app.add_subcommand("demo", "run a small network on pictures of digits and check its answers");
    demo.AddTo(*cmd, {.json = false, .runs = false});
    cmd->callback([this] { code = Demo(demo); });
  }

 private:
  void AddRun(CLI::App& app) {
    CLI::App* cmd = app.add_subcommand("run", "run a module and print its results");
    cmd->add_option("module", run.module, kModule)->required();
    CLI::Option* inputs = cmd->add_option(
        "--inputs", run.inputs, "arguments, from an .npz (in its order); {} stands for the number of a device");
    CLI::Option* input = cmd->add_option("--input", run.literals, "one argument: 'f32[2,2]=1 2 3 4' (repeatable)");
    CLI::Option* random = cmd->add_flag("--random", run.random, "random arguments");
    inputs->excludes(input)->excludes(random);
    input->excludes(random);
    cmd->add_option("--seed", run.seed, "the seed for --random")->needs(random);
    cmd->add_option("--save", run.save, "write the results to an .npz; {} stands for the number of a device");
    cmd->add_option("--replicas", run.replicas, kReplicas)->check(CLI::Range(1, 1024));
    cmd->add_option("--partitions", run.partitions, kPartitions)->check(CLI::Range(1, 1024));
    cmd->add_option("--tune", run.tune, kTune)->check(CLI::IsMember({"first-run"}));
    run.device.AddTo(*cmd);
    cmd->callback([this] { code = Run(run); });
  }

  void AddCheck(CLI::App& app) {
    CLI::App* cmd = app.add_subcommand("check", "compare results with recorded ones");
    cmd->add_option("path", check.paths,
                    "model folders, corpus folders, StableHLO files that check themselves, or folders of any of these")
        ->required();
    cmd->add_option("--filter", check.filter, "only cases whose name matches this glob");
    cmd->add_option("--form", check.form, "which form of a module to read: hlo, pb, mlir, mlirbc");
    cmd->add_option("--jobs", check.jobs, "the number of cases to run at once")->check(CLI::Range(1, 256));
    check.device.AddTo(*cmd);
    cmd->callback([this] { code = Check(check); });
  }

  void AddBench(CLI::App& app) {
    CLI::App* cmd = app.add_subcommand("bench", "time modules");
    cmd->add_option("path", bench.paths, "model folders, or module files (run on random arguments)")->required();
    cmd->add_option("--iters", bench.iterations, "the number of timed runs; 0: as many as --min-time allows")
        ->check(CLI::Range(0, 1'000'000'000));
    cmd->add_option("--min-time", bench.min_time, "the time for the timed runs, in seconds")
        ->check(CLI::Range(0.0, 1e6));
    cmd->add_option("--every", bench.every_ms, "milliseconds between the starts of two runs, as in an application")
        ->check(CLI::Range(0.0, 60e3));
    cmd->add_option("--tune", bench.tune, kTune)->check(CLI::IsMember({"first-run"}));
    bench.device.AddTo(*cmd);
    cmd->callback([this] { code = Bench(bench); });
  }

  void AddProfile(CLI::App& app) {
    CLI::App* cmd = app.add_subcommand("profile", "say what the time of a run goes into");
    cmd->add_option("module", profile.module, "a model folder, or a module file (run on random arguments)")->required();
    cmd->add_option("--by", profile.by,
                    "what is one line: kernel, instruction (of HLO), op (of the framework), source (file and line), "
                    "family (of kernels, with the variant)")
        ->check(CLI::IsMember({"kernel", "instruction", "op", "source", "family"}));
    cmd->add_option("--runs", profile.runs, "the number of runs to take the median of")->check(CLI::Range(1, 100'000));
    cmd->add_option("--top", profile.top, "the number of lines; 0: all")->check(CLI::Range(0, 1'000'000));
    cmd->add_flag("-v,--verbose", profile.verbose,
                  "say for each line the grid, why this variant, and where it is from");
    cmd->add_flag("!--no-roof", profile.roof, "do not measure what the device can reach");
    cmd->add_option("--roof", profile.known_roof, "what it can reach, as measured before: operations, bytes a second")
        ->expected(2)
        ->check(CLI::Range(1.0, 1e18));
    cmd->add_option("--trace", profile.trace, "write the run to this file for Perfetto or chrome://tracing");
    cmd->add_option("--html", profile.html, "write a page with table, run and roofline to this file");
    profile.device.AddTo(*cmd);
    cmd->callback([this] { code = ProfileModule(profile); });
  }

  void AddTune(CLI::App& app) {
    CLI::App* cmd = app.add_subcommand("tune", "time settings of kernels on the device, and keep the fastest");
    cmd->add_option("path", tune.paths, "modules or model folders; with --all folders of model folders");
    cmd->add_flag("--all", tune.all, "every model under the folders");
    cmd->add_option("--budget", tune.budget, "seconds after which nothing new is timed, of all modules")
        ->check(CLI::Range(0.0, 1e6));
    cmd->add_flag("--allow-other-sums", tune.allow_other_sums,
                  "also take what adds in another order: the last bits of sums change");
    cmd->add_flag("--again", tune.again, "also time kernels that were tuned before");
    cmd->add_flag("--list", tune.list, "print what is stored for the device");
    cmd->add_flag("--clear", tune.clear, "forget what is stored for the device");
    cmd->add_option("--export", tune.export_file, "write what is stored to this file, as JSON");
    cmd->add_option("--import", tune.import_file, "store what this file has of the same device and driver");
    tune.device.AddTo(*cmd, {.runs = false});
    cmd->callback([this] { code = Tune(tune); });
  }

  void AddOpt(CLI::App& app) {
    CLI::App* cmd = app.add_subcommand("opt", "show a module at a stage of the compiler");
    cmd->add_option("module", opt.module, kModule);
    cmd->add_option("--passes", opt.passes, "run these passes, in this order, instead of the pipeline");
    cmd->add_flag("--list-passes", opt.list_passes, "list the passes");
    cmd->add_option("--stage", opt.stage, "parsed, optimized, plan or spirv")
        ->check(CLI::IsMember({"parsed", "optimized", "plan", "spirv"}));
    cmd->add_option("-o", opt.output, "write to this file (spirv: this folder) instead of standard output");
    cmd->add_option("--emit", opt.emit, "hlo or proto")->check(CLI::IsMember({"hlo", "proto"}));
    CLI::Option* device = cmd->add_option(
        "-d,--device", opt.selector,
        "the Vulkan device to emit SPIR-V for (default: KRAFLA_DEVICE where it names one, else the best)");
    cmd->add_option("--profile", opt.profile,
                    "a file with a device's profile, as devices --json prints it, for a device that is not here")
        ->excludes(device);
    cmd->add_option("--disable", opt.disabled, "features or passes to leave out")->delimiter(',');
    cmd->add_option("--replicas", opt.replicas, kReplicas)->check(CLI::Range(1, 1024));
    cmd->add_option("--partitions", opt.partitions, kPartitions)->check(CLI::Range(1, 1024));
    cmd->callback([this] { code = Opt(opt); });
  }
};

int RunCommand(int argc, char** argv) {
  CLI::App app{"krafla compiles HLO to SPIR-V and runs it on any Vulkan GPU, or on the CPU."};
  app.set_version_flag("--version", std::string("krafla ") + KRAFLA_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 success, 1 a check failed, 2 usage, 3 unsupported or invalid input, or a file that cannot be "
      "read or written, 4 device or driver, or a time limit, 5 out of memory.\n"
      "Environment: KRAFLA_DEVICE (as -d), KRAFLA_VALIDATE (1: run under the Vulkan validation layers; gpu: also check "
      "what shaders read and write), KRAFLA_CACHE_DIR (where compiled pipelines are kept), KRAFLA_THREADS (of the "
      "CPU back end), KRAFLA_JIT (0: the CPU back end makes no native code; always: however small the work is).");
  Commands commands;
  commands.AddTo(app);
  // "krafla help run" is "krafla run --help".
  std::vector<const char*> words(argv, argv + argc);
  if (argc > 1 && std::string_view(argv[1]) == "help") {
    words.erase(words.begin() + 1);
    words.push_back("--help");
  } else if (argc > 1 && argv[1][0] != '-' && !IsCommand(app, argv[1])) {
    return UnknownCommand(app, argv[1]);
  }
  try {
    app.parse(static_cast<int>(words.size()), words.data());
  } catch (const CLI::Success& e) { return app.exit(e); } catch (const CLI::ParseError& e) {
    app.exit(e);
    return kUsage;
  }
  return commands.code;
}

}  // namespace

int main(int argc, char** argv) {
  int code = kBadInput;
  try {
    code = RunCommand(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "krafla: The host is out of memory.\n");
    code = kNoMemory;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "krafla: %s\n  This is a bug in krafla; please report it with the module.\n", e.what());
  }
  return FlushResults(code);
}
