// SPDX-License-Identifier: Apache-2.0
#include "transport/mesh.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/sockets.h"
#include "base/system.h"
#include "transport/wire.h"

namespace krafla::transport {
namespace {

// Kinds of messages that are the mesh's own; those of others are smaller.
constexpr uint32_t kBeat = 0xffff0001, kFailure = 0xffff0002, kBye = 0xffff0003;
// No array is larger; a header that says so is damaged.
constexpr uint64_t kMaxMessage = uint64_t{1} << 38;
constexpr std::chrono::milliseconds kLook{50};
constexpr std::chrono::seconds kGoodbye{5}, kGoodbyeOfFailed{1};

double Seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

}  // namespace

Mesh::Mesh(int rank, std::vector<std::string> names, std::vector<int> connections, std::chrono::milliseconds beat,
           std::function<void()> on_failure)
    : rank_(rank),
      names_(std::move(names)),
      beat_(beat),
      on_failure_(std::move(on_failure)),
      peers_(connections.size()) {
  const auto now = Clock::now();
  for (std::size_t r = 0; r < connections.size(); ++r) {
    peers_[r].connection = connections[r];
    peers_[r].heard = now;
  }
  next_beat_ = now;
  os::MakePipe(wake_read_, wake_write_);  // without it the thread looks a little later
  thread_ = std::thread([this] { Serve(); });
}

Mesh::~Mesh() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
    end_by_ = Clock::now() + (failure_ ? kGoodbyeOfFailed : kGoodbye);
    for (Peer& p : peers_)
      if (p.connection >= 0) Enqueue(p, {.header = {.kind = kBye}});
  }
  Wake();
  thread_.join();
  for (const Peer& p : peers_)
    if (p.connection >= 0) os::CloseFile(p.connection);
  for (const int end : {wake_read_, wake_write_})
    if (end >= 0) os::CloseFile(end);
}

void Mesh::Wake() {
  const char byte = 0;
  if (wake_write_ >= 0) os::WriteSome(wake_write_, &byte, 1);
}

void Mesh::Enqueue(Peer& peer, Letter letter) {
  letter.header.bytes = letter.bytes.size();
  peer.out.push_back(std::move(letter));
}

void Mesh::Serve() {
  std::vector<os::Polled> entries;
  std::vector<int> ranks;
  for (;;) {
    entries.clear();
    ranks.clear();
    {
      std::lock_guard lock(mutex_);
      bool wants_to_write = false;
      for (int r = 0; r < size(); ++r) {
        const Peer& p = At(r);
        if (p.connection < 0) continue;
        entries.push_back({.descriptor = p.connection, .wants_to_write = !p.out.empty()});
        ranks.push_back(r);
        wants_to_write |= !p.out.empty();
      }
      if (ending_ && (!wants_to_write || Clock::now() >= end_by_)) return;
    }
    entries.push_back({.descriptor = wake_read_});
    os::PollAll(entries, static_cast<int>(std::min(beat_, kLook).count()));
    if (char bytes[64]; entries.back().can_read)
      while (os::ReadSome(wake_read_, bytes, sizeof(bytes)) == sizeof(bytes)) {}
    bool tell = false;
    {
      std::lock_guard lock(mutex_);
      Beat();
      for (std::size_t i = 0; i < ranks.size(); ++i) {
        Peer& p = At(ranks[i]);
        if (entries[i].can_read && ReadFrom(p) == Read::kEnd) EndOf(ranks[i]);
        else if (entries[i].can_write && !WriteTo(p)) EndOf(ranks[i]);
      }
      tell = std::exchange(call_on_failure_, false);
    }
    if (tell) on_failure_();
  }
}

// One waiting message is as good as several to say that this rank is there.
void Mesh::Beat() {
  const auto now = Clock::now();
  if (now < next_beat_ || ending_) return;
  next_beat_ = now + beat_;
  for (Peer& p : peers_)
    if (p.connection >= 0 && p.out.empty()) Enqueue(p, {.header = {.kind = kBeat}}), WriteTo(p);
}

// False: the connection is broken. What it could not send yet stays.
bool Mesh::WriteTo(Peer& p) {
  while (!p.out.empty()) {
    Letter& l = p.out.front();
    const bool in_header = l.sent < sizeof(Header);
    const auto* from =
        in_header ? reinterpret_cast<const std::byte*>(&l.header) + l.sent : l.bytes.data() + (l.sent - sizeof(Header));
    const std::size_t left = in_header ? sizeof(Header) - l.sent : l.bytes.size() - (l.sent - sizeof(Header));
    if (left > 0) {
      const int64_t sent = os::SendSome(p.connection, from, left);
      if (sent == os::kAgain) return true;
      if (sent < 0) return false;
      l.sent += static_cast<std::size_t>(sent);
    }
    if (l.sent < sizeof(Header) + l.bytes.size()) continue;
    if (l.done != nullptr) {
      *l.done = true;
      changed_.notify_all();
    }
    p.out.pop_front();
  }
  return true;
}

Mesh::Read Mesh::ReadFrom(Peer& p) {
  // Others want their turn too.
  for (int reads = 0; reads < 64; ++reads) {
    int64_t got = 0;
    if (p.header_read < sizeof(Header)) {
      got = os::ReceiveSome(p.connection, reinterpret_cast<std::byte*>(&p.header) + p.header_read,
                            sizeof(Header) - p.header_read);
      if (got > 0) p.header_read += static_cast<std::size_t>(got);
      if (p.header_read == sizeof(Header)) {
        if (p.header.bytes > kMaxMessage) return Read::kEnd;
        BeginBody(p);
      }
    } else {
      got = os::ReceiveSome(p.connection, p.to.data() + p.body_read, p.to.size() - p.body_read);
      if (got > 0) p.body_read += static_cast<std::size_t>(got);
    }
    if (got == os::kAgain) return Read::kAll;
    if (got <= 0) return Read::kEnd;
    p.heard = Clock::now();
    if (p.header_read == sizeof(Header) && p.body_read == p.to.size()) Deliver(p);
  }
  return Read::kSome;
}

void Mesh::BeginBody(Peer& p) {
  const Key key{p.header.kind, p.header.source, p.header.target, p.header.number};
  p.body_read = 0;
  p.into = nullptr;
  const auto it = p.posted.find(key);
  if (it != p.posted.end()) {
    Posted* waits = it->second.front();
    it->second.pop_front();
    if (it->second.empty()) p.posted.erase(it);
    waits->size = p.header.bytes;
    if (waits->to.size() == p.header.bytes) {
      p.into = waits;
      p.to = waits->to;
      return;
    }
    waits->done = waits->wrong_size = true;
    changed_.notify_all();
  }
  try {
    p.body.resize(p.header.bytes);
  } catch (const std::bad_alloc&) {
    FailLocked(Status(StatusCode::kResourceExhausted, Format("{} has no memory for a message of {} bytes.",
                                                             names_[static_cast<std::size_t>(rank_)], p.header.bytes)),
               true);
    p.body.clear();
  }
  p.to = p.body;
}

void Mesh::Deliver(Peer& p) {
  const Key key{p.header.kind, p.header.source, p.header.target, p.header.number};
  p.header_read = p.body_read = 0;
  p.to = {};
  if (p.into != nullptr) {
    std::exchange(p.into, nullptr)->done = true;
    changed_.notify_all();
    return;
  }
  std::vector<std::byte> body = std::exchange(p.body, {});
  if (key.kind == kBeat) return;
  if (key.kind == kBye) {
    p.left = true;
  } else if (key.kind == kFailure) {
    // Told on, so that who hears that this rank leaves has heard why.
    const uint32_t code = key.source;
    std::string text(reinterpret_cast<const char*>(body.data()), body.size());
    FailLocked(Status(code >= 1 && code <= 16 ? static_cast<StatusCode>(code) : StatusCode::kAborted, std::move(text)),
               true);
  } else {
    HandOver(p, key, std::move(body));  // who waits for it may have come since it began
  }
  changed_.notify_all();
}

// A connection also breaks where something is written to one that has said goodbye and closed it, which may lie unread.
void Mesh::EndOf(int rank) {
  Peer& p = At(rank);
  while (ReadFrom(p) == Read::kSome) {}
  os::CloseFile(std::exchange(p.connection, -1));
  for (Letter& l : p.out)
    if (l.done != nullptr) *l.done = true;
  p.out.clear();
  if (!p.left && !ending_)
    FailLocked(Status(StatusCode::kUnavailable, Format("{} has ended without a word.", name(rank))), true);
  p.left = true;
  changed_.notify_all();
}

void Mesh::FailLocked(Status status, bool tell) {
  if (failure_) return;
  failure_ = std::move(status);
  failed_.store(true, std::memory_order_release);
  call_on_failure_ = true;
  const std::string& text = failure_->message();
  for (Peer& p : peers_) {
    if (!tell || p.connection < 0) continue;
    Letter letter;
    letter.header.kind = kFailure;
    letter.header.source = static_cast<uint32_t>(failure_->code());
    const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
    letter.owned.assign(bytes, bytes + text.size());
    letter.bytes = letter.owned;
    Enqueue(p, std::move(letter));
  }
  changed_.notify_all();
}

void Mesh::Fail(Status status) {
  bool tell = false;
  {
    std::lock_guard lock(mutex_);
    FailLocked(std::move(status), true);
    tell = std::exchange(call_on_failure_, false);
  }
  Wake();
  if (tell) on_failure_();
}

std::optional<Status> Mesh::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

bool Mesh::HasLeft(int rank) const {
  std::lock_guard lock(mutex_);
  return peers_[static_cast<std::size_t>(rank)].left;
}

std::string Mesh::ExplainLocked(int rank) const {
  const Peer& p = peers_[static_cast<std::size_t>(rank)];
  if (rank == rank_) return "";
  if (p.left) return Format("{} has left the program", name(rank));
  const auto silent = Clock::now() - p.heard;
  return silent > 3 * beat_ ? Format("{} has not answered for {:.1f} s", name(rank), Seconds(silent)) : "";
}

std::string Mesh::Explain(std::span<const int> ranks) const {
  std::lock_guard lock(mutex_);
  std::string out;
  for (const int r : ranks)
    if (const std::string one = ExplainLocked(r); !one.empty()) out += (out.empty() ? "" : "; ") + one;
  return out;
}

std::string Mesh::ExplainAll() const {
  std::vector<int> ranks;
  for (int r = 0; r < size(); ++r) ranks.push_back(r);
  return Explain(ranks);
}

template <typename Done, typename Missing>
Result<> Mesh::Wait(std::unique_lock<std::mutex>& lock, const Patience& patience, Done done, Missing missing) {
  while (!done()) {
    if (failure_) return Failure(*failure_);
    if (patience.stop.stop_requested()) return MakeError(StatusCode::kCancelled, "The run was cancelled.");
    for (const int r : missing())
      if (At(r).left) return Unavailable("{} has left the program, and was still to send something.", name(r));
    const auto now = Clock::now();
    if (now >= patience.end) return DeadlineExceeded("Nothing came in time.");
    changed_.wait_until(lock, patience.stop.stop_possible() ? std::min(patience.end, now + kLook) : patience.end);
  }
  return {};
}

void Mesh::HandOver(Peer& p, const Key& key, std::vector<std::byte> bytes) {
  changed_.notify_all();
  const auto it = p.posted.find(key);
  if (it == p.posted.end()) {
    p.inbox[key].push_back(std::move(bytes));
    return;
  }
  Posted* waits = it->second.front();
  it->second.pop_front();
  if (it->second.empty()) p.posted.erase(it);
  waits->size = bytes.size();
  waits->wrong_size = waits->to.size() != bytes.size();
  if (!waits->wrong_size && !bytes.empty()) std::memcpy(waits->to.data(), bytes.data(), bytes.size());
  waits->done = true;
}

void Mesh::Forget(Posted& posted, Peer& p, const Key& key) {
  if (p.into == &posted) {
    // The rest of what is coming goes nowhere; the run is over, and with it this world.
    p.body.resize(p.to.size());
    p.to = p.body;
    p.into = nullptr;
  }
  const auto it = p.posted.find(key);
  if (it == p.posted.end()) return;
  std::erase(it->second, &posted);
  if (it->second.empty()) p.posted.erase(it);
}

Result<> Mesh::Exchange(std::span<const Outgoing> sends, std::span<const Incoming> receives, const Patience& patience) {
  std::unique_lock lock(mutex_);
  if (failure_) return Failure(*failure_);
  const auto sent = std::make_unique<bool[]>(sends.size());
  std::vector<Posted> posted(receives.size());
  for (std::size_t i = 0; i < receives.size(); ++i) {
    const Incoming& in = receives[i];
    Peer& p = At(in.rank);
    const auto it = p.inbox.find(in.key);
    if (it != p.inbox.end() && !it->second.empty()) {
      posted[i].done = true;
      posted[i].size = it->second.front().size();
      posted[i].wrong_size = posted[i].size != in.bytes.size();
      if (!posted[i].wrong_size && !in.bytes.empty())
        std::memcpy(in.bytes.data(), it->second.front().data(), in.bytes.size());
      it->second.pop_front();
      if (it->second.empty()) p.inbox.erase(it);
    } else {
      posted[i].to = in.bytes;
      p.posted[in.key].push_back(&posted[i]);
    }
  }
  for (std::size_t i = 0; i < sends.size(); ++i) {
    const Outgoing& out = sends[i];
    Peer& p = At(out.rank);
    if (p.connection < 0) {
      sent[i] = true;  // of one that has left, who waits for its part hears
      if (out.rank == rank_) HandOver(p, out.key, {out.bytes.begin(), out.bytes.end()});
      continue;
    }
    const bool was_empty = p.out.empty();
    Enqueue(
        p,
        {.header = {.kind = out.key.kind, .source = out.key.source, .target = out.key.target, .number = out.key.number},
         .bytes = out.bytes,
         .done = &sent[i]});
    // What the connection takes at once needs no other thread.
    if (was_empty && !WriteTo(p)) EndOf(out.rank);
  }
  Wake();
  const auto done = [&] {
    return std::all_of(sent.get(), sent.get() + sends.size(), [](bool b) { return b; }) &&
           std::ranges::all_of(posted, [](const Posted& p) { return p.done; });
  };
  const auto missing = [&] {
    std::vector<int> out;
    for (std::size_t i = 0; i < receives.size(); ++i)
      if (!posted[i].done) out.push_back(receives[i].rank);
    return out;
  };
  Result<> outcome = Wait(lock, patience, done, missing);
  for (std::size_t i = 0; i < receives.size(); ++i) {
    if (!posted[i].done) Forget(posted[i], At(receives[i].rank), receives[i].key);
    else if (posted[i].wrong_size && outcome)
      outcome = InvalidArgument("{} has sent {} bytes where {} were to come: the ranks run different programs.",
                                name(receives[i].rank), posted[i].size, receives[i].bytes.size());
  }
  // What was begun goes on, from a copy.
  for (const Outgoing& out : sends)
    for (Letter& l : At(out.rank).out)
      if (l.done >= sent.get() && l.done < sent.get() + sends.size()) {
        l.done = nullptr;
        l.owned.assign(l.bytes.begin(), l.bytes.end());
        l.bytes = l.owned;
      }
  return outcome;
}

Result<> Mesh::Post(int rank, const Key& key, std::span<const std::byte> bytes) {
  auto copy = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
  const std::span<const std::byte> copied = *copy;
  return Post(rank, key, copied, std::move(copy));
}

Result<> Mesh::Post(int rank, const Key& key, std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  {
    std::lock_guard lock(mutex_);
    if (failure_) return Failure(*failure_);
    Peer& p = At(rank);
    if (rank == rank_) {
      HandOver(p, key, {bytes.begin(), bytes.end()});
      return {};
    }
    if (p.connection < 0) return Unavailable("{} has left the program.", name(rank));
    Letter letter;
    letter.header = {.kind = key.kind, .source = key.source, .target = key.target, .number = key.number};
    letter.owner = std::move(owner);
    letter.bytes = bytes;
    Enqueue(p, std::move(letter));
  }
  Wake();
  return {};
}

Result<std::vector<std::byte>> Mesh::Take(int rank, const Key& key, const Patience& patience) {
  std::unique_lock lock(mutex_);
  Peer& p = At(rank);
  const auto is_here = [&] {
    const auto it = p.inbox.find(key);
    return it != p.inbox.end() && !it->second.empty();
  };
  KRAFLA_TRY(Wait(lock, patience, is_here, [&] { return std::vector<int>{rank}; }));
  const auto it = p.inbox.find(key);
  std::vector<std::byte> out = std::move(it->second.front());
  it->second.pop_front();
  if (it->second.empty()) p.inbox.erase(it);
  return out;
}

}  // namespace krafla::transport
