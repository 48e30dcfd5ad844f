// SPDX-License-Identifier: Apache-2.0
// What is the system's: memory, processors, files and processes as it has them. Only the files base/system*.cpp, one
// for each kind of system, include its headers; everything else of krafla goes through here or through the standard
// library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace krafla::os {

// Memory.
std::size_t PageBytes();
// What the system lets this process have of addresses and data; UINT64_MAX: no limit.
uint64_t MemoryLimit();
// Of the machine, with its swap; UINT64_MAX: not known here, but read from /proc by base/host_memory.cpp.
uint64_t MachineMemory();
// What the machine has left; UINT64_MAX: the same.
uint64_t FreeMemory();
// What this process has of the machine's memory now, and has had at most.
uint64_t ResidentBytes();
uint64_t PeakResidentBytes();

// Addresses behind which nothing lies yet; null where there are none. They are given back by Release.
void* ReservePages(std::size_t bytes);
void ReleasePages(void* address, std::size_t bytes);
// Of reserved pages: memory that can be written, then run; and nothing again.
bool MakeWritable(void* address, std::size_t bytes);
bool MakeExecutable(void* address, std::size_t bytes);
void MakeEmpty(void* address, std::size_t bytes);

// Asks for large pages where whole ones of kLargePageBytes lie in a block: their addresses stay in the processor's
// tables, and fewer interruptions give them. Nothing where the system has no such wish.
inline constexpr std::size_t kLargePageBytes = std::size_t{2} << 20;
void PreferLargePages(void* address, std::size_t bytes);

// The processors that the scheduler lets this process run on; 0: not known.
int AllowedProcessors();

// Whether a function of that name is loaded that every library of the process sees.
bool SeesSymbol(const char* name);
// Loads a library and leaves it loaded, so that it takes its own symbols before those of the process; nothing where the
// system cannot do that.
void LoadWithOwnSymbols(const std::string& library);

// Files. Descriptors are those of the system; -1: none, and errno says why.
enum class FileKind { kFile, kFolder, kPipe, kSocket, kDevice, kOther };
struct FileInfo {
  FileKind kind = FileKind::kOther;
  int64_t bytes = 0;
  bool is_mine = false;           // this user's
  bool others_may_write = false;  // anybody but this user
  double age_seconds = 0;         // since it was written
};
// Never waits for who writes to a pipe. `through_links`: not a link itself.
int OpenToRead(const std::string& path, bool through_links = true);
// A file that was not there, for this user only.
int CreateFile(const std::string& path);
void CloseFile(int descriptor);
bool Describe(int descriptor, FileInfo& info);
// `through_links`: what a link leads to.
bool DescribePath(const std::string& path, FileInfo& info, bool through_links = false);
// As read, pread and write; at most once interrupted by a signal they go on. -1: errno; kAgain: nothing is there yet.
inline constexpr int64_t kAgain = -2;
int64_t ReadSome(int descriptor, void* to, std::size_t bytes);
int64_t ReadSomeAt(int descriptor, void* to, std::size_t bytes, int64_t offset);
int64_t WriteSome(int descriptor, const void* from, std::size_t bytes);
// The first `bytes` of a file in memory, read as they are looked at; null where that cannot be.
const void* MapToRead(int descriptor, std::size_t bytes);
void Unmap(const void* data, std::size_t bytes);
// Until there is something to read or the writer is gone; false: `limit_ms` (-1: for ever) passed.
bool WaitToRead(int descriptor, int limit_ms);
// For this user only; true where it is there already.
bool MakePrivateFolder(const std::string& path);
// In one step, whatever is at `to`.
bool ReplaceFile(const std::string& from, const std::string& to);
bool RemoveFile(const std::string& path);
// Whether this user may make files in it.
bool MayWriteInto(const std::string& folder);
// A new folder for this user only, in the place for temporary files; empty: errno.
std::string MakeTemporaryFolder();
// Where files go that may be thrown away; empty: the environment names no place.
std::string CacheHome();

// Processes and people.
int ProcessId();
inline constexpr int kStandardInput = 0, kStandardOutput = 1, kStandardError = 2;
bool IsTerminal(int descriptor);
// "Linux 6.1.0 x86_64"
std::string Description();
std::string HostName();
// Empty where the user is one of the system's own, whose names are also words.
std::string UserName();
std::string UserHome();
// "NAME=value"
std::vector<std::string> Environment();
// Where this program is; empty: not known.
std::string ThisProgram();

struct Ended {
  bool started = false;
  int error = 0;      // errno where it was not
  int exit_code = 0;  // -1: ended by a signal
};
// Runs a program, looked for in PATH, to its end, with standard output and error in files.
Ended RunToEnd(const std::vector<std::string>& words, const std::string& out, const std::string& err);

}  // namespace krafla::os
