// SPDX-License-Identifier: Apache-2.0
// Windows. Paths are in the process's code page, as main() gets them.
#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>
// After windows.h.
#include <psapi.h>
#undef CreateFile
#undef ReplaceFile

#include <direct.h>
#include <fcntl.h>
#include <io.h>
#include <process.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <limits>

#include "base/system.h"

namespace krafla::os {
namespace {

PROCESS_MEMORY_COUNTERS MemoryCounters() {
  PROCESS_MEMORY_COUNTERS out = {};
  out.cb = sizeof(out);
  K32GetProcessMemoryInfo(GetCurrentProcess(), &out, sizeof(out));
  return out;
}

MEMORYSTATUSEX MemoryStatus() {
  MEMORYSTATUSEX out = {};
  out.dwLength = sizeof(out);
  GlobalMemoryStatusEx(&out);
  return out;
}

FileInfo InfoOf(const struct _stat64& from) {
  FileInfo out;
  out.kind = (from.st_mode & _S_IFREG) != 0   ? FileKind::kFile
             : (from.st_mode & _S_IFDIR) != 0 ? FileKind::kFolder
             : (from.st_mode & _S_IFCHR) != 0 ? FileKind::kDevice
                                              : FileKind::kPipe;
  out.bytes = from.st_size;
  // The user's own folders have access lists that they inherit; there is no owner to compare here.
  out.is_mine = true;
  out.age_seconds = std::difftime(std::time(nullptr), from.st_mtime);
  return out;
}

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

unsigned int Bounded(std::size_t bytes) { return static_cast<unsigned int>(std::min<std::size_t>(bytes, 1 << 30)); }

// As CommandLineToArgvW takes it apart again.
std::string Quoted(const std::string& word) {
  if (!word.empty() && word.find_first_of(" \t\"") == std::string::npos) return word;
  std::string out = "\"";
  std::size_t slashes = 0;
  for (char c : word) {
    if (c == '"') out.append(slashes + 1, '\\');
    slashes = c == '\\' ? slashes + 1 : 0;
    out += c;
  }
  out.append(slashes, '\\');
  return out + "\"";
}

HANDLE FileForOutput(const std::string& path) {
  SECURITY_ATTRIBUTES inherited = {sizeof(inherited), nullptr, TRUE};
  return CreateFileA(path.c_str(), GENERIC_WRITE, FILE_SHARE_READ, &inherited, CREATE_ALWAYS, FILE_ATTRIBUTE_NORMAL,
                     nullptr);
}

}  // namespace

std::size_t PageBytes() {
  SYSTEM_INFO info;
  GetSystemInfo(&info);
  return info.dwPageSize;
}
uint64_t MemoryLimit() { return std::numeric_limits<uint64_t>::max(); }
uint64_t MachineMemory() { return MemoryStatus().ullTotalPageFile; }
uint64_t FreeMemory() { return MemoryStatus().ullAvailPageFile; }
uint64_t ResidentBytes() { return MemoryCounters().WorkingSetSize; }
uint64_t PeakResidentBytes() { return MemoryCounters().PeakWorkingSetSize; }

void* ReservePages(std::size_t bytes) { return VirtualAlloc(nullptr, bytes, MEM_RESERVE, PAGE_NOACCESS); }
void ReleasePages(void* address, std::size_t) { VirtualFree(address, 0, MEM_RELEASE); }
bool MakeWritable(void* address, std::size_t bytes) {
  return VirtualAlloc(address, bytes, MEM_COMMIT, PAGE_READWRITE) != nullptr;
}
bool MakeExecutable(void* address, std::size_t bytes) {
  DWORD before = 0;
  return VirtualProtect(address, bytes, PAGE_EXECUTE_READ, &before) != 0 &&
         FlushInstructionCache(GetCurrentProcess(), address, bytes) != 0;
}
void MakeEmpty(void* address, std::size_t bytes) { VirtualFree(address, bytes, MEM_DECOMMIT); }

const void* MapToRead(int descriptor, std::size_t bytes) {
  const auto file = reinterpret_cast<HANDLE>(_get_osfhandle(descriptor));
  const HANDLE mapping = CreateFileMappingA(file, nullptr, PAGE_READONLY, 0, 0, nullptr);
  if (mapping == nullptr) return nullptr;
  const void* data = MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, bytes);
  CloseHandle(mapping);  // the view keeps it
  return data;
}
void Unmap(const void* data, std::size_t) { UnmapViewOfFile(data); }

// Large pages are for those who may lock memory.
void PreferLargePages(void*, std::size_t) {}

int AllowedProcessors() {
  DWORD_PTR process = 0, machine = 0;
  if (GetProcessAffinityMask(GetCurrentProcess(), &process, &machine) == 0) return 0;
  int out = 0;
  for (; process != 0; process &= process - 1) ++out;
  return out;
}

// Libraries of Windows never see each other's symbols by name alone.
bool SeesSymbol(const char*) { return false; }
void LoadWithOwnSymbols(const std::string&) {}

int OpenToRead(const std::string& path, bool) { return _open(path.c_str(), _O_RDONLY | _O_BINARY | _O_NOINHERIT); }
int CreateFile(const std::string& path) {
  return _open(path.c_str(), _O_WRONLY | _O_CREAT | _O_EXCL | _O_BINARY | _O_NOINHERIT, _S_IREAD | _S_IWRITE);
}
void CloseFile(int descriptor) { _close(descriptor); }
bool Describe(int descriptor, FileInfo& info) {
  struct _stat64 from;
  if (_fstat64(descriptor, &from) != 0) return false;
  info = InfoOf(from);
  return true;
}
bool DescribePath(const std::string& path, FileInfo& info, bool) {
  struct _stat64 from;
  if (_stat64(path.c_str(), &from) != 0) return false;
  info = InfoOf(from);
  return true;
}
int64_t ReadSome(int descriptor, void* to, std::size_t bytes) { return _read(descriptor, to, Bounded(bytes)); }
int64_t ReadSomeAt(int descriptor, void* to, std::size_t bytes, int64_t offset) {
  const auto file = reinterpret_cast<HANDLE>(_get_osfhandle(descriptor));
  OVERLAPPED at = {};
  at.Offset = static_cast<DWORD>(offset);
  at.OffsetHigh = static_cast<DWORD>(offset >> 32);
  DWORD got = 0;
  if (ReadFile(file, to, Bounded(bytes), &got, &at) != 0) return got;
  if (GetLastError() == ERROR_HANDLE_EOF) return 0;
  errno = EIO;
  return -1;
}
int64_t WriteSome(int descriptor, const void* from, std::size_t bytes) {
  return _write(descriptor, from, Bounded(bytes));
}
// Reads wait by themselves.
bool WaitToRead(int, int) { return true; }

bool MakePrivateFolder(const std::string& path) { return _mkdir(path.c_str()) == 0 || errno == EEXIST; }
bool ReplaceFile(const std::string& from, const std::string& to) {
  return MoveFileExA(from.c_str(), to.c_str(), MOVEFILE_REPLACE_EXISTING) != 0;
}
bool RemoveFile(const std::string& path) { return DeleteFileA(path.c_str()) != 0; }
bool MayWriteInto(const std::string& folder) { return _access(folder.c_str(), 2) == 0; }

std::string MakeTemporaryFolder() {
  static std::atomic<unsigned> number = 0;
  std::error_code error;
  const std::filesystem::path place = std::filesystem::temp_directory_path(error);
  if (error) return "";
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const std::string path =
        (place / ("krafla-" + std::to_string(ProcessId()) + "-" + std::to_string(number++))).string();
    if (_mkdir(path.c_str()) == 0) return path;
    if (errno != EEXIST) return "";
  }
  return "";
}

std::string CacheHome() { return Variable("LOCALAPPDATA"); }

int ProcessId() { return static_cast<int>(GetCurrentProcessId()); }
bool IsTerminal(int descriptor) { return _isatty(descriptor) != 0; }
std::string Description() { return "Windows " + Variable("PROCESSOR_ARCHITECTURE"); }
std::string HostName() { return Variable("COMPUTERNAME"); }
std::string UserName() { return Variable("USERNAME"); }
std::string UserHome() { return Variable("USERPROFILE"); }

std::vector<std::string> Environment() {
  std::vector<std::string> out;
  char* const all = GetEnvironmentStringsA();
  for (const char* at = all; at != nullptr && *at != '\0'; at += out.back().size() + 1) out.emplace_back(at);
  if (all != nullptr) FreeEnvironmentStringsA(all);
  return out;
}

std::string ThisProgram() {
  char path[MAX_PATH] = {};
  return GetModuleFileNameA(nullptr, path, sizeof(path)) > 0 ? path : "";
}

Ended RunToEnd(const std::vector<std::string>& words, const std::string& out, const std::string& err) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + Quoted(word);
  STARTUPINFOA start = {};
  start.cb = sizeof(start);
  start.dwFlags = STARTF_USESTDHANDLES;
  start.hStdInput = GetStdHandle(STD_INPUT_HANDLE);
  start.hStdOutput = FileForOutput(out);
  start.hStdError = FileForOutput(err);
  PROCESS_INFORMATION child = {};
  Ended ended;
  ended.started =
      CreateProcessA(nullptr, line.data(), nullptr, nullptr, TRUE, 0, nullptr, nullptr, &start, &child) != 0;
  if (!ended.started) ended.error = GetLastError() == ERROR_FILE_NOT_FOUND ? ENOENT : EINVAL;
  for (HANDLE file : {start.hStdOutput, start.hStdError})
    if (file != INVALID_HANDLE_VALUE) CloseHandle(file);
  if (!ended.started) return ended;
  WaitForSingleObject(child.hProcess, INFINITE);
  DWORD code = 0;
  GetExitCodeProcess(child.hProcess, &code);
  ended.exit_code = static_cast<int>(code);
  CloseHandle(child.hThread);
  CloseHandle(child.hProcess);
  return ended;
}

}  // namespace krafla::os
#endif
