// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <functional>

#include "interpreter.h"
#include "krafla/shape.h"
#include "krafla/status.h"
#include "reference_order.h"

namespace krafla::spirv::testing {
namespace {

using plan::ReduceStage;

void ForEachPoint(std::span<const int64_t> dims, const std::function<void(const std::vector<int64_t>&)>& body) {
  std::vector<int64_t> point(dims.size(), 0);
  for (int64_t d : dims) {
    if (d == 0) return;
  }
  while (true) {
    body(point);
    int d = static_cast<int>(dims.size()) - 1;
    for (; d >= 0; --d) {
      const auto i = static_cast<std::size_t>(d);
      if (++point[i] < dims[i]) break;
      point[i] = 0;
    }
    if (d < 0) return;
  }
}

std::vector<Bits> Combine(const plan::ElementProgram& combiner, const std::vector<Bytes>& memory,
                          const std::vector<Bits>& left, const std::vector<Bits>& right) {
  std::vector<Bits> params = left;
  params.insert(params.end(), right.begin(), right.end());
  Interpreter run(combiner, memory);
  run.SetPoint({}, params);
  return run.Results();
}

void RunLoop(const plan::LoopKernel& loop, std::vector<Bytes>& memory) {
  Interpreter run(loop.program, memory);
  ForEachPoint(loop.program.space.dims(), [&](const std::vector<int64_t>& point) {
    run.SetPoint(point);
    run.Store(memory);
  });
}

void RunReduce(const plan::ReduceKernel& reduce, std::vector<Bytes>& memory) {
  ForEachPoint(reduce.row_dims, [&](const std::vector<int64_t>& row) {
    std::vector<Bits> known;
    for (const ReduceStage& stage : reduce.stages) {
      Interpreter run(stage.program, memory);
      if (stage.scope == ReduceStage::Scope::kRow) {
        run.SetPoint(row, known);
        run.Store(memory);
        continue;
      }
      std::vector<std::vector<Bits>> totals;
      for (const plan::Reduction& r : stage.reductions) {
        Interpreter init(r.init, memory);
        init.SetPoint({});
        totals.push_back(init.Results());
      }
      std::vector<double> sums(stage.reductions.size(), 0.0);
      ForEachPoint(reduce.element_dims, [&](const std::vector<int64_t>& element) {
        std::vector<int64_t> point = row;
        point.insert(point.end(), element.begin(), element.end());
        run.SetPoint(point, known);
        const std::vector<Bits> results = run.Results();
        for (std::size_t i = 0; i < totals.size(); ++i) {
          const plan::Reduction& r = stage.reductions[i];
          std::vector<Bits> values;
          for (int input : r.inputs) values.push_back(results[static_cast<std::size_t>(input)]);
          if (r.kind == plan::Reduction::Kind::kSum && plan::ComputeType(r.hlo_type) == ElementType::kF32) {
            sums[i] += static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(values[0])));
          } else {
            totals[i] = Combine(r.combiner, memory, totals[i], values);
          }
        }
        run.Store(memory);
      });
      for (std::size_t i = 0; i < totals.size(); ++i) {
        const plan::Reduction& r = stage.reductions[i];
        if (r.kind == plan::Reduction::Kind::kSum && plan::ComputeType(r.hlo_type) == ElementType::kF32) {
          const double init = static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(totals[i][0])));
          totals[i][0] = std::bit_cast<uint32_t>(static_cast<float>(sums[i] + init));
        }
        known.insert(known.end(), totals[i].begin(), totals[i].end());
      }
    }
  });
}

// Sums in f64 or modulo 2^64.
struct Sum {
  double real = 0;
  uint64_t whole = 0;
  void Add(ElementType type_x, Bits x, ElementType type_y, Bits y) {
    real += Real(type_x, x) * Real(type_y, y);
    whole += Whole(type_x, x) * Whole(type_y, y);
  }
  static double Real(ElementType t, Bits v) {
    const ElementType c = plan::ComputeType(t);
    if (c == ElementType::kF32) return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(v)));
    if (c == ElementType::kF64) return std::bit_cast<double>(v);
    return 0;
  }
  static uint64_t Whole(ElementType t, Bits v) {
    const ElementType c = plan::ComputeType(t);
    return c == ElementType::kS32 ? static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(v))) : v;
  }
  // As the epilogue's param.
  Bits Result(ElementType accumulate, ElementType result) const {
    Bytes cell(8);
    if (IsFloat(accumulate)) {
      const Bits bits = accumulate == ElementType::kF64 ? std::bit_cast<Bits>(real)
                                                        : std::bit_cast<uint32_t>(static_cast<float>(real));
      if (result == ElementType::kF64 && accumulate == ElementType::kF32) {
        return std::bit_cast<Bits>(static_cast<double>(static_cast<float>(real)));
      }
      WriteElement(cell, result, 0, bits);
    } else {
      WriteElement(cell, result, 0, whole);
    }
    return ReadElement(cell, result, 0);
  }
};

void RunDot(const plan::DotKernel& dot, std::vector<Bytes>& memory) {
  std::vector<int64_t> dims(dot.batch.begin(), dot.batch.end());
  dims.push_back(dot.m);
  dims.push_back(dot.n);
  Interpreter run(dot.epilogue, memory), lhs(dot.lhs_program, memory), rhs(dot.rhs_program, memory);
  ForEachPoint(dims, [&](const std::vector<int64_t>& point) {
    const std::size_t rank = dot.batch.size();
    int64_t l = dot.lhs_offset + point[rank] * dot.lhs_m_stride,
            r = dot.rhs_offset + point[rank + 1] * dot.rhs_n_stride;
    for (std::size_t i = 0; i < rank; ++i) {
      l += point[i] * dot.lhs_batch_strides[i];
      r += point[i] * dot.rhs_batch_strides[i];
    }
    Sum sum;
    for (int64_t k = 0; k < dot.k; ++k) {
      const auto computed = [&](Interpreter& program, int64_t row, int64_t column) {
        std::vector<int64_t> at(point.begin(), point.begin() + static_cast<std::ptrdiff_t>(rank));
        at.insert(at.end(), {row, column});
        program.SetPoint(at);
        return program.Results()[0];
      };
      const auto stored = [&](int binding, ElementType type, int64_t index) {
        return ReadElement(memory[static_cast<std::size_t>(binding)], type, index);
      };
      sum.Add(dot.lhs_type,
              dot.computes_lhs() ? computed(lhs, point[rank], k)
                                 : stored(dot.lhs_binding, dot.lhs_type, l + k * dot.lhs_k_stride),
              dot.rhs_type,
              dot.computes_rhs() ? computed(rhs, k, point[rank + 1])
                                 : stored(dot.rhs_binding, dot.rhs_type, r + k * dot.rhs_k_stride));
    }
    run.SetPoint(point, {sum.Result(dot.accumulate_type, dot.result_type)});
    run.Store(memory);
  });
}

void RunConv(const plan::ConvKernel& k, std::vector<Bytes>& memory) {
  const ConvolutionAttributes& a = k.attributes;
  const auto at = [](const auto& dims, int64_t d) { return dims[static_cast<std::size_t>(d)]; };
  const Dims input_strides = RowMajorStrides(k.input_dims), kernel_strides = RowMajorStrides(k.kernel_dims);
  std::vector<int64_t> window;
  for (const WindowDim& w : a.window) window.push_back(w.size);
  const int64_t inputs = at(k.kernel_dims, a.kernel_input_feature);
  window.push_back(inputs);
  const int64_t features = at(k.output_dims, a.output_feature);
  Interpreter run(k.epilogue, memory);
  ForEachPoint(k.output_dims, [&](const std::vector<int64_t>& point) {
    Sum sum;
    const int64_t feature = at(point, a.output_feature);
    const int64_t group = feature / (features / a.feature_group_count);
    const int64_t batch_group = feature / (features / a.batch_group_count);
    const int64_t batch =
        batch_group * (at(k.input_dims, a.input_batch) / a.batch_group_count) + at(point, a.output_batch);
    ForEachPoint(window, [&](const std::vector<int64_t>& place) {
      int64_t x = batch * at(input_strides, a.input_batch) +
                  (group * inputs + place.back()) * at(input_strides, a.input_feature);
      int64_t y = feature * at(kernel_strides, a.kernel_output_feature) +
                  place.back() * at(kernel_strides, a.kernel_input_feature);
      for (std::size_t d = 0; d < a.window.size(); ++d) {
        const WindowDim& w = a.window[d];
        const int64_t from = at(point, a.output_spatial[d]) * w.stride + place[d] * w.window_dilation - w.padding_low;
        if (from < 0 || from % w.base_dilation != 0 || from / w.base_dilation >= at(k.input_dims, a.input_spatial[d]))
          return;
        x += from / w.base_dilation * at(input_strides, a.input_spatial[d]);
        y += (w.reversal ? w.size - 1 - place[d] : place[d]) * at(kernel_strides, a.kernel_spatial[d]);
      }
      sum.Add(k.input_type, ReadElement(memory[static_cast<std::size_t>(k.input_binding)], k.input_type, x),
              k.kernel_type, ReadElement(memory[static_cast<std::size_t>(k.kernel_binding)], k.kernel_type, y));
    });
    run.SetPoint(point, {sum.Result(k.accumulate_type, k.result_type)});
    run.Store(memory);
  });
}

}  // namespace

void RunKernel(const plan::KernelPlan& plan, std::vector<Bytes>& memory) {
  if (const auto* loop = std::get_if<plan::LoopKernel>(&plan.body)) return RunLoop(*loop, memory);
  if (const auto* reduce = std::get_if<plan::ReduceKernel>(&plan.body)) return RunReduce(*reduce, memory);
  if (const auto* dot = std::get_if<plan::DotKernel>(&plan.body)) return RunDot(*dot, memory);
  if (const auto* conv = std::get_if<plan::ConvKernel>(&plan.body)) return RunConv(*conv, memory);
  if (const auto* sort = std::get_if<plan::SortKernel>(&plan.body)) return RunSort(*sort, memory);
  if (const auto* scan = std::get_if<plan::ScanKernel>(&plan.body)) return RunScan(*scan, memory);
  if (const auto* scatter = std::get_if<plan::ScatterKernel>(&plan.body)) return RunScatter(*scatter, memory);
  KRAFLA_UNREACHABLE();
}

}  // namespace krafla::spirv::testing
