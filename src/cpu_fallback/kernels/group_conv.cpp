// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/group_conv.h"

#include <algorithm>
#include <cstring>

#include "base/checked_math.h"
#include "base/index.h"
#include "base/interruption.h"
#include "cpu_fallback/kernels/move.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/group_conv.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Products that are added in turn, before their sum is added to what was there.
inline constexpr int64_t kTurns = 256;

template <class T, bool kIsWhole>
struct GroupLanes {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  const GroupConv::Shape& shape;
  std::size_t lanes;

  HWY_INLINE V Load(const T* at) const {
    if constexpr (kIsWhole) return hn::LoadU(D(), at);
    else return hn::LoadN(D(), at, lanes);
  }

  // Columns [first, first + kColumns) of one row of the result, of one feature: added to the totals.
  template <int kColumns>
  void AddColumns(const T* input, const T* kernel, int64_t plane, int64_t row, int64_t first, T* totals) const {
    const D d;
    const auto width = static_cast<int64_t>(hn::Lanes(d));
    const auto& [p, r, c] = shape.spatial;
    // The taps that all of the columns see; the others are looked at one by one.
    const int64_t begin = first * c.stride - c.padding_low, last = begin + (kColumns - 1) * c.stride;
    const int64_t inside = begin >= 0 ? 0 : std::min(c.taps, (-begin + c.dilation - 1) / c.dilation);
    const int64_t behind =
        last >= c.extent ? inside : std::clamp((c.extent - 1 - last) / c.dilation + 1, inside, c.taps);
    V sums[kColumns];
    for (int k = 0; k < kColumns; ++k) sums[k] = hn::Zero(d);
    int64_t turns = 0;
    const auto flush = [&]() HWY_ATTR {
      for (int k = 0; k < kColumns; ++k) {
        hn::StoreU(hn::Add(hn::LoadU(d, totals + k * width), sums[k]), d, totals + k * width);
        sums[k] = hn::Zero(d);
      }
      turns = 0;
    };
    for (int64_t tp = 0; tp < p.taps; ++tp) {
      const int64_t at_p = plane * p.stride + tp * p.dilation - p.padding_low;
      if (at_p < 0 || at_p >= p.extent) continue;
      for (int64_t tr = 0; tr < r.taps; ++tr) {
        const int64_t at_r = row * r.stride + tr * r.dilation - r.padding_low;
        if (at_r < 0 || at_r >= r.extent) continue;
        const T* x = input + at_p * p.input_step + at_r * r.input_step;
        const T* y = kernel + tp * p.kernel_step + tr * r.kernel_step;
        const auto some = [&](int64_t from, int64_t to) HWY_ATTR {
          for (int64_t t = from; t < to; ++t) {
            const V factor = Load(y + t * c.kernel_step);
            for (int k = 0; k < kColumns; ++k) {
              const int64_t at = begin + k * c.stride + t * c.dilation;
              if (at >= 0 && at < c.extent) sums[k] = hn::MulAdd(Load(x + at * c.input_step), factor, sums[k]);
            }
          }
        };
        some(0, inside);
        for (int64_t from = inside; from < behind;) {
          const int64_t to = std::min(behind, from + kTurns - turns);
          for (int64_t t = from; t < to; ++t) {
            const V factor = Load(y + t * c.kernel_step);
            const T* at = x + (begin + t * c.dilation) * c.input_step;
            for (int k = 0; k < kColumns; ++k)
              sums[k] = hn::MulAdd(Load(at + k * c.stride * c.input_step), factor, sums[k]);
          }
          turns += to - from;
          from = to;
          if (turns >= kTurns) flush();
        }
        some(behind, c.taps);
        turns += c.taps - (behind - inside);
        if (turns >= kTurns) flush();
      }
    }
    flush();
  }

  void AddRow(const T* input, const T* kernel, int64_t plane, int64_t row, T* totals) const {
    const auto width = static_cast<int64_t>(hn::Lanes(D()));
    const int64_t columns = shape.spatial[2].outputs;
    int64_t c = 0;
    for (; c + 4 <= columns; c += 4) AddColumns<4>(input, kernel, plane, row, c, totals + c * width);
    if (columns - c == 3) AddColumns<3>(input, kernel, plane, row, c, totals + c * width);
    if (columns - c == 2) AddColumns<2>(input, kernel, plane, row, c, totals + c * width);
    if (columns - c == 1) AddColumns<1>(input, kernel, plane, row, c, totals + c * width);
  }
};

// Rows [begin, end) of the result for `lanes` groups, at most a vector.
template <class T>
void SumGroups(const GroupConv::Shape& shape, const T* input, const T* kernel, int64_t lanes, int64_t begin,
               int64_t end, T* totals, T* result, int64_t lane_step) {
  const auto width = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  const auto& [p, r, c] = shape.spatial;
  std::memset(totals, 0, static_cast<std::size_t>((end - begin) * c.outputs * width) * sizeof(T));
  const auto add = [&](const auto& of) HWY_ATTR {
    for (int64_t f = 0; f < shape.features; ++f)
      for (int64_t row = begin; row < end; ++row)
        of.AddRow(input + f * shape.input_feature_step, kernel + f * shape.kernel_feature_step, row / r.outputs,
                  row % r.outputs, totals + (row - begin) * c.outputs * width);
  };
  if (lanes == width) add(GroupLanes<T, true>{shape, static_cast<std::size_t>(lanes)});
  else add(GroupLanes<T, false>{shape, static_cast<std::size_t>(lanes)});
  for (int64_t row = begin; row < end; ++row)
    for (int64_t column = 0; column < c.outputs; ++column, totals += width) {
      T* to = result + row / r.outputs * p.result_step + row % r.outputs * r.result_step + column * c.result_step;
      if (lane_step == 1) std::memcpy(to, totals, static_cast<std::size_t>(lanes) * sizeof(T));
      else
        for (int64_t lane = 0; lane < lanes; ++lane) to[lane * lane_step] = totals[lane];
    }
}
void SumGroupsF32(const GroupConv::Shape& shape, const float* input, const float* kernel, int64_t lanes, int64_t begin,
                  int64_t end, float* totals, float* result, int64_t lane_step) {
  SumGroups(shape, input, kernel, lanes, begin, end, totals, result, lane_step);
}
void SumGroupsF64(const GroupConv::Shape& shape, const double* input, const double* kernel, int64_t lanes,
                  int64_t begin, int64_t end, double* totals, double* result, int64_t lane_step) {
  SumGroups(shape, input, kernel, lanes, begin, end, totals, result, lane_step);
}
int64_t VectorBytes() { return static_cast<int64_t>(hn::Lanes(hn::ScalableTag<uint8_t>())); }

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(SumGroupsF32);
HWY_EXPORT(SumGroupsF64);
HWY_EXPORT(VectorBytes);

namespace {

// Of fewer groups a vector is mostly empty; of more convolutions in each, those are worth a product of matrices.
constexpr int64_t kLeastGroups = 16, kMostInGroup = 16;
// Of features: the product of matrices that takes the others has columns in whole vectors.
constexpr int64_t kLeastFeatureGroups = 4, kMostChannels = 4;
constexpr int64_t kMostColumns = 4096;
// Of the sums that a task has at once.
constexpr int64_t kTotalsBytes = 16 * 1024;
constexpr double kGrainFlops = 100000;

}  // namespace

bool GroupConv::Takes(const ConvolutionProblem& problem, Of of, int64_t groups, ElementType type) {
  if (type != ElementType::kF32 && type != ElementType::kF64) return false;
  if (problem.input.type != type || problem.kernel.type != type || problem.result.type != type) return false;
  const int64_t channels = problem.result.dims[1] / groups;
  const bool pays = of == Of::kBatch ? groups >= kLeastGroups && problem.result.dims[0] * channels <= kMostInGroup
                                     : groups >= kLeastFeatureGroups && channels <= kMostChannels;
  return pays && problem.input.dims.size() <= 5 && problem.result.dims.back() <= kMostColumns;
}

GroupConv::GroupConv(const ConvolutionProblem& problem, Of of, int64_t groups, int threads)
    : groups_(groups), type_(problem.input.type), width_(StorageBytes(problem.input.type)), result_(problem.result) {
  const int64_t features = problem.kernel.dims[1];
  input_.view = problem.input, kernel_.view = problem.kernel;
  input_.members = of == Of::kBatch ? problem.input.dims[0] / groups : problem.input.dims[0];
  input_.group_step =
      of == Of::kBatch ? input_.members * problem.input.strides[0] : features * problem.input.strides[1];
  kernel_.members = problem.kernel.dims[0] / groups;
  kernel_.group_step = kernel_.members * problem.kernel.strides[0];
  input_.features = kernel_.features = shape_.features = features;
  const std::size_t rank = problem.window.strides.size();
  for (std::size_t d = 0; d < rank; ++d)
    shape_.spatial[3 - rank + d] = {.extent = problem.input.dims[2 + d],
                                    .taps = problem.kernel.dims[2 + d],
                                    .outputs = problem.result.dims[2 + d],
                                    .stride = problem.window.strides[d],
                                    .dilation = problem.window.dilations[d],
                                    .padding_low = problem.window.padding_low[d],
                                    .result_step = problem.result.strides[2 + d]};
  Place(input_, shape_.input_feature_step, &Spatial::input_step);
  Place(kernel_, shape_.kernel_feature_step, &Spatial::kernel_step);
  lanes_ = HWY_DYNAMIC_DISPATCH(VectorBytes)() / width_;
  const auto& [p, r, c] = shape_.spatial;
  rows_ = p.outputs * r.outputs;
  const int64_t blocks = input_.members * kernel_.members * CeilDiv(groups, lanes_);
  task_rows_ = std::clamp<int64_t>(kTotalsBytes / (c.outputs * lanes_ * width_), 1, rows_);
  // Each part of the rows reads the input again: no more of them than there is work for.
  if (threads > 1 && blocks < 2 * threads)
    task_rows_ = std::min(task_rows_, CeilDiv(rows_, CeilDiv(int64_t{2} * threads, blocks)));
  tasks_ = blocks * CeilDiv(rows_, task_rows_);
  task_flops_ = 2.0 * static_cast<double>(task_rows_ * c.outputs * lanes_) *
                static_cast<double>(shape_.features * p.taps) * static_cast<double>(r.taps * c.taps);
  totals_ = scratch_bytes_;
  worker_bytes_ = RoundUp(task_rows_ * c.outputs * lanes_ * width_, 64);
  scratch_bytes_ += worker_bytes_ * threads;
}

void GroupConv::Place(Operand& operand, int64_t& feature_step, int64_t Spatial::* step) {
  const TensorView& view = operand.view;
  const std::size_t rank = view.dims.size() - 2;
  if (operand.group_step == 1) {
    operand.member_step = view.strides[0];
    feature_step = view.strides[1];
    for (std::size_t d = 0; d < rank; ++d) shape_.spatial[3 - rank + d].*step = view.strides[2 + d];
    return;
  }
  // [members, features, spatial, groups].
  operand.copy = scratch_bytes_;
  int64_t count = groups_;
  for (std::size_t d = rank; d-- > 0;) {
    shape_.spatial[3 - rank + d].*step = count;
    count *= view.dims[2 + d];
  }
  feature_step = count;
  operand.member_step = count * operand.features;
  scratch_bytes_ += RoundUp(operand.member_step * operand.members * width_, 64);
}

const std::byte* GroupConv::Operand::Prepare(const std::byte* from, int64_t groups, int width, ThreadPool& pool,
                                             std::byte* scratch) const {
  from += view.offset * width;
  if (copy < 0) return from;
  std::byte* const to = scratch + copy;
  // Dimensions that are one behind the other in memory are moved as one.
  std::size_t outer = view.dims.size() - 1;
  int64_t run = view.dims[outer];
  while (outer > 2 && view.strides[outer - 1] == run * view.strides.back()) run *= view.dims[--outer];
  int64_t pieces = members * features;
  for (std::size_t d = 2; d < outer; ++d) pieces *= view.dims[d];
  pool.ParallelFor(pieces, CeilDiv(int64_t{16 * 1024}, run * groups), [&](int64_t begin, int64_t end, int) {
    for (int64_t piece = begin; piece < end; ++piece) {
      int64_t rest = piece, at = 0;
      for (std::size_t d = outer; d-- > 2; rest /= view.dims[d]) at += rest % view.dims[d] * view.strides[d];
      at += rest % features * view.strides[1] + rest / features * view.strides[0];
      MoveTile(width, from + at * width, {view.strides.back(), group_step}, to + piece * run * groups * width,
               {groups, 1}, run, groups);
    }
  });
  return to;
}

void GroupConv::Run(const std::byte* input, const std::byte* kernel, std::byte* result, ThreadPool& pool,
                    std::byte* scratch) const {
  input = input_.Prepare(input, groups_, width_, pool, scratch);
  kernel = kernel_.Prepare(kernel, groups_, width_, pool, scratch);
  result += result_.offset * width_;
  const int64_t blocks = CeilDiv(groups_, lanes_), parts = CeilDiv(rows_, task_rows_);
  const auto grain = std::max<int64_t>(1, static_cast<int64_t>(kGrainFlops / task_flops_));
  pool.ParallelFor(tasks_, grain, [&](int64_t begin, int64_t end, int worker) {
    std::byte* const totals = scratch + totals_ + worker * worker_bytes_;
    for (int64_t task = begin; task < end && !IsInterrupted(); ++task) {
      const int64_t first_row = task % parts * task_rows_, end_row = std::min(rows_, first_row + task_rows_);
      const int64_t first = task / parts % blocks * lanes_, lanes = std::min(lanes_, groups_ - first);
      const int64_t member = task / parts / blocks, channel = member % kernel_.members,
                    image = member / kernel_.members;
      const std::byte* x = input + (image * input_.member_step + first) * width_;
      const std::byte* y = kernel + (channel * kernel_.member_step + first) * width_;
      std::byte* to =
          result + (image * result_.strides[0] + (first * kernel_.members + channel) * result_.strides[1]) * width_;
      const int64_t lane_step = kernel_.members * result_.strides[1];
      const auto run = [&]<class T>(T, auto sum) {
        sum(shape_, reinterpret_cast<const T*>(x), reinterpret_cast<const T*>(y), lanes, first_row, end_row,
            reinterpret_cast<T*>(totals), reinterpret_cast<T*>(to), lane_step);
      };
      if (type_ == ElementType::kF32) run(float(), HWY_DYNAMIC_POINTER(SumGroupsF32));
      else run(double(), HWY_DYNAMIC_POINTER(SumGroupsF64));
    }
  });
}

}  // namespace krafla::cpu
#endif
