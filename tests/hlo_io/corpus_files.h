// SPDX-License-Identifier: Apache-2.0
// The recorded modules that KRAFLA_CORPUS and KRAFLA_MODELS name, for tests over all of them.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace krafla::testing {

inline std::string ReadText(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline std::vector<std::filesystem::path> FilesBelow(const std::filesystem::path& root, const std::string& extension) {
  std::vector<std::filesystem::path> out;
  std::error_code error;
  for (auto it = std::filesystem::recursive_directory_iterator(root, error);
       it != std::filesystem::recursive_directory_iterator(); it.increment(error))
    if (it->path().extension() == extension) out.push_back(it->path());
  std::sort(out.begin(), out.end());
  return out;
}

// KRAFLA_CORPUS holds ops/ and errors/, KRAFLA_MODELS a folder a model (or tiny/ with them).
inline std::vector<std::filesystem::path> RecordedModules() {
  std::vector<std::filesystem::path> out;
  if (const char* corpus = std::getenv("KRAFLA_CORPUS"))
    out = FilesBelow(std::filesystem::path(corpus) / "ops", ".hlo");
  if (const char* models = std::getenv("KRAFLA_MODELS"))
    for (auto& file : FilesBelow(models, ".hlo")) out.push_back(file);
  return out;
}

}  // namespace krafla::testing
