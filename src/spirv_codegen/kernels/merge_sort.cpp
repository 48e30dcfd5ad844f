// SPDX-License-Identifier: Apache-2.0
// A merge sort of positions. Each pass doubles the length of sorted runs: every element finds by binary
// search how many elements of the neighbouring run go before it, which is its new place. Stable, any comparator, no
// shared memory, and the same code for a row of ten elements and of ten million. Where only the first `keep` of each
// row are read, only the first `keep` of each run go into the next pass: half as many in each as in the one before.
#include <algorithm>
#include <array>

#include "base/checked_math.h"
#include "spirv_codegen/kernels/reduction_values.h"
#include "spirv_codegen/kernels/sort.h"

namespace krafla::spirv {
namespace {

class MergeSort {
 public:
  MergeSort(const plan::KernelPlan& plan, const plan::SortKernel& sort, const Target& target)
      : plan_(plan),
        sort_(sort),
        profile_(target.profile),
        target_(target),
        rows_(sort),
        length_(rows_.length()),
        total_(rows_.rows() * length_),
        keep_(rows_.keep()),
        local_(WorkgroupSize(profile_, target.tuning.sort.merge_local)) {}

  Result<EmittedProgram> Emit() {
    EmittedProgram out;
    if (total_ == 0) return out;
    KRAFLA_ASSIGN(grid_, FoldGrid(CeilDiv(total_, local_), profile_));
    out.scratch_bytes = {total_ * 4, total_ * 4};
    out.kernels.push_back(Start());
    out.dispatches.push_back({0, grid_.size, {}});
    int at = 0;  // the scratch buffer in which the positions are
    if (length_ > 1) {
      out.kernels.push_back(Merge(0));
      out.kernels.push_back(Merge(1));
    }
    for (int64_t run = 1; run < length_; run *= 2, at = 1 - at) {
      const int64_t width = std::min(run, keep_), per_row = CeilDiv(length_, run) * width;
      std::vector<uint32_t> push = {static_cast<uint32_t>(run)};
      if (Prunes()) push.insert(push.end(), {static_cast<uint32_t>(width), static_cast<uint32_t>(per_row)});
      const int64_t elements = Prunes() ? rows_.rows() * per_row : total_;
      out.dispatches.push_back(
          {1 + at, GridOf(elements), std::move(push), static_cast<double>(elements) / static_cast<double>(total_)});
    }
    out.kernels.push_back(Gather(at));
    out.dispatches.push_back({static_cast<int>(out.kernels.size()) - 1,
                              GridOf(rows_.rows() * keep_),
                              {},
                              static_cast<double>(keep_) / static_cast<double>(length_)});
    return out;
  }

 private:
  KernelWriter Writer(int push_words) const {
    return KernelWriter(plan_, target_, {{total_, 4}, {total_, 4}}, push_words);
  }
  int Scratch(int n) const { return static_cast<int>(plan_.bindings.size()) + n; }
  Value U32(KernelWriter& w, int64_t v) const { return w.b.U32(static_cast<uint32_t>(v)); }

  // The last run of a row may be counted as a whole one, whose end must fit 32 bits too.
  bool Prunes() const { return keep_ <= length_ / 4 && total_ < int64_t{1} << 31; }
  // A grid for the first `elements` elements of the whole grid, which numbers them as the whole grid does.
  std::array<uint32_t, 3> GridOf(int64_t elements) const {
    const auto groups = static_cast<uint32_t>(CeilDiv(elements, local_));
    if (grid_.size[1] == 1) return {groups, 1, 1};
    return {grid_.size[0], static_cast<uint32_t>(CeilDiv(groups, grid_.size[0])), 1};
  }

  // Calls body(row, n) for element n of the `per_row` elements of a row.
  void ForElement(KernelWriter& w, Value per_row, const std::function<void(Value, Value)>& body) const {
    Builder& b = w.b;
    const Value n = b.Add(b.Mul(GroupNumber(b, grid_), b.U32(local_)), b.LocalIndex());
    b.If(b.Compare(Cmp::kULt, n, b.Mul(U32(w, rows_.rows()), per_row)), [&] {
      const Value row = b.UDiv(n, per_row);
      body(row, b.Sub(n, b.Mul(row, per_row)));
    });
  }
  // Where scratch has the position of the element at a place of a row.
  Value ScratchIndex(KernelWriter& w, Value row, Value place) const {
    return w.b.Add(w.b.Mul(row, U32(w, length_)), place);
  }
  Values LoadOperands(KernelWriter& w, Value row, Value place) const {
    Values out;
    for (std::size_t i = 0; i < sort_.inputs.size(); ++i) {
      bool used = false;
      for (const plan::Node& n : sort_.comparator.nodes)
        used = used || (n.op == plan::NodeOp::kParam && n.bits / 2 == i);
      // Operands that are only carried along are not compared.
      out.push_back(used ? rows_.Operand(w, static_cast<int>(i), row, place)
                         : w.b.Zero(ComputeKind(plan::ComputeType(sort_.types[i]))));
    }
    return out;
  }

  EmittedKernel Start() const {
    KernelWriter w = Writer(0);
    ForElement(w, U32(w, length_),
               [&](Value row, Value place) { w.buffers.Store(Scratch(0), 4, ScratchIndex(w, row, place), place); });
    return w.Finish({local_, 1, 1}, "sort.start");
  }

  EmittedKernel Merge(int from) const {
    KernelWriter w = Writer(Prunes() ? 3 : 1);
    Builder& b = w.b;
    const Value run = w.buffers.PushWord(0);
    if (!Prunes()) {
      ForElement(w, U32(w, length_), [&](Value row, Value place) {
        const Value number = b.UDiv(place, run);
        MergeElement(w, from, row, number, b.Sub(place, b.Mul(number, run)), run, run);
      });
      return w.Finish({local_, 1, 1}, "sort.merge");
    }
    const Value width = w.buffers.PushWord(1);
    ForElement(w, w.buffers.PushWord(2), [&](Value row, Value n) {
      const Value number = b.UDiv(n, width);
      const Value within = b.Sub(n, b.Mul(number, width));
      // The last run may be shorter.
      b.If(b.Compare(Cmp::kULt, b.Add(b.Mul(number, run), within), U32(w, length_)),
           [&] { MergeElement(w, from, row, number, within, run, width); });
    });
    return w.Finish({local_, 1, 1}, "sort.merge");
  }

  // Merges element `within` of run `number`; only the first `width` elements of it and of its neighbour take part.
  void MergeElement(KernelWriter& w, int from, Value row, Value number, Value within, Value run, Value width) const {
    Builder& b = w.b;
    const Value is_right = b.Compare(Cmp::kNe, b.And(number, b.U32(1)), b.U32(0));
    const Value pair_begin = b.Mul(b.And(number, b.U32(~1u)), run);
    const Value other = b.Select(is_right, pair_begin, b.Min(b.Add(pair_begin, run), U32(w, length_)));
    const Value other_end = b.Min(b.Add(other, width), U32(w, length_));
    const Value mine = w.buffers.Load(Scratch(from), 4, ScratchIndex(w, row, b.Add(b.Mul(number, run), within)), 1);
    const Values my_values = LoadOperands(w, row, mine);
    const Values found = b.While(
        {other, other_end}, [&](const Values& s) { return b.Compare(Cmp::kULt, s[0], s[1]); },
        [&](const Values& s) {
          const Value middle = b.Shr(b.Add(s[0], s[1]), b.U32(1));
          const Value theirs = w.buffers.Load(Scratch(from), 4, ScratchIndex(w, row, middle), 1);
          const Values their_values = LoadOperands(w, row, theirs);
          // An element of the left run goes after the elements of the right run that are less. One of the right run
          // goes after the elements of the left run that are not greater.
          Values operands;
          for (std::size_t i = 0; i < my_values.size(); ++i) {
            operands.push_back(b.Select(is_right, my_values[i], their_values[i]));
            operands.push_back(b.Select(is_right, their_values[i], my_values[i]));
          }
          const Value less = RunScalarProgram(b, w.buffers, sort_.comparator, operands)[0];
          const Value before = b.LNotEqual(less, is_right);
          return Values{b.Select(before, b.Add(middle, b.U32(1)), s[0]), b.Select(before, s[1], middle)};
        });
    const Value rank = b.Add(within, b.Sub(found[0], other));
    w.buffers.Store(Scratch(1 - from), 4, ScratchIndex(w, row, b.Add(pair_begin, rank)), mine);
  }

  EmittedKernel Gather(int from) const {
    KernelWriter w = Writer(0);
    ForElement(w, U32(w, keep_), [&](Value row, Value place) {
      rows_.Move(w, row, place, w.buffers.Load(Scratch(from), 4, ScratchIndex(w, row, place), 1));
    });
    return w.Finish({local_, 1, 1}, "sort.gather");
  }

  const plan::KernelPlan& plan_;
  const plan::SortKernel& sort_;
  const DeviceProfile& profile_;
  const Target& target_;
  SortRows rows_;
  int64_t length_, total_, keep_;
  uint32_t local_;
  Grid grid_;
};

}  // namespace

Result<EmittedProgram> EmitMergeSort(const plan::KernelPlan& plan, const plan::SortKernel& sort, const Target& target) {
  return MergeSort(plan, sort, target).Emit();
}

}  // namespace krafla::spirv
