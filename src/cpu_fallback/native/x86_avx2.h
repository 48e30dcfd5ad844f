// SPDX-License-Identifier: Apache-2.0
// AVX2, FMA and F16C: as many lanes as the widest type has in 32 bytes. A pred is a vector of masks as wide as the
// widest type. There are no masked accesses to bytes: the function does whole vectors, and its caller brings the last
// one (native_code.cpp).
#pragma once

#include <asmjit/x86.h>
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "cpu_fallback/native/x86_emitter.h"
#include "numerics/nan.h"

namespace krafla::cpu::native {

class Avx2Emitter {
 public:
  Avx2Emitter(const LaneGraph& graph, asmjit::x86::Compiler& cc) : graph_(graph), cc_(cc), used_(graph.Used()) {
    lanes_ = LanesOf(X86Target::kAvx2, graph);
    mask_width_ = 32 / lanes_;
    values_.resize(graph.nodes.size());
    fixed_.resize(graph.nodes.size(), false);
  }
  void Run();

 private:
  using Vec = asmjit::x86::Vec;
  using Mem = asmjit::x86::Mem;
  using Gp = asmjit::x86::Gp;
  using InstId = asmjit::InstId;
  using Operand = asmjit::Operand;
  struct Value {
    Vec v;
    bool is_set = false;
  };

  const LaneNode& At(int id) const { return graph_.nodes[static_cast<std::size_t>(id)]; }
  ElementType TypeOf(int id) const { return At(id).type; }
  // Of a pred: its masks.
  int WidthOf(ElementType type) const { return type == ElementType::kPred ? mask_width_ : StorageBytes(type); }
  Value& ValueOf(int id) { return values_[static_cast<std::size_t>(id)]; }
  void Set(int id, const Vec& v) { ValueOf(id) = {v, true}; }

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
  Mem Constant(uint64_t bits, int width);
  Vec Load(uint64_t bits, int width);
  Vec Register(int id);
  Operand RegisterOrMemory(int id);
  void HoistConstants();

  void StartRow();
  void Body();
  void EmitRegionBegin(std::size_t region);
  void EmitRegionEnd(std::size_t region);
  template <class Function>
  void ForEachPhi(std::size_t region, Function function) const {
    for (auto i = static_cast<std::size_t>(graph_.regions[region].end);
         i < graph_.nodes.size() && graph_.nodes[i].op == LaneOp::kPhi && graph_.nodes[i].bits == region; ++i)
      if (used_[i]) function(static_cast<int>(i));
  }

  Mem Address(std::size_t stream) const;
  void LoadOne(int id);
  void EmitLoad(int id);
  void EmitStore(const LaneStore& store);
  void StoreVector(const Mem& to, const Vec& v, int width);

  void EmitNode(int id);
  void Binary(int id, InstId op, bool commutes);
  void Unary(int id, InstId op) { Set(id, Make(WidthOf(TypeOf(id)), op, Register(At(id).a))); }
  void EmitCompare(int id);
  void EmitExtremum(int id);
  void EmitIntExtremum(int id);
  void EmitMul(int id);
  void EmitDivide(int id);
  void EmitShift(int id);
  void EmitConversion(int id);
  void EmitFloatToInt(int id);
  Vec Not(const Vec& v, int width);
  // a > b of integers, as masks of their width.
  Vec Greater(ElementType type, const Vec& a, const Vec& b);
  Vec Blend(int width, const Vec& mask, const Operand& yes, const Vec& no);
  Vec Truncated(const Vec& v, int from, int to);
  Vec MaskOf(int id, int width) { return Truncated(Register(id), mask_width_, width); }
  Vec Masks(const Vec& v, int width);  // of `width` as preds have them
  Vec WordsToDoubles(const Vec& v, bool is_signed);
  Vec DoublesToWords(const Vec& v, bool is_signed);

  const LaneGraph& graph_;
  asmjit::x86::Compiler& cc_;
  std::vector<bool> used_;
  int lanes_ = 8, mask_width_ = 4;
  std::vector<Value> values_;
  std::vector<bool> fixed_;
  std::vector<Gp> bases_;
  Gp streams_, rows_, columns_, index_;
  asmjit::Label skip_;
};

}  // namespace krafla::cpu::native
