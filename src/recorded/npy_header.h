// SPDX-License-Identifier: Apache-2.0
// The header of a .npy array: "\x93NUMPY", a version, a length and a Python dictionary
// {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }  (NumPy Enhancement Proposal 1).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "krafla/shape.h"
#include "krafla/status.h"

namespace krafla {

struct NpyHeader {
  Shape shape;
  bool fortran_order = false;
};

// The first bytes of every .npy file: magic, version and, from version 2 on, four bytes of length.
inline constexpr std::size_t kNpyPreamble = 10;
inline constexpr std::size_t kNpyPreambleV2 = 12;
inline constexpr std::size_t kMaxNpyHeader = 64 * 1024;

// The length of the dictionary and where it begins; `preamble` holds at least kNpyPreambleV2 bytes.
struct NpyLength {
  std::size_t begin = 0, length = 0;
};
Result<NpyLength> ReadNpyLength(std::span<const std::byte> preamble);
Result<NpyHeader> ReadNpyDictionary(std::string_view text);
// The whole header of a C-order array, padded so that the data begins at a multiple of 64.
// Errors: a shape that is not an array.
Result<std::string> MakeNpyHeader(const Shape& shape);

}  // namespace krafla
