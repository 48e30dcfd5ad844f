// SPDX-License-Identifier: Apache-2.0
// What is the same throughout a row is computed when the row begins. A gather whose places follow each other along the
// row (a row of a table, picked by a number) is a load from where its first element lies.
#ifdef KRAFLA_HAVE_JIT

#include "cpu_fallback/native/x86_avx512.h"

namespace krafla::cpu::native {

void Avx512Emitter::EmitRowValues() {
  const std::size_t count = graph_.nodes.size();
  const std::vector<bool> is_wanted = loop_.RowNodes();  // in the order of the nodes
  is_tail_ = false;
  vector_ = 0;
  for (std::size_t i = 0; i < count; ++i)
    if (is_wanted[i] && !loop_.IsThere(i)) EmitNode(static_cast<int>(i));
  for (std::size_t i = 0; i < count; ++i) {
    if (!loop_.in_body[i] || !loop_.IsAlongRow(i)) continue;
    const LaneNode& n = graph_.nodes[i];
    const auto shift = static_cast<uint32_t>(std::countr_zero(static_cast<unsigned>(graph_.streams[n.bits].width)));
    const x86::Gp place = cc_.newInt64();
    MoveToGeneral(place, Register(n.a), 0);
    cc_.movsxd(place, place.r32());
    cc_.lea(place, x86::ptr(bases_[n.bits], place, shift));
    row_places_of_[i] = place;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (!is_wanted[i] || loop_.IsThere(i)) continue;
    if (loop_.in_body[i] && loop_.IsRowValue(i) && graph_.nodes[i].type != ElementType::kPred) fixed_[i] = true;
    else values_[0][i].is_set = false;
  }
}

void Avx512Emitter::LoadOne(int id) {
  const LaneNode& n = At(id);
  const x86::Mem from = x86::ptr(bases_[n.bits]);
  if (n.type == ElementType::kPred) {
    const x86::Gp bits = cc_.newUInt64();
    cc_.movzx(bits.r32(), x86::byte_ptr(bases_[n.bits]));
    cc_.neg(bits);
    const x86::KReg k = cc_.newKq();
    cc_.kmovq(k, bits);
    return Set(id, k);
  }
  const int width = WidthOf(n.type);
  const x86::Vec v = ValueOf(id).is_set ? ValueOf(id).v : NewVector(width);
  Emit(OfWidth(width, Inst::kIdVpbroadcastb, Inst::kIdVpbroadcastw, Inst::kIdVpbroadcastd, Inst::kIdVpbroadcastq), v,
       from);
  Set(id, v);
}

void Avx512Emitter::SetLoaded(int id, const x86::Vec& v) {
  if (At(id).type != ElementType::kPred) return Set(id, v);
  const x86::KReg k = cc_.newKq();
  Emit(Inst::kIdVptestmb, k, v, v);
  Set(id, k);
}

void Avx512Emitter::LoadAlongRow(int id) {
  const LaneNode& n = At(id);
  const int width = graph_.streams[n.bits].width;
  const auto shift = static_cast<uint32_t>(std::countr_zero(static_cast<unsigned>(width)));
  const x86::Vec v = NewVector(width);
  LoadVector(v, x86::ptr(row_places_of_[static_cast<std::size_t>(id)], index_, shift, Ahead() * width), width, n.b);
  SetLoaded(id, v);
}

}  // namespace krafla::cpu::native

#endif
