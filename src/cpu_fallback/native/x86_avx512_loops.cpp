// SPDX-License-Identifier: Apache-2.0
// The loops over rows and columns, and one vector of the body.
#ifdef KRAFLA_HAVE_JIT

#include "cpu_fallback/native/x86_avx512.h"

namespace krafla::cpu::native {

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
    if (graph_.streams[s].kind == LaneStream::Kind::kUniform) continue;
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
    if (!in_body_[i] || n.op != LaneOp::kRamp) continue;
    const auto step = static_cast<uint32_t>(n.bits) * static_cast<uint32_t>(vectors * lanes_);
    const x86::Vec v = values_[0][i].v;
    Emit(Inst::kIdVpaddd, v, v, BroadcastConstant(step, 4));
  }
}

void Avx512Emitter::EmitLoops(const asmjit::Label& row_end) {
  const asmjit::Label loop = cc_.newLabel(), rest = cc_.newLabel();
  const x86::Gp last = cc_.newInt64();
  // Two vectors at a time: the processor finds more to do at once where operations wait for each other.
  const int vectors = graph_.regions.empty() && !HasManyPreds() ? kVectors : 1;
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
  for (std::size_t v = 0; v < kVectors; ++v)
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const LaneOp op = graph_.nodes[i].op;
      if (op != LaneOp::kUniform && op != LaneOp::kRow && (op != LaneOp::kRamp || v > 0) && !fixed_[i])
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
    if (i >= graph_.nodes.size() || !in_body_[i] || fixed_[i]) continue;
    UseLanesOf(id);
    for (vector_ = 0; vector_ < static_cast<std::size_t>(vectors); ++vector_) EmitNode(id);
    vector_ = 0;
  }
  for (vector_ = 0; vector_ < static_cast<std::size_t>(vectors); ++vector_)
    for (const LaneStore& s : graph_.stores) EmitStore(s);
  vector_ = 0;
}

}  // namespace krafla::cpu::native

#endif
