// SPDX-License-Identifier: Apache-2.0
// Compiling, and what a compiled program tells of itself.
#include <cstring>

#include "plugins/pjrt/program.h"

struct PJRT_DeviceAssignmentSerialized {
  std::string bytes;
};
struct PJRT_SerializedCompileOptions {};
struct PJRT_ExecuteContext {};

namespace krafla::pjrt {

Result<> Client_Compile(PJRT_Client_Compile_Args& args) {
  ProgramSource source;
  source.code.assign(args.program->code, args.program->code_size);
  source.format.assign(args.program->format, args.program->format_size);
  source.options.assign(args.compile_options, args.compile_options_size);
  KRAFLA_ASSIGN(std::shared_ptr<Program> program, Program::Compile(*args.client, std::move(source)));
  args.executable = NewLoadedExecutable(std::move(program));
  return {};
}

// Compiling needs a device here: the one that the executable was compiled for.
Result<> Client_Load(PJRT_Client_Load_Args& args) {
  args.loaded_executable = NewLoadedExecutable(args.executable->program);
  return {};
}

Result<> LoadedExecutable_GetExecutable(PJRT_LoadedExecutable_GetExecutable_Args& args) {
  args.executable = new PJRT_Executable{args.loaded_executable->program};
  return {};
}
Result<> LoadedExecutable_Destroy(PJRT_LoadedExecutable_Destroy_Args& args) {
  delete args.executable;
  return {};
}
Result<> Executable_Destroy(PJRT_Executable_Destroy_Args& args) {
  delete args.executable;
  return {};
}
Result<> LoadedExecutable_Delete(PJRT_LoadedExecutable_Delete_Args& args) {
  args.executable->deleted = true;
  return {};
}
Result<> LoadedExecutable_IsDeleted(PJRT_LoadedExecutable_IsDeleted_Args& args) {
  args.is_deleted = args.executable->deleted;
  return {};
}
Result<> LoadedExecutable_AddressableDevices(PJRT_LoadedExecutable_AddressableDevices_Args& args) {
  args.addressable_devices = args.executable->program->devices().data();
  args.num_addressable_devices = args.executable->program->devices().size();
  return {};
}
Result<> LoadedExecutable_AddressableDeviceLogicalIds(PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args& args) {
  args.addressable_device_logical_ids = args.executable->logical_ids.data();
  args.num_addressable_device_logical_ids = args.executable->logical_ids.size();
  return {};
}

// A portable program has none, which is said by no bytes.
Result<> LoadedExecutable_GetDeviceAssignment(PJRT_LoadedExecutable_GetDeviceAssignment_Args& args) {
  const ProgramOptions& options = args.executable->program->options();
  auto* serialized = new PJRT_DeviceAssignmentSerialized;
  if (!options.portable) serialized->bytes = SerializeDeviceAssignment(options.assignment);
  args.serialized_bytes = serialized->bytes.data();
  args.serialized_bytes_size = serialized->bytes.size();
  args.serialized_device_assignment = serialized;
  args.serialized_device_assignment_deleter = [](PJRT_DeviceAssignmentSerialized* gone) { delete gone; };
  return {};
}

Result<> LoadedExecutable_Fingerprint(PJRT_LoadedExecutable_Fingerprint_Args& args) {
  args.executable_fingerprint = args.executable->program->fingerprint().data();
  args.executable_fingerprint_size = args.executable->program->fingerprint().size();
  return {};
}
Result<> Executable_Fingerprint(PJRT_Executable_Fingerprint_Args& args) {
  args.executable_fingerprint = args.executable->program->fingerprint().data();
  args.executable_fingerprint_size = args.executable->program->fingerprint().size();
  return {};
}

Result<> Executable_Name(PJRT_Executable_Name_Args& args) {
  args.executable_name = args.executable->program->name().data();
  args.executable_name_size = args.executable->program->name().size();
  return {};
}
Result<> Executable_NumReplicas(PJRT_Executable_NumReplicas_Args& args) {
  args.num_replicas = static_cast<std::size_t>(args.executable->program->options().assignment.replicas);
  return {};
}
Result<> Executable_NumPartitions(PJRT_Executable_NumPartitions_Args& args) {
  args.num_partitions = static_cast<std::size_t>(args.executable->program->options().assignment.partitions);
  return {};
}
Result<> Executable_NumOutputs(PJRT_Executable_NumOutputs_Args& args) {
  args.num_outputs = args.executable->program->results().size();
  return {};
}
Result<> Executable_OutputElementTypes(PJRT_Executable_OutputElementTypes_Args& args) {
  args.output_types = const_cast<PJRT_Buffer_Type*>(args.executable->program->result_types().data());
  args.num_output_types = args.executable->program->result_types().size();
  return {};
}
Result<> Executable_OutputDimensions(PJRT_Executable_OutputDimensions_Args& args) {
  const Program& program = *args.executable->program;
  args.num_outputs = program.results().size();
  args.dims = program.result_dims().data();
  args.dim_sizes = program.result_ranks().data();
  return {};
}

// Callers convert StableHLO to HLO themselves.
Result<> Executable_OptimizedProgram(PJRT_Executable_OptimizedProgram_Args& args) {
  const Program::Text text = args.executable->program->OptimizedText();
  PJRT_Program& out = *args.program;
  out.format = text.format.data();
  out.format_size = text.format.size();
  if (out.code != nullptr) {
    if (out.code_size < text.code.size())
      return InvalidArgument("The program takes {} bytes, there is room for {}.", text.code.size(), out.code_size);
    std::memcpy(out.code, text.code.data(), text.code.size());
  }
  out.code_size = text.code.size();
  return {};
}

// Contexts carry user data to handlers of custom calls; ours take none.
Result<> ExecuteContext_Create(PJRT_ExecuteContext_Create_Args& args) {
  args.context = new PJRT_ExecuteContext;
  return {};
}
Result<> ExecuteContext_Destroy(PJRT_ExecuteContext_Destroy_Args& args) {
  delete args.context;
  return {};
}

Result<> Executable_GetCompileOptions(PJRT_Executable_GetCompileOptions_Args& args) {
  // They live as long as the executable.
  args.serialized_bytes = args.executable->program->source().options.data();
  args.serialized_bytes_size = args.executable->program->source().options.size();
  args.serialized_compile_options = nullptr;
  args.serialized_compile_options_deleter = [](PJRT_SerializedCompileOptions*) {};
  return {};
}

}  // namespace krafla::pjrt
