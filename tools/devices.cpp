// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <nlohmann/json.hpp>

#include "api/back_ends.h"
#include "api/group/device_links.h"
#include "command.h"
#include "results.h"

namespace krafla::cli {

int Links(const DeviceOptions& options) {
  const auto devices = ListDevices();
  if (!devices) return FailDevice(devices.error());
  int code = kRight;
  for (const DeviceDescription& from : *devices)
    for (const DeviceDescription& to : *devices) {
      const auto back_end = BackEndOf(from.selector);
      if (!back_end) return Fail(back_end.error());
      // What other kinds of devices do, and what lies between kinds, goes through the host.
      std::vector<LinkProbe> probes = {{PathKind::kHost, ""}};
      const bool are_one_kind = to.selector.starts_with(back_end->name);
      if (are_one_kind && back_end->probe != nullptr) {
        auto probed = back_end->probe(from.selector, to.selector);
        if (!probed) {
          code = FailDevice(probed.error());
          continue;
        }
        probes = std::move(*probed);
      }
      for (const LinkProbe& p : probes) {
        if (options.json) {
          PrintJsonLine({{"from", from.selector},
                         {"to", to.selector},
                         {"path", NameOf(p.kind)},
                         {"works", p.refused.empty()},
                         {"refused", p.refused}});
        } else {
          std::printf("%-10s %-10s %-13s %s\n", from.selector.c_str(), to.selector.c_str(),
                      std::string(NameOf(p.kind)).c_str(), p.refused.empty() ? "works" : p.refused.c_str());
        }
      }
    }
  return code;
}

int Devices(const DeviceOptions& options) {
  std::string why;
  const auto devices = ListDevices(&why);
  if (!devices) return FailDevice(devices.error());
  const int threads = options.threads > 0 ? options.threads : ThreadPool::DefaultThreads();
  for (const DeviceDescription& d : *devices) {
    if (options.json) {
      nlohmann::ordered_json line;
      line["device"] = d.selector;
      if (d.runs_on_host_threads) line["threads"] = threads;
      if (d.profile) {
        line["name"] = d.profile->name;
        line["driver"] = d.profile->driver_name;
        line["driver_info"] = d.profile->driver_info;
        line["uuid"] = d.profile->device_uuid;
        line["profile"] = nlohmann::ordered_json::parse(d.profile->ToJson(), nullptr, false);
      }
      PrintJsonLine(line);
      continue;
    }
    if (d.runs_on_host_threads) {
      std::printf("%-10s %d threads\n", d.selector.c_str(), threads);
      continue;
    }
    if (!d.profile) {
      std::printf("%-10s %s\n", d.selector.c_str(), d.name.c_str());
      continue;
    }
    const DeviceFeatures& f = d.profile->features;
    std::string features;
    auto add = [&](bool has, const char* name) {
      if (has) features += Format("{}{}", features.empty() ? "" : " ", name);
    };
    add(f.float16, "fp16"), add(f.float64, "fp64"), add(f.int64, "int64"), add(f.int8, "int8");
    add(f.storage16, "storage16"), add(f.storage8, "storage8"), add(f.buffer_device_address, "bda");
    add(f.cooperative_matrix, "coopmat"), add(f.bfloat16, "bf16"), add(f.timeline_semaphore, "timeline");
    std::printf("%-10s %s, %s %s\n           uuid %s; %s\n", d.selector.c_str(), d.profile->name.c_str(),
                d.profile->driver_name.c_str(), d.profile->driver_info.c_str(), d.profile->device_uuid.c_str(),
                features.c_str());
  }
  if (!why.empty()) std::fprintf(stderr, "krafla: no Vulkan device: %s\n", why.c_str());
  return kRight;
}

}  // namespace krafla::cli
