// SPDX-License-Identifier: Apache-2.0
// Zeros around an array of short rows.
#include "cpu_fallback/executor/zero_pad.h"

#include "kernel_fixture.h"

namespace krafla {
namespace {

using plan::IndexId;
using plan::NodeId;
using plan::ProgramBuilder;

struct Edge {
  int64_t low = 0, high = 0;
};

// An array over `dims` with edges of `outside` (bits) around it; `selects`: written as a choice, not as what a load
// gives outside of its mask.
plan::ElementProgram Padded(ElementType type, const Dims& dims, const std::vector<Edge>& edges, uint64_t outside = 0,
                            bool selects = true) {
  Dims padded = dims;
  for (std::size_t d = 0; d < dims.size(); ++d) padded[d] += edges[d].low + edges[d].high;
  ProgramBuilder b(padded);
  auto& s = b.space();
  const int in = b.AddBuffer(type, Product(dims), false), out = b.AddBuffer(type, Product(padded), true);
  NodeId inside = plan::kNoNode;
  std::vector<IndexId> at;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    at.push_back(s.AddConstant(s.Iter(static_cast<int>(d)), -edges[d].low));
    inside = b.And(inside, b.InRange(at.back(), 0, dims[d]));
  }
  NodeId x = b.Load(in, type, s.Linearize(at, dims), inside);
  if (selects) x = b.Select(inside, x, b.Constant(plan::ComputeType(type), outside));
  b.AddStore({.buffer = out, .index = RowMajor(b), .node = x, .storage = type});
  return std::move(b).Finish();
}

// The same of complex numbers, whose parts are loaded and stored each.
plan::ElementProgram PaddedComplex(const Dims& dims, const std::vector<Edge>& edges) {
  Dims padded = dims;
  for (std::size_t d = 0; d < dims.size(); ++d) padded[d] += edges[d].low + edges[d].high;
  ProgramBuilder b(padded);
  auto& s = b.space();
  constexpr ElementType kPart = ElementType::kF32;
  const int in = b.AddBuffer(kPart, 2 * Product(dims), false), out = b.AddBuffer(kPart, 2 * Product(padded), true);
  NodeId inside = plan::kNoNode;
  std::vector<IndexId> at;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    at.push_back(s.AddConstant(s.Iter(static_cast<int>(d)), -edges[d].low));
    inside = b.And(inside, b.InRange(at.back(), 0, dims[d]));
  }
  for (int64_t part : {0, 1}) {
    const NodeId x = b.Load(in, kPart, s.AddConstant(s.Mul(s.Linearize(at, dims), 2), part), inside);
    b.AddStore({.buffer = out,
                .index = s.AddConstant(s.Mul(RowMajor(b), 2), part),
                .node = b.Select(inside, x, b.Constant(kPart, 0)),
                .storage = kPart});
  }
  return std::move(b).Finish();
}

// Planes of more than a band, too, which are cut into rows.
TEST(ZeroPad, ComplexNumbersAndLongPlanes) {
  using enum ElementType;
  for (int threads : {1, 3})
    for (const auto& [dims, edges] : {std::pair{Dims{3000, 3}, std::vector<Edge>{{2, 5}, {3, 0}}},
                                      std::pair{Dims{2, 1500, 5}, std::vector<Edge>{{1, 0}, {-4, 2}, {1, 1}}},
                                      std::pair{Dims{7, 11, 5}, std::vector<Edge>{{1, 0}, {2, 2}, {0, 1}}}}) {
      for (const plan::ElementProgram& program : {PaddedComplex(dims, edges), Padded(kS16, dims, edges)}) {
        EXPECT_TRUE(cpu::ZeroPad::Make(program, 1));
        CheckLoop(program, Format("{} dimensions", dims.size()), threads);
      }
    }
}

TEST(ZeroPad, ResultsOfLoops) {
  using enum ElementType;
  for (ElementType type : {kU8, kF16, kS32, kF64})
    for (bool selects : {true, false})
      for (const auto& [dims, edges] :
           {std::pair{Dims{40, 33}, std::vector<Edge>{{0, 0}, {3, 2}}},
            std::pair{Dims{5, 21, 8, 33}, std::vector<Edge>{{1, 0}, {0, 1}, {3, 0}, {3, 2}}},
            std::pair{Dims{11, 17, 47, 3}, std::vector<Edge>{{2, 0}, {2, 1}, {1, 3}, {2, 1}}},
            std::pair{Dims{300, 1, 40}, std::vector<Edge>{{0, 0}, {1, 1}, {0, 1}}}}) {
        const plan::ElementProgram program = Padded(type, dims, edges, 0, selects);
        EXPECT_TRUE(cpu::ZeroPad::Make(program, 1));
        for (int threads : {1, 3})
          CheckLoop(program, Format("{} dimensions of {}", dims.size(), ElementTypeName(type)), threads);
      }
}

TEST(ZeroPad, LeavesOthersAlone) {
  using enum ElementType;
  const auto is_taken = [](const plan::ElementProgram& p, int64_t least = 1) {
    return cpu::ZeroPad::Make(p, least).has_value();
  };
  EXPECT_TRUE(is_taken(Padded(kS32, {100, 30}, {{0, 0}, {1, 1}})));
  EXPECT_FALSE(is_taken(Padded(kS32, {100, 30}, {{0, 0}, {1, 1}}), 1 << 20));  // too little
  EXPECT_FALSE(is_taken(Padded(kS32, {100, 30}, {{0, 0}, {1, 1}}, 7)));        // no zeros
  EXPECT_FALSE(is_taken(Padded(kS32, {100, 30}, {{1, 1}, {0, 0}})));           // whole rows
  EXPECT_FALSE(is_taken(Padded(kS32, {100, 3000}, {{0, 0}, {1, 1}})));         // long ones
  EXPECT_FALSE(is_taken(Padded(kS32, {100, 30}, {{0, 0}, {100, 100}})));       // mostly edges
  EXPECT_TRUE(is_taken(Padded(kS32, {100, 30}, {{-3, -2}, {-1, 1}})));         // a part of the array
}

}  // namespace
}  // namespace krafla
