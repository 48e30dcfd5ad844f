// SPDX-License-Identifier: Apache-2.0
#include "collectives/rendezvous.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace krafla {
namespace {

std::string Seconds(std::chrono::milliseconds ms) { return Format("{:g} s", static_cast<double>(ms.count()) / 1000); }

}  // namespace

std::stop_token Rendezvous::Begin() {
  std::lock_guard lock(mutex_);
  devices_.assign(devices_.size(), Device());
  failure_.reset();
  stop_ = std::stop_source();
  open_.clear();
  messages_.clear();
  return stop_.get_token();
}

bool Rendezvous::NobodyRuns() const {
  return options_.alone && std::ranges::none_of(devices_, [](const Device& d) { return d.state == State::kRunning; });
}

void Rendezvous::BreakOff(Status status) {
  if (!failure_) failure_ = std::move(status);
  stop_.request_stop();
  changed_.notify_all();
}

std::string Rendezvous::Whereabouts(std::span<const int64_t> devices) const {
  std::string out;
  for (int64_t d : devices) {
    const Device& device = devices_[static_cast<std::size_t>(d)];
    out += Format("{}device {} ", out.empty() ? "" : "; ", d);
    switch (device.state) {
      case State::kRunning: out += "is still at work before it"; break;
      case State::kWaiting: out += Format("waits in {}", device.waits_in); break;
      case State::kFinished: out += "has finished the program"; break;
      case State::kFailed: out += "has failed"; break;
    }
  }
  return out;
}

template <typename Done, typename Missing>
Result<> Rendezvous::Wait(std::unique_lock<std::mutex>& lock, int64_t device, std::string what,
                          std::optional<Channel> channel, Done done, Missing missing) {
  const auto deadline = std::chrono::steady_clock::now() + options_.time_limit;
  At(device) = {State::kWaiting, what, channel};
  while (!done()) {
    if (failure_) return Aborted("{} was aborted: {}", what, failure_->message());
    if (NobodyRuns()) {
      BreakOff(Status(StatusCode::kDeadlineExceeded,
                      Format("{} on device {} would wait forever, as every device waits or has finished: {}.", what,
                             device, Whereabouts(missing()))));
      return Failure(*failure_);
    }
    if (changed_.wait_until(lock, deadline) == std::cv_status::timeout && !done() && !failure_) {
      BreakOff(
          Status(StatusCode::kDeadlineExceeded, Format("{} on device {} waited {} without result: {}.", what, device,
                                                       Seconds(options_.time_limit), Whereabouts(missing()))));
      return Failure(*failure_);
    }
  }
  return {};
}

Result<> Rendezvous::Meet(int64_t device, const Collective& collective, const Contribution& own,
                          const Together* together) {
  if (together == nullptr) {
    if (own.operands.size() != collective.operand_leaves() || own.results.size() != collective.result_leaves())
      return Internal("{} has {} operands and {} results, but {} and {} were given.", collective.description(),
                      collective.operand_leaves(), collective.result_leaves(), own.operands.size(), own.results.size());
    host_bytes_.fetch_add(collective.bytes(), std::memory_order_relaxed);
  }
  const int group = collective.GroupOf(device);
  if (group < 0) return collective.RunOutside(device, own);
  const auto rank = static_cast<std::size_t>(collective.RankOf(device));
  const std::span<const int64_t> members = collective.Members(group);
  const bool by_one = together != nullptr || collective.IsSmall();
  std::unique_lock lock(mutex_);
  if (failure_) return Aborted("{} was aborted: {}", collective.description(), failure_->message());
  auto [at, added] = open_.try_emplace({&collective, group}, nullptr);
  if (added) {
    at->second = std::make_shared<Meeting>();
    at->second->members.resize(members.size());
    at->second->here.resize(members.size());
  }
  const std::shared_ptr<Meeting> meeting = at->second;
  meeting->members[rank] = own;
  meeting->here[rank] = true;
  const bool is_last = ++meeting->arrived == members.size();
  if (is_last) {
    open_.erase(at);
    meeting->is_complete = true;
    for (int64_t d : members) At(d) = {};
    // Who has nothing to do sleeps on until it is done.
    if (!by_one) changed_.notify_all();
  } else {
    KRAFLA_TRY(Wait(
        lock, device, collective.description(), std::nullopt, [&] { return meeting->is_complete; },
        [&] {
          std::vector<int64_t> absent;
          for (std::size_t m = 0; m < members.size(); ++m)
            if (!meeting->here[m]) absent.push_back(members[m]);
          return absent;
        }));
  }
  if (!by_one)
    return Share(
        lock, *meeting, [&](int g, std::span<const Contribution> all) { return collective.Run(g, rank, all); }, group,
        1);
  if (!is_last) return Share(lock, *meeting, {}, group, 0);
  const Together all_shares = [&](int g, std::span<const Contribution> all) -> Result<> {
    for (std::size_t r = 0; r < all.size(); ++r) KRAFLA_TRY(collective.Run(g, r, all));
    return {};
  };
  return Share(lock, *meeting, together != nullptr ? *together : all_shares, group, members.size());
}

// All members are here, and stay until all is done: these waits are short and end whatever happens elsewhere, as nobody
// may leave while another reads its arrays. `work` is as much as `shares` of the members have to do.
Result<> Rendezvous::Share(std::unique_lock<std::mutex>& lock, Meeting& meeting, const Together& work, int group,
                           std::size_t shares) {
  if (shares > 0) {
    lock.unlock();
    Result<> outcome;
    // Whatever happens, this member must come to the end: the others wait for it without a limit.
    try {
      outcome = work(group, meeting.members);
    } catch (const std::bad_alloc&) {
      outcome = ResourceExhausted("The work between devices could not allocate its memory.");
    }
    lock.lock();
    if (!outcome && !meeting.error) meeting.error = std::move(outcome).error();
    meeting.done += shares;
    if (meeting.done == meeting.members.size()) changed_.notify_all();
  }
  changed_.wait(lock, [&] { return meeting.done == meeting.members.size(); });
  if (meeting.error) return Failure(*meeting.error);
  return {};
}

Result<> Rendezvous::Send(const Channel& channel, std::span<const std::byte* const> leaves,
                          std::span<const int64_t> sizes, std::string_view what) {
  if (leaves.size() != sizes.size()) return Internal("{} has {} arrays, not {}.", what, leaves.size(), sizes.size());
  Message message;
  for (std::size_t i = 0; i < leaves.size(); ++i)
    message.emplace_back(leaves[i], leaves[i] + (leaves[i] == nullptr ? 0 : sizes[i]));
  for (const int64_t size : sizes) host_bytes_.fetch_add(2 * size, std::memory_order_relaxed);
  std::unique_lock lock(mutex_);
  if (failure_) return Aborted("{} was aborted: {}", what, failure_->message());
  std::deque<Message>& queue = messages_[channel];
  if (queue.size() >= kMaxQueued)
    KRAFLA_TRY(Wait(
        lock, channel.source, std::string(what), channel, [&] { return queue.size() < kMaxQueued; },
        [&] { return std::vector<int64_t>{channel.target}; }));
  queue.push_back(std::move(message));
  // The receiver, if it waits for this, runs again.
  if (queue.size() == 1 && At(channel.target).state == State::kWaiting && At(channel.target).channel == channel)
    At(channel.target) = {};
  changed_.notify_all();
  return {};
}

Result<> Rendezvous::Receive(const Channel& channel, std::span<std::byte* const> leaves, std::span<const int64_t> sizes,
                             std::string_view what) {
  std::unique_lock lock(mutex_);
  std::deque<Message>& queue = messages_[channel];
  if (queue.empty()) {
    if (failure_) return Aborted("{} was aborted: {}", what, failure_->message());
    KRAFLA_TRY(Wait(
        lock, channel.target, std::string(what), channel, [&] { return !queue.empty(); },
        [&] { return std::vector<int64_t>{channel.source}; }));
  }
  const Message message = std::move(queue.front());
  queue.pop_front();
  if (At(channel.source).state == State::kWaiting && At(channel.source).channel == channel) At(channel.source) = {};
  changed_.notify_all();
  lock.unlock();
  if (message.size() != leaves.size())
    return InvalidArgument("{}: {} arrays were sent, {} are to be received.", what, message.size(), leaves.size());
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (static_cast<int64_t>(message[i].size()) != sizes[i])
      return InvalidArgument("{}: {} bytes were sent, {} are to be received.", what, message[i].size(), sizes[i]);
    if (!message[i].empty()) std::memcpy(leaves[i], message[i].data(), message[i].size());
  }
  return {};
}

void Rendezvous::EnterElsewhere(int64_t device, std::string_view what, int64_t bytes) {
  host_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  std::lock_guard lock(mutex_);
  At(device) = {State::kWaiting, std::string(what), {}};
}

void Rendezvous::ReturnFromElsewhere(int64_t device) {
  std::lock_guard lock(mutex_);
  At(device) = {};
}

void Rendezvous::Leave(int64_t device, const Result<>& outcome) {
  std::lock_guard lock(mutex_);
  At(device) = {outcome ? State::kFinished : State::kFailed, {}, {}};
  if (!outcome) {
    Status status = outcome.error();
    if (!failure_) BreakOff(std::move(status).WithContext(Format("on device {}", device)));
  }
  // Who waits for this device looks again, and finds that nobody runs.
  changed_.notify_all();
}

std::optional<Status> Rendezvous::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

void Rendezvous::RequestStop() {
  std::lock_guard lock(mutex_);
  stop_.request_stop();
}

}  // namespace krafla
