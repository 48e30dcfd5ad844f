// SPDX-License-Identifier: Apache-2.0
// Executables as bytes: the program as it came and its options, to be compiled again. A file says which form it has and
// is checked whole before anything of it is used.
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "plugins/pjrt/program.h"

struct PJRT_SerializedExecutable {
  std::string bytes;
};

namespace krafla::pjrt {
namespace {

constexpr std::string_view kMagic = "KRFLPJRT";
constexpr uint64_t kVersion = 1;

void AppendNumber(std::string& out, uint64_t value) {
  for (int i = 0; i < 8; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}
void AppendText(std::string& out, std::string_view text) {
  AppendNumber(out, text.size());
  out += text;
}

uint64_t NumberAt(std::string_view bytes) {
  uint64_t value = 0;
  for (std::size_t i = 0; i < 8; ++i) value |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return value;
}
Result<uint64_t> TakeNumber(std::string_view& bytes) {
  if (bytes.size() < 8) return InvalidArgument("The serialized executable ends too early.");
  const uint64_t value = NumberAt(bytes);
  bytes.remove_prefix(8);
  return value;
}
Result<std::string> TakeText(std::string_view& bytes) {
  KRAFLA_ASSIGN(const uint64_t size, TakeNumber(bytes));
  if (size > bytes.size())
    return InvalidArgument("The serialized executable promises {} bytes more, {} are left.", size, bytes.size());
  std::string out(bytes.substr(0, size));
  bytes.remove_prefix(size);
  return out;
}

std::string Serialize(const ProgramSource& source) {
  std::string out(kMagic);
  AppendNumber(out, kVersion);
  AppendText(out, source.format);
  AppendText(out, source.options);
  AppendText(out, source.code);
  AppendNumber(out, XXH3_64bits(out.data(), out.size()));
  return out;
}

Result<ProgramSource> Deserialize(std::string_view bytes) {
  if (!bytes.starts_with(kMagic)) return InvalidArgument("The bytes are no executable that krafla has serialized.");
  const std::string_view all = bytes;
  bytes.remove_prefix(kMagic.size());
  KRAFLA_ASSIGN(const uint64_t version, TakeNumber(bytes));
  if (version != kVersion)
    return InvalidArgument("The serialized executable has version {}, this plugin reads version {}.", version,
                           kVersion);
  ProgramSource out;
  KRAFLA_ASSIGN(out.format, TakeText(bytes));
  KRAFLA_ASSIGN(out.options, TakeText(bytes));
  KRAFLA_ASSIGN(out.code, TakeText(bytes));
  const std::size_t checked = all.size() - bytes.size();
  KRAFLA_ASSIGN(const uint64_t sum, TakeNumber(bytes));
  if (!bytes.empty() || sum != XXH3_64bits(all.data(), checked))
    return DataLoss("The serialized executable is damaged: its checksum is not that of its bytes.");
  return out;
}

}  // namespace

Result<> Executable_Serialize(PJRT_Executable_Serialize_Args& args) {
  auto* out = new PJRT_SerializedExecutable{Serialize(args.executable->program->source())};
  args.serialized_bytes = out->bytes.data();
  args.serialized_bytes_size = out->bytes.size();
  args.serialized_executable = out;
  args.serialized_executable_deleter = [](PJRT_SerializedExecutable* gone) { delete gone; };
  return {};
}

Result<> Executable_DeserializeAndLoad(PJRT_Executable_DeserializeAndLoad_Args& args) {
  KRAFLA_ASSIGN(ProgramSource source,
                Deserialize(std::string_view(args.serialized_executable, args.serialized_executable_size)));
  if (KRAFLA_PJRT_HAS(args, overridden_serialized_compile_options_size) &&
      args.overridden_serialized_compile_options != nullptr && args.overridden_serialized_compile_options_size > 0)
    source.options.assign(args.overridden_serialized_compile_options, args.overridden_serialized_compile_options_size);
  KRAFLA_ASSIGN(std::shared_ptr<Program> program, Program::Compile(*args.client, std::move(source), true));
  args.loaded_executable = NewLoadedExecutable(std::move(program));
  return {};
}

}  // namespace krafla::pjrt
