// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "ir/module.h"
#include "krafla/literal.h"

namespace krafla::fuzz {

struct Failing {
  std::unique_ptr<Module> module;
  std::vector<Literal> arguments;  // one a parameter of the entry, arrays all
};

// The smallest module found in about `seconds` for which `fails` still holds: earlier roots, and values in place of the
// instructions that made them.
Failing Shrink(Failing from, const std::function<bool(const Module&, const std::vector<Literal>&)>& fails,
               double seconds);

}  // namespace krafla::fuzz
