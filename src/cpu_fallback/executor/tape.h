// SPDX-License-Identifier: Apache-2.0
// A tape: the steps of a loop, and of all that is inside it, as one list of instructions with the addresses of what
// they work on. A turn of a loop with little to do costs a few nanoseconds an instruction: nothing is looked up, set up
// or handed out. What is too large for that, or of another family, an instruction of the tape launches as a kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/run_limit.h"
#include "base/thread_pool.h"
#include "cpu_fallback/kernels/tape_op.h"
#include "cpu_fallback/native/routine.h"
#include "krafla/aligned_bytes.h"
#include "krafla/status.h"
#include "plan/program_plan.h"

namespace krafla {
class CpuKernel;
}

namespace krafla::cpu {

// What instructions may need of the run that they are part of.
struct TapeRun {
  ThreadPool& pool;
  std::byte* scratch;
  const RunLimit& limit;
  // Steps that are not on the tape.
  Result<> (*run_steps)(void* owner, const plan::StepList& steps) = nullptr;
  // Set where each launch is to be observed: runs those that the tape would otherwise run itself.
  Result<> (*run_launch)(void* owner, const plan::LaunchStep& launch) = nullptr;
  // Collectives that go on, and the ends of these.
  Result<> (*run_exchange)(void* owner, const plan::LaunchStep& launch) = nullptr;
  Result<> (*await)(void* owner, const plan::AwaitStep& await) = nullptr;
  // Row groups.
  Result<> (*run_group)(void* owner, const plan::RowGroupStep& group) = nullptr;
  void* owner = nullptr;
  Result<> status = {};
  uint64_t turns = 0;
};

// Where an operand lies: in an allocation of the plan, in the tape's own memory, or in the part of that which every
// kernel may use for itself.
struct TapePlace {
  static constexpr int kFrame = -1, kRegisters = -2;
  int base = kFrame;
  int64_t offset = 0;
};

class Tape {
 public:
  Tape() = default;
  Tape(Tape&&) = default;
  Tape& operator=(Tape&&) = default;

  // bases: where the plan's allocations lie now. Allocates nothing.
  Result<> Run(std::span<std::byte* const> bases, TapeRun& run);

  int64_t bytes() const { return static_cast<int64_t>(frame_.size() + ops_.size() * sizeof(TapeOp)); }
  std::size_t size() const { return ops_.size(); }

 private:
  friend class TapeBuilder;
  struct Link {
    const std::byte** where = nullptr;
    TapePlace place;
  };
  void Bind(std::span<std::byte* const> bases);

  std::vector<TapeOp> ops_;
  AlignedBytes frame_;
  std::vector<Link> links_;  // into allocations
  struct Base {
    int allocation = 0;
    const std::byte* address = nullptr;  // that the links were made for
  };
  std::vector<Base> bases_;
  std::shared_ptr<const native::RoutineCode> code_;
  int64_t table_ = 0;  // of its addresses, in the frame
};

class TapeBuilder {
 public:
  explicit TapeBuilder(const plan::ProgramPlan& plan) : plan_(plan) {}

  // A loop of `plan` with everything inside it.
  Result<> AddLoop(const plan::WhileStep& loop, std::span<const std::shared_ptr<const CpuKernel>> kernels);
  // A step on its own, for native code to call: what to call it by.
  int64_t AddCall(const plan::Step& step);
  int64_t AddCall(const CpuKernel& kernel, std::span<const plan::Slice> bindings);
  Tape Finish() &&;

  // For kernels. Returns the instruction's number.
  int Add(const TapeOp& op);
  TapeOp& op(int number) { return ops_[static_cast<std::size_t>(number)]; }
  void Out(int op, TapePlace place) { links_.push_back({op, 0, place}); }
  void In(int op, int number, TapePlace place) { links_.push_back({op, 1 + number, place}); }
  // Memory of the tape's own that keeps what `Bytes` says until an instruction writes to it.
  int64_t Reserve(int64_t bytes);
  std::byte* Bytes(int64_t offset) { return image_.data() + offset; }  // until the next Reserve
  // The address of `place` in the tape's own memory.
  void Address(int64_t offset, TapePlace place) { links_.push_back({-1, offset, place}); }
  // Memory for the registers of one kernel at a time.
  void NeedRegisters(int64_t bytes) { register_bytes_ = std::max(register_bytes_, bytes); }
  bool MayOverlap(const plan::Slice& a, const plan::Slice& b) const;

 private:
  struct PendingLink {
    int op = -1;        // -1: in the tape's own memory
    int64_t where = 0;  // 0: out, 1 to 3: in; an offset
    TapePlace place;
  };
  void AddSteps(const plan::StepList& list);
  void AddStep(const plan::Step& step);
  void AddLaunch(const plan::LaunchStep& launch);
  // `observed`: null where nobody is told of it.
  void AddRun(const CpuKernel& kernel, std::span<const plan::Slice> bindings, const plan::LaunchStep* observed);
  void AddCopy(const plan::CopyStep& copy);
  void AddConditional(const plan::ConditionalStep& conditional);
  void AddWhile(const plan::WhileStep& loop);
  static TapePlace PlaceOf(const plan::Slice& slice) { return {slice.allocation, slice.offset}; }
  int Next() const { return static_cast<int>(ops_.size()); }

  const plan::ProgramPlan& plan_;
  std::span<const std::shared_ptr<const CpuKernel>> kernels_;
  std::vector<TapeOp> ops_;
  std::vector<PendingLink> links_;
  std::vector<std::byte> image_;
  int64_t register_bytes_ = 0;
  std::shared_ptr<const native::RoutineCode> code_;
  int64_t table_ = 0;
};

// An instruction that copies `bytes` bytes from in[0] to out.
TapeOp CopyOp(int64_t bytes);

}  // namespace krafla::cpu
