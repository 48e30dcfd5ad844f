// SPDX-License-Identifier: Apache-2.0
#include "transport/engine.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/sockets.h"

namespace krafla::transport {
namespace {

constexpr uint32_t kStore = 0xfffe0001;
constexpr std::chrono::seconds kHearsay{2};

// Slots of an engine have 64 bits. One bit says that a message is not the engine's own.
uint64_t SlotOf(const Key& key) {
  return uint64_t{1} << 62 | static_cast<uint64_t>(key.kind & 0xff) << 48 |
         static_cast<uint64_t>(key.source & 0xffffff) << 24 | (key.target & 0xffffff);
}

// What one rank has put, all have got: a message to each.
struct Store {
  Mesh& mesh;
  std::chrono::milliseconds limit;
  std::map<std::string, std::string> own = {};

  static int64_t NumberOf(const std::string& key) {
    return static_cast<int64_t>(std::hash<std::string>()(key));  // ranks are of one build
  }
};

class Launched final : public Bootstrap {
 public:
  Launched(std::shared_ptr<Engine> engine, const krafla_engine_functions* functions, int rank, int size)
      : engine_(std::move(engine)), functions_(functions), rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Result<std::vector<std::string>> AllGather(std::string_view own) override {
    // Sizes first: the launcher's own operation takes equal ones.
    krafla_engine_error error{};
    const auto ranks = static_cast<std::size_t>(size_);
    std::vector<uint64_t> sizes(ranks);
    const uint64_t bytes = own.size();
    if (functions_->all_gather(&bytes, sizeof(bytes), sizes.data(), &error) < 0)
      return Unavailable("The ranks did not come together: {}.", error.text);
    const uint64_t room = *std::ranges::max_element(sizes);
    std::string padded(own), all(room * ranks, '\0');
    padded.resize(room);
    if (functions_->all_gather(padded.data(), room, all.data(), &error) < 0)
      return Unavailable("The ranks did not come together: {}.", error.text);
    std::vector<std::string> out;
    for (std::size_t r = 0; r < ranks; ++r) out.push_back(all.substr(r * room, sizes[r]));
    return out;
  }

 private:
  const std::shared_ptr<Engine> engine_;
  const krafla_engine_functions* const functions_;
  const int rank_, size_;
};

}  // namespace

Result<std::shared_ptr<Engine>> Engine::Load(std::string_view name) {
  if (name != "mpi" && name != "gloo")
    return InvalidArgument("There is no transport '{}'; auto, shared, sockets, gloo and mpi are known.", name);
  const std::string file = Format("libkrafla_{}.so", name);
  std::string beside, elsewhere;
  void* library = os::LoadLibraryAt(os::ThisLibraryFolder() + "/" + file, beside);
  if (library == nullptr) library = os::LoadLibraryAt(file, elsewhere);
  if (library == nullptr)
    return NotFound("The transport '{}' is in {}, which cannot be loaded: {}.", name, file, beside);
  const auto entry =
      reinterpret_cast<krafla_transport_engine_function>(os::FindFunction(library, "krafla_transport_engine"));
  const krafla_engine_functions* functions = entry == nullptr ? nullptr : entry();
  if (functions == nullptr || functions->abi != KRAFLA_ENGINE_ABI)
    return FailedPrecondition("{} is of another version of krafla than this one.", file);
  return std::shared_ptr<Engine>(new Engine(std::string(name), functions));
}

Engine::~Engine() {
  if (engine_ != nullptr || is_launched_) functions_->close(engine_, watched_ == nullptr || watched_->failed() ? 1 : 0);
}

Result<std::unique_ptr<Bootstrap>> Engine::BootstrapOf(std::shared_ptr<Engine> engine) {
  const krafla_engine_functions* functions = engine->functions_;
  if (functions->identify == nullptr)
    return Unimplemented(
        "The transport '{}' has no launcher: --coordinator, --world-size and --rank say who a process is.",
        engine->name_);
  int rank = 0, size = 0;
  krafla_engine_error error{};
  if (functions->identify(&rank, &size, &error) < 0)
    return Unavailable("The transport '{}' could not be started: {}.", engine->name_, error.text);
  engine->is_launched_ = true;
  KRAFLA_TRY(CheckRank(rank, size));
  return std::unique_ptr<Bootstrap>(new Launched(std::move(engine), functions, rank, size));
}

Result<> Engine::Open(Mesh& mesh, const std::string& address, std::chrono::milliseconds limit) {
  Store store{mesh, limit};
  const auto put = [](void* user, const char* key, const void* value, size_t bytes) {
    auto& s = *static_cast<Store*>(user);
    s.own[key] = std::string(static_cast<const char*>(value), bytes);
    const Key number{.kind = kStore, .source = 0, .target = 0, .number = Store::NumberOf(key)};
    for (int r = 0; r < s.mesh.size(); ++r)
      if (r != s.mesh.rank() && !s.mesh.Post(r, number, {static_cast<const std::byte*>(value), bytes})) return -1;
    return 0;
  };
  const auto get = [](void* user, const char* key, void* value, size_t room) -> int64_t {
    auto& s = *static_cast<Store*>(user);
    auto found = s.own.find(key);
    // Whoever puts it: its message waits in that rank's box.
    const auto end = Clock::now() + s.limit;
    const Key number{.kind = kStore, .source = 0, .target = 0, .number = Store::NumberOf(key)};
    while (found == s.own.end() && Clock::now() < end && !s.mesh.failed())
      for (int r = 0; r < s.mesh.size() && found == s.own.end(); ++r) {
        if (r == s.mesh.rank()) continue;
        const auto got = s.mesh.Take(r, number, {Clock::now() + std::chrono::milliseconds(2)});
        if (got) found = s.own.emplace(key, std::string(reinterpret_cast<const char*>(got->data()), got->size())).first;
      }
    if (found == s.own.end()) return -1;
    const std::size_t bytes = std::min(room, found->second.size());
    std::memcpy(value, found->second.data(), bytes);
    return static_cast<int64_t>(found->second.size());
  };
  const krafla_engine_store functions{&store, put, get};
  krafla_engine_error error{};
  mesh_ = &mesh;
  engine_ =
      functions_->open(mesh.rank(), mesh.size(), address.c_str(), &functions, static_cast<int>(limit.count()), &error);
  if (engine_ == nullptr) return Unavailable("The transport '{}' could not be opened: {}.", name_, error.text);
  return {};
}

Result<> Engine::Exchange(std::span<const Outgoing> sends, std::span<const Incoming> receives,
                          const Patience& patience) {
  struct Waiting {
    krafla_engine_request* request;
    int rank;
  };
  std::vector<Waiting> waiting;
  krafla_engine_error error{};
  Result<> outcome;
  const auto add = [&](krafla_engine_request* request, int rank) {
    if (request != nullptr) waiting.push_back({request, rank});
    else if (outcome) outcome = Unavailable("{} is not reached any more: {}.", mesh_->name(rank), error.text);
  };
  for (const Incoming& in : receives)
    add(functions_->receive(engine_, in.rank, SlotOf(in.key), in.bytes.data(), in.bytes.size(), &error), in.rank);
  for (const Outgoing& out : sends)
    add(functions_->send(engine_, out.rank, SlotOf(out.key), out.bytes.data(), out.bytes.size(), &error), out.rank);
  // Whatever ends this wait early ends the world too.
  const std::stop_callback stopped(patience.stop, [this] { Abort(); });
  for (Waiting& w : waiting) {
    int done = 0;
    if (outcome) {
      done = functions_->wait(engine_, w.request, std::max(1, os::MillisecondsUntil(patience.end)), &error);
      if (done == 0) {
        if (const auto failure = mesh_->failure()) outcome = Failure(*failure);
        else if (patience.stop.stop_requested()) outcome = MakeError(StatusCode::kCancelled, "The run was cancelled.");
        else outcome = DeadlineExceeded("Nothing came in time.");
      }
    }
    if (done < 0 && outcome) {
      // The mesh hears of what broke the connection too, perhaps a little later, and knows more.
      const Key nothing{.kind = kStore, .source = 1, .target = 1, .number = -1};
      const auto heard = mesh_->Take(w.rank, nothing, {Clock::now() + kHearsay, patience.stop});
      if (const auto failure = mesh_->failure()) outcome = Failure(*failure);
      else if (!heard && heard.error().code() == StatusCode::kUnavailable) outcome = Failure(heard.error());
      else outcome = Unavailable("{} is not reached any more: {}.", mesh_->name(w.rank), error.text);
    }
    functions_->release(engine_, w.request, done == 1 ? 1 : 0);
  }
  return outcome;
}

}  // namespace krafla::transport
