// SPDX-License-Identifier: Apache-2.0
// Sessions: a program made ready for a device, with names for its inputs and outputs, as applications run models.
//
//   Result<LocalClient> client = LocalClient::Create("vulkan");
//   Result<Session> session = Session::LoadFile(*client, "model.mlirbc");
//   Result<> done = session->Run({AsInput(image)}, {AsOutput(scores)});
//
// Inputs and outputs are the arrays of the program, those in tuples one by one. They are dense and row-major, in the
// layout of Literal (krafla/literal.h). Nothing here throws; every error is a Status.
//
// A fork has a copy of these objects without their threads: FAILED_PRECONDITION, but that runs, loads and buffers on
// the CPU go on, on the thread that calls. What was made before a fork is not freed in it.
//
// Threads: any thread may use a session, a buffer, a submission or a client at any time. On the CPU as many runs of one
// session as SessionOptions::concurrent_runs are under way at once, each with an arena of its own; programs with random
// number states or steps on the host (custom calls, infeed) run one after the other. On Vulkan runs of one session
// follow one another. Once a session has made as many runs at once as it will, Run allocates nothing on the CPU
// (but that oneDNN, where krafla was built with it, makes small objects of its own in each convolution and product).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "krafla/export.h"
#include "krafla/local_client.h"
#include "krafla/run_options.h"
#include "krafla/shape.h"
#include "krafla/span.h"
#include "krafla/status.h"
#include "krafla/xla_computation.h"

KRAFLA_EXPORT_BEGIN
namespace krafla {

using InputBytes = std::span<const std::byte>;
using OutputBytes = std::span<std::byte>;

// A contiguous range of numbers as bytes.
template <typename Range>
InputBytes AsInput(const Range& range) {
  return std::as_bytes(std::span(range));
}
template <typename Range>
OutputBytes AsOutput(Range& range) {
  return std::as_writable_bytes(std::span(range));
}

struct TensorInfo {
  std::string name;  // as the program's source has it, where the file says it; unique
  Shape shape;       // a dynamic dimension is an upper bound
};

enum class HostMemory {
  kCopy,   // the caller's memory is free again when the call returns
  kShare,  // the buffer reads it where it is, for as long as it lives, if the device can; else it is copied
};

// An array where a device keeps it. Cheap to copy; its last copy frees it. It may outlive its client.
class Buffer {
 public:
  // Row-major bytes of an array of `shape`. `release` is called once the memory of the caller is needed no more, by any
  // thread; with kCopy before this returns.
  static Result<Buffer> FromHost(const LocalClient& client, const Shape& shape, InputBytes bytes,
                                 HostMemory memory = HostMemory::kCopy, std::function<void()> release = {});

  // A dynamic dimension has the size that the array has.
  const Shape& shape() const;
  // Returns when the device has made the array; what went wrong meanwhile is an error here and in all that reads it.
  Result<> Wait() const;
  // Waits, then copies all bytes to `to`, which has room for exactly those.
  Result<> ReadTo(OutputBytes to) const;
  // Waits, then gives the bytes: where they are if the host can read them there, else as a copy. `owner` keeps them.
  struct View {
    InputBytes bytes;
    std::shared_ptr<const void> owner;
  };
  Result<View> Read() const;

  struct Impl;  // for code inside the library

 private:
  friend class Session;
  friend class VulkanInterop;
  explicit Buffer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

// An argument of a run on buffers.
struct BufferInput {
  Buffer buffer;
  // The run may overwrite it, and nobody else reads it from here on: an output that takes its place (the program's
  // input_output_alias) needs no memory of its own.
  bool donated = false;
};

struct SessionOptions {
  BuildOptions build = {};
  // All sizes of inputs of which a StableHLO program or an ONNX model leaves some open, by name. For LoadBytes and
  // LoadFile.
  std::map<std::string, std::vector<int64_t>> input_sizes = {};
  // How many runs may be under way at once; each has an arena. 0: as many as the CPU's kernels have threads, and 1
  // under a memory limit.
  int concurrent_runs = 0;
  // Told of kernels that are ready, the `done`-th of `total`, while the session is loaded; by any thread, one call at a
  // time.
  std::function<void(int done, int total)> progress = {};
  // Profile can be called.
  bool for_profile = false;
};

struct SessionProfile {
  struct Step {
    std::string kernel, family;   // "fused_add.12", "loop"
    std::string op_name, source;  // of the program's source: "jit(f)/add", "f.py:12"; may be empty
    std::string place;            // "cpu", "vulkan:0"
    int64_t times = 0;            // a run
    double ms = 0;                // a run, of all times
    double flops = 0, bytes = 0;  // of one time, as the plan counts them
  };
  double run_ms = 0;  // of runs that were not measured inside
  std::vector<Step> steps;
};

// A run that was submitted. Cheap to copy. Nobody has to keep it: the run goes on without.
class Submission {
 public:
  bool IsDone() const;
  // What the run came to. Any number of times, by any thread.
  Result<> Wait() const;
  // Nothing where it is not done after `time`.
  std::optional<Result<>> WaitFor(std::chrono::nanoseconds time) const;
  // It ends with CANCELLED, now or as soon as it can, unless it is done already.
  void Cancel() const;

  struct State;  // for code inside the library

 private:
  friend class Session;
  explicit Submission(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

class Session {
 public:
  static Result<Session> Load(const LocalClient& client, const XlaComputation& program,
                              const SessionOptions& options = {});
  // A program in any form that LoadHlo reads. A compiled model (docs/ahead-of-time.md) is used where its
  // file is mapped; an ONNX model's weights may lie beside it.
  static Result<Session> LoadBytes(const LocalClient& client, std::string_view bytes,
                                   const SessionOptions& options = {});
  static Result<Session> LoadFile(const LocalClient& client, const std::string& path,
                                  const SessionOptions& options = {});
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();  // waits for what was submitted; not for `done` of Submit to call

  std::span<const TensorInfo> inputs() const;
  std::span<const TensorInfo> outputs() const;
  // The place of a name among them. NOT_FOUND lists those that there are.
  Result<std::size_t> FindInput(std::string_view name) const;
  Result<std::size_t> FindOutput(std::string_view name) const;
  const BuildReport& report() const;

  // Runs once, to the end, from and into the caller's memory: one range an input and an output, of exactly its bytes.
  // The CPU reads and writes it where it is; for other devices it is copied. Where an output lies over inputs, these
  // are copied first, at the cost of that; INVALID_ARGUMENT where two outputs overlap. UNIMPLEMENTED for programs with
  // dynamic dimensions: those run on buffers.
  Result<> Run(Span<InputBytes> inputs, Span<OutputBytes> outputs, const RunOptions& options = {});
  // Runs on buffers, and gives new ones. May return before the device is done: they are waited for when they are read.
  Result<std::vector<Buffer>> Run(std::span<const BufferInput> inputs, const RunOptions& options = {});
  // Run, later, on a thread of the session; submissions run in their order. The memory must stay until it is done;
  // `done` is called then, before Wait returns, by that thread.
  Result<Submission> Submit(Span<InputBytes> inputs, Span<OutputBytes> outputs, const RunOptions& options = {},
                            std::function<void(const Result<>&)> done = {});
  // Makes the first run as fast as the others: one run on zeros, whose results are dropped. FAILED_PRECONDITION where
  // that could be seen: programs with random number states, custom calls, infeed, outfeed or channels.
  Result<> Warm(const RunOptions& options = {});
  // What the time of a run on zeros goes into, step by step, as the medians of `runs`. FAILED_PRECONDITION without
  // SessionOptions::for_profile, and where Warm says so.
  Result<SessionProfile> Profile(int runs = 10);

 private:
  friend class VulkanInterop;
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace krafla
KRAFLA_EXPORT_END
