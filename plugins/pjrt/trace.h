// SPDX-License-Identifier: Apache-2.0
// What runs while somebody traces (jax.profiler): runs of programs, and the steps of each, as the planes, lines and
// events of XLA's profiles (tsl/profiler/protobuf/xplane.proto).
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/client.h"

namespace krafla::pjrt {

// Any thread may add, at any time.
class Trace {
 public:
  using Clock = std::chrono::steady_clock;

  // The one that is recording; null: none, and runs need not be looked at.
  static std::shared_ptr<Trace> Recording();
  // False: another one is recording.
  static bool Start(const std::shared_ptr<Trace>& trace);
  // Nothing where it is not the one that is recording.
  static void Stop(const std::shared_ptr<Trace>& trace);

  // `note`: why the run has no steps; empty: it has.
  void AddRun(const DeviceDescription& device, const std::string& program, Clock::time_point begin,
              Clock::time_point end, std::string_view note);
  void AddStep(const DeviceDescription& device, const std::string& program, const ProfiledStep& step,
               Clock::time_point begin, double ms);

  // An XSpace.
  std::string Serialize() const;

 private:
  // Events that are kept: 24 MB. What comes later is counted.
  static constexpr std::size_t kMostEvents = 1'000'000;
  struct Description {
    std::string name = {}, program = {}, instruction = {}, op_name = {}, source = {}, family = {}, variant = {},
                note = {};
    double flops = 0, bytes = 0;
  };
  struct Event {
    std::size_t description = 0;
    int64_t begin_ns = 0, ns = 0;  // since the trace began
  };
  // Of one device.
  struct Plane {
    std::vector<Description> descriptions;
    std::map<std::string, std::size_t> number_of;  // by what tells descriptions apart
    std::vector<Event> runs, steps;
    int64_t dropped = 0;
  };
  static std::string SerializePlane(int64_t id, const std::string& name, const Plane& plane, int64_t start_ns);
  void Add(const DeviceDescription& device, Description description, bool is_run, Clock::time_point begin, int64_t ns);

  const Clock::time_point start_ = Clock::now();
  const int64_t start_ns_ =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();  // of the wall clock, as XLA's profiler counts
  mutable std::mutex mutex_;
  std::map<std::string, Plane> planes_;  // by the device's description
  std::size_t events_ = 0;
};

}  // namespace krafla::pjrt
