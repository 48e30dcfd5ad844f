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
#include "compile.h"
#include "environment.h"
#include "explain.h"
#include "import.h"
#include "inspect.h"
#include "krafla/hooks.h"
#include "module_kinds.h"
#include "number_between.h"
#include "recorded/corpus.h"
#include "shell.h"

extern "C" [[gnu::visibility("default")]] int KraflaCommand(int argc, char** argv);

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
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  // Of a write that failed earlier nothing is known any more.
  std::fprintf(stderr, "krafla: Standard output cannot be written: %s.\n",
               errno != 0 ? std::strerror(errno) : "it is full or closed");
  return code == kRight ? kBadInput : code;
}

constexpr const char* kTune = "first-run: time settings of the module's kernels first, those that were not yet";

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
  InspectCommand inspect;
  EnvironmentOptions environment;
  ImportCommand import;
  CompileCommand compile;
  bool markdown = false, probe = false, links = false;
  std::string shell;

  void AddTo(CLI::App& app) {
    CLI::App* cmd = app.add_subcommand("devices", "list the devices");
    cmd->add_flag("--json", devices.json, "print one JSON object per line");
    cmd->add_flag("--probe", probe, "run small shaders on each Vulkan device, and say what its driver makes of them");
    cmd->add_flag("--links", links, "try the paths that collectives take from device to device, and say why not one")
        ->excludes("--probe");
    cmd->callback([this] { code = probe ? Probe(devices.json) : links ? Links(devices) : Devices(devices); });
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
    inspect.AddTo(app, code);
    explain.AddTo(app, code);
    compare.AddTo(app, code);
    import.AddTo(app, code);
    compile.AddTo(app, code);
    AddTune(app);
    AddOpt(app);
    cmd = app.add_subcommand("ops", "list every operation, its types and where it runs on this device");
    CLI::Option* md = cmd->add_flag("--md", markdown, "as Markdown (docs/ops.md)");
    ops.AddTo(*cmd, {.runs = false});
    md->excludes("--json");
    cmd->callback([this] { code = Ops(ops, markdown); });
    cmd = app.add_subcommand("demo", "run a small network on pictures of digits and check its answers");
    demo.AddTo(*cmd, {.json = false, .runs = false});
    cmd->callback([this] { code = Demo(demo); });
    AddAbout(app);
    for (CLI::App* command : app.get_subcommands({}))
      command->add_flag("-q,--quiet", IsQuiet(), "print no remarks and no progress, only results, warnings and errors");
  }

 private:
  // What tells people and shells about the command itself.
  void AddAbout(CLI::App& app) {
    CLI::App* cmd = app.add_subcommand("environment", "list the environment variables that krafla reads");
    CLI::Option* md = cmd->add_flag("--md", environment.markdown, "as Markdown (docs/environment.md)");
    cmd->add_flag("--json", environment.json, "print one JSON object per line")->excludes(md);
    cmd->callback([this] { code = PrintEnvironment(environment); });
    cmd = app.add_subcommand("completion", "print a script that completes krafla's commands and options in a shell");
    cmd->add_option("shell", shell, "bash, zsh or fish")
        ->required()
        ->check(CLI::IsMember(std::vector<std::string>(std::begin(kShells), std::end(kShells))));
    cmd->callback([this, &app] { std::fputs(CompletionFor(shell, app).c_str(), stdout); });
    cmd = app.add_subcommand("man", "print the manual page krafla(1)");
    cmd->callback([&app] { std::fputs(ManPage(app).c_str(), stdout); });
  }

  void AddRun(CLI::App& app) {
    CLI::App* cmd = app.add_subcommand("run", "run a module and print its results");
    cmd->add_option("module", run.module, kModuleHelp)->required();
    ArgumentOptions& given = run.arguments;
    CLI::Option* inputs =
        cmd->add_option(
               "--inputs", given.archive,
               "all arguments, from an .npz or a .safetensors: by the parameters' names, or else in its order; "
               "named ones may leave some for --input; {} stands for the number of a device")
            ->type_name("FILE");
    CLI::Option* input =
        cmd->add_option("--input", given.inputs,
                        "one argument, by name, by number or the next one: 'x=@x.npy', 'x=@x.bin' (raw bytes), 'x=@-' "
                        "(standard input), '0=1 2 3 4', 'f32[2,2]=1 2 3 4' (repeatable)")
            ->type_name("ARGUMENT")
            ->allow_extra_args(false);
    CLI::Option* random = cmd->add_flag("--random", given.random, "random arguments");
    inputs->excludes(random);
    input->excludes(random);
    cmd->add_option("--seed", given.seed, "the seed for --random")->needs(random);
    cmd->add_option("--random-range", given.range, "the range of random floating-point arguments (default: 0 1)")
        ->expected(2)
        ->allow_extra_args(false)
        ->check(NumberBetween(-1e30, 1e30))
        ->type_name("NUMBER")
        ->needs(random);
    AddShapeOption(*cmd, run.shapes);
    cmd->add_option("--save", run.save, "write the results to an .npz; {} stands for the number of a device")
        ->type_name("FILE");
    AddDeviceCounts(*cmd, run.replicas, run.partitions);
    cmd->add_option("--tune", run.tune, kTune)->check(CLI::IsMember({"first-run"}));
    run.device.AddTo(*cmd, {.groups = true});
    cmd->callback([this] {
      if (!(run.arguments.range.empty() || run.arguments.range[0] < run.arguments.range[1]))
        throw CLI::ValidationError("--random-range needs a lower and a higher number");
      code = Run(run);
    });
  }

  void AddCheck(CLI::App& app) {
    CLI::App* cmd = app.add_subcommand("check", "compare results with recorded ones");
    cmd->add_option("path", check.paths,
                    "model folders, corpus folders, StableHLO files that check themselves, or folders of any of these")
        ->required();
    cmd->add_option("--filter", check.filter, "only cases whose name matches this glob");
    cmd->add_option("--form", check.form, "which form of a module to read")
        ->check(
            CLI::IsMember(std::vector<std::string>(std::begin(krafla::kModuleForms), std::end(krafla::kModuleForms))));
    cmd->add_option("--jobs", check.jobs, "the number of cases to run at once")->check(CLI::Range(1, 256));
    check.device.AddTo(*cmd, {.groups = true});
    cmd->callback([this] { code = Check(check); });
  }

  void AddBench(CLI::App& app) {
    CLI::App* cmd = app.add_subcommand("bench", "time modules");
    CLI::Option* path = cmd->add_option(
        "path", bench.paths, "model folders, or module files or - for standard input (run on random arguments)");
    CLI::Option* collectives =
        cmd->add_flag("--collectives", bench.collectives, "time collectives of a group of devices instead, as -d names")
            ->excludes(path);
    cmd->add_option("--sizes", bench.sizes,
                    "the bytes that a device has of a collective, 64M or 8:256M: each size is the fourfold of the last")
        ->needs(collectives);
    cmd->add_option("--ops", bench.ops, "only these collectives, such as all-reduce,all-gather")
        ->delimiter(',')
        ->needs(collectives);
    AddShapeOption(*cmd, bench.shapes);
    CLI::Option* iters =
        cmd->add_option("--iters", bench.iterations, "the number of timed runs; 0: as many as --min-time allows")
            ->check(CLI::Range(0, 1'000'000'000));
    cmd->add_option("--min-time", bench.min_time, "the time for the timed runs, in seconds")
        ->check(NumberBetween(0.0, 1e6))
        ->excludes(iters);
    cmd->add_option("--every", bench.every_ms, "milliseconds between the starts of two runs, as in an application")
        ->check(NumberBetween(0.0, 60e3));
    cmd->add_option("--tune", bench.tune, kTune)->check(CLI::IsMember({"first-run"}));
    bench.device.AddTo(*cmd, {.groups = true});
    cmd->callback([this] {
      if (bench.paths.empty() && !bench.collectives) throw CLI::RequiredError("path");
      code = bench.collectives ? BenchCollectives(bench) : Bench(bench);
    });
  }

  void AddProfile(CLI::App& app) {
    CLI::App* cmd = app.add_subcommand("profile", "say what the time of a run goes into");
    cmd->add_option("module", profile.module,
                    "a model folder, or a module file or - for standard input (run on random arguments)")
        ->required();
    AddShapeOption(*cmd, profile.shapes);
    cmd->add_option("--by", profile.by,
                    "what is one line: kernel, instruction (of HLO), op (of the framework), source (file and line), "
                    "family (of kernels, with the variant)")
        ->check(CLI::IsMember({"kernel", "instruction", "op", "source", "family"}));
    cmd->add_option("--runs", profile.runs, "the number of runs to take the median of")->check(CLI::Range(1, 100'000));
    cmd->add_option("--top", profile.top, "the number of lines; 0: all")->check(CLI::Range(0, 1'000'000));
    cmd->add_flag("-v,--verbose", profile.verbose,
                  "say for each line the grid, why this variant, and where it is from");
    CLI::Option* no_roof = cmd->add_flag("!--no-roof", profile.roof, "do not measure what the device can reach");
    cmd->add_option("--roof", profile.known_roof, "what it can reach, as measured before: operations, bytes a second")
        ->excludes(no_roof)
        ->expected(2)
        ->allow_extra_args(false)
        ->check(NumberBetween(1.0, 1e18));
    cmd->add_option("--trace", profile.trace, "write the run to this file for Perfetto or chrome://tracing")
        ->type_name("FILE");
    cmd->add_option("--html", profile.html, "write a page with table, run and roofline to this file")
        ->type_name("FILE");
    profile.device.AddTo(*cmd);
    cmd->callback([this] { code = ProfileModule(profile); });
  }

  void AddTune(CLI::App& app) {
    CLI::App* cmd = app.add_subcommand("tune", "time settings of kernels on the device, and keep the fastest");
    cmd->add_option("path", tune.paths, "modules or model folders; with --all folders of model folders");
    AddShapeOption(*cmd, tune.shapes);
    cmd->add_flag("--all", tune.all, "every model under the folders");
    cmd->add_option("--budget", tune.budget, "seconds after which nothing new is timed, of all modules")
        ->check(NumberBetween(0.0, 1e6));
    cmd->add_flag("--allow-other-sums", tune.allow_other_sums,
                  "also take what adds in another order: the last bits of sums change");
    cmd->add_flag("--again", tune.again, "also time kernels that were tuned before");
    cmd->add_flag("--list", tune.list, "print what is stored for the device");
    cmd->add_flag("--clear", tune.clear, "forget what is stored for the device");
    cmd->add_option("--export", tune.export_file, "write what is stored to this file, as JSON")->type_name("FILE");
    cmd->add_option("--import", tune.import_file, "store what this file has of the same device and driver")
        ->type_name("FILE");
    tune.device.AddTo(*cmd, {.runs = false});
    cmd->callback([this] { code = Tune(tune); });
  }

  void AddOpt(CLI::App& app) {
    CLI::App* cmd = app.add_subcommand("opt", "show a module at a stage of the compiler");
    CLI::Option* module = cmd->add_option("module", opt.module, kModuleHelp);
    AddShapeOption(*cmd, opt.shapes);
    cmd->add_option("--passes", opt.passes, "run these passes, in this order, instead of the pipeline")
        ->type_name("NAMES");
    cmd->add_flag("--list-passes", opt.list_passes, "list the passes")->excludes(module);
    cmd->add_option("--stage", opt.stage, "parsed, partitioned, optimized, plan or spirv")
        ->check(CLI::IsMember({"parsed", "partitioned", "optimized", "plan", "spirv"}));
    cmd->add_option("-o", opt.output, "write to this file (spirv: this folder) instead of standard output")
        ->type_name("FILE");
    CLI::Option* emit = cmd->add_option("--emit", opt.emit,
                                        "how a module is written: " + DescribeModuleKinds() +
                                            " (default: as the name of the file says, else HLO text)")
                            ->check(CLI::IsMember(ModuleKindWords()));
    CLI::Option* device =
        cmd->add_option(
               "-d,--device", opt.selector,
               "the device to compile for, as in other commands (default for SPIR-V: KRAFLA_DEVICE where it names a "
               "Vulkan device, else the best one)")
            ->type_name("SELECTOR");
    cmd->add_option("--profile", opt.profile,
                    "a file with a device's profile, as devices --json prints it, for a device that is not here")
        ->type_name("FILE")
        ->excludes(device);
    cmd->add_option("--disable", opt.disabled, "features or passes to leave out")
        ->delimiter(',')
        ->type_name("NAMES")
        ->allow_extra_args(false);
    cmd->add_option("--enable", opt.enabled, "what run --enable takes, such as dots-by-turns")
        ->delimiter(',')
        ->type_name("NAMES")
        ->allow_extra_args(false);
    AddDeviceCounts(*cmd, opt.replicas, opt.partitions);
    cmd->callback([this, emit] {
      if (emit->count() > 0 && opt.stage != "parsed" && opt.stage != "optimized")
        throw CLI::ValidationError("--emit says how a module is written; the stage " + opt.stage + " writes none");
      code = Opt(opt);
    });
  }
};

// What --help ends with.
std::string Footer() {
  std::string out = "Exit codes:";
  for (const ExitCodeText& code : kExitCodes)
    out += krafla::Format("{} {} {}", out.ends_with(':') ? "" : ",", static_cast<int>(code.code), code.text);
  out += ".\nEnvironment variables (krafla environment lists their values):\n";
  for (const Variable& v : Variables()) {
    const std::size_t comma = v.names.find(',');
    out += krafla::Format("  {:<20} {}\n", v.names.substr(0, comma), v.brief);
  }
  return out;
}

// What is wrong with the words of a command, with the options that are nearest to those that do not exist.
int UsageError(const CLI::App& app, const CLI::ParseError& error, const std::vector<const char*>& words) {
  const CLI::App* command = &app;
  for (const CLI::App* one : app.get_subcommands({}))
    if (words.size() > 1 && one->get_name() == words[1]) command = one;
  std::string text = error.what();
  while (text.ends_with('\n') || text.ends_with('.')) text.pop_back();
  if (command == &app && words.size() == 1) text = "A command is needed, such as run or devices";
  std::fprintf(stderr, "krafla: %s.\n", text.c_str());
  std::vector<std::string> known;
  for (const CLI::Option* option : command->get_options())
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  for (std::size_t w = 1; w < words.size(); ++w) {
    std::string word = words[w];
    word.resize(std::min(word.find('='), word.size()));
    if (word == "--") break;
    if (!word.starts_with("--") || std::ranges::contains(known, word)) continue;
    const std::vector<std::string> likely = krafla::NearWords(word, known, 1);
    if (!likely.empty())
      std::fprintf(stderr, "  There is no option '%s'; did you mean %s?\n", word.c_str(), likely[0].c_str());
  }
  const std::string asked = command == &app ? "" : " " + command->get_name();
  std::fprintf(stderr, "  See krafla%s --help.\n", asked.c_str());
  return kUsage;
}

int RunCommand(int argc, char** argv) {
  CLI::App app{"krafla compiles HLO to SPIR-V and runs it on any Vulkan GPU, or on the CPU."};
  app.set_version_flag("--version", std::string("krafla ") + KRAFLA_VERSION);
  app.allow_windows_style_options(false);  // "/a" is a path on every system
  app.require_subcommand(1);
  app.footer(Footer());
  Commands commands;
  commands.AddTo(app);
  // "krafla help run" is "krafla run --help".
  std::vector<const char*> words(argv, argv + argc);
  if (argc > 1 && std::string_view(argv[1]) == "help") {
    words.erase(words.begin() + 1);
    if (argc > 2 && !IsCommand(app, argv[2])) return UnknownCommand(app, argv[2]);
    words.push_back("--help");
  } else if (argc > 1 && argv[1][0] != '-' && !IsCommand(app, argv[1])) {
    return UnknownCommand(app, argv[1]);
  }
  try {
    app.parse(static_cast<int>(words.size()), words.data());
  } catch (const CLI::Success& e) { return app.exit(e); } catch (const CLI::ParseError& e) {
    return UsageError(app, e, words);
  }
  return commands.code;
}

}  // namespace

// The command, as the program and whoever loads the library begin it: an exit code of docs/errors.md.
extern "C" int KraflaCommand(int argc, char** argv) {
  int code = kBadInput;
  krafla::SetLogSink([](krafla::LogLevel level, std::string_view message) {
    if (level == krafla::LogLevel::kWarning) Warn(message);
  });
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
