// SPDX-License-Identifier: Apache-2.0
#include "api/compiled/weights_file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/compiled/model_file.h"
#include "base/safetensors_dtype.h"

namespace krafla::compiled {
namespace {

constexpr std::size_t kLengthBytes = 8;  // of the number before the JSON text

uint64_t ChecksumOf(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

uint64_t ChecksumOf(const WeightTable& weights) {
  uint64_t out = 0;
  for (const WeightTable::Weight& weight : weights.weights()) {
    const std::span<const std::byte> bytes = weight.literal->bytes();
    out = XXH3_64bits_withSeed(bytes.data(), bytes.size(), out);
  }
  return out;
}

nlohmann::ordered_json EntryOf(std::string_view dtype, const std::vector<int64_t>& dims, uint64_t begin, uint64_t end) {
  return {{"dtype", dtype}, {"shape", dims}, {"data_offsets", {begin, end}}};
}

}  // namespace

std::string WriteWeightsHeader(const WeightTable& weights) {
  // In the order of the arrays, which the format wants to lie without holes: what aligns them is an array too.
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "krafla"}, {"xxh3", Format("{:016x}", ChecksumOf(weights))}};
  uint64_t at = 0;
  const auto add = [&](const std::string& name, nlohmann::ordered_json entry) {
    std::string unique = name;
    for (int n = 2; header.contains(unique); ++n) unique = Format("{}.{}", name, n);
    header[unique] = std::move(entry);
  };
  for (const WeightTable::Weight& weight : weights.weights()) {
    if (weight.offset > at)
      add("padding", EntryOf("U8", {static_cast<int64_t>(weight.offset - at)}, at, weight.offset));
    const Shape& shape = weight.literal->shape();
    at = weight.offset + weight.literal->bytes().size();
    const std::string_view dtype = DtypeOf(shape.element_type());
    if (dtype.empty())  // as bytes
      add(weight.name, EntryOf("U8", {shape.byte_size()}, weight.offset, at));
    else add(weight.name, EntryOf(dtype, {shape.dims().begin(), shape.dims().end()}, weight.offset, at));
  }
  const std::string text = header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const uint64_t bytes = (kLengthBytes + text.size() + kWeightsAlignment - 1) / kWeightsAlignment * kWeightsAlignment;
  const uint64_t length = bytes - kLengthBytes;
  std::string out(bytes, ' ');  // as which the format fills headers up
  std::memcpy(out.data(), &length, kLengthBytes);
  std::memcpy(out.data() + kLengthBytes, text.data(), text.size());
  return out;
}

WeightsFile DescribeWeightsFile(std::string_view name, std::string_view header, const WeightTable& weights) {
  return {std::string(name), header.size(), weights.bytes(), ChecksumOf(header)};
}

bool IsFileName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\:\0", 4)) == std::string_view::npos;
}

Result<std::shared_ptr<const MappedFile>> OpenWeightsFile(const WeightsFile& file, const std::string& folder,
                                                          std::string_view model) {
  if (!IsFileName(file.name) || file.header_bytes % kWeightsAlignment != 0)
    return DataLoss("'{}' is damaged: it does not say where its weights are.", model);
  auto mapped = MappedFile::Open(Format("{}/{}", folder, file.name));
  if (!mapped) return Failure(std::move(mapped).error().WithContext(Format("in the weights of '{}'", model)));
  const std::string_view bytes = mapped->bytes();
  const bool is_it = bytes.size() >= file.header_bytes && bytes.size() - file.header_bytes == file.weight_bytes &&
                     ChecksumOf(bytes.substr(0, file.header_bytes)) == file.header_checksum;
  if (!is_it)
    return FailedPrecondition(
        "'{}' was compiled with other weights than those of '{}' beside it: copy both files that were written together.",
        model, file.name);
  return std::make_shared<const MappedFile>(*std::move(mapped));
}

}  // namespace krafla::compiled
