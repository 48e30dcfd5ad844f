// SPDX-License-Identifier: Apache-2.0
#include "command.h"
#include "hlo_io/element_codec.h"

namespace krafla::cli {
namespace {

// The real numbers of an array, two an element where it is complex.
void FillReals(Literal& out, ElementType part, std::mt19937_64& random, const RandomRange& range) {
  const auto size = static_cast<std::size_t>(StorageBytes(part));
  const auto bytes = out.bytes();
  for (std::size_t at = 0; at + size <= bytes.size(); at += size) {
    const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
    double value = range.low + unit * (range.high - range.low);
    // Powers of two alone.
    if (part == ElementType::kF8E8M0FNU) value = std::max(std::abs(value), 0x1p-20);
    StoreBits(bytes.data() + at, EncodeReal(part, value), static_cast<int>(size));
  }
}

}  // namespace

Result<Literal> RandomArrays::Next(const Shape& shape) {
  KRAFLA_ASSIGN(Literal made, Literal::Create(shape));
  const ElementType type = RealPart(shape.element_type());
  const auto bytes = made.bytes();
  if (shape.IsArray() && IsFloat(type)) {
    FillReals(made, type, random_, range_);
  } else if (shape.IsArray()) {
    const auto size = static_cast<std::size_t>(StorageBytes(type));
    const uint64_t mask = type == ElementType::kPred || size == 1 ? 1 : 7;
    for (std::size_t i = 0; i < bytes.size(); i += size) bytes[i] = static_cast<std::byte>(random_() & mask);
  }
  return made;
}

Result<std::vector<Literal>> RandomArguments(const std::vector<Shape>& shapes, uint64_t seed,
                                             const RandomRange& range) {
  RandomArrays random(seed, range);
  std::vector<Literal> out;
  for (const Shape& shape : shapes) {
    KRAFLA_ASSIGN(Literal made, random.Next(shape));
    out.push_back(std::move(made));
  }
  return out;
}

}  // namespace krafla::cli
