// SPDX-License-Identifier: Apache-2.0
// What routines have beside lane-wise operations, for AVX2: accesses to fixed places, and single lanes of vectors. What
// is stored and loaded again in the next turn should be so in the same pieces, or the processor waits for the store;
// stores under a mask take some twenty times as long as others (Zen 3).
#ifdef KRAFLA_HAVE_JIT

#include "cpu_fallback/native/x86_avx2.h"
#include "cpu_fallback/native/x86_places.h"

namespace krafla::cpu::native {

namespace x86 = asmjit::x86;
namespace Inst = x86::Inst;
using asmjit::Imm;
using asmjit::InstId;

void Avx2Emitter::EmitPlaceOp(int id) {
  const LaneOp op = At(id).op;
  if (op == LaneOp::kFixedLoad) return EmitFixedLoad(id);
  if (op == LaneOp::kFixedStore) return EmitFixedStore(id);
  if (op == LaneOp::kSpread) return EmitSpread(id);
  if (op == LaneOp::kPick) return EmitPick(id);
  if (op == LaneOp::kPut) return EmitPut(id);
  if (op == LaneOp::kSequence) return Set(id, Numbers(graph_.sequences[At(id).bits], 4, 4 * lanes_));
  EmitPermute(id);
}

x86::Mem Avx2Emitter::PlaceOf(const LaneAccess& access) {
  return PlaceOfAccess(cc_, bases_[static_cast<std::size_t>(access.base)], access, [&](int node) {
    const Gp at = cc_.newInt64();
    MoveToGeneral(at, Register(node));
    if (StorageBytes(TypeOf(node)) != 8) cc_.movsxd(at, at.r32());
    return at;
  });
}

// Of the pred `id`, and of the first lanes alone.
x86::Vec Avx2Emitter::LaneMasks(int id, int lanes, int width) {
  std::array<std::byte, 32> bytes{};
  for (int at = 0; at < lanes * width; ++at) bytes[static_cast<std::size_t>(at)] = std::byte{0xff};
  const std::size_t size = width * lanes_ > 16 ? 32 : 16;
  return Make(width, Inst::kIdVpand, MaskOf(id, width),
              cc_.newConst(asmjit::ConstPoolScope::kLocal, bytes.data(), size));
}

void Avx2Emitter::EmitFixedLoad(int id) {
  const LaneNode& n = At(id);
  const LaneAccess& access = graph_.accesses[n.bits];
  const int width = access.width;
  const Mem from = PlaceOf(access);
  if (n.b < 0) return SetLoaded(id, LoadBytes(from, width * n.lanes));
  Set(id, Make(width, width == 8 ? Inst::kIdVpmaskmovq : Inst::kIdVpmaskmovd, LaneMasks(n.b, n.lanes, width), from));
}

void Avx2Emitter::EmitFixedStore(int id) {
  const LaneNode& n = At(id);
  const LaneAccess& access = graph_.accesses[n.bits];
  const int width = access.width;
  const Vec v = TypeOf(n.a) == ElementType::kPred ? Make(1, Inst::kIdVpand, MaskOf(n.a, 1), Load(1, 1)) : Register(n.a);
  const Mem to = PlaceOf(access);
  if (n.b < 0) return StoreBytes(to, v, width * n.lanes);
  Emit(width == 8 ? Inst::kIdVpmaskmovq : Inst::kIdVpmaskmovd, to, LaneMasks(n.b, n.lanes, width), v);
}

void Avx2Emitter::EmitSpread(int id) {
  const LaneNode& n = At(id);
  const bool is_pred = n.type == ElementType::kPred;
  // Masks that all lanes have room for.
  const int width = is_pred ? std::min(4, 32 / lanes_) : StorageBytes(n.type);
  const Vec one = is_pred ? MaskOf(n.a, width) : Register(n.a);
  const Vec v = Make(width,
                     width == 1   ? Inst::kIdVpbroadcastb
                     : width == 2 ? Inst::kIdVpbroadcastw
                     : width == 4 ? Inst::kIdVpbroadcastd
                                  : Inst::kIdVpbroadcastq,
                     one.xmm());
  if (is_pred) SetMasks(id, v, width);
  else Set(id, v);
}

void Avx2Emitter::EmitPick(int id) {
  const LaneNode& n = At(id);
  const int width = StorageBytes(n.type), at = static_cast<int>(n.bits) * width;
  Vec from = Register(n.a);
  if (n.lanes * width == 32) return Set(id, from);
  if (at >= 16) {
    const Vec half = cc_.newXmm();
    Emit(Inst::kIdVextracti128, half, from.ymm(), Imm(1));
    from = half;
  }
  if (at % 16 == 0) return Set(id, from.xmm());
  const Vec v = cc_.newXmm();
  Emit(Inst::kIdVpsrldq, v, from.xmm(), Imm(at % 16));
  Set(id, v);
}

void Avx2Emitter::EmitPut(int id) {
  const LaneNode& n = At(id);
  const int width = StorageBytes(n.type), lane = static_cast<int>(n.bits);
  const Vec into = Register(n.a), value = Register(n.b);
  if (width < 4) {  // of at most 16 bytes
    const Gp bits = cc_.newInt64();
    MoveToGeneral(bits, value);
    return Set(id, Make(width, width == 1 ? Inst::kIdVpinsrb : Inst::kIdVpinsrw, into, bits.r32(), Imm(lane)));
  }
  if (width == 4 && lanes_ <= 4) return Set(id, Make(4, Inst::kIdVinsertps, into, value.xmm(), Imm(lane << 4)));
  const Vec all = Make(width, width == 4 ? Inst::kIdVpbroadcastd : Inst::kIdVpbroadcastq, value.xmm());
  const int words = width == 4 ? 1 << lane : 3 << (2 * lane);
  Set(id, Make(width, Inst::kIdVpblendd, into, all, Imm(words)));
}

x86::Vec Avx2Emitter::Numbers(const LaneSequence& sequence, int width, int bytes) {
  const std::array<std::byte, 64> memory = BytesOfNumbers(sequence, width);
  bytes = std::max(bytes, 16);
  const Vec v = bytes > 16 ? Vec(cc_.newYmm()) : Vec(cc_.newXmm());
  Emit(Inst::kIdVmovdqu, v,
       cc_.newConst(asmjit::ConstPoolScope::kLocal, memory.data(), static_cast<std::size_t>(bytes)));
  return v;
}

x86::Vec Avx2Emitter::ShuffledBytes(const Vec& from, const LaneSequence& places, int width, int first) {
  const Vec v = cc_.newXmm();
  const std::array<std::byte, 16> bytes = BytesOfLanes(places, width, first);
  Emit(Inst::kIdVpshufb, v, from.xmm(), cc_.newConst(asmjit::ConstPoolScope::kLocal, bytes.data(), bytes.size()));
  return v;
}

void Avx2Emitter::EmitPermute(int id) {
  const LaneNode& n = At(id);
  const LaneSequence& places = graph_.sequences[n.bits];
  const int width = StorageBytes(n.type);
  int reach = lanes_;
  for (int lane = 0; lane < n.lanes; ++lane)
    reach = std::max(reach, places[static_cast<std::size_t>(lane)] % kSequenceLanes + 1);
  if (reach * width <= 16) {
    Vec v = ShuffledBytes(Register(n.a), places, width, 0);
    if (n.b >= 0) {
      const Vec more = ShuffledBytes(Register(n.b), places, width, kSequenceLanes), both = cc_.newXmm();
      Emit(Inst::kIdVpor, both, v, more);
      v = both;
    }
    return Set(id, v);
  }
  // By words: numbers of 64 bits are two.
  const int words = width / 4;
  LaneSequence numbers{};
  int of_second = 0;
  for (int word = 0; word < 8; ++word) {
    const int place = places[static_cast<std::size_t>(word / words)];
    numbers[static_cast<std::size_t>(word)] = place % kSequenceLanes * words + word % words;
    if (place >= kSequenceLanes) of_second |= 1 << word;
  }
  const Vec at = Numbers(numbers, 4, 32), v = cc_.newYmm();
  Emit(Inst::kIdVpermd, v, at, Register(n.a).ymm());
  if (n.b < 0) return Set(id, Sized(v, width));
  const Vec more = cc_.newYmm(), both = cc_.newYmm();
  Emit(Inst::kIdVpermd, more, at, Register(n.b).ymm());
  Emit(Inst::kIdVpblendd, both, v, more, Imm(of_second));
  Set(id, Sized(both, width));
}

}  // namespace krafla::cpu::native

#endif
