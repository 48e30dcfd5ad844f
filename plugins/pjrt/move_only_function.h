// SPDX-License-Identifier: Apache-2.0
// std::move_only_function, which LLVM's library has not got: something that can be called and moved, not copied.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace krafla::pjrt {

template <typename Signature>
class MoveOnlyFunction;

template <typename R, typename... Arguments>
class MoveOnlyFunction<R(Arguments...)> {
 public:
  MoveOnlyFunction() = default;
  MoveOnlyFunction(std::nullptr_t) {}  // NOLINT(google-explicit-constructor): as the standard's
  template <typename F>
    requires(!std::same_as<std::remove_cvref_t<F>, MoveOnlyFunction> && std::is_invocable_r_v<R, F&, Arguments...>)
  MoveOnlyFunction(F&& function)  // NOLINT(google-explicit-constructor): as the standard's
      : target_(std::make_unique<Target<std::decay_t<F>>>(std::forward<F>(function))) {}

  explicit operator bool() const { return target_ != nullptr; }
  // There is one to call.
  R operator()(Arguments... arguments) { return target_->Call(std::forward<Arguments>(arguments)...); }

 private:
  struct Callable {
    virtual ~Callable() = default;
    virtual R Call(Arguments... arguments) = 0;
  };
  template <typename F>
  struct Target final : Callable {
    explicit Target(F f) : function(std::move(f)) {}
    R Call(Arguments... arguments) override { return function(std::forward<Arguments>(arguments)...); }
    F function;
  };

  std::unique_ptr<Callable> target_;
};

}  // namespace krafla::pjrt
