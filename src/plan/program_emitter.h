// SPDX-License-Identifier: Apache-2.0
// From HLO to element programs: the value of one element of an instruction, as nodes over an index. Data movement
// becomes index arithmetic, elementwise ops become nodes, everything below the kernel's borders becomes loads.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "ir/module.h"
#include "krafla/status.h"
#include "plan/element_program.h"
#include "plan/value_ref.h"

namespace krafla::plan {

// One element: a node, or two for a complex number.
struct ScalarValue {
  NodeId re = kNoNode, im = kNoNode;
};

// Its parts as results of the program.
inline void AddResults(ProgramBuilder& builder, const ScalarValue& v) {
  builder.AddResult(v.re);
  if (v.im != kNoNode) builder.AddResult(v.im);
}

// Whether ProgramEmitter can write this instruction as nodes, given its operands.
bool IsEmittable(const Instruction& instruction);

class ProgramEmitter {
 public:
  // Asked first for every value: what lies outside the kernel (a load), or what its hero computes (a param).
  // nullopt: emit it from its operands. `index` has an entry a dimension; under a mask it may be out of range.
  using Boundary = std::function<Result<std::optional<ScalarValue>>(ProgramEmitter&, const ValueRef&,
                                                                    std::span<const IndexId> index, NodeId mask)>;

  // Without a boundary nothing lies outside: of computations on given parameters.
  explicit ProgramEmitter(ProgramBuilder& builder, Boundary boundary = nullptr)
      : b_(builder), boundary_(std::move(boundary)) {}

  // `mask`: a pred; where it is false nothing is read and the value is unspecified. kNoNode: always.
  Result<ScalarValue> Emit(const ValueRef& v, std::span<const IndexId> index, NodeId mask = kNoNode);

  // A load of `v` (row-major in program buffer `buffer`; for complex values that buffer is of the real type).
  ScalarValue LoadElement(const Shape& shape, int buffer, std::span<const IndexId> index, NodeId mask);
  // Stores `value` as element `index` of a row-major array of `shape`.
  void StoreElement(const Shape& shape, int buffer, std::span<const IndexId> index, const ScalarValue& value,
                    NodeId mask = kNoNode);

  // Element `position` of a literal.
  ScalarValue LiteralElement(const Literal& literal, int64_t position);
  // A computation on scalars, or one that does the same to every element, on given parameters; a tuple root gives
  // several values.
  Result<std::vector<ScalarValue>> EmitComputation(const Computation& computation,
                                                   std::span<const ScalarValue> parameters);
  ProgramBuilder& builder() { return b_; }

 private:
  Result<ScalarValue> EmitInstruction(const Instruction& i, std::span<const IndexId> index, NodeId mask);
  Result<ScalarValue> EmitElementwise(const Instruction& i, std::span<const IndexId> index, NodeId mask);
  Result<ScalarValue> EmitComplex(const Instruction& i, std::span<const ScalarValue> operands);
  NodeId EmitStochasticConvert(NodeId value, ElementType from, NodeId random, ElementType to);
  Result<ScalarValue> EmitWidthChange(const Instruction& i, std::span<const IndexId> index, NodeId mask);
  Result<ScalarValue> EmitConcatenate(const Instruction& i, std::span<const IndexId> index, NodeId mask);
  Result<ScalarValue> EmitPad(const Instruction& i, std::span<const IndexId> index, NodeId mask);
  Result<ScalarValue> EmitGather(const Instruction& i, std::span<const IndexId> index, NodeId mask);
  Result<ScalarValue> EmitDynamicUpdateSlice(const Instruction& i, std::span<const IndexId> index, NodeId mask);
  Result<ScalarValue> Operand(const Instruction& i, std::size_t n, std::span<const IndexId> index, NodeId mask);
  std::vector<IndexId> InRange(std::span<const IndexId> index, const Shape& shape);
  ScalarValue SelectValue(NodeId pred, const ScalarValue& a, const ScalarValue& b, ElementType type);

  struct Key {
    ValueRef value;
    std::vector<IndexId> index;
    NodeId mask;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& k) const {
      std::size_t h = ValueRefHash()(k.value) + static_cast<std::size_t>(k.mask) * 131;
      for (IndexId i : k.index) h = h * 1000003 + static_cast<std::size_t>(i);
      return h;
    }
  };

  ProgramBuilder& b_;
  Boundary boundary_;
  std::unordered_map<Key, ScalarValue, KeyHash> memo_;
};

// The start of a dynamic-slice or dynamic-update-slice in each dimension, clamped as XLA clamps.
Result<std::vector<IndexId>> EmitStarts(ProgramEmitter& emitter, const Instruction& i, std::size_t first_operand,
                                        std::span<const int64_t> operand_dims, std::span<const int64_t> sizes,
                                        NodeId mask);

}  // namespace krafla::plan
