// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/kernels/reduce_choice.h"

#include <algorithm>

#include "base/checked_math.h"
#include "plan/combiner_order.h"
#include "spirv_codegen/kernels/variant.h"

namespace krafla::spirv {
namespace {

using plan::ReduceKernel;
using plan::ReduceStage;

// The bytes that the element stages load at each point from arrays in which neighbours along `dim` lie side by side;
// the parts of complex numbers lie between each other.
int64_t ContiguousBytes(const ReduceKernel& k, int dim, int width) {
  int64_t out = 0;
  if (dim < 0) return 0;
  for (const ReduceStage& stage : k.stages) {
    if (stage.scope != ReduceStage::Scope::kElement) continue;
    if (stage.program.space.dims()[static_cast<std::size_t>(dim)] % width != 0) return 0;
    LanePatterns patterns(stage.program.space, dim, width);
    for (const plan::Node& n : stage.program.nodes) {
      if (n.op != plan::NodeOp::kLoad) continue;
      const LanePattern p = patterns.Of(n.index);
      if (p.affine && (p.stride == 2 || (p.stride == 1 && (p.aligned || width == 1)))) out += StorageBytes(n.storage);
    }
  }
  return out;
}

// Elements of a window that one invocation takes even where they lie side by side, at the most.
constexpr int64_t kLongestWindow = 128;
// Columns that fill the lanes by fours, where some are left over for a launch of their own.
constexpr int64_t kLeastOddLine = 64;

uint32_t PowerOfTwoAtMost(uint32_t n) {
  uint32_t p = 1;
  while (p * 2 <= n) p *= 2;
  return p;
}

// The work of one workgroup cannot be cut, so longer columns and rows are split into parts.
constexpr int64_t kLongestColumn = int64_t{1} << 17, kLongestRow = int64_t{1} << 21;

struct ReduceCase {
  ReduceCase(const ReduceKernel& kernel, const ReduceProblem& problem, const Target& device, bool second_pass)
      : k(kernel), p(problem), target(device), tuning(device.tuning.reduce) {
    int64_t by_row = ContiguousBytes(k, p.row_dim, 4);
    const int64_t by_element = ContiguousBytes(k, p.element_dim, 1), line = RowsOfLine(k, p);
    bool odd = false;
    if (tuning.odd_columns && by_row == 0 && line >= kLeastOddLine) {
      by_row = ContiguousBytes(k, p.row_dim, 1);
      // Of a window's elements neighbouring rows have most in common.
      odd = by_row > by_element || (by_row > 0 && by_row == by_element && p.elements <= kLongestWindow);
    }
    columns = (by_row > by_element || odd) && !second_pass;
    row_width = columns && (odd || line % 4 == 0) ? 4 : 1;
    subgroup = FixedSubgroupSize(target.profile, tuning.subgroup);
    in_turn = std::ranges::any_of(
        k.stages, [](const ReduceStage& s) { return std::ranges::any_of(s.reductions, plan::CombinesInTurn); });
    splittable = !second_pass && !in_turn && k.stages.front().scope == ReduceStage::Scope::kElement &&
                 k.stages.front().program.stores.empty() && !k.stages.front().reductions.empty() &&
                 std::all_of(k.stages.begin() + 1, k.stages.end(),
                             [](const ReduceStage& s) { return s.scope == ReduceStage::Scope::kRow; });
  }
  // Into how many parts a row is split that several invocations share.
  int64_t RowParts() const {
    if (!splittable) return 1;
    int64_t parts = 1;
    if (p.elements >= 8 * tuning.long_row && p.rows < tuning.few_rows)
      parts = std::clamp<int64_t>(tuning.row_parts / p.rows, 1, p.elements / tuning.long_row);
    return std::max(parts, p.elements / kLongestRow);
  }

  const ReduceKernel& k;
  const ReduceProblem& p;
  const Target& target;
  const ReduceTuning& tuning;
  bool columns;       // neighbouring rows lie side by side
  int row_width;      // rows that an invocation takes
  uint32_t subgroup;  // the size of all subgroups; 0: not known
  bool in_turn;       // one invocation takes a row's elements
  bool splittable;    // another kernel can combine the results of parts
};

Refusal RefusesColumns(const ReduceCase& c) {
  if (c.columns || c.in_turn || c.p.elements <= c.tuning.short_row) return std::nullopt;
  return Format("{} elements a row", c.p.elements);
}

ReduceChoice ChooseColumns(const ReduceCase& in, std::string) {
  const ReduceTuning& tuning = in.tuning;
  const ReduceProblem& p = in.p;
  ReduceChoice c;
  c.row_width = in.row_width;
  c.name = c.row_width == 4 ? "reduce.column.vec4" : "reduce.serial";
  c.reason = in.columns ? "rows lie side by side" : Format("{} elements a row", p.elements);
  c.local = WorkgroupSize(in.target.profile, std::max(tuning.serial_local, in.target.profile.limits.subgroup_size));
  if (!in.splittable) return c;
  const int64_t items = std::max<int64_t>(RowGroups(in.k, p, c.row_width), 1), wanted = tuning.wanted_invocations;
  if (items < wanted && p.elements >= tuning.least_split_column) {
    const int64_t most = std::max<int64_t>(p.elements / tuning.least_column_part, 1);
    c.parts = std::clamp<int64_t>(CeilDiv(wanted, items), 1, most);
  }
  c.parts = std::max(c.parts, p.elements / kLongestColumn);
  return c;
}

Refusal RefusesSubgroupRow(const ReduceCase& c) {
  if (c.subgroup == 0) return "no fixed subgroup size";
  if (c.p.elements > c.tuning.subgroup_row) return "long rows";
  return std::nullopt;
}

ReduceChoice ChooseSubgroupRow(const ReduceCase& in, std::string) {
  ReduceChoice c;
  c.parts = in.RowParts();
  c.owner = RowOwner::kSubgroup;
  c.subgroup = in.subgroup;
  c.local = WorkgroupSize(in.target.profile, std::max(in.tuning.subgroup_local, in.subgroup));
  c.local = std::max(c.local / in.subgroup, 1u) * in.subgroup;
  c.name = "reduce.subgroup_row";
  c.reason = Format("{} elements a row in subgroups of {}", in.p.elements, in.subgroup);
  return c;
}

ReduceChoice ChooseWorkgroupRow(const ReduceCase& in, std::string refused) {
  ReduceChoice c;
  c.parts = in.RowParts();
  c.owner = RowOwner::kWorkgroup;
  c.local = PowerOfTwoAtMost(WorkgroupSize(in.target.profile, in.tuning.workgroup_local));
  while (c.local > 32 && int64_t{c.local} * 4 > in.p.elements * 2) c.local /= 2;
  c.subgroup = in.subgroup != 0 && c.local % in.subgroup == 0 && c.local > in.subgroup ? in.subgroup : 0;
  c.name = "reduce.workgroup_row";
  c.reason = std::move(refused);
  return c;
}

Refusal RefusesWorkgroupRow(const ReduceCase& in) {
  const ReduceChoice c = ChooseWorkgroupRow(in, "");
  const uint32_t entries = c.subgroup != 0 ? c.local / c.subgroup : c.local;
  if (ReduceSharedBytes(in.k, entries) <= in.target.profile.limits.max_shared_memory_bytes) return std::nullopt;
  return "the values of a workgroup do not fit shared memory";
}

ReduceChoice ChooseSerialRow(const ReduceCase& in, std::string refused) {
  ReduceChoice c;
  c.local = WorkgroupSize(in.target.profile, in.tuning.join_local);
  c.name = "reduce.serial";
  c.reason = std::move(refused);
  return c;
}

// In order of preference.
constexpr Variant<ReduceCase, ReduceChoice> kReduceVariants[] = {
    {"serial", RefusesColumns, ChooseColumns},  // columns side by side, and short rows
    {"subgroup_row", RefusesSubgroupRow, ChooseSubgroupRow},
    {"workgroup_row", RefusesWorkgroupRow, ChooseWorkgroupRow},
    {"serial", nullptr, ChooseSerialRow},
};
static_assert(TakesEverything(kReduceVariants));

}  // namespace

ReduceChoice ChooseReduce(const ReduceKernel& k, const ReduceProblem& p, const Target& target, bool second_pass) {
  return MakeFirst(kReduceVariants, ReduceCase(k, p, target, second_pass));
}

int64_t ReduceSharedBytes(const ReduceKernel& k, uint32_t entries) {
  int64_t widest = 0;
  for (const ReduceStage& s : k.stages) {
    int64_t bytes = 0;
    for (const plan::Reduction& r : s.reductions) bytes += static_cast<int64_t>(r.inputs.size()) * 8 + 4;
    widest = std::max(widest, bytes);
  }
  return widest * entries;
}

}  // namespace krafla::spirv
