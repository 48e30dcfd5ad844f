// SPDX-License-Identifier: Apache-2.0
// The container of a compiled model: a header, a table of sections, and the sections (docs/ahead-of-time.md has it byte
// by byte). Nothing of what a file says of itself is believed: every size and offset is checked before it is used.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "krafla/status.h"

namespace krafla::compiled {

inline constexpr std::string_view kMagic = "\x89KRAFLA\n";
inline constexpr uint32_t kFormatVersion = 1;
// Weights begin at a multiple of it, so that they are used where the file is mapped: the largest page of the systems
// that krafla runs on (arm64 has pages of 4, 16 and 64 KiB).
inline constexpr uint64_t kWeightsAlignment = 65536;

enum class SectionKind : uint32_t {
  kManifest = 1,   // JSON: what made it, and which program is for which back ends
  kInterface = 2,  // HloModuleProto: the program as callers see it
  kProgram = 3,    // HloModuleProto, one for each entry of the manifest's "programs", in their order
  kWeights = 4,    // bytes of large constants
};

struct Section {
  SectionKind kind;
  std::string_view bytes;
};

// The sections of a file, which point into `bytes`. DATA_LOSS for what is damaged or cut short, FAILED_PRECONDITION for
// a format of another version. `name` is for messages. The bytes of weights are not looked at.
Result<std::vector<Section>> ReadSections(std::string_view bytes, std::string_view name);

// What comes before the weights: header, table, and `sections` (which are no weights), with zeros up to where
// `weight_bytes` of weights begin; nothing behind them where there are none.
std::string WriteSections(std::span<const Section> sections, uint64_t weight_bytes);

}  // namespace krafla::compiled
