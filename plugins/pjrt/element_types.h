// SPDX-License-Identifier: Apache-2.0
// PJRT's numbers of element types and ours.
#pragma once

#include "krafla/element_type.h"
#include "krafla/shape.h"
#include "krafla/status.h"
#include "plugins/pjrt/abi/pjrt_types.h"

namespace krafla::pjrt {

// UNIMPLEMENTED for a type that krafla has no arrays of.
Result<ElementType> FromPjrtType(PJRT_Buffer_Type type);
// kPjrtInvalidType for tuples and opaque values.
PJRT_Buffer_Type ToPjrtType(ElementType type);
// Row-major.
Result<Shape> ShapeFrom(PJRT_Buffer_Type type, const int64_t* dims, std::size_t rank);

}  // namespace krafla::pjrt
