// SPDX-License-Identifier: Apache-2.0
// Rows folded into one value each, in the order of ReduceOps::rows (kernels/reduce_rows-inl.h), whose bits they keep:
// four vectors side by side, then one after the other, then halves of the lanes, then what is left of the row in
// vectors of half the length, a quarter, and so on. And columns, in the order of ReduceOps::columns: even rows and odd
// ones.
#ifdef KRAFLA_HAVE_JIT

#include "cpu_fallback/native/x86_avx512.h"

namespace krafla::cpu::native {

void Avx512Emitter::Combine(const LaneFold& f, const x86::Vec& to, const x86::Vec& from) {
  const ElementType type = TypeOf(f.node);
  const bool is_wide = WidthOf(type) == 8, is_float = IsFloat(type), is_signed = IsSigned(type);
  const bool is_max = f.op == LaneOp::kMax;
  const InstId add = is_wide ? Inst::kIdVaddpd : Inst::kIdVaddps;
  if (f.op == LaneOp::kAdd) return Emit(is_float ? add : is_wide ? Inst::kIdVpaddq : Inst::kIdVpaddd, to, to, from);
  if (f.op == LaneOp::kMul) {
    const InstId floats = is_wide ? Inst::kIdVmulpd : Inst::kIdVmulps;
    return Emit(is_float ? floats : is_wide ? Inst::kIdVpmullq : Inst::kIdVpmulld, to, to, from);
  }
  if (!is_float) {
    const InstId s =
        is_max ? (is_wide ? Inst::kIdVpmaxsq : Inst::kIdVpmaxsd) : (is_wide ? Inst::kIdVpminsq : Inst::kIdVpminsd);
    const InstId u =
        is_max ? (is_wide ? Inst::kIdVpmaxuq : Inst::kIdVpmaxud) : (is_wide ? Inst::kIdVpminuq : Inst::kIdVpminud);
    return Emit(is_signed ? s : u, to, to, from);
  }
  // Of a NaN and a number VRANGE gives the number; their sum is a NaN. As EmitExtremum but for which NaN, which whoever
  // has the fold settles.
  const x86::KReg k = CompareFloats(WidthOf(type), FloatCompare::kUnordered, to, from);
  const x86::Vec sum = to.size() == 64   ? x86::Vec(cc_.newZmm())
                       : to.size() == 32 ? x86::Vec(cc_.newYmm())
                                         : x86::Vec(cc_.newXmm());
  Emit(add, sum, to, from);
  Emit(is_wide ? Inst::kIdVrangepd : Inst::kIdVrangeps, to, to, from, Imm(is_max ? 5 : 4));
  EmitMasked(is_wide ? Inst::kIdVmovapd : Inst::kIdVmovaps, k, false, to, sum);
}

// Halves onto halves of the first `lanes` lanes, down to the first one.
x86::Vec Avx512Emitter::FoldLanes(const LaneFold& f, const x86::Vec& v, int lanes) {
  x86::Vec low = v;
  for (int bytes = lanes * WidthOfNode(f.node) / 2; bytes >= WidthOfNode(f.node); bytes /= 2) {
    x86::Vec high = bytes == 32 ? x86::Vec(cc_.newYmm()) : x86::Vec(cc_.newXmm());
    if (bytes == 32) Emit(Inst::kIdVextracti64x4, high, low, Imm(1));
    else if (bytes == 16) Emit(Inst::kIdVextracti32x4, high, low.ymm(), Imm(1));
    else Emit(Inst::kIdVpsrldq, high, low.xmm(), Imm(bytes));
    Combine(f, high, bytes == 32 ? x86::Vec(low.ymm()) : x86::Vec(low.xmm()));
    low = high;
  }
  return low.xmm();
}

// The vector of the body that is being made.
void Avx512Emitter::FoldUp(std::size_t fold) {
  const LaneFold& f = graph_.folds[fold];
  if (is_tail_ && !graph_.folds_columns) FoldTail(f, row_folds_[fold]);
  else Combine(f, folded_[fold][next_folded_ + vector_], Register(f.node));
}

// The first tail_count_ lanes: the largest power of two of them first.
void Avx512Emitter::FoldTail(const LaneFold& f, const x86::Vec& sum) {
  const x86::Vec rest = NewOf(TypeOf(f.node));
  Emit(Inst::kIdVmovdqa32, rest, Register(f.node));
  for (int lanes = lanes_ / 2; lanes > 0; lanes /= 2) {
    const asmjit::Label skip = cc_.newLabel();
    cc_.test(tail_count_.r32(), lanes);
    cc_.jz(skip);
    Combine(f, sum, FoldLanes(f, rest, lanes));
    const int bytes = lanes * WidthOfNode(f.node);
    if (bytes == 32) Emit(Inst::kIdVextracti64x4, rest.ymm(), rest, Imm(1));
    else if (bytes == 16) Emit(Inst::kIdVextracti32x4, rest.xmm(), rest.ymm(), Imm(1));
    else if (lanes > 1) Emit(Inst::kIdVpsrldq, rest.xmm(), rest.xmm(), Imm(bytes));
    cc_.bind(skip);
  }
}

void Avx512Emitter::StartFolds() {
  folded_.resize(graph_.folds.size());
  for (std::size_t i = 0; i < graph_.folds.size(); ++i) {
    const LaneFold& f = graph_.folds[i];
    for (x86::Vec& v : folded_[i]) v = LoadConstant(NeutralBits(f.op, TypeOf(f.node)), WidthOfNode(f.node));
  }
}

void Avx512Emitter::EmitFoldedRow() {
  constexpr int kSideBySide = 4;
  const asmjit::Label loop = cc_.newLabel(), rest = cc_.newLabel(), rest_end = cc_.newLabel(), end = cc_.newLabel();
  const int vectors = graph_.regions.empty() && !HasManyPreds() ? kVectors : 1;
  StartFolds();
  row_folds_.resize(graph_.folds.size());
  const x86::Gp last = cc_.newInt64();
  cc_.lea(last, x86::ptr(columns_, -kSideBySide * lanes_));
  cc_.cmp(columns_, 2 * kSideBySide * lanes_);
  cc_.jl(rest);
  cc_.bind(loop);
  for (int done = 0; done < kSideBySide; done += vectors) {
    next_folded_ = static_cast<std::size_t>(done);
    Body(false, vectors);
    Advance(vectors);
  }
  cc_.cmp(index_, last);
  cc_.jle(loop);
  for (std::size_t i = 0; i < graph_.folds.size(); ++i) {
    const auto& [a, b, c, d] = folded_[i];
    Combine(graph_.folds[i], a, b), Combine(graph_.folds[i], c, d), Combine(graph_.folds[i], a, c);
  }
  next_folded_ = 0;
  cc_.bind(rest);
  cc_.lea(last, x86::ptr(index_, lanes_));
  cc_.cmp(last, columns_);
  cc_.jg(rest_end);
  Body(false, 1);
  Advance(1);
  cc_.jmp(rest);
  cc_.bind(rest_end);
  for (std::size_t i = 0; i < graph_.folds.size(); ++i) {
    const LaneFold& f = graph_.folds[i];
    const x86::Vec value = cc_.newXmm();
    Emit(WidthOfNode(f.node) == 8 ? Inst::kIdVmovq : Inst::kIdVmovd, value,
         x86::ptr(bases_[static_cast<std::size_t>(f.stream)]));
    Combine(f, value, FoldLanes(f, folded_[i][0], lanes_));
    row_folds_[i] = value;
  }
  cc_.cmp(index_, columns_);
  cc_.je(end);
  const x86::Gp count = cc_.newInt64();
  cc_.mov(count, columns_);
  cc_.sub(count, index_);
  MakeTailMask(count);
  Body(true, 1);
  cc_.bind(end);
  for (std::size_t i = 0; i < graph_.folds.size(); ++i) {
    const LaneFold& f = graph_.folds[i];
    Emit(WidthOfNode(f.node) == 8 ? Inst::kIdVmovq : Inst::kIdVmovd,
         x86::ptr(bases_[static_cast<std::size_t>(f.stream)]), row_folds_[i]);
  }
}

// Columns outside, rows inside.
void Avx512Emitter::EmitFoldedColumns() {
  RememberStarts();
  StartFetching();
  cc_.xor_(index_, index_);
  EmitColumns(graph_.regions.empty() && !HasManyPreds() ? kVectors : 1);
}

// Of each vector the even rows, and behind those of all vectors the odd ones.
void Avx512Emitter::EmitFoldedColumns(bool is_tail, int vectors) {
  StartFolds();
  const RunningPlaces places = StartColumns(is_tail, vectors);
  const auto row = [&](int first) {
    next_folded_ = static_cast<std::size_t>(first);
    StartRowAt(places);
    FetchAhead(vectors);
    Body(is_tail, vectors);
    EndRow();
  };
  const asmjit::Label pair = cc_.newLabel(), done = cc_.newLabel();
  const x86::Gp left = cc_.newInt64();
  cc_.mov(left, rows_);
  cc_.bind(pair);
  row(0);
  row(vectors);
  cc_.sub(left, 2);
  cc_.cmp(left, 2);
  cc_.jge(pair);
  cc_.test(left, left);
  cc_.jz(done);
  row(0);
  cc_.bind(done);
  is_tail_ = is_tail;
  for (vector_ = 0; vector_ < static_cast<std::size_t>(vectors); ++vector_) {
    for (std::size_t i = 0; i < graph_.folds.size(); ++i) {
      const LaneFold& f = graph_.folds[i];
      const int width = WidthOfNode(f.node);
      const x86::Mem to = Address(static_cast<std::size_t>(f.stream));
      const x86::Vec value = NewOf(TypeOf(f.node)), sum = folded_[i][vector_];
      Combine(f, sum, folded_[i][vector_ + static_cast<std::size_t>(vectors)]);
      LoadVector(value, to, width, -1);
      Combine(f, value, sum);
      if (is_tail) EmitMasked(MoveOf(width), tail_, false, to, value);
      else Emit(Inst::kIdVmovdqu32, to, value);
    }
  }
  vector_ = 0;
}

}  // namespace krafla::cpu::native

#endif
