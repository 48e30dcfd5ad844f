// SPDX-License-Identifier: Apache-2.0
#include "hlo_io/hlo_proto/shape_proto.h"

#include <charconv>
#include <limits>

#include "hlo_io/hlo_proto/fields.h"

namespace krafla::hlo_proto {
namespace {

// A tile dimension that is combined with the next: xla::Tile::kCombineDimension, printed as '*'.
constexpr int64_t kCombineDimension = std::numeric_limits<int64_t>::min();

Result<Layout> ReadLayout(Reader reader) {
  Layout out;
  std::string tiles;
  int64_t element_size = 0, memory_space = 0;
  while (reader.next()) {
    switch (reader.tag()) {
      case layout_field::kMinorToMajor: AppendInts(reader, out.minor_to_major); break;
      case layout_field::kTiles: {
        Reader tile = Message(reader);
        Dims dims;
        while (tile.next()) {
          if (tile.tag() == 1) AppendInts(tile, dims);
          else tile.skip();
        }
        tiles += tiles.empty() ? "T(" : "(";
        for (std::size_t i = 0; i < dims.size(); ++i)
          tiles += (i > 0 ? "," : "") + (dims[i] == kCombineDimension ? std::string("*") : std::to_string(dims[i]));
        tiles += ')';
        break;
      }
      case layout_field::kElementSizeInBits: element_size = Int(reader); break;
      case layout_field::kMemorySpace: memory_space = Int(reader); break;
      default: reader.skip();
    }
  }
  out.tail = tiles;
  if (element_size != 0) out.tail += Format("E({})", element_size);
  if (memory_space != 0) out.tail += Format("S({})", memory_space);
  return out;
}

// "T(8,128)(2,1)E(32)S(1)" as fields; other pieces have no field here.
Result<> WriteLayoutTail(Writer& writer, std::string_view tail) {
  const std::string_view whole = tail;
  char kind = 0;
  while (!tail.empty()) {
    if (tail[0] != '(') {
      kind = tail[0];
      tail.remove_prefix(1);
    }
    const std::size_t close = tail.find(')');
    if (tail.empty() || tail[0] != '(' || close == std::string_view::npos ||
        (kind != 'T' && kind != 'E' && kind != 'S'))
      return Unimplemented("The layout '{}' cannot be written as a proto.", whole);
    std::string_view inside = tail.substr(1, close - 1);
    tail.remove_prefix(close + 1);
    Dims numbers;
    while (!inside.empty()) {
      const std::size_t comma = std::min(inside.find(','), inside.size());
      std::string_view one = inside.substr(0, comma);
      int64_t value = kCombineDimension;
      if (one != "*" && std::from_chars(one.data(), one.data() + one.size(), value).ec != std::errc())
        return Unimplemented("The layout '{}' cannot be written as a proto.", whole);
      numbers.push_back(value);
      inside.remove_prefix(std::min(comma + 1, inside.size()));
    }
    if (kind == 'T') {
      Writer tile(writer, layout_field::kTiles);
      WriteInts(tile, 1, numbers);
    } else if (numbers.size() == 1) {
      writer.add_int64(kind == 'E' ? layout_field::kElementSizeInBits : layout_field::kMemorySpace, numbers[0]);
    }
  }
  return {};
}

}  // namespace

Result<Shape> ReadShape(Reader reader, int depth) {
  if (depth <= 0) return InvalidArgument("Shapes lie within others deeper than the limit.");
  int64_t type_number = 0;
  Dims dims;
  std::vector<bool> dynamic;
  std::vector<Shape> elements;
  std::optional<Layout> layout;
  while (reader.next()) {
    switch (reader.tag()) {
      case shape_field::kElementType: type_number = Int(reader); break;
      case shape_field::kDimensions: AppendInts(reader, dims); break;
      case shape_field::kIsDynamic: AppendInts(reader, dynamic); break;
      case shape_field::kTupleShapes: {
        KRAFLA_ASSIGN(Shape element, ReadShape(Message(reader), depth - 1));
        elements.push_back(std::move(element));
        break;
      }
      case shape_field::kLayout: {
        KRAFLA_ASSIGN(layout, ReadLayout(Message(reader)));
        break;
      }
      default: reader.skip();
    }
  }
  if (type_number <= 0 || type_number >= kElementTypeCount)
    return InvalidArgument("A shape has the element type number {}, which this version does not know.", type_number);
  const auto type = static_cast<ElementType>(type_number);
  if (type == ElementType::kTuple) return Shape::MakeTuple(std::move(elements));
  if (type == ElementType::kToken) return Shape::MakeToken();
  if (type == ElementType::kOpaque) return Shape::MakeOpaque();
  bool flags[Shape::kMaxRank] = {};
  bool any = false;
  for (std::size_t i = 0; i < dynamic.size() && i < std::size(flags); ++i) any |= flags[i] = dynamic[i];
  if (dims.ssize() > Shape::kMaxRank)
    return InvalidArgument("A shape has {} dimensions; the limit is {}.", dims.size(), Shape::kMaxRank);
  std::span<const bool> used;
  if (any) used = std::span<const bool>(flags, dims.size());
  KRAFLA_ASSIGN(Shape out, Shape::MakeArray(type, dims, used));
  if (layout) {
    // Protos of scalars may carry an empty order, and those of arrays none.
    if (layout->minor_to_major.empty() && !dims.empty())
      layout->minor_to_major = Layout::RowMajor(out.rank()).minor_to_major;
    KRAFLA_TRY(out.SetLayout(std::move(*layout)));
  }
  return out;
}

Result<> WriteShape(Writer writer, const Shape& shape) {
  writer.add_int32(shape_field::kElementType, static_cast<int32_t>(shape.element_type()));
  if (shape.IsTuple()) {
    for (const Shape& element : shape.tuple_elements())
      KRAFLA_TRY(WriteShape(Writer(writer, shape_field::kTupleShapes), element));
    return {};
  }
  if (!shape.IsArray()) return {};
  if (shape.rank() > 0) {
    WriteInts(writer, shape_field::kDimensions, shape.dims());
    std::vector<int64_t> dynamic;
    for (int64_t d = 0; d < shape.rank(); ++d) dynamic.push_back(shape.IsDynamicDim(d) ? 1 : 0);
    WriteInts(writer, shape_field::kIsDynamic, dynamic);
  }
  if (shape.rank() == 0 && shape.layout().tail.empty()) {
    // XLA asks for a layout in literals; protozero leaves out a message of which nothing is written.
    writer.add_message(shape_field::kLayout, std::string());
    return {};
  }
  Writer layout(writer, shape_field::kLayout);
  if (shape.rank() > 0) WriteInts(layout, layout_field::kMinorToMajor, shape.layout().minor_to_major);
  return WriteLayoutTail(layout, shape.layout().tail);
}

Result<ProgramShape> ReadProgramShape(Reader reader, int depth) {
  ProgramShape out;
  while (reader.next()) {
    if (reader.tag() == 1) {
      KRAFLA_ASSIGN(Shape parameter, ReadShape(Message(reader), depth));
      out.parameters.push_back(std::move(parameter));
    } else if (reader.tag() == 2) {
      KRAFLA_ASSIGN(out.result, ReadShape(Message(reader), depth));
    } else {
      reader.skip();
    }
  }
  return out;
}

}  // namespace krafla::hlo_proto
