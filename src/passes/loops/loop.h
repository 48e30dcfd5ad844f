// SPDX-License-Identifier: Apache-2.0
// While loops whose state is a tuple that the body takes apart and builds again.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "passes/rewrite.h"

namespace krafla {

class Loop {
 public:
  // Nothing where the loop is not of the form: a tuple for a state, which condition and body use by element only, and
  // bodies that end in a tuple.
  static std::optional<Loop> Of(Instruction* instruction);

  Instruction* instruction() const { return while_; }
  Computation& condition() const { return *while_->called(0); }
  Computation& body() const { return *while_->called(1); }
  std::size_t size() const { return while_->shape().tuple_elements().size(); }
  // What element `n` starts as; null where the initial state is not a tuple instruction.
  Instruction* Initial(std::size_t n) const;
  // What element `n` is after an iteration.
  Instruction* Next(std::size_t n) const { return body().root()->operand(n); }
  // The element that a get-tuple-element of the body's or the condition's parameter names.
  static std::optional<std::size_t> ElementOf(const Instruction& i);
  // The body passes element `n` on as it is.
  bool IsInvariant(std::size_t n) const;
  // All uses of the loop's result are of its elements.
  bool ResultTakenApart() const;

  // Replaces the loop by one with the elements `kept` (indices, in order) of the old state followed by `added`, values
  // from outside which the body passes on. ResultTakenApart must hold; uses of elements not kept must be gone.
  // Returns the loop, which this object then describes, the body's new elements, and what is unused now and is
  // the caller's to remove (not left to RemoveDead, which would keep a loop whose body has an effect).
  struct Rebuilt {
    Instruction* instruction;
    std::vector<Instruction*> added;
    std::vector<Instruction*> gone;
  };
  Rebuilt Rebuild(const std::vector<std::size_t>& kept, const std::vector<Instruction*>& added);

 private:
  explicit Loop(Instruction* instruction) : while_(instruction) {}
  Instruction* while_;
};

// What bodies and conditions of new loops are made of: a number of s32, an element of the state or of another tuple,
// and the condition that the state's first element is below `turns`; without one, below its last element.
Instruction* LoopNumber(Computation& computation, int64_t value);
Instruction* LoopElement(Computation& computation, Instruction* tuple, std::size_t n);
Computation* AddTurnsCondition(Module& module, std::string_view name, const Shape& state, std::optional<int64_t> turns);

// The trip count, where a counter with known start, step and bound alone decides it.
std::optional<int64_t> TripCount(const Instruction& instruction);

// The state element that has the number of the turn, from 0 on, where it alone decides how many turns there are.
std::optional<std::size_t> TurnNumber(const Instruction& instruction);

// Whether a dynamic-slice or dynamic-update-slice, whose start indices begin with operand `first`, is of one row `row`
// of its array: the other start indices, of whole dimensions, are 0 whatever they say.
bool IsRowAt(const Instruction& slice, std::size_t first, const Dims& row);

// Whether an array is made of indices and constant numbers alone, in so few steps that it is computed where it is read.
bool IsMadeOfIndices(const Instruction& value);

// The while instructions of a computation, in order.
std::vector<Instruction*> LoopsOf(const Computation& computation);

// Runs `rewrite` on every while instruction of the reachable computations, those of inner loops first: it says whether
// it changed something, and adds to `gone` what is unused now. That is removed with what is dead, and the computation
// is sorted.
Result<bool> RewriteLoops(
    Module& module, SideEffects& effects,
    const std::function<Result<bool>(Instruction* loop, std::vector<Instruction*>& gone)>& rewrite);

}  // namespace krafla
