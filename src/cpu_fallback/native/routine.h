// SPDX-License-Identifier: Apache-2.0
// A loop, with all that is inside it, as one function: blocks of lane graphs whose accesses go to fixed places, between
// counts, tests and branches. What has no lanes is called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cpu_fallback/native/executable_memory.h"
#include "cpu_fallback/native/lane_graph.h"

namespace krafla::cpu::native {

struct RoutineItem {
  enum class Kind : uint8_t {
    kBlock,     // number: the graph
    kCall,      // number: for the caller's function
    kCount,     // begins a loop of `count` turns, number
    kEndCount,  // of that loop
    kWhile,     // begins a loop, number
    kLeave,     // leaves it where the pred at the place is false
    kEndWhile,  // of that loop
    kChoose,    // begins a choice, number, among `count` branches, by the s32 at the place; out of range, the last one
    kChooseByPred,  // the same, by a pred: true, false
    kBranch,        // begins branch `count` of that choice
    kEndChoose,     // of that choice
  };
  Kind kind = Kind::kBlock;
  int64_t number = 0;
  int64_t count = 0;
  int base = 0;  // a place: an address of the table, and bytes behind it
  int64_t offset = 0;
};

struct Routine {
  std::vector<LaneGraph> blocks;
  std::vector<RoutineItem> items;
  int base_count = 0;

  // The bytes that tell it from every other routine.
  std::string Key() const;
};

struct RoutineRun {
  std::byte* const* bases = nullptr;  // the table of addresses
  // Whether to go on: asked some thousand turns apart, and after each call.
  bool (*look)(void* owner) = nullptr;
  bool (*call)(void* owner, int64_t number) = nullptr;
  void* owner = nullptr;
};

class RoutineCode {
 public:
  using Function = uint32_t (*)(const RoutineRun* run);
  explicit RoutineCode(std::unique_ptr<ExecutableMemory> memory)
      : memory_(std::move(memory)),
        function_(reinterpret_cast<Function>(reinterpret_cast<std::uintptr_t>(memory_->address()))) {}
  // False: it was told not to go on.
  bool Run(const RoutineRun& run) const { return function_(&run) != 0; }

 private:
  std::unique_ptr<ExecutableMemory> memory_;
  Function function_;
};

// The bytes of a vector of a routine.
int RoutineBytes();
// Whether there are instructions for a node of a routine's graph.
bool CanHave(const LaneGraph& graph, const LaneNode& node);
// Null: there is none for all of it.
std::shared_ptr<const RoutineCode> Compile(const Routine& routine);

}  // namespace krafla::cpu::native
