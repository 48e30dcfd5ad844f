// SPDX-License-Identifier: Apache-2.0
// Programs made ready to be run again and again, as `bench` and `profile` do.
#pragma once

#include <memory>
#include <string>

#include "command.h"
#include "recorded/corpus.h"

namespace krafla::cli {

// A program with its arguments in place, on one device or on a group.
struct Prepared {
  std::unique_ptr<Executable> alone;
  std::unique_ptr<GroupExecutable> together;
  CompileReport report;
  std::string placement;
  double compile_wall_ms = 0;

  // Each run gets the limit anew.
  Result<> Execute(const DeviceOptions& options);
  // Execute, but that arguments which results take the place of (input_output_alias) are donated, as by an application
  // that keeps a state: these results are arguments of the next run. Of a program that declares none, on a group, and
  // where dimensions are dynamic it is Execute.
  Result<> ExecuteDonating(const DeviceOptions& options);
  // The state is again what it was at first, so that long runs of runs compute with ordinary values.
  Result<> Renew();

 private:
  friend Result<Prepared> PrepareDonating(std::unique_ptr<Module> module, const RecordedCase* recorded, Client& client,
                                          const CompileOptions& options);
  // Of a program that donates: all arguments, and those that results take the place of.
  struct Donated {
    std::size_t argument = 0, result = 0;
    std::shared_ptr<const Literal> at_first;
  };
  std::vector<DeviceArgument> arguments_;
  std::vector<Donated> donated_;
  Client* client_ = nullptr;
};

// The arguments are the recorded ones; random where nothing is recorded (null).
Result<Prepared> PrepareAlone(std::unique_ptr<Module> module, const RecordedCase* recorded, Client& client,
                              const CompileOptions& options);
// The same, to be run by ExecuteDonating.
Result<Prepared> PrepareDonating(std::unique_ptr<Module> module, const RecordedCase* recorded, Client& client,
                                 const CompileOptions& options);
Result<Prepared> PrepareTogether(std::unique_ptr<Module> module, const RecordedCase* recorded, DeviceGroup& group,
                                 const CompileOptions& options, const GroupOptions& group_options);

// The module that a command is about, and its recorded arguments where it is the case of a model folder.
struct Subject {
  std::string name, module_path;
  std::optional<RecordedCase> recorded;
};
// INVALID_ARGUMENT for a folder of other than one case.
Result<Subject> FindSubject(const std::string& path);

// Its module, for the replicas and partitions that are given, recorded (0: not given) or stated by the module.
Result<std::unique_ptr<Module>> LoadSubject(const std::string& path, const std::vector<std::string>& shapes,
                                            int64_t replicas, int64_t partitions);

// Of a case for several devices: the program of one of them, where there is one.
const std::string& ModuleOf(const RecordedCase& c);

}  // namespace krafla::cli
