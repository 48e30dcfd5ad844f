// SPDX-License-Identifier: Apache-2.0
#include "test_kernels.h"

namespace krafla::spirv::testing {
namespace {

using plan::ElementProgram;
using plan::NodeId;
using plan::ProgramBuilder;

// out[i] = op(a[i], b[i], c[i]) over `count` elements.
plan::KernelPlan Elementwise(Opcode opcode, ElementType type, int operands, int64_t count) {
  const int64_t dims[] = {count};
  ProgramBuilder b(dims);
  std::vector<NodeId> values;
  const plan::IndexId i = b.space().Iter(0);
  for (int n = 0; n < operands; ++n) values.push_back(b.Load(b.AddBuffer(type, count, false), type, i));
  const NodeId out = b.Hlo(opcode, type, values);
  const ElementType out_type = opcode == Opcode::kIsFinite ? ElementType::kPred : type;
  b.AddStore({b.AddBuffer(out_type, count, true), i, out, out_type});
  return LoopPlan(std::move(b).Finish(), std::string(OpcodeName(opcode)) + "." + std::string(ElementTypeName(type)));
}

TEST(LoopTest, FloatOps) {
  std::vector<Opcode> unary = {Opcode::kAbs,
                               Opcode::kNegate,
                               Opcode::kSign,
                               Opcode::kFloor,
                               Opcode::kCeil,
                               Opcode::kRoundNearestAfz,
                               Opcode::kRoundNearestEven,
                               Opcode::kIsFinite};
  std::vector<Opcode> binary = {Opcode::kAdd,     Opcode::kSubtract, Opcode::kMultiply, Opcode::kDivide,
                                Opcode::kMaximum, Opcode::kMinimum,  Opcode::kRemainder};
#define KRAFLA_FORMULA(Enum, Function, cost, hlo, stablehlo, arity, ...) \
  (arity == 1 ? unary : binary).push_back(Opcode::Enum);
#include "ir/ops.def"
  for (Opcode op : unary) {
    const plan::KernelPlan plan = Elementwise(op, ElementType::kF32, 1, 2048);
    CheckKernel(plan, CornerMemory(plan));
  }
  for (Opcode op : binary) {
    const plan::KernelPlan plan = Elementwise(op, ElementType::kF32, 2, 4096);
    CheckKernel(plan, CornerMemory(plan));
  }
  const plan::KernelPlan clamp = Elementwise(Opcode::kClamp, ElementType::kF32, 3, 4096);
  CheckKernel(clamp, CornerMemory(clamp));
}

TEST(LoopTest, DoubleOps) {
  for (Opcode op : {Opcode::kAbs, Opcode::kNegate, Opcode::kSign, Opcode::kFloor, Opcode::kCeil,
                    Opcode::kRoundNearestAfz, Opcode::kRoundNearestEven, Opcode::kIsFinite, Opcode::kSqrt}) {
    const plan::KernelPlan plan = Elementwise(op, ElementType::kF64, 1, 1024);
    CheckKernel(plan, CornerMemory(plan));
  }
  for (Opcode op :
       {Opcode::kAdd, Opcode::kSubtract, Opcode::kMultiply, Opcode::kDivide, Opcode::kMaximum, Opcode::kMinimum}) {
    const plan::KernelPlan plan = Elementwise(op, ElementType::kF64, 2, 1024);
    CheckKernel(plan, CornerMemory(plan));
  }
  const auto check = [](Opcode op, int operands) {
    const plan::KernelPlan plan = Elementwise(op, ElementType::kF64, operands, 1024);
    CheckKernel(plan, CornerMemory(plan));
  };
#define KRAFLA_FORMULA(Enum, Function, cost, hlo, stablehlo, arity, ...) check(Opcode::Enum, arity);
#include "ir/ops.def"
}

TEST(LoopTest, IntegerOps) {
  const Opcode unary[] = {Opcode::kAbs, Opcode::kNegate, Opcode::kSign,
                          Opcode::kNot, Opcode::kClz,    Opcode::kPopulationCount};
  const Opcode binary[] = {Opcode::kAdd,
                           Opcode::kSubtract,
                           Opcode::kMultiply,
                           Opcode::kDivide,
                           Opcode::kRemainder,
                           Opcode::kMaximum,
                           Opcode::kMinimum,
                           Opcode::kAnd,
                           Opcode::kOr,
                           Opcode::kXor,
                           Opcode::kShiftLeft,
                           Opcode::kShiftRightLogical,
                           Opcode::kShiftRightArithmetic,
                           Opcode::kPower,
                           Opcode::kMulhi};
  for (ElementType type : {ElementType::kS32, ElementType::kU32, ElementType::kS64, ElementType::kU64, ElementType::kS8,
                           ElementType::kU16}) {
    for (Opcode op : unary) {
      if (!IsSigned(type) && (op == Opcode::kAbs || op == Opcode::kSign)) continue;
      const plan::KernelPlan plan = Elementwise(op, type, 1, 1000);
      CheckKernel(plan, CornerMemory(plan));
    }
    for (Opcode op : binary) {
      const plan::KernelPlan plan = Elementwise(op, type, 2, 1000);
      CheckKernel(plan, CornerMemory(plan));
    }
  }
}

TEST(LoopTest, ConvertsBetweenAllTypes) {
  const ElementType types[] = {ElementType::kPred,       ElementType::kS4,         ElementType::kU4,
                               ElementType::kS8,         ElementType::kU8,         ElementType::kS16,
                               ElementType::kU16,        ElementType::kS32,        ElementType::kU32,
                               ElementType::kS64,        ElementType::kU64,        ElementType::kF16,
                               ElementType::kBF16,       ElementType::kF32,        ElementType::kF64,
                               ElementType::kF8E5M2,     ElementType::kF8E4M3FN,   ElementType::kF8E4M3B11FNUZ,
                               ElementType::kF8E5M2FNUZ, ElementType::kF8E4M3FNUZ, ElementType::kF8E4M3,
                               ElementType::kF8E3M4,     ElementType::kF4E2M1FN,   ElementType::kF8E8M0FNU};
  for (ElementType from : types) {
    // All targets in one kernel, to compile less. Counts of both kinds: in fours and not.
    for (const int64_t count : {512, 333}) {
      const int64_t dims[] = {count};
      ProgramBuilder b(dims);
      const plan::IndexId i = b.space().Iter(0);
      const NodeId x = b.Load(b.AddBuffer(from, count, false), from, i);
      for (ElementType to : types) {
        if ((BitWidth(to) == 64) != (BitWidth(from) == 64) && BitWidth(to) == 64) continue;
        b.AddStore({b.AddBuffer(to, count, true), i, b.Convert(x, from, to), to});
      }
      const plan::KernelPlan plan = LoopPlan(std::move(b).Finish(), "convert." + std::string(ElementTypeName(from)));
      CheckKernel(plan, CornerMemory(plan));
    }
  }
}

TEST(LoopTest, ConvertsTo64Bits) {
  for (ElementType from : {ElementType::kPred, ElementType::kS8, ElementType::kU16, ElementType::kS32,
                           ElementType::kU32, ElementType::kF16, ElementType::kF32}) {
    const int64_t dims[] = {256};
    ProgramBuilder b(dims);
    const plan::IndexId i = b.space().Iter(0);
    const NodeId x = b.Load(b.AddBuffer(from, 256, false), from, i);
    for (ElementType to : {ElementType::kS64, ElementType::kU64, ElementType::kF64}) {
      b.AddStore({b.AddBuffer(to, 256, true), i, b.Convert(x, from, to), to});
    }
    const plan::KernelPlan plan = LoopPlan(std::move(b).Finish(), "widen." + std::string(ElementTypeName(from)));
    CheckKernel(plan, CornerMemory(plan));
  }
}

TEST(LoopTest, ComparesAndSelects) {
  for (ElementType type : {ElementType::kF32, ElementType::kS32, ElementType::kU32, ElementType::kPred,
                           ElementType::kF64, ElementType::kS64}) {
    const int64_t dims[] = {1024};
    ProgramBuilder b(dims);
    const plan::IndexId i = b.space().Iter(0);
    const NodeId x = b.Load(b.AddBuffer(type, 1024, false), type, i);
    const NodeId y = b.Load(b.AddBuffer(type, 1024, false), type, i);
    using D = ComparisonDirection;
    for (D d : {D::kEq, D::kNe, D::kLt, D::kLe, D::kGt, D::kGe}) {
      for (bool total : {false, true}) {
        if (total && !IsFloat(type)) continue;
        const NodeId c = b.Compare(d, x, y, total);
        b.AddStore({b.AddBuffer(ElementType::kPred, 1024, true), i, c, ElementType::kPred});
      }
    }
    b.AddStore({b.AddBuffer(type, 1024, true), i, b.Select(b.Compare(D::kLt, x, y), x, y), type});
    const plan::KernelPlan plan = LoopPlan(std::move(b).Finish(), "compare." + std::string(ElementTypeName(type)));
    CheckKernel(plan, CornerMemory(plan));
  }
}

TEST(LoopTest, BitcastsAndReducePrecision) {
  const int64_t dims[] = {512};
  ProgramBuilder b(dims);
  const plan::IndexId i = b.space().Iter(0);
  const NodeId x = b.Load(b.AddBuffer(ElementType::kF32, 512, false), ElementType::kF32, i);
  const NodeId h = b.Load(b.AddBuffer(ElementType::kF16, 512, false), ElementType::kF16, i);
  auto store = [&](NodeId n, ElementType t) { b.AddStore({b.AddBuffer(t, 512, true), i, n, t}); };
  store(b.BitcastConvert(x, ElementType::kF32, ElementType::kS32), ElementType::kS32);
  store(b.BitcastConvert(h, ElementType::kF16, ElementType::kU16), ElementType::kU16);
  store(b.ReducePrecision(x, ElementType::kF32, 5, 10), ElementType::kF32);
  store(b.ReducePrecision(x, ElementType::kF32, 8, 7), ElementType::kF32);
  store(b.ReducePrecision(h, ElementType::kF16, 4, 3), ElementType::kF16);
  const plan::KernelPlan plan = LoopPlan(std::move(b).Finish(), "bits");
  CheckKernel(plan, CornerMemory(plan));
}

// y[r, c] = a[r, c] * scale[c] + bias[r] over collapsed and uncollapsed spaces: vector, splat and strided loads.
TEST(LoopTest, BroadcastsTransposesSlices) {
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{24, 64}, {5, 7}, {1, 128}, {130, 12}, {300, 4}}) {
    const int64_t dims[] = {rows, columns};
    ProgramBuilder b(dims);
    plan::IndexSpace& s = b.space();
    const plan::IndexId r = s.Iter(0), c = s.Iter(1);
    const plan::IndexId index[] = {r, c}, transposed[] = {c, r};
    const int64_t transposed_dims[] = {columns, rows};
    const plan::IndexId linear = s.Linearize(index, dims);
    const NodeId a = b.Load(b.AddBuffer(ElementType::kF32, rows * columns, false), ElementType::kF32, linear);
    const NodeId scale = b.Load(b.AddBuffer(ElementType::kBF16, columns, false), ElementType::kBF16, c);
    const NodeId bias = b.Load(b.AddBuffer(ElementType::kF32, rows, false), ElementType::kF32, r);
    const NodeId t = b.Load(b.AddBuffer(ElementType::kF32, rows * columns, false), ElementType::kF32,
                            s.Linearize(transposed, transposed_dims));
    // Reversed along c, and every third element.
    const NodeId back = b.Load(b.AddBuffer(ElementType::kS8, columns, false), ElementType::kS8,
                               s.AddConstant(s.Mul(c, -1), columns - 1));
    const NodeId third =
        b.Load(b.AddBuffer(ElementType::kU8, 3 * columns, false), ElementType::kU8, s.AddConstant(s.Mul(c, 3), 1));
    NodeId sum =
        b.Hlo(Opcode::kAdd, ElementType::kF32, {b.Hlo(Opcode::kMultiply, ElementType::kF32, {a, scale}), bias});
    sum = b.Hlo(Opcode::kSubtract, ElementType::kF32, {sum, t});
    const NodeId ints = b.Hlo(
        Opcode::kAdd, ElementType::kS32,
        {b.Convert(back, ElementType::kS8, ElementType::kS32), b.Convert(third, ElementType::kU8, ElementType::kS32)});
    const NodeId flat = b.Load(b.AddBuffer(ElementType::kF32, rows * columns, false), ElementType::kF32,
                               s.Mod(linear, std::max<int64_t>(columns / 2, 1)));
    b.AddStore({b.AddBuffer(ElementType::kF32, rows * columns, true), linear, sum, ElementType::kF32});
    b.AddStore({b.AddBuffer(ElementType::kS32, rows * columns, true), linear, ints, ElementType::kS32});
    b.AddStore({b.AddBuffer(ElementType::kF16, rows * columns, true), linear,
                b.Convert(flat, ElementType::kF32, ElementType::kF16), ElementType::kF16});
    const plan::KernelPlan plan = LoopPlan(std::move(b).Finish(), "broadcast");
    CheckKernel(plan, CornerMemory(plan));
  }
}

TEST(LoopTest, PadsAndGathersAndStoresUnderMasks) {
  for (const int64_t columns : {32, 33}) {
    const int64_t rows = 9;
    const int64_t dims[] = {rows, columns};
    ProgramBuilder b(dims);
    plan::IndexSpace& s = b.space();
    const plan::IndexId r = s.Iter(0), c = s.Iter(1);
    const plan::IndexId index[] = {r, c};
    const plan::IndexId linear = s.Linearize(index, dims);
    // A pad of 3 columns and 1 row on each side around an inner array.
    const int64_t inner_rows = rows - 2, inner_columns = columns - 6;
    const plan::IndexId ir = s.AddConstant(r, -1), ic = s.AddConstant(c, -3);
    const NodeId inside = b.And(b.InRange(ir, 0, inner_rows), b.InRange(ic, 0, inner_columns));
    const NodeId in = b.Load(b.AddBuffer(ElementType::kF32, inner_rows * inner_columns, false), ElementType::kF32,
                             s.Add(s.Mul(ir, inner_columns), ic), inside);
    const NodeId padded = b.Select(inside, in, b.ConstantFloat(ElementType::kF32, -7));
    // A row mask only, and an array with no elements.
    const NodeId row_inside = b.InRange(ir, 0, inner_rows);
    const NodeId by_row = b.Load(b.AddBuffer(ElementType::kF32, inner_rows * columns, false), ElementType::kF32,
                                 s.Add(s.Mul(ir, columns), c), row_inside);
    const NodeId nothing = b.Load(b.AddBuffer(ElementType::kF32, 0, false), ElementType::kF32, c,
                                  b.Compare(ComparisonDirection::kLt, b.Index(c), b.ConstantInt(ElementType::kS32, 0)));
    // A gather of rows: starts outside are clamped.
    const NodeId start = b.Load(b.AddBuffer(ElementType::kS32, rows, false), ElementType::kS32, r);
    const plan::IndexId row = b.ClampedIndex(start, 0, 19);
    const NodeId gathered =
        b.Load(b.AddBuffer(ElementType::kF32, 20 * columns, false), ElementType::kF32, s.Add(s.Mul(row, columns), c));
    const NodeId element = b.Load(b.AddBuffer(ElementType::kU32, columns, false), ElementType::kU32, c);
    const NodeId scattered =
        b.Load(b.AddBuffer(ElementType::kF16, 50, false), ElementType::kF16, b.ClampedIndex(element, 0, 49));
    auto add = [&](NodeId x, NodeId y) { return b.Hlo(Opcode::kAdd, ElementType::kF32, {x, y}); };
    b.AddStore({b.AddBuffer(ElementType::kF32, rows * columns, true), linear, add(add(padded, by_row), nothing),
                ElementType::kF32});
    b.AddStore(
        {b.AddBuffer(ElementType::kF32, rows * columns, true), linear, add(gathered, scattered), ElementType::kF32});
    const NodeId odd = b.Compare(ComparisonDirection::kGt, b.Index(r), b.ConstantInt(ElementType::kS32, 3));
    b.AddStore({b.AddBuffer(ElementType::kF32, rows * columns, true), linear, gathered, ElementType::kF32, odd});
    b.AddStore({b.AddBuffer(ElementType::kU8, rows * columns, true), linear,
                b.Convert(gathered, ElementType::kF32, ElementType::kU8), ElementType::kU8});
    const plan::KernelPlan plan = LoopPlan(std::move(b).Finish(), "pad");
    CheckKernel(plan, CornerMemory(plan));
  }
}

TEST(LoopTest, FoldsLargeGrids) {
  const int64_t count = 3'000'003;
  const int64_t dims[] = {count};
  ProgramBuilder b(dims);
  const plan::IndexId i = b.space().Iter(0);
  const NodeId x = b.Load(b.AddBuffer(ElementType::kU8, count, false), ElementType::kU8, i);
  b.AddStore(
      {b.AddBuffer(ElementType::kU8, count, true), i, b.Hlo(Opcode::kNot, ElementType::kU8, {x}), ElementType::kU8});
  const plan::KernelPlan plan = LoopPlan(std::move(b).Finish(), "grid");
  // A device with small grids folds, one with tiny ones refuses.
  DeviceProfile small = Profiles().front();
  small.limits.max_workgroup_count[0] = 100;
  small.is_cpu = false;
  auto folded = Emit(plan, small);
  ASSERT_TRUE(folded.has_value()) << folded.error().ToString();
  EXPECT_LE(folded->dispatches[0].grid[0], 100u);
  EXPECT_GT(folded->dispatches[0].grid[1], 1u);
  small.limits.max_workgroup_count[1] = 2;
  auto refused = Emit(plan, small);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), StatusCode::kUnimplemented);
  CheckKernel(plan, CornerMemory(plan));
}

// out[k, i, j] = a[k, j, i] + b[i, j], where a is shifted by one row and zero before its first; c[k, i, j] = i.
plan::KernelPlan Transposed(ElementType type, int64_t outside, int64_t rows, int64_t columns, int64_t pair) {
  const int64_t dims[] = {outside, rows, columns};
  ProgramBuilder b(dims);
  plan::IndexSpace& s = b.space();
  const int64_t count = outside * rows * columns;
  const plan::IndexId k = s.Iter(0), i = s.Iter(1), j = s.Iter(2);
  const plan::IndexId across = s.Add(s.Add(s.Mul(k, rows * columns), s.Mul(s.AddConstant(j, -1), rows)), i);
  const plan::IndexId along = s.Add(s.Mul(i, columns), j);
  const NodeId x = b.Load(b.AddBuffer(type, pair * count, false), type, s.Mul(across, pair), b.InRange(j, 1, columns));
  const NodeId y = b.Load(b.AddBuffer(type, rows * columns, false), type, along);
  const plan::IndexId out = s.Add(s.Mul(k, rows * columns), along);
  b.AddStore({b.AddBuffer(type, count, true), out, b.Hlo(Opcode::kAdd, type, {x, y}), type});
  b.AddStore({b.AddBuffer(ElementType::kS32, count, true), out, b.Index(i), ElementType::kS32});
  return LoopPlan(std::move(b).Finish(), "transposed." + std::string(ElementTypeName(type)));
}

TEST(LoopTest, Tiles) {
  struct Case {
    ElementType type;
    int64_t outside, rows, columns, pair = 1;
  };
  const Case cases[] = {
      {ElementType::kF32, 1, 256, 160}, {ElementType::kF32, 3, 97, 131},     {ElementType::kBF16, 2, 330, 75},
      {ElementType::kF16, 9, 24, 600},  {ElementType::kU8, 4, 200, 101},     {ElementType::kS64, 1, 211, 190},
      {ElementType::kF64, 7, 65, 90},   {ElementType::kF32, 2, 129, 150, 2}, {ElementType::kS4, 1, 190, 200},
      {ElementType::kS16, 3, 1300, 9},
  };
  for (const Case& c : cases) {
    const plan::KernelPlan plan = Transposed(c.type, c.outside, c.rows, c.columns, c.pair);
    for (const auto& device : Devices()) {
      auto program = Emit(plan, device->profile(), {.treat_as_gpu = true});
      const bool words_alone = BitWidth(c.type) == 64 && !device->profile().features.int64;
      if (program && !words_alone) { EXPECT_EQ(program->kernels.at(0).variant, "loop.tile") << plan.name; }
    }
    CheckKernel(plan, CornerMemory(plan));
  }
}

TEST(LoopTest, RefusesTypesThatTheDeviceLacks) {
  const plan::KernelPlan plan = Elementwise(Opcode::kAdd, ElementType::kF64, 2, 64);
  DeviceProfile profile = Profiles().front();
  profile.features.float64 = false;
  EXPECT_FALSE(CanEmit(plan, profile).has_value());
  auto refused = Emit(plan, profile);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), StatusCode::kUnimplemented);
  EXPECT_NE(refused.error().message().find("float64"), std::string::npos);
}

}  // namespace
}  // namespace krafla::spirv::testing
