// SPDX-License-Identifier: Apache-2.0
// Recorded programs in tests: a module run by the evaluator on the arrays of its case, with what the corpus expects of
// a host, and compared with the recorded outputs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/module.h"
#include "passes/entry_interface.h"
#include "recorded/corpus.h"

namespace krafla {

struct RecordedRun {
  Literal result;
  std::vector<Literal> outfed;  // leaves
};

// The case's module as it was written, a program for several devices already partitioned.
Result<std::unique_ptr<Module>> ReadModuleOf(const RecordedCase& c);
Result<RecordedArrays> ReadArraysOf(const RecordedCase& c, const Module& module);

// `declared`: how a module looked whose dynamic dimensions have become static; its parameters are arrays. An item that
// goes out must be the recorded one.
Result<RecordedRun> RunRecorded(const Module& module, const RecordedArrays& arrays,
                                const EntryInterface* declared = nullptr);

// DATA_LOSS that says which output is wrong, and how.
Result<> CompareWithRecorded(const Literal& result, const RecordedArrays& arrays);

// A part of the names to run, for a closer look (KRAFLA_CASE).
bool IsWanted(const RecordedCase& c);

}  // namespace krafla
