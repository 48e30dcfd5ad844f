// SPDX-License-Identifier: Apache-2.0
#include "passes/spmd/spmd_walk.h"

#include <algorithm>

#include "ir/builder.h"
#include "passes/spmd/spmd_parts.h"

namespace krafla::spmd {

Result<Value> Walk::Run(const Computation& from, std::vector<Value> arguments, const Region* region, Emitter& emitter,
                        std::span<const Sharding> results) {
  constexpr int kMostCalls = 256;
  if (depth_ >= kMostCalls)
    return Unimplemented("Computations call each other deeper than the limit of {} of a program to be partitioned.",
                         kMostCalls);
  ++depth_;
  Scope scope{{}, std::move(arguments), region, emitter, {}, {}, {}};
  KRAFLA_TRY(FindGroups(from, scope));
  KRAFLA_ASSIGN(scope.wanted, FindWanted(from, results));
  for (const auto& i : from.instructions()) {
    emitter.set_origin(i.get());
    auto made = Step(*i, scope);
    if (made)
      if (auto alike = CutAlike(*i, *made, scope); !alike) made = Failure(std::move(alike).error());
    if (!made) return Failure(std::move(made).error().WithContext(Format("while partitioning {}", Describe(*i))));
    if (static_cast<int64_t>(emitter.out().instructions().size()) > options_.max_instructions)
      return ResourceExhausted("The program has more than {} instructions once it is partitioned.",
                               options_.max_instructions);
    // Operations of a device come in the order in which the program has them.
    if (!made->is_tuple && !i->control_predecessors().empty())
      for (const Instruction* before : i->control_predecessors()) {
        auto it = scope.values.find(before);
        if (it != scope.values.end() && !it->second.is_tuple && it->second.local != made->local)
          made->local->AddControlPredecessor(it->second.local);
      }
    SetSizes(*made, i->shape());
    scope.values[i.get()] = std::move(*made);
  }
  --depth_;
  return scope.values.at(from.root());
}

Result<Value> Walk::Step(const Instruction& i, Scope& scope) {
  Emitter& emitter = scope.emitter;
  if (i.opcode() == Opcode::kParameter) {
    const auto number = static_cast<std::size_t>(i.attr<ParameterAttributes>().number);
    if (number >= scope.arguments.size())
      return InvalidArgument("Parameter {} is given no value; {} are.", number, scope.arguments.size());
    return scope.arguments[number];
  }
  if (i.opcode() == Opcode::kCustomCall) {
    KRAFLA_ASSIGN(std::optional<Value> annotated, Annotation(i, scope));
    if (annotated) return std::move(*annotated);
    KRAFLA_ASSIGN(std::optional<Value> cut, CustomPartition(i, scope));
    if (cut) return std::move(*cut);
  }
  if (i.opcode() == Opcode::kGetTupleElement) {
    const auto index = static_cast<std::size_t>(i.attr<TupleIndexAttributes>().index);
    const Value& tuple = scope.values.at(i.operand(0));
    if (!tuple.is_tuple || index >= tuple.elements.size()) return Internal("The tuple has no element {}.", index);
    return tuple.elements[index];
  }
  std::vector<Value> operands;
  const Region* region = scope.region;
  for (const Instruction* o : i.operands()) {
    operands.push_back(scope.values.at(o));
    region = Deepest(region, RegionOf(operands.back()));
  }
  if (i.opcode() == Opcode::kTuple) {
    Value out;
    out.is_tuple = true;
    out.elements = std::move(operands);
    return out;
  }
  if (i.opcode() == Opcode::kCall) return Call(i, std::move(operands), scope);
  if (i.opcode() == Opcode::kWhile) return While(i, std::move(operands[0]), region, emitter);
  if (i.opcode() == Opcode::kConditional) return Conditional(i, std::move(operands), region, emitter);
  if (i.opcode() == Opcode::kDomain) return std::move(operands[0]);
  if (i.opcode() == Opcode::kOptimizationBarrier) return Barrier(i, std::move(operands), emitter);
  if (PartsThrough(i, operands).empty()) {
    // Added up once, whoever else needs it.
    for (std::size_t o = 0; o < operands.size(); ++o) {
      if (operands[o].is_tuple || operands[o].unreduced.empty()) continue;
      KRAFLA_ASSIGN(operands[o], emitter.Settle(scope.values.at(i.operand(o))));
      scope.values.at(i.operand(o)) = operands[o];
    }
  }
  const ValueOf value_of = [&](const Instruction* of) {
    const auto known = scope.values.find(of);
    return known == scope.values.end() ? nullptr : &known->second;
  };
  KRAFLA_ASSIGN(std::optional<Value> moved, MoveRows(i, value_of, region, emitter));
  if (moved) return std::move(*moved);
  KRAFLA_TRY(CutBefore(i, scope.wanted, operands, region, emitter));
  return Plain(i, std::move(operands), region, scope.wanted, emitter);
}

Result<Value> Walk::Plain(const Instruction& i, std::vector<Value> operands, const Region* region, const Wanted& wanted,
                          Emitter& emitter) {
  for (Value& v : operands) { KRAFLA_ASSIGN(v, InRegion(std::move(v), region, emitter)); }
  // Parts of a sum become parts of another: as in a region where each device works for itself.
  if (const std::vector<Split> parts = PartsThrough(i, operands); !parts.empty()) {
    const Region* within = RegionAlong(region, parts);
    if (std::ranges::all_of(operands, [&](const Value& v) { return Covers(v.dims, within, devices()); })) {
      for (Value& v : operands) {
        v.unreduced.clear();
        v.region = within;
      }
      KRAFLA_ASSIGN(Value out, OnBlocks(i, std::move(operands), within, {}, emitter));
      out.region = region;
      out.unreduced = parts;
      return out;
    }
  }
  for (Value& v : operands) { KRAFLA_ASSIGN(v, emitter.Settle(std::move(v))); }
  Wishes wishes;
  KRAFLA_ASSIGN(wishes.parts, PartsWanted(i));
  if (const auto known = wanted.find(&i); known != wanted.end()) wishes.cut = known->second;
  wishes.open = OpenDims(i);
  return OnBlocks(i, std::move(operands), region, wishes, emitter);
}

Result<Value> Walk::OnBlocks(const Instruction& i, std::vector<Value> operands, const Region* region,
                             const Wishes& wishes, Emitter& emitter) {
  if (std::ranges::none_of(operands, [](const Value& v) { return v.is_tuple; })) {
    KRAFLA_ASSIGN(std::optional<Value> by_blocks, DoByBlocks(i, operands, region, wishes, emitter));
    if (by_blocks) return std::move(*by_blocks);
  }
  std::vector<Instruction*> whole;
  for (std::size_t o = 0; o < operands.size(); ++o) {
    KRAFLA_ASSIGN(Value value, emitter.Whole(std::move(operands[o])));
    KRAFLA_ASSIGN(Instruction * one, emitter.Materialize(value));
    // A bitcast means the layout that its operand was written with.
    if (i.opcode() == Opcode::kBitcast && !(one->shape() == i.operand(o)->shape()))
      one = emitter.out().Add(Opcode::kCopy, i.operand(o)->shape(), {one});
    whole.push_back(one);
  }
  return emitter.TakeApartWhole(emitter.Clone(i, i.shape(), std::move(whole)), region);
}

Result<Value> Walk::Barrier(const Instruction& i, std::vector<Value> operands, Emitter& emitter) {
  KRAFLA_ASSIGN(Instruction * in, emitter.Materialize(operands[0]));
  return emitter.TakeApart(emitter.Clone(i, in->shape(), {in}), operands[0]);
}

}  // namespace krafla::spmd
