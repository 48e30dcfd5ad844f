// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/reduce_tiling.h"
#include "kernel_fixture.h"

namespace krafla {
namespace {

using plan::ElementProgram;
using plan::IndexId;
using plan::NodeId;
using plan::ProgramBuilder;
using plan::ReduceStage;
using plan::Reduction;

// The whole region by the scalar definitions: rows one after the other, elements in order.
void ReferenceReduce(const plan::ReduceKernel& k, const std::vector<std::byte*>& buffers) {
  std::vector<int64_t> row(k.row_dims.size(), 0);
  if (Product(k.row_dims) == 0) return;
  do {
    std::vector<uint64_t> params;
    for (const ReduceStage& stage : k.stages) {
      reference::Interpreter program(stage.program, buffers);
      if (stage.scope == ReduceStage::Scope::kRow) {
        program.RunPoint(row, params);
        continue;
      }
      std::vector<std::vector<uint64_t>> sums;
      for (const Reduction& r : stage.reductions) sums.push_back(reference::Interpreter(r.init, buffers).RunPoint({}));
      std::vector<int64_t> element(k.element_dims.size(), 0);
      if (Product(k.element_dims) > 0) {
        do {
          std::vector<int64_t> point = row;
          point.insert(point.end(), element.begin(), element.end());
          std::vector<uint64_t> values = program.RunPoint(point, params);
          for (std::size_t n = 0; n < sums.size(); ++n) {
            std::vector<uint64_t> both = sums[n];
            for (int input : stage.reductions[n].inputs) both.push_back(values[static_cast<std::size_t>(input)]);
            sums[n] = reference::Interpreter(stage.reductions[n].combiner, buffers).RunPoint({}, both);
          }
        } while (NextIndex(element, k.element_dims));
      }
      for (const auto& s : sums) params.insert(params.end(), s.begin(), s.end());
    }
  } while (NextIndex(row, k.row_dims));
}

// Whole numbers, so that sums are exact in any order.
void FillWhole(ElementType storage, AlignedBytes& bytes, std::mt19937& random) {
  const int64_t n = static_cast<int64_t>(bytes.size()) / StorageBytes(storage);
  for (int64_t i = 0; i < n; ++i) {
    const int value = static_cast<int>(random() % 17) - 8;
    uint64_t bits = reference::Bits(static_cast<float>(value));
    if (IsIntegral(storage)) bits = static_cast<uint64_t>(static_cast<int64_t>(value));
    if (storage == ElementType::kF64) bits = reference::Bits(static_cast<double>(value));
    if (storage == ElementType::kPred) bits = random() % 5 == 0;
    reference::WriteElement(storage, bytes.data(), i, bits);
  }
}

using Fill = void (*)(ElementType storage, AlignedBytes& bytes, std::mt19937& random);
void FillAny(ElementType storage, AlignedBytes& bytes, std::mt19937& random) {
  FillRandom(storage, bytes.span(), random);
}

void CheckReduce(const plan::ReduceKernel& body, const std::string& what, Fill fill = &FillWhole) {
  std::mt19937 random(11);
  plan::KernelPlan kernel;
  kernel.name = what;
  std::vector<AlignedBytes> got, want;
  for (const plan::ProgramBuffer& b : body.stages[0].program.buffers) {
    AlignedBytes bytes(static_cast<std::size_t>(b.element_count * StorageBytes(b.storage)));
    fill(b.storage, bytes, random);
    got.push_back(bytes);
    want.push_back(std::move(bytes));
    kernel.bindings.push_back({b.storage, b.element_count, !b.written, b.written});
  }
  std::vector<std::byte*> got_pointers, want_pointers;
  for (AlignedBytes& b : got) got_pointers.push_back(b.data());
  for (AlignedBytes& b : want) want_pointers.push_back(b.data());
  kernel.body = body;
  RunKernel(kernel, got_pointers);
  ReferenceReduce(body, want_pointers);
  for (std::size_t i = 0; i < got.size(); ++i) ExpectSame(kernel.bindings[i].storage, got[i], want[i], what);
}

Reduction MakeReduction(Opcode op, Reduction::Kind kind, ElementType type, int input, double init) {
  Reduction r;
  r.kind = kind;
  r.hlo_type = type;
  r.inputs = {input};
  ProgramBuilder b({});
  const ElementType c = plan::ComputeType(type);
  b.AddResult(b.Hlo(op, IsFloat(type) ? c : type, {b.Param(c, 0, 0), b.Param(c, 1, 0)}));
  r.combiner = std::move(b).Finish();
  ProgramBuilder i({});
  i.AddResult(IsFloat(c) ? i.ConstantFloat(c, init) : i.ConstantInt(c, static_cast<int64_t>(init)));
  r.init = std::move(i).Finish();
  return r;
}

// Numbers of one sign, of both, zeros of both signs, and now and then a NaN of either sign.
void FillOfOneSign(ElementType storage, AlignedBytes& bytes, std::mt19937& random, int which) {
  const int64_t n = static_cast<int64_t>(bytes.size()) / StorageBytes(storage);
  const uint64_t sign = uint64_t{1} << (8 * StorageBytes(storage) - 1);
  FillRandom(storage, bytes.span(), random);
  for (int64_t i = 0; i < n; ++i) {
    uint64_t raw = 0;
    std::byte* at = bytes.data() + i * StorageBytes(storage);
    std::memcpy(&raw, at, static_cast<std::size_t>(StorageBytes(storage)));
    if (which == 0) raw &= ~sign;
    if (which == 1) raw |= sign;
    if (which == 2) raw &= sign;
    const bool is_nan = (raw & ~sign) > (storage == ElementType::kF64   ? uint64_t{0x7ff} << 52
                                         : storage == ElementType::kF32 ? 0x7f800000u
                                         : storage == ElementType::kF16 ? 0x7c00u
                                                                        : 0x7f80u);
    if (is_nan && random() % 64 != 0) raw &= sign;
    std::memcpy(at, &raw, static_cast<std::size_t>(StorageBytes(storage)));
  }
}
template <int kWhich>
void FillOf(ElementType storage, AlignedBytes& bytes, std::mt19937& random) {
  FillOfOneSign(storage, bytes, random, kWhich);
}

struct Buffers {
  std::vector<plan::ProgramBuffer> list;
  void AddTo(ProgramBuilder& b) const {
    for (const plan::ProgramBuffer& p : list) b.AddBuffer(p.storage, p.element_count, p.written);
  }
};

// out[row dims] = reduction over the other dimensions of in[dims], which follow the first `leading` of the rows'.
plan::ReduceKernel ReduceBehind(std::size_t leading, Dims rows, Dims elements, Opcode op, Reduction::Kind kind,
                                ElementType type, double init) {
  plan::ReduceKernel k;
  k.row_dims = rows, k.element_dims = elements;
  Buffers buffers{{{type, Product(rows) * Product(elements), false}, {type, Product(rows), true}}};
  Dims all = rows;
  all.append(elements.begin(), elements.end());
  ProgramBuilder b(all);
  buffers.AddTo(b);
  std::vector<IndexId> r, e;
  for (std::size_t d = 0; d < rows.size(); ++d) r.push_back(b.space().Iter(static_cast<int>(d)));
  for (std::size_t d = 0; d < elements.size(); ++d) e.push_back(b.space().Iter(static_cast<int>(rows.size() + d)));
  std::vector<IndexId> order(r.begin(), r.begin() + static_cast<std::ptrdiff_t>(leading));
  Dims dims(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(leading));
  order.insert(order.end(), e.begin(), e.end());
  dims.append(elements.begin(), elements.end());
  order.insert(order.end(), r.begin() + static_cast<std::ptrdiff_t>(leading), r.end());
  dims.append(rows.begin() + static_cast<std::ptrdiff_t>(leading), rows.end());
  const IndexId at = b.space().Linearize(order, dims);
  b.AddResult(b.Load(0, type, at));
  ReduceStage s;
  s.program = std::move(b).Finish();
  s.reductions.push_back(MakeReduction(op, kind, type, 0, init));
  k.stages.push_back(std::move(s));
  ProgramBuilder o(rows);
  buffers.AddTo(o);
  r.clear();
  for (std::size_t d = 0; d < rows.size(); ++d) r.push_back(o.space().Iter(static_cast<int>(d)));
  NodeId value = o.Param(plan::ComputeType(type), 0, ~uint64_t{0} >> 1);
  if (IsFloat(type)) value = o.Convert(value, plan::ComputeType(type), type);
  o.AddStore({.buffer = 1, .index = o.space().Linearize(r, rows), .node = value, .storage = type});
  ReduceStage store;
  store.scope = ReduceStage::Scope::kRow;
  store.program = std::move(o).Finish();
  k.stages.push_back(std::move(store));
  return k;
}

// `row_first`: rows are the leading dimensions of in.
plan::ReduceKernel PlainReduce(const Dims& rows, const Dims& elements, bool row_first, Opcode op, Reduction::Kind kind,
                               ElementType type, double init) {
  return ReduceBehind(row_first ? rows.size() : 0, rows, elements, op, kind, type, init);
}

// out[3, columns] = reduction of in[elements[0], 3, elements[1], columns], whose planes do not lie one behind the
// other.
plan::ReduceKernel WithGapRows(int64_t columns, const Dims& elements, Opcode op, Reduction::Kind kind, ElementType type,
                               double init) {
  plan::ReduceKernel k = ReduceBehind(0, {3, columns}, elements, op, kind, type, init);
  ProgramBuilder b(Dims{3, columns, elements[0], elements[1]});
  Buffers{{{type, 3 * columns * Product(elements), false}, {type, 3 * columns, true}}}.AddTo(b);
  auto& s = b.space();
  const IndexId order[] = {s.Iter(2), s.Iter(0), s.Iter(3), s.Iter(1)};
  const int64_t dims[] = {elements[0], 3, elements[1], columns};
  b.AddResult(b.Load(0, type, s.Linearize(order, dims)));
  k.stages[0].program = std::move(b).Finish();
  return k;
}

TEST(ReduceKernelTest, TakesPlanesOfColumns) {
  const auto tile = [](Opcode op, Reduction::Kind kind) {
    const plan::ReduceKernel k = WithGapRows(32, {8, 8}, op, kind, ElementType::kF32, 0);
    return cpu::ChooseReduceTiling(k, cpu::FindReduceLanes(k)).tile;
  };
  EXPECT_EQ(tile(Opcode::kMaximum, Reduction::Kind::kMax).planes, 8);
  EXPECT_EQ(tile(Opcode::kAdd, Reduction::Kind::kSum).planes, 1) << "their order is that of the tiles";
}

// Their bounds as integers tell most, not all.
TEST(ReduceKernelTest, ExtremaOfEverySign) {
  for (ElementType type : {ElementType::kF32, ElementType::kF64, ElementType::kF16, ElementType::kBF16})
    for (Reduction::Kind kind : {Reduction::Kind::kMax, Reduction::Kind::kMin}) {
      const Opcode op = kind == Reduction::Kind::kMax ? Opcode::kMaximum : Opcode::kMinimum;
      const double start = kind == Reduction::Kind::kMax ? -INFINITY : INFINITY;
      for (int64_t elements : {5, 8, 16, 17, 33, 80, 128, 300})
        for (std::size_t leading : {std::size_t{0}, std::size_t{1}})
          for (Fill fill : {&FillOf<0>, &FillOf<1>, &FillOf<2>, &FillOf<3>})
            CheckReduce(ReduceBehind(leading, {70}, {elements}, op, kind, type, start),
                        std::string(OpcodeName(op)) + " of " + std::to_string(elements) + " " +
                            std::string(ElementTypeName(type)),
                        fill);
    }
}

// Elements in two dimensions outside of the columns, of which a call takes several of the outer one.
TEST(ReduceKernelTest, PlanesOfColumns) {
  for (ElementType type : {ElementType::kF32, ElementType::kS32, ElementType::kU8, ElementType::kS16})
    for (int64_t columns : {16, 33, 48, 80, 112})
      for (const Dims& elements : {Dims{8, 8}, Dims{9, 3}, Dims{3, 40}, Dims{12, 40}}) {
        CheckReduce(WithGapRows(columns, elements, Opcode::kMaximum, Reduction::Kind::kMax, type, 3), "maxima");
        CheckReduce(WithGapRows(columns, elements, Opcode::kAdd, Reduction::Kind::kSum, type, 5), "sums");
      }
}

TEST(ReduceKernelTest, SumsOfEveryShapeAndSide) {
  const Dims row_list[] = {{}, {1}, {7}, {100}, {3, 5}, {40, 30}, {600}};
  const Dims element_list[] = {{1}, {5}, {64}, {777}, {3, 3}, {10, 70}, {5000}};
  for (const Dims& rows : row_list)
    for (const Dims& elements : element_list)
      for (bool row_first : {false, true})
        for (ElementType type : {ElementType::kF32, ElementType::kS8, ElementType::kBF16}) {
          if (type == ElementType::kBF16 && Product(elements) > 100) continue;
          if (Product(rows) * Product(elements) > 400000) continue;
          CheckReduce(PlainReduce(rows, elements, row_first, Opcode::kAdd, Reduction::Kind::kSum, type, 3),
                      "sum " + std::string(ElementTypeName(type)) + " rows " + std::to_string(Product(rows)) +
                          " elements " + std::to_string(Product(elements)) + (row_first ? " inner" : " outer"));
        }
}

struct PlainCombiner {
  Opcode op;
  Reduction::Kind kind;
  double init;
};

TEST(ReduceKernelTest, AllKindsAndTypes) {
  for (const PlainCombiner& c :
       {PlainCombiner{Opcode::kMaximum, Reduction::Kind::kMax, -3},
        PlainCombiner{Opcode::kMinimum, Reduction::Kind::kMin, 3},
        PlainCombiner{Opcode::kAnd, Reduction::Kind::kAnd, 1}, PlainCombiner{Opcode::kOr, Reduction::Kind::kOr, 0},
        PlainCombiner{Opcode::kXor, Reduction::Kind::kXor, 1}, PlainCombiner{Opcode::kAdd, Reduction::Kind::kSum, 0},
        PlainCombiner{Opcode::kAdd, Reduction::Kind::kOther, 2}}) {
    for (ElementType type : {ElementType::kPred, ElementType::kS32, ElementType::kU32, ElementType::kS64,
                             ElementType::kU64, ElementType::kF32, ElementType::kF64, ElementType::kS16}) {
      const bool logical = c.op == Opcode::kAnd || c.op == Opcode::kOr || c.op == Opcode::kXor;
      if (type == ElementType::kPred ? !logical : logical && IsFloat(type)) continue;
      for (bool row_first : {false, true})
        for (const Dims& rows : {Dims{9}, Dims{130}})
          CheckReduce(PlainReduce(rows, {333}, row_first, c.op, c.kind, type, c.init),
                      std::string(OpcodeName(c.op)) + " " + std::string(ElementTypeName(type)));
    }
  }
}

// Integers of all sizes, so that sums wrap; floats with NaNs, infinities and zeros of both signs.
TEST(ReduceKernelTest, NarrowTypesInTheirOwnLanes) {
  for (const PlainCombiner& c :
       {PlainCombiner{Opcode::kMaximum, Reduction::Kind::kMax, -3},
        PlainCombiner{Opcode::kMinimum, Reduction::Kind::kMin, 3},
        PlainCombiner{Opcode::kAnd, Reduction::Kind::kAnd, -1}, PlainCombiner{Opcode::kOr, Reduction::Kind::kOr, 0},
        PlainCombiner{Opcode::kXor, Reduction::Kind::kXor, 77}, PlainCombiner{Opcode::kAdd, Reduction::Kind::kSum, 100},
        PlainCombiner{Opcode::kMultiply, Reduction::Kind::kProduct, 3}}) {
    for (ElementType type : {ElementType::kS8, ElementType::kU8, ElementType::kS16, ElementType::kU16,
                             ElementType::kBF16, ElementType::kF16, ElementType::kF32, ElementType::kS4}) {
      if (IsFloat(type) && c.kind != Reduction::Kind::kMax && c.kind != Reduction::Kind::kMin) continue;
      const double init = type == ElementType::kS4 && c.init == 100 ? 5
                          : IsSigned(type) || IsFloat(type)         ? c.init
                                                                    : std::abs(c.init);
      for (std::size_t leading : {0, 1, 2})
        for (const auto& [rows, elements] :
             {std::pair<Dims, int64_t>{{3, 40}, 130}, {{40, 3}, 63}, {{2, 530}, 19}, {{20, 17}, 40}})
          CheckReduce(ReduceBehind(leading, rows, {elements}, c.op, c.kind, type, init),
                      std::string(OpcodeName(c.op)) + " " + std::string(ElementTypeName(type)) + " behind " +
                          std::to_string(leading) + " of " + std::to_string(rows[0]) + " x " + std::to_string(rows[1]),
                      &FillAny);
    }
  }
}

TEST(ReduceKernelTest, ExtremaOfNansAndZeros) {
  for (ElementType type : {ElementType::kBF16, ElementType::kF16, ElementType::kF32}) {
    for (Reduction::Kind kind : {Reduction::Kind::kMax, Reduction::Kind::kMin}) {
      const Opcode op = kind == Reduction::Kind::kMax ? Opcode::kMaximum : Opcode::kMinimum;
      for (std::size_t leading : {0, 1})
        CheckReduce(
            ReduceBehind(leading, {64}, {40}, op, kind, type, kind == Reduction::Kind::kMax ? -INFINITY : INFINITY),
            "extrema of " + std::string(ElementTypeName(type)),
            [](ElementType storage, AlignedBytes& bytes, std::mt19937& random) {
              // Rows of zeros, with a NaN of either sign here and there.
              const int64_t n = static_cast<int64_t>(bytes.size()) / StorageBytes(storage);
              for (int64_t i = 0; i < n; ++i) {
                const uint32_t which = random() % 80;
                const float value = which == 0 ? NAN : which == 1 ? -NAN : which % 2 == 0 ? 0.0f : -0.0f;
                reference::WriteElement(storage, bytes.data(), i, reference::Bits(value));
              }
            });
    }
  }
}

// One value under two reductions, one of which needs it as a whole.
TEST(ReduceKernelTest, OneValueReducedInTwoWays) {
  plan::ReduceKernel k =
      PlainReduce({40}, {300}, true, Opcode::kMaximum, Reduction::Kind::kMax, ElementType::kS8, -128);
  ReduceStage& stage = k.stages[0];
  for (Reduction::Kind kind : {Reduction::Kind::kProduct, Reduction::Kind::kMin}) {
    const Opcode op = kind == Reduction::Kind::kProduct ? Opcode::kMultiply : Opcode::kMinimum;
    stage.reductions.resize(1);
    stage.reductions.push_back(MakeReduction(op, kind, ElementType::kS8, 0, 1));
    CheckReduce(k, "two ways", &FillAny);
  }
}

TEST(ReduceKernelTest, FewRowsOfManyElements) {
  for (bool row_first : {false, true})
    for (const Dims& rows : {Dims{}, Dims{3}, Dims{20}})
      for (Reduction::Kind kind : {Reduction::Kind::kSum, Reduction::Kind::kOther})
        CheckReduce(PlainReduce(rows, {100003}, row_first, Opcode::kAdd, kind, ElementType::kF32, 1), "few rows");
}

TEST(ReduceKernelTest, EmptyElementsGiveTheInitialValue) {
  CheckReduce(PlainReduce({5}, {0}, true, Opcode::kAdd, Reduction::Kind::kSum, ElementType::kF32, 2), "empty");
}

// argmax: two values, the index of the first largest.
TEST(ReduceKernelTest, VariadicReductionKeepsTheOrder) {
  for (bool row_first : {false, true}) {
    for (int64_t elements : {5, 16, 24, 64, 300, 70000}) {
      const int64_t rows = elements > 1000 ? 2 : 37;
      plan::ReduceKernel k;
      k.row_dims = {rows}, k.element_dims = {elements};
      Buffers buffers{{{ElementType::kF32, rows * elements, false},
                       {ElementType::kF32, rows, true},
                       {ElementType::kS32, rows, true}}};
      const int64_t all[] = {rows, elements};
      ProgramBuilder b(all);
      buffers.AddTo(b);
      auto& s = b.space();
      b.AddResult(
          b.Load(0, ElementType::kF32,
                 row_first ? s.Add(s.Mul(s.Iter(0), elements), s.Iter(1)) : s.Add(s.Mul(s.Iter(1), rows), s.Iter(0))));
      b.AddResult(b.Index(s.Iter(1)));
      ReduceStage stage;
      stage.program = std::move(b).Finish();
      Reduction r;
      r.hlo_type = ElementType::kF32;
      r.inputs = {0, 1};
      ProgramBuilder c({});
      NodeId a0 = c.Param(ElementType::kF32, 0, 0), i0 = c.Param(ElementType::kS32, 1, 0);
      NodeId a1 = c.Param(ElementType::kF32, 2, 0), i1 = c.Param(ElementType::kS32, 3, 0);
      NodeId keep = c.Compare(ComparisonDirection::kGe, a0, a1);
      c.AddResult(c.Select(keep, a0, a1));
      c.AddResult(c.Select(keep, i0, i1));
      r.combiner = std::move(c).Finish();
      ProgramBuilder i({});
      i.AddResult(i.ConstantFloat(ElementType::kF32, -INFINITY));
      i.AddResult(i.ConstantInt(ElementType::kS32, 0));
      r.init = std::move(i).Finish();
      stage.reductions.push_back(std::move(r));
      k.stages.push_back(std::move(stage));
      const int64_t row_dims[] = {rows};
      ProgramBuilder o(row_dims);
      buffers.AddTo(o);
      o.AddStore({.buffer = 1,
                  .index = o.space().Iter(0),
                  .node = o.Param(ElementType::kF32, 0, 1),
                  .storage = ElementType::kF32});
      o.AddStore({.buffer = 2,
                  .index = o.space().Iter(0),
                  .node = o.Param(ElementType::kS32, 1, 1),
                  .storage = ElementType::kS32});
      ReduceStage store;
      store.scope = ReduceStage::Scope::kRow;
      store.program = std::move(o).Finish();
      k.stages.push_back(std::move(store));
      CheckReduce(k, "argmax");
    }
  }
}

// x - max over the row, with the sum of that stored too: two stages and both kinds of store.
TEST(ReduceKernelTest, RegionsOfSeveralStages) {
  for (bool row_first : {false, true}) {
    for (const auto& [rows, elements] : {std::pair<int64_t, int64_t>{50, 20}, {3, 900}, {700, 64}, {2, 90000}}) {
      plan::ReduceKernel k;
      k.row_dims = {rows}, k.element_dims = {elements};
      Buffers buffers{{{ElementType::kF32, rows * elements, false},
                       {ElementType::kF32, rows * elements, true},
                       {ElementType::kF32, rows, true}}};
      const int64_t all[] = {rows, elements};
      auto index = [&](plan::IndexSpace& s) {
        return row_first ? s.Add(s.Mul(s.Iter(0), elements), s.Iter(1)) : s.Add(s.Mul(s.Iter(1), rows), s.Iter(0));
      };
      ReduceStage first, second, third, fourth;
      {
        ProgramBuilder b(all);
        buffers.AddTo(b);
        b.AddResult(b.Load(0, ElementType::kF32, index(b.space())));
        first.program = std::move(b).Finish();
        first.reductions.push_back(MakeReduction(Opcode::kMaximum, Reduction::Kind::kMax, ElementType::kF32, 0, -100));
      }
      {
        ProgramBuilder b(all);
        buffers.AddTo(b);
        NodeId x = b.Load(0, ElementType::kF32, index(b.space()));
        // What is of the row alone is computed once a row.
        const NodeId most = b.Param(ElementType::kF32, 0, 1);
        b.AddResult(
            b.Hlo(Opcode::kSubtract, ElementType::kF32, {x, b.Hlo(Opcode::kAdd, ElementType::kF32, {most, most})}));
        second.program = std::move(b).Finish();
        second.reductions.push_back(MakeReduction(Opcode::kAdd, Reduction::Kind::kSum, ElementType::kF32, 0, 0));
      }
      {
        const int64_t row_dims[] = {rows};
        ProgramBuilder b(row_dims);
        buffers.AddTo(b);
        NodeId sum = b.Hlo(Opcode::kAdd, ElementType::kF32,
                           {b.Param(ElementType::kF32, 0, 1), b.Param(ElementType::kF32, 1, 1)});
        b.AddStore({.buffer = 2, .index = b.space().Iter(0), .node = sum, .storage = ElementType::kF32});
        third.scope = ReduceStage::Scope::kRow;
        third.program = std::move(b).Finish();
      }
      {
        ProgramBuilder b(all);
        buffers.AddTo(b);
        NodeId x = b.Load(0, ElementType::kF32, index(b.space()));
        const NodeId most = b.Param(ElementType::kF32, 0, 1), sum = b.Param(ElementType::kF32, 1, 1);
        const NodeId scale = b.Hlo(Opcode::kSubtract, ElementType::kF32, {sum, most});
        const NodeId y = b.Select(b.Compare(ComparisonDirection::kLt, sum, most),
                                  b.Hlo(Opcode::kMultiply, ElementType::kF32, {x, scale}), x);
        b.AddStore({.buffer = 1, .index = index(b.space()), .node = y, .storage = ElementType::kF32});
        fourth.program = std::move(b).Finish();
      }
      k.stages = {first, second, third, fourth};
      CheckReduce(k, "region " + std::to_string(rows) + " x " + std::to_string(elements));
    }
  }
}

// Pooling: a window over a padded plane, rows along width or along channels.
struct WindowCase {
  bool channels_last = true;
  Dims input, output, size, stride, dilation, low;  // spatial
  int64_t channels = 6;
  ElementType type = ElementType::kF32;
  Opcode op = Opcode::kMaximum;
  Reduction::Kind kind = Reduction::Kind::kMax;
  double outside = -50, init = -50;
  bool after = false;  // the sums are multiplied by 2 before they are stored
};

NodeId Number(ProgramBuilder& b, ElementType type, double value) {
  return IsFloat(type) ? b.ConstantFloat(type, value) : b.ConstantInt(type, static_cast<int64_t>(value));
}

void CheckWindow(const WindowCase& c) {
  const std::size_t first = c.channels_last ? 0 : 1, channel = c.channels_last ? 2 : 0;
  Dims in(3, c.channels), rows(3, c.channels);
  for (std::size_t d = 0; d < 2; ++d) in[first + d] = c.input[d], rows[first + d] = c.output[d];
  plan::ReduceKernel k;
  k.row_dims = rows, k.element_dims = c.size;
  Buffers buffers{{{c.type, Product(in), false}, {c.type, Product(rows), true}}};
  Dims all = rows;
  all.append(c.size.begin(), c.size.end());
  ProgramBuilder b(all);
  buffers.AddTo(b);
  auto& s = b.space();
  NodeId mask = plan::kNoNode;
  std::vector<IndexId> at(3);
  at[channel] = s.Iter(static_cast<int>(channel));
  for (std::size_t d = 0; d < 2; ++d) {
    const IndexId row = s.Mul(s.Iter(static_cast<int>(first + d)), c.stride[d]),
                  element = s.Mul(s.Iter(static_cast<int>(3 + d)), c.dilation[d]);
    at[first + d] = s.AddConstant(s.Add(row, element), -c.low[d]);
    mask = b.And(mask, b.InRange(at[first + d], 0, c.input[d]));
  }
  NodeId value = b.Load(0, c.type, s.Linearize(at, in), mask);
  if (mask != plan::kNoNode) value = b.Select(mask, value, Number(b, c.type, c.outside));
  b.AddResult(value);
  ReduceStage stage;
  stage.program = std::move(b).Finish();
  stage.reductions.push_back(MakeReduction(c.op, c.kind, c.type, 0, c.init));
  k.stages.push_back(std::move(stage));
  ProgramBuilder o(rows);
  buffers.AddTo(o);
  std::vector<IndexId> out = {o.space().Iter(0), o.space().Iter(1), o.space().Iter(2)};
  NodeId sum = o.Param(c.type, 0, 7);
  if (c.after) sum = o.Hlo(Opcode::kMultiply, c.type, {sum, Number(o, c.type, 2)});
  o.AddStore({.buffer = 1, .index = o.space().Linearize(out, rows), .node = sum, .storage = c.type});
  ReduceStage store;
  store.scope = ReduceStage::Scope::kRow;
  store.program = std::move(o).Finish();
  k.stages.push_back(std::move(store));
  CheckReduce(k, Format("window of {} {} by {} over {} by {}, {}", OpcodeName(c.op), c.size[0], c.size[1], c.input[0],
                        c.input[1], c.channels_last ? "channels last" : "channels first"));
}

TEST(ReduceKernelTest, Windows) {
  using enum ElementType;
  for (bool last : {false, true}) {
    for (bool after : {false, true}) {
      CheckWindow({.channels_last = last,
                   .input = {13, 40},
                   .output = {13, 40},
                   .size = {3, 2},
                   .stride = {1, 1},
                   .dilation = {1, 1},
                   .low = {1, 0},
                   .after = after});
      // Padding on both sides, strides, dilation, tiles that end within the array.
      CheckWindow({.channels_last = last,
                   .input = {70, 90},
                   .output = {35, 45},
                   .size = {3, 3},
                   .stride = {2, 2},
                   .dilation = {1, 1},
                   .low = {1, 1},
                   .after = after});
      CheckWindow({.channels_last = last,
                   .input = {31, 47},
                   .output = {10, 16},
                   .size = {2, 4},
                   .stride = {3, 3},
                   .dilation = {2, 3},
                   .low = {2, 5},
                   .after = after});
      CheckWindow({.channels_last = last,
                   .input = {20, 20},
                   .output = {10, 10},
                   .size = {2, 2},
                   .stride = {2, 2},
                   .dilation = {1, 1},
                   .low = {0, 0},
                   .after = after});
    }
    // Places three, four and five elements from each other, of rows that end within a vector.
    for (int64_t n : {3, 4, 5})
      for (ElementType t : {kF32, kS32, kF64})
        CheckWindow({last, {12, 35 * n}, {12 / n, 35}, {n, n}, {n, n}, {1, 1}, {0, 0}, 6, t});
    // Windows that lie outside wholly.
    CheckWindow({.channels_last = last,
                 .input = {4, 5},
                 .output = {12, 14},
                 .size = {2, 2},
                 .stride = {1, 1},
                 .dilation = {1, 1},
                 .low = {5, 4}});
    CheckWindow({.channels_last = last,
                 .input = {70, 61},
                 .output = {70, 61},
                 .size = {3, 3},
                 .stride = {1, 1},
                 .dilation = {1, 1},
                 .low = {1, 1},
                 .channels = 1});
    CheckWindow({.channels_last = last,
                 .input = {9, 9},
                 .output = {9, 9},
                 .size = {3, 3},
                 .stride = {1, 1},
                 .dilation = {1, 1},
                 .low = {1, 1},
                 .channels = 500});
    for (ElementType type : {kF32, kF64, kS32, kU64}) {
      WindowCase c{.channels_last = last,
                   .input = {21, 33},
                   .output = {21, 33},
                   .size = {3, 5},
                   .stride = {1, 1},
                   .dilation = {1, 1},
                   .low = {1, 2},
                   .type = type};
      c.op = Opcode::kAdd, c.kind = Reduction::Kind::kSum, c.outside = c.init = 0;
      CheckWindow(c);
      // What lies outside counts.
      c.outside = 3, c.init = 1;
      CheckWindow(c);
      c.op = Opcode::kMinimum, c.kind = Reduction::Kind::kMin, c.outside = 2, c.init = 7;
      CheckWindow(c);
      c.op = Opcode::kMultiply, c.kind = Reduction::Kind::kProduct, c.outside = 2, c.init = 1, c.size = {2, 2};
      CheckWindow(c);
    }
  }
}

}  // namespace
}  // namespace krafla
