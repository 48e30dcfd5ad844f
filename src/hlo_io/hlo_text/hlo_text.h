// SPDX-License-Identifier: Apache-2.0
// HLO text in and out. The reader takes every form that XLA prints or reads: with and without '%', types on operands,
// signatures, comments, attributes in any order, computations in any order, inline computations, the "-start/-update
// /-done" sugar of async ops. Input is untrusted: any bytes give a module or an error, in linear time.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "ir/module.h"
#include "krafla/status.h"

namespace krafla {

struct HloTextLimits {
  int64_t max_instructions = 5'000'000;
  int max_depth = 200;                            // nesting of tuples, literals and inline computations
  int64_t max_constant_bytes = int64_t{4} << 30;  // of all constants together
};

// `file` is for messages only: "model.hlo:12:8: unknown opcode 'ad' ...\n    the line\n       ^".
// The module is not verified.
Result<std::unique_ptr<Module>> ParseHloText(std::string_view text, std::string_view file = "<text>",
                                             const HloTextLimits& limits = {});
// One shape, e.g. "f32[2,3]{0,1}".
Result<Shape> ParseShape(std::string_view text);
// One literal of a known shape, as HLO text writes it: "{ {1, 2}, {3, 4} }" or "1".
Result<Literal> ParseLiteral(std::string_view text, const Shape& shape);

struct HloPrintOptions {
  bool percent = false;  // '%' before names, as XLA prints
  bool operand_types = false;
  bool layouts = true;
  bool metadata = true;
  // Constants of more elements print as {...}; negative: print all. A text with elided constants does not round-trip.
  int64_t elide_constants_over = -1;
};

// print(parse(t)) parses to an equal module (SameModule).
std::string PrintModule(const Module& module, const HloPrintOptions& options = {});
std::string PrintInstruction(const Instruction& instruction, const HloPrintOptions& options = {});
std::string PrintLiteral(const Literal& literal);

}  // namespace krafla
