// SPDX-License-Identifier: Apache-2.0
#include "collectives/collective.h"

#include <algorithm>
#include <cstring>

#include "base/index.h"

namespace krafla {
namespace {

// Elements of which all members' values are combined before the next ones: they stay in the second cache, from where
// an all-reduce spreads them.
constexpr int64_t kBlock = 8192;

bool IsPermute(Opcode opcode) {
  return opcode == Opcode::kCollectivePermute || opcode == Opcode::kCollectivePermuteStart;
}
bool IsReducing(Opcode opcode) {
  return opcode == Opcode::kAllReduce || opcode == Opcode::kAllReduceStart || opcode == Opcode::kReduceScatter;
}

// Where member `rank` of `n` begins its share of `elements`, on a boundary of cache lines for every type.
int64_t ShareBegin(int64_t elements, std::size_t rank, std::size_t n) {
  const auto share = (elements + static_cast<int64_t>(n) - 1) / static_cast<int64_t>(n);
  const int64_t rounded = (share + 63) / 64 * 64;
  return std::min(elements, rounded * static_cast<int64_t>(rank));
}

int64_t IntegerAt(const std::byte* data, ElementType type, int64_t index) {
  const int64_t size = StorageBytes(type);
  uint64_t bits = 0;
  std::memcpy(&bits, data + index * size, At(size));
  const int shift = static_cast<int>(64 - 8 * size);
  if (IsSigned(type)) return static_cast<int64_t>(bits << shift) >> shift;
  return bits > static_cast<uint64_t>(INT64_MAX) ? INT64_MAX : static_cast<int64_t>(bits);
}

}  // namespace

Result<std::unique_ptr<const Collective>> Collective::Make(const Instruction& i, const DeviceGrid& grid,
                                                           std::shared_ptr<const Combiner> combiner) {
  std::unique_ptr<Collective> out(new Collective());
  out->opcode_ = i.opcode();
  out->description_ = Format("{} '{}'", OpcodeName(i.opcode()), i.name());
  if (i.location().line > 0) out->description_ += Format(" (line {})", i.location().line);
  const auto* a = std::get_if<CollectiveAttributes>(&i.attributes());
  if (a == nullptr) return Internal("{} is not a collective.", Describe(i));
  if (a->dimension) out->dimension_ = *a->dimension;
  KRAFLA_TRY(out->FindLeaves(i));
  KRAFLA_TRY(out->FindGroups(i, grid));
  if (IsReducing(i.opcode())) {
    if (combiner == nullptr) return Internal("{} has no combiner.", Describe(i));
    out->combiner_ = std::move(combiner);
  }
  return out;
}

int64_t Collective::bytes() const {
  int64_t out = 0;
  for (const Leaf& leaf : operands_) out += leaf.bytes;
  for (const Leaf& leaf : results_) out += leaf.bytes;
  return out;
}

Result<> Collective::FindLeaves(const Instruction& i) {
  auto add = [&](const Shape& shape, std::vector<Leaf>& leaves) -> Result<> {
    for (const Shape* s : TupleLeaves(shape)) {
      if (!s->IsArray()) continue;
      if (s->IsDynamic())
        return Unimplemented("{}: A collective of arrays with dynamic dimensions ({}) is not supported.", Describe(i),
                             s->ToString(false));
      Leaf leaf{s->element_type(), s->dims(), s->element_count(), s->byte_size(), StorageBytes(s->element_type())};
      leaves.push_back(std::move(leaf));
    }
    return {};
  };
  for (const Instruction* o : i.operands()) KRAFLA_TRY(add(o->shape(), operands_));
  // An all-reduce-start gives what the all-reduce does; the others (operands, results, ...).
  const bool is_start = i.opcode() == Opcode::kAllGatherStart || i.opcode() == Opcode::kCollectivePermuteStart;
  if (is_start && i.shape().tuple_elements().size() < 2) return Internal("{} has no results.", Describe(i));
  KRAFLA_TRY(add(is_start ? i.shape().tuple_elements()[1] : i.shape(), results_));
  const std::size_t results = opcode_ == Opcode::kRaggedAllToAll ? 1 : operands_.size();
  if (operands_.empty() || results_.size() != results)
    return Internal("{}: The number of operands, {}, is not the number of results, {}.", Describe(i), operands_.size(),
                    results_.size());
  return {};
}

Result<> Collective::FindGroups(const Instruction& i, const DeviceGrid& grid) {
  group_of_.assign(At(grid.size()), -1);
  rank_of_.assign(At(grid.size()), -1);
  if (!IsPermute(opcode_)) {
    KRAFLA_ASSIGN(groups_, DeviceGroups(i, grid));
    if (opcode_ == Opcode::kAllGather || opcode_ == Opcode::kAllGatherStart || opcode_ == Opcode::kAllToAll ||
        opcode_ == Opcode::kReduceScatter || opcode_ == Opcode::kRaggedAllToAll) {
      // How the arrays divide follows from the size of a group; the verifier has seen counts of 1 at most.
      const bool array_form = dimension_ >= 0;
      for (const auto& group : groups_) {
        const auto n = static_cast<int64_t>(group.size());
        bool fits = true;
        for (std::size_t k = 0; k < operands_.size() && opcode_ != Opcode::kRaggedAllToAll; ++k) {
          const Leaf &in = operands_[k], &out = results_[k];
          if (!array_form) {
            fits = fits && static_cast<int64_t>(operands_.size()) == n && in.bytes == out.bytes;
          } else {
            if (dimension_ >= static_cast<int64_t>(in.dims.size()))
              return Internal("{}: Its array does not have the dimension that it names.", Describe(i));
            const int64_t from = in.dims[At(dimension_)], to = out.dims[At(dimension_)];
            fits = fits && (opcode_ == Opcode::kAllToAll        ? from % n == 0 && from == to
                            : opcode_ == Opcode::kReduceScatter ? from == to * n
                                                                : to == from * n);
          }
        }
        if (opcode_ == Opcode::kRaggedAllToAll) {
          const Dims& offsets = operands_[2].dims;
          fits = offsets.size() == 1 ? offsets[0] >= n && offsets[0] % n == 0 : offsets.size() == 2 && offsets[0] == n;
        }
        if (!fits)
          return InvalidArgument(
              "{}: Its arrays do not divide among a group of {} devices; the module may have been made for other numbers of replicas and partitions than {} and {}.",
              Describe(i), n, grid.replicas, grid.partitions);
      }
    }
  } else {
    KRAFLA_ASSIGN(auto pairs, DevicePairs(i, grid));
    source_of_.assign(At(grid.size()), -1);
    // Who sends to each other must meet, nobody else: the connected parts of the graph of pairs.
    std::vector<std::vector<int64_t>> neighbours(At(grid.size()));
    for (auto [source, target] : pairs) {
      source_of_[At(target)] = source;
      neighbours[At(source)].push_back(target);
      neighbours[At(target)].push_back(source);
    }
    std::vector<bool> seen(At(grid.size()));
    for (int64_t d = 0; d < grid.size(); ++d) {
      if (seen[At(d)] || neighbours[At(d)].empty()) continue;
      std::vector<int64_t> group, stack = {d};
      seen[At(d)] = true;
      while (!stack.empty()) {
        int64_t at = stack.back();
        stack.pop_back();
        group.push_back(at);
        for (int64_t next : neighbours[At(at)])
          if (!seen[At(next)]) seen[At(next)] = true, stack.push_back(next);
      }
      std::sort(group.begin(), group.end());
      groups_.push_back(std::move(group));
    }
  }
  for (std::size_t g = 0; g < groups_.size(); ++g)
    for (std::size_t r = 0; r < groups_[g].size(); ++r) {
      group_of_[At(groups_[g][r])] = static_cast<int>(g);
      rank_of_[At(groups_[g][r])] = static_cast<int>(r);
    }
  return {};
}

Collective::Blocks Collective::BlocksOf(const Leaf& leaf, int64_t count) const {
  Blocks out;
  for (int64_t d = 0; d < static_cast<int64_t>(leaf.dims.size()); ++d) {
    if (d < dimension_) out.outer *= leaf.dims[At(d)];
    if (d == dimension_) out.chunk *= leaf.dims[At(d)] / count;
    if (d > dimension_) out.chunk *= leaf.dims[At(d)];
  }
  return out;
}

Result<> Collective::Run(int group, std::size_t rank, std::span<const Contribution> members) const {
  if (opcode_ == Opcode::kAllReduce || opcode_ == Opcode::kAllReduceStart) return AllReduce(rank, members);
  if (opcode_ == Opcode::kReduceScatter) return ReduceScatter(rank, members);
  if (opcode_ == Opcode::kAllGather || opcode_ == Opcode::kAllGatherStart) {
    AllGather(rank, members);
  } else if (opcode_ == Opcode::kAllToAll) {
    AllToAll(rank, members);
  } else if (IsPermute(opcode_)) {
    Permute(group, rank, members);
  } else if (opcode_ == Opcode::kRaggedAllToAll) {
    RaggedAllToAll(rank, members);
  } else if (opcode_ == Opcode::kCollectiveBroadcast) {
    for (std::size_t k = 0; k < results_.size(); ++k)
      if (results_[k].bytes > 0) std::memcpy(members[rank].results[k], members[0].operands[k], At(results_[k].bytes));
  } else {
    return Internal("{} is not a collective.", description_);
  }
  return {};
}

Result<> Collective::RunOutside(int64_t device, const Contribution& own) const {
  if (!IsPermute(opcode_) && opcode_ != Opcode::kCollectiveBroadcast)
    return InvalidArgument("{}: Device {} is in none of its replica groups.", description_, device);
  ZeroResults(own);
  return {};
}

void Collective::ZeroResults(const Contribution& own) const {
  for (std::size_t k = 0; k < results_.size(); ++k)
    if (results_[k].bytes > 0) std::memset(own.results[k], 0, At(results_[k].bytes));
}

bool Collective::Moves() const { return !IsReducing(opcode_) && opcode_ != Opcode::kRaggedAllToAll; }

std::vector<CollectiveMove> Collective::MovesTo(int group, std::size_t rank) const {
  const auto n = static_cast<int64_t>(Members(group).size()), r = static_cast<int64_t>(rank);
  std::vector<CollectiveMove> out;
  for (std::size_t k = 0; k < operands_.size(); ++k) {
    const int64_t size = operands_[k].element_bytes, bytes = operands_[k].bytes;
    if (bytes == 0) continue;
    if (opcode_ == Opcode::kReduceScatter) {
      const Blocks b = BlocksOf(operands_[k], n);
      const int64_t chunk = b.chunk * size;
      out.push_back({.source = 0,
                     .from_leaf = k,
                     .to_leaf = k,
                     .from = r * chunk,
                     .from_stride = n * chunk,
                     .to = 0,
                     .to_stride = chunk,
                     .bytes = chunk,
                     .rows = b.outer});
    } else if (opcode_ == Opcode::kCollectiveBroadcast || IsPermute(opcode_)) {
      const int64_t source = IsPermute(opcode_) ? source_of_[At(Members(group)[rank])] : Members(group)[0];
      if (source >= 0) out.push_back({.source = At(RankOf(source)), .from_leaf = k, .to_leaf = k, .bytes = bytes});
    } else if (opcode_ == Opcode::kAllToAll && dimension_ < 0) {
      // Operand k of every member goes to member k, where it is the result of the sender's rank.
      if (k == rank)
        for (std::size_t m = 0; m < At(n); ++m)
          out.push_back({.source = m, .from_leaf = k, .to_leaf = m, .bytes = bytes});
    } else {
      const bool divides = opcode_ == Opcode::kAllToAll;
      const Blocks b = BlocksOf(operands_[k], divides ? n : 1);
      const int64_t chunk = b.chunk * size;
      for (int64_t m = 0; m < n; ++m)
        out.push_back({.source = At(m),
                       .from_leaf = k,
                       .to_leaf = k,
                       .from = divides ? r * chunk : 0,
                       .from_stride = divides ? n * chunk : chunk,
                       .to = m * chunk,
                       .to_stride = n * chunk,
                       .bytes = chunk,
                       .rows = b.outer});
    }
  }
  return out;
}

// out[0, elements) = the members' operand `leaf` from element `from` on, combined in the order of ranks.
Result<> Collective::Reduce(std::byte* out, std::span<const Contribution> members, std::size_t leaf, int64_t from,
                            int64_t elements) const {
  const int64_t size = operands_[leaf].element_bytes;
  for (int64_t done = 0; done < elements; done += kBlock) {
    const int64_t n = std::min(kBlock, elements - done);
    std::byte* to = out + done * size;
    std::memcpy(to, members[0].operands[leaf] + (from + done) * size, At(n * size));
    for (std::size_t m = 1; m < members.size(); ++m)
      KRAFLA_TRY(combiner_->Combine(to, members[m].operands[leaf] + (from + done) * size, n));
  }
  return {};
}

// Each member sums one part and writes it to all: each element is read once from every operand, and written once to
// every result.
Result<> Collective::AllReduce(std::size_t rank, std::span<const Contribution> members) const {
  for (std::size_t k = 0; k < operands_.size(); ++k) {
    const Leaf& leaf = operands_[k];
    const int64_t end = ShareBegin(leaf.elements, rank + 1, members.size());
    for (int64_t from = ShareBegin(leaf.elements, rank, members.size()); from < end; from += kBlock) {
      const int64_t n = std::min(kBlock, end - from), at = from * leaf.element_bytes;
      std::byte* out = members[rank].results[k] + at;
      KRAFLA_TRY(Reduce(out, members, k, from, n));
      for (std::size_t m = 0; m < members.size(); ++m)
        if (m != rank) std::memcpy(members[m].results[k] + at, out, At(n * leaf.element_bytes));
    }
  }
  return {};
}

Result<> Collective::ReduceScatter(std::size_t rank, std::span<const Contribution> members) const {
  const auto n = static_cast<int64_t>(members.size());
  for (std::size_t k = 0; k < operands_.size(); ++k) {
    const Blocks blocks = BlocksOf(operands_[k], n);
    for (int64_t o = 0; o < blocks.outer; ++o)
      KRAFLA_TRY(Reduce(members[rank].results[k] + o * blocks.chunk * operands_[k].element_bytes, members, k,
                        (o * n + static_cast<int64_t>(rank)) * blocks.chunk, blocks.chunk));
  }
  return {};
}

void Collective::AllGather(std::size_t rank, std::span<const Contribution> members) const {
  const auto n = static_cast<int64_t>(members.size());
  for (std::size_t k = 0; k < operands_.size(); ++k) {
    const Blocks blocks = BlocksOf(operands_[k], 1);
    const int64_t chunk = blocks.chunk * operands_[k].element_bytes;
    if (chunk == 0) continue;
    for (int64_t m = 0; m < n; ++m)
      for (int64_t o = 0; o < blocks.outer; ++o)
        std::memcpy(members[rank].results[k] + (o * n + m) * chunk, members[At(m)].operands[k] + o * chunk, At(chunk));
  }
}

void Collective::AllToAll(std::size_t rank, std::span<const Contribution> members) const {
  const auto n = static_cast<int64_t>(members.size()), r = static_cast<int64_t>(rank);
  if (dimension_ < 0) {
    for (std::size_t m = 0; m < members.size(); ++m)
      if (results_[m].bytes > 0)
        std::memcpy(members[rank].results[m], members[m].operands[rank], At(results_[m].bytes));
    return;
  }
  const Blocks blocks = BlocksOf(operands_[0], n);
  const int64_t chunk = blocks.chunk * operands_[0].element_bytes;
  if (chunk == 0) return;
  for (int64_t m = 0; m < n; ++m)
    for (int64_t o = 0; o < blocks.outer; ++o)
      std::memcpy(members[rank].results[0] + (o * n + m) * chunk, members[At(m)].operands[0] + (o * n + r) * chunk,
                  At(chunk));
}

void Collective::Permute(int group, std::size_t rank, std::span<const Contribution> members) const {
  const int64_t source = source_of_[At(groups_[At(group)][rank])];
  if (source < 0) return ZeroResults(members[rank]);
  for (std::size_t k = 0; k < results_.size(); ++k)
    if (results_[k].bytes > 0)
      std::memcpy(members[rank].results[k], members[At(RankOf(source))].operands[k], At(results_[k].bytes));
}

// Operands: input, output, input offsets, send sizes, output offsets, receive sizes; as many offsets and sizes for each
// member. The sender says where its rows go in the receiver's output. Rows that do not lie in an array are not moved.
void Collective::RaggedAllToAll(std::size_t rank, std::span<const Contribution> members) const {
  const Leaf &in = operands_[0], &out = operands_[1], &offsets = operands_[2];
  if (out.bytes == 0) return;
  std::byte* to = members[rank].results[0];
  std::memcpy(to, members[rank].operands[1], At(out.bytes));
  const int64_t row = out.bytes / out.dims[0];
  const int64_t updates = offsets.elements / static_cast<int64_t>(members.size());
  for (const Contribution& m : members)
    for (int64_t u = 0; u < updates; ++u) {
      const int64_t at = static_cast<int64_t>(rank) * updates + u;
      auto number = [&](std::size_t operand, int64_t limit) {
        return std::clamp<int64_t>(IntegerAt(m.operands[operand], operands_[operand].type, at), 0, limit);
      };
      const int64_t from = number(2, in.dims[0]), place = number(4, out.dims[0]);
      const int64_t rows = number(3, std::min(in.dims[0] - from, out.dims[0] - place));
      if (rows > 0) std::memcpy(to + place * row, m.operands[0] + from * row, At(rows * row));
    }
}

}  // namespace krafla
