// SPDX-License-Identifier: Apache-2.0
// What the makers of random operations share: a pool of values and ways to come by one of a given type and size.
#pragma once

#include <vector>

#include "ir/builder.h"
#include "random_graph.h"

namespace krafla::fuzz {

inline Instruction* Compared(Computation& c, Instruction* x, Instruction* y, ComparisonDirection direction,
                             ComparisonType type = ComparisonType::kDefault) {
  auto made = AddInferred(c, Opcode::kCompare, {x, y}, CompareAttributes{direction, type});
  return made ? *made : nullptr;
}

inline Instruction* Binary(Computation& c, Opcode opcode, Instruction* x, Instruction* y) {
  return *AddInferred(c, opcode, {x, y});
}
inline bool IsStaticArray(const Instruction* value) {
  return value != nullptr && value->shape().IsArray() && !value->shape().IsDynamic();
}

class GraphMaker {
 public:
  GraphMaker(Module& module, uint64_t seed, const RandomGraphOptions& options);
  void Make();

 private:
  using Ops = std::vector<Instruction*>;

  // random_graph.cpp: values.
  ElementType RandomType();
  Dims RandomDims(int64_t max_rank);
  // The instruction, or null where its shape rule refuses it.
  Instruction* Add(Opcode opcode, Ops operands, Attributes attributes = {}, std::vector<Computation*> called = {},
                   const Shape* declared = nullptr);
  Instruction* AddOf(Opcode opcode, ElementType type, std::span<const int64_t> dims, Ops operands,
                     Attributes attributes = {});
  Instruction* Keep(Instruction* made);  // into the pool
  Instruction* Any(int64_t min_rank = 0);
  Instruction* AnyOf(uint32_t types, int64_t min_rank = 0);
  Instruction* Fresh(ElementType type, std::span<const int64_t> dims);
  Instruction* Like(ElementType type, std::span<const int64_t> dims);
  Instruction* Like(const Instruction* other) { return Like(other->shape().element_type(), other->shape().dims()); }
  Instruction* ScalarInteger();
  Instruction* As(Instruction* value, ElementType type);
  Instruction* Constant(ElementType type, double value) { return AddScalarConstant(*c_, type, value); }
  Instruction* Filled(const Shape& like, double value);
  // Without NaNs, whole, at most `bound` away from zero.
  Instruction* Whole(Instruction* value, int bound);
  Instruction* WithoutNan(Instruction* value);
  // The whole numbers of `value` with no negative zero.
  Instruction* PlainZero(Instruction* value);
  int ExactBound(ElementType type, int64_t terms);  // 0: no bound makes a sum of so many products exact
  Instruction* Exact(Instruction* value, int64_t terms);
  // Such an array of these dimensions behind at most so many slices, transposes, broadcasts and reshapes.
  Instruction* ExactView(ElementType type, const Dims& dims, int64_t terms, int views);
  Dims Permutation(int64_t n);
  Computation* Reducer(Opcode opcode, ElementType type);
  Computation* Less(const std::vector<ElementType>& types, bool descending);
  // An opcode with its identity that `type` reduces by to the same bits in any order; kCopy: none.
  Opcode ReducingOpcode(ElementType type);
  Instruction* Identity(Opcode opcode, ElementType type);

  // random_operations.cpp: each adds one operation with what it needs.
  Instruction* Elementwise();
  Instruction* Choice();
  Instruction* Conversion();
  Instruction* ComplexParts();
  Instruction* Movement();
  Instruction* Join();
  Instruction* DynamicMovement();
  Instruction* Reduction();
  Instruction* VariadicReduction();
  Instruction* WindowReduction();
  Instruction* DotProduct();
  Instruction* Convolution();
  Instruction* Sorting();
  Instruction* GatherOrScatter();
  Instruction* Loop();
  Instruction* Branch();
  Instruction* Mapping();
  Instruction* RandomBits();
  Instruction* Softmax();
  // A chain of unary and binary operations of one type and shape; constants take its static one.
  Instruction* Chain(Computation& computation, Instruction* value, int length, bool with_constants = true);

  // random_structures.cpp: what joins programs together.
  std::vector<std::vector<int64_t>> Groups(int64_t devices);
  Instruction* Collective();
  Instruction* DynamicSize();
  Instruction* CustomCall();
  Instruction* Decomposition();
  Instruction* Transform();
  Instruction* Nest();
  // A few operations of any kind over `values` in another computation, and a value of each shape at their end.
  Ops Inside(Computation* computation, const Ops& values, const std::vector<const Shape*>& results);
  Instruction* Scan();

  // random_combinations.cpp: several arrays at once, many dimensions, batches.
  Computation* ReducerOfMany(const std::vector<Opcode>& opcodes, const std::vector<ElementType>& types);
  Instruction* Widened(Instruction* product);
  Instruction* ReductionOfMany();
  Instruction* SortByKeys();
  Instruction* BatchedPlaces();
  Instruction* MapOfMany();
  Instruction* ManyDimensions();

  // random_forms.cpp: forms that programs have of loops, updates, tuples and sorts.
  Instruction* StackedLoop();
  Instruction* TupleState();
  Instruction* UpdatesOfItself();
  Instruction* Overwriting();
  Instruction* BitsApart();
  Instruction* FromInitialValue();
  Instruction* SortOfAnyNumber();
  Instruction* RaggedProduct();
  Instruction* Fused();

  // random_rarities.cpp: what programs have seldom.
  Instruction* BatchNormal();
  Instruction* Asynchronous();
  Instruction* WindowOfMany();
  Instruction* SortByOwnOrder();
  Instruction* ComplexOrder();
  Instruction* RandomInLoop();
  Instruction* BranchOnTuples();
  Instruction* ReductionInOrder();
  void TupleParameter();
  void EntryLayoutsAndAliases();

  // random_doubling.cpp: chains whose steps take their last two values.
  Instruction* OfTwo(Computation& computation, Instruction* a, Instruction* b);
  Instruction* Doubled(Computation& computation, Instruction* before, Instruction* last, int length);
  Instruction* Doubling();
  Instruction* SortByChoices();
  Instruction* ReductionByChoices();

  // One operation of any kind, into the pool.
  void MakeOne();

  Module& module_;
  Computation* c_;
  Random random_;
  RandomGraphOptions options_;
  int64_t budget_;         // elements of the next array
  int empty_percent_ = 1;  // of dimensions: those of no elements
  Ops pool_;
  int parameters_ = 0;
  int64_t channels_ = 0;
  int branches_ = 0;  // around c_
  int depth_ = 0;     // of loops and branches around c_; only the entry has parameters to add
};

}  // namespace krafla::fuzz
