// SPDX-License-Identifier: Apache-2.0
// AVX2, FMA and F16C: as many lanes as the widest type has in 32 bytes. A pred is a vector of masks as wide as the
// widest type. There are no masked accesses to bytes: a row is done by two or four vectors at a time, then by one, and
// what is left of it by single lanes. In a routine each node has lanes of its own, and a pred masks as wide as what was
// compared.
#pragma once

#include <asmjit/x86.h>
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "cpu_fallback/native/lane_loop.h"
#include "cpu_fallback/native/x86_emitter.h"
#include "numerics/nan.h"

namespace krafla::cpu::native {

class Avx2Emitter {
 public:
  Avx2Emitter(const LaneGraph& graph, asmjit::x86::Compiler& cc) : graph_(graph), cc_(cc), used_(graph.Used()) {
    lanes_ = LanesOf(X86Target::kAvx2, graph);
    mask_width_ = 32 / lanes_;
    for (auto& values : values_) values.resize(graph.nodes.size());
    fixed_.resize(graph.nodes.size(), false);
    loop_.in_body = used_;
    row_places_.resize(graph.nodes.size());
  }
  void Run();
  // The graph once, as a part of a function that holds these addresses.
  void RunBlock(const std::vector<asmjit::x86::Gp>& bases);

 private:
  using Vec = asmjit::x86::Vec;
  using Mem = asmjit::x86::Mem;
  using Gp = asmjit::x86::Gp;
  using InstId = asmjit::InstId;
  using Operand = asmjit::Operand;
  struct Value {
    Vec v;
    bool is_set = false;
    int mask_width = 0;  // of a pred
  };

  const LaneNode& At(int id) const { return graph_.nodes[static_cast<std::size_t>(id)]; }
  ElementType TypeOf(int id) const { return At(id).type; }
  // Of a pred: its masks.
  int WidthOf(ElementType type) const { return type == ElementType::kPred ? mask_width_ : StorageBytes(type); }
  // Whether all vectors of the body have it in common.
  bool IsShared(std::size_t id) const {
    const LaneOp op = graph_.nodes[id].op;
    return op == LaneOp::kUniform || op == LaneOp::kRow || fixed_[id];
  }
  // The value in the vector that is being made, or the one for all.
  Value& ValueOf(int id) {
    const auto i = static_cast<std::size_t>(id);
    return values_[IsShared(i) ? 0 : vector_][i];
  }
  void Set(int id, const Vec& v) { ValueOf(id) = {v, true, mask_width_}; }
  // A pred whose masks are `width` bytes wide.
  void SetMasks(int id, const Vec& v, int width);
  // What was loaded: preds lie in memory as bytes.
  void SetLoaded(int id, const Vec& v);
  void UseLanesOf(int id) {
    if (At(id).lanes > 0) lanes_ = static_cast<int>(std::bit_ceil(unsigned{At(id).lanes}));
  }

  Vec NewVector(int width) {
    if (width * lanes_ > 16) return cc_.newYmm();
    return cc_.newXmm();
  }
  Vec NewOf(ElementType type) { return NewVector(WidthOf(type)); }
  template <class... Operands>
  void Emit(InstId id, const Operands&... operands) {
    cc_.emit(id, operands...);
  }
  template <class... Operands>
  Vec Make(int width, InstId id, const Operands&... operands) {
    const Vec v = NewVector(width);
    cc_.emit(id, v, operands...);
    return v;
  }
  // The first lanes of what was made for a whole vector.
  Vec Sized(const Vec& v, int width) const { return width * lanes_ > 16 ? Vec(v.ymm()) : Vec(v.xmm()); }
  Mem Constant(uint64_t bits, int width);
  Vec Load(uint64_t bits, int width);
  Vec Pattern(uint64_t bytes, int width);
  Vec Register(int id);
  Operand RegisterOrMemory(int id);
  void HoistConstants();

  // Rows (x86_avx2.cpp).
  int VectorsAtOnce() const;
  void StartRow();
  void EmitRowValues();
  void EndRow();
  void EmitRows();
  void EmitRow();
  void EmitColumns(int vectors, int lanes);
  template <class Function>
  void ForEachRest(Function function);
  void Advance(int count);
  void Body(int vectors);

  // Rows and columns that are folded (x86_avx2_folds.cpp).
  void Combine(const LaneFold& f, const Vec& to, const Vec& from);
  Vec FoldLanes(const LaneFold& f, const Vec& v, int lanes);
  void FoldUp(std::size_t fold);
  void StartFolds();
  void EmitFoldedRow();
  void EmitFoldedColumns();
  void EmitFoldedColumns(int vectors, int lanes);
  void EmitRegionBegin(std::size_t region);
  void EmitRegionEnd(std::size_t region);
  template <class Function>
  void ForEachPhi(std::size_t region, Function function) const {
    for (auto i = static_cast<std::size_t>(graph_.regions[region].end);
         i < graph_.nodes.size() && graph_.nodes[i].op == LaneOp::kPhi && graph_.nodes[i].bits == region; ++i)
      if (used_[i]) function(static_cast<int>(i));
  }

  // Memory (x86_avx2_memory.cpp).
  bool Runs(std::size_t stream) const {
    const LaneStream::Kind kind = graph_.streams[stream].kind;
    return kind == LaneStream::Kind::kStrided || kind == LaneStream::Kind::kInterleaved;
  }
  int Ahead() const { return static_cast<int>(vector_) * lanes_; }  // of the index
  Mem Address(std::size_t stream) const;
  Vec LoadBytes(const Mem& from, int bytes);
  void StoreBytes(const Mem& to, const Vec& v, int bytes);
  void MoveToGeneral(const Gp& to, const Vec& from, int quad = 0);
  void LoadOne(int id);
  void EmitLoad(int id);
  Vec LoadMasked(const Mem& from, int width, int mask);
  void StoreMasked(const Mem& to, const Vec& v, int width, int mask);
  void EmitStore(const LaneStore& store);
  template <class Function>
  Vec LoadApart(int width, Function from);
  void EmitGather(int id);
  void EmitStridedLoad(int id);
  void StoreStrided(const LaneStore& store, const Vec& v);

  // Elements of several parts side by side (x86_avx2_parts.cpp).
  Mem PartAddress(std::size_t stream, int element) const;
  void EmitPart(int id);
  const std::vector<Vec>& LoadParts(std::size_t stream);
  const std::vector<Vec>& EveryOther(std::size_t stream, int level, int part);
  void StoreParts(const LaneStore& store);
  Vec EveryOtherOf(int width, const Vec& a, const Vec& b, bool is_odd);
  std::pair<Vec, Vec> Alternating(int width, const Vec& a, const Vec& b);
  Vec Permuted(int width, const Vec& v, const std::array<int, 8>& places);
  template <class Function>
  Vec Merged(int width, const std::vector<Vec>& vectors, Function number);

  // Of routines (x86_avx2_places.cpp).
  void EmitPlaceOp(int id);
  Mem PlaceOf(const LaneAccess& access);
  Vec LaneMasks(int id, int lanes, int width);
  void EmitFixedLoad(int id);
  void EmitFixedStore(int id);
  void EmitSpread(int id);
  void EmitPick(int id);
  void EmitPut(int id);
  // What a sequence says, in lanes of `width` bytes.
  Vec Numbers(const LaneSequence& sequence, int width, int bytes);
  // Bytes of `from`, as many as a vector of 16 has: those of lanes that places from `first` on name, else zeros.
  Vec ShuffledBytes(const Vec& from, const LaneSequence& places, int width, int first);
  void EmitPermute(int id);

  void EmitNode(int id);
  void EmitMaskOp(int id);
  void Binary(int id, InstId op, bool commutes);
  void Unary(int id, InstId op) { Set(id, Make(WidthOf(TypeOf(id)), op, Register(At(id).a))); }
  void EmitCompare(int id);
  Vec Extremum(ElementType type, bool is_max, const Vec& a, const Vec& b);
  Vec IntExtremum(ElementType type, bool is_max, const Vec& a, const Vec& b);
  void EmitMul(int id);
  Vec Product64(const Vec& a, const Vec& b);
  void EmitScale(int id);
  void EmitDivide(int id);
  void EmitShift(int id);
  void EmitPopcount(int id);
  void EmitClz(int id);
  void EmitConversion(int id);
  Vec LongsToDoubles(const Vec& a, bool is_signed);
  Vec RoundedToOdd(const Vec& a, bool is_signed);
  void EmitFloatToInt(int id);
  Vec Not(const Vec& v, int width);
  // a > b of integers, as masks of their width.
  Vec Greater(ElementType type, const Vec& a, const Vec& b);
  Vec Blend(int width, const Vec& mask, const Operand& yes, const Vec& no);
  Vec Truncated(const Vec& v, int from, int to);
  Vec MaskOf(int id, int width);                // a pred as masks of that width
  Vec Widened(const Vec& v, int from, int to);  // masks
  Vec WordsToDoubles(const Vec& v, bool is_signed);
  Vec DoublesToWords(const Vec& v, bool is_signed);

  static constexpr std::size_t kVectors = 4;  // of the body
  const LaneGraph& graph_;
  asmjit::x86::Compiler& cc_;
  std::vector<bool> used_;
  int lanes_ = 8, mask_width_ = 4;
  bool is_block_ = false;                 // of a routine
  std::size_t vector_ = 0, vectors_ = 1;  // of the body: the one that is being made, and how many there are
  std::array<std::vector<Value>, kVectors> values_;
  std::vector<bool> fixed_;  // hoisted constants, and row values
  LaneLoop loop_;
  std::vector<Gp> row_places_;  // where the row of a gather begins that goes along it
  Vec upper_places_;            // of a gather
  std::vector<Gp> bases_, running_, starts_;
  Gp streams_, rows_, columns_, index_;
  asmjit::Label skip_;
  // Of each fold: vectors that are combined by themselves, and the row's value; which of the former come next.
  std::vector<std::array<Vec, 4>> folded_;
  std::vector<Vec> row_folds_;
  std::size_t next_folded_ = 0;
  bool folds_rest_ = false;  // of a row, into its value
  // Of interleaved streams: by level, which halves the parts, and part, the vectors that hold its elements.
  std::array<std::map<std::size_t, std::map<std::pair<int, int>, std::vector<Vec>>>, kVectors> part_vectors_;
};

}  // namespace krafla::cpu::native
