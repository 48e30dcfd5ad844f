// SPDX-License-Identifier: Apache-2.0
// Programs whose innermost dimensions have been written out: a few elements of each point become nodes of one program
// over the other dimensions.
#pragma once

#include <optional>

#include "plan/element_program.h"
#include "plan/kernel_plan.h"

namespace krafla::cpu {

// A reduction of few elements a row as a loop over the rows: native code goes through many rows at once, and a loop's
// turn has it as a part of its own. The elements are combined in their order. Nothing: it is better done as a
// reduction.
std::optional<plan::ElementProgram> UnrolledReduction(const plan::ReduceKernel& body, int64_t runs);

// A reduction that adds up at most so many loads a row, whose places are computed, in their order, as a loop over the
// rows. Nothing: it is another one.
std::optional<plan::ElementProgram> UnrolledSum(const plan::ReduceKernel& body, int64_t most);

// Many products of a vector of up to 4 elements with vectors, as the lightness of pixels, and of integers in matrices
// of such a depth, as a loop over all of them, and few products of small matrices that a program's loop runs in each of
// its turns, which can have them as a part of its own. Nothing: it is better done as a product of matrices.
std::optional<plan::ElementProgram> UnrolledProduct(const plan::DotKernel& dot, int64_t runs);

// A loop over rows of 2 to 4 elements that are stored one behind the other, but some of which are loaded from far
// apart: over the rows, each of whose elements is a value of its own. Nothing: its rows are as well taken as they are.
std::optional<plan::ElementProgram> UnrolledRows(const plan::ElementProgram& program);

}  // namespace krafla::cpu
