// SPDX-License-Identifier: Apache-2.0
// Shape: an element type with dimensions and a layout, or a tuple of shapes, a token or an opaque value.
// A Shape that exists is countable: its element count and its byte size fit 63 bits.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "krafla/element_type.h"
#include "krafla/inline_vector.h"
#include "krafla/status.h"

KRAFLA_EXPORT_BEGIN
namespace krafla {

// The order of dimensions in memory, fastest first, and what HLO text may say after it ("T(8,128)E(32)S(1)").
// Buffers inside krafla are dense and row-major; a layout matters to bitcast, to the text, and at the API's edge.
struct Layout {
  Dims minor_to_major;
  std::string tail;  // canonical text after ':', empty for most

  static Layout RowMajor(int64_t rank);
  bool IsRowMajor() const;
  friend bool operator==(const Layout&, const Layout&) = default;
};

class Shape {
 public:
  Shape() = default;  // invalid

  // Errors: not an array type, a negative dimension, more than kMaxRank dimensions, a count or size past 63 bits.
  // `dynamic`: empty, or one flag a dimension; then the dimension is an upper bound.
  static Result<Shape> MakeArray(ElementType type, std::span<const int64_t> dims, std::span<const bool> dynamic = {});
  static Shape MakeScalar(ElementType type);
  static Result<Shape> MakeTuple(std::vector<Shape> elements);
  static Shape MakeToken();
  static Shape MakeOpaque();

  static constexpr int64_t kMaxRank = 64;

  ElementType element_type() const { return type_; }
  bool IsArray() const { return IsArrayType(type_); }
  bool IsTuple() const { return type_ == ElementType::kTuple; }
  bool IsToken() const { return type_ == ElementType::kToken; }
  bool IsScalar() const { return IsArray() && dims_.empty(); }

  int64_t rank() const { return dims_.ssize(); }
  const Dims& dims() const { return dims_; }
  int64_t dim(int64_t i) const { return dims_[static_cast<std::size_t>(i)]; }
  bool IsDynamicDim(int64_t i) const { return (dynamic_ >> i) & 1; }
  bool IsDynamic() const { return dynamic_ != 0; }  // also inside a tuple
  const std::vector<Shape>& tuple_elements() const { return elements_; }

  // Leaves of a tuple, depth first, tokens included; 1 for what is no tuple.
  int64_t leaf_count() const { return leaf_count_; }
  const Shape& leaf(int64_t n) const;
  // Of a tuple: the first leaf of element `element`, and the element that leaf `leaf` lies in.
  int64_t FirstLeaf(std::size_t element) const;
  std::size_t ElementOfLeaf(int64_t leaf) const;

  // Arrays: product of the dimensions; tuples, tokens: 0.
  int64_t element_count() const { return element_count_; }
  // Dense storage, StorageBytes() an element; of a tuple the sum of its leaves.
  int64_t byte_size() const { return byte_size_; }

  // Row-major unless set. `layout` must be a permutation of the dimensions.
  const Layout& layout() const { return layout_; }
  Result<> SetLayout(Layout layout);
  void ClearLayout();  // back to row-major

  // The same dimensions and flags with another element type.
  Shape WithElementType(ElementType type) const;
  // The same dimensions, none dynamic.
  Shape WithStaticDims() const;
  Shape WithDynamicDim(int64_t dim, bool dynamic) const;

  // Everything, layouts included.
  friend bool operator==(const Shape&, const Shape&) = default;
  // Element type and dimensions; layouts ignored; dynamic flags count.
  static bool Compatible(const Shape& a, const Shape& b);
  static bool SameDims(const Shape& a, const Shape& b) { return a.dims_ == b.dims_; }

  // "f32[2,<=3]{1,0}", "(f32[], token[])". Without layout: no braces.
  std::string ToString(bool with_layout = true) const;

 private:
  ElementType type_ = ElementType::kInvalid;
  Dims dims_;
  uint64_t dynamic_ = 0;  // of an array one bit per dimension; of a tuple 1 when one of its leaves has any
  Layout layout_;
  std::vector<Shape> elements_;
  std::vector<int64_t> first_leaf_;  // of each element; empty where each is a leaf
  int64_t leaf_count_ = 1;
  int64_t element_count_ = 0;
  int64_t byte_size_ = 0;
};

// The shapes of the leaves of `shape`, depth first; tokens included.
std::vector<const Shape*> TupleLeaves(const Shape& shape);
inline std::size_t LeafCount(const Shape& shape) { return static_cast<std::size_t>(shape.leaf_count()); }

// Row-major strides in elements: strides[i] = product of dims after i.
Dims RowMajorStrides(std::span<const int64_t> dims);
// Linear index <-> multi-index in row-major order.
void DelinearizeIndex(int64_t linear, std::span<const int64_t> dims, std::span<int64_t> index);
int64_t LinearizeIndex(std::span<const int64_t> index, std::span<const int64_t> dims);
// Steps `index` to the next in row-major order; false after the last.
bool NextIndex(std::span<int64_t> index, std::span<const int64_t> dims);

}  // namespace krafla
KRAFLA_EXPORT_END
