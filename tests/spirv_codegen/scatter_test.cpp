// SPDX-License-Identifier: Apache-2.0
#include "test_kernels.h"

namespace krafla::spirv::testing {
namespace {

using plan::ProgramBuilder;

int64_t Count(const Dims& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

struct Case {
  Dims operand, indices, updates;
  ScatterAttributes attributes;
};

plan::KernelPlan Scatter(const Case& c, ElementType type, Opcode opcode, bool replace = false) {
  plan::ScatterKernel k;
  k.attributes = c.attributes;
  k.operand_dims = c.operand;
  k.indices_dims = c.indices;
  k.updates_dims = c.updates;
  k.indices_binding = 0;
  k.updates = {1};
  k.outputs = {2};
  k.types = {type};
  k.combiner.hlo_type = type;
  using enum plan::Reduction::Kind;
  if (!replace)
    k.combiner.kind = opcode == Opcode::kAdd       ? kSum
                      : opcode == Opcode::kMaximum ? kMax
                      : opcode == Opcode::kMinimum ? kMin
                      : opcode == Opcode::kAnd     ? kAnd
                      : opcode == Opcode::kOr      ? kOr
                      : opcode == Opcode::kXor     ? kXor
                                                   : kOther;
  const ElementType compute = plan::ComputeType(type);
  ProgramBuilder b({});
  const plan::NodeId old = b.Param(compute, 0, 0), update = b.Param(compute, 1, 0);
  b.AddResult(replace ? update : b.Hlo(opcode, type, {old, update}));
  k.combiner.combiner = std::move(b).Finish();
  plan::KernelPlan plan;
  plan.bindings = {{ElementType::kS32, Count(c.indices), true, false},
                   {type, Count(c.updates), true, false},
                   {type, Count(c.operand), true, true}};
  plan.name = Format("scatter.{}.{}", ElementTypeName(type), Count(c.updates));
  plan.body = std::move(k);
  return plan;
}

// Indices from below 0 to past the end.
std::vector<Bytes> Memory(const plan::KernelPlan& plan, int low, int high, uint32_t seed = 1) {
  std::vector<Bytes> out;
  out.push_back(SmallIntegers(ElementType::kS32, plan.bindings[0].element_count, seed, low, high));
  for (std::size_t b = 1; b < plan.bindings.size(); ++b) {
    out.push_back(
        SmallIntegers(plan.bindings[b].storage, plan.bindings[b].element_count, seed + static_cast<uint32_t>(b)));
  }
  return out;
}

// Rows of a table.
Case Rows(int64_t rows, int64_t columns, int64_t count) {
  Case c{{rows, columns}, {count, 1}, {count, columns}, {}};
  c.attributes.update_window_dims = {1};
  c.attributes.inserted_window_dims = {0};
  c.attributes.scatter_dims_to_operand_dims = {0};
  c.attributes.index_vector_dim = 1;
  return c;
}

// Single elements, by one index a number, without a dimension for vectors.
Case Scalars(int64_t places, int64_t count) {
  Case c{{places}, {count}, {count}, {}};
  c.attributes.inserted_window_dims = {0};
  c.attributes.scatter_dims_to_operand_dims = {0};
  c.attributes.index_vector_dim = 1;
  return c;
}

TEST(ScatterTest, RepeatedRowsKeepTheirOrder) {
  for (ElementType type :
       {ElementType::kF32, ElementType::kS32, ElementType::kF16, ElementType::kU8, ElementType::kS64}) {
    plan::KernelPlan plan = Scatter(Rows(9, 5, 40), type, Opcode::kAdd);
    CheckKernel(plan, Memory(plan, -2, 11));
    plan = Scatter(Rows(9, 5, 40), type, Opcode::kAdd, /*replace=*/true);
    CheckKernel(plan, Memory(plan, -2, 11, 7));
  }
  // Not commutative.
  const plan::KernelPlan plan = Scatter(Rows(3, 70, 25), ElementType::kS32, Opcode::kSubtract);
  CheckKernel(plan, Memory(plan, 0, 2));
}

TEST(ScatterTest, UniqueIndices) {
  for (ElementType type : {ElementType::kF32, ElementType::kS8, ElementType::kBF16}) {
    Case c = Rows(64, 3, 50);
    c.attributes.unique_indices = true;
    const plan::KernelPlan plan = Scatter(c, type, Opcode::kMaximum);
    std::vector<Bytes> memory = Memory(plan, 0, 0);
    for (int64_t i = 0; i < 50; ++i) WriteElement(memory[0], ElementType::kS32, i, static_cast<Bits>((i * 37) % 64));
    CheckKernel(plan, memory);
  }
}

// In stretches, a dispatch each.
TEST(ScatterTest, ManyUpdatesInOrder) {
  const plan::KernelPlan plan = Scatter(Rows(6, 3, 140'000), ElementType::kS32, Opcode::kSubtract);
  CheckKernel(plan, Memory(plan, -1, 6));
  const plan::KernelPlan replace = Scatter(Rows(6, 3, 70'000), ElementType::kF32, Opcode::kAdd, /*replace=*/true);
  CheckKernel(replace, Memory(replace, -1, 6));
}

// Windows that stand out past an edge are left out whole.
TEST(ScatterTest, WindowsAtEdges) {
  Case c{{10, 12}, {30, 2}, {30, 3, 4}, {}};
  c.attributes.update_window_dims = {1, 2};
  c.attributes.scatter_dims_to_operand_dims = {1, 0};
  c.attributes.index_vector_dim = 1;
  const plan::KernelPlan plan = Scatter(c, ElementType::kS32, Opcode::kAdd);
  CheckKernel(plan, Memory(plan, -1, 12));
  // The index vector as the first dimension, and window dimensions first among the updates.
  Case d{{10, 12}, {2, 30}, {3, 4, 30}, {}};
  d.attributes.update_window_dims = {0, 1};
  d.attributes.scatter_dims_to_operand_dims = {0, 1};
  d.attributes.index_vector_dim = 0;
  const plan::KernelPlan other = Scatter(d, ElementType::kF32, Opcode::kAdd);
  CheckKernel(other, Memory(other, -1, 12));
}

TEST(ScatterTest, BatchingDimensionsAndScalarIndices) {
  Case c{{4, 9, 5}, {4, 6, 1}, {4, 6, 5}, {}};
  c.attributes.update_window_dims = {2};
  c.attributes.inserted_window_dims = {1};
  c.attributes.input_batching_dims = {0};
  c.attributes.scatter_indices_batching_dims = {0};
  c.attributes.scatter_dims_to_operand_dims = {1};
  c.attributes.index_vector_dim = 2;
  const plan::KernelPlan plan = Scatter(c, ElementType::kS32, Opcode::kAdd);
  CheckKernel(plan, Memory(plan, -1, 9));
  const plan::KernelPlan scalars = Scatter(Scalars(20, 15), ElementType::kS32, Opcode::kAdd);
  CheckKernel(scalars, Memory(scalars, -3, 22));
}

// Windows of `window` that begin anywhere in the last dimensions, and have elements in common.
Case Windows(Dims operand, Dims window, int64_t count) {
  const auto rank = static_cast<int64_t>(operand.size());
  Case c{operand, {count, rank}, {count}, {}};
  for (int64_t d = 0; d < rank; ++d) {
    c.updates.push_back(window[static_cast<std::size_t>(d)]);
    c.attributes.update_window_dims.push_back(d + 1);
    c.attributes.scatter_dims_to_operand_dims.push_back(d);
  }
  c.attributes.index_vector_dim = 1;
  return c;
}

// Rows by words, on the host's processors: those that begin with words and those that begin anywhere, rows that one
// invocation has several words of and that are turns of a loop, and those that workgroups share.
TEST(ScatterTest, RowsByWords) {
  using enum ElementType;
  struct Problem {
    Case scatter;
    int high;  // of the indices
  };
  const Problem problems[] = {
      {Rows(9, 96, 40), 11},
      {Rows(9, 99, 40), 11},
      {Rows(5, 13, 300), 5},
      {Rows(4, 641, 9), 4},
      {Rows(7, 1024, 9), 7},
      {Rows(3, 5003, 7), 3},
      {Windows({300}, {21}, 70), 290},
      {Windows({500}, {16}, 50), 490},
      {Windows({20, 31}, {3, 9}, 40), 22},
      {Windows({6, 7, 40}, {2, 7, 40}, 9), 5},
  };
  for (const Problem& problem : problems) {
    for (const ElementType type : {kU8, kS8, kBF16, kF16, kF32, kS32, kS64, kF64}) {
      for (const bool replace : {false, true}) {
        const plan::KernelPlan plan = Scatter(problem.scatter, type, Opcode::kSubtract, replace);
        CheckKernel(plan, Memory(plan, -1, problem.high, replace ? 7 : 1));
        for (const auto& device : Devices()) {
          const DeviceProfile& profile = device->profile();
          // A descriptor ends with the array's last word of four bytes.
          const bool words = profile.features.int64 && profile.features.buffer_device_address && StorageBytes(type) < 4;
          if (!profile.is_cpu || !words || !CanEmit(plan, profile)) continue;
          const auto program = Emit(plan, profile);
          ASSERT_TRUE(program.has_value()) << program.error().ToString();
          EXPECT_EQ(program->kernels.at(0).variant, "scatter.words") << plan.name;
        }
      }
    }
  }
}

std::string VariantOn(const plan::KernelPlan& plan, const DeviceProfile& profile) {
  auto program = Emit(plan, profile, {.treat_as_gpu = true});
  return program ? program->kernels.at(0).variant : program.error().ToString();
}

TEST(ScatterTest, SharesOfGpus) {
  for (const int64_t places : {1, 3, 40, 3000}) {
    for (const int64_t count : {3, 255, 1300}) {
      plan::KernelPlan plan = Scatter(Scalars(places, count), ElementType::kF32, Opcode::kSubtract);
      CheckKernel(plan, Memory(plan, -1, static_cast<int>(places) + 1));
      plan = Scatter(Scalars(places, count), ElementType::kU8, Opcode::kAdd, /*replace=*/true);
      CheckKernel(plan, Memory(plan, -1, static_cast<int>(places) + 1, 5));
    }
  }
  const plan::KernelPlan rows = Scatter(Rows(50, 70, 700), ElementType::kBF16, Opcode::kAdd);
  CheckKernel(rows, Memory(rows, -1, 50));
  // Batches of operands: windows of different batches are of different groups.
  Case batches{{40, 6}, {40, 30, 1}, {40, 30}, {}};
  batches.attributes.inserted_window_dims = {1};
  batches.attributes.input_batching_dims = {0};
  batches.attributes.scatter_indices_batching_dims = {0};
  batches.attributes.scatter_dims_to_operand_dims = {1};
  batches.attributes.index_vector_dim = 2;
  const plan::KernelPlan plan = Scatter(batches, ElementType::kF32, Opcode::kSubtract);
  CheckKernel(plan, Memory(plan, -1, 6));
  for (const auto& device : Devices()) { EXPECT_EQ(VariantOn(plan, device->profile()), "scatter.shares"); }
}

// Places too few for all invocations: copies of them, of parts of the updates.
TEST(ScatterTest, PartsOfGpus) {
  Tuning tuning;
  tuning.scatter.least_part = 16;
  Case batches{{3, 6}, {3, 900, 1}, {3, 900}, {}};
  batches.attributes.inserted_window_dims = {1};
  batches.attributes.input_batching_dims = {0};
  batches.attributes.scatter_indices_batching_dims = {0};
  batches.attributes.scatter_dims_to_operand_dims = {1};
  batches.attributes.index_vector_dim = 2;
  for (const Case& c :
       {Scalars(1, 300), Scalars(10, 1301), Rows(7, 5, 999), Rows(2, 70, 2000), Scalars(3, 70'000), batches}) {
    for (const auto& [type, opcode] : {std::pair{ElementType::kF32, Opcode::kAdd},
                                       {ElementType::kF32, Opcode::kMaximum},
                                       {ElementType::kS64, Opcode::kAdd},
                                       {ElementType::kF64, Opcode::kMinimum}}) {
      const plan::KernelPlan plan = Scatter(c, type, opcode);
      ValidateEverywhere(plan);
      const std::vector<Bytes> memory = Memory(plan, -1, 9);
      std::vector<Bytes> want = memory;
      RunKernel(plan, want);
      for (const auto& device : Devices()) {
        if (!CanEmit(plan, device->profile())) continue;
        const auto program = Emit(plan, device->profile(), {.treat_as_gpu = true, .tuning = &tuning});
        ASSERT_TRUE(program.has_value()) << program.error().ToString();
        ASSERT_EQ(program->kernels.size(), 3u) << plan.name;
        EXPECT_EQ(program->kernels[1].variant, "scatter.shares.part");
        ExpectOn(*device, plan, memory, want, /*as_gpu=*/true, &tuning);
      }
    }
  }
  // What rounds at each update, and what is not commutative, keeps its order.
  for (const plan::KernelPlan& plan : {Scatter(Scalars(10, 1301), ElementType::kBF16, Opcode::kAdd),
                                       Scatter(Scalars(10, 1301), ElementType::kF32, Opcode::kSubtract)})
    for (const auto& device : Devices())
      EXPECT_EQ(Emit(plan, device->profile(), {.treat_as_gpu = true, .tuning = &tuning}).value().kernels.size(), 1u);
}

TEST(ScatterTest, AtomicsOfGpus) {
  for (ElementType type : {ElementType::kS32, ElementType::kU32}) {
    for (Opcode opcode : {Opcode::kAdd, Opcode::kMaximum, Opcode::kMinimum, Opcode::kAnd, Opcode::kOr, Opcode::kXor}) {
      const plan::KernelPlan plan = Scatter(Rows(17, 3, 900), type, opcode);
      CheckKernel(plan, Memory(plan, -2, 19));
      for (const auto& device : Devices()) { EXPECT_EQ(VariantOn(plan, device->profile()), "scatter.atomic"); }
    }
    const plan::KernelPlan product = Scatter(Rows(17, 3, 90), type, Opcode::kMultiply);
    CheckKernel(product, Memory(product, -2, 19));
    for (const auto& device : Devices()) { EXPECT_EQ(VariantOn(product, device->profile()), "scatter.shares"); }
  }
}

}  // namespace
}  // namespace krafla::spirv::testing
