// SPDX-License-Identifier: Apache-2.0
// A convolution as jobs of oneDNN: its kernel brought to the layout that oneDNN wants, then parts that are convolutions
// of their own, over some images, some rows of the result or some output channels. Where oneDNN has nothing fast for
// the arrays as they lie, they are copied to channels-last order first.
#include <algorithm>
#include <limits>
#include <string_view>

#include "base/checked_math.h"
#include "base/index.h"
#include "cpu_fallback/executor/conv_pieces.h"
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
// The sum of so many products is made in parts: of about half as many along the window's rows, of this many along
// channels.
constexpr int64_t kLongDepth = 256, kRowsDepth = 384, kChannelsDepth = 512;
// Of a result that is added to; larger ones would leave the cache in between.
constexpr double kResultBytes = 1 << 20;
// What a primitive may take for itself. Those by products write out the windows of all positions, which of windows as
// long as a picture may be more than there is.
constexpr std::size_t kMostScratch = std::size_t{1} << 30;
// Where so many operations follow from an element of the input, copying it costs next to nothing.
constexpr double kLeastFlopsToCopy = 2000;

// An array as oneDNN sees it, from `base` on.
struct Operand {
  TensorView view;
  Place base;

  Place place() const { return {base.array, base.offset + view.offset * StorageBytes(view.type)}; }
  memory::desc desc() const {
    memory::dims strides = DenseStrides(view);
    // One position has its channels last as well as first; oneDNN 3.7.2 gets some products of s8 wrong if it is told
    // first.
    if (std::all_of(view.dims.begin() + 2, view.dims.end(), [](int64_t size) { return size == 1; }))
      std::fill(strides.begin() + 2, strides.end(), view.dims[1] * strides[1]);
    return memory::desc(memory::dims(view.dims.begin(), view.dims.end()), *DataTypeOf(view.type), strides);
  }
};

struct Convolution {
  Operand input, kernel, result;  // the kernel with the groups in front where there are several
  ConvolutionWindow window;
  // Whether it may write the windows of positions out as a matrix first.
  bool takes_products = true;

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
                                                              const memory::desc& result, const ConvolutionWindow& w,
                                                              bool adds = false) {
  const auto list = [](const Dims& dims) { return memory::dims(dims.begin(), dims.end()); };
  memory::dims dilations = list(w.dilations);
  for (auto& v : dilations) --v;
  return {Engine(),
          dnnl::prop_kind::forward_inference,
          dnnl::algorithm::convolution_direct,
          input,
          kernel,
          result,
          list(w.strides),
          dilations,
          list(w.padding_low),
          list(w.padding_high),
          adds ? AddingToResult() : UserScratchpad(),
          /*allow_empty=*/true};
}
bool IsDense(const memory::desc& desc) {
  std::size_t size = memory::data_type_size(desc.get_data_type());
  for (int64_t d : desc.get_dims()) size *= static_cast<std::size_t>(d);
  return desc.get_inner_nblks() > 0 || desc.get_size() == size;
}
bool TakesIt(const dnnl::convolution_forward::primitive_desc& d, bool takes_products = true) {
  if (!d || !IsFast(d) || d.scratchpad_desc().get_size() > kMostScratch) return false;
  const std::string_view name = d.impl_info_str();
  // Without tiles of f16 it widens at each multiplication, which takes half as long again as arrays that are widened
  // before.
  if (d.src_desc().get_data_type() == memory::data_type::f16 && name.find("amx") == std::string_view::npos)
    return false;
  // Those by matrix products take images one after the other, whatever the strides say (3.7.2, bf16), and write wrong
  // values where all of an image of s8 is one position.
  const bool by_products = name.find("gemm") != std::string_view::npos;
  if (!by_products) return true;
  if (!takes_products) return false;
  const memory::dims input = d.src_desc().get_dims();
  const bool positions = std::any_of(input.begin() + 2, input.end(), [](int64_t size) { return size > 1; });
  return IsDense(d.src_desc()) && IsDense(d.dst_desc()) &&
         (positions || d.weights_desc().get_data_type() != memory::data_type::s8);
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

void CutView(Operand& operand, std::size_t dim, int64_t begin, int64_t size) {
  operand.view.offset += begin * operand.view.strides[dim];
  operand.view.dims[dim] = size;
}

// The input that `outputs` positions from `output` on see through `taps` elements of the window from `tap` on, in
// spatial dimension d; what lies outside of it is padding.
void CutInput(Convolution& c, const ConvolutionWindow& window, std::size_t d, int64_t output, int64_t outputs,
              int64_t tap, int64_t taps) {
  const int64_t extent = c.input.view.dims[2 + d];
  const int64_t first = output * window.strides[d] + tap * window.dilations[d] - window.padding_low[d];
  const int64_t end = first + (outputs - 1) * window.strides[d] + (taps - 1) * window.dilations[d] + 1;
  const int64_t from = std::clamp<int64_t>(first, 0, extent), to = std::clamp<int64_t>(end, from, extent);
  CutView(c.input, 2 + d, from, to - from);
  c.window.padding_low[d] = from - first;
  c.window.padding_high[d] = end - to;
}

std::size_t FirstKernelDim(const Convolution& c) { return c.window.groups > 1 ? 2 : 1; }  // of the channels

// Without the taps of the window that meet padding alone, without the input that no tap meets, and without steps along
// dimensions that have one position of the result, where they mean nothing. oneDNN 3.7.2 gets results of one position
// wrong where it uses AMX and steps are larger than one, and reads outside of the input where all taps meet padding.
// The input has no elements then.
Convolution WithoutIdleTaps(Convolution c) {
  const ConvolutionWindow window = c.window;
  for (std::size_t d = 0; d < window.strides.size(); ++d) {
    const std::size_t kernel_dim = FirstKernelDim(c) + 1 + d;
    const int64_t extent = c.input.view.dims[2 + d], outputs = c.result.view.dims[2 + d];
    const int64_t taps = c.kernel.view.dims[kernel_dim];
    const auto meets = [&](int64_t tap) {
      const int64_t first = tap * window.dilations[d] - window.padding_low[d];
      // The first position whose element does not lie before the input.
      const int64_t position = first >= 0 ? 0 : CeilDiv(-first, window.strides[d]);
      return position < outputs && first + position * window.strides[d] < extent;
    };
    int64_t begin = 0, end = taps;
    while (begin < end && !meets(begin)) ++begin;
    while (begin < end && !meets(end - 1)) --end;
    if (begin == end) {
      c.input.view.dims[2 + d] = 0;
      continue;
    }
    CutView(c.kernel, kernel_dim, begin, end - begin);
    CutInput(c, window, d, 0, outputs, begin, end - begin);
    if (outputs == 1) c.window.strides[d] = 1;
  }
  return c;
}

Convolution ConvolutionOf(const Convolution& c, const Part& part) {
  Convolution out = c;
  CutView(out.input, 0, part.image, part.images);
  CutView(out.result, 0, part.image, part.images);
  CutView(out.result, 1, part.channel, part.channels);
  if (c.window.groups == 1) CutView(out.kernel, 0, part.channel, part.channels);
  if (part.rows == c.result.view.dims[2]) return out;
  CutView(out.result, 2, part.row, part.rows);
  CutInput(out, c.window, 0, part.row, part.rows, 0, c.kernel.view.dims[FirstKernelDim(c) + 1]);
  return out;
}

// A sum of many products is made of parts, whose sums are added: their length bounds the error. First the window's rows
// are parted, which costs nothing; then channels and the window's other dimensions, for which the input is copied,
// because oneDNN wants it dense in them.
struct DepthCut {
  int64_t rows = 1;  // of the window
  Dims size;         // channels, then the other dimensions of the window
};
DepthCut ChooseDepth(const Convolution& c) {
  const TensorView& kernel = c.kernel.view;
  const std::size_t first = FirstKernelDim(c);
  DepthCut out{kernel.dims[first + 1], {kernel.dims[first]}};
  out.size.append(kernel.dims.begin() + first + 2, kernel.dims.end());
  // Results of other types than f32 round more than long sums do.
  if (c.result.view.type != ElementType::kF32) return out;
  const auto depth = [&] {
    int64_t product = out.rows;
    for (int64_t s : out.size) product *= s;
    return product;
  };
  if (depth() > kLongDepth) out.rows = CeilDiv(out.rows, std::max<int64_t>(2, CeilDiv(depth(), kRowsDepth)));
  if (2 * ElementsOf(kernel) / static_cast<double>(kernel.dims[first]) < kLeastFlopsToCopy) return out;
  const auto cut = [&](int64_t& size, int64_t unit) {
    if (depth() <= kChannelsDepth || size <= unit) return;
    const int64_t most = std::max<int64_t>(unit, kChannelsDepth / (depth() / size) / unit * unit);
    size = RoundUp(CeilDiv(size, CeilDiv(size, most)), unit);
  };
  if (c.window.groups == 1) cut(out.size[0], 32);
  for (std::size_t d = 1; d < out.size.size(); ++d) cut(out.size[d], 1);
  if (c.window.groups == 1) cut(out.size[0], 16);
  return out;
}

// Some of the channels and of the dimensions of the window but the first.
std::vector<Convolution> CutChannels(const Convolution& c, const Dims& size) {
  const std::size_t first = FirstKernelDim(c);
  const auto kernel_dim = [&](std::size_t d) { return d == 0 ? first : first + 1 + d; };
  Dims counts, index(size.size(), 0);
  for (std::size_t d = 0; d < size.size(); ++d) counts.push_back(CeilDiv(c.kernel.view.dims[kernel_dim(d)], size[d]));
  std::vector<Convolution> out;
  do {
    Convolution part = c;
    for (std::size_t d = 0; d < size.size(); ++d) {
      const int64_t begin = index[d] * size[d], count = std::min(size[d], c.kernel.view.dims[kernel_dim(d)] - begin);
      if (counts[d] == 1) continue;
      CutView(part.kernel, kernel_dim(d), begin, count);
      if (d == 0) CutView(part.input, 1, begin, count);
      else CutInput(part, c.window, d, 0, c.result.view.dims[2 + d], begin, count);
    }
    out.push_back(std::move(part));
  } while (NextIndex({index.data(), index.size()}, counts));
  return out;
}
Convolution RowsOfWindow(const Convolution& c, int64_t begin, int64_t size) {
  Convolution out = c;
  CutView(out.kernel, FirstKernelDim(c) + 1, begin, size);
  CutInput(out, c.window, 0, 0, c.result.view.dims[2], begin, size);
  return out;
}

// One after the other, all but the first of which add to the result.
struct MadeProduct {
  dnnl::convolution_forward::primitive_desc primitive;  // empty: nothing but padding
  Convolution product;
};
struct MadePart {
  std::vector<MadeProduct> products;  // one a part of the depth
  Part cut;
  Operand result;
};
struct MadeParts {
  std::vector<MadePart> parts;  // none: oneDNN has nothing fast
  bool own_kernels = false;     // each part has a kernel of its own, not all the same
  bool own_results = false;     // each part's result is in scratch of its own, and moved to its place afterwards
};

// For arrays as they lie, the kernel in any layout of `type`. The result is the sum of the slices, `rows` rows of their
// windows at a time. Parts with all channels share one layout of the kernel.
MadeParts MakeParts(const std::vector<Convolution>& slices, int64_t rows, const std::vector<Part>& parts,
                    memory::data_type type, bool own_results) {
  const TensorView& whole = slices.front().result.view;
  MadeParts out{{}, parts.front().channels != whole.dims[1], own_results};
  std::vector<std::optional<memory::desc>> layouts;
  for (const Part& p : parts) {
    MadePart made{{}, p, ConvolutionOf(slices.front(), p).result};
    if (own_results) made.result = {ChannelsLast(made.result.view, whole.type), {}};
    bool adds = false;
    for (const Convolution& slice : slices) {
      Convolution part = ConvolutionOf(slice, p);
      part.result = made.result;
      const int64_t window_rows = part.kernel.view.dims[FirstKernelDim(part) + 1];
      for (int64_t row = 0; row < window_rows; row += rows) {
        Convolution product =
            WithoutIdleTaps(rows < window_rows ? RowsOfWindow(part, row, std::min(rows, window_rows - row)) : part);
        const std::size_t n = made.products.size();
        if (n == layouts.size()) layouts.emplace_back();
        made.products.emplace_back();
        if (std::ranges::count(product.input.view.dims, 0) == 0) {
          if (IrregularDim(product.input.view) >= 0 || IrregularDim(product.result.view) >= 0) return {};
          if (out.own_kernels) layouts[n].reset();
          auto d =
              DescribeConvolution(product.input.desc(), layouts[n] ? *layouts[n] : AnyLayout(product.kernel.view, type),
                                  product.result.desc(), product.window, adds);
          if (!TakesIt(d, product.takes_products)) return {};
          layouts[n] = d.weights_desc();
          made.products.back().primitive = std::move(d);
          adds = true;
        }
        made.products.back().product = std::move(product);
      }
    }
    if (!adds) return {};  // nothing but padding
    out.parts.push_back(std::move(made));
  }
  return out;
}

MadeParts FindParts(const Convolution& c, const std::vector<Convolution>& slices, int64_t rows, memory::data_type type,
                    int64_t most_parts) {
  const Dims& dims = c.result.view.dims;
  const double flops = c.flops();
  const int64_t parts =
      flops < kOneConvolutionFlops ? 1 : std::min(most_parts, static_cast<int64_t>(flops / kLeastConvolutionFlops));
  struct Way {
    Along along;
    int64_t parts = 0;
    bool own_results = false;
  };
  std::vector<Way> ways;
  if (parts > 1) {
    int64_t positions = 1;
    for (std::size_t d = 2; d < dims.size(); ++d) positions *= dims[d];
    const int64_t pieces = CeilDiv(parts, dims[0]);
    const bool channels = c.window.groups == 1 && dims[1] >= 16 * pieces;
    if (dims[0] >= parts) ways.push_back({Along::kImages, parts});
    if (dims[2] >= pieces && (positions / pieces >= kLeastPositions || !channels))
      ways.push_back({Along::kRows, parts});
    if (channels) ways.insert(ways.end(), {{Along::kChannels, parts}, {Along::kChannels, parts, true}});
    if (dims[0] > 1) ways.push_back({Along::kImages, parts});
  }
  std::size_t most_jobs = std::numeric_limits<std::size_t>::max();
  if (slices.size() > 1 || rows < c.kernel.view.dims[FirstKernelDim(c) + 1]) {
    const double bytes = ElementsOf(c.result.view) * StorageBytes(c.result.view.type);
    const auto in_cache = static_cast<int64_t>(bytes / kResultBytes);
    if (in_cache > parts) ways.insert(ways.begin(), {dims[0] >= in_cache ? Along::kImages : Along::kRows, in_cache});
    // Each has several products: one image at a time they may be thousands.
    most_jobs = static_cast<std::size_t>(4 * std::max(parts, in_cache));
  }
  for (const Way& way : ways) {
    const std::vector<Part> cut = CutConvolution(c, way.parts, way.along);
    if (cut.size() > most_jobs) continue;
    MadeParts made = MakeParts(slices, rows, cut, type, way.own_results);
    if (!made.parts.empty()) return made;
  }
  return MakeParts(slices, rows, {Whole(c)}, type, false);
}

// Between an array and a copy of it with layout `layout` at `place`. What of the array oneDNN cannot describe at once
// is moved piece by piece.
void AddMovesOf(Jobs& jobs, Jobs::Phase phase, const Operand& array, const memory::desc& layout, Place place,
                int threads) {
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
  const Place place = jobs.TakeFor(kernel.place(), static_cast<int64_t>(wanted.get_size()));
  // The layouts of s8 kernels hold sums over the whole of them, too.
  if (kernel.view.type == ElementType::kS8)
    jobs.AddMove(Jobs::Phase::kBefore, kernel.desc(), kernel.place(), wanted, place);
  else AddMovesOf(jobs, Jobs::Phase::kBefore, kernel, wanted, place, threads);
  return place;
}

struct Copy {
  Operand from, to;
};

// `channels_last`: through copies of the input and the result in that order, where they are not so already. `cut`: long
// sums in parts.
bool AddConvolution(Jobs& jobs, const Convolution& c, bool channels_last, bool cut, int64_t parts, int threads) {
  const auto in_scratch = [&](Operand& operand) {
    operand.base = jobs.Take(static_cast<int64_t>(operand.desc().get_size()));
  };
  Convolution staged = c;
  const bool moves_input = channels_last && !IsChannelsLast(c.input.view),
             moves_result = channels_last && !IsChannelsLast(c.result.view);
  if (channels_last && !moves_input && !moves_result) return false;
  if (moves_result) staged.result.view = ChannelsLast(c.result.view, c.result.view.type);
  DepthCut depth{c.kernel.view.dims[FirstKernelDim(c) + 1], {}};
  std::vector<Convolution> slices = {staged};
  if (cut) {
    depth = ChooseDepth(c);
    slices = CutChannels(staged, depth.size);
    if (slices.size() == 1 && depth.rows == c.kernel.view.dims[FirstKernelDim(c) + 1]) return false;
  }
  std::vector<Copy> copies;
  for (Convolution& slice : slices) {
    if (std::ranges::count(slice.input.view.dims, 0) > 0 || (!moves_input && slices.size() == 1)) continue;
    Copy copy{slice.input, {ChannelsLast(slice.input.view, slice.input.view.type), {}}};
    in_scratch(copy.to);
    slice.input = copy.to;
    copies.push_back(std::move(copy));
  }
  MadeParts made = FindParts(staged, slices, depth.rows, *DataTypeOf(c.kernel.view.type), parts);
  if (made.parts.empty()) return false;
  for (const Copy& copy : copies)
    AddMovesOf(jobs, Jobs::Phase::kBefore, copy.from, copy.to.desc(), copy.to.base, threads);
  if (moves_result && !made.own_results) in_scratch(staged.result);
  std::vector<std::optional<Place>> kernels;  // one a product
  for (MadePart& p : made.parts) {
    p.result.base = staged.result.base;
    if (made.own_results) in_scratch(p.result);
    if (made.own_kernels) kernels.clear();
    kernels.resize(p.products.size());
    bool adds = false;
    for (std::size_t n = 0; n < p.products.size(); ++n) {
      const auto& [primitive, product] = p.products[n];
      if (!primitive) continue;
      if (!kernels[n]) kernels[n] = AddKernel(jobs, product.kernel, primitive.weights_desc(), threads);
      jobs.AddProduct(primitive, product.input.place(), *kernels[n], p.result.place(), product.flops(), adds);
      adds = true;
    }
    if (made.own_results)
      AddMovesOf(jobs, Jobs::Phase::kAfter, ConvolutionOf(c, p.cut).result, p.result.desc(), p.result.base, threads);
  }
  if (moves_result && !made.own_results)
    AddMovesOf(jobs, Jobs::Phase::kAfter, c.result, staged.result.desc(), staged.result.base, threads);
  return true;
}

// In whatever layouts oneDNN likes, in one part.
bool AddAnyLayout(Jobs& jobs, const Convolution& c) {
  if (IrregularDim(c.input.view) >= 0 || IrregularDim(c.kernel.view) >= 0 || IrregularDim(c.result.view) >= 0)
    return false;
  const memory::desc input = c.input.desc(), kernel = c.kernel.desc(), result = c.result.desc();
  const auto d = DescribeConvolution(AnyLayout(c.input.view, input.get_data_type()),
                                     AnyLayout(c.kernel.view, kernel.get_data_type()),
                                     AnyLayout(c.result.view, result.get_data_type()), c.window);
  if (!TakesIt(d)) return false;
  const auto place = [&](const memory::desc& wanted, const Operand& given) {
    return wanted == given.desc() ? given.place()
                                  : jobs.TakeFor(given.place(), static_cast<int64_t>(wanted.get_size()));
  };
  const Place a = place(d.src_desc(), c.input), b = place(d.weights_desc(), c.kernel),
              r = place(d.dst_desc(), c.result);
  if (d.src_desc() != input) jobs.AddMove(Jobs::Phase::kBefore, input, c.input.place(), d.src_desc(), a);
  if (d.weights_desc() != kernel) jobs.AddMove(Jobs::Phase::kBefore, kernel, c.kernel.place(), d.weights_desc(), b);
  jobs.AddProduct(d, a, b, r, c.flops());
  if (d.dst_desc() != result) jobs.AddMove(Jobs::Phase::kAfter, d.dst_desc(), r, result, c.result.place());
  return true;
}

// What oneDNN 3.7.2 gets wrong (tests/cpu_fallback/onednn_test.cpp).
bool IsRightThere(const ConvolutionProblem& p) {
  const Dims& kernel = p.kernel.dims;
  const bool depthwise = p.window.groups > 1 && kernel[0] == p.window.groups;
  // Of one input channel: results one position wide that are moved apart by strides, of all types but f16; many of s8,
  // as the layouts of s8 kernels hold sums over the kernel; and some of bf16 over volumes one plane deep.
  const bool is_narrow = p.kernel.type == ElementType::kS8 || p.kernel.type == ElementType::kBF16;
  if (kernel[1] == 1 && !depthwise && (is_narrow || p.result.dims.back() == 1)) return false;
  if (p.kernel.type == ElementType::kS8 && (!MultipliesS8Exactly() || IrregularDim(p.kernel) >= 0)) return false;
  // Windows that lie in the padding alone: of s8, and of bf16 with AMX.
  if (!is_narrow) return true;
  for (std::size_t d = 0; d < p.window.strides.size(); ++d)
    if (std::max(p.window.padding_low[d], p.window.padding_high[d]) > (kernel[d + 2] - 1) * p.window.dilations[d])
      return false;
  return true;
}

Convolution ConvolutionFor(const ConvolutionProblem& p) {
  Convolution c{{p.input, {Place::Array::kA, 0}},
                {p.kernel, {Place::Array::kB, 0}},
                {p.result, {Place::Array::kResult, 0}},
                p.window};
  if (p.window.groups > 1) {
    TensorView& k = c.kernel.view;
    k.dims.insert(k.dims.begin(), p.window.groups);
    k.dims[1] /= p.window.groups;
    k.strides.insert(k.strides.begin(), k.dims[1] * p.kernel.strides[0]);
  }
  return WithoutIdleTaps(std::move(c));
}

bool AddProblem(Jobs& jobs, const ConvolutionProblem& given, int64_t parts, int threads) {
  const ConvolutionProblem problem = DepthwiseAsPictures(given);
  const auto& [input, kernel, result, window] = problem;
  if (!IsRightThere(problem)) return false;
  if (window.strides.size() > 3 || !DataTypeOf(input.type) || !DataTypeOf(kernel.type) || !DataTypeOf(result.type))
    return false;
  Convolution c = ConvolutionFor(problem);
  if (std::ranges::count(c.input.view.dims, 0) > 0) return false;  // nothing but padding
  // Vectors of f32 share what they read of the kernel along the innermost dimension.
  if (const std::optional<ConvolutionProblem> turned = WithLongestInnermost(problem))
    for (const bool cut : {true, false})
      if (AddConvolution(jobs, ConvolutionFor(*turned), true, cut, parts, threads)) return true;
  // Of bf16 with one channel after the other oneDNN has products alone, several times as slow as what it does where
  // channels come last.
  for (const bool takes_products : {false, true}) {
    if (!takes_products && input.type != ElementType::kBF16) continue;
    c.takes_products = takes_products;
    for (const bool cut : {true, false})
      for (const bool channels_last : {false, true})
        if (AddConvolution(jobs, c, channels_last, cut, parts, threads)) return true;
  }
  return AddAnyLayout(jobs, c);
}

}  // namespace
}  // namespace onednn

std::unique_ptr<OneDnnProblem> MakeOneDnnConvolutions(std::span<const ConvolutionProblem> problems, int threads,
                                                      bool keeps_kernel) {
  using namespace onednn;
  try {
    const OneThread one_thread;
    const int64_t parts = threads == 1 ? 1 : CeilDiv(2 * threads, std::max<int64_t>(1, std::ssize(problems)));
    auto jobs = std::make_unique<Jobs>(keeps_kernel);
    for (const ConvolutionProblem& p : problems)
      if (!AddProblem(*jobs, p, parts, threads)) return nullptr;
    jobs->Finish(threads);
    return jobs;
  } catch (const dnnl::error&) {
    return nullptr;  // oneDNN does not take this problem
  }
}

bool HasOneDnnTiles() {
  // Each set of instructions has the bits of those that it includes.
  const auto tiles = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_amx);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & tiles) == tiles;
}

#else

std::unique_ptr<OneDnnProblem> MakeOneDnnConvolutions(std::span<const ConvolutionProblem>, int, bool) {
  return nullptr;
}
bool HasOneDnnTiles() { return false; }

#endif

}  // namespace krafla::cpu
