// SPDX-License-Identifier: Apache-2.0
// Recorded programs written as StableHLO, as text and as bytecode, and read again: they have to give the recorded
// outputs still. tests/models and tests/regress always; more where the environment names it (KRAFLA_CORPUS,
// KRAFLA_MODELS). What StableHLO has no form for is counted, by its reason.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "../recorded_case.h"
#include "base/file.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "hlo_io/read_module.h"
#include "hlo_io/write_stablehlo.h"
#include "ir/builder.h"
#include "ir/verifier.h"

namespace krafla {
namespace {

struct Form {
  const char* name;
  Result<std::string> (*write)(const Module&);
};
constexpr Form kForms[] = {{"module.mlir", &WriteStablehloText}, {"module.mlirbc", &WriteStablehloBytecode}};

Result<std::unique_ptr<Module>> Again(const Module& module, const Form& form) {
  KRAFLA_ASSIGN(const std::string bytes, form.write(module));
  auto read = ReadModule(bytes, form.name);
  if (!read) return Failure(Status(StatusCode::kInternal, read.error().ToString()));
  if (auto verified = Verify(**read); !verified)
    return Failure(Status(StatusCode::kInternal, verified.error().ToString()));
  return read;
}

// A second round trip is as good as the first: it takes and gives the same. Instructions may be added, such as the
// shape that StableHLO's rng takes as an operand and HLO's does not.
Result<> CheckStable(const Module& module, const Form& form) {
  KRAFLA_ASSIGN(const auto second, Again(module, form));
  KRAFLA_ASSIGN(const auto third, Again(*second, form));
  const ComputationSignature before = SignatureOf(*second->entry()), after = SignatureOf(*third->entry());
  bool same = Shape::Compatible(before.result, after.result) && before.parameters.size() == after.parameters.size();
  for (std::size_t p = 0; same && p < before.parameters.size(); ++p)
    same = Shape::Compatible(before.parameters[p], after.parameters[p]);
  if (!same) return DataLoss("another round trip gives a program of other arguments or results");
  return {};
}

Result<> RunAgain(const RecordedCase& c, const Module& module, const Form& form) {
  KRAFLA_ASSIGN(auto again, Again(module, form));
  KRAFLA_TRY(CheckStable(module, form));
  if (c.replicas * c.partitions > 1) return {};
  KRAFLA_ASSIGN(VerifiedModule verified, VerifiedModule::Make(std::move(again)));
  KRAFLA_ASSIGN(RecordedArrays arrays, ReadArraysOf(c, verified.module()));
  KRAFLA_ASSIGN(RecordedRun run, RunRecorded(verified.module(), arrays));
  return CompareWithRecorded(run.result, arrays);
}

void RunForms(const std::string& path) {
  auto list = FindCases(path);
  ASSERT_TRUE(list) << list.error().ToString();
  for (const Form& form : kForms) {
    int passed = 0, failed = 0;
    std::map<std::string, int> refused;
    for (const RecordedCase& c : list->cases) {
      if (!IsWanted(c)) continue;
      auto module = ReadModuleOf(c);
      ASSERT_TRUE(module) << c.name << ": " << module.error().ToString();
      ASSERT_TRUE(Verify(**module)) << c.name;
      const Result<> result = RunAgain(c, **module, form);
      if (result) {
        ++passed;
      } else if (result.error().code() == StatusCode::kUnimplemented) {
        ++refused[result.error().message().substr(result.error().message().find(": ") + 1)];
      } else {
        ++failed;
        ADD_FAILURE() << form.name << " of " << c.name << ": " << result.error().ToString();
      }
    }
    for (const auto& [reason, count] : refused) std::printf("%4d refused:%s\n", count, reason.c_str());
    std::printf("%s: %d passed, %d failed\n", form.name, passed, failed);
    EXPECT_GT(passed, 0);
  }
}

TEST(StablehloRoundTrip, ModelsOfTheTests) { RunForms(std::string(KRAFLA_SOURCE_DIR) + "/tests/models"); }

// Modules without recorded outputs: what is read again is verified.
TEST(StablehloRoundTrip, RegressedModules) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(KRAFLA_SOURCE_DIR) + "/tests/regress")) {
    if (entry.path().extension() != ".hlo") continue;
    auto text = ReadFile(entry.path().string());
    ASSERT_TRUE(text);
    auto module = ParseHloText(*text, entry.path().filename().string());
    ASSERT_TRUE(module && Verify(**module)) << entry.path();
    for (const Form& form : kForms) {
      const Result<> stable = CheckStable(**module, form);
      EXPECT_TRUE(stable) << entry.path() << " as " << form.name << ": " << stable.error().ToString();
      ++count;
    }
  }
  EXPECT_GT(count, 0);
}

TEST(StablehloRoundTrip, Operations) {
  const char* corpus = std::getenv("KRAFLA_CORPUS");
  if (corpus == nullptr) GTEST_SKIP() << "KRAFLA_CORPUS is not set";
  RunForms(std::string(corpus) + "/ops");
}

TEST(StablehloRoundTrip, Models) {
  const char* models = std::getenv("KRAFLA_MODELS");
  if (models == nullptr) GTEST_SKIP() << "KRAFLA_MODELS is not set";
  RunForms(std::string(models) + "/tiny");
}

}  // namespace
}  // namespace krafla
