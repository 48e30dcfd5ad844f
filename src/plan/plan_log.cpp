// SPDX-License-Identifier: Apache-2.0
// The reasons of a plan in words.
#include "plan/plan_log.h"

#include <algorithm>

namespace krafla::plan {

std::string Says(const KeptValue& kept) {
  switch (kept.why) {
    case KeptWhy::kInlined: return "The kernels that read it compute it.";
    case KeptWhy::kHero: return "A kernel is made around it.";
    case KeptWhy::kWanted:
      return kept.reader == nullptr ? "It is a result of the computation."
                                    : Format("{} takes it from memory.", kept.reader->name());
    case KeptWhy::kManyPlaces: return "Too many places read it for it to be computed in each.";
    case KeptWhy::kTwoPads: return "It lays elements apart, and so does what reads it.";
    case KeptWhy::kGatheredPad:
      return "To decide at each computed place whether it holds an element costs more than to store it.";
    case KeptWhy::kConcatenate:
      return "To choose among the operands of a concatenate at each element costs more than to store it.";
    case KeptWhy::kRepeated:
      return Format("Its reader would compute it {:.3g} times for each element, at a cost of {:g} each.", kept.factor,
                    kept.cost);
    case KeptWhy::kShared:
      return Format("{} kernels read it, and each would compute it, at a cost of {:g} for each element.", kept.kernels,
                    kept.cost);
    case KeptWhy::kFullKernel: return "The kernel that reads it holds as many instructions as one may.";
    case KeptWhy::kEvaluations: return "The kernel that reads it comes to it on too many ways.";
    case KeptWhy::kBuffers: return "With what it reads its kernel would have more buffers than the device gives one.";
    case KeptWhy::kNoFusion: return "Fusion is off.";
  }
  return "";
}

std::string_view Says(Unmerged why) {
  switch (why) {
    case Unmerged::kKind: return "A kernel of the reader's family does not follow another one.";
    case Unmerged::kFull: return "The kernel would have more instructions than one may.";
    case Unmerged::kRegionSize: return "The kernel would have more reductions and results than one may.";
    case Unmerged::kRows:
      return "They do not run over the same rows, or the rows are better shared among workgroups by kernels of their "
             "own.";
    case Unmerged::kBetween: return "A third kernel lies between them.";
    case Unmerged::kTries: return "As many merges of this reduction were tried as may be.";
    case Unmerged::kWork: return "One kernel would compute too much anew.";
    case Unmerged::kNotOneKernel:
      return "The family cannot write them as one kernel, or it would have too many buffers.";
    case Unmerged::kOthersRead: return "More than one kernel reads the result, or it is a result of the program.";
    case Unmerged::kReadsUpdated:
      return "The kernel would read the array that it updates, which then would have to be copied.";
    case Unmerged::kManyRoots: return "One of them makes several results already.";
    case Unmerged::kElementCount: return "They have different numbers of elements.";
    case Unmerged::kDimensions: return "They are loops over different dimensions.";
    case Unmerged::kNothingShared: return "They are large and share no input, so that one launch less is no gain.";
    case Unmerged::kDistance: return "Too many kernels stand between them.";
  }
  return "";
}

std::string_view Says(HostWhy why) {
  switch (why) {
    case HostWhy::kDynamic: return "Its size is known only when it runs.";
    case HostWhy::kTooLarge: return "It has more elements than a kernel indexes.";
    case HostWhy::kNoFamily: return "No family of kernels takes this form of it (docs/ops.md).";
  }
  return "";
}

std::string_view Says(Ungrouped why) {
  switch (why) {
    case Ungrouped::kGrouped: return "They run block of rows by block of rows.";
    case Ungrouped::kFamily: return "Kernels of its family do not run over a part of their rows.";
    case Ungrouped::kRows: return "It reads other rows of a result than those that it computes.";
    case Ungrouped::kMemory: return "It writes where another kernel of the chain reads or writes.";
    case Ungrouped::kBetween: return "A step stands between that has to run first.";
    case Ungrouped::kShared: return "Too few rows fit the cache for all of them to share the operand of a product.";
    case Ungrouped::kSaves: return "What lies between the kernels is small.";
    case Ungrouped::kSums: return "What it sums up over its rows takes too much of what that saves.";
    case Ungrouped::kAligned: return "A block of its rows would begin where no buffer of this device's kernels begins.";
    case Ungrouped::kIndices: return "An index depends on the row in a way that a block of rows cannot have.";
  }
  return "";
}

std::string_view Says(NotOneKernel why) {
  switch (why) {
    case NotOneKernel::kBetween: return "between two of them lies not just one array that nobody else touches.";
    case NotOneKernel::kRows: return "they do not go through the same rows.";
    case NotOneKernel::kOthers: return "one of them reads what another one writes beside the arrays between them.";
    case NotOneKernel::kScores:
      return "the first product stores more than the scores of its rows, or sums in another type than f32.";
    case NotOneKernel::kReductions: return "the reductions read or store more than the elements of their own row.";
    case NotOneKernel::kProduct:
      return "the second product reads more than the weights of its rows, or sums in another type than f32.";
    case NotOneKernel::kDevice: return "the device has no such kernel of this size.";
  }
  return "";
}

std::string Says(const LoggedRowGroup& group) {
  std::string out;
  if (group.not_one_kernel.has_value() || group.why == Ungrouped::kGrouped) {
    for (const Instruction* kernel : group.kernels) out += Format("{}{}", out.empty() ? "" : ", ", kernel->name());
    if (group.not_one_kernel.has_value()) return Format("{} are not one kernel: {}", out, Says(*group.not_one_kernel));
    if (group.is_one_kernel) return Format("{} are one kernel: {} bytes less between them.", out, group.saved_bytes);
    out = Format("{} run on {} of {} rows at a time: {} bytes less between them.", out, group.block_rows, group.rows,
                 group.saved_bytes);
    if (!group.bounds.empty()) out += " A mask leaves parts of the rows the first";
    for (std::size_t b = 0; b < group.bounds.size(); ++b)
      out += Format("{} {}", b == 0 ? "" : b + 1 == group.bounds.size() ? " and" : ",", group.bounds[b]);
    if (!group.bounds.empty()) out += " columns.";
  } else if (group.kernels.size() > 1) {
    out = Format("Not block of rows by block of rows: {}", Says(group.why));
  }
  if (group.next != nullptr && group.why_not_next != Ungrouped::kGrouped)
    out += Format("{}{} is not run with it block of rows by block of rows: {}", out.empty() ? "" : " ",
                  group.next->name(), Says(group.why_not_next));
  return out;
}

namespace {

// Whether a step of fusion looks at what reads a kernel of this kind.
bool MergesWithReaders(FusionGroup::Kind kind) {
  using Kind = FusionGroup::Kind;
  switch (kind) {
    case Kind::kLoop:
    case Kind::kReduce:
    case Kind::kDot:
    case Kind::kConvolution: return true;
    case Kind::kDynamicUpdate:
    case Kind::kConcatenate:
    case Kind::kRng:
    case Kind::kSort:
    case Kind::kScan:
    case Kind::kScatter:
    case Kind::kFft:
    case Kind::kLinalg:
    case Kind::kWhile:
    case Kind::kConditional:
    case Kind::kCall:
    case Kind::kHost: return false;
  }
  return false;
}

}  // namespace

std::string WhyApart(const PlanLog& log, const LoggedGroup& maker, const LoggedGroup& reader,
                     const Instruction& value) {
  const auto kept = log.kept.find(&value);
  if (!log.is_fused) return Says(KeptValue{KeptWhy::kNoFusion});
  std::string out;
  if (kept != log.kept.end() && kept->second.why != KeptWhy::kHero) out = Says(kept->second);
  const auto holds = [](const LoggedGroup& group, const Instruction* i) {
    return std::ranges::contains(group.made, i);
  };
  const auto refusal = std::find_if(log.refusals.rbegin(), log.refusals.rend(), [&](const MergeRefusal& r) {
    return (holds(maker, r.first) && holds(reader, r.second)) || (holds(maker, r.second) && holds(reader, r.first));
  });
  if (refusal != log.refusals.rend()) {
    out += Format("{}{}", out.empty() ? "" : " ", Says(refusal->why));
  } else if (out.empty()) {
    out = MergesWithReaders(maker.kind)
              ? "No step of fusion joins kernels of these two kinds."
              : "Only reductions, dots, convolutions and loops are joined with what reads them.";
  }
  return out;
}

}  // namespace krafla::plan
