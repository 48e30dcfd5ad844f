// SPDX-License-Identifier: Apache-2.0
// ScatterKernel, whose result does not depend on timing. Where windows have nothing in common, or what is made of their
// elements depends on no order, an invocation takes an element of a window. Else an invocation owns one place of the
// window, or several (ScatterTuning::in_order_places), of a share of the groups (ScatterWindows::Update), and takes the
// updates in their order, so that no two invocations write the same element. Windows may overlap along a dimension in
// which they are longer than 1 and start anywhere. There an invocation owns the coordinates of the operand that have
// the same remainder by the window's length; every window contains exactly one of them. Many updates in order are
// spread over several dispatches, because the work of an invocation in one dispatch cannot be cut.
#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <vector>

#include "base/checked_math.h"
#include "spirv_codegen/kernels/scatter_parts.h"
#include "spirv_codegen/kernels/scatter_problem.h"
#include "spirv_codegen/kernels/scatter_words.h"

namespace krafla::spirv {
namespace {

// The updates of a turn of the loop over them, where they are short.
constexpr int64_t kUpdatesATurn = 4;
constexpr std::size_t kFewNodes = 8;  // of the combiner

// ---- An invocation for each element of each window

// The atomic operation that combines, or none.
std::optional<spv::Op> AtomicOf(const plan::ScatterKernel& s) {
  if (s.types.size() != 1) return std::nullopt;
  const bool is_signed = s.types[0] == ElementType::kS32;
  if (!is_signed && s.types[0] != ElementType::kU32) return std::nullopt;
  switch (s.combiner.kind) {
    case plan::Reduction::Kind::kSum: return spv::Op::OpAtomicIAdd;
    case plan::Reduction::Kind::kMax: return is_signed ? spv::Op::OpAtomicSMax : spv::Op::OpAtomicUMax;
    case plan::Reduction::Kind::kMin: return is_signed ? spv::Op::OpAtomicSMin : spv::Op::OpAtomicUMin;
    case plan::Reduction::Kind::kAnd: return spv::Op::OpAtomicAnd;
    case plan::Reduction::Kind::kOr: return spv::Op::OpAtomicOr;
    case plan::Reduction::Kind::kXor: return spv::Op::OpAtomicXor;
    case plan::Reduction::Kind::kProduct:
    case plan::Reduction::Kind::kComplexProduct:
    case plan::Reduction::Kind::kOther: return std::nullopt;
  }
  return std::nullopt;
}

Result<EmittedProgram> EmitApart(const ScatterProblem& p, std::optional<spv::Op> atomic, std::string variant,
                                 std::string reason) {
  KernelWriter w(p.plan, p.target);
  Builder& b = w.b;
  ScatterWindows windows(w, p.geometry);
  const int64_t items = p.window * p.batch;
  const uint32_t local = WorkgroupSize(p.target.profile, p.tuning().apart_local);
  KRAFLA_ASSIGN(Grid grid, FoldGrid(CeilDiv(items, local), p.target.profile));
  const Value item = b.Add(b.Mul(GroupNumber(b, grid), b.U32(local)), b.LocalIndex());
  b.If(b.Compare(Cmp::kULt, item, b.U32(static_cast<uint32_t>(items))), [&] {
    const Value size = b.U32(static_cast<uint32_t>(p.window)), n = b.UDiv(item, size);
    const ScatterWindows::Place place = windows.WindowPlace(b.Sub(item, b.Mul(n, size)), /*alone=*/true);
    const ScatterWindows::Update update = windows.Locate(n, {});
    const Value operand_at = b.Add(update.operand, place.operand);
    const Value update_at = b.Add(update.update, place.update);
    b.If(update.inside, [&] {
      if (!atomic) return windows.Combine(operand_at, update_at);
      w.buffers.Atomic(*atomic, p.s.outputs[0], operand_at, w.buffers.LoadWords(p.s.updates[0], update_at, 1));
    });
  });
  EmittedProgram out;
  out.kernels.push_back(w.Finish({local, 1, 1}, std::move(variant), std::move(reason)));
  out.dispatches.push_back({0, grid.size, {}});
  return out;
}

// ---- Updates in their order

// Each invocation works out where the updates lie by itself, one after the other.
Result<EmittedProgram> EmitInOrder(const ScatterProblem& p, std::string reason) {
  const Stretches stretches{p.batch};
  KernelWriter w(p.plan, p.target, {}, stretches.push_words());
  Builder& b = w.b;
  const auto u32 = [&](int64_t v) { return b.U32(static_cast<uint32_t>(v)); };
  ScatterWindows windows(w, p.geometry);
  const uint32_t local = WorkgroupSize(p.target.profile, p.tuning().in_order_local);
  const int64_t most = p.tuning().in_order_places;
  const int64_t owned = p.geometry.windows_overlap() ? 1 : std::clamp<int64_t>(CeilDiv(p.window, local), 1, most);
  const int64_t per_group = local * owned, groups = CeilDiv(p.window, per_group);
  // Shares of workgroups, where windows fill their places and share no words.
  int64_t shares = 1;
  const bool words = std::ranges::none_of(p.s.types, [](ElementType type) { return StorageBytes(type) < 4; });
  if (owned > 1 && owned == most && words)
    shares = std::bit_floor(static_cast<uint32_t>(std::max<int64_t>(p.tuning().in_order_shares / groups, 1)));
  KRAFLA_ASSIGN(Grid grid, FoldGrid(groups * shares, p.target.profile));
  Value group = GroupNumber(b, grid), own = b.U32(0);
  if (shares > 1) {
    own = b.UMod(group, u32(shares));
    group = b.UDiv(group, u32(shares));
  }
  const Value item = b.Add(b.Mul(group, u32(per_group)), b.LocalIndex());
  b.If(b.Compare(Cmp::kULt, item, u32(p.window)), [&] {
    std::vector<ScatterWindows::Place> places;
    for (int64_t k = 0; k < owned; ++k) {
      const bool within = k == 0 || p.window % per_group == 0;
      const Value element = b.Add(item, u32(k * local));
      places.push_back(windows.WindowPlace(element, /*alone=*/false));
      if (!within) places.back().there = b.Compare(Cmp::kULt, element, u32(p.window));
    }
    const Value first = stretches.First(w), end = stretches.End(b, first, u32(p.batch));
    const auto take = [&](Value n, Value is_one) {
      const ScatterWindows::Update update = windows.Locate(n, places.front().remainders);
      Value inside = is_one ? b.LAnd(update.inside, is_one) : update.inside;
      if (shares > 1) inside = b.LAnd(inside, b.Compare(Cmp::kEq, b.And(update.group, u32(shares - 1)), own));
      Values operand_at;
      for (const ScatterWindows::Place& place : places) operand_at.push_back(b.Add(update.operand, place.operand));
      b.If(inside, [&] {
        for (std::size_t k = 0; k < places.size(); ++k) {
          auto combine = [&] { windows.Combine(operand_at[k], b.Add(update.update, places[k].update)); };
          if (places[k].there) b.If(places[k].there, combine);
          else combine();
        }
      });
    };
    // Where an update is a few instructions, the turn of a loop costs as much.
    const bool is_short = owned <= 2 && p.s.combiner.combiner.nodes.size() <= kFewNodes;
    const int64_t at_once = is_short ? std::min(kUpdatesATurn, p.batch) : 1;
    b.For(first, end, u32(at_once), [&](Value n) {
      take(n, {});
      for (int64_t i = 1; i < at_once; ++i) {
        const Value next = b.Add(n, u32(i));
        take(b.Min(next, u32(p.batch - 1)), b.Compare(Cmp::kULt, next, end));
      }
    });
  });
  EmittedProgram out;
  out.kernels.push_back(w.Finish({local, 1, 1}, "scatter.in_order", std::move(reason)));
  stretches.AddDispatches(out, 0, grid);
  return out;
}

// The invocations of a workgroup work out where the updates lie for each other, a chunk of them at a time, so that each
// invocation has little to do for the updates of others' shares, of which there are many.
Result<EmittedProgram> EmitShares(const ScatterProblem& p, std::string reason) {
  const int64_t wanted =
      std::min(p.tuning().wanted_invocations / p.window, std::min(p.geometry.group_count(), p.batch));
  const int64_t shares = std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(wanted, 1)));
  const int64_t items = p.window * shares;
  const ScatterParts parts(p.plan, p.s, p.target, items);
  const bool parted = parts.count() > 1;
  EmittedProgram out;
  if (parted) {
    out.scratch_bytes.push_back(parts.Scratch()[0].element_count * StorageBytes(p.s.types[0]));
    KRAFLA_TRY(parts.AddStart(out));
  }
  const Stretches stretches{parts.length()};
  KernelWriter w(p.plan, p.target, parts.Scratch(), stretches.push_words());
  Builder& b = w.b;
  const auto u32 = [&](int64_t v) { return b.U32(static_cast<uint32_t>(v)); };
  const ScatterGeometry geometry(parts.Into());
  ScatterWindows windows(w, geometry);
  uint32_t local = std::bit_floor(WorkgroupSize(p.target.profile, p.tuning().shares_local));
  while (parted && local > p.tuning().apart_local && items <= local / 2) local /= 2;
  const int64_t groups = CeilDiv(items, local);  // of a part
  KRAFLA_ASSIGN(Grid grid, FoldGrid(groups * parts.count(), p.target.profile));
  const Value group = GroupNumber(b, grid);
  // Workgroups past the last part take it too, from no item on that there is.
  const Value part = parted ? b.Min(b.UDiv(group, u32(groups)), u32(parts.count() - 1)) : u32(0);
  // Neighbours have neighbouring elements of the window, then neighbouring shares.
  const Value item = b.Add(b.Mul(b.Sub(group, b.Mul(part, u32(groups))), b.U32(local)), b.LocalIndex());
  const Value share = b.UDiv(item, u32(p.window));
  const ScatterWindows::Place place = windows.WindowPlace(b.Sub(item, b.Mul(share, u32(p.window))), /*alone=*/true);
  // No update is of the share of those that are too many, and those that are none are of no share.
  constexpr uint32_t kNone = 0xffffffffu;
  const Id share_of = b.SharedArray(Kind::kU32, 1, local), operand = b.SharedArray(Kind::kU32, 1, local),
           update = b.SharedArray(Kind::kU32, 1, local);
  const Value begin = b.Mul(part, u32(parts.length())), copy = parts.FirstOf(b, part);
  const Value first = b.Add(begin, stretches.First(w));
  const Value end = stretches.End(b, first, b.Min(b.Add(begin, u32(parts.length())), u32(p.batch)));
  b.For(first, end, b.U32(local), [&](Value chunk) {
    const Value n = b.Add(chunk, b.LocalIndex());
    const ScatterWindows::Update u = windows.Locate(b.Min(n, u32(p.batch - 1)), {});
    const Value is_one = b.LAnd(u.inside, b.Compare(Cmp::kULt, n, end));
    b.StoreShared(share_of, b.LocalIndex(), b.Select(is_one, b.And(u.group, u32(shares - 1)), b.U32(kNone)));
    b.StoreShared(operand, b.LocalIndex(), u.operand);
    b.StoreShared(update, b.LocalIndex(), u.update);
    b.WorkgroupBarrier();
    constexpr uint32_t kAtOnce = 8;
    b.For(b.U32(0), b.U32(local), b.U32(std::min(local, kAtOnce)), [&](Value at) {
      Values of;
      for (uint32_t i = 0; i < std::min(local, kAtOnce); ++i)
        of.push_back(b.LoadShared(share_of, Kind::kU32, 1, b.Add(at, b.U32(i))));
      for (uint32_t i = 0; i < of.size(); ++i)
        b.If(b.Compare(Cmp::kEq, of[i], share), [&] {
          const Value here = b.Add(at, b.U32(i));
          const Value to = b.Add(b.LoadShared(operand, Kind::kU32, 1, here), place.operand);
          windows.Combine(b.Add(to, copy), b.Add(b.LoadShared(update, Kind::kU32, 1, here), place.update));
        });
    });
    b.WorkgroupBarrier();
  });
  const auto number = static_cast<int>(out.kernels.size());
  out.kernels.push_back(w.Finish({local, 1, 1}, parted ? "scatter.shares.part" : "scatter.shares",
                                 Format("{} shares; {}", shares, reason)));
  stretches.AddDispatches(out, number, grid);
  if (parted) KRAFLA_TRY(parts.AddJoin(out));
  return out;
}

// In order of preference.
constexpr Variant<ScatterProblem, Result<EmittedProgram>> kScatterVariants[] = {
    {"apart",
     [](const ScatterProblem& p) -> Refusal {
       if (p.batch == 1) return std::nullopt;
       if (!p.s.attributes.unique_indices) return "the indices may repeat, and updates keep their order";
       if (!p.WritesApart()) return "elements share words";
       return std::nullopt;
     },
     [](const ScatterProblem& p, std::string) { return EmitApart(p, std::nullopt, "scatter.apart", ""); }},
    {"atomic",
     [](const ScatterProblem& p) -> Refusal {
       if (!p.tuning().atomics) return "slow on this device";
       if (!AtomicOf(p.s)) return "the order matters, or no atomic operation does it";
       return std::nullopt;
     },
     [](const ScatterProblem& p, std::string refused) {
       return EmitApart(p, AtomicOf(p.s), "scatter.atomic", std::move(refused));
     }},
    {"shares",
     [](const ScatterProblem& p) -> Refusal {
       if (p.tuning().wanted_invocations == 0) return "slow on this device";
       if (p.geometry.windows_overlap()) return "windows overlap";
       if (!p.WritesApart()) return "elements share words";
       return std::nullopt;
     },
     EmitShares},
    {"words", RefusesScatterWords, EmitScatterWords},
    {"in order", nullptr, EmitInOrder},
};
static_assert(TakesEverything(kScatterVariants));

}  // namespace

Result<EmittedProgram> EmitScatter(const plan::KernelPlan& plan, const plan::ScatterKernel& s, const Target& target) {
  const DeviceProfile& profile = target.profile;
  KRAFLA_TRY(CheckProgram(s.combiner.combiner, profile));
  KRAFLA_TRY(CheckType(s.indices_type, profile));
  for (ElementType type : s.types) KRAFLA_TRY(CheckType(type, profile));
  const ScatterProblem problem{plan, s, target};
  if (problem.window * problem.batch == 0) return EmittedProgram{};
  return MakeFirst(kScatterVariants, problem);
}

}  // namespace krafla::spirv
