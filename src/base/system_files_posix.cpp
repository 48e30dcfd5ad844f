// SPDX-License-Identifier: Apache-2.0
// Files and processes: Linux, Android, macOS and others like them.
#ifndef _WIN32
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/system.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>

extern char** environ;

namespace krafla::os {
namespace {

FileInfo InfoOf(const struct stat& from) {
  FileInfo out;
  out.kind = S_ISREG(from.st_mode)                            ? FileKind::kFile
             : S_ISDIR(from.st_mode)                          ? FileKind::kFolder
             : S_ISFIFO(from.st_mode)                         ? FileKind::kPipe
             : S_ISSOCK(from.st_mode)                         ? FileKind::kSocket
             : S_ISCHR(from.st_mode) || S_ISBLK(from.st_mode) ? FileKind::kDevice
                                                              : FileKind::kOther;
  out.bytes = from.st_size;
  out.is_mine = from.st_uid == geteuid();
  out.others_may_write = (from.st_mode & (S_IWGRP | S_IWOTH)) != 0;
  out.age_seconds = std::difftime(std::time(nullptr), from.st_mtime);
  return out;
}

// Calls again what a signal interrupted.
template <typename Call>
int64_t Uninterrupted(Call call) {
  int64_t out = -1;
  do out = call();
  while (out < 0 && errno == EINTR);
  return out < 0 && errno == EAGAIN ? kAgain : out;
}

}  // namespace

int OpenToRead(const std::string& path, bool through_links) {
  // Without O_NONBLOCK a pipe would keep the call until somebody writes to it.
  return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | (through_links ? 0 : O_NOFOLLOW));
}
int CreateFile(const std::string& path) {
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
}
void CloseFile(int descriptor) { ::close(descriptor); }

bool Describe(int descriptor, FileInfo& info) {
  struct stat from;
  if (::fstat(descriptor, &from) != 0) return false;
  info = InfoOf(from);
  return true;
}
bool DescribePath(const std::string& path, FileInfo& info, bool through_links) {
  struct stat from;
  if ((through_links ? ::stat(path.c_str(), &from) : ::lstat(path.c_str(), &from)) != 0) return false;
  info = InfoOf(from);
  return true;
}

int64_t ReadSome(int descriptor, void* to, std::size_t bytes) {
  return Uninterrupted([&] { return ::read(descriptor, to, bytes); });
}
int64_t ReadSomeAt(int descriptor, void* to, std::size_t bytes, int64_t offset) {
  return Uninterrupted([&] { return ::pread(descriptor, to, bytes, offset); });
}
int64_t WriteSome(int descriptor, const void* from, std::size_t bytes) {
  return Uninterrupted([&] { return ::write(descriptor, from, bytes); });
}
bool WaitToRead(int descriptor, int limit_ms) {
  pollfd waiting = {descriptor, POLLIN, 0};
  return ::poll(&waiting, 1, limit_ms) != 0;
}

bool MakePrivateFolder(const std::string& path) { return ::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST; }
bool ReplaceFile(const std::string& from, const std::string& to) { return ::rename(from.c_str(), to.c_str()) == 0; }
bool RemoveFile(const std::string& path) { return ::unlink(path.c_str()) == 0; }
bool MayWriteInto(const std::string& folder) { return ::access(folder.c_str(), W_OK | X_OK) == 0; }

std::string MakeTemporaryFolder() {
  std::error_code error;
  std::string path = (std::filesystem::temp_directory_path(error) / "krafla-XXXXXX").string();
  if (error || ::mkdtemp(path.data()) == nullptr) return "";
  return path;
}

Ended RunToEnd(const std::vector<std::string>& words, const std::string& out, const std::string& err) {
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&files, 1, out.c_str(), kFlags, 0600);
  posix_spawn_file_actions_addopen(&files, 2, err.c_str(), kFlags, 0600);
  pid_t child = 0;
  Ended ended;
  ended.error = posix_spawnp(&child, argv[0], &files, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  ended.started = ended.error == 0;
  if (!ended.started) return ended;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  ended.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ended;
}

}  // namespace krafla::os
#endif
