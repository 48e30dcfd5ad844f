// SPDX-License-Identifier: Apache-2.0
// Messages between ranks over a connection for each pair, which one thread of the process serves. The same connections
// tell who has ended (the system closes them), who does not answer (each rank says every moment that it is there), and
// what has failed: the first failure ends the waits of all ranks, and is final.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "krafla/status.h"

namespace krafla::transport {

using Clock = std::chrono::steady_clock;

// Messages of one key come in the order in which they were sent.
struct Key {
  uint32_t kind = 0, source = 0, target = 0;
  int64_t number = 0;
  auto operator<=>(const Key&) const = default;
};

// How long somebody waits.
struct Patience {
  Clock::time_point end;
  std::stop_token stop = {};
};

struct Outgoing {
  int rank = 0;
  Key key;
  std::span<const std::byte> bytes;
};
struct Incoming {
  int rank = 0;
  Key key;
  std::span<std::byte> bytes;
};

class Mesh {
 public:
  // names[r]: "rank 2 on host node1 (process 4711)"; connections[r]: to rank r, taken over; -1 for the own.
  // `on_failure` is called once, from any thread, with nothing locked.
  Mesh(int rank, std::vector<std::string> names, std::vector<int> connections, std::chrono::milliseconds beat,
       std::function<void()> on_failure);
  // Tells the others that this rank leaves, after all that was sent.
  ~Mesh();
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(names_.size()); }
  const std::string& name(int rank) const { return names_[static_cast<std::size_t>(rank)]; }

  // Sends all and receives all; the bytes may be used again when it returns. Errors: the failure that ended the wait;
  // UNAVAILABLE where a rank has left; DEADLINE_EXCEEDED, CANCELLED; INVALID_ARGUMENT where a message is of another
  // size.
  Result<> Exchange(std::span<const Outgoing> sends, std::span<const Incoming> receives, const Patience& patience);
  // Copies the bytes and returns.
  Result<> Post(int rank, const Key& key, std::span<const std::byte> bytes);
  // Returns at once; `owner` keeps the bytes until they are sent.
  Result<> Post(int rank, const Key& key, std::span<const std::byte> bytes, std::shared_ptr<const void> owner);
  Result<std::vector<std::byte>> Take(int rank, const Key& key, const Patience& patience);

  // Ends the waits of all ranks, now and from now on. The first failure stays.
  void Fail(Status status);
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  std::optional<Status> failure() const;
  bool HasLeft(int rank) const;
  // "rank 2 on host b has not answered for 4.2 s; rank 3 on host c has left the program": what is known of these ranks
  // that explains why they do not come. Empty: nothing.
  std::string Explain(std::span<const int> ranks) const;
  // The same of all others.
  std::string ExplainAll() const;

 private:
  struct Header {
    uint32_t kind = 0, source = 0, target = 0, zero = 0;
    int64_t number = 0;
    uint64_t bytes = 0;
  };
  struct Letter {  // on its way out
    Header header = {};
    std::span<const std::byte> bytes = {};
    std::shared_ptr<const void> owner = {};  // where somebody else keeps them for the letter
    std::vector<std::byte> owned = {};       // where they are copied
    std::size_t sent = 0;                    // of the header and the bytes
    bool* done = nullptr;                    // of whoever waits
  };
  struct Posted {  // somebody waits for it
    std::span<std::byte> to;
    bool done = false, wrong_size = false;
    uint64_t size = 0;  // of what came
  };
  struct Peer {
    int connection = -1;
    bool left = false;
    Clock::time_point heard;
    std::deque<Letter> out;
    std::map<Key, std::deque<std::vector<std::byte>>> inbox;
    std::map<Key, std::deque<Posted*>> posted;
    // What is being read.
    Header header;
    std::size_t header_read = 0, body_read = 0;
    std::vector<std::byte> body;
    std::span<std::byte> to;
    Posted* into = nullptr;
  };

  Peer& At(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  void Serve();
  void Beat();
  bool WriteTo(Peer& peer);
  enum class Read { kSome, kAll, kEnd };  // more may lie there; all is read that has come; no more comes
  Read ReadFrom(Peer& peer);
  void BeginBody(Peer& peer);
  void Deliver(Peer& peer);
  void Enqueue(Peer& peer, Letter letter);
  void EndOf(int rank);
  void FailLocked(Status status, bool tell);
  void Wake();
  void Forget(Posted& posted, Peer& peer, const Key& key);
  std::string ExplainLocked(int rank) const;
  // To whoever waits for it, or to the inbox.
  void HandOver(Peer& peer, const Key& key, std::vector<std::byte> bytes);
  // Waits with the lock until done() holds; missing(): the ranks that must not have left until then.
  template <typename Done, typename Missing>
  Result<> Wait(std::unique_lock<std::mutex>& lock, const Patience& patience, Done done, Missing missing);

  const int rank_;
  const std::vector<std::string> names_;
  const std::chrono::milliseconds beat_;
  const std::function<void()> on_failure_;
  std::atomic<bool> failed_ = false;
  int wake_read_ = -1, wake_write_ = -1;

  mutable std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  std::vector<Peer> peers_;
  std::optional<Status> failure_;
  bool call_on_failure_ = false;
  bool ending_ = false;
  Clock::time_point end_by_, next_beat_;
  std::thread thread_;
};

}  // namespace krafla::transport
