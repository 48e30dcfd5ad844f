// SPDX-License-Identifier: Apache-2.0
// Shapes and layouts as https://openxla.org/xla/shapes defines them.
#include "krafla/shape_util.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "krafla/index_util.h"
#include "krafla/literal_util.h"

namespace krafla {
namespace {

Shape Make(ElementType type, Span<int64_t> dims) { return ShapeUtil::MakeShape(type, dims).value(); }

TEST(ShapeUtil, RankAndTrueRank) {
  Shape s = Make(F32, {3, 1, 5, 1});
  EXPECT_EQ(ShapeUtil::Rank(s), 4);
  EXPECT_EQ(ShapeUtil::TrueRank(s), 2);
  EXPECT_EQ(ShapeUtil::TrueRank(Make(F32, {0, 1})), 1);
  EXPECT_TRUE(ShapeUtil::IsEffectiveScalar(Make(F32, {1, 1})));
  EXPECT_FALSE(ShapeUtil::IsScalar(Make(F32, {1, 1})));
  EXPECT_TRUE(ShapeUtil::IsScalar(Make(F32, {})));
  EXPECT_EQ(ShapeUtil::HumanString(ShapeUtil::DropDegenerateDimensions(s).value()), "f32[3,5]");
}

TEST(ShapeUtil, NegativeDimensionsCountFromTheEnd) {
  Shape s = Make(F32, {2, 3, 4});
  EXPECT_EQ(ShapeUtil::GetDimension(s, -1).value(), 4);
  EXPECT_EQ(ShapeUtil::GetDimension(s, -3).value(), 2);
  EXPECT_EQ(ShapeUtil::DimensionNumber(s, -2).value(), 1);
  EXPECT_EQ(ShapeUtil::DimensionNumber(s, 2).value(), 2);
  EXPECT_FALSE(ShapeUtil::GetDimension(s, 3).has_value());
  EXPECT_FALSE(ShapeUtil::GetDimension(s, -4).has_value());
  EXPECT_FALSE(ShapeUtil::GetDimension(Make(F32, {}), 0).has_value());
}

TEST(ShapeUtil, Sizes) {
  EXPECT_EQ(ShapeUtil::ElementsIn(Make(F32, {2, 3})), 6);
  EXPECT_EQ(ShapeUtil::ByteSizeOf(Make(F32, {2, 3})), 24);
  EXPECT_EQ(ShapeUtil::ByteSizeOf(Make(C128, {2})), 32);
  EXPECT_EQ(ShapeUtil::ByteSizeOf(Make(S4, {5})), 5);
  EXPECT_EQ(ShapeUtil::ElementsIn(Make(F32, {2, 0, 3})), 0);
  EXPECT_TRUE(ShapeUtil::IsZeroElementArray(Make(F32, {0})));
  Shape tuple = ShapeUtil::MakeTupleShape({Make(F32, {2}), Make(S32, {})}).value();
  EXPECT_EQ(ShapeUtil::ByteSizeOf(tuple), 12);
  EXPECT_EQ(ShapeUtil::ByteSizeOf(tuple, 8), 16);
  EXPECT_EQ(ShapeUtil::TupleElementCount(tuple), 2);
  EXPECT_FALSE(ShapeUtil::MakeShape(F32, {-1}).has_value());
  EXPECT_FALSE(ShapeUtil::MakeShape(F32, {INT64_MAX, 2}).has_value());
  EXPECT_FALSE(ShapeUtil::MakeShape(ElementType::kTuple, {2}).has_value());
}

TEST(ShapeUtil, Tuples) {
  Shape inner = ShapeUtil::MakeTupleShape({Make(F32, {2})}).value();
  Shape outer = ShapeUtil::MakeTupleShape({inner, ShapeUtil::MakeTokenShape()}).value();
  EXPECT_TRUE(ShapeUtil::IsNestedTuple(outer));
  EXPECT_FALSE(ShapeUtil::IsNestedTuple(inner));
  EXPECT_TRUE(ShapeUtil::IsEmptyTuple(ShapeUtil::MakeNil()));
  EXPECT_EQ(ShapeUtil::GetLeafCount(outer), 2);
  EXPECT_EQ(ShapeUtil::HumanString(ShapeUtil::GetSubshape(outer, {0, 0}).value()), "f32[2]");
  EXPECT_FALSE(ShapeUtil::GetSubshape(outer, {0, 1}).has_value());
  EXPECT_FALSE(ShapeUtil::GetSubshape(outer, {1, 0}).has_value());
  EXPECT_EQ(ShapeUtil::HumanString(outer), "((f32[2]), token[])");
}

TEST(ShapeUtil, Compatible) {
  Shape row = ShapeUtil::MakeShapeWithLayout(F32, {2, 3}, {1, 0}).value();
  Shape column = ShapeUtil::MakeShapeWithLayout(F32, {2, 3}, {0, 1}).value();
  EXPECT_TRUE(ShapeUtil::Compatible(row, column));
  EXPECT_FALSE(ShapeUtil::Equal(row, column));
  EXPECT_FALSE(ShapeUtil::Compatible(row, Make(S32, {2, 3})));
  EXPECT_TRUE(ShapeUtil::CompatibleIgnoringElementType(row, Make(S32, {2, 3})));
  EXPECT_TRUE(ShapeUtil::SameDimensions(row, Make(S32, {2, 3})));
  EXPECT_FALSE(ShapeUtil::SameDimensions(row, Make(F32, {3, 2})));
  EXPECT_EQ(ShapeUtil::HumanStringWithLayout(column), "f32[2,3]{0,1}");
  EXPECT_EQ(ShapeUtil::HumanString(column), "f32[2,3]");
}

TEST(ShapeUtil, FromOthers) {
  Shape column = ShapeUtil::MakeShapeWithLayout(F32, {2, 3, 4}, {0, 1, 2}).value();
  EXPECT_EQ(ShapeUtil::ChangeElementType(column, F64)->ToString(), "f64[2,3,4]{0,1,2}");
  EXPECT_FALSE(ShapeUtil::ChangeElementType(column, ElementType::kToken).has_value());
  // The same memory under the new order.
  EXPECT_EQ(ShapeUtil::PermuteDimensions({2, 0, 1}, column)->ToString(), "f32[4,2,3]{1,2,0}");
  EXPECT_FALSE(ShapeUtil::PermuteDimensions({0, 0, 1}, column).has_value());
  EXPECT_EQ(ShapeUtil::DeleteDimension(1, column)->ToString(), "f32[2,4]{0,1}");
  EXPECT_EQ(ShapeUtil::DeleteDimension(-1, column)->ToString(), "f32[2,3]{0,1}");
  EXPECT_EQ(ShapeUtil::MakeShape(F32, {2, 3}, {false, true})->ToString(false), "f32[2,<=3]");
  EXPECT_FALSE(ShapeUtil::MakeShape(F32, {2, 3}, {false}).has_value());
}

TEST(LayoutUtil, Orders) {
  Layout row = LayoutUtil::MakeLayout({1, 0}), column = LayoutUtil::MakeLayout({0, 1});
  EXPECT_TRUE(LayoutUtil::IsMonotonicWithDim0Major(row));
  EXPECT_FALSE(LayoutUtil::IsMonotonicWithDim0Minor(row));
  EXPECT_TRUE(LayoutUtil::IsMonotonicWithDim0Minor(column));
  EXPECT_FALSE(LayoutUtil::IsMonotonicWithDim0Major(LayoutUtil::MakeLayout({1, 2, 0})));
  EXPECT_TRUE(LayoutUtil::Equal(LayoutUtil::MakeDescendingLayout(2), row));
  EXPECT_TRUE(LayoutUtil::Equal(LayoutUtil::MakeAscendingLayout(2), column));
  EXPECT_TRUE(LayoutUtil::Equal(LayoutUtil::MakeLayoutFromMajorToMinor({0, 1}), row));
  Layout mixed = LayoutUtil::MakeLayout({1, 2, 0});
  EXPECT_EQ(LayoutUtil::Minor(mixed, 0).value(), 1);
  EXPECT_EQ(LayoutUtil::Major(mixed, 0).value(), 0);
  EXPECT_EQ(LayoutUtil::Major(mixed, 1).value(), 2);
  EXPECT_FALSE(LayoutUtil::Major(mixed, 3).has_value());
  EXPECT_FALSE(LayoutUtil::Minor(mixed, -1).has_value());
  EXPECT_EQ(LayoutUtil::MakeLogicalToPhysical(mixed).value(), (Dims{0, 2, 1}));
  EXPECT_FALSE(LayoutUtil::MakeLogicalToPhysical(LayoutUtil::MakeLayout({5, 0})).has_value());
  EXPECT_EQ(LayoutUtil::HumanString(mixed), "{1,2,0}");
  EXPECT_TRUE(LayoutUtil::ValidateLayoutForShape(row, Make(F32, {2, 3})).has_value());
  EXPECT_FALSE(LayoutUtil::ValidateLayoutForShape(row, Make(F32, {2})).has_value());
  EXPECT_FALSE(LayoutUtil::ValidateLayoutForShape(LayoutUtil::MakeLayout({0, 0}), Make(F32, {2, 3})).has_value());
  EXPECT_FALSE(ShapeUtil::MakeShapeWithLayout(F32, {2, 3}, {0}).has_value());
}

TEST(IndexUtil, LinearIndicesAndBack) {
  Shape row = Make(F32, {2, 3});
  Shape column = ShapeUtil::MakeShapeWithLayout(F32, {2, 3}, {0, 1}).value();
  EXPECT_EQ(IndexUtil::MultidimensionalIndexToLinearIndex(row, {1, 2}).value(), 5);
  EXPECT_EQ(IndexUtil::MultidimensionalIndexToLinearIndex(row, {1, 0}).value(), 3);
  EXPECT_EQ(IndexUtil::MultidimensionalIndexToLinearIndex(column, {1, 0}).value(), 1);
  EXPECT_EQ(IndexUtil::MultidimensionalIndexToLinearIndex(column, {0, 2}).value(), 4);
  EXPECT_EQ(IndexUtil::GetDimensionStride(row, 0).value(), 3);
  EXPECT_EQ(IndexUtil::GetDimensionStride(column, 0).value(), 1);
  EXPECT_EQ(IndexUtil::GetDimensionStride(column, -1).value(), 2);
  Shape odd = ShapeUtil::MakeShapeWithLayout(F32, {2, 3, 4}, {1, 2, 0}).value();
  Dims index(3);
  std::set<int64_t> seen;
  do {
    int64_t linear = IndexUtil::MultidimensionalIndexToLinearIndex(odd, index).value();
    EXPECT_TRUE(seen.insert(linear).second);
    EXPECT_EQ(IndexUtil::LinearIndexToMultidimensionalIndex(odd, linear).value(), index);
  } while (IndexUtil::BumpIndices(odd, std::span(index.data(), index.size())));
  EXPECT_EQ(seen.size(), 24U);
  EXPECT_FALSE(IndexUtil::MultidimensionalIndexToLinearIndex(row, {2, 0}).has_value());
  EXPECT_FALSE(IndexUtil::MultidimensionalIndexToLinearIndex(row, {0}).has_value());
  EXPECT_FALSE(IndexUtil::MultidimensionalIndexToLinearIndex(row, {0, -1}).has_value());
  EXPECT_FALSE(IndexUtil::LinearIndexToMultidimensionalIndex(row, 6).has_value());
  EXPECT_FALSE(IndexUtil::LinearIndexToMultidimensionalIndex(row, -1).has_value());
  EXPECT_EQ(IndexUtil::MultidimensionalIndexToLinearIndex(Make(F32, {}), {}).value(), 0);
}

std::string Image(const Shape& shape, std::string_view elements, Span<int64_t> padded, char padding = '0') {
  auto image =
      ShapeUtil::PaddedImage(shape, std::as_bytes(std::span(elements)), padded, std::as_bytes(std::span(&padding, 1)));
  if (!image) return image.error().ToString();
  return {reinterpret_cast<const char*>(image->data()), image->size()};
}

// The example of the page: a b c / d e f, column-major, padded to [3 x 5] with 0.
TEST(ShapeUtil, PaddedImage) {
  Shape column = ShapeUtil::MakeShapeWithLayout(U8, {2, 3}, {0, 1}).value();
  EXPECT_EQ(Image(column, "abcdef", {}), "adbecf");
  EXPECT_EQ(Image(column, "abcdef", {3, 5}), "ad0be0cf0000000");
  EXPECT_EQ(Image(Make(U8, {2, 3}), "abcdef", {}), "abcdef");
  EXPECT_EQ(Image(Make(U8, {2, 3}), "abcdef", {3, 5}, '.'), "abc..def.......");
  EXPECT_EQ(Image(Make(U8, {}), "a", {}), "a");
  EXPECT_EQ(Image(Make(U8, {0}), "", {2}), "00");
  EXPECT_TRUE(Image(column, "abcdef", {1, 5}).contains("less"));
  EXPECT_TRUE(Image(column, "abcdef", {3}).contains("one entry"));
  EXPECT_TRUE(Image(column, "abc", {3, 5}).contains("bytes"));
  EXPECT_TRUE(Image(column, "abcdef", {INT64_MAX, 5}).contains("63 bits"));
}

TEST(LiteralUtil, FromAndToValues) {
  Literal matrix = LiteralUtil::CreateR2<float>({{1, 2, 3}, {4, 5, 6}}).value();
  EXPECT_EQ(matrix.shape().ToString(false), "f32[2,3]");
  EXPECT_EQ(LiteralUtil::Get<float>(matrix, {1, 0}).value(), 4);
  EXPECT_FALSE(LiteralUtil::Get<float>(matrix, {2, 0}).has_value());
  EXPECT_FALSE(LiteralUtil::Get<float>(matrix, {0}).has_value());
  EXPECT_FALSE(LiteralUtil::Get<double>(matrix, {0, 0}).has_value());
  EXPECT_FALSE(LiteralUtil::Values<int32_t>(matrix).has_value());
  EXPECT_EQ(LiteralUtil::Values<bool>(LiteralUtil::CreateR1<bool>({true, false}).value()).value(),
            (std::vector<uint8_t>{1, 0}));
  EXPECT_EQ(LiteralUtil::Get<int64_t>(LiteralUtil::CreateR0<int64_t>(-5).value(), {}).value(), -5);
  EXPECT_FALSE(LiteralUtil::CreateR2<float>({{1}, {2, 3}}).has_value());
  EXPECT_FALSE(LiteralUtil::CreateFilled<float>({-1}, 0.F).has_value());
}

}  // namespace
}  // namespace krafla
