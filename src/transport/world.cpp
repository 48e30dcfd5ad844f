// SPDX-License-Identifier: Apache-2.0
#include "transport/world.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>

#include "base/sockets.h"
#include "base/system.h"
#include "krafla/version.h"
#include "transport/wire.h"

namespace krafla::transport {
namespace {

constexpr uint32_t kGather = 0xfffe0002, kArray = 0xfffe0003;
constexpr int kMaxSlots = 1024;

std::string RandomText(std::size_t bytes) {
  std::string raw(bytes, '\0'), out;
  if (!os::RandomBytes(raw.data(), raw.size())) return "";
  for (const char c : raw) out += Format("{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
  return out;
}

}  // namespace

std::optional<std::size_t> World::WindowOf(int rank, int slot) const {
  if (windows_ == nullptr || !Shares(rank, rank_)) return std::nullopt;
  std::size_t out = 0;
  for (int r = 0; r < rank; ++r)
    if (Shares(r, rank_)) out += static_cast<std::size_t>(slots(r));
  return out + static_cast<std::size_t>(slot);
}

Result<std::shared_ptr<World>> World::Create(std::unique_ptr<Bootstrap> bootstrap, const WorldOptions& options,
                                             std::shared_ptr<Engine> engine) {
  std::shared_ptr<World> out(new World());
  out->options_ = options;
  out->rank_ = bootstrap->rank();
  KRAFLA_TRY(CheckRank(bootstrap->rank(), bootstrap->size()));
  if (options.slots < 1 || options.slots > kMaxSlots)
    return InvalidArgument("A process has 1 to {} devices, not {}.", kMaxSlots, options.slots);
  KRAFLA_TRY(out->Greet(*bootstrap));
  KRAFLA_TRY(out->Connect(*bootstrap));
  out->transport_ = "sockets";
  const bool is_named = options.transport == "gloo" || options.transport == "mpi";
  if (is_named && engine == nullptr) { KRAFLA_ASSIGN(engine, Engine::Load(options.transport)); }
  if (engine != nullptr) {
    engine->Watch(*out->mesh_);
    out->launcher_ = engine;
  }
  if (engine != nullptr && (is_named || (options.transport == "auto" && !out->is_near()))) {
    KRAFLA_TRY(engine->Open(*out->mesh_, os::HostName(), options.time_limit));
    out->transport_ = engine->name();
    out->SetEngine(std::move(engine));
  }
  if (out->is_near()) out->transport_ = "shared";
  return out;
}

World::~World() {
  SetEngine(nullptr);
  launcher_.reset();
  // The mesh's thread may still ring the windows' bells.
  mesh_.reset();
}

Result<> World::Greet(Bootstrap& bootstrap) {
  const bool shares = options_.transport == "auto" || options_.transport == "shared";
  WireWriter own;
  own.Text(KRAFLA_VERSION_STRING);
  own.Text(os::BuildId());
  own.Number(bootstrap.size());
  own.Number(os::ProcessId());
  own.Number(options_.device_count);
  own.Number(options_.slots);
  own.Text(os::HostName());
  own.Text(shares ? os::HostIdentity() : "");
  own.Text("krafla-" + RandomText(16));
  own.Text(options_.devices);
  own.Text(RandomText(16));
  own.Text(options_.transport);
  KRAFLA_ASSIGN(const std::vector<std::string> blobs, bootstrap.AllGather(own.Take()));
  if (blobs.size() != static_cast<std::size_t>(bootstrap.size()))
    return Internal("{} ranks came together, not {}.", blobs.size(), bootstrap.size());
  for (int r = 0; r < bootstrap.size(); ++r) {
    WireReader in(blobs[static_cast<std::size_t>(r)]);
    RankInfo info;
    info.version = in.Text();
    info.build = in.Text();
    const int64_t size = in.Signed();
    info.process = in.Signed();
    info.device_count = static_cast<int>(in.Signed());
    info.slots = static_cast<int>(in.Signed());
    for (std::string* text :
         {&info.host, &info.identity, &info.local_name, &info.devices, &info.token, &info.transport})
      *text = in.Text();
    if (!in.ok() || !in.at_end() || info.slots < 1 || info.slots > kMaxSlots || info.device_count < 0 ||
        info.device_count > info.slots)
      return FailedPrecondition("Rank {} runs another version of krafla than rank {}.", r, bootstrap.rank());
    info.name = Format("rank {} on host {} (process {})", r, info.host, info.process);
    ranks_.push_back(std::move(info));
    const RankInfo &first = ranks_[0], &last = ranks_.back();
    if (last.version != first.version || last.build != first.build)
      return InvalidArgument(
          "Rank {} on host {} runs krafla {} (build {}), rank 0 on host {} runs krafla {} (build {}): all ranks have to run the same build.",
          r, last.host, last.version, last.build.substr(0, 12), first.host, first.version, first.build.substr(0, 12));
    if (size != bootstrap.size())
      return InvalidArgument("Rank {} on host {} was started for {} processes, rank {} for {}.", r, last.host, size,
                             bootstrap.rank(), bootstrap.size());
    if (last.transport != first.transport)
      return InvalidArgument("Rank {} on host {} was started for the transport '{}', rank 0 for '{}'.", r, last.host,
                             last.transport, first.transport);
  }
  return {};
}

Result<> World::Connect(Bootstrap& bootstrap) {
  KRAFLA_ASSIGN(std::vector<int> connections, ConnectRanks(bootstrap, ranks_, options_.time_limit));
  if (Result<> shared = ShareMemory(connections); !shared) {
    for (const int c : connections)
      if (c >= 0) os::CloseFile(c);
    return shared;
  }
  std::vector<std::string> names;
  for (const RankInfo& r : ranks_) names.push_back(r.name);
  const auto beat = std::clamp<std::chrono::milliseconds>(options_.time_limit / 8, std::chrono::milliseconds(50),
                                                          std::chrono::milliseconds(1000));
  mesh_ = std::make_unique<Mesh>(rank_, std::move(names), std::move(connections), beat, [this] {
    if (windows_ != nullptr) windows_->WakeAll();
    if (const auto engine = TheEngine()) engine->Abort();
  });
  return {};
}

// The first rank of a machine makes the memory and hands it to the others.
Result<> World::ShareMemory(std::span<const int> connections) {
  std::vector<int> near;
  std::size_t slots = 0;
  SharedWindows::Owned owned;
  owned.count = static_cast<std::size_t>(ranks_[static_cast<std::size_t>(rank_)].slots);
  for (int r = 0; r < static_cast<int>(ranks_.size()); ++r) {
    if (r == rank_) owned.first = slots;
    if (r != rank_ && !Shares(r, rank_)) continue;
    near.push_back(r);
    slots += static_cast<std::size_t>(ranks_[static_cast<std::size_t>(r)].slots);
  }
  owned.processes = static_cast<int>(near.size());
  if (near.size() < 2) return {};
  int descriptor = -1;
  if (near[0] == rank_) {
    descriptor = os::SharedMemory(SharedWindows::Bytes(slots));
    const int error = errno;
    for (const int r : near) {
      const int to = connections[static_cast<std::size_t>(r)];
      // Without it, a byte alone says that there is none.
      if (to >= 0 && descriptor >= 0 && !os::SendDescriptor(to, descriptor))
        return Unavailable("{} has gone: {}.", NameOf(r), std::strerror(errno));
      if (to >= 0 && descriptor < 0) os::SendAll(to, "n", 1, 1000);
    }
    if (descriptor < 0)
      return ResourceExhausted("There is no memory of {} bytes to share between {} processes: {}.",
                               SharedWindows::Bytes(slots), near.size(), std::strerror(error));
  } else {
    const int from = connections[static_cast<std::size_t>(near[0])];
    descriptor = os::ReceiveDescriptor(from, static_cast<int>(options_.time_limit.count()));
    if (descriptor < 0) return Unavailable("{} has not shared its memory: {}.", NameOf(near[0]), std::strerror(errno));
  }
  std::vector<int> rank_of;
  for (const int r : near) rank_of.insert(rank_of.end(), static_cast<std::size_t>(this->slots(r)), r);
  SharedWindows::Health health;
  health.has_failed = [this] { return mesh_->failed(); };
  health.is_gone = [this, rank_of](std::size_t slot) { return mesh_->HasLeft(rank_of[slot]); };
  KRAFLA_ASSIGN(windows_, SharedWindows::Map(descriptor, slots, owned, std::move(health)));
  return {};
}

Result<> World::Exchange(std::span<const Outgoing> sends, std::span<const Incoming> receives,
                         const Patience& patience) {
  const std::shared_ptr<Engine> engine = TheEngine();
  if (engine == nullptr) return mesh_->Exchange(sends, receives, patience);
  // Between devices of one process nothing leaves it.
  std::vector<Outgoing> own_sends, other_sends;
  std::vector<Incoming> own_receives, other_receives;
  for (const Outgoing& o : sends) (o.rank == rank_ ? own_sends : other_sends).push_back(o);
  for (const Incoming& i : receives) (i.rank == rank_ ? own_receives : other_receives).push_back(i);
  for (const Outgoing& o : own_sends) KRAFLA_TRY(mesh_->Post(o.rank, o.key, o.bytes));
  KRAFLA_TRY(engine->Exchange(other_sends, other_receives, patience));
  return mesh_->Exchange({}, own_receives, patience);
}

Result<> World::Send(int rank, int64_t number, std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  return mesh_->Post(rank, {.kind = kArray, .number = number}, bytes, std::move(owner));
}

Result<> World::Receive(int rank, int64_t number, std::span<std::byte> bytes, const Patience& patience) {
  const Incoming array{.rank = rank, .key = {.kind = kArray, .number = number}, .bytes = bytes};
  Result<> outcome = mesh_->Exchange({}, {&array, 1}, patience);
  if (outcome || outcome.error().code() != StatusCode::kDeadlineExceeded) return outcome;
  const std::string why = mesh_->ExplainAll();
  return DeadlineExceeded("An array of {} has not come within {} s{}{}.", NameOf(rank),
                          std::chrono::duration_cast<std::chrono::seconds>(options_.time_limit).count(),
                          why.empty() ? "" : ": ", why);
}

int64_t World::NextNumber(std::span<const int> ranks) {
  std::lock_guard lock(mutex_);
  return numbers_[std::vector<int>(ranks.begin(), ranks.end())]++;
}

Result<std::vector<std::string>> World::AllGather(std::span<const int> ranks, std::string_view name,
                                                  std::string_view own, const Patience& patience) {
  const Key key{
      .kind = kGather, .source = 0, .target = 0, .number = static_cast<int64_t>(std::hash<std::string_view>()(name))};
  for (const int r : ranks)
    if (r != rank_) KRAFLA_TRY(mesh_->Post(r, key, std::as_bytes(std::span(own))));
  std::vector<std::string> out;
  for (const int r : ranks) {
    if (r == rank_) {
      out.emplace_back(own);
      continue;
    }
    Result<std::vector<std::byte>> blob = mesh_->Take(r, key, patience);
    if (!blob && blob.error().code() == StatusCode::kDeadlineExceeded) {
      const std::string why = mesh_->ExplainAll();
      return DeadlineExceeded("{} has not come to '{}' in time{}{}.", NameOf(r), name, why.empty() ? "" : ": ", why);
    }
    if (!blob) return Failure(std::move(blob).error());
    out.emplace_back(reinterpret_cast<const char*>(blob->data()), blob->size());
  }
  return out;
}

}  // namespace krafla::transport
