// SPDX-License-Identifier: Apache-2.0
#include "transport/connect.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/sockets.h"
#include "base/system.h"
#include "transport/wire.h"

namespace krafla::transport {
namespace {

using Moment = std::chrono::steady_clock::time_point;

constexpr std::string_view kRankHello = "krafla rank 1\n";
constexpr int kAnswerMs = 3000;  // of somebody who may be no rank at all
constexpr uint64_t kMaxAddresses = 64;

bool IsOwnAddress(std::string_view address) { return address == "127.0.0.1" || address == "::1"; }

// A rank connects to all before it, and those after it connect to it.
class Connector {
 public:
  Connector(int rank, const std::vector<RankInfo>& ranks, std::chrono::milliseconds limit)
      : rank_(rank),
        ranks_(ranks),
        limit_(limit),
        end_(std::chrono::steady_clock::now() + limit),
        connections_(ranks.size(), -1) {}
  ~Connector() {
    for (const int d : open_)
      if (d >= 0) os::CloseFile(d);
  }

  Result<std::vector<int>> Run(Bootstrap& bootstrap) {
    KRAFLA_ASSIGN(const std::string place, Listen());
    // Whoever has all places knows that all listen.
    KRAFLA_ASSIGN(const std::vector<std::string> places, bootstrap.AllGather(place));
    for (int r = 0; r < rank_; ++r) KRAFLA_TRY(IsNear(r) ? ConnectNear(r) : ConnectFar(r, places[At(r)]));
    KRAFLA_TRY(AcceptOthers());
    for (const int c : connections_) std::erase(open_, c);
    return connections_;
  }

 private:
  static std::size_t At(int rank) { return static_cast<std::size_t>(rank); }
  int size() const { return static_cast<int>(ranks_.size()); }
  bool IsNear(int r) const { return ranks_[At(r)].IsNear(ranks_[At(rank_)]); }
  int LeftMs(int at_most = 1 << 30) const { return os::MillisecondsUntil(end_, at_most); }
  std::string HelloTo(int r) const {
    WireWriter number;
    number.Number(rank_);
    return std::string(kRankHello) + ranks_[At(r)].token + number.Take();
  }
  Failure Unreached(int r) const {
    return Unavailable("{} cannot be reached from {}: {}.", ranks_[At(r)].name, ranks_[At(rank_)].name,
                       std::strerror(errno));
  }

  // Where others find this rank.
  Result<std::string> Listen() {
    bool has_near = false, has_far = false;
    for (int r = 0; r < size(); ++r) {
      has_near |= r != rank_ && IsNear(r);
      has_far |= r != rank_ && !IsNear(r);
    }
    const RankInfo& own = ranks_[At(rank_)];
    if (has_near) open_.push_back(near_ = os::ListenLocally(own.local_name, size()));
    if (has_far) open_.push_back(far_ = os::ListenOn("", 0, size()));
    if ((has_near && near_ < 0) || (has_far && far_ < 0))
      return Unavailable("{} cannot listen for the others: {}.", own.name, std::strerror(errno));
    WireWriter place;
    if (has_far) {
      std::vector<std::string> addresses = os::Addresses();
      addresses.emplace_back("127.0.0.1");  // of ranks that share a machine and no memory
      addresses.emplace_back("::1");
      place.Number(os::PortOf(far_));
      place.Number(addresses.size());
      for (const std::string& a : addresses) place.Text(a);
    }
    return place.Take();
  }

  Result<> ConnectNear(int r) {
    const int connection = os::ConnectLocally(ranks_[At(r)].local_name);
    open_.push_back(connection);
    const std::string hello = HelloTo(r);
    if (connection < 0 || !os::SendAll(connection, hello.data(), hello.size(), LeftMs())) return Unreached(r);
    connections_[At(r)] = connection;
    return {};
  }

  // At the first of its addresses where it answers: another machine may have the same one in a network of its own.
  Result<> ConnectFar(int r, std::string_view place) {
    WireReader in(place);
    const int port = static_cast<int>(in.Number());
    const uint64_t count = std::min(in.Number(), kMaxAddresses);
    const std::string hello = HelloTo(r);
    for (uint64_t a = 0; a < count && in.ok(); ++a) {
      const std::string address = in.Text();
      if (IsOwnAddress(address) && ranks_[At(r)].host != ranks_[At(rank_)].host) continue;
      const int connection = os::ConnectTo(address, port, LeftMs(kAnswerMs));
      if (connection < 0) continue;
      open_.push_back(connection);
      char answer = 0;
      if (!os::SendAll(connection, hello.data(), hello.size(), LeftMs(kAnswerMs)) ||
          !os::ReceiveAll(connection, &answer, 1, LeftMs(kAnswerMs)) || answer != 'k')
        continue;
      connections_[At(r)] = connection;
      return {};
    }
    return Unreached(r);
  }

  Result<> AcceptOthers() {
    for (int missing = size() - 1 - rank_; missing > 0;) {
      // Those of this machine and those of others come at two places: a short look at each in turn.
      const int look_ms = near_ >= 0 && far_ >= 0 ? 20 : 1000;
      int connection = near_ >= 0 ? os::AcceptFrom(near_, LeftMs(look_ms)) : -1;
      const bool is_near = connection >= 0;
      if (connection < 0 && far_ >= 0) connection = os::AcceptFrom(far_, LeftMs(look_ms));
      if (connection < 0 && LeftMs() == 0) return Absent();
      if (connection < 0) continue;
      open_.push_back(connection);
      if (Admit(connection, is_near)) --missing;
    }
    return {};
  }

  // Whoever else connects here does not know the token.
  bool Admit(int connection, bool is_near) {
    const std::string wanted = std::string(kRankHello) + ranks_[At(rank_)].token;
    std::string hello(wanted.size(), '\0');
    char number[8];
    if ((is_near && !os::IsSameUser(connection)) ||
        !os::ReceiveAll(connection, hello.data(), hello.size(), LeftMs(kAnswerMs)) || hello != wanted ||
        !os::ReceiveAll(connection, number, sizeof(number), LeftMs(kAnswerMs)))
      return false;
    const uint64_t r = WireReader({number, sizeof(number)}).Number();
    if (r <= static_cast<uint64_t>(rank_) || r >= ranks_.size() || connections_[r] >= 0) return false;
    if (!is_near && !os::SendAll(connection, "k", 1, LeftMs(kAnswerMs))) return false;
    connections_[r] = connection;
    return true;
  }

  Failure Absent() const {
    std::string absent;
    for (int r = rank_ + 1; r < size(); ++r)
      if (connections_[At(r)] < 0) absent += (absent.empty() ? "" : "; ") + ranks_[At(r)].name;
    return DeadlineExceeded("These have not connected to {} within {:g} s: {}.", ranks_[At(rank_)].name,
                            static_cast<double>(limit_.count()) / 1000, absent);
  }

  const int rank_;
  const std::vector<RankInfo>& ranks_;
  const std::chrono::milliseconds limit_;
  const Moment end_;
  int near_ = -1, far_ = -1;
  std::vector<int> open_;  // closed at the end, but for connections
  std::vector<int> connections_;
};

}  // namespace

Result<std::vector<int>> ConnectRanks(Bootstrap& bootstrap, const std::vector<RankInfo>& ranks,
                                      std::chrono::milliseconds limit) {
  return Connector(bootstrap.rank(), ranks, limit).Run(bootstrap);
}

}  // namespace krafla::transport
