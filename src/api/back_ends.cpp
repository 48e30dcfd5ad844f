// SPDX-License-Identifier: Apache-2.0
#include "api/back_ends.h"

#include <algorithm>
#include <mutex>
#include <span>

#ifdef KRAFLA_HAVE_CPU
#include "api/cpu/cpu_client.h"
#endif
#ifdef KRAFLA_HAVE_VULKAN
#include "api/vulkan/vulkan_client.h"
#endif
#if defined(KRAFLA_HAVE_VULKAN) && defined(KRAFLA_HAVE_GROUPS)
#include "api/vulkan/vulkan_links.h"
#endif

namespace krafla {
namespace {

// The CPU stands last: it is there wherever it was built.
constexpr BackEnd kBackEnds[] = {
    {
        .name = "vulkan",
        .selectors =
            "vulkan, vulkan:1, vulkan:uuid=.., vulkan:pci=.., vulkan:type=discrete, vulkan:\"part of the name\"",
#ifdef KRAFLA_HAVE_VULKAN
        .list = ListVulkanDevices,
        .create = CreateVulkanClient,
#ifdef KRAFLA_HAVE_GROUPS
        .link = LinkVulkanDevices,
        .probe = ProbeVulkanLinks,
#endif
    },
#else
        .absent = "This krafla was built without Vulkan."},
#endif
    {.name = "cpu",
     .selectors = "cpu",
#ifdef KRAFLA_HAVE_CPU
     .list = ListCpuDevices,
     .create = CreateCpuClient},
#else
     .absent = "This krafla was built without the CPU back end."},
#endif
};

struct RegisteredBackEnds {
  std::mutex mutex;
  std::vector<BackEnd> rows;
};
RegisteredBackEnds& Registered() {
  static RegisteredBackEnds registered;
  return registered;
}

bool HasName(std::span<const BackEnd> rows, std::string_view name) {
  return std::ranges::contains(rows, name, &BackEnd::name);
}

}  // namespace

std::vector<BackEnd> BackEnds() {
  std::vector<BackEnd> out(std::begin(kBackEnds), std::end(kBackEnds));
  std::lock_guard lock(Registered().mutex);
  out.insert(out.end(), Registered().rows.begin(), Registered().rows.end());
  return out;
}

Result<BackEnd> BackEndOf(std::string_view selector) {
  const std::string_view name = selector.substr(0, selector.find(':'));
  std::string known;
  for (const BackEnd& b : BackEnds()) {
    if (b.name == name) return b;
    known += Format("{}{}", known.empty() ? "" : ", ", b.selectors);
  }
  return InvalidArgument("Unknown device '{}'. The devices are: {}.", selector, known);
}

Result<BackEndRegistration> BackEndRegistration::Make(const BackEnd& back_end) {
  if (back_end.name.empty() || back_end.list == nullptr || back_end.create == nullptr)
    return InvalidArgument("A back end has a name, lists its devices and creates clients; '{}' lacks one of these.",
                           back_end.name);
  std::lock_guard lock(Registered().mutex);
  if (HasName(kBackEnds, back_end.name) || HasName(Registered().rows, back_end.name))
    return InvalidArgument("There is a back end '{}' already.", back_end.name);
  Registered().rows.push_back(back_end);
  return BackEndRegistration(back_end.name);
}

BackEndRegistration::~BackEndRegistration() {
  if (name_.empty()) return;
  std::lock_guard lock(Registered().mutex);
  std::erase_if(Registered().rows, [&](const BackEnd& b) { return b.name == name_; });
}

}  // namespace krafla
