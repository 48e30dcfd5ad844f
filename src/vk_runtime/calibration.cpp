// SPDX-License-Identifier: Apache-2.0
#include "vk_runtime/calibration.h"

#include <algorithm>
#include <numeric>

namespace krafla::vk {

Calibration::Calibration(std::vector<double> ms, double submit_ms) : ms_(std::move(ms)), submit_ms_(submit_ms) {
  is_wanted_ = std::accumulate(ms_.begin(), ms_.end(), 0.0) > submit_ms * kShortShare;
}

double Calibration::longest_ms() const { return least_ms_.empty() ? 0 : std::ranges::max(least_ms_); }
double Calibration::total_ms() const { return std::accumulate(least_ms_.begin(), least_ms_.end(), 0.0); }

bool Calibration::Add(std::span<const Submission> submissions, std::span<const double> taken_ms) {
  if (least_ms_.size() != taken_ms.size() || runs_ == 0) {
    least_ms_.assign(taken_ms.begin(), taken_ms.end());
  } else {
    for (std::size_t i = 0; i < taken_ms.size(); ++i) least_ms_[i] = std::min(least_ms_[i], taken_ms[i]);
  }
  if (++runs_ < kRuns) return false;
  runs_ = 0;
  const auto count = static_cast<double>(submissions.size());
  const bool too_long = longest_ms() > 1.5 * submit_ms_;
  const bool too_short = count >= 4 && total_ms() < count * submit_ms_ / 4;
  if ((!too_long && !too_short) || rounds_ == kRounds) {
    is_wanted_ = false;
    return false;
  }
  ++rounds_;
  // A submission's time is shared out as its estimates say.
  std::vector<bool> seen(ms_.size());
  for (std::size_t i = 0; i < submissions.size(); ++i) {
    const Submission& submission = submissions[i];
    std::size_t pieces = 0;
    for (const auto& group : submission.groups) pieces += group.size();
    for (const auto& group : submission.groups) {
      for (const Piece& piece : group) {
        const double share = submission.ms > 0 ? piece.ms / submission.ms : 1 / static_cast<double>(pieces);
        if (!seen[piece.step]) ms_[piece.step] = 0;
        seen[piece.step] = true;
        ms_[piece.step] += least_ms_[i] * share;
      }
    }
  }
  return true;
}

}  // namespace krafla::vk
