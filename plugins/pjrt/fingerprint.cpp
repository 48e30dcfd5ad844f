// SPDX-License-Identifier: Apache-2.0
#include "plugins/pjrt/fingerprint.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <vector>

#include "krafla/status.h"

namespace krafla::pjrt {

std::string Fingerprint(std::initializer_list<std::string_view> texts) {
  std::vector<XXH128_hash_t> parts;
  for (std::string_view text : texts) parts.push_back(XXH3_128bits(text.data(), text.size()));
  const XXH128_hash_t all = XXH3_128bits(parts.data(), parts.size() * sizeof(parts[0]));
  return Format("{:016x}{:016x}", all.high64, all.low64);
}

}  // namespace krafla::pjrt
