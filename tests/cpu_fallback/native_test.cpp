// SPDX-License-Identifier: Apache-2.0
// Native code against the block interpreter's loops: the same bits for every operation, type, pattern of uniform
// operands and length, and no access outside the arrays, which end where a page begins that may not be touched.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <bit>
#include <cstring>
#include <random>

#include "cpu_fallback/kernels/block_ops.h"
#include "cpu_fallback/native/lane_builder.h"
#include "cpu_fallback/native/native_code.h"

namespace krafla::cpu::native {
namespace {

using plan::NodeOp;
using LaneValue = LaneBuilder::Value;

// Bytes that end at the end of a page, or begin where one does, with a page behind them and one before that may not be
// touched.
class GuardedArray {
 public:
  explicit GuardedArray(std::size_t bytes, bool begins_page = false) : bytes_(bytes), begins_page_(begins_page) {
    inside_ = (bytes + 4095) / 4096 * 4096;
    base_ = static_cast<std::byte*>(mmap(nullptr, inside_ + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (inside_ > 0) mprotect(base_ + 4096, inside_, PROT_READ | PROT_WRITE);
  }
  ~GuardedArray() { munmap(base_, inside_ + 8192); }
  GuardedArray(const GuardedArray&) = delete;
  GuardedArray& operator=(const GuardedArray&) = delete;
  std::byte* data() const { return base_ + 4096 + (begins_page_ ? 0 : inside_ - bytes_); }

 private:
  std::size_t bytes_, inside_;
  bool begins_page_;
  std::byte* base_;
};

constexpr ElementType kLanes[] = {ElementType::kPred, ElementType::kS8,  ElementType::kU8,  ElementType::kS16,
                                  ElementType::kU16,  ElementType::kS32, ElementType::kU32, ElementType::kS64,
                                  ElementType::kU64,  ElementType::kF32, ElementType::kF64};

uint64_t SpecialBits(ElementType type, std::mt19937_64& random) {
  if (type == ElementType::kPred) return random() & 1;
  if (type == ElementType::kF32) {
    constexpr uint32_t kSpecial[] = {
        0u,          0x80000000u, 0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffc00000u, 0x7fa12345u, 0xff812345u,
        1u,          0x80000001u, 0x007fffffu, 0x3f800000u, 0xbf800000u, 0x4f000000u, 0xcf000000u, 0x4effffffu,
        0x4f800000u, 0x5f000000u, 0x3effffffu, 0x3f000000u, 0xbf000000u, 0x40200000u, 0x7f7fffffu, 0x477fefffu,
        0x477ff000u, 0x33000000u, 0x42fe0000u, 0xc3000000u, 0x43000000u, 0x45c00000u, 0x4b000000u};
    if (random() % 3 == 0) return kSpecial[random() % std::size(kSpecial)];
    if (random() % 2 == 0)
      return std::bit_cast<uint32_t>(static_cast<float>(static_cast<int64_t>(random() % 2000) - 1000) / 16.0f);
    return random() & 0xffffffffu;
  }
  if (type == ElementType::kF64) {
    if (random() % 3 == 0) {
      constexpr uint64_t kSpecial[] = {0,
                                       1ull << 63,
                                       0x7ff0ull << 48,
                                       0xfff0ull << 48,
                                       0x7ff8ull << 48,
                                       0xfff8ull << 48,
                                       0x7ff4000000012345ull,
                                       1,
                                       0x3ff0ull << 48,
                                       0xbff0ull << 48,
                                       0x43e0ull << 48,
                                       0xc3e0ull << 48,
                                       0x41e0ull << 48,
                                       0xc1e0ull << 48,
                                       0x41dfffffffc00000ull,
                                       0x41efffffffe00000ull,
                                       0x41f0ull << 48,
                                       0x43f0ull << 48,
                                       0x3fe0ull << 48,
                                       0x7fefffffffffffffull};
      return kSpecial[random() % std::size(kSpecial)];
    }
    if (random() % 2 == 0)
      return std::bit_cast<uint64_t>(static_cast<double>(static_cast<int64_t>(random() % 2000) - 1000) / 16.0);
    return random();
  }
  const int bits = BitWidth(type);
  uint64_t v = random();
  switch (random() % 6) {
    case 0: v = uint64_t{1} << (bits - 1); break;
    case 1: v = ~uint64_t{0}; break;
    case 2: v = random() % 70; break;
    case 3: v = (uint64_t{1} << (bits - 1)) - 1; break;
    default: break;
  }
  return bits == 64 ? v : v & ((uint64_t{1} << bits) - 1);
}

void Fill(std::byte* to, ElementType type, int64_t n, std::mt19937_64& random) {
  const int width = StorageBytes(type);
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t bits = SpecialBits(type, random);
    std::memcpy(to + i * width, &bits, static_cast<std::size_t>(width));
  }
}

struct Case {
  BlockKey key;
  std::vector<ElementType> operands;
  uint64_t bits = 0;
};

std::string NameOf(const Case& c) {
  std::string name = std::to_string(static_cast<int>(c.key.op)) + " ";
  if (c.key.op == NodeOp::kHlo) name += OpcodeName(c.key.opcode);
  if (c.key.op == NodeOp::kCompare)
    name += "compare " + std::to_string(static_cast<int>(c.key.direction)) + (c.key.total_order ? " total" : "");
  name += " " + std::string(ElementTypeName(c.key.operand)) + " -> " + std::string(ElementTypeName(c.key.type));
  if (c.key.storage != ElementType::kInvalid) name += " in " + std::string(ElementTypeName(c.key.storage));
  return name;
}

// Everything that the interpreter has a loop for.
std::vector<Case> AllCases() {
  std::vector<Case> cases;
  const auto add = [&](Case c) {
    if (FindBlockFn(c.key) != nullptr) cases.push_back(std::move(c));
  };
  std::vector<Opcode> unary = {Opcode::kAbs,
                               Opcode::kNegate,
                               Opcode::kFloor,
                               Opcode::kCeil,
                               Opcode::kRoundNearestEven,
                               Opcode::kRoundNearestAfz,
                               Opcode::kSign,
                               Opcode::kNot,
                               Opcode::kPopulationCount,
                               Opcode::kClz};
  std::vector<Opcode> binary = {Opcode::kAdd,
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
                                Opcode::kMulhi};
#define KRAFLA_FORMULA(Enum, Function, cost, hlo, stablehlo, arity, ...) \
  (arity == 1 ? unary : binary).push_back(Opcode::Enum);
#include "ir/ops.def"
  for (ElementType t : kLanes) {
    for (Opcode o : unary) add({{.op = NodeOp::kHlo, .opcode = o, .type = t, .operand = t}, {t}});
    for (Opcode o : binary) add({{.op = NodeOp::kHlo, .opcode = o, .type = t, .operand = t}, {t, t}});
    add({{.op = NodeOp::kHlo, .opcode = Opcode::kClamp, .type = t, .operand = t}, {t, t, t}});
    add({{.op = NodeOp::kHlo, .opcode = Opcode::kSelect, .type = t, .operand = t}, {ElementType::kPred, t, t}});
    add({{.op = NodeOp::kHlo, .opcode = Opcode::kIsFinite, .type = ElementType::kPred, .operand = t}, {t}});
    for (auto d : {ComparisonDirection::kEq, ComparisonDirection::kNe, ComparisonDirection::kLt,
                   ComparisonDirection::kLe, ComparisonDirection::kGt, ComparisonDirection::kGe})
      for (bool total : {false, true}) {
        if (total && !IsFloat(t)) continue;
        add({{.op = NodeOp::kCompare, .type = ElementType::kPred, .operand = t, .direction = d, .total_order = total},
             {t, t}});
      }
    for (ElementType to : kLanes)
      if (to != t) add({{.op = NodeOp::kConvert, .type = to, .operand = t}, {t}});
    for (ElementType s : {ElementType::kF16, ElementType::kBF16})
      if (IsFloat(t)) add({{.op = NodeOp::kRound, .type = ElementType::kF32, .operand = t, .storage = s}, {t}});
    for (ElementType s :
         {ElementType::kS4, ElementType::kU4, ElementType::kS8, ElementType::kU8, ElementType::kS16, ElementType::kU16})
      if (t == ElementType::kS32 || t == ElementType::kU32)
        add({{.op = NodeOp::kWrap, .type = t, .operand = t, .storage = s}, {t}});
  }
  return cases;
}

// What has no native code: by name, so that nothing drops out unseen.
bool IsLeftToTheInterpreter(const Case& c) {
  const BlockKey& k = c.key;
  if (k.op != NodeOp::kHlo) return false;
  if (IsFloat(k.type)) return k.opcode == Opcode::kRemainder;
  if (!IsIntegral(k.type)) return false;
  if (k.opcode == Opcode::kPower) return true;
  const bool divides = k.opcode == Opcode::kDivide || k.opcode == Opcode::kRemainder;
  return StorageBytes(k.type) == 8 && (divides || k.opcode == Opcode::kMulhi);
}

// What only AVX-512 has.
bool IsLeftByAvx2(const Case& c) {
  const BlockKey& k = c.key;
  if (k.op == NodeOp::kConvert) return IsFloat(k.operand) && IsIntegral(k.type) && StorageBytes(k.type) == 8;
  return k.op == NodeOp::kHlo &&
         (k.opcode == Opcode::kClz || (k.opcode == Opcode::kShiftRightArithmetic && StorageBytes(k.type) == 8));
}

class NativeTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    UseNarrowVectors(GetParam());
    if (!HasNativeCode()) GTEST_SKIP() << "no native code in this build or on this processor";
  }
  void TearDown() override { UseNarrowVectors(false); }
  std::mt19937_64 random_{7};
};

// One operation, operands dense, uniform or constants of the code.
void CheckCase(const Case& c, unsigned uniform, std::mt19937_64& random, unsigned constant = 0) {
  std::array<uint64_t, 3> constants{};
  for (std::size_t i = 0; i < c.operands.size(); ++i) constants[i] = SpecialBits(c.operands[i], random);
  LaneBuilder b;
  std::vector<LaneValue> values;
  for (std::size_t i = 0; i < c.operands.size(); ++i) {
    const bool is_uniform = (uniform >> i) & 1;
    if ((constant >> i) & 1) values.push_back({b.Constant(c.operands[i], constants[i])});
    const int s = b.AddStream({.kind = is_uniform ? LaneStream::Kind::kUniform : LaneStream::Kind::kDense,
                               .width = StorageBytes(c.operands[i])});
    if ((constant >> i) & 1) continue;
    values.push_back(
        {b.Add({is_uniform ? LaneOp::kUniform : LaneOp::kLoad, c.operands[i], -1, -1, -1, static_cast<uint64_t>(s)})});
  }
  const std::optional<LaneValue> result = b.Apply(c.key, c.bits, values);
  ASSERT_EQ(!result.has_value(), IsLeftToTheInterpreter(c)) << NameOf(c);
  if (!result) return;
  const int out_width = StorageBytes(c.key.type);
  const int out = b.AddStream({.width = out_width});
  b.graph().stores.push_back({out, b.Seen(*result), -1});
  if (!CanCompile(b.graph())) {
    EXPECT_TRUE(IsLeftByAvx2(c) || c.key.opcode == Opcode::kPopulationCount) << NameOf(c);
    return;
  }
  const auto code = Compile(b.graph());
  ASSERT_NE(code, nullptr) << NameOf(c);
  const BlockFn fn = FindBlockFn(c.key);
  std::vector<int64_t> lengths;
  for (int64_t n = 0; n <= 20; ++n) lengths.push_back(n);
  for (int64_t n : {31, 32, 33, 47, 63, 64, 65, 127, 128, 129, 700}) lengths.push_back(n);
  if (constant != 0) lengths = {1, 64, 101};
  for (int64_t n : lengths) {
    std::vector<std::unique_ptr<GuardedArray>> arrays;
    std::vector<std::vector<std::byte>> spread;
    std::vector<StreamArgument> streams;
    BlockArgs args{nullptr, {nullptr, nullptr, nullptr}, n, c.bits};
    for (std::size_t i = 0; i < c.operands.size(); ++i) {
      const bool is_uniform = (uniform >> i) & 1;
      const int width = StorageBytes(c.operands[i]);
      const int64_t count = is_uniform ? 1 : n;
      arrays.push_back(std::make_unique<GuardedArray>(static_cast<std::size_t>(count * width)));
      Fill(arrays.back()->data(), c.operands[i], count, random);
      if ((constant >> i) & 1)
        for (int64_t e = 0; e < count; ++e)
          std::memcpy(arrays.back()->data() + e * width, &constants[i], static_cast<std::size_t>(width));
      streams.push_back({arrays.back()->data(), 0});
      spread.emplace_back(static_cast<std::size_t>(std::max<int64_t>(n, 1) * width));
      for (int64_t e = 0; e < n; ++e)
        std::memcpy(spread.back().data() + e * width, arrays.back()->data() + (is_uniform ? 0 : e * width),
                    static_cast<std::size_t>(width));
    }
    for (std::size_t i = 0; i < spread.size(); ++i) args.in[i] = spread[i].data();
    GuardedArray got(static_cast<std::size_t>(n * out_width));
    std::vector<std::byte> want(static_cast<std::size_t>(n * out_width + 1));
    streams.push_back({got.data(), 0});
    code->Run(streams.data(), 1, n);
    args.out = want.data();
    fn(args);
    for (int64_t e = 0; e < n; ++e) {
      if (std::memcmp(got.data() + e * out_width, want.data() + e * out_width, static_cast<std::size_t>(out_width)) ==
          0)
        continue;
      uint64_t g = 0, w = 0, x = 0, y = 0;
      std::memcpy(&g, got.data() + e * out_width, static_cast<std::size_t>(out_width));
      std::memcpy(&w, want.data() + e * out_width, static_cast<std::size_t>(out_width));
      std::memcpy(&x, spread[0].data() + e * StorageBytes(c.operands[0]),
                  static_cast<std::size_t>(StorageBytes(c.operands[0])));
      if (c.operands.size() > 1)
        std::memcpy(&y, spread[1].data() + e * StorageBytes(c.operands[1]),
                    static_cast<std::size_t>(StorageBytes(c.operands[1])));
      FAIL() << NameOf(c) << " uniform " << uniform << " constant " << constant << " n " << n << " at " << e << std::hex
             << ": got " << g << ", want " << w << " of " << x << ", " << y;
    }
  }
}

TEST_P(NativeTest, EveryOperationHasTheInterpretersBits) {
  const std::vector<Case> cases = AllCases();
  EXPECT_GT(cases.size(), 300u);
  for (const Case& c : cases) {
    CheckCase(c, 0, random_);
    for (unsigned uniform = 1; uniform + 1 < (1u << c.operands.size()); ++uniform) CheckCase(c, uniform, random_);
    if (c.operands.size() > 1)
      for (unsigned constant = 1; constant < (1u << c.operands.size()); ++constant)
        for (int turn = 0; turn < 6; ++turn) CheckCase(c, 0, random_, constant);
    if (HasFatalFailure()) return;
  }
}

// Graphs of many operations: what is settled late is settled as it would have been.
TEST_P(NativeTest, RandomGraphsHaveTheInterpretersBits) {
  std::vector<Case> cases;
  for (Case& c : AllCases())
    if (!IsLeftToTheInterpreter(c)) cases.push_back(std::move(c));
  for (int turn = 0; turn < 150; ++turn) {
    constexpr int64_t kCount = 100;
    LaneBuilder b;
    struct Known {
      ElementType type;
      LaneValue value;
      std::vector<std::byte> bytes;
    };
    std::vector<Known> known;
    std::vector<StreamArgument> streams;
    std::vector<std::unique_ptr<GuardedArray>> arrays;
    for (ElementType t : kLanes) {
      const int width = StorageBytes(t);
      const int s = b.AddStream({.width = width});
      arrays.push_back(std::make_unique<GuardedArray>(static_cast<std::size_t>(kCount * width)));
      Fill(arrays.back()->data(), t, kCount, random_);
      streams.push_back({arrays.back()->data(), 0});
      known.push_back({t,
                       {b.Add({LaneOp::kLoad, t, -1, -1, -1, static_cast<uint64_t>(s)})},
                       std::vector<std::byte>(arrays.back()->data(), arrays.back()->data() + kCount * width)});
    }
    for (int op = 0; op < 40; ++op) {
      const Case& c = cases[random_() % cases.size()];
      std::vector<std::size_t> from;
      for (ElementType t : c.operands) {
        std::vector<std::size_t> fitting;
        for (std::size_t i = 0; i < known.size(); ++i)
          if (known[i].type == t) fitting.push_back(i);
        // The newest ones make long chains.
        from.push_back(fitting[fitting.size() - 1 - random_() % std::min<std::size_t>(fitting.size(), 3)]);
      }
      std::vector<LaneValue> values;
      BlockArgs args{nullptr, {nullptr, nullptr, nullptr}, kCount, c.bits};
      for (std::size_t i = 0; i < from.size(); ++i)
        values.push_back(known[from[i]].value), args.in[i] = known[from[i]].bytes.data();
      const std::optional<LaneValue> value = b.Apply(c.key, c.bits, values);
      ASSERT_TRUE(value.has_value()) << NameOf(c);
      std::vector<std::byte> bytes(static_cast<std::size_t>(kCount * StorageBytes(c.key.type)));
      args.out = bytes.data();
      FindBlockFn(c.key)(args);
      known.push_back({c.key.type, *value, std::move(bytes)});
    }
    std::vector<std::size_t> seen;
    for (std::size_t i = std::size(kLanes); i < known.size(); ++i) {
      if (random_() % 3 != 0) continue;
      const int width = StorageBytes(known[i].type);
      const int s = b.AddStream({.width = width});
      b.graph().stores.push_back({s, b.Seen(known[i].value), -1});
      arrays.push_back(std::make_unique<GuardedArray>(static_cast<std::size_t>(kCount * width)));
      streams.push_back({arrays.back()->data(), 0});
      seen.push_back(i);
    }
    if (seen.empty() || !CanCompile(b.graph())) continue;
    const auto code = Compile(b.graph());
    ASSERT_NE(code, nullptr);
    code->Run(streams.data(), 1, kCount);
    for (std::size_t i = 0; i < seen.size(); ++i) {
      const std::size_t bytes = known[seen[i]].bytes.size();
      ASSERT_EQ(std::memcmp(streams[std::size(kLanes) + i].base, known[seen[i]].bytes.data(), bytes), 0)
          << "turn " << turn << ", value " << seen[i] << " of " << ElementTypeName(known[seen[i]].type);
    }
  }
}

TEST_P(NativeTest, StreamsOfEveryKind) {
  for (int64_t rows : {1, 3})
    for (int64_t columns : {1, 5, 16, 37}) {
      LaneBuilder b;
      const ElementType s32 = ElementType::kS32;
      b.AddStream({.kind = LaneStream::Kind::kRow});
      b.AddStream({.kind = LaneStream::Kind::kStrided, .stride = 3});
      b.AddStream({.kind = LaneStream::Kind::kRamp});
      b.AddStream({.kind = LaneStream::Kind::kGather});
      b.AddStream({.kind = LaneStream::Kind::kDense, .width = 1});
      b.AddStream({.kind = LaneStream::Kind::kDense});
      b.AddStream({.kind = LaneStream::Kind::kStrided, .stride = 2});
      const int row = b.Add({LaneOp::kRow, s32, -1, -1, -1, 0});
      const int strided = b.Add({LaneOp::kLoad, s32, -1, -1, -1, 1});
      const int ramp = b.Add({LaneOp::kRamp, s32, -1, -1, -1, uint64_t{2} << 32 | 7});
      const int mask = b.Add({LaneOp::kLoad, ElementType::kPred, -1, -1, -1, 4});
      const int at = b.Add(LaneOp::kAnd, s32, ramp, b.Constant(s32, 31));
      const int gathered = b.Add({LaneOp::kGather, s32, at, mask, -1, 3});
      const int sum =
          b.Add(LaneOp::kAdd, s32, b.Add(LaneOp::kAdd, s32, row, strided), b.Add(LaneOp::kAdd, s32, ramp, gathered));
      b.graph().stores.push_back({5, sum, mask});
      b.graph().stores.push_back({6, strided, mask});
      const auto code = Compile(b.graph());
      ASSERT_NE(code, nullptr);
      GuardedArray row_values(static_cast<std::size_t>(rows * 4)),
          wide(static_cast<std::size_t>((rows * columns * 3 - 2) * 4)), table(32 * 4),
          preds(static_cast<std::size_t>(rows * columns)), out(static_cast<std::size_t>(rows * columns * 4)),
          spread(static_cast<std::size_t>((rows * columns * 2 - 1) * 4));
      Fill(row_values.data(), s32, rows, random_);
      Fill(wide.data(), s32, rows * columns * 3 - 2, random_);
      Fill(table.data(), s32, 32, random_);
      Fill(preds.data(), ElementType::kPred, rows * columns, random_);
      std::memset(out.data(), 1, static_cast<std::size_t>(rows * columns * 4));
      std::memset(spread.data(), 1, static_cast<std::size_t>((rows * columns * 2 - 1) * 4));
      const StreamArgument streams[] = {
          {row_values.data(), 4},      {wide.data(), columns * 12}, {reinterpret_cast<std::byte*>(int64_t{5}), 11},
          {table.data(), 0},           {preds.data(), columns},     {out.data(), columns * 4},
          {spread.data(), columns * 8}};
      code->Run(streams, rows, columns);
      const auto word = [](const std::byte* p, int64_t i) {
        uint32_t v;
        std::memcpy(&v, p + i * 4, 4);
        return v;
      };
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c) {
          const int64_t i = r * columns + c;
          const bool p = preds.data()[i] != std::byte{0};
          const auto place = static_cast<uint32_t>(5 + r * 11 + c * 7);
          const uint32_t want =
              word(row_values.data(), r) + word(wide.data(), i * 3) + place + (p ? word(table.data(), place & 31) : 0);
          EXPECT_EQ(word(out.data(), i), p ? want : 0x01010101u) << r << " " << c;
          EXPECT_EQ(word(spread.data(), i * 2), p ? word(wide.data(), i * 3) : 0x01010101u) << r << " " << c;
          if (i + 1 < rows * columns) { EXPECT_EQ(word(spread.data(), i * 2 + 1), 0x01010101u); }
        }
    }
}

// Rows of a few elements: backwards, one element again and again, with gaps, from the last to the first.
TEST_P(NativeTest, ShortRows) {
  if (!HasAvx512Code()) GTEST_SKIP() << "left to the interpreter";
  int checked = 0;
  for (ElementType type :
       {ElementType::kPred, ElementType::kU8, ElementType::kU16, ElementType::kU32, ElementType::kU64})
    for (int columns : {2, 3, 5, 7, 8, 15})
      for (const auto& [row_stride, stride] : {std::pair{1, 0},
                                               {0, 1},
                                               {columns, -1},
                                               {-columns, 1},
                                               {columns + 1, 1},
                                               {-1, 1},
                                               {1, 2},
                                               {2, 0},
                                               {0, -1}}) {
        const int width = StorageBytes(type), each = LanesOfShortRows(width);
        if (WindowOfShortRows(each, columns, row_stride, stride) > (width == 1 ? each : 2 * each)) continue;
        ++checked;
        for (bool is_mixed : {false, true}) {
          LaneBuilder b;
          b.AddStream({.kind = LaneStream::Kind::kShortRows,
                       .width = width,
                       .stride = stride,
                       .columns = columns,
                       .row_stride = row_stride});
          b.AddStream({.width = width});
          b.graph().stores.push_back({1, b.Add({LaneOp::kLoad, type, -1, -1, -1, 0}), -1});
          if (is_mixed) {  // vectors of eight lanes
            b.AddStream({.width = 8});
            b.graph().stores.push_back({2, b.Constant(ElementType::kU64, 5), -1});
          }
          const auto code = Compile(b.graph());
          ASSERT_NE(code, nullptr);
          for (int64_t count : {1, 2, 6, 9, 20, 41})
            for (bool begins_page : {false, true}) {
              const int64_t n = count * columns;
              const auto place = [&](int64_t i) { return i / columns * row_stride + i % columns * stride; };
              int64_t low = 0, high = 0;
              for (int64_t i = 0; i < n; ++i) low = std::min(low, place(i)), high = std::max(high, place(i));
              // Two planes of it, the second one behind the first.
              const int64_t plane = high - low + 1;
              GuardedArray in(static_cast<std::size_t>(2 * plane * width), begins_page),
                  out(static_cast<std::size_t>(2 * n * width)), wide(static_cast<std::size_t>(2 * n * 8));
              Fill(in.data(), type, 2 * plane, random_);
              const StreamArgument streams[] = {
                  {in.data() - low * width, plane * width}, {out.data(), n * width}, {wide.data(), n * 8}};
              code->Run(streams, 2, n);
              for (int64_t i = 0; i < 2 * n; ++i)
                ASSERT_EQ(std::memcmp(out.data() + i * width, in.data() + (place(i % n) - low + i / n * plane) * width,
                                      static_cast<std::size_t>(width)),
                          0)
                    << ElementTypeName(type) << ", rows of " << columns << " by " << row_stride << " and " << stride
                    << ", " << n << " at " << i;
            }
        }
      }
  EXPECT_GT(checked, 100);
}

// Parts side by side: in, turned around by one, and out again.
TEST_P(NativeTest, InterleavedStreams) {
  for (ElementType type : {ElementType::kU32, ElementType::kU64})
    for (int parts : {2, 3, 4})
      for (bool is_mixed : {false, true})
        for (int64_t n : {1, 3, 7, 8, 9, 15, 16, 17, 40}) {
          const int width = StorageBytes(type);
          LaneBuilder b;
          b.AddStream({.kind = LaneStream::Kind::kInterleaved, .width = width, .stride = parts});
          b.AddStream({.kind = LaneStream::Kind::kInterleaved, .width = width, .stride = parts});
          const auto load = [&](int part) {
            return b.Add({LaneOp::kLoad, type, -1, -1, -1, static_cast<uint64_t>(part) << 32});
          };
          LaneStore store{1, load(1), -1};
          for (int p = 1; p < parts; ++p) store.parts[static_cast<std::size_t>(p - 1)] = load((p + 1) % parts);
          b.graph().stores.push_back(store);
          GuardedArray in(static_cast<std::size_t>(n * parts * width)),
              out(static_cast<std::size_t>(n * parts * width)), wide(static_cast<std::size_t>(n * 8));
          if (is_mixed) {  // vectors of half the lanes
            b.AddStream({.width = 8});
            b.graph().stores.push_back({2, b.Constant(ElementType::kU64, 5), -1});
          }
          const auto code = Compile(b.graph());
          ASSERT_NE(code, nullptr);
          Fill(in.data(), type, n * parts, random_);
          const StreamArgument streams[] = {{in.data(), 0}, {out.data(), 0}, {wide.data(), 0}};
          code->Run(streams, 1, n);
          for (int64_t i = 0; i < n; ++i)
            for (int p = 0; p < parts; ++p)
              ASSERT_EQ(std::memcmp(out.data() + (i * parts + p) * width,
                                    in.data() + (i * parts + (p + 1) % parts) * width, static_cast<std::size_t>(width)),
                        0)
                  << parts << " parts of " << ElementTypeName(type) << ", " << n << " at " << i << ", " << p;
        }
}

// Memory behind the last one that is there is not touched.
TEST_P(NativeTest, SomePartsOfInterleavedStreams) {
  for (ElementType type : {ElementType::kU32, ElementType::kU64})
    for (int parts : {2, 3, 4})
      for (int part = 0; part < parts; ++part)
        for (int64_t n : {1, 3, 7, 8, 9, 15, 16, 17, 32, 40}) {
          const int width = StorageBytes(type);
          LaneBuilder b;
          b.AddStream({.kind = LaneStream::Kind::kInterleaved, .width = width, .stride = parts, .reach = part + 1});
          b.AddStream({.width = width});
          b.graph().stores.push_back(
              {1, b.Add({LaneOp::kLoad, type, -1, -1, -1, static_cast<uint64_t>(part) << 32}), -1});
          GuardedArray in(static_cast<std::size_t>(((n - 1) * parts + part + 1) * width)),
              out(static_cast<std::size_t>(n * width));
          const auto code = Compile(b.graph());
          ASSERT_NE(code, nullptr);
          Fill(in.data(), type, (n - 1) * parts + part + 1, random_);
          const StreamArgument streams[] = {{in.data(), 0}, {out.data(), 0}};
          code->Run(streams, 1, n);
          for (int64_t i = 0; i < n; ++i)
            ASSERT_EQ(std::memcmp(out.data() + i * width, in.data() + (i * parts + part) * width,
                                  static_cast<std::size_t>(width)),
                      0)
                << "part " << part << " of " << parts << ", " << n << " at " << i;
        }
}

TEST_P(NativeTest, EqualGraphsShareTheirCode) {
  const auto make = [](uint64_t constant) {
    LaneBuilder b;
    b.AddStream({});
    b.AddStream({});
    const int x = b.Add({LaneOp::kLoad, ElementType::kU32, -1, -1, -1, 0});
    b.graph().stores.push_back(
        {1, b.Add(LaneOp::kAdd, ElementType::kU32, x, b.Constant(ElementType::kU32, constant)), -1});
    return Compile(b.graph());
  };
  const auto first = make(4242), second = make(4242), other = make(4243);
  EXPECT_EQ(first.get(), second.get());
  EXPECT_NE(first.get(), other.get());
}

// What a number was selected by among constants decides its comparisons.
TEST(LaneBuilderTest, ComparesSelectedConstants) {
  LaneBuilder b;
  const ElementType s32 = ElementType::kS32, pred = ElementType::kPred;
  for (int i = 0; i < 2; ++i) b.AddStream({.kind = LaneStream::Kind::kDense, .width = 1});
  const int p = b.Add({LaneOp::kLoad, pred, -1, -1, -1, 0}), q = b.Add({LaneOp::kLoad, pred, -1, -1, -1, 1});
  const auto number = [&](int value) { return b.Constant(s32, static_cast<uint64_t>(static_cast<int64_t>(value))); };
  const auto truth = [&](bool value) { return b.Constant(pred, value ? 1 : 0); };
  const int one = b.Select(p, number(-1), number(2)), two = b.Select(q, one, number(3));
  EXPECT_EQ(b.Compare(LaneOp::kLt, one, number(0)), p);
  EXPECT_EQ(b.Compare(LaneOp::kLt, one, number(3)), truth(true));
  EXPECT_EQ(b.Compare(LaneOp::kEq, number(2), one), b.Add(LaneOp::kNot, pred, p));
  EXPECT_EQ(b.Compare(LaneOp::kLe, number(4), two), truth(false));
  EXPECT_EQ(b.Compare(LaneOp::kNe, two, number(3)), q);
  EXPECT_EQ(b.Compare(LaneOp::kLt, two, number(1)), b.Add(LaneOp::kAnd, pred, q, p));
  // The same bits are more than all others where there is no sign.
  const int large = b.Bitcast(one, ElementType::kU32);
  EXPECT_EQ(b.Compare(LaneOp::kLt, b.Constant(ElementType::kU32, 2), large), p);
}

INSTANTIATE_TEST_SUITE_P(Vectors, NativeTest, testing::Bool(),
                         [](const auto& param) { return param.param ? "Avx2" : "Widest"; });

}  // namespace
}  // namespace krafla::cpu::native
