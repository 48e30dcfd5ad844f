// SPDX-License-Identifier: Apache-2.0
// One instruction run by the evaluator. Its operands' leaves come before its result's in the bindings.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <string>

#include "base/interruption.h"
#include "cpu_fallback/executor/kernel_families.h"

namespace krafla::cpu {

namespace {

// A run that is to end leaves the rest as it is.
void CopyInPieces(const std::byte* from, std::byte* to, std::size_t size) {
  constexpr std::size_t kPiece = std::size_t{1} << 24;
  for (std::size_t at = 0; at < size && !(size > kPiece && IsInterrupted()); at += kPiece)
    std::memcpy(to + at, from + at, std::min(kPiece, size - at));
}

// The arrays of a host kernel, one a binding, in order. `sizes`: the bytes of each binding, which no literal may
// exceed, whatever it says that it is.
struct HostArrays {
  std::span<std::byte* const> bindings;
  std::span<const int64_t> sizes;
  std::size_t next = 0;

  // Where the next array lies, if it is of `bytes` bytes; at most as many where its dimensions are dynamic.
  Result<std::byte*> Take(const Shape& shape, std::size_t bytes, bool dynamic) {
    const std::size_t at = next++;
    if (at >= sizes.size() || at >= bindings.size())
      return Internal("Array {} ({}) of a host kernel has no binding.", at, shape.ToString(false));
    const auto room = static_cast<std::size_t>(sizes[at]);
    if (dynamic ? bytes > room : bytes != room)
      return Internal("Array {} ({}) of a host kernel is {} bytes, its binding has {}.", at, shape.ToString(false),
                      bytes, room);
    return bindings[at];
  }
  // Array leaves of `literal`, depth first, filled from the next bindings.
  Result<> Read(Literal& literal) {
    for (Literal& element : literal.elements()) KRAFLA_TRY(Read(element));
    if (!literal.shape().IsArray()) return {};
    const std::span<std::byte> bytes = literal.bytes();
    KRAFLA_ASSIGN(const std::byte* from, Take(literal.shape(), bytes.size(), false));
    CopyInPieces(from, bytes.data(), bytes.size());
    return {};
  }
  Result<> Write(const Literal& literal, bool dynamic) {
    for (const Literal& element : literal.elements()) KRAFLA_TRY(Write(element, dynamic));
    if (!literal.shape().IsArray()) return {};
    const std::span<const std::byte> bytes = literal.bytes();
    KRAFLA_ASSIGN(std::byte * to, Take(literal.shape(), bytes.size(), dynamic));
    CopyInPieces(bytes.data(), to, bytes.size());
    return {};
  }
};

std::vector<int64_t> SizesOf(const plan::KernelPlan& plan) {
  std::vector<int64_t> out;
  for (const plan::Binding& b : plan.bindings) out.push_back(b.byte_size());
  return out;
}

class HostKernelRun final : public CpuKernel {
 public:
  HostKernelRun(const Instruction* instruction, const plan::KernelPlan& plan, const CpuKernelOptions& options)
      : instruction_(instruction), options_(options.evaluator), sizes_(SizesOf(plan)) {}

  Result<> Run(std::span<std::byte* const> bindings, ThreadPool&, std::byte*) const override {
    std::vector<Literal> operands;
    HostArrays arrays{bindings, sizes_};
    for (const Instruction* operand : instruction_->operands()) {
      KRAFLA_ASSIGN(Literal literal, Literal::CreateUninitialized(operand->shape()));
      KRAFLA_TRY(arrays.Read(literal));
      operands.push_back(std::move(literal));
    }
    std::vector<const Literal*> pointers;
    for (const Literal& operand : operands) pointers.push_back(&operand);
    KRAFLA_ASSIGN(Literal result, Evaluate(pointers));
    Result<> written = arrays.Write(result, instruction_->shape().IsDynamic());
    if (!written) return Failure(std::move(written).error().WithContext(Format("at {}", Describe(*instruction_))));
    return {};
  }

 private:
  Result<Literal> Evaluate(std::span<const Literal* const> operands) const {
    uint64_t step = 0;
    if (instruction_->opcode() == Opcode::kRngGetAndUpdateState) {
      // Each has a counter of its own that runs on from one run to the next, as in XLA.
      step = static_cast<uint64_t>(instruction_->attr<RngStateAttributes>().delta);
    } else if (instruction_->opcode() == Opcode::kRng) {
      step = 1;
    } else {
      return EvaluateInstruction(*instruction_, operands, options_);
    }
    EvaluatorHost host = options_.host != nullptr ? *options_.host : EvaluatorHost();
    host.rng_seed += times_run_.fetch_add(1, std::memory_order_relaxed) * step;
    // The numbers of one rng have nothing to do with those of another.
    if (instruction_->opcode() == Opcode::kRng)
      host.rng_seed += 0x9e3779b97f4a7c15u * static_cast<uint64_t>(std::hash<std::string>{}(instruction_->name()));
    EvaluatorOptions options = options_;
    options.host = &host;
    return EvaluateInstruction(*instruction_, operands, options);
  }

  const Instruction* instruction_;
  EvaluatorOptions options_;
  std::vector<int64_t> sizes_;  // of the bindings, in bytes
  mutable std::atomic<uint64_t> times_run_ = 0;
};

// Between devices, over the buffers themselves.
class ExchangeRun final : public CpuKernel {
 public:
  ExchangeRun(const Instruction* instruction, const CpuKernelOptions& options)
      : instruction_(instruction), host_(options.evaluator.host) {
    // What the hook takes and gives are the instruction's own arrays, and so are the bindings (CheckPlan).
    for (const Instruction* operand : instruction_->operands())
      for (const Shape* leaf : TupleLeaves(operand->shape())) operand_leaves_ += leaf->IsArray() ? 1 : 0;
  }

  // Instructions whose results are what the hook gives; the evaluator wraps those of the others.
  static bool Takes(const Instruction& i, const EvaluatorHost* host) {
    if (host == nullptr || !host->exchange || i.opcode() == Opcode::kAllGatherStart ||
        i.opcode() == Opcode::kCollectivePermuteStart)
      return false;
    return (HasTrait(i.opcode(), op_trait::kCollective) && !HasTrait(i.opcode(), op_trait::kAsyncDone)) ||
           i.opcode() == Opcode::kRecvDone;
  }

  Result<> Run(std::span<std::byte* const> bindings, ThreadPool&, std::byte*) const override {
    std::vector<const std::byte*> operands;
    // A recv-done's operand is what its recv gave: nothing yet.
    if (instruction_->opcode() != Opcode::kRecvDone)
      operands.assign(bindings.begin(), bindings.begin() + operand_leaves_);
    return host_->exchange(*instruction_, operands, bindings.subspan(static_cast<std::size_t>(operand_leaves_)));
  }

 private:
  const Instruction* instruction_;
  const EvaluatorHost* host_;
  std::ptrdiff_t operand_leaves_ = 0;
};

}  // namespace

KernelResult MakeHostKernel(const plan::KernelPlan& plan, const plan::HostKernel& body,
                            const CpuKernelOptions& options) {
  if (ExchangeRun::Takes(*body.instruction, options.evaluator.host))
    return std::make_unique<ExchangeRun>(body.instruction, options);
  return std::make_unique<HostKernelRun>(body.instruction, plan, options);
}

}  // namespace krafla::cpu
