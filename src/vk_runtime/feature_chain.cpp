// SPDX-License-Identifier: Apache-2.0
#include "vk_runtime/feature_chain.h"

namespace krafla::vk {

void FeatureChain::Link(const Extensions& available, uint32_t api_version) {
  void** next = &core.pNext;
#define KRAFLA_LINK(member, type, stype, extension, version)                \
  has_##member = HasFeature(available, api_version, extension, version);    \
  if (has_##member) {                                                       \
    member = {};                                                            \
    member.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_##stype;               \
    *next = &member;                                                        \
    next = &member.pNext;                                                   \
  }
  KRAFLA_FEATURE_STRUCTS(KRAFLA_LINK)
#undef KRAFLA_LINK
}

}  // namespace krafla::vk
