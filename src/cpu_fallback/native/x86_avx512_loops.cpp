// SPDX-License-Identifier: Apache-2.0
// The loops over rows and columns, and one vector of the body.
#ifdef KRAFLA_HAVE_JIT

#include "cpu_fallback/native/x86_avx512.h"

namespace krafla::cpu::native {

namespace {

// Of formulas, from where on their chains of operations are what a loop waits for; and how many vectors of values may
// live at once where four, or three, are computed side by side.
constexpr std::size_t kManyNodes = 56;
constexpr int kLiveInFour = 7, kLiveInThree = 10;

}  // namespace

void Avx512Emitter::StartRow() {
  for (std::size_t s = 0; s < bases_.size(); ++s) {
    if (!Runs(s)) continue;
    if (!running_[s].isValid()) running_[s] = cc_.newIntPtr();
    cc_.mov(running_[s], bases_[s]);
  }
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    if (!used_[i]) continue;
    if (graph_.nodes[i].op == LaneOp::kRow) LoadOne(static_cast<int>(i));
    if (graph_.nodes[i].op == LaneOp::kRamp) StartRamp(static_cast<int>(i));
  }
  EmitRowValues();
}

void Avx512Emitter::EndRow() {
  for (std::size_t s = 0; s < bases_.size(); ++s) {
    if (graph_.streams[s].kind == LaneStream::Kind::kUniform || graph_.streams[s].same_rows) continue;
    cc_.add(bases_[s], x86::ptr(streams_, static_cast<int32_t>(s * sizeof(StreamArgument) +
                                                               offsetof(StreamArgument, row_stride))));
  }
}

void Avx512Emitter::Advance(int vectors) {
  cc_.add(index_, vectors * lanes_);
  for (std::size_t s = 0; s < bases_.size(); ++s) {
    const LaneStream& stream = graph_.streams[s];
    if (Runs(s)) cc_.add(running_[s], vectors * lanes_ * stream.stride * stream.width);
  }
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    const LaneNode& n = graph_.nodes[i];
    if (!loop_.in_body[i] || n.op != LaneOp::kRamp || IsLevel(n)) continue;
    const auto step = static_cast<uint32_t>(n.bits) * static_cast<uint32_t>(vectors * lanes_);
    const x86::Vec v = values_[0][i].v;
    Emit(Inst::kIdVpaddd, v, v, BroadcastConstant(step, 4));
  }
}

void Avx512Emitter::EmitRows() {
  const asmjit::Label row = cc_.newLabel(), row_end = cc_.newLabel();
  cc_.bind(row);
  StartRow();
  cc_.xor_(index_, index_);
  if (!graph_.folds.empty()) {
    EmitFoldedRow();
  } else if (used_count_ <= kCopiedNodes) {
    EmitLoops(row_end);
  } else {
    EmitMaskedLoop();
  }
  cc_.bind(row_end);
  EndRow();
  cc_.dec(rows_);
  cc_.jnz(row);
}

InstId Avx512Emitter::AddOf(int node) const {
  const ElementType type = TypeOf(node);
  if (!IsFloat(type)) return Inst::kIdVpaddd;
  return WidthOf(type) == 8 ? Inst::kIdVaddpd : Inst::kIdVaddps;
}

// Loads of what is the same in all rows, and what is computed from such and from constants alone.
void Avx512Emitter::FindColumnValues() {
  const auto is_same = [&](int id) {
    return id < 0 || of_column_[static_cast<std::size_t>(id)] || At(id).op == LaneOp::kConstant ||
           At(id).op == LaneOp::kUniform;
  };
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    const LaneNode& n = graph_.nodes[i];
    if (!loop_.in_body[i] || fixed_[i] || n.type == ElementType::kPred) continue;
    if (n.op == LaneOp::kLoad) of_column_[i] = n.b < 0 && graph_.streams[n.bits & 0xffffffffu].same_rows;
    else
      of_column_[i] = n.op < LaneOp::kFixedLoad && n.op != LaneOp::kConstant && n.op != LaneOp::kUniform &&
                      n.op != LaneOp::kRow && n.op != LaneOp::kRamp && n.op != LaneOp::kPhi &&
                      n.op != LaneOp::kGather && is_same(n.a) && is_same(n.b) && is_same(n.c);
  }
}

// Products that are only added up take no instruction of their own.
void Avx512Emitter::FindFusedProducts() {
  std::vector<int> uses(graph_.nodes.size(), 0);
  for (const LaneNode& n : graph_.nodes)
    for (int o : {n.a, n.b, n.c})
      if (o >= 0) ++uses[static_cast<std::size_t>(o)];
  for (const LaneStore& s : graph_.stores) ++uses[static_cast<std::size_t>(s.node)];
  for (const LaneStore& s : graph_.stores) {
    const auto id = static_cast<std::size_t>(s.node);
    is_fused_[id] = At(s.node).op == LaneOp::kMul && IsFloat(TypeOf(s.node)) && uses[id] == 1 && loop_.in_body[id] &&
                    !fixed_[id] && !of_column_[id] && !loop_.IsRowValue(id);
  }
}

void Avx512Emitter::AddUp(std::size_t store) {
  const LaneStore& s = graph_.stores[store];
  const x86::Vec sum = sums_[vector_][store];
  if (!is_fused_[static_cast<std::size_t>(s.node)]) return Emit(AddOf(s.node), sum, sum, Register(s.node));
  const LaneNode& product = At(s.node);
  Emit(WidthOf(product.type) == 8 ? Inst::kIdVfmadd231pd : Inst::kIdVfmadd231ps, sum, Register(product.a),
       RegisterOrMemory(product.b));
}

// The rows that follow these ones are fetched into the L2 cache: many streams that each end soon are more than the
// processor foresees (kernels/gemv.cpp).
void Avx512Emitter::StartFetching() {
  for (std::size_t s = 0; s < bases_.size(); ++s) {
    const LaneStream& stream = graph_.streams[s];
    const bool is_dense = stream.kind == LaneStream::Kind::kDense && !stream.same_rows;
    const bool is_stored =
        std::ranges::any_of(graph_.stores, [&](const LaneStore& store) { return store.stream == static_cast<int>(s); });
    if (is_stored || (!is_dense && stream.kind != LaneStream::Kind::kInterleaved)) continue;
    const x86::Gp behind = cc_.newInt64();
    cc_.mov(behind, x86::ptr(streams_,
                             static_cast<int32_t>(s * sizeof(StreamArgument) + offsetof(StreamArgument, row_stride))));
    cc_.imul(behind, rows_);
    next_.emplace_back(s, behind);
  }
}
void Avx512Emitter::FetchAhead(int vectors) {
  for (const auto& [s, behind] : next_) {
    const LaneStream& stream = graph_.streams[s];
    const bool is_dense = stream.kind == LaneStream::Kind::kDense;
    const x86::Gp at = cc_.newIntPtr();
    cc_.lea(at, x86::ptr(is_dense ? bases_[s] : running_[s], behind));
    const int shift = std::countr_zero(static_cast<unsigned>(stream.width));
    for (int ahead = 0; ahead < vectors * lanes_ * stream.stride * stream.width; ahead += 64) {
      if (is_dense) cc_.prefetcht1(x86::ptr(at, index_, static_cast<uint32_t>(shift), ahead));
      else cc_.prefetcht1(x86::ptr(at, ahead));
    }
  }
}

// Columns outside, rows inside: what is added up stays in registers for as many rows as there are.
void Avx512Emitter::EmitSums() {
  RememberStarts();
  FindFusedProducts();
  StartFetching();
  cc_.xor_(index_, index_);
  EmitPairs();
  EmitColumns(HasManyPreds() ? 1 : kVectors);
}

void Avx512Emitter::RememberStarts() {
  for (const x86::Gp& base : bases_) {
    starts_.push_back(cc_.newIntPtr());
    cc_.mov(starts_.back(), base);
  }
  FindColumnValues();
}

// All rows of so many vectors of columns at a time, from those at the index on.
void Avx512Emitter::EmitColumns(int vectors) {
  const auto rows_of = [&](bool is_tail, int count) {
    if (graph_.folds_columns) EmitFoldedColumns(is_tail, count);
    else EmitSumsOfColumns(is_tail, count);
  };
  const asmjit::Label whole = cc_.newLabel(), rest = cc_.newLabel(), end = cc_.newLabel();
  const x86::Gp next = cc_.newInt64();
  cc_.bind(whole);
  cc_.lea(next, x86::ptr(index_, vectors * lanes_));
  cc_.cmp(next, columns_);
  cc_.jg(rest);
  rows_of(false, vectors);
  cc_.add(index_, vectors * lanes_);
  cc_.jmp(whole);
  cc_.bind(rest);
  cc_.cmp(index_, columns_);
  cc_.jge(end);
  const x86::Gp count = cc_.newInt64(), most = cc_.newInt64();
  cc_.mov(count, columns_);
  cc_.sub(count, index_);
  cc_.mov(most, lanes_);
  cc_.cmp(count, most);
  cc_.cmovg(count, most);
  MakeTailMask(count);
  rows_of(true, 1);
  cc_.add(index_, lanes_);
  cc_.jmp(rest);
  cc_.bind(end);
}

// Goes to the first row of the columns at the index; gives where streams that run along a row are at these.
Avx512Emitter::RunningPlaces Avx512Emitter::StartColumns(bool is_tail, int vectors) {
  for (std::size_t s = 0; s < bases_.size(); ++s) cc_.mov(bases_[s], starts_[s]);
  RunningPlaces places;
  for (std::size_t s = 0; s < bases_.size(); ++s) {
    if (!Runs(s)) continue;
    places.emplace_back(s, cc_.newInt64());
    cc_.imul(places.back().second, index_, graph_.streams[s].stride * graph_.streams[s].width);
  }
  is_tail_ = is_tail;
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    if (!of_column_[i]) continue;
    UseLanesOf(static_cast<int>(i));
    for (vector_ = 0; vector_ < static_cast<std::size_t>(vectors); ++vector_) EmitNode(static_cast<int>(i));
    vector_ = 0;
  }
  return places;
}
void Avx512Emitter::StartRowAt(const RunningPlaces& places) {
  StartRow();
  for (const auto& [stream, place] : places) cc_.add(running_[stream], place);
}

void Avx512Emitter::EmitSumsOfColumns(bool is_tail, int vectors) {
  for (std::size_t v = 0; v < static_cast<std::size_t>(vectors); ++v) {
    sums_[v].clear();
    for (const LaneStore& s : graph_.stores) {
      const x86::Vec sum = NewOf(TypeOf(s.node));
      Emit(Inst::kIdVpxord, sum, sum, sum);
      sums_[v].push_back(sum);
    }
  }
  const RunningPlaces places = StartColumns(is_tail, vectors);
  const x86::Gp left = cc_.newInt64();
  cc_.mov(left, rows_);
  const asmjit::Label row = cc_.newLabel();
  cc_.bind(row);
  StartRowAt(places);
  FetchAhead(vectors);
  Body(is_tail, vectors);
  EndRow();
  cc_.dec(left);
  cc_.jnz(row);
  for (vector_ = 0; vector_ < static_cast<std::size_t>(vectors); ++vector_) {
    for (std::size_t n = 0; n < graph_.stores.size(); ++n) {
      const LaneStore& s = graph_.stores[n];
      const int width = WidthOfNode(s.node);
      const x86::Mem to = Address(static_cast<std::size_t>(s.stream));
      const x86::Vec was = NewOf(TypeOf(s.node)), sum = sums_[vector_][n];
      LoadVector(was, to, width, -1);
      Emit(AddOf(s.node), sum, sum, was);
      if (is_tail) EmitMasked(MoveOf(width), tail_, false, to, sum);
      else Emit(Inst::kIdVmovdqu32, to, sum);
    }
  }
  vector_ = 0;
}

// The processor finds more to do at once where operations wait for each other: two vectors, or more where there are
// many operations on few values, which the registers hold.
int Avx512Emitter::VectorsAtOnce() const {
  if (!graph_.regions.empty() || HasManyPreds()) return 1;
  if (used_count_ < kManyNodes) return kVectors;
  const int live = loop_.LiveVectors(fixed_);
  return live <= kLiveInFour ? 4 : live <= kLiveInThree ? 3 : kVectors;
}

void Avx512Emitter::EmitLoops(const asmjit::Label& row_end) {
  const asmjit::Label loop = cc_.newLabel(), rest = cc_.newLabel();
  const x86::Gp last = cc_.newInt64();
  const int usual = VectorsAtOnce(), period = usual > 1 ? FindPeriodic() : 0;
  const int vectors = period > 1 ? period : usual;
  if (period > 0) EmitPeriodic(vectors);
  cc_.lea(last, x86::ptr(columns_, -vectors * lanes_));
  cc_.test(last, last);
  cc_.js(rest);
  cc_.bind(loop);
  Body(false, vectors);
  Advance(vectors);
  cc_.cmp(index_, last);
  cc_.jle(loop);
  cc_.bind(rest);
  cc_.cmp(index_, columns_);
  cc_.je(row_end);
  // A tail may begin anywhere in a period.
  periodic_.assign(graph_.nodes.size(), false);
  EmitMaskedLoop();
}

void Avx512Emitter::EmitMaskedLoop() {
  const asmjit::Label loop = cc_.newLabel();
  cc_.bind(loop);
  const x86::Gp count = cc_.newInt64(), most = cc_.newInt64();
  cc_.mov(count, columns_);
  cc_.sub(count, index_);
  cc_.mov(most, lanes_);
  cc_.cmp(count, most);
  cc_.cmovg(count, most);
  MakeTailMask(count);
  Body(true, 1);
  Advance(1);
  cc_.cmp(index_, columns_);
  cc_.jl(loop);
}

void Avx512Emitter::MakeTailMask(const x86::Gp& count) {
  const x86::Gp bits = cc_.newUInt64();
  cc_.mov(bits, -1);
  cc_.bzhi(bits, bits, count);
  tail_ = cc_.newKq();
  cc_.kmovq(tail_, bits);
  tail_count_ = count;
  part_tails_.clear();
}

// Of vector `vector` of those that hold the tail's elements.
x86::KReg Avx512Emitter::PartTail(int parts, int behind, int vector) {
  const auto [it, is_new] = part_tails_.try_emplace({parts, behind, vector});
  if (!is_new) return it->second;
  const x86::Gp left = cc_.newInt64(), limit = cc_.newInt64();
  const x86::Gp bits = cc_.newUInt64();
  cc_.imul(left, tail_count_, parts);
  cc_.sub(left, behind + vector * lanes_);
  cc_.xor_(limit.r32(), limit.r32());
  cc_.test(left, left);
  cc_.cmovs(left, limit);
  cc_.mov(limit, lanes_);
  cc_.cmp(left, limit);
  cc_.cmovg(left, limit);
  cc_.mov(bits, -1);
  cc_.bzhi(bits, bits, left);
  it->second = cc_.newKq();
  cc_.kmovq(it->second, bits);
  return it->second;
}

void Avx512Emitter::Body(bool is_tail, int vectors) {
  is_tail_ = is_tail;
  row_places_.clear();
  for (auto& all : part_vectors_)
    for (auto& loaded : all) loaded.clear();
  for (std::size_t v = 0; v < kMostVectors; ++v)
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const LaneOp op = graph_.nodes[i].op;
      if (op != LaneOp::kUniform && op != LaneOp::kRow && (op != LaneOp::kRamp || v > 0) && !fixed_[i] &&
          !of_column_[i] && !periodic_[i])
        values_[v][i].is_set = false;
    }
  std::size_t region = 0;
  asmjit::Label skip;
  bool is_inside = false;
  for (std::size_t i = 0; i <= graph_.nodes.size(); ++i) {
    const int id = static_cast<int>(i);
    if (is_inside && graph_.regions[region].end == id) {
      EndRegion(region, skip);
      is_inside = false;
      ++region;
    }
    while (!is_inside && region < graph_.regions.size() && graph_.regions[region].begin == id) {
      if (IsNeeded(region)) {
        skip = BeginRegion(region);
        is_inside = true;
        break;
      }
      ++region;
    }
    if (i >= graph_.nodes.size() || !loop_.in_body[i] || fixed_[i] || of_column_[i] || is_fused_[i] || periodic_[i])
      continue;
    UseLanesOf(id);
    for (vector_ = 0; vector_ < static_cast<std::size_t>(vectors); ++vector_) EmitNode(id);
    vector_ = 0;
  }
  for (vector_ = 0; vector_ < static_cast<std::size_t>(vectors); ++vector_) {
    for (std::size_t n = 0; n < graph_.stores.size(); ++n) {
      const LaneStore& s = graph_.stores[n];
      if (!graph_.adds_rows) EmitStore(s);
      else AddUp(n);
    }
    for (std::size_t f = 0; f < graph_.folds.size(); ++f) FoldUp(f);
  }
  vector_ = 0;
}

}  // namespace krafla::cpu::native

#endif
