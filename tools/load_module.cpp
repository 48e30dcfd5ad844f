// SPDX-License-Identifier: Apache-2.0
// Modules as the command line names them.
#include <CLI/CLI.hpp>
#include <charconv>
#include <filesystem>

#include "api/read_program.h"
#include "base/file.h"
#include "command.h"
#include "recorded/corpus.h"

namespace krafla::cli {
namespace {

// The module in a model folder.
Result<std::string> FileIn(const std::string& folder) {
  std::error_code error;
  for (const char* form : kModuleForms)
    if (std::string inside = Format("{}/module.{}", folder, form); std::filesystem::exists(inside, error))
      return inside;
  if (std::filesystem::exists(folder + "/saved_model.pb", error))
    return InvalidArgument(
        "'{}' is a TensorFlow SavedModel. Convert it to ONNX with tf2onnx, or export the model from "
        "JAX or Keras as StableHLO.",
        folder);
  return InvalidArgument(
      "'{}' is not a file but a folder, and no model folder: it has no module.hlo, .pb, .mlir, .mlirbc or .krafla.",
      folder);
}

}  // namespace

Result<std::pair<std::string, std::vector<int64_t>>> ParseShapeOption(const std::string& text) {
  const std::size_t eq = text.rfind('=');
  const auto bad = [&] {
    return InvalidArgument("'{}' is not a shape of an argument; expected NAME=SIZES, such as x=1,224,224,3.", text);
  };
  if (eq == std::string::npos || eq == 0) return bad();
  std::vector<int64_t> sizes;
  const char* at = text.data() + eq + 1;
  const char* const end = text.data() + text.size();
  while (at < end) {
    int64_t size = 0;
    const auto [stop, error] = std::from_chars(at, end, size);
    if (error != std::errc() || size < 0 || (stop < end && *stop != ',' && *stop != 'x') || stop + 1 == end)
      return bad();
    sizes.push_back(size);
    at = stop < end ? stop + 1 : stop;
  }
  return std::pair(text.substr(0, eq), std::move(sizes));
}

bool HoldsModuleAlone(const std::string& folder) {
  std::error_code error;
  return std::filesystem::is_directory(folder, error) && !std::filesystem::exists(folder + "/meta.json", error) &&
         FileIn(folder).has_value();
}

void AddShapeOption(CLI::App& app, std::vector<std::string>& shapes) {
  app.add_option(
         "--shape", shapes,
         "all sizes of an argument whose sizes a StableHLO module or an ONNX model leaves open, by name or number: "
         "'x=1,224,224,3' (repeatable)")
      ->check([](const std::string& text) {
        const auto parsed = ParseShapeOption(text);
        return parsed ? std::string() : parsed.error().message();
      })
      ->type_name("NAME=SIZES")
      ->allow_extra_args(false);
}

void AddDeviceCounts(CLI::App& app, int64_t& replicas, int64_t& partitions) {
  app.add_option("--replicas", replicas, "the number of replicas, in place of the module's")
      ->check(CLI::Range(1, 1024));
  app.add_option("--partitions", partitions, "the number of partitions, in place of the module's")
      ->check(CLI::Range(1, 1024));
}

Result<std::unique_ptr<Module>> LoadModule(const std::string& path, const std::vector<std::string>& shapes) {
  ArgumentSizes sizes;
  for (const std::string& text : shapes) {
    KRAFLA_ASSIGN(auto parsed, ParseShapeOption(text));
    const std::string name = parsed.first;
    if (!sizes.insert(std::move(parsed)).second) return InvalidArgument("'{}' has two shapes.", name);
  }
  if (path == "-") {
    KRAFLA_ASSIGN(const std::string bytes, ReadStandardInput());
    return ReadProgram(bytes, "standard input", {.sizes = std::move(sizes)});
  }
  std::string file = path;
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) { KRAFLA_ASSIGN(file, FileIn(path)); }
  return ReadProgramFile(file, sizes);
}

}  // namespace krafla::cli
