// SPDX-License-Identifier: Apache-2.0
// Makes lane graphs: equal nodes are one, and NaNs are settled where their bits are seen.
#pragma once

#include <bit>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "cpu_fallback/kernels/block_ops.h"
#include "cpu_fallback/native/lane_graph.h"
#include "numerics/formats.h"

namespace krafla::cpu::native {

class LaneBuilder {
 public:
  // A value of the program, which is a node and what is known of the NaNs in it.
  //   kRaw      a NaN has the bits that it must have
  //   kPending  a NaN may have any bits, and is to be the NaN
  //   kSigned   a NaN may have any bits but its sign's, and is to be the quiet one of that sign
  // An operation on numbers takes either: it gives a NaN for any NaN, and what it gives is pending itself. What shows
  // the bits of its operand (a store, a bitcast, the sign, total order, a conversion's sign) takes it settled; a select
  // of nothing but pending values, or of ones that hold no NaN but the NaN, is pending as a whole, and of nothing but
  // signed ones signed. So every value that is seen is the one that settling each operation's result would have given.
  enum class Nans : uint8_t { kRaw, kPending, kSigned };
  struct Value {
    int node = -1;
    Nans nans = Nans::kRaw;
  };

  LaneGraph& graph() { return graph_; }
  const LaneGraph& graph() const { return graph_; }
  const LaneNode& node(int id) const { return graph_.nodes[static_cast<std::size_t>(id)]; }
  ElementType TypeOf(int id) const { return node(id).type; }

  // In a routine: the lanes of what is added from here on.
  void UseLanes(int lanes) { lanes_ = lanes; }
  int lanes() const { return lanes_; }

  int AddStream(LaneStream stream);
  int Add(LaneNode node);
  int Add(LaneOp op, ElementType type, int a, int b = -1, int c = -1) { return Add({op, type, a, b, c, 0}); }
  int Constant(ElementType type, uint64_t bits);
  int ConstantOf(ElementType type, double value);  // of any number type
  int Compare(LaneOp op, int a, int b) { return Add(op, ElementType::kPred, a, b); }
  int Select(int p, int t, int f) { return Add(LaneOp::kSelect, TypeOf(t), p, t, f); }
  int Bitcast(int a, ElementType type);
  // In a routine: the number of a sequence.
  uint64_t SequenceNumber(const LaneSequence& sequence);
  int Settle(int a) { return Add(LaneOp::kSettle, TypeOf(a), a); }

  // Nodes between the two run only where the condition holds for some lane.
  void BeginRegion(int condition);
  void EndRegion(std::span<const int> taken, std::span<const int> otherwise, std::span<int> phis);

  // The bits of a value as they are to be.
  int Seen(Value v);
  // As `type`: values of one width share registers in a block program.
  Value As(Value v, ElementType type);

  // What BlockKey says on these operands; nothing: it has no lane operations.
  std::optional<Value> Apply(const BlockKey& key, uint64_t bits, std::span<const Value> operands);
  // Between storage and compute type.
  std::optional<Value> Widen(int stored, ElementType storage);
  std::optional<int> Narrow(Value value, ElementType storage, bool rounds);
  // A u32 of at most 2^31 by a number of 1 to 2^31.
  int QuotientBelow2To31(int x, uint64_t divisor);

 private:
  struct Hash {
    std::size_t operator()(const LaneNode& n) const {
      uint64_t h = (static_cast<uint64_t>(n.op) << 16 | static_cast<uint64_t>(n.type) << 8 | n.lanes) +
                   n.bits * 0x9e3779b97f4a7c15u;
      for (int o : {n.a, n.b, n.c}) h = (h ^ static_cast<uint64_t>(o + 1)) * 0xff51afd7ed558ccdu, h ^= h >> 29;
      return static_cast<std::size_t>(h);
    }
  };
  std::optional<Value> Float(const BlockKey& key, std::span<const Value> x);
  std::optional<Value> Integer(const BlockKey& key, std::span<const Value> x);
  std::optional<Value> Predicate(const BlockKey& key, std::span<const Value> x);
  std::optional<Value> Compared(const BlockKey& key, std::span<const Value> x);
  int ComparedPreds(ComparisonDirection direction, int a, int b);
  std::optional<Value> Converted(ElementType to, Value x);
  std::optional<Value> Rounded(Value x, ElementType storage);
  std::optional<int> HalfNumber(int x);
  int Half(int x);
  std::optional<Value> DecodedAsHalf(int code, const MiniFloat& format);
  Value Decoded(int code, ElementType storage);
  Value RoundedToOdd(Value x);
  Value DoubleRoundedToBf16(Value x);
  int RoundedToBf16(int x);
  bool HasShortNans(int id, int depth = 4) const;
  int TotalOrderKey(int x);
  int QuietNanOf(int x, int number);
  uint64_t Largest(int id, int depth) const;
  std::optional<int> Simplified(const LaneNode& node) const;
  std::optional<uint64_t> Folded(const LaneNode& node) const;
  std::optional<LaneNode> OrderedSelection(const LaneNode& node) const;
  std::optional<int> DecidedBySelection(const LaneNode& node);
  static bool IsTrue(LaneOp op, ElementType type, uint64_t a, uint64_t b);  // of constants
  bool IsNumber(int id) const;                                              // never a NaN
  bool HoldsNoNan(int id) const;                                            // but the NaN
  bool IsOfAByte(int id) const;
  Value NarrowShift(Opcode opcode, ElementType type, int x, int by);
  std::optional<Value> Extremum(Opcode opcode, ElementType type, Value x, Value y);
  int Divided(Opcode opcode, ElementType type, int x, int y, int width);
  int Quotient(ElementType type, int x, uint64_t divisor);
  int SignedQuotient(int x, int32_t divisor);
  int FloatQuotient(ElementType type, int a, int b);

  LaneGraph graph_;
  std::unordered_map<LaneNode, int, Hash> known_;
  std::unordered_set<int> fits_bf16_;  // floats of a byte or less, which bf16 has too
  std::vector<LaneNode> in_region_;
  bool is_region_open_ = false;
  int lanes_ = 0;
};

// Of floats of a byte or less; those of 16 bits have instructions, or shorter ways. Null: another type.
const MiniFloat* ByteFormat(ElementType storage);
// The formulas of numerics as lane operations, settled; nothing: there is none, or it has loops.
std::optional<int> ApplyFormula(LaneBuilder& builder, Opcode opcode, ElementType type, std::span<const int> operands);
// An f32 as a code of a narrow format, in a u32, and back; HLO's reduce-precision of an f32. NaNs are as they are to be
// seen.
int EncodeAs(LaneBuilder& builder, int x, const MiniFloat& format);
int DecodeFrom(LaneBuilder& builder, int code, const MiniFloat& format);
int ReducedPrecision(LaneBuilder& builder, int x, int exponent_bits, int mantissa_bits);

}  // namespace krafla::cpu::native
