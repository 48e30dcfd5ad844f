// SPDX-License-Identifier: Apache-2.0
// Matrices that a subgroup, or a workgroup, holds together: SPV_KHR_cooperative_matrix and SPV_NV_cooperative_matrix2.
// Integer components are unsigned types; which of them are signed numbers is said at the multiplication.
#pragma once

#include "spirv_codegen/builder.h"

namespace krafla::spirv {

class CooperativeMatrices {
 public:
  enum class Use : uint32_t { kA = 0, kB = 1, kAccumulator = 2 };

  // Before anything else of the module is emitted: the memory model becomes Vulkan's, as the extension wants it.
  explicit CooperativeMatrices(Builder& builder, MatrixScope scope = MatrixScope::kSubgroup);

  Id Type(Kind component, uint32_t rows, uint32_t columns, Use use);
  enum class Layout : uint32_t { kRows = 0, kColumns = 1 };
  // From element `index` of a workgroup array of vectors; rows (columns) are `stride` vectors apart. The bytes are
  // taken as components, whatever the vectors are made of.
  Id Load(Id type, Id array, Kind kind, int width, Value index, uint32_t stride, Layout layout);
  void Store(Id matrix, Id array, Kind kind, int width, Value index, uint32_t stride);
  enum Signed : uint32_t { kNoneSigned = 0, kASigned = 1, kBSigned = 2, kSumSigned = 4 + 8 };
  Id MultiplyAdd(Id type, Id a, Id b, Id sum, uint32_t which_signed);

  // `matrix` with what `function` gives for each of its elements. The function's parameters are row, column and
  // element, and then `more`; it may be called more than once for an element.
  Id ForEachElement(Id type, Id matrix, Id function, std::span<const Id> more);

  // Sums that change in loops live in variables: drivers know these better than phis.
  Id Zero(Id type, Kind component);
  Id ZeroVariable(Id type, Kind component);
  Id Read(Id type, Id variable);
  void Write(Id variable, Id matrix);

 private:
  Id Element(Id array, Kind kind, int width, Value index);

  Builder& b_;
  const spv::Scope scope_;
};

// Where a matrix of two dimensions lies in a buffer, for loads by SPV_NV_tensor_addressing. The first dimension is the
// one whose elements lie further apart.
struct TensorLayout {
  uint32_t extents[2] = {1, 1}, strides[2] = {1, 1};  // in elements
  bool is_transposed = false;                         // the matrix's rows are the second dimension
};

class TensorLoads {
 public:
  explicit TensorLoads(Builder& builder);
  // The matrix of `type`, `spans` large, at `place`, in the layout's order of dimensions. `pointer`: at the tensor's
  // first element, which lies at a multiple of 16 bytes. Where `clamped`, elements past an extent are those of `zero`;
  // else there are none.
  Id Load(Id type, Id zero, Id pointer, bool is_physical, const TensorLayout& layout, bool clamped,
          std::span<const Value> place, std::span<const uint32_t> spans);

 private:
  Builder& b_;
};

}  // namespace krafla::spirv
