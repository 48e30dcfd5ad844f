// SPDX-License-Identifier: Apache-2.0
// TensorProto to Literal, with external data.
#include <bit>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "base/checked_math.h"
#include "base/file.h"
#include "onnx/model.h"

namespace krafla::onnx {
namespace {

struct TypeRow {
  std::string_view name;
  ElementType type;
};
// By TensorProto.DataType.
constexpr TypeRow kTypes[] = {
    {"UNDEFINED", ElementType::kInvalid},
    {"FLOAT", ElementType::kF32},
    {"UINT8", ElementType::kU8},
    {"INT8", ElementType::kS8},
    {"UINT16", ElementType::kU16},
    {"INT16", ElementType::kS16},
    {"INT32", ElementType::kS32},
    {"INT64", ElementType::kS64},
    {"STRING", ElementType::kInvalid},
    {"BOOL", ElementType::kPred},
    {"FLOAT16", ElementType::kF16},
    {"DOUBLE", ElementType::kF64},
    {"UINT32", ElementType::kU32},
    {"UINT64", ElementType::kU64},
    {"COMPLEX64", ElementType::kC64},
    {"COMPLEX128", ElementType::kC128},
    {"BFLOAT16", ElementType::kBF16},
    {"FLOAT8E4M3FN", ElementType::kF8E4M3FN},
    {"FLOAT8E4M3FNUZ", ElementType::kF8E4M3FNUZ},
    {"FLOAT8E5M2", ElementType::kF8E5M2},
    {"FLOAT8E5M2FNUZ", ElementType::kF8E5M2FNUZ},
    {"UINT4", ElementType::kU4},
    {"INT4", ElementType::kS4},
    {"FLOAT4E2M1", ElementType::kF4E2M1FN},
    {"FLOAT8E8M0", ElementType::kF8E8M0FNU},
    {"UINT2", ElementType::kU2},
    {"INT2", ElementType::kS2},
};

// Elements a byte: of the types that are packed, the lowest bits first.
std::size_t ElementsInByte(ElementType type) {
  if (type == ElementType::kU2 || type == ElementType::kS2) return 4;
  return type == ElementType::kU4 || type == ElementType::kS4 || type == ElementType::kF4E2M1FN ? 2 : 1;
}
bool IsPacked(ElementType type) { return ElementsInByte(type) > 1; }
std::size_t PackedBytes(ElementType type, std::size_t elements) {
  const std::size_t each = ElementsInByte(type);
  return elements / each + (elements % each != 0 ? 1 : 0);
}
void Unpack(std::span<const std::byte> packed, ElementType type, std::span<std::byte> out) {
  const std::size_t each = ElementsInByte(type), bits = 8 / each;
  const bool is_signed = type == ElementType::kS4 || type == ElementType::kS2;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const unsigned shifted = std::to_integer<unsigned>(packed[i / each]) >> (i % each * bits);
    unsigned value = shifted & ((1u << bits) - 1);
    if (is_signed && value >> (bits - 1) != 0) value |= 0xffu << bits;
    out[i] = static_cast<std::byte>(value);
  }
}

Result<> FromRaw(std::span<const std::byte> raw, Literal& out, const std::string& name) {
  const ElementType type = out.shape().element_type();
  const std::size_t want = PackedBytes(type, out.bytes().size());  // those that are packed take a byte each here
  if (raw.size() != want)
    return InvalidArgument("The tensor '{}' of {} must have {} bytes of data; it has {}.", name,
                           out.shape().ToString(false), want, raw.size());
  if (IsPacked(type)) Unpack(raw, type, out.bytes());
  else if (want > 0) std::memcpy(out.bytes().data(), raw.data(), want);
  if (type == ElementType::kPred)
    for (std::byte& b : out.bytes()) b = b == std::byte{0} ? std::byte{0} : std::byte{1};
  return {};
}

template <typename To, typename From>
void CopyAs(const std::vector<From>& from, Literal& out) {
  auto to = out.data<To>();
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<To>(from[i]);
}

Result<> FromLists(const Tensor& tensor, Literal& out) {
  const ElementType type = out.shape().element_type();
  const auto count = static_cast<std::size_t>(out.shape().element_count());
  const bool is_complex = type == ElementType::kC64 || type == ElementType::kC128;
  const bool is_double = type == ElementType::kF64 || type == ElementType::kC128;
  const bool is_float = type == ElementType::kF32 || type == ElementType::kC64;
  const std::size_t want = is_complex ? 2 * count : PackedBytes(type, count);
  const std::size_t have = is_double ? tensor.doubles.size() : is_float ? tensor.floats.size() : tensor.ints.size();
  if (have != want)
    return InvalidArgument("The tensor '{}' of {} must have {} elements of data; it has {}.", tensor.name,
                           out.shape().ToString(false), want, have);
  if (is_double) {
    if (want > 0) std::memcpy(out.bytes().data(), tensor.doubles.data(), want * sizeof(double));
  } else if (is_float) {
    if (want > 0) std::memcpy(out.bytes().data(), tensor.floats.data(), want * sizeof(float));
  } else if (IsPacked(type)) {
    std::vector<std::byte> packed;
    for (int64_t value : tensor.ints) packed.push_back(static_cast<std::byte>(value & 0xff));
    Unpack(packed, type, out.bytes());
  } else if (type == ElementType::kPred) {
    auto to = out.data<uint8_t>();
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = tensor.ints[i] != 0 ? 1 : 0;
  } else {
    // Integers, and floating-point numbers below 32 bits by their patterns.
    switch (StorageBytes(type)) {
      case 1: CopyAs<uint8_t>(tensor.ints, out); break;
      case 2: CopyAs<uint16_t>(tensor.ints, out); break;
      case 4: CopyAs<uint32_t>(tensor.ints, out); break;
      default: CopyAs<uint64_t>(tensor.ints, out); break;
    }
  }
  return {};
}

Result<int64_t> NumberOf(const Tensor& tensor, const char* key, int64_t otherwise) {
  auto found = tensor.external.find(key);
  if (found == tensor.external.end()) return otherwise;
  const std::string& text = found->second;
  int64_t out = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size() || out < 0)
    return InvalidArgument("The external data of the tensor '{}' has {} '{}', which is no size.", tensor.name, key,
                           text);
  return out;
}

// A path that stays in its folder, links followed.
Result<std::string> PathInside(const std::string& folder, const Tensor& tensor) {
  auto found = tensor.external.find("location");
  if (found == tensor.external.end() || found->second.empty())
    return InvalidArgument("The external data of the tensor '{}' names no file.", tensor.name);
  const std::filesystem::path location = found->second;
  bool leaves = location.is_absolute() || found->second.find('\0') != std::string::npos;
  for (const auto& part : location) leaves |= part == "..";
  std::error_code error;
  std::filesystem::path root, full;
  if (!leaves) {
    root = std::filesystem::weakly_canonical(folder.empty() ? "." : folder, error);
    if (!error) full = std::filesystem::weakly_canonical(root / location, error);
    if (error)
      return NotFound("The external data '{}' of the tensor '{}' cannot be found.", found->second, tensor.name);
    auto [in_root, in_full] = std::mismatch(root.begin(), root.end(), full.begin(), full.end());
    leaves = in_root != root.end();
  }
  if (leaves)
    return InvalidArgument("The external data of the tensor '{}' is '{}', which lies outside of the model's folder.",
                           tensor.name, found->second);
  return full.string();
}

Result<> ReadInto(const std::string& path, const Tensor& tensor, Literal& out) {
  KRAFLA_ASSIGN(const int64_t offset, NumberOf(tensor, "offset", 0));
  KRAFLA_ASSIGN(const InputFile file, InputFile::Open(path));
  KRAFLA_ASSIGN(const int64_t length, NumberOf(tensor, "length", std::max<int64_t>(file.size() - offset, 0)));
  const auto end = CheckedAdd(offset, length);
  if (!end || *end > file.size())
    return DataLoss("It lies at bytes {} to {} + {} of '{}', which has {} bytes.", offset, offset, length, path,
                    file.size());
  std::vector<std::byte> bytes(static_cast<std::size_t>(length));
  KRAFLA_TRY(file.ReadAt(offset, bytes.data(), bytes.size()));
  return FromRaw(bytes, out, tensor.name);
}

Result<> FromFile(const Tensor& tensor, const std::string& folder, Literal& out) {
  if (folder.empty())
    return InvalidArgument(
        "The tensor '{}' has its data in another file; import the model from its file, with the data "
        "beside it.",
        tensor.name);
  KRAFLA_ASSIGN(const std::string path, PathInside(folder, tensor));
  auto read = ReadInto(path, tensor, out);
  if (!read) return Failure(std::move(read).error().WithContext(Format("while reading the tensor '{}'", tensor.name)));
  return {};
}

}  // namespace

std::string TypeName(int64_t onnx_type) {
  if (onnx_type >= 0 && onnx_type < static_cast<int64_t>(std::size(kTypes))) return std::string(kTypes[onnx_type].name);
  return Format("type {}", onnx_type);
}

ElementType ToElementType(int64_t onnx_type) {
  if (onnx_type < 0 || onnx_type >= static_cast<int64_t>(std::size(kTypes))) return ElementType::kInvalid;
  return kTypes[onnx_type].type;
}

Result<Literal> ToLiteral(const Tensor& tensor, const std::string& folder) {
  const ElementType type = ToElementType(tensor.type);
  if (type == ElementType::kInvalid)
    return Unimplemented("The tensor '{}' is of {}, which HLO does not have.", tensor.name, TypeName(tensor.type));
  if (tensor.is_segment) return Unimplemented("The tensor '{}' is stored in segments.", tensor.name);
  KRAFLA_ASSIGN(const Shape shape, Shape::MakeArray(type, tensor.dims));
  // What the model says must be there before memory is taken for it.
  if (!tensor.is_external) {
    const std::size_t stored =
        tensor.raw.size() + tensor.floats.size() * 4 + tensor.doubles.size() * 8 + tensor.ints.size() * 8;
    if (shape.byte_size() > 0 && static_cast<std::size_t>(shape.byte_size()) / 4 > stored)
      return InvalidArgument("The tensor '{}' of {} has {} bytes of data.", tensor.name, shape.ToString(false), stored);
  }
  KRAFLA_ASSIGN(Literal out, Literal::Create(shape));
  if (tensor.is_external) KRAFLA_TRY(FromFile(tensor, folder, out));
  else if (!tensor.raw.empty() || shape.element_count() == 0)
    KRAFLA_TRY(FromRaw(std::as_bytes(std::span(tensor.raw)), out, tensor.name));
  else KRAFLA_TRY(FromLists(tensor, out));
  return out;
}

}  // namespace krafla::onnx
