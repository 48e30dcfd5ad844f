// SPDX-License-Identifier: Apache-2.0
// Expanders: what is left has the recorded meaning, checked with the evaluator on the module before and after.
#include <cmath>
#include <cstring>
#include <limits>

#include "pass_harness.h"
#include "same_results.h"

namespace krafla {
namespace {

TEST(MapInliner, Arithmetic) {
  auto module = ExpectSame(R"(HloModule m
f { a = f32[] parameter(0)
 b = f32[] parameter(1)
 c = f32[] constant(3)
 d = f32[] multiply(a, c)
 p = pred[] compare(d, b), direction=LT
 ROOT r = f32[] select(p, d, b) }
ENTRY main { x = f32[3,4] parameter(0)
 y = f32[3,4] parameter(1)
 ROOT r = f32[3,4] map(x, y), dimensions={0,1}, to_apply=f })",
                           {"map_inliner"});
  ASSERT_TRUE(module);
  EXPECT_TRUE(Find(*module, Opcode::kMap).empty());
}

std::string Cumulative(std::string_view op, std::string_view window, std::string_view init = "0") {
  return Format(R"(HloModule m
f {{ a = s32[] parameter(0)
 b = s32[] parameter(1)
 ROOT r = s32[] {}(a, b) }}
ENTRY main {{ x = s32[3,5,2] parameter(0)
 i = s32[] constant({})
 ROOT r = s32[3,5,2] reduce-window(x, i), window={{{}}}, to_apply=f }})",
                op, init, window);
}

TEST(ScanRecognizer, Cumulative) {
  for (std::string_view op : {"add", "multiply", "maximum"}) {
    for (std::string_view pad : {"0_0x4_0x0_0", "0_0x0_4x0_0"}) {
      auto module = ExpectSame(Cumulative(op, Format("size=1x5x1 pad={}", pad), op == "multiply" ? "1" : "-100"),
                               {"scan_recognizer"});
      ASSERT_TRUE(module);
      EXPECT_EQ(Find(*module, Opcode::kScan).size(), 1u);
      EXPECT_TRUE(Find(*module, Opcode::kReduceWindow).empty());
    }
  }
}

// Sums of complex numbers are scans of their parts.
TEST(ScanRecognizer, ComplexSums) {
  for (std::string_view pad : {"69_0", "0_69"}) {
    auto module = ExpectSame(Format(R"(HloModule m
combine {{ a = c64[] parameter(0)
  b = c64[] parameter(1)
  ROOT r = c64[] add(a, b) }}
ENTRY main {{
  x = f32[70] parameter(0)
  y = f32[70] parameter(1)
  z = c64[70] complex(x, y)
  zero = c64[] constant((0, 0))
  w = c64[70] reduce-window(z, zero), window={{size=70 pad={}}}, to_apply=combine
  re = f32[70] real(w)
  im = f32[70] imag(w)
  ROOT r = (f32[70], f32[70]) tuple(re, im) }})",
                                    pad),
                             {"scan_recognizer", "dce"});
    ASSERT_TRUE(module);
    EXPECT_EQ(Find(*module, Opcode::kScan).size(), 2u);
    EXPECT_TRUE(Find(*module, Opcode::kReduceWindow).empty());
  }
}

TEST(ScanRecognizer, OtherWindowsStay) {
  for (std::string_view window : {"size=1x3x1 pad=0_0x2_0x0_0", "size=1x5x1 pad=0_0x2_2x0_0"}) {
    auto module = ExpectSame(Cumulative("add", window), {"scan_recognizer"});
    ASSERT_TRUE(module);
    EXPECT_EQ(Find(*module, Opcode::kReduceWindow).size(), 1u) << window;
  }
}

TEST(RaggedDotExpander, Modes) {
  auto sizes = Literal::Create(*Shape::MakeArray(ElementType::kS32, Dims{3}.span()));
  ASSERT_TRUE(sizes.has_value());
  for (auto [a, b, c] : {std::tuple{2, 0, 4}, std::tuple{1, 1, 1}, std::tuple{0, 9, 3}, std::tuple{-2, 3, 2}}) {
    sizes->data<int32_t>()[0] = a;
    sizes->data<int32_t>()[1] = b;
    sizes->data<int32_t>()[2] = c;
    auto free = ExpectSame(Entry("a = s32[6,3] parameter(0)\n b = s32[3,3,4] parameter(1)\n g = s32[3] parameter(2)\n"
                                 "ROOT r = s32[6,4] ragged-dot(a, b, g), lhs_contracting_dims={1}, "
                                 "rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}"),
                           {"ragged_dot_expander"}, 0, &*sizes);
    ASSERT_TRUE(free);
    EXPECT_TRUE(Find(*free, Opcode::kRaggedDot).empty());
    ExpectSame(Entry("a = s32[4,6] parameter(0)\n b = s32[6,5] parameter(1)\n g = s32[3] parameter(2)\n"
                     "ROOT r = s32[3,4,5] ragged-dot(a, b, g), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
                     "lhs_ragged_dims={1}"),
               {"ragged_dot_expander"}, 0, &*sizes);
    ExpectSame(Entry("a = s32[2,6,3] parameter(0)\n b = s32[3,2,3,4] parameter(1)\n g = s32[3] parameter(2)\n"
                     "ROOT r = s32[2,6,4] ragged-dot(a, b, g), lhs_batch_dims={0}, lhs_contracting_dims={2}, "
                     "rhs_batch_dims={1}, rhs_contracting_dims={2}, lhs_ragged_dims={1}, rhs_group_dims={0}"),
               {"ragged_dot_expander"}, 0, &*sizes);
  }
}

// Larger products name each row's matrix: row by row, or in blocks of rows.
TEST(RaggedDotExpander, OwnMatrices) {
  auto sizes = Literal::Create(*Shape::MakeArray(ElementType::kS32, Dims{3}.span()));
  ASSERT_TRUE(sizes.has_value());
  for (auto [a, b, c] : {std::tuple{2, 0, 3}, std::tuple{1, 1, 1}, std::tuple{0, 90, 3}, std::tuple{-2, 3, 2},
                         std::tuple{13, 8, 19}, std::tuple{0, 0, 0}}) {
    sizes->data<int32_t>()[0] = a;
    sizes->data<int32_t>()[1] = b;
    sizes->data<int32_t>()[2] = c;
    for (std::string_view text :
         {"a = s32[6,32] parameter(0)\n b = s32[3,32,512] parameter(1)\n g = s32[3] parameter(2)\n"
          "ROOT r = s32[6,512] ragged-dot(a, b, g), lhs_contracting_dims={1}, "
          "rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}",
          "a = s32[40,32] parameter(0)\n b = s32[3,32,80] parameter(1)\n g = s32[3] parameter(2)\n"
          "ROOT r = s32[40,80] ragged-dot(a, b, g), lhs_contracting_dims={1}, "
          "rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}",
          "a = s32[2,40,16] parameter(0)\n b = s32[5,16,16,3,2] parameter(1)\n g = s32[3] parameter(2)\n"
          "ROOT r = s32[40,5,16] ragged-dot(a, b, g), lhs_contracting_dims={0,2}, "
          "rhs_contracting_dims={4,1}, lhs_ragged_dims={1}, rhs_group_dims={3}"}) {
      auto module = ExpectSame(Entry(std::string(text)), {"ragged_dot_expander"}, 0, &*sizes);
      ASSERT_TRUE(module);
      EXPECT_TRUE(Find(*module, Opcode::kRaggedDot).empty());
      EXPECT_FALSE(Find(*module, Opcode::kGather).empty()) << text;
    }
  }
}
TEST(RaggedDotExpander, SizesPerBatch) {
  auto sizes = Literal::Create(*Shape::MakeArray(ElementType::kS32, Dims{2, 3}.span()));
  ASSERT_TRUE(sizes.has_value());
  constexpr int32_t kSizes[] = {1, 2, 3, 4, 0, 1};
  std::memcpy(sizes->bytes().data(), kSizes, sizeof(kSizes));
  ExpectSame(Entry("a = s32[2,6,3] parameter(0)\n b = s32[3,2,3,4] parameter(1)\n g = s32[2,3] parameter(2)\n"
                   "ROOT r = s32[2,6,4] ragged-dot(a, b, g), lhs_batch_dims={0}, lhs_contracting_dims={2}, "
                   "rhs_batch_dims={1}, rhs_contracting_dims={2}, lhs_ragged_dims={1}, rhs_group_dims={0}"),
             {"ragged_dot_expander"}, 0, &*sizes);
  ExpectSame(Entry("a = s32[2,4,6] parameter(0)\n b = s32[2,6,5] parameter(1)\n g = s32[2,3] parameter(2)\n"
                   "ROOT r = s32[3,2,4,5] ragged-dot(a, b, g), lhs_batch_dims={0}, lhs_contracting_dims={2}, "
                   "rhs_batch_dims={0}, rhs_contracting_dims={1}, lhs_ragged_dims={2}"),
             {"ragged_dot_expander"}, 0, &*sizes);
}

TEST(BatchNormExpander, AllThree) {
  constexpr std::string_view kPositive = "v0 = f32[3] parameter({})\n v1 = f32[3] multiply(v0, v0)\n";
  auto inference =
      ExpectSame(Entry("x = f32[4,3,2] parameter(0)\n g = f32[3] parameter(1)\n b = f32[3] parameter(2)\n"
                       "m = f32[3] parameter(3)\n" +
                       std::vformat(kPositive, std::make_format_args("4")) +
                       "ROOT r = f32[4,3,2] batch-norm-inference(x, g, b, m, v1), epsilon=0.01, feature_index=1"),
                 {"batch_norm_expander"}, 1e-5);
  ASSERT_TRUE(inference);
  EXPECT_TRUE(Find(*inference, Opcode::kBatchNormInference).empty());
  ExpectSame(Entry("x = f32[4,3,2] parameter(0)\n g = f32[3] parameter(1)\n b = f32[3] parameter(2)\n"
                   "ROOT r = (f32[4,3,2], f32[3], f32[3]) batch-norm-training(x, g, b), epsilon=0.01, feature_index=1"),
             {"batch_norm_expander"}, 1e-5);
  ExpectSame(Entry("x = f32[4,3,2] parameter(0)\n g = f32[3] parameter(1)\n m = f32[3] parameter(2)\n" +
                   std::vformat(kPositive, std::make_format_args("3")) +
                   "d = f32[4,3,2] parameter(4)\n"
                   "ROOT r = (f32[4,3,2], f32[3], f32[3]) batch-norm-grad(x, g, m, v1, d), epsilon=1, feature_index=1"),
             {"batch_norm_expander"}, 1e-4);
}

TEST(CustomCallRewriter, TopK) {
  auto module = RunOn(Entry("x = f32[3,7] parameter(0)\n"
                            "ROOT r = (f32[3,2], s32[3,2]) custom-call(x), custom_call_target=\"TopK\""),
                      {"custom_call_rewriter"});
  ASSERT_TRUE(module);
  EXPECT_EQ(module->entry()->root()->opcode(), Opcode::kTopK);
}

TEST(TopKExpander, Orders) {
  const Literal floats = FloatLine(3, 40);
  for (std::string_view largest : {"true", "false"}) {
    for (int k : {0, 1, 7, 40}) {
      auto module = ExpectSame(Entry(Format("x = f32[3,40] parameter(0)\n"
                                            "ROOT r = (f32[3,{}], s32[3,{}]) topk(x), k={}, largest={}",
                                            k, k, k, largest)),
                               {"topk_expander"}, 0, &floats);
      ASSERT_TRUE(module);
      EXPECT_TRUE(Find(*module, Opcode::kTopK).empty());
      ASSERT_EQ(Find(*module, Opcode::kSort).size(), 1u);
      EXPECT_TRUE(Find(*module, Opcode::kSort)[0]->attr<SortAttributes>().is_stable);
    }
    for (std::string_view shape : {"s32[2,3,50]", "pred[2,3,50]"}) {
      std::string_view type = shape.substr(0, shape.find('['));
      auto module = ExpectSame(Entry(Format("x = {} parameter(0)\n"
                                            "ROOT r = ({}[2,3,9], s32[2,3,9]) topk(x), k=9, largest={}",
                                            shape, type, largest)),
                               {"topk_expander"});
      ASSERT_TRUE(module);
      EXPECT_TRUE(Find(*module, Opcode::kTopK).empty());
    }
  }
}

TEST(TopKExpander, InThePipeline) {
  auto module = ExpectSame(Entry("x = f32[3,40] parameter(0)\n"
                                 "t = (f32[3,2], s32[3,2]) topk(x), k=2, largest=true\n"
                                 "ROOT r = s32[3,2] get-tuple-element(t), index=1"),
                           {});
  ASSERT_TRUE(module);
  EXPECT_TRUE(Find(*module, Opcode::kTopK).empty());
  EXPECT_EQ(module->entry()->root()->opcode(), Opcode::kSlice);
}

TEST(TopKExpander, ComplexNumbersStay) {
  auto module = RunOn(Entry("x = c64[5] parameter(0)\n"
                            "ROOT r = (c64[2], s32[2]) topk(x), k=2, largest=true"),
                      {"topk_expander"});
  ASSERT_TRUE(module);
  EXPECT_EQ(Find(*module, Opcode::kTopK).size(), 1u);
}

// What a dot does not contract is multiplied element by element where there is no kernel for it; so are matrices times
// vectors of batches that lie side by side. Matrices, and batches that do not, stay products.
TEST(SmallDotExpander, OuterProductsAndBatchesSideBySide) {
  struct Case {
    const char* body;
    std::size_t dots, reductions;
  };
  for (const Case& c : {
           Case{"x = f32[3,4] parameter(0)\n y = f32[5] parameter(1)\n a = c64[3,4] complex(x, x)\n"
                " b = c64[5] complex(y, y)\n ROOT r = c64[3,4,5] dot(a, b)",
                0, 0},
           Case{"x = bf16[4,3] parameter(0)\n y = bf16[5,4] parameter(1)\n"
                " ROOT r = bf16[4,3,5] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={1}",
                0, 0},
           Case{"x = f32[3] parameter(0)\n y = f32[4] parameter(1)\n ROOT r = f32[3,4] dot(x, y)", 1, 0},
           Case{"x = f32[6,5,20] parameter(0)\n y = f32[5,20] parameter(1)\n ROOT r = f32[20,6] dot(x, y), "
                "lhs_batch_dims={2}, lhs_contracting_dims={1}, rhs_batch_dims={1}, rhs_contracting_dims={0}",
                0, 1},
           Case{"x = f64[5,2,20] parameter(0)\n y = f64[2,5,20] parameter(1)\n ROOT r = f64[20] dot(x, y), "
                "lhs_batch_dims={2}, lhs_contracting_dims={0,1}, rhs_batch_dims={2}, rhs_contracting_dims={1,0}",
                0, 1},
           Case{"x = s32[6,5,20] parameter(0)\n y = s32[5,20,1] parameter(1)\n ROOT r = s32[20,6,1] dot(x, y), "
                "lhs_batch_dims={2}, lhs_contracting_dims={1}, rhs_batch_dims={1}, rhs_contracting_dims={0}",
                0, 1},
           // Complex ones read the matrix where it lies; of more vectors they are products.
           Case{"x = f32[6,5] parameter(0)\n y = f32[5,2] parameter(1)\n a = c64[6,5] complex(x, x)\n"
                " b = c64[5,2] complex(y, y)\n ROOT r = c64[6,2] dot(a, b), lhs_contracting_dims={1}, "
                "rhs_contracting_dims={0}",
                0, 1},
           Case{"x = f32[6,5] parameter(0)\n y = f32[5,3] parameter(1)\n a = c64[6,5] complex(x, x)\n"
                " b = c64[5,3] complex(y, y)\n ROOT r = c64[6,3] dot(a, b), lhs_contracting_dims={1}, "
                "rhs_contracting_dims={0}",
                1, 0},
           Case{"x = f32[20,6,5] parameter(0)\n y = f32[5,20] parameter(1)\n ROOT r = f32[20,6] dot(x, y), "
                "lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={1}, rhs_contracting_dims={0}",
                1, 0},
           Case{"x = f32[6,5,20] parameter(0)\n y = f32[5,3,20] parameter(1)\n ROOT r = f32[20,6,3] dot(x, y), "
                "lhs_batch_dims={2}, lhs_contracting_dims={1}, rhs_batch_dims={2}, rhs_contracting_dims={0}",
                1, 0},
       }) {
    SCOPED_TRACE(c.body);
    auto module = ExpectSame(Entry(c.body), {"small_dot_expander"});
    ASSERT_TRUE(module);
    EXPECT_EQ(Find(*module, Opcode::kDot).size(), c.dots);
    EXPECT_EQ(Find(*module, Opcode::kReduce).size(), c.reductions);
  }
}

TEST(ContractionExpander, ComplexDots) {
  // Quarters of whole numbers: the parts are exact in any order.
  auto module = ExpectSame(Entry("x = f32[3,4,5] parameter(0)\n y = f32[3,4,5] parameter(1)\n"
                                 "z = f32[3,5,2] parameter(2)\n w = f32[3,5,2] parameter(3)\n"
                                 "a = c64[3,4,5] complex(x, y)\n b = c64[3,5,2] complex(z, w)\n"
                                 "d = c64[3,4,2] dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0}, "
                                 "lhs_contracting_dims={2}, rhs_contracting_dims={1}\n"
                                 "e = f32[3,4,2] real(d)\n f = f32[3,4,2] imag(d)\n"
                                 "ROOT r = (f32[3,4,2], f32[3,4,2]) tuple(e, f)"),
                           {"contraction_expander"});
  ASSERT_TRUE(module);
  EXPECT_EQ(Find(*module, Opcode::kDot).size(), 4u);
  for (const Instruction* dot : Find(*module, Opcode::kDot)) EXPECT_EQ(dot->shape().element_type(), ElementType::kF32);
}

TEST(ContractionExpander, ComplexConvolution) {
  auto module = ExpectSame(Entry("x = f32[1,8,3] parameter(0)\n y = f32[3,3,2] parameter(1)\n"
                                 "a = c64[1,8,3] complex(x, x)\n b = c64[3,3,2] complex(y, y)\n"
                                 "d = c64[1,8,2] convolution(a, b), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f\n"
                                 "e = f32[1,8,2] real(d)\n f = f32[1,8,2] imag(d)\n"
                                 "ROOT r = (f32[1,8,2], f32[1,8,2]) tuple(e, f)"),
                           {"contraction_expander"});
  ASSERT_TRUE(module);
  EXPECT_EQ(Find(*module, Opcode::kConvolution).size(), 4u);
}

TEST(ContractionExpander, PredDot) {
  auto module = ExpectSame(Entry("x = pred[20,300] parameter(0)\n y = pred[300,7] parameter(1)\n"
                                 "ROOT d = pred[20,7] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
                           {"contraction_expander"});
  ASSERT_TRUE(module);
  ASSERT_EQ(Find(*module, Opcode::kDot).size(), 1u);
  EXPECT_EQ(Find(*module, Opcode::kDot)[0]->shape().element_type(), ElementType::kS32);
}

// Bytes that are widened first, also behind movements; not those of another kind on the other side.
TEST(ContractionExpander, Bytes) {
  auto types = [](std::string_view left, std::string_view right) {
    auto module =
        ExpectSame(Entry(Format("x = s32[6,4] parameter(0)\n y = s32[3,4] parameter(1)\n"
                                "a = {0}[6,4] convert(x)\n b = {1}[3,4] convert(y)\n"
                                "c = s32[6,4] convert(a)\n d = s32[3,4] convert(b)\n"
                                "e = s32[4,3] transpose(d), dimensions={{1,0}}\n"
                                "ROOT r = s32[6,3] dot(c, e), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
                                left, right)),
                   {"contraction_expander"});
    std::string out;
    if (!module) return out;
    for (const Instruction* o : Find(*module, Opcode::kDot)[0]->operands())
      out += std::string(ElementTypeName(o->shape().element_type())) + " ";
    return out;
  };
  EXPECT_EQ(types("s8", "s8"), "s8 s8 ");
  EXPECT_EQ(types("u8", "u8"), "u8 u8 ");
  EXPECT_EQ(types("s8", "u8"), "s32 s32 ");
  EXPECT_EQ(types("s16", "s8"), "s32 s32 ");
}

// Contracted dimensions apart from each other, or in another order on the other side.
TEST(ContractionExpander, ManyContractedDimensions) {
  struct Case {
    std::string_view rhs, numbers;
    std::size_t transposes;
  };
  const Case cases[] = {
      {"s32[4,3,2]", "lhs_contracting_dims={1,2}, rhs_contracting_dims={0,1}", 0},
      {"s32[3,4,2]", "lhs_contracting_dims={1,2}, rhs_contracting_dims={1,0}", 1},
      {"s32[4,2,3]", "lhs_contracting_dims={1,2}, rhs_contracting_dims={0,2}", 1},
      {"s32[3,2,4]", "lhs_contracting_dims={2,1}, rhs_contracting_dims={0,2}", 1},
  };
  for (const Case& c : cases) {
    auto module = ExpectSame(Entry(Format("x = s32[5,4,3] parameter(0)\n y = {} parameter(1)\n"
                                          "ROOT d = s32[5,2] dot(x, y), {}",
                                          c.rhs, c.numbers)),
                             {"contraction_expander"});
    ASSERT_TRUE(module);
    EXPECT_EQ(Find(*module, Opcode::kTranspose).size(), c.transposes) << c.numbers;
    // The smaller side is the one that is moved.
    for (const Instruction* t : Find(*module, Opcode::kTranspose))
      EXPECT_EQ(t->shape().element_count(), 24) << c.numbers;
  }
}

// Complex numbers are sorted along by their parts.
TEST(ComplexExpander, Sort) {
  const std::string head = R"(HloModule m
by_first { a = s32[] parameter(0)
 b = s32[] parameter(1)
 c = c64[] parameter(2)
 d = c64[] parameter(3)
 ROOT r = pred[] compare(a, b), direction=LT }
by_imag { a = c64[] parameter(0)
 b = c64[] parameter(1)
 x = f32[] imag(a)
 y = f32[] imag(b)
 ROOT r = pred[] compare(x, y), direction=GT }
ENTRY main {
 k = s32[6,4] parameter(0)
 x = f32[6,4] parameter(1)
 y = f32[6,4] parameter(2)
 z = c64[6,4] complex(x, y)
)";
  struct Case {
    const char* body;
    Opcode opcode;
    std::size_t operands, count;
  };
  for (const Case& c :
       {Case{"ROOT r = (s32[6,4], c64[6,4]) sort(k, z), dimensions={0}, is_stable=true, to_apply=by_first",
             Opcode::kSort, 3, 1},
        Case{"ROOT r = c64[6,4] sort(z), dimensions={1}, is_stable=true, to_apply=by_imag", Opcode::kSort, 2, 1}}) {
    auto module = ExpectSame(head + c.body + " }", {"complex_expander"});
    ASSERT_TRUE(module);
    auto found = Find(*module, c.opcode);
    ASSERT_EQ(found.size(), c.count) << c.body;
    EXPECT_EQ(found[0]->operand_count(), c.operands) << c.body;
  }
}

TEST(Pipeline, SameResults) {
  ExpectSame(Entry(R"(x = f32[4,6] parameter(0)
 y = f32[6] parameter(1)
 y1 = f32[1,6] reshape(y)
 y2 = f32[1,6] broadcast(y1), dimensions={0,1}
 y3 = f32[6] reshape(y2)
 y4 = f32[4,6] broadcast(y3), dimensions={1}
 s = f32[4,6] add(x, y4)
 two = f32[] constant(2)
 twos = f32[4,6] broadcast(two), dimensions={}
 h = f32[4,6] divide(s, twos)
 t = f32[6,4] transpose(h), dimensions={1,0}
 u = f32[4,6] transpose(t), dimensions={1,0}
 a = f32[2,6] slice(u), slice={[0:2], [0:6]}
 b = f32[2,6] slice(u), slice={[2:4], [0:6]}
 c = f32[4,6] concatenate(a, b), dimensions={0}
 i = s32[4,6] iota(), iota_dimension=1
 k = s32[] constant(3)
 kb = s32[4,6] broadcast(k), dimensions={}
 p = pred[4,6] compare(i, kb), direction=LT
 ROOT r = f32[4,6] select(p, c, x))"),
             {});
}

TEST(PieceReducer, StacksOfArrays) {
  for (std::string_view op : {"add", "maximum", "subtract"}) {
    auto module = ExpectSame(Format(R"(HloModule m
f {{ a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = f32[] {}(a, b) }}
ENTRY main {{ x = f32[5] parameter(0)
 y = f32[5] parameter(1)
 x1 = f32[1,5] reshape(x)
 y1 = f32[1,5] reshape(y)
 c = f32[3,5] concatenate(x1, y1, x1), dimensions={{0}}
 i = f32[] constant(2)
 ROOT r = f32[5] reduce(c, i), dimensions={{0}}, to_apply=f }})",
                                    op),
                             {"piece_reducer"});
    ASSERT_TRUE(module);
    EXPECT_TRUE(Find(*module, Opcode::kReduce).empty());
  }
  // The first true condition.
  auto first = ExpectSame(R"(HloModule m
f { a = pred[] parameter(0)
 i = s32[] parameter(1)
 b = pred[] parameter(2)
 j = s32[] parameter(3)
 k = s32[] select(a, i, j)
 o = pred[] or(a, b)
 ROOT r = (pred[], s32[]) tuple(o, k) }
ENTRY main { x = pred[4] parameter(0)
 y = pred[4] parameter(1)
 x1 = pred[4,1] reshape(x)
 y1 = pred[4,1] reshape(y)
 c = pred[4,2] concatenate(x1, y1), dimensions={1}
 n = s32[4,2] iota(), iota_dimension=1
 no = pred[] constant(false)
 none = s32[] constant(7)
 r = (pred[4], s32[4]) reduce(c, n, no, none), dimensions={1}, to_apply=f
 ROOT g = s32[4] get-tuple-element(r), index=1 })",
                          {"piece_reducer"});
  ASSERT_TRUE(first);
  EXPECT_TRUE(Find(*first, Opcode::kReduce).empty());
}

// Combiners of several operations keep their order: forwards as scans, backwards only where it does not count.
TEST(ScanRecognizer, CombinersOfSeveralOperations) {
  const auto text = [](std::string_view body, std::string_view pad) {
    return Format(R"(HloModule m
f {{ a = f32[] parameter(0)
 b = f32[] parameter(1)
 {} }}
ENTRY main {{ x = f32[3,6] parameter(0)
 i = f32[] constant(-inf)
 ROOT r = f32[3,6] reduce-window(x, i), window={{size=1x6 pad=0_0x{}}}, to_apply=f }})",
                  body, pad);
  };
  constexpr std::string_view kLogAddExp = R"(m = f32[] maximum(a, b)
 d = f32[] subtract(a, b)
 n = pred[] compare(d, d), direction=NE
 s = f32[] add(a, b)
 t = f32[] abs(d)
 u = f32[] negate(t)
 e = f32[] exponential(u)
 l = f32[] log-plus-one(e)
 v = f32[] add(m, l)
 ROOT r = f32[] select(n, s, v))";
  for (std::string_view pad : {"5_0", "0_5"}) {
    auto module = ExpectSame(text(kLogAddExp, pad), {"scan_recognizer"}, 1e-5);
    ASSERT_TRUE(module);
    EXPECT_TRUE(Find(*module, Opcode::kReduceWindow).empty()) << pad;
  }
  constexpr std::string_view kOwn = R"(h = f32[] maximum(a, b)
 q = f32[] constant(0.5)
 ROOT r = f32[] multiply(h, q))";
  auto backwards = ExpectSame(text(kOwn, "0_5"), {"scan_recognizer"});
  ASSERT_TRUE(backwards);
  EXPECT_EQ(Find(*backwards, Opcode::kReduceWindow).size(), 1);
}

// One window of a scatter, inside and outside, set, added and multiplied, in every place of the index vector.
TEST(ScatterSimplifier, OneWindowIsAnUpdate) {
  const auto text = [](std::string_view combiner, std::string_view operand, std::string_view indices,
                       std::string_view updates, std::string_view attributes) {
    return Format(R"(HloModule m
combine {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] {} }}
ENTRY main {{
  x = {} parameter(0)
  y = {} parameter(1)
  i = {} parameter(2)
  ROOT s = {} scatter(x, i, y), to_apply=combine, {} }})",
                  combiner, operand, updates, indices, operand, attributes);
  };
  const auto indices = [](std::span<const int32_t> values) {
    auto shape = Shape::MakeArray(ElementType::kS32, Dims{static_cast<int64_t>(values.size())});
    auto out = Literal::Create(*shape);
    std::ranges::copy(values, out->data<int32_t>().begin());
    return std::move(*out);
  };
  for (std::string_view combiner : {"add(a, b)", "multiply(b, a)", "copy(b)", "subtract(a, b)", "copy(a)"}) {
    for (int32_t i : {-7, -1, 0, 2, 3, 4, 5, 100}) {
      const Literal one = indices(std::array{i});
      auto after = ExpectSame(
          text(combiner, "f32[5]", "s32[1]", "f32[]",
               "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=0"),
          {"scatter_simplifier"}, 0, &one);
      EXPECT_TRUE(after != nullptr && Find(*after, Opcode::kScatter).empty());
      // Windows of two rows, an index vector of its own dimension.
      ExpectSame(
          text(
              combiner, "f32[5,3]", "s32[1]", "f32[1,2,3]",
              "update_window_dims={1,2}, inserted_window_dims={}, scatter_dims_to_operand_dims={0}, index_vector_dim=1"),
          {"scatter_simplifier"}, 0, &one);
      for (int32_t j : {-1, 0, 1, 2}) {
        const Literal two = indices(std::array{j, i});
        ExpectSame(
            text(
                combiner, "f32[6,4,3]", "s32[2]", "f32[2]",
                "update_window_dims={0}, inserted_window_dims={1,2}, scatter_dims_to_operand_dims={2,0}, index_vector_dim=0"),
            {"scatter_simplifier"}, 0, &two);
      }
    }
  }
}

}  // namespace
}  // namespace krafla
