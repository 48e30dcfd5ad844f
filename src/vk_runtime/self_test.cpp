// SPDX-License-Identifier: Apache-2.0
#include "vk_runtime/self_test.h"

#include <algorithm>
#include <cstring>
#include <set>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "vk_runtime/cache_file.h"
#include "vk_runtime/run_once.h"

namespace krafla::vk {
namespace {

uint64_t HashOf(std::span<const SelfTestCase> cases) {
  std::vector<uint64_t> parts;
  auto add = [&](const void* data, std::size_t bytes) { parts.push_back(XXH3_64bits(data, bytes)); };
  for (const SelfTestCase& c : cases) {
    add(c.feature.data(), c.feature.size());
    add(c.kernel.spirv.data(), c.kernel.spirv.size() * sizeof(uint32_t));
    add(c.grid, sizeof(c.grid));
    add(c.input.data(), c.input.size());
    add(c.expected.data(), c.expected.size());
    parts.push_back(uint64_t{c.kernel.subgroup_size} << 8 | c.kernel.binding_count << 1 |
                    (c.kernel.full_subgroups ? 1u : 0u));
  }
  return XXH3_64bits(parts.data(), parts.size() * sizeof(uint64_t));
}

std::string CachePath(const Device& device, std::span<const SelfTestCase> cases) {
  std::string folder = device.options().cache_dir ? *device.options().cache_dir : DefaultCacheDir();
  if (folder.empty()) return "";
  return Format("{}/self-test-{}-{:08x}-{:016x}-{}.bin", folder, device.profile().pipeline_cache_uuid,
                device.profile().driver_version, HashOf(cases), device.uses_addresses() ? "a" : "d");
}

void Save(const std::string& path, const DeviceProfile& profile, const std::set<std::string>& failed) {
  if (path.empty()) return;
  std::string text;
  for (const std::string& feature : failed) text += feature + "\n";
  WriteCacheFile(path, profile, std::as_bytes(std::span(text)));
}

// Empty if the case passes, else why not.
Result<std::string> RunCase(const std::shared_ptr<Device>& device, const SelfTestCase& c) {
  // What the kernel does not write must not look right.
  std::vector<std::byte> got(c.expected);
  for (std::byte& b : got) b = ~b;
  const std::span<const std::byte> inputs[] = {c.input};
  KRAFLA_TRY(RunOnce(device, c.kernel, c.grid, inputs, got, {}, "self-test of " + c.feature));
  auto [a, b] = std::ranges::mismatch(got, c.expected);
  if (a == got.end()) return std::string();
  return Format("byte {} of the output is {:#x}, not {:#x}", a - got.begin(), static_cast<int>(*a),
                static_cast<int>(*b));
}

}  // namespace

Result<SelfTestOutcome> RunSelfTest(const std::shared_ptr<Device>& device, std::span<const SelfTestCase> cases,
                                    const std::set<std::string>& without, std::string* lost_in) {
  KRAFLA_TRY(device->Alive());
  SelfTestOutcome outcome;
  std::set<std::string> failed = without;
  std::string path = CachePath(*device, cases);
  if (auto bytes = path.empty() ? std::nullopt : ReadCacheFile(path, device->profile())) {
    std::string_view text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    while (!text.empty()) {
      std::size_t end = std::min(text.find('\n'), text.size());
      if (end > 0) failed.emplace(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    outcome.failed.assign(failed.begin(), failed.end());
    outcome.from_cache = true;
    return outcome;
  }
  bool certain = without.empty();
  for (const SelfTestCase& c : cases) {
    if (c.kernel.binding_count != 2) {
      return InvalidArgument("The self-test kernel '{}' has {} buffers; it must have 2.", c.kernel.name,
                             c.kernel.binding_count);
    }
    if (without.contains(c.feature)) continue;
    Result<std::string> reason = RunCase(device, c);
    if (reason && reason->empty()) continue;
    if (!reason && !device->Alive()) {
      if (lost_in != nullptr) *lost_in = c.feature;
      return Failure(std::move(reason).error().WithContext("while testing the feature " + c.feature));
    }
    failed.insert(c.feature);
    // What a driver computes or refuses today it does tomorrow. Other failures (no room, no time, an error that it does
    // not explain) are of the moment.
    certain = certain && (reason || reason.error().code() == StatusCode::kUnimplemented ||
                          reason.error().code() == StatusCode::kInvalidArgument);
    outcome.reasons.push_back(
        Format("{}: kernel '{}': {}.", c.feature, c.kernel.name, reason ? *reason : reason.error().message()));
  }
  outcome.failed.assign(failed.begin(), failed.end());
  if (certain) Save(path, device->profile(), failed);
  return outcome;
}

}  // namespace krafla::vk
