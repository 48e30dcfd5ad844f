// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/cooperative_matrix.h"

#include "krafla/status.h"

namespace krafla::spirv {
namespace {

constexpr auto kNonPrivate = static_cast<uint32_t>(spv::MemoryAccessMask::NonPrivatePointer);

}  // namespace

CooperativeMatrices::CooperativeMatrices(Builder& builder) : b_(builder) {
  b_.m.UseVulkanMemoryModel();
  b_.m.Require(spv::Capability::CooperativeMatrixKHR);
  b_.m.RequireExtension("SPV_KHR_cooperative_matrix");
}

Id CooperativeMatrices::Type(Kind component, uint32_t rows, uint32_t columns, Use use) {
  if (component == Kind::kF16) b_.m.Require(spv::Capability::Float16);
  if (component == Kind::kU8) b_.m.Require(spv::Capability::Int8);
  // SPV_KHR_bfloat16: BFloat16CooperativeMatrixKHR.
  if (component == Kind::kBF16) b_.m.Require(static_cast<spv::Capability>(5118));
  const uint32_t words[] = {b_.m.Type(component), b_.U32(static_cast<uint32_t>(spv::Scope::Subgroup)).id,
                            b_.U32(rows).id, b_.U32(columns).id, b_.U32(static_cast<uint32_t>(use)).id};
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

}  // namespace krafla::spirv
