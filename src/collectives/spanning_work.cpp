// SPDX-License-Identifier: Apache-2.0
#include "collectives/spanning_work.h"

namespace krafla {

Result<> RunOnAllOperands(const SpanningWork& work, const Packed& operands,
                          const std::vector<std::vector<std::byte>>& rows) {
  std::vector<std::vector<const std::byte*>> leaves(rows.size());
  std::vector<Contribution> members(rows.size());
  for (std::size_t m = 0; m < rows.size(); ++m) {
    for (std::size_t k = 0; k < work.collective.operand_leaves(); ++k)
      leaves[m].push_back(rows[m].data() + operands.base(k));
    members[m].operands = leaves[m];
  }
  members[work.rank].results = work.own.results;
  return work.collective.Run(work.group, work.rank, members);
}

}  // namespace krafla
