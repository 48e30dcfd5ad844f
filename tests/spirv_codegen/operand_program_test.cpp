// SPDX-License-Identifier: Apache-2.0
// Dots whose operands are computed where they are read: weights as models store them, beside the interpreter.
#include <functional>
#include <set>

#include "dot_kernels.h"
#include "spirv_codegen/kernels/program_source.h"

namespace krafla::spirv::testing {
namespace {

using plan::IndexId;
using plan::NodeId;

constexpr ElementType kHalf = ElementType::kBF16, kWord = ElementType::kS32;

// Writes the program of an operand over [batch..., depth, lines], whatever the order of both in the dot.
struct Weights {
  plan::ProgramBuilder& b;
  std::vector<plan::Binding>& bindings;
  int64_t batch;
  IndexId batch_at, k, line;
  int64_t depth, lines;
  ElementType type;

  NodeId Load(ElementType storage, std::span<const IndexId> at, std::span<const int64_t> dims) {
    int64_t count = batch;
    for (int64_t d : dims) count *= d;
    const int buffer = b.AddBuffer(storage, count, false);
    bindings.push_back({storage, count, true, false});
    const IndexId own = b.space().Mul(batch_at, count / batch);
    return b.Load(buffer, storage, b.space().Add(own, b.space().Linearize(at, dims)));
  }
  NodeId Load2(ElementType storage, IndexId row, IndexId column, int64_t rows, int64_t columns) {
    const IndexId at[] = {row, column};
    const int64_t dims[] = {rows, columns};
    return Load(storage, at, dims);
  }
  NodeId Whole(int64_t v) { return b.ConstantInt(kWord, v); }
  NodeId ToType(NodeId whole, ElementType from = kWord) { return b.Convert(whole, from, type); }
  NodeId Times(NodeId x, NodeId y) { return b.Hlo(Opcode::kMultiply, type, {x, y}); }
  NodeId Minus(NodeId x, NodeId y) { return b.Hlo(Opcode::kSubtract, type, {x, y}); }
  NodeId And(NodeId x, int64_t mask) { return b.Hlo(Opcode::kAnd, kWord, {x, Whole(mask)}); }
  NodeId ShiftRight(NodeId x, NodeId by) { return b.Hlo(Opcode::kShiftRightLogical, kWord, {x, by}); }
  // Of each group of the depth and each line; scales are loaded from bf16.
  NodeId Scale(int64_t group) {
    const NodeId s = Load2(kHalf, b.space().FloorDiv(k, group), line, (depth + group - 1) / group, lines);
    return b.Convert(s, kHalf, type);
  }
};

struct Form {
  const char* name;
  std::function<NodeId(Weights&)> value;
};

NodeId Nibble(Weights& w, NodeId byte, IndexId position) {
  plan::ProgramBuilder& b = w.b;
  const NodeId even = b.Compare(ComparisonDirection::kEq, b.Index(b.space().Mod(position, 2)), w.Whole(0));
  const NodeId bits = b.Convert(byte, ElementType::kU8, kWord);
  return b.Select(even, w.And(bits, 15), w.ShiftRight(bits, w.Whole(4)));
}

// Of three layers' weights, those of the layer whose number is in memory. Such an operand is only moved.
NodeId Layer(Weights& w, std::array<IndexId, 2> at, std::array<int64_t, 2> dims) {
  const int number = w.b.AddBuffer(kWord, 1, false);
  w.bindings.push_back({kWord, 1, true, false});
  const IndexId layer = w.b.ClampedIndex(w.b.Load(number, kWord, w.b.space().Constant(0)), 0, 2);
  const IndexId in_layer[] = {layer, at[0], at[1]};
  const int64_t layers[] = {3, dims[0], dims[1]};
  return w.Load(w.type, in_layer, layers);
}

const Form kForms[] = {
    {"s8 with a scale of each line",
     [](Weights& w) {
       const NodeId q = w.Load2(ElementType::kS8, w.k, w.line, w.depth, w.lines);
       return w.Times(w.ToType(q, ElementType::kS8), w.Scale(w.depth));
     }},
    {"s8 with lines along the depth",
     [](Weights& w) {
       const NodeId q = w.Load2(ElementType::kS8, w.line, w.k, w.lines, w.depth);
       return w.Times(w.ToType(q, ElementType::kS8), w.Scale(16));
     }},
    {"s8 less a zero point, in groups",
     [](Weights& w) {
       const NodeId q = w.Load2(ElementType::kS8, w.k, w.line, w.depth, w.lines);
       const NodeId zero = w.Load2(ElementType::kS8, w.b.space().FloorDiv(w.k, 8), w.line, (w.depth + 7) / 8, w.lines);
       return w.Times(w.Minus(w.ToType(q, ElementType::kS8), w.ToType(zero, ElementType::kS8)), w.Scale(8));
     }},
    {"groups of an odd size",
     [](Weights& w) {
       const NodeId q = w.Load2(ElementType::kS8, w.k, w.line, w.depth, w.lines);
       return w.Times(w.ToType(q, ElementType::kS8), w.Scale(6));
     }},
    {"nibbles of u8, pairs along the depth",
     [](Weights& w) {
       const NodeId byte = w.Load2(ElementType::kU8, w.b.space().FloorDiv(w.k, 2), w.line, (w.depth + 1) / 2, w.lines);
       return w.Times(w.Minus(w.ToType(Nibble(w, byte, w.k)), w.ToType(w.Whole(8))), w.Scale(32));
     }},
    {"nibbles of u8, pairs of lines",
     [](Weights& w) {
       const NodeId byte = w.Load2(ElementType::kU8, w.k, w.b.space().FloorDiv(w.line, 2), w.depth, (w.lines + 1) / 2);
       return w.Times(w.ToType(Nibble(w, byte, w.line)), w.Scale(32));
     }},
    {"words of eight numbers",
     [](Weights& w) {
       plan::ProgramBuilder& b = w.b;
       const NodeId word = w.Load2(kWord, b.space().FloorDiv(w.k, 8), w.line, (w.depth + 7) / 8, w.lines);
       const NodeId shift = b.Index(b.space().Mul(b.space().Mod(w.k, 8), 4));
       const NodeId zeros = w.Load2(kWord, b.space().FloorDiv(w.k, 32), b.space().FloorDiv(w.line, 8),
                                    (w.depth + 31) / 32, (w.lines + 7) / 8);
       const NodeId zero_shift = b.Index(b.space().Mul(b.space().Mod(w.line, 8), 4));
       const NodeId q = b.Hlo(Opcode::kSubtract, kWord,
                              {w.And(w.ShiftRight(word, shift), 15), w.And(w.ShiftRight(zeros, zero_shift), 15)});
       return w.Times(w.ToType(q), w.Scale(32));
     }},
    {"numbers looked up in a table",
     [](Weights& w) {
       plan::ProgramBuilder& b = w.b;
       const NodeId code = b.Convert(w.Load2(ElementType::kU8, w.k, w.line, w.depth, w.lines), ElementType::kU8, kWord);
       const IndexId at = b.ClampedIndex(w.And(code, 15), 0, 15);
       const int table = b.AddBuffer(kHalf, 16, false);
       w.bindings.push_back({kHalf, 16, true, false});
       return w.Times(b.Convert(b.Load(table, kHalf, at), kHalf, w.type), w.Scale(16));
     }},
    {"one of two by a comparison",
     [](Weights& w) {
       const NodeId q = w.b.Convert(w.Load2(ElementType::kS8, w.k, w.line, w.depth, w.lines), ElementType::kS8, kWord);
       const NodeId negative = w.b.Compare(ComparisonDirection::kLt, q, w.Whole(0));
       return w.b.Select(negative, w.Scale(16), w.ToType(q));
     }},
    {"one of three layers, by its number", [](Weights& w) { return Layer(w, {w.k, w.line}, {w.depth, w.lines}); }},
    {"one of three layers, transposed", [](Weights& w) { return Layer(w, {w.line, w.k}, {w.lines, w.depth}); }},
};
constexpr std::size_t kMovedForms[] = {std::size(kForms) - 2, std::size(kForms) - 1};

enum class Computed { kLhs, kRhs };

// The dot with one operand computed in that form, from buffers behind those of the dot.
plan::KernelPlan With(const Form& form, const Shape& s, const DotOptions& options, Computed which) {
  plan::KernelPlan plan = Dot(s, options);
  auto& dot = std::get<plan::DotKernel>(plan.body);
  const bool is_lhs = which == Computed::kLhs;
  std::vector<int64_t> dims = s.batch;
  dims.insert(dims.end(), {is_lhs ? s.m : s.k, is_lhs ? s.k : s.n});
  plan::ProgramBuilder b(dims);
  for (const plan::Binding& binding : plan.bindings)
    b.AddBuffer(binding.storage, binding.element_count, binding.written);
  const auto rank = static_cast<int>(s.batch.size());
  IndexId batch_at = b.space().Constant(0);
  int64_t batch = 1;
  for (int d = 0; d < rank; ++d) {
    const int64_t extent = s.batch[static_cast<std::size_t>(d)];
    batch_at = b.space().Add(b.space().Mul(batch_at, extent), b.space().Iter(d));
    batch *= extent;
  }
  Weights w{b,
            plan.bindings,
            batch,
            batch_at,
            b.space().Iter(is_lhs ? rank + 1 : rank),
            b.space().Iter(is_lhs ? rank : rank + 1),
            s.k,
            is_lhs ? s.m : s.n,
            options.type};
  b.AddResult(form.value(w));
  (is_lhs ? dot.lhs_binding : dot.rhs_binding) = -1;
  (is_lhs ? dot.lhs_program : dot.rhs_program) = std::move(b).Finish();
  plan.name += Format(", {} {}", is_lhs ? "lhs" : "rhs", form.name);
  return plan;
}

// Small integers, and scales of few bits, so that sums are exact in any order.
std::vector<Bytes> MemoryOf(const plan::KernelPlan& plan, std::size_t operands) {
  std::vector<Bytes> out;
  std::mt19937 random(7);
  for (const plan::Binding& b : plan.bindings) {
    const bool is_weight = out.size() > operands;
    if (is_weight && b.storage == kHalf) {
      Bytes scales(static_cast<std::size_t>(b.element_count) * 2);
      for (int64_t i = 0; i < b.element_count; ++i) {
        const float f = 0.25f + 0.25f * static_cast<float>(random() % 128) / 128;
        WriteElement(scales, kHalf, i, std::bit_cast<uint32_t>(f));
      }
      out.push_back(std::move(scales));
    } else if (is_weight && b.storage != ElementType::kS8 && !IsFloat(b.storage)) {
      Bytes bits(static_cast<std::size_t>(b.element_count * StorageBytes(b.storage)));
      for (uint8_t& byte : bits) byte = static_cast<uint8_t>(random());
      out.push_back(std::move(bits));
    } else {
      out.push_back(SmallIntegers(b.storage, b.element_count, static_cast<uint32_t>(out.size())));
    }
  }
  return out;
}

void CheckComputed(const plan::KernelPlan& plan) { CheckKernel(plan, MemoryOf(plan, 2)); }

const DotOptions kWeights{.type = kHalf, .accumulate = ElementType::kF32, .result = ElementType::kF32};

class OperandProgramTest : public ::testing::TestWithParam<std::size_t> {
 protected:
  const Form& form() const { return kForms[GetParam()]; }
};

TEST_P(OperandProgramTest, FewRows) {
  for (const Shape& s : {Shape{{}, 1, 64, 256}, Shape{{}, 3, 72, 128}, Shape{{2}, 8, 36, 64}})
    CheckComputed(With(form(), s, kWeights, Computed::kRhs));
}
TEST_P(OperandProgramTest, ManyRows) {
  for (const Shape& s : {Shape{{}, 64, 64, 64}, Shape{{2}, 40, 24, 32}})
    CheckComputed(With(form(), s, kWeights, Computed::kRhs));
}
TEST_P(OperandProgramTest, OddSizes) {
  for (const Shape& s : {Shape{{}, 1, 37, 131}, Shape{{3}, 13, 17, 22}})
    CheckComputed(With(form(), s, kWeights, Computed::kRhs));
}
TEST_P(OperandProgramTest, Lhs) {
  for (const Shape& s : {Shape{{}, 48, 40, 64}, Shape{{2}, 19, 3, 65}})
    CheckComputed(With(form(), s, kWeights, Computed::kLhs));
}
TEST_P(OperandProgramTest, InF32) {
  DotOptions o = kWeights;
  o.type = ElementType::kF32;
  CheckComputed(With(form(), {{}, 2, 64, 96}, o, Computed::kRhs));
}

INSTANTIATE_TEST_SUITE_P(Forms, OperandProgramTest, ::testing::Range(std::size_t{0}, std::size(kForms)));

// Depths in parts: those of GPUs' columns, and those that one workgroup does not take.
TEST(OperandProgramsTest, DepthsInParts) {
  for (std::size_t form : {std::size_t{0}, std::size_t{4}}) {
    CheckComputed(With(kForms[form], {{}, 1, 8, 2053}, kWeights, Computed::kRhs));
    CheckComputed(With(kForms[form], {{}, 1, 4, (1 << 18) + 3}, kWeights, Computed::kRhs));
  }
}

TEST(OperandProgramsTest, IntegerSums) {
  const Form form{"s8 of nibbles", [](Weights& w) {
                    const NodeId byte =
                        w.Load2(ElementType::kU8, w.b.space().FloorDiv(w.k, 2), w.line, (w.depth + 1) / 2, w.lines);
                    const NodeId less = w.b.Hlo(Opcode::kSubtract, kWord, {Nibble(w, byte, w.k), w.Whole(8)});
                    return w.b.Convert(less, kWord, ElementType::kS8);
                  }};
  const DotOptions o{.type = ElementType::kS8, .accumulate = kWord, .result = kWord};
  for (const Shape& s : {Shape{{}, 1, 64, 128}, Shape{{}, 64, 64, 64}, Shape{{}, 17, 19, 21}})
    CheckComputed(With(form, s, o, Computed::kRhs));
}

TEST(OperandProgramsTest, CooperativeMatrices) {
  DotOptions o = kWeights;
  o.type = ElementType::kF16;
  // Drivers here compile slowly what is unrolled: scales of groups, and bytes of two numbers.
  for (std::size_t form : {std::size_t{1}, std::size_t{4}}) {
    for (Computed which : {Computed::kLhs, Computed::kRhs}) {
      const plan::KernelPlan plan = With(kForms[form], {{}, 40, 48, 40}, o, which);
      std::vector<Bytes> memory = MemoryOf(plan, 2), want = memory;
      RunKernel(plan, want);
      for (const auto& device : Devices()) {
        if (!device->profile().features.cooperative_matrix) continue;
        const EmitOptions options{.enable_cooperative_matrix = true};
        auto program = Emit(plan, device->profile(), options);
        ASSERT_TRUE(program.has_value()) << program.error().ToString();
        EXPECT_EQ(program->kernels[0].variant, "dot.coop");
        std::vector<Bytes> got = memory;
        auto run = device->Run(plan, got, options);
        ASSERT_TRUE(run.has_value()) << device->name() << ": " << run.error().ToString();
        ExpectSame(plan, got, want, device->name());
      }
    }
  }
}

// The direction in which the weights lie decides who reads them.
TEST(OperandProgramsTest, EveryVariantIsTaken) {
  std::set<std::string> seen;
  for (const DeviceProfile& profile : Profiles()) {
    for (int64_t m : {1, 64, 512}) {
      for (std::size_t form : {std::size_t{0}, std::size_t{1}}) {
        DotOptions o = kWeights;
        o.type = ElementType::kF32;
        auto program = Emit(With(kForms[form], {{}, m, 512, 512}, o, Computed::kRhs), profile);
        ASSERT_TRUE(program.has_value());
        for (const EmittedKernel& k : program->kernels) seen.insert(k.variant);
      }
    }
  }
  for (const char* variant : {"dot.columns", "dot.pack", "dot.packed_panel", "dot.panel", "dot.rows", "dot.tile"})
    EXPECT_TRUE(seen.contains(variant)) << variant;
}

// What is only moved is read by the kernel that reads a stored operand, whose strides it has.
TEST(OperandProgramsTest, MovedOperandsAreReadAsStoredOnes) {
  for (const DeviceProfile& profile : Profiles()) {
    for (int64_t m : {1, 8, 64, 512}) {
      for (std::size_t form : kMovedForms) {
        const plan::KernelPlan moved = With(kForms[form], {{}, m, 512, 512}, kWeights, Computed::kRhs);
        plan::KernelPlan stored = moved;
        auto& dot = std::get<plan::DotKernel>(stored.body);
        dot.rhs_program = plan::ElementProgram();
        dot.rhs_binding = static_cast<int>(stored.bindings.size()) - 1;
        dot.rhs_k_stride = form == kMovedForms[0] ? 512 : 1;
        dot.rhs_n_stride = form == kMovedForms[0] ? 1 : 512;
        const auto a = Emit(moved, profile), b = Emit(stored, profile);
        ASSERT_TRUE(a.has_value() && b.has_value());
        ASSERT_EQ(a->kernels.size(), b->kernels.size());
        for (std::size_t i = 0; i < a->kernels.size(); ++i) EXPECT_EQ(a->kernels[i].variant, b->kernels[i].variant);
      }
    }
  }
}

}  // namespace
}  // namespace krafla::spirv::testing
