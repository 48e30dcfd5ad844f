// SPDX-License-Identifier: Apache-2.0
// Collectives whose members are in several processes: through windows of memory where all of them are on one machine,
// by messages elsewhere. Sums go in the order of ranks, as within a process, so that the bits are those of one process.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "collectives/collective.h"
#include "collectives/rendezvous.h"
#include "transport/world.h"

namespace krafla {

class SpanningExchange {
 public:
  // Where a device of the program is: the process, and its number among that one's devices.
  struct Place {
    int rank = 0, slot = 0;
  };

  SpanningExchange(std::shared_ptr<transport::World> world, std::vector<Place> places,
                   std::chrono::milliseconds time_limit)
      : world_(std::move(world)), places_(std::move(places)), time_limit_(time_limit) {}

  bool IsHere(int64_t device) const { return PlaceOf(device).rank == world_->rank(); }
  bool AreHere(std::span<const int64_t> devices) const {
    return std::ranges::all_of(devices, [this](int64_t d) { return IsHere(d); });
  }
  // Processes that have devices of the program, in order.
  std::vector<int> Ranks() const;

  // A device's part of a collective of which some members are elsewhere. `number`: of the collective in the program.
  Result<> Meet(int64_t device, const Collective& collective, std::size_t number, const Contribution& own,
                const std::stop_token& stop);
  // As Rendezvous's, to and from another process.
  Result<> Send(const Rendezvous::Channel& channel, std::span<const std::byte* const> leaves,
                std::span<const int64_t> sizes, std::string_view what, const std::stop_token& stop);
  Result<> Receive(const Rendezvous::Channel& channel, std::span<std::byte* const> leaves,
                   std::span<const int64_t> sizes, std::string_view what, const std::stop_token& stop);
  // The ranks agree that they run the same program.
  Result<> Agree(std::string_view name, std::string_view fingerprint, const std::stop_token& stop);

  transport::World& world() { return *world_; }

 private:
  Place PlaceOf(int64_t device) const { return places_[static_cast<std::size_t>(device)]; }
  uint32_t AddressOf(int64_t device) const;
  std::string Describe(int64_t device) const;
  transport::Patience PatienceFor(const std::stop_token& stop) const;
  // What a wait that did not end well was for.
  Status Explained(Status status, std::string_view what, int64_t device, std::span<const int64_t> missing) const;

  const std::shared_ptr<transport::World> world_;
  const std::vector<Place> places_;
  const std::chrono::milliseconds time_limit_;
  std::mutex mutex_;
  std::map<Rendezvous::Channel, std::size_t> unread_;  // messages that the other end has not said to have read
};

}  // namespace krafla
