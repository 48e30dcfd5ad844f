// SPDX-License-Identifier: Apache-2.0
#include "vk_runtime/driver_symbols.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "base/system.h"

namespace krafla::vk {
namespace {

namespace fs = std::filesystem;

// A manifest is some 200 bytes.
constexpr std::uintmax_t kMaxManifestBytes = 1 << 20;

std::optional<std::string> Variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

std::vector<fs::path> SplitPaths(std::string_view list) {
  std::vector<fs::path> out;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(':'), list.size());
    if (end > 0) out.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return out;
}

void AddManifests(const fs::path& place, std::vector<fs::path>& out) {
  std::error_code error;
  if (!fs::is_directory(place, error)) {
    if (fs::is_regular_file(place, error)) out.push_back(place);
    return;
  }
  for (fs::directory_iterator it(place, error), end; !error && it != end; it.increment(error))
    if (it->path().extension() == ".json" && it->is_regular_file(error)) out.push_back(it->path());
}

// The Vulkan loader's order, in the file LoaderDriverInterface.md of its documents.
std::vector<fs::path> Manifests() {
  std::vector<fs::path> out;
  for (const char* name : {"VK_DRIVER_FILES", "VK_ICD_FILENAMES"}) {
    if (const auto list = Variable(name)) {
      for (const fs::path& place : SplitPaths(*list)) AddManifests(place, out);
      return out;
    }
  }
  std::vector<fs::path> roots;
  if (const auto home = Variable("HOME")) {
    roots.push_back(fs::path(*home) / ".config");
    roots.push_back(fs::path(*home) / ".local/share");
  }
  for (const char* name : {"XDG_CONFIG_HOME", "XDG_DATA_HOME"})
    if (const auto root = Variable(name)) roots.emplace_back(*root);
  for (const auto& [name, fallback] :
       {std::pair("XDG_CONFIG_DIRS", "/etc/xdg"), std::pair("XDG_DATA_DIRS", "/usr/local/share:/usr/share")})
    for (fs::path& root : SplitPaths(Variable(name).value_or(fallback))) roots.push_back(std::move(root));
  roots.emplace_back("/etc");
  for (const fs::path& root : roots) AddManifests(root / "vulkan/icd.d", out);
  if (const auto more = Variable("VK_ADD_DRIVER_FILES"))
    for (const fs::path& place : SplitPaths(*more)) AddManifests(place, out);
  return out;
}

// As the manifest names it: a path, relative to the manifest's folder, or a bare name for the dynamic linker.
std::optional<std::string> LibraryOf(const fs::path& manifest) {
  std::error_code error;
  if (fs::file_size(manifest, error) > kMaxManifestBytes || error) return std::nullopt;
  std::ifstream in(manifest);
  const nlohmann::json json = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("ICD") || !json["ICD"].is_object()) return std::nullopt;
  const auto found = json["ICD"].find("library_path");
  if (found == json["ICD"].end() || !found->is_string()) return std::nullopt;
  const fs::path path = found->get<std::string>();
  if (path.is_absolute() || !path.has_parent_path()) return path.string();
  return (manifest.parent_path() / path).lexically_normal().string();
}

}  // namespace

std::vector<std::string> DriverLibraries() {
  std::vector<std::string> out;
  for (const fs::path& manifest : Manifests())
    if (auto library = LibraryOf(manifest)) out.push_back(*std::move(library));
  return out;
}

void BindDriversToTheirOwnLlvm() {
  if (!os::SeesSymbol("LLVMContextCreate")) return;
  for (const std::string& library : DriverLibraries()) {
    // Mesa's, all named so. Others hide their LLVM, and how they take this is not known.
    if (!fs::path(library).filename().string().starts_with("libvulkan_")) continue;
    // A library that cannot be opened is the loader's to report.
    os::LoadWithOwnSymbols(library);
  }
}

}  // namespace krafla::vk
