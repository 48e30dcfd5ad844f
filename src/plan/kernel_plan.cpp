// SPDX-License-Identifier: Apache-2.0
#include "plan/kernel_plan.h"

namespace krafla::plan {
namespace {

class Hasher {
 public:
  void Add(uint64_t v) {
    h_ = (h_ ^ v) * 0xff51afd7ed558ccdull;
    h_ ^= h_ >> 29;
  }
  void Add(std::span<const int64_t> v) {
    Add(v.size());
    for (int64_t x : v) Add(static_cast<uint64_t>(x));
  }
  void Add(const ElementProgram& p) {
    Add(p.space.dims());
    Add(p.space.expr_count());
    // Many kernels differ in a constant of an index only, as the pieces of a concatenate do, so the hash includes it.
    for (std::size_t e = 0; e < p.space.expr_count(); ++e) {
      const IndexExpr& expr = p.space.expr(static_cast<IndexId>(e));
      Add(static_cast<uint64_t>(expr.constant));
      for (const IndexTerm& t : expr.terms)
        Add(static_cast<uint64_t>(t.coefficient) << 20 ^ static_cast<uint64_t>(t.atom));
    }
    for (std::size_t a = 0; a < p.space.atom_count(); ++a) {
      const IndexAtom& atom = p.space.atom(static_cast<AtomId>(a));
      Add(static_cast<uint64_t>(atom.divisor) ^ static_cast<uint64_t>(atom.hi) << 24);
    }
    for (const Node& n : p.nodes) {
      Add(static_cast<uint64_t>(n.op) | static_cast<uint64_t>(n.opcode) << 8 | static_cast<uint64_t>(n.type) << 16 |
          static_cast<uint64_t>(n.storage) << 24 | static_cast<uint64_t>(n.direction) << 32);
      for (NodeId o : n.operands) Add(static_cast<uint64_t>(o));
      Add(n.bits ^ static_cast<uint64_t>(n.index) << 40 ^ static_cast<uint64_t>(n.buffer) << 56);
    }
    for (const Store& s : p.stores) Add(static_cast<uint64_t>(s.node) << 32 | static_cast<uint64_t>(s.index));
  }
  uint64_t value() const { return h_; }

 private:
  uint64_t h_ = 0x9E3779B97F4A7C15ull;
};

}  // namespace

double FlopsOf(const DotKernel& dot) {
  return 2 * static_cast<double>(Product(dot.batch)) * static_cast<double>(dot.m) * static_cast<double>(dot.n) *
         static_cast<double>(dot.k);
}

std::string_view FamilyName(const KernelPlan& kernel) {
  constexpr std::string_view kNames[] = {"loop",    "reduce", "dot",    "convolution", "sort",       "scan",
                                         "scatter", "fft",    "linalg", "attention",   "horizontal", "host"};
  static_assert(std::size(kNames) == std::variant_size_v<KernelBody>);
  return kNames[kernel.body.index()];
}

uint64_t HashProblem(const KernelPlan& kernel) {
  Hasher h;
  h.Add(kernel.body.index());
  for (const Binding& b : kernel.bindings) {
    h.Add(static_cast<uint64_t>(b.storage) << 2 | static_cast<uint64_t>(b.read) << 1 |
          static_cast<uint64_t>(b.written));
    h.Add(static_cast<uint64_t>(b.element_count));
  }
  ForEachProgram(kernel.body, [&](const ElementProgram& p) { h.Add(p); });
  const auto add_dot = [&](const DotKernel& dot) {
    h.Add(dot.batch);
    for (int64_t v : {dot.m, dot.n, dot.k, dot.lhs_offset, dot.rhs_offset, dot.lhs_m_stride, dot.lhs_k_stride,
                      dot.rhs_k_stride, dot.rhs_n_stride})
      h.Add(static_cast<uint64_t>(v));
  };
  const auto add_part = [&](const auto& body) {
    using T = std::decay_t<decltype(body)>;
    if constexpr (std::is_same_v<T, ReduceKernel>) {
      h.Add(body.row_dims);
      h.Add(body.element_dims);
    }
    if constexpr (std::is_same_v<T, DotKernel>) add_dot(body);
  };
  std::visit(
      [&](const auto& body) {
        using T = std::decay_t<decltype(body)>;
        add_part(body);
        if constexpr (std::is_same_v<T, HorizontalKernel>)
          for (const auto& part : body.parts) std::visit(add_part, part);
        if constexpr (std::is_same_v<T, AttentionKernel>) add_dot(*body.scores), add_dot(*body.product);
        if constexpr (std::is_same_v<T, ConvKernel>) {
          h.Add(body.input_dims);
          h.Add(body.kernel_dims);
          h.Add(body.output_dims);
        }
        if constexpr (std::is_same_v<T, SortKernel>) {
          h.Add(body.dims);
          h.Add(body.comparator);
        }
        if constexpr (std::is_same_v<T, ScanKernel>) h.Add(body.dims);
        if constexpr (std::is_same_v<T, ScatterKernel>) {
          h.Add(body.operand_dims);
          h.Add(body.updates_dims);
        }
        if constexpr (std::is_same_v<T, FftKernel>) {
          h.Add(static_cast<uint64_t>(body.type));
          h.Add(body.lengths);
        }
        if constexpr (std::is_same_v<T, LinalgKernel>) {
          for (int64_t v : {body.batch, body.rows, body.columns, body.reflectors}) h.Add(static_cast<uint64_t>(v));
          h.Add(static_cast<uint64_t>(body.op) | static_cast<uint64_t>(body.lower) << 8 |
                static_cast<uint64_t>(body.left_side) << 9 | static_cast<uint64_t>(body.unit_diagonal) << 10 |
                static_cast<uint64_t>(body.transpose) << 11 | static_cast<uint64_t>(body.vectors) << 13 |
                static_cast<uint64_t>(body.full) << 14);
        }
        if constexpr (std::is_same_v<T, HostKernel>) h.Add(reinterpret_cast<uintptr_t>(body.instruction));
      },
      kernel.body);
  return h.value();
}

std::size_t InputCount(LinalgKernel::Op op) {
  switch (op) {
    case LinalgKernel::Op::kCholesky:
    case LinalgKernel::Op::kLu:
    case LinalgKernel::Op::kQr:
    case LinalgKernel::Op::kEigh:
    case LinalgKernel::Op::kSvd: return 1;
    case LinalgKernel::Op::kTriangularSolve:
    case LinalgKernel::Op::kHouseholderProduct: return 2;
  }
  KRAFLA_UNREACHABLE();
}

}  // namespace krafla::plan
