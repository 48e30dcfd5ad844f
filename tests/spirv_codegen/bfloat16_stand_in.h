// SPDX-License-Identifier: Apache-2.0
// Validators older than SPV_KHR_bfloat16 refuse its capabilities, so modules with bf16 matrices are validated with f16
// in its place: everything else about them is the same.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "spirv/unified1/spirv.hpp11"

namespace krafla::spirv::testing {

inline std::vector<uint32_t> WithoutBFloat16(std::span<const uint32_t> words) {
  constexpr uint32_t kType = 5116, kMatrix = 5118;
  std::vector<uint32_t> out(words.begin(), words.begin() + std::min<std::ptrdiff_t>(5, std::ssize(words)));
  for (std::size_t at = 5; at < words.size();) {
    const std::size_t count = words[at] >> 16;
    if (count == 0 || at + count > words.size()) return {words.begin(), words.end()};
    std::vector<uint32_t> copy(words.begin() + static_cast<std::ptrdiff_t>(at),
                               words.begin() + static_cast<std::ptrdiff_t>(at + count));
    at += count;
    const auto op = static_cast<spv::Op>(copy[0] & 0xffff);
    if (op == spv::Op::OpCapability && (copy[1] == kType || copy[1] == kMatrix)) {
      copy[1] = static_cast<uint32_t>(spv::Capability::Float16);
    } else if (op == spv::Op::OpExtension &&
               std::string_view(reinterpret_cast<const char*>(copy.data() + 1)) == "SPV_KHR_bfloat16") {
      continue;
    } else if (op == spv::Op::OpTypeFloat && count == 4) {
      copy = {3u << 16 | static_cast<uint32_t>(op), copy[1], copy[2]};
    }
    out.insert(out.end(), copy.begin(), copy.end());
  }
  return out;
}

}  // namespace krafla::spirv::testing
