// SPDX-License-Identifier: Apache-2.0
// Turns a verified, optimised module into a ProgramPlan. This touches no device and depends on nothing but its
// arguments.
#pragma once

#include <functional>
#include <memory>

#include "base/guards.h"
#include "ir/verifier.h"
#include "krafla/status.h"
#include "plan/fusion/fusion.h"
#include "plan/program_plan.h"

namespace krafla::plan {

// Row groups (RowGroupStep). None changes a result.
struct RowGroupOptions {
  bool enabled = false;
  // What a group must save: the bytes of the arrays that lie between its kernels. Smaller ones stay in the cache.
  int64_t least_saved = int64_t{4} << 20;
  // What the arrays of a block may take: a part of a processor's own cache.
  int64_t block_bytes = int64_t{1} << 20;
  // A product reads its right operand, which all rows share, once for each block. From `many_rows` on that costs little
  // beside the arithmetic, wherever the operand lies; with fewer rows it should stay in the cache, or be less than what
  // the block saves.
  int64_t few_rows = 32, many_rows = 256;
  int64_t shared_bytes = int64_t{4} << 20;
  // Rows of which only the first columns count (plan/rows/column_bounds.h) fall into at most so many parts, each with a
  // number of columns of its own; 0: all rows have all. And the operations that this must save.
  int64_t bounded_parts = 16;
  double least_bound_flops = 50e6;
  // By which numbers of columns sums keep their order: whether products sum in runs, whose lengths depend on how many
  // terms there are (plan/rows/group_bounds.cpp), or else where there is one order for all sums of more terms than
  // this.
  bool sums_in_runs = true;
  int64_t short_sum = 0;
  // What blocks of a binding lie apart is a multiple of so many bytes.
  int64_t alignment = 1;
  // Blocks of a group, at the most: where they would be more, they are larger.
  int64_t most_blocks = int64_t{1} << 40;
  // Whether the device takes three kernels as this one, an AttentionKernel; empty: it takes none.
  std::function<bool(const KernelPlan&)> takes_attention = {};
  // Whether it takes limits of masks that are added (ColumnLimits::added).
  bool limits_added_masks = false;
  // Elements of an array between the kernels of a group; outside of groups FusionLimits::elements is the limit.
  int64_t elements = int64_t{1} << 40;
};

struct PlanOptions {
  FusionOptions fusion;
  RowGroupOptions row_groups;
  // Whether the device takes independent launches as this one, a HorizontalKernel, and is no slower for it; empty: it
  // takes none.
  std::function<bool(const KernelPlan&)> takes_horizontal = {};
  // Whether it may also be asked for such kernels that begin with rows.
  bool rows_in_products = false;
  // Whether small launches go together in loops of much work too: where these do not become tapes, in which a small
  // kernel is an instruction.
  bool joins_in_loops = false;
  // Whether a donated parameter shares its buffer with the result that updates it in place.
  bool alias_donated = true;
  // Temporaries that lie so share no bytes: pages of their own, and one between each two.
  Guards guards = Guards::kNone;
};

Result<ProgramPlan> PlanProgram(VerifiedModule module, const PlanOptions& options);

// The kernels and the steps with their slices and sizes as text, for people.
std::string ToString(const ProgramPlan& plan);

}  // namespace krafla::plan
