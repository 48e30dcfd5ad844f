// SPDX-License-Identifier: Apache-2.0
#include "passes/spmd/spmd_rule.h"

#include <algorithm>
#include <numeric>

#include "base/index.h"

namespace krafla::spmd {

Rule::Rule(const Instruction& instruction, std::span<const Value> operands, const Region* region, const Wishes& wishes,
           Emitter& emitter)
    : i_(instruction),
      operands_(operands.begin(), operands.end()),
      region_(region),
      wishes_(wishes),
      emitter_(emitter),
      devices_(instruction.parent()->parent()->num_partitions) {}

void Rule::Join(Splits& dims, std::span<const Split> more) const {
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (!dims[d].whole() || more[d].whole()) continue;
    dims[d] = more[d];
    if (!MayCut(dims)) dims[d] = Split();
  }
}

Rule::Splits Rule::Common(std::span<const std::size_t> which) {
  std::vector<std::size_t> order(which.begin(), which.end());
  // Cut the most first, as that is the least work, and the larger of two that are cut alike; last what any device can
  // make any block of.
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    const bool free_a = emitter_.IsMadeOfNothing(operands_[a].local),
               free_b = emitter_.IsMadeOfNothing(operands_[b].local);
    if (free_a != free_b) return free_b;
    const int64_t x = operands_[a].blocks(), y = operands_[b].blocks();
    return x != y ? x > y : Bytes(a) > Bytes(b);
  });
  Splits out = operands_[order[0]].dims;
  for (std::size_t o : order) Join(out, operands_[o].dims);
  return out;
}

std::vector<std::size_t> Rule::FirstOperands(std::size_t count) {
  std::vector<std::size_t> out(count);
  std::iota(out.begin(), out.end(), std::size_t{0});
  return out;
}

Result<Instruction*> Rule::Operand(std::size_t o, std::span<const Split> dims) {
  KRAFLA_ASSIGN(Value value, emitter_.Reshard(operands_[o], dims));
  return value.local;
}
Result<Instruction*> Rule::Operand(std::size_t o, std::span<const Split> dims, std::span<const std::size_t> which,
                                   Instruction* fill) {
  KRAFLA_ASSIGN(Value value, emitter_.Reshard(operands_[o], dims));
  if (fill == nullptr) {
    KRAFLA_ASSIGN(value, emitter_.MaskedWithZeros(std::move(value), which));
  } else {
    KRAFLA_ASSIGN(value, emitter_.Masked(std::move(value), which, fill));
  }
  return value.local;
}
Result<Instruction*> Rule::WholeOperand(std::size_t o) {
  KRAFLA_ASSIGN(Value value, emitter_.Whole(operands_[o]));
  return value.local;
}

Rule::Out Rule::Finish(std::vector<Instruction*> operands, Splits dims) {
  if (!i_.shape().IsTuple()) {
    dims.resize(At(i_.shape().rank()));
    KRAFLA_ASSIGN(Shape shape, BlockShape(i_.shape(), dims));
    return Made(emitter_.Clone(i_, std::move(shape), std::move(operands)), std::move(dims));
  }
  std::vector<Shape> shapes;
  for (const Shape& s : i_.shape().tuple_elements()) {
    KRAFLA_ASSIGN(Shape shape, BlockShape(s, dims));
    shapes.push_back(std::move(shape));
  }
  KRAFLA_ASSIGN(Shape tuple, Shape::MakeTuple(std::move(shapes)));
  Instruction* made = emitter_.Clone(i_, std::move(tuple), std::move(operands));
  Value out;
  out.is_tuple = true;
  for (const Shape& s : i_.shape().tuple_elements()) {
    Value& element = out.elements.emplace_back();
    element.sizes = s.dims();
    element.dims = dims;
    element.dims.resize(At(s.rank()));
    element.region = region_;
  }
  return emitter_.TakeApart(made, out);
}

Value Rule::Made(Instruction* local, Splits dims) const {
  Value out;
  out.local = local;
  if (i_.shape().IsArray()) out.sizes = i_.shape().dims();
  out.dims = std::move(dims);
  out.region = region_;
  return out;
}

bool Rule::StaysInParts(const Split& along) const {
  return !wishes_.parts.empty() && SamePlaces(std::span(&along, 1), wishes_.parts, devices_);
}

Rule::Out Rule::WithSum(Out value, const Split& along) {
  if (!value || along.whole()) return value;
  if (StaysInParts(along)) {
    (*value)->unreduced = wishes_.parts;
    return value;
  }
  KRAFLA_ASSIGN((*value)->local, emitter_.Sum((*value)->local, along, (*value)->dims, region_));
  return value;
}

}  // namespace krafla::spmd
