// SPDX-License-Identifier: Apache-2.0
// loop.words: loops that compute, whose elements are read and stored by words from any place, in words of four and of
// eight bytes.
#include <functional>

#include "base/checked_math.h"
#include "test_kernels.h"

namespace krafla::spirv::testing {
namespace {

using plan::IndexId;
using plan::NodeId;
using plan::ProgramBuilder;

constexpr ElementType kNarrow[] = {ElementType::kS8, ElementType::kU8, ElementType::kBF16, ElementType::kF16,
                                   ElementType::kU16};

Tuning WordsTuning(bool pairs, uint32_t local) {
  Tuning out;
  out.memory.words_in_pairs = pairs;
  out.loop.move_bytes = 32;
  out.loop.move_local = local;
  out.loop.workgroup_points = local == 1 ? 256 : 0;
  return out;
}

void CheckWords(const plan::KernelPlan& plan) {
  const std::vector<Bytes> memory = CornerMemory(plan);
  std::vector<Bytes> want = memory;
  RunKernel(plan, want);
  for (const Tuning& tuning : {WordsTuning(true, 8), WordsTuning(false, 8), WordsTuning(true, 1)}) {
    for (const auto& device : Devices())
      if (CanEmit(plan, device->profile())) ExpectOn(*device, plan, memory, want, /*as_gpu=*/true, &tuning);
    for (const DeviceProfile& profile : Profiles()) {
      if (!CanEmit(plan, profile)) continue;
      const auto emitted = Emit(plan, profile, {.treat_as_gpu = true, .tuning = &tuning});
      ASSERT_TRUE(emitted.has_value()) << emitted.error().ToString();
      // Words of four bytes gain less, and not everywhere.
      const EmittedKernel& kernel = emitted->kernels[0];
      if (tuning.memory.words_in_pairs && profile.features.int64 && kernel.uses_buffer_device_address) {
        EXPECT_EQ(kernel.variant, "loop.words") << profile.name;
      }
      EXPECT_EQ(Validate(kernel.words, profile), "") << profile.name;
    }
  }
}

// Of an array of one type a loop makes one of another.
using Compute = std::function<NodeId(ProgramBuilder& b, int from, std::span<const IndexId> at)>;
plan::KernelPlan Computed(ElementType type, ElementType result, const Dims& dims, int64_t from_count,
                          const Compute& compute) {
  ProgramBuilder b(dims);
  const int from = b.AddBuffer(type, from_count, false), to = b.AddBuffer(result, Product(dims), true);
  std::vector<IndexId> at;
  for (int d = 0; d < static_cast<int>(dims.size()); ++d) at.push_back(b.space().Iter(d));
  const NodeId value = compute(b, from, at);
  b.AddStore({to, b.space().Linearize(at, dims), value, result});
  return LoopPlan(std::move(b).Finish(), "words");
}

// Arrays of odd sizes, all of whose elements lie as they are stored; their last words are not whole.
TEST(WordsTest, OddSizes) {
  for (const ElementType type : kNarrow)
    for (const int64_t count : {67, 129, 1001}) {
      const plan::KernelPlan plan = Computed(type, type, {count}, count, [&](auto& b, int from, auto at) {
        const NodeId x = b.Load(from, type, at[0]);
        return b.Hlo(Opcode::kMaximum, type, {x, b.Hlo(Opcode::kAdd, type, {x, x})});
      });
      CheckWords(plan);
      // By the table's tuning it is for the host's processors.
      for (const DeviceProfile& profile : Profiles()) {
        if (!CanEmit(plan, profile)) continue;
        const auto emitted = Emit(plan, profile, {});
        ASSERT_TRUE(emitted.has_value());
        EXPECT_EQ(emitted->kernels[0].variant == "loop.words", profile.is_cpu) << profile.name;
      }
    }
}

// Rows from odd places of wider rows: blocks hold the end of one row and the beginning of the next. The result's
// elements are as wide as what is read, or words.
TEST(WordsTest, Crops) {
  for (const ElementType type : kNarrow)
    for (const int64_t columns : {517, 1031}) {
      const int64_t wide = columns + 6;
      const auto load = [&](auto& b, int from, auto at, int64_t by) {
        plan::IndexSpace& s = b.space();
        return b.Load(from, type, s.Add(s.Mul(s.AddConstant(at[0], 1), wide), s.AddConstant(at[1], by)));
      };
      CheckWords(Computed(type, type, {9, columns}, 11 * wide, [&](auto& b, int from, auto at) {
        return b.Hlo(Opcode::kAdd, type, {load(b, from, at, 3), load(b, from, at, 2)});
      }));
      CheckWords(Computed(type, ElementType::kF32, {8, columns}, 11 * wide, [&](auto& b, int from, auto at) {
        return b.Hlo(
            Opcode::kMultiply, ElementType::kF32,
            {b.Convert(load(b, from, at, 3), type, ElementType::kF32), b.ConstantFloat(ElementType::kF32, 0.3)});
      }));
    }
}

// What lies beside an array of pixels is one value, and is no element of the array. A row has a factor of its own, and
// an element its number.
TEST(WordsTest, PadsRowsAndNumbers) {
  for (const ElementType type : {ElementType::kS8, ElementType::kU8, ElementType::kU16}) {
    const int64_t height = 7, width = 345;
    CheckWords(Computed(type, type, {height + 2, width + 2, 3}, height * width * 3, [&](auto& b, int from, auto at) {
      plan::IndexSpace& s = b.space();
      const IndexId y = s.AddConstant(at[0], -1), x = s.AddConstant(at[1], -1);
      const NodeId in = b.And(b.InRange(y, 0, height), b.InRange(x, 0, width));
      const IndexId place = s.Add(s.Mul(y, width * 3), s.Add(s.Mul(x, 3), at[2]));
      const NodeId value = b.Load(from, type, place, in);
      const NodeId three = b.Convert(b.ConstantInt(ElementType::kS32, 3), ElementType::kS32, type);
      return b.Select(in, b.Hlo(Opcode::kMaximum, type, {value, three}), three);
    }));
    CheckWords(Computed(type, type, {9, 1033}, 9 * 1033 + 9, [&](auto& b, int from, auto at) {
      plan::IndexSpace& s = b.space();
      const NodeId of_row = b.Load(from, type, s.AddConstant(at[0], 9 * 1033));
      const NodeId value = b.Load(from, type, s.Add(s.Mul(at[0], 1033), at[1]));
      const NodeId number = b.Convert(b.Index(at[1]), ElementType::kS32, type);
      return b.Hlo(Opcode::kAdd, type, {b.Hlo(Opcode::kMultiply, type, {value, of_row}), number});
    }));
  }
}

}  // namespace
}  // namespace krafla::spirv::testing
