// SPDX-License-Identifier: Apache-2.0
// KernelPlan: a problem that one kernel solves, free of any device handle. The CPU back end and the SPIR-V code
// generator each turn it into code. Bindings are the buffers in the order that every program of the kernel numbers
// them: program buffer b is binding b.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/boxed.h"
#include "ir/attributes.h"
#include "ir/module.h"
#include "plan/element_program.h"

namespace krafla::plan {

struct Binding {
  ElementType storage = ElementType::kF32;  // as ProgramBuffer: never complex
  int64_t element_count = 0;
  bool read = true, written = false;
  // The bytes that the kernel may read or write.
  int64_t byte_size() const { return element_count * StorageBytes(storage); }
  friend bool operator==(const Binding&, const Binding&) = default;
};

// A loop whose points are independent: each computes its values and stores them.
struct LoopKernel {
  ElementProgram program;
  friend bool operator==(const LoopKernel&, const LoopKernel&) = default;
};

// One reduction, of one value or, where it is variadic, of several at once.
struct Reduction {
  // kComplexProduct is of the two parts of a complex number: products in turn, from the initial value on, as the signs
  // of zeros depend on the order.
  enum class Kind : uint8_t { kSum, kProduct, kMax, kMin, kAnd, kOr, kXor, kComplexProduct, kOther };
  Kind kind = Kind::kOther;  // of all but kComplexProduct: which plain op the combiner of one value is
  // The type of the first value. Sums and products of narrow floats run in f32: the combiner does not round, but
  // whoever reads the param of the result does.
  ElementType hlo_type = ElementType::kF32;
  std::vector<int> inputs;  // positions in the stage program's `results`
  // A program without dimensions and with n results: params 0..n-1 are the accumulators, params n..2n-1 the new values.
  ElementProgram combiner;
  // A program without dimensions, of loads and constants only, whose n results are the first accumulators.
  ElementProgram init;
  friend bool operator==(const Reduction&, const Reduction&) = default;
};

// Whether values are accumulated in a type wider than `hlo_type`, so that whoever stores a result rounds it.
inline bool AccumulatesWide(const Reduction& r) {
  return IsFloat(r.hlo_type) && IsNarrow(r.hlo_type) &&
         (r.kind == Reduction::Kind::kSum || r.kind == Reduction::Kind::kProduct);
}

// A region over rows x elements. Stages run in order; each later stage sees the results of all earlier reductions as
// params, numbered from 0 in the order of stages, reductions and values. A plain reduce is one element stage with a
// reduction and one row stage that stores; softmax is two reductions and an element stage that stores; reduce-window
// has the window as its elements.
struct ReduceStage {
  enum class Scope : uint8_t { kElement, kRow } scope = Scope::kElement;
  // Iteration space: row dims then element dims (kElement), or the row dims (kRow).
  ElementProgram program;
  std::vector<Reduction> reductions;  // kElement only
  friend bool operator==(const ReduceStage&, const ReduceStage&) = default;
};
struct ReduceKernel {
  Dims row_dims, element_dims;
  std::vector<ReduceStage> stages;
  friend bool operator==(const ReduceKernel&, const ReduceKernel&) = default;
};

// acc[batch..., m, n] = sum over k of lhs * rhs. Offsets and strides are in elements. The epilogue runs over
// [batch..., m, n] with param 0 the accumulator, in accumulate_type; it rounds to result_type itself. k may be 0.
//
// An operand may be computed where it is read, as weights that are stored quantised: by a program over [batch..., m, k]
// (lhs) or [batch..., k, n] (rhs) with one result, in the compute type of lhs_type or rhs_type, rounded as that type
// is. It stores nothing. Such an operand has no binding (-1); its strides are those that an array of it would have, and
// say which elements of it are neighbours.
struct DotKernel {
  Dims batch, lhs_batch_strides, rhs_batch_strides;
  int64_t m = 1, n = 1, k = 1;
  int64_t lhs_offset = 0, rhs_offset = 0;
  int64_t lhs_m_stride = 0, lhs_k_stride = 0, rhs_k_stride = 0, rhs_n_stride = 0;
  int lhs_binding = 0, rhs_binding = 1;
  ElementType lhs_type = ElementType::kF32, rhs_type = ElementType::kF32;  // storage; may differ
  ElementType accumulate_type = ElementType::kF32;                         // f32, f64, s32, u32, s64, u64
  ElementType result_type = ElementType::kF32;                             // of the HLO dot
  std::vector<Precision> precision;
  ElementProgram lhs_program, rhs_program;  // without results: the operand is read from its binding
  ElementProgram epilogue;
  bool computes_lhs() const { return !lhs_program.results.empty(); }
  bool computes_rhs() const { return !rhs_program.results.empty(); }
  friend bool operator==(const DotKernel&, const DotKernel&) = default;
};

// Attention: a product, the reductions of its rows, and a product that sums over what these make of them, without the
// arrays between them. The three are over the same rows, [batch..., m], and would be launches one after the other over
// two more buffers, whose numbers follow those of the bindings: the first one stores an element for each row and column
// in buffer `bindings`, of which the second one reads its own elements alone; its last stage stores one for each in
// buffer `bindings` + 1, which is the left operand of the third. Buffers behind that have an element a row, which row
// stages of the second one store and the epilogue of the third one reads: what is divided by behind the product.
// PartsOfAttention (plan/rows/attention.cpp) gives those launches.
//
// `limits`: where a mask leaves a row the columns [begin, end) at the most, and what it makes of the others changes
// nothing as long as the row's first reduction, its largest score, is above `least` or NaN, and all that the third
// launch reads of its right operand is finite. It then adds zeros to sums.
struct ColumnLimits {
  // Over [batch..., m]; its first `ends` results are s32 of which `end` is the least, the others such of which `begin`
  // is the largest. They may lie outside of the columns.
  ElementProgram program;
  int ends = 0;
  double least = 0;
  // Where the mask is added: a hidden score is the mask's constant and something more, at most so many times the size
  // of the product, by which `least` is to be raised. The keys have to be looked at, which must be finite too.
  std::optional<double> added;
  friend bool operator==(const ColumnLimits&, const ColumnLimits&) = default;
};
struct AttentionKernel {
  Boxed<DotKernel> scores;
  ReduceKernel rows;
  Boxed<DotKernel> product;
  std::optional<ColumnLimits> limits;
  friend bool operator==(const AttentionKernel&, const AttentionKernel&) = default;
};

// Kernels as one launch, each over all bindings: products of one vector with several matrices, rotations of queries and
// keys. What one writes no other one touches, but for a dot that follows a dot (FollowedParts in plan/horizontal.h).
//
// `begins_with_rows`: the first part is a ReduceKernel that stores one array, which nobody but the other parts reads,
// all of them dots. Each workgroup of these may compute it for itself, and then it need not be stored.
struct HorizontalKernel {
  using Part = std::variant<LoopKernel, ReduceKernel, DotKernel>;
  std::vector<Part> parts;
  bool begins_with_rows = false;
  friend bool operator==(const HorizontalKernel&, const HorizontalKernel&) = default;
};

// A convolution, with its dimension numbers and its window as HLO has them; operands are row-major. The epilogue runs
// over the dimensions of the HLO instruction's result in their order, with the sum in accumulate_type as param 0, and
// rounds to result_type itself.
struct ConvKernel {
  ConvolutionAttributes attributes;
  Dims input_dims, kernel_dims, output_dims;  // row-major, as stored
  int input_binding = 0, kernel_binding = 1;
  ElementType input_type = ElementType::kF32, kernel_type = ElementType::kF32;
  ElementType accumulate_type = ElementType::kF32;
  ElementType result_type = ElementType::kF32;
  ElementProgram epilogue;
  friend bool operator==(const ConvKernel&, const ConvKernel&) = default;
};

// Rows of `length` elements, `stride` apart, each sorted on its own. Operand i is read from binding inputs[i] and
// written to outputs[i]; inputs[i] of -1 is the position along the dimension, s32 or u32, which the comparator does not
// look at. The comparator is a dimensionless program: params 2i, 2i+1 are the left and right value of operand i; one
// pred result.
struct SortKernel {
  Dims dims;
  int dimension = 0;
  bool is_stable = false;
  std::vector<int> inputs, outputs;
  std::vector<ElementType> types;  // storage
  ElementProgram comparator;
  // How many results at the start of each row are read; the others need not be written. -1: all of them.
  int64_t keep = -1;
  friend bool operator==(const SortKernel&, const SortKernel&) = default;
};

// The running combination of one array along `dimension`, each element included in its own result. The combiner is as
// in Reduction; its kind is kOther where elements must be combined one after the other. Every line begins with `init`,
// or with an element of its own of binding `start`, and leaves its last value in binding `last`; -1 stands for no such
// binding. Both are arrays of `type` over all dimensions but `dimension`.
struct ScanKernel {
  Dims dims;
  int dimension = 0;
  bool is_reverse = false;
  int input = 0, output = 1;
  int start = -1, last = -1;
  ElementType type = ElementType::kF32;
  Reduction reduction;
  friend bool operator==(const ScanKernel&, const ScanKernel&) = default;
};

// For each update in row-major order of the updates array, if its window lies inside the operand:
// out[window element] = combiner(out[window element], update). The output starts as the operand (the plan places a
// copy before, or shares the buffer). One or more operands with one index array.
struct ScatterKernel {
  ScatterAttributes attributes;
  Dims operand_dims, indices_dims, updates_dims;
  int indices_binding = 0;
  ElementType indices_type = ElementType::kS32;
  std::vector<int> updates, outputs;  // bindings, one for each operand
  std::vector<ElementType> types;
  // The last dimension of operand and updates, which every window has, are the parts of complex numbers, and these are
  // multiplied: the combiner has two results, of params 0 and 1, the current number, and 2 and 3, the update.
  bool multiplies_complex = false;
  // Otherwise it has n results; params 0..n-1 are the current values, params n..2n-1 the updates.
  Reduction combiner;
  friend bool operator==(const ScatterKernel&, const ScatterKernel&) = default;
};

// The Fourier transform of `batch` arrays of dimensions `lengths`, over all of these dimensions, from binding 0 to
// binding 1. Complex numbers lie in memory as pairs. The last dimension of an RFFT's result, and of an IRFFT's operand,
// is the half of the spectrum: n / 2 + 1.
struct FftKernel {
  FftType type = FftType::kFft;
  ElementType real = ElementType::kF32;  // or f64
  int64_t batch = 1;
  Dims lengths;
  friend bool operator==(const FftKernel&, const FftKernel&) = default;
};

// Dense linear algebra on `batch` row-major matrices. Bindings: the operands, then the results.
//   kCholesky            a -> the factor
//   kTriangularSolve     a, b -> x
//   kQr                  a -> a with R and the reflectors below it, taus (LAPACK: geqrf)
//   kLu                  a -> a with L and U, pivots and permutation (s32; LAPACK: getrf)
//   kEigh                a -> the eigenvectors of a Hermitian a in columns, ascending eigenvalues
//   kSvd                 a -> descending singular values; with `vectors`: u and the adjoint of v too
//   kHouseholderProduct  a, taus -> the first columns of the product of the reflectors (LAPACK: orgqr)
struct LinalgKernel {
  enum class Op : uint8_t {
    kCholesky,
    kTriangularSolve,
    kLu,
    kQr,
    kHouseholderProduct,
    kEigh,
    kSvd
  } op = Op::kCholesky;
  ElementType type = ElementType::kF32;  // of HLO: complex numbers lie as pairs
  int64_t batch = 1;
  int64_t rows = 0, columns = 0;       // of the result's matrices; of kSvd the operand's
  int64_t reflectors = 0;              // of kQr and kHouseholderProduct
  bool vectors = false, full = false;  // of kSvd; `full`: all of u and v, not the first min(rows, columns)
  bool lower = false, left_side = false, unit_diagonal = false;
  TriangularTranspose transpose = TriangularTranspose::kNoTranspose;
  friend bool operator==(const LinalgKernel&, const LinalgKernel&) = default;
};
std::size_t InputCount(LinalgKernel::Op op);

// One instruction that no other family takes, run by the evaluator on the host. The bindings are the array leaves of
// the operands, which are read, then those of the result, which are written.
struct HostKernel {
  const Instruction* instruction = nullptr;  // lives as long as the program plan's module
  friend bool operator==(const HostKernel&, const HostKernel&) = default;
};

using KernelBody = std::variant<LoopKernel, ReduceKernel, DotKernel, ConvKernel, SortKernel, ScanKernel, ScatterKernel,
                                FftKernel, LinalgKernel, AttentionKernel, HorizontalKernel, HostKernel>;

// Calls visit(program) for each program of a kernel that may read its bindings: all but the comparators of sorts. The
// body may be constant or not.
template <typename Body, typename Visit>
void ForEachProgram(Body& body, Visit&& visit) {
  const auto of_reduction = [&](auto& reduction) { visit(reduction.combiner), visit(reduction.init); };
  const auto of_dot = [&](auto& dot) {
    if (dot.computes_lhs()) visit(dot.lhs_program);
    if (dot.computes_rhs()) visit(dot.rhs_program);
    visit(dot.epilogue);
  };
  const auto of_stages = [&](auto& reduce) {
    for (auto& stage : reduce.stages) {
      visit(stage.program);
      for (auto& reduction : stage.reductions) of_reduction(reduction);
    }
  };
  const auto of_part = [&](auto& part) {
    using Part = std::remove_cvref_t<decltype(part)>;
    if constexpr (std::is_same_v<Part, LoopKernel>) visit(part.program);
    if constexpr (std::is_same_v<Part, DotKernel>) of_dot(part);
    if constexpr (std::is_same_v<Part, ReduceKernel>) of_stages(part);
  };
  std::visit(
      [&](auto& kernel) {
        using Kernel = std::remove_cvref_t<decltype(kernel)>;
        of_part(kernel);
        if constexpr (std::is_same_v<Kernel, HorizontalKernel>)
          for (auto& part : kernel.parts) std::visit(of_part, part);
        if constexpr (std::is_same_v<Kernel, ConvKernel>) visit(kernel.epilogue);
        if constexpr (std::is_same_v<Kernel, AttentionKernel>) {
          of_dot(*kernel.scores), of_stages(kernel.rows), of_dot(*kernel.product);
          if (kernel.limits) visit(kernel.limits->program);
        }
        if constexpr (std::is_same_v<Kernel, ScanKernel>) of_reduction(kernel.reduction);
        if constexpr (std::is_same_v<Kernel, ScatterKernel>) of_reduction(kernel.combiner);
      },
      body);
}

struct KernelPlan {
  std::string name;  // for people: "fused_add_tanh.12"
  std::vector<Binding> bindings;
  KernelBody body;
  double flops = 0, bytes = 0;  // estimates for one launch
  // Whether bindings and bodies are equal, so that one kernel serves for both.
  static bool SameProblem(const KernelPlan& a, const KernelPlan& b) {
    return a.bindings == b.bindings && a.body == b.body;
  }
};
// The additions and multiplications of a dot.
double FlopsOf(const DotKernel& dot);

// The launches that an attention is, over its bindings and the two buffers between them.
std::vector<KernelPlan> PartsOfAttention(const KernelPlan& plan, const AttentionKernel& attention);

// The kernels that are launched as one, each over all bindings.
std::vector<KernelPlan> PartsOfHorizontal(const KernelPlan& plan, const HorizontalKernel& horizontal);

std::string_view FamilyName(const KernelPlan& kernel);  // "loop", "reduce", "dot", ...
uint64_t HashProblem(const KernelPlan& kernel);

}  // namespace krafla::plan
