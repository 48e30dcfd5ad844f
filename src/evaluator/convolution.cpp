// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "base/index.h"
#include "base/interruption.h"
#include "evaluator/context.h"
#include "evaluator/gemm.h"
#include "evaluator/odometer.h"
#include "evaluator/strided.h"

namespace krafla::evaluator {

namespace {

// An operand in the accumulator type with its dimensions in the order `order`.
Result<Literal> Arranged(Context& context, const Literal& in, std::span<const int64_t> order, ElementType type) {
  const Dims strides = RowMajorStrides(in.shape().dims());
  Dims dims;
  View from;
  for (int64_t d : order) {
    dims.push_back(in.shape().dim(d));
    from.strides.push_back(strides[At(d)]);
  }
  KRAFLA_ASSIGN(Shape shape, Shape::MakeArray(in.shape().element_type(), dims));
  KRAFLA_ASSIGN(Literal moved, NewLiteral(context, shape));
  CopyView(dims, StorageBytes(shape.element_type()), in.bytes().data(), from, moved.bytes().data(), DenseView(shape));
  KRAFLA_ASSIGN(Literal out, NewLiteral(context, shape.WithElementType(type)));
  ToAccumulator(moved.bytes().data(), shape.element_type(), out.bytes().data(), type, shape.element_count());
  return out;
}

struct Problem {
  int64_t batch, groups, batch_groups;
  int64_t in_features, out_features;  // of the whole arrays
  int64_t group_in, group_out;        // input features of one kernel; output features of one group
  int64_t out_batch;
  Dims in_spatial, kernel_spatial, out_spatial;
};

// Where kernel tap `tap` reads for output position `position` in one dimension; -1: padding.
int64_t Source(const WindowDim& w, int64_t position, int64_t tap, int64_t extent, int64_t taps) {
  const int64_t t = w.reversal ? taps - 1 - tap : tap;
  const int64_t at = position * w.stride + t * w.window_dilation - w.padding_low;
  if (at < 0 || at % w.base_dilation != 0) return -1;
  return at / w.base_dilation < extent ? at / w.base_dilation : -1;
}

// y[k] += sum over c of x[c] * w[c * stride + k], four values of c at a time so that y is read once for four.
template <class T>
void Accumulate(T* y, int64_t n, const T* x, int64_t channels, const T* w, int64_t stride) {
  int64_t c = 0;
  for (; c + 4 <= channels; c += 4) {
    const T v0 = x[c], v1 = x[c + 1], v2 = x[c + 2], v3 = x[c + 3];
    const T *w0 = w + c * stride, *w1 = w0 + stride, *w2 = w1 + stride, *w3 = w2 + stride;
    for (int64_t k = 0; k < n; ++k) y[k] += (v0 * w0[k] + v1 * w1[k]) + (v2 * w2[k] + v3 * w3[k]);
  }
  for (; c < channels; ++c) {
    const T v = x[c];
    for (int64_t k = 0; k < n; ++k) y[k] += v * w[c * stride + k];
  }
}

// in: [batch, spatial..., features], kernel: [spatial..., group_in, out_features], out: [out_batch, spatial...,
// out_features].
template <class T>
void Convolve(const Problem& p, const Window& window, const T* in, const T* kernel, T* out) {
  const std::size_t rank = p.in_spatial.size();
  const Dims in_strides = RowMajorStrides(p.in_spatial);
  int64_t in_points = 1, taps = 1, out_points = 1;
  for (std::size_t d = 0; d < rank; ++d) {
    in_points *= p.in_spatial[d];
    taps *= p.kernel_spatial[d];
    out_points *= p.out_spatial[d];
  }
  Dims position(rank, 0), tap(rank, 0);
  InterruptionPoll poll;
  for (int64_t n = 0; n < p.out_batch; ++n) {
    std::fill(position.begin(), position.end(), 0);
    for (int64_t o = 0; o < out_points; ++o) {
      if (poll.Ends(1)) return;
      T* row = out + (n * out_points + o) * p.out_features;
      std::fill(tap.begin(), tap.end(), 0);
      for (int64_t t = 0; t < taps; ++t) {
        if (poll.Ends(p.out_features * p.group_in)) return;
        int64_t source = 0;
        for (std::size_t d = 0; d < rank && source >= 0; ++d) {
          const int64_t at = Source(window[d], position[d], tap[d], p.in_spatial[d], p.kernel_spatial[d]);
          source = at < 0 ? -1 : source + at * in_strides[d];
        }
        if (source >= 0) {
          const T* weights = kernel + t * p.group_in * p.out_features;
          if (p.batch_groups > 1) {
            // Output features of batch group g see the batches of that group only.
            for (int64_t g = 0; g < p.batch_groups; ++g) {
              const T* x = in + ((g * p.out_batch + n) * in_points + source) * p.in_features;
              const int64_t count = p.out_features / p.batch_groups;
              Accumulate(row + g * count, count, x, p.group_in, weights + g * count, p.out_features);
            }
          } else {
            const T* x = in + (n * in_points + source) * p.in_features;
            if (p.group_in == 1 && p.group_out == 1) {  // depthwise
              for (int64_t k = 0; k < p.out_features; ++k) row[k] += x[k] * weights[k];
            } else {
              for (int64_t g = 0; g < p.groups; ++g)
                Accumulate(row + g * p.group_out, p.group_out, x + g * p.group_in, p.group_in,
                           weights + g * p.group_out, p.out_features);
            }
          }
        }
        for (std::size_t d = rank; d-- > 0;) {
          if (++tap[d] < p.kernel_spatial[d]) break;
          tap[d] = 0;
        }
      }
      for (std::size_t d = rank; d-- > 0;) {
        if (++position[d] < p.out_spatial[d]) break;
        position[d] = 0;
      }
    }
  }
}

}  // namespace

Result<Value> EvalConvolution(Context& context, const Instruction& i, Operands operands) {
  const auto& a = i.attr<ConvolutionAttributes>();
  const Literal &in = operands[0].array(), &kernel = operands[1].array();
  KRAFLA_ASSIGN(Literal out, NewResult(context, i, operands));
  const ElementType type = out.shape().element_type();
  const ElementType wide = AccumulatorType(in.shape().element_type(), kernel.shape().element_type(), type);
  Problem p;
  p.groups = a.feature_group_count;
  p.batch_groups = a.batch_group_count;
  p.batch = in.shape().dim(a.input_batch);
  p.in_features = in.shape().dim(a.input_feature);
  p.group_in = kernel.shape().dim(a.kernel_input_feature);
  p.out_features = kernel.shape().dim(a.kernel_output_feature);
  p.out_batch = out.shape().dim(a.output_batch);
  p.group_out = p.groups > 0 ? p.out_features / p.groups : 0;
  Dims in_order = {a.input_batch}, kernel_order, out_order = {a.output_batch};
  for (std::size_t d = 0; d < a.input_spatial.size(); ++d) {
    in_order.push_back(a.input_spatial[d]);
    kernel_order.push_back(a.kernel_spatial[d]);
    out_order.push_back(a.output_spatial[d]);
    p.in_spatial.push_back(in.shape().dim(a.input_spatial[d]));
    p.kernel_spatial.push_back(kernel.shape().dim(a.kernel_spatial[d]));
    p.out_spatial.push_back(out.shape().dim(a.output_spatial[d]));
  }
  in_order.push_back(a.input_feature);
  kernel_order.push_back(a.kernel_input_feature);
  kernel_order.push_back(a.kernel_output_feature);
  out_order.push_back(a.output_feature);
  if (p.groups < 1 || p.batch_groups < 1 || p.in_features != p.group_in * p.groups || p.out_features % p.groups != 0 ||
      p.out_features % p.batch_groups != 0 || p.out_batch * p.batch_groups != p.batch ||
      out.shape().dim(a.output_feature) != p.out_features || a.window.size() != a.input_spatial.size())
    return InvalidArgument("The groups of a convolution of {} with {} do not fit {}.", in.shape().ToString(false),
                           kernel.shape().ToString(false), out.shape().ToString(false));
  int64_t taps = p.group_in;
  for (int64_t t : p.kernel_spatial) taps *= t;
  KRAFLA_TRY(context.SpendProduct(out.shape().element_count(), taps));
  if (in.shape().element_count() == 0 || kernel.shape().element_count() == 0) {
    FillZeros(out.bytes());
    return Value::Own(std::move(out));
  }
  KRAFLA_ASSIGN(Literal x, Arranged(context, in, in_order, wide));
  KRAFLA_ASSIGN(Literal w, Arranged(context, kernel, kernel_order, wide));
  Dims sums_dims;
  for (int64_t d : out_order) sums_dims.push_back(out.shape().dim(d));
  KRAFLA_ASSIGN(Shape sums_shape, Shape::MakeArray(wide, sums_dims));
  KRAFLA_ASSIGN(Literal sums, Literal::Create(sums_shape));
  auto run = [&]<class T>(T) {
    Convolve(p, a.window, reinterpret_cast<const T*>(x.bytes().data()), reinterpret_cast<const T*>(w.bytes().data()),
             reinterpret_cast<T*>(sums.bytes().data()));
  };
  if (wide == ElementType::kF64) run(double{});
  else if (wide == ElementType::kC128) run(PlainComplex{});
  else if (wide == ElementType::kU32) run(uint32_t{});
  else run(uint64_t{});
  // Rounded, then back into the declared order.
  KRAFLA_ASSIGN(Literal rounded, NewLiteral(context, sums_shape.WithElementType(type)));
  FromAccumulator(sums.bytes().data(), wide, rounded.bytes().data(), type, sums_shape.element_count());
  const Dims out_strides = RowMajorStrides(out.shape().dims());
  View to;
  for (int64_t d : out_order) to.strides.push_back(out_strides[At(d)]);
  CopyView(sums_dims, StorageBytes(type), rounded.bytes().data(), DenseView(rounded.shape()), out.bytes().data(), to);
  return Value::Own(std::move(out));
}

}  // namespace krafla::evaluator
