// SPDX-License-Identifier: Apache-2.0
#include "subprocess.h"

#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "base/system.h"

namespace krafla::cli {

Result<ScratchFolder> ScratchFolder::Make() {
  std::string path = os::MakeTemporaryFolder();
  if (path.empty()) return DataLoss("No folder for temporary files can be made.");
  return ScratchFolder(std::move(path));
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

Result<> RunProgram(const std::vector<std::string>& words, const std::string& out, const std::string& err) {
  const os::Ended ended = os::RunToEnd(words, out, err);
  if (!ended.started) return NotFound("'{}' cannot be started: {}.", words[0], std::strerror(ended.error));
  if (ended.exit_code == 0) return {};
  const auto said = ReadFile(err);
  std::string text = said ? *said : "";
  if (text.size() > 2000) text = text.substr(text.size() - 2000);
  Status failed_with =
      FailedPrecondition("'{}' failed: {}.", words[0],
                         ended.exit_code > 0 ? Format("exit code {}", ended.exit_code) : "ended by a signal")
          .error();
  return Failure(std::move(failed_with).WithContext("it said: " + text));
}

}  // namespace krafla::cli
