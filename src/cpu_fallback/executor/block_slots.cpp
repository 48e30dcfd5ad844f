// SPDX-License-Identifier: Apache-2.0
// Stores straight from where a value is made, and the places of registers.
#include <algorithm>

#include "cpu_fallback/executor/block_compiler.h"

namespace krafla::cpu {

void BlockCompiler::FindDirectStores() {
  std::vector<bool> from_memory(out_.slots_.size(), false);
  for (const Step& s : out_.tile_steps_)
    if (s.kind == Step::Kind::kParam ||
        (s.kind == Step::Kind::kLoad && Item(out_.accesses_, s.access).convert == nullptr))
      from_memory[static_cast<std::size_t>(s.out)] = true;
  auto& steps = out_.tile_steps_;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step& store = steps[i];
    if (store.kind != Step::Kind::kStore || store.is_uniform) continue;
    const BlockProgram::Access& access = Item(out_.accesses_, store.access);
    if (access.convert != nullptr || access.mask >= 0 || access.offsets >= 0) continue;
    for (std::size_t j = 0; j < i; ++j) {
      Step& op = steps[j];
      const bool makes = op.kind == Step::Kind::kOp || op.kind == Step::Kind::kLoad;
      if (!makes || op.out != store.in[0] || op.direct_store >= 0) continue;
      bool safe = true;
      for (std::size_t k = j + 1; k < steps.size(); ++k) {
        const Step& later = steps[k];
        if (k == i) continue;
        if (later.kind == Step::Kind::kLoad || later.kind == Step::Kind::kNative || later.line >= 0) safe = false;
        out_.ForEachInput(later, [&](int in) {
          if (from_memory[static_cast<std::size_t>(in)]) safe = false;
        });
      }
      // Where it goes to must be known by then.
      for (const BlockProgram::Term& t : Item(out_.addresses_, access.address).terms)
        if (t.kind != BlockProgram::Term::Kind::kIter)
          for (std::size_t k = j; k < steps.size(); ++k)
            if (steps[k].out == t.number) safe = false;
      if (!safe) continue;
      op.direct_store = store.access;
      op.moves = op.kind == Step::Kind::kLoad && CanMove(op, access);
    }
  }
}

bool BlockCompiler::CanMove(const Step& load, const BlockProgram::Access& to) const {
  const BlockProgram::Access& from = Item(out_.accesses_, load.access);
  if (from.convert != nullptr || from.mask >= 0 || from.offsets >= 0 || from.width != to.width ||
      load.direct_store >= 64)
    return false;
  if (to.column_stride != 1 && (from.column_stride != 1 || to.row_stride != 1)) return false;
  const bool is_transposed = from.column_stride != 1 || to.column_stride != 1;
  if (is_transposed && from.width < 4) return false;
  // The same array may lie there, each element at its place; else the two are different.
  if (from.buffer == to.buffer) return false;
  int uses = 0;
  for (const Step& s : out_.tile_steps_) out_.ForEachInput(s, [&](int slot) { uses += slot == load.out ? 1 : 0; });
  for (int slot : out_.results_) uses += slot == load.out ? 1 : 0;
  for (const BlockProgram::Address& address : out_.addresses_)
    for (const BlockProgram::Term& t : address.terms)
      uses += t.kind != BlockProgram::Term::Kind::kIter && t.number == load.out ? 1 : 0;
  return uses == 1;
}

void BlockCompiler::PlaceSlots() {
  auto& slots = out_.slots_;
  const int64_t elements = out_.tile_.rows * out_.tile_.columns;
  int64_t size = RoundUp(static_cast<int64_t>(1 + slots.size() + out_.buffer_count_) * 8, 64);
  auto take = [&](int64_t bytes) {
    int64_t at = size;
    size += RoundUp(bytes, 64);
    return at;
  };
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].is_uniform) {
      slots[i].offset = size;
      size += 16;
    }
  }
  size = RoundUp(size, 64);
  std::vector<bool> is_made(slots.size(), false);
  for (const Step& s : out_.launch_steps_)
    out_.ForEachOutput(s, [&](int slot) { is_made[static_cast<std::size_t>(slot)] = true; });
  for (std::size_t i = 0; i < slots.size(); ++i)
    if (!slots[i].is_uniform && fixed_[i] && is_made[i]) slots[i].offset = take(elements * slots[i].width);
  out_.kept_bytes_ = size;
  size = 0;

  for (BlockProgram::Line& line : out_.lines_) {
    const int64_t bytes = out_.LineStride(line) * line.width;
    line.offset = take(static_cast<int64_t>(line.slots.size()) * bytes);
    for (std::size_t p = 0; p < line.slots.size(); ++p) {
      if (line.slots[p] < 0) continue;
      Item(slots, line.slots[p]).offset = line.offset + static_cast<int64_t>(p) * bytes;
      Item(slots, line.slots[p]).is_kept = false;
    }
  }

  std::vector<int> last_use(slots.size(), -1);
  const auto& steps = out_.tile_steps_;
  auto use = [&](int slot, std::size_t at) {
    if (slot >= 0) Item(last_use, slot) = static_cast<int>(at);
  };
  for (std::size_t i = 0; i < steps.size(); ++i) {
    out_.ForEachInput(steps[i], [&](int slot) { use(slot, i); });
    out_.ForEachOutput(steps[i], [&](int slot) { use(slot, i); });
  }
  for (int r : out_.results_) Item(last_use, r) = static_cast<int>(steps.size());
  std::map<int, std::vector<int64_t>> free_registers;  // by width
  for (std::size_t i = 0; i < steps.size(); ++i) {
    auto release = [&](int slot) {
      if (slot < 0 || Item(slots, slot).is_uniform || fixed_[static_cast<std::size_t>(slot)]) return;
      if (Item(last_use, slot) != static_cast<int>(i) || Item(slots, slot).offset < 0) return;
      auto& list = free_registers[Item(slots, slot).width];
      if (std::find(list.begin(), list.end(), Item(slots, slot).offset) == list.end())
        list.push_back(Item(slots, slot).offset);
    };
    const auto place = [&](int out) {
      if (Item(slots, out).is_uniform || Item(slots, out).offset >= 0 || steps[i].kind == Step::Kind::kParam) return;
      auto& list = free_registers[Item(slots, out).width];
      Item(slots, out).is_kept = false;
      if (list.empty()) {
        Item(slots, out).offset = take(elements * Item(slots, out).width);
      } else {
        Item(slots, out).offset = list.back();
        list.pop_back();
      }
    };
    // A load fills its register before it is done with its mask and its offsets.
    const bool reads_late = steps[i].access >= 0;
    if (!reads_late) out_.ForEachInput(steps[i], release);
    else release(steps[i].in[0]);
    out_.ForEachOutput(steps[i], place);
    if (reads_late) {
      release(Item(out_.accesses_, steps[i].access).mask);
      release(Item(out_.accesses_, steps[i].access).offsets);
    }
    out_.ForEachOutput(steps[i], [&](int out) {
      if (steps[i].kind != Step::Kind::kParam) release(out);
    });
  }
  if (NeedsStaging()) out_.staging_offset_ = take(elements * 8);
  out_.frame_bytes_ = out_.kept_bytes_ + size;
}

bool BlockCompiler::NeedsStaging() const {
  for (const std::vector<Step>* steps : {&out_.launch_steps_, &out_.tile_steps_})
    for (const Step& s : *steps)
      if (s.access >= 0 && Item(out_.accesses_, s.access).convert != nullptr) return true;
  return false;
}

}  // namespace krafla::cpu
