// SPDX-License-Identifier: Apache-2.0
#include "hlo_io/stablehlo_bytecode/stablehlo_bytecode.h"

#include <gtest/gtest.h>

#include <random>

#include "corpus_files.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "hlo_io/read_module.h"
#include "hlo_io/stablehlo/to_module.h"
#include "hlo_io/stablehlo_bytecode/byte_stream.h"
#include "ir/verifier.h"

namespace krafla {
namespace {

std::vector<std::filesystem::path> Artifacts() {
  return testing::FilesBelow(std::filesystem::path(KRAFLA_SOURCE_DIR) / "tests/models", ".mlirbc");
}

TEST(StablehloBytecode, Varints) {
  // MLIR's bytecode format: 1 byte to 0x7f, 2 to 0x3fff, ..., 9 bytes for 64 bits.
  auto read = [](std::string_view bytes) { return stablehlo::ByteStream(bytes).Varint(); };
  using namespace std::string_view_literals;
  EXPECT_EQ(read("\x01"sv), 0u);
  EXPECT_EQ(read("\xff"sv), 127u);
  EXPECT_EQ(read("\x02\x02"sv), 128u);
  EXPECT_EQ(read("\xfe\xff"sv), 16383u);
  EXPECT_EQ(read("\x04\x00\x02"sv), 16384u);
  EXPECT_EQ(read("\x00\x01\x02\x03\x04\x05\x06\x07\x08"sv), 0x0807060504030201u);
  stablehlo::ByteStream minus("\x03"sv);
  EXPECT_EQ(minus.SignedVarint(), -1);
  stablehlo::ByteStream cut("\x02"sv);
  cut.Varint();
  EXPECT_TRUE(cut.failed());
}

TEST(StablehloBytecode, KeptArtifactsGiveValidModules) {
  ASSERT_FALSE(Artifacts().empty());
  for (const auto& path : Artifacts()) {
    auto module = ReadModule(testing::ReadText(path), path.string());
    ASSERT_TRUE(module) << module.error().ToString();
    auto text_path = path;
    auto text = ReadModule(testing::ReadText(text_path.replace_extension(".hlo")), "text");
    ASSERT_TRUE(text) << text.error().ToString();
    const auto want = (*text)->entry()->parameters(), got = (*module)->entry()->parameters();
    ASSERT_EQ(got.size(), want.size()) << path;
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_TRUE(Shape::Compatible(got[i]->shape(), want[i]->shape())) << path;
    auto verified = Verify(**module);
    EXPECT_TRUE(verified) << path << verified.error().ToString();
  }
}

// Changed bytes give a module that passes or fails the verifier, or an error; never a crash.
TEST(StablehloBytecode, AnyBytesGiveAModuleOrAnError) {
  std::mt19937 random(11);
  int accepted = 0, refused = 0;
  for (const auto& path : Artifacts()) {
    const std::string bytes = testing::ReadText(path);
    if (bytes.size() > 40000) continue;
    for (int round = 0; round < 400; ++round) {
      std::string changed = bytes;
      for (unsigned k = 0; k <= random() % 4; ++k) changed[random() % changed.size()] = static_cast<char>(random());
      if (round % 10 == 0) changed.resize(random() % changed.size());
      auto tree = stablehlo::ReadBytecode(changed);
      auto module = tree ? stablehlo::ToModule(**tree) : Result<std::unique_ptr<Module>>(InvalidArgument("no tree"));
      if (module && Verify(**module)) ++accepted;
      else ++refused;
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(accepted, 0);
}

TEST(StablehloBytecode, SaysWhatIsWrong) {
  auto bad = ReadModule("ML\xefR\x0dStableHLO_v9.9.9", "cut.mlirbc");
  ASSERT_FALSE(bad.has_value());
  EXPECT_NE(bad.error().ToString().find("cut.mlirbc"), std::string::npos) << bad.error().ToString();
  using namespace std::string_view_literals;
  auto later = ReadModule("ML\xefR\x21x\0"sv, "later.mlirbc");
  ASSERT_FALSE(later.has_value());
  EXPECT_EQ(later.error().code(), StatusCode::kUnimplemented) << later.error().ToString();
}

TEST(StablehloBytecode, RecordedModules) {
  const char* root = std::getenv("KRAFLA_MODELS");
  if (root == nullptr) GTEST_SKIP() << "KRAFLA_MODELS is not set.";
  for (const auto& path : testing::FilesBelow(root, ".mlirbc")) {
    const std::string bytes = testing::ReadText(path);
    auto tree = stablehlo::ReadBytecode(bytes);
    EXPECT_TRUE(tree) << path << tree.error().ToString();
  }
}

}  // namespace
}  // namespace krafla
