// SPDX-License-Identifier: Apache-2.0
// Arrays of s4, u4 and other elements of fewer than 8 bits, which devices keep packed (ir/packed_elements.h).
#pragma once

#include <vector>

#include "ir/module.h"
#include "krafla/status.h"

namespace krafla {

// Makes each such parameter and result, and each such leaf of a tuple, the array of u8 that a device keeps. Bits are
// taken apart and put together by bitcast-converts, which kernels do where they read and write. The header promises no
// layouts any more. Does nothing to a program with dynamic dimensions at its border. For verified modules.
Result<> PackEntry(Module& module);

// `packed`, an array of u8, as the elements of `shape`; and `value` as the array of u8 that PackedShape says. Added to
// the computation of their operand.
Instruction* AddUnpacked(Instruction* packed, const Shape& shape);
Instruction* AddPacked(Instruction* value);
// Where `i` is what AddUnpacked makes, the array of u8; else null.
Instruction* PackedSourceOf(const Instruction& i);

}  // namespace krafla
