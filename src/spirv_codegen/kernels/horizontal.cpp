// SPDX-License-Identifier: Apache-2.0
// HorizontalKernel: the code of all parts in one kernel, of whose workgroups each part has some. Parts of several
// dispatches (a split sum and its join) share each of them. A dot that follows another one has the workgroups of that
// one, where it comes behind it: both give an element to the same invocation. Rows at the beginning are computed by
// each workgroup, which keeps them in the memory that it shares.
#include <algorithm>
#include <bit>
#include <functional>

#include "plan/horizontal.h"
#include "plan/touched.h"
#include "spirv_codegen/kernels/dot.h"
#include "spirv_codegen/kernels/reduce_rows.h"

namespace krafla::spirv {
namespace {

int64_t GroupsOf(const EmittedDispatch& d) { return d.grid[0]; }

// The plan of a part as it is emitted: behind its bindings come the scratch buffers of the parts before it, so that its
// own ones have numbers of their own.
plan::KernelPlan Behind(plan::KernelPlan part, const std::vector<int64_t>& scratch) {
  for (int64_t bytes : scratch) part.bindings.push_back({ElementType::kU32, bytes / 4, true, true});
  return part;
}

// Why a part can be in no dispatch with others.
Refusal RefusesToJoin(const EmittedProgram& part, const EmittedProgram& first) {
  if (part.dispatches.empty()) return "nothing to do";
  if (part.dispatches.size() != first.dispatches.size()) return "other numbers of dispatches";
  if (!part.table.empty()) return "a table of constants";
  for (int64_t bytes : part.scratch_bytes)
    if (bytes % 4 != 0) return "scratch of no whole words";
  for (std::size_t d = 0; d < part.dispatches.size(); ++d) {
    const EmittedDispatch &own = part.dispatches[d], &other = first.dispatches[d];
    if (own.kernel != static_cast<int>(d) || own.kernel >= std::ssize(part.kernels)) return "a kernel that runs twice";
    if (own.grid[1] != 1 || own.grid[2] != 1) return "more workgroups than an axis has";
    const EmittedKernel &kernel = part.kernels[d],
                        &first_kernel = first.kernels[static_cast<std::size_t>(other.kernel)];
    if (kernel.push_words != 0) return "push constants";
    if (kernel.uses_cooperative_matrix) return "cooperative matrices";
    if (kernel.local_size != first_kernel.local_size) return "workgroups of different sizes";
    if (kernel.subgroup_size != first_kernel.subgroup_size || kernel.full_subgroups != first_kernel.full_subgroups)
      return "subgroups of different sizes";
  }
  return std::nullopt;
}

// The scratch of all parts is words to each of them.
bool HasWiderNumbers(const plan::KernelPlan& plan, const plan::HorizontalKernel& horizontal) {
  return std::ranges::any_of(plan.bindings, [](const plan::Binding& b) { return StorageBytes(b.storage) > 4; }) ||
         std::ranges::any_of(horizontal.parts, [](const plan::HorizontalKernel::Part& part) {
           const auto* dot = std::get_if<plan::DotKernel>(&part);
           return dot != nullptr && StorageBytes(dot->accumulate_type) > 4;
         });
}

// Whether all choices for the one dot are those for the other.
bool GoesAlike(const plan::DotKernel& first, const plan::DotKernel& second) {
  const DotProblem x(first, false), y(second, false);
  const auto lie_alike = [](const StridedMatrix& a, const StridedMatrix& b) {
    return a.type == b.type && a.row_stride == b.row_stride && a.column_stride == b.column_stride &&
           a.offset_granule == b.offset_granule;
  };
  return lie_alike(x.a, y.a) && lie_alike(x.b, y.b) &&
         (x.a_program.program != nullptr) == (y.a_program.program != nullptr) &&
         (x.b_program.program != nullptr) == (y.b_program.program != nullptr);
}

Refusal RefusesToFollow(const EmittedProgram& part, const EmittedProgram& followed) {
  for (std::size_t d = 0; d < part.dispatches.size(); ++d)
    if (part.dispatches[d].grid != followed.dispatches[d].grid ||
        part.kernels[d].variant != followed.kernels[d].variant)
      return "another way to go through its elements than the part that it follows";
  return std::nullopt;
}

struct JointParts {
  std::vector<plan::KernelPlan> plans;
  std::vector<EmittedProgram> alone;  // each as it is on its own
  std::vector<int64_t> scratch;
};

// From part `first` on.
Result<JointParts> EmitAlone(const plan::KernelPlan& plan, const plan::HorizontalKernel& horizontal,
                             const Target& target, std::size_t first) {
  JointParts out;
  std::vector<plan::KernelPlan> parts = plan::PartsOfHorizontal(plan, horizontal);
  for (std::size_t p = first; p < parts.size(); ++p) {
    out.plans.push_back(Behind(std::move(parts[p]), out.scratch));
    KRAFLA_ASSIGN(EmittedProgram alone, EmitFamily(out.plans.back(), target));
    out.scratch.insert(out.scratch.end(), alone.scratch_bytes.begin(), alone.scratch_bytes.end());
    out.alone.push_back(std::move(alone));
  }
  return out;
}

// The rows before the parts, which each workgroup of the first dispatch computes.
class RowsBefore {
 public:
  RowsBefore(const plan::KernelPlan& plan, const plan::ReduceKernel& rows)
      : plan_(plan), rows_(rows), problem_(MeasureReduce(rows)) {
    for (const plan::ReduceStage& stage : rows.stages)
      for (const plan::Store& store : stage.program.stores) stored_ = store.buffer;
  }

  Refusal Refuses(const JointParts& parts, const Target& target) const {
    if (stored_ < 0 || plan_.bindings[static_cast<std::size_t>(stored_)].element_count == 0) return "no rows";
    if (StorageBytes(plan_.bindings[static_cast<std::size_t>(stored_)].storage) > 4) return "rows of wider numbers";
    for (const plan::ReduceStage& stage : rows_.stages)
      for (const plan::Node& n : stage.program.nodes)
        if (n.op == plan::NodeOp::kLoad && n.buffer == stored_) return "rows that read what they have stored";
    if (!std::has_single_bit(parts.alone.front().kernels[0].local_size[0])) return "workgroups of an odd size";
    double groups = 0, moved = 0;
    for (std::size_t p = 0; p < parts.alone.size(); ++p) {
      groups += static_cast<double>(GroupsOf(parts.alone[p].dispatches[0]));
      moved += parts.plans[p].bytes;
      for (std::size_t d = 1; d < parts.alone[p].kernels.size(); ++d)
        for (const EmittedKernel::BufferUse& buffer : parts.alone[p].kernels[d].buffers)
          if (buffer.buffer == stored_) return "rows that a later dispatch reads";
    }
    plan::KernelPlan alone = plan_;
    alone.body = rows_;
    if (groups * plan::BytesMoved(alone) > target.tuning.dot.row_share * moved)
      return "rows that its workgroups would read too often";
    return std::nullopt;
  }

  // `local`, `subgroup`: of the workgroups.
  void Write(KernelModule& module, const Target& target, uint32_t local, uint32_t subgroup) const {
    KernelWriter w(plan_, target.profile, target.tuning, {}, 0, &module);
    w.buffers.KeepInWorkgroup(stored_);
    RowEmitter emitter(w, rows_, problem_, RowOwner::kWorkgroup, local, subgroup, /*row_width=*/1);
    for (int64_t row = 0; row < problem_.rows; ++row) {
      ReduceWork work;
      work.row = w.b.U32(static_cast<uint32_t>(row));
      work.begin = w.b.U32(0);
      work.end = w.b.U32(static_cast<uint32_t>(problem_.elements));
      work.store_limit = w.b.Compare(Cmp::kEq, w.b.LocalIndex(), w.b.U32(0));
      emitter.EmitRow(work);
    }
    w.b.WorkgroupBarrier();
  }

 private:
  const plan::KernelPlan& plan_;
  const plan::ReduceKernel& rows_;
  const ReduceProblem problem_;
  int stored_ = -1;
};

// Writes a part into all modules, each under the condition that the workgroup is one of the part's.
Result<> WritePart(const JointParts& parts, std::size_t p, const std::vector<int64_t>& first, JointKernels& joint,
                   const Target& target) {
  const EmittedProgram& alone = parts.alone[p];
  Target into = target;
  into.joint = &joint;
  joint.StartPart();
  Result<EmittedProgram> written = EmittedProgram{};
  const std::function<void(std::size_t)> within = [&](std::size_t d) {
    if (d == joint.modules.size()) {
      written = EmitFamily(parts.plans[p], into);
      return;
    }
    Builder& b = joint.modules[d]->b;
    b.NumberGroupsFrom(0);
    const Value group = b.WorkgroupId(0);
    const auto begin = static_cast<uint32_t>(first[d]), end = begin + alone.dispatches[d].grid[0];
    b.NumberGroupsFrom(begin);
    Value is_own = b.Compare(Cmp::kULt, group, b.U32(end));
    if (begin > 0) is_own = b.LAnd(is_own, b.LNot(b.Compare(Cmp::kULt, group, b.U32(begin))));
    b.If(is_own, [&] { within(d + 1); });
  };
  within(0);
  if (!written) return Failure(std::move(written).error());
  if (written->dispatches.size() != alone.dispatches.size() || joint.Next() != nullptr)
    return Internal("The part {} of kernel '{}' has other dispatches in a joint kernel.", p, parts.plans[p].name);
  return {};
}

EmittedProgram FinishJoint(const JointParts& parts, JointKernels& joint, const std::vector<int64_t>& groups) {
  EmittedProgram out;
  out.scratch_bytes = parts.scratch;
  for (std::size_t d = 0; d < joint.modules.size(); ++d) {
    KernelModule& module = *joint.modules[d];
    const EmittedKernel& like = parts.alone[0].kernels[d];
    EmittedKernel kernel;
    kernel.local_size = like.local_size;
    kernel.subgroup_size = like.subgroup_size;
    kernel.full_subgroups = like.full_subgroups;
    kernel.uses_buffer_device_address = module.buffers.uses_addresses();
    for (const Buffers::Use& use : module.buffers.Finish())
      kernel.buffers.push_back({use.buffer, use.read, use.written});
    EmittedDispatch dispatch{static_cast<int>(d), {static_cast<uint32_t>(groups[d]), 1, 1}, {}};
    dispatch.share = 0;
    for (const EmittedProgram& alone : parts.alone) {
      const EmittedKernel& own = alone.kernels[d];
      kernel.variant += Format("{}{}", kernel.variant.empty() ? "" : "+", own.variant);
      if (!own.reason.empty()) kernel.reason += Format("{}{}", kernel.reason.empty() ? "" : " | ", own.reason);
      dispatch.share += alone.dispatches[d].share;
    }
    kernel.words = module.m.Finish(like.local_size);
    out.kernels.push_back(std::move(kernel));
    out.dispatches.push_back(std::move(dispatch));
  }
  return out;
}

}  // namespace

Result<EmittedProgram> EmitJointly(const plan::KernelPlan& plan, const plan::HorizontalKernel& horizontal,
                                   const Target& target) {
  const std::size_t before = horizontal.begins_with_rows ? 1 : 0;
  KRAFLA_ASSIGN(const JointParts parts, EmitAlone(plan, horizontal, target, before));
  const EmittedProgram& first = parts.alone.front();
  for (const EmittedProgram& part : parts.alone)
    if (const Refusal why = RefusesToJoin(part, first)) return Unimplemented("A part of the kernel has {}.", *why);
  std::vector<int> follows = plan::FollowedParts(horizontal);
  follows.erase(follows.begin(), follows.begin() + static_cast<std::ptrdiff_t>(before));
  for (std::size_t p = 0; p < follows.size(); ++p) {
    if (follows[p] < 0) continue;
    follows[p] -= static_cast<int>(before);
    const auto followed = static_cast<std::size_t>(follows[p]);
    if (const Refusal why = RefusesToFollow(parts.alone[p], parts.alone[followed]))
      return Unimplemented("A part of the kernel has {}.", *why);
    if (!GoesAlike(std::get<plan::DotKernel>(horizontal.parts[followed + before]),
                   std::get<plan::DotKernel>(horizontal.parts[p + before])))
      return Unimplemented("A part of the kernel lies otherwise in memory than the one that it follows.");
  }
  if (!parts.scratch.empty() && HasWiderNumbers(plan, horizontal))
    return Unimplemented("A part of the kernel has scratch of wider numbers.");
  std::vector<BufferDesc> buffers;
  for (const plan::Binding& b : plan.bindings) buffers.push_back({b.element_count, StorageBytes(b.storage), b.written});
  for (int64_t bytes : parts.scratch) buffers.push_back({bytes / 4, 4, true});
  JointKernels joint;
  for (std::size_t d = 0; d < first.dispatches.size(); ++d)
    joint.modules.push_back(std::make_unique<KernelModule>(target.profile, buffers, target.tuning, 0));
  if (before == 1) {
    const RowsBefore rows(plan, std::get<plan::ReduceKernel>(horizontal.parts[0]));
    if (const Refusal why = rows.Refuses(parts, target)) return Unimplemented("The kernel has {}.", *why);
    const EmittedKernel& like = first.kernels[0];
    rows.Write(*joint.modules[0], target, like.local_size[0], like.subgroup_size);
  }
  std::vector<int64_t> groups(joint.modules.size(), 0);
  std::vector<std::vector<int64_t>> begins;  // of the parts: their first workgroups
  for (std::size_t p = 0; p < parts.alone.size(); ++p) {
    begins.push_back(follows[p] < 0 ? groups : begins[static_cast<std::size_t>(follows[p])]);
    KRAFLA_TRY(WritePart(parts, p, begins[p], joint, target));
    if (follows[p] >= 0) continue;
    for (std::size_t d = 0; d < groups.size(); ++d) groups[d] += GroupsOf(parts.alone[p].dispatches[d]);
  }
  for (std::size_t d = 0; d < groups.size(); ++d) {
    if (groups[d] > target.profile.limits.max_workgroup_count[0])
      return Unimplemented("The parts of the kernel have {} workgroups, more than the {} of {}.", groups[d],
                           target.profile.limits.max_workgroup_count[0], target.profile.name);
    if (joint.modules[d]->b.shared_bytes() > target.profile.limits.max_shared_memory_bytes)
      return Unimplemented("The parts of the kernel share {} bytes, more than the {} of {}.",
                           joint.modules[d]->b.shared_bytes(), target.profile.limits.max_shared_memory_bytes,
                           target.profile.name);
  }
  EmittedProgram out = FinishJoint(parts, joint, groups);
  if (before == 1) out.kernels[0].variant = "rows+" + out.kernels[0].variant;
  return out;
}

// Planners ask whether the parts can be one, but for a tuning of the kernel's own: then they follow one another.
Result<EmittedProgram> EmitHorizontal(const plan::KernelPlan& plan, const plan::HorizontalKernel& horizontal,
                                      const Target& target) {
  if (Result<EmittedProgram> joint = EmitJointly(plan, horizontal, target)) return joint;
  KRAFLA_ASSIGN(JointParts parts, EmitAlone(plan, horizontal, target, 0));
  EmittedProgram out;
  out.scratch_bytes = parts.scratch;
  for (EmittedProgram& part : parts.alone) {
    if (!part.table.empty()) return Unimplemented("A part of the kernel has a table of constants.");
    const auto first = static_cast<int>(out.kernels.size());
    for (EmittedKernel& kernel : part.kernels) out.kernels.push_back(std::move(kernel));
    for (EmittedDispatch& dispatch : part.dispatches) {
      dispatch.kernel += first;
      out.dispatches.push_back(std::move(dispatch));
    }
  }
  return out;
}

}  // namespace krafla::spirv
