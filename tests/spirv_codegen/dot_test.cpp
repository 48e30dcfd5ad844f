// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "test_kernels.h"

namespace krafla::spirv::testing {
namespace {

using plan::DotKernel;
using plan::NodeId;
using plan::ProgramBuilder;

struct Shape {
  std::vector<int64_t> batch;
  int64_t m, n, k;
};

// Layout of an operand with (rows, columns): row-major or transposed.
enum class Order { kNormal, kTransposed };

struct DotOptions {
  Order lhs = Order::kNormal, rhs = Order::kNormal;
  ElementType type = ElementType::kF32, accumulate = ElementType::kF32, result = ElementType::kF32;
  bool bias = false;
};

plan::KernelPlan Dot(const Shape& s, const DotOptions& o) {
  DotKernel k;
  int64_t batch = 1;
  for (int64_t d : s.batch) batch *= d;
  k.batch = Dims(s.batch);
  k.m = s.m;
  k.n = s.n;
  k.k = s.k;
  int64_t lhs_stride = s.m * s.k, rhs_stride = s.k * s.n;
  for (std::size_t i = s.batch.size(); i-- > 0;) {
    k.lhs_batch_strides.insert(k.lhs_batch_strides.begin(), lhs_stride);
    k.rhs_batch_strides.insert(k.rhs_batch_strides.begin(), rhs_stride);
    lhs_stride *= s.batch[i];
    rhs_stride *= s.batch[i];
  }
  k.lhs_m_stride = o.lhs == Order::kNormal ? s.k : 1;
  k.lhs_k_stride = o.lhs == Order::kNormal ? 1 : s.m;
  k.rhs_k_stride = o.rhs == Order::kNormal ? s.n : 1;
  k.rhs_n_stride = o.rhs == Order::kNormal ? 1 : s.k;
  k.lhs_type = k.rhs_type = o.type;
  k.accumulate_type = o.accumulate;
  k.result_type = o.result;
  std::vector<int64_t> dims = s.batch;
  dims.push_back(s.m);
  dims.push_back(s.n);
  const int64_t count = batch * s.m * s.n;
  ProgramBuilder b(dims);
  b.AddBuffer(o.type, batch * s.m * s.k, false);
  b.AddBuffer(o.type, batch * s.k * s.n, false);
  std::vector<plan::IndexId> index;
  for (std::size_t d = 0; d < dims.size(); ++d) index.push_back(b.space().Iter(static_cast<int>(d)));
  NodeId value = b.Param(plan::ComputeType(o.result), 0, ~uint64_t{0} >> (64 - dims.size()));
  plan::KernelPlan plan;
  plan.bindings = {{o.type, batch * s.m * s.k, true, false}, {o.type, batch * s.k * s.n, true, false}};
  if (o.bias) {
    const NodeId bias = b.Load(b.AddBuffer(o.result, s.n, false), o.result, index.back());
    value = b.Hlo(Opcode::kMaximum, o.result, {b.Hlo(Opcode::kAdd, o.result, {value, bias}), b.Convert(b.ConstantInt(ElementType::kS32, 0), ElementType::kS32, o.result)});
    plan.bindings.push_back({o.result, s.n, true, false});
  }
  const int out = b.AddBuffer(o.result, count, true);
  b.AddStore({out, b.space().Linearize(index, dims), value, o.result});
  plan.bindings.push_back({o.result, count, false, true});
  k.epilogue = std::move(b).Finish();
  plan.body = std::move(k);
  plan.name = std::format("dot.{}.{}x{}x{}x{}.{}{}", ElementTypeName(o.type), batch, s.m, s.n, s.k,
                          o.lhs == Order::kNormal ? "n" : "t", o.rhs == Order::kNormal ? "n" : "t");
  return plan;
}

TEST(DotTest, ShapesAndLayouts) {
  const Shape shapes[] = {{{}, 1, 1, 1},    {{}, 5, 7, 3},      {{}, 64, 64, 64},   {{2}, 40, 36, 20}, {{}, 1, 128, 64},
                          {{}, 128, 1, 64}, {{}, 3, 200, 128},  {{}, 130, 70, 33},  {{2, 3}, 17, 4, 8}, {{}, 4, 512, 100},
                          {{}, 100, 96, 256}, {{}, 16, 1000, 48}, {{}, 9, 9, 0}};
  for (const Shape& s : shapes) {
    for (Order lhs : {Order::kNormal, Order::kTransposed}) {
      for (Order rhs : {Order::kNormal, Order::kTransposed}) {
        CheckOnIntegers(Dot(s, {.lhs = lhs, .rhs = rhs, .bias = s.m % 2 == 1}));
      }
    }
  }
}

TEST(DotTest, Types) {
  const ElementType f32 = ElementType::kF32, s32 = ElementType::kS32;
  const DotOptions cases[] = {
      {.type = ElementType::kF16, .accumulate = f32, .result = ElementType::kF16, .bias = true},
      {.type = ElementType::kBF16, .accumulate = f32, .result = f32},
      {.type = ElementType::kBF16, .accumulate = f32, .result = ElementType::kBF16, .bias = true},
      {.type = ElementType::kS8, .accumulate = s32, .result = s32},
      {.type = ElementType::kU8, .accumulate = ElementType::kU32, .result = ElementType::kU32},
      {.type = ElementType::kS32, .accumulate = s32, .result = s32, .bias = true},
      {.type = ElementType::kF64, .accumulate = ElementType::kF64, .result = ElementType::kF64},
      {.type = ElementType::kS64, .accumulate = ElementType::kS64, .result = ElementType::kS64},
      {.type = ElementType::kF8E4M3FN, .accumulate = f32, .result = f32},
  };
  for (DotOptions o : cases) {
    for (Order rhs : {Order::kNormal, Order::kTransposed}) {
      o.rhs = rhs;
      for (const Shape& s : {Shape{{}, 33, 40, 64}, Shape{{2}, 1, 64, 128}, Shape{{}, 64, 32, 32}}) {
        CheckOnIntegers(Dot(s, o));
      }
    }
  }
}

TEST(DotTest, EveryVariantIsTaken) {
  std::set<std::string> seen;
  for (DeviceProfile profile : Profiles()) {
    for (const auto& [m, n] : {std::pair<int64_t, int64_t>{64, 64}, {1, 256}, {256, 1}, {512, 512}}) {
      for (Order rhs : {Order::kNormal, Order::kTransposed}) {
        auto program = Emit(Dot({{}, m, n, 256}, {.rhs = rhs}), profile);
        ASSERT_TRUE(program.has_value());
        for (const EmittedKernel& k : program->kernels) seen.insert(k.variant);
      }
    }
  }
  const std::set<std::string> all{"dot.pack", "dot.packed_panel", "dot.panel", "dot.rows", "dot.tile"};
  EXPECT_EQ(seen, all);
}

// The GPU's tile kernel, on the devices that are here.
TEST(DotTest, SharedTilesOnCpuDevices) {
  for (const Shape& s : {Shape{{}, 64, 64, 64}, Shape{{2}, 70, 100, 40}, Shape{{}, 200, 130, 33}, Shape{{}, 256, 512, 64}}) {
    for (Order lhs : {Order::kNormal, Order::kTransposed}) {
      const plan::KernelPlan plan = Dot(s, {.lhs = lhs, .bias = true});
      std::vector<Bytes> memory;
      for (const plan::Binding& b : plan.bindings) memory.push_back(SmallIntegers(b.storage, b.element_count, 5));
      std::vector<Bytes> want = memory;
      RunKernel(plan, want);
      for (const auto& device : Devices()) {
        std::vector<Bytes> got = memory;
        auto run = device->Run(plan, got, {.treat_as_gpu = true});
        ASSERT_TRUE(run.has_value()) << device->name() << ": " << run.error().ToString();
        ExpectSame(plan, got, want, device->name());
      }
    }
  }
}

// Not a check: prints GFLOP/s where KRAFLA_BENCH is set.
TEST(DotTest, Speed) {
  if (getenv("KRAFLA_BENCH") == nullptr) GTEST_SKIP() << "KRAFLA_BENCH is not set";
  for (const Shape& s : {Shape{{}, 256, 256, 256}, Shape{{}, 512, 512, 512}, Shape{{}, 1024, 1024, 1024}, Shape{{}, 1, 4096, 4096}, Shape{{}, 4, 1024, 1024}}) {
    for (Order rhs : {Order::kNormal, Order::kTransposed}) {
      for (const auto& device : Devices()) {
        const plan::KernelPlan plan = Dot(s, {.rhs = rhs});
        std::vector<Bytes> memory;
        for (const plan::Binding& b : plan.bindings) memory.push_back(SmallIntegers(b.storage, b.element_count, 5));
        double seconds = 0;
        auto run = device->Run(plan, memory, {}, &seconds);
        ASSERT_TRUE(run.has_value()) << run.error().ToString();
        printf("%-28s %-30s %8.3f ms %7.2f GFLOP/s %7.2f GB/s\n", device->name().c_str(), plan.name.c_str(), seconds * 1e3,
               2e-9 * static_cast<double>(s.m * s.n * s.k) / seconds,
               4e-9 * static_cast<double>(s.m * s.k + s.n * s.k + s.m * s.n) / seconds);
      }
    }
  }
}

}  // namespace
}  // namespace krafla::spirv::testing
