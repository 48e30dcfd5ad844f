// SPDX-License-Identifier: Apache-2.0
// Weights as the safetensors format has them (github.com/huggingface/safetensors): the length of a JSON header, the
// header, and dense row-major arrays, little-endian. What a file says of itself is checked before anything is
// allocated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "krafla/literal.h"
#include "krafla/status.h"

namespace krafla {

class SafetensorsFile {
 public:
  struct Array {
    std::string name;
    Shape shape;
    int64_t offset = 0;  // of its bytes in the file
  };

  // Whether the first bytes are those of such a file.
  static bool IsOne(std::string_view begin);
  static Result<SafetensorsFile> Open(const std::string& path);

  // As they lie one behind the other.
  const std::vector<Array>& arrays() const { return arrays_; }
  Result<Literal> Read(std::size_t number) const;

 private:
  SafetensorsFile(std::string path, InputFile file) : path_(std::move(path)), file_(std::move(file)) {}
  Result<> ReadHeader();

  std::string path_;
  InputFile file_;
  std::vector<Array> arrays_;
};

}  // namespace krafla
