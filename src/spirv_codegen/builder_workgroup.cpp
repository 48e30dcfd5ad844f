// SPDX-License-Identifier: Apache-2.0
// What invocations share: the workgroup's memory, barriers, their numbers in workgroup and subgroup, and the exchange
// of values within a subgroup.
#include "spirv_codegen/builder.h"

#include <algorithm>

#include "krafla/status.h"
#include "spirv_codegen/builder_wide.h"

namespace krafla::spirv {

Value Builder::Within(Value index, int64_t count) {
  if (!MayLoadWithoutLanes() || m.IsConstant(index)) return index;
  return Min(index, U32(static_cast<uint32_t>(std::max<int64_t>(count - 1, 0))));
}

Id Builder::SharedArray(Kind kind, int width, uint32_t count) {
  shared_bytes_ += int64_t{count} * width * (KindBits(kind) / 8);
  const Id array = m.Array(m.Type(kind, width), count, 0);
  const Id out = m.GlobalVariable(spv::StorageClass::Workgroup, m.Pointer(spv::StorageClass::Workgroup, array));
  shared_counts_[out] = count;
  return out;
}
Value Builder::LoadShared(Id array, Kind kind, int width, Value index) {
  const Id type = m.Type(kind, width);
  const uint32_t chain[] = {array, Within(index, shared_counts_.at(array)).id};
  std::vector<uint32_t> words{m.Pure(spv::Op::OpAccessChain, m.Pointer(spv::StorageClass::Workgroup, type), chain)};
  if (m.vulkan_memory_model()) words.push_back(static_cast<uint32_t>(spv::MemoryAccessMask::NonPrivatePointer));
  return Value{m.Emit(spv::Op::OpLoad, type, words), kind, static_cast<uint8_t>(width)};
}
void Builder::StoreShared(Id array, Value index, Value value) {
  const uint32_t chain[] = {array, index.id};
  const Id at = m.Pure(spv::Op::OpAccessChain, m.Pointer(spv::StorageClass::Workgroup, TypeOf(value)), chain);
  std::vector<uint32_t> words{at, value.id};
  if (m.vulkan_memory_model()) words.push_back(static_cast<uint32_t>(spv::MemoryAccessMask::NonPrivatePointer));
  m.EmitVoid(spv::Op::OpStore, words);
}

void Builder::StoreSharedLane(Id array, Value index, Value lane, Value value) {
  const uint32_t chain[] = {array, index.id, lane.id};
  const Id at = m.Pure(spv::Op::OpAccessChain, m.Pointer(spv::StorageClass::Workgroup, TypeOf(value)), chain);
  std::vector<uint32_t> words{at, value.id};
  if (m.vulkan_memory_model()) words.push_back(static_cast<uint32_t>(spv::MemoryAccessMask::NonPrivatePointer));
  m.EmitVoid(spv::Op::OpStore, words);
}

void Builder::WorkgroupBarrier() { Barrier(spv::Scope::Workgroup); }
void Builder::BufferBarrier() { Barrier(spv::Scope::Workgroup, true); }
void Builder::SubgroupBarrier() { Barrier(spv::Scope::Subgroup); }
void Builder::SubgroupBufferBarrier() { Barrier(spv::Scope::Subgroup, true); }

void Builder::Barrier(spv::Scope scope, bool buffers) {
  uint32_t semantics = static_cast<uint32_t>(spv::MemorySemanticsMask::AcquireRelease) |
                       static_cast<uint32_t>(spv::MemorySemanticsMask::WorkgroupMemory);
  if (buffers) semantics |= static_cast<uint32_t>(spv::MemorySemanticsMask::UniformMemory);
  if (m.vulkan_memory_model()) {
    semantics |= static_cast<uint32_t>(spv::MemorySemanticsMask::MakeAvailable) |
                 static_cast<uint32_t>(spv::MemorySemanticsMask::MakeVisible);
  }
  const Value where = U32(static_cast<uint32_t>(scope));
  const uint32_t words[] = {where.id, where.id, U32(semantics).id};
  m.EmitVoid(spv::Op::OpControlBarrier, words);
}

Value Builder::LoadPrologue(Id variable, Kind kind, int width) {
  const uint32_t words[] = {variable};
  return Value{m.EmitPrologue(spv::Op::OpLoad, m.Type(kind, width), words), kind, static_cast<uint8_t>(width)};
}

Value Builder::WorkgroupId(int axis) {
  if (!workgroup_id_) {
    const Id variable = m.Builtin(spv::BuiltIn::WorkgroupId, [&] {
      const uint32_t words[] = {m.Type(Kind::kU32), 3};
      return m.Global(spv::Op::OpTypeVector, words);
    }());
    const uint32_t type_words[] = {m.Type(Kind::kU32), 3};
    const uint32_t words[] = {variable};
    workgroup_id_ =
        Value{m.EmitPrologue(spv::Op::OpLoad, m.Global(spv::Op::OpTypeVector, type_words), words), Kind::kU32, 3};
  }
  const Value number = Extract(workgroup_id_, axis);
  return axis == 0 && first_group_ > 0 ? Sub(number, U32(first_group_)) : number;
}
Value Builder::LocalIndex() {
  if (!local_index_) {
    local_index_ = LoadPrologue(m.Builtin(spv::BuiltIn::LocalInvocationIndex, m.Type(Kind::kU32)), Kind::kU32, 1);
  }
  return local_index_;
}
Value Builder::SubgroupId() {
  m.Require(spv::Capability::GroupNonUniform);
  if (!subgroup_id_) {
    subgroup_id_ = LoadPrologue(m.Builtin(spv::BuiltIn::SubgroupId, m.Type(Kind::kU32)), Kind::kU32, 1);
  }
  return subgroup_id_;
}
Value Builder::SubgroupLane() {
  m.Require(spv::Capability::GroupNonUniform);
  if (!lane_) {
    lane_ = LoadPrologue(m.Builtin(spv::BuiltIn::SubgroupLocalInvocationId, m.Type(Kind::kU32)), Kind::kU32, 1);
  }
  return lane_;
}

// Subgroup operations move 32-bit words: 64-bit ones need subgroup_extended_types, booleans are not data.
Value Builder::SubgroupShuffleXor(Value v, uint32_t mask) {
  m.Require(spv::Capability::GroupNonUniform);
  m.Require(spv::Capability::GroupNonUniformShuffle);
  const auto scope = static_cast<uint32_t>(spv::Scope::Subgroup);
  if (v.kind == Kind::kBool) {
    const Value word = Select(v, U32(1), U32(0));
    return Compare(Cmp::kNe, SubgroupShuffleXor(word, mask), U32(0));
  }
  if (KindBits(v.kind) == 64) {
    KRAFLA_CHECK(v.width == 1);
    const Value pair = BitcastTo(v, Kind::kU32, 2);
    return BitcastTo(SubgroupShuffleXor(pair, mask), v.kind, 1);
  }
  const uint32_t words[] = {U32(scope).id, v.id, U32(mask).id};
  return Value{m.Emit(spv::Op::OpGroupNonUniformShuffleXor, TypeOf(v), words), v.kind, v.width};
}
Value Builder::SubgroupBroadcast(Value v, uint32_t lane) {
  m.Require(spv::Capability::GroupNonUniform);
  m.Require(spv::Capability::GroupNonUniformBallot);
  if (WordPairs(m, v.kind)) {
    const WordPair pair = SplitPair(*this, v);
    return JoinPair(*this, SubgroupBroadcast(pair.low, lane), SubgroupBroadcast(pair.high, lane));
  }
  const auto scope = static_cast<uint32_t>(spv::Scope::Subgroup);
  const uint32_t words[] = {U32(scope).id, v.id, U32(lane).id};
  return Value{m.Emit(spv::Op::OpGroupNonUniformBroadcast, TypeOf(v), words), v.kind, v.width};
}

}  // namespace krafla::spirv
