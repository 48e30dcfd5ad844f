// SPDX-License-Identifier: Apache-2.0
#include "collectives/spanning.h"

#include <algorithm>
#include <cstring>

#include "collectives/spanning_work.h"

namespace krafla {
namespace {

constexpr uint32_t kChannelMessage = 2, kChannelRead = 3;

// Of a collective, the same for all its members.
uint32_t SignatureOf(const Collective& c, std::size_t number) {
  uint64_t hash = 0x9e3779b97f4a7c15 * (number + 1);
  for (const uint64_t part : {static_cast<uint64_t>(c.opcode()), static_cast<uint64_t>(c.bytes())})
    hash = (hash ^ part) * 0xff51afd7ed558ccd;
  return static_cast<uint32_t>(hash >> 32);
}

}  // namespace

std::vector<int> SpanningExchange::Ranks() const {
  std::vector<int> out;
  for (const Place& p : places_)
    if (!std::ranges::contains(out, p.rank)) out.push_back(p.rank);
  std::ranges::sort(out);
  return out;
}

uint32_t SpanningExchange::AddressOf(int64_t device) const {
  const Place place = PlaceOf(device);
  int out = place.slot;
  for (int r = 0; r < place.rank; ++r) out += world_->slots(r);
  return static_cast<uint32_t>(out);
}

std::string SpanningExchange::Describe(int64_t device) const {
  return Format("device {} of {}", device, world_->name(PlaceOf(device).rank));
}

transport::Patience SpanningExchange::PatienceFor(const std::stop_token& stop) const {
  return {transport::Clock::now() + time_limit_, stop};
}

Status SpanningExchange::Explained(Status status, std::string_view what, int64_t device,
                                   std::span<const int64_t> missing) const {
  // Of another process's failure, the reason is what was said there.
  if (world_->mesh().failed()) {
    const Status failure = *world_->mesh().failure();
    return Status(failure.code(), Format("{} on {} was ended: {}", what, Describe(device), failure.message()));
  }
  if (status.code() == StatusCode::kDeadlineExceeded) {
    std::string reasons;
    for (std::size_t m = 0; m < missing.size() && m < 8; ++m)
      reasons += Format("{}{} has not come", m == 0 ? ": " : "; ", Describe(missing[m]));
    if (const std::string why = world_->mesh().ExplainAll(); !why.empty())
      reasons += (missing.empty() ? ": " : "; ") + why;
    return Status(status.code(), Format("{} on {} waited {:g} s without result{}.", what, Describe(device),
                                        static_cast<double>(time_limit_.count()) / 1000, reasons));
  }
  return Status(status.code(), Format("{} on {}: {}", what, Describe(device), status.message()));
}

Result<> SpanningExchange::Meet(int64_t device, const Collective& collective, std::size_t number,
                                const Contribution& own, const std::stop_token& stop) {
  if (own.operands.size() != collective.operand_leaves() || own.results.size() != collective.result_leaves())
    return Internal("{} has {} operands and {} results, but {} and {} were given.", collective.description(),
                    collective.operand_leaves(), collective.result_leaves(), own.operands.size(), own.results.size());
  const int group = collective.GroupOf(device);
  if (group < 0) return collective.RunOutside(device, own);
  const std::span<const int64_t> members = collective.Members(group);
  const SpanningWork work{collective, group, At(collective.RankOf(device)), own, PatienceFor(stop)};
  const uint32_t signature = SignatureOf(collective, number);
  std::vector<std::size_t> windows;
  for (const int64_t m : members)
    if (const auto slot = world_->WindowOf(PlaceOf(m).rank, PlaceOf(m).slot)) windows.push_back(*slot);
  SpanningOutcome outcome;
  if (windows.size() == members.size()) {
    outcome = RunInWindows(work, *world_->windows(), windows, signature, [this]() -> Result<> {
      if (const auto failure = world_->mesh().failure()) return Failure(*failure);
      return Unavailable("A member will not come: {}.", world_->mesh().ExplainAll());
    });
  } else {
    std::vector<int> ranks;
    std::vector<uint32_t> addresses;
    for (const int64_t m : members) {
      ranks.push_back(PlaceOf(m).rank);
      addresses.push_back(AddressOf(m));
    }
    outcome = RunByMessages(work, *world_, ranks, addresses, signature);
  }
  if (outcome.result) return {};
  std::vector<int64_t> missing;
  for (const std::size_t m : outcome.missing) missing.push_back(members[m]);
  return Failure(Explained(std::move(outcome.result).error(), collective.description(), device, missing));
}

Result<> SpanningExchange::Send(const Rendezvous::Channel& channel, std::span<const std::byte* const> leaves,
                                std::span<const int64_t> sizes, std::string_view what, const std::stop_token& stop) {
  const uint32_t from = AddressOf(channel.source), to = AddressOf(channel.target);
  const int rank = PlaceOf(channel.target).rank;
  const int64_t missing[] = {channel.target};
  if (leaves.size() != sizes.size()) return Internal("{} has {} arrays, not {}.", what, leaves.size(), sizes.size());
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < leaves.size(); ++i)
    if (sizes[i] > 0) bytes.insert(bytes.end(), leaves[i], leaves[i] + sizes[i]);
  std::size_t* unread = nullptr;
  {
    std::lock_guard lock(mutex_);
    unread = &unread_[channel];  // of one thread at a time: the source's
  }
  if (*unread >= Rendezvous::kMaxQueued) {
    const auto read = world_->mesh().Take(rank, {kChannelRead, to, from, channel.number}, PatienceFor(stop));
    if (!read) return Failure(Explained(read.error(), what, channel.source, missing));
    --*unread;
  }
  ++*unread;
  if (auto sent = world_->mesh().Post(rank, {kChannelMessage, from, to, channel.number}, bytes); !sent)
    return Failure(Explained(sent.error(), what, channel.source, missing));
  return {};
}

Result<> SpanningExchange::Receive(const Rendezvous::Channel& channel, std::span<std::byte* const> leaves,
                                   std::span<const int64_t> sizes, std::string_view what, const std::stop_token& stop) {
  const uint32_t from = AddressOf(channel.source), to = AddressOf(channel.target);
  const int rank = PlaceOf(channel.source).rank;
  const int64_t missing[] = {channel.source};
  const auto message = world_->mesh().Take(rank, {kChannelMessage, from, to, channel.number}, PatienceFor(stop));
  if (!message) return Failure(Explained(message.error(), what, channel.target, missing));
  // A source that has sent all that it had may have left by now, and waits for no word of it.
  if (auto told = world_->mesh().Post(rank, {kChannelRead, to, from, channel.number}, {});
      !told && !world_->mesh().HasLeft(rank))
    return Failure(Explained(told.error(), what, channel.target, missing));
  int64_t total = 0;
  for (const int64_t size : sizes) total += size;
  if (leaves.size() != sizes.size() || static_cast<int64_t>(message->size()) != total)
    return InvalidArgument("{}: {} bytes were sent, {} are to be received.", what, message->size(), total);
  const std::byte* at = message->data();
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (sizes[i] > 0) std::memcpy(leaves[i], at, At(sizes[i]));
    at += sizes[i];
  }
  return {};
}

Result<> SpanningExchange::Agree(std::string_view name, std::string_view fingerprint, const std::stop_token& stop) {
  const std::vector<int> ranks = Ranks();
  KRAFLA_ASSIGN(const std::vector<std::string> all, world_->AllGather(ranks, name, fingerprint, PatienceFor(stop)));
  for (std::size_t r = 0; r < all.size(); ++r)
    if (all[r] != fingerprint) {
      const auto own = [&](std::string_view text) { return text.substr(text.find('\n') + 1); };
      return InvalidArgument("{} runs another program than {}: '{}' there, '{}' here.", world_->name(ranks[r]),
                             world_->name(world_->rank()), own(all[r]), own(fingerprint));
    }
  return {};
}

}  // namespace krafla
