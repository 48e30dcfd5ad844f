// SPDX-License-Identifier: Apache-2.0
// The rows of a ReduceKernel: what one invocation, subgroup or workgroup does with the elements of a row.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "spirv_codegen/kernels/context.h"
#include "spirv_codegen/kernels/workgroup_meet.h"

namespace krafla::spirv {

// Who takes a row.
enum class RowOwner { kInvocation, kSubgroup, kWorkgroup };

// The sizes of a reduction.
struct ReduceProblem {
  int64_t rows = 1, elements = 1;
  int row_rank = 0, element_rank = 0;
  int row_dim = -1;      // the last row dimension that is not 1
  int element_dim = -1;  // the same of the elements
};
ReduceProblem MeasureReduce(const plan::ReduceKernel& k);
// Rows along the last row dimension that is not 1: those of an invocation that takes several are of one line.
int64_t RowsOfLine(const plan::ReduceKernel& k, const ReduceProblem& p);
// How many invocations that take `width` rows have whole ones.
int64_t RowGroups(const plan::ReduceKernel& k, const ReduceProblem& p, int64_t width);

// What is reduced: the elements [begin, end) of a row.
struct ReduceWork {
  Value row;          // the first row of the group, u32
  Value begin, end;   // elements
  Value store_limit;  // a condition on the stores that are made once a row; none: every invocation makes them
  Value once;         // the same where buffers may have copies, which all invocations store to
};

// Emits the stages of rows into one kernel.
class RowEmitter {
 public:
  // `local`: invocations of a workgroup. `subgroup`: the size of subgroup that the kernel counts on, 0 for none.
  // `row_width`: neighbouring rows that an invocation takes, 1 or 4.
  RowEmitter(KernelWriter& w, const plan::ReduceKernel& k, const ReduceProblem& p, RowOwner owner, uint32_t local,
             uint32_t subgroup, int row_width)
      : w_(w),
        b_(w.b),
        k_(k),
        p_(p),
        owner_(owner),
        local_(local),
        subgroup_(subgroup),
        row_width_(row_width),
        meet_(w.b, local, subgroup) {}

  // Kinds of the values of a part, which EmitPart gives and EmitFromParts takes.
  static std::vector<Kind> PartKinds(const plan::KernelPlan& plan, const plan::ReduceKernel& k,
                                     const DeviceProfile& profile);

  // All stages of a row.
  void EmitRow(const ReduceWork& work);
  // The first stage's reductions over a part of the elements, into scratch buffers.
  void EmitPart(const ReduceWork& work, const std::function<void(const Values&)>& store);
  // As EmitRow with the first stage's elements replaced by `load(part)`, its partial results.
  void EmitFromParts(const ReduceWork& work, const std::function<Values(Value)>& load);

 private:
  using Turn = std::function<Values(Value element, const Values& state)>;

  ProgramLowering RowLowering(const plan::ElementProgram& program, const ReduceWork& work, const Values& known);
  // This invocation's share of the elements of one stage.
  Values ReduceElements(const plan::ReduceStage& stage, const ReduceWork& work, const Values& known,
                        const ReductionValues& values);
  // Whether an invocation loads four neighbouring elements at a time.
  bool ElementVectors(const plan::ElementProgram& program) const;
  // Whether it does so where fours do not divide the elements, of which it takes the last ones one by one.
  bool OddVectors(const plan::ElementProgram& program) const;
  // Invocations that share a row, and the number of this one among them.
  uint32_t Lanes() const;
  Value Lane();
  // Whether an invocation takes more of the elements than two chains.
  bool IsLong(Value begin, Value end) const;
  // This invocation's turns over [begin, end), `step` elements each.
  // `together`: as TurnsTogether has it. `in_order`: invocations that share a row take runs of elements one behind the
  // other, not by turns.
  Values Walk(Value begin, Value end, uint32_t step, const Values& start, const Turn& body, bool in_order,
              uint32_t together = 1);
  // The same in chains of kSumChain turns.
  Values WalkChains(const ReduceWork& work, uint32_t step, const ReductionValues& values, int width, uint32_t together,
                    const Turn& body);
  // The run of [begin, end) that this invocation takes.
  std::pair<Value, Value> Run(Value begin, Value end);
  // Of a stage. Where drivers write all turns out they keep what these give for the stages that follow.
  int64_t LoadsOfElement() const;
  std::size_t ProgramSize() const;
  // The invocations' results become one, which each of them knows.
  Values Meet(const ReductionValues& values, Values state);

  KernelWriter& w_;
  Builder& b_;
  const plan::ReduceKernel& k_;
  const ReduceProblem& p_;
  RowOwner owner_;
  uint32_t local_, subgroup_;
  int row_width_;
  WorkgroupMeet meet_;
};

}  // namespace krafla::spirv
