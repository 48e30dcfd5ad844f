// SPDX-License-Identifier: Apache-2.0
// What the fault layer exports to the program that is tested: which call is to fail, and with what.
#pragma once

#include <cstdint>

extern "C" {

// Functions are numbered from 0; null past the last.
typedef const char* (*KraflaFaultName)(int function);
// From now on, call `n` (from 1) of `function` does not reach the driver and returns `result`, a VkResult; once. n = 0:
// none. Counts begin anew. VK_ERROR_DEVICE_LOST loses the device for good: its work is finished first, then every
// submission, wait and query of it gives VK_ERROR_DEVICE_LOST, as on hardware that was reset.
typedef void (*KraflaFaultArm)(int function, int64_t n, int32_t result);
// Calls of `function` since the last arm, and whether the fault has struck.
typedef int64_t (*KraflaFaultCalls)(int function);
typedef int (*KraflaFaultStruck)();

}  // extern "C"
