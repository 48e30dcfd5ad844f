// SPDX-License-Identifier: Apache-2.0
// When a run is to end though it is not done. Whoever does the work asks between its steps.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <stop_token>

#include "krafla/status.h"

namespace krafla {

struct RunLimit {
  using Clock = std::chrono::steady_clock;
  // What waits looks up this often whether it has been asked to stop.
  static constexpr std::chrono::milliseconds kSlice{10};

  std::optional<Clock::time_point> deadline = {};
  std::stop_token stop = {};

  // CANCELLED once stop was requested, DEADLINE_EXCEEDED once the deadline has passed.
  Result<> Check() const {
    if (stop.stop_requested()) [[unlikely]]
      return MakeError(StatusCode::kCancelled, "The run was cancelled.");
    if (deadline && Clock::now() >= *deadline) [[unlikely]]
      return DeadlineExceeded("The run was not done by its deadline.");
    return {};
  }
  // How long a wait that ends at `end` at the latest may last before it asks again.
  Clock::time_point NextLook(Clock::time_point end) const {
    if (deadline) end = std::min(end, *deadline);
    return stop.stop_possible() ? std::min(end, Clock::now() + kSlice) : end;
  }
};

// Of runs that nobody limits.
inline const RunLimit kUnlimited;

}  // namespace krafla
