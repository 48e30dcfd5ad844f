// SPDX-License-Identifier: Apache-2.0
#include "plugins/pjrt/compile_options.h"

#include <algorithm>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include "plugins/pjrt/xla_flags.h"

namespace krafla::pjrt {
namespace {

using Reader = protozero::pbf_reader;

constexpr int64_t kMaxDevices = 1 << 20;

// protozero throws on damaged bytes; ParseProgramOptions catches.
DeviceAssignment ReadAssignment(Reader reader) {
  DeviceAssignment out;
  std::vector<std::vector<int64_t>> by_partition;
  while (reader.next()) {
    switch (reader.tag()) {
      case 1: out.replicas = reader.get_int32(); break;
      case 2: out.partitions = reader.get_int32(); break;
      case 3: {
        std::vector<int64_t>& ids = by_partition.emplace_back();
        Reader devices = reader.get_message();
        while (devices.next()) {
          if (devices.tag() != 1) {
            devices.skip();
          } else if (devices.wire_type() == protozero::pbf_wire_type::varint) {
            ids.push_back(devices.get_int64());
          } else {
            for (int64_t id : devices.get_packed_int64()) ids.push_back(id);
          }
        }
        break;
      }
      default: reader.skip();
    }
  }
  for (int64_t r = 0; r < out.replicas && r < kMaxDevices; ++r)
    for (const std::vector<int64_t>& ids : by_partition)
      if (r < static_cast<int64_t>(ids.size())) out.ids.push_back(ids[static_cast<std::size_t>(r)]);
  return out;
}

// OptionOverrideProto: one of four.
FlagValue ReadFlagValue(Reader value) {
  FlagValue out;
  while (value.next()) {
    switch (value.tag()) {
      case 1: out = value.get_string(); break;
      case 2: out = value.get_bool(); break;
      case 3: out = value.get_int64(); break;
      case 4: out = value.get_double(); break;
      default: value.skip();
    }
  }
  return out;
}

// Names that commas separate.
Result<> AddNames(std::string_view flag, const FlagValue& value, std::set<std::string>& to) {
  const auto* text = std::get_if<std::string>(&value);
  if (text == nullptr) return InvalidArgument("The compiler option '{}' takes names, separated by commas.", flag);
  for (std::size_t begin = 0; begin <= text->size();) {
    const std::size_t end = std::min(text->find(',', begin), text->size());
    if (end > begin) to.insert(text->substr(begin, end - begin));
    begin = end + 1;
  }
  return {};
}

// One entry of env_option_overrides, a map: XLA's flags, which tune what is not here, are taken and ignored; krafla's
// own are kept; any other name, and a value that the flag cannot have, is a mistake of whoever wrote it.
Result<> ReadOverride(Reader entry, ProgramOptions& out) {
  std::string name;
  FlagValue value;
  while (entry.next()) {
    switch (entry.tag()) {
      case 1: name = entry.get_string(); break;
      case 2: value = ReadFlagValue(entry.get_message()); break;
      default: entry.skip();
    }
  }
  if (name == "krafla_enable") return AddNames(name, value, out.enabled);
  if (name == "krafla_disable") return AddNames(name, value, out.disabled);
  return CheckXlaFlag(name, value);
}

Result<ProgramOptions> Read(std::string_view bytes) {
  ProgramOptions out;
  int64_t replicas = 0, partitions = 0;
  Reader options(bytes.data(), bytes.size());
  while (options.next()) {
    if (options.tag() == 4) {
      out.portable = options.get_bool();
    } else if (options.tag() == 7) {
      KRAFLA_TRY(ReadOverride(options.get_message(), out));
    } else if (options.tag() == 3) {
      Reader build = options.get_message();
      while (build.next()) {
        switch (build.tag()) {
          case 1: out.device_ordinal = build.get_int64(); break;
          case 4: replicas = build.get_int64(); break;
          case 5: partitions = build.get_int64(); break;
          case 9: out.assignment = ReadAssignment(build.get_message()); break;
          default: build.skip();
        }
      }
    } else {
      options.skip();
    }
  }
  if (replicas != 0) out.assignment.replicas = replicas;
  if (partitions != 0) out.assignment.partitions = partitions;
  return out;
}

}  // namespace

Result<ProgramOptions> ParseProgramOptions(std::string_view bytes) {
  ProgramOptions out;
  try {
    KRAFLA_ASSIGN(out, Read(bytes));
  } catch (const protozero::exception& e) {
    return InvalidArgument("The compile options are no CompileOptionsProto: {}.", e.what());
  }
  const DeviceAssignment& a = out.assignment;
  if (a.replicas < 1 || a.partitions < 1 || a.replicas > kMaxDevices || a.partitions > kMaxDevices ||
      a.replicas * a.partitions > kMaxDevices)
    return InvalidArgument("A program of {} replicas and {} partitions cannot be compiled.", a.replicas, a.partitions);
  if (!a.ids.empty() && static_cast<int64_t>(a.ids.size()) != a.replicas * a.partitions)
    return InvalidArgument("The device assignment names {} devices for {} replicas of {} partitions.", a.ids.size(),
                           a.replicas, a.partitions);
  return out;
}

std::string SerializeDeviceAssignment(const DeviceAssignment& assignment) {
  std::string out;
  protozero::pbf_writer writer(out);
  writer.add_int32(1, static_cast<int32_t>(assignment.replicas));
  writer.add_int32(2, static_cast<int32_t>(assignment.partitions));
  for (int64_t p = 0; p < assignment.partitions; ++p) {
    std::vector<int64_t> ids;
    for (int64_t r = 0; r < assignment.replicas; ++r)
      ids.push_back(assignment.ids[static_cast<std::size_t>(r * assignment.partitions + p)]);
    protozero::pbf_writer devices(writer, 3);
    devices.add_packed_int64(1, ids.begin(), ids.end());
  }
  return out;
}

}  // namespace krafla::pjrt
