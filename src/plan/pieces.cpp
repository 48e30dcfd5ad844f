// SPDX-License-Identifier: Apache-2.0
// Builds the kernels of a computation before any buffer is chosen, and finds who reads and who makes each value.
#include <algorithm>

#include "plan/kernel_builder.h"
#include "plan/module_planner.h"

namespace krafla::plan {

Result<> ModulePlanner::BuildPieces(Scope& scope) {
  std::unordered_set<const Instruction*> counted;
  for (FusionGroup& group : scope.fusion.groups) {
    Piece piece;
    piece.group = &group;
    piece.instructions = CountInstructions(scope.fusion, group, counted);
    if (scope.log != nullptr) LogGroup(scope.fusion, group);
    if (group.kind == FusionGroup::Kind::kConcatenate) {
      KRAFLA_ASSIGN(piece.kernels, KernelBuilder(scope.fusion, group).BuildConcatenate());
    } else if (group.kind == FusionGroup::Kind::kRng && group.heroes[0]->opcode() == Opcode::kRngGetAndUpdateState) {
      KernelBuilder counter(scope.fusion, group);
      KRAFLA_ASSIGN(BuiltKernel made, counter.BuildRngCounter());
      piece.kernels.push_back(std::move(made));
    } else if (group.kind == FusionGroup::Kind::kRng) {
      KernelBuilder bits(scope.fusion, group), state(scope.fusion, group);
      KRAFLA_ASSIGN(BuiltKernel made, bits.BuildRngBits());
      piece.kernels.push_back(std::move(made));
      KRAFLA_ASSIGN(made, state.BuildRngState());
      piece.kernels.push_back(std::move(made));
    } else if (!IsControl(group.kind)) {
      if (!group.kernel) { KRAFLA_ASSIGN(group.kernel, KernelBuilder(scope.fusion, group).Build()); }
      piece.kernels.push_back(std::move(*group.kernel));
      group.kernel.reset();
    }
    scope.pieces.push_back(std::move(piece));
  }
  for (std::size_t n = 0; n < scope.pieces.size(); ++n) {
    const Piece& piece = scope.pieces[n];
    int at = static_cast<int>(n);
    for (const BuiltKernel& kernel : piece.kernels)
      for (std::size_t b = 0; b < kernel.values.size(); ++b) {
        if (kernel.kernel.bindings[b].written) scope.maker.emplace(kernel.values[b], at);
        if (ReadsBinding(piece, kernel, b)) scope.readers[kernel.values[b]].push_back(at);
      }
    if (piece.kernels.empty() && !piece.group->heroes.empty()) {
      const Instruction* hero = piece.group->heroes[0];
      if (IsControl(piece.group->kind)) {
        for (const Instruction* o : hero->operands())
          for (const ValueRef& v : ArrayLeaves(o)) scope.readers[ResolveValue(v, true)].push_back(at);
        for (const ValueRef& v : ArrayLeaves(hero)) scope.maker.emplace(v, at);
      }
    }
    // An update in place reads the array that it updates.
    if (const Instruction* base = UpdatedOperand(piece)) {
      for (std::size_t k = 0; k < UpdatedCount(*base); ++k)
        scope.readers[ResolveValue({base->operand(k), 0}, true)].push_back(at);
    }
  }
  return {};
}

bool ModulePlanner::IsControl(FusionGroup::Kind kind) {
  return kind == FusionGroup::Kind::kWhile || kind == FusionGroup::Kind::kConditional ||
         kind == FusionGroup::Kind::kCall;
}

bool ModulePlanner::ReadsBinding(const Piece&, const BuiltKernel& kernel, std::size_t b) {
  // The outputs of a scatter are read and written; the read counts for the arrays that they start from.
  return kernel.kernel.bindings[b].read && !kernel.kernel.bindings[b].written;
}

const Instruction* ModulePlanner::UpdatedOperand(const Piece& piece) { return piece.group->update(); }

std::size_t ModulePlanner::UpdatedCount(const Instruction& i) {
  return i.opcode() == Opcode::kScatter ? (i.operand_count() - 1) / 2 : 1;
}

void ModulePlanner::LogGroup(const FusionPlan& fusion, const FusionGroup& group) {
  LoggedGroup& out = options_.fusion.log->groups.emplace_back();
  out.instruction = !group.roots.empty() ? group.roots.back() : group.heroes.back();
  out.kind = group.kind;
  out.made = group.heroes;
  out.made.insert(out.made.end(), group.roots.begin(), group.roots.end());
  const std::unordered_set<const Instruction*> own(out.made.begin(), out.made.end());
  std::vector<const Instruction*> stack = out.made;
  std::unordered_set<const Instruction*> seen;
  while (!stack.empty()) {
    const Instruction* i = stack.back();
    stack.pop_back();
    if (!seen.insert(i).second) continue;
    if (!own.contains(i) && fusion.HasBuffer({i, 0})) {
      out.reads.push_back(i);
      continue;
    }
    out.members.push_back(i);
    stack.insert(stack.end(), i->operands().begin(), i->operands().end());
  }
  std::ranges::sort(out.members, {}, &Instruction::id);
  std::ranges::sort(out.reads, {}, &Instruction::id);
}

int ModulePlanner::CountInstructions(const FusionPlan& fusion, const FusionGroup& group,
                                     std::unordered_set<const Instruction*>& counted) {
  int out = 0;
  std::vector<const Instruction*> stack(group.heroes.begin(), group.heroes.end());
  stack.insert(stack.end(), group.roots.begin(), group.roots.end());
  std::unordered_set<const Instruction*> own(stack.begin(), stack.end());
  while (!stack.empty()) {
    const Instruction* i = stack.back();
    stack.pop_back();
    if (!own.contains(i) && fusion.HasBuffer({i, 0})) continue;
    if (!counted.insert(i).second) continue;
    if (!IsOneOf(i->opcode(), {Opcode::kParameter, Opcode::kConstant, Opcode::kTuple, Opcode::kGetTupleElement})) ++out;
    stack.insert(stack.end(), i->operands().begin(), i->operands().end());
  }
  plan_.instruction_count += out;
  return out;
}

}  // namespace krafla::plan
