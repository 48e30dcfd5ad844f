// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <nlohmann/json.hpp>

#include "command.h"
#ifdef KRAFLA_HAVE_VULKAN
#include "api/vulkan/vulkan_probes.h"
#endif

namespace krafla::cli {
#ifdef KRAFLA_HAVE_VULKAN
namespace {

void PrintProbes(const std::string& selector, const ProbedDevice& device) {
  std::printf("%-10s %s\n", selector.c_str(), device.name.c_str());
  for (const vk::ProbeReport& report : device.reports) {
    std::printf("  %s%s%s\n", report.name.c_str(), report.not_asked.empty() ? "" : ": not asked. ",
                report.not_asked.c_str());
    for (const vk::ProbeAnswer& a : report.answers)
      std::printf("    %s: %s%s\n", a.question.c_str(), a.answer.c_str(), a.right ? "" : "   WRONG");
  }
}

void PrintProbesAsJson(const std::string& selector, const ProbedDevice& device) {
  nlohmann::ordered_json line = {{"device", selector}, {"name", device.name}};
  for (const vk::ProbeReport& report : device.reports) {
    nlohmann::ordered_json& probe = line["probes"][report.name];
    if (!report.not_asked.empty()) probe["not_asked"] = report.not_asked;
    for (const vk::ProbeAnswer& a : report.answers)
      probe["answers"].push_back({{"question", a.question}, {"answer", a.answer}, {"right", a.right}});
  }
  std::printf("%s\n", line.dump().c_str());
}

}  // namespace

int Probe(bool json) {
  std::string why;
  const auto devices = ListDevices(&why);
  if (!devices) return FailDevice(devices.error());
  int code = kRight;
  for (const DeviceDescription& d : *devices) {
    if (!d.profile) continue;
    const auto probed = ProbeVulkanDevice(d.selector);
    if (!probed) {
      code = FailDevice(probed.error());
      continue;
    }
    (json ? PrintProbesAsJson : PrintProbes)(d.selector, *probed);
    for (const vk::ProbeReport& report : probed->reports)
      for (const vk::ProbeAnswer& a : report.answers)
        if (!a.right && code == kRight) code = kCheckFailed;
  }
  if (!why.empty()) std::fprintf(stderr, "krafla: no Vulkan device: %s\n", why.c_str());
  return code;
}
#else

int Probe(bool) {
  return FailDevice(
      Status(StatusCode::kUnimplemented, "This krafla was built without Vulkan, so that there is no device to probe."));
}
#endif

}  // namespace krafla::cli
