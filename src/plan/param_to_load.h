// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/element_program.h"

namespace krafla::plan {

// The program with param `number` replaced by a load from a new last buffer of type `storage`, which has one element
// for each point in row-major order. An epilogue becomes so a loop of its own over sums that another kernel wrote.
ElementProgram ParamToLoad(ElementProgram program, uint64_t number, ElementType storage);

}  // namespace krafla::plan
