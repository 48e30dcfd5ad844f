// SPDX-License-Identifier: Apache-2.0
// Elements from anywhere, by single loads: several times as fast as the processor's gathers (Zen 4). And what routines
// have beside lane-wise operations: accesses to fixed places, and single lanes of vectors. What is stored and loaded
// again in the next turn should be so in the same pieces, or the processor waits for the store: masked moves are for
// lengths that no other move has.
#ifdef KRAFLA_HAVE_JIT

#include "cpu_fallback/native/x86_avx512.h"
#include "cpu_fallback/native/x86_places.h"

namespace krafla::cpu::native {

// `lanes_` elements, put together of single loads: four lanes at a time by `from`, which is told the number of four.
template <class Function>
void Avx512Emitter::LoadApart(const x86::Vec& v, int width, Function from) {
  std::vector<x86::Vec> parts;  // of 16 bytes
  for (int four = 0; four < lanes_ / 4; ++four) {
    const std::array<x86::Mem, 4> at = from(four);
    if (width == 4) {
      const x86::Vec x = cc_.newXmm();
      Emit(Inst::kIdVmovd, x, at[0]);
      for (int i = 1; i < 4; ++i) Emit(Inst::kIdVpinsrd, x, x, at[static_cast<std::size_t>(i)], Imm(i));
      parts.push_back(x);
      continue;
    }
    for (std::size_t i = 0; i < 4; i += 2) {
      const x86::Vec x = cc_.newXmm();
      Emit(Inst::kIdVmovq, x, at[i]);
      Emit(Inst::kIdVmovhps, x, x, at[i + 1]);
      parts.push_back(x);
    }
  }
  for (std::size_t p = 0; p + 1 < parts.size(); p += 2) {
    const x86::Vec two = cc_.newYmm();
    Emit(Inst::kIdVinserti32x4, two, parts[p].ymm(), parts[p + 1], Imm(1));
    parts[p / 2] = two;
  }
  if (parts.size() == 2) return void(Emit(Inst::kIdVmovdqa32, v, parts[0]));
  Emit(Inst::kIdVinserti64x4, v, parts[0].zmm(), parts[1], Imm(1));
}

// Lanes behind the last element take the first one's place. Preds may leave none, and are for the processor's gather.
void Avx512Emitter::EmitGather(int id) {
  const LaneNode& n = At(id);
  if (row_places_of_[static_cast<std::size_t>(id)].isValid()) return LoadAlongRow(id);
  const int width = WidthOf(n.type);
  const x86::Vec v = NewVector(width);
  x86::Vec places = Register(n.a);
  if (n.b >= 0 || lanes_ < 8) {
    GatherVector(v, Indexed(bases_[n.bits], places, width == 8 ? 3 : 2), width, n.b);
    return Set(id, v);
  }
  if (is_tail_) {
    const x86::Vec first = NewVector(4), safe = NewVector(4);
    Emit(Inst::kIdVpbroadcastd, first, places.xmm());
    Blend(safe, tail_, 4, first, places);
    places = safe;
  }
  const uint32_t shift = width == 8 ? 3 : 2;
  LoadApart(v, width, [&](int four) {
    x86::Vec x = places.xmm();
    if (four > 0) {
      x = cc_.newXmm();
      Emit(Inst::kIdVextracti32x4, x, places, Imm(four));
    }
    std::array<x86::Mem, 4> out;
    for (int pair = 0; pair < 2; ++pair) {
      const x86::Gp both = cc_.newInt64(), low = cc_.newInt64();
      MoveToGeneral(both, x, pair);
      cc_.movsxd(low, both.r32());
      cc_.sar(both, 32);
      out[static_cast<std::size_t>(2 * pair)] = x86::ptr(bases_[n.bits], low, shift);
      out[static_cast<std::size_t>(2 * pair + 1)] = x86::ptr(bases_[n.bits], both, shift);
    }
    return out;
  });
  Set(id, v);
}

void Avx512Emitter::EmitStridedLoad(int id) {
  const LaneNode& n = At(id);
  const LaneStream& stream = graph_.streams[n.bits];
  const int width = stream.width, step = stream.stride * width;
  const x86::Vec v = NewVector(width);
  if (is_tail_ || n.b >= 0 || lanes_ < 8 || width < 4) {
    GatherVector(v, Indexed(running_[n.bits], Places(step), 0, Ahead() * step), width, n.b);
  } else {
    LoadApart(v, width, [&](int four) {
      std::array<x86::Mem, 4> out;
      for (int i = 0; i < 4; ++i)
        out[static_cast<std::size_t>(i)] = x86::ptr(running_[n.bits], (Ahead() + four * 4 + i) * step);
      return out;
    });
  }
  Set(id, v);
}

void Avx512Emitter::EmitPlaceOp(int id) {
  const LaneOp op = At(id).op;
  if (op == LaneOp::kFixedLoad) return EmitFixedLoad(id);
  if (op == LaneOp::kFixedStore) return EmitFixedStore(id);
  if (op == LaneOp::kSpread) return EmitSpread(id);
  if (op == LaneOp::kPick) return EmitPick(id);
  if (op == LaneOp::kPut) return EmitPut(id);
  if (op == LaneOp::kSequence) return Set(id, Numbers(graph_.sequences[At(id).bits], 4, 4 * lanes_));
  EmitPermute(id);
}

// By way of a register that is not spilled: of a vector in memory the assembler would make the move the other way, from
// memory to the vector of that number.
void Avx512Emitter::MoveToGeneral(const x86::Gp& to, const x86::Vec& from, int quad) {
  const x86::Vec near = cc_.newXmm();
  Emit(Inst::kIdVmovdqa32, near, from.xmm());
  if (quad == 0) Emit(Inst::kIdVmovq, to.r64(), near);
  else Emit(Inst::kIdVpextrq, to.r64(), near, Imm(quad));
}

x86::Mem Avx512Emitter::PlaceOf(const LaneAccess& access) {
  return PlaceOfAccess(cc_, bases_[static_cast<std::size_t>(access.base)], access, [&](int node) {
    const x86::Gp at = cc_.newInt64();
    MoveToGeneral(at, Register(node), 0);
    if (WidthOfNode(node) != 8) cc_.movsxd(at, at.r32());
    return at;
  });
}

// Of the first lanes, and of the pred `id` if it is one.
x86::KReg Avx512Emitter::LaneMask(int id, int lanes) {
  const x86::Gp bits = cc_.newUInt64();
  const x86::KReg k = cc_.newKq();
  cc_.mov(bits, lanes == 64 ? ~uint64_t{0} : (uint64_t{1} << lanes) - 1);
  cc_.kmovq(k, bits);
  if (id >= 0) cc_.kandq(k, k, Mask(id));
  return k;
}

void Avx512Emitter::EmitFixedLoad(int id) {
  const LaneNode& n = At(id);
  const LaneAccess& access = graph_.accesses[n.bits];
  const int width = access.width, bytes = width * n.lanes;
  const x86::Mem from = PlaceOf(access);
  const x86::Vec v = NewVector(width);
  if (n.b >= 0) {
    EmitMasked(MoveOf(width), LaneMask(n.b, n.lanes), true, v, from);
  } else if (bytes == 1) {
    Emit(Inst::kIdVpbroadcastb, v, from);
  } else if (bytes == 2) {
    Emit(Inst::kIdVpbroadcastw, v, from);
  } else if (bytes == 4) {
    Emit(Inst::kIdVmovd, v, from);
  } else if (bytes == 8) {
    Emit(Inst::kIdVmovq, v, from);
  } else if (bytes == 12) {
    Emit(Inst::kIdVmovq, v, from);
    Emit(Inst::kIdVpinsrd, v, v, from.cloneAdjusted(8), Imm(2));
  } else if (bytes == 16 || bytes == 32 || bytes == 64) {
    Emit(Inst::kIdVmovdqu32, v, from);
  } else {
    EmitMasked(MoveOf(width), LaneMask(-1, n.lanes), true, v, from);
  }
  SetLoaded(id, v);
}

void Avx512Emitter::EmitFixedStore(int id) {
  const LaneNode& n = At(id);
  const LaneAccess& access = graph_.accesses[n.bits];
  const int width = access.width, bytes = width * n.lanes;
  x86::Vec v;
  if (TypeOf(n.a) == ElementType::kPred) {
    v = NewVector(1);
    EmitMasked(Inst::kIdVmovdqu8, Mask(n.a), true, v, LoadConstant(1, 1));
  } else {
    v = Register(n.a);
  }
  const x86::Mem to = PlaceOf(access);
  if (n.b >= 0) {
    EmitMasked(MoveOf(width), LaneMask(n.b, n.lanes), false, to, v);
  } else if (bytes == 1) {
    Emit(Inst::kIdVpextrb, to, v, Imm(0));
  } else if (bytes == 2) {
    Emit(Inst::kIdVpextrw, to, v, Imm(0));
  } else if (bytes == 4) {
    Emit(Inst::kIdVmovd, to, v.xmm());
  } else if (bytes == 8) {
    Emit(Inst::kIdVmovq, to, v.xmm());
  } else if (bytes == 12) {
    Emit(Inst::kIdVmovq, to, v.xmm());
    Emit(Inst::kIdVpextrd, to.cloneAdjusted(8), v.xmm(), Imm(2));
  } else if (bytes == 16 || bytes == 32 || bytes == 64) {
    Emit(Inst::kIdVmovdqu32, to, v);
  } else {
    EmitMasked(MoveOf(width), LaneMask(-1, n.lanes), false, to, v);
  }
}

void Avx512Emitter::EmitSpread(int id) {
  const LaneNode& n = At(id);
  if (n.type == ElementType::kPred) {
    const x86::Gp bits = BitsOf(Mask(n.a));
    const x86::KReg k = cc_.newKq();
    cc_.and_(bits, 1);
    cc_.neg(bits);
    cc_.kmovq(k, bits);
    return Set(id, k);
  }
  const int width = WidthOf(n.type);
  const x86::Vec v = NewVector(width);
  Emit(OfWidth(width, Inst::kIdVpbroadcastb, Inst::kIdVpbroadcastw, Inst::kIdVpbroadcastd, Inst::kIdVpbroadcastq), v,
       Register(n.a).xmm());
  Set(id, v);
}

void Avx512Emitter::EmitPick(int id) {
  const LaneNode& n = At(id);
  const int width = WidthOf(n.type), at = static_cast<int>(n.bits) * width, bytes = n.lanes * width;
  x86::Vec from = Register(n.a);
  if (bytes == 32) {
    if (at == 0) return Set(id, from.ymm());
    const x86::Vec half = cc_.newYmm();
    Emit(Inst::kIdVextracti64x4, half, from, Imm(at / 32));
    return Set(id, half);
  }
  if (at == 0) return Set(id, from.xmm());
  if (at >= 16) {
    const x86::Vec part = cc_.newXmm();
    Emit(Inst::kIdVextracti32x4, part, from, Imm(at / 16));
    from = part;
  }
  if (at % 16 == 0) return Set(id, from);
  const x86::Vec v = cc_.newXmm();
  Emit(Inst::kIdVpsrldq, v, from.xmm(), Imm(at % 16));
  Set(id, v);
}

void Avx512Emitter::EmitPut(int id) {
  const LaneNode& n = At(id);
  const int width = WidthOf(n.type);
  const x86::Vec v = NewVector(width), into = Register(n.a), value = Register(n.b);
  if (width == 4 && lanes_ <= 4) {
    Emit(Inst::kIdVinsertps, v, into, value.xmm(), Imm(static_cast<int>(n.bits) << 4));
  } else if (width == 8 && lanes_ == 2 && n.bits == 1) {
    Emit(Inst::kIdVpunpcklqdq, v, into, value.xmm());
  } else {
    const x86::Vec all = NewVector(width);
    Emit(OfWidth(width, Inst::kIdVpbroadcastb, Inst::kIdVpbroadcastw, Inst::kIdVpbroadcastd, Inst::kIdVpbroadcastq),
         all, value.xmm());
    const x86::Gp bits = cc_.newUInt64();
    const x86::KReg k = cc_.newKq();
    cc_.mov(bits, uint64_t{1} << n.bits);
    cc_.kmovq(k, bits);
    Blend(v, k, width, into, all);
  }
  Set(id, v);
}

x86::Vec Avx512Emitter::Numbers(const LaneSequence& sequence, int width, int bytes) {
  const std::array<std::byte, 64> memory = BytesOfNumbers(sequence, width);
  bytes = std::max(bytes, 16);
  const x86::Vec v = bytes > 32 ? x86::Vec(cc_.newZmm()) : bytes > 16 ? x86::Vec(cc_.newYmm()) : cc_.newXmm();
  Emit(Inst::kIdVmovdqu32, v,
       cc_.newConst(asmjit::ConstPoolScope::kLocal, memory.data(), static_cast<std::size_t>(bytes)));
  return v;
}

x86::Vec Avx512Emitter::ShuffledBytes(const x86::Vec& from, const LaneSequence& places, int width, int first) {
  const x86::Vec v = cc_.newXmm();
  const std::array<std::byte, 16> bytes = BytesOfLanes(places, width, first);
  Emit(Inst::kIdVpshufb, v, from.xmm(), cc_.newConst(asmjit::ConstPoolScope::kLocal, bytes.data(), bytes.size()));
  return v;
}

void Avx512Emitter::EmitPermute(int id) {
  const LaneNode& n = At(id);
  const LaneSequence& places = graph_.sequences[n.bits];
  const int width = WidthOf(n.type);
  int reach = lanes_;
  for (int lane = 0; lane < n.lanes; ++lane)
    reach = std::max(reach, places[static_cast<std::size_t>(lane)] % kSequenceLanes + 1);
  if (reach * width <= 16) {
    x86::Vec v = ShuffledBytes(Register(n.a), places, width, 0);
    if (n.b >= 0) {
      const x86::Vec more = ShuffledBytes(Register(n.b), places, width, kSequenceLanes), both = cc_.newXmm();
      Emit(Inst::kIdVpord, both, v, more);
      v = both;
    }
    return Set(id, v);
  }
  const bool is_half = reach * width <= 32;
  const auto sized = [&](const x86::Vec& v) { return is_half ? x86::Vec(v.ymm()) : x86::Vec(v.zmm()); };
  // Stores are as long as the register is.
  const int bytes = lanes_ * width;
  const auto own = [&](const x86::Vec& v) {
    return bytes > 32 ? v : bytes > 16 ? x86::Vec(v.ymm()) : x86::Vec(v.xmm());
  };
  const int in_vector = (is_half ? 32 : 64) / width;
  LaneSequence numbers = places;
  for (int32_t& place : numbers)
    if (place >= kSequenceLanes) place += in_vector - kSequenceLanes;
  const x86::Vec at = Numbers(numbers, width, is_half ? 32 : 64);
  if (n.b >= 0) {
    Emit(OfWidth(width, Inst::kIdVpermi2b, Inst::kIdVpermi2w, Inst::kIdVpermi2d, Inst::kIdVpermi2q), at,
         sized(Register(n.a)), sized(Register(n.b)));
    return Set(id, own(at));
  }
  const x86::Vec v = is_half ? x86::Vec(cc_.newYmm()) : x86::Vec(cc_.newZmm());
  Emit(OfWidth(width, Inst::kIdVpermb, Inst::kIdVpermw, Inst::kIdVpermd, Inst::kIdVpermq), v, at, sized(Register(n.a)));
  Set(id, own(v));
}

}  // namespace krafla::cpu::native

#endif
