// SPDX-License-Identifier: Apache-2.0
#include "plan/rows/row_sums.h"

#include <algorithm>
#include <numeric>

#include "base/checked_math.h"
#include "plan/arena.h"
#include "plan/collapse.h"
#include "plan/rebind.h"
#include "plan/touched.h"

namespace krafla::plan {
namespace {

constexpr int64_t kPartsWanted = 8;  // that run side by side

std::size_t SumAt(int64_t i) { return static_cast<std::size_t>(i); }

int64_t SumElements(const DotKernel& dot) { return Product(dot.batch) * dot.m * dot.n; }

// How far the sums go on along a free dimension: 0 where that is contracted.
int64_t StrideOfSums(const DotKernel& dot, std::size_t dim) {
  return dot.epilogue.space.StrideAlong(dot.epilogue.stores[0].index, static_cast<int>(dim)).stride;
}

// The contracted elements of the digits in front of `apart`.
int64_t PartsOf(const DigitMember& member, std::size_t apart) {
  const auto& dot = std::get<DotKernel>(member.kernel.body);
  int64_t out = 1;
  for (std::size_t f = 0; f < dot.batch.size(); ++f)
    if (member.digits[f] >= 0 && SumAt(member.digits[f]) < apart && StrideOfSums(dot, f) == 0) out *= dot.batch[f];
  return out;
}

// The bytes of all sums.
int64_t BytesOfSums(std::span<const RowChainMember> members, const Dims& digits, std::size_t apart) {
  int64_t out = 0;
  for (const RowChainMember& m : members) {
    if (!m.is_sum) continue;
    const int64_t parts = PartsOf(IntoDigits(m, digits), apart);
    out = SaturatedAdd(out, SaturatedMultiply(parts, m.kernel.bindings.back().byte_size()));
  }
  return out;
}

}  // namespace

std::optional<KernelPlan> SumOverRows(const KernelPlan& kernel) {
  const auto* whole = std::get_if<DotKernel>(&kernel.body);
  if (whole == nullptr || whole->computes_lhs() || whole->computes_rhs() ||
      whole->accumulate_type != ElementType::kF32 || whole->k <= 1 || whole->m <= 1)
    return std::nullopt;
  KernelPlan out = kernel;
  auto& dot = std::get<DotKernel>(out.body);
  const Dims kept = dot.batch;
  dot.batch.push_back(dot.k);
  dot.lhs_batch_strides.push_back(dot.lhs_k_stride);
  dot.rhs_batch_strides.push_back(dot.rhs_k_stride);
  dot.k = 1;
  dot.result_type = ElementType::kF32;
  Dims dims = dot.batch;
  dims.push_back(dot.m), dims.push_back(dot.n);
  ProgramBuilder builder(dims);
  for (const Binding& b : out.bindings) builder.AddBuffer(b.storage, b.element_count, b.written);
  const int64_t elements = Product(kept) * dot.m * dot.n;
  out.bindings.push_back({ElementType::kF32, elements, true, true});
  const int sums = builder.AddBuffer(ElementType::kF32, elements, true);
  IndexId index = 0;
  uint64_t depends = 0;
  int64_t stride = elements;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    depends |= uint64_t{1} << d;
    if (d == kept.size()) continue;
    stride /= dims[d];
    index = builder.space().Add(index, builder.space().Mul(builder.space().Iter(static_cast<int>(d)), stride));
  }
  const NodeId before = builder.Load(sums, ElementType::kF32, index);
  const NodeId sum =
      builder.Hlo(Opcode::kAdd, ElementType::kF32, {before, builder.Param(ElementType::kF32, 0, depends)});
  builder.AddStore({sums, index, sum, ElementType::kF32, kNoNode});
  dot.epilogue = std::move(builder).Finish();
  return out;
}

RowSumParts ChooseParts(const RowChain& chain, const RowBlocks& blocks, int64_t saved) {
  RowSumParts out{chain.Digits(), blocks, 0};
  if (std::ranges::none_of(chain.members(), &RowChainMember::is_sum)) return out;
  int64_t places = 1;
  while (out.apart < blocks.digit && places < kPartsWanted) places *= out.digits[out.apart++];
  const int64_t extent = out.digits[blocks.digit];
  if (places < kPartsWanted && extent % blocks.part == 0) {
    // Runs of blocks.
    const int64_t most = CeilDiv(kPartsWanted, places), in_blocks = extent / blocks.part;
    int64_t runs = 1;
    for (int64_t r = 2; r <= most; ++r)
      if (in_blocks % r == 0) runs = r;
    if (runs > 1 && runs < in_blocks) {
      Dims split = out.digits;
      split[blocks.digit] = extent / runs;
      split.insert(split.begin() + static_cast<std::ptrdiff_t>(blocks.digit), runs);
      if (BytesOfSums(chain.members(), split, blocks.digit + 1) <= saved / RowSumMembers::kShareOfSaved) {
        out.digits = split, out.apart = blocks.digit + 1;
        ++out.blocks.digit;
      }
    }
  }
  while (out.apart > 0 && BytesOfSums(chain.members(), out.digits, out.apart) > saved / RowSumMembers::kShareOfSaved)
    --out.apart;
  return out;
}

RowSumMembers PartSums(std::span<const RowChainMember> members, const RowSumParts& parts) {
  Dims unit(parts.digits.size(), 1);
  for (std::size_t d = parts.digits.size(); d-- > 1;) unit[d - 1] = unit[d] * parts.digits[d];
  RowSumMembers out;
  for (const RowChainMember& m : members) {
    RowChainMember parted = m;
    out.parts.push_back(0);
    if (m.is_sum) {
      DigitMember in_digits = IntoDigits(m, parts.digits);
      out.parts.back() = PartsOf(in_digits, parts.apart);
      auto& dot = std::get<DotKernel>(in_digits.kernel.body);
      Binding& sums = in_digits.kernel.bindings.back();
      int64_t stride = sums.element_count;
      sums.element_count *= out.parts.back();
      ElementProgram& p = dot.epilogue;
      p.buffers.back().element_count = sums.element_count;
      IndexId index = p.stores[0].index;
      for (std::size_t f = dot.batch.size(); f-- > 0;) {
        const int digit = in_digits.digits[f];
        if (digit < 0 || SumAt(digit) >= parts.apart || StrideOfSums(dot, f) != 0) continue;
        index = p.space.Add(index, p.space.Mul(p.space.Iter(static_cast<int>(f)), stride));
        stride *= dot.batch[f];
      }
      p.stores[0].index = index;
      for (Node& n : p.nodes)
        if (n.op == NodeOp::kLoad) n.index = index;
      SetDepends(p);
      parted.kernel = std::move(in_digits.kernel);
      parted.units.clear();
      for (int d : in_digits.digits) parted.units.push_back(d < 0 ? 0 : unit[SumAt(d)]);
    }
    out.members.push_back(std::move(parted));
  }
  return out;
}

int64_t RowSumMembers::bytes() const {
  int64_t out = 0;
  for (const RowChainMember& m : members)
    if (m.is_sum) out = SaturatedAdd(out, RoundUp(m.kernel.bindings.back().byte_size(), kArenaAlignment));
  return out;
}

bool AddRowsTogether(KernelPlan& block) {
  auto* dot = std::get_if<DotKernel>(&block.body);
  Dims free;
  std::vector<DimImage> images(dot->batch.size() + 1);
  int64_t depth = 1, lhs = 0, rhs = 0;
  for (std::size_t d = dot->batch.size(); d-- > 0;) {
    if (dot->batch[d] == 1 || StrideOfSums(*dot, d) != 0) continue;
    if (depth == 1) lhs = dot->lhs_batch_strides[d], rhs = dot->rhs_batch_strides[d];
    else if (dot->lhs_batch_strides[d] != depth * lhs || dot->rhs_batch_strides[d] != depth * rhs) return false;
    depth *= dot->batch[d];
  }
  for (std::size_t d = 0; d < dot->batch.size(); ++d) {
    if (dot->batch[d] == 1 || StrideOfSums(*dot, d) == 0) continue;
    images[d] = DimImage::Of(static_cast<int>(free.size()));
    free.push_back(dot->batch[d]);
  }
  images.back() = DimImage::Of(static_cast<int>(free.size()));
  free.push_back(dot->m);
  block = ReindexFree(block, free, images);
  dot = std::get_if<DotKernel>(&block.body);
  dot->k = depth;
  dot->lhs_k_stride = lhs, dot->rhs_k_stride = rhs;
  block.bytes = BytesMoved(block);
  return true;
}

KernelPlan ZeroSums(int64_t elements) {
  KernelPlan out;
  out.name = "zero_sums";
  out.bindings = {{ElementType::kF32, elements, false, true}};
  const Dims dims{elements};
  ProgramBuilder builder(dims);
  builder.AddBuffer(ElementType::kF32, elements, true);
  builder.AddStore({0, builder.space().Iter(0), builder.ConstantFloat(ElementType::kF32, 0), ElementType::kF32});
  out.body = LoopKernel{std::move(builder).Finish()};
  out.bytes = BytesMoved(out);
  return out;
}

KernelPlan FinishSums(const KernelPlan& whole, int64_t parts, std::vector<int>& bindings) {
  const KernelPlan own = WithOwnDims(whole);
  const auto& dot = std::get<DotKernel>(own.body);
  const int64_t elements = SumElements(dot);
  ElementProgram p = dot.epilogue;
  const auto sums = static_cast<int>(p.buffers.size());
  p.buffers.push_back({ElementType::kF32, elements * parts, false});
  std::vector<IndexId> at;
  const Dims dims = p.space.dims();
  for (std::size_t d = 0; d < dims.size(); ++d) at.push_back(p.space.Iter(static_cast<int>(d)));
  const IndexId linear = p.space.Linearize(at, dims);
  // The parts and their sum come before the nodes of the epilogue, whose param they are.
  std::vector<Node> nodes;
  for (int64_t part = 0; part < parts; ++part) {
    Node load{.op = NodeOp::kLoad, .type = ElementType::kF32, .storage = ElementType::kF32};
    load.buffer = sums, load.index = p.space.AddConstant(linear, part * elements);
    nodes.push_back(load);
    if (part == 0) continue;
    Node add{.op = NodeOp::kHlo, .opcode = Opcode::kAdd, .type = ElementType::kF32, .storage = ElementType::kF32};
    const auto last = static_cast<NodeId>(nodes.size()) - 1;
    add.operands = {last - 1, last, kNoNode};
    nodes.push_back(add);
  }
  const auto first = static_cast<NodeId>(nodes.size());
  std::vector<int> moved(p.nodes.size());
  std::iota(moved.begin(), moved.end(), first);
  for (std::size_t n = 0; n < p.nodes.size(); ++n)
    if (p.nodes[n].op == NodeOp::kParam) moved[n] = first - 1;
  const auto now = [&](NodeId id) { return id == kNoNode ? kNoNode : moved[SumAt(id)]; };
  for (Node n : p.nodes) {
    for (NodeId& o : n.operands) o = now(o);
    n.mask = now(n.mask);
    // Nothing reads the param any more.
    if (n.op == NodeOp::kParam) n = {.op = NodeOp::kConstant, .type = n.type};
    nodes.push_back(n);
  }
  for (Store& s : p.stores) s.node = now(s.node), s.mask = now(s.mask);
  p.space.RenumberNodes(moved);
  p.nodes = std::move(nodes);
  SetDepends(p);
  // The bindings that are left.
  KernelPlan out;
  out.name = whole.name;
  std::vector<int> to(p.buffers.size(), 0);
  const auto use = [&](int buffer, bool is_store) {
    auto found = std::ranges::find(bindings, buffer == sums ? -1 : buffer);
    if (found == bindings.end()) {
      bindings.push_back(buffer == sums ? -1 : buffer);
      const ProgramBuffer& b = p.buffers[SumAt(buffer)];
      out.bindings.push_back({b.storage, b.element_count, false, false});
      found = bindings.end() - 1;
    }
    const auto number = found - bindings.begin();
    to[SumAt(buffer)] = static_cast<int>(number);
    (is_store ? out.bindings[SumAt(number)].written : out.bindings[SumAt(number)].read) = true;
  };
  const std::vector<bool> needed = NeededNodes(p);
  for (std::size_t n = 0; n < p.nodes.size(); ++n)
    if (p.nodes[n].op == NodeOp::kLoad && needed[n]) use(p.nodes[n].buffer, false);
  for (const Store& s : p.stores) use(s.buffer, true);
  DropUnneededNodes(p);
  ElementProgram* programs[] = {&p};
  CollapseTogether(programs);
  std::vector<ProgramBuffer> buffers;
  for (const Binding& b : out.bindings) buffers.push_back({b.storage, b.element_count, b.written});
  out.body = LoopKernel{std::move(p)};
  Rebind(out.body, to, buffers);
  out.bytes = BytesMoved(out);
  return out;
}

}  // namespace krafla::plan
