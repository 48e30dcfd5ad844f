// SPDX-License-Identifier: Apache-2.0
// Other programs, and a place for their files.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "krafla/status.h"

namespace krafla::cli {

// A folder of its own, which goes with it.
class ScratchFolder {
 public:
  static Result<ScratchFolder> Make();
  ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ~ScratchFolder();
  std::string File(std::string_view name) const { return Format("{}/{}", path_, name); }

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Runs a program, which is looked for in PATH, to its end, with standard output and error in files. NOT_FOUND where it
// cannot be started, FAILED_PRECONDITION with the end of what it said where it fails.
Result<> RunProgram(const std::vector<std::string>& words, const std::string& out, const std::string& err);

}  // namespace krafla::cli
