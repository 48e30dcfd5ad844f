// SPDX-License-Identifier: Apache-2.0
// loop.move: blocks of elements that are moved by words, in words of four and of eight bytes, by one invocation and by
// several, on every device.
#include <functional>

#include "test_kernels.h"

namespace krafla::spirv::testing {
namespace {

using plan::IndexId;
using plan::NodeId;
using plan::ProgramBuilder;

constexpr ElementType kTypes[] = {ElementType::kU8, ElementType::kS16, ElementType::kF32, ElementType::kF64};

// Writes the program's only store from the iterators.
using Body = std::function<void(ProgramBuilder& b, int from, int to, std::span<const IndexId> at)>;

plan::KernelPlan Move(ElementType type, const Dims& dims, int64_t from_count, int64_t to_count, const Body& body) {
  ProgramBuilder b(dims);
  const int from = b.AddBuffer(type, from_count, false), to = b.AddBuffer(type, to_count, true);
  std::vector<IndexId> at;
  for (int d = 0; d < static_cast<int>(dims.size()); ++d) at.push_back(b.space().Iter(d));
  body(b, from, to, at);
  return LoopPlan(std::move(b).Finish(), "move");
}

Tuning TuningOf(bool pairs, int64_t bytes, uint32_t local) {
  Tuning out;
  out.memory.words_in_pairs = pairs;
  out.loop.move_bytes = bytes;
  out.loop.move_local = local;
  out.loop.workgroup_points = local == 1 ? 256 : 0;
  return out;
}

void CheckMoved(const plan::KernelPlan& plan) {
  const Tuning tunings[] = {TuningOf(true, 64, 1), TuningOf(false, 16, 8), TuningOf(true, 16, 4)};
  const std::vector<Bytes> memory = CornerMemory(plan);
  for (const Tuning& tuning : tunings) {
    std::vector<Bytes> want = memory;
    RunKernel(plan, want);
    for (const auto& device : Devices())
      if (CanEmit(plan, device->profile())) ExpectOn(*device, plan, memory, want, /*as_gpu=*/true, &tuning);
    for (const DeviceProfile& profile : Profiles()) {
      if (!CanEmit(plan, profile)) continue;
      const auto emitted = Emit(plan, profile, {.treat_as_gpu = true, .tuning = &tuning});
      ASSERT_TRUE(emitted.has_value()) << emitted.error().ToString();
      const bool wide =
          StorageBytes(plan.bindings[1].storage) == 8 && !(tuning.memory.words_in_pairs && profile.features.int64);
      if (!wide) { EXPECT_EQ(emitted->kernels[0].variant, "loop.move") << profile.name; }
      EXPECT_EQ(Validate(emitted->kernels[0].words, profile), "") << profile.name;
    }
  }
}

// Rows of odd sizes from odd places: the result's words hold the end of one row and the beginning of the next.
TEST(MoveTest, Crops) {
  for (const ElementType type : kTypes)
    for (const auto& [rows, columns] : {std::pair{9, 35}, std::pair{4, 64}, std::pair{7, 129}}) {
      const int64_t wide = columns + 6;
      CheckMoved(
          Move(type, {rows, columns}, (rows + 2) * wide, rows * columns, [&](auto& b, int from, int to, auto at) {
            plan::IndexSpace& s = b.space();
            const IndexId x = s.Add(s.Mul(s.AddConstant(at[0], 1), wide), s.AddConstant(at[1], 3));
            b.AddStore({to, s.Add(s.Mul(at[0], columns), at[1]), b.Load(from, type, x), type});
          }));
    }
}

// Backwards within pixels of three, whose words are the same in all blocks or, of an odd width, not.
TEST(MoveTest, ReversedPixels) {
  for (const ElementType type : kTypes)
    for (const int64_t width : {48, 31}) {
      CheckMoved(Move(type, {5, width, 3}, 5 * width * 3, 5 * width * 3, [&](auto& b, int from, int to, auto at) {
        plan::IndexSpace& s = b.space();
        const IndexId row = s.Add(s.Mul(at[0], width * 3), at[2]);
        const IndexId x = s.Add(row, s.Mul(s.Sub(s.Constant(width - 1), at[1]), 3));
        b.AddStore({to, s.Add(row, s.Mul(at[1], 3)), b.Load(from, type, x), type});
      }));
    }
}

// Rows of a wider result, that begin anywhere in its words and leave what lies between them as it is.
TEST(MoveTest, PartsOfRows) {
  for (const ElementType type : kTypes)
    for (const int64_t columns : {37, 96, 141}) {
      const int64_t wide = columns + 9;
      CheckMoved(Move(type, {6, columns}, 6 * columns, 6 * wide, [&](auto& b, int from, int to, auto at) {
        plan::IndexSpace& s = b.space();
        const IndexId x = s.Add(s.Mul(at[0], columns), at[1]);
        const IndexId y = s.Add(s.Mul(at[0], wide), s.AddConstant(at[1], 5));
        b.AddStore({to, y, b.Load(from, type, x), type});
      }));
    }
}

TEST(MoveTest, Transposes) {
  for (const ElementType type : kTypes)
    for (const auto& [rows, columns] : {std::pair{16, 24}, std::pair{3, 80}, std::pair{80, 3}, std::pair{21, 17},
                                        std::pair{67, 53}, std::pair{9, 51}, std::pair{94, 7}}) {
      CheckMoved(Move(type, {2, columns, rows}, 2 * rows * columns, 2 * rows * columns,
                      [&](auto& b, int from, int to, auto at) {
                        plan::IndexSpace& s = b.space();
                        const IndexId outer = s.Mul(at[0], rows * columns);
                        const IndexId x = s.Add(outer, s.Add(s.Mul(at[2], columns), at[1]));
                        const IndexId y = s.Add(outer, s.Add(s.Mul(at[1], rows), at[2]));
                        b.AddStore({to, y, b.Load(from, type, x), type});
                      }));
    }
}

// Of every third element words hold one or two, which gains nothing but for bytes.
TEST(MoveTest, EveryThirdElement) {
  for (const ElementType type : {ElementType::kU8, ElementType::kS16, ElementType::kF32}) {
    const auto plan = Move(type, {6, 96}, 6 * 96 * 3, 6 * 96, [&](auto& b, int from, int to, auto at) {
      plan::IndexSpace& s = b.space();
      const IndexId x = s.Add(s.Mul(at[0], 96), at[1]);
      b.AddStore({to, x, b.Load(from, type, s.AddConstant(s.Mul(x, 3), 1)), type});
    });
    const Tuning tuning = TuningOf(true, 32, 8);
    for (const DeviceProfile& profile : Profiles()) {
      const auto emitted = Emit(plan, profile, {.treat_as_gpu = true, .tuning = &tuning});
      ASSERT_TRUE(emitted.has_value()) << emitted.error().ToString();
      EXPECT_EQ(emitted->kernels[0].variant == "loop.move", type == ElementType::kU8) << profile.name;
    }
  }
}

// Each comparison of a position with a limit, on its own and together with others.
TEST(MoveTest, Edges) {
  for (const ElementType type : kTypes)
    for (const auto direction : {ComparisonDirection::kLt, ComparisonDirection::kLe, ComparisonDirection::kGt,
                                 ComparisonDirection::kGe, ComparisonDirection::kEq, ComparisonDirection::kNe}) {
      CheckMoved(Move(type, {5, 67}, 5 * 67, 5 * 67, [&](auto& b, int from, int to, auto at) {
        plan::IndexSpace& s = b.space();
        const ElementType compute = plan::ComputeType(type);
        const NodeId is = b.Compare(direction, b.Index(at[1]), b.ConstantInt(ElementType::kS32, 29));
        const NodeId down = b.Compare(direction, b.Index(at[0]), b.ConstantInt(ElementType::kS32, 2));
        const IndexId x = s.Add(s.Mul(at[0], 67), at[1]);
        const NodeId other = b.Load(from, type, s.Add(s.Mul(at[0], 67), s.Sub(s.Constant(66), at[1])), down);
        const NodeId two = IsFloat(type) ? b.ConstantFloat(compute, 2) : b.ConstantInt(compute, 2);
        const NodeId chosen = b.Select(is, b.Load(from, type, x, is), b.Select(down, other, two));
        b.AddStore({to, x, chosen, type});
      }));
    }
}

}  // namespace
}  // namespace krafla::spirv::testing
