// SPDX-License-Identifier: Apache-2.0
#include "api/group/reduction_combiner.h"

#include <array>
#include <cstring>

#include "api/front_end.h"
#include "api/group/exchange_modules.h"
#include "cpu_fallback/executor/cpu_kernel.h"
#include "evaluator/evaluator.h"
#include "ir/builder.h"
#include "krafla/aligned_bytes.h"

namespace krafla {
namespace {

// The computation mapped over `elements` elements.
Result<std::unique_ptr<Module>> BlockModule(const Computation& computation, int64_t elements) {
  auto module = std::make_unique<Module>("combine_" + computation.name());
  KRAFLA_ASSIGN(Computation * reduction, CopyInto(*module, computation));
  const ElementType type = computation.root()->shape().element_type();
  const int64_t dims[] = {elements};
  KRAFLA_ASSIGN(Shape shape, Shape::MakeArray(type, dims));
  Computation* entry = module->AddComputation("main");
  std::vector<Instruction*> operands = {AddParameter(*entry, 0, shape), AddParameter(*entry, 1, shape)};
  KRAFLA_ASSIGN(Instruction * root,
                AddInferred(*entry, Opcode::kMap, operands, DimensionsAttributes{{0}}, {reduction}));
  entry->set_root(root);
  module->set_entry(entry);
  return module;
}

// The computation over blocks of one size.
class BlockLoop {
 public:
  Result<> Make(const Computation& computation, int64_t elements) {
    KRAFLA_ASSIGN(std::unique_ptr<Module> module, BlockModule(computation, elements));
    CompileReport report;
    KRAFLA_ASSIGN(plan_, OptimizeAndPlan(std::move(module), {}, report));
    // One loop that reads both operands and writes the result, each at its own place: it may write over an operand.
    if (plan_.kernels.size() != 1 || plan_.steps.steps.size() != 1) return {};
    const auto* launch = std::get_if<plan::LaunchStep>(&plan_.steps.steps[0]);
    if (launch != nullptr && std::holds_alternative<plan::LoopKernel>(plan_.kernels[0].body))
      KRAFLA_TRY(FindBindings(*launch));
    return {};
  }

  Result<> Run(std::byte* accumulator, const std::byte* value) const {
    if (kernel_ != nullptr) {
      std::array<std::byte*, kMostBindings> pointers;
      for (std::size_t b = 0; b < bindings_.size(); ++b)
        pointers[b] = bindings_[b] == 0 ? accumulator : const_cast<std::byte*>(value);
      const std::span<std::byte* const> bound = std::span(pointers).first(bindings_.size());
      alignas(64) std::array<std::byte, kMostOnStack> scratch;
      const auto needed = static_cast<std::size_t>(kernel_->scratch_bytes());
      if (needed <= scratch.size()) return kernel_->Run(bound, alone_, scratch.data());
      AlignedBytes more(needed, false);
      return kernel_->Run(bound, alone_, more.data());
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

 private:
  static constexpr std::size_t kMostBindings = 3, kMostOnStack = 16 * 1024;

  // Which binding of the loop is which array; no kernel where it binds anything else.
  Result<> FindBindings(const plan::LaunchStep& launch) {
    if (launch.bindings.size() > kMostBindings) return {};
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

  plan::ProgramPlan plan_;
  std::unique_ptr<CpuKernel> kernel_;  // null: the evaluator does it
  std::vector<int> bindings_;          // 0: the accumulator, 1: the value
  mutable ThreadPool alone_{1};        // runs on the caller's thread
};

class BlockCombiner final : public Combiner {
 public:
  static Result<std::shared_ptr<const Combiner>> Make(const Computation& computation) {
    auto out = std::make_shared<BlockCombiner>();
    out->size_ = StorageBytes(computation.root()->shape().element_type());
    for (std::size_t n = 0; n < kSizes.size(); ++n) KRAFLA_TRY(out->loops_[n].Make(computation, kSizes[n]));
    return out;
  }

  Result<> Combine(std::byte* accumulator, const std::byte* value, int64_t elements) const override {
    int64_t done = 0;
    for (; elements - done >= kSizes[0]; done += kSizes[0])
      KRAFLA_TRY(loops_[0].Run(accumulator + done * size_, value + done * size_));
    const int64_t rest = elements - done;
    if (rest == 0) return {};
    // What is left goes through the smallest loop that holds it, with zeros behind: to run a loop costs as much as a
    // few hundred elements do.
    std::size_t n = kSizes.size() - 1;
    while (kSizes[n] < rest) --n;
    const auto bytes = static_cast<std::size_t>(rest * size_), all = static_cast<std::size_t>(kSizes[n] * size_);
    alignas(64) std::array<std::byte, kSizes[0] * kMostBytes> a, b;
    std::memcpy(a.data(), accumulator + done * size_, bytes);
    std::memset(a.data() + bytes, 0, all - bytes);
    std::memcpy(b.data(), value + done * size_, bytes);
    std::memset(b.data() + bytes, 0, all - bytes);
    KRAFLA_TRY(loops_[n].Run(a.data(), b.data()));
    std::memcpy(accumulator + done * size_, a.data(), bytes);
    return {};
  }

 private:
  static constexpr std::array<int64_t, 3> kSizes = {2048, 256, 32};  // of the loops, in elements
  static constexpr std::size_t kMostBytes = 16;                      // of an element: c128

  int64_t size_ = 1;
  std::array<BlockLoop, kSizes.size()> loops_;
};

}  // namespace

Result<std::shared_ptr<const Combiner>> MakeCombiner(const Computation& computation) {
  return BlockCombiner::Make(computation);
}

}  // namespace krafla
