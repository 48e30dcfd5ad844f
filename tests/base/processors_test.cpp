// SPDX-License-Identifier: Apache-2.0
#include "base/processors.h"

#include <gtest/gtest.h>
#ifdef __linux__
#include <sched.h>
#endif

#include <filesystem>
#include <fstream>
#include <thread>

namespace krafla {
namespace {

class ProcessorsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = ::testing::TempDir() + "processors_" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::string root_;
};

TEST_F(ProcessorsTest, NoControlGroupsIsNoQuota) { EXPECT_EQ(ProcessorQuota(root_), std::nullopt); }

TEST_F(ProcessorsTest, TheLeastQuotaOfTheGroupsAround) {
  Write("/proc/self/cgroup", "0::/outer/middle/inner\n");
  Write("/sys/fs/cgroup/outer/cpu.max", "400000 100000\n");
  Write("/sys/fs/cgroup/outer/middle/cpu.max", "150000 100000\n");
  Write("/sys/fs/cgroup/outer/middle/inner/cpu.max", "max 100000\n");
  EXPECT_EQ(ProcessorQuota(root_), 1.5);
}

TEST_F(ProcessorsTest, TheTopFolderIsTheContainers) {
  Write("/proc/self/cgroup", "0::/docker/0123\n");
  Write("/sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_EQ(ProcessorQuota(root_), 0.5);
}

TEST_F(ProcessorsTest, ControlGroupsOfVersionOne) {
  Write("/proc/self/cgroup", "5:memory:/a\n4:cpu,cpuacct:/a/b\n0::/\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "-1\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_period_us", "100000\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "200000\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(ProcessorQuota(root_), 2.0);
}

TEST_F(ProcessorsTest, FilesThatHoldSomethingElse) {
  Write("/proc/self/cgroup", "nonsense\n0:\n0::/a\n");
  Write("/sys/fs/cgroup/a/cpu.max", "-5 0\n");
  EXPECT_EQ(ProcessorQuota(root_), std::nullopt);
}

#ifdef __linux__
TEST_F(ProcessorsTest, TheAffinityOfTheThread) {
  int processors = 0;
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    processors = UsableProcessors();
  }).join();
  EXPECT_EQ(processors, 1);
}
#endif

}  // namespace
}  // namespace krafla
