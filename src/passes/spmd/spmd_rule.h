// SPDX-License-Identifier: Apache-2.0
// What all rules have in common that do an operation block by block (spmd_rules.h): operands as they are wanted, the
// result with its sharding, and sums over devices.
#pragma once

#include <span>
#include <vector>

#include "passes/spmd/spmd_emitter.h"
#include "passes/spmd/spmd_rules.h"

namespace krafla::spmd {

// One instruction on its way.
class Rule {
 public:
  using Splits = std::vector<Split>;
  using Out = Result<std::optional<Value>>;

  Rule(const Instruction& instruction, std::span<const Value> operands, const Region* region, const Wishes& wishes,
       Emitter& emitter);

 protected:
  int64_t Bytes(std::size_t operand) const { return operands_[operand].local->shape().byte_size(); }
  bool MayCut(std::span<const Split> dims) const { return Covers(dims, region_, devices_); }
  // `dims` with what `more` cuts and it does not, as far as every block has a device.
  void Join(Splits& dims, std::span<const Split> more) const;
  // The sharding that most elements of the operands `which` have already, with what others add.
  Splits Common(std::span<const std::size_t> which);
  static std::vector<std::size_t> FirstOperands(std::size_t count);

  Result<Instruction*> Operand(std::size_t o, std::span<const Split> dims);
  // The same with `fill`, a scalar, or zeros where that is null, behind the ends of dimensions `which`: of those that
  // an operation sums up or puts its elements together from.
  Result<Instruction*> Operand(std::size_t o, std::span<const Split> dims, std::span<const std::size_t> which,
                               Instruction* fill = nullptr);
  Result<Instruction*> WholeOperand(std::size_t o);
  // The results of an instruction, each cut by `dims`, and whole in dimensions behind those.
  Out Finish(std::vector<Instruction*> operands, Splits dims);
  // An array that was made of blocks by other instructions than this one.
  Value Made(Instruction* local, Splits dims) const;
  // A result in parts along `along` is wanted so, or is added up.
  bool StaysInParts(const Split& along) const;
  Out WithSum(Out value, const Split& along);

  const Instruction& i_;
  std::vector<Value> operands_;
  const Region* region_;
  const Wishes& wishes_;
  Emitter& emitter_;
  int64_t devices_;
};

}  // namespace krafla::spmd
