// SPDX-License-Identifier: Apache-2.0
#include "transport/shared_windows.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "base/processors.h"
#include "base/sockets.h"
#include "base/system.h"

namespace krafla::transport {
namespace {

// A little longer than a device needs to bring a small array.
constexpr int kSpins = 2000;
constexpr std::chrono::milliseconds kNap{50};

std::size_t RoundUp(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

void Relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace

std::size_t SharedWindows::HeaderBytes(std::size_t slots) {
  return RoundUp(slots * sizeof(Bell) + slots * slots * sizeof(Pair), 4096);
}
std::size_t SharedWindows::Bytes(std::size_t slots) { return HeaderBytes(slots) + slots * 4 * kPiece; }

Result<std::unique_ptr<SharedWindows>> SharedWindows::Map(int descriptor, std::size_t slots, const Owned& owned,
                                                          Health health) {
  std::unique_ptr<SharedWindows> out(new SharedWindows());
  void* memory = os::MapShared(descriptor, Bytes(slots));
  const int error = errno;
  os::CloseFile(descriptor);
  if (memory == nullptr)
    return ResourceExhausted("The {} bytes that the processes of this machine share cannot be mapped: {}.",
                             Bytes(slots), std::strerror(error));
  out->memory_ = static_cast<std::byte*>(memory);
  out->bytes_ = Bytes(slots);
  out->slots_ = slots;
  // Fresh memory is zeros, and these types begin with that.
  out->bells_ = reinterpret_cast<Bell*>(out->memory_);
  out->pairs_ = reinterpret_cast<Pair*>(out->memory_ + slots * sizeof(Bell));
  out->owns_.resize(slots);
  for (std::size_t s = owned.first; s < owned.first + owned.count; ++s) {
    out->owns_[s] = std::make_unique<Own>();
    out->owns_[s]->meetings.resize(slots);
    out->owns_[s]->joint.resize(slots);
  }
  // Where others want the processor, to look on keeps them from coming.
  out->spins_ = owned.processes <= UsableProcessors() ? kSpins : 0;
  out->health_ = std::move(health);
  return out;
}

SharedWindows::~SharedWindows() { os::Unmap(memory_, bytes_); }

void SharedWindows::Ring(std::size_t slot) {
  Bell& bell = bells_[slot];
  if (bell.sleeps.load(std::memory_order_seq_cst) == 0) return;
  bell.rings.fetch_add(1, std::memory_order_seq_cst);
  os::WakeWord(bell.rings);
}

void SharedWindows::WakeAll() {
  for (std::size_t s = 0; s < slots_; ++s)
    if (owns_[s] != nullptr) Ring(s);
}

template <typename Done>
SharedWindows::Outcome SharedWindows::Wait(std::size_t own, std::span<const std::size_t> members,
                                           const Patience& patience, Done done) {
  const auto all_done = [&] {
    return std::ranges::all_of(members, [&](std::size_t m) { return m == own || done(m); });
  };
  for (int spin = spins_; spin > 0; --spin) {
    if (all_done()) return Outcome::kDone;
    Relax();
  }
  Bell& bell = bells_[own];
  for (;;) {
    const uint32_t rings = bell.rings.load(std::memory_order_seq_cst);
    bell.sleeps.store(1, std::memory_order_seq_cst);
    Outcome outcome = Outcome::kDone;
    if (!all_done()) {
      const auto now = Clock::now();
      const bool is_gone =
          std::ranges::any_of(members, [&](std::size_t m) { return m != own && !done(m) && health_.is_gone(m); });
      if (health_.has_failed()) outcome = Outcome::kFailed;
      else if (patience.stop.stop_requested()) outcome = Outcome::kStopped;
      else if (is_gone && !all_done()) outcome = Outcome::kGone;
      else if (now >= patience.end) outcome = Outcome::kLate;
      else {
        os::WaitOnWord(bell.rings, rings, std::min<std::chrono::nanoseconds>(patience.end - now, kNap));
        continue;
      }
    }
    bell.sleeps.store(0, std::memory_order_seq_cst);
    return outcome;
  }
}

SharedWindows::Outcome SharedWindows::Begin(std::size_t own, std::span<const std::size_t> members, uint32_t signature,
                                            const Patience& patience) {
  Own& state = *owns_[own];
  const Outcome outcome = Wait(own, state.last, patience, [&](std::size_t m) {
    return PairOf(m, own).left.load(std::memory_order_seq_cst) == state.joint[m];
  });
  if (outcome != Outcome::kDone) return outcome;
  state.last.clear();
  for (const std::size_t m : members) {
    if (m == own) continue;
    const uint32_t number = state.joint[m]++;
    // Nobody is two exchanges ahead of another, so that what is two back has been read.
    PairOf(own, m).signature[number & 1].store(signature, std::memory_order_relaxed);
    state.last.push_back(m);
  }
  return Outcome::kDone;
}

SharedWindows::Outcome SharedWindows::Meet(std::size_t own, std::span<const std::size_t> members,
                                           const Patience& patience) {
  Own& state = *owns_[own];
  for (const std::size_t m : members) {
    if (m == own) continue;
    ++state.meetings[m];
    PairOf(own, m).arrived.fetch_add(1, std::memory_order_seq_cst);
    Ring(m);
  }
  return Wait(own, members, patience, [&](std::size_t m) {
    return static_cast<int32_t>(PairOf(m, own).arrived.load(std::memory_order_seq_cst) - state.meetings[m]) >= 0;
  });
}

bool SharedWindows::AgreesWith(std::size_t own, std::size_t member, uint32_t signature) const {
  if (own == member) return true;
  const uint32_t number = owns_[own]->joint[member] - 1;
  return PairOf(member, own).signature[number & 1].load(std::memory_order_relaxed) == signature;
}

void SharedWindows::Leave(std::size_t own, std::span<const std::size_t> members) {
  for (const std::size_t m : members) {
    if (m == own) continue;
    PairOf(own, m).left.fetch_add(1, std::memory_order_seq_cst);
    Ring(m);
  }
}

std::vector<std::size_t> SharedWindows::Missing(std::size_t own, std::span<const std::size_t> members) const {
  std::vector<std::size_t> out;
  for (const std::size_t m : members)
    if (m != own && static_cast<int32_t>(PairOf(m, own).arrived.load() - owns_[own]->meetings[m]) < 0) out.push_back(m);
  return out;
}

}  // namespace krafla::transport
