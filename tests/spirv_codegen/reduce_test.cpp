// SPDX-License-Identifier: Apache-2.0
#include "test_kernels.h"

namespace krafla::spirv::testing {
namespace {

using plan::NodeId;
using plan::ProgramBuilder;
using plan::ReduceKernel;
using plan::ReduceStage;
using plan::Reduction;
using ReduceKind = plan::Reduction::Kind;

Opcode OpOf(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kSum: return Opcode::kAdd;
    case ReduceKind::kProduct: return Opcode::kMultiply;
    case ReduceKind::kMax: return Opcode::kMaximum;
    case ReduceKind::kMin: return Opcode::kMinimum;
    case ReduceKind::kAnd: return Opcode::kAnd;
    case ReduceKind::kOr: return Opcode::kOr;
    case ReduceKind::kXor: return Opcode::kXor;
    case ReduceKind::kComplexProduct:
    case ReduceKind::kOther: break;
  }
  return Opcode::kAdd;
}

Reduction Simple(ReduceKind kind, ElementType type, double init, int input = 0) {
  Reduction r;
  r.kind = kind;
  r.hlo_type = type;
  r.inputs = {input};
  const ElementType c = plan::ComputeType(type);
  ProgramBuilder combiner({});
  combiner.AddResult(combiner.Hlo(OpOf(kind), c, {combiner.Param(c, 0, 0), combiner.Param(c, 1, 0)}));
  r.combiner = std::move(combiner).Finish();
  ProgramBuilder start({});
  start.AddResult(IsFloat(c) ? start.ConstantFloat(c, init) : start.ConstantInt(c, static_cast<int64_t>(init)));
  r.init = std::move(start).Finish();
  return r;
}

struct Layout {
  std::vector<int64_t> rows, elements;
  bool columns = false;  // the array is stored elements first
  std::string ToString() const {
    std::string s = columns ? "columns" : "rows";
    for (int64_t d : rows) s += "_" + std::to_string(d);
    s += "_by";
    for (int64_t d : elements) s += "_" + std::to_string(d);
    return s;
  }
};

plan::IndexId ArrayIndex(ProgramBuilder& b, const Layout& layout) {
  std::vector<plan::IndexId> index;
  std::vector<int64_t> dims;
  const int rank = static_cast<int>(layout.rows.size() + layout.elements.size());
  const int split = static_cast<int>(layout.rows.size());
  auto add = [&](int d) {
    index.push_back(b.space().Iter(d));
    dims.push_back(b.space().dims()[static_cast<std::size_t>(d)]);
  };
  if (layout.columns) {
    for (int d = split; d < rank; ++d) add(d);
    for (int d = 0; d < split; ++d) add(d);
  } else {
    for (int d = 0; d < rank; ++d) add(d);
  }
  return b.space().Linearize(index, dims);
}

std::vector<int64_t> AllDims(const Layout& layout) {
  std::vector<int64_t> dims = layout.rows;
  dims.insert(dims.end(), layout.elements.begin(), layout.elements.end());
  return dims;
}
int64_t Count(const std::vector<int64_t>& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

plan::KernelPlan PlanOf(ReduceKernel kernel, std::vector<plan::Binding> bindings, std::string name) {
  plan::KernelPlan plan;
  plan.name = std::move(name);
  plan.bindings = std::move(bindings);
  plan.body = std::move(kernel);
  return plan;
}

// out[row] = reduction of in[row, element], converted to `out_type`.
plan::KernelPlan PlainReduce(ReduceKind kind, ElementType type, const Layout& layout, double init) {
  const std::vector<int64_t> dims = AllDims(layout);
  const int64_t rows = Count(layout.rows);
  const ElementType c = plan::ComputeType(type);
  ProgramBuilder element(dims);
  const int in = element.AddBuffer(type, Count(dims), false);
  element.AddBuffer(type, rows, true);
  element.AddResult(element.Load(in, type, ArrayIndex(element, layout)));
  ReduceStage first;
  first.program = std::move(element).Finish();
  first.reductions.push_back(Simple(kind, type, init));
  ProgramBuilder row(layout.rows);
  row.AddBuffer(type, Count(dims), false);
  const int out = row.AddBuffer(type, rows, true);
  std::vector<plan::IndexId> index;
  for (std::size_t d = 0; d < layout.rows.size(); ++d) index.push_back(row.space().Iter(static_cast<int>(d)));
  const NodeId total = row.Convert(row.Param(c, 0, ~uint64_t{0} >> (64 - layout.rows.size())), c, type);
  row.AddStore({out, row.space().Linearize(index, layout.rows), total, type});
  ReduceStage second;
  second.scope = ReduceStage::Scope::kRow;
  second.program = std::move(row).Finish();
  ReduceKernel k;
  k.row_dims = Dims(layout.rows);
  k.element_dims = Dims(layout.elements);
  k.stages = {first, second};
  return PlanOf(
      std::move(k), {{type, Count(dims), true, false}, {type, rows, false, true}},
      std::string(OpcodeName(OpOf(kind))) + "." + std::string(ElementTypeName(type)) + "." + layout.ToString());
}

const Layout kLayouts[] = {
    {{1}, {1}},         {{3}, {5}},           {{64}, {64}},         {{7}, {1000}},         {{1}, {4096}},
    {{5, 3}, {2, 36}},  {{2}, {100'000}},     {{1}, {600'001}},     {{2000}, {4}},         {{12}, {3}, true},
    {{64}, {50}, true}, {{30}, {2000}, true}, {{1024}, {17}, true}, {{8}, {40'000}, true}, {{0}, {4}},
    {{4}, {0}},
};

TEST(ReduceTest, SumsAndExtremesOfEveryLayout) {
  for (const Layout& layout : kLayouts) {
    CheckOnIntegers(PlainReduce(ReduceKind::kSum, ElementType::kF32, layout, 5));
    CheckOnIntegers(PlainReduce(ReduceKind::kMax, ElementType::kS32, layout, -2));
  }
}

TEST(ReduceTest, KindsAndTypes) {
  const Layout layouts[] = {{{9}, {260}}, {{40}, {33}, true}, {{3}, {70'000}}};
  for (const Layout& layout : layouts) {
    for (ElementType type : {ElementType::kF32, ElementType::kBF16, ElementType::kF16, ElementType::kF64,
                             ElementType::kS32, ElementType::kU8, ElementType::kS64}) {
      for (ReduceKind kind : {ReduceKind::kMin, ReduceKind::kMax}) CheckOnIntegers(PlainReduce(kind, type, layout, 1));
    }
    for (ElementType type : {ElementType::kS32, ElementType::kU32, ElementType::kPred, ElementType::kU64}) {
      for (ReduceKind kind : {ReduceKind::kAnd, ReduceKind::kOr, ReduceKind::kXor})
        CheckOnIntegers(PlainReduce(kind, type, layout, 1));
    }
    CheckOnIntegers(PlainReduce(ReduceKind::kProduct, ElementType::kS32, layout, 7));
    CheckOnIntegers(PlainReduce(ReduceKind::kSum, ElementType::kS64, layout, 7));
    CheckOnIntegers(PlainReduce(ReduceKind::kSum, ElementType::kF64, layout, 7));
  }
}

// Rows and columns that fours do not divide: on the host's processors most of them are read by fours all the same.
TEST(ReduceTest, FoursThatDoNotDivide) {
  const Layout layouts[] = {{{5}, {1001}},       {{3}, {70'003}},        {{1}, {5003}},
                            {{6}, {131}},        {{1001}, {40}, true},   {{5, 7}, {300}, true},
                            {{9}, {5000}, true}, {{2, 9}, {4003}, true}, {{3, 4, 66}, {50}, true}};
  for (const Layout& layout : layouts) {
    for (const ElementType type : {ElementType::kU8, ElementType::kS8, ElementType::kBF16, ElementType::kF16,
                                   ElementType::kF32, ElementType::kF64})
      CheckOnIntegers(PlainReduce(ReduceKind::kMax, type, layout, 1));
    CheckOnIntegers(PlainReduce(ReduceKind::kSum, ElementType::kF32, layout, 3));
    CheckOnIntegers(PlainReduce(ReduceKind::kSum, ElementType::kS32, layout, 3));
  }
  for (const DeviceProfile& profile : Profiles()) {
    const auto program = Emit(PlainReduce(ReduceKind::kSum, ElementType::kF32, {{1001}, {40}, true}, 0), profile);
    ASSERT_TRUE(program.has_value()) << program.error().ToString();
    EXPECT_EQ(program->kernels.size(), profile.is_cpu ? 2u : 1u) << profile.name;
  }
}

TEST(ReduceTest, NanAndSignedZeroPropagate) {
  for (const Layout& layout : {Layout{{6}, {200}}, Layout{{40}, {20}, true}, Layout{{2}, {66'000}}}) {
    for (ReduceKind kind : {ReduceKind::kMin, ReduceKind::kMax}) {
      const plan::KernelPlan plan = PlainReduce(kind, ElementType::kF32, layout, kind == ReduceKind::kMin ? 9 : -9);
      std::vector<Bytes> memory;
      memory.push_back(SmallIntegers(ElementType::kF32, plan.bindings[0].element_count, 3, -1, 0));
      const int64_t n = plan.bindings[0].element_count;
      for (int64_t i = 0; i < n; i += 997) WriteElement(memory[0], ElementType::kF32, i, 0x80000000u);
      WriteElement(memory[0], ElementType::kF32, n / 2, 0x7fc00000u);
      memory.push_back(SmallIntegers(ElementType::kF32, plan.bindings[1].element_count, 3));
      CheckKernel(plan, memory);
    }
  }
}

// argmax: the greater value, of equal ones the lower index.
Reduction ArgMax() {
  Reduction r;
  r.kind = ReduceKind::kOther;
  r.inputs = {0, 1};
  ProgramBuilder b({});
  const NodeId x = b.Param(ElementType::kF32, 0, 0), i = b.Param(ElementType::kS32, 1, 0);
  const NodeId y = b.Param(ElementType::kF32, 2, 0), j = b.Param(ElementType::kS32, 3, 0);
  const NodeId greater = b.Compare(ComparisonDirection::kGt, x, y);
  const NodeId tie = b.And(b.Compare(ComparisonDirection::kEq, x, y), b.Compare(ComparisonDirection::kLt, i, j));
  const NodeId first = b.Hlo(Opcode::kOr, ElementType::kPred, {greater, tie});
  b.AddResult(b.Select(first, x, y));
  b.AddResult(b.Select(first, i, j));
  r.combiner = std::move(b).Finish();
  ProgramBuilder init({});
  init.AddResult(init.ConstantFloat(ElementType::kF32, -1e30));
  init.AddResult(init.ConstantInt(ElementType::kS32, 0));
  r.init = std::move(init).Finish();
  return r;
}

TEST(ReduceTest, VariadicWithAnyCombiner) {
  for (const Layout& layout :
       {Layout{{5}, {300}}, Layout{{64}, {30}, true}, Layout{{2}, {150'000}}, Layout{{30}, {6}}, Layout{{3}, {0}}}) {
    const std::vector<int64_t> dims = AllDims(layout);
    const int64_t rows = Count(layout.rows);
    ReduceKernel k;
    k.row_dims = Dims(layout.rows);
    k.element_dims = Dims(layout.elements);
    ProgramBuilder element(dims);
    const int in = element.AddBuffer(ElementType::kF32, Count(dims), false);
    element.AddResult(element.Load(in, ElementType::kF32, ArrayIndex(element, layout)));
    element.AddResult(element.Index(element.space().Iter(1)));
    // The count of positive values beside it: two reductions over one pass.
    element.AddResult(element.Convert(
        element.Compare(ComparisonDirection::kGt, element.Load(in, ElementType::kF32, ArrayIndex(element, layout)),
                        element.ConstantFloat(ElementType::kF32, 0)),
        ElementType::kPred, ElementType::kS32));
    ReduceStage first;
    first.program = std::move(element).Finish();
    first.reductions = {ArgMax(), Simple(ReduceKind::kSum, ElementType::kS32, 100, 2)};
    ProgramBuilder row(layout.rows);
    row.AddBuffer(ElementType::kF32, Count(dims), false);
    const ElementType types[] = {ElementType::kF32, ElementType::kS32, ElementType::kS32};
    std::vector<plan::Binding> bindings{{ElementType::kF32, Count(dims), true, false}};
    for (int i = 0; i < 3; ++i) {
      const int out = row.AddBuffer(types[i], rows, true);
      row.AddStore({out, row.space().Iter(0), row.Param(types[i], i, 1), types[i]});
      bindings.push_back({types[i], rows, false, true});
    }
    ReduceStage second;
    second.scope = ReduceStage::Scope::kRow;
    second.program = std::move(row).Finish();
    k.stages = {first, second};
    CheckOnIntegers(PlanOf(std::move(k), bindings, "argmax." + layout.ToString()));
  }
}

// Maps x -> ax + b one after the other: an associative combiner that is not commutative.
Reduction Composition() {
  Reduction r;
  r.kind = ReduceKind::kOther;
  r.inputs = {0, 1};
  ProgramBuilder b({});
  const auto multiply = [&](NodeId x, NodeId y) { return b.Hlo(Opcode::kMultiply, ElementType::kS32, {x, y}); };
  NodeId p[4];
  for (int i = 0; i < 4; ++i) p[i] = b.Param(ElementType::kS32, i, 0);
  b.AddResult(multiply(p[0], p[2]));
  b.AddResult(b.Hlo(Opcode::kAdd, ElementType::kS32, {multiply(p[1], p[2]), p[3]}));
  r.combiner = std::move(b).Finish();
  ProgramBuilder init({});
  for (const int64_t x : {3, 4}) init.AddResult(init.ConstantInt(ElementType::kS32, x));
  r.init = std::move(init).Finish();
  return r;
}

TEST(ReduceTest, AssociativeCombinersKeepTheOrder) {
  for (const Layout& layout : {Layout{{5}, {300}}, Layout{{64}, {30}, true}, Layout{{2}, {150'000}}, Layout{{3}, {64}},
                               Layout{{1}, {4096}}, Layout{{4}, {40'000}, true}, Layout{{3}, {257}}}) {
    const int64_t rows = Count(layout.rows), count = Count(AllDims(layout));
    ReduceKernel k;
    k.row_dims = Dims(layout.rows);
    k.element_dims = Dims(layout.elements);
    ProgramBuilder element(AllDims(layout));
    const int in = element.AddBuffer(ElementType::kS32, count, false);
    const NodeId x = element.Load(in, ElementType::kS32, ArrayIndex(element, layout));
    // Odd factors, so that all elements before them are seen in what wraps around.
    element.AddResult(
        element.Hlo(Opcode::kAdd, ElementType::kS32,
                    {element.Hlo(Opcode::kAdd, ElementType::kS32, {x, x}), element.ConstantInt(ElementType::kS32, 1)}));
    element.AddResult(element.Index(element.space().Iter(1)));
    ReduceStage first;
    first.program = std::move(element).Finish();
    first.reductions = {Composition()};
    ProgramBuilder row(layout.rows);
    row.AddBuffer(ElementType::kS32, count, false);
    std::vector<plan::Binding> bindings{{ElementType::kS32, count, true, false}};
    for (int i = 0; i < 2; ++i) {
      const int out = row.AddBuffer(ElementType::kS32, rows, true);
      row.AddStore({out, row.space().Iter(0), row.Param(ElementType::kS32, i, 1), ElementType::kS32});
      bindings.push_back({ElementType::kS32, rows, false, true});
    }
    ReduceStage second;
    second.scope = ReduceStage::Scope::kRow;
    second.program = std::move(row).Finish();
    k.stages = {first, second};
    const plan::KernelPlan plan = PlanOf(std::move(k), bindings, "composition." + layout.ToString());
    CheckOnIntegers(plan);
    CheckAsGpu(plan, 2);
  }
}

// Padded windows of 3 x 3 over an image: max pooling and sums with masks.
TEST(ReduceTest, Windows) {
  const int64_t height = 20, width = 24;
  for (ReduceKind kind : {ReduceKind::kMax, ReduceKind::kSum}) {
    const int64_t dims[] = {height, width, 3, 3};
    ProgramBuilder element(dims);
    plan::IndexSpace& s = element.space();
    const int in = element.AddBuffer(ElementType::kF32, height * width, false);
    const plan::IndexId y = s.AddConstant(s.Add(s.Iter(0), s.Iter(2)), -1);
    const plan::IndexId x = s.AddConstant(s.Add(s.Iter(1), s.Iter(3)), -1);
    const NodeId inside = element.And(element.InRange(y, 0, height), element.InRange(x, 0, width));
    const NodeId value = element.Load(in, ElementType::kF32, s.Add(s.Mul(y, width), x), inside);
    element.AddResult(
        element.Select(inside, value, element.ConstantFloat(ElementType::kF32, kind == ReduceKind::kMax ? -100 : 0)));
    ReduceStage first;
    first.program = std::move(element).Finish();
    first.reductions = {Simple(kind, ElementType::kF32, kind == ReduceKind::kMax ? -100 : 0)};
    const int64_t row_dims[] = {height, width};
    ProgramBuilder row(row_dims);
    row.AddBuffer(ElementType::kF32, height * width, false);
    const int out = row.AddBuffer(ElementType::kF32, height * width, true);
    row.AddStore({out, row.space().Add(row.space().Mul(row.space().Iter(0), width), row.space().Iter(1)),
                  row.Param(ElementType::kF32, 0, 3), ElementType::kF32});
    ReduceStage second;
    second.scope = ReduceStage::Scope::kRow;
    second.program = std::move(row).Finish();
    ReduceKernel k;
    k.row_dims = {height, width};
    k.element_dims = {3, 3};
    k.stages = {first, second};
    CheckOnIntegers(
        PlanOf(std::move(k),
               {{ElementType::kF32, height * width, true, false}, {ElementType::kF32, height * width, false, true}},
               "window"));
  }
}

// softmax: max, then the sum of exp(x - max), then exp(x - max) / sum.
plan::KernelPlan Softmax(int64_t rows, int64_t columns) {
  const int64_t dims[] = {rows, columns};
  const std::vector<plan::Binding> bindings{{ElementType::kF32, rows * columns, true, false},
                                            {ElementType::kF32, rows * columns, false, true}};
  auto begin = [&](ProgramBuilder& b) {
    b.AddBuffer(ElementType::kF32, rows * columns, false);
    b.AddBuffer(ElementType::kF32, rows * columns, true);
    return b.Load(0, ElementType::kF32, b.space().Add(b.space().Mul(b.space().Iter(0), columns), b.space().Iter(1)));
  };
  ReduceKernel k;
  k.row_dims = {rows};
  k.element_dims = {columns};
  ReduceStage max, sum, out;
  {
    ProgramBuilder b(dims);
    b.AddResult(begin(b));
    max.program = std::move(b).Finish();
    max.reductions = {Simple(ReduceKind::kMax, ElementType::kF32, -1e30)};
  }
  {
    ProgramBuilder b(dims);
    const NodeId x = begin(b);
    b.AddResult(b.Hlo(Opcode::kExp, ElementType::kF32,
                      {b.Hlo(Opcode::kSubtract, ElementType::kF32, {x, b.Param(ElementType::kF32, 0, 1)})}));
    sum.program = std::move(b).Finish();
    sum.reductions = {Simple(ReduceKind::kSum, ElementType::kF32, 0)};
  }
  {
    ProgramBuilder b(dims);
    const NodeId x = begin(b);
    const NodeId e = b.Hlo(Opcode::kExp, ElementType::kF32,
                           {b.Hlo(Opcode::kSubtract, ElementType::kF32, {x, b.Param(ElementType::kF32, 0, 1)})});
    const NodeId y = b.Hlo(Opcode::kDivide, ElementType::kF32, {e, b.Param(ElementType::kF32, 1, 1)});
    b.AddStore({1, b.space().Add(b.space().Mul(b.space().Iter(0), columns), b.space().Iter(1)), y, ElementType::kF32});
    out.program = std::move(b).Finish();
  }
  k.stages = {max, sum, out};
  return PlanOf(std::move(k), bindings, Format("softmax.{}x{}", rows, columns));
}

TEST(ReduceTest, SoftmaxInOneKernel) {
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{16, 128}, {5, 197}, {3, 5000}, {40, 12}, {1, 1}}) {
    const plan::KernelPlan plan = Softmax(rows, columns);
    ValidateEverywhere(plan);
    std::vector<Bytes> memory{CornerBytes(ElementType::kF32, rows * columns, 1),
                              CornerBytes(ElementType::kF32, rows * columns, 2)};
    std::mt19937 random(4);
    for (int64_t i = 0; i < rows * columns; ++i) {
      const float v = static_cast<float>(random() % 2000) / 100.0f - 10.0f;
      WriteElement(memory[0], ElementType::kF32, i, std::bit_cast<uint32_t>(v));
    }
    std::vector<Bytes> want = memory;
    RunKernel(plan, want);
    for (const auto& device : Devices()) {
      std::vector<Bytes> got = memory;
      auto run = device->Run(plan, got);
      ASSERT_TRUE(run.has_value()) << device->name() << ": " << run.error().ToString();
      for (int64_t i = 0; i < rows * columns; ++i) {
        const float x = std::bit_cast<float>(static_cast<uint32_t>(ReadElement(got[1], ElementType::kF32, i)));
        const float y = std::bit_cast<float>(static_cast<uint32_t>(ReadElement(want[1], ElementType::kF32, i)));
        // Only the order of the sum differs: (columns + 2) 2^-24 of it, and the roundings after it.
        ASSERT_NEAR(x, y, (static_cast<double>(columns) + 4) * 0x1p-24 * y)
            << device->name() << " " << plan.name << " " << i;
      }
    }
  }
}

TEST(ReduceTest, VariantsByDevice) {
  auto variant = [](const plan::KernelPlan& plan, const DeviceProfile& profile) {
    auto program = Emit(plan, profile);
    return program ? program->kernels.front().variant : program.error().ToString();
  };
  const plan::KernelPlan rows = PlainReduce(ReduceKind::kSum, ElementType::kF32, {{64}, {1024}}, 0);
  const plan::KernelPlan columns = PlainReduce(ReduceKind::kSum, ElementType::kF32, {{4096}, {64}, true}, 0);
  for (DeviceProfile profile : Profiles()) {
    EXPECT_EQ(variant(columns, profile), "reduce.column.vec4");
    profile.subgroup = {};
    EXPECT_EQ(variant(rows, profile), "reduce.workgroup_row");
  }
}

}  // namespace
}  // namespace krafla::spirv::testing
