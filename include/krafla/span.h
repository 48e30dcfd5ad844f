// SPDX-License-Identifier: Apache-2.0
// A list of values as an argument: made from braces, a vector, an array, a Dims or a std::span. It does not own them,
// so it is for parameters only.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <ranges>
#include <span>
#include <type_traits>

namespace krafla {

template <typename T>
class Span {
 public:
  Span() = default;
  // In the body: compilers warn of a member initialised with what braces hold, which here is meant.
  Span(std::initializer_list<T> values) {
    data_ = values.begin();
    size_ = values.size();
  }
  Span(const T* data, std::size_t size) : data_(data), size_(size) {}
  template <std::ranges::contiguous_range R>
    requires std::ranges::sized_range<R> && std::is_same_v<std::ranges::range_value_t<R>, T> &&
                 (!std::is_same_v<std::remove_cvref_t<R>, Span>)
  Span(const R& range) : data_(std::ranges::data(range)), size_(std::ranges::size(range)) {}  // NOLINT: views convert

  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  const T* data() const { return data_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T& operator[](std::size_t i) const { return data_[i]; }

 private:
  const T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace krafla
