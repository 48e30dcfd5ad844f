// SPDX-License-Identifier: Apache-2.0
// AVX-512: a vector of as many lanes as the widest type of the graph has in 64 bytes; narrower types use a part of a
// register, preds are mask registers. The assembler's allocator gives registers to all values.
//
// rows times: values of the row; then all full vectors of columns, and a masked one for the rest.
#pragma once

#include <asmjit/x86.h>
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>

#include "cpu_fallback/native/lane_loop.h"
#include "cpu_fallback/native/x86_byte_table.h"
#include "cpu_fallback/native/x86_emitter.h"
#include "numerics/formats.h"
#include "numerics/nan.h"

namespace krafla::cpu::native {

namespace x86 = asmjit::x86;
namespace Inst = x86::Inst;
using asmjit::Imm;
using asmjit::InstId;
using asmjit::Operand;

// A second copy of the loop's body, for the last vector, is worth its code up to here.
inline constexpr std::size_t kCopiedNodes = 160;
inline constexpr std::size_t kHoistedConstants = 12;
// Preds up to here rarely live all at once.
inline constexpr std::size_t kFewPreds = 8;

enum class FloatCompare : uint8_t {
  kEq = 0,
  kLt = 17,
  kLe = 18,
  kUnordered = 3,
  kNe = 4,
  kOrdered = 7,
  kGe = 29,
  kGt = 30
};

inline int WidthOf(ElementType type) { return StorageBytes(type); }

// The instruction for elements of 1, 2, 4 or 8 bytes.
inline InstId OfWidth(int width, InstId b, InstId w, InstId d, InstId q) {
  return width == 1 ? b : width == 2 ? w : width == 4 ? d : q;
}
inline InstId OfFloats(int width, InstId h, InstId s, InstId d) { return width == 2 ? h : width == 4 ? s : d; }

class Avx512Emitter {
 public:
  Avx512Emitter(const LaneGraph& graph, x86::Compiler& cc) : graph_(graph), cc_(cc), used_(graph.Used()) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) used_count_ += used_[i] ? 1 : 0;
    lanes_ = LanesOf(X86Target::kAvx512, graph);
    for (auto& values : values_) values.resize(graph.nodes.size());
    fixed_.resize(graph.nodes.size(), false);
    loop_.in_body = used_;
    row_places_of_.resize(graph.nodes.size());
    of_column_.resize(graph.nodes.size(), false);
    is_fused_.resize(graph.nodes.size(), false);
    periodic_.resize(graph.nodes.size(), false);
  }

  void Run() {
    asmjit::FuncNode* f = cc_.addFunc(asmjit::FuncSignatureT<void, const void*, int64_t, int64_t>());
    f->frame().setAvxEnabled();
    f->frame().setAvx512Enabled();
    f->frame().setAvxCleanup();
    streams_ = cc_.newIntPtr(), rows_ = cc_.newInt64(), columns_ = cc_.newInt64();
    f->setArg(0, streams_);
    f->setArg(1, rows_);
    f->setArg(2, columns_);
    bases_.resize(graph_.streams.size());
    running_.resize(graph_.streams.size());
    for (auto& vectors : part_vectors_) vectors.resize(graph_.streams.size());
    for (std::size_t s = 0; s < bases_.size(); ++s) {
      bases_[s] = cc_.newIntPtr();
      cc_.mov(bases_[s], x86::ptr(streams_, static_cast<int32_t>(s * sizeof(StreamArgument))));
    }
    loop_ = LaneLoop(graph_);
    HoistConstants();
    all_lanes_ = cc_.newKq();
    Emit(Inst::kIdKxnorq, all_lanes_, all_lanes_, all_lanes_);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
      if (used_[i] && graph_.nodes[i].op == LaneOp::kUniform) LoadOne(static_cast<int>(i));
    HoistTables();

    index_ = cc_.newInt64();
    if (graph_.adds_rows) EmitSums();
    else if (graph_.folds_columns) EmitFoldedColumns();
    else EmitRows();
    cc_.ret();
    cc_.endFunc();
    EmbedShortRows();
  }
  // The graph once, as a part of a function that holds these addresses.
  void RunBlock(const std::vector<x86::Gp>& bases) {
    bases_ = bases;
    Body(false, 1);
  }

 private:
  struct Value {
    x86::Vec v;
    x86::KReg k;
    bool is_set = false;
  };

  const LaneNode& At(int id) const { return graph_.nodes[static_cast<std::size_t>(id)]; }
  ElementType TypeOf(int id) const { return At(id).type; }
  int WidthOfNode(int id) const { return WidthOf(TypeOf(id)); }
  // A ramp that stays as it is along a row.
  static bool IsLevel(const LaneNode& n) { return n.op == LaneOp::kRamp && static_cast<uint32_t>(n.bits) == 0; }
  // The value in the vector that is being made, or the one for all.
  Value& ValueOf(int id) {
    const LaneOp op = At(id).op;
    const bool is_shared =
        op == LaneOp::kUniform || op == LaneOp::kRow || IsLevel(At(id)) || fixed_[static_cast<std::size_t>(id)];
    return values_[is_shared ? 0 : vector_][static_cast<std::size_t>(id)];
  }

  // The loops over all rows, and those that add them up (x86_avx512_loops.cpp).
  void EmitRows();
  void EmitSums();
  using RunningPlaces = std::vector<std::pair<std::size_t, x86::Gp>>;
  void RememberStarts();
  void EmitColumns(int vectors);
  RunningPlaces StartColumns(bool is_tail, int vectors);
  void StartRowAt(const RunningPlaces& places);
  void EmitSumsOfColumns(bool is_tail, int vectors);
  InstId AddOf(int node) const;
  void FindColumnValues();
  void FindFusedProducts();
  void AddUp(std::size_t store);

  // Rows and columns that are folded (x86_avx512_folds.cpp).
  void EmitFoldedRow();
  void EmitFoldedColumns();
  void EmitFoldedColumns(bool is_tail, int vectors);
  void StartFolds();
  void Combine(const LaneFold& f, const x86::Vec& to, const x86::Vec& from);
  x86::Vec FoldLanes(const LaneFold& f, const x86::Vec& v, int lanes);
  void FoldUp(std::size_t fold);
  void FoldTail(const LaneFold& f, const x86::Vec& sum);

  // Two rows at a time (x86_avx512_pairs.cpp).
  struct PairedProduct {
    int row = -1, factor = -1;
  };
  bool FitsBf16(int id) const;
  std::optional<PairedProduct> PairedProductOf(const LaneStore& s) const;
  bool CanPairRows();
  void EmitPairLoad(int id);
  void SpreadColumnValues(int groups);
  x86::Vec PairOfRows(int row_node);
  void AddPairsUp(int group, std::map<int, x86::Vec>& rows);
  void AdvancePairs();
  void FetchPairsAhead(int columns);
  void EmitPairsOfColumns(int groups);
  void EmitPairs();
  void StartFetching();
  void FetchAhead(int vectors);

  // Registers.
  x86::Vec NewVector(int width) {
    const int bytes = width * lanes_;
    if (bytes > 32) return cc_.newZmm();
    if (bytes > 16) return cc_.newYmm();
    return cc_.newXmm();
  }
  x86::Vec NewOf(ElementType type) { return NewVector(WidthOf(type)); }
  void Set(int id, const x86::Vec& v) { ValueOf(id).v = v, ValueOf(id).is_set = true; }
  // What was loaded: predicates lie in memory as bytes.
  void SetLoaded(int id, const x86::Vec& v);
  void Set(int id, const x86::KReg& k) { ValueOf(id).k = k, ValueOf(id).is_set = true; }

  // Constants in memory.
  x86::Mem ConstantMemory(uint64_t bits, int width) {
    return cc_.newConst(asmjit::ConstPoolScope::kLocal, &bits, static_cast<std::size_t>(width));
  }
  x86::Mem Broadcast(x86::Mem m, int width, int bytes) const {
    switch (bytes / width) {
      case 2: return m._1to2();
      case 4: return m._1to4();
      case 8: return m._1to8();
      case 16: return m._1to16();
      default: return m;
    }
  }
  Operand BroadcastConstant(uint64_t bits, int width) {
    return Broadcast(ConstantMemory(bits, width), width, std::max(16, width * lanes_));
  }
  x86::Vec LoadConstant(uint64_t bits, int width) {
    const x86::Vec v = NewVector(width);
    if (bits == 0) {
      Emit(Inst::kIdVpxord, v, v, v);
    } else {
      Emit(OfWidth(width, Inst::kIdVpbroadcastb, Inst::kIdVpbroadcastw, Inst::kIdVpbroadcastd, Inst::kIdVpbroadcastq),
           v, ConstantMemory(bits, width));
    }
    return v;
  }
  void HoistConstants();
  void HoistTables();
  x86::Vec LoadTable(const LaneTable& table, const x86::Vec& places);
  // Of floats of a byte (x86_avx512_bytes.cpp).
  ByteTable LoadByteTable(uint64_t type);
  static constexpr std::array<uint32_t, 4> kRoundingWords = {0x00010000, 0x7fff, 0x00010001, 0xffff0000};
  x86::Vec RoundingWord(std::size_t number) {
    return rounding_words_.empty() ? LoadConstant(kRoundingWords[number], 4) : rounding_words_[number];
  }

  // A value in a register; as the last operand of an instruction that takes a broadcast, perhaps from memory.
  x86::Vec Register(int id) {
    const Value& v = ValueOf(id);
    if (v.is_set) return v.v;
    return LoadConstant(At(id).bits, WidthOfNode(id));
  }
  Operand RegisterOrMemory(int id) {
    const Value& v = ValueOf(id);
    if (v.is_set) return v.v;
    const int width = WidthOfNode(id);
    if (width < 4) return LoadConstant(At(id).bits, width);
    return BroadcastConstant(At(id).bits, width);
  }
  x86::KReg Mask(int id) {
    const Value& v = ValueOf(id);
    if (v.is_set) return v.k;
    const x86::KReg k = cc_.newKq();
    if (At(id).bits != 0) cc_.kxnorq(k, k, k);
    else cc_.kxorq(k, k, k);
    return k;
  }

  // By way of a register that is not spilled: the assembler would make the move from a mask in memory, which there is
  // not, one to a mask register.
  x86::Gp BitsOf(const x86::KReg& k) {
    const x86::KReg near = cc_.newKq();
    const x86::Gp bits = cc_.newUInt64();
    cc_.kmovq(near, k);
    cc_.kmovq(bits, near);
    return bits;
  }
  template <class... Operands>
  void Emit(InstId id, const Operands&... operands) {
    cc_.emit(id, operands...);
  }
  template <class... Operands>
  void EmitMasked(InstId id, const x86::KReg& k, bool zeroes, const Operands&... operands) {
    cc_.setExtraReg(k);
    if (zeroes) cc_.addInstOptions(asmjit::InstOptions::kX86_ZMask);
    cc_.emit(id, operands...);
  }

  // Whether a stream has an address of its own that goes along with the loop.
  bool Runs(std::size_t stream) const {
    const LaneStream::Kind kind = graph_.streams[stream].kind;
    return kind == LaneStream::Kind::kStrided || kind == LaneStream::Kind::kInterleaved;
  }

  // What is the same throughout a row (x86_avx512_values.cpp).
  void EmitRowValues();
  void LoadAlongRow(int id);

  // Loops.
  void StartRow();
  void EndRow();
  void Advance(int vectors);
  void EmitLoops(const asmjit::Label& row_end);
  // Whether those of two vectors do not fit the seven mask registers, and would go to memory and back.
  bool HasManyPreds() const {
    std::size_t count = 0;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
      count += used_[i] && graph_.nodes[i].type == ElementType::kPred ? 1 : 0;
    return count > kFewPreds;
  }
  int VectorsAtOnce() const;

  // What repeats itself every few vectors (x86_avx512_periods.cpp).
  int PeriodOf(const LaneStream& stream) const;
  int FindPeriodic();
  void EmitPeriodic(int vectors);
  void EmitQuotient(int id);
  // The same body for every vector, all under a mask.
  void EmitMaskedLoop();
  void MakeTailMask(const x86::Gp& count);
  // Elements of the last lane's that may not be touched.
  static int Behind(const LaneStream& s) { return s.reach == 0 ? 0 : s.stride - s.reach; }
  x86::KReg PartTail(int parts, int behind, int vector);
  void Body(bool is_tail, int vectors);

  // In a routine each node has lanes of its own, in a vector of the next power of two.
  void UseLanesOf(int id) {
    if (At(id).lanes > 0) lanes_ = static_cast<int>(std::bit_ceil(unsigned{At(id).lanes}));
  }

  // Regions.
  template <class Function>
  void ForEachPhi(std::size_t region, Function function) const {
    for (std::size_t i = static_cast<std::size_t>(graph_.regions[region].end);
         i < graph_.nodes.size() && graph_.nodes[i].op == LaneOp::kPhi && graph_.nodes[i].bits == region; ++i)
      if (used_[i]) function(static_cast<int>(i));
  }
  bool IsNeeded(std::size_t region) const {
    bool is_needed = false;
    ForEachPhi(region, [&](int) { is_needed = true; });
    return is_needed && graph_.regions[region].end > graph_.regions[region].begin;
  }
  asmjit::Label BeginRegion(std::size_t region) {
    row_places_.clear();  // what a region computes is not there behind it
    UseLanesOf(graph_.regions[region].condition);
    ForEachPhi(region, [&](int phi) {
      const x86::Vec v = NewOf(TypeOf(phi));
      Emit(Inst::kIdVmovdqa32, v, Register(At(phi).b));
      Set(phi, v);
    });
    const x86::KReg k = Mask(graph_.regions[region].condition);
    const asmjit::Label skip = cc_.newLabel();
    if (lanes_ < 8) {
      const x86::Gp bits = BitsOf(k);
      cc_.test(bits.r32(), (1 << lanes_) - 1);
      cc_.jz(skip);
      return skip;
    }
    Emit(OfLanes(Inst::kIdKortestb, Inst::kIdKortestw, Inst::kIdKortestd, Inst::kIdKortestq), k, k);
    cc_.jz(skip);
    return skip;
  }
  void EndRegion(std::size_t region, const asmjit::Label& skip) {
    row_places_.clear();
    UseLanesOf(graph_.regions[region].condition);
    const x86::KReg k = Mask(graph_.regions[region].condition);
    ForEachPhi(region, [&](int phi) {
      const int width = WidthOfNode(phi);
      EmitMasked(width == 8 ? Inst::kIdVmovdqa64 : Inst::kIdVmovdqa32, k, false, ValueOf(phi).v, Register(At(phi).a));
    });
    cc_.bind(skip);
  }
  InstId OfLanes(InstId b, InstId w, InstId d, InstId q) const {
    return lanes_ == 8 ? b : lanes_ == 16 ? w : lanes_ == 32 ? d : q;
  }

  // Memory.
  int Ahead() const { return static_cast<int>(vector_) * lanes_; }  // of the index
  x86::Mem Address(std::size_t stream) const {
    const int shift = std::countr_zero(static_cast<unsigned>(graph_.streams[stream].width));
    return x86::ptr(bases_[stream], index_, static_cast<uint32_t>(shift), Ahead() * graph_.streams[stream].width);
  }
  void LoadOne(int id);  // one value in all lanes
  void StartRamp(int id) {
    const LaneNode& n = At(id);
    std::array<int32_t, 16> steps{};
    for (uint32_t i = 0; i < 16; ++i) steps[i] = static_cast<int32_t>(i * static_cast<uint32_t>(n.bits));
    const x86::Vec v = ValueOf(id).is_set ? ValueOf(id).v : NewVector(4);
    Emit(Inst::kIdVpbroadcastd, v, bases_[n.bits >> 32].r32());
    Emit(
        Inst::kIdVpaddd, v, v,
        cc_.newConst(asmjit::ConstPoolScope::kLocal, steps.data(), static_cast<std::size_t>(std::max(16, 4 * lanes_))));
    Set(id, v);
  }
  // The lanes that a masked access may touch.
  bool NeedsMask(int mask) const { return is_tail_ || mask >= 0; }
  x86::KReg AccessMask(int mask, int width) {
    if (mask < 0) return tail_;
    // A register has 16 bytes at least, and a mask any bits above those of the lanes.
    if (!is_tail_ && width * lanes_ >= 16) return Mask(mask);
    const x86::KReg k = cc_.newKq();
    if (is_tail_) {
      cc_.kandq(k, Mask(mask), tail_);
    } else {
      const x86::Gp bits = cc_.newUInt32();
      cc_.mov(bits, (1u << lanes_) - 1);
      cc_.kmovd(k, bits);
      cc_.kandq(k, k, Mask(mask));
    }
    return k;
  }
  x86::KReg FreshAccessMask(int mask, int width) {  // gathers and scatters clear theirs
    const x86::KReg k = cc_.newKq();
    if (NeedsMask(mask)) cc_.kmovq(k, AccessMask(mask, width));
    else cc_.kxnorq(k, k, k);
    return k;
  }
  InstId MoveOf(int width) const {
    return OfWidth(width, Inst::kIdVmovdqu8, Inst::kIdVmovdqu16, Inst::kIdVmovdqu32, Inst::kIdVmovdqu64);
  }
  void LoadVector(const x86::Vec& v, const x86::Mem& from, int width, int mask) {
    if (NeedsMask(mask)) EmitMasked(MoveOf(width), AccessMask(mask, width), true, v, from);
    else if (width * lanes_ == 8) Emit(Inst::kIdVmovq, v, from);
    else Emit(Inst::kIdVmovdqu32, v, from);
  }
  x86::Vec Places(int stride) {  // of the lanes of a strided stream, in bytes
    std::array<int32_t, 16> at{};
    for (int i = 0; i < 16; ++i) at[static_cast<std::size_t>(i)] = i * stride;
    const x86::Vec v = NewVector(4);
    Emit(Inst::kIdVmovdqu32, v,
         cc_.newConst(asmjit::ConstPoolScope::kLocal, at.data(), static_cast<std::size_t>(std::max(16, 4 * lanes_))));
    return v;
  }
  static x86::Mem Indexed(const x86::Gp& base, const x86::Vec& places, uint32_t shift, int offset = 0) {
    return x86::ptr(base, places, shift, offset);
  }
  void GatherVector(const x86::Vec& v, const x86::Mem& from, int width, int mask) {
    const x86::KReg k = FreshAccessMask(mask, width);
    Emit(Inst::kIdVpxord, v, v, v);
    EmitMasked(width == 8 ? Inst::kIdVpgatherdq : Inst::kIdVpgatherdd, k, false, v, from);
  }
  void EmitLoad(int id) {
    const LaneNode& n = At(id);
    const LaneStream& stream = graph_.streams[n.bits & 0xffffffffu];
    const int width = stream.width;
    if (is_paired_) return EmitPairLoad(id);
    if (stream.kind == LaneStream::Kind::kInterleaved) return EmitPart(id);
    if (stream.kind == LaneStream::Kind::kStrided) return EmitStridedLoad(id);
    if (stream.kind == LaneStream::Kind::kShortRows) return EmitShortRows(id);
    const x86::Vec v = NewVector(width);
    LoadVector(v, Address(n.bits), width, n.b);
    if (n.type != ElementType::kPred) return Set(id, v);
    const x86::KReg k = cc_.newKq();
    Emit(Inst::kIdVptestmb, k, v, v);
    Set(id, k);
  }
  void EmitStore(const LaneStore& s) {
    const auto number = static_cast<std::size_t>(s.stream);
    const LaneStream& stream = graph_.streams[number];
    const int width = stream.width;
    if (stream.kind == LaneStream::Kind::kInterleaved) return StoreParts(s);
    x86::Vec v;
    if (TypeOf(s.node) == ElementType::kPred) {
      v = NewVector(1);
      EmitMasked(Inst::kIdVmovdqu8, Mask(s.node), true, v, LoadConstant(1, 1));
    } else {
      v = Register(s.node);
    }
    if (stream.kind == LaneStream::Kind::kStrided) {
      EmitMasked(width == 8 ? Inst::kIdVpscatterdq : Inst::kIdVpscatterdd, FreshAccessMask(s.mask, width), false,
                 Indexed(running_[number], Places(stream.stride * width), 0, Ahead() * stream.stride * width), v);
      return;
    }
    const x86::Mem to = Address(number);
    if (NeedsMask(s.mask)) EmitMasked(MoveOf(width), AccessMask(s.mask, width), false, to, v);
    else if (width * lanes_ == 8) Emit(Inst::kIdVmovq, to, v);
    else Emit(Inst::kIdVmovdqu32, to, v);
  }

  // Single elements (x86_avx512_places.cpp).
  template <class Function>
  void LoadApart(const x86::Vec& v, int width, Function from);
  void EmitGather(int id);
  void EmitStridedLoad(int id);
  // Short rows (x86_avx512_rows.cpp).
  struct RowPlace {
    int columns = 0, lane = 0;
    x86::Gp row, record;  // the first lane's row; where its column's record begins in each table
  };
  struct RowTable {
    LaneStream stream;
    int lanes = 0;
    asmjit::Label label;
  };
  void EmitShortRows(int id);
  x86::Vec LoadShortRows(const LaneStream& stream, const x86::Gp& base, int lane, int lanes);
  const RowPlace& RowPlaceOf(int columns, int lane);
  asmjit::Label RowTableOf(const LaneStream& stream, int lanes);
  void EmbedShortRows();
  // Routines (in the same file).
  void EmitPlaceOp(int id);
  void MoveToGeneral(const x86::Gp& to, const x86::Vec& from, int quad);
  x86::Mem PlaceOf(const LaneAccess& access);
  x86::KReg LaneMask(int id, int lanes);
  void EmitFixedLoad(int id);
  void EmitFixedStore(int id);
  void EmitSpread(int id);
  void EmitPick(int id);
  void EmitPut(int id);
  // What a sequence says, in lanes of `width` bytes.
  x86::Vec Numbers(const LaneSequence& sequence, int width, int bytes);
  // Bytes of `from`, as many as a vector of 16 has: those of lanes that places from `first` on name, else zeros.
  x86::Vec ShuffledBytes(const x86::Vec& from, const LaneSequence& places, int width, int first);
  void EmitPermute(int id);

  void EmitPart(int id);
  void LoadParts(std::size_t stream);
  const std::vector<x86::Vec>& EveryOther(std::size_t stream, int level, int part);
  void StoreParts(const LaneStore& s);
  template <class Function>
  x86::Vec Sequence(int width, Function function);
  template <class Function>
  x86::Vec PermuteTwo(int width, const x86::Vec& a, const x86::Vec& b, Function place);
  void MergePart(const x86::Vec& to, const x86::Vec& places, const x86::Vec& from, int width, uint32_t lanes);
  x86::Mem PartAddress(std::size_t stream, int part) const {
    const LaneStream& s = graph_.streams[stream];
    return x86::ptr(running_[stream], (Ahead() * s.stride + part * lanes_) * s.width);
  }

  // Nodes.
  void EmitNode(int id);
  void EmitCompare(int id);
  void EmitExtremum(int id);
  void EmitDivide(int id);
  void EmitShift(int id);
  void EmitShiftOfBytes(int id);
  void EmitSelect(int id);
  void EmitMulHigh(int id);
  void EmitMulBytes(int id);
  void EmitConversion(int id);
  void EmitFloatToInt(int id);
  void EmitRoundToBf16(int id);
  void EmitByteToFloat(int id);
  void EmitMaskOp(int id);
  // out = op(a, b).
  void Binary(int id, InstId op, bool commutes) {
    const LaneNode& n = At(id);
    int a = n.a, b = n.b;
    if (commutes && !ValueOf(a).is_set) std::swap(a, b);
    const x86::Vec v = NewOf(n.type);
    Emit(op, v, Register(a), RegisterOrMemory(b));
    Set(id, v);
  }
  void Unary(int id, InstId op) {
    const x86::Vec v = NewOf(TypeOf(id));
    Emit(op, v, Register(At(id).a));
    Set(id, v);
  }
  void UnaryWith(int id, InstId op, int immediate) {
    const x86::Vec v = NewOf(TypeOf(id));
    Emit(op, v, Register(At(id).a), Imm(immediate));
    Set(id, v);
  }
  void WithConstant(int id, InstId op, uint64_t bits) {
    const x86::Vec v = NewOf(TypeOf(id));
    Emit(op, v, Register(At(id).a), BroadcastConstant(bits, WidthOfNode(id)));
    Set(id, v);
  }
  x86::KReg CompareFloats(int width, FloatCompare how, const x86::Vec& a, const Operand& b) {
    const x86::KReg k = cc_.newKq();
    Emit(OfFloats(width, Inst::kIdVcmpph, Inst::kIdVcmpps, Inst::kIdVcmppd), k, a, b, Imm(static_cast<int>(how)));
    return k;
  }
  void Blend(const x86::Vec& out, const x86::KReg& k, int width, const x86::Vec& no, const Operand& yes) {
    // To the allocator a mask means that `out` is read, so it is written before.
    Emit(Inst::kIdVmovdqa32, out, no);
    EmitMasked(OfWidth(width, Inst::kIdVpblendmb, Inst::kIdVpblendmw, Inst::kIdVpblendmd, Inst::kIdVpblendmq), k, false,
               out, out, yes);
  }

  const LaneGraph& graph_;
  x86::Compiler& cc_;
  std::vector<bool> used_;
  std::size_t used_count_ = 0;
  int lanes_ = 16;
  static constexpr int kVectors = 2;  // of a loop's body; of one that pairs rows up to kMostVectors
  static constexpr std::size_t kMostVectors = 8;
  std::array<std::vector<Value>, kMostVectors> values_;
  std::vector<bool> of_column_;                        // nodes that have the same values in all rows
  std::vector<x86::Gp> starts_;                        // of streams, at the first row
  std::vector<std::pair<std::size_t, x86::Gp>> next_;  // streams, and how far behind these rows the next ones lie
  std::vector<bool> is_fused_;                         // products that are multiplied when they are added up
  std::array<std::vector<x86::Vec>, kMostVectors / 2> sums_;  // of the rows, by store
  // Of each fold: vectors that are combined by themselves, and the row's value; which of the former come next.
  std::vector<std::array<x86::Vec, 4>> folded_;
  std::vector<x86::Vec> row_folds_;
  std::size_t next_folded_ = 0;
  // Of rows in pairs: each store's product; the nodes of the loop's body, and those of columns that it reads; where the
  // second row is of streams that have one; what was loaded of both; which columns the lanes of vectors are of.
  std::vector<PairedProduct> paired_;
  std::vector<bool> in_pairs_;
  std::vector<int> from_column_;
  std::vector<x86::Gp> seconds_;
  std::map<std::pair<std::size_t, std::size_t>, std::pair<x86::Vec, x86::Vec>> pair_loads_;
  x86::Vec low_columns_, high_columns_;
  bool is_paired_ = false;
  std::map<uint64_t, ByteTable> byte_tables_;      // by type, made before the loop
  std::vector<x86::Vec> tables_, rounding_words_;  // of lookups and roundings, made before the loop
  std::size_t vector_ = 0;                         // the one that is being made
  std::vector<bool> fixed_;                        // hoisted constants
  std::vector<x86::Gp> bases_, running_;
  x86::Gp streams_, rows_, columns_, index_;
  x86::KReg tail_, all_lanes_;
  x86::Gp tail_count_;
  std::map<std::array<int, 3>, x86::KReg> part_tails_;  // of this tail: by parts, Behind, vector
  // Of interleaved streams: by level, which halves the parts, and part, the vectors that hold its elements.
  std::array<std::vector<std::map<std::pair<int, int>, std::vector<x86::Vec>>>, kMostVectors> part_vectors_;
  LaneLoop loop_;
  // Of the loop alone: where the row of a gather begins that goes along it.
  std::vector<x86::Gp> row_places_of_;
  std::vector<RowPlace> row_places_;  // of this vector
  std::vector<RowTable> row_tables_;
  std::vector<bool> periodic_;  // nodes whose values all vectors of the loop's body have before it begins
  bool is_tail_ = false;
};

}  // namespace krafla::cpu::native
