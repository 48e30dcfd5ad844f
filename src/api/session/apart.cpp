// SPDX-License-Identifier: Apache-2.0
#include "api/session/apart.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

namespace krafla {
namespace {

// Addresses are compared as numbers: ranges of different arrays have no order of their own.
struct Range {
  std::uintptr_t begin, end;
  std::size_t number;
};
template <typename Bytes>
Range RangeOf(const Bytes& bytes, std::size_t number) {
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  return {begin, begin + bytes.size(), number};
}

}  // namespace

void InputsApart::Copy(std::size_t i) {
  if (apart_.empty()) apart_.assign(given_.begin(), given_.end());
  AlignedBytes copy(given_[i].size(), false);
  std::memcpy(copy.data(), given_[i].data(), copy.size());
  apart_[i] = copy.span();
  copies_.push_back(std::move(copy));
}

Result<InputsApart> InputsApart::Of(Span<InputBytes> inputs, Span<OutputBytes> outputs) {
  InputsApart out(inputs);
  std::array<Range, 64> here;
  std::vector<Range> more;
  if (outputs.size() > here.size()) more.resize(outputs.size());
  Range* const first = more.empty() ? here.data() : more.data();
  Range* last = first;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i].data() != nullptr && !outputs[i].empty()) *last++ = RangeOf(outputs[i], i);
  std::sort(first, last, [](const Range& a, const Range& b) { return a.begin < b.begin; });
  for (const Range* range = first; range != last && range + 1 != last; ++range)
    if (range[1].begin < range->end)
      return InvalidArgument("The outputs {} and {} were given memory that overlaps.",
                             std::min(range->number, range[1].number), std::max(range->number, range[1].number));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].data() == nullptr || inputs[i].empty()) continue;
    const Range input = RangeOf(inputs[i], i);
    // They lie apart, so that their ends are in order too.
    const Range* over = std::partition_point(first, last, [&](const Range& r) { return r.end <= input.begin; });
    if (over != last && over->begin < input.end) out.Copy(i);
  }
  return out;
}

}  // namespace krafla
