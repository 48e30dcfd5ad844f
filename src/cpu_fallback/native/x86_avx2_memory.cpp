// SPDX-License-Identifier: Apache-2.0
// Accesses: dense and strided ones, under a mask or not, and elements from anywhere.
#ifdef KRAFLA_HAVE_JIT

#include "cpu_fallback/native/x86_avx2.h"

namespace krafla::cpu::native {

namespace x86 = asmjit::x86;
namespace Inst = x86::Inst;
using asmjit::Imm;
using asmjit::InstId;

x86::Mem Avx2Emitter::Address(std::size_t stream) const {
  const int width = graph_.streams[stream].width, shift = std::countr_zero(static_cast<unsigned>(width));
  return x86::ptr(bases_[stream], index_, static_cast<uint32_t>(shift), Ahead() * width);
}

// A vector whose first bytes are those in memory. Lengths that no move has are moved in parts, no byte of them twice:
// what was stored is loaded again in the same pieces.
x86::Vec Avx2Emitter::LoadBytes(const Mem& from, int bytes) {
  if (bytes > 16) {
    const Vec v = cc_.newYmm();
    if (bytes == 32) {
      Emit(Inst::kIdVmovdqu, v, from);
      return v;
    }
    const Vec low = cc_.newXmm(), high = LoadBytes(from.cloneAdjusted(16), bytes - 16);
    Emit(Inst::kIdVmovdqu, low, from);
    Emit(Inst::kIdVinserti128, v, low.ymm(), high.xmm(), Imm(1));
    return v;
  }
  const Vec v = cc_.newXmm();
  int at = bytes == 16 ? 16 : bytes >= 8 ? 8 : bytes >= 4 ? 4 : 0;
  if (at == 0) Emit(Inst::kIdVpxor, v, v, v);
  else Emit(at == 16 ? Inst::kIdVmovdqu : at == 8 ? Inst::kIdVmovq : Inst::kIdVmovd, v, from);
  for (int size : {4, 2, 1}) {
    if (bytes - at < size) continue;
    Emit(size == 4   ? Inst::kIdVpinsrd
         : size == 2 ? Inst::kIdVpinsrw
                     : Inst::kIdVpinsrb,
         v, v, from.cloneAdjusted(at), Imm(at / size));
    at += size;
  }
  return v;
}
void Avx2Emitter::StoreBytes(const Mem& to, const Vec& v, int bytes) {
  if (bytes == 32) return Emit(Inst::kIdVmovdqu, to, v);
  if (bytes > 16) {
    const Vec high = cc_.newXmm();
    Emit(Inst::kIdVextracti128, high, v, Imm(1));
    Emit(Inst::kIdVmovdqu, to, v.xmm());
    return StoreBytes(to.cloneAdjusted(16), high, bytes - 16);
  }
  const Vec x = v.xmm();
  if (bytes == 16) return Emit(Inst::kIdVmovdqu, to, x);
  int at = bytes >= 8 ? 8 : bytes >= 4 ? 4 : 0;
  if (at > 0) Emit(at == 8 ? Inst::kIdVmovq : Inst::kIdVmovd, to, x);
  for (int size : {4, 2, 1}) {
    if (bytes - at < size) continue;
    Emit(size == 4   ? Inst::kIdVpextrd
         : size == 2 ? Inst::kIdVpextrw
                     : Inst::kIdVpextrb,
         to.cloneAdjusted(at), x, Imm(at / size));
    at += size;
  }
}

// By way of a register that is not spilled: of a vector in memory the assembler would make the move the other way, from
// memory to the vector of that number.
void Avx2Emitter::MoveToGeneral(const Gp& to, const Vec& from, int quad) {
  const Vec near = cc_.newXmm();
  Emit(Inst::kIdVmovdqa, near, from.xmm());
  if (quad == 0) Emit(Inst::kIdVmovq, to.r64(), near);
  else Emit(Inst::kIdVpextrq, to.r64(), near, Imm(quad));
}

void Avx2Emitter::LoadOne(int id) {
  const LaneNode& n = At(id);
  const int width = StorageBytes(n.type);
  const Vec v = ValueOf(id).is_set ? ValueOf(id).v : NewOf(n.type);
  Emit(width == 1   ? Inst::kIdVpbroadcastb
       : width == 2 ? Inst::kIdVpbroadcastw
       : width == 4 ? Inst::kIdVpbroadcastd
                    : Inst::kIdVpbroadcastq,
       v, x86::ptr(bases_[n.bits]));
  // All bytes are alike, so this is a mask of any width.
  if (n.type == ElementType::kPred) Emit(Inst::kIdVpcmpgtb, v, v, Load(0, mask_width_));
  Set(id, v);
}

// Of words and longer ones: 0 where the pred `mask` is false, and no access.
x86::Vec Avx2Emitter::LoadMasked(const Mem& from, int width, int mask) {
  if (lanes_ > 1) return Make(width, width == 8 ? Inst::kIdVpmaskmovq : Inst::kIdVpmaskmovd, MaskOf(mask, width), from);
  const Gp bits = cc_.newInt64();
  const asmjit::Label skip = cc_.newLabel();
  const Vec v = Load(0, width);
  MoveToGeneral(bits, MaskOf(mask, mask_width_));
  cc_.test(bits.r8(), bits.r8());
  cc_.jz(skip);
  Emit(width == 8 ? Inst::kIdVmovq : Inst::kIdVmovd, v, from);
  cc_.bind(skip);
  return v;
}
void Avx2Emitter::StoreMasked(const Mem& to, const Vec& v, int width, int mask) {
  if (lanes_ > 1) return Emit(width == 8 ? Inst::kIdVpmaskmovq : Inst::kIdVpmaskmovd, to, MaskOf(mask, width), v);
  const Gp bits = cc_.newInt64();
  const asmjit::Label skip = cc_.newLabel();
  MoveToGeneral(bits, MaskOf(mask, mask_width_));
  cc_.test(bits.r8(), bits.r8());
  cc_.jz(skip);
  StoreBytes(to, v, width);
  cc_.bind(skip);
}

void Avx2Emitter::EmitLoad(int id) {
  const LaneNode& n = At(id);
  const LaneStream& stream = graph_.streams[n.bits & 0xffffffffu];
  if (stream.kind == LaneStream::Kind::kInterleaved) return EmitPart(id);
  if (stream.kind == LaneStream::Kind::kStrided) return EmitStridedLoad(id);
  if (n.b >= 0) return Set(id, LoadMasked(Address(n.bits), stream.width, n.b));
  SetLoaded(id, LoadBytes(Address(n.bits), stream.width * lanes_));
}
void Avx2Emitter::SetLoaded(int id, const Vec& v) {
  if (TypeOf(id) != ElementType::kPred) return Set(id, v);
  SetMasks(id, Make(1, Inst::kIdVpcmpgtb, v, Load(0, 1)), 1);
}

void Avx2Emitter::EmitStore(const LaneStore& s) {
  const auto number = static_cast<std::size_t>(s.stream);
  const LaneStream& stream = graph_.streams[number];
  if (stream.kind == LaneStream::Kind::kInterleaved) return StoreParts(s);
  Vec v = Register(s.node);
  if (TypeOf(s.node) == ElementType::kPred) v = Make(1, Inst::kIdVpand, MaskOf(s.node, 1), Load(1, 1));
  if (stream.kind == LaneStream::Kind::kStrided) return StoreStrided(s, v);
  if (s.mask >= 0) return StoreMasked(Address(number), v, stream.width, s.mask);
  StoreBytes(Address(number), v, stream.width * lanes_);
}

// Of words and longer ones, put together of single loads; from(lane) says where.
template <class Function>
x86::Vec Avx2Emitter::LoadApart(int width, Function from) {
  std::vector<Vec> halves;  // of 16 bytes
  const int each = std::min(lanes_, 16 / width);
  for (int first = 0; first < lanes_; first += each) {
    const Vec x = cc_.newXmm();
    Emit(width == 8 ? Inst::kIdVmovq : Inst::kIdVmovd, x, from(first));
    for (int i = 1; i < each; ++i) {
      if (width == 8) Emit(Inst::kIdVmovhps, x, x, from(first + i));
      else Emit(Inst::kIdVpinsrd, x, x, from(first + i), Imm(i));
    }
    halves.push_back(x);
  }
  if (halves.size() == 1) return halves[0];
  const Vec v = cc_.newYmm();
  Emit(Inst::kIdVinserti128, v, halves[0].ymm(), halves[1], Imm(1));
  return v;
}

// Preds may leave no place that is there, and are for the processor's gather, which clears its mask.
void Avx2Emitter::EmitGather(int id) {
  const LaneNode& n = At(id);
  const LaneStream& stream = graph_.streams[n.bits];
  const int width = stream.width;
  const auto shift = static_cast<uint32_t>(std::countr_zero(static_cast<unsigned>(width)));
  if (row_places_[static_cast<std::size_t>(id)].isValid()) {
    const Mem from = x86::ptr(row_places_[static_cast<std::size_t>(id)], index_, shift, Ahead() * width);
    if (n.b >= 0) return Set(id, LoadMasked(from, width, n.b));
    return SetLoaded(id, LoadBytes(from, width * lanes_));
  }
  const Vec places = Register(n.a);
  if (n.b >= 0 && lanes_ > 1) {
    const Vec v = Load(0, width), mask = NewVector(width);
    Emit(Inst::kIdVmovdqa, mask, MaskOf(n.b, width));
    Emit(width == 8 ? Inst::kIdVpgatherdq : Inst::kIdVpgatherdd, v, x86::ptr(bases_[n.bits], places, shift), mask);
    return Set(id, v);
  }
  if (n.b >= 0) {
    const Gp place = cc_.newInt64();
    MoveToGeneral(place, places);
    cc_.movsxd(place, place.r32());
    return Set(id, LoadMasked(x86::ptr(bases_[n.bits], place, shift), width, n.b));
  }
  std::vector<Mem> from;
  for (int pair = 0; pair < (lanes_ + 1) / 2; ++pair) {
    Vec x = places;
    if (pair == 2) {
      x = cc_.newXmm();
      Emit(Inst::kIdVextracti128, x, places.ymm(), Imm(1));
      upper_places_ = x;
    }
    if (pair == 3) x = upper_places_;
    const Gp both = cc_.newInt64(), low = cc_.newInt64();
    MoveToGeneral(both, x, pair % 2);
    cc_.movsxd(low, both.r32());
    cc_.sar(both, 32);
    from.push_back(x86::ptr(bases_[n.bits], low, shift));
    from.push_back(x86::ptr(bases_[n.bits], both, shift));
  }
  Set(id, LoadApart(width, [&](int lane) { return from[static_cast<std::size_t>(lane)]; }));
}

void Avx2Emitter::EmitStridedLoad(int id) {
  const LaneNode& n = At(id);
  const LaneStream& stream = graph_.streams[n.bits];
  const int step = stream.stride * stream.width;
  if (n.b >= 0 && lanes_ == 1)
    return Set(id, LoadMasked(x86::ptr(running_[n.bits], Ahead() * step), stream.width, n.b));
  if (n.b >= 0) {
    std::array<int32_t, 8> at{};
    for (int i = 0; i < 8; ++i) at[static_cast<std::size_t>(i)] = i * step;
    const Vec places = NewVector(4), v = Load(0, stream.width), mask = NewVector(stream.width);
    Emit(Inst::kIdVmovdqu, places,
         cc_.newConst(asmjit::ConstPoolScope::kLocal, at.data(), static_cast<std::size_t>(std::max(16, 4 * lanes_))));
    Emit(Inst::kIdVmovdqa, mask, MaskOf(n.b, stream.width));
    Emit(stream.width == 8 ? Inst::kIdVpgatherdq : Inst::kIdVpgatherdd, v,
         x86::ptr(running_[n.bits], places, 0, Ahead() * step), mask);
    return Set(id, v);
  }
  Set(id, LoadApart(stream.width, [&](int lane) { return x86::ptr(running_[n.bits], (Ahead() + lane) * step); }));
}

void Avx2Emitter::StoreStrided(const LaneStore& s, const Vec& v) {
  const auto number = static_cast<std::size_t>(s.stream);
  const int width = graph_.streams[number].width, step = graph_.streams[number].stride * width;
  for (int lane = 0; lane < lanes_; ++lane) {
    Vec x = v.xmm();
    const int at = lane * width % 16;
    if (lane * width >= 16) {
      x = cc_.newXmm();
      Emit(Inst::kIdVextracti128, x, v.ymm(), Imm(1));
    }
    const Mem to = x86::ptr(running_[number], (Ahead() + lane) * step);
    asmjit::Label skip;
    if (s.mask >= 0) {
      skip = cc_.newLabel();
      const Vec mask = cc_.newXmm();
      const Vec all = MaskOf(s.mask, 4);
      const Gp bits = cc_.newInt64();
      if (lane >= 4) Emit(Inst::kIdVextracti128, mask, all.ymm(), Imm(1));
      else Emit(Inst::kIdVmovdqa, mask, all.xmm());
      Emit(Inst::kIdVpextrd, bits.r32(), mask, Imm(lane % 4));
      cc_.test(bits.r32(), bits.r32());
      cc_.jz(skip);
    }
    if (at == 0) Emit(width == 8 ? Inst::kIdVmovq : Inst::kIdVmovd, to, x);
    else if (width == 8) Emit(Inst::kIdVmovhps, to, x);
    else Emit(Inst::kIdVpextrd, to, x, Imm(at / 4));
    if (s.mask >= 0) cc_.bind(skip);
  }
}

}  // namespace krafla::cpu::native

#endif
