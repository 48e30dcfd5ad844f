// SPDX-License-Identifier: Apache-2.0
// ElementProgram: what one point of an iteration space computes. A straight-line SSA list of scalar nodes, written
// once by the planner and run twice: by the CPU's block interpreter and by the SPIR-V code generator. Reshapes,
// broadcasts, slices, transposes, pads are gone from it: they have become index expressions and masks.
//
// Compute types are few: pred, s32, u32, s64, u64, f32, f64. Narrower types exist only in storage: a load widens
// (s8 -> s32, u4 -> u32, f16 -> f32), a store narrows, and after each arithmetic node on a narrow type the builder puts
// a kWrap or kRound node, so that a node's value is always one that its HLO type can hold. Complex numbers are pairs
// of real nodes; a c64 buffer is seen as f32 with twice the elements.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/attributes.h"
#include "ir/opcode.h"
#include "krafla/element_type.h"
#include "plan/index_expr.h"

namespace krafla::plan {

using NodeId = int;
inline constexpr NodeId kNoNode = -1;

enum class NodeOp : uint8_t {
  kConstant,  // bits
  kIndex,     // s32: the value of `index`
  kParam,     // parameter number bits: a reduced value, an accumulator, a comparator's argument
  kLoad,      // element `index` of `buffer`, stored as `storage`; under a mask: 0 where it is false, and no access
  kHlo,       // the elementwise HLO op `opcode` on operands of the compute type (below)
  kCompare,   // a `direction` b -> pred; floats: ordered, NE unordered; total_order: by XLA's total order of floats
  kConvert,   // between compute types as XLA converts: float -> int saturates, NaN -> 0; -> pred: x != 0; ints wrap
  kBitcast,   // between compute types of one width
  kRound,     // f32 or f64 operand -> f32: the nearest value of the narrow float `storage`
  kWrap,      // s32/u32: wrapped to the narrow integer `storage` (s8, u8, s16, u16, s4, ...)
  kEncode,    // f32 -> u32: the bits of the narrow float `storage`
  kDecode,    // u32 -> f32
  kReducePrecision,  // f32/f64; bits = exponent_bits << 32 | mantissa_bits
};
// kHlo opcodes that reach a program: abs add and atan2 cbrt ceil clamp cosine count-leading-zeros divide erf
// exponential exponential-minus-one floor is-finite log log-plus-one logistic maximum minimum mulhi multiply negate not
// or popcnt power remainder round-nearest-afz round-nearest-even rsqrt select shift-left shift-right-arithmetic
// shift-right-logical sign sine sqrt subtract tan tanh xor, and acos acosh asin asinh atanh cosh sinh.
// On narrow integers the builder has already turned counts, shifts and mulhi into 32-bit ones (clz of a u8 subtracts
// 24), so every kHlo node means exactly the op of its compute type; `storage` names the HLO type for reports only.

struct Node {
  NodeOp op = NodeOp::kConstant;
  Opcode opcode = Opcode::kAdd;                              // kHlo
  ElementType type = ElementType::kF32;                      // compute type of the value
  ElementType storage = ElementType::kInvalid;               // see NodeOp; kHlo: the HLO element type
  ComparisonDirection direction = ComparisonDirection::kEq;  // kCompare
  bool total_order = false;                                  // kCompare
  std::array<NodeId, 3> operands = {kNoNode, kNoNode, kNoNode};
  NodeId mask = kNoNode;  // kLoad
  int buffer = -1;        // kLoad
  IndexId index = 0;      // kLoad, kIndex
  uint64_t bits = 0;      // kConstant: the value in its compute type, low bits
  uint64_t depends = 0;   // bit d: varies with iteration dimension d
  friend bool operator==(const Node&, const Node&) = default;
};

// A buffer as a program sees it: an array of elements of type `storage`.
struct ProgramBuffer {
  ElementType storage = ElementType::kF32;  // never complex: such an array is of its real type, with twice the elements
  int64_t element_count = 0;
  bool written = false;
  friend bool operator==(const ProgramBuffer&, const ProgramBuffer&) = default;
};

struct Store {
  int buffer = -1;
  IndexId index = 0;
  NodeId node = kNoNode;
  ElementType storage = ElementType::kF32;
  NodeId mask = kNoNode;  // kNoNode: always
  friend bool operator==(const Store&, const Store&) = default;
};

struct ElementProgram {
  IndexSpace space;         // space.dims(): the iteration space, row-major, last fastest
  std::vector<Node> nodes;  // operands come before users
  std::vector<ProgramBuffer> buffers;
  std::vector<Store> stores;
  std::vector<NodeId> results;  // of programs that hand values on (reduction inputs, combiners)

  // One line for each node, for tests and `krafla opt --stage plan`.
  std::string ToString() const;
  friend bool operator==(const ElementProgram&, const ElementProgram&) = default;
};

// Makes the nodes of a program: folds the constants of index arithmetic, gives equal nodes one id, and maintains
// Node::depends.
class ProgramBuilder {
 public:
  explicit ProgramBuilder(std::span<const int64_t> iteration_dims) { program_.space = IndexSpace(iteration_dims); }

  IndexSpace& space() { return program_.space; }
  const Node& node(NodeId id) const { return program_.nodes[static_cast<std::size_t>(id)]; }

  int AddBuffer(ElementType storage, int64_t element_count, bool written);

  NodeId Constant(ElementType compute_type, uint64_t bits);
  NodeId ConstantFloat(ElementType compute_type, double value);  // f32, f64
  NodeId ConstantInt(ElementType compute_type, int64_t value);
  // The value that a narrow float with these bits has.
  NodeId DecodeConstant(ElementType narrow_float, uint32_t bits);
  NodeId Index(IndexId index);
  NodeId Param(ElementType compute_type, int number, uint64_t depends);
  NodeId Load(int buffer, ElementType storage, IndexId index, NodeId mask = kNoNode);
  // An elementwise operation of the HLO type `hlo_type`; the result is wrapped or rounded where that type is narrow.
  NodeId Hlo(Opcode opcode, ElementType hlo_type, std::span<const NodeId> operands);
  NodeId Hlo(Opcode opcode, ElementType hlo_type, std::initializer_list<NodeId> operands) {
    return Hlo(opcode, hlo_type, std::span<const NodeId>(operands.begin(), operands.size()));
  }
  NodeId Compare(ComparisonDirection direction, NodeId a, NodeId b, bool total_order = false);
  // HLO's convert between real types.
  NodeId Convert(NodeId a, ElementType from, ElementType to);
  NodeId BitcastConvert(NodeId a, ElementType from, ElementType to);  // equal widths
  NodeId ReducePrecision(NodeId a, ElementType hlo_type, int64_t exponent_bits, int64_t mantissa_bits);
  NodeId Select(NodeId pred, NodeId on_true, NodeId on_false);
  NodeId And(NodeId a, NodeId b);  // preds; kNoNode counts as true
  // A node of another program, whose operands, mask and index are of this one already. What is known by now of its
  // operands may make it another node.
  NodeId Again(Node node);
  // The pred lo <= index < hi; kNoNode where the ranges prove it true.
  NodeId InRange(IndexId index, int64_t lo, int64_t hi);
  // An integer node (any integer compute type) clamped into [lo, hi], as an index.
  IndexId ClampedIndex(NodeId node, int64_t lo, int64_t hi);

  // A narrow float that was only loaded, perhaps selected, and is stored again is stored bit by bit, without a
  // conversion there and back.
  void AddStore(Store store);
  void AddResult(NodeId node) { program_.results.push_back(node); }
  // Ends the program, without the nodes that no store and no result needs.
  ElementProgram Finish() &&;

 private:
  NodeId ReduceHalfPrecision(NodeId a, int64_t exponent_bits, int64_t mantissa_bits);
  NodeId Intern(Node node);
  // The range of the integers that a node may be, where a pred counts as 0 or 1; for other types every value.
  const Interval& RangeOf(NodeId id) const { return ranges_[static_cast<std::size_t>(id)]; }
  Interval MakeRange(const Node& node) const;
  Interval RangeOfHlo(const Node& node) const;
  // A node that the ranges of the operands prove to be equal to this one, which is then not made.
  std::optional<NodeId> Known(const Node& node);
  bool IsTrue(NodeId id) const { return node(id).op == NodeOp::kConstant && node(id).bits != 0; }
  NodeId Wrap(NodeId a, ElementType narrow);
  NodeId Round(NodeId a, ElementType narrow);
  // The node of the bits of `id`, if that is a value of type `narrow` that is only moved.
  std::optional<NodeId> CodeOf(NodeId id, ElementType narrow);
  std::optional<NodeId> NarrowInteger(Opcode opcode, ElementType type, std::span<const NodeId> operands);

  ElementProgram program_;
  std::vector<Interval> ranges_;  // by node
  std::vector<NodeId> table_;     // an open hash table of the nodes; kNoNode: free
};

// A new s32 node: a constant, or what an operation makes of two others.
NodeId AppendS32(ElementProgram& program, int64_t value);
NodeId AppendS32(ElementProgram& program, Opcode opcode, NodeId a, NodeId b);

// Buffer b of the loads and stores becomes to(b).
template <typename To>
void RenumberBuffers(ElementProgram& program, To to) {
  for (Node& n : program.nodes)
    if (n.op == NodeOp::kLoad) n.buffer = to(n.buffer);
  for (Store& s : program.stores) s.buffer = to(s.buffer);
}

// For each node, whether a store or a result needs it, indices included.
std::vector<bool> NeededNodes(const ElementProgram& program);
// Finds Node::depends of all nodes but parameters again, where indices or nodes have been changed.
void SetDepends(ElementProgram& program);
// Puts a constant in the place of every node that is not needed; the ids of all nodes stay as they are.
void DropUnneededNodes(ElementProgram& program);
// The bits of a constant in the type that it is computed in: those of f16 and bf16 are nodes that decode them. Nothing
// for any other node.
std::optional<uint64_t> ConstantBits(const ElementProgram& program, NodeId id);
// Of an f32, f16 or bf16.
std::optional<float> FloatConstant(const ElementProgram& program, NodeId id);
// The index expressions that a program evaluates: those of loads, stores and index nodes, and those inside their atoms.
std::vector<IndexId> UsedExprs(const ElementProgram& program);

// The type in which a value of the real type `hlo_type` is computed: pred, s32, u32, s64, u64, f32 or f64.
ElementType ComputeType(ElementType hlo_type);
inline bool IsNarrow(ElementType hlo_type) { return ComputeType(hlo_type) != hlo_type; }

}  // namespace krafla::plan
