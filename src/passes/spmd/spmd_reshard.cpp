// SPDX-License-Identifier: Apache-2.0
// From one sharding of an array to another by what moves least: a device cuts what it has, blocks change their devices,
// the cut moves from one dimension to another, and only then are blocks put together (XLA: ReshardNoCache,
// xla/service/spmd/spmd_partitioner.cc).
#include <algorithm>
#include <map>
#include <unordered_set>
#include <utility>

#include "base/index.h"
#include "ir/builder.h"
#include "passes/spmd/spmd_emitter.h"

namespace krafla::spmd {
namespace {

using Splits = std::vector<Split>;

// What is left to be done, step by step.
class Plan {
 public:
  Plan(const Value& value, std::span<const Split> to, int64_t devices)
      : now_(value.dims),
        to_(to),
        sizes_(value.sizes),
        unreduced_(value.unreduced),
        region_(value.region),
        devices_(devices) {}

  std::vector<ReshardStep> Make() && {
    CutMore();
    Permute();
    for (std::size_t d = 0; d < now_.size(); ++d) MoveTo(d);
    for (std::size_t d = 0; d < now_.size(); ++d) {
      if (now_[d].whole() || now_[d] == to_[d]) continue;
      if (std::optional<Split> more = Within(d, to_[d], now_[d])) Gather(d, std::move(*more), to_[d]);
      else if (!Within(d, now_[d], to_[d])) Gather(d, now_[d], Split());
    }
    for (std::size_t d = 0; d < now_.size(); ++d)
      if (now_[d] != to_[d]) Cut(d, *Within(d, now_[d], to_[d]));
    return std::move(steps_);
  }

 private:
  // What cuts blocks of dimension `d` into finer ones. Where rows do not divide evenly those of two fine blocks may be
  // more than a coarse one has; then nothing does.
  std::optional<Split> Within(std::size_t d, const Split& coarse, const Split& fine) const {
    if (!sizes_.empty() && !coarse.whole() && !fine.whole() &&
        BlockSize(sizes_[d], coarse) * coarse.count != BlockSize(sizes_[d], fine) * fine.count)
      return std::nullopt;
    return Finer(coarse, fine);
  }
  bool MayBe(std::span<const Split> dims) const { return Covers(Together(dims, unreduced_), region_, devices_); }

  void Cut(std::size_t d, Split more) {
    now_[d] = to_[d];
    steps_.push_back({ReshardStep::Kind::kCut, d, d, std::move(more), now_});
  }
  void Gather(std::size_t d, Split along, Split left) {
    now_[d] = std::move(left);
    steps_.push_back({ReshardStep::Kind::kGather, d, d, std::move(along), now_});
  }

  // What nothing else is cut by.
  void CutMore() {
    for (std::size_t d = 0; d < now_.size(); ++d) {
      if (now_[d] == to_[d]) continue;
      std::optional<Split> more = Within(d, now_[d], to_[d]);
      if (!more) continue;
      Splits dims = now_;
      dims[d] = to_[d];
      if (MayBe(dims)) Cut(d, std::move(*more));
    }
  }

  // As many blocks of each size, on other devices.
  void Permute() {
    Splits dims = now_;
    for (std::size_t d = 0; d < dims.size(); ++d)
      if (dims[d].count == to_[d].count) dims[d] = to_[d];
    if (dims == now_ || !MayBe(dims)) return;
    now_ = std::move(dims);
    steps_.push_back({ReshardStep::Kind::kPermute, 0, 0, {}, now_});
  }

  // Dimension `d` is cut by what another one loses.
  void MoveTo(std::size_t d) {
    const std::optional<Split> more = now_[d] == to_[d] ? std::nullopt : Within(d, now_[d], to_[d]);
    if (!more) return;
    for (std::size_t e = 0; e < now_.size(); ++e) {
      if (e == d || now_[e].whole()) continue;
      Split between = Combine(to_[e], *more);
      std::optional<Split> rest = Within(e, between, now_[e]);
      if (!rest || !Within(e, to_[e], between)) continue;
      if (!rest->whole()) Gather(e, std::move(*rest), std::move(between));
      now_[d] = to_[d];
      now_[e] = to_[e];
      steps_.push_back({ReshardStep::Kind::kAllToAll, e, d, *more, now_});
      return;
    }
  }

  Splits now_;
  std::span<const Split> to_;
  const Dims& sizes_;
  std::span<const Split> unreduced_;
  const Region* region_;
  int64_t devices_;
  std::vector<ReshardStep> steps_;
};

}  // namespace

std::optional<Split> Finer(const Split& coarse, const Split& fine) {
  if (coarse.whole()) return fine;
  if (fine.whole() || fine.count % coarse.count != 0) return std::nullopt;
  Split out;
  out.count = fine.count / coarse.count;
  for (std::size_t d = 0; d < fine.block.size(); ++d) {
    if (fine.block[d] / out.count != coarse.block[d]) return std::nullopt;
    out.block.push_back(static_cast<int32_t>(fine.block[d] % out.count));
  }
  return out.whole() ? Split() : out;
}

std::vector<ReshardStep> PlanReshard(const Value& value, std::span<const Split> dims, int64_t devices) {
  return Plan(value, dims, devices).Make();
}

double ReshardBytes(const Value& value, std::span<const Split> dims, int64_t devices) {
  return ReshardBytes(value, dims, devices, static_cast<double>(value.local->shape().byte_size()));
}
double ReshardBytes(const Value& value, std::span<const Split> dims, int64_t devices, double bytes) {
  double out = 0;
  for (const ReshardStep& step : PlanReshard(value, dims, devices)) {
    const auto count = static_cast<double>(step.along.count);
    switch (step.kind) {
      case ReshardStep::Kind::kCut: bytes /= count; break;
      case ReshardStep::Kind::kPermute: out += bytes; break;
      case ReshardStep::Kind::kAllToAll: out += bytes * (count - 1) / count; break;
      case ReshardStep::Kind::kGather:
        out += bytes * (count - 1);
        bytes *= count;
        break;
    }
  }
  return out;
}

bool MoveAway(std::vector<Split>& dims, std::size_t d, const Dims& sizes, const std::vector<bool>& free) {
  Split split = std::exchange(dims[d], Split());
  if (split.whole()) return false;
  std::optional<std::size_t> to;
  const auto is_even = [&](std::size_t e) { return sizes[e] % split.count == 0; };
  for (std::size_t e = 0; e < dims.size(); ++e) {
    if (!free[e] || !dims[e].whole() || sizes[e] == 0 || !MayBeCutInto(sizes[e], split)) continue;
    if (!to || (is_even(e) == is_even(*to) ? sizes[e] > sizes[*to] : is_even(e))) to = e;
  }
  if (to) dims[*to] = std::move(split);
  return to.has_value();
}

Result<Value> Emitter::Reshard(Value value, std::span<const Split> dims) {
  const Instruction* before = value.local;
  if (value.sizes.empty())
    for (std::size_t d = 0; d < value.dims.size(); ++d)
      value.sizes.push_back(before->shape().dims()[d] * value.dims[d].count);
  for (const Resharded& known : resharded_[before])
    if (known.sizes == value.sizes && known.from == value.dims && std::ranges::equal(known.to, dims)) {
      value.local = known.made;
      value.dims = known.to;
      return value;
    }
  Splits from = value.dims;
  for (ReshardStep& step : PlanReshard(value, dims, module_.num_partitions)) {
    Splits others = Together(step.after, value.unreduced);
    switch (step.kind) {
      case ReshardStep::Kind::kCut: {
        Splits cut(value.dims.size());
        cut[step.to] = step.along;
        bool is_padded = false;
        for (std::size_t d = 0; d < cut.size(); ++d) is_padded |= value.IsPadded(d);
        KRAFLA_ASSIGN(value.local, Cut(value.local, cut));
        if (!is_padded && value.local->opcode() == Opcode::kDynamicSlice) zeros_behind_.insert(value.local);
        break;
      }
      case ReshardStep::Kind::kPermute: {
        KRAFLA_ASSIGN(value.local, Permute(value, step.after));
        break;
      }
      case ReshardStep::Kind::kAllToAll: {
        others[step.to] = value.dims[step.to];
        const int64_t rows = BlockSize(value.sizes[step.to], step.after[step.to]) * step.along.count;
        if (const int64_t more = rows - value.local->shape().dims()[step.to]; more > 0) {
          KRAFLA_ASSIGN(value.local, Pad(value.local, step.to, 0, more));
        }
        KRAFLA_ASSIGN(value.local, AllToAll(value.local, step.from, step.to, step.along, others, value.region));
        KRAFLA_ASSIGN(value.local,
                      FirstRows(value.local, step.from, BlockSize(value.sizes[step.from], step.after[step.from])));
        break;
      }
      case ReshardStep::Kind::kGather: {
        KRAFLA_ASSIGN(value.local,
                      Gather(value.local, static_cast<int64_t>(step.from), step.along, others, value.region));
        KRAFLA_ASSIGN(value.local,
                      FirstRows(value.local, step.from, BlockSize(value.sizes[step.from], step.after[step.from])));
        break;
      }
    }
    value.dims = std::move(step.after);
  }
  resharded_[before].push_back({value.sizes, std::move(from), value.dims, value.local});
  return value;
}

Result<Instruction*> Emitter::Permute(const Value& value, std::span<const Split> dims) {
  const int64_t devices = module_.num_partitions;
  const std::vector<int64_t> shared = Places(value.unreduced, value.region, devices);
  // Who has a block, and who wants it, of the devices with the same part of a sum.
  using Place = std::vector<int32_t>;
  std::map<std::pair<int64_t, Place>, std::pair<std::vector<int64_t>, std::vector<int64_t>>> blocks;
  const auto block_of = [](std::span<const Split> splits, int64_t device) {
    Place out;
    for (const Split& s : splits) out.push_back(s.of(device));
    return out;
  };
  CollectiveAttributes attributes;
  attributes.channel_id = channels_.next++;
  for (int64_t d = 0; d < devices; ++d) {
    Place has = block_of(value.dims, d), wants = block_of(dims, d);
    if (has == wants) {
      attributes.source_target_pairs.emplace_back(d, d);
      continue;
    }
    blocks[{shared[At(d)], std::move(has)}].first.push_back(d);
    blocks[{shared[At(d)], std::move(wants)}].second.push_back(d);
  }
  for (const auto& [block, ends] : blocks) {
    if (ends.first.size() != ends.second.size())
      return InvalidArgument("The shardings of a program leave {} devices with a block of an array that {} need.",
                             ends.first.size(), ends.second.size());
    for (std::size_t n = 0; n < ends.first.size(); ++n)
      attributes.source_target_pairs.emplace_back(ends.first[n], ends.second[n]);
  }
  return Infer(Opcode::kCollectivePermute, {value.local}, std::move(attributes));
}

Result<Instruction*> Emitter::AllToAll(Instruction* local, std::size_t from, std::size_t to, const Split& along,
                                       std::span<const Split> others, const Region* region) {
  const Dims& block = local->shape().dims();
  // One block for each device, side by side in a dimension of their own.
  Dims apart, moved, together(block);
  for (std::size_t d = 0; d < block.size(); ++d) {
    if (d == to) apart.push_back(along.count);
    apart.push_back(d == to ? block[d] / along.count : block[d]);
  }
  KRAFLA_ASSIGN(CollectiveAttributes attributes, Groups(along, others, region));
  attributes.dimension = static_cast<int64_t>(to);
  KRAFLA_ASSIGN(Instruction * made, AddReshape(out_, local, apart));
  KRAFLA_ASSIGN(made, Infer(Opcode::kAllToAll, {made}, std::move(attributes)));
  // Each device's goes in front of the rows that it has a block of.
  for (std::size_t d = 0; d < block.size(); ++d) {
    if (d == from) moved.push_back(static_cast<int64_t>(to));
    moved.push_back(static_cast<int64_t>(d < to ? d : d + 1));
  }
  KRAFLA_ASSIGN(made, AddTranspose(out_, made, std::move(moved)));
  together[from] *= along.count;
  together[to] /= along.count;
  return AddReshape(out_, made, together);
}

// A sum of sums is the sum of all parts, which takes one exchange (XLA: all-reduce-reassociate).
Result<> Emitter::AddUpSums() {
  std::unordered_set<const Instruction*> sums;
  const auto add_to = [&](const Instruction* i) {
    if (i->called(0)->root()->opcode() == Opcode::kAdd && i->control_predecessors().empty()) sums.insert(i);
  };
  for (const SumOfParts& s : sums_) add_to(s.made);
  // What is made comes behind, and may be added to another sum.
  for (std::size_t n = 0; n < sums_.size(); ++n) {
    const SumOfParts sum = sums_[n];
    if (!sums.contains(sum.made) || sum.made->users().size() != 1) continue;
    Instruction* add = sum.made->users()[0];
    if (add->opcode() != Opcode::kAdd || !add->control_predecessors().empty()) continue;
    const Instruction* other = add->operand(add->operand(0) == sum.made ? 1 : 0);
    if (other == sum.made || !sums.contains(other) || other->users().size() != 1) continue;
    CollectiveAttributes attributes = sum.made->attr<CollectiveAttributes>();
    if (attributes.replica_groups != other->attr<CollectiveAttributes>().replica_groups) continue;
    attributes.channel_id = channels_.next++;
    KRAFLA_ASSIGN(Instruction * parts, Infer(Opcode::kAdd, {add->operand(0)->operand(0), add->operand(1)->operand(0)}));
    KRAFLA_ASSIGN(Instruction * made, Infer(Opcode::kAllReduce, {parts}, std::move(attributes), {sum.made->called(0)}));
    // Blocks of the sum are known by what they were cut out of.
    if (auto known = blocks_.extract(add); !known.empty()) {
      known.key() = made;
      blocks_.insert(std::move(known));
    }
    add->ReplaceAllUsesWith(made);
    add_to(made);
    sums_.push_back({made, sum.along});
  }
  return {};
}

// An all-reduce of which devices keep nothing but a block each is a reduce-scatter.
void Emitter::ScatterSums() {
  for (const SumOfParts& sum : sums_) {
    const auto known = blocks_.find(sum.made);
    if (known == blocks_.end() || known->second.size() != 1 || sum.made->users().size() != 1 ||
        !sum.made->control_predecessors().empty())
      continue;
    const Block& block = known->second[0];
    Instruction* user = sum.made->users()[0];
    const bool is_padded = user->opcode() == Opcode::kPad && user == block.padded && user->users().size() == 1;
    if (is_padded) user = user->users()[0];
    if (user != block.made || block.made->opcode() != Opcode::kDynamicSlice) continue;
    std::optional<std::size_t> cut;
    bool one = true;
    for (std::size_t d = 0; d < block.dims.size(); ++d) {
      if (block.dims[d].whole()) continue;
      one = one && !cut && block.dims[d] == sum.along;
      cut = d;
    }
    if (!one || !cut) continue;
    CollectiveAttributes attributes = sum.made->attr<CollectiveAttributes>();
    attributes.channel_id = channels_.next++;
    attributes.dimension = static_cast<int64_t>(*cut);
    Instruction* parts = sum.made->operand(0);
    if (is_padded) parts = Clone(*block.padded, block.padded->shape(), {parts, block.padded->operand(1)});
    Instruction* made =
        out_.Add(Opcode::kReduceScatter, block.made->shape(), {parts}, std::move(attributes), {sum.made->called(0)});
    block.made->ReplaceAllUsesWith(made);
  }
}

Result<> Emitter::FinishSums() {
  KRAFLA_TRY(AddUpSums());
  ScatterSums();
  return out_.SortTopologically();
}

}  // namespace krafla::spmd
