// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <nlohmann/json.hpp>

#include "command.h"
#include "results.h"
#include "roof.h"
#ifdef KRAFLA_HAVE_VULKAN
#include "api/vulkan/vulkan_probes.h"
#endif

namespace krafla::cli {
#ifdef KRAFLA_HAVE_VULKAN
namespace {

using Rates = std::vector<Rate>;

// For people: "12.3 GB/s", "4.5 us".
std::string RateText(const Rate& rate) {
  if (!rate.missing.empty()) return "none: " + rate.missing;
  if (rate.unit == "s") return FormatMs(rate.value * 1e3);
  return Format("{:.4g} {}", rate.value * 1e-9, rate.unit == "flop/s" ? "GFLOP/s" : "GB/s");
}

void PrintProbes(const std::string& selector, const ProbedDevice& device, const Rates& rates) {
  std::printf("%-10s %s\n", selector.c_str(), device.name.c_str());
  for (const vk::ProbeReport& report : device.reports) {
    std::printf("  %s%s%s\n", report.name.c_str(), report.not_asked.empty() ? "" : ": not asked. ",
                report.not_asked.c_str());
    for (const vk::ProbeAnswer& a : report.answers)
      std::printf("    %s: %s%s\n", a.question.c_str(), a.answer.c_str(), a.right ? "" : "   WRONG");
  }
  std::printf("  rates, by krafla's own kernels\n");
  for (const Rate& rate : rates) std::printf("    %s: %s\n", rate.name.c_str(), RateText(rate).c_str());
}

void PrintProbesAsJson(const std::string& selector, const ProbedDevice& device, const Rates& rates) {
  nlohmann::ordered_json line = {{"device", selector}, {"name", device.name}};
  for (const vk::ProbeReport& report : device.reports) {
    nlohmann::ordered_json& probe = line["probes"][report.name];
    if (!report.not_asked.empty()) probe["not_asked"] = report.not_asked;
    for (const vk::ProbeAnswer& a : report.answers)
      probe["answers"].push_back({{"question", a.question}, {"answer", a.answer}, {"right", a.right}});
  }
  for (const Rate& rate : rates) {
    nlohmann::ordered_json& out = line["rates"][rate.name] = {{"unit", rate.unit}};
    if (rate.missing.empty()) out["value"] = rate.value;
    else out["missing"] = rate.missing;
  }
  PrintJsonLine(line);
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
    auto client = Client::Create(d.selector);
    if (!client) {
      code = FailDevice(client.error());
      continue;
    }
    if (StderrIsTerminal()) std::fprintf(stderr, "krafla: measuring the rates of %s\n", d.selector.c_str());
    CompileOptions plain;
    plain.disabled.insert("tuned");
    (json ? PrintProbesAsJson : PrintProbes)(d.selector, *probed, MeasureRates(**client, plain));
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
