// SPDX-License-Identifier: Apache-2.0
// There are no programs over several processes on Windows: nothing of base/sockets.h is there.
#ifdef _WIN32
#include <cerrno>
#include <thread>

#include "base/sockets.h"

namespace krafla::os {
namespace {

int None() {
  errno = ENOSYS;
  return -1;
}

}  // namespace

int ListenOn(const std::string&, int, int) { return None(); }
int PortOf(int) { return -1; }
std::string OwnAddress(int) { return ""; }
std::vector<std::string> Addresses() { return {}; }
int ConnectTo(const std::string&, int, int) { return None(); }
int ListenLocally(const std::string&, int) { return None(); }
int ConnectLocally(const std::string&) { return None(); }
bool IsSameUser(int) { return false; }
int AcceptFrom(int, int) { return None(); }
int64_t SendSome(int, const void*, std::size_t) { return None(); }
int64_t ReceiveSome(int, void*, std::size_t) { return None(); }
bool SendAll(int, const void*, std::size_t, int) { return false; }
bool ReceiveAll(int, void*, std::size_t, int) { return false; }
bool SendDescriptor(int, int) { return false; }
int ReceiveDescriptor(int, int) { return None(); }
void PollAll(std::span<Polled>, int limit_ms) { std::this_thread::sleep_for(std::chrono::milliseconds(limit_ms)); }
bool MakePipe(int&, int&) { return false; }
int SharedMemory(std::size_t) { return None(); }
void* MapShared(int, std::size_t) { return nullptr; }
int Duplicate(int) { return None(); }
void WaitOnWord(const std::atomic<uint32_t>&, uint32_t, std::chrono::nanoseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
}
void WakeWord(const std::atomic<uint32_t>&) {}
std::string HostIdentity() { return ""; }
std::string BuildId() { return ""; }
bool RandomBytes(void*, std::size_t) { return false; }
void* LoadLibraryAt(const std::string&, std::string& error) {
  error = "libraries are not loaded on this system";
  return nullptr;
}
void* FindFunction(void*, const char*) { return nullptr; }
std::string ThisLibraryFolder() { return ""; }

}  // namespace krafla::os
#endif
