// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <new>
#include <thread>
#include <vector>

namespace krafla {
namespace {

void ExpectEachOnce(ThreadPool& pool, int64_t count, int64_t grain) {
  std::vector<std::atomic<int>> hits(static_cast<std::size_t>(count));
  std::vector<std::atomic<int>> busy(static_cast<std::size_t>(pool.threads()));
  std::atomic<bool> clash{false};
  pool.ParallelFor(count, grain, [&](int64_t begin, int64_t end, int worker) {
    if (busy[static_cast<std::size_t>(worker)].fetch_add(1) != 0) clash = true;
    for (int64_t i = begin; i < end; ++i) hits[static_cast<std::size_t>(i)].fetch_add(1);
    busy[static_cast<std::size_t>(worker)].fetch_sub(1);
  });
  EXPECT_FALSE(clash);
  for (auto& h : hits) ASSERT_EQ(h.load(), 1);
}

TEST(ThreadPoolTest, CoversTheRangeOnce) {
  for (int threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    for (int64_t count : {0, 1, 2, 5, 64, 1000, 12345})
      for (int64_t grain : {1, 3, 64, 5000}) ExpectEachOnce(pool, count, grain);
  }
}

TEST(ThreadPoolTest, ManyShortLoops) {
  ThreadPool pool(3);
  std::atomic<int64_t> sum{0};
  for (int i = 0; i < 5000; ++i) pool.ParallelFor(8, 1, [&](int64_t begin, int64_t end, int) { sum += end - begin; });
  EXPECT_EQ(sum.load(), 8 * 5000);
}

TEST(ThreadPoolTest, WakesSleepers) {
  ThreadPool pool(3);
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    ExpectEachOnce(pool, 100, 1);
  }
}

TEST(ThreadPoolTest, NestedLoopsRunInline) {
  ThreadPool pool(4);
  std::atomic<int64_t> sum{0};
  pool.ParallelFor(16, 1, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t i = begin; i < end; ++i) {
      pool.ParallelFor(10, 1, [&](int64_t b, int64_t e, int inner) {
        EXPECT_EQ(inner, worker);
        sum += e - b;
      });
    }
  });
  EXPECT_EQ(sum.load(), 160);
}

TEST(ThreadPoolTest, SeveralCallers) {
  ThreadPool pool(3);
  std::atomic<int64_t> sum{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int i = 0; i < 300; ++i)
        pool.ParallelFor(50, 1, [&](int64_t begin, int64_t end, int) { sum += end - begin; });
    });
  }
  for (std::thread& c : callers) c.join();
  EXPECT_EQ(sum.load(), 4 * 300 * 50);
}

// Workers that never get a processor: they wake and stop there until the gate opens.
struct Gate {
  std::atomic<bool> open{false};
  std::atomic<int> arrived{0};
  std::function<void(int)> Function() {
    return [this](int) {
      ++arrived;
      while (!open) std::this_thread::sleep_for(std::chrono::microseconds(100));
    };
  }
};

void LetWorkersSleep(const ThreadPool& pool) {
  while (pool.counts().asleep < pool.threads() - 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST(ThreadPoolTest, LoopsDoNotWaitForWorkersThatNeverStart) {
  Gate gate;
  ThreadPool pool({.threads = 4, .on_wake = gate.Function()});
  LetWorkersSleep(pool);
  for (int i = 0; i < 3; ++i) ExpectEachOnce(pool, 1000, 1);
  const ThreadPool::Counts counts = pool.counts();
  EXPECT_GT(counts.calls, 0);
  EXPECT_EQ(counts.taken_back, counts.calls);
  EXPECT_EQ(counts.sleeps, 0);
  gate.open = true;
  LetWorkersSleep(pool);
  ExpectEachOnce(pool, 1000, 1);
}

TEST(ThreadPoolTest, LoopsRunAloneForAWhileAfterWorkersCameLate) {
  Gate gate;
  ThreadPool pool({.threads = 2, .on_wake = gate.Function()});
  LetWorkersSleep(pool);
  // The first loop outlasts what a worker may take to start.
  pool.ParallelFor(100, 1, [](int64_t, int64_t, int) { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
  EXPECT_EQ(pool.counts().late, 1);
  for (int i = 0; i < 5; ++i) ExpectEachOnce(pool, 100, 1);
  const ThreadPool::Counts counts = pool.counts();
  EXPECT_GT(counts.alone, 0);
  EXPECT_LT(counts.shared, 6);
  gate.open = true;
}

TEST(ThreadPoolTest, WorkersThatComeLateAgainAndAgainAreCalledLessAndLess) {
  Gate gate;
  ThreadPool pool({.threads = 2, .on_wake = gate.Function()});
  LetWorkersSleep(pool);
  // At most some 2 + 4 + 8 + .. ms of running alone between calls: each loop here takes 1 ms.
  for (int i = 0; i < 60; ++i)
    pool.ParallelFor(100, 10,
                     [](int64_t, int64_t, int) { std::this_thread::sleep_for(std::chrono::microseconds(125)); });
  const ThreadPool::Counts counts = pool.counts();
  EXPECT_GE(counts.late, 1);
  EXPECT_LE(counts.shared, 20);
  gate.open = true;
}

TEST(ThreadPoolTest, LittleWorkDoesNotWakeAnyone) {
  ThreadPool pool(3);
  LetWorkersSleep(pool);
  std::thread::id here = std::this_thread::get_id();
  for (int i = 0; i < 20; ++i) {
    pool.ParallelFor(4, 1, [&](int64_t, int64_t, int) { EXPECT_EQ(std::this_thread::get_id(), here); });
    pool.ParallelParts(4, 20e3, [&](int64_t, int64_t, int) { EXPECT_EQ(std::this_thread::get_id(), here); });
  }
  EXPECT_EQ(pool.counts().calls, 0);
  EXPECT_EQ(pool.counts().alone, 40);
}

TEST(ThreadPoolTest, PartsThatTakeLongAreShared) {
  ThreadPool pool(2);
  std::vector<std::atomic<int>> hits(3);
  pool.ParallelParts(3, 1e6, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) hits[static_cast<std::size_t>(i)].fetch_add(1);
  });
  for (auto& h : hits) EXPECT_EQ(h.load(), 1);
  EXPECT_EQ(pool.counts().shared, 1);
}

TEST(ThreadPoolTest, LoopsOnThreadsOfTheProgram) {
  std::atomic<int> asked{0};
  auto run_tasks = [&](int tasks, const std::function<void(int)>& task) {
    asked += tasks;
    std::vector<std::thread> threads;
    for (int t = 0; t < tasks; ++t) threads.emplace_back([&task, t] { task(t); });
    for (std::thread& t : threads) t.join();
  };
  ThreadPool pool({.threads = 3, .run_tasks = run_tasks});
  EXPECT_FALSE(pool.owns_threads());
  ExpectEachOnce(pool, 1000, 1);
  EXPECT_EQ(asked.load(), 3);
  // One after the other is right too, and so is one that runs no task at all.
  ThreadPool serial({.threads = 3, .run_tasks = [](int tasks, const std::function<void(int)>& task) {
                       for (int t = 0; t < tasks; ++t) task(t);
                     }});
  ExpectEachOnce(serial, 1000, 1);
  ThreadPool lazy({.threads = 3, .run_tasks = [](int, const std::function<void(int)>&) {}});
  ExpectEachOnce(lazy, 1000, 1);
}

TEST(ThreadPoolTest, LoopsOfAnotherPoolInsideOneHaveItsWorkerNumbers) {
  ThreadPool outer(4), inner(2);
  outer.ParallelFor(16, 1, [&](int64_t, int64_t, int) {
    inner.ParallelFor(10, 1, [&](int64_t, int64_t, int worker) { EXPECT_EQ(worker, 0); });
  });
}

TEST(ThreadPoolTest, AnExceptionLeavesThePoolUsable) {
  ThreadPool pool({.threads = 2, .run_tasks = [](int tasks, const std::function<void(int)>& task) {
                     for (int t = 0; t < tasks; ++t) task(t);
                   }});
  EXPECT_THROW(pool.ParallelFor(100, 1, [](int64_t, int64_t, int) { throw std::bad_alloc(); }), std::bad_alloc);
  ExpectEachOnce(pool, 100, 1);
  EXPECT_EQ(pool.counts().shared, 2);
}

// The loop's body lies on the caller's stack: it may not leave before the workers have.
TEST(ThreadPoolTest, AnExceptionWaitsForWorkersAndComesFromThemToo) {
  ThreadPool pool(2);
  for (int thrower : {0, 1}) {
    std::atomic<int> inside = 0;
    std::atomic<bool> both = false, left = false;
    EXPECT_THROW(pool.ParallelParts(2, 1e9,
                                    [&](int64_t, int64_t, int worker) {
                                      if (++inside == 2) both = true;
                                      const auto until =
                                          std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
                                      while (!both && std::chrono::steady_clock::now() < until)
                                        std::this_thread::yield();
                                      if (worker == thrower || !both) throw std::bad_alloc();
                                      std::this_thread::sleep_for(std::chrono::milliseconds(20));
                                      left = true;
                                    }),
                 std::bad_alloc);
    EXPECT_TRUE(left || !both) << thrower;
    ExpectEachOnce(pool, 100, 1);
  }
}

TEST(ThreadPoolTest, ThreadsFromTheEnvironment) {
  setenv("KRAFLA_THREADS", "5", 1);
  EXPECT_EQ(ThreadPool::DefaultThreads(), 5);
  for (const char* bad : {"many", "0", "-1", "257", "2 ", "99999999999999999999"}) {
    setenv("KRAFLA_THREADS", bad, 1);
    auto asked = ThreadPool::ThreadsAskedFor();
    ASSERT_FALSE(asked) << bad;
    EXPECT_EQ(asked.error().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(asked.error().message().find(bad), std::string::npos) << asked.error().ToString();
    EXPECT_GE(ThreadPool::DefaultThreads(), 1);
  }
  setenv("KRAFLA_THREADS", "", 1);
  EXPECT_EQ(ThreadPool::ThreadsAskedFor().value_or(-1), 0);
  unsetenv("KRAFLA_THREADS");
}

}  // namespace
}  // namespace krafla
