// SPDX-License-Identifier: Apache-2.0
// Every recorded module is read and survives a round trip through the printer. Without KRAFLA_CORPUS and KRAFLA_MODELS
// there is nothing to read.
#include <gtest/gtest.h>

#include "corpus_files.h"
#include "hlo_io/hlo_text/hlo_text.h"

namespace krafla {
namespace {

TEST(HloCorpus, EveryModuleSurvivesARoundTrip) {
  auto files = testing::RecordedModules();
  if (files.empty()) GTEST_SKIP() << "neither KRAFLA_CORPUS nor KRAFLA_MODELS is set";
  HloPrintOptions loud;
  loud.percent = loud.operand_types = true;
  for (const auto& file : files) {
    auto module = ParseHloText(testing::ReadText(file), file.filename().string());
    ASSERT_TRUE(module.has_value()) << file << "\n" << module.error().ToString();
    for (const HloPrintOptions& options : {HloPrintOptions(), loud}) {
      std::string text = PrintModule(**module, options);
      auto again = ParseHloText(text, "again");
      ASSERT_TRUE(again.has_value()) << file << "\n" << again.error().ToString();
      EXPECT_TRUE(SameModule(**module, **again)) << file << "\n" << text.substr(0, 4000);
    }
  }
}

// What XLA's own parser refuses, this one refuses; every message names its place.
TEST(HloCorpus, WhatCannotBeReadIsRefusedWithItsPlace) {
  const char* corpus = std::getenv("KRAFLA_CORPUS");
  if (corpus == nullptr) GTEST_SKIP() << "KRAFLA_CORPUS is not set";
  auto root = std::filesystem::path(corpus) / "errors";
  std::string manifest = testing::ReadText(root / "manifest.json");
  // {"name":...,"file":"x.hlo",...,"expect":"error","xla":"parse",...} one a line.
  int refused = 0;
  for (const auto& file : testing::FilesBelow(root, ".hlo")) {
    std::string name = file.filename().string();
    auto at = manifest.find("\"file\":\"" + name + "\"");
    if (at == std::string::npos) at = manifest.find("\"file\": \"" + name + "\"");
    ASSERT_NE(at, std::string::npos) << name;
    std::string row = manifest.substr(manifest.rfind('\n', at) + 1, 4000);
    row = row.substr(0, row.find('\n'));
    auto module = ParseHloText(testing::ReadText(file), name);
    if (row.find("parse\"") != std::string::npos && row.find("\"error\"") != std::string::npos) {
      ++refused;
      EXPECT_FALSE(module.has_value()) << name << ": " << row.substr(0, 300);
    }
    if (module.has_value()) continue;
    EXPECT_EQ(module.error().message().substr(0, name.size() + 1), name + ":") << module.error().ToString();
    EXPECT_NE(module.error().message().find('^'), std::string::npos) << module.error().ToString();
  }
  EXPECT_GT(refused, 50);
}

}  // namespace
}  // namespace krafla
