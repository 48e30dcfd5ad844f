// SPDX-License-Identifier: Apache-2.0
// Why a plan is as it is: what the planner writes down where it decides, for who asks (FusionOptions::log). Without a
// log nothing is kept. Instructions are those of the plan's module and live as long as it does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "plan/fusion/fusion_plan.h"
#include "plan/program_plan.h"

namespace krafla::plan {

// Why a value has a buffer and is not computed by the kernels that read it.
enum class KeptWhy : uint8_t {
  kInlined,      // it has none
  kHero,         // a kernel is made around it
  kWanted,       // it is a result, or a reader takes it from memory
  kManyPlaces,   // FusionLimits::places
  kTwoPads,      // a pad that lays elements apart below another one or a window
  kGatheredPad,  // a pad that is read at computed places (FusionOptions::stores_gathered_pads)
  kConcatenate,  // to choose among its operands at each element costs more than to store it
  kRepeated,     // one kernel reads it, and would compute it too often for what it costs
  kShared,       // several kernels read it, and each would compute it
  kFullKernel,   // FusionLimits::inlined
  kEvaluations,  // FusionLimits::evaluations
  kBuffers,      // FusionOptions::buffer_limit
  kNoFusion,     // fusion is off
};
struct KeptValue {
  KeptWhy why = KeptWhy::kInlined;
  const Instruction* reader = nullptr;  // of kWanted: who takes it from memory; null: it is a result
  double factor = 0, cost = 0;          // evaluations for each element, and what each costs (docs/fusion.md)
  int kernels = 0;                      // that would compute it
};

// Why two groups did not become one.
enum class Unmerged : uint8_t {
  kKind,           // the reader is of a family that does not follow a reduction, a dot or a convolution
  kRegionSize,     // FusionLimits::reductions, members
  kFull,           // FusionLimits::merged, formulas
  kRows,           // they do not run over the same rows and elements, or the rows are better shared among workgroups
  kBetween,        // a third kernel lies between
  kTries,          // FusionLimits::refusals
  kWork,           // the kernel would compute much anew
  kNotOneKernel,   // the family cannot write it, or it has more buffers than a kernel may
  kOthersRead,     // something besides the one loop reads the hero
  kReadsUpdated,   // the kernel would read the array that it updates, of which it then needed a copy
  kManyRoots,      // the reader makes several results; FusionLimits::sibling_roots
  kElementCount,   // the reader has another number of elements
  kDimensions,     // loops over different dimensions
  kNothingShared,  // large loops which share no input
  kDistance,       // FusionLimits::sibling_distance
};
struct MergeRefusal {
  const Instruction *first = nullptr, *second = nullptr;  // a member of each
  Unmerged why = Unmerged::kKind;
};

// Why the evaluator runs an instruction on the host.
enum class HostWhy : uint8_t {
  kDynamic,   // its size is known at run time only
  kTooLarge,  // FusionLimits::elements
  kNoFamily,  // no family of kernels takes this form of it
};

// A group as it was at the end.
struct LoggedGroup {
  const Instruction* instruction = nullptr;  // LaunchStep::instruction
  FusionGroup::Kind kind = FusionGroup::Kind::kLoop;
  std::vector<const Instruction*> members;  // all that it computes, in the order of the program
  std::vector<const Instruction*> made;     // heroes and roots
  std::vector<const Instruction*> reads;    // what it reads that has a buffer, parameters and constants included
};

// Why a kernel did not follow the ones before it block of rows by block of rows.
enum class Ungrouped : uint8_t {
  kGrouped,  // it did
  kFamily,   // its family has no rows
  kRows,     // it reads other rows of a result than those that it computes itself
  kMemory,   // it writes where another kernel of the group reads or writes
  kBetween,  // a step that is no launch, or whose results are needed, stands between
  kShared,   // blocks are too small for a product to read its right operand once for each of them
  kSaves,    // what lies between the kernels is small
  kSums,     // what it sums up over rows takes too much of what the group saves
  kAligned,  // a block would begin where no buffer of the device's kernels begins
  kIndices,  // an index depends on the row in a way that a block of rows cannot have
};
// Why a product, the reductions of its rows and the product behind them are not an AttentionKernel.
enum class NotOneKernel : uint8_t {
  kBetween,     // of two of them the second one reads not just one array that nobody else touches, and values of rows
  kRows,        // they do not go through the same rows
  kOthers,      // one of them reads what another one writes beside the arrays between them
  kScores,      // the first product stores other elements than each row's own scores, or sums in another type
  kReductions,  // the reductions read or store other elements than those of their own row
  kProduct,     // the second product reads other elements than its own row's weights, or sums in another type
  kDevice,      // CompileTarget::takes_attention
};
// A chain of kernels of which one reads what another writes, or one that has no such chain behind it.
struct LoggedRowGroup {
  std::vector<const Instruction*> kernels;  // LaunchStep::instruction
  Ungrouped why = Ungrouped::kGrouped;
  // The first launch behind it that needs it and is no part of it, and why; null: a step that is no launch, or nothing.
  const Instruction* next = nullptr;
  Ungrouped why_not_next = Ungrouped::kGrouped;
  bool is_one_kernel = false;                  // an AttentionKernel
  std::optional<NotOneKernel> not_one_kernel;  // such a chain that is none: nothing else is known of it
  int64_t saved_bytes = 0, block_rows = 0, rows = 0;
  // Of the rows of each head or batch element: the columns that a mask leaves to each part; nothing: all have all.
  std::vector<int64_t> bounds;
};

struct PlanLog {
  bool is_fused = true;
  std::unordered_map<const Instruction*, KeptValue> kept;
  std::vector<MergeRefusal> refusals;  // of a pair the last one counts
  std::unordered_map<const Instruction*, HostWhy> host;
  std::vector<LoggedGroup> groups;

  struct Place {
    ValueRef value;
    Slice slice;
  };
  std::vector<Place> places;  // a value that was placed twice lies where it was placed last
  // When bytes of the arena are alive, by the number of the step, from the first to the last.
  struct Life {
    int allocation = 0;
    int first = 0, last = 0;
  };
  std::vector<Life> lives;
  struct NumberedStep {
    int number = 0;
    const Instruction* instruction = nullptr;
  };
  std::vector<NumberedStep> launches;

  std::vector<LoggedRowGroup> row_groups;
  // Launches that are one (HorizontalKernel), by LaunchStep::instruction: those of the launches that there were.
  std::unordered_map<const Instruction*, std::vector<const Instruction*>> horizontal;
};

// The reasons as sentences.
std::string Says(const KeptValue& kept);
std::string_view Says(Unmerged why);
std::string_view Says(HostWhy why);
std::string_view Says(Ungrouped why);
std::string_view Says(NotOneKernel why);
std::string Says(const LoggedRowGroup& group);

// Why `value`, which `maker` makes and `reader` reads, goes through memory.
std::string WhyApart(const PlanLog& log, const LoggedGroup& maker, const LoggedGroup& reader, const Instruction& value);

}  // namespace krafla::plan
