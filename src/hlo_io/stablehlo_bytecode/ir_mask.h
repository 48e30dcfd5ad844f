// SPDX-License-Identifier: Apache-2.0
// What the file's readers and writers share: the numbers of sections, and what an operation has after its location
// (mlir/lib/Bytecode/Encoding.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

namespace krafla::stablehlo {

enum SectionNumber : uint8_t {
  kStringSection,
  kDialectSection,
  kEntrySection,
  kOffsetSection,
  kIrSection,
  kResourceSection,
  kResourceOffsetSection,
  kDialectVersionSection,
  kPropertiesSection,
  kSectionCount
};

enum OpMask : uint8_t {
  kHasAttributes = 0x01,
  kHasResults = 0x02,
  kHasOperands = 0x04,
  kHasSuccessors = 0x08,
  kHasRegions = 0x10,
  kHasUseOrders = 0x20,
  kHasProperties = 0x40,
};

// "a,b,c"
inline std::vector<std::string_view> SplitNames(std::string_view list) {
  std::vector<std::string_view> out;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    out.push_back(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return out;
}

}  // namespace krafla::stablehlo
