// SPDX-License-Identifier: Apache-2.0
// What is done differently because of a driver's faults. Every test of a driver for correctness stands in
// workarounds.cpp, with its reason and source; the code that reads a field knows no driver. What depends on a device
// because it is faster is tuning (tuning.h).
//
// One workaround is not here, because it is on everywhere: it costs one instruction, and other drivers may have the
// same fault. LLVM 19 takes the sign bit of -inf - x to be zero: Abs is therefore an instruction of its own
// (float_ops.cpp).
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
  // A load whose address all lanes share is made also where no lane is active: under a condition that no lane meets,
  // and in the turn of a loop after the last.
  bool loads_without_lanes = false;
  // An allocation that the machine has no memory for succeeds: the budget is asked before a large one.
  bool overcommits_memory = false;

  bool operator==(const Workarounds&) const = default;
};

Workarounds WorkaroundsFor(const DeviceProfile& profile);

}  // namespace krafla
