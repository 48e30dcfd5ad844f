// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/cooperative_matrix.h"

#include "krafla/status.h"

namespace krafla::spirv {
namespace {

constexpr auto kNonPrivate = static_cast<uint32_t>(spv::MemoryAccessMask::NonPrivatePointer);

}  // namespace

CooperativeMatrices::CooperativeMatrices(Builder& builder, MatrixScope scope)
    : b_(builder), scope_(scope == MatrixScope::kWorkgroup ? spv::Scope::Workgroup : spv::Scope::Subgroup) {
  b_.m.UseVulkanMemoryModel();
  b_.m.Require(spv::Capability::CooperativeMatrixKHR);
  b_.m.RequireExtension("SPV_KHR_cooperative_matrix");
}

Id CooperativeMatrices::Type(Kind component, uint32_t rows, uint32_t columns, Use use) {
  if (component == Kind::kF16) b_.m.Require(spv::Capability::Float16);
  if (component == Kind::kU8) b_.m.Require(spv::Capability::Int8);
  // SPV_KHR_bfloat16: BFloat16CooperativeMatrixKHR.
  if (component == Kind::kBF16) b_.m.Require(static_cast<spv::Capability>(5118));
  const uint32_t words[] = {b_.m.Type(component), b_.U32(static_cast<uint32_t>(scope_)).id, b_.U32(rows).id,
                            b_.U32(columns).id, b_.U32(static_cast<uint32_t>(use)).id};
  return b_.m.Global(spv::Op::OpTypeCooperativeMatrixKHR, words);
}

Id CooperativeMatrices::Element(Id array, Kind kind, int width, Value index) {
  const uint32_t chain[] = {array, index.id};
  return b_.m.Pure(spv::Op::OpAccessChain, b_.m.Pointer(spv::StorageClass::Workgroup, b_.m.Type(kind, width)), chain);
}

Id CooperativeMatrices::Load(Id type, Id array, Kind kind, int width, Value index, uint32_t stride, Layout layout) {
  const uint32_t words[] = {Element(array, kind, width, index), b_.U32(static_cast<uint32_t>(layout)).id,
                            b_.U32(stride).id, kNonPrivate};
  return b_.m.Emit(spv::Op::OpCooperativeMatrixLoadKHR, type, words);
}

void CooperativeMatrices::Store(Id matrix, Id array, Kind kind, int width, Value index, uint32_t stride) {
  const uint32_t words[] = {Element(array, kind, width, index), matrix, b_.U32(static_cast<uint32_t>(Layout::kRows)).id,
                            b_.U32(stride).id, kNonPrivate};
  b_.m.EmitVoid(spv::Op::OpCooperativeMatrixStoreKHR, words);
}

Id CooperativeMatrices::MultiplyAdd(Id type, Id a, Id b, Id sum, uint32_t which_signed) {
  std::vector<uint32_t> words{a, b, sum};
  if (which_signed != kNoneSigned) words.push_back(which_signed);
  return b_.m.Emit(spv::Op::OpCooperativeMatrixMulAddKHR, type, words);
}

Id CooperativeMatrices::ForEachElement(Id type, Id matrix, Id function, std::span<const Id> more) {
  b_.m.Require(spv::Capability::CooperativeMatrixPerElementOperationsNV);
  b_.m.RequireExtension("SPV_NV_cooperative_matrix2");
  std::vector<uint32_t> words{matrix, function};
  words.insert(words.end(), more.begin(), more.end());
  return b_.m.Emit(spv::Op::OpCooperativeMatrixPerElementOpNV, type, words);
}

Id CooperativeMatrices::Zero(Id type, Kind component) {
  const uint32_t zero[] = {b_.Zero(component).id};
  return b_.m.Global(spv::Op::OpConstantComposite, zero, /*has_type=*/true, type);
}

Id CooperativeMatrices::ZeroVariable(Id type, Kind component) {
  const Id variable = b_.m.FunctionVariable(b_.m.Pointer(spv::StorageClass::Function, type));
  Write(variable, Zero(type, component));
  return variable;
}

Id CooperativeMatrices::Read(Id type, Id variable) {
  const uint32_t words[] = {variable};
  return b_.m.Emit(spv::Op::OpLoad, type, words);
}

void CooperativeMatrices::Write(Id variable, Id matrix) {
  const uint32_t words[] = {variable, matrix};
  b_.m.EmitVoid(spv::Op::OpStore, words);
}

TensorLoads::TensorLoads(Builder& builder) : b_(builder) {
  b_.m.Require(spv::Capability::TensorAddressingNV);
  b_.m.Require(spv::Capability::CooperativeMatrixTensorAddressingNV);
  b_.m.RequireExtension("SPV_NV_cooperative_matrix2");
  b_.m.RequireExtension("SPV_NV_tensor_addressing");
}

Id TensorLoads::Load(Id type, Id zero, Id pointer, bool is_physical, const TensorLayout& layout, bool clamped,
                     std::span<const Value> place, std::span<const uint32_t> spans) {
  const auto u = [&](uint32_t v) { return b_.U32(v).id; };
  const auto mode = clamped ? spv::TensorClampMode::Constant : spv::TensorClampMode::Undefined;
  const uint32_t type_words[] = {u(2), u(static_cast<uint32_t>(mode))};
  const Id layout_type = b_.m.Global(spv::Op::OpTypeTensorLayoutNV, type_words);
  const Id created = b_.m.Pure(spv::Op::OpCreateTensorLayoutNV, layout_type, {});
  const uint32_t extents[] = {created, u(layout.extents[0]), u(layout.extents[1])};
  const Id sized = b_.m.Pure(spv::Op::OpTensorLayoutSetDimensionNV, layout_type, extents);
  const uint32_t strides[] = {sized, u(layout.strides[0]), u(layout.strides[1])};
  const Id strided = b_.m.Pure(spv::Op::OpTensorLayoutSetStrideNV, layout_type, strides);
  const uint32_t slice[] = {strided, place[0].id, u(spans[0]), place[1].id, u(spans[1])};
  const Id sliced = b_.m.Emit(spv::Op::OpTensorLayoutSliceNV, layout_type, slice);
  std::vector<uint32_t> words{pointer, zero, sliced};
  if (is_physical) {
    words.insert(words.end(), {static_cast<uint32_t>(spv::MemoryAccessMask::Aligned), 16});
  } else {
    words.push_back(static_cast<uint32_t>(spv::MemoryAccessMask::MaskNone));
  }
  if (layout.is_transposed) {
    const uint32_t view_words[] = {u(2), b_.m.Bool(false).id, u(1), u(0)};
    const Id view_type = b_.m.Global(spv::Op::OpTypeTensorViewNV, view_words);
    words.push_back(static_cast<uint32_t>(spv::TensorAddressingOperandsMask::TensorView));
    words.push_back(b_.m.Pure(spv::Op::OpCreateTensorViewNV, view_type, {}));
  } else {
    words.push_back(static_cast<uint32_t>(spv::TensorAddressingOperandsMask::MaskNone));
  }
  return b_.m.Emit(spv::Op::OpCooperativeMatrixLoadTensorNV, type, words);
}

}  // namespace krafla::spirv
