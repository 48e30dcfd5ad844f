// SPDX-License-Identifier: Apache-2.0
#include "api/vulkan/self_test_cases.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>

#include "api/front_end.h"
#include "base/index.h"
#include "ir/builder.h"
#include "spirv_codegen/emit.h"

namespace krafla {
namespace {

// What is stored in an array, as the number that it stands for: all of them are whole.
using Numbers = std::vector<int64_t>;

// Element `i` of a result of `x`, in the arithmetic of 64-bit integers that wraps around.
using Answer = int64_t (*)(const Numbers& x, int64_t i);

int64_t Wrapping(int64_t a, int64_t b, int64_t c) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b) + static_cast<uint64_t>(c));
}
int64_t SquareAndNumber(const Numbers& x, int64_t i) { return Wrapping(x[At(i)], x[At(i)], x[At(i)]); }
int64_t NumberLessSquare(const Numbers& x, int64_t i) { return Wrapping(-x[At(i)], x[At(i)], x[At(i)]); }
int64_t ReversedNegative(const Numbers& x, int64_t i) { return -x[x.size() - 1 - At(i)]; }
int64_t ReversedDouble(const Numbers& x, int64_t i) { return 2 * x[x.size() - 1 - At(i)]; }

constexpr int64_t kColumns = 256;
int64_t RowSum(const Numbers& x, int64_t i) {
  return std::accumulate(x.begin() + i * kColumns, x.begin() + (i + 1) * kColumns, int64_t{0});
}
int64_t RowMaximum(const Numbers& x, int64_t i) {
  return *std::max_element(x.begin() + i * kColumns, x.begin() + (i + 1) * kColumns);
}

// x of kRows x kDepth times itself, or times its transpose.
template <int64_t kRows, int64_t kDepth, bool kTransposed>
int64_t Product(const Numbers& x, int64_t i) {
  static_assert(kTransposed || kRows == kDepth);
  const int64_t row = i / kRows, column = i % kRows;
  int64_t sum = 0;
  for (int64_t k = 0; k < kDepth; ++k)
    sum += x[At(row * kDepth + k)] * x[At(kTransposed ? column * kDepth + k : k * kDepth + column)];
  return sum;
}

// What a module makes of its parameter `x`.
using Body = Result<Instruction*> (*)(Computation& entry, Instruction* x);

// x * x `opcode` x, or x `opcode` x * x.
template <Opcode kOpcode, bool kSquareFirst>
Result<Instruction*> WithSquare(Computation& entry, Instruction* x) {
  KRAFLA_ASSIGN(Instruction * square, AddInferred(entry, Opcode::kMultiply, {x, x}));
  if (kSquareFirst) return AddInferred(entry, kOpcode, {square, x});
  return AddInferred(entry, kOpcode, {x, square});
}

// `opcode` of as many x as it takes, backwards.
template <Opcode kOpcode>
Result<Instruction*> Reversed(Computation& entry, Instruction* x) {
  std::vector<Instruction*> operands(kOpcode == Opcode::kNegate ? 1 : 2, x);
  KRAFLA_ASSIGN(Instruction * value, AddInferred(entry, kOpcode, std::move(operands)));
  return AddInferred(entry, Opcode::kReverse, {value}, DimensionsAttributes{{0}});
}

template <Opcode kOpcode>
Result<Instruction*> ReducedRows(Computation& entry, Instruction* x) {
  const ElementType type = x->shape().element_type();
  Instruction* init =
      AddScalarConstant(entry, type, kOpcode == Opcode::kAdd ? 0.0 : -std::numeric_limits<double>::infinity());
  Computation* fold = AddBinaryComputation(*entry.parent(), kOpcode, Shape::MakeScalar(type));
  return AddInferred(entry, Opcode::kReduce, {x, init}, DimensionsAttributes{{1}}, {fold});
}

template <ElementType kResult, bool kTransposed>
Result<Instruction*> Squared(Computation& entry, Instruction* x) {
  const int64_t rows = x->shape().dims()[0];
  KRAFLA_ASSIGN(const Shape result, Shape::MakeArray(kResult, Dims{rows, rows}));
  return AddInferred(entry, Opcode::kDot, {x, x}, DotAttributes{{1}, {kTransposed ? 1 : 0}, {}, {}, {}, {}}, {},
                     &result);
}

struct Source {
  std::string_view feature;
  ElementType type;
  std::array<int64_t, 2> dims;  // of the parameter; 0: none
  Body body;
  Answer answer;
  bool (*has)(const DeviceFeatures&);
};

bool HasMatrices(const DeviceFeatures& f) { return f.cooperative_matrix; }
bool HasFlexible(const DeviceFeatures& f) { return f.matrix_flexible_dimensions; }

constexpr Source kSources[] = {
    {"bda",
     ElementType::kS32,
     {1000, 0},
     WithSquare<Opcode::kAdd, true>,
     SquareAndNumber,
     [](const DeviceFeatures& f) { return f.buffer_device_address; }},
    {"subgroup",
     ElementType::kF32,
     {64, kColumns},
     ReducedRows<Opcode::kAdd>,
     RowSum,
     [](const DeviceFeatures&) { return true; }},
    {"subgroup",
     ElementType::kF32,
     {64, kColumns},
     ReducedRows<Opcode::kMaximum>,
     RowMaximum,
     [](const DeviceFeatures&) { return true; }},
    {"storage8",
     ElementType::kS8,
     {1003, 0},
     Reversed<Opcode::kNegate>,
     ReversedNegative,
     [](const DeviceFeatures& f) { return f.storage8; }},
    {"storage16",
     ElementType::kF16,
     {1003, 0},
     Reversed<Opcode::kAdd>,
     ReversedDouble,
     [](const DeviceFeatures& f) { return f.storage16; }},
    {"int64",
     ElementType::kS64,
     {512, 0},
     WithSquare<Opcode::kSubtract, false>,
     NumberLessSquare,
     [](const DeviceFeatures& f) { return f.int64; }},
    {"fp64",
     ElementType::kF64,
     {512, 0},
     WithSquare<Opcode::kSubtract, false>,
     NumberLessSquare,
     [](const DeviceFeatures& f) { return f.float64; }},
    // Of odd sizes, so that edges are staged and finished too; then with whole tiles and a transposed operand, and
    // large enough for the two larger tiles.
    {"coopmat", ElementType::kF16, {37, 37}, Squared<ElementType::kF32, false>, Product<37, 37, false>, HasMatrices},
    {"coopmat", ElementType::kBF16, {37, 37}, Squared<ElementType::kF32, false>, Product<37, 37, false>, HasMatrices},
    {"coopmat", ElementType::kS8, {37, 37}, Squared<ElementType::kS32, false>, Product<37, 37, false>, HasMatrices},
    {"coopmat", ElementType::kF16, {440, 40}, Squared<ElementType::kF32, true>, Product<440, 40, true>, HasMatrices},
    {"coopmat", ElementType::kF16, {1000, 40}, Squared<ElementType::kF32, true>, Product<1000, 40, true>, HasMatrices},
    {"coopmat", ElementType::kU8, {64, 64}, Squared<ElementType::kU32, true>, Product<64, 64, true>, HasMatrices},
    // Tiles at an edge and inside, steps of the depth that are whole and not, operands that begin at 16 bytes.
    {"coopmat2", ElementType::kF16, {72, 72}, Squared<ElementType::kF32, false>, Product<72, 72, false>, HasFlexible},
    {"coopmat2", ElementType::kBF16, {72, 72}, Squared<ElementType::kF32, false>, Product<72, 72, false>, HasFlexible},
    {"coopmat2", ElementType::kS8, {80, 80}, Squared<ElementType::kS32, false>, Product<80, 80, false>, HasFlexible},
    {"coopmat2", ElementType::kF16, {264, 64}, Squared<ElementType::kF32, true>, Product<264, 64, true>, HasFlexible},
};

Result<std::unique_ptr<Module>> ModuleOf(const Source& source) {
  auto module = std::make_unique<Module>(Format("self-test of {}", source.feature));
  Computation* entry = module->AddComputation("main");
  Dims dims;
  for (const int64_t d : source.dims)
    if (d != 0) dims.push_back(d);
  KRAFLA_ASSIGN(Shape shape, Shape::MakeArray(source.type, dims));
  Instruction* x = AddParameter(*entry, 0, std::move(shape));
  KRAFLA_ASSIGN(Instruction * root, source.body(*entry, x));
  entry->set_root(root);
  module->set_entry(entry);
  return module;
}

// Whole numbers from -3 to 4, large multiples of them where the type has more bits, as `type` has them.
int64_t NumberOf(ElementType type, int64_t i) {
  const int64_t v = (i * 5 + i / 7) % 8 - 3;
  if (type == ElementType::kS64) return v * 1'000'000'007;
  if (type == ElementType::kS32) return v * 1'000'003;
  if (type == ElementType::kU8) return v & 255;
  return v;
}

uint16_t HalfOf(int64_t v) {
  if (v == 0) return 0;
  const auto magnitude = static_cast<uint64_t>(std::abs(v));
  const int exponent = std::bit_width(magnitude) - 1;
  return static_cast<uint16_t>((v < 0 ? 0x8000u : 0u) | static_cast<unsigned>(15 + exponent) << 10 |
                               ((magnitude << (10 - exponent)) & 0x3FFu));
}

// `numbers` as arrays of `type` hold them.
Result<std::vector<std::byte>> Stored(ElementType type, const Numbers& numbers) {
  const auto bytes = static_cast<std::size_t>(StorageBytes(type));
  std::vector<std::byte> out(numbers.size() * bytes);
  std::byte* to = out.data();
  auto put = [&](auto value) { std::memcpy(to, &value, sizeof value); };
  using enum ElementType;
  for (const int64_t v : numbers) {
    if (type == kF64) put(static_cast<double>(v));
    else if (type == kF32) put(static_cast<float>(v));
    else if (type == kBF16) put(static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(v)) >> 16));
    else if (type == kF16) put(HalfOf(v));
    else if (type == kS64) put(v);
    else if (type == kS32 || type == kU32) put(static_cast<uint32_t>(v));
    else if (type == kS8 || type == kU8) put(static_cast<uint8_t>(v));
    else return Internal("The self-test has no numbers of {}.", ElementTypeName(type));
    to += bytes;
  }
  return out;
}

Result<std::vector<vk::SelfTestCase>> CasesOf(const Source& source, const DeviceProfile& profile) {
  KRAFLA_ASSIGN(std::unique_ptr<Module> module, ModuleOf(source));
  CompileReport report;
  KRAFLA_ASSIGN(plan::ProgramPlan plan, OptimizeAndPlan(std::move(module), {}, report));
  if (plan.kernels.size() != 1 || plan.kernels[0].bindings.size() != 2)
    return Internal("The self-test for {} is not one kernel of two buffers.", source.feature);
  const plan::KernelPlan& kernel = plan.kernels[0];
  spirv::EmitOptions options;
  options.enable_cooperative_matrix = source.feature == "coopmat";
  options.enable_flexible_matrix = source.feature == "coopmat2";
  auto emitted = spirv::Emit(kernel, profile, options);
  // A kernel that this device does not take, or that does not lean on the feature, has nothing to show.
  std::vector<vk::SelfTestCase> none;
  if (!emitted || emitted->kernels.size() != 1 || emitted->dispatches.size() != 1 || !emitted->scratch_bytes.empty() ||
      emitted->kernels[0].buffers.size() != 2 ||
      (options.enable_cooperative_matrix && !emitted->kernels[0].uses_cooperative_matrix) ||
      (options.enable_flexible_matrix && emitted->kernels[0].variant != "dot.coop2"))
    return none;
  spirv::EmittedKernel& code = emitted->kernels[0];

  vk::SelfTestCase c;
  c.feature = source.feature;
  c.kernel.spirv = std::move(code.words);
  c.kernel.name = Format("self-test of {}", source.feature);
  c.kernel.binding_count = 2;
  c.kernel.subgroup_size = code.subgroup_size;
  c.kernel.full_subgroups = code.full_subgroups;
  std::copy(emitted->dispatches[0].grid.begin(), emitted->dispatches[0].grid.end(), c.grid);
  const plan::Binding &from = kernel.bindings[0], &to = kernel.bindings[1];
  Numbers numbers(At(from.element_count)), answers(At(to.element_count));
  for (int64_t i = 0; i < from.element_count; ++i) numbers[At(i)] = NumberOf(from.storage, i);
  for (int64_t i = 0; i < to.element_count; ++i) answers[At(i)] = source.answer(numbers, i);
  KRAFLA_ASSIGN(c.input, Stored(from.storage, numbers));
  KRAFLA_ASSIGN(c.expected, Stored(to.storage, answers));
  std::vector<vk::SelfTestCase> out;
  out.push_back(std::move(c));
  return out;
}

}  // namespace

Result<std::vector<vk::SelfTestCase>> SelfTestCases(const DeviceProfile& profile, const MatrixKinds& matrices) {
  std::vector<vk::SelfTestCase> out;
  for (const Source& source : kSources) {
    if (!source.has(profile.features)) continue;
    if (source.feature == "coopmat" && !matrices.fixed) continue;
    if (source.feature == "coopmat2" && !matrices.flexible) continue;
    KRAFLA_ASSIGN(std::vector<vk::SelfTestCase> cases, CasesOf(source, profile));
    for (vk::SelfTestCase& c : cases) out.push_back(std::move(c));
  }
  return out;
}

}  // namespace krafla
