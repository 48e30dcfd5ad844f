// SPDX-License-Identifier: Apache-2.0
#include "krafla/shape.h"

#include <algorithm>

#include "base/checked_math.h"

namespace krafla {

Layout Layout::RowMajor(int64_t rank) {
  Layout out;
  for (int64_t i = rank - 1; i >= 0; --i) out.minor_to_major.push_back(i);
  return out;
}

bool Layout::IsRowMajor() const {
  int64_t rank = minor_to_major.ssize();
  for (int64_t i = 0; i < rank; ++i)
    if (minor_to_major[static_cast<std::size_t>(i)] != rank - 1 - i) return false;
  return true;
}

Result<Shape> Shape::MakeArray(ElementType type, std::span<const int64_t> dims, std::span<const bool> dynamic) {
  if (!IsArrayType(type)) return InvalidArgument("{} is not the element type of an array.", ElementTypeName(type));
  if (static_cast<int64_t>(dims.size()) > kMaxRank)
    return InvalidArgument("A shape of {} dimensions exceeds the limit of {}.", dims.size(), kMaxRank);
  if (!dynamic.empty() && dynamic.size() != dims.size())
    return InvalidArgument("{} dynamic flags were given for {} dimensions.", dynamic.size(), dims.size());
  Shape out;
  out.type_ = type;
  out.dims_ = Dims(dims);
  int64_t count = 1;
  // A zero anywhere makes the product zero, but the other factors must still be sizes that can be multiplied.
  bool zero = false;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0) return InvalidArgument("Dimension {} is negative ({}).", i, dims[i]);
    if (!dynamic.empty() && dynamic[i]) out.dynamic_ |= uint64_t{1} << i;
    if (dims[i] == 0) {
      zero = true;
      continue;
    }
    auto product = CheckedMul(count, dims[i]);
    if (!product) return InvalidArgument("The element count of {}[...] does not fit 63 bits.", ElementTypeName(type));
    count = *product;
  }
  auto bytes = CheckedMul(count, StorageBytes(type));
  if (!bytes) return InvalidArgument("The byte size of {}[...] does not fit 63 bits.", ElementTypeName(type));
  out.element_count_ = zero ? 0 : count;
  out.byte_size_ = zero ? 0 : *bytes;
  out.layout_ = Layout::RowMajor(out.rank());
  return out;
}

Shape Shape::MakeScalar(ElementType type) {
  auto out = MakeArray(type, {});
  KRAFLA_CHECK(out.has_value());
  return std::move(*out);
}

Result<Shape> Shape::MakeTuple(std::vector<Shape> elements) {
  Shape out;
  out.type_ = ElementType::kTuple;
  for (const Shape& e : elements) {
    auto sum = CheckedAdd(out.byte_size_, e.byte_size_);
    if (!sum) return InvalidArgument("The byte size of a tuple does not fit 63 bits.");
    out.byte_size_ = *sum;
  }
  bool flat = true;
  out.leaf_count_ = 0;
  for (const Shape& e : elements) {
    if (e.dynamic_ != 0) out.dynamic_ = 1;
    flat = flat && !e.IsTuple();
    out.leaf_count_ += e.leaf_count_;
  }
  if (!flat) {
    int64_t first = 0;
    out.first_leaf_.reserve(elements.size());
    for (const Shape& e : elements) {
      out.first_leaf_.push_back(first);
      first += e.leaf_count_;
    }
  }
  out.elements_ = std::move(elements);
  return out;
}

int64_t Shape::FirstLeaf(std::size_t element) const {
  return first_leaf_.empty() ? static_cast<int64_t>(element) : first_leaf_[element];
}

std::size_t Shape::ElementOfLeaf(int64_t leaf) const {
  if (first_leaf_.empty()) return static_cast<std::size_t>(leaf);
  // The last element that begins there or before: empty tuples before it begin there too.
  return static_cast<std::size_t>(std::upper_bound(first_leaf_.begin(), first_leaf_.end(), leaf) -
                                  first_leaf_.begin()) -
         1;
}

const Shape& Shape::leaf(int64_t n) const {
  const Shape* at = this;
  while (at->IsTuple()) {
    const std::size_t element = at->ElementOfLeaf(n);
    n -= at->FirstLeaf(element);
    at = &at->elements_[element];
  }
  return *at;
}

Shape Shape::MakeToken() {
  Shape out;
  out.type_ = ElementType::kToken;
  return out;
}

Shape Shape::MakeOpaque() {
  Shape out;
  out.type_ = ElementType::kOpaque;
  return out;
}

Result<> Shape::SetLayout(Layout layout) {
  if (!IsArray()) return InvalidArgument("Only an array has a layout, not {}.", ToString(false));
  if (layout.minor_to_major.ssize() != rank())
    return InvalidArgument("A layout of {} dimensions was given for a shape of {}.", layout.minor_to_major.size(),
                           rank());
  uint64_t seen = 0;
  for (int64_t d : layout.minor_to_major) {
    if (d < 0 || d >= rank() || ((seen >> d) & 1))
      return InvalidArgument("A layout must name each of the {} dimensions once.", rank());
    seen |= uint64_t{1} << d;
  }
  layout_ = std::move(layout);
  return {};
}

void Shape::ClearLayout() {
  layout_ = Layout::RowMajor(rank());
  for (Shape& e : elements_) e.ClearLayout();
}

Shape Shape::WithElementType(ElementType type) const {
  Shape out = *this;
  out.type_ = type;
  // Counts that fit at 8 bytes an element may not fit at 16; such a shape is 2^59 elements and never has storage.
  out.byte_size_ = CheckedMul(element_count_, StorageBytes(type)).value_or(INT64_MAX);
  return out;
}

Shape Shape::WithStaticDims() const {
  Shape out = *this;
  out.dynamic_ = 0;
  for (Shape& e : out.elements_) e = e.WithStaticDims();
  return out;
}

Shape Shape::WithDynamicDim(int64_t dim, bool dynamic) const {
  KRAFLA_CHECK(dim >= 0 && dim < rank());
  Shape out = *this;
  uint64_t bit = uint64_t{1} << dim;
  out.dynamic_ = dynamic ? out.dynamic_ | bit : out.dynamic_ & ~bit;
  return out;
}

bool Shape::Compatible(const Shape& a, const Shape& b) {
  if (a.type_ != b.type_ || a.dims_ != b.dims_ || a.dynamic_ != b.dynamic_) return false;
  if (a.elements_.size() != b.elements_.size()) return false;
  for (std::size_t i = 0; i < a.elements_.size(); ++i)
    if (!Compatible(a.elements_[i], b.elements_[i])) return false;
  return true;
}

std::string Shape::ToString(bool with_layout) const {
  if (IsTuple()) {
    std::string out = "(";
    for (std::size_t i = 0; i < elements_.size(); ++i) {
      if (i > 0) out += ", ";
      out += elements_[i].ToString(with_layout);
    }
    return out + ")";
  }
  std::string out(ElementTypeName(type_));
  out += '[';
  for (int64_t i = 0; i < rank(); ++i) {
    if (i > 0) out += ',';
    if (IsDynamicDim(i)) out += "<=";
    out += std::to_string(dim(i));
  }
  out += ']';
  if (with_layout && IsArray() && (rank() > 0 || !layout_.tail.empty())) {
    out += '{';
    for (std::size_t i = 0; i < layout_.minor_to_major.size(); ++i) {
      if (i > 0) out += ',';
      out += std::to_string(layout_.minor_to_major[i]);
    }
    if (!layout_.tail.empty()) out += ":" + layout_.tail;
    out += '}';
  }
  return out;
}

std::vector<const Shape*> TupleLeaves(const Shape& shape) {
  std::vector<const Shape*> out, stack = {&shape};
  while (!stack.empty()) {
    const Shape* s = stack.back();
    stack.pop_back();
    if (!s->IsTuple()) {
      out.push_back(s);
      continue;
    }
    for (auto it = s->tuple_elements().rbegin(); it != s->tuple_elements().rend(); ++it) stack.push_back(&*it);
  }
  return out;
}

Dims RowMajorStrides(std::span<const int64_t> dims) {
  Dims out(dims.size(), 1);
  for (std::size_t i = dims.size(); i-- > 1;) out[i - 1] = out[i] * dims[i];
  return out;
}

void DelinearizeIndex(int64_t linear, std::span<const int64_t> dims, std::span<int64_t> index) {
  for (std::size_t i = dims.size(); i-- > 0;) {
    index[i] = dims[i] == 0 ? 0 : linear % dims[i];
    linear = dims[i] == 0 ? 0 : linear / dims[i];
  }
}

int64_t LinearizeIndex(std::span<const int64_t> index, std::span<const int64_t> dims) {
  int64_t out = 0;
  for (std::size_t i = 0; i < dims.size(); ++i) out = out * dims[i] + index[i];
  return out;
}

bool NextIndex(std::span<int64_t> index, std::span<const int64_t> dims) {
  for (std::size_t i = dims.size(); i-- > 0;) {
    if (++index[i] < dims[i]) return true;
    index[i] = 0;
  }
  return false;
}

}  // namespace krafla
