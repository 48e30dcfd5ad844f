// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/reduced_product.h"

#include "base/index.h"
#include "plan/reindex.h"

namespace krafla::cpu {

using plan::ElementProgram;
using plan::IndexId;
using plan::kNoNode;
using plan::Node;
using plan::NodeId;
using plan::NodeOp;

namespace {

// The sum of f32, from zero.
plan::Reduction SumOf(int input, std::span<const plan::ProgramBuffer> buffers) {
  plan::Reduction out;
  out.kind = plan::Reduction::Kind::kSum;
  out.inputs = {input};
  plan::ProgramBuilder combiner({});
  combiner.AddResult(combiner.Hlo(Opcode::kAdd, ElementType::kF32,
                                  {combiner.Param(ElementType::kF32, 0, 0), combiner.Param(ElementType::kF32, 1, 0)}));
  out.combiner = std::move(combiner).Finish();
  plan::ProgramBuilder init({});
  init.AddResult(init.Constant(ElementType::kF32, 0));
  out.init = std::move(init).Finish();
  for (ElementProgram* p : {&out.combiner, &out.init}) p->buffers.assign(buffers.begin(), buffers.end());
  return out;
}

// The program over [batch, lines, depth], and for each vector the product of its result.
void AddVectorProducts(ElementProgram& program, int buffer, int64_t count) {
  plan::IndexSpace& space = program.space;
  const NodeId value = program.results[0];
  program.results.clear();
  const auto rank = static_cast<int>(space.dims().size());
  const int64_t depth = space.dims().back();
  IndexId batch = space.Constant(0);
  for (int d = 0; d + 2 < rank; ++d) batch = space.Add(space.Mul(batch, space.dims()[At(d)]), space.Iter(d));
  const auto add = [&](Node node) {
    program.nodes.push_back(node);
    return static_cast<NodeId>(program.nodes.size()) - 1;
  };
  for (int64_t v = 0; v < count; ++v) {
    const IndexId at = space.AddConstant(space.Add(space.Mul(batch, count * depth), space.Iter(rank - 1)), v * depth);
    const NodeId x = add({.op = NodeOp::kLoad,
                          .type = ElementType::kF32,
                          .storage = ElementType::kF32,
                          .buffer = buffer,
                          .index = at,
                          .depends = space.Depends(at)});
    program.results.push_back(add({.op = NodeOp::kHlo,
                                   .opcode = Opcode::kMultiply,
                                   .type = ElementType::kF32,
                                   .storage = ElementType::kF32,
                                   .operands = {value, x, kNoNode},
                                   .depends = program.nodes[At(value)].depends | space.Depends(at)}));
  }
}

}  // namespace

KernelResult MakeReducedProduct(const ElementProgram& program, bool is_rhs, const GemmProblem& problem,
                                const ReducedVectors& vectors, std::span<const plan::ProgramBuffer> buffers,
                                int threads) {
  const std::size_t rank = program.space.dims().size();
  Dims dims = program.space.dims();
  std::vector<plan::DimImage> images;
  for (std::size_t d = 0; d < rank; ++d) images.push_back(plan::DimImage::Of(static_cast<int>(d)));
  if (is_rhs) {
    std::swap(dims[rank - 2], dims[rank - 1]);
    std::swap(images[rank - 2], images[rank - 1]);
  }
  plan::KernelPlan plan;
  plan.name = "product";
  std::vector<plan::ProgramBuffer> all(buffers.begin(), buffers.end());
  const int vectors_at = static_cast<int>(all.size()), result_at = vectors_at + 1;
  const int64_t lines = dims[rank - 2], depth = dims[rank - 1];
  all.push_back({ElementType::kF32, BatchCount(problem) * vectors.count * depth, false});
  int64_t last = (lines - 1) * vectors.line_stride + (vectors.count - 1) * vectors.vector_stride;
  for (std::size_t d = 0; d < problem.batch.size(); ++d)
    last += (problem.batch[d] - 1) * problem.result_batch_strides[d];
  all.push_back({ElementType::kF32, last + 1, true});
  for (const plan::ProgramBuffer& b : all) plan.bindings.push_back({b.storage, b.element_count, !b.written, b.written});

  plan::ReduceKernel body;
  body.row_dims = Dims(dims.begin(), dims.end() - 1);
  body.element_dims = {depth};
  plan::ReduceStage& products = body.stages.emplace_back();
  products.program = plan::Reindex(program, dims, images);
  AddVectorProducts(products.program, vectors_at, vectors.count);
  products.program.buffers = all;
  for (int64_t v = 0; v < vectors.count; ++v) products.reductions.push_back(SumOf(static_cast<int>(v), all));

  plan::ProgramBuilder builder(body.row_dims);
  plan::IndexSpace& space = builder.space();
  IndexId place = space.Mul(space.Iter(static_cast<int>(rank) - 2), vectors.line_stride);
  for (std::size_t d = 0; d + 2 < rank; ++d)
    place = space.Add(place, space.Mul(space.Iter(static_cast<int>(d)), problem.result_batch_strides[d]));
  for (const plan::ProgramBuffer& b : all) builder.AddBuffer(b.storage, b.element_count, b.written);
  const uint64_t of_rows = ~uint64_t{0} >> (64 - (rank - 1));
  for (int64_t v = 0; v < vectors.count; ++v)
    builder.AddStore({.buffer = result_at,
                      .index = space.AddConstant(place, v * vectors.vector_stride),
                      .node = builder.Param(ElementType::kF32, static_cast<int>(v), of_rows),
                      .storage = ElementType::kF32});
  plan::ReduceStage& sums = body.stages.emplace_back();
  sums.scope = plan::ReduceStage::Scope::kRow;
  sums.program = std::move(builder).Finish();
  sums.program.buffers = all;
  plan.body = body;
  CpuKernelOptions options;
  options.threads = threads;
  return MakeReduceKernel(plan, body, options);
}

}  // namespace krafla::cpu
