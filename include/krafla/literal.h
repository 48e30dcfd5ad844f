// SPDX-License-Identifier: Apache-2.0
// Literal: a value on the host. Arrays are dense, row-major in logical index order whatever layout the shape names,
// little endian, StorageBytes() an element (types below 8 bits take a byte each: s4 sign-extended, u4 zero-extended,
// f4e2m1fn its pattern in the low bits; pred is 0 or 1; complex is real, imaginary). Tuples hold Literals; a token
// holds nothing.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "krafla/aligned_bytes.h"
#include "krafla/shape.h"
#include "krafla/status.h"

KRAFLA_EXPORT_BEGIN
namespace krafla {

class Literal {
 public:
  Literal() = default;

  // Errors: a shape too large for memory (RESOURCE_EXHAUSTED). Arrays are zero-filled; tuples are built whole.
  static Result<Literal> Create(const Shape& shape);
  static Result<Literal> CreateUninitialized(const Shape& shape);
  // `bytes` must be exactly shape.byte_size() long.
  static Result<Literal> FromBytes(const Shape& shape, std::span<const std::byte> bytes);
  // An array in memory of somebody else, which `owner` keeps: `bytes` as above, at a multiple of 64. Nobody may write
  // them, not through this literal either; a copy of it has memory of its own.
  static Result<Literal> Borrowed(const Shape& shape, std::span<const std::byte> bytes,
                                  std::shared_ptr<const void> owner);
  static Result<Literal> MakeTuple(std::vector<Literal> elements);

  const Shape& shape() const { return shape_; }
  // Who keeps the memory of a borrowed one; null: it has its own.
  const std::shared_ptr<const void>& owner() const { return bytes_.owner(); }
  std::span<std::byte> bytes() { return bytes_.span(); }
  std::span<const std::byte> bytes() const { return bytes_.span(); }

  // The elements as T, which has the storage size of the element type; empty for a T of another size, and for what is
  // no array. Look at shape() first where the type is not known.
  template <typename T>
  std::span<T> data() {
    if (static_cast<int>(sizeof(T)) != StorageBytes(shape_.element_type())) [[unlikely]]
      return {};
    return {reinterpret_cast<T*>(bytes_.data()), bytes_.size() / sizeof(T)};
  }
  template <typename T>
  std::span<const T> data() const {
    if (static_cast<int>(sizeof(T)) != StorageBytes(shape_.element_type())) [[unlikely]]
      return {};
    return {reinterpret_cast<const T*>(bytes_.data()), bytes_.size() / sizeof(T)};
  }

  std::vector<Literal>& elements() { return elements_; }
  const std::vector<Literal>& elements() const { return elements_; }

  // The leaves that are arrays, depth first.
  std::vector<const Literal*> ArrayLeaves() const;
  // The same bytes under another shape of equal byte size.
  Result<Literal> Reshaped(const Shape& shape) &&;

  // Equal shapes (layouts ignored) and equal bytes.
  friend bool operator==(const Literal& a, const Literal& b);

 private:
  static Result<Literal> Make(const Shape& shape, bool zeroed);

  Shape shape_;
  AlignedBytes bytes_;
  std::vector<Literal> elements_;
};

}  // namespace krafla
KRAFLA_EXPORT_END
