// SPDX-License-Identifier: Apache-2.0
// A convolution as jobs of oneDNN: its kernel brought to the layout that oneDNN wants, then parts that are convolutions
// of their own, over some images, some rows of the result or some output channels. Where oneDNN has nothing fast for the
// arrays as they lie, they are copied to channels-last order first.
#include <algorithm>
#include <string_view>

#include "base/checked_math.h"
#include "base/index.h"
#include "cpu_fallback/executor/onednn.h"
#include "cpu_fallback/executor/onednn_jobs.h"

namespace krafla::cpu {

#ifdef KRAFLA_HAVE_ONEDNN

namespace onednn {
namespace {

using dnnl::memory;

// Convolutions of fewer operations, some 25 us of one core, are one part.
constexpr double kOneConvolutionFlops = 4e6;
constexpr double kLeastConvolutionFlops = 1e6;
// Parts over fewer positions of the result than this are poor: they do not fill the registers, and read the kernel for
// little.
constexpr int64_t kLeastPositions = 48;

// An array as oneDNN sees it, from `base` on.
struct Operand {
  TensorView view;
  Place base;

  Place place() const { return {base.array, base.offset + view.offset * StorageBytes(view.type)}; }
  memory::desc desc() const { return *Describe(view); }
};

struct Convolution {
  Operand input, kernel, result;  // the kernel with the groups in front where there are several
  ConvolutionWindow window;

  double flops() const {
    // A kernel element is multiplied once for each position of the result in its group.
    return 2 * ElementsOf(result.view) * ElementsOf(kernel.view) / static_cast<double>(result.view.dims[1]);
  }
};

// Batch and channels, then the spatial dimensions: dense in the order batch, spatial, channels.
TensorView ChannelsLast(const TensorView& like, ElementType type) {
  TensorView out{like.dims, like.dims, type};
  int64_t stride = like.dims[1];
  out.strides[1] = 1;
  for (std::size_t d = like.dims.size() - 1; d >= 2; --d) {
    out.strides[d] = stride;
    stride *= like.dims[d];
  }
  out.strides[0] = stride;
  return out;
}
bool IsChannelsLast(const TensorView& view) {
  const TensorView dense = ChannelsLast(view, view.type);
  for (std::size_t d = 0; d < view.dims.size(); ++d)
    if (view.dims[d] > 1 && view.strides[d] != dense.strides[d]) return false;
  return true;
}

dnnl::convolution_forward::primitive_desc DescribeConvolution(const memory::desc& input, const memory::desc& kernel,
                                                              const memory::desc& result, const ConvolutionWindow& w) {
  const auto list = [](const Dims& dims) { return memory::dims(dims.begin(), dims.end()); };
  memory::dims dilations = list(w.dilations);
  for (auto& v : dilations) --v;
  return {Engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, input, kernel, result,
          list(w.strides), dilations, list(w.padding_low), list(w.padding_high), UserScratchpad(), /*allow_empty=*/true};
}
bool IsDense(const memory::desc& desc) {
  std::size_t size = memory::data_type_size(desc.get_data_type());
  for (int64_t d : desc.get_dims()) size *= static_cast<std::size_t>(d);
  return desc.get_inner_nblks() > 0 || desc.get_size() == size;
}
bool TakesIt(const dnnl::convolution_forward::primitive_desc& d) {
  if (!d || !IsFast(d)) return false;
  // Those by matrix products take images one after the other, whatever the strides say (3.7.2, bf16).
  const bool by_products = std::string_view(d.impl_info_str()).find("gemm") != std::string_view::npos;
  return !by_products || (IsDense(d.src_desc()) && IsDense(d.dst_desc()));
}

memory::desc AnyLayout(const TensorView& like, memory::data_type type) {
  return memory::desc(memory::dims(like.dims.begin(), like.dims.end()), type, memory::format_tag::any);
}

// Images [image, image + images), rows [row, row + rows) of the first spatial dimension, and output channels.
struct Part {
  int64_t image = 0, images = 0, row = 0, rows = 0, channel = 0, channels = 0;
};
Part Whole(const Convolution& c) {
  const Dims& dims = c.result.view.dims;
  return {0, dims[0], 0, dims[2], 0, dims[1]};
}
enum class Along : uint8_t { kImages, kRows, kChannels };

std::vector<Part> CutConvolution(const Convolution& c, int64_t parts, Along along) {
  const Dims& dims = c.result.view.dims;
  std::vector<Part> out;
  if (along == Along::kImages) {
    Part part = Whole(c);
    const int64_t images = CeilDiv(dims[0], std::min(parts, dims[0]));
    for (part.image = 0; part.image < dims[0]; part.image += images) {
      part.images = std::min(images, dims[0] - part.image);
      out.push_back(part);
    }
    return out;
  }
  // Of several images each is cut by itself.
  const int64_t pieces = CeilDiv(parts, dims[0]);
  const bool rows = along == Along::kRows;
  const int64_t extent = rows ? dims[2] : dims[1];
  int64_t step = CeilDiv(extent, std::min(pieces, extent));
  if (!rows) step = RoundUp(step, extent >= 64 * pieces ? 64 : 16);
  for (int64_t image = 0; image < dims[0]; ++image) {
    for (int64_t at = 0; at < extent; at += step) {
      Part part = Whole(c);
      part.image = image;
      part.images = 1;
      (rows ? part.row : part.channel) = at;
      (rows ? part.rows : part.channels) = std::min(step, extent - at);
      out.push_back(part);
    }
  }
  return out;
}

Convolution ConvolutionOf(const Convolution& c, const Part& part) {
  Convolution out = c;
  const auto cut = [](Operand& operand, std::size_t dim, int64_t begin, int64_t size) {
    operand.view.offset += begin * operand.view.strides[dim];
    operand.view.dims[dim] = size;
  };
  cut(out.input, 0, part.image, part.images);
  cut(out.result, 0, part.image, part.images);
  cut(out.result, 1, part.channel, part.channels);
  if (c.window.groups == 1) cut(out.kernel, 0, part.channel, part.channels);
  if (part.rows == c.result.view.dims[2]) return out;
  cut(out.result, 2, part.row, part.rows);
  // The rows of the input that these rows of the result see; what lies outside of it is padding.
  const int64_t extent = c.input.view.dims[2], taps = c.kernel.view.dims[c.window.groups > 1 ? 3 : 2];
  const int64_t first = part.row * c.window.strides[0] - c.window.padding_low[0];
  const int64_t end = first + (part.rows - 1) * c.window.strides[0] + (taps - 1) * c.window.dilations[0] + 1;
  const int64_t from = std::clamp<int64_t>(first, 0, extent), to = std::clamp<int64_t>(end, from, extent);
  cut(out.input, 2, from, to - from);
  out.window.padding_low[0] = from - first;
  out.window.padding_high[0] = end - to;
  return out;
}

struct MadePart {
  dnnl::convolution_forward::primitive_desc primitive;
  Part cut;
  Convolution part;
};
struct MadeParts {
  std::vector<MadePart> parts;  // none: oneDNN has nothing fast
  bool own_kernels = false;     // each part has a kernel of its own, not all the same
  bool own_results = false;     // each part's result is in scratch of its own, and moved to its place afterwards
};

// For arrays as they lie, the kernel in any layout of `type`. Parts with all channels share one layout of the kernel.
MadeParts MakeParts(const Convolution& c, const std::vector<Part>& parts, memory::data_type type, bool own_results) {
  MadeParts out{{}, parts.front().channels != c.result.view.dims[1], own_results};
  for (const Part& p : parts) {
    Convolution part = ConvolutionOf(c, p);
    if (part.input.view.dims[2] == 0) return {};  // nothing but padding
    if (own_results) part.result = {ChannelsLast(part.result.view, part.result.view.type), {}};
    const bool first = out.parts.empty() || out.own_kernels;
    if (IrregularDim(part.input.view) >= 0 || IrregularDim(part.result.view) >= 0) return {};
    auto d = DescribeConvolution(part.input.desc(),
                                 first ? AnyLayout(part.kernel.view, type) : out.parts.front().primitive.weights_desc(),
                                 part.result.desc(), part.window);
    if (!TakesIt(d)) return {};
    out.parts.push_back({std::move(d), p, std::move(part)});
  }
  return out;
}

MadeParts FindParts(const Convolution& c, memory::data_type type, int64_t most_parts) {
  const Dims& dims = c.result.view.dims;
  const double flops = c.flops();
  const int64_t parts =
      flops < kOneConvolutionFlops ? 1 : std::min(most_parts, static_cast<int64_t>(flops / kLeastConvolutionFlops));
  struct Way {
    Along along;
    bool own_results = false;
  };
  std::vector<Way> ways;
  if (parts > 1) {
    int64_t positions = 1;
    for (std::size_t d = 2; d < dims.size(); ++d) positions *= dims[d];
    const int64_t pieces = CeilDiv(parts, dims[0]);
    const bool channels = c.window.groups == 1 && dims[1] >= 16 * pieces;
    if (dims[0] >= parts) ways.push_back({Along::kImages});
    if (dims[2] >= pieces && (positions / pieces >= kLeastPositions || !channels)) ways.push_back({Along::kRows});
    if (channels) ways.insert(ways.end(), {{Along::kChannels}, {Along::kChannels, true}});
    if (dims[0] > 1) ways.push_back({Along::kImages});
  }
  for (const Way& way : ways) {
    MadeParts made = MakeParts(c, CutConvolution(c, parts, way.along), type, way.own_results);
    if (!made.parts.empty()) return made;
  }
  return MakeParts(c, {Whole(c)}, type, false);
}

// Between an array and a copy of it with layout `layout` at `place`. What of the array oneDNN cannot describe at once is
// moved piece by piece.
void AddMovesOf(Jobs& jobs, Jobs::Phase phase, const Operand& array, const memory::desc& layout, Place place, int threads) {
  const int irregular = IrregularDim(array.view);
  if (irregular < 0) {
    const int dim = array.view.dims[0] > 1 ? 0 : 2;
    if (phase == Jobs::Phase::kBefore) jobs.AddMoves(phase, array.desc(), array.place(), layout, place, dim, threads);
    else jobs.AddMoves(phase, layout, place, array.desc(), array.place(), dim, threads);
    return;
  }
  const auto d = static_cast<std::size_t>(irregular);
  const int64_t extent = array.view.dims[d];
  // Without its last element a dimension does not reach over the next any more; backwards there is only one at a time.
  const int64_t step = array.view.strides[d] < 0 ? 1 : extent - 1;
  for (int64_t begin = 0; begin < extent; begin += step) {
    Operand piece = array;
    memory::dims sizes = layout.get_dims(), offsets(sizes.size(), 0);
    piece.view.offset += begin * array.view.strides[d];
    piece.view.dims[d] = sizes[d] = std::min(step, extent - begin);
    if (sizes[d] == 1) piece.view.strides[d] = 1;
    offsets[d] = begin;
    AddMovesOf(jobs, phase, piece, layout.submemory_desc(sizes, offsets), place, threads);
  }
}

// Where the kernel is in the layout `wanted`.
Place AddKernel(Jobs& jobs, const Operand& kernel, const memory::desc& wanted, int threads) {
  const std::optional<memory::desc> given = Describe(kernel.view);
  if (given && *given == wanted) return kernel.place();
  const Place place = jobs.Take(static_cast<int64_t>(wanted.get_size()));
  // The layouts of s8 kernels hold sums over the whole of them, too.
  if (kernel.view.type == ElementType::kS8) jobs.AddMove(Jobs::Phase::kBefore, kernel.desc(), kernel.place(), wanted, place);
  else AddMovesOf(jobs, Jobs::Phase::kBefore, kernel, wanted, place, threads);
  return place;
}

// `channels_last`: through copies of the input and the result in that order, where they are not so already.
bool AddConvolution(Jobs& jobs, const Convolution& c, bool channels_last, int64_t parts, int threads) {
  Convolution staged = c;
  bool moved[2] = {false, false};
  if (channels_last) {
    Operand* operands[2] = {&staged.input, &staged.result};
    for (int i = 0; i < 2; ++i) {
      TensorView& view = operands[i]->view;
      moved[i] = !IsChannelsLast(view);
      if (moved[i]) view = ChannelsLast(view, view.type);
    }
    if (!moved[0] && !moved[1]) return false;
  }
  MadeParts made = FindParts(staged, *DataTypeOf(c.kernel.view.type), parts);
  if (made.parts.empty()) return false;
  const auto in_scratch = [&](Operand& operand) { operand.base = jobs.Take(static_cast<int64_t>(operand.desc().get_size())); };
  if (moved[0]) {
    in_scratch(staged.input);
    AddMovesOf(jobs, Jobs::Phase::kBefore, c.input, staged.input.desc(), staged.input.base, threads);
  }
  if (moved[1] && !made.own_results) in_scratch(staged.result);
  std::optional<Place> kernel;
  for (MadePart& p : made.parts) {
    p.part.input.base = staged.input.base;
    p.part.result.base = staged.result.base;
    if (made.own_results) in_scratch(p.part.result);
    if (!kernel || made.own_kernels)
      kernel = AddKernel(jobs, p.part.kernel, p.primitive.weights_desc(), threads);
    jobs.AddProduct(p.primitive, p.part.input.place(), *kernel, p.part.result.place(), p.part.flops());
    if (made.own_results)
      AddMovesOf(jobs, Jobs::Phase::kAfter, ConvolutionOf(c, p.cut).result, p.part.result.desc(), p.part.result.base, threads);
  }
  if (moved[1] && !made.own_results)
    AddMovesOf(jobs, Jobs::Phase::kAfter, c.result, staged.result.desc(), staged.result.base, threads);
  return true;
}

// In whatever layouts oneDNN likes, in one part.
bool AddAnyLayout(Jobs& jobs, const Convolution& c) {
  if (IrregularDim(c.input.view) >= 0 || IrregularDim(c.kernel.view) >= 0 || IrregularDim(c.result.view) >= 0) return false;
  const memory::desc input = c.input.desc(), kernel = c.kernel.desc(), result = c.result.desc();
  const auto d = DescribeConvolution(AnyLayout(c.input.view, input.get_data_type()),
                                     AnyLayout(c.kernel.view, kernel.get_data_type()),
                                     AnyLayout(c.result.view, result.get_data_type()), c.window);
  if (!TakesIt(d)) return false;
  const auto place = [&](const memory::desc& wanted, const Operand& given) {
    return wanted == given.desc() ? given.place() : jobs.Take(static_cast<int64_t>(wanted.get_size()));
  };
  const Place a = place(d.src_desc(), c.input), b = place(d.weights_desc(), c.kernel), r = place(d.dst_desc(), c.result);
  if (d.src_desc() != input) jobs.AddMove(Jobs::Phase::kBefore, input, c.input.place(), d.src_desc(), a);
  if (d.weights_desc() != kernel) jobs.AddMove(Jobs::Phase::kBefore, kernel, c.kernel.place(), d.weights_desc(), b);
  jobs.AddProduct(d, a, b, r, c.flops());
  if (d.dst_desc() != result) jobs.AddMove(Jobs::Phase::kAfter, d.dst_desc(), r, result, c.result.place());
  return true;
}

// The layouts of s8 kernels hold sums over the kernel, which oneDNN 3.7.2 gets wrong for some of one input channel, but
// for depthwise ones: 30 of 1,011 random ones (tests/cpu_fallback/onednn_test.cpp).
bool SumsKernelsOfS8(const TensorView& kernel, int64_t groups) {
  return kernel.dims[1] > 1 || (groups > 1 && kernel.dims[0] == groups);
}

bool AddProblem(Jobs& jobs, const ConvolutionProblem& problem, int64_t parts, int threads) {
  const auto& [input, kernel, result, window] = problem;
  if (kernel.type == ElementType::kS8 && (IrregularDim(kernel) >= 0 || !SumsKernelsOfS8(kernel, window.groups))) return false;
  if (window.strides.size() > 3 || !DataTypeOf(input.type) || !DataTypeOf(kernel.type) || !DataTypeOf(result.type)) return false;
  Convolution c{{input, {Place::Array::kA, 0}}, {kernel, {Place::Array::kB, 0}}, {result, {Place::Array::kResult, 0}}, window};
  if (window.groups > 1) {
    TensorView& k = c.kernel.view;
    k.dims.insert(k.dims.begin(), window.groups);
    k.dims[1] /= window.groups;
    k.strides.insert(k.strides.begin(), k.dims[1] * kernel.strides[0]);
  }
  return AddConvolution(jobs, c, false, parts, threads) || AddConvolution(jobs, c, true, parts, threads) ||
         AddAnyLayout(jobs, c);
}

}  // namespace
}  // namespace onednn

std::unique_ptr<OneDnnProblem> MakeOneDnnConvolutions(std::span<const ConvolutionProblem> problems, int threads) {
  using namespace onednn;
  try {
    const OneThread one_thread;
    const int64_t parts = threads == 1 ? 1 : CeilDiv(2 * threads, std::max<int64_t>(1, std::ssize(problems)));
    auto jobs = std::make_unique<Jobs>();
    for (const ConvolutionProblem& p : problems)
      if (!AddProblem(*jobs, p, parts, threads)) return nullptr;
    jobs->Finish(threads);
    return jobs;
  } catch (const dnnl::error&) {
    return nullptr;  // oneDNN does not take this problem
  }
}

#else

std::unique_ptr<OneDnnProblem> MakeOneDnnConvolutions(std::span<const ConvolutionProblem>, int) { return nullptr; }

#endif

}  // namespace krafla::cpu
