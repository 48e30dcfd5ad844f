// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of one process: nothing of the transport knows the difference.
#include "transport/world.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>

#include "base/sockets.h"
#include "base/system.h"
#include "transport/mesh.h"

namespace krafla::transport {
namespace {

using std::chrono::milliseconds;

// A store in this process.
class Store {
 public:
  KeyValueStore Functions() {
    KeyValueStore out;
    out.put = [this](const std::string& key, std::string_view value) -> Result<> {
      const std::lock_guard lock(mutex_);
      values_[key] = value;
      changed_.notify_all();
      return {};
    };
    out.get = [this](const std::string& key, milliseconds limit) -> Result<std::string> {
      std::unique_lock lock(mutex_);
      if (!changed_.wait_for(lock, limit, [&] { return values_.contains(key); }))
        return DeadlineExceeded("Nobody has put '{}'.", key);
      return values_[key];
    };
    return out;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

// body(rank) on a thread each.
void OnRanks(int size, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r) threads.emplace_back(body, r);
  for (std::thread& t : threads) t.join();
}

WorldOptions Options(const std::string& transport, milliseconds limit = milliseconds(5000)) {
  WorldOptions out;
  out.transport = transport;
  out.time_limit = limit;
  out.devices = "cpu";
  return out;
}

// A world of `size` ranks; body(world) on each.
void InWorld(int size, const std::string& transport, const std::function<void(World&)>& body,
             milliseconds limit = milliseconds(5000)) {
  Store store;
  OnRanks(size, [&](int r) {
    auto world = World::Create(BootstrapThrough(store.Functions(), "test", r, size, limit), Options(transport, limit));
    ASSERT_TRUE(world) << world.error().ToString();
    body(**world);
  });
}

Patience Soon(World& world) { return {Clock::now() + world.time_limit()}; }

std::vector<int> RanksOf(World& world) {
  std::vector<int> out(static_cast<std::size_t>(world.size()));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

class WorldTest : public testing::TestWithParam<std::string> {};

TEST_P(WorldTest, GathersInTheOrderOfRanks) {
  InWorld(4, GetParam(), [](World& world) {
    for (int round = 0; round < 20; ++round) {
      const std::string own = Format("{} of round {}", world.rank(), round);
      const auto all = world.AllGather(RanksOf(world), Format("round {}", round), own, Soon(world));
      ASSERT_TRUE(all) << all.error().ToString();
      for (int r = 0; r < 4; ++r) EXPECT_EQ((*all)[static_cast<std::size_t>(r)], Format("{} of round {}", r, round));
    }
  });
}

// Messages of one key keep their order, whatever their sizes; of several keys each has its own.
TEST_P(WorldTest, ExchangesKeepTheirOrder) {
  InWorld(3, GetParam(), [](World& world) {
    const std::size_t sizes[] = {0, 1, 100, 70'000, 3'000'000, 5};
    for (const std::size_t size : sizes) {
      std::vector<std::vector<std::byte>> out, in(6);
      std::vector<Outgoing> sends;
      std::vector<Incoming> receives;
      out.reserve(6);
      for (int r = 0; r < 3; ++r)
        for (uint32_t channel = 0; channel < 2; ++channel) {
          const auto fill = static_cast<std::byte>(world.rank() * 3 + r + static_cast<int>(channel) * 16);
          out.emplace_back(size + channel, fill);
          std::vector<std::byte>& to = in[static_cast<std::size_t>(r) * 2 + channel];
          to.resize(size + channel);
          const auto rank = static_cast<uint32_t>(world.rank()), other = static_cast<uint32_t>(r);
          sends.push_back({r, {.kind = 7, .source = rank, .target = other, .number = channel}, out.back()});
          receives.push_back({r, {.kind = 7, .source = other, .target = rank, .number = channel}, to});
        }
      const auto done = world.Exchange(sends, receives, Soon(world));
      ASSERT_TRUE(done) << done.error().ToString();
      for (int r = 0; r < 3; ++r)
        for (int channel = 0; channel < 2; ++channel)
          for (const std::byte b : in[static_cast<std::size_t>(r * 2 + channel)])
            ASSERT_EQ(static_cast<int>(b), r * 3 + world.rank() + channel * 16);
    }
  });
}

TEST_P(WorldTest, SaysWhoDoesNotCome) {
  InWorld(2, GetParam(), [](World& world) {
    if (world.rank() == 1) {
      std::this_thread::sleep_for(milliseconds(900));
      return;
    }
    const Key key{.kind = 7, .source = 0, .target = 0, .number = 1};
    const auto late = world.mesh().Take(1, key, {Clock::now() + milliseconds(100)});
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().code(), StatusCode::kDeadlineExceeded);
    const auto gone = world.mesh().Take(1, key, {Clock::now() + milliseconds(4000)});
    ASSERT_FALSE(gone);
    EXPECT_EQ(gone.error().code(), StatusCode::kUnavailable);
    EXPECT_NE(gone.error().message().find("rank 1 on host"), std::string::npos) << gone.error().message();
  });
}

TEST_P(WorldTest, OneFailureEndsTheWaitsOfAll) {
  InWorld(3, GetParam(), [](World& world) {
    if (world.rank() == 2) {
      std::this_thread::sleep_for(milliseconds(200));
      world.mesh().Fail(Status(StatusCode::kResourceExhausted, "rank 2 has no memory left."));
      return;
    }
    const Key key{.kind = 7, .source = 0, .target = 0, .number = 1};
    const auto taken = world.mesh().Take(1 - world.rank(), key, Soon(world));
    ASSERT_FALSE(taken);
    EXPECT_EQ(taken.error().message(), "rank 2 has no memory left.");
    EXPECT_EQ(taken.error().code(), StatusCode::kResourceExhausted);
    EXPECT_FALSE(world.mesh().Post(1 - world.rank(), key, {})) << "a failure is final";
  });
}

TEST_P(WorldTest, AMessageOfAnotherSizeIsAnError) {
  InWorld(2, GetParam(), [](World& world) {
    const auto rank = static_cast<uint32_t>(world.rank());
    const int other = 1 - world.rank();
    std::vector<std::byte> out(world.rank() == 0 ? 10 : 20), in(10);
    const Outgoing sends[] = {{other, {.kind = 7, .source = rank, .target = 1 - rank, .number = 0}, out}};
    const Incoming receives[] = {{other, {.kind = 7, .source = 1 - rank, .target = rank, .number = 0}, in}};
    const auto done = world.Exchange(sends, receives, Soon(world));
    EXPECT_EQ(bool(done), world.rank() == 1);
    if (!done) { EXPECT_EQ(done.error().code(), StatusCode::kInvalidArgument); }
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, WorldTest, testing::Values("shared", "sockets"));

// Each device writes into its window, meets the others and reads theirs; groups change from one exchange to the next.
TEST(SharedWindows, AreReadBeforeTheyAreWrittenAgain) {
  constexpr std::size_t kSlots = 4;
  const int memory = os::SharedMemory(SharedWindows::Bytes(kSlots));
  if (memory < 0) GTEST_SKIP() << "this system has no memory to share";
  OnRanks(kSlots, [&](int rank) {
    const auto own = static_cast<std::size_t>(rank);
    // Each maps it for itself, as processes do.
    auto windows = SharedWindows::Map(os::Duplicate(memory), kSlots, {own, 1, kSlots},
                                      {[] { return false; }, [](std::size_t) { return false; }});
    ASSERT_TRUE(windows) << windows.error().ToString();
    std::mt19937 random(7);  // the same groups for all
    for (uint32_t turn = 0; turn < 3000; ++turn) {
      std::vector<std::size_t> members;
      for (std::size_t s = 0; s < kSlots; ++s)
        if (random() % 3 > 0) members.push_back(s);
      if (!std::ranges::contains(members, own) || members.size() < 2) continue;
      const Patience patience{Clock::now() + std::chrono::seconds(20)};
      ASSERT_EQ((*windows)->Begin(own, members, turn, patience), SharedWindows::Outcome::kDone);
      const uint32_t value = turn * 10 + static_cast<uint32_t>(own);
      std::memcpy((*windows)->Brought(own, 0), &value, sizeof(value));
      ASSERT_EQ((*windows)->Meet(own, members, patience), SharedWindows::Outcome::kDone);
      for (const std::size_t m : members) {
        EXPECT_TRUE((*windows)->AgreesWith(own, m, turn));
        uint32_t read = 0;
        std::memcpy(&read, (*windows)->Brought(m, 0), sizeof(read));
        ASSERT_EQ(read, turn * 10 + m);
      }
      (*windows)->Leave(own, members);
    }
  });
}

struct Ends {
  int own = -1, other = -1;
};

Ends Connected() {
  const std::string name = Format("krafla-test-{}-{}", os::ProcessId(), Clock::now().time_since_epoch().count());
  const int listener = os::ListenLocally(name, 1);
  const int own = os::ConnectLocally(name);
  const int other = os::AcceptFrom(listener, 1000);
  os::CloseFile(listener);
  return {own, other};
}

// What a rank says when it leaves the program, as it lies on the wire.
std::string Goodbye() {
  const Ends ends = Connected();
  {
    const Mesh leaves(1, {"rank 0", "rank 1"}, {ends.own, -1}, std::chrono::hours(1), [] {});
  }
  std::string out(1 << 16, '\0');
  std::size_t bytes = 0;
  for (int64_t got; (got = os::ReceiveSome(ends.other, out.data() + bytes, out.size() - bytes)) > 0;)
    bytes += static_cast<std::size_t>(got);
  os::CloseFile(ends.other);
  out.resize(bytes);
  return out;
}

// A rank that has said goodbye and closed its connection has not failed, even where something was on its way to it.
TEST(Mesh, GoodbyesAreHeardWhileSomethingIsSent) {
  const std::string goodbye = Goodbye();
  ASSERT_FALSE(goodbye.empty());
  const std::vector<std::byte> large(std::size_t{16} << 20);
  const Outgoing send{.rank = 1, .key = {.kind = 1}, .bytes = large};
  for (const bool leaves_with_a_word : {true, false}) {
    const Ends ends = Connected();
    ASSERT_GE(ends.other, 0);
    Mesh mesh(0, {"rank 0", "rank 1"}, {-1, ends.own}, std::chrono::hours(1), [] {});
    std::thread other([&] {
      std::this_thread::sleep_for(milliseconds(50));
      if (leaves_with_a_word) { EXPECT_TRUE(os::SendAll(ends.other, goodbye.data(), goodbye.size(), 1000)); }
      os::CloseFile(ends.other);
    });
    const auto outcome = mesh.Exchange(std::span(&send, 1), {}, {Clock::now() + std::chrono::seconds(20)});
    other.join();
    EXPECT_TRUE(mesh.HasLeft(1));
    EXPECT_EQ(mesh.failed(), !leaves_with_a_word);
    EXPECT_TRUE(outcome);  // what was sent is gone; who waits for something of the other hears of the failure
    EXPECT_EQ(mesh.Exchange({}, {}, {Clock::now()}).has_value(), leaves_with_a_word);
  }
}

TEST(Bootstrap, RefusesWhatIsNoCoordinator) {
  for (const char* place : {"", "host", "host:", ":123", "host:0", "host:65536", "host:12x"}) {
    const auto bootstrap = BootstrapAt(place, 0, 2, milliseconds(100));
    ASSERT_FALSE(bootstrap) << place;
    EXPECT_EQ(bootstrap.error().code(), StatusCode::kInvalidArgument) << bootstrap.error().message();
  }
  EXPECT_FALSE(BootstrapAt("localhost:1", 2, 2, milliseconds(100)));
  EXPECT_FALSE(BootstrapAt("localhost:1", -1, 2, milliseconds(100)));
  EXPECT_FALSE(BootstrapAt("localhost:1", 0, 0, milliseconds(100)));
}

TEST(Bootstrap, NobodyWaitsLongerThanTheLimit) {
  const auto began = Clock::now();
  const auto alone = BootstrapAt("127.0.0.1:1", 1, 2, milliseconds(300));
  ASSERT_FALSE(alone);
  EXPECT_NE(alone.error().message().find("Rank 1 has not reached rank 0"), std::string::npos)
      << alone.error().message();
  EXPECT_LT(Clock::now() - began, std::chrono::seconds(3));
}

// Bytes that no rank of krafla sends, at the place where the ranks come together.
TEST(Bootstrap, StrangersHinderNobody) {
  const int probe = os::ListenOn("127.0.0.1", 0, 1);
  const int port = os::PortOf(probe);
  os::CloseFile(probe);
  std::atomic<bool> done = false;
  std::thread stranger([&] {
    std::mt19937 random(1);
    while (!done) {
      const int fd = os::ConnectTo("127.0.0.1", port, 50);
      if (fd < 0) continue;
      std::string bytes(random() % 200, '\0');
      for (char& c : bytes) c = static_cast<char>(random());
      os::SendAll(fd, bytes.data(), bytes.size(), 50);
      os::CloseFile(fd);
      std::this_thread::sleep_for(milliseconds(5));
    }
  });
  OnRanks(2, [&](int r) {
    if (r == 1) std::this_thread::sleep_for(milliseconds(200));
    auto bootstrap = BootstrapAt(Format("127.0.0.1:{}", port), r, 2, milliseconds(20'000));
    ASSERT_TRUE(bootstrap) << bootstrap.error().ToString();
    const auto all = (*bootstrap)->AllGather(Format("rank {}", r));
    ASSERT_TRUE(all) << all.error().ToString();
    EXPECT_EQ((*all)[0] + (*all)[1], "rank 0rank 1");
  });
  done = true;
  stranger.join();
}

}  // namespace
}  // namespace krafla::transport
