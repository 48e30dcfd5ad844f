// SPDX-License-Identifier: Apache-2.0
#include "recorded/npy_file.h"

#include <algorithm>
#include <cstring>

#include "base/file.h"

namespace krafla {
namespace {

// From column-major, as the header of some arrays says, to row-major.
Result<Literal> FromFortranOrder(const Literal& stored) {
  const Shape& shape = stored.shape();
  KRAFLA_ASSIGN(Literal out, Literal::CreateUninitialized(shape));
  const auto size = static_cast<std::size_t>(StorageBytes(shape.element_type()));
  const auto rank = static_cast<std::size_t>(shape.rank());
  Dims strides(rank, 1), index(rank, 0);
  for (std::size_t i = 1; i < rank; ++i) strides[i] = strides[i - 1] * shape.dims()[i - 1];
  for (int64_t n = 0; n < shape.element_count(); ++n) {
    int64_t from = 0;
    for (std::size_t i = 0; i < rank; ++i) from += index[i] * strides[i];
    std::memcpy(out.bytes().data() + static_cast<std::size_t>(n) * size,
                stored.bytes().data() + static_cast<std::size_t>(from) * size, size);
    NextIndex({index.data(), rank}, shape.dims());
  }
  return out;
}

}  // namespace

Result<Literal> FromStoredOrder(const NpyHeader& header, Literal stored) {
  if (header.shape.element_type() == ElementType::kPred)
    for (uint8_t& b : stored.data<uint8_t>()) b = b != 0;
  if (header.fortran_order && header.shape.rank() > 1) return FromFortranOrder(stored);
  return stored;
}

Result<NpyFile> ReadNpyBegin(std::span<const std::byte> bytes, int64_t total) {
  KRAFLA_ASSIGN(const NpyLength length, ReadNpyLength(bytes));
  if (length.begin + length.length > bytes.size()) return DataLoss("The .npy file ends within its header.");
  NpyFile out;
  out.begin = length.begin + length.length;
  KRAFLA_ASSIGN(out.header,
                ReadNpyDictionary({reinterpret_cast<const char*>(bytes.data()) + length.begin, length.length}));
  const Shape& shape = out.header.shape;
  if (shape.byte_size() != total - static_cast<int64_t>(out.begin))
    return DataLoss("The array is {}, which takes {} bytes, but the file has {} for it.", shape.ToString(false),
                    shape.byte_size(), total - static_cast<int64_t>(out.begin));
  return out;
}

Result<Literal> ReadNpyBytes(std::span<const std::byte> bytes) {
  KRAFLA_ASSIGN(const NpyFile npy, ReadNpyBegin(bytes, static_cast<int64_t>(bytes.size())));
  KRAFLA_ASSIGN(Literal out, Literal::CreateUninitialized(npy.header.shape));
  std::ranges::copy(bytes.subspan(npy.begin), out.bytes().begin());
  return FromStoredOrder(npy.header, std::move(out));
}

Result<Literal> ReadNpy(const std::string& path) {
  auto read = [&]() -> Result<Literal> {
    KRAFLA_ASSIGN(const InputFile file, InputFile::Open(path));
    std::string begin(static_cast<std::size_t>(std::min<int64_t>(file.size(), kNpyPreambleV2 + kMaxNpyHeader)), '\0');
    KRAFLA_TRY(file.ReadAt(0, begin.data(), begin.size()));
    KRAFLA_ASSIGN(const NpyFile npy, ReadNpyBegin(std::as_bytes(std::span(begin)), file.size()));
    KRAFLA_ASSIGN(Literal out, Literal::CreateUninitialized(npy.header.shape));
    KRAFLA_TRY(file.ReadAt(static_cast<int64_t>(npy.begin), out.bytes().data(), out.bytes().size()));
    return FromStoredOrder(npy.header, std::move(out));
  };
  Result<Literal> out = read();
  if (!out) return Failure(std::move(out).error().WithContext(Format("while reading '{}'", path)));
  return out;
}

}  // namespace krafla
