// SPDX-License-Identifier: Apache-2.0
// Rows folded into one value each, and columns, in the orders of ReduceOps (kernels/reduce_rows-inl.h), whose bits they
// keep; x86_avx512_folds.cpp says which.
#ifdef KRAFLA_HAVE_JIT

#include "cpu_fallback/native/x86_avx2.h"

namespace krafla::cpu::native {

namespace x86 = asmjit::x86;
namespace Inst = x86::Inst;
using asmjit::Imm;

void Avx2Emitter::Combine(const LaneFold& f, const Vec& to, const Vec& from) {
  const ElementType type = TypeOf(f.node);
  const bool is_wide = StorageBytes(type) == 8, adds = f.op == LaneOp::kAdd;
  if (f.op == LaneOp::kMin || f.op == LaneOp::kMax) {
    const bool is_max = f.op == LaneOp::kMax;
    Emit(Inst::kIdVmovdqa, to, IsFloat(type) ? Extremum(type, is_max, to, from) : IntExtremum(type, is_max, to, from));
  } else if (IsFloat(type)) {
    Emit(adds ? (is_wide ? Inst::kIdVaddpd : Inst::kIdVaddps) : (is_wide ? Inst::kIdVmulpd : Inst::kIdVmulps), to, to,
         from);
  } else if (adds || !is_wide) {
    Emit(!adds ? Inst::kIdVpmulld : is_wide ? Inst::kIdVpaddq : Inst::kIdVpaddd, to, to, from);
  } else {
    Emit(Inst::kIdVmovdqa, to, Product64(to, from));
  }
}

// Halves onto halves of the first `lanes` lanes, down to the first one.
x86::Vec Avx2Emitter::FoldLanes(const LaneFold& f, const Vec& v, int lanes) {
  const int width = StorageBytes(TypeOf(f.node)), whole = lanes_;
  Vec low = v;
  for (int bytes = lanes * width / 2; bytes >= width; bytes /= 2) {
    lanes_ = bytes / width;
    const Vec high = cc_.newXmm();
    if (bytes == 16) Emit(Inst::kIdVextracti128, high, low.ymm(), Imm(1));
    else Emit(Inst::kIdVpsrldq, high, low.xmm(), Imm(bytes));
    Combine(f, high, low.xmm());
    low = high;
  }
  lanes_ = whole;
  return low.xmm();
}

// The vector of the body that is being made.
void Avx2Emitter::FoldUp(std::size_t fold) {
  const LaneFold& f = graph_.folds[fold];
  const Vec v = Register(f.node);
  if (!folds_rest_) return Combine(f, Sized(folded_[fold][next_folded_ + vector_], StorageBytes(TypeOf(f.node))), v);
  const Vec lane = FoldLanes(f, v, lanes_);
  const int whole = std::exchange(lanes_, 1);
  Combine(f, row_folds_[fold], lane);
  lanes_ = whole;
}

void Avx2Emitter::StartFolds() {
  folded_.resize(graph_.folds.size());
  row_folds_.resize(graph_.folds.size());
  for (std::size_t i = 0; i < graph_.folds.size(); ++i) {
    const LaneFold& f = graph_.folds[i];
    for (Vec& v : folded_[i]) v = Load(NeutralBits(f.op, TypeOf(f.node)), StorageBytes(TypeOf(f.node)));
  }
}

void Avx2Emitter::EmitFoldedRow() {
  constexpr int kSideBySide = 4;
  const int vectors = VectorsAtOnce();
  const asmjit::Label loop = cc_.newLabel(), rest = cc_.newLabel();
  StartFolds();
  const Gp last = cc_.newInt64();
  cc_.lea(last, x86::ptr(columns_, -kSideBySide * lanes_));
  cc_.cmp(columns_, 2 * kSideBySide * lanes_);
  cc_.jl(rest);
  cc_.bind(loop);
  for (int done = 0; done < kSideBySide; done += vectors) {
    next_folded_ = static_cast<std::size_t>(done);
    Body(vectors);
    Advance(vectors * lanes_);
  }
  cc_.cmp(index_, last);
  cc_.jle(loop);
  for (std::size_t i = 0; i < graph_.folds.size(); ++i) {
    const auto& [a, b, c, d] = folded_[i];
    Combine(graph_.folds[i], a, b), Combine(graph_.folds[i], c, d), Combine(graph_.folds[i], a, c);
  }
  next_folded_ = 0;
  cc_.bind(rest);
  EmitColumns(1, lanes_);
  for (std::size_t i = 0; i < graph_.folds.size(); ++i) {
    const LaneFold& f = graph_.folds[i];
    const int width = StorageBytes(TypeOf(f.node));
    const Vec lane = FoldLanes(f, folded_[i][0], lanes_);
    row_folds_[i] = LoadBytes(x86::ptr(bases_[static_cast<std::size_t>(f.stream)]), width);
    const int whole = std::exchange(lanes_, 1);
    Combine(f, row_folds_[i], lane);
    lanes_ = whole;
  }
  folds_rest_ = true;
  const int whole = lanes_;
  for (int lanes = whole / 2; lanes > 0; lanes /= 2) EmitColumns(1, lanes);
  folds_rest_ = false;
  for (std::size_t i = 0; i < graph_.folds.size(); ++i) {
    const LaneFold& f = graph_.folds[i];
    StoreBytes(x86::ptr(bases_[static_cast<std::size_t>(f.stream)]), row_folds_[i], StorageBytes(TypeOf(f.node)));
  }
}

// Columns outside, rows inside.
void Avx2Emitter::EmitFoldedColumns() {
  for (const Gp& base : bases_) {
    starts_.push_back(cc_.newIntPtr());
    cc_.mov(starts_.back(), base);
  }
  cc_.xor_(index_, index_);
  if (const int vectors = VectorsAtOnce(); vectors > 1) EmitFoldedColumns(vectors, lanes_);
  EmitFoldedColumns(1, lanes_);
  const int whole = lanes_;
  for (int lanes = whole / 2; lanes > 0; lanes /= 2) EmitFoldedColumns(1, lanes);
}

// As many of the columns as there are left for so many vectors of so many lanes: of each vector the even rows, and
// behind those of all vectors the odd ones.
void Avx2Emitter::EmitFoldedColumns(int vectors, int lanes) {
  const asmjit::Label block = cc_.newLabel(), end = cc_.newLabel(), pair = cc_.newLabel(), done = cc_.newLabel();
  const Gp next = cc_.newInt64(), left = cc_.newInt64();
  const int whole = lanes_, count = vectors * lanes;
  cc_.bind(block);
  cc_.lea(next, x86::ptr(index_, count));
  cc_.cmp(next, columns_);
  cc_.jg(end);
  StartFolds();
  for (std::size_t s = 0; s < bases_.size(); ++s) cc_.mov(bases_[s], starts_[s]);
  const auto row = [&](int first) {
    next_folded_ = static_cast<std::size_t>(first);
    StartRow();
    for (std::size_t s = 0; s < bases_.size(); ++s) {
      if (!Runs(s)) continue;
      const Gp along = cc_.newInt64();
      cc_.imul(along, index_, graph_.streams[s].stride * graph_.streams[s].width);
      cc_.add(running_[s], along);
    }
    lanes_ = lanes;
    Body(vectors);
    lanes_ = whole;
    EndRow();
  };
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
  lanes_ = lanes;
  for (vector_ = 0; vector_ < static_cast<std::size_t>(vectors); ++vector_) {
    for (std::size_t i = 0; i < graph_.folds.size(); ++i) {
      const LaneFold& f = graph_.folds[i];
      const int width = StorageBytes(TypeOf(f.node));
      const Vec sum = Sized(folded_[i][vector_], width);
      Combine(f, sum, Sized(folded_[i][vector_ + static_cast<std::size_t>(vectors)], width));
      const Vec value = LoadBytes(Address(static_cast<std::size_t>(f.stream)), width * lanes_);
      Combine(f, value, sum);
      StoreBytes(Address(static_cast<std::size_t>(f.stream)), value, width * lanes_);
    }
  }
  vector_ = 0;
  lanes_ = whole;
  cc_.add(index_, count);
  cc_.jmp(block);
  cc_.bind(end);
}

}  // namespace krafla::cpu::native

#endif
