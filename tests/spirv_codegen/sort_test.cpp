// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <utility>

#include "test_kernels.h"

namespace krafla::spirv::testing {
namespace {

using plan::NodeId;
using plan::ProgramBuilder;

// Sorts arrays of `types` by the first; `less` compares its two values.
plan::KernelPlan Sort(Dims dims, int dimension, std::vector<ElementType> types,
                      const std::function<NodeId(ProgramBuilder&, NodeId, NodeId)>& less) {
  plan::SortKernel k;
  int64_t count = 1;
  for (int64_t d : dims) count *= d;
  k.dims = dims;
  k.dimension = dimension;
  k.is_stable = true;
  k.types = types;
  ProgramBuilder b({});
  const ElementType key = plan::ComputeType(types[0]);
  b.AddResult(less(b, b.Param(key, 0, 0), b.Param(key, 1, 0)));
  k.comparator = std::move(b).Finish();
  plan::KernelPlan plan;
  for (std::size_t i = 0; i < types.size(); ++i) {
    k.inputs.push_back(static_cast<int>(i));
    k.outputs.push_back(static_cast<int>(types.size() + i));
  }
  for (ElementType type : types) plan.bindings.push_back({type, count, true, false});
  for (ElementType type : types) plan.bindings.push_back({type, count, false, true});
  plan.name = Format("sort.{}.{}", ElementTypeName(types[0]), count);
  plan.body = std::move(k);
  return plan;
}

NodeId Less(ProgramBuilder& b, NodeId x, NodeId y) { return b.Compare(ComparisonDirection::kLt, x, y); }
NodeId TotalLess(ProgramBuilder& b, NodeId x, NodeId y) { return b.Compare(ComparisonDirection::kLt, x, y, true); }
NodeId Greater(ProgramBuilder& b, NodeId x, NodeId y) { return b.Compare(ComparisonDirection::kGt, x, y); }

TEST(SortTest, LengthsAndDimensions) {
  const ElementType s32 = ElementType::kS32;
  for (int64_t n : {1, 2, 3, 7, 64, 100, 257, 1000}) CheckOnIntegers(Sort({n}, 0, {s32}, Less));
  CheckOnIntegers(Sort({3, 50}, 1, {s32}, Less));
  CheckOnIntegers(Sort({50, 3}, 0, {s32}, Greater));
  CheckOnIntegers(Sort({4, 33, 5}, 1, {s32}, Less));
  // Keys that a workgroup makes by turns, the last ones of which are not all there.
  CheckOnIntegers(Sort({3, 7001}, 1, {s32}, Less));
  CheckOnIntegers(Sort({70'001}, 0, {s32}, Greater));
}

// With few distinct keys the second operand shows whether equal ones kept their order.
TEST(SortTest, StableWithCarriedOperands) {
  for (const Dims& dims : {Dims{300}, Dims{5, 70}}) {
    const plan::KernelPlan plan =
        Sort(dims, static_cast<int>(dims.size()) - 1, {ElementType::kS32, ElementType::kS32}, Less);
    std::vector<Bytes> memory;
    for (const plan::Binding& b : plan.bindings) memory.push_back(SmallIntegers(b.storage, b.element_count, 3));
    for (int64_t i = 0; i < plan.bindings[1].element_count; ++i)
      WriteElement(memory[1], ElementType::kS32, i, static_cast<Bits>(i));
    CheckKernel(plan, memory);
  }
}

// The position of each element, which no array holds.
TEST(SortTest, CarriedPositions) {
  for (ElementType type : {ElementType::kS32, ElementType::kU32}) {
    plan::KernelPlan plan = Sort({5, 70}, 1, {ElementType::kS32, type}, Less);
    auto& sort = std::get<plan::SortKernel>(plan.body);
    sort.inputs[1] = -1;
    plan.bindings.erase(plan.bindings.begin() + 1);
    for (int& output : sort.outputs) --output;
    std::vector<Bytes> memory;
    for (const plan::Binding& b : plan.bindings) memory.push_back(SmallIntegers(b.storage, b.element_count, 3));
    CheckKernel(plan, memory);
  }
}

// Of a top-k only the first results of each row are written, and they are those of the whole order.
TEST(SortTest, KeepsWhatIsRead) {
  for (const auto& [dims, dimension] :
       {std::pair{Dims{64}, 0}, {Dims{1000}, 0}, {Dims{5, 257}, 1}, {Dims{100, 3}, 0}, {Dims{2, 33, 4}, 1}})
    for (int64_t keep : {1, 2, 5, 8, 16, 60}) {
      plan::KernelPlan plan = Sort(dims, dimension, {ElementType::kS32, ElementType::kS32}, Greater);
      auto& sort = std::get<plan::SortKernel>(plan.body);
      if (keep > dims[static_cast<std::size_t>(dimension)]) continue;
      sort.keep = keep;
      plan.name += Format(".keep{}", keep);
      std::vector<Bytes> memory;
      for (const plan::Binding& b : plan.bindings) memory.push_back(SmallIntegers(b.storage, b.element_count, 3));
      for (int64_t i = 0; i < plan.bindings[1].element_count; ++i)
        WriteElement(memory[1], ElementType::kS32, i, static_cast<Bits>(i));
      CheckKernel(plan, memory);
    }
}

// Long rows are cut in chunks; many of them are sorted at once.
TEST(SortTest, LongRows) {
  for (const auto& [dims, dimension] : {std::pair{Dims{9000}, 0}, {Dims{3, 5000}, 1}, {Dims{40, 300}, 1}})
    for (ElementType type : {ElementType::kS32, ElementType::kU8}) {
      plan::KernelPlan plan = Sort(dims, dimension, {type, ElementType::kS32}, Less);
      std::get<plan::SortKernel>(plan.body).inputs[1] = -1;
      plan.bindings.erase(plan.bindings.begin() + 1);
      for (int& output : std::get<plan::SortKernel>(plan.body).outputs) --output;
      CheckKernel(plan, CornerMemory(plan));
    }
}

TEST(SortTest, KeepsFewOfLongRows) {
  for (int64_t keep : {1, 300, 1200})
    for (const auto& [dims, dimension] : {std::pair{Dims{9000}, 0}, {Dims{5000, 2}, 0}}) {
      const ElementType type = keep == 300 ? ElementType::kBF16 : ElementType::kS32;
      plan::KernelPlan plan =
          Sort(dims, dimension, {type, ElementType::kS32}, [](ProgramBuilder& b, NodeId x, NodeId y) {
            return b.Compare(ComparisonDirection::kGt, x, y, /*total_order=*/IsFloat(b.node(x).type));
          });
      std::get<plan::SortKernel>(plan.body).keep = keep;
      plan.name += Format(".keep{}", keep);
      std::vector<Bytes> memory = CornerMemory(plan);
      for (int64_t i = 0; i < plan.bindings[1].element_count; ++i)
        WriteElement(memory[1], ElementType::kS32, i, static_cast<Bits>(i));
      CheckKernel(plan, memory);
    }
}

// Several keys, one after the other, and more than one word of each.
TEST(SortTest, SeveralKeys) {
  for (int64_t n : {50, 6000})
    for (ElementType second : {ElementType::kS64, ElementType::kS16, ElementType::kF32}) {
      plan::KernelPlan plan =
          Sort({2, n}, 1, {ElementType::kS8, second, ElementType::kS32}, [&](ProgramBuilder& b, NodeId x, NodeId y) {
            const ElementType type = plan::ComputeType(second);
            const NodeId rest =
                b.Compare(ComparisonDirection::kGt, b.Param(type, 2, 0), b.Param(type, 3, 0), IsFloat(second));
            return b.Select(b.Compare(ComparisonDirection::kEq, x, y), rest, Less(b, x, y));
          });
      std::vector<Bytes> memory = CornerMemory(plan);
      for (int64_t i = 0; i < plan.bindings[2].element_count; ++i)
        WriteElement(memory[2], ElementType::kS32, i, static_cast<Bits>(i));
      CheckKernel(plan, memory);
    }
}

TEST(SortTest, Types) {
  for (ElementType type : {ElementType::kS8, ElementType::kU8, ElementType::kS16, ElementType::kU16, ElementType::kS32,
                           ElementType::kU32, ElementType::kS64, ElementType::kU64}) {
    const plan::KernelPlan plan = Sort({90}, 0, {type, ElementType::kF16}, Less);
    CheckKernel(plan, CornerMemory(plan));
  }
  // The total order has a place for every float, NaN too.
  for (ElementType type : {ElementType::kF16, ElementType::kBF16, ElementType::kF32}) {
    const plan::KernelPlan plan = Sort({90}, 0, {type, ElementType::kS8}, TotalLess);
    CheckKernel(plan, CornerMemory(plan));
  }
}

}  // namespace
}  // namespace krafla::spirv::testing
