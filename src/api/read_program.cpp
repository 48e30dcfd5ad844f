// SPDX-License-Identifier: Apache-2.0
#include "api/read_program.h"

#include "api/front_end.h"
#include "hlo_io/hlo_proto/hlo_proto.h"
#include "hlo_io/read_module.h"

namespace krafla {

Result<std::unique_ptr<Module>> ReadProgram(std::string_view bytes, std::string_view name) {
  return WithoutExceptions([&] { return ReadModule(bytes, name); });
}

Result<std::string> SerializeProgram(const Module& module) {
  return WithoutExceptions([&] { return SerializeHloProto(module, true); });
}

}  // namespace krafla
