// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/loop_choice.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <utility>

#include "base/checked_math.h"
#include "base/index.h"
#include "base/interruption.h"
#include "cpu_fallback/executor/kernel_families.h"
#include "cpu_fallback/executor/pieces.h"

namespace krafla::cpu {

using plan::ElementProgram;
using plan::IndexId;
using plan::kNoNode;
using plan::Node;
using plan::NodeId;
using plan::NodeOp;
using plan::Store;

namespace {

// Of a plane, and of all: less is chosen element by element before a second loop has begun.
constexpr int64_t kLeastPlane = 1024, kLeastSpace = 4096;
constexpr int64_t kMostPlanes = 1024;
constexpr int kMostDepth = 2;
constexpr std::size_t kMostBuffers = 200;

// Whether a pred is made of elements. Those that are made of indices alone the loop is cut by (pieces.h), which leaves
// nothing to choose.
bool ReadsElements(const ElementProgram& program, NodeId pred) {
  std::vector<bool> needed(At(pred) + 1, false);
  needed[At(pred)] = true;
  for (std::size_t i = needed.size(); i-- > 0;) {
    if (!needed[i]) continue;
    if (program.nodes[i].op == NodeOp::kLoad) return true;
    for (NodeId o : program.nodes[i].operands)
      if (o != kNoNode) needed[At(o)] = true;
  }
  return false;
}

// The dimension along which the pred differs; -1: none. Nothing: there are several.
std::optional<int> PlaneDimOf(const ElementProgram& program, NodeId pred) {
  const uint64_t depends = program.nodes[At(pred)].depends;
  if (depends == 0) return -1;
  if ((depends & (depends - 1)) != 0) return std::nullopt;
  return std::countr_zero(depends);
}

ElementProgram WithPred(ElementProgram program, NodeId pred, bool value) {
  Node& n = program.nodes[At(pred)];
  n = {.op = NodeOp::kConstant, .type = ElementType::kPred, .bits = value ? 1U : 0U};
  return Restrict(program, -1, 0, 0);
}

// Whether a program loads fewer places than `all`, of those that are not where it stores.
bool ReadsLess(const ElementProgram& way, const ElementProgram& all) {
  const auto distant = [](const ElementProgram& p) {
    return std::ranges::count_if(p.nodes, [&](const Node& n) {
      return n.op == NodeOp::kLoad && n.depends != 0 &&
             std::ranges::none_of(p.stores, [&](const Store& s) { return s.index == n.index; });
    });
  };
  return distant(way) < distant(all);
}

// How far apart the planes of each buffer are, in bytes, where programs reach a plane by that alone: added to what is
// known of `stride`. False: they do not, or not in one way.
bool AddPlaneBytes(const ElementProgram& program, int dim, std::vector<std::optional<int64_t>>& stride) {
  const auto agrees = [&](int buffer, IndexId index, ElementType storage) {
    const plan::IndexSpace::Affine along = program.space.StrideAlong(index, dim);
    if (!along.affine) return false;
    std::optional<int64_t>& known = stride[At(buffer)];
    const int64_t bytes = along.stride * StorageBytes(storage);
    if (known && *known != bytes) return false;
    known = bytes;
    return true;
  };
  for (const Node& n : program.nodes) {
    if (n.op == NodeOp::kIndex && (program.space.Depends(n.index) >> dim & 1) != 0) return false;
    if (n.op == NodeOp::kLoad && !agrees(n.buffer, n.index, n.storage)) return false;
  }
  return std::ranges::all_of(program.stores, [&](const Store& s) { return agrees(s.buffer, s.index, s.storage); });
}

// Stores the pred of each plane in a new buffer.
ElementProgram PredProgram(const ElementProgram& program, NodeId pred, int dim, int64_t planes) {
  ElementProgram out = program;
  out.buffers.push_back({ElementType::kPred, planes, true});
  const IndexId at = dim < 0 ? out.space.Constant(0) : out.space.Iter(dim);
  out.stores = {{static_cast<int>(out.buffers.size()) - 1, at, pred, ElementType::kPred, kNoNode}};
  for (int d = 0; d < static_cast<int>(program.space.dims().size()); ++d)
    if (d != dim) out = Restrict(out, d, 0, 1);
  return out;
}

}  // namespace

Result<std::unique_ptr<LoopChoice>> LoopChoice::Make(const ElementProgram& program, int64_t runs, int depth) {
  int64_t points = 1;
  for (int64_t d : program.space.dims()) points *= d;
  if (depth >= kMostDepth || points < kLeastSpace || program.stores.empty() || !program.results.empty() ||
      program.buffers.size() > kMostBuffers)
    return nullptr;
  std::vector<NodeId> tried;
  for (const Node& n : program.nodes) {
    if (n.op != NodeOp::kHlo || n.opcode != Opcode::kSelect) continue;
    const NodeId pred = n.operands[0];
    if (program.nodes[At(pred)].op == NodeOp::kConstant || std::ranges::find(tried, pred) != tried.end()) continue;
    tried.push_back(pred);
    if (!ReadsElements(program, pred)) continue;
    const std::optional<int> dim = PlaneDimOf(program, pred);
    if (!dim) continue;
    const int64_t planes = *dim < 0 ? 1 : program.space.dims()[At(*dim)];
    if (planes > kMostPlanes || points / planes < kLeastPlane) continue;
    ElementProgram ways[2] = {WithPred(program, pred, false), WithPred(program, pred, true)};
    if (!ReadsLess(ways[0], program) && !ReadsLess(ways[1], program)) continue;
    auto out = std::make_unique<LoopChoice>();
    out->planes_ = planes;
    out->plane_bytes_.assign(program.buffers.size(), 0);
    if (*dim >= 0) {
      // What the pred alone reads has no planes.
      std::vector<std::optional<int64_t>> stride(program.buffers.size());
      if (!AddPlaneBytes(ways[0], *dim, stride) || !AddPlaneBytes(ways[1], *dim, stride)) continue;
      std::ranges::transform(stride, out->plane_bytes_.begin(), [](const auto& s) { return s.value_or(0); });
      for (ElementProgram& way : ways) way = Restrict(way, *dim, 0, 1);
    }
    for (int i : {0, 1}) {
      KRAFLA_ASSIGN(LoopRunner way, LoopRunner::Make(std::move(ways[i]), runs, depth + 1));
      out->ways_[i] = std::make_shared<const LoopRunner>(std::move(way));
    }
    KRAFLA_ASSIGN(LoopRunner preds, LoopRunner::Make(PredProgram(program, pred, *dim, planes), runs, kMostDepth));
    out->preds_ = std::make_shared<const LoopRunner>(std::move(preds));
    return out;
  }
  return nullptr;
}

int64_t LoopChoice::FrameBytes(int threads) const {
  int64_t out = preds_->scratch_bytes(threads);
  for (const auto& way : ways_) out = std::max(out, way->scratch_bytes(threads));
  return RoundUp(out, 64);
}
int64_t LoopChoice::scratch_bytes(int threads) const { return FrameBytes(threads) + RoundUp(planes_, 64); }

void LoopChoice::Run(std::span<std::byte* const> buffers, ThreadPool& pool, std::byte* scratch) const {
  std::array<std::byte*, kMostBuffers + 1> at;
  std::byte* preds = scratch;
  std::byte* frame = scratch + RoundUp(planes_, 64);
  std::ranges::copy(buffers.first(plane_bytes_.size()), at.begin());
  const std::size_t count = plane_bytes_.size();
  at[count] = preds;
  preds_->Run(std::span(at).first(count + 1), pool, frame);
  for (int64_t p = 0; p < planes_ && !IsInterrupted(); ++p) {
    ways_[preds[p] != std::byte{0} ? 1 : 0]->Run(std::span(at).first(count), pool, frame);
    for (std::size_t b = 0; b < count; ++b) at[b] += plane_bytes_[b];
  }
}

}  // namespace krafla::cpu
