// SPDX-License-Identifier: Apache-2.0
// A vector of a trivially copyable type that holds its first N elements without an allocation. Dimension lists are
// everywhere and almost always short.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <span>
#include <type_traits>

#include "krafla/status.h"

KRAFLA_EXPORT_BEGIN
namespace krafla {

template <typename T, std::size_t N>
class InlineVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  InlineVector() = default;
  InlineVector(std::initializer_list<T> values) { assign(values.begin(), values.end()); }
  explicit InlineVector(std::size_t count, const T& value = T()) { resize(count, value); }
  template <std::forward_iterator It>
  InlineVector(It first, It last) {  // NOLINT(performance-unnecessary-value-param): iterators are values
    assign(first, last);
  }
  InlineVector(std::span<const T> values) { assign(values.begin(), values.end()); }  // NOLINT: a view converts
  InlineVector(const InlineVector& other) { assign(other.begin(), other.end()); }
  InlineVector(InlineVector&& other) noexcept { Steal(other); }
  InlineVector& operator=(const InlineVector& other) {
    if (this != &other) assign(other.begin(), other.end());
    return *this;
  }
  InlineVector& operator=(InlineVector&& other) noexcept {
    if (this != &other) {
      heap_.reset();
      Steal(other);
    }
    return *this;
  }
  ~InlineVector() = default;

  T* data() { return heap_ ? heap_.get() : inline_; }
  const T* data() const { return heap_ ? heap_.get() : inline_; }
  std::size_t size() const { return size_; }
  int64_t ssize() const { return static_cast<int64_t>(size_); }
  bool empty() const { return size_ == 0; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  auto rbegin() { return std::reverse_iterator(end()); }
  auto rend() { return std::reverse_iterator(begin()); }
  auto rbegin() const { return std::reverse_iterator(end()); }
  auto rend() const { return std::reverse_iterator(begin()); }
  T& operator[](std::size_t i) {
    KRAFLA_CHECK(i < size_);
    return data()[i];
  }
  const T& operator[](std::size_t i) const {
    KRAFLA_CHECK(i < size_);
    return data()[i];
  }
  T& back() { return (*this)[size_ - 1]; }
  const T& back() const { return (*this)[size_ - 1]; }
  T& front() { return (*this)[0]; }
  const T& front() const { return (*this)[0]; }

  void push_back(const T& value) {
    T copy = value;
    Reserve(size_ + 1);
    data()[size_++] = copy;
  }
  void pop_back() {
    KRAFLA_CHECK(size_ > 0);
    --size_;
  }
  void clear() { size_ = 0; }
  void resize(std::size_t count, const T& value = T()) {
    T copy = value;
    Reserve(count);
    for (std::size_t i = size_; i < count; ++i) data()[i] = copy;
    size_ = count;
  }
  template <std::forward_iterator It>
  void assign(It first, It last) {  // NOLINT(performance-unnecessary-value-param): iterators are values
    std::size_t count = static_cast<std::size_t>(std::distance(first, last));
    size_ = 0;
    Reserve(count);
    std::copy(first, last, data());
    size_ = count;
  }
  template <std::forward_iterator It>
  void append(It first, It last) {
    for (; first != last; ++first) push_back(*first);
  }
  T* insert(const T* position, const T& value) {
    std::size_t at = static_cast<std::size_t>(position - data());
    KRAFLA_CHECK(at <= size_);
    push_back(value);
    std::rotate(data() + at, data() + size_ - 1, data() + size_);
    return data() + at;
  }
  T* erase(const T* position) {
    std::size_t at = static_cast<std::size_t>(position - data());
    KRAFLA_CHECK(at < size_);
    std::copy(data() + at + 1, data() + size_, data() + at);
    --size_;
    return data() + at;
  }

  std::span<const T> span() const { return {data(), size_}; }

  friend bool operator==(const InlineVector& a, const InlineVector& b) {
    return a.size_ == b.size_ && std::equal(a.begin(), a.end(), b.begin());
  }

 private:
  void Reserve(std::size_t count) {
    if (count <= capacity_) return;
    std::size_t capacity = std::max(count, capacity_ * 2);
    auto grown = std::make_unique_for_overwrite<T[]>(capacity);
    std::copy(begin(), end(), grown.get());
    heap_ = std::move(grown);
    capacity_ = capacity;
  }
  void Steal(InlineVector& other) {
    size_ = other.size_;
    capacity_ = other.capacity_;
    heap_ = std::move(other.heap_);
    if (!heap_) std::copy(other.inline_, other.inline_ + std::min(size_, N), inline_);
    other.size_ = 0;
    other.capacity_ = N;
  }

  std::size_t size_ = 0;
  std::size_t capacity_ = N;
  std::unique_ptr<T[]> heap_;
  T inline_[N] = {};
};

using Dims = InlineVector<int64_t, 6>;

}  // namespace krafla
KRAFLA_EXPORT_END
