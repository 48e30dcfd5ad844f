// SPDX-License-Identifier: Apache-2.0
// Which process made an object. A fork copies the memory of a process but none of its threads, neither krafla's nor
// those of a Vulkan driver that works on the processor: the copy of an object would wait for them for ever, in a run
// and when it goes.
#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "base/system.h"
#include "krafla/status.h"

namespace krafla {

class MadeIn {
 public:
  bool IsThisProcess() const { return process_ == os::ProcessId(); }
  // FAILED_PRECONDITION in a fork. `what`: "The session".
  Result<> Check(std::string_view what) const {
    if (IsThisProcess()) [[likely]]
      return {};
    return FailedPrecondition(
        "{} was made by process {}, of which this one is a fork: the threads that it needs are in that one alone. Make "
        "it after the fork.",
        what, process_);
  }

 private:
  int process_ = os::ProcessId();
};

// Frees what this process made. What another one made stays where it is, as memory of a fork.
template <typename T>
void FreeHere(std::unique_ptr<T>& object) noexcept {
  if (object != nullptr && !object->made_in.IsThisProcess()) static_cast<void>(object.release());
  object.reset();
}

template <typename T>
std::shared_ptr<T> SharedHere(std::unique_ptr<T> object) {
  return {object.release(), [](T* last) {
            std::unique_ptr<T> owned(last);
            FreeHere(owned);
          }};
}

}  // namespace krafla
