// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/kernels/coop_sums.h"

#include <algorithm>

namespace krafla::spirv {

bool CoopBlock::Divides() const {
  const auto m = static_cast<int>(shape.m), n = static_cast<int>(shape.n);
  return rows % (m * subgroup_rows) == 0 && columns % (n * subgroup_columns) == 0;
}

CoopStrips StripsOf(const CoopBlock& block, int64_t room, int chunk_bytes) {
  const auto m = static_cast<int64_t>(block.shape.m), n = static_cast<int64_t>(block.shape.n);
  CoopStrips out;
  auto stride = [&] { return (out.strip * n * 4 + 16) / chunk_bytes; };
  auto chunks = [&] { return block.subgroup_rows * block.subgroup_columns * m * stride(); };
  out.strip = block.wide();
  while (out.strip % 2 == 0 && chunks() > room) out.strip /= 2;
  out.stride = stride();
  out.chunks = chunks();
  return out;
}

ComponentType ComponentOf(ElementType type) {
  if (type == ElementType::kF16) return ComponentType::kF16;
  if (type == ElementType::kBF16) return ComponentType::kBF16;
  if (type == ElementType::kS8) return ComponentType::kS8;
  if (type == ElementType::kU8) return ComponentType::kU8;
  return ComponentType::kOther;
}

bool AddsUpIn(ComponentType c, ComponentType result, ElementType accumulate) {
  if (c != result) return false;
  return IsFloat(accumulate) ? c == ComponentType::kF32 : c == ComponentType::kS32 || c == ComponentType::kU32;
}

uint32_t SignedOperands(ElementType stored, ElementType accumulate, ComponentType c) {
  uint32_t out = stored == ElementType::kS8 ? CooperativeMatrices::kASigned | CooperativeMatrices::kBSigned : 0;
  if (!IsFloat(accumulate) && c == ComponentType::kS32) out |= CooperativeMatrices::kSumSigned;
  return out;
}

Kind ComponentKind(ComponentType type) {
  if (type == ComponentType::kF16) return Kind::kF16;
  if (type == ComponentType::kBF16) return Kind::kBF16;
  return Kind::kU8;
}

CoopSums::CoopSums(Builder& b, CooperativeMatrices& matrices, const CoopBlock& block, ElementType stored,
                   ElementType accumulate, const CoopMemory& memory)
    : b_(b), matrices_(matrices), block_(block), memory_(memory), sum_kind_(ComputeKind(accumulate)) {
  const CooperativeMatrixShape& shape = block_.shape;
  const Kind component = ComponentKind(shape.a);
  signed_ = SignedOperands(stored, accumulate, shape.c);
  using Use = CooperativeMatrices::Use;
  a_type_ = matrices_.Type(component, shape.m, shape.k, Use::kA);
  b_type_ = matrices_.Type(component, shape.k, shape.n, Use::kB);
  sum_type_ = matrices_.Type(sum_kind_, shape.m, shape.n, Use::kAccumulator);
  subgroup_ = b_.SubgroupId();
  lane_ = b_.SubgroupLane();
  subgroup_row_ = b_.UDiv(subgroup_, U(block_.subgroup_columns));
  subgroup_column_ = b_.UMod(subgroup_, U(block_.subgroup_columns));
  for (int i = 0; i < block_.tall() * block_.wide(); ++i) sums_.push_back(matrices_.ZeroVariable(sum_type_, sum_kind_));
}

void CoopSums::Clear() {
  for (Id sum : sums_) matrices_.Write(sum, matrices_.Zero(sum_type_, sum_kind_));
}

void CoopSums::Add(const CoopPart& row_part, Value rows, const CoopPart& column_part, Value columns) {
  using Layout = CooperativeMatrices::Layout;
  const int64_t m = block_.shape.m, n = block_.shape.n, k = block_.shape.k;
  const int64_t row_stride = row_part.Stride(), column_stride = column_part.Stride();
  auto load = [&](Id type, Value at, int64_t stride, Layout layout) {
    return matrices_.Load(type, memory_.array, Kind::kU32, memory_.width, at, static_cast<uint32_t>(stride), layout);
  };
  const Value row = b_.Add(b_.Mul(subgroup_row_, U(block_.tall() * m * row_stride)), rows);
  const Value column = b_.Add(b_.Mul(subgroup_column_, U(block_.wide() * n * column_stride)), columns);
  const int wide = block_.wide();
  auto part = [&](Value depth) {  // in matrices
    const Value chunk = b_.Mul(depth, U(k * row_part.element_bytes / ChunkBytes()));
    std::vector<Id> a;
    for (int i = 0; i < block_.tall(); ++i)
      a.push_back(load(a_type_, b_.Add(b_.Add(row, U(i * m * row_stride)), chunk), row_stride, Layout::kRows));
    for (int j = 0; j < wide; ++j) {
      const Value at = b_.Add(b_.Add(column, U(j * n * column_stride)), chunk);
      const Id right = load(b_type_, at, column_stride, Layout::kColumns);
      for (std::size_t i = 0; i < a.size(); ++i) {
        const Id variable = sums_[i * static_cast<std::size_t>(wide) + static_cast<std::size_t>(j)];
        const Id before = matrices_.Read(sum_type_, variable);
        matrices_.Write(variable, matrices_.MultiplyAdd(sum_type_, a[i], right, before, signed_));
      }
    }
  };
  b_.For(U(0), U(row_part.depth / k), U(1), part);
}

void CoopSums::Put(Value at, int64_t stride) {
  const int64_t m = block_.shape.m, n = block_.shape.n;
  const Value row = b_.Mul(subgroup_row_, U(block_.tall() * m * stride));
  const Value column = b_.Mul(subgroup_column_, U(block_.wide() * n * 4 / ChunkBytes()));
  const Value first = b_.Add(b_.Add(row, column), at);
  for (int i = 0; i < block_.tall(); ++i)
    for (int j = 0; j < block_.wide(); ++j)
      matrices_.Store(matrices_.Read(sum_type_, sums_[static_cast<std::size_t>(i * block_.wide() + j)]), memory_.array,
                      Kind::kU32, memory_.width, b_.Add(first, U(i * m * stride + j * n * 4 / ChunkBytes())),
                      static_cast<uint32_t>(stride));
}

// Four sums from chunk `at` on.
Value CoopSums::Quad(Value at) const {
  Values words;
  for (int i = 0; i < 4; i += memory_.width) {
    const Value v = b_.LoadShared(memory_.array, Kind::kU32, memory_.width, b_.Add(at, U(i / memory_.width)));
    for (int j = 0; j < memory_.width; ++j) words.push_back(b_.Extract(v, j));
  }
  return b_.Bitcast(b_.Composite(words), sum_kind_);
}

void CoopSums::Finish(const CoopStrips& strips, const TileOperands& operands, Value batch, Value row0, Value column0,
                      int64_t rows) {
  const int64_t m = block_.shape.m, n = block_.shape.n, columns = strips.strip * n, quads = columns / 4;
  const int64_t stride = strips.stride, across = block_.wide() / strips.strip;
  const Value base = b_.Mul(subgroup_, U(m * stride));
  // Strip `s` of row `i` of this subgroup's matrices, whose sums are in the variables from `first` on.
  const auto finish = [&](Value i, Value s, std::size_t first) {
    for (int j = 0; j < strips.strip; ++j) {
      const Id sum = matrices_.Read(sum_type_, sums_[first + static_cast<std::size_t>(j)]);
      matrices_.Store(sum, memory_.array, Kind::kU32, memory_.width, b_.Add(base, U(j * n * 4 / ChunkBytes())),
                      static_cast<uint32_t>(stride));
    }
    b_.SubgroupBarrier();
    const Value row = b_.Add(row0, b_.Mul(b_.Add(b_.Mul(subgroup_row_, U(block_.tall())), i), U(m)));
    const Value column = b_.Add(column0, b_.Mul(b_.Add(b_.Mul(subgroup_column_, U(across)), s), U(columns)));
    const auto put = [&](Value quad) {
      const Value within = b_.UDiv(quad, U(quads)), of_row = b_.UMod(quad, U(quads));
      const Value sum = Quad(b_.Add(base, b_.Add(b_.Mul(within, U(stride)), b_.Mul(of_row, U(16 / ChunkBytes())))));
      const Value r = b_.Add(row, within);
      const Value in = rows % block_.rows == 0 ? Value{} : b_.Compare(Cmp::kULt, r, U(rows));
      operands.finish(batch, r, b_.Add(column, b_.Mul(of_row, U(4))), sum, in);
    };
    b_.For(lane_, U(m * quads), U(block_.subgroup), put, Unroll::kNever);
    b_.SubgroupBarrier();
  };
  const int64_t count = block_.tall() * across;
  if (count <= 4 && !operands.big_finish) {
    for (int64_t t = 0; t < count; ++t)
      finish(U(t / across), U(t % across), static_cast<std::size_t>(t * strips.strip));
    return;
  }
  // The sums travel through the first variables, so that the epilogue is there once.
  b_.For(U(0), U(count), U(1), [&](Value t) {
    finish(b_.UDiv(t, U(across)), b_.UMod(t, U(across)), 0);
    const auto strip = static_cast<std::size_t>(strips.strip);
    for (std::size_t i = 0; i + strip < sums_.size(); ++i)
      matrices_.Write(sums_[i], matrices_.Read(sum_type_, sums_[i + strip]));
  });
}

}  // namespace krafla::spirv
