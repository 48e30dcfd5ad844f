// SPDX-License-Identifier: Apache-2.0
// How long a program's steps take. Estimates hold until the first runs have been measured, submission by submission;
// then the program is split again where a submission took too long, or where many were short.
#pragma once

#include <span>
#include <vector>

#include "vk_runtime/submission.h"

namespace krafla::vk {

class Calibration {
 public:
  Calibration() = default;
  // `ms`: of each step, by estimate. Programs that are short by far are never measured: estimates are rather too high.
  Calibration(std::vector<double> ms, double submit_ms);

  // Whether the next run is to be measured.
  bool IsWanted() const { return is_wanted_; }
  // Takes the times of a run. Whether the program is to be split again, with the ms() that this has found.
  bool Add(std::span<const Submission> submissions, std::span<const double> taken_ms);

  std::span<const double> ms() const { return ms_; }
  // Of the measured runs so far; 0: none.
  double longest_ms() const;
  double total_ms() const;

 private:
  // The lesser of so many runs counts: a driver may compile in a first one.
  static constexpr int kRuns = 2;
  // How often a program is split again at most.
  static constexpr int kRounds = 2;
  static constexpr double kShortShare = 1.0 / 200;

  std::vector<double> ms_;
  std::vector<double> least_ms_;  // of each submission
  double submit_ms_ = 0;
  int runs_ = 0, rounds_ = 0;
  bool is_wanted_ = false;
};

}  // namespace krafla::vk
