// SPDX-License-Identifier: Apache-2.0
#include "base/system.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/glob.h"

namespace krafla {
namespace {

TEST(Glob, Patterns) {
  for (const auto& [pattern, text] : {std::pair("*", ""), std::pair("a*", "abc"), std::pair("*lt*", "sort/s8_lt_4x7"),
                                      std::pair("?[a-c]?", "xby"), std::pair("[!a-c]", "d"), std::pair("[]]", "]"),
                                      std::pair("a\\*", "a*"), std::pair("a[", "a["), std::pair("**a**", "banana")})
    EXPECT_TRUE(MatchesGlob(pattern, text)) << pattern << " " << text;
  for (const auto& [pattern, text] :
       {std::pair("", "a"), std::pair("a*", "ba"), std::pair("?", ""), std::pair("[!a]", "a"), std::pair("a\\*", "ab"),
        std::pair("*b", "abc"), std::pair("[a-c]", "d")})
    EXPECT_FALSE(MatchesGlob(pattern, text)) << pattern << " " << text;
  // No backtracking over all stars.
  EXPECT_FALSE(MatchesGlob("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", std::string(5000, 'a')));
}

TEST(System, PagesAreWrittenThenRun) {
  const std::size_t bytes = os::PageBytes();
  ASSERT_GE(bytes, 4096u);
  void* pages = os::ReservePages(2 * bytes);
  ASSERT_NE(pages, nullptr);
  ASSERT_TRUE(os::MakeWritable(pages, bytes));
  std::memset(pages, 0x5a, bytes);
  ASSERT_TRUE(os::MakeExecutable(pages, bytes));
  EXPECT_EQ(*static_cast<const unsigned char*>(pages), 0x5a);
  os::MakeEmpty(pages, bytes);
  ASSERT_TRUE(os::MakeWritable(pages, bytes));
  EXPECT_EQ(*static_cast<const unsigned char*>(pages), 0);
  os::ReleasePages(pages, 2 * bytes);
}

TEST(System, Files) {
  const std::string folder = os::MakeTemporaryFolder();
  ASSERT_FALSE(folder.empty());
  EXPECT_TRUE(os::MayWriteInto(folder));
  const std::string path = folder + "/a", other = folder + "/b";
  const int made = os::CreateFile(path);
  ASSERT_GE(made, 0);
  EXPECT_LT(os::CreateFile(path), 0);  // it is there
  EXPECT_EQ(os::WriteSome(made, "abcd", 4), 4);
  os::CloseFile(made);
  ASSERT_TRUE(os::ReplaceFile(path, other));
  const int read = os::OpenToRead(other);
  ASSERT_GE(read, 0);
  os::FileInfo info;
  ASSERT_TRUE(os::Describe(read, info));
  EXPECT_EQ(info.kind, os::FileKind::kFile);
  EXPECT_EQ(info.bytes, 4);
  EXPECT_TRUE(info.is_mine);
  EXPECT_FALSE(info.others_may_write);
  EXPECT_LT(info.age_seconds, 60);
  char bytes[4] = {};
  EXPECT_EQ(os::ReadSomeAt(read, bytes, 2, 2), 2);
  EXPECT_EQ(std::string(bytes), "cd");
  EXPECT_EQ(os::ReadSome(read, bytes, 4), 4);
  EXPECT_EQ(os::ReadSome(read, bytes, 4), 0);
  const void* mapped = os::MapToRead(read, 4);
  ASSERT_NE(mapped, nullptr);
  EXPECT_EQ(std::memcmp(mapped, "abcd", 4), 0);
  os::Unmap(mapped, 4);
  os::CloseFile(read);
  EXPECT_TRUE(os::DescribePath(folder, info));
  EXPECT_EQ(info.kind, os::FileKind::kFolder);
  EXPECT_TRUE(os::RemoveFile(other));
  EXPECT_LT(os::OpenToRead(other), 0);
  std::filesystem::remove_all(folder);
}

TEST(System, Programs) {
  const std::string folder = os::MakeTemporaryFolder();
  const os::Ended good = os::RunToEnd({"cmake", "-E", "echo", "two words", "a\"b"}, folder + "/out", folder + "/err");
  ASSERT_TRUE(good.started);
  EXPECT_EQ(good.exit_code, 0);
  std::ifstream in(folder + "/out");
  std::string line;
  std::getline(in, line);
  EXPECT_TRUE(line.starts_with("two words a\"b")) << line;
  EXPECT_NE(os::RunToEnd({"cmake", "-E", "false"}, folder + "/out", folder + "/err").exit_code, 0);
  EXPECT_FALSE(os::RunToEnd({"krafla-no-such-program"}, folder + "/out", folder + "/err").started);
  std::filesystem::remove_all(folder);
  EXPECT_GT(os::PeakResidentBytes(), 100'000u);
  EXPECT_FALSE(os::Description().empty());
}

}  // namespace
}  // namespace krafla
