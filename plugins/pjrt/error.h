// SPDX-License-Identifier: Apache-2.0
// Errors as they cross the border.
#pragma once

#include <string>

#include "krafla/status.h"
#include "plugins/pjrt/abi/pjrt_api.h"

struct PJRT_Error {
  const PJRT_Error_FunctionTable* vtable;  // first: callers of later versions look here
  krafla::StatusCode code;
  std::string message;
};

namespace krafla::pjrt {

PJRT_Error* NewError(const Status& status);
// Null for success.
PJRT_Error* ToError(const Result<>& result);
// An error from outside.
Status StatusFrom(PJRT_Error_Code code, const char* message, std::size_t message_size);

void Error_Destroy(PJRT_Error_Destroy_Args* args);
void Error_Message(PJRT_Error_Message_Args* args);

}  // namespace krafla::pjrt
