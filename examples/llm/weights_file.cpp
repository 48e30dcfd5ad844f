// SPDX-License-Identifier: Apache-2.0
#include "weights_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "json.h"

namespace llm {
namespace {

using krafla::ElementType;
using krafla::Result;

class MappedFile {
 public:
  static Result<std::shared_ptr<const MappedFile>> Open(const std::string& path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return krafla::NotFound("{} cannot be opened: {}.", path, std::strerror(errno));
    struct stat about = {};
    void* data = MAP_FAILED;
    if (fstat(file, &about) == 0 && about.st_size > 0)
      data = mmap(nullptr, static_cast<std::size_t>(about.st_size), PROT_READ, MAP_PRIVATE, file, 0);
    const int why = errno;
    close(file);
    if (data == MAP_FAILED && about.st_size == 0) return krafla::InvalidArgument("{} is empty.", path);
    if (data == MAP_FAILED) return krafla::Unavailable("{} cannot be mapped: {}.", path, std::strerror(why));
    return std::shared_ptr<const MappedFile>(new MappedFile(data, static_cast<std::size_t>(about.st_size)));
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile() { munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size()); }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  MappedFile(void* data, std::size_t size) : bytes_(static_cast<std::byte*>(data), size) {}
  std::span<const std::byte> bytes_;
};

Result<ElementType> TypeOf(const std::string& name) {
  static const std::map<std::string, ElementType> types = {{"F32", ElementType::kF32},
                                                           {"F16", ElementType::kF16},
                                                           {"BF16", ElementType::kBF16},
                                                           {"I8", ElementType::kS8},
                                                           {"U8", ElementType::kU8}};
  const auto found = types.find(name);
  if (found == types.end()) return krafla::Unimplemented("The weights' file has arrays of the type {}.", name);
  return found->second;
}

}  // namespace

Result<std::map<std::string, krafla::Buffer>> LoadWeights(const krafla::LocalClient& client, const std::string& path) {
  KRAFLA_ASSIGN(const std::shared_ptr<const MappedFile> file, MappedFile::Open(path));
  const std::span<const std::byte> all = file->bytes();
  uint64_t length = 0;
  if (all.size() >= 8) std::memcpy(&length, all.data(), 8);  // little endian, as this machine is
  if (all.size() < 8 || length > all.size() - 8)
    return krafla::DataLoss("{} is no safetensors file: its header has {} bytes, the file {}.", path, length,
                            all.size());
  KRAFLA_ASSIGN(const json header, ParseJson(std::string(reinterpret_cast<const char*>(all.data()) + 8, length), path));
  const std::span<const std::byte> data = all.subspan(8 + length);
  std::map<std::string, krafla::Buffer> out;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    KRAFLA_ASSIGN(const auto type_name, Get<std::string>(entry, "dtype"));
    KRAFLA_ASSIGN(const ElementType type, TypeOf(type_name));
    KRAFLA_ASSIGN(const auto dims, Get<std::vector<int64_t>>(entry, "shape"));
    KRAFLA_ASSIGN(const auto at, Get<std::vector<uint64_t>>(entry, "data_offsets"));
    if (at.size() != 2 || at[0] > at[1] || at[1] > data.size())
      return krafla::DataLoss("{}: the array '{}' does not lie within the file.", path, name);
    KRAFLA_ASSIGN(const krafla::Shape shape, krafla::Shape::MakeArray(type, dims));
    auto buffer =
        krafla::Buffer::FromHost(client, shape, data.subspan(at[0], at[1] - at[0]), krafla::HostMemory::kShare,
                                 [file] {});  // mapped for as long as a buffer reads it
    if (!buffer)
      return krafla::Failure(std::move(buffer).error().WithContext("in the array '" + name + "' of " + path));
    out.emplace(name, *std::move(buffer));
  }
  return out;
}

}  // namespace llm
