// SPDX-License-Identifier: Apache-2.0
// Memory that the processes of one machine share: a window for each of their devices, and words by which the devices
// tell each other how far they are. A thread writes what it brings into its own window, says so to those of its group,
// and reads theirs. Who waits looks for a moment and then sleeps in the kernel.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "krafla/status.h"
#include "transport/mesh.h"

namespace krafla::transport {

class SharedWindows {
 public:
  // A window has two halves for what a device brings and two for what it gives, so that the next piece is brought while
  // the last one is read.
  static constexpr std::size_t kPiece = 256 * 1024;

  // Of all devices of the machine.
  static std::size_t Bytes(std::size_t slots);
  // This process's own, and how many processes share the machine.
  struct Owned {
    std::size_t first = 0, count = 0;
    int processes = 1;
  };
  // Asked while waiting.
  struct Health {
    std::function<bool()> has_failed;               // all is over
    std::function<bool(std::size_t slot)> is_gone;  // this one will not come any more
  };
  // Takes the descriptor over.
  static Result<std::unique_ptr<SharedWindows>> Map(int descriptor, std::size_t slots, const Owned& owned,
                                                    Health health);
  ~SharedWindows();
  SharedWindows(const SharedWindows&) = delete;
  SharedWindows& operator=(const SharedWindows&) = delete;

  std::size_t slots() const { return slots_; }
  std::byte* Brought(std::size_t slot, std::size_t half) { return Window(slot) + half * kPiece; }
  std::byte* Given(std::size_t slot, std::size_t half) { return Window(slot) + (2 + half) * kPiece; }

  enum class Outcome : uint8_t { kDone, kLate, kStopped, kGone, kFailed };
  // `own` begins something with `members` (own among them): its window is its own again when all have left what it did
  // last. `signature`: what it is, the same for all.
  Outcome Begin(std::size_t own, std::span<const std::size_t> members, uint32_t signature, const Patience& patience);
  // Returns when all members have come here as often as this one.
  Outcome Meet(std::size_t own, std::span<const std::size_t> members, const Patience& patience);
  // After the first Meet: whether `member` has begun the same.
  bool AgreesWith(std::size_t own, std::size_t member, uint32_t signature) const;
  // Nothing of the others' windows is read any more.
  void Leave(std::size_t own, std::span<const std::size_t> members);
  // Of those that are waited for, who has not come to the last Meet.
  std::vector<std::size_t> Missing(std::size_t own, std::span<const std::size_t> members) const;

  // Wakes this process's waits, to look at their health.
  void WakeAll();

 private:
  // By writer and reader.
  struct Pair {
    std::atomic<uint32_t> arrived, left;
    std::atomic<uint32_t> signature[2];
  };
  struct alignas(64) Bell {
    std::atomic<uint32_t> rings, sleeps;
  };
  // What this process knows of its own device.
  struct Own {
    std::vector<uint32_t> meetings, joint;  // by member
    std::vector<std::size_t> last;          // members of the last exchange
  };

  SharedWindows() = default;
  static std::size_t HeaderBytes(std::size_t slots);
  Pair& PairOf(std::size_t writer, std::size_t reader) const { return pairs_[writer * slots_ + reader]; }
  std::byte* Window(std::size_t slot) { return memory_ + HeaderBytes(slots_) + slot * 4 * kPiece; }
  void Ring(std::size_t slot);
  // done(m) of every one of `members` but the own.
  template <typename Done>
  Outcome Wait(std::size_t own, std::span<const std::size_t> members, const Patience& patience, Done done);

  std::byte* memory_ = nullptr;
  std::size_t slots_ = 0, bytes_ = 0;
  Bell* bells_ = nullptr;
  Pair* pairs_ = nullptr;
  std::vector<std::unique_ptr<Own>> owns_;  // by slot; of this process's devices
  Health health_;
  int spins_ = 0;
};

}  // namespace krafla::transport
