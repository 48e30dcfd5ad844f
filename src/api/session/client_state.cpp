// SPDX-License-Identifier: Apache-2.0
#include "api/session/client_state.h"

#include "base/log.h"

namespace krafla {

Result<MemoryBudget::Claim> MemoryBudget::Take(int64_t bytes, std::string_view what) {
  const int64_t before = held_.fetch_add(bytes);
  if (IsLimited() && before + bytes > limit_) {
    held_ -= bytes;
    return ResourceExhausted(
        "{} takes {} bytes, and the client holds {} of the {} that ClientOptions::memory_limit allows.", what, bytes,
        before, limit_);
  }
  return Claim(shared_from_this(), bytes);
}

std::shared_ptr<const void> OwnerThatCalls(std::function<void()> release) {
  struct Owner {
    std::function<void()> call;
    explicit Owner(std::function<void()> c) : call(std::move(c)) {}
    Owner(const Owner&) = delete;
    Owner& operator=(const Owner&) = delete;
    ~Owner() {
      if (call) call();
    }
  };
  return std::make_shared<const Owner>(std::move(release));
}

BuildReport ReportOf(const Executable& executable) {
  const CompileReport& r = executable.report();
  BuildReport out;
  out.instructions = r.instructions;
  out.device_instructions = r.device_instructions;
  out.kernels = r.kernels;
  out.launches = r.launches;
  out.arena_bytes = r.arena_bytes;
  out.compile_ms = r.compile_ms();
  out.pipeline_ms = r.pipeline_ms;
  for (const CompileReport::Fallback& f : r.fallbacks) out.fallbacks.push_back({f.instruction, f.opcode, f.reason});
  out.placement = executable.PlacementLine();
  return out;
}

CompileOptions ToInternal(const BuildOptions& options) {
  CompileOptions out;
  out.disabled = options.disabled;
  out.enabled = options.enabled;
  out.strict = options.strict;
  return out;
}

Result<std::unique_ptr<Executable>> LocalClient::Impl::Compile(const XlaComputation& program,
                                                               const BuildOptions& options,
                                                               CompileOptions compile) const {
  if (program.IsNull()) return FailedPrecondition("The program is a null computation.");
  compile.disabled = options.disabled;
  compile.enabled = options.enabled;
  compile.strict = options.strict;
  compile.threads = threads;
  KRAFLA_ASSIGN(std::unique_ptr<Executable> out, client->Compile(program.module()->Clone(), compile));
  if (IsLogged()) {
    const bool is_whole = out->report().fallbacks.empty();
    Log(is_whole ? LogLevel::kInfo : LogLevel::kWarning,
        Format("Program '{}' is ready: {}.", program.name(), out->PlacementLine()));
  }
  return out;
}

}  // namespace krafla
