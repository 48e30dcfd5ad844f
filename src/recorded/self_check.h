// SPDX-License-Identifier: Apache-2.0
// StableHLO modules that know the right answers: functions without arguments whose operations of the dialect `check`
// (or custom calls of such names) compare two values, as in StableHLO's own tests. Each becomes a module that gives the
// two values of every comparison.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hlo_io/check_rule.h"
#include "ir/module.h"
#include "krafla/status.h"
#include "recorded/corpus.h"

namespace krafla {

// A program that several devices run together (interpreter.run_parallel), or programs of which each runs on a device of
// its own and hears of the others through the host.
struct ParallelProgram {
  std::unique_ptr<Module> module;               // of module->replica_count times num_partitions devices; or null:
  std::vector<std::unique_ptr<Module>> alone;   // device by device
  std::unique_ptr<Module> inputs;               // gives the arguments of device 0, then of device 1 ...
  std::vector<std::unique_ptr<Module>> infeed;  // each gives an item
};

struct SelfCheck {
  std::string name;                         // of the function; "main" where it is that
  std::unique_ptr<Module> module;           // a tuple: actual, expected, actual, expected ...
  std::vector<CheckRule> rules;             // one a pair
  std::optional<ParallelProgram> parallel;  // its results, device by device, are the module's parameters
};

// A part of a file: a check, or why there is none.
struct SelfCheckPart {
  std::string name;
  Result<SelfCheck> check;
};

// Whether the text has anything to check. Bytecode has not.
bool HasChecks(std::string_view text);
// The parts of a text, which lines "// -----" divide.
std::vector<SelfCheckPart> ReadSelfChecks(std::string_view text, std::string_view file);

Comparison CompareByRule(const Literal& actual, const Literal& expected, const CheckRule& rule);

}  // namespace krafla
