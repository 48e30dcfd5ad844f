// SPDX-License-Identifier: Apache-2.0
// Collectives by messages. Of a sum each member gets its part of all others', sums it in the order of ranks, and sends
// the sums to all: twice (n - 1) / n of the bytes leave a member, which no order of additions that is the same for all
// can do with less. Large arrays go in pieces, so that what is on its way stays small.
#include <algorithm>
#include <cstring>

#include "collectives/spanning_work.h"

namespace krafla {
namespace {

constexpr uint32_t kCollectiveMessage = 1;
constexpr int64_t kMessagePiece = 4 << 20;

class MessageWork {
 public:
  MessageWork(const SpanningWork& work, transport::World& world, std::span<const int> ranks,
              std::span<const uint32_t> addresses, uint32_t signature)
      : work_(work),
        world_(world),
        ranks_(ranks),
        addresses_(addresses),
        signature_(signature),
        operands_(Packed::Operands(work.collective)) {}

  Result<> Run() {
    const Collective& c = work_.collective;
    if (c.opcode() == Opcode::kReduceScatter) return ReduceScatter();
    return c.Reduces() ? AllReduce() : c.Moves() ? Move() : GatherAll();
  }

 private:
  using Bytes = std::vector<std::byte>;
  std::size_t n() const { return ranks_.size(); }

  // to_others[m] goes to member m, from_others[m] comes from it; empty ones do not.
  Result<> Exchange(std::span<const std::span<const std::byte>> to_others,
                    std::span<const std::span<std::byte>> from_others) {
    std::vector<transport::Outgoing> sends;
    std::vector<transport::Incoming> receives;
    const auto key = [&](std::size_t from, std::size_t to) {
      return transport::Key{
          .kind = kCollectiveMessage, .source = addresses_[from], .target = addresses_[to], .number = signature_};
    };
    for (std::size_t m = 0; m < n(); ++m) {
      if (m == work_.rank) continue;
      if (!to_others[m].empty()) sends.push_back({ranks_[m], key(work_.rank, m), to_others[m]});
      if (!from_others[m].empty()) receives.push_back({ranks_[m], key(m, work_.rank), from_others[m]});
    }
    return world_.Exchange(sends, receives, work_.patience);
  }

  // sums[0, bytes) = own and others' (by member), in the order of ranks.
  Result<> Sum(std::byte* sums, const std::byte* own, const std::vector<Bytes>& others, int64_t bytes) {
    if (bytes == 0) return {};
    for (std::size_t m = 0; m < n(); ++m) {
      const std::byte* from = m == work_.rank ? own : others[m].data();
      if (m == 0) std::memcpy(sums, from, At(bytes));
      else KRAFLA_TRY(work_.collective.Combine(sums, from, bytes));
    }
    return {};
  }

  Result<> AllReduce() {
    Bytes piece(At(std::min(kMessagePiece, operands_.total()))), sums(piece.size());
    for (int64_t begin = 0; begin < operands_.total(); begin += kMessagePiece) {
      const int64_t size = std::min(kMessagePiece, operands_.total() - begin);
      operands_.Pack(work_.own.operands, begin, begin + size, piece.data());
      const ByteShare own = ByteShare::Of(size, work_.rank, n());
      std::vector<Bytes> others(n(), Bytes(At(own.end - own.begin)));
      std::vector<std::span<const std::byte>> out(n());
      std::vector<std::span<std::byte>> in(n());
      for (std::size_t m = 0; m < n(); ++m) {
        const ByteShare share = ByteShare::Of(size, m, n());
        out[m] = std::span(piece).subspan(At(share.begin), At(share.end - share.begin));
        in[m] = others[m];
      }
      KRAFLA_TRY(Exchange(out, in));
      KRAFLA_TRY(Sum(sums.data() + own.begin, piece.data() + own.begin, others, own.end - own.begin));
      for (std::size_t m = 0; m < n(); ++m) {
        const ByteShare share = ByteShare::Of(size, m, n());
        out[m] = std::span(sums).subspan(At(own.begin), At(own.end - own.begin));
        in[m] = std::span(sums).subspan(At(share.begin), At(share.end - share.begin));
      }
      KRAFLA_TRY(Exchange(out, in));
      operands_.Unpack(sums.data(), begin, begin + size, work_.own.results);
    }
    return {};
  }

  Result<> ReduceScatter() {
    const Packed results = Packed::Results(work_.collective);
    const int64_t part =
        std::max(Packed::kLine, kMessagePiece / static_cast<int64_t>(n()) / Packed::kLine * Packed::kLine);
    for (int64_t begin = 0; begin < results.total(); begin += part) {
      const int64_t end = std::min(results.total(), begin + part);
      std::vector<Bytes> mine(n(), Bytes(At(end - begin))), others(n(), Bytes(At(end - begin)));
      std::vector<std::span<const std::byte>> out(n());
      std::vector<std::span<std::byte>> in(n());
      for (std::size_t m = 0; m < n(); ++m) {
        for (const CollectiveMove& move : work_.collective.MovesTo(work_.group, m)) {
          const Rows rows{
              results.base(move.to_leaf) + move.to, move.to_stride, move.from, move.from_stride, move.bytes, move.rows};
          rows.Each(begin, end, [&](int64_t place, int64_t from, int64_t bytes) {
            std::memcpy(mine[m].data() + (place - begin), work_.own.operands[move.from_leaf] + from, At(bytes));
          });
        }
        out[m] = mine[m];
        in[m] = others[m];
      }
      KRAFLA_TRY(Exchange(out, in));
      Bytes sums(At(end - begin));
      KRAFLA_TRY(Sum(sums.data(), mine[work_.rank].data(), others, end - begin));
      results.Unpack(sums.data(), begin, end, work_.own.results);
    }
    return {};
  }

  // What of the operands of `source` in [begin, end) goes to member `target`: visit(move, place, to, bytes).
  template <typename Visit>
  void EachPart(std::size_t source, std::size_t target, int64_t begin, int64_t end, Visit visit) const {
    for (const CollectiveMove& move : moves_[target]) {
      if (move.source != source) continue;
      const Rows rows{
          operands_.base(move.from_leaf) + move.from, move.from_stride, move.to, move.to_stride, move.bytes, move.rows};
      rows.Each(begin, end, [&](int64_t place, int64_t to, int64_t bytes) { visit(move, place, to, bytes); });
    }
  }

  Result<> Move() {
    for (std::size_t m = 0; m < n(); ++m) moves_.push_back(work_.collective.MovesTo(work_.group, m));
    if (moves_[work_.rank].empty()) work_.collective.ZeroResults(work_.own);
    for (int64_t begin = 0; begin < operands_.total(); begin += kMessagePiece) {
      const int64_t end = std::min(operands_.total(), begin + kMessagePiece);
      std::vector<Bytes> mine(n()), others(n());
      std::vector<std::span<const std::byte>> out(n());
      std::vector<std::span<std::byte>> in(n());
      for (std::size_t m = 0; m < n(); ++m) {
        EachPart(work_.rank, m, begin, end, [&](const CollectiveMove& move, int64_t place, int64_t to, int64_t bytes) {
          const std::byte* from = work_.own.operands[move.from_leaf] + (place - operands_.base(move.from_leaf));
          if (m == work_.rank) std::memcpy(work_.own.results[move.to_leaf] + to, from, At(bytes));
          else mine[m].insert(mine[m].end(), from, from + bytes);
        });
        int64_t comes = 0;
        if (m != work_.rank)
          EachPart(m, work_.rank, begin, end,
                   [&](const CollectiveMove&, int64_t, int64_t, int64_t bytes) { comes += bytes; });
        others[m].resize(At(comes));
        out[m] = mine[m];
        in[m] = others[m];
      }
      KRAFLA_TRY(Exchange(out, in));
      for (std::size_t m = 0; m < n(); ++m) {
        if (m == work_.rank) continue;
        const std::byte* from = others[m].data();
        EachPart(m, work_.rank, begin, end, [&](const CollectiveMove& move, int64_t, int64_t to, int64_t bytes) {
          std::memcpy(work_.own.results[move.to_leaf] + to, from, At(bytes));
          from += bytes;
        });
      }
    }
    return {};
  }

  // What depends on the arrays' own values: all of them, and the collective as within a process.
  Result<> GatherAll() {
    std::vector<Bytes> rows(n(), Bytes(At(operands_.total())));
    operands_.Pack(work_.own.operands, 0, operands_.total(), rows[work_.rank].data());
    std::vector<std::span<const std::byte>> out(n(), rows[work_.rank]);
    std::vector<std::span<std::byte>> in(rows.begin(), rows.end());
    KRAFLA_TRY(Exchange(out, in));
    return RunOnAllOperands(work_, operands_, rows);
  }

  const SpanningWork& work_;
  transport::World& world_;
  const std::span<const int> ranks_;
  const std::span<const uint32_t> addresses_;
  const uint32_t signature_;
  const Packed operands_;
  std::vector<std::vector<CollectiveMove>> moves_;  // by member that gets them
};

}  // namespace

SpanningOutcome RunByMessages(const SpanningWork& work, transport::World& world, std::span<const int> ranks,
                              std::span<const uint32_t> addresses, uint32_t signature) {
  return {MessageWork(work, world, ranks, addresses, signature).Run(), {}};
}

}  // namespace krafla
