// SPDX-License-Identifier: Apache-2.0
#include "plugins/pjrt/event.h"

#include "plugins/pjrt/error.h"

namespace krafla::pjrt {

Result<> Event_Destroy(PJRT_Event_Destroy_Args& args) {
  delete args.event;
  return {};
}

Result<> Event_IsReady(PJRT_Event_IsReady_Args& args) {
  args.is_ready = args.event->completion->done();
  return {};
}

Result<> Event_Error(PJRT_Event_Error_Args& args) {
  const std::shared_ptr<Completion> completion = args.event->completion;
  if (!completion->done()) return FailedPrecondition("The event has not happened yet: it has no outcome to tell.");
  if (const Status* error = completion->error()) return Failure(*error);
  return {};
}

Result<> Event_Await(PJRT_Event_Await_Args& args) {
  const std::shared_ptr<Completion> completion = args.event->completion;
  completion->Wait();
  if (const Status* error = completion->error()) return Failure(*error);
  return {};
}

Result<> Event_OnReady(PJRT_Event_OnReady_Args& args) {
  // The callback may destroy the event while it is being registered.
  const std::shared_ptr<Completion> completion = args.event->completion;
  completion->Then([callback = args.callback, user_arg = args.user_arg](const Status* error) {
    callback(error != nullptr ? NewError(*error) : nullptr, user_arg);
  });
  return {};
}

Result<> Event_Create(PJRT_Event_Create_Args& args) {
  args.event = NewEvent(std::make_shared<Completion>());
  return {};
}

Result<> Event_Set(PJRT_Event_Set_Args& args) {
  const std::shared_ptr<Completion> completion = args.event->completion;
  std::optional<Status> error;
  if (args.error_code != 0) error = StatusFrom(args.error_code, args.error_message, args.error_message_size);
  if (!completion->Finish(std::move(error))) return FailedPrecondition("The event has happened already.");
  return {};
}

}  // namespace krafla::pjrt
