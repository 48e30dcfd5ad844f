// SPDX-License-Identifier: Apache-2.0
#include "base/interruption.h"

#include <utility>

namespace krafla {

namespace {

thread_local LimitedWork* current_work = nullptr;

}  // namespace

LimitedWork::LimitedWork(const RunLimit& limit)
    : limit_(limit),
      before_(std::exchange(current_work, limit.deadline || limit.stop.stop_possible() ? this : nullptr)) {}
LimitedWork::~LimitedWork() { current_work = before_; }

LimitedWork* HelpedWork::OfThisThread() { return current_work; }
HelpedWork::HelpedWork(LimitedWork* work) : before_(std::exchange(current_work, work)) {}
HelpedWork::~HelpedWork() { current_work = before_; }

bool IsInterrupted() {
  LimitedWork* work = current_work;
  if (work == nullptr) return false;
  if (work->is_over_.load(std::memory_order_relaxed)) return true;
  if (work->limit_.Check()) return false;
  work->is_over_.store(true, std::memory_order_relaxed);
  return true;
}

Result<> CheckInterrupted() { return IsInterrupted() ? current_work->limit_.Check() : Result<>(); }

bool InterruptionPoll::Ask() {
  if (IsInterrupted()) return true;  // and asks again the next time: the answer stays
  left_ = kPiece;
  return false;
}

}  // namespace krafla
