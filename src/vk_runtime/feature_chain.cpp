// SPDX-License-Identifier: Apache-2.0
#include "vk_runtime/feature_chain.h"

#include <algorithm>
#include <cstring>
#include <utility>

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
// Every feature struct is a type, a pointer, and then VkBool32s. Behind an odd number of those lies a word that belongs
// to nobody, which clang leaves as it was.
template <typename T, std::size_t... I>
constexpr bool TakesBools(std::index_sequence<I...>) {
  return requires { T{VkStructureType{}, nullptr, (static_cast<void>(I), VkBool32{})...}; };
}
template <typename T>
bool AnySet(const T& features) {
  constexpr std::size_t kFirst = sizeof(VkBaseOutStructure);
  static_assert(sizeof(T) > kFirst);
  constexpr std::size_t kWords = (sizeof(T) - kFirst) / sizeof(VkBool32);
  constexpr std::size_t kBools = TakesBools<T>(std::make_index_sequence<kWords>()) ? kWords : kWords - 1;
  static_assert(TakesBools<T>(std::make_index_sequence<kBools>()));
  VkBool32 bools[kBools];
  std::memcpy(bools, reinterpret_cast<const char*>(&features) + kFirst, sizeof(bools));
  return std::ranges::any_of(bools, [](VkBool32 b) { return b != VK_FALSE; });
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
