// SPDX-License-Identifier: Apache-2.0
// A small module for each operation and element type: what `krafla ops` asks a device about.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/opcode.h"
#include "krafla/element_type.h"

namespace krafla::cli {

// Element types of the operation's row.
std::vector<ElementType> TypesOf(const OpInfo& op);

// HLO text of a module with this operation alone; nothing for what does no work of its own or lies between devices.
// Whether the operation takes the type is for the verifier to say.
std::optional<std::string> ExampleOf(const OpInfo& op, ElementType type);

}  // namespace krafla::cli
