// SPDX-License-Identifier: Apache-2.0
// One instruction run by the evaluator. Its operands' leaves come before its result's in the bindings.
#include <cstring>

#include "cpu_fallback/executor/kernel_families.h"

namespace krafla::cpu {

namespace {

// Array leaves of `literal`, depth first, filled from the next bindings.
void ReadLeaves(Literal& literal, std::span<std::byte* const> bindings, std::size_t& next) {
  if (literal.shape().IsTuple()) {
    for (Literal& element : literal.elements()) ReadLeaves(element, bindings, next);
  } else if (literal.shape().IsArray()) {
    std::span<std::byte> bytes = literal.bytes();
    if (!bytes.empty()) std::memcpy(bytes.data(), bindings[next], bytes.size());
    ++next;
  }
}
void WriteLeaves(const Literal& literal, std::span<std::byte* const> bindings, std::size_t& next) {
  if (literal.shape().IsTuple()) {
    for (const Literal& element : literal.elements()) WriteLeaves(element, bindings, next);
  } else if (literal.shape().IsArray()) {
    std::span<const std::byte> bytes = literal.bytes();
    if (!bytes.empty()) std::memcpy(bindings[next], bytes.data(), bytes.size());
    ++next;
  }
}

class HostKernelRun final : public CpuKernel {
 public:
  HostKernelRun(const Instruction* instruction, const CpuKernelOptions& options)
      : instruction_(instruction), options_(options.evaluator) {}

  Result<> Run(std::span<std::byte* const> bindings, ThreadPool&, std::byte*) const override {
    std::vector<Literal> operands;
    std::size_t next = 0;
    for (const Instruction* operand : instruction_->operands()) {
      KRAFLA_ASSIGN(Literal literal, Literal::Create(operand->shape()));
      ReadLeaves(literal, bindings, next);
      operands.push_back(std::move(literal));
    }
    std::vector<const Literal*> pointers;
    for (const Literal& operand : operands) pointers.push_back(&operand);
    KRAFLA_ASSIGN(Literal result, EvaluateInstruction(*instruction_, pointers, options_));
    WriteLeaves(result, bindings, next);
    return {};
  }

 private:
  const Instruction* instruction_;
  EvaluatorOptions options_;
};

}  // namespace

KernelResult MakeHostKernel(const plan::KernelPlan&, const plan::HostKernel& body, const CpuKernelOptions& options) {
  return std::make_unique<HostKernelRun>(body.instruction, options);
}

}  // namespace krafla::cpu
