// SPDX-License-Identifier: Apache-2.0
#include "module_facts.h"

#include <format>
#include <spirv-tools/libspirv.hpp>
#include <unordered_map>
#include <vector>

#include "../spirv_codegen/bfloat16_stand_in.h"
#include "spirv/unified1/spirv.hpp11"

namespace krafla::spirv::testing {
namespace {

// Calls visit(opcode, operands) for each instruction; false where the stream is cut short.
template <typename Visit>
bool ForEachInstruction(std::span<const uint32_t> words, Visit visit) {
  for (std::size_t at = 5; at < words.size();) {
    const std::size_t count = words[at] >> 16;
    if (count == 0 || at + count > words.size()) return false;
    visit(static_cast<spv::Op>(words[at] & 0xffff), words.subspan(at + 1, count - 1));
    at += count;
  }
  return true;
}

// Numbers of SPV_KHR_bfloat16 and SPV_EXT_float8, which these headers may be too old to name.
constexpr uint32_t kBFloat16Type = 5116, kBFloat16DotProduct = 5117, kBFloat16CooperativeMatrix = 5118;
constexpr uint32_t kFloat8 = 4212, kFloat8CooperativeMatrix = 4213;

// What a capability needs; nullptr: the test does not know it, which is a failure of the test's table or of the code.
struct Need {
  bool known = true;
  bool offered = true;
};
Need NeedOf(uint32_t capability, const DeviceProfile& p) {
  const DeviceFeatures& f = p.features;
  if (capability == kBFloat16Type) return {true, f.bfloat16};
  if (capability == kBFloat16DotProduct) return {true, f.bfloat16_dot};
  if (capability == kBFloat16CooperativeMatrix) return {true, f.bfloat16_cooperative_matrix};
  if (capability == kFloat8) return {true, f.float8};
  if (capability == kFloat8CooperativeMatrix) return {true, f.float8_cooperative_matrix};
  using C = spv::Capability;
  const std::pair<C, bool> table[] = {
      {C::Shader, true},
      {C::Int8, f.int8},
      {C::Int16, f.int16},
      {C::Int64, f.int64},
      {C::Float16, f.float16},
      {C::Float64, f.float64},
      {C::StorageBuffer8BitAccess, f.storage8},
      {C::StorageBuffer16BitAccess, f.storage16},
      {C::PhysicalStorageBufferAddresses, f.buffer_device_address},
      {C::VulkanMemoryModel, f.vulkan_memory_model},
      {C::VulkanMemoryModelDeviceScope, f.vulkan_memory_model_device_scope},
      {C::VariablePointers, f.variable_pointers},
      {C::VariablePointersStorageBuffer, f.variable_pointers_storage_buffer},
      {C::WorkgroupMemoryExplicitLayoutKHR, f.workgroup_memory_explicit_layout},
      {C::GroupNonUniform, p.subgroup.basic},
      {C::GroupNonUniformVote, p.subgroup.vote},
      {C::GroupNonUniformArithmetic, p.subgroup.arithmetic},
      {C::GroupNonUniformBallot, p.subgroup.ballot},
      {C::GroupNonUniformShuffle, p.subgroup.shuffle},
      {C::GroupNonUniformShuffleRelative, p.subgroup.shuffle_relative},
      {C::GroupNonUniformClustered, p.subgroup.clustered},
      {C::GroupNonUniformQuad, p.subgroup.quad},
      {C::GroupNonUniformRotateKHR, p.subgroup.rotate},
      {C::Int64Atomics, f.atomic_int64},
      {C::AtomicFloat32AddEXT, f.atomic_float32_add_buffer || f.atomic_float32_add_shared},
      {C::AtomicFloat64AddEXT, f.atomic_float64_add_buffer},
      {C::AtomicFloat16AddEXT, f.atomic_float16_add_buffer},
      {C::DotProduct, f.integer_dot_product},
      {C::DotProductInputAll, f.integer_dot_product},
      {C::DotProductInput4x8Bit, f.integer_dot_product},
      {C::DotProductInput4x8BitPacked, f.integer_dot_product},
      {C::CooperativeMatrixKHR, f.cooperative_matrix},
      {C::CooperativeMatrixPerElementOperationsNV, f.matrix_per_element_operations},
      {C::CooperativeMatrixTensorAddressingNV, f.matrix_tensor_addressing},
      {C::TensorAddressingNV, f.matrix_tensor_addressing},
      // Which widths may declare them is checked at the execution mode.
      {C::SignedZeroInfNanPreserve, f.shader_float_controls || p.api_minor >= 2},
      {C::RoundingModeRTE, f.shader_float_controls || p.api_minor >= 2},
      {C::RoundingModeRTZ, f.shader_float_controls || p.api_minor >= 2},
      {C::DenormPreserve, f.shader_float_controls || p.api_minor >= 2},
      {C::DenormFlushToZero, f.shader_float_controls || p.api_minor >= 2},
      {C::FloatControls2, f.float_controls2},
  };
  for (const auto& [known, offered] : table)
    if (static_cast<uint32_t>(known) == capability) return {true, offered};
  return {false, false};
}

bool OffersMode(spv::ExecutionMode mode, uint32_t width, const DeviceProfile& p) {
  const FloatControls& c = width == 16 ? p.float16_controls : width == 64 ? p.float64_controls : p.float32_controls;
  if (mode == spv::ExecutionMode::SignedZeroInfNanPreserve) return c.preserve_signed_zero_inf_nan;
  if (mode == spv::ExecutionMode::RoundingModeRTE) return c.rounding_rte;
  if (mode == spv::ExecutionMode::RoundingModeRTZ) return c.rounding_rtz;
  if (mode == spv::ExecutionMode::DenormPreserve) return c.denorm_preserve;
  if (mode == spv::ExecutionMode::DenormFlushToZero) return c.denorm_flush;
  return true;
}

}  // namespace

uint64_t SharedMemoryBytes(std::span<const uint32_t> words) {
  std::unordered_map<uint32_t, uint64_t> bytes, constants;  // by id
  std::unordered_map<uint32_t, uint32_t> pointees;          // of Workgroup pointers
  uint64_t total = 0;
  ForEachInstruction(words, [&](spv::Op op, std::span<const uint32_t> o) {
    if (op == spv::Op::OpTypeInt || op == spv::Op::OpTypeFloat) bytes[o[0]] = o[1] / 8;
    if (op == spv::Op::OpTypeBool) bytes[o[0]] = 4;
    if (op == spv::Op::OpTypeVector) bytes[o[0]] = bytes[o[1]] * o[2];
    if (op == spv::Op::OpConstant) constants[o[1]] = o[2];
    if (op == spv::Op::OpTypeArray) bytes[o[0]] = bytes[o[1]] * constants[o[2]];
    if (op == spv::Op::OpTypeStruct)
      for (uint32_t member : o.subspan(1)) bytes[o[0]] += bytes[member];
    if (op == spv::Op::OpTypePointer && o[1] == static_cast<uint32_t>(spv::StorageClass::Workgroup))
      pointees[o[0]] = o[2];
    if (op == spv::Op::OpVariable && o[2] == static_cast<uint32_t>(spv::StorageClass::Workgroup))
      total += bytes[pointees[o[0]]];
  });
  return total;
}

std::string Unsupported(const EmittedKernel& kernel, const DeviceProfile& p) {
  std::span<const uint32_t> words = kernel.words;
  if (words.size() < 5 || words[0] != spv::MagicNumber) return "no SPIR-V header";
  if (words[1] > p.max_spirv_version) return Format("SPIR-V version {:#x}", words[1]);
  std::string problem;
  uint64_t invocations = 1;
  bool whole = ForEachInstruction(words, [&](spv::Op op, std::span<const uint32_t> o) {
    if (!problem.empty()) return;
    if (op == spv::Op::OpCapability) {
      Need need = NeedOf(o[0], p);
      if (!need.known) problem = Format("capability {}, which this test has no row for", o[0]);
      if (!need.offered) problem = Format("capability {}", o[0]);
    }
    if (op == spv::Op::OpExecutionMode) {
      auto mode = static_cast<spv::ExecutionMode>(o[1]);
      if (mode == spv::ExecutionMode::LocalSize) {
        for (std::size_t d = 0; d < 3; ++d) {
          invocations *= o[2 + d];
          if (o[2 + d] == 0 || o[2 + d] > p.limits.max_workgroup_size[d] || o[2 + d] != kernel.local_size[d])
            problem = Format("local size {} in dimension {}", o[2 + d], d);
        }
      } else if (o.size() == 3 && !OffersMode(mode, o[2], p)) {
        problem = Format("execution mode {} at width {}", o[1], o[2]);
      }
    }
  });
  if (!problem.empty()) return problem;
  if (!whole) return "an instruction past the end of the module";
  if (invocations > p.limits.max_workgroup_invocations) return Format("{} invocations a group", invocations);
  if (uint64_t shared = SharedMemoryBytes(words); shared > p.limits.max_shared_memory_bytes)
    return Format("{} bytes of shared memory", shared);
  // Words from byte 8 on, after the address of the row of addresses.
  if (8 + 4 * kernel.push_words > static_cast<int>(p.limits.max_push_constant_bytes))
    return Format("{} push words", kernel.push_words);
  if (kernel.uses_buffer_device_address != p.features.buffer_device_address && !kernel.buffers.empty())
    return "the other addressing model";
  if (!p.features.buffer_device_address && kernel.buffers.size() > p.limits.max_per_stage_storage_buffers)
    return Format("{} storage buffers", kernel.buffers.size());
  if (kernel.subgroup_size != 0) {
    if (!p.features.subgroup_size_control) return "a required subgroup size";
    if (kernel.subgroup_size < p.limits.min_subgroup_size || kernel.subgroup_size > p.limits.max_subgroup_size)
      return Format("subgroup size {}", kernel.subgroup_size);
  }
  if (kernel.full_subgroups && !p.features.compute_full_subgroups) return "full subgroups";
  return {};
}

std::string Unsupported(const EmittedDispatch& dispatch, const EmittedKernel& kernel, const DeviceProfile& p) {
  for (std::size_t d = 0; d < 3; ++d)
    if (dispatch.grid[d] == 0 || dispatch.grid[d] > p.limits.max_workgroup_count[d])
      return Format("{} groups in dimension {}", dispatch.grid[d], d);
  if (static_cast<int>(dispatch.push.size()) != kernel.push_words)
    return Format("{} push words for a kernel of {}", dispatch.push.size(), kernel.push_words);
  return {};
}

namespace {

// An instruction that gives an id, of those that make places in memory.
struct Definition {
  spv::Op op = spv::Op::OpNop;
  uint32_t type = 0;
  std::span<const uint32_t> operands;  // those after the id
};
class Definitions {
 public:
  void Note(spv::Op op, std::span<const uint32_t> o) {
    using enum spv::Op;
    if (op == OpTypePointer) classes_[o[0]] = static_cast<spv::StorageClass>(o[1]);
    for (spv::Op known : {OpConstant, OpSelect, OpULessThan, OpAccessChain, OpConvertUToPtr, OpIAdd, OpUConvert})
      if (op == known) by_id_[o[1]] = {op, o[0], o.subspan(2)};
  }
  // Whether what lies behind a pointer lies within the buffer, or the array, that the pointer was made from.
  bool IsWithin(uint32_t pointer) const {
    const Definition chain = Of(pointer);
    if (chain.op != spv::Op::OpAccessChain) return true;
    const spv::StorageClass storage = classes_.at(chain.type);
    if (storage != spv::StorageClass::PhysicalStorageBuffer && storage != spv::StorageClass::Workgroup) return true;
    const Definition address = Of(chain.operands[0]);
    if (address.op != spv::Op::OpConvertUToPtr) return IsBounded(chain.operands.back());
    // The buffer's address and an offset of 32 bits.
    const Definition sum = Of(address.operands[0]);
    if (sum.op != spv::Op::OpIAdd) return true;
    const Definition offset = Of(sum.operands[1]);
    return offset.op == spv::Op::OpConstant || (offset.op == spv::Op::OpUConvert && IsBounded(offset.operands[0]));
  }

 private:
  Definition Of(uint32_t id) const {
    const auto found = by_id_.find(id);
    return found == by_id_.end() ? Definition{} : found->second;
  }
  // Whether a number is a constant, or the lesser of any number and a constant, as the builder makes it.
  bool IsBounded(uint32_t id) const {
    const Definition number = Of(id);
    if (number.op != spv::Op::OpSelect) return number.op == spv::Op::OpConstant;
    const Definition less = Of(number.operands[0]);
    return less.op == spv::Op::OpULessThan && less.operands[0] == number.operands[1] &&
           less.operands[1] == number.operands[2] && Of(number.operands[2]).op == spv::Op::OpConstant;
  }

  std::unordered_map<uint32_t, Definition> by_id_;
  std::unordered_map<uint32_t, spv::StorageClass> classes_;  // of pointers' types
};

}  // namespace

std::string UnboundedLoad(std::span<const uint32_t> words) {
  Definitions known;
  std::vector<uint32_t> merges;  // the blocks at which the constructs around an instruction end
  std::string found;
  const bool whole = ForEachInstruction(words, [&](spv::Op op, std::span<const uint32_t> o) {
    known.Note(op, o);
    if (op == spv::Op::OpSelectionMerge || op == spv::Op::OpLoopMerge) merges.push_back(o[0]);
    if (op == spv::Op::OpLabel && !merges.empty() && merges.back() == o[0]) merges.pop_back();
    if (op == spv::Op::OpLoad && !merges.empty() && found.empty() && !known.IsWithin(o[2]))
      found = Format("what is loaded as %{} may lie anywhere", o[1]);
  });
  return whole ? found : "the words are cut short";
}

std::string Validate(std::span<const uint32_t> module, const DeviceProfile& p) {
  const std::vector<uint32_t> words = WithoutBFloat16(module);
  const spv_target_env env = p.api_minor >= 4   ? SPV_ENV_VULKAN_1_4
                             : p.api_minor == 3 ? SPV_ENV_VULKAN_1_3
                             : p.api_minor == 2 ? SPV_ENV_VULKAN_1_2
                                                : SPV_ENV_VULKAN_1_1;
  spvtools::SpirvTools tools(env);
  std::string out;
  tools.SetMessageConsumer([&](spv_message_level_t, const char*, const spv_position_t& at, const char* message) {
    out += Format("{}: {}\n", at.index, message);
  });
  spvtools::ValidatorOptions options;
  if (tools.Validate(words.data(), words.size(), options)) return {};
  return out.empty() ? "invalid" : out;
}

}  // namespace krafla::spirv::testing
