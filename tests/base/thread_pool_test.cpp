// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
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
  for (int i = 0; i < 5000; ++i)
    pool.ParallelFor(8, 1, [&](int64_t begin, int64_t end, int) { sum += end - begin; });
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

TEST(ThreadPoolTest, ThreadsFromTheEnvironment) {
  setenv("KRAFLA_THREADS", "5", 1);
  EXPECT_EQ(ThreadPool::DefaultThreads(), 5);
  setenv("KRAFLA_THREADS", "many", 1);
  EXPECT_GE(ThreadPool::DefaultThreads(), 1);
  setenv("KRAFLA_THREADS", "0", 1);
  EXPECT_GE(ThreadPool::DefaultThreads(), 1);
  unsetenv("KRAFLA_THREADS");
}

}  // namespace
}  // namespace krafla
