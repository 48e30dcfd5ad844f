// SPDX-License-Identifier: Apache-2.0
#include "base/validation.h"

#include <cctype>
#include <cstdlib>
#include <string>

namespace krafla {

Result<Validation> ValidationAskedFor() {
  const char* asked = std::getenv("KRAFLA_VALIDATE");
  if (asked == nullptr) return Validation::kNone;
  std::string word;
  for (const char* c = asked; *c != 0; ++c) word += static_cast<char>(std::tolower(static_cast<unsigned char>(*c)));
  for (const char* yes : {"1", "true", "on", "yes"})
    if (word == yes) return Validation::kCalls;
  for (const char* no : {"", "0", "false", "off", "no"})
    if (word == no) return Validation::kNone;
  if (word == "gpu") return Validation::kShaders;
  return InvalidArgument(
      "KRAFLA_VALIDATE is '{}'; say 1, true, on or yes, gpu for what shaders do, or 0, false, off or no.", asked);
}

}  // namespace krafla
