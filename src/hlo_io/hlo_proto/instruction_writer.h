// SPDX-License-Identifier: Apache-2.0
// An instruction's attributes as the fields of HloInstructionProto.
#pragma once

#include "hlo_io/hlo_proto/wire.h"
#include "ir/module.h"

namespace krafla::hlo_proto {

// Everything but name, opcode, shape and the numbers of other things.
Result<> WriteAttributes(Writer& writer, const Instruction& instruction);

}  // namespace krafla::hlo_proto
