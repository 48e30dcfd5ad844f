// SPDX-License-Identifier: Apache-2.0
// HloModuleProto (xla/service/hlo.proto) in and out. Unknown fields are skipped, as protobuf wants. What the IR does
// not keep is not read: profiles, prefetches, schedules beyond whether there is one. Input is untrusted: any bytes give
// a module or an error, in linear time. Not thread-safe per module; calls are independent of each other.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "ir/module.h"
#include "krafla/status.h"

namespace krafla {

struct HloProtoLimits {
  int64_t max_instructions = 5'000'000;
  int max_depth = 200;                            // nesting of tuple shapes, literals and shardings
  int64_t max_constant_bytes = int64_t{4} << 30;  // of all constants together
};

// Takes a HloModuleProto, and a HloProto or HloSnapshot around one. `file` is for messages only. The module is not
// verified. Errors: INVALID_ARGUMENT, naming the instruction; UNIMPLEMENTED for what the IR cannot hold.
Result<std::unique_ptr<Module>> ParseHloProto(std::span<const std::byte> bytes, std::string_view file = "<proto>",
                                              const HloProtoLimits& limits = {});
// Whether the bytes begin like a serialized HloModuleProto or HloProto and not like text.
bool LooksLikeHloProto(std::string_view bytes);

// UNIMPLEMENTED for a sharding, layout or metadata text that has no counterpart in the proto. With `unique_names`
// instructions are renamed where others of the module have their name, which XLA's reader refuses.
Result<std::string> SerializeHloProto(const Module& module, bool unique_names = false);

}  // namespace krafla
