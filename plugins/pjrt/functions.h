// SPDX-License-Identifier: Apache-2.0
// The functions behind the slots of PJRT_Api, named as those. Each reads and writes only fields up to the one that
// plugin.cpp names beside it; the few that look further ask Has().
#pragma once

#include "krafla/status.h"
#include "plugins/pjrt/abi/pjrt_api.h"

namespace krafla::pjrt {

#define KRAFLA_PJRT_DECLARE(name) Result<> name(PJRT_##name##_Args& args);
KRAFLA_PJRT_SLOTS(KRAFLA_PJRT_DECLARE)
#undef KRAFLA_PJRT_DECLARE

// Whether the caller knows the field.
#define KRAFLA_PJRT_HAS(args, field) \
  ((args).struct_size >= offsetof(std::remove_cvref_t<decltype(args)>, field) + sizeof((args).field))

// The chain of extensions that PJRT_Api begins with.
PJRT_Extension_Base* Extensions();

}  // namespace krafla::pjrt
