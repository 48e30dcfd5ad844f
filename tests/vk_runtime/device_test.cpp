// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "test_device.h"

namespace krafla::vk {
namespace {

class VulkanDeviceTest : public DeviceTest {};
INSTANTIATE_TEST_SUITE_P(Modes, VulkanDeviceTest, ::testing::ValuesIn(AllModes()), ModeName);

std::vector<std::byte> Noise(std::size_t bytes) {
  std::vector<std::byte> out(bytes);
  uint32_t x = 1;
  for (auto& b : out) b = static_cast<std::byte>((x = x * 1664525 + 1013904223) >> 24);
  return out;
}

TEST_P(VulkanDeviceTest, BytesGoThereAndBack) {
  // Staging of 256 KiB: large copies take many turns of the ring.
  ASSERT_NO_FATAL_FAILURE(Open({.staging_bytes = 256 << 10, .cache_dir = ""}));
  for (std::size_t bytes : {1u, 4u, 1000u, 65536u, 65537u, 3000001u}) {
    auto buffer = device_->Allocate(bytes + 7, MemoryKind::kDevice);
    ASSERT_OK(buffer);
    EXPECT_EQ((*buffer)->host() != nullptr, device_->profile().unified_memory);
    std::vector<std::byte> sent = Noise(bytes), got(bytes);
    ASSERT_OK(device_->Upload(**buffer, 5, sent));
    ASSERT_OK(device_->Download(**buffer, 5, got));
    EXPECT_EQ(sent, got) << bytes;
  }
}

TEST_P(VulkanDeviceTest, RangesAreChecked) {
  ASSERT_NO_FATAL_FAILURE(Open());
  auto buffer = device_->Allocate(100, MemoryKind::kDevice);
  ASSERT_OK(buffer);
  std::vector<std::byte> bytes(100);
  EXPECT_OK(device_->Upload(**buffer, 0, bytes));
  EXPECT_OK(device_->Upload(**buffer, 100, {}));
  EXPECT_EQ(device_->Upload(**buffer, 1, bytes).error().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(device_->Download(**buffer, UINT64_MAX, bytes).error().code(), StatusCode::kInvalidArgument);
}

TEST_P(VulkanDeviceTest, TooMuchMemoryIsAnError) {
  ASSERT_NO_FATAL_FAILURE(Open());
  for (uint64_t bytes : {uint64_t{1} << 50, UINT64_MAX}) {
    auto buffer = device_->Allocate(bytes, MemoryKind::kDevice, "an arena");
    ASSERT_FALSE(buffer);
    EXPECT_EQ(buffer.error().code(), StatusCode::kResourceExhausted);
    EXPECT_NE(buffer.error().message().find(std::to_string(bytes / 16 * 16).substr(0, 10)), std::string::npos)
        << buffer.error().message();
  }
}

TEST_P(VulkanDeviceTest, MemoryIsCounted) {
  ASSERT_NO_FATAL_FAILURE(Open());
  uint64_t before = device_->allocated_bytes();
  {
    auto buffer = device_->Allocate(1000, MemoryKind::kDevice);
    ASSERT_OK(buffer);
    EXPECT_EQ(device_->allocated_bytes(), before + 1008);
  }
  EXPECT_EQ(device_->allocated_bytes(), before);
  EXPECT_GE(device_->peak_allocated_bytes(), before + 1008);
}

TEST_P(VulkanDeviceTest, HostPagesAreImported) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const std::size_t page = device_->profile().limits.host_import_alignment;
  if (page == 0) GTEST_SKIP() << "The device has no VK_EXT_external_memory_host.";
  void* pages = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  EXPECT_EQ(device_->ImportHost(static_cast<std::byte*>(pages) + 1, page).error().code(), StatusCode::kInvalidArgument);
  auto* words = static_cast<uint32_t*>(pages);
  for (uint32_t i = 0; i < 64; ++i) words[i] = i;
  {
    auto buffer = device_->ImportHost(pages, page);
    if (!buffer && buffer.error().code() == StatusCode::kUnimplemented) {
      munmap(pages, page);
      GTEST_SKIP() << buffer.error().ToString();
    }
    ASSERT_OK(buffer);
    auto one = MakeBuffer(Ramp(64, 1, 0));
    auto program = Program::Create(device_, {ProgramBuffer::Fixed(*buffer), ProgramBuffer::Fixed(one)},
                                   MakePipelines({AxpyKernel(device_->profile())}), {Axpy(0, 1, 0, 64, 3)});
    ASSERT_OK(program);
    ASSERT_OK((*program)->Run({}));
  }
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(words[i], 3 * i + 1);
  device_.reset();
  munmap(pages, page);
}

TEST_P(VulkanDeviceTest, CodeIsChecked) {
  ASSERT_NO_FATAL_FAILURE(Open());
  KernelCode good = AxpyKernel(device_->profile());
  auto code_of = [&](const KernelCode& code) {
    auto made = device_->pipelines().Create(std::span(&code, 1));
    return made ? StatusCode::kUnknown : made.error().code();
  };
  KernelCode bad = good;
  bad.spirv = {1, 2, 3};
  EXPECT_EQ(code_of(bad), StatusCode::kInvalidArgument);
  bad = good;
  bad.spirv[1] = 0x00010700;
  EXPECT_EQ(code_of(bad), StatusCode::kUnimplemented);
  bad = good;
  bad.subgroup_size = device_->profile().limits.max_subgroup_size * 2;
  EXPECT_EQ(code_of(bad), StatusCode::kUnimplemented);
  good.subgroup_size = device_->profile().limits.subgroup_size;
  good.full_subgroups = device_->profile().features.compute_full_subgroups;
  EXPECT_EQ(code_of(good), StatusCode::kUnknown);
}

// Where the application lends its threads, the driver compiles on these and on no others.
TEST_P(VulkanDeviceTest, PipelinesAreMadeByTheThreadsGiven) {
  ASSERT_NO_FATAL_FAILURE(Open());
  int calls = 0, tasks_asked = 0;
  ThreadPool lent({.threads = 2, .run_tasks = [&](int tasks, const std::function<void(int)>& task) {
                     ++calls;
                     tasks_asked = tasks;
                     for (int t = 0; t < tasks; ++t) task(t);
                   }});
  const std::vector<KernelCode> kernels = {AxpyKernel(device_->profile()), SpinKernel(device_->profile())};
  PipelineCounts counts;
  auto made = device_->pipelines().Create(kernels, &counts, &lent);
  ASSERT_OK(made);
  EXPECT_EQ(counts.compiled + counts.from_cache, 2);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(tasks_asked, 2);
}

TEST_P(VulkanDeviceTest, EqualKernelsAreOnePipeline) {
  ASSERT_NO_FATAL_FAILURE(Open());
  std::vector<KernelCode> kernels(3, AxpyKernel(device_->profile()));
  kernels.push_back(SpinKernel(device_->profile()));
  PipelineCounts counts;
  auto first = device_->pipelines().Create(kernels, &counts);
  ASSERT_OK(first);
  EXPECT_EQ(counts.compiled + counts.from_cache, 2);
  EXPECT_EQ(counts.reused, 2);
  EXPECT_EQ((*first)[0], (*first)[2]);
  EXPECT_NE((*first)[0], (*first)[3]);
  auto second = device_->pipelines().Create(kernels, &counts);
  ASSERT_OK(second);
  EXPECT_EQ(counts.reused, 4);
  EXPECT_EQ((*second)[3], (*first)[3]);
  first->clear();
  second->clear();
  auto third = device_->pipelines().Create(kernels, &counts);
  ASSERT_OK(third);
  EXPECT_EQ(counts.reused, 2) << "nobody held them";
}

// A device of an old version that has all this by extensions: their names and dependencies must be right.
TEST_P(VulkanDeviceTest, ExtensionsStandInForCore) {
  auto profile = physical().profile.WithDisabled(GetParam());
  ASSERT_OK(profile);
  PhysicalDevice old = physical();
  old.api_version = VK_API_VERSION_1_1;
  auto device = Device::Create(instance_, old, *profile, {.cache_dir = ""});
  if (!device && device.error().code() == StatusCode::kUnimplemented) GTEST_SKIP() << device.error().ToString();
  ASSERT_OK(device);
  device_ = *device;
  EXPECT_EQ(Read(*MakeBuffer(Ramp(100))), Ramp(100));
}

std::string OnlyFile(const std::string& folder) {
  std::vector<std::string> files;
  if (!std::filesystem::exists(folder)) return "";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  EXPECT_LE(files.size(), 1u);
  return files.empty() ? "" : files[0];
}
std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST_P(VulkanDeviceTest, PipelinesAreKeptOnDisk) {
  std::string folder = FreshFolder("pipelines") + "/deep/er";
  auto create = [&] {
    ASSERT_NO_FATAL_FAILURE(Open({.cache_dir = folder}));
    MakePipelines({AxpyKernel(device_->profile()), SpinKernel(device_->profile())});
    device_.reset();
  };
  create();
  std::string path = OnlyFile(folder);
  if (path.empty()) GTEST_SKIP() << "The driver keeps nothing in its pipeline cache.";
  auto mode = [](const std::string& p) {
    return std::filesystem::status(p).permissions() & std::filesystem::perms::all;
  };
  EXPECT_EQ(mode(folder), std::filesystem::perms::owner_all);
  EXPECT_EQ(mode(path), std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  std::string good = Contents(path);
  ASSERT_GT(good.size(), 152u);
  // Damage anywhere makes the file as good as absent: it is replaced.
  for (std::size_t at : {std::size_t{0}, std::size_t{9}, std::size_t{40}, std::size_t{150}, good.size() - 1}) {
    std::string bad = good;
    bad[at] = static_cast<char>(~bad[at]);
    std::ofstream(path, std::ios::binary) << bad;
    create();
    EXPECT_NE(Contents(path), bad) << at;
  }
  for (std::size_t length : {std::size_t{0}, std::size_t{100}, std::size_t{152}, good.size() - 1}) {
    std::ofstream(path, std::ios::binary) << good.substr(0, length);
    create();
    EXPECT_GT(Contents(path).size(), 152u) << length;
  }
  // A file that others may write is not read, and one cannot be written: never an error.
  std::filesystem::permissions(path, std::filesystem::perms::all);
  create();
  std::filesystem::remove_all(folder);
  std::ofstream(folder) << "a file where the folder should be";
  create();
  EXPECT_EQ(Contents(folder), "a file where the folder should be");
}

TEST(VulkanInstance, SnapshotSurvivesJson) {
  std::string why_not;
  auto instance = TestInstance(why_not);
  if (instance == nullptr) GTEST_SKIP() << "No Vulkan device to test on: " << why_not;
  for (const PhysicalDevice& d : instance->devices()) {
    auto again = ParseDeviceProfile(d.profile.ToJson());
    ASSERT_OK(again);
    EXPECT_EQ(*again, d.profile);
    EXPECT_GE(d.profile.limits.max_workgroup_invocations, 128u);
    EXPECT_TRUE(d.profile.subgroup.basic);
    EXPECT_EQ(d.profile.device_uuid.size(), 32u);
    auto selected = instance->Select("vulkan:uuid=" + d.profile.device_uuid);
    ASSERT_OK(selected);
    EXPECT_EQ(*selected, &d);
  }
  EXPECT_FALSE(instance->Select("vulkan:99"));
}

// The committed profile of a driver is what that driver reports, apart from the machine's memory.
TEST(VulkanInstance, SnapshotIsTheCommittedProfile) {
  std::string why_not;
  auto instance = TestInstance(why_not);
  if (instance == nullptr) GTEST_SKIP() << "No Vulkan device to test on: " << why_not;
  DeviceProfile now = instance->devices()[0].profile;
  for (const char* name : {"lavapipe", "swiftshader"}) {
    auto then = ParseDeviceProfile(Contents(std::string(KRAFLA_SOURCE_DIR) + "/tests/profiles/" + name + ".json"));
    ASSERT_OK(then);
    if (then->driver_name != now.driver_name || then->driver_info != now.driver_info || then->name != now.name)
      continue;
    then->heaps = now.heaps;
    then->limits.max_workgroup_subgroups = now.limits.max_workgroup_subgroups;
    EXPECT_EQ(then->ToJson(), now.ToJson());
    return;
  }
  GTEST_SKIP() << "There is no committed profile of " << now.name << ", " << now.driver_info;
}

TEST(VulkanInstanceDeath, NoDriverIsNotFound) {
  // The loader reads the environment once, so this needs a process of its own.
  EXPECT_EXIT(
      {
        setenv("VK_DRIVER_FILES", "/nonexistent/icd.json", 1);
        unsetenv("KRAFLA_VALIDATE");
        auto instance = Instance::Create();
        bool right = !instance && instance.error().code() == StatusCode::kNotFound &&
                     instance.error().message().find("mesa-vulkan-drivers") != std::string::npos;
        _exit(right ? 0 : 1);  // the loader leaks a little, which is not what this is about
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace krafla::vk
