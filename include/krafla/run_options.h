// SPDX-License-Identifier: Apache-2.0
// Of clients and of runs: whose threads, how long a client waits for its device, when a run is to end though it is not
// done.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "krafla/export.h"

KRAFLA_EXPORT_BEGIN
namespace krafla {

// Runs run(0) .. run(tasks - 1), at once where it can, and returns when all have ended. Several threads may call it.
using ParallelFor = std::function<void(int tasks, const std::function<void(int task)>& run)>;

struct ClientOptions {
  // How many threads the CPU's kernels run on, the one that calls Run included. 0: KRAFLA_THREADS in the environment,
  // else as many as there are processors that this process may use.
  int threads = 0;
  // If set, the kernels run on the program's own threads, by this, in up to `threads` tasks; krafla starts none.
  ParallelFor parallel_for = {};
  // The longest that anything waits for work that the device was given: then the call gives DEADLINE_EXCEEDED, and the
  // work goes on. A device that hangs for good does not keep its caller.
  std::chrono::milliseconds wait_limit = std::chrono::minutes(30);
  // Where compiled pipelines, outcomes of self-tests and tunings are kept. Unset: KRAFLA_CACHE_DIR in the environment,
  // else the user's cache folder. Empty: nowhere.
  std::optional<std::string> cache_folder = {};
  // The most bytes that programs and buffers of the client may hold at once: arenas, what kernels keep of constants,
  // results and buffers made from the host's memory, by what they are planned for. Past it loading and making buffers
  // is RESOURCE_EXHAUSTED. 0: no limit. Sessions and buffers (krafla/session.h) keep to it.
  int64_t memory_limit = 0;
};

// Looked at between the steps of a run, at each turn of a loop, within steps that take long on the host, and while the
// run waits for the device, the host or other runs of its executable. A run that was ended gives no results; the
// executable may run again at once. On a device, steps that were given to it already are finished before those of the
// next run.
struct RunOptions {
  std::optional<std::chrono::steady_clock::time_point> deadline = {};  // past it: DEADLINE_EXCEEDED
  std::stop_token stop = {};                                           // once it is requested: CANCELLED
};

}  // namespace krafla
KRAFLA_EXPORT_END
