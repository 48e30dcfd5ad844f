// SPDX-License-Identifier: Apache-2.0
// Text in, expression out: a module is parsed and verified, passes run on it, it is verified again, and the result of
// its entry is written as one expression: "add f32[4](p0, broadcast{0} f32[4](p1))".
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hlo_io/hlo_text/hlo_text.h"
#include "ir/verifier.h"
#include "passes/pipeline.h"

namespace krafla {

// "{1,0}", "{0:4:2}", ... : what tells instructions of one opcode apart.
std::string AttributeText(const Instruction& instruction);
std::string Expression(const Instruction& instruction);

// The module after the passes; null (and a failed test) where anything goes wrong. With no passes: the pipeline.
std::unique_ptr<Module> RunOn(std::string_view text, const std::vector<std::string>& passes = {});
// "ENTRY main {" and "}" around `body`.
std::string Entry(std::string_view body);
// The expression of the entry's root after `passes` ran on a module whose entry is `body`.
std::string After(const std::vector<std::string>& passes, std::string_view body);

// All instructions of reachable computations with the opcode.
std::vector<const Instruction*> Find(const Module& module, Opcode opcode);

}  // namespace krafla
