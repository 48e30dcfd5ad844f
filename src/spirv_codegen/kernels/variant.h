// SPDX-License-Identifier: Apache-2.0
// The ways to generate a kernel of a family, as a table: rows are tried in order, and the first that does not refuse
// the problem makes the kernel. The last row refuses nothing.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "krafla/status.h"

namespace krafla::spirv {

// Why a variant does not take a problem, in a few words without a full stop; nothing where it takes the problem. Empty
// words: it is for few devices, of which this is none.
using Refusal = std::optional<std::string>;

template <typename Problem, typename Made>
struct Variant {
  std::string_view name;               // as reasons name it
  Refusal (*refuses)(const Problem&);  // null: it takes everything
  // `refused` is what the variants before this one have said, for EmittedKernel::reason.
  Made (*make)(const Problem&, std::string refused);
};

template <typename Problem, typename Made, std::size_t n>
constexpr bool TakesEverything(const Variant<Problem, Made> (&variants)[n]) {
  return variants[n - 1].refuses == nullptr;
}

// Makes the problem by the first variant that takes it. Refusals read "coop: the device has none; rows: a short depth".
template <typename Problem, typename Made, std::size_t n>
Made MakeFirst(const Variant<Problem, Made> (&variants)[n], const Problem& problem) {
  std::string refused;
  for (const Variant<Problem, Made>& variant : variants) {
    const Refusal why = variant.refuses == nullptr ? std::nullopt : variant.refuses(problem);
    if (!why) return variant.make(problem, std::move(refused));
    if (why->empty()) continue;
    refused += Format("{}{}: {}", refused.empty() ? "" : "; ", variant.name, *why);
  }
  KRAFLA_UNREACHABLE();
}

}  // namespace krafla::spirv
