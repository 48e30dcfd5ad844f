// SPDX-License-Identifier: Apache-2.0
// What is given to a device cannot be taken back: of a run that has a limit, only so much is given that the limit takes
// effect soon after it strikes.
#pragma once

#include <array>
#include <cstddef>

#include "vk_runtime/device.h"

namespace krafla::vk {

class Pacer {
 public:
  // At most `ahead_ms` of work, or two submissions, are with the device at a time. Without a limit in `limit` there is
  // no bound.
  Pacer(Device& device, const RunLimit& limit, double ahead_ms) : device_(device), limit_(limit), ahead_ms_(ahead_ms) {}

  const RunLimit& limit() const { return limit_; }
  // Before a submission of `ms`: waits until there is room for it. CANCELLED or DEADLINE_EXCEEDED once the limit says
  // so.
  Result<> Admit(double ms);
  void Note(Event event, double ms);

 private:
  struct Given {
    Event event;
    double ms = 0;
  };
  bool IsNeeded() const { return limit_.deadline.has_value() || limit_.stop.stop_possible(); }

  Device& device_;
  const RunLimit& limit_;
  double ahead_ms_;
  std::array<Given, 64> given_ = {};  // a ring
  std::size_t first_ = 0, count_ = 0;
  double given_ms_ = 0;
};

}  // namespace krafla::vk
