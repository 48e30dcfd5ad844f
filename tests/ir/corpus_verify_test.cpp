// SPDX-License-Identifier: Apache-2.0
// Recorded programs, where the environment names them: KRAFLA_CORPUS (ops/*/*.hlo must verify, errors/*.hlo must be
// refused) and KRAFLA_MODELS (tiny/*/module*.hlo must verify). recorded/corpus.h says what both hold.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "ir/verifier.h"

namespace krafla {
namespace {

namespace fs = std::filesystem;

Result<> ReadAndVerify(const fs::path& path) {
  KRAFLA_ASSIGN(const std::string text, ReadFile(path.string()));
  KRAFLA_ASSIGN(auto module, ParseHloText(text, path.filename().string()));
  KRAFLA_TRY(Verify(*module));
  // What verifies once verifies again: sorting and checking change nothing that they look at.
  return Verify(*module);
}

// Files `folder`/*/NAME.hlo whose NAME begins with `stem`, sorted.
std::vector<fs::path> Find(const fs::path& folder, const std::string& stem) {
  std::vector<fs::path> out;
  for (const auto& sub : fs::directory_iterator(folder)) {
    if (!sub.is_directory()) continue;
    for (const auto& file : fs::directory_iterator(sub))
      if (file.path().extension() == ".hlo" && file.path().filename().string().starts_with(stem))
        out.push_back(file.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

void AllVerify(const std::vector<fs::path>& files) {
  int failed = 0;
  for (const fs::path& file : files) {
    auto ok = ReadAndVerify(file);
    if (ok) continue;
    ++failed;
    ADD_FAILURE() << file.string() << ": " << ok.error().ToString();
    if (failed > 40) break;
  }
  ::testing::Test::RecordProperty("files", static_cast<int>(files.size()));
  EXPECT_GT(files.size(), 0u);
}

TEST(CorpusVerify, Operations) {
  const char* corpus = std::getenv("KRAFLA_CORPUS");
  if (corpus == nullptr) GTEST_SKIP() << "KRAFLA_CORPUS is not set";
  AllVerify(Find(fs::path(corpus) / "ops", ""));
}

TEST(CorpusVerify, Models) {
  const char* models = std::getenv("KRAFLA_MODELS");
  if (models == nullptr) GTEST_SKIP() << "KRAFLA_MODELS is not set";
  AllVerify(Find(fs::path(models) / "tiny", "module"));
}

// The value of a string member of a one-line JSON object.
std::string Member(const std::string& line, const std::string& name) {
  std::size_t at = line.find("\"" + name + "\":");
  if (at == std::string::npos) return "";
  std::size_t open = line.find('"', at + name.size() + 3);
  std::size_t close = line.find('"', open + 1);
  return line.substr(open + 1, close - open - 1);
}

TEST(CorpusVerify, Errors) {
  const char* corpus = std::getenv("KRAFLA_CORPUS");
  if (corpus == nullptr) GTEST_SKIP() << "KRAFLA_CORPUS is not set";
  fs::path folder = fs::path(corpus) / "errors";
  std::ifstream manifest(folder / "manifest.json");
  int refused = 0, free = 0;
  for (std::string line; std::getline(manifest, line);) {
    std::string file = Member(line, "file"), expect = Member(line, "expect");
    if (!file.ends_with(".hlo")) continue;
    // Which custom calls exist is known when a module is compiled for a client, not here.
    if (file == "unknown_custom_call.hlo") continue;
    auto ok = ReadAndVerify(folder / file);
    if (expect == "any") {
      ++free;
      continue;
    }
    if (ok) {
      ADD_FAILURE() << file << " was accepted: " << Member(line, "reason");
      continue;
    }
    EXPECT_GT(ok.error().message().size(), 10u) << file;
    EXPECT_NE(ok.error().code(), StatusCode::kInternal) << file << ": " << ok.error().message();
    if (std::getenv("KRAFLA_VERBOSE") != nullptr) std::cerr << file << ": " << ok.error().ToString() << "\n";
    ++refused;
  }
  RecordProperty("refused", refused);
  RecordProperty("free", free);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace krafla
