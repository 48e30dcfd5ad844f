// SPDX-License-Identifier: Apache-2.0
// Every recorded module is read. Without KRAFLA_CORPUS and KRAFLA_MODELS there is nothing to read.
#include <gtest/gtest.h>

#include "hlo_io/hlo_text/hlo_text.h"
#include "corpus_files.h"

namespace krafla {
namespace {

TEST(HloCorpus, EveryModuleIsRead) {
  auto files = testing::RecordedModules();
  if (files.empty()) GTEST_SKIP() << "neither KRAFLA_CORPUS nor KRAFLA_MODELS is set";
  for (const auto& file : files) {
    auto module = ParseHloText(testing::ReadText(file), file.filename().string());
    EXPECT_TRUE(module.has_value()) << file << "\n" << module.error().ToString();
  }
}

}  // namespace
}  // namespace krafla
