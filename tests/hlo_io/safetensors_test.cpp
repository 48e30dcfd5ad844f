// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "recorded/array_archive.h"
#include "recorded/safetensors.h"

namespace krafla {
namespace {

class SafetensorsTest : public ::testing::Test {
 protected:
  SafetensorsTest()
      : path_(std::filesystem::path(::testing::TempDir()) / Format("krafla_{}.safetensors", ::getpid())) {}
  ~SafetensorsTest() override {
    std::error_code error;
    std::filesystem::remove(path_, error);
  }
  void WriteBytes(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  static std::string FileOf(const std::string& header, const std::string& data) {
    std::string out;
    for (std::size_t i = 0; i < 8; ++i) out += static_cast<char>(header.size() >> (8 * i) & 0xff);
    return out + header + data;
  }
  Status ErrorOf(const std::string& header, const std::string& data) {
    WriteBytes(FileOf(header, data));
    auto opened = SafetensorsFile::Open(path_.string());
    EXPECT_FALSE(opened.has_value()) << header;
    return opened ? Status(StatusCode::kInternal, "") : opened.error();
  }
  std::filesystem::path path_;
};

constexpr const char* kTwo = R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2],"data_offsets":[3,11]},)"
                             R"("a":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}})";
const std::string kTwoData = std::string("\0\1\7", 3) + std::string("\0\0\200\77\0\0\0\300", 8);

TEST_F(SafetensorsTest, ArraysAsTheyLie) {
  WriteBytes(FileOf(kTwo, kTwoData));
  auto file = ArrayArchive::Open(path_.string());
  ASSERT_TRUE(file.has_value()) << file.error().ToString();
  ASSERT_EQ(file->arrays().size(), 2u);
  EXPECT_EQ(file->arrays()[0].name, "a");
  EXPECT_EQ(file->arrays()[1].name, "b");
  auto a = file->Read(0), b = file->Read(1);
  ASSERT_TRUE(a.has_value() && b.has_value());
  EXPECT_EQ(a->shape().ToString(false), "pred[3]");
  EXPECT_EQ(a->data<uint8_t>()[2], 1);
  EXPECT_EQ(b->data<float>()[0], 1);
  EXPECT_EQ(b->data<float>()[1], -2);
  EXPECT_FALSE(file->Read(2).has_value());
}

TEST_F(SafetensorsTest, FloatsOf8BitsInEveryForm) {
  for (const auto& [dtype, type] : {std::pair{"F8_E4M3FNUZ", "f8e4m3fnuz[1]"},
                                    std::pair{"F8_E5M2FNUZ", "f8e5m2fnuz[1]"}, std::pair{"F8_E4M3", "f8e4m3fn[1]"}}) {
    WriteBytes(FileOf(Format(R"({{"x":{{"dtype":"{}","shape":[1],"data_offsets":[0,1]}}}})", dtype), "\x38"));
    auto file = ArrayArchive::Open(path_.string());
    ASSERT_TRUE(file.has_value()) << file.error().ToString();
    EXPECT_EQ(file->arrays()[0].shape.ToString(false), type);
  }
}

TEST_F(SafetensorsTest, SaysWhatIsWrong) {
  const auto says = [](const Status& error, std::string_view word) {
    EXPECT_NE(error.ToString().find(word), std::string::npos) << error.ToString();
  };
  says(ErrorOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "12345678"), "takes 8 bytes");
  says(ErrorOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", "12345678"), "outside");
  says(ErrorOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", "12345678"), "outside");
  says(ErrorOf(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,0]}})", ""), "'a'");
  says(ErrorOf(R"({"a":{"dtype":"Q4","shape":[2],"data_offsets":[0,1]}})", "1"), "'Q4'");
  says(ErrorOf(R"({"a":{"dtype":"F64","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", ""), "'a'");
  says(ErrorOf(R"({"a":3})", ""), "'a'");
  says(ErrorOf(R"({"a":)", ""), "header");
}

// Every byte changed and every length: an error, or arrays within the file.
TEST_F(SafetensorsTest, DamageIsNoticedOrHarmless) {
  const std::string whole = FileOf(kTwo, kTwoData);
  auto try_this = [&](const std::string& bytes) {
    WriteBytes(bytes);
    auto file = ArrayArchive::Open(path_.string());
    if (!file) return;
    for (std::size_t i = 0; i < file->arrays().size(); ++i) (void)file->Read(i);
  };
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (int change : {1, 0x40, 0xff}) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ change);
      try_this(bytes);
    }
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) try_this(whole.substr(0, bytes));
}

}  // namespace
}  // namespace krafla
