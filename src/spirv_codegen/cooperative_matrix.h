// SPDX-License-Identifier: Apache-2.0
// Matrices that a subgroup holds together: SPV_KHR_cooperative_matrix. Integer components are unsigned types; which of
// them are signed numbers is said at the multiplication.
#pragma once

#include "spirv_codegen/builder.h"

namespace krafla::spirv {

class CooperativeMatrices {
 public:
  enum class Use : uint32_t { kA = 0, kB = 1, kAccumulator = 2 };

  // Before anything else of the module is emitted: the memory model becomes Vulkan's, as the extension wants it.
  explicit CooperativeMatrices(Builder& builder);

  Id Type(Kind component, uint32_t rows, uint32_t columns, Use use);
  enum class Layout : uint32_t { kRows = 0, kColumns = 1 };
  // From element `index` of a workgroup array of vectors; rows (columns) are `stride` vectors apart. The bytes are
  // taken as components, whatever the vectors are made of.
  Id Load(Id type, Id array, Kind kind, int width, Value index, uint32_t stride, Layout layout);
  void Store(Id matrix, Id array, Kind kind, int width, Value index, uint32_t stride);
  enum Signed : uint32_t { kNoneSigned = 0, kASigned = 1, kBSigned = 2, kSumSigned = 4 + 8 };
  Id MultiplyAdd(Id type, Id a, Id b, Id sum, uint32_t which_signed);

  // Sums that change in loops live in variables: drivers know these better than phis.
  Id Zero(Id type, Kind component);
  Id ZeroVariable(Id type, Kind component);
  Id Read(Id type, Id variable);
  void Write(Id variable, Id matrix);

 private:
  Id Element(Id array, Kind kind, int width, Value index);

  Builder& b_;
};

}  // namespace krafla::spirv
