// SPDX-License-Identifier: Apache-2.0
// Implicit GEMM: the matrix of pixels by (window, input features) is read straight from the input.
//   channels last   rows are pixels, columns are output features; a segment of the depth is a window position, so that
//                   its mask and place are computed once for all features
//   channels first  rows are output features, columns are pixels; the depth runs over (features, window) as the
//                   kernel array does, and the pixels are packed into panels or shared memory
#include <algorithm>
#include <numeric>

#include "base/checked_math.h"
#include "spirv_codegen/kernels/conv.h"
#include "spirv_codegen/kernels/split_sum.h"
#include "spirv_codegen/kernels/tiled.h"

namespace krafla::spirv {
namespace {

class PixelMap {
 public:
  PixelMap(Builder& b, const ConvProblem& p) : b_(b), p_(p) {}

  Value U(int64_t v) const { return b_.U32(static_cast<uint32_t>(v)); }
  int64_t InputStride(int64_t d) const { return p_.input_strides[static_cast<std::size_t>(d)]; }

  struct Pixel {
    Value base;     // of its image in the input
    Values corner;  // input coordinate of the window's first position, each spatial dimension
  };
  // Pixels are numbered (image, spatial...), row-major. Any width.
  Pixel At(Value pixel) const {
    Pixel out;
    out.corner.resize(static_cast<std::size_t>(p_.spatial));
    for (int d = p_.spatial; d-- > 0;) {
      const auto i = static_cast<std::size_t>(d);
      const Value extent = U(p_.OutputExtent(d));
      const Value o = b_.UMod(pixel, extent);
      pixel = b_.UDiv(pixel, extent);
      out.corner[i] = b_.Sub(b_.Mul(o, U(p_.a.window[i].stride)), U(p_.a.window[i].padding_low));
    }
    out.base = b_.Mul(pixel, U(InputStride(p_.a.input_batch)));
    return out;
  }
  // Window coordinates of position `w`.
  Values Window(Value w) const {
    Values out(static_cast<std::size_t>(p_.spatial));
    for (int d = p_.spatial; d-- > 0;) {
      const auto i = static_cast<std::size_t>(d);
      out[i] = d == 0 ? w : b_.UMod(w, U(p_.a.window[i].size));
      if (d != 0) w = b_.UDiv(w, U(p_.a.window[i].size));
    }
    return out;
  }
  // Windows reach over the input's sides in this dimension.
  bool Padded(int d) const {
    const WindowDim& w = p_.a.window[static_cast<std::size_t>(d)];
    const int64_t last = (p_.OutputExtent(d) - 1) * w.stride - w.padding_low + (w.size - 1) * w.window_dilation;
    return w.padding_low > 0 || last >= p_.InputExtent(d);
  }
  bool AnyPadded() const {
    for (int d = 0; d < p_.spatial; ++d)
      if (Padded(d)) return true;
    return false;
  }
  struct Place {
    Value index, inside;  // inside is empty where nothing is padded
  };
  Place InputAt(const Pixel& pixel, const Values& window) const {
    Place out{pixel.base, {}};
    for (int d = 0; d < p_.spatial; ++d) {
      const auto i = static_cast<std::size_t>(d);
      const WindowDim& w = p_.a.window[i];
      const Value x = b_.Add(pixel.corner[i], b_.Mul(window[i], U(w.window_dilation)));
      if (Padded(d)) {
        // A negative coordinate is a large unsigned one.
        const Value in = b_.Compare(Cmp::kULt, x, U(p_.InputExtent(d)));
        out.inside = out.inside ? b_.LAnd(out.inside, in) : in;
      }
      out.index = b_.Add(out.index, b_.Mul(x, U(InputStride(p_.a.input_spatial[i]))));
    }
    return out;
  }

 protected:
  Builder& b_;
  const ConvProblem& p_;
};

// Rows are pixels, columns are the features of one window position.
class PixelRows : public MatrixSource, private PixelMap {
 public:
  PixelRows(KernelWriter& w, const ConvProblem& p, ReadAs as, Value group, bool features_in_range)
      : PixelMap(w.b, p), w_(w), as_(as), features_in_range_(features_in_range) {
    group_offset_ = b_.Mul(group, U(p.inputs * InputStride(p.a.input_feature)));
  }
  void PrepareRows(Value row, int rows) override {
    for (int i = 0; i < rows; ++i) At(b_.Min(b_.Add(row, U(i)), U(p_.pixels - 1)));
  }
  void Enter(Value segment) override {
    window_ = Window(segment);
    places_.clear();
  }
  void Load(Value row, int rows, Value column, int columns, std::span<Value> out) const override {
    const int64_t stride = InputStride(p_.a.input_feature);
    const bool vector = columns == 4 && Vectors();
    const bool from_any = columns == 4 && stride == 1 && p_.inputs >= 4 && ReadsFromAny(w_, p_.k.input_type, as_);
    for (int i = 0; i < rows; ++i) {
      const Place place = PlaceOf(b_.Add(row, U(i)));
      auto element = [&](Value feature, int width) {
        Value index = b_.Add(place.index, b_.Mul(feature, U(stride)));
        if (place.inside) index = b_.Select(place.inside, index, U(0));
        const Value v = width == 4 && !vector
                            ? LoadOperandFromAny(w_, p_.k.input_binding, p_.k.input_type, as_, index)
                            : LoadOperand(b_, w_.buffers, p_.k.input_binding, p_.k.input_type, as_, index, width);
        return place.inside ? b_.Select(place.inside, v, b_.Zero(as_.kind(), width)) : v;
      };
      if (vector) {
        out[static_cast<std::size_t>(i)] = element(InRange(column, 4), 4);
        continue;
      }
      if (from_any) {
        out[static_cast<std::size_t>(i)] = element(InRange(column, 1), 4);
        continue;
      }
      Value lane[4];
      for (int j = 0; j < columns; ++j) lane[j] = element(InRange(b_.Add(column, U(j)), 1), 1);
      out[static_cast<std::size_t>(i)] = b_.Composite(std::span<const Value>(lane, static_cast<std::size_t>(columns)));
    }
  }

  std::optional<MatrixLines> Lines(bool rows) const override {
    if (!rows || (InputStride(p_.a.input_feature) != 1 && p_.inputs > 1)) return std::nullopt;
    MatrixLines out;
    out.binding = p_.k.input_binding;
    out.element_bytes = StorageBytes(p_.k.input_type);
    out.count = p_.pixels;
    out.depth = p_.inputs;
    auto multiple = [&](int64_t stride) { out.granule = std::gcd(out.granule, stride); };
    if (p_.groups > 1) multiple(p_.inputs);
    if (p_.k.input_dims[static_cast<std::size_t>(p_.a.input_batch)] > 1) multiple(InputStride(p_.a.input_batch));
    for (std::size_t d = 0; d < static_cast<std::size_t>(p_.spatial); ++d) {
      const int64_t stride = InputStride(p_.a.input_spatial[d]);
      out.segment_strides.push_back(p_.a.window[d].window_dilation * stride);
      multiple(stride);
    }
    out.wraps = true;
    const Values first(static_cast<std::size_t>(p_.spatial), U(0));
    out.offset = [this, first](Value pixel) { return b_.Add(InputAt(At(pixel), first).index, group_offset_); };
    if (!AnyPadded()) return out;
    if (p_.window > 32) return std::nullopt;
    out.segments = [this](Value pixel) {
      const Pixel at = At(pixel);
      Value bits = U(0);
      for (int64_t w = 0; w < p_.window; ++w) {
        const Value in = InputAt(at, Window(U(w))).inside;
        bits = b_.Or(bits, b_.Select(in, U(int64_t{1} << w), U(0)));
      }
      return bits;
    };
    return out;
  }

  void LoadWords(Builder& b, int bytes, Value row, int rows, Value column, std::span<Value> out) const override {
    if (!Vectors()) return MatrixSource::LoadWords(b, bytes, row, rows, column, out);
    for (int i = 0; i < rows; ++i) {
      const Place place = PlaceOf(b_.Add(row, U(i)));
      Value index = b_.Shr(b_.Add(place.index, InRange(column, 4)), U(2));
      if (place.inside) index = b_.Select(place.inside, index, U(0));
      const Value v = w_.buffers.LoadWords(p_.k.input_binding, index, bytes);
      out[static_cast<std::size_t>(i)] = place.inside ? b_.Select(place.inside, v, b_.Zero(Kind::kU32, bytes)) : v;
    }
  }

 private:
  Value InRange(Value feature, int64_t span) const {
    return features_in_range_ ? feature : b_.Min(feature, U(p_.inputs - span));
  }
  bool Vectors() const {
    if (InputStride(p_.a.input_feature) != 1 || p_.inputs % 4 != 0 || InputStride(p_.a.input_batch) % 4 != 0)
      return false;
    for (int64_t d : p_.a.input_spatial) {
      if (InputStride(d) % 4 != 0) return false;
    }
    return true;
  }
  Place PlaceOf(Value row) const {
    for (const auto& [known, place] : places_) {
      if (known == row) return place;
    }
    // Equal instructions of an enclosing scope are shared, so this costs nothing where PrepareRows ran before a loop.
    Place place = InputAt(At(b_.Min(row, U(p_.pixels - 1))), window_);
    place.index = b_.Add(place.index, group_offset_);
    return place;
  }

  KernelWriter& w_;
  ReadAs as_;
  bool features_in_range_;
  Value group_offset_;
  Values window_;
  std::vector<std::pair<Value, Place>> places_;
};

// Rows are (feature, window position), columns are pixels.
class PixelColumns : public MatrixSource, private PixelMap {
 public:
  PixelColumns(KernelWriter& w, const ConvProblem& p, ReadAs as, Value group, bool depth_in_range)
      : PixelMap(w.b, p), w_(w), as_(as), depth_in_range_(depth_in_range) {
    group_offset_ = b_.Mul(group, U(p.inputs * InputStride(p.a.input_feature)));
  }
  void PrepareColumns(Value column, int columns) override { PixelsFrom(column, columns); }
  void Load(Value row, int rows, Value column, int columns, std::span<Value> out) const override {
    const Pixel pixels = PixelsFrom(column, columns);
    for (int i = 0; i < rows; ++i) {
      Value k = b_.Add(row, U(i));
      if (!depth_in_range_) k = b_.Min(k, U(p_.inputs * p_.window - 1));
      const Value feature = b_.UDiv(k, U(p_.window));
      const Place place = InputAt(pixels, Window(b_.UMod(k, U(p_.window))));
      Value index = b_.Add(place.index, b_.Add(b_.Mul(feature, U(InputStride(p_.a.input_feature))), group_offset_));
      if (place.inside) index = b_.Select(place.inside, index, U(0));
      index = b_.Splat(index, columns);
      Values lane;
      for (int j = 0; j < columns; ++j) {
        lane.push_back(LoadOperand(b_, w_.buffers, p_.k.input_binding, p_.k.input_type, as_, b_.Extract(index, j), 1));
      }
      const Value v = b_.Composite(lane);
      out[static_cast<std::size_t>(i)] = place.inside ? b_.Select(place.inside, v, b_.Zero(as_.kind(), columns)) : v;
    }
  }

 private:
  Pixel PixelsFrom(Value column, int columns) const {
    const Value pixel = b_.Add(column, b_.Iota(columns));
    return At(p_.pixels % columns == 0 && columns == 1 ? pixel : b_.Min(pixel, U(p_.pixels - 1)));
  }

  KernelWriter& w_;
  ReadAs as_;
  bool depth_in_range_;
  Value group_offset_;
};

// The strides of the kernel array as one stride over (features, window): row-major and in that order.
bool KernelDepthIsContiguous(const ConvProblem& p) {
  int64_t expected = 1;
  for (int d = p.spatial; d-- > 0;) {
    const WindowDim& w = p.a.window[static_cast<std::size_t>(d)];
    if (w.size == 1) continue;
    if (w.reversal ||
        p.kernel_strides[static_cast<std::size_t>(p.a.kernel_spatial[static_cast<std::size_t>(d)])] != expected)
      return false;
    expected *= w.size;
  }
  return p.inputs == 1 || p.kernel_strides[static_cast<std::size_t>(p.a.kernel_input_feature)] == expected;
}

// A source whose segments are some of another's: those from `first` on.
class SomeSegments : public MatrixSource {
 public:
  SomeSegments(Builder& b, std::unique_ptr<MatrixSource> all, Value first, int64_t count)
      : b_(b), all_(std::move(all)), first_(first), count_(count) {}
  void PrepareRows(Value row, int rows) override { all_->PrepareRows(row, rows); }
  void PrepareColumns(Value column, int columns) override { all_->PrepareColumns(column, columns); }
  void Enter(Value segment) override {
    all_->Enter(b_.Min(b_.Add(first_, segment), b_.U32(static_cast<uint32_t>(count_ - 1))));
  }
  void Load(Value row, int rows, Value column, int columns, std::span<Value> out) const override {
    all_->Load(row, rows, column, columns, out);
  }

 private:
  Builder& b_;
  std::unique_ptr<MatrixSource> all_;
  Value first_;
  int64_t count_;
};

struct ConvGemm {
  const ConvProblem& p;
  TileProblem tile;
  bool last;
  // Where the window is split (split_sum.h): batches are (part, group), each of tile.segments positions.
  int64_t parts = 1;
  const plan::ElementProgram* epilogue_of_parts = nullptr;  // over [parts, output dims...]

  explicit ConvGemm(const ConvProblem& problem) : p(problem), last(ChannelsLast(problem)) {
    tile.batch = p.groups;
    tile.accumulate = p.k.accumulate_type;
    tile.rows = last ? p.pixels : p.outputs;
    tile.columns = last ? p.outputs : p.pixels;
    tile.segments = last ? p.window : 1;
    if (last) tile.segment_dims = Segments().dims;
    tile.depth = last ? p.inputs : p.inputs * p.window;
  }

  void Split(int64_t wanted, const plan::ElementProgram& epilogue) {
    epilogue_of_parts = &epilogue;
    tile.segments = CeilDiv(p.window, wanted);
    parts = CeilDiv(p.window, tile.segments);
    tile.segment_dims = {tile.segments};
    tile.batch = parts * p.groups;
  }

  int64_t KernelStride(int64_t d) const { return p.kernel_strides[static_cast<std::size_t>(d)]; }

  TileOperands Operands(KernelWriter& w, bool depth_in_range, bool raw = false) const {
    TileOperands of_groups = OperandsOfGroups(w, depth_in_range, raw);
    if (parts == 1) return of_groups;
    Builder& b = w.b;
    auto u = [&b](int64_t v) { return b.U32(static_cast<uint32_t>(v)); };
    const auto some = [this, &b, u](const auto& make) {
      return [this, &b, u, make](Value batch) -> std::unique_ptr<MatrixSource> {
        const Value first = b.Mul(b.UDiv(batch, u(p.groups)), u(tile.segments));
        return std::make_unique<SomeSegments>(b, make(b.UMod(batch, u(p.groups))), first, p.window);
      };
    };
    TileOperands out = of_groups;
    out.make_a = some(of_groups.make_a);
    out.make_b = some(of_groups.make_b);
    out.segment_count = [this, &b, u](Value batch) {
      const Value first = b.Mul(b.UDiv(batch, u(p.groups)), u(tile.segments));
      return b.Min(u(tile.segments), b.Sub(u(p.window), first));
    };
    return out;
  }

 private:
  TileOperands OperandsOfGroups(KernelWriter& w, bool depth_in_range, bool raw) const {
    TileOperands out;
    const ReadAs as{p.k.accumulate_type, raw};
    const ConvolutionAttributes& a = p.a;
    Builder& b = w.b;
    auto u = [&b](int64_t v) { return b.U32(static_cast<uint32_t>(v)); };
    const int64_t feature_stride = KernelStride(a.kernel_output_feature);
    if (last) {
      out.make_a = [this, &w, as, depth_in_range](Value group) -> std::unique_ptr<MatrixSource> {
        return std::make_unique<PixelRows>(w, p, as, group, depth_in_range);
      };
      out.make_b = [this, &w, &b, as, u, feature_stride, depth_in_range](Value group) -> std::unique_ptr<MatrixSource> {
        StridedMatrix m{
            p.k.kernel_binding, p.k.kernel_type,  p.inputs,  p.outputs, KernelStride(p.a.kernel_input_feature),
            feature_stride,     SegmentGranule(), Segments()};
        const Value offset = b.Mul(group, u(p.outputs * feature_stride));
        return std::make_unique<StridedSource>(w, m, offset, as, depth_in_range, false);
      };
    } else {
      out.make_a = [this, &w, &b, as, u, feature_stride, depth_in_range](Value group) -> std::unique_ptr<MatrixSource> {
        StridedMatrix m{p.k.kernel_binding,
                        p.k.kernel_type,
                        p.outputs,
                        tile.depth,
                        feature_stride,
                        1,
                        p.groups > 1 ? p.outputs * feature_stride : 0};
        return std::make_unique<StridedSource>(w, m, b.Mul(group, u(p.outputs * feature_stride)), as, false,
                                               depth_in_range);
      };
      out.make_b = [this, &w, as, depth_in_range](Value group) -> std::unique_ptr<MatrixSource> {
        return std::make_unique<PixelColumns>(w, p, as, group, depth_in_range);
      };
    }
    const Epilogue epilogue = epilogue_of_parts != nullptr
                                  ? Epilogue(w, *epilogue_of_parts, p.k.accumulate_type, p.k.accumulate_type)
                                  : Epilogue(w, p.k.epilogue, p.k.accumulate_type, p.k.result_type);
    out.big_finish = epilogue.is_big();
    out.finish = [this, &b, epilogue](Value group, Value row, Value column, Value acc, Value condition) {
      Finish(b, epilogue, group, row, column, acc, condition);
    };
    return out;
  }

  int64_t SegmentGranule() const {
    int64_t g = p.groups > 1 ? p.outputs * KernelStride(p.a.kernel_output_feature) : 0;
    for (int64_t d : p.a.kernel_spatial) {
      if (p.k.kernel_dims[static_cast<std::size_t>(d)] > 1) g = g == 0 ? KernelStride(d) : std::gcd(g, KernelStride(d));
    }
    return g;
  }
  SegmentPlaces Segments() const {
    SegmentPlaces out;
    for (std::size_t d = 0; d < static_cast<std::size_t>(p.spatial); ++d) {
      const WindowDim& w = p.a.window[d];
      const int64_t stride = KernelStride(p.a.kernel_spatial[d]);
      out.dims.push_back(w.size);
      out.strides.push_back(w.reversal ? -stride : stride);
      if (w.reversal) out.start += (w.size - 1) * stride;
    }
    return out;
  }
  void Finish(Builder& b, const Epilogue& epilogue, Value batch, Value row, Value column, Value acc,
              Value condition) const {
    auto u = [&](int64_t v) { return b.U32(static_cast<uint32_t>(v)); };
    const bool in_parts = epilogue_of_parts != nullptr;
    const Value group = in_parts ? b.UMod(batch, u(p.groups)) : batch;
    auto coordinates = [&](Value pixel, Value feature) {
      Values at(static_cast<std::size_t>(p.rank));
      for (int d = p.spatial; d-- > 0;) {
        const Value extent = u(p.OutputExtent(d));
        at[static_cast<std::size_t>(p.a.output_spatial[static_cast<std::size_t>(d)])] = b.UMod(pixel, extent);
        pixel = b.UDiv(pixel, extent);
      }
      at[static_cast<std::size_t>(p.a.output_batch)] = pixel;
      at[static_cast<std::size_t>(p.a.output_feature)] = b.Add(b.Mul(group, u(p.outputs)), feature);
      if (in_parts) at.insert(at.begin(), b.UDiv(batch, u(p.groups)));
      return at;
    };
    auto both = [&](Value x) { return condition ? b.LAnd(condition, x) : x; };
    if (last) {
      const Value in = p.groups > 1 ? both(b.Compare(Cmp::kULt, column, u(p.outputs))) : condition;
      epilogue.Emit(coordinates(row, column), static_cast<int>(p.a.output_feature) + (in_parts ? 1 : 0), acc, in);
      return;
    }
    if (acc.width == 1 || p.k.output_dims[static_cast<std::size_t>(p.out_minor)] % 4 == 0) {
      epilogue.Emit(coordinates(column, row), p.out_minor, acc, both(b.Compare(Cmp::kULt, column, u(p.pixels))));
      return;
    }
    for (int i = 0; i < 4; ++i) {
      const Value pixel = b.Add(column, u(i));
      epilogue.Emit(coordinates(pixel, row), p.out_minor, b.Extract(acc, i),
                    both(b.Compare(Cmp::kULt, pixel, u(p.pixels))));
    }
  }
};

}  // namespace

bool ChannelsLast(const ConvProblem& p) { return p.features_last || p.a.output_feature == p.out_minor; }

constexpr int64_t kFewFeatures = 8;
// So many parts are worth another order of the arrays.
constexpr int64_t kManyParts = 8;

Refusal RefusesGemm(const ConvProblem& p, const Target& target) {
  const ConvTuning& tuning = target.tuning.conv;
  if (p.a.batch_group_count != 1) return "batch groups";
  for (const WindowDim& w : p.a.window) {
    if (w.base_dilation != 1) return "a dilated input";
  }
  for (int64_t d : p.k.input_dims) {
    if (d == 0) return "an empty input";
  }
  if (p.pixels == 0 || p.outputs == 0 || p.inputs == 0) return "nothing to sum";
  if (p.outputs < tuning.least_features || p.inputs * p.window < tuning.least_depth) return "few features in a group";
  // Then neither side of a window's product fills a vector.
  if (p.outputs < kFewFeatures && p.inputs < 4) return "few features, and few input features, in a group";
  if (p.pixels > INT32_MAX || p.inputs * p.window > INT32_MAX) return "an extent above 2^31";
  if (p.groups > 1 && p.outputs % 4 != 0) return "groups of an odd size";
  if (ChannelsLast(p)) return std::nullopt;
  // Only a window over features that are last is split.
  if (SplitOf(p) > 1 || FillingSplitOf(p, target.tuning.dot.least_part, target) >= kManyParts)
    return "pixels side by side, and a window of many";
  bool spatial_minor = false;
  for (int64_t d : p.a.output_spatial) spatial_minor = spatial_minor || d == p.out_minor;
  if (!spatial_minor || p.a.output_spatial.back() != p.out_minor) return "pixels are not side by side";
  if (!KernelDepthIsContiguous(p)) return "a kernel stored in another order than the input";
  if (tuning.only_packed_pixels && BitWidth(p.k.accumulate_type) != 32) return "wide sums";
  return std::nullopt;
}

namespace {

struct GemmCase {
  TiledProduct product;
};
// In order of preference.
constexpr ProductVariant<GemmCase> kGemmVariants[] = {kCoop<GemmCase>, kTile<GemmCase>, kBlocks<GemmCase>,
                                                      kPackedPanel<GemmCase>, kPanel<GemmCase>};
static_assert(TakesEverything(kGemmVariants));

constexpr TiledNames kConvNames = {"conv.coop", "conv.tile",         "conv.blocks",
                                   "conv.pack", "conv.packed_panel", "conv.panel"};

// Pixels are always packed; kernels where they are large, for a dot's reason.
Refusal RefusesConvPacking(const ConvGemm& gemm, const ConvTuning& tuning) {
  if (!gemm.last) return std::nullopt;
  const TileProblem& t = gemm.tile;
  if (t.depth * t.segments * t.columns < tuning.pack_elements) return "a small kernel";
  if (t.rows < tuning.pack_rows) return "few pixels read the kernel";
  return std::nullopt;
}

GemmCase CaseOf(const plan::KernelPlan& plan, const ConvGemm& gemm, const Target& target) {
  const ConvProblem& p = gemm.p;
  const ConvTuning& tuning = target.tuning.conv;
  return {{.plan = plan,
           .target = target,
           .names = kConvNames,
           .tile = gemm.tile,
           .a_type = gemm.last ? p.k.input_type : p.k.kernel_type,
           .b_type = gemm.last ? p.k.kernel_type : p.k.input_type,
           .operands = [&gemm](KernelWriter& w, bool in_range, bool raw) { return gemm.Operands(w, in_range, raw); },
           .shared_tiles = tuning.shared_tiles,
           // A part may have fewer positions than others.
           .no_coop = gemm.parts > 1 ? Refusal("a window in parts") : std::nullopt,
           .no_shared_tile = {},
           .no_packing = RefusesConvPacking(gemm, tuning),
           .panel = PanelsFor(target, gemm.tile),
           .note = gemm.last ? "channels last" : "channels first"}};
}

// Into how many parts the window is split: where it is too long for a workgroup, and where the sums do not fill the
// device, but for what cooperative matrices do, which take no parts.
int64_t PartsOfWindow(const plan::KernelPlan& plan, const ConvGemm& gemm, const Target& target) {
  const ConvProblem& p = gemm.p;
  int64_t parts = SplitOf(p);
  if (gemm.last && RefusesCoop(CaseOf(plan, gemm, target).product))
    parts = std::max(parts, FillingSplitOf(p, target.tuning.dot.least_part, target));
  return std::min(parts, p.window);
}

}  // namespace

Result<EmittedProgram> EmitGemmConv(const plan::KernelPlan& plan, const ConvProblem& p, const Target& target) {
  ConvGemm gemm(p);
  const int64_t wanted = PartsOfWindow(plan, gemm, target);
  if (wanted <= 1) return MakeFirst(kGemmVariants, CaseOf(plan, gemm, target));
  return EmitConvInParts(plan, p, CeilDiv(p.window, CeilDiv(p.window, wanted)), target,
                         [&](const plan::KernelPlan& with_parts, const plan::ElementProgram& epilogue) {
                           gemm.Split(wanted, epilogue);
                           return MakeFirst(kGemmVariants, CaseOf(with_parts, gemm, target));
                         });
}

}  // namespace krafla::spirv
