// SPDX-License-Identifier: Apache-2.0
// AttentionKernel: what its variants share.
#pragma once

#include <optional>
#include <vector>

#include "spirv_codegen/kernels/context.h"
#include "spirv_codegen/kernels/dot.h"
#include "spirv_codegen/kernels/reduction_values.h"

namespace krafla::spirv {

// The programs of an attention over its rows, whose scores are a param.
struct AttentionPrograms {
  explicit AttentionPrograms(const plan::KernelPlan& plan, const plan::AttentionKernel& kernel);

  int score_param = 0;
  std::vector<plan::ElementProgram> stages;  // of AttentionKernel::rows
  plan::NodeId score = plan::kNoNode;        // of the epilogue of the scores: what it stores
  plan::NodeId weight = plan::kNoNode;       // of the last stage: what it stores
  // The epilogue of the product, whose params from 1 on are what row stages make for it, one of each of these.
  struct OfRow {
    std::size_t stage = 0;
    plan::NodeId node = plan::kNoNode;
  };
  std::vector<OfRow> of_rows;
  plan::ElementProgram product;

 private:
  void TakeRowsOut(const plan::AttentionKernel& kernel, int first_buffer);
};

// A sum of exp(x - h), where h is the same in all of a row and may be known after the sum: stage `sum` of the rows,
// behind the reductions that h needs in stage `before`.
struct ExponentialSum {
  std::size_t before = 0, sum = 0;
  plan::NodeId x = plan::kNoNode, h = plan::kNoNode;  // of the stage's program
};
// The first one; nothing where there is none.
std::optional<ExponentialSum> FindExponentialSum(const plan::AttentionKernel& kernel,
                                                 const AttentionPrograms& programs);

// The attention with keys and values in scratch, where they are narrow and many rows read them: adds the dispatches
// that put them there, and the buffers.
Result<plan::AttentionKernel> WidenAttention(const plan::KernelPlan& plan, const plan::AttentionKernel& kernel,
                                             const Target& target, std::vector<BufferDesc>& scratch,
                                             EmittedProgram& out);

// Whether a workgroup of so many invocations is one subgroup, so that a kernel may require that.
bool IsOneSubgroup(const Target& target, uint32_t lanes);

// attention.rows: an invocation takes a row. It reads its query once and keeps it; what it reads of keys and values is
// the same in all lanes of a workgroup, one read for all of them where shaders run on a processor's vectors.
Result<EmittedDispatch> EmitAttentionRows(KernelWriter& w, const plan::AttentionKernel& kernel,
                                          const AttentionPrograms& programs, const Target& target);

// attention.group: a workgroup of `lanes` invocations takes a row. `subgroup`: the size of subgroup that the kernel
// counts on, 0 for none.
Result<EmittedDispatch> EmitAttentionGroup(KernelWriter& w, const plan::AttentionKernel& kernel,
                                           const AttentionPrograms& programs, const Target& target, uint32_t lanes,
                                           uint32_t subgroup);
// What its workgroup shares, at the most.
int64_t SharedBytesOfAttentionGroup(const plan::AttentionKernel& kernel, uint32_t lanes);

}  // namespace krafla::spirv
