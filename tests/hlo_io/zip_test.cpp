// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "corpus_files.h"
#include "recorded/npz.h"
#include "recorded/zip_archive.h"
#include "recorded/zip_file.h"

namespace krafla {
namespace {

class ZipTest : public ::testing::Test {
 protected:
  ZipTest() : path_(std::filesystem::path(::testing::TempDir()) / Format("krafla_zip_{}.zip", ::getpid())) {}
  ~ZipTest() override {
    std::error_code error;
    std::filesystem::remove(path_, error);
  }
  void WriteBytes(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  // All files of the archive; what went wrong first.
  Result<std::vector<std::string>> ReadAll() const {
    KRAFLA_ASSIGN(const ZipArchive archive, ZipArchive::Open(path_.string()));
    std::vector<std::string> out;
    for (const ZipArchive::Entry& entry : archive.entries()) {
      ZipArchive::Reader reader(archive, entry);
      std::string bytes(entry.size, '\0');
      KRAFLA_TRY(reader.Read(std::as_writable_bytes(std::span(bytes))));
      KRAFLA_TRY(reader.Finish());
      out.push_back(std::move(bytes));
    }
    return out;
  }
  std::filesystem::path path_;
};

TEST_F(ZipTest, FilesComeBackStoredAndDeflated) {
  std::string text(300'000, 'a');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * i >> 7);
  const std::vector<ZipEntry> entries = {{"empty", ""},
                                         {"head", "head"},
                                         {"both", "head", std::as_bytes(std::span(text))},
                                         {"nothing, packed", "", {}, true},
                                         {"packed", "head", std::as_bytes(std::span(text)), true}};
  Result<> written = WriteZip(path_.string(), entries);
  ASSERT_TRUE(written.has_value()) << written.error().ToString();
  EXPECT_LT(std::filesystem::file_size(path_), 2 * text.size());
  auto read = ReadAll();
  ASSERT_TRUE(read.has_value()) << read.error().ToString();
  EXPECT_EQ(*read, (std::vector<std::string>{"", "head", "head" + text, "", "head" + text}));
}

TEST_F(ZipTest, ReadsInPieces) {
  const std::string text(100'000, 'x');
  ASSERT_TRUE(WriteZip(path_.string(), std::vector<ZipEntry>{{"x", text, {}, true}}).has_value());
  auto archive = ZipArchive::Open(path_.string());
  ASSERT_TRUE(archive.has_value());
  ZipArchive::Reader reader(*archive, archive->entries()[0]);
  std::string piece(33'333, '\0');
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(reader.Read(std::as_writable_bytes(std::span(piece))).has_value());
  EXPECT_FALSE(reader.Finish().has_value());
  EXPECT_FALSE(reader.Read(std::as_writable_bytes(std::span(piece))).has_value());
  piece.resize(1);
  EXPECT_TRUE(reader.Read(std::as_writable_bytes(std::span(piece))).has_value());
  EXPECT_TRUE(reader.Finish().has_value());
}

// Every byte changed in several ways, and every length: an error, or the bytes that were written.
TEST_F(ZipTest, DamageIsNoticedOrHarmless) {
  const std::string text = "some words that deflate can pack, some words that it can pack";
  ASSERT_TRUE(WriteZip(path_.string(), std::vector<ZipEntry>{{"a", text}, {"b", text, {}, true}}).has_value());
  const std::string whole = testing::ReadText(path_);
  int refused = 0;
  auto try_this = [&](const std::string& bytes) {
    WriteBytes(bytes);
    auto read = ReadAll();
    if (!read) {
      ++refused;
      return;
    }
    for (const std::string& file : *read) EXPECT_TRUE(file == text);
  };
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (int change : {1, 0x80, 0xff}) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ change);
      try_this(bytes);
    }
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) try_this(whole.substr(0, bytes));
  EXPECT_GT(refused, 600);
}

TEST_F(ZipTest, AFailedWriteLeavesWhatWasThere) {
  WriteBytes("before");
  const std::string name(70'000, 'n');
  EXPECT_FALSE(WriteZip(path_.string(), std::vector<ZipEntry>{{name, "x"}}).has_value());
  EXPECT_EQ(testing::ReadText(path_), "before");
  EXPECT_FALSE(WriteZip("/dev/full", std::vector<ZipEntry>{{"x", "x"}}).has_value());
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
}

// More files than 16 bits count: the 64-bit records.
TEST_F(ZipTest, ManyFiles) {
  std::vector<ZipEntry> entries;
  for (int i = 0; i < 70'000; ++i) entries.push_back({Format("{}", i), "x"});
  ASSERT_TRUE(WriteZip(path_.string(), entries).has_value());
  auto archive = ZipArchive::Open(path_.string());
  ASSERT_TRUE(archive.has_value()) << archive.error().ToString();
  ASSERT_EQ(archive->entries().size(), entries.size());
  EXPECT_EQ(archive->entries().back().name, "69999");
}

}  // namespace
}  // namespace krafla
