// SPDX-License-Identifier: Apache-2.0
// Recorded programs, where the environment names them: KRAFLA_CORPUS (a corpus folder) and KRAFLA_MODELS (a folder of
// models). Every single-device case must give the recorded outputs within its own tolerance.
// recorded/corpus.h says what both hold.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "../recorded_case.h"
#include "ir/verifier.h"

namespace krafla {
namespace {

Result<> RunCase(const RecordedCase& c) {
  KRAFLA_ASSIGN(auto module, ReadModuleOf(c));
  KRAFLA_ASSIGN(VerifiedModule verified, VerifiedModule::Make(std::move(module)));
  KRAFLA_ASSIGN(RecordedArrays arrays, ReadArraysOf(c, verified.module()));
  KRAFLA_ASSIGN(RecordedRun run, RunRecorded(verified.module(), arrays));
  return CompareWithRecorded(run.result, arrays);
}

void RunAll(const std::string& path) {
  auto list = FindCases(path);
  ASSERT_TRUE(list) << list.error().ToString();
  struct Family {
    int passed = 0, failed = 0;
  };
  std::map<std::string, Family> families;
  int several = 0;
  for (const RecordedCase& c : list->cases) {
    if (c.replicas * c.partitions > 1) {
      ++several;
      continue;
    }
    if (!IsWanted(c)) continue;
    const auto start = std::chrono::steady_clock::now();
    Result<> result = RunCase(c);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    Family& family = families[c.name.substr(0, c.name.find('/'))];
    if (result) ++family.passed;
    else ++family.failed;
    if (!result) ADD_FAILURE() << c.name << ": " << result.error().ToString();
    if (seconds > 1) std::printf("%s took %.2f s\n", c.name.c_str(), seconds);
  }
  int passed = 0, failed = 0;
  for (const auto& [name, family] : families) {
    passed += family.passed;
    failed += family.failed;
    if (family.failed > 0) std::printf("%-30s %4d passed %4d failed\n", name.c_str(), family.passed, family.failed);
  }
  std::printf("%d passed, %d failed, %d for several devices not run\n", passed, failed, several);
  EXPECT_GT(passed, 0);
}

TEST(EvaluatorCorpus, Operations) {
  const char* corpus = std::getenv("KRAFLA_CORPUS");
  if (corpus == nullptr) GTEST_SKIP() << "KRAFLA_CORPUS is not set";
  RunAll(std::string(corpus) + "/ops");
}

TEST(EvaluatorCorpus, Models) {
  const char* models = std::getenv("KRAFLA_MODELS");
  if (models == nullptr) GTEST_SKIP() << "KRAFLA_MODELS is not set";
  RunAll(std::string(models) + "/tiny");
}

}  // namespace
}  // namespace krafla
