// SPDX-License-Identifier: Apache-2.0
// Arrays that go to devices of other processes outside of any program, as jax.device_put does it: the process of the
// source and that of the target call the plugin with the same key.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <mutex>
#include <stop_token>
#include <thread>

#include "plugins/pjrt/abi/cross_host_api.h"

namespace krafla::pjrt {

// Threads that wait for arrays of other processes. Any thread may begin one.
class Arrivals {
 public:
  Arrivals() = default;
  // Ends the waits.
  ~Arrivals();
  Arrivals(const Arrivals&) = delete;
  Arrivals& operator=(const Arrivals&) = delete;

  void Begin(std::function<void(std::stop_token)> wait);

 private:
  struct One {
    std::atomic<bool> done = false;
    std::jthread thread;  // ends first
  };
  std::mutex mutex_;
  std::list<One> waits_;
};

// The extension; what follows it in the chain is set by who links it.
PJRT_CrossHostTransfers_Extension* CrossHostExtension();

}  // namespace krafla::pjrt
