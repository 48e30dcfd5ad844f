// SPDX-License-Identifier: Apache-2.0
// Named arrays in one file, of either kind: NumPy's .npz or safetensors, told apart by their bytes.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "recorded/npz.h"
#include "recorded/safetensors.h"

namespace krafla {

class ArrayArchive {
 public:
  using Array = NpzArchive::Array;

  static Result<ArrayArchive> Open(const std::string& path);

  const std::vector<Array>& arrays() const { return arrays_; }
  Result<Literal> Read(std::size_t number);

 private:
  using File = std::variant<NpzArchive, SafetensorsFile>;
  explicit ArrayArchive(File file);

  File file_;
  std::vector<Array> arrays_;
};

}  // namespace krafla
