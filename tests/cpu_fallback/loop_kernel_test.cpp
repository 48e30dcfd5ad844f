// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/iteration.h"
#include "kernel_fixture.h"

namespace krafla {
namespace {

using plan::ElementProgram;
using plan::IndexId;
using plan::NodeId;
using plan::ProgramBuilder;
using plan::Store;

constexpr ElementType kComputeTypes[] = {ElementType::kPred, ElementType::kS32, ElementType::kU32, ElementType::kS64,
                                         ElementType::kU64,  ElementType::kF32, ElementType::kF64};

// One op on `n` elements; operand i is an array, or one value where bit i of `uniform` is set.
ElementProgram OneOp(Opcode opcode, ElementType type, int arity, int64_t n, unsigned uniform) {
  const int64_t dims[] = {n};
  ProgramBuilder b(dims);
  std::vector<NodeId> operands;
  for (int i = 0; i < arity; ++i) {
    const bool is_pred = opcode == Opcode::kSelect && i == 0;
    const ElementType t = is_pred ? ElementType::kPred : type;
    const bool one = (uniform >> i) & 1;
    const int buffer = b.AddBuffer(t, one ? 1 : n, false);
    operands.push_back(b.Load(buffer, t, one ? b.space().Constant(0) : b.space().Iter(0)));
  }
  NodeId out = b.Hlo(opcode, type, operands);
  const ElementType result = opcode == Opcode::kIsFinite ? ElementType::kPred : type;
  const int out_buffer = b.AddBuffer(result, n, true);
  b.AddStore({.buffer = out_buffer, .index = b.space().Iter(0), .node = out, .storage = result});
  return std::move(b).Finish();
}

struct OpCase {
  Opcode opcode;
  int arity;
  bool integers, floats, preds;
};
const OpCase kOps[] = {
    {Opcode::kAdd, 2, true, true, true},
    {Opcode::kSubtract, 2, true, true, false},
    {Opcode::kMultiply, 2, true, true, true},
    {Opcode::kDivide, 2, true, true, false},
    {Opcode::kRemainder, 2, true, true, false},
    {Opcode::kPower, 2, true, true, false},
    {Opcode::kMaximum, 2, true, true, true},
    {Opcode::kMinimum, 2, true, true, true},
    {Opcode::kAnd, 2, true, false, true},
    {Opcode::kOr, 2, true, false, true},
    {Opcode::kXor, 2, true, false, true},
    {Opcode::kMulhi, 2, true, false, false},
    {Opcode::kShiftLeft, 2, true, false, false},
    {Opcode::kShiftRightLogical, 2, true, false, false},
    {Opcode::kShiftRightArithmetic, 2, true, false, false},
    {Opcode::kClz, 1, true, false, false},
    {Opcode::kPopulationCount, 1, true, false, false},
    {Opcode::kNot, 1, true, false, true},
    {Opcode::kNegate, 1, true, true, false},
    {Opcode::kAbs, 1, true, true, false},
    {Opcode::kSign, 1, true, true, false},
    {Opcode::kClamp, 3, true, true, false},
    {Opcode::kSelect, 3, true, true, true},
    {Opcode::kIsFinite, 1, false, true, false},
    {Opcode::kFloor, 1, false, true, false},
    {Opcode::kCeil, 1, false, true, false},
    {Opcode::kRoundNearestEven, 1, false, true, false},
    {Opcode::kRoundNearestAfz, 1, false, true, false},
};

TEST(LoopKernelTest, EveryOpHasTheBitsOfTheScalarDefinition) {
  for (const OpCase& c : kOps) {
    for (ElementType type : kComputeTypes) {
      const bool is_int = IsIntegral(type), is_float = IsFloat(type);
      if (is_int ? !c.integers : is_float ? !c.floats : !c.preds) continue;
      for (unsigned uniform = 0; uniform < (1u << c.arity); ++uniform) {
        for (int64_t n : {1, 7, 64, 1003}) {
          CheckLoop(OneOp(c.opcode, type, c.arity, n, uniform),
                    std::string(OpcodeName(c.opcode)) + " " + std::string(ElementTypeName(type)) + " uniform " +
                        std::to_string(uniform) + " n " + std::to_string(n));
        }
      }
    }
  }
}

TEST(LoopKernelTest, EveryOpOnNarrowTypes) {
  for (const OpCase& c : kOps) {
    for (ElementType type : {ElementType::kS8, ElementType::kU8, ElementType::kS16, ElementType::kU16, ElementType::kS4,
                             ElementType::kBF16, ElementType::kF16}) {
      if (IsIntegral(type) ? !c.integers : !c.floats) continue;
      for (unsigned uniform = 0; uniform < (1u << c.arity); ++uniform) {
        for (int64_t n : {1, 7, 1003}) {
          CheckLoop(OneOp(c.opcode, type, c.arity, n, uniform),
                    std::string(OpcodeName(c.opcode)) + " " + std::string(ElementTypeName(type)) + " uniform " +
                        std::to_string(uniform) + " n " + std::to_string(n));
        }
      }
    }
  }
}

// Pixels: factors of each channel, and one of each pixel.
ElementProgram Channels(int64_t images, int64_t pixels, int64_t channels, ElementType storage) {
  const int64_t dims[] = {images, pixels, channels};
  ProgramBuilder b(dims);
  auto& space = b.space();
  const int in = b.AddBuffer(storage, images * pixels * channels, false),
            factors = b.AddBuffer(ElementType::kF32, channels, false);
  const int chosen = b.AddBuffer(ElementType::kPred, pixels, false),
            out = b.AddBuffer(ElementType::kF32, images * pixels * channels, true);
  const NodeId x = b.Convert(b.Load(in, storage, RowMajor(b)), storage, ElementType::kF32);
  const NodeId scaled =
      b.Hlo(Opcode::kMultiply, ElementType::kF32, {x, b.Load(factors, ElementType::kF32, space.Iter(2))});
  const NodeId number = b.Convert(b.Index(space.Mul(space.Iter(2), 2)), ElementType::kS32, ElementType::kF32);
  const NodeId shifted = b.Hlo(Opcode::kAdd, ElementType::kF32, {scaled, number});
  b.AddStore({.buffer = out,
              .index = RowMajor(b),
              .node = b.Select(b.Load(chosen, ElementType::kPred, space.Iter(1)), shifted, x),
              .storage = ElementType::kF32});
  return std::move(b).Finish();
}

TEST(LoopKernelTest, ShortRows) {
  for (ElementType storage : {ElementType::kU8, ElementType::kF32})
    for (int64_t channels : {2, 3, 4, 5, 15, 16})
      for (int64_t pixels : {1, 2, 700, 5000})
        CheckLoop(Channels(3, pixels, channels, storage),
                  std::to_string(pixels) + " pixels of " + std::to_string(channels));
}
// What repeats in each of them is laid out once a run, so that native code goes through them as through one.
TEST(LoopKernelTest, ShortRowsAreOneLoop) {
  if (!cpu::native::HasNativeCode()) GTEST_SKIP() << "The interpreter takes them step by step.";
  const ElementProgram program = Channels(1, 5000, 3, ElementType::kU8);
  const cpu::TileShape tile = cpu::ChooseTile(program);
  EXPECT_EQ(tile.column_dim, 2);
  EXPECT_EQ(tile.row_dim, 1);
  EXPECT_GT(tile.rows, 100);
  auto block = cpu::BlockProgram::Compile(program, {.tile = tile, .memory_is_constant = true, .elements = 15000});
  ASSERT_TRUE(block) << block.error().ToString();
  EXPECT_EQ(block->native_count(), 1);
  EXPECT_LE(block->step_count(), 2) << "the loop, and what is repeated of each pixel";
}

// Rows that go backwards end where a line of pixels does: what lies along memory further out is a tile's planes.
TEST(LoopKernelTest, TilesOfSeveralPlanes) {
  if (!cpu::native::HasAvx512Code()) GTEST_SKIP() << "Rows are taken one by one.";
  const int64_t dims[] = {4, 60, 64, 3}, n = 4 * 60 * 64 * 3;
  ProgramBuilder b(dims);
  auto& space = b.space();
  const int in = b.AddBuffer(ElementType::kF32, n, false), turns = b.AddBuffer(ElementType::kPred, 4, false),
            out = b.AddBuffer(ElementType::kF32, n, true);
  const auto line = space.Add(space.Mul(space.Iter(0), 60 * 192), space.Mul(space.Iter(1), 192));
  const auto backwards =
      space.Add(space.Add(line, space.Constant(189)), space.Add(space.Mul(space.Iter(2), -3), space.Iter(3)));
  const NodeId turned = b.Load(in, ElementType::kF32, backwards), plain = b.Load(in, ElementType::kF32, RowMajor(b));
  b.AddStore({.buffer = out,
              .index = RowMajor(b),
              .node = b.Select(b.Load(turns, ElementType::kPred, space.Iter(0)), turned, plain),
              .storage = ElementType::kF32});
  const ElementProgram program = std::move(b).Finish();
  cpu::TileShape tile = cpu::ChooseTile(program);
  EXPECT_EQ(tile.column_dim, 3);
  EXPECT_EQ(tile.row_dim, 2);
  auto block = cpu::BlockProgram::Compile(program, {.tile = tile, .memory_is_constant = true, .elements = n});
  ASSERT_TRUE(block) << block.error().ToString();
  EXPECT_TRUE(block->TakesPlanes());
  cpu::AddPlanes(program, 16384, tile);
  EXPECT_EQ(tile.plane_dim, 1);
  EXPECT_EQ(tile.planes, 60);
  EXPECT_EQ(cpu::TileGrid(dims, tile).count(), 4);
  CheckLoop(program, "lines backwards where a pred says so");
}

// Tiles of a few elements, many of them: the border of a picture, whose pixels go backwards.
TEST(LoopKernelTest, ManySmallTiles) {
  for (ElementType type : {ElementType::kF32, ElementType::kU8, ElementType::kF64})
    for (int64_t rows : {2, 5, 472}) {
      const int64_t dims[] = {rows, 3, 3};
      ProgramBuilder b(dims);
      auto& s = b.space();
      const int in = b.AddBuffer(type, rows * 336, false), out = b.AddBuffer(type, rows * 354, true);
      const auto at = [&](int64_t row, int64_t pixel) {
        return s.Add(s.Add(s.Mul(s.Iter(0), row), s.Mul(s.Iter(1), pixel)), s.Iter(2));
      };
      const NodeId x = b.Load(in, type, s.AddConstant(at(336, -3), 9));
      b.AddStore({.buffer = out, .index = at(354, 3), .node = x, .storage = type});
      CheckLoop(std::move(b).Finish(), "small tiles of " + std::string(ElementTypeName(type)));
    }
}

// What is loaded and stored alone is moved at once; what is read again, converted or narrow and turned is not.
TEST(LoopKernelTest, Moves) {
  const auto check = [](ElementType type, bool is_turned, bool is_read_twice) {
    const int64_t dims[] = {70, 50};
    ProgramBuilder b(dims);
    auto& space = b.space();
    const int in = b.AddBuffer(type, 70 * 50, false), out = b.AddBuffer(type, 70 * 50, true);
    const auto turned = space.Add(space.Mul(space.Iter(1), 70), space.Iter(0));
    const NodeId x = b.Load(in, type,
                            is_turned ? turned
                                      : space.Add(space.Mul(space.Iter(0), 50),
                                                  space.Add(space.Mul(space.Iter(1), -1), space.Constant(49))));
    b.AddStore({.buffer = out, .index = RowMajor(b), .node = x, .storage = type});
    if (is_read_twice)
      b.AddStore({.buffer = b.AddBuffer(type, 70 * 50, true), .index = RowMajor(b), .node = x, .storage = type});
    const ElementProgram program = std::move(b).Finish();
    CheckLoop(program, std::string(ElementTypeName(type)));
    auto block = cpu::BlockProgram::Compile(program, {.tile = cpu::ChooseTile(program), .memory_is_constant = true});
    EXPECT_TRUE(block) << block.error().ToString();
    return block && block->TakesPlanes();
  };
  for (ElementType type : {ElementType::kF32, ElementType::kF64, ElementType::kU8}) {
    EXPECT_EQ(check(type, true, false), type != ElementType::kU8);
    EXPECT_EQ(check(type, false, false), type != ElementType::kU8);
    EXPECT_FALSE(check(type, true, true));
  }
}

// Columns by indices are read row by row: elements of one column are a line of memory apart.
TEST(LoopKernelTest, ColumnsByIndicesGoAlongRows) {
  const int64_t dims[] = {1000, 100};
  ProgramBuilder b(dims);
  auto& space = b.space();
  const int in = b.AddBuffer(ElementType::kF32, 1000 * 500, false), places = b.AddBuffer(ElementType::kS32, 100, false);
  const int out = b.AddBuffer(ElementType::kF32, 1000 * 100, true);
  const auto column = b.ClampedIndex(b.Load(places, ElementType::kS32, space.Iter(1)), 0, 499);
  const NodeId x = b.Load(in, ElementType::kF32, space.Add(space.Mul(space.Iter(0), 500), column));
  b.AddStore({.buffer = out, .index = RowMajor(b), .node = x, .storage = ElementType::kF32});
  EXPECT_EQ(cpu::ChooseTile(std::move(b).Finish()).column_dim, 1);
}

// By numbers of either sign, powers of two, and the ends of the type.
TEST(LoopKernelTest, DividesByOneNumber) {
  for (ElementType type : {ElementType::kS8, ElementType::kU8, ElementType::kS16, ElementType::kU16, ElementType::kS32,
                           ElementType::kU32, ElementType::kS64, ElementType::kU64}) {
    const int bits = BitWidth(type);
    const int64_t top = bits == 64       ? std::numeric_limits<int64_t>::max()
                        : IsSigned(type) ? (int64_t{1} << (bits - 1)) - 1
                                         : (int64_t{1} << bits) - 1;
    for (int64_t divisor : {int64_t{0}, int64_t{1}, int64_t{3}, int64_t{10}, int64_t{41}, int64_t{49}, int64_t{64},
                            int64_t{127}, top, int64_t{-1}, int64_t{-7}, int64_t{-49}, -top - 1}) {
      // Of 64 bits they are large numbers.
      if (divisor < 0 && !IsSigned(type) && bits < 64) continue;
      for (Opcode op : {Opcode::kDivide, Opcode::kRemainder}) {
        const int64_t n = 70000;
        const int64_t dims[] = {n};
        ProgramBuilder b(dims);
        int in = b.AddBuffer(type, n, false), out = b.AddBuffer(type, n, true);
        NodeId x = b.Load(in, type, b.space().Iter(0));
        NodeId y = b.Hlo(op, type, {x, b.ConstantInt(plan::ComputeType(type), divisor)});
        b.AddStore({.buffer = out, .index = b.space().Iter(0), .node = y, .storage = type});
        CheckLoop(std::move(b).Finish(), std::string(OpcodeName(op)) + " by " + std::to_string(divisor));
      }
    }
  }
}

// Values that some read as they are and others by their low bits.
TEST(LoopKernelTest, NarrowValuesForSeveralReaders) {
  for (ElementType type : {ElementType::kS8, ElementType::kU8, ElementType::kS16, ElementType::kU16}) {
    const int64_t n = 1500;
    const int64_t dims[] = {n};
    ProgramBuilder b(dims);
    const IndexId i = b.space().Iter(0);
    const auto load = [&](ElementType t) { return b.Load(b.AddBuffer(t, n, false), t, i); };
    const auto store = [&](NodeId node, ElementType t) {
      b.AddStore({.buffer = b.AddBuffer(t, n, true), .index = i, .node = node, .storage = t});
    };
    NodeId x = load(type), y = load(type), wide = load(ElementType::kS32);
    NodeId sum = b.Hlo(Opcode::kAdd, type, {x, b.Hlo(Opcode::kMultiply, type, {x, y})});
    NodeId larger = b.Hlo(Opcode::kMaximum, type, {sum, y});
    NodeId chosen =
        b.Select(b.Compare(ComparisonDirection::kLt, larger, x), sum, b.Convert(wide, ElementType::kS32, type));
    // More than the lanes hold: the larger of two such values is not that of their low bits.
    store(b.Convert(b.Hlo(Opcode::kMaximum, ElementType::kS32, {wide, b.Hlo(Opcode::kNot, ElementType::kS32, {wide})}),
                    ElementType::kS32, type),
          type);
    store(sum, type);
    store(chosen, type);
    store(b.Convert(chosen, type, ElementType::kF32), ElementType::kF32);
    store(b.Convert(larger, type, ElementType::kS64), ElementType::kS64);
    store(b.Convert(sum, type, ElementType::kS32), ElementType::kS32);
    store(b.Convert(sum, type, ElementType::kBF16), ElementType::kBF16);
    store(b.Compare(ComparisonDirection::kGe, x, y), ElementType::kPred);
    CheckLoop(std::move(b).Finish(), std::string(ElementTypeName(type)));
  }
}

TEST(LoopKernelTest, EveryFormulaHasTheBitsOfTheScalarOne) {
  const auto check = [](Opcode op, int operands) {
    const std::string name(OpcodeName(op));
    for (int64_t n : {3, 20000}) CheckLoop(OneOp(op, ElementType::kF32, operands, n, 0), name);
    for (unsigned uniform = 1; operands == 2 && uniform <= 2; ++uniform)
      CheckLoop(OneOp(op, ElementType::kF32, 2, 20000, uniform), name);
    CheckLoop(OneOp(op, ElementType::kF64, operands, 1000, 0), name);
  };
#define KRAFLA_FORMULA(Enum, Function, cost, hlo, stablehlo, arity, ...) check(Opcode::Enum, arity);
#include "ir/ops.def"
}

TEST(LoopKernelTest, Comparisons) {
  using enum ComparisonDirection;
  for (ElementType type : kComputeTypes) {
    for (ComparisonDirection d : {kEq, kNe, kGe, kGt, kLe, kLt}) {
      for (bool total : {false, true}) {
        if (total && !IsFloat(type)) continue;
        const int64_t dims[] = {777};
        ProgramBuilder b(dims);
        int x = b.AddBuffer(type, 777, false), y = b.AddBuffer(type, 777, false);
        int out = b.AddBuffer(ElementType::kPred, 777, true);
        IndexId i = b.space().Iter(0);
        NodeId c = b.Compare(d, b.Load(x, type, i), b.Load(y, type, i), total);
        b.AddStore({.buffer = out, .index = i, .node = c, .storage = ElementType::kPred});
        CheckLoop(std::move(b).Finish(), "compare " + std::string(ElementTypeName(type)));
      }
    }
  }
}

TEST(LoopKernelTest, ConvertsBetweenAllTypes) {
  const ElementType types[] = {ElementType::kPred,
                               ElementType::kS4,
                               ElementType::kS8,
                               ElementType::kS16,
                               ElementType::kS32,
                               ElementType::kS64,
                               ElementType::kU2,
                               ElementType::kU4,
                               ElementType::kU8,
                               ElementType::kU16,
                               ElementType::kU32,
                               ElementType::kU64,
                               ElementType::kF16,
                               ElementType::kBF16,
                               ElementType::kF32,
                               ElementType::kF64,
                               ElementType::kF8E5M2,
                               ElementType::kF8E4M3FN,
                               ElementType::kF8E4M3B11FNUZ,
                               ElementType::kF8E5M2FNUZ,
                               ElementType::kF8E4M3FNUZ,
                               ElementType::kF8E4M3,
                               ElementType::kF8E3M4,
                               ElementType::kF4E2M1FN};
  for (ElementType from : types) {
    for (ElementType to : types) {
      const int64_t dims[] = {600};
      ProgramBuilder b(dims);
      int in = b.AddBuffer(from, 600, false), out = b.AddBuffer(to, 600, true);
      IndexId i = b.space().Iter(0);
      b.AddStore({.buffer = out, .index = i, .node = b.Convert(b.Load(in, from, i), from, to), .storage = to});
      CheckLoop(std::move(b).Finish(), std::string(ElementTypeName(from)) + " to " + std::string(ElementTypeName(to)));
    }
  }
}

// out[i...] = in[permuted i...] + bias[last], every permutation of dims.
TEST(LoopKernelTest, TransposesWithBroadcasts) {
  for (Dims dims : {Dims{5, 7, 9}, Dims{64, 33, 2}, Dims{3, 130, 70}, Dims{1, 40, 600}}) {
    int order[] = {0, 1, 2};
    do {
      for (ElementType type : {ElementType::kF32, ElementType::kU8, ElementType::kF64, ElementType::kF16}) {
        ProgramBuilder b(dims);
        const int64_t n = Product(dims);
        int in = b.AddBuffer(type, n, false), bias = b.AddBuffer(type, dims[2], false),
            out = b.AddBuffer(type, n, true);
        std::vector<IndexId> index;
        std::vector<int64_t> in_dims;
        for (int o : order) index.push_back(b.space().Iter(o)), in_dims.push_back(dims[static_cast<std::size_t>(o)]);
        NodeId x = b.Load(in, type, b.space().Linearize(index, in_dims));
        NodeId y = b.Load(bias, type, b.space().Iter(2));
        b.AddStore(
            {.buffer = out, .index = RowMajor(b), .node = b.Hlo(Opcode::kMaximum, type, {x, y}), .storage = type});
        CheckLoop(std::move(b).Finish(), "transpose " + std::string(ElementTypeName(type)));
      }
    } while (std::next_permutation(order, order + 3));
  }
}

// A reshape that splits and joins dimensions between a load and a store: floor divisions and moduli.
TEST(LoopKernelTest, ReshapesOfTransposes) {
  struct Case {
    Dims out, in;
  };
  // in is [a, b, c]; out[i] reads the transposed [c, a, b] at the same linear position.
  for (const Case& c :
       {Case{{6, 35}, {5, 7, 6}}, Case{{30, 7}, {7, 5, 6}}, Case{{4, 60}, {12, 4, 5}}, Case{{77, 13}, {7, 11, 13}}}) {
    ProgramBuilder b(c.out);
    const int64_t n = Product(c.out);
    int in = b.AddBuffer(ElementType::kF32, n, false), out = b.AddBuffer(ElementType::kF32, n, true);
    IndexId linear = RowMajor(b);
    const int64_t turned[] = {c.in[2], c.in[0], c.in[1]};
    std::vector<IndexId> at = b.space().Delinearize(linear, turned);
    const IndexId back[] = {at[1], at[2], at[0]};
    NodeId x = b.Load(in, ElementType::kF32, b.space().Linearize(back, c.in));
    b.AddStore({.buffer = out,
                .index = linear,
                .node = b.Hlo(Opcode::kNegate, ElementType::kF32, {x}),
                .storage = ElementType::kF32});
    CheckLoop(std::move(b).Finish(), "reshape");
  }
}

TEST(LoopKernelTest, PadsWithMaskedLoads) {
  const int64_t dims[] = {9, 50, 60};
  for (ElementType type : {ElementType::kF32, ElementType::kS8, ElementType::kBF16, ElementType::kS64}) {
    ProgramBuilder b(dims);
    int in = b.AddBuffer(type, 7 * 45 * 55, false), out = b.AddBuffer(type, 9 * 50 * 60, true);
    auto& s = b.space();
    IndexId i = s.AddConstant(s.Iter(0), -1), j = s.AddConstant(s.Iter(1), -2), k = s.AddConstant(s.Iter(2), -3);
    NodeId mask = b.And(b.And(b.InRange(i, 0, 7), b.InRange(j, 0, 45)), b.InRange(k, 0, 55));
    const IndexId index[] = {i, j, k};
    const int64_t in_dims[] = {7, 45, 55};
    NodeId x = b.Load(in, type, s.Linearize(index, in_dims), mask);
    NodeId y = b.Select(mask, x, b.Convert(b.ConstantFloat(ElementType::kF32, 5), ElementType::kF32, type));
    b.AddStore({.buffer = out, .index = RowMajor(b), .node = y, .storage = type});
    CheckLoop(std::move(b).Finish(), "pad " + std::string(ElementTypeName(type)));
  }
}

TEST(LoopKernelTest, MaskedStoresLeaveTheRest) {
  const int64_t dims[] = {40, 50};
  ProgramBuilder b(dims);
  int in = b.AddBuffer(ElementType::kF32, 2000, false), out = b.AddBuffer(ElementType::kF16, 4000, true);
  NodeId x = b.Load(in, ElementType::kF32, RowMajor(b));
  NodeId mask = b.Compare(ComparisonDirection::kGt, x, b.ConstantFloat(ElementType::kF32, 0));
  NodeId rounded = b.Convert(x, ElementType::kF32, ElementType::kF16);
  b.AddStore({.buffer = out,
              .index = b.space().Mul(RowMajor(b), 2),
              .node = rounded,
              .storage = ElementType::kF16,
              .mask = mask});
  CheckLoop(std::move(b).Finish(), "masked store");
}

TEST(LoopKernelTest, IotaReverseAndStrides) {
  const int64_t dims[] = {33, 21};
  ProgramBuilder b(dims);
  auto& s = b.space();
  int in = b.AddBuffer(ElementType::kS32, 33 * 63, false), out = b.AddBuffer(ElementType::kS32, 33 * 21, true);
  IndexId reversed = s.AddConstant(s.Mul(s.Iter(1), -3), 60);
  NodeId x = b.Load(in, ElementType::kS32, s.Add(s.Mul(s.Iter(0), 63), reversed));
  NodeId y = b.Hlo(Opcode::kAdd, ElementType::kS32, {x, b.Index(s.Iter(0))});
  y = b.Hlo(Opcode::kMultiply, ElementType::kS32, {y, b.Index(s.Mod(s.Add(s.Iter(0), s.Iter(1)), 4))});
  b.AddStore({.buffer = out, .index = RowMajor(b), .node = y, .storage = ElementType::kS32});
  CheckLoop(std::move(b).Finish(), "iota");
}

// Every second element up to the last one of an array, and rows from their ends.
TEST(LoopKernelTest, SecondElementsAndReversedRows) {
  for (ElementType type : {ElementType::kU8, ElementType::kU16, ElementType::kF32, ElementType::kF64})
    for (int64_t n : {3, 64, 65, 1000}) {
      const int64_t dims[] = {7, n};
      for (bool reversed : {false, true}) {
        ProgramBuilder b(dims);
        auto& s = b.space();
        const int64_t row = reversed ? n : 2 * n;
        int in = b.AddBuffer(type, 7 * row, false), out = b.AddBuffer(type, 7 * n, true);
        const IndexId column =
            reversed ? s.AddConstant(s.Mul(s.Iter(1), -1), n - 1) : s.AddConstant(s.Mul(s.Iter(1), 2), 1);
        NodeId x = b.Load(in, type, s.Add(s.Mul(s.Iter(0), row), column));
        b.AddStore({.buffer = out, .index = RowMajor(b), .node = x, .storage = type});
        CheckLoop(std::move(b).Finish(), "strides");
      }
    }
}

TEST(LoopKernelTest, SeveralOutputsAndLongChains) {
  const int64_t dims[] = {13, 700};
  ProgramBuilder b(dims);
  int in = b.AddBuffer(ElementType::kF32, 13 * 700, false), scale = b.AddBuffer(ElementType::kF32, 13, false);
  int out1 = b.AddBuffer(ElementType::kF32, 13 * 700, true), out2 = b.AddBuffer(ElementType::kF32, 13 * 700, true);
  NodeId x = b.Load(in, ElementType::kF32, RowMajor(b)), v = x;
  std::vector<NodeId> all;
  for (int k = 0; k < 40; ++k) {
    v = b.Hlo(k % 3 == 0 ? Opcode::kMultiply : Opcode::kAdd, ElementType::kF32,
              {v, b.ConstantFloat(ElementType::kF32, 0.3 * k)});
    all.push_back(v);
  }
  NodeId sum = b.Load(scale, ElementType::kF32, b.space().Iter(0));
  for (NodeId a : all) sum = b.Hlo(Opcode::kSubtract, ElementType::kF32, {sum, a});
  b.AddStore({.buffer = out1, .index = RowMajor(b), .node = v, .storage = ElementType::kF32});
  b.AddStore({.buffer = out2, .index = RowMajor(b), .node = sum, .storage = ElementType::kF32});
  CheckLoop(std::move(b).Finish(), "chain");
}

// As of qubits: dimensions of few elements in several orders, complex numbers, and a factor of one dimension.
TEST(LoopKernelTest, SeveralShortDimensions) {
  constexpr auto kType = ElementType::kF32;
  const std::vector<std::vector<int64_t>> shapes = {{2, 2, 2, 2, 2, 2, 2, 2}, {3, 2, 5, 4, 3, 2}, {2, 3, 2, 2, 31}};
  for (const std::vector<int64_t>& dims : shapes) {
    ProgramBuilder b(dims);
    auto& s = b.space();
    const auto rank = static_cast<int>(dims.size());
    int64_t count = 1;
    for (int64_t d : dims) count *= d;
    const int in = b.AddBuffer(kType, 2 * count, false), factors = b.AddBuffer(kType, dims[0], false);
    const int out = b.AddBuffer(kType, 2 * count, true);
    NodeId re = b.Load(factors, kType, s.Iter(0)), im = re;
    for (int turn = 0; turn < rank; ++turn) {
      // The dimensions from `turn` on lie before the others.
      IndexId at = s.Constant(0);
      for (int k = 0; k < rank; ++k) {
        const int d = (turn + k) % rank;
        at = s.Add(s.Mul(at, dims[static_cast<std::size_t>(d)]), s.Iter(d));
      }
      at = s.Mul(at, 2);
      const NodeId x = b.Load(in, kType, at), y = b.Load(in, kType, s.AddConstant(at, 1));
      const NodeId less = b.Hlo(Opcode::kSubtract, kType, {b.Hlo(Opcode::kMultiply, kType, {re, x}), y});
      im = b.Hlo(Opcode::kAdd, kType, {b.Hlo(Opcode::kMultiply, kType, {im, y}), x});
      re = less;
    }
    const IndexId linear = s.Mul(RowMajor(b), 2);
    b.AddStore({.buffer = out, .index = linear, .node = re, .storage = kType});
    b.AddStore({.buffer = out, .index = s.AddConstant(linear, 1), .node = im, .storage = kType});
    CheckLoop(std::move(b).Finish(), "short dimensions");
  }
}

TEST(LoopKernelTest, InPlaceUpdateReadsBeforeItWrites) {
  // Two results; the first shares its buffer with the second input.
  const int64_t n = 5000;
  const int64_t dims[] = {n};
  ProgramBuilder b(dims);
  int x = b.AddBuffer(ElementType::kF32, n, false), y = b.AddBuffer(ElementType::kF32, n, false);
  int out1 = b.AddBuffer(ElementType::kF32, n, true), out2 = b.AddBuffer(ElementType::kF32, n, true);
  IndexId i = b.space().Iter(0);
  NodeId a = b.Load(x, ElementType::kF32, i), c = b.Load(y, ElementType::kF32, i);
  NodeId sum = b.Hlo(Opcode::kAdd, ElementType::kF32, {a, c}),
         product = b.Hlo(Opcode::kMultiply, ElementType::kF32, {sum, c});
  b.AddStore({.buffer = out1, .index = i, .node = sum, .storage = ElementType::kF32});
  b.AddStore({.buffer = out2, .index = i, .node = product, .storage = ElementType::kF32});
  plan::KernelPlan plan;
  plan.body = plan::LoopKernel{std::move(b).Finish()};
  for (int k = 0; k < 4; ++k) plan.bindings.push_back({ElementType::kF32, n, true, k >= 2});
  std::vector<float> xs(static_cast<std::size_t>(n)), ys(xs.size()), out(xs.size());
  for (std::size_t k = 0; k < xs.size(); ++k) xs[k] = static_cast<float>(k), ys[k] = static_cast<float>(k % 17);
  std::vector<std::byte*> buffers = {reinterpret_cast<std::byte*>(xs.data()), reinterpret_cast<std::byte*>(ys.data()),
                                     reinterpret_cast<std::byte*>(ys.data()), reinterpret_cast<std::byte*>(out.data())};
  RunKernel(plan, buffers);
  for (std::size_t k = 0; k < xs.size(); ++k) {
    const float fk = static_cast<float>(k), fy = static_cast<float>(k % 17);
    ASSERT_EQ(ys[k], fk + fy);
    ASSERT_EQ(out[k], (fk + fy) * fy);
  }
}

TEST(LoopKernelTest, EmptyAndScalarSpaces) {
  CheckLoop(OneOp(Opcode::kAdd, ElementType::kF32, 2, 0, 0), "empty");
  ProgramBuilder b({});
  int in = b.AddBuffer(ElementType::kF32, 1, false), out = b.AddBuffer(ElementType::kF32, 1, true);
  NodeId x = b.Load(in, ElementType::kF32, 0);
  b.AddStore({.buffer = out,
              .index = 0,
              .node = b.Hlo(Opcode::kAdd, ElementType::kF32, {x, x}),
              .storage = ElementType::kF32});
  CheckLoop(std::move(b).Finish(), "scalar");
}

}  // namespace
}  // namespace krafla
