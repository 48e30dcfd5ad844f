// SPDX-License-Identifier: Apache-2.0
#include "plan/rebind.h"

namespace krafla::plan {

void Rebind(KernelBody& body, std::span<const int> to, const std::vector<ProgramBuffer>& buffers) {
  const auto moved = [&](int binding) { return to[static_cast<std::size_t>(binding)]; };
  ForEachProgram(body, [&](ElementProgram& p) {
    RenumberBuffers(p, moved);
    p.buffers = buffers;
  });
  const auto move_operands = [&](DotKernel* dot) {
    if (dot == nullptr) return;
    if (!dot->computes_lhs()) dot->lhs_binding = moved(dot->lhs_binding);
    if (!dot->computes_rhs()) dot->rhs_binding = moved(dot->rhs_binding);
  };
  move_operands(std::get_if<DotKernel>(&body));
  if (auto* horizontal = std::get_if<HorizontalKernel>(&body))
    for (HorizontalKernel::Part& part : horizontal->parts) move_operands(std::get_if<DotKernel>(&part));
}

}  // namespace krafla::plan
