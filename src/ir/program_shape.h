// SPDX-License-Identifier: Apache-2.0
// What callers of a computation see, as the public headers have it.
#pragma once

#include "ir/module.h"
#include "krafla/xla_computation.h"

namespace krafla {

// `result`: in the place of the root's shape, where there is no root yet. A missing parameter has no shape.
ProgramShape ProgramShapeOf(const Computation& computation, const Shape& result);

}  // namespace krafla
