// SPDX-License-Identifier: Apache-2.0
// What a LocalClient is, for those who load programs and make buffers with it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "api/client.h"
#include "base/made_in.h"
#include "krafla/local_client.h"
#include "krafla/session.h"

namespace krafla {

// The bytes that a client may hold at once (ClientOptions::memory_limit).
class MemoryBudget : public std::enable_shared_from_this<MemoryBudget> {
 public:
  explicit MemoryBudget(int64_t limit) : limit_(limit) {}
  bool IsLimited() const { return limit_ > 0; }

  // A part of it, given back when it goes.
  class Claim {
   public:
    Claim() = default;
    Claim(std::shared_ptr<MemoryBudget> budget, int64_t bytes) : budget_(std::move(budget)), bytes_(bytes) {}
    Claim(Claim&& other) noexcept : budget_(std::move(other.budget_)), bytes_(other.bytes_) {}
    Claim& operator=(Claim&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Claim() {
      if (budget_ != nullptr) budget_->held_ -= bytes_;
    }

   private:
    std::shared_ptr<MemoryBudget> budget_;
    int64_t bytes_ = 0;
  };
  // RESOURCE_EXHAUSTED past the limit.
  Result<Claim> Take(int64_t bytes, std::string_view what);

 private:
  const int64_t limit_;
  std::atomic<int64_t> held_ = 0;
};

// Threads of a client. Null: those that all executables share.
Result<std::shared_ptr<ThreadPool>> ThreadsOf(const ClientOptions& options);

// What runs on the host's threads alone goes on in a fork, on the thread that calls.
inline Result<> CheckProcess(const MadeIn& made_in, bool runs_on_host_threads, std::string_view what) {
  return runs_on_host_threads ? Result<>() : made_in.Check(what);
}

struct LocalClient::Impl {
  MadeIn made_in;
  std::shared_ptr<Client> client;
  std::shared_ptr<ThreadPool> threads;
  std::shared_ptr<MemoryBudget> budget;
  DeviceInfo device;

  Result<> Check() const { return CheckProcess(made_in, device.is_cpu, "The client"); }
  // `make`: the back end's client.
  static Result<LocalClient> Create(const ClientOptions& options,
                                    const std::function<Result<std::shared_ptr<Client>>()>& make);

  // A program made ready for it; logged. `compile` has what LocalClient's callers cannot say.
  Result<std::unique_ptr<Executable>> Compile(const XlaComputation& program, const BuildOptions& options,
                                              CompileOptions compile) const;
};

struct Buffer::Impl {
  MadeIn made_in;
  bool is_on_host;  // nobody else's threads make it or read it
  std::shared_ptr<DeviceBuffer> buffer;
  MemoryBudget::Claim claim;

  static std::shared_ptr<const Impl> Make(const DeviceDescription& device, std::shared_ptr<DeviceBuffer> buffer,
                                          MemoryBudget::Claim claim);
  Result<> Check() const { return CheckProcess(made_in, is_on_host, "The buffer"); }
};

// Calls `release` once, when its last copy goes.
std::shared_ptr<const void> OwnerThatCalls(std::function<void()> release);
BuildReport ReportOf(const Executable& executable);
CompileOptions ToInternal(const BuildOptions& options);

}  // namespace krafla
