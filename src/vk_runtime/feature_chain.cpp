// SPDX-License-Identifier: Apache-2.0
#include "vk_runtime/feature_chain.h"

#include <algorithm>
#include <cstring>

namespace krafla::vk {

void FeatureChain::Link(const Extensions& available, uint32_t api_version) {
  void** next = &core.pNext;
#define KRAFLA_LINK(member, type, stype, extension, version)             \
  has_##member = HasFeature(available, api_version, extension, version); \
  if (has_##member) {                                                    \
    member = {};                                                         \
    member.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_##stype;            \
    *next = &member;                                                     \
    next = &member.pNext;                                                \
  }
  KRAFLA_FEATURE_STRUCTS(KRAFLA_LINK)
#undef KRAFLA_LINK
}

namespace {
// Every feature struct is a type, a pointer, and then VkBool32s.
template <typename T>
bool AnySet(const T& features) {
  constexpr std::size_t kFirst = sizeof(VkBaseOutStructure);
  static_assert(sizeof(T) > kFirst);
  VkBool32 words[(sizeof(T) - kFirst) / sizeof(VkBool32)];
  std::memcpy(words, reinterpret_cast<const char*>(&features) + kFirst, sizeof(words));
  return std::ranges::any_of(words, [](VkBool32 w) { return w != VK_FALSE; });
}
bool InCore(uint32_t api_version, uint32_t core) { return core != 0 && api_version >= core; }
}  // namespace

void FeatureChain::LinkUsed(uint32_t api_version, std::vector<const char*>& extensions) {
  void** next = &core.pNext;
#define KRAFLA_LINK(member, type, stype, extension, version)            \
  if (AnySet(member)) {                                                 \
    member.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_##stype;           \
    *next = &member;                                                    \
    next = &member.pNext;                                               \
    if (!InCore(api_version, version)) extensions.push_back(extension); \
  }
  KRAFLA_FEATURE_STRUCTS(KRAFLA_LINK)
#undef KRAFLA_LINK
}

}  // namespace krafla::vk
