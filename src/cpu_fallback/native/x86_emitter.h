// SPDX-License-Identifier: Apache-2.0
// Lane graphs as x86-64 machine code.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "cpu_fallback/native/lane_graph.h"
#include "cpu_fallback/native/routine.h"

namespace krafla::cpu::native {

enum class X86Target : uint8_t {
  kAvx2,    // with FMA, F16C and BMI2
  kAvx512,  // F BW CD DQ VL, and what counts bits where the processor has it
};

constexpr int VectorBytes(X86Target target) { return target == X86Target::kAvx512 ? 64 : 32; }
// The lanes of a vector of this graph.
int LanesOf(X86Target target, const LaneGraph& graph);

// Whether this processor has what the target needs.
bool HasTarget(X86Target target);
bool HasAvx512Vbmi();
bool HasAvx512Bf16();
bool HasAvx512Fp16();
bool HasAvx512Vnni();
// Whether the target has an operation for every node.
bool CanEmit(X86Target target, const LaneGraph& graph);
// The same of one, of a routine.
bool CanEmit(X86Target target, const LaneGraph& graph, const LaneNode& node);

// The machine code of a LaneFunction, position-independent; empty: the assembler refused it.
std::vector<std::byte> Emit(X86Target target, const LaneGraph& graph);
// The same of a RoutineCode::Function.
std::vector<std::byte> Emit(X86Target target, const Routine& routine);

}  // namespace krafla::cpu::native
