// SPDX-License-Identifier: Apache-2.0
// com.microsoft: matrices of few bits, packed into bytes, with a scale and a zero point for each block of a row.
#include <algorithm>
#include <cstring>

#include "base/checked_math.h"
#include "onnx/quantised.h"

namespace krafla::onnx {
namespace {

ElementType OfBits(int64_t bits) {
  if (bits == 2) return U2;
  if (bits == 4) return U4;
  if (bits == 8) return U8;
  Refuse("Values of {} bits are not supported.", bits);
}
// The values in the bytes of the last dimension, the low bits first.
Literal UnpackedLiteral(const Literal& packed, int64_t bits) {
  Ints dims = DimsOf(packed.shape());
  dims.back() *= 8 / bits;
  Literal out = Need(Literal::CreateUninitialized(MakeShape(OfBits(bits), dims)));
  const std::span<const uint8_t> from = packed.data<uint8_t>();
  const std::span<std::byte> to = out.bytes();
  const auto each = static_cast<std::size_t>(8 / bits), width = static_cast<std::size_t>(bits);
  const unsigned mask = (1U << bits) - 1;
  for (std::size_t i = 0; i < from.size(); ++i)
    for (std::size_t k = 0; k < each; ++k) to[i * each + k] = static_cast<std::byte>((from[i] >> (k * width)) & mask);
  return out;
}
// Those that are known become an array of so many bits, which lies as densely in memory as the bytes do.
XlaOp Unpacked(Call& c, std::size_t input, int64_t bits) {
  const XlaOp bytes = c.In(input);
  if (TypeOf(bytes) != U8) Reject("Packed values are {}.", ElementTypeName(TypeOf(bytes)));
  if (c.IsKnown(input)) return FromLiteral(c.b, UnpackedLiteral(c.Known(input, "the weights"), bits));
  if (bits == 8) return bytes;
  const int64_t each = 8 / bits;
  Ints wide = DimsOf(bytes), flat = wide;
  const auto last = static_cast<int64_t>(wide.size());
  wide.push_back(each);
  flat.back() *= each;
  const XlaOp shifts = Mul(Iota(c.b, MakeShape(U8, wide), last), Filled(c.b, U8, wide, static_cast<double>(bits)));
  const XlaOp mask = Filled(c.b, U8, wide, static_cast<double>((1 << bits) - 1));
  const XlaOp values = And(ShiftRightLogical(BroadcastInDim(bytes, wide, Range(0, last)), shifts), mask);
  return Reshape(Convert(values, OfBits(bits)), flat);
}
// A known matrix of `rows` by `columns`, by columns.
Literal Transposed(const Literal& from, int64_t rows, int64_t columns) {
  Literal out = Need(Literal::CreateUninitialized(MakeShape(from.shape().element_type(), Ints{columns, rows})));
  const auto width = static_cast<int64_t>(from.bytes().size()) / (rows * columns);
  constexpr int64_t kTile = 64;  // lines that a cache holds
  for (int64_t r0 = 0; r0 < rows; r0 += kTile)
    for (int64_t c0 = 0; c0 < columns; c0 += kTile)
      for (int64_t r = r0; r < std::min(r0 + kTile, rows); ++r)
        for (int64_t k = c0; k < std::min(c0 + kTile, columns); ++k)
          std::memcpy(out.bytes().data() + (k * rows + r) * width, from.bytes().data() + (r * columns + k) * width,
                      static_cast<std::size_t>(width));
  return out;
}
// Values less their zero points, times their scales, in `type`: one of each a block along `axis`.
XlaOp FromBlocks(XlaOp values, XlaOp zeros, XlaOp scales, ElementType type, int64_t axis, int64_t block) {
  const Ints dims = DimsOf(values);
  const auto spread = [&](XlaOp x) { return Spread(Convert(x, type), dims, axis, block); };
  return Mul(Sub(Convert(values, type), spread(zeros)), spread(scales));
}
double Middle(int64_t bits) { return static_cast<double>(int64_t{1} << (bits - 1)); }

// What MatMulNBits multiplies with.
struct Blocks {
  int64_t k = 0, n = 0, size = 0, bits = 0;
  int64_t count() const { return CeilDiv(k, size); }
  int64_t zero_bytes() const { return CeilDiv(count() * bits, 8); }
};
// [K, N], of weights that are known: side by side along N, as products read them fastest.
XlaOp ByColumns(Call& c, const Blocks& blocks, ElementType type) {
  const int64_t count = blocks.count(), n = blocks.n;
  const auto turned = [&](const Literal& given, int64_t columns) {
    return FromLiteral(c.b, Transposed(given, n, columns));
  };
  XlaOp zeros = Filled(c.b, type, Ints{count, n}, Middle(blocks.bits));
  if (c.Has(3)) {
    const Literal& given = c.Known(3, "the zero points");
    const int64_t held = blocks.zero_bytes() * 8 / blocks.bits;
    zeros = c.TypeOf(3) == U8 ? turned(UnpackedLiteral(given, blocks.bits), held) : turned(given, count);
    zeros = SliceInDim(zeros, 0, count, 1, 0);
  }
  const XlaOp w = turned(UnpackedLiteral(c.Known(1, "the weights"), blocks.bits), count * blocks.size);
  const XlaOp all = FromBlocks(w, zeros, turned(c.Known(2, "the scales"), count), type, 0, blocks.size);
  return SliceInDim(all, 0, blocks.k, 1, 0);
}
// [N, K], as they lie.
XlaOp ByRows(Call& c, const Blocks& blocks, ElementType type) {
  const int64_t count = blocks.count(), n = blocks.n;
  XlaOp zeros = Filled(c.b, type, Ints{n, count}, Middle(blocks.bits));
  if (c.Has(3) && c.TypeOf(3) == U8) {
    const int64_t held = blocks.zero_bytes() * 8 / blocks.bits;
    zeros = SliceInDim(Reshape(Unpacked(c, 3, blocks.bits), {n, held}), 0, count, 1, 1);
  } else if (c.Has(3)) {
    zeros = Reshape(c.In(3), {n, count});
  }
  const XlaOp w = Reshape(Unpacked(c, 1, blocks.bits), {n, count * blocks.size});
  const XlaOp all = FromBlocks(w, zeros, Reshape(c.In(2), {n, count}), type, 1, blocks.size);
  return SliceInDim(all, 0, blocks.k, 1, 1);
}
void Check(Call& c, const Blocks& blocks) {
  const auto wants = [&](std::size_t input, int64_t count) {
    if (c.ShapeOf(input).element_count() != count)
      Reject("Input {} has {} elements, for {} rows of {} blocks.", input, c.ShapeOf(input).element_count(), blocks.n,
             blocks.count());
  };
  if (c.TypeOf(1) != U8) Reject("Packed values are {}.", ElementTypeName(c.TypeOf(1)));
  wants(1, blocks.n * blocks.count() * (blocks.size * blocks.bits / 8));
  wants(2, blocks.n * blocks.count());
  if (c.Has(3)) wants(3, c.TypeOf(3) == U8 ? blocks.n * blocks.zero_bytes() : blocks.n * blocks.count());
}
}  // namespace

// A [.., K], B [N, K / block, block in bytes], scales, zero points (packed, or of A's type), an order of groups, a
// bias.
Outputs OnMatMulNBits(Call& c) {
  const Blocks blocks{c.Int("K"), c.Int("N"), c.Int("block_size"), c.Int("bits", 4)};
  if (c.Int("weight_prepacked", 0) != 0) Refuse("Weights in the layout of a device are not supported.");
  if (c.Has(4)) Refuse("An order of groups (g_idx) is not supported.");
  constexpr int64_t kMost = int64_t{1} << 24;
  for (const int64_t size : {blocks.k, blocks.n, blocks.size})
    if (size <= 0 || size > kMost) Reject("A matrix of {} by {} in blocks of {}.", blocks.k, blocks.n, blocks.size);
  OfBits(blocks.bits);
  if (blocks.size % 16 != 0) Reject("Blocks of {}.", blocks.size);
  Check(c, blocks);
  XlaOp a = c.In(0);
  const ElementType type = TypeOf(a);
  // Few rows cost what reading the weights costs, in f32 too.
  constexpr int64_t kFewRows = 16;
  const ElementType work = Volume(DimsOf(a)) <= kFewRows * blocks.k ? F32 : type;
  c.In(1);  // ends a computation at once that would be of too much
  const bool is_known = c.IsKnown(1) && c.IsKnown(2) && (!c.Has(3) || c.IsKnown(3));
  DotDimensionNumbers numbers;
  numbers.lhs_contracting_dimensions = {RankOf(a) - 1};
  numbers.rhs_contracting_dimensions = {is_known ? 0 : 1};
  const XlaOp w = is_known ? ByColumns(c, blocks, work) : ByRows(c, blocks, work);
  const XlaOp y = Convert(DotGeneral(Convert(a, work), w, numbers), type);
  return {c.Has(5) ? Add(y, BroadcastTo(c.In(5), DimsOf(y))) : y};
}
// A table of such values, indices, scales, zero points.
Outputs OnGatherBlockQuantized(Call& c) {
  const int64_t block = c.Int("block_size", 128), rank = c.ShapeOf(0).rank();
  const bool is_packed = c.TypeOf(0) == U8;
  const int64_t bits = is_packed ? c.Int("bits", 4) : 0;
  const int64_t gather = Axis(c.Int("gather_axis", 0), rank), quantize = Axis(c.Int("quantize_axis", 1), rank);
  if (!is_packed && c.TypeOf(0) != S4 && c.TypeOf(0) != U4)
    Refuse("A table of {} is not supported.", ElementTypeName(c.TypeOf(0)));
  if (quantize != rank - 1 || gather == quantize)
    Refuse("Blocks along another than the last dimension are not supported.");
  if (block <= 0) Reject("Blocks of {}.", block);
  if (is_packed) OfBits(bits);
  for (const std::size_t i : {std::size_t{2}, std::size_t{3}})
    if (c.Has(i) && c.ShapeOf(i).rank() != rank) Reject("Input {} has {} dimensions.", i, c.ShapeOf(i).rank());
  // Rows first, then their values: a table is large.
  XlaOp index = WrapIndices(Convert(c.In(1), S64), c.ShapeOf(0).dim(gather));
  const auto rows = [&](XlaOp table) { return TakeAlong(table, index, gather); };
  const XlaOp values = rows(is_packed ? Unpacked(c, 0, bits) : c.In(0)), scales = rows(c.In(2));
  XlaOp zeros = Filled(c.b, TypeOf(scales), DimsOf(scales), is_packed ? Middle(bits) : 0);
  const int64_t count = DimsOf(scales).back(), last = RankOf(values) - 1;
  if (c.Has(3)) zeros = SliceInDim(rows(is_packed ? Unpacked(c, 3, bits) : c.In(3)), 0, count, 1, last);
  if (count != CeilDiv(DimsOf(values).back(), block)) Reject("{} scales for rows of {}.", count, DimsOf(values).back());
  return {FromBlocks(values, zeros, scales, TypeOf(scales), last, block)};
}

}  // namespace krafla::onnx
