// SPDX-License-Identifier: Apache-2.0
#include "api/group/exchange_moves.h"

#include <algorithm>

#include "base/index.h"

namespace krafla {
namespace {

constexpr int64_t kMostRows = 32;  // pieces that a member has of each other member's array

}  // namespace

std::optional<std::vector<ExchangeMove>> MovesOf(const Instruction& instruction, int64_t members,
                                                 std::span<const int64_t> ranks, std::span<const int64_t> sources) {
  const Opcode opcode = instruction.opcode();
  constexpr Opcode kMoving[] = {Opcode::kAllGather, Opcode::kAllToAll, Opcode::kCollectivePermute,
                                Opcode::kCollectiveBroadcast};
  if (!std::ranges::contains(kMoving, opcode)) return std::nullopt;
  std::vector<const Shape*> leaves;
  for (const Instruction* o : instruction.operands())
    for (const Shape* s : TupleLeaves(o->shape()))
      if (s->IsArray()) leaves.push_back(s);
  if (leaves.empty() ||
      std::ranges::any_of(leaves, [](const Shape* s) { return s->IsDynamic() || s->element_count() == 0; }))
    return std::nullopt;
  const int64_t dimension = instruction.attr<CollectiveAttributes>().dimension.value_or(-1);
  std::vector<ExchangeMove> out;
  for (std::size_t t = 0; t < ranks.size(); ++t)
    for (std::size_t k = 0; k < leaves.size(); ++k) {
      const int64_t rank = ranks[t], bytes = leaves[k]->byte_size();
      const std::size_t to = t * leaves.size() + k;
      const auto operand = [&](int64_t member, std::size_t leaf) { return At(member) * leaves.size() + leaf; };
      if (opcode == Opcode::kCollectiveBroadcast) {
        out.push_back({operand(0, k), to, 0, 0, bytes});
      } else if (opcode == Opcode::kCollectivePermute) {
        if (sources[At(rank)] < 0) return std::nullopt;
        out.push_back({operand(sources[At(rank)], k), to, 0, 0, bytes});
      } else if (dimension < 0) {  // an all-to-all of arrays
        out.push_back({operand(static_cast<int64_t>(k), At(rank)), to, 0, 0, bytes});
      } else {
        int64_t rows = 1;
        for (int64_t d = 0; d < dimension; ++d) rows *= leaves[k]->dims()[At(d)];
        if (rows > kMostRows) return std::nullopt;
        const bool divides = opcode == Opcode::kAllToAll;
        const int64_t chunk = bytes / rows / (divides ? members : 1);
        for (int64_t m = 0; m < members; ++m)
          for (int64_t row = 0; row < rows; ++row)
            out.push_back({operand(m, k), to, divides ? (row * members + rank) * chunk : row * chunk,
                           (row * members + m) * chunk, chunk});
      }
    }
  return out;
}

}  // namespace krafla
