// SPDX-License-Identifier: Apache-2.0
#include "recorded/array_archive.h"

#include <algorithm>

namespace krafla {

ArrayArchive::ArrayArchive(File file) : file_(std::move(file)) {
  std::visit(
      [&](const auto& opened) {
        for (const auto& a : opened.arrays()) arrays_.push_back({a.name, a.shape});
      },
      file_);
}

Result<ArrayArchive> ArrayArchive::Open(const std::string& path) {
  KRAFLA_ASSIGN(const InputFile file, InputFile::Open(path));
  std::string begin(static_cast<std::size_t>(std::min<int64_t>(file.size(), 16)), '\0');
  if (!begin.empty()) KRAFLA_TRY(file.ReadAt(0, begin.data(), begin.size()));
  if (SafetensorsFile::IsOne(begin)) {
    KRAFLA_ASSIGN(SafetensorsFile opened, SafetensorsFile::Open(path));
    return ArrayArchive(std::move(opened));
  }
  KRAFLA_ASSIGN(NpzArchive opened, NpzArchive::Open(path));
  return ArrayArchive(std::move(opened));
}

Result<Literal> ArrayArchive::Read(std::size_t number) {
  return std::visit([&](auto& opened) { return opened.Read(number); }, file_);
}

}  // namespace krafla
