// SPDX-License-Identifier: Apache-2.0
// How large numbers are, at the speed of the memory that they lie in.
#pragma once

#include <cstddef>
#include <cstdint>

#include "krafla/element_type.h"

namespace krafla::cpu {

// The largest magnitude of `count` numbers side by side, of f32, f16 or bf16, as an f32: an infinity or NaN where one
// of them is.
float LargestMagnitude(ElementType type, const std::byte* from, int64_t count);

}  // namespace krafla::cpu
