// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/buffers.h"

#include <algorithm>
#include <utility>

#include "base/checked_math.h"
#include "krafla/status.h"

namespace krafla::spirv {

Buffers::Buffers(Builder& builder, std::vector<BufferDesc> descs, const MemoryTuning& tuning, int push_words)
    : b_(builder),
      descs_(std::move(descs)),
      push_words_(push_words),
      addresses_(builder.m.profile().features.buffer_device_address),
      in_pairs_(tuning.words_in_pairs && builder.m.profile().features.int64),
      words_around_(tuning.words_around) {
  if (addresses_) b_.m.Require(spv::Capability::PhysicalStorageBufferAddresses);
}

std::vector<Buffers::Use> Buffers::Finish() {
  Module& m = b_.m;
  std::vector<Use> uses;
  std::map<int, uint32_t> number;
  for (const auto& [buffer, use] : used_) {
    number[buffer] = static_cast<uint32_t>(uses.size());
    uses.push_back(use);
  }
  if (!addresses_) {
    for (const auto& [view, variable] : views_) {
      m.Decorate(variable, spv::Decoration::DescriptorSet, {0});
      m.Decorate(variable, spv::Decoration::Binding, {number[std::get<0>(view)]});
      if (used_[std::get<0>(view)].written) {
        m.Decorate(variable, spv::Decoration::Aliased);
        if (coherent_) m.Decorate(variable, spv::Decoration::Coherent);
      } else {
        m.Decorate(variable, spv::Decoration::NonWritable);
      }
    }
    return uses;
  }
  if (views_.empty() && addresses64_.empty()) return uses;
  const Id pair = m.Type(Kind::kU32, 2);
  const uint32_t offsets[] = {0};
  const uint32_t chain[] = {PushVariable(), b_.U32(0).id};
  const Id at = m.EmitPrologue(spv::Op::OpAccessChain, m.Pointer(spv::StorageClass::PushConstant, pair), chain);
  const uint32_t load[] = {at};
  const uint32_t raw[] = {m.EmitPrologue(spv::Op::OpLoad, pair, load)};
  const Id row_members[] = {m.RuntimeArray(pair, 8)};
  const Id row_type = m.Pointer(spv::StorageClass::PhysicalStorageBuffer, m.Struct(row_members, offsets, true));
  const Id row = m.EmitPrologue(spv::Op::OpBitcast, row_type, raw);
  std::map<int, Id> address;
  for (const auto& [buffer, place] : number) {
    const uint32_t entry[] = {row, b_.U32(0).id, b_.U32(place).id};
    const Id entry_at =
        m.EmitPrologue(spv::Op::OpAccessChain, m.Pointer(spv::StorageClass::PhysicalStorageBuffer, pair), entry);
    const uint32_t load_entry[] = {entry_at, static_cast<uint32_t>(spv::MemoryAccessMask::Aligned), 8};
    address[buffer] = m.EmitPrologue(spv::Op::OpLoad, pair, load_entry);
  }
  for (const auto& [view, pointer] : views_) {
    const auto& [buffer, kind, width] = view;
    const uint32_t cast[] = {address[buffer]};
    m.EmitPrologue(spv::Op::OpBitcast, ViewPointer(kind, width), cast, pointer);
  }
  for (const auto& [buffer, number64] : addresses64_) {
    const uint32_t cast[] = {address[buffer]};
    m.EmitPrologue(spv::Op::OpBitcast, m.Type(Kind::kU64), cast, number64);
  }
  return uses;
}

Id Buffers::PushVariable() {
  if (push_variable_ != 0) return push_variable_;
  std::vector<Id> members{b_.m.Type(Kind::kU32, 2)};
  std::vector<uint32_t> offsets{0};
  for (int i = 0; i < push_words_; ++i) {
    members.push_back(b_.m.Type(Kind::kU32));
    offsets.push_back(static_cast<uint32_t>(8 + 4 * i));
  }
  const Id block = b_.m.Struct(members, offsets, true);
  push_variable_ =
      b_.m.GlobalVariable(spv::StorageClass::PushConstant, b_.m.Pointer(spv::StorageClass::PushConstant, block));
  return push_variable_;
}

Value Buffers::PushWord(int number) {
  auto [it, inserted] = push_values_.try_emplace(number);
  if (inserted) {
    const Id type = b_.m.Type(Kind::kU32);
    const uint32_t chain[] = {PushVariable(), b_.U32(static_cast<uint32_t>(number + 1)).id};
    const Id pointer =
        b_.m.EmitPrologue(spv::Op::OpAccessChain, b_.m.Pointer(spv::StorageClass::PushConstant, type), chain);
    const uint32_t load[] = {pointer};
    it->second = Value{b_.m.EmitPrologue(spv::Op::OpLoad, type, load), Kind::kU32, 1};
  }
  return it->second;
}

Id Buffers::ViewPointer(Kind kind, int width) {
  Module& m = b_.m;
  if (kind == Kind::kU8) {
    m.Require(spv::Capability::StorageBuffer8BitAccess);
    if (addresses_) m.Require(spv::Capability::Int8);
    m.RequireExtension("SPV_KHR_8bit_storage", 0x00010500);
  }
  if (kind == Kind::kU16) {
    m.Require(spv::Capability::StorageBuffer16BitAccess);
    if (addresses_) m.Require(spv::Capability::Int16);
    m.RequireExtension("SPV_KHR_16bit_storage", 0x00010300);
  }
  const Id members[] = {m.RuntimeArray(m.Type(kind, width), static_cast<uint32_t>(KindBits(kind) / 8 * width))};
  const uint32_t offsets[] = {0};
  const Id structure = m.Struct(members, offsets, true);
  // A descriptor's variable is coherent itself.
  if (coherent_ && addresses_ && coherent_structs_.insert(structure).second)
    m.DecorateMember(structure, 0, spv::Decoration::Coherent);
  return m.Pointer(storage(), structure);
}

Id Buffers::View(int buffer, Kind kind, int width) {
  auto [it, inserted] = views_.try_emplace({buffer, kind, width}, 0);
  if (inserted) {
    const Id pointer_type = ViewPointer(kind, width);
    it->second = addresses_ ? b_.m.NewId() : b_.m.GlobalVariable(spv::StorageClass::StorageBuffer, pointer_type);
  }
  used_[buffer].buffer = buffer;
  return it->second;
}

Id Buffers::ElementPointer(int buffer, Kind kind, int width, Value index) {
  const uint32_t chain[] = {View(buffer, kind, width), b_.U32(0).id, index.id};
  return b_.m.Pure(spv::Op::OpAccessChain, b_.m.Pointer(storage(), b_.m.Type(kind, width)), chain);
}

Id Buffers::PointerAt(int buffer, int bytes, Value index) {
  used_[buffer].read = true;
  return ElementPointer(buffer, bytes == 1 ? Kind::kU8 : Kind::kU16, 1, index);
}

int64_t Buffers::PaddedBytes(int buffer) const {
  return RoundUp(element_count(buffer) * element_bytes(buffer), int64_t{16});
}

Value Buffers::LoadView(int buffer, Kind kind, int width, Value index) {
  if (in_pairs_ && kind == Kind::kU32 && width > 1)
    return b_.BitcastTo(LoadView(buffer, Kind::kU64, width / 2, index), Kind::kU32, width);
  const int bytes = KindBits(kind) / 8 * width;
  // Of descriptors the driver checks what is read.
  if (addresses_) index = b_.Within(index, PaddedBytes(buffer) / bytes);
  const Id pointer = ElementPointer(buffer, kind, width, index);
  used_[buffer].read = true;
  std::vector<uint32_t> words{pointer};
  if (addresses_) {
    words.push_back(static_cast<uint32_t>(spv::MemoryAccessMask::Aligned));
    words.push_back(static_cast<uint32_t>(bytes));
  }
  return Value{b_.m.Emit(spv::Op::OpLoad, b_.m.Type(kind, width), words), kind, static_cast<uint8_t>(width)};
}

void Buffers::StoreView(int buffer, Value index, Value value) {
  if (in_pairs_ && value.kind == Kind::kU32 && value.width > 1)
    return StoreView(buffer, index, b_.BitcastTo(value, Kind::kU64, value.width / 2));
  const Id pointer = ElementPointer(buffer, value.kind, value.width, index);
  used_[buffer].written = true;
  std::vector<uint32_t> words{pointer, value.id};
  if (addresses_) {
    words.push_back(static_cast<uint32_t>(spv::MemoryAccessMask::Aligned));
    words.push_back(static_cast<uint32_t>(KindBits(value.kind) / 8 * value.width));
  }
  b_.m.EmitVoid(spv::Op::OpStore, words);
}

Value Buffers::LoadCopy(const Copy& copy, Kind kind64) {
  const int width = copy.bytes == 8 ? 2 : 1;
  const uint32_t words[] = {copy.variable};
  const Value bits{b_.m.Emit(spv::Op::OpLoad, b_.m.Type(Kind::kU32, width), words), Kind::kU32,
                   static_cast<uint8_t>(width)};
  return copy.bytes == 8 ? b_.BitcastTo(bits, kind64, 1) : bits;
}

void Buffers::KeepCopies(int buffer) { KeepValue(buffer, Load(buffer, element_bytes(buffer), b_.U32(0), 1)); }

void Buffers::KeepValue(int buffer, Value bits) {
  const int bytes = element_bytes(buffer), width = bytes == 8 ? 2 : 1;
  if (bytes == 8) bits = b_.BitcastTo(bits, Kind::kU32, 2);
  const Id variable = b_.m.FunctionVariable(b_.m.Pointer(spv::StorageClass::Function, b_.m.Type(Kind::kU32, width)));
  const uint32_t words[] = {variable, bits.id};
  b_.m.EmitVoid(spv::Op::OpStore, words);
  copies_[buffer] = {variable, bytes, false};
}

void Buffers::StoreCopies() {
  const std::map<int, Copy> copies = std::exchange(copies_, {});
  for (const auto& [buffer, copy] : copies)
    if (copy.stored) Store(buffer, copy.bytes, b_.U32(0), LoadCopy(copy, Kind::kU64));
}

void Buffers::StoreWhere(Value condition, const std::function<void()>& body) {
  const Value before = std::exchange(store_where_, condition);
  body();
  store_where_ = before;
}

void Buffers::KeepInWorkgroup(int buffer) {
  KRAFLA_CHECK(element_bytes(buffer) <= 4);
  // What is read up to the next 16 bytes is there too.
  const auto words = static_cast<uint32_t>(RoundUp(element_count(buffer), 16));
  kept_[buffer] = {b_.SharedArray(Kind::kU32, 1, words), element_bytes(buffer)};
}

const Buffers::Kept* Buffers::KeptIn(int buffer) const {
  const auto found = kept_.find(buffer);
  return found == kept_.end() ? nullptr : &found->second;
}

Value Buffers::LoadKept(const Kept& kept, Value index, int width) {
  if (width == 1) return b_.LoadShared(kept.array, Kind::kU32, 1, index);
  Values elements;
  for (int i = 0; i < width; ++i)
    elements.push_back(b_.LoadShared(kept.array, Kind::kU32, 1, b_.Add(index, b_.U32(static_cast<uint32_t>(i)))));
  return b_.Composite(elements);
}

void Buffers::StoreKept(const Kept& kept, Value index, Value bits) {
  // As it would be read again.
  if (kept.bytes < 4) bits = b_.And(bits, b_.Splat(b_.U32(kept.bytes == 1 ? 0xffu : 0xffffu), bits.width));
  for (int i = 0; i < bits.width; ++i)
    b_.StoreShared(kept.array, b_.Add(index, b_.U32(static_cast<uint32_t>(i))),
                   bits.width == 1 ? bits : b_.Extract(bits, i));
}

Value Buffers::LoadKeptWords(const Kept& kept, Value first, int width) {
  const int in_word = 4 / kept.bytes;
  Values words;
  for (int w = 0; w < width; ++w) {
    Value word;
    for (int i = 0; i < in_word; ++i) {
      const Value at =
          b_.Add(b_.Mul(b_.Add(first, b_.U32(static_cast<uint32_t>(w))), b_.U32(static_cast<uint32_t>(in_word))),
                 b_.U32(static_cast<uint32_t>(i)));
      const Value element = b_.LoadShared(kept.array, Kind::kU32, 1, at);
      word = i == 0 ? element : b_.Or(word, b_.Shl(element, b_.U32(static_cast<uint32_t>(8 * kept.bytes * i))));
    }
    words.push_back(word);
  }
  return width == 1 ? words[0] : b_.Composite(words);
}

Value Buffers::Address(int buffer) {
  auto [it, inserted] = addresses64_.try_emplace(buffer, 0);
  if (inserted) it->second = b_.m.NewId();
  used_[buffer].buffer = buffer;
  return Value{it->second, Kind::kU64, 1};
}

Value Buffers::LoadWordsAt(int buffer, const Place& place, int width) {
  const Kept* kept = KeptIn(buffer);
  const auto sum = [&] {
    const Value bytes = b_.Add(place.lane, b_.U32(place.constant));
    return place.uniform ? b_.Add(bytes, place.uniform) : bytes;
  };
  if (kept != nullptr || !addresses_ || !features().int64) {
    const Value bytes = sum();
    if (kept != nullptr) return LoadKeptWords(*kept, b_.Shr(bytes, b_.U32(2)), width);
    if (place.alignment >= 4 * width) {
      const uint32_t shift = width == 1 ? 2 : width == 2 ? 3 : 4;
      return LoadView(buffer, Kind::kU32, width, b_.Shr(bytes, b_.U32(shift)));
    }
    const Value first = b_.Shr(bytes, b_.U32(2));
    Values words;
    for (int i = 0; i < width; ++i)
      words.push_back(LoadView(buffer, Kind::kU32, 1, b_.Add(first, b_.U32(static_cast<uint32_t>(i)))));
    return b_.Composite(words);
  }
  // A zero-extended offset is what drivers fold into the instruction; an index of an array is a signed number.
  Module& m = b_.m;
  Value at = Address(buffer);
  used_[buffer].read = true;
  if (b_.MayLoadWithoutLanes()) {
    at = b_.Add(at, b_.UConvert(b_.Within(sum(), PaddedBytes(buffer) - int64_t{4} * width + 1), Kind::kU64));
  } else {
    if (place.uniform) at = b_.Add(at, b_.UConvert(place.uniform, Kind::kU64));
    at = b_.Add(at, b_.UConvert(place.lane, Kind::kU64));
    at = b_.Add(at, b_.Const(Kind::kU64, place.constant));
  }
  const bool pairs = in_pairs_ && width > 1 && place.alignment >= 8;
  const Kind kind = pairs ? Kind::kU64 : Kind::kU32;
  const int elements = pairs ? width / 2 : width;
  const Id type = m.Type(kind, elements);
  const Id members[] = {type};
  const uint32_t offsets[] = {0};
  const Id structure = m.Struct(members, offsets, true);
  if (constant_structs_.insert(structure).second) m.DecorateMember(structure, 0, spv::Decoration::NonWritable);
  const uint32_t cast[] = {at.id};
  const uint32_t chain[] = {
      m.Pure(spv::Op::OpConvertUToPtr, m.Pointer(spv::StorageClass::PhysicalStorageBuffer, structure), cast),
      b_.U32(0).id};
  const Id pointer = m.Pure(spv::Op::OpAccessChain, m.Pointer(spv::StorageClass::PhysicalStorageBuffer, type), chain);
  const uint32_t load[] = {pointer, static_cast<uint32_t>(spv::MemoryAccessMask::Aligned),
                           static_cast<uint32_t>(place.alignment)};
  return b_.BitcastTo(Value{m.Emit(spv::Op::OpLoad, type, load), kind, static_cast<uint8_t>(elements)}, Kind::kU32,
                      width);
}

Value Buffers::LoadWords(int buffer, Value index, int width) {
  if (const Kept* kept = KeptIn(buffer))
    return LoadKeptWords(*kept, b_.Mul(index, b_.U32(static_cast<uint32_t>(width))), width);
  return LoadView(buffer, Kind::kU32, width, index);
}
void Buffers::StoreWords(int buffer, Value index, Value words) {
  KRAFLA_CHECK(KeptIn(buffer) == nullptr);
  StoreView(buffer, index, words);
}

Value Buffers::Load(int buffer, int bytes, Value index, int width, Kind kind64) {
  if (const auto copy = copies_.find(buffer); copy != copies_.end()) {
    KRAFLA_CHECK(width == 1 && bytes == copy->second.bytes);
    return LoadCopy(copy->second, kind64);
  }
  if (const Kept* kept = KeptIn(buffer)) {
    KRAFLA_CHECK(bytes == kept->bytes);
    return LoadKept(*kept, index, width);
  }
  if (width == 1) {
    switch (bytes) {
      case 1:
      case 2: {
        if (bytes == 1 ? native8() : native16()) {
          return b_.UConvert(LoadView(buffer, bytes == 1 ? Kind::kU8 : Kind::kU16, 1, index), Kind::kU32);
        }
        const Value per_word = b_.U32(bytes == 1 ? 2 : 1);
        const Value word = LoadView(buffer, Kind::kU32, 1, b_.Shr(index, per_word));
        const Value lane = b_.And(index, b_.U32(bytes == 1 ? 3 : 1));
        const Value shifted = b_.Shr(word, b_.Shl(lane, b_.U32(bytes == 1 ? 3 : 4)));
        return b_.And(shifted, b_.U32(bytes == 1 ? 0xffu : 0xffffu));
      }
      case 4: return LoadView(buffer, Kind::kU32, 1, index);
      default: return b_.BitcastTo(LoadView(buffer, Kind::kU32, 2, index), kind64, 1);
    }
  }
  KRAFLA_CHECK(width == 4);
  if (bytes <= 4) return Elements(LoadView(buffer, Kind::kU32, bytes, b_.Shr(index, b_.U32(2))), bytes);
  const Value at = b_.Shr(index, b_.U32(1));
  const Value low = b_.BitcastTo(LoadView(buffer, Kind::kU32, 4, at), kind64, 2);
  const Value high = b_.BitcastTo(LoadView(buffer, Kind::kU32, 4, b_.Add(at, b_.U32(1))), kind64, 2);
  static constexpr uint32_t kLanes[] = {0, 1, 2, 3};
  return b_.Shuffle(low, high, kLanes);
}

Value Buffers::LoadFromAny(int buffer, int bytes, Value index) {
  KRAFLA_CHECK(bytes < 4);
  const auto u = [&](int64_t v) { return b_.U32(static_cast<uint32_t>(v)); };
  const Value last = u(PaddedBytes(buffer) / 4 - 1);
  const Value first = b_.Shr(index, u(bytes == 1 ? 2 : 1));
  const Value shift = b_.Shl(b_.And(index, u(4 / bytes - 1)), u(bytes == 1 ? 3 : 4));
  const Value back = b_.Xor(shift, u(31));
  Values words;
  Value low = LoadWords(buffer, b_.Min(first, last), 1);
  for (int i = 1; i <= bytes; ++i) {
    const Value high = LoadWords(buffer, b_.Min(b_.Add(first, u(i)), last), 1);
    // Shifted by one and then by the rest, as a shift by a whole word has no defined result.
    words.push_back(b_.Or(b_.Shr(low, shift), b_.Shl(b_.Shl(high, u(1)), back)));
    low = high;
  }
  return Elements(bytes == 1 ? words[0] : b_.Composite(words), bytes);
}

Value Buffers::Elements(Value words, int bytes) {
  static constexpr uint64_t kBytes[] = {0, 8, 16, 24}, kHalves[] = {0, 16, 0, 16};
  static constexpr uint32_t kLanes[] = {0, 0, 1, 1};
  if (bytes == 1) return b_.And(b_.Shr(words, b_.m.ConstantVector(Kind::kU32, kBytes)), b_.U32(0xff));
  if (bytes == 4) return words;
  const Value spread = b_.Shuffle(words, words, kLanes);
  return b_.And(b_.Shr(spread, b_.m.ConstantVector(Kind::kU32, kHalves)), b_.U32(0xffff));
}

Value Buffers::ElementWords(Value bits, int bytes) {
  if (bytes == 4) return bits;
  const uint32_t mask = bytes == 1 ? 0xffu : 0xffffu;
  if (bytes == 1) {
    Value word = b_.And(b_.Extract(bits, 0), b_.U32(mask));
    for (int i = 1; i < 4; ++i) {
      const Value lane = b_.And(b_.Extract(bits, i), b_.U32(mask));
      word = b_.Or(word, b_.Shl(lane, b_.U32(static_cast<uint32_t>(8 * i))));
    }
    return word;
  }
  const auto half = [&](int i) {
    return b_.Or(b_.And(b_.Extract(bits, i), b_.U32(mask)), b_.Shl(b_.Extract(bits, i + 1), b_.U32(16)));
  };
  const Value words[] = {half(0), half(2)};
  return b_.Composite(words);
}

Value Buffers::LoadConstant(int buffer, int bytes, Value index, int width, Kind kind64) {
  if (!addresses_ || bytes > 4 || width * bytes < 4) return Load(buffer, bytes, index, width, kind64);
  const int words = width * bytes / 4;
  Place place;
  place.lane = b_.Mul(index, b_.U32(static_cast<uint32_t>(bytes)));
  place.alignment = 4 * words;
  const Value loaded = LoadWordsAt(buffer, place, words);
  return width == 1 ? loaded : Elements(loaded, bytes);
}

void Buffers::Atomic(spv::Op op, int buffer, Value index, Value word) {
  const Id pointer = ElementPointer(buffer, Kind::kU32, 1, index);
  used_[buffer].read = used_[buffer].written = true;
  // Of one submission; the Vulkan memory model asks for a capability of its own at device scope.
  const spv::Scope all = b_.m.vulkan_memory_model() ? spv::Scope::QueueFamily : spv::Scope::Device;
  const uint32_t scope = b_.U32(static_cast<uint32_t>(all)).id, relaxed = b_.U32(0).id;
  const uint32_t words[] = {pointer, scope, relaxed, word.id};
  b_.m.Emit(op, b_.m.Type(Kind::kU32), words);
}

void Buffers::Store(int buffer, int bytes, Value index, Value bits) {
  if (const auto copy = copies_.find(buffer); copy != copies_.end()) {
    KRAFLA_CHECK(bits.width == 1 && bytes == copy->second.bytes);
    copy->second.stored = true;
    // As it would be read again.
    if (bytes < 4) bits = b_.And(bits, b_.U32(bytes == 1 ? 0xffu : 0xffffu));
    if (bytes == 8) bits = b_.BitcastTo(bits, Kind::kU32, 2);
    const uint32_t words[] = {copy->second.variable, bits.id};
    b_.m.EmitVoid(spv::Op::OpStore, words);
    return;
  }
  if (store_where_) {
    const Value where = std::exchange(store_where_, Value{});
    b_.If(where, [&] { Store(buffer, bytes, index, bits); });
    store_where_ = where;
    return;
  }
  if (const Kept* kept = KeptIn(buffer)) {
    KRAFLA_CHECK(bytes == kept->bytes);
    StoreKept(*kept, index, bits);
    return;
  }
  const uint32_t mask = bytes == 1 ? 0xffu : 0xffffu;
  if (bits.width == 1) {
    switch (bytes) {
      case 1:
      case 2: {
        if (bytes == 1 ? native8() : native16()) {
          StoreView(buffer, index, b_.UConvert(bits, bytes == 1 ? Kind::kU8 : Kind::kU16));
          return;
        }
        // Two atomic operations on the word: each invocation changes its own lane only.
        const Value word = b_.Shr(index, b_.U32(bytes == 1 ? 2 : 1));
        const Value shift = b_.Shl(b_.And(index, b_.U32(bytes == 1 ? 3 : 1)), b_.U32(bytes == 1 ? 3 : 4));
        Atomic(spv::Op::OpAtomicAnd, buffer, word, b_.Not(b_.Shl(b_.U32(mask), shift)));
        Atomic(spv::Op::OpAtomicOr, buffer, word, b_.Shl(b_.And(bits, b_.U32(mask)), shift));
        return;
      }
      case 4: StoreView(buffer, index, bits); return;
      default: StoreView(buffer, index, b_.BitcastTo(bits, Kind::kU32, 2)); return;
    }
  }
  KRAFLA_CHECK(bits.width == 4);
  switch (bytes) {
    case 1:
    case 2:
    case 4: StoreView(buffer, b_.Shr(index, b_.U32(2)), ElementWords(bits, bytes)); return;
    default: {
      const Value at = b_.Shr(index, b_.U32(1));
      static constexpr uint32_t kLow[] = {0, 1}, kHigh[] = {2, 3};
      StoreView(buffer, at, b_.BitcastTo(b_.Shuffle(bits, bits, kLow), Kind::kU32, 4));
      StoreView(buffer, b_.Add(at, b_.U32(1)), b_.BitcastTo(b_.Shuffle(bits, bits, kHigh), Kind::kU32, 4));
      return;
    }
  }
}

}  // namespace krafla::spirv
