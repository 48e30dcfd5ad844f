// SPDX-License-Identifier: Apache-2.0
// Questions about shapes, and shapes from their parts (https://openxla.org/xla/shapes).
//
// Dimensions are numbered from 0, the outermost as written; -1 is the last, -2 the one before. The true rank leaves out
// degenerate dimensions, those of size 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "krafla/export.h"
#include "krafla/layout_util.h"
#include "krafla/shape.h"
#include "krafla/span.h"
#include "krafla/xla_data.h"

KRAFLA_EXPORT_BEGIN
namespace krafla {

struct ShapeUtil {
  // Errors: no array type, negative sizes, more than 2^63 - 1 elements or bytes.
  static Result<Shape> MakeShape(PrimitiveType type, Span<int64_t> dimensions);
  // `dynamic_dimensions`: one flag per dimension; where it is set the size is an upper bound.
  static Result<Shape> MakeShape(PrimitiveType type, Span<int64_t> dimensions,
                                 const std::vector<bool>& dynamic_dimensions);
  static Result<Shape> MakeShapeWithLayout(PrimitiveType type, Span<int64_t> dimensions, Span<int64_t> minor_to_major);
  static Result<Shape> MakeShapeWithDescendingLayout(PrimitiveType type, Span<int64_t> dimensions);
  static Result<Shape> MakeScalarShape(PrimitiveType type);
  static Result<Shape> MakeTupleShape(Span<Shape> shapes);
  static Shape MakeNil();  // the empty tuple
  static Shape MakeTokenShape();
  static Shape MakeOpaqueShape();

  static int64_t Rank(const Shape& shape) { return shape.rank(); }
  // Dimensions whose size is not 1.
  static int64_t TrueRank(const Shape& shape);
  // The dimension that `dimension` names, counted from the end where negative. OUT_OF_RANGE outside [-rank, rank).
  static Result<int64_t> DimensionNumber(const Shape& shape, int64_t dimension);
  static Result<int64_t> GetDimension(const Shape& shape, int64_t dimension);  // its size

  static int64_t ElementsIn(const Shape& shape) { return shape.element_count(); }
  static bool IsZeroElementArray(const Shape& shape) { return shape.IsArray() && shape.element_count() == 0; }
  static bool IsScalar(const Shape& shape) { return shape.IsScalar(); }
  static bool IsEffectiveScalar(const Shape& shape) { return shape.IsArray() && TrueRank(shape) == 0; }
  static bool IsNestedTuple(const Shape& shape);
  static bool IsEmptyTuple(const Shape& shape) { return shape.IsTuple() && shape.tuple_elements().empty(); }
  static int64_t TupleElementCount(const Shape& shape);
  static Result<Shape> GetTupleElementShape(const Shape& shape, int64_t index);
  static Result<Shape> GetSubshape(const Shape& shape, const ShapeIndex& index);
  static int64_t GetLeafCount(const Shape& shape);

  // Bytes of an array as a Literal or a buffer holds it: types below 8 bits take one byte per element. Of a tuple, the
  // sum of its elements, or with a pointer size that many pointers, as a table of buffers would be.
  static int64_t ByteSizeOf(const Shape& shape, int64_t pointer_size = -1);
  static int64_t ByteSizeOfPrimitiveType(PrimitiveType type);

  // Element types and dimensions are equal; layouts are not compared.
  static bool Compatible(const Shape& a, const Shape& b) { return Shape::Compatible(a, b); }
  static bool CompatibleIgnoringElementType(const Shape& a, const Shape& b);
  static bool SameDimensions(const Shape& a, const Shape& b);
  static bool SameElementType(const Shape& a, const Shape& b) { return a.element_type() == b.element_type(); }
  // Layouts are equal too.
  static bool Equal(const Shape& a, const Shape& b) { return a == b; }

  static Result<Shape> ChangeElementType(const Shape& shape, PrimitiveType type);
  static Result<Shape> PermuteDimensions(Span<int64_t> permutation, const Shape& shape);
  static Result<Shape> DeleteDimension(int64_t dimension, const Shape& shape);
  static Result<Shape> DropDegenerateDimensions(const Shape& shape);

  static std::string HumanString(const Shape& shape) { return shape.ToString(false); }
  static std::string HumanStringWithLayout(const Shape& shape) { return shape.ToString(true); }
  // "f32[2,3]{0,1}", "(s32[], token[])"
  static Result<Shape> ParseShape(std::string_view text);

  // An array as memory holds it: elements in the order of the shape's layout, each dimension padded at its end with
  // `padding_value` to `padded_dimensions` (logical order, at least the array's own sizes; empty: none). `elements` are
  // row-major in logical order. Errors: wrong sizes, a padding value that is not one element.
  static Result<std::vector<std::byte>> PaddedImage(const Shape& shape, std::span<const std::byte> elements,
                                                    Span<int64_t> padded_dimensions,
                                                    std::span<const std::byte> padding_value);
};

}  // namespace krafla
KRAFLA_EXPORT_END
