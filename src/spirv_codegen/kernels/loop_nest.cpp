// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/checked_math.h"
#include "plan/loop_blocks.h"
#include "plan/slice_extent.h"
#include "spirv_codegen/kernels/nest_sums.h"
#include "spirv_codegen/kernels/reduce.h"
#include "spirv_codegen/kernels/while.h"
#include "spirv_codegen/kernels/wide_sum.h"

namespace krafla::spirv {
namespace {

using plan::Slice;

// The bytes of the elements that a copy moves: all of it as one element where that is possible.
int BytesOfCopied(int64_t size) {
  if (size == 1 || size == 2 || size == 8) return static_cast<int>(size);
  return size % 4 == 0 ? 4 : 1;
}
ElementType CopiedType(int bytes) {
  switch (bytes) {
    case 8: return ElementType::kU64;
    case 4: return ElementType::kU32;
    case 2: return ElementType::kU16;
    default: return ElementType::kU8;
  }
}

// An access to memory within a turn.
struct Access {
  int buffer = 0;
  bool written = false;
};

// What one of several kernels that are a launch reads and writes of the bindings that all of them have.
plan::KernelPlan WithOwnBindings(plan::KernelPlan part) {
  for (plan::Binding& b : part.bindings) b.read = b.written = false;
  const auto at = [&](int buffer) -> plan::Binding& { return part.bindings[static_cast<std::size_t>(buffer)]; };
  plan::ForEachProgram(part.body, [&](const plan::ElementProgram& program) {
    for (const plan::Node& n : program.nodes)
      if (n.op == plan::NodeOp::kLoad) at(n.buffer).read = true;
    for (const plan::Store& s : program.stores) at(s.buffer).written = true;
  });
  if (const auto* dot = std::get_if<plan::DotKernel>(&part.body)) {
    if (!dot->computes_lhs()) at(dot->lhs_binding).read = true;
    if (!dot->computes_rhs()) at(dot->rhs_binding).read = true;
  }
  return part;
}

// Calls visit(kernel) for each of the kernels that a launch is, one after the other.
Result<> ForEachPart(const plan::KernelPlan& kernel, const std::function<Result<>(const plan::KernelPlan&)>& visit) {
  const auto* horizontal = std::get_if<plan::HorizontalKernel>(&kernel.body);
  if (horizontal == nullptr) return visit(kernel);
  for (plan::KernelPlan& part : plan::PartsOfHorizontal(kernel, *horizontal))
    KRAFLA_TRY(visit(WithOwnBindings(std::move(part))));
  return {};
}

// More blocks are seldom, and each costs a turn a comparison.
constexpr std::size_t kMostBlocks = 48;

class LoopNest {
 public:
  LoopNest(const plan::ProgramPlan& plan, const DeviceProfile& profile, const Tuning& tuning)
      : plan_(plan), profile_(profile), device_tuning_(tuning), tuning_(tuning.loop_nest), uncounted_(plan) {}

  Result<EmittedLoop> Emit(const plan::WhileStep& loop) {
    KRAFLA_ASSIGN(const Cost turn, LookAtTurn(loop));
    if (longest_step_ns_ > tuning_.most_step_ns && turn.ns > turn.launched_ns)
      return Unimplemented("A step of the loop has too much to do for one workgroup.");
    const double turn_ns = turn.ns;
    plan::LoopBlocks cut;
    if (HasUncounted(loop)) { KRAFLA_ASSIGN(cut, plan::BlocksOf(plan_, uncounted_, loop, kMostBlocks)); }
    ChooseCopies(!cut.blocks.empty());
    const uint32_t subgroup = FixedSubgroupSize(profile_);
    if (widest_ > 1) {
      const uint32_t least = tuning_.least_lanes, most = std::max(tuning_.most_lanes, least);
      const uint32_t wanted =
          tuning_.one_subgroup
              ? std::max(subgroup, least)
              : std::clamp(std::bit_ceil(static_cast<uint32_t>(std::min<int64_t>(widest_, most))), least, most);
      local_ = std::bit_floor(WorkgroupSize(profile_, wanted));
    }
    const bool is_subgroup = subgroup == local_;
    std::vector<BufferDesc> state;
    if (!cut.blocks.empty())
      state.push_back({.element_count = 1, .element_bytes = static_cast<int>(kLoopStateBytes), .written = true});
    KernelWriter w(merged_, profile_, device_tuning_, std::move(state), cut.blocks.empty() ? 1 : 2);
    w_ = &w;
    b_ = &w.b;
    Builder& b = w.b;
    if (w.m.vulkan_memory_model()) return Unimplemented("Loops are made for the older memory model.");
    subgroup_ = is_subgroup ? subgroup : 0;
    w.buffers.MakeCoherent();
    for (std::size_t i = 0; i < slices_.size(); ++i)
      if (has_copies_[i]) w.buffers.KeepCopies(static_cast<int>(i));
    const Value most = w.buffers.PushWord(0);
    if (!cut.blocks.empty()) EmitBlocks(cut, most);
    else if (loop.trip_count) b.For(b.U32(0), most, b.U32(1), [&](Value) { EmitTurn(*loop.body); });
    else EmitUncounted(loop, most);
    if (local_ > 1) b.If(b.Compare(Cmp::kEq, b.LocalIndex(), b.U32(0)), [&] { w.buffers.StoreCopies(); });
    else w.buffers.StoreCopies();
    if (shared_bytes_ > profile_.limits.max_shared_memory_bytes)
      return Unimplemented("The loop's reductions need {} bytes of shared memory.", shared_bytes_);
    EmittedLoop out;
    EmittedKernel kernel = w.Finish({local_, 1, 1}, "while.workgroup");
    if (is_subgroup && local_ > 1) RequireSubgroups(kernel, profile_, subgroup);
    KRAFLA_TRY(CheckBufferCount(kernel, profile_));
    out.launches.push_back({std::move(kernel), {1, 1, 1}, turn_ns * 1e-6});
    out.slices = std::move(slices_);
    out.resumes = !cut.blocks.empty();
    out.most_turns = std::clamp<int64_t>(static_cast<int64_t>(kLoopLaunchNs / turn_ns), 1, int64_t{1} << 30);
    return out;
  }

 private:
  // ---- Looking

  int BufferOf(const Slice& slice) const {
    return static_cast<int>(std::ranges::find(slices_, slice) - slices_.begin());
  }
  // `by_all`: where it is stored to, it has one element and every invocation may compute and store that for itself.
  void Look(const Slice& slice, ElementType storage, int64_t count, bool written, bool by_all) {
    const auto at = static_cast<std::size_t>(BufferOf(slice));
    if (at == slices_.size()) {
      slices_.push_back(slice);
      merged_.bindings.push_back({storage, count, true, false});
      has_copies_.push_back(count == 1 && StorageBytes(storage) == slice.size);
    }
    plan::Binding& binding = merged_.bindings[at];
    binding.written = binding.written || written;
    if (count != 1 || StorageBytes(storage) != slice.size || (written && !by_all)) has_copies_[at] = false;
    // Elements of one size are read as any type. Where sizes differ, the buffer is one of bytes.
    if (StorageBytes(binding.storage) != StorageBytes(storage))
      binding = {ElementType::kU8, slice.size, true, binding.written};
  }
  // Where a launch may end within a turn, what has ended its life must not be put back over what lives.
  void ChooseCopies(bool resumes) {
    const auto share = [&](const Slice& a, const Slice& b) {
      return resumes ? ExtentOf(plan_, a).Overlaps(ExtentOf(plan_, b)) : plan::ShareBytes(plan_, a, b);
    };
    for (std::size_t i = 0; i < slices_.size(); ++i)
      for (std::size_t j = 0; j < slices_.size(); ++j)
        if (i != j && share(slices_[i], slices_[j])) has_copies_[i] = false;
  }

  // Estimated nanoseconds: in one workgroup, and of the launches that would be made instead, without what they do.
  struct Cost {
    double ns = 0, launched_ns = 0;
    Cost& operator+=(const Cost& c) {
      ns += c.ns, launched_ns += c.launched_ns;
      return *this;
    }
  };

  bool HasUncounted(const plan::WhileStep& loop) { return uncounted_.In(*loop.condition) || uncounted_.In(*loop.body); }

  // Looks at the steps of one turn, in which loops of unknown counts turn once.
  Result<Cost> LookAtTurn(const plan::WhileStep& loop) {
    Cost cost{20, 0};
    if (!loop.trip_count || HasUncounted(loop)) {
      Look(loop.predicate, ElementType::kPred, 1, false, true);
      KRAFLA_ASSIGN(const Cost condition, LookAt(*loop.condition));
      cost += condition;
    }
    KRAFLA_ASSIGN(const Cost body, LookAt(*loop.body));
    cost += body;
    return cost;
  }

  // Of `points` points of so many operations each, which one workgroup shares.
  Cost CostOf(double points, double operations) {
    const double rounds = std::ceil(points / static_cast<double>(tuning_.points_at_once));
    const double ns = tuning_.step_ns + tuning_.point_ns * rounds + tuning_.operation_ns * rounds * operations;
    longest_step_ns_ = std::max(longest_step_ns_, ns);
    return {ns, tuning_.launch_ns};
  }

  Result<Cost> LookAt(const plan::StepList& list) {
    Cost cost;
    for (const plan::Step& step : list.steps) {
      if (const auto* launch = std::get_if<plan::LaunchStep>(&step)) {
        KRAFLA_ASSIGN(const Cost more, LookAtLaunch(*launch));
        cost += more;
      } else if (const auto* copy = std::get_if<plan::CopyStep>(&step)) {
        const int bytes = BytesOfCopied(copy->from.size);
        const ElementType type = CopiedType(bytes);
        const int64_t count = copy->from.size / bytes;
        Look(copy->from, type, count, false, true);
        Look(copy->to, type, count, true, count == 1);
        widest_ = std::max(widest_, count);
        code_nodes_ += 10;
        cost += CostOf(static_cast<double>(count), 16);
      } else if (const auto* loop = std::get_if<plan::WhileStep>(&step)) {
        KRAFLA_ASSIGN(const Cost turn, LookAtTurn(*loop));
        if (uncounted_.In(step)) {
          cost += turn;
          continue;
        }
        const double turns = static_cast<double>(*loop->trip_count);
        // Where it takes less than its launches would, it is a kernel by itself.
        cost += {turn.ns * turns, std::min(turn.ns, turn.launched_ns) * turns};
        if (cost.ns > kLoopLaunchNs || *loop->trip_count > std::numeric_limits<int32_t>::max())
          return Unimplemented("A loop within the loop takes too long.");
      } else if (const auto* branch = std::get_if<plan::ConditionalStep>(&step)) {
        Look(branch->index, branch->index_is_pred ? ElementType::kPred : ElementType::kS32, 1, false, true);
        Cost longest;
        for (const auto& b : branch->branches) {
          KRAFLA_ASSIGN(const Cost of_branch, LookAt(*b));
          longest = {std::max(longest.ns, of_branch.ns), std::max(longest.launched_ns, of_branch.launched_ns)};
        }
        cost += longest;
      } else if (std::holds_alternative<plan::AwaitStep>(step)) {
        return Unimplemented("The loop has collectives.");
      } else if (std::holds_alternative<plan::RowGroupStep>(step)) {
        return Unimplemented("The loop has kernels that run block of rows by block of rows.");
      } else {
        KRAFLA_ASSIGN(const Cost of_call,
                      LookAt(plan_.callees[static_cast<std::size_t>(std::get<plan::CallStep>(step).callee)]));
        cost += of_call;
      }
      // Steps count too, because what is called is written out, and looked at, wherever it is called.
      if (++code_nodes_ > tuning_.most_nodes)
        return Unimplemented("The loop has more operations than one kernel takes.");
    }
    return cost;
  }

  Result<Cost> LookAtLaunch(const plan::LaunchStep& launch) {
    const plan::KernelPlan& kernel = plan_.kernels[static_cast<std::size_t>(launch.kernel)];
    KRAFLA_TRY(CanEmit(kernel, profile_));
    Cost cost;
    KRAFLA_TRY(ForEachPart(kernel, [&](const plan::KernelPlan& part) -> Result<> {
      KRAFLA_ASSIGN(const Cost of_part, LookAtPart(part, launch));
      cost += of_part;
      return {};
    }));
    cost.launched_ns = tuning_.launch_ns;
    return cost;
  }
  Result<Cost> LookAtPart(const plan::KernelPlan& kernel, const plan::LaunchStep& launch) {
    bool by_all = false;  // stores one element, which every invocation may do for itself
    double points = 0, operations = 0;
    if (const auto* loop = std::get_if<plan::LoopKernel>(&kernel.body)) {
      const int64_t count = Product(loop->program.space.dims());
      by_all = count == 1;
      points = static_cast<double>(count), operations = OperationsOf(loop->program);
      widest_ = std::max(widest_, count);
      code_nodes_ += std::ssize(loop->program.nodes);
    } else if (const auto* reduce = std::get_if<plan::ReduceKernel>(&kernel.body)) {
      if (reduce->stages.empty()) return Unimplemented("The reduction has no stages.");
      const int64_t rows = Product(reduce->row_dims), elements = Product(reduce->element_dims);
      by_all = rows == 1;
      for (const plan::ReduceStage& s : reduce->stages) {
        by_all = by_all && (s.scope == plan::ReduceStage::Scope::kRow || s.program.stores.empty());
        operations += OperationsOf(s.program) + 8;
        code_nodes_ += std::ssize(s.program.nodes) + 20;
      }
      points = static_cast<double>(rows) * static_cast<double>(elements);
      // Where rows lie side by side each invocation takes one.
      const int64_t lanes = tuning_.most_lanes;
      if (rows * 4 > lanes) points = static_cast<double>(std::max(rows, lanes)) * static_cast<double>(elements);
      widest_ = std::max({widest_, rows, elements > 16 ? elements : 1});
    } else if (const auto* dot = std::get_if<plan::DotKernel>(&kernel.body);
               dot != nullptr && !dot->computes_lhs() && !dot->computes_rhs()) {
      for (ElementType type : {dot->lhs_type, dot->rhs_type, dot->result_type}) KRAFLA_TRY(CheckType(type, profile_));
      const int64_t sums = Product(dot->batch) * dot->m * dot->n;
      by_all = sums == 1;
      points = static_cast<double>(sums);
      operations = NestSumsOperations(*dot, NestSumsAtOnce(*dot, device_tuning_.loop, tuning_.least_lanes));
      widest_ = std::max(widest_, sums);
      code_nodes_ += std::ssize(dot->epilogue.nodes) + 50;
    } else {
      return Unimplemented("A step of the loop is a kernel of the family '{}'.", plan::FamilyName(kernel));
    }
    for (std::size_t n = 0; n < launch.bindings.size(); ++n) {
      const plan::Binding& binding = kernel.bindings[n];
      if (binding.read || binding.written)
        Look(launch.bindings[n], binding.storage, binding.element_count, binding.written, by_all);
    }
    return CostOf(points, operations);
  }

  // ---- Barriers

  void Barrier() {
    if (touched_.empty()) return;
    if (subgroup_ > 1) b_->SubgroupBufferBarrier();
    else if (local_ > 1) b_->BufferBarrier();
    touched_.clear();
  }
  // Emits a barrier before these accesses, if they need one.
  void Order(std::span<const Access> accesses) {
    const auto in_memory = [&](const Access& a) { return !has_copies_[static_cast<std::size_t>(a.buffer)]; };
    const auto extent = [&](const Access& a) { return ExtentOf(plan_, slices_[static_cast<std::size_t>(a.buffer)]); };
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
    const Access access{BufferOf(slice), false};
    Order(std::span(&access, 1));
    return w_->buffers.Load(access.buffer, bytes, b_->U32(0), 1);
  }

  void EmitSteps(const plan::StepList& list) {
    for (const plan::Step& step : list.steps) EmitStep(step);
  }
  void EmitStep(const plan::Step& step) {
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
              b.If(b.Compare(Cmp::kEq, next, Number(n)),
                   [&] { GoTo(EmitBlock(cut.blocks[static_cast<std::size_t>(n)])); });
              ++n;
            }
          }
          return Values{b.Add(so_far, b.U32(1))};
        });
    return done[0];
  }
  int NextBlock() const { return static_cast<int>(slices_.size()); }
  Value Number(int block) { return b_->U32(static_cast<uint32_t>(block)); }
  void GoTo(Value block) { w_->buffers.Store(NextBlock(), 4, b_->U32(0), block); }

  // The number of the block that comes next.
  Value EmitBlock(const plan::LoopBlock& block) {
    Builder& b = *b_;
    for (const plan::Step* step : block.steps) EmitStep(*step);
    Value next;
    if (const auto* jump = std::get_if<plan::LoopBlock::Jump>(&block.end)) {
      next = Number(jump->next);
    } else if (const auto* test = std::get_if<plan::LoopBlock::Test>(&block.end)) {
      next = b.Select(b.Compare(Cmp::kNe, LoadWord(test->predicate, 1), b.U32(0)), Number(test->next_if_true),
                      Number(test->next_if_false));
    } else {
      const auto& choice = std::get<plan::LoopBlock::Choice>(block.end);
      const bool is_pred = choice.conditional->index_is_pred;
      const Value index = LoadWord(choice.conditional->index, is_pred ? 1 : 4);
      next = Number(choice.next.back());
      for (int n = static_cast<int>(choice.next.size()) - 1; n-- > 0;)
        next = b.Select(is_pred ? b.Compare(Cmp::kNe, index, b.U32(0)) : b.Compare(Cmp::kEq, index, Number(n)),
                        Number(choice.next[static_cast<std::size_t>(n)]), next);
    }
    Barrier();
    return next;
  }

  void EmitCopy(const plan::CopyStep& copy) {
    const Access accesses[] = {{BufferOf(copy.from), false}, {BufferOf(copy.to), true}};
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
      const bool copies = std::ranges::any_of(
          accesses, [&](const Access& a) { return a.written && has_copies_[static_cast<std::size_t>(a.buffer)]; });
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
      const int buffer = BufferOf(launch.bindings[n]);
      if (binding.read) accesses.push_back({buffer, false});
      if (binding.written) accesses.push_back({buffer, true});
    }
    Order(accesses);
    const auto renumber = [&](plan::ElementProgram& program) {
      plan::RenumberBuffers(program, [&](int b) { return BufferOf(launch.bindings[static_cast<std::size_t>(b)]); });
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
    } else {
      plan::DotKernel k = std::get<plan::DotKernel>(kernel.body);
      renumber(k.epilogue);
      k.lhs_binding = BufferOf(launch.bindings[static_cast<std::size_t>(k.lhs_binding)]);
      k.rhs_binding = BufferOf(launch.bindings[static_cast<std::size_t>(k.rhs_binding)]);
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
  plan::UncountedLoops uncounted_;
  std::vector<Slice> slices_;
  std::vector<bool> has_copies_;  // for each slice, whether each invocation has a copy of it
  plan::KernelPlan merged_;       // its bindings are the slices
  int64_t widest_ = 1;            // the most points of a step
  int64_t code_nodes_ = 0;
  double longest_step_ns_ = 0;
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
