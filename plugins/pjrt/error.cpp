// SPDX-License-Identifier: Apache-2.0
#include "plugins/pjrt/error.h"

#include "plugins/pjrt/functions.h"

namespace krafla::pjrt {
namespace {

void Destroy(PJRT_Error* error) { delete error; }
void Message(const PJRT_Error* error, const char** message, std::size_t* size) {
  *message = error->message.data();
  *size = error->message.size();
}
PJRT_Error_Code Code(const PJRT_Error* error) { return static_cast<PJRT_Error_Code>(error->code); }
// Our errors carry none.
void ForEachPayload(const PJRT_Error*, PJRT_Error_PayloadVisitor, void*) {}

constexpr PJRT_Error_FunctionTable kErrorFunctions = {
    sizeof(PJRT_Error_FunctionTable), sizeof(PJRT_Error), nullptr, &Destroy, &Message, &Code, &ForEachPayload};

}  // namespace

PJRT_Error* NewError(const Status& status) {
  auto* error = new PJRT_Error{&kErrorFunctions, status.code(), status.message()};
  for (const std::string& line : status.context()) error->message += "\n  " + line;
  return error;
}

PJRT_Error* ToError(const Result<>& result) { return result ? nullptr : NewError(result.error()); }

Status StatusFrom(PJRT_Error_Code code, const char* message, std::size_t message_size) {
  const bool known = code >= 1 && code <= 16;
  return Status(known ? static_cast<StatusCode>(code) : StatusCode::kUnknown,
                message == nullptr ? std::string() : std::string(message, message_size));
}

// A caller of a later version may hand us errors of its own kind: their table says how to treat them.
void Error_Destroy(PJRT_Error_Destroy_Args* args) {
  if (args != nullptr && args->error != nullptr) args->error->vtable->destroy(args->error);
}
void Error_Message(PJRT_Error_Message_Args* args) {
  args->error->vtable->message(args->error, &args->message, &args->message_size);
}
Result<> Error_GetCode(PJRT_Error_GetCode_Args& args) {
  args.code = args.error->vtable->get_code(args.error);
  return {};
}
Result<> Error_ForEachPayload(PJRT_Error_ForEachPayload_Args& args) {
  args.error->vtable->for_each_payload(args.error, args.visitor, args.user_arg);
  return {};
}

}  // namespace krafla::pjrt
