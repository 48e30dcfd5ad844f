// SPDX-License-Identifier: Apache-2.0
// Custom calls of others that know how they are cut (passes/custom_partitioner.h): their program of one device stands
// in the place of the call, on blocks as it wants them.
#include <algorithm>
#include <map>

#include "ir/sdy_rule.h"
#include "passes/custom_partitioner.h"
#include "passes/rewrite.h"
#include "passes/spmd/spmd_walk.h"

namespace krafla::spmd {
namespace {

constexpr std::string_view kRule = "xla.sdy.sharding_rule";

// What the operands say of the results by a rule: a factor is cut as the first operand has it that cuts it.
Result<std::vector<Sharding>> ByRule(const SdyRule& rule, const Instruction& call, std::span<const Sharding> operands,
                                     int64_t devices) {
  const std::vector<const Shape*> leaves = TupleLeaves(call.shape());
  if (rule.operands.size() != operands.size() || rule.results.size() != leaves.size())
    return InvalidArgument("The sharding rule is of {} operands and {} results, and there are {} and {}.",
                           rule.operands.size(), rule.results.size(), operands.size(), leaves.size());
  std::map<std::string, Split> cuts;
  for (std::size_t o = 0; o < operands.size(); ++o)
    for (std::size_t d = 0; d < rule.operands[o].size(); ++d) {
      const std::vector<std::string>& factors = rule.operands[o][d];
      const Split& split = operands[o].dim(static_cast<int64_t>(d));
      if (!factors.empty() && !split.whole()) cuts.emplace(factors[0], split);
    }
  for (const std::string& factor : rule.whole) cuts.erase(factor);
  std::vector<Sharding> out;
  for (std::size_t r = 0; r < leaves.size(); ++r) {
    std::vector<Split> dims = WholeDims(leaves[r]->rank());
    for (std::size_t d = 0; d < std::min(dims.size(), rule.results[r].size()); ++d) {
      const std::vector<std::string>& factors = rule.results[r][d];
      const auto cut = factors.empty() ? cuts.end() : cuts.find(factors[0]);
      if (cut == cuts.end() || !MayBeCutInto(leaves[r]->dims()[d], cut->second)) continue;
      dims[d] = cut->second;
      if (!Covers(dims, nullptr, devices)) dims[d] = Split();  // along an axis that another dimension has
    }
    out.emplace_back().dims = std::move(dims);
  }
  return out;
}

// How an array of `shape` is cut for somebody else's program.
Result<std::vector<Split>> DimsOf(const Sharding& sharding, const Shape& shape, int64_t devices) {
  if (sharding.all_manual || sharding.only || !sharding.manual.empty() || !sharding.unreduced.empty() ||
      std::ssize(sharding.dims) > shape.rank() || shape.IsDynamic())
    return Unimplemented("An array of {} cannot be cut as the custom call wants it, by {}.", shape.ToString(false),
                         ShardingToText(sharding, shape.rank(), devices));
  std::vector<Split> dims = WholeDims(shape.rank());
  std::ranges::copy(sharding.dims, dims.begin());
  for (std::size_t d = 0; d < dims.size(); ++d)
    if (!MayBeCutInto(shape.dims()[d], dims[d]))
      return Unimplemented("A dimension of {} cannot be cut into {}.", shape.dims()[d], dims[d].count);
  if (!Covers(dims, nullptr, devices)) return InvalidArgument("A sharding has blocks that no device has.");
  return dims;
}

// The channels of another module's collectives get numbers of their own.
void NumberChannels(const Module& from, Channels& channels) {
  std::map<int64_t, int64_t> numbers;
  for (const auto& computation : from.computations())
    for (const auto& i : computation->instructions()) {
      Attributes attributes = i->attributes();
      auto* const collective = std::get_if<CollectiveAttributes>(&attributes);
      if (collective == nullptr || !collective->channel_id) continue;
      const auto [number, is_new] = numbers.emplace(*collective->channel_id, channels.next);
      channels.next += is_new ? 1 : 0;
      collective->channel_id = number->second;
      i->set_attributes(std::move(attributes));
    }
}

Result<> CheckTakes(const Computation& program, std::span<Instruction* const> arguments) {
  bool fits = program.parameters().size() == arguments.size();
  for (std::size_t a = 0; fits && a < arguments.size(); ++a)
    fits = Shape::Compatible(program.parameters()[a]->shape(), arguments[a]->shape());
  if (fits) return {};
  return InvalidArgument("The program that the custom call's partitioner gives does not take the operands' blocks.");
}

}  // namespace

Result<std::optional<Value>> Walk::CustomPartition(const Instruction& i, Scope& scope) {
  const CustomPartitioner* const partitioner = options_.custom_partitioner;
  if (partitioner == nullptr || !partitioner->Takes(i.attr<CustomCallAttributes>().target)) return std::nullopt;
  if (scope.region != nullptr)
    return Unimplemented("A custom call with a partitioner of its own stands in a manual computation.");
  Emitter& emitter = scope.emitter;
  std::vector<Value> operands;
  std::vector<Sharding> given;
  for (const Instruction* o : i.operands()) {
    Value value = scope.values.at(o);
    if (!value.IsArray()) return Unimplemented("A custom call with a partitioner of its own takes a tuple.");
    KRAFLA_ASSIGN(value, emitter.Settle(std::move(value)));
    given.emplace_back().dims = value.dims;
    operands.push_back(std::move(value));
  }
  std::vector<Sharding> wanted;
  if (const std::string_view rule = FrontendAttribute(i.metadata(), kRule); !rule.empty()) {
    KRAFLA_ASSIGN(const SdyRule read, ParseSdyRule(rule));
    KRAFLA_ASSIGN(wanted, ByRule(read, i, given, devices()));
  } else {
    KRAFLA_ASSIGN(wanted, partitioner->ResultShardings(i, given, devices()));
  }
  KRAFLA_ASSIGN(CustomPartitioner::Cut cut, partitioner->Partition(i, given, wanted, devices()));
  const std::vector<const Shape*> leaves = TupleLeaves(i.shape());
  if (cut.operands.size() != operands.size() || cut.results.size() != leaves.size())
    return InvalidArgument(
        "The partitioner of the custom call gives {} and {} shardings for {} operands and {} results.",
        cut.operands.size(), cut.results.size(), operands.size(), leaves.size());
  NumberChannels(*cut.program, channels_);
  Computation* const program = module_.Take(std::move(cut.program));
  std::vector<Instruction*> arguments;
  for (std::size_t o = 0; o < operands.size(); ++o) {
    KRAFLA_ASSIGN(const std::vector<Split> dims, DimsOf(cut.operands[o], i.operand(o)->shape(), devices()));
    KRAFLA_ASSIGN(const Value cut_so, emitter.Reshard(std::move(operands[o]), dims));
    arguments.push_back(cut_so.local);
  }
  KRAFLA_TRY(CheckTakes(*program, arguments));
  Instruction* const call =
      emitter.out().Add(Opcode::kCall, program->root()->shape(), std::move(arguments), CallAttributes(), {program});
  const bool is_tuple = i.shape().IsTuple();
  if (is_tuple != call->shape().IsTuple())
    return InvalidArgument("The partitioner of the custom call gives {} in place of {}.", call->shape().ToString(false),
                           i.shape().ToString(false));
  Value out;
  out.is_tuple = is_tuple;
  for (std::size_t r = 0; r < leaves.size(); ++r) {
    Value one;
    one.local = call;
    if (is_tuple) {
      KRAFLA_ASSIGN(one.local,
                    emitter.Infer(Opcode::kGetTupleElement, {call}, TupleIndexAttributes{static_cast<int64_t>(r)}));
    }
    KRAFLA_ASSIGN(one.dims, DimsOf(cut.results[r], *leaves[r], devices()));
    KRAFLA_ASSIGN(const Shape block, BlockShape(*leaves[r], one.dims));
    if (!Shape::Compatible(block, one.local->shape()))
      return InvalidArgument("The partitioner of the custom call gives {} where a block is {}.",
                             one.local->shape().ToString(false), block.ToString(false));
    if (!is_tuple) return one;
    out.elements.push_back(std::move(one));
  }
  return out;
}

}  // namespace krafla::spmd
