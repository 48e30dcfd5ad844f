// SPDX-License-Identifier: Apache-2.0
#include "base/guards.h"

#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/checked_math.h"
#include "base/system.h"

namespace krafla {
namespace {

// No number that a program has by chance: a NaN in f16, -1.2e17 in f32, far outside of any array as an index.
constexpr int kUnwritten = 0xDB;

// So many bytes in whole pages; fewer than `size` where that is no number.
std::size_t InPages(std::size_t size) { return (size + os::PageBytes() - 1) / os::PageBytes() * os::PageBytes(); }

}  // namespace

Result<Guards> GuardsAskedFor() {
  const char* asked = std::getenv("KRAFLA_GUARD");
  const std::string_view word = asked == nullptr ? "" : asked;
  if (word.empty() || word == "0") return Guards::kNone;
  if (word == "before") return Guards::kBefore;
  if (word == "behind") return Guards::kBehind;
  return InvalidArgument(
      "KRAFLA_GUARD is '{}'; say before or behind for where pages that nobody may touch lie beside arrays, or 0.",
      word);
}

Guards GuardsInUse() {
  static const Guards guards = GuardsAskedFor().value_or(Guards::kNone);
  return guards;
}

int64_t PlaceBetweenGuards(int64_t size, int64_t alignment, Guards guards) {
  return guards == Guards::kBehind ? RoundUp(size, kGuardBytes) - RoundUp(size, alignment) : 0;
}
int64_t BytesBetweenGuards(int64_t size) { return RoundUp(size, kGuardBytes) + kGuardBytes; }

void GuardBetween(std::byte* block, int64_t size, std::span<const GuardedRange> arrays) {
  std::vector<bool> is_used(static_cast<std::size_t>(size / kGuardBytes));
  for (const GuardedRange& a : arrays)
    for (int64_t at = a.offset / kGuardBytes * kGuardBytes; at < a.offset + a.size; at += kGuardBytes)
      is_used[static_cast<std::size_t>(at / kGuardBytes)] = true;
  for (std::size_t n = 0; n < is_used.size(); ++n)
    if (!is_used[n])
      os::MakeEmpty(block + static_cast<int64_t>(n) * kGuardBytes, static_cast<std::size_t>(kGuardBytes));
}

std::byte* TakeGuardedBlock(std::size_t size, std::size_t alignment) {
  const std::size_t page = os::PageBytes(), bytes = InPages(size);
  if (bytes < size) return nullptr;
  auto* const first = static_cast<std::byte*>(os::ReservePages(bytes + 2 * page));
  if (first == nullptr) return nullptr;
  if (!os::MakeWritable(first + page, bytes)) {
    os::ReleasePages(first, bytes + 2 * page);
    return nullptr;
  }
  std::memset(first + page, kUnwritten, bytes);
  const std::size_t aligned = (size + alignment - 1) / alignment * alignment;
  return first + page + (GuardsInUse() == Guards::kBehind ? bytes - aligned : 0);
}

void ReturnGuardedBlock(std::byte* data, std::size_t size) noexcept {
  const std::size_t page = os::PageBytes(), bytes = InPages(size);
  std::byte* const first = data - reinterpret_cast<std::uintptr_t>(data) % page - page;
  os::ReleasePages(first, bytes + 2 * page);
}

}  // namespace krafla
