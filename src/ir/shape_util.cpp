// SPDX-License-Identifier: Apache-2.0
#include "krafla/shape_util.h"

#include <algorithm>
#include <cstring>

#include "base/checked_math.h"
#include "ir/shape_rules/checks.h"
#include "krafla/index_util.h"

namespace krafla {

using shape_rules::Brief;
using shape_rules::DimList;

// --- layouts ---------------------------------------------------------------------------------------------------------

Layout LayoutUtil::MakeLayout(Span<int64_t> minor_to_major) {
  Layout out;
  out.minor_to_major = Dims(std::span<const int64_t>(minor_to_major));
  return out;
}

Layout LayoutUtil::MakeLayoutFromMajorToMinor(Span<int64_t> major_to_minor) {
  Layout out;
  for (std::size_t i = major_to_minor.size(); i-- > 0;) out.minor_to_major.push_back(major_to_minor[i]);
  return out;
}

Layout LayoutUtil::MakeDescendingLayout(int64_t rank) { return Layout::RowMajor(std::min(rank, Shape::kMaxRank)); }

Layout LayoutUtil::MakeAscendingLayout(int64_t rank) {
  Layout out;
  for (int64_t i = 0; i < std::min(rank, Shape::kMaxRank); ++i) out.minor_to_major.push_back(i);
  return out;
}

Result<> LayoutUtil::ValidateLayoutForShape(const Layout& layout, const Shape& shape) {
  Shape copy = shape;
  return copy.SetLayout(layout);
}

bool LayoutUtil::IsMonotonicWithDim0Major(const Layout& layout) {
  const Dims& order = layout.minor_to_major;
  return std::is_sorted(order.rbegin(), order.rend());
}

bool LayoutUtil::IsMonotonicWithDim0Minor(const Layout& layout) {
  const Dims& order = layout.minor_to_major;
  return std::is_sorted(order.begin(), order.end());
}

Result<int64_t> LayoutUtil::Minor(const Layout& layout, int64_t physical_dimension) {
  int64_t rank = layout.minor_to_major.ssize();
  if (physical_dimension < 0 || physical_dimension >= rank)
    return OutOfRange("Place {} is outside [0, {}), the layout {}.", physical_dimension, rank, HumanString(layout));
  return layout.minor_to_major[static_cast<std::size_t>(physical_dimension)];
}

Result<int64_t> LayoutUtil::Major(const Layout& layout, int64_t physical_dimension) {
  int64_t rank = layout.minor_to_major.ssize();
  if (physical_dimension < 0 || physical_dimension >= rank)
    return OutOfRange("Place {} is outside [0, {}), the layout {}.", physical_dimension, rank, HumanString(layout));
  return Minor(layout, rank - 1 - physical_dimension);
}

Result<Dims> LayoutUtil::MakeLogicalToPhysical(const Layout& layout) {
  int64_t rank = layout.minor_to_major.ssize();
  KRAFLA_TRY(shape_rules::CheckDimensionNumbers("The layout", layout.minor_to_major, std::min(rank, Shape::kMaxRank)));
  Dims out(static_cast<std::size_t>(rank));
  for (int64_t i = 0; i < rank; ++i)
    out[static_cast<std::size_t>(layout.minor_to_major[static_cast<std::size_t>(i)])] = rank - 1 - i;
  return out;
}

std::string LayoutUtil::HumanString(const Layout& layout) {
  std::string out = "{";
  for (std::size_t i = 0; i < layout.minor_to_major.size(); ++i)
    out += (i > 0 ? "," : "") + std::to_string(layout.minor_to_major[i]);
  if (!layout.tail.empty()) out += ":" + layout.tail;
  return out + "}";
}

// --- shapes ----------------------------------------------------------------------------------------------------------

Result<Shape> ShapeUtil::MakeShape(PrimitiveType type, Span<int64_t> dimensions) {
  return Shape::MakeArray(type, dimensions);
}

Result<Shape> ShapeUtil::MakeShape(PrimitiveType type, Span<int64_t> dimensions,
                                   const std::vector<bool>& dynamic_dimensions) {
  if (dynamic_dimensions.size() != dimensions.size())
    return InvalidArgument("There must be a flag for each of the {} dimensions, there are {}.", dimensions.size(),
                           dynamic_dimensions.size());
  DimList dims;
  for (std::size_t i = 0; i < dimensions.size(); ++i) dims.Add(dimensions[i], dynamic_dimensions[i]);
  return dims.Make(type);
}

Result<Shape> ShapeUtil::MakeShapeWithLayout(PrimitiveType type, Span<int64_t> dimensions,
                                             Span<int64_t> minor_to_major) {
  KRAFLA_ASSIGN(Shape out, MakeShape(type, dimensions));
  KRAFLA_TRY(out.SetLayout(LayoutUtil::MakeLayout(minor_to_major)));
  return out;
}

Result<Shape> ShapeUtil::MakeShapeWithDescendingLayout(PrimitiveType type, Span<int64_t> dimensions) {
  return MakeShape(type, dimensions);  // a shape is row-major until told otherwise
}

Result<Shape> ShapeUtil::MakeScalarShape(PrimitiveType type) { return MakeShape(type, {}); }
Result<Shape> ShapeUtil::MakeTupleShape(Span<Shape> shapes) { return Shape::MakeTuple({shapes.begin(), shapes.end()}); }
Shape ShapeUtil::MakeNil() { return std::move(*Shape::MakeTuple({})); }
Shape ShapeUtil::MakeTokenShape() { return Shape::MakeToken(); }
Shape ShapeUtil::MakeOpaqueShape() { return Shape::MakeOpaque(); }

int64_t ShapeUtil::TrueRank(const Shape& shape) {
  return std::count_if(shape.dims().begin(), shape.dims().end(), [](int64_t size) { return size != 1; });
}

Result<int64_t> ShapeUtil::DimensionNumber(const Shape& shape, int64_t dimension) {
  int64_t rank = shape.rank();
  if (dimension < -rank || dimension >= rank)
    return OutOfRange("Dimension {} of {} is outside [{}, {}).", dimension, Brief(shape), -rank, rank);
  return dimension < 0 ? dimension + rank : dimension;
}

Result<int64_t> ShapeUtil::GetDimension(const Shape& shape, int64_t dimension) {
  KRAFLA_ASSIGN(int64_t number, DimensionNumber(shape, dimension));
  return shape.dim(number);
}

bool ShapeUtil::IsNestedTuple(const Shape& shape) {
  return std::any_of(shape.tuple_elements().begin(), shape.tuple_elements().end(),
                     [](const Shape& s) { return s.IsTuple(); });
}

int64_t ShapeUtil::TupleElementCount(const Shape& shape) { return static_cast<int64_t>(shape.tuple_elements().size()); }

Result<Shape> ShapeUtil::GetTupleElementShape(const Shape& shape, int64_t index) { return GetSubshape(shape, {index}); }

Result<Shape> ShapeUtil::GetSubshape(const Shape& shape, const ShapeIndex& index) {
  const Shape* s = &shape;
  for (int64_t i : index) {
    if (!s->IsTuple() || i < 0 || i >= TupleElementCount(*s)) return OutOfRange("{} has no element {}.", Brief(*s), i);
    s = &s->tuple_elements()[static_cast<std::size_t>(i)];
  }
  return *s;
}

int64_t ShapeUtil::GetLeafCount(const Shape& shape) { return static_cast<int64_t>(TupleLeaves(shape).size()); }

int64_t ShapeUtil::ByteSizeOf(const Shape& shape, int64_t pointer_size) {
  if (!shape.IsTuple() || pointer_size < 0) return shape.byte_size();
  return CheckedMul(TupleElementCount(shape), pointer_size).value_or(INT64_MAX);
}

int64_t ShapeUtil::ByteSizeOfPrimitiveType(PrimitiveType type) { return StorageBytes(type); }

bool ShapeUtil::SameDimensions(const Shape& a, const Shape& b) {
  return a.IsArray() && b.IsArray() && Shape::SameDims(a, b);
}

bool ShapeUtil::CompatibleIgnoringElementType(const Shape& a, const Shape& b) {
  if (a.IsArray() != b.IsArray() || a.IsTuple() != b.IsTuple() || a.IsToken() != b.IsToken()) return false;
  if (a.IsTuple())
    return std::equal(a.tuple_elements().begin(), a.tuple_elements().end(), b.tuple_elements().begin(),
                      b.tuple_elements().end(), CompatibleIgnoringElementType);
  return Shape::SameDims(a, b);
}

Result<Shape> ShapeUtil::ChangeElementType(const Shape& shape, PrimitiveType type) {
  if (!shape.IsArray()) return InvalidArgument("{} has no element type to change.", Brief(shape));
  DimList dims;
  for (int64_t i = 0; i < shape.rank(); ++i) dims.AddFrom(shape, i);
  KRAFLA_ASSIGN(Shape out, dims.Make(type));
  KRAFLA_TRY(out.SetLayout(shape.layout()));
  return out;
}

Result<Shape> ShapeUtil::PermuteDimensions(Span<int64_t> permutation, const Shape& shape) {
  if (static_cast<int64_t>(permutation.size()) != shape.rank())
    return InvalidArgument("The permutation must name each of the {} dimensions, it has {} entries.", shape.rank(),
                           permutation.size());
  Dims order{std::span<const int64_t>(permutation)};
  KRAFLA_TRY(shape_rules::CheckDimensionNumbers("The permutation", order, shape.rank()));
  DimList dims;
  for (int64_t from : order) dims.AddFrom(shape, from);
  KRAFLA_ASSIGN(Shape out, dims.Make(shape.element_type()));
  // Memory stays as it is: what was dimension order[i] is now i.
  Dims renamed(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) renamed[static_cast<std::size_t>(order[i])] = static_cast<int64_t>(i);
  Layout layout = shape.layout();
  for (int64_t& d : layout.minor_to_major) d = renamed[static_cast<std::size_t>(d)];
  KRAFLA_TRY(out.SetLayout(std::move(layout)));
  return out;
}

namespace {

// `shape` with the dimensions of which `keep` holds; those that stay keep their order in memory.
template <typename Keep>
Result<Shape> KeepDimensions(const Shape& shape, Keep keep) {
  if (!shape.IsArray()) return InvalidArgument("{} has no dimensions.", Brief(shape));
  DimList dims;
  Dims renamed;
  for (int64_t i = 0; i < shape.rank(); ++i) {
    renamed.push_back(dims.sizes.ssize());
    if (keep(i)) dims.AddFrom(shape, i);
  }
  KRAFLA_ASSIGN(Shape out, dims.Make(shape.element_type()));
  Layout layout;
  for (int64_t d : shape.layout().minor_to_major)
    if (keep(d)) layout.minor_to_major.push_back(renamed[static_cast<std::size_t>(d)]);
  KRAFLA_TRY(out.SetLayout(std::move(layout)));
  return out;
}

}  // namespace

Result<Shape> ShapeUtil::DeleteDimension(int64_t dimension, const Shape& shape) {
  KRAFLA_ASSIGN(int64_t number, DimensionNumber(shape, dimension));
  return KeepDimensions(shape, [&](int64_t i) { return i != number; });
}

Result<Shape> ShapeUtil::DropDegenerateDimensions(const Shape& shape) {
  return KeepDimensions(shape, [&](int64_t i) { return shape.dim(i) != 1; });
}

Result<std::vector<std::byte>> ShapeUtil::PaddedImage(const Shape& shape, std::span<const std::byte> elements,
                                                      Span<int64_t> padded_dimensions,
                                                      std::span<const std::byte> padding_value) {
  if (!shape.IsArray()) return InvalidArgument("Only an array lies in memory by a layout, not {}.", Brief(shape));
  auto width = static_cast<std::size_t>(StorageBytes(shape.element_type()));
  if (static_cast<int64_t>(elements.size()) != shape.byte_size())
    return InvalidArgument("{} takes {} bytes, {} were given.", Brief(shape), shape.byte_size(), elements.size());
  if (padding_value.size() != width)
    return InvalidArgument("The padding value must be one element of {} bytes, it has {}.", width,
                           padding_value.size());
  Dims padded = padded_dimensions.empty() ? shape.dims() : Dims(std::span<const int64_t>(padded_dimensions));
  if (padded.ssize() != shape.rank())
    return InvalidArgument("padded_dimensions must have one entry for each dimension of {}, it has {}.", Brief(shape),
                           padded.size());
  for (int64_t i = 0; i < shape.rank(); ++i)
    if (padded[static_cast<std::size_t>(i)] < shape.dim(i))
      return InvalidArgument("Dimension {} of {} cannot be padded to {}, which is less.", i, Brief(shape),
                             padded[static_cast<std::size_t>(i)]);
  KRAFLA_ASSIGN(Shape whole, Shape::MakeArray(shape.element_type(), padded));
  KRAFLA_TRY(whole.SetLayout(shape.layout()));
  // As literals do: a size that memory cannot hold is an error, not an exception.
  std::vector<std::byte> out;
  try {
    out.resize(static_cast<std::size_t>(whole.byte_size()));
  } catch (const std::exception&) {
    return ResourceExhausted("No memory on the host for {} ({} bytes).", Brief(whole), whole.byte_size());
  }
  for (std::size_t at = 0; at < out.size(); at += width) std::memcpy(&out[at], padding_value.data(), width);
  if (shape.element_count() == 0) return out;
  Dims index(static_cast<std::size_t>(shape.rank()));
  std::size_t from = 0;
  do {
    KRAFLA_ASSIGN(int64_t to, IndexUtil::MultidimensionalIndexToLinearIndex(whole, index));
    std::memcpy(&out[static_cast<std::size_t>(to) * width], &elements[from], width);
    from += width;
  } while (IndexUtil::BumpIndices(shape, std::span(index.data(), index.size())));
  return out;
}

// --- indices ---------------------------------------------------------------------------------------------------------

bool IndexUtil::IndexInBounds(const Shape& shape, Span<int64_t> index) {
  if (!shape.IsArray() || static_cast<int64_t>(index.size()) != shape.rank()) return false;
  for (std::size_t i = 0; i < index.size(); ++i)
    if (index[i] < 0 || index[i] >= shape.dims()[i]) return false;
  return true;
}

Result<int64_t> IndexUtil::MultidimensionalIndexToLinearIndex(const Shape& shape, Span<int64_t> index) {
  if (!IndexInBounds(shape, index))
    return OutOfRange("{} is not an index of {}.", Brief(Dims(std::span<const int64_t>(index))), Brief(shape));
  int64_t out = 0, stride = 1;
  for (int64_t d : shape.layout().minor_to_major) {
    out += index[static_cast<std::size_t>(d)] * stride;
    stride *= shape.dim(d);
  }
  return out;
}

Result<Dims> IndexUtil::LinearIndexToMultidimensionalIndex(const Shape& shape, int64_t linear_index) {
  if (!shape.IsArray() || linear_index < 0 || linear_index >= shape.element_count())
    return OutOfRange("Element {} is outside of {}, which has {}.", linear_index, Brief(shape), shape.element_count());
  Dims out(static_cast<std::size_t>(shape.rank()));
  for (int64_t d : shape.layout().minor_to_major) {
    out[static_cast<std::size_t>(d)] = linear_index % shape.dim(d);
    linear_index /= shape.dim(d);
  }
  return out;
}

bool IndexUtil::BumpIndices(const Shape& shape, std::span<int64_t> index) {
  if (!IndexInBounds(shape, index)) return false;
  return NextIndex(index, shape.dims());
}

Result<int64_t> IndexUtil::GetDimensionStride(const Shape& shape, int64_t dimension) {
  KRAFLA_ASSIGN(int64_t number, ShapeUtil::DimensionNumber(shape, dimension));
  int64_t stride = 1;
  for (int64_t d : shape.layout().minor_to_major) {
    if (d == number) break;
    stride *= shape.dim(d);
  }
  return stride;
}

}  // namespace krafla
