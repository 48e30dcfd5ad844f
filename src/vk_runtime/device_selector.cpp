// SPDX-License-Identifier: Apache-2.0
#include "vk_runtime/device_selector.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <string>

namespace krafla::vk {
namespace {

std::string Lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::string WithoutDashes(std::string_view text) {
  std::string out = Lower(text);
  std::erase(out, '-');
  return out;
}

std::string ListOf(std::span<const DeviceProfile* const> devices) {
  std::string out;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const DeviceProfile& d = *devices[i];
    out += Format("{}vulkan:{} is {} (type={}, uuid={}{})", i == 0 ? "" : "; ", i, d.name, DeviceTypeName(d.type),
                  d.device_uuid, d.pci.empty() ? "" : ", pci=" + d.pci);
  }
  return out;
}

}  // namespace

Result<std::size_t> SelectDevice(std::string_view selector, std::span<const DeviceProfile* const> devices) {
  if (devices.empty()) return NotFound("No Vulkan device is there to choose '{}' from.", selector);
  std::string_view rest = selector;
  if (!rest.starts_with("vulkan") || (rest.size() > 6 && rest[6] != ':')) {
    return InvalidArgument(
        "'{}' does not name a Vulkan device: write vulkan, vulkan:N, vulkan:uuid=.., vulkan:pci=.., "
        "vulkan:type=cpu|discrete|integrated|virtual or vulkan:\"part of the name\".",
        selector);
  }
  rest.remove_prefix(std::min<std::size_t>(7, rest.size()));
  if (rest.empty() && selector.size() > 6) {
    return InvalidArgument("'{}' has nothing after the colon; the devices are: {}.", selector, ListOf(devices));
  }
  if (rest.empty()) return std::size_t{0};

  if (std::ranges::all_of(rest, [](char c) { return c >= '0' && c <= '9'; })) {
    std::size_t index = 0;
    auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), index);
    if (error != std::errc() || index >= devices.size()) {
      return NotFound("There is no device '{}': {} found. {}.", selector,
                      devices.size() == 1 ? "1 Vulkan device was" : Format("{} Vulkan devices were", devices.size()),
                      ListOf(devices));
    }
    return index;
  }

  std::function<bool(const DeviceProfile&)> fits;
  if (rest.starts_with("uuid=")) {
    std::string uuid = WithoutDashes(rest.substr(5));
    fits = [uuid](const DeviceProfile& d) { return d.device_uuid == uuid; };
  } else if (rest.starts_with("pci=")) {
    std::string pci = Lower(rest.substr(4));
    // "03:00.0" means the domain 0000.
    fits = [pci](const DeviceProfile& d) { return !d.pci.empty() && (d.pci == pci || d.pci == "0000:" + pci); };
  } else if (rest.starts_with("type=")) {
    const std::optional<DeviceType> type = FindDeviceType(Lower(rest.substr(5)));
    if (!type) {
      return InvalidArgument(
          "'{}' names no type of device; the types are cpu, discrete, integrated, virtual and other.", selector);
    }
    fits = [wanted = *type](const DeviceProfile& d) { return d.type == wanted; };
  } else {
    if (rest.size() >= 2 && rest.front() == '"' && rest.back() == '"') {
      rest = rest.substr(1, rest.size() - 2);
      if (rest.empty()) return InvalidArgument("'{}' has an empty name.", selector);
    } else if (rest.find('=') != rest.npos) {
      return InvalidArgument("'{}' has a key that is not uuid, pci or type.", selector);
    }
    fits = [part = Lower(rest)](const DeviceProfile& d) { return Lower(d.name).find(part) != std::string::npos; };
  }
  auto it = std::ranges::find_if(devices, [&](const DeviceProfile* d) { return fits(*d); });
  if (it == devices.end()) return NotFound("No Vulkan device fits '{}': {}.", selector, ListOf(devices));
  return static_cast<std::size_t>(it - devices.begin());
}

}  // namespace krafla::vk
