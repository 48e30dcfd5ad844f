// SPDX-License-Identifier: Apache-2.0
// The sections of an MLIR bytecode file, as far as every dialect shares them (mlir.llvm.org/docs/BytecodeFormat).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hlo_io/stablehlo_bytecode/byte_stream.h"
#include "krafla/status.h"

namespace krafla::stablehlo {

enum class Dialect : uint8_t { kVhlo, kBuiltin, kSdy, kStablehlo, kOther };

struct Container {
  struct OpName {
    Dialect dialect = Dialect::kOther;
    std::string_view dialect_name, name;
  };
  struct Entry {  // an attribute or a type, not yet decoded
    Dialect dialect = Dialect::kOther;
    bool custom = false;  // in its dialect's own encoding, not as text
    std::string_view bytes;
  };
  uint64_t version = 0;
  std::string_view producer;  // "StableHLO_v1.13.7"
  std::vector<std::string_view> strings;
  std::vector<OpName> op_names;
  std::vector<Entry> attributes, types;
  std::vector<std::string_view> properties;
  std::string_view ir;
};

// Views into `bytes`. INVALID_ARGUMENT for bytes that are no such file, UNIMPLEMENTED for a version this cannot read.
Result<Container> ReadContainer(std::string_view bytes);

// A section header; `body` gets what is in it. False where the bytes are not one.
bool ReadSection(ByteStream& stream, uint8_t* id, std::string_view* body);

}  // namespace krafla::stablehlo
