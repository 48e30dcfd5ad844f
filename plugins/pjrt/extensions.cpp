// SPDX-License-Identifier: Apache-2.0
// The chain of extensions: Profiler (profiler.cpp), CustomPartitioner (custom_partitioner.cpp), CrossHostTransfers
// (cross_host.cpp), Layouts (layouts.cpp), and here Shardings, how the arguments and results of a program for several
// devices lie over them. Callers ask where they left the choice to us.
#include "plugins/pjrt/cross_host.h"
#include "plugins/pjrt/custom_partitioner.h"
#include "plugins/pjrt/entry.h"
#include "plugins/pjrt/functions.h"
#include "plugins/pjrt/layouts.h"
#include "plugins/pjrt/profiler.h"
#include "plugins/pjrt/program.h"

namespace krafla::pjrt {
namespace {

Result<> ParameterShardings(PJRT_Shardings_PJRT_Executable_ParameterShardings_Args& args) {
  const ShardingList& list = args.executable->program->parameter_shardings();
  args.num_parameters = list.bytes.size();
  args.shardings = list.pointers.empty() ? nullptr : list.pointers.data();
  args.sharding_sizes = list.sizes.empty() ? nullptr : list.sizes.data();
  return {};
}

Result<> OutputShardings(PJRT_Shardings_PJRT_Executable_OutputShardings_Args& args) {
  const ShardingList& list = args.executable->program->result_shardings();
  args.num_outputs = list.bytes.size();
  args.shardings = list.pointers.empty() ? nullptr : list.pointers.data();
  args.sharding_sizes = list.sizes.empty() ? nullptr : list.sizes.data();
  return {};
}

}  // namespace

PJRT_Extension_Base* Extensions() {
  CustomPartitionerExtension()->base.next = &ProfilerExtension()->base;
  CrossHostExtension()->base.next = &CustomPartitionerExtension()->base;
  LayoutsExtension()->base.next = &CrossHostExtension()->base;
  static PJRT_Shardings_Extension shardings = [] {
    PJRT_Shardings_Extension out = {};
    out.base.struct_size = sizeof(PJRT_Shardings_Extension);
    out.base.type = kPjrtShardingsExtension;
    out.base.next = &LayoutsExtension()->base;
    using Parameters = PJRT_Shardings_PJRT_Executable_ParameterShardings_Args;
    using Outputs = PJRT_Shardings_PJRT_Executable_OutputShardings_Args;
    out.PJRT_Shardings_PJRT_Executable_ParameterShardings = [](Parameters* args) -> PJRT_Error* {
      return Enter("PJRT_Shardings_PJRT_Executable_ParameterShardings", args,
                   offsetof(Parameters, sharding_sizes) + sizeof(Parameters::sharding_sizes), &ParameterShardings);
    };
    out.PJRT_Shardings_PJRT_Executable_OutputShardings = [](Outputs* args) -> PJRT_Error* {
      return Enter("PJRT_Shardings_PJRT_Executable_OutputShardings", args,
                   offsetof(Outputs, sharding_sizes) + sizeof(Outputs::sharding_sizes), &OutputShardings);
    };
    return out;
  }();
  return &shardings.base;
}

}  // namespace krafla::pjrt
