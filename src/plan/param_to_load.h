// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/element_program.h"

namespace krafla::plan {

// The program with param `number` read from a new last buffer of `storage`, one element a point in row-major order: how
// an epilogue runs as a loop of its own over sums that were written out.
ElementProgram ParamToLoad(ElementProgram program, uint64_t number, ElementType storage);

}  // namespace krafla::plan
