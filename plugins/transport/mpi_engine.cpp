// SPDX-License-Identifier: Apache-2.0
// MPI, whichever this was built for. Its functions are called by one thread at a time: not every MPI allows more. A
// wait asks, and sleeps longer each time that nothing has come, so that nobody spins while others compute.
#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "transport/engine_abi.h"

struct krafla_engine {
  std::atomic<bool> is_aborted = false;
};
struct krafla_engine_request {
  std::vector<MPI_Request> parts;  // MPI counts in int
};

namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 30;
std::mutex calls;

int Fail(krafla_engine_error* error, const char* what, int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int size = 0;
  if (code != MPI_SUCCESS) MPI_Error_string(code, text, &size);
  std::snprintf(error->text, sizeof(error->text), "%s%s%.*s", what, size > 0 ? ": " : "", size, text);
  return -1;
}

int Identify(int* rank, int* size, krafla_engine_error* error) {
  const std::lock_guard lock(calls);
  int is_initialized = 0, level = 0;
  MPI_Initialized(&is_initialized);
  if (is_initialized == 0) {
    const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level);
    if (code != MPI_SUCCESS) return Fail(error, "MPI cannot be initialized", code);
  } else {
    MPI_Query_thread(&level);
  }
  if (level < MPI_THREAD_SERIALIZED) return Fail(error, "this MPI allows calls of one thread only", MPI_SUCCESS);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, rank);
  MPI_Comm_size(MPI_COMM_WORLD, size);
  return 0;
}

int AllGather(const void* own, std::size_t bytes, void* all, krafla_engine_error* error) {
  const std::lock_guard lock(calls);
  const int code =
      MPI_Allgather(own, static_cast<int>(bytes), MPI_BYTE, all, static_cast<int>(bytes), MPI_BYTE, MPI_COMM_WORLD);
  return code == MPI_SUCCESS ? 0 : Fail(error, "MPI_Allgather failed", code);
}

krafla_engine* Open(int, int, const char*, const krafla_engine_store*, int, krafla_engine_error* error) {
  int is_initialized = 0;
  MPI_Initialized(&is_initialized);
  if (is_initialized == 0) {
    Fail(error, "the processes were not started by mpirun", MPI_SUCCESS);
    return nullptr;
  }
  return new krafla_engine;
}

// Messages of one tag keep their order, and the slots of two devices are one number each.
int TagOf(uint64_t slot) {
  const uint64_t pair = (slot >> 24 & 0xffffff) * 4099 + (slot & 0xffffff);
  return static_cast<int>(pair % 32749);  // what every MPI has; equal tags of two pairs of one rank keep to their order
}

template <typename Begin>
krafla_engine_request* InParts(std::size_t bytes, const char* what, krafla_engine_error* error, Begin begin) {
  const std::lock_guard lock(calls);
  auto* out = new krafla_engine_request;
  std::size_t done = 0;
  do {
    const std::size_t some = std::min(kMostBytes, bytes - done);
    const int code = begin(done, static_cast<int>(some), &out->parts.emplace_back());
    if (code != MPI_SUCCESS) {
      Fail(error, what, code);
      delete out;
      return nullptr;
    }
    done += some;
  } while (done < bytes);
  return out;
}

krafla_engine_request* Send(krafla_engine*, int rank, uint64_t slot, const void* from, std::size_t bytes,
                            krafla_engine_error* error) {
  return InParts(bytes, "MPI_Isend failed", error, [&](std::size_t at, int count, MPI_Request* request) {
    return MPI_Isend(static_cast<const char*>(from) + at, count, MPI_BYTE, rank, TagOf(slot), MPI_COMM_WORLD, request);
  });
}
krafla_engine_request* Receive(krafla_engine*, int rank, uint64_t slot, void* to, std::size_t bytes,
                               krafla_engine_error* error) {
  return InParts(bytes, "MPI_Irecv failed", error, [&](std::size_t at, int count, MPI_Request* request) {
    return MPI_Irecv(static_cast<char*>(to) + at, count, MPI_BYTE, rank, TagOf(slot), MPI_COMM_WORLD, request);
  });
}

int Wait(krafla_engine* engine, krafla_engine_request* request, int limit_ms, krafla_engine_error* error) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::milliseconds(limit_ms);
  auto pause = std::chrono::microseconds(0);
  for (;;) {
    int done = 0;
    {
      const std::lock_guard lock(calls);
      const int code =
          MPI_Testall(static_cast<int>(request->parts.size()), request->parts.data(), &done, MPI_STATUSES_IGNORE);
      if (code != MPI_SUCCESS) return Fail(error, "MPI_Testall failed", code);
    }
    if (done != 0) return 1;
    if (engine->is_aborted || Clock::now() >= end) return 0;
    if (pause.count() == 0) std::this_thread::yield();
    else std::this_thread::sleep_for(pause);
    pause = std::min(std::chrono::microseconds(500), pause + std::chrono::microseconds(2));
  }
}

void Release(krafla_engine*, krafla_engine_request* request, int is_done) {
  // What never ends is not waited for; MPI may still write there, and so the process ends soon.
  if (is_done == 0) {
    const std::lock_guard lock(calls);
    for (MPI_Request& part : request->parts)
      if (part != MPI_REQUEST_NULL) MPI_Cancel(&part);
  }
  delete request;
}

void Abort(krafla_engine* engine) { engine->is_aborted = true; }

void Close(krafla_engine* engine, int failed) {
  delete engine;
  // With ranks missing it would wait for them.
  if (failed != 0) return;
  const std::lock_guard lock(calls);
  int is_finalized = 0;
  MPI_Finalized(&is_finalized);
  if (is_finalized == 0) MPI_Finalize();
}

constexpr krafla_engine_functions kFunctions = {KRAFLA_ENGINE_ABI, Identify, AllGather, Open,  Send,
                                                Receive,           Wait,     Release,   Abort, Close};

}  // namespace

extern "C" __attribute__((visibility("default"))) const krafla_engine_functions* krafla_transport_engine(void) {
  return &kFunctions;
}
