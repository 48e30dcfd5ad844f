// SPDX-License-Identifier: Apache-2.0
#include "vk_runtime/driver_symbols.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace krafla::vk {
namespace {

// A driver manifest of its own for one test.
class DriverSymbolsTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / ("driver_symbols_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    if (const char* set = std::getenv("VK_DRIVER_FILES")) before_ = set;
  }
  void TearDown() override {
    if (before_.empty()) {
      unsetenv("VK_DRIVER_FILES");
    } else {
      setenv("VK_DRIVER_FILES", before_.c_str(), 1);
    }
    std::filesystem::remove_all(folder_);
  }
  void Manifest(const std::string& text) {
    const std::filesystem::path file = folder_ / "driver.json";
    std::ofstream(file) << text;
    setenv("VK_DRIVER_FILES", (file.string() + ":/nowhere/at_all.json").c_str(), 1);
  }

  std::filesystem::path folder_;
  std::string before_;
};

TEST_F(DriverSymbolsTest, ReadsManifestsAsTheLoaderDoes) {
  Manifest(R"({"file_format_version": "1.0.1", "ICD": {"library_path": "/opt/libvulkan_x.so", "api_version": "1.4"}})");
  EXPECT_EQ(DriverLibraries(), std::vector<std::string>{"/opt/libvulkan_x.so"});
  Manifest(R"({"ICD": {"library_path": "libvulkan_x.so"}})");
  EXPECT_EQ(DriverLibraries(), std::vector<std::string>{"libvulkan_x.so"});
  Manifest(R"({"ICD": {"library_path": "../lib/libvulkan_x.so"}})");
  EXPECT_EQ(DriverLibraries(), std::vector<std::string>{(folder_.parent_path() / "lib/libvulkan_x.so").string()});
  for (const char* bad : {"", "[]", "{", R"({"ICD": 1})", R"({"ICD": {"library_path": 3}})"}) {
    Manifest(bad);
    EXPECT_TRUE(DriverLibraries().empty()) << bad;
  }
}

// What TensorFlow and lavapipe did in one process.
TEST_F(DriverSymbolsTest, ADriverKeepsItsOwnLlvm) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "The sanitizer's runtime takes no RTLD_DEEPBIND.";
#endif
  Manifest(std::string(R"({"ICD": {"library_path": ")") + KRAFLA_SYMBOLS_DRIVER + "\"}}");
  // In a process of its own: the other tests' drivers would find that LLVM too.
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (dlopen(KRAFLA_SYMBOLS_OTHER, RTLD_NOW | RTLD_GLOBAL) == nullptr) _exit(10);
    BindDriversToTheirOwnLlvm();
    void* driver = dlopen(KRAFLA_SYMBOLS_DRIVER, RTLD_LAZY | RTLD_LOCAL);  // as the Vulkan loader does
    if (driver == nullptr) _exit(11);
    auto* whose = reinterpret_cast<int (*)()>(dlsym(driver, "WhoseLlvm"));
    _exit(whose == nullptr ? 12 : whose());
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 2) << "1: the other library's LLVM; 10 to 12: the libraries could not be opened";
}

}  // namespace
}  // namespace krafla::vk
