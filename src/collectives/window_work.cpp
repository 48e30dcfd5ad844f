// SPDX-License-Identifier: Apache-2.0
// Collectives between processes of one machine. Each member copies a piece of what it brings into its window, all meet,
// and each reads what it needs from the others' windows; meanwhile it brings the next piece into the other half. What a
// member writes after a meeting is read after the next one, so that one meeting a piece is enough.
#include <algorithm>
#include <cstring>

#include "collectives/spanning_work.h"

namespace krafla {
namespace {

using transport::SharedWindows;

constexpr int64_t kPieceBytes = static_cast<int64_t>(SharedWindows::kPiece);
// Sums of so few bytes each member does itself: one meeting instead of two.
constexpr int64_t kOneMeeting = 16 * 1024;
// Values that are summed over all members before the next ones: they stay in the first cache.
constexpr int64_t kSumBytes = 16 * 1024;

class WindowWork {
 public:
  WindowWork(const SpanningWork& work, SharedWindows& windows, std::span<const std::size_t> slots,
             const std::function<Result<>()>& failure)
      : work_(work),
        windows_(windows),
        slots_(slots),
        failure_(failure),
        own_slot_(slots[work.rank]),
        operands_(Packed::Operands(work.collective)) {}

  SpanningOutcome Run(uint32_t signature) {
    SpanningOutcome out;
    out.result = Begin(signature);
    if (out.result) {
      const Collective& c = work_.collective;
      const bool scatters = c.opcode() == Opcode::kReduceScatter;
      out.result = scatters ? ReduceScatter() : c.Reduces() ? AllReduce() : c.Moves() ? Move() : GatherAll();
    }
    if (out.result) windows_.Leave(own_slot_, slots_);
    out.missing = std::move(missing_);
    return out;
  }

 private:
  std::size_t n() const { return slots_.size(); }

  Result<> Begin(uint32_t signature) {
    signature_ = signature;
    return Judge(windows_.Begin(own_slot_, slots_, signature, work_.patience));
  }

  Result<> Meet() {
    KRAFLA_TRY(Judge(windows_.Meet(own_slot_, slots_, work_.patience)));
    if (std::exchange(has_met_, true)) return {};
    for (std::size_t m = 0; m < n(); ++m)
      if (!windows_.AgreesWith(own_slot_, slots_[m], signature_))
        return InvalidArgument("The member of rank {} in the group has come with another collective.", m);
    return {};
  }

  Result<> Judge(SharedWindows::Outcome outcome) {
    switch (outcome) {
      case SharedWindows::Outcome::kDone: return {};
      case SharedWindows::Outcome::kStopped: return MakeError(StatusCode::kCancelled, "The run was cancelled.");
      case SharedWindows::Outcome::kGone:
      case SharedWindows::Outcome::kFailed: return failure_();
      case SharedWindows::Outcome::kLate: break;
    }
    const std::vector<std::size_t> late = windows_.Missing(own_slot_, slots_);
    for (std::size_t m = 0; m < n(); ++m)
      if (std::ranges::contains(late, slots_[m])) missing_.push_back(m);
    return DeadlineExceeded("Not all members came in time.");
  }

  std::byte* Brought(std::size_t member, int64_t piece) { return windows_.Brought(slots_[member], At(piece & 1)); }
  std::byte* Given(std::size_t member, int64_t piece) { return windows_.Given(slots_[member], At(piece & 1)); }

  // out[0, bytes) = the sums of what the members brought from `offset` of the piece on.
  Result<> Sum(std::byte* out, int64_t piece, int64_t offset, int64_t bytes) {
    for (int64_t done = 0; done < bytes; done += kSumBytes) {
      const int64_t some = std::min(kSumBytes, bytes - done);
      std::memcpy(out + done, Brought(0, piece) + offset + done, At(some));
      for (std::size_t m = 1; m < n(); ++m)
        KRAFLA_TRY(work_.collective.Combine(out + done, Brought(m, piece) + offset + done, some));
    }
    return {};
  }

  void Bring(int64_t piece) {
    const int64_t begin = piece * kPieceBytes, end = std::min(operands_.total(), begin + kPieceBytes);
    operands_.Pack(work_.own.operands, begin, end, Brought(work_.rank, piece));
  }
  int64_t Pieces() const { return (operands_.total() + kPieceBytes - 1) / kPieceBytes; }

  // Brings all pieces; take(piece, begin, end) when all members have brought theirs.
  template <typename Take>
  Result<> InPieces(bool brings, Take take) {
    const int64_t pieces = Pieces();
    for (int64_t p = 0; p < pieces; ++p) {
      if (p == 0 && brings) Bring(0);
      KRAFLA_TRY(Meet());
      if (p + 1 < pieces && brings) Bring(p + 1);
      KRAFLA_TRY(take(p, p * kPieceBytes, std::min(operands_.total(), (p + 1) * kPieceBytes)));
    }
    return {};
  }

  Result<> AllReduce() {
    if (operands_.total() <= kOneMeeting)
      return InPieces(true, [&](int64_t piece, int64_t begin, int64_t end) -> Result<> {
        Result<> outcome;
        operands_.EachLeaf(begin, end, [&](std::size_t k, int64_t offset, int64_t place, int64_t bytes) {
          if (outcome) outcome = Sum(work_.own.results[k] + offset, piece, place - begin, bytes);
        });
        return outcome;
      });
    // The last step only takes what was summed.
    const int64_t pieces = Pieces();
    if (pieces > 0) Bring(0);
    for (int64_t p = 0; p <= pieces && pieces > 0; ++p) {
      KRAFLA_TRY(Meet());
      if (p + 1 < pieces) Bring(p + 1);
      if (p < pieces) {
        const ByteShare share = ByteShare::Of(BytesOf(p), work_.rank, n());
        KRAFLA_TRY(Sum(Given(work_.rank, p) + share.begin, p, share.begin, share.end - share.begin));
      }
      if (p > 0) TakeSums(p - 1);
    }
    return {};
  }

  int64_t BytesOf(int64_t piece) const { return std::min(kPieceBytes, operands_.total() - piece * kPieceBytes); }

  void TakeSums(int64_t piece) {
    const int64_t begin = piece * kPieceBytes;
    for (std::size_t m = 0; m < n(); ++m) {
      const ByteShare share = ByteShare::Of(BytesOf(piece), m, n());
      operands_.Unpack(Given(m, piece) + share.begin, begin + share.begin, begin + share.end, work_.own.results);
    }
  }

  // A piece has a part for each member.
  Result<> ReduceScatter() {
    const Packed results = Packed::Results(work_.collective);
    const int64_t part = kPieceBytes / static_cast<int64_t>(n()) / Packed::kLine * Packed::kLine;
    if (part == 0) return Unimplemented("A reduce-scatter of {} members is not supported.", n());
    std::vector<std::vector<CollectiveMove>> moves;
    for (std::size_t m = 0; m < n(); ++m) moves.push_back(work_.collective.MovesTo(work_.group, m));
    const auto bring = [&](int64_t piece) {
      const int64_t begin = piece * part, end = begin + part;
      for (std::size_t m = 0; m < n(); ++m)
        for (const CollectiveMove& move : moves[m]) {
          const int64_t base = results.base(move.to_leaf);
          const Rows rows{base + move.to, move.to_stride, move.from, move.from_stride, move.bytes, move.rows};
          std::byte* to = Brought(work_.rank, piece) + static_cast<int64_t>(m) * part;
          rows.Each(begin, end, [&](int64_t place, int64_t from, int64_t bytes) {
            std::memcpy(to + (place - begin), work_.own.operands[move.from_leaf] + from, At(bytes));
          });
        }
    };
    const int64_t pieces = (results.total() + part - 1) / part;
    for (int64_t p = 0; p < pieces; ++p) {
      if (p == 0) bring(0);
      KRAFLA_TRY(Meet());
      if (p + 1 < pieces) bring(p + 1);
      Result<> outcome;
      const int64_t begin = p * part, own = static_cast<int64_t>(work_.rank) * part;
      results.EachLeaf(begin, begin + part, [&](std::size_t k, int64_t offset, int64_t place, int64_t bytes) {
        if (outcome) outcome = Sum(work_.own.results[k] + offset, p, own + place - begin, bytes);
      });
      KRAFLA_TRY(outcome);
    }
    return {};
  }

  Result<> Move() {
    const std::vector<CollectiveMove> moves = work_.collective.MovesTo(work_.group, work_.rank);
    if (moves.empty()) work_.collective.ZeroResults(work_.own);
    bool brings = false;
    for (std::size_t m = 0; m < n() && !brings; ++m)
      if (m != work_.rank)
        for (const CollectiveMove& move : work_.collective.MovesTo(work_.group, m)) brings |= move.source == work_.rank;
    return InPieces(brings, [&](int64_t piece, int64_t begin, int64_t end) -> Result<> {
      for (const CollectiveMove& move : moves) {
        const int64_t base = operands_.base(move.from_leaf);
        const Rows rows{base + move.from, move.from_stride, move.to, move.to_stride, move.bytes, move.rows};
        const std::byte* own = work_.own.operands[move.from_leaf];
        const std::byte* from = Brought(move.source, piece);
        rows.Each(begin, end, [&](int64_t place, int64_t to, int64_t bytes) {
          const std::byte* source = move.source == work_.rank ? own + (place - base) : from + (place - begin);
          std::memcpy(work_.own.results[move.to_leaf] + to, source, At(bytes));
        });
      }
      return {};
    });
  }

  // What depends on the arrays' own values: all of them, and the collective as within a process.
  Result<> GatherAll() {
    std::vector<std::vector<std::byte>> rows(n(), std::vector<std::byte>(At(operands_.total())));
    KRAFLA_TRY(InPieces(true, [&](int64_t piece, int64_t begin, int64_t end) -> Result<> {
      for (std::size_t m = 0; m < n(); ++m) std::memcpy(rows[m].data() + begin, Brought(m, piece), At(end - begin));
      return {};
    }));
    return RunOnAllOperands(work_, operands_, rows);
  }

  const SpanningWork& work_;
  SharedWindows& windows_;
  const std::span<const std::size_t> slots_;
  const std::function<Result<>()>& failure_;
  const std::size_t own_slot_;
  const Packed operands_;
  uint32_t signature_ = 0;
  bool has_met_ = false;
  std::vector<std::size_t> missing_;
};

}  // namespace

SpanningOutcome RunInWindows(const SpanningWork& work, SharedWindows& windows, std::span<const std::size_t> slots,
                             uint32_t signature, const std::function<Result<>()>& failure) {
  return WindowWork(work, windows, slots, failure).Run(signature);
}

}  // namespace krafla
