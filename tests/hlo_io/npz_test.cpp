// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "corpus_files.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "recorded/npy_header.h"
#include "recorded/npz.h"

namespace krafla {
namespace {

class NpzTest : public ::testing::Test {
 protected:
  NpzTest() : path_(std::filesystem::path(::testing::TempDir()) / Format("krafla_npz_{}.npz", ::getpid())) {}
  ~NpzTest() override {
    std::error_code error;
    std::filesystem::remove(path_, error);
  }
  std::string path() const { return path_.string(); }
  void WriteBytes(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  std::filesystem::path path_;
};

Literal MakeLiteral(std::string_view shape, std::string_view text) {
  auto s = ParseShape(shape);
  auto l = ParseLiteral(text, *s);
  EXPECT_TRUE(l.has_value()) << (l ? "" : l.error().ToString());
  return std::move(*l);
}

TEST_F(NpzTest, RoundTrip) {
  std::vector<NamedLiteral> arrays;
  arrays.push_back({"b", MakeLiteral("f32[2,3]", "{{1,2,3},{4,5,6}}")});
  arrays.push_back({"a", MakeLiteral("s64[]", "-7")});
  arrays.push_back({"p", MakeLiteral("pred[3]", "{true,false,true}")});
  arrays.push_back({"h", MakeLiteral("bf16[2]", "{1,-2}")});
  arrays.push_back({"q", MakeLiteral("f8e4m3fn[2]", "{1,448}")});
  arrays.push_back({"n", MakeLiteral("s4[2]", "{-8,7}")});
  arrays.push_back({"c", MakeLiteral("c128[1]", "{(1,-1)}")});
  arrays.push_back({"e", MakeLiteral("f32[0,5]", "{}")});
  ASSERT_TRUE(WriteNpz(path(), arrays).has_value());
  auto read = ReadNpz(path());
  ASSERT_TRUE(read.has_value()) << read.error().ToString();
  ASSERT_EQ(read->size(), arrays.size());
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    EXPECT_EQ((*read)[i].name, arrays[i].name);
    auto adopted = AdoptShape(std::move((*read)[i].literal), arrays[i].literal.shape());
    ASSERT_TRUE(adopted.has_value()) << adopted.error().ToString();
    EXPECT_TRUE(*adopted == arrays[i].literal) << arrays[i].name;
  }
  // The same arrays make the same file.
  std::string first = testing::ReadText(path_);
  ASSERT_TRUE(WriteNpz(path(), arrays).has_value());
  EXPECT_EQ(first, testing::ReadText(path_));
}

TEST_F(NpzTest, TokensAndTuplesAreRefused) {
  std::vector<NamedLiteral> arrays;
  arrays.push_back({"t", MakeLiteral("(f32[1])", "({1})")});
  EXPECT_FALSE(WriteNpz(path(), arrays).has_value());
}

TEST_F(NpzTest, DamageIsNoticed) {
  std::vector<NamedLiteral> arrays;
  arrays.push_back({"x", MakeLiteral("s32[64]", "7")});
  ASSERT_TRUE(WriteNpz(path(), arrays).has_value());
  const std::string whole = testing::ReadText(path_);
  // The data of a stored entry: a changed byte breaks the checksum.
  std::string changed = whole;
  changed[200] ^= 1;
  WriteBytes(changed);
  EXPECT_FALSE(ReadNpz(path()).has_value());
  for (std::size_t n = 0; n < whole.size(); n += 7) {
    WriteBytes(whole.substr(0, n));
    EXPECT_FALSE(ReadNpz(path()).has_value()) << n;
  }
  // Any byte may change; what is read then is an array or an error.
  for (std::size_t n = 0; n < whole.size(); n += 3) {
    changed = whole;
    changed[n] = static_cast<char>(changed[n] ^ 0x41);
    WriteBytes(changed);
    auto read = ReadNpz(path());
    if (read && !read->empty()) { EXPECT_EQ((*read)[0].literal.shape().byte_size(), 256) << n; }
  }
  EXPECT_EQ(ReadNpz("/nonexistent/x.npz").error().code(), StatusCode::kNotFound);
}

TEST(Npy, Dictionaries) {
  auto good = ReadNpyDictionary("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n");
  ASSERT_TRUE(good.has_value()) << good.error().ToString();
  EXPECT_EQ(good->shape.ToString(false), "f32[2,3]");
  EXPECT_EQ(ReadNpyDictionary("{'shape': (), 'fortran_order': True, 'descr': '|b1'}")->shape.ToString(false), "pred[]");
  EXPECT_TRUE(ReadNpyDictionary("{'shape': (5,), 'fortran_order': True, 'descr': '<c8'}")->fortran_order);
  for (const char* bad :
       {"", "{", "{}", "{'descr': '<f4', 'fortran_order': False}", "{'descr': '<f4', 'fortran_order': 1, 'shape': ()}",
        "{'descr': '>f4', 'fortran_order': False, 'shape': ()}",
        "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 2)}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': ()} x",
        "{'descr': '<U4', 'fortran_order': False, 'shape': ()}"})
    EXPECT_FALSE(ReadNpyDictionary(bad).has_value()) << bad;
}

TEST(Npy, HeadersAreAligned) {
  for (const char* shape : {"f32[]", "f32[5]", "u8[1,2,3,4,5,6,7,8,9,10]", "bf16[12345678]"}) {
    auto header = MakeNpyHeader(*ParseShape(shape));
    ASSERT_TRUE(header.has_value());
    EXPECT_EQ(header->size() % 64, 0u);
    auto length = ReadNpyLength(std::as_bytes(std::span(*header)));
    ASSERT_TRUE(length.has_value());
    auto dictionary = ReadNpyDictionary(header->substr(length->begin, length->length));
    ASSERT_TRUE(dictionary.has_value()) << dictionary.error().ToString();
    EXPECT_EQ(dictionary->shape.dims(), ParseShape(shape)->dims());
  }
}

TEST(AdoptShape, StandIns) {
  EXPECT_TRUE(AdoptShape(MakeLiteral("u16[2]", "{1,2}"), *ParseShape("bf16[2]")).has_value());
  EXPECT_TRUE(AdoptShape(MakeLiteral("u8[2]", "{1,2}"), *ParseShape("f8e5m2[2]")).has_value());
  EXPECT_TRUE(AdoptShape(MakeLiteral("s8[2]", "{-8,7}"), *ParseShape("s4[2]")).has_value());
  EXPECT_TRUE(AdoptShape(MakeLiteral("f32[2]", "{1,2}"), *ParseShape("f32[<=3]")).has_value());
  EXPECT_FALSE(AdoptShape(MakeLiteral("s8[2]", "{-9,7}"), *ParseShape("s4[2]")).has_value());
  EXPECT_FALSE(AdoptShape(MakeLiteral("u8[1]", "{2}"), *ParseShape("pred[1]")).has_value());
  EXPECT_FALSE(AdoptShape(MakeLiteral("u8[1]", "{16}"), *ParseShape("f4e2m1fn[1]")).has_value());
  EXPECT_FALSE(AdoptShape(MakeLiteral("u16[2]", "{1,2}"), *ParseShape("f16[2]")).has_value());
  EXPECT_FALSE(AdoptShape(MakeLiteral("u16[2]", "{1,2}"), *ParseShape("bf16[1,2]")).has_value());
  EXPECT_FALSE(AdoptShape(MakeLiteral("f32[4]", "1"), *ParseShape("f32[<=3]")).has_value());
  EXPECT_FALSE(AdoptShape(MakeLiteral("f32[2]", "{1,2}"), *ParseShape("f64[2]")).has_value());
}

}  // namespace
}  // namespace krafla
