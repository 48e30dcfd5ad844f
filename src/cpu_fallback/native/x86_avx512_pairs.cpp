// SPDX-License-Identifier: Apache-2.0
// Sums of products of numbers that bf16 has, two rows at a time: a vector has eight columns of both rows side by side,
// so that an instruction rounds two vectors of products' factors to bf16, and another one multiplies and adds up both
// rows of sixteen columns (AVX-512-BF16). Whatever else the graph computes is computed lane by lane as ever.
#ifdef KRAFLA_HAVE_JIT

#include "cpu_fallback/native/x86_avx512_permutes.h"

namespace krafla::cpu::native {

// A number with at most the bits of a bf16's.
bool Avx512Emitter::FitsBf16(int id) const {
  const LaneNode& n = At(id);
  if (n.op == LaneOp::kRoundToBf16 || n.op == LaneOp::kByteToFloat) return true;
  if (n.op == LaneOp::kLookup) {
    const LaneTable& table = graph_.tables[n.bits];
    if (table.stream >= 0) return table.storage == ElementType::kBF16;
    return std::ranges::all_of(table.entries, [](uint32_t bits) { return (bits & 0xffff) == 0; });
  }
  if (n.op == LaneOp::kIntToFloat) {
    const LaneNode& integer = At(n.a);
    return integer.op == LaneOp::kExtend && WidthOf(TypeOf(integer.a)) == 1;
  }
  if (n.op != LaneOp::kBitcast) return false;
  const LaneNode& bits = At(n.a);
  return bits.op == LaneOp::kShl && bits.type == ElementType::kU32 && At(bits.b).op == LaneOp::kConstant &&
         At(bits.b).bits == 16;
}

// What the store's product is made of: the row's number, and the factor before it is rounded.
std::optional<Avx512Emitter::PairedProduct> Avx512Emitter::PairedProductOf(const LaneStore& s) const {
  if (!is_fused_[static_cast<std::size_t>(s.node)]) return std::nullopt;
  const LaneNode& product = At(s.node);
  for (const auto& [x, w] : {std::pair(product.a, product.b), std::pair(product.b, product.a)}) {
    if (At(x).op != LaneOp::kRow || At(w).op == LaneOp::kConstant || !FitsBf16(w)) continue;
    const bool is_rounded = At(w).op == LaneOp::kRoundToBf16 && !of_column_[static_cast<std::size_t>(w)];
    return PairedProduct{x, is_rounded ? At(w).a : w};
  }
  return std::nullopt;
}

// Once of_column_ and is_fused_ are known.
bool Avx512Emitter::CanPairRows() {
  if (!graph_.adds_pairs || lanes_ != 16 || !HasAvx512Bf16()) return false;
  // Without anything to round, products one by one cost less.
  bool rounds = false;
  paired_.clear();
  in_pairs_.assign(graph_.nodes.size(), false);
  from_column_.clear();
  const auto need = [&](int id) {
    if (id >= 0 && At(id).op != LaneOp::kConstant) in_pairs_[static_cast<std::size_t>(id)] = true;
  };
  for (const LaneStore& s : graph_.stores) {
    const std::optional<PairedProduct> product = PairedProductOf(s);
    if (!product) return false;
    rounds = rounds || (product->factor != At(s.node).a && product->factor != At(s.node).b);
    paired_.push_back(*product);
    need(product->factor);
  }
  for (std::size_t i = graph_.nodes.size(); i-- > 0;) {
    const LaneNode& n = graph_.nodes[i];
    if (!in_pairs_[i] || fixed_[i]) continue;
    if (of_column_[i]) {
      if (WidthOf(n.type) != 4) return false;
      from_column_.push_back(static_cast<int>(i));
      in_pairs_[i] = false;
      continue;
    }
    if (n.op == LaneOp::kUniform) {
      in_pairs_[i] = false;
      continue;
    }
    if (n.type == ElementType::kPred || n.op == LaneOp::kRow || n.op == LaneOp::kRamp || n.op == LaneOp::kGather ||
        n.op == LaneOp::kPhi || WidthOf(n.type) > 4 || loop_.IsRowValue(i))
      return false;
    if (n.op == LaneOp::kLoad) {
      const LaneStream& stream = graph_.streams[n.bits & 0xffffffffu];
      if (n.b >= 0 || stream.kind != LaneStream::Kind::kDense) return false;
      continue;
    }
    need(n.a), need(n.b), need(n.c);
  }
  return rounds;
}

// Of eight columns, those of the two rows in turn.
void Avx512Emitter::EmitPairLoad(int id) {
  const LaneNode& n = At(id);
  const auto stream = static_cast<std::size_t>(n.bits & 0xffffffffu);
  const int width = graph_.streams[stream].width;
  const auto shift = static_cast<uint32_t>(std::countr_zero(static_cast<unsigned>(width)));
  const auto from = [&](const x86::Gp& base, int columns) { return x86::ptr(base, index_, shift, columns * width); };
  const int column = static_cast<int>(vector_) * 8;
  if (width == 1) {
    // Sixteen bytes of each row are two vectors.
    auto& [first, second] = pair_loads_[{stream, vector_ / 2}];
    if (!first.isValid()) {
      first = cc_.newXmm(), second = cc_.newXmm();
      Emit(Inst::kIdVmovdqu32, first, from(bases_[stream], column));
      Emit(Inst::kIdVmovdqu32, second, from(seconds_[stream], column));
    }
    const x86::Vec v = cc_.newXmm();
    Emit(vector_ % 2 == 0 ? Inst::kIdVpunpcklbw : Inst::kIdVpunpckhbw, v, first, second);
    return Set(id, v);
  }
  const x86::Vec first = NewVector(width), second = NewVector(width);
  if (width == 2) {
    Emit(Inst::kIdVmovdqu32, first.xmm(), from(bases_[stream], column));
    Emit(Inst::kIdVmovdqu32, second.xmm(), from(seconds_[stream], column));
  } else {
    Emit(Inst::kIdVmovdqu32, first.ymm(), from(bases_[stream], column));
    Emit(Inst::kIdVmovdqu32, second.ymm(), from(seconds_[stream], column));
  }
  Set(id, PermuteTwo(width, first, second, [](int lane) { return lane / 2 + (lane % 2 == 1 ? 16 : 0); }));
}

// Values of columns, which were made for sixteen of them a vector, in the lanes of both rows.
void Avx512Emitter::SpreadColumnValues(int groups) {
  for (const int id : from_column_) {
    std::array<x86::Vec, kMostVectors> made;
    for (int g = 0; g < groups; ++g)
      made[static_cast<std::size_t>(g)] = values_[static_cast<std::size_t>(g)][static_cast<std::size_t>(id)].v;
    for (int v = 0; v < 2 * groups; ++v) {
      const x86::Vec spread = cc_.newZmm();
      Emit(Inst::kIdVpermd, spread, v % 2 == 0 ? low_columns_ : high_columns_, made[static_cast<std::size_t>(v / 2)]);
      vector_ = static_cast<std::size_t>(v);
      Set(id, spread);
    }
  }
  vector_ = 0;
}

// The numbers of both rows, as bf16 has them, side by side in all lanes.
x86::Vec Avx512Emitter::PairOfRows(int row_node) {
  const auto stream = static_cast<std::size_t>(At(row_node).bits);
  const x86::Gp pair = cc_.newUInt32(), second = cc_.newUInt32();
  cc_.movzx(pair, x86::word_ptr(bases_[stream], 2));
  cc_.mov(second, x86::dword_ptr(seconds_[stream]));
  cc_.and_(second, 0xffff0000u);
  cc_.or_(pair, second);
  const x86::Vec v = cc_.newZmm();
  Emit(Inst::kIdVpbroadcastd, v, pair);
  return v;
}

// The sums of sixteen columns. `rows`: the numbers of rows that are in registers already.
void Avx512Emitter::AddPairsUp(int group, std::map<int, x86::Vec>& rows) {
  for (std::size_t n = 0; n < graph_.stores.size(); ++n) {
    const PairedProduct& product = paired_[n];
    x86::Vec& row = rows[product.row];
    if (!row.isValid()) row = PairOfRows(product.row);
    const x86::Vec factors = cc_.newZmm();
    vector_ = static_cast<std::size_t>(2 * group);
    const x86::Vec low = Register(product.factor);
    ++vector_;
    const x86::Vec high = Register(product.factor);
    Emit(Inst::kIdVcvtne2ps2bf16, factors, high, low);
    // AsmJit 1.11 takes it that the instruction only writes the sum, but with a mask that it reads it too.
    EmitMasked(Inst::kIdVdpbf16ps, all_lanes_, false, sums_[static_cast<std::size_t>(group)][n], factors, row);
  }
}

void Avx512Emitter::AdvancePairs() {
  for (std::size_t s = 0; s < bases_.size(); ++s) {
    if (!seconds_[s].isValid()) continue;
    const x86::Mem stride =
        x86::ptr(streams_, static_cast<int32_t>(s * sizeof(StreamArgument) + offsetof(StreamArgument, row_stride)));
    cc_.mov(bases_[s], seconds_[s]);
    cc_.add(bases_[s], stride);
    cc_.mov(seconds_[s], bases_[s]);
    cc_.add(seconds_[s], stride);
  }
}

void Avx512Emitter::FetchPairsAhead(int columns) {
  for (const auto& [s, behind] : next_) {
    if (!seconds_[s].isValid()) continue;
    const auto shift = static_cast<uint32_t>(std::countr_zero(static_cast<unsigned>(graph_.streams[s].width)));
    for (const x86::Gp& base : {bases_[s], seconds_[s]}) {
      const x86::Gp at = cc_.newIntPtr();
      cc_.lea(at, x86::ptr(base, behind));
      for (int ahead = 0; ahead < columns * graph_.streams[s].width; ahead += 64)
        cc_.prefetcht1(x86::ptr(at, index_, shift, ahead));
    }
  }
}

// `groups` times sixteen columns of all rows, of which there is an even number.
void Avx512Emitter::EmitPairsOfColumns(int groups) {
  is_tail_ = false;
  for (std::size_t s = 0; s < bases_.size(); ++s) cc_.mov(bases_[s], starts_[s]);
  for (std::size_t g = 0; g < static_cast<std::size_t>(groups); ++g) {
    sums_[g].clear();
    for (std::size_t n = 0; n < graph_.stores.size(); ++n) {
      sums_[g].push_back(cc_.newZmm());
      Emit(Inst::kIdVpxord, sums_[g].back(), sums_[g].back(), sums_[g].back());
    }
  }
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    if (!of_column_[i]) continue;
    for (vector_ = 0; vector_ < static_cast<std::size_t>(groups); ++vector_) EmitNode(static_cast<int>(i));
    vector_ = 0;
  }
  SpreadColumnValues(groups);
  // Streams with a second row.
  seconds_.assign(bases_.size(), x86::Gp());
  const auto two_rows = [&](std::size_t s) {
    if (seconds_[s].isValid()) return;
    seconds_[s] = cc_.newIntPtr();
    cc_.mov(seconds_[s], bases_[s]);
    cc_.add(seconds_[s], x86::ptr(streams_, static_cast<int32_t>(s * sizeof(StreamArgument) +
                                                                 offsetof(StreamArgument, row_stride))));
  };
  for (const PairedProduct& p : paired_) two_rows(static_cast<std::size_t>(At(p.row).bits));
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
    if (in_pairs_[i] && graph_.nodes[i].op == LaneOp::kLoad) two_rows(graph_.nodes[i].bits & 0xffffffffu);

  const x86::Gp left = cc_.newInt64();
  cc_.mov(left, rows_);
  const asmjit::Label row = cc_.newLabel();
  cc_.bind(row);
  FetchPairsAhead(16 * groups);
  pair_loads_.clear();
  std::map<int, x86::Vec> rows;
  for (int g = 0; g < groups; ++g) {
    is_paired_ = true;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!in_pairs_[i] || fixed_[i]) continue;
      for (int half = 0; half < 2; ++half) {
        vector_ = static_cast<std::size_t>(2 * g + half);
        EmitNode(static_cast<int>(i));
      }
    }
    is_paired_ = false;
    AddPairsUp(g, rows);
  }
  vector_ = 0;
  AdvancePairs();
  cc_.sub(left, 2);
  cc_.jg(row);
  for (vector_ = 0; vector_ < static_cast<std::size_t>(groups); ++vector_) {
    for (std::size_t n = 0; n < graph_.stores.size(); ++n) {
      const x86::Mem to = Address(static_cast<std::size_t>(graph_.stores[n].stream));
      const x86::Vec sum = sums_[vector_][n];
      Emit(Inst::kIdVaddps, sum, sum, to);
      Emit(Inst::kIdVmovdqu32, to, sum);
    }
  }
  vector_ = 0;
}

// As many columns as come in sixteens.
void Avx512Emitter::EmitPairs() {
  if (!CanPairRows()) return;
  low_columns_ = Sequence(4, [](int lane) { return lane / 2; });
  high_columns_ = Sequence(4, [](int lane) { return 8 + lane / 2; });
  const x86::Gp next = cc_.newInt64();
  // A line of memory is read whole where the sums and what the columns have in common leave registers for the rest.
  constexpr std::size_t kMostRegisters = 20;
  const std::size_t registers = graph_.stores.size() + 2 * from_column_.size();
  for (const int groups : {4, 2, 1}) {
    if (groups > 1 && static_cast<std::size_t>(groups) * registers > kMostRegisters) continue;
    const asmjit::Label whole = cc_.newLabel(), rest = cc_.newLabel();
    cc_.bind(whole);
    cc_.lea(next, x86::ptr(index_, 16 * groups));
    cc_.cmp(next, columns_);
    cc_.jg(rest);
    EmitPairsOfColumns(groups);
    cc_.add(index_, 16 * groups);
    cc_.jmp(whole);
    cc_.bind(rest);
  }
  for (auto& values : values_)
    for (std::size_t i = 0; i < values.size(); ++i)
      if (in_pairs_[i] || of_column_[i]) values[i].is_set = false;
}

}  // namespace krafla::cpu::native

#endif
