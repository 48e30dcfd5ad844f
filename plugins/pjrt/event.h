// SPDX-License-Identifier: Apache-2.0
// The caller's view of a completion. It may be destroyed at any time, also by its own callback.
#pragma once

#include <memory>

#include "plugins/pjrt/completion.h"
#include "plugins/pjrt/functions.h"

struct PJRT_Event {
  std::shared_ptr<krafla::pjrt::Completion> completion;
};

namespace krafla::pjrt {

inline PJRT_Event* NewEvent(std::shared_ptr<Completion> completion) { return new PJRT_Event{std::move(completion)}; }

}  // namespace krafla::pjrt
