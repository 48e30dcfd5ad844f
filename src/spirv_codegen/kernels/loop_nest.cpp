// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/checked_math.h"
#include "plan/slice_extent.h"
#include "spirv_codegen/kernels/linalg.h"
#include "spirv_codegen/kernels/nest_scatter.h"
#include "spirv_codegen/kernels/nest_sums.h"
#include "spirv_codegen/kernels/nest_survey.h"
#include "spirv_codegen/kernels/reduce.h"
#include "spirv_codegen/kernels/while.h"
#include "spirv_codegen/kernels/wide_sum.h"

namespace krafla::spirv {
namespace {

using plan::Slice;

// An access to memory within a turn.
struct Access {
  int buffer = 0;
  bool written = false;
};

// More blocks are seldom, and each costs a turn a comparison.
constexpr std::size_t kMostBlocks = 48;

class LoopNest {
 public:
  LoopNest(const plan::ProgramPlan& plan, const DeviceProfile& profile, const Tuning& tuning)
      : plan_(plan),
        profile_(profile),
        device_tuning_(tuning),
        tuning_(tuning.loop_nest),
        survey_(plan, profile, tuning) {}

  Result<EmittedLoop> Emit(const plan::WhileStep& loop) {
    // Loops in loops are tried at each level, so that what refuses most of them comes first.
    plan::LoopBlocks cut;
    if (survey_.HasUncounted(loop)) {
      KRAFLA_ASSIGN(cut, plan::BlocksOf(plan_, survey_.uncounted(), loop, kMostBlocks));
    }
    KRAFLA_ASSIGN(const NestCost turn, survey_.LookAtTurn(loop));
    if (survey_.longest_step_ns() > tuning_.most_step_ns && turn.ns > turn.launched_ns)
      return Unimplemented("A step of the loop has too much to do for one workgroup.");
    const double turn_ns = turn.ns;
    survey_.ChooseCopies(!cut.blocks.empty());
    const uint32_t subgroup = FixedSubgroupSize(profile_);
    if (survey_.widest() > 1) {
      const uint32_t least = tuning_.least_lanes, most = std::max(tuning_.most_lanes, least);
      const uint32_t wanted =
          tuning_.one_subgroup
              ? std::max(subgroup, least)
              : std::clamp(std::bit_ceil(static_cast<uint32_t>(std::min<int64_t>(survey_.widest(), most))), least,
                           most);
      local_ = std::bit_floor(WorkgroupSize(profile_, wanted));
    }
    const bool is_subgroup = subgroup == local_;
    std::vector<BufferDesc> state;
    if (!cut.blocks.empty())
      state.push_back({.element_count = 1, .element_bytes = static_cast<int>(kLoopStateBytes), .written = true});
    KernelWriter w(survey_.merged(), profile_, device_tuning_, std::move(state), cut.blocks.empty() ? 1 : 2);
    w_ = &w;
    b_ = &w.b;
    Builder& b = w.b;
    if (w.m.vulkan_memory_model()) return Unimplemented("Loops are made for the older memory model.");
    subgroup_ = is_subgroup ? subgroup : 0;
    w.buffers.MakeCoherent();
    for (int i = 0; i < NextBlock(); ++i)
      if (survey_.HasCopies(i)) w.buffers.KeepCopies(i);
    const Value most = w.buffers.PushWord(0);
    if (!cut.blocks.empty()) EmitBlocks(cut, most);
    else if (loop.trip_count) b.For(b.U32(0), most, b.U32(1), [&](Value) { EmitTurn(*loop.body); });
    else EmitUncounted(loop, most);
    if (local_ > 1) b.If(b.Compare(Cmp::kEq, b.LocalIndex(), b.U32(0)), [&] { w.buffers.StoreCopies(); });
    else w.buffers.StoreCopies();
    if (IsTooLong()) return TooLong(w.m.BodySize(), device_tuning_);
    if (shared_bytes_ > profile_.limits.max_shared_memory_bytes)
      return Unimplemented("The loop's reductions need {} bytes of shared memory.", shared_bytes_);
    EmittedLoop out;
    EmittedKernel kernel = w.Finish({local_, 1, 1}, "while.workgroup");
    if (is_subgroup && local_ > 1) RequireSubgroups(kernel, profile_, subgroup);
    KRAFLA_TRY(CheckBufferCount(kernel, profile_));
    out.launches.push_back({std::move(kernel), {1, 1, 1}, turn_ns * 1e-6});
    out.slices = survey_.slices();
    out.resumes = !cut.blocks.empty();
    out.most_turns = std::clamp<int64_t>(static_cast<int64_t>(kLoopLaunchNs / turn_ns), 1, int64_t{1} << 30);
    return out;
  }

 private:
  // ---- Barriers

  void Barrier() {
    if (touched_.empty()) return;
    EmitBarrier();
    touched_.clear();
  }
  void EmitBarrier() {
    if (subgroup_ > 1) b_->SubgroupBufferBarrier();
    else if (local_ > 1) b_->BufferBarrier();
  }
  // Emits a barrier before these accesses, if they need one.
  void Order(std::span<const Access> accesses) {
    const auto in_memory = [&](const Access& a) { return !survey_.HasCopies(a.buffer); };
    const auto extent = [&](const Access& a) {
      return ExtentOf(plan_, survey_.slices()[static_cast<std::size_t>(a.buffer)]);
    };
    const auto conflicts = [&](const Access& a, const Access& b) {
      return (a.written || b.written) && extent(a).Overlaps(extent(b));
    };
    for (const Access& a : accesses)
      if (in_memory(a) && std::ranges::any_of(touched_, [&](const Access& t) { return conflicts(a, t); })) {
        Barrier();
        break;
      }
    for (const Access& a : accesses)
      if (in_memory(a)) touched_.push_back(a);
  }

  // ---- Code

  void EmitTurn(const plan::StepList& list) {
    EmitSteps(list);
    Barrier();
  }

  // Loads the element of a slice that has one, in every invocation.
  Value LoadWord(const Slice& slice, int bytes) {
    const Access access{survey_.BufferOf(slice), false};
    Order(std::span(&access, 1));
    return w_->buffers.Load(access.buffer, bytes, b_->U32(0), 1);
  }

  void EmitSteps(const plan::StepList& list) {
    for (const plan::Step& step : list.steps) EmitStep(step);
  }
  // Of more words than a kernel may have nothing is used.
  bool IsTooLong() const { return std::cmp_greater(b_->m.BodySize(), tuning_.most_words); }
  void EmitStep(const plan::Step& step) {
    if (IsTooLong()) return;
    if (const auto* launch = std::get_if<plan::LaunchStep>(&step)) {
      EmitLaunch(*launch);
    } else if (const auto* copy = std::get_if<plan::CopyStep>(&step)) {
      EmitCopy(*copy);
    } else if (const auto* loop = std::get_if<plan::WhileStep>(&step)) {
      Barrier();
      b_->For(b_->U32(0), b_->U32(static_cast<uint32_t>(*loop->trip_count)), b_->U32(1),
              [&](Value) { EmitTurn(*loop->body); });
    } else if (const auto* branch = std::get_if<plan::ConditionalStep>(&step)) {
      const Value index = LoadWord(branch->index, branch->index_is_pred ? 1 : 4);
      Barrier();
      EmitBranches(*b_, index, branch->index_is_pred, branch->branches.size(),
                   [&](std::size_t n) { EmitTurn(*branch->branches[n]); });
    } else {
      EmitSteps(plan_.callees[static_cast<std::size_t>(std::get<plan::CallStep>(step).callee)]);
    }
  }

  // Turns until the condition does not hold, at most `most`.
  void EmitUncounted(const plan::WhileStep& loop, Value most) {
    Builder& b = *b_;
    b.While(
        {b.U32(0), b.U32(1)},
        [&](const Values& s) { return b.LAnd(b.Compare(Cmp::kULt, s[0], most), b.Compare(Cmp::kNe, s[1], b.U32(0))); },
        [&](const Values& s) {
          EmitSteps(*loop.condition);
          const Value go = LoadWord(loop.predicate, 1);
          b.If(b.Compare(Cmp::kNe, go, b.U32(0)), [&] { EmitTurn(*loop.body); });
          Barrier();
          return Values{b.Add(s[0], b.U32(1)), go};
        });
  }

  // A turn tries one block after the other, and turns those of an inner loop until it is over. Which block is next lies
  // behind the slices; a launch begins with the one where the last stopped, the first launch with the first.
  void EmitBlocks(const plan::LoopBlocks& cut, Value most) {
    Builder& b = *b_;
    w_->buffers.KeepCopies(NextBlock());
    b.If(b.Compare(Cmp::kNe, w_->buffers.PushWord(1), b.U32(0)), [&] { GoTo(Number(0)); });
    const int last = static_cast<int>(cut.blocks.size()) - 1;
    std::span<const plan::LoopBlocks::Range> inner = cut.inner;
    EmitRange(cut, {0, last}, inner, most, b.U32(0));
  }
  // The turns so far come in and go out. `inner` begins with the ranges inside of this one, which are taken from it.
  Value EmitRange(const plan::LoopBlocks& cut, plan::LoopBlocks::Range range,
                  std::span<const plan::LoopBlocks::Range>& inner, Value most, Value turns) {
    Builder& b = *b_;
    const Values done = b.While(
        {turns},
        [&](const Values& s) {
          const Value next = w_->buffers.Load(NextBlock(), 4, b.U32(0), 1);
          const Value offset = b.Sub(next, Number(range.first));
          return b.LAnd(b.Compare(Cmp::kULt, s[0], most),
                        b.Compare(Cmp::kULt, offset, Number(range.last - range.first + 1)));
        },
        [&](const Values& s) {
          Value so_far = s[0];
          for (int n = range.first; n <= range.last;) {
            if (!inner.empty() && inner.front().first == n) {
              const plan::LoopBlocks::Range loop = inner.front();
              inner = inner.subspan(1);
              so_far = EmitRange(cut, loop, inner, most, so_far);
              n = loop.last + 1;
            } else {
              const Value next = w_->buffers.Load(NextBlock(), 4, b.U32(0), 1);
              b.If(b.Compare(Cmp::kEq, next, Number(n)), [&] { EmitBlock(cut.blocks[static_cast<std::size_t>(n)]); });
              ++n;
            }
          }
          return Values{b.Add(so_far, b.U32(1))};
        });
    return done[0];
  }
  int NextBlock() const { return static_cast<int>(survey_.slices().size()); }
  Value Number(int block) { return b_->U32(static_cast<uint32_t>(block)); }
  void GoTo(Value block) { w_->buffers.Store(NextBlock(), 4, b_->U32(0), block); }

  void EmitBlock(const plan::LoopBlock& block) {
    Builder& b = *b_;
    for (const plan::Step* step : block.steps) EmitStep(*step);
    if (const auto* jump = std::get_if<plan::LoopBlock::Jump>(&block.end)) {
      GoTo(Number(jump->next));
    } else if (const auto* test = std::get_if<plan::LoopBlock::Test>(&block.end)) {
      GoTo(b.Select(b.Compare(Cmp::kNe, LoadWord(test->predicate, 1), b.U32(0)), Number(test->next_if_true),
                    Number(test->next_if_false)));
    } else {
      const auto& choice = std::get<plan::LoopBlock::Choice>(block.end);
      const bool is_pred = choice.conditional->index_is_pred;
      EmitBranches(b, LoadWord(choice.conditional->index, is_pred ? 1 : 4), is_pred, choice.next.size(),
                   [&](std::size_t n) { GoTo(Number(choice.next[n])); });
    }
    Barrier();
  }

  void EmitCopy(const plan::CopyStep& copy) {
    const Access accesses[] = {{survey_.BufferOf(copy.from), false}, {survey_.BufferOf(copy.to), true}};
    Order(accesses);
    const int64_t size = copy.from.size;
    const int bytes = BytesOfCopied(size);
    Spread(size / bytes, accesses, [&](Value at) {
      w_->buffers.Store(accesses[1].buffer, bytes, at, w_->buffers.Load(accesses[0].buffer, bytes, at, 1));
    });
  }

  // Shares body(item) out to the workgroup's invocations. A single item is done by all of them where it stores to
  // slices of which each has a copy.
  void Spread(int64_t items, std::span<const Access> accesses, const std::function<void(Value)>& body) {
    Builder& b = *b_;
    if (local_ == 1) {
      b.For(b.U32(0), b.U32(static_cast<uint32_t>(items)), b.U32(1), body);
      return;
    }
    const Value lane = b.LocalIndex();
    if (items == 1) {
      const bool copies =
          std::ranges::any_of(accesses, [&](const Access& a) { return a.written && survey_.HasCopies(a.buffer); });
      const Value first = b.Compare(Cmp::kEq, lane, b.U32(0));
      if (copies) w_->buffers.StoreWhere(first, [&] { body(b.U32(0)); });
      else b.If(first, [&] { body(b.U32(0)); });
      return;
    }
    if (items <= int64_t{local_}) {
      b.If(b.Compare(Cmp::kULt, lane, b.U32(static_cast<uint32_t>(items))), [&] { body(lane); });
      return;
    }
    b.For(lane, b.U32(static_cast<uint32_t>(items)), b.U32(local_), body);
  }

  void EmitLaunch(const plan::LaunchStep& launch) {
    const plan::KernelPlan& kernel = plan_.kernels[static_cast<std::size_t>(launch.kernel)];
    KRAFLA_CHECK(ForEachPart(kernel, [&](const plan::KernelPlan& part) -> Result<> {
      EmitPart(part, launch);
      return {};
    }));
  }
  void EmitPart(const plan::KernelPlan& kernel, const plan::LaunchStep& launch) {
    std::vector<Access> accesses;
    for (std::size_t n = 0; n < launch.bindings.size(); ++n) {
      const plan::Binding& binding = kernel.bindings[n];
      const int buffer = survey_.BufferOf(launch.bindings[n]);
      if (binding.read) accesses.push_back({buffer, false});
      if (binding.written) accesses.push_back({buffer, true});
    }
    Order(accesses);
    const auto renumber = [&](plan::ElementProgram& program) {
      plan::RenumberBuffers(program,
                            [&](int b) { return survey_.BufferOf(launch.bindings[static_cast<std::size_t>(b)]); });
    };
    if (const auto* loop = std::get_if<plan::LoopKernel>(&kernel.body)) {
      plan::ElementProgram program = loop->program;
      renumber(program);
      EmitPoints(program, accesses);
    } else if (const auto* reduce = std::get_if<plan::ReduceKernel>(&kernel.body)) {
      plan::ReduceKernel k = *reduce;
      for (plan::ReduceStage& s : k.stages) {
        renumber(s.program);
        for (plan::Reduction& r : s.reductions) {
          renumber(r.combiner);
          renumber(r.init);
        }
      }
      shared_bytes_ += EmitReduceInGroup(*w_, k, local_, subgroup_);
    } else if (const auto* scatter = std::get_if<plan::ScatterKernel>(&kernel.body)) {
      plan::ScatterKernel k = *scatter;
      const auto own = [&](int& b) { b = survey_.BufferOf(launch.bindings[static_cast<std::size_t>(b)]); };
      own(k.indices_binding);
      for (int& b : k.updates) own(b);
      for (int& b : k.outputs) own(b);
      renumber(k.combiner.combiner);
      EmitNestScatter(*w_, k, local_);
    } else if (const auto* linalg = std::get_if<plan::LinalgKernel>(&kernel.body)) {
      std::vector<int> names;
      for (const Slice& s : launch.bindings) names.push_back(survey_.BufferOf(s));
      const std::function<void()> barrier = [&] { EmitBarrier(); };
      const InGroup group{*w_, names, local_, barrier};
      const EmitOptions options;
      KRAFLA_CHECK(EmitLinalg(kernel, *linalg, {profile_, device_tuning_, options, nullptr, &group}));
    } else {
      plan::DotKernel k = std::get<plan::DotKernel>(kernel.body);
      renumber(k.epilogue);
      k.lhs_binding = survey_.BufferOf(launch.bindings[static_cast<std::size_t>(k.lhs_binding)]);
      k.rhs_binding = survey_.BufferOf(launch.bindings[static_cast<std::size_t>(k.rhs_binding)]);
      const int width = NestSumsAtOnce(k, w_->tuning.loop, local_);
      Spread(Product(k.epilogue.space.dims()) / width, accesses,
             [&](Value item) { EmitNestSums(*w_, k, item, width); });
    }
  }

  void EmitPoints(const plan::ElementProgram& program, std::span<const Access> accesses) {
    const Dims& dims = program.space.dims();
    const int64_t total = Product(dims);
    if (total == 0) return;
    const int rank = static_cast<int>(dims.size());
    int inner = rank - 1;
    while (inner > 0 && dims[static_cast<std::size_t>(inner)] == 1) --inner;
    const int width = total >= 4 * int64_t{local_} ? PointsAtOnce(program, inner, w_->tuning.loop) : 1;
    Spread(total / width, accesses, [&](Value item) {
      ProgramLowering lowering(*b_, w_->buffers, program, inner, width);
      for (int d = inner + 1; d < rank; ++d) lowering.SetIter(d, b_->U32(0));
      if (inner >= 0) lowering.SetLinear(b_->Mul(item, b_->U32(static_cast<uint32_t>(width))), 0, inner + 1);
      lowering.EmitStores();
    });
  }

  const plan::ProgramPlan& plan_;
  const DeviceProfile& profile_;
  const Tuning& device_tuning_;
  const LoopNestTuning& tuning_;
  NestSurvey survey_;
  uint32_t local_ = 1, subgroup_ = 0;
  int64_t shared_bytes_ = 0;
  std::vector<Access> touched_;  // the accesses since the last barrier
  KernelWriter* w_ = nullptr;
  Builder* b_ = nullptr;
};

}  // namespace

Result<EmittedLoop> EmitLoopNest(const plan::ProgramPlan& plan, const plan::WhileStep& loop,
                                 const DeviceProfile& profile, const Tuning& tuning) {
  return LoopNest(plan, profile, tuning).Emit(loop);
}

}  // namespace krafla::spirv
