// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/kernels/moved_operand.h"

#include <numeric>

#include "spirv_codegen/program_lowering.h"

namespace krafla::spirv {

using plan::IndexAtom;
using plan::IndexTerm;

std::optional<MovedOperand> MovedOperandOf(const plan::ElementProgram& program, ElementType type) {
  if (program.results.size() != 1) return std::nullopt;
  const plan::Node& read = program.nodes[static_cast<std::size_t>(program.results[0])];
  if (read.op != plan::NodeOp::kLoad || read.mask != plan::kNoNode || read.storage != type) return std::nullopt;
  MovedOperand out{.binding = read.buffer, .type = type, .strides = {}, .granule = 0, .index = read.index};
  const plan::IndexSpace& space = program.space;
  for (std::size_t d = 0; d < space.dims().size(); ++d) {
    const plan::IndexSpace::Affine along = space.StrideAlong(read.index, static_cast<int>(d));
    if (!along.affine || along.stride < 0) return std::nullopt;
    out.strides.push_back(along.stride);
  }
  const plan::IndexExpr& at = space.expr(read.index);
  out.granule = std::abs(at.constant);
  for (const IndexTerm& term : at.terms)
    if (space.atom(term.atom).kind != IndexAtom::Kind::kIter) out.granule = std::gcd(out.granule, term.coefficient);
  return out;
}

Value StartOf(KernelWriter& w, const plan::ElementProgram& program, plan::IndexId index) {
  ProgramLowering at(w.b, w.buffers, program);
  at.LoadConstants();
  for (std::size_t d = 0; d < program.space.dims().size(); ++d) at.SetIter(static_cast<int>(d), w.b.U32(0));
  return at.Index(index);
}

}  // namespace krafla::spirv
