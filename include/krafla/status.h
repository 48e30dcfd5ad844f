// SPDX-License-Identifier: Apache-2.0
// Errors as values. A Status is always an error: what failed, where, why and what to do, with a chain of context
// lines added on the way out. Result<T> carries either a T or a Status. Nothing here throws.
#pragma once

#include <expected>
#include <format>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "krafla/export.h"

KRAFLA_EXPORT_BEGIN
namespace krafla {

// Numbered as absl::StatusCode and PJRT_Error_Code, so that the plugin maps by identity.
enum class StatusCode : int {
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

std::string_view StatusCodeName(StatusCode code);  // "INVALID_ARGUMENT"

class [[nodiscard]] Status {
 public:
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::vector<std::string>& context() const { return context_; }

  // Adds an outer line, e.g. "while parsing instruction 'add.3'".
  Status&& WithContext(std::string line) && {
    context_.push_back(std::move(line));
    return std::move(*this);
  }
  std::string ToString() const;  // "INVALID_ARGUMENT: message\n  while ..."

 private:
  StatusCode code_;
  std::string message_;
  std::vector<std::string> context_;
};

template <typename T = void>
using Result = std::expected<T, Status>;

using Failure = std::unexpected<Status>;

// std::format, compiled once: its own would be made anew in every file that writes a message, a second each.
std::string FormatMessage(std::string_view format, std::format_args args);
template <typename... Args>
std::string Format(std::format_string<Args...> format, Args&&... args) {
  return FormatMessage(format.get(), std::make_format_args(args...));
}

// The same for errors: of each call there is only what brings its arguments together.
Failure FormatError(StatusCode code, std::string_view format, std::format_args args);
template <typename... Args>
Failure MakeError(StatusCode code, std::format_string<Args...> format, Args&&... args) {
  return FormatError(code, format.get(), std::make_format_args(args...));
}
#define KRAFLA_DEFINE_ERROR(Name)                                                          \
  template <typename... Args>                                                              \
  Failure Name(std::format_string<Args...> format, Args&&... args) {                       \
    return FormatError(StatusCode::k##Name, format.get(), std::make_format_args(args...)); \
  }
KRAFLA_DEFINE_ERROR(InvalidArgument)
KRAFLA_DEFINE_ERROR(DeadlineExceeded)
KRAFLA_DEFINE_ERROR(NotFound)
KRAFLA_DEFINE_ERROR(ResourceExhausted)
KRAFLA_DEFINE_ERROR(FailedPrecondition)
KRAFLA_DEFINE_ERROR(Aborted)
KRAFLA_DEFINE_ERROR(OutOfRange)
KRAFLA_DEFINE_ERROR(Unimplemented)
KRAFLA_DEFINE_ERROR(Internal)
KRAFLA_DEFINE_ERROR(Unavailable)
KRAFLA_DEFINE_ERROR(DataLoss)
#undef KRAFLA_DEFINE_ERROR

#define KRAFLA_CONCAT_INNER(a, b) a##b
#define KRAFLA_CONCAT(a, b) KRAFLA_CONCAT_INNER(a, b)

// Returns the error of `expr` from the enclosing function, if it has one.
#define KRAFLA_TRY(expr)                                                            \
  do {                                                                              \
    auto krafla_result = (expr);                                                    \
    if (!krafla_result) return ::krafla::Failure(std::move(krafla_result).error()); \
  } while (false)

// KRAFLA_ASSIGN(auto x, F()): x is F()'s value, or the function returns its error.
#define KRAFLA_ASSIGN(lhs, expr) KRAFLA_ASSIGN_INNER(KRAFLA_CONCAT(krafla_result_, __LINE__), lhs, expr)
#define KRAFLA_ASSIGN_INNER(tmp, lhs, expr)                   \
  auto tmp = (expr);                                          \
  if (!tmp) return ::krafla::Failure(std::move(tmp).error()); \
  lhs = std::move(*tmp)

[[noreturn]] void CheckFailed(const char* file, int line, const char* what);

// Our own bug, never reachable from input bytes. Always on.
#define KRAFLA_CHECK(condition)                              \
  do {                                                       \
    if (!(condition)) [[unlikely]]                           \
      ::krafla::CheckFailed(__FILE__, __LINE__, #condition); \
  } while (false)
#define KRAFLA_UNREACHABLE() ::krafla::CheckFailed(__FILE__, __LINE__, "unreachable")

}  // namespace krafla
KRAFLA_EXPORT_END
