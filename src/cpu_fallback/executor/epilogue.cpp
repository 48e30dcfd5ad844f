// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/epilogue.h"

#include <array>

#include "base/checked_math.h"

namespace krafla::cpu {

using plan::ElementProgram;
using plan::IndexId;
using plan::kNoNode;
using plan::Node;
using plan::NodeOp;
using plan::Store;

namespace {

IndexId RowMajorIndex(plan::IndexSpace& space) {
  std::vector<IndexId> iters;
  const Dims dims = space.dims();
  for (int d = 0; d < static_cast<int>(dims.size()); ++d) iters.push_back(space.Iter(d));
  return space.Linearize(iters, dims);
}

// Strides of an index that is affine in all dimensions.
std::optional<Dims> AffineStrides(const plan::IndexSpace& space, IndexId index) {
  Dims strides(space.dims().size(), 0);
  for (const plan::IndexTerm& t : space.expr(index).terms) {
    const plan::IndexAtom& a = space.atom(t.atom);
    if (a.kind != plan::IndexAtom::Kind::kIter) return std::nullopt;
    strides[static_cast<std::size_t>(a.iter)] = t.coefficient;
  }
  return strides;
}

// A program that stores the sum, rounded at the most, and does nothing else.
std::optional<Epilogue::Direct> FindDirect(const ElementProgram& p, ElementType sum_type) {
  if (p.stores.size() != 1 || p.stores[0].mask != kNoNode) return std::nullopt;
  const Store& store = p.stores[0];
  const Node* n = &p.nodes[static_cast<std::size_t>(store.node)];
  if (n->op == NodeOp::kRound || n->op == NodeOp::kWrap) {
    if (n->storage != store.storage) return std::nullopt;
    n = &p.nodes[static_cast<std::size_t>(n->operands[0])];
  }
  if (n->op != NodeOp::kParam || n->type != sum_type) return std::nullopt;
  std::optional<Dims> strides = AffineStrides(p.space, store.index);
  if (!strides) return std::nullopt;
  return Epilogue::Direct{store.buffer, store.storage, p.space.expr(store.index).constant, *strides};
}

}  // namespace

Result<Epilogue> Epilogue::Make(const ElementProgram& program, ElementType sum_type, std::span<const int64_t> dims,
                                int64_t runs) {
  Epilogue out;
  out.buffers_ = program.buffers;
  if (Product(program.space.dims()) != Product(dims))
    return Internal("An epilogue over {} points follows {} sums.", Product(program.space.dims()), Product(dims));
  if (std::span<const int64_t>(program.space.dims()).size() == dims.size()) out.direct_ = FindDirect(program, sum_type);
  // Otherwise the sums are one more buffer that is read.
  ElementProgram loop = program;
  const int sums = static_cast<int>(loop.buffers.size());
  loop.buffers.push_back({sum_type, Product(dims), false});
  const IndexId index = RowMajorIndex(loop.space);
  std::vector<bool> stores_sums(loop.buffers.size(), false);
  for (Node& n : loop.nodes) {
    if (n.op == NodeOp::kParam) {
      n.op = NodeOp::kLoad;
      n.storage = sum_type;
      n.buffer = sums;
      n.index = index;
      n.bits = 0;
    }
  }
  plan::SetDepends(loop);
  // A buffer that is written once, at the place of the sum itself, and never read.
  for (const Store& store : loop.stores) {
    if (store.mask != kNoNode || store.storage != sum_type || store.index != index) continue;
    bool only = true;
    for (const Store& other : loop.stores) only = only && (&other == &store || other.buffer != store.buffer);
    for (const Node& n : loop.nodes) only = only && (n.op != NodeOp::kLoad || n.buffer != store.buffer);
    if (only && loop.buffers[static_cast<std::size_t>(store.buffer)].element_count == Product(dims)) {
      out.in_place_ = store.buffer;
      break;
    }
  }
  KRAFLA_ASSIGN(out.runner_, LoopRunner::Make(std::move(loop), runs));
  return out;
}

bool Epilogue::SharesMemory(std::span<std::byte* const> bindings, int binding) const {
  auto bytes = [&](std::size_t b) { return buffers_[b].element_count * StorageBytes(buffers_[b].storage); };
  const auto self = static_cast<std::size_t>(binding);
  const std::byte* begin = bindings[self];
  const std::byte* end = begin + bytes(self);
  for (std::size_t b = 0; b < buffers_.size(); ++b) {
    if (b == self || bytes(b) == 0) continue;
    if (bindings[b] < end && begin < bindings[b] + bytes(b)) return true;
  }
  return false;
}

void Epilogue::Run(std::span<std::byte* const> bindings, std::byte* sums, ThreadPool& pool, std::byte* scratch) const {
  KRAFLA_CHECK(bindings.size() < 255);
  std::array<std::byte*, 256> all;
  std::copy(bindings.begin(), bindings.end(), all.begin());
  all[bindings.size()] = sums;
  runner_.Run(std::span<std::byte* const>(all.data(), bindings.size() + 1), pool, scratch);
}

}  // namespace krafla::cpu
