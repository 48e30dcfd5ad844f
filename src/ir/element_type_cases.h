// SPDX-License-Identifier: Apache-2.0
// Classes of element types as the label of a switch, for those that treat all types of a class alike:
//   case KRAFLA_MINI_FLOATS: ...
// A switch without `default` still names every type, so a new one is an error of the compiler wherever it matters.
#pragma once

#include "krafla/element_type.h"

// clang-format off
// Floats of at most 8 bits.
#define KRAFLA_MINI_FLOATS                                                                      \
       ElementType::kF8E5M2: case ElementType::kF8E4M3FN: case ElementType::kF8E4M3B11FNUZ:     \
  case ElementType::kF8E5M2FNUZ: case ElementType::kF8E4M3FNUZ: case ElementType::kF8E4M3:      \
  case ElementType::kF8E3M4: case ElementType::kF4E2M1FN: case ElementType::kF8E8M0FNU
#define KRAFLA_COMPLEX_TYPES ElementType::kC64: case ElementType::kC128
// What has no elements.
#define KRAFLA_NO_ARRAY_TYPES \
  ElementType::kInvalid: case ElementType::kTuple: case ElementType::kOpaque: case ElementType::kToken
// clang-format on
