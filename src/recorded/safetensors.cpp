// SPDX-License-Identifier: Apache-2.0
#include "recorded/safetensors.h"

#include <algorithm>
#include <optional>

#include "base/host_memory.h"
#include "base/safetensors_dtype.h"
#include "recorded/json_reading.h"
#include "recorded/zip_format.h"

namespace krafla {
namespace {

constexpr std::size_t kLengthBytes = 8;
constexpr uint64_t kMostHeader = 100'000'000;  // the format's own limit

Result<std::vector<int64_t>> IntsMember(const Json& array, const char* key) {
  const Json* list = FindMember(array, key);
  if (list == nullptr || !list->is_array()) return DataLoss("There is no list '{}'.", key);
  std::vector<int64_t> out;
  for (const Json& number : *list) {
    KRAFLA_ASSIGN(const int64_t n, AsInt(number, key));
    out.push_back(n);
  }
  return out;
}

// `data`: where the arrays begin, and how many bytes there are of them.
Result<SafetensorsFile::Array> ReadArray(const std::string& name, const Json& entry, int64_t data, int64_t bytes) {
  KRAFLA_ASSIGN(const std::string type_name, StringMember(entry, "dtype"));
  const std::optional<ElementType> type = TypeOfDtype(type_name);
  if (!type) return Unimplemented("The type '{}' is not known.", type_name);
  KRAFLA_ASSIGN(const std::vector<int64_t> dims, IntsMember(entry, "shape"));
  KRAFLA_ASSIGN(const std::vector<int64_t> range, IntsMember(entry, "data_offsets"));
  KRAFLA_ASSIGN(Shape shape, Shape::MakeArray(*type, dims));
  if (range.size() != 2 || range[0] < 0 || range[1] < range[0] || range[1] > bytes)
    return DataLoss("It lies outside the {} bytes of arrays that the file has.", bytes);
  if (range[1] - range[0] != shape.byte_size())
    return DataLoss("{} takes {} bytes, but it has {}.", shape.ToString(false), shape.byte_size(), range[1] - range[0]);
  return SafetensorsFile::Array{name, std::move(shape), data + range[0]};
}

}  // namespace

bool SafetensorsFile::IsOne(std::string_view begin) {
  return begin.size() > kLengthBytes && zip::Number<uint64_t>(begin, 0) <= kMostHeader && begin[kLengthBytes] == '{';
}

Result<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  KRAFLA_ASSIGN(InputFile file, InputFile::Open(path));
  SafetensorsFile out(path, std::move(file));
  if (Result<> read = out.ReadHeader(); !read)
    return Failure(std::move(read).error().WithContext(Format("while reading '{}'", path)));
  return out;
}

Result<> SafetensorsFile::ReadHeader() {
  std::string begin(kLengthBytes + 1, '\0');
  if (file_.size() < static_cast<int64_t>(begin.size())) return InvalidArgument("It is too short for safetensors.");
  KRAFLA_TRY(file_.ReadAt(0, begin.data(), begin.size()));
  if (!IsOne(begin)) return InvalidArgument("It does not begin as safetensors do.");
  const auto length = zip::Number<uint64_t>(begin, 0);
  const auto data = static_cast<int64_t>(kLengthBytes + length);
  if (data > file_.size()) return DataLoss("Its header of {} bytes ends behind the file.", length);
  if (!HostHasRoom(length)) return ResourceExhausted("Its header of {} bytes fits no memory.", length);
  std::string text(static_cast<std::size_t>(length), '\0');
  KRAFLA_TRY(file_.ReadAt(kLengthBytes, text.data(), text.size()));
  KRAFLA_ASSIGN(const Json header, ParseJsonObject(text, "the header"));
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    auto array = ReadArray(name, entry, data, file_.size() - data);
    if (!array) return Failure(std::move(array).error().WithContext(Format("in array '{}'", name)));
    arrays_.push_back(std::move(*array));
  }
  std::ranges::stable_sort(arrays_, {}, &Array::offset);
  return {};
}

Result<Literal> SafetensorsFile::Read(std::size_t number) const {
  if (number >= arrays_.size()) return OutOfRange("'{}' has {} arrays, not {}.", path_, arrays_.size(), number + 1);
  const Array& array = arrays_[number];
  KRAFLA_ASSIGN(Literal out, Literal::CreateUninitialized(array.shape));
  if (!out.bytes().empty()) KRAFLA_TRY(file_.ReadAt(array.offset, out.bytes().data(), out.bytes().size()));
  if (array.shape.element_type() == ElementType::kPred)
    for (uint8_t& b : out.data<uint8_t>()) b = b != 0;
  return out;
}

}  // namespace krafla
