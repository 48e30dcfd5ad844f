// SPDX-License-Identifier: Apache-2.0
// ScatterKernel, whose result does not depend on timing: an invocation owns one place of the window, or several
// (ScatterTuning::in_order_places), and takes the updates in their order, so that no two invocations write the same
// element. Windows may overlap along a dimension in which they are longer than 1 and start anywhere. There an
// invocation owns the coordinates of the operand that have the same remainder by the window's length; every window
// contains exactly one of them. Where the indices are unique, updates do not wait for each other. Many updates in order
// are spread over several dispatches, because the work of an invocation in one dispatch cannot be cut.
#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <vector>

#include "base/checked_math.h"
#include "ir/dims.h"
#include "spirv_codegen/kernels/reduction_values.h"
#include "spirv_codegen/kernels/variant.h"

namespace krafla::spirv {
namespace {

class ScatterEmitter {
 public:
  ScatterEmitter(KernelWriter& w, const plan::ScatterKernel& s)
      : w_(w),
        b_(w.b),
        s_(s),
        operand_strides_(RowMajorStrides(s.operand_dims)),
        update_strides_(RowMajorStrides(s.updates_dims)),
        index_strides_(RowMajorStrides(s.indices_dims)) {
    const ScatterAttributes& a = s.attributes;
    for (int64_t d = 0; d < s.updates_dims.ssize(); ++d)
      (Contains(a.update_window_dims, d) ? window_ : batch_).push_back(d);
    std::size_t next = 0;
    for (int64_t d = 0; d < s.operand_dims.ssize(); ++d) {
      const bool in_window = !Contains(a.inserted_window_dims, d) && !Contains(a.input_batching_dims, d);
      window_of_operand_.push_back(in_window ? window_[next++] : -1);
    }
    for (int64_t d : window_) window_extents_.push_back(At(s.updates_dims, d));
    for (int64_t d : batch_) batch_extents_.push_back(At(s.updates_dims, d));
    vector_ = a.index_vector_dim < s.indices_dims.ssize();
    for (int64_t d : a.scatter_dims_to_operand_dims) {
      const int64_t dim = window_of_operand_[static_cast<std::size_t>(d)];
      if (dim >= 0 && At(s.updates_dims, dim) > 1 && At(s.updates_dims, dim) < At(s.operand_dims, d))
        sliding_.push_back(d);
    }
  }

  int64_t window_count() const { return Product(window_extents_); }
  int64_t batch_count() const { return Product(batch_extents_); }

  // The places of element `element` of a window in the operand and in the updates, counted from the window's corner.
  // Along dimensions in which windows overlap only the remainder of the coordinate is known.
  struct Place {
    Value operand, update;
    Values remainders;  // along the dimensions in which windows overlap
    Value there = {};   // whether the window has this element; none: it has
  };
  // `alone`: no other invocation writes the elements of this update, so that overlaps do not matter.
  Place WindowPlace(Value element, bool alone) {
    const Values index = Delinearize(element, window_extents_);
    Place out{U32(0), U32(0), {}, {}};
    if (!alone) out.remainders.resize(window_of_operand_.size());
    for (std::size_t d = 0; d < window_of_operand_.size(); ++d) {
      if (window_of_operand_[d] < 0) continue;
      if (!alone && Contains(sliding_, static_cast<int64_t>(d))) {
        const auto at = std::find(window_.begin(), window_.end(), window_of_operand_[d]);
        out.remainders[d] = index[static_cast<std::size_t>(at - window_.begin())];
        continue;
      }
      auto n =
          static_cast<std::size_t>(std::find(window_.begin(), window_.end(), window_of_operand_[d]) - window_.begin());
      out.operand = b_.Add(out.operand, b_.Mul(index[n], U32(operand_strides_[d])));
      out.update = b_.Add(out.update, b_.Mul(index[n], U32(At(update_strides_, window_[n]))));
    }
    return out;
  }

  bool windows_overlap() const { return !sliding_.empty(); }

  // Of `count` shares of the operand, a power of two, the one that an invocation owns. Windows that do not overlap lie
  // in the share that the sum of their starts gives.
  struct Share {
    Value own;
    int64_t count = 1;
  };

  // Takes the elements of one update at `places`, of which there is one only where windows overlap.
  void Apply(Value batch, std::span<const Place> places, const Share& share) {
    const ScatterAttributes& a = s_.attributes;
    const Values index = Delinearize(batch, batch_extents_);
    const Values& remainders = places.front().remainders;
    Value index_at = U32(0), update_at = U32(0), corner = U32(0);
    for (std::size_t n = 0; n < index.size(); ++n) {
      auto d = static_cast<int64_t>(n);
      if (vector_ && d >= a.index_vector_dim) ++d;
      index_at = b_.Add(index_at, b_.Mul(index[n], U32(At(index_strides_, d))));
      update_at = b_.Add(update_at, b_.Mul(index[n], U32(At(update_strides_, batch_[n]))));
    }
    Value inside = b_.m.Bool(true), sum = U32(0);
    for (std::size_t k = 0; k < a.scatter_dims_to_operand_dims.size(); ++k) {
      const int64_t d = a.scatter_dims_to_operand_dims[k];
      const int64_t w = window_of_operand_[static_cast<std::size_t>(d)];
      const int64_t room = At(s_.operand_dims, d) - (w < 0 ? 1 : At(s_.updates_dims, w));
      const Value at =
          vector_ ? b_.Add(index_at, U32(static_cast<int64_t>(k) * At(index_strides_, a.index_vector_dim))) : index_at;
      Value start =
          FromStorage(b_, s_.indices_type, w_.buffers.Load(s_.indices_binding, StorageBytes(s_.indices_type), at, 1));
      if (room < 0) {
        inside = b_.m.Bool(false);
        break;
      }
      // A negative start is a large number without its sign.
      inside = b_.LAnd(inside, b_.Compare(Cmp::kULe, start, b_.Const(start.kind, static_cast<uint64_t>(room))));
      if (KindBits(start.kind) == 64) start = b_.UConvert(start, Kind::kU32);
      corner = b_.Add(corner, b_.Mul(start, U32(At(operand_strides_, d))));
      sum = b_.Add(sum, start);
      if (!remainders.empty() && remainders[static_cast<std::size_t>(d)]) {
        // The one element of the window whose coordinate has this invocation's remainder.
        const Value length = U32(At(s_.updates_dims, w));
        const Value own = remainders[static_cast<std::size_t>(d)], first = b_.UMod(start, length);
        const Value ahead = b_.Select(b_.Compare(Cmp::kUGe, own, first), U32(0), length);
        const Value offset = b_.Sub(b_.Add(own, ahead), first);
        corner = b_.Add(corner, b_.Mul(offset, U32(At(operand_strides_, d))));
        update_at = b_.Add(update_at, b_.Mul(offset, U32(At(update_strides_, w))));
      }
    }
    for (std::size_t k = 0; k < a.input_batching_dims.size(); ++k) {
      const int64_t dim = a.scatter_indices_batching_dims[k];
      auto n = static_cast<std::size_t>(vector_ && dim > a.index_vector_dim ? dim - 1 : dim);
      corner = b_.Add(corner, b_.Mul(index[n], U32(At(operand_strides_, a.input_batching_dims[k]))));
    }
    if (share.count > 1) inside = b_.LAnd(inside, b_.Compare(Cmp::kEq, b_.And(sum, U32(share.count - 1)), share.own));
    // llvmpipe reads from an address that all lanes share even where no lane is active, so the address must be valid.
    // (A select by `inside` would be simplified away within the branch.)
    const Value last = U32(std::max<int64_t>(Product(s_.operand_dims) - 1, 0));
    Values operand_at;
    for (const Place& place : places) operand_at.push_back(b_.Min(b_.Add(corner, place.operand), last));
    b_.If(inside, [&] {
      for (std::size_t k = 0; k < places.size(); ++k) {
        auto combine = [&] { Combine(operand_at[k], b_.Add(update_at, places[k].update)); };
        if (places[k].there) {
          b_.If(places[k].there, combine);
        } else {
          combine();
        }
      }
    });
  }

 private:
  static int64_t At(const Dims& d, int64_t i) { return d[static_cast<std::size_t>(i)]; }
  Value U32(int64_t v) { return b_.U32(static_cast<uint32_t>(v)); }

  Values Delinearize(Value linear, const Dims& extents) {
    Values out(extents.size());
    for (std::size_t d = extents.size(); d-- > 0;) {
      const Value rest = d == 0 ? U32(0) : b_.UDiv(linear, U32(extents[d]));
      out[d] = d == 0 ? linear : b_.Sub(linear, b_.Mul(rest, U32(extents[d])));
      linear = rest;
    }
    return out;
  }

  void Combine(Value operand_at, Value update_at) {
    const std::size_t n = s_.updates.size();
    Values params(2 * n);
    for (std::size_t k = 0; k < n; ++k) {
      const ElementType type = s_.types[k];
      const Kind kind64 = type == ElementType::kF64 ? Kind::kF64 : Kind::kU64;
      params[k] = FromStorage(b_, type, w_.buffers.Load(s_.outputs[k], StorageBytes(type), operand_at, 1, kind64));
      params[n + k] = FromStorage(b_, type, w_.buffers.Load(s_.updates[k], StorageBytes(type), update_at, 1, kind64));
    }
    const Values made = RunScalarProgram(b_, w_.buffers, s_.combiner.combiner, params, /*seen=*/true);
    for (std::size_t k = 0; k < n; ++k)
      w_.buffers.Store(s_.outputs[k], StorageBytes(s_.types[k]), operand_at, ToStorage(b_, s_.types[k], made[k]));
  }

  KernelWriter& w_;
  Builder& b_;
  const plan::ScatterKernel& s_;
  Dims operand_strides_, update_strides_, index_strides_, window_, batch_, window_extents_, batch_extents_,
      window_of_operand_, sliding_;
  bool vector_ = false;
};

struct ScatterCase {
  const plan::ScatterKernel& s;
  int64_t batch;  // the number of windows
  const ScatterTuning& tuning;
};
struct ScatterWay {
  bool apart;  // whether all windows are written at once
  uint32_t local;
  int64_t places;  // of the window, that an invocation owns
  int64_t shares;  // of the operand, of which a workgroup owns one where windows fill its places and share no words
  std::string reason;
};

// In order of preference.
constexpr Variant<ScatterCase, ScatterWay> kScatterVariants[] = {
    // An invocation for each element of each window.
    {"apart",
     [](const ScatterCase& c) -> Refusal {
       if (c.batch == 1) return std::nullopt;
       if (!c.s.attributes.unique_indices) return "the indices may repeat, and updates keep their order";
       // A narrow element shares its word with its neighbours, and different invocations may write only different words
       // at the same time.
       for (ElementType type : c.s.types)
         if (StorageBytes(type) < 4) return "elements share words";
       return std::nullopt;
     },
     [](const ScatterCase& c, std::string) { return ScatterWay{true, c.tuning.apart_local, 1, 1, ""}; }},
    // An invocation for each element of the window, which takes the updates in their order.
    {"in order", nullptr,
     [](const ScatterCase& c, std::string refused) {
       return ScatterWay{false, c.tuning.in_order_local, c.tuning.in_order_places, c.tuning.in_order_shares,
                         std::move(refused)};
     }},
};
static_assert(TakesEverything(kScatterVariants));

}  // namespace

Result<EmittedProgram> EmitScatter(const plan::KernelPlan& plan, const plan::ScatterKernel& s, const Target& target) {
  const DeviceProfile& profile = target.profile;
  KRAFLA_TRY(CheckProgram(s.combiner.combiner, profile));
  KRAFLA_TRY(CheckType(s.indices_type, profile));
  for (ElementType type : s.types) KRAFLA_TRY(CheckType(type, profile));
  EmittedProgram out;
  const int64_t updates = Product(s.updates_dims);
  constexpr int64_t kMostInOrder = int64_t{1} << 16;
  const bool in_stretches = updates > kMostInOrder;
  KernelWriter w(plan, target, {}, in_stretches ? 1 : 0);
  Builder& b = w.b;
  ScatterEmitter scatter(w, s);
  const int64_t window = scatter.window_count(), batch = scatter.batch_count();
  if (window * batch == 0) return out;
  const ScatterWay way = MakeFirst(kScatterVariants, ScatterCase{s, batch, target.tuning.scatter});
  const int64_t items = way.apart ? window * batch : window;
  const uint32_t local = WorkgroupSize(profile, way.local);
  const int64_t owned = scatter.windows_overlap() ? 1 : std::clamp<int64_t>(CeilDiv(items, local), 1, way.places);
  const auto per_group = static_cast<uint32_t>(local * owned);
  const int64_t groups = CeilDiv(items, per_group);
  ScatterEmitter::Share share;
  const bool words = std::ranges::none_of(s.types, [](ElementType type) { return StorageBytes(type) < 4; });
  if (owned > 1 && owned == way.places && words)
    share.count = std::bit_floor(static_cast<uint32_t>(std::max<int64_t>(way.shares / groups, 1)));
  KRAFLA_ASSIGN(Grid grid, FoldGrid(groups * share.count, profile));
  Value group = GroupNumber(b, grid);
  if (share.count > 1) {
    const Value count = b.U32(static_cast<uint32_t>(share.count));
    share.own = b.UMod(group, count);
    group = b.UDiv(group, count);
  }
  const Value item = b.Add(b.Mul(group, b.U32(per_group)), b.LocalIndex());
  b.If(b.Compare(Cmp::kULt, item, b.U32(static_cast<uint32_t>(items))), [&] {
    if (way.apart) {
      const Value n = b.UDiv(item, b.U32(static_cast<uint32_t>(window)));
      const Value element = b.Sub(item, b.Mul(n, b.U32(static_cast<uint32_t>(window))));
      scatter.Apply(n, std::array{scatter.WindowPlace(element, /*alone=*/true)}, {});
      return;
    }
    std::vector<ScatterEmitter::Place> places;
    for (int64_t k = 0; k < owned; ++k) {
      const bool within = k == 0 || window % per_group == 0;
      const Value element = b.Add(item, b.U32(static_cast<uint32_t>(k * local)));
      // What is not there has a valid address too, for the reason that Apply() names.
      const Value last = b.U32(static_cast<uint32_t>(items - 1));
      places.push_back(scatter.WindowPlace(within ? element : b.Min(element, last), /*alone=*/false));
      if (!within) places.back().there = b.Compare(Cmp::kULe, element, last);
    }
    const Value first = in_stretches ? w.buffers.PushWord(0) : b.U32(0);
    const Value end = b.Min(b.Add(first, b.U32(kMostInOrder)), b.U32(static_cast<uint32_t>(batch)));
    b.For(first, end, b.U32(1), [&](Value n) { scatter.Apply(n, places, share); });
  });
  out.kernels.push_back(w.Finish({local, 1, 1}, way.apart ? "scatter.apart" : "scatter.in_order", way.reason));
  for (int64_t first = 0; first < (way.apart ? 1 : batch); first += kMostInOrder) {
    out.dispatches.push_back(
        {0, grid.size, in_stretches ? std::vector{static_cast<uint32_t>(first)} : std::vector<uint32_t>{}});
  }
  return out;
}

}  // namespace krafla::spirv
