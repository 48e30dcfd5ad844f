// SPDX-License-Identifier: Apache-2.0
// What is done differently because of a driver's faults. Every test of a driver for correctness stands in
// workarounds.cpp, with its reason and source; the code that reads a field knows no driver. What depends on a device
// because it is faster is tuning (tuning.h).
//
// Two workarounds are not here, because they are on everywhere: they cost one instruction, and other drivers may have
// the same fault. llvmpipe begins one turn of a loop more than there are, with no lane left, and reads an address that
// all lanes share whether or not a lane is left: indices into memory are therefore kept within bounds in loops
// (panels.cpp, conv_direct.cpp, wide_sum.h) and under conditions (scatter.cpp). LLVM 19 takes the sign bit of -inf - x
// to be zero: Abs is therefore an instruction of its own (float_ops.cpp).
#pragma once

#include "device/device_profile.h"

namespace krafla {

struct Workarounds {
  // A zero on either side of a float division is worked out from the bits.
  bool zero_quotients_from_bits = false;
  // A u32 becomes an f32 by halves of 16 bits.
  bool u32_to_f32_in_halves = false;
  // The device's f32 division and square root are taken for estimates only, and corrected to the rounded result.
  bool corrects_division = true;
  // An allocation that the machine has no memory for succeeds: the budget is asked before a large one.
  bool overcommits_memory = false;

  bool operator==(const Workarounds&) const = default;
};

Workarounds WorkaroundsFor(const DeviceProfile& profile);

}  // namespace krafla
