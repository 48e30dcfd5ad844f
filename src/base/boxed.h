// SPDX-License-Identifier: Apache-2.0
// A value that lies elsewhere: copied and compared as itself, and a pointer large. For rare, large members of types of
// which there are many.
#pragma once

#include <memory>
#include <utility>

namespace krafla {

template <typename T>
class Boxed {
 public:
  Boxed() : value_(std::make_unique<T>()) {}
  Boxed(T value) : value_(std::make_unique<T>(std::move(value))) {}
  Boxed(const Boxed& other) : value_(std::make_unique<T>(*other)) {}
  // What was moved from may be assigned to and destroyed, no more.
  Boxed(Boxed&&) noexcept = default;
  Boxed& operator=(Boxed other) noexcept {
    value_.swap(other.value_);
    return *this;
  }

  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return value_.get(); }
  const T* operator->() const { return value_.get(); }
  operator const T&() const { return *value_; }

  friend bool operator==(const Boxed& a, const Boxed& b) { return *a == *b; }

 private:
  std::unique_ptr<T> value_;
};

}  // namespace krafla
