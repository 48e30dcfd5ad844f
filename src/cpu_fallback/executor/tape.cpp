// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/tape.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "base/checked_math.h"
#include "cpu_fallback/executor/cpu_kernel.h"
#include "cpu_fallback/executor/routine_builder.h"
#include "plan/step_runner.h"

namespace krafla::cpu {

using plan::Allocation;
using plan::Slice;

namespace {

constexpr uint64_t kTurnsBetweenLooks = 16;
constexpr int64_t kCopyGrain = 256 * 1024;

const TapeOp* Stop(const TapeOp*, TapeRun&) { return nullptr; }

// What follows a turn after which it is asked whether the run may go on. (Apart, so that the others need no stack.)
[[gnu::noinline]] const TapeOp* GoOn(const TapeOp* next, TapeRun& run) {
  run.status = run.limit.Check();
  return run.status ? next : nullptr;
}
const TapeOp* AfterTurn(const TapeOp* next, TapeRun& run) {
  if (++run.turns % kTurnsBetweenLooks == 0) [[unlikely]]
    return GoOn(next, run);
  return GoTo(next, run);
}

// out: the turns to come, n: how far back the body is.
const TapeOp* StartCount(const TapeOp* op, TapeRun& run) {
  std::memcpy(op->out, &op->bits, sizeof(op->bits));
  return GoTo(op + 1, run);
}
const TapeOp* NextTurn(const TapeOp* op, TapeRun& run) {
  int64_t left;
  std::memcpy(&left, op->out, sizeof(left));
  --left;
  std::memcpy(op->out, &left, sizeof(left));
  return AfterTurn(left > 0 ? op + op->n : op + 1, run);
}
// n: how far to go.
const TapeOp* Jump(const TapeOp* op, TapeRun& run) { return GoTo(op + op->n, run); }
const TapeOp* JumpBack(const TapeOp* op, TapeRun& run) { return AfterTurn(op + op->n, run); }
const TapeOp* JumpIfFalse(const TapeOp* op, TapeRun& run) {
  return GoTo(op + (*op->in[0] == std::byte{0} ? op->n : 1), run);
}
// in[0]: a pred (bits 1) or an s32; in[1]: how far to go for each of n branches.
const TapeOp* Branch(const TapeOp* op, TapeRun&) {
  int64_t branch;
  if (op->bits == 1) {
    branch = plan::BranchOfPredicate(*op->in[0] != std::byte{0});
  } else {
    int32_t index;
    std::memcpy(&index, op->in[0], sizeof(index));
    branch = plan::BranchOfIndex(index, op->n);
  }
  int64_t distance;
  std::memcpy(&distance, op->in[1] + branch * 8, sizeof(distance));
  return op + distance;
}

template <int kBytes>
const TapeOp* CopyFixed(const TapeOp* op, TapeRun& run) {
  std::memcpy(op->out, op->in[0], kBytes);
  return GoTo(op + 1, run);
}
const TapeOp* CopySmall(const TapeOp* op, TapeRun&) {
  std::memmove(op->out, op->in[0], static_cast<std::size_t>(op->n));
  return op + 1;
}
const TapeOp* CopyLarge(const TapeOp* op, TapeRun& run) {
  if (op->out == op->in[0]) return op + 1;
  run.pool.ParallelFor(op->n, kCopyGrain, [&](int64_t begin, int64_t end, int) {
    std::memcpy(op->out + begin, op->in[0] + begin, static_cast<std::size_t>(end - begin));
  });
  return op + 1;
}

// in[0]: n addresses of bindings; bits: the address of the step that is observed, or 0.
const TapeOp* LaunchKernel(const TapeOp* op, TapeRun& run) {
  run.status = run.limit.Check();
  if (!run.status) return nullptr;
  if (run.run_launch != nullptr && op->bits != 0) {
    run.status = run.run_launch(run.owner, *reinterpret_cast<const plan::LaunchStep*>(op->bits));
    return run.status ? op + 1 : nullptr;
  }
  const auto* bindings = reinterpret_cast<std::byte* const*>(op->in[0]);
  run.status = static_cast<const CpuKernel*>(op->what.object)
                   ->Run({bindings, static_cast<std::size_t>(op->n)}, run.pool, run.scratch);
  return run.status ? op + 1 : nullptr;
}
const TapeOp* RunExchange(const TapeOp* op, TapeRun& run) {
  run.status = run.run_exchange(run.owner, *static_cast<const plan::LaunchStep*>(op->what.object));
  return run.status ? op + 1 : nullptr;
}
const TapeOp* AwaitExchange(const TapeOp* op, TapeRun& run) {
  run.status = run.await(run.owner, *static_cast<const plan::AwaitStep*>(op->what.object));
  return run.status ? op + 1 : nullptr;
}
const TapeOp* CallSteps(const TapeOp* op, TapeRun& run) {
  run.status = run.run_steps(run.owner, *static_cast<const plan::StepList*>(op->what.object));
  return run.status ? op + 1 : nullptr;
}

const TapeOp* RunGroup(const TapeOp* op, TapeRun& run) {
  run.status = run.run_group(run.owner, *static_cast<const plan::RowGroupStep*>(op->what.object));
  return run.status ? op + 1 : nullptr;
}

}  // namespace

TapeOp CopyOp(int64_t bytes) {
  switch (bytes) {
    case 1: return {.run = &CopyFixed<1>};
    case 2: return {.run = &CopyFixed<2>};
    case 4: return {.run = &CopyFixed<4>};
    case 8: return {.run = &CopyFixed<8>};
    case 12: return {.run = &CopyFixed<12>};
    case 16: return {.run = &CopyFixed<16>};
    case 32: return {.run = &CopyFixed<32>};
    default: return {.run = bytes > kCopyGrain ? &CopyLarge : &CopySmall, .n = bytes};
  }
}

void Tape::Bind(std::span<std::byte* const> bases) {
  bool is_bound = true;
  for (Base& b : bases_) {
    const std::byte* address = bases[static_cast<std::size_t>(b.allocation)];
    if (b.address == address) continue;
    b.address = address;
    is_bound = false;
  }
  if (is_bound) return;
  for (const Link& link : links_) *link.where = bases[static_cast<std::size_t>(link.place.base)] + link.place.offset;
}

Result<> Tape::Run(std::span<std::byte* const> bases, TapeRun& run) {
  Bind(bases);
  if (code_ != nullptr) {
    struct Owner {
      const Tape& tape;
      TapeRun& run;
    } owner{*this, run};
    native::RoutineRun routine;
    routine.bases = reinterpret_cast<std::byte* const*>(frame_.data() + table_);
    routine.owner = &owner;
    routine.look = [](void* to) {
      TapeRun& r = static_cast<Owner*>(to)->run;
      r.status = r.limit.Check();
      return r.status.has_value();
    };
    routine.call = [](void* to, int64_t number) {
      const Owner& o = *static_cast<Owner*>(to);
      for (const TapeOp* op = &o.tape.ops_[static_cast<std::size_t>(number)]; op != nullptr;) op = op->run(op, o.run);
      return o.run.status.has_value();
    };
    code_->Run(routine);
    return std::move(run.status);
  }
  for (const TapeOp* op = ops_.data(); op != nullptr;) op = op->run(op, run);
  return std::move(run.status);
}

int TapeBuilder::Add(const TapeOp& op) {
  ops_.push_back(op);
  return static_cast<int>(ops_.size()) - 1;
}

int64_t TapeBuilder::Reserve(int64_t bytes) {
  const auto at = static_cast<int64_t>(image_.size());
  image_.resize(static_cast<std::size_t>(RoundUp(at + bytes, 64)));
  return at;
}

bool TapeBuilder::MayOverlap(const Slice& a, const Slice& b) const {
  if (a.allocation == b.allocation) return a.offset < b.offset + b.size && b.offset < a.offset + a.size;
  if (a.allocation < 0 || b.allocation < 0) return false;
  // A result may lie in the argument's place.
  const auto kind = [&](const Slice& s) { return plan_.allocations[static_cast<std::size_t>(s.allocation)].kind; };
  const auto is_outside = [&](const Slice& s) {
    return kind(s) == Allocation::Kind::kArgument || kind(s) == Allocation::Kind::kResult;
  };
  return is_outside(a) && is_outside(b);
}

Result<> TapeBuilder::AddLoop(const plan::WhileStep& loop, std::span<const std::shared_ptr<const CpuKernel>> kernels) {
  kernels_ = kernels;
  RoutineBuilder routine(plan_, kernels, *this);
  KRAFLA_ASSIGN(code_, routine.Make(loop));
  if (code_ != nullptr) {
    const std::span<const Slice> bases = routine.bases();
    table_ = Reserve(static_cast<int64_t>(bases.size()) * 8);
    for (std::size_t b = 0; b < bases.size(); ++b) Address(table_ + static_cast<int64_t>(b) * 8, PlaceOf(bases[b]));
    return {};
  }
  // What was meant to be called.
  ops_.clear(), links_.clear(), image_.clear();
  AddWhile(loop);
  return {};
}

int64_t TapeBuilder::AddCall(const plan::Step& step) {
  const int begin = Next();
  AddStep(step);
  Add({.run = &Stop});
  return begin;
}

int64_t TapeBuilder::AddCall(const CpuKernel& kernel, std::span<const Slice> bindings) {
  const int begin = Next();
  AddRun(kernel, bindings, nullptr);
  Add({.run = &Stop});
  return begin;
}

void TapeBuilder::AddSteps(const plan::StepList& list) {
  for (const plan::Step& step : list.steps) AddStep(step);
}
void TapeBuilder::AddStep(const plan::Step& step) {
  if (const auto* launch = std::get_if<plan::LaunchStep>(&step)) {
    AddLaunch(*launch);
  } else if (const auto* await = std::get_if<plan::AwaitStep>(&step)) {
    Add({.run = &AwaitExchange, .what = {.object = await}});
  } else if (const auto* group = std::get_if<plan::RowGroupStep>(&step)) {
    Add({.run = &RunGroup, .what = {.object = group}});
  } else if (const auto* copy = std::get_if<plan::CopyStep>(&step)) {
    AddCopy(*copy);
  } else if (const auto* loop = std::get_if<plan::WhileStep>(&step)) {
    AddWhile(*loop);
  } else if (const auto* conditional = std::get_if<plan::ConditionalStep>(&step)) {
    AddConditional(*conditional);
  } else if (const auto* call = std::get_if<plan::CallStep>(&step)) {
    Add({.run = &CallSteps, .what = {.object = &plan_.callees[static_cast<std::size_t>(call->callee)]}});
  }
}

void TapeBuilder::AddLaunch(const plan::LaunchStep& launch) {
  if (launch.exchange >= 0) {
    Add({.run = &RunExchange, .what = {.object = &launch}});
    return;
  }
  const CpuKernel& kernel = *kernels_[static_cast<std::size_t>(launch.kernel)];
  if (!kernel.AppendTo(*this, launch.bindings)) AddRun(kernel, launch.bindings, &launch);
}

void TapeBuilder::AddRun(const CpuKernel& kernel, std::span<const Slice> bindings, const plan::LaunchStep* observed) {
  const int64_t addresses = Reserve(static_cast<int64_t>(bindings.size()) * 8);
  for (std::size_t b = 0; b < bindings.size(); ++b)
    Address(addresses + static_cast<int64_t>(b) * 8, PlaceOf(bindings[b]));
  const int op = Add({.run = &LaunchKernel,
                      .n = static_cast<int64_t>(bindings.size()),
                      .bits = reinterpret_cast<uintptr_t>(observed),
                      .what = {.object = &kernel}});
  In(op, 0, {TapePlace::kFrame, addresses});
}

void TapeBuilder::AddCopy(const plan::CopyStep& copy) {
  if (copy.to.size == 0) return;
  const int op = Add(CopyOp(copy.to.size));
  Out(op, PlaceOf(copy.to));
  In(op, 0, PlaceOf(copy.from));
}

void TapeBuilder::AddWhile(const plan::WhileStep& loop) {
  if (loop.trip_count) {
    if (*loop.trip_count <= 0) return;
    const TapePlace count{TapePlace::kFrame, Reserve(8)};
    Out(Add({.run = &StartCount, .bits = static_cast<uint64_t>(*loop.trip_count)}), count);
    const int body = Next();
    AddSteps(*loop.body);
    const int back = Add({.run = &NextTurn});
    op(back).n = body - back;
    Out(back, count);
    return;
  }
  const int condition = Next();
  AddSteps(*loop.condition);
  const int leave = Add({.run = &JumpIfFalse});
  In(leave, 0, PlaceOf(loop.predicate));
  AddSteps(*loop.body);
  const int back = Add({.run = &JumpBack});
  op(back).n = condition - back;
  op(leave).n = Next() - leave;
}

void TapeBuilder::AddConditional(const plan::ConditionalStep& conditional) {
  const auto branches = static_cast<int64_t>(conditional.branches.size());
  const int64_t distances = Reserve(branches * 8);
  const int choose = Add({.run = &Branch, .n = branches, .bits = conditional.index_is_pred ? 1u : 0u});
  In(choose, 0, PlaceOf(conditional.index));
  In(choose, 1, {TapePlace::kFrame, distances});
  std::vector<int> ends;
  for (int64_t b = 0; b < branches; ++b) {
    const int64_t distance = Next() - choose;
    std::memcpy(Bytes(distances + b * 8), &distance, sizeof(distance));
    AddSteps(*conditional.branches[static_cast<std::size_t>(b)]);
    if (b + 1 < branches) ends.push_back(Add({.run = &Jump}));
  }
  for (int end : ends) op(end).n = Next() - end;
}

Tape TapeBuilder::Finish() && {
  Add({.run = &Stop});
  Tape tape;
  tape.code_ = std::move(code_);
  tape.table_ = table_;
  const auto registers = static_cast<int64_t>(image_.size());
  tape.ops_ = std::move(ops_);
  tape.frame_ = AlignedBytes(static_cast<std::size_t>(registers + register_bytes_));
  if (!image_.empty()) std::memcpy(tape.frame_.data(), image_.data(), image_.size());
  std::set<int> used;
  for (const PendingLink& link : links_) {
    const std::byte** where;
    if (link.op < 0) {
      where = reinterpret_cast<const std::byte**>(tape.frame_.data() + link.where);
    } else {
      TapeOp& op = tape.ops_[static_cast<std::size_t>(link.op)];
      where = link.where == 0 ? const_cast<const std::byte**>(&op.out) : &op.in[link.where - 1];
    }
    if (link.place.base >= 0) {
      tape.links_.push_back({where, link.place});
      used.insert(link.place.base);
    } else {
      *where = tape.frame_.data() + link.place.offset + (link.place.base == TapePlace::kRegisters ? registers : 0);
    }
  }
  for (int allocation : used) tape.bases_.push_back({allocation, nullptr});
  return tape;
}

}  // namespace krafla::cpu
