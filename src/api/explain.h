// SPDX-License-Identifier: Apache-2.0
// Why a program is as it is on a device: its kernels and why they are not fewer, where each runs, where its values lie.
// Nothing is run, and the device need not be here: its profile is enough.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/client.h"

namespace krafla {

struct Explanation {
  // A value that goes through memory from one kernel to another.
  struct Apart {
    std::string value, kernel;  // what is read, and the kernel that makes it
    std::string why;
  };
  // A kernel with its launches at one place of the program, or a loop, a conditional or a call.
  struct Kernel {
    std::string rows;                       // of the first kernel of a row group, and of one that is none: why
    std::string name, family;               // the last instruction that it makes; "dot", "loop", "while", ..
    std::string computation;                // whose instructions these are
    std::vector<std::string> instructions;  // all that it computes
    std::vector<Apart> apart;
    std::string place, reason;            // "device", "cpu", "host" (the evaluator); why not the device
    std::string variant, variant_reason;  // of the code generator's tables, and why no earlier one
    std::string op_name, source;          // of the framework, as the module's metadata says
    int launches = 0;
    double flops = 0, bytes = 0;
    std::vector<std::string> reads, makes;  // values
  };
  struct Value {
    std::string name, shape;  // name.k: leaf k of a tuple
    std::string place;        // "argument 0", "result 1", "arena", "state 0"; of the arena:
    int64_t offset = 0, bytes = 0;
    int first = 0, last = 0;          // the steps at which it is alive
    std::vector<std::string> shares;  // the values whose bytes it takes over, or that take over its own
  };
  struct Step {
    int number = 0;
    std::string kernel;  // empty: copies, or control flow
    int64_t live_bytes = 0;
  };
  struct Story {
    std::string name;
    std::vector<std::string> history;  // what each pass made of it
    std::vector<std::string> became;   // the instructions of the optimised module that it is, or that have its origin
  };

  std::string module, device;
  int64_t instructions = 0, device_instructions = 0;
  std::vector<Kernel> kernels;
  std::vector<Value> values;
  int64_t arena_bytes = 0, peak_live_bytes = 0;
  int peak_step = 0;
  std::vector<Step> steps;  // with what is alive in the arena
  int launches = 0, copies = 0;
  // Waits of the host for the device in a run: for steps off the device, for branches, and for each turn of a loop that
  // is not counted, of which there is no number.
  int waits = 0, uncounted_loops = 0;
  Story story;  // of ExplainOptions::instruction
};

struct ExplainOptions {
  CompileOptions compile;
  std::string instruction;  // whose story is told; empty: none
};

// NOT_FOUND, with the names that are near, where neither the module nor what the passes make of it has the instruction.
Result<Explanation> Explain(std::unique_ptr<Module> module, const DeviceDescription& device,
                            const ExplainOptions& options);

}  // namespace krafla
