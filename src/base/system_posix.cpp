// SPDX-License-Identifier: Apache-2.0
// Memory, processors and what there is to know of the system: Linux, Android, macOS and others like them.
#ifndef _WIN32
#include <dlfcn.h>
#include <pwd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/system.h"
#ifdef __linux__
#include <sched.h>
#endif
#ifdef __APPLE__
#include <mach-o/dyld.h>
#endif

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string_view>

extern char** environ;

namespace krafla::os {

std::size_t PageBytes() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

uint64_t MemoryLimit() {
  uint64_t limit = std::numeric_limits<uint64_t>::max();
  rlimit r{};
  if (getrlimit(RLIMIT_AS, &r) == 0 && r.rlim_cur != RLIM_INFINITY) limit = std::min<uint64_t>(limit, r.rlim_cur);
  if (getrlimit(RLIMIT_DATA, &r) == 0 && r.rlim_cur != RLIM_INFINITY) limit = std::min<uint64_t>(limit, r.rlim_cur);
  return limit;
}

uint64_t MachineMemory() { return std::numeric_limits<uint64_t>::max(); }
uint64_t FreeMemory() { return std::numeric_limits<uint64_t>::max(); }

uint64_t ResidentBytes() {
  // "size resident ..", in pages.
  unsigned long long size = 0, resident = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  const int read = std::fscanf(file, "%llu %llu", &size, &resident);
  std::fclose(file);
  return read == 2 ? static_cast<uint64_t>(resident) * PageBytes() : 0;
}

uint64_t PeakResidentBytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
#ifdef __APPLE__
  return static_cast<uint64_t>(usage.ru_maxrss);
#else
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
#endif
}

void* ReservePages(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}
void ReleasePages(void* address, std::size_t bytes) { munmap(address, bytes); }
bool MakeWritable(void* address, std::size_t bytes) { return mprotect(address, bytes, PROT_READ | PROT_WRITE) == 0; }
bool MakeExecutable(void* address, std::size_t bytes) { return mprotect(address, bytes, PROT_READ | PROT_EXEC) == 0; }
void MakeEmpty(void* address, std::size_t bytes) {
  // Fresh pages in their place: the memory goes back, and what was there can run no more.
  mmap(address, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

const void* MapToRead(int descriptor, std::size_t bytes) {
  const void* data = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
  return data == MAP_FAILED ? nullptr : data;
}
void Unmap(const void* data, std::size_t bytes) { munmap(const_cast<void*>(data), bytes); }

void PreferLargePages([[maybe_unused]] void* address, [[maybe_unused]] std::size_t bytes) {
#ifdef MADV_HUGEPAGE
  const auto begin = reinterpret_cast<std::uintptr_t>(address), mask = kLargePageBytes - 1;
  const std::uintptr_t first = (begin + mask) & ~mask, end = (begin + bytes) & ~mask;
  // A system without them refuses, and gives small ones.
  if (first < end) (void)madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
#endif
}

int AllowedProcessors() {
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
#endif
  return 0;
}

bool SeesSymbol(const char* name) { return dlsym(RTLD_DEFAULT, name) != nullptr; }

void LoadWithOwnSymbols([[maybe_unused]] const std::string& library) {
// The sanitizers' runtimes end the process at RTLD_DEEPBIND, and musl and others have no such flag.
#if defined(RTLD_DEEPBIND) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL | RTLD_DEEPBIND);
#endif
}

int ProcessId() { return static_cast<int>(getpid()); }
bool IsTerminal(int descriptor) { return isatty(descriptor) != 0; }

std::string Description() {
  utsname name = {};
  if (uname(&name) != 0) return "";
  return std::string(name.sysname) + " " + name.release + " " + name.machine;
}

std::string HostName() {
  char host[256] = {};
  return gethostname(host, sizeof(host) - 1) == 0 ? host : "";
}

std::string UserName() {
  constexpr uid_t kFirstPerson = 1000;
  const passwd* user = getpwuid(geteuid());
  return user != nullptr && user->pw_name != nullptr && user->pw_uid >= kFirstPerson ? user->pw_name : "";
}

std::string UserHome() {
  const passwd* user = getpwuid(geteuid());
  return user != nullptr && user->pw_dir != nullptr ? user->pw_dir : "";
}

std::vector<std::string> Environment() {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) out.emplace_back(*entry);
  return out;
}

std::string ThisProgram() {
#ifdef __APPLE__
  char path[PATH_MAX];
  uint32_t size = sizeof(path);
  return _NSGetExecutablePath(path, &size) == 0 ? path : "";
#else
  return "/proc/self/exe";
#endif
}

std::string CacheHome() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  // The XDG specification: a relative path is to be ignored.
  if (std::string dir = variable("XDG_CACHE_HOME"); dir.starts_with('/')) return dir;
  if (std::string dir = variable("HOME"); dir.starts_with('/')) return dir + "/.cache";
  return "";
}

}  // namespace krafla::os
#endif
