// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <iostream>

#include "command.h"

using namespace krafla::cli;  // NOLINT

int main(int argc, char** argv) {
  CLI::App app{"krafla compiles HLO to SPIR-V and runs it on any Vulkan GPU, or on the CPU."};
  app.set_version_flag("--version", std::string("krafla ") + KRAFLA_VERSION);
  app.require_subcommand(1);
  app.footer("Exit codes: 0 right, 1 a check failed, 2 usage, 3 unsupported or invalid input, 4 device or driver, "
             "5 out of memory.");
  int code = kRight;

  DeviceOptions devices;
  CLI::App* cmd = app.add_subcommand("devices", "list the devices");
  cmd->add_flag("--json", devices.json, "a JSON object a line");
  cmd->callback([&] { code = Devices(devices); });

  RunOptions run;
  cmd = app.add_subcommand("run", "run a module and print its results");
  cmd->add_option("module", run.module, "HLO text")->required();
  cmd->add_option("--inputs", run.inputs, "arguments, from an .npz (in its order); {} stands for the number of a device");
  cmd->add_option("--input", run.literals, "one argument: 'f32[2,2]=1 2 3 4' (repeatable)");
  cmd->add_flag("--random", run.random, "made-up arguments");
  cmd->add_option("--seed", run.seed, "of --random");
  cmd->add_option("--save", run.save, "write the results to an .npz; {} stands for the number of a device");
  cmd->add_option("--replicas", run.replicas, "run as so many replicas, whatever the module says")->check(CLI::Range(1, 1024));
  cmd->add_option("--partitions", run.partitions, "run as so many partitions")->check(CLI::Range(1, 1024));
  run.device.AddTo(*cmd);
  cmd->callback([&] { code = Run(run); });

  CheckOptions check;
  cmd = app.add_subcommand("check", "compare results with recorded ones");
  cmd->add_option("path", check.paths, "model folders, corpus folders, StableHLO files that check themselves, or folders of any of these")->required();
  cmd->add_option("--filter", check.filter, "only cases whose name fits this glob");
  cmd->add_option("--form", check.form, "which form of a module: hlo, pb, mlir, mlirbc");
  cmd->add_option("--jobs", check.jobs, "cases at once")->check(CLI::Range(1, 256));
  check.device.AddTo(*cmd);
  cmd->callback([&] { code = Check(check); });

  BenchOptions bench;
  cmd = app.add_subcommand("bench", "time modules");
  cmd->add_option("path", bench.paths, "model folders, or module files (run on made-up arguments)")->required();
  cmd->add_option("--iters", bench.iterations, "timed runs; 0: as many as fit --min-time");
  cmd->add_option("--min-time", bench.min_time, "seconds of timed runs");
  bench.device.AddTo(*cmd);
  cmd->callback([&] { code = Bench(bench); });

  OptOptions opt;
  cmd = app.add_subcommand("opt", "show a module at a stage of the compiler");
  cmd->add_option("module", opt.module, "HLO text");
  cmd->add_option("--passes", opt.passes, "run these passes, in this order, instead of the pipeline");
  cmd->add_flag("--list-passes", opt.list_passes, "list the passes");
  cmd->add_option("--stage", opt.stage, "parsed, optimized, plan or spirv")
      ->check(CLI::IsMember({"parsed", "optimized", "plan", "spirv"}));
  cmd->add_option("-o", opt.output, "write here (spirv: a folder) instead of standard output");
  cmd->add_option("--emit", opt.emit, "hlo or proto")->check(CLI::IsMember({"hlo", "proto"}));
  cmd->add_option("-d,--device", opt.selector, "the device to plan and emit for")->envname("KRAFLA_DEVICE");
  cmd->add_option("--disable", opt.disabled, "features or passes to leave out")->delimiter(',');
  cmd->callback([&] { code = Opt(opt); });

  DeviceOptions ops;
  bool markdown = false;
  cmd = app.add_subcommand("ops", "list every operation, its types and where it runs on this device");
  cmd->add_flag("--md", markdown, "as Markdown (docs/ops.md)");
  ops.AddTo(*cmd);
  cmd->callback([&] { code = Ops(ops, markdown); });

  DeviceOptions demo;
  cmd = app.add_subcommand("demo", "run a small network on pictures of digits and check its answers");
  demo.AddTo(*cmd, false);
  cmd->callback([&] { code = Demo(demo); });

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    app.exit(e);
    return kUsage;
  } catch (const std::bad_alloc&) {
    std::cerr << "krafla: out of memory\n";
    return kNoMemory;
  }
  return code;
}
