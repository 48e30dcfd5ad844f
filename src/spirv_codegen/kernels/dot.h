// SPDX-License-Identifier: Apache-2.0
// A DotKernel as a tile problem.
#pragma once

#include <numeric>

#include "spirv_codegen/kernels/moved_operand.h"
#include "spirv_codegen/kernels/program_source.h"

namespace krafla::spirv {

struct DotProblem {
  // `swap`: rows and columns change places, so that the transposed result is computed.
  DotProblem(const plan::DotKernel& kernel, bool swap);

  const plan::DotKernel& k;
  bool swapped;
  TileProblem tile;
  StridedMatrix a, b;  // of an operand that is computed: as if it were stored in the order of what its program reads
  ProgramMatrix a_program, b_program;
  // Where an operand that is stored begins: at `offset` elements, or where `program` says; and each batch's.
  struct Start {
    Dims batch_strides;
    int64_t offset = 0;
    const plan::ElementProgram* program = nullptr;  // of a moved operand
    plan::IndexId index = 0;
  };
  Start a_start, b_start;

  // `depth_in_range`: reads never pass the end of the depth. `raw`: reads give bits.
  TileOperands Operands(KernelWriter& w, bool depth_in_range, bool raw = false) const;
  void FinishOne(KernelWriter& w, const Epilogue& epilogue, Value batch, Value row, Value column, Value acc,
                 Value condition) const;
  // The operand a or b of a batch, or its transpose.
  enum class Which { kA, kB, kTransposedB };
  std::unique_ptr<MatrixSource> Operand(KernelWriter& w, Which which, Value batch, ReadAs as, bool rows_in_range,
                                        bool columns_in_range) const;
};

}  // namespace krafla::spirv
