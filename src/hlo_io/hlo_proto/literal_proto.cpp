// SPDX-License-Identifier: Apache-2.0
// LiteralProto holds the elements in the memory order of its shape's layout; a Literal is in logical order.
#include <bit>

#include "hlo_io/hlo_proto/fields.h"
#include "hlo_io/hlo_proto/shape_proto.h"

namespace krafla::hlo_proto {
namespace {

// How the elements of a type stand in their field.
enum class Coding : uint8_t { kBytes, kNarrow, kVarint, kPackedFixed };
struct ElementField {
  Field field = 0;
  Coding coding = Coding::kBytes;
};

ElementField FieldOf(ElementType type) {
  switch (type) {
    case ElementType::kPred: return {2, Coding::kVarint};
    case ElementType::kS1: return {30, Coding::kNarrow};
    case ElementType::kS2: return {26, Coding::kNarrow};
    case ElementType::kS4: return {21, Coding::kNarrow};
    case ElementType::kU1: return {31, Coding::kNarrow};
    case ElementType::kU2: return {27, Coding::kNarrow};
    case ElementType::kU4: return {22, Coding::kNarrow};
    case ElementType::kF4E2M1FN: return {32, Coding::kNarrow};
    case ElementType::kS8: return {15, Coding::kBytes};
    case ElementType::kU8: return {3, Coding::kBytes};
    case ElementType::kS16: return {17, Coding::kBytes};
    case ElementType::kU16: return {16, Coding::kBytes};
    case ElementType::kS32: return {4, Coding::kVarint};
    case ElementType::kS64: return {5, Coding::kVarint};
    case ElementType::kU32: return {6, Coding::kVarint};
    case ElementType::kU64: return {7, Coding::kVarint};
    case ElementType::kF16: return {11, Coding::kBytes};
    case ElementType::kBF16: return {13, Coding::kBytes};
    case ElementType::kF32: return {8, Coding::kPackedFixed};
    case ElementType::kF64: return {9, Coding::kPackedFixed};
    case ElementType::kC64: return {12, Coding::kPackedFixed};
    case ElementType::kC128: return {18, Coding::kPackedFixed};
    case ElementType::kF8E5M2: return {19, Coding::kBytes};
    case ElementType::kF8E4M3FN: return {20, Coding::kBytes};
    case ElementType::kF8E4M3B11FNUZ: return {23, Coding::kBytes};
    case ElementType::kF8E5M2FNUZ: return {24, Coding::kBytes};
    case ElementType::kF8E4M3FNUZ: return {25, Coding::kBytes};
    case ElementType::kF8E4M3: return {28, Coding::kBytes};
    case ElementType::kF8E3M4: return {29, Coding::kBytes};
    case ElementType::kF8E8M0FNU: return {33, Coding::kBytes};
    case ElementType::kInvalid:
    case ElementType::kTuple:
    case ElementType::kOpaque:
    case ElementType::kToken: return {};
  }
  return {};
}

// One of `bits` bits in the low end of a byte, as a Literal stores it.
std::byte Widened(uint8_t low, ElementType type) {
  const int bits = BitWidth(type);
  const auto mask = static_cast<uint8_t>((1u << bits) - 1);
  auto value = static_cast<uint8_t>(low & mask);
  if (IsSigned(type) && (value >> (bits - 1)) != 0) value = static_cast<uint8_t>(value | ~mask);
  return std::byte{value};
}

// One element to a byte, or as many as fit, lowest bits first: writers have done both.
Result<> UnpackNarrow(std::string_view data, ElementType type, std::span<std::byte> out) {
  const auto bits = static_cast<std::size_t>(BitWidth(type));
  const std::size_t per_byte = 8 / bits;
  const bool packed = data.size() != out.size();
  if (packed && data.size() != (out.size() + per_byte - 1) / per_byte)
    return InvalidArgument("A literal of {} elements of {} has {} bytes.", out.size(), ElementTypeName(type),
                           data.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    auto byte = static_cast<uint8_t>(data[packed ? i / per_byte : i]);
    out[i] = Widened(static_cast<uint8_t>(packed ? byte >> (bits * (i % per_byte)) : byte), type);
  }
  return {};
}

void StoreInteger(std::byte* to, int bytes, uint64_t value) {
  std::memcpy(to, &value, static_cast<std::size_t>(bytes));
}

uint64_t LoadInteger(const std::byte* from, int bytes, bool is_signed) {
  uint64_t value = 0;
  std::memcpy(&value, from, static_cast<std::size_t>(bytes));
  if (is_signed && bytes < 8 && (value >> (bytes * 8 - 1)) != 0) value |= ~uint64_t{0} << (bytes * 8);
  return value;
}

// From memory order under `layout` to logical order.
Literal InLogicalOrder(Literal memory, const Shape& shape) {
  auto out = Literal::CreateUninitialized(shape);
  if (!out) return memory;
  const auto bytes = static_cast<std::size_t>(StorageBytes(shape.element_type()));
  Dims strides(static_cast<std::size_t>(shape.rank()), 0);
  int64_t stride = 1;
  for (int64_t d : shape.layout().minor_to_major) {
    strides[static_cast<std::size_t>(d)] = stride;
    stride *= shape.dim(d);
  }
  Dims index(static_cast<std::size_t>(shape.rank()), 0);
  for (int64_t i = 0; i < shape.element_count(); ++i) {
    int64_t from = 0;
    for (std::size_t d = 0; d < index.size(); ++d) from += index[d] * strides[d];
    std::memcpy(out->bytes().data() + static_cast<std::size_t>(i) * bytes,
                memory.bytes().data() + static_cast<std::size_t>(from) * bytes, bytes);
    NextIndex(std::span<int64_t>(index.data(), index.size()), shape.dims());
  }
  return std::move(*out);
}

Result<Literal> ReadArray(Reader reader, const Shape& shape, int64_t& budget) {
  const ElementType type = shape.element_type();
  const ElementField wanted = FieldOf(type);
  const int64_t count = shape.element_count();
  if (shape.byte_size() > budget)
    return ResourceExhausted("The constants of the module take more than the limit: {} bytes more, {} are left.",
                             shape.byte_size(), budget);
  // What the bytes here can hold at most; a shape alone must not take memory.
  int64_t held = 0;
  for (Reader scan = reader; scan.next();) {
    if (scan.tag() == wanted.field && scan.wire_type() == protozero::pbf_wire_type::length_delimited)
      held += static_cast<int64_t>(Bytes(scan).size());
    else if (scan.tag() == wanted.field) ++held, scan.skip();
    else scan.skip();
  }
  const int64_t least = wanted.coding == Coding::kNarrow   ? (count + 7) / 8
                        : wanted.coding == Coding::kVarint ? count
                                                           : shape.byte_size();
  if (held < least)
    return InvalidArgument("A literal of shape {} has {} bytes of elements; it needs {} at least.",
                           shape.ToString(false), held, least);
  budget -= shape.byte_size();
  KRAFLA_ASSIGN(Literal out, Literal::Create(shape.WithStaticDims()));
  std::span<std::byte> to = out.bytes();
  const int size = StorageBytes(type);
  int64_t at = 0;
  auto too_many = [&] { return InvalidArgument("A literal of shape {} has more elements.", shape.ToString(false)); };
  while (reader.next()) {
    if (reader.tag() != wanted.field) {
      reader.skip();
      continue;
    }
    if (wanted.coding == Coding::kVarint) {
      std::vector<int64_t> values;
      AppendInts(reader, values);
      if (static_cast<int64_t>(values.size()) > count - at) return too_many();
      for (int64_t value : values) {
        if (type == ElementType::kPred) value = value != 0 ? 1 : 0;
        StoreInteger(to.data() + at++ * size, size, static_cast<uint64_t>(value));
      }
    } else if (wanted.coding == Coding::kPackedFixed &&
               reader.wire_type() != protozero::pbf_wire_type::length_delimited) {
      const int part = size / (IsComplex(type) ? 2 : 1);
      if (at + part > shape.byte_size()) return too_many();
      const uint64_t bits =
          part == 4 ? std::bit_cast<uint32_t>(Float(reader)) : std::bit_cast<uint64_t>(Double(reader));
      StoreInteger(to.data() + at, part, bits);
      at += part;
    } else {
      std::string_view data = Bytes(reader);
      if (wanted.coding == Coding::kNarrow) {
        KRAFLA_TRY(UnpackNarrow(data, type, to));
        at = count;
        continue;
      }
      if (static_cast<int64_t>(data.size()) > shape.byte_size() - at) return too_many();
      std::memcpy(to.data() + at, data.data(), data.size());
      at += static_cast<int64_t>(data.size());
    }
  }
  const bool in_elements = wanted.coding == Coding::kVarint || wanted.coding == Coding::kNarrow;
  if (at != (in_elements ? count : shape.byte_size()))
    return InvalidArgument("A literal of shape {} has fewer elements.", shape.ToString(false));
  if (!shape.layout().IsRowMajor()) out = InLogicalOrder(std::move(out), shape);
  return std::move(out).Reshaped(shape);
}

}  // namespace

Result<Literal> ReadLiteral(Reader reader, int depth, int64_t& budget) {
  if (depth <= 0) return InvalidArgument("Literals lie within others deeper than the limit.");
  Shape shape;
  std::vector<Literal> elements;
  for (Reader scan = reader; scan.next();) {
    if (scan.tag() == literal_field::kShape) {
      KRAFLA_ASSIGN(shape, ReadShape(Message(scan), depth));
    } else if (scan.tag() == literal_field::kTupleLiterals) {
      KRAFLA_ASSIGN(Literal element, ReadLiteral(Message(scan), depth - 1, budget));
      elements.push_back(std::move(element));
    } else {
      scan.skip();
    }
  }
  if (shape.IsTuple()) {
    if (elements.size() != shape.tuple_elements().size())
      return InvalidArgument("A literal of shape {} has {} elements.", shape.ToString(false), elements.size());
    return Literal::MakeTuple(std::move(elements));
  }
  if (shape.IsToken()) return Literal::Create(shape);
  if (!shape.IsArray()) return InvalidArgument("A literal has no shape.");
  return ReadArray(reader, shape, budget);
}

Result<> WriteLiteral(Writer writer, const Literal& literal) {
  Shape shape = literal.shape();
  if (shape.IsArray()) shape.ClearLayout();  // the elements are in logical order
  KRAFLA_TRY(WriteShape(Writer(writer, literal_field::kShape), shape));
  if (shape.IsTuple()) {
    for (const Literal& element : literal.elements())
      KRAFLA_TRY(WriteLiteral(Writer(writer, literal_field::kTupleLiterals), element));
    return {};
  }
  if (!shape.IsArray() || literal.bytes().empty()) return {};
  const ElementType type = shape.element_type();
  const ElementField field = FieldOf(type);
  std::span<const std::byte> bytes = literal.bytes();
  if (field.coding == Coding::kVarint) {
    const int size = StorageBytes(type);
    std::vector<int64_t> values;
    values.reserve(static_cast<std::size_t>(shape.element_count()));
    for (int64_t i = 0; i < shape.element_count(); ++i)
      values.push_back(static_cast<int64_t>(LoadInteger(bytes.data() + i * size, size, IsSigned(type))));
    WriteInts(writer, field.field, values);
  } else if (field.coding == Coding::kNarrow) {
    std::string out;
    const auto mask = static_cast<uint8_t>((1u << BitWidth(type)) - 1);
    for (std::byte b : bytes) out += static_cast<char>(static_cast<uint8_t>(b) & mask);
    WriteString(writer, field.field, out);
  } else {
    writer.add_bytes(field.field, reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return {};
}

}  // namespace krafla::hlo_proto
