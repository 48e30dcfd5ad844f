// SPDX-License-Identifier: Apache-2.0
// Arrays as others keep them: dense, in the order of a layout. A Literal is row-major whatever its layout says, so
// these are the two copies at the edge. A row-major layout is one plain copy.
#pragma once

#include <span>

#include "krafla/literal.h"
#include "krafla/shape.h"
#include "krafla/status.h"

namespace krafla {

// UNIMPLEMENTED for layouts that say more than an order (tiles, packed elements).
Result<> CheckPlainLayout(const Shape& shape);

// `bytes` must be as long as the literal. Dimensions of `layout` and of the literal must agree.
Result<> WriteInLayout(const Literal& literal, const Layout& layout, std::span<std::byte> bytes);
// An array of `shape` from bytes in the order of its layout. INVALID_ARGUMENT unless there are shape.byte_size().
Result<Literal> ReadInLayout(std::span<const std::byte> bytes, const Shape& shape);

}  // namespace krafla
