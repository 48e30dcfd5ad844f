// SPDX-License-Identifier: Apache-2.0
// Writes one SPIR-V module with one compute entry point: word vectors for each logical section, interned types and
// constants, capabilities and extensions recorded by the call that needs them. Integers are unsigned only; every float
// result is NoContraction unless the builder says otherwise; float controls are declared where the profile has them.
// Grammar and rules: SPIR-V specification, unified1.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device/device_profile.h"
#include "device/tuning.h"
#include "device/workarounds.h"
#include "krafla/element_type.h"
#include "spirv/unified1/spirv.hpp11"

namespace krafla::spirv {

using Id = uint32_t;

enum class Kind : uint8_t { kBool, kU8, kU16, kU32, kU64, kF16, kBF16, kF32, kF64 };

constexpr bool IsFloatKind(Kind k) { return k >= Kind::kF16; }
constexpr int KindBits(Kind k) {
  switch (k) {
    case Kind::kBool: return 1;
    case Kind::kU8: return 8;
    case Kind::kU16:
    case Kind::kF16:
    case Kind::kBF16: return 16;
    case Kind::kU32:
    case Kind::kF32: return 32;
    case Kind::kU64:
    case Kind::kF64: return 64;
  }
  return 0;
}

// A scalar or a vector of 2 or 4. id 0: no value.
struct Value {
  Id id = 0;
  Kind kind = Kind::kU32;
  uint8_t width = 1;
  explicit operator bool() const { return id != 0; }
  friend bool operator==(const Value&, const Value&) = default;
};

class Module {
 public:
  explicit Module(const DeviceProfile& profile, const ConversionTuning& conversion = {});

  const DeviceProfile& profile() const { return profile_; }
  const Workarounds& workarounds() const { return workarounds_; }
  const ConversionTuning& conversion() const { return conversion_; }
  uint32_t version() const { return version_; }
  Id NewId() { return next_id_++; }

  void Require(spv::Capability capability);
  void RequireExtension(std::string_view name);
  // Declares the extension, unless the module's version has it in the core.
  void RequireExtension(std::string_view name, uint32_t core_since);
  Id GlslStd450();

  Id Void();
  Id Type(Kind kind, int width = 1);
  Id Pointer(spv::StorageClass storage, Id pointee);
  // A stride of 0 stands for no ArrayStride, as in workgroup and function memory.
  Id Array(Id element, uint32_t count, uint32_t stride);
  Id RuntimeArray(Id element, uint32_t stride);
  Id Struct(std::span<const Id> members, std::span<const uint32_t> offsets, bool block);
  // Any other type or constant. Equal operands give the same id.
  Id Global(spv::Op op, std::span<const uint32_t> operands, bool has_type = false, Id type = 0);

  Value Constant(Kind kind, uint64_t bits);  // the value is in the low bits
  Value Bool(bool value) { return Constant(Kind::kBool, value ? 1 : 0); }
  Value U32(uint32_t value) { return Constant(Kind::kU32, value); }
  Value ConstantVector(Kind kind, std::span<const uint64_t> bits);
  // Whether the value is a scalar constant, or one scalar in all lanes, and the bits of that scalar.
  bool IsConstant(Value value, uint64_t* bits = nullptr) const;

  // Says that the f32 `value` is the float `from` of a narrow format: one of kF16, or its code as a u32.
  void SetNarrow(Value value, ElementType format, Value from) { narrow_[value.id] = {format, from}; }
  // That; no value where nobody said so.
  Value NarrowOf(Value value, ElementType format) const {
    const auto found = narrow_.find(value.id);
    return found != narrow_.end() && found->second.first == format ? found->second.second : Value{};
  }

  void Decorate(Id id, spv::Decoration decoration, std::initializer_list<uint32_t> operands = {});
  void DecorateMember(Id structure, uint32_t member, spv::Decoration decoration);
  void Name(Id id, std::string_view name);
  Id GlobalVariable(spv::StorageClass storage, Id pointer_type);
  Id Builtin(spv::BuiltIn builtin, Id type);  // an Input variable

  // The function's body. An instruction without effects is not emitted again where an equal one dominates.
  Id Pure(spv::Op op, Id type, std::span<const uint32_t> operands, bool no_contraction = false);
  Id Emit(spv::Op op, Id type, std::span<const uint32_t> operands);
  void EmitVoid(spv::Op op, std::span<const uint32_t> operands);
  Id FunctionVariable(Id pointer_type);
  // Emits into the start of the entry block, before everything else: loads of addresses and built-ins.
  Id EmitPrologue(spv::Op op, Id type, std::span<const uint32_t> operands, Id result = 0);

  // A function besides the entry point: what is emitted from here on is its body, up to EndFunction, which gives what
  // it returns. Values of the entry point are not there, built-ins and the addresses of buffers among them; variables
  // that a workgroup shares are. One at a time.
  struct Function {
    Id id = 0;
    std::vector<Id> params;
  };
  Function BeginFunction(Id result, std::span<const Id> params);
  void EndFunction(Id value);

  // Blocks. A branch must have ended the current block before the next one begins.
  Id current_block() const { return block_; }
  void BeginBlock(Id label);
  void PushScope();
  void PopScope();
  bool in_construct() const { return scopes_.size() > 1; }  // under a condition or in a loop
  std::size_t BodySize() const { return body_.size(); }
  void PatchBody(std::size_t at, uint32_t word) { body_[at] = word; }

  void UseVulkanMemoryModel() { vulkan_memory_model_ = true; }
  bool vulkan_memory_model() const { return vulkan_memory_model_; }

  std::vector<uint32_t> Finish(std::array<uint32_t, 3> local_size);

 private:
  struct PureEntry {
    std::vector<uint32_t> key;
    Id id;
  };
  // Of the function that is being written.
  struct Body {
    Id block = 0;
    std::vector<uint32_t> variables, prologue, body;
    std::unordered_multimap<std::size_t, PureEntry> pure;
    std::vector<std::vector<std::size_t>> scopes;  // hashes entered since the scope began
  };
  void SwapBody();
  static void Append(std::vector<uint32_t>& out, spv::Op op, std::span<const uint32_t> operands);
  void AppendResult(std::vector<uint32_t>& out, spv::Op op, Id type, Id result, std::span<const uint32_t> operands);
  void FloatModes(std::vector<uint32_t>& modes);

  const DeviceProfile& profile_;
  const Workarounds workarounds_;
  const ConversionTuning conversion_;
  uint32_t version_;
  Id next_id_ = 1;
  Id glsl_ = 0;
  Id main_ = 0;
  Id block_ = 0;
  bool physical_storage_ = false;
  bool vulkan_memory_model_ = false;
  bool uses_f16_ = false, uses_f32_ = false, uses_f64_ = false;
  std::vector<spv::Capability> capabilities_;
  std::vector<std::string> extensions_;
  std::vector<uint32_t> names_, decorations_, globals_, functions_, variables_, prologue_, body_;
  std::vector<uint32_t> function_head_;  // of the one that is being written
  Body outer_;                           // the entry point's, meanwhile
  std::vector<Id> interface_;
  std::map<std::vector<uint32_t>, Id> interned_;
  std::unordered_map<Id, uint64_t> constants_;
  std::unordered_map<Id, std::pair<ElementType, Value>> narrow_;
  std::map<uint32_t, Id> builtins_;
  std::unordered_multimap<std::size_t, PureEntry> pure_;
  std::vector<std::vector<std::size_t>> scopes_;  // hashes entered since the scope began
};

// A literal string as words.
std::vector<uint32_t> StringWords(std::string_view text);

}  // namespace krafla::spirv
