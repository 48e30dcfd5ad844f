// SPDX-License-Identifier: Apache-2.0
// In which memory a program leaves its results. It takes arguments from any.
#include "plugins/pjrt/program.h"

namespace krafla::pjrt {

Result<> Executable_OutputMemoryKinds(PJRT_Executable_OutputMemoryKinds_Args& args) {
  const Program& program = *args.executable->program;
  args.num_outputs = program.results().size();
  args.memory_kinds = program.memory_kinds().data();
  args.memory_kind_sizes = program.memory_kind_sizes().data();
  return {};
}

}  // namespace krafla::pjrt
