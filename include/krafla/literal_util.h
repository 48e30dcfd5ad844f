// SPDX-License-Identifier: Apache-2.0
// Literals from and to C++ values.
#pragma once

#include <complex>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <type_traits>
#include <vector>

#include "krafla/literal.h"
#include "krafla/span.h"

namespace krafla {

// The element type of a C++ type: bool, integers of 8 to 64 bits, float, double, std::complex of the two.
template <typename T>
constexpr ElementType NativeToPrimitiveType() {
  using E = ElementType;
  if constexpr (std::is_same_v<T, bool>) return E::kPred;
  else if constexpr (std::is_same_v<T, float>) return E::kF32;
  else if constexpr (std::is_same_v<T, double>) return E::kF64;
  else if constexpr (std::is_same_v<T, std::complex<float>>) return E::kC64;
  else if constexpr (std::is_same_v<T, std::complex<double>>) return E::kC128;
  else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>)
    return sizeof(T) == 1 ? E::kS8 : sizeof(T) == 2 ? E::kS16 : sizeof(T) == 4 ? E::kS32 : E::kS64;
  else if constexpr (std::is_integral_v<T>)
    return sizeof(T) == 1 ? E::kU8 : sizeof(T) == 2 ? E::kU16 : sizeof(T) == 4 ? E::kU32 : E::kU64;
  else static_assert(!sizeof(T), "no element type of HLO is like this C++ type");
}

struct LiteralUtil {
  // What a list of T is kept in: std::vector<bool> has no elements to point at.
  template <typename T>
  using Stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;

  template <typename T>
  static Result<Literal> CreateR0(T value) {
    return CreateFromArray<T>({&value, 1}, {});
  }
  template <typename T>
  static Result<Literal> CreateR1(Span<std::type_identity_t<T>> values) {
    return CreateFromArray<T>(values, {static_cast<int64_t>(values.size())});
  }
  template <typename T>
  static Result<Literal> CreateR2(std::initializer_list<std::initializer_list<T>> rows) {
    std::size_t columns = rows.size() == 0 ? 0 : rows.begin()->size();
    std::vector<Stored<T>> values;
    for (const auto& row : rows) {
      if (row.size() != columns)
        return InvalidArgument("The rows of a matrix must be equally long; they have {} and {} elements.", columns,
                               row.size());
      values.insert(values.end(), row.begin(), row.end());
    }
    return FromStored<T>(values, {static_cast<int64_t>(rows.size()), static_cast<int64_t>(columns)});
  }
  // Row-major values.
  template <typename T>
  static Result<Literal> CreateFromArray(Span<std::type_identity_t<T>> values, Span<int64_t> dimensions) {
    KRAFLA_ASSIGN(Shape shape, Shape::MakeArray(NativeToPrimitiveType<T>(), dimensions));
    return Literal::FromBytes(shape, std::as_bytes(std::span<const T>(values)));
  }
  // `value` everywhere.
  template <typename T>
  static Result<Literal> CreateFilled(Span<int64_t> dimensions, T value) {
    KRAFLA_ASSIGN(Shape shape, Shape::MakeArray(NativeToPrimitiveType<T>(), dimensions));
    KRAFLA_ASSIGN(Literal out, Literal::CreateUninitialized(shape));
    for (Stored<T>& x : out.template data<Stored<T>>()) x = value;
    return out;
  }

  // The elements in row-major order. INVALID_ARGUMENT where the literal is no array of T.
  template <typename T>
  static Result<std::vector<Stored<T>>> Values(const Literal& literal) {
    KRAFLA_TRY(CheckType<T>(literal));
    auto data = literal.data<Stored<T>>();
    return std::vector<Stored<T>>(data.begin(), data.end());
  }
  // One element. OUT_OF_RANGE for an index outside.
  template <typename T>
  static Result<T> Get(const Literal& literal, Span<int64_t> index) {
    KRAFLA_TRY(CheckType<T>(literal));
    const Dims& dims = literal.shape().dims();
    if (index.size() != dims.size())
      return InvalidArgument("{} takes an index of {} numbers, {} were given.", literal.shape().ToString(false),
                             dims.size(), index.size());
    for (std::size_t i = 0; i < index.size(); ++i)
      if (index[i] < 0 || index[i] >= dims[i])
        return OutOfRange("Index {} of dimension {} is outside [0, {}).", index[i], i, dims[i]);
    return static_cast<T>(literal.data<Stored<T>>()[static_cast<std::size_t>(LinearizeIndex(index, dims))]);
  }

 private:
  template <typename T>
  static Result<Literal> FromStored(const std::vector<Stored<T>>& values, Span<int64_t> dimensions) {
    KRAFLA_ASSIGN(Shape shape, Shape::MakeArray(NativeToPrimitiveType<T>(), dimensions));
    return Literal::FromBytes(shape, std::as_bytes(std::span(values)));
  }
  template <typename T>
  static Result<> CheckType(const Literal& literal) {
    if (literal.shape().element_type() == NativeToPrimitiveType<T>()) return {};
    return InvalidArgument("The literal is {}, an array of {} was asked for.", literal.shape().ToString(false),
                           ElementTypeName(NativeToPrimitiveType<T>()));
  }
};

}  // namespace krafla
