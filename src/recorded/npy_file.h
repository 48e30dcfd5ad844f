// SPDX-License-Identifier: Apache-2.0
// One array in a file of its own (.npy).
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "krafla/literal.h"
#include "krafla/status.h"
#include "recorded/npy_header.h"

namespace krafla {

struct NpyFile {
  NpyHeader header;
  std::size_t begin = 0;  // of the elements
};
// From the first bytes of a file of `total` bytes: all of it, or kNpyPreambleV2 + kMaxNpyHeader.
Result<NpyFile> ReadNpyBegin(std::span<const std::byte> bytes, int64_t total);
Result<Literal> ReadNpyBytes(std::span<const std::byte> bytes);
Result<Literal> ReadNpy(const std::string& path);

// What the elements of a file mean: truth values are 0 or 1, and dimensions go from major to minor.
Result<Literal> FromStoredOrder(const NpyHeader& header, Literal stored);

}  // namespace krafla
