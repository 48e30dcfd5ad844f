// SPDX-License-Identifier: Apache-2.0
// What a compiled program takes: work, memory, code.
#include "plugins/pjrt/program.h"

namespace krafla::pjrt {
namespace {

int64_t Bytes(const std::vector<Shape>& shapes) {
  int64_t sum = 0;
  for (const Shape& s : shapes) sum += DeviceBytes(s);
  return sum;
}

}  // namespace

// Names as XLA's cost analysis gives them.
Result<> Executable_GetCostAnalysis(PJRT_Executable_GetCostAnalysis_Args& args) {
  const NamedValues& cost = args.executable->program->cost();
  args.properties = cost.data();
  args.num_properties = cost.size();
  return {};
}

Result<> Executable_GetCompiledMemoryStats(PJRT_Executable_GetCompiledMemoryStats_Args& args) {
  const Program& program = *args.executable->program;
  int64_t aliased = 0;
  for (std::size_t i = 0; i < program.parameters().size(); ++i)
    if (program.donates(i)) aliased += DeviceBytes(program.parameters()[i]);
  args.generated_code_size_in_bytes = 0;
  args.argument_size_in_bytes = Bytes(program.parameters());
  args.output_size_in_bytes = Bytes(program.results());
  args.alias_size_in_bytes = std::min(aliased, args.output_size_in_bytes);
  args.temp_size_in_bytes = program.report().arena_bytes;
  args.host_generated_code_size_in_bytes = 0;
  args.host_argument_size_in_bytes = 0;
  args.host_output_size_in_bytes = 0;
  args.host_alias_size_in_bytes = 0;
  args.host_temp_size_in_bytes = 0;
  const int64_t peak = args.argument_size_in_bytes + args.output_size_in_bytes - args.alias_size_in_bytes +
                       program.report().peak_live_bytes;
  // Later fields: only where the caller has room for them.
  if (KRAFLA_PJRT_HAS(args, peak_memory_in_bytes)) args.peak_memory_in_bytes = peak;
  if (KRAFLA_PJRT_HAS(args, total_size_in_bytes)) args.total_size_in_bytes = peak;
  if (KRAFLA_PJRT_HAS(args, total_allocation_bytes)) args.total_allocation_bytes = peak;
  if (KRAFLA_PJRT_HAS(args, indefinite_allocations)) args.indefinite_allocations = 0;
  if (KRAFLA_PJRT_HAS(args, peak_unpadded_heap_bytes)) args.peak_unpadded_heap_bytes = peak;
  return {};
}

// Kernels are made by the driver, which does not say how large they are.
Result<> Executable_SizeOfGeneratedCodeInBytes(PJRT_Executable_SizeOfGeneratedCodeInBytes_Args& args) {
  args.size_in_bytes = 0;
  return {};
}

}  // namespace krafla::pjrt
