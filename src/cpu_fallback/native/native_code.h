// SPDX-License-Identifier: Apache-2.0
// Compiled lane graphs. Equal graphs share one function for as long as somebody holds it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cpu_fallback/native/executable_memory.h"
#include "cpu_fallback/native/lane_graph.h"
#include "krafla/status.h"

namespace krafla::cpu::native {

class NativeCode {
 public:
  explicit NativeCode(std::unique_ptr<ExecutableMemory> memory)
      : memory_(std::move(memory)),
        function_(reinterpret_cast<LaneFunction>(reinterpret_cast<std::uintptr_t>(memory_->address()))) {}

  // Does the graph for all of rows times columns; a stream each.
  void Run(const StreamArgument* streams, int64_t rows, int64_t columns) const {
    if (columns > 0) function_(streams, rows, columns);
  }

 private:
  std::unique_ptr<ExecutableMemory> memory_;
  LaneFunction function_;
};

// Where native code is made: nowhere, where it is worth its compilation, or wherever it can be (for tests). It begins
// as the environment has it.
enum class NativeUse : uint8_t { kNever, kWorthwhile, kAlways };
struct NativeCodeWish {
  NativeUse use = NativeUse::kWorthwhile;
  bool avx2_only = false;
};
// KRAFLA_JIT: 0, 1, always, avx2 (always, and for no more than that); INVALID_ARGUMENT for anything else. Clients ask
// before anything is compiled.
Result<NativeCodeWish> NativeCodeAskedFor();
void UseNativeCode(NativeUse use);
// For tests: makes code for AVX2 although the processor has more.
void UseNarrowVectors(bool narrow);
// kNever where this build or this processor has none.
NativeUse UseOfNativeCode();
inline bool HasNativeCode() { return UseOfNativeCode() != NativeUse::kNever; }
// Whether it is AVX-512's, which has masks for accesses, gathers, permutations and folds.
bool HasAvx512Code();
// Whether bytes can be put into any order within vectors, too.
bool HasByteShuffles();
// Whether there is arithmetic of f16 beside conversions.
bool HasHalfArithmetic();

// Whether there are instructions for all of the graph.
bool CanCompile(const LaneGraph& graph);
// Null: the interpreter has to do it.
std::shared_ptr<const NativeCode> Compile(const LaneGraph& graph);

// Since the process started.
struct NativeCounts {
  int64_t compiled = 0;  // functions
  int64_t shared = 0;    // graphs that took over an equal one's function
  int64_t refused = 0;   // graphs for which there was no code, or no memory that may run
  int64_t calls = 0;     // in routines, of what has no lanes
};
NativeCounts CountsOfNativeCode();

}  // namespace krafla::cpu::native
