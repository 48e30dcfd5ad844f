// SPDX-License-Identifier: Apache-2.0
// What the system has between processes: connections, memory that several of them see, and words to wait on. As in
// base/system.h: descriptors are the system's, -1 is none, and errno says why. Nothing here waits but what says so.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace krafla::os {

using Clock = std::chrono::steady_clock;

// What is left until then, rounded up, as the limits below are given; never negative.
inline int MillisecondsUntil(Clock::time_point end, int at_most = 1 << 30) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, at_most));
}

// Listens on every address of this machine, or on that of `host`; port 0: any that is free.
int ListenOn(const std::string& host, int port, int backlog);
int PortOf(int descriptor);
// The numeric address that the other end of a connection sees of this machine; empty: not known.
std::string OwnAddress(int descriptor);
// Of this machine's interfaces, numeric, without those that only this machine reaches.
std::vector<std::string> Addresses();
// Waits until it is connected, refused, or `limit_ms` has passed.
int ConnectTo(const std::string& host, int port, int limit_ms);
// Among processes of one machine: a name that lies in no folder and is gone with its last descriptor. -1 where the
// system has no such names.
int ListenLocally(const std::string& name, int backlog);
int ConnectLocally(const std::string& name);
// Of a connection from ListenLocally: whether the other end is of the same user.
bool IsSameUser(int descriptor);
// Waits for at most `limit_ms`.
int AcceptFrom(int descriptor, int limit_ms);

// At least a byte, none where it would wait (kAgain of base/system.h), -1: the connection is broken. ReceiveSome: 0 at
// its end.
int64_t SendSome(int descriptor, const void* from, std::size_t bytes);
int64_t ReceiveSome(int descriptor, void* to, std::size_t bytes);
// All of it, waiting for at most `limit_ms`.
bool SendAll(int descriptor, const void* from, std::size_t bytes, int limit_ms);
bool ReceiveAll(int descriptor, void* to, std::size_t bytes, int limit_ms);
// A descriptor to a process of this machine; waits for at most `limit_ms`.
bool SendDescriptor(int connection, int descriptor);
int ReceiveDescriptor(int connection, int limit_ms);

struct Polled {
  int descriptor = -1;
  bool wants_to_write = false;
  bool can_read = false, can_write = false;  // what has come of it
};
// Waits until one of them can go on, or `limit_ms` has passed.
void PollAll(std::span<Polled> entries, int limit_ms);
// Two ends of a pipe, by which one thread ends another's PollAll. Reading and writing never wait.
bool MakePipe(int& read_end, int& write_end);

// Memory that has no name and that goes with the last process that maps it.
int SharedMemory(std::size_t bytes);
void* MapShared(int descriptor, std::size_t bytes);
int Duplicate(int descriptor);
// Waits while the word is `value`, for at most `limit`; the word may lie in shared memory.
void WaitOnWord(const std::atomic<uint32_t>& word, uint32_t value, std::chrono::nanoseconds limit);
void WakeWord(const std::atomic<uint32_t>& word);

// Processes for which this is the same can connect locally and share memory. Empty: with nobody.
std::string HostIdentity();
// What the linker has made of this program or library as a whole; empty: not known.
std::string BuildId();
bool RandomBytes(void* to, std::size_t bytes);

// A library of functions, loaded for good; null, and `error` says why.
void* LoadLibraryAt(const std::string& path, std::string& error);
void* FindFunction(void* library, const char* name);
// The folder that holds this library or program.
std::string ThisLibraryFolder();

}  // namespace krafla::os
