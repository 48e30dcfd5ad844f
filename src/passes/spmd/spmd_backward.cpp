// SPDX-License-Identifier: Apache-2.0
// Shardings that go from results to operands, in front of the walk. Where all that a value is read by cuts it alike,
// the operations that make it of whole arrays work on blocks: each device computes the block that it keeps, in place of
// everything. What is cut already stays as it is, and nothing is put together for it.
#include <algorithm>

#include "base/index.h"
#include "ir/custom_call.h"
#include "passes/spmd/spmd_walk.h"

namespace krafla::spmd {
namespace {

using Splits = std::vector<Split>;

Splits OfDotOperand(const Instruction& i, std::size_t o, std::span<const Split> dims) {
  const auto& a = i.attr<DotAttributes>();
  const Dims *batch[2] = {&a.lhs_batch, &a.rhs_batch}, *contracting[2] = {&a.lhs_contracting, &a.rhs_contracting};
  Splits out = WholeDims(i.operand(o)->shape().rank());
  std::size_t next = At(batch[0]->ssize());
  for (std::size_t side = 0; side < 2; ++side)
    for (int64_t d = 0; d < i.operand(side)->shape().rank(); ++d) {
      if (Holds(*contracting[side], d)) continue;
      const auto b = std::ranges::find(*batch[side], d) - batch[side]->begin();
      const std::size_t from = b < batch[side]->ssize() ? static_cast<std::size_t>(b) : next++;
      if (side == o) out[At(d)] = dims[from];
    }
  return out;
}

Splits OfConvolutionOperand(const Instruction& i, std::size_t o, std::span<const Split> dims) {
  const auto& a = i.attr<ConvolutionAttributes>();
  Splits out = WholeDims(i.operand(o)->shape().rank());
  if (a.batch_group_count != 1) return out;
  if (o == 0) out[At(a.input_batch)] = dims[At(a.output_batch)];
  else if (a.feature_group_count == 1) out[At(a.kernel_output_feature)] = dims[At(a.output_feature)];
  return out;
}

// How an operand is cut for the result to be cut by `dims`, as far as the rules of the walk (spmd_rules.cpp) make such
// a result of it; nothing where they do not.
std::optional<Splits> OfOperand(const Instruction& i, std::size_t o, std::span<const Split> dims) {
  const Shape &shape = i.operand(o)->shape(), &made = i.shape();
  if (!shape.IsArray() || !made.IsArray() || shape.IsDynamic() || made.IsDynamic()) return std::nullopt;
  Splits out = WholeDims(shape.rank());
  if (IsElementwise(i.opcode()) || i.opcode() == Opcode::kCopy) {
    if (!Shape::SameDims(shape, made)) return std::nullopt;
    out.assign(dims.begin(), dims.end());
  } else if (i.opcode() == Opcode::kTranspose) {
    const Dims& permutation = i.attr<DimensionsAttributes>().dimensions;
    for (std::size_t d = 0; d < permutation.size(); ++d) out[At(permutation[d])] = dims[d];
  } else if (i.opcode() == Opcode::kBroadcast) {
    const Dims& mapped = i.attr<DimensionsAttributes>().dimensions;
    for (std::size_t d = 0; d < mapped.size(); ++d) out[d] = dims[At(mapped[d])];
  } else if (i.opcode() == Opcode::kReshape) {
    return ThroughReshape(shape.dims(), made.dims(), dims);
  } else if (i.opcode() == Opcode::kDot) {
    out = OfDotOperand(i, o, dims);
  } else if (i.opcode() == Opcode::kConvolution) {
    out = OfConvolutionOperand(i, o, dims);
  } else if (i.opcode() == Opcode::kReduce && i.operand_count() == 2 && o == 0) {
    std::size_t next = 0;
    for (int64_t d = 0; d < shape.rank(); ++d)
      if (!Holds(i.attr<DimensionsAttributes>().dimensions, d)) out[At(d)] = dims[next++];
  } else {
    return std::nullopt;
  }
  return out;
}

// The cuts of `given` that an array may have.
Splits CutsOf(const Shape& shape, const Sharding& given) {
  Splits out = WholeDims(shape.rank());
  if (given.all_manual || given.unknown || given.only || !given.unreduced.empty() ||
      static_cast<int64_t>(given.dims.size()) > shape.rank())
    return out;
  for (int64_t d = 0; d < shape.rank(); ++d)
    if (MayBeCutInto(shape.dim(d), given.dim(d))) out[At(d)] = given.dim(d);
  return out;
}

}  // namespace

Result<std::optional<Splits>> Walk::WantedBy(const Instruction& user, std::size_t operand, const Wanted& wanted) const {
  const Shape& shape = user.operand(operand)->shape();
  if (user.opcode() == Opcode::kCustomCall) {
    const CustomCallTarget target = CustomCallTargetOf(user);
    if (target != CustomCallTarget::kSharding && target != CustomCallTarget::kSdyFuncResultSharding)
      return std::nullopt;
    KRAFLA_ASSIGN(const std::optional<Sharding> given, ConstraintOf(user));
    if (!given || !given->manual.empty()) return std::nullopt;
    return CutsOf(shape, *given);
  }
  const auto known = wanted.find(&user);
  return known == wanted.end() ? std::nullopt : OfOperand(user, operand, known->second);
}

Result<Walk::Wanted> Walk::FindWanted(const Computation& from, std::span<const Sharding> results) const {
  Wanted out;
  const Instruction* root = from.root();
  const bool in_tuple = root->opcode() == Opcode::kTuple && root->operand_count() == results.size();
  for (auto at = from.instructions().rbegin(); at != from.instructions().rend(); ++at) {
    const Instruction& i = **at;
    if (!i.shape().IsArray() || i.shape().IsDynamic()) continue;
    std::optional<Splits> all;
    bool agree = true;
    const auto ask = [&](const std::optional<Splits>& one) {
      agree = agree && one && (!all || *all == *one);
      all = one;
    };
    if (&i == root) {
      if (results.size() != 1) continue;
      ask(CutsOf(i.shape(), results[0]));
    }
    for (const Instruction* user : i.users())
      for (std::size_t o = 0; agree && o < user->operand_count(); ++o) {
        if (user->operand(o) != &i) continue;
        if (user == root && in_tuple) {
          ask(CutsOf(i.shape(), results[o]));
          continue;
        }
        KRAFLA_ASSIGN(const std::optional<Splits> one, WantedBy(*user, o, out));
        ask(one);
      }
    if (agree && all && AnyCut(*all)) out.emplace(&i, std::move(*all));
  }
  return out;
}

Result<> Walk::CutBefore(const Instruction& i, const Wanted& wanted, std::vector<Value>& operands, const Region* region,
                         Emitter& emitter) const {
  const auto known = wanted.find(&i);
  if (known == wanted.end()) return {};
  for (std::size_t o = 0; o < operands.size(); ++o) {
    Value& v = operands[o];
    if (v.is_tuple || !v.IsArray() || v.region != region || !v.unreduced.empty()) continue;
    if (v.IsWhole() && emitter.IsMadeOfNothing(v.local)) continue;  // follows the others
    const std::optional<Splits> cut = OfOperand(i, o, known->second);
    if (!cut) continue;
    Splits dims = v.dims;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (!dims[d].whole() || (*cut)[d].whole()) continue;
      dims[d] = (*cut)[d];
      if (!Covers(dims, region, devices())) dims[d] = Split();
    }
    if (dims != v.dims) { KRAFLA_ASSIGN(v, emitter.Reshard(std::move(v), dims)); }
  }
  return {};
}

}  // namespace krafla::spmd
