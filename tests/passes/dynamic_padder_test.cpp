// SPDX-License-Identifier: Apache-2.0
// dynamic_padder: the module with static shapes gives what the evaluator gives for the one with dynamic shapes,
// whatever lies in the arguments behind their sizes.
#include <cstring>
#include <limits>

#include "evaluator/evaluator.h"
#include "pass_harness.h"
#include "same_results.h"

namespace krafla {
namespace {

// `live` at the start of an array of the bounds, and behind it what no result may depend on.
Literal InBounds(const Literal& live, const Shape& bounds) {
  Literal out = SmallNumbers(bounds.WithStaticDims(), 977);
  if (bounds.element_type() == ElementType::kF32)
    for (float& v : out.data<float>()) v = std::numeric_limits<float>::quiet_NaN();
  if (live.shape().element_count() == 0) return out;
  std::vector<int64_t> at(static_cast<std::size_t>(bounds.rank()), 0);
  do {
    const auto size = static_cast<std::size_t>(StorageBytes(bounds.element_type()));
    std::memcpy(out.bytes().data() + static_cast<std::size_t>(LinearizeIndex(at, bounds.dims())) * size,
                live.bytes().data() + static_cast<std::size_t>(LinearizeIndex(at, live.shape().dims())) * size, size);
  } while (NextIndex(at, live.shape().dims()));
  return out;
}

Literal Cut(const Literal& whole, const Dims& dims) {
  auto shape = Shape::MakeArray(whole.shape().element_type(), dims);
  auto out = Literal::Create(*shape);
  KRAFLA_CHECK(out.has_value());
  if (shape->element_count() == 0) return std::move(*out);
  std::vector<int64_t> at(dims.size(), 0);
  do {
    const auto size = static_cast<std::size_t>(StorageBytes(shape->element_type()));
    std::memcpy(out->bytes().data() + static_cast<std::size_t>(LinearizeIndex(at, dims)) * size,
                whole.bytes().data() + static_cast<std::size_t>(LinearizeIndex(at, whole.shape().dims())) * size, size);
  } while (NextIndex(at, dims));
  return std::move(*out);
}

bool AnyDynamic(const Module& module) {
  for (const auto& c : module.computations())
    for (const auto& i : c->instructions())
      if (i->shape().IsDynamic()) return true;
  return false;
}

// Runs `text` both ways for all sizes of its parameters' dynamic dimensions: every one of them takes each of `sizes`
// in turn, together. `host`: the number of operations that are left to the evaluator.
void ExpectSameOfSizes(std::string_view text, const std::vector<int64_t>& sizes, std::size_t host = 0,
                       const std::vector<std::string>& passes = {"dynamic_padder"}) {
  auto before = ParseHloText(text);
  ASSERT_TRUE(before) << before.error().ToString();
  ASSERT_TRUE(Verify(**before)) << Verify(**before).error().ToString() << text;
  auto after = RunOn(text, passes);
  ASSERT_TRUE(after);
  EXPECT_EQ(Find(*after, Opcode::kCall).size(), host) << text;
  EXPECT_TRUE(host != 0 || !AnyDynamic(*after)) << text;
  std::vector<const Shape*> results = TupleLeaves((*before)->entry()->root()->shape());
  for (int64_t size : sizes) {
    std::vector<Literal> given, padded;
    std::vector<int32_t> counts;
    for (const Instruction* p : (*before)->entry()->parameters()) {
      Dims dims = p->shape().dims();
      for (int64_t d = 0; d < p->shape().rank(); ++d)
        if (p->shape().IsDynamicDim(d))
          counts.push_back(static_cast<int32_t>(dims[static_cast<std::size_t>(d)] = std::min(size, p->shape().dim(d))));
      auto shape = Shape::MakeArray(p->shape().element_type(), dims);
      given.push_back(SmallNumbers(*shape, static_cast<uint32_t>(given.size() + 1)));
      padded.push_back(InBounds(given.back(), p->shape()));
    }
    for (int32_t n : counts) {
      padded.push_back(*Literal::Create(Shape::MakeScalar(ElementType::kS32)));
      padded.back().data<int32_t>()[0] = n;
    }
    auto run = [](const Module& module, const std::vector<Literal>& arguments) {
      std::vector<const Literal*> pointers;
      for (const Literal& l : arguments) pointers.push_back(&l);
      return Evaluate(*module.entry(), pointers);
    };
    auto x = run(**before, given), y = run(*after, padded);
    ASSERT_TRUE(x) << x.error().ToString() << text;
    ASSERT_TRUE(y) << y.error().ToString() << text;
    auto xs = x->ArrayLeaves(), ys = y->ArrayLeaves();
    std::size_t next = results.size();
    for (std::size_t n = 0; n < results.size(); ++n) {
      Dims dims = results[n]->dims();
      for (int64_t d = 0; d < results[n]->rank(); ++d) {
        if (!results[n]->IsDynamicDim(d)) continue;
        ASSERT_LT(next, ys.size());
        dims[static_cast<std::size_t>(d)] = ys[next++]->data<int32_t>()[0];
      }
      ASSERT_EQ(xs[n]->shape().dims(), dims) << "output " << n << " with size " << size << " of\n" << text;
      EXPECT_TRUE(*xs[n] == Cut(*ys[n], dims)) << "output " << n << " with size " << size << " of\n" << text;
    }
    EXPECT_EQ(next, ys.size());
  }
}

constexpr std::string_view kFunctions = R"(HloModule m
add { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = f32[] add(a, b) }
max { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = f32[] maximum(a, b) }
take { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = f32[] copy(b) }
less { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = pred[] compare(a, b), direction=LT }
less2 { a = f32[] parameter(0)
 b = f32[] parameter(1)
 c = s32[] parameter(2)
 d = s32[] parameter(3)
 ROOT r = pred[] compare(a, b), direction=LT }
ge { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = pred[] compare(a, b), direction=GE }
argmax { a = f32[] parameter(0)
 i = s32[] parameter(1)
 b = f32[] parameter(2)
 j = s32[] parameter(3)
 p = pred[] compare(a, b), direction=GE
 v = f32[] select(p, a, b)
 k = s32[] select(p, i, j)
 ROOT r = (f32[], s32[]) tuple(v, k) }
)";

// In the entry `body`, "z" is f32[] 0.
void ExpectBody(std::string_view body, const std::vector<int64_t>& sizes = {0, 1, 3, 5}, std::size_t host = 0) {
  ExpectSameOfSizes(std::string(kFunctions) + "ENTRY main {\n z = f32[] constant(0)\n " + std::string(body) + "\n}",
                    sizes, host);
}

TEST(DynamicPadder, Elementwise) {
  ExpectBody(
      "x = f32[<=5,3] parameter(0)\n y = f32[<=5,3] parameter(1)\n s = f32[<=5,3] add(x, y)\n"
      "ROOT r = f32[<=5,3] negate(s)");
  // A constant is cut to the size of the other operand.
  ExpectBody("x = f32[<=5] parameter(0)\n c = f32[5] constant({1,2,3,4,5})\n ROOT r = f32[<=5] multiply(x, c)");
  ExpectBody(
      "x = f32[<=5] parameter(0)\n b = f32[<=5] broadcast(z), dimensions={}\n p = pred[<=5] compare(x, b), "
      "direction=GT\n ROOT r = f32[<=5] select(p, x, b)");
  ExpectBody("x = f32[<=5] parameter(0)\n o = f32[] constant(2)\n ROOT r = f32[<=5] clamp(z, x, o)");
  ExpectBody("x = f32[<=5,2] parameter(0)\n ROOT r = u8[<=5,2,4] bitcast-convert(x)");
}

TEST(DynamicPadder, SizesThemselves) {
  ExpectBody("x = f32[<=5,3] parameter(0)\n ROOT r = s32[] get-dimension-size(x), dimensions={0}");
  ExpectBody("x = f32[<=5,3] parameter(0)\n ROOT r = s32[] get-dimension-size(x), dimensions={1}");
  ExpectBody(
      "x = f32[<=5,3] parameter(0)\n n = s32[] constant(2)\n"
      "ROOT r = f32[<=5,<=3] set-dimension-size(x, n), dimensions={1}");
  // Sizes beyond the bound, and below 0.
  ExpectBody(
      "x = f32[5] parameter(0)\n n = s32[] constant(9)\n"
      "ROOT r = f32[<=5] set-dimension-size(x, n), dimensions={0}");
  ExpectBody(
      "x = f32[5] parameter(0)\n n = s32[] constant(-9)\n"
      "ROOT r = f32[<=5] set-dimension-size(x, n), dimensions={0}");
  ExpectBody(
      "x = f32[5] parameter(0)\n n = s32[] constant(2)\n m = s32[] constant(5)\n"
      "s = f32[<=5] set-dimension-size(x, n), dimensions={0}\n"
      "ROOT r = f32[5] set-dimension-size(s, m), dimensions={0}");
}

TEST(DynamicPadder, Movement) {
  ExpectBody("x = f32[<=5,3] parameter(0)\n ROOT r = f32[3,<=5] transpose(x), dimensions={1,0}");
  ExpectBody("x = f32[<=5] parameter(0)\n ROOT r = f32[2,<=5,3] broadcast(x), dimensions={1}");
  ExpectBody("x = f32[<=5,<=4] parameter(0)\n ROOT r = f32[<=5,<=4] reverse(x), dimensions={0}");
  ExpectBody("x = f32[<=5,<=4] parameter(0)\n ROOT r = f32[<=5,<=4] reverse(x), dimensions={0,1}");
  ExpectBody(
      "x = f32[<=5,2] parameter(0)\n y = f32[3,2] parameter(1)\n w = f32[<=4,2] parameter(2)\n"
      "ROOT r = f32[<=12,2] concatenate(x, y, w), dimensions={0}");
  ExpectBody(
      "x = f32[<=5,2] parameter(0)\n y = f32[<=5,3] parameter(1)\n"
      "ROOT r = f32[<=5,5] concatenate(x, y), dimensions={1}");
  ExpectBody("x = f32[<=5,2] parameter(0)\n ROOT r = f32[<=9,2] pad(x, z), padding=1_3x0_0");
  ExpectBody("x = f32[<=5,2] parameter(0)\n ROOT r = f32[<=12,4] pad(x, z), padding=1_2_1x1_1", {1, 3, 5});
  ExpectBody("x = f32[<=5,2] parameter(0)\n ROOT r = f32[<=3,2] pad(x, z), padding=-1_-1x0_0", {2, 3, 5});
}

TEST(DynamicPadder, Reshape) {
  ExpectBody("x = f32[<=6,2] parameter(0)\n ROOT r = f32[1,<=6,1,2] reshape(x)", {0, 1, 4, 6});
  ExpectBody("x = f32[<=6,4] parameter(0)\n ROOT r = f32[<=6,2,2] reshape(x)", {0, 1, 4, 6});
  ExpectBody("x = f32[<=6,4] parameter(0)\n ROOT r = f32[<=24] reshape(x)", {0, 1, 4, 6});
  ExpectBody("x = f32[<=6] parameter(0)\n ROOT r = f32[<=3,2] reshape(x)", {0, 2, 4, 6});
  // The elements move: the dimension is not the first of what it is joined with.
  ExpectBody("x = f32[4,<=6] parameter(0)\n ROOT r = f32[<=24] reshape(x)", {0, 1, 4, 6});
  ExpectBody("x = f32[<=6] parameter(0)\n ROOT r = f32[2,<=3] reshape(x)", {0, 2, 4, 6});
  ExpectBody("x = f32[<=6,<=4] parameter(0)\n ROOT r = f32[<=24] reshape(x)", {0, 1, 3, 6});
  ExpectBody(
      "x = f32[<=6,3] parameter(0)\n n = s32[] get-dimension-size(x), dimensions={0}\n t = s32[] constant(3)\n"
      "ROOT r = f32[<=3,<=6] dynamic-reshape(x, t, n)",
      {0, 1, 4, 6});
  ExpectBody(
      "x = f32[3,<=6] parameter(0)\n n = s32[] get-dimension-size(x), dimensions={1}\n t = s32[] constant(3)\n"
      "ROOT r = f32[<=6,<=3] dynamic-reshape(x, n, t)",
      {0, 1, 4, 6});
}

TEST(DynamicPadder, Slices) {
  ExpectBody("x = f32[<=5,3] parameter(0)\n ROOT r = f32[<=5,2] slice(x), slice={[0:5], [1:3]}");
  ExpectBody("x = f32[<=5,3] parameter(0)\n ROOT r = f32[<=3,3] slice(x), slice={[1:4], [0:3]}");
  ExpectBody("x = f32[<=5] parameter(0)\n ROOT r = f32[<=2] slice(x), slice={[1:5:2]}");
  ExpectBody(
      "x = f32[<=5,3] parameter(0)\n i = s32[] constant(1)\n"
      "ROOT r = f32[<=5,2] dynamic-slice(x, i, i), dynamic_slice_sizes={5,2}");
  ExpectBody(
      "x = f32[<=5,3] parameter(0)\n i = s32[] constant(4)\n"
      "ROOT r = f32[1,2] dynamic-slice(x, i, i), dynamic_slice_sizes={1,2}",
      {1, 3, 5});
  ExpectBody(
      "x = f32[<=5] parameter(0)\n i = s8[] constant(4)\n"
      "ROOT r = f32[2] dynamic-slice(x, i), dynamic_slice_sizes={2}",
      {2, 3, 5});
  ExpectBody(
      "x = f32[<=5] parameter(0)\n u = f32[2] parameter(1)\n i = s32[] constant(2)\n"
      "ROOT r = f32[<=5] dynamic-update-slice(x, u, i)",
      {2, 3, 5});
  ExpectBody(
      "x = f32[5,3] parameter(0)\n u = f32[<=4,2] parameter(1)\n i = s32[] constant(2)\n"
      "ROOT r = f32[5,3] dynamic-update-slice(x, u, i, i)",
      {0, 1, 3, 4});
  ExpectBody(
      "x = f32[5] parameter(0)\n u = f32[<=4] parameter(1)\n i = s32[] constant(-2)\n"
      "ROOT r = f32[5] dynamic-update-slice(x, u, i)",
      {0, 1, 3, 4});
  ExpectBody(
      "x = f32[<=5,3] parameter(0)\n y = f32[<=5,1] parameter(1)\n i = s32[] constant(0)\n"
      "ROOT r = f32[<=5,3] dynamic-update-slice(x, y, i, i)");
}

TEST(DynamicPadder, GatherAndScatter) {
  ExpectBody(
      "x = f32[<=5,3] parameter(0)\n i = s32[4] constant({0,9,2,-3})\n"
      "ROOT r = f32[4,3] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
      "index_vector_dim=1, slice_sizes={1,3}",
      {1, 3, 5});
  ExpectBody(
      "x = f32[6,3] parameter(0)\n i = s32[<=5] parameter(1)\n"
      "ROOT r = f32[<=5,3] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
      "index_vector_dim=1, slice_sizes={1,3}");
  ExpectBody(
      "x = f32[<=5,4] parameter(0)\n i = s32[2,2] constant({{4,1},{1,2}})\n"
      "ROOT r = f32[2,2] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0,1}, "
      "index_vector_dim=1, slice_sizes={1,2}",
      {1, 3, 5});
  ExpectBody(
      "x = f32[6] parameter(0)\n i = s32[<=5,1] parameter(1)\n u = f32[<=5] parameter(2)\n"
      "ROOT r = f32[6] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, "
      "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add");
  ExpectBody(
      "x = f32[6,2] parameter(0)\n i = s32[<=5,1] parameter(1)\n u = f32[<=5,2] parameter(2)\n"
      "ROOT r = f32[6,2] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, "
      "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=take");
  ExpectBody(
      "x = f32[<=5] parameter(0)\n i = s32[3,1] constant({{0},{4},{1}})\n u = f32[3] parameter(1)\n"
      "ROOT r = f32[<=5] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, "
      "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add");
}

TEST(DynamicPadder, Reductions) {
  ExpectBody("x = f32[<=5,3] parameter(0)\n ROOT r = f32[3] reduce(x, z), dimensions={0}, to_apply=add");
  ExpectBody("x = f32[<=5,3] parameter(0)\n ROOT r = f32[<=5] reduce(x, z), dimensions={1}, to_apply=add");
  ExpectBody("x = f32[<=5,<=3] parameter(0)\n ROOT r = f32[] reduce(x, z), dimensions={0,1}, to_apply=max");
  // Not the identity: it counts once.
  ExpectBody(
      "x = f32[<=5] parameter(0)\n i = f32[] constant(7)\n ROOT r = f32[] reduce(x, i), dimensions={0}, "
      "to_apply=add");
  ExpectBody(
      "x = f32[<=5] parameter(0)\n n = s32[<=5] parameter(1)\n lo = f32[] constant(-inf)\n"
      "k = s32[] constant(0)\n"
      "ROOT r = (f32[], s32[]) reduce(x, n, lo, k), dimensions={0}, to_apply=argmax");
  ExpectBody(
      "x = f32[<=5,2] parameter(0)\n"
      "ROOT r = f32[<=4,2] reduce-window(x, z), window={size=2x1}, to_apply=add",
      {2, 3, 5});
  ExpectBody(
      "x = f32[<=5] parameter(0)\n"
      "ROOT r = f32[<=3] reduce-window(x, z), window={size=3 stride=2 pad=1_1}, to_apply=add",
      {1, 2, 3, 5});
  // A running sum.
  ExpectBody(
      "x = f32[<=5] parameter(0)\n"
      "ROOT r = f32[<=5] reduce-window(x, z), window={size=5 pad=4_0}, to_apply=add");
}

TEST(DynamicPadder, Contractions) {
  ExpectBody(
      "x = f32[<=5,3] parameter(0)\n y = f32[3,2] parameter(1)\n"
      "ROOT r = f32[<=5,2] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}");
  ExpectBody(
      "x = f32[4,<=5] parameter(0)\n y = f32[<=5,2] parameter(1)\n"
      "ROOT r = f32[4,2] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}");
  ExpectBody(
      "x = f32[<=5,3,2] parameter(0)\n y = f32[<=5,2,<=4] parameter(1)\n"
      "ROOT r = f32[<=5,3,<=4] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
      "rhs_contracting_dims={1}");
  ExpectBody(
      "x = f32[1,<=5,2] parameter(0)\n w = f32[3,2,4] parameter(1)\n"
      "ROOT r = f32[1,<=5,4] convolution(x, w), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f",
      {1, 3, 5});
  ExpectBody(
      "x = f32[<=3,<=5,2] parameter(0)\n w = f32[2,2,4] parameter(1)\n"
      "ROOT r = f32[<=3,<=2,4] convolution(x, w), window={size=2 stride=2}, dim_labels=b0f_0io->b0f",
      {2, 3, 5});
}

TEST(DynamicPadder, Sort) {
  ExpectBody("x = f32[<=5] parameter(0)\n ROOT r = f32[<=5] sort(x), dimensions={0}, to_apply=less");
  ExpectBody("x = f32[<=5,3] parameter(0)\n ROOT r = f32[<=5,3] sort(x), dimensions={1}, to_apply=less");
  ExpectBody(
      "x = f32[3,<=5] parameter(0)\n i = s32[3,5] iota(), iota_dimension=1\n n = s32[] get-dimension-size(x), "
      "dimensions={1}\n k = s32[3,<=5] set-dimension-size(i, n), dimensions={1}\n"
      "ROOT r = (f32[3,<=5], s32[3,<=5]) sort(x, k), dimensions={1}, is_stable=true, to_apply=less2");
}

// The source is as large as there are windows.
TEST(DynamicPadder, SelectAndScatter) {
  for (std::string_view window : {"size=3 stride=3", "size=3 stride=2", "size=2", "size=2 stride=2 pad=1_1"}) {
    const std::string windows = window == "size=3 stride=3" ? "2"
                                : window == "size=2"        ? "6"
                                : window.ends_with("1_1")   ? "4"
                                                            : "3";
    ExpectBody(Format("x = f32[<=7] parameter(0)\n s = f32[<={0}] reduce-window(x, z), window={{{1}}}, to_apply=add\n"
                      "ROOT r = f32[<=7] select-and-scatter(x, s, z), window={{{1}}}, select=ge, scatter=add",
                      windows, window),
               {0, 1, 2, 3, 4, 5, 6, 7});
  }
  ExpectBody(
      "x = f32[<=6,4] parameter(0)\n s = f32[<=3,3] reduce-window(x, z), window={size=2x2 stride=2x1}, "
      "to_apply=max\n"
      "ROOT r = f32[<=6,4] select-and-scatter(x, s, z), window={size=2x2 stride=2x1}, select=ge, scatter=add",
      {0, 1, 2, 5, 6});
}

// What is carried out is what the last turn that counts left.
TEST(DynamicPadder, Scan) {
  for (std::string_view reverse : {"false", "true"}) {
    ExpectSameOfSizes(Format(R"(HloModule m
running {{ x = f32[3] parameter(0)
 c = f32[3] parameter(1)
 s = f32[3] add(c, x)
 ROOT r = (f32[3], f32[3]) tuple(s, s) }}
ENTRY main {{ x = f32[<=5,3] parameter(0)
 i = f32[3] parameter(1)
 ROOT r = (f32[<=5,3], f32[3]) scan(x, i), dimensions={{0}}, num_carries=1, is_reverse={}, to_apply=running }})",
                             reverse),
                      {0, 1, 3, 5});
    ExpectSameOfSizes(Format(R"(HloModule m
wide {{ x = f32[<=3] parameter(0)
 c = f32[<=3] parameter(1)
 t = f32[] constant(2)
 b = f32[<=3] broadcast(t), dimensions={{}}
 y = f32[<=3] multiply(b, x)
 s = f32[<=3] add(c, y)
 ROOT r = (f32[<=3], f32[<=3]) tuple(s, s) }}
ENTRY main {{ x = f32[<=5,<=3] parameter(0)
 i = f32[<=3] parameter(1)
 ROOT r = (f32[<=5,<=3], f32[<=3]) scan(x, i), dimensions={{0}}, num_carries=1, is_reverse={}, to_apply=wide }})",
                             reverse),
                      {0, 1, 2, 3, 5});
    ExpectSameOfSizes(Format(R"(HloModule m
two {{ x = f32[] parameter(0)
 y = f32[] parameter(1)
 c = f32[] parameter(2)
 m = f32[] multiply(x, y)
 s = f32[] add(c, m)
 d = f32[] subtract(s, x)
 ROOT r = (f32[], f32[], f32[]) tuple(d, m, s) }}
ENTRY main {{ x = f32[<=5] parameter(0)
 y = f32[<=5] parameter(1)
 i = f32[] parameter(2)
 ROOT r = (f32[<=5], f32[<=5], f32[]) scan(x, y, i), dimensions={{0}}, num_carries=1, is_reverse={}, to_apply=two }})",
                             reverse),
                      {0, 1, 3, 5});
  }
}

TEST(DynamicPadder, RaggedDot) {
  // Rows, groups, or what is contracted; the sizes of groups sum to less, as much and more than there are rows.
  ExpectBody(
      "x = f32[<=5,2] parameter(0)\n w = f32[2,2,3] parameter(1)\n g = s32[2] constant({2,2})\n"
      "ROOT r = f32[<=5,3] ragged-dot(x, w, g), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
      "lhs_ragged_dims={0}, rhs_group_dims={0}");
  ExpectBody(
      "x = f32[6,<=5] parameter(0)\n w = f32[2,<=5,3] parameter(1)\n g = s32[2] constant({2,3})\n"
      "ROOT r = f32[6,3] ragged-dot(x, w, g), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
      "lhs_ragged_dims={0}, rhs_group_dims={0}");
  ExpectBody(
      "x = f32[6,2] parameter(0)\n w = f32[<=3,2,4] parameter(1)\n g = s32[<=3] parameter(2)\n"
      "ROOT r = f32[6,4] ragged-dot(x, w, g), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
      "lhs_ragged_dims={0}, rhs_group_dims={0}",
      {1, 2, 3});
  ExpectBody(
      "x = f32[2,<=5] parameter(0)\n w = f32[<=5,3] parameter(1)\n g = s32[2] constant({1,2})\n"
      "ROOT r = f32[2,2,3] ragged-dot(x, w, g), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
      "lhs_ragged_dims={1}");
}

// A block of scales is as long as both sizes say.
TEST(DynamicPadder, ScaledDot) {
  ExpectBody(
      "x = f32[<=4,2] parameter(0)\n y = f32[2,3] parameter(1)\n s = f32[1,1] constant({{2}})\n"
      "t = f32[2,1] constant({{1},{3}})\n"
      "ROOT r = f32[<=4,3] scaled-dot(x, y, s, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
      {0, 1, 3, 4});
  ExpectBody(
      "x = f32[3,<=8] parameter(0)\n y = f32[<=8,3] parameter(1)\n s = f32[3,2] parameter(2)\n"
      "t = f32[<=8,1] parameter(3)\n"
      "ROOT r = f32[3,3] scaled-dot(x, y, s, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
      {2, 4, 8});
}

TEST(DynamicPadder, LeftToTheEvaluator) {
  ExpectBody(
      "x = f32[<=5,3] parameter(0)\n m = f32[3] constant({1,2,3})\n"
      "ROOT r = f32[<=5,3] batch-norm-inference(x, m, m, m, m), epsilon=0.5, feature_index=1",
      {0, 1, 3, 5}, 1);
}

TEST(DynamicPadder, BatchNormalisation) {
  // An epsilon that makes every root exact: variance 0 and a deviation of 2.
  const std::vector<std::string> passes = {"batch_norm_expander", "dynamic_padder"};
  const std::string entry = std::string(kFunctions) +
                            "ENTRY main {\n x = f32[<=5,3] parameter(0)\n"
                            "m = f32[3] constant({1,2,3})\n v = f32[3] constant({3,3,3})\n";
  ExpectSameOfSizes(entry + "ROOT r = f32[<=5,3] batch-norm-inference(x, m, m, m, v), epsilon=1, feature_index=1 }",
                    {0, 1, 3, 5}, 0, passes);
  ExpectSameOfSizes(
      entry +
          "y = f32[<=5,3] broadcast(m), dimensions={1}\n n = s32[] get-dimension-size(x), dimensions={0}\n"
          "k = f32[<=5,3] set-dimension-size(y, n), dimensions={0}\n"
          "ROOT r = (f32[<=5,3], f32[3], f32[3]) batch-norm-training(k, m, m), epsilon=4, feature_index=1 }",
      {1, 3, 5}, 0, passes);
}

TEST(DynamicPadder, ControlFlow) {
  // The state's size changes in the loop.
  ExpectSameOfSizes(R"(HloModule m
cond { s = (s32[], f32[<=5]) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 n = s32[] constant(3)
 ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[<=5]) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 x = f32[<=5] get-tuple-element(s), index=1
 one = s32[] constant(1)
 j = s32[] add(i, one)
 d = f32[<=5] add(x, x)
 n = s32[] get-dimension-size(d), dimensions={0}
 m = s32[] subtract(n, one)
 e = f32[<=5] set-dimension-size(d, m), dimensions={0}
 ROOT r = (s32[], f32[<=5]) tuple(j, e) }
ENTRY main { x = f32[<=5] parameter(0)
 i = s32[] constant(0)
 s = (s32[], f32[<=5]) tuple(i, x)
 w = (s32[], f32[<=5]) while(s), condition=cond, body=body
 ROOT r = f32[<=5] get-tuple-element(w), index=1 })",
                    {0, 1, 4, 5});
  ExpectSameOfSizes(R"(HloModule m
yes { x = f32[<=5] parameter(0)
 ROOT r = f32[<=5] negate(x) }
no { x = f32[<=5] parameter(0)
 n = s32[] constant(2)
 ROOT r = f32[<=5] set-dimension-size(x, n), dimensions={0} }
ENTRY main { x = f32[<=5] parameter(0)
 n = s32[] get-dimension-size(x), dimensions={0}
 k = s32[] constant(3)
 p = pred[] compare(n, k), direction=LT
 ROOT r = f32[<=5] conditional(p, x, x), true_computation=yes, false_computation=no })",
                    {0, 2, 3, 5});
}

TEST(DynamicPadder, CustomCalls) {
  ExpectBody(
      "x = f32[<=5,3] parameter(0)\n p = (f32[5,3], s32[], s32[]) custom-call(x), "
      "custom_call_target=\"PadToStatic\"\n a = f32[5,3] get-tuple-element(p), index=0\n"
      "n = s32[] get-tuple-element(p), index=1\n m = s32[] get-tuple-element(p), index=2\n"
      "b = f32[5,3] negate(a)\n"
      "ROOT r = f32[<=5,3] custom-call(b, n, m), custom_call_target=\"SliceToDynamic\"");
  auto module = RunOn(R"(HloModule m
ENTRY main { x = f32[<=5,3] parameter(0)
 p = (f32[5,3], s32[], s32[]) custom-call(x), custom_call_target="PadToStatic"
 a = f32[5,3] get-tuple-element(p), index=0
 n = s32[] get-tuple-element(p), index=1
 m = s32[] get-tuple-element(p), index=2
 b = f32[5,3] negate(a)
 ROOT r = f32[<=5,3] custom-call(b, n, m), custom_call_target="SliceToDynamic" })",
                      {"dynamic_padder", "tuple_simplifier", "dce"});
  ASSERT_TRUE(module);
  EXPECT_EQ(Expression(*module->entry()->root()), "(negate f32[5,3](p0), clamp s32[](s32[](0), p1, s32[](5)))");
}

TEST(DynamicPadder, Interface) {
  auto module = RunOn(R"(HloModule m, input_output_alias={ {}: (0, {}, may-alias) },
 entry_computation_layout={(f32[<=5]{0}, f32[2]{0})->f32[<=5]{0}}
ENTRY main { x = f32[<=5] parameter(0)
 y = f32[2] parameter(1)
 ROOT r = f32[<=5] negate(x) })",
                      {"dynamic_padder"});
  ASSERT_TRUE(module);
  ASSERT_EQ(module->entry()->parameters().size(), 3u);
  EXPECT_EQ(module->entry()->parameters()[2]->shape().ToString(false), "s32[]");
  EXPECT_EQ(module->entry()->root()->shape().ToString(false), "(f32[5], s32[])");
  ASSERT_EQ(module->input_output_aliases.size(), 1u);
  EXPECT_EQ(module->input_output_aliases[0].output_index, Dims{0});
  EXPECT_EQ(module->entry_layout_result->ToString(false), "(f32[5], s32[])");
}

// On one device; tests/api has them between devices.
TEST(DynamicPadder, Collectives) {
  ExpectBody("x = f32[<=5] parameter(0)\n ROOT r = f32[<=5] collective-permute(x), source_target_pairs={{0,0}}");
  ExpectBody("x = f32[<=5,3] parameter(0)\n ROOT r = f32[<=5,3] all-gather(x), replica_groups={{0}}, dimensions={0}");
  ExpectBody(
      "x = f32[<=5,3] parameter(0)\n"
      "ROOT r = f32[<=5,3] reduce-scatter(x), replica_groups={{0}}, dimensions={0}, to_apply=add");
  ExpectBody(
      "x = f32[<=5] parameter(0)\n y = f32[<=5] parameter(1)\n"
      "ROOT r = (f32[<=5], f32[<=5]) all-reduce(x, y), replica_groups={}, to_apply=add");
  ExpectBody("x = f32[<=5] parameter(0)\n ROOT r = f32[<=5] all-to-all(x), replica_groups={{0}}, dimensions={0}");
  ExpectBody("x = f32[<=5] parameter(0)\n ROOT r = f32[<=5] collective-broadcast(x), replica_groups={{0}}");
  // Four rows from row 1 on to row 2 on: as many as both have.
  const std::string ragged =
      "from = s32[1] constant({1})\n rows = s32[1] constant({4})\n to = s32[1] constant({2})\n"
      "ROOT r = f32[<=6,3] ragged-all-to-all(x, o, from, rows, to, rows), replica_groups={{0}}";
  ExpectBody("x = f32[<=5,3] parameter(0)\n o = f32[<=6,3] parameter(1)\n" + ragged, {0, 1, 2, 3, 4, 5, 6});
  ExpectBody("x = f32[5,3] parameter(0)\n o = f32[<=6,3] parameter(1)\n" + ragged, {0, 1, 2, 3, 4, 5, 6});
  for (std::string_view type : {"s32", "u8", "s64", "u64"})
    ExpectBody(Format("x = f32[<=5,3] parameter(0)\n o = f32[6,3] parameter(1)\n n = s32[<=1] parameter(2)\n"
                      "one = {0}[1] constant({{1}})\n s = s32[] get-dimension-size(n), dimensions={{0}}\n"
                      "from = {0}[<=1] set-dimension-size(one, s), dimensions={{0}}\n"
                      "ROOT r = f32[6,3] ragged-all-to-all(x, o, from, from, one, from), replica_groups={{{{0}}}}",
                      type),
               {0, 1, 2, 5});
}

// What travels is the data with its sizes.
TEST(DynamicPadder, Channels) {
  constexpr std::string_view kText = R"(HloModule m, replica_count=2
ENTRY main { x = f32[<=5,<=3] parameter(0)
 t = token[] after-all()
 s = (f32[<=5,<=3], u32[], token[]) send(x, t), channel_id=1
 d = token[] send-done(s), channel_id=1
 v = (f32[<=5,<=3], u32[], token[]) recv(d), channel_id=1
 w = (f32[<=5,<=3], token[]) recv-done(v), channel_id=1
 ROOT y = f32[<=5,<=3] get-tuple-element(w), index=0 })";
  auto module = RunOn(kText, {"dynamic_padder"});
  ASSERT_TRUE(module);
  EXPECT_FALSE(AnyDynamic(*module));
  ASSERT_EQ(Find(*module, Opcode::kSend).size(), 1u);
  EXPECT_EQ(Find(*module, Opcode::kSend)[0]->shape().ToString(false), "((f32[5,3], s32[2]), u32[], token[])");
  EXPECT_EQ(Find(*module, Opcode::kRecv)[0]->shape().ToString(false), "((f32[5,3], s32[2]), u32[], token[])");
  EXPECT_EQ(Find(*module, Opcode::kRecvDone)[0]->shape().ToString(false), "((f32[5,3], s32[2]), token[])");
  EXPECT_EQ(module->entry()->root()->shape().ToString(false), "(f32[5,3], s32[], s32[])");
}

}  // namespace
}  // namespace krafla
