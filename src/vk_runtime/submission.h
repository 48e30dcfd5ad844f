// SPDX-License-Identifier: Apache-2.0
// How a program's steps become submissions. Drivers reset a device that does not answer (amdgpu after 2 s, Windows
// too), and a run can be ended between submissions only: a long launch is cut along its grid, and a submission ends
// where its time would pass the limit.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "vk_runtime/device.h"
#include "vk_runtime/step.h"

namespace krafla::vk {

struct ProgramOptions {
  // Submissions end where their time would pass this.
  double submit_ms = 100;
  // A splittable launch that takes more than this is cut along its grid, into parts of submit_ms.
  double launch_ms = 150;
  bool beside = false;  // on the device's second queue, which it has
  bool reorder = true;  // steps within what their conflicts allow: fewer barriers
};

// A piece of work in recorded order: a step, or a part of a launch along one axis.
struct Piece {
  uint32_t step = 0;
  int axis = -1;
  uint32_t begin = 0, count = 0;
  double ms = 0;
};

struct Submission {
  std::vector<std::vector<Piece>> groups;  // a barrier between each
  KernelNames names;
  double ms = 0;
};

// What is known of the steps, by number.
struct StepFacts {
  std::span<const double> ms;  // 0: not known, counted as nothing
  std::vector<bool> is_splittable;
  std::vector<std::string> names;  // for reports
};

// `levels`: as ScheduleSteps gives them.
std::vector<Submission> CutIntoSubmissions(std::span<const Step> steps,
                                           const std::vector<std::vector<uint32_t>>& levels, const StepFacts& facts,
                                           const ProgramOptions& options);

}  // namespace krafla::vk
