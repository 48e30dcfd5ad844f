// SPDX-License-Identifier: Apache-2.0
// Loads and stores of elements that lie side by side, as those of short rows whose reduction is unrolled: each goes
// through memory in steps of a row, but all of them together are a transposition, which has whole vectors.
#include <algorithm>

#include "base/checked_math.h"
#include "cpu_fallback/executor/block_compiler.h"
#include "cpu_fallback/kernels/move.h"

namespace krafla::cpu {

namespace {

// Of fewer elements a side by side there is little to transpose; more are no row of an unrolled reduction.
constexpr std::size_t kLeastParts = 4;
constexpr int64_t kMostParts = 24;

}  // namespace

std::optional<int64_t> BlockProgram::Distance(int access, int next) const {
  const Access &a = accesses_[static_cast<std::size_t>(access)], &b = accesses_[static_cast<std::size_t>(next)];
  if (a.buffer != b.buffer || a.width != b.width || a.row_stride != b.row_stride || a.column_stride != b.column_stride)
    return std::nullopt;
  const Address& from = addresses_[static_cast<std::size_t>(a.address)];
  const Address& to = addresses_[static_cast<std::size_t>(b.address)];
  const bool is_alike = std::ranges::equal(from.terms, to.terms, [](const auto& x, const auto& y) {
    return x.kind == y.kind && x.number == y.number && x.factor == y.factor;
  });
  if (!is_alike) return std::nullopt;
  return to.constant - from.constant;
}

int64_t BlockProgram::LineStride(const Line& line) const {
  // One line of memory further, so that the lines of a cache that parts begin with do not share their place in it.
  constexpr int64_t kLine = 64;
  return (RoundUp(tile_.rows * tile_.columns * line.width, kLine) + kLine) / line.width;
}

void BlockProgram::MoveLine(const Step& step, std::byte* memory, const int64_t* origin, int64_t elements) const {
  const Line& line = lines_[static_cast<std::size_t>(step.line)];
  const Access& a = accesses_[static_cast<std::size_t>(step.access)];
  std::byte* const* slots = SlotPointers(memory);
  std::byte* at = slots[slots_.size() + static_cast<std::size_t>(a.buffer)] +
                  Evaluate(addresses_[static_cast<std::size_t>(a.address)], origin, slots) * a.width;
  const TileStrides in_memory{1, tile_.columns == 1 ? a.row_stride : a.column_stride}, parts{LineStride(line), 1};
  std::byte* registers = *Registers(memory) + line.offset;
  const auto count = static_cast<int64_t>(line.slots.size());
  if (step.kind == Step::Kind::kLoadLine) MoveTile(line.width, at, in_memory, registers, parts, count, elements);
  else MoveTile(line.width, registers, parts, at, in_memory, count, elements);
}

// Whether it is one of a line: of elements that are there, as they are, some steps apart.
bool BlockCompiler::IsOfLine(const Step& s) const {
  if (s.is_uniform || s.access < 0 || (out_.tile_.rows != 1 && out_.tile_.columns != 1)) return false;
  const BlockProgram::Access& a = Item(out_.accesses_, s.access);
  const int64_t stride = out_.tile_.columns == 1 ? a.row_stride : a.column_stride;
  return a.convert == nullptr && a.mask < 0 && a.offsets < 0 && stride >= static_cast<int64_t>(kLeastParts);
}

// The steps of `candidates`, which are in the order of their places, that lie within a row of the first one: by part,
// -1 where none does.
std::vector<int> BlockCompiler::PartsOfLine(std::span<const int> candidates) const {
  const BlockProgram::Access& first = Item(out_.accesses_, Item(out_.tile_steps_, candidates[0]).access);
  const int64_t stride = out_.tile_.columns == 1 ? first.row_stride : first.column_stride;
  std::vector<int> parts;
  for (int c : candidates) {
    const std::optional<int64_t> part =
        out_.Distance(Item(out_.tile_steps_, candidates[0]).access, Item(out_.tile_steps_, c).access);
    if (!part || *part < 0 || *part >= std::min(stride, kMostParts)) continue;
    parts.resize(std::max(parts.size(), static_cast<std::size_t>(*part) + 1), -1);
    if (Item(parts, static_cast<int>(*part)) < 0) Item(parts, static_cast<int>(*part)) = c;
  }
  return parts;
}

void BlockCompiler::MakeLine(Step::Kind kind, const std::vector<int>& parts) {
  auto& steps = out_.tile_steps_;
  const bool is_load = kind == Step::Kind::kLoadLine;
  BlockProgram::Line line;
  // All that is loaded is there with the first of them, all that is stored when the last one is.
  int place = -1;
  for (int p : parts) {
    if (p < 0) {
      line.slots.push_back(-1);
      continue;
    }
    const Step& s = Item(steps, p);
    line.width = Item(out_.accesses_, s.access).width;
    line.slots.push_back(is_load ? s.out : s.in[0]);
    fixed_[static_cast<std::size_t>(line.slots.back())] = true;
    place = place < 0 || (p < place) == is_load ? p : place;
  }
  const Step made{.kind = kind, .access = Item(steps, parts[0]).access, .line = static_cast<int>(out_.lines_.size())};
  for (int p : parts)
    if (p >= 0) Item(steps, p) = {.kind = Step::Kind::kNothing};
  Item(steps, place) = made;
  out_.lines_.push_back(std::move(line));
}

void BlockCompiler::FindLines() {
  auto& steps = out_.tile_steps_;
  // What is stored must be in a register of the tile that nothing else says the place of.
  std::vector<int> uses(out_.slots_.size(), 0);
  std::vector<bool> is_made(out_.slots_.size(), false);
  for (const Step& s : steps) {
    if (s.kind == Step::Kind::kStore) ++Item(uses, s.in[0]);
    if (s.kind == Step::Kind::kOp || s.kind == Step::Kind::kNative)
      out_.ForEachOutput(s, [&](int slot) { is_made[static_cast<std::size_t>(slot)] = true; });
  }
  for (const Step::Kind kind : {Step::Kind::kLoad, Step::Kind::kStore}) {
    const bool is_load = kind == Step::Kind::kLoad;
    std::vector<int> candidates;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const Step& s = steps[i];
      if (s.kind != kind || !IsOfLine(s)) continue;
      const int slot = is_load ? s.out : s.in[0];
      const bool is_free = !fixed_[static_cast<std::size_t>(slot)] && !Item(out_.slots_, slot).is_uniform;
      if (is_free && (is_load || (is_made[static_cast<std::size_t>(slot)] && Item(uses, slot) == 1)))
        candidates.push_back(static_cast<int>(i));
    }
    std::ranges::stable_sort(candidates, {}, [&](int c) {
      return Item(out_.addresses_, Item(out_.accesses_, Item(steps, c).access).address).constant;
    });
    for (std::size_t c = 0; c + kLeastParts <= candidates.size();) {
      const std::vector<int> parts = PartsOfLine(std::span<const int>(candidates).subspan(c));
      const auto found = static_cast<std::size_t>(std::ranges::count_if(parts, [](int p) { return p >= 0; }));
      const bool is_line = found >= kLeastParts && (is_load ? 2 * found >= parts.size() : found == parts.size());
      if (is_line) MakeLine(is_load ? Step::Kind::kLoadLine : Step::Kind::kStoreLine, parts);
      const int first = candidates[c];
      std::erase_if(candidates, [&](int k) { return k == first || (is_line && std::ranges::contains(parts, k)); });
    }
  }
  std::erase_if(steps, [](const Step& s) { return s.kind == Step::Kind::kNothing; });
}

}  // namespace krafla::cpu
