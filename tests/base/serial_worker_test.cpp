// SPDX-License-Identifier: Apache-2.0
#include "base/serial_worker.h"

#include <gtest/gtest.h>

#include <chrono>
#include <latch>
#include <new>
#include <thread>
#include <vector>

namespace krafla {
namespace {

TEST(SerialWorker, DoesWorkInItsOrderWhileTheOtherGoesOn) {
  SerialWorker worker;
  std::latch go(1);
  std::vector<int> order;
  const uint64_t first = worker.Post([&]() -> Result<> {
    go.wait();
    EXPECT_TRUE(worker.IsThisThread());
    order.push_back(1);
    return {};
  });
  const uint64_t second = worker.Post([&]() -> Result<> {
    order.push_back(2);
    return {};
  });
  EXPECT_FALSE(worker.IsThisThread());
  EXPECT_LT(first, second);
  go.count_down();
  EXPECT_TRUE(worker.Wait(second));
  EXPECT_EQ(order, (std::vector{1, 2}));
}

TEST(SerialWorker, TellsTheFirstErrorUntilItBeginsAnew) {
  SerialWorker worker;
  worker.Post([]() -> Result<> { return InvalidArgument("first"); });
  worker.Post([]() -> Result<> { return InvalidArgument("second"); });
  worker.Post([]() -> Result<> { throw std::bad_alloc(); });
  const Result<> all = worker.WaitForAll();
  ASSERT_FALSE(all);
  EXPECT_EQ(all.error().message(), "first");
  worker.Begin();
  EXPECT_TRUE(worker.WaitForAll());
  EXPECT_EQ(worker.Wait(worker.Post([]() -> Result<> { throw std::bad_alloc(); })).error().code(),
            StatusCode::kResourceExhausted);
}

// Its thread goes when nothing comes, and another one starts with the next work.
TEST(SerialWorker, StartsAgain) {
  SerialWorker worker;
  EXPECT_TRUE(worker.Wait(worker.Post([]() -> Result<> { return {}; })));
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  EXPECT_TRUE(worker.Wait(worker.Post([]() -> Result<> { return {}; })));
}

}  // namespace
}  // namespace krafla
