// SPDX-License-Identifier: Apache-2.0
// Finding recorded cases on disk.
#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "recorded/corpus.h"
#include "recorded/json_reading.h"

namespace krafla {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxFolders = 6;  // below the path given

bool Exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

Result<std::vector<std::string>> Strings(const Json& object, const char* key) {
  std::vector<std::string> out;
  const Json* value = FindMember(object, key);
  if (value == nullptr) return out;
  if (value->is_object()) {  // names with counts
    for (auto it = value->begin(); it != value->end(); ++it) out.push_back(it.key());
    return out;
  }
  if (!value->is_array()) return InvalidArgument("'{}' is not a list.", key);
  for (const Json& item : *value) {
    if (!item.is_string()) return InvalidArgument("'{}' holds something that is not a string.", key);
    out.push_back(item.get_ref<const std::string&>());
  }
  return out;
}

Result<int64_t> Count(const Json& object, const char* key) {
  KRAFLA_ASSIGN(int64_t n, IntMember(object, key, 1));
  if (n < 1 || n > 65536) return InvalidArgument("'{}' must lie in [1, 65536], it is {}.", key, n);
  return n;
}

struct Finder {
  std::string form;
  std::string only;  // one case of a family, or all
  CaseList list;

  // meta.json and module.* in one folder.
  Result<> Model(const fs::path& folder) {
    KRAFLA_ASSIGN(std::string text, ReadFile((folder / "meta.json").string()));
    KRAFLA_ASSIGN(Json meta, ParseJsonObject(text, (folder / "meta.json").string()));
    RecordedCase out;
    KRAFLA_ASSIGN(out.name, StringMember(meta, "name", folder.filename().string()));
    out.is_model = true;
    out.folder = folder.string();
    out.module_path = (folder / ("module." + form)).string();
    fs::path spmd = folder / ("module.spmd." + form);
    if (Exists(spmd)) out.module_path_spmd = spmd.string();
    KRAFLA_ASSIGN(out.replicas, Count(meta, "num_replicas"));
    KRAFLA_ASSIGN(out.partitions, Count(meta, "num_partitions"));
    KRAFLA_ASSIGN(out.opcodes, Strings(meta, "opcodes"));
    for (const char* key : {"set", "group"}) {
      KRAFLA_ASSIGN(std::string tag, StringMember(meta, key));
      if (!tag.empty()) out.tags.push_back(std::move(tag));
    }
    out.manifest_json = std::move(text);
    if (Exists(out.module_path)) list.cases.push_back(std::move(out));
    else ++list.without_form;
    return {};
  }

  // manifest.json with many cases; a manifest of modules to be refused has no outputs and is passed over.
  Result<> Family(const fs::path& folder) {
    KRAFLA_ASSIGN(std::string text, ReadFile((folder / "manifest.json").string()));
    KRAFLA_ASSIGN(Json manifest, ParseJsonObject(text, (folder / "manifest.json").string()));
    KRAFLA_ASSIGN(std::string family, StringMember(manifest, "family", folder.filename().string()));
    const Json* cases = FindMember(manifest, "cases");
    if (cases == nullptr || !cases->is_array()) return InvalidArgument("'cases' is not a list.");
    for (const Json& c : *cases) {
      if (FindMember(c, "outputs") == nullptr) continue;
      RecordedCase out;
      KRAFLA_ASSIGN(std::string name, StringMember(c, "name"));
      if (!only.empty() && name != only) continue;
      if (name.empty() || name.find('/') != std::string::npos || name.starts_with('.'))
        return InvalidArgument("'{}' is not the name of a case.", name.substr(0, 60));
      out.name = Format("{}/{}", family, name);
      out.folder = folder.string();
      out.module_path = (folder / (name + "." + form)).string();
      KRAFLA_ASSIGN(out.replicas, Count(c, "replicas"));
      KRAFLA_ASSIGN(out.partitions, Count(c, "partitions"));
      KRAFLA_ASSIGN(out.op, StringMember(c, "op"));
      KRAFLA_ASSIGN(out.dtype, StringMember(c, "dtype"));
      KRAFLA_ASSIGN(out.tags, Strings(c, "tags"));
      KRAFLA_ASSIGN(out.opcodes, Strings(c, "opcodes"));
      if (!Exists(out.module_path)) {
        ++list.without_form;
        continue;
      }
      out.manifest_json = c.dump(-1, ' ', false, Json::error_handler_t::replace);
      list.cases.push_back(std::move(out));
    }
    return {};
  }

  Result<> Folder(const fs::path& folder, int depth) {
    auto in = [&](const char* file, Result<> result) -> Result<> {
      if (result) return result;
      return Failure(std::move(result).error().WithContext(Format("while reading '{}'", (folder / file).string())));
    };
    if (Exists(folder / "meta.json")) return in("meta.json", Model(folder));
    if (Exists(folder / "manifest.json")) return in("manifest.json", Family(folder));
    if (depth == kMaxFolders) return {};
    std::error_code error;
    std::vector<fs::path> below;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
      if (it->is_directory(error)) below.push_back(it->path());
    std::sort(below.begin(), below.end());
    for (const fs::path& b : below) KRAFLA_TRY(Folder(b, depth + 1));
    return {};
  }
};

}  // namespace

Result<CaseList> FindCases(const std::string& path, const std::string& form) {
  if (std::ranges::find(kModuleForms, form) == std::end(kModuleForms))
    return InvalidArgument("'{}' is not a form of a module; the forms are hlo, pb, mlir, mlirbc and krafla.", form);
  Finder finder{form, {}, {}};
  fs::path folder(path);
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    // ".../sort/s8_lt_4x7_d1", perhaps with ".hlo": one case of a family.
    finder.only = folder.extension() == "." + form ? folder.stem().string() : folder.filename().string();
    folder = folder.parent_path();
    if (finder.only.empty() || !Exists(folder / "manifest.json"))
      return NotFound("'{}' is neither a folder nor a recorded case.", path);
  }
  KRAFLA_TRY(finder.Folder(folder, 0));
  if (!finder.only.empty() && finder.list.cases.empty() && finder.list.without_form == 0)
    return NotFound("'{}' is neither a folder nor a recorded case.", path);
  std::sort(finder.list.cases.begin(), finder.list.cases.end(),
            [](const RecordedCase& a, const RecordedCase& b) { return a.name < b.name; });
  return std::move(finder.list);
}

}  // namespace krafla
