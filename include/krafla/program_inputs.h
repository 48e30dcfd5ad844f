// SPDX-License-Identifier: Apache-2.0
// What a program takes, before sizes that it leaves open are known: of a file or its bytes, for no device.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "krafla/element_type.h"
#include "krafla/export.h"
#include "krafla/status.h"

KRAFLA_EXPORT_BEGIN
namespace krafla {

struct ProgramInput {
  struct Dimension {
    int64_t size = -1;  // -1: open
    std::string name;   // of an open one, where the file names it: "batch"
  };
  std::string name;  // "": the file has none; SessionOptions::input_sizes takes its number, "0"
  ElementType type = ElementType::kInvalid;
  bool has_rank = true;  // the number of dimensions is known
  std::vector<Dimension> dimensions;
};

// In the order of the inputs of a session (krafla/session.h), arrays alone. HLO and compiled models leave nothing open.
// Errors are those of reading the program; what follows its inputs is not looked at.
Result<std::vector<ProgramInput>> ReadProgramInputs(std::string_view bytes);
Result<std::vector<ProgramInput>> ReadProgramInputsFile(const std::string& path);

}  // namespace krafla
KRAFLA_EXPORT_END
