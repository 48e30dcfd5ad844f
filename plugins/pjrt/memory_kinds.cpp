// SPDX-License-Identifier: Apache-2.0
// In which memory a program takes its arguments and leaves its results: always the device's own.
#include "plugins/pjrt/program.h"

namespace krafla::pjrt {

Result<> Executable_OutputMemoryKinds(PJRT_Executable_OutputMemoryKinds_Args& args) {
  const Program& program = *args.executable->program;
  args.num_outputs = program.results().size();
  args.memory_kinds = program.memory_kinds().data();
  args.memory_kind_sizes = program.memory_kind_sizes().data();
  return {};
}

Result<> Executable_ParameterMemoryKinds(PJRT_Executable_ParameterMemoryKinds_Args& args) {
  const Program& program = *args.executable->program;
  args.num_parameters = program.parameters().size();
  args.memory_kinds = program.memory_kinds().data();
  args.memory_kind_sizes = program.memory_kind_sizes().data();
  return {};
}

}  // namespace krafla::pjrt
