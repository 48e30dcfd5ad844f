// SPDX-License-Identifier: Apache-2.0
// The state of one Evaluate call, and the functions of each class of op. Every function gets its operands' values and
// may consume them.
#pragma once

#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "evaluator/evaluator.h"
#include "evaluator/value.h"

namespace krafla::evaluator {

class ScalarProgram;

// A computation made ready to run: the instructions in order, for each operand its slot and whether this is its last
// use. get-tuple-element runs right after its operand, so that a loop's carried tuple dies early and its elements can
// be written in place.
struct Plan {
  struct Step {
    const Instruction* instruction;
    std::vector<int> operands;   // slots
    std::vector<bool> last_use;  // one per operand
  };
  std::vector<Step> steps;
  std::vector<int> parameter_slots;  // parameter number -> slot
  int root_slot = 0;
  int slot_count = 0;
};

struct Context {
  explicit Context(const EvaluatorOptions& options);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  EvaluatorHost no_host;
  const EvaluatorHost* host;
  int64_t work_limit;
  int64_t work = 0;
  int depth = 0;
  std::unordered_map<const Computation*, std::unique_ptr<Plan>> plans;
  std::unordered_map<const Computation*, std::unique_ptr<ScalarProgram>> programs;  // null: cannot be one
  uint64_t rng_calls = 0;
  std::unordered_map<const Instruction*, unsigned __int128> rng_states;  // rng-get-and-update-state

  // DEADLINE_EXCEEDED past the limit. Called before the work.
  Result<> Spend(int64_t scalar_operations);
  Result<> SpendProduct(int64_t a, int64_t b);
};

using Operands = std::span<Value>;

// Whether a literal of shape `got` may stand where `want` is declared: a dynamic dimension may be smaller.
bool Accepts(const Shape& want, const Shape& got);
// `value`, which came from the world outside or from an instruction whose shape nothing else has compared with its
// operands'; INTERNAL where it is not of shape `want`.
Result<Value> Checked(const Instruction& instruction, const Shape& want, Value value);

// The shape of the result with the run-time dimensions: the instruction's own, row-major, unless an operand is smaller
// than its bound.
Result<Shape> ResultShape(const Instruction& instruction, Operands operands);
// A fresh literal of that shape, its elements charged to the work limit.
Result<Literal> NewResult(Context& context, const Instruction& instruction, Operands operands);
Result<Literal> NewLiteral(Context& context, const Shape& shape);
// The elements of `whole` below the dimensions of `shape`; zeros where it has none.
Result<Value> LeadingPart(Context& context, const Literal& whole, const Shape& shape);
// Cuts operands to the run-time dimensions of an elementwise result; scalars stay.
Result<> CutToShape(Context& context, Operands operands, const Shape& shape);

Result<Value> RunComputation(Context& context, const Computation& computation, std::vector<Value> arguments);
Result<Value> RunInstruction(Context& context, const Instruction& instruction, Operands operands);

// elementwise.cpp
Result<Value> EvalElementwise(Context& context, const Instruction& i, Operands operands);
Result<Value> EvalBitcastConvert(Context& context, const Instruction& i, Operands operands);
Result<Value> EvalMap(Context& context, const Instruction& i, Operands operands);
// data_movement.cpp
Result<Value> EvalBitcast(Context& context, const Instruction& i, Operands operands);
Result<Value> EvalBroadcast(Context& context, const Instruction& i, Operands operands);
Result<Value> EvalConcatenate(Context& context, const Instruction& i, Operands operands);
Result<Value> EvalCopy(Context& context, const Instruction& i, Operands operands);
Result<Value> EvalDynamicSlice(Context& context, const Instruction& i, Operands operands);
Result<Value> EvalDynamicUpdateSlice(Context& context, const Instruction& i, Operands operands);
Result<Value> EvalIota(Context& context, const Instruction& i, Operands operands);
Result<Value> EvalPad(Context& context, const Instruction& i, Operands operands);
Result<Value> EvalReshape(Context& context, const Instruction& i, Operands operands);
Result<Value> EvalReverse(Context& context, const Instruction& i, Operands operands);
Result<Value> EvalSlice(Context& context, const Instruction& i, Operands operands);
Result<Value> EvalTranspose(Context& context, const Instruction& i, Operands operands);
// dot.cpp
Result<Value> EvalDot(Context& context, const Instruction& i, Operands operands);
Result<Value> EvalRaggedDot(Context& context, const Instruction& i, Operands operands);
Result<Value> EvalScaledDot(Context& context, const Instruction& i, Operands operands);
// convolution.cpp
Result<Value> EvalConvolution(Context& context, const Instruction& i, Operands operands);
// reduce.cpp
Result<Value> EvalReduce(Context& context, const Instruction& i, Operands operands);
Result<Value> EvalScan(Context& context, const Instruction& i, Operands operands);
// reduce_window.cpp
Result<Value> EvalReduceWindow(Context& context, const Instruction& i, Operands operands);
Result<Value> EvalSelectAndScatter(Context& context, const Instruction& i, Operands operands);
// gather_scatter.cpp
Result<Value> EvalGather(Context& context, const Instruction& i, Operands operands);
Result<Value> EvalScatter(Context& context, const Instruction& i, Operands operands);
// sort.cpp
Result<Value> EvalSort(Context& context, const Instruction& i, Operands operands);
Result<Value> EvalTopK(Context& context, const Instruction& i, Operands operands);
// The k largest (or smallest) of the last dimension and their s32 indices.
Result<Value> TopK(Context& context, const Literal& operand, int64_t k, bool largest);
// control.cpp
Result<Value> EvalConditional(Context& context, const Instruction& i, Operands operands);
Result<Value> EvalWhile(Context& context, const Instruction& i, Operands operands);
Result<Value> EvalAsync(Context& context, const Instruction& i, Operands operands);
Result<Value> EvalInfeed(Context& context, const Instruction& i, Operands operands);
Result<Value> EvalOutfeed(Context& context, const Instruction& i, Operands operands);
// fft.cpp
Result<Value> EvalFft(Context& context, const Instruction& i, Operands operands);
// linalg.cpp
Result<Value> EvalCholesky(Context& context, const Instruction& i, Operands operands);
Result<Value> EvalTriangularSolve(Context& context, const Instruction& i, Operands operands);
Result<Value> LapackTriangularSolve(Context& context, const Instruction& i, Operands operands);
Result<Value> LuDecomposition(Context& context, const Instruction& i, Operands operands);
Result<Value> HouseholderQr(Context& context, const Instruction& i, Operands operands);
Result<Value> HouseholderProduct(Context& context, const Instruction& i, Operands operands);
// eigen.cpp
Result<Value> HermitianEigen(Context& context, const Instruction& i, Operands operands);
Result<Value> SingularValues(Context& context, const Instruction& i, Operands operands);
// batch_norm.cpp
Result<Value> EvalBatchNorm(Context& context, const Instruction& i, Operands operands);
// rng.cpp
Result<Value> EvalRng(Context& context, const Instruction& i, Operands operands);
Result<Value> EvalRngBitGenerator(Context& context, const Instruction& i, Operands operands);
Result<Value> EvalRngGetAndUpdateState(Context& context, const Instruction& i, Operands operands);
// dynamic.cpp
Result<Value> EvalDynamicReshape(Context& context, const Instruction& i, Operands operands);
Result<Value> EvalGetDimensionSize(Context& context, const Instruction& i, Operands operands);
Result<Value> EvalSetDimensionSize(Context& context, const Instruction& i, Operands operands);
// collective.cpp
Result<Value> EvalCollective(Context& context, const Instruction& i, Operands operands);
Result<Value> EvalCollectiveDone(Context& context, const Instruction& i, Operands operands);
Result<Value> EvalChannel(Context& context, const Instruction& i, Operands operands);
Result<Value> EvalDeviceId(Context& context, const Instruction& i, Operands operands);
// custom_call.cpp
Result<Value> EvalCustomCall(Context& context, const Instruction& i, Operands operands);

}  // namespace krafla::evaluator
