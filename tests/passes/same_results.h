// SPDX-License-Identifier: Apache-2.0
// Whether passes leave what a module computes: the evaluator runs it before and after them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "krafla/literal.h"

namespace krafla {

// Small whole numbers, so that sums come out the same in any order; floats are such multiples of `unit`, a power of
// two.
Literal SmallNumbers(const Shape& shape, uint32_t seed, float unit = 1);

// Every kind of float, some twice, and NaNs of both signs.
Literal FloatLine(int64_t rows, int64_t length);

Result<Literal> RunWith(const Module& module, const std::vector<Literal>& arguments);

// The module with `passes` applied, which gives what it gave, to `tolerance`; `last` replaces the last argument. Null,
// and a failed test, where it cannot be run.
std::unique_ptr<Module> ExpectSame(std::string_view text, const std::vector<std::string>& passes, double tolerance = 0,
                                   const Literal* last = nullptr);

}  // namespace krafla
