// SPDX-License-Identifier: Apache-2.0
// Elements that are asked for by their places in an array of which each device has a block: where they are in the
// block, and how devices that have some of them each put them together.
#pragma once

#include <optional>
#include <span>

#include "passes/spmd/spmd_emitter.h"

namespace krafla::spmd {

// The type in which elements of `type` are put together bit by bit; none for complex and packed ones.
std::optional<ElementType> BitsOf(ElementType type);

// Whole numbers of any type as s32, or s64 where they have as many bits, and those that are below 0 or above `most` as
// the nearest of these.
Result<Instruction*> ClampedPositions(Emitter& emitter, Instruction* positions, int64_t most);
// `low`, `value` and `high` for each element of `value`.
Result<Instruction*> Clamped(Emitter& emitter, Instruction* value, int64_t low, int64_t high);
// 0 <= value < end, element by element.
Result<Instruction*> IsWithin(Emitter& emitter, Instruction* value, int64_t end);

// Of each element the one of the device that `found` it, which one does of those that differ in `along`: minus zeros
// and NaNs come through as they are. `found`: of the dimensions of `elements`.
Result<Instruction*> MergedBits(Emitter& emitter, Instruction* elements, Instruction* found, const Split& along,
                                std::span<const Split> dims, const Region* region);

}  // namespace krafla::spmd
