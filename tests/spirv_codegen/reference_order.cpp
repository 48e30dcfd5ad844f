// SPDX-License-Identifier: Apache-2.0
#include "reference_order.h"

#include <algorithm>
#include <numeric>

#include "krafla/shape.h"

namespace krafla::spirv::testing {
namespace {

std::vector<Bits> Apply(const plan::ElementProgram& program, const std::vector<Bytes>& memory,
                        std::vector<Bits> params) {
  Interpreter run(program, memory);
  run.SetPoint({}, std::move(params));
  return run.Results();
}

// Calls body(first, step) for each line along `dimension`.
template <class Body>
void ForEachLine(const Dims& dims, int dimension, Body body) {
  int64_t outer = 1, inner = 1;
  for (int d = 0; d < static_cast<int>(dims.size()); ++d) {
    if (d < dimension) outer *= dims[static_cast<std::size_t>(d)];
    if (d > dimension) inner *= dims[static_cast<std::size_t>(d)];
  }
  const int64_t length = dims[static_cast<std::size_t>(dimension)];
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) body(o * length * inner + i, inner);
}

bool Contains(const Dims& dims, int64_t d) { return std::find(dims.begin(), dims.end(), d) != dims.end(); }

// The point that comes next in row-major order; false after the last.
bool Next(std::vector<int64_t>& point, const Dims& dims) {
  for (std::size_t d = point.size(); d-- > 0;) {
    if (++point[d] < dims[d]) return true;
    point[d] = 0;
  }
  return false;
}

}  // namespace

void RunSort(const plan::SortKernel& sort, std::vector<Bytes>& memory) {
  auto buffer = [&](int binding) -> Bytes& { return memory[static_cast<std::size_t>(binding)]; };
  const std::size_t n = sort.inputs.size();
  const int64_t length = sort.dims[static_cast<std::size_t>(sort.dimension)];
  ForEachLine(sort.dims, sort.dimension, [&](int64_t first, int64_t step) {
    std::vector<int64_t> order(static_cast<std::size_t>(length));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      std::vector<Bits> params;
      for (std::size_t i = 0; i < n; ++i) {
        for (int64_t at : {a, b})
          params.push_back(sort.inputs[i] < 0 ? static_cast<Bits>(at)
                                              : ReadElement(buffer(sort.inputs[i]), sort.types[i], first + at * step));
      }
      return Apply(sort.comparator, memory, params)[0] != 0;
    });
    for (std::size_t i = 0; i < n; ++i) {
      const auto bytes = static_cast<std::size_t>(StorageBytes(sort.types[i]));
      const std::size_t kept =
          sort.keep < 0 ? order.size() : std::min(order.size(), static_cast<std::size_t>(sort.keep));
      for (std::size_t p = 0; p < kept; ++p) {
        const auto from = static_cast<std::size_t>(first + order[p] * step),
                   to = static_cast<std::size_t>(first + static_cast<int64_t>(p) * step);
        if (sort.inputs[i] < 0) {
          WriteElement(buffer(sort.outputs[i]), sort.types[i], static_cast<int64_t>(to), static_cast<Bits>(order[p]));
          continue;
        }
        std::copy_n(buffer(sort.inputs[i]).begin() + static_cast<std::ptrdiff_t>(from * bytes), bytes,
                    buffer(sort.outputs[i]).begin() + static_cast<std::ptrdiff_t>(to * bytes));
      }
    }
  });
}

void RunScan(const plan::ScanKernel& scan, std::vector<Bytes>& memory) {
  const int64_t length = scan.dims[static_cast<std::size_t>(scan.dimension)];
  ForEachLine(scan.dims, scan.dimension, [&](int64_t first, int64_t step) {
    Bits carry = Apply(scan.reduction.init, memory, {})[0];
    for (int64_t turn = 0; turn < length; ++turn) {
      const int64_t at = first + (scan.is_reverse ? length - 1 - turn : turn) * step;
      const Bits x = ReadElement(memory[static_cast<std::size_t>(scan.input)], scan.type, at);
      carry = Apply(scan.reduction.combiner, memory, {carry, x})[0];
      WriteElement(memory[static_cast<std::size_t>(scan.output)], scan.type, at, carry);
    }
  });
}

void RunScatter(const plan::ScatterKernel& s, std::vector<Bytes>& memory) {
  const ScatterAttributes& a = s.attributes;
  const Dims operand_strides = RowMajorStrides(s.operand_dims), index_strides = RowMajorStrides(s.indices_dims),
             update_strides = RowMajorStrides(s.updates_dims);
  auto at = [](const auto& dims, int64_t d) { return dims[static_cast<std::size_t>(d)]; };
  for (int64_t d : s.updates_dims)
    if (d == 0) return;
  std::vector<int64_t> update(s.updates_dims.size(), 0);
  do {
    // Coordinates of the update among the indices (the vector's dimension left out) and in the window.
    std::vector<int64_t> batch, window;
    for (int64_t d = 0; d < s.updates_dims.ssize(); ++d)
      (Contains(a.update_window_dims, d) ? window : batch).push_back(at(update, d));
    auto index_of = [&](int64_t component) {
      int64_t linear = 0;
      std::size_t next = 0;
      for (int64_t d = 0; d < s.indices_dims.ssize(); ++d)
        linear += at(index_strides, d) * (d == a.index_vector_dim ? component : batch[next++]);
      return static_cast<int64_t>(static_cast<int32_t>(
          ReadElement(memory[static_cast<std::size_t>(s.indices_binding)], s.indices_type, linear)));
    };
    bool inside = true;
    int64_t target = 0;
    std::size_t in_window = 0;
    for (int64_t d = 0; d < s.operand_dims.ssize(); ++d) {
      int64_t start = 0, extent = 1, offset = 0;
      const auto named = std::find(a.scatter_dims_to_operand_dims.begin(), a.scatter_dims_to_operand_dims.end(), d);
      if (named != a.scatter_dims_to_operand_dims.end())
        start = index_of(named - a.scatter_dims_to_operand_dims.begin());
      const auto batching = std::find(a.input_batching_dims.begin(), a.input_batching_dims.end(), d);
      if (batching != a.input_batching_dims.end()) {
        int64_t dim = at(a.scatter_indices_batching_dims, batching - a.input_batching_dims.begin());
        start = at(batch, dim - (dim > a.index_vector_dim ? 1 : 0));
      } else if (!Contains(a.inserted_window_dims, d)) {
        extent = at(s.updates_dims, at(a.update_window_dims, static_cast<int64_t>(in_window)));
        offset = window[in_window++];
      }
      inside = inside && start >= 0 && start + extent <= at(s.operand_dims, d);
      target += (start + offset) * at(operand_strides, d);
    }
    if (!inside) continue;
    int64_t from = 0;
    for (int64_t d = 0; d < s.updates_dims.ssize(); ++d) from += at(update, d) * at(update_strides, d);
    std::vector<Bits> params;
    for (std::size_t k = 0; k < s.outputs.size(); ++k)
      params.push_back(ReadElement(memory[static_cast<std::size_t>(s.outputs[k])], s.types[k], target));
    for (std::size_t k = 0; k < s.updates.size(); ++k)
      params.push_back(ReadElement(memory[static_cast<std::size_t>(s.updates[k])], s.types[k], from));
    const std::vector<Bits> made = Apply(s.combiner.combiner, memory, params);
    for (std::size_t k = 0; k < s.outputs.size(); ++k)
      WriteElement(memory[static_cast<std::size_t>(s.outputs[k])], s.types[k], target, made[k]);
  } while (Next(update, s.updates_dims));
}

}  // namespace krafla::spirv::testing
