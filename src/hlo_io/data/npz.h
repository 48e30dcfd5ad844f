// SPDX-License-Identifier: Apache-2.0
// NumPy's .npz (zip of .npy) in and out, through libzip. bf16 is stored as u2 bits and 8-bit floats as u1 bits, as
// NumPy has no names for them; the caller says which type is meant.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "ir/literal.h"

namespace krafla {

struct NamedLiteral {
  std::string name;
  Literal literal;
};

// Arrays in the order of the archive. Element types are NumPy's (bool -> pred, <u2 -> u16, <c8 -> c64 ...).
Result<std::vector<NamedLiteral>> ReadNpz(const std::string& path);
Result<> WriteNpz(const std::string& path, const std::vector<NamedLiteral>& arrays);

// `literal` read as `shape`: equal dimensions, and either the same type or the stored stand-in of the same width
// (u16 for bf16, u8 for f8 and sub-byte types; f2/f4/f8 exact).
Result<Literal> AdoptShape(Literal literal, const Shape& shape);

}  // namespace krafla
