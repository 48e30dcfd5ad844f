// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/kernels/while.h"

#include <algorithm>
#include <utility>

#include "ir/opcode.h"

namespace krafla::spirv {

double OperationsOf(const plan::ElementProgram& program) {
  double out = static_cast<double>(program.space.atom_count());
  for (const plan::Node& n : program.nodes)
    out += n.op == plan::NodeOp::kLoad                                                        ? 8
           : n.op == plan::NodeOp::kHlo && GetOpInfo(n.opcode).lowering == Lowering::kFormula ? 40
                                                                                              : 1;
  return out + 8.0 * static_cast<double>(program.stores.size());
}

void EmitBranches(Builder& b, Value index, bool index_is_pred, std::size_t count,
                  const std::function<void(std::size_t)>& branch, std::size_t first) {
  if (first + 1 >= count) {
    if (first < count) branch(first);
    return;
  }
  const Value here = index_is_pred ? b.Compare(Cmp::kNe, index, b.U32(0))
                                   : b.Compare(Cmp::kEq, index, b.U32(static_cast<uint32_t>(first)));
  b.If(
      here,
      [&] {
        branch(first);
        return Values{};
      },
      [&] {
        EmitBranches(b, index, index_is_pred, count, branch, first + 1);
        return Values{};
      });
}

namespace {

// A loop as launches costs microseconds a turn; a driver that optimizes the code of a hundred steps costs seconds.
Result<EmittedLoop> OfFewWords(Result<EmittedLoop> loop, const Tuning& tuning) {
  std::size_t words = 0;
  if (loop)
    for (const EmittedLoop::Launch& launch : loop->launches) words = std::max(words, launch.kernel.words.size());
  if (std::cmp_less_equal(words, tuning.loop_nest.most_words)) return loop;
  return TooLong(words, tuning);
}

}  // namespace

Failure TooLong(std::size_t words, const Tuning& tuning) {
  return Unimplemented("The loop has {} words of code; drivers take long to compile more than {}.", words,
                       tuning.loop_nest.most_words);
}

Result<EmittedLoop> EmitWhile(const plan::ProgramPlan& plan, const plan::WhileStep& loop, const DeviceProfile& profile,
                              const Tuning& tuning) {
  auto points = OfFewWords(EmitPointLoop(plan, loop, profile, tuning), tuning);
  if (points || points.error().code() != StatusCode::kUnimplemented) return points;
  const std::string no_points = Format("points: {}", points.error().message());
  auto nest = OfFewWords(EmitLoopNest(plan, loop, profile, tuning), tuning);
  if (!nest && nest.error().code() == StatusCode::kUnimplemented)
    return Unimplemented("{} workgroup: {}", no_points, nest.error().message());
  if (nest) nest->launches.front().kernel.reason = no_points;
  return nest;
}

}  // namespace krafla::spirv
