// SPDX-License-Identifier: Apache-2.0
// KRAFLA_UNROLL(n): the loop behind it, of at most n turns, a number that the compiler knows, is written out. Arrays of
// vectors that such loops index are registers then. clang takes them apart only if it unrolls early, which a count
// (Highway's HWY_UNROLL) does not ask for: sums were stored at every turn, and products took twice as long.
#pragma once

#define KRAFLA_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define KRAFLA_UNROLL(most) KRAFLA_PRAGMA(clang loop unroll(full))
#else
#define KRAFLA_UNROLL(most) KRAFLA_PRAGMA(GCC unroll most)
#endif
