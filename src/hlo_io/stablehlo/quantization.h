// SPDX-License-Identifier: Apache-2.0
// Quantised element types, as both readers make them.
#pragma once

#include "hlo_io/stablehlo/op_tree.h"

namespace krafla::stablehlo {

// The smallest and the largest integer of a type; those of 64 unsigned bits end at 2^63 - 1.
std::pair<int64_t, int64_t> IntegerRange(ElementType type);

// An element of integers of the type `storage`. INVALID_ARGUMENT where it breaks a constraint of StableHLO's
// specification ("Quantized element types", C1 to C13).
Result<Type> QuantizedElement(ElementType storage, Quantization quantization);

// An array's: whether its dimensions go with the scales of its elements.
Result<> CheckQuantizedDims(const Type& tensor);

// The integers of one may be taken for the other's: their dimensions may differ.
bool SameParameters(const Type& a, const Type& b);

}  // namespace krafla::stablehlo
