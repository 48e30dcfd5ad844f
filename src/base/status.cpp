// SPDX-License-Identifier: Apache-2.0
#include "krafla/status.h"

#include <cstdio>
#include <cstdlib>

namespace krafla {

std::string_view StatusCodeName(StatusCode code) {
  switch (code) {
    case StatusCode::kCancelled: return "CANCELLED";
    case StatusCode::kUnknown: return "UNKNOWN";
    case StatusCode::kInvalidArgument: return "INVALID_ARGUMENT";
    case StatusCode::kDeadlineExceeded: return "DEADLINE_EXCEEDED";
    case StatusCode::kNotFound: return "NOT_FOUND";
    case StatusCode::kAlreadyExists: return "ALREADY_EXISTS";
    case StatusCode::kPermissionDenied: return "PERMISSION_DENIED";
    case StatusCode::kResourceExhausted: return "RESOURCE_EXHAUSTED";
    case StatusCode::kFailedPrecondition: return "FAILED_PRECONDITION";
    case StatusCode::kAborted: return "ABORTED";
    case StatusCode::kOutOfRange: return "OUT_OF_RANGE";
    case StatusCode::kUnimplemented: return "UNIMPLEMENTED";
    case StatusCode::kInternal: return "INTERNAL";
    case StatusCode::kUnavailable: return "UNAVAILABLE";
    case StatusCode::kDataLoss: return "DATA_LOSS";
    case StatusCode::kUnauthenticated: return "UNAUTHENTICATED";
  }
  return "UNKNOWN";
}

std::string FormatMessage(std::string_view format, std::format_args args) { return std::vformat(format, args); }

Failure FormatError(StatusCode code, std::string_view format, std::format_args args) {
  return Failure(Status(code, FormatMessage(format, args)));
}

std::string Status::ToString() const {
  std::string out = Format("{}: {}", StatusCodeName(code_), message_);
  for (const std::string& line : context_) out += "\n  " + line;
  return out;
}

void CheckFailed(const char* file, int line, const char* what) {
  std::fprintf(stderr, "krafla: internal error at %s:%d: %s\n", file, line, what);
  std::abort();
}

}  // namespace krafla
