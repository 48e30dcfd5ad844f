// SPDX-License-Identifier: Apache-2.0
#include "recorded/zip_file.h"

#include <zip.h>

#include <array>
#include <memory>

namespace krafla {
namespace {

struct DiscardZip {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};

zip_buffer_fragment_t Fragment(const void* data, std::size_t size) {
  return {static_cast<zip_uint8_t*>(const_cast<void*>(data)), size};
}

}  // namespace

Result<> WriteZip(const std::string& path, std::span<const ZipEntry> entries) {
  int code = 0;
  std::unique_ptr<zip_t, DiscardZip> archive(zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code));
  if (!archive) {
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    const std::string why = zip_error_strerror(&error);
    zip_error_fini(&error);
    return DataLoss("'{}' cannot be written: {}.", path, why);
  }
  for (const ZipEntry& entry : entries) {
    // libzip copies the list of parts, and reads the parts when the archive is closed.
    std::array parts = {Fragment(entry.head.data(), entry.head.size()), Fragment(entry.rest.data(), entry.rest.size())};
    zip_source_t* source =
        zip_source_buffer_fragment(archive.get(), parts.data(), entry.rest.empty() ? 1 : parts.size(), 0);
    if (source == nullptr) return ResourceExhausted("There is no memory to write '{}'.", path);
    const zip_int64_t index = zip_file_add(archive.get(), entry.name.c_str(), source, ZIP_FL_ENC_UTF_8);
    if (index < 0) {
      zip_source_free(source);
      return InvalidArgument("'{}' cannot be added to '{}': {}.", entry.name, path, zip_strerror(archive.get()));
    }
    const auto at = static_cast<zip_uint64_t>(index);
    zip_set_file_compression(archive.get(), at, entry.is_compressed ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0);
    // 1980-01-01, so that equal files make equal archives.
    zip_file_set_dostime(archive.get(), at, 0, 0x21, 0);
  }
  zip_t* raw = archive.release();
  if (zip_close(raw) != 0) {
    const std::string why = zip_strerror(raw);
    zip_discard(raw);
    return DataLoss("'{}' cannot be written: {}.", path, why);
  }
  return {};
}

}  // namespace krafla
