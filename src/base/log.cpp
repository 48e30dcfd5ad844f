// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <atomic>
#include <mutex>
#include <utility>

namespace krafla {
namespace {

struct Sink {
  std::mutex mutex;
  LogSink function;
  std::atomic<bool> is_set = false;
};
// Messages may come after static objects are gone.
Sink& TheSink() {
  static Sink* sink = new Sink;
  return *sink;
}

}  // namespace

void SetLogSink(LogSink sink) {
  Sink& here = TheSink();
  const std::lock_guard lock(here.mutex);
  here.function = std::move(sink);
  here.is_set = static_cast<bool>(here.function);
}

bool IsLogged() { return TheSink().is_set; }

void Log(LogLevel level, std::string_view message) {
  Sink& here = TheSink();
  if (!here.is_set) return;
  const std::lock_guard lock(here.mutex);
  if (here.function) here.function(level, message);
}

}  // namespace krafla
