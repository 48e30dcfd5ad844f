// SPDX-License-Identifier: Apache-2.0
// The kernels of a concatenate that is written operand by operand.
#include <algorithm>
#include <array>
#include <utility>

#include "plan/collapse.h"
#include "plan/kernel_builder.h"
#include "plan/program_emitter.h"

namespace krafla::plan {

namespace {

// Operands of one kernel: as many as back ends store side by side.
constexpr int64_t kMostParts = 4;
// Elements of fewer bytes may be written as parts of words, which a kernel with one store can do.
constexpr int kLeastBytes = 4;

const ElementProgram& ProgramOf(const BuiltKernel& kernel) { return std::get<LoopKernel>(kernel.kernel.body).program; }

bool Computes(const ElementProgram& program) {
  return std::ranges::any_of(program.nodes, [](const Node& n) { return n.op == NodeOp::kHlo; });
}
bool AreLoads(const ElementProgram& program) {
  return std::ranges::all_of(program.nodes, [](const Node& n) { return n.op == NodeOp::kLoad && n.mask == kNoNode; });
}
// Whether the program computes the places of what it loads, as where rows are taken by indices. Such rows are copied as
// rows where nothing else is done with them.
bool HasComputedPlaces(const ElementProgram& program) {
  return std::ranges::any_of(UsedExprs(program), [&](IndexId id) { return program.space.HasValue(id); });
}
bool ReadTheSame(const BuiltKernel& a, const BuiltKernel& b) {
  for (std::size_t i = 0; i < a.values.size(); ++i)
    for (std::size_t k = 0; k < b.values.size(); ++k)
      if (a.values[i] == b.values[k] && a.kernel.bindings[i].read && b.kernel.bindings[k].read) return true;
  return false;
}

}  // namespace

Result<BuiltKernel> KernelBuilder::BuildConcatenateParts(std::span<const ConcatenatePart> parts) {
  const Instruction& i = *group_.heroes[0];
  const auto d = static_cast<std::size_t>(i.attr<DimensionsAttributes>().dimensions[0]);
  const Dims& dims = i.operand(parts[0].operand)->shape().dims();
  ProgramBuilder builder(dims);
  ProgramEmitter emitter = EmitterOf(builder);
  std::vector<IndexId> index;
  for (std::size_t k = 0; k < dims.size(); ++k) index.push_back(builder.space().Iter(static_cast<int>(k)));
  for (const ConcatenatePart& part : parts) {
    KRAFLA_ASSIGN(ScalarValue value, emitter.Emit({i.operand(part.operand), 0}, index));
    std::vector<IndexId> at = index;
    at[d] = builder.space().AddConstant(index[d], part.begin);
    emitter.StoreElement(i.shape(), Bind({&i, 0}, false, true), at, value);
  }
  LoopKernel loop{std::move(builder).Finish()};
  ElementProgram* programs[] = {&loop.program};
  CollapseTogether(programs);
  out_.kernel.body = std::move(loop);
  out_.kernel.name = i.name();
  ShareBindings();
  return std::move(out_);
}

Result<std::vector<BuiltKernel>> KernelBuilder::BuildConcatenate() {
  const Instruction& whole = *group_.heroes[0];
  const auto d = static_cast<std::size_t>(whole.attr<DimensionsAttributes>().dimensions[0]);
  const Dims& dims = whole.shape().dims();
  const auto build = [&](std::span<const ConcatenatePart> parts) {
    return KernelBuilder(plan_, group_).BuildConcatenateParts(parts);
  };
  std::vector<ConcatenatePart> parts;
  int64_t begin = 0;
  const ElementType type = whole.shape().element_type();
  const bool are_few = StorageBytes(type) >= kLeastBytes && dims[d] <= kMostParts;
  // Where many are put side by side as they lie, few narrow ones are too.
  const bool are_many =
      dims[d] > kMostParts || (StorageBytes(type) < kLeastBytes && std::cmp_greater(plan_.side_by_side, kMostParts));
  bool are_elements = (are_few || (are_many && std::cmp_less_equal(dims[d], plan_.side_by_side) && !IsComplex(type))) &&
                      std::all_of(dims.begin() + static_cast<std::ptrdiff_t>(d) + 1, dims.end(),
                                  [](int64_t extent) { return extent == 1; });
  for (std::size_t n = 0; n < whole.operand_count(); ++n) {
    const Shape& shape = whole.operand(n)->shape();
    if (shape.element_count() > 0) parts.push_back({n, begin});
    are_elements = are_elements && shape.dims()[d] == 1;
    begin += shape.dims()[d];
  }
  std::vector<BuiltKernel> out;
  if (are_elements && parts.size() > 1) {
    // More than a few are put side by side as they lie in memory, or each by itself.
    if (Result<BuiltKernel> all = build(parts); all && (are_few || AreLoads(ProgramOf(*all)))) {
      out.push_back(std::move(*all));
      return out;
    }
  }
  std::size_t first = 0;  // the first part of the last kernel
  for (std::size_t n = 0; n < parts.size(); ++n) {
    KRAFLA_ASSIGN(BuiltKernel kernel, build(std::span(parts).subspan(n, 1)));
    const bool may_join =
        n > 0 && n - first < static_cast<std::size_t>(kMostParts) &&
        StorageBytes(whole.shape().element_type()) >= kLeastBytes &&
        whole.operand(parts[n].operand)->shape().dims() == whole.operand(parts[first].operand)->shape().dims() &&
        Computes(ProgramOf(kernel)) && Computes(ProgramOf(out.back())) && !HasComputedPlaces(ProgramOf(kernel)) &&
        !HasComputedPlaces(ProgramOf(out.back())) && ReadTheSame(kernel, out.back());
    if (may_join) {
      if (Result<BuiltKernel> joined = build(std::span(parts).subspan(first, n - first + 1))) {
        out.back() = std::move(*joined);
        continue;
      }
    }
    first = n;
    out.push_back(std::move(kernel));
  }
  return out;
}

}  // namespace krafla::plan
