// SPDX-License-Identifier: Apache-2.0
// Instructions that only say something about scheduling, memory or sharding are their operand: copy, domain,
// add-dependency, copy-start/-done, the annotations of GSPMD and Shardy. A collective split into -start and -done
// becomes the collective: when it runs is the runtime's choice, from the dependencies.
#include <optional>

#include "ir/custom_call.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace krafla {

namespace {

// What partitioners and schedulers consume has nothing to say once a module is for one device
// (xla/service/spmd/shardy/constants.h, xla/service/sharding_propagation.cc, jax.experimental.control_deps). Of
// Shardy's targets only those that are known to hand on their operands; a sink for dead code keeps its operand alive.
enum class Meaning { kOperands, kNothing, kOwn };

Meaning MeaningOf(CustomCallTarget target) {
  switch (target) {
#define KRAFLA_ANNOTATION(Enum, name) case CustomCallTarget::Enum:
#include "ir/custom_call_targets.def"
    return Meaning::kOperands;
    case CustomCallTarget::kSdyShardingGroup:
    case CustomCallTarget::kControlDependency: return Meaning::kNothing;
    case CustomCallTarget::kDceSink:
#define KRAFLA_SDY_OTHER(Enum, name) case CustomCallTarget::Enum:
#define KRAFLA_COMPUTATION(Enum, name) case CustomCallTarget::Enum:
#define KRAFLA_READER_CALL(Enum, name) case CustomCallTarget::Enum:
#include "ir/custom_call_targets.def"
    case CustomCallTarget::kUnknown: return Meaning::kOwn;
  }
  KRAFLA_UNREACHABLE();
}

Instruction* SimplifyCustomCall(Instruction* i) {
  const Meaning meaning = MeaningOf(CustomCallTargetOf(*i));
  if (meaning == Meaning::kNothing && i->shape().IsTuple() && i->shape().tuple_elements().empty())
    return Rewriter(*i).Tuple({});
  if (meaning != Meaning::kOperands || i->operand_count() == 0) return nullptr;
  if (!i->shape().IsTuple() || (i->operand_count() == 1 && i->operand(0)->shape().IsTuple())) {
    if (i->operand_count() != 1 || !Shape::Compatible(i->operand(0)->shape(), i->shape())) return nullptr;
    return i->operand(0);
  }
  const std::vector<Shape>& results = i->shape().tuple_elements();
  if (results.size() != i->operand_count()) return nullptr;
  for (std::size_t n = 0; n < results.size(); ++n)
    if (!Shape::Compatible(results[n], i->operand(n)->shape())) return nullptr;
  return Rewriter(*i).Tuple({i->operands().begin(), i->operands().end()});
}

std::optional<Opcode> SynchronousForm(Opcode start) {
  if (start == Opcode::kAllReduceStart) return Opcode::kAllReduce;
  if (start == Opcode::kAllGatherStart) return Opcode::kAllGather;
  if (start == Opcode::kCollectivePermuteStart) return Opcode::kCollectivePermute;
  return std::nullopt;
}

Instruction* SimplifyDone(Instruction* done) {
  Instruction* start = done->operand(0);
  auto opcode = SynchronousForm(start->opcode());
  if (!opcode) return nullptr;
  return Rewriter(*start).Add(*opcode, done->shape(), {start->operands().begin(), start->operands().end()},
                              start->attributes(), {start->called().begin(), start->called().end()});
}

// A token that follows one thing is that thing's token; following nothing twice is following nothing.
Instruction* SimplifyAfterAll(Instruction* i) {
  std::vector<Instruction*> tokens;
  bool flatter = false;
  std::unordered_set<const Instruction*> seen;
  for (Instruction* token : i->operands()) {
    if (token->opcode() == Opcode::kAfterAll) {
      flatter = true;
      for (Instruction* inner : token->operands())
        if (seen.insert(inner).second) tokens.push_back(inner);
    } else if (seen.insert(token).second) {
      tokens.push_back(token);
    } else {
      flatter = true;
    }
  }
  if (tokens.size() == 1) return tokens[0];
  if (!flatter) return nullptr;
  return Rewriter(*i).Add(Opcode::kAfterAll, i->shape(), std::move(tokens));
}

Instruction* SimplifyStructure(Instruction* i) {
  Opcode op = i->opcode();
  // add-dependency: what has side effects keeps its order in any case.
  if (op == Opcode::kCopy || op == Opcode::kDomain || op == Opcode::kAddDependency) return i->operand(0);
  if (op == Opcode::kCopyDone)
    return i->operand(0)->opcode() == Opcode::kCopyStart ? i->operand(0)->operand(0) : nullptr;
  if (op == Opcode::kCustomCall) return SimplifyCustomCall(i);
  if (op == Opcode::kAllReduceDone || op == Opcode::kAllGatherDone || op == Opcode::kCollectivePermuteDone)
    return SimplifyDone(i);
  if (op == Opcode::kAfterAll) return SimplifyAfterAll(i);
  return nullptr;
}

}  // namespace

Result<bool> StructuralSimplifier(Module& module, const PassOptions&) {
  bool changed = false;
  SideEffects effects;
  // Not SweepModule: none of these looks at a dimension, so dynamic shapes may go through.
  for (Computation* c : ReachableComputations(module)) {
    KRAFLA_TRY(c->SortTopologically());
    std::vector<Instruction*> order, replaced;
    for (const auto& i : c->instructions()) order.push_back(i.get());
    for (Instruction* i : order) {
      Instruction* with = SimplifyStructure(i);
      if (with == nullptr) continue;
      Replace(i, with);
      replaced.push_back(i);
      changed = true;
    }
    // Annotations may be marked as having side effects, which would keep them.
    if (replaced.empty()) continue;
    c->RemoveAll(replaced);
    RemoveDead(*c, effects);  // a -start without its -done is not valid
    KRAFLA_TRY(c->SortTopologically());
  }
  return changed;
}

}  // namespace krafla
