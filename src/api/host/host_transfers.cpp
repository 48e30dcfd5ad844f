// SPDX-License-Identifier: Apache-2.0
#include "api/host/host_transfers.h"

#include <format>

#include "api/front_end.h"

namespace krafla {
namespace {

int64_t BytesOf(const HostTransfers::Item& item) {
  int64_t out = 0;
  for (const Literal& l : item) out += static_cast<int64_t>(l.bytes().size());
  return out;
}

// The arrays of an item put together as `shape`.
Result<Literal> AssembleItem(const Shape& shape, HostTransfers::Item& item, std::size_t& next) {
  if (shape.IsTuple()) {
    std::vector<Literal> elements;
    for (const Shape& s : shape.tuple_elements()) {
      KRAFLA_ASSIGN(Literal e, AssembleItem(s, item, next));
      elements.push_back(std::move(e));
    }
    return Literal::MakeTuple(std::move(elements));
  }
  if (!shape.IsArray()) return Literal::Create(shape);
  if (next >= item.size()) return InvalidArgument("The host gave {} arrays, the program takes more.", item.size());
  Literal out = std::move(item[next]);
  if (out.shape().element_type() != shape.element_type() || out.shape().rank() != shape.rank())
    return InvalidArgument("The host gave {} as array {}, the program takes {}.", out.shape().ToString(false), next,
                           shape.ToString(false));
  for (int64_t d = 0; d < shape.rank(); ++d)
    if (shape.IsDynamicDim(d) ? out.shape().dim(d) > shape.dim(d) : out.shape().dim(d) != shape.dim(d))
      return InvalidArgument("The host gave {} as array {}, the program takes {}.", out.shape().ToString(false), next,
                             shape.ToString(false));
  ++next;
  return out;
}

}  // namespace

void HostTransfers::Push(Key key, Item item) {
  std::lock_guard lock(mutex_);
  Queue& queue = queues_[key];
  queue.bytes += BytesOf(item);
  queue.items.push_back(std::move(item));
  changed_.notify_all();
}

template <typename Ready>
Result<bool> HostTransfers::WaitUntil(std::unique_lock<std::mutex>& lock, Limit wait, const RunLimit& limit,
                                      Ready ready) {
  const auto end = RunLimit::Clock::now() + wait;
  const auto over = [&] { return cancelled_ || ready(); };
  while (!changed_.wait_until(lock, limit.NextLook(end), over)) {
    KRAFLA_TRY(limit.Check());
    if (RunLimit::Clock::now() >= end) return false;
  }
  return true;
}

Result<HostTransfers::Item> HostTransfers::Pop(Key key, Limit wait, const RunLimit& limit) {
  static constexpr const char* kNames[] = {"infeed", "outfeed", "channel to the device", "channel from the device"};
  std::unique_lock lock(mutex_);
  Queue& queue = queues_[key];  // queues are never removed
  const auto what = [&] {
    return key.second < 0 ? std::string(kNames[static_cast<int>(key.first)])
                          : Format("{} {}", kNames[static_cast<int>(key.first)], key.second);
  };
  if (!has_host_ && queue.items.empty())
    return FailedPrecondition("The program waits for the host on {}, and no host feeds it here.", what());
  KRAFLA_ASSIGN(const bool ready, WaitUntil(lock, wait, limit, [&] { return !queue.items.empty(); }));
  if (cancelled_) return MakeError(StatusCode::kCancelled, "The transfers were cancelled ({}).", what());
  if (!ready) return DeadlineExceeded("Nothing came through {} within {} ms.", what(), wait.count());
  Item out = std::move(queue.items.front());
  queue.items.pop_front();
  queue.bytes -= BytesOf(out);
  changed_.notify_all();
  return out;
}

Result<Literal> HostTransfers::Take(Key key, const Shape& shape, const RunLimit& limit) {
  KRAFLA_ASSIGN(Item item, Pop(key, run_limit_, limit));
  std::size_t next = 0;
  KRAFLA_ASSIGN(Literal out, AssembleItem(shape, item, next));
  if (next != item.size()) return InvalidArgument("The host gave {} arrays, the program takes {}.", item.size(), next);
  return out;
}

Result<> HostTransfers::Give(Key key, const Literal& value, const RunLimit& limit) {
  if (!has_host_) return {};
  Item item;
  for (const Literal* leaf : value.ArrayLeaves()) {
    KRAFLA_ASSIGN(Literal copy, CopyOf(*leaf));
    item.push_back(std::move(copy));
  }
  const int64_t bytes = BytesOf(item);
  std::unique_lock lock(mutex_);
  Queue& queue = queues_[key];
  KRAFLA_ASSIGN(const bool room, WaitUntil(lock, run_limit_, limit,
                                           [&] { return queue.items.empty() || bytes <= queue_bytes_ - queue.bytes; }));
  if (cancelled_) return MakeError(StatusCode::kCancelled, "The transfers were cancelled.");
  if (!room)
    return DeadlineExceeded("The host has left {} bytes lying in a queue of at most {} for {} ms.", queue.bytes,
                            queue_bytes_, run_limit_.count());
  queue.bytes += bytes;
  queue.items.push_back(std::move(item));
  changed_.notify_all();
  return {};
}

std::shared_ptr<HostTransfers> HostTransfers::WithoutHost() {
  auto out = std::make_shared<HostTransfers>();
  out->has_host_ = false;
  return out;
}

void HostTransfers::PushInfeed(Item item) { Push({Kind::kInfeed, -1}, std::move(item)); }
Result<HostTransfers::Item> HostTransfers::PopOutfeed(Limit wait) {
  return Pop({Kind::kOutfeed, -1}, wait, kUnlimited);
}
void HostTransfers::PushToDevice(int64_t channel, Item item) { Push({Kind::kToDevice, channel}, std::move(item)); }
Result<HostTransfers::Item> HostTransfers::PopFromDevice(int64_t channel, Limit wait) {
  return Pop({Kind::kFromDevice, channel}, wait, kUnlimited);
}
Result<Literal> HostTransfers::TakeInfeed(const Shape& shape, const RunLimit& limit) {
  return Take({Kind::kInfeed, -1}, shape, limit);
}
Result<> HostTransfers::GiveOutfeed(const Literal& value, const RunLimit& limit) {
  return Give({Kind::kOutfeed, -1}, value, limit);
}
Result<Literal> HostTransfers::TakeFromHost(int64_t channel, const Shape& shape, const RunLimit& limit) {
  return Take({Kind::kToDevice, channel}, shape, limit);
}
Result<> HostTransfers::GiveToHost(int64_t channel, const Literal& value, const RunLimit& limit) {
  return Give({Kind::kFromDevice, channel}, value, limit);
}

void HostTransfers::Cancel() {
  std::lock_guard lock(mutex_);
  cancelled_ = true;
  changed_.notify_all();
}

void HostTransfers::Reset() {
  std::lock_guard lock(mutex_);
  for (auto& [key, queue] : queues_) queue = Queue();
  cancelled_ = false;
  changed_.notify_all();
}

int64_t HostTransfers::waiting() const {
  std::lock_guard lock(mutex_);
  int64_t out = 0;
  for (const auto& [key, queue] : queues_) out += static_cast<int64_t>(queue.items.size());
  return out;
}

}  // namespace krafla
