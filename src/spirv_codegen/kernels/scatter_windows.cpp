// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/kernels/scatter_windows.h"

#include <algorithm>

#include "ir/dims.h"

namespace krafla::spirv {

namespace {

int64_t At(const Dims& d, int64_t i) { return d[static_cast<std::size_t>(i)]; }

}  // namespace

ScatterGeometry::ScatterGeometry(const plan::ScatterKernel& of)
    : s(of),
      operand_strides(RowMajorStrides(of.operand_dims)),
      update_strides(RowMajorStrides(of.updates_dims)),
      index_strides(RowMajorStrides(of.indices_dims)) {
  const ScatterAttributes& a = s.attributes;
  for (int64_t d = 0; d < s.updates_dims.ssize(); ++d)
    (Contains(a.update_window_dims, d) ? window : batch).push_back(d);
  std::size_t next = 0;
  for (int64_t d = 0; d < s.operand_dims.ssize(); ++d) {
    const bool in_window = !Contains(a.inserted_window_dims, d) && !Contains(a.input_batching_dims, d);
    window_of_operand.push_back(in_window ? window[next++] : -1);
  }
  for (int64_t d : window) window_extents.push_back(At(s.updates_dims, d));
  for (int64_t d : batch) batch_extents.push_back(At(s.updates_dims, d));
  has_vectors = a.index_vector_dim < s.indices_dims.ssize();
  for (int64_t d : a.scatter_dims_to_operand_dims) {
    const int64_t dim = window_of_operand[static_cast<std::size_t>(d)];
    if (dim >= 0 && At(s.updates_dims, dim) > 1 && At(s.updates_dims, dim) < At(s.operand_dims, d))
      sliding.push_back(d);
  }
}

int64_t ScatterGeometry::Room(int64_t d) const {
  const int64_t w = window_of_operand[static_cast<std::size_t>(d)];
  return At(s.operand_dims, d) - (w < 0 ? 1 : At(s.updates_dims, w));
}

int64_t ScatterGeometry::group_count() const {
  int64_t out = 1;
  for (int64_t d : s.attributes.scatter_dims_to_operand_dims) out += std::max<int64_t>(Room(d), 0);
  for (int64_t d : s.attributes.input_batching_dims) out *= At(s.operand_dims, d);
  return out;
}

ScatterWindows::Place ScatterWindows::WindowPlace(Value element, bool alone) {
  const Values index = Delinearize(element, g_.window_extents);
  Place out{U32(0), U32(0), {}, {}};
  if (!alone) out.remainders.resize(g_.window_of_operand.size());
  for (std::size_t d = 0; d < g_.window_of_operand.size(); ++d) {
    if (g_.window_of_operand[d] < 0) continue;
    if (!alone && Contains(g_.sliding, static_cast<int64_t>(d))) {
      const auto at = std::find(g_.window.begin(), g_.window.end(), g_.window_of_operand[d]);
      out.remainders[d] = index[static_cast<std::size_t>(at - g_.window.begin())];
      continue;
    }
    auto n = static_cast<std::size_t>(std::find(g_.window.begin(), g_.window.end(), g_.window_of_operand[d]) -
                                      g_.window.begin());
    out.operand = b_.Add(out.operand, b_.Mul(index[n], U32(g_.operand_strides[d])));
    out.update = b_.Add(out.update, b_.Mul(index[n], U32(At(g_.update_strides, g_.window[n]))));
  }
  return out;
}

ScatterWindows::Update ScatterWindows::Locate(Value batch, const Values& remainders) {
  const ScatterAttributes& a = s_.attributes;
  const Values index = Delinearize(batch, g_.batch_extents);
  Value index_at = U32(0), update_at = U32(0), corner = U32(0);
  for (std::size_t n = 0; n < index.size(); ++n) {
    auto d = static_cast<int64_t>(n);
    if (g_.has_vectors && d >= a.index_vector_dim) ++d;
    index_at = b_.Add(index_at, b_.Mul(index[n], U32(At(g_.index_strides, d))));
    update_at = b_.Add(update_at, b_.Mul(index[n], U32(At(g_.update_strides, g_.batch[n]))));
  }
  Value inside = b_.m.Bool(true), group = U32(0);
  int64_t groups = 1;
  for (std::size_t k = 0; k < a.scatter_dims_to_operand_dims.size(); ++k) {
    const int64_t d = a.scatter_dims_to_operand_dims[k];
    const int64_t w = g_.window_of_operand[static_cast<std::size_t>(d)];
    const int64_t room = g_.Room(d);
    const Value at = g_.has_vectors
                         ? b_.Add(index_at, U32(static_cast<int64_t>(k) * At(g_.index_strides, a.index_vector_dim)))
                         : index_at;
    Value start =
        FromStorage(b_, s_.indices_type, w_.buffers.Load(s_.indices_binding, StorageBytes(s_.indices_type), at, 1));
    if (room < 0) {
      inside = b_.m.Bool(false);
      break;
    }
    // A negative start is a large number without its sign.
    inside = b_.LAnd(inside, b_.Compare(Cmp::kULe, start, b_.Const(start.kind, static_cast<uint64_t>(room))));
    if (KindBits(start.kind) == 64) start = b_.UConvert(start, Kind::kU32);
    corner = b_.Add(corner, b_.Mul(start, U32(At(g_.operand_strides, d))));
    group = b_.Add(group, start);
    groups += room;
    if (!remainders.empty() && remainders[static_cast<std::size_t>(d)]) {
      // The one element of the window whose coordinate has this invocation's remainder.
      const Value length = U32(At(s_.updates_dims, w));
      const Value own = remainders[static_cast<std::size_t>(d)], first = b_.UMod(start, length);
      const Value ahead = b_.Select(b_.Compare(Cmp::kUGe, own, first), U32(0), length);
      const Value offset = b_.Sub(b_.Add(own, ahead), first);
      corner = b_.Add(corner, b_.Mul(offset, U32(At(g_.operand_strides, d))));
      update_at = b_.Add(update_at, b_.Mul(offset, U32(At(g_.update_strides, w))));
    }
  }
  for (std::size_t k = 0; k < a.input_batching_dims.size(); ++k) {
    const int64_t dim = a.scatter_indices_batching_dims[k];
    auto n = static_cast<std::size_t>(g_.has_vectors && dim > a.index_vector_dim ? dim - 1 : dim);
    corner = b_.Add(corner, b_.Mul(index[n], U32(At(g_.operand_strides, a.input_batching_dims[k]))));
    group = b_.Add(group, b_.Mul(index[n], U32(groups)));
    groups *= At(s_.operand_dims, a.input_batching_dims[k]);
  }
  return {inside, group, corner, update_at};
}

void ScatterWindows::Combine(Value operand_at, Value update_at) {
  const std::size_t n = s_.updates.size();
  Values params(2 * n);
  for (std::size_t k = 0; k < n; ++k) {
    const ElementType type = s_.types[k];
    const Kind kind64 = type == ElementType::kF64 ? Kind::kF64 : Kind::kU64;
    params[k] = FromStorage(b_, type, w_.buffers.Load(s_.outputs[k], StorageBytes(type), operand_at, 1, kind64));
    params[n + k] = FromStorage(b_, type, w_.buffers.Load(s_.updates[k], StorageBytes(type), update_at, 1, kind64));
  }
  const Values made = RunScalarProgram(b_, w_.buffers, s_.combiner.combiner, params, /*seen=*/true);
  for (std::size_t k = 0; k < n; ++k)
    w_.buffers.Store(s_.outputs[k], StorageBytes(s_.types[k]), operand_at, ToStorage(b_, s_.types[k], made[k]));
}

Values ScatterWindows::Delinearize(Value linear, const Dims& extents) {
  Values out(extents.size());
  for (std::size_t d = extents.size(); d-- > 0;) {
    const Value rest = d == 0 ? U32(0) : b_.UDiv(linear, U32(extents[d]));
    out[d] = d == 0 ? linear : b_.Sub(linear, b_.Mul(rest, U32(extents[d])));
    linear = rest;
  }
  return out;
}

}  // namespace krafla::spirv
