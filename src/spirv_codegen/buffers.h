// SPDX-License-Identifier: Apache-2.0
// How a kernel reaches its buffers. With buffer device addresses the push constants begin with the 8-byte address of a
// row of 64-bit addresses, one a buffer; otherwise the buffers that are touched are bindings 0, 1, .. of set 0. Elements are read and
// written as unsigned words, so that a move never changes bits: 8 and 16 bits natively where the device has such
// storage, else through the 32-bit word around them. Every buffer starts at a multiple of 16 bytes and may be read and
// written up to the next multiple of 16 bytes after its end.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "spirv_codegen/builder.h"

namespace krafla::spirv {

struct BufferDesc {
  int64_t element_count = 0;
  int element_bytes = 4;
  bool written = false;
};

class Buffers {
 public:
  // `push_words`: u32 words that follow in the push constants.
  Buffers(Builder& builder, std::vector<BufferDesc> descs, int push_words = 0);

  bool uses_addresses() const { return addresses_; }
  int64_t element_count(int buffer) const { return descs_[static_cast<std::size_t>(buffer)].element_count; }
  int element_bytes(int buffer) const { return descs_[static_cast<std::size_t>(buffer)].element_bytes; }

  // `width` (1 or 4) elements of `bytes` from element `index`, a multiple of `width`: zero-extended u32 or, for 8
  // bytes, `kind64` (u64 or f64).
  Value Load(int buffer, int bytes, Value index, int width, Kind kind64 = Kind::kU64);
  void Store(int buffer, int bytes, Value index, Value bits);
  // 32-bit words: 1, 2 or 4 from word `index * width`.
  Value LoadWords(int buffer, Value index, int width);
  void StoreWords(int buffer, Value index, Value words);

  Value PushWord(int number);
  // Buffers touched so far, by rising number: the descriptor bindings in order.
  const std::vector<int>& used() const { return used_; }
  // Numbers the descriptors; after the last access.
  void Finish();

 private:
  Value LoadView(int buffer, Kind kind, int width, Value index);
  void StoreView(int buffer, Value index, Value value);
  Id ElementPointer(int buffer, Kind kind, int width, Value index);
  Id View(int buffer, Kind kind, int width);
  spv::StorageClass storage() const {
    return addresses_ ? spv::StorageClass::PhysicalStorageBuffer : spv::StorageClass::StorageBuffer;
  }
  Id PushVariable();
  bool native8() const { return b_.m.profile().features.storage8; }
  bool native16() const { return b_.m.profile().features.storage16; }
  void Touch(int buffer);

  Builder& b_;
  std::vector<BufferDesc> descs_;
  int push_words_;
  bool addresses_;
  Id push_variable_ = 0;
  Id row_ = 0;
  std::map<int, Value> address_;
  std::map<std::tuple<int, Kind, int>, Id> views_;
  std::map<int, Value> push_values_;
  std::vector<int> used_;
};

}  // namespace krafla::spirv
