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
};

// The arguments are the recorded ones; random where nothing is recorded (null).
Result<Prepared> PrepareAlone(std::unique_ptr<Module> module, const RecordedCase* recorded, Client& client,
                              const CompileOptions& options);
Result<Prepared> PrepareTogether(std::unique_ptr<Module> module, const RecordedCase* recorded, DeviceGroup& group,
                                 const CompileOptions& options, const GroupOptions& group_options);

// Of a case for several devices: the program of one of them, where there is one.
const std::string& ModuleOf(const RecordedCase& c);

}  // namespace krafla::cli
