// SPDX-License-Identifier: Apache-2.0
// Convolutions over arrays that are dilated by s (transposed convolutions, the gradient of a strided one): of s taps
// that lie side by side one meets an element. Every output meets the taps of one residue modulo s, so the outputs of
// one residue are a plain convolution with these taps. Residues with as many taps are features of one convolution,
// which leaves at most two in a dimension, and no product with a hole. (The CPU back end takes such convolutions apart
// itself, and writes each part in place.)
//
// Along one dimension, with low padding s a + b, 0 <= b < s: output s y + q - (s - 1 - b), 0 <= q < s, meets the taps
// (s - 1 - q) + s j at elements y + j - a.
//
// With taps d apart, d and s coprime, and outputs t apart, h the common factor of t and s: output y s / h + q meets the
// taps c + s j, c = (low padding - t q) / d modulo s, at elements y t / h + j d + (t q + c d - low padding) / s. These
// lie elsewhere for every residue q, so each is a convolution. A common factor g of d and s is taken out before: only
// one of g outputs meets an element, with any tap.
#include <algorithm>
#include <numeric>
#include <span>

#include "base/checked_math.h"
#include "base/index.h"
#include "ir/builder.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace krafla {

namespace {

constexpr std::size_t kMostConvolutions = 16;

Shape ArrayOf(ElementType type, const Dims& dims) { return *Shape::MakeArray(type, dims); }

bool HasElements(const Instruction& i) {
  return i.shape().element_count() != 0 &&
         std::ranges::all_of(i.operands(), [](const Instruction* o) { return o->shape().element_count() != 0; });
}

int64_t Residue(int64_t x, int64_t s) { return ((x % s) + s) % s; }

// The high padding that leaves `outputs` windows over `size` elements. Of a base that is not dilated and one that is.
int64_t HighPadding(const WindowDim& w, int64_t size, int64_t outputs) {
  return (outputs - 1) * w.stride + (w.size - 1) * w.window_dilation - (size - 1) * w.base_dilation - w.padding_low;
}

// A convolution without the factors that the dilations of taps and of elements have in common.
struct CommonFactor {
  Instruction* convolution = nullptr;  // null: there is none, or no output meets an element
  PadAttributes pad;                   // what it gives among zeros

  Instruction* Spread(const Instruction& i, Instruction* made) const {
    Rewriter rewrite(i);
    Instruction* zero = rewrite.Constant(ScalarLiteral(i.shape().element_type(), 0));
    return rewrite.Add(Opcode::kPad, i.shape(), {made, zero}, pad);
  }
};

Result<CommonFactor> TakeCommonFactor(Instruction* i) {
  CommonFactor out;
  if (!IsStatic(*i) || !HasElements(*i)) return out;
  ConvolutionAttributes a = i->attr<ConvolutionAttributes>();
  Dims dims = i->shape().dims();
  out.pad = {Dims(dims.size(), 0), Dims(dims.size(), 0), Dims(dims.size(), 0)};
  bool is_found = false;
  for (std::size_t n = 0; n < a.window.size(); ++n) {
    WindowDim& w = a.window[n];
    const int64_t factor = std::gcd(w.window_dilation, w.base_dilation);
    if (factor == 1 || w.stride != 1) continue;
    const std::size_t at = At(a.output_spatial[n]);
    const int64_t first = Residue(w.padding_low, factor), outputs = CeilDiv(dims[at] - first, factor);
    if (outputs <= 0) continue;  // all zeros, of a few outputs
    is_found = true;
    out.pad.low[at] = first, out.pad.interior[at] = factor - 1;
    out.pad.high[at] = dims[at] - first - (outputs - 1) * factor - 1;
    w.padding_low = (w.padding_low - first) / factor;
    w.window_dilation /= factor, w.base_dilation /= factor;
    w.padding_high = HighPadding(w, i->operand(0)->shape().dim(a.input_spatial[n]), outputs);
    dims[at] = outputs;
  }
  if (!is_found) return out;
  out.convolution = Rewriter(*i).Add(Opcode::kConvolution, ArrayOf(i->shape().element_type(), dims),
                                     {i->operand(0), i->operand(1)}, a);
  return out;
}

// `count` residues of outputs whose convolutions are one: the taps first_tap + s j, and of the next residue those one
// before.
struct ResidueGroup {
  int64_t count = 1, first_tap = 0, taps = 0, low = 0;
};

struct DilatedDim {
  std::size_t spatial = 0;
  int64_t s = 1, taps = 0;
  int64_t residues = 1;  // of outputs
  int64_t stride = 1;    // of the convolutions of a residue
  int64_t before = 0;    // outputs of the first block that are not there
  int64_t blocks = 0;
  std::vector<ResidueGroup> groups;  // in the order of the outputs
};

// Taps and outputs that lie side by side: the residues with the fewer taps are those of the later ones.
void GroupAdjacent(DilatedDim& d, const WindowDim& w) {
  const int64_t b = Residue(w.padding_low, d.s), a = (w.padding_low - b) / d.s, longer = d.taps % d.s;
  d.residues = d.s;
  d.before = d.s - 1 - b;
  d.groups.push_back({d.s - longer, longer, d.taps / d.s, a});
  if (longer > 0) d.groups.push_back({longer, 0, d.taps / d.s + 1, a});
}

// The others: a residue each. The dilations are coprime.
void GroupApart(DilatedDim& d, const WindowDim& w) {
  const int64_t common = std::gcd(w.stride, d.s);
  d.residues = d.s / common;
  d.stride = w.stride / common;
  for (int64_t q = 0; q < d.residues; ++q) {
    int64_t c = 0;
    while (Residue(w.padding_low - w.stride * q - c * w.window_dilation, d.s) != 0) ++c;
    d.groups.push_back({1, c, c < d.taps ? CeilDiv(d.taps - c, d.s) : 0,
                        (w.padding_low - w.stride * q - c * w.window_dilation) / d.s});
  }
}

class DilatedConvolution {
 public:
  explicit DilatedConvolution(Instruction* i) : i_(i), a_(i->attr<ConvolutionAttributes>()), rewrite_(*i) {}

  Result<Instruction*> Expand() {
    if (!Find()) return nullptr;
    kernel_ = i_->operand(1);
    Dims reversed;
    for (const DilatedDim& d : dims_)
      if (a_.window[d.spatial].reversal) {
        reversed.push_back(a_.kernel_spatial[d.spatial]);
        a_.window[d.spatial].reversal = false;
      }
    if (!reversed.empty())
      kernel_ = rewrite_.Add(Opcode::kReverse, kernel_->shape(), {kernel_}, DimensionsAttributes{reversed});
    std::vector<ResidueGroup> groups(dims_.size());
    KRAFLA_ASSIGN(Instruction * joined, Joined(groups, 0));
    return Assembled(joined);
  }

 private:
  bool Find() {
    if (!IsStatic(*i_) || !HasElements(*i_) || a_.batch_group_count != 1) return false;
    // One product an output and tap: a hole costs less than another way through memory.
    if (a_.feature_group_count > 1 && i_->operand(1)->shape().dim(a_.kernel_input_feature) == 1) return false;
    for (std::size_t n = 0; n < a_.window.size(); ++n) {
      const WindowDim& w = a_.window[n];
      if (w.base_dilation == 1) continue;
      DilatedDim d;
      d.spatial = n, d.s = w.base_dilation, d.taps = w.size;
      // A dilation beyond the window is a lot of zeros, and arrays of as many features as it has.
      if (std::gcd(w.window_dilation, d.s) != 1 || d.s > std::max<int64_t>(2 * d.taps, 2)) return false;
      w.stride == 1 && w.window_dilation == 1 ? GroupAdjacent(d, w) : GroupApart(d, w);
      d.blocks = CeilDiv(i_->shape().dim(a_.output_spatial[n]) + d.before, d.residues);
      dims_.push_back(std::move(d));
    }
    std::size_t convolutions = 1;
    for (const DilatedDim& d : dims_) convolutions = std::min(convolutions * d.groups.size(), kMostConvolutions + 1);
    return !dims_.empty() && convolutions <= kMostConvolutions &&
           i_->shape().rank() + std::ssize(dims_) + 1 <= Shape::kMaxRank;
  }

  // The taps of a group of residues in each dimension, the residues as output features, the largest first:
  // [.., taps, ..] with [groups, residues.., features of a group] in the place of the features.
  Instruction* KernelOf(std::span<const ResidueGroup> groups_of) {
    Instruction* k = kernel_;
    const std::size_t rank = At(k->shape().rank());
    PadAttributes pad{Dims(rank, 0), Dims(rank, 0), Dims(rank, 0)};
    SliceAttributes some{Dims(rank, 0), k->shape().dims(), Dims(rank, 1)};
    bool is_padded = false, is_cut = false;
    for (std::size_t n = 0; n < dims_.size(); ++n) {
      const std::size_t at = At(a_.kernel_spatial[dims_[n].spatial]);
      const int64_t wanted = groups_of[n].taps * dims_[n].s, have = dims_[n].taps;
      if (wanted > have) pad.high[at] = wanted - have, some.limits[at] = wanted, is_padded = true;
      if (wanted < have) some.limits[at] = wanted, is_cut = true;
    }
    if (is_padded) {
      Dims padded = k->shape().dims();
      for (std::size_t d = 0; d < rank; ++d) padded[d] += pad.high[d];
      Instruction* zero = rewrite_.Constant(ScalarLiteral(k->shape().element_type(), 0));
      k = rewrite_.Add(Opcode::kPad, ArrayOf(k->shape().element_type(), padded), {k, zero}, pad);
    }
    if (is_cut) k = rewrite_.Slice(k, some);
    // Taps and residues part, and so do groups and features.
    Dims split, features, order, reversed;
    SliceAttributes residues;
    std::vector<int64_t> residue_at(dims_.size());
    int64_t group_at = 0;
    for (std::size_t d = 0; d < rank; ++d) {
      const auto it = std::ranges::find(dims_, static_cast<int64_t>(d),
                                        [&](const DilatedDim& x) { return a_.kernel_spatial[x.spatial]; });
      const auto add = [&](int64_t size, int64_t begin, int64_t end) {
        split.push_back(size), residues.starts.push_back(begin), residues.limits.push_back(end),
            residues.strides.push_back(1);
      };
      if (it != dims_.end()) {
        const auto n = static_cast<std::size_t>(it - dims_.begin());
        const auto& [count, first, taps, low] = groups_of[n];
        order.push_back(std::ssize(split));
        add(taps, 0, taps);
        residue_at[n] = std::ssize(split);
        reversed.push_back(std::ssize(split));
        add(it->s, first, first + count);
      } else if (static_cast<int64_t>(d) == a_.kernel_output_feature) {
        const int64_t groups = a_.feature_group_count, each = k->shape().dim(static_cast<int64_t>(d)) / groups;
        group_at = std::ssize(split);
        order.push_back(-1);  // the place of the features
        add(groups, 0, groups);
        add(each, 0, each);
      } else {
        order.push_back(std::ssize(split));
        const int64_t size = k->shape().dim(static_cast<int64_t>(d));
        add(size, 0, size);
      }
    }
    k = rewrite_.Slice(rewrite_.Reshape(k, split), residues);
    k = rewrite_.Add(Opcode::kReverse, k->shape(), {k}, DimensionsAttributes{reversed});
    Dims permutation, merged;
    for (int64_t from : order) {
      if (from >= 0) {
        permutation.push_back(from), merged.push_back(k->shape().dim(from));
        continue;
      }
      int64_t count = k->shape().dim(group_at) * k->shape().dim(group_at + 1);
      permutation.push_back(group_at);
      for (int64_t at : residue_at) permutation.push_back(at), count *= k->shape().dim(at);
      permutation.push_back(group_at + 1);
      merged.push_back(count);
    }
    return rewrite_.Reshape(rewrite_.Transpose(k, permutation), merged);
  }

  // The outputs of a group of residues, [.., blocks, residues, ..] in the place of the dilated dimensions and
  // [groups, features of a group] in that of the features.
  Instruction* OutputsOf(std::span<const ResidueGroup> groups_of) {
    const ElementType type = i_->shape().element_type();
    const int64_t rank = i_->shape().rank(), groups = a_.feature_group_count;
    const int64_t each = i_->shape().dim(a_.output_feature) / groups;
    Dims apart, out = i_->shape().dims();  // of the convolution: its features last
    bool is_zero = false;
    std::vector<int64_t> residues(dims_.size());
    for (std::size_t n = 0; n < dims_.size(); ++n) {
      residues[n] = groups_of[n].count;
      out[At(a_.output_spatial[dims_[n].spatial])] = dims_[n].blocks;
      out[At(a_.output_feature)] *= residues[n];
      is_zero |= groups_of[n].taps == 0;
    }
    // Where each dimension of the outputs lies in what the convolution gives with its features taken apart.
    Dims permutation, wanted;
    int64_t place = 0, feature_place = 0;
    std::vector<int64_t> places;
    for (int64_t d = 0; d < rank; ++d) {
      places.push_back(place);
      if (d == a_.output_feature) {
        feature_place = place;
        apart.push_back(groups);
        for (int64_t r : residues) apart.push_back(r);
        apart.push_back(each);
        place += std::ssize(residues) + 2;
      } else {
        apart.push_back(out[At(d)]);
        ++place;
      }
    }
    for (int64_t d = 0; d < rank; ++d) {
      permutation.push_back(places[At(d)]);
      if (d == a_.output_feature) permutation.push_back(feature_place + std::ssize(residues) + 1);
      for (std::size_t n = 0; n < dims_.size(); ++n)
        if (a_.output_spatial[dims_[n].spatial] == d)
          permutation.push_back(feature_place + 1 + static_cast<int64_t>(n));
    }
    for (int64_t p : permutation) wanted.push_back(apart[At(p)]);
    if (is_zero) return rewrite_.Splat(ScalarLiteral(type, 0), wanted);
    ConvolutionAttributes a = a_;
    for (std::size_t n = 0; n < dims_.size(); ++n) {
      WindowDim& w = a.window[dims_[n].spatial];
      w.base_dilation = 1;
      w.stride = dims_[n].stride;
      w.size = groups_of[n].taps;
      w.padding_low = groups_of[n].low;
      w.padding_high = HighPadding(w, i_->operand(0)->shape().dim(a.input_spatial[dims_[n].spatial]), dims_[n].blocks);
    }
    Instruction* made =
        rewrite_.Add(Opcode::kConvolution, ArrayOf(type, out), {i_->operand(0), KernelOf(groups_of)}, a);
    return rewrite_.Transpose(rewrite_.Reshape(made, apart), permutation);
  }

  // Where the residues of dilated dimension `n` lie in the outputs.
  int64_t ResidueAxis(std::size_t n) const {
    int64_t axis =
        a_.output_spatial[dims_[n].spatial] + 1 + (a_.output_feature < a_.output_spatial[dims_[n].spatial] ? 1 : 0);
    for (std::size_t m = 0; m < dims_.size(); ++m)
      axis += a_.output_spatial[dims_[m].spatial] < a_.output_spatial[dims_[n].spatial] ? 1 : 0;
    return axis;
  }

  // All residues of the dimensions from `n` on; of those before, `groups`.
  Result<Instruction*> Joined(std::vector<ResidueGroup>& groups, std::size_t n) {
    if (n == dims_.size()) return OutputsOf(groups);
    std::vector<Instruction*> parts;
    for (const ResidueGroup& group : dims_[n].groups) {
      groups[n] = group;
      KRAFLA_ASSIGN(Instruction * part, Joined(groups, n + 1));
      parts.push_back(part);
    }
    if (parts.size() == 1) return parts[0];
    return rewrite_.Infer(Opcode::kConcatenate, std::move(parts), DimensionsAttributes{{ResidueAxis(n)}});
  }

  Instruction* Assembled(Instruction* joined) {
    Dims merged = i_->shape().dims(), starts(merged.size(), 0);
    for (const DilatedDim& d : dims_) {
      merged[At(a_.output_spatial[d.spatial])] = d.blocks * d.residues;
      starts[At(a_.output_spatial[d.spatial])] = d.before;
    }
    Dims limits = i_->shape().dims();
    for (std::size_t d = 0; d < limits.size(); ++d) limits[d] += starts[d];
    return rewrite_.Slice(rewrite_.Reshape(joined, merged), {starts, limits, Dims(merged.size(), 1)});
  }

  Instruction* i_;
  ConvolutionAttributes a_;
  Rewriter rewrite_;
  Instruction* kernel_ = nullptr;
  std::vector<DilatedDim> dims_;
};

}  // namespace

Result<bool> DilatedConvolutionExpander(Module& module, const PassOptions&) {
  return RewriteAll(module, Opcode::kConvolution, [](Instruction* i) -> Result<Instruction*> {
    KRAFLA_ASSIGN(const CommonFactor taken, TakeCommonFactor(i));
    Instruction* convolution = taken.convolution == nullptr ? i : taken.convolution;
    KRAFLA_ASSIGN(Instruction * expanded, DilatedConvolution(convolution).Expand());
    if (taken.convolution == nullptr) return expanded;
    if (expanded == nullptr) return taken.Spread(*i, convolution);
    i->parent()->RemoveAll(std::span(&convolution, 1));
    return taken.Spread(*i, expanded);
  });
}

}  // namespace krafla
