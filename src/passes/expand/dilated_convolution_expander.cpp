// SPDX-License-Identifier: Apache-2.0
// Convolutions over arrays that are dilated by s (transposed convolutions, the gradient of a strided one): of s taps
// that lie side by side one meets an element. Every output meets the taps of one residue modulo s, so the outputs of
// one residue are a plain convolution with these taps. Residues with as many taps are features of one convolution,
// which leaves at most two in a dimension, and no product with a hole. (The CPU back end takes such convolutions apart
// itself, and writes each part in place.)
//
// Along one dimension, with low padding s a + b, 0 <= b < s: output s y + q - (s - 1 - b), 0 <= q < s, meets the taps
// (s - 1 - q) + s j at elements y + j - a.
#include <algorithm>

#include "base/checked_math.h"
#include "base/index.h"
#include "ir/builder.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace krafla {

namespace {

struct DilatedDim {
  std::size_t spatial = 0;
  int64_t s = 1, taps = 0;
  int64_t low = 0;     // a
  int64_t before = 0;  // outputs of the first block that are not there
  int64_t blocks = 0;
  int64_t longer() const { return taps % s; }  // so many residues have a tap more
};

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
    std::vector<bool> longer(dims_.size());
    KRAFLA_ASSIGN(Instruction * joined, Joined(longer, 0));
    return Assembled(joined);
  }

 private:
  bool Find() {
    if (!IsStatic(*i_) || a_.batch_group_count != 1) return false;
    for (const Instruction* o : i_->operands())
      if (o->shape().element_count() == 0) return false;
    // One product an output and tap: a hole costs less than another way through memory.
    if (a_.feature_group_count > 1 && i_->operand(1)->shape().dim(a_.kernel_input_feature) == 1) return false;
    if (i_->shape().element_count() == 0) return false;
    for (std::size_t n = 0; n < a_.window.size(); ++n) {
      const WindowDim& w = a_.window[n];
      if (w.base_dilation == 1) continue;
      if (w.stride != 1 || w.window_dilation != 1) return false;
      DilatedDim d;
      d.spatial = n, d.s = w.base_dilation, d.taps = w.size;
      const int64_t b = ((w.padding_low % d.s) + d.s) % d.s;
      d.low = (w.padding_low - b) / d.s;
      d.before = d.s - 1 - b;
      d.blocks = CeilDiv(i_->shape().dim(a_.output_spatial[n]) + d.before, d.s);
      // A dilation beyond the window is a lot of zeros, and arrays of as many features as it has.
      if (d.s > std::max<int64_t>(2 * d.taps, 2)) return false;
      dims_.push_back(d);
    }
    return !dims_.empty() && i_->shape().rank() + std::ssize(dims_) + 1 <= Shape::kMaxRank;
  }

  int64_t TapsOf(std::size_t n, bool longer) const { return dims_[n].taps / dims_[n].s + (longer ? 1 : 0); }
  int64_t ResiduesOf(std::size_t n, bool longer) const {
    return longer ? dims_[n].longer() : dims_[n].s - dims_[n].longer();
  }

  // The taps of a group of residues, the residues as output features, the largest first:
  // [.., taps, ..] with [groups, residues.., features of a group] in the place of the features.
  Instruction* KernelOf(const std::vector<bool>& longer) {
    Instruction* k = kernel_;
    const std::size_t rank = At(k->shape().rank());
    PadAttributes pad{Dims(rank, 0), Dims(rank, 0), Dims(rank, 0)};
    SliceAttributes some{Dims(rank, 0), k->shape().dims(), Dims(rank, 1)};
    bool is_padded = false, is_cut = false;
    for (std::size_t n = 0; n < dims_.size(); ++n) {
      const std::size_t at = At(a_.kernel_spatial[dims_[n].spatial]);
      const int64_t wanted = TapsOf(n, longer[n]) * dims_[n].s, have = dims_[n].taps;
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
        const int64_t taps = TapsOf(n, longer[n]), first = longer[n] ? 0 : it->longer();
        order.push_back(std::ssize(split));
        add(taps, 0, taps);
        residue_at[n] = std::ssize(split);
        reversed.push_back(std::ssize(split));
        add(it->s, first, first + ResiduesOf(n, longer[n]));
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
  Instruction* OutputsOf(const std::vector<bool>& longer) {
    const ElementType type = i_->shape().element_type();
    const int64_t rank = i_->shape().rank(), groups = a_.feature_group_count;
    const int64_t each = i_->shape().dim(a_.output_feature) / groups;
    Dims apart, out = i_->shape().dims();  // of the convolution: its features last
    bool is_zero = false;
    std::vector<int64_t> residues(dims_.size());
    for (std::size_t n = 0; n < dims_.size(); ++n) {
      residues[n] = ResiduesOf(n, longer[n]);
      out[At(a_.output_spatial[dims_[n].spatial])] = dims_[n].blocks;
      out[At(a_.output_feature)] *= residues[n];
      is_zero |= TapsOf(n, longer[n]) == 0;
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
      w.size = TapsOf(n, longer[n]);
      w.padding_low = dims_[n].low;
      w.padding_high =
          dims_[n].blocks + w.size - 1 - i_->operand(0)->shape().dim(a.input_spatial[dims_[n].spatial]) - dims_[n].low;
    }
    Instruction* made = rewrite_.Add(Opcode::kConvolution, ArrayOf(type, out), {i_->operand(0), KernelOf(longer)}, a);
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

  // All residues of the dimensions from `n` on: those with fewer taps are the larger ones, which come first.
  Result<Instruction*> Joined(std::vector<bool>& longer, std::size_t n) {
    if (n == dims_.size()) return OutputsOf(longer);
    std::vector<Instruction*> parts;
    for (const bool more : {false, true}) {
      if (ResiduesOf(n, more) == 0) continue;
      longer[n] = more;
      KRAFLA_ASSIGN(Instruction * part, Joined(longer, n + 1));
      parts.push_back(part);
    }
    if (parts.size() == 1) return parts[0];
    return rewrite_.Infer(Opcode::kConcatenate, std::move(parts), DimensionsAttributes{{ResidueAxis(n)}});
  }

  Instruction* Assembled(Instruction* joined) {
    Dims merged = i_->shape().dims(), starts(merged.size(), 0);
    for (const DilatedDim& d : dims_) {
      merged[At(a_.output_spatial[d.spatial])] = d.blocks * d.s;
      starts[At(a_.output_spatial[d.spatial])] = d.before;
    }
    Dims limits = i_->shape().dims();
    for (std::size_t d = 0; d < limits.size(); ++d) limits[d] += starts[d];
    return rewrite_.Slice(rewrite_.Reshape(joined, merged), {starts, limits, Dims(merged.size(), 1)});
  }

  static Shape ArrayOf(ElementType type, const Dims& dims) { return *Shape::MakeArray(type, dims); }

  Instruction* i_;
  ConvolutionAttributes a_;
  Rewriter rewrite_;
  Instruction* kernel_ = nullptr;
  std::vector<DilatedDim> dims_;
};

}  // namespace

Result<bool> DilatedConvolutionExpander(Module& module, const PassOptions&) {
  return RewriteAll(module, Opcode::kConvolution, [](Instruction* i) { return DilatedConvolution(i).Expand(); });
}

}  // namespace krafla
