// SPDX-License-Identifier: Apache-2.0
#include "plan/slice_extent.h"

#include "krafla/status.h"

namespace krafla::plan {

SliceExtent ExtentOf(const ProgramPlan& plan, const Slice& s) {
  const Allocation& a = plan.allocations[static_cast<std::size_t>(s.allocation)];
  const int64_t number = a.number;
  switch (a.kind) {
    case Allocation::Kind::kArena: return {0, a.offset + s.offset, a.offset + s.offset + s.size};
    case Allocation::Kind::kResult:
      if (const int of = plan.result_aliases[static_cast<std::size_t>(number)]; of >= 0)
        return {1 + 4 * int64_t{of}, s.offset, s.offset + s.size};
      return {2 + 4 * number, s.offset, s.offset + s.size};
    case Allocation::Kind::kArgument: return {1 + 4 * number, s.offset, s.offset + s.size};
    case Allocation::Kind::kConstant: return {3 + 4 * number, s.offset, s.offset + s.size};
    case Allocation::Kind::kState: return {4 + 4 * number, s.offset, s.offset + s.size};
    case Allocation::Kind::kBlock: break;  // plans for Vulkan have no row groups
    case Allocation::Kind::kDeviceId: return {-1 - number, s.offset, s.offset + s.size};
  }
  KRAFLA_UNREACHABLE();
}

bool ShareBytes(const ProgramPlan& plan, const Slice& a, const Slice& b) {
  const bool in_arena = plan.allocations[static_cast<std::size_t>(a.allocation)].kind == Allocation::Kind::kArena;
  if (in_arena && a.allocation != b.allocation) return false;
  return ExtentOf(plan, a).Overlaps(ExtentOf(plan, b));
}

}  // namespace krafla::plan
