// SPDX-License-Identifier: Apache-2.0
// Turns HLO into element programs: the value of one element of an instruction becomes nodes over an index. Data
// movement becomes index arithmetic, elementwise operations become nodes, and values from outside of the kernel become
// loads.
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

// The value of one element: a node, or two nodes for a complex number.
struct ScalarValue {
  NodeId re = kNoNode, im = kNoNode;
};

// Makes the parts of the value results of the program.
inline void AddResults(ProgramBuilder& builder, const ScalarValue& v) {
  builder.AddResult(v.re);
  if (v.im != kNoNode) builder.AddResult(v.im);
}

// Whether ProgramEmitter can write this instruction as nodes, given its operands.
bool IsEmittable(const Instruction& instruction);

class ProgramEmitter {
 public:
  // Is asked first for every value, and gives a load where the value lies outside of the kernel, a param where the hero
  // computes it, and nullopt where it is to be emitted from its operands. `index` has one entry for each dimension and
  // may be out of range where the mask is false.
  using Boundary = std::function<Result<std::optional<ScalarValue>>(ProgramEmitter&, const ValueRef&,
                                                                    std::span<const IndexId> index, NodeId mask)>;

  // Without a boundary no value lies outside, as in computations on given parameters.
  explicit ProgramEmitter(ProgramBuilder& builder, Boundary boundary = nullptr)
      : b_(builder), boundary_(std::move(boundary)) {}

  // The element `index` of `v`. Where the pred `mask` is false nothing is read and the value is unspecified; kNoNode
  // stands for true.
  Result<ScalarValue> Emit(const ValueRef& v, std::span<const IndexId> index, NodeId mask = kNoNode);

  // A load of element `index` of an array of `shape` that lies row-major in buffer `buffer` of the program. The buffer
  // of a complex array is of its real type.
  ScalarValue LoadElement(const Shape& shape, int buffer, std::span<const IndexId> index, NodeId mask);
  // Stores `value` as element `index` of a row-major array of `shape`.
  void StoreElement(const Shape& shape, int buffer, std::span<const IndexId> index, const ScalarValue& value,
                    NodeId mask = kNoNode);

  // Element `position` of a literal.
  ScalarValue LiteralElement(const Literal& literal, int64_t position);
  // The results of a computation on scalars, or of one that does the same to every element, for given parameters; a
  // tuple as root gives several values.
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
