// SPDX-License-Identifier: Apache-2.0
#include "api/group/reduction_combiner.h"

#include <cstring>

#include "api/front_end.h"
#include "api/group/exchange_modules.h"
#include "cpu_fallback/executor/cpu_kernel.h"
#include "evaluator/evaluator.h"
#include "ir/builder.h"
#include "krafla/aligned_bytes.h"

namespace krafla {
namespace {

constexpr int64_t kBlock = 2048;  // elements of a program

// The computation mapped over blocks of kBlock elements.
Result<std::unique_ptr<Module>> BlockModule(const Computation& computation) {
  auto module = std::make_unique<Module>("combine_" + computation.name());
  KRAFLA_ASSIGN(Computation * reduction, CopyInto(*module, computation));
  const ElementType type = computation.root()->shape().element_type();
  const int64_t dims[] = {kBlock};
  KRAFLA_ASSIGN(Shape shape, Shape::MakeArray(type, dims));
  Computation* entry = module->AddComputation("main");
  std::vector<Instruction*> operands = {AddParameter(*entry, 0, shape), AddParameter(*entry, 1, shape)};
  KRAFLA_ASSIGN(Instruction * root,
                AddInferred(*entry, Opcode::kMap, operands, DimensionsAttributes{{0}}, {reduction}));
  entry->set_root(root);
  module->set_entry(entry);
  return module;
}

class BlockCombiner final : public Combiner {
 public:
  static Result<std::shared_ptr<const Combiner>> Make(const Computation& computation) {
    auto out = std::make_shared<BlockCombiner>();
    out->size_ = StorageBytes(computation.root()->shape().element_type());
    KRAFLA_ASSIGN(std::unique_ptr<Module> module, BlockModule(computation));
    CompileReport report;
    KRAFLA_ASSIGN(out->plan_, OptimizeAndPlan(std::move(module), {}, report));
    // One loop that reads both operands and writes the result, each at its own place: it may write over an operand.
    if (out->plan_.kernels.size() == 1 && out->plan_.steps.steps.size() == 1) {
      const auto* launch = std::get_if<plan::LaunchStep>(&out->plan_.steps.steps[0]);
      const auto* loop = std::get_if<plan::LoopKernel>(&out->plan_.kernels[0].body);
      if (launch != nullptr && loop != nullptr) KRAFLA_TRY(out->FindBindings(*launch));
    }
    return out;
  }

  Result<> Combine(std::byte* accumulator, const std::byte* value, int64_t elements) const override {
    AlignedBytes scratch(kernel_ ? static_cast<std::size_t>(kernel_->scratch_bytes()) : 0, false);
    ThreadPool alone(1);
    std::vector<std::byte*> pointers(bindings_.size());
    for (int64_t done = 0; done < elements; done += kBlock) {
      const int64_t n = std::min(kBlock, elements - done);
      std::byte* to = accumulator + done * size_;
      const std::byte* from = value + done * size_;
      if (n == kBlock) {
        KRAFLA_TRY(Block(to, from, alone, scratch.data(), pointers));
        continue;
      }
      const auto bytes = static_cast<std::size_t>(n * size_);
      AlignedBytes a(static_cast<std::size_t>(kBlock * size_)), b(static_cast<std::size_t>(kBlock * size_));
      std::memcpy(a.data(), to, bytes);
      std::memcpy(b.data(), from, bytes);
      KRAFLA_TRY(Block(a.data(), b.data(), alone, scratch.data(), pointers));
      std::memcpy(to, a.data(), bytes);
    }
    return {};
  }

 private:
  // Which binding of the loop is which array; no kernel where it binds anything else.
  Result<> FindBindings(const plan::LaunchStep& launch) {
    for (const plan::Slice& slice : launch.bindings) {
      const plan::Allocation& a = plan_.allocations[static_cast<std::size_t>(slice.allocation)];
      if (a.kind == plan::Allocation::Kind::kArgument && slice.offset == 0) bindings_.push_back(a.number);
      else if (a.kind == plan::Allocation::Kind::kResult && slice.offset == 0) bindings_.push_back(0);
      else return {};
    }
    auto made = CompileKernel(plan_.kernels[0], {});
    if (made) kernel_ = std::move(*made);
    return {};
  }

  // `pointers`: for the bindings.
  Result<> Block(std::byte* accumulator, const std::byte* value, ThreadPool& pool, std::byte* scratch,
                 std::span<std::byte*> pointers) const {
    if (kernel_ != nullptr) {
      for (std::size_t b = 0; b < bindings_.size(); ++b)
        pointers[b] = bindings_[b] == 0 ? accumulator : const_cast<std::byte*>(value);
      return kernel_->Run(pointers, pool, scratch);
    }
    const Shape& shape = plan_.arguments[0];
    const auto bytes = static_cast<std::size_t>(shape.byte_size());
    KRAFLA_ASSIGN(Literal a, Literal::FromBytes(shape, {accumulator, bytes}));
    KRAFLA_ASSIGN(Literal b, Literal::FromBytes(shape, {value, bytes}));
    const Literal* operands[] = {&a, &b};
    KRAFLA_ASSIGN(Literal out, Evaluate(*plan_.module->entry(), operands));
    std::memcpy(accumulator, out.bytes().data(), bytes);
    return {};
  }

  int64_t size_ = 1;
  plan::ProgramPlan plan_;
  std::unique_ptr<CpuKernel> kernel_;  // null: the evaluator does it
  std::vector<int> bindings_;          // 0: the accumulator, 1: the value
};

}  // namespace

Result<std::shared_ptr<const Combiner>> MakeCombiner(const Computation& computation) {
  return BlockCombiner::Make(computation);
}

}  // namespace krafla
