// SPDX-License-Identifier: Apache-2.0
// How a kernel reaches its buffers. Those that it touches are numbered 0, 1, ..: with buffer device addresses the push
// constants begin with the address of a row of 64-bit addresses, one a buffer; otherwise they are the bindings of
// descriptor set 0. Words of the kernel's own follow at byte 8. Elements are read and written as unsigned words, so
// that a move never changes bits: 8 and 16 bits natively where the device has such storage, else through the 32-bit
// word around them. Every buffer starts at a multiple of 16 bytes and may be read and written up to the next multiple
// of 16 bytes after its end.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "device/tuning.h"
#include "spirv_codegen/builder.h"

namespace krafla::spirv {

struct BufferDesc {
  int64_t element_count = 0;
  int element_bytes = 4;
  bool written = false;
};

// Whether elements of so many bytes are loaded and stored as such, and not as parts of words. A cast from an address to
// a pointer at 8- or 16-bit elements counts as arithmetic on them (spirv-val).
inline bool StoresAlone(const DeviceFeatures& features, int bytes) {
  const bool addresses = features.buffer_device_address;
  if (bytes == 1) return features.storage8 && (!addresses || features.int8);
  if (bytes == 2) return features.storage16 && (!addresses || features.int16);
  return true;
}

class Buffers {
 public:
  // `push_words`: u32 words that follow in the push constants.
  Buffers(Builder& builder, std::vector<BufferDesc> descs, const MemoryTuning& tuning, int push_words = 0);

  bool uses_addresses() const { return addresses_; }
  int64_t element_count(int buffer) const { return descs_[static_cast<std::size_t>(buffer)].element_count; }
  int element_bytes(int buffer) const { return descs_[static_cast<std::size_t>(buffer)].element_bytes; }

  // `width` (1 or 4) elements of `bytes` from element `index`, a multiple of `width`: zero-extended u32 or, for 8
  // bytes, `kind64` (u64 or f64).
  Value Load(int buffer, int bytes, Value index, int width, Kind kind64 = Kind::kU64);
  void Store(int buffer, int bytes, Value index, Value bits);
  // Four elements of 1 or 2 bytes from element `index` on, which is any: by the words that hold them. Those past the
  // end have any bits.
  Value LoadFromAny(int buffer, int bytes, Value index);
  bool reads_words_around() const { return words_around_; }  // that is faster than an element each
  // Four elements of up to 4 bytes, zero-extended, from the as many words that hold them, and back: what lies above
  // their bits is left out.
  Value Elements(Value words, int bytes);
  Value ElementWords(Value bits, int bytes);
  // The atomic operation `op` with a word, whose order among others of this kernel does not matter.
  void Atomic(spv::Op op, int buffer, Value index, Value word);
  // 32-bit words: 1, 2 or 4 from word `index * width`.
  Value LoadWords(int buffer, Value index, int width);
  void StoreWords(int buffer, Value index, Value words);
  // Where words lie, in bytes: the sum of these parts, each of them at least 0 and a multiple of `alignment` (4, 8 or
  // 16). Apart from each other drivers fold them into instructions.
  struct Place {
    Value uniform;  // the same in all invocations; may be empty
    Value lane;
    uint32_t constant = 0;
    int alignment = 4;
  };
  // 1, 2 or 4 words of a buffer that nothing writes while the kernel runs.
  Value LoadWordsAt(int buffer, const Place& place, int width);
  // A pointer at such a buffer's element `index` of 1 or 2 bytes, for what reads from there on by itself. Where the
  // device has storage of such elements (StoresAlone).
  Id PointerAt(int buffer, int bytes, Value index);
  // As Load, of such a buffer.
  Value LoadConstant(int buffer, int bytes, Value index, int width, Kind kind64 = Kind::kU64);

  // What invocations of a workgroup store, others of it see after a BufferBarrier. Before the first access.
  void MakeCoherent() { coherent_ = true; }
  // From here on a buffer of elements of up to 4 bytes lies in memory that a workgroup shares, an element in a word,
  // and is not stored. Atomic operations do not reach it.
  void KeepInWorkgroup(int buffer);
  // From here on each invocation has a copy of its own of a buffer of one element, as all of them compute it alike.
  void KeepCopies(int buffer);
  // Puts the copies that were stored to back into their buffers.
  void StoreCopies();
  // The same of a value that begins as `bits`; what becomes of it the caller reads by Load. Nothing is stored.
  void KeepValue(int buffer, Value bits);
  // While `body` is made, buffers are stored to where `condition` holds; copies in any case.
  void StoreWhere(Value condition, const std::function<void()>& body);

  Value PushWord(int number);
  struct Use {
    int buffer = 0;
    bool read = false, written = false;
  };
  // Numbers the buffers touched, by rising number; after the last access.
  std::vector<Use> Finish();

 private:
  int64_t PaddedBytes(int buffer) const;  // up to where it may be read
  Value LoadView(int buffer, Kind kind, int width, Value index);
  void StoreView(int buffer, Value index, Value value);
  Id ElementPointer(int buffer, Kind kind, int width, Value index);
  Id View(int buffer, Kind kind, int width);
  Id ViewPointer(Kind kind, int width);
  Value Address(int buffer);
  spv::StorageClass storage() const {
    return addresses_ ? spv::StorageClass::PhysicalStorageBuffer : spv::StorageClass::StorageBuffer;
  }
  Id PushVariable();
  bool native8() const { return StoresAlone(features(), 1); }
  bool native16() const { return StoresAlone(features(), 2); }
  const DeviceFeatures& features() const { return b_.m.profile().features; }

  struct Copy {
    Id variable = 0;
    int bytes = 4;
    bool stored = false;
  };
  Value LoadCopy(const Copy& copy, Kind kind64);
  struct Kept {
    Id array = 0;
    int bytes = 4;
  };
  const Kept* KeptIn(int buffer) const;
  Value LoadKept(const Kept& kept, Value index, int width);
  void StoreKept(const Kept& kept, Value index, Value bits);
  // Words of a kept buffer, as they would lie in it.
  Value LoadKeptWords(const Kept& kept, Value first, int width);

  Builder& b_;
  std::vector<BufferDesc> descs_;
  int push_words_;
  bool addresses_;
  bool in_pairs_;  // of words: vectors are read and written as 64-bit ones
  bool words_around_;
  Id push_variable_ = 0;
  std::map<std::tuple<int, Kind, int>, Id> views_;
  std::map<int, Id> addresses64_;  // of buffers, as 64-bit integers
  std::set<Id> constant_structs_;
  std::map<int, Value> push_values_;
  std::map<int, Use> used_;
  bool coherent_ = false;
  std::set<Id> coherent_structs_;
  std::map<int, Copy> copies_;
  std::map<int, Kept> kept_;
  Value store_where_;
};

}  // namespace krafla::spirv
