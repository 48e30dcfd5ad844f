// SPDX-License-Identifier: Apache-2.0
// What passes share: walking the computations, finding dead code, and replacing instructions.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/module.h"

namespace krafla {

// The computations that the entry reaches, callees before callers.
std::vector<Computation*> ReachableComputations(const Module& module);

// Removes the computations that the entry does not reach; whether there were any.
bool RemoveUncalled(Module& module);

// Runs `rewrite` on every instruction of the reachable computations that has the opcode, callees first. What it returns
// replaces the instruction; null leaves it.
Result<bool> RewriteAll(Module& module, Opcode opcode,
                        const std::function<Result<Instruction*>(Instruction*)>& rewrite);
// The same for the instructions that `where` holds for, before any of a computation is rewritten.
Result<bool> RewriteWhere(Module& module, const std::function<bool(const Instruction&)>& where,
                          const std::function<Result<Instruction*>(Instruction*)>& rewrite);

// Whether instructions or computations have side effects. Answers are remembered, so the module must not gain side
// effects meanwhile.
class SideEffects {
 public:
  bool Has(const Instruction& instruction);
  bool Has(const Computation& computation);

 private:
  std::unordered_map<const Computation*, bool> known_;
};

// Removes what neither the root nor a side effect needs; parameters stay. Control edges through what is removed are
// kept.
bool RemoveDead(Computation& computation, SideEffects& effects);

// `shape` without dynamic dimensions anywhere, neither in the operands.
bool IsStatic(const Instruction& instruction);

// Instructions that stand in for `origin`: in its computation, with its location and metadata. Functions that need
// no new instruction return the one that serves.
class Rewriter {
 public:
  explicit Rewriter(const Instruction& origin) : origin_(origin), computation_(*origin.parent()) {}

  Instruction* Add(Opcode opcode, Shape shape, std::vector<Instruction*> operands, Attributes attributes = {},
                   std::vector<Computation*> called = {});
  // The shape follows from the operands.
  Result<Instruction*> Infer(Opcode opcode, std::vector<Instruction*> operands, Attributes attributes = {},
                             std::vector<Computation*> called = {}, const Shape* declared = nullptr);
  Instruction* Unary(Opcode opcode, Instruction* x) { return Add(opcode, x->shape(), {x}); }
  // The result has the shape of `a`.
  Instruction* Binary(Opcode opcode, Instruction* a, Instruction* b) { return Add(opcode, a->shape(), {a, b}); }
  Instruction* Compare(ComparisonDirection direction, Instruction* a, Instruction* b);
  Instruction* Select(Instruction* p, Instruction* a, Instruction* b) {
    return Add(Opcode::kSelect, a->shape(), {p, a, b});
  }
  Instruction* Convert(Instruction* x, ElementType type);
  // real or imag of a complex array.
  Instruction* Part(Opcode opcode, Instruction* x) {
    return Add(opcode, x->shape().WithElementType(RealPart(x->shape().element_type())), {x});
  }
  Instruction* Reshape(Instruction* x, std::span<const int64_t> dims);
  Instruction* Reshape(Instruction* x, std::initializer_list<int64_t> dims) {
    return Reshape(x, std::span<const int64_t>(dims.begin(), dims.size()));
  }
  // Result dimension i is operand dimension permutation[i].
  Instruction* Transpose(Instruction* x, std::span<const int64_t> permutation);
  // Operand dimension i becomes mapping[i]. `dims` must be those of a Shape that exists, in any order.
  Instruction* Broadcast(Instruction* x, std::span<const int64_t> dims, std::span<const int64_t> mapping);
  Instruction* Slice(Instruction* x, SliceAttributes attributes);
  Instruction* Constant(Literal literal);
  // A scalar constant, broadcast to `dims`.
  Instruction* Splat(Literal scalar, std::span<const int64_t> dims);
  Instruction* Tuple(std::vector<Instruction*> elements);
  Instruction* Element(Instruction* tuple, int64_t index);
  // x reduced over `dimensions` by `opcode` from `init`.
  Result<Instruction*> Reduce(Opcode opcode, Instruction* x, Literal init, std::span<const int64_t> dimensions);

 private:
  const Instruction& origin_;
  Computation& computation_;
};

// An array shape known to be valid because a shape of at least its count and as wide a type exists already.
Shape ArrayShape(ElementType type, std::span<const int64_t> dims);
inline Shape ArrayShape(ElementType type, const Dims& dims) { return ArrayShape(type, dims.span()); }

// Replaces every use of `old` by `with`, whose shape must be compatible.
void Replace(Instruction* old, Instruction* with);

// Tries `simplify` on every instruction with static shapes, operands first, again on what replaced it, and sweeps
// until a sweep changes nothing (or often enough). `simplify` returns a replacement or null.
using Simplifier = Instruction* (*)(Instruction* instruction);
Result<bool> SweepModule(Module& module, Simplifier simplify);

// The scalar that all elements of `x` have, where a constant says so: x is a scalar constant, or a broadcast of one.
const Literal* SplatOf(const Instruction* x);

// Copies the instructions of `from` other than parameters into `into`, with `arguments` for the parameters. Returns
// the copy of its root.
Instruction* InlineInto(Computation& into, const Computation& from, std::span<Instruction* const> arguments);
// A copy of `computation` in its module. What it calls is shared.
Computation* CloneComputation(const Computation& computation);

}  // namespace krafla
