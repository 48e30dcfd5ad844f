// SPDX-License-Identifier: Apache-2.0
// Tuples, which are their leaves; calls, loops and branches; what begins and ends, which happens where it begins.
#include "hlo_io/hlo_text/lexer.h"
#include "hlo_io/stablehlo/tree_builder.h"
#include "ir/value_names.h"

namespace krafla::stablehlo {
namespace {

std::vector<Leaves> LeavesOfOperands(const TreeBuilder& b, const Instruction& i, const Scope& scope) {
  std::vector<Leaves> out;
  for (const Instruction* operand : i.operands()) out.push_back(b.LeavesOf(scope, operand));
  return out;
}

Result<> WriteElement(TreeBuilder& b, const Instruction& i, Scope& scope) {
  const Instruction& tuple = *i.operand(0);
  const Leaves& leaves = b.LeavesOf(scope, &tuple);
  if (leaves.size() != LeafCount(tuple.shape()))
    return Unimplemented("What begins an operation can only be ended in StableHLO, not looked into.");
  const auto first =
      leaves.begin() + tuple.shape().FirstLeaf(static_cast<std::size_t>(i.attr<TupleIndexAttributes>().index));
  b.Bind(i, scope, Leaves(first, first + i.shape().leaf_count()));
  return {};
}

Result<> WriteLoop(TreeBuilder& b, const Instruction& i, Scope& scope) {
  KRAFLA_ASSIGN(std::vector<Region> regions, b.RegionsOf(i));
  return b.Emit(i, scope, "while", b.OperandLeaves(i, scope), {}, std::move(regions));
}

Result<> WriteBranches(TreeBuilder& b, const Instruction& i, Scope& scope) {
  std::vector<Region> regions;
  for (std::size_t n = 0; n < i.called().size(); ++n) {
    const Leaves argument = b.LeavesOf(scope, i.operand(n + 1));
    KRAFLA_ASSIGN(Region region, b.RegionOn(*i.called(n), std::span(&argument, 1)));
    regions.push_back(std::move(region));
  }
  const bool two = i.operand(0)->shape().element_type() == ElementType::kPred;
  return b.Emit(i, scope, two ? "if" : "case", {b.LeavesOf(scope, i.operand(0))[0]}, {}, std::move(regions));
}

Result<> WriteCall(TreeBuilder& b, const Instruction& i, Scope& scope) {
  KRAFLA_ASSIGN(std::string symbol, b.FunctionOf(*i.called(0)));
  if (!i.attr<CallAttributes>().is_composite)
    return b.Emit(i, scope, "call", b.OperandLeaves(i, scope), {{"callee", b.Text(symbol)}});
  AttributeRef attributes = nullptr;
  std::string name;
  int64_t version = 0;
  for (const auto& [key, value] : hlo_text::FrontendAttributesIn(i.metadata().frontend_attributes)) {
    if (key == "composite.name") name = value;
    if (key == "composite.version") hlo_text::ParseInt64(value, &version);
    if (key != "composite.attributes") continue;
    attributes = b.DictionaryIn(value);
    if (attributes == nullptr)
      return Unimplemented("The attributes of the composite are not a dictionary of MLIR: {}.", value.substr(0, 80));
  }
  return b.Emit(i, scope, "composite", b.OperandLeaves(i, scope),
                {{"composite_attributes", attributes != nullptr ? attributes : b.Dictionary({})},
                 {"decomposition", b.Text(symbol)},
                 {"name", b.Text(name)},
                 {"version", b.Integer(version, ElementType::kS32)}});
}

// The value after a token: nothing else orders the two.
Result<> WriteDependency(TreeBuilder& b, const Instruction& i, Scope& scope) {
  Op barrier;
  barrier.name = "optimization_barrier";
  barrier.operands = b.OperandLeaves(i, scope);
  for (const Instruction* operand : i.operands())
    for (const Shape* leaf : TupleLeaves(operand->shape())) {
      KRAFLA_ASSIGN(ValueId value, b.NewValue(*leaf));
      barrier.results.push_back(value);
    }
  b.Bind(i, scope, Leaves(barrier.results.begin(), barrier.results.begin() + i.shape().leaf_count()));
  scope.region->ops.push_back(std::move(barrier));
  return {};
}

// What is given on as it is. Copies differ in where they lie, domains in what is said of them; what was begun has
// happened.
Result<> GiveOn(TreeBuilder& b, const Instruction& i, Scope& scope) {
  b.Bind(i, scope, b.OperandLeaves(i, scope));
  return {};
}

Result<> WriteInPlace(TreeBuilder& b, const Instruction& i, Scope& scope) {
  KRAFLA_ASSIGN(Leaves leaves, b.WriteOut(*i.called(0), LeavesOfOperands(b, i, scope), *scope.region));
  b.Bind(i, scope, std::move(leaves));
  return {};
}

Result<> WriteOfValues(TreeBuilder& b, const Instruction& i, Scope& scope) {
  return b.Emit(i, scope, GetOpInfo(i.opcode()).stablehlo_name, b.OperandLeaves(i, scope));
}

constexpr OpcodeWriter kStructureRows[] = {{Opcode::kAddDependency, WriteDependency},
                                           {Opcode::kAfterAll, WriteOfValues},
                                           {Opcode::kAllGatherDone, GiveOn},
                                           {Opcode::kAllReduceDone, GiveOn},
                                           {Opcode::kAsyncDone, GiveOn},
                                           {Opcode::kAsyncStart, WriteInPlace},
                                           {Opcode::kAsyncUpdate, GiveOn},
                                           {Opcode::kCall, WriteCall},
                                           {Opcode::kCollectivePermuteDone, GiveOn},
                                           {Opcode::kConditional, WriteBranches},
                                           {Opcode::kCopy, GiveOn},
                                           {Opcode::kCopyDone, GiveOn},
                                           {Opcode::kCopyStart, GiveOn},
                                           {Opcode::kDomain, GiveOn},
                                           {Opcode::kFusion, WriteInPlace},
                                           {Opcode::kGetTupleElement, WriteElement},
                                           {Opcode::kOptimizationBarrier, WriteOfValues},
                                           {Opcode::kRecvDone, GiveOn},
                                           {Opcode::kSendDone, GiveOn},
                                           {Opcode::kTuple, GiveOn},
                                           {Opcode::kWhile, WriteLoop}};

}  // namespace

Result<bool> WriteStructure(TreeBuilder& b, const Instruction& i, Scope& scope) {
  return WriteByRow(kStructureRows, b, i, scope);
}

}  // namespace krafla::stablehlo
