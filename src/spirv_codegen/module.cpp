// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/module.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "krafla/status.h"

namespace krafla::spirv {
namespace {

uint32_t Word(spv::Op op) { return static_cast<uint32_t>(op); }
template <class E>
uint32_t W(E e) {
  return static_cast<uint32_t>(e);
}

std::size_t HashWords(std::span<const uint32_t> words) {
  std::size_t hash = 1469598103934665603u;
  for (uint32_t w : words) hash = (hash ^ w) * 1099511628211u;
  return hash;
}

// The version to write. Vulkan 1.1 takes 1.3; 1.5 and 1.6 have more in the core. A device that takes at most 1.4, which
// is Vulkan 1.1 with an extension, gets 1.3: of what 1.4 has in the core only the float controls are used here, and
// such a device has them as an extension of 1.3 too (VK_KHR_spirv_1_4 requires it).
uint32_t ChooseVersion(uint32_t max) {
  if (max >= 0x00010600) return 0x00010600;
  if (max >= 0x00010500) return 0x00010500;
  return 0x00010300;
}

}  // namespace

std::vector<uint32_t> StringWords(std::string_view text) {
  std::vector<uint32_t> words(text.size() / 4 + 1, 0);
  std::memcpy(words.data(), text.data(), text.size());
  return words;
}

Module::Module(const DeviceProfile& profile, const ConversionTuning& conversion)
    : profile_(profile),
      workarounds_(WorkaroundsFor(profile)),
      conversion_(conversion),
      version_(ChooseVersion(profile.max_spirv_version)) {
  Require(spv::Capability::Shader);
  main_ = NewId();
  block_ = NewId();
  PushScope();
}

void Module::Require(spv::Capability capability) {
  if (std::find(capabilities_.begin(), capabilities_.end(), capability) == capabilities_.end()) {
    capabilities_.push_back(capability);
  }
  if (capability == spv::Capability::PhysicalStorageBufferAddresses) physical_storage_ = true;
}

void Module::RequireExtension(std::string_view name) {
  if (std::find(extensions_.begin(), extensions_.end(), name) == extensions_.end()) extensions_.emplace_back(name);
}
void Module::RequireExtension(std::string_view name, uint32_t core_since) {
  if (version_ < core_since) RequireExtension(name);
}

Id Module::GlslStd450() {
  if (glsl_ == 0) glsl_ = NewId();
  return glsl_;
}

void Module::Append(std::vector<uint32_t>& out, spv::Op op, std::span<const uint32_t> operands) {
  out.push_back(static_cast<uint32_t>(operands.size() + 1) << 16 | Word(op));
  out.insert(out.end(), operands.begin(), operands.end());
}

void Module::AppendResult(std::vector<uint32_t>& out, spv::Op op, Id type, Id result,
                          std::span<const uint32_t> operands) {
  out.push_back(static_cast<uint32_t>(operands.size() + 3) << 16 | Word(op));
  out.push_back(type);
  out.push_back(result);
  out.insert(out.end(), operands.begin(), operands.end());
}

Id Module::Global(spv::Op op, std::span<const uint32_t> operands, bool has_type, Id type) {
  std::vector<uint32_t> key{Word(op), has_type ? type : 0};
  key.insert(key.end(), operands.begin(), operands.end());
  auto [it, inserted] = interned_.try_emplace(std::move(key), 0);
  if (!inserted) return it->second;
  it->second = NewId();
  if (has_type) {
    AppendResult(globals_, op, type, it->second, operands);
  } else {
    std::vector<uint32_t> all{it->second};
    all.insert(all.end(), operands.begin(), operands.end());
    Append(globals_, op, all);
  }
  return it->second;
}

Id Module::Void() { return Global(spv::Op::OpTypeVoid, {}); }

Id Module::Type(Kind kind, int width) {
  if (kind == Kind::kU64 && !profile_.features.int64) {
    // A pair of words, see builder_wide.h.
    const Id members[] = {Type(Kind::kU32, width), Type(Kind::kU32, width)};
    return Struct(members, {}, false);
  }
  Id scalar = 0;
  switch (kind) {
    case Kind::kBool: scalar = Global(spv::Op::OpTypeBool, {}); break;
    case Kind::kU8:
    case Kind::kU16:
    case Kind::kU32:
    case Kind::kU64: {
      const uint32_t operands[] = {static_cast<uint32_t>(KindBits(kind)), 0};
      if (kind == Kind::kU64) Require(spv::Capability::Int64);
      scalar = Global(spv::Op::OpTypeInt, operands);
      break;
    }
    case Kind::kF16:
    case Kind::kF32:
    case Kind::kF64: {
      const uint32_t operands[] = {static_cast<uint32_t>(KindBits(kind))};
      if (kind == Kind::kF64) Require(spv::Capability::Float64);
      (kind == Kind::kF16 ? uses_f16_ : kind == Kind::kF32 ? uses_f32_ : uses_f64_) = true;
      scalar = Global(spv::Op::OpTypeFloat, operands);
      break;
    }
    case Kind::kBF16: {
      // The oldest headers that krafla builds with do not have these names; the numbers are those of SPV_KHR_bfloat16.
      Require(static_cast<spv::Capability>(5116));  // BFloat16TypeKHR
      RequireExtension("SPV_KHR_bfloat16");
      const uint32_t operands[] = {16, 0};  // FP encoding BFloat16KHR
      scalar = Global(spv::Op::OpTypeFloat, operands);
      break;
    }
  }
  if (width == 1) return scalar;
  const uint32_t operands[] = {scalar, static_cast<uint32_t>(width)};
  return Global(spv::Op::OpTypeVector, operands);
}

Id Module::Pointer(spv::StorageClass storage, Id pointee) {
  const uint32_t operands[] = {W(storage), pointee};
  return Global(spv::Op::OpTypePointer, operands);
}

Id Module::Array(Id element, uint32_t count, uint32_t stride) {
  const uint32_t operands[] = {element, U32(count).id};
  const std::size_t before = interned_.size();
  Id id = Global(spv::Op::OpTypeArray, operands);
  if (interned_.size() != before && stride != 0) Decorate(id, spv::Decoration::ArrayStride, {stride});
  return id;
}

Id Module::RuntimeArray(Id element, uint32_t stride) {
  const uint32_t operands[] = {element};
  const std::size_t before = interned_.size();
  Id id = Global(spv::Op::OpTypeRuntimeArray, operands);
  if (interned_.size() != before) Decorate(id, spv::Decoration::ArrayStride, {stride});
  return id;
}

Id Module::Struct(std::span<const Id> members, std::span<const uint32_t> offsets, bool block) {
  const std::size_t before = interned_.size();
  Id id = Global(spv::Op::OpTypeStruct, members);
  if (interned_.size() == before) return id;
  for (uint32_t i = 0; i < offsets.size(); ++i) {
    const uint32_t words[] = {id, i, W(spv::Decoration::Offset), offsets[i]};
    Append(decorations_, spv::Op::OpMemberDecorate, words);
  }
  if (block) Decorate(id, spv::Decoration::Block);
  return id;
}

Value Module::Constant(Kind kind, uint64_t bits) {
  Id type = Type(kind);
  Id id = 0;
  if (kind == Kind::kBool) {
    id = Global(bits != 0 ? spv::Op::OpConstantTrue : spv::Op::OpConstantFalse, {}, true, type);
    bits = bits != 0 ? 1 : 0;
  } else if (kind == Kind::kU64 && !profile_.features.int64) {
    const uint32_t words[] = {U32(static_cast<uint32_t>(bits)).id, U32(static_cast<uint32_t>(bits >> 32)).id};
    id = Global(spv::Op::OpConstantComposite, words, true, type);
  } else if (KindBits(kind) == 64) {
    const uint32_t words[] = {static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32)};
    id = Global(spv::Op::OpConstant, words, true, type);
  } else {
    bits &= (uint64_t{1} << KindBits(kind)) - 1;
    const uint32_t words[] = {static_cast<uint32_t>(bits)};
    id = Global(spv::Op::OpConstant, words, true, type);
  }
  constants_[id] = bits;
  return Value{id, kind, 1};
}

Value Module::ConstantVector(Kind kind, std::span<const uint64_t> bits) {
  if (kind == Kind::kU64 && !profile_.features.int64) {
    std::vector<uint64_t> low, high;
    for (uint64_t b : bits) low.push_back(b & 0xffffffffu), high.push_back(b >> 32);
    const uint32_t halves[] = {ConstantVector(Kind::kU32, low).id, ConstantVector(Kind::kU32, high).id};
    const int width = static_cast<int>(bits.size());
    const Id id = Global(spv::Op::OpConstantComposite, halves, true, Type(kind, width));
    if (std::adjacent_find(bits.begin(), bits.end(), std::not_equal_to<>()) == bits.end()) constants_[id] = bits[0];
    return Value{id, kind, static_cast<uint8_t>(width)};
  }
  std::vector<uint32_t> parts;
  bool splat = true;
  for (uint64_t b : bits) {
    parts.push_back(Constant(kind, b).id);
    splat = splat && parts.back() == parts.front();
  }
  const int width = static_cast<int>(bits.size());
  Id id = Global(spv::Op::OpConstantComposite, parts, true, Type(kind, width));
  if (splat) constants_[id] = constants_[parts.front()];
  return Value{id, kind, static_cast<uint8_t>(width)};
}

bool Module::IsConstant(Value value, uint64_t* bits) const {
  auto it = constants_.find(value.id);
  if (it == constants_.end()) return false;
  if (bits != nullptr) *bits = it->second;
  return true;
}

void Module::Decorate(Id id, spv::Decoration decoration, std::initializer_list<uint32_t> operands) {
  std::vector<uint32_t> words{id, W(decoration)};
  words.insert(words.end(), operands.begin(), operands.end());
  Append(decorations_, spv::Op::OpDecorate, words);
}

void Module::DecorateMember(Id structure, uint32_t member, spv::Decoration decoration) {
  const uint32_t words[] = {structure, member, W(decoration)};
  Append(decorations_, spv::Op::OpMemberDecorate, words);
}

void Module::Name(Id id, std::string_view name) {
  std::vector<uint32_t> words{id};
  for (uint32_t w : StringWords(name)) words.push_back(w);
  Append(names_, spv::Op::OpName, words);
}

Id Module::GlobalVariable(spv::StorageClass storage, Id pointer_type) {
  const Id id = NewId();
  const uint32_t words[] = {W(storage)};
  AppendResult(globals_, spv::Op::OpVariable, pointer_type, id, words);
  if (storage == spv::StorageClass::Input || version_ >= 0x00010400) interface_.push_back(id);
  return id;
}

Id Module::Builtin(spv::BuiltIn builtin, Id type) {
  Id& id = builtins_[W(builtin)];
  if (id == 0) {
    id = GlobalVariable(spv::StorageClass::Input, Pointer(spv::StorageClass::Input, type));
    Decorate(id, spv::Decoration::BuiltIn, {W(builtin)});
  }
  return id;
}

Id Module::Pure(spv::Op op, Id type, std::span<const uint32_t> operands, bool no_contraction) {
  std::vector<uint32_t> key{Word(op) | (no_contraction ? 0x80000000u : 0u), type};
  key.insert(key.end(), operands.begin(), operands.end());
  const std::size_t hash = HashWords(key);
  auto [first, last] = pure_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    if (it->second.key == key) return it->second.id;
  }
  const Id id = NewId();
  AppendResult(body_, op, type, id, operands);
  if (no_contraction) Decorate(id, spv::Decoration::NoContraction);
  pure_.emplace(hash, PureEntry{std::move(key), id});
  scopes_.back().push_back(hash);
  return id;
}

Id Module::Emit(spv::Op op, Id type, std::span<const uint32_t> operands) {
  const Id id = NewId();
  AppendResult(body_, op, type, id, operands);
  return id;
}
void Module::EmitVoid(spv::Op op, std::span<const uint32_t> operands) { Append(body_, op, operands); }

Id Module::FunctionVariable(Id pointer_type) {
  const Id id = NewId();
  const uint32_t words[] = {W(spv::StorageClass::Function)};
  AppendResult(variables_, spv::Op::OpVariable, pointer_type, id, words);
  return id;
}

void Module::SwapBody() {
  std::swap(outer_.block, block_);
  std::swap(outer_.variables, variables_);
  std::swap(outer_.prologue, prologue_);
  std::swap(outer_.body, body_);
  std::swap(outer_.pure, pure_);
  std::swap(outer_.scopes, scopes_);
}

Module::Function Module::BeginFunction(Id result, std::span<const Id> params) {
  KRAFLA_CHECK(function_head_.empty());
  Function out;
  std::vector<uint32_t> type{result};
  type.insert(type.end(), params.begin(), params.end());
  const uint32_t words[] = {W(spv::FunctionControlMask::MaskNone), Global(spv::Op::OpTypeFunction, type)};
  out.id = NewId();
  AppendResult(function_head_, spv::Op::OpFunction, result, out.id, words);
  for (const Id param : params) {
    out.params.push_back(NewId());
    AppendResult(function_head_, spv::Op::OpFunctionParameter, param, out.params.back(), {});
  }
  SwapBody();
  block_ = NewId();
  const uint32_t label[] = {block_};
  Append(function_head_, spv::Op::OpLabel, label);
  PushScope();
  return out;
}

void Module::EndFunction(Id value) {
  KRAFLA_CHECK(!function_head_.empty());
  const uint32_t words[] = {value};
  EmitVoid(spv::Op::OpReturnValue, words);
  EmitVoid(spv::Op::OpFunctionEnd, {});
  for (auto* part : {&function_head_, &variables_, &prologue_, &body_}) {
    functions_.insert(functions_.end(), part->begin(), part->end());
    part->clear();
  }
  PopScope();
  SwapBody();
}

Id Module::EmitPrologue(spv::Op op, Id type, std::span<const uint32_t> operands, Id result) {
  const Id id = result != 0 ? result : NewId();
  AppendResult(prologue_, op, type, id, operands);
  return id;
}

void Module::BeginBlock(Id label) {
  const uint32_t words[] = {label};
  Append(body_, spv::Op::OpLabel, words);
  block_ = label;
}

void Module::PushScope() { scopes_.emplace_back(); }
void Module::PopScope() {
  // Entries of one hash leave in the reverse of the order in which they came: those of the inner scope came last.
  for (auto hash = scopes_.back().rbegin(); hash != scopes_.back().rend(); ++hash) {
    auto [first, last] = pure_.equal_range(*hash);
    auto newest = first;
    for (auto it = first; it != last; ++it) {
      if (it->second.id > newest->second.id) newest = it;
    }
    pure_.erase(newest);
  }
  scopes_.pop_back();
}

void Module::FloatModes(std::vector<uint32_t>& modes) {
  const FloatControls& c16 = profile_.float16_controls;
  const FloatControls& c32 = profile_.float32_controls;
  const FloatControls& c64 = profile_.float64_controls;
  auto declare = [&](spv::ExecutionMode mode, spv::Capability capability, uint32_t width) {
    Require(capability);
    RequireExtension("SPV_KHR_float_controls", 0x00010400);
    const uint32_t words[] = {main_, W(mode), width};
    Append(modes, spv::Op::OpExecutionMode, words);
  };
  auto preserve = [&](uint32_t width) {
    declare(spv::ExecutionMode::SignedZeroInfNanPreserve, spv::Capability::SignedZeroInfNanPreserve, width);
  };
  if (uses_f16_ && c16.preserve_signed_zero_inf_nan) preserve(16);
  if (uses_f32_ && c32.preserve_signed_zero_inf_nan) preserve(32);
  if (uses_f64_ && c64.preserve_signed_zero_inf_nan) preserve(64);

  auto nearest = [&](uint32_t width) {
    declare(spv::ExecutionMode::RoundingModeRTE, spv::Capability::RoundingModeRTE, width);
  };
  // Where widths may not differ, the mode is declared for every width that has it or, if some used one lacks it, for
  // none (Vulkan: VkShaderFloatControlsIndependence).
  bool r16 = uses_f16_ && c16.rounding_rte, r32 = uses_f32_ && c32.rounding_rte, r64 = uses_f64_ && c64.rounding_rte;
  if (profile_.rounding_independence == FloatIndependence::kNone) {
    const bool all =
        (!uses_f16_ || c16.rounding_rte) && (!uses_f32_ || c32.rounding_rte) && (!uses_f64_ || c64.rounding_rte);
    r16 = all && c16.rounding_rte;
    r32 = all && c32.rounding_rte;
    r64 = all && c64.rounding_rte;
  } else if (profile_.rounding_independence == FloatIndependence::k32Only && (r16 || r64)) {
    const bool both = (!uses_f16_ || c16.rounding_rte) && (!uses_f64_ || c64.rounding_rte);
    r16 = both && c16.rounding_rte;
    r64 = both && c64.rounding_rte;
  }
  if (r16) nearest(16);
  if (r32) nearest(32);
  if (r64) nearest(64);
}

std::vector<uint32_t> Module::Finish(std::array<uint32_t, 3> local_size) {
  const Id void_type = Void();
  const uint32_t function_type_words[] = {void_type};
  const Id function_type = Global(spv::Op::OpTypeFunction, function_type_words);
  std::vector<uint32_t> modes;
  const uint32_t size_words[] = {main_, W(spv::ExecutionMode::LocalSize), local_size[0], local_size[1], local_size[2]};
  Append(modes, spv::Op::OpExecutionMode, size_words);
  FloatModes(modes);
  if (physical_storage_) RequireExtension("SPV_KHR_physical_storage_buffer", 0x00010500);
  RequireExtension("SPV_KHR_storage_buffer_storage_class", 0x00010300);
  if (vulkan_memory_model_) {
    Require(spv::Capability::VulkanMemoryModel);
    RequireExtension("SPV_KHR_vulkan_memory_model", 0x00010500);
  }

  std::vector<uint32_t> out{spv::MagicNumber, version_, 0, 0, 0};
  for (spv::Capability capability : capabilities_) {
    const uint32_t words[] = {W(capability)};
    Append(out, spv::Op::OpCapability, words);
  }
  for (const std::string& name : extensions_) Append(out, spv::Op::OpExtension, StringWords(name));
  if (glsl_ != 0) {
    std::vector<uint32_t> words{glsl_};
    for (uint32_t w : StringWords("GLSL.std.450")) words.push_back(w);
    Append(out, spv::Op::OpExtInstImport, words);
  }
  const uint32_t memory_words[] = {
      W(physical_storage_ ? spv::AddressingModel::PhysicalStorageBuffer64 : spv::AddressingModel::Logical),
      W(vulkan_memory_model_ ? spv::MemoryModel::Vulkan : spv::MemoryModel::GLSL450)};
  Append(out, spv::Op::OpMemoryModel, memory_words);
  std::vector<uint32_t> entry{W(spv::ExecutionModel::GLCompute), main_};
  for (uint32_t w : StringWords("main")) entry.push_back(w);
  entry.insert(entry.end(), interface_.begin(), interface_.end());
  Append(out, spv::Op::OpEntryPoint, entry);
  out.insert(out.end(), modes.begin(), modes.end());
  out.insert(out.end(), names_.begin(), names_.end());
  out.insert(out.end(), decorations_.begin(), decorations_.end());
  out.insert(out.end(), globals_.begin(), globals_.end());
  const uint32_t function_words[] = {W(spv::FunctionControlMask::MaskNone), function_type};
  AppendResult(out, spv::Op::OpFunction, void_type, main_, function_words);
  const uint32_t entry_label[] = {main_ + 1};
  Append(out, spv::Op::OpLabel, entry_label);
  out.insert(out.end(), variables_.begin(), variables_.end());
  out.insert(out.end(), prologue_.begin(), prologue_.end());
  out.insert(out.end(), body_.begin(), body_.end());
  Append(out, spv::Op::OpReturn, {});
  Append(out, spv::Op::OpFunctionEnd, {});
  // Behind the entry point: Mesa 26.1 ends where a function that is called for each element of a matrix is before it.
  out.insert(out.end(), functions_.begin(), functions_.end());
  out[3] = next_id_;
  return out;
}

}  // namespace krafla::spirv
