// SPDX-License-Identifier: Apache-2.0
// Compiled lane graphs. Equal graphs share one function for as long as somebody holds it.
#pragma once

#include <cstdint>
#include <memory>

#include "cpu_fallback/native/executable_memory.h"
#include "cpu_fallback/native/lane_graph.h"

namespace krafla::cpu::native {

class NativeCode {
 public:
  explicit NativeCode(std::unique_ptr<ExecutableMemory> memory) : memory_(std::move(memory)) {}
  LaneFunction function() const { return reinterpret_cast<LaneFunction>(reinterpret_cast<std::uintptr_t>(memory_->address())); }

 private:
  std::unique_ptr<ExecutableMemory> memory_;
};

// Where native code is made: nowhere, where it is worth its compilation, or wherever it can be (for tests). It begins as
// the environment has it (KRAFLA_JIT: 0, 1, always).
enum class NativeUse : uint8_t { kNever, kWorthwhile, kAlways };
void UseNativeCode(NativeUse use);
// kNever where this build or this processor has none.
NativeUse UseOfNativeCode();
inline bool HasNativeCode() { return UseOfNativeCode() != NativeUse::kNever; }

// Whether there are instructions for all of the graph.
bool CanCompile(const LaneGraph& graph);
// Null: the interpreter has to do it.
std::shared_ptr<const NativeCode> Compile(const LaneGraph& graph);

// Since the process started.
struct NativeCounts {
  int64_t compiled = 0;  // functions
  int64_t shared = 0;    // graphs that took over an equal one's function
  int64_t refused = 0;   // graphs for which there was no code, or no memory that may run
};
NativeCounts CountsOfNativeCode();

}  // namespace krafla::cpu::native
