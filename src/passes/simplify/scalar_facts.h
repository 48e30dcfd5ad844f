// SPDX-License-Identifier: Apache-2.0
// Facts of one scalar, told from its bits. Floats are f16, bf16, f32, f64 and the 8-bit formats with infinities; the
// others answer no to everything but "all bits zero".
#pragma once

#include <cstdint>
#include <optional>

#include "ir/module.h"

namespace krafla {

// The bits, zero-extended. Not of complex numbers.
uint64_t ScalarBits(const Literal& scalar);
Literal ScalarFromBits(ElementType type, uint64_t bits);
// An integer or pred as a number; unsigned values past 63 bits are INT64_MAX.
int64_t ScalarInt(const Literal& scalar);

bool IsPositiveZero(const Literal& scalar);  // 0, +0.0, false, complex 0 with both signs plus
bool IsNegativeZero(const Literal& scalar);  // -0.0
bool IsOne(const Literal& scalar);           // 1, 1.0, true
bool IsMinusOne(const Literal& scalar);      // -1, -1.0; not of unsigned types
bool IsAllOnes(const Literal& scalar);       // every bit of an integer; true
// No value of the type is below (above): -inf, the least integer, false.
bool IsLowest(const Literal& scalar);
bool IsHighest(const Literal& scalar);

// 1/x where x is a power of two (of either sign) and both are normal numbers, so that x * (1/c) is x / c to the bit.
std::optional<Literal> ExactReciprocal(const Literal& scalar);
// n where an integer above 0 is 2^n.
std::optional<int> Log2OfPowerOfTwo(const Literal& scalar);

// 0 and 1 of any array type.
Literal ScalarZero(ElementType type);
Literal ScalarOne(ElementType type);
Literal ScalarOfInt(ElementType type, int64_t value);  // integers and pred

// Every value of `from` is exactly one of `to`.
bool ConvertIsLossless(ElementType from, ElementType to);

// x with combiner(a, x) = a to the bit; none where the combiner is not one operation that has such an x.
std::optional<Literal> IdentityOf(const Computation& combiner, ElementType type);

}  // namespace krafla
