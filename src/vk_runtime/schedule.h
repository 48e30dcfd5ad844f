// SPDX-License-Identifier: Apache-2.0
// Where barriers go. Two steps conflict when they touch a common byte and one of them writes it; a barrier must come
// between. Steps are put in levels: as early as their conflicts with earlier steps allow, so that the number of
// barriers is that of the longest chain less one, the least possible with barriers that hold for everything.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "vk_runtime/step.h"

namespace krafla::vk {

// `memory_of[b]` is the memory that buffer b lives in: buffers with one number are the same bytes, others share none.
// The levels in order, each with its steps in their original order. Steps that do nothing are in none.
// `reorder` false keeps the given order: a level is then a run of steps without a conflict.
std::vector<std::vector<uint32_t>> ScheduleSteps(std::span<const Step> steps, std::span<const uint32_t> memory_of,
                                                 bool reorder = true);

}  // namespace krafla::vk
