// SPDX-License-Identifier: Apache-2.0
// Archives of files that lie in memory.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "krafla/status.h"

namespace krafla {

struct ZipEntry {
  std::string name;
  std::string_view head;                 // what the file begins with,
  std::span<const std::byte> rest = {};  // and what follows; both must outlive the call
  bool is_compressed = false;
};
// Equal entries make equal files.
Result<> WriteZip(const std::string& path, std::span<const ZipEntry> entries);

}  // namespace krafla
