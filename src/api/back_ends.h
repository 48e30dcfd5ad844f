// SPDX-License-Identifier: Apache-2.0
// The kinds of devices. Each is a folder that implements Client and Executable, and a row of the table in
// back_ends.cpp; a program that brings its own registers it instead.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "api/client.h"
#include "api/group/device_links.h"

namespace krafla {

struct BackEnd {
  // The first word of its selectors: "vulkan" of "vulkan" and "vulkan:1".
  std::string_view name;
  // What can be selected, for messages.
  std::string_view selectors = {};
  // A sentence that says why this build has none of them, and no functions; else empty.
  std::string_view absent = {};
  // Its devices, best first. NOT_FOUND where there is no driver or no device; INVALID_ARGUMENT, of environment
  // variables that mean nothing, ends the list of all devices.
  Result<std::vector<DeviceDescription>> (*list)() = nullptr;
  // A client of the device that `selector` names, which begins with `name`. NOT_FOUND as above. `passed_over`: why
  // those before it in the table have no device, where the caller takes any.
  Result<std::shared_ptr<Client>> (*create)(std::string_view selector, const ClientOptions& options,
                                            std::string_view passed_over) = nullptr;
  // What lies between the devices of a group whose clients are all of this kind (api/group/device_links.h). Null, or
  // gives null: the host.
  Result<std::unique_ptr<DeviceLinks>> (*link)(std::span<Executable* const> members,
                                               std::span<const std::shared_ptr<Client>> clients,
                                               const CompileOptions& options) = nullptr;
  // The paths between two devices of this kind, each tried with bytes.
  Result<std::vector<LinkProbe>> (*probe)(std::string_view from, std::string_view to) = nullptr;
};

// All of them in the order in which they are preferred, the registered ones last.
std::vector<BackEnd> BackEnds();

// That of a selector: it is the name, or begins with the name and a colon. INVALID_ARGUMENT, with what can be selected,
// where there is none.
Result<BackEnd> BackEndOf(std::string_view selector);

// Adds a kind of devices for as long as the registration lives; its clients may live longer. Devices of it are listed
// and made by name; who takes any device never gets one.
class BackEndRegistration {
 public:
  // The texts must outlive it. INVALID_ARGUMENT for an empty name, one that is taken, or missing functions.
  static Result<BackEndRegistration> Make(const BackEnd& back_end);
  BackEndRegistration(BackEndRegistration&& other) noexcept : name_(std::exchange(other.name_, {})) {}
  BackEndRegistration& operator=(BackEndRegistration&&) = delete;
  ~BackEndRegistration();

 private:
  explicit BackEndRegistration(std::string_view name) : name_(name) {}
  std::string_view name_;  // empty: moved from
};

}  // namespace krafla
