// SPDX-License-Identifier: Apache-2.0
#include "subprocess.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/file.h"

extern char** environ;

namespace krafla::cli {

Result<ScratchFolder> ScratchFolder::Make() {
  std::error_code error;
  std::string path = (std::filesystem::temp_directory_path(error) / "krafla-XXXXXX").string();
  if (error || mkdtemp(path.data()) == nullptr) return DataLoss("No folder for temporary files can be made.");
  return ScratchFolder(std::move(path));
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

Result<> RunProgram(const std::vector<std::string>& words, const std::string& out, const std::string& err) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&files, 1, out.c_str(), kFlags, 0600);
  posix_spawn_file_actions_addopen(&files, 2, err.c_str(), kFlags, 0600);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, argv[0], &files, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (failed != 0) return NotFound("'{}' cannot be started: {}.", words[0], std::strerror(failed));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  const auto said = ReadFile(err);
  std::string text = said ? *said : "";
  if (text.size() > 2000) text = text.substr(text.size() - 2000);
  Status failed_with =
      FailedPrecondition("'{}' failed: {}.", words[0],
                         WIFEXITED(status) ? Format("exit code {}", WEXITSTATUS(status)) : "ended by a signal")
          .error();
  return Failure(std::move(failed_with).WithContext("it said: " + text));
}

}  // namespace krafla::cli
