// SPDX-License-Identifier: Apache-2.0
#include "transport/bootstrap.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <thread>

#include "base/sockets.h"
#include "base/system.h"
#include "transport/wire.h"

namespace krafla::transport {
namespace {

constexpr std::string_view kHello = "krafla world 1\n";
constexpr uint64_t kMaxBlob = 1 << 20;
constexpr std::chrono::milliseconds kRetry{50};

using os::MillisecondsUntil;

class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket() {
    if (descriptor_ >= 0) os::CloseFile(descriptor_);
  }
  int get() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

// A sentence that becomes part of another.
std::string_view WithoutStop(std::string_view text) {
  if (text.ends_with('.')) text.remove_suffix(1);
  return text;
}

bool SendBlob(int to, std::string_view blob, int limit_ms) {
  WireWriter size;
  size.Number(blob.size());
  const std::string header = size.Take();
  return os::SendAll(to, header.data(), header.size(), limit_ms) && os::SendAll(to, blob.data(), blob.size(), limit_ms);
}

bool ReceiveBlob(int from, std::string& blob, int limit_ms) {
  char header[8];
  if (!os::ReceiveAll(from, header, sizeof(header), limit_ms)) return false;
  const uint64_t size = WireReader({header, sizeof(header)}).Number();
  if (size > kMaxBlob * kMaxRanks) {
    errno = EMSGSIZE;
    return false;
  }
  blob.clear();
  // As it comes, so that a wrong size takes no memory.
  while (blob.size() < size) {
    const std::size_t at = blob.size(), next = std::min<std::size_t>(size - at, kMaxBlob);
    blob.resize(at + next);
    if (!os::ReceiveAll(from, blob.data() + at, next, limit_ms)) return false;
  }
  return true;
}

// Rank 0's word to the others: 'A' and what all gave, or 'E' and why not.
class Coordinated final : public Bootstrap {
 public:
  static Result<std::unique_ptr<Bootstrap>> Make(std::string host, int port, int rank, int size,
                                                 std::chrono::milliseconds limit) {
    std::unique_ptr<Coordinated> out(new Coordinated(rank, size, limit));
    out->place_ = Format("{}:{}", host, port);
    if (rank == 0) KRAFLA_TRY(out->Listen(host, port));
    else KRAFLA_TRY(out->Ask(host, port));
    return out;
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  Result<std::vector<std::string>> AllGather(std::string_view own) override {
    if (own.size() > kMaxBlob) return Internal("A blob of {} bytes is more than {}.", own.size(), kMaxBlob);
    return rank_ == 0 ? Gather(own) : Give(own);
  }

 private:
  Coordinated(int rank, int size, std::chrono::milliseconds limit)
      : rank_(rank), size_(size), limit_(limit), ranks_(static_cast<std::size_t>(size)) {}

  Failure Refuse(Failure why) {
    for (const Socket& s : ranks_)
      if (s.get() >= 0) RefuseOne(s.get(), why);
    return why;
  }
  // What it says is read first: a connection that is closed with unread bytes may lose what was sent.
  static void RefuseOne(int connection, const Failure& why) {
    std::string said;
    ReceiveBlob(connection, said, 1000);
    SendBlob(connection, "E" + why.error().message(), 1000);
  }

  Result<> Listen(const std::string& host, int port) {
    const auto end = os::Clock::now() + limit_;
    const Socket listener(os::ListenOn(host, port, size_));
    if (listener.get() < 0)
      return Unavailable("Rank 0 cannot listen at the coordinator's address {}: {}.", place_, std::strerror(errno));
    for (int missing = size_ - 1; missing > 0;) {
      Socket one(os::AcceptFrom(listener.get(), MillisecondsUntil(end)));
      if (one.get() < 0)
        return Refuse(DeadlineExceeded("Only {} of {} processes have come to {} within {:g} s: {} not come.",
                                       size_ - missing, size_, place_, static_cast<double>(limit_.count()) / 1000,
                                       Absent()));
      // Whoever else connects here says something else, or nothing.
      std::string hello(kHello.size(), '\0');
      char numbers[16];
      if (!os::ReceiveAll(one.get(), hello.data(), hello.size(), std::min(MillisecondsUntil(end), 2000)) ||
          hello != kHello || !os::ReceiveAll(one.get(), numbers, sizeof(numbers), 2000))
        continue;
      WireReader reader({numbers, sizeof(numbers)});
      const uint64_t rank = reader.Number(), size = reader.Number();
      if (size != static_cast<uint64_t>(size_)) {
        Failure why = InvalidArgument("Rank {} was started for {} processes, rank 0 for {}.", rank, size, size_);
        RefuseOne(one.get(), why);
        return Refuse(std::move(why));
      }
      if (rank >= size || rank == 0 || ranks_[rank].get() >= 0) {
        Failure why = InvalidArgument("Two processes say that they are rank {} of {}.", rank, size);
        RefuseOne(one.get(), why);
        return Refuse(std::move(why));
      }
      ranks_[rank] = std::move(one);
      --missing;
    }
    return {};
  }

  std::string Absent() const {
    std::string out;
    int count = 0;
    for (int r = 1; r < size_; ++r)
      if (ranks_[static_cast<std::size_t>(r)].get() < 0 && count++ < 16)
        out += Format("{}{}", count == 1 ? "" : ", ", r);
    return (count == 1 ? "rank " : "ranks ") + out + (count > 16 ? ", .." : "") + (count == 1 ? " has" : " have");
  }

  Result<> Ask(const std::string& host, int port) {
    const auto end = os::Clock::now() + limit_;
    for (;;) {
      Socket one(os::ConnectTo(host, port, MillisecondsUntil(end)));
      const int error = errno;
      if (one.get() >= 0) {
        WireWriter numbers;
        numbers.Number(rank_);
        numbers.Number(size_);
        const std::string words = std::string(kHello) + numbers.Take();
        if (os::SendAll(one.get(), words.data(), words.size(), MillisecondsUntil(end))) {
          ranks_[0] = std::move(one);
          return {};
        }
      }
      // Rank 0 may still be on its way.
      if (os::Clock::now() + kRetry >= end)
        return DeadlineExceeded("Rank {} has not reached rank 0 at {} within {:g} s: {}.", rank_, place_,
                                static_cast<double>(limit_.count()) / 1000, std::strerror(error));
      std::this_thread::sleep_for(kRetry);
    }
  }

  Result<std::vector<std::string>> Gather(std::string_view own) {
    const auto end = os::Clock::now() + limit_;
    std::vector<std::string> out = {std::string(own)};
    out.resize(static_cast<std::size_t>(size_));
    for (int r = 1; r < size_; ++r) {
      const auto at = static_cast<std::size_t>(r);
      if (!ReceiveBlob(ranks_[at].get(), out[at], MillisecondsUntil(end)) || out[at].size() > kMaxBlob)
        return Refuse(Unavailable("Rank {} has gone, or said nothing, while the processes came together: {}.", r,
                                  std::strerror(errno)));
    }
    WireWriter all;
    for (const std::string& one : out) all.Text(one);
    const std::string answer = "A" + all.Take();
    for (int r = 1; r < size_; ++r)
      if (!SendBlob(ranks_[static_cast<std::size_t>(r)].get(), answer, MillisecondsUntil(end)))
        return Refuse(Unavailable("Rank {} has gone while the processes came together: {}.", r, std::strerror(errno)));
    return out;
  }

  Result<std::vector<std::string>> Give(std::string_view own) {
    // Rank 0 waits for all others first, and says so when it has waited enough.
    const int limit_ms = static_cast<int>(std::min<int64_t>(2 * limit_.count() + 2000, 1 << 30));
    std::string answer;
    const bool is_sent = SendBlob(ranks_[0].get(), own, limit_ms);  // if not, there may be an answer that says why
    if (!ReceiveBlob(ranks_[0].get(), answer, limit_ms) || (!is_sent && !answer.starts_with('E')))
      return Unavailable("Rank 0 at {} has gone, or said nothing, while the processes came together: {}.", place_,
                         std::strerror(errno));
    if (answer.starts_with('E'))
      return FailedPrecondition("Rank 0 at {} has refused: {}.", place_, WithoutStop(answer).substr(1));
    WireReader reader(std::string_view(answer).substr(std::min<std::size_t>(1, answer.size())));
    std::vector<std::string> out;
    for (int r = 0; r < size_ && reader.ok(); ++r) out.push_back(reader.Text());
    if (!answer.starts_with('A') || !reader.ok() || !reader.at_end())
      return DataLoss("What listens at {} is not rank 0 of {} processes of krafla.", place_, size_);
    return out;
  }

  const int rank_, size_;
  const std::chrono::milliseconds limit_;
  std::string place_;
  std::vector<Socket> ranks_;  // of rank 0: to each other rank; of the others: to rank 0
};

class Stored final : public Bootstrap {
 public:
  Stored(KeyValueStore store, std::string name, int rank, int size, std::chrono::milliseconds limit)
      : store_(std::move(store)), name_(std::move(name)), rank_(rank), size_(size), limit_(limit) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  Result<std::vector<std::string>> AllGather(std::string_view own) override {
    const auto end = os::Clock::now() + limit_;
    const int round = round_++;
    KRAFLA_TRY(store_.put(Format("{}/{}/{}", name_, round, rank_), own));
    std::vector<std::string> out;
    for (int r = 0; r < size_; ++r) {
      if (r == rank_) {
        out.emplace_back(own);
        continue;
      }
      const auto left = std::chrono::milliseconds(std::max(1, MillisecondsUntil(end)));
      Result<std::string> blob = store_.get(Format("{}/{}/{}", name_, round, r), left);
      if (!blob) {
        Status why = std::move(blob).error();
        return Failure(std::move(why).WithContext(Format("while rank {} waited for rank {} of {}", rank_, r, size_)));
      }
      out.push_back(*std::move(blob));
    }
    return out;
  }

 private:
  const KeyValueStore store_;
  const std::string name_;
  const int rank_, size_;
  const std::chrono::milliseconds limit_;
  int round_ = 0;
};

}  // namespace

Result<> CheckRank(int64_t rank, int64_t size) {
  if (size < 1 || size > kMaxRanks)
    return InvalidArgument("A program of {} processes cannot run: 1 to {} are possible.", size, kMaxRanks);
  if (rank < 0 || rank >= size)
    return InvalidArgument("There is no rank {} among {} processes; ranks begin at 0.", rank, size);
  return {};
}

Result<std::unique_ptr<Bootstrap>> BootstrapAt(std::string_view coordinator, int rank, int size,
                                               std::chrono::milliseconds limit) {
  KRAFLA_TRY(CheckRank(rank, size));
  const std::size_t colon = coordinator.rfind(':');
  std::string host(coordinator.substr(0, std::min(colon, coordinator.size())));
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  int port = 0;
  const std::string_view digits = colon == coordinator.npos ? "" : coordinator.substr(colon + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size() || port < 1 || port > 65535 || host.empty())
    return InvalidArgument("The coordinator '{}' is not a host and a port of 1 to 65535, such as node1:12345.",
                           coordinator);
  return Coordinated::Make(host, port, rank, size, limit);
}

std::unique_ptr<Bootstrap> BootstrapThrough(KeyValueStore store, std::string name, int rank, int size,
                                            std::chrono::milliseconds limit) {
  return std::make_unique<Stored>(std::move(store), std::move(name), rank, size, limit);
}

}  // namespace krafla::transport
