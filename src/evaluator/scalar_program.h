// SPDX-License-Identifier: Apache-2.0
// The computation of a reduce, map, sort, scatter ... compiled once into a list of block operations over registers of
// kBlock elements each, so that it runs over many elements at a time without touching the graph.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/interruption.h"
#include "evaluator/block_op.h"
#include "evaluator/context.h"

namespace krafla::evaluator {

class ScalarProgram {
 public:
  static constexpr int64_t kBlock = 256;

  // Null where the computation holds anything but scalar elementwise work.
  static std::unique_ptr<ScalarProgram> Compile(const Computation& computation);

  // in[i]: `n` <= kBlock elements of parameter i. output(r) is then the array of result r, valid until the next Run;
  // it may be one of the inputs.
  void Run(const void* const* in, int64_t n);
  const void* output(std::size_t r) const { return registers_[static_cast<std::size_t>(outputs_[r])]; }
  std::size_t output_count() const { return outputs_.size(); }
  // Instructions a run, at least 1.
  int64_t cost() const { return static_cast<int64_t>(code_.size()) + 1; }

 private:
  friend class ProgramCompiler;
  struct Code {
    BlockOp op;
    int in[BlockOp::kMaxArity] = {};
    int out = 0;
  };
  std::vector<Code> code_;
  std::vector<const void*> registers_;
  std::vector<AlignedBytes> storage_;  // of the registers that are not parameters
  std::vector<int> outputs_;
  std::size_t parameter_count_ = 0;
};

// A called computation of scalars, compiled where that is possible and else run through the graph, one element at
// a time.
class ScalarFunction {
 public:
  ScalarFunction(Context& context, const Computation& computation);

  // in[i]: n elements of parameter i; out[r]: room for n elements of result r; out may be in.
  Result<> Run(std::span<const void* const> in, std::span<void* const> out, int64_t n);
  std::size_t parameter_count() const { return parameter_bytes_.size(); }
  std::size_t output_count() const { return output_bytes_.size(); }
  int64_t parameter_bytes(std::size_t i) const { return parameter_bytes_[i]; }
  int64_t cost() const { return program_ != nullptr ? program_->cost() : 16; }
  ScalarProgram* program() { return program_; }

 private:
  Context& context_;
  const Computation& computation_;
  ScalarProgram* program_ = nullptr;
  InterruptionPoll poll_;
  std::vector<int64_t> parameter_bytes_, output_bytes_;
};

// The opcode of a computation that is op(p0, p1) or, for a commutative op, op(p1, p0), on one array type.
std::optional<Opcode> AsSimpleBinary(const Computation& computation);
// Whether the computation returns parameter `number` and nothing else.
bool ReturnsParameter(const Computation& computation, int64_t number);

}  // namespace krafla::evaluator
