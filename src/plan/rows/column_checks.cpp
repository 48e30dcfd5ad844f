// SPDX-License-Identifier: Apache-2.0
// What a run finds out of rows that were computed with some of their columns alone (group_columns.h).
#include <cmath>
#include <limits>

#include "plan/reindex.h"
#include "plan/rows/group_columns.h"
#include "plan/touched.h"

namespace krafla::plan {
namespace {

// A reduction of preds by and.
Reduction Conjunction(const std::vector<ProgramBuffer>& buffers) {
  Reduction out;
  out.kind = Reduction::Kind::kAnd;
  out.hlo_type = ElementType::kPred;
  out.inputs = {0};
  ProgramBuilder combiner(Dims{}), init(Dims{});
  const auto a = combiner.Param(ElementType::kPred, 0, 0), b = combiner.Param(ElementType::kPred, 1, 0);
  combiner.AddResult(combiner.Hlo(Opcode::kAnd, ElementType::kPred, {a, b}));
  init.AddResult(init.Constant(ElementType::kPred, 1));
  out.combiner = std::move(combiner).Finish();
  out.init = std::move(init).Finish();
  out.combiner.buffers = out.init.buffers = buffers;
  return out;
}

// One row of elements, of each of which `make` makes a pred, and whether all are true to element `at` of one more
// binding.
template <typename Make>
KernelPlan AllOf(std::string name, const std::vector<Binding>& in, const ElementProgram& values, int64_t at,
                 int64_t count, Make&& make) {
  KernelPlan out;
  out.name = std::move(name);
  out.bindings = in;
  out.bindings.push_back({ElementType::kPred, count, false, true});
  const Dims row{1};
  Dims space = row;
  std::vector<DimImage> images;
  for (int64_t d : values.space.dims()) {
    images.push_back(DimImage::Of(static_cast<int>(space.size())));
    space.push_back(d);
  }
  ProgramBuilder each(space), last(row);
  for (ProgramBuilder* b : {&each, &last})
    for (const Binding& binding : out.bindings) b->AddBuffer(binding.storage, binding.element_count, binding.written);
  const std::vector<NodeId> nodes = CopyNodes(values, space, images, each);
  each.AddResult(make(each, nodes[static_cast<std::size_t>(values.results[0])]));
  const auto checks = static_cast<int>(in.size());
  last.AddStore({checks, last.space().Constant(at), last.Param(ElementType::kPred, 0, 1), ElementType::kPred, kNoNode});
  ReduceStage elements, rows;
  elements.program = std::move(each).Finish();
  elements.reductions.push_back(Conjunction(elements.program.buffers));
  rows.scope = ReduceStage::Scope::kRow;
  rows.program = std::move(last).Finish();
  ReduceKernel body{row, values.space.dims(), {}};
  body.stages.push_back(std::move(elements));
  body.stages.push_back(std::move(rows));
  out.body = std::move(body);
  out.bytes = BytesMoved(out);
  return out;
}

}  // namespace

ElementProgram ElementsOf(const Binding& array) {
  ProgramBuilder builder(Dims{array.element_count});
  builder.AddBuffer(array.storage, array.element_count, false);
  builder.AddResult(builder.Load(0, array.storage, builder.space().Iter(0)));
  return std::move(builder).Finish();
}

KernelPlan SizeCheck(const CheckedValues& checked, int64_t at, int64_t count) {
  const ElementType type = checked.type;
  return AllOf("all_finite", checked.bindings, checked.values, at, count, [&](ProgramBuilder& b, NodeId value) {
    if (std::isinf(checked.most)) return b.Hlo(Opcode::kIsFinite, type, {value});
    const NodeId most = b.ConstantFloat(ComputeType(type), checked.most);
    return b.Compare(ComparisonDirection::kLe, b.Hlo(Opcode::kAbs, type, {value}), most);
  });
}

KernelPlan AllTrue(int64_t count) {
  const Binding preds{ElementType::kPred, count, true, false};
  return AllOf("all_true", {preds}, ElementsOf(preds), 0, 1, [](ProgramBuilder&, NodeId value) { return value; });
}

std::vector<RowChain::Member> WithChecks(std::span<const RowChain::Member> members, GroupColumns& group, int64_t count,
                                         const Slice& checks) {
  std::vector<RowChain::Member> out(members.begin(), members.end());
  RowChain::Member m = out[group.largest];
  auto& reduce = std::get<ReduceKernel>(m.kernel.body);
  reduce.stages.resize(1);
  const int binding = static_cast<int>(m.kernel.bindings.size());
  m.kernel.name = "row_checks";
  m.kernel.flops /= 4;
  for (Binding& b : m.kernel.bindings) b.written = false;
  m.kernel.bindings.push_back({ElementType::kPred, count, false, true});
  m.launch.bindings.push_back(checks);
  m.launch.instruction_count = 0;
  ProgramBuilder builder(reduce.row_dims);
  for (const Binding& b : m.kernel.bindings) builder.AddBuffer(b.storage, b.element_count, b.written);
  IndexId row = 0;
  uint64_t depends = 0;
  for (std::size_t d = 0; d < m.units.size(); ++d) {
    row = builder.space().Add(row, builder.space().Mul(builder.space().Iter(static_cast<int>(d)), m.units[d]));
    depends |= uint64_t{1} << d;
  }
  const NodeId largest = builder.Param(ElementType::kF32, 0, depends);
  const NodeId least = builder.ConstantFloat(ElementType::kF32, group.mask.least);
  const NodeId most = builder.ConstantFloat(ElementType::kF32, std::numeric_limits<float>::max());
  const NodeId is_large = builder.Compare(ComparisonDirection::kGt, largest, least);
  const NodeId is_finite = builder.Compare(ComparisonDirection::kLe, largest, most);
  const NodeId holds = builder.Hlo(Opcode::kAnd, ElementType::kPred, {is_large, is_finite});
  builder.AddStore({binding, row, holds, ElementType::kPred, kNoNode});
  ReduceStage stage;
  stage.scope = ReduceStage::Scope::kRow;
  stage.program = std::move(builder).Finish();
  reduce.stages.push_back(std::move(stage));
  ForEachProgram(m.kernel.body, [&](ElementProgram& p) { p.buffers = reduce.stages.back().program.buffers; });
  const auto behind = static_cast<std::ptrdiff_t>(group.largest) + 1;
  out.insert(out.begin() + behind, std::move(m));
  group.roles.insert(group.roles.begin() + behind, group.roles[group.largest]);
  return out;
}

}  // namespace krafla::plan
