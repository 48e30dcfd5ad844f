// SPDX-License-Identifier: Apache-2.0
#include "vk_runtime/submission.h"

#include <algorithm>
#include <cmath>

namespace krafla::vk {
namespace {

constexpr double kMostParts = 4096;

class SubmissionCutter {
 public:
  SubmissionCutter(const StepFacts& facts, double limit_ms) : facts_(facts), limit_ms_(limit_ms) {}

  void Add(const Piece& piece, bool new_group) {
    if (!names_.empty() && out_.back().ms + piece.ms > limit_ms_) Close();
    if (names_.empty()) {
      out_.emplace_back();
      new_group = true;
    }
    Submission& last = out_.back();
    if (new_group) last.groups.emplace_back();
    last.groups.back().push_back(piece);
    last.ms += piece.ms;
    names_.push_back(facts_.names[piece.step]);
  }
  std::vector<Submission> Take() {
    Close();
    return std::move(out_);
  }

 private:
  void Close() {
    if (names_.empty()) return;
    out_.back().names = std::make_shared<const std::vector<std::string>>(std::move(names_));
    names_.clear();
  }

  const StepFacts& facts_;
  double limit_ms_;
  std::vector<Submission> out_;
  std::vector<std::string> names_;  // of the submission that is being filled
};

}  // namespace

std::vector<Submission> CutIntoSubmissions(std::span<const Step> steps,
                                           const std::vector<std::vector<uint32_t>>& levels, const StepFacts& facts,
                                           const ProgramOptions& options) {
  SubmissionCutter cutter(facts, options.submit_ms);
  for (const std::vector<uint32_t>& level : levels) {
    bool new_group = true;
    for (uint32_t step : level) {
      const double ms = facts.ms[step];
      const auto* launch = std::get_if<Launch>(&steps[step]);
      double parts = 1;
      if (launch != nullptr && ms > options.launch_ms && facts.is_splittable[step])
        parts = std::clamp(std::ceil(ms / options.submit_ms), 1.0, kMostParts);
      if (parts <= 1) {
        cutter.Add({.step = step, .ms = ms}, new_group);
      } else {
        const auto axis = static_cast<int>(std::ranges::max_element(launch->grid) - launch->grid);
        const uint32_t total = launch->grid[axis];
        const auto each = static_cast<uint32_t>(std::ceil(total / parts));
        for (uint32_t begin = 0; begin < total; begin += each) {
          const uint32_t count = std::min(each, total - begin);
          cutter.Add({step, axis, begin, count, ms * count / total}, new_group);
          new_group = false;
        }
      }
      new_group = false;
    }
  }
  return cutter.Take();
}

}  // namespace krafla::vk
