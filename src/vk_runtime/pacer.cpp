// SPDX-License-Identifier: Apache-2.0
#include "vk_runtime/pacer.h"

namespace krafla::vk {

Result<> Pacer::Admit(double ms) {
  if (!IsNeeded()) return {};
  KRAFLA_TRY(limit_.Check());
  while (count_ == given_.size() || (count_ > 1 && given_ms_ + ms > ahead_ms_)) {
    KRAFLA_TRY(device_.Wait(given_[first_].event, limit_));
    given_ms_ = count_ == 1 ? 0 : given_ms_ - given_[first_].ms;
    first_ = (first_ + 1) % given_.size();
    --count_;
  }
  return {};
}

void Pacer::Note(Event event, double ms) {
  if (!IsNeeded()) return;
  given_[(first_ + count_) % given_.size()] = {event, ms};
  ++count_;
  given_ms_ += ms;
}

}  // namespace krafla::vk
