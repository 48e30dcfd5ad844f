// SPDX-License-Identifier: Apache-2.0
// SortKernel: a merge sort of positions. Each pass doubles the length of sorted runs: every element finds by binary
// search how many elements of the neighbouring run go before it, which is its new place. Stable, any comparator, no
// shared memory, and the same code for a row of ten elements and of ten million.
#include "base/checked_math.h"
#include "spirv_codegen/kernels/reduction_values.h"

namespace krafla::spirv {
namespace {

class SortEmitter {
 public:
  SortEmitter(const plan::KernelPlan& plan, const plan::SortKernel& sort, const DeviceProfile& profile)
      : plan_(plan), sort_(sort), profile_(profile) {
    for (std::size_t d = 0; d < sort.dims.size(); ++d) {
      if (static_cast<int>(d) < sort.dimension) outer_ *= sort.dims[d];
      if (static_cast<int>(d) > sort.dimension) inner_ *= sort.dims[d];
    }
    length_ = sort.dims[static_cast<std::size_t>(sort.dimension)];
    total_ = outer_ * inner_ * length_;
  }

  Result<EmittedProgram> Emit() {
    EmittedProgram out;
    if (total_ == 0) return out;
    local_ = WorkgroupSize(profile_, 64);
    KRAFLA_ASSIGN(grid_, FoldGrid(CeilDiv(total_, local_), profile_));
    out.scratch_bytes = {total_ * 4, total_ * 4};
    out.kernels.push_back(Start());
    out.dispatches.push_back({0, grid_.size, {}});
    int at = 0;  // the scratch buffer that holds the positions
    if (length_ > 1) {
      out.kernels.push_back(Merge(0));
      out.kernels.push_back(Merge(1));
    }
    for (int64_t run = 1; run < length_; run *= 2, at = 1 - at)
      out.dispatches.push_back({1 + at, grid_.size, {static_cast<uint32_t>(run)}});
    out.kernels.push_back(Gather(at));
    out.dispatches.push_back({static_cast<int>(out.kernels.size()) - 1, grid_.size, {}});
    return out;
  }

 private:
  KernelWriter Writer(int push_words) const {
    return KernelWriter(plan_, profile_, {{total_, 4}, {total_, 4}}, push_words);
  }
  int Scratch(int n) const { return static_cast<int>(plan_.bindings.size()) + n; }
  Value U32(KernelWriter& w, int64_t v) const { return w.b.U32(static_cast<uint32_t>(v)); }

  // body(element, first element of its row, place within the row); elements are numbered row by row, rows being the
  // lines along the dimension in the order (outer, inner).
  void ForElement(KernelWriter& w, const std::function<void(Value, Value, Value)>& body) const {
    Builder& b = w.b;
    const Value n = b.Add(b.Mul(GroupNumber(b, grid_), b.U32(local_)), b.LocalIndex());
    b.If(b.Compare(Cmp::kULt, n, U32(w, total_)), [&] {
      const Value row = b.UDiv(n, U32(w, length_));
      const Value start = b.Mul(row, U32(w, length_));
      body(n, start, b.Sub(n, start));
    });
  }
  // Where place `place` of the row that starts at `start` lies in the operands.
  Value OperandIndex(KernelWriter& w, Value start, Value place) const {
    Builder& b = w.b;
    if (inner_ == 1) return b.Add(start, place);
    const Value row = b.UDiv(start, U32(w, length_));
    const Value before = b.UDiv(row, U32(w, inner_));
    const Value line = b.Sub(row, b.Mul(before, U32(w, inner_)));
    return b.Add(b.Add(b.Mul(before, U32(w, inner_ * length_)), line), b.Mul(place, U32(w, inner_)));
  }
  Values LoadOperands(KernelWriter& w, Value start, Value place) const {
    const Value at = OperandIndex(w, start, place);
    Values out;
    for (std::size_t i = 0; i < sort_.inputs.size(); ++i) {
      bool used = false;
      for (const plan::Node& n : sort_.comparator.nodes)
        used = used || (n.op == plan::NodeOp::kParam && n.bits / 2 == i);
      const ElementType type = sort_.types[i];
      // Operands that are only carried along are not looked at.
      out.push_back(used ? FromStorage(w.b, type, w.buffers.Load(sort_.inputs[i], StorageBytes(type), at, 1, Kind64(type)))
                         : w.b.Zero(ComputeKind(plan::ComputeType(type))));
    }
    return out;
  }
  static Kind Kind64(ElementType type) { return type == ElementType::kF64 ? Kind::kF64 : Kind::kU64; }

  EmittedKernel Start() const {
    KernelWriter w = Writer(0);
    ForElement(w, [&](Value n, Value, Value place) { w.buffers.Store(Scratch(0), 4, n, place); });
    return w.Finish({local_, 1, 1}, "sort.start");
  }

  EmittedKernel Merge(int from) const {
    KernelWriter w = Writer(1);
    Builder& b = w.b;
    const Value run = w.buffers.PushWord(0);
    ForElement(w, [&](Value n, Value start, Value place) {
      const Value number = b.UDiv(place, run);
      const Value own_begin = b.Mul(number, run);
      const Value is_right = b.Compare(Cmp::kNe, b.And(number, b.U32(1)), b.U32(0));
      const Value pair_begin = b.Mul(b.And(number, b.U32(~1u)), run);
      const Value other = b.Select(is_right, pair_begin, b.Min(b.Add(pair_begin, run), U32(w, length_)));
      const Value other_end = b.Min(b.Add(other, run), U32(w, length_));
      const Value mine = w.buffers.Load(Scratch(from), 4, n, 1);
      const Values my_values = LoadOperands(w, start, mine);
      const Values found = b.While(
          {other, other_end}, [&](const Values& s) { return b.Compare(Cmp::kULt, s[0], s[1]); },
          [&](const Values& s) {
            const Value middle = b.Shr(b.Add(s[0], s[1]), b.U32(1));
            const Value theirs = w.buffers.Load(Scratch(from), 4, b.Add(start, middle), 1);
            const Values their_values = LoadOperands(w, start, theirs);
            // An element of the left run goes after those of the right that are less; one of the right goes after
            // those of the left that are not greater.
            Values operands;
            for (std::size_t i = 0; i < my_values.size(); ++i) {
              operands.push_back(b.Select(is_right, my_values[i], their_values[i]));
              operands.push_back(b.Select(is_right, their_values[i], my_values[i]));
            }
            const Value less = RunScalarProgram(b, w.buffers, sort_.comparator, operands)[0];
            const Value before = b.LNotEqual(less, is_right);
            return Values{b.Select(before, b.Add(middle, b.U32(1)), s[0]), b.Select(before, s[1], middle)};
          });
      const Value rank = b.Add(b.Sub(place, own_begin), b.Sub(found[0], other));
      w.buffers.Store(Scratch(1 - from), 4, b.Add(start, b.Add(pair_begin, rank)), mine);
    });
    return w.Finish({local_, 1, 1}, "sort.merge");
  }

  EmittedKernel Gather(int from) const {
    KernelWriter w = Writer(0);
    ForElement(w, [&](Value n, Value start, Value place) {
      const Value position = w.buffers.Load(Scratch(from), 4, n, 1);
      const Value source = OperandIndex(w, start, position);
      const Value to = OperandIndex(w, start, place);
      for (std::size_t i = 0; i < sort_.inputs.size(); ++i) {
        const int bytes = StorageBytes(sort_.types[i]);
        const Value value = sort_.inputs[i] < 0 ? position : w.buffers.Load(sort_.inputs[i], bytes, source, 1);
        w.buffers.Store(sort_.outputs[i], bytes, to, value);
      }
    });
    return w.Finish({local_, 1, 1}, "sort.gather");
  }

  const plan::KernelPlan& plan_;
  const plan::SortKernel& sort_;
  const DeviceProfile& profile_;
  int64_t outer_ = 1, inner_ = 1, length_ = 1, total_ = 1;
  uint32_t local_ = 64;
  Grid grid_;
};

}  // namespace

Result<EmittedProgram> EmitSort(const plan::KernelPlan& plan, const plan::SortKernel& sort,
                                const DeviceProfile& profile, const EmitOptions&) {
  KRAFLA_TRY(CheckProgram(sort.comparator, profile));
  if (sort.dims.empty()) return Unimplemented("A scalar has no dimension to sort.");
  for (ElementType type : sort.types)
    if (StorageBytes(type) == 8) KRAFLA_TRY(CheckType(type, profile));
  return SortEmitter(plan, sort, profile).Emit();
}

}  // namespace krafla::spirv
